/* Collectives against a plain model: every way in every variant, on random data, sizes, roots and
 * types, with ranks that come late, on either card, and on networks that lose packets. */
#include "spinlib/coll.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"

struct scene {
    uint32_t seed;
    uint32_t rounds;                              /* of all ways */
    uint64_t most_bytes;                          /* of a vector */
    const char *collective, *algorithm, *variant; /* NULL: all */
    uint32_t part_bytes;
    bool late; /* ranks begin calls at random times */
};

/* ---- The model ---- */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 31) * 0x7fb5d329728ea185u;
    x = (x ^ x >> 27) * 0x81dadef4bc2dd44du;
    return x ^ x >> 33;
}

/* Element i of a rank's data. Of floats, small whole numbers: their sums are exact in any order. */
static uint64_t element(uint64_t call, uint32_t rank, uint64_t i) {
    return mix(call * 1000003 + rank * 7919u + i * 65537);
}

static uint32_t bytes_of(ptl_datatype_t type) {
    return type == PTL_INT32_T || type == PTL_FLOAT ? 4 : 8;
}

static void set(void *data, uint64_t i, ptl_datatype_t type, uint64_t value) {
    if (type == PTL_INT32_T)
        ((uint32_t *)data)[i] = (uint32_t)value;
    else if (type == PTL_FLOAT)
        ((float *)data)[i] = (float)(int)(value % 2001) - 1000;
    else if (type == PTL_DOUBLE)
        ((double *)data)[i] = (double)(int)(value % 2000001) - 1000000;
    else
        ((uint64_t *)data)[i] = value;
}

#define ORDERED(type_name, sum_name)                                                               \
    {                                                                                              \
        type_name x = ((const type_name *)a)[i], y = ((const type_name *)b)[i];                    \
        ((type_name *)a)[i] = operation == PTL_SUM   ? (type_name)((sum_name)x + (sum_name)y)      \
                              : operation == PTL_MIN ? (x < y ? x : y)                             \
                                                     : (x > y ? x : y);                            \
        return;                                                                                    \
    }

static void model(void *a, const void *b, uint64_t i, ptl_datatype_t type, ptl_op_t operation) {
    uint64_t x = 0, y = 0;
    uint32_t bytes = bytes_of(type);
    memcpy(&x, (uint8_t *)a + i * bytes, bytes);
    memcpy(&y, (const uint8_t *)b + i * bytes, bytes);
    if (operation == PTL_BAND || operation == PTL_BOR || operation == PTL_BXOR) {
        x = operation == PTL_BAND ? x & y : operation == PTL_BOR ? x | y : x ^ y;
        memcpy((uint8_t *)a + i * bytes, &x, bytes);
        return;
    }
    switch (type) {
    case PTL_INT32_T:
        ORDERED(int32_t, uint32_t)
    case PTL_INT64_T:
        ORDERED(int64_t, uint64_t)
    case PTL_UINT64_T:
        ORDERED(uint64_t, uint64_t)
    case PTL_FLOAT:
        ORDERED(float, float)
    default:
        ORDERED(double, double)
    }
}

/* ---- Calls ---- */

struct drawn {
    struct spin_coll_call call;
    uint64_t number;
    uint64_t bytes; /* of a vector, or of a block */
    uint8_t *in, *out, *expected;
    uint64_t out_bytes; /* 0: this rank gets nothing */
};

static uint8_t *memory_for(uint64_t bytes) {
    uint8_t *memory = malloc(bytes + 16);
    if (memory)
        memset(memory, 0xa5, bytes + 16);
    return memory;
}

static void fill(uint8_t *data, uint64_t call, uint32_t rank, uint64_t bytes) {
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = (uint8_t)element(call, rank, i);
}

static void prepare_reduction(struct drawn *d) {
    uint32_t ranks = spin_ranks();
    uint8_t *other = memory_for(d->bytes);
    for (uint64_t i = 0; i < d->call.count; i++)
        set(d->in, i, d->call.type, element(d->number, spin_rank(), i));
    for (uint32_t r = 0; r < ranks && d->out_bytes; r++)
        for (uint64_t i = 0; i < d->call.count; i++) {
            set(r ? other : d->expected, i, d->call.type, element(d->number, r, i));
            if (r)
                model(d->expected, other, i, d->call.type, d->call.operation);
        }
    free(other);
}

