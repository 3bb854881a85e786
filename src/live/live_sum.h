/* The checksum of a datagram, as both sides compute it, of a packet's head and its data. The key
 * spreads it; it finds accidents, and is no proof of where the datagram comes from. */
#ifndef SPIN_LIVE_LIVE_SUM_H
#define SPIN_LIVE_LIVE_SUM_H

#include <stdbool.h>
#include <stdint.h>

#define LIVE_SUM_WORDS 512u

/* Adds bytes to eight lanes, with the keys of their places; then mixes the lanes, or not. */
typedef void live_sum_add(const uint64_t *key, uint64_t *lane, const uint8_t *bytes,
                          uint32_t length, bool mixes);

struct live_sum {
    _Alignas(64) uint64_t key[LIVE_SUM_WORDS];
    live_sum_add *add;
};

void live_sum_init(struct live_sum *sum, const uint8_t *key); /* of LIVE_KEY_BYTES */
/* The ways that this processor has to add, all to the same sums, the fastest last; then NULL. */
live_sum_add *live_sum_way(uint32_t i);
uint64_t live_sum_of(const struct live_sum *sum, const uint8_t *head, uint32_t head_bytes,
                     const uint8_t *data, uint32_t bytes);

#endif
