/* Shared memory and another transport on one card: a peer with our own node id is reached through
 * shared memory, all others by UDP, or by libfabric where the job wants that. Both sides see the
 * same two node ids, so they agree without a word.
 *
 * While only shared memory is used nobody asks the system about the socket but a thread that sleeps
 * in poll. Once UDP is used whoever drives the card looks at the socket itself, and the thread
 * watches it for who sleeps: it rings the bell of shared memory. */
#ifndef SPIN_LIVE_LIVE_AUTO_H
#define SPIN_LIVE_LIVE_AUTO_H

#include "live/live_fabric.h"
#include "live/live_shm.h"
#include "live/live_udp.h"

/* How other nodes are reached. */
struct live_far {
    const struct live_udp_options *udp;
    const struct live_fabric_options *fabric; /* not NULL: instead */
};

/* The node id is the interface's; without one, that of `shm`. Where there is no interface or no
 * socket to be had, and none was asked for by name, it is shared memory alone: peers elsewhere are
 * not reached. */
int live_auto_new(struct live_transport **out, const struct live_shm_options *shm,
                  const struct live_far *far, struct spin_error *err);

#endif
