/* The data server of a RAID-5 (SC'17 appendix C.3.5): a write is applied to host memory, and what
 * it changed is sent to the parity server, packet by packet. */
#include "spin/handler.h"

#include "p4_raid.h"

__handler int primary_write_header_handler(const ptl_header_t h, void *state) {
    struct p4_raid_data *i = state;
    i->source = h.source_id;
    i->offset = h.offset;
    return PROCESS_DATA;
}

__handler int primary_write_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_raid_data *i = state;
    ptl_size_t at = i->offset + p.offset;
    uint32_t *change = malloc(p.length);
    if (!change)
        return FAIL;
    const uint32_t *data = (const uint32_t *)p.base;
    ptl_dma_h stored;
    PtlHandlerDMAFromHostB(at, change, p.length, PTL_ME_HOST_MEM);
    PtlHandlerDMAToHostNB(data, at, p.length, PTL_ME_HOST_MEM, &stored);
    for (ptl_size_t j = 0; j < p.length / sizeof(uint32_t); j++)
        change[j] ^= data[j];
    PtlHandlerPutFromDevice(change, p.length, PTL_NO_CT, 0, i->parity, P4_PARITY, at, NULL,
                            i->source);
    free(change);
    return SUCCESS;
}

/* The parity server has it: so the client is told. */
__handler int primary_send_acknowledgement_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    uint8_t reply = SUCCESS;
    PtlHandlerPutFromDevice(&reply, 1, PTL_NO_CT, 0, (ptl_process_t)h.hdr_data, P4_DONE, 0, NULL,
                            0);
    return DROP;
}
