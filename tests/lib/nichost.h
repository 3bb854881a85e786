/* What a host program does, in one line each. */
#ifndef TESTS_NICHOST_H
#define TESTS_NICHOST_H

#include "lib/nicworld.h"

#define HOST __attribute__((unused)) static

HOST ptl_me_t host_entry(void *start, uint64_t length, uint64_t match_bits, unsigned options) {
    return (ptl_me_t){.start = start,
                      .length = length,
                      .ct_handle = PTL_CT_NONE,
                      .uid = PTL_UID_ANY,
                      .options = options,
                      .match_id = {.rank = PTL_RANK_ANY},
                      .match_bits = match_bits,
                      .hpu_memory = PTL_INVALID_HANDLE};
}

HOST ptl_handle_me_t host_append(struct node *n, const ptl_me_t *me) {
    ptl_handle_me_t handle;
    CHECK_EQ(portals_me_append(n->portals, n->ni, 0, me, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    return handle;
}

HOST void host_post(struct node *n, void *start, uint64_t length, uint64_t match_bits,
                    unsigned options) {
    ptl_me_t me = host_entry(start, length, match_bits, options);
    host_append(n, &me);
}

HOST ptl_handle_md_t host_md(struct node *n, void *start, uint64_t length) {
    ptl_md_t md = {.start = start, .length = length, .eq_handle = n->eq, .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle;
    CHECK_EQ(portals_md_bind(n->portals, n->ni, &md, &handle), PTL_OK);
    return handle;
}

/* To the beginning of an entry. */
HOST struct portals_request host_put(ptl_handle_md_t md, uint64_t offset, uint64_t length,
                                     uint32_t rank, uint64_t match_bits) {
    return (struct portals_request){.kind = PORTALS_PUT,
                                    .md = md,
                                    .local_offset = offset,
                                    .length = length,
                                    .target = {.rank = rank},
                                    .match_bits = match_bits};
}

#define HOST_SILENCE 100000u /* then the cleanup handler runs */

/* An entry with handlers: a mask of 1 header, 2 payload, 4 completion, 8 cleanup, of the image
 * NIC_IMAGE. */
HOST ptl_me_t host_handlers(struct node *n, ptl_me_t me, unsigned which) {
    static const char *const names[] = {"nic_header_handler", "nic_payload_handler",
                                        "nic_completion_handler", "nic_cleanup_handler"};
    const char *path = getenv("NIC_IMAGE");
    ptl_handler_t handler[4] = {NULL};
    CHECK(path != NULL);
    if (!n->image && portals_image_load(n->portals, n->ni, path, NULL, 0, &n->image) != PTL_OK)
        TEST_FAIL("%s: %s", path, portals_image_error(n->portals));
    for (uint32_t i = 0; i < 4; i++)
        if (which >> i & 1)
            CHECK_EQ(portals_image_find(n->portals, n->image, names[i], &handler[i]), PTL_OK);
    me.options |= PTL_ME_HANDLERS;
    me.header_handler = handler[0];
    me.payload_handler = handler[1];
    me.completion_handler = handler[2];
    me.options |= handler[3] ? PTL_ME_CLEANUP : 0;
    me.cleanup_handler = handler[3];
    me.cleanup_time = HOST_SILENCE;
    CHECK_EQ(portals_hpu_alloc(n->portals, n->ni, 256, &me.hpu_memory), PTL_OK);
    return me;
}

#endif
