/* SC'17 appendix C.3.4: blocks of vlen bytes go to places that are vlen + stride apart. */
#include <spin/handler.h>

typedef struct {
    ptl_size_t offset;
    ptl_size_t vlen;
    ptl_size_t stride;
} ddtvec_info_t;

int ddtvec_payload_handler(const ptl_payload_t p, void *state) {
    ddtvec_info_t *i = (ddtvec_info_t *)state;
    ptl_size_t first_seg_num = (i->offset + p.offset) / i->vlen;
    ptl_size_t last_seg_num = (i->offset + p.offset + p.length) / i->vlen;
    ptl_size_t offset_in_packet = 0;
    for (ptl_size_t j = first_seg_num; j <= last_seg_num; j++) {
        ptl_size_t offset_in_block = (i->offset + p.offset + offset_in_packet) % i->vlen;
        ptl_size_t offset = j * (i->vlen + i->stride) + offset_in_block;
        ptl_size_t size = (i->vlen - offset_in_block) < (p.length - offset_in_packet)
                              ? (i->vlen - offset_in_block)
                              : (p.length - offset_in_packet);
        PtlHandlerDMAToHostB(p.base + offset_in_packet, offset, size, PTL_ME_HOST_MEM);
        offset_in_packet += size;
    }
    return SUCCESS;
}
