/* Batches of updates to the other ranks, and reductions with them.
 *
 * A batch is at most one packet. Each rank has `window` buffers for every other, so that no card
 * ever has more handlers waiting than it has contexts: what finds none is lost. A batch's
 * acknowledgement comes when the owner's card has applied it (or, without handlers, stored it).
 *
 * A reduction is a dissemination: in step k every rank sends what it knows to the rank 2^k behind,
 * and after log2 of the ranks everybody knows the smallest value of all, and that all have called.
 */
#include <stdlib.h>

#include "graph_private.h"

/* Handlers that may wait on a card, of the 1,024 contexts that cards of a world have. */
enum { CARD_HANDLERS = 512, PACKET_MOST = 4096 };

static int open_steps(struct graph_peers *p) {
    int code = PTL_OK;
    for (; code == PTL_OK && 1ull << p->steps < p->ranks; p->steps++) {
        uint32_t k = p->steps;
        code = PtlCTAlloc(p->ni, &p->arrived[k]);
        const struct spin_entry entry = {
            .start = p->came[k],
            .length = sizeof p->came[k],
            .bits = GRAPH_SYNC + k,
            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE,
            .ct = p->arrived[k],
        };
        if (code == PTL_OK)
            code = spin_entry_append(p->ni, p->pt, &entry, &p->step_entry[k]);
    }
    return code;
}

static int open_batches(struct graph_peers *p, uint32_t batch_bytes) {
    ptl_hpu_limits_t limits;
    int code = PtlHPULimits(p->ni, &limits);
    if (code != PTL_OK)
        return code;
    p->batch_bytes = limits.max_payload_size && limits.max_payload_size < PACKET_MOST
                         ? (uint32_t)limits.max_payload_size
                         : PACKET_MOST;
    if (batch_bytes && batch_bytes < p->batch_bytes)
        p->batch_bytes = batch_bytes;
    if (p->batch_bytes < sizeof(struct graph_relax))
        return PTL_ARG_INVALID;
    uint32_t share = CARD_HANDLERS / p->ranks;
    p->window = share < 1 ? 1 : share > GRAPH_WINDOW ? GRAPH_WINDOW : share;
    p->outbox = calloc(p->ranks, sizeof *p->outbox);
    p->busy = calloc((size_t)p->ranks * p->window, sizeof *p->busy);
    p->buffer = malloc((size_t)p->ranks * p->window * p->batch_bytes);
    return p->outbox && p->busy && p->buffer ? PTL_OK : PTL_NO_SPACE;
}

int graph_peers_open(struct graph_peers *p, ptl_handle_ni_t ni, uint64_t events,
                     uint32_t batch_bytes) {
    *p = (struct graph_peers){.ni = ni,
                              .eq = PTL_EQ_NONE,
                              .md = PTL_INVALID_HANDLE,
                              .rank = spin_rank(),
                              .ranks = spin_ranks()};
    int code = open_batches(p, batch_bytes);
    if (code == PTL_OK)
        code = PtlEQAlloc(ni, events + (uint64_t)p->ranks * p->window, &p->eq);
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .ct_handle = PTL_CT_NONE,
                         .eq_handle = p->eq};
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, p->eq, PTL_PT_ANY, &p->pt);
    if (code == PTL_OK)
        code = PtlMDBind(ni, &md, &p->md);
    return code == PTL_OK ? open_steps(p) : code;
}

void graph_peers_close(struct graph_peers *p) {
    for (uint32_t k = 0; k < p->steps; k++) {
        spin_entry_remove(&p->step_entry[k]);
        if (p->arrived[k])
            PtlCTFree(p->arrived[k]);
    }
    while (p->md != PTL_INVALID_HANDLE && PtlMDRelease(p->md) == PTL_IN_USE)
        ;
    if (p->eq != PTL_EQ_NONE) {
        PtlPTFree(p->ni, p->pt);
        PtlEQFree(p->eq);
    }
    free(p->outbox);
    free(p->busy);
    free(p->buffer);
}

void graph_work_done(struct graph_peers *p) {
    if (p->cycles)
        spin_work(p->cycles, p->bytes);
    p->cycles = p->bytes = 0;
}

static int take_event(struct graph_peers *p, const ptl_event_t *e, graph_take *take, void *user) {
    if (e->type == PTL_EVENT_ACK) {
        *(bool *)e->user_ptr = false;
        p->under_way--;
        p->failed |= e->ni_fail_type != PTL_NI_OK;
    } else if (e->type == PTL_EVENT_PUT) {
        if (e->ni_fail_type != PTL_NI_OK || !take)
            p->failed = true;
        else
            return take(user, e->start, e->mlength);
    }
    return PTL_OK;
}

int graph_events(struct graph_peers *p, bool wait, graph_take *take, void *user) {
    ptl_event_t event;
    graph_work_done(p);
    int code = wait ? PtlEQWait(p->eq, &event) : PtlEQGet(p->eq, &event);
    while (code == PTL_OK && (code = take_event(p, &event, take, user)) == PTL_OK) {
        graph_work_done(p);
        code = PtlEQGet(p->eq, &event);
    }
    return code == PTL_EQ_EMPTY ? p->failed ? PTL_FAIL : PTL_OK : code;
}

int graph_send(struct graph_peers *p, uint32_t to, graph_take *take, void *user) {
    struct graph_outbox *o = &p->outbox[to];
    uint64_t number = (uint64_t)to * p->window + o->current;
    graph_work_done(p);
    int code = PtlPut(p->md, (ptl_size_t)(uintptr_t)(p->buffer + number * p->batch_bytes), o->used,
                      PTL_ACK_REQ, (ptl_process_t){.rank = to}, p->pt, GRAPH_UPDATES, 0,
                      &p->busy[number], 0);
    if (code != PTL_OK)
        return code;
    p->busy[number] = true;
    p->under_way++;
    o->used = 0;
    o->current = (o->current + 1) % p->window;
    const bool *next = &p->busy[(uint64_t)to * p->window + o->current];
    while (code == PTL_OK && *next)
        code = graph_events(p, true, take, user);
    return code;
}

int graph_flush(struct graph_peers *p, graph_take *take, void *user) {
    int code = PTL_OK;
    for (uint32_t i = 0; code == PTL_OK && i < p->ranks; i++) {
        uint32_t to = (p->rank + i) % p->ranks; /* not all to the same one at once */
        if (p->outbox[to].used)
            code = graph_send(p, to, take, user);
    }
    while (code == PTL_OK && p->under_way)
        code = graph_events(p, true, take, user);
    return code;
}

int graph_smallest(struct graph_peers *p, uint64_t *value) {
    uint64_t generation = ++p->generation;
    graph_work_done(p);
    for (uint32_t k = 0; k < p->steps; k++) {
        uint64_t *sent = &p->sent[generation & 1][k];
        ptl_ct_event_t event;
        *sent = *value;
        int code = PtlPut(p->md, (ptl_size_t)(uintptr_t)sent, sizeof *sent, PTL_NO_ACK_REQ,
                          (ptl_process_t){.rank = (uint32_t)((p->rank + (1ull << k)) % p->ranks)},
                          p->pt, GRAPH_SYNC + k, (generation & 1) * sizeof *sent, NULL, 0);
        if (code == PTL_OK)
            code = PtlCTWait(p->arrived[k], generation, &event);
        if (code != PTL_OK || event.failure)
            return code != PTL_OK ? code : PTL_FAIL;
        if (p->came[k][generation & 1] < *value)
            *value = p->came[k][generation & 1];
    }
    return PTL_OK;
}
