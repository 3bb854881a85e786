/* The LogGOPS rules a second time, written to be obviously right and nothing else: lists that are
 * scanned, every event put back at every step, signed 128-bit times. For comparison with src/sim.
 */
#ifndef TESTS_SLOW_LOGGOPS_H
#define TESTS_SLOW_LOGGOPS_H

#include <stdint.h>

#include "sim/goal.h"

/* finish[ranks] in picoseconds, and all the time that events went back for. Returns how many
 * operations are not done at the end. */
uint32_t slow_loggops(const struct spin_goal *goal, const struct spin_loggops *p, uint64_t *finish,
                      uint64_t *queue_ps);

#endif
