/* Ranks whose cards have PsPIN's datapath (card.h, "Under another's messages").
 *
 * In: a packet that was matched is written to the card's L2 and stays there until the card's logic
 * needs it no more; without room it waits before the card, and those behind it. Handlers are
 * dispatched to clusters, their packets copied to L1; their commands go through the command unit.
 * What the card does by itself (default delivery, fetching what the host sends, sending it) takes
 * the host's interface and the outbound engine directly. */
#include <stdio.h>
#include <string.h>

#include "hpu/gdb.h"
#include "sim/world_private.h"

/* ---- packets ---- */

/* The card's logic has given it back. */
static void packet_back(void *context, struct nic_packet *packet) {
    struct world_rank *r = context;
    card_serve_release(r->card, packet->place);
}

/* False: there is no room in L2. */
static bool take_in(struct world_rank *r, uint32_t flight) {
    struct spin_world *w = r->world;
    struct world_flight *f = pool_at(&w->flights, flight);
    uint32_t place;
    if (!card_serve_packet(r->card, f->packet->data, f->packet->bytes, flight, &place))
        return false;
    f->place = place;
    return true;
}

/* A flight may have copies that arrive apart: each has a record of its own on the card. */
static uint32_t landed(struct world_rank *r, uint32_t flight) {
    struct spin_world *w = r->world;
    struct world_flight *own = world_take(w, &w->flights), *f = pool_at(&w->flights, flight);
    if (!own || !(own->packet = nic_packet_keep(f->packet))) {
        world_fail(w, SPIN_ENOMEM, "out of memory for packets of rank %u", r->index);
        return WORLD_NONE;
    }
    own->references = 1;
    own->next = WORLD_NONE;
    world_flight_less(w, flight);
    return own->slot.index;
}

void world_pspin_packet(struct world_rank *r, uint32_t flight) {
    struct spin_world *w = r->world;
    flight = landed(r, flight);
    if (flight == WORLD_NONE)
        return;
    if (r->wait_first == WORLD_NONE && take_in(r, flight))
        return;
    if (r->wait_first == WORLD_NONE)
        r->wait_first = flight;
    else
        ((struct world_flight *)pool_at(&w->flights, r->wait_last))->next = flight;
    r->wait_last = flight;
}

static void ready(void *user) {
    struct world_rank *r = user;
    struct spin_world *w = r->world;
    while (r->wait_first != WORLD_NONE) {
        uint32_t flight = r->wait_first;
        if (!take_in(r, flight))
            return;
        r->wait_first = ((struct world_flight *)pool_at(&w->flights, flight))->next;
    }
}

static void arrived(void *user, uint64_t flight, uint64_t at_ps) {
    struct world_rank *r = user;
    struct spin_world *w = r->world;
    const struct world_flight *f = pool_at(&w->flights, (uint32_t)flight);
    w->now_ps = at_ps;
    struct nic_packet on_card = *f->packet; /* of the card's own pool, so that it is told */
    on_card.references = 0;
    on_card.pool = r->card_packets;
    struct nic_packet *packet = nic_packet_keep(&on_card);
    if (packet)
        packet->place = f->place;
    world_flight_less(w, (uint32_t)flight);
    if (!packet) {
        world_fail(w, SPIN_ENOMEM, "out of memory for packets of rank %u", r->index);
        return;
    }
    nic_packet_in(r->nic, packet, at_ps);
    nic_packet_release(packet);
    world_pump(r);
}

static enum nic_status send_packet(void *context, struct nic_packet *packet,
                                   const struct nic_departed *how) {
    struct world_rank *r = context;
    struct spin_world *w = r->world;
    uint32_t flight = world_flight_new(r, packet, how);
    if (flight == WORLD_NONE)
        return NIC_DONE;
    const struct world_flight *f = pool_at(&w->flights, flight);
    if (how->task && card_serve_has_place(how->task)) {
        card_serve_send(r->card, how, f->packet->data, packet->bytes, flight);
        return NIC_PENDING;
    }
    world_event(r, card_serve_out(r->card, packet->bytes), WORLD_LAUNCH_EVENT, flight, 0, 0);
    return NIC_PENDING;
}

