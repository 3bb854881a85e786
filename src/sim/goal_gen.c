/* Generators of the usual patterns. Each builds one rank at a time from its number alone, so any
 * rank count works and memory holds the schedule only.
 *
 * All patterns repeat: iteration i + 1 of a rank begins when its iteration i is done. A rank's
 * iteration is done when every operation that nothing else in it waits for is done. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/machine.h"
#include "sim/goal.h"

#define NONE GOAL_ANY

struct gen {
    struct spin_goal *goal;
    const struct spin_goal_pattern *p;
    uint32_t n, rank; /* ranks, and the one that is built */
    uint32_t tag;     /* of this iteration */
    uint32_t begin;   /* operations of this iteration begin after that one, or NONE */
    uint32_t dims[4]; /* of a halo */
    uint32_t made;    /* operations of the rank so far */
    uint32_t iteration;
    uint32_t look_at;           /* at so many operations in all, see whether the whole will fit */
    uint64_t operations, needs; /* of all of it, and its bytes, as far as can be told */
    bool out_of_memory;
};

static void after(struct gen *g, uint32_t op, uint32_t before) {
    if (op == NONE || before == NONE)
        return;
    g->out_of_memory |= !goal_link(g->goal, op, before, false);
}

/* Patterns give each rank about as much as the others, so what is made says what all of it will
 * take: better known now than when the machine has begun to swap. */
static bool will_fit(struct gen *g) {
    double done = ((double)g->rank + (g->iteration + 1.0) / g->p->iterations) / g->n;
    const struct spin_goal *goal = g->goal;
    g->operations = (uint64_t)(((double)goal->op_count + goal->open_count) / done);
    g->needs = (uint64_t)(((double)goal_bytes(goal) + goal->open_count * sizeof *goal->open +
                           goal->link_count * 3.0 * sizeof(uint32_t)) /
                          done);
    uint64_t made = (uint64_t)((double)g->needs * done);
    return g->operations <= GOAL_MAX_OPS && g->needs - made <= machine_memory();
}

static uint32_t add(struct gen *g, struct goal_op op) {
    if (g->goal->op_count + g->goal->open_count >= g->look_at && !g->out_of_memory) {
        g->look_at *= 2;
        g->out_of_memory = !will_fit(g);
    }
    if (g->out_of_memory)
        return NONE;
    uint32_t index = goal_add(g->goal, op);
    g->out_of_memory |= index == NONE;
    g->made++;
    after(g, index, g->begin);
    return index;
}

static uint32_t add_send(struct gen *g, uint32_t to, uint64_t bytes, uint32_t tag) {
    return add(g, (struct goal_op){.type = GOAL_SEND, .peer = to, .size = bytes, .tag = tag});
}

static uint32_t receive(struct gen *g, uint32_t from, uint64_t bytes, uint32_t tag) {
    return add(g, (struct goal_op){.type = GOAL_RECV, .peer = from, .size = bytes, .tag = tag});
}

/* Computation after a message, if the pattern has any; what follows waits for the returned one. */
static uint32_t calc_after(struct gen *g, uint32_t before) {
    if (!g->p->calc_ns)
        return before;
    uint32_t calc = add(g, (struct goal_op){.type = GOAL_CALC, .size = g->p->calc_ns});
    after(g, calc, before);
    return calc;
}

/* ---- trees: numbered from the root ---- */

static uint32_t from_root(const struct gen *g) {
    return (uint32_t)(((uint64_t)g->rank + g->n - g->p->root) % g->n);
}

static uint32_t to_rank(const struct gen *g, uint64_t virtual_rank) {
    return (uint32_t)((virtual_rank + g->p->root) % g->n);
}

/* The children of v in a binomial tree are v + 2^k below v's lowest bit, the largest subtree first.
 * Calls `child` for each with the size of its subtree. */
