#ifndef SPIN_LIVE_LIVE_CARD_PRIVATE_H
#define SPIN_LIVE_LIVE_CARD_PRIVATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "live/live_card.h"
#include "live/live_clock.h"
#include "live/live_limit.h"
#include "live/live_lock.h"
#include "live/live_page.h"
#include "live/live_record.h"
#include "live/live_seen.h"
#include "live/live_transport.h"
#include "nic/nic.h"

#define LIVE_MTU_BYTES 4096u

/* A packet that the transport refused. */
struct live_pending {
    struct nic_packet *packet;
    struct nic_departed how;
    bool nowhere; /* there is no such process */
    struct live_pending *next;
};

struct live_executor;
struct live_workers;
struct live_code;

enum progress_state {
    PROGRESS_TICKS,     /* looks from time to time whether the program calls */
    PROGRESS_SLEEPS,    /* nobody is inside: until a peer rings */
    PROGRESS_CALLED,    /* the same, but it has been rung for */
    PROGRESS_STANDS_BY, /* the leader sleeps: until it has woken */
    PROGRESS_ENDS,
};

struct live_card {
    struct live_lock lock;
    struct live_card_options options;
    struct portals_host host;
    struct portals_process process;
    struct portals_cells cells; /* read without the lock */
    struct nic_driver driver;
    struct nic *nic;
    uint32_t mtu_bytes;
    struct live_pages *pages; /* which pages of the program's memory are there; NULL: all */
    enum guarded guarded;     /* how its memory is used */
    _Atomic bool paged;       /* the pager has brought some in, of which the card was not told */
    struct live_limit *limit; /* of memory; NULL: none, or no swap */
    uint64_t lost_pages;      /* moves and packets whose memory was gone */
    struct nic_pool *pool;
    struct live_transport *transport;
    struct live_pending *pending, **pending_end;
    struct live_pending *lent, **lent_end; /* sent; the peers have not read all of it yet */
    bool nowhere;                          /* some of them have nowhere to go */
    /* For one of them where there is no memory: a message that has its number must not be lost. */
    struct live_pending *spare;
    struct nic_packet *spare_packet;
    _Atomic uint64_t check_ns; /* when to look whether peers live */
    bool unwatched;            /* who sleeps does so until wakes_ns, which may be too late */
    uint64_t wakes_ns;         /* UINT64_MAX: without a limit, as nothing is outstanding */
    _Atomic bool timed;        /* the card's logic has timers: it is told the time */
    struct live_seen seen;
    struct live_record *record; /* NULL: nothing is written */
    bool plain;                 /* nothing is: small messages need no packets */
    struct live_traffic {
        uint64_t packets, bytes; /* so far */
    } out, in;
    /* Waiting. */
    _Atomic uint32_t raises;    /* futex: something was raised */
    uint32_t told;              /* the same, when followers were last woken */
    bool rested;                /* the call has waited, and made nothing since */
    bool looks;                 /* the leader polls: it looks at each thing that is raised */
    _Atomic bool led;           /* a waiting thread polls, or sleeps on the transport's bell */
    _Atomic bool asleep;        /* it does the latter */
    uint32_t followers;         /* that sleep on `raises` */
    _Atomic uint32_t calls;     /* so far: for the progress thread (live_called) */
    struct nic_address flooded; /* to whom the call has sent, where process.flooded */
    /* The progress thread. */
    pthread_t thread;
    bool has_thread;
    _Atomic uint32_t progress; /* enum progress_state: futex */
    /* Handlers (live_hpu.c). */
    struct nic_task *fresh, *fresh_last;          /* that have not begun, by `driver` */
    struct live_executor *resumed, **resumed_end; /* that go on */
    struct live_executor *idle, *all;
    uint32_t executors;
    uint64_t faults;
    struct live_workers *workers; /* NULL: whoever drives runs handlers */
    struct live_code *code;
    struct image_store *images;
};

/* For the card's logic. */
static inline uint64_t live_time(const struct live_card *card) {
    return atomic_load_explicit(&card->timed, memory_order_relaxed) ? live_now_ns() : 0;
}

/* With the lock held: is there something to take from the transport, and room for it? While many
 * moves wait for pages nothing is taken, so that what waits here has a bound. */
bool live_ready(struct live_card *card);

/* The program calls. Who looks whether something has come, or waits for it, receives it; who only
 * puts may be watching its memory, and receives nothing by that unless it does so all the time. */
#define LIVE_LOOK 64 /* calls of the latter kind count as much as one of the former */
static inline void live_called(struct live_card *card, uint32_t counts) {
    uint32_t calls = atomic_load_explicit(&card->calls, memory_order_relaxed);
    atomic_store_explicit(&card->calls, calls + counts, memory_order_relaxed);
}

/* Pages that were absent are there: the card is to be told. */
static inline bool live_paged(const struct live_card *card) {
    return atomic_load_explicit(&card->paged, memory_order_relaxed);
}

/* live_driver.c */
struct nic_driver live_driver(const struct live_card *card);
struct live_receiver live_receiver(struct live_card *card);
/* What was used of the spare ones is made good as soon as there is memory. */
void live_spares_make(struct live_card *card);
void live_lose_nowhere(struct live_card *card); /* what has nowhere to go is undeliverable */
void live_pending_clear(struct live_card *card);

/* live_hpu.c */
void live_hpu_init(struct live_card *card);
void live_hpu_clear(struct live_card *card);
void live_hpu_prepare(void *context); /* without the lock: handlers will be loaded */
void live_hpu_start(void *context, struct nic_task *task);
void live_hpu_resume(void *context, struct nic_task *task);
/* Handlers that are queued. */
uint64_t live_hpu_waiting(const struct live_card *card);
/* Runs what is queued, unless workers do; false: nothing was. */
bool live_hpu_work(struct live_card *card);
/* For workers: the next handler to run (NULL: there is none), with the lock held; runs it until it
 * ends or waits, without; and what that means for its message, with the lock again. */
struct live_executor *live_hpu_take(struct live_card *card);
enum hpu_stop live_hpu_run(struct live_executor *e);
void live_hpu_ran(struct live_executor *e, enum hpu_stop stop);

/* live_workers.c */
int live_workers_start(struct live_card *card, uint32_t count, struct spin_error *err);
void live_workers_stop(struct live_card *card);
/* Something is queued; with the lock held. */
void live_workers_call(struct live_card *card);
/* Around what a handler asks of the card. Without workers whoever runs it has the lock. */
void live_worker_enter(struct live_card *card);
void live_worker_leave(struct live_card *card);

/* With the lock held: what others see of the card is up to date. */
void live_show(struct live_card *card, uint64_t now_ns);

/* live_wait.c: with the lock held. */
void live_work(struct live_card *card);
void live_wait(struct live_card *card, uint64_t until_ns);
void live_tell(struct live_card *card);  /* before the lock is given back */
void live_watch(struct live_card *card); /* likewise, if `unwatched` */
int live_progress_start(struct live_card *card, struct spin_error *err);
void live_progress_stop(struct live_card *card);

#endif
