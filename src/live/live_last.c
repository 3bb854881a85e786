/* A program ends when the last of its threads does, also when main has left
 * by pthread_exit: the card's own threads must not keep it. That main has left so is told by a
 * thread-specific value; from then on a thread looks whether any thread of the program is left. */
#include "live/live_last.h"

#include <dirent.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/helper_thread.h"

#define LOOK_US 20000

/* The first line of a file of a thread; false: it is gone. */
static bool read_line(const char *thread, const char *file, char *text, int room) {
    char path[300];
    snprintf(path, sizeof path, "/proc/self/task/%.64s/%s", thread, file);
    FILE *f = fopen(path, "re");
    bool read = f && fgets(text, room, f);
    if (f)
        fclose(f);
    return read;
}

static bool is_programs(const char *thread) {
    char name[64], state[400];
    if (!read_line(thread, "comm", name, sizeof name) ||
        !read_line(thread, "stat", state, sizeof state))
        return false;
    const char *end = strrchr(state, ')'); /* of its name, which may hold anything */
    bool ended = end && strlen(end) > 2 && strchr("ZX", end[2]);
    return !ended && strcmp(name, HELPER_THREAD_NAME "\n") != 0;
}

/* True also when nobody can know. */
static bool is_any_left(void) {
    DIR *threads = opendir("/proc/self/task");
    bool left = !threads;
    for (const struct dirent *d; !left && (d = readdir(threads));)
        left = d->d_name[0] != '.' && is_programs(d->d_name);
    if (threads)
        closedir(threads);
    return left;
}

static void *watch(void *context) {
    (void)context;
    while (is_any_left())
        usleep(LOOK_US);
    exit(0); /* as the last thread's pthread_exit does */
}

static void main_left(void *value) {
    pthread_t thread;
    (void)value;
    if (helper_thread_start(&thread, watch, NULL) == 0)
        pthread_detach(thread);
}

void live_last_expect_main(void) {
    pthread_key_t key;
    if (getpid() == gettid() && pthread_key_create(&key, main_left) == 0)
        pthread_setspecific(key, HELPER_THREAD_NAME); /* anything but NULL */
}
