/* Full events: rings. A queue that nobody empties loses its oldest events and says so
 * (PTL_EQ_DROPPED), except where flow control has reserved places before it accepted a message. */
#include <string.h>

#include "nic/portals_private.h"

#define MOST_EVENTS (1u << 30)

/* A program that asks for thousands of places mostly uses a few. */
#define FIRST_EVENTS 1u

void p4_ring_free(const struct portals *p, struct portals_event_queue *q) {
    if (q->ring)
        zone_give(p->config.zone, q->ring, (q->mask + 1) * sizeof *q->ring);
}

static bool resize(struct portals *p, struct portals_event_queue *q, uint32_t room) {
    if (q->shared && !p4_queue_resize(p, q, room))
        return false;
    if (!q->shared) {
        ptl_event_t *ring = zone_take_clear(p->config.zone, room * sizeof *ring);
        if (!ring)
            return false;
        for (uint32_t i = 0; i < q->used; i++)
            ring[i] = q->ring[(q->first + i) & q->mask];
        p4_ring_free(p, q);
        q->ring = ring;
        q->first = 0;
    }
    q->mask = room - 1;
    q->room = room < q->capacity ? room : q->capacity;
    q->plain_room = q->shared ? 0 : q->room < q->capacity ? q->room / 2 : q->room;
    return true;
}

/* Room for so many, within the capacity; false: no memory. */
static bool grow(struct portals *p, struct portals_event_queue *q, uint32_t needed) {
    if (needed <= q->room)
        return true;
    uint32_t room = q->mask + 1;
    while (room < needed)
        room *= 2;
    bool good = resize(p, q, room);
    p->no_memory += !good;
    return good;
}

static uint32_t used_of(const struct portals_event_queue *q) {
    return q->shared ? p4_queue_used(q) : q->used;
}

int portals_eq_alloc(struct portals *p, ptl_handle_ni_t ni_handle, ptl_size_t count,
                     ptl_handle_eq_t *handle) {
    struct portals_ni *ni = p4_ni_of(p, ni_handle);
    if (!ni || !handle)
        return PTL_ARG_INVALID;
    if (count > MOST_EVENTS)
        return PTL_NO_SPACE;
    struct portals_event_queue *q = pool_take(&ni->eqs);
    if (!q)
        return PTL_NO_SPACE;
    q->capacity = count ? (uint32_t)count : 1;
    ptl_handle_eq_t own = p4_handle_new(ni, HANDLE_EQ, q);
    q->special = p4_queue_share(p, q);
    if (!resize(p, q, FIRST_EVENTS)) {
        p4_queue_unshare(p, q);
        p4_object_give(&ni->eqs, q);
        return PTL_NO_SPACE;
    }
    *handle = own;
    return PTL_OK;
}

int portals_eq_free(struct portals *p, ptl_handle_eq_t handle) {
    struct portals_ni *ni;
    struct portals_event_queue *q = p4_object_of(p, HANDLE_EQ, handle, &ni);
    if (!q)
        return PTL_ARG_INVALID;
    p4_ring_free(p, q);
    p4_queue_unshare(p, q);
    p4_object_give(&ni->eqs, q);
    p->owner.raised(p->owner.context); /* whoever waits for it is interrupted */
    return PTL_OK;
}

static inline void drop_first(struct portals_event_queue *q) {
    q->used--;
    q->first = (q->first + 1) & q->mask;
}

static __attribute__((noinline)) int take_special(struct portals_event_queue *q,
                                                  ptl_event_t *event) {
    if (q->shared)
        return p4_queue_take(q->shared, event);
    if (!q->used)
        return PTL_EQ_EMPTY;
    q->special = false;
    *event = q->ring[q->first];
    drop_first(q);
    return PTL_EQ_DROPPED;
}

static inline int take(struct portals_event_queue *q, ptl_event_t *event) {
    if (q->special)
        return take_special(q, event);
    if (!q->used)
        return PTL_EQ_EMPTY;
    const ptl_event_t *oldest = &q->ring[q->first];
    drop_first(q);
    *event = *oldest;
    return PTL_OK;
}

