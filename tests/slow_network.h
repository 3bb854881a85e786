/* A second, plain implementation of the packet network: every credit and every free wire is an
 * event, the next event is found by looking at all. One virtual channel. */
#ifndef TESTS_SLOW_NETWORK_H
#define TESTS_SLOW_NETWORK_H

#include "sim/network.h"

struct slow_packet {
    uint32_t src, dst, bytes;
    uint64_t at_ps;
    uint64_t delivered_ps; /* out */
};

/* Sends every packet and fills in when it is delivered. False when two packets came to a port at
 * the same picosecond, so that another order would be as good. */
bool slow_network(const struct topology *topology, const struct net_config *config,
                  struct slow_packet *packets, uint32_t count);

#endif
