/* Between the card's logic and the transport: what the logic asks of its driver, what the transport
 * tells, and packets that the transport does not take yet. */
#include <stdlib.h>
#include <string.h>

#include "live/live_card_private.h"

#define IN_PLACE_MIN (16 * 1024) /* of less, the copy is cheaper than to wait for an answer */

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

void live_spares_make(struct live_card *card) {
    if (!card->spare)
        card->spare = malloc(sizeof *card->spare);
    if (!card->spare_packet)
        card->spare_packet = nic_packet_new(card->pool);
    nic_spare(card->nic);
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

struct nic_driver live_driver(const struct live_card *card) {
    return (struct nic_driver){.send = card_send,
                               .send_short = card_send_short,
                               .use = card_use,
                               .move = card_move,
                               .present = card->pages ? card_present : NULL,
                               .store_short = card->pages ? card_store_short : NULL,
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
}

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
    live_spares_make(card);
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

static void on_refused(void *context, struct nic_address peer) {
    const struct live_card *card = context;
    nic_peer_refused(card->nic, peer);
}

void live_lose_nowhere(struct live_card *card) {
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

struct live_receiver live_receiver(struct live_card *card) {
    return (struct live_receiver){.context = card,
                                  .packet = on_packet,
                                  .put = on_put,
                                  .dropped = on_dropped,
                                  .met = on_met,
                                  .room = on_room,
                                  .lost = on_lost,
                                  .refused = on_refused,
                                  .copied = on_copied,
                                  .rest = on_rest};
}

static void pending_free(struct live_pending *p) {
    while (p) {
        struct live_pending *next = p->next;
        nic_packet_release(p->packet);
        free(p);
        p = next;
    }
}

void live_pending_clear(struct live_card *card) {
    pending_free(card->pending);
    pending_free(card->lent);
    free(card->spare);
    if (card->spare_packet)
        nic_packet_release(card->spare_packet);
}
