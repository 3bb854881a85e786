/* A sweep as one CSV file, a row per point in the order of the grid, and as a plot. */
#include "sweep.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"
#include "experiment.h"

/* ---- CSV ---- */

static void put_cell(FILE *out, const char *text) {
    if (!text[strcspn(text, ",\"\r\n")]) {
        fputs(text, out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        if (*text == '"')
            fputc('"', out);
        fputc(*text == '\n' ? ' ' : *text, out);
    }
    fputc('"', out);
}

static int shown_results(const struct sweep_results *r) {
    return r->wanted && r->wanted->count ? r->wanted->count : (int)r->names;
}

static const char *shown_name(const struct sweep_results *r, int i) {
    return r->wanted && r->wanted->count ? r->wanted->items[i] : r->name[i];
}

static void print_csv(FILE *out, const struct sweep_plan *plan, struct sweep_results *r) {
    for (int c = 0; c < plan->columns; c++) {
        put_cell(out, sweep_name(plan, c));
        fputc(',', out);
    }
    for (int i = 0; i < shown_results(r); i++) {
        put_cell(out, shown_name(r, i));
        fputc(',', out);
    }
    fputs("error\n", out);
    for (uint32_t p = 0; p < plan->points; p++) {
        for (int c = 0; c < plan->columns; c++) {
            put_cell(out, sweep_value(plan, p, c));
            fputc(',', out);
        }
        for (int i = 0; i < shown_results(r); i++) {
            const char *value = sweep_result(r, p, sweep_result_find(r, shown_name(r, i)));
            put_cell(out, value ? value : "");
            fputc(',', out);
        }
        put_cell(out, r->point[p].error ? r->point[p].error : "");
        fputc('\n', out);
    }
}

int sweep_write_csv(const struct cli_command *command, const char *path,
                    const struct sweep_plan *plan, struct sweep_results *r) {
    struct file_out file;
    struct spin_error err;
    if (!path) {
        print_csv(stdout, plan, r);
        fflush(stdout); /* before what is said of it */
        return 0;
    }
    if (file_out_open(&file, path, &err))
        return cli_report(command, &err);
    print_csv(file.stream, plan, r);
    return file_out_commit(&file, &err) ? cli_report(command, &err) : 0;
}

/* ---- plot ---- */

enum scale { PLAIN, BYTES, TIME, RATE, NAMES };

/* A swept value as a number of the smallest kind of scale that takes it. */
static enum scale scale_of(const char *text, double *number) {
    char *end;
    uint64_t value;
    *number = strtod(text, &end);
    if (end != text && !*end && isfinite(*number))
        return PLAIN;
    if (units_size(text, &value)) {
        *number = (double)value;
        return BYTES;
    }
    if (units_time_ps(text, &value)) {
        *number = (double)value / 1000;
        return TIME;
    }
    if (units_rate(text, &value)) {
        *number = (double)value / 1e9;
        return RATE;
    }
    return NAMES;
}

static int x_column(const struct sweep_plot *plot, const struct sweep_plan *plan) {
    for (int c = 0; c < plan->columns; c++)
        if (plot->x && strcmp(plot->x, sweep_name(plan, c)) == 0)
            return c;
    return plot->x ? -1 : 0;
}

static int axis_of_column(const struct sweep_plan *plan, int column) {
    int axis = 0;
    while (column >= plan->axis[axis].names)
        column -= plan->axis[axis++].names;
    return axis;
}

/* Of the x axis: one scale for all its values, or names. */
static enum scale x_scale(const struct sweep_plan *plan, int column, double *x) {
    int axis = axis_of_column(plan, column), rows = plan->axis[axis].rows;
    enum scale scale = PLAIN;
    uint32_t step = 1;
    for (int a = axis + 1; a < plan->axes; a++)
        step *= (uint32_t)plan->axis[a].rows;
    for (int row = 0; row < rows; row++) {
        enum scale own = scale_of(sweep_value(plan, (uint32_t)row * step, column), &x[row]);
        if (own != PLAIN && scale != PLAIN && own != scale)
            own = NAMES;
        if (own != PLAIN)
            scale = own;
        if (scale == NAMES)
            break;
    }
    return scale;
}

/* Values that grow by one factor, three or more of them, belong on a logarithmic axis. */
static bool is_geometric(const double *x, int rows) {
    for (int i = 2; i < rows; i++)
        if (!(x[i - 2] > 0 && x[i - 1] > 0) || x[i - 1] == x[i - 2] ||
            fabs(x[i] / x[i - 1] - x[1] / x[0]) > 1e-6 * (x[1] / x[0]))
            return false;
    return rows > 2;
}

/* "throughput_mbit, hpus 8, rate 400": what a curve differs by from the others. */
static void curve_name(const struct sweep_plot *plot, const struct sweep_plan *plan, int y,
                       uint32_t point, int x_axis, char *text, size_t room) {
    size_t used = 0;
    const char *separator = "";
    *text = 0;
    if (plot->y.count > 1 || plan->axes == 1) {
        used = (size_t)snprintf(text, room, "%s", plot->y.items[y]);
        separator = ", ";
    }
    for (int c = 0; c < plan->columns && used < room; c++)
        if (axis_of_column(plan, c) != x_axis) {
            used += (size_t)snprintf(text + used, room - used, "%s%s %s", separator,
                                     sweep_name(plan, c), sweep_value(plan, point, c));
            separator = ", ";
        }
}

int sweep_plot_check(const struct cli_command *command, const struct sweep_plot *plot,
                     const struct sweep_plan *plan) {
    struct spin_error err;
    int column = x_column(plot, plan);
    if (column < 0)
        return cli_error(command, CLI_USAGE, "--x: '%s' is not swept", plot->x);
    uint32_t curves = plan->points / (uint32_t)plan->axis[axis_of_column(plan, column)].rows *
                      (uint32_t)plot->y.count;
    if (curves >= SHEET_COLUMNS)
        return cli_error(
            command, CLI_USAGE,
            "--plot: %u curves over %s, at most %d fit into a plot; choose another --x "
            "or fewer --y",
            curves, sweep_name(plan, column), SHEET_COLUMNS - 1);
    return sheet_plot_check(plot->path, &err) ? cli_report(command, &err) : 0;
}

static void fill_panel(const struct sweep_plot *plot, const struct sweep_plan *plan,
                       struct sweep_results *r, struct sheet *sheet, struct sheet_panel *panel,
                       int x_axis, const double *x, int column) {
    const struct sweep_axis *axis = &plan->axis[x_axis];
    uint32_t inner = 1;
    for (int a = x_axis + 1; a < plan->axes; a++)
        inner *= (uint32_t)plan->axis[a].rows;
    uint32_t others = plan->points / (uint32_t)axis->rows;
    for (uint32_t o = 0; o < others; o++)
        for (int y = 0; y < plot->y.count; y++) {
            char name[200];
            uint32_t first = o / inner * inner * (uint32_t)axis->rows + o % inner;
            curve_name(plot, plan, y, first, x_axis, name, sizeof name);
            sheet_column(panel, plot->y.count == 1 ? plot->y.items[0] : "", 3, "%s", name);
        }
    for (int row = 0; row < axis->rows; row++) {
        uint32_t at = (uint32_t)row * inner;
        struct sheet_row *to = sheet_row(sheet, panel, sweep_value(plan, at, column));
        to->value[0] = x[row];
        for (uint32_t o = 0; o < others; o++)
            for (int y = 0; y < plot->y.count; y++) {
                uint32_t point = o / inner * inner * (uint32_t)axis->rows + o % inner + at;
                const char *text = sweep_result(r, point, sweep_result_find(r, plot->y.items[y]));
                char *end;
                double value = text ? strtod(text, &end) : NAN;
                if (text && end != text && !*end)
                    to->value[1 + (int)o * plot->y.count + y] = value;
            }
    }
}

int sweep_plot_write(const struct cli_command *command, const struct sweep_plot *plot,
                     const struct sweep_command *c, const struct sweep_plan *plan,
                     struct sweep_results *r) {
    static const char *const units[] = {"", "bytes", "ns", "Gbit/s", ""};
    int column = x_column(plot, plan), x_axis = axis_of_column(plan, column);
    int rows = plan->axis[x_axis].rows;
    struct sheet *sheet = calloc(1, sizeof *sheet);
    double *x = malloc((size_t)rows * sizeof *x);
    int status = 0;
    if (!sheet || !x) {
        status = cli_error(command, CLI_FAILED, "out of memory");
    } else {
        struct spin_error err;
        char title[100];
        snprintf(title, sizeof title, "openspin %s", c->made->name);
        struct sheet_panel *panel = sheet_panel(sheet, "sweep", title);
        enum scale scale = x_scale(plan, column, x);
        panel->by_name = scale == NAMES;
        panel->log_x = scale != NAMES && is_geometric(x, rows);
        sheet_column(panel, units[scale], 3, "%s", sweep_name(plan, column));
        fill_panel(plot, plan, r, sheet, panel, x_axis, x, column);
        if (sheet->no_memory)
            status = cli_error(command, CLI_FAILED, "out of memory");
        else if (sheet_plot(panel, plot->path, &err))
            status = cli_report(command, &err);
    }
    if (sheet)
        sheet_free(sheet);
    free(sheet);
    free(x);
    return status;
}
