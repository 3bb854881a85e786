/* The store in worlds: nodes and clients that die, also at any moment of a write. */
#include "lib/store_scene.h"
#include "lib/world_packet.h"

/* ---- Nodes that die ---- */

/* k - 1 of k nodes die between writing and reading. */
static int survives(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct spinstore_status status;
    struct spinstore_repaired repaired;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    RANK_CHECK(spin_now_ps() < DIES_PS); /* nobody is dead yet */
    spin_compute_ps(2200000000000);      /* the service asks everybody once per second */
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    RANK_CHECK(spinstore_repair(store, &repaired) == PTL_OK && repaired.lost == 0);
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK && status.damaged == 0);
    RANK_CHECK(status.dead == s->killed);
    memset(back, 0, s->bytes);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    /* and it is as it was asked for again */
    RANK_CHECK(spinstore_write(o, 100, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 100, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(all_but_one_of_k_nodes_are_lost) {
    for (uint32_t k = 2; k <= 4; k++) {
        struct scene s = {.o = {.nodes = 2 * k - 1, .patience_ms = 1, .silence_ms = 5},
                          .clients = 1,
                          .client = survives,
                          .policy = {k == 3 ? SPINSTORE_TREE : SPINSTORE_RING, k, 0},
                          .bytes = 20000,
                          .killed = k - 1};
        /* the first extent is on the first k nodes */
        for (uint32_t i = 0; i < k - 1; i++)
            s.dies_ps[i] = DIES_PS;
        run(&s);
    }
}

TEST(m_chunks_are_lost) {
    if (!can_decode())
        TEST_SKIP("no ISA-L here");
    for (uint32_t set = 1; set < 32; set++) {
        if (__builtin_popcount(set) > 2)
            continue;
        struct scene s = {.o = {.nodes = 7, .patience_ms = 1, .silence_ms = 5},
                          .clients = 1,
                          .client = survives,
                          .policy = {SPINSTORE_RS, 3, 2},
                          .bytes = 13000,
                          .killed = (uint32_t)__builtin_popcount(set)};
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        snprintf(test_context, sizeof test_context, "lost: %x", set);
        s.o.node_bytes = 1 << 20;
        for (uint32_t i = 0; i < 5; i++)
            s.dies_ps[i] = set >> i & 1 ? DIES_PS : 0;
        spinlib_world_on(
            (struct spin_world_options){.ranks = 9, .set = &cards[set % 2], .set_count = 1},
            cards[set % 2], rank, &s);
    }
}

/* A plain object has one copy. */
static int is_lost(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct spinstore_repaired repaired;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    spin_compute_ps(2 * s->dies_ps[0]);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_FAIL);
    RANK_CHECK(spinstore_repair(store, &repaired) == PTL_OK);
    RANK_CHECK(repaired.lost == 1 && repaired.parts == 0);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK &&
               is_filled(back, number, got));
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(what_is_lost_is_said) {
    run(&(struct scene){.o = {.nodes = 2, .patience_ms = 1, .silence_ms = 5},
                        .clients = 1,
                        .client = is_lost,
                        .policy = {SPINSTORE_PLAIN, 0, 0},
                        .bytes = 3000,
                        .dies_ps = {100000000}});
}

/* A node dies at any moment of some writes: each that was acknowledged is read, the last one that
 * was not is there as a whole or not at all. */
static int writes_on(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = malloc(s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    (void)number;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (int i = 1; i <= 3; i++) {
        memset(data, i, s->bytes);
        RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
        RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    }
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

/* Times at which something has happened on a node's card: a packet came or left, a handler began or
 * ended, a message was over. Between two of them it makes no difference when the node dies. */
struct steps {
    uint64_t *at_ps;
    uint32_t count, room;
};

/* Looks at the card as often as the HPUs have cycles; it is a rank that does nothing else. */
static int watch(struct scene *s) {
    struct steps *steps = s->steps;
    const struct nic *nic = s->world->rank[1 + s->watched].nic;
    struct nic_counts before = *nic_counts(nic), now;
    uint64_t began = spin_now_ps();
    uint32_t busy = 0;
    while (!s->finished) {
        spin_compute(1);
        now = *nic_counts(nic);
        uint32_t is_busy = (uint32_t)__builtin_popcountll(s->world->rank[1 + s->watched].hpus_busy);
        if (busy == is_busy && memcmp(&now, &before, sizeof now) == 0)
            continue;
        if (steps->count == steps->room) {
            steps->room = 2 * steps->room + 256;
            steps->at_ps = realloc(steps->at_ps, steps->room * sizeof *steps->at_ps);
        }
        steps->at_ps[steps->count++] = spin_now_ps() - began;
        before = now;
        busy = is_busy;
    }
    return 0;
}

/* Each node dies after each step of its card (with OPENSPIN_SEEDS); or the first two, which have
 * the first extent, after some of them. */
static void dies_at_every_step(struct scene s) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    bool all = getenv("OPENSPIN_SEEDS");
    for (uint32_t run = 0; run < 2 * (all ? s.o.nodes : 2); run++) {
        const char *card = cards[run % 2];
        const struct spin_world_options o = {.ranks = 3 + s.o.nodes, .set = &card, .set_count = 1};
        struct steps steps = {0};
        uint32_t node = run / 2;
        s.watched = node;
        s.steps = &steps;
        s.watch = watch;
        memset(s.dies_ps, 0, sizeof s.dies_ps);
        s.dies_ps[node] = UINT64_MAX / 2;
        spinlib_world_seen(o, card, rank, &s, &s.world);
        CHECK(steps.count > 10);
        s.steps = NULL;
        uint32_t stride = all ? 1 : steps.count / (TEST_SANITIZED ? 2 : 6) + 1;
        for (uint32_t i = 0; i < steps.count; i += stride) {
            snprintf(test_context, sizeof test_context, "%s: node %u dies after %llu ns", card,
                     node, (unsigned long long)steps.at_ps[i] / 1000);
            s.dies_ps[node] = steps.at_ps[i];
            spinlib_world_seen(o, card, rank, &s, &s.world);
        }
        if (all)
            printf("# %s, policy %d: node %u has died at each of %u steps\n", card,
                   s.policy.strategy, node, steps.count);
        free(steps.at_ps);
    }
}

TEST(a_node_dies_at_every_step_of_a_write) {
    struct scene s = {.o = {.nodes = 4, .patience_ms = 1, .silence_ms = 5, .node_bytes = 256 << 10},
                      .clients = 1,
                      .client = writes_on,
                      .policy = {SPINSTORE_RING, 3, 0},
                      .bytes = 9000};
    dies_at_every_step(s);
    s.policy.strategy = SPINSTORE_TREE;
    s.bytes = 5000;
    dies_at_every_step(s);
    if (can_decode()) {
        s.policy = (struct spinstore_policy){SPINSTORE_RS, 2, 1};
        s.bytes = 12000;
        dies_at_every_step(s);
    }
}

/* ---- Clients that die ---- */

/* Only the first two packets of the last client's write leave its card; then it is gone. */
static int leaves_in_the_middle(struct scene *s, struct spinstore *store) {
    struct spinstore_object *o;
    struct store_message *question;
    struct storage_head head;
    uint8_t *data = filled(77, s->bytes);
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(store_client_begin(store, STORE_KIND_ALLOCATE, &question) == PTL_OK);
    question->object = o->id;
    question->write = ++store->next_write;
    question->length = (uint32_t)s->bytes;
    RANK_CHECK(store_client_ask(store) == PTL_OK && store->port.in->status == STORE_OK);
    const struct store_grant g = store->port.in->layout[0].grant;
    store_head(&head, &g,
               &(struct store_ask){.operation = STORAGE_WRITE,
                                   .trust = store_trust(store),
                                   .length = (uint32_t)s->bytes,
                                   .packet = store->mtu,
                                   .request = ++store->next_request});
    const struct nic_message m = {.source_rank = store->rank,
                                  .pt_index = store->port.pt,
                                  .match_bits = STORAGE_REQUEST,
                                  .payload = storage_message_bytes(head.length, head.packet)};
    uint8_t *message = malloc(m.payload);
    store_message_fill(message, &head, g.session, data);
    for (uint32_t i = 0; i < 2; i++)
        RANK_CHECK(world_packet(s->world, store->rank, g.capability.place[0].node, 0, &m,
                                message + i * store->mtu, i * store->mtu, store->mtu) == 0);
    spinstore_close(o);
    s->left = 1;
    free(message);
    free(data);
    return 0;
}

static int heir(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint64_t got;
    if (number) {
        while (s->left != 2)
            spin_compute(1000);
        return leaves_in_the_middle(s, store);
    }
    uint8_t *back = calloc(1, s->bytes);
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (uint32_t i = 0; i < 2; i++) {
        uint8_t *data = filled(i, s->bytes);
        RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        for (int twice = 0; twice < 2; twice++) {
            RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
            RANK_CHECK(memcmp(data, back, got) == 0); /* nothing of the other one */
            s->left = i == 0 && twice == 0 ? 2 : s->left;
            while (s->left == 2)
                spin_compute(1000);
        }
        free(data);
        spin_compute_ps(2000000000000);
    }
    spinstore_close(o);
    free(back);
    return 0;
}

TEST(a_client_dies_in_the_middle_of_a_write) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (int card = 0; card < 4; card++) {
        struct scene s = {
            .o = {.nodes = 3, .trust = (enum spinstore_trust)(card & 2), .silence_ms = 1000},
            .clients = 2,
            .client = heir,
            .policy = {card & 1 ? SPINSTORE_TREE : SPINSTORE_RING, 3, 0},
            .bytes = 40000};
        s.o.node_bytes = 1 << 20;
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 6, .set = &cards[card % 2], .set_count = 1},
            cards[card % 2], rank, &s, &s.world);
        for (uint32_t i = 0; i < 3; i++) { /* each had begun, is free, and its host knows */
            CHECK_EQ(s.counts[i].cleaned, 1);
            CHECK_EQ(s.given_up[i], 1);
            CHECK_EQ(s.counts[i].under_way, 0);
        }
    }
}

TEST_MAIN
