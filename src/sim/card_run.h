/* The card of openspin.h: a simulated card on an engine of its own, with its rules, the host memory
 * of its contexts, and what its traffic was. card_api.c sets it up and reports, card_run.c runs. */
#ifndef SPIN_SIM_CARD_RUN_H
#define SPIN_SIM_CARD_RUN_H

#include "nic/match.h"
#include "sim/card.h"

struct spin_card {
    struct card_config config;
    struct sim_engine *engine;
    struct card *card; /* made with the first context */
    struct card_context *context;
    uint32_t contexts;
    struct nic_match *match;
    bool stopped; /* by an error */
    /* Of all runs: the traffic's part of the result, and the match table's counts. */
    struct spin_card_result so_far;
    uint64_t by_rule[NIC_MATCH_RULES], malformed[HEADERS_FAULT_COUNT]; /* [HEADERS_NONE] is 0 */
};

#endif
