/* What the figures of the SC'17 microbenchmarks share: the use cases (handlers/p4.h) as functions
 * of variant, preset and size, and the columns of their tables. */
#ifndef OPENSPIN_EXPERIMENTS_MICROBENCH_H
#define OPENSPIN_EXPERIMENTS_MICROBENCH_H

#include "experiment.h"
#include "p4.h"

typedef int microbench_run(const struct p4_setup *setup, struct p4_outcome *outcome,
                           struct spin_error *err);

/* Microseconds. The images are those that are built with openspin. */
int microbench(const struct experiment_context *context, microbench_run *run, struct p4_setup setup,
               double *us, struct spin_error *err);

/* Of rows 4 B, 8 B, ...: how many there are with the caller's set-up, and which sizes. */
static inline int microbench_rows(const struct experiment_context *context, int published) {
    return context->setup.bytes ? 1 : published;
}
static inline uint32_t microbench_size(const struct experiment_context *context,
                                       uint32_t published) {
    return context->setup.bytes ? (uint32_t)context->setup.bytes : published;
}

#endif
