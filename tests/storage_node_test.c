/* A storage node over time: keys that change, a card that is full or behind, packets that were
 * tampered with, and nodes that die at any step. */
#include "../handlers/storage/store_node_host.h"
#include "lib/storage_client.h"
#include "lib/world_packet.h"

enum { BLOCKS = 64 };
#define EXTENT 150000u

static int answer_of(struct storage_scene *s, const struct store_grant *g) {
    struct storage_write w = storage_write_new(s, g, 0, 100);
    if (storage_put(s, w.message, w.bytes, 0) != PTL_OK)
        return -2;
    int got = storage_wait(s, NULL);
    storage_write_free(&w);
    return got;
}

/* ---- Keys ---- */

static struct store_grant signed_by(struct storage_scene *s, uint32_t generation) {
    const struct storage_key key = store_key(generation, 0, STORAGE_SECRET - 1 + generation);
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    g.capability.expires = STORAGE_NOW + 1000;
    store_grant_sign(&g, &key, s->options.trust);
    return g;
}

static int use_keys(struct storage_scene *s) {
    const struct {
        int by[4]; /* generations 1 to 4 */
    } wanted[] = {
        {{STORAGE_DONE, STORAGE_BAD_CAPABILITY, STORAGE_BAD_CAPABILITY, STORAGE_BAD_CAPABILITY}},
        {{STORAGE_DONE, STORAGE_DONE, STORAGE_BAD_CAPABILITY, STORAGE_BAD_CAPABILITY}},
        {{STORAGE_DONE, STORAGE_DONE, STORAGE_BAD_CAPABILITY, STORAGE_BAD_CAPABILITY}},
        {{STORAGE_EXPIRED, STORAGE_DONE, STORAGE_BAD_CAPABILITY, STORAGE_BAD_CAPABILITY}},
        {{STORAGE_BAD_CAPABILITY, STORAGE_DONE, STORAGE_DONE, STORAGE_BAD_CAPABILITY}},
    };
    for (uint32_t step = 0; step < sizeof wanted / sizeof *wanted; step++) {
        for (uint32_t i = 0; i < 4; i++) {
            struct store_grant g = signed_by(s, i + 1);
            if (answer_of(s, &g) != wanted[step].by[i])
                return (int)(__LINE__ + 1000 * (10 * step + i));
        }
        spin_barrier();
        spin_barrier();
    }
    return 0;
}

static int change_keys(struct storage_scene *s, struct store_node_card *card, ptl_handle_eq_t eq) {
    const struct storage_key second = store_key(2, UINT32_MAX, STORAGE_SECRET + 1);
    const struct storage_key third = store_key(3, UINT32_MAX, STORAGE_SECRET + 2);
    (void)s;
    (void)eq;
    for (int step = 0; step < 5; step++) {
        spin_barrier();
        if (step == 0)
            RANK_CHECK(store_node_card_key(card, &second, STORAGE_NOW + 5) == PTL_OK);
        if (step == 1)
            RANK_CHECK(store_node_card_clock(card, STORAGE_NOW + 5) == PTL_OK);
        if (step == 2)
            RANK_CHECK(store_node_card_clock(card, STORAGE_NOW + 6) == PTL_OK);
        if (step == 3)
            RANK_CHECK(store_node_card_key(card, &third, UINT32_MAX) == PTL_OK);
        spin_barrier();
    }
    return 0;
}

TEST(an_old_key_is_valid_for_its_time_and_then_refused) {
    for (uint32_t trust = STORAGE_TRUSTED; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {.nodes = 1,
                                  .options = {.blocks = BLOCKS, .trust = trust},
                                  .client = use_keys,
                                  .host = change_keys};
        storage_world(&s, NULL, 0);
    }
}

/* ---- A capability that is shown again ---- */

static int show_again(struct storage_scene *s) {
    const struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    for (int i = 0; i < 3; i++)
        RANK_CHECK(answer_of(s, &g) == STORAGE_DONE);
    struct store_grant forged = g;
    forged.mac[1] ^= 1;
    RANK_CHECK(answer_of(s, &forged) == STORAGE_BAD_CAPABILITY);
    forged = g;
    forged.capability.place[0].block++;
    RANK_CHECK(answer_of(s, &forged) == STORAGE_BAD_CAPABILITY);
    RANK_CHECK(answer_of(s, &g) == STORAGE_DONE);
    return 0;
}

