/* Message queues and task dispatcher (ISCA'21 section III-B1).
 *
 * Design notes. A queue belongs to a message from its first packet's injection until everything of
 * it is done. Its packets keep their order: the first one's header handler runs alone, those behind
 * it wait in the queue, then all are ready in the order in which they came. The dispatcher takes
 * ready tasks first come first served, one per cycle, and stops at one that no cluster can take.
 *
 * What is done with packets, in which order handlers run and what their return codes mean is
 * nic/flow.h's: this is its front by match rules, without Portals. A queue that is given up (a
 * fault of a PsPIN handler, a timeout, the policy `kill`) swallows the rest of its message. When
 * its end-of-message never comes, the queue is taken for another message as soon as there is no
 * other one. */
#include <string.h>

#include "sim/card_private.h"

/* ---- Which queue ----------------------------------------------------------------------------- */

static uint64_t key_of(const struct card *c, uint32_t queue) {
    return (uint64_t)c->queue[queue].context << 32 | c->queue[queue].message;
}
INDEX_TABLE(queues, struct card, key_of);

uint32_t card_queue_find(const struct card *c, uint32_t context, uint32_t message) {
    return queues_find(&c->queues, c, (uint64_t)context << 32 | message);
}

/* From then on a packet of that name begins another message. */
static void unname(struct card *c, uint32_t queue) {
    queues_remove(&c->queues, c, queue);
}

/* ---- Which message is given up ---------------------------------------------------------------
 * A clock over the active queues stands for the paper's pseudo-LRU: a packet sets its queue's bit,
 * a hand goes round over queues whose bit is set, clears it, and stops at the first without: the
 * candidate victim, the only one whose timeout is looked at. It moves on when the candidate gets a
 * packet, ends or is given up, so every silent queue has its turn. A tree of bits costs as little,
 * but three queues that get packets in turn can keep it from ever naming a fourth. */

static uint64_t clock_bit(uint32_t i) {
    return 1ull << i % 64;
}

/* The first active queue from `from` on, round the clock; with `silent`, one whose bit is clear. */
static uint32_t clock_find(const struct card *c, uint32_t from, bool silent) {
    uint32_t words = c->clock.words;
    for (uint32_t n = 0; n <= words; n++) {
        uint32_t w = (from / 64 + n) % words;
        uint64_t found = c->clock.active[w] & (silent ? ~c->clock.recent[w] : UINT64_MAX);
        if (n == 0)
            found &= UINT64_MAX << from % 64;
        if (n == words)
            found &= ~(UINT64_MAX << from % 64);
        if (found)
            return 64 * w + (uint32_t)__builtin_ctzll(found);
    }
    return NONE;
}

/* The hand leaves its place and stops at the next candidate. */
static void clock_move(struct card *c) {
    struct card_queue_clock *k = &c->clock;
    uint32_t from = k->candidate == NONE ? 0 : (k->candidate + 1) % (64 * k->words);
    uint32_t to = clock_find(c, from, true);
    if (to == NONE) { /* once round: all bits are clear now */
        memset(k->recent, 0, k->words * sizeof *k->recent);
        k->candidate = clock_find(c, from, false);
        return;
    }
    for (uint32_t i = clock_find(c, from, false); i != to; i = clock_find(c, i, false)) {
        k->recent[i / 64] &= ~clock_bit(i);
        i = (i + 1) % (64 * k->words);
    }
    k->candidate = to;
}

static uint64_t expires(const struct card *c, uint32_t i) {
    return c->queue[i].touched_ps + c->context[c->queue[i].context].set.queue_timeout_ps;
}

/* An event is there that comes no later than the candidate's timeout. */
static void arm_timeout(struct card *c) {
    if (c->clock.candidate == NONE)
        return;
    uint64_t at = card_max(expires(c, c->clock.candidate), c->now_ps);
    if (c->clock.armed_ps <= at)
        return;
    c->clock.armed_ps = at;
    card_event(c, at, CARD_TIMEOUT_EVENT, 0, 0);
}

