/* A client and nodes of the storage system for tests: ranks 0 to nodes - 1 are nodes, whose media
 * all ranks see (a world is one process). */
#ifndef TEST_STORAGE_CLIENT_H
#define TEST_STORAGE_CLIENT_H

#include <stdlib.h>
#include <string.h>

#include "../handlers/storage/store_node_card.h"
#include "../handlers/storage/store_request.h"
#include "base/rng.h"
#include "lib/spinlib_world.h"

enum { STORAGE_NODES = 14, STORAGE_SECRET = 4711, STORAGE_NOW = 100 };

struct storage_scene {
    uint32_t nodes;
    struct store_node_options options; /* but for medium and key */
    uint8_t *medium[STORAGE_NODES];
    uint32_t dies_after[STORAGE_NODES];
    struct storage_counts counts[STORAGE_NODES]; /* at the end */
    int (*client)(struct storage_scene *);       /* of the first rank that is no node */
    /* Of the client. */
    struct spin_job job;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    struct spin_linked answers;
    struct storage_key key;
    uint64_t request;
    uint16_t serial;
    uint64_t word, bits, bytes; /* of the last answer: header data, match bits, length */
    /* Of nodes: the host of each does this while the client works. */
    int (*host)(struct storage_scene *, struct store_node_card *, ptl_handle_eq_t);
    volatile uint32_t done;   /* the client is */
    struct spin_world *world; /* storage_world_seen: one rank more than the client does nothing */
    /* For tests as they like. */
    uint32_t queue_bytes;
    uint32_t broken_off;
    uint8_t strategy;
    uint32_t answered;
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
            s->word = event.hdr_data;
            s->bits = event.match_bits;
            s->bytes = event.mlength;
            return (int)(event.hdr_data & 0xffff);
        }
    return -1;
}

static inline uint32_t storage_mtu_of(const struct storage_scene *s) {
    ptl_hpu_limits_t limits = {0};
    PtlHPULimits(s->job.ni, &limits);
    return (uint32_t)limits.max_payload_size;
}

/* The message of a write to place 0, with a new number; its data depends on that. */
struct storage_write {
    struct storage_head head;
    uint8_t *data, *message;
    uint64_t bytes;
};

static inline struct storage_write storage_write_new(struct storage_scene *s,
                                                     const struct store_grant *g, uint32_t offset,
                                                     uint32_t length) {
    struct storage_write w = {.data = malloc(length + 1)};
    struct rng r = rng_seeded(++s->request);
    for (uint32_t i = 0; i < length; i++)
        w.data[i] = (uint8_t)(1 + rng_below(&r, 255));
    store_head(&w.head, g,
               &(struct store_ask){.operation = STORAGE_WRITE,
                                   .trust = s->options.trust,
                                   .offset = offset,
                                   .length = length,
                                   .packet = storage_mtu_of(s),
                                   .request = s->request});
    w.bytes = storage_message_bytes(length, w.head.packet);
    w.message = malloc(w.bytes);
    store_message_fill(w.message, &w.head, g->session, w.data);
    return w;
}

static inline void storage_write_free(struct storage_write *w) {
    free(w->message);
    free(w->data);
}

/* Every copy of it answers. */
static inline int storage_all_answer(struct storage_scene *s, uint32_t k) {
    uint32_t answered = 0;
    for (uint32_t i = 0; i < k; i++) {
        uint64_t request = 0;
        int got = storage_wait(s, &request);
        RANK_CHECK(got >= 0 && request == s->request && (got & 0xff) == STORAGE_DONE);
        answered |= 1u << (got >> 8);
    }
    RANK_CHECK(answered == (1u << k) - 1);
    return 0;
}

/* Whether bytes are all zero; they are many. */
static inline bool storage_is_zero(const uint8_t *bytes, uint64_t count) {
    return count == 0 || (bytes[0] == 0 && memcmp(bytes, bytes + 1, count - 1) == 0);
}

