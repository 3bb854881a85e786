#include "hpu/timing.h"

#include <string.h>

const char *hpu_region_name(unsigned region) {
    static const char *const names[] = {
#define ROW(name, text) text,
        HPU_REGIONS(ROW)
#undef ROW
    };
    return names[region];
}

/* RI5CY, the core of PsPIN: 4 stages, in order, single issue, 1 GHz in 22 nm (ISCA'21 section III).
 *
 * - ALU, multiply, high multiply, division, jumps, branches, load-use stall, misaligned access: the
 *   user manual of the core (RI5CY, later CV32E40P), table "Cycle counts per instruction type": 1,
 *   1, 5, 3 to 35 by the leading zeros of the divisor, 2, 1 or 3, +1, +1. CSR access 1.
 * - F: the same manual, FPU without pipeline registers: 1; division and square root 6.
 * - L1 of the cluster: single cycle (ISCA'21 section III-C, B2).
 * - Atomics: as a load, 1 cycle in L1 ("single-cycle atomic operations", ISCA'21 section IV-C2),
 * and a stall if the next instruction needs what was there. The bank is busy for two cycles, which
 * is the card's to know. The RTL's reduce handler confirms it: 8.1 cycles per word for load,
 * amoadd, two additions and a taken branch in this order, for gcc 12 leaves the amoadd right after
 * its load: 1 + 1 (stall) + 1 + 1 + 1 + 3, and 0.1 of bank conflicts.
 * - Remote L1 and L2 by load and store: copying 4 KiB word by word takes about 23 K cycles (ISCA'21
 *   figure 4, B9), 22.5 per word. The copy loop itself takes 2.5 per word in local L1 (same
 *   figure), so a remote word costs 20 cycles more. A remote store is posted: 1 cycle in the core.
 * - HPU driver: a register of the cluster's peripheral bus, on the demultiplexer in front of the L1
 *   interconnect: as L1.
 * - Instruction cache: 4 KiB, 4 ways, shared by the cluster (B3). The RTL refills 128 bit at a
 * time, 8 cycles each. */
const struct hpu_timing hpu_timing_ri5cy = {
    .name = "ri5cy",
    .clock_hz = 1000000000,
    .cycles =
        {
            [HPU_TIME_ALU] = 1,
            [HPU_TIME_MUL] = 1,
            [HPU_TIME_MULH] = 5,
            [HPU_TIME_DIV] = 3,
            [HPU_TIME_DIVU] = 3,
            [HPU_TIME_LOAD] = 1,
            [HPU_TIME_STORE] = 1,
            [HPU_TIME_BRANCH] = 1,
            [HPU_TIME_JUMP] = 2,
            [HPU_TIME_AMO] = 1,
            [HPU_TIME_CSR] = 1,
            [HPU_TIME_FADD] = 1,
            [HPU_TIME_FMA] = 1,
            [HPU_TIME_FDIV] = 6,
            [HPU_TIME_FMOVE] = 1,
        },
    .taken = 2,
    .load_use = 1,
    .misaligned = 1,
    .division_by_bits = 1,
    .load_extra = {[HPU_REGION_REMOTE_L1] = 20,
                   [HPU_REGION_L2_HANDLER] = 20,
                   [HPU_REGION_L2_PACKETS] = 20,
                   [HPU_REGION_PROGRAM] = 20},
    .amo_extra =
        {[HPU_REGION_REMOTE_L1] = 20, [HPU_REGION_L2_HANDLER] = 20, [HPU_REGION_L2_PACKETS] = 20},
    .icache_bytes = 4096,
    .icache_ways = 4,
    .icache_line = 16,
    .icache_miss = 8,
};

/* One cycle per instruction and no stall: what counts is instructions. At 1 GHz, so that a cycle
 * reads as a nanosecond. */
const struct hpu_timing hpu_timing_unit = {
    .name = "unit",
    .clock_hz = 1000000000,
    .cycles = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1},
};

/* The HPU of the SC'17 paper: a Cortex A15 (out of order, up to three instructions per cycle)
 * at 2.5 GHz in gem5, without caches, its memory a scratchpad of one cycle (section 4.2, A5). That
 * core model is not ours, and no time of a handler is published to calibrate one on. What the paper
 * says of its HPU is that most instructions take a cycle (4.1), that it reckons with one
 * instruction per cycle (4.1: 500 instructions at 2.5 GHz are 200 ns), and k = 1 cycle for memory.
 * So this table is one cycle for everything, loads and taken branches included, as a core that
 * finds other work to do would show it. Divisions and square roots are not pipelined in an A15: 12
 * cycles, ours, in the middle of what its family takes. Handlers that an A15 would run at two or
 * three instructions per cycle are slower here. */
const struct hpu_timing hpu_timing_sc17 = {
    .name = "sc17",
    .clock_hz = 2500000000,
    .cycles =
        {
            [HPU_TIME_ALU] = 1,
            [HPU_TIME_MUL] = 1,
            [HPU_TIME_MULH] = 1,
            [HPU_TIME_DIV] = 12,
            [HPU_TIME_DIVU] = 12,
            [HPU_TIME_LOAD] = 1,
            [HPU_TIME_STORE] = 1,
            [HPU_TIME_BRANCH] = 1,
            [HPU_TIME_JUMP] = 1,
            [HPU_TIME_AMO] = 1,
            [HPU_TIME_CSR] = 1,
            [HPU_TIME_FADD] = 1,
            [HPU_TIME_FMA] = 1,
            [HPU_TIME_FDIV] = 12,
            [HPU_TIME_FMOVE] = 1,
        },
};

static const struct hpu_timing *const cores[] = {&hpu_timing_ri5cy, &hpu_timing_sc17,
                                                 &hpu_timing_unit};

const struct hpu_timing *hpu_timing_find(const char *name) {
    for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
        if (strcmp(cores[i]->name, name) == 0)
            return cores[i];
    return NULL;
}

const char *hpu_timing_name(unsigned index) {
    return index < sizeof cores / sizeof cores[0] ? cores[index]->name : NULL;
}