TEST(a_capability_is_computed_once_and_then_known) {
    for (uint32_t trust = STORAGE_CAPABILITY; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {
            .nodes = 1, .options = {.blocks = BLOCKS, .trust = trust}, .client = show_again};
        storage_world(&s, NULL, 0);
        CHECK_EQ(s.counts[0].learnt, 1);
        CHECK_EQ(s.counts[0].answered, 4);
    }
}

/* ---- A full card ---- */

enum { FLOOD = 200, SLOTS = 3 };

static int flood(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    struct storage_write w[FLOOD];
    uint32_t done = 0, full = 0;
    for (int i = 0; i < FLOOD; i++)
        w[i] = storage_write_new(s, &g, 0, 100);
    for (int i = 0; i < FLOOD; i++)
        RANK_CHECK(storage_put(s, w[i].message, w[i].bytes, 0) == PTL_OK);
    for (int i = 0; i < FLOOD; i++) {
        int got = storage_wait(s, NULL);
        RANK_CHECK(got == STORAGE_DONE || got == STORAGE_FULL);
        done += got == STORAGE_DONE;
        full += got == STORAGE_FULL;
    }
    RANK_CHECK(done > 0 && full > 0 && storage_wait(s, NULL) == -1);
    for (int i = 0; i < FLOOD; i++)
        storage_write_free(&w[i]);
    for (int i = 0; i < 2 * SLOTS; i++) /* as before */
        RANK_CHECK(answer_of(s, &g) == STORAGE_DONE);
    return 0;
}

TEST(a_full_table_denies_and_recovers) {
    struct storage_scene s = {
        .nodes = 1, .options = {.blocks = BLOCKS, .slots = SLOTS}, .client = flood};
    storage_world(&s, NULL, 0);
    CHECK_EQ(s.counts[0].accepted, s.counts[0].answered);
    CHECK(s.counts[0].refused[STORAGE_FULL] > 0);
    CHECK_EQ(s.counts[0].under_way, 0);
}

/* FLOOD writes of so many bytes at once, all of which are taken. */
static int flood_taken(struct storage_scene *s, uint32_t bytes) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    struct storage_write w[FLOOD];
    storage_clear(s);
    for (uint32_t i = 0; i < FLOOD; i++) {
        w[i] = storage_write_new(s, &g, bytes * i, bytes);
        RANK_CHECK(storage_put(s, w[i].message, w[i].bytes, 0) == PTL_OK);
    }
    for (int i = 0; i < FLOOD; i++)
        RANK_CHECK(storage_wait(s, NULL) == STORAGE_DONE);
    for (uint32_t i = 0; i < FLOOD; i++) {
        RANK_CHECK(memcmp(s->medium[0] + STORAGE_BLOCK + bytes * i, w[i].data, bytes) == 0);
        storage_write_free(&w[i]);
    }
    return 0;
}

/* With a second table in L2 the same flood is taken. */
static int flood_swapped(struct storage_scene *s) {
    return flood_taken(s, 700);
}

TEST(a_table_in_l2_takes_what_the_first_one_does_not) {
    struct storage_scene s = {.nodes = 1,
                              .options = {.blocks = BLOCKS, .slots = SLOTS, .swap = 1000},
                              .client = flood_swapped};
    storage_world(&s, NULL, 0);
    CHECK_EQ(s.counts[0].answered, FLOOD);
    CHECK(s.counts[0].swapped > 0 && s.counts[0].under_way == 0);
}

static int write_some_more(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    return storage_write_once(s, &g, 0, 5000);
}

TEST(six_mebibytes_hold_the_table_of_the_paper) {
    struct storage_scene s = {
        .nodes = 1,
        .options = {.blocks = BLOCKS, .slots = 56000, .swap = STORAGE_SWAP_SLOTS},
        .client = write_some_more};
    storage_world(&s, (const char *const[]){"hpu_memory=4194304"}, 1);
}