/* The medium holds the data of a write, and nothing else. */
static inline int storage_holds(const struct storage_scene *s, const uint8_t *medium,
                                uint64_t first, const struct storage_write *w) {
    uint64_t last = first + w->head.length, end = s->options.blocks * (uint64_t)STORAGE_BLOCK;
    RANK_CHECK(memcmp(medium + first, w->data, w->head.length) == 0);
    RANK_CHECK(storage_is_zero(medium, first) && storage_is_zero(medium + last, end - last));
    return 0;
}

static inline void storage_clear(struct storage_scene *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        memset(s->medium[i], 0, s->options.blocks * (uint64_t)STORAGE_BLOCK);
}

/* A write, and the answer of every node: then its bytes are there, and no others. */
static inline int storage_write_once(struct storage_scene *s, const struct store_grant *g,
                                     uint32_t offset, uint32_t length) {
    const struct storage_capability *c = &g->capability;
    struct storage_write w = storage_write_new(s, g, offset, length);
    storage_clear(s);
    RANK_CHECK(storage_put(s, w.message, w.bytes, c->place[0].node) == PTL_OK);
    int line = storage_all_answer(s, c->k);
    for (uint32_t v = 0; v < c->k && !line; v++)
        line = storage_holds(s, s->medium[v], (uint64_t)c->place[v].block * STORAGE_BLOCK + offset,
                             &w);
    storage_write_free(&w);
    return line;
}

static inline int storage_open_client(struct storage_scene *s) {
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = s->eq,
                         .ct_handle = PTL_CT_NONE};
    const struct spin_entry entry = {
        .bits = STORAGE_ANSWER, .ignore = ~0xffull, .options = PTL_ME_OP_PUT};
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
                                   ptl_pt_index_t pt, ptl_handle_eq_t eq) {
    struct store_node_options o = s->options;
    struct store_node_card card;
    o.medium = s->medium[job->rank];
    o.key[0] = s->key;
    o.dies_after = s->dies_after[job->rank];
    o.now = o.now ? o.now : STORAGE_NOW;
    RANK_CHECK(store_node_card_open(job->ni, pt, &o, &card) == PTL_OK);
    spin_barrier();
    int line = s->host ? s->host(s, &card, eq) : 0;
    spin_barrier();
    RANK_CHECK(store_node_card_report(&card, &s->counts[job->rank]) == PTL_OK);
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
        line = storage_run_node(s, &job, pt, eq);
    } else if (job.rank > s->nodes) {
        for (int i = 0; i < (s->host ? 3 : 2); i++)
            spin_barrier();
        line = 0;
    } else {
        s->job = job;
        s->pt = pt;
        s->eq = eq;
        s->done = 0;
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

static inline void storage_open_media(struct storage_scene *s) {
    uint64_t bytes = (uint64_t)s->options.blocks * STORAGE_BLOCK + STORAGE_HEAD;
    s->options.trust = s->options.trust ? s->options.trust : STORAGE_CAPABILITY;
    s->key = store_key(1, UINT32_MAX, STORAGE_SECRET);
    for (uint32_t i = 0; i < s->nodes; i++)
        s->medium[i] = calloc(1, bytes);
    s->request = 1000;
}

static inline void storage_close_media(struct storage_scene *s) {
    for (uint32_t i = 0; i < s->nodes; i++)
        free(s->medium[i]);
}

/* On both cards. The media are zero at first. */
static inline void storage_world(struct storage_scene *s, const char *const *set, int set_count) {
    storage_open_media(s);
    spinlib_world_with((struct spin_world_options){.ranks = s->nodes + 1,
                                                   .set = (const char **)(uintptr_t)set,
                                                   .set_count = set_count},
                       storage_rank, s);
    storage_close_media(s);
}

/* On one card, in a world that the client sees. A host meets the others once. */
static inline void storage_world_seen(struct storage_scene *s, const char *card) {
    storage_open_media(s);
    spinlib_world_seen(
        (struct spin_world_options){.ranks = s->nodes + 2, .set = &card, .set_count = 1}, card,
        storage_rank, s, &s->world);
    storage_close_media(s);
}

#endif
