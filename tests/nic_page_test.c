/* Host memory with pages that are absent: nothing is lost, nothing else waits, and what cannot be
 * resolved ends as an error on both sides. */
#include "lib/nichost.h"
#include "nic/flow.h"
#include "nic/nic_block.h"

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

/* Of a message that has not begun: it is held, and a packet of the pool has room for the MTU. */
TEST(a_lent_block_that_is_early_comes_in_packets) {
    begin((struct nicworld){.config = {.reliable = true, .ordered = true}});
    struct nic_packet block = {.kind = NIC_BLOCK,
                               .source = {world.first.nid, 1},
                               .target = {world.first.nid + 1, 1},
                               .bytes = 4 * PAGE,
                               .tag = {.transfer = 1, .block_bytes = 4 * PAGE}};
    CHECK_EQ(nic_rest(world.node[1].nic, &block), NIC_REST_PACKETS);
    block.message_number--; /* of one that is over */
    CHECK_EQ(nic_rest(world.node[1].nic, &block), NIC_REST_WHOLE);
    world_end(&world);
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

/* Data that is read when the get comes: the reply says what became of it, at once or later. */
TEST(a_small_get_of_a_page_that_never_comes_fails_on_both_sides) {
    for (int at_once = 0; at_once < 2; at_once++) {
        begin((struct nicworld){.config = {.reliable = true, .ordered = true}});
        struct portals_request get = {.kind = PORTALS_GET,
                                      .get_md = host_md(&world.node[0], source[0], ROOM),
                                      .length = 8,
                                      .target = {.rank = 1},
                                      .match_bits = 5};
        world.faults = at_once ? 1000 : 0;
        if (!at_once)
            take(1, target[1]);
        CHECK_EQ(portals_start(world.node[0].portals, &get), PTL_OK);
        run();
        if (!at_once)
            page_in(1, target[1], true);
        world_settle(&world);
        world_expect(&world.node[1], PTL_EVENT_GET, PTL_NI_SEGV);
        world_expect(&world.node[0], PTL_EVENT_REPLY, PTL_NI_SEGV);
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

/* ---- Blocks ---- */

#define MTU   256
#define BLOCK 1024 /* four packets */

/* What was sent, in short: D block.transmission, or a report. */
static char sent[1000];
static void write_down(struct nicworld *w, const struct nic_packet *packet, bool arrives) {
    static const char *const reports[] = {"ack", "fault", "corrupt", "error", "ERR"};
    char text[32];
    (void)w;
    if (arrives || packet->kind < NIC_BLOCK || (packet->kind == NIC_BLOCK && packet->tag.place))
        return;
    snprintf(text, sizeof text, "%s %u.%u, ",
             packet->kind == NIC_BLOCK ? "D" : reports[packet->tag.place], packet->tag.block,
             packet->tag.transmission);
    if (strlen(sent) + strlen(text) < sizeof sent)
        strcat(sent, text);
}

/* Two cards that send in blocks. */
static void begin_blocks(struct nic_config config) {
    config.mtu_bytes = MTU;
    config.block_bytes = BLOCK;
    config.reliable = config.ordered = true;
    sent[0] = 0;
    begin((struct nicworld){.config = config, .watch = write_down});
}

static void is_right(uint64_t at, uint64_t bytes) {
    CHECK(memcmp(target[1] + at, source[0] + at, bytes) == 0);
}

static const struct nic_counts *counts(uint32_t node) {
    return nic_counts(world.node[node].nic);
}

TEST(blocks_are_acknowledged_one_by_one) {
    begin_blocks((struct nic_config){0});
    put(0, 3 * BLOCK + 5);
    world_settle(&world);
    is_right(0, 3 * BLOCK + 5);
    CHECK_STR(sent, "D 0.1, D 1.1, ack 0.1, ack 1.1, D 2.1, D 3.1, ack 2.1, ack 3.1, ");
    CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 3 * BLOCK + 5);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK);
    CHECK_EQ(counts(0)->blocks_sent, 4);
    CHECK_EQ(counts(0)->messages_out, 1);
    CHECK_EQ(counts(1)->blocks_received, 4);
    CHECK_EQ(counts(1)->acks_out, 4);
    CHECK_EQ(counts(1)->nacks_out + counts(1)->errs_out, 0);
    world_end(&world);
}

/* The block waits for the ERR, not for anything else; the other blocks go on. */
TEST(a_block_is_sent_again_when_its_receiver_asks) {
    begin_blocks((struct nic_config){.err_policy = NIC_ERR_PER_BLOCK});
    take(1, target[1] + PAGE);
    put(0, 3 * BLOCK);
    run();
    CHECK_STR(sent, "D 0.1, D 1.1, fault 0.1, ack 1.1, D 2.1, ack 2.1, ");
    is_right(BLOCK, 2 * BLOCK);
    is_right(0, PAGE); /* what could be stored is */
    CHECK_EQ(counts(1)->destination_faults, 1);
    sent[0] = 0;
    page_in(1, target[1] + PAGE, false);
    run();
    CHECK_STR(sent, "ERR 0.1, D 0.2, ack 0.2, ");
    world_settle(&world);
    is_right(0, 3 * BLOCK);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    CHECK_EQ(counts(0)->blocks_repeated, 1);
    CHECK_EQ(counts(0)->errs_in, 1);
    CHECK_EQ(counts(0)->messages_out, 1);
    CHECK_EQ(counts(1)->acks_out, 3);
    CHECK_EQ(counts(1)->nacks_out, 1);
    CHECK_EQ(counts(1)->errs_out, 1);
    world_end(&world);
}

/* One block waits; so do those that are 64 or more beyond it. */
TEST(blocks_do_not_run_away_from_one_that_waits) {
    begin((struct nicworld){.config = {.mtu_bytes = MTU,
                                       .block_bytes = 2 * MTU,
                                       .blocks_outstanding = 3,
                                       .reliable = true,
                                       .ordered = true}});
    take(1, target[1]);
    put(0, ROOM);
    run();
    CHECK_EQ(counts(1)->blocks_received, 63);
    is_right(2 * MTU, 63 * 2 * MTU);
    CHECK_EQ(target[1][64 * 2 * MTU], 0);
    page_in(1, target[1], false);
    world_settle(&world);
    is_right(0, ROOM);
    CHECK_EQ(counts(0)->blocks_repeated, 1);
    world_end(&world);
}

TEST(other_transfers_go_on_while_one_waits) {
    for (int at_source = 0; at_source < 2; at_source++) {
        const uint8_t *page = at_source ? source[0] : target[1];
        begin_blocks((struct nic_config){0});
        take(!at_source, page);
        put(0, 2 * BLOCK);
        put(4 * BLOCK, 6 * BLOCK);
        put(12 * BLOCK, 8);
        run();
        is_right(4 * BLOCK, 6 * BLOCK);
        is_right(12 * BLOCK, 8);
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 8);
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 6 * BLOCK);
        ptl_event_t none;
        CHECK(!world_event(&world.node[1], &none));
        page_in(!at_source, page, false);
        world_settle(&world);
        is_right(0, 2 * BLOCK);
        CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 2 * BLOCK);
        CHECK_EQ(counts(0)->blocks_repeated, !at_source); /* at the source nothing was sent */
        world_end(&world);
    }
}

