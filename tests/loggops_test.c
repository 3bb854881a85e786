/* The LogGOPS replay: LogGOPSim's own figures, and a second implementation on random schedules. */
#include "lib/test.h"

#include "base/rng.h"
#include "sim/goal.h"
#include "sim/waiting.h"
#include "sim/loggops.h"
#include "sim/goal_match.h"
#include "slow_loggops.h"

/* Receives and messages at a few ranks with few keys, so that some wait alone, some in twos and
 * some in long lines, against a list that is searched from its oldest. */
TEST(exact_matching_takes_the_oldest) {
    enum { RANKS = 3, STEPS = 20000 };
    struct {
        uint32_t rank, source, tag, op;
        bool message;
    } *waiting = calloc(STEPS, sizeof *waiting);
    for (uint64_t seed = 1; seed <= 6; seed++) {
        struct rng rng = rng_seeded(seed);
        struct goal_match *m = goal_match_new(false, RANKS);
        uint32_t count = 0, keys = seed < 4 ? 2 : 40;
        goal_match_expect(m, seed % 2 ? 0 : 5000);
        for (uint32_t op = 0; op < STEPS; op++) {
            uint32_t rank = rng_below(&rng, RANKS), source = rng_below(&rng, keys);
            uint32_t tag = rng_below(&rng, 2), i = 0;
            /* By turns, messages run ahead and receives do. */
            bool message = rng_below(&rng, 10) < (op / 500 % 2 ? 7u : 3u);
            struct goal_found found;
            bool matched = message ? goal_match_message(m, rank, source, tag, op, &found)
                                   : goal_match_receive(m, rank, source, tag, op, &found);
            while (i < count && (waiting[i].rank != rank || waiting[i].source != source ||
                                 waiting[i].tag != tag || waiting[i].message == message))
                i++;
            if (matched != (i < count) || (matched && found.op != waiting[i].op))
                TEST_FAIL("seed %d, step %u: matched %d with %u", (int)seed, op, matched, found.op);
            if (matched) {
                memmove(waiting + i, waiting + i + 1, (--count - i) * sizeof *waiting);
            } else {
                waiting[count].rank = rank;
                waiting[count].source = source;
                waiting[count].tag = tag;
                waiting[count].op = op;
                waiting[count++].message = message;
            }
        }
        uint32_t messages = 0;
        for (uint32_t i = 0; i < count; i++)
            messages += waiting[i].message;
        CHECK_EQ(goal_match_unexpected(m), messages);
        goal_match_free(m);
    }
    free(waiting);
}

TEST(vectors_of_loggopsim_are_exact) {
    FILE *table = fopen(SOURCE_ROOT "/tests/goal/expected.tsv", "r");
    CHECK(table != NULL);
    char line[300], last_schedule[100] = "", last_set[100] = "";
    struct spin_goal_result result = {0};
    int rows = 0;
    CHECK(fgets(line, sizeof line, table) != NULL); /* the head */
    while (fgets(line, sizeof line, table)) {
        char schedule[100], set[100];
        unsigned long long L, o, g, G, O, S, rank, finish;
        CHECK_EQ(sscanf(line, "%99s %99s %llu %llu %llu %llu %llu %llu %llu %llu", schedule, set,
                        &L, &o, &g, &G, &O, &S, &rank, &finish),
                 10);
        if (strcmp(schedule, last_schedule) != 0 || strcmp(set, last_set) != 0) {
            char path[400];
            struct spin_error err;
            struct spin_goal *goal;
            snprintf(path, sizeof path, SOURCE_ROOT "/tests/goal/%s", schedule);
            if (spin_goal_read(path, &goal, &err) != 0)
                TEST_FAIL("%s", err.text);
            struct spin_goal_options options = {
                .loggops = {L * 1000, o * 1000, g * 1000, G * 1000000, O * 1000000, S}};
            spin_goal_result_free(&result);
            if (spin_goal_run(goal, &options, &result, &err) != 0)
                TEST_FAIL("%s: %.300s", schedule, err.text);
            spin_goal_free(goal);
            strcpy(last_schedule, schedule);
            strcpy(last_set, set);
        }
        CHECK(rank < result.ranks);
        if (result.finish_ps[rank] != finish * 1000)
            TEST_FAIL("%s, set %s, rank %llu: finish %llu ps, LogGOPSim %llu ns", schedule, set,
                      rank, (unsigned long long)result.finish_ps[rank], finish);
        rows++;
    }
    spin_goal_result_free(&result);
    fclose(table);
    CHECK_EQ(rows, 69);
}

