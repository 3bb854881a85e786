/* Threads that a library has for itself: the program's signals are not for them, but for faults,
 * which are their own, and they have a name of their own, by which they can be told from the
 * program's. */
#ifndef SPIN_BASE_HELPER_THREAD_H
#define SPIN_BASE_HELPER_THREAD_H

#include <pthread.h>
#include <signal.h>

#define HELPER_THREAD_NAME                                                                         \
    "openspin/card" /* at most 15 letters; who starts threads passes it on                         \
                     */

/* As pthread_create. */
static inline int helper_thread_start(pthread_t *thread, void *(*run)(void *), void *context) {
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int code = pthread_create(thread, NULL, run, context);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!code)
        pthread_setname_np(*thread, HELPER_THREAD_NAME);
    return code;
}

#endif
