/* The store in worlds, on SC'17's card and on PsPIN's: what is written is read, by whom and from
 * wherever, also when nodes die at any moment. */
#include "spinlib/spinstore.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/linearizable.h"
#include "lib/world_packet.h"
#include "../handlers/storage/store_decode.h"
#include "../handlers/storage/store_private.h"
#include "../handlers/storage/storage_state.h"

struct steps;

/* Rank 0 is the service, ranks 1 to nodes store, all others are clients; one more may watch. */
struct scene {
    struct spinstore_options o;
    uint32_t clients;
    int (*client)(struct scene *, struct spinstore *, uint32_t number);
    uint64_t dies_ps[15]; /* after the barrier; 0: never */
    uint8_t *medium[15];
    /* Of clients. */
    struct spinstore_policy policy;
    uint64_t bytes;
    uint32_t killed, seed;
    volatile uint32_t finished;
    uint32_t operations;
    struct register_operation history[64];
    /* Of those who watch. */
    struct spin_world *world;
    struct steps *steps;
    uint32_t watched; /* a node */
    /* Of nodes, at their end; and whether a client has died (1) or is to (2). */
    struct storage_counts counts[15];
    uint64_t given_up[15];
    volatile uint32_t left;
    /* Of attacks. */
    uint64_t secret;
    struct spinstore *store[15]; /* by rank */
    uint32_t strikes[15], seen;
    bool restarts; /* a node that dies */
    uint32_t restarted;
    uint64_t requests;
    struct spinstore *victim;
    uint32_t forged;
};

static int watch(struct scene *s);

static uint8_t pattern(uint64_t seed, uint64_t i) {
    return (uint8_t)(seed * 77 + i * 31 + i / 251 + (i >> 13));
}

static uint8_t *filled(uint64_t seed, uint64_t bytes) {
    uint8_t *data = malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = pattern(seed, i);
    return data;
}

static bool is_filled(const uint8_t *data, uint64_t seed, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != pattern(seed, i))
            return false;
    return true;
}

/* One that dies closes its interface in the middle of everything: what comes finds nobody. */
static int serve_until(struct spinstore *store, uint64_t dies_ps) {
    uint64_t until = spin_now_ps() + dies_ps;
    bool stopped = false;
    if (!dies_ps)
        return spinstore_serve(store);
    while (spin_now_ps() < until && !stopped) {
        if (spinstore_work(store, 0, &stopped) != PTL_OK)
            return PTL_FAIL;
        if (stopped)
            break;
        spin_compute_ps(until - spin_now_ps() < 100000 ? until - spin_now_ps() : 100000);
    }
    return PTL_OK;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spinstore *store;
    uint64_t bytes;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    struct spinstore_options mine = s->o;
    mine.secret = job.rank && s->secret ? spinstore_secret(s->secret, job.rank) : s->secret;
    RANK_CHECK(spinstore_join(job.ni, &mine, &store) == PTL_OK);
    s->store[job.rank % 15] = store;
    uint32_t number = job.rank - 1 - s->o.nodes;
    s->finished = 0;
    if (job.rank && job.rank <= s->o.nodes)
        s->medium[job.rank - 1] = spinstore_memory(store, &bytes);
    spin_barrier();
    int line = 0;
    if (number == s->clients && job.rank > s->o.nodes) {
        line = s->steps ? watch(s) : 0;
    } else if (job.rank > s->o.nodes) {
        line = s->client(s, store, number);
        s->finished++;
        while (number == 0 && s->finished < s->clients && !line)
            spin_compute(1000);
        if (number == 0)
            RANK_CHECK(spinstore_stop(store) == PTL_OK || line);
    } else {
        RANK_CHECK(serve_until(store, job.rank ? s->dies_ps[job.rank - 1] : 0) == PTL_OK);
        if (s->restarts && job.rank && s->dies_ps[job.rank - 1]) {
            spinstore_leave(store);
            RANK_CHECK(spinstore_join(job.ni, &mine, &store) == PTL_OK);
            s->medium[job.rank - 1] = spinstore_memory(store, &bytes);
            s->restarted++;
            bool stopped = false;
            while (spin_now_ps() < 4000000000000 && !stopped)
                RANK_CHECK(spinstore_work(store, 100, &stopped) == PTL_OK);
        }
        if (job.rank) {
            s->given_up[job.rank - 1] = spinstore_counts(store).given_up;
            RANK_CHECK(store_node_card_counts(store, &s->counts[job.rank - 1]) == PTL_OK);
        }
    }
    spinstore_leave(store);
    spin_job_close(&job);
    return line;
}

