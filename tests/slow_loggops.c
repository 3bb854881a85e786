#include "slow_loggops.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef __int128 wide;

enum what { AN_OP, A_MESSAGE };

struct event {
    wide time;
    uint64_t number;
    enum what what;
    uint32_t op, rank; /* the operation and its rank; of a message, the send and the sender */
};

struct waiting {
    uint32_t source, tag, op, rank; /* rank: whose queue */
};

struct world {
    const struct spin_goal *goal;
    const struct spin_loggops *p;
    uint32_t cpus, nics;
    wide *nexto, *nextgs, *nextgr;
    uint32_t *waits;
    bool *done;
    struct fresh {
        uint32_t rank, op;
    } * fresh; /* what became free in this step, in that order */
    size_t fresh_count;
    struct event *queue;
    size_t queued;
    struct waiting *posted, *unexpected;
    size_t posted_count, unexpected_count;
    uint64_t next_number;
    wide waited;
};

static wide *O(struct world *w, uint32_t rank, int cpu) {
    return &w->nexto[rank * w->cpus + cpu];
}
static wide *S(struct world *w, uint32_t rank, int nic) {
    return &w->nextgs[rank * w->nics + nic];
}
static wide *R(struct world *w, uint32_t rank, int nic) {
    return &w->nextgr[rank * w->nics + nic];
}
static wide larger(wide a, wide b) {
    return a > b ? a : b;
}

/* (s-1) * cost, where s-1 wraps: subtracting the cost once. */
static wide per_byte(uint64_t size, uint64_t fs) {
    return size == 0 ? -(wide)(fs / 1000) : (wide)(size - 1) * fs / 1000;
}

/* The larger of two, where a negative is a wrapped unsigned number and thus larger than any other.
 */
static wide unsigned_larger(wide a, wide b) {
    if ((a < 0) != (b < 0))
        return a < 0 ? a : b;
    return larger(a, b);
}

static wide not_negative(wide t) {
    return t < 0 ? 0 : t;
}

static void push(struct world *w, struct event e) {
    w->queue[w->queued++] = e;
}

/* Back into the queue with its number. */
static void push_again(struct world *w, struct event e, wide free_at) {
    w->waited += free_at - e.time;
    e.time = free_at;
    push(w, e);
}

static struct event pop(struct world *w) {
    size_t best = 0;
    for (size_t i = 1; i < w->queued; i++)
        if (w->queue[i].time < w->queue[best].time ||
            (w->queue[i].time == w->queue[best].time && w->queue[i].number < w->queue[best].number))
            best = i;
    struct event e = w->queue[best];
    w->queue[best] = w->queue[--w->queued];
    return e;
}

static void is_free(struct world *w, uint32_t rank, uint32_t op) {
    w->fresh[w->fresh_count++] = (struct fresh){rank, op};
}

/* One dependency of every successor of that kind is met. */
static void mark(struct world *w, uint32_t rank, uint32_t op, bool started) {
    const struct goal_shape *o = goal_shape_of(w->goal, op);
    for (uint32_t e = 0; e < o->edge_count; e++) {
        uint32_t edge = w->goal->edges[o->edges + e], next = goal_after(op, edge);
        if (((edge & GOAL_ON_START) != 0) == started && --w->waits[next] == 0)
            is_free(w, rank, next);
    }
    if (!started)
        w->done[op] = true;
}

/* All hosts ascending, sends first, then receives, then calcs, then as they became free. */
static void release(struct world *w, bool roots) {
    for (uint32_t rank = 0; rank < w->goal->num_ranks; rank++)
        for (int type = GOAL_SEND; type <= GOAL_CALC; type++)
            for (size_t i = 0; i < w->fresh_count; i++) {
                const struct goal_op op = goal_at(w->goal, w->fresh[i].op), *o = &op;
                if (w->fresh[i].rank != rank || o->type != type)
                    continue;
                wide time = *O(w, rank, o->cpu);
                if (type == GOAL_SEND)
                    time = larger(time, *S(w, rank, o->nic));
                push(w, (struct event){roots ? 0 : time, w->next_number++, AN_OP, w->fresh[i].op,
                                       rank});
            }
    w->fresh_count = 0;
}

static bool fits(uint32_t source, uint32_t tag, const struct waiting *other) {
    return (source == GOAL_ANY || other->source == GOAL_ANY || source == other->source) &&
           (tag == GOAL_ANY || other->tag == GOAL_ANY || tag == other->tag);
}

/* The first in the list that fits, taken out. */
static bool match(struct waiting *list, size_t *count, uint32_t rank, uint32_t source, uint32_t tag,
                  struct waiting *found) {
    for (size_t i = 0; i < *count; i++)
        if (list[i].rank == rank && fits(source, tag, &list[i])) {
            *found = list[i];
            memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
            return true;
        }
    return false;
}

/* `o` names the cpu and nic: the send in do_message, the receive in do_op. */
static void sender_released(struct world *w, uint32_t sender, uint32_t send,
                            const struct goal_op *o, wide t) {
    if (goal_at(w->goal, send).size <= w->p->S_bytes)
        return;
    *O(w, sender, o->cpu) = larger(*O(w, sender, o->cpu), t);
    *S(w, sender, o->nic) = larger(*S(w, sender, o->nic), t);
    mark(w, sender, send, false);
}

