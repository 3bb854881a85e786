/* What every figure needs beside it: the machine, the compiler, the time and memory of a piece of
 * work in a process of its own. */
#ifndef BENCH_MEASURE_H
#define BENCH_MEASURE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/machine.h"

static inline double bench_cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static inline void bench_machine(void) {
    char machine[300];
    machine_name(machine, sizeof machine);
    printf("machine: %s; CPU seconds\n", machine);
}

/* Runs work(argument, result) in a child and returns the most memory it held, in MB; results come
 * back through a pipe. Negative when the child failed. */
static inline double bench_apart(void (*work)(const void *argument, double *result),
                                 const void *argument, double *result, size_t results) {
    int ends[2];
    fflush(stdout);
    if (pipe(ends) != 0)
        return -1;
    pid_t child = fork();
    if (child == 0) {
        work(argument, result);
        ssize_t wrote = write(ends[1], result, results * sizeof *result);
        _exit(wrote == (ssize_t)(results * sizeof *result) ? 0 : 1);
    }
    close(ends[1]);
    ssize_t got = read(ends[0], result, results * sizeof *result);
    close(ends[0]);
    int status = 1;
    struct rusage usage;
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0 ||
        got != (ssize_t)(results * sizeof *result))
        return -1;
    return (double)usage.ru_maxrss * 1024 / 1e6;
}

/* As a program's card does it. */
static inline bool wants_paging(void) {
    const char *text = getenv("OPENSPIN_PAGING");
    return text && !strcmp(text, "on");
}

#endif