static int one_object(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes + 1);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "nobody", NULL, &o) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_open(store, "object", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == 0);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_size(o) == s->bytes && spinstore_flush(o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes + 1, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0 && back[s->bytes] == 0);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

static void run_on(struct scene *s, const char *const *set, int set_count) {
    uint32_t ranks = 1 + s->o.nodes + s->clients;
    s->o.node_bytes = s->o.node_bytes ? s->o.node_bytes : 1 << 20;
    spinlib_world_with(
        (struct spin_world_options){.ranks = ranks, .set = set, .set_count = set_count}, rank, s);
}

static void run(struct scene *s) {
    run_on(s, NULL, 0);
}

/* ---- Where it is ---- */

TEST(what_is_written_is_read) {
    static const struct spinstore_policy policies[] = {{SPINSTORE_PLAIN, 0, 0},
                                                       {SPINSTORE_RING, 3, 0},
                                                       {SPINSTORE_TREE, 4, 0},
                                                       {SPINSTORE_RS, 3, 2}};
    static const uint64_t sizes[] = {1, 5000, 40000};
    for (int p = 0; p < 4; p++)
        for (int i = 0; i < 3; i++) {
            snprintf(test_context, sizeof test_context, "policy %d, size %d", p, i);
            run(&(struct scene){.o = {.nodes = 5, .trust = (enum spinstore_trust)i},
                                .clients = 1,
                                .client = one_object,
                                .policy = policies[p],
                                .bytes = sizes[i]});
        }
}

/* Writes over each other, with holes, against an array. */
static int overlapping(struct scene *s, struct spinstore *store, uint32_t number) {
    enum { BYTES = 60000 };
    uint8_t *model = calloc(1, BYTES), *data = malloc(BYTES), *back = malloc(BYTES);
    uint64_t size = 0, got;
    struct spinstore_object *o;
    struct rng r = rng_seeded(number);
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t at = rng_below(&r, BYTES), bytes = 1 + rng_below(&r, BYTES - at);
        memset(data, (int)i + 1, bytes);
        RANK_CHECK(spinstore_write(o, at, data, bytes) == PTL_OK);
        memset(model + at, (int)i + 1, bytes);
        size = at + bytes > size ? at + bytes : size;
        at = rng_below(&r, BYTES);
        bytes = 1 + rng_below(&r, BYTES - at);
        RANK_CHECK(spinstore_read(o, at, back, bytes, &got) == PTL_OK);
        RANK_CHECK(got == (at >= size ? 0 : size - at < bytes ? size - at : bytes));
        RANK_CHECK(memcmp(back, model + at, got) == 0);
    }
    struct spinstore_status status;
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK);
    RANK_CHECK(status.objects == 1 && status.extents <= 12 && status.dead == 0);
    RANK_CHECK(spinstore_remove(store, "o") == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_remove(store, "o") == PTL_ARG_INVALID);
    spinstore_close(o);
    free(model);
    free(data);
    free(back);
    return 0;
}

TEST(writes_cover_each_other) {
    run(&(struct scene){.o = {.nodes = 3, .node_bytes = 4 << 20},
                        .clients = 1,
                        .client = overlapping,
                        .policy = {SPINSTORE_RING, 2, 0}});
}

/* A write of more than an extent, committed as one. */
static int large(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(9, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    (void)number;
    RANK_CHECK(spinstore_open(store, "large", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 5, data, s->bytes) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 5, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, s->bytes) == 0);
    /* nodes of this size have no room for it again */
    RANK_CHECK(spinstore_write(o, 5, data, s->bytes) == PTL_NO_SPACE);
    RANK_CHECK(spinstore_read(o, 5, back, s->bytes, &got) == PTL_OK && is_filled(back, 9, got));
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_write_of_several_extents) {
    static const char *const sc17[] = {"card=sc17"};
    struct scene s = {.o = {.nodes = 1, .node_bytes = 6 << 20},
                      .clients = 1,
                      .client = large,
                      .policy = {SPINSTORE_PLAIN, 0, 0},
                      .bytes = (4 << 20) + 10000};
    spinlib_world_on((struct spin_world_options){.ranks = 3, .set = sc17, .set_count = 1}, "sc17",
                     rank, &s);
}