/* A page-in of two pages, of two blocks, of which each call says one; then all is said. */
static void page_in_two(void) {
    const struct nic_pages parts[] = {{target[1], PAGE, true, false},
                                      {target[1] + BLOCK, PAGE, true, false},
                                      {target[1], BLOCK + PAGE, false, false}};
    for (uint32_t i = 0; i < 3; i++) {
        char text[8];
        snprintf(text, sizeof text, "[%u] ", i);
        strcat(sent, text);
        world_page_in(&world, &world.node[1], &parts[i]);
        run();
    }
}

TEST(when_the_receiver_asks_is_a_policy) {
    static const char *const expected[] = {
        [NIC_ERR_LATE] = "D 0.1, D 1.1, fault 0.1, fault 1.1, [0] [1] "
                         "[2] ERR 0.1, ERR 1.1, D 0.2, D 1.2, ack 0.2, ack 1.2, ",
        [NIC_ERR_PER_BLOCK] = "D 0.1, D 1.1, fault 0.1, fault 1.1, "
                              "[0] ERR 0.1, D 0.2, ack 0.2, [1] ERR 1.1, D 1.2, ack 1.2, [2] ",
        [NIC_ERR_EARLY] = "D 0.1, D 1.1, fault 0.1, ERR 0.1, fault 1.1, ERR 1.1, "
                          "D 0.2, D 1.2, fault 0.2, fault 1.2, "
                          "[0] ERR 0.2, D 0.3, ack 0.3, [1] ERR 1.2, D 1.3, ack 1.3, [2] ",
    };
    for (int policy = NIC_ERR_LATE; policy <= NIC_ERR_EARLY; policy++) {
        begin_blocks((struct nic_config){.err_policy = (uint8_t)policy});
        take(1, target[1]);
        take(1, target[1] + BLOCK);
        put(0, 2 * BLOCK);
        run();
        page_in_two();
        CHECK_STR(sent, expected[policy]);
        world_settle(&world);
        is_right(0, 2 * BLOCK);
        world_end(&world);
    }
}

