#include "live/live_huge.h"

#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

#define HUGE_BYTES (2u << 20)
#define FIRST_USES 32u   /* of a region: it costs 1 to 3 ms, and saves 50 us of each message */
#define AGAIN_USES 4096u /* it may have been unmapped and mapped since */

/* All of it is there: nothing is filled that the program has not used. */
static bool is_resident(void *at) {
    enum { PAGES = HUGE_BYTES / 4096 };
    unsigned char page[PAGES];
    if (sysconf(_SC_PAGESIZE) != 4096 || mincore(at, HUGE_BYTES, page))
        return false;
    for (uint32_t i = 0; i < PAGES; i++)
        if (!(page[i] & 1))
            return false;
    return true;
}

static void used(struct huge_entry *e, uintptr_t region, uint32_t messages) {
    void *at = (void *)(region * HUGE_BYTES);
    if (e->region != region)
        *e = (struct huge_entry){.region = region};
    uint32_t before = e->uses;
    e->uses += messages;
    bool first = before < FIRST_USES && e->uses >= FIRST_USES;
    if ((first || before / AGAIN_USES != e->uses / AGAIN_USES) && is_resident(at))
        madvise(at, HUGE_BYTES, MADV_COLLAPSE); /* or it stays as it is */
}

void live_huge_used(struct live_huge *h, const uint8_t *at, uint64_t bytes, uint32_t messages) {
    uintptr_t first = (uintptr_t)at / HUGE_BYTES, last = ((uintptr_t)at + bytes - 1) / HUGE_BYTES;
    for (uintptr_t i = 0; i <= last - first && i < HUGE_ENTRIES; i++)
        used(&h->entry[(first + i) % HUGE_ENTRIES], first + i, messages);
}
