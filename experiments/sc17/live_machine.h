/* This machine's live cards: running a plan of use cases on them, and measuring what they take, as
 * parameters of a simulated card. */
#ifndef OPENSPIN_EXPERIMENTS_LIVE_MACHINE_H
#define OPENSPIN_EXPERIMENTS_LIVE_MACHINE_H

#include "experiment.h"
#include "p4_live.h"

#define LIVE_SETTINGS 16

struct live_machine {
    char text[LIVE_SETTINGS][40]; /* "o=120ns" */
    const char *set[LIVE_SETTINGS];
    int count;
};

/* In memory that is shared with the ranks; NULL: error. */
struct p4_live_plan *live_plan_new(const struct experiment_context *context, int *fd,
                                   struct spin_error *err);
void live_plan_free(struct p4_live_plan *plan, int fd);
void live_plan_add(struct p4_live_plan *plan, enum p4_live_case use_case, enum p4_variant variant,
                   uint32_t bytes);
/* Runs all that was added to the plan of that memory. Not after threads were made: ranks are
 * forked. */
int live_plan_run(const struct experiment_context *context, int fd, uint32_t ranks,
                  struct spin_error *err);
/* Of a row that has run. */
double live_row_us(const struct p4_live_row *row);

/* From a plan that was run with `calibrates`, and from handlers that are run for it here. */
int live_machine_from(const struct experiment_context *context, const struct p4_live_plan *plan,
                      struct live_machine *machine, struct spin_error *err);

#endif
