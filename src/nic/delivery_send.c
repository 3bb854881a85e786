/* The sending side of a stream: room, numbers, what is repeated, and what acknowledgements say. */
#include "nic/delivery_private.h"

#define REORDER     3 /* so many later packets have arrived: this one is lost, as in TCP */
#define FEW_ANSWERS 4 /* may be on the way without credit */

void delivery_mark_lost(struct delivery_peer *peer, struct delivery_slot *slot, uint32_t sequence) {
    slot->state = SLOT_LOST;
    peer->left--;
    if (!peer->lost++ || sequence_before(sequence, peer->first_lost))
        peer->first_lost = sequence;
}

bool delivery_has_credit(const struct delivery_peer *peer) {
    return !peer->limited || sequence_before(peer->next_sequence + peer->reserved, peer->limit);
}

bool delivery_room(struct delivery *d, struct delivery_peer *peer) {
    if (peer->reliable)
        return true;
    peer->starved = !delivery_has_credit(peer);
    if (peer->starved)
        delivery_arm_soon(d, peer); /* that there is more might be said once, and be lost */
    return !peer->starved &&
           peer->next_sequence + peer->reserved - peer->oldest < peer->congestion.window;
}

bool delivery_room_answer(const struct delivery_peer *peer) {
    uint32_t window = peer->congestion.window, few = window < FEW_ANSWERS ? window : FEW_ANSWERS;
    return peer->next_sequence + peer->reserved - peer->oldest < few;
}

uint32_t delivery_room_packets(const struct delivery_peer *peer) {
    uint32_t next = peer->next_sequence + peer->reserved;
    if (!delivery_has_credit(peer))
        return 1; /* of an answer */
    uint32_t room = peer->oldest + peer->congestion.window - next;
    return peer->limited && peer->limit - next < room ? peer->limit - next : room;
}

/* How many packets may be on the way. */
static uint32_t window_of(const struct delivery_peer *peer) {
    uint32_t window = peer->congestion.window;
    return peer->limited && peer->limit - peer->oldest < window ? peer->limit - peer->oldest
                                                                : window;
}

bool delivery_room_grows(const struct delivery *d, const struct delivery_peer *peer) {
    return d->config->receipt_time && 2 * (peer->next_sequence - peer->oldest) >= window_of(peer);
}

void delivery_number_stream(struct delivery *d, struct delivery_peer *peer,
                            struct nic_packet *packet) {
    packet->stream = peer->stream;
    packet->sequence = peer->next_sequence;
    for (uint32_t i = 0, n = nic_packet_count(packet); i < n; i++)
        peer->slot[peer->next_sequence++ & (d->ring - 1)] =
            (struct delivery_slot){.packet = nic_packet_keep(packet)};
}

void delivery_lend(struct delivery *d, struct delivery_peer *peer, const struct nic_packet *run,
                   uint64_t lent) {
    for (uint32_t i = 0; i < run->run; i++)
        peer->slot[(run->sequence + i) & (d->ring - 1)].lent = lent;
}

uint64_t delivery_take_back(struct delivery *d, struct delivery_peer *peer, uint32_t sequence) {
    struct delivery_slot *slot = peer->slot ? delivery_slot_of(d, peer, sequence) : NULL;
    uint64_t lent = slot ? slot->lent : 0;
    if (slot)
        slot->lent = 0;
    return lent;
}

/* Who will soon wait for room wants no receipt that waits for company; but not one for each packet,
 * as what then leaves in answer would be as little each time. */
static bool wants_receipt(const struct delivery *d, const struct delivery_peer *peer,
                          const struct nic_packet *packet) {
    if (!delivery_room_grows(d, peer))
        return false;
    uint32_t window = window_of(peer), each = window / 8,
             before = window < 16 ? 0 : packet->sequence % each;
    return !before || before + packet->run > each;
}

uint64_t delivery_departs_stream(struct delivery *d, struct delivery_peer *peer,
                                 struct nic_packet *packet) {
    uint32_t packets = nic_packet_count(packet);
    uint64_t transmission = peer->transmissions + 1;
    for (uint32_t i = 0; i < packets; i++) {
        struct delivery_slot *slot = &peer->slot[(packet->sequence + i) & (d->ring - 1)];
        slot->state = SLOT_QUEUED;
        slot->transmission = ++peer->transmissions;
    }
    d->counts->sent += packets - 1;
    packet->prompt = wants_receipt(d, peer, packet) || (packet->run && packet->last);
    delivery_acknowledge(d, peer, packet);
    return transmission;
}

/* A packet that someone still holds must not change under him; false: no memory. */
static bool own(struct delivery_slot *slot, uint32_t sequence) {
    struct nic_packet *old = slot->packet;
    if (old->references == 1 && old->run <= 1)
        return true;
    struct nic_packet *copy =
        old->run ? nic_packet_single(old, sequence - old->sequence) : nic_packet_copy(old);
    if (!copy)
        return false;
    nic_packet_release(old);
    slot->packet = copy;
    return true;
}

struct nic_packet *delivery_again(struct delivery *d, struct delivery_peer *peer,
                                  uint64_t *transmission) {
    struct delivery_slot *slot = delivery_slot_of(d, peer, peer->first_lost);
    while (slot->state != SLOT_LOST || !slot->packet)
        slot = &peer->slot[++peer->first_lost & (d->ring - 1)];
    if (!own(slot, peer->first_lost)) {
        d->counts->no_memory++;
        return NULL; /* its timer tries again */
    }
    peer->first_lost++;
    peer->lost--;
    slot->state = SLOT_QUEUED;
    slot->repeats = true;
    *transmission = slot->transmission = ++peer->transmissions;
    slot->packet->prompt = d->config->receipt_time != 0;
    delivery_acknowledge(d, peer, slot->packet);
    d->counts->retransmitted++;
    return slot->packet;
}

