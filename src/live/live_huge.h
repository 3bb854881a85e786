/* Huge pages. The kernel copies from and to other processes more than twice as fast where their
 * memory is in huge pages, as it looks up every page. Memory that large messages use again and
 * again is therefore made so (MADV_COLLAPSE), as memory is registered with other cards: its
 * content, and how much of it there is, stay as they are. */
#ifndef SPIN_LIVE_LIVE_HUGE_H
#define SPIN_LIVE_LIVE_HUGE_H

#include <stdbool.h>
#include <stdint.h>

#define HUGE_ENTRIES 64u

struct live_huge {
    struct huge_entry {
        uintptr_t region; /* the address divided by the size of a huge page */
        uint32_t uses;
    } entry[HUGE_ENTRIES];
};

/* So many large messages use this memory. */
void live_huge_used(struct live_huge *h, const uint8_t *at, uint64_t bytes, uint32_t messages);

#endif
