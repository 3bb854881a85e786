/* SIGSEGV of generated code, and only that.
 *
 * A fault is ours when the kernel reports one (nobody sent the signal), the instruction is one that
 * was registered, and the address is in a view. Then the thread goes on at the instruction's
 * landing. Everything else is the application's: its handler is called as the kernel would have
 * called it, or what it had set happens.
 *
 * The handler takes no lock and allocates nothing. Pieces of code are a list that grows at its
 * head; who removes one waits until no thread is reading, which is never long: a reader is inside
 * a signal handler that blocks all signals. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "hpu/guard.h"
#include "openspin.h"

/* ---- sites ---- */

struct guard_sites {
    const struct guard_site *site;
    size_t count;
    _Atomic(struct guard_sites *) next;
};

static _Atomic(struct guard_sites *) all_sites;
static atomic_uint readers;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t at(const int32_t *distance) {
    return (uintptr_t)distance + (uintptr_t)(intptr_t)*distance;
}

struct guard_sites *guard_sites_add(const struct guard_site *site, size_t count) {
    struct guard_sites *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->site = site;
    made->count = count;
    pthread_mutex_lock(&changing);
    atomic_store(&made->next, atomic_load(&all_sites));
    atomic_store(&all_sites, made);
    pthread_mutex_unlock(&changing);
    return made;
}

void guard_sites_remove(struct guard_sites *sites) {
    if (!sites)
        return;
    pthread_mutex_lock(&changing);
    _Atomic(struct guard_sites *) *link = &all_sites;
    while (atomic_load(link) != sites)
        link = &atomic_load(link)->next;
    atomic_store(link, atomic_load(&sites->next));
    pthread_mutex_unlock(&changing);
    while (atomic_load(&readers)) /* who comes now does not find it any more */
        sched_yield();
    free(sites);
}

/* 0: no such instruction. */
static uintptr_t landing_of(uintptr_t instruction) {
    uintptr_t found = 0;
    atomic_fetch_add(&readers, 1);
    for (struct guard_sites *s = atomic_load(&all_sites); s && !found; s = atomic_load(&s->next))
        for (size_t i = 0; i < s->count && !found; i++)
            if (at(&s->site[i].instruction) == instruction)
                found = at(&s->site[i].landing);
    atomic_fetch_sub(&readers, 1);
    return found;
}

/* ---- the signal ---- */

static _Atomic(enum spin_guards) wanted;
/* What was there before ours; written once, before ours is. */
static struct sigaction before;
static atomic_bool before_is_spent; /* SA_RESETHAND */

#if defined __x86_64__
#define PC_OF(context) ((context)->uc_mcontext.gregs[REG_RIP])
#elif defined __aarch64__
#define PC_OF(context) ((context)->uc_mcontext.pc)
#endif

bool spin_handle_fault(int number, void *information, void *machine) {
#ifdef PC_OF
    const siginfo_t *info = information;
    ucontext_t *context = machine;
    if (number != SIGSEGV || (info->si_code != SEGV_MAPERR && info->si_code != SEGV_ACCERR) ||
        !guard_has((uintptr_t)info->si_addr))
        return false;
    uintptr_t landing = landing_of((uintptr_t)PC_OF(context));
    if (!landing)
        return false;
    PC_OF(context) = (__typeof__(PC_OF(context)))landing;
    return true;
#else
    (void)number, (void)information, (void)machine;
    return false;
#endif
}

/* What happens without any handler: a fault is repeated when we return and ends the process there,
 * with the core that it would have left; what was sent is sent again. */
static void end_by_default(int number, siginfo_t *info) {
    struct sigaction none = {.sa_handler = SIG_DFL};
    sigaction(number, &none, NULL);
    if (info->si_code <= 0)
        syscall(SYS_rt_tgsigqueueinfo, getpid(), (pid_t)syscall(SYS_gettid), number, info);
}

/* Blocks what the kernel would have blocked for that handler. */
static void set_mask_of(const struct sigaction *action, int number, const ucontext_t *context) {
    sigset_t mask = context->uc_sigmask;
    sigorset(&mask, &mask, &action->sa_mask);
    if (!(action->sa_flags & SA_NODEFER))
        sigaddset(&mask, number);
    pthread_sigmask(SIG_SETMASK, &mask, NULL);
}

static void pass_on(int number, siginfo_t *info, void *context) {
    bool sent = info->si_code <= 0;
    bool is_default = before.sa_handler == SIG_DFL || atomic_load(&before_is_spent);
    if (!is_default && before.sa_handler == SIG_IGN) {
        if (sent)
            return;
        is_default = true; /* the kernel does not let a fault be ignored */
    }
    if (is_default) {
        end_by_default(number, info);
        return;
    }
    if (before.sa_flags & SA_RESETHAND)
        atomic_store(&before_is_spent, true);
    set_mask_of(&before, number, context);
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else
        before.sa_handler(number);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    if (!spin_handle_fault(number, info, context))
        pass_on(number, info, context);
}

/* On the stack that the handler before it wanted, so that this one still has it. */
static void install(void) {
    sigaction(SIGSEGV, NULL, &before);
    bool ignored = !(before.sa_flags & SA_SIGINFO) && before.sa_handler == SIG_IGN;
    struct sigaction ours = {.sa_sigaction = on_fault,
                             .sa_flags = SA_SIGINFO |
                                         (before.sa_flags & (SA_ONSTACK | SA_RESTART)) |
                                         (ignored ? SA_RESTART : 0)};
    sigfillset(&ours.sa_mask);
    sigaction(SIGSEGV, &ours, NULL);
}

void spin_guard_pages(enum spin_guards how) {
    atomic_store(&wanted, how);
}

bool guard_is_wanted(void) {
    return atomic_load_explicit(&wanted, memory_order_relaxed) != SPIN_GUARDS_OFF;
}

bool guard_is_ready(void) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct sigaction now;
    sigset_t blocked;
    enum spin_guards how = atomic_load(&wanted);
#ifndef PC_OF
    return false;
#endif
    /* A fault while the signal is blocked ends the process. */
    if (how == SPIN_GUARDS_OFF || pthread_sigmask(SIG_SETMASK, NULL, &blocked) ||
        sigismember(&blocked, SIGSEGV))
        return false;
    if (how == SPIN_GUARDS_CALLED)
        return true;
    pthread_once(&once, install);
    return sigaction(SIGSEGV, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
           now.sa_sigaction == on_fault;
}
