/* INEC-TriEC: erasure coding by an accelerator on the card that works on whole chunks in host
 * memory (DFS'22 section VI-A).
 *
 *     client --chunk j--> data node j: host memory
 *                         card: reads the chunk, codes it, sends m intermediate parities
 *                           --> parity node: host memory; when k of a block are there its card
 * reads them, adds them up, writes the parity --> answer to the client
 *
 * The client has k acknowledgements and m answers. Everything on a node is a triggered operation
 * that was posted before. The accelerator takes no time of its own: what a chunk costs is its way
 * to host memory, back to the card, and to the next node. Its arithmetic is not done: intermediate
 * parities are as long as they would be, with the chunk's own bytes. */
#include <string.h>

#include "dfs22/dfs22_world.h"

static uint32_t chunk_bytes(const struct dfs_write *w) {
    return (w->bytes + w->copies - 1) / w->copies;
}

static bool trigger(struct dfs_rank *r, uint64_t at, uint64_t bytes, uint32_t target, uint64_t bits,
                    uint64_t remote, ptl_handle_ct_t ct, uint64_t count) {
    return PtlTriggeredPut(r->md, at, bytes, PTL_NO_ACK_REQ, (ptl_process_t){.rank = target}, r->pt,
                           bits, remote, NULL, 0, ct, count) == PTL_OK;
}

static bool client_writes(struct dfs_rank *r, const struct dfs_scene *s) {
    const struct dfs_write *w = &s->write;
    uint32_t bytes = chunk_bytes(w);
    for (uint32_t i = 0; i < s->writes; i++)
        for (uint32_t j = 0; j < w->copies; j++)
            if (!dfs_put(r, (uint64_t)j * bytes, bytes, 1 + j, DFS_DATA, 0, true))
                return false;
    return dfs_wait(r->acks, (uint64_t)s->writes * w->copies) &&
           dfs_wait(r->ct, (uint64_t)s->writes * w->parities);
}

static bool open_data(struct dfs_rank *r, const struct dfs_scene *s) {
    const struct dfs_write *w = &s->write;
    uint32_t bytes = chunk_bytes(w), me = spin_rank() - 1;
    for (uint32_t i = 0; i < s->writes; i++)
        for (uint32_t p = 0; p < w->parities; p++)
            if (!trigger(r, 0, bytes, 1 + w->copies + p, DFS_DATA, (uint64_t)me * bytes, r->ct,
                         i + 1))
                return false;
    return dfs_expose(r, DFS_DATA, 0, bytes, r->ct, false);
}

/* Chunks that are added up go to host memory by way of the card: a put to itself of each. */
static bool open_parity(struct dfs_rank *r, const struct dfs_scene *s) {
    const struct dfs_write *w = &s->write;
    uint32_t bytes = chunk_bytes(w), k = w->copies;
    uint64_t all = (uint64_t)k * bytes;
    ptl_handle_ct_t added;
    if (PtlCTAlloc(r->job.ni, &added) != PTL_OK)
        return false;
    for (uint32_t i = 0; i < s->writes; i++) {
        for (uint32_t j = 0; j < k; j++)
            if (!trigger(r, (uint64_t)j * bytes, bytes, spin_rank(), DFS_SELF, 0, r->ct,
                         (uint64_t)(i + 1) * k))
                return false;
        if (!trigger(r, 0, 0, 0, DFS_ANSWER, 0, added, (uint64_t)(i + 1) * k))
            return false;
    }
    return dfs_expose(r, DFS_DATA, 0, all, r->ct, false) &&
           dfs_expose(r, DFS_SELF, all, bytes, added, false);
}

bool dfs_triec_right(const struct dfs_rank *r) {
    const struct dfs_write *w = &r->scene->write;
    uint32_t bytes = chunk_bytes(w), me = spin_rank() - 1;
    uint32_t from = me < w->copies ? me * bytes : 0;
    uint32_t left = from < w->bytes ? w->bytes - from : 0;
    if (me < w->copies && left > bytes)
        left = bytes;
    return memcmp(r->memory, r->scene->data + (left ? from : 0), left) == 0;
}

int dfs_triec_rank(struct dfs_rank *r, struct dfs_scene *s) {
    if (spin_rank() == 0)
        return dfs_client(r, s, client_writes);
    if (!(spin_rank() <= s->write.copies ? open_data(r, s) : open_parity(r, s)))
        return 4;
    spin_barrier();
    return 0;
}
