/* Experiments: a figure or table of a paper, run again. Each is a row of the table in
 * experiment_list.c.
 *
 * A run fills a sheet: panels (tables of numbers, each with a plot), claims (what was published,
 * beside what we get) and notes. Printing, CSV, JSON and plots are made from the sheet alone.
 *
 * A published value enters a sheet only through sheet_claim and sheet_shape, which stand after the
 * result is made: nothing that is computed reads one. */
#ifndef OPENSPIN_EXPERIMENT_H
#define OPENSPIN_EXPERIMENT_H

#include <stdbool.h>
#include <stdio.h>

#include "openspin.h"

#define SHEET_COLUMNS 12
#define SHEET_PANELS  4
#define SHEET_CLAIMS  32
#define SHEET_NOTES   16

struct sheet_column {
    char name[40];
    const char *unit;
    int decimals;
};

struct sheet_row {
    char label[32]; /* for panels whose first column is a name */
    double value[SHEET_COLUMNS];
};

/* A table. Its first column is the x axis of the plot, the others are curves (or bars). */
struct sheet_panel {
    char name[24]; /* of its files */
    char title[100];
    bool log_x, log_y, by_name; /* by_name: the first column is the rows' labels, drawn as bars */
    int every;                  /* text shows each n-th row; files have all */
    struct sheet_column column[SHEET_COLUMNS];
    int columns, rows, room;
    bool too_many; /* columns */
    struct sheet_row *row;
};

enum sheet_verdict {
    SHEET_AGREES,
    SHEET_DIFFERS,
    SHEET_CALIBRATED, /* our constant was fitted to this very value: agreement proves nothing */
    SHEET_MISSING,    /* we have no value yet */
};

/* Something published and what we get. */
struct sheet_claim {
    const char *id; /* of the published value; docs/experiments.md */
    char what[80];
    const char *unit;
    double ours, published; /* of a shape: 1 or 0, and 1 */
    double tolerance;       /* largest |ratio - 1| that agrees */
    bool is_shape;          /* a statement that holds or does not */
    enum sheet_verdict verdict;
    char note[240];
};

struct sheet {
    struct sheet_panel panel[SHEET_PANELS];
    struct sheet_claim claim[SHEET_CLAIMS];
    char note[SHEET_NOTES][240];
    char changed[160]; /* how the set-up is not the published one, or "" */
    int panels, claims, notes;
    bool overflow, no_memory; /* asked for once, after the run */
};

/* What the caller wants other than it was published; all zero: nothing. */
struct experiment_setup {
    uint32_t ranks;              /* of the experiments that have a number of them */
    uint64_t bytes;              /* only messages of this size */
    const char *card, *topology; /* as of `sim run` */
    const char *file;            /* with the input, for experiments that have some */
    uint64_t exchanges;          /* of the application proxies, at most; 0: a few */
    const char *const *set;
    int set_count;
};

/* What an experiment may need from its caller. */
struct experiment_context {
    /* Folders of the handler images that are built with openspin, or NULL: the experiments' own and
     * those of the workloads. */
    const char *images, *workloads;
    const char *programs; /* likewise: of programs on live cards, or NULL */
    /* A folder that exists, for files that are no table, or NULL for none. */
    const char *out;
    enum spin_jit jit; /* how handlers run: changes no result */
    struct experiment_setup setup;
};

/* What of a set-up an experiment takes; */
#define EXPERIMENT_RANKS     0x1u
#define EXPERIMENT_BYTES     0x2u
#define EXPERIMENT_WORLD     0x4u /* card, topology and parameters */
#define EXPERIMENT_ANY       (EXPERIMENT_RANKS | EXPERIMENT_BYTES | EXPERIMENT_WORLD)
#define EXPERIMENT_FILE      0x10u
#define EXPERIMENT_EXCHANGES 0x20u
/* and that it times this machine, so no two runs are the same. */
#define EXPERIMENT_MEASURED 0x8u

struct experiment {
    const char *id;     /* "pspin/fig6" */
    const char *title;  /* one line */
    const char *source; /* "ISCA'21 figure 6" */
    unsigned flags;
    int (*run)(const struct experiment_context *context, struct sheet *sheet,
               struct spin_error *err);
};

/* Ended by a row without an id. */
extern const struct experiment experiments[];
/* The same on live cards of this machine, with what a simulated card of its speed would do. */
extern const struct experiment live_experiments[];

/* Whether it takes this set-up; and the set-up as text. */
int experiment_check(const struct experiment *experiment, const struct experiment_setup *setup,
                     struct spin_error *err);
void experiment_changes(const struct experiment_setup *setup, char *text, size_t room);
/* Runs one. On an error the sheet is empty; otherwise sheet_free it. */
int experiment_run(const struct experiment *experiment, const struct experiment_context *context,
                   struct sheet *sheet, struct spin_error *err);
