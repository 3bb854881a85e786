/* The receiving side of a stream: which one is followed, what has arrived, what it says of that,
 * and packets that are held until others have come. */
#include <string.h>

#include "nic/delivery_private.h"
#include "nic/wire.h"

#define NO_STREAM UINT32_MAX /* instead of the one that is followed */

/* What it says. */

static uint64_t sack_bits(const struct delivery *d, const struct delivery_peer *peer) {
    uint64_t sack = 0;
    for (uint32_t i = 0; peer->ahead && i < 64 && i + 1 < d->ring; i++) {
        uint32_t bit = (peer->expected + 1 + i) & (d->ring - 1);
        sack |= (peer->arrived[bit / 64] >> bit % 64 & 1) << i;
    }
    return sack;
}

/* Its stream is followed. */
static bool is_sender(const struct delivery_peer *peer) {
    return peer->heard && !peer->closed;
}

/* What is left for all, shared by those who send. One packet is better than none as long as the
 * card itself is not full: what the network's buffer then loses is repeated. */
static uint32_t share_of(const struct delivery *d, uint32_t load) {
    uint32_t all = d->config->credit_packets, left = load < all ? all - load : 0;
    uint32_t share = left / (d->senders ? d->senders : 1);
    share = share > d->ring ? d->ring : share;
    return share || !left ? share : 1;
}

static uint32_t load_of(const struct delivery *d) {
    return d->owner->load ? d->owner->load(d->context) : 0;
}

static void set_stinted(struct delivery *d, struct delivery_peer *peer, bool stinted) {
    d->stinted += stinted;
    d->stinted -= peer->stinted;
    peer->stinted = stinted;
}

/* Who got less than its share is told when half of everything is free again. */
void delivery_relieve(struct delivery *d) {
    if (!d->stinted || load_of(d) > d->config->credit_packets / 2)
        return;
    for (uint32_t i = 0; i < d->peers; i++)
        if (d->peer[i]->stinted) {
            set_stinted(d, d->peer[i], false);
            d->peer[i]->receipt = true;
            delivery_make_due(d, d->peer[i]);
        }
}

static uint32_t say_credit(struct delivery *d, struct delivery_peer *peer) {
    uint32_t load = load_of(d), share = share_of(d, load);
    set_stinted(d, peer, load > d->config->credit_packets / 2);
    return 1 + wire_credit_floor(share);
}

void delivery_acknowledge(struct delivery *d, struct delivery_peer *peer,
                          struct nic_packet *packet) {
    bool heard = is_sender(peer);
    packet->ack_stream = heard ? peer->in_stream : NO_STREAM;
    packet->ack = peer->expected;
    packet->sack = sack_bits(d, peer);
    packet->credit = heard && d->config->credit_packets ? (uint16_t)say_credit(d, peer) : 0;
    peer->receipt = false;
    peer->receipt_by = UINT64_MAX;
}

/* Streams begin and end, and packets arrive. */

static void forget_in(struct delivery *d, struct delivery_peer *peer) {
    delivery_release(&peer->held);
    peer->held_end = &peer->held;
    if (peer->arrived)
        memset(peer->arrived, 0, d->ring / 8);
    peer->expected = peer->in_message = peer->in_report = peer->ahead = 0;
    peer->receipt = false;
    peer->receipt_by = UINT64_MAX;
    set_stinted(d, peer, false);
}

/* Both streams end. The other side will learn it from our next one. */
void delivery_end(struct delivery *d, struct delivery_peer *peer) {
    delivery_release_slots(d, peer);
    peer->stream++;
    peer->next_sequence = peer->oldest = peer->next_message = peer->next_report = 0;
    peer->lost = peer->left = peer->failures = 0;
    if (peer->left_at)
        peer->congestion = congestion_begin(d->config->window_packets, d->config->retry_time);
    peer->probe = peer->acknowledged = peer->hopeless = peer->refused = false;
    peer->limited = peer->starved = false;
    peer->deadline = UINT64_MAX;
    forget_in(d, peer);
    d->senders -= is_sender(peer);
    peer->closed = true;
    d->counts->given_up++;
    d->owner->lost(d->context, peer, true);
}