/* Until the page is there it is sent again after each timeout, unless the report of the fault has
 * ended that. */
TEST(a_timeout_sends_a_block_again) {
    for (int ends = 0; ends < 2; ends++) {
        begin_blocks((struct nic_config){.block_timeout = 1000, .fault_ends_timeout = ends});
        take(1, target[1]);
        put(0, BLOCK);
        world_actions(&world, &world.node[0]);
        while (world.count || nic_deadline(world.node[0].nic) < 2500)
            world_step(&world);
        CHECK_STR(sent, ends ? "D 0.1, fault 0.1, "
                             : "D 0.1, fault 0.1, D 0.2, fault 0.2, D 0.3, fault 0.3, ");
        CHECK_EQ(counts(0)->block_timeouts, ends ? 0 : 2);
        sent[0] = 0;
        page_in(1, target[1], false);
        world_settle(&world);
        CHECK_STR(sent, ends ? "ERR 0.1, D 0.2, ack 0.2, " : "ERR 0.3, D 0.4, ack 0.4, ");
        is_right(0, BLOCK);
        world_end(&world);
    }
}

/* A page that appears before the timeout: the sender finds it without being asked. */
TEST(a_timeout_finds_pages_that_are_there) {
    begin_blocks((struct nic_config){.block_timeout = 1000});
    take(1, target[1]);
    put(0, BLOCK);
    world_actions(&world, &world.node[0]);
    while (world.now < 500 && world_step(&world))
        ;
    world_page_in(&world, &world.node[1], &(struct nic_pages){target[1], PAGE, true, false});
    world_settle(&world);
    CHECK_STR(sent, "D 0.1, fault 0.1, D 0.2, ack 0.2, ");
    is_right(0, BLOCK);
    world_page_in(&world, &world.node[1], &(struct nic_pages){target[1], PAGE, false, false});
    world_settle(&world);
    CHECK_STR(sent, "D 0.1, fault 0.1, D 0.2, ack 0.2, ");
    world_end(&world);
}

/* When the program learns that its memory is free, the card does not read it any more, whatever it
 * has begun to send again meanwhile. */
TEST(memory_is_not_read_after_its_last_event) {
    uint64_t late = 0;
    for (uint32_t seed = 0; seed < 60; seed++) {
        begin((struct nicworld){.config = {.mtu_bytes = MTU,
                                           .block_bytes = BLOCK,
                                           .block_timeout = 60,
                                           .reliable = true,
                                           .ordered = seed % 2},
                                .spread = seed % 2 ? 0 : 80,
                                .memory_spread = 120});
        world.rng = rng_seeded(seed);
        put(0, 3 * BLOCK);
        world_actions(&world, &world.node[0]);
        while (world_step(&world)) {
            ptl_event_t event;
            bool reads = false;
            for (uint32_t i = 0; i < world.count; i++)
                reads |= world.pending[i].kind == MOVED && world.pending[i].node == 0;
            late += reads;
            if (world_event(&world.node[0], &event) && reads)
                TEST_FAIL("seed %u: event %u while its memory is read", seed, event.type);
        }
        is_right(0, 3 * BLOCK);
        world_end(&world);
    }
    CHECK(late > 0);
}

/* By a put and by a get, at the memory that is read and at the one that is written. */
TEST(pages_that_never_come_are_errors_on_both_sides) {
    for (int get = 0; get < 2; get++)
        for (int at_source = 0; at_source < 2; at_source++) {
            begin_blocks((struct nic_config){0});
            uint8_t *from = source[get], *to = target[!get];
            host_post(&world.node[1], source[1], ROOM, 6, PTL_ME_OP_GET);
            world_expect(&world.node[1], PTL_EVENT_LINK, PTL_NI_OK);
            struct portals_request r = {.kind = PORTALS_GET,
                                        .get_md = host_md(&world.node[0], target[0], ROOM),
                                        .length = 3 * BLOCK,
                                        .target = {.rank = 1},
                                        .match_bits = 6};
            uint32_t node = get ? at_source : !at_source;
            const uint8_t *page = (at_source ? from : to) + BLOCK;
            take(node, page);
            if (get)
                CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
            else
                put(0, 3 * BLOCK);
            run();
            page_in(node, page, true);
            world_settle(&world);
            CHECK(memcmp(to, from, BLOCK) == 0 &&
                  memcmp(to + 2 * BLOCK, from + 2 * BLOCK, BLOCK) == 0);
            for (uint32_t i = 0; i < PAGE; i++)
                CHECK_EQ(to[BLOCK + i], 0);
            if (get) {
                world_expect(&world.node[1], PTL_EVENT_GET, PTL_NI_SEGV);
                world_expect(&world.node[0], PTL_EVENT_REPLY, PTL_NI_SEGV);
            } else {
                world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_SEGV);
                world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_SEGV);
                world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_SEGV);
            }
            world_end(&world);
        }
}

