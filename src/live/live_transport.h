/* What carries packets between live cards: shared memory (live_shm.h) and libfabric
 * (live_fabric.h), which are reliable and ordered, or UDP (live_udp.h), which is neither. It is
 * called with its card's lock held, but for `ready`, `sleep` and `ring`, which any thread may call.
 */
#ifndef SPIN_LIVE_LIVE_TRANSPORT_H
#define SPIN_LIVE_LIVE_TRANSPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/nic.h"

/* What a transport tells its card, from inside `poll` and `check`. */
struct live_receiver {
    void *context;
    /* The packet is lent. False: enough for now, the others shall wait for the next poll. */
    bool (*packet)(void *context, struct nic_packet *packet);
    /* A small put that is one packet (nic_put_in); false: it is for `packet`. `enough`: as there.
     */
    bool (*put)(void *context, struct nic_put *put, bool same, uint32_t number, const uint8_t *data,
                bool *enough);
    /* What came is no packet of ours, or not from whom it says; it is thrown away. */
    void (*dropped)(void *context, struct nic_address from, const uint8_t *bytes, uint32_t length,
                    const char *why);
    /* Before its first packet. False: there is no memory for it now. NULL: there always is. */
    bool (*met)(void *context, struct nic_address peer);
    void (*room)(void *context, struct nic_address peer); /* it takes again what it refused */
    void (*lost)(void *context, struct nic_address peer); /* it has ended, or began a new life */
    /* It seems to have ended (nic_peer_refused). NULL: it is all the same. */
    void (*refused)(void *context, struct nic_address peer);
    /* The first that was lent to it; `bad`: its data could not be read. */
    void (*copied)(void *context, struct nic_address peer, bool bad);
    enum nic_rest (*rest)(void *context, const struct nic_packet *packet);
};

/* `place` of a packet whose data is in another process: `fetch` copies it, and nobody else. */
#define LIVE_ELSEWHERE 1u

enum live_sent {
    LIVE_SENT,
    LIVE_LENT,       /* its data is used until `copied` or `lost` */
    LIVE_LATER,      /* not now: `room` or `lost` follows */
    LIVE_NOWHERE,    /* it knows no such address */
    LIVE_UNREADABLE, /* its data is not the program's any more: sent as bad */
};

struct live_transport {
    const struct live_transport_calls *calls;
    uint64_t malformed;      /* packets that were thrown away */
    bool absent;             /* a peer is not there (yet): `check` shall look soon */
    uint64_t strangers;      /* the same, as they had not the job's key */
    uint32_t credit_packets; /* that it can hold until they are polled; 0: nothing is ever lost */
};

struct live_transport_calls {
    void (*close)(struct live_transport *t);
    void (*leave)(struct live_transport *t); /* nobody reaches it any more */
    struct nic_address (*address)(const struct live_transport *t);
    /* Another pid for this process; false: somebody has it. */
    bool (*take_pid)(struct live_transport *t, uint32_t pid);
    /* Does it lose nothing to this peer, in order? NULL: it may lose and reorder. */
    bool (*reliable)(struct live_transport *t, struct nic_address peer);
    enum live_sent (*send)(struct live_transport *t, const struct nic_packet *packet);
    /* The same of what has a short form (wire_short.h), without a packet; false: it is not sent,
     * and for `send`. NULL: all goes so. */
    bool (*send_short)(struct live_transport *t, const struct nic_message *message, uint32_t number,
                       const uint8_t *data);
    /* What was sent leaves now; NULL: it has left. */
    void (*flush)(struct live_transport *t);
    /* How much data a packet to it has best; NULL: the MTU. */
    uint32_t (*packet_bytes)(struct live_transport *t, struct nic_address target);
    /* Packets of more than the MTU may be sent to it. */
    bool (*lends)(struct live_transport *t, struct nic_address target);
    /* nic_driver.in_place; NULL: none. */
    uint32_t (*in_place)(struct live_transport *t, struct nic_address target);
    /* From inside `packet`: of the data of that packet, which is elsewhere. NIC_DONE, NIC_FAULT or
     * NIC_GONE. */
    enum nic_status (*fetch)(struct live_transport *t, uint8_t *to, const uint8_t *from,
                             uint64_t bytes);
    /* From inside `packet`: data of more than the MTU, which was here, is stored there; NULL: it is
     * all the same. */
    void (*stored)(struct live_transport *t, const uint8_t *to);
    /* May there be something to poll? */
    bool (*ready)(struct live_transport *t);
    void (*poll)(struct live_transport *t);
    /* For who looks without pause: is a peer awake that has no other processor than this one, as
     * far as one knows? NULL: nobody knows. */
    bool (*hinders)(struct live_transport *t);
    /* Looks for peers that have ended, and for those that were not there yet. Returns when it wants
     * to look again (CLOCK_MONOTONIC); UINT64_MAX: when something is outstanding, every now and
     * then. */
    uint64_t (*check)(struct live_transport *t, uint64_t now_ns);
    /* Peers ring from now on; false: there is something to poll, and they do not. */
    bool (*arm)(struct live_transport *t);
    void (*disarm)(struct live_transport *t);
    /* Until somebody has rung since `arm`, or `until_ns`. */
    void (*sleep)(struct live_transport *t, uint64_t until_ns);
    void (*ring)(struct live_transport *t);
};

#endif
