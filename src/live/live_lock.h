/* The lock of a card: a word that is free most of the time. Who cannot have it looks again for a
 * moment, as whoever has it is about to give it back, and then sleeps (futex). */
#ifndef SPIN_LIVE_LIVE_LOCK_H
#define SPIN_LIVE_LIVE_LOCK_H

#include <stdbool.h>

#include "live/live_clock.h"

#define LOCK_TRIES 200 /* before a thread sleeps */

enum { LOCK_FREE, LOCK_HELD, LOCK_SLEPT_FOR };

struct live_lock {
    _Atomic uint32_t state;
    _Atomic uint32_t wanted; /* by so many threads that wait: whoever may do without gives way */
};

static inline bool live_lock_try(struct live_lock *lock) {
    uint32_t state = LOCK_FREE;
    return atomic_compare_exchange_strong_explicit(&lock->state, &state, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

__attribute__((cold, unused)) static void live_lock_wait(struct live_lock *lock) {
    atomic_fetch_add(&lock->wanted, 1);
    uint32_t tries = 0;
    while (tries < LOCK_TRIES && !live_lock_try(lock)) {
        live_pause();
        tries++;
    }
    if (tries == LOCK_TRIES)
        while (atomic_exchange_explicit(&lock->state, LOCK_SLEPT_FOR, memory_order_acquire))
            live_futex_wait(&lock->state, LOCK_SLEPT_FOR, UINT64_MAX);
    atomic_fetch_sub(&lock->wanted, 1);
}

static inline void live_lock_take(struct live_lock *lock) {
    if (!live_lock_try(lock))
        live_lock_wait(lock);
}

static inline void live_lock_give(struct live_lock *lock) {
    if (atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) == LOCK_SLEPT_FOR)
        live_futex_wake(&lock->state, 1);
}

static inline bool live_lock_is_wanted(struct live_lock *lock) {
    return atomic_load_explicit(&lock->wanted, memory_order_relaxed);
}

#endif
