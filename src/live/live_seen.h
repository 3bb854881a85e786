/* What others see of a card: a file of a few pages in its folder (live_names.h), which `openspin
 * top` maps and reads. The card keeps its own counts, and copies them there when it falls asleep
 * and every few milliseconds while it runs; readers cannot hold it up. The name of the file says
 * whose it is, so that one that was left behind by a kill is seen as such. */
#ifndef SPIN_LIVE_LIVE_SEEN_H
#define SPIN_LIVE_LIVE_SEEN_H

#include <pthread.h>
#include <stdatomic.h>

#include "live/live_clock.h"
#include "live/live_names.h"
#include "nic/nic.h"
#include "openspin/spin_live.h"

#define SEEN_EXACT  16u /* runs of a handler whose time is taken; */
#define SEEN_SAMPLE 16u /* then of each of so many one */

/* Runs of one handler; any thread. */
struct live_seen_handler {
    uint32_t entry;
    struct spin_live_handler is;   /* its name and place */
    _Atomic uint64_t begun, again; /* `again`: after it had waited */
    _Atomic uint64_t faults, ns;
};

struct seen_page;

struct live_seen {
    struct live_folder *folder;
    char name[64];
    struct seen_page *page;     /* NULL: nobody sees it, as there was no room for a file */
    struct spin_live_card card; /* as it is shown; under the card's lock */
    _Atomic uint64_t due_ns;    /* when to show it next, while it runs */
    pthread_mutex_t lock;       /* of new handlers */
    _Atomic uint32_t handlers;
    struct live_seen_handler handler[SPIN_LIVE_HANDLERS];
};

/* What does not change; the card is shown from now on. */
void live_seen_open(struct live_seen *seen, struct live_folder *folder,
                    const struct spin_live_card *card);
/* Its file vanishes, as the process leaves; then nothing is shown any more. */
void live_seen_leave(struct live_seen *seen);
void live_seen_close(struct live_seen *seen);
/* Removes the files of processes that were killed. */
void live_seen_sweep(const struct live_folder *folder);
/* Copies `card` and the handlers' counts to where others see them. */
void live_seen_show(struct live_seen *seen, uint64_t now_ns);

/* A run of a handler begins or goes on (returns the time, or 0: it is not taken), and has ended or
 * waits. `alone`: no other thread runs handlers at the same time. */
struct live_seen_handler *live_seen_handler(struct live_seen *seen, const struct nic_task *task);
static inline bool live_seen_is(const struct live_seen_handler *h, const struct nic_task *task) {
    return h->entry == task->entry && h->is.pt_index == task->message->pt_index &&
           h->is.interface == task->message->interface;
}
uint64_t live_seen_begins(struct live_seen_handler *handler, bool again, bool alone);
void live_seen_ends(struct live_seen_handler *handler, uint64_t began_ns, bool fault);

#endif
