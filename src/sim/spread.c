/* A hash table of values and counts. It grows with the number of different values, which is small
 * where they are whole cycles; a value that was seen before costs one look. */
#include "sim/spread.h"

#include <stdlib.h>
#include <string.h>

void spread_free(struct spread *s) {
    hash_table_free(&s->values);
    *s = (struct spread){0};
}

static bool values_holds(const void *of, const struct spread_slot *slot) {
    (void)of;
    return slot->count != 0;
}
static uint64_t values_key(const void *of, const struct spread_slot *slot) {
    (void)of;
    return slot->value;
}
static uint64_t values_hash(const void *of, uint64_t value) {
    (void)of;
    return hash_table_spread(value);
}
static bool values_same(const void *of, const struct spread_slot *slot, uint64_t value) {
    (void)of;
    return slot->value == value;
}
HASH_TABLE(values, void, struct spread_slot, uint64_t);

static void place(struct spread *s, uint64_t value, uint64_t count) {
    struct spread_slot *at = values_find(&s->values, NULL, value);
    if (at) {
        at->count += count;
    } else if (values_room(&s->values, NULL)) {
        *values_slot(&s->values, NULL, value) = (struct spread_slot){value, count};
        s->values.used++;
    } else {
        s->lost += count;
    }
}

void spread_add(struct spread *s, uint64_t value) {
    if (!s->count || value < s->least)
        s->least = value;
    if (value > s->most)
        s->most = value;
    s->count++;
    s->sum += value;
    place(s, value, 1);
}

void spread_merge(struct spread *to, const struct spread *from) {
    if (!from->count)
        return;
    if (!to->count || from->least < to->least)
        to->least = from->least;
    if (from->most > to->most)
        to->most = from->most;
    to->count += from->count;
    to->sum += from->sum;
    to->lost += from->lost;
    const struct spread_slot *slot = from->values.slot;
    for (uint32_t i = 0; i < from->values.slots; i++)
        if (slot[i].count)
            place(to, slot[i].value, slot[i].count);
}

static int by_value(const void *a, const void *b) {
    const struct spread_slot *p = a, *q = b;
    return p->value < q->value ? -1 : p->value > q->value;
}

/* The values in order, in an array of its own. NULL: none, or no memory. */
static struct spread_slot *in_order(const struct spread *s) {
    const struct spread_slot *slot = s->values.slot;
    struct spread_slot *sorted = s->values.used ? malloc(s->values.used * sizeof *sorted) : NULL;
    uint32_t n = 0;
    if (!sorted)
        return NULL;
    for (uint32_t i = 0; i < s->values.slots; i++)
        if (slot[i].count)
            sorted[n++] = slot[i];
    qsort(sorted, n, sizeof *sorted, by_value);
    return sorted;
}

void spread_report(const struct spread *s, uint64_t scale, struct spin_spread *out) {
    *out = (struct spin_spread){.count = s->count,
                                .sum = s->sum * scale,
                                .least = s->least * scale,
                                .most = s->most * scale};
    struct spread_slot *sorted = in_order(s);
    const struct {
        unsigned of_1000;
        uint64_t *to;
    } wanted[] = {{500, &out->p50}, {900, &out->p90}, {990, &out->p99}, {999, &out->p999}};
    uint64_t placed = s->count - s->lost, seen = 0;
    uint32_t at = 0;
    for (size_t k = 0; sorted && k < sizeof wanted / sizeof wanted[0]; k++) {
        uint64_t rank =
            placed / 1000 * wanted[k].of_1000 + (placed % 1000 * wanted[k].of_1000 + 999) / 1000;
        while (at < s->values.used && seen + sorted[at].count < rank)
            seen += sorted[at++].count;
        *wanted[k].to = sorted[at].value * scale;
    }
    free(sorted);
}
