/* Joining the store: what a rank is, it learns from the options. */
#include <stdio.h>
#include <stdlib.h>

#include "store_private.h"

#define NODE_BYTES  (64ull << 20)
#define MOST_BYTES  ((4ull << 30) - 2 * STORE_BLOCK)
#define PATIENCE_MS 2000u
#define SILENCE_MS  10000u

static int check(struct spinstore_options *o) {
    o->first_node = o->first_node ? o->first_node : 1;
    o->node_bytes = o->node_bytes ? o->node_bytes / STORE_BLOCK * STORE_BLOCK : NODE_BYTES;
    o->patience_ms = o->patience_ms ? o->patience_ms : PATIENCE_MS;
    o->silence_ms = o->silence_ms ? o->silence_ms : SILENCE_MS;
    if (o->nodes == 0 || o->nodes > STORE_NODES || o->service >= spin_ranks() ||
        o->nodes > spin_ranks() || o->first_node > spin_ranks() - o->nodes ||
        o->service - o->first_node < o->nodes || o->node_bytes == 0 ||
        o->trust > SPINSTORE_AUTHENTICATED)
        return PTL_ARG_INVALID;
    if (o->node_bytes > MOST_BYTES) {
        if (spin_rank() == o->service)
            fprintf(stderr,
                    "spinstore: a node's medium of %llu bytes is too large: a card's offsets have "
                    "32 bits, so %llu are the most; use more nodes\n",
                    (unsigned long long)o->node_bytes, (unsigned long long)MOST_BYTES);
        return PTL_ARG_INVALID;
    }
    return PTL_OK;
}

int spinstore_join(ptl_handle_ni_t ni, const struct spinstore_options *options,
                   struct spinstore **out) {
    struct spinstore *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return PTL_NO_SPACE;
    s->o = *options;
    s->rank = spin_rank();
    s->port.eq = PTL_EQ_NONE;
    s->port.md = PTL_INVALID_HANDLE;
    s->port.pt = PTL_PT_ANY;
    int code = check(&s->o);
    bool serves = code == PTL_OK && s->rank == s->o.service;
    bool stores = code == PTL_OK && store_is_node(s, s->rank);
    if (code == PTL_OK)
        code = store_port_open(&s->port, ni,
                               serves   ? STORE_TO_SERVICE
                               : stores ? STORE_TO_NODE
                                        : STORE_TO_CLIENT);
    if (code == PTL_OK && s->o.secret)
        code = store_port_sign(&s->port, s->o.secret, serves);
    if (code == PTL_OK)
        code = serves ? store_service_open(s) : stores ? store_node_open(s) : store_client_open(s);
    if (code == PTL_OK)
        *out = s;
    else
        spinstore_leave(s);
    return code;
}

void spinstore_leave(struct spinstore *s) {
    if (!s)
        return;
    if (!s->service && !s->node)
        store_client_close(s);
    store_node_close(s);
    store_service_close(s);
    store_port_close(&s->port);
    free(s);
}

int spinstore_work(struct spinstore *s, ptl_time_t timeout_ms, bool *stopped) {
    *stopped = false;
    return s->service ? store_service_work(s, timeout_ms, stopped)
           : s->node  ? store_node_work(s, timeout_ms, stopped)
                      : PTL_ARG_INVALID;
}

int spinstore_serve(struct spinstore *s) {
    bool stopped = false;
    int code = PTL_OK;
    while (code == PTL_OK && !stopped)
        code = spinstore_work(s, PTL_TIME_FOREVER, &stopped);
    return code;
}