TEST(damaged_data_is_sent_again_at_once) {
    begin_blocks((struct nic_config){0});
    world.damage = 1000;
    put(0, BLOCK);
    world_actions(&world, &world.node[0]);
    for (uint32_t i = 0; i < 200; i++)
        world_step(&world);
    CHECK_HAS(sent, "D 0.1, corrupt 0.1, D 0.2, corrupt 0.2, D 0.3, ");
    world.damage = 0;
    world_settle(&world);
    is_right(0, BLOCK);
    CHECK_EQ(counts(1)->blocks_received, 1);
    CHECK(counts(0)->corrupt_in >= 2);
    CHECK_EQ(counts(0)->corrupt_in, counts(1)->nacks_out);
    world_end(&world);
}

/* ---- Packets by hand ---- */

/* From node 0, which knows nothing of it, to node 1. */
static struct nic_packet *by_hand(enum nic_packet_kind kind) {
    struct nic_packet *packet = nic_packet_new(world.pool);
    packet->kind = (uint8_t)kind;
    packet->source = (struct nic_address){0, 1};
    packet->target = (struct nic_address){1, 1};
    return packet;
}

static void hand_in(struct nic_packet *packet) {
    nic_packet_in(world.node[1].nic, packet, world.now);
    nic_packet_release(packet);
    world_actions(&world, &world.node[1]);
    while (world_step(&world))
        ;
}

static void announce_number(uint32_t number, uint64_t bytes) {
    struct nic_packet *packet = by_hand(NIC_DATA);
    packet->message_number = number;
    packet->first = true;
    packet->message = (struct nic_message){.kind = NIC_PUT,
                                           .interface = PTL_NI_MATCHING | PTL_NI_LOGICAL,
                                           .uid = 1000,
                                           .source = packet->source,
                                           .target = packet->target,
                                           .source_rank = 0,
                                           .target_rank = 1,
                                           .match_bits = 5,
                                           .length = bytes,
                                           .payload = bytes};
    hand_in(packet);
}

static void announce(uint64_t bytes) {
    announce_number(0, bytes);
}

static void hand_in_numbered(uint32_t number, uint32_t block, uint32_t place, uint32_t transmission,
                             uint8_t value) {
    struct nic_packet *packet = by_hand(NIC_BLOCK);
    packet->message_number = number;
    packet->offset = block * BLOCK + place * MTU;
    packet->bytes = MTU;
    memset(packet->data, value, MTU);
    packet->tag = (struct nic_block_tag){.transfer = 7,
                                         .block = block,
                                         .transmission = transmission,
                                         .block_bytes = BLOCK,
                                         .place = (uint8_t)place};
    hand_in(packet);
}

static void hand_in_block(uint32_t block, uint32_t place, uint32_t transmission, uint8_t value) {
    hand_in_numbered(0, block, place, transmission, value);
}

