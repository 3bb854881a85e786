/* The pool of packets. A packet and its data are one allocation, made when more are in flight than
 * ever before. Its owner takes packets from a list of its own; in a shared pool other threads put
 * what they release on a second list, which the owner empties when the first one is empty. */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/zone.h"
#include "base/error.h"
#include "nic/nic.h"

struct nic_pool {
    uint32_t mtu_bytes;
    struct zone *zone; /* of the packets, or NULL */
    bool shared;
    bool told;           /* more is to be done with a packet that comes back than to keep it */
    uint64_t used;       /* of a shared pool: ever taken, */
    uint64_t back_again; /* and how many of these came back */
    struct nic_packet *free;
    struct nic_packet *heads;    /* free ones without data of their own */
    struct nic_packet *returned; /* by other threads */
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

/* Data stands on a line of the cache if the packet does, behind NIC_PACKET_HEADROOM bytes. */
#define DATA_AT ((sizeof(struct nic_packet) + NIC_PACKET_HEADROOM + 63) / 64 * 64)

static size_t bytes_of(const struct nic_pool *pool) {
    return DATA_AT + pool->mtu_bytes;
}

/* What other threads have released is free again: all of it at once, so that no packet can be
 * mistaken for one that was there before. */
static struct nic_packet *take_returned(struct nic_pool *pool) {
    if (!__atomic_load_n(&pool->returned, __ATOMIC_RELAXED))
        return NULL;
    return __atomic_exchange_n(&pool->returned, NULL, __ATOMIC_ACQUIRE);
}

static void free_list(const struct nic_pool *pool, struct nic_packet *packet, size_t bytes) {
    while (packet) {
        struct nic_packet *next = packet->next;
        zone_give(pool->zone, packet, bytes);
        packet = next;
    }
}

void nic_pool_free(struct nic_pool *pool) {
    if (!pool)
        return;
    free_list(pool, pool->free, bytes_of(pool));
    free_list(pool, take_returned(pool), bytes_of(pool));
    free_list(pool, pool->heads, sizeof(struct nic_packet));
    free(pool);
}

void nic_pool_in(struct nic_pool *pool, struct zone *zone) {
    pool->zone = zone;
}

void nic_pool_share(struct nic_pool *pool) {
    pool->shared = pool->told = true;
}

void nic_pool_watch(struct nic_pool *pool, void (*back)(void *context, struct nic_packet *packet),
                    void *context) {
    pool->back = back;
    pool->context = context;
    pool->told = back || pool->shared;
}

uint64_t nic_pool_used(const struct nic_pool *pool) {
    return pool->used - __atomic_load_n(&pool->back_again, __ATOMIC_ACQUIRE);
}

uint32_t nic_pool_mtu(const struct nic_pool *pool) {
    return pool->mtu_bytes;
}

static struct nic_packet *take(struct nic_pool *pool) {
    struct nic_packet *packet = pool->free;
    if (packet || (pool->shared && (packet = take_returned(pool))))
        pool->free = packet->next;
    else if (!(packet = zone_take(pool->zone, bytes_of(pool))))
        return NULL;
    pool->used++;
    return packet;
}

static void own(struct nic_packet *packet, struct nic_pool *pool) {
    packet->references = 1;
    packet->data = (uint8_t *)packet + DATA_AT;
    packet->pool = pool;
    packet->next = packet->lender = NULL;
}

struct nic_packet *nic_packet_new(struct nic_pool *pool) {
    struct nic_packet *packet = take(pool);
    if (!packet)
        return NULL;
    memset(packet, 0, offsetof(struct nic_packet, message)); /* most have none */
    own(packet, pool);
    return packet;
}

struct nic_packet *nic_packet_borrow(struct nic_packet *lender, uint8_t *data) {
    struct nic_pool *pool = lender->pool;
    struct nic_packet *packet = pool->heads;
    if (pool->told)
        return NULL;
    if (packet)
        pool->heads = packet->next;
    else if (!(packet = zone_take(pool->zone, sizeof *packet)))
        return NULL;
    pool->used++;
    memset(packet, 0, offsetof(struct nic_packet, message));
    own(packet, pool);
    packet->data = data;
    packet->lender = lender->lender ? lender->lender : lender; /* whose data it is */
    packet->lender->references++;
    return packet;
}

struct nic_packet *nic_packet_copy(const struct nic_packet *from) {
    struct nic_packet *packet = take(from->pool);
    if (!packet)
        return NULL;
    memcpy(packet, from, from->first ? sizeof *packet : offsetof(struct nic_packet, message));
    if (from->kind >= NIC_BLOCK)
        packet->tag = from->tag;
    own(packet, from->pool);
    if (from->bytes)
        memcpy(packet->data, from->data, from->bytes);
    return packet;
}

void nic_packet_blank(struct nic_packet *packet) {
    packet->data = (uint8_t *)packet + DATA_AT;
    memset(packet->data, 0, packet->bytes);
    packet->bad = true;
    packet->run = 0;
}

struct nic_packet *nic_packet_single(const struct nic_packet *run, uint32_t i) {
    struct nic_packet *packet = take(run->pool);
    if (!packet)
        return NULL;
    memcpy(packet, run, offsetof(struct nic_packet, message));
    own(packet, run->pool);
    uint32_t at = i * run->each, left = run->bytes - at;
    packet->run = 1;
    packet->bytes = left < run->each ? left : run->each;
    packet->last = run->last && packet->bytes == left;
    packet->sequence += i;
    packet->offset += at;
    packet->data = run->data + at;
    return packet;
}

struct nic_packet *nic_packet_keep(struct nic_packet *packet) {
    if (!__atomic_load_n(&packet->references, __ATOMIC_RELAXED))
        return nic_packet_copy(packet);
    if (packet->pool->shared)
        __atomic_add_fetch(&packet->references, 1, __ATOMIC_RELAXED);
    else
        packet->references++;
    return packet;
}

/* Of a pool that is shared or watched. */
static void release_told(struct nic_pool *pool, struct nic_packet *packet) {
    if (!pool->shared) {
        if (--packet->references)
            return;
        pool->back(pool->context, packet);
        pool->used--;
        packet->next = pool->free;
        pool->free = packet;
        return;
    }
    /* Who releases last must see what the others did with it. */
    if (__atomic_sub_fetch(&packet->references, 1, __ATOMIC_ACQ_REL))
        return;
    if (pool->back)
        pool->back(pool->context, packet);
    packet->next = __atomic_load_n(&pool->returned, __ATOMIC_RELAXED);
    while (!__atomic_compare_exchange_n(&pool->returned, &packet->next, packet, true,
                                        __ATOMIC_RELEASE, __ATOMIC_RELAXED))
        ;
    __atomic_add_fetch(&pool->back_again, 1, __ATOMIC_RELEASE);
}

static __attribute__((noinline)) void release_borrowed(struct nic_pool *pool,
                                                       struct nic_packet *packet) {
    struct nic_packet *lender = packet->lender;
    pool->used--;
    packet->next = pool->heads;
    pool->heads = packet;
    nic_packet_release(lender); /* which has its own data */
}

void nic_packet_release(struct nic_packet *packet) {
    struct nic_pool *pool = packet->pool;
    if (pool->told) {
        release_told(pool, packet);
        return;
    }
    if (--packet->references)
        return;
    if (packet->lender) {
        release_borrowed(pool, packet);
        return;
    }
    pool->used--;
    packet->next = pool->free;
    pool->free = packet;
}
