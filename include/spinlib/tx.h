/* spinlib/tx.h: transactions on an array of records that is distributed over the ranks (SC'17
 * section 5.4). Reads are plain RDMA; the owner's card sees their headers and logs which records a
 * transaction has read, in which version, and checks the log when the transaction commits.
 * Committed transactions are strictly serialisable. See handlers/tx/README.md. */
#ifndef SPINLIB_TX_H
#define SPINLIB_TX_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_tx;

#define SPIN_TX_READS 64u /* of a transaction, from one owner */

struct spin_tx_options {
    uint32_t records;      /* of the whole array; record r belongs to rank r % owners */
    uint32_t record_bytes; /* a power of two from 4 to 1,024 (0: 64) */
    uint32_t owners;       /* ranks 0 to owners - 1; 0: all */
    bool by_host;          /* processors validate and install, not the cards: to compare */
    bool planted_bug; /* for tests: records that were read may change while others are locked */
};

/* All ranks call it, in the same order as other calls that take a portal table entry, and then
 * meet. Records are zero. PTL_NO_SPACE: the card has no memory for locks and logs (8 bytes per
 * record of this owner, 520 per rank). */
int spin_tx_open(ptl_handle_ni_t ni, const struct spin_tx_options *options, struct spin_tx **tx);
/* When no rank has a transaction under way. */
void spin_tx_close(struct spin_tx *tx);

/* One transaction at a time per `tx`. What was begun and not committed is forgotten: nothing is
 * locked before the commit. */
int spin_tx_begin(struct spin_tx *tx);
/* What this transaction has written itself, or what the record has now. A transaction that reads
 * while others commit may see records that do not fit together; its commit will say no.
 * PTL_NO_SPACE: more than SPIN_TX_READS from one owner. PTL_FAIL: the owner is gone. */
int spin_tx_read(struct spin_tx *tx, uint32_t record, void *data);
/* Kept by this rank until the commit. PTL_NO_SPACE: more for one owner than a packet holds. */
int spin_tx_write(struct spin_tx *tx, uint32_t record, const void *data);
/* *committed false: another transaction was in the way, and nothing has changed; begin again.
 * PTL_FAIL: an owner is gone; what others have is as if this one had not been asked (but see the
 * README about an owner that goes between the two phases). */
int spin_tx_commit(struct spin_tx *tx, bool *committed);

/* The part of an owner's processor if it takes part (by_host): what has come, or comes within so
 * many milliseconds. The calls above do it as well while they wait. */
int spin_tx_work(struct spin_tx *tx, ptl_time_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
