/* Binary search. */
#ifndef SPIN_BASE_SEARCH_H
#define SPIN_BASE_SEARCH_H

#include <stddef.h>

/* How many of `count` elements lie before a place in their order: `before`, an expression of `i`,
 * says so of element `i`, and is true of the first ones only. */
#define COUNT_BEFORE(i, count, before)                                                             \
    __extension__({                                                                                \
        size_t search_low = 0, search_high = (count);                                              \
        while (search_low < search_high) {                                                         \
            size_t i = search_low + (search_high - search_low) / 2;                                \
            if (before)                                                                            \
                search_low = i + 1;                                                                \
            else                                                                                   \
                search_high = i;                                                                   \
        }                                                                                          \
        search_low;                                                                                \
    })

#endif
