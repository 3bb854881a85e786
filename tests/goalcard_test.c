/* GOAL schedules on cards: every message arrives once, operations keep their order, and finish
 * times are those of LogGOPS where a card can be made to be alike. */
#include "goal/goal_card.h"

#include "base/rng.h"
#include "lib/test.h"
#include "sim/goal.h"

static const char *const matchings[] = {"host", "portals", "handlers"};
static const char *const cards[] = {"card=sc17", "card=pspin"};

static struct spin_goal *from_text(const char *text) {
    struct spin_goal *goal;
    struct spin_error err;
    if (goal_read_text("text", text, strlen(text), &goal, &err))
        TEST_FAIL("%s", err.text);
    return goal;
}

static struct spin_goal *vector(const char *name) {
    char path[300];
    struct spin_goal *goal;
    struct spin_error err;
    snprintf(path, sizeof path, VECTORS "/%s.goal", name);
    if (spin_goal_read(path, &goal, &err))
        TEST_FAIL("%s", err.text);
    return goal;
}

static struct goal_card_result run(const struct spin_goal *goal, struct goal_card_options o) {
    struct goal_card_result result;
    struct spin_error err;
    if (goal_card_run(goal, &o, &result, &err))
        TEST_FAIL("%s: %s", o.matching ? o.matching : "handlers", err.text);
    return result;
}

/* The error of a schedule that does not run. */
static const char *error_of(const char *text, struct goal_card_options o) {
    static struct spin_error err;
    struct goal_card_result result;
    struct spin_goal *goal = from_text(text);
    int code = goal_card_run(goal, &o, &result, &err);
    spin_goal_free(goal);
    CHECK(code != SPIN_OK);
    return err.text;
}

/* ---- what was seen of a run ---- */

struct sight {
    const struct spin_goal *goal;
    uint64_t *started, *done; /* [operations]: time + 1 */
    bool twice;
};

static void see(void *user, uint32_t rank, uint32_t op, bool done, uint64_t now_ps) {
    struct sight *s = user;
    uint64_t *at = &(done ? s->done : s->started)[s->goal->first_op[rank] + op];
    s->twice |= *at != 0;
    *at = now_ps + 1;
}

/* Every operation ran once, and none before what it waits for. */
static void check_order(const struct sight *s) {
    const struct spin_goal *goal = s->goal;
    CHECK(!s->twice);
    for (uint32_t op = 0; op < goal->op_count; op++) {
        const struct goal_shape *shape = goal_shape_of(goal, op);
        CHECK(s->started[op] && s->done[op] && s->started[op] <= s->done[op]);
        for (uint32_t e = 0; e < shape->edge_count; e++) {
            uint32_t edge = goal->edges[shape->edges + e];
            uint64_t free = edge & GOAL_ON_START ? s->started[op] : s->done[op];
            CHECK(s->started[goal_after(op, edge)] >= free);
        }
    }
}

static void check_run(const struct spin_goal *goal, struct goal_card_options o) {
    struct spin_goal_info info = spin_goal_info(goal);
    struct sight s = {.goal = goal,
                      .started = calloc(goal->op_count + 1, sizeof(uint64_t)),
                      .done = calloc(goal->op_count + 1, sizeof(uint64_t))};
    o.seen = see;
    o.seen_user = &s;
    struct goal_card_result r = run(goal, o);
    check_order(&s);
    CHECK_EQ(r.run.messages, info.sends);
    CHECK_EQ(r.run.bytes, info.bytes_sent);
    CHECK_EQ(r.run.unreceived, info.sends - info.receives);
    CHECK_EQ(r.p2p.sent, info.sends);
    CHECK_EQ(r.p2p.received, info.receives);
    CHECK_EQ(r.world.faults, 0);
    uint64_t latest = 0;
    for (uint32_t op = 0; op < goal->op_count; op++)
        latest = s.done[op] > latest ? s.done[op] : latest;
    CHECK(!goal->op_count || latest <= r.run.makespan_ps + 1);
    goal_card_result_free(&r);
    free(s.started);
    free(s.done);
}

