/* Every call of the PsPIN interface once, with what came of it in handler memory. Includes as in
 * handlers that were written for that card. */
#ifndef HOST
#include <handler.h>
#include <packets.h>
#include <spin_conf.h>
#endif

_Static_assert(sizeof(task_t) == 72, "a task is 18 registers");
_Static_assert(sizeof(handler_args_t) == 16 && sizeof(pkt_hdr_t) == 28, "as on PsPIN");

/* What the argument and the task's registers say, in their order. */
__handler__ void task_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t *out = (uint32_t *)task->handler_mem;
    for (uint32_t i = 0; i < sizeof(task_t) / 4; i++)
        out[i] = ((volatile uint32_t *)task)[i];
    out[18] = args->hpu_gid;
    out[19] = args->cluster_id;
    out[20] = args->hpu_id;
    out[21] = rt_cluster_id() << 16 | rt_core_id();
    /* every scratchpad and the packet in L2 can be reached */
    for (int i = 0; i < 4; i++)
        *(uint8_t *)task->scratchpad[i] = (uint8_t)(i + 1);
    out[22] = *(uint32_t *)task->l2_pkt_mem;
}

__handler__ void atomics_ph(handler_args_t *args) {
    volatile uint32_t *out = (volatile uint32_t *)args->task->handler_mem;
    volatile int32_t *value = (volatile int32_t *)&out[0];
    volatile uint32_t *word = &out[0];
    int32_t seen = 0;
    *value = 5;
    seen += amo_add(value, 4) == 5 && *value == 9;
    seen += amo_max(value, -1) == 9 && *value == 9;
    seen += amo_min(value, -1) == 9 && *value == -1;
    seen += amo_maxu(word, 7) == 0xffffffff && *word == 0xffffffff;
    seen += amo_minu(word, 7) == 0xffffffff && *word == 7;
    seen += amo_or(word, 8) == 7 && *word == 15;
    seen += amo_and(word, 12) == 15 && *word == 12;
    seen += amo_xor(word, 5) == 12 && *word == 9;
    seen += amo_swap(word, 3) == 9 && *word == 3;
    amo_store(word, 4);
    seen += *word == 4;
    seen += compare_and_swap(word, 5, 6) == -1 && *word == 4;
    seen += compare_and_swap(word, 4, 6) == 0 && *word == 6;
    seen += load_reserved(word) == 6 && store_conditional(word, 7) == 0 && *word == 7;
    seen += store_conditional(word, 8) != 0 && *word == 7; /* the reservation is used up */
    out[1] = (uint32_t)seen;
}

__handler__ void locks_ph(handler_args_t *args) {
    uint32_t *out = (uint32_t *)args->task->handler_mem;
    spin_lock_t *lock = &out[0];
    spin_rw_lock_t *rw = (spin_rw_lock_t *)&out[1];
    uint32_t seen = 0;
    spin_lock_init(lock);
    seen += spin_lock_try_lock(lock) == 1;
    seen += spin_lock_try_lock(lock) == 0;
    seen += spin_lock_unlock(lock) == SPIN_OK && *lock == 0;
    seen += spin_lock_lock(lock) == SPIN_OK && *lock != 0;
    spin_rw_lock_r_lock(rw);
    spin_rw_lock_r_lock(rw);
    seen += rw->num_readers == 2 && rw->glock != 0; /* the first took the lock */
    spin_rw_lock_r_unlock(rw);
    seen += rw->glock != 0;
    spin_rw_lock_r_unlock(rw); /* the last freed it */
    spin_rw_lock_w_lock(rw);
    seen += rw->num_readers == 0 && rw->glock != 0;
    spin_rw_lock_w_unlock(rw);
    seen += rw->glock == 0;
    out[3] = seen;
}

/* A writer needs the lock only, whatever the count says. */
__handler__ void writer_ph(handler_args_t *args) {
    spin_rw_lock_t *rw = (spin_rw_lock_t *)args->task->handler_mem;
    rw->num_readers = 32;
    spin_rw_lock_w_lock(rw);
}

/* A writer that waits for a reader who never leaves: the watchdog's work. */
__handler__ void stuck_ph(handler_args_t *args) {
    spin_rw_lock_t *rw = (spin_rw_lock_t *)args->task->handler_mem;
    spin_rw_lock_r_lock(rw);
    spin_rw_lock_w_lock(rw);
}

