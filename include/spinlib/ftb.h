/* spinlib/ftb.h: fault-tolerant broadcast (SC'17 section 5.4). Every rank forwards what comes first
 * to log2 P others, on a binomial graph; so the data reaches every rank that lives, once, as long
 * as fewer than log2 P have failed, and nobody has to find out who has. Redundant copies end on the
 * card. See handlers/ftb/README.md. */
#ifndef SPINLIB_FTB_H
#define SPINLIB_FTB_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_ftb;

struct spin_ftb_options {
    uint64_t most_bytes; /* of a broadcast */
    uint32_t ahead;      /* broadcasts that may reach a rank before it has asked for the first of
                          * them (0: 8). What comes even earlier is lost. */
    bool by_host;        /* the processors forward, not the cards: to compare */
    uint32_t stop_after; /* for tests: this rank fails after it has forwarded so many packets, less
                          * one; 0: it does not */
};

/* All ranks call it, in the same order as other calls that take a portal table entry. */
int spin_ftb_open(ptl_handle_ni_t ni, const struct spin_ftb_options *options,
                  struct spin_ftb **ftb);
void spin_ftb_close(struct spin_ftb *ftb);

/* The next broadcast. For each, one rank sends and all others receive; that rank may be another one
 * each time, and the program knows which. spin_ftb_send returns when the data may be changed. */
int spin_ftb_send(struct spin_ftb *ftb, const void *data, uint64_t bytes);
/* *data is the library's, until the next call. PTL_CT_NONE_REACHED: nothing has come within so many
 * milliseconds (PTL_TIME_FOREVER: no limit); call again, or give the sender up. */
int spin_ftb_receive(struct spin_ftb *ftb, ptl_time_t timeout_ms, const void **data,
                     uint64_t *bytes);
/* How many copies this rank's processor has seen: one per packet if the card drops the others. */
uint64_t spin_ftb_copies(const struct spin_ftb *ftb);

#ifdef __cplusplus
}
#endif

#endif
