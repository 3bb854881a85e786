/* Workers: threads that run a card's handlers (OPENSPIN_HPUS), so that handlers of different
 * messages, and payload handlers of one, run at the same time and not on who drives the card.
 *
 * A worker takes a handler from the queue with the card's lock, runs it without, and takes the lock
 * again to say how it ended and for the next one: once per handler, and once per command. What its
 * handlers cause (packets, events) it sends and tells before it gives the lock back, as whoever
 * drives does.
 *
 * One with nothing to do looks at `queued` for a while and then sleeps on it. Who queues something
 * counts it up and then looks whether somebody sleeps; who wants to sleep says so and then looks at
 * `queued`: with full fences at least one of them sees the other. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/helper_thread.h"
#include "live/live_card_private.h"
#include "live/live_clock.h"

#define SPIN_NS 20000u /* before a sleep */
#define LOOKS   32     /* between looks at the clock */

struct live_workers {
    _Atomic uint32_t queued; /* futex: how often something was queued */
    _Atomic uint32_t asleep;
    _Atomic bool ends;
    uint32_t count;
    pthread_t thread[];
};

/* What was done under the lock is told to all whom it concerns. */
static void settle(struct live_card *card) {
    live_work(card);
    live_tell(card);
    if (card->unwatched)
        live_watch(card);
}

void live_worker_enter(struct live_card *card) {
    if (card->workers)
        live_lock_take(&card->lock);
}

void live_worker_leave(struct live_card *card) {
    if (!card->workers)
        return;
    settle(card);
    live_lock_give(&card->lock);
}

void live_workers_call(struct live_card *card) {
    struct live_workers *w = card->workers;
    if (!w)
        return;
    atomic_fetch_add(&w->queued, 1);
    if (atomic_load(&w->asleep))
        live_futex_wake(&w->queued, 1);
}

/* Without the lock; returns when something was queued since `seen`. */
static void wait_for_work(struct live_card *card, uint32_t seen) {
    struct live_workers *w = card->workers;
    uint64_t until_ns = 0;
    for (uint32_t looks = 1; !card->options.crowded; looks++) {
        if (atomic_load_explicit(&w->queued, memory_order_relaxed) != seen)
            return;
        if (looks % LOOKS == 0) {
            uint64_t now_ns = live_now_ns();
            until_ns = until_ns ? until_ns : now_ns + SPIN_NS;
            if (now_ns >= until_ns)
                break;
        }
        live_pause();
    }
    atomic_fetch_add(&w->asleep, 1);
    while (atomic_load(&w->queued) == seen && !atomic_load(&w->ends))
        live_futex_wait(&w->queued, seen, UINT64_MAX);
    atomic_fetch_sub(&w->asleep, 1);
}

static void *work(void *context) {
    struct live_card *card = context;
    struct live_workers *w = card->workers;
    live_lock_take(&card->lock);
    while (!atomic_load(&w->ends)) {
        uint32_t seen = atomic_load(&w->queued);
        struct live_executor *e = live_hpu_take(card);
        settle(card); /* of what has ended before, too */
        live_lock_give(&card->lock);
        enum hpu_stop stop = HPU_DONE;
        if (e)
            stop = live_hpu_run(e);
        else
            wait_for_work(card, seen);
        live_lock_take(&card->lock);
        if (e)
            live_hpu_ran(e, stop);
    }
    live_lock_give(&card->lock);
    return NULL;
}

int live_workers_start(struct live_card *card, uint32_t count, struct spin_error *err) {
    struct live_workers *w = calloc(1, sizeof *w + count * sizeof w->thread[0]);
    int code = 0;
    if (!w)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    card->workers = w;
    while (!code && w->count < count) {
        code = helper_thread_start(&w->thread[w->count], work, card);
        w->count += !code;
    }
    return code ? spin_fail(err, SPIN_ENOMEM, "no thread for handlers: %s", strerror(code)) : 0;
}

void live_workers_stop(struct live_card *card) {
    struct live_workers *w = card->workers;
    if (!w)
        return;
    atomic_store(&w->ends, true);
    atomic_fetch_add(&w->queued, 1);
    live_futex_wake(&w->queued, INT_MAX);
    for (uint32_t i = 0; i < w->count; i++)
        pthread_join(w->thread[i], NULL);
    card->workers = NULL;
    free(w);
}
