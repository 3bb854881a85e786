/* The driver of the card's logic: does what nic_next says, in virtual time.
 *
 * Out: a packet departs when the port is free, occupies it for its bytes or g, whichever is longer,
 * and is given to the network at its departure. In: a packet is matched (30 ns for the first of a
 * message, 2 ns for others) by one unit, which takes the next one g later at the earliest; matching
 * and g overlap (SC'17 section 4.2).
 *
 * DMA follows LogGP (host.h). Writes are posted: the card is done with one when its last byte has
 * been handed over, and host memory has it a latency later. What the card raises follows the same
 * way, so a program sees a completion a latency after it was raised, and never before the data. A
 * read asks first and pays the latency twice; it comes after all writes before it, as on PCIe. Data
 * is copied when the card is done, so that a read sees what an earlier write has brought. A small
 * write to what is being read, or operated on, waits for that. */
#include <stdlib.h>
#include <string.h>

#include "sim/transfer.h"
#include "sim/world_private.h"

static uint64_t dma_latency(const struct spin_world *w) {
    return w->params.network.dma_latency_ps;
}

static void flight_ends(struct spin_world *w, uint32_t index) {
    ((struct world_flight *)world_at(&w->flights, index))->packet = NULL;
    world_give(&w->flights, index);
}

/* What is in flight when a run is stopped. */
void world_flights_free(struct spin_world *w) {
    for (uint32_t i = 0; i < w->flights.used; i++) {
        struct world_flight *f = world_at(&w->flights, i);
        if (f->packet)
            nic_packet_release(f->packet);
    }
    free(w->flights.entries);
}

/* ---- out --------------------------------------------------------------------------------------
 */

static void depart(struct spin_world *w, uint32_t index) {
    struct world_flight *f = world_at(&w->flights, index);
    const struct nic_packet *p = f->packet;
    struct world_rank *r = &w->rank[f->rank];
    if (p->target.nid >= w->ranks) { /* nobody has that address: as if lost on the way */
        nic_packet_release(f->packet);
        uint32_t rank = f->rank, token = f->token;
        flight_ends(w, index);
        world_event(w, w->now_ps, w->kind_left, rank, token, 0);
        return;
    }
    uint64_t takes =
        transfer_ps(p->bytes + w->params.network.header_bytes, w->params.network.link_fs);
    uint64_t end = w->now_ps + world_later(takes, w->params.g);
    world_note(w, f->rank, ROW_NIC_OUT, p->kind == NIC_DATA ? "send" : "receipt", w->now_ps, end,
               p->bytes, p->target.nid);
    f->sent_ps = w->now_ps;
    w->counts.bytes += p->bytes;
    world_event(w, w->now_ps + takes, w->kind_left, f->rank, f->token, 0);
    network_inject(w->net, w->now_ps, r->host, w->rank[p->target.nid].host, p->bytes, p->source.nid,
                   index);
}

static void send(struct world_rank *r, const struct nic_action *a) {
    struct spin_world *w = r->world;
    uint32_t index = world_take(w, &w->flights);
    if (index == WORLD_NONE)
        return;
    struct world_flight *f = world_at(&w->flights, index);
    *f = (struct world_flight){
        .packet = a->packet, .rank = r->index, .token = a->token, .references = 1};
    uint64_t takes =
        transfer_ps(a->packet->bytes + w->params.network.header_bytes, w->params.network.link_fs);
    uint64_t at = world_later(w->now_ps, r->send_free_ps);
    r->send_free_ps = at + world_later(takes, w->params.g);
    if (at == w->now_ps)
        depart(w, index);
    else
        world_event(w, at, w->kind_depart, index, 0, 0);
}

void world_on_depart(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    w->now_ps = event->at_ps;
    depart(w, event->with.u32[0]);
}

void world_on_left(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_rank *r = &w->rank[event->with.u32[0]];
    w->now_ps = event->at_ps;
    nic_done(r->nic, event->with.u32[1], w->now_ps);
    world_pump(r);
}

