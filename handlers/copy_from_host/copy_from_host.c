/* For each packet, fetches as many bytes from host memory into handler memory. */
#include <handler.h>
#include <packets.h>

__handler__ void copy_from_host_ph(handler_args_t *args) {
    task_t *task = args->task;
    const ip_hdr_t *ip = (const ip_hdr_t *)task->pkt_mem;
    uint32_t bytes = task->pkt_mem_size, offset = ip->identification * bytes;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_from_host(host + offset, (uint32_t)task->handler_mem + offset, bytes, false, &copying);
    spin_cmd_wait(copying);
}
