/* Cluster scheduler (ISCA'21 section III-B2): takes tasks while there is room in L1, has their
 * packets copied, gives them to idle HPUs, and sends completions through the two arbiters. */
#include <stdio.h>
#include <string.h>

#include "sim/card_private.h"

/* Reserves the port of the L2 packet buffer that the clusters share. A copy that waits for its
 * engine does not keep others from the port meanwhile: they are served in the order of asking. */
uint64_t card_l2_read(struct card *c, uint64_t busy_ps, uint64_t at_ps) {
    uint64_t start = card_max(at_ps, c->l2_read_free_ps);
    c->l2_read_free_ps = start + busy_ps;
    return start;
}

/* Reserves a cluster's DMA engine. It has two copies in flight: the second one after this is asked
 * for when the last line of this one has come, and its first line comes copy_round cycles later.
 * Longer copies fill that time and follow each other line by line; of 64 B two pass in four cycles,
 * one right behind the other. (RTL: AxiMaxTxnsPerId of dma_noc.) */
uint64_t card_copy_start(struct card *c, struct card_cluster *cl, uint64_t beats, uint64_t at_ps) {
    uint64_t round = c->config.copy_round * c->cycle;
    uint64_t first = card_max(card_max(at_ps, cl->copied_ps[0]) + round, cl->copied_ps[1]);
    cl->copied_ps[0] = cl->copied_ps[1];
    cl->copied_ps[1] = first + beats * c->cycle;
    cl->dma_busy_ps += beats * c->cycle;
    return first - round;
}

/* What a copy from `begin` on loses of its time by the turns of L1's other port. L1 has superbanks
 * a line wide, and the other port goes first: a copy that catches up with the reads or the writes
 * there finds its superbank taken every other cycle from then on. (RTL: one of either alone costs
 * a copy a single cycle.) */
static uint64_t lost_to_turns(const struct card_cluster *cl, uint64_t begin, uint64_t busy) {
    uint64_t from = card_max(begin, cl->both_ps[0]), until = cl->both_ps[1];
    if (until <= from || begin + busy <= from)
        return 0;
    uint64_t left = begin + busy - from, turns = (until - from) / 2;
    return left < turns ? left : turns;
}

/* A cluster has so many copies asked for: what others ask for comes after them. */
#define COPIES_AHEAD 4

void card_slow_copies(struct card *c, struct card_cluster *cl, uint64_t start_ps,
                      uint64_t both_ps) {
    uint64_t before = 0, later = 0, latency = c->config.copy_latency * c->cycle;
    uint32_t ahead = 0;
    if (start_ps > cl->both_ps[1])
        cl->both_ps[0] = start_ps;
    const struct card_cluster turns = {.both_ps = {start_ps, start_ps + 2 * both_ps}};
    cl->both_ps[1] = card_max(cl->both_ps[1], turns.both_ps[1]);
    for (uint32_t i = cl->copying.head; i != NONE; i = c->task[i].next) {
        struct card_task *t = &c->task[i];
        uint64_t busy = t->copied_ps - t->copying_ps;
        t->copying_ps = card_max(t->copying_ps, before);
        before = t->copying_ps + busy + lost_to_turns(&turns, t->copying_ps, busy);
        later = before - t->copied_ps;
        t->copied_ps = before;
        if (later && ahead++ < COPIES_AHEAD)
            c->l2_read_free_ps = card_max(c->l2_read_free_ps, before - latency);
    }
    cl->copied_ps[0] += later;
    cl->copied_ps[1] += later;
}

/* From the L2 packet buffer through its second port, which the clusters share, by the cluster's
 * DMA engine. Both are busy for the data's cycles; the latency is longer. */
static void copy_to_l1(struct card *c, struct card_task *t, const struct card_l2_packet *p) {
    struct card_cluster *cl = &c->cluster[t->cluster];
    if (!t->l1_bytes) {
        t->copied_ps = t->cluster_ps;
        return;
    }
    uint64_t beats = card_beats(c, 0, t->l1_bytes), busy = beats * c->cycle;
    uint64_t start = card_copy_start(c, cl, beats, card_l2_read(c, busy, t->cluster_ps));
    start = card_l2_burst(c, L2_CLUSTERS, p->l2_unit * UNIT_BYTES, busy, start);
    c->context[t->context].stats.cluster_dma_busy_ps += busy;
    CARD_COUNT(c, t->context, unit_busy_ps[CARD_UNIT_L2_READ], busy);
    t->copying_ps = start + c->config.copy_latency * c->cycle;
    uint64_t lost = lost_to_turns(cl, t->copying_ps, busy);
    t->copied_ps = t->copying_ps + busy + lost;
    cl->copied_ps[1] += lost;
    LIST_PUSH(c->task, &cl->copying, (uint32_t)(t - c->task));
    uint32_t offset = MAP_L1_PACKETS + t->l1_unit * UNIT_BYTES + t->headroom;
    card_l1_burst(c, t->cluster, true, offset, t->copied_ps - busy, t->copied_ps);
    memcpy(cl->l1 + offset, card_packet_bytes(c, p), t->l1_bytes);
    card_span(c, CARD_ROW_CLUSTER_DMA, t->cluster, "packet to L1", p, start, start + busy,
              t->l1_bytes);
}

