/* Credit: how many packets a card takes whose handlers have not ended, and what goes on without. */
#include "lib/nichost.h"

#include "nic/nic_private.h"

#define MTU     64
#define PACKETS 40
#define CREDIT  4
#define GET     192 /* bytes: several packets */

static struct nicworld world;
static uint8_t source[MTU * PACKETS], target[MTU * PACKETS], asked[GET];
static uint32_t most_held, answers;

/* Waits for an answer of the packet's sender. */
static int32_t ask(struct nicworld *w, struct node *n, const struct nic_task *task) {
    const uint32_t words[SPIN_WORDS] = {STATE_AT, GET, 0, 0, 0, 9};
    uint32_t word[SPIN_WORDS], result;
    (void)n;
    memcpy(word, words, sizeof word);
    if (world_command(w, task, SPIN_COMMAND_GET_TO_DEVICE, word, &result) == NIC_COMMAND_WAIT)
        return BLOCKED;
    for (uint32_t i = 0; i < GET; i++)
        CHECK_EQ(((const uint8_t *)task->handlers->state)[i], (uint8_t)(7 * i));
    answers++;
    return 0;
}

static int32_t look(struct nicworld *w, struct node *n, const struct nic_task *task) {
    uint32_t held = n->nic->held;
    (void)w, (void)task;
    most_held = held > most_held ? held : most_held;
    return 0;
}

static int32_t process_data(struct nicworld *w, struct node *n, const struct nic_task *task) {
    look(w, n, task);
    return 2;
}

static void put(uint64_t bytes, ptl_match_bits_t bits) {
    struct portals_request r =
        host_put(host_md(&world.node[0], source, sizeof source), 0, bytes, 1, bits);
    CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
    world_settle(&world);
}

/* Node 1 has an entry with these handlers; node 0 knows how much it takes. */
static void begin(uint32_t seed, uint32_t handlers) {
    world.config.mtu_bytes = MTU;
    world.config.window_packets = 64;
    world.config.retries = 40;
    world.config.credit_packets = CREDIT;
    world_begin(&world, 2, seed);
    world_ranks(&world, 0);
    for (uint32_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(3 * i);
    for (uint32_t i = 0; i < GET; i++)
        asked[i] = (uint8_t)(7 * i);
    ptl_me_t me = host_entry(target, sizeof target, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    me = host_handlers(&world.node[1], me, handlers);
    host_append(&world.node[1], &me);
    me = host_entry(target, 1, 6, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    host_append(&world.node[1], &me);
    me = host_entry(asked, GET, 9, PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    host_append(&world.node[0], &me);
    put(1, 6);
    most_held = answers = 0;
}

/* Each payload handler asks the sender, whose answers stand behind the packets that wait for room.
 */
TEST(handlers_that_wait_for_answers_do_not_keep_them_out) {
    for (uint32_t seed = 0; seed < 100; seed++) {
        snprintf(test_context, sizeof test_context, "seed %u", seed);
        world = (struct nicworld){.loss = seed % 2 ? 50 : 0, .spread = 500};
        begin(seed, 2);
        world.node[1].handler[1] = ask;
        put(MTU * PACKETS, 5);
        CHECK_EQ(answers, PACKETS);
        world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
        world_end(&world);
    }
}

/* The same where answers come in blocks. */
TEST(answers_in_blocks_come_too) {
    for (uint32_t seed = 0; seed < 100; seed++) {
        snprintf(test_context, sizeof test_context, "seed %u", seed);
        world = (struct nicworld){.spread = 500,
                                  .config = {.block_bytes = 4 * MTU, .unblocked_bytes = 8}};
        begin(seed, 2);
        world.node[1].handler[1] = ask;
        put(MTU * PACKETS, 5);
        CHECK_EQ(answers, PACKETS);
        world_end(&world);
    }
}

/* A message of which a slow header handler holds the packets. */
TEST(packets_that_are_held_use_up_credit) {
    world = (struct nicworld){.handler_spread = 100000};
    begin(1, 3);
    world.node[1].handler[0] = process_data;
    world.node[1].handler[1] = look;
    put(MTU * PACKETS, 5);
    CHECK(most_held > 0);
    CHECK(most_held <= CREDIT);
    world_end(&world);
}

TEST_MAIN
