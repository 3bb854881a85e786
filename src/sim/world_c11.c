/* threads.h: the same threads by other names. */
#include <errno.h>
#include <threads.h>

#include "sim/world_pthread.h"

static int outcome(int error) {
    return error == 0                           ? thrd_success
           : error == EBUSY                     ? thrd_busy
           : error == ETIMEDOUT                 ? thrd_timedout
           : error == ENOMEM || error == EAGAIN ? thrd_nomem
                                                : thrd_error;
}

struct start {
    thrd_start_t run;
    void *argument;
};

static void *run_start(void *argument) {
    struct start with = *(struct start *)argument;
    free(argument);
    return (void *)(intptr_t)with.run(with.argument);
}

static int own_thrd_create(thrd_t *id, thrd_start_t run, void *argument) {
    struct start *with = malloc(sizeof *with);
    if (!with)
        return thrd_nomem;
    *with = (struct start){run, argument};
    int error = world_pthread_create(id, NULL, run_start, with);
    if (error)
        free(with);
    return outcome(error);
}

static int own_thrd_join(thrd_t id, int *result) {
    void *value = NULL;
    int error = world_pthread_join(id, &value);
    if (result)
        *result = (int)(intptr_t)value;
    return outcome(error);
}

static int own_thrd_detach(thrd_t id) {
    return outcome(world_pthread_detach(id));
}

static int own_thrd_equal(thrd_t a, thrd_t b) {
    return a == b;
}

static _Noreturn void own_thrd_exit(int result) {
    world_pthread_exit((void *)(intptr_t)result);
}

static void own_thrd_yield(void) {
    world_pause(world_current(), 0);
}

static int own_thrd_sleep(const struct timespec *of, struct timespec *left) {
    world_pause(world_current(), world_time_ps(CLOCK_MONOTONIC, of));
    if (left)
        *left = (struct timespec){0};
    return 0;
}

static int own_mtx_init(mtx_t *m, int kind) {
    world_mutex_init((pthread_mutex_t *)(void *)m, NULL);
    if (kind & mtx_recursive)
        world_mutex_set_recursive((pthread_mutex_t *)(void *)m);
    return thrd_success;
}

static void own_nothing_to_do(void *of) {
    (void)of;
}

static int own_mtx_lock(mtx_t *m) {
    return outcome(world_mutex_lock((pthread_mutex_t *)(void *)m));
}

static int own_mtx_trylock(mtx_t *m) {
    return outcome(world_mutex_trylock((pthread_mutex_t *)(void *)m));
}

static int own_mtx_timedlock(mtx_t *m, const struct timespec *until) {
    return outcome(world_mutex_timedlock((pthread_mutex_t *)(void *)m, until));
}

static int own_mtx_unlock(mtx_t *m) {
    return outcome(world_mutex_unlock((pthread_mutex_t *)(void *)m));
}

static int own_cnd_init(cnd_t *c) {
    return outcome(world_cond_init((pthread_cond_t *)(void *)c, NULL));
}

static int own_cnd_wait(cnd_t *c, mtx_t *m) {
    return outcome(world_cond_wait((pthread_cond_t *)(void *)c, (pthread_mutex_t *)(void *)m));
}

static int own_cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *until) {
    return outcome(
        world_cond_timedwait((pthread_cond_t *)(void *)c, (pthread_mutex_t *)(void *)m, until));
}

static int own_cnd_signal(cnd_t *c) {
    return outcome(world_cond_signal((pthread_cond_t *)(void *)c));
}

static int own_cnd_broadcast(cnd_t *c) {
    return outcome(world_cond_broadcast((pthread_cond_t *)(void *)c));
}

static void own_call_once(once_flag *once, void (*call)(void)) {
    world_pthread_once((pthread_once_t *)(void *)once, call);
}

static int own_tss_create(tss_t *key, tss_dtor_t end) {
    return outcome(world_key_create(key, end));
}

static void own_tss_delete(tss_t key) {
    world_key_delete(key);
}

static int own_tss_set(tss_t key, void *value) {
    return outcome(world_setspecific(key, value));
}

const struct world_call world_c11_calls[] = {
    WORLD_CALL(thrd_create, own_thrd_create),
    WORLD_CALL(thrd_join, own_thrd_join),
    WORLD_CALL(thrd_detach, own_thrd_detach),
    WORLD_CALL(thrd_current, world_pthread_self),
    WORLD_CALL(thrd_equal, own_thrd_equal),
    WORLD_CALL(thrd_exit, own_thrd_exit),
    WORLD_CALL(thrd_yield, own_thrd_yield),
    WORLD_CALL(thrd_sleep, own_thrd_sleep),
    WORLD_CALL(mtx_init, own_mtx_init),
    WORLD_CALL(mtx_destroy, own_nothing_to_do),
    WORLD_CALL(mtx_lock, own_mtx_lock),
    WORLD_CALL(mtx_trylock, own_mtx_trylock),
    WORLD_CALL(mtx_timedlock, own_mtx_timedlock),
    WORLD_CALL(mtx_unlock, own_mtx_unlock),
    WORLD_CALL(cnd_init, own_cnd_init),
    WORLD_CALL(cnd_destroy, own_nothing_to_do),
    WORLD_CALL(cnd_wait, own_cnd_wait),
    WORLD_CALL(cnd_timedwait, own_cnd_timedwait),
    WORLD_CALL(cnd_signal, own_cnd_signal),
    WORLD_CALL(cnd_broadcast, own_cnd_broadcast),
    WORLD_CALL(call_once, own_call_once),
    WORLD_CALL(tss_create, own_tss_create),
    WORLD_CALL(tss_delete, own_tss_delete),
    WORLD_CALL(tss_get, world_getspecific),
    WORLD_CALL(tss_set, own_tss_set),
    {NULL, NULL},
};
