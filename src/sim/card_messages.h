/* Messages under way, by context and id: what P4sPIN's headers say of each packet. A first pass
 * over the traffic measures every message; the second, after messages_rewind, finds them again in
 * the same order. */
#ifndef SPIN_SIM_CARD_MESSAGES_H
#define SPIN_SIM_CARD_MESSAGES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash_table.h"

struct card_message {
    uint64_t key; /* context << 32 | id, + 1; 0: empty */
    uint64_t begun;
    uint32_t offset; /* of its next packet */
};

struct card_messages {
    struct hash_table under_way;
    uint64_t begun;
    uint64_t *bytes; /* of the n-th message that begins */
    uint64_t room;
};

/* False: out of memory. */
bool messages_measure(struct card_messages *m, uint32_t context, uint32_t id, uint32_t length,
                      bool last);
void messages_rewind(struct card_messages *m);
/* The message of a packet, which may be its first. NULL: out of memory. */
struct card_message *messages_find(struct card_messages *m, uint32_t context, uint32_t id);
/* It has ended: its id is free again. */
void messages_forget(struct card_messages *m, struct card_message *at);
void messages_free(struct card_messages *m);

#endif
