/* Host memory with pages that are absent: nothing is lost, nothing else waits, and what cannot be
 * resolved ends as an error on both sides. */
#include "lib/nichost.h"

#define ROOM 65536

static struct nicworld world;
static _Alignas(PAGE) uint8_t source[2][ROOM], target[2][ROOM];

/* Two cards; node 1 has an entry over `target`, node 0 a descriptor over `source`. */
static void begin(struct nicworld settings) {
    world = settings;
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    for (uint32_t i = 0; i < 2; i++) {
        for (uint32_t k = 0; k < ROOM; k++)
            source[i][k] = (uint8_t)rng_u32(&world.rng);
        world.node[i].md = host_md(&world.node[i], source[i], ROOM);
    }
    memset(target, 0, sizeof target);
    host_post(&world.node[1], target[1], ROOM, 5,
              PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
}

static void put(uint64_t at, uint64_t bytes) {
    struct portals_request r = host_put(world.node[0].md, at, bytes, 1, 5);
    r.remote_offset = at;
    r.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
}

/* The page is absent until page_in. */
static void take(uint32_t node, const uint8_t *at) {
    CHECK(world.absents < ABSENT);
    world.absent[world.absents++] = (struct absent_page){node, (uintptr_t)at / PAGE};
}

static void page_in(uint32_t node, const uint8_t *at, bool failed) {
    const struct nic_pages pages = {
        .host = (const uint8_t *)((uintptr_t)at / PAGE * PAGE), .bytes = PAGE, .failed = failed};
    world_page_in(&world, &world.node[node], &pages);
    world_actions(&world, &world.node[node]);
}

/* Until nothing happens, though something may wait. */
static void run(void) {
    for (uint32_t i = 0; i < 2; i++)
        world_actions(&world, &world.node[i]);
    while (world_step(&world))
        CHECK(world.steps < 1000000);
}

TEST(a_small_put_waits_for_its_page_and_others_pass_it) {
    for (int failed = 0; failed < 2; failed++) {
        int fail = failed ? PTL_NI_SEGV : PTL_NI_OK;
        begin((struct nicworld){.config = {.reliable = true, .ordered = true}});
        take(1, target[1]);
        put(8, 8);
        put(4 * PAGE, 8);
        run();
        CHECK(memcmp(target[1] + 4 * PAGE, source[0] + 4 * PAGE, 8) == 0);
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).remote_offset, 4 * PAGE);
        CHECK_EQ(nic_counts(world.node[1].nic)->destination_faults, 1);
        CHECK_EQ(nic_counts(world.node[1].nic)->parked, 1);
        CHECK(!nic_quiet(world.node[1].nic));
        page_in(1, target[1] + 9 * PAGE, failed); /* another */
        run();
        CHECK(!nic_quiet(world.node[1].nic));
        page_in(1, target[1], failed);
        world_settle(&world);
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, fail).remote_offset, 8);
        CHECK((memcmp(target[1] + 8, source[0] + 8, 8) == 0) == !failed);
        world_end(&world);
    }
}

TEST(a_small_put_is_sent_when_its_source_is_there) {
    for (int failed = 0; failed < 2; failed++) {
        int fail = failed ? PTL_NI_SEGV : PTL_NI_OK;
        begin((struct nicworld){.config = {.reliable = true, .ordered = true}});
        take(0, source[0]);
        put(8, 8);
        run();
        CHECK_EQ(nic_counts(world.node[0].nic)->source_faults, 1);
        page_in(0, source[0], failed);
        world_settle(&world);
        world_expect(&world.node[1], PTL_EVENT_PUT, fail);
        world_expect(&world.node[0], PTL_EVENT_SEND, fail);
        world_expect(&world.node[0], PTL_EVENT_ACK, fail);
        CHECK((memcmp(target[1] + 8, source[0] + 8, 8) == 0) == !failed);
        world_end(&world);
    }
}

/* Small writes to the same bytes keep their order, however often their page goes. */
TEST(small_puts_keep_their_order_behind_an_absent_page) {
    for (uint32_t seed = 0; seed < 50; seed++) {
        begin((struct nicworld){.config = {.reliable = true, .ordered = true},
                                .destination_absence = 300,
                                .page_spread = 50,
                                .at_once = seed % 2,
                                .memory_spread = 20});
        world.rng = rng_seeded(seed);
        for (uint32_t i = 0; i < 30; i++) {
            struct portals_request r = host_put(world.node[0].md, 8 * i, 8, 1, 5);
            CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
        }
        world_settle(&world);
        CHECK(memcmp(target[1], source[0] + 8 * 29, 8) == 0);
        CHECK(nic_counts(world.node[1].nic)->parked > 0);
        world_end(&world);
    }
}

TEST_MAIN
