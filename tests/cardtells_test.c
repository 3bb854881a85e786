/* What a card tells of a run: distributions are exact, parts add up, every packet is accounted for.
 */
#include "lib/cardworld.h"
#include "sim/spread.h"

static int by_size(const void *a, const void *b) {
    const uint64_t *p = a, *q = b;
    return *p < *q ? -1 : *p > *q;
}

/* Against sorting all values: small ones, large ones, ones that repeat. */
TEST(percentiles_are_exact) {
    enum { MOST = 5000 };
    static uint64_t value[MOST];
    struct rng rng = rng_seeded(7);
    for (uint32_t n = 1; n <= MOST; n = n * 3 + 1) {
        struct spread half[2] = {{0}};
        struct spin_spread out;
        uint64_t sum = 0;
        for (uint32_t i = 0; i < n; i++) {
            value[i] = rng_u64(&rng) >> (rng_u64(&rng) % 3 ? 56 : 24);
            sum += value[i];
            spread_add(&half[i % 2], value[i]);
        }
        spread_report(&(struct spread_set){half, sizeof *half, 2}, &out);
        qsort(value, n, sizeof *value, by_size);
        CHECK_EQ(out.count, n);
        CHECK_EQ(out.sum, sum);
        CHECK_EQ(out.least, value[0]);
        CHECK_EQ(out.most, value[n - 1]);
        CHECK_EQ(out.p50, value[(n * 500 + 999) / 1000 - 1]);
        CHECK_EQ(out.p90, value[(n * 900 + 999) / 1000 - 1]);
        CHECK_EQ(out.p99, value[(n * 990 + 999) / 1000 - 1]);
        CHECK_EQ(out.p999, value[(n * 999 + 999) / 1000 - 1]);
        spread_free(&half[0]);
        spread_free(&half[1]);
    }
}

static void check_sums(const struct card_stats *s) {
    uint64_t sum = 0;
    for (unsigned i = CARD_PART_WRITE + 1; i < CARD_PART_LATENCY; i++) {
        CHECK_EQ(s->part[i].count, s->completed);
        sum += s->part[i].sum;
    }
    CHECK_EQ(sum, s->part[CARD_PART_LATENCY].sum);
    CHECK_EQ(sum + s->part[CARD_PART_WRITE].sum, s->part[CARD_PART_TOTAL].sum);
    uint64_t through = 0;
    for (unsigned i = 0; i < SPIN_CARD_FATE_COUNT; i++)
        through += s->fate[i];
    CHECK_EQ(through, s->completed + s->dropped + s->refused);
}

/* With all three handlers, and so few cells that packets wait for one. */
TEST(parts_add_up_to_the_latency) {
    struct world *w = world_new();
    handlers(w, "order_hh", "order_ph", "order_th");
    set(w, "cells=3");
    set(w, "clusters=1");
    build(w);
    for (uint32_t i = 0; i < 400; i++)
        add(w, i / 20, 64 + i % 7 * 100, i % 20 == 19, (uint64_t)i * 4321);
    run(w);
    check_sums(&w->stats);
    CHECK_EQ(w->stats.completed, 400);
    CHECK(w->stats.part[CARD_PART_CELL].most > 0);
    CHECK(w->stats.part[CARD_PART_MESSAGE].most > 0);
    struct card_stats mine;
    card_context_stats(w->card, 0, &mine);
    check_sums(&mine); /* one context: it has done everything */
    CHECK_EQ(mine.completed, w->stats.completed);
    CHECK_EQ(mine.throughput_mbit, w->stats.throughput_mbit);
    CHECK_EQ(mine.hpu_busy_ps, w->stats.hpu_busy_ps);
    CHECK_EQ(mine.cluster_dma_busy_ps, w->stats.cluster_dma_busy_ps);
    for (unsigned u = 0; u < CARD_UNIT_COUNT; u++)
        CHECK_EQ(mine.unit_busy_ps[u], w->stats.unit_busy_ps[u]);
    world_free(w);
}

/* A full buffer that drops, and one that holds the source. */
TEST(refusals_and_backpressure_have_a_reason) {
    static const char *const policies[] = {"policy=drop", "policy=backpressure"};
    for (int i = 0; i < 2; i++) {
        struct world *w = world_new();
        handlers(w, NULL, "order_ph", NULL);
        set(w, policies[i]);
        set(w, "l2_packet_bytes=4KiB");
        build(w);
        for (uint32_t k = 0; k < 200; k++)
            add(w, 0, 1024, k == 199, (uint64_t)k * 1000);
        run(w);
        check_sums(&w->stats);
        CHECK_EQ(w->stats.fate[SPIN_CARD_FATE_BUFFER_FULL] > 0, i == 0);
        CHECK_EQ(w->stats.fate[SPIN_CARD_FATE_BUFFER_FULL], w->stats.refused);
        CHECK_EQ(w->stats.held[0] > 0, i == 1);
        CHECK_EQ(w->stats.held_ps[0] > 0, i == 1);
        CHECK_EQ(w->stats.held[1], 0);
        world_free(w);
    }
}

TEST_MAIN