/* ---- Nodes that die ---- */

#define DIES_PS 200000000u

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

/* Whether ISA-L is there, which reconstructs. */
static bool can_decode(void) {
    uint8_t data[2][8] = {{1}, {0}}, *chunk[2] = {data[0], data[1]};
    struct spin_error err;
    return store_decode(1, 1, 1, chunk, 8, &err) == 0;
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

/* ---- Checksums ---- */

static int rots(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    for (uint32_t node = 0; node + 1 < s->o.nodes; node++)
        for (uint64_t i = 0; i < s->o.node_bytes; i++)
            s->medium[node][i] ^= i % 4096 == 77;
    RANK_CHECK(spinstore_read(o, 4000, back, 5000, &got) == PTL_OK && got == 5000);
    RANK_CHECK(memcmp(data + 4000, back, got) == 0);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, got) == 0);
    RANK_CHECK(spinstore_counts(store).wrong_sums > 0);
    for (uint64_t i = 0; i < s->o.node_bytes; i++)
        s->medium[s->o.nodes - 1][i] ^= i % 4096 == 77;
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_FAIL); /* never what is wrong */
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_copy_that_has_changed_is_not_used) {
    run(&(struct scene){.o = {.nodes = 3},
                        .clients = 1,
                        .client = rots,
                        .policy = {SPINSTORE_RING, 3, 0},
                        .bytes = 20000});
}

/* Data or parity, on as many nodes as there are parities. */
static int rots_coded(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    for (uint32_t set = 0; set < 1u << s->o.nodes; set++) {
        bool readable = __builtin_popcount(set) <= (int)s->policy.m;
        for (int twice = 0; twice < 2; twice++) {
            for (uint32_t node = 0; node < s->o.nodes; node++)
                for (uint64_t i = 77; set >> node & 1 && i < s->o.node_bytes; i += 512)
                    s->medium[node][i] ^= 3;
            if (twice || (!readable && set % 4))
                continue;
            memset(back, 0, s->bytes);
            int code = spinstore_read(o, 0, back, s->bytes, &got);
            /* parities are not needed if the data is there */
            RANK_CHECK(readable || (set & 3) == 0 ? code == PTL_OK : code == PTL_FAIL);
            RANK_CHECK(code != PTL_OK || (got == s->bytes && memcmp(data, back, got) == 0));
        }
    }
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(chunks_that_have_changed_are_reconstructed) {
    if (!can_decode())
        TEST_SKIP("no ISA-L here");
    run(&(struct scene){.o = {.nodes = 4, .node_bytes = 64 << 10},
                        .clients = 1,
                        .client = rots_coded,
                        .policy = {SPINSTORE_RS, 2, 2},
                        .bytes = 15000});
}

/* ---- Keys ---- */

static int rotates(struct scene *s, struct spinstore *store, uint32_t number) {
    uint32_t generation;
    for (uint32_t i = 2; i < 5; i++) {
        RANK_CHECK(one_object(s, store, number) == 0);
        RANK_CHECK(spinstore_rotate(store, &generation) == PTL_OK && generation == i);
        RANK_CHECK(spinstore_remove(store, "object") == PTL_OK);
    }
    return one_object(s, store, number);
}

TEST(keys_change_between_writes) {
    for (int trust = 0; trust < 3; trust++)
        run(&(struct scene){.o = {.nodes = 3, .trust = (enum spinstore_trust)trust},
                            .clients = 1,
                            .client = rotates,
                            .policy = {SPINSTORE_RING, 2, 0},
                            .bytes = 3000});
}

/* Capabilities live for a second, and the client is slow: everything is asked for again. */
static int slowly(struct scene *s, struct spinstore *store, uint32_t number) {
    RANK_CHECK(one_object(s, store, number) == 0);
    RANK_CHECK(spinstore_remove(store, "object") == PTL_OK);
    spin_compute_ps(20000000000000);
    return one_object(s, store, number);
}

TEST(time_passes) {
    run(&(struct scene){.o = {.nodes = 2, .lifetime_s = 1, .node_bytes = 8192},
                        .clients = 1,
                        .client = slowly,
                        .policy = {SPINSTORE_RING, 2, 0},
                        .bytes = 8000});
}

/* ---- Several clients ---- */

/* Registers of one byte that is everywhere in the object, so that a read that mixes two writes is
 * seen at once. */
static int races(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct rng r = rng_seeded(s->seed * 100 + number);
    uint8_t *data = malloc(s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (int i = 0; i < 7; i++) {
        struct register_operation *op = &s->history[s->operations++];
        *op = (struct register_operation){.start = spin_now_ps(), .end = UINT64_MAX};
        op->kind = rng_below(&r, 2) ? REGISTER_WRITE : REGISTER_READ;
        if (op->kind == REGISTER_WRITE) {
            op->value = 1 + number * 7 + (uint32_t)i;
            memset(data, (int)op->value, s->bytes);
            RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        } else {
            RANK_CHECK(spinstore_read(o, 0, data, s->bytes, &got) == PTL_OK);
            RANK_CHECK(got == 0 || got == s->bytes);
            op->value = got ? data[0] : 0;
            for (uint64_t k = 0; k < got; k++)
                RANK_CHECK(data[k] == op->value);
        }
        op->end = spin_now_ps();
        spin_compute_ps(rng_below(&r, 4000000));
    }
    spinstore_close(o);
    free(data);
    return 0;
}

TEST(writers_and_readers_of_one_object_are_linearizable) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct scene s = {.o = {.nodes = 3, .node_bytes = 4 << 20},
                          .clients = 4,
                          .client = races,
                          .policy = {seed < 4 ? SPINSTORE_RING : SPINSTORE_RS, 2, seed < 4 ? 0 : 1},
                          .bytes = 6000,
                          .seed = seed};
        spinlib_world_on(
            (struct spin_world_options){.ranks = 8, .set = &cards[seed % 2], .set_count = 1},
            cards[seed % 2], rank, &s);
        snprintf(test_context, sizeof test_context, "seed %u", seed);
        CHECK_EQ(s.operations, 28);
        CHECK(linearizable(s.history, (int)s.operations));
        /* the checker would have seen it */
        for (uint32_t i = 0; i < s.operations; i++)
            if (s.history[i].kind == REGISTER_READ && s.history[i].value) {
                s.history[i].value = 200;
                CHECK(!linearizable(s.history, (int)s.operations));
                break;
            }
    }
}

