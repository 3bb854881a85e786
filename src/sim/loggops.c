/* The timing rules of LogGOPSim, event for event.
 *
 * Times of a rank: `nexto` per cpu, `nextgs` and `nextgr` per nic, side by side in one array, so
 * that a rank with one of each is half a cache line. Kinds of events: an operation whose time has
 * come (send, recv, calc) and a message at its receiver; and the same three that can wait once they
 * have waited (waiting.h). Every event carries operation, rank, the other rank and tag.
 *
 * Operations that become free get their sequence numbers rank by rank, ascending, then send, recv,
 * calc. Among those of one type LogGOPSim takes them as they became free: those that waited for the
 * start of an operation before those that waited for its end, and as the schedule states who waits.
 * Where a schedule states that in the order of its operations, this is program order. */
#include "sim/loggops.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/minheap.h"
#include "base/pages.h"
#include "sim/waiting.h"
#include "sim/goal_match.h"

enum kind { SEND, RECEIVE, CALC, MESSAGE, SEND_WAITED, CALC_WAITED, MESSAGE_WAITED, KINDS };
enum { STARTED = 1, DONE = 2 };

/* What a message of a size costs beyond its first byte. */
struct costs {
    uint64_t size, bytes_ps, gap_ps; /* on the cpu, on the nic */
};

static inline bool is_earlier(const struct sim_event *a, const struct sim_event *b) {
    return a->at_ps != b->at_ps ? a->at_ps < b->at_ps : a->order < b->order;
}
MINHEAP(overdue, struct sim_event, is_earlier);

struct loggops {
    struct sim_engine *engine;
    const struct spin_goal *goal;
    struct spin_loggops p;
    const struct sim_transport *transport;
    const struct noise *noise;
    struct trace *trace;
    struct timeline *timeline;
    const struct timeline_view *view; /* of both */
    struct goal_path *path;
    uint64_t arrows;

    uint64_t *times; /* per rank: nexto[cpus], nextgs[nics], nextgr[nics] */
    uint32_t cpus, nics, stride;
    uint32_t *met;      /* per operation that waits for several: dependencies that are met */
    uint64_t *running;  /* a bit per operation: it was free to run, and is not done */
    struct costs costs; /* of the size that was asked for last: mostly the next is the same */
    struct goal_match *match;
    struct waiting *waiting;
    struct sim_instance sim;
    uint64_t number, now_ps; /* of the next event; of the engine */
    struct overdue overdue;
    bool too_late;

    uint32_t *freed; /* operations that two completions of one rank set free, to be ordered */
    uint32_t freed_count, freed_room;
    bool collect, out_of_memory;
    struct loggops_counts counts;
};

