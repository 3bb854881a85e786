/* The card's inbound side: packets come in, find a message queue and room in the L2 packet buffer,
 * and leave it when they are done. */
#include "sim/card.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"
#include "base/rng.h"
#include "sim/card_private.h"

/* ---- Packet buffers -------------------------------------------------------------------------- */

bool card_space_init(struct card_space *s, uint32_t units) {
    *s = (struct card_space){.length = pages_sparse(units * sizeof *s->length),
                             .taken = calloc(units / 64 + 1, sizeof *s->taken),
                             .units = units};
    return s->length && s->taken;
}

void card_space_free(struct card_space *s) {
    pages_free(s->length, s->units * sizeof *s->length);
    free(s->taken);
}

/* The first unit from `at` on that is taken (or free), or `end`. */
static uint32_t find_unit(const struct card_space *s, uint32_t at, uint32_t end, bool taken) {
    while (at < end) {
        uint64_t word = (taken ? s->taken[at / 64] : ~s->taken[at / 64]) >> at % 64;
        if (word) {
            at += (uint32_t)__builtin_ctzll(word);
            return at < end ? at : end;
        }
        at = (at | 63) + 1;
    }
    return end;
}

/* A run of free units that begins in [at, end), or NONE. */
static uint32_t find_run(const struct card_space *s, uint32_t at, uint32_t end, uint32_t units) {
    while ((at = find_unit(s, at, end, false)) < end) {
        if (at + units > s->units)
            return NONE;
        uint32_t next = find_unit(s, at, at + units, true);
        if (next == at + units)
            return at;
        at = next;
    }
    return NONE;
}

static void set_units(struct card_space *s, uint32_t at, uint32_t units) {
    for (uint32_t i = at; i < at + units; i++)
        s->taken[i / 64] ^= 1ull << i % 64;
}

uint32_t card_space_take(struct card_space *s, uint32_t units) {
    if (units > s->units - s->used)
        return NONE;
    uint32_t at = find_run(s, s->cursor, s->units, units);
    if (at == NONE)
        at = find_run(s, 0, s->cursor, units);
    if (at == NONE)
        return NONE;
    set_units(s, at, units);
    s->length[at] = (uint16_t)units;
    s->used += units;
    s->most = s->used > s->most ? s->used : s->most;
    s->cursor = at + units < s->units ? at + units : 0;
    return at;
}

void card_space_give(struct card_space *s, uint32_t start) {
    set_units(s, start, s->length[start]);
    s->used -= s->length[start];
}

/* ---- In -------------------------------------------------------------------------------------- */

uint32_t card_most_bytes(const struct card *c) {
    uint64_t l1 = c->config.l1_packet_bytes / UNIT_BYTES * UNIT_BYTES - HEADROOM;
    uint64_t l2 = c->config.l2_packet_bytes / UNIT_BYTES * UNIT_BYTES;
    return (uint32_t)(l2 < l1 ? l2 : l1);
}

static int check_packet(const struct card *c, const struct card_packet *p, struct spin_error *err) {
    if (p->context >= c->contexts)
        return spin_fail(err, SPIN_EARG, "packet for context %u, the card has %u", p->context,
                         c->contexts);
    uint32_t most = card_most_bytes(c);
    if (!p->length || p->length > most)
        return spin_fail(err, SPIN_EARG, "packet of %u bytes, the packet buffers take 1 to %u",
                         p->length, most);
    return SPIN_OK;
}

static uint64_t beat_ps(const struct card *c) {
    /* As in the RTL: whole cycles for each 64 B, 1 at 400 Gbit/s and 2 at 200 Gbit/s. */
    uint64_t cycles = c->config.network_rate * c->config.wide_bytes / 1000 / c->cycle;
    return (cycles ? cycles : 1) * c->cycle;
}

/* How much of the packet goes to L1. */
static uint32_t bytes_to_l1(const struct card *c, const struct card_packet *p) {
    const struct card_context *set = &c->context[p->context].set;
    uint32_t bytes = set->partial_copy ? set->l1_bytes : p->partial_copy ? p->l1_bytes : p->length;
    return bytes < p->length ? bytes : p->length;
}

