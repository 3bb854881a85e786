/* Simulated worlds: a broadcast with real handlers (sPIN stream), from a few ranks to 65,536. CPU
 * time per packet and per rank, handlers and events per CPU second, memory per rank: of everything,
 * set-up and the check of every byte included; and how much of it was set-up, until all ranks have
 * their entries and the root begins.
 * Usage: bench-world IMAGES [quick]; quick leaves out the large ones, BENCH_ONLY=n runs row n
 * alone. */
#include "measure.h"

#include "p4.h"

struct job {
    const char *images;
    uint32_t ranks, bytes;
};

static void note_cpu(void *user) {
    *(double *)user = bench_cpu_seconds();
}

static void run(const void *argument, double *result) {
    const struct job *job = argument;
    struct spin_error err;
    struct p4_outcome o;
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
    result[0] = bench_cpu_seconds() - begin;
    result[1] = (double)o.world.counts.packets;
    result[2] = (double)o.world.counts.handlers;
    result[3] = (double)o.world.counts.events;
    result[4] = (double)o.time_ps / 1e6;
    result[5] = ready - begin;
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
         "message (memory, an entry per packet and rank), and the run is the rest.\n\n"
         "  ranks    bytes    virtual     time   packets  us/packet  set-up    run  us/rank  "
         "handlers/s  events/s  memory  KB/rank");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        struct job job = jobs[i];
        double r[6];
        if ((argc > 2 && job.ranks > 2000) || (only && (size_t)atoi(only) != i))
            continue;
        job.images = argv[1];
        double memory = bench_apart(run, &job, r, 6);
        if (memory < 0)
            return 1;
        printf("%7u  %7u  %7.2f us  %5.2f s  %8.0f  %9.2f  %6.2f %6.2f  %7.1f  %8.2f K %7.2f M "
               "%5.0f MB %8.1f\n",
               job.ranks, job.bytes, r[4], r[0], r[1], 1e6 * r[0] / r[1], 1e6 * r[5] / r[1],
               1e6 * (r[0] - r[5]) / r[1], 1e6 * r[0] / job.ranks, r[2] / r[0] / 1e3,
               r[3] / r[0] / 1e6, memory, 1e3 * memory / job.ranks);
    }
    return 0;
}
