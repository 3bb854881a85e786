/* Files that a command will write, looked at before it does anything. cli_parse does it for every
 * option of the kind CLI_OUTPUT; a command with other outputs calls cli_output itself. */
#ifndef OPENSPIN_CLI_OUTPUTS_H
#define OPENSPIN_CLI_OUTPUTS_H

#include "cli.h"

enum { CLI_MOST_OUTPUTS = 64 };

struct cli_outputs {
    const char *path[CLI_MOST_OUTPUTS];
    char shown[CLI_MOST_OUTPUTS][64];
    int count;
};

/* Adds one, `shown` to the user as that: 0, or the exit status after the one line of error. */
int cli_output(const struct cli_command *command, struct cli_outputs *outputs, int argc,
               char **argv, const char *shown, const char *path);
int cli_check_outputs(const struct cli_command *command, int argc, char **argv, const void *into);

#endif
