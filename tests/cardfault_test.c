/* The simulated card when things go wrong: faults one by one, everything at once, full buffers,
 * contexts and configuration. */
#include "hpu/jit.h"
#include "lib/cardworld.h"
#include "lib/views.h"
#include "sim/card_private.h"

/* ---- Faults ---------------------------------------------------------------------------------- */

/* What a message's handlers leave that does not depend on the order in which they ran. */
static bool same_record(const struct record *a, const struct record *b) {
    return memcmp(a, b, offsetof(struct record, next)) == 0;
}

/* Two contexts with ten messages of 20 packets each, taking turns; the third packet of message 4 of
 * the first context makes the mistake. */
enum { CONTEXTS = 2, EACH = 10, LONG = 20, BAD = 4 };

struct left {
    struct record record[CONTEXTS][EACH];
    struct card_stats stats;
    uint32_t faults;
    struct card_fault fault;
};

static struct left with_mistake(uint32_t what) {
    struct world *w = world_new();
    struct left left = {0};
    uint32_t bytes, number[CONTEXTS] = {0};
    w->context.watchdog_cycles = 5000;
    handlers(w, "order_hh", "bad_ph", "order_th");
    build(w);
    GOOD(card_add_context(w->card, &w->context, &number[1], &err));
    for (uint32_t i = 0; i < CONTEXTS * EACH * LONG; i++) {
        uint32_t m = i / CONTEXTS % EACH, k = i / CONTEXTS / EACH;
        struct card_packet *p = add(w, m, 128, k == LONG - 1, i * 30000ull);
        p->context = number[i % CONTEXTS];
        for (uint32_t word = 4; word < 32; word++)
            memcpy((uint8_t *)(uintptr_t)p->bytes + 4 * word, &(uint32_t){i * word}, 4);
        bool bad = i % CONTEXTS == 0 && m == BAD && k == 2;
        put_head(p, (struct head){k, LONG, bad ? what : 0, 4096});
    }
    run(w);
    for (uint32_t c = 0; c < CONTEXTS; c++) {
        uint32_t at = card_address(w->card, number[c], UINT32_MAX, &bytes);
        memcpy(left.record[c], card_reach(w->card, number[c], at, sizeof left.record[c]),
               sizeof left.record[c]);
    }
    left.stats = w->stats;
    left.faults = w->faults;
    left.fault = w->fault[0];
    world_free(w);
    return left;
}

/* Every other message, of both contexts, leaves what it leaves in a run without the fault. */
static void one_fault(uint32_t what, enum spin_ending ending) {
    struct left good = with_mistake(0), bad = with_mistake(what);
    CHECK_EQ(good.faults, 0);
    CHECK_EQ(good.stats.messages_completed, CONTEXTS * EACH);
    for (uint32_t c = 0; c < CONTEXTS; c++)
        for (uint32_t m = 0; m < EACH; m++) {
            const struct record *r = &good.record[c][m];
            uint32_t sum = 0; /* in plain C */
            for (uint32_t k = 0; k < LONG; k++)
                for (uint32_t word = 4; word < 32; word++)
                    sum += ((k * EACH + m) * CONTEXTS + c) * word;
            CHECK_EQ((uint32_t)r->sum, sum);
            CHECK(r->payloads == LONG && r->headers == 1 && r->completions == 1 && !r->wrong);
            if (c != 0 || m != BAD)
                CHECK(same_record(r, &bad.record[c][m]));
        }
    const struct record *hit = &bad.record[0][BAD];
    CHECK_EQ(bad.faults, 1);
    CHECK_EQ(bad.fault.ending, ending);
    CHECK_EQ(bad.fault.context, 0);
    CHECK_EQ(bad.fault.message, BAD);
    CHECK_EQ(bad.fault.kind, SPIN_PAYLOAD_HANDLER);
    CHECK_EQ(bad.stats.faults, 1);
    CHECK_EQ(bad.stats.messages_failed, 1);
    CHECK_EQ(bad.stats.messages_completed, CONTEXTS * EACH - 1);
    CHECK(hit->payloads < LONG && hit->completions == 0);
    CHECK_EQ(bad.stats.completed, (CONTEXTS * EACH - 1) * LONG + (uint32_t)hit->payloads);
    CHECK_EQ(bad.stats.dropped + bad.stats.refused, LONG - (uint32_t)hit->payloads);
}