static void do_op(struct world *w, struct event e) {
    const struct goal_op op = goal_at(w->goal, e.op), *o = &op;
    struct waiting found;
    wide t = e.time;
    if (o->type == GOAL_CALC) {
        if (*O(w, e.rank, o->cpu) > t) {
            push_again(w, e, *O(w, e.rank, o->cpu));
            return;
        }
        *O(w, e.rank, o->cpu) = t + (wide)o->size * 1000;
        mark(w, e.rank, e.op, true);
        mark(w, e.rank, e.op, false);
    } else if (o->type == GOAL_SEND) {
        wide free_at = larger(*O(w, e.rank, o->cpu), *S(w, e.rank, o->nic));
        if (free_at > t) {
            push_again(w, e, free_at);
            return;
        }
        *O(w, e.rank, o->cpu) = not_negative(t + w->p->o_ps + per_byte(o->size, w->p->O_fs));
        *S(w, e.rank, o->nic) = not_negative(t + w->p->g_ps + per_byte(o->size, w->p->G_fs));
        push(w, (struct event){t + w->p->o_ps + w->p->L_ps, w->next_number++, A_MESSAGE, e.op,
                               e.rank});
        mark(w, e.rank, e.op, true);
        if (o->size <= w->p->S_bytes)
            mark(w, e.rank, e.op, false);
    } else {
        mark(w, e.rank, e.op, true);
        if (match(w->unexpected, &w->unexpected_count, e.rank, o->peer, o->tag, &found)) {
            sender_released(w, found.source, found.op, o, t);
            mark(w, e.rank, e.op, false);
        } else {
            w->posted[w->posted_count++] = (struct waiting){o->peer, o->tag, e.op, e.rank};
        }
    }
}

static void do_message(struct world *w, struct event e) {
    const struct goal_op op = goal_at(w->goal, e.op), *o = &op;
    uint32_t to = o->peer;
    wide t = e.time, free_at = larger(*O(w, to, o->cpu), *R(w, to, o->nic));
    struct waiting found;
    if (free_at > t) {
        push_again(w, e, free_at);
        return;
    }
    *O(w, to, o->cpu) =
        not_negative(t + w->p->o_ps +
                     unsigned_larger(per_byte(o->size, w->p->O_fs), per_byte(o->size, w->p->G_fs)));
    *R(w, to, o->nic) = not_negative(t + w->p->g_ps + per_byte(o->size, w->p->G_fs));
    if (match(w->posted, &w->posted_count, to, e.rank, o->tag, &found)) {
        sender_released(w, e.rank, e.op, o, t);
        mark(w, to, found.op, false);
    } else {
        w->unexpected[w->unexpected_count++] = (struct waiting){e.rank, o->tag, e.op, to};
    }
}

uint32_t slow_loggops(const struct spin_goal *goal, const struct spin_loggops *p, uint64_t *finish,
                      uint64_t *queue_ps) {
    uint32_t ops = goal->op_count, ranks = goal->num_ranks, left = 0;
    struct world w = {.goal = goal, .p = p, .cpus = goal->max_cpu + 1u, .nics = goal->max_nic + 1u};
    w.nexto = calloc(ranks * w.cpus, sizeof(wide));
    w.nextgs = calloc(ranks * w.nics, sizeof(wide));
    w.nextgr = calloc(ranks * w.nics, sizeof(wide));
    w.waits = calloc(ops + 1, sizeof *w.waits);
    for (uint32_t i = 0; i < ops; i++)
        w.waits[i] = goal_shape_of(goal, i)->waits;
    w.fresh = calloc(ops + 1, sizeof *w.fresh);
    w.done = calloc(ops + 1, sizeof(bool));
    w.queue = calloc(2 * ops + 1, sizeof *w.queue);
    w.posted = calloc(ops + 1, sizeof *w.posted);
    w.unexpected = calloc(ops + 1, sizeof *w.unexpected);
    for (uint32_t rank = 0; rank < ranks; rank++)
        for (uint32_t i = goal->first_op[rank]; i < goal->first_op[rank + 1]; i++)
            if (w.waits[i] == 0)
                is_free(&w, rank, i);
    release(&w, true);
    while (w.queued) {
        struct event e = pop(&w);
        if (e.what == AN_OP)
            do_op(&w, e);
        else
            do_message(&w, e);
        release(&w, false);
    }
    *queue_ps = (uint64_t)w.waited;
    for (uint32_t i = 0; i < ops; i++)
        left += !w.done[i];
    for (uint32_t rank = 0; rank < ranks; rank++) {
        wide latest = 0;
        for (uint32_t cpu = 0; cpu < w.cpus; cpu++)
            latest = larger(latest, *O(&w, rank, (int)cpu));
        finish[rank] = (uint64_t)latest;
    }
    void *all[] = {w.nexto, w.nextgs, w.nextgr, w.waits,     w.fresh,
                   w.done,  w.queue,  w.posted, w.unexpected};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
    return left;
}
