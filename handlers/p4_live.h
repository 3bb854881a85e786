/* What `openspin experiment --live` and its program on live cards (p4_live.c) have together: memory
 * that both map, with what is to be run and what it took. */
#ifndef OPENSPIN_P4_LIVE_H
#define OPENSPIN_P4_LIVE_H

#include <limits.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "p4.h"

#define P4_LIVE_PASSES  4
#define P4_LIVE_REPEATS 50 /* in each */
#define P4_LIVE_TIMES   (P4_LIVE_PASSES * P4_LIVE_REPEATS)
#define P4_LIVE_TRIPS   8 /* of ping-pong, in each */
#define P4_LIVE_ROWS    64

enum p4_live_case { P4_LIVE_PINGPONG, P4_LIVE_ACCUMULATE, P4_LIVE_BROADCAST };

struct p4_live_row {
    uint32_t use_case, variant, bytes;
    _Atomic uint32_t again; /* another round, as rank 0 says */
    struct {
        _Atomic uint64_t start_ps, end_ps; /* each by the rank that knows it */
    } time[P4_LIVE_TIMES];
};

/* What this machine's cards take, measured by other operations than those of the figures. Times in
 * picoseconds. */
struct p4_live_machine {
    uint64_t put;      /* PtlPut of 8 bytes, until it returns, while the peer does not look */
    uint64_t gap;      /* from one such put to the next, while it does */
    uint64_t ack;      /* a put of 8 bytes, until it is seen to be acknowledged */
    uint64_t ack_16k;  /* the same of 16 KiB */
    uint64_t ack_64k;  /* of 64 KiB */
    uint64_t handled;  /* of 8 bytes, to an entry with a header handler that does nothing */
    uint64_t poll;     /* PtlCTWait for what is there */
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

/* Of repeated times the one that a quarter of them is below: what else runs on the machine makes
 * others longer, and a host that runs two processors on one core makes some of them shorter. */
static inline int p4_compare(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}
static inline uint64_t p4_typical(uint64_t *time, uint32_t count) {
    qsort(time, count, sizeof *time, p4_compare);
    return time[count / 4];
}

#endif
