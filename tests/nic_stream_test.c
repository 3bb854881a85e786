/* Streams: messages whose packets handlers send one by one. Node 1 forwards what it gets to node 2,
 * packet by packet; node 2 gets one message, whatever the order. */
#include "lib/nichost.h"

enum { PROCESS_DATA = 2, SUCCESS = 0 };
enum { HEADER = 1, PAYLOAD = 2, COMPLETION = 4, CLEANUP = 8 };

#define MTU   64
#define HEAD  16
#define BYTES 4000
#define MOST  8 /* messages at a time */

static struct nicworld world;
static uint8_t source[MOST][BYTES], passed[BYTES], target[MOST][BYTES];

/* Of each message that node 1 forwards, by the handlers' number for it. */
static struct { uint32_t stream; } forwarded[64];
static uint32_t started, forwards, failed, cleanups, skip; /* skip: packets that are not sent on */

static enum nic_command_result give(const struct nic_task *task, uint32_t number,
                                    const uint32_t *words, uint32_t *result) {
    uint32_t word[SPIN_WORDS] = {0};
    memcpy(word, words, SPIN_WORDS * sizeof *word);
    return world_command(&world, task, number, word, result);
}

static int32_t header(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n;
    const struct nic_message *m = task->message;
    const uint32_t words[SPIN_WORDS] = {PACKET_AT, task->bytes,
                                        0,         0,
                                        2,         (uint32_t)m->match_bits,
                                        0,         0,
                                        0,         (uint32_t)m->hdr_data,
                                        0,         (uint32_t)m->length};
    uint32_t result;
    switch (give(task, SPIN_COMMAND_STREAM_START, words, &result)) {
    case NIC_COMMAND_WAIT:
        return BLOCKED;
    case NIC_COMMAND_DONE:
        forwarded[task->message_id].stream = result;
        started++;
        return PROCESS_DATA;
    default:
        TEST_FAIL("command of a %s handler is refused", task->kind ? "payload" : "header");
    }
}

static int32_t payload(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n;
    const uint32_t words[SPIN_WORDS] = {
        PACKET_AT, task->bytes, 0, 0, forwarded[task->message_id].stream, (uint32_t)task->offset};
    uint32_t result;
    if (skip && !rng_below(&world.rng, skip))
        return SUCCESS;
    switch (give(task, SPIN_COMMAND_STREAM_PUT, words, &result)) {
    case NIC_COMMAND_WAIT:
        return BLOCKED;
    case NIC_COMMAND_DONE:
        forwards += result == PTL_OK;
        failed += result == PTL_FAIL;
        return SUCCESS;
    default:
        TEST_FAIL("command of a %s handler is refused", task->kind ? "payload" : "header");
    }
}

/* First it tries to put into the streams of all other messages. */
static uint32_t strange;

static int32_t payload_of_others(struct nicworld *w, struct node *n, const struct nic_task *task) {
    uint32_t own = forwarded[task->message_id].stream, result;
    for (uint32_t i = 0; i < sizeof forwarded / sizeof *forwarded; i++) {
        const uint32_t words[SPIN_WORDS] = {PACKET_AT, 1, 0, 0, forwarded[i].stream, 0};
        if (!forwarded[i].stream || forwarded[i].stream == own)
            continue;
        CHECK_EQ(give(task, SPIN_COMMAND_STREAM_PUT, words, &result), NIC_COMMAND_DONE);
        CHECK_EQ(result, PTL_FAIL);
        strange++;
    }
    return payload(w, n, task);
}

static int32_t ends(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w, (void)n;
    cleanups += task->kind == NIC_CLEANUP_HANDLER;
    return SUCCESS;
}

