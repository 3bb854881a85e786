/* GOAL schedules on cards: each rank of a schedule is a rank of a simulated world, and its messages
 * go through the message layer of spinlib (spinlib/p2p.h), so that the card, the processor or
 * handlers match them. docs/goal.md says what a card does with each operation. */
#ifndef OPENSPIN_GOAL_CARD_H
#define OPENSPIN_GOAL_CARD_H

#include "openspin.h"
#include "spinlib/p2p.h"

struct goal_card_options {
    const char *matching;            /* "host", "portals" or "handlers" (NULL) */
    uint64_t eager_bytes;            /* S: longer messages wait for their receive */
    uint64_t unexpected_bytes;       /* of a rank's memory for early messages; 0: as needed */
    const char *handlers;            /* an image with hh0, ph1, ... of GOAL's appends, or NULL */
    struct spin_world_options world; /* its ranks are the schedule's */
    /* Called when an operation (of its rank, from 0) has started and when it is done; or NULL. */
    void (*seen)(void *user, uint32_t rank, uint32_t op, bool done, uint64_t now_ps);
    void *seen_user;
};

struct goal_card_result {
    struct spin_goal_result run; /* without a network, digest and critical path */
    struct spin_world_counts world;
    struct spin_p2p_counts p2p; /* of all ranks */
    uint64_t quiet_ps;          /* with Portals operations: when the last card was done; else 0 */
};

/* What --matching and S may be, as errors of the command line. */
int goal_card_check(const struct goal_card_options *options, struct spin_error *err);
/* SPIN_EDEADLOCK: the error names operations that wait. Time begins when all ranks are set up. */
int goal_card_run(const struct spin_goal *goal, const struct goal_card_options *options,
                  struct goal_card_result *result, struct spin_error *err);
void goal_card_result_free(struct goal_card_result *result);

#endif
