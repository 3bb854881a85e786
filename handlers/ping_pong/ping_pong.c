/* Sends each UDP packet back to where it came from. */
#include <handler.h>
#include <packets.h>

__handler__ void ping_pong_ph(handler_args_t *args) {
    ip_hdr_t *ip = (ip_hdr_t *)args->task->pkt_mem;
    udp_hdr_t *udp = (udp_hdr_t *)((uint8_t *)ip + ip->ihl * 4);

    uint32_t peer = ip->source_id;
    ip->source_id = ip->dest_id;
    ip->dest_id = peer;
    uint16_t port = udp->src_port;
    udp->src_port = udp->dst_port;
    udp->dst_port = port;

    spin_cmd_t sending; /* nobody waits: the packet is not completed before it is sent */
    spin_send_packet(ip, ip->length, &sending);
}
