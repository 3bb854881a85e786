/* Transactions: what one client sees, money that does not get lost under several, and histories
 * that are serialisable; the checker finds a bug that was planted. */
#include "spinlib/tx.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/serializable.h"
#include "lib/spinlib_world.h"

/* ---- the checker itself ---- */

TEST(the_checker_knows_right_from_wrong) {
    /* One after the other on two records; then a reader. */
    struct transaction t[4] = {
        {0, 10, true, 2, {{0, 0, true}, {1, 0, false}}},
        {5, 20, true, 2, {{0, 1, true}, {1, 0, true}}},
        {12, 30, true, 2, {{0, 2, false}, {1, 2, false}}},
    };
    CHECK(!not_serializable(t, 3));
    t[2].touch[0].read = 1; /* of the second, one record and not the other */
    CHECK(not_serializable(t, 3));
    t[2].touch[1].read = 0; /* before the second: right if it may be */
    CHECK(!not_serializable(t, 3));
    t[2].start = 21;
    CHECK(not_serializable(t, 3));
    t[2].touch[0].read = 3; /* its own, a value that nobody committed before it */
    CHECK(not_serializable(t, 3));

    const struct transaction lost_update[] = {{0, 9, true, 1, {{0, 0, true}}},
                                              {0, 9, true, 1, {{0, 0, true}}}};
    CHECK(not_serializable(lost_update, 2));
    struct transaction skew[] = {{0, 9, true, 2, {{0, 0, true}, {1, 0, false}}},
                                 {0, 9, true, 2, {{0, 0, false}, {1, 0, true}}}};
    CHECK(not_serializable(skew, 2));
    skew[1].committed = false;
    CHECK(!not_serializable(skew, 2));
    const struct transaction dirty[] = {{0, 9, false, 1, {{0, 0, true}}},
                                        {0, 9, true, 1, {{0, 1, false}}}};
    CHECK(not_serializable(dirty, 2));
}

/* ---- what a world does ---- */

enum { MOST = 400, WORDS = 16 };

struct scene {
    struct spin_tx_options options;
    uint64_t seed;
    int (*client)(struct spin_tx *, struct scene *);
    uint32_t done, each, torn; /* each: transactions of a client */
    int committed, aborted;
    struct transaction history[MOST];
};

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_tx *tx;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_tx_open(job.ni, &s->options, &tx) == PTL_OK);
    spin_barrier();
    int line = s->client(tx, s);
    s->done++;
    while (s->done < job.ranks)
        RANK_CHECK(spin_tx_work(tx, 1) == PTL_OK);
    spin_barrier();
    spin_tx_close(tx);
    spin_job_close(&job);
    return line;
}

/* ---- one client ---- */

static int commit(struct spin_tx *tx) {
    bool committed = false;
    return spin_tx_commit(tx, &committed) == PTL_OK && committed;
}

/* Against a plain array. */
static int alone(struct spin_tx *tx, struct scene *s) {
    struct rng r = rng_seeded(s->seed);
    uint32_t records = s->options.records, bytes = s->options.record_bytes;
    uint8_t *plain = calloc(records, bytes), data[1024], *own = calloc(records, bytes);
    if (spin_rank() != spin_ranks() - 1)
        return free(plain), free(own), 0;
    for (int i = 0; i < 60; i++) {
        RANK_CHECK(spin_tx_begin(tx) == PTL_OK);
        memcpy(own, plain, (size_t)records * bytes);
        for (uint32_t k = rng_below(&r, 6); k; k--) {
            uint32_t record = rng_below(&r, records);
            uint8_t *at = own + (size_t)record * bytes;
            if (rng_below(&r, 2)) {
                RANK_CHECK(spin_tx_read(tx, record, data) == PTL_OK);
                RANK_CHECK(memcmp(data, at, bytes) == 0);
            } else {
                for (uint32_t b = 0; b < bytes; b++)
                    at[b] = (uint8_t)rng_u32(&r);
                int code = spin_tx_write(tx, record, at);
                RANK_CHECK(code == PTL_OK);
            }
        }
        if (rng_below(&r, 4) == 0)
            continue; /* forgotten */
        RANK_CHECK(commit(tx));
        memcpy(plain, own, (size_t)records * bytes);
    }
    free(plain);
    free(own);
    return 0;
}

