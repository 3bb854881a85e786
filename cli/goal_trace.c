/* `openspin goal trace`: the schedule of an MPI program, by running it under mpirun with the tracer
 * (src/mpi) loaded before its MPI. */
#include "cli_goal.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "base/temporary.h"
#include "base/units.h"
#include "child.h"
#include "config.h"

struct trace_options {
    uint64_t ranks;
    const char *output, *format, *scale, *clock, *shortest;
    struct cli_list pass;
    bool wildcards;
};

#define AT(member) offsetof(struct trace_options, member)
static const struct cli_option table[] = {
    {"ranks", 'n', CLI_NUMBER, "N", "number of ranks, each runs the program (2)", AT(ranks), 1,
     65536},
    {"output", 'o', CLI_OUTPUT, "FILE", "the schedule (PROGRAM.goal)", AT(output), 0, 0},
    {"format", 'f', CLI_STRING, "FORMAT", "text or binary (by the name: .bin is binary)",
     AT(format), 0, 0},
    {"scale", 0, CLI_STRING, "FACTOR", "computation takes FACTOR times as long (1)", AT(scale), 0,
     0},
    {"clock", 0, CLI_STRING, "CLOCK",
     "what measures computation: cpu (the default: of the rank's thread) or wall", AT(clock), 0, 0},
    {"shortest", 0, CLI_STRING, "TIME", "computation that is shorter does not count (0)",
     AT(shortest), 0, 0},
    {"wildcards", 0, CLI_FLAG, NULL,
     "receives from any source stay so (without it they name the source that came)", AT(wildcards),
     0, 0},
    {"mpirun", 0, CLI_LIST, "WORD", "a word for mpirun; may be repeated", AT(pass), 0, 0},
    {0},
};
#undef AT

#define TRACER "libopenspin-goal.so"

/* The folder of the tracer. */
static bool find_tracer(char *folder, size_t room) {
    static const char *const places[] = {"src/mpi", "../src/mpi", "../" OPENSPIN_LIBDIR "/openspin",
                                         NULL};
    return file_beside(places, TRACER, folder, room);
}

static int check(const struct cli_command *command, const struct trace_options *o,
                 const struct cli_list *words) {
    char *end;
    enum spin_goal_format format;
    if (words->count == 0)
        return cli_error(command, CLI_USAGE, "which program? usage: openspin %s %s", command->name,
                         command->args);
    if (o->clock && strcmp(o->clock, "cpu") != 0 && strcmp(o->clock, "wall") != 0)
        return cli_error(command, CLI_USAGE, "unknown clock '%s'; there are cpu and wall",
                         o->clock);
    double scale = o->scale ? strtod(o->scale, &end) : 1;
    if (o->scale && (end == o->scale || *end || !(scale >= 0 && scale <= 1e9)))
        return cli_error(command, CLI_USAGE, "--scale %s is not a factor from 0 to 1e9", o->scale);
    int status = goal_format(command, o->format, o->output ? o->output : "", &format);
    if (status)
        return status;
    uint64_t ps;
    if (o->shortest && !units_time_ps(o->shortest, &ps))
        return cli_error(command, CLI_USAGE, "--shortest %s is not a time (such as 10us)",
                         o->shortest);
    return 0;
}

/* What the tracer reads in each rank; mpirun hands on those that are named by -x. */
static void set_environment(const struct trace_options *o, const char *part) {
    uint64_t ps = 0;
    char shortest[24];
    if (o->shortest)
        units_time_ps(o->shortest, &ps);
    snprintf(shortest, sizeof shortest, "%llu", (unsigned long long)ps / 1000);
    setenv("OPENSPIN_GOAL_SHORTEST", shortest, 1);
    setenv("OPENSPIN_GOAL", part, 1);
    setenv("OPENSPIN_GOAL_SCALE", o->scale ? o->scale : "1", 1);
    setenv("OPENSPIN_GOAL_CLOCK", o->clock ? o->clock : "cpu", 1);
    setenv("OPENSPIN_GOAL_WILDCARDS", o->wildcards ? "keep" : "resolve", 1);
    if (geteuid() == 0) { /* in containers one is */
        setenv("OMPI_ALLOW_RUN_AS_ROOT", "1", 1);
        setenv("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1", 1);
    }
}

/* mpirun -n N --oversubscribe -x ... WORD... PROGRAM ARGUMENT...; new memory, or NULL. */
static const char **command_line(const struct trace_options *o, const struct cli_list *program,
                                 const char *ranks, const char *preload) {
    static const char *const handed[] = {"OPENSPIN_GOAL", "OPENSPIN_GOAL_SCALE",
                                         "OPENSPIN_GOAL_CLOCK", "OPENSPIN_GOAL_WILDCARDS",
                                         "OPENSPIN_GOAL_SHORTEST"};
    const char **words = calloc((size_t)(o->pass.count + program->count) + 24, sizeof *words);
    int n = 0;
    if (!words)
        return NULL;
    words[n++] = "mpirun";
    words[n++] = "-n";
    words[n++] = ranks;
    words[n++] = "--oversubscribe";
    words[n++] = "-x";
    words[n++] = preload;
    for (size_t i = 0; i < sizeof handed / sizeof handed[0]; i++) {
        words[n++] = "-x";
        words[n++] = handed[i];
    }
    for (int i = 0; i < o->pass.count; i++)
        words[n++] = o->pass.items[i];
    for (int i = 0; i < program->count; i++)
        words[n++] = program->items[i];
    return words;
}

