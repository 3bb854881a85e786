/* Starts the ranks of a job and waits for them: one loop over their ends, their output, their PMI
 * sockets and our signals. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/environment.h"
#include "base/error.h"
#include "live/live_auth.h"
#include "live/live_clock.h"
#include "live/live_environment.h"
#include "live/live_guardian.h"
#include "live/live_job.h"
#include "live/live_kin.h"
#include "live/live_names.h"
#include "live/live_pmi.h"
#include "live/live_ports.h"
#include "live/live_sweep.h"
#include "live/live_udp.h"
#include "openspin.h"

#define KILL_NS (2000 * LIVE_MS) /* after SIGTERM */
#define LAST_NS (2000 * LIVE_MS) /* after SIGKILL, for what is no child of ours */
#define LOOK_MS 10               /* between looks whether that has ended */
#define OUTPUT  4096             /* of a line that is labelled; a longer one is split */

/* One of a rank's two outputs, line by line. */
struct output {
    int fd; /* -1: none */
    FILE *to;
    uint32_t filled;
    char line[OUTPUT];
};

struct rank {
    pid_t pid; /* 0: it has ended */
    struct output out[2];
    uint32_t at[3]; /* of its PMI socket and its outputs among what is polled; 0: it has none */
};

struct launch {
    const struct spin_launch_options *o;
    struct spin_launch_result *result;
    struct live_folder folder;
    char job_name[64];
    struct live_job *job;
    struct live_pmi *pmi;
    struct live_kin kin;
    struct live_environment environment;
    struct live_ports ports; /* port 0: none are needed */
    struct rank *rank;
    uint32_t running;
    int signals; /* signalfd */
    sigset_t before;
    uint64_t kill_ns; /* UINT64_MAX: nobody is asked to end */
    struct pollfd *poll;
};

/* ---- a rank begins ---- */

struct starting {
    const struct launch *launch;
    char *const *argv;
    int ends[2]; /* of the pipes for its output; -1: none */
};

static void become(const void *context, uint32_t rank) {
    const struct starting *s = context;
    const struct launch *l = s->launch;
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    setenv("OPENSPIN_JOB", l->job_name, 1);
    live_set_number("OPENSPIN_RANK", rank);
    live_set_number("OPENSPIN_SIZE", l->o->ranks);
    if (l->ports.port)
        live_set_number("OPENSPIN_PORT", l->ports.port);
    for (int i = 0; i < 2; i++)
        if (s->ends[i] >= 0)
            dup2(s->ends[i], i + 1);
    execvp(s->argv[0], s->argv);
}

static bool make_pipes(const struct launch *l, struct rank *r, int *ends) {
    for (int i = 0; i < 2; i++) {
        int pipe[2];
        ends[i] = r->out[i].fd = -1;
        if (!l->o->label)
            continue;
        if (pipe2(pipe, O_CLOEXEC))
            return false;
        r->out[i].fd = pipe[0];
        r->out[i].to = i ? stderr : stdout;
        ends[i] = pipe[1];
    }
    return true;
}

static int start_rank(struct launch *l, uint32_t number, char *const *argv,
                      struct spin_error *err) {
    struct rank *r = &l->rank[number];
    struct starting s = {.launch = l, .argv = argv};
    if (!make_pipes(l, r, s.ends))
        return spin_fail(err, SPIN_EFILE, "rank %u: no more open files: %s", number,
                         strerror(errno));
    fflush(NULL);
    int code = live_pmi_start(l->pmi,
                              &(struct live_pmi_start){.rank = number,
                                                       .ranks = l->o->ranks,
                                                       .kin = l->kin,
                                                       .program = argv[0],
                                                       .become = become,
                                                       .context = &s},
                              &r->pid, err);
    for (int i = 0; i < 2; i++)
        if (s.ends[i] >= 0)
            close(s.ends[i]);
    l->running += r->pid != 0;
    return code;
}

/* ---- output ---- */

static void print_line(struct output *out, uint32_t rank, uint32_t bytes) {
    fprintf(out->to, "[%u] ", rank);
    fwrite(out->line, 1, bytes, out->to);
    fputc('\n', out->to);
}

static void read_output(struct output *out, uint32_t rank) {
    ssize_t got = read(out->fd, out->line + out->filled, OUTPUT - out->filled);
    if (got <= 0) {
        if (out->filled)
            print_line(out, rank, out->filled);
        close(out->fd);
        out->fd = -1;
        fflush(out->to);
        return;
    }
    out->filled += (uint32_t)got;
    for (char *end; (end = memchr(out->line, '\n', out->filled));) {
        uint32_t bytes = (uint32_t)(end - out->line);
        print_line(out, rank, bytes);
        out->filled -= bytes + 1;
        memmove(out->line, end + 1, out->filled);
    }
    if (out->filled == OUTPUT) {
        print_line(out, rank, OUTPUT);
        out->filled = 0;
    }
    fflush(out->to);
}

