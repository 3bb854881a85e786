/* The driver's functions, what the transport tells, and the host's side of a Portals process. */
#include "live/live_card_private.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "hpu/image_store.h"
#include "live/live_clock.h"
#include "live/live_auto.h"
#include "live/live_fabric.h"
#include "live/live_shm.h"
#include "live/live_udp.h"

/* On UDP. A process that has lost its processor answers late, which is no loss; one that has ended
 * is given up after some seconds. */
#define FIRST_RETRY_NS (20 * LIVE_MS)
#define LEAST_RETRY_NS (5 * LIVE_MS)
#define MOST_RETRY_NS  (500 * LIVE_MS)
#define RETRIES        12
#define RECEIPT_NS     (LIVE_MS / 2)
#define WINDOW_PACKETS 256

/* Messages to one peer that the card keeps, 500 bytes each, before who sends more has to wait. */
#define PEER_REQUESTS 16384

/* With paging. What is larger than the lane takes at once travels in blocks, each of as many
 * packets as a block may have; what is smaller waits on the card for its pages. */
#define BLOCK_PACKETS      64
#define BLOCKS_OUTSTANDING 8
#define IN_PLACE_MIN       (16 * 1024) /* of less, the copy is cheaper than to wait for an answer */
#define UNBLOCKED_BYTES    (64 * 1024)
#define PARKED_MOST        1024 /* moves; then nothing more is taken from the transport */

/* ---- what the card asks ---- */

static enum live_sent give_transport(struct live_card *card, const struct nic_packet *packet) {
    uint64_t began_ns = card->record ? live_now_ns() : 0;
    enum live_sent sent = card->transport->calls->send(card->transport, packet);
    if (sent == LIVE_LATER || sent == LIVE_NOWHERE)
        return sent;
    card->lost_pages += sent == LIVE_UNREADABLE;
    card->out.packets += nic_packet_count(packet);
    card->out.bytes += packet->bytes;
    if (card->record) {
        live_record_wire(card->record, packet, CAPTURE_OUT, began_ns);
        live_record_work(card->record, packet, CAPTURE_OUT, began_ns);
    }
    return sent;
}

/* The packet, or a copy of one whose data is the program's. */
static struct nic_packet *keep(const struct live_card *card, struct nic_packet *packet) {
    if (packet->references || card->guarded == GUARDED_NOT)
        return nic_packet_keep(packet);
    struct nic_packet bare = *packet;
    bare.bytes = 0;
    struct nic_packet *kept = nic_packet_copy(&bare);
    if (!kept)
        return NULL;
    kept->bytes = packet->bytes;
    kept->bad |= !guarded_read(card->guarded, kept->data, packet->data, packet->bytes);
    if (kept->bad)
        memset(kept->data, 0, kept->bytes);
    return kept;
}

/* What was used of the spare ones is made good as soon as there is memory. */
static void make_spares(struct live_card *card) {
    if (!card->spare)
        card->spare = malloc(sizeof *card->spare);
    if (!card->spare_packet)
        card->spare_packet = nic_packet_new(card->pool);
    nic_spare(card->nic);
}

static void give_spares(struct live_card *card) {
    free(card->spare);
    card->spare = NULL;
    if (card->spare_packet)
        nic_packet_release(card->spare_packet);
    card->spare_packet = NULL;
}

static struct live_pending *pending_take(struct live_card *card) {
    struct live_pending *p = malloc(sizeof *p);
    if (!p) {
        p = card->spare;
        card->spare = NULL;
    }
    return p;
}

/* The same as `keep`, with the packet that the pool gets back for it. */
static struct nic_packet *keep_spared(struct live_card *card, struct nic_packet *packet) {
    struct nic_packet *kept = keep(card, packet);
    if (kept || !card->spare_packet)
        return kept;
    nic_packet_release(card->spare_packet);
    card->spare_packet = NULL;
    return keep(card, packet);
}

static struct live_pending *pending_new(struct live_card *card, struct nic_packet *packet,
                                        const struct nic_departed *how) {
    struct live_pending *p = pending_take(card);
    struct nic_packet *kept = p ? keep_spared(card, packet) : NULL;
    struct nic_departed later;
    if (!kept || !nic_leaves_later(card->nic, how, &later)) {
        if (kept)
            nic_packet_release(kept);
        free(p);
        return NULL;
    }
    *p = (struct live_pending){.packet = kept, .how = later};
    return p;
}