/* A card that has no context for a packet's handler drops it: then nobody says that it is there. */
static int crowd(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    struct storage_write w[12];
    storage_clear(s);
    for (uint32_t i = 0; i < 12; i++) {
        w[i] = storage_write_new(s, &g, 12000 * i, 12000);
        RANK_CHECK(storage_put(s, w[i].message, w[i].bytes, 0) == PTL_OK);
    }
    uint64_t request = 0;
    for (int got; (got = storage_wait(s, &request)) >= 0;) {
        uint32_t i = (uint32_t)(request - (s->request - 11));
        RANK_CHECK(got == STORAGE_DONE || got == STORAGE_FULL);
        RANK_CHECK(got == STORAGE_FULL ||
                   memcmp(s->medium[0] + STORAGE_BLOCK + 12000 * i, w[i].data, 12000) == 0);
        s->answered += got == STORAGE_FULL;
    }
    for (uint32_t i = 0; i < 12; i++)
        storage_write_free(&w[i]);
    return 0;
}

TEST(what_the_card_drops_is_not_acknowledged) {
    struct storage_scene s = {.nodes = 1, .options = {.blocks = BLOCKS}, .client = crowd};
    storage_world(&s, (const char *const[]){"contexts=6", "hpus=2"}, 2);
    CHECK(s.answered > 0);
}

/* One window, two clients: the second one is refused until the capabilities of the first one have
 * expired. The node's own host is the second. */
static int expiring(struct storage_scene *s, uint32_t expires) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    g.capability.expires = expires;
    store_grant_sign(&g, &s->key, s->options.trust);
    return answer_of(s, &g);
}

static int first_client(struct storage_scene *s) {
    RANK_CHECK(expiring(s, STORAGE_NOW + 10) == STORAGE_DONE);
    spin_barrier();
    spin_barrier();
    RANK_CHECK(expiring(s, STORAGE_NOW + 40) == STORAGE_FULL);
    RANK_CHECK(expiring(s, STORAGE_NOW + 10) == STORAGE_EXPIRED);
    return 0;
}

static int second_client(struct storage_scene *s, struct store_node_card *card,
                         ptl_handle_eq_t eq) {
    struct storage_scene mine = *s;
    mine.job = (struct spin_job){.ni = card->ni, .rank = 0};
    mine.pt = card->pt;
    mine.eq = eq;
    RANK_CHECK(storage_open_client(&mine) == 0);
    spin_barrier();
    RANK_CHECK(expiring(&mine, STORAGE_NOW + 30) == STORAGE_FULL);
    RANK_CHECK(store_node_card_clock(card, STORAGE_NOW + 10) == PTL_OK);
    RANK_CHECK(expiring(&mine, STORAGE_NOW + 30) == STORAGE_FULL);
    RANK_CHECK(store_node_card_clock(card, STORAGE_NOW + 11) == PTL_OK);
    RANK_CHECK(expiring(&mine, STORAGE_NOW + 30) == STORAGE_DONE);
    spin_barrier();
    spin_entry_remove(&mine.answers);
    PtlMDRelease(mine.md);
    return 0;
}

TEST(windows_of_clients_are_used_again_when_they_may) {
    struct storage_scene s = {.nodes = 1,
                              .options = {.blocks = BLOCKS, .windows = 1},
                              .client = first_client,
                              .host = second_client};
    storage_world(&s, NULL, 0);
}

/* ---- Tampering ---- */

static int tamper(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_RING, 2, 0, EXTENT);
    struct rng r = rng_seeded(1);
    for (int i = 0; i < 12; i++) {
        struct storage_write w = storage_write_new(s, &g, 0, 9000);
        uint32_t at = STORAGE_HEAD + rng_below(&r, (uint32_t)w.bytes - STORAGE_HEAD);
        uint32_t bad = 0;
        w.message[at] ^= (uint8_t)(1 << rng_below(&r, 8));
        RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
        for (int got; (got = storage_wait(s, NULL)) >= 0;) {
            RANK_CHECK((got & 0xff) == STORAGE_BAD_CAPABILITY);
            bad |= 1u << (got >> 8);
        }
        RANK_CHECK(bad & 1); /* the second does not get what the first has not accepted */
        storage_write_free(&w);
    }
    return storage_write_once(s, &g, 0, 9000);
}

