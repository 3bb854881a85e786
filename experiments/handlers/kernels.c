#include "kernels.h"

#ifdef __riscv
#include <spin/handler.h>
#define KERNEL __handler
#else
#include <string.h>
#define KERNEL
#endif

/* RI5CY pays 3 cycles for a taken branch: eight words a turn. */
#ifdef __clang__
#define UNROLL _Pragma("unroll 8")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

static inline void add(uint32_t *to, uint32_t value) {
    __atomic_fetch_add(to, value, __ATOMIC_RELAXED);
}

/* Every word of the message into one sum. */
KERNEL void kernel_aggregate(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                             uint8_t *host) {
    const uint32_t *word = (const uint32_t *)(const void *)packet;
    uint32_t sum = 0;
    (void)host;
    UNROLL
    for (uint32_t i = 0; i < bytes / 4; i++)
        sum += word[i];
    add(&state->sum, sum);
}

/* Word i of every packet into entry i. */
KERNEL void kernel_reduce(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                          uint8_t *host) {
    const uint32_t *word = (const uint32_t *)(const void *)packet;
    (void)host;
    UNROLL
    for (uint32_t i = 0; i < bytes / 4; i++)
        add(&state->vector[i], word[i]);
}

/* Counts how often each value comes. */
KERNEL void kernel_histogram(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                             uint8_t *host) {
    const uint32_t *word = (const uint32_t *)(const void *)packet;
    (void)host;
    UNROLL
    for (uint32_t i = 0; i < bytes / 4; i++)
        add(&state->bin[word[i]], 1);
}

/* A packet from a known address gets the port of its rule. */
KERNEL void kernel_filtering(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                             uint8_t *host) {
    uint32_t address = *(const uint32_t *)(const void *)(packet + KERNEL_IP_SRC);
    uint32_t at = kernel_hash(address);
    (void)bytes, (void)host;
    while (state->rule[at].address && state->rule[at].address != address)
        at = (at + 1) & (KERNEL_RULES - 1);
    if (state->rule[at].address)
        *(uint16_t *)(void *)(packet + KERNEL_UDP_DST) = (uint16_t)state->rule[at].port;
}

/* A set-associative cache of values by key. The entry touched longest ago makes room. Updates are
 * single words: a reader may see a key with the value before, never a torn one. */
KERNEL void kernel_kvstore(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                           uint8_t *host) {
    struct kernel_request *request = (struct kernel_request *)(void *)packet;
    uint32_t key = request->key;
    struct kernel_entry *set = state->cache.entry[key % KERNEL_SETS], *victim = set;
    uint32_t now = __atomic_add_fetch(&state->cache.clock, 1, __ATOMIC_RELAXED);
    (void)bytes, (void)host;
    for (uint32_t way = 0; way < KERNEL_WAYS; way++) {
        if (set[way].key == key) {
            set[way].used = now;
            add(&state->cache.hits, 1);
            if (request->write)
                set[way].value = request->value;
            else
                request->value = set[way].value;
            return;
        }
        if (set[way].used < victim->used)
            victim = &set[way];
    }
    if (request->write) {
        victim->key = key;
        victim->value = request->value;
        victim->used = now;
    }
}

/* Contiguous data into blocks with gaps between them. */
KERNEL void kernel_strided_ddt(uint8_t *packet, uint32_t bytes, union kernel_state *state,
                               uint8_t *host) {
    uint32_t block = state->layout.block, stride = state->layout.stride, to = 0;
    for (uint32_t from = 0; from < bytes; from += block, to += stride) {
#ifdef __riscv
        ptl_dma_h handle;
        (void)host;
        PtlHandlerDMAToHostNB(packet + from, to, block, PTL_ME_HOST_MEM, &handle);
#else
        memcpy(host + to, packet + from, block);
#endif
    }
}