static uint64_t host(const task_t *task) {
    return (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
}

__handler__ void commands_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *packet = (uint8_t *)task->pkt_mem, *mem = (uint8_t *)task->handler_mem, *pld;
    uint32_t length, done = 0;
    spin_cmd_t handle;
    spin_dma_t dma;
    bool completed = false;
    GET_IP_UDP_PLD(packet, pld, length);
    spin_dma_to_host(host(task) + 16, (uint32_t)(uintptr_t)pld, length, true, &handle);
    spin_cmd_wait(handle);
    spin_dma_from_host(host(task) + 18, (uint32_t)(uintptr_t)mem, 4, false, &handle);
    spin_cmd_test(handle, &completed);
    spin_write_to_host(host(task) + 64, 0x1122334455667788ull, &handle);
    spin_host_write(host(task) + 72, length, 0);
    spin_dma(packet, mem + 8, 4, SPIN_DMA_LOC2EXT, 0, &dma);
    spin_dma_wait(dma);
    spin_dma_test(dma, &done);
    mem[4] = completed && done == 1;
    spin_send_packet(packet, 28 + length, &handle);
    spin_rdma_put(3, pld, length, &handle);
}

/* The same by the registers, as who does not use the calls writes them. */
static uint32_t by_hand(uint32_t info, uint32_t word0, uint32_t word1, uint32_t word2,
                        uint32_t word3, uint32_t word4) {
    MMIO_WRITE(CMD_WORD0, word0);
    MMIO_WRITE(CMD_WORD1, word1);
    MMIO_WRITE(CMD_WORD2, word2);
    MMIO_WRITE(CMD_WORD3, word3);
    MMIO_WRITE(CMD_WORD4, word4);
    MMIO_WRITE(CMD_INFO, info);
    return MMIO_READ(CMD_ISSUE);
}

__handler__ void by_hand_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint32_t packet = (uint32_t)(uintptr_t)task->pkt_mem, high = task->host_mem_high;
    uint8_t *mem = (uint8_t *)task->handler_mem;
    uint32_t low = task->host_mem_low, handle;
    handle = by_hand(0 << 1 | 1, low + 16, high, packet + 28, 8, 1); /* to the host, with event */
    MMIO_WRITE(CMD_WAIT, handle);
    handle = by_hand(0 << 1, low + 18, high, (uint32_t)(uintptr_t)mem, 4, 0);
    MMIO_WRITE(CMD_TEST, handle);
    mem[4] = MMIO_READ(CMD_TEST) == 1;
    by_hand(2 << 1, low + 64, high, 8 << 1 | 1, 0x55667788, 0x11223344);
    MMIO_WRITE(CMD_WORD0, low + 72); /* the other words are still there */
    (void)MMIO_READ(CMD_ISSUE);
    by_hand(1 << 1, 0, 0, packet, 0, 36);
    by_hand(1 << 1, 3, 1, packet + 28, 0, 8);
}
__handler__ void by_hand_kind_ph(handler_args_t *args) {
    by_hand(3 << 1, 0, 0, (uint32_t)(uintptr_t)args->task->pkt_mem, 0, 8);
}
__handler__ void by_hand_short_ph(handler_args_t *args) {
    by_hand(2 << 1, args->task->host_mem_low, args->task->host_mem_high, 4 << 1 | 1, 1, 0);
}
__handler__ void by_hand_far_ph(handler_args_t *args) {
    (void)args;
    by_hand(1 << 1, 0, 0, 0, 0x1000, 8);
}

__handler__ void wait_ph(handler_args_t *args) {
    uint32_t *out = (uint32_t *)args->task->handler_mem, start = spin_cycles();
    rt_time_wait_cycles(300);
    out[0] = spin_cycles() - start >= 300 && spin_cycles() - start < 330;
}

/* The registers ignore writes. */
__handler__ void write_task_ph(handler_args_t *args) {
    volatile uint32_t *flow = &args->task->flow_id, *out = (uint32_t *)args->task->handler_mem;
    *flow = 1;
    ((volatile uint8_t *)flow)[1] = 1;
    uint32_t before = amo_swap(flow, 2);
    out[0] = before == *flow ? before : 0;
}

/* What must fail. */
__handler__ void outside_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t handle;
    spin_dma_to_host(host(task) + task->host_mem_size - 3, (uint32_t)(uintptr_t)task->pkt_mem, 4, 0,
                     &handle);
}
__handler__ void below_ph(handler_args_t *args) {
    spin_write_to_host(host(args->task) - 8, 1, NULL);
}
__handler__ void send_ph(handler_args_t *args) {
    spin_cmd_t handle;
    spin_send_packet(args->task->pkt_mem, args->task->pkt_mem_size + 1, &handle);
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **handler_mem_ptr) {
    *hh = NULL;
    *ph = commands_ph;
    *th = NULL;
    *handler_mem_ptr = NULL;
}
