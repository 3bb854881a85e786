/* The constructors of MPI, all but the two for arrays. */
#include "datatype_type.h"

#include <stdlib.h>

/* ---- Bounds (MPI 4.0, section 5.1.6 and 5.1.7) ---- */

int64_t type_lb(const struct spin_type *t) {
    return t->marked ? t->mark_lb : t->true_lb;
}

/* Without a marker the extent is rounded up to the strictest alignment. */
int64_t type_ub(const struct spin_type *t) {
    if (t->marked)
        return t->mark_ub;
    int64_t extent = t->true_ub - t->true_lb, over = extent % t->alignment;
    return t->true_ub + (over ? t->alignment - over : 0);
}

int64_t type_extent(const struct spin_type *t) {
    return type_ub(t) - type_lb(t);
}

bool type_sum(int64_t a, int64_t b, int64_t c, int64_t *to) {
    return !__builtin_mul_overflow(a, b, to) && !__builtin_add_overflow(*to, c, to) &&
           *to <= TYPE_MOST && *to >= -TYPE_MOST;
}

static void keep_lowest(int64_t *bound, int64_t value) {
    if (value < *bound)
        *bound = value;
}

static void keep_highest(int64_t *bound, int64_t value) {
    if (value > *bound)
        *bound = value;
}

static void cover_one(struct spin_type *t, const struct spin_type *old, int64_t at) {
    if (old->has_data) {
        if (!t->has_data)
            t->true_lb = INT64_MAX, t->true_ub = INT64_MIN;
        t->has_data = true;
        keep_lowest(&t->true_lb, old->true_lb + at);
        keep_highest(&t->true_ub, old->true_ub + at);
    }
    if (old->marked) {
        if (!t->marked)
            t->mark_lb = INT64_MAX, t->mark_ub = INT64_MIN;
        t->marked = true;
        keep_lowest(&t->mark_lb, old->mark_lb + at);
        keep_highest(&t->mark_ub, old->mark_ub + at);
    }
}

void type_cover(struct spin_type *t, const struct spin_type *old, int64_t first, int64_t last) {
    cover_one(t, old, first);
    cover_one(t, old, last);
    keep_highest(&t->alignment, old->alignment);
}

/* ---- Making and asking ---- */

struct spin_type *type_new(void) {
    struct spin_type *t = calloc(1, sizeof *t);
    if (t)
        t->alignment = 1;
    return t;
}

int type_finish(struct spin_type *t, bool has_memory, struct spin_type **out) {
    if (!has_memory) {
        spin_type_free(t);
        t = NULL;
    }
    *out = t;
    return t ? PTL_OK : PTL_NO_SPACE;
}

void spin_type_free(struct spin_type *t) {
    if (t)
        part_drop(t->part);
    free(t);
}

uint64_t spin_type_size(const struct spin_type *t) {
    return t->part.bytes;
}

void spin_type_extent(const struct spin_type *t, ptrdiff_t *lb, ptrdiff_t *extent) {
    *lb = type_lb(t);
    *extent = type_extent(t);
}

void spin_type_true_extent(const struct spin_type *t, ptrdiff_t *lb, ptrdiff_t *extent) {
    *lb = t->true_lb;
    *extent = t->true_ub - t->true_lb;
}

int spin_type_basic(size_t bytes, size_t alignment, struct spin_type **type) {
    *type = NULL;
    if (!bytes || bytes > TYPE_MOST || !alignment || alignment & (alignment - 1) ||
        alignment > 1u << 30)
        return PTL_ARG_INVALID;
    struct spin_type *t = type_new();
    if (t) {
        t->part = part_bytes(bytes);
        t->has_data = true;
        t->true_ub = (int64_t)bytes;
        t->alignment = (int64_t)alignment;
    }
    return type_finish(t, t != NULL, type);
}

int spin_type_resized(struct spin_type *old, ptrdiff_t lb, ptrdiff_t extent,
                      struct spin_type **type) {
    *type = NULL;
    if (lb > TYPE_MOST || lb < -TYPE_MOST || extent > TYPE_MOST || extent < -TYPE_MOST)
        return PTL_ARG_INVALID;
    struct spin_type *t = type_new();
    if (t) {
        *t = *old;
        t->part = part_keep(old->part);
        t->marked = true;
        t->mark_lb = lb;
        t->mark_ub = lb + extent;
    }
    return type_finish(t, t != NULL, type);
}

/* ---- Blocks with displacements: what all the others are ---- */

/* Whether a block of so many of `old` at a displacement stays within the limit, and with `size` of
 * what was before it. */
static bool block_fits(const struct spin_type *old, int64_t length, int64_t at, int64_t *size) {
    int64_t end;
    return length >= 0 && type_sum(length, type_extent(old), at, &end) &&
           type_sum(length, (int64_t)old->part.bytes, *size, size);
}

static void cover_block(struct spin_type *t, const struct spin_type *old, int64_t length,
                        int64_t at) {
    if (length)
        type_cover(t, old, at, at + (length - 1) * type_extent(old));
}

