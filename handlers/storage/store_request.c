#include "store_request.h"

#include <string.h>

/* Key and ticket are different PRFs of the secret: who knows a ticket does not know the key. */
struct storage_key store_key(uint32_t generation, uint32_t ends, uint64_t secret) {
    struct storage_key key = {.generation = generation, .ends = ends};
    const uint32_t words[2] = {(uint32_t)secret, (uint32_t)(secret >> 32)};
    storage_mac(words, "key", 3, key.key);
    storage_mac(words, "ticket", 6, key.ticket);
    return key;
}

void store_grant_sign(struct store_grant *g, const struct storage_key *key,
                      enum storage_trust trust) {
    struct storage_capability *c = &g->capability;
    c->version = STORAGE_VERSION;
    c->key = (uint8_t)key->generation;
    memset(g->session, 0, sizeof g->session);
    if (trust == STORAGE_TRUSTED)
        memcpy(g->mac, key->ticket, sizeof g->mac);
    else
        storage_mac(key->key, c, STORAGE_CAPABILITY_BYTES(storage_places(c)), g->mac);
    if (trust == STORAGE_AUTHENTICATED)
        storage_session_key(key->key, g->mac, g->session);
}

void store_head(struct storage_head *head, const struct store_grant *g, const struct store_ask *a) {
    bool coded = g->capability.strategy == STORAGE_RS && a->operation == STORAGE_WRITE;
    *head = (struct storage_head){
        .version = STORAGE_VERSION,
        .operation = (uint8_t)a->operation,
        .trust = (uint8_t)a->trust,
        .virtual_rank = (uint8_t)a->place,
        .data_index = coded ? (uint8_t)a->place : 0,
        .packet = a->trust == STORAGE_AUTHENTICATED ? (uint16_t)a->packet : 0,
        .request = a->request,
        .offset = a->offset,
        .length = a->length,
        .mac = {g->mac[0], g->mac[1]},
        .capability = g->capability,
    };
    if (a->trust == STORAGE_AUTHENTICATED)
        storage_head_tag(g->session, head, head->tag);
}

void store_message_fill(uint8_t *message, const struct storage_head *head,
                        const uint32_t session[2], const void *data) {
    const uint8_t *from = data;
    uint32_t at = STORAGE_HEAD, left = head->length;
    memcpy(message, head, STORAGE_HEAD);
    if (!head->packet) {
        if (left)
            memcpy(message + at, from, left);
        return;
    }
    while (left) {
        uint32_t most = storage_packet_data(head->packet, at == STORAGE_HEAD);
        uint32_t bytes = left < most ? left : most, tag[2];
        memcpy(message + at, from, bytes);
        storage_packet_tag(session, head->request, storage_role(head), at, from, bytes, tag);
        memcpy(message + at + bytes, tag, sizeof tag);
        at += bytes + STORAGE_TAG_BYTES;
        from += bytes;
        left -= bytes;
    }
}

bool store_read_piece(uint8_t *data, const struct storage_head *head, const uint32_t session[2],
                      uint64_t at, const uint8_t *came, uint64_t bytes) {
    const uint64_t piece = storage_piece(head->packet);
    const uint64_t whole = storage_read_bytes(head->length, head->packet);
    if (at % piece || at >= whole || bytes != (whole - at < piece ? whole - at : piece))
        return false;
    uint8_t *to = data + (at - at / piece * STORAGE_TAG_BYTES);
    uint32_t tag[2], was[2], count = (uint32_t)bytes - STORAGE_TAG_BYTES;
    memcpy(to, came, count); /* first: somebody may still write to what came */
    storage_packet_tag(session, head->request, storage_read_role(head->virtual_rank), (uint32_t)at,
                       to, count, tag);
    memcpy(was, came + count, sizeof was);
    return storage_mac_equal(tag, was);
}