static uint32_t lowest_bit(const struct gen *g, uint32_t v) {
    if (v)
        return v & -v;
    uint32_t bit = 1;
    while (bit < g->n && bit < 1u << 31)
        bit <<= 1;
    return bit;
}

static uint64_t subtree(const struct gen *g, uint32_t child, uint32_t bit) {
    return child + (uint64_t)bit <= g->n ? bit : g->n - child;
}

/* Down a binomial tree: `scaled` messages carry the data of the whole subtree. */
static void binomial_down(struct gen *g, bool scaled) {
    uint32_t v = from_root(g), low = lowest_bit(g, v), got = NONE;
    if (v)
        got = receive(g, to_rank(g, v - low), g->p->bytes * (scaled ? subtree(g, v, low) : 1),
                      g->tag);
    for (uint32_t bit = low >> 1; bit; bit >>= 1)
        if (v + (uint64_t)bit < g->n)
            after(g,
                  add_send(g, to_rank(g, v + bit),
                           g->p->bytes * (scaled ? subtree(g, v + bit, bit) : 1), g->tag),
                  got);
}

/* Up a binomial tree: the smallest subtree first, since it is ready first. */
static void binomial_up(struct gen *g, bool scaled) {
    uint32_t v = from_root(g), low = lowest_bit(g, v), count = 0, last[32];
    for (uint32_t bit = 1; bit < low && bit; bit <<= 1)
        if (v + (uint64_t)bit < g->n) {
            uint32_t got = receive(g, to_rank(g, v + bit),
                                   g->p->bytes * (scaled ? subtree(g, v + bit, bit) : 1), g->tag);
            last[count++] = calc_after(g, got);
        }
    if (!v)
        return;
    uint32_t up =
        add_send(g, to_rank(g, v - low), g->p->bytes * (scaled ? subtree(g, v, low) : 1), g->tag);
    for (uint32_t i = 0; i < count; i++)
        after(g, up, last[i]);
}

static void binomial_bcast(struct gen *g) {
    binomial_down(g, false);
}
static void binomial_scatter(struct gen *g) {
    binomial_down(g, true);
}
static void binomial_reduce(struct gen *g) {
    binomial_up(g, false);
}
static void binomial_gather(struct gen *g) {
    binomial_up(g, true);
}

static void binary_bcast(struct gen *g) {
    uint32_t v = from_root(g), got = NONE;
    if (v)
        got = receive(g, to_rank(g, (v - 1) / 2), g->p->bytes, g->tag);
    for (uint64_t child = 2 * (uint64_t)v + 1; child <= 2 * (uint64_t)v + 2; child++)
        if (child < g->n)
            after(g, add_send(g, to_rank(g, child), g->p->bytes, g->tag), got);
}

static void binary_reduce(struct gen *g) {
    uint32_t v = from_root(g), count = 0, last[2];
    for (uint64_t child = 2 * (uint64_t)v + 1; child <= 2 * (uint64_t)v + 2; child++)
        if (child < g->n)
            last[count++] = calc_after(g, receive(g, to_rank(g, child), g->p->bytes, g->tag));
    if (!v)
        return;
    uint32_t up = add_send(g, to_rank(g, (v - 1) / 2), g->p->bytes, g->tag);
    for (uint32_t i = 0; i < count; i++)
        after(g, up, last[i]);
}

/* ---- rounds ---- */

static void dissemination(struct gen *g) {
    uint32_t before = NONE, round = 0;
    for (uint64_t step = 1; step < g->n; step *= 2, round++) {
        uint32_t out =
            add_send(g, (uint32_t)((g->rank + step) % g->n), g->p->bytes, g->tag + round);
        uint32_t in =
            receive(g, (uint32_t)((g->rank + g->n - step) % g->n), g->p->bytes, g->tag + round);
        after(g, out, before);
        after(g, in, before);
        before = calc_after(g, in);
    }
}

/* Ranks beyond the largest power of two hand their data to a neighbour first and get the result
 * last. */
