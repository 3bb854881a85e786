/* Random derived datatypes, for tests: a tree of constructors with their arguments, from which a
 * test makes the type with any library; and its type map by the letter of MPI 4.0 (section 5.1),
 * entry by entry, slow and obvious. */
#ifndef TEST_TYPE_TREE_H
#define TEST_TYPE_TREE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "spinlib/datatype.h"

enum tree_kind {
    TREE_BASIC,
    TREE_CONTIGUOUS,
    TREE_VECTOR,
    TREE_HVECTOR,
    TREE_INDEXED,
    TREE_HINDEXED,
    TREE_INDEXED_BLOCK,
    TREE_HINDEXED_BLOCK,
    TREE_STRUCT,
    TREE_SUBARRAY,
    TREE_DARRAY,
    TREE_RESIZED,
    TREE_KINDS
};

enum { TREE_ARGUMENTS = 6 };
static const int tree_basic_bytes[] = {1, 2, 4, 8}; /* char, short, int, double */

struct tree {
    enum tree_kind kind;
    int count, length, basic;
    int64_t stride, lb, extent;
    int lengths[TREE_ARGUMENTS];
    int64_t at[TREE_ARGUMENTS];
    int sizes[3], subsizes[3], starts[3]; /* and dimensions in count */
    int distribution[3], argument[3], processes[3], ranks, rank;
    bool fortran;
    struct tree *child[TREE_ARGUMENTS];
    int children;
};

/* ---- The type map ---- */

struct entry {
    int64_t at;
    int bytes; /* of data, or 0: */
    enum { ENTRY_DATA, ENTRY_LB, ENTRY_UB } mark;
};
struct map {
    struct entry *entry;
    size_t count, room;
};

static void map_add(struct map *m, struct entry e) {
    if (m->count == m->room) {
        m->room = 2 * m->room + 64;
        m->entry = realloc(m->entry, m->room * sizeof *m->entry);
    }
    m->entry[m->count++] = e;
}

static void map_copy(struct map *to, const struct map *from, int64_t at, bool markers) {
    for (size_t i = 0; i < from->count; i++) {
        struct entry e = from->entry[i];
        e.at += at;
        if (markers || e.mark == ENTRY_DATA)
            map_add(to, e);
    }
}

struct bounds {
    int64_t size, lb, extent, true_lb, true_extent;
};

static struct bounds map_bounds(const struct map *m) {
    int64_t low = INT64_MAX, high = INT64_MIN, lb = INT64_MAX, ub = INT64_MIN, align = 1;
    struct bounds b = {0};
    for (size_t i = 0; i < m->count; i++) {
        struct entry e = m->entry[i];
        if (e.mark == ENTRY_LB)
            lb = e.at < lb ? e.at : lb;
        else if (e.mark == ENTRY_UB)
            ub = e.at > ub ? e.at : ub;
        else {
            low = e.at < low ? e.at : low;
            high = e.at + e.bytes > high ? e.at + e.bytes : high;
            align = e.bytes > align ? e.bytes : align;
            b.size += e.bytes;
        }
    }
    if (b.size) {
        b.true_lb = low;
        b.true_extent = high - low;
    }
    if (lb != INT64_MAX) {
        b.lb = lb;
        b.extent = ub - lb;
    } else {
        b.lb = b.true_lb;
        b.extent = (b.true_extent + align - 1) / align * align;
    }
    return b;
}

static void map_block(struct map *to, const struct map *old, int64_t length, int64_t at) {
    int64_t extent = map_bounds(old).extent;
    for (int64_t i = 0; i < length; i++)
        map_copy(to, old, at + i * extent, true);
}

static bool is_mine(const struct tree *t, int d, int i, int coordinate) {
    int size = t->sizes[d], p = t->processes[d], a = t->argument[d];
    if (t->kind == TREE_SUBARRAY)
        return i >= t->starts[d] && i < t->starts[d] + t->subsizes[d];
    if (t->distribution[d] == SPIN_DISTRIBUTE_NONE)
        return true;
    if (t->distribution[d] == SPIN_DISTRIBUTE_BLOCK)
        return i / (a == SPIN_DISTRIBUTE_DEFAULT ? (size + p - 1) / p : a) == coordinate;
    return i / (a == SPIN_DISTRIBUTE_DEFAULT ? 1 : a) % p == coordinate;
}

/* Every element of the array in the order of memory, if it is this process's. */
static void map_array(struct map *to, const struct map *old, const struct tree *t) {
    int64_t extent = map_bounds(old).extent, all = 1;
    int coordinate[3] = {0}, left = t->rank;
    for (int d = t->count - 1; d >= 0; d--) {
        all *= t->sizes[d];
        if (t->kind == TREE_DARRAY) {
            coordinate[d] = left % t->processes[d];
            left /= t->processes[d];
        }
    }
    for (int64_t i = 0; i < all; i++) {
        int64_t rest = i;
        bool mine = true;
        for (int k = 0; k < t->count; k++) {
            int d = t->fortran ? k : t->count - 1 - k;
            mine &= is_mine(t, d, (int)(rest % t->sizes[d]), coordinate[d]);
            rest /= t->sizes[d];
        }
        if (mine)
            map_copy(to, old, i * extent, false);
    }
    map_add(to, (struct entry){.at = 0, .mark = ENTRY_LB});
    map_add(to, (struct entry){.at = all * extent, .mark = ENTRY_UB});
}

