/* What stops a program that does not come back: ^C, and the watch on one that makes no calls.
 *
 * Virtual time passes in calls alone, so memory that a program watches without any call never
 * changes. A timer of the thread's own processor time looks every 10 ms whether the program that
 * runs is still where it was entered. If it is, its registers and its stack are noted: a program
 * that computes comes to new states, one that watches memory returns to a few. So the second is
 * ended after two seconds, and the first only after `patience`.
 *
 * A handler of a signal cannot say much: the program may stand in malloc. But where it stands in
 * code of its own nothing of ours or of the C library is half done, and the handler leaves the
 * fibre for good, from the stack that it has; the run ends as after any error. Elsewhere it waits
 * for the next tick. One world at a time has the signals: they are the process's.
 *
 * Ranks that are functions stand in the object of that function, which may have our code too. Who
 * has made no call for a second or more is in no call that matters, so it is left there as well; ^C
 * does not wait so long, and is the process's own affair then. */
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "sim/world_private.h"

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

enum {
    TICKS_PER_SECOND = 100,
    SURE_SECONDS = 2,     /* of a program that repeats itself */
    INTERRUPT_TICKS = 100 /* after ^C: then it ends where it stands */
};

static struct spin_world *watched;

/* ---- where a program stands --------------------------------------------------------------------
 */

static const void *counter_of(const ucontext_t *c) {
#if defined(__x86_64__)
    return (const void *)c->uc_mcontext.gregs[REG_RIP];
#elif defined(__aarch64__)
    return (const void *)c->uc_mcontext.pc;
#else
    (void)c;
    return NULL;
#endif
}

static uint64_t mix(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
    return hash ^ hash >> 29;
}

/* Of its registers and the upper part of its stack, with the 128 bytes below that leaves use. */
__attribute__((no_sanitize_address)) static uint64_t state_of(const ucontext_t *c,
                                                              const struct world_thread *t) {
    enum { MOST_BYTES = 16 << 10, RED_ZONE = 128 };
    uint64_t hash = 1;
    uintptr_t stack = 0, bottom, top;
#if defined(__x86_64__)
    for (int i = REG_R8; i <= REG_EFL; i++)
        hash = mix(hash, (uint64_t)c->uc_mcontext.gregs[i]);
    stack = (uintptr_t)c->uc_mcontext.gregs[REG_RSP];
#elif defined(__aarch64__)
    for (int i = 0; i < 31; i++)
        hash = mix(hash, c->uc_mcontext.regs[i]);
    hash = mix(hash, c->uc_mcontext.pc);
    stack = (uintptr_t)c->uc_mcontext.sp;
#endif
    fibre_stack(t->stacks, t->fibre, &bottom, &top);
    if (stack < bottom + RED_ZONE || stack > top)
        return hash;
    stack = (stack - RED_ZONE) & ~(uintptr_t)7;
    for (uintptr_t at = stack; at < top && at < stack + MOST_BYTES; at += 8)
        hash = mix(hash, *(const volatile uint64_t *)at);
    return hash;
}

/* Is this the program's code, not ours or a library's? */
static bool is_programs(const struct spin_world *w, const void *address) {
    const char *path, *function;
    uint64_t offset;
    return ((uintptr_t)address >= w->watch.code_from && (uintptr_t)address < w->watch.code_to) ||
           world_program_where(w, address, &path, &offset, &function);
}

/* ---- signals ----------------------------------------------------------------------------------
 */

/* For good, if it may be left where it stands. */
static void try_to_leave(struct spin_world *w, enum watch_reason why, const void *at) {
    struct world_watch *s = &w->watch;
    if (!is_programs(w, at))
        return;
    s->reason = why;
    s->at = at;
    s->thread = w->current;
    sim_stop(w->engine);
    fibre_leave(w->current->stacks);
}

static void note_state(struct world_watch *s, uint64_t state) {
    for (uint32_t i = 0; i < s->known; i++)
        if (s->state[i] == state) {
            s->repeated++;
            return;
        }
    if (s->known < sizeof s->state / sizeof s->state[0])
        s->state[s->known++] = state;
}

