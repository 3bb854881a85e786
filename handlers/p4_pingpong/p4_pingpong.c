/* Ping-pong (SC'17 appendix C.3.1): a message goes back to where it came from, packet by packet
 * from the card (stream), or whole from host memory once it is there (store). */
#include "spin/handler.h"

#include "p4_pingpong.h"

__handler int pingpong_header_handler(const ptl_header_t h, void *state) {
    struct p4_pingpong *i = state;
    i->source = h.source_id;
    i->offset = h.offset;
    i->length = h.length;
    i->streams = h.length <= i->most_streamed;
    return i->streams ? PROCESS_DATA : PROCEED;
}

__handler int pingpong_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_pingpong *i = state;
    PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, i->source, P4_PONG, p.offset, NULL, 0);
    return SUCCESS;
}

__handler int pingpong_completion_handler(int dropped_bytes, bool flow_control_triggered,
                                          void *state) {
    const struct p4_pingpong *i = state;
    (void)dropped_bytes, (void)flow_control_triggered;
    if (!i->streams)
        PtlHandlerPutFromHost(i->offset, i->length, PTL_NO_CT, 0, i->source, P4_PONG, 0, NULL, 0);
    return SUCCESS;
}
