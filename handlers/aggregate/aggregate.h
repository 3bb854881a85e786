/* Scratchpad of aggregate in each cluster. */
#ifndef AGGREGATE_H
#define AGGREGATE_H

#include <stdint.h>

typedef struct {
    volatile int32_t sum;   /* of the packets that this cluster had */
    volatile int32_t total; /* of the message, where the completion handler ran */
} aggregate_pad_t;

#endif
