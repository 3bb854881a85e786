/* Scratch memory of a running P4sPIN handler: what malloc of spin/handler.h gives. It lasts until
 * the handler ends, so an allocation is one addition.
 *
 * To find overruns, each allocation can stand apart (`check`): the first bytes of a page of
 * addresses of its own, with nothing behind it for 511 times its size. The room is the same, so a
 * handler gets memory as often as without. An HPU's windows are few: when they are used up, the
 * last one goes to whatever allocation is used. Generated code relies on windows that stay, so with
 * `check` handlers are interpreted. */
#ifndef SPIN_HPU_HEAP_H
#define SPIN_HPU_HEAP_H

#include "hpu/hpu.h"

#define HEAP_BYTES      (16u << 10) /* of each HPU */
#define HEAP_UNIT       8u
#define HEAP_HOLES      (MAP_DRIVER + 0xfb000) /* 0x1b300000: of L1, and no memory otherwise */
#define HEAP_HOLES_STEP 4096u                  /* addresses for a unit, 8 MiB in all */

struct hpu_heap {
    uint32_t address, bytes; /* that the handler may use; with `check` the address is not used */
    uint8_t *host;
    uint32_t used;
    bool check;
    uint32_t windows,
        apart; /* of the HPU before the first allocation; allocations with their own */
    /* With `check`: bytes + 1 of the allocation that begins at a unit, or 0. Made when it is first
     * needed; who has the heap frees it. */
    uint16_t *begins;
};

/* Before a handler begins, when it has its other windows. */
void heap_begin(struct hpu *h, struct hpu_heap *heap);
/* The address of so many bytes, or 0. */
uint32_t heap_allocate(struct hpu *h, struct hpu_heap *heap, uint32_t bytes);
/* No window has these bytes: gives the last one to the allocation that does. */
bool heap_find(struct hpu *h, uint32_t address, uint32_t bytes);

#endif
