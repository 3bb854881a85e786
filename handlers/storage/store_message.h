/* Messages between clients, the service and the hosts of storage nodes. Little-endian, version 1:
 * a head of 12 bytes and what the kind says (docs/storage.md). One function reads and writes each
 * kind, so both agree; every field is checked when it is read. */
#ifndef STORE_MESSAGE_H
#define STORE_MESSAGE_H

#include "store_meta.h"
#include "store_request.h"

enum {
    STORE_MESSAGE_BYTES = 8192, /* at most */
    STORE_MESSAGE_SUMS = 2048,
    STORE_MESSAGE_LAYOUTS = 32,
};

/* name, who asks whom */
#define STORE_KINDS(X)                                                                             \
    X(HELLO)    /* a client begins; number of its session */                                       \
    X(OPEN)     /* an object, by name */                                                           \
    X(ALLOCATE) /* an extent to write */                                                           \
    X(SEAL)     /* it is written; the last one commits */                                          \
    X(LAYOUT)   /* where bytes of an object are */                                                 \
    X(REMOVE)   /* an object */                                                                    \
    X(SUSPECT)  /* does this node live? */                                                         \
    X(REPAIR)   /* what is to be repaired next */                                                  \
    X(REPAIRED) /* it is */                                                                        \
    X(ROTATE)   /* a new key */                                                                    \
    X(COUNTS)   /* what there is */                                                                \
    X(STOP)     /* everybody returns from spinstore_serve */                                       \
    X(PING)     /* service to node, as the two that follow */                                      \
    X(KEYS)     /* a key and when the one before it ends */                                        \
    X(END)
enum store_kind {
    STORE_KIND_NONE,
#define X(name) STORE_KIND_##name,
    STORE_KINDS(X)
#undef X
        STORE_KIND_COUNT
};

/* An extent as clients see it, or a part of it that belongs to an object. */
struct store_layout {
    uint64_t offset;     /* of the part, in the object */
    uint32_t part, from; /* bytes of the part; its offset in the extent */
    uint32_t extent, length, chunk, piece;
    uint32_t dead;            /* a bit per place whose node is known to be dead */
    uint32_t first_sum, sums; /* in the message's */
    struct store_grant grant;
};

struct store_message {
    enum store_kind kind;
    bool answer;
    enum store_status status; /* of an answer; unless STORE_OK nothing follows */
    uint32_t serial;
    /* As the kind has them. */
    char name[SPINSTORE_NAME + 1];
    bool create, last;
    struct spinstore_policy policy;
    uint32_t object, extent, node, index, target, length, session;
    uint64_t write, offset, bytes, size, version;
    struct storage_key key;
    uint32_t previous_ends, clock;
    uint32_t life;   /* a node's number for this life of it, at random */
    uint64_t medium; /* and of what its data is on */
    struct store_meta_counts counts;
    uint32_t nodes, dead_nodes;
    uint32_t layouts, sums;
    /* What follows is not looked at beyond these. */
    struct store_layout layout[STORE_MESSAGE_LAYOUTS];
    uint32_t sum[STORE_MESSAGE_SUMS];
};

/* Everything zero, but for what is not looked at. */
void store_message_clear(struct store_message *message);

/* Bytes written; 0: it does not fit, or contradicts itself. */
uint32_t store_message_write(struct store_message *message, uint8_t *to, uint32_t room);
/* False: this is no message. */
bool store_message_read(struct store_message *message, const uint8_t *from, uint64_t bytes);
/* Whether one more layout with so many sums fits into an answer that has those of `message`. */
bool store_message_fits(const struct store_message *message, uint32_t sums);

#endif
