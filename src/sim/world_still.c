/* Is a process still? What the system says of its threads: those in a call of ours wait for us;
 * others may sleep in a call of the system that ends only when somebody does something.
 *
 * Threads are looked at one after the other, and one that slept may be woken by the next before
 * that one sleeps too. So all are looked at twice: who sleeps both times and has not been switched
 * to in between slept all the time from the end of the first look to the start of the second. */
#include <ctype.h>
#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "sim/world_process.h"

/* Reads a small file of /proc; "" if it is not there. */
static void read_proc(char *text, size_t room, int pid, int thread, const char *name) {
    char path[80];
    snprintf(path, sizeof path, "/proc/%d/task/%d/%s", pid, thread, name);
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, text, room - 1) : -1;
    text[got > 0 ? got : 0] = 0;
    if (file >= 0)
        close(file);
}

/* Calls of the system that wait for somebody. Not read of the standard input, write or what a disk
 * does: these wait for no rank, and the world waits with them. */
static enum world_stillness waits_in(int pid, int thread) {
    static const long waiting[] = {
        SYS_read,
        SYS_readv,
        SYS_recvfrom,
        SYS_recvmsg,
        SYS_accept,
        SYS_accept4,
        SYS_connect,
        SYS_ppoll,
        SYS_pselect6,
        SYS_epoll_pwait,
        SYS_wait4,
        SYS_waitid,
        SYS_nanosleep,
        SYS_clock_nanosleep,
        SYS_rt_sigsuspend,
        SYS_rt_sigtimedwait,
        SYS_restart_syscall,
        SYS_semtimedop,
        SYS_msgrcv,
#ifdef SYS_poll
        SYS_poll,
        SYS_select,
        SYS_epoll_wait,
        SYS_pause,
        SYS_semop,
#endif
    };
    char text[256];
    long number;
    unsigned long long first = 0, fourth = 0;
    read_proc(text, sizeof text, pid, thread, "syscall");
    int fields = sscanf(text, "%ld %llx %*x %*x %llx", &number, &first, &fourth);
    if (fields < 1)
        return *text ? WORLD_RUNS : WORLD_SLEEPS; /* "running"; or we may not look */
    if (number == SYS_futex)
        return fourth ? WORLD_SLEEPS : WORLD_IS_DEAD;
    if (number == SYS_read && first == 0)
        return WORLD_RUNS;
    for (size_t i = 0; i < sizeof waiting / sizeof waiting[0]; i++)
        if (number == waiting[i])
            return WORLD_SLEEPS;
    return WORLD_RUNS;
}

static bool is_in_call(const struct world_process *p, int thread) {
    for (uint32_t i = 0; i < CHANNEL_SLOTS; i++) {
        const struct channel_slot *s = &p->shared->slot[i];
        if (s->thread == thread && atomic_load(&s->state) >= CHANNEL_POSTED)
            return true;
    }
    return false;
}

/* How often it has gone to sleep. */
static uint64_t sleeps_of(int pid, int thread) {
    static const char name[] = "\nvoluntary_ctxt_switches:";
    char text[8192];
    read_proc(text, sizeof text, pid, thread, "status");
    const char *at = strstr(text, name);
    return at ? strtoull(at + sizeof name - 1, NULL, 10) : 0;
}

struct look {
    enum world_stillness all;
    uint64_t marks; /* of who sleeps, and since when */
};

