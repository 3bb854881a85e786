/* Event queues from which any thread takes, without a lock.
 *
 * Who has the lock fills events in and makes them seen by `tail`. Who takes one copies it and then
 * moves `head` on, if that is where it was: both are numbers that never come again, so nobody has
 * taken or lost the event meanwhile, and what was copied is whole. The oldest is lost in the same
 * way. A ring that is too small is changed for another while `head` says that it is closed; then
 * both numbers jump, so that whoever has copied from the old ring tries again. Rings are kept for
 * other queues, since somebody may still be reading. */
#include <stdlib.h>
#include <string.h>

#include "nic/portals_private.h"

#define CLOSED  (1ull << 63) /* ask with the lock */
#define DROPPED (1ull << 62) /* an event was lost since the last one that was taken */
#define FLAGS   (CLOSED | DROPPED)
#define JUMP    (1ull << 32) /* no mask has such a bit */
#define WORDS   (sizeof(ptl_event_t) / 8)

_Static_assert(sizeof(ptl_event_t) % 8 == 0, "copied in words");

/* ---- Without the lock ---- */

static struct portals_queue *queue_of(struct portals_cells *cells, ptl_handle_eq_t handle) {
    return &cells->queue[handle % PORTALS_CELLS];
}

/* Word by word, also into the event: what is read in larger pieces than it was just written in has
 * to wait. */
static inline void read_event(const struct portals_event_words *from, ptl_event_t *event) {
    for (uint32_t i = 0; i < WORDS; i++) {
        uint64_t word = atomic_load_explicit(&from->word[i], memory_order_relaxed);
        memcpy((uint8_t *)event + 8 * i, &word, sizeof word);
    }
}

static inline void write_event(struct portals_event_words *to, const ptl_event_t *event) {
    for (uint32_t i = 0; i < WORDS; i++) {
        uint64_t word;
        memcpy(&word, (const uint8_t *)event + 8 * i, sizeof word);
        atomic_store_explicit(&to->word[i], word, memory_order_relaxed);
    }
}

/* The handle is looked at behind the head: if it is still right, so was that. *event may be written
 * where another thread takes what is there. */
static inline int take(struct portals_queue *q, ptl_handle_eq_t handle, ptl_event_t *event) {
    for (;;) {
        uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire), at = head & ~FLAGS;
        if (atomic_load_explicit(&q->handle, memory_order_acquire) != handle || head & CLOSED)
            return PORTALS_ASK;
        if (atomic_load_explicit(&q->tail, memory_order_acquire) == at)
            return PTL_EQ_EMPTY;
        const struct portals_shared_ring *ring =
            atomic_load_explicit(&q->ring, memory_order_acquire);
        read_event(&ring->event[at & (ring->room - 1)], event);
        if (!atomic_compare_exchange_strong_explicit(&q->head, &head, at + 1, memory_order_acq_rel,
                                                     memory_order_relaxed))
            continue;
        return head & DROPPED ? PTL_EQ_DROPPED : PTL_OK;
    }
}

int portals_eq_take(struct portals_cells *cells, ptl_handle_eq_t eq, ptl_event_t *event) {
    return eq && event ? take(queue_of(cells, eq), eq, event) : PORTALS_ASK;
}

int portals_eq_take_any(struct portals_cells *cells, const ptl_handle_eq_t *eqs, unsigned count,
                        ptl_event_t *event, unsigned *which) {
    uint32_t turn = atomic_load_explicit(&cells->turn, memory_order_relaxed);
    if (!eqs || !count || !event || !which)
        return PORTALS_ASK;
    for (unsigned i = 0; i < count; i++) /* all have to be right */
        if (!eqs[i] || (eqs[i] ^ eqs[0]) >> HANDLE_CODE_BITS ||
            atomic_load_explicit(&queue_of(cells, eqs[i])->handle, memory_order_relaxed) != eqs[i])
            return PORTALS_ASK;
    atomic_store_explicit(&cells->turn, turn + 1, memory_order_relaxed);
    for (unsigned i = 0, at = turn % count; i < count; i++, at = at + 1 < count ? at + 1 : 0) {
        int code = take(queue_of(cells, eqs[at]), eqs[at], event);
        if (code == PTL_EQ_EMPTY)
            continue;
        *which = at;
        return code;
    }
    return PTL_EQ_EMPTY;
}

/* ---- With it ---- */

int p4_queue_take(struct portals_queue *q, ptl_event_t *event) {
    return take(q, atomic_load_explicit(&q->handle, memory_order_relaxed), event);
}

