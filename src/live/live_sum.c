#include "live/live_sum.h"

#include <string.h>

#include "base/rng.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define LANES  8u
#define STRIPE (8 * LANES) /* bytes: a word for each lane */
#define MIXER  0x9e3779b97f4a7c15ull

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

void live_sum_init(struct live_sum *sum, const uint8_t *key) {
    struct rng rng = rng_seeded(word_at(key));
    rng.state ^= word_at(key + 8);
    for (uint32_t i = 0; i < LIVE_SUM_WORDS; i++)
        sum->key[i] = rng_u64(&rng);
}

/* Adds the product of the halves of each word, with the key of its place added, as UMAC has them,
 * and the word. */
#if defined(__SSE2__)
static void add_stripes(const uint64_t *key, uint64_t *lane, const uint8_t *bytes,
                        uint32_t stripes) {
    __m128i own[LANES / 2];
    memcpy(own, lane, sizeof own);
    for (; stripes; stripes--, key += LANES, bytes += STRIPE)
        for (uint32_t i = 0; i < LANES / 2; i++) {
            __m128i words = _mm_loadu_si128((const __m128i_u *)(bytes + 16 * i));
            __m128i keys = _mm_loadu_si128((const __m128i_u *)(key + 2 * i));
            __m128i sums = _mm_add_epi32(words, keys);
            __m128i products = _mm_mul_epu32(sums, _mm_srli_epi64(sums, 32));
            own[i] = _mm_add_epi64(own[i], _mm_add_epi64(products, words));
        }
    memcpy(lane, own, sizeof own);
}
#else
static void add_stripes(const uint64_t *key, uint64_t *lane, const uint8_t *bytes,
                        uint32_t stripes) {
    for (; stripes; stripes--, key += LANES, bytes += STRIPE)
        for (uint32_t i = 0; i < LANES; i++) {
            uint64_t word = word_at(bytes + 8 * i), k = key[i];
            uint32_t low = (uint32_t)word + (uint32_t)k;
            uint32_t high = (uint32_t)(word >> 32) + (uint32_t)(k >> 32);
            lane[i] += (uint64_t)low * high + word;
        }
}
#endif

static void mix(uint64_t *lane) {
    for (uint32_t i = 0; i < LANES; i++)
        lane[i] = (lane[i] ^ lane[i] >> 32) * MIXER;
}

/* `at`: the key of the next word. Lanes are mixed before keys repeat. */
static uint32_t add_bytes(const struct live_sum *sum, uint64_t *lane, uint32_t at,
                          const uint8_t *bytes, uint32_t length) {
    while (length) {
        uint8_t last[STRIPE];
        uint32_t room = (LIVE_SUM_WORDS - at) / LANES, stripes = length / STRIPE;
        uint32_t taken = STRIPE * (stripes < room ? stripes : room);
        if (!stripes) { /* what is left, and zeroes */
            memset(last, 0, sizeof last);
            bytes = memcpy(last, bytes, length);
            taken = length;
        }
        stripes = (taken + STRIPE - 1) / STRIPE;
        add_stripes(sum->key + at, lane, bytes, stripes);
        at += LANES * stripes;
        bytes += taken;
        length -= taken;
        if (at == LIVE_SUM_WORDS) {
            mix(lane);
            at = 0;
        }
    }
    return at;
}

uint64_t live_sum_of(const struct live_sum *sum, const uint8_t *head, uint32_t head_bytes,
                     const uint8_t *data, uint32_t bytes) {
    uint64_t lane[LANES] = {0}, all = (uint64_t)head_bytes << 32 | bytes;
    uint32_t at = add_bytes(sum, lane, 0, head, head_bytes);
    add_bytes(sum, lane, at, data, bytes);
    for (uint32_t i = 0; i < LANES; i++) {
        all = (all ^ lane[i]) * MIXER;
        all ^= all >> 32;
    }
    return rng_mix(all);
}