void sheet_free(struct sheet *sheet);

/* ---- the set-up, for experiments ---- */

/* The options of a world: `base`, then what the caller wants. Here because the options point to
 * it. */
#define EXPERIMENT_SETTINGS 64
struct experiment_world {
    struct spin_world_options options;
    const char *set[EXPERIMENT_SETTINGS];
    char card[40];
};
int experiment_world(const struct experiment_context *context,
                     const struct spin_world_options *base, struct experiment_world *world,
                     struct spin_error *err);
/* Runs rank(argument) on all ranks of such a world; a rank that does not return 0, or a handler
 * that fails, is an error, which says `what` it was. */
int experiment_ranks(const struct experiment_context *context, const char *what,
                     const struct spin_world_options *base, int (*rank)(void *argument),
                     void *argument, struct spin_error *err);
/* The same, and what happened in it. */
int experiment_ranks_counted(const struct experiment_context *context, const char *what,
                             const struct spin_world_options *base, int (*rank)(void *argument),
                             void *argument, struct spin_world_counts *counts,
                             struct spin_error *err);
/* Rows of sizes: so many were published, of which the one in hand is `bytes`. */
static inline int experiment_sizes(const struct experiment_context *context, int published) {
    return context->setup.bytes ? 1 : published;
}
static inline uint32_t experiment_size(const struct experiment_context *context, uint32_t bytes) {
    return context->setup.bytes ? (uint32_t)context->setup.bytes : bytes;
}
/* With one size, or one number of ranks, there is one row, and what was published says nothing. */
static inline bool experiment_one_row(const struct experiment_context *context) {
    return context->setup.bytes || context->setup.ranks;
}

/* ---- filling a sheet; what does not fit is reported by experiment_run ---- */

/* Within this of the published value a result agrees, unless the claim says otherwise: published
 * numbers are rounded, and read off figures. */
#define SHEET_WITHIN 0.10

struct sheet_panel *sheet_panel(struct sheet *sheet, const char *name, const char *title);
void sheet_column(struct sheet_panel *panel, const char *unit, int decimals, const char *format,
                  ...) __attribute__((format(printf, 4, 5)));
/* A new row, all its values NAN: no value. Never NULL; valid until the next row. */
struct sheet_row *sheet_row(struct sheet *sheet, struct sheet_panel *panel, const char *label);
/* Ours NAN: not there yet. Returns the claim, whose note says why it differs. */
struct sheet_claim *sheet_claim(struct sheet *sheet, const char *id, const char *unit, double ours,
                                double published, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
/* A bound: ours may be more, or (with `most`) less. Short of it by the tolerance still agrees. */
struct sheet_claim *sheet_bound(struct sheet *sheet, const char *id, const char *unit, double ours,
                                double published, bool most, const char *format, ...)
    __attribute__((format(printf, 7, 8)));
struct sheet_claim *sheet_shape(struct sheet *sheet, const char *id, bool holds, const char *format,
                                ...) __attribute__((format(printf, 4, 5)));
/* A claim that agrees within so much, in its unit, and not within 10 %. Before it is calibrated. */
void sheet_within(struct sheet_claim *claim, double difference);
/* The claim's note; the second form also says that our model was fitted to the value. */
void sheet_because(struct sheet_claim *claim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sheet_calibrated(struct sheet_claim *claim, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sheet_note(struct sheet *sheet, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- showing a sheet ---- */

double sheet_ratio(const struct sheet_claim *claim); /* NAN when there is none */
const char *sheet_verdict_name(enum sheet_verdict verdict);
/* One line: how many agree, what differs, what is not there. */
void sheet_verdict(const struct sheet *sheet, char *line, size_t room);
void sheet_print(const struct experiment *experiment, const struct sheet *sheet, FILE *out);
void sheet_print_csv(const struct sheet_panel *panel, FILE *out);
void sheet_print_claims_csv(const struct sheet *sheet, FILE *out);
void sheet_print_json(const struct experiment *experiment, const struct sheet *sheet, FILE *out);

/* Makes the folder if need be. */
int sheet_folder(const char *folder, struct spin_error *err);
/* Writes <id>-<panel>.csv, .gp, .svg and .png for each panel and <id>-published.csv into a folder.
 * Without gnuplot there is no plot, and *plotted is false. */
int sheet_write(const struct experiment *experiment, const struct sheet *sheet, const char *folder,
                bool *plotted, struct spin_error *err);

/* One plot by itself, into a file that ends in .svg, .png or .gp (gnuplot's script with the data).
 * The check is for before the work: the ending, and whether there is a gnuplot. */
int sheet_plot_check(const char *path, struct spin_error *err);
int sheet_plot(const struct sheet_panel *panel, const char *path, struct spin_error *err);

#endif
