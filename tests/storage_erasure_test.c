/* Erasure coding on storage nodes' cards, end to end: data and parity on every node byte for byte
 * what ISA-L makes of the data, with enough accumulators, too few, and messages that break off. */
#include "lib/storage_client.h"

#include "../handlers/storage/store_decode.h"
#include "../handlers/storage/store_node_host.h"

enum { BLOCKS = 40 };
#define EXTENT 60000u
/* So that the packets of the k messages take turns. */
static const char *const turns[] = {"turn_packets=1"};

/* A write of k chunks, and what the k + m nodes shall have. */
struct coded {
    uint32_t k, m, length;
    uint64_t bytes; /* of each message */
    uint8_t *chunk[STORAGE_PLACES], *message[STORAGE_PLACES];
};

static struct coded coded_new(struct storage_scene *s, const struct store_grant *g, uint32_t offset,
                              uint32_t length) {
    struct coded c = {.k = g->capability.k, .m = g->capability.m, .length = length};
    struct rng r = rng_seeded(++s->request);
    struct spin_error err;
    for (uint32_t j = 0; j < c.k + c.m; j++) {
        c.chunk[j] = malloc(length + 1);
        for (uint32_t i = 0; j < c.k && i < length; i++)
            c.chunk[j][i] = (uint8_t)rng_u32(&r);
    }
    if (store_decode(c.k, c.m, (1u << c.k) - 1, c.chunk, length, &err))
        TEST_FAIL("%s", err.text);
    for (uint32_t j = 0; j < c.k; j++) {
        struct storage_head head;
        store_head(&head, g,
                   &(struct store_ask){.operation = STORAGE_WRITE,
                                       .trust = s->options.trust,
                                       .place = j,
                                       .offset = offset,
                                       .length = length,
                                       .packet = storage_mtu_of(s),
                                       .request = s->request});
        c.bytes = storage_message_bytes(length, head.packet);
        c.message[j] = malloc(c.bytes);
        store_message_fill(c.message[j], &head, g->session, c.chunk[j]);
    }
    return c;
}

static void coded_free(struct coded *c) {
    for (uint32_t j = 0; j < c->k + c->m; j++) {
        free(c->chunk[j]);
        if (j < c->k)
            free(c->message[j]);
    }
}

static int coded_put(struct storage_scene *s, const struct coded *c, uint32_t j) {
    return storage_put(s, c->message[j], c->bytes, j);
}

/* Answers of the nodes of `wanted`, all of them DONE and to this request. */
static int coded_answers(struct storage_scene *s, uint32_t wanted) {
    uint32_t answered = 0;
    while (answered != wanted) {
        uint64_t request = 0;
        int got = storage_wait(s, &request);
        RANK_CHECK(got >= 0 && request == s->request && (got & 0xff) == STORAGE_DONE);
        RANK_CHECK(!(answered >> (got >> 8) & 1));
        answered |= 1u << (got >> 8);
    }
    return 0;
}

static int coded_holds(struct storage_scene *s, const struct store_grant *g, const struct coded *c,
                       uint32_t offset) {
    for (uint32_t j = 0; j < c->k + c->m; j++) {
        const uint64_t first = (uint64_t)g->capability.place[j].block * STORAGE_BLOCK + offset;
        RANK_CHECK(memcmp(s->medium[j] + first, c->chunk[j], c->length) == 0);
        for (uint64_t i = 0; i < (uint64_t)BLOCKS * STORAGE_BLOCK; i++)
            RANK_CHECK(s->medium[j][i] == 0 || (i >= first && i < first + c->length));
    }
    return 0;
}

static int write_once(struct storage_scene *s, const struct store_grant *g, uint32_t offset,
                      uint32_t length) {
    struct coded c = coded_new(s, g, offset, length);
    for (uint32_t i = 0; i < s->nodes; i++)
        memset(s->medium[i], 0, (uint64_t)BLOCKS * STORAGE_BLOCK);
    for (uint32_t j = 0; j < c.k; j++)
        RANK_CHECK(coded_put(s, &c, j) == PTL_OK);
    int line = coded_answers(s, (1u << (c.k + c.m)) - 1);
    line = line ? line : coded_holds(s, g, &c, offset);
    coded_free(&c);
    return line;
}

