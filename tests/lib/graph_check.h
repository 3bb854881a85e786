/* Whether the parents and levels (or distances) of a search are right, by the rules of the Graph500
 * benchmark: they need no reference. */
#ifndef TEST_GRAPH_CHECK_H
#define TEST_GRAPH_CHECK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "spinlib/graph.h"

/* NULL, or the rule that is broken. */
static inline const char *graph_check(uint32_t vertices, const struct spin_edge *edges,
                                      uint64_t count, uint32_t root, bool weighted,
                                      const uint32_t *parent, const uint32_t *value) {
    bool *joined = calloc(vertices, sizeof *joined);
    const char *broken = NULL;
    if (parent[root] != root || value[root] != 0)
        broken = "the root is its own parent, at 0";
    for (uint64_t i = 0; i < count; i++) {
        uint32_t a = edges[i].from, b = edges[i].to, weight = weighted ? edges[i].weight : 1;
        if ((value[a] == SPIN_GRAPH_NONE) != (value[b] == SPIN_GRAPH_NONE))
            broken = "an edge has both ends in the tree, or none";
        if (value[a] == SPIN_GRAPH_NONE || value[b] == SPIN_GRAPH_NONE)
            continue;
        uint32_t apart = value[a] > value[b] ? value[a] - value[b] : value[b] - value[a];
        if (a != b && apart > weight)
            broken = "an edge is no longer than its ends are apart";
        if (a != b && parent[a] == b && value[a] == value[b] + weight)
            joined[a] = true;
        if (a != b && parent[b] == a && value[b] == value[a] + weight)
            joined[b] = true;
    }
    for (uint32_t v = 0; v < vertices; v++) {
        if ((parent[v] == SPIN_GRAPH_NONE) != (value[v] == SPIN_GRAPH_NONE))
            broken = "who has a parent has a level";
        /* With weights above 0 parents are nearer to the root, so there is no cycle. */
        if (v != root && value[v] != SPIN_GRAPH_NONE && !joined[v])
            broken = "an edge leads from the parent, and makes the difference";
    }
    free(joined);
    return broken;
}

#endif
