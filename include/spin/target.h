/* What every handler has on the card, whichever interface it is written for: the image's note, the
 * registers of the HPU driver, the runtime library. Included through handler.h. */
#ifndef SPIN_TARGET_H
#define SPIN_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "spin/driver.h"

#ifdef __cplusplus
extern "C" {
#define SPIN_EXTERN extern "C"
#else
#define SPIN_EXTERN
#endif

/* Every image says what it was compiled for: an ELF note whose type is the handler interface, with
 * that interface's version and the most HPUs that the card may have. */
#define SPIN_ABI 2
typedef struct {
    uint32_t name_size, data_size, type;
    char name[8];
    uint32_t abi, hpus;
} spin_image_note_t;
extern const spin_image_note_t spin_image_note;
#define SPIN_IMAGE_NOTE(interface, hpus)                                                           \
    __attribute__((section(".note.spin"), used, aligned(4), weak))                                 \
    const spin_image_note_t spin_image_note = {                                                    \
        8, 8, interface, {'o', 'p', 'e', 'n', 's', 'p', 'n', 0}, SPIN_ABI, hpus}

/* A call of the interface. Always inlined, without optimisation too: then the instruction that
 * gives a command to the card lies in the function that made the call, and a fault names its line.
 */
#define SPIN_CALL static inline __attribute__((always_inline))

SPIN_CALL uint32_t spin_my_hpu(void) {
    uint32_t id;
    __asm__ volatile("csrr %0, mhartid" : "=r"(id));
    return id;
}

SPIN_CALL uint32_t spin_cycles(void) {
    uint32_t now;
    __asm__ volatile("csrr %0, cycle" : "=r"(now));
    return now;
}

/* The card's registers. */
#define SPIN_REGISTER(offset) (*(volatile uint32_t *)(SPIN_DRIVER_BASE + (offset)))
#define SPIN_WORD(i)          SPIN_REGISTER(SPIN_REG_WORD + 4 * (i))
#define SPIN_LOW(v)           ((uint32_t)(v))
#define SPIN_HIGH(v)          ((uint32_t)((uint64_t)(v) >> 32))
#define SPIN_POINTER(p)       ((uint32_t)(uintptr_t)(p))

SPIN_CALL uint32_t spin_issue(uint32_t command) {
    __asm__ volatile("" ::: "memory"); /* what the command reads must be in memory by now */
    SPIN_REGISTER(SPIN_REG_ISSUE) = command;
    return SPIN_REGISTER(SPIN_REG_RESULT);
}

/* From the runtime library. */
void *memcpy(void *to, const void *from, size_t size);
void *memmove(void *to, const void *from, size_t size);
void *memset(void *to, int value, size_t size);
int memcmp(const void *a, const void *b, size_t size);

/* Ends the handler with "failed check". */
SPIN_CALL __attribute__((noreturn)) void abort(void) {
    __asm__ volatile("ebreak");
    __builtin_unreachable();
}
#ifdef NDEBUG
#define assert(condition) ((void)0)
#else
#define assert(condition) ((condition) ? (void)0 : abort())
#endif

#ifdef __cplusplus
}
#endif

#endif