/* ---- random schedules ---- */

struct shape {
    uint32_t ranks, ops;
    unsigned cpus, nics;
    uint32_t tags;
    bool wild, big_fan;
};

static uint64_t a_size(struct rng *rng) {
    static const uint64_t sizes[] = {0, 0, 1, 2, 8, 100, 255, 256, 1000, 65535, 65536, 70000};
    return sizes[rng_below(rng, sizeof sizes / sizeof sizes[0])];
}

/* Messages are drawn as pairs first, so that most runs finish; some are left without a partner. */
static struct spin_goal *random_goal(struct rng *rng, const struct shape *s) {
    struct draft {
        uint32_t rank;
        struct goal_op op;
    } *drafts = calloc(2 * s->ops, sizeof *drafts);
    uint32_t count = 0;
    for (uint32_t i = 0; i < s->ops; i++) {
        uint32_t a = rng_below(rng, s->ranks), b = rng_below(rng, s->ranks);
        struct goal_op op = {.cpu = (uint8_t)rng_below(rng, s->cpus),
                             .nic = (uint8_t)rng_below(rng, s->nics),
                             .tag = rng_below(rng, s->tags)};
        if (rng_below(rng, 4) == 0) {
            op.type = GOAL_CALC;
            op.size = rng_below(rng, 3) ? rng_below(rng, 5000) : 0;
            op.nic = 0;
            op.tag = 0;
            drafts[count++] = (struct draft){a, op};
            continue;
        }
        op.type = GOAL_SEND;
        op.size = a_size(rng);
        op.peer = b;
        if (s->wild && rng_below(rng, 8) == 0)
            op.tag = GOAL_ANY;
        drafts[count++] = (struct draft){a, op};
        op.type = GOAL_RECV;
        op.peer = a;
        op.cpu = (uint8_t)rng_below(rng, s->cpus);
        op.nic = (uint8_t)rng_below(rng, s->nics);
        if (s->wild && rng_below(rng, 3) == 0)
            op.peer = GOAL_ANY;
        if (s->wild && rng_below(rng, 3) == 0)
            op.tag = GOAL_ANY;
        if (rng_below(rng, 50) != 0)
            drafts[count++] = (struct draft){b, op};
    }
    struct spin_goal *goal = goal_new(s->ranks, NULL);
    for (uint32_t rank = 0; rank < s->ranks; rank++) {
        uint32_t mine = 0;
        for (uint32_t i = 0; i < count; i++)
            if (drafts[i].rank == rank) {
                goal_add(goal, drafts[i].op);
                mine++;
            }
        bool backwards = rng_below(rng, 2); /* the order in which dependencies are stated counts */
        for (uint32_t k = 1; k < mine; k++) {
            uint32_t i = backwards ? mine - k : k;
            uint32_t edges = s->big_fan ? rng_below(rng, 20) == 0 : rng_below(rng, 3);
            for (; edges > 0; edges--)
                goal_link(goal, i, rng_below(rng, i), rng_below(rng, 3) == 0);
            if (s->big_fan && mine > 20 && i > 1 && i < mine - 1)
                goal_link(goal, i, 0, rng_below(rng, 2)); /* more than 16 become free at once */
        }
        uint32_t circle;
        goal_end_rank(goal, &circle);
    }
    free(drafts);
    return goal;
}

static struct spin_loggops random_parameters(struct rng *rng) {
    static const struct spin_loggops sets[] = {
        {2500000, 1500000, 1000000, 6000000, 0, 65535},
        {1000000, 500000, 2000000, 2000000, 1000000, 255},
        {2500000, 1500000, 1000000, 6000000, 0, 0},
        {450400, 65000, 6700, 20000, 0, 65535},
        {0, 0, 0, 0, 0, 65535},
        {0, 1000, 0, 6700, 3333, 100},
        {1000, 0, 0, 1000000, 0, 99},
        {5000, 1000, 100000, 1000000, 2000000, 1u << 30},
    };
    return sets[rng_below(rng, sizeof sets / sizeof sets[0])];
}

/* ---- the critical path is a chain of costs of the model from 0 to the makespan ---- */

static uint64_t per_byte(uint64_t size, uint64_t fs) {
    return size ? (size - 1) * fs / 1000 : 0 - fs / 1000;
}