static void recursive_doubling(struct gen *g) {
    uint32_t power = 1;
    while ((uint64_t)power * 2 <= g->n)
        power *= 2;
    uint32_t extra = g->n - power, before = NONE, me;
    if (g->rank < 2 * extra && g->rank % 2 == 0) {
        uint32_t out = add_send(g, g->rank + 1, g->p->bytes, g->tag);
        after(g, receive(g, g->rank + 1, g->p->bytes, g->tag), out);
        return;
    }
    if (g->rank < 2 * extra) {
        before = calc_after(g, receive(g, g->rank - 1, g->p->bytes, g->tag));
        me = g->rank / 2;
    } else {
        me = g->rank - extra;
    }
    for (uint32_t bit = 1; bit < power; bit *= 2) {
        uint32_t other = me ^ bit;
        uint32_t peer = other < extra ? 2 * other + 1 : other + extra;
        uint32_t out = add_send(g, peer, g->p->bytes, g->tag);
        uint32_t in = receive(g, peer, g->p->bytes, g->tag);
        after(g, out, before);
        after(g, in, before);
        before = calc_after(g, in);
    }
    if (g->rank < 2 * extra)
        after(g, add_send(g, g->rank - 1, g->p->bytes, g->tag), before);
}

/* Reduce-scatter round the ring, then allgather round the ring, in pieces of 1/n. */
static void ring(struct gen *g) {
    uint64_t piece = g->p->bytes / g->n + (g->p->bytes % g->n != 0);
    uint32_t right = (g->rank + 1) % g->n, left = (g->rank + g->n - 1) % g->n, before = NONE;
    for (uint32_t step = 0; g->n > 1 && step < 2 * (g->n - 1); step++) {
        uint32_t out = add_send(g, right, piece, g->tag), in = receive(g, left, piece, g->tag);
        after(g, out, before);
        after(g, in, before);
        before = step < g->n - 1 ? calc_after(g, in) : in;
    }
}

static void linear_alltoall(struct gen *g) {
    for (uint32_t i = 1; i < g->n; i++) {
        add_send(g, (uint32_t)(((uint64_t)g->rank + i) % g->n), g->p->bytes, g->tag);
        receive(g, (uint32_t)(((uint64_t)g->rank + g->n - i) % g->n), g->p->bytes, g->tag);
    }
}

static void pairwise_alltoall(struct gen *g) {
    uint32_t last[2] = {NONE, NONE};
    for (uint32_t i = 1; i < g->n; i++) {
        uint32_t now[2] = {
            add_send(g, (uint32_t)(((uint64_t)g->rank + i) % g->n), g->p->bytes, g->tag),
            receive(g, (uint32_t)(((uint64_t)g->rank + g->n - i) % g->n), g->p->bytes, g->tag)};
        for (int k = 0; k < 4; k++)
            after(g, now[k / 2], last[k % 2]);
        memcpy(last, now, sizeof last);
    }
}

/* ---- halo exchange on a periodic grid ---- */

/* The neighbour `step` away in dimension d. */
static uint32_t neighbour(const struct gen *g, int d, int step) {
    uint64_t stride = 1;
    for (int i = 0; i < d; i++)
        stride *= g->dims[i];
    uint64_t here = g->rank / stride % g->dims[d];
    uint64_t there = (here + g->dims[d] + (uint64_t)(int64_t)step) % g->dims[d];
    return (uint32_t)(g->rank + (there - here) * stride);
}

/* Computation, then a face to each neighbour. A dimension of one rank has no neighbour. */
static void halo(struct gen *g) {
    uint32_t work = add(g, (struct goal_op){.type = GOAL_CALC, .size = g->p->calc_ns});
    for (int d = 0; d < 4; d++)
        for (int side = 0; g->dims[d] > 1 && side < 2; side++)
            after(g,
                  add_send(g, neighbour(g, d, side ? 1 : -1), g->p->bytes,
                           g->tag + (uint32_t)(2 * d + side)),
                  work);
    for (int d = 0; d < 4; d++)
        for (int side = 0; g->dims[d] > 1 && side < 2; side++)
            receive(g, neighbour(g, d, side ? -1 : 1), g->p->bytes,
                    g->tag + (uint32_t)(2 * d + side));
}

