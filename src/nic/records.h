/* Records of one size that are found by a number and never move: what is in flight. They grow by
 * chunks and are used again, so that steady traffic allocates nothing. A record begins with struct
 * record. */
#ifndef SPIN_NIC_RECORDS_H
#define SPIN_NIC_RECORDS_H

#include <stdbool.h>
#include <stdint.h>

struct record {
    uint32_t index;
    uint32_t generation; /* how often it was given back: tells an old number from a new one */
    bool used;
    struct record *next_free;
};

struct records {
    uint32_t bytes; /* of a record; set before the first records_take */
    uint32_t count, used;
    struct record *free;
    uint8_t **chunk;
    uint32_t chunks, chunks_room;
};

/* Zeroed but for its struct record; NULL: no memory. */
void *records_take(struct records *r);
void records_give(struct records *r, void *record);
/* NULL when no record in use has that number. */
void *records_at(const struct records *r, uint32_t index);
void records_free(struct records *r);

#endif
