/* openspin experiment: the figures of the papers, run again, ours beside what was published. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

#include "experiment.h"
#include "images.h"

struct options {
    const char *out, *jit, *card, *topology, *file;
    uint64_t ranks, bytes, exchanges;
    bool csv, json, live;
    struct cli_list set;
};

static const struct cli_option options[] = {
    {"out", 'o', CLI_STRING, "DIR", "write CSV, gnuplot scripts, SVG and PNG into this folder",
     offsetof(struct options, out), 0, 0},
    {"jit", 0, CLI_STRING, "HOW", CLI_JIT_HELP, offsetof(struct options, jit), 0, 0},
    {"ranks", 'n', CLI_NUMBER, "N", "another number of ranks", offsetof(struct options, ranks), 1,
     65536},
    {"bytes", 0, CLI_SIZE, "SIZE", "only messages or packets of this size",
     offsetof(struct options, bytes), 1, UINT32_MAX},
    {"card", 0, CLI_STRING, "NAME", "another card: sc17 or pspin", offsetof(struct options, card),
     0, 0},
    {"topology", 'T', CLI_STRING, "SPEC", "another network, as of 'sim run'",
     offsetof(struct options, topology), 0, 0},
    {"set", 's', CLI_LIST, "NAME=VALUE", "another parameter of the world, as of 'sim run'",
     offsetof(struct options, set), 0, 0},
    {"file", 'f', CLI_STRING, "FILE", "another input: a block trace for sc17/spc",
     offsetof(struct options, file), 0, 0},
    {"exchanges", 0, CLI_NUMBER, "N",
     "of sc17/table5c and part/unpinned: how many to simulate or measure",
     offsetof(struct options, exchanges), 1, UINT32_MAX},
    {"live", 0, CLI_FLAG, NULL,
     "on live cards of this machine: 'experiment --live' lists those that have it",
     offsetof(struct options, live), 0, 0},
    {"csv", 0, CLI_FLAG, NULL, "print CSV: each table, then the published values",
     offsetof(struct options, csv), 0, 0},
    {"json", 0, CLI_FLAG, NULL, "print JSON, an object for each experiment",
     offsetof(struct options, json), 0, 0},
    {0}};

static void list(const struct experiment *all) {
    for (const struct experiment *e = all; e->id; e++)
        printf("%-18s %s (%s)%s\n", e->id, e->title, e->source,
               e->flags & EXPERIMENT_MEASURED ? "; times this machine" : "");
}

/* Before anything runs: a card and parameters that there are. */
static int check_setup(const struct cli_command *command, const struct experiment_setup *setup) {
    struct spin_error err;
    if (setup->card && strcmp(setup->card, "sc17") && strcmp(setup->card, "pspin"))
        return cli_error(command, CLI_USAGE, "--card %s: there are sc17 and pspin", setup->card);
    for (int i = 0; i < setup->set_count; i++)
        if (spin_world_check(setup->set[i], &err))
            return cli_report(command, &err);
    return 0;
}

/* "pspin/fig6" is itself, "pspin" all of that paper, "all" every one. */
static bool is_meant(const struct experiment *e, const char *word) {
    size_t length = strlen(word);
    return strcmp(word, "all") == 0 || strcmp(word, e->id) == 0 ||
           (strncmp(word, e->id, length) == 0 && e->id[length] == '/');
}

static bool is_known(const struct experiment *all, const char *word) {
    for (; all->id; all++)
        if (is_meant(all, word))
            return true;
    return false;
}

static int check_names(const struct cli_command *command, const struct experiment *all,
                       const struct cli_list *names) {
    for (int i = 0; i < names->count; i++) {
        const char *name = names->items[i];
        bool live = all == live_experiments;
        if (is_known(all, name))
            continue;
        if (!live && is_known(live_experiments, name))
            return cli_error(command, CLI_USAGE, "%s is of live cards: give --live", name);
        return cli_error(command, CLI_USAGE,
                         "no experiment '%s'; 'openspin experiment%s' lists them", name,
                         live ? " --live" : "");
    }
    return 0;
}

