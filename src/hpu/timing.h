/* What instructions and memory accesses cost, in cycles. One table per core; the constants and
 * their sources are in timing.c. */
#ifndef SPIN_HPU_TIMING_H
#define SPIN_HPU_TIMING_H

#include <stdint.h>

#include "hpu/isa.h"

/* Kinds of memory with a latency of their own, and a row each in reports. */
#define HPU_REGIONS(X)                                                                             \
    X(L1, "L1")               /* the own cluster's */                                              \
    X(REMOTE_L1, "remote L1") /* another cluster's */                                              \
    X(L2_HANDLER, "L2 handler memory")                                                             \
    X(L2_PACKETS, "L2 packet buffer")                                                              \
    X(PROGRAM, "program memory")                                                                   \
    X(DRIVER, "HPU driver")

enum hpu_region {
#define ROW(name, text) HPU_REGION_##name,
    HPU_REGIONS(ROW)
#undef ROW
        HPU_REGION_COUNT
};

const char *hpu_region_name(unsigned region);

struct hpu_timing {
    const char *name;
    uint64_t clock_hz;
    uint8_t cycles[HPU_TIME_CLASSES]; /* a branch: not taken; a division: the least */
    uint8_t taken;                    /* more cycles when a branch is taken */
    uint8_t load_use;                 /* stall when the next instruction needs what is loaded */
    uint8_t misaligned;               /* more cycles when an access crosses a word */
    uint8_t division_by_bits;         /* 1: a division takes 1 cycle more a leading zero */
    /* More cycles than in the table above, by region. Stores are posted where the region says so.
     */
    uint8_t load_extra[HPU_REGION_COUNT], store_extra[HPU_REGION_COUNT];
    uint8_t amo_extra[HPU_REGION_COUNT];
    /* The instruction cache that the cluster's cores share; 0 bytes: none. */
    uint32_t icache_bytes, icache_ways, icache_line, icache_miss;
};

extern const struct hpu_timing hpu_timing_ri5cy;
extern const struct hpu_timing hpu_timing_sc17;
extern const struct hpu_timing hpu_timing_unit; /* 1 cycle for everything: the functional mode */

/* By name, NULL if there is none; and the names, for help: NULL ends them. */
const struct hpu_timing *hpu_timing_find(const char *name);
const char *hpu_timing_name(unsigned index);

/* A division's cycles over the least, for the divisor b. */
static inline uint32_t hpu_division_extra(const struct hpu_timing *t, uint32_t b, int is_signed) {
    if (!t->division_by_bits)
        return 0;
    if (is_signed && (int32_t)b < 0)
        b = ~b;
    return b ? (uint32_t)__builtin_clz(b) : 32;
}

/* What the card's RTL counts with a handler though it is not the handler's: its runtime moves the
 * argument into place, calls, and marks the end (the empty handler, one instruction of 2 cycles, is
 * 4 instructions and 5 cycles there). For whoever compares with it. */
#define HPU_CALL_INSTRUCTIONS 3
#define HPU_CALL_CYCLES       3

#endif
