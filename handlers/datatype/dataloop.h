/* Dataloops and segments: where the bytes of a packed datatype belong in memory. One source for
 * both sides: the host packs, unpacks and makes checkpoints with it, the handlers scatter and
 * gather, so the two cannot differ.
 *
 * A dataloop is an array of 32-bit words without pointers; a loop is named by the index of its
 * first word. All arithmetic is modulo 2^32, so negative strides need no case of their own. Every
 * loop has elements of one byte or more; an element is contiguous bytes or another loop.
 *
 *   word   VECTOR               BLOCKINDEX            INDEX                 STRUCT
 *   0      kind                 kind                  kind                  kind
 *   1      number of elements   number of elements    number of elements    number of elements
 *   2      bytes of an element  bytes of an element   -                     -
 *   3      stride               -                     -                     -
 *   4      loop or 0            loop or 0             0                     -
 *   5...                        offset of each        offset, position      offset, position, loop
 *
 * Positions are in the packed data of the loop. The tables of INDEX and STRUCT have one row more
 * than elements, whose position is the end.
 *
 * A segment is a place in the packed data: a frame for each loop that it is in, and the contiguous
 * region that comes next. It can be copied (a checkpoint), moved on, and set to any place. */
#ifndef DATALOOP_H
#define DATALOOP_H

#include <stdint.h>

enum dataloop_kind { DATALOOP_VECTOR, DATALOOP_BLOCKINDEX, DATALOOP_INDEX, DATALOOP_STRUCT };
enum { DATALOOP_KIND, DATALOOP_COUNT, DATALOOP_BYTES, DATALOOP_STRIDE, DATALOOP_CHILD };
#define DATALOOP_TABLE 5u

/* Words of a dataloop before its loops. The last, outermost loop is the root; nothing else has the
 * index 0, so 0 can stand for contiguous bytes. */
enum { DATALOOP_SIZE, DATALOOP_BASE, DATALOOP_ROOT, DATALOOP_DEPTH, DATALOOP_HEAD };

#define DATALOOP_MOST_DEPTH 24u /* a segment is on the stack of a handler */

struct dataloop_frame {
    uint32_t loop, index; /* element of it */
    uint32_t base;        /* in memory, of the loop's origin */
};

struct dataloop_segment {
    uint32_t position; /* in the packed data */
    uint32_t at, left; /* the region: offset in memory, bytes; none left: the end */
    uint32_t level;    /* frame whose element it is */
    struct dataloop_frame frame[DATALOOP_MOST_DEPTH];
};

/* Words of a segment that a dataloop of this depth uses. */
static inline uint32_t dataloop_segment_words(uint32_t depth) {
    return 4 + 3 * depth;
}

/* Element i of the loop l: its offset and its loop (0: contiguous), or its bytes. */
struct dataloop_element {
    uint32_t offset, loop, bytes;
};
static inline struct dataloop_element dataloop_element(const uint32_t *l, uint32_t i) {
    struct dataloop_element e = {.loop = 0};
    const uint32_t *row;
    switch (l[DATALOOP_KIND]) {
    case DATALOOP_VECTOR:
        e.offset = i * l[DATALOOP_STRIDE];
        e.loop = l[DATALOOP_CHILD];
        e.bytes = l[DATALOOP_BYTES];
        break;
    case DATALOOP_BLOCKINDEX:
        e.offset = l[DATALOOP_TABLE + i];
        e.loop = l[DATALOOP_CHILD];
        e.bytes = l[DATALOOP_BYTES];
        break;
    case DATALOOP_INDEX:
        row = l + DATALOOP_TABLE + 2 * i;
        e.offset = row[0];
        e.bytes = row[3] - row[1];
        break;
    default:
        row = l + DATALOOP_TABLE + 3 * i;
        e.offset = row[0];
        e.loop = row[2];
        e.bytes = row[4] - row[1];
    }
    return e;
}

/* The element of l that holds a position; *position becomes that within the element. */
static inline uint32_t dataloop_find(const uint32_t *l, uint32_t *position) {
    uint32_t kind = l[DATALOOP_KIND];
    if (kind == DATALOOP_VECTOR || kind == DATALOOP_BLOCKINDEX) {
        uint32_t i = *position / l[DATALOOP_BYTES];
        *position -= i * l[DATALOOP_BYTES];
        return i;
    }
    uint32_t row = kind == DATALOOP_INDEX ? 2 : 3, low = 0, high = l[DATALOOP_COUNT];
    const uint32_t *start = l + DATALOOP_TABLE + 1;
    while (high - low > 1) {
        uint32_t middle = (low + high) / 2;
        if (start[middle * row] <= *position)
            low = middle;
        else
            high = middle;
    }
    *position -= start[low * row];
    return low;
}

