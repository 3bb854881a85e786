/* Updates of a distributed graph search, applied by the card of the vertices' owner (SC'17 section
 * 5.4). What each vertex has is in HPU memory, changed by one atomic instruction. Updates that
 * change nothing end here; the others are collected at the begin of their packet, and go from there
 * to a queue in host memory. */
#include "spin/handler.h"

#include "graph_layout.h"

/* The queue is a ring; its owner has room for all changes of a round. */
static void pass_on(struct graph_state *s, const uint8_t *updates, uint32_t count, uint32_t each) {
    if (!count)
        return;
    uint32_t at = __atomic_fetch_add(&s->tail, count, __ATOMIC_RELAXED) & (s->room - 1);
    uint32_t first = count < s->room - at ? count : s->room - at;
    ptl_dma_h to_end, from_begin;
    PtlHandlerDMAToHostNB(updates, at * each, first * each, PTL_ME_HOST_MEM, &to_end);
    if (first < count) {
        PtlHandlerDMAToHostNB(updates + first * each, 0, (count - first) * each, PTL_ME_HOST_MEM,
                              &from_begin);
        PtlHandlerDMAWait(from_begin);
    }
    PtlHandlerDMAWait(to_end);
    PtlHandlerCTInc((ptl_ct_event_t){.success = count});
}

/* A vertex is reached once. */
__handler int graph_reach_payload_handler(const ptl_payload_t p, void *state) {
    struct graph_state *s = state;
    struct graph_reach *changed = (struct graph_reach *)p.base;
    const struct graph_reach *u = changed, *end = changed + p.length / sizeof *u;
    const uint32_t vertices = s->vertices;
    for (; u < end; u++) {
        uint32_t vertex = u->vertex, parent = u->parent;
        if (vertex >= vertices)
            return FAIL;
        uint32_t *word = &s->word[vertex / 32], bit = 1u << vertex % 32;
        if (*word & bit || __atomic_fetch_or(word, bit, __ATOMIC_RELAXED) & bit)
            continue;
        *changed++ = (struct graph_reach){vertex, parent};
    }
    pass_on(s, p.base, (uint32_t)(changed - (struct graph_reach *)p.base), sizeof *u);
    return SUCCESS;
}

/* A vertex has the smallest of the distances that came. Handlers may pass on several changes of one
 * vertex in any order: the processor takes the smallest. */
__handler int graph_relax_payload_handler(const ptl_payload_t p, void *state) {
    struct graph_state *s = state;
    struct graph_relax *changed = (struct graph_relax *)p.base;
    const struct graph_relax *u = changed, *end = changed + p.length / sizeof *u;
    const uint32_t vertices = s->vertices;
    for (; u < end; u++) {
        uint32_t vertex = u->vertex, parent = u->parent, distance = u->distance;
        if (vertex >= vertices)
            return FAIL;
        uint32_t *word = &s->word[vertex];
        if (*word <= distance || __atomic_fetch_min(word, distance, __ATOMIC_RELAXED) <= distance)
            continue;
        *changed++ = (struct graph_relax){vertex, parent, distance};
    }
    pass_on(s, p.base, (uint32_t)(changed - (struct graph_relax *)p.base), sizeof *u);
    return SUCCESS;
}