TEST(a_handler_that_loops) {
    one_fault(1, SPIN_ENDED_BUDGET);
}
TEST(a_handler_that_stores_outside) {
    one_fault(2, SPIN_ENDED_SEGV);
}
TEST(a_handler_that_executes_garbage) {
    one_fault(3, SPIN_ENDED_ILLEGAL);
}
TEST(a_command_that_is_none) {
    one_fault(4, SPIN_ENDED_COMMAND);
}
TEST(a_failed_check) {
    one_fault(5, SPIN_ENDED_CHECK);
}
TEST(a_misaligned_atomic) {
    one_fault(6, SPIN_ENDED_MISALIGNED);
}
TEST(a_command_to_foreign_host_memory) {
    one_fault(7, SPIN_ENDED_HOST);
}
TEST(a_packet_that_lies_about_its_length) {
    one_fault(8, SPIN_ENDED_SEGV);
}
TEST(a_jump_to_nowhere) {
    one_fault(9, SPIN_ENDED_SEGV);
}

/* Every message fails, in its header or its completion handler, with packets everywhere on the way:
 * nothing stays behind. */
TEST(everything_fails) {
    static const char *const small[][2] = {{"cells=128"}, {"cells=2"}, {"l1_packet_bytes=2048"}};
    for (int i = 0; i < 6; i++) {
        struct world *w = world_new();
        set(w, small[i % 3][0]);
        handlers(w, i < 3 ? "bad_ph" : NULL, "order_ph", i < 3 ? NULL : "bad_ph");
        build(w);
        for (uint32_t k = 0; k < 2000; k++) {
            struct card_packet *p = add(w, k % 50, 64 + k % 700, k >= 1950, k * 1280ull);
            put_head(p, (struct head){k / 50, 40, i < 3 || p->eom ? 1 + k % 7 : 0, 0});
        }
        run(w);
        CHECK_EQ(w->faults, 50);
        CHECK_EQ(w->stats.messages_failed, 50);
        if (i < 3)
            CHECK_EQ(w->stats.completed, 0);
        world_free(w);
    }
}

static void random_records(struct record *to) {
    struct world *w = world_new();
    uint32_t sum[MESSAGES], count[MESSAGES];
    handlers(w, "order_hh", "order_ph", "order_th");
    build(w);
    random_traffic(w, 600, 20000, sum, count);
    run(w);
    CHECK_EQ(w->stats.messages_completed, MESSAGES);
    memcpy(to, record(w, 0), MESSAGES * sizeof *to);
    world_free(w);
}

TEST(a_message_that_never_ends) {
    struct world *w = world_new();
    uint32_t sum[MESSAGES], count[MESSAGES];
    struct record good[MESSAGES];
    random_records(good);
    w->context.queue_timeout_ps = 50000000;
    handlers(w, "order_hh", "order_ph", "order_th");
    build(w);
    random_traffic(w, 600, 20000, sum, count);
    uint32_t lost = 0;
    for (uint32_t i = 0; i < w->packets; i++) /* messages 3 and 9 lose their end */
        if ((w->packet[i].message == 3 || w->packet[i].message == 9) && w->packet[i].eom)
            w->packet[i].eom = false, lost++;
    CHECK_EQ(lost, 2);
    run(w);
    CHECK_EQ(w->stats.queue_timeouts, 2);
    CHECK_EQ(w->faults, 2);
    CHECK_EQ(w->stats.messages_failed, 2);
    CHECK_EQ(w->stats.messages_completed, MESSAGES - 2);
    for (uint32_t m = 0; m < MESSAGES; m++) {
        CHECK_EQ(record(w, m)->completions, m != 3 && m != 9);
        CHECK_EQ((uint32_t)record(w, m)->sum, sum[m]);
        CHECK_EQ(record(w, m)->wrong, 0);
        if (m != 3 && m != 9)
            CHECK(same_record(record(w, m), &good[m]));
    }
    world_free(w);
}

/* A buffer of a few packets, with every policy: messages that lost none leave what they leave on a
 * card with room; with backpressure and marks that is all of them. */
