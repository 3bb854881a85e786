/* What the host side and the handlers of datatypes share.
 *
 * Packed data comes in one of two shapes, to an entry each: as one message, whose packets carry
 * their offset, or in pieces, as cards send them: messages of one packet that begin with a head.
 * Card memory of a receive is a datatype_state, then words: the dataloop, then segments. */
#ifndef DATATYPE_CARD_H
#define DATATYPE_CARD_H

#include "dataloop.h"

/* Match bits: one of these, and the tag of the receive, or the number of the send. */
#define DATATYPE_WHOLE           1ull
#define DATATYPE_PIECES          2ull
#define DATATYPE_GATHER          3ull
#define DATATYPE_BITS(kind, tag) ((kind) << 56 | (tag))

struct datatype_head {
    uint32_t position, bytes;
};
#define DATATYPE_PACKET 4096u /* a piece and its head at most */

struct datatype_state {
    uint32_t dataloop;      /* words from the beginning of the state */
    uint32_t segments;      /* likewise: of each HPU, or checkpoints */
    uint32_t working;       /* likewise: checkpoints that are moved on; a lock before each */
    uint32_t segment_words; /* of each; one more with a lock */
    uint32_t count;         /* of segments */
    uint32_t interval;      /* bytes between checkpoints */
};

/* In the user header of a message to the own card: pieces that it shall gather and send. */
struct datatype_request {
    uint32_t position, bytes, target, tag;
    uint32_t piece; /* bytes of data in each but the last */
};

#endif
