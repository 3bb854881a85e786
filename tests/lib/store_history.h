/* Random histories of the store's metadata: three clients, four objects, six nodes that die and
 * come back. */
#ifndef TEST_STORE_HISTORY_H
#define TEST_STORE_HISTORY_H

#include "base/rng.h"
#include "lib/test.h"
#include "storage/store_meta.h"

struct store_history {
    struct store_meta *meta;
    struct rng random;
    uint64_t now, write[3];
    uint32_t extent[3];
};

static inline enum store_status store_history_seal(struct store_meta *m, uint64_t now,
                                                   uint32_t client, uint64_t write, uint32_t extent,
                                                   bool last) {
    uint32_t sums[STORE_PIECES];
    const struct store_extent *e = store_meta_extent(m, extent);
    uint32_t count = e ? store_policy_width(&e->policy) * store_pieces(e->chunk, e->piece) : 1;
    for (uint32_t i = 0; i < count; i++)
        sums[i] = (uint32_t)write + i;
    return store_meta_seal(m, now, client, write, extent, sums, count, last);
}

static inline void store_history_step(struct store_history *h) {
    static const struct spinstore_policy policies[] = {{SPINSTORE_PLAIN, 0, 0},
                                                       {SPINSTORE_RING, 3, 0},
                                                       {SPINSTORE_TREE, 5, 0},
                                                       {SPINSTORE_RS, 3, 2}};
    struct store_meta *m = h->meta;
    struct rng *r = &h->random;
    const struct store_object *o;
    struct store_repair repair;
    uint32_t client = rng_below(r, 3), object = rng_below(r, 4);
    h->now += rng_below(r, 20);
    switch (rng_below(r, 9)) {
    case 0:
        store_meta_open(m, (char[]){(char)('a' + object), 0}, &policies[object], &o);
        break;
    case 1:
    case 2:
    case 3:
        h->write[client] += rng_below(r, 2);
        store_meta_allocate(m, h->now, client, object, h->write[client], rng_below(r, 50000),
                            1 + rng_below(r, 60000), &h->extent[client]);
        break;
    case 4:
    case 5:
        store_history_seal(m, h->now, client, h->write[client], h->extent[client],
                           rng_below(r, 3) > 0);
        break;
    case 6:
        if (rng_below(r, 5) == 0)
            store_meta_dead(m, rng_below(r, 6));
        else
            store_meta_back(m, rng_below(r, 6));
        break;
    case 7:
        if (store_meta_repair(m, h->now, client, 0, &repair) == STORE_OK && rng_below(r, 4) > 0)
            CHECK_EQ(store_meta_repaired(m, h->now, client, &repair), STORE_OK);
        break;
    default:
        if (rng_below(r, 20) == 0)
            store_meta_remove(m, h->now, object);
        store_meta_abandon(m, h->now, client, h->write[client]);
    }
}

#endif
