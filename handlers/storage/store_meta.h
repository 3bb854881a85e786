/* The metadata service as a state machine: objects, extents, where they are, who may write them,
 * which nodes live. It sends nothing and knows no clock: every call that depends on time is given
 * it. store_service.c has the messages.
 *
 * A write never changes data that was committed. It gets an extent of its own on the nodes that the
 * object's policy asks for, which is
 *
 *     PENDING     while the client writes; its checksums come with store_meta_seal,
 *     COMMITTED   when the write that it belongs to is committed: a part of the object,
 *     DYING       when later writes have covered it, or when its write was given up;
 *
 * and its blocks are used again only when every capability for it has expired. So a write that was
 * not committed is never seen, and one that comes late changes nothing of anybody else. */
#ifndef STORE_META_H
#define STORE_META_H

#include <stdbool.h>
#include <stdint.h>

#include "spinlib/spinstore.h"

enum {
    STORE_BLOCK = 4096, /* bytes that are allocated as one */
    STORE_PLACES = 14,  /* nodes of an extent, at most */
    STORE_PIECES = 256, /* checksums of an extent, at most */
    STORE_NODES = 1024,
    STORE_OBJECTS = 1 << 20,
    STORE_EXTENTS = 1 << 22,
    STORE_SEGMENTS = 1 << 16, /* of an object */
    STORE_WRITE_EXTENTS = 64, /* that are committed as one */
};
#define STORE_EXTENT_BYTES (4u << 20) /* at most */
#define STORE_NO_EXTENT    UINT32_MAX

enum store_status {
    STORE_OK,
    STORE_NO_OBJECT,
    STORE_NO_NODES, /* fewer nodes live than the policy asks for */
    STORE_NO_SPACE, /* on the nodes, or a table is full */
    STORE_STALE,    /* the extent is not what it was: expired, or a node has died; write again */
    STORE_BAD,      /* the request contradicts itself, or what was said before */
    STORE_NOTHING,  /* to repair */
    STORE_LOST,     /* more nodes are gone than the policy can do without */
    STORE_REFUSED,  /* not for this client */
    STORE_PROBING,  /* whether that node lives is not known yet */
    STORE_STATUSES
};

struct store_place {
    uint32_t node;  /* number of the node, from 0 */
    uint32_t block; /* its first block there */
};

enum store_extent_state { STORE_FREE, STORE_PENDING, STORE_COMMITTED, STORE_DYING };

struct store_extent {
    enum store_extent_state state;
    struct spinstore_policy policy;
    uint32_t client, object;
    uint64_t write;    /* the client's number of the write that it belongs to */
    uint64_t offset;   /* of its first byte in the object */
    uint32_t length;   /* bytes of the object */
    uint32_t chunk;    /* bytes on each node */
    uint32_t piece;    /* bytes under one checksum */
    uint32_t segments; /* of the object that are in it */
    uint32_t sum_count;
    uint32_t *sum;  /* CRC32C: of data chunk j, piece i is number j * pieces of a chunk + i */
    uint64_t until; /* when the last capability for it expires */
    uint32_t next_waiting, next_of_write;
    bool waits; /* in the queue of those that are looked at again when time has passed */
    struct store_place place[STORE_PLACES];
};

/* A run of bytes of an object that is in one extent. */
struct store_segment {
    uint64_t offset;
    uint32_t length;
    uint32_t extent;
    uint32_t from; /* offset in the extent */
};

struct store_object {
    uint32_t id;
    struct spinstore_policy policy;
    uint64_t size, version; /* a version per commit */
    char name[SPINSTORE_NAME + 1];
    uint32_t segment_count, segment_room;
    struct store_segment *segment; /* in order; what lies between them is zero */
};

struct store_meta_options {
    uint32_t nodes;
    uint64_t node_bytes;
    uint64_t lifetime; /* of capabilities, in the unit of `now` */
};

struct store_meta;
struct store_record;
/* Makes a change durable before it happens (store_record.h). False: it cannot, so it must not. */
typedef bool store_note(void *user, const struct store_record *record);
/* From now on every change is noted. False: there is no memory. */
bool store_meta_keep(struct store_meta *meta, store_note *note, void *user);
struct store_meta *store_meta_new(const struct store_meta_options *options);
void store_meta_free(struct store_meta *meta);

