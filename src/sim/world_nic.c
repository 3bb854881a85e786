/* The driver of the card's logic (nic/nic.h): does what it asks for, in virtual time.
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
 * write to what is being read, or operated on, waits for that, and one to the same bytes for both.
 */
#include <stdlib.h>
#include <string.h>

#include "base/copy_past.h"
#include "sim/transfer.h"
#include "sim/world_process.h"

static uint64_t dma_latency(const struct world_rank *r) {
    return r->params->network.dma_latency_ps;
}

/* One less needs the flight: a copy of its packet has landed, or it has left. */
void world_flight_less(struct spin_world *w, uint32_t index) {
    struct world_flight *f = pool_at(&w->flights, index);
    if (--f->references)
        return;
    nic_packet_release(f->packet);
    pool_give(&w->flights, f);
}

/* What is in flight when a run is stopped. */
void world_flights_free(struct spin_world *w) {
    for (uint32_t i = 0; w->rank && i < w->ranks; i++)
        if (w->rank[i].card)
            card_serve_over(w->rank[i].card);
    for (uint32_t i = 0; i < w->flights.made; i++) {
        struct world_flight *f = pool_find(&w->flights, i);
        if (f && f->packet)
            nic_packet_release(f->packet);
    }
    pool_clear(&w->flights);
}

/* And what is being moved. */
void world_dmas_free(struct spin_world *w) {
    for (uint32_t i = 0; i < w->dmas.made; i++) {
        struct world_dma *dma = pool_find(&w->dmas, i);
        if (dma)
            nic_move_forget(&dma->move);
    }
    pool_clear(&w->dmas);
}

/* ---- out --------------------------------------------------------------------------------------
 */

static void depart(struct spin_world *w, uint32_t index) {
    struct world_flight *f = pool_at(&w->flights, index);
    const struct nic_packet *p = f->packet;
    struct world_rank *r = &w->rank[f->rank];
    if (p->target.nid >= w->ranks) { /* nobody has that address: as if lost on the way */
        world_flight_less(w, index);
        world_event(r, w->now_ps, WORLD_LEFT_EVENT, index, 0, 0);
        return;
    }
    uint64_t takes =
        transfer_ps(p->bytes + w->params.network.header_bytes, w->params.network.link_fs);
    uint64_t end = w->now_ps + world_later(takes, r->params->g);
    static const char *const names[] = {[NIC_DATA] = "send",
                                        [NIC_RECEIPT] = "receipt",
                                        [NIC_PROBE] = "receipt",
                                        [NIC_BLOCK] = "block",
                                        [NIC_REPORT] = "report"};
    world_note(w, f->rank, ROW_NIC_OUT, names[p->kind], w->now_ps, end, p->bytes, p->target.nid);
    if (w->pcap)
        world_capture_packet(w, p);
    f->sent_ps = w->now_ps;
    w->counts.bytes += p->bytes;
    world_event(r, w->now_ps + takes, WORLD_LEFT_EVENT, index, 0, 0);
    network_inject(w->net, w->now_ps, r->host, w->rank[p->target.nid].host, p->bytes, p->source.nid,
                   index);
}

uint32_t world_flight_new(struct world_rank *r, struct nic_packet *packet,
                          const struct nic_departed *how) {
    struct spin_world *w = r->world;
    struct world_flight *f = world_take(w, &w->flights);
    if (!f || !(f->packet = nic_packet_keep(packet)) || !nic_leaves_later(r->nic, how, &f->how)) {
        world_fail(w, SPIN_ENOMEM, "out of memory for packets in flight");
        return WORLD_NONE;
    }
    f->rank = r->index;
    f->references = 2; /* one for its way, one until it has left */
    return f->slot.index;
}

