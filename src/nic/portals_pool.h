/* Objects of one kind, from a pool that grows by doubling up to a limit: addresses stay, indices
 * are small and dense, and a generation tells an object from its predecessors in the same place. */
#ifndef SPIN_NIC_PORTALS_POOL_H
#define SPIN_NIC_PORTALS_POOL_H

#include <stdbool.h>
#include <stdint.h>

/* What every object begins with. */
struct portals_slot {
    uint32_t index, generation;
    uint32_t next_free;
    bool used;
};

#define PORTALS_POOL_CHUNKS 28
#define PORTALS_POOL_FIRST  8u /* objects in the first chunk; each next one has twice as many */

struct portals_pool {
    uint32_t object_bytes, limit;
    uint32_t used, made; /* now; ever, so that indices below it exist */
    uint32_t free;       /* index + 1; 0: none */
    uint8_t *chunk[PORTALS_POOL_CHUNKS];
};

void portals_pool_init(struct portals_pool *pool, uint32_t object_bytes, uint32_t limit);
void portals_pool_clear(struct portals_pool *pool);
/* Zero but for its slot; NULL: at the limit, or no memory. */
void *portals_pool_take(struct portals_pool *pool);
void portals_pool_give(struct portals_pool *pool, void *object);

/* The object with an index below `made`. */
static inline void *portals_pool_at(const struct portals_pool *pool, uint32_t index) {
    uint32_t chunk = 31u - (uint32_t)__builtin_clz(index / PORTALS_POOL_FIRST + 1);
    uint32_t before = PORTALS_POOL_FIRST * ((1u << chunk) - 1);
    return pool->chunk[chunk] + (uint64_t)(index - before) * pool->object_bytes;
}

/* The same if it is in use, else NULL. */
static inline void *portals_pool_find(const struct portals_pool *pool, uint32_t index) {
    if (index >= pool->made)
        return 0;
    struct portals_slot *slot = portals_pool_at(pool, index);
    return slot->used ? slot : 0;
}

#endif
