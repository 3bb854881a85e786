/* What clients, cards and processors of the key-value store share. A request and its answer are one
 * packet each. */
#ifndef KV_LAYOUT_H
#define KV_LAYOUT_H

#include <stdint.h>

#define KV_KEY_BYTES   64u
#define KV_VALUE_BYTES 832u

/* Match bits. */
enum {
    KV_REQUEST = 1, /* to a server's card, */
    KV_WORK = 2,    /* from there, or from a client, to its processor; both a kv_request */
    KV_RELEASE = 3, /* and back: a kv_release */
    KV_REPLY = 4,   /* to the client: a kv_reply */
};

enum kv_operation { KV_INSERT, KV_GET, KV_DELETE, KV_OPERATIONS };
enum kv_status { KV_DONE, KV_NOT_FOUND, KV_FULL, KV_MALFORMED };

struct kv_request {
    uint32_t operation, client, serial, hash;
    uint32_t key_bytes, value_bytes;
    uint32_t head, epoch; /* for the processor: of the bucket */
    uint8_t key[KV_KEY_BYTES];
    uint8_t value[KV_VALUE_BYTES];
};
#define KV_REQUEST_BYTES(value_bytes) (96u + (value_bytes))

/* Whether these bytes are one. */
static inline int kv_is_request(const struct kv_request *q, uint64_t bytes) {
    return bytes >= KV_REQUEST_BYTES(0) && q->operation < KV_OPERATIONS &&
           q->key_bytes - 1 < KV_KEY_BYTES && q->value_bytes <= KV_VALUE_BYTES &&
           bytes == KV_REQUEST_BYTES(q->value_bytes);
}

struct kv_reply {
    uint32_t serial, status, value_bytes, reserved;
    uint8_t value[KV_VALUE_BYTES];
};
#define KV_REPLY_BYTES(value_bytes) (16u + (value_bytes))

/* An item in the server's memory. They are numbered from 1; 0 is none. */
struct kv_item {
    uint32_t next, hash, key_bytes, value_bytes;
    uint8_t key[KV_KEY_BYTES];
    uint8_t value[KV_VALUE_BYTES];
};
#define KV_ITEM_HEAD 80u /* all but the value */

/* A bucket while its chain is with the processor (at_host operations of it) is left alone by the
 * card: `epoch` counts how often that began, and what is released last says where the chain begins
 * now. */
struct kv_bucket {
    uint32_t lock, head, at_host, epoch, released;
};
struct kv_release {
    uint32_t bucket, head, order, reserved;
};

/* On the card. */
struct kv_state {
    uint32_t rank, bucket_mask, max_steps, planted_bug;
    uint32_t free_lock, free_count, free_at; /* stack of free items, `free_at` words behind this */
    uint32_t reserved;
    struct kv_bucket bucket[];
};

#endif
