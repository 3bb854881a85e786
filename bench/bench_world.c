/* Simulated worlds: a broadcast with real handlers (sPIN stream), from a few ranks to 65,536. CPU
 * time per packet and per rank, handlers and events per CPU second, memory per rank: of everything,
 * set-up and the check of every byte included; how much of it was set-up, until all ranks have
 * their entries and the root begins; how much was the system's, and for how many page faults; and
 * what a second world in the same process takes, which has the memory of the first. Each row is the
 * median of several processes, by time, with the least and the most us per packet beside it.
 * Usage: bench-world IMAGES [quick]; quick leaves out the large ones, BENCH_ONLY=n runs row n
 * alone. */
#include "measure.h"

#include "p4.h"

#define TURNS 5

struct job {
    const char *images;
    uint32_t ranks, bytes;
};

static void note_cpu(void *user) {
    *(double *)user = bench_cpu_seconds();
}

enum {
    TIME,
    PACKETS,
    HANDLERS,
    EVENTS,
    VIRTUAL_US,
    SET_UP,
    SYSTEM,
    FAULTS,
    AGAIN,
    MEMORY,
    RESULTS
};

static double system_seconds(double *faults, double *most_mb) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    *faults = (double)usage.ru_minflt;
    *most_mb = (double)usage.ru_maxrss * 1024 / 1e6;
    return (double)usage.ru_stime.tv_sec + 1e-6 * (double)usage.ru_stime.tv_usec;
}

static void run_once(const struct job *job, double *result) {
    struct spin_error err;
    struct p4_outcome o;
    double faults, faults_before, memory, system = system_seconds(&faults_before, &memory);
    double begin = bench_cpu_seconds(), ready = begin;
    const struct p4_setup setup = {.variant = P4_STREAM,
                                   .ranks = job->ranks,
                                   .bytes = job->bytes,
                                   .images = job->images,
                                   .world = {.preset = "sc17-dis"},
                                   .ready = note_cpu,
                                   .user = &ready};
    if (p4_broadcast(&setup, &o, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        _exit(1);
    }
    result[TIME] = bench_cpu_seconds() - begin;
    result[SYSTEM] = system_seconds(&faults, &result[MEMORY]) - system;
    result[FAULTS] = faults - faults_before;
    result[PACKETS] = (double)o.world.counts.packets;
    result[HANDLERS] = (double)o.world.counts.handlers;
    result[EVENTS] = (double)o.world.counts.events;
    result[VIRTUAL_US] = (double)o.time_ps / 1e6;
    result[SET_UP] = ready - begin;
}

static void run(const void *argument, double *result) {
    double again[RESULTS];
    run_once(argument, result);
    run_once(argument, again);
    result[AGAIN] = again[TIME];
}

static int by_time(const void *a, const void *b) {
    const double *x = a, *y = b;
    return (x[TIME] > y[TIME]) - (x[TIME] < y[TIME]);
}

static bool run_job(const struct job *job) {
    double all[TURNS][RESULTS];
    uint32_t turns = job->ranks > 10000 ? 1 : TURNS;
    for (uint32_t i = 0; i < turns; i++)
        if (bench_apart(run, job, all[i], RESULTS) < 0)
            return false;
    qsort(all, turns, sizeof *all, by_time);
    const double *r = all[turns / 2];
    double us = 1e6 / r[PACKETS];
    printf("%7u  %7u  %7.2f us  %5.2f s  %8.0f  %9.2f  %5.2f %5.2f  %6.2f %6.2f  %6.2f  %6.0f  "
           "%5.2f  %7.1f  %8.2f K %7.2f M %5.0f MB %8.1f\n",
           job->ranks, job->bytes, r[VIRTUAL_US], r[TIME], r[PACKETS], us * r[TIME],
           us * all[0][TIME], us * all[turns - 1][TIME], us * r[SET_UP], us * (r[TIME] - r[SET_UP]),
           us * r[SYSTEM], r[FAULTS], us * r[AGAIN], 1e6 * r[TIME] / job->ranks,
           r[HANDLERS] / r[TIME] / 1e3, r[EVENTS] / r[TIME] / 1e6, r[MEMORY],
           1e3 * r[MEMORY] / job->ranks);
    return true;
}

int main(int argc, char **argv) {
    static const struct job jobs[] = {
        {NULL, 16, 65536},   {NULL, 128, 65536}, {NULL, 1024, 65536},
        {NULL, 8192, 65536}, {NULL, 16, 4096},   {NULL, 128, 4096},
        {NULL, 1024, 4096},  {NULL, 8192, 4096}, {NULL, 65536, 4096},
    };
    if (argc < 2) {
        fprintf(stderr, "usage: bench-world IMAGES [quick]\n");
        return 2;
    }
    const char *only = getenv("BENCH_ONLY"); /* the number of one job */
    bench_machine();
    puts("A packet is one packet of data that the network delivers: a message of its own here, of "
         "up\n"
         "to 4 KiB, which is matched, met by three handlers (header, payload, completion), stored\n"
         "and sent on. us/packet is all CPU time by these: set-up of the ranks, their programs, "
         "the\n"
         "network and the check of every byte included. Of it, set-up is what went before the "
         "first\n"
         "message (memory, an entry per packet and rank), and the run is the rest; system is what\n"
         "the system took, mostly for memory that is used the first time. again is us/packet of a\n"
         "second world in the same process.\n\n"
         "  ranks    bytes    virtual     time   packets  us/packet  least  most  set-up    run  "
         "system  faults  again  us/rank  handlers/s  events/s  memory  KB/rank");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct job job = jobs[i];
        if ((argc > 2 && job.ranks > 2000) || (only && (size_t)atoi(only) != i))
            continue;
        job.images = argv[1];
        if (!run_job(&job))
            return 1;
    }
    return 0;
}
