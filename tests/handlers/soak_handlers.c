/* Stores what comes, changed, where it would have gone without a handler (tests/programs/soak.c).
 */
#include <spin/handler.h>

__handler int change_payload_handler(const ptl_payload_t p, void *state) {
    uint8_t piece[256];
    (void)state;
    for (uint32_t at = 0; at < p.length; at += sizeof piece) {
        uint32_t bytes = p.length - at < sizeof piece ? p.length - at : sizeof piece;
        for (uint32_t i = 0; i < bytes; i++)
            piece[i] = p.base[at + i] ^ 0x5a;
        PtlHandlerDMAToHostB(piece, p.offset + at, bytes, PTL_ME_HOST_MEM);
    }
    return SUCCESS;
}
