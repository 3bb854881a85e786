/* reduce with eight words a turn. The paper compiled for a core with hardware loops, which turn at
 * no cost; RV32IMAC pays 3 cycles for a taken branch, so here the turns are shared by eight. */
#define reduce_ph reduce_plain_ph
#include "../../handlers/reduce/reduce.c"
#undef reduce_ph

__handler__ void reduce_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const int32_t *word = (const int32_t *)payload, *end = word + bytes / 4;
    volatile int32_t *sum = (volatile int32_t *)task->scratchpad[args->cluster_id];
    for (; end - word >= 8; word += 8, sum += 8) {
        int32_t value[8];
        for (int i = 0; i < 8; i++)
            value[i] = word[i];
        for (int i = 0; i < 8; i++)
            amo_add(&sum[i], value[i]);
    }
    while (word != end)
        amo_add(sum++, *word++);
}
