/* The metadata service of the store by itself: where extents are, what a commit makes visible and
 * when, what is freed when, nodes that die, and what is repaired. */
#include "storage/store_meta.h"

#include <string.h>

#include "lib/store_history.h"
#include "storage/store_blocks.h"

#define LIFETIME 100u

static struct store_meta *meta_of(uint32_t nodes, uint32_t blocks) {
    struct store_meta *m = store_meta_new(&(struct store_meta_options){
        .nodes = nodes, .node_bytes = (uint64_t)blocks * STORE_BLOCK, .lifetime = LIFETIME});
    CHECK(m);
    return m;
}

static uint32_t object_of(struct store_meta *m, const char *name, enum spinstore_strategy strategy,
                          uint32_t k, uint32_t parities) {
    const struct store_object *o;
    const struct spinstore_policy p = {.strategy = strategy, .k = k, .m = parities};
    CHECK_EQ(store_meta_open(m, name, &p, &o), STORE_OK);
    return o->id;
}

/* One extent, allocated and committed. */
static uint32_t written(struct store_meta *m, uint64_t now, uint32_t client, uint32_t object,
                        uint64_t write, uint64_t offset, uint32_t length) {
    uint32_t e;
    CHECK_EQ(store_meta_allocate(m, now, client, object, write, offset, length, &e), STORE_OK);
    CHECK_EQ(store_history_seal(m, now, client, write, e, true), STORE_OK);
    CHECK(store_meta_consistent(m));
    return e;
}

TEST(blocks_in_a_row) {
    struct store_blocks b;
    CHECK(store_blocks_new(&b, 200));
    CHECK_EQ(store_blocks_take(&b, 201), STORE_NO_BLOCK);
    CHECK_EQ(store_blocks_take(&b, 130), 0);
    CHECK_EQ(store_blocks_take(&b, 70), 130);
    CHECK_EQ(store_blocks_take(&b, 1), STORE_NO_BLOCK);
    store_blocks_give(&b, 60, 8);
    store_blocks_give(&b, 100, 30);
    CHECK_EQ(store_blocks_take(&b, 31), STORE_NO_BLOCK); /* 38 are free, not in a row */
    CHECK_EQ(store_blocks_take(&b, 30), 100);
    CHECK_EQ(store_blocks_take(&b, 3), 60); /* from the beginning again */
    CHECK_EQ(store_blocks_take(&b, 6), STORE_NO_BLOCK);
    CHECK_EQ(store_blocks_take(&b, 5), 63);
    CHECK_EQ(b.free, 0);
    store_blocks_free(&b);
}

TEST(policies_have_their_places_and_limits) {
    const struct spinstore_policy rs = {SPINSTORE_RS, 10, 4};
    CHECK_EQ(store_policy_places(&rs), 14);
    CHECK_EQ(store_policy_width(&rs), 10);
    CHECK(store_policy_valid(&rs));
    CHECK(!store_policy_valid(&(struct spinstore_policy){SPINSTORE_RS, 11, 4}));
    CHECK(!store_policy_valid(&(struct spinstore_policy){SPINSTORE_RS, UINT32_MAX, 2}));
    CHECK(!store_policy_valid(&(struct spinstore_policy){SPINSTORE_RING, 9, 0}));
    CHECK(!store_policy_valid(&(struct spinstore_policy){SPINSTORE_TREE, 0, 0}));
    CHECK(!store_policy_valid(&(struct spinstore_policy){(enum spinstore_strategy)7, 1, 0}));
    for (uint32_t k = 1; k <= 13; k++)
        for (uint32_t length = 1; length <= STORE_EXTENT_BYTES; length = length * 3 + 1) {
            const struct spinstore_policy p = {SPINSTORE_RS, k, 1};
            uint32_t chunk = store_chunk_of(&p, length), piece = store_piece_of(&p, chunk);
            CHECK(chunk % 8 == 0 && (uint64_t)chunk * k >= length && chunk < length / k + 9);
            CHECK(k * store_pieces(chunk, piece) <= STORE_PIECES);
        }
}

