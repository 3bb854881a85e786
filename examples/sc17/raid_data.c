/* SC'17 appendix C.3.5, the data server of a RAID-5: what comes in is combined with what is there,
 * and goes on to the parity server; the acknowledgement of that one is passed to the client. */
#include <spin/handler.h>

#define PARITY_TAG 53

typedef struct {
    ptl_process_t source;
    ptl_process_t parity;
    ptl_size_t offset;
} primary_info_t;

typedef struct {
    int length;
} ptl_user_header_t;

int primary_write_header_handler(const ptl_header_t h, void *state) {
    primary_info_t *i = state;
    i->source = h.source_id;
    return PROCESS_DATA;
}

int primary_write_payload_handler(const ptl_payload_t p, void *state) {
    primary_info_t *i = state;
    uint32_t *buf = malloc(p.length);
    PtlHandlerDMAFromHostB(i->offset + p.offset, buf, p.length, PTL_ME_HOST_MEM);

    uint32_t *data = (uint32_t *)p.base;
    for (uint32_t j = 0; j < p.length / sizeof(uint32_t); j++)
        buf[j] = (buf[j] ^ data[j]);

    PtlHandlerDMAToHostB(buf, i->offset + p.offset, p.length, PTL_ME_HOST_MEM);
    PtlHandlerPutFromDevice(buf, p.length, PTL_LOCAL_ME_CT, 0, i->parity, PARITY_TAG, 0, NULL,
                            i->source);
    free(buf);
    return SUCCESS;
}

int primary_read_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    PtlHandlerPutFromHost(h.offset, h.user_hdr.length, PTL_LOCAL_ME_CT, 0, h.source_id,
                          h.match_bits, 0, NULL, 0);
    return PROCEED;
}

/* The client stands in hdr_data, where the parity server puts it. */
int primary_send_acknowledgement_header_handler(const ptl_header_t h, void *state) {
    uint8_t reply = SUCCESS;
    (void)state;
    PtlHandlerPutFromDevice(&reply, 1, PTL_LOCAL_ME_CT, 0, (ptl_process_t)h.hdr_data, h.match_bits,
                            0, NULL, 0);
    return PROCEED;
}