TEST(older_transmissions_are_dropped) {
    begin_blocks((struct nic_config){0});
    announce(2 * BLOCK);
    hand_in_block(0, 0, 2, 2);
    hand_in_block(0, 1, 1, 1); /* older */
    CHECK_EQ(target[1][MTU], 0);
    CHECK_EQ(counts(1)->stale, 1);
    hand_in_block(0, 1, 2, 2);
    hand_in_block(0, 0, 3, 3); /* newer, but that packet is here */
    CHECK_EQ(target[1][0], 2);
    CHECK_EQ(target[1][MTU], 2);
    CHECK_EQ(counts(1)->stale, 1);
    hand_in_block(0, 2, 3, 3);
    hand_in_block(0, 3, 2, 2);
    CHECK_EQ(counts(1)->stale, 2);
    CHECK_EQ(counts(1)->blocks_received, 0);
    hand_in_block(0, 3, 3, 3);
    CHECK_EQ(counts(1)->blocks_received, 1);
    hand_in_block(0, 3, 4, 9); /* the block is whole */
    hand_in_block(0, 0, 4, 9);
    CHECK_EQ(target[1][0], 2);
    CHECK_EQ(counts(1)->stale, 4);
    CHECK_EQ(counts(1)->blocks_received, 1);
    CHECK_STR(sent, "ack 0.3, ack 0.4, ");
    ptl_event_t none;
    CHECK(!world_event(&world.node[1], &none));
    for (uint32_t place = 0; place < 4; place++)
        hand_in_block(1, place, 1, 5);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    hand_in_block(1, 0, 2, 9); /* the message is over */
    CHECK_STR(sent, "ack 0.3, ack 0.4, ack 1.1, ack 1.2, ");
    CHECK(!world_event(&world.node[1], &none));
    CHECK_EQ(target[1][BLOCK], 5);
    CHECK_EQ(counts(1)->malformed, 0);
    world_end(&world);
}

/* A request for a transmission that is not the last has been answered already. */
TEST(old_requests_are_ignored) {
    static const enum nic_report reports[] = {NIC_BLOCK_ERR, NIC_BLOCK_ERR, NIC_BLOCK_CORRUPT};
    begin_blocks((struct nic_config){0});
    take(1, target[1]);
    put(0, BLOCK);
    run();
    CHECK_STR(sent, "D 0.1, fault 0.1, ");
    for (uint32_t i = 0; i < 3; i++) {
        struct nic_packet *packet = by_hand(NIC_REPORT);
        packet->source = (struct nic_address){1, 1};
        packet->target = (struct nic_address){0, 1};
        packet->message_number = 1 + i; /* behind the one of the fault */
        packet->tag = (struct nic_block_tag){.transmission = 1, .place = (uint8_t)reports[i]};
        nic_packet_in(world.node[0].nic, packet, world.now);
        nic_packet_release(packet);
        run();
        CHECK_STR(sent, "D 0.1, fault 0.1, D 0.2, fault 0.2, ");
        CHECK_EQ(counts(0)->stale, i);
    }
    world_end(&world);
}

/* Two packets met absent pages. One page is said to be there; the packet of the other one comes
 * again, and finds its page: now the first has to be asked for. */
TEST(a_packet_that_comes_again_may_be_the_last_that_was_absent) {
    begin_blocks((struct nic_config){.err_policy = NIC_ERR_PER_BLOCK});
    announce(BLOCK);
    take(1, target[1]);
    take(1, target[1] + MTU);
    hand_in_block(0, 0, 1, 1);
    hand_in_block(0, 1, 1, 1);
    page_in(1, target[1], false);
    CHECK_STR(sent, "fault 0.1, ");
    world.absents = 0;
    hand_in_block(0, 1, 2, 1);
    CHECK_STR(sent, "fault 0.1, ERR 0.2, ");
    hand_in_block(0, 2, 2, 1);
    hand_in_block(0, 3, 2, 1);
    hand_in_block(0, 0, 3, 1);
    CHECK_STR(sent, "fault 0.1, ERR 0.2, ack 0.3, ");
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_end(&world);
}

/* Of one transmission a packet meets an absent page and another is damaged, before or after it is
 * known that the page will not come: the damaged one has to be asked for. */
TEST(damage_and_a_page_that_never_comes_in_one_block) {
    for (int after = 0; after < 2; after++) {
        begin_blocks((struct nic_config){0});
        announce(BLOCK);
        take(1, target[1]);
        hand_in_block(0, 0, 1, 1);
        if (after)
            page_in(1, target[1], true);
        struct nic_packet *packet = by_hand(NIC_BLOCK);
        packet->offset = packet->bytes = MTU;
        packet->tag = (struct nic_block_tag){
            .transfer = 7, .transmission = 1, .block_bytes = BLOCK, .place = 1, .corrupt = true};
        hand_in(packet);
        hand_in_block(0, 2, 1, 1);
        hand_in_block(0, 3, 1, 1);
        CHECK_STR(sent, after ? "fault 0.1, ERR 0.1, " : "fault 0.1, ");
        if (!after)
            page_in(1, target[1], true);
        CHECK_STR(sent, "fault 0.1, ERR 0.1, ");
        hand_in_block(0, 1, 2, 1);
        CHECK_STR(sent, "fault 0.1, ERR 0.1, error 0.2, ");
        world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_SEGV);
        world_end(&world);
    }
}

