/* On the card of rank 0: adds up a number from every other rank. Handlers of different messages run
 * side by side on the card's HPUs, so they add atomically; the one that adds the last number stores
 * the total in host memory. */
#include "spin/handler.h"

struct sum {
    uint64_t total, left;
};

__handler int sum_payload_handler(const ptl_payload_t p, void *state) {
    struct sum *s = state;
    uint64_t before;
    PtlHandlerFAdd(&s->total, &before, *(const uint32_t *)p.base);
    PtlHandlerFAdd(&s->left, &before, (uint64_t)-1);
    if (before == 1)
        PtlHandlerDMAToHostB(&s->total, 0, sizeof s->total, PTL_ME_HOST_MEM);
    return SUCCESS;
}
