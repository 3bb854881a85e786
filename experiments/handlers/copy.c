/* Copies into the cluster's L1, timed from the inside (ISCA'21 figure 4): by loads and stores, and
 * by its DMA engine. The packet says from where, and where the cycles go.
 *
 * By loads and stores eight words at a time: loads first, so that no store waits for its load, and
 * the loop's three instructions shared by eight. */
#include <handler.h>

#include "copies.h"

static inline __attribute__((always_inline)) uint32_t
timed_copy(volatile uint32_t *to, const volatile uint32_t *from, uint32_t words) {
    uint32_t start = spin_cycles();
    if (words < 8) {
        uint32_t word[8];
        for (uint32_t i = 0; i < words; i++)
            word[i] = from[i];
        for (uint32_t i = 0; i < words; i++)
            to[i] = word[i];
    } else {
        const volatile uint32_t *end = from + words;
#pragma clang loop unroll(disable)
        do {
            uint32_t a = from[0], b = from[1], c = from[2], d = from[3];
            uint32_t e = from[4], f = from[5], g = from[6], h = from[7];
            to[0] = a, to[1] = b, to[2] = c, to[3] = d;
            to[4] = e, to[5] = f, to[6] = g, to[7] = h;
            from += 8, to += 8;
            __asm__("" : "+r"(from), "+r"(to)); /* two pointers, not a sum and an index each */
        } while (from != end);
    }
    return spin_cycles() - start;
}

/* Between two readings of the clock with nothing between them. */
static inline __attribute__((always_inline)) uint32_t timed_nothing(void) {
    uint32_t start = spin_cycles();
    return spin_cycles() - start;
}

static void note(handler_args_t *args, uint32_t cycles) {
    const struct copies_request *request = (const struct copies_request *)args->task->pkt_mem;
    struct copies_memory *memory = (struct copies_memory *)args->task->handler_mem;
    memory->cycles[request->index] = cycles;
    memory->cluster[request->index] = args->cluster_id;
}

static struct copies_scratchpad *scratchpad(handler_args_t *args) {
    return (struct copies_scratchpad *)args->task->scratchpad[args->cluster_id];
}

static const uint32_t *source(handler_args_t *args) {
    const struct copies_request *request = (const struct copies_request *)args->task->pkt_mem;
    const struct copies_memory *memory = (const struct copies_memory *)args->task->handler_mem;
    return (const uint32_t *)(request->is_far ? memory->source : scratchpad(args)->near);
}

__handler__ void copy_0_ph(handler_args_t *args) {
    note(args, timed_nothing());
}

#define COPY(bytes)                                                                                \
    __handler__ void copy_##bytes##_ph(handler_args_t *args) {                                     \
        note(args, timed_copy((uint32_t *)scratchpad(args)->to, source(args), (bytes) / 4));       \
    }
COPY(4)
COPY(8)
COPY(16)
COPY(32)
COPY(64)
COPY(128)
COPY(256)
COPY(512)
COPY(1024)
COPY(2048)
COPY(4096)

__handler__ void dma_copy_ph(handler_args_t *args) {
    const struct copies_request *request = (const struct copies_request *)args->task->pkt_mem;
    struct copies_memory *memory = (struct copies_memory *)args->task->handler_mem;
    void *to = scratchpad(args)->to;
    uint32_t bytes = request->bytes;
    spin_dma_t copying;
    uint32_t start = spin_cycles();
    spin_dma(memory->source, to, bytes, SPIN_DMA_EXT2LOC, 0, &copying);
    spin_dma_wait(copying);
    note(args, spin_cycles() - start);
}