static inline uint64_t later(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

static inline uint64_t *nexto(const struct loggops *l, uint32_t rank, unsigned cpu) {
    return &l->times[(uint64_t)rank * l->stride + cpu];
}
static inline uint64_t *nextgs(const struct loggops *l, uint32_t rank, unsigned nic) {
    return &l->times[(uint64_t)rank * l->stride + l->cpus + nic];
}
static inline uint64_t *nextgr(const struct loggops *l, uint32_t rank, unsigned nic) {
    return &l->times[(uint64_t)rank * l->stride + l->cpus + l->nics + nic];
}

/* A clock as the critical path numbers it. */
static inline uint64_t clock_of(const struct loggops *l, const uint64_t *time) {
    return (uint64_t)(time - l->times);
}

/* Boxes and arrows, the nic's rows behind the cpus'. */
enum row { ROW_CPU, ROW_SEND, ROW_RECEIVE };
static uint32_t row_of(const struct loggops *l, enum row row, unsigned number) {
    return row == ROW_CPU ? number : l->cpus + (row == ROW_SEND ? 0 : l->nics) + number;
}
static uint32_t trace_row_of(enum row row, unsigned number) {
    static const uint32_t first[] = {TRACE_CPU, TRACE_NIC_SEND, TRACE_NIC_RECEIVE};
    return first[row] + number;
}

static void note(struct loggops *l, uint32_t rank, enum row row, unsigned number, const char *name,
                 uint64_t start_ps, uint64_t end_ps, uint64_t bytes, int64_t peer) {
    uint64_t length_ps = end_ps > start_ps ? end_ps - start_ps : 0;
    if (!timeline_view_shows(l->view, rank, start_ps, start_ps + length_ps))
        return;
    if (l->trace)
        trace_box(l->trace, rank, trace_row_of(row, number), name, start_ps, length_ps, bytes,
                  peer);
    struct timeline_box box = {start_ps, length_ps, bytes, peer, rank, row_of(l, row, number),
                               false,    "",        NULL};
    snprintf(box.name, sizeof box.name, "%s", name);
    if (l->timeline && !timeline_box(l->timeline, &box))
        sim_stop(l->engine);
}

/* From the cpu that sends to the one that receives. */
static void note_arrow(struct loggops *l, uint32_t from, uint32_t send, uint32_t to,
                       const struct goal_shape *op, uint64_t to_ps) {
    uint64_t from_ps = goal_path_start_ps(l->path, send);
    if (!timeline_view_shows(l->view, from, from_ps, to_ps) || !timeline_view_rank(l->view, to))
        return;
    if (l->trace)
        trace_arrow(l->trace, ++l->arrows, (struct trace_end){from, TRACE_CPU + op->cpu, from_ps},
                    (struct trace_end){to, TRACE_CPU + op->cpu, to_ps});
    if (l->timeline && !timeline_arrow(l->timeline, (struct trace_end){from, op->cpu, from_ps},
                                       (struct trace_end){to, op->cpu, to_ps}, false))
        sim_stop(l->engine);
}

/* (s-1) times a cost per byte, in picoseconds, rounded down. For s = 0 the factor wraps, as it does
 * in LogGOPSim: the cost is subtracted once, modulo 2^64. */
static inline uint64_t for_bytes(uint64_t size, uint64_t cost_fs) {
    if (size == 0)
        return 0 - cost_fs / 1000;
    unsigned __int128 fs = (unsigned __int128)(size - 1) * cost_fs;
    return fs >> 64 ? (uint64_t)(fs / 1000) : (uint64_t)fs / 1000;
}

static inline const struct costs *costs_of(struct loggops *l, uint64_t size) {
    if (size != l->costs.size)
        l->costs = (struct costs){size, for_bytes(size, l->p.O_fs),
                                  l->transport ? 0 : for_bytes(size, l->p.G_fs)};
    return &l->costs;
}

/* t plus a cost that may be a wrapped negative; a free time cannot lie before the beginning. */
static inline uint64_t plus(uint64_t t, uint64_t cost) {
    uint64_t sum = t + cost;
    return (int64_t)cost < 0 && sum > t ? 0 : sum;
}

static inline uint64_t noisy(struct loggops *l, uint32_t rank, uint64_t start, uint64_t end) {
    if (!l->noise || end <= start)
        return end;
    uint64_t delay = noise_delay(l->noise, rank, start, end - start);
    l->counts.noise_ps += delay;
    return end + delay;
}

/* The engine would end the run at the next event anyway; a rank's last operation has none. */
static inline void check_time(struct loggops *l, uint64_t time) {
    if (time >= SIM_LATEST_PS) {
        l->too_late = true;
        sim_stop(l->engine);
    }
}

/* ---- events ----
 *
 * LogGOPSim's rules order the events of all ranks by one number, given out as they are made, and an
 * event that waits keeps it. So to the engine each number is an object of its own.
 *
 * The rules also start an operation when its cpu is free, even if what set it free lies later; so
 * an event may be due before the present time. The engine has no such events: they are taken from a
 * heap here, before the engine goes on. */

static void put_overdue(struct loggops *l, uint64_t at_ps, uint64_t number, enum kind kind,
                        union sim_payload with) {
    struct sim_event event = {at_ps, l->sim.order + (number << SIM_KIND_BITS) + kind, with};
    if (!overdue_push(&l->overdue, &event)) {
        l->out_of_memory = true;
        sim_stop(l->engine);
    }
}

static inline void put(struct loggops *l, uint64_t at_ps, uint64_t number, enum kind kind,
                       union sim_payload with) {
    if (at_ps >= l->now_ps)
        sim_schedule(&l->sim, at_ps, number, kind, with);
    else
        put_overdue(l, at_ps, number, kind, with);
}

/* ---- operations that become free ---- */

static inline void schedule_op(struct loggops *l, uint32_t rank, uint32_t index) {
    const struct goal_shape *op = goal_shape_of(l->goal, index);
    uint64_t at = *nexto(l, rank, op->cpu);
    if (op->type == GOAL_SEND)
        at = later(at, *nextgs(l, rank, op->nic));
    if (l->path)
        goal_path_due(l->path, index,
                      clock_of(l, at == *nexto(l, rank, op->cpu) ? nexto(l, rank, op->cpu)
                                                                 : nextgs(l, rank, op->nic)));
    uint32_t peer = op->type == GOAL_CALC ? 0 : l->goal->ops[index].peer;
    put(l, at, l->number++, op->type - GOAL_SEND,
        (union sim_payload){.u32 = {index, rank, peer, op->tag}});
    l->running[index / 64] |= 1ull << index % 64;
    l->counts.events++;
}

static void collect(struct loggops *l, uint32_t index) {
    if (!ROOM_FOR_ONE(l->freed, l->freed_count, l->freed_room, 64)) {
        l->out_of_memory = true;
        sim_stop(l->engine);
        return;
    }
    l->freed[l->freed_count++] = index;
}

/* The successors of an operation that has started, is done, or both. They are stored in the order
 * in which the rules take them. */
static inline void complete(struct loggops *l, uint32_t rank, uint32_t index, unsigned what) {
    const struct spin_goal *goal = l->goal;
    const struct goal_shape *op = goal_shape_of(goal, index);
    if (what & DONE) {
        l->counts.done++;
        l->running[index / 64] &= ~(1ull << index % 64);
    }
    for (uint32_t e = op->edges, end = op->edges + op->edge_count; e < end; e++) {
        uint32_t edge = goal->edges[e], next = goal_after(index, edge);
        if (!(what & (edge & GOAL_ON_START ? STARTED : DONE)))
            continue;
        uint32_t waits = goal_shape_of(goal, next)->waits;
        if (waits > 1 && ++l->met[next] < waits)
            continue;
        if (l->collect)
            collect(l, next);
        else
            schedule_op(l, rank, next);
    }
}

/* What was collected, in the order of types. */
static void schedule_freed(struct loggops *l, uint32_t rank) {
    for (unsigned type = GOAL_SEND; type <= GOAL_CALC; type++)
        for (uint32_t i = 0; i < l->freed_count; i++)
            if (goal_shape_of(l->goal, l->freed[i])->type == type)
                schedule_op(l, rank, l->freed[i]);
    l->freed_count = 0;
}

/* A receive has matched (`what` also says whether it started just now). If it is a rendezvous, the
 * send is done with it, and the cpu and nic of its rank that `clocks` names wait until now: the
 * send's when the message finds the receive, the receive's when the receive finds the message, as
 * LogGOPSim has it. Ranks in ascending order; of a rank that sent to itself, all that became free
 * is ordered as one. */
static void complete_both(struct loggops *l, uint32_t rank, uint32_t receive, unsigned what,
                          uint32_t from, uint32_t send, const struct goal_shape *clocks,
                          uint64_t at_ps) {
    if (goal_shape_of(l->goal, send)->size <= l->p.S_bytes) {
        complete(l, rank, receive, what);
        return;
    }
    uint64_t *cpu = nexto(l, from, clocks->cpu), *nic = nextgs(l, from, clocks->nic);
    if (l->path) {
        uint32_t matched = what & STARTED ? receive : goal_path_message(l->goal, send);
        if (at_ps > *cpu)
            goal_path_moves(l->path, clock_of(l, cpu), matched, SPIN_STEP_MATCH);
        if (at_ps > *nic)
            goal_path_moves(l->path, clock_of(l, nic), matched, SPIN_STEP_MATCH);
    }
    *cpu = later(*cpu, at_ps);
    *nic = later(*nic, at_ps);
    if (from < rank)
        complete(l, from, send, DONE);
    if (from != rank)
        complete(l, rank, receive, what);
    if (from > rank)
        complete(l, from, send, DONE);
    if (from != rank)
        return;
    l->collect = true;
    if (what & STARTED)
        complete(l, rank, receive, STARTED);
    complete(l, rank, send, DONE);
    complete(l, rank, receive, DONE);
    l->collect = false;
    schedule_freed(l, rank);
}

/* ---- waiting for a busy cpu or nic ---- */

/* A rank's waiting lines: one per cpu for calcs, then one per pair of cpu and nic for sends, then
 * for messages.
 */
static inline uint64_t waiting_key(const struct loggops *l, enum kind kind, uint32_t rank,
                                   const struct goal_shape *op) {
    uint64_t pairs = (uint64_t)l->cpus * l->nics, key = rank * (l->cpus + 2 * pairs);
    if (kind == CALC)
        return key + op->cpu;
    return key + l->cpus + (kind == MESSAGE ? pairs : 0) + (uint64_t)op->cpu * l->nics + op->nic;
}

/* For the critical path: the event will start at the time that the later of its clocks shows now.
 * Later would be too late to ask, since messages of 0 bytes can set a clock back. */
static void will_start(struct loggops *l, const struct sim_event *event, enum kind kind,
                       uint32_t rank, const struct goal_shape *op) {
    uint32_t what = event->with.u32[0];
    const uint64_t *cpu = nexto(l, rank, op->cpu), *nic = cpu;
    if (kind == SEND)
        nic = nextgs(l, rank, op->nic);
    if (kind == MESSAGE)
        nic = nextgr(l, rank, op->nic);
    goal_path_due(l->path, kind == MESSAGE ? goal_path_message(l->goal, what) : what,
                  clock_of(l, *nic > *cpu ? nic : cpu));
}

static void wait_until(struct loggops *l, const struct sim_event *event, enum kind kind,
                       enum kind waited, uint32_t rank, const struct goal_shape *op,
                       uint64_t free_ps) {
    struct sim_event again = *event;
    again.order = l->sim.order + (sim_object(event) << SIM_KIND_BITS) + waited;
    if (l->path)
        will_start(l, event, kind, rank, op);
    if (waiting_wait(l->waiting, waiting_key(l, kind, rank, op), &again, free_ps)) {
        l->counts.queue_ps += free_ps - event->at_ps;
        put(l, free_ps, sim_object(event), waited, event->with);
    }
}

/* After an event that had waited has run: who is next? `free_ps` is when its line can go on. */
static void serve_next(struct loggops *l, const struct sim_event *event, enum kind kind,
                       enum kind waited, uint32_t rank, const struct goal_shape *op,
                       uint64_t free_ps) {
    struct sim_event next;
    free_ps = later(free_ps, event->at_ps);
    if (!waiting_ran(l->waiting, waiting_key(l, kind, rank, op), event, free_ps, &next))
        return;
    if (l->path)
        will_start(l, &next, kind, rank, op);
    l->counts.queue_ps += free_ps - next.at_ps;
    put(l, free_ps, sim_object(&next), waited, next.with);
}

static inline void next_in_line(struct loggops *l, const struct sim_event *event, enum kind kind,
                                enum kind waited, uint32_t rank, const struct goal_shape *op,
                                uint64_t free_ps) {
    if (sim_kind(&l->sim, event) == waited)
        serve_next(l, event, kind, waited, rank, op, free_ps);
}

/* ---- the four kinds of events ---- */

static void moved(struct loggops *l, uint32_t what, const uint64_t *cpu, const uint64_t *nic) {
    goal_path_moves(l->path, clock_of(l, cpu), what, SPIN_STEP_CPU);
    if (nic)
        goal_path_moves(l->path, clock_of(l, nic), what, SPIN_STEP_NIC);
}

static inline void run_calc(struct loggops *l, const struct sim_event *event) {
    uint32_t index = event->with.u32[0], rank = event->with.u32[1];
    const struct goal_shape *op = goal_shape_of(l->goal, index);
    uint64_t *cpu = nexto(l, rank, op->cpu), t = event->at_ps;
    uint64_t size = goal_size_of(op, l->goal->ops[index].peer);
    if (*cpu > t) {
        wait_until(l, event, CALC, CALC_WAITED, rank, op, *cpu);
        return;
    }
    if (l->path)
        goal_path_starts(l->path, index, t);
    *cpu = noisy(l, rank, t, t + size * 1000);
    check_time(l, *cpu);
    if (l->path)
        moved(l, index, cpu, NULL);
    if (l->view)
        note(l, rank, ROW_CPU, op->cpu, "calc", t, *cpu, size, -1);
    next_in_line(l, event, CALC, CALC_WAITED, rank, op, *cpu);
    complete(l, rank, index, STARTED | DONE);
}

static void send_out(struct loggops *l, uint32_t index, uint32_t rank, uint32_t peer,
                     const struct goal_shape *op, uint64_t t) {
    union sim_payload handle = {.u32 = {index, rank, peer, op->tag}};
    l->counts.messages++;
    l->counts.bytes += op->size;
    if (!l->transport) {
        put(l, t + l->p.o_ps + l->p.L_ps, l->number++, MESSAGE, handle);
        return;
    }
    struct sim_message message = {rank, peer, op->nic, op->size, t + l->p.o_ps, handle};
    l->transport->send(l->transport->context, &message);
}

void loggops_arrive(struct loggops *l, uint64_t at_ps, union sim_payload handle) {
    sim_schedule(&l->sim, at_ps, l->number++, MESSAGE, handle);
}

static inline void run_send(struct loggops *l, const struct sim_event *event) {
    uint32_t index = event->with.u32[0], rank = event->with.u32[1], peer = event->with.u32[2];
    const struct goal_shape *op = goal_shape_of(l->goal, index);
    uint64_t *cpu = nexto(l, rank, op->cpu), *nic = nextgs(l, rank, op->nic), t = event->at_ps;
    uint64_t free_ps = later(*cpu, *nic);
    if (free_ps > t) {
        wait_until(l, event, SEND, SEND_WAITED, rank, op, free_ps);
        return;
    }
    if (l->path)
        goal_path_starts(l->path, index, t);
    const struct costs *costs = costs_of(l, op->size);
    *cpu = noisy(l, rank, t, plus(t + l->p.o_ps, costs->bytes_ps));
    *nic = plus(t + l->p.g_ps, costs->gap_ps);
    check_time(l, later(*cpu, *nic));
    if (l->path) {
        moved(l, index, cpu, nic);
        goal_path_sent(l->path, index);
    }
    if (l->view) {
        note(l, rank, ROW_CPU, op->cpu, "send", t, *cpu, op->size, peer);
        note(l, rank, ROW_SEND, op->nic, "send", t, *nic, op->size, peer);
    }
    send_out(l, index, rank, peer, op, t);
    l->counts.events++; /* the message */
    next_in_line(l, event, SEND, SEND_WAITED, rank, op, later(*cpu, *nic));
    complete(l, rank, index, op->size <= l->p.S_bytes ? STARTED | DONE : STARTED);
}

static inline void run_receive(struct loggops *l, const struct sim_event *event) {
    uint32_t index = event->with.u32[0], rank = event->with.u32[1];
    uint32_t source = event->with.u32[2], tag = event->with.u32[3];
    struct goal_found found;
    if (l->path)
        goal_path_starts(l->path, index, event->at_ps);
    if (goal_match_receive(l->match, rank, source, tag, index, &found))
        complete_both(l, rank, index, STARTED | DONE, found.source, found.op,
                      goal_shape_of(l->goal, index), event->at_ps);
    else
        complete(l, rank, index, STARTED);
}

static inline void run_message(struct loggops *l, const struct sim_event *event) {
    uint32_t send = event->with.u32[0], from = event->with.u32[1], rank = event->with.u32[2];
    const struct goal_shape *op = goal_shape_of(l->goal, send);
    uint64_t *cpu = nexto(l, rank, op->cpu), *nic = nextgr(l, rank, op->nic), t = event->at_ps;
    uint64_t free_ps = later(*cpu, *nic);
    if (free_ps > t) {
        wait_until(l, event, MESSAGE, MESSAGE_WAITED, rank, op, free_ps);
        return;
    }
    uint32_t what = goal_path_message(l->goal, send);
    if (l->path)
        goal_path_starts(l->path, what, t);
    const struct costs *costs = costs_of(l, op->size);
    *cpu = noisy(l, rank, t, plus(t + l->p.o_ps, later(costs->bytes_ps, costs->gap_ps)));
    *nic = plus(t + l->p.g_ps, costs->gap_ps);
    check_time(l, later(*cpu, *nic));
    if (l->path)
        moved(l, what, cpu, nic);
    if (l->view) {
        note(l, rank, ROW_CPU, op->cpu, "receive", t, *cpu, op->size, from);
        note(l, rank, ROW_RECEIVE, op->nic, "receive", t, *nic, op->size, from);
        note_arrow(l, from, send, rank, op, t);
    }
    next_in_line(l, event, MESSAGE, MESSAGE_WAITED, rank, op, later(*cpu, *nic));
    struct goal_found found;
    if (!goal_match_message(l->match, rank, from, event->with.u32[3], send, &found))
        return;
    if (op->size <= l->p.S_bytes)
        complete(l, rank, found.op, DONE);
    else
        complete_both(l, rank, found.op, DONE, from, send, op, t);
}

static void run_overdue(struct loggops *l) {
    struct sim_event event;
    while (l->overdue.count && !loggops_stopped(l)) {
        overdue_pop(&l->overdue, &event);
        switch ((enum kind)sim_kind(&l->sim, &event)) {
        case SEND:
        case SEND_WAITED:
            run_send(l, &event);
            break;
        case RECEIVE:
            run_receive(l, &event);
            break;
        case CALC:
        case CALC_WAITED:
            run_calc(l, &event);
            break;
        case MESSAGE:
        case MESSAGE_WAITED:
            run_message(l, &event);
            break;
        case KINDS:
            break;
        }
    }
}

#define HANDLER(what)                                                                              \
    static void on_##what(void *context, const struct sim_event *event) {                          \
        struct loggops *l = context;                                                               \
        l->now_ps = event->at_ps;                                                                  \
        run_##what(l, event);                                                                      \
        if (l->overdue.count)                                                                      \
            run_overdue(l);                                                                        \
    }
