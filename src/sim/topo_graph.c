/* Any graph: adjacency in compressed rows, and distances to route by.
 *
 * For each switch that has hosts there is one row with the distance of every switch to it, two
 * bytes each. A packet goes to a neighbour that is one step nearer; among several, the selector
 * (mixed with the node, so that successive switches choose independently) takes one. Distances
 * rather than next hops: the same table serves single-path and multipath routing.
 *
 * Credits: the virtual channel is the distance still to go, which falls with every hop, so no
 * cycle of waiting packets can close. */
#include "sim/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"

#define TABLE_LIMIT (512u << 20)  /* bytes of distances */
#define STEP_LIMIT  4000000000ull /* some ten seconds */
#define FAR         UINT16_MAX

static const uint16_t *row_of(const struct topology *t, uint32_t host) {
    const struct topo_graph *g = &t->graph;
    uint32_t sw = g->edges[g->start[host]].node - t->hosts;
    return g->distance + (size_t)g->table_of[sw] * t->switches;
}

static struct topo_hop hop_of(const struct topo_edge *e, uint32_t vc) {
    return (struct topo_hop){
        .channel = e->channel, .node = e->node, .kind = e->kind, .vc = (uint8_t)vc};
}

static uint32_t mixed(uint32_t selector, uint32_t node) {
    uint32_t x = selector ^ node * 0x9e3779b1u;
    x = (x ^ (x >> 16)) * 0x85ebca6bu;
    x = (x ^ (x >> 13)) * 0xc2b2ae35u;
    return x ^ (x >> 16);
}

static struct topo_hop next(const struct topology *t, uint32_t node, uint32_t dst,
                            uint32_t selector) {
    const struct topo_graph *g = &t->graph;
    const struct topo_edge *first = g->edges + g->start[node];
    if (node < t->hosts)
        return hop_of(first, 0);
    const struct topo_edge *end = g->edges + g->start[node + 1];
    const uint16_t *distance = row_of(t, dst);
    uint32_t own = distance[node - t->hosts], nearer = 0;
    if (own == 0) {
        while (first->node != dst)
            first++;
        return hop_of(first, 0);
    }
    for (const struct topo_edge *e = first; e < end; e++)
        nearer += e->node >= t->hosts && distance[e->node - t->hosts] == own - 1;
    uint32_t wanted = mixed(selector, node) % nearer;
    for (const struct topo_edge *e = first;; e++)
        if (e->node >= t->hosts && distance[e->node - t->hosts] == own - 1 && wanted-- == 0)
            return hop_of(e, own - 1 < 255 ? own - 1 : 255);
}

static uint32_t ports(const struct topology *t, uint32_t node) {
    return t->graph.start[node + 1] - t->graph.start[node];
}

static struct topo_hop port(const struct topology *t, uint32_t node, uint32_t number) {
    return hop_of(t->graph.edges + t->graph.start[node] + number, 0);
}

static uint32_t source(const struct topology *t, uint32_t channel) {
    return t->graph.source[channel];
}

static uint32_t number(const struct topology *t, uint32_t channel) {
    return t->graph.edge_of[channel] - t->graph.start[t->graph.source[channel]];
}

static uint32_t hops(const struct topology *t, uint32_t src, uint32_t dst) {
    const struct topo_graph *g = &t->graph;
    return 2 + row_of(t, dst)[g->edges[g->start[src]].node - t->hosts];
}

static void destroy(struct topology *t) {
    struct topo_graph *g = &t->graph;
    free(g->edges);
    free(g->start);
    free(g->source);
    free(g->edge_of);
    free(g->table_of);
    free(g->distance);
    free(g->names);
    free(g->name_at);
}

const struct topo_family topo_graph_family = {"graph", next,   ports, port,
                                              source,  number, hops,  destroy};

