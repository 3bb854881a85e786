/* Which pages of the program's memory are there, so that the card waits for none.
 *
 * A page that was there some milliseconds ago is taken to be there still: a table remembers, and
 * mincore fills it, a stretch at a time. Of what is absent the card touches single pages that
 * nobody has used (live_fresh.h); the rest is asked of the pager (live_pager.h), and counts as
 * absent until the card was told that it is there. All with the card's lock held. */
#ifndef SPIN_LIVE_LIVE_PAGE_H
#define SPIN_LIVE_LIVE_PAGE_H

#include "base/guarded_copy.h"
#include "live/live_fresh.h"
#include "live/live_pager.h"
#include "nic/nic.h"

#define LIVE_KNOWN      4096 /* pages in the table: by the last bits of their number */
#define LIVE_EPOCH_BITS 16   /* of a place in the table; the page's number is above them */
#define LIVE_EPOCHS     4    /* of about 4 ms: how long a page is taken to be there */

struct live_page_counts {
    uint64_t paged_in, failed; /* pages */
};

#define LIVE_PAGE_RESULTS 16

struct live_pages {
    uint32_t epoch, questions; /* until the next look at the clock; 0 while something is open */
    uint32_t page_bits;
    struct live_page_request *open; /* not all of them told */
    enum guarded *guarded;
    struct live_pager *pager;
    struct live_fresh fresh;
    struct live_page_counts counts;
    struct live_page_result result[LIVE_PAGE_RESULTS];
    uint32_t results, taken;
    uint64_t known[LIVE_KNOWN];
};

/* `wake` is for the pager. `guarded` is kept up to date: how to copy. NULL: no memory. */
struct live_pages *live_pages_new(void (*wake)(void *context), void *context, enum guarded *guarded,
                                  struct live_limit *limit);
void live_pages_free(struct live_pages *p);

/* Whether all of these bytes were there lately, and nothing else is known: a look at the table. */
static inline bool live_pages_known(struct live_pages *p, const uint8_t *host, uint64_t bytes) {
    uint64_t first = (uintptr_t)host >> p->page_bits,
             last = ((uintptr_t)host + bytes - 1) >> p->page_bits;
    if (!p->questions)
        return false;
    p->questions--;
    for (uint64_t page = first; page <= last; page++) {
        uint64_t place = p->known[page % LIVE_KNOWN];
        uint32_t age = (p->epoch - (uint32_t)place) & ((1u << LIVE_EPOCH_BITS) - 1);
        if (place >> LIVE_EPOCH_BITS != page || age >= LIVE_EPOCHS)
            return false;
    }
    return true;
}

/* How many of these bytes, from the first on, are there. */
uint64_t live_pages_present(struct live_pages *p, const uint8_t *host, uint64_t bytes);
/* NIC_DONE: all are there. NIC_ABSENT: some are not, and will be told; of the `extent` from `host`
 * on what is absent with them is asked for, too. NIC_FAULT: the program has no such memory. */
enum nic_status live_pages_want(struct live_pages *p, uint8_t *host, uint64_t bytes,
                                uint64_t extent, bool write);

/* The next pages that are there now, or never will be; false: none. */
bool live_pages_next(struct live_pages *p, struct nic_pages *pages);

/* Time passes that nobody counts: the table may be old. */
void live_pages_doubt(struct live_pages *p);
const struct live_page_counts *live_pages_counts(const struct live_pages *p);

#endif
