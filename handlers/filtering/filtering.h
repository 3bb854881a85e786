/* The table of filtering, in L2 handler memory. */
#ifndef FILTERING_H
#define FILTERING_H

#include <stdint.h>

#define FILTERING_ENTRIES 65536u

/* One place for a source address: 0 is no address, a later entry replaces an earlier one. */
typedef struct {
    uint32_t source;
    uint32_t port; /* the UDP port that its packets get */
} filtering_entry_t;

static inline uint32_t filtering_place(uint32_t source) {
    return (source * 2654435761u) >> 16; /* Knuth's multiplicative hash, 16 bits of it */
}

#endif
