/* Adds up all words of a message. A handler adds its packet in a register and then once into the L1
 * of its cluster; the completion handler adds the clusters' sums and copies the result to the host.
 */
#include <handler.h>
#include <packets.h>

#include "aggregate.h"

/* Eight words per turn: turning costs 4 cycles and a word 2. */
__handler__ void aggregate_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const uint32_t *word = (const uint32_t *)payload, *end = word + bytes / 4;
    uint32_t sum = 0;
    for (const uint32_t *last = word + bytes / 32 * 8; word != last; word += 8) {
        uint32_t a = word[0] + word[1], b = word[2] + word[3];
        uint32_t c = word[4] + word[5], d = word[6] + word[7];
        sum += a + b + c + d;
    }
    while (word != end)
        sum += *word++;
    aggregate_pad_t *pad = (aggregate_pad_t *)task->scratchpad[args->cluster_id];
    amo_add(&pad->sum, (int32_t)sum);
}

__handler__ void aggregate_th(handler_args_t *args) {
    task_t *task = args->task;
    aggregate_pad_t *own = (aggregate_pad_t *)task->scratchpad[args->cluster_id];
    uint32_t sum = 0;
    for (int i = 0; i < NB_CLUSTERS; i++)
        sum += (uint32_t)((aggregate_pad_t *)task->scratchpad[i])->sum;
    own->total = (int32_t)sum;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host, (uint32_t)&own->total, sizeof own->total, true, &copying);
}
