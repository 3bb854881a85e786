/* What an interrupted sweep has done, in FILE.journal beside the CSV file that is not there yet.
 *
 * The first line names the format, the second the command and the swept names, then a line per file
 * that the command names (size and time of its last change) and a line per point that went well, as
 * it ended: the swept values and the results. Fields are set apart by tabs; tab, newline and
 * backslash are escaped. A last line without its end was being written and does not count. */
#include "sweep.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAGIC  "openspin-sweep "
#define FORMAT MAGIC "1"

/* ---- results in memory ---- */

bool sweep_results_new(struct sweep_results *r, const struct sweep_plan *plan) {
    r->point = calloc(plan->points, sizeof *r->point);
    return r->point != NULL;
}

static void clear_point(struct sweep_point *p) {
    for (uint32_t i = 0; i < p->cells; i++)
        free(p->cell[i].text);
    free(p->cell);
    free(p->error);
    *p = (struct sweep_point){0};
}

void sweep_results_free(struct sweep_results *r, const struct sweep_plan *plan) {
    for (uint32_t i = 0; r->point && i < plan->points; i++)
        clear_point(&r->point[i]);
    for (uint32_t i = 0; i < r->names; i++)
        free(r->name[i]);
    free(r->name);
    free(r->point);
}

/* Points have the same results in the same order, so the one behind the last is looked at first. */
uint32_t sweep_result_find(struct sweep_results *r, const char *name) {
    for (uint32_t i = 0; i < r->names; i++) {
        uint32_t at = (r->hint + i) % r->names;
        if (strcmp(r->name[at], name) == 0) {
            r->hint = at + 1;
            return at;
        }
    }
    return r->names;
}

static bool add_name(struct sweep_results *r, const char *name) {
    char **larger = realloc(r->name, (r->names + 1) * sizeof *larger);
    if (!larger)
        return false;
    r->name = larger;
    if (!(r->name[r->names] = strdup(name)))
        return false;
    r->hint = ++r->names;
    return true;
}

bool sweep_results_add(struct sweep_results *r, uint32_t point, const char *name,
                       const char *value) {
    struct sweep_point *p = &r->point[point];
    uint32_t result = sweep_result_find(r, name);
    if (result == r->names && !add_name(r, name))
        return false;
    if ((p->cells & (p->cells - 1)) == 0) { /* at powers of two */
        struct sweep_cell *larger =
            realloc(p->cell, (p->cells ? 2 * (size_t)p->cells : 1) * sizeof *larger);
        if (!larger)
            return false;
        p->cell = larger;
    }
    p->cell[p->cells] = (struct sweep_cell){result, strdup(value)};
    return p->cell[p->cells++].text != NULL;
}

const char *sweep_result(const struct sweep_results *r, uint32_t point, uint32_t result) {
    const struct sweep_point *p = &r->point[point];
    for (uint32_t i = 0; i < p->cells; i++)
        if (p->cell[i].result == result)
            return p->cell[i].text;
    return NULL;
}

/* ---- lines ---- */

static void put_field(FILE *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '\t':
            fputs("\\t", out);
            break;
        case '\n':
            fputs("\\n", out);
            break;
        case '\\':
            fputs("\\\\", out);
            break;
        default:
            fputc(*text, out);
        }
}

/* The next field of a line, unescaped in place; NULL at the end. */
static char *get_field(char **line) {
    char *from = *line, *to = from;
    if (!from)
        return NULL;
    char *field = from;
    for (; *from && *from != '\t'; from++) {
        if (*from == '\\' && from[1]) {
            from++;
            *to++ = *from == 't' ? '\t' : *from == 'n' ? '\n' : *from;
        } else {
            *to++ = *from;
        }
    }
    *line = *from ? from + 1 : NULL;
    *to = 0;
    return field;
}

static void put_heading(FILE *out, const struct sweep_command *c, const struct sweep_plan *plan) {
    fputs("command\t", out);
    put_field(out, spin_version());
    for (int i = 0; i < c->words; i++) {
        fputc('\t', out);
        put_field(out, c->word[i]);
    }
    fputs("\tover", out);
    for (int i = 0; i < plan->columns; i++) {
        fputc('\t', out);
        put_field(out, sweep_name(plan, i));
    }
    fputc('\n', out);
}