/* ---- A network that is not trusted ---- */

/* To the victim, which is the rank before this one; it says that it is from `node`. */
static int forge(struct scene *s, uint32_t node, uint64_t bits, uint64_t word, const uint8_t *data,
                 uint64_t bytes) {
    const struct nic_message m = {.source_rank = node,
                                  .pt_index = s->victim->port.pt,
                                  .match_bits = bits,
                                  .hdr_data = word,
                                  .payload = bytes};
    return world_packet(s->world, s->o.nodes + 2, s->o.nodes + 1, s->forged++, &m, data, 0,
                        (uint32_t)bytes);
}

/* Of the request that the victim has under way: that all is done, unsigned, with any signature, and
 * with that of an older answer; data, likewise. */
static int forge_all(struct scene *s, const struct store_flight *f) {
    const struct storage_head *h = &f->put[0].head;
    uint32_t v = h->virtual_rank, node = h->capability.place[v].node, tag[2];
    uint64_t word = storage_answer(f->request, v, STORAGE_DONE);
    uint64_t older = storage_answer(f->request - 1, v, STORAGE_DONE);
    uint64_t bytes = storage_read_bytes(h->length, h->packet);
    uint8_t *data = calloc(1, bytes + 1);
    if (h->operation == STORAGE_WRITE) {
        RANK_CHECK(forge(s, node, STORAGE_ANSWER, word, NULL, 0) == 0);
        RANK_CHECK(forge(s, node, STORAGE_ANSWER | 0x1234500, word, NULL, 0) == 0);
        RANK_CHECK(forge(s, node, storage_answer_bits(f->session, older), word, NULL, 0) == 0);
    } else {
        RANK_CHECK(bytes == h->length + STORAGE_TAG_BYTES); /* one packet */
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, h->length) == 0);
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, bytes) == 0);
        storage_packet_tag(f->session, f->request - 1, storage_read_role(v), 0, data, h->length,
                           tag);
        memcpy(data + h->length, tag, sizeof tag);
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, bytes) == 0);
    }
    free(data);
    return 0;
}