/* Data of this rank, and what it should get. */
static bool prepare(struct drawn *d) {
    uint32_t rank = spin_rank(), ranks = spin_ranks();
    const char *what = d->call.collective;
    bool blocks = strcmp(what, "allgather") == 0 || strcmp(what, "alltoall") == 0;
    bool gathers = strcmp(what, "allgather") == 0;
    uint64_t all = d->bytes * (blocks ? ranks : 1);
    d->in = memory_for(all);
    d->out = memory_for(all);
    d->expected = memory_for(all);
    d->call.in = d->in;
    d->call.out = d->out;
    if (!d->in || !d->out || !d->expected)
        return false;
    if (strcmp(what, "barrier") == 0)
        return true;
    if (!blocks && strcmp(what, "broadcast") != 0) {
        d->out_bytes = strcmp(what, "allreduce") == 0 || rank == d->call.root ? d->bytes : 0;
        prepare_reduction(d);
        return true;
    }
    d->out_bytes = all;
    if (!blocks) {
        fill(d->expected, d->number, d->call.root, d->bytes);
        if (rank == d->call.root)
            memcpy(d->out, d->expected, d->bytes);
        return true;
    }
    fill(d->in, d->number, rank, gathers ? d->bytes : all);
    uint8_t *theirs = memory_for(all);
    for (uint32_t r = 0; r < ranks; r++) {
        fill(theirs, d->number, r, gathers ? d->bytes : all);
        memcpy(d->expected + r * d->bytes, theirs + (gathers ? 0 : rank * d->bytes), d->bytes);
    }
    free(theirs);
    return true;
}

/* The bytes behind must be as they were. */
static bool is_right(const struct drawn *d) {
    return memcmp(d->out, d->expected, d->out_bytes + 16) == 0;
}

static void discard(struct drawn *d) {
    free(d->in);
    free(d->out);
    free(d->expected);
}

static struct drawn draw(struct rng *r, const struct spin_coll_way *way, const char *variant,
                         uint64_t most_bytes, uint64_t number) {
    static const ptl_datatype_t types[] = {PTL_INT32_T, PTL_INT64_T, PTL_UINT64_T, PTL_FLOAT,
                                           PTL_DOUBLE};
    static const ptl_op_t operations[] = {PTL_SUM, PTL_MIN, PTL_MAX, PTL_BAND, PTL_BOR, PTL_BXOR};
    struct drawn d = {.number = number};
    bool blocks =
        strcmp(way->collective, "allgather") == 0 || strcmp(way->collective, "alltoall") == 0;
    bool reduces =
        strcmp(way->collective, "reduce") == 0 || strcmp(way->collective, "allreduce") == 0;
    ptl_datatype_t type = types[rng_below(r, 5)];
    bool is_float = type == PTL_FLOAT || type == PTL_DOUBLE;
    uint64_t most = rng_below(r, 3) ? most_bytes : 64; /* short ones are often */
    uint64_t bytes = rng_below(r, (uint32_t)most + 1) / (blocks ? spin_ranks() : 1);
    uint32_t element_bytes = reduces ? bytes_of(type) : 1;
    d.call = (struct spin_coll_call){
        .collective = way->collective,
        .how = {way->algorithm, variant},
        .count = bytes / element_bytes,
        .type = type,
        .operation = operations[rng_below(r, is_float ? 3 : 6)],
        .root = rng_below(r, spin_ranks()),
    };
    d.bytes = d.call.count * element_bytes;
    return d;
}

static int call_blocking(struct spin_coll *c, struct drawn *d) {
    struct spin_coll_request *request;
    int code = spin_coll_start(c, &d->call, &request);
    return code == PTL_OK ? spin_coll_wait(c, request) : code;
}

static bool is_wanted(const struct scene *s, const struct spin_coll_way *w, const char *variant) {
    return (!s->collective || strcmp(s->collective, w->collective) == 0) &&
           (!s->algorithm || strcmp(s->algorithm, w->algorithm) == 0) &&
           (!s->variant || strcmp(s->variant, variant) == 0);
}

static int all_ways(struct spin_coll *c, const struct scene *s) {
    struct rng same = rng_seeded(s->seed), mine = rng_seeded(s->seed * 77 + spin_rank());
    uint64_t number = 0;
    for (uint32_t round = 0; round < s->rounds; round++)
        for (const struct spin_coll_way *w = spin_coll_ways(); w->collective; w++)
            for (const char *const *v = spin_coll_variants(); *v; v++) {
                if (!is_wanted(s, w, *v))
                    continue;
                struct drawn d = draw(&same, w, *v, s->most_bytes, ++number);
                RANK_CHECK(prepare(&d));
                if (s->late && rng_below(&mine, 4) == 0)
                    spin_compute(rng_below(&mine, 20000));
                int code = call_blocking(c, &d);
                if (code != PTL_OK || !is_right(&d))
                    printf("seed %u rank %u: %s %s %s %llu bytes root %u type %u op %u: %d\n",
                           s->seed, spin_rank(), w->collective, w->algorithm, *v,
                           (unsigned long long)d.bytes, d.call.root, d.call.type, d.call.operation,
                           code);
                RANK_CHECK(code == PTL_OK);
                RANK_CHECK(is_right(&d));
                discard(&d);
            }
    return 0;
}

