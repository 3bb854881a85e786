/* The event engine against a sorted array, on random programs. */
#include "lib/test.h"

#include "base/rng.h"
#include "sim/engine.h"

struct log_row {
    uint64_t at_ps, sequence;
    uint32_t id;
};

struct recorder {
    struct sim_engine *engine;
    struct log_row *rows;
    size_t count;
};

static void record(void *context, const struct sim_event *event) {
    struct recorder *r = context;
    r->rows[r->count++] =
        (struct log_row){event->at_ps, sim_order_sequence(event->order), event->with.u32[0]};
}

static int by_order(const void *a, const void *b) {
    const struct log_row *x = a, *y = b;
    if (x->at_ps != y->at_ps)
        return x->at_ps < y->at_ps ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

TEST(events_come_out_by_time_then_sequence) {
    enum { COUNT = 20000 };
    for (uint64_t seed = 1; seed <= 8; seed++) {
        struct rng rng = rng_seeded(seed);
        struct log_row *rows = calloc(2 * COUNT, sizeof *rows);
        struct recorder r = {sim_engine_new(NULL), rows + COUNT, 0};
        unsigned kind = sim_engine_kind(r.engine, record, &r);
        /* From everything at a few times to times spread over the whole range. */
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t at = rng_u64(&rng) >> (2 + rng_below(&rng, (uint32_t)(8 * seed - 2)));
            if (seed == 1)
                at = rng_below(&rng, 3);
            rows[i] = (struct log_row){at, i, i};
            CHECK_EQ(sim_order_sequence(
                         sim_schedule(r.engine, at, kind, (union sim_payload){.u32 = {i}})),
                     i);
        }
        CHECK_EQ(sim_run(r.engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
        qsort(rows, COUNT, sizeof *rows, by_order);
        CHECK_EQ(r.count, COUNT);
        for (size_t i = 0; i < COUNT; i++)
            if (memcmp(&rows[i], &r.rows[i], sizeof rows[i]) != 0)
                TEST_FAIL("seed %d: event %zu is %u, expected %u", (int)seed, i, r.rows[i].id,
                          rows[i].id);
        CHECK_EQ(sim_engine_counts(r.engine).pending, 0);
        CHECK_EQ(sim_engine_counts(r.engine).most_pending, COUNT);
        free(rows);
        sim_engine_free(r.engine);
    }
}

/* A second engine that is obviously right: scan for the least of what is pending. */
struct slow {
    struct log_row rows[4000];
    size_t count;
};

static struct log_row slow_take(struct slow *s) {
    size_t least = 0;
    for (size_t i = 1; i < s->count; i++)
        if (by_order(&s->rows[i], &s->rows[least]) < 0)
            least = i;
    struct log_row row = s->rows[least];
    s->rows[least] = s->rows[--s->count];
    return row;
}

struct churn {
    struct sim_engine *engine;
    struct slow slow;
    struct rng rng;
    unsigned kind;
    uint64_t sequence;
    uint32_t left;
    bool wrong;
};

/* Each event makes some new ones, is put back itself now and then (keeping its number), and now and
 * then one goes to the past. */
static void churn_step(void *context, const struct sim_event *event) {
    struct churn *c = context;
    struct log_row expected = slow_take(&c->slow);
    if (expected.at_ps != event->at_ps || expected.sequence != sim_order_sequence(event->order) ||
        expected.id != event->with.u32[0]) {
        c->wrong = true;
        sim_stop(c->engine);
        return;
    }
    for (uint32_t n = rng_below(&c->rng, 4); n > 0 && c->left; n--, c->left--) {
        uint64_t distance = rng_u64(&c->rng) >> (24 + rng_below(&c->rng, 40));
        uint64_t at = event->at_ps + distance;
        uint32_t what = rng_below(&c->rng, 8);
        if (what == 0)
            at = event->at_ps > distance ? event->at_ps - distance : 0;
        if (what <= 2 && n == 1) {
            c->slow.rows[c->slow.count++] = (struct log_row){at, expected.sequence, expected.id};
            sim_reinsert(c->engine, event, at, c->kind);
        } else {
            c->slow.rows[c->slow.count++] = (struct log_row){at, c->sequence++, c->left};
            sim_schedule(c->engine, at, c->kind, (union sim_payload){.u32 = {c->left}});
        }
    }
}

TEST(put_back_and_past_events_keep_the_order) {
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct churn *c = calloc(1, sizeof *c);
        c->engine = sim_engine_new(NULL);
        c->rng = rng_seeded(seed);
        c->kind = sim_engine_kind(c->engine, churn_step, c);
        c->left = 3500;
        for (uint32_t i = 0; i < 50; i++) {
            c->slow.rows[c->slow.count++] = (struct log_row){i / 10, c->sequence++, i};
            sim_schedule(c->engine, i / 10, c->kind, (union sim_payload){.u32 = {i}});
        }
        CHECK_EQ(sim_run(c->engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
        if (c->wrong || c->slow.count)
            TEST_FAIL("seed %d: order differs after %d events", (int)seed,
                      (int)sim_engine_counts(c->engine).handled);
        CHECK(sim_engine_counts(c->engine).handled > 1000);
        sim_engine_free(c->engine);
        free(c);
    }
}

TEST(a_run_stops_at_its_limits) {
    struct log_row rows[4];
    struct recorder r = {sim_engine_new(NULL), rows, 0};
    unsigned kind = sim_engine_kind(r.engine, record, &r);
    for (uint32_t i = 0; i < 4; i++)
        sim_schedule(r.engine, 100 * i, kind, (union sim_payload){.u32 = {i}});
    CHECK_EQ(sim_run(r.engine, 99, UINT64_MAX, NULL), SPIN_OK);
    CHECK_EQ(r.count, 1);
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 2, NULL), SPIN_OK);
    CHECK_EQ(r.count, 3);
    CHECK_EQ(sim_engine_counts(r.engine).now_ps, 200);
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 5, NULL), SPIN_OK);
    CHECK_EQ(r.count, 4);
    struct spin_error err;
    sim_schedule(r.engine, SIM_LATEST_PS, kind, (union sim_payload){.u32 = {9}});
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 5, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "limit");
    sim_engine_free(r.engine);
}

