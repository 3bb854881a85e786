#include "sim/goal_path.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/search.h"

enum { NOBODY = UINT32_MAX };

struct cause {
    uint32_t what; /* NOBODY: time 0 */
    uint32_t kind;
};

struct goal_path {
    const struct spin_goal *goal;
    uint64_t clocks;
    struct cause *clock; /* who moved each */
    struct cause *cause; /* of each start: operations, then messages */
    uint64_t *start_ps;
};

static size_t starts(const struct goal_path *p) {
    return 2 * (size_t)p->goal->op_count + 1;
}

int goal_path_new(struct goal_path **out, const struct spin_goal *goal, uint64_t clocks,
                  struct spin_error *err) {
    struct goal_path *p = calloc(1, sizeof *p);
    *out = p;
    if (p) {
        p->goal = goal;
        p->clocks = clocks;
        p->clock = pages_new(clocks * sizeof *p->clock);
        p->cause = pages_new(starts(p) * sizeof *p->cause);
        p->start_ps = pages_new(starts(p) * sizeof *p->start_ps);
    }
    if (!p || !p->clock || !p->cause || !p->start_ps || goal->op_count >= NOBODY / 2) {
        goal_path_free(p);
        *out = NULL;
        return spin_fail(err, SPIN_ENOMEM, "out of memory for the critical path of %u operations",
                         goal->op_count);
    }
    for (uint64_t i = 0; i < clocks; i++)
        p->clock[i].what = NOBODY;
    return SPIN_OK;
}

void goal_path_free(struct goal_path *p) {
    if (!p)
        return;
    pages_free(p->clock, p->clocks * sizeof *p->clock);
    pages_free(p->cause, starts(p) * sizeof *p->cause);
    pages_free(p->start_ps, starts(p) * sizeof *p->start_ps);
    free(p);
}

void goal_path_due(struct goal_path *p, uint32_t what, uint64_t clock) {
    p->cause[what] = p->clock[clock];
}

void goal_path_sent(struct goal_path *p, uint32_t send) {
    p->cause[goal_path_message(p->goal, send)] = (struct cause){send, SPIN_STEP_NETWORK};
}

void goal_path_starts(struct goal_path *p, uint32_t what, uint64_t at_ps) {
    p->start_ps[what] = at_ps;
}

void goal_path_moves(struct goal_path *p, uint64_t clock, uint32_t what,
                     enum spin_goal_step_kind kind) {
    p->clock[clock] = (struct cause){what, kind};
}

uint64_t goal_path_start_ps(const struct goal_path *p, uint32_t what) {
    return p->start_ps[what];
}

static uint32_t rank_of(const struct spin_goal *goal, uint32_t op) {
    return (uint32_t)COUNT_BEFORE(i, goal->num_ranks, goal->first_op[i] <= op) - 1;
}

static struct spin_goal_step describe(const struct goal_path *p, struct cause c, uint64_t end_ps) {
    const struct spin_goal *goal = p->goal;
    bool message = c.what >= goal->op_count;
    uint32_t op = message ? c.what - goal->op_count : c.what, from = rank_of(goal, op);
    struct spin_goal_step step = {
        .kind = (enum spin_goal_step_kind)c.kind,
        .rank = message ? goal->ops[op].peer : from,
        .receives = message,
        .from = from,
        .operation = op - goal->first_op[from] + 1,
        .start_ps = p->start_ps[c.what],
        .length_ps = end_ps - p->start_ps[c.what],
    };
    if (message)
        snprintf(step.what, sizeof step.what, "receive %llub from %u tag %u",
                 (unsigned long long)goal_shape_of(goal, op)->size, from,
                 goal_shape_of(goal, op)->tag);
    else
        goal_describe(goal, op, step.what, sizeof step.what);
    return step;
}

int goal_path_steps(const struct goal_path *p, uint64_t clock, uint64_t makespan_ps,
                    struct spin_goal_step **steps, uint32_t *count, struct spin_error *err) {
    uint32_t length = 0;
    for (struct cause c = p->clock[clock]; c.what != NOBODY; c = p->cause[c.what])
        length++;
    *count = length;
    *steps = malloc(((size_t)length + 1) * sizeof **steps);
    if (!*steps)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for a critical path of %u steps", length);
    uint64_t end_ps = makespan_ps;
    for (struct cause c = p->clock[clock]; c.what != NOBODY; c = p->cause[c.what]) {
        (*steps)[--length] = describe(p, c, end_ps);
        end_ps = p->start_ps[c.what];
    }
    return SPIN_OK;
}