static uint64_t step_costs(const struct spin_loggops *p, const struct goal_op *op,
                           const struct spin_goal_step *s) {
    uint64_t gap = per_byte(op->size, p->G_fs), bytes = per_byte(op->size, p->O_fs);
    switch (s->kind) {
    case SPIN_STEP_CPU:
        if (op->type == GOAL_CALC)
            return op->size * 1000;
        return p->o_ps + (s->receives && gap > bytes ? gap : bytes);
    case SPIN_STEP_NIC:
        return p->g_ps + gap;
    case SPIN_STEP_NETWORK:
        return p->o_ps + p->L_ps;
    case SPIN_STEP_MATCH:
        break;
    }
    return 0;
}

static bool follows(const struct spin_goal_step *a, const struct spin_goal_step *b) {
    if (a->kind == SPIN_STEP_NETWORK)
        return b->receives && b->from == a->rank && b->operation == a->operation;
    if (a->kind == SPIN_STEP_MATCH) /* the sender's clocks: its next operation, or one to itself */
        return a->receives ? b->rank == a->from : true;
    return b->rank == a->rank;
}

static void check_path(const struct spin_goal *goal, const struct spin_loggops *p,
                       const struct spin_goal_result *r, uint64_t seed) {
    uint64_t at_ps = 0, sum_ps = 0;
    if (r->makespan_ps && !r->steps)
        TEST_FAIL("seed %llu: no steps", (unsigned long long)seed);
    for (uint32_t i = 0; i < r->steps; i++) {
        const struct spin_goal_step *s = &r->step[i];
        const struct goal_op at = goal_at(goal, goal->first_op[s->from] + s->operation - 1),
                             *op = &at;
        if (s->start_ps != at_ps)
            TEST_FAIL("seed %llu, step %u (%s): begins at %llu ps, the one before ends at %llu ps",
                      (unsigned long long)seed, i, s->what, (unsigned long long)s->start_ps,
                      (unsigned long long)at_ps);
        /* Messages of 0 bytes can make a clock go back, as in LogGOPSim: then nothing waits. */
        bool wraps = op->type != GOAL_CALC && !op->size && (p->G_fs || p->O_fs);
        uint64_t costs = step_costs(p, op, s);
        if (!wraps && s->length_ps != costs)
            TEST_FAIL("seed %llu, step %u (%s, kind %d): takes %llu ps, the model says %llu ps",
                      (unsigned long long)seed, i, s->what, s->kind,
                      (unsigned long long)s->length_ps, (unsigned long long)costs);
        if (i + 1 < r->steps && !follows(s, s + 1))
            TEST_FAIL("seed %llu: step %u (%s on %u) does not lead to the next (%s on %u)",
                      (unsigned long long)seed, i, s->what, s->rank, s[1].what, s[1].rank);
        at_ps += s->length_ps;
        sum_ps += s->length_ps;
    }
    CHECK_EQ(sum_ps, r->makespan_ps);
}

static void compare(const struct spin_goal *goal, const struct spin_loggops *p, uint64_t seed) {
    uint64_t *slow = calloc(goal->num_ranks, sizeof *slow);
    uint64_t queue_ps;
    uint32_t left = slow_loggops(goal, p, slow, &queue_ps);
    struct spin_goal_options options = {.loggops = *p, .critical_path = seed % 2 == 0};
    struct spin_goal_result result;
    struct spin_error err = {0};
    int code = spin_goal_run(goal, &options, &result, &err);
    if (left) {
        char expected[80];
        snprintf(expected, sizeof expected, "deadlock: %u of %u operations", left, goal->op_count);
        if (code != SPIN_EDEADLOCK || !strstr(err.text, expected))
            TEST_FAIL("seed %llu: code %d (%.300s), expected '%s'", (unsigned long long)seed, code,
                      err.text, expected);
        free(slow);
        return;
    }
    if (code)
        TEST_FAIL("seed %llu: %.300s", (unsigned long long)seed, err.text);
    for (uint32_t rank = 0; rank < goal->num_ranks; rank++)
        if (slow[rank] != result.finish_ps[rank])
            TEST_FAIL("seed %llu: rank %u finishes at %llu ps, the slow one at %llu ps",
                      (unsigned long long)seed, rank, (unsigned long long)result.finish_ps[rank],
                      (unsigned long long)slow[rank]);
    if (result.queue_ps != queue_ps)
        TEST_FAIL("seed %llu: waited %llu ps, the slow one %llu ps", (unsigned long long)seed,
                  (unsigned long long)result.queue_ps, (unsigned long long)queue_ps);
    if (options.critical_path)
        check_path(goal, p, &result, seed);
    free(slow);
    spin_goal_result_free(&result);
}

