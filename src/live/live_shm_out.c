#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "live/live_clock.h"
#include "live/live_shm_private.h"

#define GRACE_NS (1000 * LIVE_MS) /* for a peer that is not there yet */

/* ---- the lane ---- */

static void refuse(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->refused)
        return;
    peer->refused = true;
    s->refused++;
}

void shm_accept_again(struct live_shm *s, struct live_shm_peer *peer) {
    if (!peer->refused)
        return;
    peer->refused = false;
    s->refused--;
}

bool shm_open_view(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->view.header || box_open(&peer->view, s->o.folder, peer->address, s->box.header->pid))
        return true;
    if (peer->view.full && !s->told_full)
        fprintf(stderr, "openspin: %s: no memory to send to pid %u: No space left on device\n",
                s->o.folder->path, peer->address.pid);
    s->told_full |= peer->view.full;
    return false;
}

/* It shall look at the claim of its lane that is ours. */
static void point_at_claim(struct live_shm *s, struct live_shm_peer *peer) {
    uint32_t pid = s->box.header->pid;
    atomic_fetch_or(&peer->view.header->claims[pid / 64], 1ull << pid % 64);
    box_attend(peer->view.header);
}

static void claim_lane(struct live_shm *s, struct live_shm_peer *peer) {
    atomic_store(&peer->view.lane->claim, s->box.header->life);
    point_at_claim(s, peer);
    peer->out_state = OUT_CLAIMED;
    peer->was_there = true;
}

bool shm_is_out_open(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->out_state == OUT_OPEN)
        return true;
    if (peer->out_state == OUT_NONE && shm_open_view(s, peer))
        claim_lane(s, peer);
    if (peer->out_state != OUT_CLAIMED ||
        atomic_load_explicit(&peer->view.lane->accepted, memory_order_acquire) !=
            s->box.header->life)
        return false;
    peer->out = (struct live_ring_out){.ring = &peer->view.lane->ring};
    peer->asked_bulk = peer->has_bulk = false;
    peer->bulk_left = 0;
    peer->bulk_sent = peer->bulk_head = 0;
    peer->offer = OFFER_NONE;
    peer->offers = peer->declining = 0;
    peer->may_help = NOT_TRIED;
    peer->out_state = OUT_OPEN;
    return true;
}

bool shm_has_room(struct live_shm *s, struct live_shm_peer *peer) {
    uint32_t most = ring_lines(WIRE_HEADER_BYTES + s->o.mtu_bytes);
    most = 2 * most + RING_CLEAR; /* it may skip the end of the ring */
    if (ring_has_room(&peer->out, most))
        return true;
    atomic_store(&peer->out.ring->wants_room, 1);
    atomic_thread_fence(memory_order_seq_cst); /* then look again: it may have just moved */
    return ring_has_room(&peer->out, most);
}

static uint8_t *reserve(struct live_shm *s, struct live_shm_peer *peer, uint32_t bytes) {
    uint8_t *at = ring_reserve(&peer->out, bytes);
    return !at && shm_has_room(s, peer) ? ring_reserve(&peer->out, bytes) : at;
}

/* Data of a packet, which may be in the program's memory. False: it cannot be read. */
static inline bool copy_data(const struct live_shm *s, uint8_t *to,
                             const struct nic_packet *packet) {
    return guarded_read(packet->references ? GUARDED_NOT : *s->o.guarded, to, packet->data,
                        packet->bytes);
}

/* A peer that sleeps may do so because it takes us to be on its processor. */
static inline void ring_bell(struct live_shm *s, struct live_shm_peer *peer) {
    if (box_ring(peer->view.header))
        shm_tell_processor(s);
}

static enum live_sent send_unreadable(struct live_shm *s, struct live_shm_peer *peer,
                                      const struct nic_packet *packet);

static enum live_sent send_record(struct live_shm *s, struct live_shm_peer *peer,
                                  const struct nic_packet *packet) {
    bool is_short = wire_is_short(packet);
    uint32_t header = is_short ? WIRE_PACKET_BYTES : wire_long_bytes(packet);
    uint32_t bytes = header + packet->bytes;
    uint8_t *at = reserve(s, peer, bytes);
    if (!at) {
        refuse(s, peer);
        return LIVE_LATER;
    }
    uint64_t first = is_short ? wire_encode_short(packet, at) : wire_encode_long(packet, at);
    if (!copy_data(s, at + header, packet))
        return send_unreadable(s, peer, packet);
    ring_commit(&peer->out, bytes, first);
    ring_bell(s, peer);
    return LIVE_SENT;
}

