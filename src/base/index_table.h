/* A hash table of records that stand elsewhere: it holds their numbers, and asks the owner for the
 * key of one. No two have the same key.
 *
 *     INDEX_TABLE(peers, struct delivery, key_of_peer)            -- keys are numbers; or, with
 *     INDEX_TABLE_OF(flows, struct capture, const struct tuple *, tuple_of_flow, hash, same)
 *     number = peers_find(&d->table, d, key);        -- INDEX_NONE: there is none
 *     if (!peers_add(&d->table, d, number))          -- no memory; the table is as before
 *     peers_remove(&d->table, d, number);            -- while its key is still what it was
 *     hash_table_free(&d->table);
 *
 * A look-up touches one line of it and the record. */
#ifndef SPIN_BASE_INDEX_TABLE_H
#define SPIN_BASE_INDEX_TABLE_H

#include "base/hash_table.h"

#define INDEX_NONE UINT32_MAX

static inline bool index_table_equal(uint64_t a, uint64_t b) {
    return a == b;
}

#define INDEX_TABLE(name, owner, key_of)                                                           \
    INDEX_TABLE_OF(name, owner, uint64_t, key_of, hash_table_spread, index_table_equal)

/* A slot is a number + 1. */
#define INDEX_TABLE_OF(name, owner, key_type, key_of, hash, same)                                  \
    static inline bool name##_numbers_holds(const owner *of, const uint32_t *slot) {               \
        (void)of;                                                                                  \
        return *slot != 0;                                                                         \
    }                                                                                              \
    static inline key_type name##_numbers_key(const owner *of, const uint32_t *slot) {             \
        return key_of(of, *slot - 1);                                                              \
    }                                                                                              \
    static inline uint64_t name##_numbers_hash(const owner *of, key_type key) {                    \
        (void)of;                                                                                  \
        return hash(key);                                                                          \
    }                                                                                              \
    static inline bool name##_numbers_same(const owner *of, const uint32_t *slot, key_type key) {  \
        return same(key_of(of, *slot - 1), key);                                                   \
    }                                                                                              \
    HASH_TABLE(name##_numbers, owner, uint32_t, key_type);                                         \
                                                                                                   \
    __attribute__((unused)) static inline uint32_t name##_find(const struct hash_table *table,     \
                                                               const owner *of, key_type key) {    \
        /* 0 - 1 is INDEX_NONE */                                                                  \
        return table->slots ? *name##_numbers_slot(table, of, key) - 1 : INDEX_NONE;               \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline bool name##_add(struct hash_table *table,                \
                                                          const owner *of, uint32_t number) {      \
        if (!name##_numbers_room(table, of))                                                       \
            return false;                                                                          \
        *name##_numbers_slot(table, of, key_of(of, number)) = number + 1;                          \
        table->used++;                                                                             \
        return true;                                                                               \
    }                                                                                              \
                                                                                                   \
    __attribute__((unused)) static inline void name##_remove(struct hash_table *table,             \
                                                             const owner *of, uint32_t number) {   \
        name##_numbers_remove(table, of, name##_numbers_slot(table, of, key_of(of, number)));      \
    }                                                                                              \
    _Static_assert(sizeof(owner) > 0, "a semicolon may follow")

#endif
