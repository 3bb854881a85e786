#include "hpu/heap.h"

#include <stdlib.h>
#include <string.h>

enum { UNITS = HEAP_BYTES / HEAP_UNIT };

void heap_begin(struct hpu *h, struct hpu_heap *heap) {
    if (heap->apart)
        h->windows = heap->windows;
    if (heap->begins)
        memset(heap->begins, 0, UNITS * sizeof *heap->begins);
    h->heap = heap->check ? heap : NULL;
    heap->windows = h->windows;
    heap->used = heap->apart = 0;
}

static uint32_t stand_apart(struct hpu *h, struct hpu_heap *heap, uint32_t at, uint32_t bytes) {
    uint32_t unit = at / HEAP_UNIT, base = HEAP_HOLES + HEAP_HOLES_STEP * unit;
    if (!heap->begins)
        heap->begins = calloc(UNITS, sizeof *heap->begins);
    if (!heap->begins)
        return 0;
    if (hpu_add_window(h, base, bytes, heap->host + at, true, HPU_REGION_L1) >= 0)
        heap->apart++;
    else if (!heap->apart)
        return 0;
    heap->begins[unit] = (uint16_t)(bytes + 1);
    return base;
}

uint32_t heap_allocate(struct hpu *h, struct hpu_heap *heap, uint32_t bytes) {
    uint32_t left = heap->bytes - heap->used, at = heap->used;
    uint32_t rounded = bytes ? (bytes + HEAP_UNIT - 1) / HEAP_UNIT * HEAP_UNIT : HEAP_UNIT;
    if (bytes > left || rounded > left)
        return 0;
    heap->used += rounded;
    return heap->check ? stand_apart(h, heap, at, bytes) : heap->address + at;
}

bool heap_find(struct hpu *h, uint32_t address, uint32_t bytes) {
    struct hpu_heap *heap = h->heap;
    uint32_t offset = address - HEAP_HOLES, unit = offset / HEAP_HOLES_STEP;
    if (address < HEAP_HOLES || unit >= UNITS || !heap->begins || !heap->apart)
        return false;
    while (unit && !heap->begins[unit])
        unit--; /* a large one takes several steps */
    uint32_t base = HEAP_HOLES + HEAP_HOLES_STEP * unit, has = heap->begins[unit];
    if (!has || address - base > has - 1 || bytes > has - 1 - (address - base))
        return false;
    struct hpu_window *last = &h->window[h->windows - 1];
    last->base = base;
    last->host = heap->host + unit * HEAP_UNIT;
    hpu_size_window(last, has - 1, true);
    return true;
}
