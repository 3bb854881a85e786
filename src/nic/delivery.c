/* What drives both sides of the streams: timers, and what has to go out besides new packets. */
#include <stddef.h>
#include <string.h>

#include "nic/delivery_private.h"

/* Timers. The heap holds a time not after the deadline: a deadline that moves away, as it does with
 * every packet, costs nothing until the old one is reached. */

/* For something that it has to send. */
static bool waiting_for(const struct delivery_peer *peer) {
    return peer->expectations || peer->held || peer->starved;
}

static void wake_in_time(struct delivery *d, struct delivery_peer *peer) {
    uint64_t time = peer->deadline < peer->receipt_by ? peer->deadline : peer->receipt_by;
    if (time != UINT64_MAX && (!peer->timer.place || time < peer->timer.time))
        timers_set(&d->timers, &peer->timer, time);
}

void delivery_set_timer(struct delivery *d, struct delivery_peer *peer, uint64_t now) {
    bool waiting = peer->oldest != peer->next_sequence || waiting_for(peer);
    if (peer->hopeless)
        return;
    uint64_t patience = congestion_patience(&peer->congestion, delivery_doublings(peer),
                                            d->config->most_retry_time);
    peer->deadline = waiting ? now + patience : UINT64_MAX;
    wake_in_time(d, peer);
}

void delivery_receipt_by(struct delivery *d, struct delivery_peer *peer, uint64_t time) {
    peer->receipt_by = time;
    wake_in_time(d, peer);
}

void delivery_arm_soon(struct delivery *d, struct delivery_peer *peer) {
    if (peer->deadline != UINT64_MAX || peer->to_arm)
        return;
    peer->to_arm = true;
    peer->next_to_arm = d->to_arm;
    d->to_arm = peer;
}

void delivery_expect(struct delivery *d, struct delivery_peer *peer) {
    peer->expectations++;
    if (!peer->reliable)
        delivery_arm_soon(d, peer);
}

void delivery_arm(struct delivery *d, uint64_t now) {
    for (struct delivery_peer *peer; (peer = d->to_arm);) {
        d->to_arm = peer->next_to_arm;
        peer->to_arm = false;
        if (peer->deadline == UINT64_MAX)
            delivery_set_timer(d, peer, now);
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

void delivery_make_due(struct delivery *d, struct delivery_peer *peer) {
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
            delivery_make_due(d, d->peer[i]);
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

static struct nic_packet *make_bare(struct delivery *d, struct delivery_peer *peer,
                                    struct nic_packet *packet, enum nic_packet_kind kind) {
    memset(packet, 0, offsetof(struct nic_packet, message));
    packet->pool = d->config->pool;
    packet->kind = (uint8_t)kind;
    packet->source = d->config->address;
    packet->target = peer->address;
    packet->stream = peer->stream;
    delivery_acknowledge(d, peer, packet);
    d->counts->receipts++;
    return packet;
}

struct nic_packet *delivery_next(struct delivery *d, struct delivery_peer **out,
                                 struct nic_packet *bare, uint64_t *transmission) {
    delivery_relieve(d);
    for (struct delivery_peer *peer; (peer = take_due(d));) {
        struct nic_packet *packet = NULL;
        *out = peer;
        *transmission = 0;
        bool repeats = delivery_may_repeat(peer), starved = false;
        if (repeats) {
            packet = delivery_again(d, peer, transmission);
            starved = !packet;
        } else if (peer->probe) {
            peer->probe = false;
            packet = make_bare(d, peer, bare, NIC_PROBE);
        } else if (peer->receipt) {
            packet = make_bare(d, peer, bare, NIC_RECEIPT);
        }
        if ((delivery_may_repeat(peer) && !starved) || peer->receipt)
            delivery_make_due(d, peer); /* behind the others */
        if (packet)
            return packet;
    }
    return NULL;
}

/* Time passes. */

static uint32_t retries_of(const struct delivery *d, const struct delivery_peer *peer) {
    const struct nic_config *c = d->config;
    return peer->refused || !c->silent_retries ? c->retries : c->silent_retries;
}

static void timeout(struct delivery *d, struct delivery_peer *peer, uint64_t now) {
    bool probe = waiting_for(peer) && peer->oldest == peer->next_sequence;
    if (peer->left || probe)
        peer->failures++;
    if (peer->failures > retries_of(d, peer) || peer->hopeless) {
        delivery_end(d, peer);
        return;
    }
    if (peer->left && peer->left_at)
        congestion_silent(&peer->congestion, peer->transmissions);
    if (peer->left) {
        for (uint32_t s = peer->oldest; s != peer->next_sequence; s++) {
            struct delivery_slot *slot = delivery_slot_of(d, peer, s);
            if (slot->packet && slot->state == SLOT_LEFT)
                delivery_mark_lost(peer, slot, s);
        }
    } else if (probe) {
        peer->probe = true;
    }
    if (peer->lost || peer->probe)
        delivery_make_due(d, peer);
    delivery_set_timer(d, peer, now);
}

void delivery_tick(struct delivery *d, uint64_t now) {
    for (struct timer *timer; (timer = timers_expired(&d->timers, now));) {
        struct delivery_peer *peer =
            (struct delivery_peer *)((char *)timer - offsetof(struct delivery_peer, timer));
        if (peer->receipt_by <= now) {
            peer->receipt_by = UINT64_MAX;
            delivery_make_due(d, peer);
        }
        if (peer->deadline <= now)
            timeout(d, peer, now);
        wake_in_time(d, peer);
    }
}
