/* Waits with a time limit, of ranks: until they are woken, or virtual time has come to the limit.
 * The C library's own would look at the system's clock, which is years later, and return at once.
 *
 * A condition or a semaphore has a list of threads that wait so; each is in a call of the world
 * meanwhile, and who signals tells the world. Waits without a limit stay the C library's, and so
 * does what other processes do. Locks and ends of threads, which are waited for so less often, are
 * tried again after ever longer sleeps, up to a sixteenth of the time that has passed. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <threads.h>
#include <time.h>

#include "portals/channel_client.h"
#include "portals/channel_real.h"

#define NANO     1000000000
#define FIRST_NS 100 /* before something is tried again */

static bool is_time(const struct timespec *t) {
    return t->tv_nsec >= 0 && t->tv_nsec < NANO;
}

/* ---- threads that wait for a condition or a semaphore ---- */

struct waiter {
    const void *on;
    uint64_t number; /* of this wait: what the world knows it by */
    bool woken;
    struct waiter *next;
};

static struct {
    pthread_mutex_t lock;
    struct waiter *first;
    uint64_t last;
    _Atomic uint32_t count;
} waits = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void enter(struct waiter *w, const void *on) {
    *w = (struct waiter){.on = on};
    pthread_mutex_lock(&waits.lock);
    struct waiter **end = &waits.first;
    while (*end)
        end = &(*end)->next;
    *end = w;
    w->number = ++waits.last;
    waits.count++;
    pthread_mutex_unlock(&waits.lock);
}

/* Whether it was woken. */
static bool leave(struct waiter *w) {
    pthread_mutex_lock(&waits.lock);
    struct waiter **at = &waits.first;
    while (*at != w)
        at = &(*at)->next;
    *at = w->next;
    waits.count--;
    pthread_mutex_unlock(&waits.lock);
    return w->woken;
}

static void wait_in_world(const struct waiter *w, clockid_t clock, const struct timespec *until) {
    CHANNEL_CALL(CHANNEL_WAIT, w->number, (uint64_t)clock, (uint64_t)until->tv_sec,
                 (uint64_t)until->tv_nsec);
}

static bool still_waits(uint64_t number) {
    pthread_mutex_lock(&waits.lock);
    const struct waiter *w = waits.first;
    while (w && w->number != number)
        w = w->next;
    pthread_mutex_unlock(&waits.lock);
    return w;
}

/* False: nobody waits. One that has entered may not have called the world yet, which it is about to
 * do: nothing else keeps it. */
static bool wake(const void *on) {
    if (!waits.count || !channel_is_attached())
        return false;
    pthread_mutex_lock(&waits.lock);
    struct waiter *w = waits.first;
    while (w && (w->on != on || w->woken))
        w = w->next;
    uint64_t number = w ? w->number : 0;
    if (w)
        w->woken = true;
    pthread_mutex_unlock(&waits.lock);
    while (number && still_waits(number) && CHANNEL_CALL(CHANNEL_WAKE, number))
        ;
    return number;
}

/* ---- conditions ---- */

int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                           const struct timespec *until) {
    struct waiter w;
    if (!channel_is_attached())
        return REAL(pthread_cond_clockwait, c, m, clock, until);
    if (!is_time(until))
        return EINVAL;
    enter(&w, c);
    int code = pthread_mutex_unlock(m);
    if (!code)
        wait_in_world(&w, clock, until);
    bool woken = leave(&w);
    if (!code)
        pthread_mutex_lock(m);
    return code ? code : woken ? 0 : ETIMEDOUT;
}

/* Which clock a condition has stands in it, as pthread_cond_init has put it there. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    enum { MONOTONIC = 2 };
    if (!channel_is_attached())
        return REAL(pthread_cond_timedwait, c, m, until);
    return pthread_cond_clockwait(
        c, m, c->__data.__wrefs & MONOTONIC ? CLOCK_MONOTONIC : CLOCK_REALTIME, until);
}

int pthread_cond_signal(pthread_cond_t *c) {
    return wake(c) ? 0 : REAL(pthread_cond_signal, c);
}

int pthread_cond_broadcast(pthread_cond_t *c) {
    while (wake(c))
        ;
    return REAL(pthread_cond_broadcast, c);
}

/* Of threads.h, whose conditions and locks are those of pthread.h in the C library. */
int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until) {
    int code =
        pthread_cond_timedwait((pthread_cond_t *)(void *)c, (pthread_mutex_t *)(void *)m, until);
    return code == 0 ? thrd_success : code == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int cnd_signal(cnd_t *c) {
    return pthread_cond_signal((pthread_cond_t *)(void *)c) ? thrd_error : thrd_success;
}

int cnd_broadcast(cnd_t *c) {
    return pthread_cond_broadcast((pthread_cond_t *)(void *)c) ? thrd_error : thrd_success;
}

/* ---- semaphores ---- */

int sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *until) {
    if (!channel_is_attached())
        return REAL(sem_clockwait, s, clock, until);
    for (bool may_wait = true;;) {
        struct waiter w;
        enter(&w, s); /* before it looks: a post after that wakes it */
        bool taken = sem_trywait(s) == 0;
        if (!taken && may_wait && is_time(until))
            wait_in_world(&w, clock, until);
        bool woken = leave(&w);
        if (taken)
            return 0;
        if (!may_wait || !is_time(until)) {
            errno = may_wait ? EINVAL : ETIMEDOUT;
            return -1;
        }
        may_wait = woken;
    }
}