/* From the frames below `level` down to the region that holds `position` of this loop. */
static inline void dataloop_descend(const uint32_t *d, struct dataloop_segment *s, uint32_t level,
                                    uint32_t loop, uint32_t base, uint32_t position) {
    for (;; level++) {
        const uint32_t *l = d + loop;
        uint32_t i = position ? dataloop_find(l, &position) : 0;
        struct dataloop_element e = dataloop_element(l, i);
        s->frame[level] = (struct dataloop_frame){loop, i, base};
        base += e.offset;
        if (!e.loop) {
            s->at = base + position;
            s->left = e.bytes - position;
            s->level = level;
            return;
        }
        loop = e.loop;
    }
}

/* To any place; the end too. */
static inline void dataloop_seek(const uint32_t *d, struct dataloop_segment *s, uint32_t position) {
    s->position = position;
    if (position < d[DATALOOP_SIZE])
        dataloop_descend(d, s, 0, d[DATALOOP_ROOT], d[DATALOOP_BASE], position);
    else
        s->left = 0;
}

/* The region behind the one that ends here. */
static inline void dataloop_next(const uint32_t *d, struct dataloop_segment *s) {
    for (uint32_t level = s->level;; level--) {
        struct dataloop_frame *f = &s->frame[level];
        const uint32_t *l = d + f->loop;
        if (++f->index < l[DATALOOP_COUNT]) {
            struct dataloop_element e = dataloop_element(l, f->index);
            uint32_t at = f->base + e.offset;
            if (e.loop) {
                dataloop_descend(d, s, level + 1, e.loop, at, 0);
            } else {
                s->at = at;
                s->left = e.bytes;
                s->level = level;
            }
            return;
        }
        if (level == 0) {
            s->left = 0;
            return;
        }
    }
}

/* Called with each region: its offset in memory, the offset in what is moved, and its bytes. */
typedef void dataloop_region(void *argument, uint32_t at, uint32_t from, uint32_t bytes);

/* Whole contiguous elements of frame f behind its present one, as many as there are and fit in
 * bytes - from; returns `from` behind them. Most regions are found here, without looking at any
 * other loop. */
static inline __attribute__((always_inline)) uint32_t
dataloop_whole(const uint32_t *l, struct dataloop_frame *f, uint32_t from, uint32_t bytes,
               dataloop_region *region, void *argument) {
    uint32_t more = l[DATALOOP_COUNT] - 1 - f->index, all = more, base = f->base;
    const uint32_t *row = l + DATALOOP_TABLE;
    if (l[DATALOOP_KIND] == DATALOOP_VECTOR) {
        uint32_t block = l[DATALOOP_BYTES], stride = l[DATALOOP_STRIDE];
        uint32_t at = base + (f->index + 1) * stride;
        for (; more && bytes - from >= block; more--, at += stride, from += block)
            region(argument, at, from, block);
    } else if (l[DATALOOP_KIND] == DATALOOP_BLOCKINDEX) {
        uint32_t block = l[DATALOOP_BYTES];
        for (row += f->index + 1; more && bytes - from >= block; more--, row++, from += block)
            region(argument, base + *row, from, block);
    } else if (l[DATALOOP_KIND] == DATALOOP_INDEX) {
        for (row += 2 * f->index + 2; more; more--, row += 2) {
            uint32_t block = row[3] - row[1];
            if (bytes - from < block)
                break;
            region(argument, base + row[0], from, block);
            from += block;
        }
    }
    f->index += all - more;
    return from;
}

/* Moves on by `bytes`, region by region. Always inline, so that `region` is no call. */
static inline __attribute__((always_inline)) void
dataloop_move(const uint32_t *d, struct dataloop_segment *s, uint32_t bytes,
              dataloop_region *region, void *argument) {
    uint32_t from = 0;
    s->position += bytes;
    while (from < bytes && s->left) {
        uint32_t n = bytes - from < s->left ? bytes - from : s->left;
        region(argument, s->at, from, n);
        from += n;
        if (n < s->left) {
            s->at += n;
            s->left -= n;
            return;
        }
        struct dataloop_frame *f = &s->frame[s->level];
        from = dataloop_whole(d + f->loop, f, from, bytes, region, argument);
        dataloop_next(d, s);
    }
}

static inline void dataloop_pass(void *argument, uint32_t at, uint32_t from, uint32_t bytes) {
    (void)argument, (void)at, (void)from, (void)bytes;
}

/* To a place at or behind this one, region by region as a segment library does that has no table
 * of positions (E1: "catch up"). */
static inline void dataloop_catch_up(const uint32_t *d, struct dataloop_segment *s,
                                     uint32_t position) {
    dataloop_move(d, s, position - s->position, dataloop_pass, 0);
}

#endif
