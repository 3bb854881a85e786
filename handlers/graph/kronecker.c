/* Kronecker graphs, edges by vertex, and the searches of one processor. */
#include <stdlib.h>
#include <string.h>

#include "base/minheap.h"
#include "base/rng.h"
#include "graph_private.h"

/* ---- The generator ---- */

uint64_t spin_kronecker_count(const struct spin_kronecker *k) {
    return (uint64_t)(k->edge_factor ? k->edge_factor : 16) << k->scale;
}

/* A permutation of the numbers of `scale` bits: products with odd numbers and shifted sums can be
 * undone. */
static uint32_t renumber(uint64_t v, uint32_t scale, uint64_t key) {
    uint64_t mask = (1ull << scale) - 1;
    for (int i = 0; i < 3; i++) {
        uint64_t mixed = rng_mix(key + (uint64_t)i);
        v = (v * (mixed | 1) + (mixed >> 32)) & mask;
        v ^= v >> (scale / 2 + 1);
    }
    return (uint32_t)v;
}

/* Each bit of the two numbers chooses a quarter of the matrix: A, B, C or D. */
static struct spin_edge edge_of(const struct spin_kronecker *k, uint64_t number) {
    const uint32_t a = 57, b = 19, c = 19; /* of 100 */
    struct rng r = rng_seeded(rng_mix(k->seed) + number);
    uint64_t from = 0, to = 0;
    for (uint32_t i = 0; i < k->scale; i++) {
        uint32_t at = rng_below(&r, 100);
        from = from << 1 | (at >= a + b);
        to = to << 1 | ((at >= a && at < a + b) || at >= a + b + c);
    }
    uint64_t key = rng_mix(k->seed + 1);
    return (struct spin_edge){renumber(from, k->scale, key), renumber(to, k->scale, key),
                              1 + rng_below(&r, SPIN_KRONECKER_WEIGHT)};
}

void spin_kronecker_edges(const struct spin_kronecker *k, uint64_t first, uint64_t count,
                          struct spin_edge *edges) {
    for (uint64_t i = 0; i < count; i++)
        edges[i] = edge_of(k, first + i);
}

/* ---- Edges by vertex ---- */

static void add(struct graph_csr *csr, uint64_t *at, uint32_t from, uint32_t to, uint32_t weight,
                uint32_t ranks) {
    csr->neighbour[at[from / ranks]++] = (struct graph_neighbour){to % ranks, to / ranks, weight};
}

int graph_csr_build(struct graph_csr *csr, uint32_t vertices, const struct spin_edge *edges,
                    uint64_t count, uint32_t ranks, uint32_t rank) {
    csr->vertices = vertices / ranks + (rank < vertices % ranks);
    csr->first = calloc(csr->vertices + 2ull, sizeof *csr->first);
    if (!csr->first)
        return PTL_NO_SPACE;
    uint64_t *at = csr->first + 1; /* counts of neighbours, then where the next one goes */
    for (uint64_t i = 0; i < count; i++) {
        if (edges[i].from >= vertices || edges[i].to >= vertices)
            return PTL_ARG_INVALID;
        if (edges[i].from == edges[i].to)
            continue;
        if (edges[i].from % ranks == rank)
            at[edges[i].from / ranks + 1]++;
        if (edges[i].to % ranks == rank)
            at[edges[i].to / ranks + 1]++;
    }
    for (uint32_t v = 0; v < csr->vertices; v++)
        at[v + 1] += at[v];
    csr->neighbour = malloc((at[csr->vertices] + 1) * sizeof *csr->neighbour);
    if (!csr->neighbour)
        return PTL_NO_SPACE;
    for (uint64_t i = 0; i < count; i++) {
        uint32_t from = edges[i].from, to = edges[i].to;
        if (from != to && from % ranks == rank)
            add(csr, at, from, to, edges[i].weight, ranks);
        if (from != to && to % ranks == rank)
            add(csr, at, to, from, edges[i].weight, ranks);
    }
    return PTL_OK;
}

void graph_csr_free(struct graph_csr *csr) {
    free(csr->first);
    free(csr->neighbour);
}

/* ---- One processor ---- */

int spin_graph_bfs_alone(uint32_t vertices, const struct spin_edge *edges, uint64_t edge_count,
                         uint32_t root, uint32_t *levels) {
    struct graph_csr csr = {0};
    uint32_t *queue = malloc((vertices + 1ull) * sizeof *queue);
    int code = root >= vertices ? PTL_ARG_INVALID
               : queue          ? graph_csr_build(&csr, vertices, edges, edge_count, 1, 0)
                                : PTL_NO_SPACE;
    if (code == PTL_OK) {
        uint64_t head = 0, tail = 0;
        memset(levels, 0xff, vertices * sizeof *levels);
        levels[root] = 0;
        queue[tail++] = root;
        for (; head < tail; head++)
            for (uint64_t i = csr.first[queue[head]]; i < csr.first[queue[head] + 1]; i++) {
                uint32_t v = csr.neighbour[i].vertex;
                if (levels[v] != SPIN_GRAPH_NONE)
                    continue;
                levels[v] = levels[queue[head]] + 1;
                queue[tail++] = v;
            }
    }
    graph_csr_free(&csr);
    free(queue);
    return code;
}

/* A vertex may be in the heap several times; only its last distance counts. */
struct nearest {
    uint32_t distance, vertex;
};
static bool nearer(const struct nearest *a, const struct nearest *b) {
    return a->distance < b->distance;
}
MINHEAP(frontier, struct nearest, nearer);

static int relax(struct frontier *heap, const struct graph_csr *csr, uint32_t *distances,
                 struct nearest from) {
    for (uint64_t i = csr->first[from.vertex]; i < csr->first[from.vertex + 1]; i++) {
        const struct graph_neighbour *n = &csr->neighbour[i];
        uint64_t distance = (uint64_t)from.distance + n->weight;
        if (distance >= distances[n->vertex])
            continue;
        distances[n->vertex] = (uint32_t)distance;
        if (!frontier_push(heap, &(struct nearest){(uint32_t)distance, n->vertex}))
            return PTL_NO_SPACE;
    }
    return PTL_OK;
}

int spin_graph_sssp_alone(uint32_t vertices, const struct spin_edge *edges, uint64_t edge_count,
                          uint32_t root, uint32_t *distances) {
    struct graph_csr csr = {0};
    struct frontier heap = {0};
    struct nearest from = {0, root};
    int code = root >= vertices ? PTL_ARG_INVALID
                                : graph_csr_build(&csr, vertices, edges, edge_count, 1, 0);
    if (code == PTL_OK) {
        memset(distances, 0xff, vertices * sizeof *distances);
        distances[root] = 0;
        code = relax(&heap, &csr, distances, from);
    }
    while (code == PTL_OK && heap.count) {
        frontier_pop(&heap, &from);
        if (from.distance == distances[from.vertex])
            code = relax(&heap, &csr, distances, from);
    }
    graph_csr_free(&csr);
    free(heap.at);
    return code;
}
