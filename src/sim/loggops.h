/* Replays a GOAL schedule under the LogGOPS model, or on a network that a transport stands for. */
#ifndef SPIN_SIM_LOGGOPS_H
#define SPIN_SIM_LOGGOPS_H

#include "sim/engine.h"
#include "sim/goal.h"
#include "sim/goal_path.h"
#include "sim/noise.h"
#include "sim/timeline.h"
#include "base/trace.h"
#include "sim/transport.h"

struct loggops_setup {
    struct sim_engine *engine;
    const struct spin_goal *goal;
    struct spin_loggops parameters;
    const struct sim_transport *transport; /* NULL: latency L */
    const struct noise *noise;             /* or NULL */
    struct trace *trace;                   /* or NULL */
    struct timeline *timeline;             /* for a picture, or NULL */
    const struct timeline_view *view;      /* of these two; NULL when there is neither */
    bool path;                             /* keep what the critical path is made of */
};

/* Checks that the schedule can be run at all and puts the first operations into the queue. */
int loggops_new(const struct loggops_setup *setup, struct loggops **replay, struct spin_error *err);
void loggops_free(struct loggops *l);

struct loggops_counts {
    uint64_t events, done, messages, bytes, noise_ps, queue_ps, unreceived, memory_bytes;
};
struct loggops_counts loggops_counts(const struct loggops *l);
bool loggops_stopped(const struct loggops *l); /* it cannot go on: see the verdict */
uint64_t loggops_finish_ps(const struct loggops *l, uint32_t rank);

/* The critical path, when it was kept; freed by the caller. */
int loggops_path(const struct loggops *l, struct spin_goal_step **steps, uint32_t *count,
                 struct spin_error *err);
/* It, in the trace and the picture. */
void loggops_mark(const struct loggops *l, const struct spin_goal_step *steps, uint32_t count);
/* The rows of a rank in a picture. */
struct timeline_rows loggops_rows(const struct loggops *l);

/* After the engine has run dry: SPIN_OK if everything was done; SPIN_EDEADLOCK with the ranks and
 * operations that wait; or what stopped the replay (memory, time). */
int loggops_verdict(const struct loggops *l, struct spin_error *err);

#endif
