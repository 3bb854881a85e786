/* What copy.c and the host side agree on. */
#ifndef OPENSPIN_EXPERIMENTS_COPIES_H
#define OPENSPIN_EXPERIMENTS_COPIES_H

#include <stdint.h>

#define COPIES_LARGEST 4096

struct copies_request {
    uint32_t bytes;  /* of a copy by DMA */
    uint32_t is_far; /* by loads and stores: from L2, else from local L1 */
    uint32_t index;  /* where the cycles go */
};
struct copies_memory {
    uint32_t cycles[2], cluster[2];
    _Alignas(64) uint8_t source[COPIES_LARGEST]; /* on a line of L2 */
};
/* A cluster's scratchpad: copies go to the first half, and may come from the second. */
struct copies_scratchpad {
    uint8_t to[COPIES_LARGEST], near[COPIES_LARGEST];
};

#endif
