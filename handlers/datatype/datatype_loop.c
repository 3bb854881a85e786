#include "datatype_loop.h"

#include <stdlib.h>
#include <string.h>

struct part part_bytes(uint64_t bytes) {
    return (struct part){.bytes = bytes};
}

struct part part_keep(struct part part) {
    if (part.loop)
        part.loop->references++;
    return part;
}

/* A chain of loops is freed without recursion: it may be long. */
void part_drop(struct part part) {
    while (part.loop && --part.loop->references == 0) {
        struct loop *l = part.loop;
        part = l->element;
        if (l->part)
            for (uint64_t i = 0; i < l->count; i++)
                part_drop(l->part[i]);
        free(l->offset);
        free(l->part);
        free(l);
    }
}

uint32_t part_depth(struct part part) {
    return part.loop ? part.loop->depth : 0;
}

uint64_t part_regions(struct part part) {
    return part.loop ? part.loop->regions : part.bytes > 0;
}

static struct loop *new_loop(enum dataloop_kind kind, uint64_t count) {
    struct loop *l = calloc(1, sizeof *l);
    if (l)
        *l = (struct loop){.references = 1, .kind = kind, .count = count};
    return l;
}

/* What counts of all elements of a loop add up to; counts end at the highest number. */
static uint64_t product_of(uint64_t a, uint64_t b) {
    uint64_t product;
    return __builtin_mul_overflow(a, b, &product) ? UINT64_MAX : product;
}

static void set_element(struct loop *l, struct part element) {
    l->element = part_keep(element);
    l->element.offset = 0;
    l->bytes = l->count * element.bytes;
    l->regions = product_of(l->count, part_regions(element));
    l->depth = 1 + part_depth(element);
}

bool part_repeat(struct part part, uint64_t count, int64_t stride, struct part *out) {
    const struct loop *l = part.loop;
    *out = part_bytes(0);
    if (!count || !part.bytes)
        return true;
    *out = part_keep(part);
    if (count == 1)
        return true;
    out->bytes = count * part.bytes;
    if (!l && stride == (int64_t)part.bytes)
        return true;
    uint64_t merged = count;
    struct part element = part;
    if (l && l->kind == DATALOOP_VECTOR && stride == (int64_t)l->count * l->stride) {
        /* a vector that goes on at its own stride */
        merged = count * l->count;
        stride = l->stride;
        element = l->element;
    }
    out->loop = new_loop(DATALOOP_VECTOR, merged);
    if (out->loop) {
        set_element(out->loop, element);
        out->loop->stride = stride;
    }
    part_drop(part); /* kept above */
    return out->loop != NULL;
}

/* ---- Sequences ---- */

static bool same_loop(const struct loop *a, const struct loop *b, int levels) {
    if (a == b)
        return true;
    if (!a || !b || !levels || a->kind != b->kind || a->count != b->count || a->bytes != b->bytes)
        return false;
    if (a->kind == DATALOOP_INDEX || a->kind == DATALOOP_STRUCT)
        return false; /* comparing tables takes longer than they are worth */
    if (a->kind == DATALOOP_BLOCKINDEX &&
        memcmp(a->offset, b->offset, a->count * sizeof *a->offset) != 0)
        return false;
    return a->stride == b->stride && a->element.bytes == b->element.bytes &&
           same_loop(a->element.loop, b->element.loop, levels - 1);
}

static bool same_shape(struct part a, struct part b) {
    return a.bytes == b.bytes && same_loop(a.loop, b.loop, 3);
}

/* Without nothings, and with neighbours in memory as one. */
static uint64_t merge(struct part *list, uint64_t count) {
    uint64_t n = 0;
    for (uint64_t i = 0; i < count; i++) {
        struct part p = list[i], *last = n ? &list[n - 1] : NULL;
        if (!p.bytes)
            continue;
        if (last && !p.loop && !last->loop && p.offset == last->offset + (int64_t)last->bytes)
            last->bytes += p.bytes;
        else
            list[n++] = p;
    }
    return n;
}

static bool all_same(const struct part *list, uint64_t count) {
    for (uint64_t i = 1; i < count; i++)
        if (!same_shape(list[0], list[i]))
            return false;
    return true;
}

static bool evenly_spaced(const struct part *list, uint64_t count) {
    for (uint64_t i = 2; i < count; i++)
        if (list[i].offset - list[i - 1].offset != list[1].offset - list[0].offset)
            return false;
    return true;
}

static struct loop *block_index(const struct part *list, uint64_t count) {
    struct loop *l = new_loop(DATALOOP_BLOCKINDEX, count);
    if (!l)
        return NULL;
    set_element(l, list[0]);
    l->offset = malloc(count * sizeof *l->offset);
    if (!l->offset) {
        part_drop((struct part){.loop = l});
        return NULL;
    }
    for (uint64_t i = 0; i < count; i++)
        l->offset[i] = list[i].offset - list[0].offset;
    return l;
}

static struct loop *any_parts(const struct part *list, uint64_t count) {
    struct loop *l = new_loop(DATALOOP_INDEX, count);
    if (l)
        l->part = malloc(count * sizeof *l->part);
    if (!l || !l->part) {
        free(l);
        return NULL;
    }
    l->depth = 1;
    for (uint64_t i = 0; i < count; i++) {
        l->part[i] = part_keep(list[i]);
        l->part[i].offset -= list[0].offset;
        l->bytes += list[i].bytes;
        l->regions += part_regions(list[i]);
        if (list[i].loop)
            l->kind = DATALOOP_STRUCT;
        if (l->depth < 1 + part_depth(list[i]))
            l->depth = 1 + part_depth(list[i]);
    }
    return l;
}

static bool one_behind_the_other(const struct part *list, uint64_t count, struct part *out) {
    bool same = all_same(list, count);
    if (same && evenly_spaced(list, count))
        return part_repeat(list[0], count, count > 1 ? list[1].offset - list[0].offset : 0, out);
    for (uint64_t i = 0; i < count; i++)
        out->bytes += list[i].bytes;
    out->offset = list[0].offset;
    out->loop = same ? block_index(list, count) : any_parts(list, count);
    return out->loop != NULL;
}

bool part_sequence(struct part *list, uint64_t count, struct part *out) {
    *out = part_bytes(0);
    count = merge(list, count);
    bool ok = !count || one_behind_the_other(list, count, out);
    for (uint64_t i = 0; i < count; i++)
        part_drop(list[i]);
    return ok;
}