static const struct { uint8_t k, m; } schemes[] = {{2, 1}, {3, 2}, {6, 3}, {10, 4}};

static int write_sizes(struct storage_scene *s) {
    static const uint32_t sizes[] = {0, 1, 1863, 3913, 9001};
    for (uint32_t i = 0; i < 4; i++) {
        struct store_grant g = storage_grant(s, STORAGE_RS, schemes[i].k, schemes[i].m, EXTENT);
        for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            int line = write_once(s, &g, 5 * n + i, sizes[n]);
            if (line)
                return line;
        }
    }
    return 0;
}

static void need_isal(void) {
    uint8_t a = 0, b = 0, *chunk[2] = {&a, &b};
    struct spin_error err;
    if (store_decode(1, 1, 1, chunk, 1, &err))
        TEST_SKIP("no ISA-L here (Debian: libisal2)");
}

TEST(parities_on_nodes_are_those_of_isal) {
    need_isal();
    struct storage_scene s = {.nodes = 14, .options = {.blocks = BLOCKS}, .client = write_sizes};
    storage_world(&s, turns, 1);
}

TEST(parities_of_an_untrusted_network_are_authenticated) {
    need_isal();
    struct storage_scene s = {
        .nodes = 14,
        .options = {.blocks = BLOCKS, .trust = STORAGE_AUTHENTICATED},
        .client = write_sizes,
    };
    storage_world(&s, turns, 1);
}

/* ---- Sums at the host ---- */

static uint32_t sum_bytes;

static int add_sums(struct storage_scene *s, struct store_node_card *card, ptl_handle_eq_t eq) {
    struct store_node_host host;
    ptl_event_t event;
    unsigned int which;
    int code;
    RANK_CHECK(store_node_host_open(card, s->medium[card->rank],
                                    &(struct store_host_options){.sum_bytes = sum_bytes},
                                    &host) == PTL_OK);
    while (!s->done)
        if (PtlEQPoll(&eq, 1, 1, &event, &which) == PTL_OK) {
            store_node_host_event(&host, &event, &code);
            RANK_CHECK(code == PTL_OK);
        }
    store_node_host_close(&host);
    return 0;
}

/* Several writes at a time, so that they want more accumulators than there are. */
static int flood(struct storage_scene *s) {
    enum { WRITES = 6 };
    struct store_grant g[WRITES];
    struct coded c[WRITES];
    for (uint32_t i = 0; i < s->nodes; i++)
        memset(s->medium[i], 0, (uint64_t)BLOCKS * STORAGE_BLOCK);
    for (uint32_t i = 0; i < WRITES; i++) {
        g[i] = storage_grant(s, STORAGE_RS, 3, 2, 20000);
        for (uint32_t j = 0; j < 5; j++)
            g[i].capability.place[j].block = 6 * i;
        store_grant_sign(&g[i], &s->key, s->options.trust);
        c[i] = coded_new(s, &g[i], 0, 20000 - 77 * i);
    }
    for (uint32_t j = 0; j < 3; j++)
        for (uint32_t i = 0; i < WRITES; i++)
            RANK_CHECK(coded_put(s, &c[i], j) == PTL_OK);
    for (uint32_t n = 0; n < 5 * WRITES; n++) {
        int got = storage_wait(s, NULL);
        RANK_CHECK(got >= 0 && (got & 0xff) == STORAGE_DONE);
    }
    for (uint32_t i = 0; i < WRITES; i++) {
        for (uint32_t j = 0; j < 5; j++)
            RANK_CHECK(memcmp(s->medium[j] + 6 * i * STORAGE_BLOCK, c[i].chunk[j], c[i].length) ==
                       0);
        coded_free(&c[i]);
    }
    struct store_grant last = storage_grant(s, STORAGE_RS, 3, 2, 20000);
    return write_once(s, &last, 0, 3000);
}

