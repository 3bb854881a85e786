/* Messages: cut into packets, one host's after the other, and put together again.
 *
 * A message is done when every packet of it is in. A packet that is lost, dropped or corrupted is
 * sent again by its host `retry_ps` after the moment it was lost, up to `retries` times; the
 * message of a packet that is still not in after that is reported as lost. Acknowledgements are not
 * sent: the host knows by a timer that never errs, so what is modelled is the cost of sending again
 * and of waiting for the timer, not of the traffic that finds it out. Duplicates are recognised. */
#include "sim/network_private.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/grow.h"
#include "base/pages.h"

static uint32_t new_message(struct network *net) {
    uint32_t m = net->message_free;
    if (m) {
        net->message_free = net->messages[m - 1].next;
        return m - 1;
    }
    if (!ROOM_FOR_ONE_BY(pages_grow, net->messages, net->messages_used, net->message_room, 256)) {
        net_no_memory(net);
        return NET_NONE;
    }
    return net->messages_used++;
}

static void finish(struct network *net, uint32_t index, uint64_t now_ps) {
    struct net_message *m = &net->messages[index];
    uint64_t cookie = m->cookie;
    bool lost = m->lost;
    uint64_t at_ps = m->stored_ps > now_ps ? m->stored_ps : now_ps;
    net->counts.messages_lost += lost;
    m->next = net->message_free;
    net->message_free = index + 1;
    if (net->on.message)
        net->on.message(net->on.context, cookie, at_ps, lost);
}

bool net_message_leave(struct network *net, uint32_t host) {
    struct net_outbox *out = &net->outboxes[host];
    if (out->first && net->messages[out->first - 1].cut) {
        out->first = net->messages[out->first - 1].next;
        if (!out->first)
            out->last = 0;
    }
    return out->first != 0;
}

void net_message_continue(struct network *net, uint32_t host, uint64_t now_ps) {
    if (!net_message_leave(net, host))
        return;
    uint32_t first = net->outboxes[host].first;
    struct net_message *m = &net->messages[first - 1];
    uint64_t left = m->bytes - m->sent;
    uint32_t bytes = left < net->config.mtu_bytes ? (uint32_t)left : net->config.mtu_bytes;
    m->sent += bytes;
    m->cut = m->sent == m->bytes;
    uint64_t ready_ps = m->at_ps;
    if (m->begun) {
        /* It was not waiting while its predecessor was sent: queues are what others make. */
        uint32_t port = topology_next(net->topology, host, m->dst, 0).channel;
        uint64_t free_ps = net->channels[port].free_ps;
        ready_ps = free_ps > ready_ps ? free_ps : ready_ps;
    }
    m->begun = true;
    if (net->on.fetch)
        ready_ps = net->on.fetch(net->on.context, host, ready_ps, bytes);
    net_place(net, now_ps, ready_ps,
              &(struct net_origin){.src = host,
                                   .dst = m->dst,
                                   .bytes = bytes,
                                   .flow = m->flow,
                                   .cookie = first - 1,
                                   .flags = PACKET_MESSAGE | PACKET_LEADS});
}

static void enqueue(struct network *net, uint32_t index, uint64_t now_ps) {
    struct net_message *m = &net->messages[index];
    uint32_t host = m->src;
    struct net_outbox *out = &net->outboxes[host];
    m->next = 0;
    if (out->last)
        net->messages[out->last - 1].next = index + 1;
    else
        out->first = index + 1;
    out->last = index + 1;
    if (out->first == index + 1)
        net_message_continue(net, host, now_ps);
}

void net_on_start(void *context, const struct sim_event *event) {
    struct network *net = context;
    uint32_t index = event->with.u32[0];
    const struct net_message *m = &net->messages[index];
    if (m->src == m->dst)
        finish(net, index, event->at_ps); /* memory to memory: the host's own cost */
    else
        enqueue(net, index, event->at_ps);
}

