#include "live/live_shm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/error.h"
#include "live/live_box.h"
#include "live/live_clock.h"
#include "live/live_huge.h"
#include "nic/wire_short.h"

#define BATCH       64u              /* packets of one lane, then another's turn */
#define TOLD_LINES  (RING_LINES / 8) /* consumed before the sender is told */
#define GRACE_NS    (1000 * LIVE_MS) /* for a peer that is not there yet */
#define RETRY_NS    LIVE_MS
#define TIMED_SLOTS 5  /* one of so many is timed */
#define UNWANTED    16 /* large packets that are not offered, after such an answer */
#define SHORT_WORDS 6  /* of a short record: all of its message but hdr_data or initiator */

enum out_state {
    OUT_NONE,    /* it has not been looked for, or was not there */
    OUT_CLAIMED, /* the lane is asked for */
    OUT_OPEN,
};

enum offer_state {
    OFFER_NONE,
    OFFER_DUE, /* its record has found no room in the lane */
    OFFER_MADE,
};

/* Whether the kernel lets one process use the memory of another. */
enum allowed { NOT_TRIED, ALLOWED, FORBIDDEN };

/* A process with which packets were exchanged. It stays when the process ends. */
struct shm_peer {
    struct nic_address address;
    struct box_view view;
    enum out_state out_state;
    struct ring_out out;
    bool refused, was_there; /* a packet; ever */
    uint64_t given_up_ns;    /* while it is not there */
    /* Large packets out: what is left of the one that is being copied; slots. */
    bool asked_bulk, has_bulk, bulk_is_last;
    uint32_t bulk_left, bulk_part;
    struct nic_packet bulk;
    uint64_t bulk_sent, bulk_head; /* filled; known to be empty again */
    uint64_t slot_ps;              /* what filling one takes, per KiB */
    enum offer_state offer;        /* of all that is left */
    enum allowed may_help;
    uint64_t offers;    /* made so far */
    uint32_t declining; /* so many are not offered */
    bool bulk_bad;      /* could not be read */
    /* In. */
    bool gave_bulk;
    uint64_t bulk_taken;
    enum allowed may_fetch;
    uint64_t answers; /* to offers, so far */
    struct offer_choice choice;
    uint32_t pieces; /* bytes that were handed over of the large packet that comes in pieces */
    struct ring_in in;
    struct nic_put put;             /* the last that was short, */
    uint64_t last_put[SHORT_WORDS]; /* as it came; the first word is 0: there is none */
    _Atomic uint64_t in_life;       /* of whom the lane is; 0: nobody's, whatever stands in it */
};

struct shm {
    struct live_transport transport;
    struct live_shm_options o;
    struct box box;
    struct shm_peer *peer[LIVE_PIDS]; /* by pid */
    struct shm_peer *known[LIVE_PIDS];
    uint32_t knowns, refused; /* peers */
    /* Whose lanes are polled; other threads look at them too, so none is ever taken away. */
    _Atomic uint32_t lanes;
    uint32_t turn; /* whose turn it is */
    bool enough;   /* the card wants no more in this poll */
    struct shm_peer *_Atomic lane[LIVE_PIDS];
    struct live_huge huge;
    struct shm_peer *fetching; /* of whom the packet is whose data is elsewhere */
    bool unreadable;           /* some of that data */
};

static struct shm *shm_of(struct live_transport *t) {
    return (struct shm *)t;
}

static struct shm_peer *find_peer(struct shm *s, struct nic_address address) {
    if (address.nid != s->o.nid || address.pid >= LIVE_PIDS)
        return NULL;
    struct shm_peer *peer = s->peer[address.pid];
    if (peer)
        return peer;
    peer = s->peer[address.pid] = calloc(1, sizeof *peer);
    if (peer) {
        peer->address = address;
        peer->view.pidfd = -1;
        s->known[s->knowns++] = peer;
    }
    return peer;
}

/* ---- out ---- */

static void refuse(struct shm *s, struct shm_peer *peer) {
    if (peer->refused)
        return;
    peer->refused = true;
    s->refused++;
}

static void accept_again(struct shm *s, struct shm_peer *peer) {
    if (!peer->refused)
        return;
    peer->refused = false;
    s->refused--;
}

static bool open_view(struct shm *s, struct shm_peer *peer) {
    return peer->view.header ||
           box_open(&peer->view, s->o.folder, peer->address, s->box.header->pid);
}

/* It shall look at the claim of its lane that is ours. */
static void point_at_claim(struct shm *s, struct shm_peer *peer) {
    uint32_t pid = s->box.header->pid;
    atomic_fetch_or(&peer->view.header->claims[pid / 64], 1ull << pid % 64);
    box_attend(peer->view.header);
}