static void append(struct live_pending ***end, struct live_pending *p) {
    p->next = NULL;
    **end = p;
    *end = &p->next;
}

static enum nic_status send_lent(struct live_card *card, struct nic_packet *packet,
                                 const struct nic_departed *how) {
    struct live_pending *p = pending_new(card, packet, how);
    if (!p)
        return NIC_FAULT;
    enum live_sent sent = give_transport(card, packet);
    if (sent == LIVE_SENT || sent == LIVE_UNREADABLE) {
        nic_leaves_now(card->nic, &p->how);
        nic_packet_release(p->packet);
        free(p);
        return sent == LIVE_SENT ? NIC_DONE : NIC_FAULT;
    }
    append(sent == LIVE_LENT ? &card->lent_end : &card->pending_end, p);
    return sent == LIVE_LENT ? NIC_PENDING : NIC_BUSY;
}

static enum nic_status card_send(void *context, struct nic_packet *packet,
                                 const struct nic_departed *how) {
    struct live_card *card = context;
    if (packet->bytes > LIVE_MTU_BYTES && !packet->run)
        return send_lent(card, packet, how);
    enum live_sent sent = give_transport(card, packet);
    if (sent == LIVE_SENT)
        return NIC_DONE;
    if (sent == LIVE_UNREADABLE)
        return NIC_FAULT;
    if (card->transport->absent) {
        card->transport->absent = false;
        card->check_ns = 0;
    }
    struct live_pending *p = pending_new(card, packet, how);
    if (!p)
        return NIC_FAULT; /* the message is not sent, and who asked is told */
    p->nowhere = sent == LIVE_NOWHERE;
    card->nowhere |= p->nowhere;
    append(&card->pending_end, p);
    return NIC_BUSY;
}

/* Data of a large packet may be in another process, also where little of it is accepted. */
static bool is_elsewhere(const struct nic_move *move) {
    const struct nic_packet *packet = move->packet;
    return packet && packet->bytes > LIVE_MTU_BYTES && packet->place == LIVE_ELSEWHERE;
}

static bool do_move(enum guarded how, struct nic_move *move) {
    if (move->kind == NIC_FETCH)
        return guarded_read(how, move->local, move->host, move->bytes);
    if (move->kind == NIC_STORE)
        return guarded_write(how, move->host, move->local, move->bytes);
    return guarded_touch(how, move->host, move->bytes);
}

struct lent {
    nic_user *user;
    void *argument;
};

static void use_lent(void *context, const void *theirs, size_t bytes) {
    const struct lent *lent = context;
    (void)bytes;
    lent->user(lent->argument, (uint8_t *)(uintptr_t)theirs);
}

/* GUARDED_BY_SYSTEM nothing can be done in place: then a fault is the program's. */
static bool card_use(void *context, uint8_t *host, uint64_t bytes, nic_user *user, void *argument) {
    const struct live_card *card = context;
    struct lent lent = {user, argument};
    enum guarded how = card->guarded == GUARDED_BY_SYSTEM ? GUARDED_NOT : card->guarded;
    return guarded_use(how, host, bytes, use_lent, &lent);
}

static bool card_send_short(void *context, const struct nic_message *message, uint32_t number,
                            const uint8_t *data) {
    struct live_card *card = context;
    const struct live_transport_calls *calls = card->transport->calls;
    if (!card->plain || !calls->send_short ||
        !calls->send_short(card->transport, message, number, data))
        return false;
    card->out.packets++;
    card->out.bytes += message->payload;
    return true;
}

/* A packet of more than the MTU that is not of a block does not wait: nothing here could hold it
 * (nic_rest takes it in pieces, unless its pages went just now). What handlers ask for, which has
 * no packet, the card keeps, whatever its size. */
static bool may_wait(const struct nic_move *move) {
    const struct nic_packet *packet = move->packet;
    return !packet || move->bytes <= LIVE_MTU_BYTES || packet->kind == NIC_BLOCK;
}

