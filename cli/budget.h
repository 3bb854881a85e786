/* What `openspin budget` asks a simulated card. */
#ifndef OPENSPIN_CLI_BUDGET_H
#define OPENSPIN_CLI_BUDGET_H

#include "invoke.h"

/* What the command line says of the card; 0: nothing. */
struct budget_card {
    struct params params;
    const struct cli_list *set;
    uint64_t rate_bits, cycle_ps, hpus;
};

/* The load, and the card it is put on. */
struct budget_load {
    struct budget_card card;
    uint64_t bytes, packets;
    uint64_t rate_bits, gap_ps; /* of the line; least time between two packets */
    uint64_t cycle_ps, hpus, runtime_cycles;
    struct progress *progress;
};
double budget_interval_ns(const struct budget_load *load);

/* What may be the narrowest: the HPUs together, the clusters' DMA engines together, each unit. */
#define BUDGET_UNITS (SPIN_CARD_UNIT_COUNT + 2)
struct budget_unit {
    const char *name;
    double ns;   /* that a packet takes of it, unloaded; of many alike, divided by their number */
    double used; /* of its time at the load, 1: all */
};

struct budget_trial {
    struct budget_unit unit[BUDGET_UNITS]; /* the narrowest first */
    double hpu_ns;     /* that a packet holds an HPU, unloaded: waits for commands included */
    double gbit;       /* that the card moves at the load */
    double latency_ns; /* p99 at the load */
    const char *waits; /* the part of the latency that grew most under the load */
    double waits_ns;   /* by so much in the mean */
    uint64_t held_ps;  /* that the source was held */
    uint64_t packets;
};

/* A card as it was said to be. 0, or the exit status. */
int budget_make_card(const struct cli_command *command, const struct budget_card *of,
                     struct spin_card **card);
/* Runs the invocation's handler on a card, unloaded and at the load. 0, or the exit status. */
int budget_try(const struct cli_command *command, const struct budget_load *load,
               const struct invoke_options *o, const struct invocation *inv,
               struct budget_trial *trial);

#endif
