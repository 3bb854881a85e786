/* Seeded random numbers, the same on every machine: one generator per object, never a global. */
#ifndef SPIN_BASE_RNG_H
#define SPIN_BASE_RNG_H

#include <stdint.h>

struct rng {
    uint64_t state;
};

/* splitmix64: one addition and a finaliser, passes the usual test batteries. */
static inline uint64_t rng_mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

/* The seed is mixed, so that neighbouring seeds begin far apart in the one long sequence. */
static inline struct rng rng_seeded(uint64_t seed) {
    return (struct rng){rng_mix(seed + 0x2545f4914f6cdd1dull)};
}

static inline uint64_t rng_u64(struct rng *r) {
    return rng_mix(r->state += 0x9e3779b97f4a7c15ull);
}

static inline uint32_t rng_u32(struct rng *r) {
    return (uint32_t)(rng_u64(r) >> 32);
}

/* Uniform in [0, bound); bound must not be 0. */
static inline uint32_t rng_below(struct rng *r, uint32_t bound) {
    return (uint32_t)(((rng_u64(r) >> 32) * bound) >> 32);
}

/* Exponentially distributed with that mean, by the inverse of the distribution in fixed point: the
 * logarithm of a C library may differ between machines in its last bit, this one cannot. */
static inline uint64_t rng_exponential(struct rng *r, uint64_t mean) {
    uint64_t u = rng_u64(r) | 1; /* u / 2^64 is uniform in (0, 1) */
    unsigned shift = (unsigned)__builtin_clzll(u);
    uint64_t m = u << shift, fraction = 0; /* m / 2^63 in [1, 2) */
    for (int bit = 31; bit >= 0; bit--) {  /* its binary logarithm, a bit for each squaring */
        unsigned __int128 square = (unsigned __int128)m * m >> 63;
        if (square >> 64) {
            square >>= 1;
            fraction |= 1ull << bit;
        }
        m = (uint64_t)square;
    }
    uint64_t minus_log2 = ((uint64_t)(shift + 1) << 32) - fraction;
    const uint64_t ln2 = 2977044472u; /* of 2^32 */
    return (uint64_t)((unsigned __int128)minus_log2 * ln2 * mean >> 64);
}

#endif