/* The pages of a move that the table does not know. */
static __attribute__((noinline)) enum nic_status look_for_pages(struct live_card *card,
                                                                const struct nic_move *move) {
    struct nic_extent extent = {0};
    if (move->on_card || !may_wait(move))
        return NIC_DONE;
    if (move->packet && move->packet->kind == NIC_BLOCK)
        extent = nic_move_extent(card->nic, move);
    return live_pages_want(card->pages, move->host, move->bytes, extent.transfer_bytes,
                           move->kind != NIC_FETCH);
}

static inline enum nic_status move_here(struct live_card *card, struct nic_move *move) {
    enum nic_status there = !card->pages || live_pages_known(card->pages, move->host, move->bytes)
                                ? NIC_DONE
                                : look_for_pages(card, move);
    if (there == NIC_DONE && do_move(move->on_card ? GUARDED_NOT : card->guarded, move))
        return NIC_DONE;
    if (there == NIC_ABSENT)
        return NIC_ABSENT;
    card->lost_pages++;
    return NIC_FAULT;
}

static uint64_t card_present(void *context, const uint8_t *host, uint64_t bytes) {
    struct live_card *card = context;
    if (live_pages_known(card->pages, host, bytes))
        return bytes;
    return live_pages_present(card->pages, host, bytes);
}

static bool card_store_short(void *context, uint8_t *host, const uint8_t *data, uint64_t bytes) {
    struct live_card *card = context;
    return live_pages_known(card->pages, host, bytes) &&
           guarded_write(card->guarded, host, data, bytes);
}

/* Of data that is here. */
static enum nic_status move_at_once(struct live_card *card, struct nic_move *move) {
    const struct live_transport_calls *calls = card->transport->calls;
    enum nic_status status = move_here(card, move);
    if (move->bytes > LIVE_MTU_BYTES && move->kind == NIC_STORE && status == NIC_DONE &&
        calls->stored)
        calls->stored(card->transport, move->host);
    return status;
}

static enum nic_status card_move(void *context, struct nic_move *move) {
    static const char *const names[] = {
        [NIC_FETCH] = "fetch", [NIC_STORE] = "store", [NIC_ATOMIC_ON_HOST] = "atomic"};
    struct live_card *card = context;
    bool traces = live_record_traces(card->record);
    uint64_t began_ns = traces ? live_now_ns() : 0, bytes = move->bytes;
    enum nic_status status =
        is_elsewhere(move)
            ? card->transport->calls->fetch(card->transport, move->host, move->local, bytes)
            : move_at_once(card, move);
    if (traces && status == NIC_DONE)
        live_record_box(card->record, RECORD_DMA, names[move->kind], began_ns, live_now_ns(),
                        bytes);
    return status;
}

static void card_raise(void *context) {
    struct live_card *card = context;
    if (live_record_traces(card->record)) {
        uint64_t now_ns = live_now_ns();
        live_record_box(card->record, RECORD_CPU, "event", now_ns, now_ns, 0);
    }
    uint32_t raises = atomic_load_explicit(&card->raises, memory_order_relaxed);
    atomic_store_explicit(&card->raises, raises + 1, memory_order_release);
}

static bool card_take_pid(void *context, uint32_t pid) {
    struct live_card *card = context;
    return card->transport->calls->take_pid(card->transport, pid);
}

static bool card_lends(void *context, struct nic_address target) {
    struct live_card *card = context;
    const struct live_transport_calls *calls = card->transport->calls;
    return calls->lends && calls->lends(card->transport, target);
}

/* What is recorded is read after it has left. */
static uint32_t card_in_place(void *context, struct nic_address target, uint64_t payload) {
    struct live_card *card = context;
    const struct live_transport_calls *calls = card->transport->calls;
    return calls->in_place && !card->record && !card->pages && payload >= IN_PLACE_MIN
               ? calls->in_place(card->transport, target)
               : 0;
}

static uint64_t card_refused(void *context) {
    const struct live_card *card = context;
    return card->transport->malformed + card->transport->strangers;
}

