/* Who drives the card, and when it sleeps. live_card.h explains.
 *
 * How nobody sleeps too long. Three things are slept on:
 *
 * The bell, a word in the process's box, by the leader and by the progress thread. Who wants to
 * sleep on it holds the lock, sets it to 1 (`arm`), and then looks once more for something to do.
 * A peer stores what it has (a record, a claim, room in a lane) and then looks at the bell; if it
 * is 1 the peer sets it to 0 and wakes all. Both have a full fence between their store and their
 * look, so at least one of them sees the other's store. The sleeper gives the lock back and waits
 * while the bell is 1: a ring in between makes the wait return at once.
 *
 * Two may sleep on the one bell, as the progress thread can be asleep when a leader comes. Only who
 * leads, or who finds that nobody does, sets the bell to 0 without waking. A leader that leaves
 * while the progress thread is PROGRESS_SLEEPS rings, so that this looks by itself at what is left
 * and arms again, and makes it PROGRESS_CALLED: on a busy machine it may take long until the thread
 * runs, and leaders that come and go meanwhile need not ring again. They leave the ring to it; one
 * that sleeps takes it, and the thread is PROGRESS_SLEEPS again. Only the progress thread leaves
 * these states: whoever sees the first knows that the thread is asleep or will find the bell at 0.
 *
 * `raises`, by threads that follow a leader. Everything that they may wait for changes it, under
 * the lock: an event, a counter, and the leader's leaving, after which one of them leads. Who makes
 * it change wakes them before it gives the lock back (live_tell, leave_lead).
 *
 * `progress`, by the progress thread while it is PROGRESS_TICKS (for half a millisecond) or
 * PROGRESS_STANDS_BY. It enters the latter under the lock and only if the leader sleeps; the leader
 * takes it back, under the lock, when it has woken.
 *
 * That a peer has ended nobody rings for. While something is outstanding who sleeps wakes from time
 * to time and looks; a call that makes something outstanding while the sleeper has no limit
 * (`unwatched`) rings. A thread that calls without pause looks at no clock, and one that finds
 * something at each look seldom: for these the progress thread looks. */
#include <string.h>

#include "base/error.h"
#include "base/helper_thread.h"
#include "live/live_card_private.h"
#include "live/live_clock.h"

#define SPIN_NS    50000u          /* before a sleep: as long as waking up takes */
#define CROWDED_NS 5000u           /* the same where processors are scarce */
#define TICK_NS    (LIVE_MS / 2)   /* of the progress thread */
#define CHECK_NS   (100 * LIVE_MS) /* between looks whether peers live */
#define IDLE_LOOKS 10
#define LOOKS      64   /* between looks at the clock */
#define WAY_LOOKS  200  /* at who wants the lock, before it is taken back */
#define FINDS      1024 /* of who finds something at each look, between looks at its peers */

static uint32_t raises_of(struct live_card *card) {
    return atomic_load_explicit(&card->raises, memory_order_acquire);
}

/* Something may go wrong that nobody would tell: a peer that ends. */
static bool is_outstanding(const struct live_card *card) {
    return card->pending || !nic_quiet(card->nic);
}

static void poll_card(struct live_card *card) {
    if (live_ready(card))
        card->transport->calls->poll(card->transport);
    live_work(card);
}

static uint64_t due_ns_of(const struct live_card *card) {
    uint64_t check_ns = is_outstanding(card) ? card->check_ns : UINT64_MAX,
             timer_ns = nic_deadline(card->nic);
    return check_ns < timer_ns ? check_ns : timer_ns;
}

/* Returns when it is due again. */
static uint64_t check_peers(struct live_card *card, uint64_t now_ns) {
    if (now_ns < card->check_ns)
        return due_ns_of(card);
    uint64_t due_ns = card->transport->calls->check(card->transport, now_ns);
    card->check_ns = due_ns < now_ns + CHECK_NS ? due_ns : now_ns + CHECK_NS;
    live_work(card);
    return due_ns_of(card);
}

void live_tell(struct live_card *card) {
    uint32_t raises = raises_of(card);
    if (raises == card->told)
        return;
    card->told = raises;
    if (card->followers)
        live_futex_wake(&card->raises, INT_MAX);
    if (atomic_load(&card->asleep))
        card->transport->calls->ring(card->transport);
}

/* Who sleeps shall look from time to time from now on, or earlier than it would. */
void live_watch(struct live_card *card) {
    bool watches = card->wakes_ns != UINT64_MAX || !is_outstanding(card);
    if (watches && nic_deadline(card->nic) >= card->wakes_ns)
        return;
    card->unwatched = false;
    card->transport->calls->ring(card->transport);
}

/* ---- waiting ---- */

static void follow(struct live_card *card, uint32_t seen, uint64_t until_ns) {
    card->followers++;
    live_lock_give(&card->lock);
    live_futex_wait(&card->raises, seen, until_ns);
    live_lock_take(&card->lock);
    card->followers--;
}

