/* Threads of a rank, as pthread.h has them: what world_thread.c, world_sync.c and world_c11.c
 * share. They run one at a time and in virtual time, so nothing here is locked: what threads wait
 * for is handed from one to the next in the order in which they came. */
#ifndef SPIN_SIM_WORLD_PTHREAD_H
#define SPIN_SIM_WORLD_PTHREAD_H

#include <pthread.h>

#include "sim/world_libc.h"

struct thread_end { /* of a thread-local object */
    void (*call)(void *);
    void *argument;
    struct thread_end *next;
};

struct world_pthread {
    void *(*run)(void *);
    void *argument, *result;
    bool cancelled, not_cancellable;
    __pthread_unwind_buf_t *cleanup; /* pthread_cleanup_push, the last one */
    struct thread_end *ends;
    char name[16];
    void *specific[WORLD_KEYS];
};

/* Begins every call that other threads can tell of: at the thread's time, and not for ever in a
 * loop.
 */
struct world_thread *world_in_call(void);
/* Waits for `object` until somebody hands it over, or a deadline: false. */
bool world_wait_on(struct world_thread *t, const void *object, const char *in,
                   uint64_t deadline_ps);
/* The one who has waited longest goes on; NULL: nobody waits. */
struct world_thread *world_wake_first(struct world_rank *r, const void *object);
struct world_thread *world_first_on(const struct world_rank *r, const void *object);
/* Where a thread that was cancelled ends. */
void world_cancel_point(struct world_thread *t);
/* On that clock (world_clock.c). */
uint64_t world_time_ps(clockid_t clock, const struct timespec *of);

int world_pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *),
                         void *argument);
int world_pthread_join(pthread_t id, void **result);
int world_pthread_detach(pthread_t id);
pthread_t world_pthread_self(void);
_Noreturn void world_pthread_exit(void *result);
int world_pthread_once(pthread_once_t *once, void (*call)(void));
int world_key_create(pthread_key_t *key, void (*end)(void *));
int world_key_delete(pthread_key_t key);
void *world_getspecific(pthread_key_t key);
int world_setspecific(pthread_key_t key, const void *value);

int world_mutex_init(pthread_mutex_t *m, const pthread_mutexattr_t *how);
int world_mutex_lock(pthread_mutex_t *m);
int world_mutex_trylock(pthread_mutex_t *m);
int world_mutex_timedlock(pthread_mutex_t *m, const struct timespec *until);
int world_mutex_unlock(pthread_mutex_t *m);
void world_mutex_set_recursive(pthread_mutex_t *m);
int world_cond_init(pthread_cond_t *c, const pthread_condattr_t *how);
int world_cond_wait(pthread_cond_t *c, pthread_mutex_t *m);
int world_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until);
int world_cond_signal(pthread_cond_t *c);
int world_cond_broadcast(pthread_cond_t *c);

#endif
