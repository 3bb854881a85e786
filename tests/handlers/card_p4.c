/* Handlers of P4sPIN for the tests of the simulated card. hdr_data says what the header handler
 * returns; state has a row of four words per source. */
#include <spin/handler.h>

typedef struct {
    uint32_t headers, sum, packets, dropped;
} row_t;

__handler int card_header_handler(const ptl_header_t h, void *state) {
    row_t *row = (row_t *)state + h.source_id;
    row->headers++;
    return (int)h.hdr_data;
}

__handler int card_payload_handler(const ptl_payload_t p, void *state) {
    const uint32_t *word = (const uint32_t *)p.base;
    row_t *row = (row_t *)state + word[0];
    uint32_t sum = 0;
    ptl_size_t before;
    for (ptl_size_t i = 1; i < p.length / 4; i++)
        sum += word[i];
    __atomic_fetch_add(&row->sum, sum, __ATOMIC_RELAXED);
    __atomic_fetch_add(&row->packets, 1, __ATOMIC_RELAXED);
    PtlHandlerDMAFetchAddB(4096, 1, &before, 5 /* 32 bits, unsigned */, 0);
    uint32_t *copy = malloc(8);
    if (!copy)
        return FAIL;
    copy[0] = sum;
    copy[1] = before;
    PtlHandlerDMAToHostB(copy, p.offset, 8, 0);
    return SUCCESS;
}

__handler int card_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    (void)flow_control_triggered;
    row_t *row = state;
    __atomic_fetch_add(&row->dropped, (uint32_t)dropped_bytes, __ATOMIC_RELAXED);
    return SUCCESS;
}
