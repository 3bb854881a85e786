#include "sc17/microbench.h"

#include "base/error.h"

int microbench(const struct experiment_context *context, microbench_run *run, struct p4_setup setup,
               double *us, struct spin_error *err) {
    if (!context->workloads)
        return spin_fail(err, SPIN_EFILE,
                         "the handler images are not where openspin is installed "
                         "(share/openspin/handlers); install it again");
    struct p4_outcome outcome = {0};
    struct experiment_world world;
    if (!setup.ranks)
        setup.ranks = context->setup.ranks;
    if (setup.ranks % 2)
        return spin_fail(err, SPIN_EARG, "--ranks %u: ranks play in pairs", setup.ranks);
    int code = experiment_world(context, &setup.world, &world, err);
    setup.images = context->workloads;
    setup.world = world.options;
    if (!code)
        code = run(&setup, &outcome, err);
    *us = (double)outcome.time_ps / 1e6;
    return code;
}
