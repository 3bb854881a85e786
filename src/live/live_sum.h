/* The checksum of a datagram, as both sides compute it, of a packet's head and its data. The key
 * spreads it; it finds accidents, and is no proof of where the datagram comes from. */
#ifndef SPIN_LIVE_LIVE_SUM_H
#define SPIN_LIVE_LIVE_SUM_H

#include <stdint.h>

#define LIVE_SUM_WORDS 128u
struct live_sum {
    uint64_t key[LIVE_SUM_WORDS];
};

void live_sum_init(struct live_sum *sum, const uint8_t *key); /* of LIVE_KEY_BYTES */
uint64_t live_sum_of(const struct live_sum *sum, const uint8_t *head, uint32_t head_bytes,
                     const uint8_t *data, uint32_t bytes);

#endif