HANDLER(send)
HANDLER(receive)
HANDLER(calc)
HANDLER(message)

/* What the handlers will touch. */
static void ahead(void *context, const struct sim_event *event) {
    const struct loggops *l = context;
    const uint32_t *with = event->with.u32;
    unsigned kind = sim_kind(&l->sim, event);
    __builtin_prefetch(&l->goal->ops[with[0]]);
    if (kind == MESSAGE || kind == MESSAGE_WAITED) {
        __builtin_prefetch(&l->times[(uint64_t)with[2] * l->stride]);
        goal_match_prefetch(l->match, with[2], with[1], with[3], true);
    } else {
        __builtin_prefetch(&l->times[(uint64_t)with[1] * l->stride]);
        if (kind == RECEIVE)
            goal_match_prefetch(l->match, with[1], with[2], with[3], false);
    }
}

/* And what they find there: the operation that a message sets free comes behind its receive. */
static void closer(void *context, const struct sim_event *event) {
    const struct loggops *l = context;
    const uint32_t *with = event->with.u32;
    unsigned kind = sim_kind(&l->sim, event);
    uint32_t op = with[0];
    if (kind == MESSAGE || kind == MESSAGE_WAITED)
        op = goal_match_peek(l->match, with[2], with[1], with[3], true);
    if (op >= l->goal->op_count)
        return;
    if (op == with[0])
        __builtin_prefetch(goal_shape_of(l->goal, op));
    else
        __builtin_prefetch(&l->goal->ops[op + 1]);
}

