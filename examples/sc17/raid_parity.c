/* SC'17 appendix C.3.5, the parity server. */
#include <spin/handler.h>

typedef struct {
    ptl_process_t source;
    ptl_process_t client;
    ptl_size_t offset;
} parity_info_t;

/* The client stands in hdr_data, where the data server puts it. */
int parity_update_header_handler(const ptl_header_t h, void *state) {
    parity_info_t *i = state;
    i->source = h.source_id;
    i->client = (ptl_process_t)h.hdr_data;
    return PROCESS_DATA;
}

int parity_update_payload_handler(const ptl_payload_t p, void *state) {
    parity_info_t *i = state;
    uint32_t *buf = malloc(p.length);
    PtlHandlerDMAFromHostB(i->offset + p.offset, buf, p.length, PTL_ME_HOST_MEM);

    uint32_t *data = (uint32_t *)p.base;
    for (uint32_t j = 0; j < p.length / sizeof(uint32_t); j++)
        buf[j] = (buf[j] ^ data[j]);

    PtlHandlerDMAToHostB(buf, i->offset + p.offset, p.length, PTL_ME_HOST_MEM);
    free(buf);
    return SUCCESS;
}

int parity_update_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    parity_info_t *i = state;
    uint8_t reply = SUCCESS;
    (void)dropped_bytes, (void)flow_control_triggered;
    PtlHandlerPutFromDevice(&reply, 1, PTL_LOCAL_ME_CT, 0, i->source, 30, 0, NULL, i->client);
    return SUCCESS;
}
