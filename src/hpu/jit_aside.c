/* A thread that compiles for one program while its HPUs go on.
 *
 * Design notes. Whoever asks neither waits nor enters LLVM: what is asked for is the program's
 * (jit.c), under its lock, and here it is only said that there is something. The thread takes no
 * signals. Three things can come in the way of a compilation:
 * - the program's code is freed: that waits until the thread has ended;
 * - the process forks: fork() waits until nobody compiles, so that the child finds LLVM whole. The
 *   child has no such thread, and its HPUs go on with the interpreter and what was compiled before;
 * - the process ends: exit() waits likewise, before LLVM's own destructors run, and nothing is
 *   compiled from then on. For that LLVM must be loaded before the first thread is made. */
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/helper_thread.h"
#include "hpu/jit_private.h"

struct jit_aside {
    pthread_t thread;
    pid_t process; /* that has the thread */
    sem_t asked;
    _Atomic bool ends;
    void (*compile)(void *context);
    void *context;
};

/* There is one LLVM in a process: whoever uses it has this. */
static pthread_mutex_t compiling = PTHREAD_MUTEX_INITIALIZER;
static bool process_ends;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void take(void) {
    pthread_mutex_lock(&compiling);
}

static void give(void) {
    pthread_mutex_unlock(&compiling);
}

static void at_end(void) {
    take();
    process_ends = true;
    give();
}

static void register_all(void) {
    atexit(at_end);
    pthread_atfork(take, give, give);
}

static void *work(void *argument) {
    struct jit_aside *a = argument;
    for (;;) {
        while (sem_wait(&a->asked) != 0 && errno == EINTR)
            ;
        if (atomic_load_explicit(&a->ends, memory_order_acquire))
            return NULL;
        take();
        if (!process_ends)
            a->compile(a->context);
        give();
    }
}

struct jit_aside *jit_aside_new(void (*compile)(void *context), void *context) {
    struct jit_aside *a = calloc(1, sizeof *a);
    if (!a)
        return NULL;
    pthread_once(&once, register_all);
    a->process = getpid();
    a->compile = compile;
    a->context = context;
    sem_init(&a->asked, 0, 0);
    if (helper_thread_start(&a->thread, work, a) == 0)
        return a;
    sem_destroy(&a->asked);
    free(a);
    return NULL;
}

void jit_aside_ask(struct jit_aside *aside) {
    sem_post(&aside->asked);
}

void jit_aside_free(struct jit_aside *aside) {
    if (!aside)
        return;
    atomic_store_explicit(&aside->ends, true, memory_order_release);
    if (aside->process == getpid()) {
        sem_post(&aside->asked);
        pthread_join(aside->thread, NULL);
        sem_destroy(&aside->asked);
    }
    free(aside);
}
