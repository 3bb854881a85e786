/* The lock of a card: a word that is free most of the time. Who cannot have it looks again for a
 * moment, as whoever has it is about to give it back, and then sleeps (futex).
 *
 * Giving it back is a plain store, which costs nothing; then whoever gives it looks whether
 * somebody sleeps. The processor may do the look before others see the store, so that one who just
 * falls asleep is not woken: who sleeps looks by itself after a nap. */
#ifndef SPIN_LIVE_LIVE_LOCK_H
#define SPIN_LIVE_LIVE_LOCK_H

#include <stdbool.h>

#include "live/live_clock.h"

#define LOCK_TRIES  200 /* before a thread sleeps */
#define LOCK_NAP_NS (LIVE_MS / 4)

enum { LOCK_FREE, LOCK_HELD };

struct live_lock {
    _Atomic uint32_t state;
    _Atomic uint32_t wanted;    /* by so many threads that wait: whoever may do without gives way */
    _Atomic uint32_t slept_for; /* some of these may be asleep */
};

static inline bool live_lock_try(struct live_lock *lock) {
    uint32_t state = LOCK_FREE;
    return atomic_compare_exchange_strong_explicit(&lock->state, &state, LOCK_HELD,
                                                   memory_order_acquire, memory_order_relaxed);
}

/* `slept_for` is set before each look, also the last: others may sleep, too. */
__attribute__((cold, unused)) static void live_lock_wait(struct live_lock *lock) {
    atomic_fetch_add(&lock->wanted, 1);
    uint32_t tries = 0;
    while (tries < LOCK_TRIES && !live_lock_try(lock)) {
        live_pause();
        tries++;
    }
    while (tries == LOCK_TRIES) {
        atomic_store(&lock->slept_for, 1);
        if (live_lock_try(lock))
            break;
        live_futex_wait(&lock->state, LOCK_HELD, live_now_ns() + LOCK_NAP_NS);
    }
    atomic_fetch_sub(&lock->wanted, 1);
}

static inline void live_lock_take(struct live_lock *lock) {
    if (!live_lock_try(lock))
        live_lock_wait(lock);
}

__attribute__((cold, unused)) static void live_lock_wake(struct live_lock *lock) {
    atomic_store(&lock->slept_for, 0);
    live_futex_wake(&lock->state, 1);
}

static inline void live_lock_give(struct live_lock *lock) {
    atomic_store_explicit(&lock->state, LOCK_FREE, memory_order_release);
    if (atomic_load_explicit(&lock->slept_for, memory_order_relaxed))
        live_lock_wake(lock);
}

static inline bool live_lock_is_wanted(struct live_lock *lock) {
    return atomic_load_explicit(&lock->wanted, memory_order_relaxed);
}

#endif
