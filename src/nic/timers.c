#include "nic/timers.h"

#include <stdlib.h>

static void put(struct timers *t, uint32_t place, struct timer *timer) {
    t->heap[place] = timer;
    timer->place = place;
}

static void up(struct timers *t, uint32_t place, struct timer *timer) {
    for (; place > 1 && timer->time < t->heap[place / 2]->time; place /= 2)
        put(t, place, t->heap[place / 2]);
    put(t, place, timer);
}

static void down(struct timers *t, uint32_t place, struct timer *timer) {
    for (uint32_t child; (child = 2 * place) <= t->count; place = child) {
        if (child < t->count && t->heap[child + 1]->time < t->heap[child]->time)
            child++;
        if (timer->time <= t->heap[child]->time)
            break;
        put(t, place, t->heap[child]);
    }
    put(t, place, timer);
}

bool timers_room(struct timers *t, uint32_t timers) {
    if (timers < t->room)
        return true;
    uint32_t room = t->room ? t->room : 4;
    while (room <= timers)
        room *= 2;
    struct timer **heap = realloc(t->heap, room * sizeof *heap);
    if (!heap)
        return false;
    t->heap = heap;
    t->room = room;
    return true;
}

void timers_set(struct timers *t, struct timer *timer, uint64_t time) {
    timer->time = time;
    if (timer->place) {
        up(t, timer->place, timer);
        down(t, timer->place, timer);
        return;
    }
    up(t, ++t->count, timer);
}

uint64_t timers_first(const struct timers *t) {
    return t->count ? t->heap[1]->time : UINT64_MAX;
}

struct timer *timers_expired(struct timers *t, uint64_t now) {
    if (!t->count || t->heap[1]->time > now)
        return NULL;
    struct timer *first = t->heap[1], *last = t->heap[t->count--];
    first->place = 0;
    if (t->count)
        down(t, 1, last);
    return first;
}

void timers_free(struct timers *t) {
    free(t->heap);
    *t = (struct timers){0};
}