TEST(without_accumulators_the_host_makes_the_sums) {
    need_isal();
    /* A sanitizer is content with the one that does more. */
    uint32_t trust = TEST_SANITIZED ? STORAGE_AUTHENTICATED : STORAGE_TRUSTED;
    for (; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {.nodes = 5,
                                  .options = {.blocks = BLOCKS, .accumulators = 4, .trust = trust},
                                  .client = flood,
                                  .host = add_sums};
        storage_world(&s, NULL, 0);
        for (uint32_t i = 3; i < 5; i++) {
            CHECK(s.counts[i].sums_on_card > 0 && s.counts[i].sums_at_host > 0);
            CHECK_EQ(s.counts[i].most_accumulators, 4);
            CHECK_EQ(s.counts[i].accumulators, 0);
            CHECK_EQ(s.counts[i].parities_failed, 0);
        }
    }
}

/* Neither cards nor hosts have room for all of it: a write is done, or refused and done later. */
static int flood_all(struct storage_scene *s) {
    enum { WRITES = 8 };
    struct store_grant g = storage_grant(s, STORAGE_RS, 3, 2, 20000);
    struct coded c[WRITES];
    uint32_t full = 0;
    storage_clear(s);
    for (uint32_t i = 0; i < WRITES; i++)
        c[i] = coded_new(s, &g, 2000 * i, 2000 + 40 * i);
    for (uint32_t j = 0; j < 3; j++)
        for (uint32_t i = 0; i < WRITES; i++)
            RANK_CHECK(coded_put(s, &c[i], j) == PTL_OK);
    for (int got; (got = storage_wait(s, NULL)) >= 0;) {
        RANK_CHECK((got & 0xff) == STORAGE_DONE || (got & 0xff) == STORAGE_FULL);
        full += (got & 0xff) == STORAGE_FULL;
    }
    for (uint32_t i = 0; i < WRITES; i++)
        coded_free(&c[i]);
    RANK_CHECK(full > 0);
    return write_once(s, &g, 7, 3000);
}

TEST(a_flood_of_parities_is_bounded) {
    need_isal();
    sum_bytes = 12288;
    struct storage_scene s = {.nodes = 5,
                              .options = {.blocks = BLOCKS, .accumulators = 2},
                              .client = flood_all,
                              .host = add_sums};
    storage_world(&s, NULL, 0);
    sum_bytes = 0;
    for (uint32_t i = 3; i < 5; i++) {
        CHECK_EQ(s.counts[i].most_accumulators, 2);
        CHECK_EQ(s.counts[i].accumulators, 0);
        CHECK(s.counts[i].parities_failed > 0);
        CHECK_EQ(s.counts[i].refused[STORAGE_FULL] > 0, 1);
    }
}

/* Cards that are behind: data nodes' hosts encode, parity nodes' hosts sum. */
TEST(cards_that_are_behind_leave_it_to_their_hosts) {
    need_isal();
    for (uint32_t trust = STORAGE_CAPABILITY; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {
            .nodes = 5,
            .options = {.blocks = BLOCKS, .slots = 64, .bypass = 64, .trust = trust},
            .client = flood,
            .host = add_sums};
        storage_world(&s, turns, 1);
        for (uint32_t i = 0; i < 5; i++) {
            CHECK_EQ(s.counts[i].bypassed, i < 3 ? 7 : 0);
            CHECK_EQ(s.counts[i].sums_on_card, 0);
            CHECK(i < 3 || s.counts[i].sums_at_host > 0);
        }
    }
}

/* ---- What breaks off ---- */

/* One data node never gets its chunk: the parity is given up when it is old, and its accumulators
 * serve others. */
