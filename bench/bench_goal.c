/* GOAL replay under LogGOPS: events per second, memory, text parsed per second, and how cost grows
 * with the number of ranks; or one file as a whole command, beside LogGOPSim where that is
 * installed. usage: bench-goal [quick], bench-goal beside OPENSPIN */
#include <inttypes.h>

#include "measure.h"
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

/* Writes the schedule that both this and LogGOPSim's authors measure to a new temporary file. */
static bool write_dissemination(char *path, enum spin_goal_format format) {
    struct spin_error err;
    struct spin_goal *goal;
    struct spin_goal_pattern pattern = {
        .name = "dissemination", .ranks = 65536, .bytes = 8, .iterations = 1};
    int fd = mkstemp(path);
    if (fd < 0)
        return false;
    close(fd);
    if (spin_goal_generate(&pattern, &goal, &err) != SPIN_OK ||
        spin_goal_write(goal, path, format, &err) != SPIN_OK)
        fail(&err);
    spin_goal_free(goal);
    return true;
}

static void measure_parse(enum spin_goal_format format, const char *what, const char *peer) {
    char path[] = "/tmp/openspin-bench-XXXXXX";
    if (!write_dissemination(path, format))
        return;
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

/* ---- beside LogGOPSim ---- */

struct use {
    double seconds, megabytes; /* of the CPU, user and system; the most that was resident */
};

/* Runs a command as a process of its own. False: it is not there, or failed. */
static bool run_command(const char *const *words, struct use *use) {
    int status = 1;
    struct rusage usage;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(127);
        execvp(words[0], (char *const *)words);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &usage) < 0 || status != 0)
        return false;
    use->seconds = (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                   1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
    use->megabytes = (double)usage.ru_maxrss * 1024 / 1e6;
    return true;
}

static void keep_least(struct use *least, const struct use *use, bool first) {
    if (first || use->seconds < least->seconds)
        least->seconds = use->seconds;
    if (first || use->megabytes > least->megabytes)
        least->megabytes = use->megabytes;
}

/* Both read the same binary file and replay it with LogGOPSim's parameters, by turns. */
static int measure_beside(const char *openspin) {
    enum { RUNS = 5 };
    char path[] = "/tmp/openspin-bench-XXXXXX";
    const char *peer = getenv("LOGGOPSIM") ? getenv("LOGGOPSIM") : "LogGOPSim";
    const char *ours[] = {openspin, "goal", "run", path, NULL};
    const char *theirs[] = {peer, "-f", path, "-b", NULL};
    struct use use, our = {0}, their = {0};
    bool has_peer = true;
    bench_machine();
    if (!write_dissemination(path, SPIN_GOAL_BINARY))
        return 1;
    for (int i = 0; i < RUNS; i++) {
        if (!run_command(ours, &use)) {
            fprintf(stderr, "bench-goal: %s goal run failed\n", openspin);
            unlink(path);
            return 1;
        }
        keep_least(&our, &use, i == 0);
        has_peer = has_peer && run_command(theirs, &use);
        if (has_peer)
            keep_least(&their, &use, i == 0);
    }
    unlink(path);
    printf("dissemination, 65536 ranks, a binary file, the whole command, least of %d runs\n",
           RUNS);
    printf("openspin goal run  %6.2f s %6.0f MB\n", our.seconds, our.megabytes);
    if (has_peer)
        printf("LogGOPSim          %6.2f s %6.0f MB, %.1f times as long\n", their.seconds,
               their.megabytes, their.seconds / our.seconds);
    else
        printf("LogGOPSim          is not installed (on PATH, or named by LOGGOPSIM)\n");
    return 0;
}

int main(int argc, char **argv) {
    if (argc == 3 && strcmp(argv[1], "beside") == 0)
        return measure_beside(argv[2]);
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
