/* A distribution of whole numbers, exact: how often each value was seen. */
#ifndef SPIN_SIM_SPREAD_H
#define SPIN_SIM_SPREAD_H

#include <stdbool.h>

#include "base/hash_table.h"
#include "openspin.h"

struct spread_slot {
    uint64_t value, count; /* count 0: free */
};

/* All zero is an empty one. `lost` values found no memory: they are in count, sum, least and most,
 * and in no percentile. */
struct spread {
    uint64_t count, sum, least, most, lost;
    struct hash_table values;
};

void spread_free(struct spread *s);
void spread_add(struct spread *s, uint64_t value);
/* Distributions that lie `stride` bytes apart, to be reported as one. */
struct spread_set {
    const struct spread *first;
    size_t stride;
    uint32_t count;
};

/* Percentiles are by nearest rank: the least value that so many of 1,000 do not exceed. It needs no
 * memory, so figures are right or the values were lost before. */
void spread_report(const struct spread_set *set, struct spin_spread *out);

#endif