/* Where mpirun looks for a name without a slash: in PATH and in the working directory. */
static bool is_found(const char *name) {
    const char *path = getenv("PATH");
    char file[PATH_MAX];
    for (size_t length; path; path = path[length] ? path + length + 1 : NULL) {
        length = strcspn(path, ":");
        int bytes = snprintf(file, sizeof file, "%.*s/%s", (int)length, path, name);
        if (bytes < (int)sizeof file && access(file, X_OK) == 0)
            return true;
    }
    return access(name, X_OK) == 0;
}

/* mpirun would say it in a dozen lines. */
static int check_program(const struct cli_command *command, const char *name) {
    struct stat st;
    if (!strchr(name, '/'))
        return is_found(name)
                   ? 0
                   : cli_error(command, CLI_FAILED,
                               "%s: cannot run it: there is no such program in PATH", name);
    if (access(name, X_OK) != 0 || stat(name, &st) != 0)
        return cli_error(command, CLI_FAILED, "%s: cannot run it: %s", name, strerror(errno));
    return S_ISREG(st.st_mode)
               ? 0
               : cli_error(command, CLI_FAILED, "%s: cannot run it: it is no regular file", name);
}

static int run_traced(const struct cli_command *command, const struct trace_options *o,
                      const struct cli_list *program, const char *part) {
    const char *others = getenv("LD_PRELOAD");
    char tracer[PATH_MAX], ranks[24], preload[2 * PATH_MAX];
    int ended;
    int status = check_program(command, program->items[0]);
    if (status)
        return status;
    if (!find_tracer(tracer, sizeof tracer))
        return cli_error(command, CLI_FAILED,
                         "the tracer " TRACER " was not built: install Debian's package "
                         "libopenmpi-dev and build openspin again");
    set_environment(o, part);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s/" TRACER "%s%s", tracer, others ? ":" : "",
             others ? others : "");
    snprintf(ranks, sizeof ranks, "%llu", (unsigned long long)o->ranks);
    const char **words = command_line(o, program, ranks, preload);
    if (!words)
        return cli_error(command, CLI_FAILED, "out of memory");
    int why = child_run(words, &ended);
    free(words);
    if (why)
        return cli_error(command, CLI_FAILED,
                         "cannot run mpirun: %s; install Debian's package openmpi-bin",
                         strerror(why));
    if (WIFSIGNALED(ended))
        return cli_error(command, CLI_FAILED, "%s: mpirun was ended by signal %d; no schedule",
                         program->items[0], WTERMSIG(ended));
    if (WEXITSTATUS(ended))
        return cli_error(command, CLI_FAILED, "%s: mpirun ended with status %d; no schedule",
                         program->items[0], WEXITSTATUS(ended));
    if (access(part, R_OK) != 0)
        return cli_error(command, CLI_FAILED,
                         "%s: no schedule came: it must be a C or C++ program of Open MPI that "
                         "calls MPI_Finalize",
                         program->items[0]);
    return 0;
}

static int keep(const struct cli_command *command, const struct trace_options *o, const char *part,
                const char *program) {
    const char *name = strrchr(program, '/') ? strrchr(program, '/') + 1 : program;
    char own[PATH_MAX];
    enum spin_goal_format format;
    struct spin_goal *goal = NULL;
    struct spin_error err;
    snprintf(own, sizeof own, "%s.goal", name);
    const char *output = o->output ? o->output : own;
    int status = goal_format(command, o->format, output, &format);
    if (!status && (spin_goal_read(part, &goal, &err) != SPIN_OK ||
                    spin_goal_write(goal, output, format, &err) != SPIN_OK))
        status = cli_report(command, &err);
    if (!status && strcmp(output, "-") != 0) {
        struct spin_goal_info i = spin_goal_info(goal);
        printf("%s: %u ranks, %llu messages of %llu bytes in all, %llu ns of computation\n", output,
               i.ranks, (unsigned long long)i.sends, (unsigned long long)i.bytes_sent,
               (unsigned long long)i.calc_ns);
    }
    spin_goal_free(goal);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct trace_options o = {.ranks = 2};
    struct cli_list words;
    struct temporary folder = {.lock = -1};
    struct spin_error err;
    char part[PATH_MAX + 16];
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status)
        status = check(command, &o, &words);
    if (!status && temporary_make(&folder, &err) != SPIN_OK)
        status = cli_report(command, &err);
    snprintf(part, sizeof part, "%s/schedule", folder.path);
    if (!status)
        status = run_traced(command, &o, &words, part);
    if (!status)
        status = keep(command, &o, part, words.items[0]);
    temporary_remove(&folder);
    cli_free(command, &o, &words);
    return status;
}

const struct cli_command cli_goal_trace = {
    .name = "goal trace",
    .args = "[options] PROGRAM [ARGUMENT...]",
    .summary = "make the schedule of an MPI program by running it",
    .about = "Runs a C or C++ program of Open MPI under mpirun and writes what its ranks send,\n"
             "receive and compute as a GOAL schedule. Whatever follows the program is the\n"
             "program's. Time between two calls of MPI becomes calc; collectives become the\n"
             "messages of the usual algorithms.",
    .options = table,
    .run = run,
    .launches = true,
};
