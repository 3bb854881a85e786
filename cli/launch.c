/* `openspin launch`: a program's ranks on live cards of this machine. */
#include "cli.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct options {
    uint64_t ranks;
    bool label, keep;
};

#define AT(member) offsetof(struct options, member)
static const struct cli_option table[] = {
    {"ranks", 'n', CLI_NUMBER, "N", "number of ranks, each runs the program (1)", AT(ranks), 1,
     SPIN_LAUNCH_RANKS},
    {"label", 'l', CLI_FLAG, NULL, "begin each line that a rank prints with its number", AT(label),
     0, 0},
    {"keep-going", 'k', CLI_FLAG, NULL, "a rank that fails does not end the others", AT(keep), 0,
     0},
    {0},
};
#undef AT

static int tell(const struct cli_command *command, const struct options *o, const char *program,
                const struct spin_launch_result *r) {
    if (r->passed_on)
        return 128 + r->passed_on;
    if (!r->failed)
        return 0;
    if (r->signal)
        cli_error(command, CLI_FAILED, "%s: rank %u of %u was ended by signal %d (%s)", program,
                  r->first_failed, (unsigned)o->ranks, r->signal, strsignal(r->signal));
    else
        cli_error(command, CLI_FAILED, "%s: rank %u of %u ended with status %d", program,
                  r->first_failed, (unsigned)o->ranks, r->status);
    return r->status;
}

static int run(const struct cli_command *command, int argc, char **argv) {
    struct options o = {.ranks = 1};
    struct cli_list words;
    struct spin_launch_result result;
    struct spin_error err;
    int status = cli_parse(command, argc, argv, &o, &words);
    if (!status && words.count == 0)
        status = cli_error(command, CLI_USAGE, "which program? usage: openspin %s %s",
                           command->name, command->args);
    char **program = status ? NULL : calloc((size_t)words.count + 1, sizeof *program);
    if (!status && !program)
        status = cli_error(command, CLI_FAILED, "out of memory");
    for (int i = 0; !status && i < words.count; i++)
        program[i] = (char *)(uintptr_t)words.items[i];
    const struct spin_launch_options options = {
        .ranks = (uint32_t)o.ranks, .label = o.label, .keep = o.keep};
    if (!status && spin_launch(&options, program, &result, &err))
        status = cli_report(command, &err);
    else if (!status)
        status = tell(command, &o, program[0], &result);
    free(program);
    cli_free(command, &o, &words);
    return status;
}

const struct cli_command cli_launch = {
    .name = "launch",
    .args = "[options] PROGRAM [ARGUMENT...]",
    .summary = "run a Portals program on live cards of this machine",
    .about = "Starts the program once per rank. The ranks find each other through shared memory;\n"
             "spin_rank, spin_ranks and spin_barrier work, and so does PMI-1. Whatever follows\n"
             "the program is the program's. When a rank fails, the others are ended, and its\n"
             "status is that of the command; 128 and the signal's number if a signal ended it.",
    .options = table,
    .run = run,
    .launches = true,
};