/* ---- beginning and end ---- */

static int check_op(const struct spin_goal *goal, uint64_t most_kilobytes, uint32_t rank,
                    uint32_t index, struct spin_error *err) {
    const struct goal_shape *op = goal_shape_of(goal, index);
    uint64_t size = goal_size_of(op, goal->ops[index].peer);
    char text[100];
    if (op->type > GOAL_CALC)
        return spin_fail(err, SPIN_EARG,
                         "rank %u, operation %u (%s): the LogGOPS model runs send, recv and calc; "
                         "Portals operations need a card",
                         rank, index - goal->first_op[rank] + 1,
                         goal_describe(goal, index, text, sizeof text));
    bool over = op->type == GOAL_CALC ? size > SIM_LATEST_PS / 1000 : size / 1000 > most_kilobytes;
    if (over)
        return spin_fail(err, SPIN_ELIMIT,
                         "rank %u, operation %u (%s): takes longer than the limit of simulated "
                         "time, %llu ps (53 days)",
                         rank, index - goal->first_op[rank] + 1,
                         goal_describe(goal, index, text, sizeof text), SIM_LATEST_PS);
    return SPIN_OK;
}

static int check_ops(const struct spin_goal *goal, const struct spin_loggops *p,
                     struct spin_error *err) {
    uint64_t per_byte_fs = later(p->G_fs, p->O_fs);
    uint64_t most_kilobytes = per_byte_fs ? SIM_LATEST_PS / per_byte_fs : UINT64_MAX;
    /* Shapes are few; only if one looks bad are all operations looked at, for the first one. */
    bool good = true;
    for (uint32_t i = 0; good && i < goal->shape_count; i++) {
        const struct goal_shape *s = &goal->shapes[i];
        good = s->type == GOAL_CALC ? (s->size | UINT32_MAX) <= SIM_LATEST_PS / 1000
                                    : s->type < GOAL_CALC && s->size / 1000 <= most_kilobytes;
    }
    int code = SPIN_OK;
    for (uint32_t rank = 0; !good && !code && rank < goal->num_ranks; rank++)
        for (uint32_t i = goal->first_op[rank]; !code && i < goal->first_op[rank + 1]; i++)
            code = check_op(goal, most_kilobytes, rank, i, err);
    return code;
}

