/* Accumulation (SC'17 appendix C.3.2): an array of complex numbers is multiplied into one in host
 * memory. Each packet's part is fetched, multiplied and stored. The product is the complex one;
 * that of the paper's listing has a wrong sign and uses its first result in the second. */
#include "spin/handler.h"

#include "p4_accumulate.h"

#pragma STDC FP_CONTRACT ON /* as compilers for the paper's core do by themselves */

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

    const float *data = (const float *)p.base, *end = data + p.length / sizeof(float);
    float *at = sum;
#pragma clang loop unroll_count(8)
    for (; data != end; data += 2, at += 2) {
        float re = data[0] * at[0] - data[1] * at[1];
        float im = data[0] * at[1] + data[1] * at[0];
        at[0] = re;
        at[1] = im;
    }

    PtlHandlerDMAToHostB(sum, i->offset + p.offset, p.length, PTL_ME_HOST_MEM);
    free(sum);
    return SUCCESS;
}