static uint32_t card_packet_bytes(void *context, struct nic_address peer) {
    struct live_card *card = context;
    const struct live_transport_calls *calls = card->transport->calls;
    return calls->packet_bytes ? calls->packet_bytes(card->transport, peer) : LIVE_MTU_BYTES;
}

/* The first peer that is not makes time matter. */
static bool card_reliable(void *context, struct nic_address peer) {
    struct live_card *card = context;
    const struct live_transport_calls *calls = card->transport->calls;
    bool reliable = calls->reliable && calls->reliable(card->transport, peer);
    if (!reliable)
        atomic_store(&card->timed, true);
    return reliable;
}

static void card_full(void *context, struct nic_address peer, bool full) {
    struct live_card *card = context;
    if (full) {
        card->process.flooded = true;
        card->flooded = peer;
    } else
        card_raise(card); /* for who waits in card_calm */
}

static uint64_t card_needs_time(void *context) {
    struct live_card *card = context;
    atomic_store(&card->timed, true);
    return live_now_ns();
}

static const struct nic_driver driver = {.send = card_send,
                                         .send_short = card_send_short,
                                         .use = card_use,
                                         .move = card_move,
                                         .run = live_hpu_start,
                                         .resume = live_hpu_resume,
                                         .raise = card_raise,
                                         .take_pid = card_take_pid,
                                         .lends = card_lends,
                                         .in_place = card_in_place,
                                         .packet_bytes = card_packet_bytes,
                                         .refused = card_refused,
                                         .reliable = card_reliable,
                                         .full = card_full,
                                         .now = card_needs_time};

/* ---- what the transport tells ---- */

/* Who waits for a counter sees each of its values. */
static bool on_packet(void *context, struct nic_packet *packet) {
    struct live_card *card = context;
    uint32_t raises = atomic_load_explicit(&card->raises, memory_order_relaxed);
    card->in.packets++;
    card->in.bytes += packet->bytes;
    if (packet->stream) /* of a peer that is not reliable, and perhaps not known yet */
        atomic_store_explicit(&card->timed, true, memory_order_relaxed);
    uint64_t began_ns = card->record ? live_now_ns() : 0;
    if (card->record)
        live_record_wire(card->record, packet, CAPTURE_IN, began_ns);
    nic_packet_in(card->nic, packet, live_time(card));
    if (card->record)
        live_record_work(card->record, packet, CAPTURE_IN, began_ns);
    return !card->looks || raises == atomic_load_explicit(&card->raises, memory_order_relaxed);
}

static bool on_put(void *context, struct nic_put *put, bool same, uint32_t number,
                   const uint8_t *data, bool *enough) {
    struct live_card *card = context;
    uint32_t raises = atomic_load_explicit(&card->raises, memory_order_relaxed);
    if (!card->plain || !nic_put_in(card->nic, put, same, number, data, live_time(card)))
        return false;
    card->in.packets++;
    card->in.bytes += put->message.payload;
    *enough = card->looks && raises != atomic_load_explicit(&card->raises, memory_order_relaxed);
    return true;
}

static void on_dropped(void *context, struct nic_address from, const uint8_t *bytes,
                       uint32_t length, const char *why) {
    struct live_card *card = context;
    if (card->record)
        live_record_dropped(card->record, from, card->transport->calls->address(card->transport),
                            bytes, length, why);
}

static enum nic_rest on_rest(void *context, const struct nic_packet *packet) {
    struct live_card *card = context;
    if (card->record && packet->place == LIVE_ELSEWHERE)
        return NIC_REST_PACKETS; /* what is recorded has to be here */
    return nic_rest(card->nic, packet);
}

/* Takes the first packet to that peer out of a list. */
static struct live_pending *take_first(struct live_pending **list, struct live_pending ***end,
                                       struct nic_address peer) {
    for (struct live_pending **at = list; *at; at = &(*at)->next) {
        struct live_pending *p = *at;
        if (!nic_address_equal(p->packet->target, peer))
            continue;
        *at = p->next;
        if (*end == &p->next)
            *end = at;
        return p;
    }
    return NULL;
}

static struct live_pending *take_pending(struct live_card *card, struct nic_address peer) {
    return take_first(&card->pending, &card->pending_end, peer);
}