TEST(a_packet_that_was_tampered_with_is_refused) {
    struct storage_scene s = {
        .nodes = 2,
        .options = {.blocks = BLOCKS, .trust = STORAGE_AUTHENTICATED, .cleanup_ns = 300000},
        .client = tamper};
    storage_world(&s, NULL, 0);
    CHECK_EQ(s.counts[1].cleaned, 12);
}

/* Whoever answers, card or host, signs it with the key of the capability, if that is genuine. */
static bool is_signed(const struct storage_scene *s, const struct store_grant *g) {
    return s->bits == storage_answer_bits(g->session, s->word);
}

static int look_at_signatures(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_RING, 3, 0, EXTENT), other = g;
    spin_barrier();
    for (uint32_t i = 0; i < 2; i++) {
        struct storage_write w = storage_write_new(s, &g, 0, 3000);
        for (uint32_t again = 0; again < 2; again++) {
            RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
            for (uint32_t v = 0; v < (again ? 1 : 3); v++) {
                int got = storage_wait(s, NULL);
                RANK_CHECK(got >= 0 && (got & 0xff) == (again ? STORAGE_REPLAY : STORAGE_DONE));
                RANK_CHECK(is_signed(s, &g));
                other.session[0] = g.session[0] ^ 1;
                RANK_CHECK(!is_signed(s, &other));
            }
        }
        storage_write_free(&w);
    }
    other.session[0] ^= 1;
    other.mac[0] ^= 1;
    RANK_CHECK(answer_of(s, &other) == STORAGE_BAD_CAPABILITY && s->bits == STORAGE_ANSWER);
    return 0;
}

/* ---- A card that is behind ---- */

static int write_some(struct storage_scene *s) {
    static const uint32_t sizes[] = {0, 1, 100, 1865, 30001};
    static const uint8_t strategies[] = {STORAGE_PLAIN, STORAGE_RING, STORAGE_PBT};
    for (uint32_t i = 0; i < 3; i++) {
        uint8_t k = strategies[i] == STORAGE_PLAIN ? 1 : 4;
        struct store_grant g = storage_grant(s, strategies[i], k, 0, EXTENT);
        for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
            int line = storage_write_once(s, &g, 7 * n, sizes[n]);
            if (line)
                return line;
        }
    }
    return 0;
}

static int flush_nothing(void *user, uint64_t first, uint64_t bytes) {
    uint64_t *flushed = user;
    (void)first;
    *flushed += bytes;
    return 0;
}

/* The host takes one event, if there is one within a millisecond. */
static int serve_one(struct store_node_host *host, ptl_handle_eq_t eq) {
    ptl_event_t event;
    unsigned int which;
    int code = PtlEQPoll(&eq, 1, 1, &event, &which);
    RANK_CHECK(code == PTL_OK || code == PTL_EQ_EMPTY);
    if (code == PTL_OK)
        RANK_CHECK(store_node_host_event(host, &event, &code) && code == PTL_OK);
    return 0;
}

static int serve(struct storage_scene *s, struct store_node_card *card, ptl_handle_eq_t eq) {
    struct store_node_host host;
    uint64_t flushed = 0;
    const struct store_host_options o = {.most_bytes = 40000,
                                         .queue_bytes = s->queue_bytes ? s->queue_bytes : 100000,
                                         .flush = s->options.by_file ? flush_nothing : NULL,
                                         .user = &flushed};
    bool behind = !s->options.by_file && !s->options.bypass && spin_rank() % 2 == 0;
    RANK_CHECK(store_node_host_open(card, s->medium[spin_rank()], &o, &host) == PTL_OK);
    if (behind) /* every other node is */
        RANK_CHECK(store_node_card_tell(card, &(struct storage_control){.kind = STORAGE_SET_LOAD,
                                                                        .value = 1}) == PTL_OK);
    spin_barrier();
    while (!s->done) {
        int line = serve_one(&host, eq);
        if (line)
            return line;
    }
    RANK_CHECK((host.requests > 0) == (behind || s->options.bypass));
    RANK_CHECK(!s->options.by_file || flushed >= 6000);
    store_node_host_close(&host);
    return 0;
}

static int write_when_served(struct storage_scene *s) {
    spin_barrier();
    return write_some(s);
}

