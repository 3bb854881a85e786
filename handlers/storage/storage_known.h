/* Capabilities that a card has found genuine. A client shows one many times, and computing its MAC
 * takes most of the instructions of a header handler: a capability that is the same, word by word
 * and with the same MAC, as one that was checked under today's keys is genuine too.
 *
 * Each may be at two places, which its MAC says. Handlers read while another writes: what they have
 * read counts if `turn` was even and is still the same. */
#ifndef STORAGE_KNOWN_H
#define STORAGE_KNOWN_H

#include <stdint.h>

#include "storage_mac.h"

#define STORAGE_KNOWN       64u /* places, a power of two */
#define STORAGE_KNOWN_WORDS 7u  /* of a capability, and two of each place of its extent */
#define STORAGE_KNOWN_MOST  35u

struct storage_known {
    uint32_t turn;  /* odd: somebody writes */
    uint32_t epoch; /* of the keys that it was checked with; 0: nothing is here */
    uint32_t places;
    uint32_t mac[2], session[2];
    uint32_t word[STORAGE_KNOWN_MOST];
};

/* Those of a card. The epoch, never 0, changes with every key that is set, and is read before the
 * key is: what was checked with a key that has gone meanwhile is known to nobody. */
struct storage_known_table {
    struct storage_known *place;
    uint32_t epoch;
    uint32_t *learnt; /* how many were told to storage_know() */
};

/* The first (0) or the second (1) of its places. */
static inline struct storage_known *storage_known_at(const struct storage_known_table *t,
                                                     const uint32_t mac[2], int which) {
    return &t->place[mac[which] % STORAGE_KNOWN];
}

static inline int storage_known_has(const struct storage_known_table *t,
                                    const struct storage_known *k, const uint32_t mac[2]) {
    return k->epoch == t->epoch && storage_mac_equal(k->mac, mac);
}

/* How many places of an extent a capability with this MAC has, and its session key; 0: it is not
 * known. In the same time whatever differs in the MAC; what else differs is no secret. */
static inline uint32_t storage_known_places(const struct storage_known_table *t,
                                            const void *capability, const uint32_t mac[2],
                                            uint32_t session[2]) {
    const struct storage_known *k = storage_known_at(t, mac, 0);
    if (!storage_known_has(t, k, mac))
        k = storage_known_at(t, mac, 1);
    const uint32_t *word = (const uint32_t *)capability, *at = k->word;
    uint32_t turn = __atomic_load_n(&k->turn, __ATOMIC_ACQUIRE);
    if (turn & 1 || !storage_known_has(t, k, mac))
        return 0;
    for (uint32_t i = 0; i < STORAGE_KNOWN_WORDS; i++)
        if (at[i] != word[i])
            return 0;
    at += STORAGE_KNOWN_WORDS;
    word += STORAGE_KNOWN_WORDS;
    uint32_t places = k->places;
    for (const uint32_t *end = at + 2 * places; at != end; at += 2, word += 2)
        if (at[0] != word[0] || at[1] != word[1])
            return 0;
    session[0] = k->session[0];
    session[1] = k->session[1];
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&k->turn, __ATOMIC_RELAXED) == turn ? places : 0;
}

/* Takes a place that is free, or that of another; if a handler is writing there, that one stays. */
static __attribute__((noinline, unused)) void storage_know(const struct storage_known_table *t,
                                                           const void *capability, uint32_t places,
                                                           const uint32_t mac[2],
                                                           const uint32_t session[2]) {
    uint32_t before = __atomic_fetch_add(t->learnt, 1, __ATOMIC_RELAXED);
    struct storage_known *k = storage_known_at(t, mac, 0);
    if (k->epoch == t->epoch && !storage_mac_equal(k->mac, mac)) {
        struct storage_known *second = storage_known_at(t, mac, 1);
        if (second->epoch != t->epoch || before % 2)
            k = second;
    }
    uint32_t turn = __atomic_load_n(&k->turn, __ATOMIC_RELAXED) & ~1u;
    if (!__atomic_compare_exchange_n(&k->turn, &turn, turn + 1, 0, __ATOMIC_ACQUIRE,
                                     __ATOMIC_RELAXED))
        return;
    __atomic_thread_fence(__ATOMIC_RELEASE);
    k->epoch = t->epoch;
    k->places = places;
    for (int i = 0; i < 2; i++) {
        k->mac[i] = mac[i];
        k->session[i] = session[i];
    }
    for (uint32_t i = 0; i < STORAGE_KNOWN_WORDS + 2 * places; i++)
        k->word[i] = ((const uint32_t *)capability)[i];
    __atomic_store_n(&k->turn, turn + 2, __ATOMIC_RELEASE);
}

#endif
