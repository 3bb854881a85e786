/* Parts of arrays: subarray and darray (MPI 4.0, sections 5.1.3 and 5.1.4). Both are, for each
 * dimension from the one whose elements are neighbours outwards, some of its indices. */
#include <stdlib.h>

#include "datatype_type.h"

/* The part of one dimension: `length` indices from `first` on, and again every `period`, up to
 * `size`. */
struct slice {
    int64_t size, first, length, period;
};

/* How many whole lengths there are, and how many indices are left of one that is cut off. */
static int64_t whole(const struct slice *s) {
    if (s->first >= s->size)
        return 0;
    int64_t span = s->size - s->first, n = span / s->period;
    return n + (span - n * s->period >= s->length);
}

static int64_t cut_off(const struct slice *s) {
    int64_t left = s->size - s->first - whole(s) * s->period;
    return left > 0 ? left : 0;
}

/* The last index of it, or -1. */
static int64_t last_of(const struct slice *s) {
    int64_t n = whole(s), rest = cut_off(s);
    if (rest)
        return s->first + n * s->period + rest - 1;
    return n && s->length ? s->first + (n - 1) * s->period + s->length - 1 : -1;
}

/* *part becomes those of its copies, `stride` apart, that the slice takes. */
static bool take(const struct slice *s, int64_t stride, struct part *part) {
    struct part list[2] = {{0}}, block = {0}, old = *part;
    int64_t n = whole(s);
    bool ok = part_repeat(old, (uint64_t)s->length, stride, &block) &&
              part_repeat(block, (uint64_t)n, s->period * stride, &list[0]) &&
              part_repeat(old, (uint64_t)cut_off(s), stride, &list[1]);
    part_drop(block);
    part_drop(old);
    list[0].offset += s->first * stride;
    list[1].offset += (s->first + n * s->period) * stride;
    *part = (struct part){0};
    if (ok)
        return part_sequence(list, 2, part);
    part_drop(list[0]);
    part_drop(list[1]);
    return false;
}

static bool is_within_limits(int dimensions, const struct slice *slice,
                             const struct spin_type *old) {
    int64_t all = 1, extent;
    for (int d = 0; d < dimensions; d++)
        if (!type_sum(all, slice[d].size, 0, &all))
            return false;
    return type_sum(all, (int64_t)old->part.bytes, 0, &extent) &&
           type_sum(all, llabs(type_extent(old)), 0, &extent);
}

/* slice[0] is of the dimension whose elements are neighbours. */
static int from_slices(int dimensions, const struct slice *slice, struct spin_type *old,
                       struct spin_type **type) {
    int64_t stride = type_extent(old), low = 0, high = 0;
    *type = NULL;
    if (!is_within_limits(dimensions, slice, old))
        return PTL_ARG_INVALID;
    struct spin_type *t = type_new();
    struct part part = part_keep(old->part);
    bool ok = t != NULL, empty = false;
    for (int d = 0; ok && d < dimensions; d++) {
        int64_t first = slice[d].first, last = last_of(&slice[d]);
        empty |= last < 0;
        low += (stride < 0 ? last : first) * stride;
        high += (stride < 0 ? first : last) * stride;
        ok = take(&slice[d], stride, &part);
        stride *= slice[d].size;
    }
    if (ok) {
        if (!empty)
            type_cover(t, old, low, high);
        t->part = part;
        t->marked = true;
        t->mark_lb = 0;
        t->mark_ub = stride;
        t->alignment = old->alignment;
    } else {
        part_drop(part);
    }
    return type_finish(t, ok, type);
}

/* The place of dimension d of so many in the order of neighbours. */
static int place(int d, int dimensions, enum spin_type_order order) {
    return order == SPIN_ORDER_C ? dimensions - 1 - d : d;
}

int spin_type_subarray(int dimensions, const int *sizes, const int *subsizes, const int *starts,
                       enum spin_type_order order, struct spin_type *old, struct spin_type **type) {
    *type = NULL;
    if (dimensions < 1)
        return PTL_ARG_INVALID;
    struct slice *slice = calloc((size_t)dimensions, sizeof *slice);
    if (!slice)
        return PTL_NO_SPACE;
    int code = PTL_OK;
    for (int d = 0; d < dimensions; d++) {
        if (sizes[d] < 1 || subsizes[d] < 1 || subsizes[d] > sizes[d] || starts[d] < 0 ||
            starts[d] > sizes[d] - subsizes[d])
            code = PTL_ARG_INVALID;
        /* one length: the period is beyond the end */
        slice[place(d, dimensions, order)] =
            (struct slice){sizes[d], starts[d], subsizes[d], (int64_t)sizes[d] + 1};
    }
    if (code == PTL_OK)
        code = from_slices(dimensions, slice, old, type);
    free(slice);
    return code;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* What the process at a coordinate has of a dimension. False: MPI does not allow it. */
static bool distribute(enum spin_type_distribution how, int64_t size, int64_t argument,
                       int64_t processes, int64_t coordinate, struct slice *s) {
    bool by_default = argument == SPIN_DISTRIBUTE_DEFAULT;
    if (size < 1 || processes < 1 || (argument < 1 && !by_default))
        return false;
    int64_t length = argument, period = size + 1;
    if (how == SPIN_DISTRIBUTE_NONE) {
        if (processes != 1)
            return false;
        length = size;
    } else if (how == SPIN_DISTRIBUTE_BLOCK) {
        if (by_default)
            length = (size + processes - 1) / processes;
        if (length * processes < size)
            return false;
    } else {
        if (by_default)
            length = 1;
        period = length * processes;
    }
    /* What is beyond the end makes no difference, but might overflow. */
    *s = (struct slice){.size = size,
                        .first = least(coordinate * length, size),
                        .length = least(length, size + 1),
                        .period = least(period, size + 1)};
    return true;
}

int spin_type_darray(int size, int rank, int dimensions, const int *global_sizes,
                     const enum spin_type_distribution *distributions, const int *arguments,
                     const int *process_sizes, enum spin_type_order order, struct spin_type *old,
                     struct spin_type **type) {
    *type = NULL;
    if (dimensions < 1 || rank < 0 || rank >= size)
        return PTL_ARG_INVALID;
    struct slice *slice = calloc((size_t)dimensions, sizeof *slice);
    if (!slice)
        return PTL_NO_SPACE;
    int code = PTL_OK, left = rank;
    for (int d = dimensions - 1; code == PTL_OK && d >= 0; d--) {
        /* processes are counted row by row, whatever the order of the array */
        int processes = process_sizes[d] > 0 ? process_sizes[d] : 1;
        if (process_sizes[d] < 1 || size % processes ||
            !distribute(distributions[d], global_sizes[d], arguments[d], processes,
                        left % processes, &slice[place(d, dimensions, order)]))
            code = PTL_ARG_INVALID;
        left /= processes;
        size /= processes;
    }
    if (code == PTL_OK && size != 1)
        code = PTL_ARG_INVALID;
    if (code == PTL_OK)
        code = from_slices(dimensions, slice, old, type);
    free(slice);
    return code;
}