void world_launch(struct world_rank *r, uint32_t index) {
    struct spin_world *w = r->world;
    const struct world_flight *f = pool_at(&w->flights, index);
    uint64_t takes =
        transfer_ps(f->packet->bytes + w->params.network.header_bytes, w->params.network.link_fs);
    uint64_t at = world_later(w->now_ps, r->send_free_ps);
    if (r->paging)
        at = world_later(at, world_paging_start(r, f->packet));
    r->send_free_ps = at + world_later(takes, r->params->g);
    if (at == w->now_ps)
        depart(w, index);
    else
        world_event(r, at, WORLD_DEPART_EVENT, index, 0, 0);
}

/* In flight as it is written. */
struct nic_packet *world_slot(void *context, struct nic_address target) {
    const struct world_rank *r = context;
    (void)target;
    return nic_packet_new(r->world->packets);
}

static enum nic_status send_packet(void *context, struct nic_packet *packet,
                                   const struct nic_departed *how) {
    struct world_rank *r = context;
    uint32_t index = world_flight_new(r, packet, how);
    if (index == WORLD_NONE)
        return NIC_DONE;
    world_launch(r, index);
    return NIC_PENDING;
}

void world_on_depart(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    w->now_ps = event->at_ps;
    depart(w, event->with.u32[0]);
}

void world_on_left(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    uint32_t index = event->with.u32[0];
    const struct world_flight *f = pool_at(&w->flights, index);
    struct world_rank *r = &w->rank[f->rank];
    const struct nic_departed how = f->how;
    w->now_ps = event->at_ps;
    world_flight_less(w, index);
    nic_left(r->nic, &how, w->now_ps);
    world_pump(r);
}

/* ---- in ---------------------------------------------------------------------------------------
 */

void world_on_copy(void *context, uint64_t cookie) {
    struct spin_world *w = context;
    struct world_flight *f = pool_at(&w->flights, (uint32_t)cookie);
    f->references++;
}

void world_on_packet(void *context, const struct net_arrival *arrival) {
    struct spin_world *w = context;
    uint32_t index = (uint32_t)arrival->cookie;
    struct world_rank *r = &w->rank[w->rank_of[arrival->dst]];
    const struct world_params *p = r->params;
    const struct world_flight *f = pool_at(&w->flights, index);
    const struct nic_packet *packet = f->packet;
    w->now_ps = arrival->at_ps;
    if (arrival->fate != NET_DELIVERED) { /* lost, or thrown away for its checksum */
        world_flight_less(w, index);
        return;
    }
    bool header = packet->kind == NIC_DATA && packet->first;
    uint64_t takes = header ? p->match_header : p->match_packet;
    uint64_t start = world_later(w->now_ps, r->match_free_ps);
    r->match_free_ps = start + world_later(takes, p->g);
    world_note(w, r->index, ROW_NIC_IN, header ? "match" : "look up", start, start + takes,
               packet->bytes, packet->source.nid);
    if (packet->kind == NIC_DATA || packet->kind == NIC_BLOCK)
        world_note_packet(w, packet->source.nid, f->sent_ps, r->index, start);
    nic_prefetch_interface(r->nic); /* until then it comes closer */
    world_event(r, start + takes, WORLD_MATCHED_EVENT, index, r->index, 0);
}

void world_on_matched(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    uint32_t index = event->with.u32[0];
    struct world_rank *r = &w->rank[event->with.u32[1]];
    w->now_ps = event->at_ps;
    if (r->card) {
        world_pspin_packet(r, index);
        return;
    }
    nic_packet_in(r->nic, ((struct world_flight *)pool_at(&w->flights, index))->packet, w->now_ps);
    world_flight_less(w, index);
    world_pump(r);
}

/* ---- host memory ------------------------------------------------------------------------------
 */