/* A node dies between two writes: what it seems to answer to the next is forged. */
static int attacked(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data, *back = calloc(1, s->bytes);
    uint64_t got;
    if (number == 1) {
        uint64_t last = 0;
        while (s->finished == 0) {
            spin_compute(200);
            for (uint32_t i = 0; s->victim && i < STORE_FLIGHTS; i++) {
                const struct store_flight *f = &s->victim->flight[i];
                if (f->request > last && f->puts) {
                    last = f->request;
                    RANK_CHECK(forge_all(s, f) == 0);
                }
            }
        }
        free(back);
        return 0;
    }
    s->victim = store;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (uint32_t i = 0; i < 6; i++) {
        data = filled(i, s->bytes);
        if (i == 2)
            spin_compute_ps(DIES_PS);
        RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
        RANK_CHECK(memcmp(data, back, got) == 0);
        free(data);
    }
    RANK_CHECK(s->forged > 20 && spinstore_counts(store).forged > 10);
    spinstore_close(o);
    free(back);
    return 0;
}

TEST(forged_and_replayed_answers_and_data_are_not_believed) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (int card = 0; card < 4; card++) {
        struct scene s = {.o = {.nodes = 2,
                                .trust = SPINSTORE_AUTHENTICATED,
                                .node_bytes = 1 << 20,
                                .patience_ms = 1,
                                .silence_ms = 5},
                          .clients = 2,
                          .client = attacked,
                          .policy = {SPINSTORE_PLAIN, 0, 0},
                          .bytes = 1500};
        s.dies_ps[card / 2] = DIES_PS;
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 5, .set = &cards[card % 2], .set_count = 1},
            cards[card % 2], rank, &s, &s.world);
    }
}

/* What a third party sends to a rank of the store: bytes of a message, as if from `as`. */
static int strike(struct scene *s, uint32_t target, uint32_t as, const uint8_t *bytes,
                  uint32_t count) {
    static const ptl_match_bits_t bits[] = {STORE_TO_SERVICE, STORE_TO_NODE, STORE_TO_CLIENT};
    const struct nic_message m = {.source_rank = as,
                                  .pt_index = s->victim->port.pt,
                                  .match_bits = bits[target == 0            ? 0
                                                     : target <= s->o.nodes ? 1
                                                                            : 2],
                                  .payload = count};
    return world_packet(s->world, s->o.nodes + 2, target, s->strikes[target]++, &m, bytes, 0,
                        count);
}

/* A message without a signature, and with one of zeroes. */
static int forge_message(struct scene *s, uint32_t target, uint32_t as, enum store_kind kind,
                         uint32_t serial, bool answer) {
    struct store_message *m = calloc(1, sizeof *m);
    uint8_t bytes[256] = {0};
    m->kind = kind;
    m->serial = serial;
    m->answer = answer;
    m->status = answer ? STORE_NO_OBJECT : STORE_OK;
    uint32_t count = store_message_write(m, bytes, 128);
    free(m);
    RANK_CHECK(count && strike(s, target, as, bytes, count) == 0);
    return strike(s, target, as, bytes, count + STORAGE_TAG_BYTES);
}

/* Messages that the third party has seen. */
struct seen {
    uint32_t as, target, count;
    uint8_t bytes[1000];
};

/* What a rank has just sent: buffers are used again soon. */
static void record(struct scene *s, const struct spinstore *from, struct seen *seen) {
    struct store_message *m = calloc(1, sizeof *m);
    for (uint32_t i = 0; i < 64; i++) {
        const struct store_buffer *b = &from->port.buffer[i];
        bool is_new = b->bytes[0] && s->seen < 100; /* the head has a serial number */
        for (uint32_t j = 0; j < s->seen && is_new; j++)
            is_new = seen[j].target != b->to || memcmp(seen[j].bytes, b->bytes, 12) != 0;
        uint32_t count = 12; /* how long it is is seen by reading it */
        while (is_new && count < 900 && !store_message_read(m, b->bytes, count))
            count++;
        if (!is_new || count == 900)
            continue;
        seen[s->seen] = (struct seen){from->rank, b->to, count + STORAGE_TAG_BYTES, {0}};
        memcpy(seen[s->seen++].bytes, b->bytes, count + STORAGE_TAG_BYTES);
    }
    free(m);
}

