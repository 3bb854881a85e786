/* Starting the ranks of a job: processes that find their peers by PMI-1. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "live/live_pmi.h"

void live_set_number(const char *name, uint64_t number) {
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)number);
    setenv(name, text, 1);
}

/* In the child. */
static void prepare(const struct live_pmi_start *s, int pmi, pid_t parent) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    live_kin_mark(&s->kin);
    live_set_number("PMI_RANK", s->rank);
    live_set_number("PMI_ID", s->rank);
    live_set_number("PMI_SIZE", s->ranks);
    live_set_number("PMI_FD", (uint64_t)pmi);
    unsetenv("PMI_PORT");
    fcntl(pmi, F_SETFD, 0);
    int nothing = s->rank ? open("/dev/null", O_RDONLY) : -1;
    if (nothing >= 0) {
        dup2(nothing, 0);
        close(nothing);
    }
}

/* What exec has said, and what it has not. */
static int refuse(const char *program, int failure, struct spin_error *err) {
    struct stat is = {0};
    bool there = stat(program, &is) == 0;
    /* As a shell does, a name without a '/' is looked for elsewhere. */
    bool elsewhere = !strchr(program, '/');
    if (failure == ENOENT && there && elsewhere && access(program, X_OK) == 0)
        return spin_fail(err, SPIN_EFILE, "%s: cannot start it: %s (did you mean './%.200s'?)",
                         program, strerror(failure), program);
    if (failure == ENOENT && there && !elsewhere)
        return spin_fail(err, SPIN_EFILE,
                         "%s: cannot start it: the interpreter that it names is not there",
                         program);
    if (failure == EACCES && there && S_ISDIR(is.st_mode))
        failure = EISDIR;
    return spin_fail(err, SPIN_EFILE, "%s: cannot start it: %s", program, strerror(failure));
}

/* What exec says comes through a pipe that it closes. */
int live_pmi_start(struct live_pmi *pmi, const struct live_pmi_start *s, pid_t *pid,
                   struct spin_error *err) {
    int sockets[2], told[2], failure = 0;
    pid_t parent = getpid();
    *pid = 0;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets))
        return spin_fail(err, SPIN_EFILE, "rank %u: no more open files: %s", s->rank,
                         strerror(errno));
    if (pipe2(told, O_CLOEXEC)) {
        int why = errno;
        close(sockets[0]);
        close(sockets[1]);
        return spin_fail(err, SPIN_EFILE, "rank %u: no more open files: %s", s->rank,
                         strerror(why));
    }
    pid_t child = fork();
    if (child == 0) {
        prepare(s, sockets[1], parent);
        s->become(s->context, s->rank);
        failure = errno;
        (void)!write(told[1], &failure, sizeof failure);
        _exit(127);
    }
    int forked = errno;
    close(sockets[1]);
    close(told[1]);
    bool failed = child > 0 && read(told[0], &failure, sizeof failure) == sizeof failure;
    close(told[0]);
    if (child < 0) {
        close(sockets[0]);
        return spin_fail(err, SPIN_ENOMEM, "rank %u: cannot start a process: %s", s->rank,
                         strerror(forked));
    }
    *pid = child;
    live_pmi_add(pmi, s->rank, sockets[0]);
    if (!failed)
        return SPIN_OK;
    return refuse(s->program, failure, err);
}