TEST(objects_are_found_by_name) {
    struct store_meta *m = meta_of(3, 64);
    const struct store_object *o;
    char name[80] = "";
    CHECK_EQ(store_meta_open(m, "", NULL, &o), STORE_BAD);
    memset(name, 'x', 64);
    CHECK_EQ(store_meta_open(m, name, NULL, &o), STORE_BAD);
    CHECK_EQ(store_meta_open(m, "a", NULL, &o), STORE_NO_OBJECT);
    CHECK_EQ(store_meta_open(m, "a", &(struct spinstore_policy){SPINSTORE_RING, 4, 0}, &o),
             STORE_NO_NODES);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "object %d", i);
        CHECK_EQ(object_of(m, name, SPINSTORE_RING, 1 + (uint32_t)i % 3, 0), i);
    }
    for (int i = 0; i < 500; i += 2)
        CHECK_EQ(store_meta_remove(m, 0, (uint32_t)i), STORE_OK);
    CHECK_EQ(store_meta_remove(m, 0, 4), STORE_NO_OBJECT);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof name, "object %d", i);
        CHECK_EQ(store_meta_open(m, name, NULL, &o), i % 2 ? STORE_OK : STORE_NO_OBJECT);
        CHECK(i % 2 == 0 || (o->id == (uint32_t)i && o->policy.k == 1 + (uint32_t)i % 3));
    }
    /* another policy does not change what is there */
    CHECK_EQ(object_of(m, "object 7", SPINSTORE_PLAIN, 0, 0), 7);
    CHECK_EQ(store_meta_object(m, 7)->policy.strategy, SPINSTORE_RING);
    CHECK_EQ(store_meta_count(m).objects, 250);
    store_meta_free(m);
}

TEST(an_extent_is_on_different_nodes) {
    struct store_meta *m = meta_of(6, 64);
    uint32_t o = object_of(m, "o", SPINSTORE_RS, 4, 2);
    uint32_t at = written(m, 0, 9, o, 1, 0, 30000);
    const struct store_extent *e = store_meta_extent(m, at);
    uint32_t seen = 0;
    for (uint32_t i = 0; i < 6; i++)
        seen |= 1u << e->place[i].node;
    CHECK_EQ(seen, 63);
    CHECK_EQ(e->chunk, 7504);
    for (uint32_t n = 0; n < 6; n++)
        CHECK_EQ(store_meta_free_blocks(m, n), 62);
    store_meta_free(m);
}

TEST(only_a_commit_is_seen_and_it_is_one_step) {
    struct store_meta *m = meta_of(3, 64);
    uint32_t o = object_of(m, "o", SPINSTORE_RING, 2, 0), a, b;
    const struct store_object *object = store_meta_object(m, o);
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 1, 0, 4096, &a), STORE_OK);
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 1, 4096, 100, &b), STORE_OK);
    CHECK_EQ(store_history_seal(m, 0, 5, 1, a, false), STORE_OK);
    CHECK(object->size == 0 && object->segment_count == 0 && object->version == 0);
    CHECK_EQ(store_history_seal(m, 0, 6, 1, b, true), STORE_STALE); /* another client */
    CHECK_EQ(store_history_seal(m, 0, 5, 2, b, true), STORE_STALE); /* another write */
    CHECK_EQ(store_meta_seal(m, 0, 5, 1, b, (uint32_t[]){1, 2}, 2, true), STORE_BAD);
    CHECK_EQ(store_history_seal(m, 0, 5, 1, b, true), STORE_OK);
    CHECK(object->size == 4196 && object->segment_count == 2 && object->version == 1);
    CHECK_EQ(store_history_seal(m, 0, 5, 1, b, true), STORE_STALE); /* once */
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 1, 0, 1, &a), STORE_STALE);
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 0, 0, 1, &a), STORE_BAD);
    /* one of two is not sealed: neither is seen */
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 2, 0, 10, &a), STORE_OK);
    CHECK_EQ(store_meta_allocate(m, 0, 5, o, 2, 10, 10, &b), STORE_OK);
    CHECK_EQ(store_history_seal(m, 0, 5, 2, b, true), STORE_STALE);
    CHECK_EQ(object->version, 1);
    CHECK_EQ(store_meta_count(m).dying, 2);
    CHECK(store_meta_consistent(m));
    store_meta_free(m);
}

TEST(limits_of_a_write) {
    struct store_meta *m = meta_of(1, 1 << 16);
    uint32_t o = object_of(m, "o", SPINSTORE_PLAIN, 0, 0), e;
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, 0, 0, &e), STORE_BAD);
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, 0, STORE_EXTENT_BYTES + 1, &e), STORE_BAD);
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, UINT64_MAX, 1, &e), STORE_BAD);
    CHECK_EQ(store_meta_allocate(m, 0, 1, 7, 1, 0, 1, &e), STORE_NO_OBJECT);
    CHECK_EQ(store_meta_allocate(m, 0, UINT32_MAX, o, 1, 0, 1, &e), STORE_NO_SPACE);
    for (uint32_t i = 0; i < STORE_WRITE_EXTENTS; i++)
        CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, i, 1, &e), STORE_OK);
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, 0, 1, &e), STORE_BAD);
    /* a client that begins another write gives up the one before */
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 2, 0, 1, &e), STORE_OK);
    CHECK_EQ(store_meta_count(m).dying, STORE_WRITE_EXTENTS);
    store_meta_free(m);
}

