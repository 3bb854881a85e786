/* Generated code beside what the host's compiler makes of the same C, the interpreter and
 * qemu-riscv32, in one run; what a call costs; and the handlers of the tree with the time it takes
 * to compile each. Usage: bench-jit IMAGE LINUX_PROGRAM IMAGES. */
#include <math.h>

#include "hpu/jit.h"
#include "hpu/rig.h"
#include "kernels.h"
#include "workload.h"

typedef uint32_t kernel(uint32_t repeat, void *arena);
#define KERNELS(X) X(crc32) X(gf256) X(sum32) X(copy) X(hash) X(handler)
#define ROW(name)  extern kernel kernel_##name;
KERNELS(ROW)
#undef ROW
extern void kernel_setup(uint32_t repeat, void *arena);
extern kernel call_empty, call_60;

static const struct {
    const char *name;
    kernel *native;
} kernels[] = {
#define ROW(name) {#name, kernel_##name},
    KERNELS(ROW)
#undef ROW
};
#define COUNT (sizeof kernels / sizeof kernels[0])

/* Ways to run a kernel: columns of the table. */
enum { NATIVE, JIT, TIMED_JIT, QEMU, INTERPRETER, TIMED_INTERPRETER, WAYS };
static const char *const way_name[WAYS] = {"native",       "JIT",         "timed JIT",
                                           "qemu-riscv32", "interpreter", "timed interp."};

/* Seconds for `repeat` rounds in one way, from the same memory every time; and the result's low
 * bits, which must be the same. */
static double seconds_in(int way, size_t k, uint64_t repeat, struct machine *m,
                         const struct spin_image *image, const char *linux_program,
                         uint32_t *result) {
    static _Alignas(64) uint8_t arena[KERNEL_ARENA_BYTES];
    char name[40];
    snprintf(name, sizeof name, "kernel_%s", kernels[k].name);
    if (way == QEMU) {
        double nothing = qemu_seconds(linux_program, k, 0, result);
        return nothing < 0 ? -1 : qemu_seconds(linux_program, k, repeat, result) - nothing;
    }
    if (way == NATIVE)
        kernel_setup(0, arena);
    else
        call(&m[way], image, "kernel_setup", 0);
    double start = bench_cpu_seconds();
    *result = way == NATIVE ? kernels[k].native((uint32_t)repeat, arena)
                            : (uint32_t)call(&m[way], image, name, repeat).value;
    *result &= 127;
    return bench_cpu_seconds() - start;
}

static void kernel_table(const struct spin_image *image, const char *linux_program) {
    struct machine m[WAYS] = {[JIT] = make(image, true, SPIN_JIT_FORCE),
                              [TIMED_JIT] = make(image, false, SPIN_JIT_FORCE),
                              [INTERPRETER] = make(image, true, SPIN_JIT_OFF),
                              [TIMED_INTERPRETER] = make(image, false, SPIN_JIT_OFF)};
    double sum[WAYS] = {0};
    bool beaten = true;
    printf("kernels: nanoseconds a round, best of 5, and times native\n%-10s", "");
    for (int way = 0; way < WAYS; way++)
        printf(" %12s %5s", way_name[way], way == NATIVE ? "" : "");
    printf("\n");
    for (size_t k = 0; k < COUNT; k++) {
        char name[40];
        snprintf(name, sizeof name, "kernel_%s", kernels[k].name);
        call(&m[INTERPRETER], image, "kernel_setup", 0);
        uint64_t repeat = 10 * 100000000ull / call(&m[INTERPRETER], image, name, 10).instructions;
        double best[WAYS];
        uint32_t result[WAYS];
        for (int way = 0; way < WAYS; way++) {
            best[way] = 1e9;
            for (int i = 0; i < (way == NATIVE ? 1 : 4); i++) /* and compile what is hot */
                if (way == JIT || way == TIMED_JIT)
                    for (int n = 0; n < 50; n++)
                        seconds_in(way, k, 20, m, image, linux_program, &result[way]);
        }
        for (int i = 0; i < 5; i++) /* in turns: noise comes in stretches */
            for (int way = 0; way < WAYS; way++) {
                double s = seconds_in(way, k, repeat, m, image, linux_program, &result[way]);
                best[way] = s < best[way] ? s : best[way];
            }
        printf("%-10s", kernels[k].name);
        for (int way = 0; way < WAYS; way++) {
            printf(" %12.2f %4.2fx", best[way] / (double)repeat * 1e9, best[way] / best[NATIVE]);
            sum[way] += log(best[way] / best[NATIVE]);
            if (best[way] > 0 && result[way] != result[NATIVE])
                die("results differ");
        }
        printf("\n");
        fflush(stdout);
        beaten &= best[QEMU] < 0 || best[JIT] < best[QEMU];
    }
    printf("%-10s", "geo. mean");
    for (int way = 0; way < WAYS; way++)
        printf(" %12s %4.2fx", "", exp(sum[way] / COUNT));
    printf("\nbars: JIT at most 1.5 and faster than qemu on each (%s), timed JIT at most 2.5\n\n",
           beaten ? "it is" : "it is not");
    for (int way = 0; way < WAYS; way++)
        spin_rig_free(m[way].rig);
}

