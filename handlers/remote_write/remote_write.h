/* What remote_write's packets begin with, and its L2 handler memory. */
#ifndef REMOTE_WRITE_H
#define REMOTE_WRITE_H

#include <stdint.h>

#define REMOTE_WRITE_MESSAGES 1024u /* ids have 10 bits */

/* After the UDP header. All but `offset` count in a message's first packet only. */
typedef struct {
    uint32_t key;    /* that must be the window's */
    uint32_t place;  /* of the message in the window */
    uint32_t bytes;  /* of the message */
    uint32_t offset; /* of this packet's data in the message */
} remote_write_head_t;

/* What the header handler leaves for the others of its message. */
typedef struct {
    uint32_t granted, place, bytes;
    volatile int32_t arrived; /* bytes */
} remote_write_message_t;

/* A window at the start of host memory; behind it, eight bytes per message to tell that it is over:
 * the bytes that were written, and above them whether it was granted. */
typedef struct {
    uint32_t key, window;
    remote_write_message_t message[REMOTE_WRITE_MESSAGES];
} remote_write_state_t;

#endif
