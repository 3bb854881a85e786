/* For live cards with several workers (live_hpu_test.c). What they share they read by atomics too,
 * so that the thread sanitizer, which sees the interpreter's loads, has nothing to say. */
#include <spin/handler.h>

struct state {
    uint32_t sum, swaps, ids, met;
    uint64_t wide, slow;
};

static uint32_t look(uint32_t *word) {
    uint32_t nothing = 0;
    __asm__("" : "+r"(nothing)); /* or the compiler would make a load of it */
    return __atomic_fetch_add(word, nothing, __ATOMIC_RELAXED);
}

/* Counts in every way there is to count in HPU memory. */
__handler int count_payload_handler(const ptl_payload_t p, void *state) {
    struct state *s = state;
    const uint32_t *word = (const uint32_t *)(const void *)p.base;
    uint64_t before;
    uint32_t old, mine = 1u << PTL_MY_HPU;
    if (__atomic_fetch_or(&s->ids, mine, __ATOMIC_RELAXED) & mine)
        return FAIL; /* another one runs on this HPU */
    for (uint32_t i = 0; i < p.length / 4; i++)
        __atomic_fetch_add(&s->sum, word[i], __ATOMIC_RELAXED);
    do
        old = look(&s->swaps);
    while (!__atomic_compare_exchange_n(&s->swaps, &old, old + 1, 0, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    PtlHandlerFAdd(&s->wide, &before, 1);
    do
        PtlHandlerFAdd(&s->slow, &before, 0);
    while (!PtlHandlerCAS(&s->slow, before, before + 1));
    __atomic_fetch_and(&s->ids, ~mine, __ATOMIC_RELAXED);
    return SUCCESS;
}

/* Says how far they have come. */
__handler int tell_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state) {
    (void)dropped_bytes, (void)flow_control_triggered;
    PtlHandlerDMAToHostB(state, 0, sizeof(struct state), PTL_HANDLER_HOST_MEM);
    return SUCCESS;
}

/* Returns when as many payload handlers have begun as the message has packets, which they do only
 * if they run at the same time. */
__handler int meet_payload_handler(const ptl_payload_t p, void *state) {
    struct state *s = state;
    (void)p;
    __atomic_fetch_add(&s->met, 1, __ATOMIC_RELAXED);
    while (look(&s->met) < 2)
        ;
    return SUCCESS;
}

__handler int loop_header_handler(const ptl_header_t h, void *state) {
    (void)h, (void)state;
    for (;;)
        __asm__ volatile("");
}

__handler int fault_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    *(volatile uint32_t *)4 = 1;
    return SUCCESS;
}

/* Puts to where the message is from, until it is ended. */
__handler int flood_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    for (;;)
        PtlHandlerPutFromDevice(state, sizeof(struct state), PTL_NO_CT, PTL_NO_ACK_REQ, h.source_id,
                                99, 0, NULL, 0);
}

__handler int flood_host_header_handler(const ptl_header_t h, void *state) {
    (void)state;
    for (;;)
        PtlHandlerPutFromHost(0, 4096, PTL_NO_CT, PTL_NO_ACK_REQ, h.source_id, 99, 0, NULL, 0);
}

__handler int flood_of_gets_header_handler(const ptl_header_t h, void *state) {
    struct state *s = state;
    for (;;)
        PtlHandlerGetToDevice(&s->wide, 8, PTL_NO_CT, h.source_id, 50, 0, NULL);
}

/* Waits for data of the sender's. */
__handler int get_header_handler(const ptl_header_t h, void *state) {
    struct state *s = state;
    PtlHandlerGetToDevice(&s->wide, 8, PTL_NO_CT, h.source_id, 50, 0, NULL);
    PtlHandlerDMAToHostB(&s->wide, 0, 8, PTL_HANDLER_HOST_MEM);
    return PROCEED;
}

enum { PAGE = 4096 };

