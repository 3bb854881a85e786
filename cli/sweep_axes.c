/* The values of a sweep: NAME=v1,v2,... or NAME=FROM:TO:STEP or NAME=FROM:TO:*FACTOR, and rows of a
 * CSV file. */
#include "sweep.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/units.h"

#define LARGEST_LIST (64u << 20)

static bool add_row(struct sweep_axis *axis, char **cells) {
    if (axis->rows == axis->room) {
        int room = axis->room ? 2 * axis->room : 16;
        char **larger =
            realloc(axis->value, (size_t)room * (size_t)axis->names * sizeof *axis->value);
        if (!larger)
            return false;
        axis->value = larger;
        axis->room = room;
    }
    memcpy(axis->value + (size_t)axis->rows * (size_t)axis->names, cells,
           (size_t)axis->names * sizeof *cells);
    axis->rows++;
    return true;
}

static bool add_value(struct sweep_axis *axis, const char *text, size_t length) {
    char *copy = strndup(text, length);
    if (copy && add_row(axis, &copy))
        return true;
    free(copy);
    return false;
}

/* ---- ranges ---- */

struct quantity {
    double number;
    const char *unit;
};

static bool read_quantity(const char *text, struct quantity *q) {
    char *end;
    if (!isdigit((unsigned char)*text) && *text != '-' && *text != '.')
        return false;
    q->number = strtod(text, &end);
    q->unit = end;
    return isfinite(q->number);
}

/* The three words of a range: with one unit, or in sizes or times of different units, which are
 * then bytes or ns. A factor has no unit. */
static bool one_unit(char *const word[3], bool factor, struct quantity q[3]) {
    int quantities = factor ? 2 : 3;
    uint64_t value[3];
    bool same = true, sizes = true, times = true;
    for (int i = 0; i < 3; i++)
        if (!read_quantity(word[i], &q[i]))
            return false;
    if (factor && *q[2].unit)
        return false;
    for (int i = 0; i < quantities; i++) {
        same = same && strcmp(q[i].unit, q[0].unit) == 0;
        sizes = sizes && units_size(word[i], &value[i]);
    }
    for (int i = 0; !same && i < quantities; i++) {
        if (!sizes)
            times = times && units_time_ps(word[i], &value[i]);
        q[i].number = sizes ? (double)value[i] : (double)value[i] / 1000;
        q[i].unit = sizes ? "" : "ns";
    }
    return same || sizes || times;
}

static bool is_range(const char *text) {
    const char *first = strchr(text, ':'), *second = first ? strchr(first + 1, ':') : NULL;
    struct quantity q;
    return second && !strchr(second + 1, ':') && !strchr(text, ',') && read_quantity(text, &q) &&
           read_quantity(first + 1, &q);
}

static int add_range(const struct cli_command *command, const char *name, const char *text,
                     struct sweep_axis *axis) {
    char *copy = strdup(text), *word[3];
    struct quantity q[3] = {0};
    if (!copy)
        return cli_error(command, CLI_FAILED, "out of memory");
    word[0] = copy;
    for (int i = 1; i < 3; i++) {
        word[i] = strchr(word[i - 1], ':') + 1;
        word[i][-1] = 0;
    }
    bool factor = *word[2] == '*';
    if (factor)
        word[2]++;
    bool good = one_unit(word, factor, q);
    double from = q[0].number, to = q[1].number, step = q[2].number;
    int status = 0;
    if (!good)
        status = cli_error(command, CLI_USAGE,
                           "--over %s: '%s' is not FROM:TO:STEP or FROM:TO:*FACTOR of one unit",
                           name, text);
    else if (factor ? !(from > 0 && to > 0 && step > 0 && (to >= from ? step > 1 : step < 1))
                    : !(step != 0 && (to >= from) == (step > 0)))
        status = cli_error(command, CLI_USAGE, "--over %s: '%s' never gets from %s to %s", name,
                           text, word[0], word[1]);
    double slack = 1e-9 * fabs(factor ? to : step), at = from;
    for (int i = 0; !status; i++, at = factor ? at * step : from + i * step) {
        char value[64];
        if (to >= from ? at > to + slack : at < to - slack)
            break;
        snprintf(value, sizeof value, "%.12g%.20s", at, q[0].unit);
        if (axis->rows >= SWEEP_MOST_POINTS)
            status = cli_error(command, CLI_USAGE, "--over %s: '%s' is more than %d values", name,
                               text, SWEEP_MOST_POINTS);
        else if (!add_value(axis, value, strlen(value)))
            status = cli_error(command, CLI_FAILED, "out of memory");
    }
    free(copy);
    return status;
}

