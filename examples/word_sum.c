/* The first handler: adds up the 32-bit words of a message while its packets pass by.
 *
 * The header handler clears the sum, each payload handler adds its packet's words, on whichever HPU
 * it runs, and the completion handler sends the sum back to where the message came from. */
#include <spin/handler.h>

typedef struct {
    uint32_t sum, packets;
    ptl_process_t source;
} sum_t;

__handler int sum_header_handler(const ptl_header_t h, void *state) {
    sum_t *s = state;
    s->sum = 0;
    s->packets = 0;
    s->source = h.source_id;
    return PROCESS_DATA;
}

__handler int sum_payload_handler(const ptl_payload_t p, void *state) {
    sum_t *s = state;
    const uint32_t *word = (const uint32_t *)p.base;
    uint32_t sum = 0;
    for (ptl_size_t i = 0; i < p.length / 4; i++)
        sum += word[i];
    __atomic_fetch_add(&s->sum, sum, __ATOMIC_RELAXED);
    __atomic_fetch_add(&s->packets, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

__handler int sum_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    sum_t *s = state;
    if (dropped_bytes || flow_control_triggered)
        return FAIL;
    PtlHandlerPutFromDevice(&s->sum, sizeof s->sum, PTL_LOCAL_ME_CT, 0, s->source, 10, 0, NULL, 0);
    return SUCCESS;
}