static void note_arrival(struct card_stats *s, const struct card_packet *p, uint64_t at_ps) {
    if (!s->taken++)
        s->first_arrival_ps = at_ps;
    s->bytes_taken += p->length;
}

/* There is one for each unit of L2, so a packet with a unit finds one; NONE: of a card that serves,
 * whose completion handlers have one without a unit. They are made when they are needed: most of
 * the buffer is never full, and there may be thousands of cards. */
uint32_t card_packet_new(struct card *c) {
    uint32_t i = c->free_packet;
    if (i == NONE)
        return c->packets_made < c->l2.units ? c->packets_made++ : NONE;
    c->free_packet = c->packet[i].next;
    return i;
}

void card_packet_free(struct card *c, uint32_t i) {
    c->packet[i].next = c->free_packet;
    c->free_packet = i;
}

/* Writes the packet to L2; the execution request follows when it is there. */
void card_write(struct card *c, uint32_t packet, uint64_t from_ps) {
    struct card_l2_packet *p = &c->packet[packet];
    uint64_t start = card_max(card_edge(c, card_max(c->now_ps, p->arrival_ps)), c->inbound_free_ps);
    uint64_t busy = card_beats(c, 0, p->length) * beat_ps(c);
    start = card_l2_burst(c, L2_INBOUND, p->l2_unit * UNIT_BYTES, busy, start);
    c->inbound_free_ps = start + busy;
    CARD_COUNT(c, p->context, unit_busy_ps[CARD_UNIT_INBOUND], busy);
    p->request_ps = start + busy + c->config.write_latency * c->cycle;
    p->since_ps = p->request_ps;
    p->part_ps[CARD_PART_WRITE] = p->request_ps - from_ps;
    card_span(c, CARD_ROW_INBOUND, 0, "write to L2", p, start, start + busy, p->length);
    card_event(c, p->request_ps, CARD_REQUEST_EVENT, packet, 0);
}

static void take(struct card *c, const struct card_packet *from, uint32_t queue, uint32_t unit) {
    uint32_t i = card_packet_new(c);
    struct card_l2_packet *p = &c->packet[i];
    uint64_t arrival =
        from->at_once ? card_edge(c, card_max(c->now_ps, from->arrival_ps)) : from->arrival_ps;
    *p = (struct card_l2_packet){.context = from->context,
                                 .message = from->message,
                                 .queue = queue,
                                 .length = from->length,
                                 .l2_unit = unit,
                                 .l1_bytes = bytes_to_l1(c, from),
                                 .eom = from->eom,
                                 .arrival_ps = arrival,
                                 .user = from->user,
                                 .number = c->stats.taken,
                                 .message_bytes = from->message_bytes,
                                 .offset = from->offset,
                                 .source = from->source,
                                 .hdr_data = from->hdr_data};
    memcpy(card_packet_bytes(c, p), from->bytes, from->length);
    p->marked = c->config.policy == CARD_MARK &&
                (uint64_t)c->l2.used * 100 >= c->config.mark_percent * c->l2.units;
    CARD_COUNT(c, from->context, marked, p->marked);
    note_arrival(&c->stats, from, arrival);
    note_arrival(&c->context[from->context].stats, from, arrival);
    card_queue_took(c, queue, from->eom);

    card_write(c, i, from->arrival_ps);
}

/* What became of the packet, in the trace: "done", "dropped: its message failed". */
static void tell_fate(struct card *c, const struct card_l2_packet *p, enum card_row row,
                      enum spin_card_fate fate) {
    const char *why = spin_card_fate_reason(fate);
    char name[120];
    if (!c->callbacks.span)
        return;
    snprintf(name, sizeof name, "%s%s%s", spin_card_fate_outcome(fate), *why ? ": " : "", why);
    card_span(c, row, 0, name, p, c->now_ps, c->now_ps + c->cycle, p->length);
}