/* The first is always: else nobody would ever answer. */
bool delivery_may_repeat(const struct delivery_peer *peer) {
    return peer->lost && (!peer->left_at || peer->left < peer->congestion.window);
}

static void one_left(struct delivery *d, struct delivery_peer *peer, uint32_t sequence,
                     uint64_t transmission, uint64_t now) {
    struct delivery_slot *slot = delivery_slot_of(d, peer, sequence);
    if (slot->transmission != transmission || !slot->packet || slot->state != SLOT_QUEUED)
        return; /* acknowledged before the driver said that it had left, or given up */
    slot->state = SLOT_LEFT;
    if (peer->left_at)
        peer->left_at[sequence & (d->ring - 1)] = now;
    if (!peer->left++) /* the timer was for something else, if for anything */
        delivery_set_timer(d, peer, now);
}

void delivery_left(struct delivery *d, struct delivery_peer *peer, uint32_t sequence, uint32_t more,
                   uint64_t transmission, uint64_t now) {
    for (uint32_t i = 0; transmission && i <= more; i++)
        one_left(d, peer, sequence + i, transmission + i, now);
}

/* Acknowledgements. */

/* What one acknowledgement says: how many packets have arrived that were not known to, and when the
 * last of them left that was sent once (0: none was). */
struct news {
    uint32_t packets;
    uint64_t left_at;
};

static void arrived(struct delivery *d, struct delivery_peer *peer, uint32_t sequence,
                    struct news *news) {
    struct delivery_slot *slot = delivery_slot_of(d, peer, sequence);
    if (!slot->packet)
        return;
    news->packets++;
    if (peer->left_at && slot->state == SLOT_LEFT && !slot->repeats)
        news->left_at = peer->left_at[sequence & (d->ring - 1)];
    peer->left -= slot->state == SLOT_LEFT;
    peer->lost -= slot->state == SLOT_LOST;
    if (slot->transmission > peer->newest_arrived)
        peer->newest_arrived = slot->transmission;
    nic_packet_release(slot->packet);
    slot->packet = NULL;
    uint64_t lent = delivery_take_back(d, peer, sequence);
    if (lent)
        d->owner->returned(d->context, lent);
}

static void adapt(struct delivery *d, struct delivery_peer *peer, const struct news *news,
                  uint64_t now) {
    if (!peer->left_at)
        return;
    struct congestion *c = &peer->congestion;
    if (news->left_at && news->left_at <= now)
        congestion_measured(c, now - news->left_at, d->config->least_retry_time);
    else if (peer->failures && c->retry_time < d->config->retry_time << BACKOFF_MAX)
        c->retry_time <<= delivery_doublings(peer); /* until one arrives that was not repeated */
    congestion_acknowledged(c, news->packets, d->config->window_packets);
    if (peer->lost)
        delivery_make_due(d, peer); /* the window may allow more of it */
}

/* Packets that others have overtaken. */
static void find_lost(struct delivery *d, struct delivery_peer *peer) {
    for (uint32_t s = peer->oldest; s != peer->next_sequence; s++) {
        struct delivery_slot *slot = delivery_slot_of(d, peer, s);
        if (slot->packet && slot->state == SLOT_LEFT &&
            slot->transmission + REORDER <= peer->newest_arrived) {
            delivery_mark_lost(peer, slot, s);
            if (peer->left_at)
                congestion_lost(&peer->congestion, slot->transmission, peer->transmissions);
        }
    }
    if (peer->lost)
        delivery_make_due(d, peer);
}

static void take_credit(struct delivery_peer *peer, const struct nic_packet *p) {
    peer->limited = p->credit;
    peer->limit = p->ack + p->credit - 1u;
}

/* True: something is newly acknowledged. What was never sent is not, whatever the packet says; and
 * one that knows less than an earlier one is late, or from a peer that has forgotten us. */
bool delivery_take_ack(struct delivery *d, struct delivery_peer *peer, const struct nic_packet *p,
                       uint64_t now) {
    if (p->ack_stream != peer->stream || p->ack - peer->oldest > peer->next_sequence - peer->oldest)
        return false;
    bool moved = false;
    struct news news = {0};
    take_credit(peer, p);
    for (; peer->oldest != p->ack; peer->oldest++) {
        struct delivery_slot *slot = delivery_slot_of(d, peer, peer->oldest);
        if (slot->state == SLOT_NUMBERED)
            return moved;
        arrived(d, peer, peer->oldest, &news);
        *slot = (struct delivery_slot){0};
        moved = true;
    }
    for (uint64_t bits = p->sack; bits; bits &= bits - 1) {
        uint32_t sequence = p->ack + 1 + (uint32_t)__builtin_ctzll(bits);
        struct delivery_slot *slot = delivery_slot_of(d, peer, sequence);
        if (sequence - peer->oldest >= peer->next_sequence - peer->oldest ||
            slot->state == SLOT_NUMBERED || !slot->packet)
            continue;
        arrived(d, peer, sequence, &news);
    }
    if (!moved && !news.packets)
        return false;
    if (p->sack)
        find_lost(d, peer);
    adapt(d, peer, &news, now);
    return true;
}
