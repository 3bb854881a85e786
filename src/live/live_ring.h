/* A ring of 64-byte lines in shared memory from one process to another: no lock, no system call.
 *
 * A record is a packet as wire.h writes it, from the beginning of a line, its length standing where
 * the wire has its magic. The producer writes it, sees to it that the first word of the line behind
 * it is clear, and then stores the first word of the record: that is what the consumer waits for,
 * so a small packet is one line that moves from cache to cache, and no index is. The line after the
 * next is cleared in advance, as a line has to be fetched for it: nobody waits then. How far the
 * consumer is the producer reads only when it believes the ring to be full. A record that would not
 * fit before the end of the ring begins at its start; a word says so.
 *
 * The consumer believes nothing: what is read twice is copied first. */
#ifndef SPIN_LIVE_LIVE_RING_H
#define SPIN_LIVE_LIVE_RING_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "nic/wire.h"

#define RING_LINES      1024u
#define RING_LINE_BYTES 64u
#define RING_CLEAR      2u         /* lines behind the last record, whose first words are 0 */
#define RING_SKIP       UINT32_MAX /* in place of a length: go on at the start */

/* In the consumer's memory: a lane. All counts are of lines, and never wrap. */
struct live_ring_line {
    _Atomic uint64_t word;
    uint8_t rest[RING_LINE_BYTES - 8];
};

struct live_ring {
    _Atomic uint64_t head;                    /* consumed: the consumer's */
    _Alignas(64) _Atomic uint32_t wants_room; /* the producer's: tell it when head moves */
    _Alignas(64) struct live_ring_line line[RING_LINES];
};

static inline uint32_t ring_lines(uint32_t bytes) {
    return (bytes + RING_LINE_BYTES - 1) / RING_LINE_BYTES;
}

/* The producer's side. */
struct live_ring_out {
    struct live_ring *ring;
    uint64_t tail, head; /* written; known to be consumed */
};

static inline bool ring_has_room(struct live_ring_out *out, uint32_t lines) {
    if (out->tail + lines - out->head <= RING_LINES)
        return true;
    uint64_t head = atomic_load_explicit(&out->ring->head, memory_order_acquire);
    if (head > out->tail || out->tail - head > RING_LINES)
        return false; /* nonsense: as if it stood still */
    out->head = head;
    return out->tail + lines - head <= RING_LINES;
}

static inline void ring_publish(struct live_ring_out *out, uint32_t lines, uint64_t word) {
    struct live_ring_line *line = out->ring->line;
    uint32_t at = out->tail % RING_LINES;
    out->tail += lines;
    if (lines > 1)
        atomic_store_explicit(&line[out->tail % RING_LINES].word, 0, memory_order_relaxed);
    atomic_store_explicit(&line[at].word, word, memory_order_release);
    atomic_store_explicit(&line[(out->tail + 1) % RING_LINES].word, 0, memory_order_relaxed);
}

/* Where a record of so many bytes goes; NULL: there is no room. */
static inline uint8_t *ring_reserve(struct live_ring_out *out, uint32_t bytes) {
    uint32_t lines = ring_lines(bytes), at = out->tail % RING_LINES;
    if (at + lines > RING_LINES) {
        uint32_t skipped = RING_LINES - at;
        if (!ring_has_room(out, skipped + lines + RING_CLEAR))
            return NULL;
        ring_publish(out, skipped, RING_SKIP);
        at = 0;
    } else if (!ring_has_room(out, lines + RING_CLEAR)) {
        return NULL;
    }
    return (uint8_t *)&out->ring->line[at];
}

/* What was written there, but for its first word, is complete. */
static inline void ring_commit(struct live_ring_out *out, uint32_t bytes, uint64_t first) {
    ring_publish(out, ring_lines(bytes), (first & ~(uint64_t)UINT32_MAX) | bytes);
}

/* The consumer's side; `head` may be read by other threads. */
struct live_ring_in {
    struct live_ring *ring;
    _Atomic uint64_t head;
    uint64_t told; /* head as the producer knows it */
};

static inline uint64_t ring_peek(struct live_ring_in *in) {
    uint64_t head = atomic_load_explicit(&in->head, memory_order_relaxed);
    return atomic_load_explicit(&in->ring->line[head % RING_LINES].word, memory_order_acquire);
}

static inline void ring_consume(struct live_ring_in *in, uint32_t lines) {
    uint64_t head = atomic_load_explicit(&in->head, memory_order_relaxed);
    atomic_store_explicit(&in->head, head + lines, memory_order_relaxed);
}

#endif