TEST(blocks_are_used_again_when_capabilities_have_expired) {
    struct store_meta *m = meta_of(1, 4);
    uint32_t o = object_of(m, "o", SPINSTORE_PLAIN, 0, 0), e;
    uint32_t first = written(m, 0, 1, o, 1, 0, 2 * STORE_BLOCK);
    CHECK_EQ(store_meta_lend(m, 50, first), 150); /* somebody reads it */
    written(m, 60, 1, o, 2, 0, 2 * STORE_BLOCK);
    CHECK_EQ(store_meta_allocate(m, 149, 1, o, 3, 0, 1, &e), STORE_NO_SPACE);
    CHECK(store_meta_consistent(m));
    CHECK_EQ(store_meta_allocate(m, 250, 1, o, 3, 0, 2 * STORE_BLOCK, &e), STORE_OK);
    /* an allocation that nobody commits */
    CHECK_EQ(store_history_seal(m, 350, 1, 3, e, true), STORE_STALE);
    store_meta_expire(m, 1000);
    CHECK_EQ(store_meta_free_blocks(m, 0), 2);
    CHECK_EQ(store_meta_remove(m, 1000, o), STORE_OK);
    store_meta_expire(m, 2000);
    CHECK_EQ(store_meta_free_blocks(m, 0), 4);
    CHECK(store_meta_consistent(m));
    store_meta_free(m);
}

/* Random writes, against an array in which each byte says which write it is of. */
TEST(later_commits_cover_earlier_ones) {
    enum { BYTES = 600 };
    struct rng r = rng_seeded(5);
    for (int round = 0; round < 20; round++) {
        struct store_meta *m = meta_of(4, 4096);
        uint32_t o = object_of(m, "o", SPINSTORE_TREE, 3, 0), model[BYTES] = {0}, size = 0;
        for (uint32_t write = 1; write < 100; write++) {
            uint32_t at = rng_below(&r, BYTES), bytes = 1 + rng_below(&r, BYTES - at), e;
            uint32_t cut = rng_below(&r, bytes); /* in two extents, maybe */
            snprintf(test_context, sizeof test_context, "round %d, write %u", round, write);
            if (cut) {
                CHECK_EQ(store_meta_allocate(m, write, 1, o, write, at, cut, &e), STORE_OK);
                CHECK_EQ(store_history_seal(m, write, 1, write, e, false), STORE_OK);
            }
            CHECK_EQ(store_meta_allocate(m, write, 1, o, write, at + cut, bytes - cut, &e),
                     STORE_OK);
            if (rng_below(&r, 4) == 0)
                continue; /* never committed */
            CHECK_EQ(store_history_seal(m, write, 1, write, e, true), STORE_OK);
            for (uint32_t i = at; i < at + bytes; i++)
                model[i] = write;
            size = at + bytes > size ? at + bytes : size;
            CHECK(store_meta_consistent(m));
            const struct store_object *object = store_meta_object(m, o);
            CHECK_EQ(object->size, size);
            for (uint32_t i = 0; i < size; i++) {
                uint32_t s = store_meta_segment(object, i);
                bool there = s < object->segment_count && object->segment[s].offset <= i;
                CHECK_EQ(there ? store_meta_extent(m, object->segment[s].extent)->write : 0,
                         model[i]);
            }
        }
        store_meta_free(m);
    }
}

TEST(a_dead_node_gets_no_extents_and_refuses_commits) {
    struct store_meta *m = meta_of(3, 64);
    uint32_t o = object_of(m, "o", SPINSTORE_RING, 3, 0), e;
    uint32_t two = object_of(m, "two", SPINSTORE_RING, 2, 0);
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 1, 0, 1, &e), STORE_OK);
    store_meta_dead(m, 1);
    store_meta_dead(m, 77);
    CHECK(!store_meta_lives(m, 1) && store_meta_lives(m, 2) && !store_meta_lives(m, 77));
    CHECK_EQ(store_history_seal(m, 0, 1, 1, e, true), STORE_STALE);
    CHECK_EQ(store_meta_allocate(m, 0, 1, o, 2, 0, 1, &e), STORE_NO_NODES);
    for (uint64_t i = 0; i < 20; i++) {
        const struct store_extent *x = store_meta_extent(m, written(m, 0, 1, two, 3 + i, i, 1));
        CHECK(x->place[0].node != 1 && x->place[1].node != 1);
    }
    CHECK_EQ(store_meta_back(m, 2), STORE_BAD);
    CHECK_EQ(store_meta_back(m, 1), STORE_OK);
    written(m, 0, 1, o, 99, 0, 1);
    store_meta_free(m);
}

