/* What `openspin experiment --live` and its program on live cards (p4_live.c) have together: memory
 * that both map, with what is to be run and what it took. */
#ifndef OPENSPIN_P4_LIVE_H
#define OPENSPIN_P4_LIVE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "p4.h"

#define P4_LIVE_REPEATS 40
#define P4_LIVE_ROWS    64

enum p4_live_case { P4_LIVE_PINGPONG, P4_LIVE_ACCUMULATE, P4_LIVE_BROADCAST };

struct p4_live_row {
    uint32_t use_case, variant, bytes;
    struct {
        _Atomic uint64_t start_ps, end_ps; /* each by the rank that knows it */
    } time[P4_LIVE_REPEATS];
};

/* What this machine's cards take, measured by other operations than those of the figures. Times in
 * picoseconds. */
struct p4_live_machine {
    uint64_t put;      /* PtlPut of 8 bytes, until it returns */
    uint64_t gap;      /* from one such put to the next, in a burst */
    uint64_t get;      /* PtlGet of 8 bytes, until its counter is seen */
    uint64_t get_16k;  /* the same of 16 KiB */
    uint64_t get_64k;  /* of 64 KiB */
    uint64_t poll;     /* PtlCTWait for what is there */
    uint64_t ack;      /* a put of 8 bytes, until it is acknowledged */
    uint64_t handled;  /* the same to an entry with a header handler that does nothing */
    uint64_t copy_64k; /* memcpy */
    uint64_t products; /* 4,096 complex products on the host */
};

struct p4_live_plan {
    char images[PATH_MAX];
    uint32_t calibrates; /* with two ranks: fills `machine` */
    struct p4_live_machine machine;
    uint32_t rows;
    struct p4_live_row row[P4_LIVE_ROWS];
};

/* Of repeated times the one that a tenth of them is below: what else runs on the machine makes the
 * others longer. */
static inline int p4_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
static inline uint64_t p4_typical(uint64_t *time, uint32_t count) {
    qsort(time, count, sizeof *time, p4_compare);
    return time[count / 10];
}

#endif
