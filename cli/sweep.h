/* What the parts of `openspin sweep` share.
 *
 *   sweep_axes.c     which values are swept: --over and --list
 *   sweep_command.c  how a value gets into the command
 *   sweep_run.c      a process per point, on all cores
 *   sweep_journal.c  what is done, for a sweep that was interrupted
 *   sweep_report.c   CSV and plot
 *
 * A sweep is a list of axes; a point is one row of each, the last axis fastest. */
#ifndef OPENSPIN_CLI_SWEEP_H
#define OPENSPIN_CLI_SWEEP_H

#include <stdio.h>

#include "cli.h"

#define SWEEP_MOST_POINTS 100000

/* ---- axes ---- */

struct sweep_axis {
    char **name; /* one for --over; the columns of --list */
    int names;
    char **value; /* [row][name] */
    int rows, room;
};

struct sweep_plan {
    struct sweep_axis *axis;
    int axes;
    int columns; /* names of all axes */
    uint32_t points;
};

/* NULL in `list`: no file. 0, or the exit status after the error. */
int sweep_plan_make(const struct cli_command *command, const struct cli_list *over,
                    const char *list, struct sweep_plan *plan);
void sweep_plan_free(struct sweep_plan *plan);
/* The axis and the name within it of column `column`. */
const char *sweep_name(const struct sweep_plan *plan, int column);
const char *sweep_value(const struct sweep_plan *plan, uint32_t point, int column);
/* Which row of an axis a point is on. */
int sweep_row(const struct sweep_plan *plan, uint32_t point, int axis);
/* "hpus=8, rate=400" */
void sweep_describe(const struct sweep_plan *plan, uint32_t point, char *text, size_t room);

/* ---- the command of a point ---- */

enum sweep_way { SWEEP_PLACE, SWEEP_OPTION, SWEEP_FLAG, SWEEP_SET };

struct sweep_command {
    const struct cli_command *made; /* "card run" */
    const char *const *word;        /* as given: card run -H ... */
    int words, path;                /* the first `path` name the command */
    enum sweep_way *way;            /* per column */
};

int sweep_command_find(const struct cli_command *command, const struct cli_list *words,
                       const struct sweep_plan *plan, struct sweep_command *into);
void sweep_command_free(struct sweep_command *c);
/* argv of a point, ended by NULL, in one allocation with its words; NULL: no memory. */
char **sweep_argv(const struct sweep_command *c, const struct sweep_plan *plan, uint32_t point,
                  int *argc);

/* ---- results ---- */

struct sweep_cell {
    uint32_t result; /* its place in the names */
    char *text;
};

struct sweep_point {
    bool done;   /* it ran, here or before the sweep was interrupted */
    char *error; /* NULL: it went well */
    struct sweep_cell *cell;
    uint32_t cells;
};

struct sweep_results {
    char **name;
    uint32_t names, hint;
    struct sweep_point *point; /* [points] */
    /* What --results asks for, which may lie in arrays; NULL: everything outside of arrays. */
    const struct cli_list *wanted;
};

bool sweep_results_new(struct sweep_results *r, const struct sweep_plan *plan);
void sweep_results_free(struct sweep_results *r, const struct sweep_plan *plan);
bool sweep_results_add(struct sweep_results *r, uint32_t point, const char *name,
                       const char *value);
/* The place of a name, r->names if no point has it. */
uint32_t sweep_result_find(struct sweep_results *r, const char *name);
/* NULL: the point has no such result. */
const char *sweep_result(const struct sweep_results *r, uint32_t point, uint32_t result);

/* ---- journal ---- */

struct sweep_journal {
    char *path; /* NULL: none is kept */
    FILE *out;
};

/* Reads what an interrupted sweep has left in FILE.journal, refuses when that was of another
 * command, and opens it for more. `fresh` begins anew. */
int sweep_journal_open(const struct cli_command *command, struct sweep_journal *j, const char *csv,
                       bool fresh, const struct sweep_command *c, const struct sweep_plan *plan,
                       struct sweep_results *r);
int sweep_journal_add(const struct cli_command *command, struct sweep_journal *j,
                      const struct sweep_plan *plan, const struct sweep_results *r, uint32_t point);
/* `done`: the CSV file has it all, the journal goes. */
void sweep_journal_close(struct sweep_journal *j, bool done);

/* ---- running ---- */

/* Runs what is not done. 0, or the exit status after the error: of memory and processes, or of a
 * signal, which has been raised again. Points that fail are results. */
int sweep_run(const struct cli_command *command, const struct sweep_command *c,
              const struct sweep_plan *plan, struct sweep_results *r, struct sweep_journal *j,
              unsigned jobs);

/* ---- reports ---- */

int sweep_write_csv(const struct cli_command *command, const char *path,
                    const struct sweep_plan *plan, struct sweep_results *r);

struct sweep_plot {
    const char *path, *x;
    struct cli_list y; /* names of results */
};
/* What can be known before the run. */
int sweep_plot_check(const struct cli_command *command, const struct sweep_plot *plot,
                     const struct sweep_plan *plan);
int sweep_plot_write(const struct cli_command *command, const struct sweep_plot *plot,
                     const struct sweep_command *c, const struct sweep_plan *plan,
                     struct sweep_results *r);

#endif
