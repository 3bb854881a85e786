/* Packets that no program and no card has sent: put into the network of a world by a test, from a
 * rank whose card sends nothing to that target. */
#ifndef TESTS_WORLD_PACKET_H
#define TESTS_WORLD_PACKET_H

#include "lib/spinlib_world.h"
#include "sim/world_private.h"

/* `bytes` of a message, at `offset` of it, which is the `number`-th from this rank to that one. The
 * message is what the first packet says; who it says that it is from is the test's business. */
static inline int world_packet(struct spin_world *w, uint32_t from, uint32_t to, uint32_t number,
                               const struct nic_message *message, const uint8_t *data,
                               uint32_t offset, uint32_t bytes) {
    struct nic_packet *p = nic_packet_new(w->packets);
    RANK_CHECK(p);
    p->kind = NIC_DATA;
    p->first = offset == 0;
    p->last = offset + bytes == message->payload;
    p->source.nid = from;
    p->target.nid = to;
    p->message_number = number;
    p->offset = offset;
    p->bytes = bytes;
    p->message = *message;
    p->message.kind = NIC_PUT;
    p->message.interface = PTL_NI_MATCHING | PTL_NI_LOGICAL;
    p->message.ack_req = PTL_NO_ACK_REQ;
    p->message.source.nid = from;
    p->message.target.nid = p->message.target_rank = to;
    p->message.length = message->payload;
    if (bytes)
        memcpy(p->data, data, bytes);
    uint32_t index = world_flight_new(&w->rank[from], p, &(struct nic_departed){0});
    nic_packet_release(p);
    RANK_CHECK(index != WORLD_NONE);
    nic_leaves_now(w->rank[from].nic, &((struct world_flight *)pool_at(&w->flights, index))->how);
    world_flight_less(w, index); /* its card does not know that it has left */
    network_inject(w->net, w->now_ps, w->rank[from].host, w->rank[to].host, bytes, from, index);
    return 0;
}

#endif
