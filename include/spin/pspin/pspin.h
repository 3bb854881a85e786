/* pspin.h of PsPIN: atomics, waiting, locks of one word. */
#ifndef SPIN_PSPIN_H
#define SPIN_PSPIN_H

#include <assert.h>
#include <stdlib.h>

#include "spin/target.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MEM_ALIGNMENT           4
#define ALIGN_UP(number, align) ((((uint32_t)(number)) + ((align)-1)) & ~((align)-1))
#define DMA_MAX_XFER_SIZE       32768
#define DMA_NULL                0

typedef uint32_t dma_t;
typedef volatile uint32_t futex_t; /* 0: free */

/* What was written must be in memory before the card is told of it, and what the card wrote must be
 * read again. */
#define SPIN_ORDER() __asm__ volatile("" ::: "memory")

#define asm_mem_fence() SPIN_ORDER()

/* At least that many cycles, and a turn of the loop more at most. */
static inline void rt_time_wait_cycles(const unsigned cycles) {
    uint32_t start = spin_cycles();
    while (spin_cycles() - start < cycles) {
    }
}

/* Atomics: naturally aligned words in L1 or L2. They return what was there before. */
#define SPIN_AMO(name, type, operation)                                                            \
    static inline type name(volatile type *const address, const type value) {                      \
        type before;                                                                               \
        __asm__ volatile(operation ".w %0, %2, %1"                                                 \
                         : "=r"(before), "+A"(*address)                                            \
                         : "r"(value)                                                              \
                         : "memory");                                                              \
        return before;                                                                             \
    }
SPIN_AMO(amo_add, int32_t, "amoadd")
SPIN_AMO(amo_max, int32_t, "amomax")
SPIN_AMO(amo_min, int32_t, "amomin")
SPIN_AMO(amo_swap, uint32_t, "amoswap")
SPIN_AMO(amo_and, uint32_t, "amoand")
SPIN_AMO(amo_or, uint32_t, "amoor")
SPIN_AMO(amo_xor, uint32_t, "amoxor")
SPIN_AMO(amo_maxu, uint32_t, "amomaxu")
SPIN_AMO(amo_minu, uint32_t, "amominu")
#undef SPIN_AMO

static inline void amo_store(volatile uint32_t *const address, const uint32_t value) {
    (void)amo_swap(address, value);
}

static inline uint32_t load_reserved(volatile const uint32_t *const address) {
    uint32_t value;
    __asm__ volatile("lr.w %0, %1" : "=r"(value) : "A"(*address) : "memory");
    return value;
}

/* 0 if it was stored. */
static inline unsigned store_conditional(volatile uint32_t *const address, const uint32_t value) {
    unsigned lost;
    __asm__ volatile("sc.w %0, %2, %1" : "=&r"(lost), "+A"(*address) : "r"(value) : "memory");
    return lost;
}

/* 0 if it was swapped, -1 if *address was not `old`. One piece of assembly, so that the compiler
 * puts no access between the two that would lose the reservation. */
static inline int compare_and_swap(volatile uint32_t *const address, uint32_t old, uint32_t value) {
    uint32_t seen, lost;
    __asm__ volatile("1: lr.w %0, %2\n"
                     "   li %1, -1\n"
                     "   bne %0, %3, 2f\n"
                     "   sc.w %1, %4, %2\n"
                     "   bnez %1, 1b\n"
                     "2:"
                     : "=&r"(seen), "=&r"(lost), "+A"(*address)
                     : "r"(old), "r"(value)
                     : "memory");
    return (int)lost;
}

static inline void futex_init(futex_t *futex) {
    amo_store(futex, 0);
}

static inline int futex_try_lock(futex_t *futex) {
    return amo_or(futex, 1) == 0;
}

static inline int futex_lock(futex_t *futex) {
    while (!futex_try_lock(futex)) {
    }
    return 1;
}

/* The same with pauses: atomics in a row would hold up the bank for everybody. */
static inline int futex_lock_s(futex_t *futex) {
    while (!futex_try_lock(futex))
        rt_time_wait_cycles(32);
    return 1;
}

static inline void futex_unlock(futex_t *futex) {
    futex_init(futex);
}

#ifdef __cplusplus
}
#endif

#endif
