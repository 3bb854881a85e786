/* Handler memory of reduce, for the handler and for the host. */
#ifndef REDUCE_H
#define REDUCE_H

#include <stdint.h>

typedef struct {
    volatile int32_t messages; /* complete */
} reduce_state_t;

#endif
