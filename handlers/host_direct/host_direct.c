/* Writes the first eight bytes of each payload to the host, without DMA. */
#include <handler.h>
#include <packets.h>

__handler__ void host_direct_ph(handler_args_t *args) {
    task_t *task = args->task;
    const pkt_hdr_t *packet = (const pkt_hdr_t *)task->pkt_mem;
    const uint32_t *data = (const uint32_t *)(packet + 1);
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t writing;
    spin_write_to_host(host + packet->ip_hdr.identification * 8, (uint64_t)data[1] << 32 | data[0],
                       &writing);
}
