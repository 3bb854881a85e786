/* libfabric between processes: reliable datagrams of whatever provider there is (tcp, shm, verbs,
 * efa, ...). A process has an endpoint (live_fabric_port.h), whose address stands in the job's book
 * (live_book.h).
 *
 * A frame is the job's key (16 bytes), the life of the sender (8), its nid and pid, how many frames
 * of the receiver's it has taken so far, what it is (a packet as wire.h writes it, or nothing but
 * that count), and the term: how often these two have begun anew. Who gives a peer up that may live
 * counts the term up and says so; the peer then gives up what it has to do with us as well, and
 * frames of earlier terms are dropped. A sender has at most so many packets on the way to a peer
 * (credits), so that a slow receiver slows its senders, and memory is bounded. The provider loses
 * nothing, in order; what it says about peers that have ended, it says late or never: on our own
 * machine we look. */
#ifndef SPIN_LIVE_LIVE_FABRIC_H
#define SPIN_LIVE_LIVE_FABRIC_H

#include "base/guarded_copy.h"
#include "live/live_book.h"
#include "live/live_transport.h"

struct live_fabric_options {
    struct live_book book;
    const char *provider, *interface; /* live_fabric_port.h */
    uint32_t nid, pid;                /* LIVE_PIDS: any */
    struct nic_pool *pool;
    uint32_t mtu_bytes;
    const enum guarded *guarded; /* how the program's memory is read */
    struct live_receiver receiver;
};

/* Of data in a packet, at most. */
uint32_t live_fabric_mtu(const struct live_transport *t);

int live_fabric_new(struct live_transport **out, const struct live_fabric_options *options,
                    struct spin_error *err);

#endif
