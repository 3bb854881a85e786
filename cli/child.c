/* Programs of others that a command runs to their end. */
#include "child.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

extern char **environ;

/* The child's status; that of a failure if it cannot be had. */
static int wait_for(pid_t child) {
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return status;
}

int child_run(const char *const *words, int *status) {
    /* As system() does: an interrupt ends the program that runs, and we clean up after it. */
    struct sigaction ignore = {.sa_handler = SIG_IGN}, before;
    posix_spawnattr_t attributes;
    sigset_t restored;
    sigemptyset(&restored);
    sigaddset(&restored, SIGINT);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &restored);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    sigaction(SIGINT, &ignore, &before);
    pid_t child;
    int why = posix_spawnp(&child, words[0], NULL, &attributes, (char **)(uintptr_t)words, environ);
    posix_spawnattr_destroy(&attributes);
    *status = why ? 0 : wait_for(child);
    sigaction(SIGINT, &before, NULL);
    return why;
}
