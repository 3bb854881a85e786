/* Fault-tolerant broadcast (SC'17 section 5.4): the first copy of a chunk is forwarded along the
 * binomial graph and stored; the others end here. */
#include "spin/handler.h"

#include "ftb_layout.h"

/* True for the first that asks. */
static int is_first(struct ftb_state *s, uint32_t chunk) {
    uint32_t bit = 1u << chunk % 32;
    return !(__atomic_fetch_or(&s->seen[chunk / 32], bit, __ATOMIC_RELAXED) & bit);
}

/* Whether this rank is still alive. */
static int may_forward(struct ftb_state *s) {
    if (s->may_forward == UINT32_MAX)
        return 1;
    uint32_t left = __atomic_fetch_sub(&s->may_forward, 1, __ATOMIC_RELAXED);
    if (left && left != UINT32_MAX)
        return 1;
    __atomic_fetch_add(&s->may_forward, 1, __ATOMIC_RELAXED);
    return 0;
}

__handler int ftb_payload_handler(const ptl_payload_t p, void *state) {
    struct ftb_state *s = state;
    const struct ftb_chunk *c = (const struct ftb_chunk *)p.base;
    uint32_t bytes = p.length - sizeof *c;
    if (p.length < sizeof *c || c->chunk >= s->chunks || bytes > s->chunk_bytes ||
        !is_first(s, c->chunk))
        return DROP;
    for (uint32_t k = 0; 1u << k < s->ranks; k++) {
        uint32_t to = ftb_neighbour(s->rank, s->ranks, k);
        if (to == c->root)
            continue;
        if (!may_forward(s))
            return DROP;
        PtlHandlerPutFromDevice(c, p.length, PTL_NO_CT, PTL_NO_ACK_REQ, to, c->sequence, 0, NULL,
                                c->total);
    }
    uint32_t at = sizeof(uint64_t) + c->chunk * s->chunk_bytes;
    uint64_t total = c->total;
    PtlHandlerDMAToHostB(&total, 0, sizeof total, PTL_ME_HOST_MEM);
    PtlHandlerDMAToHostB((const uint8_t *)(c + 1), at, bytes, PTL_ME_HOST_MEM);
    PtlHandlerCTInc((ptl_ct_event_t){.success = 1});
    return SUCCESS;
}