static struct live_pending *take_lent(struct live_card *card, struct nic_address peer) {
    return take_first(&card->lent, &card->lent_end, peer);
}

static void end_pending(struct live_card *card, struct live_pending *p) {
    nic_packet_release(p->packet);
    nic_left(card->nic, &p->how, live_time(card));
    free(p);
    make_spares(card);
}

static bool on_met(void *context, struct nic_address peer) {
    const struct live_card *card = context;
    return nic_peer_meet(card->nic, peer);
}

static void on_room(void *context, struct nic_address peer) {
    struct live_card *card = context;
    for (struct live_pending *p; (p = take_pending(card, peer));) {
        enum live_sent sent = give_transport(card, p->packet);
        if (sent == LIVE_LENT) {
            append(&card->lent_end, p);
            continue;
        }
        if (sent == LIVE_LATER || sent == LIVE_NOWHERE) {
            p->next = card->pending; /* still the first to this peer */
            if (!card->pending)
                card->pending_end = &p->next;
            card->pending = p;
            return;
        }
        p->how.unreadable = sent == LIVE_UNREADABLE;
        end_pending(card, p);
    }
    nic_peer_room(card->nic, peer, live_time(card));
}

static void on_copied(void *context, struct nic_address peer, bool bad) {
    struct live_card *card = context;
    struct live_pending *p = take_lent(card, peer);
    if (!p)
        return;
    p->how.unreadable = bad;
    card->lost_pages += bad;
    end_pending(card, p);
}

static void on_lost(void *context, struct nic_address peer) {
    struct live_card *card = context;
    for (struct live_pending *p; (p = take_lent(card, peer));)
        end_pending(card, p);
    for (struct live_pending *p; (p = take_pending(card, peer));)
        end_pending(card, p);
    nic_peer_lost(card->nic, peer, live_time(card));
}

/* What has nowhere to go is undeliverable. */
static void lose_nowhere(struct live_card *card) {
    card->nowhere = false;
    for (struct live_pending *p = card->pending; p;) {
        struct nic_address peer = p->packet->target;
        bool nowhere = p->nowhere;
        p = p->next;
        if (!nowhere)
            continue;
        on_lost(card, peer);
        p = card->pending;
    }
}

/* ---- the host's side ---- */

bool live_ready(struct live_card *card) {
    return card->transport->calls->ready(card->transport) &&
           (!card->pages || !card->pages->open || nic_parked(card->nic) < PARKED_MOST);
}

static void tell_paged(struct live_card *card) {
    atomic_store(&card->paged, false); /* before the look: what comes later sets it again */
    for (struct nic_pages pages; live_pages_next(card->pages, &pages);)
        nic_paged_in(card->nic, &pages, live_time(card));
}

/* By the pager's thread. */
static void on_paged(void *context) {
    struct live_card *card = context;
    atomic_store(&card->paged, true); /* before the bell: see live_wait.c */
    card->transport->calls->ring(card->transport);
}

void live_card_hold_pager(struct live_card *card, bool held) {
    live_pager_hold(card->pages->pager, held);
}

static __attribute__((noinline)) void work(struct live_card *card) {
    do {
        uint64_t now = live_time(card);
        if (live_paged(card))
            tell_paged(card);
        if (nic_deadline(card->nic) <= now)
            nic_tick(card->nic, now);
        nic_progress(card->nic, now);
        if (card->nowhere)
            lose_nowhere(card);
    } while (live_hpu_work(card) || card->nowhere);
}

void live_work(struct live_card *card) {
    if (nic_has_work(card->nic) || card->fresh || card->resumed || card->nowhere ||
        live_paged(card))
        work(card);
    if (card->transport->calls->flush)
        card->transport->calls->flush(card->transport);
}

static uint64_t length_of(const struct live_pending *p) {
    uint64_t length = 0;
    for (; p; p = p->next)
        length++;
    return length;
}