static void clock_remove(struct card *c, uint32_t i) {
    c->clock.active[i / 64] &= ~clock_bit(i);
    if (c->clock.candidate != i)
        return;
    clock_move(c);
    arm_timeout(c);
}

static void clock_touch(struct card *c, uint32_t i) {
    struct card_queue_clock *k = &c->clock;
    c->queue[i].touched_ps = c->now_ps;
    if (!c->context[c->queue[i].context].set.queue_timeout_ps)
        return;
    k->active[i / 64] |= clock_bit(i);
    k->recent[i / 64] |= clock_bit(i);
    if (k->candidate == NONE || k->candidate == i)
        clock_move(c);
    arm_timeout(c);
}

/* ---- Life of a queue ------------------------------------------------------------------------- */

static void close_queue(struct card *c, uint32_t i) {
    struct card_queue *q = &c->queue[i];
    clock_remove(c, i);
    if (!q->flow.whole)
        unname(c, i);
    bool failed = q->flow.given_up || q->flow.fail;
    CARD_COUNT(c, q->context, messages_failed, failed);
    CARD_COUNT(c, q->context, messages_completed, !failed);
    q->flow.phase = FLOW_NONE;
    q->next_free = c->free_queue;
    c->free_queue = i;
    card_offer_room(c);
}

/* A failed queue whose message has not ended: the one that has been silent for longest. */
static uint32_t reclaim(struct card *c) {
    uint32_t best = NONE;
    for (uint32_t i = 0; i < c->config.queues; i++) {
        const struct card_queue *q = &c->queue[i];
        if (q->flow.phase && q->flow.given_up && !q->flow.work &&
            (best == NONE || q->touched_ps < c->queue[best].touched_ps))
            best = i;
    }
    if (best != NONE) {
        bool wants = c->wants_ready;
        c->wants_ready = false; /* who asks now gets it */
        close_queue(c, best);
        c->wants_ready = wants;
    }
    return c->free_queue;
}

uint32_t card_queue_open(struct card *c, uint32_t context, uint32_t message) {
    uint32_t i = c->free_queue != NONE ? c->free_queue : reclaim(c);
    if (i == NONE)
        return NONE;
    struct card_queue *q = &c->queue[i];
    c->free_queue = q->next_free;
    *q = (struct card_queue){.context = context,
                             .message = message,
                             .home = message % c->clusters,
                             .last = NONE,
                             .held = LIST_EMPTY};
    const struct card_context *set = &c->context[context].set;
    flow_begin(&q->flow,
               flow_handlers(set->entry[SPIN_HEADER_HANDLER], set->entry[SPIN_PAYLOAD_HANDLER],
                             set->entry[SPIN_COMPLETION_HANDLER], 0),
               set->abi == CARD_PSPIN);
    queues_add(&c->queues, c, i); /* there is room for all */
    CARD_COUNT(c, context, messages_begun, 1);
    return i;
}

/* A packet was taken in; or, of a failed message, seen, which is life of it as well. */
void card_queue_took(struct card *c, uint32_t i, bool eom) {
    struct card_queue *q = &c->queue[i];
    clock_touch(c, i);
    if (eom) {
        q->flow.whole = true;
        unname(c, i);
        clock_remove(c, i); /* nothing more is to come */
    }
    if (!q->flow.given_up)
        q->flow.work++;
    else if (flow_next(&q->flow) == FLOW_IS_OVER)
        close_queue(c, i);
}

void card_ready(struct card *c, uint32_t packet, enum spin_handler_kind kind) {
    struct card_l2_packet *p = &c->packet[packet];
    p->kind = (uint8_t)kind;
    p->ready_ps = c->now_ps;
    card_spent(c, p, CARD_PART_MESSAGE);
    LIST_PUSH(c->packet, &c->ready, packet);
    card_kick_dispatcher(c);
}