/* Others want the lock that we look with. */
static void give_way(struct live_card *card) {
    live_tell(card);
    live_lock_give(&card->lock);
    for (uint32_t i = 0; i < WAY_LOOKS && live_lock_is_wanted(&card->lock); i++)
        live_pause();
    live_lock_take(&card->lock);
}

/* Peers ring from now on, and the pager; false: there is something to do. */
static bool arm(struct live_card *card) {
    if (!card->transport->calls->arm(card->transport))
        return false;
    atomic_thread_fence(memory_order_seq_cst); /* the pager first says so, then rings */
    if (!live_paged(card))
        return true;
    card->transport->calls->disarm(card->transport);
    return false;
}

static void falls_asleep(struct live_card *card, uint64_t wakes_ns) {
    if (card->pages)
        live_pages_doubt(card->pages);
    card->unwatched = card->timed || wakes_ns == UINT64_MAX;
    card->wakes_ns = wakes_ns;
}

/* With the lock, and again when it returns. */
static void check_and_sleep(struct live_card *card, uint32_t seen, uint64_t until_ns) {
    uint64_t now_ns = live_now_ns(), due_ns = check_peers(card, now_ns);
    if (raises_of(card) != seen || now_ns >= until_ns)
        return;
    uint32_t called = PROGRESS_CALLED;
    atomic_compare_exchange_strong(&card->progress, &called, PROGRESS_SLEEPS);
    atomic_store(&card->asleep, true);
    if (arm(card)) {
        falls_asleep(card, due_ns);
        live_show(card, now_ns);
        live_lock_give(&card->lock);
        card->transport->calls->sleep(card->transport, until_ns < due_ns ? until_ns : due_ns);
        live_lock_take(&card->lock);
        card->transport->calls->disarm(card->transport);
    }
    atomic_store(&card->asleep, false);
    uint32_t stands_by = PROGRESS_STANDS_BY;
    if (atomic_compare_exchange_strong(&card->progress, &stands_by, PROGRESS_TICKS))
        live_futex_wake(&card->progress, 1);
}

/* A leader that is cancelled there (pthread_cancel) would leave nobody to lead. */
static void sleep_as_leader(struct live_card *card, uint32_t seen, uint64_t until_ns) {
    int state;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
    check_and_sleep(card, seen, until_ns);
    pthread_setcancelstate(state, NULL);
}

static void leave_lead(struct live_card *card) {
    atomic_store_explicit(&card->led, false, memory_order_relaxed);
    if (card->followers) { /* one of them leads now; any of them may be about to sleep, or to go */
        atomic_fetch_add(&card->raises, 1);
        live_tell(card);
    }
    uint32_t sleeps = atomic_load(&card->progress);
    if (sleeps == PROGRESS_SLEEPS &&
        atomic_compare_exchange_strong(&card->progress, &sleeps, PROGRESS_CALLED))
        card->transport->calls->ring(card->transport);
}

static void poll_and_look(struct live_card *card) {
    card->looks = true;
    card->transport->calls->poll(card->transport);
    live_work(card);
    card->looks = false;
}

/* Where processors are scarce all share them, and looks are short. */
static bool hinders(struct live_card *card) {
    const struct live_transport_calls *calls = card->transport->calls;
    return !card->options.crowded && calls->hinders && calls->hinders(card->transport);
}

/* Looks for something to do until something was raised: true; false: for so long that it is time
 * to sleep, or on the processor that a peer needs to answer. It does not yield: on a busy machine
 * that gives the processor away for longer than a sleep, from which a peer wakes us. */
static bool look(struct live_card *card, uint32_t seen, uint64_t until_ns) {
    uint64_t most_ns = card->options.crowded ? CROWDED_NS : SPIN_NS, end_ns = 0;
    uint32_t finds = 0;
    for (uint32_t looks = 1; raises_of(card) == seen; looks++) {
        if (live_ready(card) || live_paged(card)) {
            poll_and_look(card);
            if (++finds % FINDS == 0)
                check_peers(card, live_now_ns());
            end_ns = 0;
            continue;
        }
        if (looks % LOOKS == 0) {
            uint64_t now_ns = live_now_ns();
            end_ns = end_ns ? end_ns : now_ns + most_ns;
            if (now_ns >= end_ns || now_ns >= until_ns || hinders(card))
                return false;
            if (nic_deadline(card->nic) <= now_ns)
                live_work(card);
        }
        if (live_lock_is_wanted(&card->lock))
            give_way(card);
        live_pause();
    }
    return true;
}

static void lead(struct live_card *card, uint32_t seen, uint64_t until_ns) {
    atomic_store_explicit(&card->led, true, memory_order_relaxed);
    if (atomic_load_explicit(&card->progress, memory_order_relaxed) != PROGRESS_CALLED)
        card->transport->calls->disarm(card->transport);
    while (!look(card, seen, until_ns) && live_now_ns() < until_ns) {
        poll_and_look(card);
        if (raises_of(card) != seen)
            break;
        sleep_as_leader(card, seen, until_ns);
        poll_and_look(card);
    }
    leave_lead(card);
}

