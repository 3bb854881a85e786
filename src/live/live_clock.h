/* Real time and futexes. */
#ifndef SPIN_LIVE_LIVE_CLOCK_H
#define SPIN_LIVE_LIVE_CLOCK_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define LIVE_MS 1000000ull /* in ns */

static inline uint64_t live_now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* While *word is `value`, until woken or until_ns (UINT64_MAX: no limit). */
static inline void live_futex_wait(_Atomic uint32_t *word, uint32_t value, uint64_t until_ns) {
    struct timespec t = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
    syscall(SYS_futex, word, FUTEX_WAIT_BITSET, value, until_ns == UINT64_MAX ? NULL : &t, NULL,
            FUTEX_BITSET_MATCH_ANY);
}

static inline void live_futex_wake(_Atomic uint32_t *word, int count) {
    syscall(SYS_futex, word, FUTEX_WAKE, count, NULL, NULL, 0);
}

static inline void live_pause(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

#endif
