#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#define MOST_CHUNKS 30u

void pool_init(struct pool *pool, uint32_t object_bytes, uint32_t limit) {
    *pool = (struct pool){.object_bytes = (object_bytes + 15) & ~15u, .limit = limit};
}

void pool_clear(struct pool *pool) {
    for (uint32_t i = 0; i < pool->chunks; i++)
        free(pool->chunk[i]);
    free(pool->chunk);
    pool_init(pool, pool->object_bytes, pool->limit);
}

static bool grow(struct pool *pool) {
    uint8_t **chunk = realloc(pool->chunk, (pool->chunks + 1) * sizeof *chunk);
    if (!chunk)
        return false;
    pool->chunk = chunk;
    pool->chunk[pool->chunks] = calloc(POOL_FIRST << pool->chunks, pool->object_bytes);
    if (!pool->chunk[pool->chunks])
        return false;
    pool->chunks++;
    return true;
}

static struct pool_slot *make(struct pool *pool) {
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(pool->made / POOL_FIRST + 1);
    if (chunk >= MOST_CHUNKS || (chunk == pool->chunks && !grow(pool)))
        return NULL;
    struct pool_slot *slot = pool_at(pool, pool->made);
    slot->index = pool->made++;
    return slot;
}

void *pool_take_raw(struct pool *pool) {
    if (pool->used >= pool->limit)
        return NULL;
    struct pool_slot *slot;
    if (pool->free) {
        slot = pool_at(pool, pool->free - 1);
        pool->free = slot->next_free;
    } else if (!(slot = make(pool))) {
        return NULL;
    }
    pool->used++;
    slot->used = true;
    return slot;
}

void *pool_take(struct pool *pool) {
    struct pool_slot *slot = pool_take_raw(pool);
    if (slot)
        memset(slot + 1, 0, pool->object_bytes - sizeof *slot);
    return slot;
}

void pool_give(struct pool *pool, void *object) {
    struct pool_slot *slot = object;
    slot->used = false;
    slot->generation++;
    slot->next_free = pool->free;
    pool->free = slot->index + 1;
    pool->used--;
}
