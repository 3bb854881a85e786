/* Which blocks of a storage node are in use: one bit per block, searched from where the last search
 * ended. */
#ifndef STORE_BLOCKS_H
#define STORE_BLOCKS_H

#include <stdbool.h>
#include <stdint.h>

#define STORE_NO_BLOCK UINT32_MAX

struct store_blocks {
    uint32_t count, free, cursor;
    uint64_t *used;
};

bool store_blocks_new(struct store_blocks *blocks, uint32_t count);
void store_blocks_free(struct store_blocks *blocks);
void store_blocks_clear(struct store_blocks *blocks);
/* The first of `count` blocks in a row, now used, or STORE_NO_BLOCK. */
uint32_t store_blocks_take(struct store_blocks *blocks, uint32_t count);
/* These very blocks. False: some are used, or there are none such. */
bool store_blocks_claim(struct store_blocks *blocks, uint32_t first, uint32_t count);
void store_blocks_give(struct store_blocks *blocks, uint32_t first, uint32_t count);
bool store_blocks_used(const struct store_blocks *blocks, uint32_t block);

#endif
