/* Accumulation (SC'17 appendix C.3.2): an array of complex numbers is multiplied into one in host
 * memory. Each packet's part is fetched, multiplied and stored. The product is the complex one; that
 * of the paper's listing has a wrong sign and uses its first result in the second. */
#include "spin/handler.h"

#include "p4_accumulate.h"

__handler int accumulate_header_handler(const ptl_header_t h, void *state) {
    struct p4_accumulate *i = state;
    i->offset = h.offset;
    return PROCESS_DATA;
}

__handler int accumulate_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_accumulate *i = state;
    float *sum = malloc(p.length);
    if (!sum)
        return FAIL;
    PtlHandlerDMAFromHostB(i->offset + p.offset, sum, p.length, PTL_ME_HOST_MEM);

    const float *data = (const float *)p.base;
    for (ptl_size_t j = 0; j < p.length / sizeof(float); j += 2) {
        float re = data[j] * sum[j] - data[j + 1] * sum[j + 1];
        float im = data[j] * sum[j + 1] + data[j + 1] * sum[j];
        sum[j] = re;
        sum[j + 1] = im;
    }

    PtlHandlerDMAToHostB(sum, i->offset + p.offset, p.length, PTL_ME_HOST_MEM);
    free(sum);
    return SUCCESS;
}
