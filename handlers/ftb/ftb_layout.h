/* What senders and cards of a fault-tolerant broadcast share. A message is one packet: this header
 * and a chunk of the data. Its match bits are the number of the broadcast. */
#ifndef FTB_LAYOUT_H
#define FTB_LAYOUT_H

#include <stdint.h>

struct ftb_chunk {
    uint32_t sequence, root;
    uint32_t total; /* bytes of the broadcast */
    uint32_t chunk; /* the number of this one */
};

/* Of one broadcast that is expected. */
struct ftb_state {
    uint32_t rank, ranks;
    uint32_t chunk_bytes, chunks; /* that there is room for */
    uint32_t may_forward;         /* packets; for tests of failures */
    uint32_t seen[];              /* a bit per chunk */
};

/* The k-th of those whom a rank forwards to, for 2^k < ranks. */
static inline uint32_t ftb_neighbour(uint32_t rank, uint32_t ranks, uint32_t k) {
    uint32_t r = rank + (1u << k);
    return r < ranks ? r : r - ranks;
}

#endif
