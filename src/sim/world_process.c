/* Ranks that are processes: world_process.h says how. */
#include "sim/world_process.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "base/error.h"
#include "base/file.h"
#include "config.h"
#include "live/live_clock.h"
#include "live/live_pmi.h"

#define SPINS        50u /* while the world waits for a process: about a microsecond */
#define SOON_NS      LIVE_MS
#define WATCHES_NS   (200 * LIVE_MS) /* then it is looked whether a thread only watches memory */
#define NOTICES_NS   (2 * LIVE_MS)   /* of its processor time, to see what its card has written */
#define LET_GO_MS    2000
#define SLEEPS_NS    (10 * LIVE_MS) /* one thread alone that sleeps so long is outside */
#define FIRST_NAP_NS (LIVE_MS / 50)
#define LONGEST_NS   (5 * LIVE_MS)

/* ---- which programs are processes ---- */

bool world_is_executable(const char *path) {
    unsigned char head[4096] = {0};
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = file >= 0 ? read(file, head, sizeof head) : -1;
    if (file >= 0)
        close(file);
    if (got > 2 && head[0] == '#' && head[1] == '!')
        return true;
    Elf64_Ehdr h;
    if (got < (ssize_t)sizeof h || memcmp(head, ELFMAG, SELFMAG) || head[EI_CLASS] != ELFCLASS64)
        return false;
    memcpy(&h, head, sizeof h);
    for (uint32_t i = 0; i < h.e_phnum; i++) {
        Elf64_Phdr p;
        uint64_t at = h.e_phoff + i * sizeof p;
        if (at + sizeof p > sizeof head)
            break;
        memcpy(&p, head + at, sizeof p);
        if (p.p_type == PT_INTERP)
            return true;
    }
    return h.e_type == ET_EXEC;
}

/* ---- starting ---- */

/* The library with the calls of ranks: beside the command in the build folder, or installed. */
static bool find_library(char *path, size_t room) {
    static const char *const places[] = {"src/portals", "../src/portals",
                                         "../" OPENSPIN_LIBDIR "/openspin", NULL};
    char folder[PATH_MAX];
    if (file_beside(places, "libportals-world.so", folder, sizeof folder)) {
        snprintf(path, room, "%s/libportals-world.so", folder);
        return true;
    }
    snprintf(path, room, "%s/openspin/libportals-world.so", OPENSPIN_PREFIX "/" OPENSPIN_LIBDIR);
    return access(path, R_OK) == 0;
}

/* In front of what is there already. */
static void put_before(const char *name, const char *value, char between) {
    const char *rest = getenv(name);
    char *text = NULL;
    if (asprintf(&text, "%s%c%s", value, rest && *rest ? between : 0, rest ? rest : "") >= 0)
        setenv(name, text, 1);
    free(text);
}

struct starting {
    struct world_processes *all;
    const char *path, *library;
    char **argv;
    struct rlimit files; /* as they were */
};

static void become(const void *context, uint32_t rank) {
    const struct starting *s = context;
    char text[80];
    snprintf(text, sizeof text, "%d %d %d %d %u %u", CHANNEL_VERSION, s->all->memory, s->all->bell,
             (int)getppid(), rank, s->all->ranks);
    setenv(CHANNEL_VARIABLE, text, 1);
    put_before("LD_PRELOAD", s->library, ':');
    put_before("ASAN_OPTIONS", "verify_asan_link_order=0", ':'); /* its library is not the first */
    fcntl(s->all->memory, F_SETFD, 0);
    fcntl(s->all->bell, F_SETFD, 0);
    setrlimit(RLIMIT_NOFILE, &s->files);
    execv(s->path, s->argv);
}

static int start_process(const struct starting *s, uint32_t rank, struct spin_error *err) {
    struct world_process *p = &s->all->process[rank];
    int code = live_pmi_start(s->all->pmi,
                              &(struct live_pmi_start){.rank = rank,
                                                       .ranks = s->all->ranks,
                                                       .kin = s->all->kin,
                                                       .program = s->path,
                                                       .become = become,
                                                       .context = s},
                              &p->pid, err);
    if (p->pid && (p->file = (int)syscall(SYS_pidfd_open, p->pid, 0)) < 0)
        return spin_fail(err, SPIN_EFILE, "rank %u: no more open files: %s", rank, strerror(errno));
    return code;
}

