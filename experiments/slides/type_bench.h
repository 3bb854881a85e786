/* What the experiments with datatypes share: a layout that is received. */
#ifndef OPENSPIN_EXPERIMENTS_TYPE_BENCH_H
#define OPENSPIN_EXPERIMENTS_TYPE_BENCH_H

#include "experiment.h"
#include "spinlib/datatype.h"

/* Packed data goes from each even rank to the next odd one, which receives it into the layout; all
 * bytes are checked. */
struct type_bench {
    const struct spin_layout *layout;
    struct spin_type_options options;
    uint32_t ranks; /* 0: two */

    /* Results. */
    bool refused;      /* there is not as much card memory: nothing was sent, and time_ps is 0 */
    uint64_t time_ps;  /* from the call that sends until the receiver knows that all is in place, of
                        * the slowest pair */
    uint64_t setup_ps; /* to open the receive */
    struct spin_world_counts counts;
};
int type_bench(const struct experiment_context *context, const struct spin_world_options *base,
               struct type_bench *bench, struct spin_error *err);

/* blocks x block bytes with a stride, as a layout; its bytes are those of whole blocks. */
int type_bench_vector(uint64_t blocks, uint64_t block, uint64_t stride, struct spin_layout **layout,
                      struct spin_error *err);

#endif
