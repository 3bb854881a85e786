/* Random programs for the differential test: what they start with, and their code. */
#ifndef TESTS_DIFF_GENERATE_H
#define TESTS_DIFF_GENERATE_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/asm.h"

#define DIFF_CODE       0x1d000000u /* all programs of a batch, one after the other */
#define DIFF_DATA       0x10010000u
#define DIFF_DATA_BYTES 1024u

/* x3 (gp) keeps the way back and is not compared; x1 gets its value in the program's first
 * instructions. */
struct diff_program {
    uint64_t seed;
    bool with_float;
    uint32_t x[32], f[32], fcsr;
    uint8_t data[DIFF_DATA_BYTES];
    struct program code;
};

/* Depends on nothing but the seed. */
void diff_generate(struct diff_program *p, uint64_t seed);

#endif
