/* Requests of the storage system as they are on the wire, and the one check that cards and hosts
 * make of them; docs/storage.md specifies them. Little-endian; version 1.
 *
 * A request is one message: a storage_head, which is the user header and so in the first packet
 * only, and data. */
#ifndef STORAGE_WIRE_H
#define STORAGE_WIRE_H

#include <stdint.h>

#include "storage_known.h"
#include "storage_mac.h"

#define STORAGE_VERSION   1
#define STORAGE_BLOCK     4096u /* unit of addresses on a medium */
#define STORAGE_REPLICAS  8u    /* most copies of replicated data */
#define STORAGE_PLACES    14u   /* most nodes of an extent: RS(10,4) */
#define STORAGE_PARITIES  4u    /* most parity nodes of RS */
#define STORAGE_TAG_BYTES 8u    /* behind the data of each packet that is authenticated */

/* Match bits, all at one portal table entry. The lower byte says what it is. */
enum {
    STORAGE_REQUEST = 0x51, /* to a card: storage_head, data */
    STORAGE_ANSWER = 0x52,  /* to a client: no data; header data is a storage_answer(), the upper
                               bits are its tag, if packets are authenticated */
    STORAGE_DATA = 0x53,    /* to a client: what it reads; STORAGE_DATA_BITS(request) */
    STORAGE_HOST = 0x54,    /* from a node's card to its host: a request that bypasses the card */
    STORAGE_NOTICE = 0x55,  /* likewise: a storage_notice (storage_state.h) */
    STORAGE_CONTROL = 0x56, /* from a node's host to its card: a storage_control */
    STORAGE_MORE = 0x58,    /* from a node's card to itself: a storage_more */
};
#define STORAGE_DATA_BITS(request) ((uint64_t)(request) << 8 | STORAGE_DATA)

enum storage_operation {
    STORAGE_WRITE = 1,
    STORAGE_READ = 2,
    STORAGE_PARITY = 3, /* from a data node to a parity node: its part of the parity */
};
enum storage_right { STORAGE_MAY_READ = 1, STORAGE_MAY_WRITE = 2 };
enum storage_strategy { STORAGE_PLAIN = 1, STORAGE_RING = 2, STORAGE_PBT = 3, STORAGE_RS = 4 };

/* What a node trusts. It is the node that decides: requests have to say the same. */
enum storage_trust {
    STORAGE_TRUSTED = 1,       /* clients and network: `mac` is a ticket, a plain secret */
    STORAGE_CAPABILITY = 2,    /* the network, not the clients: `mac` signs the capability */
    STORAGE_AUTHENTICATED = 3, /* neither: every packet is signed as well */
};

enum storage_status {
    STORAGE_DONE = 0,           /* all of the data is durable on this node */
    STORAGE_BAD_CAPABILITY = 1, /* signature, ticket, key, tag, or not this sender's */
    STORAGE_EXPIRED = 2,
    STORAGE_RANGE = 3,  /* not within the extent, the node or its medium */
    STORAGE_RIGHTS = 4, /* not this operation */
    STORAGE_BAD_VERSION = 5,
    STORAGE_REPLAY = 6, /* this number was used before, or is far below others that were */
    STORAGE_FULL = 7,   /* no room on the card: again later, with a new number */
    STORAGE_MALFORMED = 8,
    STORAGE_MEDIUM = 9, /* the medium failed */
    STORAGE_GONE = 10,  /* of the node with this virtual rank, says the one before it */
    STORAGE_STATUSES
};

/* Of a capability: a node and the first block of the extent on it. */
struct storage_place {
    uint32_t node, block;
};

/* What a client may do, signed by the services. Only the places that the strategy has are signed
 * and looked at. */
struct storage_capability {
    uint8_t version, rights, strategy, key; /* key: generation of the key that signed it */
    uint8_t k, m;                           /* copies or data nodes; parity nodes */
    uint16_t serial;                        /* the service's, so that no two are the same */
    uint32_t client;                        /* rank; answers go there */
    uint32_t bytes;                         /* of the extent on each node */
    uint64_t object;
    uint32_t expires; /* by the clock of the store */
    struct storage_place place[STORAGE_PLACES];
    uint32_t unsigned_zero;
};
#define STORAGE_CAPABILITY_BYTES(places) (28u + 8u * (places)) /* that are signed */
_Static_assert(STORAGE_KNOWN_WORDS * 4 == STORAGE_CAPABILITY_BYTES(0), "storage_known.h");
_Static_assert(STORAGE_KNOWN_MOST * 4 == STORAGE_CAPABILITY_BYTES(STORAGE_PLACES), "likewise");