static void departed(void *user, uint32_t flight, uint64_t at_ps) {
    struct world_rank *r = user;
    r->world->now_ps = at_ps;
    world_launch(r, flight);
}

void world_on_launch(void *context, const struct sim_event *event) {
    struct spin_world *w = context;
    w->now_ps = event->at_ps;
    const struct world_flight *f = pool_at(&w->flights, event->with.u32[0]);
    world_launch(&w->rank[f->rank], event->with.u32[0]);
}

/* ---- host memory ---- */

static enum nic_status move(void *context, struct nic_move *m) {
    struct world_rank *r = context;
    struct nic_move later;
    uint64_t ready_ps = r->world->now_ps;
    enum nic_status status = r->paging ? world_paging_move(r, m, &ready_ps) : NIC_DONE;
    if (status != NIC_DONE)
        return status;
    /* of a command in many segments, those beyond the HPU's places go by themselves */
    if (m->from_handler && card_serve_has_place(m->task) && nic_move_later(r->nic, m, &later)) {
        card_serve_move(r->card, m->task, &later);
        return NIC_PENDING;
    }
    uint64_t done = card_serve_host(r->card, m->kind == NIC_STORE, m->bytes, ready_ps);
    world_note(r->world, r->index, ROW_DMA, m->kind == NIC_STORE ? "store" : "fetch",
               r->world->now_ps, done, m->bytes, -1);
    return world_move_until(r, m, NULL, done);
}

static void moved(void *user, struct nic_move *later, uint64_t at_ps) {
    struct world_rank *r = user;
    r->world->now_ps = at_ps;
    world_copy(r, later);
    world_pump(r);
}

/* ---- handlers ---- */

static void run(void *context, struct nic_task *task) {
    struct world_rank *r = context;
    struct spin_error err;
    bool in_l2 = task->packet && task->packet->pool == r->card_packets; /* not one to itself */
    uint32_t place = in_l2 ? task->packet->place : WORLD_NONE;
    if (!card_serve_task(r->card, task, place, &err))
        world_fail(r->world, (enum spin_code)err.code, "rank %u: %s", r->index, err.text);
}

static void resume(void *context, struct nic_task *task) {
    card_serve_resume(((struct world_rank *)context)->card, task);
}

static void ended(void *user, uint64_t task_number, int32_t code, uint64_t at_ps) {
    struct world_rank *r = user;
    struct spin_world *w = r->world;
    w->now_ps = at_ps;
    w->counts.handlers++;
    nic_handler_done(r->nic, task_number, code, at_ps);
    world_pump(r);
}

static struct port_host host(void *user, struct nic_task *task, uint32_t space) {
    const struct world_rank *r = user;
    return nic_command_host(r->nic, task, space);
}

static enum hpu_access issue(void *user, struct port *port, struct nic_task *task,
                             const struct port_command *command, uint64_t at_ps) {
    struct world_rank *r = user;
    r->world->now_ps = at_ps;
    enum hpu_access access = nic_command(r->nic, task, port, command, at_ps);
    world_pump(r);
    return access;
}

static enum hpu_access over(void *user, struct port *port, struct nic_task *task, uint32_t handle,
                            bool wait) {
    const struct world_rank *r = user;
    return nic_command_over(r->nic, task, port, handle, wait);
}

static void print(void *user, uint32_t cluster, uint32_t core, const char *line) {
    const struct world_rank *r = user;
    uint32_t hpus = (uint32_t)r->params->pspin.cluster_hpus;
    fprintf(stderr, "[%u,%u] %s\n", r->index, cluster * hpus + core, line);
}

static void fault(void *user, const struct card_fault *f, uint64_t at_ps) {
    struct world_rank *r = user;
    if (f->ending == SPIN_RETURNED)
        return; /* a return code: the event tells */
    world_tell_fault(r, f->hpu, card_context_image(r->card, f->context), f->entry, at_ps, f->ending,
                     f->pc, f->address, &f->refusal);
}

