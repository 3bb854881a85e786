/* pthread.h and semaphore.h: what threads of a rank wait by. Each kind is laid over the memory that
 * the program has for it, so that static initialisers hold: all 0 is a free mutex, and so on. */
#include <errno.h>
#include <limits.h>
#include <semaphore.h>

#include "sim/world_pthread.h"

/* ---- mutexes ----------------------------------------------------------------------------------
 */

struct mutex {
    uint32_t owner; /* thread number + 1; 0: free */
    uint32_t count; /* how often, if recursive */
    uint32_t unused[2];
    int32_t kind; /* where the C library's initialisers put it */
};
_Static_assert(sizeof(struct mutex) <= sizeof(pthread_mutex_t), "fits");
_Static_assert(offsetof(struct mutex, kind) == 16, "as in the C library");

static int kind_of(const struct mutex *m) {
    return m->kind & 3;
}

int world_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *how) {
    struct mutex *m = (struct mutex *)mutex;
    int kind = PTHREAD_MUTEX_NORMAL;
    if (how)
        pthread_mutexattr_gettype(how, &kind);
    *mutex = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
    *m = (struct mutex){.kind = kind};
    return 0;
}

void world_mutex_set_recursive(pthread_mutex_t *mutex) {
    ((struct mutex *)mutex)->kind = PTHREAD_MUTEX_RECURSIVE;
}

static int own_mutex_destroy(pthread_mutex_t *mutex) {
    return ((struct mutex *)mutex)->owner ? EBUSY : 0;
}

static bool take(struct mutex *m, const struct world_thread *t) {
    if (m->owner && !(m->owner == t->number + 1 && kind_of(m) == PTHREAD_MUTEX_RECURSIVE))
        return false;
    m->owner = t->number + 1;
    m->count++;
    return true;
}

static int lock(struct mutex *m, uint64_t deadline_ps) {
    struct world_thread *t = world_in_call();
    if (take(m, t))
        return 0;
    if (m->owner == t->number + 1 && kind_of(m) == PTHREAD_MUTEX_ERRORCHECK)
        return EDEADLK;
    while (!world_wait_on(t, m, "pthread_mutex_lock", deadline_ps))
        if (deadline_ps != UINT64_MAX)
            return ETIMEDOUT;
    return 0; /* it was handed over */
}

static void hand_over(struct mutex *m, struct world_rank *r) {
    struct world_thread *next = world_wake_first(r, m);
    m->owner = next ? next->number + 1 : 0;
    m->count = next ? 1 : 0;
}

int world_mutex_lock(pthread_mutex_t *m) {
    return lock((struct mutex *)m, UINT64_MAX);
}

int world_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until) {
    return lock((struct mutex *)m, world_time_ps(CLOCK_REALTIME, until));
}

static int own_mutex_clocklock(pthread_mutex_t *m, clockid_t clock, const struct timespec *until) {
    return lock((struct mutex *)m, world_time_ps(clock, until));
}

/* Who is refused will try again: others get a chance. */
int world_mutex_trylock(pthread_mutex_t *m) {
    struct world_thread *t = world_in_call();
    if (take((struct mutex *)m, t))
        return 0;
    world_pause(t, 0);
    return EBUSY;
}

int world_mutex_unlock(pthread_mutex_t *mutex) {
    struct mutex *m = (struct mutex *)mutex;
    struct world_thread *t = world_in_call();
    if (m->owner != t->number + 1 && kind_of(m) != PTHREAD_MUTEX_NORMAL)
        return EPERM;
    if (m->count > 1)
        m->count--;
    else
        hand_over(m, t->rank);
    return 0;
}

/* ---- conditions -------------------------------------------------------------------------------
 */

struct condition {
    clockid_t clock; /* 0 is CLOCK_REALTIME */
};

int world_cond_init(pthread_cond_t *c, const pthread_condattr_t *how) {
    clockid_t clock = CLOCK_REALTIME;
    if (how)
        pthread_condattr_getclock(how, &clock);
    *c = (pthread_cond_t)PTHREAD_COND_INITIALIZER;
    ((struct condition *)c)->clock = clock;
    return 0;
}

