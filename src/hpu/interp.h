/* Between the interpreter and those who prepare code for it. */
#ifndef SPIN_HPU_INTERP_H
#define SPIN_HPU_INTERP_H

#include "hpu/fuse.def"
#include "hpu/hpu.h"

enum {
#define ROW(id, shape, dummy) HPU_FUSE_FIRST_##id,
    FUSE_FIRST(ROW, 0)
#undef ROW
        HPU_FUSE_FIRSTS
};
enum {
#define ROW(id, shape, dummy) HPU_FUSE_SECOND_##id,
    FUSE_SECOND(ROW, 0)
#undef ROW
        HPU_FUSE_SECONDS
};

enum {
#define ROW(a, sa, ca, b, sb, cb, c, sc) HPU_FUSE_##a##_##ca##_##b##_##cb##_##c,
    FUSE_TRIPLES(ROW)
#undef ROW
        HPU_FUSE_TRIPLES
};

/* Numbers of the places in the interpreter: instructions by their id, then these, then the pairs.
 */
enum {
    HPU_LABEL_OFF_END = HPU_INSN_COUNT, /* ran past the program's end */
    HPU_LABEL_LINK,                     /* goes on elsewhere, costs nothing */
    HPU_LABEL_JAL_OUT,                  /* a jump or branch whose target is outside the program */
    HPU_LABEL_BRANCH_OUT,
    HPU_LABEL_FUSED,
    HPU_LABEL_TRIPLES = HPU_LABEL_FUSED + 2 * HPU_FUSE_FIRSTS * HPU_FUSE_SECONDS,
    HPU_LABEL_COUNT = HPU_LABEL_TRIPLES + HPU_FUSE_TRIPLES
};

/* A pair by places in the lists; `carries`: the second's rs1 is what the first writes. */
#define HPU_LABEL_OF_PAIR(first, second, carries)                                                  \
    (HPU_LABEL_FUSED + 2 * ((first)*HPU_FUSE_SECONDS + (second)) + (carries))
#define HPU_LABEL_PAIR(first, second, carries)                                                     \
    HPU_LABEL_OF_PAIR(HPU_FUSE_FIRST_##first, HPU_FUSE_SECOND_##second, carries)

/* The address of such a place, for a slot's `run`. */
const void *hpu_label(enum hpu_mode mode, unsigned label);

/* The slow parts, shared by all modes. */

/* A load or store that the guessed window does not hold. */
struct hpu_slow_access {
    _Atomic uint8_t *guess;
    uint64_t now; /* exact local time of the access */
    uint32_t address, size, pc;
    uint32_t value;
    uint32_t extra; /* out: cycles */
    bool timed;
};
enum hpu_access hpu_slow_load(struct hpu *h, struct hpu_slow_access *s);
enum hpu_access hpu_slow_store(struct hpu *h, struct hpu_slow_access *s);
/* The byte at an address of the driver that is in a register of the HPU's own, or NULL. */
uint8_t *hpu_own_register(struct hpu *h, uint32_t address, uint32_t size, bool write);
/* A copy of a task register, for an atomic on it, whose result nobody sees: they ignore writes.
 * NULL: no such register. */
uint32_t *hpu_task_register(struct hpu *h, uint32_t address);
/* Does an atomic on the word behind an address; what rd gets. */
uint32_t hpu_atomic(struct hpu *h, unsigned id, uint32_t *word, uint32_t address, uint32_t value);

/* hpu_run without generated code. */
enum hpu_stop hpu_interpret(struct hpu *h, uint64_t until);

/* The window that holds the access, or -1. */
int hpu_find_window(struct hpu *h, uint32_t address, uint32_t size, bool write);
/* False: no such register, or no right to write it. */
bool hpu_csr(struct hpu *h, const struct hpu_insn *in);
/* False: a reserved rounding mode. */
bool hpu_float(struct hpu *h, const struct hpu_insn *in);
/* Fetches one instruction at cycle `now`: the cycles lost to lines that were not there, or that
 * another core has asked for and are on their way. */
uint32_t hpu_icache_fetch(struct hpu_icache *cache, const struct hpu_code *code, uint32_t slot,
                          uint64_t now);
/* Whether the block at `slot` is in the cache whole at `now`; if so, it is noted in `seen`. */
bool hpu_icache_holds(struct hpu_icache *cache, const struct hpu_code *code, uint32_t slot,
                      uint64_t now);

/* Which of 128 cycles, from 64 * page on, are taken. */
struct hpu_cycles {
    uint64_t page, taken[2];
};

struct hpu_icache_lines {
    const struct hpu_timing *timing;
    uint32_t generation; /* changes when a line is evicted */
    uint32_t sets;
    uint32_t *tag;                  /* [set][way]: line address / line size + 1, 0 for empty */
    uint64_t *filled;               /* [set][way]: the cycle in which the line is there */
    uint64_t latest;                /* of those cycles */
    struct hpu_cycles asked;        /* in which one asks for a line */
    struct hpu_cycles own, *memory; /* in which program memory reads one; its own, or another's */
    uint8_t *next;                  /* [set]: way to replace */
    uint64_t misses, waited;        /* waited: cycles, of all cores */
};

/* One program's view of a cluster's cache, which it may share with other programs. */
struct hpu_icache {
    struct hpu_icache_lines *lines;
    bool owns_lines;
    uint32_t place; /* of the program in program memory: added to its addresses */
    uint32_t *seen; /* [slot]: generation in which the whole block was in the cache */
};

/* What `seen` must be at cycle `now` for a block to pass without a look. A core that is behind
 * another in time also waits for lines that the other has asked for, so while any is on its way,
 * nothing passes. */
#define HPU_SEEN_BY_NONE UINT32_MAX
static inline uint32_t hpu_icache_generation(const struct hpu_icache *cache, uint64_t now) {
    return now >= cache->lines->latest ? cache->lines->generation : HPU_SEEN_BY_NONE;
}

#endif