static int check_parameters(const struct spin_loggops *p, struct spin_error *err) {
    const uint64_t limit = 1ull << 60;
    if (p->L_ps > limit || p->o_ps > limit || p->g_ps > limit || p->G_fs > limit || p->O_fs > limit)
        return spin_fail(err, SPIN_ELIMIT,
                         "a parameter is over the limit of %llu (ps, or fs per byte)",
                         (unsigned long long)limit);
    return SPIN_OK;
}

/* Roots at time 0: rank after rank, sends before receives before calcs. Returns how many receives
 * are posted then. */
static uint64_t schedule_roots(struct loggops *l) {
    const struct spin_goal *goal = l->goal;
    uint64_t receives = 0;
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++) {
        for (uint32_t i = goal->first_op[rank]; i < goal->first_op[rank + 1]; i++) {
            const struct goal_shape *op = goal_shape_of(goal, i);
            if (op->waits)
                continue;
            collect(l, i);
            receives += op->type == GOAL_RECV;
        }
        schedule_freed(l, rank);
    }
    return receives;
}

static void name_rows(struct loggops *l) {
    for (uint32_t rank = 0; rank < l->goal->num_ranks; rank++) {
        if (!timeline_view_rank(l->view, rank))
            continue;
        trace_process(l->trace, rank, "rank");
        for (unsigned c = 0; c < l->cpus; c++)
            trace_row(l->trace, rank, TRACE_CPU + c, "cpu", c);
        for (unsigned n = 0; n < l->nics; n++) {
            trace_row(l->trace, rank, TRACE_NIC_SEND + n, "nic send", n);
            trace_row(l->trace, rank, TRACE_NIC_RECEIVE + n, "nic receive", n);
        }
    }
}

