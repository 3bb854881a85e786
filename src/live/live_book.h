/* Where a process tells how it is reached, and finds how others are, on networks whose addresses
 * are their own (libfabric's): in the folder of live_names.h on one machine, or through PMIx. */
#ifndef SPIN_LIVE_LIVE_BOOK_H
#define SPIN_LIVE_LIVE_BOOK_H

#include "live/live_names.h"
#include "live/live_pmix.h"

struct live_book {
    struct live_folder *folder;
    struct live_pmix *pmix; /* not NULL: a pid is a rank of that job */
    uint64_t grace_ns;      /* how long others may take to stand in it */
};

void live_book_open(struct live_book *b, struct live_folder *folder, struct live_pmix *pmix);
/* *pid LIVE_PIDS: any. */
int live_book_enter(struct live_book *b, uint32_t *pid, const struct live_entry *e,
                    struct spin_error *err);
/* It has another pid now. */
int live_book_move(struct live_book *b, uint32_t from, uint32_t to, const struct live_entry *e,
                   struct spin_error *err);
/* It ends. */
void live_book_leave(struct live_book *b, uint32_t pid);
/* Removes what processes have left that were killed; under the folder's lock. */
void live_book_sweep(const struct live_folder *folder);
/* False: it does not stand there (yet). */
bool live_book_find(struct live_book *b, uint32_t pid, struct live_entry *e);

#endif
