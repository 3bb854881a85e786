#include "base/pool.h"

#include <string.h>

#define MOST_CHUNKS  31u
#define MOST_OBJECTS (UINT32_MAX >> 1) /* of all chunks together it is fewer */

void pool_init(struct pool *pool, struct zone *zone, uint32_t object_bytes, uint32_t limit) {
    uint32_t last = limit > 1 ? limit - 1 : 1;
    *pool = (struct pool){.object_bytes = (object_bytes + 15) & ~15u,
                          .limit = limit < MOST_OBJECTS ? limit : MOST_OBJECTS,
                          .zone = zone,
                          .mask = UINT32_MAX >> __builtin_clz(last)};
}

static size_t chunk_bytes(const struct pool *pool, uint32_t chunk) {
    return chunk ? pool_bytes_before(pool, chunk) : pool->object_bytes;
}

void pool_clear(struct pool *pool) {
    uint32_t chunks = pool->made ? pool_chunk_of(pool->made - 1) + 1 : 0;
    for (uint32_t i = 0; i < chunks; i++)
        zone_give(pool->zone, (void *)(pool->chunk[i] + pool_before(pool, i)),
                  chunk_bytes(pool, i));
    if (chunks > 1)
        zone_give(pool->zone, pool->chunk, chunks * sizeof *pool->chunk);
    pool_init(pool, pool->zone, pool->object_bytes, pool->limit);
}

/* The addresses of this chunk and those before it. */
static bool append_chunk(struct pool *pool, uint32_t chunk, uintptr_t address) {
    size_t bytes = chunk * sizeof address;
    uintptr_t *chunks = chunk ? zone_take(pool->zone, bytes + sizeof address) : &pool->only;
    if (!chunks)
        return false;
    if (chunk)
        memcpy(chunks, pool->chunk, bytes);
    if (chunk > 1)
        zone_give(pool->zone, pool->chunk, bytes);
    chunks[chunk] = address;
    pool->chunk = chunks;
    return true;
}

static bool grow(struct pool *pool, uint32_t chunk) {
    bool fresh = false;
    void *objects = zone_take_raw(pool->zone, chunk_bytes(pool, chunk), &fresh);
    if (!objects)
        return false;
    if (!append_chunk(pool, chunk, (uintptr_t)objects - pool_before(pool, chunk))) {
        zone_give(pool->zone, objects, chunk_bytes(pool, chunk));
        return false;
    }
    pool->clean = fresh;
    return true;
}

/* What is free is taken before more is made, so at the limit nothing is free. An object is cleared
 * here, not with its chunk: half of a chunk is mostly never used. */
void *pool_make(struct pool *pool) {
    uint32_t index = pool->made, chunk = pool_chunk_of(index);
    bool opens = (index & (index - 1)) == 0;
    if (pool->made >= pool->limit || chunk >= MOST_CHUNKS || (opens && !grow(pool, chunk)))
        return NULL;
    struct pool_slot *slot = pool_at(pool, pool->made);
    if (!pool->clean)
        memset(slot, 0, pool->object_bytes);
    slot->index = pool->made++;
    slot->used = true;
    pool->used++;
    return slot;
}

void *pool_take(struct pool *pool) {
    if (!pool->free)
        return pool_make(pool);
    struct pool_slot *slot = pool_take_raw(pool);
    memset(slot + 1, 0, pool->object_bytes - sizeof *slot);
    return slot;
}
