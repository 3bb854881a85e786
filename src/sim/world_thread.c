/* pthread.h: threads, and what belongs to one. */
#include <errno.h>
#include <limits.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "sim/link.h"
#include "sim/world_pthread.h"

/* ---- waiting ----------------------------------------------------------------------------------
 */

struct world_thread *world_in_call(void) {
    struct world_thread *t = world_current();
    world_catch_up(t);
    world_free_call(t);
    return t;
}

bool world_wait_on(struct world_thread *t, const void *object, const char *in,
                   uint64_t deadline_ps) {
    t->waits_for = object;
    t->order = ++t->rank->orders;
    world_block(t, in, deadline_ps);
    bool handed = !t->waits_for;
    t->waits_for = NULL;
    return handed;
}

struct world_thread *world_first_on(const struct world_rank *r, const void *object) {
    struct world_thread *first = NULL, *t = (struct world_thread *)(uintptr_t)&r->main;
    for (; t; t = t == &r->main ? r->others : t->next)
        if (t->waits_for == object && t->state == THREAD_BLOCKED &&
            (!first || t->order < first->order))
            first = t;
    return first;
}

struct world_thread *world_wake_first(struct world_rank *r, const void *object) {
    struct world_thread *t = world_first_on(r, object);
    if (!t)
        return NULL;
    t->waits_for = NULL;
    world_wake(t);
    return t;
}

void world_libc_end(struct world_thread *t) {
    while (t->posix && t->posix->ends) {
        struct thread_end *next = t->posix->ends->next;
        free(t->posix->ends);
        t->posix->ends = next;
    }
    free(t->posix);
    free(t->tls);
    t->posix = NULL;
    t->tls = NULL;
}

/* ---- one thread -------------------------------------------------------------------------------
 */

static struct world_pthread *posix_of(struct world_thread *t) {
    if (!t->posix)
        t->posix = calloc(1, sizeof *t->posix);
    return t->posix;
}

static struct world_thread *find_thread(const struct world_rank *r, pthread_t id) {
    struct world_thread *t = (struct world_thread *)(uintptr_t)&r->main;
    while (t && t->number + 1ul != id)
        t = t == &r->main ? r->others : t->next;
    return t;
}

static void end_specific(struct world_thread *t) {
    struct world_libc *c = t->rank->libc;
    struct world_pthread *p = t->posix;
    for (int round = 0; p && c && round < PTHREAD_DESTRUCTOR_ITERATIONS; round++)
        for (uint32_t k = 0; k < c->keys; k++) {
            void *value = p->specific[k];
            p->specific[k] = NULL;
            if (value && c->key_used[k] && c->key_end[k])
                c->key_end[k](value);
        }
}

static void end_objects(struct world_thread *t) {
    struct world_pthread *p = t->posix;
    while (p && p->ends) {
        struct thread_end e = *p->ends;
        free(p->ends);
        p->ends = e.next;
        e.call(e.argument);
    }
}

/* Its cleanups first, each of which comes back here. */
_Noreturn void world_pthread_exit(void *result) {
    struct world_thread *t = world_current();
    struct world_pthread *p = posix_of(t);
    if (p) {
        p->not_cancellable = true;
        p->result = result;
        __pthread_unwind_buf_t *cleanup = p->cleanup;
        if (cleanup) {
            p->cleanup = cleanup->__pad[0];
            siglongjmp((struct __jmp_buf_tag *)(void *)cleanup, 1);
        }
    }
    end_objects(t);
    end_specific(t);
    world_catch_up(t);
    if (t->rank->live == 1)
        world_exit(t, 0, true); /* the last one closes the door */
    t->state = THREAD_ENDED;
    while (world_wake_first(t->rank, t))
        ;
    world_thread_end(t);
}

static void run_posix(void *argument) {
    struct world_thread *t = world_current();
    (void)argument;
    world_pthread_exit(t->posix->run(t->posix->argument));
}

