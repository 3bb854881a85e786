/* What clients, cards and processors of transactions share, and the protocol of an owner: it is the
 * same code on a card and on a processor.
 *
 * A transaction locks at its commit, at all owners, before anything is decided: what it writes for
 * itself, what it has read against writers. Whoever finds a lock says no instead of waiting, so
 * there is no deadlock. When all owners have said yes, all locks are held at that moment and all
 * versions are those that were read: there the transaction takes effect. */
#ifndef TX_LAYOUT_H
#define TX_LAYOUT_H

#include <stdint.h>

#define TX_LOG         64u /* reads of a transaction, from one owner */
#define TX_SERIAL_MASK 0xfffffu

/* Match bits: a kind, and of a read the transaction's serial number. */
enum {
    TX_READ = 1,
    TX_REQUEST = 2, /* to an owner's card: a tx_request, one packet */
    TX_WORK = 3,    /* to an owner's processor */
    TX_REPLY = 4,   /* no data: TX_ANSWER in the header */
};
#define TX_READ_BITS(serial)   (TX_READ | (uint64_t)(serial) << 8)
#define TX_ANSWER(serial, yes) ((uint64_t)(serial) << 1 | (yes))

enum tx_kind {
    TX_PREPARE, /* lock and validate, */
    TX_INSTALL, /* write and unlock, */
    TX_ABORT,   /* or only unlock; */
    TX_WHOLE,   /* all of it at once, for the only owner */
    TX_KINDS
};

struct tx_access {
    uint32_t record, version;
};
/* Behind it: `writes` numbers of records; for a processor `reads` tx_access, which a card has in
 * its log; with TX_INSTALL and TX_WHOLE the data of each record written. */
struct tx_request {
    uint32_t kind, client, serial, reads, writes;
    uint32_t record[];
};

/* A record: a number that grows with each change, and its lock: free (0), so many readers, or
 * TX_WRITER and the client. */
#define TX_WRITER 0x80000000u
struct tx_record {
    uint32_t version, lock;
};

/* A client's reads: serial << 12 | count, in one word. */
struct tx_log {
    uint32_t reads;
    uint32_t held; /* serial + 1 of the transaction that holds locks, or 0 */
    struct tx_access access[TX_LOG];
};

/* On the card: then the records, then a log per client. */
struct tx_state {
    uint32_t clients, records, record_shift, planted_bug;
    struct tx_record record[];
};
static inline struct tx_log *tx_log_of(struct tx_state *s, uint32_t client) {
    return (struct tx_log *)(s->record + s->records) + client;
}

/* What is locked: by one transaction, at one owner. */
struct tx_set {
    struct tx_record *table;
    uint32_t records, client;
    const uint32_t *write;
    const struct tx_access *read;
    uint32_t writes, reads;
    uint32_t planted_bug;
};

/* Reads before writes: a record that is both is known by its writer's lock. */
static inline void tx_unlock(const struct tx_set *s, uint32_t writes, uint32_t reads) {
    for (uint32_t i = 0; i < reads && !s->planted_bug; i++) {
        struct tx_record *r = &s->table[s->read[i].record];
        if (__atomic_load_n(&r->lock, __ATOMIC_RELAXED) != (TX_WRITER | s->client))
            __atomic_fetch_sub(&r->lock, 1, __ATOMIC_RELEASE);
    }
    for (uint32_t i = 0; i < writes; i++)
        __atomic_store_n(&s->table[s->write[i]].lock, 0, __ATOMIC_RELEASE);
}

/* False: another transaction writes it. */
static inline int tx_lock_read(struct tx_record *r, uint32_t client, uint32_t planted_bug) {
    uint32_t lock = __atomic_load_n(&r->lock, __ATOMIC_ACQUIRE);
    do {
        if (lock == (TX_WRITER | client))
            return 1;
        if (lock & TX_WRITER)
            return 0;
    } while (!planted_bug && !__atomic_compare_exchange_n(&r->lock, &lock, lock + 1, 0,
                                                          __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE));
    return 1;
}

/* All locks, with the versions as they were read, or none. */
static inline int tx_lock(const struct tx_set *s) {
    uint32_t writes = 0, reads = 0;
    int valid = 1;
    for (; valid && writes < s->writes; writes += (uint32_t)valid) {
        uint32_t number = s->write[writes], is_free = 0;
        valid = number < s->records &&
                __atomic_compare_exchange_n(&s->table[number].lock, &is_free, TX_WRITER | s->client,
                                            0, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
    }
    while (valid && reads < s->reads) {
        const struct tx_access *a = &s->read[reads];
        valid =
            a->record < s->records && tx_lock_read(&s->table[a->record], s->client, s->planted_bug);
        reads += (uint32_t)valid;
        valid = valid && s->table[a->record].version == a->version;
    }
    if (!valid)
        tx_unlock(s, writes, reads);
    return valid;
}

#endif
