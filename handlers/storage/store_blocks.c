#include "store_blocks.h"

#include <stdlib.h>
#include <string.h>

bool store_blocks_new(struct store_blocks *b, uint32_t count) {
    *b = (struct store_blocks){.count = count, .free = count};
    b->used = calloc(((uint64_t)count + 63) / 64 + 1, sizeof *b->used);
    return b->used;
}

void store_blocks_free(struct store_blocks *b) {
    free(b->used);
    b->used = NULL;
}

void store_blocks_clear(struct store_blocks *b) {
    memset(b->used, 0, ((uint64_t)b->count + 63) / 64 * sizeof *b->used);
    b->free = b->count;
    b->cursor = 0;
}

bool store_blocks_used(const struct store_blocks *b, uint32_t block) {
    return b->used[block / 64] >> block % 64 & 1;
}

static void mark(struct store_blocks *b, uint32_t first, uint32_t count, bool used) {
    for (uint32_t i = first; i < first + count; i++) {
        uint64_t bit = 1ull << i % 64;
        b->used[i / 64] = used ? b->used[i / 64] | bit : b->used[i / 64] & ~bit;
    }
}

/* The first run of free blocks that begins in [from, to). */
static uint32_t find_run(const struct store_blocks *b, uint32_t from, uint32_t to, uint32_t count) {
    uint32_t at = from, run = 0;
    while (at < b->count && at - run < to) {
        if (run == 0 && at % 64 == 0 && b->used[at / 64] == UINT64_MAX) {
            at += 64;
            continue;
        }
        run = store_blocks_used(b, at) ? 0 : run + 1;
        at++;
        if (run == count)
            return at - run;
    }
    return STORE_NO_BLOCK;
}

uint32_t store_blocks_take(struct store_blocks *b, uint32_t count) {
    if (count == 0 || count > b->free)
        return STORE_NO_BLOCK;
    uint32_t first = find_run(b, b->cursor, b->count, count);
    if (first == STORE_NO_BLOCK)
        first = find_run(b, 0, b->cursor, count);
    if (first == STORE_NO_BLOCK)
        return STORE_NO_BLOCK;
    mark(b, first, count, true);
    b->free -= count;
    b->cursor = first + count < b->count ? first + count : 0;
    return first;
}

bool store_blocks_claim(struct store_blocks *b, uint32_t first, uint32_t count) {
    if (first >= b->count || count > b->count - first)
        return false;
    for (uint32_t i = first; i < first + count; i++)
        if (store_blocks_used(b, i))
            return false;
    mark(b, first, count, true);
    b->free -= count;
    return true;
}

void store_blocks_give(struct store_blocks *b, uint32_t first, uint32_t count) {
    mark(b, first, count, false);
    b->free += count;
}
