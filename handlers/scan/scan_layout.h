/* What client and server of a conditional read share. The client cuts its range into pieces and
 * sends a request for each, all of it in the user header. Matching rows come back as puts to the
 * client's entry SCAN_ROWS, each of whole rows; then one atomic sum to SCAN_DONE per piece. */
#ifndef SCAN_LAYOUT_H
#define SCAN_LAYOUT_H

#include <stdint.h>

/* Match bits: one of these, and the number of the client's read. */
#define SCAN_REQUEST          1ull
#define SCAN_ROWS             2ull
#define SCAN_DONE             3ull
#define SCAN_TABLE            4ull /* for plain gets */
#define SCAN_BITS(kind, read) ((kind) << 56 | (read))

#define SCAN_REFUSED (1ull << 48) /* added to SCAN_DONE instead of a number of rows */

struct scan_request {
    uint64_t read; /* the client's number */
    uint32_t offset, rows;
    uint32_t row_bytes, column;
    uint32_t low, range; /* a column matches if column - low <= range, modulo 2^32 */
};

struct scan_state {
    uint32_t table_bytes;
};

#endif
