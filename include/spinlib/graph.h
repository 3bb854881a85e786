/* spinlib/graph.h: breadth-first search and shortest paths on a graph that is distributed over the
 * ranks (SC'17 section 5.4). Ranks send updates to the owners of vertices; the owners' cards apply
 * them, and only what changes a vertex reaches a processor. See handlers/graph/README.md. */
#ifndef SPINLIB_GRAPH_H
#define SPINLIB_GRAPH_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_graph;

#define SPIN_GRAPH_NONE                                                                            \
    UINT32_MAX /* parent, level and distance of a vertex that was not reached                      \
                */

/* Both directions of it. */
struct spin_edge {
    uint32_t from, to, weight;
};

struct spin_graph_options {
    uint32_t vertices; /* of the whole graph; vertex v belongs to rank v % ranks */
    /* All edges, or at least those of this rank's vertices, each once: edges between vertices of
     * other ranks are passed over. The library makes a copy. */
    const struct spin_edge *edges;
    uint64_t edge_count;
    uint32_t delta;       /* of shortest paths: width of a bucket of distances (0: 8,192;
                           * UINT32_MAX: no buckets, which is Bellman and Ford's algorithm) */
    uint32_t batch_bytes; /* of updates in a message (0, or more than it: a packet) */
    bool by_host;         /* processors apply the updates, not the cards: to compare */
};

/* All ranks call it, in the same order as other calls that take a portal table entry, and then
 * meet (spin_barrier). PTL_NO_SPACE: the card has no memory for this rank's vertices (a bit each
 * for a breadth-first search, 4 bytes each for shortest paths), which a search says. */
int spin_graph_open(ptl_handle_ni_t ni, const struct spin_graph_options *options,
                    struct spin_graph **graph);
void spin_graph_close(struct spin_graph *graph);

/* The same on all ranks. */
struct spin_graph_result {
    uint64_t time_ps; /* of the slowest rank, from when all are ready */
    uint64_t reached; /* vertices */
    uint64_t edges;   /* traversed: edges given to spin_graph_open at reached vertices, as Graph500
                       * counts them */
    uint64_t updates; /* sent to owners of vertices */
    uint64_t changes; /* those of them that changed a vertex */
    uint32_t rounds;
};

/* All ranks call them together. A distance of UINT32_MAX or more counts as not reached. PTL_FAIL: a
 * rank is gone, or a card could not apply what it was sent. */
int spin_graph_bfs(struct spin_graph *graph, uint32_t root, struct spin_graph_result *result);
int spin_graph_sssp(struct spin_graph *graph, uint32_t root, struct spin_graph_result *result);

/* Of the last search, for this rank's vertices: of vertex v at [v / ranks]. The root is its own
 * parent. Levels after a breadth-first search, distances after shortest paths. */
const uint32_t *spin_graph_parents(const struct spin_graph *graph);
const uint32_t *spin_graph_values(const struct spin_graph *graph);

/* ---- Kronecker graphs, as the Graph500 benchmark has them ---- */

struct spin_kronecker {
    uint32_t scale;       /* 2^scale vertices, up to 31 */
    uint32_t edge_factor; /* 2^scale times so many edges (0: 16) */
    uint64_t seed;
};
/* Edge probabilities are A = 0.57, B = C = 0.19; vertices are renumbered at random; weights are
 * uniform integers from 1 to this. */
#define SPIN_KRONECKER_WEIGHT 65535u
uint64_t spin_kronecker_count(const struct spin_kronecker *k);
/* Edges `first` to first + count - 1: each is a function of its number alone. */
void spin_kronecker_edges(const struct spin_kronecker *k, uint64_t first, uint64_t count,
                          struct spin_edge *edges);

/* ---- the same searches by one processor, to check and to compare ---- */

/* Levels, or distances (Dijkstra's algorithm), of all vertices. PTL_NO_SPACE: no memory. */
int spin_graph_bfs_alone(uint32_t vertices, const struct spin_edge *edges, uint64_t edge_count,
                         uint32_t root, uint32_t *levels);
int spin_graph_sssp_alone(uint32_t vertices, const struct spin_edge *edges, uint64_t edge_count,
                          uint32_t root, uint32_t *distances);

#ifdef __cplusplus
}
#endif

#endif
