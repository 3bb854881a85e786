/* Derived datatypes: random ones against their type map, whole and in pieces in any order, by the
 * host, and by cards in every strategy, where the network reorders and loses packets too. */
#include "spinlib/datatype.h"

#include <stdlib.h>
#include <string.h>

#include "lib/spinlib_world.h"
#include "lib/type_tree.h"

/* ---- Types and layouts on the host ---- */

struct random_type {
    struct tree *tree;
    struct map map;
    struct bounds bounds; /* of `count` of them */
    struct spin_type *type;
    struct spin_layout *layout;
    int count;
};

enum { MOST_BYTES = 20000, MOST_SPAN = 100000 };

/* One whose type map is not too long. */
static struct random_type random_type(struct rng *r, struct tree_taste taste) {
    struct random_type t = {.count = tree_between(r, taste.zeros ? 0 : 1, 3)};
    struct spin_error err;
    for (;;) {
        t.tree = tree_random(r, tree_between(r, 1, 4), taste);
        struct map one = tree_map(t.tree);
        map_block(&t.map, &one, t.count, 0);
        free(one.entry);
        t.bounds = map_bounds(&t.map);
        if (t.bounds.size < MOST_BYTES && t.bounds.true_extent < MOST_SPAN)
            break;
        free(t.map.entry);
        t.map = (struct map){0};
        tree_free(t.tree);
    }
    t.type = tree_type(t.tree);
    CHECK(t.type);
    CHECK_EQ(spin_type_commit(t.type, t.count, &t.layout, &err), PTL_OK);
    return t;
}

static void free_type(struct random_type *t) {
    spin_layout_free(t->layout);
    spin_type_free(t->type);
    free(t->map.entry);
    tree_free(t->tree);
}

/* Where each byte of the packed data belongs, from the first byte on. */
static int64_t *byte_map(const struct random_type *t) {
    int64_t *at = malloc((size_t)(t->bounds.size + 1) * sizeof *at), n = 0;
    for (size_t i = 0; i < t->map.count; i++)
        for (int b = 0; b < t->map.entry[i].bytes; b++)
            at[n++] = t->map.entry[i].at + b - t->bounds.true_lb;
    return at;
}

static void check_bounds(const struct random_type *t) {
    struct map one = tree_map(t->tree);
    struct bounds b = map_bounds(&one);
    ptrdiff_t lb, extent;
    free(one.entry);
    CHECK_EQ(spin_type_size(t->type), (uint64_t)b.size);
    spin_type_extent(t->type, &lb, &extent);
    CHECK_EQ(lb, b.lb);
    CHECK_EQ(extent, b.extent);
    spin_type_true_extent(t->type, &lb, &extent);
    CHECK_EQ(lb, b.true_lb);
    CHECK_EQ(extent, b.true_extent);
    struct spin_layout_info info = spin_layout_info(t->layout);
    CHECK_EQ(info.size, (uint64_t)t->bounds.size);
    CHECK_EQ(info.true_lb, t->bounds.true_lb);
    CHECK_EQ(info.true_extent, (uint64_t)t->bounds.true_extent);
}

static void check_packing(const struct random_type *t, struct rng *r) {
    int64_t *at = byte_map(t), size = t->bounds.size, span = t->bounds.true_extent;
    uint8_t *memory = malloc((size_t)span + 1), *packed = malloc((size_t)size + 1);
    uint8_t *back = malloc((size_t)span + 1);
    for (int64_t i = 0; i < span; i++)
        memory[i] = (uint8_t)rng_below(r, 256);
    void *buffer = memory - t->bounds.true_lb;
    spin_layout_pack(t->layout, buffer, 0, UINT64_MAX, packed);
    for (int64_t i = 0; i < size; i++)
        CHECK_EQ(packed[i], memory[at[i]]);
    for (int piece = 0; piece < 5 && size; piece++) {
        int64_t from = rng_below(r, (uint32_t)size), n = rng_below(r, (uint32_t)(size - from)) + 1;
        memset(packed, 0, (size_t)n);
        spin_layout_pack(t->layout, buffer, (uint64_t)from, (uint64_t)n, packed);
        for (int64_t i = 0; i < n; i++)
            CHECK_EQ(packed[i], memory[at[from + i]]);
        memcpy(back, memory, (size_t)span);
        for (int64_t i = 0; i < n; i++)
            packed[i] = (uint8_t)~packed[i];
        spin_layout_unpack(t->layout, back - t->bounds.true_lb, (uint64_t)from, (uint64_t)n,
                           packed);
        for (int64_t i = 0; i < n; i++)
            memory[at[from + i]] = packed[i];
        CHECK(memcmp(memory, back, (size_t)span) == 0);
    }
    free(at);
    free(memory);
    free(packed);
    free(back);
}