/* Splits the ranks into d factors, each as near to the d-th root of what is left as it can be. */
static bool set_dims(struct gen *g, int d) {
    for (int i = 0; i < 4; i++)
        g->dims[i] = 1;
    if (g->p->dims[0]) {
        uint64_t product = 1;
        for (int i = 0; i < 4; i++) {
            g->dims[i] = i < d && g->p->dims[i] ? g->p->dims[i] : 1;
            product *= g->dims[i];
            if ((i >= d && g->p->dims[i] > 1) || product > g->n)
                return false;
        }
        return product == g->n;
    }
    uint32_t left = g->n;
    for (int i = 0; i < d - 1; i++) {
        uint32_t best = 1;
        for (uint32_t f = 1; (uint64_t)f * f <= left; f++) {
            uint64_t power = 1;
            for (int k = 0; k < d - i; k++)
                power = power > left ? power : power * f;
            if (left % f == 0 && power <= left)
                best = f;
        }
        g->dims[i] = best;
        left /= best;
    }
    g->dims[d - 1] = left;
    return true;
}

/* ---- the table ---- */

static const struct pattern {
    const char *name, *about;
    void (*rank)(struct gen *g);
    int dims;
    uint32_t tags; /* an iteration uses so many */
} patterns[] = {
    {"binomial-bcast", "broadcast down a binomial tree", binomial_bcast, 0, 1},
    {"binary-bcast", "broadcast down a binary tree", binary_bcast, 0, 1},
    {"binomial-reduce", "reduction up a binomial tree", binomial_reduce, 0, 1},
    {"binary-reduce", "reduction up a binary tree", binary_reduce, 0, 1},
    {"binomial-scatter", "scatter down a binomial tree", binomial_scatter, 0, 1},
    {"binomial-gather", "gather up a binomial tree", binomial_gather, 0, 1},
    {"dissemination", "dissemination (barrier, allgather of small data)", dissemination, 0, 32},
    {"doubling-allreduce", "allreduce by recursive doubling", recursive_doubling, 0, 1},
    {"ring-allreduce", "allreduce round a ring, in pieces", ring, 0, 1},
    {"linear-alltoall", "all-to-all, everything at once", linear_alltoall, 0, 1},
    {"pairwise-alltoall", "all-to-all, one partner per step", pairwise_alltoall, 0, 1},
    {"halo-2d", "halo exchange on a 2-D grid, with computation", halo, 2, 8},
    {"halo-3d", "halo exchange on a 3-D grid, with computation", halo, 3, 8},
    {"halo-4d", "halo exchange on a 4-D grid, with computation", halo, 4, 8},
};
enum { PATTERNS = sizeof patterns / sizeof patterns[0] };

const char *spin_goal_pattern_name(int i, const char **about) {
    if (i < 0 || i >= PATTERNS)
        return NULL;
    if (about)
        *about = patterns[i].about;
    return patterns[i].name;
}

/* Operations of the iteration that nothing waits for are gathered in a calc of no time, on which
 * the next iteration waits. Returns it. */
static uint32_t gather_ends(struct gen *g, uint32_t from, uint32_t first_link, bool *has_next) {
    for (uint32_t i = from; i < g->made; i++)
        has_next[i] = false;
    goal_mark_linked(g->goal, first_link, has_next);
    uint32_t begin = g->begin, count = g->made;
    g->begin = NONE;
    uint32_t gate = add(g, (struct goal_op){.type = GOAL_CALC});
    for (uint32_t i = from; i < count; i++)
        if (!has_next[i])
            after(g, gate, i);
    if (count == from)
        after(g, gate, begin); /* a rank that does nothing in this pattern */
    return gate;
}

