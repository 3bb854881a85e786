/* Rounds that repeat: what is found, and what is not taken for repetition; then the proxies of
 * applications, each exchange simulated against the same by repetition, to the picosecond. */
#include "rounds.h"

#include "lib/test.h"

#include "sc17/halo.h"

/* ---- Rounds of two ranks, made up ---- */

struct plot {
    uint64_t wanted, search;
    uint32_t cycle;
    uint64_t settles;  /* until then every round is another */
    uint64_t period;   /* of the lengths after that */
    bool drifts;       /* rank 1 falls behind, a picosecond per round */
    bool counts;       /* a state that never comes again */
    uint64_t states;   /* that follow one another; 0: one */
    bool busy;         /* ranks are never calm at once */
    uint64_t surprise; /* this round takes longer; 0: none */
};

static uint64_t length_of(const struct plot *p, uint32_t rank, uint64_t i) {
    uint64_t own = i < p->settles ? 7 * i + 1 : 100 * (i % p->period);
    return 10000000 + own + (p->drifts ? rank : 0) + (p->surprise && i == p->surprise);
}

static struct rounds_result play(const struct plot *p, struct rounds_total total[2], int *code) {
    const struct rounds_plan plan = {
        .ranks = 2, .wanted = p->wanted, .search = p->search, .cycle = p->cycle};
    struct rounds *r = rounds_new(&plan);
    uint64_t at[2] = {500, 500}, done[2] = {0, 0};
    struct rounds_result result;
    struct spin_error err;
    CHECK(r);
    /* Rank 1 is two rounds ahead. */
    for (bool more = true; more;) {
        more = false;
        for (uint32_t rank = 2; rank-- > 0;)
            while (done[rank] < done[0] + 2 * rank + 1 && rounds_next(r, rank, at[rank])) {
                uint64_t i = done[rank]++, takes = length_of(p, rank, i);
                at[rank] += takes;
                rounds_end(r, rank,
                           &(struct rounds_mark){.now_ps = at[rank],
                                                 .calm_ps = p->busy ? 0 : 9000000,
                                                 .spent_ps = 3 + i % p->period,
                                                 .state = p->counts   ? i
                                                          : p->states ? i % p->states
                                                                      : 0,
                                                 .trace = rounds_trace(1, takes)});
                more = true;
                if (rank == 0)
                    break;
            }
    }
    *code = rounds_result(r, &result, &err);
    for (uint32_t rank = 0; rank < 2; rank++)
        total[rank] = rounds_total(r, rank);
    rounds_free(r);
    return result;
}

static void check_plot(struct plot p, uint64_t period) {
    struct rounds_total by[2], all[2];
    int code;
    struct rounds_result r = play(&p, by, &code);
    CHECK_EQ(code, SPIN_OK);
    CHECK_EQ(r.period, period);
    CHECK_EQ(r.simulated + r.repeated, period ? p.wanted : p.search);
    CHECK(!period || r.simulated < p.settles + 2 * period + 64);
    if (!period)
        return;
    p.search = 0;
    r = play(&p, all, &code);
    CHECK_EQ(r.simulated, p.wanted);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(by[i].time_ps, all[i].time_ps);
        CHECK_EQ(by[i].spent_ps, all[i].spent_ps);
    }
}

TEST(a_period_is_found_and_the_rest_is_exact) {
    for (uint64_t period = 1; period <= 40; period++)
        for (uint64_t rest = 0; rest < 3; rest++)
            check_plot((struct plot){.wanted = 1000 + rest * 7,
                                     .search = 500,
                                     .settles = rest * 20,
                                     .period = period},
                       period);
}

TEST(inputs_that_come_again_later_make_it_longer) {
    check_plot((struct plot){.wanted = 1000, .search = 500, .cycle = 6, .period = 4}, 12);
    check_plot((struct plot){.wanted = 1000, .search = 500, .states = 35, .period = 1}, 35);
}

TEST(what_is_not_the_same_is_not_repeated) {
    check_plot((struct plot){.wanted = 1000, .search = 200, .period = 1, .drifts = true}, 0);
    check_plot((struct plot){.wanted = 1000, .search = 200, .period = 1, .counts = true}, 0);
    check_plot((struct plot){.wanted = 1000, .search = 200, .period = 1, .busy = true}, 0);
    check_plot((struct plot){.wanted = 1000, .search = 200, .period = 190}, 0);
    /* Fewer than it takes to be sure are simulated. */
    struct plot few = {.wanted = 20, .search = 200, .period = 1};
    struct rounds_total total[2];
    int code;
    struct rounds_result r = play(&few, total, &code);
    CHECK_EQ(r.simulated, 20);
    CHECK_EQ(r.repeated, 0);
}