static void claim_lane(struct shm *s, struct shm_peer *peer) {
    atomic_store(&peer->view.lane->claim, s->box.header->life);
    point_at_claim(s, peer);
    peer->out_state = OUT_CLAIMED;
    peer->was_there = true;
}

static bool is_out_open(struct shm *s, struct shm_peer *peer) {
    if (peer->out_state == OUT_OPEN)
        return true;
    if (peer->out_state == OUT_NONE && open_view(s, peer))
        claim_lane(s, peer);
    if (peer->out_state != OUT_CLAIMED ||
        atomic_load_explicit(&peer->view.lane->accepted, memory_order_acquire) !=
            s->box.header->life)
        return false;
    peer->out = (struct ring_out){.ring = &peer->view.lane->ring};
    peer->asked_bulk = peer->has_bulk = false;
    peer->bulk_left = 0;
    peer->bulk_sent = peer->bulk_head = 0;
    peer->offer = OFFER_NONE;
    peer->offers = peer->declining = 0;
    peer->slot_ps = 0;
    peer->may_help = NOT_TRIED;
    peer->out_state = OUT_OPEN;
    return true;
}

/* Room for the largest packet. If there is none the peer tells when there is more: it takes the
 * wish away each time, so every look that finds too little renews it. */
static bool has_room(struct shm *s, struct shm_peer *peer) {
    uint32_t most = ring_lines(WIRE_HEADER_BYTES + s->o.mtu_bytes);
    most = 2 * most + RING_CLEAR; /* it may skip the end of the ring */
    if (ring_has_room(&peer->out, most))
        return true;
    atomic_store(&peer->out.ring->wants_room, 1);
    atomic_thread_fence(memory_order_seq_cst); /* then look again: it may have just moved */
    return ring_has_room(&peer->out, most);
}

static uint8_t *reserve(struct shm *s, struct shm_peer *peer, uint32_t bytes) {
    uint8_t *at = ring_reserve(&peer->out, bytes);
    return !at && has_room(s, peer) ? ring_reserve(&peer->out, bytes) : at;
}

/* Data of a packet, which may be in the program's memory. False: it cannot be read. */
static inline bool copy_data(const struct shm *s, uint8_t *to, const struct nic_packet *packet) {
    bool theirs = s->o.guarded && !packet->references;
    if (packet->bytes == sizeof(uint64_t) && !theirs)
        memcpy(to, packet->data, sizeof(uint64_t)); /* most have one word */
    else if (packet->bytes)
        return guarded_read(theirs ? *s->o.guarded : GUARDED_NOT, to, packet->data, packet->bytes);
    return true;
}

static enum live_sent send_unreadable(struct shm *s, struct shm_peer *peer,
                                      const struct nic_packet *packet);

static enum live_sent send_record(struct shm *s, struct shm_peer *peer,
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
    box_ring(peer->view.header);
    return LIVE_SENT;
}

/* Zeroes instead, of which the receiver knows that they are not the data. */
static enum live_sent send_unreadable(struct shm *s, struct shm_peer *peer,
                                      const struct nic_packet *packet) {
    static uint8_t zeroes[BULK_SLOT_BYTES];
    struct nic_packet bad = *packet;
    bad.bad = true;
    bad.references = 1;
    bad.data = zeroes;
    return send_record(s, peer, &bad) == LIVE_SENT ? LIVE_UNREADABLE : LIVE_LATER;
}

static bool shm_send_short(struct live_transport *t, const struct nic_message *m, uint32_t number,
                           const uint8_t *data) {
    struct shm *s = shm_of(t);
    struct nic_address to = m->target;
    struct shm_peer *peer = to.nid == s->o.nid && to.pid < LIVE_PIDS ? s->peer[to.pid] : NULL;
    if (!peer || peer->refused || peer->out_state != OUT_OPEN || !wire_message_is_short(m))
        return false;
    uint32_t bytes = WIRE_PACKET_BYTES + (uint32_t)m->payload;
    uint8_t *at = ring_reserve(&peer->out, bytes);
    if (!at)
        return false;
    if (m->payload == sizeof(uint64_t)) /* most */
        memcpy(at + WIRE_PACKET_BYTES, data, sizeof(uint64_t));
    else if (m->payload)
        memcpy(at + WIRE_PACKET_BYTES, data, m->payload);
    ring_commit(&peer->out, bytes, wire_encode_short_message(m, number, at));
    box_ring(peer->view.header);
    return true;
}

/* ---- large packets ---- */

