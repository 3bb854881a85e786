/* What store_meta.c and store_replay.c share. */
#ifndef STORE_META_PRIVATE_H
#define STORE_META_PRIVATE_H

#include "store_blocks.h"
#include "store_record.h"

#define STORE_NO_NODE UINT32_MAX /* of a place whose node lost it and is back */

struct store_meta_node {
    struct store_blocks blocks;
    uint64_t medium; /* what it said that its data is on; 0: it has not said yet */
    bool dead;
};

/* The write that a client has under way: one at a time. */
struct store_writer {
    uint64_t write;
    uint32_t first; /* of its extents */
    uint32_t count;
    uint32_t object;
};

struct store_meta {
    uint32_t node_count, next_node;
    uint64_t lifetime;
    struct store_meta_node *node;
    struct store_object **object; /* by number */
    uint32_t object_count, object_room, removed;
    uint32_t *named; /* numbers + 1 of objects by their names' hashes; names_mask + 1 of them */
    uint32_t names_mask;
    struct store_extent *extent;
    uint32_t extent_count, extent_room, first_free;
    uint32_t first_waiting, last_waiting; /* in the order of their `due` */
    uint64_t *due;
    struct store_writer *writer; /* by client */
    uint32_t writer_room;
    store_note *note; /* or NULL */
    void *note_user;
    struct store_record *record; /* the one that is noted */
};

static inline uint32_t store_blocks_of(const struct store_extent *e) {
    return (uint32_t)(((uint64_t)e->chunk + STORE_BLOCK - 1) / STORE_BLOCK);
}

/* Whether one of its first `count` places is on that node. */
bool store_meta_has_node(const struct store_extent *extent, uint32_t count, uint32_t node);
/* NULL, or STORE_NO_EXTENT: there is no room. */
struct store_object *store_meta_new_object(struct store_meta *meta, const char *name,
                                           const struct spinstore_policy *policy);
/* Its number is that of an object that was removed. */
bool store_meta_skip_object(struct store_meta *meta);
uint32_t store_meta_new_extent(struct store_meta *meta);
/* Room for so many more segments of the object. */
bool store_meta_room_for(struct store_object *object, uint32_t segments);
/* Puts the segment in, over what is there. */
void store_meta_cover(struct store_meta *meta, uint64_t now, struct store_object *object,
                      struct store_segment segment);

#endif
