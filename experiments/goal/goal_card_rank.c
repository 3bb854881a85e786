/* The processor of a rank: it takes what is to do, hands messages to the message layer, computes,
 * and looks for what is done when nothing else is left.
 *
 * A rank with one cpu makes no call while it computes, so what needs the processor (a rendezvous
 * without handlers, a copy out of a buffer) waits until then. With several cpus computation is an
 * end time, and one thread makes the calls of all of them. */
#include <stdlib.h>

#include "goal_card_private.h"
#include "sim/world_private.h"

static unsigned kind_of(const struct goal_shape *s) {
    switch (s->type) {
    case GOAL_RECV:
    case GOAL_APPEND:
    case GOAL_TAPPEND:
    case GOAL_CTWAIT:
        return TODO_RECV;
    case GOAL_CALC:
        return TODO_CALC;
    default:
        return TODO_SEND;
    }
}

static void add_todo(struct card_rank *r, uint32_t op) {
    const struct goal_shape *s = goal_shape_of(r->all->goal, op);
    struct card_cpu *cpu = &r->cpu[s->cpu];
    unsigned kind = kind_of(s);
    r->all->next[op] = GOAL_ANY;
    if (cpu->first[kind] == GOAL_ANY)
        cpu->first[kind] = op;
    else
        r->all->next[cpu->last[kind]] = op;
    cpu->last[kind] = op;
}

static uint32_t take_todo(struct card_rank *r, struct card_cpu *cpu, unsigned kind) {
    uint32_t op = cpu->first[kind];
    if (op != GOAL_ANY)
        cpu->first[kind] = r->all->next[op];
    return op;
}

static void release(struct card_rank *r, uint32_t op, bool on_start) {
    const struct spin_goal *goal = r->all->goal;
    const struct goal_shape *s = goal_shape_of(goal, op);
    for (uint32_t e = 0; e < s->edge_count; e++) {
        uint32_t edge = goal->edges[s->edges + e];
        if (!(edge & GOAL_ON_START) == on_start)
            continue;
        uint32_t after = goal_after(op, edge);
        if (--r->all->waits[after] == 0)
            add_todo(r, after);
    }
}

static void tell(const struct card_rank *r, uint32_t op, bool done) {
    const struct goal_card_options *o = r->all->options;
    if (o->seen)
        o->seen(o->seen_user, r->rank, op - r->first_op, done, spin_now_ps() - r->began_ps);
}

void card_started(struct card_rank *r, uint32_t op) {
    tell(r, op, false);
    r->all->running[op / 64] |= 1ull << op % 64;
    release(r, op, true);
}

void card_done(struct card_rank *r, uint32_t op) {
    tell(r, op, true);
    r->all->running[op / 64] &= ~(1ull << op % 64);
    r->done++;
    r->all->done++;
    release(r, op, false);
}

/* ---- messages ---- */

static int run_send(struct card_rank *r, uint32_t op) {
    const struct goal_op o = goal_at(r->all->goal, op);
    struct spin_p2p_request *request;
    int code = spin_p2p_isend(r->p2p, r->all->out, o.size, o.peer, o.tag, 0, &request);
    if (code != PTL_OK)
        return card_failed(r, op, "spin_p2p_isend", code);
    r->under_way++;
    r->messages++;
    r->bytes += o.size;
    spin_p2p_set_user(request, (void *)(uintptr_t)(op + 1ull));
    card_started(r, op);
    /* A short message is gone when the call returns: its memory may be used again. */
    if (o.size <= r->all->options->eager_bytes)
        card_done(r, op);
    return PTL_OK;
}

static int run_recv(struct card_rank *r, uint32_t op) {
    const struct goal_op o = goal_at(r->all->goal, op);
    struct spin_p2p_request *request;
    uint32_t from = o.peer == GOAL_ANY ? SPIN_P2P_ANY_SOURCE : o.peer;
    uint32_t tag = o.tag == GOAL_ANY ? SPIN_P2P_ANY_TAG : o.tag;
    /* A message is as large as its send says. */
    int code = spin_p2p_irecv(r->p2p, r->all->in, r->all->most_bytes, from, tag, 0, &request);
    if (code != PTL_OK)
        return card_failed(r, op, "spin_p2p_irecv", code);
    r->under_way++;
    spin_p2p_set_user(request, (void *)(uintptr_t)(op + 1ull));
    card_started(r, op);
    return PTL_OK;
}

static int take_end(struct card_rank *r, const struct spin_p2p_status *status) {
    uint32_t op = (uint32_t)((uintptr_t)status->user - 1);
    bool receives = goal_shape_of(r->all->goal, op)->type == GOAL_RECV;
    if (status->code != PTL_OK)
        return card_failed(r, op,
                           status->code == PTL_NO_SPACE
                               ? "no room for early messages at the receiver (--set unexpected)"
                               : "the message",
                           status->code);
    r->under_way--;
    r->received += receives;
    if (r->all->running[op / 64] >> op % 64 & 1)
        card_done(r, op);
    return PTL_OK;
}

/* The next message that the message layer has finished, within a time. */
static int take_next(struct card_rank *r, ptl_time_t timeout_ms, bool *any) {
    struct spin_p2p_status status;
    int code = spin_p2p_next(r->p2p, timeout_ms, &status);
    if (code == PTL_EQ_EMPTY)
        return PTL_OK;
    *any = true;
    return code == PTL_OK ? take_end(r, &status) : card_failed(r, GOAL_ANY, "spin_p2p_next", code);
}

/* What has happened by now; what that makes free comes before another look. */
static int look(struct card_rank *r, bool *any) {
    int code = r->under_way ? take_next(r, 0, any) : PTL_OK;
    if (code == PTL_OK && !*any && r->first_test != GOAL_ANY)
        code = card_portals_look(r, any);
    return code;
}