int portals_eq_get(struct portals *p, ptl_handle_eq_t handle, ptl_event_t *event) {
    struct portals_event_queue *q = p4_object_of(p, HANDLE_EQ, handle, NULL);
    return q && event ? take(q, event) : PTL_ARG_INVALID;
}

int portals_eq_poll(struct portals *p, const ptl_handle_eq_t *handles, unsigned count,
                    ptl_event_t *event, unsigned *which) {
    struct portals_ni *first = NULL, *ni;
    if (!handles || !count || !event || !which)
        return PTL_ARG_INVALID;
    for (unsigned i = 0; i < count; i++) {
        if (!p4_object_of(p, HANDLE_EQ, handles[i], &ni) || (first && ni != first))
            return PTL_ARG_INVALID;
        first = ni;
    }
    uint32_t start = count > 1 ? first->turn % count : 0;
    for (unsigned i = 0; i < count; i++) {
        unsigned at = start + i < count ? start + i : start + i - count;
        int code = take(p4_object_of(p, HANDLE_EQ, handles[at], NULL), event);
        if (code != PTL_EQ_EMPTY) {
            first->turn = at + 1; /* the others are first then */
            *which = at;
            return code;
        }
    }
    return PTL_EQ_EMPTY;
}

/* The ring grows when it is half full: where there is no memory for that, each further event is
 * another try before one is lost. False: every place is reserved. */
static bool make_room(struct portals *p, struct portals_event_queue *q) {
    uint32_t needed = used_of(q) + q->reserved + 1;
    grow(p, q, needed <= q->capacity / 2 ? 2 * needed : q->capacity);
    if (needed <= q->room)
        return true;
    if (q->reserved >= q->room)
        return false;
    if (q->shared) {
        p4_queue_drop_oldest(q->shared);
    } else {
        q->special = true;
        drop_first(q);
    }
    return true;
}

ptl_event_t *p4_event_new_special(struct portals *p, struct portals_event_queue *q) {
    if (p->staged_in)
        p4_queue_publish(p);
    bool has_room = make_room(p, q);
    if (!q->shared) {
        uint32_t at = q->first + q->used;
        q->used += has_room;
        q->special |= !has_room;
        p->news |= has_room;
        return has_room ? &q->ring[at & q->mask] : NULL;
    }
    if (!has_room) {
        p4_queue_drop_new(q->shared);
        return NULL;
    }
    q->tail++;
    p->news = true;
    p->staged_in = q->shared;
    return &p->staged;
}

void p4_event_push(struct portals *p, struct portals_queue_name eq, const ptl_event_t *event) {
    ptl_event_t *place = p4_event_new(p, eq);
    if (place)
        *place = *event;
}

void p4_event_push_reserved(struct portals *p, struct portals_queue_name eq,
                            const ptl_event_t *event) {
    p4_event_unreserve(eq, 1);
    p4_event_push(p, eq, event);
}

bool p4_event_reserve(struct portals *p, struct portals_queue_name eq, uint32_t places) {
    struct portals_event_queue *q = p4_queue(eq);
    if (!q)
        return true; /* freed by the program: nothing will be told */
    uint32_t held = used_of(q) + q->reserved;
    if (q->capacity - held < places || !grow(p, q, held + places))
        return false;
    q->reserved += places;
    return true;
}

bool p4_event_add_place(struct portals *p, struct portals_queue_name eq) {
    struct portals_event_queue *q = p4_queue(eq);
    if (!q)
        return false;
    q->capacity++;
    if (!grow(p, q, used_of(q) + q->reserved + 1)) {
        q->capacity--;
        return false;
    }
    q->reserved++;
    return true;
}

void p4_event_unreserve(struct portals_queue_name eq, uint32_t places) {
    struct portals_event_queue *q = p4_queue(eq);
    if (q)
        q->reserved -= q->reserved < places ? q->reserved : places;
}