TEST(random_types_are_their_type_maps) {
    struct rng r = rng_seeded(1);
    for (int i = 0; i < (TEST_SANITIZED ? 600 : 3000); i++) {
        struct random_type t =
            random_type(&r, (struct tree_taste){.zeros = i % 3 == 0, .overlaps = i % 2 == 0});
        check_bounds(&t);
        check_packing(&t, &r);
        free_type(&t);
    }
}

static struct spin_layout_info info_of(struct spin_type *type, int count) {
    struct spin_layout *layout;
    struct spin_error err = {0};
    if (spin_type_commit(type, count, &layout, &err) != PTL_OK)
        TEST_FAIL("%s", err.text);
    struct spin_layout_info info = spin_layout_info(layout);
    spin_layout_free(layout);
    return info;
}

/* What is the same layout becomes the same loops, however it was built. */
TEST(layouts_are_normalised) {
    struct spin_type *number, *a, *b, *c, *d;
    SPIN_TYPE_OF(double, &number);
    spin_type_contiguous(4, number, &a);
    CHECK_EQ(info_of(a, 100).regions, 1);
    spin_type_vector(10, 2, 5, number, &b);
    struct spin_layout_info info = info_of(b, 1);
    CHECK_EQ(info.form, SPIN_LAYOUT_VECTOR);
    CHECK_EQ(info.depth, 1);
    CHECK_EQ(info.regions, 10);
    spin_type_resized(b, 0, 400, &c); /* goes on at its own stride */
    CHECK_EQ(info_of(c, 7).depth, 1);
    CHECK_EQ(info_of(b, 7).depth, 2);
    CHECK_EQ(info_of(c, 7).dataloop_bytes, info_of(a, 1).dataloop_bytes);
    const int at[] = {0, 5, 10, 15}, uneven[] = {0, 5, 11, 15}, lengths[] = {2, 2, 2, 1};
    spin_type_indexed_block(4, 2, at, number, &d);
    CHECK_EQ(info_of(d, 1).form, SPIN_LAYOUT_VECTOR);
    spin_type_free(d);
    spin_type_indexed_block(4, 2, uneven, number, &d);
    CHECK_EQ(info_of(d, 1).form, SPIN_LAYOUT_INDEX);
    spin_type_free(d);
    spin_type_indexed(4, lengths, at, number, &d);
    CHECK_EQ(info_of(d, 1).form, SPIN_LAYOUT_INDEX);
    CHECK_EQ(info_of(d, 2).form, SPIN_LAYOUT_GENERAL);
    spin_type_free(d);
    const int sizes[] = {8, 8, 8}, sub[] = {4, 8, 8}, part[] = {4, 4, 4}, starts[] = {2, 0, 0};
    spin_type_subarray(3, sizes, sub, starts, SPIN_ORDER_C, number, &d);
    CHECK_EQ(info_of(d, 1).regions, 1);
    spin_type_free(d);
    spin_type_subarray(3, sizes, part, starts, SPIN_ORDER_C, number, &d);
    CHECK_EQ(info_of(d, 1).regions, 16);
    CHECK_EQ(info_of(d, 1).depth, 2);
    spin_type_free(a);
    spin_type_free(b);
    spin_type_free(c);
    spin_type_free(d);
    spin_type_free(number);
}