/* Counts and tells. */
static void lost(struct card *c, const struct card_packet *p, enum spin_card_fate why) {
    c->stats.refused++;
    c->stats.fate[why]++;
    if (p->context < c->contexts) {
        c->context[p->context].stats.refused++;
        c->context[p->context].stats.bytes_refused += p->length;
        c->context[p->context].stats.fate[why]++;
    }
    tell_fate(c,
              &(struct card_l2_packet){.context = p->context,
                                       .message = p->message,
                                       .length = p->length,
                                       .source = p->source,
                                       .arrival_ps = p->arrival_ps,
                                       .user = p->user},
              CARD_ROW_REFUSED, why);
    if (c->callbacks.refused)
        c->callbacks.refused(c->callbacks.user, p, why, c->now_ps);
}

static enum card_taken refuse(struct card *c, const struct card_packet *p, uint32_t queue,
                              enum spin_card_fate why) {
    if (c->config.policy == CARD_BACKPRESSURE || c->config.policy == CARD_MARK) {
        c->stats.full++;
        c->wants_ready = true;
        c->held_for = why == SPIN_CARD_FATE_NO_QUEUE;
        return CARD_FULL;
    }
    if (c->config.policy == CARD_KILL && queue != NONE && !c->queue[queue].flow.given_up) {
        CARD_COUNT(c, p->context, kills, 1);
        if (c->callbacks.fault)
            c->callbacks.fault(c->callbacks.user,
                               &(struct card_fault){.context = c->queue[queue].context,
                                                    .message = c->queue[queue].message,
                                                    .hpu = NONE,
                                                    .kind = SPIN_OTHER_FUNCTION},
                               c->now_ps);
        card_queue_fail(c, queue);
    }
    lost(c, p, why);
    return CARD_DROPPED;
}

int card_inject(struct card *c, const struct card_packet *p, enum card_taken *taken,
                struct spin_error *err) {
    int code = check_packet(c, p, err);
    if (code)
        return code;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    uint32_t queue = card_queue_find(c, p->context, p->message);
    if (queue != NONE && c->queue[queue].flow.given_up) { /* what is left of a failed message */
        lost(c, p, SPIN_CARD_FATE_AFTER_FAILURE);
        card_queue_took(c, queue, p->eom);
        *taken = CARD_DROPPED;
        return SPIN_OK;
    }
    uint32_t unit = card_space_take(&c->l2, (p->length + UNIT_BYTES - 1) / UNIT_BYTES);
    if (unit == NONE) {
        *taken = refuse(c, p, queue, SPIN_CARD_FATE_BUFFER_FULL);
        return SPIN_OK;
    }
    if (queue == NONE)
        queue = card_queue_open(c, p->context, p->message);
    if (queue == NONE) {
        card_space_give(&c->l2, unit);
        *taken = refuse(c, p, NONE, SPIN_CARD_FATE_NO_QUEUE);
        return SPIN_OK;
    }
    take(c, p, queue, unit);
    *taken = CARD_TAKEN;
    return SPIN_OK;
}

/* ---- The source ------------------------------------------------------------------------------ */

/* The inbound engine draws when it is free, so that packets wait at the source and not in L2;
 * unless the source says otherwise. */
static void draw(struct card *c) {
    if (!c->feed(c->feed_user, &c->fed)) {
        c->feed = NULL;
        return;
    }
    c->feed_armed = true;
    uint64_t free_ps = c->fed.at_once ? 0 : c->inbound_free_ps;
    card_event(c, card_max(card_max(c->fed.arrival_ps, free_ps), c->now_ps), CARD_FEED_EVENT, 0, 0);
}

/* How long the source is held, and for what. */
static void note_held(struct card *c, bool full) {
    if (full && !c->feed_blocked)
        c->stats.held[c->held_for]++;
    if (c->feed_blocked)
        c->stats.held_ps[c->held_for] += c->now_ps - c->held_since_ps;
    c->held_since_ps = c->now_ps;
    c->feed_blocked = full;
}

static void offer(struct card *c) {
    enum card_taken taken = CARD_DROPPED;
    struct spin_error err;
    /* One that cannot be is the network's garbage: counted as refused. */
    if (card_inject(c, &c->fed, &taken, &err))
        lost(c, &c->fed, SPIN_CARD_FATE_BAD_PACKET);
    note_held(c, taken == CARD_FULL);
    if (!c->feed_blocked)
        draw(c);
}

static void on_feed(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    c->feed_armed = false;
    offer(c);
}

