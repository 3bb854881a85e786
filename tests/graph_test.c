/* Searches on distributed graphs: the generator, the searches of one processor against the
 * definition, and those of the cards and of the processors against both. */
#include "spinlib/graph.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "lib/graph_check.h"
#include "lib/spinlib_world.h"

/* ---- the generator ---- */

TEST(edges_are_functions_of_their_numbers) {
    const struct spin_kronecker k = {.scale = 9, .seed = 3}, other = {.scale = 9, .seed = 4};
    enum { COUNT = 16 << 9 };
    CHECK_EQ(spin_kronecker_count(&k), COUNT);
    static struct spin_edge all[COUNT], again[COUNT];
    spin_kronecker_edges(&k, 0, COUNT, all);
    for (int i = 0; i < COUNT; i += 64)
        spin_kronecker_edges(&k, (uint64_t)i, 64, again + i);
    CHECK(memcmp(all, again, sizeof all) == 0);
    spin_kronecker_edges(&other, 0, COUNT, again);
    CHECK(memcmp(all, again, sizeof all) != 0);
    uint64_t sum = 0;
    for (int i = 0; i < COUNT; i++) {
        CHECK(all[i].from < 512 && all[i].to < 512);
        CHECK(all[i].weight >= 1 && all[i].weight <= SPIN_KRONECKER_WEIGHT);
        sum = rng_mix(sum + all[i].from + ((uint64_t)all[i].to << 32)) + all[i].weight;
    }
    CHECK_EQ(sum, 0xa0ba16941e65375dull); /* the same on every machine */
}

/* One bit: the quarters of the matrix by their frequencies, up to the order of the vertices. */
TEST(quarters_have_their_probabilities) {
    const struct spin_kronecker k = {.scale = 1, .edge_factor = 50000, .seed = 1};
    enum { COUNT = 100000 };
    struct spin_edge *e = malloc(COUNT * sizeof *e);
    int quarter[4] = {0};
    spin_kronecker_edges(&k, 0, COUNT, e);
    for (int i = 0; i < COUNT; i++)
        quarter[e[i].from * 2 + e[i].to]++;
    int a = quarter[0] > quarter[3] ? 0 : 3;
    CHECK(abs(quarter[a] - 57000) < 800);
    CHECK(abs(quarter[3 - a] - 5000) < 400);
    CHECK(abs(quarter[1] - 19000) < 600 && abs(quarter[2] - 19000) < 600);
    free(e);
}

/* ---- one processor, against the definition ---- */

enum { FEW = 40 };

static uint32_t make_few(uint64_t seed, struct spin_edge *edges, uint32_t count) {
    struct rng r = rng_seeded(seed);
    for (uint32_t i = 0; i < count; i++)
        edges[i] = (struct spin_edge){rng_below(&r, FEW), rng_below(&r, FEW), rng_below(&r, 30)};
    return rng_below(&r, FEW);
}

TEST(one_processor_finds_the_shortest_paths) {
    for (uint64_t seed = 0; seed < 50; seed++) {
        struct spin_edge edges[60];
        uint32_t root = make_few(seed, edges, 60), levels[FEW], distances[FEW];
        uint64_t plain[FEW][2];
        for (int v = 0; v < FEW; v++)
            plain[v][0] = plain[v][1] = (uint32_t)v == root ? 0 : SPIN_GRAPH_NONE;
        for (int round = 0; round < FEW; round++)
            for (int i = 0; i < 120; i++) {
                const struct spin_edge *e = &edges[i / 2];
                uint32_t from = i % 2 ? e->to : e->from, to = i % 2 ? e->from : e->to;
                for (int w = 0; w < 2; w++) {
                    uint64_t d = plain[from][w] + (w ? e->weight : 1);
                    if (plain[from][w] != SPIN_GRAPH_NONE && d < plain[to][w])
                        plain[to][w] = d;
                }
            }
        CHECK(spin_graph_bfs_alone(FEW, edges, 60, root, levels) == PTL_OK);
        CHECK(spin_graph_sssp_alone(FEW, edges, 60, root, distances) == PTL_OK);
        for (int v = 0; v < FEW; v++) {
            CHECK_EQ(levels[v], plain[v][0]);
            CHECK_EQ(distances[v], plain[v][1]);
        }
    }
    struct spin_edge outside = {0, FEW, 1};
    uint32_t levels[FEW];
    CHECK(spin_graph_bfs_alone(FEW, &outside, 1, 0, levels) == PTL_ARG_INVALID);
    CHECK(spin_graph_bfs_alone(FEW, NULL, 0, FEW, levels) == PTL_ARG_INVALID);
}