/* ---- what a call costs ---- */

/* What a card does for each packet: the packet's window, registers and watchdog, run, result. */
static double call_ns(const struct spin_image *image, const char *name, bool functional,
                      enum spin_jit jit, uint64_t *instructions) {
    struct machine m = make(image, functional, jit);
    const int times = 1000000;
    double best = 1e9;
    call(&m, image, "kernel_setup", 0);
    for (int i = 0; i < 100; i++)
        *instructions = call(&m, image, name, 1).instructions;
    struct hpu *h = &m.rig->hpu;
    for (int round = 0; round < 7; round++) {
        double start = bench_cpu_seconds();
        for (int i = 0; i < times; i++) {
            hpu_size_window(&h->window[m.rig->packet_window], 64 + ((uint32_t)i & 1023), true);
            hpu_start(h, m.call.entry, MAP_L1_ALIAS + MAP_L1_RUNTIME + MAP_STACK_SIZE, 1000000);
            h->x[10] = (uint32_t)i;
            h->x[11] = m.call.argument[1];
            if (hpu_run(h, UINT64_MAX) != HPU_DONE)
                die("a call was ended");
        }
        double ns = (bench_cpu_seconds() - start) / times * 1e9;
        best = ns < best ? ns : best;
    }
    spin_rig_free(m.rig);
    return best;
}

static void call_table(const struct spin_image *image) {
    static const struct {
        const char *name;
        double bar;
    } rows[] = {{"call_empty", 15}, {"call_60", 25}};
    printf("a call, all in: nanoseconds, best of 7\n%-12s %12s %8s %10s %12s %14s %6s\n", "",
           "instructions", "JIT", "timed JIT", "interpreter", "timed interp.", "bar");
    for (int i = 0; i < 2; i++) {
        uint64_t n;
        double ns[4];
        for (int way = 0; way < 4; way++)
            ns[way] = call_ns(image, rows[i].name, way % 2 == 0,
                              way < 2 ? SPIN_JIT_FORCE : SPIN_JIT_OFF, &n);
        printf("%-12s %12llu %8.1f %10.1f %12.1f %14.1f %6.0f\n", rows[i].name,
               (unsigned long long)n, ns[0], ns[1], ns[2], ns[3], rows[i].bar);
    }
    printf("\n");
}

/* ---- the handlers of the tree ---- */

struct handler_row {
    double ns[4]; /* JIT, timed JIT, and both interpreted */
    uint64_t instructions;
    struct hpu_jit_stats stats[2]; /* of the first time that it is compiled */
};

static void fill(struct spin_rig *rig, enum spin_space space, const void *content,
                 uint32_t length) {
    uint32_t bytes, address;
    uint8_t *memory = spin_rig_memory(rig, space, &bytes, &address);
    if (content && memory && length <= bytes)
        memcpy(memory, content, length);
}