#define KIND(handler)                                                                              \
    { .run = (handler), .ahead = ahead, .closer = closer, .digested = 4 }
static const struct sim_module module = {.name = "replay",
                                         .kinds = KINDS,
                                         .kind = {
                                             [SEND] = KIND(on_send),
                                             [RECEIVE] = KIND(on_receive),
                                             [CALC] = KIND(on_calc),
                                             [MESSAGE] = KIND(on_message),
                                             [SEND_WAITED] = KIND(on_send),
                                             [CALC_WAITED] = KIND(on_calc),
                                             [MESSAGE_WAITED] = KIND(on_message),
                                         }};

static size_t running_bytes(const struct spin_goal *goal) {
    return ((size_t)goal->op_count / 64 + 1) * sizeof(uint64_t);
}

int loggops_new(const struct loggops_setup *setup, struct loggops **replay,
                struct spin_error *err) {
    const struct spin_goal *goal = setup->goal;
    int code = check_parameters(&setup->parameters, err);
    if (!code)
        code = check_ops(goal, &setup->parameters, err);
    if (code)
        return code;
    struct loggops *l = calloc(1, sizeof *l);
    if (!l)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    l->engine = setup->engine;
    l->goal = goal;
    l->p = setup->parameters;
    l->transport = setup->transport;
    l->noise = setup->noise;
    l->trace = setup->trace;
    l->timeline = setup->timeline;
    l->view = setup->view;
    l->costs.size = 1; /* nothing */
    l->cpus = goal->max_cpu + 1u;
    l->nics = goal->max_nic + 1u;
    l->stride = l->cpus + 2 * l->nics;
    if (l->stride == 3)
        l->stride = 4; /* half a cache line, never across two */
    l->times = pages_new((size_t)goal->num_ranks * l->stride * sizeof *l->times);
    l->met = pages_new((size_t)goal->op_count * sizeof *l->met);
    l->running = pages_new(running_bytes(goal));
    l->waiting = waiting_new((uint64_t)goal->num_ranks * (l->cpus + 2ull * l->cpus * l->nics));
    l->match = goal_match_new(goal->wildcards, goal->num_ranks);
    if (!l->times || !l->met || !l->running || !l->match || !l->waiting) {
        loggops_free(l);
        return spin_fail(err, SPIN_ENOMEM,
                         "out of memory for %u ranks of %u cpus and %u nics and %u operations",
                         goal->num_ranks, goal->max_cpu + 1u, goal->max_nic + 1u, goal->op_count);
    }
    /* Arrows begin where the path says that the send did. */
    if (setup->path || setup->view)
        code = goal_path_new(&l->path, goal, (uint64_t)goal->num_ranks * l->stride, err);
    if (!code)
        code = sim_engine_join(l->engine, &module, l, &l->sim, err);
    if (code) {
        loggops_free(l);
        return code;
    }
    if (l->trace)
        name_rows(l);
    goal_match_expect(l->match, schedule_roots(l));
    *replay = l;
    return SPIN_OK;
}

