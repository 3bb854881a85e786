#include "live/live_kin.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "live/live_clock.h"

#define VARIABLE "OPENSPIN_KIN"

struct live_kin live_kin_new(void) {
    struct live_kin kin = {.starter = getpid()};
    if (getrandom(&kin.number, sizeof kin.number, 0) != sizeof kin.number)
        kin.number = live_now_ns();
    return kin;
}

static void write_value(char *text, size_t room, const struct live_kin *kin) {
    snprintf(text, room, "%016llx", (unsigned long long)kin->number);
}

void live_kin_mark(const struct live_kin *kin) {
    char value[24];
    write_value(value, sizeof value, kin);
    setenv(VARIABLE, value, 1);
}

/* In place: /proc shows the memory that the process was begun with. */
void live_kin_leave(void) {
    char *value = getenv(VARIABLE);
    if (value)
        memset(value, 0, strlen(value));
}

/* Of this user, and not a child of the starter. */
static bool may_be_kin(int process, pid_t starter) {
    struct stat is;
    char text[1024];
    pid_t parent = 0;
    int fd = openat(process, "stat", O_RDONLY | O_CLOEXEC);
    ssize_t got =
        fd < 0 || fstat(fd, &is) || is.st_uid != getuid() ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0)
        close(fd);
    if (got <= 0)
        return false;
    text[got] = 0;
    const char *after_name = strrchr(text, ')');
    return after_name && sscanf(after_name, ") %*c %d", &parent) == 1 && parent != starter;
}

static bool has_line(int process, const char *line) {
    int fd = openat(process, "environ", O_RDONLY | O_CLOEXEC);
    FILE *environment = fd < 0 ? NULL : fdopen(fd, "r");
    char *text = NULL;
    size_t room = 0;
    bool found = false;
    while (environment && !found && getdelim(&text, &room, 0, environment) > 0)
        found = !strcmp(text, line);
    free(text);
    if (environment)
        fclose(environment);
    else if (fd >= 0)
        close(fd);
    return found;
}

uint32_t live_kin_signal(const struct live_kin *kin, int number, pid_t spared_group) {
    char line[64] = VARIABLE "=";
    uint32_t count = 0;
    DIR *all = opendir("/proc");
    write_value(line + strlen(line), sizeof line - strlen(line), kin);
    for (struct dirent *e; all && (e = readdir(all));) {
        pid_t pid = (pid_t)strtol(e->d_name, NULL, 10);
        int process = pid > 0 ? openat(dirfd(all), e->d_name, O_PATH | O_CLOEXEC) : -1;
        if (process < 0)
            continue;
        if (may_be_kin(process, kin->starter) && has_line(process, line) &&
            !(spared_group && getpgid(pid) == spared_group)) {
            count++;
            kill(pid, number);
        }
        close(process);
    }
    if (all)
        closedir(all);
    return count;
}
