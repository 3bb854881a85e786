/* `openspin sweep`: a command at every point of a grid or list, results in one table. */
#include "sweep.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

struct options {
    struct cli_list over;
    const char *list, *csv, *plot, *x, *y, *results;
    uint64_t jobs;
    bool fresh;
};

#define AT(member) offsetof(struct options, member)
static const struct cli_option table[] = {
    {"over", 'o', CLI_LIST, "NAME=VALUES",
     "what is swept: hpus=8,16,32 or rate=100:400:100 or size=64:4096:*2; repeated: a grid",
     AT(over), 0, 0},
    {"list", 'l', CLI_STRING, "FILE", "points as CSV: a line of names, then lines of values",
     AT(list), 0, 0},
    {"results", 'r', CLI_STRING, "NAME,...", "which results to keep (all that are not in lists)",
     AT(results), 0, 0},
    {"csv", 'c', CLI_OUTPUT, "FILE", "write the table there, resumable (standard output)", AT(csv),
     0, 0},
    {"plot", 'p', CLI_OUTPUT, "FILE", "plot the results: .svg, .png or .gp", AT(plot), 0, 0},
    {"x", 0, CLI_STRING, "NAME", "of the plot (what is swept first); the rest are curves", AT(x), 0,
     0},
    {"y", 0, CLI_STRING, "NAME,...", "results to plot (throughput or makespan)", AT(y), 0, 0},
    {"jobs", 'j', CLI_NUMBER, "N", "processes at a time (all cores)", AT(jobs), 1, 1024},
    {"fresh", 0, CLI_FLAG, NULL, "forget what an interrupted sweep has left", AT(fresh), 0, 0},
    {0},
};
#undef AT

/* "a,b,c" as a list; the words lie in *copy. */
static bool split(const char *text, char **copy, struct cli_list *list) {
    size_t count = 1;
    for (const char *c = text; *c; c++)
        count += *c == ',';
    *copy = strdup(text);
    list->items = calloc(count, sizeof *list->items);
    char *state = NULL;
    for (char *word = *copy && list->items ? strtok_r(*copy, ",", &state) : NULL; word;
         word = strtok_r(NULL, ",", &state))
        list->items[list->count++] = word;
    return *copy && list->items;
}

/* What one looks at first. */
static const char *main_result(const struct cli_command *command) {
    static const char *const names[][2] = {{"budget", "sustained_gbit"},
                                           {"card run", "throughput_mbit"},
                                           {"goal run", "makespan_ps"},
                                           {"sim run", "makespan_ps"}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(command->name, names[i][0]) == 0)
            return names[i][1];
    return NULL;
}

static unsigned all_cores(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) == 0 ? (unsigned)CPU_COUNT(&set) : 1;
}

/* After the run: 0, or 1 and what to say of points that failed. */
static int verdict(const struct cli_command *command, const struct sweep_plan *plan,
                   struct sweep_results *r) {
    uint32_t failed = 0, first = 0;
    for (uint32_t i = plan->points; i-- > 0;)
        if (r->point[i].error) {
            failed++;
            first = i;
        }
    for (int i = 0; i < r->wanted->count && failed < plan->points; i++)
        if (sweep_result_find(r, r->wanted->items[i]) == r->names) {
            char known[400] = "";
            size_t used = 0;
            for (uint32_t n = 0; n < r->names && used < sizeof known; n++)
                used += (size_t)snprintf(known + used, sizeof known - used, "%s%s", n ? ", " : "",
                                         r->name[n]);
            return cli_error(command, CLI_FAILED, "no result is called '%s'; there are %s%s",
                             r->wanted->items[i], known, used >= sizeof known ? "..." : "");
        }
    if (!failed)
        return 0;
    char point[200];
    sweep_describe(plan, first, point, sizeof point);
    return cli_error(command, CLI_FAILED, "%u of %u points failed, the first is %s: %s", failed,
                     plan->points, point, r->point[first].error);
}

static int sweep(const struct cli_command *command, const struct options *o,
                 const struct sweep_command *c, const struct sweep_plan *plan,
                 const struct sweep_plot *plot, struct sweep_results *r) {
    struct sweep_journal journal;
    int status = plot->path ? sweep_plot_check(command, plot, plan) : 0;
    if (!status && !sweep_results_new(r, plan))
        status = cli_error(command, CLI_FAILED, "out of memory");
    if (status)
        return status;
    status = sweep_journal_open(command, &journal, o->csv, o->fresh, c, plan, r);
    if (!status)
        status =
            sweep_run(command, c, plan, r, &journal, o->jobs ? (unsigned)o->jobs : all_cores());
    if (!status)
        status = sweep_write_csv(command, o->csv, plan, r);
    sweep_journal_close(&journal, !status);
    if (!status)
        status = verdict(command, plan, r);
    if (plot->path) {
        uint32_t good = 0;
        for (uint32_t i = 0; r->point && i < plan->points; i++)
            good += r->point[i].done && !r->point[i].error;
        if (good) {
            int plotted = sweep_plot_write(command, plot, c, plan, r);
            status = status ? status : plotted;
        }
    }
    return status;
}

static int planned(const struct cli_command *command, const struct options *o,
                   const struct cli_list *words, struct sweep_plan *plan) {
    struct sweep_command c = {0};
    struct sweep_results r = {0};
    struct sweep_plot plot = {.path = o->plot, .x = o->x};
    struct cli_list wanted = {0};
    char *result_words = NULL, *y_words = NULL;
    int status = sweep_command_find(command, words, plan, &c);
    const char *y = o->y;
    if (!status && (o->x || o->y) && !o->plot)
        status = cli_error(command, CLI_USAGE, "--x and --y are of a plot: say --plot FILE");
    if (!status && !y && !o->results)
        y = main_result(c.made);
    if (!status && o->plot && !y && !o->results)
        status = cli_error(command, CLI_USAGE, "--plot: which result? say --y NAME");
    if (!status && ((o->results && !split(o->results, &result_words, &wanted)) ||
                    (o->plot && !split(y ? y : o->results, &y_words, &plot.y))))
        status = cli_error(command, CLI_FAILED, "out of memory");
    r.wanted = &wanted;
    if (!status)
        status = sweep(command, o, &c, plan, &plot, &r);
    sweep_results_free(&r, plan);
    sweep_command_free(&c);
    free(wanted.items);
    free(plot.y.items);
    free(result_words);
    free(y_words);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {0};
    struct cli_list words;
    struct sweep_plan plan = {0};
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status)
        status = sweep_plan_make(command, &o.over, o.list, &plan);
    if (!status)
        status = planned(command, &o, &words, &plan);
    sweep_plan_free(&plan);
    cli_free(command, &o, &words);
    return status;
}

const struct cli_command cli_sweep = {
    .name = "sweep",
    .args = "--over NAME=VALUES... [options] COMMAND ...",
    .summary = "run a command for many values of its parameters",
    .about =
        "Runs budget, card run, goal run or sim run at every point of a grid or list, each in a\n"
        "process of its own, on all cores, and writes one table. A NAME is an option or a\n"
        "parameter of the command, or stands in it as {NAME}. A point that fails is a row with\n"
        "its error, and the exit status is 1. With --csv an interrupted sweep goes on when the\n"
        "same command is given again.",
    .options = table,
    .launches = true,
    .run = run,
};
