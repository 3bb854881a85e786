/* What the figures of the SC'17 microbenchmarks share: the use cases (handlers/p4.h) as functions
 * of variant, preset and size, and the columns of their tables. */
#ifndef OPENSPIN_EXPERIMENTS_MICROBENCH_H
#define OPENSPIN_EXPERIMENTS_MICROBENCH_H

#include "experiment.h"
#include "p4.h"

typedef int microbench_run(const struct p4_setup *setup, struct p4_outcome *outcome,
                           struct spin_error *err);

/* Microseconds; without ranks in the set-up, of the caller's number. The images are those that are
 * built with openspin. */
int microbench(const struct experiment_context *context, microbench_run *run, struct p4_setup setup,
               double *us, struct spin_error *err);

#endif
