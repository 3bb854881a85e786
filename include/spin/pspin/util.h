/* util.h of PsPIN: small macros. A failed ASSERT and TERMINATE end the handler; on PsPIN they go on
 * for ever and do nothing. */
#ifndef SPIN_PSPIN_UTIL_H
#define SPIN_PSPIN_UTIL_H

#include <stdio.h>

#include "spin/target.h"

#define MIN(a, b)           (((a) < (b)) ? (a) : (b))
#define MAX(a, b)           (((a) > (b)) ? (a) : (b))
#define DIV_CEIL(a, b)      (((a) + (b)-1) / (b))
#define FAST_DIV(a, log2_b) ((a) >> (log2_b))
#define FAST_MOD(a, b)      ((a) & ((b)-1)) /* b: a power of two */
#define AND(a, b)           ((a) & (b))

#define STRINGIFY(x) #x
#define LABEL(name)  __asm__ __volatile__(#name ":" ::: "memory")

#define read_csr(reg, val)      __asm__ volatile("csrr %0, " STRINGIFY(reg) : "=r"(val))
#define write_csr(reg, val)                                                                        \
    __asm__ volatile("csrw " STRINGIFY(reg) ", %0" ::"rK"(val) : "memory")
#define clear_csr(reg, val)                                                                        \
    __asm__ volatile("csrc " STRINGIFY(reg) ", %0" ::"rK"(val) : "memory")
#define read_register(reg, val) __asm__ volatile("addi %0, " STRINGIFY(reg) ", 0" : "=r"(val))
#define write_register(reg, val)                                                                   \
    __asm__ volatile("addi " STRINGIFY(reg) ", %0, 0" ::"r"(val) : "memory")

#define SPIN_PRINTF(format, ...)                                                                   \
    printf("%s:%s:%d: " format, __FILE__, __FUNCTION__, __LINE__, ##__VA_ARGS__)
#ifdef LOG
#define DEBUG_PRINT(format, ...) SPIN_PRINTF(format, ##__VA_ARGS__)
#else
#define DEBUG_PRINT(...)
#endif

#define TERMINATE abort()
#ifdef CHECK_ASSERTS
#define ASSERT(condition)                                                                          \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            printf("Assertion fail: %s at %s:%d\n", #condition, __FILE__, __LINE__);               \
            TERMINATE;                                                                             \
        }                                                                                          \
    } while (0)
#else
#define ASSERT(condition)
#endif

#ifdef ENABLE_TRACING
#define TRACING_DUMMY_INSTR() __asm__ __volatile__("nop")
#else
#define TRACING_DUMMY_INSTR()
#endif

#endif