TEST(the_check_knows_right_from_wrong) {
    const struct spin_edge e[] = {{0, 1, 5}, {1, 2, 5}, {0, 2, 20}, {3, 4, 1}};
    const uint32_t none = SPIN_GRAPH_NONE;
    uint32_t parent[] = {0, 0, 1, none, none}, value[] = {0, 5, 10, none, none};
    CHECK(!graph_check(5, e, 4, 0, true, parent, value));
    value[2] = 20, parent[2] = 0; /* a path, not the shortest */
    CHECK(graph_check(5, e, 4, 0, true, parent, value));
    value[2] = none, parent[2] = none; /* not reached */
    CHECK(graph_check(5, e, 4, 0, true, parent, value));
    value[2] = 10, parent[2] = 0; /* no such edge */
    CHECK(graph_check(5, e, 4, 0, true, parent, value));
    uint32_t level[] = {0, 1, 1, none, none};
    CHECK(!graph_check(5, e, 4, 0, false, parent, level));
    level[2] = 2;
    CHECK(graph_check(5, e, 4, 0, false, parent, level));
}

/* ---- distributed ---- */

struct scene {
    struct spin_graph_options options;
    const uint32_t *roots;
    int root_count;
    int expect; /* code of the searches */
    uint32_t *parent, *value, *alone;
    uint64_t reached, changes;
};

static int verify(struct scene *s, bool weighted, uint32_t root,
                  const struct spin_graph_result *r) {
    const struct spin_graph_options *o = &s->options;
    uint64_t reached = 0, edges = 0;
    RANK_CHECK((weighted ? spin_graph_sssp_alone : spin_graph_bfs_alone)(
                   o->vertices, o->edges, o->edge_count, root, s->alone) == PTL_OK);
    RANK_CHECK(memcmp(s->alone, s->value, o->vertices * sizeof *s->value) == 0);
    for (uint32_t v = 0; v < o->vertices; v++)
        reached += s->value[v] != SPIN_GRAPH_NONE;
    for (uint64_t i = 0; i < o->edge_count; i++)
        edges += s->value[o->edges[i].from] != SPIN_GRAPH_NONE;
    RANK_CHECK(r->reached == reached && r->edges == edges && r->changes >= reached);
    s->reached = reached;
    s->changes = r->changes;
    bool far = weighted && o->edge_count && o->edges[0].weight > UINT32_MAX / 2;
    RANK_CHECK(far || !graph_check(o->vertices, o->edges, o->edge_count, root, weighted, s->parent,
                                   s->value));
    return 0;
}

static int rank(void *argument) {
    struct scene *s = argument;
    struct spin_job job;
    struct spin_graph *g;
    struct spin_graph_result r;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(spin_graph_open(job.ni, &s->options, &g) == PTL_OK);
    spin_barrier();
    for (int i = 0; i < 2 * s->root_count; i++) {
        bool weighted = i & 1;
        int code = (weighted ? spin_graph_sssp : spin_graph_bfs)(g, s->roots[i / 2], &r);
        if (!s->expect || weighted)
            RANK_CHECK(code == s->expect);
        if (code != PTL_OK)
            continue;
        for (uint32_t v = job.rank; v < s->options.vertices; v += job.ranks) {
            s->parent[v] = spin_graph_parents(g)[v / job.ranks];
            s->value[v] = spin_graph_values(g)[v / job.ranks];
        }
        spin_barrier();
        int line = job.rank == 0 ? verify(s, weighted, s->roots[i / 2], &r) : 0;
        if (line)
            return line;
        spin_barrier();
    }
    spin_graph_close(g);
    spin_job_close(&job);
    return 0;
}

static void on_worlds(struct scene *s, struct spin_world_options o) {
    size_t bytes = s->options.vertices * sizeof *s->value;
    s->parent = malloc(bytes), s->value = malloc(bytes), s->alone = malloc(bytes);
    spinlib_world_with(o, rank, s);
    free(s->parent), free(s->value), free(s->alone);
}

enum { SCALE = 7 };

static struct spin_edge *kronecker(uint32_t scale, struct scene *s) {
    const struct spin_kronecker k = {.scale = scale, .seed = 7};
    uint64_t count = spin_kronecker_count(&k);
    struct spin_edge *edges = malloc(count * sizeof *edges);
    spin_kronecker_edges(&k, 0, count, edges);
    s->options.vertices = 1u << scale;
    s->options.edges = edges;
    s->options.edge_count = count;
    return edges;
}

/* Two of the graph, and one that is perhaps not reached from them. */
static void kronecker_world(struct spin_graph_options o, struct spin_world_options w) {
    struct scene s = {.options = o};
    struct spin_edge *edges = kronecker(SCALE, &s);
    const uint32_t roots[] = {edges[0].from, edges[5].to, 17};
    s.roots = roots;
    s.root_count = 3;
    on_worlds(&s, w);
    CHECK(s.reached == 1 || s.reached > 100);
    free(edges);
}

