/* Copies each packet to host memory. */
#include <handler.h>
#include <packets.h>

/* All to the start of host memory, as the runs that the cycle counts are compared with. */
__handler__ void copy_to_host_start_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host, (uint32_t)task->pkt_mem, task->pkt_mem_size, true, &copying);
}

/* Each to a place of its own, by the number that it carries. */
__handler__ void copy_to_host_ph(handler_args_t *args) {
    task_t *task = args->task;
    const ip_hdr_t *ip = (const ip_hdr_t *)task->pkt_mem;
    uint32_t bytes = task->pkt_mem_size;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host + ip->identification * bytes, (uint32_t)ip, bytes, true, &copying);
}