static int own_cond_destroy(pthread_cond_t *c) {
    (void)c;
    return 0;
}

static int wait_for(pthread_cond_t *c, pthread_mutex_t *mutex, uint64_t deadline_ps) {
    struct world_thread *t = world_in_call();
    struct mutex *m = (struct mutex *)mutex;
    uint32_t count = m->count;
    world_cancel_point(t);
    if (m->owner != t->number + 1)
        return EPERM;
    hand_over(m, t->rank);
    bool signalled = world_wait_on(t, c, "pthread_cond_wait", deadline_ps);
    while (!take(m, t))
        if (world_wait_on(t, m, "pthread_mutex_lock", UINT64_MAX))
            break;
    m->count = count;
    world_cancel_point(t);
    return signalled ? 0 : ETIMEDOUT;
}

int world_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    int code = wait_for(c, m, UINT64_MAX);
    return code == ETIMEDOUT ? 0 : code;
}

int world_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until) {
    return wait_for(c, m, world_time_ps(((struct condition *)c)->clock, until));
}

static int own_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t clock,
                              const struct timespec *until) {
    return wait_for(c, m, world_time_ps(clock, until));
}

int world_cond_signal(pthread_cond_t *c) {
    world_wake_first(world_in_call()->rank, c);
    return 0;
}

int world_cond_broadcast(pthread_cond_t *c) {
    struct world_rank *r = world_in_call()->rank;
    while (world_wake_first(r, c))
        ;
    return 0;
}

/* ---- locks for readers and writers ------------------------------------------------------------
 */

struct rwlock {
    uint32_t readers, writer; /* writer: thread number + 1 */
};

static int own_rwlock_init(pthread_rwlock_t *l, const pthread_rwlockattr_t *how) {
    (void)how;
    *l = (pthread_rwlock_t)PTHREAD_RWLOCK_INITIALIZER;
    return 0;
}

static int own_rwlock_destroy(pthread_rwlock_t *l) {
    const struct rwlock *w = (struct rwlock *)l;
    return w->readers || w->writer ? EBUSY : 0;
}

static bool enter(struct rwlock *l, struct world_thread *t, bool write) {
    if (l->writer || (write && l->readers))
        return false;
    if (write)
        l->writer = t->number + 1;
    else
        l->readers++;
    return true;
}

static int enter_or_wait(pthread_rwlock_t *lock, bool write, uint64_t deadline_ps) {
    struct rwlock *l = (struct rwlock *)lock;
    struct world_thread *t = world_in_call();
    if (enter(l, t, write))
        return 0;
    if (l->writer == t->number + 1)
        return EDEADLK;
    if (!deadline_ps) {
        world_pause(t, 0);
        return EBUSY;
    }
    t->wants_to_write = write;
    while (!world_wait_on(t, l, write ? "pthread_rwlock_wrlock" : "pthread_rwlock_rdlock",
                          deadline_ps))
        if (deadline_ps != UINT64_MAX)
            return ETIMEDOUT;
    return 0;
}

static int own_rdlock(pthread_rwlock_t *l) {
    return enter_or_wait(l, false, UINT64_MAX);
}

static int own_wrlock(pthread_rwlock_t *l) {
    return enter_or_wait(l, true, UINT64_MAX);
}

static int own_tryrdlock(pthread_rwlock_t *l) {
    return enter_or_wait(l, false, 0);
}

static int own_trywrlock(pthread_rwlock_t *l) {
    int code = enter_or_wait(l, true, 0);
    return code == EDEADLK ? EBUSY : code;
}

static int own_timedrdlock(pthread_rwlock_t *l, const struct timespec *until) {
    return enter_or_wait(l, false, world_time_ps(CLOCK_REALTIME, until) + 1);
}

static int own_timedwrlock(pthread_rwlock_t *l, const struct timespec *until) {
    return enter_or_wait(l, true, world_time_ps(CLOCK_REALTIME, until) + 1);
}