struct storage_head {
    uint8_t version, operation, trust, virtual_rank; /* virtual_rank: which place is meant */
    uint8_t data_index;                              /* of PARITY: from which data node */
    uint8_t zero;
    uint16_t packet;         /* AUTHENTICATED: bytes of the message in each packet; else 0 */
    uint64_t request;        /* the client's number: 48 bits, always increasing */
    uint32_t offset, length; /* in the extent; of the data, without tags */
    uint32_t mac[2];
    uint32_t tag[2]; /* AUTHENTICATED: of the bytes before `mac`; else 0 */
    struct storage_capability capability;
};
#define STORAGE_HEAD 184u
_Static_assert(sizeof(struct storage_head) == STORAGE_HEAD, "as docs/storage.md has it");
_Static_assert(__builtin_offsetof(struct storage_head, mac) == 24, "likewise");
_Static_assert(__builtin_offsetof(struct storage_head, capability) == 40, "likewise");
_Static_assert(__builtin_offsetof(struct storage_capability, place) == 28, "likewise");

/* Header data of an answer. */
static inline uint64_t storage_answer(uint64_t request, uint32_t virtual_rank, uint32_t status) {
    return request << 16 | virtual_rank << 8 | status;
}
#define STORAGE_MOST_REQUEST ((1ull << 48) - 1)

/* How many nodes an extent is on; 0: there is no such strategy. */
static inline uint32_t storage_places(const struct storage_capability *c) {
    if (c->strategy == STORAGE_RS)
        return c->k && c->m - 1u < STORAGE_PARITIES && c->k + c->m <= (int)STORAGE_PLACES
                   ? (uint32_t)c->k + c->m
                   : 0;
    if (c->m || c->strategy - 1u >= STORAGE_RS - 1u ||
        c->k - 1u >= (c->strategy == STORAGE_PLAIN ? 1u : STORAGE_REPLICAS))
        return 0;
    return c->k;
}

/* The first virtual rank that gets data from `v`, and how many do (one after the other). RS: from
 * data nodes the parity nodes do, as PARITY. */
static inline uint32_t storage_children(const struct storage_capability *c, uint32_t v,
                                        uint32_t *first) {
    switch (c->strategy) {
    case STORAGE_RING:
        *first = v + 1;
        return *first < c->k;
    case STORAGE_PBT:
        *first = 2 * v + 1;
        return *first + 1 < c->k ? 2 : *first < c->k;
    case STORAGE_RS:
        *first = c->k;
        return v < c->k ? c->m : 0;
    default:
        *first = 0;
        return 0;
    }
}

/* Who sends a request to the node of its virtual rank. */
static inline uint32_t storage_sender(const struct storage_head *h) {
    const struct storage_capability *c = &h->capability;
    uint32_t v = h->virtual_rank;
    if (h->operation == STORAGE_PARITY)
        return c->place[h->data_index].node;
    if (h->operation == STORAGE_READ || v == 0 || c->strategy == STORAGE_RS)
        return c->client;
    return c->place[c->strategy == STORAGE_RING ? v - 1 : (v - 1) / 2].node;
}

/* ---- Authenticated packets ---- */

/* Of data in the first packet, which begins with the head, and in the others. */
static inline uint32_t storage_packet_data(uint32_t packet, int first) {
    return packet - STORAGE_TAG_BYTES - (first ? STORAGE_HEAD : 0);
}

/* Bytes of a message with `length` bytes of data. */
static inline uint64_t storage_message_bytes(uint32_t length, uint32_t packet) {
    uint64_t bytes = (uint64_t)STORAGE_HEAD + length;
    if (packet && length) {
        uint32_t first = storage_packet_data(packet, 1), each = storage_packet_data(packet, 0);
        uint64_t packets = length <= first ? 1 : 1 + ((uint64_t)length - first + each - 1) / each;
        bytes += STORAGE_TAG_BYTES * packets;
    }
    return bytes;
}

/* Where data that is at this offset of the message is within the data. */
static inline uint32_t storage_data_offset(uint32_t offset, uint32_t packet) {
    return offset - STORAGE_HEAD - (packet ? offset / packet * STORAGE_TAG_BYTES : 0);
}

/* The key of a capability's packets, which only services and nodes can make, and which the client
 * is told with the capability. */
static inline void storage_session_key(const uint32_t key[2], const uint32_t mac[2],
                                       uint32_t session[2]) {
    const uint32_t words[3] = {mac[0], mac[1], 0x73736573u};
    storage_mac(key, words, sizeof words, session);
}

