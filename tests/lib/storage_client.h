/* A client and nodes of the storage system for tests: ranks 0 to nodes - 1 are nodes, whose media
 * all ranks see (a world is one process). */
#ifndef TEST_STORAGE_CLIENT_H
#define TEST_STORAGE_CLIENT_H

#include <stdlib.h>
#include <string.h>

#include "../handlers/storage/store_node_card.h"
#include "../handlers/storage/store_request.h"
#include "lib/spinlib_world.h"

enum { STORAGE_NODES = 14, STORAGE_SECRET = 4711, STORAGE_NOW = 100 };

struct storage_scene {
    uint32_t nodes;
    struct store_node_options options; /* but for medium and key */
    uint8_t *medium[STORAGE_NODES];
    int (*client)(struct storage_scene *); /* of the first rank that is no node */
    /* Of the client. */
    struct spin_job job;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    struct spin_linked answers;
    struct storage_key key;
    uint64_t request;
    uint16_t serial;
    /* Of nodes: the host of each does this while the client works. */
    int (*host)(struct storage_scene *, struct store_node_card *, uint32_t rank);
    volatile uint32_t done; /* the client is */
};

/* A grant for an extent at block 1 + i of place i, on the nodes from 0 on. */
static inline struct store_grant storage_grant(struct storage_scene *s, uint8_t strategy, uint8_t k,
                                               uint8_t m, uint32_t bytes) {
    struct store_grant g = {.capability = {.rights = STORAGE_MAY_READ | STORAGE_MAY_WRITE,
                                           .strategy = strategy,
                                           .k = k,
                                           .m = m,
                                           .serial = ++s->serial,
                                           .client = s->job.rank,
                                           .bytes = bytes,
                                           .object = 1,
                                           .expires = STORAGE_NOW + 10}};
    for (uint32_t i = 0; i < (uint32_t)k + m && i < STORAGE_PLACES; i++)
        g.capability.place[i] = (struct storage_place){i, 1 + i};
    store_grant_sign(&g, &s->key, s->options.trust);
    return g;
}

static inline int storage_put(struct storage_scene *s, const void *message, uint64_t bytes,
                              uint32_t node) {
    return PtlPut(s->md, (ptl_size_t)(uintptr_t)message, bytes, PTL_NO_ACK_REQ,
                  (ptl_process_t){.rank = node}, s->pt, STORAGE_REQUEST, 0, NULL, 0);
}

/* The next answer: virtual rank << 8 | status; -1 if none comes within a millisecond or so. */
static inline int storage_wait(struct storage_scene *s, uint64_t *request) {
    ptl_event_t event;
    unsigned int which;
    while (PtlEQPoll(&s->eq, 1, 20, &event, &which) == PTL_OK)
        if (event.type == PTL_EVENT_PUT) {
            if (request)
                *request = event.hdr_data >> 16;
            return (int)(event.hdr_data & 0xffff);
        }
    return -1;
}

static inline int storage_open_client(struct storage_scene *s) {
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = s->eq,
                         .ct_handle = PTL_CT_NONE};
    const struct spin_entry entry = {.bits = STORAGE_ANSWER, .options = PTL_ME_OP_PUT};
    RANK_CHECK(PtlMDBind(s->job.ni, &md, &s->md) == PTL_OK);
    RANK_CHECK(spin_entry_append(s->job.ni, s->pt, &entry, &s->answers) == PTL_OK);
    return 0;
}

static inline int storage_run_client(struct storage_scene *s) {
    int line = storage_open_client(s);
    line = line ? line : s->client(s);
    spin_entry_remove(&s->answers);
    PtlMDRelease(s->md);
    return line;
}

static inline int storage_run_node(struct storage_scene *s, const struct spin_job *job,
                                   ptl_pt_index_t pt) {
    struct store_node_options o = s->options;
    struct store_node_card card;
    o.medium = s->medium[job->rank];
    o.key[0] = s->key;
    o.now = o.now ? o.now : STORAGE_NOW;
    RANK_CHECK(store_node_card_open(job->ni, pt, &o, &card) == PTL_OK);
    spin_barrier();
    int line = s->host ? s->host(s, &card, job->rank) : 0;
    spin_barrier();
    store_node_card_close(&card);
    return line;
}

static inline int storage_rank(void *argument) {
    struct storage_scene *s = argument;
    struct spin_job job;
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    int line;
    RANK_CHECK(spin_job_open(&job) == PTL_OK);
    RANK_CHECK(PtlEQAlloc(job.ni, 4096, &eq) == PTL_OK);
    RANK_CHECK(PtlPTAlloc(job.ni, 0, eq, PTL_PT_ANY, &pt) == PTL_OK);
    if (job.rank < s->nodes) {
        line = storage_run_node(s, &job, pt);
    } else {
        s->job = job;
        s->pt = pt;
        s->eq = eq;
        spin_barrier();
        line = storage_run_client(s);
        s->done = 1;
        spin_barrier();
    }
    PtlPTFree(job.ni, pt);
    PtlEQFree(eq);
    spin_job_close(&job);
    return line;
}

/* On both cards. The media are zero at first. */
static inline void storage_world(struct storage_scene *s, const char *const *set, int set_count) {
    uint64_t bytes = (uint64_t)s->options.blocks * STORAGE_BLOCK + STORAGE_HEAD;
    s->options.trust = s->options.trust ? s->options.trust : STORAGE_CAPABILITY;
    s->key = store_key(1, UINT32_MAX, STORAGE_SECRET);
    for (uint32_t i = 0; i < s->nodes; i++)
        s->medium[i] = calloc(1, bytes);
    s->request = 1000;
    s->done = 0;
    spinlib_world_with((struct spin_world_options){.ranks = s->nodes + 1,
                                                   .set = (const char **)(uintptr_t)set,
                                                   .set_count = set_count},
                       storage_rank, s);
    for (uint32_t i = 0; i < s->nodes; i++)
        free(s->medium[i]);
}

#endif