/* ---- ranks end ---- */

/* A process group that has the signal from the terminal is spared; 0: none has. */
static void signal_ranks(const struct launch *l, int number, pid_t spared_group) {
    for (uint32_t i = 0; i < l->o->ranks; i++)
        if (l->rank[i].pid > 0 && !(spared_group && getpgid(l->rank[i].pid) == spared_group))
            kill(l->rank[i].pid, number);
}

/* And what they have started. */
static void signal_all(const struct launch *l, int number, pid_t spared_group) {
    signal_ranks(l, number, spared_group);
    live_kin_signal(&l->kin, number, spared_group);
}

static bool is_ending(const struct launch *l) {
    return l->kill_ns != UINT64_MAX;
}

static void end_job(struct launch *l) {
    if (is_ending(l))
        return;
    l->kill_ns = live_now_ns() + KILL_NS;
    signal_all(l, SIGTERM, 0);
    signal_all(l, SIGCONT, 0);
}

/* Of a job that ends by itself it may go on. */
static bool has_kin(const struct launch *l) {
    return is_ending(l) && live_now_ns() < l->kill_ns + LAST_NS && live_kin_signal(&l->kin, 0, 0);
}

static void note_end(struct launch *l, uint32_t rank, int status) {
    struct spin_launch_result *r = l->result;
    int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    int code = number ? 128 + number : WEXITSTATUS(status);
    l->rank[rank].pid = 0;
    l->running--;
    live_job_leave(l->job, rank);
    live_pmi_left(l->pmi, rank);
    if (!code || is_ending(l))
        return; /* what we ended ourselves has not failed */
    if (!r->failed++) {
        r->first_failed = rank;
        r->status = code;
        r->signal = number;
    }
    if (!l->o->keep)
        end_job(l);
}

static void reap(struct launch *l) {
    for (uint32_t i = 0; i < l->o->ranks; i++) {
        int status;
        if (l->rank[i].pid > 0 && waitpid(l->rank[i].pid, &status, WNOHANG) > 0)
            note_end(l, i, status);
    }
}

static void take_signal(struct launch *l) {
    struct signalfd_siginfo s;
    if (read(l->signals, &s, sizeof s) != sizeof s || s.ssi_signo == SIGCHLD)
        return;
    int number = (int)s.ssi_signo;
    pid_t spared_group = s.ssi_code == SI_KERNEL ? getpgrp() : 0;
    if (number == SIGUSR1 || number == SIGUSR2) {
        signal_ranks(l, number, spared_group);
        return;
    }
    signal_all(l, number, spared_group);
    l->result->passed_on = number;
    if (!is_ending(l))
        l->kill_ns = live_now_ns() + KILL_NS;
}

/* ---- the loop ---- */

/* Only what is there: poll refuses more than the process may have open. The first is the signals'.
 */
static uint32_t add_poll(struct launch *l, uint32_t *count, int fd) {
    if (fd < 0)
        return 0;
    l->poll[*count] = (struct pollfd){.fd = fd, .events = POLLIN};
    return (*count)++;
}

static bool has_output(const struct launch *l) {
    for (uint32_t i = 0; i < l->o->ranks; i++)
        if (l->rank[i].out[0].fd >= 0 || l->rank[i].out[1].fd >= 0)
            return true;
    return false;
}

/* A rank's three: its PMI socket and its outputs. */
static void serve(struct launch *l, uint32_t rank) {
    const uint32_t *at = l->rank[rank].at;
    int status = 0;
    if (at[0] && l->poll[at[0]].revents && live_pmi_fd(l->pmi, rank) >= 0 &&
        !live_pmi_serve(l->pmi, rank, &status)) {
        if (status && !l->result->failed++) { /* a rank may end the job in success, too */
            l->result->first_failed = rank;
            l->result->status = status & 255 ? status & 255 : 1;
        }
        end_job(l);
    }
    for (int i = 0; i < 2; i++)
        if (at[1 + i] && l->poll[at[1 + i]].revents && l->rank[rank].out[i].fd >= 0)
            read_output(&l->rank[rank].out[i], rank);
}

static int wait_ms(const struct launch *l, bool kin) {
    if (!l->running) /* who has inherited an output and lives on is not waited for */
        return kin ? LOOK_MS : 100;
    if (!is_ending(l))
        return -1;
    uint64_t now = live_now_ns();
    return now >= l->kill_ns ? LOOK_MS : (int)((l->kill_ns - now) / LIVE_MS + 1);
}

