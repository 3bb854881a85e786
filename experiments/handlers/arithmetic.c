/* Handlers of a given number of integer instructions, one cycle each, and the return (ISCA'21
 * figure 8). Straight code up to 512, then a loop over 512, so that all fit the instruction cache.
 * In assembly: what is counted is what is written. */
#include <handler.h>

#define STRAIGHT(count)                                                                            \
    __attribute__((naked))                                                                         \
    __handler__ void arithmetic_##count##_ph(__attribute__((unused)) handler_args_t *args) {       \
        __asm__ volatile(".rept " #count "\n"                                                      \
                         "addi t0, t0, 1\n"                                                        \
                         ".endr\n"                                                                 \
                         "ret\n");                                                                 \
    }
/* The loop's own two instructions are of the count; the one before it is not. */
#define LOOP(count, turns)                                                                         \
    __attribute__((naked))                                                                         \
    __handler__ void arithmetic_##count##_ph(__attribute__((unused)) handler_args_t *args) {       \
        __asm__ volatile("li t1, " #turns "\n"                                                     \
                         "1: .rept 510\n"                                                          \
                         "addi t0, t0, 1\n"                                                        \
                         ".endr\n"                                                                 \
                         "addi t1, t1, -1\n"                                                       \
                         "bnez t1, 1b\n"                                                           \
                         "ret\n");                                                                 \
    }
STRAIGHT(0)
STRAIGHT(3)
STRAIGHT(8)
STRAIGHT(16)
STRAIGHT(32)
STRAIGHT(64)
STRAIGHT(128)
STRAIGHT(256)
STRAIGHT(512)
LOOP(1024, 2)
LOOP(2048, 4)
LOOP(4096, 8)