int sem_timedwait(sem_t *s, const struct timespec *until) {
    if (!channel_is_attached())
        return REAL(sem_timedwait, s, until);
    return sem_clockwait(s, CLOCK_REALTIME, until);
}

int sem_post(sem_t *s) {
    int code = REAL(sem_post, s);
    if (!code)
        wake(s);
    return code;
}

/* ---- locks, and ends of threads ---- */

static bool is_before(const struct timespec *a, const struct timespec *b) {
    return a->tv_sec < b->tv_sec || (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

/* Sleeps before the next try; false: the limit has come. */
static bool sleep_on(int64_t *nap_ns, clockid_t clock, const struct timespec *until) {
    struct timespec next;
    clock_gettime(clock, &next);
    if (!is_before(&next, until))
        return false;
    int64_t ns = next.tv_nsec + *nap_ns % NANO;
    next.tv_sec += *nap_ns / NANO + ns / NANO;
    next.tv_nsec = ns % NANO;
    *nap_ns += *nap_ns / 16 + 1;
    return clock_nanosleep(clock, TIMER_ABSTIME, is_before(&next, until) ? &next : until, NULL) ==
           0;
}

#define TRY_UNTIL(clock, until, try)                                                               \
    ({                                                                                             \
        int code;                                                                                  \
        int64_t nap_ns = FIRST_NS;                                                                 \
        while ((code = (try)) == EBUSY)                                                            \
            if (!is_time(until) || !sleep_on(&nap_ns, clock, until)) {                             \
                code = is_time(until) ? ETIMEDOUT : EINVAL;                                        \
                break;                                                                             \
            }                                                                                      \
        code;                                                                                      \
    })

/* Both names of a lock's wait. */
#define LOCK(type, timed, clocked, try)                                                            \
    int clocked(type *lock, clockid_t clock, const struct timespec *until) {                       \
        return channel_is_attached() ? TRY_UNTIL(clock, until, try(lock))                          \
                                     : REAL(clocked, lock, clock, until);                          \
    }                                                                                              \
    int timed(type *lock, const struct timespec *until) {                                          \
        return channel_is_attached() ? clocked(lock, CLOCK_REALTIME, until)                        \
                                     : REAL(timed, lock, until);                                   \
    }

LOCK(pthread_mutex_t, pthread_mutex_timedlock, pthread_mutex_clocklock, pthread_mutex_trylock)
LOCK(pthread_rwlock_t, pthread_rwlock_timedrdlock, pthread_rwlock_clockrdlock,
     pthread_rwlock_tryrdlock)
LOCK(pthread_rwlock_t, pthread_rwlock_timedwrlock, pthread_rwlock_clockwrlock,
     pthread_rwlock_trywrlock)

int mtx_timedlock(mtx_t *m, const struct timespec *until) {
    int code = pthread_mutex_timedlock((pthread_mutex_t *)(void *)m, until);
    return code == 0 ? thrd_success : code == ETIMEDOUT ? thrd_timedout : thrd_error;
}

int pthread_clockjoin_np(pthread_t id, void **result, clockid_t clock,
                         const struct timespec *until) {
    return channel_is_attached() ? TRY_UNTIL(clock, until, pthread_tryjoin_np(id, result))
                                 : REAL(pthread_clockjoin_np, id, result, clock, until);
}

int pthread_timedjoin_np(pthread_t id, void **result, const struct timespec *until) {
    return channel_is_attached() ? pthread_clockjoin_np(id, result, CLOCK_REALTIME, until)
                                 : REAL(pthread_timedjoin_np, id, result, until);
}
