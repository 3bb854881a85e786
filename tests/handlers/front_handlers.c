/* Handlers that say what they were called with, in the handlers' host memory, and do what their
 * state says (fronts_test.c). */
#include <spin/handler.h>

#define FAULTS 100

struct state {
    uint32_t code[3], count;
};

static int tell(struct state *s, uint32_t kind, uint32_t a, uint32_t b) {
    const uint32_t entry[4] = {kind, a, b, 1};
    uint32_t at = __atomic_fetch_add(&s->count, 1, __ATOMIC_RELAXED);
    PtlHandlerDMAToHostB(entry, at * sizeof entry, sizeof entry, PTL_HANDLER_HOST_MEM);
    if (s->code[kind] == FAULTS)
        *(volatile uint32_t *)4 = 1;
    return (int)s->code[kind];
}

__handler int front_header_handler(const ptl_header_t h, void *state) {
    return tell(state, 0, h.length, h.type);
}

__handler int front_payload_handler(const ptl_payload_t p, void *state) {
    return tell(state, 1, p.offset, p.length);
}

__handler int front_completion_handler(int dropped_bytes, bool flow_control_triggered,
                                       void *state) {
    return tell(state, 2, (uint32_t)dropped_bytes, flow_control_triggered);
}
