/* libaxidma.h of PsPIN: the same copies by the names of its DMA engine's library. The engine is the
 * own cluster's, so its registers, which `conf` would be, are not looked at. */
#ifndef SPIN_PSPIN_LIBAXIDMA_H
#define SPIN_PSPIN_LIBAXIDMA_H

#include "spin_dma.h"

typedef struct axidma__dma_conf axidma__dma_conf_t;

static inline uint32_t axidma__memcpy_nonblk(axidma__dma_conf_t *conf, void *source, void *dest,
                                             uint32_t bytes) {
    (void)conf;
    return spin__memcpy_nonblk(source, dest, bytes);
}

static inline uint32_t axidma__launch_oned(axidma__dma_conf_t *conf, void *source, void *dest,
                                           uint32_t bytes) {
    return axidma__memcpy_nonblk(conf, source, dest, bytes);
}

static inline void axidma__memcpy(axidma__dma_conf_t *conf, void *source, void *dest,
                                  uint32_t bytes) {
    (void)conf;
    spin__memcpy(source, dest, bytes);
}

static inline void axidma__wait_for_tf_completion(axidma__dma_conf_t *conf, uint32_t transfer) {
    (void)conf;
    spin__wait_for_tf_completion(transfer);
}

static inline char axidma__tf_completed(axidma__dma_conf_t *conf, uint32_t transfer) {
    (void)conf;
    return spin__tf_completed(transfer);
}

#endif
