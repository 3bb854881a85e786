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
#include <sys/mman.h>
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

/* 'text' of gnuplot, in which only the quote is special. */
static void put_quoted(FILE *out, const char *text) {
    fputc('\'', out);
    for (; *text; text++) {
        if (*text == '\'')
            fputc('\'', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
    fputc('\'', out);
}

static void axis(FILE *out, const char *which, const struct sheet_column *c, bool logarithmic) {
    char label[80];
    snprintf(label, sizeof label, "%s%s%.30s%s", c->name, *c->unit ? " (" : "", c->unit,
             *c->unit ? ")" : "");
    fprintf(out, "set %slabel ", which);
    put_quoted(out, label);
    fputs(" noenhanced\n", out);
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

/* Title, axes and key. */
static void print_frame(const struct sheet_panel *p, FILE *out) {
    fprintf(out, "set datafile separator ','\nset datafile missing ''\n");
    fputs("set title ", out);
    put_quoted(out, p->title);
    fputs(" noenhanced\nset key below noenhanced\nset grid\n", out);
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
}

/* `data` is a file's name in quotes, or a block of data. */
static void print_curves(const struct sheet_panel *p, const char *data, FILE *out) {
    const char *separator = "plot ";
    for (int c = 1; c < p->columns; c++) {
        if (is_empty(p, c))
            continue; /* gnuplot would warn about it */
        fprintf(out, "%s%s using %s%d%s skip 1 title ", separator, data,
                p->by_name ? "" : "1:", c + 1, p->by_name ? ":xtic(1)" : "");
        put_quoted(out, p->column[c].name);
        fputs(p->by_name ? "" : " with linespoints", out);
        separator = ", \\\n     ";
    }
    fputc('\n', out);
}

static const struct terminal {
    const char *ending, *name;
} terminals[] = {{"svg", "svg size 800,480 dynamic background rgb 'white'"},
                 {"png", "pngcairo size 800,480"}};
enum { TERMINALS = sizeof terminals / sizeof terminals[0] };

static void print_script(const struct sheet_panel *p, const char *name, FILE *out) {
    char data[120];
    snprintf(data, sizeof data, "'%.100s.csv'", name);
    fprintf(out, "# gnuplot %s.gp, in this folder\n", name);
    fprintf(out, "if (!exists('part')) part = ''\n");
    print_frame(p, out);
    for (int t = 0; t < TERMINALS; t++) {
        fprintf(out, "set terminal %s\nset output '%s.%s'.part\n", terminals[t].name, name,
                terminals[t].ending);
        print_curves(p, data, out);
        fprintf(out, "unset output\n");
    }
}

/* 0: it ran and ended well; ENOENT: there is no gnuplot; anything else: it failed. `folder` may be
 * NULL: here. */
static int run_gnuplot(const char *folder, const char *setting, const char *script) {
    const char *const words[] = {"gnuplot", "-e", setting, script, NULL};
    posix_spawn_file_actions_t actions;
    pid_t child;
    posix_spawn_file_actions_init(&actions);
    if (folder)
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
    int code = SPIN_OK;
    for (int t = 0; t < TERMINALS; t++) {
        char path[PATH_MAX], part[PATH_MAX + 8];
        snprintf(path, sizeof path, "%s/%s.%s", folder, name, terminals[t].ending);
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
    int why = run_gnuplot(folder, "part = '" PART "'", script);
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

/* ---- one plot by itself ---- */

/* -1: a script of gnuplot's; else the terminal by the file's ending. TERMINALS: neither. */
static int terminal_of(const char *path) {
    const char *dot = strrchr(path, '.');
    int t = 0;
    if (dot && strcmp(dot, ".gp") == 0)
        return -1;
    while (t < TERMINALS && !(dot && strcmp(dot + 1, terminals[t].ending) == 0))
        t++;
    return t;
}

int sheet_plot_check(const char *path, struct spin_error *err) {
    int terminal = terminal_of(path);
    if (terminal == TERMINALS)
        return spin_fail(err, SPIN_EARG, "%s: a plot ends in .svg, .png or .gp (gnuplot's script)",
                         path);
    if (terminal >= 0 && run_gnuplot(NULL, "exit", "/dev/null") == ENOENT)
        return spin_fail(err, SPIN_ETOOL,
                         "%s: there is no gnuplot (Debian: gnuplot-nox); a name that ends in .gp "
                         "gets its script",
                         path);
    return SPIN_OK;
}

static void print_whole(const struct sheet_panel *p, FILE *out) {
    fputs("$data << END\n", out);
    sheet_print_csv(p, out);
    fputs("END\n", out);
    print_frame(p, out);
    print_curves(p, "$data", out);
}

/* The script goes to gnuplot through memory, the picture into the part of the file. */
static int draw(const struct sheet_panel *p, int terminal, const char *path, const char *part,
                struct spin_error *err) {
    char script[40];
    int fd = memfd_create("openspin-plot", 0); /* gnuplot opens it by name */
    FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
    if (!out) {
        if (fd >= 0)
            close(fd);
        return spin_fail(err, SPIN_ENOMEM, "%s: out of memory", path);
    }
    fprintf(out, "set terminal %s\nset output ", terminals[terminal].name);
    put_quoted(out, part);
    fputc('\n', out);
    print_whole(p, out);
    fputs("unset output\n", out);
    snprintf(script, sizeof script, "/dev/fd/%d", fd);
    int why = fflush(out) ? EIO : run_gnuplot(NULL, "", script);
    fclose(out);
    return why ? spin_fail(err, SPIN_ETOOL,
                           "%s: gnuplot cannot plot it; a name that ends in .gp gets its script",
                           path)
               : SPIN_OK;
}

int sheet_plot(const struct sheet_panel *panel, const char *path, struct spin_error *err) {
    struct file_out out;
    int terminal = terminal_of(path), code = SPIN_OK;
    bool empty = true;
    for (int c = 1; c < panel->columns; c++)
        empty = empty && is_empty(panel, c);
    if (empty)
        return spin_fail(err, SPIN_EARG, "%s: nothing to plot: no point has a number", path);
    if (file_out_open(&out, path, err))
        return err ? (int)err->code : SPIN_EFILE;
    if (terminal < 0)
        print_whole(panel, out.stream);
    else
        code = draw(panel, terminal, path, out.part ? out.part : path, err);
    if (code) {
        file_out_abandon(&out);
        return code;
    }
    return file_out_commit(&out, err);
}
