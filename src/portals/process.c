/* Processes, and what surrounds every call. */
#include "portals/process.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "portals/portals_call.h"

/* Looked at by every call, also of a shared library: without a function. */
static _Thread_local struct portals_process *current __attribute__((tls_model("initial-exec")));

/* Portals names no process: what belongs to all threads of a program has to stand somewhere. */
#ifdef PORTALS_ALONE
static struct portals_process *(*const make_process)(void) = portals_make_alone;
#else
static struct portals_process *(*const make_process)(void) = NULL;
#endif
static struct portals_process *_Atomic of_all;
static pthread_once_t is_made = PTHREAD_ONCE_INIT;

struct portals_process *portals_enter(struct portals_process *process) {
    struct portals_process *before = current;
    current = process;
    return before;
}

struct portals_process *portals_current(void) {
    return current ? current : atomic_load_explicit(&of_all, memory_order_acquire);
}

void portals_abandon(void) {
    atomic_store_explicit(&of_all, NULL, memory_order_release); /* and it is not made again */
}

static void make_once(void) {
    atomic_store_explicit(&of_all, make_process(), memory_order_release);
}

struct portals_process *portals_here(void) {
    struct portals_process *process = portals_current();
    if (process || !make_process)
        return process;
    pthread_once(&is_made, make_once);
    return portals_current();
}

const char *portals_call_name(enum portals_call call) {
    static const char *const name[] = {
        "no call",
#define X(name) #name,
#include "portals/calls.def"
#undef X
    };
    return (unsigned)call < PORTALS_CALL_COUNT ? name[call] : "no call";
}

/* Charges, then locks. A world, which has no lock, may switch and report while it charges. */
static void enter(struct portals_process *process, enum portals_call call, uint64_t bytes,
                  const void *caller) {
    const struct portals_host *host = process->host;
    if (!host->lock) {
        process->call = call;
        process->caller = caller;
    }
    if (host->charge)
        host->charge(process->context, call, bytes);
    if (!host->lock)
        return;
    host->lock(process->context);
    process->call = call;
    process->caller = caller;
}

struct portals_process *portals_call_begin(enum portals_call call, uint64_t bytes,
                                           const void *caller) {
    struct portals_process *process = portals_current();
    if (!process)
        return NULL;
    enter(process, call, bytes, caller);
    if (portals_is_initialised(process->portals))
        return process;
    portals_call_end(process, PTL_NO_INIT);
    return NULL;
}

int portals_call_end(struct portals_process *process, int code) {
    process->call = PORTALS_NO_CALL;
    if (process->host->unlock)
        process->host->unlock(process->context);
    return code;
}

int portals_call_back(enum portals_call call, int (*work)(struct portals *, ptl_handle_any_t),
                      ptl_handle_any_t handle, const void *caller) {
    for (uint64_t until = 0;;) {
        struct portals_process *process = portals_call_begin(call, 0, caller);
        if (!process)
            return PTL_NO_INIT;
        const struct portals_host *host = process->host;
        int code = portals_call_end(process, work(process->portals, handle));
        if (code != PTL_IN_USE || !host->look)
            return code;
        uint64_t now = host->now(process->context);
        if (until && now >= until)
            return code;
        until = until ? until : now + host->per_millisecond;
        sched_yield();
    }
}

/* Not like the others: there is nothing to begin with. */
int PtlInit(void) {
    struct portals_process *process = portals_here();
    if (!process && !make_process)
        fprintf(stderr, "openspin: no card: this program has the Portals calls of libopenspin.a, "
                        "which are for simulated worlds; link libportals before it\n");
    if (!process)
        return PTL_FAIL;
    enter(process, PORTALS_CALL_PtlInit, 0, PORTALS_CALLER);
    return portals_call_end(process, portals_init(process->portals));
}

void PtlFini(void) {
    struct portals_process *process = portals_call_begin(PORTALS_CALL_PtlFini, 0, PORTALS_CALLER);
    if (!process)
        return;
    portals_fini(process->portals);
    portals_call_end(process, PTL_OK);
}
