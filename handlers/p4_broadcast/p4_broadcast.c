/* Broadcast on a binomial tree (SC'17 appendix C.3.3): each packet is forwarded to all children
 * from the card as it comes (stream), or the whole message from host memory once it is there
 * (store). */
#include "spin/handler.h"

#include "p4_broadcast.h"

__handler int bcast_header_handler(const ptl_header_t h, void *state) {
    struct p4_broadcast *i = state;
    i->length = h.length;
    i->streams = h.length <= i->most_streamed;
    return i->streams ? PROCESS_DATA : PROCEED;
}

__handler int bcast_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_broadcast *i = state;
    ptl_size_t at = i->offset + p.offset;
    ptl_match_bits_t bits = P4_PACKET(at / i->packet_bytes);
    ptl_dma_h stored;
    for (uint32_t half = i->ranks / 2; half >= 1; half /= 2)
        if (i->my_rank % (half * 2) == 0)
            PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, i->my_rank + half, bits, 0,
                                    NULL, 0);
    PtlHandlerDMAToHostNB(p.base, p.offset, p.length, PTL_ME_HOST_MEM, &stored);
    return SUCCESS; /* the message is complete when that is done */
}

__handler int bcast_completion_handler(int dropped_bytes, bool flow_control_triggered,
                                       void *state) {
    const struct p4_broadcast *i = state;
    (void)dropped_bytes, (void)flow_control_triggered;
    if (i->streams)
        return SUCCESS;
    for (uint32_t half = i->ranks / 2; half >= 1; half /= 2)
        if (i->my_rank % (half * 2) == 0)
            PtlHandlerPutFromHost(0, i->length, PTL_NO_CT, 0, i->my_rank + half, P4_WHOLE, 0, NULL,
                                  0);
    return SUCCESS;
}
