/* The state that host and handlers of the accumulation share. */
#ifndef P4_ACCUMULATE_H
#define P4_ACCUMULATE_H

#include <stdint.h>

struct p4_accumulate {
    uint32_t offset; /* of the message at hand in the array */
};

#endif