/* "8192 1700000000.123456789", or "" for what is no file. */
static void describe_file(const char *path, char *text, size_t room) {
    struct stat st;
    *text = 0;
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode))
        snprintf(text, room, "%lld %lld.%09ld", (long long)st.st_size, (long long)st.st_mtim.tv_sec,
                 st.st_mtim.tv_nsec);
}

static void put_file(FILE *out, const char *path) {
    char state[64];
    describe_file(path, state, sizeof state);
    if (!*state)
        return;
    fputs("file\t", out);
    put_field(out, path);
    fprintf(out, "\t%s\n", state);
}

/* Files that a word names: it, or what stands between its commas, colons and equal signs. */
static void put_files(FILE *out, const char *word) {
    char piece[4096];
    put_file(out, word);
    while (word[strcspn(word, ",:=;")]) {
        word += strcspn(word, ",:=;") + 1;
        size_t length = strcspn(word, ",:=;");
        if (length < sizeof piece) {
            memcpy(piece, word, length);
            piece[length] = 0;
            put_file(out, piece);
        }
    }
}

/* ---- reading ---- */

static int write_failed(const struct cli_command *command, const struct sweep_journal *j) {
    return cli_error(command, CLI_FAILED, "%s: cannot write: %s", j->path, strerror(errno));
}

/* The point with these values, or plan->points. */
static uint32_t find_point(const struct sweep_plan *plan, char *const *value) {
    uint32_t point = 0;
    for (int a = 0, column = 0; a < plan->axes; column += plan->axis[a++].names) {
        const struct sweep_axis *axis = &plan->axis[a];
        int row = 0;
        for (; row < axis->rows; row++) {
            int n = 0;
            while (n < axis->names &&
                   strcmp(axis->value[row * axis->names + n], value[column + n]) == 0)
                n++;
            if (n == axis->names)
                break;
        }
        if (row == axis->rows)
            return plan->points;
        point = point * (uint32_t)axis->rows + (uint32_t)row;
    }
    return point;
}

static bool read_point(char *line, const struct sweep_plan *plan, struct sweep_results *r,
                       char **value) {
    for (int i = 0; i < plan->columns; i++)
        if (!(value[i] = get_field(&line)))
            return true;
    uint32_t point = find_point(plan, value);
    if (point == plan->points)
        return true; /* of values that are not swept any more */
    clear_point(&r->point[point]);
    char *name, *result;
    while ((name = get_field(&line)) && (result = get_field(&line)))
        if (!sweep_results_add(r, point, name, result))
            return false;
    r->point[point].done = true;
    return true;
}

static bool has_changed(char *line, char *which, size_t room) {
    char *path = get_field(&line), *state = get_field(&line), now[64];
    if (!path || !state)
        return false;
    describe_file(path, now, sizeof now);
    snprintf(which, room, "%s", path);
    return strcmp(now, state) != 0;
}

static int read_lines(const struct cli_command *command, struct sweep_journal *j,
                      const char *heading, const struct sweep_plan *plan, struct sweep_results *r) {
    char *line = NULL, **value = calloc((size_t)plan->columns, sizeof *value), file[200];
    size_t room = 0;
    int status = value ? 0 : cli_error(command, CLI_FAILED, "out of memory");
    bool other = false, changed = false, points = false, alien = false;
    long whole = 0; /* bytes of whole lines */
    ssize_t length;
    rewind(j->out);
    for (int number = 1; !status && (length = getline(&line, &room, j->out)) > 0; number++) {
        /* A sweep that was killed may have left the first line in part. */
        size_t known = (size_t)length < strlen(MAGIC) ? (size_t)length : strlen(MAGIC);
        alien |= number == 1 && memcmp(line, MAGIC, known) != 0;
        if (alien || line[length - 1] != '\n')
            break;
        other |= number <= 2 && strcmp(line, number == 1 ? FORMAT "\n" : heading) != 0;
        line[length - 1] = 0;
        whole += length;
        if (strncmp(line, "file\t", 5) == 0 && !changed)
            changed = has_changed(line + 5, file, sizeof file);
        bool point = strncmp(line, "point\t", 6) == 0;
        points |= point;
        if (point && !other && !changed && !read_point(line + 6, plan, r, value))
            status = cli_error(command, CLI_FAILED, "out of memory");
    }
    free(line);
    free(value);
    if (!status && alien)
        status = cli_error(command, CLI_FAILED,
                           "%s: this is no journal of a sweep, whose place it has; remove it, or "
                           "take another --csv",
                           j->path);
    else if (!status && points && other)
        status = cli_error(command, CLI_FAILED,
                           "%s: is of another sweep: the command, the swept names or the version "
                           "differ; --fresh begins anew, or take another --csv",
                           j->path);
    else if (!status && points && changed)
        status = cli_error(command, CLI_FAILED,
                           "%s: %s has changed since that sweep was interrupted; --fresh begins "
                           "anew",
                           j->path, file);
    if (!status && ftruncate(fileno(j->out), points ? whole : 0) != 0)
        status = write_failed(command, j);
    return status;
}

