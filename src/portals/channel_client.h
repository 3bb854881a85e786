/* A rank's side of the channel (channel.h), in libportals-world.so. */
#ifndef SPIN_PORTALS_CHANNEL_CLIENT_H
#define SPIN_PORTALS_CHANNEL_CLIENT_H

#include <stdbool.h>
#include <stdint.h>

#include "portals/channel.h"

struct channel_place { /* in the world */
    uint32_t rank, ranks;
};

/* Whether this process is a rank; a first call makes it one, if its parent is not. */
bool channel_is_rank(struct channel_place *place);
/* Only whether it is: for calls of the C library, that any process makes. */
bool channel_is_attached(void);
/* Performs a call; PTL_NO_INIT: this process is no rank. What comes back beside the code is in
 * back[0] and back[1], if that is not NULL. */
int channel_post(uint32_t call, const uint64_t *words, uint32_t count, uint64_t *back);
/* Whether this call finds the same as the last one: then it need not be posted. What PtlCTGet finds
 * is in counts[0] and counts[1]. */
bool channel_finds_same(uint32_t call, uint64_t handle, uint64_t *counts);
/* The text that came back with this thread's last call. */
const char *channel_text(void);

#define CHANNEL_CALL(call, ...)                                                                    \
    channel_post(call, (const uint64_t[]){__VA_ARGS__},                                            \
                 sizeof((const uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t), NULL)

#endif
