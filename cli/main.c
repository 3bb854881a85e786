#include "cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static const struct cli_command *const commands[] = {
    &cli_cc,   &cli_image, &cli_exec,       &cli_budget,     &cli_goal,
    &cli_card, &cli_sim,   &cli_experiment, &cli_completion, NULL};

const struct cli_command cli_root = {
    .name = "openspin",
    .args = "COMMAND ...",
    .summary = "sPIN: handlers that a network card runs on packets",
    .commands = commands,
};

int main(int argc, char **argv) {
    int status = cli_dispatch(&cli_root, argc, argv);
    /* A full disk or a closed pipe must not look like success. */
    if (fflush(stdout) != 0 || ferror(stdout)) {
        if (errno != EPIPE)
            fprintf(stderr, "openspin: cannot write the output: %s\n", strerror(errno));
        return status ? status : CLI_FAILED;
    }
    return status;
}