static bool read_memory(void *context, void *to, const uint8_t *host, uint64_t bytes) {
    return world_process_read(context, to, (uintptr_t)host, bytes);
}

static bool write_memory(void *context, uint8_t *host, const void *from, uint64_t bytes) {
    return world_process_write(context, (uintptr_t)host, from, bytes);
}

static void connect_rank(struct world_processes *all, struct world_rank *r) {
    struct world_process *p = r->process = &all->process[r->index];
    p->rank = r;
    p->memory = (struct nic_memory){p, read_memory, write_memory};
    portals_reach(nic_portals(r->nic), &p->memory);
}

/* Once per world. */
static int prepare(struct spin_world *w, struct spin_error *err) {
    struct world_processes *all = w->processes = calloc(1, sizeof *all);
    if (!all)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    all->ranks = w->ranks;
    all->bytes = sizeof *all->channel + w->ranks * sizeof all->channel->rank[0];
    all->memory = memfd_create("openspin-world", MFD_CLOEXEC);
    all->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    all->process = calloc(w->ranks, sizeof *all->process);
    all->pmi = live_pmi_new(w->ranks);
    all->kin = live_kin_new();
    if (!all->process || !all->pmi)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u ranks", w->ranks);
    if (all->memory < 0 || all->bell < 0 || ftruncate(all->memory, (off_t)all->bytes))
        return spin_fail(err, SPIN_EFILE, "no memory to share with %u processes: %s", w->ranks,
                         strerror(errno));
    void *memory = mmap(NULL, all->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, all->memory, 0);
    if (memory == MAP_FAILED)
        return spin_fail(err, SPIN_ENOMEM, "no memory to share with %u processes", w->ranks);
    all->channel = memory;
    for (uint32_t i = 0; i < w->ranks; i++) {
        struct world_process *p = &all->process[i];
        p->file = -1;
        p->ended = true; /* until it is started */
        p->shared = &all->channel->rank[i];
        for (uint32_t k = 0; k < CHANNEL_SLOTS; k++)
            p->slot[k] = (struct world_slot){.process = p, .shared = &p->shared->slot[k]};
    }
    return SPIN_OK;
}

int world_processes_start(struct spin_world *w, const char *path, char **argv,
                          bool (*is_its)(const void *context, uint32_t rank), const void *context,
                          struct spin_error *err) {
    char library[4200];
    if (!w->processes) {
        int code = prepare(w, err);
        if (code)
            return code;
    }
    if (!find_library(library, sizeof library))
        return spin_fail(err, SPIN_EFILE,
                         "%s: an executable needs libportals-world.so, which is not at %s", path,
                         library);
    struct starting s = {w->processes, path, library, argv, {0, 0}};
    getrlimit(RLIMIT_NOFILE, &s.files);
    struct rlimit more = {s.files.rlim_max, s.files.rlim_max}; /* two or three per rank */
    setrlimit(RLIMIT_NOFILE, &more);
    fflush(NULL);
    int code = SPIN_OK;
    for (uint32_t i = 0; i < w->ranks && !code; i++) {
        if (!is_its(context, i))
            continue;
        connect_rank(w->processes, &w->rank[i]);
        code = start_process(&s, i, err);
        w->processes->process[i].ended = code != SPIN_OK;
    }
    return code;
}

static void answer(struct world_slot *s) {
    s->serving = s->noted = false;
    uint32_t before = atomic_exchange(&s->shared->state, CHANNEL_RUNNING);
    if (before == CHANNEL_ASLEEP)
        live_futex_wake(&s->shared->state, 1);
}

/* A program that has ended goes on from there; what it still prints comes in the order of ranks. */
static void let_go(struct world_process *p) {
    struct pollfd file = {p->file, POLLIN, 0};
    for (uint32_t i = 0; i < CHANNEL_SLOTS; i++)
        if (p->slot[i].shared->call == CHANNEL_EXIT)
            answer(&p->slot[i]);
    if (poll(&file, 1, LET_GO_MS) > 0) {
        waitpid(p->pid, NULL, 0);
        p->pid = 0;
    }
}

