/* The paper's six workloads (B15), on the simulated card and on the machine at hand. Every run's
 * results are checked against the workload's own plain computation. */
#ifndef OPENSPIN_EXPERIMENTS_SIX_H
#define OPENSPIN_EXPERIMENTS_SIX_H

#include "experiment.h"
#include "sim/card.h"
#include "workload.h"

#define SIX            6
#define SIX_MOST_BYTES 4096u
extern const char *const six_names[SIX]; /* as the paper orders them */

/* A run of workload `which` whose packets are `bytes` long, headers included; with one more setting
 * of its, or NULL. */
int six_open(struct workload_run **run, int which, uint32_t bytes, const char *more,
             struct spin_error *err);

struct six_load {
    int which;
    uint32_t bytes;       /* of a packet */
    uint64_t interval_ps; /* between packets; 0: as fast as the card takes them */
    const char *setting;  /* one more of the workload's, or NULL */
};
struct six_result {
    struct card_stats stats;
    /* From the first arrival to the completion that leaves a tenth: a run may end with a long
     * completion handler. Not from the first completion: messages of one packet complete late and
     * then in a row, which would read as a rate that the HPUs do not have. */
    double steady_gbit;
};
int six_on_card(const struct experiment_context *context, const struct six_load *load,
                struct six_result *result, struct spin_error *err);

/* Median time in ns of a payload handler natively, packets preloaded and dealt out to `threads`
 * workers that share the state. */
int six_on_machine(int which, uint32_t bytes, int threads, double *ns, struct spin_error *err);

#endif
