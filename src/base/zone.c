#include "base/zone.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"

#define LINE        64u
#define FIRST_BLOCK ((size_t)64 << 10) /* enough for a world of two ranks */
#define MOST_BLOCK  ((size_t)32 << 20)
#define FILL_STEP   ((size_t)256 << 10)
#define MOST_PIECE  ((size_t)1 << 40)
#define CLASSES     560u /* up to that */

struct block {
    struct block *next;
    size_t bytes, used; /* of all but the first block of a zone it is known what is not zero */
};

struct piece { /* that was given back */
    struct piece *next;
};

struct zone {
    struct block *blocks;
    uint8_t *at, *end; /* of what the first of them has left */
    uint8_t *filled;   /* until there */
    uint8_t *dirty;    /* what is not filled until there is another's, to be cleared */
    bool small;        /* huge pages are dear here */
    size_t block_bytes;
    struct piece *given[CLASSES];
};

/* Up to 1 KiB every multiple of 16 bytes is a class, above that sixteen per power of two. `bytes`
 * becomes that of the class. */
static uint32_t class_of(size_t *bytes) {
    size_t units = *bytes ? (*bytes + 15) / 16 : 1;
    if (units <= 64) {
        *bytes = units * 16;
        return (uint32_t)units;
    }
    uint32_t part = 59u - (uint32_t)__builtin_clzll(units - 1); /* units are 17 to 32 of 2^part */
    size_t parts = ((units - 1) >> part) + 1;
    *bytes = (parts << part) * 16;
    return 64 + (part - 2) * 16 + (uint32_t)(parts - 16);
}

struct zone *zone_new(void) {
    struct zone *zone = calloc(1, sizeof *zone);
    if (zone)
        zone->block_bytes = FIRST_BLOCK;
    return zone;
}

/* Nothing more is taken of the first block. */
static void end_block(struct zone *zone) {
    struct block *block = zone->blocks;
    const uint8_t *end = zone->filled > zone->dirty ? zone->filled : zone->dirty;
    if (block)
        block->used = (size_t)(end - (const uint8_t *)block);
}

void zone_free(struct zone *zone) {
    if (zone)
        end_block(zone);
    while (zone && zone->blocks) {
        struct block *block = zone->blocks;
        zone->blocks = block->next;
        pages_keep(block, block->bytes, block->used);
    }
    free(zone);
}

/* Some way ahead of what is taken. */
static void fill(struct zone *zone) {
    size_t left = (size_t)(zone->end - zone->filled);
    size_t step = (size_t)(zone->at - zone->filled) + FILL_STEP;
    if (step > left)
        step = left;
    if (zone->filled < zone->dirty) {
        size_t dirty = (size_t)(zone->dirty - zone->filled);
        step = step < dirty ? step : dirty;
        memset(zone->filled, 0, step);
    } else {
        zone->small = !pages_fill(zone->filled, step, left - step) || zone->small;
    }
    zone->filled += step;
}

/* What is left of the block before is lost: less than a piece. */
static bool more(struct zone *zone, size_t bytes) {
    size_t size = zone->block_bytes;
    while (size < bytes + 2 * LINE)
        size *= 2;
    size_t used;
    struct block *block = pages_take(size, &used);
    if (!block)
        block = zone->small ? pages_sparse(size) : pages_new(size);
    if (!block)
        return false;
    end_block(zone);
    zone->filled = (uint8_t *)block;
    zone->dirty = (uint8_t *)block + used;
    zone->at = (uint8_t *)block + LINE;
    zone->end = (uint8_t *)block + size;
    while (zone->at > zone->filled)
        fill(zone); /* before the first use, which would not tell what it took */
    *block = (struct block){.next = zone->blocks, .bytes = size};
    zone->blocks = block;
    if (zone->block_bytes < MOST_BLOCK)
        zone->block_bytes *= 2;
    return true;
}

/* `fresh`: nobody has had it, so it is zero. From a line's length on a piece begins with one. */
static void *take(struct zone *zone, size_t bytes, bool *fresh) {
    if (bytes > MOST_PIECE)
        return NULL;
    uint32_t class = class_of(&bytes);
    struct piece *given = zone->given[class];
    *fresh = !given;
    if (given) {
        zone->given[class] = given->next;
        return given;
    }
    if (bytes >= LINE)
        zone->at += -(uintptr_t)zone->at & (LINE - 1);
    if ((zone->at >= zone->end || (size_t)(zone->end - zone->at) < bytes) && !more(zone, bytes))
        return NULL;
    void *at = zone->at;
    zone->at += bytes;
    while (zone->at > zone->filled)
        fill(zone);
    return at;
}

void *zone_take_raw(struct zone *zone, size_t bytes, bool *is_zero) {
    if (!ZONE_IS_MALLOC && zone)
        return take(zone, bytes, is_zero);
    *is_zero = false;
    return malloc(bytes);
}

void *zone_take(struct zone *zone, size_t bytes) {
    bool is_zero;
    return zone_take_raw(zone, bytes, &is_zero);
}

void *zone_take_clear(struct zone *zone, size_t bytes) {
    if (ZONE_IS_MALLOC || !zone)
        return calloc(1, bytes);
    bool fresh;
    void *at = take(zone, bytes, &fresh);
    if (at && !fresh)
        memset(at, 0, bytes);
    return at;
}

void *zone_take_lines(struct zone *zone, size_t bytes) {
    size_t whole = (bytes + LINE - 1) & ~(size_t)(LINE - 1);
    bool fresh;
    return ZONE_IS_MALLOC || !zone ? aligned_alloc(LINE, whole) : take(zone, whole, &fresh);
}

void zone_give(struct zone *zone, void *at, size_t bytes) {
    if (ZONE_IS_MALLOC || !zone) {
        free(at);
        return;
    }
    if (!at)
        return;
    uint32_t class = class_of(&bytes);
    struct piece *piece = at;
    piece->next = zone->given[class];
    zone->given[class] = piece;
}
