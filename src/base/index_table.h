/* A hash table of records that stand elsewhere: it holds their numbers, and asks the owner for the
 * key of one. No two have the same key.
 *
 *     INDEX_TABLE(peers, struct delivery, key_of_peer)
 *     number = peers_find(&d->table, d, key);        -- INDEX_NONE: there is none
 *     if (!peers_add(&d->table, d, number))          -- no memory; the table is as before
 *     peers_remove(&d->table, d, number);            -- while its key is still what it was
 *     index_table_free(&d->table);
 *
 * Open addressing, at most half full, so that a look-up touches one line of it and the record. */
#ifndef SPIN_BASE_INDEX_TABLE_H
#define SPIN_BASE_INDEX_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define INDEX_NONE UINT32_MAX

struct index_table {
    uint32_t *slot; /* number + 1; 0: empty */
    uint32_t slots, used;
};

static inline void index_table_free(struct index_table *table) {
    free(table->slot);
    *table = (struct index_table){0};
}

/* For so many records, while there is none, so that adding them takes no memory; false: no memory.
 */
static inline bool index_table_room(struct index_table *table, uint32_t records) {
    uint32_t slots = 8;
    while (slots < 2 * records)
        slots *= 2;
    table->slot = calloc(slots, sizeof *table->slot);
    table->slots = table->slot ? slots : 0;
    return table->slot != NULL;
}

static inline uint32_t index_table_home(const struct index_table *table, uint64_t key) {
    uint64_t h = key * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(h >> 32) & (table->slots - 1);
}

#define INDEX_TABLE(name, owner, key_of)                                                           \
    __attribute__((unused)) static inline uint32_t name##_slot(const struct index_table *table,    \
                                                               const owner *of, uint64_t key) {    \
        uint32_t at = index_table_home(table, key);                                                \
        while (table->slot[at] && key_of(of, table->slot[at] - 1) != key)                          \
            at = (at + 1) & (table->slots - 1);                                                    \
        return at;                                                                                 \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline uint32_t name##_find(const struct index_table *table,    \
                                                               const owner *of, uint64_t key) {    \
        /* 0 - 1 is INDEX_NONE */                                                                  \
        return table->slots ? table->slot[name##_slot(table, of, key)] - 1 : INDEX_NONE;           \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline bool name##_add(struct index_table *table,               \
                                                          const owner *of, uint32_t number) {      \
        if (2 * (table->used + 1) > table->slots) {                                                \
            struct index_table wider = {.slots = table->slots ? 2 * table->slots : 8};             \
            wider.slot = calloc(wider.slots, sizeof *wider.slot);                                  \
            if (!wider.slot)                                                                       \
                return false;                                                                      \
            for (uint32_t i = 0; i < table->slots; i++)                                            \
                if (table->slot[i])                                                                \
                    wider.slot[name##_slot(&wider, of, key_of(of, table->slot[i] - 1))] =          \
                        table->slot[i];                                                            \
            wider.used = table->used;                                                              \
            free(table->slot);                                                                     \
            *table = wider;                                                                        \
        }                                                                                          \
        table->slot[name##_slot(table, of, key_of(of, number))] = number + 1;                      \
        table->used++;                                                                             \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    /* Those behind it that could stand in its place move up, so that no gap ends a search. */     \
    __attribute__((unused)) static inline void name##_remove(struct index_table *table,            \
                                                             const owner *of, uint32_t number) {   \
        uint32_t last = table->slots - 1, gap = name##_slot(table, of, key_of(of, number));        \
        for (uint32_t at = (gap + 1) & last; table->slot[at]; at = (at + 1) & last) {              \
            uint32_t home = index_table_home(table, key_of(of, table->slot[at] - 1));              \
            if (((at - home) & last) < ((at - gap) & last))                                        \
                continue;                                                                          \
            table->slot[gap] = table->slot[at];                                                    \
            gap = at;                                                                              \
        }                                                                                          \
        table->slot[gap] = 0;                                                                      \
        table->used--;                                                                             \
    }                                                                                              \
    _Static_assert(sizeof(owner) > 0, "a semicolon may follow")

#endif
