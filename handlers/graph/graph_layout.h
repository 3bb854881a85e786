/* What processors and cards of a distributed graph share. */
#ifndef GRAPH_LAYOUT_H
#define GRAPH_LAYOUT_H

#include <stdint.h>

/* Match bits. */
enum {
    GRAPH_UPDATES = 1, /* a message of updates, at most one packet */
    GRAPH_TOTALS = 2,  /* of a search, from every rank to every rank */
    GRAPH_SYNC = 3,    /* plus the step: 8 bytes of a reduction */
};

/* An update: the vertex is the owner's number of it. What changes a vertex goes on to the owner's
 * processor as it came. */
struct graph_reach {
    uint32_t vertex, parent;
};
struct graph_relax {
    uint32_t vertex, parent, distance;
};

/* On the card: a bit per vertex (breadth-first search) or its distance. */
struct graph_state {
    uint32_t vertices;
    uint32_t room; /* in the queue in host memory, in updates: a power of two */
    uint32_t tail; /* updates that were put there since the search began */
    uint32_t reserved;
    uint32_t word[];
};

#endif