TEST(a_full_buffer_harms_no_other_message) {
    static const char *const policies[] = {"policy=backpressure", "policy=mark", "policy=drop",
                                           "policy=kill"};
    struct record good[MESSAGES];
    random_records(good);
    for (int i = 0; i < 4; i++) {
        struct world *w = world_new();
        uint32_t sum[MESSAGES], count[MESSAGES], whole = 0, packets[MESSAGES] = {0};
        set(w, policies[i]);
        set(w, "l2_packet_bytes=6144");
        w->context.queue_timeout_ps = 1000000000; /* for those whose end is dropped */
        handlers(w, "order_hh", "order_ph", "order_th");
        build(w);
        random_traffic(w, 600, 20000, sum, count);
        run(w);
        for (uint32_t p = 0; p < w->packets; p++) /* that were taken and not dropped */
            packets[w->packet[p].message] += w->fed[p] != 0 && !w->lost[p];
        for (uint32_t m = 0; m < MESSAGES; m++) {
            if (packets[m] != count[m])
                continue;
            CHECK(same_record(record(w, m), &good[m]));
            whole++;
        }
        CHECK(w->stats.full + w->stats.refused > 0); /* it was full */
        if (i < 2)
            CHECK_EQ(whole, MESSAGES);
        else
            CHECK(whole > 0 && whole < MESSAGES);
        world_free(w);
    }
}

/* More messages than queues, none of which ends: the timeout is what frees them. */
TEST(no_queue_left) {
    struct world *w = world_new();
    set(w, "queues=4");
    w->context.queue_timeout_ps = 1000000;
    handlers(w, NULL, "empty_ph", NULL);
    build(w);
    for (uint32_t i = 0; i < 40; i++)
        add(w, i, 64, false, 0);
    run(w);
    CHECK_EQ(w->stats.completed, 40);
    CHECK_EQ(w->stats.queue_timeouts, 40);
    world_free(w);
}

/* What its handler does wrong, if anything: the head's `what`. */
struct bad_packet {
    uint32_t message, what;
    bool eom;
};

static struct world *run_bad(const char *parameters, const struct bad_packet *packet, uint32_t n) {
    struct world *w = world_new();
    set(w, parameters);
    handlers(w, NULL, "bad_ph", NULL);
    build(w);
    for (uint32_t i = 0; i < n; i++)
        put_head(add(w, packet[i].message, 64, packet[i].eom, i * 1000000ull),
                 (struct head){0, 1, packet[i].what, 4096});
    run(w);
    return w;
}

/* Messages that failed and do not end leave their queues to others when there is no other one: the
 * one that has been silent for longest first, and never one of a message that is well. */
TEST(a_failed_message_leaves_its_queue) {
    static const struct bad_packet packets[] = {{0, 0, false}, {1, 2, false}, {2, 2, false},
                                                {3, 0, true},  {4, 0, false}, {2, 0, true},
                                                {4, 0, true},  {0, 0, true}};
    struct world *w = run_bad("queues=3", packets, 8);
    CHECK_EQ(w->faults, 2);
    CHECK_EQ(w->stats.messages_begun, 5);
    CHECK_EQ(w->stats.messages_failed, 2);
    CHECK_EQ(w->stats.messages_completed, 3);
    world_free(w);
}

/* What comes of a failed message is dropped, and shows that its sender is not silent: message 1,
 * which has failed later, leaves its queue to message 2. */
TEST(a_failed_message_is_not_silent_while_its_packets_come) {
    static const struct bad_packet packets[] = {
        {0, 2, false}, {1, 2, false}, {0, 0, false}, {2, 0, true}, {0, 0, true}};
    struct world *w = run_bad("queues=2", packets, 5);
    CHECK_EQ(w->stats.messages_begun, 3); /* the last packet begins none */
    CHECK_EQ(w->stats.messages_failed, 2);
    CHECK_EQ(w->stats.refused, 2);
    CHECK_EQ(w->stats.completed, 1);
    world_free(w);
}

/* The clock names another victim than the list of least recent use: after the packets below the
 * hand has gone once round and stops at message 2, though message 0 has been silent for longer. So
 * 0 waits until 2 is given up, and goes with it. True least recent use would give up 0 at 14 us. */
static uint64_t given_up_ps[3];
static void on_given_up(void *user, const struct card_fault *f, uint64_t at_ps) {
    struct world *w = user;
    on_fault(user, f, at_ps);
    given_up_ps[w->faults - 1] = at_ps;
}