static struct map tree_map(const struct tree *t) {
    struct map m = {0}, old[TREE_ARGUMENTS] = {{0}};
    for (int i = 0; i < t->children; i++)
        old[i] = tree_map(t->child[i]);
    int64_t extent = t->children ? map_bounds(&old[0]).extent : 0;
    bool by_bytes = t->kind == TREE_HVECTOR || t->kind == TREE_HINDEXED ||
                    t->kind == TREE_HINDEXED_BLOCK || t->kind == TREE_STRUCT;
    bool one_length = t->kind == TREE_INDEXED_BLOCK || t->kind == TREE_HINDEXED_BLOCK;
    switch (t->kind) {
    case TREE_BASIC:
        map_add(&m, (struct entry){.bytes = tree_basic_bytes[t->basic]});
        break;
    case TREE_CONTIGUOUS:
        map_block(&m, &old[0], t->count, 0);
        break;
    case TREE_VECTOR:
    case TREE_HVECTOR:
        for (int i = 0; i < t->count; i++)
            map_block(&m, &old[0], t->length, i * t->stride * (by_bytes ? 1 : extent));
        break;
    case TREE_SUBARRAY:
    case TREE_DARRAY:
        map_array(&m, &old[0], t);
        break;
    case TREE_RESIZED:
        map_copy(&m, &old[0], 0, false);
        map_add(&m, (struct entry){.at = t->lb, .mark = ENTRY_LB});
        map_add(&m, (struct entry){.at = t->lb + t->extent, .mark = ENTRY_UB});
        break;
    default:
        for (int i = 0; i < t->count; i++)
            map_block(&m, &old[t->kind == TREE_STRUCT ? i : 0],
                      one_length ? t->length : t->lengths[i], t->at[i] * (by_bytes ? 1 : extent));
    }
    for (int i = 0; i < t->children; i++)
        free(old[i].entry);
    return m;
}

/* ---- The same of spinlib ---- */

static struct spin_type *tree_type(const struct tree *t) {
    struct spin_type *old[TREE_ARGUMENTS] = {0}, *type = NULL;
    int at[TREE_ARGUMENTS], code = PTL_OK;
    ptrdiff_t bytes[TREE_ARGUMENTS];
    enum spin_type_distribution distribution[3];
    enum spin_type_order order = t->fortran ? SPIN_ORDER_FORTRAN : SPIN_ORDER_C;
    for (int i = 0; i < t->children; i++)
        old[i] = tree_type(t->child[i]);
    for (int i = 0; i < TREE_ARGUMENTS; i++) {
        at[i] = (int)t->at[i];
        bytes[i] = t->at[i];
    }
    for (int d = 0; d < 3; d++)
        distribution[d] = (enum spin_type_distribution)t->distribution[d];
    switch (t->kind) {
    case TREE_BASIC:
        code = spin_type_basic((size_t)tree_basic_bytes[t->basic],
                               (size_t)tree_basic_bytes[t->basic], &type);
        break;
    case TREE_CONTIGUOUS:
        code = spin_type_contiguous(t->count, old[0], &type);
        break;
    case TREE_VECTOR:
        code = spin_type_vector(t->count, t->length, (int)t->stride, old[0], &type);
        break;
    case TREE_HVECTOR:
        code = spin_type_hvector(t->count, t->length, t->stride, old[0], &type);
        break;
    case TREE_INDEXED:
        code = spin_type_indexed(t->count, t->lengths, at, old[0], &type);
        break;
    case TREE_HINDEXED:
        code = spin_type_hindexed(t->count, t->lengths, bytes, old[0], &type);
        break;
    case TREE_INDEXED_BLOCK:
        code = spin_type_indexed_block(t->count, t->length, at, old[0], &type);
        break;
    case TREE_HINDEXED_BLOCK:
        code = spin_type_hindexed_block(t->count, t->length, bytes, old[0], &type);
        break;
    case TREE_STRUCT:
        code = spin_type_struct(t->count, t->lengths, bytes, old, &type);
        break;
    case TREE_SUBARRAY:
        code = spin_type_subarray(t->count, t->sizes, t->subsizes, t->starts, order, old[0], &type);
        break;
    case TREE_DARRAY:
        code = spin_type_darray(t->ranks, t->rank, t->count, t->sizes, distribution, t->argument,
                                t->processes, order, old[0], &type);
        break;
    default:
        code = spin_type_resized(old[0], t->lb, t->extent, &type);
    }
    for (int i = 0; i < t->children; i++)
        spin_type_free(old[i]);
    return code == PTL_OK ? type : NULL;
}

/* ---- At random ---- */