static int attack_services(struct scene *s) {
    struct seen *seen = calloc(100, sizeof *seen);
    while (s->left != 3) {
        record(s, s->store[0], seen);
        record(s, s->victim, seen);
        if (s->left == 1) /* while the victim waits for an answer, it gets wrong ones */
            RANK_CHECK(forge_message(s, s->o.nodes + 1, 0, s->victim->port.out->kind,
                                     s->victim->serial, true) == 0);
        spin_compute(300);
    }
    RANK_CHECK(forge_message(s, 0, s->o.nodes + 1, STORE_KIND_STOP, s->victim->serial + 1, false) ==
               0);
    for (uint32_t node = 1; node <= s->o.nodes; node++)
        RANK_CHECK(forge_message(s, node, 0, STORE_KIND_END, s->store[0]->serial, false) == 0);
    for (uint32_t i = 0; i < s->seen; i++)
        RANK_CHECK(strike(s, seen[i].target, seen[i].as, seen[i].bytes, seen[i].count) == 0);
    spin_compute(100000);
    free(seen);
    s->left = 4;
    return 0;
}

static int between_attacks(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_status before, after;
    s->victim = number ? s->victim : store;
    if (number)
        return attack_services(s);
    s->left = 1;
    RANK_CHECK(one_object(s, store, 0) == 0);
    s->left = 2;
    RANK_CHECK(spinstore_counts(store).forged > 5);
    RANK_CHECK(spinstore_remove(store, "object") == PTL_OK); /* to be replayed */
    RANK_CHECK(one_object(s, store, 0) == 0);
    RANK_CHECK(spinstore_ask(store, &before) == PTL_OK);
    s->left = 3;
    while (s->left != 4)
        spin_compute(1000);
    RANK_CHECK(s->seen > 15 && s->store[0]->port.forged > 8);
    for (uint32_t node = 1; node <= s->o.nodes; node++)
        RANK_CHECK(s->store[node]->port.forged >= 3); /* two ends, and its key once more */
    /* nobody has stopped, nothing is removed, nobody lost its keys */
    RANK_CHECK(spinstore_ask(store, &after) == PTL_OK && after.objects == before.objects);
    struct spinstore_object *o;
    uint64_t got;
    uint8_t *back = calloc(1, s->bytes);
    RANK_CHECK(spinstore_open(store, "object", NULL, &o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(is_filled(back, 0, got) && spinstore_write(o, 0, back, got) == PTL_OK);
    spinstore_close(o);
    free(back);
    return 0;
}

TEST(messages_of_the_services_are_signed) {
    for (int trust = 0; trust < 3; trust++) {
        static const char *const cards[] = {"card=sc17", "card=pspin", "card=sc17"};
        struct scene s = {
            .o = {.nodes = 3, .trust = (enum spinstore_trust)trust, .node_bytes = 1 << 20},
            .secret = 0x0123456789abcdef,
            .clients = 2,
            .client = between_attacks,
            .policy = {SPINSTORE_RING, 2, 0},
            .bytes = 9000};
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 6, .set = &cards[trust], .set_count = 1},
            cards[trust], rank, &s, &s.world);
    }
}

/* ---- A node that begins anew ---- */

