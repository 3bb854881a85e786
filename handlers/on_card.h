/* Runs a workload on the whole simulated card, through openspin.h alone. */
#ifndef OPENSPIN_ON_CARD_H
#define OPENSPIN_ON_CARD_H

#include "workload.h"

struct on_card_options {
    const char *images;      /* folder of the images */
    const char *settings[4]; /* of the card: "clusters=1", "quantum=1"; NULL ends them */
    /* 0: packets arrive in order. Else a seed: messages interleave and their payloads arrive in any
     * order, between their first packet and their last. */
    uint64_t order;
    uint64_t interval_ps; /* from packet to packet */
};

struct on_card_outcome {
    uint64_t packets, hpus;
    uint64_t digest; /* of all memories, of what was sent, and of the times of it all */
};

/* SPIN_OK when the results are right. A handler that faults is SPIN_EFORMAT. */
int on_card(struct workload_run *run, const struct on_card_options *options,
            struct on_card_outcome *outcome, struct spin_error *err);

#endif