/* Is something done that was the last? A callback that was told of a packet may have injected
 * others, and the queue may be another message's by now, or free: then there is nothing to do. */
static void settle(struct card *c, uint32_t i) {
    struct card_queue *q = &c->queue[i];
    switch (flow_next(&q->flow)) {
    case FLOW_WAITS:
        return;
    case FLOW_CLEANS_UP: /* not of this front's messages */
    case FLOW_COMPLETES:
        q->flow.work++;
        card_ready(c, q->last, SPIN_COMPLETION_HANDLER);
        return;
    case FLOW_IS_OVER:
        close_queue(c, i);
    }
}

static void give_cell(struct card *c, uint32_t packet) {
    if (c->packet[packet].has_cell)
        c->cells_free++;
    c->packet[packet].has_cell = false;
}

static void packet_over(struct card *c, uint32_t packet, enum spin_card_fate fate) {
    struct card_l2_packet *p = &c->packet[packet];
    uint32_t i = p->queue;
    struct card_queue *q = &c->queue[i];
    q->flow.work--;
    give_cell(c, packet); /* one that no handler was to see still has it */
    if (p->eom && !q->flow.given_up && flow_has(&q->flow, FLOW_COMPLETION_HANDLER)) {
        q->last = packet;
        q->last_fate = (uint8_t)fate;
    } else {
        card_release_packet(c, packet, fate);
    }
    settle(c, i);
}

/* P4sPIN: the payload is left to the card, which writes it to the host. */
static void store_by_default(struct card *c, uint32_t packet) {
    const struct card_l2_packet *p = &c->packet[packet];
    uint64_t start = card_max(c->now_ps, c->to_host_free_ps);
    uint64_t busy = p->length * c->config.pcie_rate / 1000;
    c->to_host_free_ps = start + busy;
    CARD_COUNT(c, p->context, unit_busy_ps[CARD_UNIT_TO_HOST], busy);
    card_event(c, card_edge(c, start + busy + c->config.pcie_latency), CARD_STORE_EVENT, packet, 0);
}

void card_on_store(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct card_l2_packet *p = &c->packet[event->with.u32[0]];
    const struct card_context *set = &c->context[p->context].set;
    bool fits =
        !set->host || (p->offset <= set->host_bytes && p->length <= set->host_bytes - p->offset);
    if (set->host && fits)
        memcpy(set->host + p->offset, card_packet_bytes(c, p), p->length);
    if (fits && c->callbacks.host_write)
        c->callbacks.host_write(c->callbacks.user, p->context, set->host_address + p->offset,
                                card_packet_bytes(c, p), p->length, c->now_ps);
    CARD_COUNT(c, p->context, host_writes, fits);
    CARD_COUNT(c, p->context, host_write_bytes, fits ? p->length : 0);
    card_spent(c, p, CARD_PART_DELIVER);
    if (!fits)
        c->queue[p->queue].flow.dropped += p->length;
    packet_over(c, event->with.u32[0], fits ? SPIN_CARD_FATE_DONE : SPIN_CARD_FATE_NO_HOST_ROOM);
    card_admit(c);
    card_offer_room(c);
}

static void act(struct card *c, uint32_t packet) {
    struct card_queue *q = &c->queue[c->packet[packet].queue];
    switch (flow_packet(&q->flow, c->packet[packet].length)) {
    case FLOW_IS_HEADER:
        card_ready(c, packet, SPIN_HEADER_HANDLER);
        return;
    case FLOW_HELD:
        LIST_PUSH(c->packet, &q->held, packet);
        return;
    case FLOW_HANDLED:
        card_ready(c, packet, SPIN_PAYLOAD_HANDLER);
        return;
    case FLOW_DISCARDED:
        packet_over(c, packet,
                    q->flow.given_up || q->flow.fail ? SPIN_CARD_FATE_FAILED
                                                     : SPIN_CARD_FATE_BY_HANDLER);
        return;
    case FLOW_STORED:
        store_by_default(c, packet);
        return;
    case FLOW_PASSED:
        packet_over(c, packet, SPIN_CARD_FATE_DONE);
    }
}