/* OPENSPIN_SEEDS=n runs more, OPENSPIN_SEED=n only that one. */
static void compare_many(uint64_t base, uint64_t count, bool wild, bool big_fan) {
    const char *one = getenv("OPENSPIN_SEED"), *many = getenv("OPENSPIN_SEEDS");
    count = many ? strtoull(many, NULL, 10) : count / (TEST_SANITIZED ? 4 : 1);
    uint64_t first = base;
    if (one) {
        first = strtoull(one, NULL, 10);
        count = 1;
    }
    for (uint64_t seed = first; seed < first + count; seed++) {
        struct rng rng = rng_seeded(seed);
        struct shape shape = {.ranks = 1 + rng_below(&rng, 6),
                              .ops = 1 + rng_below(&rng, big_fan ? 150 : 60),
                              .cpus = 1 + rng_below(&rng, 3),
                              .nics = 1 + rng_below(&rng, 3),
                              .tags = 1 + rng_below(&rng, 4),
                              .wild = wild,
                              .big_fan = big_fan};
        struct spin_goal *goal = random_goal(&rng, &shape);
        struct spin_loggops p = random_parameters(&rng);
        compare(goal, &p, seed);
        goal_free(goal);
    }
}

TEST(random_schedules_agree_with_the_slow_rules) {
    compare_many(8001, 2000, false, false);
}
TEST(random_wildcards_agree_with_the_slow_rules) {
    compare_many(1005001, 2000, true, false);
}
TEST(random_wide_schedules_agree_with_the_slow_rules) {
    compare_many(2000001, 600, false, true);
    compare_many(3000001, 600, true, true);
}

static void finishes(const char *text, const char *what, uint64_t expected_ps) {
    struct spin_goal *goal;
    struct spin_error err;
    if (goal_read_text(what, text, strlen(text), &goal, &err) != SPIN_OK)
        TEST_FAIL("%s", err.text);
    struct spin_goal_options options = {.loggops = {2000, 1000, 1000, 0, 0, 65535}};
    struct spin_goal_result result;
    CHECK_EQ(spin_goal_run(goal, &options, &result, NULL), SPIN_OK);
    if (result.finish_ps[1] != expected_ps)
        TEST_FAIL("%s: rank 1 finishes at %llu ps, expected %llu ps", what,
                  (unsigned long long)result.finish_ps[1], (unsigned long long)expected_ps);
    spin_goal_result_free(&result);
    goal_free(goal);
}

/* By hand: o = g = 1 ns, L = 2 ns. Two sends of rank 0 become free together, b to rank 1 and c to
 * rank
 * 2. If b goes first it leaves at 0, is due at 3 and received at 4 ns; else a nanosecond later. */
TEST(what_becomes_free_together_is_taken_as_stated) {
#define OPERATIONS "num_ranks 3\nrank 0 {\na: calc 0\nb: send 8b to 1\nc: send 8b to 2\n"
#define RECEIVERS  "}\nrank 1 {\nrecv 8b from 0\n}\nrank 2 {\nrecv 8b from 0\n}\n"
    finishes(OPERATIONS "b requires a\nc requires a\n" RECEIVERS, "in order", 4000);
    finishes(OPERATIONS "c requires a\nb requires a\n" RECEIVERS, "stated in reverse", 5000);
    finishes(OPERATIONS "b requires a\nc irequires a\n" RECEIVERS, "free at the start", 5000);
    finishes(OPERATIONS "b irequires a\nc irequires a\n" RECEIVERS, "both at the start", 4000);
#undef OPERATIONS
#undef RECEIVERS
}