void loggops_free(struct loggops *l) {
    if (!l)
        return;
    pages_free(l->times, (size_t)l->goal->num_ranks * l->stride * sizeof *l->times);
    pages_free(l->met, (size_t)l->goal->op_count * sizeof *l->met);
    pages_free(l->running, running_bytes(l->goal));
    free(l->freed);
    free(l->overdue.at);
    goal_match_free(l->match);
    waiting_free(l->waiting);
    goal_path_free(l->path);
    free(l);
}

struct loggops_counts loggops_counts(const struct loggops *l) {
    struct loggops_counts counts = l->counts;
    counts.unreceived = goal_match_unexpected(l->match);
    counts.memory_bytes = (uint64_t)l->goal->num_ranks * l->stride * sizeof *l->times +
                          (uint64_t)l->goal->op_count * sizeof *l->met + running_bytes(l->goal) +
                          goal_match_bytes(l->match) + waiting_bytes(l->waiting);
    return counts;
}

uint64_t loggops_finish_ps(const struct loggops *l, uint32_t rank) {
    uint64_t finish = 0;
    for (unsigned cpu = 0; cpu < l->cpus; cpu++)
        finish = later(finish, *nexto(l, rank, cpu));
    return finish;
}

/* ---- the critical path ---- */

int loggops_path(const struct loggops *l, struct spin_goal_step **steps, uint32_t *count,
                 struct spin_error *err) {
    const uint64_t *last = l->times;
    for (uint32_t rank = 0; rank < l->goal->num_ranks; rank++)
        for (unsigned cpu = 0; cpu < l->cpus; cpu++)
            if (*nexto(l, rank, cpu) > *last)
                last = nexto(l, rank, cpu);
    return goal_path_steps(l->path, clock_of(l, last), *last, steps, count, err);
}

