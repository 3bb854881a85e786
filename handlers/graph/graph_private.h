/* The parts of graph.c, graph_peers.c and kronecker.c. */
#ifndef GRAPH_PRIVATE_H
#define GRAPH_PRIVATE_H

#include "graph_layout.h"
#include "spinlib/graph.h"

/* Edges by vertex, for the vertices of one rank: both directions of each, loops left out. */
struct graph_neighbour {
    uint32_t rank, vertex, weight; /* the owner, and its number of the vertex */
};
struct graph_csr {
    uint32_t vertices;
    uint64_t *first; /* neighbours of vertex v are first[v] to first[v + 1] - 1 */
    struct graph_neighbour *neighbour;
};
int graph_csr_build(struct graph_csr *csr, uint32_t vertices, const struct spin_edge *edges,
                    uint64_t count, uint32_t ranks, uint32_t rank);
void graph_csr_free(struct graph_csr *csr);

/* Updates for one rank are collected in one of its buffers while others are on their way. */
struct graph_outbox {
    uint32_t used, current;
};

enum { GRAPH_STEPS = 32, GRAPH_WINDOW = 4 };

/* What the other ranks are to this one: batches of updates to them, and reductions with them. */
struct graph_peers {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md; /* of all memory */
    uint32_t rank, ranks;
    /* Batches. */
    uint32_t window, batch_bytes, limit; /* limit: whole updates of a batch */
    struct graph_outbox *outbox;
    uint8_t *buffer;
    bool *busy; /* of each buffer: not acknowledged yet */
    uint64_t under_way;
    bool failed;
    /* Work of this processor that has not been charged yet: it is at the next message. */
    uint64_t cycles, bytes;
    /* Reductions: in step k a value comes from the rank 2^k before. */
    uint32_t steps;
    uint64_t generation;
    uint64_t sent[2][GRAPH_STEPS], came[GRAPH_STEPS][2];
    ptl_handle_ct_t arrived[GRAPH_STEPS];
    struct spin_linked step_entry[GRAPH_STEPS];
};

/* The rest of `g` is graph.c's. */
struct spin_graph;

int graph_peers_open(struct graph_peers *p, ptl_handle_ni_t ni, uint64_t events,
                     uint32_t batch_bytes);
void graph_peers_close(struct graph_peers *p);
/* Work of the processor. */
static inline void graph_work(struct graph_peers *p, uint64_t cycles, uint64_t bytes) {
    p->cycles += cycles;
    p->bytes += bytes;
}
void graph_work_done(struct graph_peers *p);

/* Events are acknowledgements, and updates that came for this processor: they go to `updates`. */
typedef int graph_take(void *user, const void *updates, uint64_t bytes);
/* What is there; with `wait`, at least one. */
int graph_events(struct graph_peers *p, bool wait, graph_take *take, void *user);
/* Room for one update of so many bytes in the batch for a rank. */
static inline void *graph_room(struct graph_peers *p, uint32_t to, uint32_t bytes) {
    struct graph_outbox *o = &p->outbox[to];
    uint64_t at = ((uint64_t)to * p->window + o->current) * p->batch_bytes + o->used;
    o->used += bytes;
    return p->buffer + at;
}
static inline bool graph_is_full(const struct graph_peers *p, uint32_t to) {
    return p->outbox[to].used == p->limit;
}
/* Sends the batch, and waits until there is an empty one for this rank. */
int graph_send(struct graph_peers *p, uint32_t to, graph_take *take, void *user);
/* All batches, and until all are acknowledged: the owners have them. */
int graph_flush(struct graph_peers *p, graph_take *take, void *user);
/* The smallest of all ranks' values, when all have called. */
int graph_smallest(struct graph_peers *p, uint64_t *value);

#endif
