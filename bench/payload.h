/* What PsPIN's six handlers do with a packet (aggregate, copy, filtering, histogram, reduce,
 * strided), once: as payload handlers of a card (payload_card.c) and as functions of the host
 * (payload_host.c). STORE copies to host memory: a command of the card, or memcpy. */
#ifndef BENCH_PAYLOAD_H
#define BENCH_PAYLOAD_H

#include <stdint.h>

#define PAYLOAD_WORDS 1024u /* of the vector, the bins and the table */

struct payload_state {
    uint32_t word[PAYLOAD_WORDS];
};

#define PAYLOADS(X) X(aggregate) X(copy) X(filtering) X(histogram) X(reduce) X(strided)

#define ARGUMENTS                                                                                  \
    struct payload_state *s, const uint32_t *word, uint32_t bytes, uint32_t offset, uint8_t *host

static inline void aggregate(ARGUMENTS) {
    uint32_t sum = 0;
    (void)offset, (void)host;
    for (uint32_t i = 0; i < bytes / 4; i++)
        sum += word[i];
    __atomic_fetch_add(&s->word[0], sum, __ATOMIC_RELAXED);
}

static inline void copy(ARGUMENTS) {
    (void)s;
    STORE(host, offset, word, bytes);
}

/* Looks the packet's key up; who is in the table gets it. */
static inline void filtering(ARGUMENTS) {
    uint32_t key = word[0] * 2654435761u;
    if (s->word[key % PAYLOAD_WORDS] != word[0])
        STORE(host, offset, word, bytes);
}

static inline void histogram(ARGUMENTS) {
    (void)offset, (void)host;
    for (uint32_t i = 0; i < bytes / 4; i++)
        __atomic_fetch_add(&s->word[word[i] % PAYLOAD_WORDS], 1, __ATOMIC_RELAXED);
}

static inline void reduce(ARGUMENTS) {
    (void)offset, (void)host;
    for (uint32_t i = 0; i < bytes / 4; i++)
        __atomic_fetch_add(&s->word[i], word[i], __ATOMIC_RELAXED);
}

/* Blocks of 256 bytes, as far apart. */
static inline void strided(ARGUMENTS) {
    (void)s;
    for (uint32_t at = 0; at < bytes; at += 256)
        STORE(host, (offset + at) * 2, (const uint8_t *)word + at,
              bytes - at < 256 ? bytes - at : 256);
}

#endif
