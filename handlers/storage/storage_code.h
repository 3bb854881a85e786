/* Reed-Solomon coding over GF(2^8), for handlers and hosts: polynomial 0x11d and the Cauchy matrix
 * of ISA-L's gf_gen_cauchy1_matrix, so that either side may use ISA-L instead.
 *
 * Parity i of RS(k,m) is the sum over the k data chunks j of storage_coefficient(k, i, j) * chunk
 * j. A data node has one chunk of the sum; it multiplies each packet by its m coefficients and
 * sends the products on.
 *
 * A product is looked up byte by byte. The paper keeps all 256 x 256 products in card memory. Here
 * a handler makes the rows of its coefficients itself, side by side in memory of its own: a row is
 * 192 instructions, for it is linear in its index; it is in the L1 of the HPU that uses it; and
 * because rows are at fixed distances, one address serves the look-ups of all parities. That is 2 +
 * 2m instructions per byte, where separate rows of a large table take 1 + 3m
 * (tests/storage_code_test.c compares them; handlers/storage/README.md has the figures). */
#ifndef STORAGE_CODE_H
#define STORAGE_CODE_H

#include <stdint.h>

#define STORAGE_CHUNKS 14u /* of an object at most: k + m */
/* Parities that one pass over a packet makes: more have to wait for the next. */
#define STORAGE_PASS 4u

/* Before a loop that is to have no branch. Hosts' compilers know better. */
#if defined __riscv && defined __clang__
#define STORAGE_UNROLL(times) _Pragma("clang loop unroll(full)")
#elif defined __riscv
#define STORAGE_PRAGMA(text)  _Pragma(#text)
#define STORAGE_UNROLL(times) STORAGE_PRAGMA(GCC unroll times)
#else
#define STORAGE_UNROLL(times)
#endif

static inline uint32_t storage_double(uint32_t x) {
    return (x << 1 ^ (x >> 7) * 0x11du) & 0xffu;
}

static inline uint8_t storage_product(uint32_t a, uint32_t b) {
    uint32_t sum = 0;
    for (; b; b >>= 1, a = storage_double(a))
        if (b & 1)
            sum ^= a;
    return (uint8_t)sum;
}

/* What data chunk j of k is multiplied with for parity i: the inverse of (k + i) ^ j, which is 1 to
 * 15. */
static inline uint8_t storage_coefficient(uint32_t k, uint32_t i, uint32_t j) {
    static const uint8_t inverse[16] = {0,    0x01, 0x8e, 0xf4, 0x47, 0xa7, 0x7a, 0xba,
                                        0xad, 0x9d, 0xdd, 0x98, 0x3d, 0xaa, 0x5d, 0x96};
    return inverse[((k + i) ^ j) & 15];
}

/* The products of one coefficient: byte b of it is coefficient * b. */
struct storage_row {
    uint32_t word[64];
};

/* Doubles the part that is there: the products with one more bit are the same, xor those of the bit
 * alone. */
static inline void storage_make_row(struct storage_row *row, uint32_t coefficient) {
    uint32_t two = storage_double(coefficient), bit = storage_double(two);
    row->word[0] = coefficient << 8 | two << 16 | (coefficient ^ two) << 24;
    STORAGE_UNROLL(6)
    for (uint32_t words = 1; words < 64; words *= 2) {
        const uint32_t all = bit * 0x01010101u;
        STORAGE_UNROLL(32)
        for (uint32_t i = 0; i < words; i++)
            row->word[words + i] = row->word[i] ^ all;
        bit = storage_double(bit);
    }
}

/* Always inlined with a constant number of parities: then the loops over them are unrolled. */
static inline __attribute__((always_inline)) void
storage_multiply(const struct storage_row *rows, uint32_t parities, const uint8_t *data,
                 uint32_t bytes, uint8_t *const *to) {
    uint8_t *out[STORAGE_PASS];
    for (uint32_t i = 0; i < parities; i++)
        out[i] = to[i];
    const uint8_t *const table = (const uint8_t *)rows, *const end = data + bytes;
    const uint8_t *const blocks = data + (bytes & ~15u);
    for (; data < blocks; data += 16) {
        /* Looked up in groups, because a load's result is there a cycle later. */
        STORAGE_UNROLL(8)
        for (uint32_t b = 0; b < 16; b += 2) {
            const uint8_t *at0 = table + data[b], *at1 = table + data[b + 1];
            STORAGE_UNROLL(4)
            for (uint32_t i = 0; i < parities; i++) {
                const uint8_t product0 = at0[256 * i], product1 = at1[256 * i];
                out[i][b] = product0;
                out[i][b + 1] = product1;
            }
        }
        STORAGE_UNROLL(4)
        for (uint32_t i = 0; i < parities; i++)
            out[i] += 16;
    }
    for (; data < end; data++) {
        STORAGE_UNROLL(4)
        for (uint32_t i = 0; i < parities; i++)
            *out[i]++ = (table + *data)[256 * i];
    }
}

/* Parities `first` to `first` + `parities` - 1, at most STORAGE_PASS of them, of a packet of data
 * chunk j: `to` has their addresses. `rows` is room for as many rows. */
static inline void storage_encode_packet(uint32_t k, uint32_t j, uint32_t first, uint32_t parities,
                                         struct storage_row *rows, const uint8_t *data,
                                         uint32_t bytes, uint8_t *const *to) {
    for (uint32_t i = 0; i < parities; i++)
        storage_make_row(&rows[i], storage_coefficient(k, first + i, j));
    switch (parities) {
    case 1:
        storage_multiply(rows, 1, data, bytes, to);
        break;
    case 2:
        storage_multiply(rows, 2, data, bytes, to);
        break;
    case 3:
        storage_multiply(rows, 3, data, bytes, to);
        break;
    default:
        storage_multiply(rows, 4, data, bytes, to);
    }
}

#endif