/* Including one that is staged. */
uint32_t p4_queue_used(const struct portals_event_queue *q) {
    return (uint32_t)(q->tail -
                      (atomic_load_explicit(&q->shared->head, memory_order_acquire) & ~FLAGS));
}

void p4_queue_drop_oldest(struct portals_queue *q) {
    uint64_t head = atomic_load_explicit(&q->head, memory_order_acquire);
    while ((head & ~FLAGS) != atomic_load_explicit(&q->tail, memory_order_relaxed) &&
           !atomic_compare_exchange_weak_explicit(&q->head, &head, (head + 1) | DROPPED,
                                                  memory_order_acq_rel, memory_order_acquire))
        ;
}

void p4_queue_drop_new(struct portals_queue *q) {
    atomic_fetch_or_explicit(&q->head, DROPPED, memory_order_acq_rel);
}

static struct portals_shared_ring *ring_take(struct portals *p, uint32_t room) {
    struct portals_shared_ring **at = &p->rings, *ring;
    while ((ring = *at) && ring->room != room)
        at = &ring->next;
    if (ring)
        *at = ring->next;
    else if ((ring = calloc(1, sizeof *ring + (size_t)room * sizeof *ring->event)))
        ring->room = room;
    return ring;
}

static void ring_give(struct portals *p, struct portals_shared_ring *ring) {
    if (!ring)
        return;
    ring->next = p->rings;
    p->rings = ring;
}

void p4_queue_clear(struct portals *p) {
    while (p->rings) {
        struct portals_shared_ring *ring = p->rings;
        p->rings = ring->next;
        free(ring);
    }
}

/* What is staged will be written into the ring that is there then. */
bool p4_queue_resize(struct portals *p, struct portals_event_queue *q, uint32_t room) {
    struct portals_queue *shared = q->shared;
    struct portals_shared_ring *old = q->shared_ring, *ring = ring_take(p, room);
    if (!ring)
        return false;
    uint64_t head = atomic_fetch_or_explicit(&shared->head, CLOSED, memory_order_acq_rel);
    uint64_t tail = atomic_load_explicit(&shared->tail, memory_order_relaxed);
    for (uint64_t at = head & ~FLAGS; at < tail; at++) {
        ptl_event_t event;
        read_event(&old->event[at & (old->room - 1)], &event);
        write_event(&ring->event[at & (room - 1)], &event);
    }
    atomic_store_explicit(&shared->ring, ring, memory_order_release);
    atomic_store_explicit(&shared->tail, tail + JUMP, memory_order_relaxed);
    q->tail += JUMP;
    atomic_store_explicit(&shared->head, head + JUMP, memory_order_release);
    q->shared_ring = ring;
    ring_give(p, old);
    return true;
}

void p4_queue_publish(struct portals *p) {
    struct portals_queue *q = p->staged_in;
    uint64_t tail = atomic_load_explicit(&q->tail, memory_order_relaxed);
    struct portals_shared_ring *ring = atomic_load_explicit(&q->ring, memory_order_relaxed);
    write_event(&ring->event[tail & (ring->room - 1)], &p->staged);
    p->staged_in = NULL;
    atomic_store_explicit(&q->tail, tail + 1, memory_order_release);
}

bool p4_queue_share(struct portals *p, struct portals_event_queue *q) {
    ptl_handle_eq_t handle = q->object.handle;
    struct portals_queue *shared = p->config.cells ? queue_of(p->config.cells, handle) : NULL;
    if (!shared || atomic_load_explicit(&shared->handle, memory_order_relaxed))
        return false;
    uint64_t head = atomic_load_explicit(&shared->head, memory_order_relaxed);
    q->shared = shared;
    q->tail = head & ~FLAGS;
    atomic_store_explicit(&shared->tail, q->tail, memory_order_relaxed);
    atomic_store_explicit(&shared->head, q->tail, memory_order_release);
    atomic_store_explicit(&shared->handle, handle, memory_order_release);
    return true;
}

void p4_queue_unshare(struct portals *p, struct portals_event_queue *q) {
    struct portals_queue *shared = q->shared;
    if (!shared)
        return;
    atomic_store_explicit(&shared->handle, 0, memory_order_release);
    uint64_t head = atomic_load_explicit(&shared->head, memory_order_relaxed);
    atomic_exchange_explicit(&shared->head, ((head & ~FLAGS) + 2 * JUMP) | CLOSED,
                             memory_order_acq_rel);
    ring_give(p, q->shared_ring);
}