/* When the card is done with it, if it begins then. */
static uint64_t transfer(struct world_rank *r, const struct nic_move *a, uint64_t at_ps) {
    struct spin_world *w = r->world;
    static const char *const names[] = {
        [NIC_FETCH] = "fetch", [NIC_STORE] = "store", [NIC_ATOMIC_ON_HOST] = "atomic"};
    enum host_direction way = a->kind == NIC_STORE ? HOST_TO_MEMORY : HOST_FROM_MEMORY;
    uint64_t landed_ps = host_dma(w->hosts, r->index, way, at_ps, a->bytes);
    uint64_t handed_ps = landed_ps - dma_latency(r);
    uint64_t done =
        a->kind == NIC_STORE ? handed_ps : handed_ps + r->params->dma_reads * dma_latency(r);
    world_note(w, r->index, ROW_DMA, names[a->kind], at_ps, a->kind == NIC_STORE ? landed_ps : done,
               a->bytes, -1);
    return done;
}

static bool is_small(const struct nic_move *a) {
    return a->bytes <= NIC_ORDERED_BYTES;
}

/* When the small reads of these bytes that are under way have ended, and the small writes to them
 * that wait for one; 0: there are none. */
static uint64_t others_end(const struct world_rank *r, const struct nic_move *a) {
    const struct spin_world *w = r->world;
    uint64_t end_ps = 0;
    for (uint32_t i = r->ordered_first; i != WORLD_NONE;) {
        const struct world_dma *o = pool_at(&w->dmas, i);
        if (a->host < o->move.host + o->move.bytes && o->move.host < a->host + a->bytes)
            end_ps = world_later(end_ps, o->done_ps);
        i = o->next;
    }
    return end_ps;
}

/* A small write of the same bytes waits for it. */
static void begin_ordered(struct world_rank *r, struct world_dma *dma) {
    struct spin_world *w = r->world;
    uint32_t index = dma->slot.index;
    dma->ordered = true;
    if (r->ordered_first == WORLD_NONE)
        r->ordered_first = index;
    else
        ((struct world_dma *)pool_at(&w->dmas, r->ordered_last))->next = index;
    r->ordered_last = index;
}

/* Most often it is the first. */
static void end_ordered(struct world_rank *r, const struct world_dma *dma) {
    struct spin_world *w = r->world;
    uint32_t *at = &r->ordered_first, before = WORLD_NONE;
    while (*at != dma->slot.index) {
        before = *at;
        at = &((struct world_dma *)pool_at(&w->dmas, before))->next;
    }
    *at = dma->next;
    if (r->ordered_last == dma->slot.index)
        r->ordered_last = before;
}

enum nic_status world_move_until(struct world_rank *r, struct nic_move *m, struct world_executor *e,
                                 uint64_t done_ps) {
    struct spin_world *w = r->world;
    struct world_dma *dma = world_take(w, &w->dmas);
    if (dma && !nic_move_later(r->nic, m, &dma->move)) {
        pool_give(&w->dmas, dma);
        dma = NULL;
    }
    if (!dma) {
        world_fail(w, SPIN_ENOMEM, "out of memory for what moves to and from host memory");
        return NIC_FAULT;
    }
    uint64_t others_ps = m->kind == NIC_STORE && is_small(m) ? others_end(r, m) : 0;
    dma->rank = r->index;
    dma->executor = e;
    dma->next = WORLD_NONE;
    dma->ordered = false;
    dma->done_ps = world_later(done_ps, others_ps);
    if (is_small(m) && (m->kind != NIC_STORE || others_ps > done_ps))
        begin_ordered(r, dma);
    if (e)
        e->transfers++;
    world_event(r, dma->done_ps, WORLD_DMA_EVENT, dma->slot.index, 0, 0);
    return NIC_PENDING;
}

static enum nic_status move(void *context, struct nic_move *m) {
    struct world_rank *r = context;
    struct world_executor *e = m->from_handler ? m->task->driver : NULL;
    uint64_t at_ps = r->world->now_ps;
    enum nic_status status = r->paging ? world_paging_move(r, m, &at_ps) : NIC_DONE;
    if (status != NIC_DONE)
        return status;
    return world_move_until(r, m, e && world_is_memory_of(e, m->local) ? e : NULL,
                            transfer(r, m, at_ps));
}

