/* A strided datatype (SC'17 appendix C.3.4): packed data is put where it belongs, block by block.
 */
#include "spin/handler.h"

#include "p4_strided.h"

__handler int ddtvec_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_strided *i = state;
    ptl_size_t at = i->offset + p.offset, in_block = at % i->block;
    ptl_size_t to = at / i->block * (i->block + i->gap) + in_block, left = i->block - in_block;
    for (ptl_size_t done = 0; done < p.length;) {
        ptl_size_t bytes = left < p.length - done ? left : p.length - done;
        ptl_dma_h stored; /* the message is complete when all are */
        PtlHandlerDMAToHostNB(p.base + done, to, bytes, PTL_ME_HOST_MEM, &stored);
        done += bytes;
        to += bytes + i->gap;
        left = i->block;
    }
    return SUCCESS;
}
