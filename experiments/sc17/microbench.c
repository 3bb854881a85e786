#include "sc17/microbench.h"

#include "base/error.h"

int microbench(const struct experiment_context *context, microbench_run *run,
               enum p4_variant variant, const char *preset, uint32_t ranks, uint32_t bytes,
               double *us, struct spin_error *err) {
    if (!context->workloads)
        return spin_fail(err, SPIN_EFILE,
                         "the handler images are not where openspin is installed "
                         "(share/openspin/handlers); install it again");
    const struct p4_setup setup = {.variant = variant,
                                   .ranks = ranks,
                                   .bytes = bytes,
                                   .images = context->workloads,
                                   .world = {.preset = preset}};
    struct p4_outcome outcome;
    int code = run(&setup, &outcome, err);
    *us = (double)outcome.time_ps / 1e6;
    return code;
}
