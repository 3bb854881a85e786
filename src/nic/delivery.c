#include "nic/delivery.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/zone.h"
#include "base/error.h"
#include "nic/timers.h"
#include "nic/wire.h"

#define REORDER     3          /* so many later packets have arrived: this one is lost, as in TCP */
#define BACKOFF_MAX 6          /* doublings of retry_time */
#define FEW_PEERS   8          /* they are looked for one by one, and need no table */
#define NO_STREAM   UINT32_MAX /* instead of the one that is followed */

enum slot_state {
    SLOT_NUMBERED, /* not given to the driver yet */
    SLOT_QUEUED,   /* given to the driver */
    SLOT_LEFT,
    SLOT_LOST, /* to be sent again */
};

static bool before(uint32_t a, uint32_t b) {
    return (int32_t)(a - b) < 0;
}

void delivery_init(struct delivery *d, const struct nic_config *config, struct nic_counts *counts,
                   const struct delivery_owner *owner, void *context) {
    *d = (struct delivery){.config = config, .counts = counts, .owner = owner, .context = context};
    d->due_end = &d->due;
    for (d->ring = 64; d->ring < config->window_packets; d->ring *= 2)
        ;
}

static void release_all(struct nic_packet **list) {
    while (*list) {
        struct nic_packet *packet = *list;
        *list = packet->next;
        nic_packet_release(packet);
    }
}

static void release_slots(struct delivery *d, struct delivery_peer *peer) {
    for (; peer->oldest != peer->next_sequence; peer->oldest++) {
        struct delivery_slot *slot = &peer->slot[peer->oldest & (d->ring - 1)];
        if (slot->packet)
            nic_packet_release(slot->packet);
        *slot = (struct delivery_slot){0};
    }
}

static void peer_free(const struct delivery *d, struct delivery_peer *peer);

void delivery_clear(struct delivery *d) {
    for (uint32_t i = 0; i < d->peers; i++) {
        struct delivery_peer *peer = d->peer[i];
        if (peer->slot)
            release_slots(d, peer);
        release_all(&peer->held);
        peer_free(d, peer);
    }
    free(d->peer);
    hash_table_free(&d->by_address);
    free(d->timers.at);
}

/* Peers. */

static uint64_t key(struct nic_address a) {
    return (uint64_t)a.nid << 32 | a.pid;
}
static uint64_t key_of(const struct delivery *d, uint32_t number) {
    return key(d->peer[number]->address);
}
INDEX_TABLE(addresses, struct delivery, key_of);

static bool room_for_peer(struct delivery *d) {
    if (d->peers < d->peers_room)
        return true;
    uint32_t room = d->peers_room ? 2 * d->peers_room : 2;
    struct delivery_peer **peer = realloc(d->peer, room * sizeof *peer);
    if (!peer)
        return false;
    d->peer = peer;
    d->peers_room = room;
    return true;
}

static void peer_free(const struct delivery *d, struct delivery_peer *peer) {
    if (!peer)
        return;
    free(peer->slot);
    free(peer->arrived);
    free(peer->left_at);
    zone_give(d->config->zone, peer, d->owner->peer_bytes);
}

/* The one behind the last, and all before it if they are not few any more; false: no memory. */
static bool index_peer(struct delivery *d) {
    bool added = true;
    if (d->peers < FEW_PEERS)
        return true;
    for (uint32_t i = d->peers == FEW_PEERS ? 0 : d->peers; added && i <= d->peers; i++)
        added = addresses_add(&d->by_address, d, i);
    if (!added && d->peers == FEW_PEERS)
        hash_table_free(&d->by_address);
    return added;
}

static bool is_reliable(const struct delivery *d, struct nic_address address) {
    const struct nic_driver *driver = d->config->driver;
    return driver && driver->reliable ? driver->reliable(d->config->context, address)
                                      : d->config->reliable;
}

static uint32_t packet_bytes(const struct delivery *d, struct nic_address address) {
    const struct nic_driver *driver = d->config->driver;
    uint32_t most = d->config->mtu_bytes;
    uint32_t bytes =
        driver && driver->packet_bytes ? driver->packet_bytes(d->config->context, address) : most;
    return bytes < most ? bytes : most;
}