/* Its card has forgotten which numbers were used: a write of its earlier life is sent once more. */
static int after_a_restart(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct spinstore_status status;
    struct spinstore_repaired repaired;
    uint8_t *data = filled(1, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    if (number) {
        while (s->left != 1)
            spin_compute(1000);
        const struct storage_head *h = &s->victim->flight[s->requests % STORE_FLIGHTS].put[0].head;
        uint8_t message[2000];
        memcpy(message, h, STORAGE_HEAD);
        memcpy(message + STORAGE_HEAD, data, s->bytes);
        RANK_CHECK(h->request == s->requests && h->operation == STORAGE_WRITE && !h->packet);
        const struct nic_message m = {.source_rank = s->o.nodes + 1,
                                      .pt_index = s->victim->port.pt,
                                      .match_bits = STORAGE_REQUEST,
                                      .payload = STORAGE_HEAD + s->bytes};
        for (uint32_t node = 1; node <= s->o.nodes; node++)
            RANK_CHECK(world_packet(s->world, s->o.nodes + 2, node, 0, &m, message, 0,
                                    (uint32_t)m.payload) == 0);
        free(data);
        free(back);
        return 0;
    }
    s->victim = store;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    s->requests = store->next_request;
    RANK_CHECK(spin_now_ps() < DIES_PS);
    spin_compute_ps(2 * DIES_PS);
    RANK_CHECK(s->restarted == 1);
    s->left = 1;
    spin_compute(1000000);
    for (uint64_t i = 0; i < s->o.node_bytes; i++) /* which is empty, and stays so */
        RANK_CHECK(s->medium[0][i] == 0);
    spin_compute_ps(2500000000000);
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK && status.dead == 1 && status.damaged == 1);
    RANK_CHECK(spinstore_repair(store, &repaired) == PTL_OK && repaired.parts == 1);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, got) == 0 && spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_node_that_begins_anew_carries_out_nothing_old) {
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        struct scene s = {.o = {.nodes = 3, .node_bytes = 64 << 10, .silence_ms = 100},
                          .secret = is_signed ? 77 : 0,
                          .clients = 2,
                          .client = after_a_restart,
                          .policy = {SPINSTORE_RING, 2, 0},
                          .bytes = 1000,
                          .restarts = true,
                          .dies_ps = {DIES_PS}};
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 6, .set = &cards[is_signed], .set_count = 1},
            cards[is_signed], rank, &s, &s.world);
    }
}

/* ---- What is refused ---- */

static int refused(void *argument) {
    struct spin_job job;
    struct spinstore *store;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    static const struct spinstore_options bad[] = {
        {.nodes = 0},
        {.nodes = 3},
        {.nodes = 2, .first_node = 2},
        {.nodes = 1, .service = 3},
        {.nodes = 2, .service = 1},
        {.nodes = 1, .node_bytes = 5ull << 30},
        {.nodes = 1, .trust = (enum spinstore_trust)9},
    };
    for (uint32_t i = 0; i < sizeof bad / sizeof *bad; i++)
        RANK_CHECK(spinstore_join(job.ni, &bad[i], &store) == PTL_ARG_INVALID && !store);
    spin_job_close(&job);
    return 0;
}

static int refuses(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    char name[100];
    uint64_t got;
    uint8_t byte = 1;
    bool stopped;
    (void)number;
    memset(name, 'x', sizeof name);
    name[SPINSTORE_NAME + 1] = 0;
    RANK_CHECK(spinstore_open(store, name, &s->policy, &o) == PTL_ARG_INVALID && !o);
    RANK_CHECK(spinstore_open(store, "", &s->policy, &o) == PTL_ARG_INVALID);
    name[SPINSTORE_NAME] = 0;
    RANK_CHECK(spinstore_open(store, name, &(struct spinstore_policy){SPINSTORE_RS, 12, 4}, &o) ==
               PTL_ARG_INVALID);
    RANK_CHECK(spinstore_open(store, name, &(struct spinstore_policy){SPINSTORE_RING, 3, 0}, &o) ==
               PTL_NO_SPACE);
    RANK_CHECK(spinstore_open(store, name, &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, INT64_MAX, &byte, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_write(o, 0, &byte, (256ull << 20) + 1) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_write(o, 0, NULL, 0) == PTL_OK);
    RANK_CHECK(spinstore_read(o, UINT64_MAX, &byte, 1, &got) == PTL_ARG_INVALID);
    RANK_CHECK(spinstore_read(o, 1ull << 60, &byte, 1, &got) == PTL_OK && got == 0);
    RANK_CHECK(spinstore_work(store, 0, &stopped) == PTL_ARG_INVALID);
    spinstore_close(o);
    return 0;
}

TEST(arguments_that_are_wrong) {
    spinlib_world(3, refused, NULL);
    run(&(struct scene){
        .o = {.nodes = 2}, .clients = 1, .client = refuses, .policy = {SPINSTORE_RING, 2, 0}});
}

TEST_MAIN
