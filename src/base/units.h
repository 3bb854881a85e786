/* Numbers as people write them. Each parser takes the whole string or fails. */
#ifndef SPIN_BASE_UNITS_H
#define SPIN_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* "4096", "0x1000", with an optional unit of bytes: B, K, KiB, kB, M, MiB, MB, G, GiB, GB. A bare
 * K, M or G is binary, as memory sizes are. */
bool units_size(const char *text, uint64_t *bytes);
/* Decimal or 0x hexadecimal, no unit. */
bool units_u64(const char *text, uint64_t *value);
/* A time with an optional unit: fs, ps, ns, us, ms, s; a bare number is nanoseconds. Decimals are
 * taken exactly ("6.7ns" is 6700 ps); what is no whole number of picoseconds is refused. */
bool units_time_ps(const char *text, uint64_t *ps);
/* A time per byte, "20ps/B" or "20ps" or a rate "400Gbit/s" (20 ps per byte), in whole
 * femtoseconds: cards go down to 6.7 ps per byte, so picoseconds would not do. A bare number is
 * nanoseconds. A rate that is no whole number of femtoseconds per byte is rounded to the nearest.
 */
bool units_per_byte_fs(const char *text, uint64_t *fs);
/* "400Gbit/s", "64GiB/s", "100Mbit/s", in bits per second. A bare number is Gbit/s. */
bool units_rate(const char *text, uint64_t *bits_per_s);
/* The same as a time per byte. */
bool units_rate_per_byte_fs(const char *text, uint64_t *fs);
/* The period of a clock, "2GHz", "500MHz", in picoseconds, rounded to the nearest. A bare number is
 * MHz. */
bool units_clock_ps(const char *text, uint64_t *ps);
/* A probability, "0.001" or "1e-3" or "0.1%", as a fraction of 2^32, rounded down; at most 1. */
bool units_probability(const char *text, uint64_t *of_2_32);
/* "1,048,576"; 27 bytes hold the largest. */
void units_count(char *text, size_t room, uint64_t value);
/* A number of 1/1000 as a decimal without trailing zeros: 33400 and "ns" give "33.4 ns". */
void units_thousandths(char *text, size_t room, uint64_t value, const char *unit);
/* Pairs of hexadecimal digits, blanks, ':' and '_' between pairs allowed. Returns the number of
 * bytes, or -1. `out` may be NULL to count; otherwise it holds `room` bytes. */
long units_hex(const char *text, uint8_t *out, long room);

#endif