static inline void storage_head_tag(const uint32_t session[2], const struct storage_head *h,
                                    uint32_t tag[2]) {
    storage_mac(session, h, 24, tag);
}

/* Which of the messages of a request it is: the same for all copies of its data, so that nodes pass
 * packets on as they are. */
static inline uint32_t storage_role(const struct storage_head *h) {
    return h->operation == STORAGE_PARITY ? h->virtual_rank << 8 | 0x80u | h->data_index
                                          : h->data_index;
}

/* The same of what a node sends to a reader. */
static inline uint32_t storage_read_role(uint32_t virtual_rank) {
    return 0x4000u | virtual_rank;
}

/* Of the data of the packet at `offset` of the message. */
static __attribute__((noinline, unused)) void
storage_packet_tag(const uint32_t session[2], uint64_t request, uint32_t role, uint32_t offset,
                   const uint8_t *data, uint32_t bytes, uint32_t tag[2]) {
    struct storage_mac m = storage_mac_begin(session);
    m = storage_mac_word(m, (uint32_t)request);
    m = storage_mac_word(m, (uint32_t)(request >> 32) | role << 16);
    m = storage_mac_word(m, offset);
    m = storage_mac_words(m, data, bytes / 4);
    storage_mac_end(m, data + bytes / 4 * 4, bytes, tag);
}

/* What a reader gets is in pieces that end with a tag each: packets, or as much of them as a
 * handler has memory for. */
#define STORAGE_MOST_PIECE 8192u
static inline uint32_t storage_piece(uint32_t packet) {
    return packet < STORAGE_MOST_PIECE ? packet : STORAGE_MOST_PIECE;
}

/* All of it. Nothing, too, has a tag. */
static inline uint64_t storage_read_bytes(uint32_t length, uint32_t packet) {
    uint32_t each = storage_piece(packet) - STORAGE_TAG_BYTES;
    if (!packet)
        return length;
    return length + (uint64_t)STORAGE_TAG_BYTES * (length ? (length - 1) / each + 1 : 1);
}

/* Match bits of an answer whose node has the key of the capability: with a tag of 56 bits. */
static __attribute__((noinline, unused)) uint64_t storage_answer_bits(const uint32_t session[2],
                                                                      uint64_t answer) {
    const uint32_t words[3] = {(uint32_t)answer, (uint32_t)(answer >> 32), 0x77736e61u};
    uint32_t tag[2];
    storage_mac(session, words, sizeof words, tag);
    return (uint64_t)tag[1] << 32 | (tag[0] & ~0xffu) | STORAGE_ANSWER;
}

/* ---- The check ---- */

/* A key of the services. The newest one and the one before it are valid, each at the place of its
 * generation modulo 2. */
struct storage_key {
    uint32_t generation; /* 1 to 255; 0: none */
    uint32_t ends;       /* the last second at which it is valid */
    uint32_t key[2], ticket[2];
};

/* What a node knows. */
struct storage_node {
    uint32_t rank, trust;
    uint32_t blocks; /* of its medium */
    uint32_t now;    /* by the clock of the store */
    struct storage_key key[2];
};

static inline enum storage_status storage_check_shape(const struct storage_head *h,
                                                      uint64_t message_bytes, uint32_t trust,
                                                      uint32_t places) {
    const struct storage_capability *c = &h->capability;
    if (h->version != STORAGE_VERSION || c->version != STORAGE_VERSION)
        return STORAGE_BAD_VERSION;
    uint32_t v = h->virtual_rank;
    if (!places || v >= places || h->zero || c->unsigned_zero || h->trust != trust ||
        h->request - 1 >= STORAGE_MOST_REQUEST)
        return STORAGE_MALFORMED;
    if (trust == STORAGE_AUTHENTICATED ? h->packet < 512 || h->packet % 8 : h->packet != 0)
        return STORAGE_MALFORMED;
    int is_rs = c->strategy == STORAGE_RS, ok;
    switch (h->operation) {
    case STORAGE_WRITE:
        ok = h->data_index == (is_rs ? v : 0) && (!is_rs || v < c->k);
        break;
    case STORAGE_PARITY:
        ok = is_rs && v >= c->k && h->data_index < c->k;
        break;
    case STORAGE_READ:
        ok = h->data_index == 0;
        break;
    default:
        ok = 0;
    }
    uint32_t length = h->operation == STORAGE_READ ? 0 : h->length;
    uint64_t whole =
        h->packet ? storage_message_bytes(length, h->packet) : (uint64_t)STORAGE_HEAD + length;
    return ok && message_bytes == whole ? STORAGE_DONE : STORAGE_MALFORMED;
}

