/* The card's logic with Portals on top: messages of all kinds through a good and a bad network. */
#include "lib/nicworld.h"
#include "lib/nichost.h"

static struct nicworld world;

static uint32_t seeds(uint32_t usual) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 0) : usual;
}

static void fill(struct rng *rng, uint8_t *memory, uint32_t bytes) {
    for (uint32_t i = 0; i < bytes; i++)
        memory[i] = (uint8_t)rng_u32(rng);
}

#define ROOM 8192
static uint8_t source[NODES][ROOM], target[NODES][ROOM];

/* Every rank puts pieces of its memory into its own part of rank 0's, the pieces in random order.
 */
static void put_pieces(struct nicworld *w, struct rng *rng) {
    uint32_t part = ROOM / NODES;
    for (uint32_t i = 0; i < w->nodes; i++)
        fill(rng, source[i], ROOM);
    memset(target, 0, sizeof target);
    host_post(&w->node[0], target[0], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    uint64_t messages = nic_counts(w->node[0].nic)->messages_in;
    for (uint32_t i = 0; i < w->nodes; i++) {
        ptl_handle_md_t md = host_md(&w->node[i], source[i], ROOM);
        for (uint32_t at = 0; at < part; messages += i ? 1 : 2) { /* of its own the ack, too */
            uint32_t bytes = 1 + rng_below(rng, part - at);
            struct portals_request put = host_put(md, i * part + at, bytes, 0, 5);
            put.remote_offset = i * part + at;
            put.ack_req = PTL_ACK_REQ;
            CHECK_EQ(portals_start(w->node[i].portals, &put), PTL_OK);
            at += bytes;
        }
    }
    world_settle(w);
    for (uint32_t i = 0; i < w->nodes; i++)
        CHECK(memcmp(target[0] + i * part, source[i] + i * part, part) == 0);
    CHECK_EQ(nic_counts(w->node[0].nic)->messages_in, messages); /* each once */
}

static uint32_t count_events(struct node *n, int type, int fail) {
    ptl_event_t event;
    uint32_t count = 0;
    while (world_event(n, &event))
        count += event.type == type && event.ni_fail_type == fail;
    return count;
}

TEST(a_card_offers_coherent_atomics_only_if_its_driver_does) {
    struct portals_config portals;
    portals_config_default(&portals, 256);
    for (uint32_t i = 0; i < 2; i++) {
        ptl_ni_limits_t all = {.features = 7}, actual;
        ptl_handle_ni_t ni;
        if (i)
            portals.features |= PTL_COHERENT_ATOMICS;
        world = (struct nicworld){.config = {.portals = i ? &portals : NULL}};
        world_begin(&world, 1, 1);
        CHECK_EQ(portals_ni_init(world.node[0].portals, PTL_IFACE_DEFAULT,
                                 PTL_NI_MATCHING | PTL_NI_PHYSICAL, 1, &all, NULL, &actual, &ni),
                 PTL_OK);
        CHECK_EQ(actual.features, PTL_TARGET_BIND_INACCESSIBLE | (i ? PTL_COHERENT_ATOMICS : 0));
        world_end(&world);
    }
}

TEST(puts_arrive_whole_through_loss_doubling_and_reordering) {
    for (uint32_t seed = 0; seed < seeds(4000); seed++) {
        world = (struct nicworld){.loss = 100,
                                  .doubling = 100,
                                  .spread = seed % 3 ? 800 : 0,
                                  .memory_spread = seed % 2 ? 300 : 0,
                                  .config = {.mtu_bytes = 64 << seed % 3,
                                             .window_packets = 1 + seed % 50,
                                             .send_packets = 1 + seed % 20}};
        world_begin(&world, 2 + seed % 3, seed);
        world_ranks(&world, 0);
        put_pieces(&world, &world.rng);
        for (uint32_t i = 0; i < world.nodes; i++)
            CHECK_EQ(nic_counts(world.node[i].nic)->given_up, 0);
        CHECK(nic_counts(world.node[1].nic)->retransmitted +
              nic_counts(world.node[1].nic)->receipts);
        world_end(&world);
    }
}

static uint32_t short_runs, long_runs;

static void see_run(struct nicworld *w, const struct nic_packet *packet, bool arrives) {
    (void)w;
    if (!arrives && packet->run)
        *(packet->run < 5 ? &short_runs : &long_runs) += 1;
}

TEST(a_run_waits_for_room_for_all_of_it) {
    /* 1 + 127 packets of 64 bytes per put, in runs of 5, through a window that is no multiple: each
     * put has one short run, its last */
    for (uint32_t credits = 0; credits < 2; credits++) {
        world = (struct nicworld){.run_bytes = 5 * 64,
                                  .watch = see_run,
                                  .config = {.mtu_bytes = 64,
                                             .receipt_time = 100,
                                             .window_packets = credits ? 64 : 23,
                                             .credit_packets = credits ? 23 : 0}};
        short_runs = long_runs = 0;
        world_begin(&world, 2, 1);
        world_ranks(&world, 0);
        fill(&world.rng, source[1], ROOM);
        memset(target, 0, sizeof target);
        host_post(&world.node[0], target[0], ROOM, 5, PTL_ME_OP_PUT);
        struct portals_request put =
            host_put(host_md(&world.node[1], source[1], ROOM), 0, ROOM, 0, 5);
        for (uint32_t i = 0; i < 10; i++)
            CHECK_EQ(portals_start(world.node[1].portals, &put), PTL_OK);
        world_settle(&world);
        CHECK(memcmp(target[0], source[1], ROOM) == 0);
        CHECK_EQ(long_runs, 10 * 25);
        CHECK_EQ(short_runs, 10);
        CHECK_EQ(nic_counts(world.node[1].nic)->retransmitted, 0);
        world_end(&world);
    }
}

TEST(on_a_reliable_network_nothing_is_acknowledged_or_kept) {
    for (uint32_t ordered = 0; ordered < 2; ordered++)
        for (uint32_t seed = 0; seed < 50; seed++) {
            world = (struct nicworld){.spread = ordered ? 0 : 700,
                                      .memory_spread = 100,
                                      .config = {.reliable = true, .ordered = ordered}};
            world_begin(&world, 4, seed);
            world_ranks(&world, 0);
            put_pieces(&world, &world.rng);
            for (uint32_t i = 0; i < 4; i++) {
                const struct nic_counts *c = nic_counts(world.node[i].nic);
                CHECK_EQ(c->receipts + c->retransmitted + c->duplicates + c->malformed, 0);
                CHECK_EQ(nic_deadline(world.node[i].nic), UINT64_MAX);
            }
            CHECK_EQ(nic_pool_used(world.pool), 0);
            world_end(&world);
        }
}

TEST(every_put_raises_its_events_once) {
    world = (struct nicworld){.loss = 200, .doubling = 200, .spread = 500};
    world_begin(&world, 2, 3);
    world_ranks(&world, 0);
    host_post(&world.node[1], target[1], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    for (uint32_t i = 0; i < 50; i++) {
        struct portals_request put = host_put(md, 0, i * 20, 1, 5);
        put.ack_req = i % 2 ? PTL_ACK_REQ : PTL_NO_ACK_REQ;
        put.hdr_data = i;
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    }
    world_settle(&world);
    uint64_t seen = 0;
    for (uint32_t i = 0; i < 50; i++) { /* in any order: a long one ends later */
        ptl_event_t put = world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
        CHECK_EQ(put.mlength, put.hdr_data * 20);
        seen |= 1ull << put.hdr_data;
    }
    CHECK_EQ(seen, (1ull << 50) - 1);
    ptl_event_t event;
    CHECK(!world_event(&world.node[1], &event));
    uint32_t sends = 0, acks = 0;
    while (world_event(&world.node[0], &event)) {
        sends += event.type == PTL_EVENT_SEND;
        acks += event.type == PTL_EVENT_ACK;
    }
    CHECK_EQ(sends, 50);
    CHECK_EQ(acks, 25);
    world_end(&world);
}

/* The driver lends a place of the wire, or has none: the message takes its turn then. */
TEST(small_messages_are_written_into_what_the_driver_lends) {
    world = (struct nicworld){.at_once = true, .config = {.reliable = true, .ordered = true}};
    world_begin(&world, 2, 5);
    world_ranks(&world, 0);
    host_post(&world.node[1], target[1], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    for (uint32_t i = 0; i < 200; i++) {
        struct portals_request put = host_put(md, 8 * i, 8, 1, 5);
        fill(&world.rng, source[0] + 8 * i, 8);
        put.ack_req = i % 4 ? PTL_ACK_REQ : PTL_NO_ACK_REQ;
        put.remote_offset = 8 * i;
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
        world_settle(&world);
    }
    CHECK(memcmp(source[0], target[1], 200 * 8) == 0);
    CHECK_EQ(count_events(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK), 200);
    CHECK_EQ(count_events(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK), 150);
    for (uint32_t i = 0; i < 2; i++) { /* puts there, acknowledgements back */
        CHECK_EQ(world.node[i].lent_sent, world.node[i].lent_often);
        CHECK(world.node[i].lent_sent > 100);
        CHECK(world.node[i].lent_sent < (i ? 150 : 200));
    }
    world_end(&world);
}

static void acknowledge_by_hand(uint32_t from, uint32_t number, uint64_t initiator) {
    struct nic_packet *p = nic_packet_new(world.pool);
    p->kind = NIC_DATA;
    p->first = p->last = true;
    p->source = (struct nic_address){from, 1};
    p->target = (struct nic_address){0, 1};
    p->message_number = number;
    p->message = (struct nic_message){.kind = NIC_ACK,
                                      .source = p->source,
                                      .target = p->target,
                                      .ack_req = PTL_ACK_REQ,
                                      .length = 8,
                                      .initiator = initiator};
    nic_packet_in(world.node[0].nic, p, world.now);
    nic_packet_release(p);
}

/* What has left has no record on the card: its number is Portals' own. */
TEST(an_acknowledgement_counts_once_and_only_from_the_target) {
    world = (struct nicworld){.config = {.reliable = true, .ordered = true}};
    world_begin(&world, 3, 5);
    world.node[1].dead = true; /* it takes the put, and does not answer */
    world_ranks(&world, 0);
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    struct portals_request put = host_put(md, 0, 0, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    while (world.count)
        world_step(&world);
    CHECK(!nic_quiet(world.node[0].nic));
    uint64_t number = world.node[0].lent.message.initiator;
    acknowledge_by_hand(2, 0, number);                 /* another process */
    acknowledge_by_hand(1, 0, number + 1);             /* another operation */
    acknowledge_by_hand(1, 1, number ^ 1ull << 32);    /* an earlier one in its place */
    acknowledge_by_hand(1, 2, number & ~(1ull << 31)); /* one that the card has a record of */
    CHECK_EQ(count_events(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK), 0);
    CHECK(!nic_quiet(world.node[0].nic));
    acknowledge_by_hand(1, 3, number);
    acknowledge_by_hand(1, 4, number);
    CHECK_EQ(count_events(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK), 1);
    CHECK(nic_quiet(world.node[0].nic));
    world_end(&world);
}

/* Also what the card has no record of ends when its target is lost, and nothing else does. */
TEST(what_waits_for_an_acknowledgement_of_a_lost_peer_ends) {
    world = (struct nicworld){.at_once = true, .config = {.reliable = true, .ordered = true}};
    world_begin(&world, 3, 5);
    world.node[1].dead = world.node[2].dead = true;
    world_ranks(&world, 0);
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    for (uint32_t to = 1; to < 3; to++) {
        struct portals_request r = host_put(md, 0, 8, to, 5);
        r.ack_req = PTL_ACK_REQ;
        CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
        r.kind = PORTALS_ATOMIC;
        r.operation = PTL_SUM;
        r.datatype = PTL_UINT64_T;
        CHECK_EQ(portals_start(world.node[0].portals, &r), PTL_OK);
    }
    while (world.count)
        world_step(&world);
    CHECK_EQ(count_events(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK), 4);
    for (uint32_t to = 1; to < 3; to++) {
        CHECK(!nic_quiet(world.node[0].nic));
        nic_peer_lost(world.node[0].nic, (struct nic_address){to, 1}, world.now);
        CHECK_EQ(count_events(&world.node[0], PTL_EVENT_ACK, PTL_NI_UNDELIVERABLE), 2);
    }
    CHECK(nic_quiet(world.node[0].nic));
    world_end(&world);
}

/* Locally managed offsets show the order of matching. */
TEST(messages_of_one_source_are_matched_in_order) {
    for (uint32_t seed = 0; seed < 100; seed++) {
        world = (struct nicworld){.loss = 100, .spread = 2000, .config = {.mtu_bytes = 64}};
        world_begin(&world, 2, seed);
        world_ranks(&world, 0);
        memset(target, 0, sizeof target);
        host_post(&world.node[1], target[1], ROOM, 5,
                  PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE);
        ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
        uint32_t total = 0;
        for (uint32_t i = 0; i < 30; i++) {
            uint32_t bytes = 1 + rng_below(&world.rng, 200);
            memset(source[0] + total, (int)(i + 1), bytes);
            struct portals_request put = host_put(md, total, bytes, 1, 5);
            CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
            total += bytes;
        }
        world_settle(&world);
        CHECK(memcmp(target[1], source[0], total) == 0);
        world_end(&world);
    }
}

static void check_get(bool good, uint32_t bytes, uint32_t initiator, uint32_t to) {
    world = (struct nicworld){.loss = good ? 0 : 100,
                              .spread = good ? 0 : 500,
                              .memory_spread = good ? 0 : 500,
                              .config = {.reliable = good, .ordered = good}};
    world_begin(&world, 2, bytes);
    world_ranks(&world, 0);
    fill(&world.rng, source[to], ROOM);
    memset(target, 0, sizeof target);
    host_post(&world.node[to], source[to], ROOM, 9, PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    struct portals_request get = {.kind = PORTALS_GET,
                                  .get_md = host_md(&world.node[initiator], target[0], ROOM),
                                  .length = bytes,
                                  .target = {.rank = to},
                                  .match_bits = 9,
                                  .remote_offset = 3};
    CHECK_EQ(portals_start(world.node[initiator].portals, &get), PTL_OK);
    world_settle(&world);
    CHECK(memcmp(target[0], source[to] + 3, bytes) == 0);
    CHECK_EQ(target[0][bytes], 0);
    if (initiator != to) {
        CHECK_EQ(world_expect(&world.node[to], PTL_EVENT_GET, PTL_NI_OK).mlength, bytes);
        CHECK_EQ(world_expect(&world.node[initiator], PTL_EVENT_REPLY, PTL_NI_OK).mlength, bytes);
    } else {
        world_expect(&world.node[to], PTL_EVENT_GET, PTL_NI_OK);
        world_expect(&world.node[to], PTL_EVENT_REPLY, PTL_NI_OK);
    }
    world_end(&world);
}

TEST(gets_bring_the_data) {
    static const uint32_t sizes[] = {0, 1, 255, 256, 257, 1000, 5000};
    for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        check_get(true, sizes[i], 0, 1);
        check_get(false, sizes[i], 0, 1);
        check_get(true, sizes[i], 1, 1); /* to ourselves */
    }
}

TEST(a_put_to_ourselves_goes_the_same_way) {
    world = (struct nicworld){.memory_spread = 50};
    world_begin(&world, 1, 1);
    world_ranks(&world, 0);
    fill(&world.rng, source[0], ROOM);
    memset(target, 0, sizeof target);
    host_post(&world.node[0], target[0], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    struct portals_request put = host_put(host_md(&world.node[0], source[0], ROOM), 0, 3000, 0, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    CHECK(memcmp(target[0], source[0], 3000) == 0);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_PUT, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK);
    CHECK(world.now < 1000); /* no timer was waited for */
    world_end(&world);
}

TEST(too_long_a_message_is_cut) {
    world = (struct nicworld){.config = {.mtu_bytes = 64}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    fill(&world.rng, source[0], ROOM);
    memset(target, 0, sizeof target);
    host_post(&world.node[1], target[1], 150, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    struct portals_request put = host_put(host_md(&world.node[0], source[0], ROOM), 0, 1000, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    CHECK(memcmp(target[1], source[0], 150) == 0);
    CHECK_EQ(target[1][150], 0);
    ptl_event_t event = world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK);
    CHECK_EQ(event.rlength, 1000);
    CHECK_EQ(event.mlength, 150);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    CHECK_EQ(world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_OK).mlength, 150);
    world_end(&world);
}

TEST(what_nothing_matches_is_dropped_and_told) {
    world = (struct nicworld){.config = {.mtu_bytes = 64}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    struct portals_request put = host_put(host_md(&world.node[0], source[0], ROOM), 0, 1000, 1, 5);
    put.ack_req = PTL_ACK_REQ;
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    world_expect(&world.node[0], PTL_EVENT_SEND, PTL_NI_OK);
    world_expect(&world.node[0], PTL_EVENT_ACK, PTL_NI_DROPPED);
    world_end(&world);
}

TEST(pieces_of_memory_on_both_sides) {
    world = (struct nicworld){.loss = 100, .spread = 300, .config = {.mtu_bytes = 64}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    fill(&world.rng, source[0], ROOM);
    memset(target, 0, sizeof target);
    static ptl_iovec_t from[40], to[300];
    for (uint32_t i = 0; i < 40; i++)
        from[i] = (ptl_iovec_t){source[0] + 100 * i, 50};
    for (uint32_t i = 0; i < 300; i++) /* many in one packet */
        to[i] = (ptl_iovec_t){target[1] + 10 * i, 7};
    ptl_me_t me = host_entry(to, 300, 5, PTL_ME_OP_PUT | PTL_IOVEC | PTL_ME_EVENT_LINK_DISABLE);
    host_append(&world.node[1], &me);
    ptl_md_t md = {.start = from,
                   .length = 40,
                   .options = PTL_IOVEC,
                   .eq_handle = world.node[0].eq,
                   .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle;
    CHECK_EQ(portals_md_bind(world.node[0].portals, world.node[0].ni, &md, &handle), PTL_OK);
    struct portals_request put = host_put(handle, 25, 1900, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_settle(&world);
    for (uint32_t i = 0; i < 1900; i++) {
        uint32_t out = 25 + i;
        CHECK_EQ(target[1][10 * (i / 7) + i % 7], source[0][100 * (out / 50) + out % 50]);
    }
    CHECK_EQ(target[1][7], 0);
    world_end(&world);
}

/* Three cards on a bad network; the memory of the first is operated on. */
static uint64_t *begin_atomics(uint32_t seed) {
    world = (struct nicworld){.loss = 200,
                              .doubling = 300,
                              .spread = 500,
                              .memory_spread = 400,
                              .config = {.mtu_bytes = 64}};
    world_begin(&world, 3, seed);
    world_ranks(&world, 0);
    memset(target, 0, sizeof target);
    host_post(&world.node[0], target[0], ROOM, 5,
              PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    return (uint64_t *)(void *)target[0];
}

TEST(atomics_operate_once_whatever_the_network_does) {
    for (uint32_t seed = 0; seed < 100; seed++) {
        uint64_t *sum = begin_atomics(seed);
        for (uint32_t i = 1; i < 3; i++) {
            uint64_t *from = (uint64_t *)(void *)source[i];
            for (uint32_t k = 0; k < 64; k++)
                from[k] = 1000 * i + k;
            ptl_handle_md_t md = host_md(&world.node[i], source[i], ROOM);
            struct portals_request add = host_put(md, 0, 512, 0, 5);
            add.kind = PORTALS_ATOMIC;
            add.operation = PTL_SUM;
            add.datatype = PTL_UINT64_T;
            for (uint32_t k = 0; k < 5; k++)
                CHECK_EQ(portals_start(world.node[i].portals, &add), PTL_OK);
        }
        world_settle(&world);
        for (uint32_t k = 0; k < 64; k++)
            CHECK_EQ(sum[k], 5 * (3000 + 2 * k));
        world_end(&world);
    }
}

TEST(fetching_atomics_bring_back_what_was_there) {
    for (uint32_t seed = 0; seed < 100; seed++) {
        uint64_t *sum = begin_atomics(seed);
        for (uint32_t i = 1; i < 3; i++) {
            uint64_t *from = (uint64_t *)(void *)source[i];
            for (uint32_t k = 0; k < 40; k++)
                from[k] = 1;
            struct portals_request add =
                host_put(host_md(&world.node[i], source[i], ROOM), 0, 320, 0, 5);
            add.kind = PORTALS_FETCH_ATOMIC;
            add.operation = PTL_SUM;
            add.datatype = PTL_UINT64_T;
            add.get_md = host_md(&world.node[i], target[i], ROOM);
            for (uint32_t k = 0; k < 4; k++) {
                add.get_offset = 320 * k;
                CHECK_EQ(portals_start(world.node[i].portals, &add), PTL_OK);
            }
        }
        world_settle(&world);
        /* Eight additions to each value: each brought back another of 0 to 7. */
        for (uint32_t v = 0; v < 40; v++) {
            uint32_t seen = 0;
            CHECK_EQ(sum[v], 8);
            for (uint32_t i = 1; i < 3; i++)
                for (uint32_t k = 0; k < 4; k++)
                    seen |= 1u << ((uint64_t *)(void *)(target[i] + 320 * k))[v];
            CHECK_EQ(seen, 0xff);
        }
        world_end(&world);
    }
}

/* Between the driver's word that an atomic may be performed, and the atomic. */
TEST(an_atomic_whose_memory_goes_fails_on_both_sides) {
    static const uint8_t kinds[] = {PORTALS_ATOMIC, PORTALS_FETCH_ATOMIC};
    for (uint32_t i = 0; i < 4; i++) {
        begin_atomics(i);
        world.gone = true;
        struct portals_request add =
            host_put(host_md(&world.node[1], source[1], ROOM), 0, 64, 0, 5);
        add.kind = kinds[i / 2];
        add.ack_req = PTL_ACK_REQ;
        add.operation = PTL_SUM;
        add.datatype = PTL_UINT64_T;
        add.get_md = host_md(&world.node[1], target[1], ROOM);
        CHECK_EQ(portals_start(world.node[1].portals, &add), PTL_OK);
        world_settle(&world);
        world_expect(&world.node[0], i / 2 ? PTL_EVENT_FETCH_ATOMIC : PTL_EVENT_ATOMIC,
                     PTL_NI_SEGV);
        world_expect(&world.node[1], PTL_EVENT_SEND, PTL_NI_OK);
        world_expect(&world.node[1], i / 2 ? PTL_EVENT_REPLY : PTL_EVENT_ACK, PTL_NI_SEGV);
        world_end(&world);
    }
}

TEST(a_swap_carries_its_operand) {
    world = (struct nicworld){.loss = 100};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    uint64_t *value = (uint64_t *)(void *)target[1], *mine = (uint64_t *)(void *)source[0],
             *back = (uint64_t *)(void *)target[0];
    *value = 7;
    *mine = 99;
    *back = 0;
    host_post(&world.node[1], target[1], 8, 5,
              PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    struct portals_request swap = host_put(host_md(&world.node[0], source[0], 8), 0, 8, 1, 5);
    swap.kind = PORTALS_SWAP;
    swap.operation = PTL_CSWAP;
    swap.datatype = PTL_UINT64_T;
    swap.get_md = host_md(&world.node[0], target[0], 8);
    swap.operand[0] = 8; /* not equal */
    CHECK_EQ(portals_start(world.node[0].portals, &swap), PTL_OK);
    world_settle(&world);
    CHECK_EQ(*back, 7);
    CHECK_EQ(*value, 7);
    swap.operand[0] = 7;
    CHECK_EQ(portals_start(world.node[0].portals, &swap), PTL_OK);
    world_settle(&world);
    CHECK_EQ(*back, 7);
    CHECK_EQ(*value, 99);
    world_end(&world);
}

/* Peers that die. */

TEST(a_dead_peer_makes_messages_undeliverable) {
    world = (struct nicworld){.config = {.retries = 3, .mtu_bytes = 64}};
    world_begin(&world, 3, 1);
    world_ranks(&world, 0);
    host_post(&world.node[2], target[2], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    world.node[1].dead = true;
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    for (uint32_t to = 1; to < 3; to++) {
        struct portals_request put = host_put(md, 0, 5000, to, 5);
        put.ack_req = PTL_ACK_REQ;
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    }
    struct portals_request get = {.kind = PORTALS_GET,
                                  .get_md = host_md(&world.node[0], target[0], ROOM),
                                  .length = 10,
                                  .target = {.rank = 1}};
    CHECK_EQ(portals_start(world.node[0].portals, &get), PTL_OK);
    world_settle(&world);
    uint32_t failed = 0, fine = 0;
    ptl_event_t event;
    while (world_event(&world.node[0], &event))
        *(event.ni_fail_type == PTL_NI_UNDELIVERABLE ? &failed : &fine) += 1;
    CHECK(failed >= 2); /* the put's and the get's */
    CHECK_EQ(fine, 2);  /* to the living: send and ack */
    CHECK_EQ(nic_counts(world.node[0].nic)->given_up, 1);
    world_expect(&world.node[2], PTL_EVENT_PUT, PTL_NI_OK);
    CHECK_EQ(nic_pool_used(world.pool), 0);
    world_end(&world);
}

TEST(a_peer_that_dies_after_it_took_a_request_is_noticed) {
    world = (struct nicworld){.config = {.retries = 3, .window_packets = 2}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    struct portals_request get = {.kind = PORTALS_GET,
                                  .get_md = host_md(&world.node[0], target[0], ROOM),
                                  .length = 4000,
                                  .target = {.rank = 1}};
    host_post(&world.node[1], source[1], ROOM, 0, PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    CHECK_EQ(portals_start(world.node[0].portals, &get), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (nic_counts(world.node[0].nic)->received < 3) /* part of the reply */
        CHECK(world_step(&world));
    world.node[1].dead = true;
    world_settle(&world);
    world_expect(&world.node[0], PTL_EVENT_REPLY, PTL_NI_UNDELIVERABLE);
    world_end(&world);
}

TEST(a_source_that_dies_in_the_middle_ends_its_message) {
    world = (struct nicworld){.config = {.retries = 3, .mtu_bytes = 64}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    host_post(&world.node[1], target[1], ROOM, 5,
              PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE);
    struct portals_request put = host_put(host_md(&world.node[0], source[0], ROOM), 0, 5000, 1, 5);
    CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    world_actions(&world, &world.node[0]);
    while (nic_counts(world.node[1].nic)->received < 20)
        CHECK(world_step(&world));
    world.node[0].dead = true;
    world_settle(&world);
    ptl_event_t event = world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_UNDELIVERABLE);
    CHECK(event.mlength < 5000);
    world_expect(&world.node[1], PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
    world_end(&world);
}

/* What a stranger may send: nothing of it reaches memory, and the card goes on. */
TEST(strange_packets_are_thrown_away) {
    world = (struct nicworld){.config = {.reliable = true, .ordered = true}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    memset(target, 0, sizeof target);
    host_post(&world.node[1], target[1], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    for (uint32_t i = 0; i < 20000; i++) {
        struct nic_packet *p = nic_packet_new(world.pool);
        struct rng *r = &world.rng;
        p->kind = (uint8_t)rng_below(r, 3);
        p->source = (struct nic_address){rng_below(r, 3), 1};
        p->target = (struct nic_address){1, 1};
        p->first = rng_below(r, 2);
        p->message_number = rng_below(r, 4);
        p->offset = rng_below(r, 2) ? rng_below(r, 1000) : rng_u64(r);
        p->bytes = rng_below(r, 257);
        p->message =
            (struct nic_message){.kind = (uint8_t)rng_below(r, 8),
                                 .interface = (uint8_t)rng_below(r, 16),
                                 .pt_index = rng_below(r, 3),
                                 .source = p->source,
                                 .target = p->target,
                                 .match_bits = rng_below(r, 2) * 6,
                                 .operation = (uint8_t)rng_u32(r),
                                 .datatype = (uint8_t)rng_u32(r),
                                 .remote_offset = rng_u64(r),
                                 .length = rng_u64(r),
                                 .payload = rng_below(r, 2) ? rng_below(r, 1000) : rng_u64(r),
                                 .initiator = rng_below(r, 2) ? 0 : rng_u64(r)};
        memset(p->data, 0xee, p->bytes);
        nic_packet_in(world.node[1].nic, p, world.now);
        nic_packet_release(p);
        world_actions(&world, &world.node[1]);
        while (world.count)
            world_step(&world);
    }
    for (uint32_t i = 0; i < ROOM; i++)
        CHECK_EQ(target[1][i], 0); /* match bits 5 were never sent */
    CHECK(nic_counts(world.node[1].nic)->malformed > 100);
    world_end(&world);
}

/* A packet of a put, given to node 1 by hand. */
struct by_hand {
    uint32_t source, message_number, length, to, offset, bytes;
    uint8_t value; /* of its data */
};

static void by_hand(struct by_hand h) {
    struct nic_packet *p = nic_packet_new(world.pool);
    p->source = (struct nic_address){h.source, 1};
    p->target = (struct nic_address){1, 1};
    p->message_number = h.message_number;
    p->first = h.offset == 0;
    p->offset = h.offset;
    p->bytes = h.bytes;
    p->last = h.offset + h.bytes == h.length;
    p->message = (struct nic_message){.kind = NIC_PUT,
                                      .interface = PTL_NI_MATCHING | PTL_NI_LOGICAL,
                                      .source = p->source,
                                      .target = p->target,
                                      .match_bits = 5,
                                      .remote_offset = h.to,
                                      .length = h.length,
                                      .payload = h.length};
    memset(p->data, h.value, h.bytes);
    nic_packet_in(world.node[1].nic, p, world.now);
    nic_packet_release(p);
    world_settle_node(&world, &world.node[1]);
}

/* Each packet lies within the message, but together they are more than it has. */
TEST(more_bytes_than_a_message_has) {
    world = (struct nicworld){.config = {.reliable = true, .ordered = true}};
    world_begin(&world, 2, 1);
    world_ranks(&world, 0);
    memset(target, 0, sizeof target);
    host_post(&world.node[1], target[1], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
    by_hand((struct by_hand){.length = 100, .offset = 0, .bytes = 60, .value = 1});
    by_hand((struct by_hand){.length = 100, .offset = 10, .bytes = 50, .value = 11});
    CHECK_EQ(nic_counts(world.node[1].nic)->malformed, 1);
    CHECK_EQ(target[1][10], 1);
    by_hand((struct by_hand){.length = 100, .offset = 60, .bytes = 40, .value = 61});
    CHECK_EQ(world_expect(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK).mlength, 100);
    CHECK_EQ(target[1][99], 61);
    CHECK_EQ(target[1][100], 0);
    world_settle(&world);
    world_end(&world);
}

/* Two peers have begun a thousand messages each, and go on with them in any order; one is lost in
 * between, and what has come of its messages stays. */
TEST(many_messages_are_begun_and_each_packet_finds_its_own) {
    enum { BEGUN = 1000, LENGTH = 4, PART = BEGUN * LENGTH };
    world = (struct nicworld){.at_once = true, .config = {.reliable = true, .ordered = true}};
    world_begin(&world, 3, 1);
    world_ranks(&world, 0);
    memset(target, 0, sizeof target);
    host_post(&world.node[1], target[1], ROOM, 5,
              PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE);
    struct by_hand h = {.length = LENGTH, .bytes = LENGTH / 2};
    for (uint32_t i = 0; i < 2 * BEGUN; i++) {
        h.source = i % 2 * 2;
        h.message_number = i / 2;
        h.to = i % 2 * PART + i / 2 * LENGTH;
        h.value = (uint8_t)(i * 7 + 1);
        by_hand(h);
    }
    const struct nic_counts *counts = nic_counts(world.node[1].nic);
    CHECK_EQ(counts->messages_in, 2 * BEGUN);
    h.offset = LENGTH / 2;
    for (uint32_t k = 0; k < 2 * BEGUN; k++) {
        uint32_t i = k * 1103 % (2 * BEGUN);
        h.source = i % 2 * 2;
        h.message_number = i / 2;
        h.value = (uint8_t)(i * 5 + 3);
        if (k < BEGUN || h.source == 0)
            by_hand(h);
        if (k == BEGUN)
            nic_peer_lost(world.node[1].nic, (struct nic_address){2, 1}, world.now);
    }
    uint32_t missing = 0;
    for (uint32_t i = 0; i < 2 * BEGUN; i++) {
        const uint8_t *at = &target[1][i % 2 * PART + i / 2 * LENGTH];
        bool ends = at[2] || (uint8_t)(i * 5 + 3) == 0;
        CHECK_EQ(at[0], (uint8_t)(i * 7 + 1));
        CHECK_EQ(at[2], ends ? (uint8_t)(i * 5 + 3) : 0);
        missing += !ends;
    }
    CHECK(missing > BEGUN / 4 && missing < BEGUN);
    CHECK_EQ(counts->malformed, 0);
    CHECK(nic_quiet(world.node[1].nic));
    world_end(&world);
}

TEST(a_bad_configuration_is_refused) {
    struct nic_pool *pool;
    struct nic *nic;
    struct spin_error err = {0};
    CHECK_EQ(nic_pool_new(&pool, 256, NULL), 0);
    struct nic_config config = {.pool = pool, .mtu_bytes = 100, .retry_time = 1};
    CHECK_EQ(nic_new(&nic, &config, &err), SPIN_EARG);
    CHECK_HAS(err.text, "MTU of 100 bytes");
    config.mtu_bytes = 512;
    CHECK_EQ(nic_new(&nic, &config, &err), SPIN_EARG);
    config.mtu_bytes = 256;
    config.retry_time = 0;
    CHECK_EQ(nic_new(&nic, &config, &err), SPIN_EARG);
    CHECK_HAS(err.text, "retry time 0");
    config.retry_time = 1;
    config.window_packets = 5000;
    CHECK_EQ(nic_new(&nic, &config, &err), SPIN_ELIMIT);
    nic_pool_free(pool);
}

/* Who makes requests is told when too many wait for their turn to a peer, and when half of them are
 * gone, be it that they left or that the peer is lost: else it would wait for ever. */
TEST(a_peer_with_many_requests_is_full_until_they_are_gone) {
    for (int dies = 0; dies < 2; dies++) {
        world = (struct nicworld){
            .config = {.retries = 3, .mtu_bytes = 64, .window_packets = 2, .peer_requests = 4}};
        world_begin(&world, 2, 1);
        world_ranks(&world, 0);
        struct node *n = &world.node[0];
        host_post(&world.node[1], target[1], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        ptl_handle_md_t md = host_md(n, source[0], ROOM);
        for (uint32_t round = 1; round <= 2; round++) {
            world.node[1].dead = dies && round == 1;
            for (int i = 0; i < 12; i++) {
                struct portals_request put = host_put(md, 0, 1000, 1, 5);
                CHECK_EQ(portals_start(n->portals, &put), PTL_OK);
            }
            CHECK(nic_is_full(n->nic, (struct nic_address){1, 1}));
            CHECK_EQ(world.told_full[0], round - 1);
            world_settle(&world);
            CHECK(!nic_is_full(n->nic, (struct nic_address){1, 1}));
            CHECK_EQ(world.told_full[0], round);
        }
        world_end(&world);
    }
}

/* A peer that gets much does not keep another one waiting. */
TEST(peers_take_turns) {
    world = (struct nicworld){
        .config = {.reliable = true, .ordered = true, .mtu_bytes = 64, .send_packets = 1}};
    world_begin(&world, 3, 1);
    world_ranks(&world, 0);
    ptl_handle_md_t md = host_md(&world.node[0], source[0], ROOM);
    for (uint32_t to = 1; to < 3; to++) {
        host_post(&world.node[to], target[to], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        struct portals_request put = host_put(md, 0, to == 1 ? 8192 : 64, to, 5);
        CHECK_EQ(portals_start(world.node[0].portals, &put), PTL_OK);
    }
    world_actions(&world, &world.node[0]);
    while (nic_counts(world.node[2].nic)->received == 0)
        CHECK(world_step(&world));
    CHECK(nic_counts(world.node[0].nic)->sent < 20);
    world_settle(&world);
    CHECK_EQ(count_events(&world.node[1], PTL_EVENT_PUT, PTL_NI_OK), 1);
    world_end(&world);
}

TEST_MAIN

static void tell(void *context, struct nic_packet *packet) {
    (void)packet;
    ++*(int *)context;
}

/* Packets with the data of another: it stays as long as one of them, and goes back with the last.
 */
TEST(a_borrowed_packet_keeps_its_lender) {
    struct nic_pool *pool;
    CHECK_EQ(nic_pool_new(&pool, 256, NULL), 0);
    for (int turn = 0; turn < 3; turn++) {
        struct nic_packet *lender = nic_packet_new(pool);
        memset(lender->data, 0x5a, 256);
        lender->bytes = 256;
        struct nic_packet *first = nic_packet_borrow(lender, lender->data);
        struct nic_packet *second = nic_packet_borrow(first, first->data + 64);
        CHECK(first->lender == lender && second->lender == lender);
        second->bytes = 192;
        nic_packet_release(lender);
        nic_packet_release(first);
        CHECK_EQ(nic_pool_used(pool), 2);
        struct nic_packet *other = nic_packet_new(pool); /* not the lender, which is in use */
        memset(other->data, 0, 256);
        struct nic_packet *own = nic_packet_copy(second);
        CHECK(own->lender == NULL && own->data != second->data);
        for (int i = 0; i < 192; i++)
            CHECK_EQ(own->data[i] + second->data[i], 2 * 0x5a);
        nic_packet_release(second);
        nic_packet_release(own);
        nic_packet_release(other);
        CHECK_EQ(nic_pool_used(pool), 0);
    }
    int told = 0;
    nic_pool_watch(pool, tell, &told);
    struct nic_packet *watched = nic_packet_new(pool);
    CHECK(nic_packet_borrow(watched, watched->data) == NULL);
    nic_packet_release(watched);
    CHECK_EQ(told, 1);
    nic_pool_free(pool);
}
