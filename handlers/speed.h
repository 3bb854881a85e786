/* The speed of the use cases of spinlib, by cards and by processors alone. Each case is a file
 * NAME/NAME_speed.c and a word in SPEED_CASES; the same source runs in a simulated world
 * (`openspin experiment spinlib/speed`) and as processes on live cards (`... --live`, by the
 * program spinlib-live of speed_live.c). */
#ifndef OPENSPIN_HANDLERS_SPEED_H
#define OPENSPIN_HANDLERS_SPEED_H

#include <limits.h>
#include <stdatomic.h>

#include "spinlib/spinlib.h"

#define SPEED_CASES(X) X(coll) X(datatype) X(ftb) X(graph) X(kv) X(p2p) X(raid) X(scan) X(tx)

/* Live, handlers are compiled in the first round, and the shortest of the others counts: whatever
 * else runs on the machine makes rounds longer. */
#define SPEED_ROUNDS 6u

struct speed_round {
    _Atomic uint64_t start_ps, end_ps; /* of the first and the last rank */
    _Atomic uint64_t operations, bytes;
};

/* Of a run: shared by its ranks. */
struct speed {
    bool by_host, live;
    uint32_t bytes;                         /* of an operation; 0: as the case has it */
    _Atomic uint32_t ended;                 /* ranks, of all rounds */
    struct speed_round round[SPEED_ROUNDS]; /* in a world: the first alone */
};
/* The one that counts. */
const struct speed_round *speed_best(const struct speed *speed);

/* What a rank has done; of an operation of several ranks one of them says so. */
struct speed_done {
    uint64_t operations, bytes;
    bool serves; /* its processor has something to do for others until all have ended */
};

struct speed_case {
    const char *name, *operation; /* "kv", "insert and get, 64 B" */
    const char *image;
    uint32_t ranks; /* usually; `least_ranks` and more, with `in_pairs` an even number */
    uint32_t least_ranks;
    bool in_pairs;
    uint32_t
        bytes; /* usually; from `least_bytes` to `most_bytes` (0: any), multiples of the least */
    uint32_t least_bytes, most_bytes;
    uint32_t operations, live_operations; /* of a round, that a rank is asked for */
    /* All return a code of Portals. `use` is the case's own. */
    int (*open)(const struct speed *speed, const struct spin_job *job, void **use);
    /* A rank that has nothing to ask for returns at once. */
    int (*work)(void *use, uint32_t operations, struct speed_done *done);
    /* What has come for the processor of a rank that serves, or comes within a millisecond. */
    int (*serve)(void *use);
    void (*close)(void *use);
};

extern const struct speed_case *const speed_cases[]; /* ended by NULL */

static inline uint32_t speed_bytes(const struct speed_case *c, const struct speed *speed) {
    return speed->bytes ? speed->bytes : c->bytes;
}
/* Whether there is such a case, with 0 for what is as usual. */
static inline bool speed_fits(const struct speed_case *c, uint32_t ranks, uint32_t bytes) {
    return (!ranks || (ranks >= c->least_ranks && !(c->in_pairs && ranks % 2))) &&
           (!bytes || (bytes % c->least_bytes == 0 && (!c->most_bytes || bytes <= c->most_bytes)));
}
/* One rank: 0, or the number of what failed. */
int speed_rank(const struct speed_case *c, struct speed *speed);

/* What `openspin experiment --live` and spinlib-live share. */
struct speed_plan {
    char images[PATH_MAX];
    uint32_t number; /* of the case */
    struct speed speed;
};

#endif
