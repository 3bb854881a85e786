/* Programs of ours as ranks on live cards of this machine, and memory that they share with an
 * experiment. */
#ifndef OPENSPIN_EXPERIMENTS_LIVE_RANKS_H
#define OPENSPIN_EXPERIMENTS_LIVE_RANKS_H

#include "experiment.h"

/* Zeroes, in a file without a name that the ranks inherit as *fd; NULL: error. */
void *live_memory_new(const struct experiment_context *context, size_t bytes, int *fd,
                      struct spin_error *err);
void live_memory_free(void *memory, size_t bytes, int fd);
/* `program FD` on every rank, until all have ended. Not after threads were made: ranks are
 * forked. */
int live_ranks(const struct experiment_context *context, const char *program, int fd,
               uint32_t ranks, struct spin_error *err);

#endif
