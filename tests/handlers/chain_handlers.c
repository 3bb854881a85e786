/* Each rank's card stores a message and passes it on to the next rank, packet by packet. Where to
 * and as what stream stands in HPU memory, by the number of the message. */
#include <spin/handler.h>

typedef struct {
    uint32_t ranks, reserved[3];
} ptl_user_header_t;

struct chain {
    uint32_t rank, cut; /* cut: of every so many packets one is not passed on; 0: none */
    uint32_t packets;
    uint32_t stream[64];
};

__handler int chain_header_handler(const ptl_header_t h, void *state) {
    struct chain *c = state;
    uint32_t next = c->rank + 1;
    ptl_stream_t *stream = &c->stream[PtlHandlerMessage() % 64];
    PtlHandlerDMAToHostB(&h.user_hdr, h.offset, sizeof h.user_hdr, PTL_ME_HOST_MEM);
    *stream = 0;
    if (next < h.user_hdr.ranks)
        *stream = PtlHandlerStreamStart(&h.user_hdr, sizeof h.user_hdr, h.length, next,
                                        h.match_bits, h.offset, h.hdr_data);
    return PROCESS_DATA;
}

__handler int chain_payload_handler(const ptl_payload_t p, void *state) {
    struct chain *c = state;
    ptl_stream_t stream = c->stream[PtlHandlerMessage() % 64];
    uint32_t number = __atomic_fetch_add(&c->packets, 1, __ATOMIC_RELAXED);
    ptl_dma_h dma;
    PtlHandlerDMAToHostNB(p.base, p.offset, p.length, PTL_ME_HOST_MEM, &dma);
    if (stream && !(c->cut && number % c->cut == 1))
        PtlHandlerStreamPut(stream, p.base, p.length, p.offset);
    PtlHandlerDMAWait(dma);
    return SUCCESS;
}

__handler int chain_completion_handler(int dropped, bool flow_control, void *state) {
    (void)state;
    return dropped || flow_control ? FAIL : SUCCESS;
}

/* Writes a word behind the message. */
__handler int chain_cleanup_handler(int dropped, bool flow_control, void *state) {
    uint32_t words[2] = {0xc1ea2u, (uint32_t)dropped};
    (void)state;
    (void)flow_control;
    PtlHandlerDMAToHostB(words, 0, sizeof words, PTL_HANDLER_HOST_MEM);
    return SUCCESS;
}