/* Those who wait go on in their order: one writer, or readers up to the next writer. */
static int own_rwlock_unlock(pthread_rwlock_t *lock) {
    struct rwlock *l = (struct rwlock *)lock;
    struct world_rank *r = world_in_call()->rank;
    struct world_thread *next;
    if (l->writer)
        l->writer = 0;
    else if (l->readers)
        l->readers--;
    while ((next = world_first_on(r, l)) && enter(l, next, next->wants_to_write))
        world_wake_first(r, l);
    return 0;
}

/* ---- barriers ---------------------------------------------------------------------------------
 */

struct barrier {
    uint32_t count, there;
};

static int own_barrier_init(pthread_barrier_t *barrier, const pthread_barrierattr_t *how,
                            unsigned count) {
    struct barrier *b = (struct barrier *)barrier;
    (void)how;
    if (!count)
        return EINVAL;
    *b = (struct barrier){.count = count};
    return 0;
}

static int own_barrier_destroy(pthread_barrier_t *barrier) {
    return ((struct barrier *)barrier)->there ? EBUSY : 0;
}

static int own_barrier_wait(pthread_barrier_t *barrier) {
    struct barrier *b = (struct barrier *)barrier;
    struct world_thread *t = world_in_call();
    if (++b->there < b->count) {
        while (!world_wait_on(t, b, "pthread_barrier_wait", UINT64_MAX))
            ;
        return 0;
    }
    b->there = 0;
    while (world_wake_first(t->rank, b))
        ;
    return PTHREAD_BARRIER_SERIAL_THREAD;
}

/* ---- spin locks -------------------------------------------------------------------------------
 */

static int own_spin_init(pthread_spinlock_t *l, int shared) {
    (void)shared;
    *l = 0;
    return 0;
}

static int own_spin_destroy(pthread_spinlock_t *l) {
    (void)l;
    return 0;
}

static int own_spin_lock(pthread_spinlock_t *l) {
    struct world_thread *t = world_in_call();
    while (*l && !world_wait_on(t, (const void *)(uintptr_t)l, "pthread_spin_lock", UINT64_MAX))
        ;
    *l = 1;
    return 0;
}

static int own_spin_trylock(pthread_spinlock_t *l) {
    struct world_thread *t = world_in_call();
    if (*l) {
        world_pause(t, 0);
        return EBUSY;
    }
    *l = 1;
    return 0;
}

static int own_spin_unlock(pthread_spinlock_t *l) {
    struct world_thread *t = world_in_call();
    if (!world_wake_first(t->rank, (const void *)(uintptr_t)l))
        *l = 0; /* else it is the next one's */
    return 0;
}

/* ---- semaphores -------------------------------------------------------------------------------
 */

struct semaphore {
    uint32_t value;
};

static int fail(int error) {
    errno = error;
    return -1;
}

static int own_sem_init(sem_t *semaphore, int shared, unsigned value) {
    (void)shared;
    if (value > SEM_VALUE_MAX)
        return fail(EINVAL);
    *(struct semaphore *)semaphore = (struct semaphore){value};
    return 0;
}

static int own_sem_destroy(sem_t *semaphore) {
    (void)semaphore;
    return 0;
}

static int down(sem_t *semaphore, uint64_t deadline_ps) {
    struct semaphore *s = (struct semaphore *)semaphore;
    struct world_thread *t = world_in_call();
    world_cancel_point(t);
    if (s->value) {
        s->value--;
        return 0;
    }
    while (!world_wait_on(t, s, "sem_wait", deadline_ps)) {
        world_cancel_point(t);
        if (deadline_ps != UINT64_MAX)
            return fail(ETIMEDOUT);
    }
    return 0;
}

static int own_sem_wait(sem_t *s) {
    return down(s, UINT64_MAX);
}

static int own_sem_timedwait(sem_t *s, const struct timespec *until) {
    return down(s, world_time_ps(CLOCK_REALTIME, until));
}

static int own_sem_clockwait(sem_t *s, clockid_t clock, const struct timespec *until) {
    return down(s, world_time_ps(clock, until));
}

