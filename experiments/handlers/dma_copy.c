/* Copies from L2 handler memory to the cluster's L1 by its DMA engine, timed from the inside
 * (ISCA'21 figure 4). The packet says how much, and where the cycles go. */
#include <handler.h>

#include "dma_copy.h"

__handler__ void dma_copy_ph(handler_args_t *args) {
    task_t *task = args->task;
    const struct dma_copy_request *request = (const struct dma_copy_request *)task->pkt_mem;
    struct dma_copy_memory *memory = (struct dma_copy_memory *)task->handler_mem;
    void *to = task->scratchpad[args->cluster_id];
    uint32_t bytes = request->bytes, index = request->index;
    spin_dma_t copying;
    uint32_t start = spin_cycles();
    spin_dma(memory->source, to, bytes, SPIN_DMA_EXT2LOC, 0, &copying);
    spin_dma_wait(copying);
    memory->cycles[index] = spin_cycles() - start;
    memory->cluster[index] = args->cluster_id;
}
