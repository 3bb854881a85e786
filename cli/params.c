/* Parameter files. A line is "NAME = VALUE, what it is (its source)", as --parameters prints it, of
 * which name and value count; "NAME=VALUE" will do. Lines that begin with # are comments, and those
 * that begin with "model" or "preset" say what the values are of. */
#include "params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

#define LARGEST_FILE (1u << 20)

void params_print(const struct spin_parameter *row) {
    printf("  %s = %s, %s (%s)\n", row->name, row->value, row->what, row->source);
}

static bool is_heading(const char *line) {
    return strncmp(line, "model ", 6) == 0 || strncmp(line, "preset ", 7) == 0;
}

static int read_lines(const struct cli_command *command, struct params *p) {
    int number = 0;
    for (char *line = p->text, *next; *line; line = next) {
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        number++;
        const char *first = line + strspn(line, " \t\r");
        if (!*first || *first == '#' || is_heading(first))
            continue;
        char shown[60];
        snprintf(shown, sizeof shown, "%s", first);
        const char *assignment = text_assignment(line);
        if (!assignment)
            return cli_error(command, CLI_FAILED,
                             "%s:%d: '%s' is not NAME = VALUE, as --parameters prints it", p->path,
                             number, shown);
        p->assignment[p->count] = assignment;
        p->line[p->count++] = number;
    }
    return 0;
}

int params_read(const struct cli_command *command, const char *path, struct params *p) {
    *p = (struct params){.path = path};
    if (!path)
        return 0;
    struct spin_error err;
    uint8_t *data;
    size_t length, lines = 1;
    if (file_read(path, "parameters", LARGEST_FILE, &data, &length, &err))
        return cli_report(command, &err);
    p->text = (char *)data;
    if (strlen(p->text) != length)
        return cli_error(command, CLI_FAILED, "%s: holds a byte 0; this is no parameter file",
                         path);
    for (const char *c = p->text; (c = strchr(c, '\n')) != NULL; c++)
        lines++;
    p->assignment = malloc(lines * sizeof *p->assignment);
    p->line = malloc(lines * sizeof *p->line);
    if (!p->assignment || !p->line)
        return cli_error(command, CLI_FAILED, "out of memory");
    return read_lines(command, p);
}

void params_free(struct params *p) {
    free(p->text);
    free(p->assignment);
    free(p->line);
    *p = (struct params){0};
}

int params_apply(const struct cli_command *command, const struct params *p,
                 int (*set)(void *to, const char *assignment, struct spin_error *err), void *to) {
    struct spin_error err;
    for (int i = 0; i < p->count; i++)
        if (set(to, p->assignment[i], &err))
            return cli_error(command, CLI_FAILED, "%s:%d: %s", p->path, p->line[i], err.text);
    return 0;
}