static void on_tick(int number, siginfo_t *info, void *context) {
    struct spin_world *w = watched;
    (void)number, (void)info;
    if (!w)
        return;
    struct world_watch *s = &w->watch;
    if (s->interrupted && ++s->late > INTERRUPT_TICKS) {
        static const char text[] =
            "openspin: interrupted; a rank does not come back from a library\n";
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        sigaction(SIGINT, &s->before_int, NULL); /* removes what is half written */
        raise(SIGINT);
        return;
    }
    if (!w->current)
        return; /* a card's or the network's turn */
    const void *at = counter_of(context);
    if (s->interrupted) {
        try_to_leave(w, WATCH_INTERRUPTED, at);
        return;
    }
    if (s->entry != s->entries) { /* it was in a call since */
        s->entry = s->entries;
        s->ticks = s->known = s->repeated = 0;
    }
    s->ticks++;
    note_state(s, state_of(context, w->current));
    uint64_t patience = w->params.patience * TICKS_PER_SECOND;
    uint64_t sure = SURE_SECONDS * TICKS_PER_SECOND;
    if (patience && s->ticks >= patience)
        try_to_leave(w, 2 * s->repeated > s->ticks ? WATCH_REPEATS : WATCH_COMPUTES, at);
    else if (patience && s->ticks >= sure && 2 * s->repeated > s->ticks)
        try_to_leave(w, WATCH_REPEATS, at);
}

static void start_timer(timer_t timer) {
    const struct itimerspec every = {.it_interval = {.tv_nsec = 1000000000 / TICKS_PER_SECOND},
                                     .it_value = {.tv_nsec = 1000000000 / TICKS_PER_SECOND}};
    timer_settime(timer, 0, &every, NULL);
}

/* A program in a call of the system uses no processor time, so ticks are of real time from here. */
static void on_interrupt(int number, siginfo_t *info, void *context) {
    struct spin_world *w = watched;
    (void)number, (void)info;
    if (!w)
        return;
    struct world_watch *s = &w->watch;
    sigaction(SIGINT, &s->before_int, NULL); /* a second one ends it at once */
    s->interrupted = true;
    sim_stop(w->engine);
    start_timer(s->real);
    if (w->current)
        try_to_leave(w, WATCH_INTERRUPTED, counter_of(context));
}

static bool new_timer(clockid_t clock, timer_t *timer) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGVTALRM};
    event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
    return timer_create(clock, &event, timer) == 0;
}

struct code_search {
    uintptr_t of;
    struct world_watch *watch;
};

/* The segment with that address. */
static int note_code(struct dl_phdr_info *info, size_t size, void *context) {
    const struct code_search *search = context;
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
        if (p->p_type != PT_LOAD || search->of < from || search->of >= to)
            continue;
        search->watch->code_from = from;
        search->watch->code_to = to;
        return 1;
    }
    return 0;
}

void world_watch_start(struct spin_world *w) {
    struct world_watch *s = &w->watch;
    if (watched || (!w->program_count && !w->processes && !w->main))
        return;
    if (w->main)
        dl_iterate_phdr(note_code, &(struct code_search){(uintptr_t)w->main, s});
    if (!new_timer(CLOCK_THREAD_CPUTIME_ID, &s->own))
        return;
    if (!new_timer(CLOCK_MONOTONIC, &s->real)) {
        timer_delete(s->own);
        return;
    }
    struct sigaction tick = {.sa_sigaction = on_tick,
                             .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    struct sigaction interrupt = {.sa_sigaction = on_interrupt,
                                  .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaddset(&tick.sa_mask, SIGINT);
    sigaddset(&interrupt.sa_mask, SIGVTALRM);
    watched = w;
    s->running = true;
    sigaction(SIGVTALRM, &tick, &s->before_tick);
    sigaction(SIGINT, NULL, &s->before_int);
    if (!w->main && s->before_int.sa_handler != SIG_IGN) /* nohup, a shell's background */
        sigaction(SIGINT, &interrupt, NULL);
    start_timer(s->own);
}

void world_watch_stop(struct spin_world *w) {
    struct world_watch *s = &w->watch;
    if (!s->running)
        return;
    timer_delete(s->own);
    timer_delete(s->real);
    watched = NULL;
    s->running = false;
    /* Handlers that left a fibre have not returned: their signals are still blocked. */
    sigset_t both;
    sigemptyset(&both);
    sigaddset(&both, SIGVTALRM);
    sigaddset(&both, SIGINT);
    sigprocmask(SIG_UNBLOCK, &both, NULL);
    sigaction(SIGVTALRM, &s->before_tick, NULL);
    sigaction(SIGINT, &s->before_int, NULL);
    if (s->interrupted && !s->reason) { /* outside of any program */
        s->reason = WATCH_INTERRUPTED;
        s->thread = NULL;
    }
}