void card_feed(struct card *c, card_source *next, void *user) {
    c->feed = next;
    c->feed_user = user;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    if (!c->feed_armed && !c->feed_blocked)
        draw(c);
}

/* Room has come: first for handlers of a card that serves, then for the packet that waits at the
 * source. */
void card_offer_room(struct card *c) {
    if (c->unplaced)
        card_served_place(c);
    if (!c->wants_ready)
        return;
    c->wants_ready = false;
    if (c->feed_blocked)
        offer(c);
    if (c->callbacks.ready)
        c->callbacks.ready(c->callbacks.user);
}

/* ---- Out ------------------------------------------------------------------------------------- */

void card_digest(struct card *c, uint64_t a, uint64_t b) {
    c->stats.digest = rng_mix(rng_mix(c->stats.digest ^ a) + b);
}

static void note_completion(struct card *c, struct card_stats *s, const struct card_l2_packet *p) {
    if (!s->completed++)
        s->first_completion_ps = c->now_ps;
    else
        s->throughput_mbit += p->length; /* bytes here; a rate in the report */
    s->bytes_completed += p->length;
    s->last_completion_ps = c->now_ps;
}

void card_release_packet(struct card *c, uint32_t index, enum spin_card_fate fate) {
    struct card_l2_packet *p = &c->packet[index];
    struct card_execution *x = &c->context[p->context];
    bool dropped = fate != SPIN_CARD_FATE_DONE;
    if (fate == SPIN_CARD_FATE_DONE && p->marked)
        fate = SPIN_CARD_FATE_MARKED;
    CARD_COUNT(c, p->context, fate[fate], 1);
    if (dropped) {
        CARD_COUNT(c, p->context, dropped, 1);
    } else {
        note_completion(c, &c->stats, p);
        note_completion(c, &x->stats, p);
        card_spent(c, p, CARD_PART_MESSAGE);
        for (unsigned i = 0; i < CARD_PART_LATENCY; i++)
            spread_add(&x->part[i], p->part_ps[i]);
        spread_add(&x->part[CARD_PART_LATENCY], c->now_ps - p->request_ps);
        spread_add(&x->part[CARD_PART_TOTAL], c->now_ps - p->arrival_ps);
    }
    card_digest(c, c->now_ps, p->user << 1 | dropped);
    card_space_give(&c->l2, p->l2_unit);
    tell_fate(c, p, CARD_ROW_DONE, fate);
    struct card_feedback feedback = {.user = p->user,
                                     .context = p->context,
                                     .message = p->message,
                                     .length = p->length,
                                     .nic_arrival_ps = p->arrival_ps,
                                     .pspin_arrival_ps = p->request_ps,
                                     .completion_ps = c->now_ps,
                                     .dropped = dropped,
                                     .marked = p->marked,
                                     .fate = fate};
    card_packet_free(c, index);
    if (c->callbacks.feedback)
        c->callbacks.feedback(c->callbacks.user, &feedback);
}

/* ---- Set-up ---------------------------------------------------------------------------------- */

static const struct sim_module module = {.name = "card",
                                         .kinds = CARD_KINDS,
                                         .kind = {
                                             [CARD_FEED_EVENT] = {.run = on_feed},
                                             [CARD_REQUEST_EVENT] = {.run = card_on_request},
                                             [CARD_DISPATCH_EVENT] = {.run = card_on_dispatch},
                                             [CARD_READY_EVENT] = {.run = card_on_ready},
                                             [CARD_RUN_EVENT] = {.run = card_on_run},
                                             [CARD_DOORBELL_EVENT] = {.run = card_on_doorbell},
                                             [CARD_COMPLETE_EVENT] = {.run = card_on_complete},
                                             [CARD_ARRIVED_EVENT] = {.run = card_on_arrived},
                                             [CARD_RESPONSE_EVENT] = {.run = card_on_response},
                                             [CARD_TIMEOUT_EVENT] = {.run = card_on_timeout},
                                             [CARD_STORE_EVENT] = {.run = card_on_store},
                                         }};

