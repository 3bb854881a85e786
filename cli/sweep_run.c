/* Points as processes: as many at a time as there are jobs, each a fork of this one that runs the
 * command with its output in memory. SIGCHLD and the signals that end a sweep are taken one after
 * the other by sigtimedwait, so there is no handler and nothing shared with one. Children ask for a
 * SIGTERM when their parent dies, so that none outlives a sweep that was killed. */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/json.h"

#define LARGEST_OUTPUT ((off_t)1 << 30)

struct child {
    pid_t pid; /* 0: free */
    uint32_t point;
    int out, error; /* what it writes */
};

struct crew {
    const struct cli_command *command;
    const struct sweep_command *swept;
    const struct sweep_plan *plan;
    struct sweep_results *results;
    struct sweep_journal *journal;
    struct child *child;
    unsigned jobs, running;
    uint32_t next, resumed, done, failed;
    struct timespec start;
    sigset_t waited, before;
    bool shown;
};

/* ---- progress ---- */

static double seconds_since(const struct timespec *start) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)(now.tv_sec - start->tv_sec) + 1e-9 * (double)(now.tv_nsec - start->tv_nsec);
}

static void show_progress(struct crew *w) {
    double seconds = seconds_since(&w->start);
    if (!isatty(STDERR_FILENO) || seconds < 1)
        return;
    w->shown = true;
    fprintf(stderr, "\r\033[K%u of %u points", w->resumed + w->done, w->plan->points);
    if (w->failed)
        fprintf(stderr, ", %u failed", w->failed);
    uint32_t left = w->plan->points - w->resumed - w->done;
    if (w->done >= w->jobs) /* before that an estimate would be a guess */
        fprintf(stderr, ", %.0f s left", seconds * left / w->done);
}

/* ---- a child ---- */

static void be_child(const struct crew *w, const struct child *c, pid_t parent, int argc,
                     char **argv) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    sigprocmask(SIG_SETMASK, &w->before, NULL);
    if (getppid() != parent)
        _exit(CLI_FAILED); /* it died before we asked */
    if (w->journal->out)
        close(fileno(w->journal->out)); /* its lock is the parent's */
    int nothing = open("/dev/null", O_RDONLY);
    dup2(nothing, STDIN_FILENO);
    dup2(c->out, STDOUT_FILENO);
    dup2(c->error, STDERR_FILENO);
    int status = cli_dispatch(&cli_root, argc, argv);
    if (fflush(stdout) != 0 || ferror(stdout))
        status = status ? status : CLI_FAILED;
    _exit(status);
}

static int start(struct crew *w, struct child *c, uint32_t point) {
    int argc;
    char **argv = sweep_argv(w->swept, w->plan, point, &argc);
    *c = (struct child){.point = point,
                        .out = memfd_create("openspin-out", MFD_CLOEXEC),
                        .error = memfd_create("openspin-error", MFD_CLOEXEC)};
    pid_t parent = getpid(), pid = -1;
    if (argv && c->out >= 0 && c->error >= 0) {
        fflush(NULL); /* else the child would write it once more */
        pid = fork();
        if (pid == 0)
            be_child(w, c, parent, argc, argv);
    }
    int why = errno;
    free(argv);
    if (pid < 0) {
        close(c->out);
        close(c->error);
        return cli_error(w->command, CLI_FAILED, "cannot start a process: %s", strerror(why));
    }
    c->pid = pid;
    w->running++;
    return 0;
}

/* ---- what it leaves ---- */

static char *contents(int fd, size_t *length) {
    off_t bytes = lseek(fd, 0, SEEK_END);
    char *text = bytes >= 0 && bytes < LARGEST_OUTPUT ? malloc((size_t)bytes + 1) : NULL;
    *length = 0;
    while (text && *length < (size_t)bytes) {
        ssize_t got = pread(fd, text + *length, (size_t)bytes - *length, (off_t)*length);
        if (got <= 0 && errno != EINTR)
            break;
        *length += got > 0 ? (size_t)got : 0;
    }
    if (text)
        text[*length] = 0;
    return text;
}

struct gathering {
    struct crew *crew;
    uint32_t point;
    bool out_of_memory;
};

static bool is_wanted(const struct sweep_results *r, const char *path) {
    for (int i = 0; r->wanted && i < r->wanted->count; i++)
        if (strcmp(r->wanted->items[i], path) == 0)
            return true;
    return false;
}

/* Commands print what they were given; the table has it already, as it was given. */
static bool is_swept(const struct sweep_plan *plan, const char *path) {
    for (int a = 0; a < plan->axes; a++)
        for (int i = 0; i < plan->axis[a].names; i++)
            if (strcmp(plan->axis[a].name[i], path) == 0)
                return true;
    return false;
}

static void gather(void *user, const char *path, const char *value, bool in_array) {
    struct gathering *g = user;
    struct sweep_results *r = g->crew->results;
    bool input = strncmp(path, "parameters.", 11) == 0 || is_swept(g->crew->plan, path);
    if ((in_array || input) && !is_wanted(r, path))
        return;
    g->out_of_memory |= !sweep_results_add(r, g->point, path, value);
}

/* The object that a command prints last begins with a line of its own; a program of `sim run` may
 * have printed before it. */
static char *last_object(char *text) {
    char *found = strncmp(text, "{\n", 2) == 0 ? text : NULL;
    for (char *at = text; (at = strstr(at, "\n{\n")) != NULL;)
        found = ++at;
    return found;
}