int world_pthread_create(pthread_t *id, const pthread_attr_t *how, void *(*run)(void *),
                         void *argument) {
    struct world_thread *by = world_in_call(), *t;
    struct spin_error err;
    int state = PTHREAD_CREATE_JOINABLE;
    if (how)
        pthread_attr_getdetachstate(how, &state);
    t = world_thread_start(by->rank, run_posix, NULL, &err);
    if (!t)
        return EAGAIN;
    if (!posix_of(t)) {
        by->rank->live--;
        world_thread_leave(t);
        return EAGAIN;
    }
    t->posix->run = run;
    t->posix->argument = argument;
    t->detached = state == PTHREAD_CREATE_DETACHED;
    *id = t->number + 1ul;
    return 0;
}

static int join(pthread_t id, void **result, uint64_t deadline_ps) {
    struct world_thread *by = world_in_call(), *t = find_thread(by->rank, id);
    if (!t)
        return ESRCH;
    if (t == by)
        return EDEADLK;
    if (t->detached)
        return EINVAL;
    if (t->state != THREAD_ENDED && !deadline_ps)
        return EBUSY;
    while (t->state != THREAD_ENDED)
        if (!world_wait_on(by, t, "pthread_join", deadline_ps)) {
            world_cancel_point(by);
            return ETIMEDOUT;
        }
    if (result)
        *result = t->posix ? t->posix->result : NULL;
    world_thread_leave(t);
    return 0;
}

int world_pthread_join(pthread_t id, void **result) {
    return join(id, result, UINT64_MAX);
}

static int own_tryjoin(pthread_t id, void **result) {
    return join(id, result, 0);
}

static int own_clockjoin(pthread_t id, void **result, clockid_t clock,
                         const struct timespec *until) {
    return join(id, result, world_time_ps(clock, until) + 1);
}

static int own_timedjoin(pthread_t id, void **result, const struct timespec *until) {
    return own_clockjoin(id, result, CLOCK_REALTIME, until);
}

int world_pthread_detach(pthread_t id) {
    struct world_thread *t = find_thread(world_in_call()->rank, id);
    if (!t)
        return ESRCH;
    if (t->detached)
        return EINVAL;
    t->detached = true;
    if (t->state == THREAD_ENDED)
        world_thread_leave(t);
    return 0;
}

pthread_t world_pthread_self(void) {
    return world_current()->number + 1ul;
}

static int own_equal(pthread_t a, pthread_t b) {
    return a == b;
}

static pid_t own_gettid(void) {
    const struct world_thread *t = world_current();
    return (pid_t)(t->rank->index + 1 + (uint32_t)t->number * t->rank->world->ranks);
}

/* ---- once -------------------------------------------------------------------------------------
 */

int world_pthread_once(pthread_once_t *once, void (*call)(void)) {
    enum { NOT_YET, NOW, DONE };
    struct world_thread *t = world_current();
    if (*once == DONE)
        return 0;
    world_catch_up(t);
    if (*once == NOW)
        world_wait_on(t, once, "pthread_once", UINT64_MAX);
    if (*once == DONE)
        return 0;
    *once = NOW;
    call();
    *once = DONE;
    while (world_wake_first(t->rank, once))
        ;
    return 0;
}

/* ---- what belongs to a thread -----------------------------------------------------------------
 */

int world_key_create(pthread_key_t *key, void (*end)(void *)) {
    struct world_libc *c = world_libc(world_current());
    for (uint32_t k = 0; k < WORLD_KEYS; k++)
        if (!c->key_used[k]) {
            c->key_used[k] = true;
            c->key_end[k] = end;
            c->keys = k >= c->keys ? k + 1 : c->keys;
            *key = k;
            return 0;
        }
    return EAGAIN;
}

/* The next owner of the key finds no values of this one. */
int world_key_delete(pthread_key_t key) {
    struct world_rank *r = world_current()->rank;
    if (key >= WORLD_KEYS || !r->libc || !r->libc->key_used[key])
        return EINVAL;
    r->libc->key_used[key] = false;
    for (struct world_thread *t = &r->main; t; t = t == &r->main ? r->others : t->next)
        if (t->posix)
            t->posix->specific[key] = NULL;
    return 0;
}

