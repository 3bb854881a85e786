/* Numbers as people write them. Each parser takes the whole string or fails. */
#ifndef SPIN_BASE_UNITS_H
#define SPIN_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

/* "4096", "0x1000", with an optional unit of bytes: B, K, KiB, kB, M, MiB, MB, G, GiB, GB. A bare K,
 * M or G is binary, as memory sizes are. */
bool units_size(const char *text, uint64_t *bytes);
/* Decimal or 0x hexadecimal, no unit. */
bool units_u64(const char *text, uint64_t *value);
/* Pairs of hexadecimal digits, blanks, ':' and '_' between pairs allowed. Returns the number of
 * bytes, or -1. `out` may be NULL to count; otherwise it holds `room` bytes. */
long units_hex(const char *text, uint8_t *out, long room);

#endif
