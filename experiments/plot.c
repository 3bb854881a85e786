/* The files of an experiment: CSV, and plots by gnuplot from the CSV.
 *
 * The script can be run by hand in its folder (gnuplot X.gp). We run it with `part` set, so that
 * the pictures get their names when they are complete, as every file of ours does. */
#include "experiment.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/error.h"
#include "base/file.h"

extern char **environ;

#define PART ".part"

/* "pspin-fig6-budget" */
static void file_name(char *name, size_t room, const struct experiment *e, const char *rest) {
    snprintf(name, room, "%s-%s", e->id, rest);
    for (char *c = name; *c; c++)
        if (*c == '/')
            *c = '-';
}

static int open_in(struct file_out *out, const char *folder, const char *name, const char *ending,
                   struct spin_error *err) {
    char path[PATH_MAX];
    if ((size_t)snprintf(path, sizeof path, "%s/%s%s", folder, name, ending) >= sizeof path)
        return spin_fail(err, SPIN_EARG, "%s: name is too long", folder);
    return file_out_open(out, path, err);
}

static void axis(FILE *out, const char *which, const struct sheet_column *c, bool logarithmic) {
    fprintf(out, "set %slabel '%s%s%s%s'\n", which, c->name, *c->unit ? " (" : "", c->unit,
            *c->unit ? ")" : "");
    if (logarithmic)
        fprintf(out, "set logscale %s %d\n", which, *which == 'x' ? 2 : 10);
}

/* A curve that is not there yet. */
static bool is_empty(const struct sheet_panel *p, int column) {
    for (int r = 0; r < p->rows; r++)
        if (!isnan(p->row[r].value[column]))
            return false;
    return true;
}

static void print_script(const struct sheet_panel *p, const char *name, FILE *out) {
    fprintf(out, "# gnuplot %s.gp, in this folder\n", name);
    fprintf(out, "if (!exists('part')) part = ''\n");
    fprintf(out, "set datafile separator ','\nset datafile missing ''\n");
    fprintf(out, "set title \"%s\" noenhanced\nset key below noenhanced\nset grid\n", p->title);
    axis(out, "x", &p->column[0], p->log_x);
    /* Curves share an axis, so its label is their unit. */
    struct sheet_column y = {.unit = ""};
    snprintf(y.name, sizeof y.name, "%s", p->columns > 1 ? p->column[1].unit : "");
    axis(out, "y", &y, p->log_y);
    if (!p->log_y)
        fprintf(out, "set yrange [0:*]\n");
    if (p->by_name)
        fprintf(out, "set style data histograms\nset style fill solid 0.7\n"
                     "set xtics rotate by -30 noenhanced\n");
    static const char *const terminals[] = {"svg size 800,480 dynamic background rgb 'white'", "pngcairo size 800,480"};
    static const char *const endings[] = {"svg", "png"};
    for (int t = 0; t < 2; t++) {
        fprintf(out, "set terminal %s\nset output '%s.%s'.part\nplot ", terminals[t], name,
                endings[t]);
        const char *separator = "";
        for (int c = 1; c < p->columns; c++) {
            if (is_empty(p, c))
                continue; /* gnuplot would warn about it */
            fprintf(out, "%s'%s.csv' using %s%d%s skip 1 title '%s'%s", separator, name,
                    p->by_name ? "" : "1:", c + 1, p->by_name ? ":xtic(1)" : "", p->column[c].name,
                    p->by_name ? "" : " with linespoints");
            separator = ", \\\n     ";
        }
        fprintf(out, "\nunset output\n");
    }
}

/* 0: it ran and ended well; ENOENT: there is no gnuplot; anything else: it failed. */
static int run_gnuplot(const char *folder, const char *script) {
    const char *const words[] = {"gnuplot", "-e", "part = '" PART "'", script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addchdir_np(&actions, folder);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 2, "/dev/null", O_WRONLY, 0);
    int why = posix_spawnp(&child, words[0], &actions, NULL, (char **)(uintptr_t)words, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (why)
        return why;
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR)
            return errno;
    int ended = WIFEXITED(status) ? WEXITSTATUS(status) : EIO;
    return ended == 0     ? 0
           : ended == 127 ? ENOENT
                          : EIO; /* 127: of a child that could not start it */
}

/* Gives the pictures their names, or removes what there is of them. */
static int settle(const char *folder, const char *name, bool keep, struct spin_error *err) {
    static const char *const endings[] = {"svg", "png"};
    int code = SPIN_OK;
    for (int t = 0; t < 2; t++) {
        char path[PATH_MAX], part[PATH_MAX + 8];
        snprintf(path, sizeof path, "%s/%s.%s", folder, name, endings[t]);
        snprintf(part, sizeof part, "%s" PART, path);
        if (keep && !code && rename(part, path) != 0)
            code = spin_fail(err, SPIN_EFILE, "%s: cannot write: %s", path, strerror(errno));
        if (!keep || code)
            unlink(part);
    }
    return code;
}

static int write_panel(const struct experiment *e, const struct sheet_panel *p, const char *folder,
                       bool *plotted, struct spin_error *err) {
    char name[100], script[120];
    struct file_out out;
    file_name(name, sizeof name, e, p->name);
    int code = open_in(&out, folder, name, ".csv", err);
    if (code)
        return code;
    sheet_print_csv(p, out.stream);
    code = file_out_commit(&out, err);
    if (!code)
        code = open_in(&out, folder, name, ".gp", err);
    if (code)
        return code;
    print_script(p, name, out.stream);
    code = file_out_commit(&out, err);
    if (code || !*plotted)
        return code;
    snprintf(script, sizeof script, "%s.gp", name);
    int why = run_gnuplot(folder, script);
    if (why == ENOENT)
        *plotted = false;
    else if (why)
        code = spin_fail(err, SPIN_ETOOL, "%s/%s: gnuplot cannot plot it; run 'gnuplot %s' there",
                         folder, script, script);
    int settled = settle(folder, name, !why, code ? NULL : err);
    return code ? code : settled;
}

int sheet_folder(const char *folder, struct spin_error *err) {
    struct stat st;
    if (mkdir(folder, 0777) != 0 && errno != EEXIST)
        return spin_fail(err, SPIN_EFILE, "%s: cannot make the folder: %s", folder,
                         strerror(errno));
    if (stat(folder, &st) == 0 && !S_ISDIR(st.st_mode))
        return spin_fail(err, SPIN_EFILE, "%s: is not a folder", folder);
    return SPIN_OK;
}

int sheet_write(const struct experiment *experiment, const struct sheet *sheet, const char *folder,
                bool *plotted, struct spin_error *err) {
    char name[100];
    struct file_out out;
    *plotted = true;
    int code = sheet_folder(folder, err);
    for (int i = 0; i < sheet->panels && !code; i++)
        code = write_panel(experiment, &sheet->panel[i], folder, plotted, err);
    if (code)
        return code;
    file_name(name, sizeof name, experiment, "published");
    code = open_in(&out, folder, name, ".csv", err);
    if (code)
        return code;
    sheet_print_claims_csv(sheet, out.stream);
    return file_out_commit(&out, err);
}
