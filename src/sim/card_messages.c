#include "sim/card_messages.h"

#include <stdlib.h>
#include <string.h>

#include "base/grow.h"

HASH_TABLE_BY_KEY(under_way, struct card_message);

void messages_forget(struct card_messages *m, struct card_message *at) {
    under_way_remove(&m->under_way, NULL, at);
}

struct card_message *messages_find(struct card_messages *m, uint32_t context, uint32_t id) {
    if (!under_way_room(&m->under_way, NULL))
        return NULL;
    uint64_t key = ((uint64_t)context << 32 | id) + 1;
    struct card_message *at = under_way_slot(&m->under_way, NULL, key);
    if (!at->key) {
        m->under_way.used++;
        *at = (struct card_message){key, m->begun++, 0};
    }
    return at;
}

static bool room_for(struct card_messages *m) {
    uint64_t had = m->room;
    if (m->begun <= had)
        return true;
    if (!ROOM_FOR_ONE(m->bytes, had, m->room, 1024))
        return false;
    memset(m->bytes + had, 0, (m->room - had) * sizeof *m->bytes);
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
    hash_table_free(&m->under_way);
    m->begun = 0;
}

void messages_free(struct card_messages *m) {
    hash_table_free(&m->under_way);
    free(m->bytes);
    *m = (struct card_messages){0};
}