static int rank(void *argument) {
    const struct scene *s = argument;
    struct spin_job job;
    struct spin_coll *c;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, s->part_bytes, &c) == PTL_OK);
    int line = all_ways(c, s);
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return line;
}

static void run_on(const char *card, uint32_t ranks, struct scene s) {
    spinlib_world_on((struct spin_world_options){.ranks = ranks, .set = &card, .set_count = 1},
                     card, rank, &s);
}

TEST(every_way_from_1_to_17_ranks) {
    for (uint32_t ranks = 1; ranks <= 17; ranks += TEST_SANITIZED ? 3 : 1)
        run_on(
            ranks % 2 ? "card=sc17" : "card=pspin", ranks,
            (struct scene){
                .seed = ranks, .rounds = TEST_SANITIZED ? 1 : 2, .most_bytes = 3000, .late = true});
}

TEST(every_way_on_32_ranks) {
    struct scene s = {.seed = 1, .rounds = 1, .most_bytes = TEST_SANITIZED ? 2000 : 20000};
    spinlib_world(32, rank, &s);
}

/* Parts that are shorter than a packet, and all of a vector's many parts. */
TEST(many_parts) {
    for (uint32_t part = 8; part <= 8192; part *= 32)
        run_on("card=sc17", 5,
               (struct scene){.seed = part,
                              .rounds = 1,
                              .most_bytes = part * (TEST_SANITIZED ? 10 : 40),
                              .part_bytes = part,
                              .late = true});
}

TEST(several_mebibytes) {
    struct scene s = {
        .seed = 3, .rounds = 1, .most_bytes = TEST_SANITIZED ? 1u << 17 : 1u << 20, .late = true};
    run_on("card=sc17", 4, s);
    s.algorithm = "ring";
    s.most_bytes *= 4;
    run_on("card=pspin", 3, s);
}

TEST(a_network_that_loses_and_reorders) {
    static const char *const set[] = {"loss=0.02", "duplication=0.01", "reordering=0.05",
                                      "retry_timeout=5us"};
    struct scene s = {.seed = 9, .rounds = 1, .most_bytes = 9000, .late = true};
    spinlib_world_with((struct spin_world_options){.ranks = 6, .set = set, .set_count = 4}, rank,
                       &s);
}

/* ---- Several at once ---- */

/* Two communicators, on each of which calls are started, and finished in another order. */
static int several(void *argument) {
    struct rng same = rng_seeded(5), mine = rng_seeded(100 + spin_rank());
    enum { CALLS = 6 };
    struct spin_job job;
    struct spin_coll *c[2];
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, 7, 512, &c[0]) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 0, &c[1]) == PTL_OK);
    for (int round = 0; round < 4; round++) {
        struct drawn d[2][CALLS];
        struct spin_coll_request *request[2][CALLS];
        for (int i = 0; i < CALLS; i++)
            for (int k = 0; k < 2; k++) {
                const struct spin_coll_way *way = &spin_coll_ways()[rng_below(&same, 14)];
                const char *variant = spin_coll_variants()[rng_below(&same, 3)];
                d[k][i] = draw(&same, way, variant, 5000, (uint64_t)(round * 100 + i * 2 + k));
                RANK_CHECK(prepare(&d[k][i]));
                spin_compute(rng_below(&mine, 3000));
                RANK_CHECK(spin_coll_start(c[k], &d[k][i].call, &request[k][i]) == PTL_OK);
            }
        for (int n = 0; n < 2 * CALLS; n++) {
            int i = CALLS - 1 - n / 2, k = n % 2;
            bool done = false;
            for (int look = 0; look < 5 && !done; look++)
                RANK_CHECK(spin_coll_test(c[k], request[k][i], &done) == PTL_OK);
            if (!done)
                RANK_CHECK(spin_coll_wait(c[k], request[k][i]) == PTL_OK);
            RANK_CHECK(is_right(&d[k][i]));
            discard(&d[k][i]);
        }
    }
    spin_barrier();
    spin_coll_close(c[0]);
    spin_coll_close(c[1]);
    spin_job_close(&job);
    return 0;
}

