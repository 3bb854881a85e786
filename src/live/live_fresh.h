/* Pages of the program's own memory that nobody has touched: the system makes one of zeroes in
 * 2 us, without a device, which is a tenth of what waking the pager takes. So the card touches them
 * by itself, unless the system has lately taken long for that. */
#ifndef SPIN_LIVE_LIVE_FRESH_H
#define SPIN_LIVE_LIVE_FRESH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/guarded_copy.h"

struct live_fresh {
    int maps, pages; /* files of the system; -1: it has none, and nothing is fresh */
    uint32_t page_bits;
    uintptr_t from, to;      /* memory that is not a file's, as of */
    uint32_t known, refused; /* these epochs; from `refused` on the pager is asked, for a while */
};

enum live_touched {
    LIVE_NOT_FRESH, /* some of it is swapped out, a file's, or not to be waited for */
    LIVE_TOUCHED,
    LIVE_UNTOUCHABLE, /* it may not be used so, or is gone */
};

void live_fresh_open(struct live_fresh *f, uint32_t page_bits);
void live_fresh_close(struct live_fresh *f);
/* At most LIVE_FRESH_PAGES, some of which are absent. */
#define LIVE_FRESH_PAGES 2
enum live_touched live_fresh_touch(struct live_fresh *f, uint64_t first, uint64_t last, bool write,
                                   enum guarded how, uint32_t epoch);

#endif