static enum world_stillness look_at_thread(const struct world_process *p, int pid, int thread,
                                           uint64_t *sleeps) {
    char text[512];
    *sleeps = 0;
    if (is_in_call(p, thread))
        return WORLD_IS_DEAD;
    read_proc(text, sizeof text, pid, thread, "stat");
    const char *end = strrchr(text, ')');
    if (!end || !end[1])
        return WORLD_IS_DEAD; /* it has ended meanwhile */
    char state = end[2];
    if (state == 'Z' || state == 'X')
        return WORLD_IS_DEAD;
    if (state == 'T' || state == 't') /* somebody debugs it */
        return WORLD_RUNS;
    enum world_stillness how = state == 'S' ? waits_in(pid, thread) : WORLD_RUNS;
    *sleeps = how == WORLD_RUNS ? 0 : sleeps_of(pid, thread); /* after it was found asleep */
    return how;
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t count) {
    const uint8_t *at = bytes;
    for (size_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x100000001b3ull;
    return hash;
}

/* A thread that its creator has made, but that has not come to its first instruction. */
static bool is_starting(const struct world_process *p) {
    if (!atomic_load(&p->shared->threads))
        return false;
    for (uint32_t i = 0; i < CHANNEL_SLOTS; i++) {
        const struct channel_slot *s = &p->shared->slot[i];
        if (atomic_load(&s->state) == CHANNEL_RUNNING && !atomic_load(&s->thread))
            return true;
    }
    return false;
}

static struct look look_at_all(const struct world_process *p) {
    char path[40];
    struct look look = {.all = WORLD_RUNS, .marks = 1};
    int pid = atomic_load(&p->shared->pid);
    if (!pid || is_starting(p))
        return look;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    look.all = WORLD_IS_DEAD;
    while (folder && look.all != WORLD_RUNS && (entry = readdir(folder))) {
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        int thread = atoi(entry->d_name);
        uint64_t mark[2] = {(uint64_t)thread, 0};
        enum world_stillness one = look_at_thread(p, pid, thread, &mark[1]);
        look.all = one < look.all ? one : look.all;
        look.marks = mix(look.marks, mark, sizeof mark);
    }
    if (folder)
        closedir(folder);
    return look;
}

enum world_stillness world_look_at(const struct world_process *p) {
    struct look first = look_at_all(p);
    if (first.all == WORLD_RUNS)
        return WORLD_RUNS;
    struct look second = look_at_all(p);
    return second.marks == first.marks ? second.all : WORLD_RUNS;
}

/* ---- what a thread does that runs ---- */

static struct world_state state_of(struct world_process *p, int thread) {
    enum { TOP = 1024 };
    struct user_regs_struct registers;
    struct iovec all = {&registers, sizeof registers};
    uint8_t stack[TOP];
    uint64_t hash = 0xcbf29ce484222325ull;
    if (ptrace(PTRACE_GETREGSET, thread, NT_PRSTATUS, &all))
        return (struct world_state){0};
#if defined(__x86_64__)
    uint64_t place[] = {registers.rip, registers.rsp};
#else
    uint64_t place[] = {registers.pc, registers.sp};
#endif
    struct world_state state = {mix(hash, place, sizeof place), mix(hash, &registers, all.iov_len),
                                false};
    if (world_process_read(p, stack, place[1], TOP))
        state.all = mix(state.all, stack, TOP);
    return state;
}

/* Has it been there before? In a loop that has been found once, it is enough to be at a place that
 * belongs to it: what the loop compares with is another value each time. */
static bool note_state(struct world_process *p, struct world_state state) {
    const uint32_t room = sizeof p->state / sizeof p->state[0];
    bool found = false;
    for (uint32_t i = 0; i < p->known && i < room; i++) {
        struct world_state *s = &p->state[i];
        if (s->all == state.all)
            return s->again = true;
        found |= p->watched && s->again && s->place == state.place;
    }
    if (!found)
        p->state[p->known++ % room] = state; /* for the one that was noted first */
    return found;
}

/* One that has not had the processor since the last sample is where it was, which says nothing. To
 * be stopped takes some of it too. Where the system does not tell: it has. */
static bool has_run(struct world_process *p, int thread) {
    enum { ENOUGH_NS = 100000 };
    char text[80];
    struct world_slot *s = p->slot;
    while (s < p->slot + CHANNEL_SLOTS && atomic_load(&s->shared->thread) != thread)
        s++;
    read_proc(text, sizeof text, atomic_load(&p->shared->pid), thread, "schedstat");
    uint64_t ran_ns = strtoull(text, NULL, 10), before_ns;
    if (!ran_ns || s == p->slot + CHANNEL_SLOTS)
        return true;
    before_ns = s->ran_ns;
    s->ran_ns = ran_ns;
    return ran_ns < before_ns || ran_ns >= before_ns + ENOUGH_NS; /* less: another one was there */
}

enum finding { FOUND_NEW, FOUND_NOTHING, FOUND_KNOWN };

/* Stops it for a moment. */
static enum finding sample_thread(struct world_process *p, int thread) {
    int status = 0, got;
    enum finding found = FOUND_NEW;
    if (ptrace(PTRACE_SEIZE, thread, NULL, NULL))
        return FOUND_NEW; /* somebody debugs it, or we may not */
    /* If it is ending, that is what comes. Nobody else can reap it now, so a signal of ours must
     * not keep us from it. */
    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL);
    while ((got = waitpid(thread, &status, __WALL)) < 0 && errno == EINTR)
        ;
    if (got == thread && WIFSTOPPED(status)) {
        if (!has_run(p, thread))
            found = FOUND_NOTHING;
        else if (note_state(p, state_of(p, thread)))
            found = FOUND_KNOWN;
        /* A signal that came just then is its own. */
        ptrace(PTRACE_DETACH, thread, NULL, status >> 16 == 0 ? (long)WSTOPSIG(status) : 0l);
    } else if (got == thread && thread == p->pid) { /* its end */
        p->status = status;
        p->pid = 0;
    }
    return found;
}

void world_sample(struct world_process *p) {
    char path[40];
    uint64_t sleeps;
    int pid = atomic_load(&p->shared->pid);
    enum finding all = FOUND_KNOWN;
    uint32_t threads = 0;
    snprintf(path, sizeof path, "/proc/%d/task", pid);
    DIR *folder = opendir(path);
    const struct dirent *entry;
    while (folder && (entry = readdir(folder))) {
        int thread = atoi(entry->d_name); /* 0: of . and .. */
        if (!thread || look_at_thread(p, pid, thread, &sleeps) != WORLD_RUNS)
            continue;
        enum finding one = sample_thread(p, thread);
        threads++;
        all = one < all ? one : all;
    }
    if (folder)
        closedir(folder);
    if (!threads || all == FOUND_NOTHING)
        return;
    p->samples++;
    p->repeated += all == FOUND_KNOWN;
    p->row = all == FOUND_KNOWN ? p->row + threads : 0;
}