int spin_type_hvector(int count, int blocklength, ptrdiff_t stride, struct spin_type *old,
                      struct spin_type **type) {
    int64_t last, size = 0;
    *type = NULL;
    if (count < 0 || !type_sum(count, stride, 0, &last) ||
        !block_fits(old, blocklength, last, &size) || !type_sum(count, size, 0, &size))
        return PTL_ARG_INVALID;
    struct spin_type *t = type_new();
    struct part block = {0}, all = {0};
    bool ok = t && part_repeat(old->part, (uint64_t)blocklength, type_extent(old), &block) &&
              part_repeat(block, (uint64_t)count, stride, &all);
    part_drop(block);
    if (ok) {
        if (count) {
            cover_block(t, old, blocklength, 0);
            cover_block(t, old, blocklength, (count - 1) * (int64_t)stride);
        }
        t->part = all;
    }
    return type_finish(t, ok, type);
}

int spin_type_vector(int count, int blocklength, int stride, struct spin_type *old,
                     struct spin_type **type) {
    int64_t bytes;
    *type = NULL;
    if (!type_sum(stride, type_extent(old), 0, &bytes))
        return PTL_ARG_INVALID;
    return spin_type_hvector(count, blocklength, bytes, old, type);
}

int spin_type_contiguous(int count, struct spin_type *old, struct spin_type **type) {
    return spin_type_hvector(1, count, 0, old, type);
}

/* Block i of a list: the arguments of any of the constructors below. */
struct blocks {
    int count;
    const int *lengths; /* NULL: all are `length` */
    int length;
    const int *displacements; /* in extents; NULL: */
    const ptrdiff_t *bytes;
    struct spin_type *const *types; /* NULL: all are `old` */
    struct spin_type *old;
};

struct block {
    struct spin_type *type;
    int64_t length, at;
};

/* False if it is over a limit. */
static bool block_at(const struct blocks *b, int i, struct block *block) {
    block->type = b->types ? b->types[i] : b->old;
    block->length = b->lengths ? b->lengths[i] : b->length;
    if (b->bytes)
        block->at = b->bytes[i];
    return b->bytes || type_sum(b->displacements[i], type_extent(b->old), 0, &block->at);
}

static bool blocks_fit(const struct blocks *b) {
    int64_t size = 0;
    struct block block;
    for (int i = 0; i < b->count; i++)
        if (!block_at(b, i, &block) || !block_fits(block.type, block.length, block.at, &size))
            return false;
    return b->count >= 0;
}

/* The parts of all blocks; neighbours of the same type and length share theirs. */
static bool make_parts(const struct blocks *b, struct spin_type *t, struct part *list) {
    struct block block, before = {0};
    for (int i = 0; i < b->count; i++) {
        block_at(b, i, &block);
        if (i && block.type == before.type && block.length == before.length) {
            list[i] = part_keep(list[i - 1]);
            list[i].offset += block.at - before.at;
        } else {
            if (!part_repeat(block.type->part, (uint64_t)block.length, type_extent(block.type),
                             &list[i]))
                return false;
            list[i].offset += block.at;
        }
        cover_block(t, block.type, block.length, block.at);
        before = block;
    }
    return true;
}

static int from_blocks(const struct blocks *b, struct spin_type **type) {
    *type = NULL;
    if (!blocks_fit(b))
        return PTL_ARG_INVALID;
    struct spin_type *t = type_new();
    struct part *list = calloc((size_t)b->count + 1, sizeof *list), all = {0};
    bool ok = t && list && make_parts(b, t, list);
    if (ok)
        ok = part_sequence(list, (uint64_t)b->count, &all);
    else
        for (int i = 0; list && i < b->count; i++)
            part_drop(list[i]);
    free(list);
    if (t)
        t->part = all;
    return type_finish(t, ok, type);
}

int spin_type_indexed(int count, const int *blocklengths, const int *displacements,
                      struct spin_type *old, struct spin_type **type) {
    return from_blocks(
        &(struct blocks){
            .count = count, .lengths = blocklengths, .displacements = displacements, .old = old},
        type);
}

int spin_type_hindexed(int count, const int *blocklengths, const ptrdiff_t *displacements,
                       struct spin_type *old, struct spin_type **type) {
    return from_blocks(
        &(struct blocks){
            .count = count, .lengths = blocklengths, .bytes = displacements, .old = old},
        type);
}

int spin_type_indexed_block(int count, int blocklength, const int *displacements,
                            struct spin_type *old, struct spin_type **type) {
    return from_blocks(
        &(struct blocks){
            .count = count, .length = blocklength, .displacements = displacements, .old = old},
        type);
}

int spin_type_hindexed_block(int count, int blocklength, const ptrdiff_t *displacements,
                             struct spin_type *old, struct spin_type **type) {
    return from_blocks(
        &(struct blocks){.count = count, .length = blocklength, .bytes = displacements, .old = old},
        type);
}

int spin_type_struct(int count, const int *blocklengths, const ptrdiff_t *displacements,
                     struct spin_type *const *types, struct spin_type **type) {
    return from_blocks(
        &(struct blocks){
            .count = count, .lengths = blocklengths, .bytes = displacements, .types = types},
        type);
}