uint32_t store_policy_places(const struct spinstore_policy *policy);
/* Chunks of data: k of RS(k,m), else 1. */
uint32_t store_policy_width(const struct spinstore_policy *policy);
bool store_policy_valid(const struct spinstore_policy *policy);
/* Bytes on each node, and under a checksum, of an extent of so many bytes. */
uint32_t store_chunk_of(const struct spinstore_policy *policy, uint32_t length);
uint32_t store_piece_of(const struct spinstore_policy *policy, uint32_t chunk);
static inline uint32_t store_pieces(uint32_t chunk, uint32_t piece) {
    return (chunk + piece - 1) / piece;
}

/* Finds the object, or makes it if `policy` is given. An object that is there keeps its own. */
enum store_status store_meta_open(struct store_meta *meta, const char *name,
                                  const struct spinstore_policy *policy,
                                  const struct store_object **object);
const struct store_object *store_meta_object(const struct store_meta *meta, uint32_t id);
/* Its extents are freed when their capabilities have expired; the number is not used again. */
enum store_status store_meta_remove(struct store_meta *meta, uint64_t now, uint32_t id);

/* An extent for bytes [offset, offset + length) of the object, for write number `write` of the
 * client. */
enum store_status store_meta_allocate(struct store_meta *meta, uint64_t now, uint32_t client,
                                      uint32_t object, uint64_t write, uint64_t offset,
                                      uint32_t length, uint32_t *extent);
/* Its data is durable and has these checksums. With `last` all extents of this write become the
 * object's as one step, or none: STORE_STALE. */
enum store_status store_meta_seal(struct store_meta *meta, uint64_t now, uint32_t client,
                                  uint64_t write, uint32_t extent, const uint32_t *sum,
                                  uint32_t sum_count, bool last);
/* The client gives this write up: its extents are freed once they have expired. */
void store_meta_abandon(struct store_meta *meta, uint64_t now, uint32_t client, uint64_t write);

const struct store_extent *store_meta_extent(const struct store_meta *meta, uint32_t extent);
/* Index of the first segment that ends behind `offset`; segment_count: there is none. */
uint32_t store_meta_segment(const struct store_object *object, uint64_t offset);
/* Somebody was given a capability for it, so its blocks stay for that time. */
uint64_t store_meta_lend(struct store_meta *meta, uint64_t now, uint32_t extent);

/* Nodes. A dead one gets no extents; one that is back has lost everything, so it may come back only
 * when store_meta_repair finds nothing to do (STORE_BAD otherwise). */
bool store_meta_lives(const struct store_meta *meta, uint32_t node);
void store_meta_dead(struct store_meta *meta, uint32_t node);
enum store_status store_meta_back(struct store_meta *meta, uint32_t node);
/* A node says what its data is on (not 0). False: the store has data on it that was on another
 * medium, so it is lost. */
bool store_meta_admit(struct store_meta *meta, uint32_t node, uint64_t medium);
uint64_t store_meta_free_blocks(const struct store_meta *meta, uint32_t node);

/* What is to be repaired: part `index` of an extent is on a dead node. `target` is a new extent of
 * one part, the client's to write, on a node that has no part of it yet. Looks from extent `from`
 * on. STORE_LOST: `extent` cannot be repaired, look on behind it. STORE_NOTHING: no more. */
struct store_repair {
    uint32_t extent, index, target;
};
enum store_status store_meta_repair(struct store_meta *meta, uint64_t now, uint32_t client,
                                    uint32_t from, struct store_repair *repair);
/* The target has been written: it takes the place of the part. */
enum store_status store_meta_repaired(struct store_meta *meta, uint64_t now, uint32_t client,
                                      const struct store_repair *repair);

/* Frees what nobody can reach any more, at most a lifetime after it could be. */
void store_meta_expire(struct store_meta *meta, uint64_t now);

struct store_meta_counts {
    uint32_t objects, extents, pending, dying;
    uint32_t damaged; /* committed extents with a part on a dead node */
};
struct store_meta_counts store_meta_count(const struct store_meta *meta);
/* For tests: false if something contradicts itself (blocks of two extents, segments that overlap, a
 * count that is wrong). */
bool store_meta_consistent(const struct store_meta *meta);

#endif
