/* The state that host and handler of the strided datatype share. */
#ifndef P4_STRIDED_H
#define P4_STRIDED_H

#include <stdint.h>

struct p4_strided {
    uint32_t offset; /* of the message in the packed data */
    uint32_t block;  /* bytes that stand together, */
    uint32_t gap;    /* and between two of them */
};

#endif