static int build_rank(struct gen *g, const struct pattern *pattern, bool **scratch,
                      uint32_t *room) {
    g->made = 0;
    g->begin = NONE;
    for (uint32_t i = 0; i < g->p->iterations && !g->out_of_memory; i++) {
        uint32_t from = g->made, first_link = g->goal->link_count;
        g->tag = i * pattern->tags;
        g->iteration = i;
        pattern->rank(g);
        if (i + 1 == g->p->iterations)
            break;
        if (g->made > *room) {
            uint32_t larger = 2 * g->made;
            bool *moved = realloc(*scratch, larger);
            if (!moved)
                return SPIN_ENOMEM;
            *scratch = moved;
            *room = larger;
        }
        g->begin = gather_ends(g, from, first_link, *scratch);
    }
    uint32_t circle;
    return g->out_of_memory ? SPIN_ENOMEM : goal_end_rank(g->goal, &circle);
}

static int check(const struct spin_goal_pattern *p, struct spin_error *err) {
    if (p->ranks == 0 || p->ranks > GOAL_MAX_RANKS)
        return spin_fail(err, SPIN_EARG, "%u ranks: expected 1 to %u", p->ranks, GOAL_MAX_RANKS);
    if (p->root >= p->ranks)
        return spin_fail(err, SPIN_EARG, "root %u does not exist: there are %u ranks", p->root,
                         p->ranks);
    if (p->iterations == 0 || p->iterations > 1u << 26)
        return spin_fail(err, SPIN_EARG, "%u iterations: expected 1 to %u", p->iterations,
                         1u << 26);
    if (p->bytes > UINT64_MAX / p->ranks)
        return spin_fail(err, SPIN_EARG, "messages of %llu bytes are too large for %u ranks",
                         (unsigned long long)p->bytes, p->ranks);
    return SPIN_OK;
}

int spin_goal_generate(const struct spin_goal_pattern *p, struct spin_goal **goal,
                       struct spin_error *err) {
    const struct pattern *pattern = NULL;
    for (int i = 0; i < PATTERNS; i++)
        if (strcmp(patterns[i].name, p->name) == 0)
            pattern = &patterns[i];
    if (!pattern)
        return spin_fail(err, SPIN_EARG,
                         "unknown pattern '%.60s'; 'openspin goal gen --list' shows them", p->name);
    int code = check(p, err);
    if (code)
        return code;
    struct gen g = {.p = p, .n = p->ranks, .look_at = 1u << 20};
    if (pattern->dims && !set_dims(&g, pattern->dims))
        return spin_fail(err, SPIN_EARG,
                         "the dimensions of the grid do not multiply to %u ranks, or are not %d",
                         p->ranks, pattern->dims);
    if (!pattern->dims && p->dims[0])
        return spin_fail(err, SPIN_EARG, "%s has no grid: dimensions are for halo patterns",
                         p->name);
    if (!(g.goal = goal_new(p->ranks, err)))
        return SPIN_ENOMEM;
    bool *scratch = NULL;
    uint32_t room = 0;
    for (g.rank = 0; !code && g.rank < g.n; g.rank++)
        code = build_rank(&g, pattern, &scratch, &room);
    free(scratch);
    if (code) {
        goal_free(g.goal);
        if (g.operations > GOAL_MAX_OPS)
            return spin_fail(err, SPIN_ELIMIT,
                             "%s on %u ranks has about %llu operations, at most %u fit: take fewer "
                             "ranks or iterations",
                             p->name, p->ranks, (unsigned long long)g.operations, GOAL_MAX_OPS);
        return spin_fail(err, code,
                         "%s on %u ranks needs about %llu MiB, %llu MiB are free: take fewer ranks "
                         "or iterations",
                         p->name, p->ranks, (unsigned long long)(g.needs >> 20),
                         (unsigned long long)(machine_memory() >> 20));
    }
    *goal = g.goal;
    return SPIN_OK;
}
