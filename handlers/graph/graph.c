/* Searches on a distributed graph, in rounds. In each, every rank sends updates along the edges of
 * the vertices that are next, and the owners apply them; what changed a vertex makes that vertex
 * one of the next. A breadth-first search is the search for shortest paths in which every edge has
 * weight 1 and every distance has a bucket of its own. */
#include <stdlib.h>
#include <string.h>

#include "graph_private.h"

enum { DELTA = 8192, MOST_BUCKETS = 65536, QUEUE_LEAST = 1024 };

/* What a processor does, for simulated time: cycles and bytes of memory. */
enum {
    EDGE_CYCLES = 6,    /* to read an edge and to write an update */
    UPDATE_CYCLES = 10, /* to compare an update with its vertex, */
    LINE_BYTES = 64,    /* which is somewhere in memory */
    EVENT_CYCLES = 64,  /* to look at an event */
};

struct bucket {
    uint32_t *vertex;
    uint64_t count, room;
};

struct totals {
    uint64_t time_ps, reached, edges, updates, changes;
};

struct spin_graph {
    struct graph_peers peers;
    struct graph_csr csr;
    uint32_t all_vertices, delta;
    bool by_host;
    uint32_t *input_edges; /* of each vertex: edges given that begin there */
    uint32_t *parent, *value, *expanded;
    /* The search. */
    bool weighted;
    uint32_t width, each; /* of a bucket; bytes of an update */
    uint64_t current;     /* bucket */
    struct bucket *bucket;
    uint32_t buckets;
    struct bucket next; /* what the round expands */
    uint64_t updates, changes;
    /* Where changes (from the card) or updates (without it) arrive. */
    ptl_image_h image;
    uint8_t *queue;
    uint32_t room; /* in updates */
    ptl_handle_ct_t queued;
    uint64_t taken;
    struct graph_state *state;
    struct spin_linked update_entry;
    /* All ranks' totals. */
    struct totals own, *total;
    ptl_handle_ct_t told;
    uint64_t searches;
    struct spin_linked total_entry;
};

/* ---- Vertices and buckets ---- */

static int push(struct bucket *b, uint32_t vertex) {
    if (b->count == b->room) {
        uint64_t room = b->room ? 2 * b->room : 64;
        uint32_t *vertices = realloc(b->vertex, room * sizeof *vertices);
        if (!vertices)
            return PTL_NO_SPACE;
        b->vertex = vertices;
        b->room = room;
    }
    b->vertex[b->count++] = vertex;
    return PTL_OK;
}

static int change(struct spin_graph *g, uint32_t vertex, uint32_t parent, uint32_t value) {
    if (value >= g->value[vertex])
        return PTL_OK;
    g->value[vertex] = value;
    g->parent[vertex] = parent;
    g->changes++;
    return push(&g->bucket[value / g->width % g->buckets], vertex);
}

/* Whether a vertex that stands in a bucket is still to be expanded there. */
static bool is_due(const struct spin_graph *g, uint32_t vertex, uint64_t bucket) {
    return g->value[vertex] / g->width == bucket && g->expanded[vertex] != g->value[vertex];
}

/* The first bucket, from the current one on, with a vertex that is due. */
static uint64_t first_bucket(struct spin_graph *g) {
    for (uint64_t number = g->current; number < g->current + g->buckets; number++) {
        struct bucket *b = &g->bucket[number % g->buckets];
        while (b->count && !is_due(g, b->vertex[b->count - 1], number))
            b->count--;
        if (b->count)
            return number;
    }
    return UINT64_MAX;
}

/* ---- Updates that arrive ---- */

static int apply(void *user, const void *updates, uint64_t bytes) {
    struct spin_graph *g = user;
    const uint8_t *u = updates;
    uint64_t count = bytes / g->each;
    int code = PTL_OK;
    graph_work(&g->peers, UPDATE_CYCLES * count, (g->each + LINE_BYTES) * count);
    for (uint64_t i = 0; code == PTL_OK && i < count; i++, u += g->each) {
        struct graph_relax r = {.distance = (uint32_t)g->current + 1};
        memcpy(&r, u, g->each);
        code = r.vertex < g->csr.vertices ? change(g, r.vertex, r.parent, r.distance) : PTL_FAIL;
    }
    return code;
}

static int apply_event(void *user, const void *updates, uint64_t bytes) {
    struct spin_graph *g = user;
    graph_work(&g->peers, EVENT_CYCLES, 0);
    return apply(user, updates, bytes);
}

