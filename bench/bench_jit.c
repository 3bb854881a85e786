/* Generated code beside what the host's compiler makes of the same C, the interpreter and
 * qemu-riscv32, in one run: kernels, and the handlers of the tree (handlers.c) with the time it
 * takes to compile each; and what a call costs. Usage: bench-jit IMAGE LINUX_PROGRAM BUILD. */
#include <math.h>

#include "handlers.h"
#include "hpu/jit_private.h"
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

/* Seconds for `repeat` rounds, from the same memory every time; and the result's low bits, which
 * must be the same in all ways. */
static double rig_seconds(struct machine *m, size_t k, uint64_t repeat,
                          const struct spin_image *image, uint32_t *result) {
    char name[40];
    snprintf(name, sizeof name, "kernel_%s", kernels[k].name);
    call(m, image, "kernel_setup", 0);
    double start = bench_cpu_seconds();
    *result = (uint32_t)call(m, image, name, repeat).value & 127;
    return bench_cpu_seconds() - start;
}

static double seconds_in(int way, size_t k, uint64_t repeat, struct machine *m,
                         const struct spin_image *image, const char *linux_program,
                         uint32_t *result) {
    static _Alignas(64) uint8_t arena[KERNEL_ARENA_BYTES];
    if (way == QEMU)
        return qemu_round_seconds(linux_program, k, repeat, result);
    if (way != NATIVE)
        return rig_seconds(&m[way], k, repeat, image, result);
    kernel_setup(0, arena);
    double start = bench_cpu_seconds();
    *result = kernels[k].native((uint32_t)repeat, arena) & 127;
    return bench_cpu_seconds() - start;
}

static void kernel_table(const struct spin_image *image, const char *linux_program) {
    struct machine m[WAYS] = {[JIT] = make(image, true, SPIN_JIT_FORCE, 0),
                              [TIMED_JIT] = make(image, false, SPIN_JIT_FORCE, 0),
                              [INTERPRETER] = make(image, true, SPIN_JIT_OFF, 0),
                              [TIMED_INTERPRETER] = make(image, false, SPIN_JIT_OFF, 0)};
    double sum[WAYS] = {0};
    bool beaten = true;
    printf("kernels: nanoseconds per round, best of 5, and times native\n%-10s", "");
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

/* ---- what the sandbox costs ---- */

enum { CHECKS, GUARD_PAGES, NO_SANDBOX, SANDBOXES, COLUMNS = 2 * SANDBOXES }; /* and timed */

/* With checks until it is known where the kernel's accesses go, then as asked. */
static void warm_up(struct machine *m, size_t k, const struct spin_image *image,
                    enum jit_sandbox sandbox) {
    uint32_t result;
    jit_set_sandbox(m->rig->code, JIT_CHECKS);
    for (int n = 0; n < 400; n++) {
        if (n == 200)
            jit_set_sandbox(m->rig->code, sandbox);
        rig_seconds(m, k, 20, image, &result);
    }
}

static void sandbox_row(struct machine *m, size_t k, const struct spin_image *image, double *sum) {
    static const enum jit_sandbox kind[SANDBOXES] = {JIT_CHECKS, JIT_VIEWS, JIT_UNPROTECTED};
    double best[COLUMNS];
    uint32_t result[COLUMNS];
    char name[40];
    snprintf(name, sizeof name, "kernel_%s", kernels[k].name);
    uint64_t repeat = 10 * 100000000ull / call(&m[0], image, name, 10).instructions;
    for (int i = 0; i < COLUMNS; i++) {
        best[i] = 1e9;
        warm_up(&m[i], k, image, kind[i % SANDBOXES]);
    }
    for (int n = 0; n < 9; n++) /* in turns: noise comes in stretches */
        for (int i = 0; i < COLUMNS; i++) {
            double s = rig_seconds(&m[i], k, repeat, image, &result[i]);
            best[i] = s < best[i] ? s : best[i];
        }
    printf("%-10s", kernels[k].name);
    for (int i = 0; i < COLUMNS; i++) {
        double ratio = best[i] / best[i / SANDBOXES * SANDBOXES + NO_SANDBOX];
        printf(i % SANDBOXES == NO_SANDBOX ? " %8.2f  " : " %7.2f %4.2fx",
               best[i] / (double)repeat * 1e9, ratio);
        sum[i] += log(ratio);
        if (result[i] != result[0])
            die("results differ");
    }
    printf("\n");
    fflush(stdout);
}

/* The kernels with each kind of sandbox and without one, functional and timed. */
static void sandbox_table(const struct spin_image *image) {
    struct machine m[COLUMNS];
    double sum[COLUMNS] = {0};
    for (int i = 0; i < COLUMNS; i++)
        m[i] = make(image, i < SANDBOXES, SPIN_JIT_FORCE, 1 + (uint32_t)i);
    printf("what the sandbox costs: nanoseconds per round, best of 9, and times the code without "
           "one\n%-10s %13s %13s %8s   %13s %13s %8s\n",
           "", "checks", "guard pages", "none", "timed: checks", "guard pages", "none");
    for (size_t k = 0; k < COUNT; k++)
        sandbox_row(m, k, image, sum);
    printf("%-10s", "geo. mean");
    for (int i = 0; i < COLUMNS; i++)
        printf(i % SANDBOXES == NO_SANDBOX ? " %8s  " : " %7s %4.2fx", "", exp(sum[i] / COUNT));
    for (int i = GUARD_PAGES; i < COLUMNS; i += SANDBOXES) {
        struct hpu_jit_stats stats = hpu_jit_stats(m[i].rig->code);
        printf(
            "\n%s: %u accesses that page protection checks, %llu faults to learn which cannot be",
            i < SANDBOXES ? "functional" : "timed", stats.guarded,
            (unsigned long long)stats.guard_faults);
    }
    printf("\n\n");
    for (int i = 0; i < COLUMNS; i++)
        spin_rig_free(m[i].rig);
}

/* ---- what a call costs ---- */

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
    spin_guard_pages(SPIN_GUARDS_INSTALL);
    kernel_table(image, argv[2]);
    sandbox_table(image);
    call_table(image);
    handler_table(argv[3]);
    spin_image_free(image);
    return 0;
}