/* A rank in the middle of everybody: lines of waiting messages and sends on both sides. */
TEST(crowds_agree_with_the_slow_rules) {
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 10 : 40); seed++) {
        struct rng rng = rng_seeded(seed);
        uint32_t ranks = 2 + rng_below(&rng, 20);
        struct spin_goal *goal = goal_new(ranks, NULL);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            for (uint32_t peer = 0; peer < ranks; peer++) {
                struct goal_op op = {.type = GOAL_SEND,
                                     .size = seed % 3 ? 8 : a_size(&rng),
                                     .peer = peer,
                                     .cpu = (uint8_t)rng_below(&rng, 1 + seed % 2)};
                goal_add(goal, op);
                op.type = GOAL_RECV;
                goal_add(goal, op);
            }
            uint32_t circle;
            goal_end_rank(goal, &circle);
        }
        struct spin_loggops p = random_parameters(&rng);
        compare(goal, &p, seed);
        goal_free(goal);
    }
}

/* ---- a network in the place of L ---- */

struct wire {
    struct loggops *replay;
    uint64_t latency_ps, messages, bytes;
};

static void wire_carries(void *context, const struct sim_message *message) {
    struct wire *w = context;
    w->messages++;
    w->bytes += message->bytes;
    loggops_arrive(w->replay, message->at_ps + w->latency_ps, message->handle);
}

/* A wire of latency L that loses nothing is the LogGOPS network without gaps per byte. */
TEST(a_network_takes_the_place_of_the_latency) {
    const char *name;
    for (int i = 0; (name = spin_goal_pattern_name(i, NULL)) != NULL; i++) {
        struct spin_goal_pattern pattern = {
            .name = name, .ranks = 13, .bytes = 70000, .calc_ns = 30, .iterations = 2};
        struct spin_goal_options options = {.loggops = {2500000, 1500000, 1000000, 0, 3000, 65535}};
        struct spin_goal_result plain;
        struct spin_goal *goal;
        CHECK_EQ(spin_goal_generate(&pattern, &goal, NULL), SPIN_OK);
        CHECK_EQ(spin_goal_run(goal, &options, &plain, NULL), SPIN_OK);
        struct sim_engine *engine = sim_engine_new(NULL);
        struct wire wire = {.latency_ps = 2500000};
        struct sim_transport transport = {&wire, wire_carries};
        struct loggops_setup setup = {
            .engine = engine, .goal = goal, .parameters = options.loggops, .transport = &transport};
        CHECK_EQ(loggops_new(&setup, &wire.replay, NULL), SPIN_OK);
        CHECK_EQ(sim_run(engine, SIM_FOREVER, UINT64_MAX, NULL), SPIN_OK);
        CHECK_EQ(loggops_verdict(wire.replay, NULL), SPIN_OK);
        CHECK_EQ(wire.messages, plain.messages);
        CHECK_EQ(wire.bytes, plain.bytes);
        for (uint32_t rank = 0; rank < 13; rank++)
            CHECK_EQ(loggops_finish_ps(wire.replay, rank), plain.finish_ps[rank]);
        loggops_free(wire.replay);
        sim_engine_free(engine);
        spin_goal_result_free(&plain);
        goal_free(goal);
    }
}

/* The array by key and the hash table are two ways to the same lines. */
TEST(lines_by_key_and_by_hash_agree) {
    enum { KEYS = 3000 };
    struct waiting *small = waiting_new(KEYS), *large = waiting_new(1ull << 40);
    struct rng rng = rng_seeded(11);
    struct sim_event *guards = calloc(KEYS, sizeof *guards);
    uint64_t *far = calloc(KEYS, sizeof *far);
    bool *held = calloc(KEYS, sizeof *held);
    for (uint32_t i = 0; i < KEYS; i++)
        far[i] = (uint64_t)i << 27 | i;
    for (uint64_t step = 0; step < 200000; step++) {
        uint32_t key = rng_below(&rng, KEYS);
        struct sim_event a, b, event = {.at_ps = step, .order = (step * 7919 % 200003) << 8};
        if (held[key] && rng_below(&rng, 2)) {
            bool x = waiting_ran(small, key, &guards[key], step, &a);
            bool y = waiting_ran(large, far[key], &guards[key], step, &b);
            CHECK(x == y);
            CHECK(!x || (a.order == b.order && a.at_ps == b.at_ps));
            held[key] = x;
            guards[key] = a;
            continue;
        }
        uint64_t until = step + rng_below(&rng, 3);
        bool x = waiting_wait(small, key, &event, until);
        bool y = waiting_wait(large, far[key], &event, until);
        CHECK(x == y);
        if (x) {
            held[key] = true;
            guards[key] = event;
        }
    }
    free(guards);
    free(far);
    free(held);
    waiting_free(small);
    waiting_free(large);
}

TEST_MAIN
