/* The event engine against a sorted array, on random programs. */
#include "lib/test.h"

#include "base/rng.h"
#include "sim/engine.h"

struct log_row {
    uint64_t at_ps, instance, object, made; /* made: how many were before it */
    uint32_t id;
};

struct recorder {
    struct sim_engine *engine;
    struct sim_instance sim[3];
    struct log_row *rows;
    size_t count;
    bool all_made;    /* nothing more is scheduled: */
    uint64_t next_ps; /* as the engine said at every 64th event */
};

static void record(void *context, const struct sim_event *event) {
    struct recorder *r = context;
    if (r->all_made && r->count % 64 == 1)
        CHECK_EQ(event->at_ps, r->next_ps);
    if (r->all_made && r->count % 64 == 0)
        r->next_ps = sim_next_ps(r->engine);
    r->rows[r->count++] = (struct log_row){event->at_ps, event->order >> SIM_INSTANCE_SHIFT,
                                           sim_object(event), 0, event->with.u32[0]};
}

/* The low kinds have the same number of bits as the high ones; none of them decides an order. */
static const struct sim_module recording = {
    "recorder", 3, {{.run = record}, {.run = record}, {.run = record, .digested = 2}}};

static void begin(struct recorder *r, struct log_row *rows) {
    *r = (struct recorder){.engine = sim_engine_new(NULL), .rows = rows};
    for (int i = 0; i < 3; i++)
        CHECK_EQ(sim_engine_join(r->engine, &recording, r, &r->sim[i], NULL), 0);
}

static int by_order(const void *a, const void *b) {
    const struct log_row *x = a, *y = b;
    if (x->at_ps != y->at_ps)
        return x->at_ps < y->at_ps ? -1 : 1;
    if (x->instance != y->instance)
        return x->instance < y->instance ? -1 : 1;
    if (x->object != y->object)
        return x->object < y->object ? -1 : 1;
    return x->made < y->made ? -1 : x->made > y->made;
}

