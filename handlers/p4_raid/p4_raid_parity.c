/* The parity server of a RAID-5 (SC'17 appendix C.3.5): changes of data are applied to the parity
 * in host memory, and their sender is told. */
#include "spin/handler.h"

#include "p4_raid.h"

__handler int parity_update_header_handler(const ptl_header_t h, void *state) {
    struct p4_raid_parity *i = state;
    i->source = h.source_id;
    i->client = (uint32_t)h.hdr_data;
    i->offset = h.offset;
    return PROCESS_DATA;
}

__handler int parity_update_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_raid_parity *i = state;
    ptl_size_t at = i->offset + p.offset;
    uint32_t *parity = malloc(p.length);
    if (!parity)
        return FAIL;
    const uint32_t *change = (const uint32_t *)p.base;
    PtlHandlerDMAFromHostB(at, parity, p.length, PTL_ME_HOST_MEM);
    for (ptl_size_t j = 0; j < p.length / sizeof(uint32_t); j++)
        parity[j] ^= change[j];
    PtlHandlerDMAToHostB(parity, at, p.length, PTL_ME_HOST_MEM);
    free(parity);
    return SUCCESS;
}

__handler int parity_update_completion_handler(int dropped_bytes, bool flow_control_triggered,
                                               void *state) {
    const struct p4_raid_parity *i = state;
    (void)dropped_bytes, (void)flow_control_triggered;
    uint8_t reply = SUCCESS;
    PtlHandlerPutFromDevice(&reply, 1, PTL_NO_CT, 0, i->source, P4_STORED, 0, NULL, i->client);
    return SUCCESS;
}