/* Zeroes instead, of which the receiver knows that they are not the data. */
static enum live_sent send_unreadable(struct live_shm *s, struct live_shm_peer *peer,
                                      const struct nic_packet *packet) {
    static uint8_t zeroes[BULK_SLOT_BYTES];
    struct nic_packet bad = *packet;
    bad.bad = true;
    bad.references = 1;
    bad.data = zeroes;
    return send_record(s, peer, &bad) == LIVE_SENT ? LIVE_UNREADABLE : LIVE_LATER;
}

bool shm_send_short(struct live_transport *t, const struct nic_message *m, uint32_t number,
                    const uint8_t *data) {
    struct live_shm *s = shm_of(t);
    struct nic_address to = m->target;
    struct live_shm_peer *peer = to.nid == s->o.nid && to.pid < LIVE_PIDS ? s->peer[to.pid] : NULL;
    if (!peer || peer->refused || peer->out_state != OUT_OPEN || !wire_message_is_short(m))
        return false;
    uint32_t bytes = WIRE_PACKET_BYTES + (uint32_t)m->payload;
    uint8_t *at = ring_reserve(&peer->out, bytes);
    if (!at)
        return false;
    if (!guarded_read(*s->o.guarded, at + WIRE_PACKET_BYTES, data, m->payload))
        return false;
    ring_commit(&peer->out, bytes, wire_encode_short_message(m, number, at));
    ring_bell(s, peer);
    return true;
}

/* ---- large packets ---- */

static bool has_slot(struct live_shm_peer *peer) {
    if (peer->bulk_sent - peer->bulk_head < BULK_SLOTS)
        return true;
    uint64_t head = atomic_load_explicit(&peer->view.lane->bulk_head, memory_order_acquire);
    if (head > peer->bulk_sent || peer->bulk_sent - head > BULK_SLOTS)
        return false; /* nonsense: as if it stood still */
    peer->bulk_head = head;
    return peer->bulk_sent - head < BULK_SLOTS;
}

/* If there is none, the peer tells when there is: see has_room. */
static bool wait_for_slot(struct live_shm_peer *peer) {
    if (has_slot(peer))
        return true;
    atomic_store(&peer->out.ring->wants_room, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return has_slot(peer);
}

static bool send_slot(struct live_shm *s, struct live_shm_peer *peer) {
    struct nic_packet *packet = &peer->bulk;
    uint32_t header = wire_long_bytes(packet);
    uint8_t *at = wait_for_slot(peer) ? reserve(s, peer, header) : NULL;
    if (!at) {
        refuse(s, peer);
        return false;
    }
    uint8_t *slot = peer->view.lane->bulk[peer->bulk_sent++ % BULK_SLOTS];
    packet->bad = !copy_data(s, slot, packet);
    if (packet->bad)
        memset(slot, 0, packet->bytes);
    peer->bulk_bad |= packet->bad;
    ring_commit(&peer->out, header, wire_encode_long(packet, at));
    ring_bell(s, peer);
    return true;
}

static bool send_part(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->bulk.bytes > s->o.mtu_bytes)
        return send_slot(s, peer);
    peer->bulk.bad = false;
    enum live_sent sent = send_record(s, peer, &peer->bulk);
    peer->bulk_bad |= sent == LIVE_UNREADABLE;
    return sent != LIVE_LATER;
}

/* Of a packet of that size: small enough that both sides copy at once, large enough that nothing
 * else counts. */
static uint32_t part_of(uint32_t bytes) {
    uint32_t quarter = (bytes / 4 + 4095) & ~4095u, least = BULK_SLOT_BYTES / 4;
    uint32_t part = quarter < least ? least : quarter;
    return part < BULK_SLOT_BYTES ? part : BULK_SLOT_BYTES;
}

static bool is_offered(struct live_shm *s, struct live_shm_peer *peer,
                       const struct nic_packet *packet) {
    if (packet->bytes < OFFER_MIN || packet->kind != NIC_DATA || s->o.untouched)
        return false;
    live_huge_used(&s->huge, packet->data, packet->bytes, 1);
    if (peer->declining)
        peer->declining--;
    return !peer->declining;
}

static bool make_offer(struct live_shm *s, struct live_shm_peer *peer) {
    struct nic_packet *packet = &peer->bulk;
    uint64_t address = (uintptr_t)packet->data;
    uint8_t *at = reserve(s, peer, WIRE_LATER_BYTES + OFFER_BYTES);
    if (!at)
        return false;
    packet->bytes = peer->bulk_left;
    packet->last = peer->bulk_is_last;
    memcpy(at + WIRE_LATER_BYTES, &address, sizeof address);
    ring_commit(&peer->out, WIRE_LATER_BYTES + OFFER_BYTES, wire_encode_long(packet, at));
    ring_bell(s, peer);
    peer->offers++;
    peer->offer = OFFER_MADE;
    return true;
}

bool shm_is_answered(const struct live_shm_peer *peer) {
    return atomic_load(&peer->view.lane->offer.answers) >> 2 == peer->offers;
}