void *world_getspecific(pthread_key_t key) {
    const struct world_pthread *p = world_current()->posix;
    return p && key < WORLD_KEYS ? p->specific[key] : NULL;
}

int world_setspecific(pthread_key_t key, const void *value) {
    struct world_thread *t = world_current();
    struct world_pthread *p = posix_of(t);
    if (key >= WORLD_KEYS || !t->rank->libc || !t->rank->libc->key_used[key])
        return EINVAL;
    if (!p)
        return ENOMEM;
    p->specific[key] = (void *)(uintptr_t)value;
    return 0;
}

static uint8_t *tls_of(struct world_thread *t) {
    if (!t->tls)
        t->tls = world_program_tls(t->rank->program, t->rank->copy);
    if (!t->tls) {
        fprintf(stderr, "openspin: rank %u: out of memory\n", t->rank->index);
        _Exit(1);
    }
    return t->tls;
}

static void *own_tls_get_addr(const uint64_t of[2]) {
    if (!(of[0] & LINK_TLS_OBJECT))
        return (void *)(uintptr_t)of[1];
    struct world_thread *t = world_current();
    return tls_of(t) + world_program_tls_at(t->rank->program, of[0] & ~LINK_TLS_OBJECT) + of[1];
}

#if defined(__aarch64__)
/* Called by code that expects every register but x0 to be left alone: x0 has the descriptor, and
 * gets the distance from the thread pointer. */
__attribute__((visibility("hidden"))) void world_tls_descriptor(void);
__attribute__((visibility("hidden"), used)) uint64_t world_tls_distance(const uint64_t of[2]);

uint64_t world_tls_distance(const uint64_t of[2]) {
    uint64_t address = of[1] & LINK_TLS_FIXED
                           ? of[1] & ~LINK_TLS_FIXED
                           : (uint64_t)(uintptr_t)(tls_of(world_current()) + of[1]);
    return address - (uint64_t)(uintptr_t)__builtin_thread_pointer();
}

__asm__(".text\n"
        ".p2align 4\n"
        ".globl world_tls_descriptor\n"
        ".hidden world_tls_descriptor\n"
        ".type world_tls_descriptor, %function\n"
        "world_tls_descriptor:\n"
        "    stp x29, x30, [sp, #-160]!\n"
        "    stp x1, x2, [sp, #16]\n"
        "    stp x3, x4, [sp, #32]\n"
        "    stp x5, x6, [sp, #48]\n"
        "    stp x7, x8, [sp, #64]\n"
        "    stp x9, x10, [sp, #80]\n"
        "    stp x11, x12, [sp, #96]\n"
        "    stp x13, x14, [sp, #112]\n"
        "    stp x15, x16, [sp, #128]\n"
        "    stp x17, x18, [sp, #144]\n"
        "    sub sp, sp, #512\n"
        "    stp q0, q1, [sp]\n"
        "    stp q2, q3, [sp, #32]\n"
        "    stp q4, q5, [sp, #64]\n"
        "    stp q6, q7, [sp, #96]\n"
        "    stp q8, q9, [sp, #128]\n"
        "    stp q10, q11, [sp, #160]\n"
        "    stp q12, q13, [sp, #192]\n"
        "    stp q14, q15, [sp, #224]\n"
        "    stp q16, q17, [sp, #256]\n"
        "    stp q18, q19, [sp, #288]\n"
        "    stp q20, q21, [sp, #320]\n"
        "    stp q22, q23, [sp, #352]\n"
        "    stp q24, q25, [sp, #384]\n"
        "    stp q26, q27, [sp, #416]\n"
        "    stp q28, q29, [sp, #448]\n"
        "    stp q30, q31, [sp, #480]\n"
        "    bl world_tls_distance\n"
        "    ldp q0, q1, [sp]\n"
        "    ldp q2, q3, [sp, #32]\n"
        "    ldp q4, q5, [sp, #64]\n"
        "    ldp q6, q7, [sp, #96]\n"
        "    ldp q8, q9, [sp, #128]\n"
        "    ldp q10, q11, [sp, #160]\n"
        "    ldp q12, q13, [sp, #192]\n"
        "    ldp q14, q15, [sp, #224]\n"
        "    ldp q16, q17, [sp, #256]\n"
        "    ldp q18, q19, [sp, #288]\n"
        "    ldp q20, q21, [sp, #320]\n"
        "    ldp q22, q23, [sp, #352]\n"
        "    ldp q24, q25, [sp, #384]\n"
        "    ldp q26, q27, [sp, #416]\n"
        "    ldp q28, q29, [sp, #448]\n"
        "    ldp q30, q31, [sp, #480]\n"
        "    add sp, sp, #512\n"
        "    ldp x1, x2, [sp, #16]\n"
        "    ldp x3, x4, [sp, #32]\n"
        "    ldp x5, x6, [sp, #48]\n"
        "    ldp x7, x8, [sp, #64]\n"
        "    ldp x9, x10, [sp, #80]\n"
        "    ldp x11, x12, [sp, #96]\n"
        "    ldp x13, x14, [sp, #112]\n"
        "    ldp x15, x16, [sp, #128]\n"
        "    ldp x17, x18, [sp, #144]\n"
        "    ldp x29, x30, [sp], #160\n"
        "    ret\n"
        ".size world_tls_descriptor, .-world_tls_descriptor\n");

