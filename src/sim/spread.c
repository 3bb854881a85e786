/* A hash table of values and counts. It grows with the number of different values, which is small
 * where they are whole cycles; a value that was seen before costs one look. */
#include "sim/spread.h"

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

void spread_add(struct spread *s, uint64_t value) {
    if (!s->count || value < s->least)
        s->least = value;
    if (value > s->most)
        s->most = value;
    s->count++;
    s->sum += value;
    struct spread_slot *at = values_find(&s->values, NULL, value);
    if (at) {
        at->count++;
    } else if (values_room(&s->values, NULL)) {
        *values_slot(&s->values, NULL, value) = (struct spread_slot){value, 1};
        s->values.used++;
    } else {
        s->lost++;
    }
}

static const struct spread *one_of(const struct spread_set *set, uint32_t i) {
    return (const struct spread *)((const char *)set->first + i * set->stride);
}

/* How many values begin with these digits, for each digit that may follow; a digit is 8 bits. */
static void count_digits(const struct spread_set *set, uint64_t prefix, unsigned shift,
                         uint64_t *count) {
    memset(count, 0, 256 * sizeof *count);
    for (uint32_t i = 0; i < set->count; i++) {
        const struct hash_table *values = &one_of(set, i)->values;
        const struct spread_slot *slot = values->slot;
        for (uint32_t k = 0; k < values->slots; k++)
            if (slot[k].value >> shift >> 8 == prefix)
                count[slot[k].value >> shift & 255] += slot[k].count;
    }
}

/* The value of that rank, 1 or more, of all in order; none is over `most`. */
static uint64_t of_rank(const struct spread_set *set, uint64_t rank, uint64_t most) {
    uint64_t count[256], value = 0;
    for (unsigned shift = 64; shift;) {
        shift -= 8;
        if (!(most >> shift))
            continue;
        uint64_t digit = 0;
        count_digits(set, value, shift, count);
        while (rank > count[digit])
            rank -= count[digit++];
        value = value << 8 | digit;
    }
    return value;
}

void spread_report(const struct spread_set *set, struct spin_spread *out) {
    uint64_t placed = 0;
    *out = (struct spin_spread){0};
    for (uint32_t i = 0; i < set->count; i++) {
        const struct spread *s = one_of(set, i);
        if (!s->count)
            continue;
        if (!out->count || s->least < out->least)
            out->least = s->least;
        if (s->most > out->most)
            out->most = s->most;
        out->count += s->count;
        out->sum += s->sum;
        placed += s->count - s->lost;
    }
    const struct {
        unsigned of_1000;
        uint64_t *to;
    } wanted[] = {{500, &out->p50}, {900, &out->p90}, {990, &out->p99}, {999, &out->p999}};
    for (size_t k = 0; placed && k < sizeof wanted / sizeof wanted[0]; k++) {
        uint64_t rank =
            placed / 1000 * wanted[k].of_1000 + (placed % 1000 * wanted[k].of_1000 + 999) / 1000;
        *wanted[k].to = of_rank(set, rank, out->most);
    }
}
