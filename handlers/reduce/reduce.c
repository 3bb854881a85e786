/* Adds up vectors: word i of the result is the sum of word i of every packet. Each cluster adds
 * into its own L1; the host adds the clusters' vectors when it is told that the message is
 * complete. */
#include <handler.h>
#include <packets.h>

#include "reduce.h"

__handler__ void reduce_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const int32_t *word = (const int32_t *)payload, *end = word + bytes / 4;
    /* HPUs of the cluster add at the same time, hence atomics. */
    volatile int32_t *sum = (volatile int32_t *)task->scratchpad[args->cluster_id];
    while (word != end) {
        int32_t value = *word++;
        /* Moves the pointer while the load is on its way, and keeps clang from adding a counter to
         * the two pointers: 5 instructions a word, 8 cycles. */
        __asm__ volatile("" : "+r"(word));
        amo_add(sum++, value);
    }
}

/* Tells the host how many messages are complete. */
__handler__ void reduce_th(handler_args_t *args) {
    task_t *task = args->task;
    reduce_state_t *state = (reduce_state_t *)task->handler_mem;
    uint32_t done = (uint32_t)amo_add(&state->messages, 1) + 1;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t telling;
    spin_write_to_host(host + 8 * (done - 1), done, &telling);
}
