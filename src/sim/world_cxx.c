/* Threads of C++. Their members live in the system's library, which would make threads of the
 * system's; so a program is linked to these instead. Layouts are those of the Itanium ABI and of
 * libstdc++, which have not changed since its threads exist. */
#include <errno.h>

#include "sim/world_pthread.h"

struct state { /* std::thread::_State */
    void (*const *table)(struct state *);
};
enum { DELETE = 1, RUN = 2 }; /* in its table */

static void *run_state(void *argument) {
    struct state *s = argument;
    s->table[RUN](s);
    s->table[DELETE](s);
    return NULL;
}

static void own_start_thread(pthread_t *id, struct state **state, void (*unused)(void)) {
    struct state *s = *state;
    (void)unused;
    if (world_pthread_create(id, NULL, run_state, s) != 0)
        world_no_memory(world_current(),
                        "a std::thread"); /* exceptions are the program's library's */
    *state = NULL;                        /* the thread's now */
}

static void own_join(pthread_t *id) {
    world_pthread_join(*id, NULL);
    *id = 0;
}

static void own_detach(pthread_t *id) {
    world_pthread_detach(*id);
    *id = 0;
}

static unsigned own_concurrency(void) {
    return (unsigned)world_current()->rank->world->params.cores;
}

static void own_wait(pthread_cond_t *c, pthread_mutex_t **lock) {
    world_cond_wait(c, *lock);
}

const struct world_call world_cxx_calls[] = {
    WORLD_CALL(
        _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE,
        own_start_thread),
    WORLD_CALL(_ZNSt6thread4joinEv, own_join),
    WORLD_CALL(_ZNSt6thread6detachEv, own_detach),
    WORLD_CALL(_ZNSt6thread20hardware_concurrencyEv, own_concurrency),
    WORLD_CALL(_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE, own_wait),
    WORLD_CALL(_ZNSt18condition_variable10notify_oneEv, world_cond_signal),
    WORLD_CALL(_ZNSt18condition_variable10notify_allEv, world_cond_broadcast),
    {NULL, NULL},
};
