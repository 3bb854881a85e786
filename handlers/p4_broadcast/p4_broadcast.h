/* The state that host and handlers of the broadcast share. */
#ifndef P4_BROADCAST_H
#define P4_BROADCAST_H

#include <stdint.h>

/* Match bits: a whole message, and a packet that was forwarded by itself. Each packet has an entry
 * of its own, so handlers of packets that overtake each other do not share what they know. */
#define P4_WHOLE     0
#define P4_PACKET(k) (1 + (k))

struct p4_broadcast {
    uint32_t my_rank, ranks; /* a power of two */
    uint32_t most_streamed;  /* longer messages are forwarded from host memory, whole */
    uint32_t packet_bytes;
    uint32_t offset; /* of this entry in the buffer */
    uint32_t length, streams;
};

#endif