TEST(events_come_out_by_time_then_maker_then_as_made) {
    enum { COUNT = 20000 };
    for (uint64_t seed = 1; seed <= 12; seed++) {
        struct rng rng = rng_seeded(seed);
        struct log_row *rows = calloc(2 * COUNT, sizeof *rows);
        struct recorder r;
        begin(&r, rows + COUNT);
        uint32_t objects = seed % 3 == 0 ? 1 : seed % 3 == 1 ? 300 : UINT32_MAX;
        /* From everything at a few times to times spread over the whole range. */
        for (uint32_t i = 0; i < COUNT; i++) {
            uint64_t at = rng_u64(&rng) >> (2 + rng_below(&rng, (uint32_t)(5 * seed)));
            if (seed <= 3)
                at = rng_below(&rng, seed == 1 ? 3 : 1000);
            uint32_t which = rng_below(&rng, 3);
            uint64_t object = rng_below(&rng, objects);
            rows[i] = (struct log_row){at, which, object, i, i};
            sim_schedule(&r.sim[which], at, object, rng_below(&rng, 3),
                         (union sim_payload){.u32 = {i}});
        }
        r.all_made = true;
        CHECK_EQ(sim_run(r.engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
        qsort(rows, COUNT, sizeof *rows, by_order);
        CHECK_EQ(r.count, COUNT);
        CHECK_EQ(sim_next_ps(r.engine), SIM_FOREVER);
        for (size_t i = 0; i < COUNT; i++)
            if (rows[i].id != r.rows[i].id || rows[i].at_ps != r.rows[i].at_ps)
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
    struct sim_instance sim;
    struct slow slow;
    struct rng rng;
    uint64_t made;
    uint32_t left;
    bool wrong;
};

static void churn_put(struct churn *c, uint64_t at) {
    uint32_t object = rng_below(&c->rng, 5);
    c->slow.rows[c->slow.count++] = (struct log_row){at, 0, object, c->made++, c->left};
    sim_schedule(&c->sim, at, object, 0, (union sim_payload){.u32 = {c->left}});
}

/* Each event makes some new ones, many of them for the present time. */
static void churn_step(void *context, const struct sim_event *event) {
    struct churn *c = context;
    struct log_row expected = slow_take(&c->slow);
    if (expected.at_ps != event->at_ps || expected.object != sim_object(event) ||
        expected.id != event->with.u32[0]) {
        c->wrong = true;
        sim_stop(c->engine);
        return;
    }
    for (uint32_t n = rng_below(&c->rng, 4); n > 0 && c->left; n--, c->left--)
        churn_put(c, event->at_ps + (rng_below(&c->rng, 3) == 0
                                         ? 0
                                         : rng_u64(&c->rng) >> (24 + rng_below(&c->rng, 40))));
}

/* In short windows: between them events are made from outside, for any time since the last one that
 * was handled, in the leaf that is open or before what was looked at. */
static void churn_in_windows(struct churn *c) {
    while (sim_engine_counts(c->engine).pending && !c->wrong) {
        uint64_t now = sim_engine_counts(c->engine).now_ps, until = now + rng_below(&c->rng, 700);
        if (sim_engine_counts(c->engine).handled > 1000)
            until = SIM_FOREVER;
        CHECK_EQ(sim_run(c->engine, until, UINT64_MAX, NULL), SPIN_OK);
        now = sim_engine_counts(c->engine).now_ps;
        if (now < until && c->left) {
            c->left--;
            churn_put(c, now + rng_below(&c->rng, 500));
        }
    }
}

TEST(events_made_for_the_present_time_keep_the_order) {
    static const struct sim_module churning = {"churn", 1, {{.run = churn_step}}};
    for (uint64_t seed = 1; seed <= 30; seed++) {
        struct churn *c = calloc(1, sizeof *c);
        c->engine = sim_engine_new(NULL);
        c->rng = rng_seeded(seed);
        CHECK_EQ(sim_engine_join(c->engine, &churning, c, &c->sim, NULL), 0);
        c->left = 3500;
        for (uint32_t i = 0; i < 50; i++, c->left--)
            churn_put(c, i / 10);
        if (seed % 2)
            churn_in_windows(c);
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
    struct log_row rows[8];
    struct recorder r;
    begin(&r, rows);
    for (uint32_t i = 0; i < 4; i++)
        sim_schedule(&r.sim[0], 100 * i, 0, 0, (union sim_payload){.u32 = {i}});
    CHECK_EQ(sim_run(r.engine, 99, UINT64_MAX, NULL), SPIN_OK);
    CHECK_EQ(r.count, 1);
    CHECK_EQ(sim_engine_counts(r.engine).now_ps, 0);
    /* The run has looked as far as 100, but time is 0: an event may still come before that. */
    sim_schedule(&r.sim[0], 50, 0, 0, (union sim_payload){.u32 = {7}});
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 3, NULL), SPIN_OK);
    CHECK_EQ(r.count, 4);
    CHECK_EQ(rows[1].id, 7);
    CHECK_EQ(sim_engine_counts(r.engine).now_ps, 200);
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 5, NULL), SPIN_OK);
    CHECK_EQ(r.count, 5);
    struct spin_error err;
    sim_schedule(&r.sim[0], SIM_LATEST_PS, 0, 0, (union sim_payload){.u32 = {9}});
    CHECK_EQ(sim_run(r.engine, SIM_FOREVER, 5, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "limit");
    sim_engine_free(r.engine);
}

/* ---- mistakes of modules are errors of the run ---- */

static void go_back(void *context, const struct sim_event *event) {
    const struct sim_instance *sim = context;
    uint64_t at = event->with.u32[0] ? event->at_ps - 1 : event->at_ps;
    sim_schedule(sim, at, event->with.u64[1], 0, (union sim_payload){.u32 = {1}});
}

TEST(an_event_before_now_ends_the_run_with_an_error) {
    static const struct sim_module going = {"time machine", 1, {{.run = go_back}}};
    struct sim_engine *engine = sim_engine_new(NULL);
    struct sim_instance sim;
    struct spin_error err;
    CHECK_EQ(sim_engine_join(engine, &going, &sim, &sim, NULL), 0);
    sim_schedule(&sim, 1000, 0, 0, (union sim_payload){{0}});
    for (int again = 0; again < 2; again++) {
        CHECK_EQ(sim_run(engine, SIM_FOREVER, UINT64_MAX, &err), SPIN_EARG);
        CHECK_STR(err.text, "time machine: an event at 999 ps, before the present time of 1000 ps");
    }
    CHECK_EQ(sim_engine_counts(engine).handled, 2);
    sim_engine_free(engine);
}

TEST(an_object_over_the_limit_ends_the_run_with_an_error) {
    static const struct sim_module going = {"many", 1, {{.run = go_back}}};
    struct sim_engine *engine = sim_engine_new(NULL);
    struct sim_instance sim;
    struct spin_error err;
    CHECK_EQ(sim_engine_join(engine, &going, &sim, &sim, NULL), 0);
    sim_schedule(&sim, 0, SIM_MOST_OBJECTS - 1, 0,
                 (union sim_payload){.u64 = {0, SIM_MOST_OBJECTS}});
    CHECK_EQ(sim_run(engine, SIM_FOREVER, UINT64_MAX, &err), SPIN_ELIMIT);
    CHECK_STR(err.text, "many: an event of an object over the limit of 2^34");
    sim_engine_free(engine);
}

struct member {
    struct sim_instance sim;
    uint32_t number, got;
};

static void count_own(void *context, const struct sim_event *event) {
    struct member *m = context;
    m->got += event->with.u32[0] == m->number;
}

TEST(a_module_has_its_kinds_once_however_many_instances) {
    enum { MEMBERS = 70000, MODULES = 400 };
    static const struct sim_module counting = {"member", 1, {{.run = count_own}}};
    struct sim_engine *engine = sim_engine_new(NULL);
    struct member *all = calloc(MEMBERS, sizeof *all);
    for (uint32_t i = 0; i < MEMBERS; i++) {
        all[i].number = i;
        CHECK_EQ(sim_engine_join(engine, &counting, &all[i], &all[i].sim, NULL), 0);
    }
    for (uint32_t i = 0; i < 2 * MEMBERS; i++)
        sim_schedule(&all[i % MEMBERS].sim, i % 7, 0, 0, (union sim_payload){.u32 = {i % MEMBERS}});
    CHECK_EQ(sim_run(engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (all[i].got != 2)
            TEST_FAIL("member %u got %u of its 2 events", i, all[i].got);
    /* Other modules, until there is no room for their kinds: an error, and the rest still works. */
    struct sim_module *others = calloc(MODULES, sizeof *others);
    struct sim_instance sim;
    struct spin_error err;
    int taken = 0, code = 0;
    for (; taken < MODULES && !code; taken++) {
        others[taken] = counting;
        code = sim_engine_join(engine, &others[taken], all, &sim, &err);
    }
    CHECK_EQ(code, SPIN_ELIMIT);
    CHECK_EQ(taken, SIM_MOST_KINDS);
    CHECK_STR(err.text,
              "member: its 1 kinds of events and the 256 of others are over the limit of 256");
    sim_schedule(&all[5].sim, 10, 0, 0, (union sim_payload){.u32 = {5}});
    CHECK_EQ(sim_run(engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
    CHECK_EQ(all[5].got, 3);
    sim_engine_free(engine);
    free(others);
    free(all);
}

/* ---- the digest ---- */

static uint64_t digest_of(uint64_t seed, int change) {
    struct log_row rows[100];
    struct recorder r;
    struct rng rng = rng_seeded(seed);
    begin(&r, rows);
    sim_engine_digest(r.engine);
    for (uint32_t i = 0; i < 100; i++)
        sim_schedule(
            &r.sim[change == 3 && i == 7], rng_u32(&rng) + (change == 1 && i == 50),
            i + 100 * (change == 4 && i == 7), change == 5 && i == 3 ? 1 : 2,
            (union sim_payload){.u32 = {i, change == 2 && i == 99, change == 6, change == 6}});
    sim_run(r.engine, SIM_FOREVER, UINT64_MAX, NULL);
    uint64_t digest = sim_engine_counts(r.engine).digest;
    sim_engine_free(r.engine);
    return digest;
}

TEST(the_digest_covers_time_maker_kind_and_named_payload) {
    CHECK(digest_of(1, 0) == digest_of(1, 0));
    CHECK(digest_of(1, 0) != digest_of(2, 0));
    for (int change = 1; change <= 5; change++)
        CHECK(digest_of(1, 0) != digest_of(1, change));
    CHECK(digest_of(1, 0) == digest_of(1, 6)); /* words that the kind does not name */
}

/* ---- independent of how objects are spread ----
 *
 * Objects that send each other events, at least LOOKAHEAD later, and themselves some at once; on
 * one engine, or spread over several that run one window of that length after the other and
 * exchange what they have sent in between. */
enum { OBJECTS = 60, LOOKAHEAD = 100, MOST_ENGINES = 4, SENT = 2000 };

struct letter {
    uint64_t at_ps;
    uint32_t from, to;
};

struct part {
    struct model *model;
    struct sim_engine *engine;
    struct sim_instance sim;
    struct letter sent[SENT]; /* to objects of other engines */
    uint32_t count;
};

struct model {
    struct part part[MOST_ENGINES];
    uint32_t engines;
    struct {
        struct rng rng;
        uint64_t state; /* depends on the order of all that happened to it */
        uint32_t left;
    } object[OBJECTS];
};

static uint32_t part_of(const struct model *m, uint32_t object) {
    return object * 7 % m->engines;
}

static void happens(void *context, const struct sim_event *event) {
    struct part *p = context;
    struct model *m = p->model;
    uint32_t here = event->with.u32[0];
    uint64_t *state = &m->object[here].state;
    *state = (*state ^ event->at_ps ^ sim_object(event) << 40) * 0x9fb21c651e98df25ull;
    struct rng *rng = &m->object[here].rng;
    for (uint32_t n = rng_below(rng, 4); n > 0 && m->object[here].left; n--) {
        m->object[here].left--;
        uint32_t to = *state >> 60 < 3 ? here : rng_below(rng, OBJECTS);
        uint64_t at = event->at_ps + (to == here ? 0 : LOOKAHEAD + rng_below(rng, 3) * 50);
        if (part_of(m, to) == part_of(m, here))
            sim_schedule(&p->sim, at, here, 0, (union sim_payload){.u32 = {to}});
        else if (p->count < SENT)
            p->sent[p->count++] = (struct letter){at, here, to};
    }
}

static uint64_t run_spread(struct model *m, uint32_t engines) {
    static const struct sim_module happening = {"model", 1, {{.run = happens, .digested = 1}}};
    memset(m, 0, sizeof *m);
    m->engines = engines;
    for (uint32_t i = 0; i < engines; i++) {
        m->part[i].model = m;
        m->part[i].engine = sim_engine_new(NULL);
        sim_engine_digest(m->part[i].engine);
        CHECK_EQ(sim_engine_join(m->part[i].engine, &happening, &m->part[i], &m->part[i].sim, NULL),
                 0);
    }
    for (uint32_t i = 0; i < OBJECTS; i++) {
        m->object[i].rng = rng_seeded(i + 1);
        m->object[i].left = 300;
        sim_schedule(&m->part[part_of(m, i)].sim, i / 20, i, 0, (union sim_payload){.u32 = {i}});
    }
    for (uint64_t window = LOOKAHEAD, busy = 1; busy; window += LOOKAHEAD) {
        busy = 0;
        for (uint32_t i = engines; i-- > 0;) /* any order: windows are independent */
            CHECK_EQ(sim_run(m->part[i].engine, window - 1, UINT64_MAX, NULL), SPIN_OK);
        for (uint32_t i = 0; i < engines; i++) {
            CHECK(m->part[i].count < SENT);
            for (uint32_t k = 0; k < m->part[i].count; k++) {
                const struct letter *l = &m->part[i].sent[k];
                sim_schedule(&m->part[part_of(m, l->to)].sim, l->at_ps, l->from, 0,
                             (union sim_payload){.u32 = {l->to}});
            }
            m->part[i].count = 0;
        }
        for (uint32_t i = 0; i < engines; i++)
            busy += sim_engine_counts(m->part[i].engine).pending;
    }
    uint64_t digest = 0;
    for (uint32_t i = 0; i < engines; i++) {
        digest += sim_engine_counts(m->part[i].engine).digest;
        sim_engine_free(m->part[i].engine);
    }
    return digest;
}

TEST(the_order_does_not_depend_on_how_objects_are_spread) {
    struct model *one = malloc(sizeof *one), *other = malloc(sizeof *other);
    uint64_t digest = run_spread(one, 1);
    uint32_t left = 0;
    for (uint32_t engines = 2; engines <= MOST_ENGINES; engines++) {
        CHECK(run_spread(other, engines) == digest);
        for (uint32_t i = 0; i < OBJECTS; i++) {
            if (one->object[i].state != other->object[i].state)
                TEST_FAIL("object %u differs between 1 and %u engines", i, engines);
            left += other->object[i].left;
        }
    }
    CHECK(left < 3 * OBJECTS * 300 / 2); /* the model has not died out early */
    free(one);
    free(other);
}

static void reschedule(void *context, const struct sim_event *event) {
    struct churn *c = context;
    if (c->left) {
        c->left--;
        sim_schedule(&c->sim, event->at_ps + 1 + rng_below(&c->rng, 1000000), event->with.u32[0], 0,
                     event->with);
    }
}

TEST(the_pool_does_not_grow_with_the_length_of_a_run) {
    static const struct sim_module rescheduling = {"hold", 1, {{.run = reschedule}}};
    struct churn *c = calloc(1, sizeof *c);
    c->engine = sim_engine_new(NULL);
    c->rng = rng_seeded(3);
    CHECK_EQ(sim_engine_join(c->engine, &rescheduling, c, &c->sim, NULL), 0);
    c->left = 20000;
    for (uint32_t i = 0; i < 1000; i++)
        sim_schedule(&c->sim, i, i, 0, (union sim_payload){.u32 = {i}});
    CHECK_EQ(sim_run(c->engine, SIM_FOREVER, 10000, NULL), SPIN_OK);
    uint64_t bytes = sim_engine_counts(c->engine).bytes;
    c->left = 500000;
    CHECK_EQ(sim_run(c->engine, SIM_FOREVER, 400000, NULL), SPIN_OK);
    CHECK(sim_engine_counts(c->engine).bytes <= bytes + (1 << 18));
    sim_engine_free(c->engine);
    free(c);
}

enum { LOOKED = 4000 };

struct looker {
    struct sim_engine *engine;
    struct sim_instance sim;
    uint8_t closer[LOOKED], nearest[LOOKED], run[LOOKED];
};

static void look_closer(void *context, const struct sim_event *event) {
    struct looker *l = context;
    CHECK(!l->run[event->with.u32[0]]);
    l->closer[event->with.u32[0]] = 1;
}

static void look_nearest(void *context, const struct sim_event *event) {
    struct looker *l = context;
    CHECK(!l->run[event->with.u32[0]]);
    l->nearest[event->with.u32[0]] = 1;
}

static void be_run(void *context, const struct sim_event *event) {
    ((struct looker *)context)->run[event->with.u32[0]]++;
}

/* Events are looked at before they are run only, where they are few and where they are many, and
 * most of them twice. */
TEST(events_are_looked_at_before_their_turn) {
    static const struct sim_module looking = {
        "looker", 1, {{.run = be_run, .closer = look_closer, .nearest = look_nearest}}};
    static const uint64_t apart_ps[] = {1, 20, 100};
    for (size_t k = 0; k < sizeof apart_ps / sizeof apart_ps[0]; k++) {
        struct looker *l = calloc(1, sizeof *l);
        uint32_t both = 0;
        l->engine = sim_engine_new(NULL);
        CHECK_EQ(sim_engine_join(l->engine, &looking, l, &l->sim, NULL), 0);
        for (uint32_t i = 0; i < LOOKED; i++)
            sim_schedule(&l->sim, i * apart_ps[k], i, 0, (union sim_payload){.u32 = {i}});
        CHECK_EQ(sim_run(l->engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
        for (uint32_t i = 0; i < LOOKED; i++) {
            CHECK_EQ(l->run[i], 1);
            both += l->closer[i] && l->nearest[i];
        }
        CHECK(both > LOOKED * 3 / 4);
        sim_engine_free(l->engine);
        free(l);
    }
}

TEST_MAIN
