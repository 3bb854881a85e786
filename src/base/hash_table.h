/* The hash table. Its owner lays the slots out, for a look-up to touch one line of the cache, and
 * says by four functions what is in them:
 *
 *     static bool labels_holds(const struct labels *of, const struct label *slot);
 *     static struct word labels_key(const struct labels *of, const struct label *slot);
 *     static uint64_t labels_hash(const struct labels *of, struct word key);  -- upper bits count
 *     static bool labels_same(const struct labels *of, const struct label *slot, struct word key);
 *     HASH_TABLE(labels, struct labels, struct label, struct word);
 *
 *     label = labels_find(&t->table, t, key);        -- NULL: there is none
 *     if (!labels_room(&t->table, t))                -- no memory; the table is as before
 *     label = labels_slot(&t->table, t, key);        -- it, or the empty slot where it goes; who
 *                                                       fills that one counts it in `used`
 *     labels_remove(&t->table, t, label);            -- pointers to slots end here, and at _room
 *     hash_table_free(&t->table);
 *
 * A slot of zeroes holds nothing. Open addressing, at most half full. Slots can be elsewhere than
 * malloc has them, and fewer of them filled: then _move takes the place of _room and _free.
 *
 * index_table.h has the kind whose slots are numbers of records that stand elsewhere. */
#ifndef SPIN_BASE_HASH_TABLE_H
#define SPIN_BASE_HASH_TABLE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#define HASH_TABLE_MOST (1u << 31) /* slots */

struct hash_table {
    void *slot;
    uint32_t slots, used; /* a power of two, or 0 before the first */
};

static inline void hash_table_free(struct hash_table *table) {
    free(table->slot);
    *table = (struct hash_table){0};
}

/* Slots of a table that is to hold so many. */
static inline uint64_t hash_table_slots(uint64_t records) {
    uint64_t slots = 8;
    while (slots < 2 * records)
        slots *= 2;
    return slots;
}

/* For so many records in slots of `bytes`, while there is none, so that adding them takes no
 * memory; false: no memory. */
static inline bool hash_table_reserve(struct hash_table *table, size_t bytes, uint32_t records) {
    uint64_t slots = hash_table_slots(records);
    table->slot = slots <= HASH_TABLE_MOST ? calloc(slots, bytes) : NULL;
    table->slots = table->slot ? (uint32_t)slots : 0;
    return table->slot != NULL;
}

/* A table takes the uppermost bits of a hash; those of this product depend on every bit of the key,
 * and set keys that follow each other far apart. */
static inline uint64_t hash_table_spread(uint64_t key) {
    return key * 0x9e3779b97f4a7c15ull;
}

/* Of text, by FNV-1a. */
static inline uint64_t hash_table_text(const char *at, size_t length) {
    uint64_t hash = 14695981039346656037ull;
    for (size_t i = 0; i < length; i++)
        hash = (hash ^ (uint8_t)at[i]) * 1099511628211ull;
    return hash_table_spread(hash ^ hash >> 32);
}

#define HASH_TABLE(name, owner, type, key_type)                                                    \
    __attribute__((unused)) static inline uint32_t name##_home(const struct hash_table *table,     \
                                                               const owner *of, key_type key) {    \
        return (uint32_t)((name##_hash(of, key) >> 32) * table->slots >> 32);                      \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline type *name##_slot(const struct hash_table *table,        \
                                                            const owner *of, key_type key) {       \
        type *slot = table->slot;                                                                  \
        uint32_t at = name##_home(table, of, key), last = table->slots - 1;                        \
        for (;; at++) {                                                                            \
            type *here = &slot[at & last];                                                         \
            if (!name##_holds(of, here) || name##_same(of, here, key))                             \
                return here;                                                                       \
        }                                                                                          \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline type *name##_find(const struct hash_table *table,        \
                                                            const owner *of, key_type key) {       \
        type *slot = table->slots ? name##_slot(table, of, key) : NULL;                            \
        return slot && name##_holds(of, slot) ? slot : NULL;                                       \
    }                                                                                              \
                                                                                                   \
    /* Into zeroed slots. Returns those that it had, for the owner to free. */                     \
    __attribute__((unused)) static inline void *name##_move(                                       \
        struct hash_table *table, const owner *of, void *to, uint32_t slots) {                     \
        struct hash_table moved = {to, slots, table->used};                                        \
        type *slot = table->slot;                                                                  \
        for (uint32_t i = 0; i < table->slots; i++)                                                \
            if (name##_holds(of, &slot[i]))                                                        \
                *name##_slot(&moved, of, name##_key(of, &slot[i])) = slot[i];                      \
        *table = moved;                                                                            \
        return slot;                                                                               \
    }                                                                                              \
                                                                                                   \
    /* For one more. */                                                                            \
    __attribute__((unused)) static inline bool name##_room(struct hash_table *table,               \
                                                           const owner *of) {                      \
        if (table->used < table->slots / 2)                                                        \
            return true;                                                                           \
        uint64_t slots = hash_table_slots((uint64_t)table->used + 1);                              \
        void *to = slots <= HASH_TABLE_MOST ? calloc(slots, sizeof(type)) : NULL;                  \
        if (to)                                                                                    \
            free(name##_move(table, of, to, (uint32_t)slots));                                     \
        return to != NULL;                                                                         \
    }                                                                                              \
                                                                                                   \
    /* Those behind it that could stand in its place move up, so that no gap ends a search. */     \
    __attribute__((unused)) static inline void name##_remove(struct hash_table *table,             \
                                                             const owner *of, type *gap) {         \
        type *slot = table->slot;                                                                  \
        uint32_t last = table->slots - 1, to = (uint32_t)(gap - slot);                             \
        for (uint32_t at = (to + 1) & last; name##_holds(of, &slot[at]); at = (at + 1) & last) {   \
            uint32_t home = name##_home(table, of, name##_key(of, &slot[at]));                     \
            if (((at - home) & last) < ((at - to) & last))                                         \
                continue;                                                                          \
            slot[to] = slot[at];                                                                   \
            to = at;                                                                               \
        }                                                                                          \
        slot[to] = (type){0};                                                                      \
        table->used--;                                                                             \
    }                                                                                              \
    _Static_assert(sizeof(type) > 0, "a semicolon may follow")

/* Of slots with a member `uint64_t key`, 0 where they hold nothing. Nobody is asked: `of` is NULL.
 */
#define HASH_TABLE_BY_KEY(name, type)                                                              \
    static inline bool name##_holds(const void *of, const type *slot) {                            \
        (void)of;                                                                                  \
        return slot->key != 0;                                                                     \
    }                                                                                              \
    static inline uint64_t name##_key(const void *of, const type *slot) {                          \
        (void)of;                                                                                  \
        return slot->key;                                                                          \
    }                                                                                              \
    static inline uint64_t name##_hash(const void *of, uint64_t key) {                             \
        (void)of;                                                                                  \
        return hash_table_spread(key);                                                             \
    }                                                                                              \
    static inline bool name##_same(const void *of, const type *slot, uint64_t key) {               \
        (void)of;                                                                                  \
        return slot->key == key;                                                                   \
    }                                                                                              \
    HASH_TABLE(name, void, type, uint64_t)

#endif
