/* Pairing heaps of records in one array, named by index + 1, 0 being none: any number of heaps
 * share the array and its free list, joining two is O(1), and taking the least is O(log n)
 * amortised. For heaps that are many, or grow without limit, where an array for each (minheap.h)
 * would be in the way. Two members of the record link it: `child`, the first of those behind it,
 * and `next`, the one beside it.
 *
 *     PAIRING(releases, struct release, child, next, sooner)
 *     heap = releases_meld(all, heap, number);
 *     heap = releases_without_first(all, heap); */
#ifndef SPIN_BASE_PAIRING_H
#define SPIN_BASE_PAIRING_H

#include <stdint.h>

#define PAIRING(name, type, child, next, earlier)                                                  \
    /* The first of two heaps: the later one goes behind the earlier. */                           \
    __attribute__((unused)) static inline uint32_t name##_meld(type *all, uint32_t a,              \
                                                               uint32_t b) {                       \
        if (!a || !b)                                                                              \
            return a ? a : b;                                                                      \
        if (earlier(&all[b - 1], &all[a - 1])) {                                                   \
            uint32_t swap = a;                                                                     \
            a = b;                                                                                 \
            b = swap;                                                                              \
        }                                                                                          \
        all[b - 1].next = all[a - 1].child;                                                        \
        all[a - 1].child = b;                                                                      \
        return a;                                                                                  \
    }                                                                                              \
                                                                                                   \
    /* What is left when the first leaves: its children melded in pairs, then the pairs from the   \
     * right. Without recursion, since a heap may be as long as memory allows. */                  \
    __attribute__((unused)) static inline uint32_t name##_without_first(type *all,                 \
                                                                        uint32_t first) {          \
        uint32_t pairs = 0, heap = 0;                                                              \
        for (uint32_t a = all[first - 1].child; a;) {                                              \
            uint32_t b = all[a - 1].next, rest = b ? all[b - 1].next : 0;                          \
            all[a - 1].next = 0;                                                                   \
            if (b)                                                                                 \
                all[b - 1].next = 0;                                                               \
            uint32_t pair = name##_meld(all, a, b);                                                \
            all[pair - 1].next = pairs;                                                            \
            pairs = pair;                                                                          \
            a = rest;                                                                              \
        }                                                                                          \
        while (pairs) {                                                                            \
            uint32_t rest = all[pairs - 1].next;                                                   \
            all[pairs - 1].next = 0;                                                               \
            heap = name##_meld(all, heap, pairs);                                                  \
            pairs = rest;                                                                          \
        }                                                                                          \
        return heap;                                                                               \
    }                                                                                              \
    _Static_assert(sizeof(type) > 0, "a semicolon may follow")

#endif
