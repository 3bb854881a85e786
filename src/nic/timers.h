/* A heap of times, the earliest first. A timer stands in whatever it is for. */
#ifndef SPIN_NIC_TIMERS_H
#define SPIN_NIC_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct timer {
    uint64_t time;
    uint32_t place; /* from 1; 0: not set */
};

struct timers {
    struct timer **heap; /* from 1 */
    uint32_t count, room;
};

/* For so many that are set at one time; false: no memory. Before any of them is set. */
bool timers_room(struct timers *t, uint32_t timers);
/* Also when it is set already. */
void timers_set(struct timers *t, struct timer *timer, uint64_t time);
uint64_t timers_first(const struct timers *t); /* UINT64_MAX: none */
/* Takes one that is due at `now`; NULL: none is. */
struct timer *timers_expired(struct timers *t, uint64_t now);
void timers_free(struct timers *t);

#endif