/* Breadth first from one switch, hosts left out: no packet passes through a host. */
static void fill_row(struct topology *t, uint32_t from, uint16_t *distance, uint32_t *queue) {
    const struct topo_graph *g = &t->graph;
    for (uint32_t s = 0; s < t->switches; s++)
        distance[s] = FAR;
    uint32_t head = 0, tail = 0;
    distance[from] = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t sw = queue[head++];
        for (uint32_t i = g->start[t->hosts + sw]; i < g->start[t->hosts + sw + 1]; i++) {
            uint32_t other = g->edges[i].node;
            if (other < t->hosts || distance[other - t->hosts] != FAR)
                continue;
            /* A path of 65,534 switches or more would not fit: it stays unreachable. */
            if (distance[sw] + 1 < FAR) {
                distance[other - t->hosts] = (uint16_t)(distance[sw] + 1);
                queue[tail++] = other - t->hosts;
            }
        }
    }
}

static int check_reached(struct topology *t, const char *name, const uint16_t *row, uint32_t from,
                         struct spin_error *err) {
    struct topo_graph *g = &t->graph;
    for (uint32_t s = 0; s < t->switches; s++) {
        if (g->table_of[s] == TOPO_NONE)
            continue;
        if (row[s] == FAR)
            return spin_fail(
                err, SPIN_EFORMAT,
                "%s: no path (or one of more than %u switches) between switch '%s' and "
                "switch '%s', which both have hosts; add a link",
                name, FAR - 1, g->names + g->name_at[t->hosts + from],
                g->names + g->name_at[t->hosts + s]);
        if (row[s] > g->diameter)
            g->diameter = row[s];
    }
    return SPIN_OK;
}

int topo_build_graph(struct topology *t, const char *name, struct spin_error *err) {
    struct topo_graph *g = &t->graph;
    g->table_of = malloc(sizeof *g->table_of * t->switches);
    if (!g->table_of)
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", name);
    for (uint32_t s = 0; s < t->switches; s++) {
        g->table_of[s] = TOPO_NONE;
        for (uint32_t i = g->start[t->hosts + s]; i < g->start[t->hosts + s + 1]; i++)
            if (g->edges[i].node < t->hosts && g->table_of[s] == TOPO_NONE)
                g->table_of[s] = g->rows++;
    }
    uint64_t bytes = (uint64_t)g->rows * t->switches * sizeof *g->distance;
    if (bytes > TABLE_LIMIT)
        return spin_fail(
            err, SPIN_ELIMIT,
            "%s: %u switches, %u of them with hosts, need %llu MiB of routes, over the "
            "limit of %u MiB; use fewer switches or a topology that is computed",
            name, t->switches, g->rows, (unsigned long long)(bytes >> 20), TABLE_LIMIT >> 20);
    uint64_t steps = (uint64_t)g->rows * ((uint64_t)t->switches + t->channels);
    if (steps > STEP_LIMIT)
        return spin_fail(
            err, SPIN_ELIMIT,
            "%s: %u switches with hosts and %u links need %llu steps to find the routes, "
            "over the limit of %llu; use fewer or a topology that is computed",
            name, g->rows, t->links, (unsigned long long)steps, STEP_LIMIT);
    g->distance = malloc(bytes);
    uint32_t *queue = malloc(sizeof *queue * t->switches);
    int code = SPIN_OK;
    if (!g->distance || !queue)
        code = spin_fail(err, SPIN_ENOMEM, "%s: out of memory for %llu MiB of routes", name,
                         (unsigned long long)(bytes >> 20));
    for (uint32_t s = 0; s < t->switches && !code; s++) {
        if (g->table_of[s] == TOPO_NONE)
            continue;
        uint16_t *row = g->distance + (size_t)g->table_of[s] * t->switches;
        fill_row(t, s, row, queue);
        code = check_reached(t, name, row, s, err);
    }
    free(queue);
    t->vcs = t->vcs_hashed = g->diameter ? g->diameter : 1;
    snprintf(t->text, sizeof t->text, "graph of %u switches, diameter %u", t->switches,
             g->diameter);
    return code;
}