static void print_csv(const struct experiment *e, const struct sheet *sheet) {
    for (int i = 0; i < sheet->panels; i++) {
        printf("# %s %s: %s\n", e->id, sheet->panel[i].name, sheet->panel[i].title);
        sheet_print_csv(&sheet->panel[i], stdout);
        putchar('\n');
    }
    printf("# %s published\n", e->id);
    sheet_print_claims_csv(sheet, stdout);
}

static int run_one(const struct cli_command *command, const struct experiment *e,
                   const struct experiment_context *context, const struct options *o) {
    struct sheet sheet;
    struct spin_error err;
    bool plotted = true;
    int code = experiment_run(e, context, &sheet, &err), status = 0;
    if (code)
        return code == SPIN_EINTERRUPTED ? cli_error(command, CLI_INTERRUPTED, "%s", err.text)
                                         : cli_report(command, &err);
    /* Files first: when they cannot be written, that is the one thing to say. */
    if (o->out && sheet_write(e, &sheet, o->out, &plotted, &err))
        status = cli_report(command, &err);
    if (!status && o->json)
        sheet_print_json(e, &sheet, stdout);
    else if (!status && o->csv)
        print_csv(e, &sheet);
    else if (!status)
        sheet_print(e, &sheet, stdout);
    if (!status && o->out && !plotted)
        fprintf(stderr, "no plots: there is no gnuplot (Debian: gnuplot-nox); %s has CSV and .gp\n",
                o->out);
    sheet_free(&sheet);
    return status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {0};
    struct cli_list names;
    struct images_folders folders;
    int status = cli_parse(command, argc, argv, &o, &names);
    const struct experiment *all = o.live ? live_experiments : experiments;
    if (!status && o.csv && o.json)
        status = cli_error(command, CLI_USAGE, "--csv or --json, not both");
    if (!status)
        status = check_names(command, all, &names);
    if (!status && names.count == 0) {
        if (o.out || o.csv || o.json)
            status =
                cli_error(command, CLI_USAGE, "which experiment? 'openspin experiment' lists them");
        else
            list(all);
    }
    struct experiment_context context = images_find(&folders);
    struct spin_error err;
    context.out = o.out;
    context.setup = (struct experiment_setup){.ranks = (uint32_t)o.ranks,
                                              .bytes = o.bytes,
                                              .card = o.card,
                                              .topology = o.topology,
                                              .file = o.file,
                                              .exchanges = o.exchanges,
                                              .set = o.set.items,
                                              .set_count = o.set.count};
    if (!status)
        status = check_setup(command, &context.setup);
    if (!status && o.out && sheet_folder(o.out, &err))
        status = cli_report(command, &err);
    if (!status)
        status = cli_jit(command, o.jit, &context.jit);
    bool first = true;
    for (const struct experiment *e = all; e->id && !status; e++)
        for (int i = 0; i < names.count; i++)
            if (is_meant(e, names.items[i])) {
                if (!first && !o.json)
                    putchar('\n');
                first = false;
                status = run_one(command, e, &context, &o);
                break;
            }
    cli_free(command, &o, &names);
    return status;
}

const struct cli_command cli_experiment = {
    .name = "experiment",
    .args = "[ID...] [--out DIR] [--csv | --json]",
    .summary = "run the papers' figures again, ours beside published",
    .about =
        "Without an ID, lists the experiments. An ID is a figure (pspin/fig6), a paper (pspin)\n"
        "or 'all'. Each prints its tables, what was published beside ours with the ratio, and\n"
        "a verdict in one line. With another set-up than the published one (--ranks, --bytes,\n"
        "--card, --topology, --set) it says so.",
    .options = options,
    .run = run,
};
