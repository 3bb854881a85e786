/* How long bytes take at a rate in femtoseconds per byte, in whole picoseconds. */
#ifndef SPIN_SIM_TRANSFER_H
#define SPIN_SIM_TRANSFER_H

#include <stdint.h>

/* Rounded up, so that nothing is ever faster than its rate. Bytes times rate must stay below 2^64:
 * a packet always does, and a DMA of 2^44 bytes at 1 ns per byte. */
static inline uint64_t transfer_ps(uint64_t bytes, uint64_t fs_per_byte) {
    return (bytes * fs_per_byte + 999) / 1000;
}

#endif