static int incomplete(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_RS, 3, 2, EXTENT);
    struct coded c = coded_new(s, &g, 0, 9000);
    RANK_CHECK(coded_put(s, &c, 0) == PTL_OK && coded_put(s, &c, 2) == PTL_OK);
    int line = coded_answers(s, 5); /* the data nodes alone */
    if (line)
        return line;
    RANK_CHECK(storage_wait(s, NULL) == -1);
    coded_free(&c);
    s->done = 2; /* hosts: time passes */
    while (s->done == 2)
        storage_wait(s, NULL);
    return write_once(s, &g, 0, 9000);
}

static int pass_time(struct storage_scene *s, struct store_node_card *card, ptl_handle_eq_t eq) {
    static uint32_t told;
    struct storage_counts before;
    ptl_event_t event;
    unsigned int which;
    while (s->done != 2)
        PtlEQPoll(&eq, 1, 1, &event, &which);
    if (card->rank == 0)
        told = 0;
    RANK_CHECK(store_node_card_report(card, &before) == PTL_OK);
    RANK_CHECK(card->rank < 3 || before.accumulators > 0);
    RANK_CHECK(store_node_card_clock(card, STORAGE_NOW + 6) == PTL_OK);
    if (++told == s->nodes)
        s->done = 0;
    int line = add_sums(s, card, eq);
    return line;
}

TEST(a_parity_that_lacks_a_part_is_given_up) {
    need_isal();
    struct storage_scene s = {
        .nodes = 5,
        .options = {.blocks = BLOCKS, .accumulators = 5, .writes = 1, .oldest = 5},
        .client = incomplete,
        .host = pass_time};
    storage_world(&s, turns, 1);
    for (uint32_t i = 3; i < 5; i++) {
        CHECK_EQ(s.counts[i].parities_failed, 1);
        CHECK_EQ(s.counts[i].accumulators, 0);
    }
}

/* ---- Nodes that die ---- */

enum { DEATH_BYTES = 5000 };

/* Whoever says that it has its chunk has it. */
static int write_to_the_dying(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_RS, 2, 1, 2 * DEATH_BYTES);
    struct coded c = coded_new(s, &g, 0, DEATH_BYTES);
    storage_clear(s);
    s->answered = 0;
    for (uint32_t j = 0; j < 2; j++)
        RANK_CHECK(coded_put(s, &c, j) == PTL_OK);
    for (int got; (got = storage_wait(s, NULL)) >= 0;) {
        uint32_t v = (uint32_t)got >> 8;
        RANK_CHECK((got & 0xff) == STORAGE_DONE && v < s->nodes && !(s->answered >> v & 1));
        RANK_CHECK(memcmp(s->medium[v] + (1 + v) * STORAGE_BLOCK, c.chunk[v], DEATH_BYTES) == 0);
        s->answered |= 1u << v;
    }
    coded_free(&c);
    return 0;
}

/* Each node dies at each of its steps. The parity is there only if both data nodes have lived to
 * their last packet; what the parity node has begun it gives up, and its accumulators with it. */
TEST(a_node_may_die_at_any_step) {
    need_isal();
    for (uint32_t victim = 0; victim < 3; victim++) {
        bool lived = false;
        for (uint32_t step = 1; !lived; step++) {
            struct storage_scene s = {.nodes = 3,
                                      .options = {.blocks = 16, .cleanup_ns = 100000},
                                      .client = write_to_the_dying};
            s.dies_after[victim] = step;
            snprintf(test_context, sizeof test_context, "node %u dies at step %u", victim, step);
            storage_world(&s, turns, 1);
            uint32_t data = 3 & ~(1u << victim);
            CHECK_EQ(s.answered & data, data);
            lived = s.answered >> victim & 1;
            CHECK(!lived || s.answered == 7);
            CHECK(step < 30);
            if (victim < 2 && step > 1) { /* both messages of the parity have begun */
                CHECK_EQ(s.counts[2].accumulators, 0);
                CHECK_EQ(s.counts[2].parities_failed, s.answered >> 2 ? 0 : 1);
            }
        }
    }
    test_context[0] = 0;
}

TEST_MAIN