static int open_queue(struct spin_graph *g) {
    struct spin_entry entry = {
        .start = g->queue,
        .length = (uint64_t)g->room * g->each,
        .bits = GRAPH_UPDATES,
        .options = PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE,
    };
    if (g->by_host) {
        entry.options |= PTL_ME_MANAGE_LOCAL;
        return spin_entry_append(g->peers.ni, g->peers.pt, &entry, &g->update_entry);
    }
    uint32_t words = g->weighted ? g->csr.vertices : (g->csr.vertices + 31) / 32;
    entry.options |= PTL_ME_EVENT_COMM_DISABLE;
    entry.ct = g->queued;
    entry.image = g->image;
    entry.payload = g->weighted ? "graph_relax_payload_handler" : "graph_reach_payload_handler";
    entry.state = g->state;
    entry.state_bytes = (uint32_t)sizeof *g->state + 4 * words;
    return spin_entry_append(g->peers.ni, g->peers.pt, &entry, &g->update_entry);
}

/* After a round: all updates have come. */
static int take_round(struct spin_graph *g) {
    if (g->by_host) {
        int code = graph_events(&g->peers, false, apply_event, g);
        spin_entry_remove(&g->update_entry); /* the next round begins at the start of the queue */
        return code == PTL_OK ? open_queue(g) : code;
    }
    ptl_ct_event_t event;
    int code = PtlCTGet(g->queued, &event);
    while (code == PTL_OK && g->taken < event.success) {
        uint64_t at = g->taken & (g->room - 1), count = event.success - g->taken;
        if (count > g->room - at)
            count = g->room - at;
        code = apply(g, g->queue + at * g->each, count * g->each);
        g->taken += count;
    }
    return code;
}

/* ---- Updates that leave ---- */

static int update(struct spin_graph *g, const struct graph_neighbour *n,
                  const struct graph_relax *u) {
    g->updates++;
    if (g->by_host && n->rank == g->peers.rank) {
        graph_work(&g->peers, UPDATE_CYCLES, LINE_BYTES);
        return change(g, u->vertex, u->parent, u->distance);
    }
    memcpy(graph_room(&g->peers, n->rank, g->each), u, g->each);
    return graph_is_full(&g->peers, n->rank)
               ? graph_send(&g->peers, n->rank, g->by_host ? apply_event : NULL, g)
               : PTL_OK;
}

static int expand_vertex(struct spin_graph *g, uint32_t v) {
    uint64_t first = g->csr.first[v], end = g->csr.first[v + 1];
    struct graph_relax u = {.parent = v * g->peers.ranks + g->peers.rank};
    int code = PTL_OK;
    uint32_t value = g->expanded[v] = g->value[v];
    graph_work(&g->peers, EDGE_CYCLES * (end - first + 1),
               (sizeof *g->csr.neighbour + g->each) * (end - first) + LINE_BYTES);
    for (uint64_t i = first; code == PTL_OK && i < end; i++) {
        const struct graph_neighbour *n = &g->csr.neighbour[i];
        uint64_t distance = (uint64_t)value + (g->weighted ? n->weight : 1);
        u.vertex = n->vertex;
        u.distance = (uint32_t)distance;
        if (distance < SPIN_GRAPH_NONE)
            code = update(g, n, &u);
    }
    return code;
}

/* The vertices of the current bucket, each once; what comes back to it meanwhile is for the next
 * round. */
static int expand_round(struct spin_graph *g) {
    struct bucket *b = &g->bucket[g->current % g->buckets], empty = g->next;
    int code = PTL_OK;
    g->next = *b;
    *b = empty;
    b->count = 0;
    for (uint64_t i = 0; code == PTL_OK && i < g->next.count; i++)
        if (is_due(g, g->next.vertex[i], g->current))
            code = expand_vertex(g, g->next.vertex[i]);
    if (code == PTL_OK)
        code = graph_flush(&g->peers, g->by_host ? apply_event : NULL, g);
    return code;
}

/* ---- A search ---- */

static int make_buckets(struct spin_graph *g) {
    uint64_t most = g->weighted ? 0 : 1, neighbours = g->csr.first[g->csr.vertices];
    for (uint64_t i = 0; g->weighted && i < neighbours; i++)
        if (g->csr.neighbour[i].weight > most)
            most = g->csr.neighbour[i].weight;
    uint64_t buckets = most / g->width + 2;
    if (buckets > MOST_BUCKETS)
        return PTL_ARG_INVALID;
    if (buckets > g->buckets) {
        struct bucket *more = realloc(g->bucket, buckets * sizeof *more);
        if (!more)
            return PTL_NO_SPACE;
        memset(more + g->buckets, 0, (buckets - g->buckets) * sizeof *more);
        g->bucket = more;
        g->buckets = (uint32_t)buckets;
    }
    for (uint32_t i = 0; i < g->buckets; i++)
        g->bucket[i].count = 0;
    return PTL_OK;
}

