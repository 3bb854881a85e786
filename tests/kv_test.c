/* The key-value store: against a plain map by one client, linearizable under several, with chains
 * that the cards walk and chains that they give to the processors; and the checker finds a bug that
 * was planted. */
#include "spinlib/kv.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/linearizable.h"
#include "lib/spinlib_world.h"

/* ---- the checker itself ---- */

TEST(the_checker_knows_right_from_wrong) {
    const struct register_operation right[] = {
        {0, 10, REGISTER_WRITE, 1},  {5, 20, REGISTER_READ, 0},  {6, 12, REGISTER_READ, 1},
        {30, 40, REGISTER_ERASE, 1}, {35, 50, REGISTER_READ, 1}, {45, 60, REGISTER_READ, 0},
    };
    struct register_operation stale[] = {
        {0, 10, REGISTER_WRITE, 1}, {11, 20, REGISTER_WRITE, 2}, {21, 30, REGISTER_READ, 1}};
    struct register_operation torn[] = {{0, 10, REGISTER_WRITE, 1},
                                        {11, 50, REGISTER_WRITE, 2},
                                        {12, 20, REGISTER_READ, 2},
                                        {21, 30, REGISTER_READ, 1}};
    struct register_operation twice[] = {
        {0, 10, REGISTER_WRITE, 1}, {11, 30, REGISTER_ERASE, 1}, {11, 30, REGISTER_ERASE, 1}};
    CHECK(linearizable(right, 6));
    CHECK(!linearizable(stale, 3));
    CHECK(!linearizable(torn, 4));
    CHECK(!linearizable(twice, 3));
    twice[2].value = 0;
    CHECK(linearizable(twice, 3));
}

/* ---- one client, against a plain map ---- */

enum { KEYS = 40 };

static uint32_t name_of(uint32_t key, uint8_t name[SPIN_KV_KEY_BYTES]) {
    uint32_t bytes = 1 + key % SPIN_KV_KEY_BYTES;
    memset(name, (int)('a' + key % 26), bytes);
    memcpy(name, &key, bytes < 4 ? bytes : 4);
    return bytes;
}

static uint32_t value_of(uint32_t seed, uint8_t value[SPIN_KV_VALUE_BYTES]) {
    struct rng r = rng_seeded(seed);
    uint32_t bytes = rng_below(&r, SPIN_KV_VALUE_BYTES + 1);
    for (uint32_t i = 0; i < bytes; i++)
        value[i] = (uint8_t)rng_u32(&r);
    return bytes;
}

struct scene {
    struct spin_kv_options options;
    uint64_t seed;
    uint32_t clients_done;
    uint64_t worked;
    /* of the histories: */
    uint32_t operations, keys;
    struct register_operation history[8][64];
    uint32_t key[8][64];
};

static int use_at_random(struct spin_kv *kv, const struct scene *s) {
    uint32_t map[KEYS] = {0}; /* seed of the value; 0: none */
    struct rng r = rng_seeded(s->seed);
    uint8_t key[SPIN_KV_KEY_BYTES], value[SPIN_KV_VALUE_BYTES], expected[SPIN_KV_VALUE_BYTES];
    for (uint32_t i = 1; i <= 300; i++) {
        uint32_t k = rng_below(&r, KEYS), bytes = name_of(k, key), got, what = rng_below(&r, 3);
        bool found;
        if (what == 0) {
            RANK_CHECK(spin_kv_insert(kv, key, bytes, value, value_of(i, value)) == PTL_OK);
            map[k] = i;
        } else if (what == 1) {
            RANK_CHECK(spin_kv_get(kv, key, bytes, value, &got, &found) == PTL_OK);
            RANK_CHECK(found == (map[k] != 0));
            if (found) {
                RANK_CHECK(got == value_of(map[k], expected));
                RANK_CHECK(memcmp(value, expected, got) == 0);
            }
        } else {
            RANK_CHECK(spin_kv_delete(kv, key, bytes, &found) == PTL_OK);
            RANK_CHECK(found == (map[k] != 0));
            map[k] = 0;
        }
    }
    RANK_CHECK(spin_kv_insert(kv, key, 0, value, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spin_kv_insert(kv, key, SPIN_KV_KEY_BYTES + 1, value, 1) == PTL_ARG_INVALID);
    RANK_CHECK(spin_kv_insert(kv, key, 1, value, SPIN_KV_VALUE_BYTES + 1) == PTL_ARG_INVALID);
    return 0;
}

/* What every rank does around `client`. */
static int rank(struct scene *s, int (*client)(struct spin_kv *, struct scene *)) {
    struct spin_job job;
    struct spin_kv *kv;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_kv_open(job.ni, &s->options, &kv) == PTL_OK);
    spin_barrier();
    int line = client(kv, s);
    s->clients_done++;
    while (s->clients_done < job.ranks && job.rank < s->options.servers)
        RANK_CHECK(spin_kv_work(kv, 1) == PTL_OK);
    spin_barrier();
    s->worked += spin_kv_by_processor(kv);
    spin_kv_close(kv);
    spin_job_close(&job);
    return line;
}

static int one_client(struct spin_kv *kv, struct scene *s) {
    return spin_rank() == 2 ? use_at_random(kv, s) : 0;
}
static int one_client_rank(void *argument) {
    return rank(argument, one_client);
}

