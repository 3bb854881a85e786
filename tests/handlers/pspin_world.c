/* Handlers of PsPIN's interface on a match entry (tests/cli/cards.sh): what they were given is
 * counted in handler memory and .l2_handler_data, and written to the entry's memory at the end. */
#include <handler.h>

struct memory {
    volatile uint32_t bytes, first;
};

__attribute__((section(".l2_handler_data"))) volatile uint32_t calls[2] = {100, 200};

static uint64_t host_of(const task_t *task) {
    return (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
}

__handler__ void world_hh(handler_args_t *args) {
    const task_t *task = args->task;
    ((struct memory *)task->handler_mem)->first = task->pkt_mem_size;
    __atomic_fetch_add(&calls[0], 1, __ATOMIC_RELAXED);
}

/* Eight bytes of each packet go back to where it is from, and eight to the host by DMA. */
__handler__ void world_ph(handler_args_t *args) {
    const task_t *task = args->task;
    struct memory *memory = task->handler_mem;
    uint32_t number = __atomic_fetch_add(&calls[1], 1, __ATOMIC_RELAXED) - 200;
    spin_cmd_t sending, storing;
    __atomic_fetch_add(&memory->bytes, task->pkt_mem_size, __ATOMIC_RELAXED);
    spin_send_packet(task->pkt_mem, 8, &sending);
    spin_dma_to_host(host_of(task) + 16 + 8 * number, (uint32_t)task->pkt_mem, 8, 1, &storing);
    spin_cmd_wait(storing);
}

__handler__ void world_th(handler_args_t *args) {
    const task_t *task = args->task;
    const struct memory *memory = task->handler_mem;
    spin_cmd_t writing[2];
    spin_write_to_host(host_of(task), (uint64_t)memory->first << 32 | memory->bytes, &writing[0]);
    spin_write_to_host(host_of(task) + 8, (uint64_t)calls[1] << 32 | calls[0], &writing[1]);
    spin_cmd_wait(writing[0]);
    spin_cmd_wait(writing[1]);
}

/* The number of the packet is counted in the scratchpad, up to its last word; behind it is SEGV. */
__handler__ void pad_ph(handler_args_t *args) {
    const task_t *task = args->task;
    struct memory *memory = task->handler_mem;
    uint32_t pad = args->cluster_id, words = task->scratchpad_size[pad] / 4;
    volatile uint32_t *word = (volatile uint32_t *)task->scratchpad[pad];
    uint32_t number = __atomic_fetch_add(&calls[1], 1, __ATOMIC_RELAXED) - 200;
    spin_cmd_t sending, storing;
    __atomic_fetch_add(&word[0], 1, __ATOMIC_RELAXED);
    word[words - 1] += 7;
    memory->first = task->scratchpad_size[pad];
    __atomic_fetch_add(&memory->bytes, word[words - 1], __ATOMIC_RELAXED);
    spin_send_packet(task->pkt_mem, 8, &sending);
    spin_dma_to_host(host_of(task) + 16 + 8 * number, (uint32_t)task->pkt_mem, 8, 1, &storing);
    spin_cmd_wait(storing);
}

__handler__ void behind_ph(handler_args_t *args) {
    const task_t *task = args->task;
    uint32_t pad = args->cluster_id;
    ((volatile uint32_t *)task->scratchpad[pad])[task->scratchpad_size[pad] / 4] = 1;
}

__handler__ void outside_ph(handler_args_t *args) {
    spin_cmd_t storing;
    spin_dma_to_host(host_of(args->task) + 16380, (uint32_t)args->task->pkt_mem, 8, 1,
                     &storing); /* line: outside */
    spin_cmd_wait(storing);
}
