#include "live/live_guardian.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TRIES    500 /* of 10 ms: ranks that are being killed may still make files */
#define PAUSE_NS 10000000

/* The socket as standard input, and nothing else of the launcher's. */
static void leave_files(int told) {
    dup2(told, 0);
    close(1);
    close(2);
    (void)!open("/dev/null", O_WRONLY); /* as 1, and as 2 */
    (void)!open("/dev/null", O_WRONLY);
    if (syscall(SYS_close_range, 3u, ~0u, 0u) == 0)
        return;
    for (int fd = 3, most = (int)sysconf(_SC_OPEN_MAX); fd < most; fd++)
        close(fd);
}

static void leave_signals(void) {
    sigset_t none;
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL);
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
}

/* The guardian itself. A word: the folder is gone already. */
static void guard(struct live_folder folder, struct live_kin kin) {
    char word;
    ssize_t got;
    while ((got = read(0, &word, sizeof word)) < 0 && errno == EINTR)
        ;
    if (got)
        return;
    folder.fd = -1;
    for (int i = 0; i < TRIES; i++) {
        live_folder_remove(&folder);
        if (!live_kin_signal(&kin, SIGKILL, 0) && access(folder.path, F_OK))
            return;
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    }
}

static void wait_for(pid_t child) {
    while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
        ;
}

/* The launcher's child. */
static void keep(const struct live_folder *folder, const struct live_kin *kin, int told) {
    setsid();
    live_kin_leave();
    leave_signals();
    leave_files(told);
    (void)!chdir("/");
    prctl(PR_SET_NAME, "openspin-guard"); /* what ends all processes called openspin spares it */
    pid_t guardian = fork();
    if (guardian == 0)
        guard(*folder, *kin);
    else
        wait_for(guardian);
    _exit(0);
}

void live_guardian_start(struct live_guardian *g, const struct live_folder *folder,
                         const struct live_kin *kin) {
    int ends[2];
    *g = (struct live_guardian){.told = -1};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends))
        return;
    g->child = fork();
    if (g->child == 0)
        keep(folder, kin, ends[0]);
    close(ends[0]);
    if (g->child > 0)
        g->told = ends[1];
    else
        close(ends[1]);
}

void live_guardian_dismiss(struct live_guardian *g) {
    if (g->told < 0)
        return;
    (void)!send(g->told, "", 1, MSG_NOSIGNAL);
    close(g->told);
    wait_for(g->child);
}
