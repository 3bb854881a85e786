#include <string.h>

#include "live/live_clock.h"
#include "live/live_shm_private.h"

#define TOLD_LINES (RING_LINES / 8) /* consumed before the sender is told */

/* What the peer did is not what one of ours does: nothing more of it is read. */
static __attribute__((cold)) void distrust(struct live_shm *s, struct live_shm_peer *peer) {
    uint64_t head = atomic_load_explicit(&peer->in.head, memory_order_relaxed);
    s->transport.malformed++;
    peer->in_life = 0;
    atomic_store(&peer->in.ring->line[head % RING_LINES].word, 0);
}

/* The next piece of a packet whose message takes no larger ones; the record stays until the last.
 */
static void hand_over_piece(struct live_shm *s, struct live_shm_peer *peer,
                            struct nic_packet *packet) {
    uint32_t done = peer->pieces, left = packet->bytes - done;
    packet->bytes = left < s->o.mtu_bytes ? left : s->o.mtu_bytes;
    packet->last = packet->last && packet->bytes == left;
    packet->offset += done;
    packet->data += done;
    if (packet->kind == NIC_BLOCK)
        packet->tag.place += (uint8_t)(done / s->o.mtu_bytes);
    peer->pieces = packet->bytes == left ? 0 : done + packet->bytes;
    s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
}

static void hand_over_bulk(struct live_shm *s, struct live_shm_peer *peer,
                           struct nic_packet *packet) {
    struct nic_packet next = *packet;
    next.offset += peer->pieces;
    next.bytes -= peer->pieces;
    enum nic_rest rest = s->o.receiver.rest(s->o.receiver.context, &next);
    if (rest == NIC_REST_WHOLE && !peer->pieces) {
        bool begins = peer->choice.left && peer->choice.left == peer->choice.declined;
        s->declined = begins ? &peer->choice : NULL;
        s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
        s->declined = NULL;
        offer_came(&peer->choice, packet->bytes, s->o.mtu_bytes);
        return;
    }
    offer_untimed(&peer->choice);
    if (rest != NIC_REST_WRONG) {
        hand_over_piece(s, peer, packet);
        return;
    }
    s->transport.malformed++;
    peer->pieces = 0;
}

static inline bool is_between(const struct live_shm *s, const struct live_shm_peer *peer,
                              struct nic_address source, struct nic_address target) {
    return nic_address_equal(source, peer->address) && target.pid == s->box.header->pid &&
           target.nid == s->o.nid;
}

/* Data that lies at `data`. False: it lies about who sent it, or to whom. */
static bool fill_packet(struct live_shm *s, struct live_shm_peer *peer, struct nic_packet *packet,
                        uint8_t *data) {
    packet->references = 0;
    packet->data = data;
    packet->pool = s->o.pool;
    packet->next = NULL;
    packet->place = 0;
    return is_between(s, peer, packet->source, packet->target);
}

static bool give_packet(struct live_shm *s, struct live_shm_peer *peer, struct nic_packet *packet,
                        uint8_t *data) {
    if (!fill_packet(s, peer, packet, data))
        return false;
    if (packet->bytes > s->o.mtu_bytes) {
        hand_over_bulk(s, peer, packet);
        return true;
    }
    peer->pieces = 0;
    s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
    return true;
}

/* One of the pool, which need not be copied to be kept. */
static bool give_own(struct live_shm *s, struct live_shm_peer *peer, struct nic_packet *packet,
                     const uint8_t *data) {
    if (!is_between(s, peer, packet->source, packet->target))
        return false;
    memcpy(packet->data, data, packet->bytes);
    packet->place = 0;
    peer->pieces = 0;
    s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
    return true;
}

/* What the card wants as a packet, and of puts mostly keeps: those with little data are read into
 * one of the pool's, since to copy what has just been written field by field takes long. */