TEST(vectors_run_on_all_cards) {
    static const char *const names[] = {"v01_eager_pingpong",      "v02_eager_unexpected",
                                        "v03_rendezvous_expected", "v04_rendezvous_late_recv",
                                        "v05_irequires_overlap",   "v06_anysource_anytag",
                                        "v07_multi_cpu",           "v08_multi_nic",
                                        "v09_incast_gap"};
    for (size_t v = 0; v < sizeof names / sizeof names[0]; v++)
        for (int i = 0; i < 6; i++) {
            snprintf(test_context, sizeof test_context, "%s, %s, %s", names[v], matchings[i % 3],
                     cards[i / 3]);
            struct spin_goal *goal = vector(names[v]);
            struct goal_card_options o = {.matching = matchings[i % 3],
                                          .eager_bytes = v % 2 ? 4096 : 65535,
                                          .world = {.set = &cards[i / 3], .set_count = 1}};
            check_run(goal, o);
            spin_goal_free(goal);
        }
}

/* Parameters of LogGOPSim as a card has them: nothing but o, g, L and G takes time. */
static uint64_t makespan_like_loggops(const char *name, const char *matching) {
    static const char *const set[] = {"o=1500",          "poll=1500",         "g=1000",
                                      "link_rate=6ns/B", "link_latency=1250", "switch_time=0",
                                      "match_header=0",  "match_packet=0",    "dma_latency=0",
                                      "dma_rate=1fs/B",  "memory_rate=1fs/B", "memory_latency=0",
                                      "mtu=16384",       "hpu_start=0"};
    struct spin_goal *goal = vector(name);
    struct goal_card_result r =
        run(goal, (struct goal_card_options){.matching = matching,
                                             .eager_bytes = 65535,
                                             .world = {.topology = "switch",
                                                       .set = set,
                                                       .set_count = sizeof set / sizeof set[0]}});
    spin_goal_free(goal);
    uint64_t makespan = r.run.makespan_ps;
    goal_card_result_free(&r);
    return makespan;
}

/* Where a card differs from LogGOPSim's rules: a receive costs o to post (and a look to see); with
 * the host matching, a copy and its look too; a rendezvous has a get of its own. v08 has two nics
 * where a rank has one card, and of v04's message the first 64 KiB have travelled before the
 * receive. */
TEST(finish_times_are_near_those_of_loggops) {
    static const struct {
        const char *name;
        unsigned receives; /* on the path to the end, that cost o each */
    } rows[] = {{"v01_eager_pingpong", 2},      {"v02_eager_unexpected", 3},
                {"v03_rendezvous_expected", 2}, {"v05_irequires_overlap", 1},
                {"v06_anysource_anytag", 1},    {"v07_multi_cpu", 1}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct spin_goal *goal = vector(rows[i].name);
        struct spin_goal_options o = {0};
        struct spin_goal_result r;
        CHECK_EQ(spin_loggops_preset("loggopsim", &o.loggops, NULL), SPIN_OK);
        CHECK_EQ(spin_goal_run(goal, &o, &r, NULL), SPIN_OK);
        uint64_t want = r.makespan_ps, got = makespan_like_loggops(rows[i].name, "handlers");
        snprintf(test_context, sizeof test_context, "%s: LogGOPS %llu ps, card %llu ps",
                 rows[i].name, (unsigned long long)want, (unsigned long long)got);
        CHECK(got + 3000000 >= want); /* a byte or a gap less */
        CHECK(got <= want + rows[i].receives * 1500000ull + 20000);
        spin_goal_result_free(&r);
        spin_goal_free(goal);
    }
}

/* ---- random schedules ---- */

/* Messages in one global order, of which every rank has its part: each operation waits for earlier
 * ones of its rank only, so the schedule ends. */
