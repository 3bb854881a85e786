/* Shared memory between processes of one user on one machine. Each has a box (live_box.h) with a
 * lane per sender. A packet is copied twice: by the sender's card into the lane, and from there to
 * where it goes; what is large and in huge pages once (live_offer.h). A full lane is the sender's
 * flow control. */
#ifndef SPIN_LIVE_LIVE_SHM_H
#define SPIN_LIVE_LIVE_SHM_H

#include "base/guarded_copy.h"
#include "live/live_names.h"
#include "live/live_transport.h"

struct live_shm_options {
    struct live_folder *folder; /* to outlive it */
    uint32_t nid, pid;          /* LIVE_PIDS: any */
    struct nic_pool *pool;
    uint32_t mtu_bytes;
    const enum guarded *guarded; /* how the program's memory is read */
    bool untouched;              /* peers do not copy from and to the program's memory */
    bool crowded;                /* more processes than processors: a sender has no time to help */
    struct live_receiver receiver;
};

int live_shm_new(struct live_transport **out, const struct live_shm_options *options,
                 struct spin_error *err);

#endif
