#include "nic/records.h"

#include <stdlib.h>
#include <string.h>

#define CHUNK 8 /* records: small, because a world may have 65,536 cards */

static struct record *at(const struct records *r, uint32_t index) {
    return (struct record *)(void *)(r->chunk[index / CHUNK] + (size_t)(index % CHUNK) * r->bytes);
}

static bool grow(struct records *r) {
    if (r->chunks == r->chunks_room) {
        uint32_t room = r->chunks_room ? 2 * r->chunks_room : 4;
        uint8_t **chunk = realloc(r->chunk, room * sizeof *chunk);
        if (!chunk)
            return false;
        r->chunk = chunk;
        r->chunks_room = room;
    }
    uint8_t *memory = calloc(CHUNK, r->bytes);
    if (!memory)
        return false;
    r->chunk[r->chunks++] = memory;
    for (uint32_t i = CHUNK; i-- > 0;) { /* the lowest number is given out first */
        struct record *record = at(r, r->count + i);
        record->index = r->count + i;
        record->next_free = r->free;
        r->free = record;
    }
    r->count += CHUNK;
    return true;
}

void *records_take(struct records *r) {
    if (!r->free && !grow(r))
        return NULL;
    struct record *record = r->free;
    r->free = record->next_free;
    memset(record + 1, 0, r->bytes - sizeof *record);
    record->used = true;
    record->next_free = NULL;
    r->used++;
    return record;
}

void records_give(struct records *r, void *given) {
    struct record *record = given;
    record->used = false;
    record->generation++;
    record->next_free = r->free;
    r->free = record;
    r->used--;
}

void *records_at(const struct records *r, uint32_t index) {
    if (index >= r->count)
        return NULL;
    struct record *record = at(r, index);
    return record->used ? record : NULL;
}

void records_free(struct records *r) {
    for (uint32_t i = 0; i < r->chunks; i++)
        free(r->chunk[i]);
    free(r->chunk);
    *r = (struct records){.bytes = r->bytes};
}