static void wait_for_raise(struct live_card *card, uint64_t until_ns) {
    uint32_t seen = raises_of(card);
    live_called(card, LIVE_LOOK);
    if (nic_has_work(card->nic)) {
        live_work(card);
        live_tell(card);
        if (raises_of(card) != seen)
            return;
    }
    if (card->led)
        follow(card, seen, until_ns);
    else
        lead(card, seen, until_ns);
    card->rested = true;
}

void live_wait(struct live_card *card, uint64_t until_ns) {
    uint64_t began_ns = live_record_traces(card->record) ? live_now_ns() : 0;
    wait_for_raise(card, until_ns);
    if (began_ns)
        live_record_box(card->record, RECORD_CPU, "wait", began_ns, live_now_ns(), 0);
}

/* ---- the progress thread ---- */

/* Polls while there is something; then sleeps until a peer rings. For a while it still looks at
 * times, so that a program that communicates seldom need not wake it. */
static void progress_alone(struct live_card *card, uint32_t *idle) {
    uint64_t due_ns;
    live_lock_take(&card->lock);
    poll_card(card);
    due_ns = check_peers(card, live_now_ns());
    bool sleeps = !card->led && arm(card);
    uint32_t ticks = PROGRESS_TICKS;
    sleeps = sleeps && atomic_compare_exchange_strong(&card->progress, &ticks, PROGRESS_SLEEPS);
    if (due_ns == UINT64_MAX && (*idle)++ < IDLE_LOOKS)
        due_ns = live_now_ns() + CHECK_NS;
    if (sleeps) {
        falls_asleep(card, due_ns);
        live_show(card, live_now_ns());
    }
    live_tell(card);
    live_lock_give(&card->lock);
    if (!sleeps) { /* there is more to do, but who wants the lock is first */
        if (live_lock_is_wanted(&card->lock))
            live_futex_wait(&card->progress, PROGRESS_TICKS, live_now_ns() + TICK_NS);
        return;
    }
    card->transport->calls->sleep(card->transport, due_ns);
    uint32_t slept = atomic_load(&card->progress);
    while ((slept == PROGRESS_SLEEPS || slept == PROGRESS_CALLED) &&
           !atomic_compare_exchange_weak(&card->progress, &slept, PROGRESS_TICKS))
        ;
    live_lock_take(&card->lock);
    if (!card->led)
        card->transport->calls->disarm(card->transport);
    poll_card(card);
    live_tell(card);
    live_lock_give(&card->lock);
}

static void stand_by(struct live_card *card) {
    uint32_t ticks = PROGRESS_TICKS;
    live_lock_take(&card->lock);
    bool asleep = atomic_load(&card->asleep) &&
                  atomic_compare_exchange_strong(&card->progress, &ticks, PROGRESS_STANDS_BY);
    live_lock_give(&card->lock);
    while (asleep && atomic_load(&card->progress) == PROGRESS_STANDS_BY)
        live_futex_wait(&card->progress, PROGRESS_STANDS_BY, UINT64_MAX);
}

/* Who calls all the time does not look whether its peers live. The lock is not waited for: who has
 * it must not lose it to one that may lose its processor. */
static void tick(struct live_card *card) {
    uint64_t now_ns = live_now_ns();
    bool looks = now_ns >= atomic_load(&card->check_ns);
    bool shows = now_ns >= atomic_load_explicit(&card->seen.due_ns, memory_order_relaxed);
    if ((looks || shows || card->timed) && live_lock_try(&card->lock)) {
        if (looks && is_outstanding(card))
            check_peers(card, now_ns);
        else if (looks)
            card->check_ns = now_ns + CHECK_NS;
        if (nic_deadline(card->nic) <= now_ns)
            live_work(card);
        if (shows)
            live_show(card, now_ns);
        live_tell(card);
        live_lock_give(&card->lock);
    }
    live_futex_wait(&card->progress, PROGRESS_TICKS, now_ns + TICK_NS);
}

static void *progress(void *context) {
    struct live_card *card = context;
    uint32_t calls = 0, idle = 0;
    helper_thread_be_prompt(); /* the program may use the processor while it watches its memory */
    while (atomic_load(&card->progress) != PROGRESS_ENDS) {
        uint32_t now = atomic_load_explicit(&card->calls, memory_order_relaxed);
        bool active = atomic_load(&card->led) || now - calls >= LIVE_LOOK;
        calls = now;
        if (atomic_load(&card->asleep))
            stand_by(card);
        else if (active)
            tick(card);
        else
            progress_alone(card, &idle);
        idle = active ? 0 : idle;
    }
    return NULL;
}

int live_progress_start(struct live_card *card, struct spin_error *err) {
    int code = helper_thread_start(&card->thread, progress, card);
    if (code)
        return spin_fail(err, SPIN_ENOMEM, "no thread for a live card: %s", strerror(code));
    card->has_thread = true;
    return 0;
}

void live_progress_stop(struct live_card *card) {
    if (!card->has_thread)
        return;
    atomic_store(&card->progress, PROGRESS_ENDS);
    live_futex_wake(&card->progress, 1);
    card->transport->calls->ring(card->transport);
    pthread_join(card->thread, NULL);
    card->has_thread = false;
}