static uint64_t digest_of(uint64_t seed, int change) {
    struct log_row rows[100];
    struct recorder r = {sim_engine_new(NULL), rows, 0};
    struct rng rng = rng_seeded(seed);
    unsigned kind = sim_engine_kind(r.engine, record, &r);
    sim_engine_digest(r.engine);
    for (uint32_t i = 0; i < 100; i++)
        sim_schedule(r.engine, rng_u32(&rng) + (change == 1 && i == 50), kind,
                     (union sim_payload){.u32 = {i, 0, 0, change == 2 && i == 99}});
    sim_run(r.engine, SIM_FOREVER, UINT64_MAX, NULL);
    uint64_t digest = sim_engine_counts(r.engine).digest;
    sim_engine_free(r.engine);
    return digest;
}

TEST(the_digest_covers_time_and_payload) {
    CHECK(digest_of(1, 0) == digest_of(1, 0));
    CHECK(digest_of(1, 0) != digest_of(2, 0));
    CHECK(digest_of(1, 0) != digest_of(1, 1));
    CHECK(digest_of(1, 0) != digest_of(1, 2));
}

static void reschedule(void *context, const struct sim_event *event) {
    struct churn *c = context;
    if (c->left) {
        c->left--;
        sim_schedule(c->engine, event->at_ps + 1 + rng_below(&c->rng, 1000000), c->kind,
                     event->with);
    }
}

TEST(the_pool_does_not_grow_with_the_length_of_a_run) {
    struct churn *c = calloc(1, sizeof *c);
    c->engine = sim_engine_new(NULL);
    c->rng = rng_seeded(3);
    c->kind = sim_engine_kind(c->engine, reschedule, c);
    c->left = 20000;
    for (uint32_t i = 0; i < 1000; i++)
        sim_schedule(c->engine, i, c->kind, (union sim_payload){.u32 = {i}});
    CHECK_EQ(sim_run(c->engine, SIM_FOREVER, 10000, NULL), SPIN_OK);
    uint64_t bytes = sim_engine_counts(c->engine).bytes;
    c->left = 500000;
    CHECK_EQ(sim_run(c->engine, SIM_FOREVER, 400000, NULL), SPIN_OK);
    CHECK(sim_engine_counts(c->engine).bytes <= bytes + (1 << 18));
    sim_engine_free(c->engine);
    free(c);
}

TEST_MAIN