TEST(blocks_that_contradict_themselves_are_dropped) {
    begin_blocks((struct nic_config){0});
    announce(20 * BLOCK);
    hand_in_block(0, 0, 1, 1);
    struct nic_packet *packet = by_hand(NIC_BLOCK);
    packet->offset = 100; /* places are 256 bytes apart */
    packet->bytes = 100;
    packet->tag =
        (struct nic_block_tag){.transfer = 7, .transmission = 1, .block_bytes = BLOCK, .place = 1};
    hand_in(packet);
    CHECK_EQ(counts(1)->malformed, 1);
    for (uint32_t block = 1; block < 9; block++)
        hand_in_block(block, 0, 1, 1);
    CHECK_EQ(counts(1)->malformed, 2); /* the ninth that is begun */
    for (uint32_t i = 0; i < ROOM; i++)
        CHECK_EQ(target[1][i], i % BLOCK < MTU && i < 8 * BLOCK);
    world_end(&world);
}

struct strange {
    const char *what;
    uint64_t transfer;
    uint32_t block, block_bytes, place, offset, bytes;
};

static void hand_in_strange(const struct strange *s) {
    struct nic_packet *packet = by_hand(NIC_BLOCK);
    uint64_t before = counts(1)->malformed;
    packet->offset = s->offset;
    packet->bytes = s->bytes;
    memset(packet->data, 9, MTU);
    packet->tag = (struct nic_block_tag){.transfer = s->transfer,
                                         .block = s->block,
                                         .transmission = 1,
                                         .block_bytes = s->block_bytes,
                                         .place = (uint8_t)s->place};
    hand_in(packet);
    CHECK_EQ(counts(1)->malformed, before + 1);
    if (counts(1)->malformed != before + 1)
        fprintf(stderr, "taken: %s\n", s->what);
}

/* Each is wrong in one thing alone; nothing of it is stored, and the message arrives nevertheless.
 */
TEST(packets_of_blocks_that_do_not_fit_are_dropped) {
    static const struct strange first[] = {
        {"of no blocks", 7, 0, 0, 0, 0, MTU},
        {"longer than the places are apart", 7, 0, BLOCK, 2, MTU, MTU},
    };
    static const struct strange rows[] = {
        {"of another transfer", 8, 0, BLOCK, 1, MTU, MTU},
        {"of other blocks", 7, 0, 2 * BLOCK, 1, MTU, MTU},
        {"of no blocks", 7, 0, 0, 1, MTU, MTU},
        {"before its block", 7, 1, BLOCK, 1, MTU, MTU},
        {"beyond its block", 7, 0, BLOCK, 5, 5 * MTU, MTU},
        {"at the end of its block", 7, 0, BLOCK, 4, 4 * MTU, MTU},
        {"over the end of its block", 7, 0, BLOCK, 3, 3 * MTU, 2 * MTU},
        {"empty", 7, 1, BLOCK, 0, BLOCK, 0},
        {"empty, in a place", 7, 0, BLOCK, 1, MTU, 0},
        {"beside its place", 7, 0, BLOCK, 2, 2 * MTU + 1, MTU},
        {"short, but not the last", 7, 0, BLOCK, 1, MTU, 100},
        {"beyond the message", 7, 2, BLOCK, 1, 2 * BLOCK + MTU, MTU},
        {"of a block beyond the message", 7, 3, BLOCK, 0, 3 * BLOCK, MTU},
    };
    begin_blocks((struct nic_config){0});
    announce(2 * BLOCK + 100);
    for (size_t i = 0; i < sizeof first / sizeof first[0]; i++)
        hand_in_strange(&first[i]);
    hand_in_block(0, 0, 1, 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        hand_in_strange(&rows[i]);
    for (uint32_t i = MTU; i < ROOM; i++)
        CHECK_EQ(target[1][i], 0);
    for (uint32_t place = 1; place < 8; place++)
        hand_in_block(place / 4, place % 4, 1, 1);
    struct nic_packet *packet = by_hand(NIC_BLOCK);
    packet->offset = 2 * BLOCK;
    packet->bytes = 100;
    memset(packet->data, 1, 100);
    packet->tag =
        (struct nic_block_tag){.transfer = 7, .block = 2, .transmission = 1, .block_bytes = BLOCK};
    hand_in(packet);
    CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 2 * BLOCK + 100);
    for (uint32_t i = 0; i < ROOM; i++)
        CHECK_EQ(target[1][i], i < 2 * BLOCK + 100);
    world_end(&world);
}