/* The header handler has ended: its packet, and those that were held by it. */
static void go_on(struct card *c, uint32_t queue, uint32_t first) {
    struct card_list held = c->queue[queue].held;
    c->queue[queue].held = LIST_EMPTY;
    act(c, first);
    while (held.head != NONE) {
        uint32_t packet = held.head;
        LIST_POP(c->packet, &held);
        act(c, packet);
    }
}

/* A packet of a message that is given up, which no handler was begun for. */
static void drop(struct card *c, uint32_t packet) {
    give_cell(c, packet);
    c->queue[c->packet[packet].queue].flow.work--;
    card_release_packet(c, packet, SPIN_CARD_FATE_FAILED);
}

/* What waits is dropped, what runs runs to its end. */
static void drop_waiting(struct card *c, struct card_queue *q) {
    while (q->held.head != NONE) {
        uint32_t packet = q->held.head;
        LIST_POP(c->packet, &q->held);
        drop(c, packet);
    }
    if (q->last != NONE && q->flow.phase != FLOW_ENDED) {
        card_release_packet(c, q->last, SPIN_CARD_FATE_FAILED);
        q->last = NONE;
    }
}

void card_queue_fail(struct card *c, uint32_t i) {
    struct card_queue *q = &c->queue[i];
    if (q->flow.given_up)
        return;
    flow_give_up(&q->flow);
    drop_waiting(c, q);
    settle(c, i);
}

void card_on_timeout(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    if (event->at_ps != c->clock.armed_ps)
        return; /* another came before it */
    c->clock.armed_ps = UINT64_MAX;
    uint32_t i = c->clock.candidate;
    if (i != NONE && expires(c, i) <= c->now_ps) {
        struct card_queue *q = &c->queue[i];
        clock_remove(c, i);
        if (q->flow.given_up) { /* its faults were told */
            q->flow.whole = true;
            unname(c, i);
            settle(c, i);
        } else {
            CARD_COUNT(c, q->context, queue_timeouts, 1);
            if (c->callbacks.fault)
                c->callbacks.fault(c->callbacks.user,
                                   &(struct card_fault){.context = q->context,
                                                        .message = q->message,
                                                        .hpu = NONE,
                                                        .kind = SPIN_OTHER_FUNCTION},
                                   c->now_ps);
            card_digest(c, c->now_ps, q->message);
            q->flow.whole = true; /* the queue is reset: what still comes is another message */
            unname(c, i);
            card_queue_fail(c, i);
        }
        card_admit(c);
        card_offer_room(c);
    }
    arm_timeout(c);
}

/* ---- Execution requests ---------------------------------------------------------------------- */

/* The server's handlers need no cell: it has matched the packet, and the request is over. */
static void admit_served(struct card *c, uint32_t packet) {
    card_spent(c, &c->packet[packet], CARD_PART_CELL);
    c->server.arrived(c->server.user, c->packet[packet].user, c->now_ps);
}

static void admit(struct card *c, uint32_t packet) {
    struct card_l2_packet *p = &c->packet[packet];
    if (card_serves(c)) {
        admit_served(c, packet);
        return;
    }
    if (c->queue[p->queue].flow.given_up) {
        uint32_t queue = p->queue;
        drop(c, packet);
        settle(c, queue);
        return;
    }
    p->has_cell = true;
    c->cells_free--;
    card_spent(c, p, CARD_PART_CELL);
    act(c, packet);
}

/* Those that wait for a cell: called wherever one may have become free. */
void card_admit(struct card *c) {
    while (c->requests.head != NONE && c->cells_free) {
        uint32_t packet = c->requests.head;
        LIST_POP(c->packet, &c->requests);
        admit(c, packet);
    }
}

