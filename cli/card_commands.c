/* `openspin card`: the commands on the simulated card. */
#include "cli_card.h"
#include "cli_card_run.h"

static const struct cli_command *const commands[] = {&cli_card_run, &cli_card_area, NULL};

const struct cli_command cli_card = {
    .name = "card",
    .args = "COMMAND ...",
    .summary = "the simulated PsPIN card",
    .about = "The card of the ISCA'21 paper, in virtual time.",
    .commands = commands,
};
