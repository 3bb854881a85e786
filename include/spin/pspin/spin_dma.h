/* spin_dma.h of PsPIN: copies between L1 and L2 by the cluster's DMA engine, without handler.h's
 * parameters. The public ones name the cluster whose engine it is; here it is the own one's. */
#ifndef SPIN_PSPIN_DMA_H
#define SPIN_PSPIN_DMA_H

#include "handler.h"

static inline uint32_t spin__memcpy_nonblk(void *source, void *dest, uint32_t bytes) {
    spin_dma_t xfer = 0;
    spin_dma(source, dest, bytes, SPIN_DMA_LOC2EXT, 0, &xfer);
    return xfer;
}

static inline void spin__wait_for_tf_completion(uint32_t transfer) {
    if (transfer)
        spin_dma_wait(transfer);
}

static inline char spin__tf_completed(uint32_t transfer) {
    uint32_t completed = 1;
    if (transfer)
        spin_dma_test(transfer, &completed);
    return (char)completed;
}

static inline void spin__memcpy(void *source, void *dest, uint32_t bytes) {
    spin__wait_for_tf_completion(spin__memcpy_nonblk(source, dest, bytes));
}

#define spin__public_memcpy_nonblk(source, dest, bytes, cluster)                                   \
    ((void)(cluster), spin__memcpy_nonblk(source, dest, bytes))
#define spin__public_memcpy(source, dest, bytes, cluster)                                          \
    ((void)(cluster), spin__memcpy(source, dest, bytes))
#define spin__public_wait_for_tf_completion(transfer, cluster)                                     \
    ((void)(cluster), spin__wait_for_tf_completion(transfer))
#define spin__public_tf_completed(transfer, cluster) ((void)(cluster), spin__tf_completed(transfer))

#endif