/* One that is whole before an older one: its sender may not have heard of it. */
TEST(a_block_that_is_whole_is_acknowledged_again) {
    begin_blocks((struct nic_config){0});
    announce(2 * BLOCK);
    for (uint32_t place = 0; place < 4; place++)
        hand_in_block(1, place, 1, 1);
    CHECK_STR(sent, "ack 1.1, ");
    hand_in_block(1, 0, 2, 9);
    CHECK_STR(sent, "ack 1.1, ack 1.2, ");
    CHECK_EQ(counts(1)->stale, 1);
    CHECK_EQ(target[1][BLOCK], 1);
    for (uint32_t place = 0; place < 4; place++)
        hand_in_block(0, place, 1, 1);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    world_end(&world);
}

/* No card sends so far ahead. */
TEST(blocks_far_beyond_one_that_is_missing_are_dropped) {
    begin_blocks((struct nic_config){0});
    announce(70 * BLOCK);
    hand_in_block(NIC_BLOCK_SPAN - 1, 0, 1, 1);
    CHECK_EQ(counts(1)->malformed, 0);
    CHECK_EQ(target[1][(NIC_BLOCK_SPAN - 1) * BLOCK], 1);
    hand_in_block(NIC_BLOCK_SPAN, 0, 1, 1);
    CHECK_EQ(counts(1)->malformed, 1);
    world_end(&world);
}

/* As many as there are bits. */
TEST(a_block_may_have_64_packets) {
    enum { LONG = NIC_BLOCK_PACKETS * MTU };
    begin_blocks((struct nic_config){0});
    announce(LONG);
    for (uint32_t place = 0; place < NIC_BLOCK_PACKETS; place++) {
        struct nic_packet *packet = by_hand(NIC_BLOCK);
        packet->offset = place * MTU;
        packet->bytes = MTU;
        memset(packet->data, 1 + (int)place, MTU);
        packet->tag = (struct nic_block_tag){
            .transfer = 7, .transmission = 1, .block_bytes = LONG, .place = (uint8_t)place};
        hand_in(packet);
    }
    CHECK_EQ(counts(1)->malformed, 0);
    CHECK_EQ(counts(1)->blocks_received, 1);
    world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    for (uint32_t i = 0; i < LONG; i++)
        CHECK_EQ(target[1][i], 1 + i / MTU);
    world_end(&world);
}

/* All data of a message comes again before its page is said to be there; the next one meets an
 * absent page too. */
TEST(a_message_that_is_over_waits_for_no_page) {
    begin_blocks((struct nic_config){0});
    for (uint32_t turn = 0; turn < 3; turn++) {
        announce_number(turn, BLOCK);
        take(1, target[1]);
        hand_in_numbered(turn, 0, 0, 1, 1);
        world.absents = 0;
        for (uint32_t place = 0; place < 4; place++)
            hand_in_numbered(turn, 0, place, 2, 1);
        world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
        CHECK(nic_quiet(world.node[1].nic));
    }
    page_in(1, target[1], false);
    world_end(&world);
}

