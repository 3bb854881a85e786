#include "nic/portals_pool.h"

#include <stdlib.h>
#include <string.h>

void portals_pool_init(struct portals_pool *pool, uint32_t object_bytes, uint32_t limit) {
    *pool = (struct portals_pool){.object_bytes = (object_bytes + 15) & ~15u, .limit = limit};
}

void portals_pool_clear(struct portals_pool *pool) {
    for (int i = 0; i < PORTALS_POOL_CHUNKS; i++)
        free(pool->chunk[i]);
    portals_pool_init(pool, pool->object_bytes, pool->limit);
}

static struct portals_slot *make(struct portals_pool *pool) {
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(pool->made / PORTALS_POOL_FIRST + 1);
    if (chunk >= PORTALS_POOL_CHUNKS)
        return NULL;
    if (!pool->chunk[chunk]) {
        pool->chunk[chunk] = calloc(PORTALS_POOL_FIRST << chunk, pool->object_bytes);
        if (!pool->chunk[chunk])
            return NULL;
    }
    struct portals_slot *slot = portals_pool_at(pool, pool->made);
    slot->index = pool->made++;
    return slot;
}

void *portals_pool_take(struct portals_pool *pool) {
    if (pool->used >= pool->limit)
        return NULL;
    struct portals_slot *slot;
    if (pool->free) {
        slot = portals_pool_at(pool, pool->free - 1);
        pool->free = slot->next_free;
    } else {
        slot = make(pool);
    }
    if (!slot)
        return NULL;
    pool->used++;
    memset(slot + 1, 0, pool->object_bytes - sizeof *slot);
    slot->used = true;
    return slot;
}

void portals_pool_give(struct portals_pool *pool, void *object) {
    struct portals_slot *slot = object;
    slot->used = false;
    slot->generation++;
    slot->next_free = pool->free;
    pool->free = slot->index + 1;
    pool->used--;
}