TEST(kronecker_graphs_by_the_cards) {
    static const uint32_t ranks[] = {1, 2, 5, 8};
    for (int i = 0; i < 4; i++)
        kronecker_world((struct spin_graph_options){0},
                        (struct spin_world_options){.ranks = ranks[i]});
}
TEST(kronecker_graphs_by_the_processors) {
    static const uint32_t ranks[] = {1, 3, 8};
    for (int i = 0; i < 3; i++)
        kronecker_world((struct spin_graph_options){.by_host = true},
                        (struct spin_world_options){.ranks = ranks[i]});
}
TEST(without_buckets_and_with_many) {
    static const uint32_t delta[] = {UINT32_MAX, 300};
    for (int i = 0; i < 4; i++)
        kronecker_world((struct spin_graph_options){.delta = delta[i / 2], .by_host = i % 2},
                        (struct spin_world_options){.ranks = 3});
}
TEST(batches_of_one_update) {
    for (int host = 0; host < 2; host++)
        kronecker_world((struct spin_graph_options){.batch_bytes = 12, .by_host = host},
                        (struct spin_world_options){.ranks = 4});
}
TEST(a_network_that_loses_and_reorders) {
    static const char *const set[] = {"loss=0.02", "duplication=0.02", "reordering=0.2",
                                      "reorder_delay=2000", "retry_timeout=20000"};
    for (int host = 0; host < 2; host++)
        kronecker_world((struct spin_graph_options){.by_host = host, .batch_bytes = 200},
                        (struct spin_world_options){.ranks = 4, .set = set, .set_count = 5});
}

/* ---- odd graphs ---- */

static void odd(const struct spin_edge *edges, uint64_t count, uint32_t vertices, uint32_t root) {
    for (int host = 0; host < 2; host++) {
        struct scene s = {.options = {.vertices = vertices,
                                      .edges = edges,
                                      .edge_count = count,
                                      .delta = 100000,
                                      .by_host = host},
                          .roots = &root,
                          .root_count = 1};
        on_worlds(&s, (struct spin_world_options){.ranks = 3});
    }
}

TEST(paths_stars_loops_and_loners) {
    struct spin_edge path[50], star[50], loops[8];
    for (uint32_t i = 0; i < 50; i++) {
        path[i] = (struct spin_edge){i, i + 1, 1 + i};
        star[i] = (struct spin_edge){i + 1, 0, 1000 - i};
    }
    for (uint32_t i = 0; i < 8; i++) /* each edge twice, and loops */
        loops[i] = (struct spin_edge){i / 4, i % 2 ? i / 4 : 2, 9 - i};
    odd(path, 50, 51, 20);
    odd(path, 50, 60, 55);
    odd(star, 50, 51, 0);
    odd(star, 50, 51, 7);
    odd(loops, 8, 3, 1);
    odd(NULL, 0, 2, 1); /* fewer vertices than ranks */
}

/* A distance that does not fit in 32 bits is none. */
TEST(distances_that_are_too_large) {
    const struct spin_edge far[] = {{0, 1, 3u << 30}, {1, 2, 3u << 30}, {0, 3, 1u << 30}};
    const uint32_t root = 0;
    struct scene s = {.options = {.vertices = 4, .edges = far, .edge_count = 3, .delta = 1u << 20},
                      .roots = &root,
                      .root_count = 1};
    on_worlds(&s, (struct spin_world_options){.ranks = 2});
    CHECK_EQ(s.reached, 3);
}

/* ---- what is refused ---- */

static int refused_rank(void *argument) {
    struct spin_job job;
    struct spin_graph *g;
    struct spin_graph_result r;
    const struct spin_edge outside = {1, 9, 1}, inside = {1, 8, UINT32_MAX};
    (void)argument;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    struct spin_graph_options o = {.vertices = 9, .edges = &outside, .edge_count = 1};
    RANK_CHECK(spin_graph_open(job.ni, &o, &g) == PTL_ARG_INVALID && !g);
    o.edges = &inside;
    o.batch_bytes = 8;
    RANK_CHECK(spin_graph_open(job.ni, &o, &g) == PTL_ARG_INVALID);
    o.batch_bytes = 0;
    o.delta = 1; /* 2^32 buckets */
    RANK_CHECK(spin_graph_open(job.ni, &o, &g) == PTL_OK);
    RANK_CHECK(spin_graph_bfs(g, 9, &r) == PTL_ARG_INVALID);
    RANK_CHECK(spin_graph_bfs(g, 1, &r) == PTL_OK && r.reached == 2 && r.rounds == 2);
    RANK_CHECK(spin_graph_sssp(g, 1, &r) != PTL_OK);
    RANK_CHECK(spin_graph_bfs(g, 8, &r) == PTL_OK && r.reached == 2);
    spin_graph_close(g);
    spin_graph_close(NULL);
    spin_job_close(&job);
    return 0;
}
TEST(what_is_no_graph_is_refused) {
    spinlib_world(2, refused_rank, NULL);
}

/* A bit per vertex fits on such a card, four bytes do not: all ranks learn it. */
TEST(a_card_that_is_too_small) {
    static const char *const set[] = {"1:hpu_memory=128"};
    struct scene s = {.expect = PTL_NO_SPACE};
    struct spin_edge *edges = kronecker(SCALE, &s);
    s.roots = &edges[0].from;
    s.root_count = 1;
    s.parent = malloc(4 << SCALE), s.value = malloc(4 << SCALE), s.alone = malloc(4 << SCALE);
    spinlib_world_on((struct spin_world_options){.ranks = 2, .set = set, .set_count = 1},
                     "SC'17's card", rank, &s);
    free(s.parent), free(s.value), free(s.alone);
    free(edges);
}

TEST_MAIN