/* As build, with timeouts that are told with their times. */
static void build_with_timeouts(struct world *w) {
    struct card_callbacks callbacks = {.user = w, .feedback = on_feedback, .fault = on_given_up};
    w->context.queue_timeout_ps = 10000000;
    handlers(w, NULL, "empty_ph", NULL);
    GOOD(card_new(&w->card, w->engine, &w->config, &callbacks, &err));
    GOOD(card_add_context(w->card, &w->context, &w->number, &err));
}

/* A packet of these messages every microsecond, until all three are given up. */
static void check_victims(const uint32_t *order, uint32_t count, const uint32_t *victims,
                          const uint64_t *expected_us) {
    struct world *w = world_new();
    build_with_timeouts(w);
    for (uint32_t us = 0; us < count; us++)
        add(w, order[us], 64, false, us * 1000000ull);
    run(w);
    CHECK_EQ(w->faults, 3);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(w->fault[i].message, victims[i]);
        CHECK_EQ(given_up_ps[i], expected_us[i] * 1000000);
    }
    world_free(w);
}

TEST(the_victim_is_pseudo_least_recent) {
    static const uint32_t order[] = {0, 1, 2, 0, 0, 2, 1}, victims[] = {2, 0, 1};
    static const uint64_t expected_us[] = {15, 15, 16};
    check_victims(order, 7, victims, expected_us);
}

/* The hand passes 2, which had a packet since it came by, and stops at 0; the next time it stops at
 * 2. */
TEST(a_message_with_packets_has_a_second_chance) {
    static const uint32_t order[] = {0, 1, 2, 0, 2, 1}, victims[] = {0, 2, 1};
    static const uint64_t expected_us[] = {13, 14, 15};
    check_victims(order, 6, victims, expected_us);
}

/* Messages 2, 1 and 4 get packets in turn, 3 is over, 0 is silent. A tree of bits would name 2 and
 * 4 for ever: 1, beside 0, is always younger than 2 when their half has its turn. */
TEST(a_silent_message_is_found_among_busy_ones) {
    static const uint32_t turn[] = {2, 1, 4};
    struct world *w = world_new();
    build_with_timeouts(w);
    for (uint32_t i = 0; i < 5; i++)
        add(w, i, 64, i == 3, i * 100000ull);
    for (uint32_t i = 0; i < 999; i++)
        add(w, turn[i % 3], 64, i >= 996, (i + 5) * 100000ull);
    run(w);
    CHECK_EQ(w->stats.queue_timeouts, 1);
    CHECK_EQ(w->fault[0].message, 0);
    CHECK(given_up_ps[0] >= 10000000 && given_up_ps[0] < 11000000); /* the others go on to 100 us */
    CHECK_EQ(w->stats.messages_completed, 4);
    CHECK_EQ(w->stats.completed, 1004);
    world_free(w);
}

/* ---- Everything at once ---------------------------------------------------------------------- */

/* A sender that injects from the callbacks: each completion brings the next packet of its window,
 * while the card is small, handlers fail at random, and ends of messages get lost. */
struct storm {
    struct world *w;
    uint32_t next, stuck;
};

static void storm_send(struct storm *s) {
    struct world *w = s->w;
    enum card_taken taken = CARD_TAKEN;
    while (s->next < w->packets && taken == CARD_TAKEN) {
        struct card_packet *p = &w->packet[s->next];
        p->arrival_ps = sim_engine_counts(w->engine).now_ps;
        uint32_t mine = s->next++; /* before the call: it may come back here */
        GOOD(card_inject(w->card, p, &taken, &err));
        if (taken == CARD_FULL) {
            s->next = mine;
            s->stuck++;
        }
    }
}

static void storm_feedback(void *user, const struct card_feedback *f) {
    struct storm *s = user;
    on_feedback(s->w, f);
    if (s->w->feedbacks % 3 == 0)
        storm_send(s);
}
static void storm_fault(void *user, const struct card_fault *f, uint64_t at_ps) {
    struct storm *s = user;
    on_fault(s->w, f, at_ps);
}
static void storm_ready(void *user) {
    storm_send(user);
}

