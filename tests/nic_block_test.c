/* Messages in blocks, with absent pages at the source, at the destination and at both, on good and
 * bad networks: every byte arrives, every event comes once, no block is counted twice or lost, and
 * no more blocks are under way than allowed. */
#include "lib/nichost.h"

#define ROOM   (64 * 1024)
#define RANKS  3
#define BLOCK  1024
#define SHARES 24 /* pieces of a rank's memory, each used by one operation */

static struct nicworld world;
static _Alignas(4096) uint8_t source[RANKS][ROOM], target[RANKS][ROOM];

/* ---- What the wire shows ---- */

static struct seen {
    uint64_t transfer;
    uint32_t from;
    uint64_t begun[2], acked[2]; /* blocks, a bit each */
} seen[256];
static uint32_t seen_count, most_under_way;

static struct seen *seen_of(uint32_t from, uint64_t transfer) {
    for (uint32_t i = 0; i < seen_count; i++)
        if (seen[i].from == from && seen[i].transfer == transfer)
            return &seen[i];
    CHECK(seen_count < 256);
    seen[seen_count] = (struct seen){.transfer = transfer, .from = from};
    return &seen[seen_count++];
}

/* A block is under way from its first packet until its sender learns that it has arrived. */
static void watch(struct nicworld *w, const struct nic_packet *packet, bool arrives) {
    const struct nic_block_tag *tag = &packet->tag;
    if (packet->kind == NIC_BLOCK && !arrives) {
        struct seen *s = seen_of(packet->source.nid, tag->transfer);
        CHECK(tag->block < 128);
        s->begun[tag->block / 64] |= 1ull << tag->block % 64;
        uint32_t under_way = (uint32_t)(__builtin_popcountll(s->begun[0] & ~s->acked[0]) +
                                        __builtin_popcountll(s->begun[1] & ~s->acked[1]));
        most_under_way = under_way > most_under_way ? under_way : most_under_way;
        if (under_way > w->config.blocks_outstanding)
            TEST_FAIL("%u blocks are under way", under_way);
    }
    if (packet->kind == NIC_REPORT && arrives && !packet->sequence && w->config.reliable)
        CHECK(tag->place <= NIC_BLOCK_ERR);
    if (packet->kind == NIC_REPORT && arrives &&
        (tag->place == NIC_BLOCK_ACK || tag->place == NIC_BLOCK_ERROR))
        seen_of(packet->target.nid, tag->transfer)->acked[tag->block / 64] |= 1ull
                                                                              << tag->block % 64;
}

/* ---- Random operations ---- */

struct operation {
    uint32_t number; /* from 1 */
    bool get;
    uint32_t from, to; /* whose program asks, whose memory it names */
    uint32_t at, bytes;
};

static uint8_t *source_of(const struct operation *o) {
    return source[o->get ? o->to : o->from] + o->at;
}
static uint8_t *target_of(const struct operation *o) {
    return target[o->get ? o->from : o->to] + o->at;
}

/* Entry 5 takes puts into `target`, entry 6 gives gets from `source`. */
static void open_memory(struct nicworld *w) {
    for (uint32_t i = 0; i < w->nodes; i++) {
        struct node *n = &w->node[i];
        for (uint32_t k = 0; k < ROOM; k++)
            source[i][k] = (uint8_t)rng_u32(&w->rng);
        memset(target[i], 0, ROOM);
        n->md = host_md(n, source[i], ROOM);
        host_post(n, target[i], ROOM, 5, PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE);
        host_post(n, source[i], ROOM, 6, PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE);
    }
}

static void start(struct nicworld *w, const struct operation *o, ptl_handle_md_t replies) {
    struct node *n = &w->node[o->from];
    struct portals_request r = host_put(n->md, o->at, o->bytes, o->to, 5);
    r.remote_offset = o->at;
    r.ack_req = PTL_ACK_REQ;
    r.hdr_data = o->number;
    r.user_ptr = (void *)(uintptr_t)o->number;
    if (o->get)
        r = (struct portals_request){.kind = PORTALS_GET,
                                     .get_md = replies,
                                     .get_offset = o->at,
                                     .length = o->bytes,
                                     .target = {.rank = o->to},
                                     .match_bits = 6,
                                     .user_ptr = (void *)(uintptr_t)o->number,
                                     .remote_offset = o->at};
    CHECK_EQ(portals_start(n->portals, &r), PTL_OK);
}

/* By type, of one node. */
static void count_events(struct node *n, uint32_t *of, uint32_t *failed) {
    ptl_event_t event;
    while (world_event(n, &event)) {
        CHECK(event.type < 32);
        of[event.type]++;
        *failed += event.ni_fail_type != PTL_NI_OK;
    }
}

