/* A user header, as SC'17 appendix C.3.5 declares and reads it: the type before the include. */
#include <stdint.h>

typedef struct {
    int length;
    uint32_t client;
} ptl_user_header_t;
#include "spin/handler.h"

__handler int primary_read_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    PtlHandlerPutFromHost(h.offset, (ptl_size_t)h.user_hdr.length, PTL_LOCAL_ME_CT, 0, h.source_id,
                          h.match_bits, 0, NULL, 0);
    return PROCEED;
}

__handler int parity_update_header_handler(const ptl_header_t h, void *state) {
    *(uint32_t *)state = h.user_hdr.client;
    return PROCESS_DATA;
}