TEST(nested_deeply) {
    struct spin_type *t, *outer;
    struct spin_layout *layout;
    struct spin_error err = {0};
    spin_type_basic(4, 4, &t);
    for (int i = 0; i < 100000; i++) { /* all of it contiguous */
        CHECK_EQ(spin_type_contiguous(1, t, &outer), PTL_OK);
        spin_type_free(t);
        t = outer;
    }
    CHECK_EQ(info_of(t, 1).depth, 1);
    spin_type_free(t);
    spin_type_basic(1, 1, &t);
    int most = 0;
    for (int i = 0; i < 30; i++) { /* no two strides are alike */
        CHECK_EQ(spin_type_hvector(2, 1, (3ll << i) + 1, t, &outer), PTL_OK);
        spin_type_free(t);
        t = outer;
        if (spin_type_commit(t, 1, &layout, &err) == PTL_OK) {
            most = i + 1;
            spin_layout_free(layout);
        }
    }
    CHECK_EQ(most, 24);
    CHECK_STR(err.text, "30 loops within each other, none of which can be merged with its "
                        "neighbour; a layout has at most 24");
    for (int i = 0; i < 200000; i++) { /* and freed without a stack */
        CHECK_EQ(spin_type_hvector(1, 1, 0, t, &outer), PTL_OK);
        spin_type_free(t);
        t = outer;
    }
    spin_type_free(t);
}