TEST(what_is_repaired) {
    struct store_meta *m = meta_of(7, 64);
    uint32_t rs = object_of(m, "rs", SPINSTORE_RS, 4, 2), other;
    uint32_t plain = object_of(m, "plain", SPINSTORE_PLAIN, 0, 0);
    uint32_t e = written(m, 0, 1, rs, 1, 0, 100000);
    uint32_t lost = STORE_NO_EXTENT, count = 0;
    struct store_repair r, first;
    CHECK_EQ(store_meta_repair(m, 0, 2, 0, &r), STORE_NOTHING);
    uint32_t victim = store_meta_extent(m, e)->place[2].node;
    for (uint64_t i = 0; i < 7; i++) {
        uint32_t at = written(m, 0, 1, plain, 2 + i, 8 * i, 8);
        if (store_meta_extent(m, at)->place[0].node == victim)
            lost = at;
    }
    store_meta_dead(m, victim);
    CHECK_EQ(store_meta_count(m).damaged, 2);
    CHECK_EQ(store_meta_repair(m, 0, 2, 0, &first), STORE_OK);
    CHECK(first.extent == e && first.index == 2);
    const struct store_extent *t = store_meta_extent(m, first.target);
    for (uint32_t i = 0; i < 6; i++)
        CHECK(t->place[0].node != store_meta_extent(m, e)->place[i].node);
    CHECK_EQ(t->chunk, store_meta_extent(m, e)->chunk);
    /* the only node without a part of it has been taken by nobody yet, so another may try too */
    CHECK_EQ(store_meta_repair(m, 0, 3, 0, &r), STORE_OK);
    CHECK_EQ(store_meta_repaired(m, 0, 3, &first), STORE_STALE); /* not its own */
    CHECK_EQ(store_meta_repaired(m, 0, 2, &first), STORE_OK);
    CHECK_EQ(store_meta_repaired(m, 0, 3, &r), STORE_STALE); /* it is repaired */
    CHECK(store_meta_consistent(m));
    CHECK_EQ(store_meta_count(m).damaged, 1);
    CHECK(lost != STORE_NO_EXTENT);
    CHECK_EQ(store_meta_repair(m, 0, 2, 0, &r), STORE_LOST);
    CHECK_EQ(r.extent, lost);
    CHECK_EQ(store_meta_repair(m, 0, 2, lost + 1, &r), STORE_NOTHING);
    CHECK_EQ(store_meta_back(m, victim), STORE_BAD); /* something is still known to be there */
    written(m, 0, 1, plain, 50, store_meta_extent(m, lost)->offset, 8);
    CHECK_EQ(store_meta_back(m, victim), STORE_OK);
    CHECK(store_meta_consistent(m));
    /* three of six are gone: two parities do not bring them back */
    for (uint32_t i = 0; count < 3 && i < 6; i++, count++)
        store_meta_dead(m, store_meta_extent(m, e)->place[i].node);
    CHECK_EQ(store_meta_repair(m, 0, 2, 0, &r), STORE_LOST);
    CHECK_EQ(store_meta_allocate(m, 0, 1, rs, 60, 0, 1, &other), STORE_NO_NODES);
    store_meta_expire(m, 10000);
    CHECK(store_meta_consistent(m));
    store_meta_free(m);
}

/* Whatever is asked in whatever order: blocks and segments agree, and in the end all is free. */
TEST(random_histories_stay_consistent) {
    for (uint32_t round = 0; round < 15; round++) {
        struct store_history h = {.meta = meta_of(6, 96), .random = rng_seeded(17 + round)};
        struct store_meta *m = h.meta;
        for (int step = 0; step < 300; step++) {
            snprintf(test_context, sizeof test_context, "round %u, step %d", round, step);
            store_history_step(&h);
            CHECK(store_meta_consistent(m));
        }
        for (uint32_t i = 0; i < 300; i++)
            store_meta_remove(m, h.now, i);
        for (uint32_t i = 0; i < 3; i++)
            store_meta_abandon(m, h.now, i, h.write[i]);
        store_meta_expire(m, h.now + 3 * LIFETIME);
        store_meta_expire(m, h.now + 6 * LIFETIME);
        for (uint32_t n = 0; n < 6; n++)
            CHECK_EQ(store_meta_free_blocks(m, n), 96);
        store_meta_free(m);
    }
}

TEST_MAIN
