/* spinlib/raid.h: a distributed RAID (SC'17 section 5.3). Ranks 0 to data - 1 hold data, in
 * stripes, rank `data` the parity, or the parity rotates over all of them; all others are clients.
 * A write is acknowledged when data and parity are updated; the servers' cards do all of it. See
 * handlers/raid/README.md. */
#ifndef SPINLIB_RAID_H
#define SPINLIB_RAID_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_raid;

struct spin_raid_options {
    uint32_t data;         /* servers of data (0: 4); there is one of parity */
    uint64_t server_bytes; /* that each server holds: a multiple of `unit`, less than 2 GiB */
    uint32_t unit;         /* bytes of a stripe on one server, a multiple of 64 (0: 64 KiB) */
    bool rotate;           /* parity on all servers in turn (RAID-5, left-symmetric), not on one */
    bool by_host;          /* processors do everything, not the cards: to compare */
};

/* All ranks call it, in the same order as other calls that take a portal table entry. Servers begin
 * with zeroes. */
int spin_raid_open(ptl_handle_ni_t ni, const struct spin_raid_options *options,
                   struct spin_raid **raid);
/* When no rank has an operation under way. */
void spin_raid_close(struct spin_raid *raid);

/* Addresses are 0 to data * server_bytes; both must be multiples of 8. A write of one byte after
 * the other is not one step for those who read or write the same bytes meanwhile; a piece of it
 * that is in one stripe of one server and in one packet is. PTL_FAIL: a server is gone. */
int spin_raid_write(struct spin_raid *raid, uint64_t address, const void *data, uint64_t bytes);
int spin_raid_read(struct spin_raid *raid, uint64_t address, void *data, uint64_t bytes);

/* `server` has failed, so this client goes without it, until it is SPIN_RAID_ALL again: what it
 * held is read from all others, and written as a change of the parity. All clients call this before
 * one of them writes again. A stripe that has data on that server is then read and written by one
 * client at a time; one that ends in the middle of this keeps it locked. */
#define SPIN_RAID_ALL UINT32_MAX
void spin_raid_avoid(struct spin_raid *raid, uint32_t server);
/* On a server that has lost its data, or missed writes: made again from the others. Nobody may
 * write meanwhile. */
int spin_raid_rebuild(struct spin_raid *raid);
/* What a server holds. */
void *spin_raid_memory(struct spin_raid *raid);

/* The part of a server's processor, if by_host: what has come or comes within so many ms. */
int spin_raid_work(struct spin_raid *raid, ptl_time_t timeout_ms);

#ifdef __cplusplus
}
#endif

#endif