const void *world_libc_tls_call(void) {
    return (const void *)world_tls_descriptor;
}
#else
const void *world_libc_tls_call(void) {
    return NULL;
}
#endif

static int own_thread_atexit(void (*call)(void *), void *argument, void *object) {
    struct world_pthread *p = posix_of(world_current());
    struct thread_end *e = p ? malloc(sizeof *e) : NULL;
    (void)object;
    if (!e)
        return -1;
    *e = (struct thread_end){call, argument, p->ends};
    p->ends = e;
    return 0;
}

/* ---- cancelling -------------------------------------------------------------------------------
 */

void world_cancel_point(struct world_thread *t) {
    if (t->posix && t->posix->cancelled && !t->posix->not_cancellable)
        world_pthread_exit(PTHREAD_CANCELED);
}

static int own_cancel(pthread_t id) {
    struct world_thread *t = find_thread(world_in_call()->rank, id);
    if (!t || !posix_of(t))
        return ESRCH;
    t->posix->cancelled = true;
    if (!t->posix->not_cancellable)
        world_wake(t); /* with what it waits for not handed over */
    return 0;
}

static void own_testcancel(void) {
    world_cancel_point(world_current());
}

static int own_setcancelstate(int state, int *before) {
    struct world_pthread *p = posix_of(world_current());
    if (!p)
        return ENOMEM;
    if (before)
        *before = p->not_cancellable ? PTHREAD_CANCEL_DISABLE : PTHREAD_CANCEL_ENABLE;
    p->not_cancellable = state == PTHREAD_CANCEL_DISABLE;
    return 0;
}

static int own_setcanceltype(int type, int *before) {
    (void)type; /* always deferred */
    if (before)
        *before = PTHREAD_CANCEL_DEFERRED;
    return 0;
}

static void own_register_cancel(__pthread_unwind_buf_t *cleanup) {
    struct world_pthread *p = posix_of(world_current());
    if (!p)
        return;
    cleanup->__pad[0] = p->cleanup;
    p->cleanup = cleanup;
}

static void own_unregister_cancel(__pthread_unwind_buf_t *cleanup) {
    struct world_pthread *p = world_current()->posix;
    if (p)
        p->cleanup = cleanup->__pad[0];
}

static _Noreturn void own_unwind_next(__pthread_unwind_buf_t *cleanup) {
    struct world_pthread *p = world_current()->posix;
    (void)cleanup;
    world_pthread_exit(p ? p->result : NULL);
}