/* ---- in ---------------------------------------------------------------------------------------
 */

void world_on_copy(void *context, uint64_t cookie) {
    struct spin_world *w = context;
    struct world_flight *f = world_at(&w->flights, (uint32_t)cookie);
    f->references++;
}

/* One of the packet's copies is no longer on its way. Returns the packet, with a reference if it
 * goes on to a card. */
static struct nic_packet *landed(struct spin_world *w, uint32_t index, bool goes_on) {
    struct world_flight *f = world_at(&w->flights, index);
    struct nic_packet *packet = f->packet;
    bool last = --f->references == 0;
    if (last)
        flight_ends(w, index);
    if (goes_on && !last)
        nic_packet_keep(packet);
    if (!goes_on && last)
        nic_packet_release(packet);
    return packet;
}

void world_on_packet(void *context, const struct net_arrival *arrival) {
    struct spin_world *w = context;
    const struct world_params *p = &w->params;
    uint32_t index = (uint32_t)arrival->cookie;
    struct world_rank *r = &w->rank[w->rank_of[arrival->dst]];
    w->now_ps = arrival->at_ps;
    uint64_t sent_ps = ((struct world_flight *)world_at(&w->flights, index))->sent_ps;
    struct nic_packet *packet = landed(w, index, arrival->fate == NET_DELIVERED);
    if (arrival->fate != NET_DELIVERED)
        return; /* lost, or thrown away for its checksum */
    uint32_t copy = world_take(w, &w->flights);
    if (copy == WORLD_NONE)
        return;
    *(struct world_flight *)world_at(&w->flights, copy) = (struct world_flight){.packet = packet};
    bool header = packet->kind == NIC_DATA && packet->first;
    uint64_t takes = header ? p->match_header : p->match_packet;
    uint64_t start = world_later(w->now_ps, r->match_free_ps);
    r->match_free_ps = start + world_later(takes, p->g);
    world_note(w, r->index, ROW_NIC_IN, header ? "match" : "look up", start, start + takes,
               packet->bytes, packet->source.nid);
    if (packet->kind == NIC_DATA)
        world_note_packet(w, packet->source.nid, sent_ps, r->index, start);
    world_event(w, start + takes, w->kind_matched, copy, r->index, 0);
}

void world_on_matched(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    uint32_t index = event->with.u32[0];
    struct world_rank *r = &w->rank[event->with.u32[1]];
    w->now_ps = event->at_ps;
    struct nic_packet *packet = ((struct world_flight *)world_at(&w->flights, index))->packet;
    flight_ends(w, index);
    nic_packet_in(r->nic, packet, w->now_ps);
    world_pump(r);
}

/* ---- host memory ------------------------------------------------------------------------------
 */

/* When the card is done with it. */
static uint64_t transfer(struct world_rank *r, const struct nic_action *a) {
    struct spin_world *w = r->world;
    static const char *const names[] = {
        [NIC_FETCH] = "fetch", [NIC_STORE] = "store", [NIC_AMO] = "atomic"};
    enum host_direction way = a->kind == NIC_STORE ? HOST_TO_MEMORY : HOST_FROM_MEMORY;
    uint64_t landed_ps = host_dma(w->hosts, r->index, way, w->now_ps, a->bytes);
    uint64_t handed_ps = landed_ps - dma_latency(w);
    uint64_t done =
        a->kind == NIC_STORE ? handed_ps : handed_ps + w->params.dma_reads * dma_latency(w);
    world_note(w, r->index, ROW_DMA, names[a->kind], w->now_ps,
               a->kind == NIC_STORE ? landed_ps : done, a->bytes, -1);
    return done;
}

static bool is_small_read(const struct nic_action *a) {
    return a->kind != NIC_STORE && a->bytes <= NIC_ORDERED_BYTES;
}

