#include "sim/card_messages.h"

#include <stdlib.h>
#include <string.h>

static struct card_message *find_slot(struct card_message *slot, uint64_t slots, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15ull;
    for (uint64_t i = h >> 32;; i++)
        if (slot[i & (slots - 1)].key == key || !slot[i & (slots - 1)].key)
            return &slot[i & (slots - 1)];
}

static bool grow(struct card_messages *m) {
    uint64_t slots = m->slots ? 2 * m->slots : 256;
    struct card_message *slot = calloc(slots, sizeof *slot);
    if (!slot)
        return false;
    for (uint64_t i = 0; i < m->slots; i++)
        if (m->slot[i].key)
            *find_slot(slot, slots, m->slot[i].key) = m->slot[i];
    free(m->slot);
    m->slot = slot;
    m->slots = slots;
    return true;
}

/* Moves those behind it up that would no longer be found. */
void messages_forget(struct card_messages *m, struct card_message *at) {
    uint64_t mask = m->slots - 1, hole = (uint64_t)(at - m->slot);
    for (uint64_t i = (hole + 1) & mask; m->slot[i].key; i = (i + 1) & mask) {
        uint64_t home = (m->slot[i].key * 0x9e3779b97f4a7c15ull >> 32) & mask;
        if (((i - home) & mask) >= ((i - hole) & mask)) {
            m->slot[hole] = m->slot[i];
            hole = i;
        }
    }
    m->slot[hole].key = 0;
    m->used--;
}

struct card_message *messages_find(struct card_messages *m, uint32_t context, uint32_t id) {
    if (2 * m->used >= m->slots && !grow(m))
        return NULL;
    uint64_t key = ((uint64_t)context << 32 | id) + 1;
    struct card_message *at = find_slot(m->slot, m->slots, key);
    if (!at->key) {
        m->used++;
        *at = (struct card_message){key, m->begun++, 0};
    }
    return at;
}

static bool room_for(struct card_messages *m) {
    if (m->begun <= m->room)
        return true;
    uint64_t room = m->room ? 2 * m->room : 1024;
    uint64_t *bytes = realloc(m->bytes, room * sizeof *bytes);
    if (!bytes)
        return false;
    memset(bytes + m->room, 0, (room - m->room) * sizeof *bytes);
    m->bytes = bytes;
    m->room = room;
    return true;
}

bool messages_measure(struct card_messages *m, uint32_t context, uint32_t id, uint32_t length,
                      bool last) {
    struct card_message *at = messages_find(m, context, id);
    if (!at || !room_for(m))
        return false;
    m->bytes[at->begun] += length;
    if (last)
        messages_forget(m, at);
    return true;
}

void messages_rewind(struct card_messages *m) {
    free(m->slot);
    m->slot = NULL;
    m->slots = m->used = m->begun = 0;
}

void messages_free(struct card_messages *m) {
    free(m->slot);
    free(m->bytes);
    *m = (struct card_messages){0};
}