static void storm(uint64_t seed) {
    static const char *const settings[] = {"queues=3",
                                           "queues=20",
                                           "cells=2",
                                           "cells=10",
                                           "cluster_tasks=2",
                                           "quantum=1",
                                           "quantum=40",
                                           "clusters=2",
                                           "cluster_hpus=3",
                                           "hpu_commands=1",
                                           "policy=drop",
                                           "policy=kill",
                                           "policy=mark",
                                           "clusters=1",
                                           "interface_commands=1",
                                           "l1_packet_bytes=2048",
                                           "l2_packet_bytes=4096"};
    static const char *const kinds[] = {NULL, "bad_ph", "pingpong_ph", "host_ph", "locked_ph"};
    struct world *w = world_new();
    struct storm s = {.w = w};
    w->rng = rng_seeded(seed);
    for (int i = 0; i < 4; i++)
        set(w, settings[rng_below(&w->rng, 17)]);
    w->context.watchdog_cycles = 2000;
    w->context.queue_timeout_ps = 10000000;
    w->context.memory_bytes = 1 << 20;
    handlers(w, kinds[rng_below(&w->rng, 5)], kinds[rng_below(&w->rng, 5)],
             kinds[rng_below(&w->rng, 5)]);
    struct card_callbacks callbacks = {
        .user = &s, .feedback = storm_feedback, .fault = storm_fault, .ready = storm_ready};
    GOOD(card_new(&w->card, w->engine, &w->config, &callbacks, &err));
    GOOD(card_add_context(w->card, &w->context, &w->number, &err));
    for (uint32_t i = 0; i < 400; i++) {
        struct card_packet *p = add(w, rng_below(&w->rng, 30), 64 + rng_below(&w->rng, 900),
                                    rng_below(&w->rng, 4) == 0, 0);
        uint32_t what = rng_below(&w->rng, 30);
        put_head(p, (struct head){0, 0, what < 10 ? what : 0, 0});
    }
    storm_send(&s);
    do { /* a sender whose packets were all dropped tries again */
        GOOD(sim_run(w->engine, SIM_FOREVER, UINT64_MAX, &err));
        uint32_t before = s.next;
        storm_send(&s);
        if (s.next == before && s.next < w->packets) {
            card_stats(w->card, &w->stats);
            TEST_FAIL("seed %llu: stuck with %llu packets in flight, %llu of %llu messages over",
                      (unsigned long long)seed, (unsigned long long)w->stats.in_flight,
                      (unsigned long long)(w->stats.messages_completed + w->stats.messages_failed),
                      (unsigned long long)w->stats.messages_begun);
        }
    } while (s.next < w->packets);
    GOOD(sim_run(w->engine, SIM_FOREVER, UINT64_MAX, &err));
    card_stats(w->card, &w->stats);
    CHECK_EQ(w->stats.in_flight, 0);
    conserve(w);
    CHECK(w->stats.messages_begun == w->stats.messages_completed + w->stats.messages_failed);
    GOOD(card_idle(w->card, &err));
    world_free(w);
}

TEST(storms) {
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 75 : 300); seed++)
        storm(seed);
}

/* ---- Full buffers ---------------------------------------------------------------------------- */

static struct world *flood(const char *policy) {
    struct world *w = world_new();
    set(w, policy);
    set(w, "l2_packet_bytes=16384");
    handlers(w, NULL, "reduce_ph", NULL);
    w->context.queue_timeout_ps = 1000000000;
    build(w);
    for (uint32_t i = 0; i < 1000; i++)
        add(w, i % 8, 1024, i >= 992, (uint64_t)i * 20480);
    run(w);
    CHECK_EQ(w->stats.most_l2_bytes, 16384);
    return w;
}

TEST(backpressure_loses_nothing) {
    struct world *w = flood("policy=backpressure");
    CHECK_EQ(w->stats.completed, 1000);
    CHECK_EQ(w->stats.refused + w->stats.dropped, 0);
    CHECK(w->stats.full > 0);
    world_free(w);
}
TEST(marks_when_nearly_full) {
    struct world *w = flood("policy=mark");
    CHECK_EQ(w->stats.completed, 1000);
    CHECK(w->marked > 100 && w->marked == w->stats.marked);
    world_free(w);
}
/* Half full: the 32nd of 64 units is the first that is marked. */
TEST(marks_from_the_threshold_on) {
    struct world *w = world_new();
    set(w, "policy=mark");
    set(w, "mark_percent=50");
    set(w, "l2_packet_bytes=4096");
    handlers(w, NULL, "reduce_ph", NULL);
    build(w);
    for (uint32_t i = 0; i < 64; i++) {
        enum card_taken taken;
        add(w, i, 64, true, 0);
        GOOD(card_inject(w->card, &w->packet[i], &taken, &err));
        CHECK_EQ(taken, CARD_TAKEN);
    }
    w->drawn = w->packets;
    run(w);
    CHECK_EQ(w->stats.completed, 64);
    CHECK_EQ(w->marked, 33);
    world_free(w);
}
TEST(drops_are_counted) {
    struct world *w = flood("policy=drop");
    CHECK(w->stats.refused > 100);
    CHECK_EQ(w->stats.completed + w->stats.refused, 1000);
    world_free(w);
}
TEST(kills_the_message_that_finds_no_room) {
    struct world *w = flood("policy=kill");
    CHECK(w->stats.kills > 0 && w->stats.kills <= 8);
    CHECK_EQ(w->faults, w->stats.kills + w->stats.queue_timeouts);
    CHECK(w->stats.messages_failed >= w->stats.kills);
    world_free(w);
}