/* ---- lists ---- */

static int add_values(const struct cli_command *command, const char *name, const char *text,
                      struct sweep_axis *axis) {
    /* Values that hold commas (dragonfly:4,8,4) are set apart by semicolons. */
    const char *separator = strchr(text, ';') ? ";" : ",";
    for (const char *at = text;; at++) {
        size_t length = strcspn(at, separator);
        if (!length)
            return cli_error(command, CLI_USAGE,
                             "--over %s: '%s' has an empty value; separate values by one '%s'",
                             name, text, separator);
        if (!add_value(axis, at, length))
            return cli_error(command, CLI_FAILED, "out of memory");
        at += length;
        if (!*at)
            return 0;
    }
}

static int over(const struct cli_command *command, const char *text, struct sweep_axis *axis) {
    while (*text == '-')
        text++; /* --hpus=8 is the option's name as well */
    const char *equals = strchr(text, '=');
    if (!equals || equals == text || !equals[1])
        return cli_error(command, CLI_USAGE,
                         "--over: '%s' is not NAME=VALUE,... or NAME=FROM:TO:STEP", text);
    axis->name = calloc(1, sizeof *axis->name);
    if (!axis->name || !(axis->name[0] = strndup(text, (size_t)(equals - text))))
        return cli_error(command, CLI_FAILED, "out of memory");
    axis->names = 1;
    return is_range(equals + 1) ? add_range(command, axis->name[0], equals + 1, axis)
                                : add_values(command, axis->name[0], equals + 1, axis);
}

/* ---- files ---- */

/* One cell of a CSV line: plain, or "quoted" with "" for a quote. Moves *at behind it and its
 * comma; false for a quote that does not end. */
static bool next_cell(char **at, char **cell, bool *last) {
    char *from = *at, *to = from;
    *cell = from;
    if (*from == '"') {
        *cell = to = ++from;
        for (; *from && (*from != '"' || from[1] == '"'); from++) {
            from += *from == '"';
            *to++ = *from;
        }
        if (*from++ != '"' || (*from && *from != ','))
            return false;
    } else {
        from += strcspn(from, ",");
        to = from;
    }
    *last = *from == 0;
    *at = *last ? from : from + 1;
    *to = 0;
    return true;
}

static int list_line(const struct cli_command *command, const char *path, int number, char *line,
                     struct sweep_axis *axis) {
    bool header = !axis->names, last = false;
    char *cells[64] = {0}, *cell;
    int count = 0, status = 0;
    const int most = sizeof cells / sizeof cells[0];
    while (!last && !status) {
        if (!next_cell(&line, &cell, &last))
            status =
                cli_error(command, CLI_FAILED, "%s:%d: a quoted value does not end", path, number);
        else if (!*cell)
            status =
                cli_error(command, CLI_FAILED, "%s:%d: value %d is empty", path, number, count + 1);
        else if (count == most)
            status =
                cli_error(command, CLI_FAILED, "%s:%d: more than %d values", path, number, most);
        else if (!(cells[count++] = strdup(cell)))
            status = cli_error(command, CLI_FAILED, "out of memory");
    }
    if (!status && !header && count != axis->names)
        status = cli_error(command, CLI_FAILED, "%s:%d: %d values, the first line has %d names",
                           path, number, count, axis->names);
    if (!status && header) {
        axis->name = malloc((size_t)count * sizeof *axis->name);
        if (axis->name) {
            memcpy(axis->name, cells, (size_t)count * sizeof *cells);
            axis->names = count;
            return 0;
        }
        status = cli_error(command, CLI_FAILED, "out of memory");
    } else if (!status) {
        if (axis->rows < SWEEP_MOST_POINTS && add_row(axis, cells))
            return 0;
        status = cli_error(command, CLI_FAILED, "%s:%d: out of memory, or more than %d points",
                           path, number, SWEEP_MOST_POINTS);
    }
    for (int i = 0; i < count; i++)
        free(cells[i]);
    return status;
}

