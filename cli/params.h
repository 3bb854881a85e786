/* Parameter files: what --parameters prints, read back by --params FILE. */
#ifndef OPENSPIN_CLI_PARAMS_H
#define OPENSPIN_CLI_PARAMS_H

#include "cli.h"

#define CLI_PARAMS_HELP "parameters from a file, as --parameters prints them; --set comes after"

struct params {
    const char *path;
    char *text;              /* that the assignments point into */
    const char **assignment; /* "cycle=1ns" */
    int *line, count;
};

/* `path` may be NULL: no parameters. 0, or the exit status after the error. */
int params_read(const struct cli_command *command, const char *path, struct params *p);
void params_free(struct params *p);
/* Gives each to `set`, which says what is wrong with it; the error names file and line. */
int params_apply(const struct cli_command *command, const struct params *p,
                 int (*set)(void *to, const char *assignment, struct spin_error *err), void *to);

/* "  cycle = 1 ns, clock period (ISCA'21 sec. V)" */
void params_print(const struct spin_parameter *row);

#endif
