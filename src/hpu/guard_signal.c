/* SIGSEGV of generated code (base/fault_signal.h has what the signal does otherwise).
 *
 * A fault is ours when the kernel reports one (nobody sent the signal), the instruction is one that
 * was registered, and the address is in a view, or anywhere if the instruction belongs to a copy to
 * the program's memory. Then the thread goes on at the instruction's landing.
 *
 * The handler takes no lock and allocates nothing. Pieces of code are a list that grows at its
 * head; who removes one waits until no thread is reading, which is never long: a reader is inside
 * a signal handler that blocks all signals. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <ucontext.h>

#include "base/fault_signal.h"
#include "hpu/guard.h"
#include "openspin.h"

static bool take_fault(int number, const siginfo_t *info, ucontext_t *context);

/* ---- sites ---- */

struct guard_sites {
    const struct guard_site *site;
    size_t count;
    bool are_copies;
    _Atomic(struct guard_sites *) next;
};

static _Atomic(struct guard_sites *) all_sites;
static atomic_uint readers;
static pthread_mutex_t changing = PTHREAD_MUTEX_INITIALIZER;

static uintptr_t at(const int32_t *distance) {
    return (uintptr_t)distance + (uintptr_t)(intptr_t)*distance;
}

struct guard_sites *guard_sites_add(const struct guard_site *site, size_t count, bool are_copies) {
    struct guard_sites *made = calloc(1, sizeof *made);
    if (!made)
        return NULL;
    made->site = site;
    made->count = count;
    made->are_copies = are_copies;
    fault_signal_add(take_fault);
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
static uintptr_t landing_of(uintptr_t instruction, bool in_copies) {
    uintptr_t found = 0;
    atomic_fetch_add(&readers, 1);
    for (struct guard_sites *s = atomic_load(&all_sites); s && !found; s = atomic_load(&s->next))
        for (size_t i = 0; i < s->count && !found && s->are_copies == in_copies; i++)
            if (at(&s->site[i].instruction) == instruction)
                found = at(&s->site[i].landing);
    atomic_fetch_sub(&readers, 1);
    return found;
}

/* ---- the signal ---- */

static _Atomic(enum spin_guards) wanted;

#if defined __x86_64__
#define PC_OF(context) ((context)->uc_mcontext.gregs[REG_RIP])
#elif defined __aarch64__
#define PC_OF(context) ((context)->uc_mcontext.pc)
#endif

static bool take_fault(int number, const siginfo_t *info, ucontext_t *context) {
#ifdef PC_OF
    if (info->si_code <= 0) /* somebody has sent it */
        return false;
    bool in_view = number == SIGSEGV &&
                   (info->si_code == SEGV_MAPERR || info->si_code == SEGV_ACCERR) &&
                   guard_has((uintptr_t)info->si_addr);
    uintptr_t landing = landing_of((uintptr_t)PC_OF(context), !in_view);
    if (!landing)
        return false;
    PC_OF(context) = (__typeof__(PC_OF(context)))landing;
    return true;
#else
    (void)number, (void)info, (void)context;
    return false;
#endif
}

bool spin_handle_fault(int number, void *information, void *machine) {
    return fault_signal_handle(number, information, machine);
}

void spin_guard_pages(enum spin_guards how) {
    atomic_store(&wanted, how);
    fault_signal_leave_to_program(how == SPIN_GUARDS_CALLED);
}

bool guard_is_wanted(void) {
    return atomic_load_explicit(&wanted, memory_order_relaxed) != SPIN_GUARDS_OFF;
}

bool guard_is_ready(void) {
#ifndef PC_OF
    return false;
#endif
    if (atomic_load(&wanted) == SPIN_GUARDS_OFF)
        return false;
    fault_signal_add(take_fault);
    return fault_signal_is_ready(SIGSEGV);
}
