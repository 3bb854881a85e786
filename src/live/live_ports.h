/* UDP ports for a job of `openspin launch`, so that jobs of one machine need not know of each
 * other. Ports are taken in blocks; a job holds a socket per block, its guard, as long as it runs,
 * so no other job takes the same block, whoever's it is. */
#ifndef SPIN_LIVE_LIVE_PORTS_H
#define SPIN_LIVE_LIVE_PORTS_H

#include "live/live_names.h"

#define LIVE_PORT_BLOCK  64u
#define LIVE_PORT_BLOCKS 96u
/* Behind those of processes that are started by hand (LIVE_UDP_PORT + pid). */
#define LIVE_PORT_FIRST (25600u + LIVE_PIDS)
#define LIVE_PORT_GUARD (25600u - LIVE_PORT_BLOCKS)

struct live_ports {
    uint32_t port;   /* of rank 0; the others follow */
    uint32_t guards; /* sockets */
    int guard[LIVE_PIDS / LIVE_PORT_BLOCK];
};

int live_ports_take(struct live_ports *ports, uint32_t ranks, struct spin_error *err);
void live_ports_give(struct live_ports *ports);

#endif
