/* What the operating system takes from a host's processors: detours of a given length that begin
 * every so often, or as recorded on a real machine. While a detour lasts, work on any cpu of the
 * rank stands still. */
#ifndef SPIN_SIM_NOISE_H
#define SPIN_SIM_NOISE_H

#include <stdint.h>

#include "openspin.h"

struct noise;

/* NULL with SPIN_OK when the options ask for none. */
int noise_new(const struct spin_noise *options, struct noise **noise, struct spin_error *err);
void noise_free(struct noise *noise);

/* By how much later `busy_ps` of work that begins at `start_ps` ends because of detours. */
uint64_t noise_delay(const struct noise *noise, uint32_t rank, uint64_t start_ps, uint64_t busy_ps);

#endif