TEST(settings_of_blocks_have_limits) {
    struct spin_error err = {0};
    world = (struct nicworld){.config = {.mtu_bytes = 256, .reliable = true}};
    CHECK_EQ(nic_pool_new(&world.pool, 256, NULL), 0);
    world.config.block_bytes = 64 * 256 + 1;
    CHECK_EQ(world_try_node(&world, 0, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "blocks of 16385 bytes: at most 64 packets of 256 bytes");
    world.config.block_bytes = 64 * 256;
    world.config.blocks_outstanding = 9;
    CHECK_EQ(world_try_node(&world, 0, &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "9 blocks outstanding: at most 8");
    nic_pool_free(world.pool);
}

/* ---- Handlers ---- */

static uint32_t headers, payloads;
static uint64_t payload_bytes;
static int32_t handle(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    if (task->kind == NIC_HEADER_HANDLER) {
        headers++;
        CHECK_EQ(task->user_hdr_bytes, 16);
        CHECK(memcmp(task->data, source[0], 16) == 0);
        return FLOW_PROCESS_DATA;
    }
    if (task->kind == NIC_PAYLOAD_HANDLER) {
        payloads++;
        payload_bytes += task->bytes;
        CHECK(memcmp(task->data, source[0] + task->offset, task->bytes) == 0);
    }
    return FLOW_SUCCESS;
}

static int32_t proceed(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    return task->kind == NIC_HEADER_HANDLER ? FLOW_PROCEED : FLOW_SUCCESS;
}

/* The header handler runs while all of the message arrives; then it is stored, and meets an absent
 * page: no block is acknowledged before it is stored. */
TEST(blocks_held_for_a_header_handler_are_not_acknowledged) {
    begin_blocks((struct nic_config){0});
    struct node *n = &world.node[1];
    ptl_me_t me = host_handlers(n, host_entry(target[1], ROOM, 7, PTL_ME_OP_PUT), 1);
    host_append(n, &me);
    world_expect(n, PTL_EVENT_LINK, PTL_NI_OK);
    n->handler[NIC_HEADER_HANDLER] = proceed;
    world.handler_spread = 5000;
    take(1, target[1] + PAGE);
    struct portals_request r = host_put(world.node[0].md, 0, 2 * BLOCK, 1, 7);
    CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
    run();
    CHECK_STR(sent, "D 0.1, D 1.1, fault 0.1, ack 1.1, ");
    page_in(1, target[1] + PAGE, false);
    world_settle(&world);
    is_right(0, 2 * BLOCK);
    CHECK_EQ(n->ran[NIC_HEADER_HANDLER], 1);
    world_expect(n, PTL_EVENT_PUT, PTL_NI_OK);
    world_end(&world);
}

/* Each packet goes to one handler, though blocks come again; the header handler sees the first
 * bytes, whichever packet comes first. */
TEST(handlers_see_each_packet_once) {
    for (uint32_t seed = 0; seed < 40; seed++) {
        begin((struct nicworld){.config = {.mtu_bytes = MTU,
                                           .block_bytes = BLOCK,
                                           .block_timeout = 30, /* far too early */
                                           .window_packets = 20},
                                .loss = 50,
                                .doubling = 50,
                                .spread = 300,
                                .source_absence = 50,
                                .page_spread = 100,
                                .handler_spread = 100});
        world.rng = rng_seeded(seed);
        struct node *n = &world.node[1];
        ptl_me_t me = host_handlers(n, host_entry(target[1], ROOM, 7, PTL_ME_OP_PUT), 7);
        me.user_hdr_length = 16;
        host_append(n, &me);
        world_expect(n, PTL_EVENT_LINK, PTL_NI_OK);
        for (uint32_t k = 0; k <= NIC_CLEANUP_HANDLER; k++)
            n->handler[k] = handle;
        headers = payloads = 0;
        payload_bytes = 0;
        struct portals_request r = host_put(world.node[0].md, 0, 5 * BLOCK + 100, 1, 7);
        CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
        world_settle(&world);
        CHECK_EQ(headers, 1);
        CHECK_EQ(payloads, 21);
        CHECK_EQ(payload_bytes, 5 * BLOCK + 100 - 16);
        CHECK_EQ(n->ran[NIC_COMPLETION_HANDLER], 1);
        world_expect(n, PTL_EVENT_PUT, PTL_NI_OK);
        CHECK(counts(0)->blocks_repeated > 0);
        world_end(&world);
    }
}

static uint64_t last_offset, last_bytes;

static int32_t note_last(struct nicworld *w, struct node *n, const struct nic_task *task) {
    (void)w;
    (void)n;
    last_offset = task->offset;
    last_bytes = task->bytes;
    return FLOW_SUCCESS;
}

/* PsPIN's completion handler is called with the last packet of its message. */
TEST(a_completion_handler_has_the_last_packet_of_the_last_block) {
    begin_blocks((struct nic_config){0});
    struct node *n = &world.node[1];
    ptl_me_t me = host_entry(target[1], ROOM, 7, PTL_ME_OP_PUT | PTL_ME_HANDLERS);
    CHECK_EQ(portals_image_load(n->portals, n->ni, getenv("PSPIN_IMAGE"), NULL, 0, &n->image), 0);
    CHECK_EQ(portals_image_find(n->portals, n->image, "front_th", &me.completion_handler), 0);
    CHECK_EQ(portals_hpu_alloc(n->portals, n->ni, 64, &me.hpu_memory), 0);
    host_append(n, &me);
    n->handler[NIC_COMPLETION_HANDLER] = note_last;
    struct portals_request r = host_put(world.node[0].md, 0, 2 * BLOCK + MTU + 9, 1, 7);
    CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
    run();
    CHECK_EQ(n->ran[NIC_COMPLETION_HANDLER], 1);
    CHECK_EQ(last_offset, 2 * BLOCK + MTU);
    CHECK_EQ(last_bytes, 9);
    world_end(&world);
}

TEST_MAIN