static void with_one_client(uint32_t ranks, uint32_t owners, uint32_t record_bytes) {
    for (int host = 0; host < 2; host++) {
        struct scene *s = calloc(1, sizeof *s);
        *s = (struct scene){.options = {.records = 11,
                                        .record_bytes = record_bytes,
                                        .owners = owners,
                                        .by_host = host},
                            .client = alone,
                            .seed = record_bytes};
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        for (int c = 0; c < 2; c++) {
            s->done = 0;
            spinlib_world_on(
                (struct spin_world_options){.ranks = ranks, .set = &cards[c], .set_count = 1},
                cards[c], rank, s);
        }
        free(s);
    }
}

TEST(one_client_and_one_owner) {
    with_one_client(2, 1, 64);
}
TEST(one_client_and_several_owners) {
    with_one_client(4, 3, 8);
}
TEST(a_rank_by_itself) {
    with_one_client(1, 1, 512);
}

/* ---- limits ---- */

static int limits(struct spin_tx *tx, struct scene *s) {
    uint8_t data[1024] = {0};
    bool committed;
    (void)s;
    if (spin_rank() != 1)
        return 0;
    RANK_CHECK(spin_tx_begin(tx) == PTL_OK);
    RANK_CHECK(spin_tx_read(tx, 100, data) == PTL_ARG_INVALID);
    RANK_CHECK(spin_tx_write(tx, 100, data) == PTL_ARG_INVALID);
    for (uint32_t i = 0; i < SPIN_TX_READS; i++)
        RANK_CHECK(spin_tx_read(tx, i % 50, data) == PTL_OK);
    RANK_CHECK(spin_tx_read(tx, 0, data) == PTL_NO_SPACE);
    RANK_CHECK(commit(tx));
    uint32_t writes = 0;
    int code = PTL_OK;
    while (code == PTL_OK && writes < 100)
        code = spin_tx_write(tx, writes++, data);
    RANK_CHECK(code == PTL_NO_SPACE && writes == 4); /* of 1,024 bytes: three in 4 KiB */
    RANK_CHECK(spin_tx_write(tx, 0, data) == PTL_OK);
    RANK_CHECK(spin_tx_commit(tx, &committed) == PTL_OK && committed);
    RANK_CHECK(spin_tx_commit(tx, &committed) == PTL_OK && committed); /* of nothing */
    return 0;
}

TEST(a_transaction_has_limits) {
    for (int host = 0; host < 2; host++) {
        struct scene *s = calloc(1, sizeof *s);
        *s = (struct scene){
            .options = {.records = 100, .record_bytes = 1024, .owners = 1, .by_host = host},
            .client = limits};
        spinlib_world_on((struct spin_world_options){.ranks = 2}, "SC'17's card", rank, s);
        free(s);
    }
}

static int refused_rank(void *argument) {
    struct spin_job job;
    struct spin_tx *tx;
    (void)argument;
    static const struct spin_tx_options bad[] = {{.records = 1, .record_bytes = 24},
                                                 {.records = 1, .record_bytes = 2},
                                                 {.records = 1, .record_bytes = 2048},
                                                 {.records = 1, .owners = 3}};
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    for (int i = 0; i < 4; i++)
        RANK_CHECK(spin_tx_open(job.ni, &bad[i], &tx) == PTL_ARG_INVALID && !tx);
    const struct spin_tx_options large = {.records = 1u << 20};
    RANK_CHECK(spin_tx_open(job.ni, &large, &tx) != PTL_OK && !tx); /* 8 MiB of locks */
    spin_tx_close(NULL);
    spin_job_close(&job);
    return 0;
}
TEST(what_is_no_array_is_refused) {
    spinlib_world(2, refused_rank, NULL);
}

/* ---- several clients: histories ---- */

/* Some records, some of them changed. A record is its value again and again, so that a torn one is
 * noticed. */
