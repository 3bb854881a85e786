#include "base/pool.h"

#include <stdlib.h>
#include <string.h>

#define MOST_CHUNKS 30u

void pool_init(struct pool *pool, uint32_t object_bytes, uint32_t limit) {
    uint32_t last = limit > 1 ? limit - 1 : 1;
    *pool = (struct pool){.object_bytes = (object_bytes + 15) & ~15u,
                          .limit = limit,
                          .mask = UINT32_MAX >> __builtin_clz(last)};
}

void pool_clear(struct pool *pool) {
    for (uint32_t i = 0; i < pool->chunks; i++)
        free((void *)(pool->chunk[i] + ((uintptr_t)pool->object_bytes << i)));
    free(pool->chunk);
    pool_init(pool, pool->object_bytes, pool->limit);
}

static bool grow(struct pool *pool) {
    uintptr_t *chunk = realloc(pool->chunk, (pool->chunks + 1) * sizeof *chunk);
    if (!chunk)
        return false;
    pool->chunk = chunk;
    const void *objects = calloc((size_t)1 << pool->chunks, pool->object_bytes);
    if (!objects)
        return false;
    pool->chunk[pool->chunks] =
        (uintptr_t)objects - ((uintptr_t)pool->object_bytes << pool->chunks);
    pool->chunks++;
    return true;
}

/* What is free is taken before more is made, so at the limit nothing is free. */
void *pool_make(struct pool *pool) {
    uint32_t chunk = 31u ^ (uint32_t)__builtin_clz(pool->made + 1);
    if (pool->made >= pool->limit || chunk >= MOST_CHUNKS || (chunk == pool->chunks && !grow(pool)))
        return NULL;
    struct pool_slot *slot = pool_at(pool, pool->made);
    slot->index = pool->made++;
    slot->used = true;
    pool->used++;
    return slot;
}

void *pool_take(struct pool *pool) {
    struct pool_slot *slot = pool_take_raw(pool);
    if (slot)
        memset(slot + 1, 0, pool->object_bytes - sizeof *slot);
    return slot;
}
