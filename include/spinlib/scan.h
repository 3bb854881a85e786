/* spinlib/scan.h: conditional reads (SC'17 section 5.4). A client asks for those rows of a table in
 * another rank's memory whose column is in a range; the server's card reads the table, and only
 * rows that match travel. The server's processor takes no part. See handlers/scan/README.md. */
#ifndef SPINLIB_SCAN_H
#define SPINLIB_SCAN_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_scan;

/* All ranks call it, in the same order as other calls that take a portal table entry. `table` of
 * `bytes` (less than 4 GiB) is what others may scan, and stays; NULL: this rank is only a client.
 */
int spin_scan_open(ptl_handle_ni_t ni, const void *table, uint64_t bytes, struct spin_scan **scan);
/* Nobody may be scanning this rank's table any more. */
void spin_scan_close(struct spin_scan *scan);

/* Rows of row_bytes, a multiple of 4 and at most SPIN_SCAN_ROW_BYTES, beginning at `offset`, a
 * multiple of 4. A row matches if low <= column <= high, where the column is the 32-bit word at
 * byte `column` of the row; for signed columns low and high are the signed numbers, converted. If
 * low is above high, rows outside match. */
#define SPIN_SCAN_ROW_BYTES 2048u
struct spin_scan_query {
    uint64_t offset, rows;
    uint32_t row_bytes, column;
    uint32_t low, high;
};

/* Writes the matching rows to `into`, which has room for `room` bytes, in no particular order, and
 * says how many they are. PTL_NO_SPACE: they are more than fit; *matching is their number, and
 * what is in `into` is undefined. PTL_ARG_INVALID: the query, or the server's table is shorter.
 * PTL_FAIL: the server did not answer (it is gone, or has no table). One call at a time per
 * `scan`. */
int spin_scan_read(struct spin_scan *scan, uint32_t server, const struct spin_scan_query *query,
                   void *into, uint64_t room, uint64_t *matching);

/* The same without handlers: gets the whole range and compares here, while the rest arrives. */
int spin_scan_read_all(struct spin_scan *scan, uint32_t server, const struct spin_scan_query *query,
                       void *into, uint64_t room, uint64_t *matching);

#ifdef __cplusplus
}
#endif

#endif
