/* Words go to eight lanes in turn: each adds the product of a word's halves, with the key of its
 * place added to them, as UMAC has them, and the word. Lanes are mixed before keys repeat.
 *
 * A vector that is read where its parts were written just before waits until all of them are in the
 * cache, for as long as adding some hundred bytes takes. So lanes, and what is left behind the last
 * stripe, are read as they were written, where the processor's vectors allow it. */
#include "live/live_sum.h"

#include <string.h>

#include "base/rng.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define LANES  8u
#define STRIPE (8 * LANES) /* bytes: a word for each lane */
#define MIXER  0x9e3779b97f4a7c15ull

static uint64_t word_at(const uint8_t *at) {
    uint64_t word;
    memcpy(&word, at, sizeof word);
    return word;
}

static void add_stripe(const uint64_t *key, uint64_t *lane, const uint8_t *bytes) {
    for (uint32_t i = 0; i < LANES; i++) {
        uint64_t word = word_at(bytes + 8 * i), k = key[i];
        uint32_t low = (uint32_t)word + (uint32_t)k;
        uint32_t high = (uint32_t)(word >> 32) + (uint32_t)(k >> 32);
        lane[i] += (uint64_t)low * high + word;
    }
}

static void add_64(const uint64_t *key, uint64_t *lane, const uint8_t *bytes, uint32_t length,
                   bool mixes) {
    for (; length >= STRIPE; length -= STRIPE, key += LANES, bytes += STRIPE)
        add_stripe(key, lane, bytes);
    if (length) {
        uint8_t last[STRIPE] = {0};
        add_stripe(key, lane, memcpy(last, bytes, length));
    }
    for (uint32_t i = 0; mixes && i < LANES; i++)
        lane[i] = (lane[i] ^ lane[i] >> 32) * MIXER;
}

#if defined(__x86_64__)
#define WITH_256 __attribute__((target("avx2")))
#define WITH_512 __attribute__((target("avx512f,avx512bw")))

static inline WITH_256 __m256i step_256(__m256i lane, __m256i words, const uint64_t *key) {
    __m256i sums = _mm256_add_epi32(words, _mm256_loadu_si256((const __m256i_u *)key));
    __m256i products = _mm256_mul_epu32(sums, _mm256_srli_epi64(sums, 32));
    return _mm256_add_epi64(lane, _mm256_add_epi64(products, words));
}

/* Of the four products of halves, those that count below 2^64. */
static inline WITH_256 __m256i mix_256(__m256i lane) {
    const __m256i low = _mm256_set1_epi64x(MIXER & UINT32_MAX),
                  high = _mm256_set1_epi64x(MIXER >> 32);
    __m256i x = _mm256_xor_si256(lane, _mm256_srli_epi64(lane, 32));
    __m256i across = _mm256_add_epi64(_mm256_mul_epu32(x, high),
                                      _mm256_mul_epu32(_mm256_srli_epi64(x, 32), low));
    return _mm256_add_epi64(_mm256_mul_epu32(x, low), _mm256_slli_epi64(across, 32));
}

static WITH_256 void add_256(const uint64_t *key, uint64_t *lane, const uint8_t *bytes,
                             uint32_t length, bool mixes) {
    __m256i_u *own = (__m256i_u *)lane;
    __m256i a = own[0], b = own[1];
    uint8_t last[STRIPE] = {0};
    for (uint32_t left = length; left; key += LANES) {
        const __m256i_u *words = (const __m256i_u *)bytes;
        uint32_t taken = left < STRIPE ? left : STRIPE;
        if (taken < STRIPE)
            words = memcpy(last, bytes, taken);
        a = step_256(a, words[0], key);
        b = step_256(b, words[1], key + LANES / 2);
        bytes += taken;
        left -= taken;
    }
    own[0] = mixes ? mix_256(a) : a;
    own[1] = mixes ? mix_256(b) : b;
}

static inline WITH_512 __m512i step_512(__m512i lane, __m512i words, const uint64_t *key) {
    __m512i sums = _mm512_add_epi32(words, _mm512_loadu_si512(key));
    __m512i products = _mm512_mul_epu32(sums, _mm512_shuffle_epi32(sums, _MM_PERM_DDBB));
    return _mm512_add_epi64(lane, _mm512_add_epi64(products, words));
}

static inline WITH_512 __m512i mix_512(__m512i lane) {
    const __m512i low = _mm512_set1_epi64(MIXER & UINT32_MAX),
                  high = _mm512_set1_epi64(MIXER >> 32);
    __m512i x = _mm512_xor_si512(lane, _mm512_srli_epi64(lane, 32));
    __m512i across = _mm512_add_epi64(_mm512_mul_epu32(x, high),
                                      _mm512_mul_epu32(_mm512_srli_epi64(x, 32), low));
    return _mm512_add_epi64(_mm512_mul_epu32(x, low), _mm512_slli_epi64(across, 32));
}

static WITH_512 void add_512(const uint64_t *key, uint64_t *lane, const uint8_t *bytes,
                             uint32_t length, bool mixes) {
    __m512i own = _mm512_loadu_si512(lane), b = _mm512_setzero_si512(), c = b, d = b;
    for (; length >= 4 * STRIPE; length -= 4 * STRIPE, key += 4 * LANES, bytes += 4 * STRIPE) {
        own = step_512(own, _mm512_loadu_si512(bytes), key);
        b = step_512(b, _mm512_loadu_si512(bytes + STRIPE), key + LANES);
        c = step_512(c, _mm512_loadu_si512(bytes + 2 * STRIPE), key + 2 * LANES);
        d = step_512(d, _mm512_loadu_si512(bytes + 3 * STRIPE), key + 3 * LANES);
    }
    own = _mm512_add_epi64(_mm512_add_epi64(own, b), _mm512_add_epi64(c, d));
    for (; length >= STRIPE; length -= STRIPE, key += LANES, bytes += STRIPE)
        own = step_512(own, _mm512_loadu_si512(bytes), key);
    if (length)
        own = step_512(own, _mm512_maskz_loadu_epi8((1ull << length) - 1, bytes), key);
    _mm512_storeu_si512(lane, mixes ? mix_512(own) : own);
}
#endif

live_sum_add *live_sum_way(uint32_t i) {
    live_sum_add *way[] = {add_64, NULL, NULL};
#if defined(__x86_64__)
    uint32_t ways = 1;
    if (__builtin_cpu_supports("avx2"))
        way[ways++] = add_256;
    if (__builtin_cpu_supports("avx512bw"))
        way[ways++] = add_512;
#endif
    return i < sizeof way / sizeof *way ? way[i] : NULL;
}

void live_sum_init(struct live_sum *sum, const uint8_t *key) {
    struct rng rng = rng_seeded(word_at(key));
    rng.state ^= word_at(key + 8);
    for (uint32_t i = 0; i < LIVE_SUM_WORDS; i++)
        sum->key[i] = rng_u64(&rng);
    for (uint32_t i = 0; live_sum_way(i); i++)
        sum->add = live_sum_way(i);
}

/* `at`: the key of the next word. */
static uint32_t add_bytes(const struct live_sum *sum, uint64_t *lane, uint32_t at,
                          const uint8_t *bytes, uint32_t length) {
    while (length) {
        uint32_t room = 8 * (LIVE_SUM_WORDS - at), taken = length < room ? length : room;
        uint32_t after = at + LANES * ((taken + STRIPE - 1) / STRIPE);
        sum->add(sum->key + at, lane, bytes, taken, after == LIVE_SUM_WORDS);
        at = after % LIVE_SUM_WORDS;
        bytes += taken;
        length -= taken;
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
