/* What drivers of PsPIN's examples rely on, for pspin_test.c: each handler tells the host. */
#include <handler.h>
#include <packets.h>

static uint32_t packets; /* of all contexts of this image */

/* Where the task's memory is, and that it can be used. */
__handler__ void where_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    uint32_t mine = args->cluster_id;
    spin_write_to_host(
        host, (uint64_t)(uint32_t)task->scratchpad[mine] << 32 | (uint32_t)task->handler_mem, NULL);
    amo_add((volatile int32_t *)task->scratchpad[mine], 1);
    amo_add((volatile int32_t *)task->handler_mem, 1);
    amo_add((volatile int32_t *)&packets, 1);
    spin_write_to_host(host + 8, (uint64_t)task->scratchpad_size[mine] << 32 | packets, NULL);
}

/* Beyond what the context says: the rest of L2 handler memory, and any address of the host. */
__handler__ void beyond_ph(handler_args_t *args) {
    task_t *task = args->task;
    volatile uint32_t *behind = (uint32_t *)((uint8_t *)task->handler_mem + task->handler_mem_size);
    spin_write_to_host(0xdeadbeef, *behind, NULL);
    spin_write_to_host(0xdeadbeef - 8, task->flow_id, NULL);
}

/* Stores and atomics to the task's registers, which change nothing. */
__handler__ void registers_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t *pads = (uint32_t *)task->scratchpad, before = pads[1];
    uint32_t seen = (uint32_t)amo_add((volatile int32_t *)&pads[1], 77);
    volatile uint32_t *flow = &task->flow_id;
    *flow = 0x1234567;
    ((volatile uint8_t *)task)[1] = 9;
    spin_write_to_host(8, (uint64_t)(seen == before && pads[1] == before) << 32 | *flow, NULL);
}

/* Commands by PsPIN's registers instead of the calls: four in flight, each waited for. */
__handler__ void by_hand_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t handle[4], waited = 0;
    MMIO_WRITE(CMD_WORD1, task->host_mem_high);
    MMIO_WRITE(CMD_WORD2, 8 << 1 | 1); /* 8 bytes to the host */
    MMIO_WRITE(CMD_WORD4, 0x89abcdef);
    MMIO_WRITE(CMD_INFO, 2 << 1); /* HostDirect */
    for (uint32_t i = 0; i < 4; i++) {
        MMIO_WRITE(CMD_WORD0, task->host_mem_low + 8 * i);
        MMIO_WRITE(CMD_WORD3, i);
        handle[i] = MMIO_READ(CMD_ISSUE);
    }
    for (uint32_t i = 0; i < 4; i++) {
        MMIO_WRITE(CMD_WAIT, handle[i]);
        MMIO_WRITE(CMD_TEST, handle[i]);
        waited += MMIO_READ(CMD_TEST);
    }
    spin_write_to_host(0, waited, NULL);
    /* the packet's first 32 bytes come back */
    MMIO_WRITE(CMD_WORD0, 0);
    MMIO_WRITE(CMD_WORD1, 0);
    MMIO_WRITE(CMD_WORD2, (uint32_t)(uintptr_t)task->pkt_mem);
    MMIO_WRITE(CMD_WORD3, 0);
    MMIO_WRITE(CMD_WORD4, 32);
    MMIO_WRITE(CMD_INFO, 1 << 1);
    (void)MMIO_READ(CMD_ISSUE);
}

/* What the driver or the file gave before the first packet. */
uint32_t setting = 7;
__attribute__((section(".l2_handler_data"))) volatile uint32_t table[3] = {0xdeadbeef, 2, 3};
__handler__ void given_ph(handler_args_t *args) {
    uint32_t same = args->task->handler_mem == (void *)table;
    spin_write_to_host(0, (uint64_t)setting << 32 | table[0], NULL);
    spin_write_to_host(8, (uint64_t)same << 32 | (uint32_t)(uintptr_t)table, NULL);
    table[2]++;
    setting++;
}

void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr) {
    volatile handler_fn handlers[] = {NULL, where_ph, NULL};
    *hh = handlers[0];
    *ph = handlers[1];
    *th = handlers[2];
    (void)handler_mem_ptr;
}