static struct spin_goal *random_schedule(uint64_t seed) {
    struct rng rng = rng_seeded(seed);
    uint32_t ranks = 2 + rng_below(&rng, 6), ops[8] = {0};
    char *text[8], *all = NULL;
    size_t size[8], length;
    FILE *out[8], *whole = open_memstream(&all, &length);
    for (uint32_t r = 0; r < ranks; r++)
        out[r] = open_memstream(&text[r], &size[r]);
    for (uint32_t k = 0; k < 40; k++) {
        uint32_t from = rng_below(&rng, ranks), to = rng_below(&rng, ranks);
        uint32_t bytes = rng_below(&rng, 4) ? rng_below(&rng, 3000) : rng_below(&rng, 60000);
        if (from == to) /* a large one would wait for its receive, which may wait for it */
            bytes %= 100;
        uint32_t parties[3] = {from, to, rng_below(&rng, ranks)};
        for (int p = 0; p < 3; p++) {
            uint32_t r = parties[p], op = ++ops[r], cpu = rng_below(&rng, 4) == 0;
            if (p == 0)
                fprintf(out[r], "l%u: send %ub to %u tag %u cpu %u\n", op, bytes, to, k, cpu);
            else if (p == 1 && rng_below(&rng, 3) == 0)
                fprintf(out[r], "l%u: recv %ub from -1 tag %u\n", op, bytes, k);
            else if (p == 1)
                fprintf(out[r], "l%u: recv %ub from %u tag %u cpu %u\n", op, bytes, from, k, cpu);
            else
                fprintf(out[r], "l%u: calc %u cpu %u\n", op, rng_below(&rng, 5000), cpu);
            for (uint32_t e = rng_below(&rng, 3); e > 0 && op > 1; e--)
                fprintf(out[r], "l%u %s l%u\n", op, rng_below(&rng, 2) ? "requires" : "irequires",
                        1 + rng_below(&rng, op - 1));
        }
    }
    fprintf(whole, "num_ranks %u\n", ranks);
    for (uint32_t r = 0; r < ranks; r++) {
        fclose(out[r]);
        fprintf(whole, "rank %u {\n%s}\n", r, text[r]);
        free(text[r]);
    }
    fclose(whole);
    struct spin_goal *goal = from_text(all);
    free(all);
    return goal;
}

TEST(random_schedules_keep_their_order) {
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 4 : 24); seed++) {
        struct rng rng = rng_seeded(seed + 1000);
        struct goal_card_options o = {.matching = matchings[seed % 3],
                                      .eager_bytes = 1u << (7 + rng_below(&rng, 9)),
                                      .world = {.set = &cards[seed / 3 % 2], .set_count = 1}};
        snprintf(test_context, sizeof test_context, "seed %llu, %s, S=%llu",
                 (unsigned long long)seed, o.matching, (unsigned long long)o.eager_bytes);
        struct spin_goal *goal = random_schedule(seed);
        check_run(goal, o);
        spin_goal_free(goal);
    }
}

TEST(the_same_run_again) {
    struct spin_goal *goal = random_schedule(5);
    for (int m = 0; m < 3; m++) {
        struct goal_card_options o = {.matching = matchings[m], .eager_bytes = 4096};
        struct goal_card_result a = run(goal, o), b = run(goal, o);
        CHECK_EQ(a.run.ranks, b.run.ranks);
        for (uint32_t r = 0; r < a.run.ranks; r++)
            CHECK_EQ(a.run.finish_ps[r], b.run.finish_ps[r]);
        CHECK_EQ(a.world.events, b.world.events);
        goal_card_result_free(&a);
        goal_card_result_free(&b);
    }
    spin_goal_free(goal);
}

/* The receiver computes while a large message comes: only handlers fetch it meanwhile. */
TEST(handlers_fetch_while_the_host_computes) {
    struct spin_goal *goal = from_text("num_ranks 2\n"
                                       "rank 0 {\ns: send 1000000b to 1 tag 1\n}\n"
                                       "rank 1 {\nr: recv 1000000b from 0 tag 1\n"
                                       "c: calc 100000\nc irequires r\n}\n");
    uint64_t makespan[3];
    for (int m = 0; m < 3; m++) {
        struct goal_card_result r =
            run(goal, (struct goal_card_options){.matching = matchings[m], .eager_bytes = 4096});
        makespan[m] = r.run.makespan_ps;
        CHECK_EQ(r.p2p.host_gets, m == 2 ? 0 : 1);
        goal_card_result_free(&r);
    }
    CHECK(makespan[0] > 120000000 && makespan[1] > 120000000); /* 20 us more at 50 GB/s */
    CHECK(makespan[2] < 102000000);
    spin_goal_free(goal);
}

