/* Runs a workload packet by packet on one HPU: the smallest thing that drives workload.h. */
#ifndef OPENSPIN_ON_RIG_H
#define OPENSPIN_ON_RIG_H

#include "workload.h"

struct on_rig_options {
    const char *images; /* folder of the images */
    bool functional;
    enum spin_jit jit;
    uint32_t hpu;
    uint64_t shuffle;   /* 0: packets in order; else a seed of the order of payloads in a message */
    uint64_t leave_out; /* number of a packet that no handler sees, from 1; 0: none. For tests */
    /* Told of each call before it is made, or NULL. */
    void (*before)(void *context, struct spin_rig *rig, const struct spin_call *call);
    void *context;
};

/* What the payload handlers took; least, most and all of them but the first, whose instruction
 * cache is cold. */
struct on_rig_tally {
    uint64_t packets, instructions, cycles;
    uint64_t least_instructions, most_instructions, least_cycles, most_cycles;
    uint64_t warm_instructions, warm_cycles; /* sums without the first packet */
};

/* SPIN_OK when the results are right. A handler that faults is SPIN_EFORMAT. */
int on_rig(struct workload_run *run, const struct on_rig_options *options,
           struct on_rig_tally *tally, struct spin_error *err);

#endif
