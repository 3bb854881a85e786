/* Ways to multiply a packet by the coefficients of RS(k,m), to compare: the one that the storage
 * handlers have (storage_code.h), look-ups in a table of all products as the paper has them, and
 * arithmetic on words of four bytes. Compiled for HPUs (code_card.c) and for the host. */
#ifndef BENCH_CODE_VARIANTS_H
#define BENCH_CODE_VARIANTS_H

#include "../handlers/storage/storage_code.h"

enum code_variant { CODE_ROWS, CODE_TABLE, CODE_WORDS, CODE_VARIANTS };

/* State of the handlers in code_card.c. */
struct code_state {
    uint32_t k, j, m;
    uint8_t product[256][256]; /* for CODE_TABLE */
};

/* 1 + 3m instructions per byte: each look-up has a row of its own to add to. */
static inline __attribute__((always_inline)) void code_by_table(const uint8_t (*product)[256],
                                                                uint32_t k, uint32_t j, uint32_t m,
                                                                const uint8_t *data, uint32_t bytes,
                                                                uint8_t *const *to) {
    const uint8_t *row[STORAGE_PASS], *const end = data + bytes;
    const uint8_t *const blocks = data + (bytes & ~15u);
    uint8_t *out[STORAGE_PASS];
    for (uint32_t i = 0; i < m; i++) {
        row[i] = product[storage_coefficient(k, i, j)];
        out[i] = to[i];
    }
    for (; data < blocks; data += 16) {
        STORAGE_UNROLL(8)
        for (uint32_t b = 0; b < 16; b += 2) {
            const uint32_t x = data[b], y = data[b + 1];
            STORAGE_UNROLL(4)
            for (uint32_t i = 0; i < m; i++) {
                const uint8_t product0 = row[i][x], product1 = row[i][y];
                out[i][b] = product0;
                out[i][b + 1] = product1;
            }
        }
        STORAGE_UNROLL(4)
        for (uint32_t i = 0; i < m; i++)
            out[i] += 16;
    }
    for (; data < end; data++)
        for (uint32_t i = 0; i < m; i++)
            *out[i]++ = row[i][*data];
}

/* The product of four bytes with a constant is the sum, over their bits, of the constant times that
 * bit: a bit of each byte, times one number, carries nothing into the next byte. */
static inline __attribute__((always_inline)) void code_by_words(uint32_t k, uint32_t j, uint32_t m,
                                                                const uint8_t *data, uint32_t bytes,
                                                                uint8_t *const *to) {
    uint32_t times[STORAGE_PASS][8], *out[STORAGE_PASS];
    for (uint32_t i = 0; i < m; i++) {
        out[i] = (uint32_t *)(void *)to[i];
        times[i][0] = storage_coefficient(k, i, j);
        STORAGE_UNROLL(8)
        for (uint32_t bit = 1; bit < 8; bit++)
            times[i][bit] = storage_double(times[i][bit - 1]);
    }
    const uint8_t *const end = data + bytes, *const words = data + (bytes & ~3u);
    for (; data < words; data += 4) {
        const uint32_t four = *(const uint32_t *)(const void *)data;
        uint32_t sum[STORAGE_PASS] = {0};
        STORAGE_UNROLL(8)
        for (uint32_t bit = 0; bit < 8; bit++) {
            const uint32_t bits = four >> bit & 0x01010101u;
            STORAGE_UNROLL(4)
            for (uint32_t i = 0; i < m; i++)
                sum[i] ^= bits * times[i][bit];
        }
        STORAGE_UNROLL(4)
        for (uint32_t i = 0; i < m; i++)
            *out[i]++ = sum[i];
    }
    for (uint32_t at = bytes & ~3u; data < end; data++, at++)
        for (uint32_t i = 0; i < m; i++)
            to[i][at] = storage_product(times[i][0], *data);
}

static inline void code_packet(enum code_variant variant, const struct code_state *s,
                               struct storage_row *rows, const uint8_t *data, uint32_t bytes,
                               uint8_t *const *to) {
#define EACH_M(call)                                                                               \
    switch (s->m) {                                                                                \
    case 1:                                                                                        \
        call(1);                                                                                   \
        break;                                                                                     \
    case 2:                                                                                        \
        call(2);                                                                                   \
        break;                                                                                     \
    case 3:                                                                                        \
        call(3);                                                                                   \
        break;                                                                                     \
    default:                                                                                       \
        call(4);                                                                                   \
    }
#define BY_TABLE(m) code_by_table(s->product, s->k, s->j, m, data, bytes, to)
#define BY_WORDS(m) code_by_words(s->k, s->j, m, data, bytes, to)
    if (variant == CODE_ROWS)
        storage_encode_packet(s->k, s->j, 0, s->m, rows, data, bytes, to);
    else if (variant == CODE_TABLE)
        EACH_M(BY_TABLE)
    else
        EACH_M(BY_WORDS)
#undef BY_TABLE
#undef BY_WORDS
#undef EACH_M
}

#endif
