/* A write request of a file system and what a storage node knows, as handlers (validate.c) and the
 * experiment that makes the requests see them. 32-bit words. */
#ifndef OPENSPIN_EXPERIMENTS_VALIDATE_H
#define OPENSPIN_EXPERIMENTS_VALIDATE_H

#include <stdint.h>

#define VALIDATE_WRITE 2u  /* a right */
#define VALIDATE_TABLE 64u /* requests under way */
#define VALIDATE_KNOWN 16u /* capabilities that were checked before */

/* What a client shows: signed by the metadata service with a key that the storage nodes have. */
struct validate_capability {
    uint32_t object, first, bytes; /* of the object: the extent that may be used */
    uint32_t rights, expires;
    uint32_t client;
};

struct validate_request { /* at the beginning of a write's first packet */
    struct validate_capability capability;
    uint32_t signature; /* or the ticket */
    uint32_t offset, length;
};

struct validate_node { /* in L2 handler memory */
    uint32_t key[2];
    uint32_t ticket; /* of clients that are trusted */
    uint32_t now;
    uint32_t denied;
};

struct validate_table { /* in the L1 of the message's home cluster */
    uint32_t accepted;
    struct {
        struct validate_capability capability;
        uint32_t signature; /* which was found right; 0: none */
    } known[VALIDATE_KNOWN];
    struct {
        uint32_t client, object, offset, length, received;
    } entry[VALIDATE_TABLE];
};

static inline uint32_t validate_rotate(uint32_t x, int by) {
    return x << by | x >> (32 - by);
}

static inline void validate_rounds(uint32_t v[4], int rounds) {
    while (rounds-- > 0) {
        v[0] += v[1];
        v[1] = validate_rotate(v[1], 5) ^ v[0];
        v[0] = validate_rotate(v[0], 16);
        v[2] += v[3];
        v[3] = validate_rotate(v[3], 8) ^ v[2];
        v[0] += v[3];
        v[3] = validate_rotate(v[3], 7) ^ v[0];
        v[2] += v[1];
        v[1] = validate_rotate(v[1], 13) ^ v[2];
        v[2] = validate_rotate(v[2], 16);
    }
}

/* HalfSipHash-2-4 of the capability: a keyed hash for processors of 32 bits. */
static inline uint32_t validate_sign(const struct validate_capability *c, uint32_t k0,
                                     uint32_t k1) {
    const uint32_t *word = (const uint32_t *)c;
    uint32_t words = sizeof *c / sizeof *word;
    uint32_t v[4] = {k0, k1, 0x6c796765u ^ k0, 0x74656462u ^ k1};
    for (uint32_t i = 0; i <= words; i++) {
        uint32_t m = i < words ? word[i] : (uint32_t)sizeof *c << 24;
        v[3] ^= m;
        validate_rounds(v, 2);
        v[0] ^= m;
    }
    v[2] ^= 0xff;
    validate_rounds(v, 4);
    return v[1] ^ v[3];
}

#endif
