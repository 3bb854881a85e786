/* UDP between processes on any machines. A process has one socket: its node id is the IPv4 address
 * of an interface, its port a base and its pid, so that nid and pid are all one has to know.
 *
 * A datagram is the job's key (16 bytes), a checksum of what follows (8 bytes), and a packet as
 * wire.h writes it. Of several packets that are joined, from a process of the same machine, the
 * checksum has the header alone. The key is looked at before anything else, in constant time. UDP
 * loses, doubles and reorders: reliable delivery is the card's (nic/delivery.h). Nothing waits in
 * here but one batch per direction, so memory is bounded whatever arrives; what the system does not
 * take is lost. */
#ifndef SPIN_LIVE_LIVE_UDP_H
#define SPIN_LIVE_LIVE_UDP_H

#include "base/guarded_copy.h"
#include "live/live_names.h"
#include "live/live_transport.h"

#define LIVE_UDP_PORT       25600 /* of pid 0 */
#define LIVE_UDP_BUFFER     (4u << 20)
#define LIVE_UDP_HEAD_BYTES (LIVE_KEY_BYTES + 8)

struct live_udp_options {
    const uint8_t *key;    /* LIVE_KEY_BYTES, to outlive it */
    const char *interface; /* name or IPv4 address; NULL: the first that is up, best no loopback */
    const char *faults;    /* live_faults.h; NULL: none */
    uint32_t port;         /* of pid 0; 0: LIVE_UDP_PORT */
    uint32_t pid;          /* LIVE_PIDS: any */
    bool auth;             /* with live_auth.h; else the key is in each datagram */
    uint32_t buffer_bytes; /* 0: LIVE_UDP_BUFFER; the system may give less */
    struct nic_pool *pool;
    const enum guarded *guarded; /* how the program's memory is read */
    uint32_t mtu_bytes;          /* of data in a packet, at most */
    struct live_receiver receiver;
};

int live_udp_new(struct live_transport **out, const struct live_udp_options *options,
                 struct spin_error *err);

/* The node id that it would have; 0: there is no such interface, as `err` (or NULL) says. */
uint32_t live_udp_nid(const struct live_udp_options *options, struct spin_error *err);

/* How much data in a packet makes a datagram that the interface sends whole. */
uint32_t live_udp_mtu(const struct live_transport *t);

#endif
