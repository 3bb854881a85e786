/* GOAL replay under LogGOPS: events a second, memory, text parsed a second, and how cost grows with
 * the number of ranks. usage: bench-goal [quick] */
#include <inttypes.h>

#include "machine.h"
#include "openspin.h"

struct job {
    const char *pattern;
    uint32_t ranks;
    const char *peer; /* what LogGOPSim was measured at, on another machine */
};

enum { EVENTS, SECONDS, MAKESPAN_NS, RESULTS };

static void fail(const struct spin_error *err) {
    fprintf(stderr, "bench-goal: %s\n", err->text);
    _exit(1);
}

static void replay(const void *argument, double *result) {
    const struct job *job = argument;
    struct spin_error err;
    struct spin_goal *goal;
    struct spin_goal_pattern pattern = {
        .name = job->pattern, .ranks = job->ranks, .bytes = 8, .iterations = 1};
    struct spin_goal_options options = {0};
    struct spin_goal_result run;
    if (spin_goal_generate(&pattern, &goal, &err) != SPIN_OK ||
        spin_loggops_preset("loggopsim", &options.loggops, &err) != SPIN_OK)
        fail(&err);
    double start = bench_cpu_seconds();
    if (spin_goal_run(goal, &options, &run, &err) != SPIN_OK)
        fail(&err);
    result[SECONDS] = bench_cpu_seconds() - start;
    result[EVENTS] = (double)run.events;
    result[MAKESPAN_NS] = (double)run.makespan_ps / 1000;
}

static void measure(const struct job *job, int repeats) {
    double best[RESULTS] = {0}, result[RESULTS], memory = 0;
    for (int i = 0; i < repeats; i++) {
        double used = bench_apart(replay, job, result, RESULTS);
        if (used < 0) {
            printf("%-18s %8u ranks: failed\n", job->pattern, job->ranks);
            return;
        }
        memory = used > memory ? used : memory;
        if (i == 0 || result[SECONDS] < best[SECONDS])
            memcpy(best, result, sizeof best);
    }
    printf("%-18s %8u ranks %12.0f events %8.3f s %7.2f M events/s %7.0f MB%s%s\n", job->pattern,
           job->ranks, best[EVENTS], best[SECONDS], best[EVENTS] / best[SECONDS] / 1e6, memory,
           job->peer[0] ? "  | LogGOPSim, published: " : "", job->peer);
}

enum { BYTES, PARSE_SECONDS, PARSE_RESULTS };

static void parse(const void *argument, double *result) {
    struct spin_error err;
    struct spin_goal *goal;
    FILE *file = fopen(argument, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        _exit(1);
    result[BYTES] = (double)ftell(file);
    fclose(file);
    double start = bench_cpu_seconds();
    if (spin_goal_read(argument, &goal, &err) != SPIN_OK)
        fail(&err);
    result[PARSE_SECONDS] = bench_cpu_seconds() - start;
}

static void measure_parse(enum spin_goal_format format, const char *what, const char *peer) {
    char path[] = "/tmp/openspin-bench-XXXXXX";
    struct spin_error err;
    struct spin_goal *goal;
    struct spin_goal_pattern pattern = {
        .name = "dissemination", .ranks = 65536, .bytes = 8, .iterations = 1};
    int fd = mkstemp(path);
    if (fd < 0)
        return;
    close(fd);
    if (spin_goal_generate(&pattern, &goal, &err) != SPIN_OK ||
        spin_goal_write(goal, path, format, &err) != SPIN_OK)
        fail(&err);
    spin_goal_free(goal);
    double best = 0, result[PARSE_RESULTS] = {0}, memory = 0;
    for (int i = 0; i < 3; i++) {
        double used = bench_apart(parse, path, result, PARSE_RESULTS);
        double rate = result[BYTES] / result[PARSE_SECONDS] / 1e6;
        best = rate > best ? rate : best;
        memory = used;
    }
    printf("%-18s %8.1f MB read and parsed at %5.0f MB/s, %4.0f MB held%s%s\n", what,
           result[BYTES] / 1e6, best, memory, peer[0] ? "  | LogGOPSim, published: " : "", peer);
    unlink(path);
}

int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    static const struct job jobs[] = {
        {"dissemination", 65536, "1.0-1.1 M events/s, 456 MB"},
        {"binomial-bcast", 65536, "1.5-1.8 M events/s, 46 MB"},
        {"linear-alltoall", 256, "0.02 M events/s"},
        {"linear-alltoall", 1024, "not done after 900 s"},
    };
    bench_machine();
    printf("published: measured on a 2.8 GHz Xeon with 2 cpus, not on this machine\n\n");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++)
        measure(&jobs[i], quick ? 1 : 3);
    putchar('\n');
    measure_parse(SPIN_GOAL_TEXT, "text", "77 MB in 2.3 s, 33 MB/s");
    measure_parse(SPIN_GOAL_BINARY, "binary", "");
    putchar('\n');
    for (uint32_t ranks = 1024; ranks <= (quick ? 65536u : 1048576u); ranks *= 4) {
        struct job dissemination = {"dissemination", ranks, ""};
        measure(&dissemination, 1);
    }
    for (uint32_t ranks = 1024; ranks <= 1048576; ranks *= 4) {
        struct job tree = {"binomial-bcast", ranks, ""};
        measure(&tree, 1);
    }
    for (uint32_t ranks = 1024; ranks <= 1048576; ranks *= 4) {
        struct job grid = {"halo-3d", ranks, ""};
        measure(&grid, 1);
    }
    return 0;
}
