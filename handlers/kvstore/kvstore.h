/* The cache of kvstore in L2 handler memory, its counts in L1, and its requests and replies. */
#ifndef KVSTORE_H
#define KVSTORE_H

#include <stdint.h>

#define KVSTORE_WAYS 4u
#define KVSTORE_SETS 125u /* 500 entries (B15) */

#define KVSTORE_KEY_BITS 17u /* of a way's tag: the key + 1, 0 for an empty way */
#define KVSTORE_KEY      ((1u << KVSTORE_KEY_BITS) - 1)

/* Where the ways of a set stand in its order, at first. */
#define KVSTORE_ORDER 0x03020100u

typedef struct {
    volatile uint32_t lock;  /* spin_lock_t */
    volatile uint32_t order; /* ways, a byte each, the latest used lowest */
    struct {
        volatile uint32_t tag; /* key + 1, and above it how often the way was given up */
        volatile uint32_t value;
    } way[KVSTORE_WAYS];
} kvstore_set_t;

typedef struct {
    kvstore_set_t set[KVSTORE_SETS];
} kvstore_state_t;

typedef struct {
    volatile int32_t hits, misses; /* of the requests that this cluster had */
} kvstore_pad_t;

/* Payload of a packet. The reply to a read is the request with its value. */
typedef struct {
    uint32_t operation, key, value, number;
} kvstore_request_t;
#define KVSTORE_READ  0u
#define KVSTORE_WRITE 1u

#endif
