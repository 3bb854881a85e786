/* Proof that a datagram comes from a process of the job: a tag of all its bytes by SipHash-2-4 with
 * 128 bits (libsodium's crypto_shorthash_siphashx24), whose key is derived from the job's.
 *
 * Why this one: it is made for short input, which most packets are; it needs no nonce, so that a
 * process that is started anew cannot repeat one (Poly1305 would be broken by that); and a packet
 * says in the bytes that are tagged who sends it to whom, so that nothing can be sent back. Packets
 * that are sent again by others are refused by delivery, which knows stream and sequence.
 *
 * The library is loaded when authentication is asked for, and only then. */
#ifndef SPIN_LIVE_LIVE_AUTH_H
#define SPIN_LIVE_LIVE_AUTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

#define LIVE_AUTH_BYTES 16

struct live_auth {
    uint8_t key[LIVE_AUTH_BYTES];
    int (*tag)(unsigned char *out, const unsigned char *in, unsigned long long length,
               const unsigned char *key);
    int (*differ)(const unsigned char *a, const unsigned char *b); /* in constant time */
};

/* `key` is the job's, of LIVE_KEY_BYTES. */
int live_auth_init(struct live_auth *auth, const uint8_t *key, struct spin_error *err);

static inline void live_auth_tag(const struct live_auth *auth, uint8_t *tag, const uint8_t *bytes,
                                 uint32_t length) {
    auth->tag(tag, bytes, length, auth->key);
}

static inline bool live_auth_holds(const struct live_auth *auth, const uint8_t *tag,
                                   const uint8_t *bytes, uint32_t length) {
    uint8_t right[LIVE_AUTH_BYTES];
    auth->tag(right, bytes, length, auth->key);
    return auth->differ(tag, right) == 0;
}

#endif
