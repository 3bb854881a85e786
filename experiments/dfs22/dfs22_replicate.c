/* Replicated writes without handlers.
 *
 * CPU-Ring, CPU-PBT: a chunk comes into a buffer, because the request is checked when it is there;
 * the processor sees it, passes it on to its children from the buffer, copies it to where it stays,
 * and answers the client after the last one. The client knows of all when it has an answer of each
 * node.
 *
 * RDMA-HyperLoop: what can be posted before a client comes are operations with known addresses: one
 * that passes descriptors on along the ring. Where data goes, and how much, only the client knows:
 * it writes one descriptor (a work queue element of 64 bytes) per chunk and node, and begins when
 * the last node has told that all have theirs. A node's card then does three things with a chunk by
 * itself: it counts, fetches the descriptor from host memory, and puts the chunk to the next node;
 * the last one answers. Portals' triggered operations do not take their arguments from memory: they
 * are posted with what the descriptors say, and wait for the fetch. */
#include "dfs22/dfs22_world.h"

enum { DESCRIPTOR_BYTES = 64 };

static uint32_t chunks(const struct dfs_scene *s) {
    return (s->write.bytes + s->write.chunk - 1) / s->write.chunk;
}

static uint32_t chunk_bytes(const struct dfs_scene *s, uint32_t i) {
    uint32_t at = i * s->write.chunk;
    return s->write.bytes - at < s->write.chunk ? s->write.bytes - at : s->write.chunk;
}

/* ---- the client ---- */

static bool send_chunks(struct dfs_rank *r, const struct dfs_scene *s, uint32_t target) {
    for (uint32_t i = 0; i < chunks(s); i++)
        if (!dfs_put(r, i * s->write.chunk, chunk_bytes(s, i), target, DFS_DATA, i * s->write.chunk,
                     false))
            return false;
    return true;
}

static bool client_writes(struct dfs_rank *r, const struct dfs_scene *s) {
    uint32_t k = s->write.copies;
    switch (s->write.protocol) {
    case DFS_FLAT:
        for (uint32_t node = 1; node <= k; node++)
            if (!dfs_put(r, 0, s->write.bytes, node, DFS_DATA, 0, true))
                return false;
        return dfs_wait(r->acks, k);
    case DFS_HYPERLOOP: /* one answer says that all have their descriptors, one that all is there */
        return dfs_put(r, 2ull * s->write.bytes, (uint64_t)k * chunks(s) * DESCRIPTOR_BYTES, 1,
                       DFS_DESCRIPTORS, 0, false) &&
               dfs_wait(r->ct, 1) && send_chunks(r, s, 1) && dfs_wait(r->ct, 2);
    default:
        return send_chunks(r, s, 1) && dfs_wait(r->ct, k);
    }
}

/* ---- nodes with processors ---- */

static bool pass_on(struct dfs_rank *r, const struct dfs_scene *s, const ptl_event_t *event) {
    uint32_t me = spin_rank() - 1, k = s->write.copies;
    bool tree = s->write.protocol == DFS_CPU_PBT;
    uint32_t first = tree ? 2 * me + 1 : me + 1, last = tree ? 2 * me + 2 : me + 1;
    for (uint32_t child = first; child <= last && child < k; child++)
        if (!dfs_put(r, event->remote_offset, event->mlength, child + 1, DFS_DATA,
                     event->remote_offset, false))
            return false;
    return true;
}

static bool serve(struct dfs_rank *r, const struct dfs_scene *s) {
    for (uint32_t i = 0; i < chunks(s); i++) {
        ptl_event_t event;
        if (!dfs_next(r, &event))
            return false;
        if (i == 0)
            dfs_check_request();
        if (!pass_on(r, s, &event))
            return false;
        dfs_copy(r, s->write.bytes + event.remote_offset, event.remote_offset, event.mlength);
    }
    return dfs_put(r, 0, 0, 0, DFS_ANSWER, 0, false);
}

/* ---- nodes of HyperLoop ---- */

static bool trigger(struct dfs_rank *r, ptl_handle_md_t md, uint64_t at, uint64_t bytes,
                    uint32_t target, uint64_t bits, uint64_t remote, ptl_handle_ct_t ct,
                    uint64_t count) {
    return PtlTriggeredPut(md, at, bytes, PTL_NO_ACK_REQ, (ptl_process_t){.rank = target}, r->pt,
                           bits, remote, NULL, 0, ct, count) == PTL_OK;
}

struct hyperloop {
    ptl_handle_ct_t descriptors, fetched; /* messages of descriptors; descriptors that were read */
    ptl_handle_md_t fetches;              /* counts there when data has left host memory */
};

static bool open_hyperloop(struct dfs_rank *r, const struct dfs_scene *s, struct hyperloop *h) {
    uint64_t at = 2ull * s->write.bytes;
    uint64_t bytes = (uint64_t)s->write.copies * chunks(s) * DESCRIPTOR_BYTES;
    if (PtlCTAlloc(r->job.ni, &h->descriptors) != PTL_OK ||
        PtlCTAlloc(r->job.ni, &h->fetched) != PTL_OK)
        return false;
    const ptl_md_t md = {.start = r->memory,
                         .length = at + bytes,
                         .options = PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = h->fetched};
    return PtlMDBind(r->job.ni, &md, &h->fetches) == PTL_OK &&
           dfs_expose(r, DFS_DESCRIPTORS, at, bytes, h->descriptors, false) &&
           dfs_expose(r, DFS_DATA, 0, s->write.bytes, r->ct, false) &&
           dfs_expose(r, DFS_SELF, s->write.bytes, DESCRIPTOR_BYTES, PTL_CT_NONE, false);
}

static bool post(struct dfs_rank *r, const struct dfs_scene *s, const struct hyperloop *h) {
    uint32_t me = spin_rank(), next = me + 1, n = chunks(s);
    uint64_t at = 2ull * s->write.bytes;
    uint64_t left = (uint64_t)(s->write.copies - me) * n * DESCRIPTOR_BYTES; /* of those behind */
    bool last = me == s->write.copies;
    if (!trigger(r, r->md, at + n * DESCRIPTOR_BYTES, left, last ? 0 : next,
                 last ? DFS_ANSWER : DFS_DESCRIPTORS, 0, h->descriptors, 1))
        return false;
    for (uint32_t i = 0; i < n; i++) {
        if (!trigger(r, h->fetches, at + i * DESCRIPTOR_BYTES, DESCRIPTOR_BYTES, me, DFS_SELF, 0,
                     r->ct, i + 1))
            return false;
        if (!last && !trigger(r, r->md, i * s->write.chunk, chunk_bytes(s, i), next, DFS_DATA,
                              i * s->write.chunk, h->fetched, i + 1))
            return false;
    }
    return !last || trigger(r, r->md, 0, 0, 0, DFS_ANSWER, 0, h->fetched, n);
}

int dfs_replicate_rank(struct dfs_rank *r, struct dfs_scene *s) {
    struct hyperloop h;
    if (spin_rank() == 0)
        return dfs_client(r, s, client_writes);
    bool processor = s->write.protocol == DFS_CPU_RING || s->write.protocol == DFS_CPU_PBT;
    bool ready = s->write.protocol == DFS_HYPERLOOP
                     ? open_hyperloop(r, s, &h)
                     : dfs_expose(r, DFS_DATA, 0, s->write.bytes, PTL_CT_NONE, processor);
    if (ready && s->write.protocol == DFS_HYPERLOOP)
        ready = post(r, s, &h);
    if (!ready)
        return 4;
    spin_barrier();
    return !processor || serve(r, s) ? 0 : 5;
}