void network_send(struct network *net, uint64_t now_ps, uint64_t at_ps, uint32_t src, uint32_t dst,
                  uint64_t bytes, uint32_t flow, uint64_t cookie) {
    if (!net_possible(net, src, net->topology->hosts, dst, 0))
        return;
    net_prefetch_host(net, src);
    uint32_t index = new_message(net);
    if (index == NET_NONE)
        return;
    uint64_t mtu = net->config.mtu_bytes;
    net->messages[index] = (struct net_message){
        .cookie = cookie,
        .bytes = bytes,
        .at_ps = at_ps,
        .packets_left = bytes ? bytes / mtu + (bytes % mtu != 0) : 1,
        .src = src,
        .dst = dst,
        .flow = flow,
    };
    net->counts.messages++;
    if (at_ps > now_ps || src == dst)
        sim_schedule(&net->sim, at_ps, net_node_object(src), NET_START,
                     (union sim_payload){.u32 = {index}});
    else
        enqueue(net, index, now_ps);
}

void net_message_packet(struct network *net, const struct net_arrival *arrival, uint8_t attempt,
                        uint64_t maker) {
    uint32_t index = (uint32_t)arrival->cookie;
    struct net_message *m = &net->messages[index];
    if (arrival->fate != NET_DELIVERED) {
        if (net->config.retry_ps && attempt < net->config.retries) {
            sim_schedule(&net->sim, arrival->at_ps + net->config.retry_ps, maker, NET_RETRY,
                         (union sim_payload){.u32 = {index, arrival->bytes, attempt + 1u}});
            return;
        }
        m->lost = true;
    } else if (net->on.store) {
        uint64_t in = net->on.store(net->on.context, arrival->dst, arrival->at_ps, arrival->bytes);
        m->stored_ps = in > m->stored_ps ? in : m->stored_ps;
    }
    if (--m->packets_left == 0)
        finish(net, index, arrival->at_ps);
}

void net_message_due(struct network *net, uint32_t message, uint32_t channel, uint64_t at_ps) {
    struct net_message *m = &net->messages[message];
    if (at_ps > m->stored_ps)
        m->stored_ps = at_ps;
    if (--m->packets_left == 0)
        sim_schedule(&net->sim, m->stored_ps, net_link_object(net, channel), NET_WHOLE,
                     (union sim_payload){.u32 = {message}});
}

void net_on_whole(void *context, const struct sim_event *event) {
    finish(context, event->with.u32[0], event->at_ps);
}

void net_whole_ahead(void *context, const struct sim_event *event) {
    const struct network *net = context;
    __builtin_prefetch(&net->messages[event->with.u32[0]], 1);
}

void net_on_retry(void *context, const struct sim_event *event) {
    struct network *net = context;
    const struct net_message *m = &net->messages[event->with.u32[0]];
    net->counts.retransmitted++;
    net_place(net, event->at_ps, event->at_ps,
              &(struct net_origin){.src = m->src,
                                   .dst = m->dst,
                                   .bytes = event->with.u32[1],
                                   .flow = m->flow,
                                   .cookie = event->with.u32[0],
                                   .flags = PACKET_MESSAGE,
                                   .attempt = (uint8_t)event->with.u32[2]});
}

int net_message_create(struct network *net, struct spin_error *err) {
    uint32_t hosts = net->topology->hosts;
    net->outboxes = pages_new(sizeof *net->outboxes * hosts);
    if (!net->outboxes)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory for %u hosts", hosts);
    if (net->config.retries > 254)
        return spin_fail(err, SPIN_EARG, "network: %u retries are over the limit of 254",
                         net->config.retries);
    return SPIN_OK;
}

void net_message_destroy(struct network *net) {
    pages_free(net->outboxes, sizeof *net->outboxes * net->topology->hosts);
    pages_free(net->messages, sizeof *net->messages * net->message_room);
}

_Static_assert(sizeof(struct net_message) == 64, "a message is a cache line");
