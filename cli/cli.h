/* What the subcommands share: tables of commands and options, and the one way to report an error.
 *
 * A subcommand is a `struct cli_command` with a table of options. The parser, --help and the shell
 * completion all read that table, so an option is described in one place. */
#ifndef OPENSPIN_CLI_H
#define OPENSPIN_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "openspin.h"

#define CLI_FAILED      1   /* the work could not be done */
#define CLI_INTERRUPTED 130 /* by SIGINT, as shells count it */
#define CLI_USAGE       2   /* the command line is wrong */

enum cli_kind {
    CLI_FLAG,    /* bool */
    CLI_STRING,  /* const char * */
    CLI_OUTPUT,  /* const char *: a file to write, which cli_parse looks at (outputs.h) */
    CLI_RESULT,  /* const char *: "--json" is "-", standard output; "--json=FILE", or a next word
                  * that ends in ".json", is a file to write */
    CLI_NUMBER,  /* uint64_t within [min, max] */
    CLI_SIZE,    /* uint64_t of bytes with a unit, within [min, max] */
    CLI_LIST,    /* struct cli_list: the option may be repeated */
    CLI_OUTPUTS, /* the same of WHAT=FILE, files to write that cli_parse looks at */
    CLI_PASS,    /* struct cli_list: -DNAME, -D NAME: kept whole, for another program */
};

struct cli_option {
    const char *name; /* without the dashes; NULL ends the table */
    char letter;      /* short form, or 0 */
    enum cli_kind kind;
    const char *arg; /* how the help names the value */
    const char *help;
    size_t offset; /* where in the command's struct of options the value goes */
    uint64_t min, max;
};

struct cli_list {
    const char **items;
    int count;
};

struct cli_command {
    const char *name;
    const char *args;                          /* "IMAGE [options]" */
    const char *summary;                       /* one line for the list of commands */
    const char *about;                         /* a paragraph for --help, or NULL */
    const struct cli_option *options;          /* ended by a row without a name, or NULL */
    const struct cli_command *const *commands; /* subcommands, ended by NULL, or NULL */
    bool reads_nothing;                        /* no word of its command line is a file to read */
    int (*run)(const struct cli_command *command, int argc, char **argv);
    bool launches; /* a program: what follows its name is the program's, whatever it looks like */
};

/* Parses argv (without the command's name) into `into`, a struct that the options' offsets refer
 * to, and gathers the operands. Returns 0, or the exit status after having printed the one line of
 * error. --help and --version are handled before `run` is called. Lists are freed by cli_free. */
int cli_parse(const struct cli_command *command, int argc, char **argv, void *into,
              struct cli_list *operands);
void cli_free(const struct cli_command *command, void *into, struct cli_list *operands);

/* Runs the subcommand that argv[1] names; prints help and errors. */
int cli_dispatch(const struct cli_command *group, int argc, char **argv);

/* "openspin COMMAND: text" on standard error; returns `status`. */
int cli_error(const struct cli_command *command, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same for an error of the library; wrong arguments are usage, anything else a failure. */
int cli_report(const struct cli_command *command, const struct spin_error *err);
/* What ^C prints from now on where nobody else takes it, in one line; NULL: nothing. */
void cli_interrupt_says(const char *line);

/* Whether an option's value stands in the next word (which may be NULL). `word` is the option as it
 * was written. */
bool cli_takes_next(const struct cli_option *option, const char *word, const char *next);

/* --only, --from and --to of traces and pictures. */
struct cli_view {
    const char *only, *from, *to;
};
#define CLI_VIEW_OPTIONS(type, field)                                                              \
    {"only",                                                                                       \
     0,                                                                                            \
     CLI_STRING,                                                                                   \
     "RANKS",                                                                                      \
     "trace and picture: only these ranks (0-3,7)",                                                \
     offsetof(type, field.only),                                                                   \
     0,                                                                                            \
     0},                                                                                           \
        {"from",                                                                                   \
         0,                                                                                        \
         CLI_STRING,                                                                               \
         "TIME",                                                                                   \
         "trace and picture: from then on",                                                        \
         offsetof(type, field.from),                                                               \
         0,                                                                                        \
         0},                                                                                       \
    {                                                                                              \
        "to", 0, CLI_STRING, "TIME", "trace and picture: until then", offsetof(type, field.to), 0, \
            0                                                                                      \
    }
int cli_view(const struct cli_command *command, const struct cli_view *of, struct spin_view *view);

/* Where a CLI_RESULT goes: standard output for "-". `print` writes it. */
int cli_result(const struct cli_command *command, const char *path,
               void (*print)(FILE *out, const void *what), const void *what);

/* Whether one of two results goes to standard output, so that the text does not. */
bool cli_is_printed(const char *json, const char *csv);

/* "1ms,25us": the operating system takes 25 us of every ms. 0, or the status after the error. */
int cli_noise(const struct cli_command *command, const char *text, struct spin_noise *noise);

/* "400Gbit/s" or "12.5" (Gbit/s), in bits per second; "2GHz" or "1500" (MHz), as a period. 0, or
 * the status after the error. */
int cli_rate(const struct cli_command *command, const char *shown, const char *text,
             uint64_t *bits_per_s);
int cli_clock(const struct cli_command *command, const char *shown, const char *text,
              uint64_t *cycle_ps);

/* --jit off, on (also without the option) or force. */
#define CLI_JIT_HELP "off, on (default: compile handlers that are hot) or force (all)"
int cli_jit(const struct cli_command *command, const char *text, enum spin_jit *mode);

/* "goal run" is called as "run" within its group. */
const char *cli_last_word(const struct cli_command *command);

/* The whole tree, for the completion. */
extern const struct cli_command cli_root;

extern const struct cli_command cli_cc, cli_image, cli_exec, cli_budget, cli_completion;

extern const struct cli_command cli_goal, cli_card, cli_experiment, cli_launch, cli_sim, cli_store,
    cli_sweep, cli_top;

#endif