/* When the small reads of these bytes that are under way have ended; 0: there are none. */
static uint64_t reads_end(const struct world_rank *r, const struct nic_action *a) {
    const struct spin_world *w = r->world;
    uint64_t end_ps = 0;
    for (uint32_t i = r->reads_first; i != WORLD_NONE;) {
        const struct world_dma *read = world_at(&w->dmas, i);
        if (a->host < read->action.host + read->action.bytes &&
            read->action.host < a->host + a->bytes)
            end_ps = read->done_ps;
        i = read->next;
    }
    return end_ps;
}

static void begin_read(struct world_rank *r, uint32_t index) {
    struct spin_world *w = r->world;
    if (r->reads_first == WORLD_NONE)
        r->reads_first = index;
    else
        ((struct world_dma *)world_at(&w->dmas, r->reads_last))->next = index;
    r->reads_last = index;
}

static void start_dma(struct world_rank *r, const struct nic_action *a) {
    struct spin_world *w = r->world;
    uint32_t index = world_take(w, &w->dmas);
    if (index == WORLD_NONE)
        return;
    uint32_t executor = a->from_handler ? w->issuing : WORLD_NONE;
    uint64_t done_ps = transfer(r, a);
    if (a->kind == NIC_STORE && a->bytes <= NIC_ORDERED_BYTES)
        done_ps = world_later(done_ps, reads_end(r, a));
    *(struct world_dma *)world_at(&w->dmas, index) = (struct world_dma){.action = *a,
                                                                        .rank = r->index,
                                                                        .executor = executor,
                                                                        .next = WORLD_NONE,
                                                                        .done_ps = done_ps};
    if (is_small_read(a))
        begin_read(r, index);
    if (executor != WORLD_NONE)
        w->executor[executor]->transfers++;
    world_event(w, done_ps, w->kind_dma, index, 0, 0);
}

void world_on_dma(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    w->now_ps = event->at_ps;
    const struct world_dma dma = *(struct world_dma *)world_at(&w->dmas, event->with.u32[0]);
    const struct nic_action *a = &dma.action;
    struct world_rank *r = &w->rank[dma.rank];
    if (is_small_read(a))
        r->reads_first = dma.next; /* it is the first of them */
    world_give(&w->dmas, event->with.u32[0]);
    w->moving = r->index; /* addresses are the program's word */
    if (a->kind == NIC_FETCH && a->bytes)
        memcpy(a->local, a->host, a->bytes);
    else if (a->kind == NIC_STORE && a->bytes)
        memcpy(a->host, a->local, a->bytes);
    nic_done(r->nic, a->token, w->now_ps);
    w->moving = WORLD_NONE;
    if (dma.executor != WORLD_NONE)
        world_transferred(w, dma.executor);
    world_pump(r);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void do_action(struct world_rank *r, const struct nic_action *a) {
    switch ((enum nic_action_kind)a->kind) {
    case NIC_SEND:
        send(r, a);
        return;
    case NIC_FETCH:
    case NIC_STORE:
    case NIC_AMO:
        start_dma(r, a);
        return;
    case NIC_RUN:
        world_run_task(r, a->task);
        return;
    case NIC_RESUME:
        world_resume_task(r, a->task);
        return;
    case NIC_RAISED:
        world_raised(r);
        return;
    }
}

void world_pump(struct world_rank *r) {
    struct spin_world *w = r->world;
    struct nic_action action;
    while (!w->failure && nic_next(r->nic, &action))
        do_action(r, &action);
    uint64_t deadline = nic_deadline(r->nic);
    if (deadline < r->tick_ps) {
        r->tick_ps = world_later(deadline, w->now_ps);
        world_event(w, r->tick_ps, w->kind_tick, r->index, 0, 0);
    }
}

void world_on_tick(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    struct world_rank *r = &w->rank[event->with.u32[0]];
    w->now_ps = event->at_ps;
    if (event->at_ps >= r->tick_ps)
        r->tick_ps = SIM_FOREVER;
    if (nic_deadline(r->nic) <= w->now_ps)
        nic_tick(r->nic, w->now_ps);
    world_pump(r);
}