static bool has_slot(struct shm_peer *peer) {
    if (peer->bulk_sent - peer->bulk_head < BULK_SLOTS)
        return true;
    uint64_t head = atomic_load_explicit(&peer->view.lane->bulk_head, memory_order_acquire);
    if (head > peer->bulk_sent || peer->bulk_sent - head > BULK_SLOTS)
        return false; /* nonsense: as if it stood still */
    peer->bulk_head = head;
    return peer->bulk_sent - head < BULK_SLOTS;
}

/* If there is none, the peer tells when there is: see has_room. */
static bool wait_for_slot(struct shm_peer *peer) {
    if (has_slot(peer))
        return true;
    atomic_store(&peer->out.ring->wants_room, 1);
    atomic_thread_fence(memory_order_seq_cst);
    return has_slot(peer);
}

/* Whether a slot is one of those that both sides time. */
static bool is_timed(const struct nic_packet *packet, uint64_t slot) {
    return packet->bytes == BULK_SLOT_BYTES && slot % TIMED_SLOTS == 0;
}

static bool send_slot(struct shm *s, struct shm_peer *peer) {
    struct nic_packet *packet = &peer->bulk;
    uint32_t header = wire_long_bytes(packet);
    uint8_t *at = wait_for_slot(peer) ? reserve(s, peer, header) : NULL;
    if (!at) {
        refuse(s, peer);
        return false;
    }
    bool timed = is_timed(packet, peer->bulk_sent);
    uint64_t began_ns = timed ? live_now_ns() : 0;
    uint8_t *slot = peer->view.lane->bulk[peer->bulk_sent++ % BULK_SLOTS];
    packet->bad = !copy_data(s, slot, packet);
    if (packet->bad)
        memset(slot, 0, packet->bytes);
    peer->bulk_bad |= packet->bad;
    if (timed) {
        offer_measured(&peer->slot_ps, packet->bytes, live_now_ns() - began_ns);
        atomic_store_explicit(&peer->view.lane->offer.slot_ps, peer->slot_ps, memory_order_relaxed);
    }
    ring_commit(&peer->out, header, wire_encode_long(packet, at));
    box_ring(peer->view.header);
    return true;
}

