/* Which pages of the program's memory are there, so that the card waits for none.
 *
 * A page that was there some milliseconds ago is taken to be there still: a table remembers, and
 * mincore fills it, a stretch at a time. What is absent is asked of the pager (live_pager.h), and
 * counts as absent until the card was told that it is there. All with the card's lock held, but for
 * live_pages_has. */
#ifndef SPIN_LIVE_LIVE_PAGE_H
#define SPIN_LIVE_LIVE_PAGE_H

#include "base/guarded_copy.h"
#include "nic/nic.h"

struct live_pages;

struct live_page_counts {
    uint64_t paged_in, failed; /* pages */
};

/* `wake` is for the pager. `guarded` is kept up to date: how to copy. NULL: no memory. */
struct live_pages *live_pages_new(void (*wake)(void *context), void *context,
                                  enum guarded *guarded);
void live_pages_free(struct live_pages *p);

/* How many of these bytes, from the first on, are there. */
uint64_t live_pages_present(struct live_pages *p, const uint8_t *host, uint64_t bytes);
/* NIC_DONE: all are there. NIC_ABSENT: some are not, and will be told; of the `extent` from `host`
 * on what is absent with them is asked for, too. NIC_FAULT: the program has no such memory. */
enum nic_status live_pages_want(struct live_pages *p, uint8_t *host, uint64_t bytes,
                                uint64_t extent, bool write);

/* Whether live_pages_next has something; any thread may ask. */
bool live_pages_has(const struct live_pages *p);
/* The next pages that are there now, or never will be; false: none. */
bool live_pages_next(struct live_pages *p, struct nic_pages *pages);

/* Time passes that nobody counts: the table may be old. */
void live_pages_doubt(struct live_pages *p);
const struct live_page_counts *live_pages_counts(const struct live_pages *p);
struct live_pager *live_pages_pager(struct live_pages *p);

#endif
