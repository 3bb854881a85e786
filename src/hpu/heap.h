/* Scratch memory of a running P4sPIN handler: what malloc of spin/handler.h gives. It lasts until
 * the handler ends, so an allocation is one addition.
 *
 * To find overruns, each allocation can have a window of its own: of its exact size, at addresses
 * with nothing else for 48 KiB around. The room is the same, so a handler gets memory as often as
 * without. A handler's windows are few; when they are used up, further allocations share the
 * last one, with no hole between them. */
#ifndef SPIN_HPU_HEAP_H
#define SPIN_HPU_HEAP_H

#include "hpu/hpu.h"

#define HEAP_BYTES      (16u << 10)                  /* of rigs and worlds: the most there are */
#define HEAP_HOLES      (MAP_L1_ALIAS + MAP_L1_SIZE) /* of L1, and no memory otherwise */
#define HEAP_HOLES_STEP (4 * HEAP_BYTES)

struct hpu_heap {
    uint32_t address, bytes; /* that the handler may use; with `check` the address is not used */
    uint8_t *host;
    uint32_t used;
    bool check;
    uint32_t windows,
        apart;           /* of the HPU, before the first allocation; allocations with their own */
    uint32_t last_bytes; /* of the last window */
};

/* Before a handler begins, when it has its other windows. */
static inline void heap_begin(struct hpu *h, struct hpu_heap *heap) {
    if (heap->apart)
        h->windows = heap->windows;
    heap->windows = h->windows;
    heap->used = heap->apart = 0;
}

/* The address of so many bytes, or 0. */
static inline uint32_t heap_allocate(struct hpu *h, struct hpu_heap *heap, uint32_t bytes) {
    uint32_t rounded = (bytes + 7) & ~7u, left = heap->bytes - heap->used, at = heap->used;
    if (bytes > left || rounded > left)
        return 0;
    heap->used += rounded;
    if (!heap->check)
        return heap->address + at;
    uint32_t base = HEAP_HOLES + HEAP_HOLES_STEP * heap->apart;
    if (hpu_add_window(h, base, bytes, heap->host + at, true, HPU_REGION_L1) >= 0) {
        heap->apart++;
        heap->last_bytes = rounded;
        return base;
    }
    if (!heap->apart)
        return 0;
    base = h->window[h->windows - 1].base + heap->last_bytes;
    hpu_size_window(&h->window[h->windows - 1], heap->last_bytes + bytes, true);
    heap->last_bytes += rounded;
    return base;
}

#endif
