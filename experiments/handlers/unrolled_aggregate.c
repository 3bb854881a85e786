/* aggregate with eight words a turn. The paper compiled for a core with hardware loops, which turn
 * at no cost; RV32IMAC pays 3 cycles for a taken branch, so here the turns are shared by eight. */
#define aggregate_ph aggregate_plain_ph
#include "../../handlers/aggregate/aggregate.c"
#undef aggregate_ph

__handler__ void aggregate_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes, sum = 0;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const uint32_t *word = (const uint32_t *)payload, *end = word + bytes / 4;
    for (; end - word >= 8; word += 8) {
        uint32_t a = word[0] + word[1], b = word[2] + word[3];
        sum += a + b;
        a = word[4] + word[5], b = word[6] + word[7];
        sum += a + b;
    }
    while (word != end)
        sum += *word++;
    aggregate_pad_t *pad = (aggregate_pad_t *)task->scratchpad[args->cluster_id];
    amo_add(&pad->sum, (int32_t)sum);
}
