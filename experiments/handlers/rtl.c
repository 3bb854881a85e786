/* Handlers that do what those did that the card's RTL was measured with. Compiled by gcc, as they
 * were: clang has another mix of instructions. */
#include <handler.h>
#include <packets.h>

#include "../../handlers/copy_to_host/copy_to_host.c"
#include "../../handlers/empty/empty.c"
#include "../../handlers/ping_pong/ping_pong.c"

/* Answers with as many bytes from the start of host memory, fetched over the packet. */
__handler__ void fetch_and_send_ph(handler_args_t *args) {
    task_t *task = args->task;
    ip_hdr_t *ip = (ip_hdr_t *)task->pkt_mem;
    udp_hdr_t *udp = (udp_hdr_t *)((uint8_t *)ip + ip->ihl * 4);
    uint32_t bytes = ip->length, peer = ip->source_id;
    ip->source_id = ip->dest_id;
    ip->dest_id = peer;
    uint16_t port = udp->src_port;
    udp->src_port = udp->dst_port;
    udp->dst_port = port;

    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t fetching, sending;
    spin_dma_from_host(host, (uint32_t)ip, bytes, true, &fetching);
    spin_cmd_wait(fetching);
    spin_send_packet(ip, bytes, &sending);
}

/* Adds the packet's words to the cluster's, one per iteration. */
__handler__ void reduce_each_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint8_t *payload;
    uint32_t bytes;
    GET_IP_UDP_PLD(task->pkt_mem, payload, bytes);
    const int32_t *word = (const int32_t *)payload;
    volatile int32_t *sum = (volatile int32_t *)task->scratchpad[args->cluster_id];
    for (uint32_t i = 0; i < bytes / 4; i++)
        amo_add(&sum[i], word[i]);
}