static struct nic_counts all_counts(const struct nicworld *w) {
    struct nic_counts sum = {0};
    for (uint32_t i = 0; i < w->nodes; i++) {
        const uint64_t *c = (const uint64_t *)nic_counts(w->node[i].nic);
        for (uint32_t k = 0; k < sizeof sum / 8; k++)
            ((uint64_t *)&sum)[k] += c[k];
    }
    return sum;
}

static struct nic_counts totals;

/* Where pages are absent. */
enum { AT_SOURCE = 1, AT_DESTINATION = 2, UNRESOLVED = 4 };

/* What the events say of each operation: 1 + fail type, 0: no event. */
struct told {
    uint32_t sent, answered, arrived;
};

static void read_events(struct node *n, struct told *told, uint32_t *failed_gets) {
    ptl_event_t e;
    while (world_event(n, &e)) {
        uint32_t mine = (uint32_t)(uintptr_t)e.user_ptr, fail = 1u + e.ni_fail_type, *at = NULL;
        if (e.type == PTL_EVENT_GET)
            *failed_gets += e.ni_fail_type != PTL_NI_OK;
        else
            at = e.type == PTL_EVENT_SEND  ? &told[mine - 1].sent
                 : e.type == PTL_EVENT_PUT ? &told[e.hdr_data - 1].arrived
                                           : &told[mine - 1].answered;
        if (!at)
            continue;
        CHECK_EQ(*at, 0);
        *at = fail;
    }
}

static uint32_t operations_failed;

/* Some pages never come. Every operation ends, once, and both sides agree about it. */
static void check_failures(uint32_t seed, const struct operation *operation) {
    struct told told[SHARES] = {{0}};
    uint32_t failed_gets = 0, failed_replies = 0, failed_small = 0;
    for (uint32_t i = 0; i < RANKS; i++)
        read_events(&world.node[i], told, &failed_gets);
    for (uint32_t i = 0; i < SHARES; i++) {
        const struct operation *o = &operation[i];
        const struct told *t = &told[i];
        bool right = memcmp(source_of(o), target_of(o), o->bytes) == 0;
        CHECK(t->answered == 1 + PTL_NI_OK || t->answered == 1 + PTL_NI_SEGV);
        if (t->answered == 1 + PTL_NI_OK && !right)
            TEST_FAIL("seed %u: operation %u has wrong bytes", seed, i);
        if (o->get) {
            failed_replies += t->answered != 1 + PTL_NI_OK;
            failed_small += t->answered != 1 + PTL_NI_OK && o->bytes <= NIC_ORDERED_BYTES;
            continue;
        }
        CHECK_EQ(t->arrived, t->answered);
        if (o->bytes > NIC_ORDERED_BYTES) /* a small one has left before its target knows */
            CHECK_EQ(t->sent, t->answered);
        operations_failed += t->answered != 1 + PTL_NI_OK;
    }
    CHECK(failed_gets <= failed_replies && failed_gets + failed_small >= failed_replies);
    operations_failed += failed_replies;
}

static void check_bytes(uint32_t seed, const struct operation *operation) {
    for (uint32_t i = 0; i < SHARES; i++)
        if (memcmp(source_of(&operation[i]), target_of(&operation[i]), operation[i].bytes) != 0)
            TEST_FAIL("seed %u: operation %u (%s of %u bytes) has wrong bytes", seed, i,
                      operation[i].get ? "get" : "put", operation[i].bytes);
}

static void check_events(const uint32_t *puts, const uint32_t *gets, const uint32_t *put_at,
                         const uint32_t *got_at) {
    for (uint32_t i = 0; i < RANKS; i++) {
        uint32_t of[32] = {0}, failed = 0;
        count_events(&world.node[i], of, &failed);
        CHECK_EQ(failed, 0);
        CHECK_EQ(of[PTL_EVENT_SEND], puts[i]);
        CHECK_EQ(of[PTL_EVENT_ACK], puts[i]);
        CHECK_EQ(of[PTL_EVENT_REPLY], gets[i]);
        CHECK_EQ(of[PTL_EVENT_PUT], put_at[i]);
        CHECK_EQ(of[PTL_EVENT_GET], got_at[i]);
    }
}