/* What an unreliable network needs; false: no memory. */
static bool make_streams(struct delivery *d, struct delivery_peer *peer) {
    const struct nic_config *c = d->config;
    peer->congestion =
        (struct congestion){.window = c->window_packets, .retry_time = c->retry_time};
    peer->slot = calloc(d->ring, sizeof *peer->slot);
    peer->arrived = calloc(d->ring / 64, sizeof *peer->arrived);
    if (c->least_retry_time) {
        peer->congestion = congestion_begin(c->window_packets, c->retry_time);
        peer->left_at = calloc(d->ring, sizeof *peer->left_at);
    }
    return peer->slot && peer->arrived && (peer->left_at || !c->least_retry_time) &&
           timers_room(&d->timers, d->peers + 1);
}

static struct delivery_peer *peer_new(struct delivery *d, struct nic_address address) {
    struct delivery_peer *peer =
        room_for_peer(d) ? zone_take_clear(d->config->zone, d->owner->peer_bytes) : NULL;
    if (!peer)
        return NULL;
    peer->address = address;
    peer->number = d->peers;
    peer->self = nic_address_equal(address, d->config->address);
    peer->reliable = peer->self || is_reliable(d, address);
    peer->direct = peer->reliable && !peer->self;
    peer->packet_bytes = packet_bytes(d, address);
    peer->stream = d->config->stream;
    peer->held_end = &peer->held;
    peer->deadline = peer->receipt_by = UINT64_MAX;
    d->peer[d->peers] = peer;
    if ((!peer->reliable && !make_streams(d, peer)) || !index_peer(d)) {
        peer_free(d, peer);
        return NULL;
    }
    d->peers++;
    return peer;
}

static struct delivery_peer *peer_find(const struct delivery *d, struct nic_address address) {
    if (d->peers > FEW_PEERS) {
        uint32_t number = addresses_find(&d->by_address, d, key(address));
        return number == INDEX_NONE ? NULL : d->peer[number];
    }
    for (uint32_t i = 0; i < d->peers; i++)
        if (nic_address_equal(d->peer[i]->address, address))
            return d->peer[i];
    return NULL;
}

struct delivery_peer *delivery_peer_find(struct delivery *d, struct nic_address address) {
    struct delivery_peer *peer = peer_find(d, address);
    if (!peer)
        peer = peer_new(d, address);
    if (peer)
        d->last_peer = peer;
    return peer;
}

struct delivery_peer *delivery_peer_at(const struct delivery *d, uint32_t i) {
    return i < d->peers ? d->peer[i] : NULL;
}

/* Timers. The heap holds a time not after the deadline: a deadline that moves away, as it does with
 * every packet, costs nothing until the old one is reached. */

/* For something that it has to send. */
static bool waiting_for(const struct delivery_peer *peer) {
    return peer->expectations || peer->held || peer->starved;
}

static uint32_t doublings(const struct delivery_peer *peer) {
    return peer->failures < BACKOFF_MAX ? peer->failures : BACKOFF_MAX;
}

static void wake_in_time(struct delivery *d, struct delivery_peer *peer) {
    uint64_t time = peer->deadline < peer->receipt_by ? peer->deadline : peer->receipt_by;
    if (time != UINT64_MAX && (!peer->timer.place || time < peer->timer.time))
        timers_set(&d->timers, &peer->timer, time);
}

static void set_timer(struct delivery *d, struct delivery_peer *peer, uint64_t now) {
    bool waiting = peer->oldest != peer->next_sequence || waiting_for(peer);
    if (peer->hopeless)
        return;
    uint64_t patience =
        congestion_patience(&peer->congestion, doublings(peer), d->config->most_retry_time);
    peer->deadline = waiting ? now + patience : UINT64_MAX;
    wake_in_time(d, peer);
}

/* Its timer, if none runs, begins with the next delivery_arm. */
static void arm_soon(struct delivery *d, struct delivery_peer *peer) {
    if (peer->deadline != UINT64_MAX || peer->to_arm)
        return;
    peer->to_arm = true;
    peer->next_to_arm = d->to_arm;
    d->to_arm = peer;
}

void delivery_expect(struct delivery *d, struct delivery_peer *peer) {
    peer->expectations++;
    if (!peer->reliable)
        arm_soon(d, peer);
}

void delivery_arm(struct delivery *d, uint64_t now) {
    for (struct delivery_peer *peer; (peer = d->to_arm);) {
        d->to_arm = peer->next_to_arm;
        peer->to_arm = false;
        if (peer->deadline == UINT64_MAX)
            set_timer(d, peer, now);
    }
}