TEST(several_calls_and_communicators) {
    spinlib_world(2, several, NULL);
    spinlib_world(7, several, NULL);
}

/* Without waiting in a library call: what one rank computes meanwhile delays nobody's cards. */
static int overlap(void *argument) {
    uint64_t *took = argument;
    static const char *const by[] = {"rdma", "triggered", "spin"};
    struct spin_job job;
    struct spin_coll *c;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 0, &c) == PTL_OK);
    for (int v = 0; v < 3; v++) {
        double in = job.rank, out = 0;
        struct spin_coll_request *request;
        const struct spin_coll_call call = {.collective = "allreduce",
                                            .how = {"binomial", by[v]},
                                            .in = &in,
                                            .out = &out,
                                            .count = 1,
                                            .type = PTL_DOUBLE,
                                            .operation = PTL_SUM};
        RANK_CHECK(spin_coll_barrier(c, &call.how) == PTL_OK); /* opens the variant */
        spin_barrier();
        uint64_t begin = spin_now_ps();
        RANK_CHECK(spin_coll_start(c, &call, &request) == PTL_OK);
        if (job.rank == 4) /* in the middle of the tree */
            spin_compute(100000);
        RANK_CHECK(spin_coll_wait(c, request) == PTL_OK && out == 28);
        if (job.rank == 0)
            took[v] = spin_now_ps() - begin;
        spin_barrier();
    }
    spin_coll_close(c);
    spin_job_close(&job);
    return 0;
}

TEST(cards_go_on_while_a_processor_computes) {
    uint64_t took[3];
    spinlib_world(8, overlap, took);
    CHECK(took[0] > 100000000);
    CHECK(took[1] < 50000000);
    CHECK(took[2] < 50000000);
}

/* ---- The same bits ---- */

struct sums {
    const struct spin_coll_way *way;
    const char *variant;
    bool late;
    double sum[16][64];
};

static int sum_up(void *argument) {
    struct sums *s = argument;
    const struct spin_coll_how how = {s->way->algorithm, s->variant};
    bool all = strcmp(s->way->collective, "allreduce") == 0;
    struct spin_job job;
    struct spin_coll *c;
    double in[64];
    struct rng mine = rng_seeded(spin_rank());
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 128, &c) == PTL_OK);
    for (int i = 0; i < 64; i++)
        in[i] = (double)(int64_t)mix(job.rank * 64 + (uint64_t)i) * (i % 2 ? 1e-9 : 3.7);
    if (s->late)
        spin_compute(rng_below(&mine, 5000));
    RANK_CHECK((all ? spin_coll_allreduce(c, &how, in, s->sum[job.rank], 64, PTL_DOUBLE, PTL_SUM)
                    : spin_coll_reduce(c, &how, in, s->sum[job.rank], 64, PTL_DOUBLE, PTL_SUM,
                                       0)) == PTL_OK);
    if (!all && job.rank)
        memcpy(s->sum[job.rank], in, sizeof in);
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return 0;
}

/* Neither the variant nor the order of arrival changes a bit, and all ranks have the same. */
TEST(floating_point_sums_have_one_result) {
    for (const struct spin_coll_way *w = spin_coll_ways(); w->collective; w++) {
        struct sums first = {.way = w};
        bool all = strcmp(w->collective, "allreduce") == 0;
        if (!all && strcmp(w->collective, "reduce") != 0)
            continue;
        for (int v = 0; v < 6; v++) {
            static const char *const sc17[] = {"card=sc17"};
            struct sums s = {.way = w, .variant = spin_coll_variants()[v / 2], .late = v % 2};
            spinlib_world_on((struct spin_world_options){.ranks = 11, .set = sc17, .set_count = 1},
                             *sc17, sum_up, &s);
            if (v == 0)
                memcpy(first.sum, s.sum, sizeof s.sum);
            CHECK(memcmp(s.sum, first.sum, sizeof s.sum) == 0);
            for (int r = 1; r < 11 && all; r++)
                CHECK(memcmp(s.sum[r], s.sum[0], sizeof s.sum[0]) == 0);
        }
    }
}

/* ---- What is refused ---- */

