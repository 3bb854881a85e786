/* What dma_copy.c and the host side agree on. */
#ifndef OPENSPIN_EXPERIMENTS_DMA_COPY_H
#define OPENSPIN_EXPERIMENTS_DMA_COPY_H

#include <stdint.h>

#define DMA_COPY_SIZES   16
#define DMA_COPY_LARGEST 4096

struct dma_copy_request {
    uint32_t bytes, index;
};
struct dma_copy_memory {
    uint32_t cycles[DMA_COPY_SIZES], cluster[DMA_COPY_SIZES];
    uint8_t source[DMA_COPY_LARGEST];
};

#endif