static int begin(struct spin_graph *g, bool weighted, uint32_t root) {
    g->weighted = weighted;
    g->width = weighted ? g->delta : 1;
    g->each = weighted ? sizeof(struct graph_relax) : sizeof(struct graph_reach);
    g->peers.limit = g->peers.batch_bytes / g->each * g->each;
    g->current = g->updates = g->changes = g->taken = 0;
    uint64_t bytes = (uint64_t)g->csr.vertices * sizeof *g->value;
    memset(g->parent, 0xff, bytes);
    memset(g->value, 0xff, bytes);
    memset(g->expanded, 0xff, bytes);
    int code = make_buckets(g);
    if (!g->by_host) {
        *g->state = (struct graph_state){.vertices = g->csr.vertices, .room = g->room};
        memset(g->state->word, weighted ? 0xff : 0, bytes);
        PtlCTSet(g->queued, (ptl_ct_event_t){0});
    }
    if (code == PTL_OK && root % g->peers.ranks == g->peers.rank) {
        uint32_t v = root / g->peers.ranks;
        code = change(g, v, root, 0);
        if (!g->by_host && weighted)
            g->state->word[v] = 0;
        else if (!g->by_host)
            g->state->word[v / 32] = 1u << v % 32;
    }
    spin_entry_remove(&g->update_entry);
    return code == PTL_OK ? open_queue(g) : code;
}

/* Sums of all ranks' totals. */
static int tell_totals(struct spin_graph *g, struct spin_graph_result *r) {
    ptl_ct_event_t event;
    int code = PTL_OK;
    g->own.updates = g->updates;
    g->own.changes = g->changes;
    g->own.reached = g->own.edges = 0;
    for (uint32_t v = 0; v < g->csr.vertices; v++)
        if (g->value[v] != SPIN_GRAPH_NONE) {
            g->own.reached++;
            g->own.edges += g->input_edges[v];
        }
    for (uint32_t i = 0; code == PTL_OK && i < g->peers.ranks; i++)
        code = PtlPut(g->peers.md, (ptl_size_t)(uintptr_t)&g->own, sizeof g->own, PTL_NO_ACK_REQ,
                      (ptl_process_t){.rank = (g->peers.rank + i) % g->peers.ranks}, g->peers.pt,
                      GRAPH_TOTALS, g->peers.rank * sizeof g->own, NULL, 0);
    if (code == PTL_OK)
        code = PtlCTWait(g->told, ++g->searches * g->peers.ranks, &event);
    if (code != PTL_OK || event.failure)
        return code != PTL_OK ? code : PTL_FAIL;
    for (uint32_t i = 0; i < g->peers.ranks; i++) {
        const struct totals *t = &g->total[i];
        if (t->time_ps > r->time_ps)
            r->time_ps = t->time_ps;
        r->reached += t->reached;
        r->edges += t->edges;
        r->updates += t->updates;
        r->changes += t->changes;
    }
    return PTL_OK;
}

static int search(struct spin_graph *g, bool weighted, uint32_t root, struct spin_graph_result *r) {
    *r = (struct spin_graph_result){0};
    if (root >= g->all_vertices)
        return PTL_ARG_INVALID;
    int begun = begin(g, weighted, root);
    uint64_t all = begun == PTL_OK; /* or nobody searches */
    int code = graph_smallest(&g->peers, &all);
    if (code == PTL_OK && !all)
        return begun != PTL_OK ? begun : PTL_NO_SPACE;
    uint64_t start = spin_now_ps();
    while (code == PTL_OK) {
        g->current = first_bucket(g);
        code = graph_smallest(&g->peers, &g->current);
        if (code != PTL_OK || g->current == UINT64_MAX)
            break;
        r->rounds++;
        code = expand_round(g);
        if (code == PTL_OK)
            code = graph_smallest(&g->peers, &all);
        if (code == PTL_OK)
            code = take_round(g);
    }
    g->own.time_ps = spin_now_ps() - start;
    return code == PTL_OK ? tell_totals(g, r) : code;
}

int spin_graph_bfs(struct spin_graph *g, uint32_t root, struct spin_graph_result *result) {
    return search(g, false, root, result);
}
int spin_graph_sssp(struct spin_graph *g, uint32_t root, struct spin_graph_result *result) {
    return search(g, true, root, result);
}
const uint32_t *spin_graph_parents(const struct spin_graph *g) {
    return g->parent;
}
const uint32_t *spin_graph_values(const struct spin_graph *g) {
    return g->value;
}