/* session: set for authenticated packets. */
static inline enum storage_status storage_check_mac(const struct storage_head *h,
                                                    const struct storage_node *n, uint32_t places,
                                                    uint32_t session[2]) {
    const struct storage_capability *c = &h->capability;
    const struct storage_key *key = &n->key[c->key % 2];
    uint32_t mac[2];
    if (!c->key || key->generation != c->key)
        return STORAGE_BAD_CAPABILITY;
    if (h->trust == STORAGE_TRUSTED)
        return storage_mac_equal(key->ticket, h->mac) ? STORAGE_DONE : STORAGE_BAD_CAPABILITY;
    storage_mac(key->key, c, STORAGE_CAPABILITY_BYTES(places), mac);
    if (!storage_mac_equal(mac, h->mac))
        return STORAGE_BAD_CAPABILITY;
    if (h->trust == STORAGE_AUTHENTICATED)
        storage_session_key(key->key, h->mac, session);
    return STORAGE_DONE;
}

/* Of a request without a fault of shape. `is_known`: its capability is genuine. */
static inline enum storage_status
storage_check_genuine(const struct storage_head *h, const struct storage_node *n, uint32_t places,
                      int is_known, const struct storage_known_table *known, uint32_t session[2]) {
    if (!is_known) {
        enum storage_status status = storage_check_mac(h, n, places, session);
        if (status != STORAGE_DONE)
            return status;
        if (known && h->trust != STORAGE_TRUSTED)
            storage_know(known, &h->capability, places, h->mac, session);
    }
    if (h->trust == STORAGE_AUTHENTICATED) {
        uint32_t tag[2];
        storage_head_tag(session, h, tag);
        if (!storage_mac_equal(tag, h->tag))
            return STORAGE_BAD_CAPABILITY;
    }
    return STORAGE_DONE;
}

/* Whether a message of so many bytes that begins with this head and comes from this rank may be
 * carried out on a node. The head is read only if the message has one. Answers EXPIRED, RANGE and
 * RIGHTS are about a capability that is genuine: they may go to its client. `known` may be NULL. */
static inline enum storage_status storage_check(const struct storage_head *h,
                                                uint64_t message_bytes, uint32_t source,
                                                const struct storage_node *n,
                                                const struct storage_known_table *known,
                                                uint32_t session[2]) {
    const struct storage_capability *c = &h->capability;
    if (message_bytes < STORAGE_HEAD)
        return STORAGE_MALFORMED;
    uint32_t places = 0;
    if (known && n->trust != STORAGE_TRUSTED)
        places = storage_known_places(known, c, h->mac, session);
    int is_known = places != 0;
    if (!is_known)
        places = storage_places(c);
    enum storage_status status = storage_check_shape(h, message_bytes, n->trust, places);
    if (status == STORAGE_DONE)
        status = storage_check_genuine(h, n, places, is_known, known, session);
    if (status != STORAGE_DONE)
        return status;
    if (source != storage_sender(h))
        return STORAGE_BAD_CAPABILITY;
    if (n->now > c->expires || n->now > n->key[c->key % 2].ends)
        return STORAGE_EXPIRED;
    uint32_t right = h->operation == STORAGE_READ ? STORAGE_MAY_READ : STORAGE_MAY_WRITE;
    if (!(c->rights & right))
        return STORAGE_RIGHTS;
    const struct storage_place *place = &c->place[h->virtual_rank];
    uint32_t blocks = c->bytes / STORAGE_BLOCK + (c->bytes % STORAGE_BLOCK != 0);
    if (place->node != n->rank || place->block > n->blocks || blocks > n->blocks - place->block ||
        h->offset > c->bytes || h->length > c->bytes - h->offset)
        return STORAGE_RANGE;
    return STORAGE_DONE;
}

static inline int storage_is_genuine(enum storage_status status) {
    return status != STORAGE_MALFORMED && status != STORAGE_BAD_VERSION &&
           status != STORAGE_BAD_CAPABILITY;
}

/* A head as node `child` gets it. */
static inline void storage_pass_on(struct storage_head *h, const uint32_t session[2],
                                   uint32_t child) {
    if (h->capability.strategy == STORAGE_RS)
        h->operation = STORAGE_PARITY;
    h->virtual_rank = (uint8_t)child;
    if (h->trust == STORAGE_AUTHENTICATED)
        storage_head_tag(session, h, h->tag);
}

#endif
