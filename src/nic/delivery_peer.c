/* The peers of a card: found by their addresses, made when they are first met. */
#include <stdlib.h>

#include "base/grow.h"
#include "base/zone.h"
#include "nic/delivery_private.h"

#define FEW_PEERS 8 /* they are looked for one by one, and need no table */

void delivery_init(struct delivery *d, const struct nic_config *config, struct nic_counts *counts,
                   const struct delivery_owner *owner, void *context) {
    *d = (struct delivery){.config = config, .counts = counts, .owner = owner, .context = context};
    d->due_end = &d->due;
    for (d->ring = 64; d->ring < config->window_packets; d->ring *= 2)
        ;
}

void delivery_release(struct nic_packet **list) {
    while (*list) {
        struct nic_packet *packet = *list;
        *list = packet->next;
        nic_packet_release(packet);
    }
}

void delivery_release_slots(struct delivery *d, struct delivery_peer *peer) {
    for (; peer->oldest != peer->next_sequence; peer->oldest++) {
        struct delivery_slot *slot = delivery_slot_of(d, peer, peer->oldest);
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
            delivery_release_slots(d, peer);
        delivery_release(&peer->held);
        peer_free(d, peer);
    }
    free(d->peer);
    hash_table_free(&d->by_address);
    free(d->timers.at);
}

static uint64_t key(struct nic_address a) {
    return (uint64_t)a.nid << 32 | a.pid;
}
static uint64_t key_of(const struct delivery *d, uint32_t number) {
    return key(d->peer[number]->address);
}
INDEX_TABLE(addresses, struct delivery, key_of);

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
    struct delivery_peer *peer = ROOM_FOR_ONE(d->peer, d->peers, d->peers_room, 2)
                                     ? zone_take_clear(d->config->zone, d->owner->peer_bytes)
                                     : NULL;
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

struct delivery_peer *delivery_peer_known(const struct delivery *d, struct nic_address address) {
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
    struct delivery_peer *peer = delivery_peer_known(d, address);
    if (!peer)
        peer = peer_new(d, address);
    if (peer)
        d->last_peer = peer;
    return peer;
}

struct delivery_peer *delivery_peer_at(const struct delivery *d, uint32_t i) {
    return i < d->peers ? d->peer[i] : NULL;
}
