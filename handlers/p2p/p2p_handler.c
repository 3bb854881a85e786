/* Rendezvous on the card (SC'17 section 5.1, case II of Figure 5b): the first part of a large
 * message has met its receive, so the card gets the rest from the sender. Small messages are stored
 * as Portals does. */
#include "spin/handler.h"

#include "p2p_layout.h"

__handler int p2p_header_handler(const ptl_header_t h, void *state) {
    const struct p2p_receive *r = state;
    uint32_t size = P2P_SIZE(h.hdr_data), have = h.length;
    if (size <= r->eager_bytes)
        return PROCEED;
    uint32_t end = size < r->room ? size : r->room;
    if (have > end)
        have = end;
    PtlHandlerGetToHost(have, end - have, PTL_NO_CT, h.source_id, P2P_OFFER(P2P_NAME(h.hdr_data)),
                        have, (void *)(uintptr_t)r->request);
    return PROCEED; /* the first part is stored where it belongs */
}