static int own_sem_trywait(sem_t *semaphore) {
    struct semaphore *s = (struct semaphore *)semaphore;
    struct world_thread *t = world_in_call();
    if (!s->value) {
        world_pause(t, 0);
        return fail(EAGAIN);
    }
    s->value--;
    return 0;
}

static int own_sem_post(sem_t *semaphore) {
    struct semaphore *s = (struct semaphore *)semaphore;
    struct world_thread *t = world_in_call();
    if (world_wake_first(t->rank, s))
        return 0;
    if (s->value == SEM_VALUE_MAX)
        return fail(EOVERFLOW);
    s->value++;
    return 0;
}

static int own_sem_getvalue(sem_t *semaphore, int *value) {
    *value = (int)((struct semaphore *)semaphore)->value;
    return 0;
}

/* Between processes there is the network. */
static sem_t *own_sem_open(const char *name) {
    (void)name;
    errno = ENOSYS;
    return SEM_FAILED;
}

const struct world_call world_sync_calls[] = {
    WORLD_CALL(pthread_mutex_init, world_mutex_init),
    WORLD_CALL(pthread_mutex_destroy, own_mutex_destroy),
    WORLD_CALL(pthread_mutex_lock, world_mutex_lock),
    WORLD_CALL(pthread_mutex_trylock, world_mutex_trylock),
    WORLD_CALL(pthread_mutex_timedlock, world_mutex_timedlock),
    WORLD_CALL(pthread_mutex_clocklock, own_mutex_clocklock),
    WORLD_CALL(pthread_mutex_unlock, world_mutex_unlock),
    WORLD_CALL(pthread_cond_init, world_cond_init),
    WORLD_CALL(pthread_cond_destroy, own_cond_destroy),
    WORLD_CALL(pthread_cond_wait, world_cond_wait),
    WORLD_CALL(pthread_cond_timedwait, world_cond_timedwait),
    WORLD_CALL(pthread_cond_clockwait, own_cond_clockwait),
    WORLD_CALL(pthread_cond_signal, world_cond_signal),
    WORLD_CALL(pthread_cond_broadcast, world_cond_broadcast),
    WORLD_CALL(pthread_rwlock_init, own_rwlock_init),
    WORLD_CALL(pthread_rwlock_destroy, own_rwlock_destroy),
    WORLD_CALL(pthread_rwlock_rdlock, own_rdlock),
    WORLD_CALL(pthread_rwlock_wrlock, own_wrlock),
    WORLD_CALL(pthread_rwlock_tryrdlock, own_tryrdlock),
    WORLD_CALL(pthread_rwlock_trywrlock, own_trywrlock),
    WORLD_CALL(pthread_rwlock_timedrdlock, own_timedrdlock),
    WORLD_CALL(pthread_rwlock_timedwrlock, own_timedwrlock),
    WORLD_CALL(pthread_rwlock_unlock, own_rwlock_unlock),
    WORLD_CALL(pthread_barrier_init, own_barrier_init),
    WORLD_CALL(pthread_barrier_destroy, own_barrier_destroy),
    WORLD_CALL(pthread_barrier_wait, own_barrier_wait),
    WORLD_CALL(pthread_spin_init, own_spin_init),
    WORLD_CALL(pthread_spin_destroy, own_spin_destroy),
    WORLD_CALL(pthread_spin_lock, own_spin_lock),
    WORLD_CALL(pthread_spin_trylock, own_spin_trylock),
    WORLD_CALL(pthread_spin_unlock, own_spin_unlock),
    WORLD_CALL(sem_init, own_sem_init),
    WORLD_CALL(sem_destroy, own_sem_destroy),
    WORLD_CALL(sem_wait, own_sem_wait),
    WORLD_CALL(sem_timedwait, own_sem_timedwait),
    WORLD_CALL(sem_clockwait, own_sem_clockwait),
    WORLD_CALL(sem_trywait, own_sem_trywait),
    WORLD_CALL(sem_post, own_sem_post),
    WORLD_CALL(sem_getvalue, own_sem_getvalue),
    WORLD_CALL(sem_open, own_sem_open),
    {NULL, NULL},
};