static bool send_part(struct shm *s, struct shm_peer *peer) {
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

static bool is_offered(struct shm *s, struct shm_peer *peer, const struct nic_packet *packet) {
    if (packet->bytes < OFFER_MIN || packet->kind != NIC_DATA || s->o.guarded)
        return false;
    live_huge_used(&s->huge, packet->data, packet->bytes);
    if (peer->declining)
        peer->declining--;
    return !peer->declining;
}

static bool make_offer(struct shm *s, struct shm_peer *peer) {
    struct nic_packet *packet = &peer->bulk;
    uint64_t address = (uintptr_t)packet->data;
    uint8_t *at = reserve(s, peer, WIRE_LATER_BYTES + OFFER_BYTES);
    if (!at)
        return false;
    packet->bytes = peer->bulk_left;
    packet->last = peer->bulk_is_last;
    memcpy(at + WIRE_LATER_BYTES, &address, sizeof address);
    ring_commit(&peer->out, WIRE_LATER_BYTES + OFFER_BYTES, wire_encode_long(packet, at));
    box_ring(peer->view.header);
    peer->offers++;
    peer->offer = OFFER_MADE;
    return true;
}

static bool is_answered(const struct shm_peer *peer) {
    return atomic_load(&peer->view.lane->offer.answers) >> 2 == peer->offers;
}

static void help(struct shm_peer *peer) {
    struct offer *offer = &peer->view.lane->offer;
    uint32_t os_pid = peer->view.header->owner.os_pid;
    if (peer->may_help == NOT_TRIED) {
        const uint8_t *to = (const uint8_t *)(uintptr_t)atomic_load(&offer->to);
        peer->may_help = offer_can_read(os_pid, to) ? ALLOWED : FORBIDDEN;
    }
    if (peer->may_help == ALLOWED)
        offer_help(offer, os_pid, peer->bulk.data, peer->bulk_left);
}

/* False: the peer has not answered yet. Else all is there, or what is left goes into slots. */
static bool settle_offer(struct shm *s, struct shm_peer *peer) {
    if (peer->offer == OFFER_DUE && !make_offer(s, peer)) {
        refuse(s, peer);
        return false;
    }
    if (!is_answered(peer) && offer_has_left(&peer->view.lane->offer))
        help(peer);
    if (!is_answered(peer)) {
        refuse(s, peer);
        return false;
    }
    uint32_t answer = atomic_load(&peer->view.lane->offer.answers) & 3;
    peer->offer = OFFER_NONE;
    peer->bulk_bad = answer == OFFER_UNREADABLE;
    if (answer == OFFER_UNWANTED)
        peer->declining = UNWANTED;
    if (answer == OFFER_TAKEN || answer == OFFER_UNREADABLE)
        peer->bulk_left = 0;
    return true;
}

/* As much as there are slots for; true: all of it. */
static bool push_bulk(struct shm *s, struct shm_peer *peer) {
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

static enum live_sent send_bulk(struct shm *s, struct shm_peer *peer,
                                const struct nic_packet *packet) {
    peer->bulk = *packet;
    peer->bulk.references = 0; /* its data is the program's */
    peer->bulk_left = packet->bytes;
    peer->bulk_part = part_of(packet->bytes);
    peer->bulk_is_last = packet->last;
    peer->bulk_bad = false;
    peer->offer = is_offered(s, peer, packet) ? OFFER_DUE : OFFER_NONE;
    if (!push_bulk(s, peer))
        return LIVE_LENT; /* nothing overtakes it: it is refused */
    return peer->bulk_bad ? LIVE_UNREADABLE : LIVE_SENT;
}

static enum live_sent shm_send(struct live_transport *t, const struct nic_packet *packet) {
    struct shm *s = shm_of(t);
    struct shm_peer *peer = find_peer(s, packet->target);
    if (!peer)
        return LIVE_NOWHERE;
    if (peer->refused)
        return LIVE_LATER;
    if (!is_out_open(s, peer)) {
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
static bool shm_lends(struct live_transport *t, struct nic_address target) {
    struct shm *s = shm_of(t);
    struct shm_peer *peer = find_peer(s, target);
    if (!peer || peer->out_state != OUT_OPEN || peer->has_bulk)
        return peer && peer->out_state == OUT_OPEN;
    peer->has_bulk = atomic_load_explicit(&peer->view.lane->has_bulk, memory_order_acquire);
    if (!peer->has_bulk && !peer->asked_bulk) {
        peer->asked_bulk = true;
        point_at_claim(s, peer);
    }
    return peer->has_bulk;
}

/* ---- in ---- */

/* What the peer did is not what one of ours does: nothing more of it is read. */
static __attribute__((cold)) void distrust(struct shm *s, struct shm_peer *peer) {
    uint64_t head = atomic_load_explicit(&peer->in.head, memory_order_relaxed);
    s->transport.malformed++;
    peer->in_life = 0;
    atomic_store(&peer->in.ring->line[head % RING_LINES].word, 0);
}

/* The next piece of a packet whose message takes no larger ones; the record stays until the last.
 */
static void hand_over_piece(struct shm *s, struct shm_peer *peer, struct nic_packet *packet) {
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

static void hand_over_bulk(struct shm *s, struct shm_peer *peer, struct nic_packet *packet) {
    struct nic_packet next = *packet;
    next.offset += peer->pieces;
    next.bytes -= peer->pieces;
    enum nic_rest rest = s->o.receiver.rest(s->o.receiver.context, &next);
    if (rest == NIC_REST_WRONG) {
        s->transport.malformed++;
        peer->pieces = 0;
    } else if (rest == NIC_REST_PACKETS || peer->pieces) {
        hand_over_piece(s, peer, packet);
    } else {
        bool timed = is_timed(packet, peer->bulk_taken);
        uint64_t began_ns = timed ? live_now_ns() : 0;
        s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
        if (timed)
            offer_measured(&peer->choice.slot_ps, packet->bytes, live_now_ns() - began_ns);
    }
}

static inline bool is_between(const struct shm *s, const struct shm_peer *peer,
                              struct nic_address source, struct nic_address target) {
    return nic_address_equal(source, peer->address) && target.pid == s->box.header->pid &&
           target.nid == s->o.nid;
}

/* Data that lies at `data`. False: it lies about who sent it, or to whom. */
static bool fill_packet(struct shm *s, struct shm_peer *peer, struct nic_packet *packet,
                        uint8_t *data) {
    packet->references = 0;
    packet->data = data;
    packet->pool = s->o.pool;
    packet->next = NULL;
    packet->place = 0;
    return is_between(s, peer, packet->source, packet->target);
}

static bool give_packet(struct shm *s, struct shm_peer *peer, struct nic_packet *packet,
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

/* What the card wants as a packet. */
static __attribute__((noinline)) bool hand_over_packet(struct shm *s, struct shm_peer *peer,
                                                       const uint64_t *head, uint8_t *data) {
    struct nic_packet packet;
    return !wire_decode_short(&packet, head[0], (const uint8_t *)head) &&
           (uint32_t)head[0] == WIRE_PACKET_BYTES + packet.bytes &&
           give_packet(s, peer, &packet, data);
}

/* The message of a short put, as `peer->put`; false: it is wrong. `same`: as the last one. */
static inline bool read_put(const struct shm *s, struct shm_peer *peer, const uint64_t *head,
                            bool *same, uint32_t *number) {
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

/* A record in the short form: each word is read once. */
static bool hand_over_short(struct shm *s, struct shm_peer *peer, uint64_t word, uint8_t *at) {
    const _Atomic uint64_t *words = (const _Atomic uint64_t *)(void *)at;
    uint64_t head[WIRE_PACKET_BYTES / 8] = {word};
    bool same;
    uint32_t number;
    for (uint32_t i = 1; i < WIRE_PACKET_BYTES / 8; i++)
        head[i] = atomic_load_explicit(&words[i], memory_order_relaxed);
    at += WIRE_PACKET_BYTES;
    if ((uint8_t)(word >> 40) == WIRE_SHORT_PUT) {
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
static bool hand_over_long(struct shm *s, struct shm_peer *peer, uint64_t word, uint8_t *at) {
    uint8_t head[WIRE_HEADER_BYTES];
    uint32_t bytes = (uint32_t)word, data;
    struct nic_packet packet;
    read_head(head, word, at, bytes < sizeof head ? bytes : sizeof head);
    return !wire_decode_head(&packet, s->o.mtu_bytes, head, bytes, &data) &&
           give_packet(s, peer, &packet, at + data);
}

/* The same of a header alone, whose data is in the next slot. */
static bool hand_over_slot(struct shm *s, struct shm_peer *peer, uint64_t word, uint8_t *at) {
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

static bool may_fetch(struct shm_peer *peer, const uint8_t *from) {
    if (peer->may_fetch == NOT_TRIED)
        peer->may_fetch =
            offer_can_read(peer->view.header->owner.os_pid, from) ? ALLOWED : FORBIDDEN;
    return peer->may_fetch == ALLOWED;
}

static void answer_offer(struct shm *s, struct shm_peer *peer, enum offer_answer how) {
    struct box_lane *lane = box_lane(&s->box, peer->address.pid);
    atomic_store(&lane->offer.answers, ++peer->answers << 2 | how);
    if (peer->view.header)
        box_attend(peer->view.header);
}

/* The card's logic has it copied, and by nothing but shm_fetch. */
static enum offer_answer take_offer(struct shm *s, struct shm_peer *peer,
                                    struct nic_packet *packet) {
    packet->place = LIVE_ELSEWHERE;
    enum nic_rest rest = s->o.receiver.rest(s->o.receiver.context, packet);
    if (rest != NIC_REST_WHOLE || s->o.guarded || !peer->view.header ||
        !may_fetch(peer, packet->data))
        return OFFER_UNWANTED;
    const struct offer *offer = &box_lane(&s->box, peer->address.pid)->offer;
    enum offer_answer answer = offer_choose(&peer->choice, offer);
    if (answer != OFFER_TAKEN)
        return answer;
    s->fetching = peer;
    s->unreadable = false;
    s->enough = !s->o.receiver.packet(s->o.receiver.context, packet);
    s->fetching = NULL;
    return s->unreadable ? OFFER_UNREADABLE : OFFER_TAKEN;
}

/* The same of a header whose data the sender has offered. */
static bool hand_over_offer(struct shm *s, struct shm_peer *peer, uint64_t word,
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
    answer_offer(s, peer, good ? take_offer(s, peer, &packet) : OFFER_UNWANTED);
    return good;
}

/* Of the packet that take_offer has given. */
static enum nic_status shm_fetch(struct live_transport *t, uint8_t *to, const uint8_t *from,
                                 uint64_t bytes) {
    struct shm *s = shm_of(t);
    struct shm_peer *peer = s->fetching;
    if (!peer)
        return NIC_FAULT;
    live_huge_used(&s->huge, to, bytes);
    uint64_t began_ns = live_now_ns();
    struct box_lane *lane = box_lane(&s->box, peer->address.pid);
    bool shared = !s->o.crowded && bytes >= OFFER_MIN;
    enum nic_status status = offer_fetch(&lane->offer, &peer->view, to, from, bytes, shared);
    offer_measured(&peer->choice.offer_ps, bytes, live_now_ns() - began_ns);
    s->unreadable |=
        status == NIC_FAULT && !offer_is_there(peer->view.header->owner.os_pid, from, bytes);
    return status;
}

static bool is_short(uint64_t word) {
    uint8_t version = (uint8_t)(word >> 32), kind = (uint8_t)(word >> 40);
    return version == WIRE_VERSION && (kind == WIRE_SHORT_PUT || kind == WIRE_SHORT_ACK);
}

/* A header alone; of a block it is longer, and a report is as long as that. A short record may be
 * as long. */
static bool is_slot(uint64_t word) {
    bool block = (uint8_t)(word >> 40) == NIC_BLOCK;
    return (uint32_t)word == WIRE_LATER_BYTES + (block ? WIRE_TAG_BYTES : 0) && !is_short(word);
}

/* A header and an address; of other records of this length the data is as long as they say. */
static bool is_offer(const struct shm *s, uint64_t word, const uint8_t *at) {
    return (uint32_t)word == WIRE_LATER_BYTES + OFFER_BYTES && !is_short(word) &&
           wire_get32(at + WIRE_BYTES_AT) > s->o.mtu_bytes;
}

static bool hand_over(struct shm *s, struct shm_peer *peer, uint64_t word, uint8_t *at) {
    if (is_short(word))
        return hand_over_short(s, peer, word, at);
    if (is_offer(s, word, at))
        return hand_over_offer(s, peer, word, at);
    return is_slot(word) ? hand_over_slot(s, peer, word, at) : hand_over_long(s, peer, word, at);
}

/* The producer may go on: after what it waits for was stored. */
static void tell_room(const struct shm_peer *peer) {
    struct ring *ring = peer->in.ring;
    atomic_thread_fence(memory_order_seq_cst); /* or who wants room sees it by itself */
    if (atomic_load(&ring->wants_room) && atomic_exchange(&ring->wants_room, 0) &&
        peer->view.header)
        box_attend(peer->view.header);
}

/* As it would be on another wire, where the record's length is the magic. */
static __attribute__((cold)) void tell_dropped(struct shm *s, const struct shm_peer *peer,
                                               const uint8_t *at, uint32_t bytes) {
    uint8_t packet[WIRE_HEADER_BYTES + 4096];
    const uint32_t magic = WIRE_MAGIC;
    bytes = bytes < sizeof packet ? bytes : sizeof packet;
    memcpy(packet, at, bytes);
    memcpy(packet, &magic, sizeof magic);
    s->o.receiver.dropped(s->o.receiver.context, peer->address, packet, bytes, "malformed");
}

static void tell_head(struct shm_peer *peer) {
    uint64_t head = atomic_load_explicit(&peer->in.head, memory_order_relaxed);
    if (head - peer->in.told < TOLD_LINES)
        return;
    peer->in.told = head;
    atomic_store_explicit(&peer->in.ring->head, head, memory_order_release);
    tell_room(peer);
}

static void empty_slot(struct shm *s, struct shm_peer *peer) {
    struct box_lane *lane = box_lane(&s->box, peer->address.pid);
    atomic_store_explicit(&lane->bulk_head, ++peer->bulk_taken, memory_order_release);
    tell_room(peer);
}

/* One record; false: there is none, or it is nonsense. */
static bool take_record(struct shm *s, struct shm_peer *peer) {
    bool lives = atomic_load_explicit(&peer->in_life, memory_order_relaxed);
    uint64_t word = lives ? ring_peek(&peer->in) : 0;
    uint32_t bytes = (uint32_t)word, lines = ring_lines(bytes);
    uint32_t at = atomic_load_explicit(&peer->in.head, memory_order_relaxed) % RING_LINES;
    if (!word)
        return false;
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

static void drain(struct shm *s, struct shm_peer *peer, uint32_t most) {
    s->enough = false;
    while (most-- && take_record(s, peer) && !s->enough)
        ;
}

static void drain_all(struct shm *s, struct shm_peer *peer) {
    for (uint32_t left = RING_LINES; left && take_record(s, peer); left -= !peer->pieces)
        ;
}

/* ---- peers come and go ---- */

/* What it had sent before it ended counts. */
static void lose(struct shm *s, struct shm_peer *peer) {
    drain_all(s, peer);
    peer->in_life = 0;
    peer->pieces = 0;
    peer->bulk_left = 0;
    peer->offer = OFFER_NONE;
    box_close(&peer->view);
    peer->out_state = OUT_NONE;
    accept_again(s, peer);
    s->o.receiver.lost(s->o.receiver.context, peer->address);
}

static void poll_lane(struct shm *s, struct shm_peer *peer) {
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    for (uint32_t i = 0; i < lanes; i++)
        if (atomic_load_explicit(&s->lane[i], memory_order_relaxed) == peer)
            return;
    atomic_store_explicit(&s->lane[lanes], peer, memory_order_release);
    atomic_store_explicit(&s->lanes, lanes + 1, memory_order_release);
}

static void give_bulk(struct shm *s, struct shm_peer *peer) {
    if (peer->gave_bulk || !box_give_bulk(&s->box, peer->address.pid))
        return;
    peer->gave_bulk = true;
    atomic_store(&box_lane(&s->box, peer->address.pid)->has_bulk, 1);
}

/* The process with that pid wants to send: a new one, or one that we know under another life. */
static void accept_claim(struct shm *s, uint32_t pid) {
    struct box_lane *lane = box_lane(&s->box, pid);
    struct shm_peer *peer = find_peer(s, (struct nic_address){s->o.nid, pid});
    uint64_t claim = atomic_load(&lane->claim);
    if (peer && claim && claim == peer->in_life)
        give_bulk(s, peer);
    if (!peer || !claim || claim == peer->in_life)
        return;
    if (peer->in_life || (peer->view.header && peer->view.life != claim))
        lose(s, peer);
    if (!open_view(s, peer) || peer->view.life != claim) {
        s->transport.malformed++;
        return;
    }
    atomic_store_explicit(&lane->ring.head, 0, memory_order_relaxed);
    atomic_store_explicit(&lane->ring.wants_room, 0, memory_order_relaxed);
    for (uint32_t i = 0; i < RING_CLEAR; i++)
        atomic_store_explicit(&lane->ring.line[i].word, 0, memory_order_relaxed);
    peer->in.ring = &lane->ring;
    peer->in.told = 0;
    atomic_store_explicit(&peer->in.head, 0, memory_order_relaxed);
    peer->in_life = claim;
    peer->pieces = 0;
    peer->gave_bulk = false;
    peer->bulk_taken = 0;
    atomic_store(&lane->has_bulk, 0);
    atomic_store(&lane->bulk_head, 0);
    peer->may_fetch = NOT_TRIED;
    peer->choice = (struct offer_choice){0};
    peer->answers = 0;
    atomic_store(&lane->offer.answers, 0);
    atomic_store(&lane->offer.left, 0);
    atomic_store(&lane->offer.helps, 0);
    atomic_store(&lane->offer.slot_ps, 0);
    peer->was_there = true;
    poll_lane(s, peer);
    atomic_store(&lane->accepted, claim);
    box_attend(peer->view.header);
}

/* Looks at all that is not in a lane. */
static void attend(struct shm *s) {
    struct box_header *h = s->box.header;
    if (!atomic_load_explicit(&h->attention, memory_order_relaxed))
        return;
    atomic_exchange(&h->attention, 0); /* before the looks: what comes later sets it again */
    for (uint32_t i = 0; i < LIVE_PIDS / 64; i++)
        for (uint64_t bits = atomic_load(&h->claims[i]) ? atomic_exchange(&h->claims[i], 0) : 0;
             bits; bits &= bits - 1)
            accept_claim(s, 64 * i + (uint32_t)__builtin_ctzll(bits));
}

static bool may_go_on(struct shm *s, struct shm_peer *peer) {
    return peer->refused && peer->out_state != OUT_NONE && is_out_open(s, peer);
}

/* Peers that refused a packet and may take it now. */
static void poll_refused(struct shm *s) {
    for (uint32_t i = 0; s->refused && i < s->knowns; i++) {
        struct shm_peer *peer = s->known[i];
        if (!may_go_on(s, peer))
            continue;
        if (peer->bulk_left) {
            if (!push_bulk(s, peer))
                continue;
            s->o.receiver.copied(s->o.receiver.context, peer->address, peer->bulk_bad);
        }
        if (!has_room(s, peer))
            continue;
        accept_again(s, peer);
        s->o.receiver.room(s->o.receiver.context, peer->address);
    }
}

static void shm_poll(struct live_transport *t) {
    struct shm *s = shm_of(t);
    attend(s);
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_relaxed);
    s->enough = false;
    for (uint32_t i = 0; i < lanes && !s->enough; i++) {
        s->turn = s->turn + 1 < lanes ? s->turn + 1 : 0;
        drain(s, atomic_load_explicit(&s->lane[s->turn], memory_order_relaxed), BATCH);
    }
    if (s->refused)
        poll_refused(s);
}

static inline bool has_records(struct shm *s) {
    uint32_t lanes = atomic_load_explicit(&s->lanes, memory_order_acquire);
    for (uint32_t i = 0; i < lanes; i++) {
        struct shm_peer *peer = atomic_load_explicit(&s->lane[i], memory_order_relaxed);
        if (ring_peek(&peer->in) && atomic_load_explicit(&peer->in_life, memory_order_relaxed))
            return true;
    }
    return atomic_load_explicit(&s->box.header->attention, memory_order_acquire);
}

static bool shm_ready(struct live_transport *t) {
    return has_records(shm_of(t));
}

/* A peer that is not there: until when it is waited for. */
static bool is_given_up(struct shm *s, struct shm_peer *peer, uint64_t now_ns) {
    return peer->out_state == OUT_NONE && !is_out_open(s, peer) && peer->out_state == OUT_NONE &&
           now_ns >= peer->given_up_ns;
}

static uint64_t shm_check(struct live_transport *t, uint64_t now_ns) {
    struct shm *s = shm_of(t);
    uint64_t again_ns = UINT64_MAX;
    for (uint32_t i = 0; i < s->knowns; i++) {
        struct shm_peer *peer = s->known[i];
        if ((peer->view.header && box_ended(&peer->view)) ||
            (peer->refused && is_given_up(s, peer, now_ns)))
            lose(s, peer);
        if (peer->refused && peer->out_state == OUT_NONE)
            again_ns = now_ns + RETRY_NS;
    }
    return again_ns;
}

/* ---- sleeping ---- */

static bool bulk_may_go_on(struct shm_peer *peer) {
    if (peer->offer != OFFER_MADE)
        return wait_for_slot(peer);
    return is_answered(peer) ||
           (peer->may_help != FORBIDDEN && offer_has_left(&peer->view.lane->offer));
}

static bool refused_may_go_on(struct shm *s) {
    for (uint32_t i = 0; s->refused && i < s->knowns; i++) {
        struct shm_peer *peer = s->known[i];
        if (may_go_on(s, peer) && has_room(s, peer) && (!peer->bulk_left || bulk_may_go_on(peer)))
            return true;
    }
    return false;
}

static bool shm_arm(struct live_transport *t) {
    struct shm *s = shm_of(t);
    atomic_store(&s->box.header->bell, 1);
    atomic_thread_fence(memory_order_seq_cst); /* then look: who stores later sees the bell */
    if (!has_records(s) && !refused_may_go_on(s))
        return true;
    atomic_store(&s->box.header->bell, 0);
    return false;
}

static void shm_disarm(struct live_transport *t) {
    _Atomic uint32_t *bell = &shm_of(t)->box.header->bell;
    if (atomic_load_explicit(bell, memory_order_relaxed)) /* peers read it: it is seldom written */
        atomic_store_explicit(bell, 0, memory_order_relaxed);
}

static void shm_sleep(struct live_transport *t, uint64_t until_ns) {
    live_futex_wait(&shm_of(t)->box.header->bell, 1, until_ns);
}

static void shm_ring(struct live_transport *t) {
    _Atomic uint32_t *bell = &shm_of(t)->box.header->bell;
    atomic_store(bell, 0);
    live_futex_wake(bell, INT_MAX);
}

/* ---- the process ---- */

static bool shm_reliable(struct live_transport *t, struct nic_address peer) {
    (void)t;
    (void)peer;
    return true;
}

static struct nic_address shm_address(const struct live_transport *t) {
    const struct shm *s = (const struct shm *)t;
    return (struct nic_address){s->box.header->nid, s->box.header->pid};
}

static bool shm_take_pid(struct live_transport *t, uint32_t pid) {
    struct shm *s = shm_of(t);
    struct box box;
    if (atomic_load(&s->lanes)) /* others know it by the pid that it has */
        return false;
    if (box_make(&box, s->o.folder, s->o.nid, pid, NULL))
        return false;
    shm_ring(t); /* who sleeps on the old bell would not hear the new one */
    box_free(&s->box);
    s->box = box;
    return true;
}

static void shm_leave(struct live_transport *t) {
    box_leave(&shm_of(t)->box);
}

static void shm_close(struct live_transport *t) {
    struct shm *s = shm_of(t);
    box_free(&s->box);
    for (uint32_t i = 0; i < s->knowns; i++) {
        box_close(&s->known[i]->view);
        free(s->known[i]);
    }
    free(s);
}

static const struct live_transport_calls calls = {.close = shm_close,
                                                  .leave = shm_leave,
                                                  .address = shm_address,
                                                  .take_pid = shm_take_pid,
                                                  .reliable = shm_reliable,
                                                  .send = shm_send,
                                                  .send_short = shm_send_short,
                                                  .lends = shm_lends,
                                                  .fetch = shm_fetch,
                                                  .ready = shm_ready,
                                                  .poll = shm_poll,
                                                  .check = shm_check,
                                                  .arm = shm_arm,
                                                  .disarm = shm_disarm,
                                                  .sleep = shm_sleep,
                                                  .ring = shm_ring};

int live_shm_new(struct live_transport **out, const struct live_shm_options *options,
                 struct spin_error *err) {
    struct shm *s = calloc(1, sizeof *s);
    if (!s)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    s->transport.calls = &calls;
    s->o = *options;
    int code = box_make(&s->box, options->folder, options->nid, options->pid, err);
    if (code)
        free(s);
    else
        *out = &s->transport;
    return code;
}