static void keep(void *user, const struct spin_image *image) {
    const struct world_rank *r = user;
    image_store_keep(r->world->images, image);
}

/* ---- what is seen of it ---- */

/* Of HPUs, and of what handlers move to and from the host. */
static void span(void *user, const struct card_span *s) {
    struct world_rank *r = user;
    if (s->row == CARD_ROW_HPU)
        world_note_fault(r->world, r->index, ROW_HPU + s->index, s->name, s->start_ps, s->end_ps,
                         s->bytes, s->fault);
    else if (s->row == CARD_ROW_HOST)
        world_note(r->world, r->index, ROW_DMA, s->name, s->start_ps, s->end_ps, s->bytes, -1);
}

static enum hpu_stop run_under_gdb(void *user, struct hpu *hpu, const struct spin_image *image,
                                   uint64_t until) {
    const struct world_rank *r = user;
    return gdb_run_one(r->world->gdb, hpu, image, until);
}

/* ---- set-up ---- */

const struct nic_driver world_pspin_driver = {.slot = world_slot,
                                              .send = send_packet,
                                              .move = move,
                                              .run = run,
                                              .resume = resume,
                                              .raise = world_raise};

int world_pspin_new(struct world_rank *r, struct spin_error *err) {
    struct spin_world *w = r->world;
    const struct card_server server = {.user = r,
                                       .scratch_bytes = (uint32_t)r->params->scratchpad,
                                       .budget_cycles = r->params->hpu_budget,
                                       .arrived = arrived,
                                       .ended = ended,
                                       .host = host,
                                       .issue = issue,
                                       .over = over,
                                       .keep = keep,
                                       .moved = moved,
                                       .departed = departed};
    bool noted = w->trace_path || w->picture_path;
    const struct card_callbacks callbacks = {
        .user = r,
        .fault = fault,
        .ready = ready,
        .print = print,
        .span = noted ? span : NULL,
        .run = w->gdb && w->gdb_rank == r->index ? run_under_gdb : NULL};
    struct card_config config = r->params->pspin;
    config.jit = w->jit;
    config.check = w->check;
    config.mtu = w->params.network.mtu_bytes;
    r->wait_first = r->wait_last = WORLD_NONE;
    int code = nic_pool_new(&r->card_packets, (uint32_t)w->params.network.mtu_bytes, err);
    if (!code)
        code = card_new(&r->card, w->engine, &config, &callbacks, err);
    if (!code)
        code = card_serve(r->card, &server, err);
    if (!code)
        nic_pool_watch(r->card_packets, packet_back, r);
    return code;
}

void world_pspin_count(const struct world_rank *r, struct spin_world_counts *counts) {
    struct card_stats stats;
    card_stats(r->card, &stats);
    for (int i = 0; i <= SPIN_CLEANUP_HANDLER; i++)
        counts->instructions += stats.handler[i].instructions;
    counts->handler_ps += stats.hpu_busy_ps;
}

void world_pspin_tell(const struct world_rank *r, struct spin_world_card *card) {
    struct spin_world_counts counts = {0};
    struct card_stats stats;
    card_stats(r->card, &stats);
    world_pspin_count(r, &counts);
    card->instructions = counts.instructions;
    card->hpu_busy_ps = counts.handler_ps;
    card->packet_buffer_most_bytes = stats.most_l2_bytes;
    card->packet_buffer_full = stats.full;
    card->host_bytes_written = stats.host_write_bytes;
    card->host_bytes_read = stats.host_read_bytes;
    card->l1_conflict_cycles = stats.conflict_cycles;
    card->icache_misses = stats.icache_misses;
    for (int k = 0; k <= SPIN_CLEANUP_HANDLER; k++)
        card->handler[k] = card_handler_told(&stats.handler[k]);
}

void world_pspin_free(struct world_rank *r) {
    if (r->card_packets)
        nic_pool_watch(r->card_packets, NULL, NULL);
    nic_pool_free(r->card_packets);
    card_free(r->card);
}
