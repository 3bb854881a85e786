#include "rounds.h"

#include <stdlib.h>

#include "base/error.h"

/* So many rounds, one after the other, have to be as those a period before. */
enum { ALIKE = 32 };
/* What a rank does not wait for, such as the last packets of a handshake, is over after so long. */
#define CALM_PS 2000000u

/* A rank at the end of a round; times since the beginning. */
struct end {
    uint64_t at_ps, spent_ps, state, trace;
};

struct rank_rounds {
    uint64_t begun, start_ps;
    struct end last;
};

struct round {
    uint32_t ended; /* ranks */
    uint64_t last_ps, calm_until_ps;
};

struct rounds {
    struct rounds_plan plan;
    uint64_t begun;         /* by the rank that is furthest */
    uint64_t stop;          /* no rank begins this one */
    uint64_t period;        /* 0: not found, */
    uint64_t matched;       /* else round `matched` is as that one `period` before */
    struct rank_rounds *of; /* each rank */
    /* While a period is looked for, and after: */
    struct round *round;
    struct end *end; /* of each round and rank */
};

struct rounds *rounds_new(const struct rounds_plan *plan) {
    struct rounds *r = calloc(1, sizeof *r);
    if (!r)
        return NULL;
    r->plan = *plan;
    r->plan.cycle = plan->cycle ? plan->cycle : 1;
    r->stop = plan->search && plan->search < plan->wanted ? plan->search : plan->wanted;
    r->of = calloc(plan->ranks, sizeof *r->of);
    if (plan->search) {
        r->round = calloc(r->stop, sizeof *r->round);
        r->end = calloc(r->stop * plan->ranks, sizeof *r->end);
    }
    if (r->of && (!plan->search || (r->round && r->end)))
        return r;
    rounds_free(r);
    return NULL;
}

void rounds_free(struct rounds *r) {
    if (!r)
        return;
    free(r->of);
    free(r->round);
    free(r->end);
    free(r);
}

bool rounds_next(struct rounds *r, uint32_t rank, uint64_t now_ps) {
    struct rank_rounds *of = &r->of[rank];
    if (!of->begun)
        of->start_ps = now_ps;
    if (of->begun == r->stop)
        return false;
    of->begun++;
    if (of->begun > r->begun)
        r->begun = of->begun;
    return true;
}

/* ---- The period ---- */

static const struct end *ends_of(const struct rounds *r, uint64_t round) {
    return r->end + round * r->plan.ranks;
}

/* The same but for the time: what the ranks keep and saw, when they ended relative to rank 0, how
 * long the round took and what they spent in it. */
static bool alike(const struct rounds *r, uint64_t a, uint64_t b) {
    const struct end *x = ends_of(r, a), *y = ends_of(r, b), *before_x = ends_of(r, a - 1),
                     *before_y = ends_of(r, b - 1);
    for (uint32_t i = 0; i < r->plan.ranks; i++)
        if (x[i].state != y[i].state || x[i].trace != y[i].trace ||
            x[i].at_ps - x[0].at_ps != y[i].at_ps - y[0].at_ps ||
            x[i].at_ps - before_x[i].at_ps != y[i].at_ps - before_y[i].at_ps ||
            x[i].spent_ps - before_x[i].spent_ps != y[i].spent_ps - before_y[i].spent_ps)
            return false;
    return true;
}

static bool is_calm(const struct round *round) {
    return round->last_ps + CALM_PS <= round->calm_until_ps;
}

static bool is_period(const struct rounds *r, uint64_t last, uint64_t period) {
    if (!is_calm(&r->round[last - period]))
        return false;
    for (uint64_t i = 0; i < ALIKE; i++)
        if (!alike(r, last - i, last - period - i))
            return false;
    return true;
}

/* All ranks have ended this round. */
static void look_for_period(struct rounds *r, uint64_t last) {
    if (r->period || !is_calm(&r->round[last]))
        return;
    for (uint64_t period = r->plan.cycle; period + ALIKE <= last; period += r->plan.cycle)
        if (is_period(r, last, period)) {
            r->period = period;
            r->matched = last;
            r->stop = r->begun;
            return;
        }
}

void rounds_end(struct rounds *r, uint32_t rank, const struct rounds_mark *mark) {
    struct rank_rounds *of = &r->of[rank];
    of->last = (struct end){.at_ps = mark->now_ps - of->start_ps,
                            .spent_ps = of->last.spent_ps + mark->spent_ps,
                            .state = mark->state,
                            .trace = mark->trace};
    if (!r->round)
        return;
    uint64_t number = of->begun - 1;
    struct round *round = &r->round[number];
    r->end[number * r->plan.ranks + rank] = of->last;
    uint64_t until = mark->now_ps + mark->calm_ps;
    if (!round->ended || until < round->calm_until_ps)
        round->calm_until_ps = until;
    if (mark->now_ps > round->last_ps)
        round->last_ps = mark->now_ps;
    if (++round->ended == r->plan.ranks)
        look_for_period(r, number);
}

/* ---- All rounds ---- */

/* The end of any round, by the last period. */
static struct end predict(const struct rounds *r, uint32_t rank, uint64_t round) {
    uint64_t beyond = round - r->matched, periods = (beyond + r->period - 1) / r->period;
    const struct end *as = ends_of(r, round - periods * r->period) + rank,
                     *after = ends_of(r, r->matched) + rank,
                     *before = ends_of(r, r->matched - r->period) + rank;
    return (struct end){.at_ps = as->at_ps + periods * (after->at_ps - before->at_ps),
                        .spent_ps = as->spent_ps + periods * (after->spent_ps - before->spent_ps),
                        .state = as->state,
                        .trace = as->trace};
}

int rounds_result(const struct rounds *r, struct rounds_result *result, struct spin_error *err) {
    *result = (struct rounds_result){.simulated = r->stop, .period = r->period};
    if (!r->period)
        return SPIN_OK;
    result->repeated = r->plan.wanted - r->stop;
    for (uint64_t round = r->matched + 1; round < r->stop; round++)
        for (uint32_t i = 0; i < r->plan.ranks; i++) {
            struct end p = predict(r, i, round), is = ends_of(r, round)[i];
            if (p.at_ps != is.at_ps || p.spent_ps != is.spent_ps || p.state != is.state ||
                p.trace != is.trace)
                return spin_fail(err, SPIN_EFORMAT,
                                 "round %llu of rank %u is not as that %llu before, though the "
                                 "world was the same: a mistake of ours; simulate all rounds",
                                 (unsigned long long)round, i, (unsigned long long)r->period);
        }
    return SPIN_OK;
}

static struct rounds_total total_at(const struct end *end) {
    return (struct rounds_total){.time_ps = end->at_ps, .spent_ps = end->spent_ps};
}

struct rounds_total rounds_total_of(const struct rounds *r, uint32_t rank, uint64_t count) {
    if (count <= r->stop)
        return total_at(ends_of(r, count - 1) + rank);
    struct end end = predict(r, rank, count - 1);
    return total_at(&end);
}

struct rounds_total rounds_total(const struct rounds *r, uint32_t rank) {
    return r->period ? rounds_total_of(r, rank, r->plan.wanted) : total_at(&r->of[rank].last);
}
