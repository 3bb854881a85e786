/* Every call of the handler interface once, with values that can be told apart. */
#include <spin/handler.h>

typedef struct {
    uint64_t word, before;
    uint32_t fetched, tested;
    ptl_ct_event_t counter;
    uint8_t copy[16];
} state_t;

__handler int dma_payload_handler(const ptl_payload_t p, void *state) {
    state_t *s = state;
    ptl_dma_h handle;
    PtlHandlerDMAToHostB(p.base, 8, 16, PTL_ME_HOST_MEM);
    PtlHandlerDMAFromHostNB(8, s->copy, 16, PTL_ME_HOST_MEM, &handle);
    PtlHandlerDMAWait(handle);
    s->tested = (uint32_t)PtlHandlerDMATest(handle);
    PtlHandlerDMAToHostB(p.base, 0, 4, PTL_HANDLER_HOST_MEM);
    uint64_t compare = 0;
    PtlHandlerDMACASB(64, &compare, 0x1122334455667788ull, PTL_ME_HOST_MEM);
    PtlHandlerDMAFetchAddB(64, 8, &s->fetched, 8, PTL_ME_HOST_MEM);
    return SUCCESS;
}

__handler int atomic_payload_handler(const ptl_payload_t p, void *state) {
    state_t *s = state;
    (void)p;
    s->word = 5;
    if (!PtlHandlerCAS(&s->word, 5, 0x100000007ull) || PtlHandlerCAS(&s->word, 5, 9))
        return FAIL;
    PtlHandlerFAdd(&s->word, &s->before, 0x200000001ull);
    PtlHandlerYield();
    return SUCCESS;
}

__handler int message_payload_handler(const ptl_payload_t p, void *state) {
    state_t *s = state;
    PtlHandlerPutFromHost(1, 2, PTL_LOCAL_ME_CT, 1, 3, 4, 5, NULL, 6);
    PtlHandlerPutFromDevice(p.base, 2, PTL_NO_CT, 0, 3, 0x900000004ull, 5, NULL, 6);
    PtlHandlerGetToHost(1, 2, PTL_LOCAL_ME_CT, 3, 4, 5, NULL);
    PtlHandlerGetToDevice(s->copy, 2, PTL_LOCAL_ME_CT, 3, 4, 5, NULL);
    PtlHandlerAtomicFromHost(0, 4, 1, 0, 3, 4, 5, NULL, 6, 2, 4);
    PtlHandlerAtomicFromDevice(p.base, 4, 1, 0, 3, 4, 5, NULL, 6, 2, 4);
    PtlHandlerCTSet((ptl_ct_event_t){10, 20});
    PtlHandlerCTInc((ptl_ct_event_t){1, 0});
    PtlHandlerCTInc((ptl_ct_event_t){0, 2});
    PtlHandlerCTGet(&s->counter);
    return SUCCESS;
}

__handler int heap_payload_handler(const ptl_payload_t p, void *state) {
    uint32_t *a = malloc(p.length), *b = malloc(12000), *c = malloc(12000);
    if (!a || !b || c || (const uint8_t *)b < (const uint8_t *)a + p.length)
        return FAIL;
    memcpy(a, p.base, p.length);
    memset(b, 0x5a, 12000);
    memmove((uint8_t *)a + 1, a, p.length - 1);
    int same = memcmp((uint8_t *)a + 1, p.base, p.length - 1);
    free(b);
    free(a);
    *(uint32_t *)state = PTL_MY_HPU;
    return same == 0 ? SUCCESS : FAIL;
}

__handler int header_seen_header_handler(const ptl_header_t h, void *state) {
    uint32_t *s = state;
    s[0] = h.length;
    s[1] = h.source_id;
    s[2] = h.target_id;
    s[3] = (uint32_t)(h.match_bits >> 32);
    s[4] = (uint32_t)h.hdr_data;
    s[5] = h.offset;
    s[6] = h.user_hdr.bytes[0];
    s[7] = h.type;
    return h.length > 1000 ? PROCESS_DATA_PENDING : PROCEED;
}

__handler int offset_payload_handler(const ptl_payload_t p, void *state) {
    uint32_t *s = state;
    s[0] = p.length;
    s[1] = p.offset;
    s[2] = p.base[0];
    return DROP;
}

/* Soft float and 64-bit division come from libgcc. */
__handler uint32_t mean(const uint32_t *words, uint32_t bytes) {
    float sum = 0;
    uint64_t total = 1ull << 40;
    for (uint32_t i = 0; i < bytes / 4; i++)
        sum += (float)words[i];
    return (uint32_t)(sum / 4.0f) + (uint32_t)(total / bytes % 1000);
}