/* ---- open, add, close ---- */

static void begin(struct sweep_journal *j, const char *heading, const struct sweep_command *c,
                  const struct sweep_plan *plan) {
    fprintf(j->out, FORMAT "\n%s", heading);
    for (int i = c->path; i < c->words; i++)
        put_files(j->out, c->word[i]);
    for (int a = 0; a < plan->axes; a++)
        for (int i = 0; i < plan->axis[a].rows * plan->axis[a].names; i++)
            put_files(j->out, plan->axis[a].value[i]);
}

int sweep_journal_open(const struct cli_command *command, struct sweep_journal *j, const char *csv,
                       bool fresh, const struct sweep_command *c, const struct sweep_plan *plan,
                       struct sweep_results *r) {
    *j = (struct sweep_journal){0};
    if (!csv)
        return 0;
    char *heading = NULL;
    size_t length;
    FILE *memory = open_memstream(&heading, &length);
    if (memory) {
        put_heading(memory, c, plan);
        fclose(memory);
    }
    if (!memory || !heading || asprintf(&j->path, "%s.journal", csv) < 0) {
        j->path = NULL;
        free(heading);
        return cli_error(command, CLI_FAILED, "out of memory");
    }
    j->out = fopen(j->path, "a+e");
    struct stat st;
    int status = 0;
    if (!j->out)
        status = write_failed(command, j);
    else if (flock(fileno(j->out), LOCK_EX | LOCK_NB) != 0)
        status = cli_error(command, CLI_FAILED, "%s: another sweep is writing it", j->path);
    else if (fresh && ftruncate(fileno(j->out), 0) != 0)
        status = write_failed(command, j);
    else if (fstat(fileno(j->out), &st) == 0 && st.st_size)
        status = read_lines(command, j, heading, plan, r);
    if (!status && fstat(fileno(j->out), &st) == 0 && !st.st_size)
        begin(j, heading, c, plan);
    if (!status && fflush(j->out) != 0)
        status = write_failed(command, j);
    free(heading);
    return status;
}

int sweep_journal_add(const struct cli_command *command, struct sweep_journal *j,
                      const struct sweep_plan *plan, const struct sweep_results *r,
                      uint32_t point) {
    const struct sweep_point *p = &r->point[point];
    if (!j->out || p->error)
        return 0; /* what failed is run again */
    fputs("point", j->out);
    for (int i = 0; i < plan->columns; i++) {
        fputc('\t', j->out);
        put_field(j->out, sweep_value(plan, point, i));
    }
    for (uint32_t i = 0; i < p->cells; i++) {
        fputc('\t', j->out);
        put_field(j->out, r->name[p->cell[i].result]);
        fputc('\t', j->out);
        put_field(j->out, p->cell[i].text);
    }
    fputc('\n', j->out);
    return fflush(j->out) == 0 ? 0 : write_failed(command, j);
}

void sweep_journal_close(struct sweep_journal *j, bool done) {
    if (j->path && done)
        unlink(j->path);
    if (j->out)
        fclose(j->out);
    free(j->path);
    *j = (struct sweep_journal){0};
}
