/* A strided datatype (SC'17 appendix C.3.4): packed data is put where it belongs, block by block.
 */
#include "spin/handler.h"

#include "p4_strided.h"

__handler int ddtvec_payload_handler(const ptl_payload_t p, void *state) {
    const struct p4_strided *i = state;
    for (ptl_size_t done = 0; done < p.length;) {
        ptl_size_t at = i->offset + p.offset + done, block = at / i->block;
        ptl_size_t in_block = at % i->block, left = i->block - in_block;
        ptl_size_t bytes = left < p.length - done ? left : p.length - done;
        PtlHandlerDMAToHostB(p.base + done, block * (i->block + i->gap) + in_block, bytes,
                             PTL_ME_HOST_MEM);
        done += bytes;
    }
    return SUCCESS;
}