void delivery_expect_less(struct delivery_peer *peer) {
    peer->expectations--;
}

void delivery_fail(struct delivery *d, struct delivery_peer *peer, uint64_t now) {
    if (peer->reliable)
        return;
    peer->hopeless = true;
    peer->deadline = now;
    timers_set(&d->timers, &peer->timer, now);
}

bool delivery_settled(const struct delivery *d) {
    for (uint32_t i = 0; i < d->peers; i++)
        if (d->peer[i]->oldest != d->peer[i]->next_sequence)
            return false;
    return true;
}

/* What has to go out besides new packets. */

static void make_due(struct delivery *d, struct delivery_peer *peer) {
    if (peer->in_due)
        return;
    peer->in_due = true;
    peer->next_due = NULL;
    *d->due_end = peer;
    d->due_end = &peer->next_due;
}

void delivery_hurry(struct delivery *d) {
    for (uint32_t i = 0; i < d->peers; i++)
        if (d->peer[i]->receipt)
            make_due(d, d->peer[i]);
}

static struct delivery_peer *take_due(struct delivery *d) {
    struct delivery_peer *peer = d->due;
    if (!peer)
        return NULL;
    d->due = peer->next_due;
    if (!d->due)
        d->due_end = &d->due;
    peer->in_due = false;
    return peer;
}

static void mark_lost(struct delivery_peer *peer, struct delivery_slot *slot, uint32_t sequence) {
    slot->state = SLOT_LOST;
    peer->left--;
    if (!peer->lost++ || before(sequence, peer->first_lost))
        peer->first_lost = sequence;
}

/* Sends. */

static bool has_credit(const struct delivery_peer *peer) {
    return !peer->limited || before(peer->next_sequence + peer->reserved, peer->limit);
}

bool delivery_room(struct delivery *d, struct delivery_peer *peer) {
    if (peer->reliable)
        return true;
    peer->starved = !has_credit(peer);
    if (peer->starved)
        arm_soon(d, peer); /* that there is more might be said once, and be lost */
    return !peer->starved &&
           peer->next_sequence + peer->reserved - peer->oldest < peer->congestion.window;
}

uint32_t delivery_room_packets(const struct delivery_peer *peer) {
    uint32_t next = peer->next_sequence + peer->reserved;
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
    struct delivery_slot *slot = peer->slot ? &peer->slot[sequence & (d->ring - 1)] : NULL;
    uint64_t lent = slot ? slot->lent : 0;
    if (slot)
        slot->lent = 0;
    return lent;
}

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
static void relieve(struct delivery *d) {
    if (!d->stinted || load_of(d) > d->config->credit_packets / 2)
        return;
    for (uint32_t i = 0; i < d->peers; i++)
        if (d->peer[i]->stinted) {
            set_stinted(d, d->peer[i], false);
            d->peer[i]->receipt = true;
            make_due(d, d->peer[i]);
        }
}

static uint32_t say_credit(struct delivery *d, struct delivery_peer *peer) {
    uint32_t load = load_of(d), share = share_of(d, load);
    set_stinted(d, peer, load > d->config->credit_packets / 2);
    return 1 + wire_credit_floor(share);
}