static void with_one_client(struct spin_kv_options o) {
    o.servers = 2;
    struct scene *s = calloc(1, sizeof *s);
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (int c = 0; c < 2; c++) {
        *s = (struct scene){.options = o, .seed = 5};
        spinlib_world_on((struct spin_world_options){.ranks = 3, .set = &cards[c], .set_count = 1},
                         cards[c], one_client_rank, s);
        if (o.by_host)
            CHECK_EQ(s->worked, 300);
        else if (o.max_steps == 1)
            CHECK(s->worked > 50 && s->worked < 300);
        else if (!o.buckets)
            CHECK_EQ(s->worked, 0);
    }
    free(s);
}

TEST(a_map_by_the_cards) {
    with_one_client((struct spin_kv_options){0});
}
TEST(a_map_by_the_processors) {
    with_one_client((struct spin_kv_options){.by_host = true});
}
TEST(long_chains_go_to_the_processor_and_back) {
    with_one_client((struct spin_kv_options){.buckets = 4, .max_steps = 1});
}

/* ---- full ---- */

static int fill(struct spin_kv *kv, struct scene *s) {
    uint8_t key[SPIN_KV_KEY_BYTES];
    bool found;
    (void)s;
    if (spin_rank() != 1)
        return 0;
    for (uint32_t round = 0; round < 2; round++) {
        for (uint32_t i = 0; i < 8; i++)
            RANK_CHECK(spin_kv_insert(kv, key, name_of(i, key), "x", 1) == PTL_OK);
        RANK_CHECK(spin_kv_insert(kv, key, name_of(9, key), "x", 1) == PTL_NO_SPACE);
        RANK_CHECK(spin_kv_insert(kv, key, name_of(3, key), "y", 1) == PTL_OK); /* in place */
        for (uint32_t i = 0; i < 8; i++)
            RANK_CHECK(spin_kv_delete(kv, key, name_of(i, key), &found) == PTL_OK && found);
    }
    return 0;
}
static int fill_rank(void *argument) {
    return rank(argument, fill);
}

TEST(a_full_server_says_so_and_recovers) {
    struct scene s = {.options = {.servers = 1, .items = 8, .buckets = 4, .max_steps = 100}};
    spinlib_world_on((struct spin_world_options){.ranks = 2}, "SC'17's card", fill_rank, &s);
}

/* ---- several clients: histories ---- */

static int record(struct spin_kv *kv, struct register_operation *op, uint32_t key) {
    uint8_t value[SPIN_KV_VALUE_BYTES];
    uint32_t bytes;
    bool found;
    op->start = spin_now_ps();
    if (op->kind == REGISTER_WRITE) {
        RANK_CHECK(spin_kv_insert(kv, &key, 4, &op->value, 4) == PTL_OK);
    } else if (op->kind == REGISTER_READ) {
        RANK_CHECK(spin_kv_get(kv, &key, 4, value, &bytes, &found) == PTL_OK);
        op->value = 0;
        if (found)
            memcpy(&op->value, value, 4);
    } else {
        RANK_CHECK(spin_kv_delete(kv, &key, 4, &found) == PTL_OK);
        op->value = found;
    }
    op->end = spin_now_ps();
    return 0;
}

static int write_history(struct spin_kv *kv, struct scene *s) {
    uint32_t me = spin_rank();
    struct rng r = rng_seeded(s->seed * 64 + me);
    for (uint32_t i = 0; i < s->operations; i++) {
        s->key[me][i] = rng_below(&r, s->keys);
        s->history[me][i] = (struct register_operation){
            .kind = (enum register_kind)rng_below(&r, 3), .value = me << 16 | (i + 1)};
        spin_compute(rng_below(&r, 400));
        int line = record(kv, &s->history[me][i], s->key[me][i]);
        if (line)
            return line;
    }
    return 0;
}
static int history_rank(void *argument) {
    return rank(argument, write_history);
}

enum { CLIENTS = 6, OPERATIONS = 24, FEW_KEYS = 3 };

static bool history_is_right(const struct scene *s) {
    for (uint32_t key = 0; key < s->keys; key++) {
        struct register_operation op[64];
        int count = 0;
        for (uint32_t c = 0; c < CLIENTS; c++)
            for (uint32_t i = 0; i < s->operations && count < 64; i++)
                if (s->key[c][i] == key)
                    op[count++] = s->history[c][i];
        if (!linearizable(op, count))
            return false;
    }
    return true;
}

/* Whether one of so many seeds gives a history that is not linearizable. */
static int wrong_histories(struct spin_kv_options o, int seeds) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    struct scene *s = calloc(1, sizeof *s);
    int wrong = 0;
    o.servers = 1;
    for (int seed = 1; seed <= seeds && !wrong; seed++) {
        int c = seed % 2;
        *s = (struct scene){
            .options = o, .seed = (uint64_t)seed, .operations = OPERATIONS, .keys = FEW_KEYS};
        spinlib_world_on(
            (struct spin_world_options){.ranks = CLIENTS, .set = &cards[c], .set_count = 1},
            cards[c], history_rank, s);
        wrong += !history_is_right(s);
    }
    free(s);
    return wrong;
}

TEST(linearizable_on_the_cards) {
    CHECK_EQ(wrong_histories((struct spin_kv_options){.buckets = 1}, 20), 0);
}
TEST(linearizable_between_cards_and_processors) {
    CHECK_EQ(wrong_histories((struct spin_kv_options){.buckets = 1, .max_steps = 1}, 20), 0);
}
TEST(linearizable_on_the_processors) {
    CHECK_EQ(wrong_histories((struct spin_kv_options){.buckets = 1, .by_host = true}, 6), 0);
}
TEST(a_planted_bug_is_found) {
    CHECK(wrong_histories((struct spin_kv_options){.buckets = 1, .planted_bug = true}, 20) > 0);
}

TEST_MAIN
