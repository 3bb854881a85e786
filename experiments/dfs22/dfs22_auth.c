/* Writes of figure 6 without handlers: raw, RPC, and RPC with a fetch of the data. */
#include "dfs22/dfs22_world.h"

static bool client_writes(struct dfs_rank *r, const struct dfs_scene *s) {
    uint32_t bytes = s->write.bytes;
    switch (s->write.protocol) {
    case DFS_RAW:
        return dfs_put(r, 0, bytes, 1, DFS_DATA, 0, true) && dfs_wait(r->acks, 1);
    case DFS_RPC: /* the request's head is before the data */
        return dfs_put(r, 0, bytes + DFS_REQUEST_BYTES, 1, DFS_REQUEST, 0, false) &&
               dfs_wait(r->ct, 1);
    default:
        return dfs_put(r, 0, DFS_REQUEST_BYTES, 1, DFS_REQUEST, 0, false) && dfs_wait(r->ct, 1);
    }
}

/* One request, by the node's processor. */
static bool serve(struct dfs_rank *r, const struct dfs_scene *s, uint32_t i) {
    uint32_t bytes = s->write.bytes;
    ptl_event_t event;
    if (!dfs_next(r, &event))
        return false;
    dfs_check_request();
    if (s->write.protocol == DFS_RPC)
        dfs_copy(r, bytes, 0, bytes);
    else if (PtlGet(r->md, bytes, bytes, event.initiator, r->pt, DFS_DATA, 0, NULL) != PTL_OK ||
             !dfs_wait(r->acks, i + 1))
        return false;
    return dfs_put(r, 0, 0, event.initiator.rank, DFS_ANSWER, 0, false);
}

int dfs_auth_rank(struct dfs_rank *r, struct dfs_scene *s) {
    uint32_t bytes = s->write.bytes;
    if (!dfs_is_node(&s->write))
        return dfs_expose(r, DFS_DATA, 0, bytes, PTL_CT_NONE, false)
                   ? dfs_client(r, s, client_writes)
                   : 2;
    bool raw = s->write.protocol == DFS_RAW;
    if (!dfs_expose(r, raw ? DFS_DATA : DFS_REQUEST, 0, bytes + DFS_REQUEST_BYTES, PTL_CT_NONE,
                    !raw))
        return 4;
    spin_barrier();
    for (uint32_t i = 0; !raw && i < s->write.clients; i++)
        if (!serve(r, s, i))
            return 5;
    return 0;
}
