/* The speed of searches: levels of a Kronecker graph, from its first edge on. */
#include "spinlib/graph.h"

#include <stdlib.h>

#include "speed.h"

enum { SCALE = 10, RANKS = 4 };

struct searches {
    struct spin_graph *graph;
    uint32_t root, rank;
};

static int open_searches(const struct speed *speed, const struct spin_job *job, void **use) {
    const struct spin_kronecker k = {.scale = SCALE, .seed = 1};
    uint64_t count = spin_kronecker_count(&k);
    struct spin_edge *edges = malloc(count * sizeof *edges);
    struct searches *s = malloc(sizeof *s);
    int code = edges && s ? PTL_OK : PTL_NO_SPACE;
    if (code == PTL_OK) {
        spin_kronecker_edges(&k, 0, count, edges);
        s->root = edges[0].from;
        s->rank = job->rank;
        const struct spin_graph_options o = {.vertices = 1u << SCALE,
                                             .edges = edges,
                                             .edge_count = count,
                                             .batch_bytes = speed->bytes,
                                             .by_host = speed->by_host};
        code = spin_graph_open(job->ni, &o, &s->graph);
    }
    free(edges);
    if (code == PTL_OK)
        *use = s;
    else
        free(s);
    return code;
}

static int search(void *use, uint32_t operations, struct speed_done *done) {
    struct searches *s = use;
    struct spin_graph_result r = {0};
    int code = PTL_OK;
    for (uint32_t i = 0; i < operations && code == PTL_OK; i++)
        code = spin_graph_bfs(s->graph, s->root, &r);
    if (s->rank == 0) {
        done->operations = operations;
        done->bytes = operations * r.updates * 8;
    }
    return code;
}

static void close_searches(void *use) {
    struct searches *s = use;
    spin_graph_close(s->graph);
    free(s);
}

const struct speed_case graph_speed = {
    .name = "graph",
    .operation = "levels of 1,024 vertices, 16,384 edges",
    .image = "graph_handler",
    .ranks = RANKS,
    .least_ranks = 2,
    .least_bytes = 12,
    .most_bytes = 4096,
    .operations = 2,
    .live_operations = 10,
    .open = open_searches,
    .work = search,
    .close = close_searches,
};
