/* Handlers that do what they must not. */
#include <spin/handler.h>

int counter = 7;
static const uint32_t constant[4] = {1, 2, 3, 4};

__handler int below_payload_handler(const ptl_payload_t p, void *state) {
    (void)p;
    return ((volatile uint8_t *)state)[-1];
}
__handler int above_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    volatile const uint8_t *past = p.base + p.length;
    return *past;
}
__handler int null_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    *(volatile int *)(uintptr_t)8 = 1;
    return SUCCESS;
}
__handler int constant_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    *(volatile uint32_t *)(uintptr_t)&constant[p.length & 3] = 1;
    return SUCCESS;
}
__handler int code_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    *(volatile uint32_t *)(uintptr_t)code_payload_handler = 0;
    return SUCCESS;
}
__handler int jump_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    return ((int (*)(void))(uintptr_t)p.base)();
}
__handler int loop_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    for (;;)
        __asm__ volatile("");
}
__handler int assert_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    assert(p.length == 12345);
    return SUCCESS;
}
__handler int trap_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    __builtin_trap();
}
__handler int misaligned_payload_handler(const ptl_payload_t p, void *state) {
    (void)p;
    uint32_t *odd = (uint32_t *)((uintptr_t)state + 2), old;
    __asm__ volatile("amoadd.w %0, zero, (%1)" : "=r"(old) : "r"(odd) : "memory");
    return SUCCESS;
}
__handler int stack_payload_handler(const ptl_payload_t p, void *state) {
    volatile uint8_t big[2000];
    for (uint32_t i = 0; i < sizeof big; i++)
        big[i] = p.base[0];
    return big[(uintptr_t)state & 1023];
}
__handler int command_payload_handler(const ptl_payload_t p, void *state) {
    (void)state;
    return PtlHandlerDMAToHostB(p.base, 0x7fffffff, 8, PTL_ME_HOST_MEM);
}
__handler int good_payload_handler(const ptl_payload_t p, void *state) {
    (void)p, (void)state;
    counter++;
    return SUCCESS;
}