/* In the trace it is a process of its own, behind the ranks' and the network's. */
void loggops_mark(const struct loggops *l, const struct spin_goal_step *steps, uint32_t count) {
    static const char *const kinds[] = {"cpu", "nic", "network", "match"};
    uint32_t process = l->goal->num_ranks + 1;
    if (l->trace) {
        trace_process(l->trace, process, "critical path");
        trace_row(l->trace, process, 1, "critical path", 0);
    }
    for (uint32_t i = 0; i < count; i++) {
        const struct spin_goal_step *s = &steps[i];
        uint32_t send = l->goal->first_op[s->from] + s->operation - 1;
        const struct goal_shape *op = goal_shape_of(l->goal, send);
        uint32_t peer = l->goal->ops[send].peer;
        char name[120];
        snprintf(name, sizeof name, "rank %u: %s, %s", s->rank, s->what, kinds[s->kind]);
        if (l->trace)
            trace_box(l->trace, process, 1, name, s->start_ps, s->length_ps, goal_size_of(op, peer),
                      -1);
        if (!l->timeline || s->kind == SPIN_STEP_MATCH)
            continue;
        if (s->kind == SPIN_STEP_NETWORK) {
            timeline_arrow(l->timeline, (struct trace_end){s->rank, op->cpu, s->start_ps},
                           (struct trace_end){peer, op->cpu, s->start_ps + s->length_ps}, true);
            continue;
        }
        enum row row = s->kind == SPIN_STEP_CPU ? ROW_CPU : s->receives ? ROW_RECEIVE : ROW_SEND;
        struct timeline_box box = {
            s->start_ps, s->length_ps,    0,
            -1,          s->rank,         row_of(l, row, row == ROW_CPU ? op->cpu : op->nic),
            true,        "critical path", NULL};
        timeline_box(l->timeline, &box);
    }
}

static void row_name(const void *user, uint32_t row, char *name, size_t room) {
    const struct loggops *l = user;
    if (row < l->cpus)
        snprintf(name, room, "cpu %u", row);
    else if (row < l->cpus + l->nics)
        snprintf(name, room, "nic send %u", row - l->cpus);
    else
        snprintf(name, room, "nic receive %u", row - l->cpus - l->nics);
}

static unsigned row_colour(const void *user, uint32_t row) {
    const struct loggops *l = user;
    return row < l->cpus ? 0 : row < l->cpus + l->nics ? 1 : 2;
}

struct timeline_rows loggops_rows(const struct loggops *l) {
    return (struct timeline_rows){.ranks = l->goal->num_ranks,
                                  .rows = l->cpus + 2 * l->nics,
                                  .optional = l->cpus,
                                  .name = row_name,
                                  .colour = row_colour,
                                  .user = l};
}

bool loggops_stopped(const struct loggops *l) {
    return l->out_of_memory || l->too_late || (l->timeline && l->timeline->lacks) ||
           goal_match_out_of_memory(l->match) || waiting_out_of_memory(l->waiting);
}

int loggops_verdict(const struct loggops *l, struct spin_error *err) {
    int code = l->timeline ? timeline_whole(l->timeline, err) : SPIN_OK;
    if (code)
        return code;
    if (loggops_stopped(l) && !l->too_late)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for what waits to be matched or served");
    if (l->too_late)
        return spin_fail(err, SPIN_ELIMIT,
                         "simulated time goes beyond the limit of %llu ps (53 days); shorten the "
                         "computation or the messages",
                         SIM_LATEST_PS);
    return l->counts.done < l->goal->op_count
               ? goal_deadlock(l->goal, l->running, l->counts.done, err)
               : SPIN_OK;
}