static int read_list(const struct cli_command *command, const char *path, struct sweep_axis *axis) {
    struct spin_error err;
    uint8_t *data;
    size_t length;
    if (file_read(path, "list of points", LARGEST_LIST, &data, &length, &err))
        return cli_report(command, &err);
    int status = 0, number = 0;
    if (strlen((char *)data) != length)
        status =
            cli_error(command, CLI_FAILED, "%s: holds a byte 0; this is no list of points", path);
    for (char *line = (char *)data, *next; *line && !status; line = next) {
        size_t bytes = strcspn(line, "\n");
        next = line + bytes + (line[bytes] == '\n');
        line[bytes] = 0;
        if (bytes && line[bytes - 1] == '\r')
            line[bytes - 1] = 0;
        number++;
        if (*line && *line != '#')
            status = list_line(command, path, number, line, axis);
    }
    if (!status && !axis->rows)
        status =
            cli_error(command, CLI_FAILED,
                      "%s: no points; a line of names and then lines of values are expected", path);
    free(data);
    return status;
}

/* ---- the plan ---- */

static int check_names(const struct cli_command *command, struct sweep_plan *plan) {
    for (int a = 0; a < plan->columns; a++)
        for (int b = 0; b < a; b++)
            if (strcmp(sweep_name(plan, a), sweep_name(plan, b)) == 0)
                return cli_error(command, CLI_USAGE, "'%s' is swept twice", sweep_name(plan, a));
    return 0;
}

int sweep_plan_make(const struct cli_command *command, const struct cli_list *texts,
                    const char *list, struct sweep_plan *plan) {
    *plan = (struct sweep_plan){0};
    if (!texts->count && !list)
        return cli_error(command, CLI_USAGE,
                         "what is swept? say --over NAME=VALUE,... or --list FILE");
    plan->axis = calloc((size_t)texts->count + 1, sizeof *plan->axis);
    if (!plan->axis)
        return cli_error(command, CLI_FAILED, "out of memory");
    int status = 0;
    if (list)
        status = read_list(command, list, &plan->axis[plan->axes++]);
    for (int i = 0; i < texts->count && !status; i++)
        status = over(command, texts->items[i], &plan->axis[plan->axes++]);
    uint64_t points = 1;
    for (int a = 0; a < plan->axes && !status; a++) {
        points *= (uint64_t)plan->axis[a].rows;
        plan->columns += plan->axis[a].names;
        if (points > SWEEP_MOST_POINTS)
            status = cli_error(command, CLI_USAGE, "more than %d points", SWEEP_MOST_POINTS);
    }
    plan->points = (uint32_t)points;
    return status ? status : check_names(command, plan);
}

void sweep_plan_free(struct sweep_plan *plan) {
    for (int a = 0; plan->axis && a < plan->axes; a++) {
        struct sweep_axis *axis = &plan->axis[a];
        for (int i = 0; i < axis->rows * axis->names; i++)
            free(axis->value[i]);
        for (int i = 0; i < axis->names; i++)
            free(axis->name[i]);
        free(axis->value);
        free(axis->name);
    }
    free(plan->axis);
    *plan = (struct sweep_plan){0};
}

static const struct sweep_axis *axis_of(const struct sweep_plan *plan, int *column) {
    const struct sweep_axis *axis = plan->axis;
    for (; *column >= axis->names; axis++)
        *column -= axis->names;
    return axis;
}

const char *sweep_name(const struct sweep_plan *plan, int column) {
    const struct sweep_axis *axis = axis_of(plan, &column);
    return axis->name[column];
}

int sweep_row(const struct sweep_plan *plan, uint32_t point, int axis) {
    for (int a = plan->axes - 1; a > axis; a--)
        point /= (uint32_t)plan->axis[a].rows;
    return (int)(point % (uint32_t)plan->axis[axis].rows);
}

const char *sweep_value(const struct sweep_plan *plan, uint32_t point, int column) {
    const struct sweep_axis *axis = axis_of(plan, &column);
    int row = sweep_row(plan, point, (int)(axis - plan->axis));
    return axis->value[(size_t)row * (size_t)axis->names + (size_t)column];
}

void sweep_describe(const struct sweep_plan *plan, uint32_t point, char *text, size_t room) {
    size_t used = 0;
    *text = 0;
    for (int c = 0; c < plan->columns && used < room; c++)
        used += (size_t)snprintf(text + used, room - used, "%s%s=%s", c ? ", " : "",
                                 sweep_name(plan, c), sweep_value(plan, point, c));
}