void live_show(struct live_card *card, uint64_t now_ns) {
    const struct nic_counts *n = nic_counts(card->nic);
    struct nic_address address = card->transport->calls->address(card->transport);
    card->seen.card.nid = address.nid;
    card->seen.card.pid = address.pid;
    card->seen.card.counts = (struct spin_live_counts){
        .packets_out = card->out.packets,
        .packets_in = card->in.packets,
        .bytes_out = card->out.bytes,
        .bytes_in = card->in.bytes,
        .messages_out = n->messages_out,
        .messages_in = n->messages_in,
        .retransmitted = n->retransmitted,
        .duplicates = n->duplicates + n->out_of_window,
        .malformed = n->malformed + card->transport->malformed,
        .strangers = card->transport->strangers,
        .dropped = portals_dropped(nic_portals(card->nic)),
        .given_up = n->given_up,
        .flow_control = n->flow_control,
        .page_faults = n->source_faults + n->destination_faults,
        .paged_in = card->pages ? live_pages_counts(card->pages)->paged_in : 0,
        .page_errors = card->lost_pages,
        .blocks_repeated = n->blocks_repeated,
        .waiting_packets = length_of(card->pending),
        .waiting_runs = live_hpu_waiting(card),
        .lent_packets = length_of(card->lent),
        .packets_in_memory = nic_pool_used(card->pool)};
    live_seen_show(&card->seen, now_ns);
    if (card->record)
        live_record_flush(card->record);
}

static void card_lock(void *context) {
    struct live_card *card = context;
    live_lock_take(&card->lock);
    live_called(card, 1);
    card->rested = false;
    card->process.flooded = false; /* what a peer or a handler had done since the last call */
}

/* What a call has made is sent first; then it looks what has come. Who waited has done both. */
static void card_unlock(void *context) {
    struct live_card *card = context;
    if (!card->rested) {
        live_work(card);
        if (live_ready(card)) {
            card->transport->calls->poll(card->transport);
            live_work(card);
        }
    }
    live_tell(card);
    if (card->unwatched)
        live_watch(card);
    live_lock_give(&card->lock);
}

/* Something has come, of packets or of pages; any thread may ask. */
static bool has_something(const struct live_card *card) {
    return card->transport->calls->ready(card->transport) || live_paged(card);
}

static void card_look(void *context) {
    struct live_card *card = context;
    live_called(card, LIVE_LOOK);
    if (!has_something(card) || !live_lock_try(&card->lock))
        return;
    card->rested = false;
    card_unlock(card);
}

static uint64_t card_now(void *context) {
    (void)context;
    return live_now_ns();
}

static void card_wait(void *context, uint64_t until_ns) {
    live_wait(context, until_ns);
}

/* It drives the card meanwhile, so that two who flood each other both go on. */
static void card_calm(void *context) {
    struct live_card *card = context;
    const struct nic_address peer = card->flooded;
    while (nic_is_full(card->nic, peer))
        live_wait(card, UINT64_MAX);
}

void live_card_poll(struct live_card *card) {
    if (!has_something(card))
        return;
    card_lock(card);
    card_unlock(card);
}

void live_card_flush(struct live_card *card) {
    if (card->record)
        live_record_flush(card->record);
}

void live_card_leave(struct live_card *card, uint64_t within_ns) {
    uint64_t until_ns = live_now_ns() + within_ns;
    card_lock(card);
    while ((card->pending || card->lent || !nic_settled(card->nic)) && live_now_ns() < until_ns) {
        card->transport->calls->check(card->transport, live_now_ns());
        nic_hurry(card->nic);
        card_unlock(card);
        usleep(50);
        card_lock(card);
    }
    nic_hurry(card->nic); /* peers do not wait for receipts of who has gone */
    live_work(card);
    card->transport->calls->leave(card->transport);
    live_seen_leave(&card->seen);
    card_unlock(card);
    if (card->record)
        live_record_close(card->record);
}

/* ---- making one ---- */

