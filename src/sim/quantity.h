/* Times and rates as people write them, into exact integers: no floating point on the way. */
#ifndef SPIN_SIM_QUANTITY_H
#define SPIN_SIM_QUANTITY_H

#include <stdbool.h>
#include <stdint.h>

/* "33.4ns", "1 us", "20ps"; without a unit nanoseconds. False unless it is a whole number of
 * picoseconds below 2^62. */
bool quantity_time(const char *text, uint64_t *ps);

/* "400Gbit/s", "50GB/s", "64GiB/s", "20ps/B", "15.6ps/B" into femtoseconds a byte, rounded to the
 * nearest; without a unit Gbit/s. False when that is 0 or over 10^15 (one byte a second). */
bool quantity_rate(const char *text, uint64_t *fs_per_byte);

/* "0.001" or "1e-3" or "0.1%" into a fraction of 2^32; at most 1. */
bool quantity_probability(const char *text, uint64_t *of_2_32);

/* Picoseconds that `bytes` take at that rate, rounded up: a link is never faster than its rate. */
static inline uint64_t quantity_transfer_ps(uint64_t bytes, uint64_t fs_per_byte) {
    return (bytes * fs_per_byte + 999) / 1000;
}

#endif