/* To or from memory of which the program's word is not enough: another process's, or that may be
 * gone meanwhile. Of an atomic, which the card performs itself, a try. */
static bool copy_with_care(const struct world_rank *r, const struct nic_move *m) {
    uint64_t host = (uintptr_t)m->host;
    uint8_t try[NIC_ORDERED_BYTES];
    uint64_t tried = m->bytes < sizeof try ? m->bytes : sizeof try;
    return m->kind == NIC_FETCH ? world_reach(r, host, m->local, m->bytes, false)
           : m->kind == NIC_STORE
               ? world_reach(r, host, m->local, m->bytes, true)
               : world_reach(r, host, try, tried, false) && world_reach(r, host, try, tried, true);
}

/* Of a large world no cache holds the memory, but one may hold what else is needed. */
static void store(const struct spin_world *w, const struct nic_move *m) {
    enum { MANY_RANKS = 256, MANY_BYTES = 1024 };
    if (w->ranks >= MANY_RANKS && m->bytes >= MANY_BYTES)
        copy_past(m->host, m->local, m->bytes);
    else
        memcpy(m->host, m->local, m->bytes);
}

/* Bytes, when their time has come. */
void world_copy(struct world_rank *r, struct nic_move *m) {
    struct spin_world *w = r->world;
    if ((r->process || (r->paging && !world_found(r, m))) && !m->on_card) {
        bool writes = m->kind != NIC_FETCH, is_there = copy_with_care(r, m);
        if (is_there && r->paging)
            world_find(r, m);
        nic_moved(r->nic, m, is_there ? NIC_DONE : NIC_FAULT, w->now_ps);
        if (writes && r->process)
            world_process_written(r->process);
        return;
    }
    w->moving = r->index; /* addresses are the program's word */
    if (m->kind == NIC_FETCH && m->bytes)
        memcpy(m->local, m->host, m->bytes);
    else if (m->kind == NIC_STORE && m->bytes)
        store(w, m);
    nic_moved(r->nic, m, NIC_DONE, w->now_ps);
    w->moving = WORLD_NONE;
}

void world_on_dma(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    w->now_ps = event->at_ps;
    struct world_dma *at = pool_at(&w->dmas, event->with.u32[0]), dma = *at;
    struct nic_move *m = &dma.move;
    struct world_rank *r = &w->rank[dma.rank];
    if (dma.ordered)
        end_ordered(r, &dma);
    pool_give(&w->dmas, at);
    world_copy(r, m);
    if (dma.executor)
        world_transferred(dma.executor);
    world_pump(r);
}

/* ---- all of it --------------------------------------------------------------------------------
 */

static void run(void *context, struct nic_task *task) {
    world_run_task(context, task);
}

static void resume(void *context, struct nic_task *task) {
    world_resume_task(context, task);
}

void world_raise(void *context) {
    struct world_rank *r = context;
    r->raised = true;
}

const struct nic_driver world_driver = {.slot = world_slot,
                                        .send = send_packet,
                                        .move = move,
                                        .run = run,
                                        .resume = resume,
                                        .raise = world_raise};

void world_pump(struct world_rank *r) {
    struct spin_world *w = r->world;
    if (w->failure)
        return;
    nic_progress(r->nic, w->now_ps);
    if (r->raised) {
        r->raised = false;
        world_raised(r);
    }
    if (nic_counts(r->nic)->no_memory || portals_no_memory(nic_portals(r->nic)))
        world_fail(w, SPIN_ENOMEM, "out of memory on the card of rank %u", r->index);
    uint64_t deadline = nic_deadline(r->nic);
    if (deadline < r->tick_ps) {
        r->tick_ps = world_later(deadline, w->now_ps);
        world_event(r, r->tick_ps, WORLD_TICK_EVENT, r->index, 0, 0);
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
