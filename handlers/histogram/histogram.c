/* Counts values. Each cluster counts in its own L1; the completion handler of the last message adds
 * the clusters' counts and copies them to the host. */
#include <handler.h>
#include <packets.h>

#include "histogram.h"

#define INLINE static inline __attribute__((always_inline))

INLINE void count(histogram_pad_t *pad, uint32_t value, bool trusted) {
    if (trusted || __builtin_expect(value < HISTOGRAM_BINS, 1)) /* the packet may say anything */
        amo_add(&pad->count[value], 1);
}

/* All loads before the first use, so that none is waited for. */
INLINE void count_eight(histogram_pad_t *pad, const uint32_t *word, bool trusted) {
    uint32_t value[8];
    for (int i = 0; i < 8; i++)
        value[i] = word[i];
    for (int i = 0; i < 8; i++)
        count(pad, value[i], trusted);
}

/* Sixteen words per turn: turning costs 4 cycles and a word 5, of which the check is one. */
INLINE void count_packet(handler_args_t *args, bool trusted) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const uint32_t *word = (const uint32_t *)payload, *end = word + bytes / 4;
    const uint32_t *last = word + bytes / 64 * 16;
    histogram_pad_t *pad = (histogram_pad_t *)task->scratchpad[args->cluster_id];
    for (; word != last; word += 16) {
        count_eight(pad, word, trusted);
        count_eight(pad, word + 8, trusted);
    }
    if (bytes & 32) {
        count_eight(pad, word, trusted);
        word += 8;
    }
    while (word != end)
        count(pad, *word++, trusted);
}

__handler__ void histogram_ph(handler_args_t *args) {
    count_packet(args, false);
}

/* For values that are known to have a bin: others spoil the context's own memory, or end the
 * handler.
 */
__handler__ void histogram_trusting_ph(handler_args_t *args) {
    count_packet(args, true);
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
