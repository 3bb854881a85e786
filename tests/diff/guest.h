/* A batch of programs in one RV32 Linux executable, run by qemu-riscv32: start-up of one process
 * for hundreds of programs. */
#ifndef TESTS_DIFF_GUEST_H
#define TESTS_DIFF_GUEST_H

#include <stddef.h>

#include "diff/generate.h"

/* What a program left, in the order in which the guest writes it. */
struct diff_outcome {
    uint32_t x[32]; /* x[0] and x[3] mean nothing */
    uint32_t f[32];
    uint32_t fcsr;
    uint32_t reserved[63];
    uint8_t data[DIFF_DATA_BYTES];
};

/* `code` is what stands at DIFF_CODE; program i begins at address[i]. Returns how many programs
 * came to their end (fewer than `count`: qemu stopped in the next one), -1 if nothing could be
 * run, with a reason in `why`. */
int diff_guest_run(const char *qemu, const struct diff_program *programs, const uint32_t *address,
                   int count, const uint8_t *code, size_t code_bytes, struct diff_outcome *outcomes,
                   char *why, size_t room);

#endif
