/* Scatters a message to host memory: blocks of so many bytes, a stride apart. A packet may begin
 * and end anywhere in a block. The handler looks at the header only, so the pieces go out of the L2
 * packet buffer, which is made for wide reads, and not out of L1 (ISCA'21 section IV-B2). */
#include <handler.h>
#include <packets.h>

#include "strided_ddt.h"

__handler__ void strided_ddt_ph(handler_args_t *args) {
    task_t *task = args->task;
    const strided_layout_t *layout = (const strided_layout_t *)task->handler_mem;
    const ip_hdr_t *ip = (const ip_hdr_t *)task->pkt_mem;
    uint32_t block = layout->block, stride = layout->stride;
    uint32_t place = ip->identification * layout->payload; /* in the message */
    uint8_t *payload;
    uint32_t left;
    GET_IP_UDP_PLD(ip, payload, left);
    uint32_t data = (uint32_t)task->l2_pkt_mem + (uint32_t)(payload - (const uint8_t *)ip);
    uint32_t skip = place % block;
    uint64_t host = ((uint64_t)task->host_mem_high << 32 | task->host_mem_low) +
                    (uint64_t)(place / block) * stride;
    while (left) {
        uint32_t piece = block - skip < left ? block - skip : left;
        spin_cmd_t copying;
        spin_dma_to_host(host + skip, data, piece, false, &copying);
        data += piece;
        left -= piece;
        host += stride;
        skip = 0;
    }
}