static __attribute__((noinline)) bool hand_over_packet(struct live_shm *s,
                                                       struct live_shm_peer *peer,
                                                       const uint64_t *head, uint8_t *data) {
    enum { LITTLE = 256 };
    bool little =
        wire_is_short_put((uint8_t)(head[0] >> 40)) && wire_short_bytes(head[0]) <= LITTLE;
    struct nic_packet here, *own = little ? nic_packet_new(s->o.pool) : NULL;
    struct nic_packet *packet = own ? own : &here;
    bool right = !wire_decode_short(packet, head[0], (const uint8_t *)head) &&
                 (uint32_t)head[0] == WIRE_PACKET_BYTES + packet->bytes;
    if (right)
        right = own ? give_own(s, peer, own, data) : give_packet(s, peer, &here, data);
    if (own)
        nic_packet_release(own);
    return right;
}

/* The message of a short put, as `peer->put`; false: it is wrong. `same`: as the last one. */
static inline bool read_put(const struct live_shm *s, struct live_shm_peer *peer,
                            const uint64_t *head, bool *same, uint32_t *number) {
    uint64_t *last = peer->last_put, differs = (uint32_t)(head[2] ^ last[2]);
    struct nic_message *m = &peer->put.message;
    for (uint32_t i = 0; i < SHORT_WORDS; i++)
        differs |= i == 2 ? 0 : head[i] ^ last[i];
    *same = !differs;
    if (differs) {
        memcpy(last, head, SHORT_WORDS * sizeof *last);
        last[0] = 0; /* until it is seen to be right */
        if (wire_decode_short_message(m, number, false, head[0], (const uint8_t *)head) ||
            (uint32_t)head[0] != WIRE_PACKET_BYTES + m->payload ||
            !is_between(s, peer, m->source, m->target))
            return false;
        last[0] = head[0];
        return true;
    }
    bool names = head[0] >> 48 & WIRE_INITIATOR;
    *number = (uint32_t)(head[2] >> 32);
    m->hdr_data = names ? 0 : head[SHORT_WORDS];
    m->initiator = names ? head[SHORT_WORDS] : 0;
    return !names || m->initiator;
}

static inline uint64_t load(const _Atomic uint64_t *word) {
    return atomic_load_explicit(word, memory_order_relaxed);
}

/* A put in one line that says the same as the last one, which met a plain entry: what most lanes
 * carry. False: nothing has happened. */
static inline bool hand_over_same(struct live_shm *s, struct live_shm_peer *peer, uint64_t word,
                                  const uint8_t *at) {
    const _Atomic uint64_t *words = (const _Atomic uint64_t *)(const void *)at;
    const uint64_t *last = peer->last_put;
    struct nic_put *put = &peer->put;
    if (word != last[0] || (uint32_t)word > RING_LINE_BYTES || !put->known || !put->at.entry ||
        put->message.initiator)
        return false;
    uint64_t numbered = load(&words[2]), differs = (uint32_t)(numbered ^ last[2]);
    differs |= load(&words[1]) ^ last[1];
    differs |= load(&words[3]) ^ last[3];
    differs |= load(&words[4]) ^ last[4];
    differs |= load(&words[5]) ^ last[5];
    if (differs)
        return false;
    put->message.hdr_data = load(&words[SHORT_WORDS]);
    return s->o.receiver.put(s->o.receiver.context, put, true, (uint32_t)(numbered >> 32),
                             at + WIRE_PACKET_BYTES, &s->enough);
}