/* Whether a packet comes from one who follows the stream that we send, from its beginning: nobody
 * else has acknowledged anything of it. */
static bool follows_ours(const struct delivery_peer *peer, const struct nic_packet *packet) {
    return packet->ack_stream == peer->stream && !peer->acknowledged;
}

void delivery_lose(struct delivery *d, struct nic_address address) {
    struct delivery_peer *peer = delivery_peer_known(d, address);
    if (peer)
        delivery_end(d, peer);
}

void delivery_refused(struct delivery *d, struct nic_address address) {
    struct delivery_peer *peer = delivery_peer_known(d, address);
    if (peer)
        peer->refused = true;
}

/* False: of a stream that has ended. */
static bool follow_stream(struct delivery *d, struct delivery_peer *peer,
                          const struct nic_packet *packet) {
    uint32_t stream = packet->stream;
    if (peer->heard && stream == peer->in_stream)
        return !peer->closed;
    if (peer->heard && sequence_before(stream, peer->in_stream))
        return false;
    /* One that answers our new stream with a new one of its own has ended what it sent before, not
     * what we send: else we would begin anew as well, and it after us, for ever. */
    if (peer->heard && !peer->closed && follows_ours(peer, packet)) {
        forget_in(d, peer);
        d->owner->lost(d->context, peer, false);
    } else if (peer->heard && !peer->closed) {
        delivery_end(d, peer);
    }
    d->senders += !is_sender(peer);
    peer->heard = true;
    peer->closed = false;
    peer->in_stream = stream;
    return true;
}

/* Now, or when nothing goes back for a while. A gap or a packet that came twice says that something
 * was lost: its sender wants to know. */
static void owe_receipt(struct delivery *d, struct delivery_peer *peer,
                        const struct nic_packet *packet, uint64_t now) {
    bool first = !peer->receipt;
    peer->receipt = true;
    if (!d->config->receipt_time || packet->prompt || peer->ahead ||
        packet->sequence != peer->expected) {
        delivery_make_due(d, peer);
    } else if (first) {
        delivery_receipt_by(d, peer, now + d->config->receipt_time);
    }
}

/* True: it is new. */
static bool note_arrival(struct delivery *d, struct delivery_peer *peer, uint32_t sequence) {
    uint32_t distance = sequence - peer->expected;
    if (distance >= d->ring) {
        if (sequence_before(sequence, peer->expected))
            d->counts->duplicates++;
        else
            d->counts->out_of_window++;
        return false;
    }
    uint32_t bit = sequence & (d->ring - 1);
    if (peer->arrived[bit / 64] >> bit % 64 & 1) {
        d->counts->duplicates++;
        return false;
    }
    if (distance) {
        peer->arrived[bit / 64] |= 1ull << bit % 64;
        peer->ahead++;
        return true;
    }
    for (peer->expected++; peer->ahead; peer->expected++, peer->ahead--) {
        bit = peer->expected & (d->ring - 1);
        if (!(peer->arrived[bit / 64] >> bit % 64 & 1))
            break;
        peer->arrived[bit / 64] &= ~(1ull << bit % 64);
    }
    return true;
}

static bool is_numbered(const struct nic_packet *packet) {
    return packet->kind != NIC_RECEIPT && packet->kind != NIC_PROBE;
}

static bool in_order(const struct delivery_peer *peer, const struct nic_packet *packet) {
    if (packet->kind == NIC_REPORT)
        return packet->message_number == peer->in_report;
    return packet->first ? packet->message_number == peer->in_message
                         : sequence_before(packet->message_number, peer->in_message);
}

bool delivery_early(const struct delivery_peer *peer, const struct nic_packet *packet) {
    return !in_order(peer, packet);
}

static void up(struct delivery *d, struct delivery_peer *peer, struct nic_packet *packet) {
    if (packet->first)
        peer->in_message++;
    else if (packet->kind == NIC_REPORT)
        peer->in_report++;
    d->counts->received++;
    d->owner->up(d->context, peer, packet);
}