static int refused(void *argument) {
    struct spin_job job;
    struct spin_coll *c;
    double x = 1, y = 0;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 0, &c) == PTL_OK);
    const struct spin_coll_how ring = {"ring", NULL}, odd = {"auto", "smoke"},
                               none = {"auto", "auto"};
    RANK_CHECK(spin_coll_broadcast(c, &ring, &x, 8, 0) == PTL_ARG_INVALID);
    RANK_CHECK(strcmp(spin_coll_error(c), "there is no broadcast by ring; there are auto, "
                                          "binomial, pipelined") == 0);
    RANK_CHECK(spin_coll_barrier(c, &odd) == PTL_ARG_INVALID);
    RANK_CHECK(strcmp(spin_coll_error(c), "there is no variant smoke; there are auto, rdma, "
                                          "triggered, spin") == 0);
    struct spin_coll_request *request;
    RANK_CHECK(spin_coll_start(c, &(struct spin_coll_call){.collective = "scan"}, &request) ==
               PTL_ARG_INVALID);
    RANK_CHECK(strcmp(spin_coll_error(c),
                      "there is no collective scan; there are barrier, "
                      "broadcast, reduce, allreduce, allgather, alltoall") == 0);
    RANK_CHECK(spin_coll_broadcast(c, NULL, &x, 8, job.ranks) == PTL_ARG_INVALID);
    RANK_CHECK(spin_coll_allreduce(c, NULL, &x, &y, 1, PTL_INT8_T, PTL_SUM) == PTL_ARG_INVALID);
    RANK_CHECK(spin_coll_allreduce(c, NULL, &x, &y, 1, PTL_DOUBLE, PTL_BOR) == PTL_ARG_INVALID);
    RANK_CHECK(spin_coll_allreduce(c, NULL, &x, NULL, 1, PTL_DOUBLE, PTL_SUM) == PTL_ARG_INVALID);
    /* and all is well afterwards, also in place */
    RANK_CHECK(spin_coll_allreduce(c, &none, &x, &x, 1, PTL_DOUBLE, PTL_SUM) == PTL_OK);
    RANK_CHECK(x == job.ranks);
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return 0;
}

static int by_itself(void *argument) {
    struct spin_job job;
    struct spin_coll *c;
    struct rng same = rng_seeded(11);
    const uint64_t *longest = argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 0, &c) == PTL_OK);
    for (uint64_t i = 0; i < 18; i++) { /* each collective: short, of some packets, and long */
        static const char *const kinds[] = {"barrier",   "broadcast", "reduce",
                                            "allreduce", "allgather", "alltoall"};
        const struct spin_coll_way way = {kinds[i % 6], NULL};
        struct drawn d = draw(&same, &way, i % 2 ? "auto" : NULL, i / 6 == 2 ? *longest : 3000, i);
        RANK_CHECK(prepare(&d));
        RANK_CHECK(call_blocking(c, &d) == PTL_OK);
        RANK_CHECK(is_right(&d));
        discard(&d);
    }
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return 0;
}

TEST(the_library_chooses) {
    static const char *const sc17[] = {"card=sc17"};
    uint64_t longest = 90000;
    spinlib_world(5, by_itself, &longest);
    longest = 3000;
    spinlib_world_on((struct spin_world_options){.ranks = 70, .set = sc17, .set_count = 1}, *sc17,
                     by_itself, &longest); /* too many for triggered operations on blocks */
}

/* Rank 1 has no HPUs: all use another variant. */
static int without_hpus(void *argument) {
    const struct spin_coll_how spin = {NULL, "spin"};
    struct spin_job job;
    struct spin_coll *c;
    int32_t sum = 1;
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_coll_open(job.ni, PTL_PT_ANY, 0, &c) == PTL_OK);
    RANK_CHECK(spin_coll_barrier(c, &spin) == PTL_NO_SPACE);
    RANK_CHECK(strcmp(spin_coll_error(c),
                      "the variant spin could not be opened here (PTL_NO_SPACE); take another") ==
               0);
    RANK_CHECK(spin_coll_allreduce(c, NULL, &sum, &sum, 1, PTL_INT32_T, PTL_SUM) == PTL_OK);
    RANK_CHECK(sum == 3);
    spin_barrier();
    spin_coll_close(c);
    spin_job_close(&job);
    return 0;
}

TEST(a_card_without_hpus) {
    static const char *const set[] = {"1:hpus=0"};
    spinlib_world_on((struct spin_world_options){.ranks = 3, .set = set, .set_count = 1}, *set,
                     without_hpus, NULL);
}

TEST(what_there_is_not) {
    spinlib_world(3, refused, NULL);
    spinlib_world(1, refused, NULL);
}

TEST_MAIN