static bool make_pools(struct card *c) {
    const struct card_config *g = &c->config;
    uint32_t packets = (uint32_t)(g->l2_packet_bytes / UNIT_BYTES);
    uint32_t tasks = (uint32_t)(g->clusters * g->cluster_tasks);
    c->packet = pages_sparse(packets * sizeof *c->packet);
    c->free_packet = NONE;
    c->queue = calloc(g->queues, sizeof *c->queue);
    c->clock.active = calloc(c->clock.words, sizeof *c->clock.active);
    c->clock.recent = calloc(c->clock.words, sizeof *c->clock.recent);
    c->task = calloc(tasks, sizeof *c->task);
    c->command = calloc(g->clusters * g->cluster_hpus * g->hpu_commands, sizeof *c->command);
    c->cluster = calloc(c->clusters, sizeof *c->cluster);
    c->context = calloc(g->contexts, sizeof *c->context);
    c->program = calloc(g->contexts, sizeof *c->program);
    c->l2_packets = pages_sparse(packets * UNIT_BYTES);
    c->l2_handler = guard_memory_new(g->handler_bytes);
    if (!c->packet || !c->queue ||
        !hash_table_reserve(&c->queues, sizeof(uint32_t), (uint32_t)g->queues) ||
        !c->clock.active || !c->clock.recent || !c->task || !c->command || !c->cluster ||
        !c->context || !c->program || !c->l2_packets || !c->l2_handler ||
        !card_space_init(&c->l2, packets))
        return false;
    for (uint32_t i = 0; i < g->queues; i++)
        c->queue[i].next_free = i + 1 < g->queues ? i + 1 : NONE;
    for (uint32_t i = 0; i < tasks; i++)
        c->task[i].next = i + 1 < tasks ? i + 1 : NONE;
    return true;
}

int card_new(struct card **out, struct sim_engine *engine, const struct card_config *config,
             const struct card_callbacks *callbacks, struct spin_error *err) {
    *out = NULL;
    int code = card_config_check(config, err);
    if (code)
        return code;
    struct card *c = calloc(1, sizeof *c);
    if (!c)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    c->engine = engine;
    c->config = *config;
    if (callbacks)
        c->callbacks = *callbacks;
    c->cycle = config->cycle;
    c->clusters = (uint32_t)config->clusters;
    c->hpus = (uint32_t)(config->clusters * config->cluster_hpus);
    c->cells_free = (uint32_t)config->cells;
    c->handler_high = (uint32_t)config->handler_bytes;
    c->requests = c->ready = c->fetches = c->held_reads = LIST_EMPTY;
    c->clock = (struct card_queue_clock){
        .words = (uint32_t)(config->queues + 63) / 64, .candidate = NONE, .armed_ps = UINT64_MAX};
    for (int i = 0; i < INTERFACES; i++)
        c->interface[i].room = (uint32_t)config->interface_commands;
    if (!make_pools(c))
        code = spin_fail(err, SPIN_ENOMEM, "out of memory");
    if (!code)
        code = card_hpus_new(c, err);
    if (!code)
        code = sim_engine_join(engine, &module, c, &c->sim, err);
    if (code) {
        card_free(c);
        return code;
    }
    *out = c;
    return SPIN_OK;
}

void card_set_callbacks(struct card *c, const struct card_callbacks *callbacks) {
    c->callbacks = *callbacks;
}

void card_free(struct card *c) {
    if (!c)
        return;
    card_contexts_free(c);
    for (uint32_t i = 0; c->cluster && i < c->clusters; i++) {
        guard_memory_free(c->cluster[i].l1, MAP_L1_SIZE);
        card_space_free(&c->cluster[i].packets);
        free(c->cluster[i].banks);
    }
    for (uint32_t i = 0; c->hpu && i < c->hpus; i++)
        free(c->hpu[i].port.heap.begins);
    free(c->hpu);
    uint32_t packets = (uint32_t)(c->config.l2_packet_bytes / UNIT_BYTES);
    pages_free(c->packet, packets * sizeof *c->packet);
    pages_free(c->l2_packets, packets * UNIT_BYTES);
    free(c->queue);
    hash_table_free(&c->queues);
    free(c->clock.active);
    free(c->clock.recent);
    free(c->task);
    free(c->command);
    free(c->cluster);
    free(c->context);
    free(c->program);
    guard_memory_free(c->l2_handler, c->config.handler_bytes);
    card_space_free(&c->l2);
    free(c);
}