static double handler_ns(const struct workload_context *c, const struct spin_image *image,
                         struct spin_call *call, int way, struct handler_row *row) {
    struct spin_error err;
    struct spin_rig *rig;
    struct spin_outcome r;
    struct spin_rig_options o = {.functional = way % 2 == 0,
                                 .state_in_l2 = true,
                                 .budget = 1u << 30,
                                 .state_bytes = c->handler_bytes ? c->handler_bytes : 64,
                                 .host_bytes = c->host_bytes,
                                 .scratchpad_bytes = c->scratchpad_bytes,
                                 .jit = way < 2 ? SPIN_JIT_FORCE : SPIN_JIT_OFF};
    if (spin_rig_new(&rig, image, &o, &err))
        die(err.text);
    fill(rig, SPIN_STATE, c->handler_memory, c->handler_bytes);
    fill(rig, SPIN_ME_HOST, c->host_memory, c->host_bytes);
    for (int i = 0; i < WORKLOAD_CLUSTERS; i++)
        fill(rig, (enum spin_space)(SPIN_SCRATCHPAD + i), c->scratchpad, c->scratchpad_bytes);
    double best = 1e9;
    for (int round = 0; round < 6; round++) { /* the first compiles */
        int times = round ? 3000 : 200;
        double start = bench_cpu_seconds();
        for (int i = 0; i < times; i++)
            if (spin_rig_call(rig, call, &r, &err) || r.ending != SPIN_RETURNED)
                die("a handler was ended");
        double ns = (bench_cpu_seconds() - start) / times * 1e9;
        best = round && ns < best ? ns : best;
    }
    row->instructions = r.instructions;
    if (way < 2)
        row->stats[way] = hpu_jit_stats(rig->code);
    spin_rig_free(rig);
    return best;
}

static void handler_of(const struct workload *w, const char *folder) {
    struct workload_run *run;
    struct workload_packet p;
    struct spin_error err;
    struct spin_image *image;
    const struct spin_function *f;
    struct handler_row row = {0};
    char path[4096];
    if (workload_open(&run, w->name, NULL, 0, 1, &err) || !workload_next(run, &p))
        die(w->name);
    const struct workload_context *c = workload_context(run);
    snprintf(path, sizeof path, "%s/%s.spin", folder, c->image);
    if (spin_image_load(&image, path, NULL, &err) ||
        spin_image_find(image, c->payload ? c->payload : c->header, &f, &err))
        die(err.text);
    struct spin_call call = {
        .entry = f->address, .kind = SPIN_PSPIN_HANDLER, .packet = p.data, .packet_bytes = p.bytes};
    for (int way = 0; way < 4; way++)
        row.ns[way] = handler_ns(c, image, &call, way, &row);
    printf("%-15s %8llu %9.1f %9.1f %9.1f %9.1f %6.1fx %6.1fx", w->name,
           (unsigned long long)row.instructions, row.ns[0], row.ns[1], row.ns[2], row.ns[3],
           row.ns[2] / row.ns[0], row.ns[3] / row.ns[1]);
    for (int i = 0; i < 2; i++)
        printf("  %6.1f in %u", (double)row.stats[i].most_ns * 1e-6, row.stats[i].functions);
    for (int i = 0; i < 2; i++) { /* packets until all compiling is earned back */
        double gain = row.ns[2 + i] - row.ns[i];
        if (gain > 0)
            printf(" %9.0f", (double)row.stats[i].compile_ns / gain);
        else
            printf(" %9s", "never");
    }
    printf("\n");
    fflush(stdout);
    spin_image_free(image);
    workload_close(run);
}

static void handler_table(const char *folder) {
    printf(
        "payload handlers of the workloads on their first packet, with the rig's copy of it:\n"
        "nanoseconds a call, best of 5; CPU milliseconds of the longest compilation, and how many "
        "(bar: 20);\npackets until the time for all of them is earned back\n");
    printf("%-15s %8s %9s %9s %9s %9s %7s %7s  %-24s %9s %9s\n", "", "instr.", "JIT", "timed",
           "interp.", "timed int.", "speed", "timed", "compile JIT, timed", "earned", "timed");
    for (unsigned i = 0; workload_at(i); i++)
        handler_of(workload_at(i), folder);
}

int main(int argc, char **argv) {
    struct spin_image *image;
    struct spin_error err;
    if (argc != 4)
        die("usage: bench-jit IMAGE LINUX_PROGRAM IMAGES");
    if (spin_image_load(&image, argv[1], NULL, &err))
        die(err.text);
    bench_machine();
    kernel_table(image, argv[2]);
    call_table(image);
    handler_table(argv[3]);
    spin_image_free(image);
    return 0;
}
