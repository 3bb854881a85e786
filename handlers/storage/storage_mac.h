/* The MAC of the storage system: HalfSipHash-2-4 with a tag of 64 bits (Aumasson and Bernstein),
 * for handlers and hosts alike. It works on words of 32 bits, as HPUs do: SipHash has 64-bit
 * additions and rotations, which cost them two and a half times as much. Its key has 64 bits, so
 * keys are for hours and not for years: the services change them (storage_state.h). */
#ifndef STORAGE_MAC_H
#define STORAGE_MAC_H

#include <stdint.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the wire format is little-endian, and so are the words that are signed"
#endif

struct storage_mac {
    uint32_t v0, v1, v2, v3;
};

static inline uint32_t storage_mac_rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static inline struct storage_mac storage_mac_round(struct storage_mac m) {
    m.v0 += m.v1;
    m.v1 = storage_mac_rotate(m.v1, 5) ^ m.v0;
    m.v0 = storage_mac_rotate(m.v0, 16);
    m.v2 += m.v3;
    m.v3 = storage_mac_rotate(m.v3, 8) ^ m.v2;
    m.v0 += m.v3;
    m.v3 = storage_mac_rotate(m.v3, 7) ^ m.v0;
    m.v2 += m.v1;
    m.v1 = storage_mac_rotate(m.v1, 13) ^ m.v2;
    m.v2 = storage_mac_rotate(m.v2, 16);
    return m;
}

static inline struct storage_mac storage_mac_begin(const uint32_t key[2]) {
    return (struct storage_mac){key[0], key[1] ^ 0xee, 0x6c796765u ^ key[0], 0x74656462u ^ key[1]};
}

static inline struct storage_mac storage_mac_word(struct storage_mac m, uint32_t word) {
    m.v3 ^= word;
    m = storage_mac_round(storage_mac_round(m));
    m.v0 ^= word;
    return m;
}

/* Whole words, wherever they are: HPUs load words from any address. */
static inline struct storage_mac storage_mac_words(struct storage_mac m, const void *data,
                                                   uint32_t words) {
#ifdef __riscv
    typedef uint32_t __attribute__((may_alias)) any_word;
    for (const any_word *at = (const any_word *)data, *end = at + words; at != end; at++)
        m = storage_mac_word(m, *at);
#else
    for (const uint8_t *at = (const uint8_t *)data, *end = at + 4 * words; at != end; at += 4) {
        uint32_t word;
        __builtin_memcpy(&word, at, 4);
        m = storage_mac_word(m, word);
    }
#endif
    return m;
}

/* The last 0 to 3 bytes, and how many there were in all. */
static inline __attribute__((always_inline)) void
storage_mac_end(struct storage_mac m, const uint8_t *last, uint32_t bytes, uint32_t tag[2]) {
    uint32_t word = bytes << 24;
    for (uint32_t i = 0; i < bytes % 4; i++)
        word |= (uint32_t)last[i] << 8 * i;
    m = storage_mac_word(m, word);
    m.v2 ^= 0xee;
    for (int half = 0; half < 2; half++) {
        for (int i = 0; i < 2; i++)
            m = storage_mac_round(storage_mac_round(m));
        tag[half] = m.v1 ^ m.v3;
        m.v1 ^= 0xdd;
    }
}

/* Once in an image: the instruction caches of cards are small. */
static __attribute__((noinline, unused)) void storage_mac(const uint32_t key[2], const void *data,
                                                          uint32_t bytes, uint32_t tag[2]) {
    struct storage_mac m = storage_mac_words(storage_mac_begin(key), data, bytes / 4);
    storage_mac_end(m, (const uint8_t *)data + bytes / 4 * 4, bytes, tag);
}

/* In the same time whatever differs. */
static inline int storage_mac_equal(const uint32_t a[2], const uint32_t b[2]) {
    return ((a[0] ^ b[0]) | (a[1] ^ b[1])) == 0;
}

#endif
