/* Times at which something is due, the earliest first. A timer stands in whatever it is for. */
#ifndef SPIN_NIC_TIMERS_H
#define SPIN_NIC_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/minheap.h"

struct timer {
    uint64_t time;
    uint32_t place; /* in the heap, from 1; 0: not set */
};

static inline bool timer_is_earlier(struct timer *const *a, struct timer *const *b) {
    return (*a)->time < (*b)->time;
}
static inline void timer_placed(struct timer **timer, size_t place) {
    (*timer)->place = (uint32_t)place + 1;
}
MINHEAP_PLACED(timers, struct timer *, timer_is_earlier, timer_placed);

/* Also when it is set already. There must be room (timers_room) for all that are set at once. */
static inline void timers_set(struct timers *t, struct timer *timer, uint64_t time) {
    timer->time = time;
    if (timer->place)
        timers_moved(t, timer->place - 1);
    else
        timers_push(t, &timer);
}

static inline void timers_stop(struct timers *t, struct timer *timer) {
    if (timer->place)
        timers_take(t, timer->place - 1);
    timer->place = 0;
}

/* UINT64_MAX: none. */
static inline uint64_t timers_first(const struct timers *t) {
    return t->count ? t->at[0]->time : UINT64_MAX;
}

/* Takes one that is due at `now`; NULL: none is. */
static inline struct timer *timers_expired(struct timers *t, uint64_t now) {
    struct timer *first;
    if (timers_first(t) > now || !t->count)
        return NULL;
    timers_pop(t, &first);
    first->place = 0;
    return first;
}

#endif