static int make_transport(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    const struct live_receiver receiver = {.context = card,
                                           .packet = on_packet,
                                           .put = on_put,
                                           .dropped = on_dropped,
                                           .met = on_met,
                                           .room = on_room,
                                           .lost = on_lost,
                                           .copied = on_copied,
                                           .rest = on_rest};
    const struct live_udp_options udp = {.key = o->folder->key,
                                         .interface = o->of_udp.interface,
                                         .faults = o->of_udp.faults,
                                         .port = o->of_udp.port,
                                         .auth = o->of_udp.auth,
                                         .buffer_bytes = o->of_udp.buffer_bytes,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .guarded = &card->guarded,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .receiver = receiver};
    const struct live_shm_options shm = {.folder = o->folder,
                                         .nid = o->nid,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .guarded = &card->guarded,
                                         .untouched = o->paging || card->limit,
                                         .crowded = o->crowded,
                                         .receiver = receiver};
    struct live_fabric_options fabric = {.provider = o->provider,
                                         .interface = o->of_udp.interface,
                                         .nid = o->nid,
                                         .pid = o->pid,
                                         .pool = card->pool,
                                         .mtu_bytes = LIVE_MTU_BYTES,
                                         .guarded = &card->guarded,
                                         .receiver = receiver};
    live_book_open(&fabric.book, o->folder, o->pmix);
    /* Between nodes only PMIx can tell the addresses of libfabric. */
    const struct live_far far = {&udp, o->provider && o->pmix ? &fabric : NULL};
    switch (o->transport) {
    case LIVE_FABRIC:
        return live_fabric_new(&card->transport, &fabric, err);
    case LIVE_UDP:
        return live_udp_new(&card->transport, &udp, err);
    case LIVE_AUTO:
        return live_auto_new(&card->transport, &shm, &far, err);
    default:
        return live_shm_new(&card->transport, &shm, err);
    }
}

/* Higher in each life of a process: the time. It goes round once in half a year. */
static uint32_t first_stream(void) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint32_t)((uint64_t)now.tv_sec << 8 | (uint64_t)(now.tv_nsec >> 22)) | 1;
}

static int make_parts(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    struct portals_config portals;
    struct spin_limits limits;
    int code = nic_pool_new(&card->pool, LIVE_MTU_BYTES, err);
    if (code)
        return code;
    card->guarded = guarded_way();
    if (card->guarded == GUARDED_BY_SYSTEM && !o->paging)
        card->guarded = GUARDED_NOT; /* too slow for memory that is expected to be there */
    card->limit = live_limit_new();
    code = make_transport(card, err);
    if (code)
        return code;
    if (o->paging && !(card->pages = live_pages_new(on_paged, card, &card->guarded, card->limit)))
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    uint32_t mtu_bytes = o->mtu_bytes                  ? o->mtu_bytes
                         : o->transport == LIVE_UDP    ? live_udp_mtu(card->transport)
                         : o->transport == LIVE_FABRIC ? live_fabric_mtu(card->transport)
                                                       : LIVE_MTU_BYTES;
    card->mtu_bytes = mtu_bytes;
    portals_config_default(&portals, mtu_bytes);
    spin_limits_default(&limits);
    limits.with_float = true;
    portals.image_limits = &limits;
    portals.uid = (uint32_t)getuid();
    portals.cells = &card->cells;
    portals.images = card->images = image_store_new();
    if (!card->images)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    portals.features |= PTL_COHERENT_ATOMICS; /* memory is the process's own */
    card->driver = driver;
    if (card->pages) {
        card->driver.present = card_present;
        card->driver.store_short = card_store_short;
    }
    const struct nic_config config = {.driver = &card->driver,
                                      .context = card,
                                      .gather_bytes = mtu_bytes,
                                      .address = card->transport->calls->address(card->transport),
                                      .pool = card->pool,
                                      .mtu_bytes = mtu_bytes,
                                      .own_packets = true,
                                      .retry_time = FIRST_RETRY_NS,
                                      .least_retry_time = LEAST_RETRY_NS,
                                      .most_retry_time = MOST_RETRY_NS,
                                      .receipt_time = RECEIPT_NS,
                                      .credit_packets = card->transport->credit_packets,
                                      .retries = o->of_udp.retries ? o->of_udp.retries : RETRIES,
                                      .window_packets = WINDOW_PACKETS,
                                      .stream = first_stream(),
                                      .peer_requests = PEER_REQUESTS,
                                      .send_packets = UINT32_MAX,
                                      .turn_packets = 16,
                                      .contexts = 4096,
                                      .handler_packets = 256,
                                      .handler_messages = 1024,
                                      .block_bytes = o->paging ? BLOCK_PACKETS * mtu_bytes : 0,
                                      .blocks_outstanding = BLOCKS_OUTSTANDING,
                                      .unblocked_bytes = UNBLOCKED_BYTES,
                                      .err_policy = NIC_ERR_PER_BLOCK,
                                      .portals = &portals};
    return nic_new(&card->nic, &config, err);
}

