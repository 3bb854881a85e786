/* Objects of one size, from a pool that grows by doubling up to a limit: addresses stay, indices
 * are small and dense, and a generation tells an object from its predecessors in the same place.
 */
#ifndef SPIN_BASE_POOL_H
#define SPIN_BASE_POOL_H

#include <stdbool.h>
#include <stdint.h>

#include "base/zone.h"

/* What every object begins with. */
struct pool_slot {
    uint32_t index, generation;
    uint32_t next_free;
    bool used;
};

/* The first chunk has one object, as have most of tens of thousands of pools, and each further one
 * as many as all before it: a power of two fills its chunks. A pool does not move. */

struct pool {
    uint32_t object_bytes;
    uint32_t limit : 31;
    uint32_t clean : 1;  /* the last chunk is memory that nobody has had: it is zero */
    uint32_t mask;       /* a power of two less one, that no index is above */
    uint32_t used, made; /* now; ever, so that indices below it exist */
    uint32_t free;       /* index + 1; 0: none */
    uintptr_t *chunk;    /* where each would begin if it held all places from 0 (pool_before) */
    uintptr_t only;      /* what `chunk` points to while there is one */
    struct zone *zone;
};

/* zone: of its memory, or NULL. */
void pool_init(struct pool *pool, struct zone *zone, uint32_t object_bytes, uint32_t limit);
void pool_clear(struct pool *pool);
/* As its last user left it, but for the slot, and zero the first time; NULL: at the limit, or no
 * memory. */
static inline void *pool_take_raw(struct pool *pool);
/* Zero but for its slot. */
void *pool_take(struct pool *pool);
static inline void pool_give(struct pool *pool, void *object);
/* There is one that can be taken; false: at the limit, or no memory. */
static inline bool pool_spare(struct pool *pool);

static inline uint32_t pool_chunk_of(uint32_t index) {
    return 31u - (uint32_t)__builtin_clz(2 * index + 1);
}

/* Bytes of all chunks before one: it begins with the object of that number. */
static inline uintptr_t pool_bytes_before(const struct pool *pool, uint32_t chunk) {
    return ((1ull << chunk) >> 1) * pool->object_bytes;
}

/* How far a chunk's address is before its memory. Who looks for leaks must find the memory's own.
 */
static inline uintptr_t pool_before(const struct pool *pool, uint32_t chunk) {
    return ZONE_IS_MALLOC ? 0 : pool_bytes_before(pool, chunk);
}

/* The object with an index below `made`. */
static inline void *pool_at(const struct pool *pool, uint32_t index) {
    uint32_t chunk = pool_chunk_of(index);
    uintptr_t first = ZONE_IS_MALLOC ? pool_bytes_before(pool, chunk) : 0;
    return (void *)(pool->chunk[chunk] + (uintptr_t)index * pool->object_bytes - first);
}

/* One that was never taken before; for pool_take_raw. */
__attribute__((cold)) void *pool_make(struct pool *pool);

static inline void *pool_take_raw(struct pool *pool) {
    if (!pool->free)
        return pool_make(pool);
    struct pool_slot *slot = pool_at(pool, pool->free - 1);
    pool->free = slot->next_free;
    pool->used++;
    slot->used = true;
    return slot;
}

/* What will be taken next. */
static inline void pool_prefetch(const struct pool *pool) {
    if (!pool->free)
        return;
    const char *next = pool_at(pool, pool->free - 1);
    for (uint32_t i = 0; i < pool->object_bytes; i += 64)
        __builtin_prefetch(next + i, 1);
}

static inline void pool_give(struct pool *pool, void *object) {
    struct pool_slot *slot = object;
    slot->used = false;
    slot->generation++;
    slot->next_free = pool->free;
    pool->free = slot->index + 1;
    pool->used--;
}

static inline bool pool_spare(struct pool *pool) {
    void *object = pool->free ? 0 : pool_make(pool);
    if (object)
        pool_give(pool, object);
    return pool->free != 0;
}

/* The same if it is in use, else NULL. */
static inline void *pool_find(const struct pool *pool, uint32_t index) {
    if (index >= pool->made)
        return 0;
    struct pool_slot *slot = pool_at(pool, index);
    return slot->used ? slot : 0;
}

/* A number that names the object in this life only. */
static inline uint64_t pool_number(const void *object) {
    const struct pool_slot *slot = object;
    return (uint64_t)slot->generation << 32 | slot->index;
}

/* The object of that number; NULL: it is gone. */
static inline void *pool_named(const struct pool *pool, uint64_t number) {
    struct pool_slot *slot = pool_find(pool, (uint32_t)number);
    return slot && slot->generation == number >> 32 ? slot : 0;
}

#endif
