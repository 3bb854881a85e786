/* Adds up vectors: word i of the result is the sum of word i of every packet. Each cluster adds
 * into its own L1; the host adds the clusters' vectors when it is told that the message is
 * complete. */
#include <handler.h>
#include <packets.h>

#include "reduce.h"

/* What a packet brings, and where it is added. */
struct vectors {
    const int32_t *word, *end;
    volatile int32_t *sum; /* HPUs of the cluster add at the same time, hence atomics */
};

static inline __attribute__((always_inline)) struct vectors vectors_of(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const int32_t *word = (const int32_t *)payload;
    return (struct vectors){word, word + bytes / 4,
                            (volatile int32_t *)task->scratchpad[args->cluster_id]};
}

/* Eight words per turn: turning costs 4 cycles and a word 3. All loads before the first use, so
 * that none is waited for. */
__handler__ void reduce_ph(handler_args_t *args) {
    struct vectors v = vectors_of(args);
    for (const int32_t *last = v.word + (v.end - v.word) / 8 * 8; v.word != last; v.word += 8) {
        int32_t value[8];
        for (int i = 0; i < 8; i++)
            value[i] = v.word[i];
        for (int i = 0; i < 8; i++)
            amo_add(v.sum++, value[i]);
    }
    while (v.word != v.end)
        amo_add(v.sum++, *v.word++);
}

/* A word per turn, in the order in which gcc 12 compiled it for the card's RTL: load, amoadd (which
 * waits for it), two additions, branch. For comparing cycles with that. */
__handler__ void reduce_words_ph(handler_args_t *args) {
    struct vectors v = vectors_of(args);
    while (v.word != v.end) {
        amo_add(v.sum++, *v.word);
        v.word++;
        /* Keeps clang from adding a counter to the two pointers. */
        __asm__ volatile("" : "+r"(v.word));
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
