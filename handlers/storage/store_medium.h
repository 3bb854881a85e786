/* What a storage node keeps its data on: memory, or a file that is mapped. */
#ifndef STORE_MEDIUM_H
#define STORE_MEDIUM_H

#include "spinlib/spinlib.h"

struct store_medium {
    uint8_t *at;
    uint64_t bytes;  /* mapped */
    uint64_t number; /* at random; a file that was used before has that of then */
};

/* `file` NULL: memory. A file of this size that was used before keeps what was in it; any other one
 * with data is refused, and stays as it is. What is wrong with a file is said on stderr. */
int store_medium_open(struct store_medium *medium, const char *file, uint64_t bytes);
/* Nothing for one that is all zero. */
void store_medium_close(struct store_medium *medium);
/* 0: these bytes are durable. */
int store_medium_flush(const struct store_medium *medium, uint64_t first, uint64_t bytes);

#endif