/* Rank 1 is ahead when the period is found, and its next round is not as predicted. */
TEST(a_round_that_is_not_as_predicted_is_an_error) {
    struct plot p = {.wanted = 1000, .search = 500, .period = 1};
    struct rounds_total total[2];
    int code;
    struct rounds_result r = play(&p, total, &code);
    CHECK_EQ(code, SPIN_OK);
    p.surprise = r.simulated - 1;
    play(&p, total, &code);
    CHECK_EQ(code, SPIN_EFORMAT);
}

/* ---- Applications ---- */

enum { CODES = 4, VARIANTS = 3, MOST_RANKS = 16 };
static const char *const variants[VARIANTS] = {"rdma", "portals", "spin"};
/* As those of sc17/table5c, on few ranks. */
static const struct halo codes[CODES] = {
    {.dimensions = 4, .steps = 2, .sums = 2, .between = 0.5, .bytes = 24576},
    {.dimensions = 2, .corners = true, .steps = 1, .sums = 1, .bytes = 768},
    {.dimensions = 3, .by_dimension = true, .steps = 10, .sums = 512, .bytes = 32928},
    {.dimensions = 2, .by_dimension = true, .steps = 6, .sums = 6, .bytes = 14464},
};

static void check_halo(struct halo h, bool must_repeat) {
    const struct experiment_context context = {.workloads = IMAGES};
    struct rounds_total all[MOST_RANKS], by[MOST_RANKS];
    struct halo_result full, repeated;
    struct spin_error err;
    uint64_t search = h.search;
    snprintf(test_context, sizeof test_context, "%d-D, %s, %u ranks, uneven %g", h.dimensions,
             h.variant, h.ranks, h.uneven);
    h.search = 0;
    if (halo_run(&context, &h, &full, all, &err))
        TEST_FAIL("%s", err.text);
    CHECK_EQ(full.rounds.simulated, h.exchanges);
    CHECK_EQ(full.rounds.repeated, 0);
    h.search = search;
    if (halo_run(&context, &h, &repeated, by, &err))
        TEST_FAIL("%s", err.text);
    CHECK(!must_repeat || repeated.rounds.repeated);
    CHECK_EQ(repeated.rounds.simulated + repeated.rounds.repeated, h.exchanges);
    CHECK_EQ(full.time_ps, repeated.time_ps);
    CHECK_EQ(full.spent_ps, repeated.spent_ps);
    for (uint32_t i = 0; i < h.ranks; i++) {
        CHECK_EQ(all[i].time_ps, by[i].time_ps);
        CHECK_EQ(all[i].spent_ps, by[i].spent_ps);
    }
}

static void check_codes(uint32_t ranks, uint64_t exchanges, double uneven) {
    setenv("OPENSPIN_HANDLERS", IMAGES, 1);
    for (int i = 0; i < CODES; i++)
        for (int v = TEST_SANITIZED ? VARIANTS - 1 : 0; v < VARIANTS; v++) {
            struct halo h = codes[i];
            h.ranks = ranks;
            h.exchanges = h.search = exchanges;
            h.compute_ps = 60000000;
            h.variant = variants[v];
            h.uneven = uneven;
            if (uneven > 0)
                h.between = 0.5;
            check_halo(h, true);
        }
}

TEST(applications_repeat_to_the_picosecond) {
    check_codes(6, 61, 0);
}

TEST(applications_that_compute_unevenly_repeat_to_the_picosecond) {
    check_codes(4, 84, 0.01);
}

/* In `make soak`: that many exchanges, of which one in a few is simulated. */
TEST(many_exchanges_are_as_few_that_repeat) {
    const char *more = getenv("OPENSPIN_SEEDS");
    if (!more)
        TEST_SKIP("long; OPENSPIN_SEEDS says how many exchanges");
    check_codes(MOST_RANKS, strtoull(more, NULL, 10), 0);
    check_codes(12, strtoull(more, NULL, 10), 0.01);
}

TEST_MAIN