static void one_world(uint32_t seed, unsigned where, bool bad_network) {
    static const uint64_t timeouts[] = {0, 1000, 3000, 20000};
    snprintf(test_context, sizeof test_context, "seed %u", seed);
    uint32_t mtu = 64u << seed % 3;
    world = (struct nicworld){.loss = bad_network ? 60 : 0,
                              .doubling = bad_network ? 60 : 0,
                              .spread = bad_network ? 500 : 0,
                              .memory_spread = seed % 5 ? 40 : 0,
                              .at_once = seed / 2 % 2,
                              .source_absence = where & AT_SOURCE ? 60 : 0,
                              .destination_absence = where & AT_DESTINATION ? 60 : 0,
                              .page_spread = 300,
                              .unresolvable = where & UNRESOLVED ? 60 : 0,
                              .damage = seed % 4 ? 0 : 10,
                              .watch = watch,
                              .config = {.mtu_bytes = mtu,
                                         .reliable = !bad_network,
                                         .ordered = !bad_network,
                                         .window_packets = 8 + seed % 60,
                                         .send_packets = 1 + seed % 30,
                                         .turn_packets = seed % 4,
                                         .block_bytes = seed % 6 ? BLOCK : BLOCK + 72,
                                         .blocks_outstanding = 1 + seed % 8,
                                         .block_timeout = timeouts[seed / 3 % 4],
                                         .fault_ends_timeout = seed / 5 % 2,
                                         .err_policy = (uint8_t)(seed / 2 % 3)}};
    seen_count = most_under_way = 0;
    world_begin(&world, RANKS, seed);
    world_ranks(&world, 0);
    open_memory(&world);
    struct operation operation[SHARES];
    uint32_t puts[RANKS] = {0}, gets[RANKS] = {0}, put_at[RANKS] = {0}, got_at[RANKS] = {0};
    ptl_handle_md_t replies[RANKS];
    for (uint32_t i = 0; i < RANKS; i++)
        replies[i] = host_md(&world.node[i], target[i], ROOM);
    for (uint32_t i = 0; i < SHARES; i++) {
        struct operation *o = &operation[i];
        *o = (struct operation){.number = i + 1,
                                .get = rng_below(&world.rng, 3) == 0,
                                .from = rng_below(&world.rng, RANKS),
                                .to = rng_below(&world.rng, RANKS),
                                .at = i * (ROOM / SHARES) + rng_below(&world.rng, 64),
                                .bytes = 1 + rng_below(&world.rng, ROOM / SHARES - 64)};
        puts[o->from] += !o->get;
        gets[o->from] += o->get;
        put_at[o->to] += !o->get;
        got_at[o->to] += o->get;
        start(&world, o, replies[o->from]);
        for (uint32_t k = rng_below(&world.rng, 20); k; k--)
            world_step(&world);
        world_actions(&world, &world.node[o->from]);
    }
    world_settle(&world);
    if (where & UNRESOLVED)
        check_failures(seed, operation);
    else
        check_bytes(seed, operation);
    if (!(where & UNRESOLVED))
        check_events(puts, gets, put_at, got_at);
    struct nic_counts c = all_counts(&world);
    CHECK_EQ(c.blocks_sent, c.blocks_received); /* each once, none lost */
    CHECK_EQ(c.given_up, 0);
    CHECK_EQ(c.malformed, 0);
    for (uint32_t k = 0; k < sizeof c / 8; k++)
        ((uint64_t *)&totals)[k] += ((const uint64_t *)&c)[k];
    world_end(&world);
}

static uint32_t seeds(uint32_t usual) {
    const char *text = getenv("OPENSPIN_SEEDS");
    return text ? (uint32_t)strtoul(text, NULL, 0) : usual / (TEST_SANITIZED ? 4 : 1);
}

static void worlds(unsigned where) {
    uint32_t count = seeds(50);
    totals = (struct nic_counts){0};
    for (uint32_t seed = 0; seed < count; seed++) {
        one_world(seed, where, false);
        one_world(seed, where, true);
    }
    test_context[0] = 0;
    CHECK(!(where & AT_SOURCE) || totals.source_faults > 10 * count);
    CHECK(!(where & AT_DESTINATION) || totals.destination_faults > 10 * count);
    CHECK(!(where & AT_DESTINATION) || totals.errs_in > count);
    CHECK(!(where & AT_DESTINATION) || totals.nacks_out > count);
    CHECK(totals.blocks_repeated > count);
    CHECK(totals.block_timeouts > count / 4);
    CHECK(totals.stale > count / 4);
    CHECK(totals.corrupt_in > count / 10);
}

TEST(every_byte_is_right_with_absent_pages_at_the_source) {
    worlds(AT_SOURCE);
}

TEST(every_byte_is_right_with_absent_pages_at_the_destination) {
    worlds(AT_DESTINATION);
}

TEST(every_byte_is_right_with_absent_pages_at_both) {
    worlds(AT_SOURCE | AT_DESTINATION);
}

TEST(pages_that_never_come_end_operations_on_both_sides) {
    uint32_t count = seeds(50);
    operations_failed = 0;
    for (uint32_t seed = 0; seed < count; seed++)
        one_world(seed, AT_SOURCE | AT_DESTINATION | UNRESOLVED, seed % 2);
    test_context[0] = 0;
    CHECK(operations_failed > count);
    CHECK(operations_failed < SHARES * count / 2);
}

TEST_MAIN