/* "openspin card run: what went wrong" without the beginning; the first line that has it. */
static char *first_error(const char *text, int status) {
    const char *line = strncmp(text, "openspin", 8) == 0 ? text : strstr(text, "\nopenspin");
    char *error = NULL;
    if (line) {
        line += *line == '\n';
        const char *said = strstr(line, ": "), *end = strchr(line, '\n');
        line = said && (!end || said < end) ? said + 2 : line;
        return strndup(line, strcspn(line, "\n"));
    }
    int made = WIFSIGNALED(status)
                   ? asprintf(&error, "ended by a signal: %s", strsignal(WTERMSIG(status)))
                   : asprintf(&error, "exit status %d", WEXITSTATUS(status));
    return made < 0 ? NULL : error;
}

static int take_results(struct crew *w, struct child *c, int status) {
    struct sweep_point *p = &w->results->point[c->point];
    struct gathering g = {w, c->point, false};
    size_t out_bytes, error_bytes;
    char *out = contents(c->out, &out_bytes), *error = contents(c->error, &error_bytes);
    char *object = out ? last_object(out) : NULL;
    bool whole = object && json_read(object, out_bytes - (size_t)(object - out), gather, &g);
    if (!out || !error)
        g.out_of_memory = true;
    else if (status != 0)
        g.out_of_memory |= !(p->error = first_error(error, status));
    else if (!whole)
        g.out_of_memory |= !(p->error = strdup("it printed no results"));
    free(out);
    free(error);
    p->done = true;
    w->done++;
    w->failed += p->error != NULL;
    return g.out_of_memory ? cli_error(w->command, CLI_FAILED, "out of memory") : 0;
}

static int collect(struct crew *w) {
    int code = 0, status;
    pid_t pid;
    while (!code && (pid = waitpid(-1, &status, WNOHANG)) > 0) {
        struct child *c = w->child;
        while (c < w->child + w->jobs && c->pid != pid)
            c++;
        if (c == w->child + w->jobs)
            continue;
        code = take_results(w, c, status);
        if (!code)
            code = sweep_journal_add(w->command, w->journal, w->plan, w->results, c->point);
        close(c->out);
        close(c->error);
        c->pid = 0;
        w->running--;
    }
    return code;
}

/* ---- all of them ---- */

static void end_children(struct crew *w) {
    for (unsigned i = 0; i < w->jobs; i++)
        if (w->child[i].pid)
            kill(w->child[i].pid, SIGTERM);
    for (unsigned i = 0; i < w->jobs; i++)
        if (w->child[i].pid) {
            while (waitpid(w->child[i].pid, NULL, 0) < 0 && errno == EINTR)
                ;
            close(w->child[i].out);
            close(w->child[i].error);
        }
}

static int fill(struct crew *w) {
    for (unsigned i = 0; i < w->jobs; i++) {
        while (w->next < w->plan->points && w->results->point[w->next].done)
            w->next++;
        if (w->next == w->plan->points)
            break;
        if (!w->child[i].pid) {
            int code = start(w, &w->child[i], w->next++);
            if (code)
                return code;
        }
    }
    return 0;
}

/* 0, a status, or minus the signal that ends the sweep. */
static int work(struct crew *w) {
    const struct timespec second = {.tv_sec = 1};
    int code = fill(w);
    while (!code && w->running) {
        int signal = sigtimedwait(&w->waited, NULL, &second);
        if (signal > 0 && signal != SIGCHLD)
            return -signal;
        code = collect(w);
        if (!code)
            code = fill(w);
        show_progress(w);
    }
    return code;
}

/* Signals that the caller ignores (nohup) stay ignored. */
static void wait_for_signals(struct crew *w) {
    static const int ends[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction now;
    signal(SIGCHLD, SIG_DFL);
    sigemptyset(&w->waited);
    sigaddset(&w->waited, SIGCHLD);
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++)
        if (sigaction(ends[i], NULL, &now) == 0 && now.sa_handler != SIG_IGN)
            sigaddset(&w->waited, ends[i]);
    sigprocmask(SIG_BLOCK, &w->waited, &w->before);
}

int sweep_run(const struct cli_command *command, const struct sweep_command *c,
              const struct sweep_plan *plan, struct sweep_results *r, struct sweep_journal *j,
              unsigned jobs) {
    struct crew w = {.command = command,
                     .swept = c,
                     .plan = plan,
                     .results = r,
                     .journal = j,
                     .jobs = jobs,
                     .child = calloc(jobs, sizeof *w.child)};
    if (!w.child)
        return cli_error(command, CLI_FAILED, "out of memory");
    for (uint32_t i = 0; i < plan->points; i++)
        w.resumed += r->point[i].done;
    if (w.resumed)
        fprintf(stderr, "openspin sweep: %u of %u points are in %s and not run again\n", w.resumed,
                plan->points, j->path);
    clock_gettime(CLOCK_MONOTONIC, &w.start);
    wait_for_signals(&w);
    int code = work(&w);
    end_children(&w);
    free(w.child);
    if (w.shown)
        fputs("\r\033[K", stderr);
    if (code < 0 && j->path)
        cli_error(command, 0,
                  "interrupted; %u of %u points are in %s, and the same command goes on"
                  " from there",
                  w.resumed + w.done - w.failed, plan->points, j->path);
    sigprocmask(SIG_SETMASK, &w.before, NULL);
    if (code < 0)
        raise(-code);
    return code < 0 ? CLI_FAILED : code;
}