/* Until something happens; computation of some cpu ends at `next_ps`. */
static int wait_for_more(struct card_rank *r, uint64_t next_ps) {
    bool any = false;
    if (next_ps == UINT64_MAX && r->first_test == GOAL_ANY)
        return take_next(r, PTL_TIME_FOREVER, &any);
    int code = look(r, &any);
    if (code == PTL_OK && !any)
        world_idle(next_ps);
    return code;
}

/* ---- computation ---- */

static void compute(struct card_rank *r, struct card_cpu *cpu, uint32_t op) {
    uint64_t time_ps = goal_at(r->all->goal, op).size * 1000;
    card_started(r, op);
    if (r->cpus == 1) {
        spin_compute_ps(time_ps);
        card_done(r, op);
    } else {
        cpu->running = op;
        cpu->free_ps = spin_now_ps() + time_ps;
    }
}

/* Computation that has ended; the time of the next one that does. */
static uint64_t end_computation(struct card_rank *r) {
    uint64_t now = r->cpus > 1 ? spin_now_ps() : 0, next = UINT64_MAX;
    for (uint32_t i = 0; r->cpus > 1 && i < r->cpus; i++) {
        struct card_cpu *cpu = &r->cpu[i];
        if (cpu->running == GOAL_ANY)
            continue;
        if (cpu->free_ps <= now) {
            uint32_t op = cpu->running;
            cpu->running = GOAL_ANY;
            card_done(r, op);
        } else if (cpu->free_ps < next) {
            next = cpu->free_ps;
        }
    }
    return next;
}

/* ---- the loop ---- */

static int run_one(struct card_rank *r, uint32_t op) {
    unsigned type = goal_shape_of(r->all->goal, op)->type;
    return type == GOAL_SEND   ? run_send(r, op)
           : type == GOAL_RECV ? run_recv(r, op)
                               : card_portals_run(r, op);
}

/* All that its idle cpus can begin. */
static int run_todo(struct card_rank *r, bool *any, bool *computed) {
    for (uint32_t i = 0; i < r->cpus; i++) {
        struct card_cpu *cpu = &r->cpu[i];
        uint32_t op = GOAL_ANY;
        while (cpu->running == GOAL_ANY && ((op = take_todo(r, cpu, TODO_SEND)) != GOAL_ANY ||
                                            (op = take_todo(r, cpu, TODO_RECV)) != GOAL_ANY)) {
            int code = run_one(r, op);
            *any = true;
            if (code != PTL_OK)
                return code;
        }
        if (cpu->running == GOAL_ANY && (op = take_todo(r, cpu, TODO_CALC)) != GOAL_ANY) {
            compute(r, cpu, op);
            *any = *computed = true;
        }
    }
    return PTL_OK;
}

static int run_all(struct card_rank *r) {
    int code = PTL_OK;
    while (code == PTL_OK && r->done < r->ops && !r->all->failed[0]) {
        bool any = false, computed = false;
        uint64_t next_ps = end_computation(r);
        code = run_todo(r, &any, &computed);
        if (code != PTL_OK || r->done == r->ops)
            break;
        if (!any)
            code = wait_for_more(r, next_ps);
        else if (computed && r->cpus == 1) /* messages may have come meanwhile */
            code = look(r, &(bool){false});
    }
    r->finish_ps = spin_now_ps();
    /* Short messages whose arrival nobody has waited for. */
    while (code == PTL_OK && r->under_way && !r->all->failed[0])
        code = take_next(r, PTL_TIME_FOREVER, &(bool){false});
    return code;
}

static int open_rank(struct card_rank *r) {
    const struct goal_card_options *o = r->all->options;
    const struct spin_p2p_options options = {.variant = card_variant(o->matching),
                                             .eager_bytes = (uint32_t)o->eager_bytes,
                                             .no_eager = o->eager_bytes == 0,
                                             .unexpected_bytes = r->all->unexpected_bytes,
                                             .depth = r->all->depth};
    int code = spin_job_open(&r->job);
    if (code == PTL_OK)
        code = spin_p2p_open(r->job.ni, &options, &r->p2p);
    if (code != PTL_OK)
        return card_failed(r, GOAL_ANY, "spin_p2p_open", code);
    return r->all->portals ? card_portals_open(r) : PTL_OK;
}

static void set_up_todo(struct card_rank *r) {
    for (uint32_t i = 0; i < r->cpus; i++) {
        r->cpu[i].running = GOAL_ANY;
        for (unsigned kind = 0; kind < TODO_KINDS; kind++)
            r->cpu[i].first[kind] = GOAL_ANY;
    }
    for (uint32_t op = r->first_op; op < r->first_op + r->ops; op++)
        if (r->all->waits[op] == 0)
            add_todo(r, op);
}

int card_rank_main(void *argument) {
    struct card_replay *all = argument;
    struct card_rank *r = &all->rank[spin_rank()];
    int code = open_rank(r);
    set_up_todo(r);
    spin_barrier();
    r->began_ps = r->finish_ps = spin_now_ps();
    if (!all->failed[0]) /* else somebody would wait for who could not open */
        code = run_all(r);
    spin_barrier(); /* others may still fetch what it has sent */
    if (code != PTL_OK)
        return 1;
    spin_p2p_counts(r->p2p, &r->counts);
    /* Cards go on with what was handed to them; the world ends when nothing is left to happen. */
    while (all->portals)
        world_idle(UINT64_MAX);
    spin_p2p_close(r->p2p);
    r->p2p = NULL;
    spin_job_close(&r->job);
    return 0;
}
