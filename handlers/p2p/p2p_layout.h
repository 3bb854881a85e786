/* What senders, receivers and cards of the message layer share. A message is a put: its match bits
 * say context and tag, its header data how long it is and by which name its sender offers it. A
 * message longer than the eager limit brings its first bytes only; its receiver gets the rest. */
#ifndef P2P_LAYOUT_H
#define P2P_LAYOUT_H

#include <stdint.h>

/* Match bits: | offered: 1 | sequence: 15 | context: 16 | tag: 32 |. The sequence number counts the
 * messages from one rank to another, for processors that match; no entry looks at it. */
#define P2P_OFFERED            (1ull << 63) /* what a sender offers to be fetched */
#define P2P_SEQUENCE_BITS      15
#define P2P_SEQUENCE_AT        48
#define P2P_SEQUENCE_MASK      ((1u << P2P_SEQUENCE_BITS) - 1)
#define P2P_BITS(context, tag) ((uint64_t)(uint16_t)(context) << 32 | (uint32_t)(tag))
#define P2P_IGNORED            ((uint64_t)P2P_SEQUENCE_MASK << P2P_SEQUENCE_AT)
#define P2P_OFFER(name)        (P2P_OFFERED | (uint32_t)(name))

/* Header data. */
#define P2P_HEADER(name, bytes) ((uint64_t)(name) << 32 | (uint32_t)(bytes))
#define P2P_NAME(header)        ((uint32_t)((header) >> 32))
#define P2P_SIZE(header)        ((uint32_t)(header))

/* On the card, per receive that may meet a large message. */
struct p2p_receive {
    uint32_t room;        /* bytes that it has place for */
    uint32_t request;     /* its number, for the event of the get */
    uint32_t eager_bytes; /* messages up to here are whole */
    uint32_t reserved;
};

#endif