TEST(a_deadlock_names_what_waits) {
    const char *stuck =
        "num_ranks 2\nrank 0 {\na: recv 8b from 1\nb: send 8b to 1\nb requires a\n}\n"
        "rank 1 {\na: recv 8b from 0 tag 7\n}\n";
    for (int m = 0; m < 3; m++)
        CHECK_STR(error_of(stuck, (struct goal_card_options){.matching = matchings[m],
                                                             .eager_bytes = 4096}),
                  "deadlock: 3 of 3 operations are not done; waiting: rank 0 operation 1 (recv 8b "
                  "from 1 tag 0), rank 1 operation 1 (recv 8b from 0 tag 7)");
    CHECK_STR(
        error_of("num_ranks 1\nrank 0 {\nt: test 4 for 2\n}\n",
                 (struct goal_card_options){.eager_bytes = 4096}),
        "deadlock: 1 of 1 operations are not done; waiting: rank 0 operation 1 (test 4 for 2)");
}

/* ---- the Portals dialect ---- */

/* A chain of triggered puts; only the last rank's processor looks. Then a get of it by rank 0. */
TEST(portals_operations_run) {
    struct spin_goal *goal =
        from_text("num_ranks 3\n"
                  "rank 0 {\n"
                  "c: calc 1000\nput: put 8192b to 1 ct 1 tag 10\nput requires c\n"
                  "t: test 1 for 1\nt requires put\n"
                  "g: get 4096b from 2 ct 2 tag 11\ng requires t\n"
                  "h: test 2 for 1\nh requires g\n}\n"
                  "rank 1 {\n"
                  "append 8192b to priority_list allowed 0 ct 0 use_once tag 10\n"
                  "tput 8192b to 2 when 0 reaches 1 tag 10\n}\n"
                  "rank 2 {\n"
                  "append 8192b to priority_list allowed 1 ct 5 use_once tag 10\n"
                  "append 8192b to priority_list allowed -1 ct 6 tag -1\n"
                  "a: test 5 for 1\nb: test 6 for 1\nb requires a\n"
                  "p: put 0b to 0 ct 7 tag -1\nq: test 7 for 1\nq requires p\n}\n");
    for (int i = 0; i < 2; i++) {
        struct goal_card_options o = {.eager_bytes = 4096,
                                      .world = {.set = &cards[i], .set_count = 1}};
        struct goal_card_result r = run(goal, o);
        CHECK_EQ(r.run.messages, 3); /* put, triggered put, get */
        CHECK_EQ(r.run.bytes, 8192 + 8192 + 4096);
        CHECK(r.run.finish_ps[1] < 1000000); /* handed over before the first message left */
        CHECK(r.run.finish_ps[2] > 1000000);
        CHECK(r.run.finish_ps[0] > 1000000);
        CHECK(r.quiet_ps >= r.run.makespan_ps);
        CHECK(r.world.bytes >= r.run.bytes);
        goal_card_result_free(&r);
    }
    spin_goal_free(goal);
}

/* Nobody waits for the last message; it arrives all the same. */
TEST(cards_finish_what_was_handed_to_them) {
    struct spin_goal *goal =
        from_text("num_ranks 3\nrank 0 {\nput 4096b to 1 tag 1\n}\n"
                  "rank 1 {\nappend 4096b to priority_list allowed 0 ct 1 tag 1\n"
                  "tput 4096b to 2 when 1 reaches 1 tag 1\n}\n"
                  "rank 2 {\nappend 4096b to priority_list allowed 1 ct 1 tag 1\n}\n");
    struct goal_card_result r = run(goal, (struct goal_card_options){.eager_bytes = 4096});
    CHECK_EQ(r.world.bytes, 2 * 4096);
    CHECK_EQ(r.world.dropped, 0);
    CHECK(r.run.makespan_ps < 200000 && r.quiet_ps > 500000);
    goal_card_result_free(&r);
    spin_goal_free(goal);
}

