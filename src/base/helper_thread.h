/* Threads that a library has for itself: the program's signals are not for them, but for faults,
 * which are their own, and they have a name of their own, by which they can be told from the
 * program's. */
#ifndef SPIN_BASE_HELPER_THREAD_H
#define SPIN_BASE_HELPER_THREAD_H

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

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

/* The caller works for microseconds at a time: when it wakes it shall not wait until who has the
 * processor has used up its time, some milliseconds. It says so by a slice of its own, which Linux
 * heeds from 6.12 on; elsewhere, or in another class, nothing changes. */
static inline void helper_thread_be_prompt(void) {
    enum { LEAST_SLICE_NS = 100000 };
    /* The system's struct sched_attr, whose header is at odds with the C library's. */
    struct {
        uint32_t size, policy;
        uint64_t flags;
        int32_t nice;
        uint32_t priority;
        uint64_t runtime_ns, deadline_ns, period_ns;
    } attr = {0};
    if (syscall(SYS_sched_getattr, 0, &attr, sizeof attr, 0) || attr.policy != SCHED_OTHER)
        return;
    attr.runtime_ns = LEAST_SLICE_NS;
    syscall(SYS_sched_setattr, 0, &attr, 0);
}

#endif