bool card_cluster_take(struct card *c, uint32_t cluster, uint32_t packet) {
    struct card_cluster *cl = &c->cluster[cluster];
    const struct card_l2_packet *p = &c->packet[packet];
    if (cl->tasks == c->config.cluster_tasks)
        return false;
    uint32_t bytes = p->l1_bytes;
    /* P4sPIN's descriptors stand in a unit before the packet. */
    uint32_t headroom = c->context[p->context].set.abi == CARD_P4SPIN ? HEADROOM : 0;
    uint32_t units = (headroom + bytes + UNIT_BYTES - 1) / UNIT_BYTES;
    uint32_t unit = card_space_take(&cl->packets, units ? units : 1);
    if (unit == NONE)
        return false;
    uint32_t i = c->free_task;
    struct card_task *t = &c->task[i];
    c->free_task = t->next;
    *t = (struct card_task){.packet = packet,
                            .queue = p->queue,
                            .context = p->context,
                            .kind = p->kind,
                            .cluster = cluster,
                            .l1_unit = unit,
                            .headroom = headroom,
                            .l1_bytes = bytes,
                            .ready_ps = p->ready_ps,
                            .cluster_ps = c->now_ps + (c->config.request_latency - 1) * c->cycle};
    cl->tasks++;
    copy_to_l1(c, t, p);
    card_event(c, t->copied_ps, CARD_READY_EVENT, i, 0);
    return true;
}

void card_on_ready(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    const struct card_task *t = &c->task[event->with.u32[0]];
    uint32_t cluster = t->cluster;
    struct card_list *copying = &c->cluster[cluster].copying;
    if (t->copied_ps > c->now_ps) { /* it was slowed down */
        card_event(c, t->copied_ps, CARD_READY_EVENT, event->with.u32[0], 0);
        return;
    }
    if (copying->head == event->with.u32[0])
        LIST_POP(c->task, copying);
    LIST_PUSH(c->task, &c->cluster[cluster].ready, event->with.u32[0]);
    card_assign(c, cluster);
}

static void invoke(struct card *c, struct card_hpu *h, uint32_t task, uint64_t assigned_ps) {
    struct card_task *t = &c->task[task];
    t->hpu = h->index;
    t->assigned_ps = assigned_ps;
    t->start_ps = card_max(assigned_ps, h->asks_ps) + c->config.invoke_cycles * c->cycle;
    h->task = task;
    h->state = CORE_INVOKED;
    h->begun_ps = assigned_ps;
    if (!h->used)
        c->stats.hpus_used++;
    h->used = true;
    if (++c->hpus_busy > c->stats.most_hpus_busy)
        c->stats.most_hpus_busy = c->hpus_busy;
    card_event(c, t->start_ps, CARD_RUN_EVENT, h->index, 0);
}

/* The first task that is ready, to an idle HPU: one per cycle. */
static void assign(struct card *c, struct card_cluster *cl, struct card_hpu *h) {
    uint32_t task = cl->ready.head;
    LIST_POP(c->task, &cl->ready);
    cl->assign_free_ps =
        card_max(c->now_ps, cl->assign_free_ps) + c->config.assign_cycles * c->cycle;
    invoke(c, h, task, cl->assign_free_ps);
}

/* The idle HPU with the lowest number. */
void card_assign(struct card *c, uint32_t cluster) {
    struct card_cluster *cl = &c->cluster[cluster];
    uint32_t n = (uint32_t)c->config.cluster_hpus;
    struct card_hpu *first = &c->hpu[cluster * n];
    for (uint32_t i = 0; i < n && cl->ready.head != NONE; i++) {
        if (first[i].state == CORE_IDLE)
            assign(c, cl, &first[i]);
    }
}

/* Through the cluster's arbiter and the card's: each lets one pass in a cycle. */
static void notify(struct card *c, struct card_hpu *h, uint32_t task) {
    struct card_cluster *cl = &c->cluster[c->task[task].cluster];
    uint64_t at = card_max(c->now_ps, cl->notify_free_ps);
    cl->notify_free_ps = at + c->cycle;
    h->held_ps = at + c->config.hold_cycles * c->cycle;
    at = card_max(at, c->notify_free_ps);
    c->notify_free_ps = at + c->cycle;
    card_event(c, at + c->config.notify_latency * c->cycle, CARD_COMPLETE_EVENT, task, 0);
}