/* To, from and on pages of host memory of their own, each waited for. */
__handler int pages_header_handler(const ptl_header_t h, void *state) {
    struct state *s = state;
    uint64_t before = 1, seen = 1, expected = 0;
    s->wide = h.hdr_data;
    PtlHandlerDMAToHostB(&s->wide, 0, 8, PTL_HANDLER_HOST_MEM);
    PtlHandlerDMAFromHostB(PAGE, &seen, 8, PTL_HANDLER_HOST_MEM);
    PtlHandlerDMAFetchAddB(2 * PAGE, h.hdr_data, &before, PTL_UINT64_T, PTL_HANDLER_HOST_MEM);
    PtlHandlerDMACASB(3 * PAGE, &expected, h.hdr_data, PTL_HANDLER_HOST_MEM);
    return seen || before || expected ? FAIL : PROCEED;
}

/* The same, and returns at once: what is stored or compared must be as it was. */
__handler int hasty_header_handler(const ptl_header_t h, void *state) {
    struct state *s = state;
    uint64_t before = 0, seen = 0, expected = 0, mine = h.hdr_data;
    ptl_dma_h each;
    PtlHandlerDMAToHostNB(&mine, 0, 8, PTL_HANDLER_HOST_MEM, &each);
    PtlHandlerDMAFromHostNB(PAGE, &seen, 8, PTL_HANDLER_HOST_MEM, &each);
    PtlHandlerDMAFetchAddNB(2 * PAGE, h.hdr_data, &before, PTL_UINT64_T, PTL_HANDLER_HOST_MEM,
                            &each);
    PtlHandlerDMACASNB(3 * PAGE, &expected, h.hdr_data, PTL_HANDLER_HOST_MEM, &each);
    __atomic_fetch_add(&s->met, 1, __ATOMIC_RELAXED);
    return PROCEED;
}

static volatile uint32_t *driver(uint32_t reg) {
    return (volatile uint32_t *)(uintptr_t)(SPIN_DRIVER_BASE + reg);
}

/* Nothing of the handler before is left: not in registers that the compiler does not use, not
 * in the driver's, and the heap begins anew. Then copies the packet out and looks at it there.
 * The word that says where to is left as it must be, 0, and is another when it ends. */
__handler int fresh_payload_handler(const ptl_payload_t p, void *state) {
    uint32_t left, *copy;
    ptl_dma_h handle;
    __asm__ volatile("or %0, t3, t4\n or %0, %0, t5\n or %0, %0, t6\n"
                     "li t3, -1\n li t4, -1\n li t5, -1\n li t6, -1"
                     : "=r"(left)
                     :
                     : "t3", "t4", "t5", "t6");
    if (left || *driver(SPIN_REG_RESULT) || *driver(SPIN_REG_PACKET_SIZE) != p.length)
        return FAIL;
    *driver(SPIN_REG_WORD) = (uint32_t)(uintptr_t)p.base;
    *driver(SPIN_REG_WORD + 4) = p.offset;
    *driver(SPIN_REG_WORD + 8) = p.length;
    *driver(SPIN_REG_ISSUE) = SPIN_COMMAND_DMA_TO_HOST;
    if (*driver(SPIN_REG_RESULT) != 1 || PtlHandlerDMAWait(1))
        return FAIL;
    copy = malloc(12000);
    if (!copy || malloc(8000)) /* there are 16 KiB */
        return FAIL;
    PtlHandlerDMAFromHostNB(p.offset, copy, p.length, PTL_ME_HOST_MEM, &handle);
    if (handle != 2 || PtlHandlerDMAWait(handle))
        return FAIL;
    for (uint32_t i = 0; i < p.length; i++)
        if (((uint8_t *)copy)[i] != ((const uint8_t *)p.base)[i])
            return FAIL;
    struct state *s = state;
    __atomic_fetch_add(&s->sum, 1, __ATOMIC_RELAXED);
    *driver(SPIN_REG_WORD + 12) = PTL_HANDLER_HOST_MEM;
    return SUCCESS;
}

/* A byte too far. */
__handler int outside_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    PtlHandlerDMAToHostB(p.base, 8 * 4096 - p.length + 1, p.length, PTL_ME_HOST_MEM);
    return SUCCESS;
}

/* As much as there is no memory of the handler's for. */
__handler int inside_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    PtlHandlerDMAToHostB(p.base, 0, p.length + 1, PTL_ME_HOST_MEM);
    return SUCCESS;
}
