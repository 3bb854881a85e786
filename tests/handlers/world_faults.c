/* Handlers that go wrong, one way each, for a world to tell. */
#include <spin/handler.h>

int big_payload_handler(const ptl_payload_t p, void *state) {
    const ptl_process_t to = *(const ptl_process_t *)state;
    PtlHandlerPutFromDevice(p.base, 5000, PTL_NO_CT, 0, to, 9, 0, NULL, 0); /* line: big */
    return SUCCESS;
}

int far_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    PtlHandlerDMAToHostB(p.base, 60, 8, PTL_ME_HOST_MEM); /* line: far */
    return SUCCESS;
}

int wild_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    *(volatile uint32_t *)0x20000000 = p.length; /* line: wild */
    return SUCCESS;
}

/* One byte too many; found by --check alone. */
int heap_payload_handler(const ptl_payload_t p, void *state) {
    uint8_t *first = malloc(12), *second = malloc(13);
    (void)state;
    second[0] = p.base[0];
    for (volatile int i = 0; i <= 12; i++)
        first[i] = second[0]; /* line: heap */
    return SUCCESS;
}

/* More allocations than an HPU has windows, used again and again; then one byte too many. */
int many_payload_handler(const ptl_payload_t p, void *state) {
    uint8_t *piece[40];
    uint32_t *sum = state;
    for (uint32_t i = 0; i < 40; i++)
        piece[i] = malloc(p.base[0] + i); /* 9 and more */
    for (uint32_t turn = 0; turn < 3; turn++)
        for (uint32_t i = 0; i < 40; i++)
            for (uint32_t k = 0; k < p.base[0] + i; k++)
                piece[i][k] = (uint8_t)(turn ? piece[i][k] + k : i);
    for (uint32_t i = 0; i < 40; i++)
        *sum += piece[i][p.base[0] + i - 1];
    *piece[39] = piece[p.base[1]][p.base[0] + p.base[1]]; /* line: many */
    return SUCCESS;
}

int copy_payload_handler(const ptl_payload_t p, void *state) {
    uint8_t *buffer = malloc(p.length - 1);
    (void)state;
    PtlHandlerDMAFromHostB(0, buffer, p.length, PTL_ME_HOST_MEM); /* line: copy */
    return SUCCESS;
}

int good_payload_handler(const ptl_payload_t p, void *state) {
    uint32_t *count = state;
    *count += p.length; /* line: good */
    return SUCCESS;
}

/* Some 12,000 cycles. */
int slow_payload_handler(const ptl_payload_t p, void *state) {
    volatile uint32_t *count = state;
    for (uint32_t i = 0; i < 2000; i++)
        *count += p.length;
    return SUCCESS;
}
