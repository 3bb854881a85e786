/* Every workload of handlers/ on cards of 1, 4, 8 and 32 HPUs, at several quanta, with packets in
 * order and in any: what comes of it is what plain C computes, and the same seed gives the same
 * digest of results. OPENSPIN_SEEDS=N takes N orders of packets instead of two. */
#include "lib/test.h"
#include "lib/workloads.h"

#include "on_card.h"

/* Handlers that add up what clusters have are compiled for a number of clusters (NB_CLUSTERS). */
static const struct shape {
    const char *images, *clusters, *hpus;
    uint64_t count;
} shapes[] = {
    {ONE_CLUSTER, "clusters=1", "cluster_hpus=1", 1},
    {ONE_CLUSTER, "clusters=1", "cluster_hpus=4", 4},
    {ONE_CLUSTER, "clusters=1", "cluster_hpus=8", 8},
    {IMAGES, "clusters=4", "cluster_hpus=1", 4},
    {IMAGES, "clusters=4", "cluster_hpus=2", 8},
    {IMAGES, "clusters=4", "cluster_hpus=8", 32},
};
#define SHAPES (sizeof shapes / sizeof shapes[0])

/* Lock step, the default, and more than any of these handlers runs without a command. */
static const char *const quanta[] = {"quantum=1", "quantum=128", "quantum=100000"};

/* Some HPUs busy, as fast as the card takes them, one packet after the other. */
static const uint64_t interval_ps[] = {5000, 0, 300000};

static uint64_t run_once(size_t which, const struct shape *shape, const char *quantum,
                         uint64_t order, uint64_t seed) {
    struct workload_run *run;
    struct spin_error err;
    struct on_card_outcome outcome;
    struct on_card_options options = {.images = shape->images,
                                      .settings = {shape->clusters, shape->hpus, quantum},
                                      .order = order,
                                      .interval_ps = interval_ps[order % 3]};
    int count = 0;
    while (small[which].settings[count])
        count++;
    if (workload_open(&run, small[which].name, small[which].settings, count, seed, &err))
        TEST_FAIL("%.300s", err.text);
    int code = on_card(run, &options, &outcome, &err);
    workload_close(run);
    if (code)
        TEST_FAIL("%s, %s, %s, order %llu: %.400s", shape->clusters, shape->hpus, quantum,
                  (unsigned long long)order, err.text);
    CHECK_EQ(outcome.hpus, shape->count);
    return outcome.digest;
}

static uint64_t orders(void) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? strtoull(text, NULL, 10) : TEST_SANITIZED ? 1 : 2;
}

static void every_order(const char *quantum) {
    for (size_t i = 0; i < SMALL; i++)
        for (size_t s = 0; s < SHAPES; s++)
            for (uint64_t order = 0; order <= orders(); order++)
                run_once(i, &shapes[s], quantum, order, 1 + order);
}

TEST(in_any_order_in_lock_step) {
    every_order(quanta[0]);
}
TEST(in_any_order_at_the_default_quantum) {
    every_order(quanta[1]);
}
TEST(in_any_order_at_a_large_quantum) {
    every_order(quanta[2]);
}

/* One digest of everything that every workload leaves on every card, twice. */
TEST(the_same_seed_the_same_digest) {
    uint64_t all[3];
    for (int again = 0; again < 3; again++) {
        all[again] = 0;
        for (size_t i = 0; i < SMALL; i++)
            for (size_t s = 0; s < SHAPES; s++)
                all[again] = all[again] * 31 + run_once(i, &shapes[s], quanta[1], 7 + again / 2, 3);
    }
    printf("# digest %016llx\n", (unsigned long long)all[0]);
    CHECK(all[0] == all[1]);
    CHECK(all[0] != all[2]); /* another order of packets is seen in it */
}

TEST_MAIN