void world_processes_end(struct spin_world *w) {
    struct world_processes *all = w->processes;
    if (!all)
        return;
    for (uint32_t i = 0; all->process && i < all->ranks; i++)
        if (all->process[i].kept && all->process[i].pid > 0)
            let_go(&all->process[i]);
    if (all->channel)
        atomic_store(&all->channel->over, 1);
    bool killed = false;
    for (uint32_t i = 0; all->process && i < all->ranks; i++)
        if (all->process[i].pid > 0)
            killed |= kill(all->process[i].pid, SIGKILL) == 0;
    for (uint32_t i = 0; all->process && i < all->ranks; i++) {
        struct world_process *p = &all->process[i];
        if (p->pid > 0)
            waitpid(p->pid, NULL, 0);
        p->pid = 0;
        if (p->file >= 0)
            close(p->file);
        p->file = -1;
    }
    if (killed)
        live_kin_signal(&all->kin, SIGKILL, 0);
}

void world_processes_free(struct spin_world *w) {
    struct world_processes *all = w->processes;
    if (!all)
        return;
    world_processes_end(w);
    live_pmi_free(all->pmi);
    if (all->channel)
        munmap(all->channel, all->bytes);
    close(all->memory);
    close(all->bell);
    free(all->process);
    free(all);
}

/* ---- waiting for a process ---- */

static bool is_posted(const struct world_slot *s) {
    return !s->serving &&
           atomic_load_explicit(&s->shared->state, memory_order_acquire) >= CHANNEL_POSTED;
}

/* One that its fibre has not been woken for. */
static bool any_posted(const struct world_process *p) {
    uint32_t slots =
        atomic_load_explicit(&p->shared->threads, memory_order_relaxed) ? CHANNEL_SLOTS : 1;
    for (uint32_t i = 0; i < slots; i++)
        if (is_posted(&p->slot[i]) && !p->slot[i].noted)
            return true;
    return false;
}

/* For good: nobody enters this fibre again. */
static _Noreturn void leave_for_good(const struct world_thread *t) {
    for (;;)
        fibre_leave(t->stacks);
}

static void note_interrupt(struct spin_world *w) {
    w->watch.interrupted = true;
    w->watch.reason = WATCH_INTERRUPTED;
    sim_stop(w->engine);
}

/* It has failed, there was ^C, or a rank has ended it. */
static bool is_over(const struct spin_world *w) {
    return w->failure || w->watch.interrupted || w->watch.reason;
}

/* A program that is through without ever having heard of Portals was not meant. */
static void check_linked(const struct world_process *p, int status) {
    if (!status && !atomic_load(&p->shared->portals))
        world_fail(p->rank->world, SPIN_ETOOL,
                   "rank %u ended without a call of Portals: is the program linked with "
                   "libportals.so (cc program.c $(pkg-config --cflags --libs portals4))?",
                   p->rank->index);
}

/* It has ended: how. A crash ends the world. */
static void reap(struct world_process *p) {
    struct spin_world *w = p->rank->world;
    uint64_t now = w->now_ps;
    if (p->pid > 0)
        waitpid(p->pid, &p->status, 0);
    p->pid = 0;
    p->ended = true;
    live_pmi_left(w->processes->pmi, p->rank->index);
    if (!WIFSIGNALED(p->status)) {
        check_linked(p, WEXITSTATUS(p->status));
        return;
    }
    int number = WTERMSIG(p->status);
    if (number == SIGINT) /* a terminal's ^C comes to all */
        note_interrupt(w);
    else
        world_fail(w, SPIN_ETOOL, "rank %u at %llu.%03llu ns: crashed: %s (signal %d)",
                   p->rank->index, (unsigned long long)(now / 1000),
                   (unsigned long long)(now % 1000), strsignal(number), number);
}

static void serve_pmi(struct world_process *p) {
    struct spin_world *w = p->rank->world;
    int status = 0;
    if (live_pmi_fd(w->processes->pmi, p->rank->index) < 0 ||
        live_pmi_serve(w->processes->pmi, p->rank->index, &status))
        return;
    w->watch.reason = WATCH_ENDED;
    sim_stop(w->engine);
    if (status)
        world_fail(w, SPIN_ETOOL, "rank %u ended the job by PMI's abort, with status %d",
                   p->rank->index, status);
}