void card_on_request(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    LIST_PUSH(c->packet, &c->requests, event->with.u32[0]);
    card_admit(c);
    card_offer_room(c); /* packets without a handler, or of a failed message, are gone already */
}

/* ---- Dispatcher ------------------------------------------------------------------------------ */

void card_kick_dispatcher(struct card *c) {
    if (c->dispatch_armed || c->ready.head == NONE)
        return;
    c->dispatch_armed = true;
    uint64_t earliest = c->packet[c->ready.head].ready_ps + c->cycle;
    card_event(c, card_max(card_max(earliest, c->dispatch_free_ps), c->now_ps), CARD_DISPATCH_EVENT,
               0, 0);
}

/* The home cluster, else the least loaded that can take it. */
static bool place(struct card *c, uint32_t packet) {
    const struct card_l2_packet *p = &c->packet[packet];
    uint32_t home = card_serves(c) ? p->message % c->clusters : c->queue[p->queue].home;
    uint64_t tried[MAX_CLUSTERS / 64] = {0};
    tried[home / 64] = 1ull << home % 64;
    if (card_cluster_take(c, home, packet))
        return true;
    for (uint32_t n = 1; n < c->clusters; n++) {
        uint32_t best = NONE;
        for (uint32_t i = 0; i < c->clusters; i++)
            if (!(tried[i / 64] >> i % 64 & 1) &&
                (best == NONE || c->cluster[i].tasks < c->cluster[best].tasks))
                best = i;
        tried[best / 64] |= 1ull << best % 64;
        if (card_cluster_take(c, best, packet))
            return true;
    }
    return false;
}

void card_on_dispatch(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    c->dispatch_armed = false;
    while (!card_serves(c) && c->ready.head != NONE) { /* those of failed messages cost no cycle */
        uint32_t packet = c->ready.head, queue = c->packet[packet].queue;
        if (!c->queue[queue].flow.given_up)
            break;
        LIST_POP(c->packet, &c->ready);
        drop(c, packet);
        settle(c, queue);
    }
    if (c->ready.head != NONE && place(c, c->ready.head)) {
        uint32_t packet = c->ready.head;
        LIST_POP(c->packet, &c->ready);
        give_cell(c, packet);
        c->dispatch_free_ps = c->now_ps + c->cycle;
        card_kick_dispatcher(c);
    } /* else: a completion kicks it */
    card_admit(c);
    card_offer_room(c);
}

/* ---- What a handler's end means for its message ---------------------------------------------- */

void card_task_done(struct card *c, const struct card_task *t) {
    if (card_serves(c)) {
        card_served_ended(c, t);
        return;
    }
    uint32_t i = t->queue;
    struct card_queue *q = &c->queue[i];
    bool fault = t->faulted && t->fault.ending != SPIN_RETURNED, lost = q->flow.given_up;
    int32_t code = flow_code(fault, q->flow.no_codes, t->value);
    uint8_t how =
        flow_ended(&q->flow, (enum flow_handler)t->kind, code, c->packet[t->packet].length);
    enum spin_card_fate fate = how == PTL_NI_OK        ? SPIN_CARD_FATE_DONE
                               : how == PTL_NI_DROPPED ? SPIN_CARD_FATE_BY_HANDLER
                                                       : SPIN_CARD_FATE_FAILED;
    if (q->flow.given_up && !lost)
        drop_waiting(c, q);
    switch (t->kind) {
    case SPIN_HEADER_HANDLER:
        if (q->flow.given_up)
            packet_over(c, t->packet, SPIN_CARD_FATE_FAILED);
        else
            go_on(c, i, t->packet);
        return;
    case SPIN_PAYLOAD_HANDLER:
        packet_over(c, t->packet, fate);
        return;
    }
    q->last = NONE;
    card_release_packet(c, t->packet, how == PTL_NI_OK ? (enum spin_card_fate)q->last_fate : fate);
    q->flow.work--;
    settle(c, i);
}