static void look_after(struct launch *l) {
    for (;;) {
        bool kin = !l->running && has_kin(l);
        if (!l->running && !kin && !has_output(l))
            return;
        uint32_t count = 0;
        add_poll(l, &count, l->signals);
        for (uint32_t i = 0; i < l->o->ranks; i++) {
            struct rank *r = &l->rank[i];
            r->at[0] = add_poll(l, &count, live_pmi_fd(l->pmi, i));
            r->at[1] = add_poll(l, &count, r->out[0].fd);
            r->at[2] = add_poll(l, &count, r->out[1].fd);
        }
        int ready = poll(l->poll, count, wait_ms(l, kin));
        if (ready == 0 && !l->running && !kin)
            return;
        if (ready > 0 && l->poll[0].revents)
            take_signal(l);
        for (uint32_t i = 0; ready > 0 && i < l->o->ranks; i++)
            serve(l, i);
        reap(l);
        if (is_ending(l) && live_now_ns() >= l->kill_ns)
            signal_all(l, SIGKILL, 0);
    }
}

static void take_signals(struct launch *l) {
    static const int numbers[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2};
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        sigaddset(&set, numbers[i]);
    sigprocmask(SIG_BLOCK, &set, &l->before);
    l->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* What every rank would say of the environment is said once, before there is any. */
static int check_environment(struct launch *l, struct spin_error *err) {
    struct live_environment *e = &l->environment;
    struct live_folder key = {0};
    struct live_auth auth;
    if (environment_text("OPENSPIN_WORLD"))
        return spin_fail(err, SPIN_EARG,
                         "OPENSPIN_WORLD is set, which is for ranks that 'openspin sim run' has "
                         "started: they have no live cards; unset it");
    int code = live_environment_read(e, err);
    if (!code)
        code = live_environment_settle(e, &(struct live_place){l->o->ranks, .near = true}, err);
    if (!code && e->key_file)
        code = live_folder_key(&key, e->key_file, err);
    if (!code && e->auth)
        code = live_auth_init(&auth, key.key, err);
    if (!code && e->interface && e->transport != LIVE_FABRIC)
        code = live_udp_nid(&(struct live_udp_options){.interface = e->interface}, err) ? 0
                                                                                        : SPIN_EARG;
    return code;
}

/* All ranks are on this machine: unless they are told to use UDP they need none. In a rank of a job
 * OPENSPIN_PORT is that job's. */
static int take_ports(struct launch *l, struct spin_error *err) {
    bool udp = l->environment.transport == LIVE_UDP || l->environment.transport == LIVE_AUTO;
    bool has_own = l->environment.port && !environment_text("OPENSPIN_JOB");
    return udp && !has_own ? live_ports_take(&l->ports, l->o->ranks, err) : 0;
}

static int run_job(struct launch *l, char *const *argv, struct spin_error *err) {
    uint32_t ranks = l->o->ranks;
    int code = 0;
    l->rank = calloc(ranks, sizeof *l->rank);
    l->poll = calloc(1 + 3 * (size_t)ranks, sizeof *l->poll);
    l->pmi = live_pmi_new(ranks);
    if (!l->rank || !l->poll || !l->pmi)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < ranks; i++)
        l->rank[i].out[0].fd = l->rank[i].out[1].fd = -1;
    l->job = live_job_make(&l->folder, ranks, err);
    if (!l->job)
        return err ? err->code : SPIN_EFILE;
    take_signals(l);
    for (uint32_t i = 0; i < ranks && !code; i++)
        code = start_rank(l, i, argv, err);
    if (code)
        end_job(l);
    look_after(l);
    close(l->signals);
    sigprocmask(SIG_SETMASK, &l->before, NULL);
    return code;
}

int spin_launch(const struct spin_launch_options *options, char *const *argv,
                struct spin_launch_result *result, struct spin_error *err) {
    struct launch l = {.o = options, .result = result, .kill_ns = UINT64_MAX, .signals = -1};
    *result = (struct spin_launch_result){0};
    l.kin = live_kin_new();
    if (!options->ranks || options->ranks > SPIN_LAUNCH_RANKS)
        return spin_fail(err, SPIN_EARG, "%u ranks: 1 to %u", options->ranks, SPIN_LAUNCH_RANKS);
    int code = check_environment(&l, err);
    live_sweep();
    if (!code)
        code = live_folder_make(&l.folder, l.job_name, sizeof l.job_name, err);
    if (code)
        return code;
    struct live_guardian guardian;
    live_guardian_start(&guardian, &l.folder, &l.kin);
    code = take_ports(&l, err);
    if (!code)
        code = run_job(&l, argv, err);
    live_ports_give(&l.ports);
    live_pmi_free(l.pmi);
    live_job_close(l.job);
    live_folder_remove(&l.folder);
    live_guardian_dismiss(&guardian);
    free(l.rank);
    free(l.poll);
    return code;
}