struct tree_taste {
    bool zeros, overlaps; /* counts of zero; displacements at random, so data may overlap */
};

static int tree_between(struct rng *r, int low, int high) {
    return low + (int)rng_below(r, (uint32_t)(high - low + 1));
}

static void tree_array(struct rng *r, struct tree *t) {
    t->count = tree_between(r, 1, 3);
    t->fortran = rng_below(r, 2);
    t->ranks = 1;
    for (int d = 0; d < t->count; d++) {
        t->sizes[d] = tree_between(r, 1, 6);
        t->subsizes[d] = tree_between(r, 1, t->sizes[d]);
        t->starts[d] = tree_between(r, 0, t->sizes[d] - t->subsizes[d]);
        t->distribution[d] = (int)rng_below(r, 3);
        bool whole = t->distribution[d] == SPIN_DISTRIBUTE_NONE;
        t->processes[d] = whole ? 1 : tree_between(r, 1, 3);
        t->ranks *= t->processes[d];
        int least = t->distribution[d] == SPIN_DISTRIBUTE_BLOCK
                        ? (t->sizes[d] + t->processes[d] - 1) / t->processes[d]
                        : 1;
        t->argument[d] = whole || rng_below(r, 3) == 0 ? SPIN_DISTRIBUTE_DEFAULT
                                                       : tree_between(r, least, least + 3);
    }
    t->rank = tree_between(r, 0, t->ranks - 1);
}

static void tree_free(struct tree *t) {
    for (int i = 0; i < t->children; i++)
        tree_free(t->child[i]);
    free(t);
}

/* The blocks of a list from the last to the first. */
static void tree_reverse(struct tree *t) {
    struct tree old = *t;
    for (int i = 0; i < t->count; i++) {
        t->lengths[i] = old.lengths[t->count - 1 - i];
        t->at[i] = old.at[t->count - 1 - i];
        if (t->children > 1)
            t->child[i] = old.child[t->count - 1 - i];
    }
}

static struct tree *tree_random(struct rng *r, int depth, struct tree_taste taste) {
    struct tree *t = calloc(1, sizeof *t);
    if (depth > 0 && rng_below(r, 8))
        t->kind = (enum tree_kind)tree_between(r, 1, TREE_KINDS - 1);
    t->basic = (int)rng_below(r, 4);
    if (t->kind == TREE_BASIC)
        return t;
    int zero = taste.zeros ? 0 : 1;
    t->count = tree_between(r, zero, t->kind == TREE_STRUCT ? 4 : TREE_ARGUMENTS);
    t->children = t->kind == TREE_STRUCT ? t->count : 1;
    for (int i = 0; i < t->children; i++)
        t->child[i] = tree_random(r, depth - 1, taste);
    t->length = tree_between(r, zero, 4);
    struct map m = t->children ? tree_map(t->child[0]) : (struct map){0};
    struct bounds b = map_bounds(&m);
    free(m.entry);
    bool by_bytes = t->kind == TREE_HVECTOR || t->kind == TREE_HINDEXED ||
                    t->kind == TREE_HINDEXED_BLOCK || t->kind == TREE_STRUCT;
    int64_t unit = by_bytes ? (b.extent ? llabs(b.extent) : 8) : 1, end = 0;
    t->stride = unit * tree_between(r, -6, 8) + (by_bytes ? tree_between(r, 0, 7) : 0);
    if (!taste.overlaps)
        t->stride = unit * (t->length + (rng_below(r, 3) ? tree_between(r, 0, 3) : 0)) *
                    (rng_below(r, 4) ? 1 : -1);
    for (int i = 0; i < TREE_ARGUMENTS; i++) {
        t->lengths[i] = tree_between(r, zero, 4);
        t->at[i] = unit * tree_between(r, -10, 20) + (by_bytes ? tree_between(r, 0, 9) : 0);
        if (taste.overlaps)
            continue;
        bool of_struct = t->kind == TREE_STRUCT && i < t->children;
        if (of_struct) {
            m = tree_map(t->child[i]);
            b = map_bounds(&m);
            free(m.entry);
            end = (end - b.lb + 7) & ~7ll;
            unit = b.extent;
        }
        t->at[i] = end + (rng_below(r, 2) ? (by_bytes ? 8 : 1) * tree_between(r, 0, 4) : 0);
        int length = t->kind == TREE_INDEXED_BLOCK || t->kind == TREE_HINDEXED_BLOCK
                         ? t->length
                         : t->lengths[i];
        end = t->at[i] + unit * length + (of_struct ? b.lb : 0);
    }
    t->lb = tree_between(r, -40, 40);
    t->extent = tree_between(r, -50, 200);
    if (!taste.overlaps) {
        t->lb = b.lb - 8 * tree_between(r, 0, 2);
        t->extent = b.lb - t->lb + b.extent + 8 * tree_between(r, 0, 3);
    }
    if (rng_below(r, 4) == 0)
        tree_reverse(t);
    if (t->kind == TREE_SUBARRAY || t->kind == TREE_DARRAY)
        tree_array(r, t);
    return t;
}

#endif