static void help(struct live_shm_peer *peer) {
    struct live_offer *offer = &peer->view.lane->offer;
    uint32_t os_pid = peer->view.header->owner.os_pid;
    if (peer->may_help == NOT_TRIED) {
        const uint8_t *to = (const uint8_t *)(uintptr_t)atomic_load(&offer->to);
        peer->may_help = offer_can_read(os_pid, to) ? ALLOWED : FORBIDDEN;
    }
    if (peer->may_help == ALLOWED)
        offer_help(offer, os_pid, peer->bulk.data, peer->bulk_left);
}

/* False: the peer has not answered yet. Else all is there, or what is left goes into slots. */
static bool settle_offer(struct live_shm *s, struct live_shm_peer *peer) {
    if (peer->offer == OFFER_DUE && !make_offer(s, peer)) {
        refuse(s, peer);
        return false;
    }
    if (!shm_is_answered(peer) && offer_has_left(&peer->view.lane->offer))
        help(peer);
    if (!shm_is_answered(peer)) {
        refuse(s, peer);
        return false;
    }
    uint32_t answer = atomic_load(&peer->view.lane->offer.answers) & 3;
    peer->offer = OFFER_NONE;
    peer->bulk_bad = answer == OFFER_UNREADABLE;
    if (answer == OFFER_UNWANTED)
        peer->declining = OFFER_REST;
    if (answer == OFFER_TAKEN || answer == OFFER_UNREADABLE)
        peer->bulk_left = 0;
    return true;
}

/* As much as there are slots for; true: all of it. */
bool shm_push_bulk(struct live_shm *s, struct live_shm_peer *peer) {
    struct nic_packet *packet = &peer->bulk;
    if (peer->offer != OFFER_NONE && !settle_offer(s, peer))
        return false;
    while (peer->bulk_left) {
        packet->bytes = peer->bulk_left < peer->bulk_part ? peer->bulk_left : peer->bulk_part;
        packet->last = peer->bulk_is_last && packet->bytes == peer->bulk_left;
        if (!send_part(s, peer))
            return false;
        if (packet->kind == NIC_BLOCK)
            packet->tag.place += (uint8_t)(packet->bytes / s->o.mtu_bytes);
        packet->data += packet->bytes;
        packet->offset += packet->bytes;
        peer->bulk_left -= packet->bytes;
    }
    return true;
}

bool shm_bulk_may_go_on(struct live_shm_peer *peer) {
    if (peer->offer != OFFER_MADE)
        return wait_for_slot(peer);
    return shm_is_answered(peer) ||
           (peer->may_help != FORBIDDEN && offer_has_left(&peer->view.lane->offer));
}

static enum live_sent send_bulk(struct live_shm *s, struct live_shm_peer *peer,
                                const struct nic_packet *packet) {
    peer->bulk = *packet;
    peer->bulk.references = 0; /* its data is the program's */
    peer->bulk_left = packet->bytes;
    peer->bulk_part = part_of(packet->bytes);
    peer->bulk_is_last = packet->last;
    peer->bulk_bad = false;
    peer->offer = is_offered(s, peer, packet) ? OFFER_DUE : OFFER_NONE;
    if (!shm_push_bulk(s, peer))
        return LIVE_LENT; /* nothing overtakes it: it is refused */
    return peer->bulk_bad ? LIVE_UNREADABLE : LIVE_SENT;
}

enum live_sent shm_send(struct live_transport *t, const struct nic_packet *packet) {
    struct live_shm *s = shm_of(t);
    struct live_shm_peer *peer = shm_find_peer(s, packet->target);
    if (!peer)
        return LIVE_NOWHERE;
    if (peer->refused)
        return LIVE_LATER;
    if (!shm_is_out_open(s, peer)) {
        peer->given_up_ns = peer->was_there ? 0 : live_now_ns() + GRACE_NS;
        s->transport.absent |= peer->out_state == OUT_NONE;
        refuse(s, peer);
        return LIVE_LATER;
    }
    if (packet->bytes > s->o.mtu_bytes)
        return send_bulk(s, peer, packet);
    return send_record(s, peer, packet);
}

/* Who has no slots yet asks for them, and goes on with small packets until it has. */
bool shm_lends(struct live_transport *t, struct nic_address target) {
    struct live_shm *s = shm_of(t);
    struct live_shm_peer *peer = shm_find_peer(s, target);
    if (!peer || peer->out_state != OUT_OPEN || peer->has_bulk)
        return peer && peer->out_state == OUT_OPEN;
    peer->has_bulk = atomic_load_explicit(&peer->view.lane->has_bulk, memory_order_acquire);
    if (!peer->has_bulk && !peer->asked_bulk) {
        peer->asked_bulk = true;
        point_at_claim(s, peer);
    }
    return peer->has_bulk;
}