/* Held packets whose turn has come. A first packet may free others that were passed already. */
static void release_held(struct delivery *d, struct delivery_peer *peer) {
    for (bool more = peer->held; more;) {
        more = false;
        for (struct nic_packet **at = &peer->held; *at;) {
            struct nic_packet *packet = *at;
            if (!in_order(peer, packet)) {
                at = &packet->next;
                continue;
            }
            *at = packet->next;
            if (peer->held_end == &packet->next)
                peer->held_end = at;
            more |= packet->first || packet->kind == NIC_REPORT;
            up(d, peer, packet);
            nic_packet_release(packet);
        }
    }
}

/* Up, or held (then `kept` is a reference for it). */
static void hand_over(struct delivery *d, struct delivery_peer *peer, struct nic_packet *packet,
                      struct nic_packet *kept) {
    if (kept) {
        kept->next = NULL;
        *peer->held_end = kept;
        peer->held_end = &kept->next;
        return;
    }
    bool first = packet->first || packet->kind == NIC_REPORT;
    up(d, peer, packet);
    if (first && peer->held)
        release_held(d, peer);
}

/* One that has to be held is kept before anything says that it has arrived. */
static bool keep_if_early(struct delivery *d, const struct delivery_peer *peer,
                          struct nic_packet *packet, struct nic_packet **kept) {
    *kept = NULL;
    if (in_order(peer, packet))
        return true;
    *kept = nic_packet_keep(packet);
    d->counts->no_memory += !*kept;
    return *kept;
}

static void data_in(struct delivery *d, struct delivery_peer *peer, struct nic_packet *packet,
                    uint64_t now) {
    struct nic_packet *kept;
    if (!keep_if_early(d, peer, packet, &kept))
        return; /* as if it had been lost */
    owe_receipt(d, peer, packet, now);
    if (!note_arrival(d, peer, packet->sequence)) {
        if (kept)
            nic_packet_release(kept);
        return;
    }
    hand_over(d, peer, packet, kept);
    if (peer->held && peer->deadline == UINT64_MAX)
        delivery_set_timer(d, peer, now);
}

static __attribute__((noinline)) void stream_in(struct delivery *d, struct delivery_peer *peer,
                                                struct nic_packet *packet, uint64_t now) {
    if (!follow_stream(d, peer, packet)) {
        d->counts->duplicates++;
        return;
    }
    peer->refused = false;
    bool news = delivery_take_ack(d, peer, packet, now);
    if (news)
        peer->acknowledged = true;
    if (news || (peer->starved && delivery_has_credit(peer))) {
        peer->starved = false; /* who still is says so again */
        d->owner->room(d->context, peer);
    }
    /* While we wait for acknowledgements only those count: who probes us must not put them off. */
    if (news || peer->oldest == peer->next_sequence) {
        peer->failures = 0;
        delivery_set_timer(d, peer, now);
    }
    if (is_numbered(packet)) {
        data_in(d, peer, packet, now);
    } else if (packet->kind == NIC_PROBE) {
        peer->receipt = true;
        delivery_make_due(d, peer);
    }
}

/* Where the network is reliable, but not ordered. */
static __attribute__((noinline)) void early_in(struct delivery *d, struct delivery_peer *peer,
                                               struct nic_packet *packet) {
    struct nic_packet *kept;
    if (is_numbered(packet) && keep_if_early(d, peer, packet, &kept))
        hand_over(d, peer, packet, kept);
}

void delivery_packet_in(struct delivery *d, struct nic_packet *packet, uint64_t now) {
    struct delivery_peer *peer = delivery_peer(d, packet->source);
    if (!peer)
        d->counts->no_memory++;
    else if (!peer->reliable)
        stream_in(d, peer, packet, now);
    else if (packet->kind == NIC_DATA && !peer->held && in_order(peer, packet))
        up(d, peer, packet);
    else
        early_in(d, peer, packet);
}
