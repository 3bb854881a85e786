/* What has to survive a restart of the metadata service, one record per change. Changes are noted
 * before they happen, and store_meta_apply makes them happen again. Numbers of objects stay; those
 * of extents do not. */
#ifndef STORE_RECORD_H
#define STORE_RECORD_H

#include "store_meta.h"

enum store_record_kind {
    STORE_RECORD_NONE,
    STORE_RECORD_MEDIUM, /* place.node has its data on `medium` */
    STORE_RECORD_OBJECT, /* object, policy, name */
    STORE_RECORD_COMMIT, /* the extents become parts of the object, one after the other */
    STORE_RECORD_REMOVE, /* object */
    STORE_RECORD_MOVE,   /* part `index` of the extent at `offset` of the object is at `place` */
    /* Of what there is at some time: */
    STORE_RECORD_EXTENT,  /* the object has one extent more, but nothing of it yet, */
    STORE_RECORD_SEGMENT, /* [offset, offset + length) of the object is in the number-th of them, */
    STORE_RECORD_STATE,   /* and it has this size and version */
    STORE_RECORD_KINDS
};

struct store_record_extent {
    uint64_t offset; /* in the object */
    uint32_t length, places, sums;
    struct store_place place[STORE_PLACES];
    uint32_t sum[STORE_PIECES];
};

struct store_record {
    enum store_record_kind kind;
    uint32_t object;
    /* As the kind has them. */
    struct spinstore_policy policy;
    char name[SPINSTORE_NAME + 1];
    struct store_place place;
    uint32_t index, length, number;
    uint64_t medium, offset, size, version;
    uint32_t count;
    struct store_record_extent extent[STORE_WRITE_EXTENTS]; /* not looked at beyond these */
};

#define STORE_RECORD_BYTES (1u << 17) /* more than any record has */

/* Bytes written; 0: it does not fit. False: this is no record. */
uint32_t store_record_write(struct store_record *record, uint8_t *to, uint32_t room);
bool store_record_read(struct store_record *record, const uint8_t *from, uint32_t bytes);
/* One extent more. */
void store_record_extent(struct store_record *record, const struct store_extent *extent);

/* Makes a recorded change happen. `time` begins with 0 and is counted up. False: the record does
 * not agree with what is there. After the last one comes store_meta_applied; false: one is missing.
 */
bool store_meta_apply(struct store_meta *meta, const struct store_record *record, uint64_t *time);
bool store_meta_applied(struct store_meta *meta, uint64_t *time);
/* Records that make a new service what this one is, but for what clients have under way; until one
 * returns false. */
bool store_meta_each(const struct store_meta *meta, store_note *note, void *user);

#endif