/* ---- Opening ---- */

static int open_vertices(struct spin_graph *g, const struct spin_graph_options *o) {
    uint32_t ranks = spin_ranks(), rank = spin_rank();
    int code = graph_csr_build(&g->csr, o->vertices, o->edges, o->edge_count, ranks, rank);
    uint64_t vertices = g->csr.vertices;
    if (code != PTL_OK)
        return code;
    g->input_edges = calloc(vertices + 1, sizeof *g->input_edges);
    g->parent = malloc((vertices + 1) * sizeof *g->parent);
    g->value = malloc((vertices + 1) * sizeof *g->value);
    g->expanded = malloc((vertices + 1) * sizeof *g->expanded);
    if (!g->input_edges || !g->parent || !g->value || !g->expanded)
        return PTL_NO_SPACE;
    for (uint64_t i = 0; i < o->edge_count; i++)
        if (o->edges[i].from % ranks == rank)
            g->input_edges[o->edges[i].from / ranks]++;
    return PTL_OK;
}

/* A round brings at most one update per edge to a vertex of this rank. */
static int open_arrivals(struct spin_graph *g) {
    uint64_t most = g->csr.first[g->csr.vertices] + QUEUE_LEAST;
    if (most >= UINT32_MAX / 2 / sizeof(struct graph_relax))
        return PTL_NO_SPACE;
    for (g->room = QUEUE_LEAST; g->room < most;)
        g->room *= 2;
    g->queue = malloc((size_t)g->room * sizeof(struct graph_relax));
    g->total = calloc(g->peers.ranks, sizeof *g->total);
    if (!g->queue || !g->total)
        return PTL_NO_SPACE;
    int code = PtlCTAlloc(g->peers.ni, &g->told);
    const struct spin_entry entry = {
        .start = g->total,
        .length = g->peers.ranks * sizeof *g->total,
        .bits = GRAPH_TOTALS,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE,
        .ct = g->told,
    };
    if (code == PTL_OK)
        code = spin_entry_append(g->peers.ni, g->peers.pt, &entry, &g->total_entry);
    if (code != PTL_OK || g->by_host)
        return code;
    g->state = malloc(sizeof *g->state + 4ull * (g->csr.vertices + 1));
    code = g->state ? PtlCTAlloc(g->peers.ni, &g->queued) : PTL_NO_SPACE;
    return code == PTL_OK ? spin_handlers_load(g->peers.ni, "graph_handler", &g->image) : code;
}

/* Messages of a round, for the event queue: full batches of the smallest kind, and one more from
 * each rank. */
static uint64_t most_events(const struct spin_graph *g, const struct spin_graph_options *o) {
    uint64_t updates = g->csr.first[g->csr.vertices];
    uint64_t batch = o->batch_bytes && o->batch_bytes < 1024 ? o->batch_bytes : 1024;
    return g->by_host ? updates * sizeof(struct graph_relax) / (batch / 2 + 1) + spin_ranks() : 64;
}

int spin_graph_open(ptl_handle_ni_t ni, const struct spin_graph_options *o,
                    struct spin_graph **out) {
    struct spin_graph *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g)
        return PTL_NO_SPACE;
    g->all_vertices = o->vertices;
    g->delta = o->delta ? o->delta : DELTA;
    g->by_host = o->by_host;
    g->peers.eq = PTL_EQ_NONE;
    g->peers.md = PTL_INVALID_HANDLE;
    int code = open_vertices(g, o);
    if (code == PTL_OK)
        code = graph_peers_open(&g->peers, ni, most_events(g, o), o->batch_bytes);
    if (code == PTL_OK)
        code = open_arrivals(g);
    if (code == PTL_OK)
        *out = g;
    else
        spin_graph_close(g);
    return code;
}

void spin_graph_close(struct spin_graph *g) {
    if (!g)
        return;
    spin_entry_remove(&g->update_entry);
    spin_entry_remove(&g->total_entry);
    graph_peers_close(&g->peers);
    if (g->queued)
        PtlCTFree(g->queued);
    if (g->told)
        PtlCTFree(g->told);
    if (g->image)
        PtlImageUnload(g->image);
    for (uint32_t i = 0; i < g->buckets; i++)
        free(g->bucket[i].vertex);
    free(g->bucket);
    free(g->next.vertex);
    free(g->state);
    free(g->queue);
    free(g->total);
    free(g->input_edges);
    free(g->parent);
    free(g->value);
    free(g->expanded);
    graph_csr_free(&g->csr);
    free(g);
}