/* ---- names and places -------------------------------------------------------------------------
 */

static int own_setname(pthread_t id, const char *name) {
    struct world_thread *t = find_thread(world_current()->rank, id);
    if (!t || !posix_of(t))
        return ESRCH;
    if (strlen(name) >= sizeof t->posix->name)
        return ERANGE;
    memcpy(t->posix->name, name, strlen(name) + 1);
    return 0;
}

static int own_getname(pthread_t id, char *name, size_t room) {
    struct world_thread *t = find_thread(world_current()->rank, id);
    if (!t)
        return ESRCH;
    snprintf(name, room, "%s", t->posix ? t->posix->name : "");
    return 0;
}

/* Where a thread runs is the world's to say (`cores`). */
static int own_nothing_to_set(pthread_t id) {
    return find_thread(world_current()->rank, id) ? 0 : ESRCH;
}

static int own_not_there(pthread_t id) {
    (void)id;
    return ENOSYS;
}

static int own_sigmask(int how, const sigset_t *set, sigset_t *before) {
    (void)how, (void)set; /* signals are the process's, not a rank's */
    if (before)
        sigemptyset(before);
    return 0;
}

const struct world_call world_thread_calls[] = {
    WORLD_CALL(pthread_create, world_pthread_create),
    WORLD_CALL(pthread_join, world_pthread_join),
    WORLD_CALL(pthread_tryjoin_np, own_tryjoin),
    WORLD_CALL(pthread_timedjoin_np, own_timedjoin),
    WORLD_CALL(pthread_clockjoin_np, own_clockjoin),
    WORLD_CALL(pthread_detach, world_pthread_detach),
    WORLD_CALL(pthread_self, world_pthread_self),
    WORLD_CALL(pthread_equal, own_equal),
    WORLD_CALL(pthread_exit, world_pthread_exit),
    WORLD_CALL(pthread_once, world_pthread_once),
    WORLD_CALL(pthread_key_create, world_key_create),
    WORLD_CALL(__pthread_key_create, world_key_create),
    WORLD_CALL(pthread_key_delete, world_key_delete),
    WORLD_CALL(pthread_getspecific, world_getspecific),
    WORLD_CALL(pthread_setspecific, world_setspecific),
    WORLD_CALL(pthread_cancel, own_cancel),
    WORLD_CALL(pthread_testcancel, own_testcancel),
    WORLD_CALL(pthread_setcancelstate, own_setcancelstate),
    WORLD_CALL(pthread_setcanceltype, own_setcanceltype),
    WORLD_CALL(__pthread_register_cancel, own_register_cancel),
    WORLD_CALL(__pthread_unregister_cancel, own_unregister_cancel),
    WORLD_CALL(__pthread_unwind_next, own_unwind_next),
    WORLD_CALL(pthread_setname_np, own_setname),
    WORLD_CALL(pthread_getname_np, own_getname),
    WORLD_CALL(pthread_setaffinity_np, own_nothing_to_set),
    WORLD_CALL(pthread_setschedparam, own_nothing_to_set),
    WORLD_CALL(pthread_setschedprio, own_nothing_to_set),
    WORLD_CALL(pthread_getaffinity_np, own_not_there),
    WORLD_CALL(pthread_getschedparam, own_not_there),
    WORLD_CALL(pthread_getattr_np, own_not_there),
    WORLD_CALL(pthread_getcpuclockid, own_not_there),
    WORLD_CALL(pthread_kill, own_not_there),
    WORLD_CALL(pthread_sigmask, own_sigmask),
    WORLD_CALL(gettid, own_gettid),
    WORLD_CALL(__tls_get_addr, own_tls_get_addr),
    WORLD_CALL(__cxa_thread_atexit, own_thread_atexit),
    WORLD_CALL(__cxa_thread_atexit_impl, own_thread_atexit),
    {NULL, NULL},
};