/* A message that came to the overflow list counts for the entry that is appended later. */
TEST(overflow_and_triggered_entries) {
    struct spin_goal *goal =
        from_text("num_ranks 2\n"
                  "rank 0 {\nc: calc 1000\np: put 64b to 1 tag 3\np requires c\n"
                  "q: put 64b to 1 tag 4\nq requires p\n}\n"
                  "rank 1 {\n"
                  "o: append 1024b to overflow_list allowed -1 ct 1 tag -1\n"
                  "t: tappend 64b to priority_list allowed 0 when 1 reaches 2 ct 2 use_once tag 3\n"
                  "a: test 1 for 2\na requires t\n"
                  "b: test 2 for 1\nb requires a\n"
                  "e: append 64b to priority_list allowed 0 ct 3 use_once tag 4\ne requires b\n"
                  "d: test 3 for 1\nd requires e\n}\n");
    struct goal_card_result r = run(goal, (struct goal_card_options){.eager_bytes = 4096});
    CHECK_EQ(r.run.messages, 2);
    CHECK_EQ(r.world.dropped, 0);
    goal_card_result_free(&r);
    spin_goal_free(goal);
}

TEST(entries_with_handlers) {
    struct spin_goal *goal = from_text(
        "num_ranks 2\n"
        "rank 0 {\nc: calc 1000\np: put 16384b arg1 5 to 1 tag 3\np requires c\n}\n"
        "rank 1 {\n"
        "append 16384b to priority_list hh 1 ph 2 ch 3 arg1 7 arg2 8 mem 64 allowed 0 ct 1 tag 3\n"
        "t: test 1 for 1\n}\n");
    struct goal_card_options o = {.eager_bytes = 4096, .handlers = HANDLERS};
    struct goal_card_result r = run(goal, o);
    CHECK_EQ(r.world.handlers, 1 + 4 + 1);
    CHECK_EQ(r.world.faults, 0);
    goal_card_result_free(&r);
    spin_goal_free(goal);
}

TEST(what_cannot_run_is_said_in_one_line) {
    struct goal_card_options o = {.eager_bytes = 4096};
    CHECK_STR(error_of("num_ranks 1\nrank 0 {\ngem5calc 5\n}\n", o),
              "rank 0, operation 1 (gem5calc 5): computation that gem5 would time cannot run here; "
              "say calc");
    CHECK_STR(
        error_of("num_ranks 1\nrank 0 {\nappend 8b to priority_list hh 1 allowed -1 tag 1\n}\n", o),
        "rank 0, operation 1 (append 8): its handlers are in no image: name one by --handlers");
    CHECK_STR(
        error_of("num_ranks 1\nrank 0 {\ntput 8b to 0 tag 1\n}\n", o),
        "rank 0, operation 1 (tput 8): which counter does it wait for (when ... reaches ...)?");
    CHECK_STR(
        error_of("num_ranks 2\nrank 0 {\nsend 4294967296b to 1\n}\nrank 1 {\n}\n", o),
        "rank 0, operation 1 (send 4294967296b to 1 tag 0): is larger than 4 GiB, the largest "
        "message of a card");
    o.handlers = HANDLERS;
    CHECK(strstr(
        error_of("num_ranks 1\nrank 0 {\nappend 8b to priority_list hh 9 allowed -1\n}\n", o),
        "no handler 'hh9'; it has: hh1, ph2, ch3"));
    o = (struct goal_card_options){.matching = "magic"};
    CHECK_STR(error_of("num_ranks 1\nrank 0 {\n}\n", o),
              "unknown matching 'magic'; there are host, portals, handlers");
}

TEST_MAIN
