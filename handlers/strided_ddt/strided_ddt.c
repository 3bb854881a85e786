/* Scatters a message to host memory: blocks of so many bytes, a stride apart. A packet may begin
 * and end anywhere in a block. */
#include <handler.h>
#include <packets.h>

#include "strided_ddt.h"

__handler__ void strided_ddt_ph(handler_args_t *args) {
    task_t *task = args->task;
    const strided_layout_t *layout = (const strided_layout_t *)task->handler_mem;
    const ip_hdr_t *ip = (const ip_hdr_t *)task->pkt_mem;
    uint32_t block = layout->block, stride = layout->stride;
    uint32_t place = ip->identification * layout->payload; /* in the message */
    uint8_t *data;
    uint32_t left;
    GET_IP_UDP_PLD(ip, data, left);
    uint32_t skip = place % block;
    uint64_t host = ((uint64_t)task->host_mem_high << 32 | task->host_mem_low) +
                    (uint64_t)(place / block) * stride;
    while (left) {
        uint32_t piece = block - skip < left ? block - skip : left;
        spin_cmd_t copying;
        spin_dma_to_host(host + skip, (uint32_t)data, piece, false, &copying);
        data += piece;
        left -= piece;
        host += stride;
        skip = 0;
    }
}
