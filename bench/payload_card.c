#include <spin/handler.h>

#define STORE(host, offset, from, bytes)                                                           \
    do {                                                                                           \
        ptl_dma_h storing;                                                                         \
        (void)(host);                                                                              \
        PtlHandlerDMAToHostNB(from, offset, bytes, PTL_ME_HOST_MEM, &storing);                     \
    } while (0)
#include "payload.h"

#define ROW(name)                                                                                  \
    __handler int name##_payload_handler(const ptl_payload_t p, void *state) {                     \
        name(state, (const uint32_t *)(const void *)p.base, p.length, p.offset, 0);                \
        return SUCCESS;                                                                            \
    }
PAYLOADS(ROW)

/* What starting a handler takes. */
__handler int empty_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    return SUCCESS;
}