static void acknowledge(struct delivery *d, struct delivery_peer *peer, struct nic_packet *packet) {
    bool heard = is_sender(peer);
    packet->ack_stream = heard ? peer->in_stream : NO_STREAM;
    packet->ack = peer->expected;
    packet->sack = sack_bits(d, peer);
    packet->credit = heard && d->config->credit_packets ? (uint16_t)say_credit(d, peer) : 0;
    peer->receipt = false;
    peer->receipt_by = UINT64_MAX;
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
    acknowledge(d, peer, packet);
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

static struct nic_packet *again(struct delivery *d, struct delivery_peer *peer,
                                uint64_t *transmission) {
    struct delivery_slot *slot = &peer->slot[peer->first_lost & (d->ring - 1)];
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
    acknowledge(d, peer, slot->packet);
    d->counts->retransmitted++;
    return slot->packet;
}

static struct nic_packet *make_bare(struct delivery *d, struct delivery_peer *peer,
                                    struct nic_packet *packet, enum nic_packet_kind kind) {
    memset(packet, 0, offsetof(struct nic_packet, message));
    packet->pool = d->config->pool;
    packet->kind = (uint8_t)kind;
    packet->source = d->config->address;
    packet->target = peer->address;
    packet->stream = peer->stream;
    acknowledge(d, peer, packet);
    d->counts->receipts++;
    return packet;
}

/* The first is always: else nobody would ever answer. */
static bool may_repeat(const struct delivery_peer *peer) {
    return peer->lost && (!peer->left_at || peer->left < peer->congestion.window);
}

struct nic_packet *delivery_next(struct delivery *d, struct delivery_peer **out,
                                 struct nic_packet *bare, uint64_t *transmission) {
    relieve(d);
    for (struct delivery_peer *peer; (peer = take_due(d));) {
        struct nic_packet *packet = NULL;
        *out = peer;
        *transmission = 0;
        bool repeats = may_repeat(peer), starved = false;
        if (repeats) {
            packet = again(d, peer, transmission);
            starved = !packet;
        } else if (peer->probe) {
            peer->probe = false;
            packet = make_bare(d, peer, bare, NIC_PROBE);
        } else if (peer->receipt) {
            packet = make_bare(d, peer, bare, NIC_RECEIPT);
        }
        if ((may_repeat(peer) && !starved) || peer->receipt)
            make_due(d, peer); /* behind the others */
        if (packet)
            return packet;
    }
    return NULL;
}

static void one_left(struct delivery *d, struct delivery_peer *peer, uint32_t sequence,
                     uint64_t transmission, uint64_t now) {
    struct delivery_slot *slot = &peer->slot[sequence & (d->ring - 1)];
    if (slot->transmission != transmission || !slot->packet || slot->state != SLOT_QUEUED)
        return; /* acknowledged before the driver said that it had left, or given up */
    slot->state = SLOT_LEFT;
    if (peer->left_at)
        peer->left_at[sequence & (d->ring - 1)] = now;
    if (!peer->left++) /* the timer was for something else, if for anything */
        set_timer(d, peer, now);
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
    struct delivery_slot *slot = &peer->slot[sequence & (d->ring - 1)];
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
        c->retry_time <<= doublings(peer); /* until one arrives that was not repeated */
    congestion_acknowledged(c, news->packets, d->config->window_packets);
    if (peer->lost)
        make_due(d, peer); /* the window may allow more of it */
}

/* Packets that others have overtaken. */
static void find_lost(struct delivery *d, struct delivery_peer *peer) {
    for (uint32_t s = peer->oldest; s != peer->next_sequence; s++) {
        struct delivery_slot *slot = &peer->slot[s & (d->ring - 1)];
        if (slot->packet && slot->state == SLOT_LEFT &&
            slot->transmission + REORDER <= peer->newest_arrived) {
            mark_lost(peer, slot, s);
            if (peer->left_at)
                congestion_lost(&peer->congestion, slot->transmission, peer->transmissions);
        }
    }
    if (peer->lost)
        make_due(d, peer);
}

static void take_credit(struct delivery_peer *peer, const struct nic_packet *p) {
    peer->limited = p->credit;
    peer->limit = p->ack + p->credit - 1u;
}

/* True: something is newly acknowledged. What was never sent is not, whatever the packet says; and
 * one that knows less than an earlier one is late, or from a peer that has forgotten us. */
static bool take_ack(struct delivery *d, struct delivery_peer *peer, const struct nic_packet *p,
                     uint64_t now) {
    if (p->ack_stream != peer->stream || p->ack - peer->oldest > peer->next_sequence - peer->oldest)
        return false;
    bool moved = false;
    struct news news = {0};
    take_credit(peer, p);
    for (; peer->oldest != p->ack; peer->oldest++) {
        struct delivery_slot *slot = &peer->slot[peer->oldest & (d->ring - 1)];
        if (slot->state == SLOT_NUMBERED)
            return moved;
        arrived(d, peer, peer->oldest, &news);
        *slot = (struct delivery_slot){0};
        moved = true;
    }
    for (uint64_t bits = p->sack; bits; bits &= bits - 1) {
        uint32_t sequence = p->ack + 1 + (uint32_t)__builtin_ctzll(bits);
        struct delivery_slot *slot = &peer->slot[sequence & (d->ring - 1)];
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

/* Receives. */

static void forget_in(struct delivery *d, struct delivery_peer *peer) {
    release_all(&peer->held);
    peer->held_end = &peer->held;
    if (peer->arrived)
        memset(peer->arrived, 0, d->ring / 8);
    peer->expected = peer->in_message = peer->in_report = peer->ahead = 0;
    peer->receipt = false;
    peer->receipt_by = UINT64_MAX;
    set_stinted(d, peer, false);
}

/* Both streams end. The other side will learn it from our next one. */
static void lose(struct delivery *d, struct delivery_peer *peer) {
    release_slots(d, peer);
    peer->stream++;
    peer->next_sequence = peer->oldest = peer->next_message = peer->next_report = 0;
    peer->lost = peer->left = peer->failures = 0;
    if (peer->left_at)
        peer->congestion = congestion_begin(d->config->window_packets, d->config->retry_time);
    peer->probe = peer->acknowledged = peer->hopeless = false;
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
    struct delivery_peer *peer = peer_find(d, address);
    if (peer)
        lose(d, peer);
}

/* False: of a stream that has ended. */
static bool follow_stream(struct delivery *d, struct delivery_peer *peer,
                          const struct nic_packet *packet) {
    uint32_t stream = packet->stream;
    if (peer->heard && stream == peer->in_stream)
        return !peer->closed;
    if (peer->heard && before(stream, peer->in_stream))
        return false;
    /* One that answers our new stream with a new one of its own has ended what it sent before, not
     * what we send: else we would begin anew as well, and it after us, for ever. */
    if (peer->heard && !peer->closed && follows_ours(peer, packet)) {
        forget_in(d, peer);
        d->owner->lost(d->context, peer, false);
    } else if (peer->heard && !peer->closed) {
        lose(d, peer);
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
        make_due(d, peer);
    } else if (first) {
        peer->receipt_by = now + d->config->receipt_time;
        wake_in_time(d, peer);
    }
}

/* True: it is new. */
static bool note_arrival(struct delivery *d, struct delivery_peer *peer, uint32_t sequence) {
    uint32_t distance = sequence - peer->expected;
    if (distance >= d->ring) {
        if (before(sequence, peer->expected))
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
                         : before(packet->message_number, peer->in_message);
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
        set_timer(d, peer, now);
}

static __attribute__((noinline)) void stream_in(struct delivery *d, struct delivery_peer *peer,
                                                struct nic_packet *packet, uint64_t now) {
    if (!follow_stream(d, peer, packet)) {
        d->counts->duplicates++;
        return;
    }
    bool news = take_ack(d, peer, packet, now);
    if (news)
        peer->acknowledged = true;
    if (news || (peer->starved && has_credit(peer))) {
        peer->starved = false; /* who still is says so again */
        d->owner->room(d->context, peer);
    }
    /* While we wait for acknowledgements only those count: who probes us must not put them off. */
    if (news || peer->oldest == peer->next_sequence) {
        peer->failures = 0;
        set_timer(d, peer, now);
    }
    if (is_numbered(packet)) {
        data_in(d, peer, packet, now);
    } else if (packet->kind == NIC_PROBE) {
        peer->receipt = true;
        make_due(d, peer);
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

/* Time passes. */

static void timeout(struct delivery *d, struct delivery_peer *peer, uint64_t now) {
    bool probe = waiting_for(peer) && peer->oldest == peer->next_sequence;
    if (peer->left || probe)
        peer->failures++;
    if (peer->failures > d->config->retries || peer->hopeless) {
        lose(d, peer);
        return;
    }
    if (peer->left && peer->left_at)
        congestion_silent(&peer->congestion, peer->transmissions);
    if (peer->left) {
        for (uint32_t s = peer->oldest; s != peer->next_sequence; s++) {
            struct delivery_slot *slot = &peer->slot[s & (d->ring - 1)];
            if (slot->packet && slot->state == SLOT_LEFT)
                mark_lost(peer, slot, s);
        }
    } else if (probe) {
        peer->probe = true;
    }
    if (peer->lost || peer->probe)
        make_due(d, peer);
    set_timer(d, peer, now);
}

void delivery_tick(struct delivery *d, uint64_t now) {
    for (struct timer *timer; (timer = timers_expired(&d->timers, now));) {
        struct delivery_peer *peer =
            (struct delivery_peer *)((char *)timer - offsetof(struct delivery_peer, timer));
        if (peer->receipt_by <= now) {
            peer->receipt_by = UINT64_MAX;
            make_due(d, peer);
        }
        if (peer->deadline <= now)
            timeout(d, peer, now);
        wake_in_time(d, peer);
    }
}