TEST(hosts_do_the_work_of_cards_that_are_behind) {
    for (uint32_t trust = STORAGE_CAPABILITY; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {.nodes = 4,
                                  .options = {.blocks = BLOCKS, .trust = trust},
                                  .client = write_when_served,
                                  .host = serve};
        storage_world(&s, NULL, 0);
        CHECK_EQ(s.counts[0].bypassed, 15);
        CHECK_EQ(s.counts[1].bypassed, 0);
    }
}

static int flood_when_served(struct storage_scene *s) {
    spin_barrier();
    return flood_taken(s, 100);
}

TEST(a_card_that_is_nearly_full_leaves_requests_to_its_host) {
    struct storage_scene s = {.nodes = 1,
                              .options = {.blocks = BLOCKS, .slots = 300, .bypass = 297},
                              .client = flood_when_served,
                              .host = serve,
                              .queue_bytes = 400000};
    storage_world(&s, NULL, 0);
    CHECK_EQ(s.counts[0].accepted + s.counts[0].bypassed, FLOOD);
    CHECK(s.counts[0].accepted > 0);
}

/* The host's processor is busy while more comes than its queue has room for: what has no room is
 * denied, and everything is answered. Some of it breaks off on its way, and leaves the queue. */
enum { TO_HOST = 120 };

static int serve_late(struct storage_scene *s, struct store_node_card *card, ptl_handle_eq_t eq) {
    struct store_node_host host;
    const struct store_host_options o = {.most_bytes = 10000, .queue_bytes = 60000};
    RANK_CHECK(store_node_host_open(card, s->medium[0], &o, &host) == PTL_OK);
    RANK_CHECK(store_node_card_tell(card, &(struct storage_control){.kind = STORAGE_SET_LOAD,
                                                                    .value = 1}) == PTL_OK);
    spin_barrier();
    while (!s->done) {
        if (s->answered == 0) { /* the client says when it has sent all */
            spin_compute(1000);
            continue;
        }
        int line = serve_one(&host, eq);
        if (line)
            return line;
    }
    RANK_CHECK(host.broken_off == s->broken_off);
    store_node_host_close(&host);
    return 0;
}

/* `count` writes that begin and never end: their first packets alone. */
static int break_off(struct storage_scene *s, const struct store_grant *g, uint32_t count) {
    for (uint32_t i = 0; i < count; i++) {
        struct storage_write w = storage_write_new(s, g, 0, 9000);
        const struct nic_message m = {.source_rank = s->job.rank,
                                      .pt_index = s->pt,
                                      .match_bits = STORAGE_REQUEST,
                                      .payload = w.bytes};
        RANK_CHECK(world_packet(s->world, s->job.rank + 1, 0, s->broken_off++, &m, w.message, 0,
                                storage_mtu_of(s)) == 0);
        storage_write_free(&w);
    }
    return 0;
}

static int flood_the_host(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    struct storage_write w[TO_HOST];
    spin_barrier();
    for (uint32_t round = 0; round < 3; round++) {
        uint32_t done = 0;
        s->answered = 0;
        RANK_CHECK(break_off(s, &g, 3) == 0);
        spin_compute_ps(3000000000u); /* longer than they may be silent */
        for (uint32_t i = 0; i < TO_HOST; i++) {
            w[i] = storage_write_new(s, &g, 100 * i, 1000);
            RANK_CHECK(storage_put(s, w[i].message, w[i].bytes, 0) == PTL_OK);
        }
        spin_compute_ps(100000000u);
        s->answered = 1;
        for (uint32_t i = 0; i < TO_HOST; i++) {
            int got = storage_wait(s, NULL);
            RANK_CHECK(got == STORAGE_DONE || got == STORAGE_FULL);
            done += got == STORAGE_DONE;
        }
        for (uint32_t i = 0; i < TO_HOST; i++)
            storage_write_free(&w[i]);
        /* as many as have room beside those that broke off, each round anew */
        RANK_CHECK(done > 5 && done < 12);
        spin_compute_ps(100000000u);
        RANK_CHECK(storage_write_once(s, &g, 0, 5000) == 0); /* and then there is room again */
    }
    return 0;
}

