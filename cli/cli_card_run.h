/* What the parts of `openspin card run` share. */
#ifndef OPENSPIN_CLI_CARD_RUN_H
#define OPENSPIN_CLI_CARD_RUN_H

#include "cli.h"

extern const struct cli_command cli_card_run;

/* An execution context as the command line gives it, with what must live as long as the card. */
struct run_context {
    struct spin_image *image;
    char *spec; /* the words that names point into */
    struct spin_card_context made;
    struct profile *profile;   /* NULL unless one was asked for */
    uint64_t profiled_cycles;  /* that the profile shares out */
    uint64_t contended_cycles; /* of them, lost between instructions */
};

struct run_report {
    const struct spin_card *card;
    const struct spin_card_result *result;
    const struct run_context *context;
    uint32_t contexts;
    const char *preset;
    const char *const *traffic; /* specs, ended by NULL */
};

/* cli/card_report.c */
void card_print_text(const struct run_report *report);
void card_print_json(FILE *out, const void *report);
void card_print_csv(FILE *out, const void *report);

#endif
