/* Fault-tolerant broadcast: to every rank that lives, once, whoever else has failed and whenever;
 * all sets of fewer than log2 P failures up to 16 ranks, random ones above. */
#include "spinlib/ftb.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"

struct scene {
    uint32_t ranks;
    uint64_t failed;    /* ranks, up to 64, */
    uint32_t after[64]; /* which still forward so many packets */
    uint64_t bytes;
    uint32_t broadcasts;
    bool by_host;
    uint32_t roots[8];
};

static uint8_t pattern(uint32_t broadcast, uint64_t i) {
    return (uint8_t)(broadcast * 77 + i * 31 + i / 251);
}

static int send_one(struct spin_ftb *f, uint32_t n, uint64_t bytes) {
    uint8_t *data = malloc(bytes + 1);
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = pattern(n, i);
    int code = spin_ftb_send(f, data, bytes);
    free(data);
    return code;
}

static int live_rank(struct spin_ftb *f, const struct scene *s) {
    const void *data;
    uint64_t bytes;
    for (uint32_t n = 0; n < s->broadcasts; n++) {
        if (spin_rank() == s->roots[n]) {
            RANK_CHECK(send_one(f, n, s->bytes) == PTL_OK);
            continue;
        }
        RANK_CHECK(spin_ftb_receive(f, PTL_TIME_FOREVER, &data, &bytes) == PTL_OK);
        RANK_CHECK(bytes == s->bytes);
        for (uint64_t i = 0; i < bytes; i++)
            RANK_CHECK(((const uint8_t *)data)[i] == pattern(n, i));
    }
    return 0;
}

static int rank(void *argument) {
    const struct scene *s = argument;
    bool failed = s->failed >> spin_rank() & 1;
    struct spin_job job;
    struct spin_ftb *f;
    struct spin_ftb_options o = {
        .most_bytes = s->bytes,
        .by_host = s->by_host,
        .stop_after = failed ? 1 + s->after[spin_rank()] : 0,
    };
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_ftb_open(job.ni, &o, &f) == PTL_OK);
    spin_barrier();
    int line = failed ? 0 : live_rank(f, s);
    uint64_t chunks = s->bytes / 4000 + 1;
    if (!line && !failed && !s->by_host && spin_ftb_copies(f) > s->broadcasts * chunks)
        line = __LINE__; /* the card drops all copies but one */
    spin_barrier();
    spin_ftb_close(f);
    spin_job_close(&job);
    return line;
}

static void run(const struct scene *s) {
    struct scene copy = *s;
    spinlib_world(s->ranks, rank, &copy);
}

/* On SC'17's card alone. */
static void run_once(const struct scene *s) {
    static const char *const sc17[] = {"card=sc17"};
    struct scene copy = *s;
    spinlib_world_on((struct spin_world_options){.ranks = s->ranks, .set = sc17, .set_count = 1},
                     "SC'17's card", rank, &copy);
}

TEST(everybody_gets_it) {
    static const uint64_t sizes[] = {0, 1, 4000, 4080, 4081, 20000};
    for (uint32_t ranks = 2; ranks <= 9; ranks += ranks < 5 ? 1 : 2)
        for (int i = 0; i < 6; i++)
            for (int by_host = 0; by_host < 2; by_host++)
                run(&(struct scene){.ranks = ranks,
                                    .bytes = sizes[i],
                                    .broadcasts = 3,
                                    .by_host = by_host,
                                    .roots = {0, 1, ranks - 1}});
}

static uint32_t log2_of(uint32_t ranks) {
    return 31 - (uint32_t)__builtin_clz(ranks);
}

TEST(all_sets_of_failures_up_to_16_ranks) {
    for (uint32_t ranks = 4; ranks <= 16; ranks += ranks < 8 ? 1 : 4)
        for (uint64_t set = 0; set < 1u << ranks; set += 2) /* rank 0 sends */
            if ((uint32_t)__builtin_popcountll(set) < log2_of(ranks))
                (ranks > 8 ? run_once : run)(
                    &(struct scene){.ranks = ranks, .failed = set, .bytes = 9, .broadcasts = 1});
}

/* Failed ranks forward some packets before they fail. */
TEST(failures_at_random_moments) {
    struct rng r = rng_seeded(8);
    for (int i = 0; i < 30; i++) {
        struct scene s = {.ranks = 4 + rng_below(&r, 61),
                          .bytes = rng_below(&r, 12000),
                          .broadcasts = 2,
                          .by_host = rng_below(&r, 3) == 0};
        s.roots[1] = 1;
        for (uint32_t n = rng_below(&r, log2_of(s.ranks)); n;) {
            uint32_t who = 2 + rng_below(&r, s.ranks - 2);
            if (s.failed >> who & 1)
                continue;
            s.failed |= 1ull << who;
            s.after[who] = rng_below(&r, 30);
            n--;
        }
        run(&s);
    }
}

static int waits(void *argument) {
    struct spin_job job;
    struct spin_ftb *f;
    const struct spin_ftb_options o = {.most_bytes = 8};
    const void *data;
    uint64_t bytes;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_ftb_open(job.ni, &o, &f) == PTL_OK);
    spin_barrier();
    if (job.rank == 0) {
        RANK_CHECK(spin_ftb_send(f, "12345678", 4081) == PTL_ARG_INVALID);
        spin_compute(20000000);
        RANK_CHECK(spin_ftb_send(f, "12345678", 8) == PTL_OK);
    } else {
        RANK_CHECK(spin_ftb_receive(f, 5, &data, &bytes) == PTL_CT_NONE_REACHED);
        RANK_CHECK(spin_ftb_receive(f, PTL_TIME_FOREVER, &data, &bytes) == PTL_OK);
        RANK_CHECK(bytes == 8 && memcmp(data, "12345678", 8) == 0);
    }
    spin_barrier();
    spin_ftb_close(f);
    spin_job_close(&job);
    return 0;
}

TEST(a_sender_that_is_late) {
    spinlib_world(2, waits, NULL);
}

TEST_MAIN