static int open_record(struct live_card *card, struct spin_error *err) {
    const struct live_card_options *o = &card->options;
    const struct live_record_options record = {
        .pcap = o->pcap,
        .trace = o->trace,
        .rank = o->ranks ? o->rank : card->transport->calls->address(card->transport).pid,
        .ranks = o->ranks,
        .port = o->of_udp.port,
        .mtu_bytes = LIVE_MTU_BYTES,
        .start_ns = o->start_ns ? o->start_ns : live_now_ns()};
    return live_record_open(&card->record, &record, err);
}

const char *const live_transport_names[] = {[LIVE_SHM] = "shm",
                                            [LIVE_UDP] = "udp",
                                            [LIVE_AUTO] = "auto",
                                            [LIVE_FABRIC] = "fabric",
                                            [LIVE_TRANSPORTS] = NULL};

static void open_seen(struct live_card *card) {
    struct spin_live_card seen = {.rank = card->options.rank, .ranks = card->options.ranks};
    snprintf(seen.program, sizeof seen.program, "%s", program_invocation_short_name);
    snprintf(seen.transport, sizeof seen.transport, "%s",
             live_transport_names[card->options.transport]);
    live_seen_open(&card->seen, card->options.folder, &seen);
    live_show(card, live_now_ns());
}

int live_card_new(struct live_card **out, const struct live_card_options *options,
                  struct spin_error *err) {
    struct live_card *card = calloc(1, sizeof *card);
    if (!card)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    card->options = *options;
    card->pending_end = &card->pending;
    card->lent_end = &card->lent;
    live_hpu_init(card);
    int code = make_parts(card, err);
    if (!code)
        code = open_record(card, err);
    if (!code) {
        card->plain = !card->record;
        card->host = (struct portals_host){.now = card_now,
                                           .per_millisecond = LIVE_MS,
                                           .wait = card_wait,
                                           .image = live_hpu_prepare,
                                           .look = card_look,
                                           .cells = &card->cells,
                                           .calm = card_calm,
                                           .lock = card_lock,
                                           .unlock = card_unlock};
        card->process = (struct portals_process){
            .portals = nic_portals(card->nic), .context = card, .host = &card->host};
        open_seen(card);
        make_spares(card);
        code = options->hpus ? live_workers_start(card, options->hpus, err) : 0;
        if (!code && options->progress)
            code = live_progress_start(card, err);
    }
    if (code)
        live_card_free(card);
    else
        *out = card;
    return code;
}

static void pending_free(struct live_pending *p) {
    while (p) {
        struct live_pending *next = p->next;
        nic_packet_release(p->packet);
        free(p);
        p = next;
    }
}

void live_card_free(struct live_card *card) {
    if (!card)
        return;
    live_progress_stop(card);
    live_workers_stop(card);
    live_pages_free(card->pages);
    card->pages = NULL;
    live_limit_free(card->limit);
    pending_free(card->pending);
    pending_free(card->lent);
    give_spares(card);
    nic_free(card->nic);
    live_hpu_clear(card);
    image_store_free(card->images);
    if (card->transport)
        card->transport->calls->close(card->transport);
    nic_pool_free(card->pool);
    live_seen_close(&card->seen);
    live_record_free(card->record);
    free(card);
}

struct portals_process *live_card_process(struct live_card *card) {
    return &card->process;
}

struct nic *live_card_nic(struct live_card *card) {
    return card->nic;
}

uint64_t live_card_strangers(struct live_card *card) {
    live_lock_take(&card->lock);
    uint64_t count = card->transport->strangers;
    live_lock_give(&card->lock);
    return count;
}

uint64_t live_card_malformed(struct live_card *card) {
    live_lock_take(&card->lock);
    uint64_t count = card->transport->malformed + nic_counts(card->nic)->malformed;
    live_lock_give(&card->lock);
    return count;
}
