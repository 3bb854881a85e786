/* Counts values. Each cluster counts in its own L1; the completion handler of the last message adds
 * the clusters' counts and copies them to the host. */
#include <handler.h>
#include <packets.h>

#include "histogram.h"

__handler__ void histogram_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const uint32_t *word = (const uint32_t *)payload, *end = word + bytes / 4;
    histogram_pad_t *pad = (histogram_pad_t *)task->scratchpad[args->cluster_id];
    while (word < end) {
        uint32_t value = *word++;
        if (value < HISTOGRAM_BINS) /* the packet may say anything */
            amo_add(&pad->count[value], 1);
    }
}

__handler__ void histogram_th(handler_args_t *args) {
    task_t *task = args->task;
    histogram_state_t *state = (histogram_state_t *)task->handler_mem;
    if (amo_add(&state->done, 1) + 1 != state->messages)
        return;
    histogram_pad_t *own = (histogram_pad_t *)task->scratchpad[args->cluster_id];
    for (uint32_t bin = 0; bin < HISTOGRAM_BINS; bin++) {
        int32_t sum = 0;
        for (int i = 0; i < NB_CLUSTERS; i++)
            sum += ((histogram_pad_t *)task->scratchpad[i])->count[bin];
        own->total[bin] = sum;
    }
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host, (uint32_t)own->total, sizeof own->total, true, &copying);
}