TEST(a_host_that_is_behind_denies_what_it_has_no_room_for) {
    for (int card = 0; card < 2; card++) {
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        struct storage_scene s = {
            .nodes = 1,
            .options = {.blocks = BLOCKS, .trust = STORAGE_CAPABILITY, .cleanup_ns = 1000000},
            .client = flood_the_host,
            .host = serve_late};
        storage_world_seen(&s, cards[card]);
        CHECK_EQ(s.counts[0].cleaned, 9);
        CHECK_EQ(s.counts[0].under_way, 0);
    }
}

TEST(hosts_flush_a_medium_that_is_a_file) {
    struct storage_scene s = {.nodes = 4,
                              .options = {.blocks = BLOCKS, .by_file = true},
                              .client = write_when_served,
                              .host = serve};
    storage_world(&s, NULL, 0);
}

TEST(answers_are_signed_on_a_network_that_is_not_trusted) {
    for (int by_file = 0; by_file < 2; by_file++) {
        struct storage_scene s = {.nodes = 3,
                                  .options = {.blocks = BLOCKS,
                                              .trust = STORAGE_AUTHENTICATED,
                                              .by_file = by_file,
                                              .bypass = by_file ? 0 : 4096},
                                  .client = look_at_signatures,
                                  .host = serve};
        storage_world(&s, NULL, 0);
    }
}

/* ---- Nodes that die ---- */

enum { DEATH_BYTES = 9000 };

/* Whoever says that it has the data has it. */
static int write_to_the_dying(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, s->strategy, (uint8_t)s->nodes, 0, 2 * DEATH_BYTES);
    struct storage_write w = storage_write_new(s, &g, 5, DEATH_BYTES);
    storage_clear(s);
    s->answered = 0;
    RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
    for (int got; (got = storage_wait(s, NULL)) >= 0;) {
        uint32_t v = (uint32_t)got >> 8;
        RANK_CHECK((got & 0xff) == STORAGE_DONE && v < s->nodes && !(s->answered >> v & 1));
        RANK_CHECK(storage_holds(s, s->medium[v], (1 + v) * STORAGE_BLOCK + 5, &w) == 0);
        s->answered |= 1u << v;
    }
    storage_write_free(&w);
    return 0;
}

/* Of node v's nodes below it in ring or tree, itself included. */
static uint32_t below(uint32_t strategy, uint32_t k, uint32_t v) {
    if (v >= k)
        return 0;
    if (strategy == STORAGE_RING)
        return 1u << v | below(strategy, k, v + 1);
    return 1u << v | below(strategy, k, 2 * v + 1) | below(strategy, k, 2 * v + 2);
}

/* Each node dies at each of its steps. It answers only if it lives to the last, those above and
 * beside it answer always, those below it if they have got everything; what was begun and is not
 * finished is given up. */
static void die_everywhere(uint8_t strategy, uint32_t k) {
    for (uint32_t victim = 0; victim < k; victim++) {
        bool lived = false;
        for (uint32_t step = 1; !lived; step++) {
            struct storage_scene s = {.nodes = k,
                                      .options = {.blocks = 16, .cleanup_ns = 100000},
                                      .client = write_to_the_dying,
                                      .strategy = strategy};
            s.dies_after[victim] = step;
            snprintf(test_context, sizeof test_context, "strategy %u, node %u dies at step %u",
                     strategy, victim, step);
            storage_world(&s, NULL, 0);
            uint32_t all = (1u << k) - 1, others = all & ~below(strategy, k, victim);
            CHECK_EQ(s.answered & others, others);
            lived = s.answered >> victim & 1;
            CHECK(!lived || s.answered == all);
            CHECK(step < 20);
            for (uint32_t v = 0; v < k; v++)
                if (v != victim) {
                    CHECK_EQ(s.counts[v].accepted, s.counts[v].answered + s.counts[v].cleaned);
                    CHECK_EQ(s.counts[v].under_way, 0);
                }
        }
    }
}

TEST(a_node_may_die_at_any_step) {
    die_everywhere(STORAGE_PLAIN, 1);
    die_everywhere(STORAGE_RING, 3);
    die_everywhere(STORAGE_PBT, TEST_SANITIZED ? 3 : 5);
}

TEST_MAIN
