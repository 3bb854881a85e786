/* Instructions per second of the interpreter, functional and timed, against qemu-riscv32 on the
 * same kernels in one run; and what a call costs. */
#include <math.h>

#include "kernels.h"

static const char *const kernels[] = {"crc32", "gf256", "sum32", "copy", "hash", "handler"};
#define KERNELS (sizeof kernels / sizeof kernels[0])

/* Repetitions that run long enough to be measured. */
static uint64_t calibrate(struct machine *m, const struct spin_image *image, const char *name) {
    struct spin_outcome one = call(m, image, name, 10);
    return 10 * 300000000ull / one.instructions;
}

static double mips(struct machine *m, const struct spin_image *image, const char *name,
                   uint64_t repeat, uint64_t *instructions, uint32_t *result) {
    double best = 0;
    for (int i = 0; i < 3; i++) {
        double start = bench_cpu_seconds();
        struct spin_outcome r = call(m, image, name, repeat);
        double rate = (double)r.instructions / (bench_cpu_seconds() - start) / 1e6;
        *instructions = r.instructions;
        *result = (uint32_t)r.value & 127;
        if (rate > best)
            best = rate;
    }
    return best;
}

static void per_call(const struct spin_image *image, const char *name, bool functional) {
    uint64_t instructions;
    double ns = call_ns(image, name, functional, SPIN_JIT_OFF, &instructions);
    printf("%-12s %-10s %4llu instructions %8.1f ns per call\n", name,
           functional ? "functional" : "timed", (unsigned long long)instructions, ns);
}

int main(int argc, char **argv) {
    if (argc != 3)
        die("usage: hpu_bench IMAGE LINUX_PROGRAM");
    struct spin_image *image;
    struct spin_error err;
    if (spin_image_load(&image, argv[1], NULL, &err))
        die(err.text);
    bench_machine();
    printf("million instructions per second, best of 3\n\n");
    printf("%-10s %12s %12s %12s %12s %10s %10s\n", "kernel", "per repeat", "functional", "timed",
           "qemu", "func/qemu", "timed/func");
    struct machine f = make(image, true, SPIN_JIT_OFF, 0), t = make(image, false, SPIN_JIT_OFF, 0);
    double log_f = 0, log_t = 0, log_q = 0;
    bool with_qemu = true;
    for (size_t k = 0; k < KERNELS; k++) {
        char name[40];
        snprintf(name, sizeof name, "kernel_%s", kernels[k]);
        call(&f, image, "kernel_setup", 0);
        call(&t, image, "kernel_setup", 0);
        uint64_t repeat = calibrate(&f, image, name), n, n2;
        call(&f, image, "kernel_setup", 0); /* all three start from the same memory */
        uint32_t ours, again, theirs = 0;
        double fast = mips(&f, image, name, repeat, &n, &ours);
        double timed = mips(&t, image, name, repeat, &n2, &again);
        double seconds = qemu_round_seconds(argv[2], k, repeat, &theirs);
        double qemu = seconds >= 0 ? (double)n / seconds / 1e6 : 0;
        with_qemu &= qemu > 0;
        if (n != n2)
            die("functional and timed disagree on the number of instructions");
        printf("%-10s %12.1f %12.0f %12.0f %12.0f %10.2f %10.2f\n", kernels[k],
               (double)n / (double)repeat, fast, timed, qemu, qemu > 0 ? fast / qemu : 0,
               timed / fast);
        log_f += log(fast);
        log_t += log(timed);
        log_q += qemu > 0 ? log(qemu) : 0;
        fflush(stdout);
    }
    double gf = exp(log_f / KERNELS), gt = exp(log_t / KERNELS), gq = exp(log_q / KERNELS);
    printf("%-10s %12s %12.0f %12.0f %12.0f %10.2f %10.2f\n\n", "geo. mean", "", gf, gt,
           with_qemu ? gq : 0, with_qemu ? gf / gq : 0, gt / gf);
    per_call(image, "call_empty", true);
    per_call(image, "call_empty", false);
    per_call(image, "call_50", true);
    per_call(image, "call_50", false);
    printf("\nanchors (2.8 GHz Xeon): libriscv's interpreter 703 in the geometric mean; bars: "
           "functional above that\nand at least 0.25 of qemu, timed at least 0.5 of functional, an "
           "empty call at most 20 ns\n");
    spin_rig_free(f.rig);
    spin_rig_free(t.rig);
    spin_image_free(image);
    return 0;
}
