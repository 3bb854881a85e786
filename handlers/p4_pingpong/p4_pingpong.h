/* The state that host and handlers of the ping-pong share. */
#ifndef P4_PINGPONG_H
#define P4_PINGPONG_H

#include <stdint.h>

#define P4_PONG 10 /* match bits of the answer */

struct p4_pingpong {
    uint32_t most_streamed; /* longer messages go back from host memory, whole */
    uint32_t source;        /* from here on: of the message at hand */
    uint32_t offset, length;
    uint32_t streams;
};

#endif
