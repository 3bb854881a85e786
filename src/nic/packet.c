/* The pool of packets. A packet and its data are one allocation, made when more are in flight than
 * ever before. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "nic/nic.h"

struct nic_pool {
    uint32_t mtu_bytes;
    uint64_t used;
    struct nic_packet *free;
    void (*back)(void *context, struct nic_packet *packet);
    void *context;
};

int nic_pool_new(struct nic_pool **out, uint32_t mtu_bytes, struct spin_error *err) {
    struct nic_pool *pool = calloc(1, sizeof *pool);
    if (!pool)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    pool->mtu_bytes = mtu_bytes;
    *out = pool;
    return 0;
}

void nic_pool_free(struct nic_pool *pool) {
    while (pool && pool->free) {
        struct nic_packet *packet = pool->free;
        pool->free = packet->next;
        free(packet);
    }
    free(pool);
}

void nic_pool_watch(struct nic_pool *pool, void (*back)(void *context, struct nic_packet *packet),
                    void *context) {
    pool->back = back;
    pool->context = context;
}

uint64_t nic_pool_used(const struct nic_pool *pool) {
    return pool->used;
}

uint32_t nic_pool_mtu(const struct nic_pool *pool) {
    return pool->mtu_bytes;
}

static struct nic_packet *take(struct nic_pool *pool) {
    struct nic_packet *packet = pool->free;
    if (packet)
        pool->free = packet->next;
    else if (!(packet = malloc(sizeof *packet + pool->mtu_bytes)))
        return NULL;
    pool->used++;
    return packet;
}

static void own(struct nic_packet *packet, struct nic_pool *pool) {
    packet->references = 1;
    packet->data = (uint8_t *)(packet + 1);
    packet->pool = pool;
    packet->next = NULL;
}

struct nic_packet *nic_packet_new(struct nic_pool *pool) {
    struct nic_packet *packet = take(pool);
    if (!packet)
        return NULL;
    memset(packet, 0, offsetof(struct nic_packet, message)); /* most have none */
    own(packet, pool);
    return packet;
}

struct nic_packet *nic_packet_copy(const struct nic_packet *from) {
    struct nic_packet *packet = take(from->pool);
    if (!packet)
        return NULL;
    memcpy(packet, from, from->first ? sizeof *packet : offsetof(struct nic_packet, message));
    own(packet, from->pool);
    if (from->bytes)
        memcpy(packet->data, from->data, from->bytes);
    return packet;
}

struct nic_packet *nic_packet_keep(struct nic_packet *packet) {
    if (!packet->references)
        return nic_packet_copy(packet);
    packet->references++;
    return packet;
}

void nic_packet_release(struct nic_packet *packet) {
    struct nic_pool *pool = packet->pool;
    if (--packet->references)
        return;
    if (pool->back)
        pool->back(pool->context, packet);
    pool->used--;
    packet->next = pool->free;
    pool->free = packet;
}