/* A record in the short form: each word is read once. */
static bool hand_over_short(struct live_shm *s, struct live_shm_peer *peer, uint64_t word,
                            uint8_t *at) {
    const _Atomic uint64_t *words = (const _Atomic uint64_t *)(void *)at;
    uint64_t head[WIRE_PACKET_BYTES / 8];
    bool same;
    uint32_t number;
    head[0] = word;
#pragma GCC unroll 8 /* what is read is compared from registers */
    for (uint32_t i = 1; i < WIRE_PACKET_BYTES / 8; i++)
        head[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
    at += WIRE_PACKET_BYTES;
    if (wire_is_short_put((uint8_t)(word >> 40))) {
        if (!read_put(s, peer, head, &same, &number))
            return false;
        if (s->o.receiver.put(s->o.receiver.context, &peer->put, same, number, at, &s->enough)) {
            peer->pieces = 0;
            return true;
        }
    }
    return hand_over_packet(s, peer, head, at);
}

/* The header of another, as the wire has it. */
static void read_head(uint8_t *head, uint64_t word, const uint8_t *at, uint32_t bytes) {
    memcpy(head, at, bytes);
    word = (word & ~(uint64_t)UINT32_MAX) | WIRE_MAGIC;
    memcpy(head, &word, sizeof word);
}

/* A record that was checked: as a packet whose data stays where it is. False: malformed. */
static bool hand_over_long(struct live_shm *s, struct live_shm_peer *peer, uint64_t word,
                           uint8_t *at) {
    uint8_t head[WIRE_HEADER_BYTES];
    uint32_t bytes = (uint32_t)word, data;
    struct nic_packet packet;
    read_head(head, word, at, bytes < sizeof head ? bytes : sizeof head);
    return !wire_decode_head(&packet, s->o.mtu_bytes, head, bytes, &data) &&
           give_packet(s, peer, &packet, at + data);
}

/* The same of a header alone, whose data is in the next slot. */
static bool hand_over_slot(struct live_shm *s, struct live_shm_peer *peer, uint64_t word,
                           uint8_t *at) {
    uint8_t head[WIRE_HEADER_BYTES];
    struct nic_packet packet;
    uint32_t data, bytes = (uint32_t)word;
    if (!peer->gave_bulk)
        return false;
    read_head(head, word, at, bytes);
    uint32_t of = wire_get32(head + WIRE_BYTES_AT);
    at = box_lane(&s->box, peer->address.pid)->bulk[peer->bulk_taken % BULK_SLOTS];
    return !(head[6] & 1) && of > s->o.mtu_bytes && of <= BULK_SLOT_BYTES &&
           !wire_decode_head(&packet, of, head, bytes + of, &data) &&
           give_packet(s, peer, &packet, at);
}

static bool may_fetch(struct live_shm_peer *peer, const uint8_t *from) {
    if (peer->may_fetch == NOT_TRIED)
        peer->may_fetch =
            offer_can_read(peer->view.header->owner.os_pid, from) ? ALLOWED : FORBIDDEN;
    return peer->may_fetch == ALLOWED;
}

static void answer_offer(struct live_shm *s, struct live_shm_peer *peer, enum offer_answer how) {
    struct live_box_lane *lane = box_lane(&s->box, peer->address.pid);
    atomic_store(&lane->offer.answers, ++peer->answers << 2 | how);
    if (peer->view.header)
        box_attend(peer->view.header);
}

static enum offer_answer taken(const struct live_shm *s) {
    return s->unreadable ? OFFER_UNREADABLE : OFFER_TAKEN;
}

/* The card's logic has it copied, and by nothing but shm_fetch. */
static enum offer_answer take_offer(struct live_shm *s, struct live_shm_peer *peer,
                                    struct nic_packet *packet) {
    packet->place = LIVE_ELSEWHERE;
    enum nic_rest rest = s->o.receiver.rest(s->o.receiver.context, packet);
    if (rest != NIC_REST_WHOLE || s->o.untouched || !peer->view.header ||
        !may_fetch(peer, packet->data))
        return OFFER_UNWANTED;
    enum offer_answer answer = offer_choose(&peer->choice);
    if (answer != OFFER_TAKEN) {
        offer_declined(&peer->choice, packet->bytes, answer);
        return answer;
    }
    s->fetching = peer;
    s->unfetched = packet->bytes;
    s->unreadable = false;
    s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
    s->fetching = NULL;
    return taken(s);
}

/* The same of a header whose data the sender has offered. */
static bool hand_over_offer(struct live_shm *s, struct live_shm_peer *peer, uint64_t word,
                            const uint8_t *at) {
    uint8_t head[WIRE_LATER_BYTES];
    struct nic_packet packet;
    uint64_t address;
    uint32_t data;
    read_head(head, word, at, sizeof head);
    memcpy(&address, at + WIRE_LATER_BYTES, sizeof address);
    uint32_t of = wire_get32(head + WIRE_BYTES_AT);
    bool good = !(head[6] & 1) && of > s->o.mtu_bytes && of <= UINT32_MAX - WIRE_LATER_BYTES &&
                !wire_decode_head(&packet, of, head, WIRE_LATER_BYTES + of, &data) &&
                fill_packet(s, peer, &packet, (uint8_t *)(uintptr_t)address);
    uint64_t answers = peer->answers;
    enum offer_answer how = good ? take_offer(s, peer, &packet) : OFFER_UNWANTED;
    if (peer->answers == answers)
        answer_offer(s, peer, how);
    return good;
}

/* Of the packet that take_offer has given. The sender has its answer before what the card says of
 * the message: how it was read is told first. */
enum nic_status shm_fetch(struct live_transport *t, uint8_t *to, const uint8_t *from,
                          uint64_t bytes) {
    struct live_shm *s = shm_of(t);
    struct live_shm_peer *peer = s->fetching;
    if (!peer)
        return NIC_FAULT;
    live_huge_used(&s->huge, to, bytes, 1);
    uint64_t began_ns = live_now_ns();
    struct live_box_lane *lane = box_lane(&s->box, peer->address.pid);
    bool shared = !s->o.crowded && bytes >= OFFER_MIN;
    enum nic_status status = offer_fetch(&lane->offer, &peer->view, to, from, bytes, shared);
    offer_measured(&peer->choice.offer_ps, bytes, live_now_ns() - began_ns);
    s->unreadable |=
        status == NIC_FAULT && !offer_is_there(peer->view.header->owner.os_pid, from, bytes);
    s->unfetched -= bytes;
    if (!s->unfetched)
        answer_offer(s, peer, taken(s));
    return status;
}

/* The beginning of a message that was offered, and comes through slots: it uses its memory as one
 * that is fetched does, and to fetch it may be faster as soon as that is in huge pages. */
void shm_stored(struct live_transport *t, const uint8_t *to) {
    struct live_shm *s = shm_of(t);
    const struct live_offer_choice *c = s->declined;
    s->declined = NULL;
    if (c)
        live_huge_used(&s->huge, to, c->declined, c->messages);
}

static bool is_short(uint64_t word) {
    uint8_t version = (uint8_t)(word >> 32), kind = (uint8_t)(word >> 40);
    return version == WIRE_VERSION && wire_is_short_kind(kind);
}

/* A header alone; of a block it is longer, and a report is as long as that. A short record may be
 * as long. */
static bool is_slot(uint64_t word) {
    bool block = (uint8_t)(word >> 40) == NIC_BLOCK;
    return (uint32_t)word == WIRE_LATER_BYTES + (block ? WIRE_TAG_BYTES : 0) && !is_short(word);
}

/* A header and an address; of other records of this length the data is as long as they say. */
static bool is_offer(const struct live_shm *s, uint64_t word, const uint8_t *at) {
    return (uint32_t)word == WIRE_LATER_BYTES + OFFER_BYTES && !is_short(word) &&
           wire_get32(at + WIRE_BYTES_AT) > s->o.mtu_bytes;
}

static bool hand_over(struct live_shm *s, struct live_shm_peer *peer, uint64_t word, uint8_t *at) {
    if (is_short(word))
        return hand_over_short(s, peer, word, at);
    if (is_offer(s, word, at))
        return hand_over_offer(s, peer, word, at);
    return is_slot(word) ? hand_over_slot(s, peer, word, at) : hand_over_long(s, peer, word, at);
}

/* The producer may go on: after what it waits for was stored. */
static void tell_room(const struct live_shm_peer *peer) {
    struct live_ring *ring = peer->in.ring;
    atomic_thread_fence(memory_order_seq_cst); /* or who wants room sees it by itself */
    if (atomic_load(&ring->wants_room) && atomic_exchange(&ring->wants_room, 0) &&
        peer->view.header)
        box_attend(peer->view.header);
}

/* As it would be on another wire, where the record's length is the magic. */
static __attribute__((cold)) void tell_dropped(struct live_shm *s, const struct live_shm_peer *peer,
                                               const uint8_t *at, uint32_t bytes) {
    uint8_t packet[WIRE_HEADER_BYTES + 4096];
    const uint32_t magic = WIRE_MAGIC;
    bytes = bytes < sizeof packet ? bytes : sizeof packet;
    memcpy(packet, at, bytes);
    memcpy(packet, &magic, sizeof magic);
    s->o.receiver.dropped(s->o.receiver.context, peer->address, packet, bytes, "malformed");
}

static void tell_head(struct live_shm_peer *peer) {
    uint64_t head = atomic_load_explicit(&peer->in.head, memory_order_relaxed);
    if (head - peer->in.told < TOLD_LINES)
        return;
    peer->in.told = head;
    atomic_store_explicit(&peer->in.ring->head, head, memory_order_release);
    tell_room(peer);
}

static void empty_slot(struct live_shm *s, struct live_shm_peer *peer) {
    struct live_box_lane *lane = box_lane(&s->box, peer->address.pid);
    atomic_store_explicit(&lane->bulk_head, ++peer->bulk_taken, memory_order_release);
    tell_room(peer);
}

/* Another record than a put that is the same as the one before. */
static __attribute__((noinline)) bool take_other(struct live_shm *s, struct live_shm_peer *peer,
                                                 uint64_t word, uint32_t at) {
    uint32_t bytes = (uint32_t)word, lines = ring_lines(bytes);
    if (bytes == RING_SKIP) {
        lines = RING_LINES - at;
    } else if (bytes < WIRE_PACKET_BYTES || bytes > RING_LINES * RING_LINE_BYTES ||
               lines > RING_LINES - at) {
        distrust(s, peer);
        return false;
    } else if (!hand_over(s, peer, word, (uint8_t *)&peer->in.ring->line[at])) {
        s->transport.malformed++;
        tell_dropped(s, peer, (uint8_t *)&peer->in.ring->line[at], bytes);
        peer->pieces = 0;
    }
    if (peer->pieces)
        return true;
    ring_consume(&peer->in, lines);
    if (is_slot(word) && peer->gave_bulk)
        empty_slot(s, peer);
    tell_head(peer);
    return true;
}

/* One record; false: there is none, or it is nonsense, or it may be about what we have offered and
 * have not seen the answer to. */
static inline bool take_record(struct live_shm *s, struct live_shm_peer *peer) {
    uint32_t at = atomic_load_explicit(&peer->in.head, memory_order_relaxed) % RING_LINES;
    uint64_t word =
        atomic_load_explicit(&peer->in_life, memory_order_relaxed) ? ring_peek(&peer->in) : 0;
    if (!word || (peer->offer == OFFER_MADE && shm_is_answered(peer)))
        return false;
    if (peer->pieces || !hand_over_same(s, peer, word, (uint8_t *)&peer->in.ring->line[at]))
        return take_other(s, peer, word, at);
    ring_consume(&peer->in, 1);
    tell_head(peer);
    return true;
}

void shm_drain(struct live_shm *s, struct live_shm_peer *peer, uint32_t most) {
    s->enough = false;
    while (most-- && take_record(s, peer) && !s->enough)
        ;
}

void shm_drain_all(struct live_shm *s, struct live_shm_peer *peer) {
    for (uint32_t left = RING_LINES; left && take_record(s, peer); left -= !peer->pieces)
        ;
}
