#include "card.h"

static const struct cli_command *const card_commands[] = {&cli_card_area, NULL};

const struct cli_command cli_card = {
    .name = "card",
    .args = "COMMAND ...",
    .summary = "the PsPIN card: its area and power",
    .commands = card_commands,
};
