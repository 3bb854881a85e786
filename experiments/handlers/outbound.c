/* Packets out of the card, to the network and to the host, from L1 and from L2 (ISCA'21 figure 9).
 * To the network: a UDP ping-pong, addresses and ports swapped. To the host: the packet as it is.
 */
#include <handler.h>
#include <packets.h>

/* Reads the headers in L1, where the packet was copied to. */
static inline __attribute__((always_inline)) void turn_round(const pkt_hdr_t *from, pkt_hdr_t *to) {
    uint32_t source = from->ip_hdr.source_id, dest = from->ip_hdr.dest_id;
    uint16_t source_port = from->udp_hdr.src_port, dest_port = from->udp_hdr.dst_port;
    to->ip_hdr.source_id = dest;
    to->ip_hdr.dest_id = source;
    to->udp_hdr.src_port = dest_port;
    to->udp_hdr.dst_port = source_port;
}

__handler__ void network_l1_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t sending;
    turn_round(task->pkt_mem, task->pkt_mem);
    spin_send_packet(task->pkt_mem, task->pkt_mem_size, &sending);
}

/* The same work, but what is sent is the packet in L2, as it came. */
__handler__ void network_l2_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t sending;
    turn_round(task->pkt_mem, task->pkt_mem);
    spin_send_packet(task->l2_pkt_mem, task->pkt_mem_size, &sending);
}

/* Swapped in L2: a ping-pong whose packets are right. */
__handler__ void network_written_ph(handler_args_t *args) {
    task_t *task = args->task;
    spin_cmd_t sending;
    turn_round(task->pkt_mem, task->l2_pkt_mem);
    spin_send_packet(task->l2_pkt_mem, task->pkt_mem_size, &sending);
}

__handler__ void host_l1_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host, (uint32_t)task->pkt_mem, task->pkt_mem_size, true, &copying);
}

__handler__ void host_l2_ph(handler_args_t *args) {
    task_t *task = args->task;
    uint64_t host = (uint64_t)task->host_mem_high << 32 | task->host_mem_low;
    spin_cmd_t copying;
    spin_dma_to_host(host, (uint32_t)task->l2_pkt_mem, task->pkt_mem_size, true, &copying);
}
