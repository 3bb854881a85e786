/* Traces and profiles of one invocation. */
#ifndef OPENSPIN_CLI_PROFILE_H
#define OPENSPIN_CLI_PROFILE_H

#include "openspin.h"

struct profile;

struct profile *profile_new(const struct spin_image *image); /* NULL: out of memory */
void profile_free(struct profile *p);

/* For spin_rig_trace: count each instruction; or print it as well. */
void profile_count(void *profile, const struct spin_step *step);
void profile_trace(void *profile, const struct spin_step *step);

/* Cycles of an instruction beside its own: it waited. */
void profile_wait(struct profile *p, uint32_t pc, uint64_t cycles);

/* The file without its folder. */
const char *profile_base_name(const char *path);

/* Source lines, hottest first, each with its instructions. */
void profile_print(const struct profile *p, const struct spin_outcome *outcome);

#endif