/* Sleeps until the bell rings, or something else comes of this process, or for some time. */
static void sleep_for(struct world_process *p, uint64_t ns) {
    struct world_processes *all = p->rank->world->processes;
    struct pollfd files[] = {{all->bell, POLLIN, 0},
                             {p->file, POLLIN, 0},
                             {live_pmi_fd(all->pmi, p->rank->index), POLLIN, 0}};
    const struct timespec limit = {.tv_nsec = (long)ns};
    uint64_t rings;
    if (ppoll(files, 3, &limit, NULL) <= 0)
        return;
    if (files[0].revents)
        (void)!read(all->bell, &rings, sizeof rings);
    if (files[2].revents)
        serve_pmi(p);
    if (files[1].revents)
        reap(p);
}

static uint64_t used_ns(const struct world_process *p) {
    clockid_t clock;
    struct timespec t = {0};
    if (clock_getcpuclockid(atomic_load(&p->shared->pid), &clock) || clock_gettime(clock, &t))
        return 0;
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static bool is_impatient(const struct world_process *p, uint64_t before_ns) {
    struct spin_world *w = p->rank->world;
    uint64_t patience_ns = w->params.patience * 1000000000u, used = used_ns(p);
    if (!patience_ns || !before_ns || used < before_ns + patience_ns)
        return false;
    world_fail(w, SPIN_ELIMIT,
               "rank %u computes for %llu s without a call; no virtual time passes in its program, "
               "only in calls: where it waits for memory to change it should call spin_work, "
               "sched_yield or PtlCTGet; if it needs longer, set patience=SECONDS",
               p->rank->index, (unsigned long long)w->params.patience);
    return true;
}

/* A loop that looks at memory repeats itself. Found once, it counts as still: what it waits for
 * comes in virtual time. A process that has not had the processor since the last sample is where it
 * was, which says nothing. */
static void look_whether_it_watches(struct world_process *p) {
    enum { ENOUGH = 24, ROW = 3, MOST = 2000, APART_NS = 20000 };
    uint64_t used = used_ns(p);
    if (used < p->sampled_ns + APART_NS || p->samples == MOST)
        return;
    world_sample(p);
    p->sampled_ns = used;
    if (p->watched ? p->row < ROW : p->samples < ENOUGH || 2 * p->repeated <= p->samples)
        return;
    if (!p->watched)
        fprintf(stderr,
                "openspin: rank %u waits for memory to change without a call: virtual time goes "
                "on, but its times may differ from run to run; sched_yield or spin_work in the "
                "loop makes them exact\n",
                p->rank->index);
    p->watching = p->watched = true;
}

/* Whether it is still. One thread is so when it has posted; or when it sleeps for long, because it
 * may sleep shortly for what has nothing to do with the world. */
static bool is_still(const struct world_process *p, uint64_t since_ns) {
    const struct world_processes *all = p->rank->world->processes;
    if (p->ended || p->watching)
        return true;
    /* This first: a thread that it has started before that is then known. */
    bool waits = is_posted(&p->slot[0]) || live_pmi_waits(all->pmi, p->rank->index);
    if (!atomic_load(&p->shared->threads)) {
        if (waits)
            return true;
        if (live_now_ns() - since_ns < SLEEPS_NS)
            return false;
    }
    return world_look_at(p) != WORLD_RUNS;
}

/* A single thread that has called before is about to call again. */
static bool calls_soon(struct world_process *p) {
    struct channel *channel = p->rank->world->processes->channel;
    struct world_slot *s = &p->slot[0];
    for (uint32_t i = 0; i < SPINS && !is_posted(s); i++)
        live_pause();
    if (!is_posted(s) && p->quick) {
        atomic_store(&channel->asleep, CHANNEL_AT_SLOT);
        live_futex_wait(&s->shared->state, CHANNEL_RUNNING, live_now_ns() + SOON_NS);
        atomic_store(&channel->asleep, CHANNEL_AWAKE);
    }
    return is_posted(s);
}

/* Until it is still, the run has failed, or ^C. */
static void settle(struct world_process *p) {
    struct spin_world *w = p->rank->world;
    struct channel *channel = w->processes->channel;
    p->watching = false;
    if (!atomic_load(&p->shared->threads) && calls_soon(p) && !atomic_load(&p->shared->threads))
        return;
    uint64_t since_ns = live_now_ns(), before_ns = 0;
    p->quick = false;
    p->samples = p->repeated = p->row = 0;
    atomic_store(&channel->asleep, CHANNEL_AT_BELL);
    const uint64_t longest_ns = p->watched ? LIVE_MS : LONGEST_NS;
    const uint64_t watches_ns = p->watched ? 0 : WATCHES_NS;
    uint64_t nap_ns = 0;
    while (!is_still(p, since_ns) && !is_over(w)) {
        sleep_for(p, nap_ns);
        if (w->watch.interrupted)
            note_interrupt(w);
        if (is_over(w) || is_impatient(p, before_ns))
            break;
        if (!before_ns && nap_ns == longest_ns)
            before_ns = used_ns(p);
        nap_ns = nap_ns ? 2 * nap_ns : FIRST_NAP_NS;
        if (nap_ns > longest_ns)
            nap_ns = longest_ns;
        if (live_now_ns() - since_ns > watches_ns && !p->ended)
            look_whether_it_watches(p);
    }
    atomic_store(&channel->asleep, CHANNEL_AWAKE);
    p->quick = is_posted(&p->slot[0]);
}

/* ---- fibres ---- */

static void run_slot(void *argument);

/* Every call that it has posted gets its fibre. */
static void dispatch(struct world_process *p) {
    struct spin_world *w = p->rank->world;
    bool in_call = false;
    for (uint32_t i = 0; i < CHANNEL_SLOTS && (!i || atomic_load(&p->shared->threads)); i++) {
        struct world_slot *s = &p->slot[i];
        in_call |= s->serving || is_posted(s);
        if ((!is_posted(s) && !p->ended) || s->serving)
            continue;
        struct spin_error err;
        s->noted = true;
        if (s->thread)
            world_wake(s->thread); /* if it waits for this */
        else if (!p->ended && !(s->thread = world_thread_start(p->rank, run_slot, s, &err)))
            world_fail(w, err.code, "%s", err.text);
    }
    bool outside = (!in_call || p->watching) && !p->ended;
    w->processes->outside += outside - p->outside;
    p->outside = outside;
    p->in_barrier = outside && live_pmi_waits(w->processes->pmi, p->rank->index);
}

/* Something that another one has done may have woken those that are outside. Who has been let out
 * of a barrier of PMI goes on, though the system may not have woken it yet. */
static void look_outside(struct spin_world *w) {
    struct world_processes *all = w->processes;
    for (uint32_t i = 0; i < all->ranks && all->outside; i++) {
        struct world_process *p = &all->process[i];
        if (!p->outside || live_pmi_waits(all->pmi, i) ||
            (!p->in_barrier && !any_posted(p) && (p->watching || world_look_at(p) != WORLD_RUNS)))
            continue;
        settle(p);
        dispatch(p);
    }
}

bool world_process_written(struct world_process *p) {
    if (!p->watching)
        return false;
    uint64_t until_ns = used_ns(p) + NOTICES_NS, latest_ns = live_now_ns() + WATCHES_NS;
    while (!any_posted(p) && used_ns(p) < until_ns && live_now_ns() < latest_ns)
        sched_yield();
    if (!any_posted(p))
        return false;
    settle(p);
    dispatch(p);
    return true;
}

/* From a fibre of p, which runs: time goes on when this returns. */
static void let_run(struct world_process *p, const struct world_thread *t) {
    struct spin_world *w = p->rank->world;
    settle(p);
    if (!is_over(w)) {
        dispatch(p);
        look_outside(w);
    }
    if (is_over(w))
        leave_for_good(t);
}

/* The rank has ended; it is its main thread's time that counts. */
static _Noreturn void end_here(struct world_process *p, struct world_thread *t, int status) {
    p->rank->status = status;
    p->rank->exited = true;
    p->rank->leaving = true;
    world_thread_end(t);
}

/* Its program is through, and it stays where it is. */
static _Noreturn void keep(struct world_slot *s, struct world_thread *t) {
    struct world_process *p = s->process;
    struct spin_world *w = p->rank->world;
    p->ended = p->kept = true;
    check_linked(p, (int)s->shared->word[0]);
    live_pmi_left(w->processes->pmi, p->rank->index);
    look_outside(w); /* that may have opened a barrier */
    end_here(p, t, (int)s->shared->word[0]);
}

/* Returns when the slot has a call; not at all, if its process has ended. */
static void next_call(struct world_slot *s, struct world_thread *t) {
    struct world_process *p = s->process;
    for (;;) {
        if (p->ended)
            end_here(p, t, WEXITSTATUS(p->status));
        if (is_posted(s))
            return;
        world_block(t,
                    live_pmi_waits(p->rank->world->processes->pmi, p->rank->index)
                        ? "a barrier of PMI"
                        : "its program, outside of Portals",
                    UINT64_MAX);
    }
}

static void serve_slot(struct world_slot *s, struct world_thread *t) {
    for (;;) {
        next_call(s, t);
        s->serving = true;
        if (!world_looks_made(s->shared))
            world_fail(t->rank->world, SPIN_ETOOL,
                       "rank %u: a look that was promised to find the same did not",
                       t->rank->index);
        if (s->shared->call == CHANNEL_EXIT)
            keep(s, t);
        if (s->shared->call == CHANNEL_THREAD_END)
            break;
        world_serve(s->process, s->shared);
        world_looks_allow(s->process, s->shared, t);
        answer(s);
        let_run(s->process, t);
    }
    s->thread = NULL;
    t->detached = true;
    answer(s);
    let_run(s->process, t);
    world_thread_end(t);
}

static void run_slot(void *argument) {
    struct world_slot *s = argument;
    serve_slot(s, s->thread);
}

void world_process_main(struct world_thread *t) {
    struct world_process *p = t->rank->process;
    p->slot[0].thread = t;
    let_run(p, t);
    serve_slot(&p->slot[0], t);
}

/* ---- when nothing happens in virtual time ---- */

/* It may have ended by itself while its calls were performed. */
static bool has_left(struct world_process *p) {
    struct pollfd file = {p->file, POLLIN, 0};
    if (poll(&file, 1, 0) <= 0)
        return false;
    reap(p);
    world_rank_end(p->rank, WEXITSTATUS(p->status));
    return true;
}

bool world_processes_wait(struct spin_world *w) {
    struct world_processes *all = w->processes;
    bool may_come = all != NULL && !sim_engine_counts(w->engine).pending; /* else it was stopped */
    w->now_ps = world_later(w->now_ps, sim_engine_counts(w->engine).now_ps);
    while (all && may_come && !is_over(w)) {
        may_come = false;
        for (uint32_t i = 0; i < all->ranks; i++) {
            struct world_process *p = &all->process[i];
            if (p->ended)
                continue;
            if (has_left(p))
                return true; /* others may have waited for it in a barrier */
            if (live_pmi_waits(all->pmi, i))
                continue;
            if (p->watching && !any_posted(p)) {
                if (is_impatient(p, p->sampled_ns))
                    return false;
                may_come = true;
                if (world_process_written(p))
                    return true;
                continue;
            }
            enum world_stillness how = world_look_at(p);
            if (how == WORLD_IS_DEAD && !any_posted(p))
                continue;
            may_come = true;
            atomic_store(&all->channel->asleep, CHANNEL_AT_BELL);
            if (!any_posted(p))
                sleep_for(p, LIVE_MS);
            atomic_store(&all->channel->asleep, CHANNEL_AWAKE);
            settle(p);
            if (!p->ended && !any_posted(p))
                continue;
            dispatch(p);
            return true;
        }
    }
    if (w->watch.interrupted)
        note_interrupt(w);
    for (uint32_t i = 0; i < w->ranks && w->watch.reason == WATCH_ENDED; i++)
        if (!w->rank[i].ended)
            world_rank_end(&w->rank[i], 0);
    return false;
}
