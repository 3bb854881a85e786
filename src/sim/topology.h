/* Who is wired to whom, and which way a packet goes.
 *
 * Nodes are numbered hosts first: host h is node h, switch s is node hosts + s. A link is two
 * channels, one per direction; a channel is the output port of the node it leaves, and channels are
 * numbered 0 to channels - 1 so that a port's state is an element of an array.
 *
 * Where the structure allows (fat tree, torus, dragonfly) nothing is stored: the next hop, the
 * neighbours and the names are computed from the numbers. A graph from a file keeps its adjacency
 * and, for each switch that has hosts, the distance of every switch to it.
 *
 * Routing is a function of (node, destination, selector) and nothing else, so all packets with the
 * same selector follow one path. The selector is the destination for deterministic routing and a
 * hash of (source, destination, flow, seed) for multipath. */
#ifndef SPIN_SIM_TOPOLOGY_H
#define SPIN_SIM_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

#define TOPO_NONE           UINT32_MAX /* no channel, no node */
#define TOPO_MAX_HOSTS      (1u << 26) /* 64 M: what 32-bit channel numbers allow for six levels */
#define TOPO_SLOWEST_FS     1000000000000ull /* a byte: 8 kbit/s, so that an MTU fits in 64 bits */
#define TOPO_MAX_LATENCY_PS (1ull << 50)     /* 18 minutes */
#define TOPO_MAX_NAME       48               /* room for a channel's name */

/* One step of a way. */
struct topo_hop {
    uint32_t channel;
    uint32_t node; /* where the channel ends */
    uint32_t kind; /* index into the link kinds */
    uint32_t vc;   /* virtual channel that keeps credit networks free of cycles */
};

/* Rate and latency of a kind of link; 0 stands for the network's own value. */
struct topo_kind {
    uint64_t fs_per_byte;
    uint64_t latency_ps;
};

struct topology;

/* One row a family of topologies. */
struct topo_family {
    const char *name;
    struct topo_hop (*next)(const struct topology *t, uint32_t node, uint32_t dst,
                            uint32_t selector);
    uint32_t (*ports)(const struct topology *t, uint32_t node);
    /* The channel out of a port; channel TOPO_NONE for a port with nothing on it. */
    struct topo_hop (*port)(const struct topology *t, uint32_t node, uint32_t port);
    uint32_t (*source)(const struct topology *t, uint32_t channel); /* the node it leaves */
    uint32_t (*number)(const struct topology *t, uint32_t channel); /* its port there */
    uint32_t (*hops)(const struct topology *t, uint32_t src, uint32_t dst);
    void (*destroy)(struct topology *t);
};

struct topo_fattree {
    uint32_t levels;
    /* Indexed by level, 0 being the hosts: children and parents of a node of that level
     * (children[0] is unused), hosts below a pod, nodes in a pod, pods. */
    uint32_t children[16], parents[16];
    uint32_t span[16], width[16], pods[16];
    uint32_t first[17];        /* node number of a level's first node */
    uint32_t up[16], down[16]; /* first channel upwards, downwards of a level */
};

struct topo_torus {
    uint32_t dims, size[3], stride[3], per_switch;
};

struct topo_dragonfly {
    uint32_t per_router, routers, globals, groups; /* p, a, h, g of the dragonfly paper */
    uint32_t copies;                               /* links between each two groups */
    uint32_t local_first, global_first;
};

struct topo_edge {
    uint32_t channel, node;
    uint16_t kind;
};

struct topo_graph {
    struct topo_edge *edges; /* sorted by node: the edges of node n are start[n] .. start[n+1]-1 */
    uint32_t *start, *source;
    uint32_t *edge_of;  /* channel -> its edge */
    uint32_t *table_of; /* switch -> its row of distances, or TOPO_NONE when it has no host */
    uint16_t *distance; /* [row][switch] */
    uint32_t rows, diameter;
    char *names; /* all names, each ended by 0 */
    uint32_t *name_at;
};

struct topology {
    const struct topo_family *family;
    char text[80]; /* "fattree:36, 3 levels": for reports */
    uint32_t hosts, switches, channels, links;
    uint32_t vcs;            /* virtual channels that deterministic routing needs */
    uint32_t vcs_hashed;     /* and multipath routing */
    struct topo_kind *kinds; /* never empty; kind 0 takes all values from the network */
    uint32_t n_kinds;
    union {
        struct topo_fattree fattree;
        struct topo_torus torus;
        struct topo_dragonfly dragonfly;
        struct topo_graph graph;
    };
};

/* Makes the topology that a text names; `hosts` is how many are needed (0: as many as it has).
 *   link                             two hosts and a wire
 *   switch[:N]                       N hosts on one switch
 *   fattree:RADIX[,levels=L][,hosts=N][,taper=T]
 *   torus:XxY[xZ][,hosts=N]          N hosts per switch
 *   dragonfly:P,A,H[,groups=G]       P hosts and H global links per router, A routers per group
 *   file:PATH                        a graph, see docs/network.md */
int topology_create(struct topology **out, const char *spec, uint32_t hosts,
                    struct spin_error *err);
void topology_destroy(struct topology *t);
/* The text of a graph file; `name` stands in messages. */
int topology_parse_graph(struct topology **out, const char *text, size_t length, const char *name,
                         struct spin_error *err);

/* The number that picks a flow's path. */
uint32_t topology_selector(const struct topology *t, uint32_t src, uint32_t dst, uint32_t flow,
                           bool hashed, uint64_t seed);

static inline struct topo_hop topology_next(const struct topology *t, uint32_t node, uint32_t dst,
                                            uint32_t selector) {
    return t->family->next(t, node, dst, selector);
}

/* Links on the way from host to host, by the family's formula; 0 to itself. */
uint32_t topology_hops(const struct topology *t, uint32_t src, uint32_t dst);
/* "h5>s12": from and to. */
void topology_name(const struct topology *t, uint32_t channel, char name[TOPO_MAX_NAME]);
void topology_node_name(const struct topology *t, uint32_t node, char name[TOPO_MAX_NAME / 2]);
/* The node of that name, or TOPO_NONE. */
uint32_t topology_find_node(const struct topology *t, const char *name, size_t length);
/* The other direction of a link. */
uint32_t topology_reverse(const struct topology *t, uint32_t channel);
/* Where a channel ends. */
struct topo_hop topology_channel(const struct topology *t, uint32_t channel);

extern const struct topo_family topo_fattree_family, topo_torus_family, topo_dragonfly_family,
    topo_graph_family, topo_link_family;

/* The builders, called by topology_create with numbers it has parsed. */
int topo_build_fattree(struct topology *t, uint32_t radix, uint32_t levels, uint32_t hosts,
                       uint32_t taper, struct spin_error *err);
int topo_build_torus(struct topology *t, uint32_t dims, const uint32_t *size, uint32_t per_switch,
                     struct spin_error *err);
int topo_build_dragonfly(struct topology *t, uint32_t p, uint32_t a, uint32_t h, uint32_t groups,
                         struct spin_error *err);
/* Adjacency in, tables out: gives the graph its distances. */
int topo_build_graph(struct topology *t, const char *name, struct spin_error *err);

#endif
