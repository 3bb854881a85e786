/* A DMA to memory that may not be there, and behind it one of nothing, which takes no time, from
 * elsewhere on the card or from the same place (world_cards_test.c). */
#include <spin/handler.h>

static uint8_t in_l2[64] = {1};

static int store(void *state, void *then) {
    ptl_dma_h slow, nothing;
    PtlHandlerDMAToHostNB(state, 0, 64, PTL_ME_HOST_MEM, &slow);
    PtlHandlerDMAToHostNB(then, 0, 0, PTL_ME_HOST_MEM, &nothing);
    PtlHandlerDMAWait(slow);
    return DROP;
}

__handler int same_header_handler(const ptl_header_t h, void *state) {
    (void)h;
    return store(state, state);
}

__handler int other_header_handler(const ptl_header_t h, void *state) {
    (void)h;
    return store(state, in_l2);
}