static void begin(uint32_t seed) {
    world.config.mtu_bytes = MTU;
    world_begin(&world, 3, seed);
    world_ranks(&world, 0);
    started = forwards = failed = cleanups = skip = 0;
    memset(target, 0, sizeof target);
    memset(forwarded, 0, sizeof forwarded);
    for (uint32_t k = 0; k < MOST; k++)
        for (uint32_t i = 0; i < BYTES; i++)
            source[k][i] = (uint8_t)rng_u32(&world.rng);
    for (uint32_t i = 1; i < 3; i++)
        for (uint32_t kind = 0; kind <= NIC_CLEANUP_HANDLER; kind++)
            world.node[i].handler[kind] = kind == NIC_HEADER_HANDLER    ? header
                                          : kind == NIC_PAYLOAD_HANDLER ? payload
                                                                        : ends;
    for (uint32_t k = 0; k < MOST; k++) {
        ptl_me_t me = host_entry(passed, BYTES, 10 + k, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        me.user_hdr_length = HEAD;
        me = host_handlers(&world.node[1], me, HEADER | PAYLOAD | COMPLETION);
        host_append(&world.node[1], &me);
        me = host_entry(target[k], BYTES, 10 + k, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        me = host_handlers(&world.node[2], me, CLEANUP);
        host_append(&world.node[2], &me);
    }
}

static void send_message(uint32_t k, uint64_t bytes) {
    struct portals_request put =
        host_put(host_md(&world.node[0], source[k], BYTES), 0, bytes, 1, 10 + k);
    put.hdr_data = k;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
}

static uint32_t events_at(uint32_t node, int fail, uint64_t *bytes) {
    ptl_event_t event;
    uint32_t count = 0;
    *bytes = 0;
    while (world_event(&world.node[node], &event))
        if (event.type == PTL_EVENT_PUT && event.ni_fail_type == fail) {
            count++;
            *bytes += event.rlength;
        }
    return count;
}

TEST(a_message_that_is_forwarded_packet_by_packet_is_one_message) {
    for (uint32_t seed = 0; seed < 150; seed++) {
        world = (struct nicworld){.loss = seed % 3 ? 0 : 50,
                                  .spread = seed % 2 ? 700 : 0,
                                  .handler_spread = seed % 5 ? 400 : 0,
                                  .at_once = seed % 4 == 1,
                                  .config = {.reliable = seed % 3 != 0,
                                             .ordered = seed % 6 == 2,
                                             .handler_packets = seed % 7 ? 0 : 3,
                                             .send_packets = 1 + seed % 9}};
        world.spread = world.config.ordered ? 0 : world.spread;
        begin(seed);
        uint64_t all = 0, bytes;
        uint32_t count = 1 + seed % MOST;
        uint64_t sent[MOST];
        for (uint32_t k = 0; k < count; k++) {
            sent[k] =
                seed % 10 == 9 ? 1 + rng_below(&world.rng, HEAD) : 1 + rng_below(&world.rng, BYTES);
            all += sent[k];
            send_message(k, sent[k]);
        }
        world_settle(&world);
        CHECK_EQ(events_at(2, PTL_NI_OK, &bytes), count);
        CHECK_EQ(bytes, all);
        for (uint32_t k = 0; k < count; k++) {
            CHECK(memcmp(target[k], source[k], sent[k]) == 0);
            CHECK(sent[k] == BYTES || target[k][sent[k]] == 0);
        }
        CHECK_EQ(started, count);
        CHECK_EQ(failed + cleanups, 0);
        world_end(&world);
    }
}

/* What handlers do not send never comes: the target's cleanup handler runs, and nothing is left. */
TEST(a_stream_that_is_not_finished_is_cut_off) {
    for (uint32_t seed = 0; seed < 60; seed++) {
        world = (struct nicworld){.spread = seed % 2 ? 300 : 0,
                                  .handler_spread = 200,
                                  .config = {.reliable = seed % 3 != 0, .retries = 3}};
        begin(seed);
        skip = 4;
        uint64_t bytes;
        send_message(0, BYTES);
        send_message(1, BYTES);
        world_settle(&world);
        CHECK_EQ(events_at(1, PTL_NI_OK, &bytes), 2);
        CHECK_EQ(cleanups, 2);
        CHECK_EQ(events_at(2, PTL_NI_UNDELIVERABLE, &bytes), 2);
        CHECK_EQ(nic_counts(world.node[2].nic)->malformed, 0);
        world_end(&world);
    }
}

/* The target dies: handlers are told, and end as if nothing had happened. */
TEST(handlers_learn_that_the_target_is_gone) {
    uint32_t told = 0;
    for (uint32_t seed = 0; seed < 40; seed++) {
        world =
            (struct nicworld){.spread = 300, .handler_spread = 300000, .config = {.retries = 3}};
        begin(seed);
        uint64_t bytes;
        send_message(0, BYTES);
        world_actions(&world, &world.node[0]);
        while (forwards < 3)
            CHECK(world_step(&world));
        world.node[2].dead = true;
        world_settle(&world);
        CHECK_EQ(events_at(1, PTL_NI_OK, &bytes), 1);
        told += failed;
        world_end(&world);
    }
    CHECK(told > 0);
}

/* Packets that handlers have handed over and that have not left the card yet; more than the bound
 * of them must never be there. */
static uint32_t bound, sent, most, waited;

static void count_sent(struct nicworld *w, const struct nic_packet *packet, bool arrives) {
    (void)w;
    sent +=
        !arrives && packet->kind == NIC_DATA && packet->source.nid == 1 && packet->target.nid == 2;
}

static int32_t payload_within_bound(struct nicworld *w, struct node *n,
                                    const struct nic_task *task) {
    int32_t how = payload(w, n, task);
    uint32_t there = started + forwards - sent;
    waited += how == BLOCKED;
    most = there > most ? there : most;
    CHECK(there <= bound);
    return how;
}

/* A window of one packet keeps them on the card. */
TEST(streams_wait_when_the_card_is_full_of_handlers_packets) {
    for (bound = 1; bound < 5; bound++) {
        world = (struct nicworld){
            .spread = 300,
            .watch = count_sent,
            .config = {.handler_packets = bound, .window_packets = 1, .retry_time = 1000000}};
        begin(bound);
        sent = most = waited = 0;
        world.node[1].handler[NIC_PAYLOAD_HANDLER] = payload_within_bound;
        uint64_t bytes;
        send_message(0, BYTES);
        send_message(1, BYTES);
        world_settle(&world);
        CHECK_EQ(most, bound);
        CHECK(waited > 0);
        CHECK_EQ(events_at(2, PTL_NI_OK, &bytes), 2);
        for (uint32_t k = 0; k < 2; k++)
            CHECK(memcmp(target[k], source[k], BYTES) == 0);
        world_end(&world);
    }
}

TEST(a_stream_is_its_own_messages_alone) {
    world = (struct nicworld){.spread = 700, .handler_spread = 400, .config = {.reliable = true}};
    begin(3);
    strange = 0;
    world.node[1].handler[NIC_PAYLOAD_HANDLER] = payload_of_others;
    uint64_t bytes;
    for (uint32_t k = 0; k < MOST; k++)
        send_message(k, BYTES);
    world_settle(&world);
    CHECK(strange > 0);
    CHECK_EQ(events_at(2, PTL_NI_OK, &bytes), MOST);
    for (uint32_t k = 0; k < MOST; k++)
        CHECK(memcmp(target[k], source[k], BYTES) == 0);
    world_end(&world);
}

TEST(streams_are_checked) {
    world = (struct nicworld){.config = {.reliable = true}};
    begin(1);
    send_message(0, 200);
    world.node[1].handler[NIC_PAYLOAD_HANDLER] = ends;
    world.node[1].handler[NIC_COMPLETION_HANDLER] = NULL; /* it is looked at here */
    world_actions(&world, &world.node[0]);
    while (!started)
        CHECK(world_step(&world));
    const struct pending *run = NULL;
    while (!run) {
        CHECK(world_step(&world));
        for (uint32_t i = 0; i < world.count; i++)
            if (world.pending[i].kind == RUN &&
                world.pending[i].task->kind == NIC_COMPLETION_HANDLER)
                run = &world.pending[i];
    }
    struct nic_task *task = run->task;
    uint32_t stream = forwarded[task->message_id].stream, result;
    world_core_new(&world.node[1], task);
    const struct {
        uint32_t word[6];
        enum nic_command_result how;
        uint32_t result;
    } rows[] = {
        {{STACK_AT, 8, 0, 0, stream, 200}, NIC_COMMAND_FAULT, 0}, /* beyond its end */
        {{STACK_AT, 8, 0, 0, stream, ~0u}, NIC_COMMAND_FAULT, 0}, /* far beyond */
        {{STACK_AT, 65, 0, 0, stream, 16}, NIC_COMMAND_FAULT, 0}, /* more than a packet */
        {{0x7000, 8, 0, 0, stream, 16}, NIC_COMMAND_SEGV, 0},     /* not the handler's */
        {{STACK_AT, 8, 0, 0, stream + 5, 16}, NIC_COMMAND_DONE, PTL_FAIL},
        {{STACK_AT, 8, 0, 0, 0, 16}, NIC_COMMAND_DONE, PTL_FAIL},
        {{STACK_AT, 0, 0, 0, stream, 16}, NIC_COMMAND_DONE, PTL_OK},
        {{STACK_AT, 64, 0, 0, stream, 16}, NIC_COMMAND_DONE, PTL_OK},
        {{STACK_AT, 64, 0, 0, stream, 80}, NIC_COMMAND_DONE, PTL_OK},
        {{STACK_AT, 57, 0, 0, stream, 143}, NIC_COMMAND_FAULT, 0}, /* more than its bytes in all */
        {{STACK_AT, 56, 0, 0, stream, 144}, NIC_COMMAND_DONE, PTL_OK},
    };
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t words[SPIN_WORDS] = {0};
        snprintf(test_context, sizeof test_context, "row %u", i);
        memcpy(words, rows[i].word, sizeof rows[i].word);
        CHECK_EQ(give(task, SPIN_COMMAND_STREAM_PUT, words, &result), rows[i].how);
        if (rows[i].how == NIC_COMMAND_DONE)
            CHECK_EQ(result, rows[i].result);
    }
    const uint32_t larger[SPIN_WORDS] = {STACK_AT, 9, 0, 0, 2, 10, 0, 0, 0, 0, 0, 8};
    CHECK_EQ(give(task, SPIN_COMMAND_STREAM_START, larger, &result), NIC_COMMAND_FAULT);
    world_core_free(task->driver);
    world.node[1].handler[NIC_COMPLETION_HANDLER] = ends;
    world_settle(&world);
    uint64_t bytes;
    CHECK_EQ(events_at(2, PTL_NI_OK, &bytes), 1);
    world_end(&world);
}

TEST_MAIN
