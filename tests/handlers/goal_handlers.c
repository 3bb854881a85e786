/* Handlers by GOAL's numbers: they count, in the memory of their entry behind its two arguments,
 * and the last one tells the host. */
#include <spin/handler.h>

struct counts {
    uint64_t arguments[2];
    uint32_t headers, packets;
};

__handler int hh1(const ptl_header_t h, void *state) {
    struct counts *c = state;
    (void)h;
    __atomic_fetch_add(&c->headers, 1, __ATOMIC_RELAXED);
    return PROCESS_DATA;
}

__handler int ph2(const ptl_payload_t p, void *state) {
    struct counts *c = state;
    (void)p;
    __atomic_fetch_add(&c->packets, 1, __ATOMIC_RELAXED);
    return SUCCESS;
}

__handler int ch3(int dropped_bytes, bool flow_control, void *state) {
    (void)dropped_bytes, (void)flow_control, (void)state;
    return SUCCESS;
}
