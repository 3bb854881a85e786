/* A table of values and counts, open addressing. It grows with the number of different values,
 * which is small where they are whole cycles; a value that was seen before costs one look. */
#include "sim/spread.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_SLOTS 64u

void spread_free(struct spread *s) {
    free(s->slot);
    *s = (struct spread){0};
}

static uint32_t first_slot(const struct spread *s, uint64_t value) {
    return (uint32_t)(value * 0x9e3779b97f4a7c15ull >> 32) & (s->slots - 1);
}

static struct spread_slot *find(const struct spread *s, uint64_t value) {
    uint32_t mask = s->slots - 1, i = first_slot(s, value);
    while (s->slot[i].count && s->slot[i].value != value)
        i = (i + 1) & mask;
    return &s->slot[i];
}

static bool grow(struct spread *s) {
    struct spread larger = {.slots = s->slots ? 2 * s->slots : FIRST_SLOTS};
    if (!larger.slots || !(larger.slot = calloc(larger.slots, sizeof *larger.slot)))
        return false;
    for (uint32_t i = 0; i < s->slots; i++)
        if (s->slot[i].count)
            *find(&larger, s->slot[i].value) = s->slot[i];
    free(s->slot);
    s->slot = larger.slot;
    s->slots = larger.slots;
    return true;
}

static void place(struct spread *s, uint64_t value, uint64_t count) {
    struct spread_slot *at = s->slots ? find(s, value) : NULL;
    if (!at || !at->count) {
        if (2 * (s->used + 1) > s->slots) {
            if (!grow(s)) {
                s->lost += count;
                return;
            }
            at = find(s, value);
        }
        at->value = value;
        s->used++;
    }
    at->count += count;
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
    for (uint32_t i = 0; i < from->slots; i++)
        if (from->slot[i].count)
            place(to, from->slot[i].value, from->slot[i].count);
}

static int by_value(const void *a, const void *b) {
    const struct spread_slot *p = a, *q = b;
    return p->value < q->value ? -1 : p->value > q->value;
}

/* The values in order, in an array of its own. NULL: none, or no memory. */
static struct spread_slot *in_order(const struct spread *s) {
    struct spread_slot *sorted = s->used ? malloc(s->used * sizeof *sorted) : NULL;
    uint32_t n = 0;
    if (!sorted)
        return NULL;
    for (uint32_t i = 0; i < s->slots; i++)
        if (s->slot[i].count)
            sorted[n++] = s->slot[i];
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
        while (at < s->used && seen + sorted[at].count < rank)
            seen += sorted[at++].count;
        *wanted[k].to = sorted[at].value * scale;
    }
    free(sorted);
}
