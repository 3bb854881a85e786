/* Looks up each packet's source address in a table of rules. If there is a rule, the packet gets
 * the rule's UDP port and goes to the host; if not, it is dropped. */
#include <handler.h>
#include <packets.h>

#include "filtering.h"

__handler__ void filtering_ph(handler_args_t *args) {
    task_t *task = args->task;
    pkt_hdr_t *packet = (pkt_hdr_t *)task->pkt_mem;
    uint32_t source = packet->ip_hdr.source_id;
    const filtering_entry_t *entry =
        (const filtering_entry_t *)task->handler_mem + filtering_place(source);
    if (entry->source != source)
        return;
    packet->udp_hdr.dst_port = (uint16_t)entry->port;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    uint32_t bytes = task->pkt_mem_size;
    spin_cmd_t copying;
    spin_dma_to_host(host + packet->ip_hdr.identification * bytes, (uint32_t)packet, bytes, true,
                     &copying);
}
