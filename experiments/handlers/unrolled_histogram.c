/* histogram with eight words a turn. The paper compiled for a core with hardware loops, which turn
 * at no cost; RV32IMAC pays 3 cycles for a taken branch, so here the turns are shared by eight. */
#define histogram_ph histogram_plain_ph
#include "../../handlers/histogram/histogram.c"
#undef histogram_ph

static inline __attribute__((always_inline)) void count(histogram_pad_t *pad, uint32_t value) {
    if (__builtin_expect(value < HISTOGRAM_BINS, 1)) /* the packet may say anything */
        amo_add(&pad->count[value], 1);
}

__handler__ void histogram_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const uint32_t *word = (const uint32_t *)payload, *end = word + bytes / 4;
    histogram_pad_t *pad = (histogram_pad_t *)task->scratchpad[args->cluster_id];
    for (; end - word >= 8; word += 8) {
        uint32_t value[8];
        for (int i = 0; i < 8; i++)
            value[i] = word[i];
        for (int i = 0; i < 8; i++)
            count(pad, value[i]);
    }
    while (word != end)
        count(pad, *word++);
}
