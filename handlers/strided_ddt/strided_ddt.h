/* The layout of strided_ddt, in L2 handler memory. */
#ifndef STRIDED_DDT_H
#define STRIDED_DDT_H

#include <stdint.h>

typedef struct {
    uint32_t payload; /* bytes of a packet, but for the last */
    uint32_t block;   /* bytes that stay together in host memory */
    uint32_t stride;  /* from the start of a block to the start of the next */
} strided_layout_t;

#endif
