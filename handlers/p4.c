#include "p4.h"

#include <stdlib.h>
#include <string.h>

const char *p4_variant_name(enum p4_variant variant) {
    static const char *const names[] = {"RDMA", "Portals 4", "sPIN store", "sPIN stream"};
    return names[variant];
}

/* Ranks call it: a buffer on their stacks, or printf, would make
 * another page of each of them resident. */
char *p4_image_path(const struct p4_setup *setup, const char *image) {
    char *path = malloc(strlen(setup->images) + strlen(image) + sizeof "/.spin");
    if (path)
        stpcpy(stpcpy(stpcpy(stpcpy(path, setup->images), "/"), image), ".spin");
    return path;
}

static bool open_interface(struct p4_rank *r, const char *image) {
    ptl_md_t md = {.length = r->buffer_bytes, .ct_handle = PTL_CT_NONE, .eq_handle = PTL_EQ_NONE};
    md.start = r->buffer;
    if (PtlInit() != PTL_OK ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                  &r->ni) != PTL_OK ||
        spin_map_ranks(r->ni) != 0 || PtlEQAlloc(r->ni, 64, &r->eq) != PTL_OK ||
        PtlCTAlloc(r->ni, &r->ct) != PTL_OK ||
        PtlPTAlloc(r->ni, 0, r->eq, PTL_PT_ANY, &r->pt) != PTL_OK ||
        PtlMDBind(r->ni, &md, &r->md) != PTL_OK)
        return false;
    if (!image)
        return true;
    char *path = p4_image_path(r->setup, image);
    bool loaded = path && PtlImageLoad(r->ni, path, &r->image) == PTL_OK;
    free(path);
    return loaded;
}

bool p4_open_with(struct p4_rank *r, const struct p4_setup *setup, void *buffer, uint64_t bytes,
                  const char *image) {
    *r = (struct p4_rank){.setup = setup, .buffer = buffer, .buffer_bytes = bytes};
    return open_interface(r, image);
}

bool p4_open(struct p4_rank *r, const struct p4_setup *setup, uint64_t bytes, const char *image) {
    uint8_t *own = calloc(1, bytes);
    if (own && p4_open_with(r, setup, own, bytes, image)) {
        r->own = own;
        return true;
    }
    free(own);
    return false;
}

void p4_close(struct p4_rank *r) {
    PtlNIFini(r->ni);
    PtlFini();
    free(r->own);
}

/* Looked up once for all entries that have it. */
static bool find(struct p4_rank *r, const char *name, enum p4_handler which,
                 ptl_handler_t *handler) {
    *handler = NULL;
    if (!name)
        return true;
    if (r->found[which] != name && PtlImageFind(r->image, name, &r->handler[which]) != PTL_OK)
        return false;
    r->found[which] = name;
    *handler = r->handler[which];
    return true;
}

bool p4_append(struct p4_rank *r, const struct p4_entry *e) {
    ptl_handle_me_t handle;
    ptl_me_t me = {
        .start = r->buffer + e->start,
        .length = e->length,
        .ct_handle = r->ct,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_CT_COMM |
                   (e->counts_bytes ? PTL_ME_EVENT_CT_BYTES : 0u) |
                   /* only RDMA looks at full events */
                   (r->setup->variant == P4_RDMA ? 0u : PTL_ME_EVENT_SUCCESS_DISABLE),
        .match_id = {.rank = PTL_RANK_ANY},
        .match_bits = e->bits,
    };
    if (e->header || e->payload || e->completion) {
        me.options |= PTL_ME_HANDLERS;
        me.hpu_initial_state = (void *)(uintptr_t)e->state;
        me.hpu_initial_state_length = e->state_bytes;
        if (!find(r, e->header, P4_HEADER, &me.header_handler) ||
            !find(r, e->payload, P4_PAYLOAD, &me.payload_handler) ||
            !find(r, e->completion, P4_COMPLETION, &me.completion_handler) ||
            PtlHPUAllocMem(e->state_bytes, r->ni, &me.hpu_memory) != PTL_OK)
            return false;
    }
    return PtlMEAppend(r->ni, r->pt, &me, PTL_PRIORITY_LIST, NULL, &handle) == PTL_OK;
}

bool p4_put(struct p4_rank *r, uint64_t offset, uint64_t length, uint32_t target,
            ptl_match_bits_t bits) {
    return PtlPut(r->md, offset, length, PTL_NO_ACK_REQ, (ptl_process_t){.rank = target}, r->pt,
                  bits, 0, NULL, 0) == PTL_OK;
}

bool p4_wait(struct p4_rank *r, uint64_t n) {
    ptl_ct_event_t event;
    return PtlCTWait(r->ct, n, &event) == PTL_OK && event.failure == 0 && event.success >= n;
}

bool p4_receive(struct p4_rank *r) {
    ptl_event_t event;
    if (PtlEQWait(r->eq, &event) != PTL_OK || event.type != PTL_EVENT_PUT ||
        event.ni_fail_type != PTL_NI_OK)
        return false;
    p4_work(0, 64); /* the header is read from memory and compared */
    return true;
}