TEST(what_cannot_be_is_refused) {
    struct spin_type *number, *t, *huge;
    struct spin_layout *layout;
    struct spin_error err;
    CHECK_EQ(spin_type_basic(0, 1, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_basic(8, 3, &t), PTL_ARG_INVALID);
    SPIN_TYPE_OF(int, &number);
    CHECK_EQ(spin_type_contiguous(-1, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_vector(2, -1, 3, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_hvector(2, 1, PTRDIFF_MAX, number, &t), PTL_ARG_INVALID);
    const int one = 1, two = 2, minus = -1, zero = 0;
    CHECK_EQ(spin_type_indexed(-1, &one, &one, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_indexed(1, &minus, &one, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_subarray(1, &one, &two, &zero, SPIN_ORDER_C, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_subarray(0, &one, &one, &zero, SPIN_ORDER_C, number, &t), PTL_ARG_INVALID);
    CHECK_EQ(spin_type_subarray(1, &two, &two, &one, SPIN_ORDER_C, number, &t), PTL_ARG_INVALID);
    const enum spin_type_distribution block = SPIN_DISTRIBUTE_BLOCK;
    const int seven = 7;
    CHECK_EQ(spin_type_darray(2, 2, 1, &seven, &block, &one, &two, SPIN_ORDER_C, number, &t),
             PTL_ARG_INVALID); /* no such rank */
    CHECK_EQ(spin_type_darray(2, 0, 1, &seven, &block, &two, &two, SPIN_ORDER_C, number, &t),
             PTL_ARG_INVALID); /* two blocks of two are less than seven */
    CHECK_EQ(spin_type_darray(3, 0, 1, &seven, &block, &minus, &two, SPIN_ORDER_C, number, &t),
             PTL_ARG_INVALID); /* three processes in a grid of two */
    CHECK_EQ(spin_type_commit(number, -1, &layout, &err), PTL_ARG_INVALID);
    CHECK_STR(err.text, "a count of -1; it is negative");
    CHECK_EQ(spin_type_commit(number, 1 << 30, &layout, &err), PTL_NO_SPACE);
    CHECK_STR(err.text, "4294967296 bytes of data; a layout has less than 4 GiB");
    CHECK_EQ(spin_type_hvector(2, 1, 1ll << 32, number, &t), PTL_OK);
    CHECK_EQ(spin_type_commit(t, 1, &layout, &err), PTL_NO_SPACE);
    CHECK_STR(err.text, "the data spans 4294967300 bytes of memory; a layout less than 4 GiB");
    spin_type_free(t);
    CHECK_EQ(spin_type_contiguous(INT32_MAX, number, &huge), PTL_OK);
    CHECK_EQ(spin_type_contiguous(INT32_MAX, huge, &t), PTL_ARG_INVALID);
    spin_type_free(huge);
    spin_type_free(number);
}

/* ---- By cards ---- */

enum { TYPES = 6 };

/* A type whose data does not overlap, so often that it is several packets; and what is expected. */
struct case_of_type {
    struct random_type type;
    uint8_t *from, *expected, *into; /* from the first byte of data on */
    uint64_t span;
};

struct scene {
    struct case_of_type cases[TYPES];
    uint64_t seed;
};

static bool overlaps(const struct random_type *t) {
    int64_t *at = byte_map(t);
    uint8_t *used = calloc(1, (size_t)t->bounds.true_extent + 1);
    bool twice = false;
    for (int64_t i = 0; i < t->bounds.size; i++)
        twice |= used[at[i]]++ != 0;
    free(at);
    free(used);
    return twice;
}

static struct case_of_type random_case(struct rng *r) {
    struct case_of_type c;
    struct spin_error err;
    for (;;) {
        c.type = random_type(r, (struct tree_taste){0});
        if (c.type.bounds.size && !overlaps(&c.type))
            break;
        free_type(&c.type);
    }
    int64_t wanted = 1000 + rng_below(r, 25000), each = (int64_t)spin_type_size(c.type.type);
    struct random_type *t = &c.type;
    t->count = (int)(wanted / each) + 1;
    struct map one = tree_map(t->tree);
    t->map.count = 0;
    map_block(&t->map, &one, t->count, 0);
    free(one.entry);
    t->bounds = map_bounds(&t->map);
    spin_layout_free(t->layout);
    CHECK_EQ(spin_type_commit(t->type, t->count, &t->layout, &err), PTL_OK);
    c.span = (uint64_t)t->bounds.true_extent;
    c.from = malloc(c.span);
    c.expected = calloc(1, c.span);
    c.into = calloc(1, c.span);
    for (uint64_t i = 0; i < c.span; i++)
        c.from[i] = (uint8_t)rng_u32(r);
    int64_t *at = byte_map(t);
    for (int64_t i = 0; i < t->bounds.size; i++)
        c.expected[at[i]] = c.from[at[i]];
    free(at);
    return c;
}

static void make_scene(struct scene *s, uint64_t seed) {
    struct rng r = rng_seeded(seed);
    s->seed = seed;
    for (int i = 0; i < TYPES; i++)
        s->cases[i] = random_case(&r);
}

static void free_scene(struct scene *s) {
    for (int i = 0; i < TYPES; i++) {
        free_type(&s->cases[i].type);
        free(s->cases[i].from);
        free(s->cases[i].expected);
        free(s->cases[i].into);
    }
}

static int send_case(struct spin_types *types, const struct case_of_type *c, int way) {
    struct spin_send *send;
    struct spin_error err;
    const uint8_t *buffer = c->from - c->type.bounds.true_lb;
    RANK_CHECK(spin_send_open(types, buffer, c->type.layout, (enum spin_send_way)way, &send,
                              &err) == PTL_OK);
    for (int twice = 0; twice < 2; twice++) {
        spin_barrier();
        RANK_CHECK(spin_send_start(send, 1, 5) == PTL_OK);
        RANK_CHECK(spin_send_wait(send) == PTL_OK);
        spin_barrier();
    }
    spin_send_close(send);
    return 0;
}

static int receive_case(struct spin_types *types, const struct case_of_type *c,
                        const struct spin_type_options *o) {
    struct spin_receive *receive;
    struct spin_error err;
    RANK_CHECK(spin_receive_open(types, c->into - c->type.bounds.true_lb, c->type.layout, 5, o,
                                 &receive, &err) == PTL_OK);
    for (int twice = 0; twice < 2; twice++) {
        memset(c->into, 0, c->span);
        spin_barrier();
        RANK_CHECK(spin_receive_wait(receive) == PTL_OK);
        RANK_CHECK(memcmp(c->into, c->expected, c->span) == 0);
        spin_barrier();
    }
    spin_receive_close(receive);
    return 0;
}

static int types_rank(void *argument) {
    const struct scene *s = argument;
    struct spin_job job;
    struct spin_types *types;
    struct rng r = rng_seeded(s->seed + 1);
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_types_open(job.ni, &types) == PTL_OK);
    for (int i = 0; i < TYPES; i++)
        for (int strategy = SPIN_TYPE_BEST; strategy <= SPIN_TYPE_HOST; strategy++) {
            const struct case_of_type *c = &s->cases[i];
            const struct spin_type_options o = {
                .strategy = (enum spin_type_strategy)strategy,
                .interval = rng_below(&r, 3) ? 256 + rng_below(&r, 9000) : 0,
                .hpus = 1 + rng_below(&r, 8),
            };
            int way = (int)rng_below(&r, 3);
            if (strategy == SPIN_TYPE_SPECIALISED &&
                spin_layout_info(c->type.layout).form == SPIN_LAYOUT_GENERAL)
                continue;
            int line = job.rank == 0 ? send_case(types, c, way) : receive_case(types, c, &o);
            if (line)
                return line;
        }
    spin_types_close(types);
    spin_job_close(&job);
    return 0;
}

TEST(every_strategy_puts_every_byte_in_its_place) {
    struct scene s;
    if (TEST_SANITIZED)
        TEST_SKIP("with sanitizers the same is run once, on the network with faults");
    for (uint64_t seed = 1; seed <= 2; seed++) {
        make_scene(&s, seed);
        spinlib_world(2, types_rank, &s);
        free_scene(&s);
    }
}

TEST(whatever_the_network_does) {
    static const char *const faults[] = {"loss=0.05", "reordering=0.5", "duplication=0.05",
                                         "retry_timeout=20000"};
    struct scene s;
    make_scene(&s, 11);
    spinlib_world_with((struct spin_world_options){.ranks = 2, .set = faults, .set_count = 4},
                       types_rank, &s);
    free_scene(&s);
}

/* All ranks send to one, which can hold fewer pieces than there are. */
static int many_rank(void *argument) {
    (void)argument;
    enum { BLOCKS = 25000, BLOCK = 8 }; /* short ones, so that the receiver is slow */
    struct spin_job job;
    struct spin_types *types;
    struct spin_type *number, *t;
    struct spin_layout *layout;
    struct spin_receive *receive[32];
    struct spin_send *send;
    struct spin_error err;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_types_open(job.ni, &types) == PTL_OK);
    spin_type_basic(BLOCK, BLOCK, &number);
    RANK_CHECK(spin_type_vector(BLOCKS, 1, 2, number, &t) == PTL_OK);
    RANK_CHECK(spin_type_commit(t, 1, &layout, &err) == PTL_OK);
    size_t bytes = spin_layout_info(layout).true_extent;
    uint8_t *memory = calloc(job.rank == 0 ? job.ranks : 1, bytes);
    if (job.rank == 0) {
        for (uint32_t r = 1; r < job.ranks; r++)
            RANK_CHECK(spin_receive_open(types, memory + r * bytes, layout, r, NULL, &receive[r],
                                         &err) == PTL_OK);
        spin_barrier();
        for (uint32_t r = 1; r < job.ranks; r++) {
            RANK_CHECK(spin_receive_wait(receive[r]) == PTL_OK);
            for (size_t i = 0; i < bytes; i++)
                RANK_CHECK(memory[r * bytes + i] == (i / BLOCK % 2 ? 0 : (uint8_t)(i + r)));
            spin_receive_close(receive[r]);
        }
    } else {
        for (size_t i = 0; i < bytes; i++)
            memory[i] = (uint8_t)(i + job.rank);
        RANK_CHECK(spin_send_open(types, memory, layout, SPIN_SEND_CARD, &send, &err) == PTL_OK);
        spin_barrier();
        RANK_CHECK(spin_send_start(send, 0, job.rank) == PTL_OK);
        RANK_CHECK(spin_send_wait(send) == PTL_OK);
        spin_send_close(send);
    }
    free(memory);
    spin_layout_free(layout);
    spin_type_free(t);
    spin_type_free(number);
    spin_types_close(types);
    spin_job_close(&job);
    return 0;
}

TEST(many_ranks_send_to_one) {
    static const char *const few[] = {"contexts=520"};
    struct spin_world_options o = {.ranks = 14, .set = few, .set_count = 1};
    spinlib_world_on(o, "card=sc17", many_rank, NULL);
}

/* What a card cannot take, in one line. */
static int refused_rank(void *argument) {
    struct spin_job job;
    struct spin_types *types;
    struct spin_type *number, *t;
    struct spin_layout *layout, *general;
    struct spin_receive *receive;
    struct spin_send *send;
    struct spin_error err;
    enum { BLOCKS = 200000 };
    int *at = argument;
    static uint8_t memory[64];
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_types_open(job.ni, &types) == PTL_OK);
    spin_type_basic(1, 1, &number);
    for (int i = 0; i < BLOCKS; i++)
        at[i] = 3 * i + i % 2;
    RANK_CHECK(spin_type_indexed_block(BLOCKS, 1, at, number, &t) == PTL_OK);
    RANK_CHECK(spin_type_commit(t, 1, &layout, &err) == PTL_OK);
    RANK_CHECK(spin_receive_open(types, at, layout, 1, NULL, &receive, &err) == PTL_NO_SPACE);
    RANK_CHECK(strstr(err.text, "the dataloop of 800036 bytes and 0 segments take 800060 bytes of "
                                "card memory, and an entry may have "));
    RANK_CHECK(spin_send_open(types, at, layout, SPIN_SEND_CARD, &send, &err) == PTL_NO_SPACE);
    spin_layout_free(layout);
    spin_type_free(t);
    RANK_CHECK(spin_type_hvector(4, 2, 1, number, &t) == PTL_OK);
    RANK_CHECK(spin_type_commit(t, 1, &layout, &err) == PTL_OK);
    RANK_CHECK(spin_receive_open(types, memory, layout, 1, NULL, &receive, &err) ==
               PTL_ARG_INVALID);
    RANK_CHECK(strstr(err.text, "overlaps"));
    spin_layout_free(layout);
    spin_type_free(t);
    RANK_CHECK(spin_type_vector(2, 1, 3, number, &t) == PTL_OK);
    RANK_CHECK(spin_type_commit(t, 4, &general, &err) == PTL_OK);
    const struct spin_type_options o = {.strategy = SPIN_TYPE_SPECIALISED};
    RANK_CHECK(spin_receive_open(types, memory, general, 1, &o, &receive, &err) == PTL_ARG_INVALID);
    /* A message that is longer than the receive, one that nobody expects, and one of nothing. */
    RANK_CHECK(spin_type_commit(number, 12, &layout, &err) == PTL_OK);
    RANK_CHECK(spin_receive_open(types, memory, general, 1, NULL, &receive, &err) == PTL_OK);
    RANK_CHECK(spin_send_open(types, memory, layout, SPIN_SEND_PACK, &send, &err) == PTL_OK);
    spin_barrier();
    if (job.rank == 0) {
        RANK_CHECK(spin_send_start(send, 1, 1) == PTL_OK);
        RANK_CHECK(spin_send_wait(send) == PTL_FAIL);
    } else {
        RANK_CHECK(spin_receive_wait(receive) == PTL_FAIL);
    }
    spin_barrier();
    spin_send_close(send);
    RANK_CHECK(spin_send_open(types, memory, layout, SPIN_SEND_CARD, &send, &err) == PTL_OK);
    if (job.rank == 0) {
        RANK_CHECK(spin_send_start(send, 1, 2) == PTL_OK);
        RANK_CHECK(spin_send_wait(send) == PTL_FAIL);
    }
    spin_barrier();
    spin_send_close(send);
    spin_receive_close(receive);
    spin_layout_free(layout);
    RANK_CHECK(spin_type_commit(number, 0, &layout, &err) == PTL_OK);
    RANK_CHECK(spin_receive_open(types, memory, layout, 1, NULL, &receive, &err) == PTL_OK);
    RANK_CHECK(spin_send_open(types, memory, layout, SPIN_SEND_CARD, &send, &err) == PTL_OK);
    spin_barrier();
    if (job.rank == 0) {
        RANK_CHECK(spin_send_start(send, 1, 1) == PTL_OK);
        RANK_CHECK(spin_send_wait(send) == PTL_OK);
    } else {
        RANK_CHECK(spin_receive_wait(receive) == PTL_OK);
    }
    spin_barrier();
    spin_send_close(send);
    spin_receive_close(receive);
    spin_layout_free(layout);
    spin_layout_free(general);
    spin_type_free(t);
    spin_type_free(number);
    spin_types_close(types);
    spin_job_close(&job);
    return 0;
}

TEST(what_a_card_cannot_take_is_refused) {
    static const char *const little[] = {"hpu_memory=500000"};
    int *at = malloc(200000 * sizeof *at);
    spinlib_world_with((struct spin_world_options){.ranks = 2, .set = little, .set_count = 1},
                       refused_rank, at);
    free(at);
}

/* The model's interval, by hand: 256 packets of 64 regions on 4 HPUs. */
TEST(the_interval_is_the_model_s) {
    struct spin_type *number, *t;
    struct spin_layout *layout;
    struct spin_interval i;
    struct spin_error err;
    spin_type_basic(64, 8, &number);
    spin_type_vector(16384, 1, 2, number, &t);
    CHECK_EQ(spin_type_commit(t, 1, &layout, &err), PTL_OK);
    CHECK(spin_type_interval(layout, NULL, &i));
    CHECK_EQ(i.packets, 256);
    CHECK_EQ(i.regions_per_packet, 64);
    CHECK_EQ(i.bytes, 4096);
    CHECK_EQ(i.bound, SPIN_INTERVAL_IS_A_PACKET);
    CHECK_EQ(i.time_ps, 82000 + 3.0 * 82000 + 64 * i.handler_ps);
    /* Room for 50 checkpoints, for 5, and a small buffer. */
    uint32_t rest = spin_layout_info(layout).dataloop_bytes + 64;
    struct spin_type_options o = {.card_bytes = rest + 50 * i.checkpoint_bytes};
    CHECK(spin_type_interval(layout, &o, &i));
    CHECK_EQ(i.bytes, 6 * 4096);
    CHECK_EQ(i.checkpoints, 43);
    CHECK_EQ(i.bound, SPIN_INTERVAL_BY_MEMORY);
    CHECK_EQ(i.time_ps, 82000 + 6 * 3.0 * 82000 + 64 * i.handler_ps);
    o.card_bytes = rest + 5 * i.checkpoint_bytes;
    CHECK(spin_type_interval(layout, &o, &i));
    CHECK_EQ(i.bytes, 52 * 4096);
    CHECK_EQ(i.bound, SPIN_INTERVAL_OVER_WAITING);
    o.buffer_packets = 200;
    CHECK(spin_type_interval(layout, &o, &i));
    CHECK_EQ(i.bound, SPIN_INTERVAL_OVER_BUFFER);
    o = (struct spin_type_options){.card_bytes = 100};
    CHECK(!spin_type_interval(layout, &o, &i));
    spin_layout_free(layout);
    spin_type_free(t);
    spin_type_free(number);
}

TEST_MAIN
