/* Requests from the host's side: what services sign and clients send. */
#ifndef STORE_REQUEST_H
#define STORE_REQUEST_H

#include <stdbool.h>

#include "storage_wire.h"

/* A capability with what proves it. */
struct store_grant {
    struct storage_capability capability;
    uint32_t mac[2], session[2]; /* session: the key of authenticated packets */
};

/* A key of the services from their secret; `ends` is the last second of its validity. */
struct storage_key store_key(uint32_t generation, uint32_t ends, uint64_t secret);

/* Sets version and key of the capability, which is filled in otherwise, and proves it. */
void store_grant_sign(struct store_grant *grant, const struct storage_key *key,
                      enum storage_trust trust);

/* A request for `length` bytes from `offset` of the extent, to the node at place `place`. `packet`
 * is the MTU if packets are authenticated, else it is not looked at. */
struct store_ask {
    enum storage_operation operation;
    enum storage_trust trust;
    uint32_t place, offset, length, packet;
    uint64_t request;
};
void store_head(struct storage_head *head, const struct store_grant *grant,
                const struct store_ask *ask);

/* Writes the whole message of a write, storage_message_bytes(length, packet) of them; `data` has
 * head->length bytes. */
void store_message_fill(uint8_t *message, const struct storage_head *head,
                        const uint32_t session[2], const void *data);

/* A piece of what a node has sent to a reader, which is at `at` of all storage_read_bytes() of
 * them: its data goes to its place in `data`. False: it is not what this node answers to this
 * request. */
bool store_read_piece(uint8_t *data, const struct storage_head *head, const uint32_t session[2],
                      uint64_t at, const uint8_t *came, uint64_t bytes);

#endif
