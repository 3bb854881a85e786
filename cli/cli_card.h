/* Options that say what the card has, shared by the commands that load an image. */
#ifndef OPENSPIN_CLI_CARD_H
#define OPENSPIN_CLI_CARD_H

#include "cli.h"
#include "params.h"
#include "progress.h"

struct card_options {
    uint64_t program_bytes, handler_bytes, hpus;
    bool with_float;
};

/* Rows for an option table; `field` is the struct card_options within `type`. */
#define CARD_OPTIONS(type, field)                                                                  \
    {"program-memory",                                                                             \
     0,                                                                                            \
     CLI_SIZE,                                                                                     \
     "SIZE",                                                                                       \
     "the card's program memory (default 32KiB)",                                                  \
     offsetof(type, field.program_bytes),                                                          \
     2,                                                                                            \
     4 << 20},                                                                                     \
        {"handler-memory",                                                                         \
         0,                                                                                        \
         CLI_SIZE,                                                                                 \
         "SIZE",                                                                                   \
         "the card's L2 handler memory (default 4MiB)",                                            \
         offsetof(type, field.handler_bytes),                                                      \
         64,                                                                                       \
         4 << 20},                                                                                 \
        {"hpus",                                                                                   \
         0,                                                                                        \
         CLI_NUMBER,                                                                               \
         "N",                                                                                      \
         "how many HPUs the card has (default 32)",                                                \
         offsetof(type, field.hpus),                                                               \
         1,                                                                                        \
         4096},                                                                                    \
    {                                                                                              \
        "float", 0, CLI_FLAG, NULL, "the card has F", offsetof(type, field.with_float), 0, 0       \
    }

extern const struct cli_command cli_card_area;

struct spin_limits card_limits(const struct card_options *card);

/* Loads the one operand as an image. 0, or the exit status after the line of error. */
int card_load_image(const struct cli_command *command, const struct card_options *card,
                    const struct cli_list *operands, struct spin_image **image);

/* Parameters of a card by what people call them: the HPUs in clusters of up to 8, the clock's
 * period, a network that is at least as fast. */
int card_set_hpus(struct spin_card *card, uint64_t hpus, struct spin_error *err);
int card_set_cycle(struct spin_card *card, uint64_t cycle_ps, struct spin_error *err);
int card_set_rate(struct spin_card *card, uint64_t bits_per_s, struct spin_error *err);

/* Parameters from a file. 0, or the exit status. */
int card_apply_params(const struct cli_command *command, const struct params *params,
                      struct spin_card *card);
void card_print_parameters(const struct spin_card *card);

void card_show_progress(struct progress *p, enum spin_card_stage stage, uint64_t done, uint64_t of);

const char *card_kind_name(enum spin_handler_kind kind);

#endif
