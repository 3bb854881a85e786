/* What the parts of `openspin card run` share. */
#ifndef OPENSPIN_CLI_CARD_RUN_H
#define OPENSPIN_CLI_CARD_RUN_H

#include "cli.h"
#include "sim/card_run.h"

extern const struct cli_command cli_card_run;

/* An execution context as the command line gives it, with what must live as long as the card. */
struct run_context {
    struct spin_image *image;
    char *spec; /* the words that names point into */
    const struct spin_function *entry[3];
    uint8_t *host, *handler_host;
    struct profile *profile;  /* NULL unless one was asked for */
    uint64_t profiled_cycles; /* that the profile shares out */
};

struct run_report {
    const struct card_run_options *options;
    const struct card_run_result *result;
    const struct run_context *context;
    const char *preset, *match;
};

/* cli/card_report.c */
void card_print_parameters(const struct card_config *config);
void card_print_text(const struct run_report *report);
void card_print_json(const struct run_report *report);
void card_print_csv(const struct run_report *report);

#endif
