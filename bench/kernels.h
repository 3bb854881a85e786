/* The kernels of kernels.c on a rig and in qemu-riscv32, for the benches of the handler processor.
 */
#ifndef BENCH_KERNELS_H
#define BENCH_KERNELS_H

#include <spawn.h>

#include "hpu/rig.h"
#include "measure.h"
#include "openspin.h"

extern char **environ;

#define KERNEL_ARENA_BYTES (1 << 16)

static inline __attribute__((noreturn)) void die(const char *what) {
    fprintf(stderr, "bench: %s\n", what);
    exit(1);
}

struct machine {
    struct spin_rig *rig;
    struct spin_call call;
};

static inline struct machine make(const struct spin_image *image, bool functional,
                                  enum spin_jit jit, uint32_t variant) {
    struct machine m = {.call.kind = SPIN_OTHER_FUNCTION};
    struct spin_error err;
    struct spin_rig_options options = {.functional = functional,
                                       .state_bytes = KERNEL_ARENA_BYTES,
                                       .budget = UINT64_MAX,
                                       .jit = jit};
    if (rig_new(&m.rig, image, &options, variant, &err))
        die(err.text);
    uint32_t bytes;
    spin_rig_memory(m.rig, SPIN_STATE, &bytes, &m.call.argument[1]);
    return m;
}

static inline struct spin_outcome call(struct machine *m, const struct spin_image *image,
                                       const char *name, uint64_t repeat) {
    const struct spin_function *f;
    struct spin_outcome r;
    struct spin_error err;
    if (spin_image_find(image, name, &f, &err))
        die(err.text);
    m->call.entry = f->address;
    m->call.argument[0] = (uint32_t)repeat;
    if (spin_rig_call(m->rig, &m->call, &r, &err))
        die(err.text);
    if (r.ending != SPIN_RETURNED)
        die("a kernel was ended");
    return r;
}

/* CPU seconds, and the low bits of the result; negative where there is no qemu-riscv32. */
static inline double qemu_seconds(const char *program, size_t kernel, uint64_t repeat,
                                  uint32_t *result) {
    char index[8], times[24];
    snprintf(index, sizeof index, "%zu", kernel);
    snprintf(times, sizeof times, "%llu", (unsigned long long)repeat);
    char *const argv[] = {"qemu-riscv32", (char *)(uintptr_t)program, index, times, NULL};
    pid_t child;
    int status;
    struct rusage used;
    if (posix_spawnp(&child, argv[0], NULL, NULL, argv, environ) != 0)
        return -1;
    if (wait4(child, &status, 0, &used) < 0 || !WIFEXITED(status))
        die("qemu-riscv32 did not end well");
    *result = (uint32_t)WEXITSTATUS(status);
    return (double)(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
           (double)(used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e-6;
}

/* The same without what it takes to start: the least of some runs less the least of some that do
 * nothing. */
static inline double qemu_round_seconds(const char *program, size_t kernel, uint64_t repeat,
                                        uint32_t *result) {
    double best[2] = {1e9, 1e9};
    for (int i = 0; i < 6; i++) {
        double s = qemu_seconds(program, kernel, i & 1 ? repeat : 0, result);
        if (s < 0)
            return -1;
        best[i & 1] = s < best[i & 1] ? s : best[i & 1];
    }
    return best[1] - best[0];
}

/* What a card does for each packet: the packet's window, registers and watchdog, run, result. */
static inline double call_ns(const struct spin_image *image, const char *name, bool functional,
                             enum spin_jit jit, uint64_t *instructions) {
    struct machine m = make(image, functional, jit, 0);
    const int times = 1000000;
    double best = 1e9;
    call(&m, image, "kernel_setup", 0);
    for (int i = 0; i < 100; i++)
        *instructions = call(&m, image, name, 1).instructions;
    struct hpu *h = &m.rig->hpu;
    for (int round = 0; round < 7; round++) {
        double start = bench_cpu_seconds();
        for (int i = 0; i < times; i++) {
            hpu_size_window(&h->window[INVOKE_PACKET], 64 + ((uint32_t)i & 1023), true);
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

#endif
