/* Generated code beside what the host's compiler makes of the same C, the interpreter and
 * qemu-riscv32, in one run: kernels, and the handlers of the tree (handlers.c) with the time it
 * takes to compile each; and what a call costs. Usage: bench-jit IMAGE LINUX_PROGRAM BUILD. */
#include <math.h>

#include "handlers.h"
#include "hpu/rig.h"
#include "kernels.h"

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

int main(int argc, char **argv) {
    struct spin_image *image;
    struct spin_error err;
    if (argc != 4)
        die("usage: bench-jit IMAGE LINUX_PROGRAM BUILD");
    if (spin_image_load(&image, argv[1], NULL, &err))
        die(err.text);
    bench_machine();
    kernel_table(image, argv[2]);
    call_table(image);
    handler_table(argv[3]);
    spin_image_free(image);
    return 0;
}