/* The HPU goes on to the next task, for which the driver need not wake it. */
static void next_task(struct card *c, struct card_hpu *h) {
    struct card_cluster *cl = &c->cluster[h->cluster];
    h->state = CORE_IDLE;
    if (cl->ready.head != NONE)
        assign(c, cl, h);
}

/* Ended tasks leave the HPU driver in order, each when its commands have their responses. The HPU
 * goes on as soon as the driver can buffer what is left. */
static void report_ended(struct card *c, struct card_hpu *h) {
    while (h->ended.head != NONE && !c->task[h->ended.head].commands) {
        uint32_t task = h->ended.head;
        LIST_POP(c->task, &h->ended);
        h->ended_count--;
        notify(c, h, task);
    }
    if (h->state == CORE_STALLED && h->ended_count <= c->config.hpu_completions)
        next_task(c, h);
    else if (h->state == CORE_BLOCKED && h->waits_for == WAITS_HELD && !h->ended_count)
        card_wake(c, h, h->held_ps);
}

static void handler_span(struct card *c, const struct card_hpu *h, const struct card_task *t) {
    const struct card_context *set = &c->context[t->context].set;
    const struct spin_function *f = spin_image_at(set->image, card_entry(c, t));
    const struct card_l2_packet *p = &c->packet[t->packet];
    const char *fault = NULL;
    if (t->faulted && t->fault.ending != SPIN_RETURNED)
        fault = spin_ending_name(t->fault.ending);
    else if (t->faulted && !card_serves(c)) /* else the event tells */
        fault =
            spin_return_code_name(t->value) ? spin_return_code_name(t->value) : "returned no code";
    card_span_of(c, CARD_ROW_HPU, h->index, f ? f->name : set->name, fault, p, h->begun_ps,
                 c->now_ps, p->length);
}

void card_on_doorbell(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct card_hpu *h = &c->hpu[event->with.u32[0]];
    struct card_task *t = &c->task[h->task];
    t->ended = true;
    h->asks_ps = c->now_ps + c->config.loop_cycles * c->cycle;
    h->busy_ps += c->now_ps - h->begun_ps;
    c->context[t->context].stats.hpu_busy_ps += c->now_ps - h->begun_ps;
    c->hpus_busy--;
    if (c->callbacks.span)
        handler_span(c, h, t);
    LIST_PUSH(c->task, &h->ended, h->task);
    h->ended_count++;
    h->state = CORE_STALLED;
    report_ended(c, h);
}

/* The last command of a task has its response; if the handler has ended, so has the task. */
void card_command_over(struct card *c, uint32_t task) {
    struct card_task *t = &c->task[task];
    if (!--t->commands && t->ended)
        report_ended(c, &c->hpu[t->hpu]);
}

/* Where the packet's time went in this run of a handler. */
static void record(struct card *c, const struct card_task *t) {
    struct card_l2_packet *p = &c->packet[t->packet];
    p->part_ps[CARD_PART_QUEUE] += t->cluster_ps - t->ready_ps;
    p->part_ps[CARD_PART_COPY] += t->copied_ps - t->cluster_ps;
    p->part_ps[CARD_PART_ASSIGN] += t->assigned_ps - t->copied_ps;
    p->part_ps[CARD_PART_INVOKE] += t->start_ps - t->assigned_ps;
    p->part_ps[CARD_PART_HANDLER] += t->end_ps - t->start_ps;
    p->part_ps[CARD_PART_FINISH] += c->now_ps - t->end_ps;
    p->since_ps = c->now_ps;
}

static void tell_fault(struct card *c, const struct card_task *t) {
    CARD_COUNT(c, t->context, faults, 1);
    CARD_COUNT(c, t->context, handler[t->kind].faults, 1);
    CARD_COUNT(c, t->context, watchdog_faults, t->fault.ending == SPIN_ENDED_BUDGET);
    card_digest(c, c->now_ps, (uint64_t)t->fault.pc << 32 | t->fault.ending);
    if (c->callbacks.fault)
        c->callbacks.fault(c->callbacks.user, &t->fault, c->now_ps);
}

void card_on_complete(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    uint32_t i = event->with.u32[0];
    struct card_task t = c->task[i];
    record(c, &t);
    card_space_give(&c->cluster[t.cluster].packets, t.l1_unit);
    c->cluster[t.cluster].tasks--;
    c->task[i].next = c->free_task;
    c->free_task = i;
    if (t.faulted)
        tell_fault(c, &t);
    card_task_done(c, &t);
    card_admit(c);
    card_kick_dispatcher(c);
    card_offer_room(c);
}