TEST(commands_wait_for_room) {
    struct world *w = world_new();
    set(w, "interface_commands=1");
    set(w, "hpu_commands=1");
    handlers(w, NULL, "pingpong_ph", NULL);
    build(w);
    for (uint32_t i = 0; i < 1000; i++)
        add(w, i % 8, 64, i >= 992, i * 1000ull);
    run(w);
    CHECK_EQ(w->outs, 1000);
    world_free(w);
}

/* ---- Contexts and configuration -------------------------------------------------------------- */

TEST(contexts_are_accounted_for) {
    struct world *w = world_new();
    uint32_t number;
    handlers(w, NULL, "empty_ph", NULL);
    set(w, "contexts=3");
    build(w);
    struct card_context more = w->context;
    more.memory_bytes = 4u << 20;
    CHECK_EQ(card_add_context(w->card, &more, &number, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "bytes of L2 handler memory left");
    more.memory_bytes = 0;
    more.scratch_bytes = 1u << 20;
    CHECK_EQ(card_add_context(w->card, &more, &number, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "scratchpad of 1048576 bytes");
    more.scratch_bytes = 0;
    more.entry[0] = 0x1d007000;
    CHECK_EQ(card_add_context(w->card, &more, &number, &err), SPIN_EARG);
    CHECK_HAS(err.text, "no code at 0x1d007000");
    more.entry[0] = 0;
    GOOD(card_add_context(w->card, &more, &number, &err));
    GOOD(card_add_context(w->card, &more, &number, &err));
    CHECK_EQ(card_add_context(w->card, &more, &number, &err), SPIN_ELIMIT);
    CHECK(!card_reach(w->card, 2, card_address(w->card, 0, UINT32_MAX, &number), 4));
    world_free(w);

    w = world_new();
    handlers(w, NULL, "empty_ph", NULL);
    set(w, "program_bytes=1024");
    GOOD(card_new(&w->card, w->engine, &w->config, NULL, &err));
    CHECK_EQ(card_add_context(w->card, &w->context, &number, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "program memory left");
    world_free(w);
}

/* A context that the card has no room for takes none, whichever memory it is that is short. */
TEST(a_refused_context_takes_nothing) {
    struct world *w = world_new();
    uint32_t number;
    handlers(w, NULL, "empty_ph", NULL);
    build(w);
    struct card_context greedy = w->context;
    for (int i = 0; i < 100; i++) { /* as much as there is in one memory, too much of the other */
        greedy.memory_bytes = 3u << 20;
        greedy.scratch_bytes = 1u << 20;
        CHECK_EQ(card_add_context(w->card, &greedy, &number, &err), SPIN_ELIMIT);
        greedy.memory_bytes = 4u << 20;
        greedy.scratch_bytes = 900u << 10;
        CHECK_EQ(card_add_context(w->card, &greedy, &number, &err), SPIN_ELIMIT);
    }
    greedy.memory_bytes = 3u << 20;
    greedy.scratch_bytes = 900u << 10;
    GOOD(card_add_context(w->card, &greedy, &number, &err));
    CHECK_EQ(number, 1);
    world_free(w);

    /* Nor does its image, of which there is room for two in program memory. */
    w = world_new();
    struct spin_image *image[2];
    handlers(w, NULL, "empty_ph", NULL);
    char setting[40];
    snprintf(setting, sizeof setting, "program_bytes=%u",
             2 * spin_image_info(w->image)->code_bytes);
    set(w, setting);
    build(w);
    greedy = w->context;
    greedy.scratch_bytes = 1u << 20;
    for (int i = 0; i < 2; i++) {
        GOOD(spin_image_load(&image[i], getenv("CARD_IMAGE"), NULL, &err));
        greedy.image = image[i];
        CHECK_EQ(card_add_context(w->card, &greedy, &number, &err), SPIN_ELIMIT);
        CHECK_HAS(err.text, "scratchpad of");
    }
    greedy.scratch_bytes = 64;
    GOOD(card_add_context(w->card, &greedy, &number, &err));
    greedy.image = image[0];
    CHECK_EQ(card_add_context(w->card, &greedy, &number, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "program memory left");
    card_free(w->card);
    w->card = NULL;
    spin_image_free(image[0]);
    spin_image_free(image[1]);
    world_free(w);
}

/* Two images at the same addresses: each context runs its own. */
TEST(contexts_of_two_images) {
    struct world *w = world_new();
    struct spin_image *other;
    const struct spin_function *f;
    uint32_t number;
    handlers(w, "order_hh", "order_ph", "order_th");
    w->config.program_bytes = 2 * w->image->code.bytes;
    build(w);
    GOOD(spin_image_load(&other, getenv("CARD_IMAGE"), NULL, &err));
    struct card_context second = w->context;
    second.image = other;
    GOOD(spin_image_find(other, "pingpong_ph", &f, &err));
    second.entry[0] = second.entry[2] = 0;
    second.entry[1] = f->address;
    GOOD(card_add_context(w->card, &second, &number, &err));
    /* they fill program memory, which contexts of one image share */
    struct card_context third = second;
    struct spin_image *no_room;
    GOOD(card_add_context(w->card, &third, &number, &err));
    GOOD(spin_image_load(&no_room, getenv("CARD_IMAGE"), NULL, &err));
    third.image = no_room;
    CHECK_EQ(card_add_context(w->card, &third, &(uint32_t){0}, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "bytes of program memory left");
    spin_image_free(no_room);
    for (uint32_t i = 0; i < 100; i++) {
        struct card_packet *p = add(w, 1, 64, i >= 98, i * 5000ull);
        p->context = i % 2 ? number : w->number;
        put_head(p, (struct head){i / 2, 50, 0, 0});
    }
    run(w);
    CHECK_EQ(w->outs, 50);
    CHECK_EQ(record(w, 1)->payloads, 50);
    CHECK_EQ(record(w, 1)->wrong, 0);
    card_free(w->card);
    w->card = NULL;
    spin_image_free(other);
    world_free(w);
}

/* Memory of another context, of another packet, of another core, and of nobody. */
TEST(nothing_foreign_can_be_reached) {
    for (uint32_t write = 0; write < 2; write++)
        for (uint32_t which = 0; which < 10; which++) {
            struct world *w = world_new();
            uint32_t number, bytes;
            handlers(w, NULL, "bad_ph", NULL);
            build(w);
            GOOD(card_add_context(w->card, &w->context, &number, &err));
            const uint32_t at[] = {card_address(w->card, number, UINT32_MAX, &bytes),
                                   card_address(w->card, number, 0, &bytes),
                                   card_address(w->card, number, 3, &bytes),
                                   MAP_L2_PACKETS + 65536,
                                   MAP_L1_ALIAS + MAP_L1_RUNTIME + 3 * MAP_STACK_SIZE,
                                   MAP_L1_BASE + MAP_L1_PACKETS + 8192,
                                   MAP_L1_BASE + MAP_L1_STRIDE + MAP_L1_RUNTIME,
                                   MAP_DRIVER + MAP_DRIVER_SIZE,
                                   0,
                                   MAP_PROGRAM};
            for (uint32_t i = 0; i < 3; i++) {
                struct card_packet *p = add(w, 0, 64, i == 2, i * 1000000ull);
                put_head(p, (struct head){i, 3, i == 1 ? 10 + write : 0, at[which]});
            }
            run(w);
            CHECK_EQ(w->faults, 1);
            CHECK_EQ(w->fault[0].ending, SPIN_ENDED_SEGV);
            CHECK_EQ(w->fault[0].address, at[which]);
            world_free(w);
        }
}

#ifdef OPENSPIN_JIT
/* Messages whose second packet reads or writes in the context's memory, the last ten in that of the
 * other context, when the access has been compiled. */
#define FOREIGN_MESSAGES 80u
static struct world *foreign_accesses(enum spin_jit jit, uint32_t write) {
    struct world *w = world_new();
    uint32_t number, bytes;
    w->config.jit = jit;
    handlers(w, NULL, "bad_ph", NULL);
    build(w);
    GOOD(card_add_context(w->card, &w->context, &number, &err));
    uint32_t own = card_address(w->card, w->number, UINT32_MAX, &bytes) + 32768;
    uint32_t foreign = card_address(w->card, number, UINT32_MAX, &bytes) + 32768;
    for (uint32_t i = 0; i < 3 * FOREIGN_MESSAGES; i++) {
        uint32_t m = i / 3;
        struct card_packet *p = add(w, m, 64, i % 3 == 2, i * 1000000ull);
        put_head(p, (struct head){i % 3, 3, i % 3 == 1 ? 10 + write : 0,
                                  (m < FOREIGN_MESSAGES - 10 ? own : foreign) + 4 * m});
    }
    run(w);
    return w;
}

/* What page protection catches on a card is what the interpreter finds. */
TEST(the_same_faults_with_guard_pages) {
    for (uint32_t write = 0; write < 2; write++) {
        struct world *plain = foreign_accesses(SPIN_JIT_OFF, write);
        want_views();
        struct world *guarded = foreign_accesses(SPIN_JIT_FORCE, write);
        spin_guard_pages(SPIN_GUARDS_OFF);
        CHECK(!plain->card->context[0].given.memory.view);
        CHECK(guarded->card->context[0].given.memory.view);
        CHECK(guarded->card->context[1].given.scratchpad[3].view);
        struct hpu_jit_stats stats = hpu_jit_stats(guarded->card->program[0].code);
        CHECK(stats.guarded > 0 && stats.guard_faults > 0);
        CHECK_EQ(plain->faults, 10);
        CHECK_EQ(guarded->faults, 10);
        CHECK(memcmp(plain->fault, guarded->fault, sizeof plain->fault) == 0);
        CHECK(memcmp(&plain->stats, &guarded->stats, sizeof plain->stats) == 0);
        CHECK(memcmp(plain->fed, guarded->fed, sizeof plain->fed) == 0);
        world_free(plain);
        world_free(guarded);
    }
}
#endif

TEST(bad_packets_are_refused) {
    struct world *w = world_new();
    enum card_taken taken;
    handlers(w, NULL, "empty_ph", NULL);
    build(w);
    struct card_packet p = {.context = 1, .bytes = w->bytes, .length = 64};
    CHECK_EQ(card_inject(w->card, &p, &taken, &err), SPIN_EARG);
    CHECK_HAS(err.text, "the card has 1");
    p.context = 0;
    p.length = 0;
    CHECK_EQ(card_inject(w->card, &p, &taken, &err), SPIN_EARG);
    p.length = 40000;
    CHECK_EQ(card_inject(w->card, &p, &taken, &err), SPIN_EARG);
    CHECK_HAS(err.text, "take 1 to 32704");
    world_free(w);
}

TEST(parameters_by_name) {
    struct card_config config;
    struct spin_parameter row;
    GOOD(card_config_preset(&config, "pspin", &err));
    CHECK_EQ(card_config_preset(&config, "other", &err), SPIN_EARG);
    CHECK_EQ(card_config_set(&config, "clusters", &err), SPIN_EARG);
    CHECK_EQ(card_config_set(&config, "cluster=1", &err), SPIN_EARG);
    CHECK_EQ(card_config_set(&config, "clusters=129", &err), SPIN_EARG);
    CHECK_HAS(err.text, "outside the limits, 1 to 128");
    CHECK_EQ(card_config_set(&config, "policy=pray", &err), SPIN_EARG);
    GOOD(card_config_set(&config, "policy=kill", &err));
    GOOD(card_config_set(&config, "cycle=0.5ns", &err));
    CHECK_EQ(config.cycle, 500);
    int rows = 0;
    for (; card_config_row(&config, rows, &row); rows++) {
        CHECK(*row.name && *row.what && *row.source && *row.value);
        if (strcmp(row.name, "cycle") == 0)
            CHECK_STR(row.source, "set by the user");
    }
    CHECK(rows > 30);
    config.quantum = 0;
    struct card *card;
    struct sim_engine *engine = sim_engine_new(&err);
    CHECK_EQ(card_new(&card, engine, &config, NULL, &err), SPIN_EARG);
    sim_engine_free(engine);
}

TEST_MAIN
