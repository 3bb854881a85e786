/* The critical path of a replay: which operations and messages the makespan depends on.
 *
 * Under the rules of loggops.c whatever starts does so at a time that something else has set: the
 * cpu or nic that it needs became free, or its message arrived; a rendezvous moves the sender's
 * clocks to the time of the match. So each start keeps who set its time, and the path is read
 * backwards from the clock that shows the makespan. It has no gaps by construction. */
#ifndef SPIN_SIM_GOAL_PATH_H
#define SPIN_SIM_GOAL_PATH_H

#include "sim/goal.h"
#include "sim/timeline.h"

struct goal_path;

/* `clocks`: how many clocks there are, of all ranks. */
int goal_path_new(struct goal_path **out, const struct spin_goal *goal, uint64_t clocks,
                  struct spin_error *err);
void goal_path_free(struct goal_path *p);

/* What starts is an operation, by its index, or the message of a send at its receiver: */
static inline uint32_t goal_path_message(const struct spin_goal *goal, uint32_t send) {
    return goal->op_count + send;
}

/* `what` will start at the time that this clock shows now; the last word counts. */
void goal_path_due(struct goal_path *p, uint32_t what, uint64_t clock);
/* The message of a send will start when it arrives. */
void goal_path_sent(struct goal_path *p, uint32_t send);
void goal_path_starts(struct goal_path *p, uint32_t what, uint64_t at_ps);
/* A clock was moved by `what`. */
void goal_path_moves(struct goal_path *p, uint64_t clock, uint32_t what,
                     enum spin_goal_step_kind kind);

/* When the send began, for arrows. */
uint64_t goal_path_start_ps(const struct goal_path *p, uint32_t what);

/* The steps that lead to this clock's time, which is the makespan; freed by the caller. */
int goal_path_steps(const struct goal_path *p, uint64_t clock, uint64_t makespan_ps,
                    struct spin_goal_step **steps, uint32_t *count, struct spin_error *err);

#endif
