/* The cache of kvstore in L2 handler memory, and its requests and replies. */
#ifndef KVSTORE_H
#define KVSTORE_H

#include <stdint.h>

#define KVSTORE_WAYS 4u
#define KVSTORE_SETS 125u /* 500 entries (B15) */

typedef struct {
    volatile uint32_t lock; /* spin_lock_t */
    uint32_t clock;         /* counts uses of this set */
    struct {
        uint32_t key; /* + 1; 0: empty */
        uint32_t value, used;
    } way[KVSTORE_WAYS];
} kvstore_set_t;

typedef struct {
    volatile int32_t hits, misses;
    kvstore_set_t set[KVSTORE_SETS];
} kvstore_state_t;

/* Payload of a packet. The reply to a read is the request with its value. */
typedef struct {
    uint32_t operation, key, value, number;
} kvstore_request_t;
#define KVSTORE_READ  0u
#define KVSTORE_WRITE 1u

#endif
