/* A payload handler that sends its packet on as it came, then writes over it and sends that, too
 * (tests/programs/relay.c): others must see what was there when it was sent. */
#include "spin/handler.h"

struct relay {
    uint32_t rank, ranks, half; /* half: bytes of a message */
};

__handler int relay_header_handler(const ptl_header_t h, void *state) {
    (void)h, (void)state;
    return PROCESS_DATA;
}

__handler int relay_payload_handler(const ptl_payload_t p, void *state) {
    const struct relay *relay = state;
    uint32_t *word = (uint32_t *)p.base, at = word[0]; /* where it is in the first message */
    if (relay->rank + 1 < relay->ranks)
        PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, relay->rank + 1, 1, at, NULL, 0);
    PtlHandlerDMAToHostB(p.base, at, p.length, PTL_ME_HOST_MEM);
    for (uint32_t i = 0; i < p.length / 4; i++) /* the first store is to a packet of many cards */
        word[i] += relay->rank;
    PtlHandlerDMAToHostB(p.base, relay->half + at, p.length, PTL_ME_HOST_MEM);
    PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, 0, 100 + relay->rank, at, NULL, 0);
    word[0] = 0; /* of no message */
    return SUCCESS;
}

/* The same with memory of the packet that a command writes, not an instruction. */
__handler int relay_read_payload_handler(const ptl_payload_t p, void *state) {
    const struct relay *relay = state;
    uint32_t *word = (uint32_t *)p.base, at = word[0];
    if (relay->rank + 1 < relay->ranks)
        PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, relay->rank + 1, 1, at, NULL, 0);
    PtlHandlerDMAToHostB(p.base, at, p.length, PTL_ME_HOST_MEM);
    PtlHandlerDMAFromHostB(2 * relay->half, word, p.length, PTL_ME_HOST_MEM);
    PtlHandlerDMAToHostB(p.base, relay->half + at, p.length, PTL_ME_HOST_MEM);
    PtlHandlerPutFromDevice(p.base, p.length, PTL_NO_CT, 0, 0, 100 + relay->rank, at, NULL, 0);
    return SUCCESS;
}

/* Beyond its packet, whatever that is made of. */
__handler int relay_beyond_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    ((volatile uint8_t *)p.base)[0] = 1;
    ((volatile uint8_t *)p.base)[p.length] = 1;
    return SUCCESS;
}
