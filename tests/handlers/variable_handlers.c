/* Handlers of PsPIN's interface with variables of every kind, for world_memory_test.c: what a card
 * has to make for an image. */
#include <handler.h>

static const uint32_t table[4] = {1, 20, 300, 4000}; /* constants */
static volatile uint32_t started = 50000;            /* data */
static volatile uint32_t packets;                    /* data that is zero */
__attribute__((section(".l2_handler_data"))) volatile uint32_t shared[2] = {600000, 0};

/* Each packet adds one of the table; the last sum is 654321 and more. */
__handler__ void variables_ph(handler_args_t *args) {
    (void)args;
    uint32_t number = __atomic_fetch_add(&packets, 1, __ATOMIC_RELAXED);
    __atomic_fetch_add(&shared[1], table[number % 4], __ATOMIC_RELAXED);
}

__handler__ void variables_th(handler_args_t *args) {
    const task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t writing;
    spin_write_to_host(host, (uint64_t)packets << 32 | (started + shared[0] + shared[1]), &writing);
    spin_cmd_wait(writing);
}