static int attempt(struct spin_tx *tx, struct scene *s, struct rng *r, int number) {
    struct transaction *t = &s->history[number];
    uint32_t data[WORDS], torn = 0;
    t->count = 1 + (int)rng_below(r, 3);
    t->start = spin_now_ps();
    RANK_CHECK(spin_tx_begin(tx) == PTL_OK);
    for (int i = 0; i < t->count; i++) {
        bool twice = true;
        while (twice) {
            twice = false;
            t->touch[i].record = rng_below(r, s->options.records);
            for (int j = 0; j < i; j++)
                twice |= t->touch[j].record == t->touch[i].record;
        }
        RANK_CHECK(spin_tx_read(tx, t->touch[i].record, data) == PTL_OK);
        t->touch[i].read = data[0];
        for (int w = 1; w < WORDS; w++)
            torn |= data[w] != data[0];
        spin_compute(rng_below(r, 200));
    }
    for (int i = 0; i < t->count; i++) {
        t->touch[i].written = rng_below(r, 2);
        for (int w = 0; w < WORDS; w++)
            data[w] = (uint32_t)number + 1;
        if (t->touch[i].written)
            RANK_CHECK(spin_tx_write(tx, t->touch[i].record, data) == PTL_OK);
    }
    RANK_CHECK(spin_tx_commit(tx, &t->committed) == PTL_OK);
    t->end = spin_now_ps();
    s->torn += torn && t->committed;
    s->committed += t->committed;
    s->aborted += !t->committed;
    return 0;
}

static int write_history(struct spin_tx *tx, struct scene *s) {
    uint32_t me = spin_rank();
    struct rng r = rng_seeded(s->seed * 64 + me);
    int line = 0;
    for (uint32_t i = 0; i < s->each && !line; i++)
        line = attempt(tx, s, &r, (int)(me * s->each + i));
    return line;
}

struct tried {
    int wrong, committed, aborted;
};

/* Histories of so many seeds, on either card in turn. */
static struct tried histories(struct spin_tx_options o, int seeds, const char *const *faults,
                              int fault_count) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    enum { CLIENTS = 6 };
    struct tried tried = {0};
    struct scene *s = calloc(1, sizeof *s);
    o.record_bytes = 4 * WORDS;
    for (int seed = 1; seed <= seeds && !tried.wrong; seed++) {
        const char *set[8] = {cards[seed % 2]};
        for (int i = 0; i < fault_count; i++)
            set[1 + i] = faults[i];
        *s = (struct scene){
            .options = o, .client = write_history, .seed = (uint64_t)seed, .each = 40};
        spinlib_world_on(
            (struct spin_world_options){.ranks = CLIENTS, .set = set, .set_count = 1 + fault_count},
            set[0], rank, s);
        const char *wrong = not_serializable(s->history, CLIENTS * 40);
        tried.wrong += wrong || s->torn;
        tried.committed += s->committed;
        tried.aborted += s->aborted;
    }
    free(s);
    return tried;
}

static void all_serializable(struct spin_tx_options o, int seeds, const char *const *faults,
                             int fault_count) {
    struct tried tried = histories(o, seeds, faults, fault_count);
    CHECK_EQ(tried.wrong, 0);
    CHECK(tried.committed > seeds * 30); /* of 240; the others say that there was contention */
    CHECK(tried.aborted > seeds * 5);
}

TEST(serialisable_at_one_owner) {
    all_serializable((struct spin_tx_options){.records = 4, .owners = 1}, 8, NULL, 0);
}
TEST(serialisable_at_several_owners) {
    all_serializable((struct spin_tx_options){.records = 6, .owners = 3}, 8, NULL, 0);
    all_serializable((struct spin_tx_options){.records = 30, .owners = 6}, 4, NULL, 0);
}
TEST(serialisable_on_the_processors) {
    all_serializable((struct spin_tx_options){.records = 6, .owners = 3, .by_host = true}, 6, NULL,
                     0);
}
TEST(serialisable_when_packets_are_lost_and_overtaken) {
    static const char *const faults[] = {"loss=0.02", "duplication=0.02", "reordering=0.2",
                                         "reorder_delay=2000", "retry_timeout=20000"};
    all_serializable((struct spin_tx_options){.records = 6, .owners = 3}, 4, faults, 5);
    all_serializable((struct spin_tx_options){.records = 6, .owners = 3, .by_host = true}, 2,
                     faults, 5);
}
TEST(a_planted_bug_is_found) {
    struct spin_tx_options o = {.records = 6, .owners = 3, .planted_bug = true};
    CHECK(histories(o, 40, NULL, 0).wrong > 0);
    o.by_host = true;
    CHECK(histories(o, 40, NULL, 0).wrong > 0);
}

TEST_MAIN
