/* What the calls of P4sPIN need beside their arguments: constants of Portals, a user header that
 * the file defines after the include as the paper's listings do, results of every width, and
 * mistakes whose report names the call and its line. */
#include <spin/handler.h>

typedef struct {
    uint32_t length;
    ptl_process_t client;
} ptl_user_header_t;

_Static_assert(offsetof(ptl_header_t, offset) < offsetof(ptl_header_t, hdr_data), "appendix B.3");
_Static_assert(PTL_NO_ACK_REQ == 0 && PTL_OC_ACK_REQ == 3 && PTL_SUM == 2 && PTL_MSWAP == 17 &&
                   PTL_INT8_T == 0 && PTL_LONG_DOUBLE_COMPLEX == 13,
               "as in portals4.h");

static uint32_t of(const ptl_header_t *h) {
    const ptl_user_header_t *user = &h->user_hdr;
    return user->client;
}

__handler int user_header_handler(const ptl_header_t h, void *state) {
    uint32_t *s = state;
    s[0] = h.user_hdr.length;
    s[1] = of(&h);
    s[2] = (uint32_t)h.hdr_data;
    s[3] = h.offset;
    return PROCESS_DATA_PENDING;
}

__handler int add_payload_handler(const ptl_payload_t p, void *state) {
    (void)p;
    uint64_t *s = state;
    ptl_size_t small;
    ptl_dma_h handle;
    PtlHandlerDMAFetchAddB(0, 0x100000002ull, &s[0], PTL_UINT64_T, PTL_ME_HOST_MEM);
    PtlHandlerDMAFetchAddNB(0, -1, &s[1], PTL_INT64_T, PTL_ME_HOST_MEM, &handle);
    PtlHandlerDMAWait(handle);
    PtlHandlerDMAFetchAddB(8, 0xff, &s[2], PTL_INT8_T, PTL_ME_HOST_MEM);
    PtlHandlerDMAFetchAddB(8, 2, &s[3], PTL_INT8_T, PTL_ME_HOST_MEM);
    PtlHandlerDMAFetchAddB(0, 0, &small, PTL_UINT64_T, PTL_ME_HOST_MEM);
    s[4] = small;
    return PENDING;
}

__handler int outside_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    PtlHandlerDMAToHostB(p.base, 65532, 8, PTL_ME_HOST_MEM); /* line: outside */
    return SUCCESS;
}

__handler int foreign_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    PtlHandlerPutFromDevice(p.base, 2000, PTL_NO_CT, PTL_ACK_REQ, 1, 10, 0, NULL,
                            0); /* line: foreign */
    return SUCCESS;
}

__handler int type_payload_handler(const ptl_payload_t p, void *state) {
    (void)p;
    uint64_t *s = state;
    PtlHandlerDMAFetchAddB(0, 1, s, PTL_DOUBLE, PTL_ME_HOST_MEM); /* line: type */
    return SUCCESS;
}

__handler int both_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    PtlHandlerCTInc((ptl_ct_event_t){3, 2}); /* line: both */
    return SUCCESS;
}

__handler int handle_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    PtlHandlerDMAWait(77); /* line: handle */
    return SUCCESS;
}
