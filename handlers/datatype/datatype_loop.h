/* Types as normalised loops on the host: what a dataloop is made of. A constructor makes the loop
 * of the new type from those of the old, and merges what it can, so that however a type is nested,
 * what is left is what its layout needs. */
#ifndef DATATYPE_LOOP_H
#define DATATYPE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dataloop.h"

struct loop;

/* A loop, or contiguous bytes (loop is NULL), at an offset. 0 bytes: nothing. */
struct part {
    struct loop *loop;
    int64_t offset;
    uint64_t bytes; /* packed */
};

/* Shared by the types that have it, and never changed. Elements as of enum dataloop_kind; those of
 * VECTOR and BLOCKINDEX are all `element`, which has the offset 0. */
struct loop {
    size_t references;
    enum dataloop_kind kind;
    uint64_t count, bytes; /* elements; packed bytes of all */
    uint64_t regions;
    uint32_t depth;
    int64_t stride;
    struct part element;
    int64_t *offset;   /* BLOCKINDEX */
    struct part *part; /* INDEX, STRUCT */
};

struct part part_bytes(uint64_t bytes);
struct part part_keep(struct part part); /* one more reference */
void part_drop(struct part part);
uint32_t part_depth(struct part part);
uint64_t part_regions(struct part part);

/* Both return false without memory. */
bool part_repeat(struct part part, uint64_t count, int64_t stride, struct part *out);
/* One behind the other in the packed data. Takes the references of the list, which is undefined
 * after it. */
bool part_sequence(struct part *list, uint64_t count, struct part *out);

#endif
