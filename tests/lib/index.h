/* Random index arithmetic, as tables, bit fields and unrolled loops need it: masks, shifts and
 * constants that are joined by or, xor, and, and sums. What comes out is aligned, always off by the
 * same, or anything. */
#ifndef TESTS_INDEX_H
#define TESTS_INDEX_H

#include "asm.h"
#include "base/rng.h"

#define INDEX_PARTS 3u /* registers that it needs */

struct index_part {
    uint32_t reg, most; /* its value is 0 to that */
};

ASM uint32_t index_bits(uint32_t most) {
    uint32_t bits = 0;
    while (most >> bits)
        bits++;
    return bits;
}

ASM uint32_t index_ones(uint32_t most) {
    return (1u << index_bits(most)) - 1;
}

/* A constant, the low or high bits of a register's value, some of them shifted, or a comparison. */
ASM struct index_part put_index_source(struct rng *rng, struct program *p, uint32_t to,
                                       uint32_t from, uint32_t limit) {
    uint32_t most = 1, shift = rng_below(rng, 4);
    switch (rng_below(rng, 8)) {
    case 0:
    case 1:
    case 2:
        most = rng_below(rng, limit);
        put(p, rv_addi(to, 0, (int32_t)most));
        return (struct index_part){to, most};
    case 3:
        most = limit >> 3;
        put(p, rv_srli(to, from, (int32_t)(32 - index_bits(most))));
        break;
    case 4:
        put(p, rv_sltu(to, from, from ^ 1));
        break;
    default:
        most = index_ones(rng_below(rng, limit >> 3));
        put(p, rv_andi(to, from, (int32_t)most));
    }
    if (shift)
        put(p, rv_slli(to, to, (int32_t)shift));
    return (struct index_part){to, most << shift};
}

/* One more operation on a, with b or a constant, that leaves no more than `limit`; nothing where
 * that one would. */
ASM void put_index_step(struct rng *rng, struct program *p, struct index_part *a,
                        const struct index_part *b, uint32_t limit) {
    uint32_t constant = rng_below(rng, limit), shift = 1 + rng_below(rng, 4);
    uint32_t word = 0, most = 0, joined = index_ones(a->most | b->most);
    switch (rng_below(rng, 16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        word = rv_slli(a->reg, a->reg, (int32_t)shift);
        most = a->most << shift;
        break;
    case 4:
    case 5:
    case 6:
        word = rv_or(a->reg, a->reg, b->reg);
        most = joined;
        break;
    case 7:
    case 8:
    case 9:
        word = rv_xor(a->reg, b->reg, a->reg);
        most = joined;
        break;
    case 10:
        word = rv_add(a->reg, a->reg, b->reg);
        most = a->most + b->most;
        break;
    case 11:
        word = rng_below(rng, 2) ? rv_ori(a->reg, a->reg, (int32_t)constant)
                                 : rv_xori(a->reg, a->reg, (int32_t)constant);
        most = index_ones(a->most | constant);
        break;
    case 12:
        word = rv_addi(a->reg, a->reg, (int32_t)constant);
        most = a->most + constant;
        break;
    case 13: /* some of its bits, and from a multiple on */
        word = rng_below(rng, 2) ? rv_andi(a->reg, a->reg, (int32_t)constant)
                                 : rv_andi(a->reg, a->reg, -(1 << rng_below(rng, 4)));
        most = a->most;
        break;
    case 14:
        word = rv_and(a->reg, a->reg, b->reg);
        most = a->most;
        break;
    case 15:
        word = rv_srli(a->reg, a->reg, (int32_t)shift);
        most = a->most >> shift;
        break;
    }
    if (most > limit)
        return;
    put(p, word);
    a->most = most;
}

/* Leaves a number from 0 to `limit`, one of 63, 127, ... 2047, in the first of INDEX_PARTS
 * registers from `parts` on, made of the values of the registers `from` and from ^ 1. */
ASM void put_index(struct rng *rng, struct program *p, uint32_t parts, uint32_t from,
                   uint32_t limit) {
    struct index_part part[INDEX_PARTS];
    for (uint32_t i = 0; i < INDEX_PARTS; i++)
        part[i] = put_index_source(rng, p, parts + i, from, limit);
    for (uint32_t n = 1 + rng_below(rng, 5); n > 0; n--) {
        uint32_t a = rng_below(rng, 3) ? 0 : rng_below(rng, INDEX_PARTS);
        put_index_step(rng, p, &part[a], &part[rng_below(rng, INDEX_PARTS)], limit);
    }
}

/* An access of any width to the address in a register, and a little further. */
ASM void put_indexed_access(struct rng *rng, struct program *p, uint32_t address, uint32_t value) {
    static uint32_t (*const loads[])(uint32_t, uint32_t, int32_t) = {rv_lw, rv_lw, rv_lhu, rv_lh,
                                                                     rv_lbu};
    static uint32_t (*const stores[])(uint32_t, uint32_t, int32_t) = {rv_sw, rv_sw, rv_sh};
    int32_t offset = rng_below(rng, 3) ? 0 : (int32_t)rng_below(rng, 9);
    if (rng_below(rng, 4))
        put(p, loads[rng_below(rng, 5)](value, address, offset));
    else
        put(p, stores[rng_below(rng, 3)](value, address, offset));
}

#endif
