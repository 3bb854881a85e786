/* Nodes that look at the packets that come to them: network_attach and network_emit.
 *
 * A packet's arrival at such a node makes one more event, when its last byte is in. The node keeps
 * it meanwhile, with the room that it has there under credits; what it does not consume is then
 * switched, or delivered, as if it had come that late. */
#include "sim/network_private.h"

#include "base/error.h"
#include "base/pages.h"

static size_t bytes_of_nodes(const struct network *net) {
    return ((size_t)net->topology->hosts + net->topology->switches) * sizeof *net->nodes;
}

int network_attach(struct network *net, uint32_t node, net_look *look, void *context,
                   struct spin_error *err) {
    uint32_t hosts = net->topology->hosts, switches = net->topology->switches;
    if (node >= (uint64_t)hosts + switches)
        return spin_fail(err, SPIN_EARG, "network: node %u; there are %u hosts and %u switches",
                         node, hosts, switches);
    if (!net->nodes)
        net->nodes = pages_new(bytes_of_nodes(net));
    if (!net->nodes)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory for %u hosts and %u switches",
                         hosts, switches);
    net->nodes[node] = (struct net_node){look, context};
    return SPIN_OK;
}

void net_node_destroy(struct network *net) {
    if (net->nodes)
        pages_free(net->nodes, bytes_of_nodes(net));
}

bool net_node_takes(struct network *net, uint32_t index, uint64_t now_ps) {
    const struct net_packet *p = &net->packets[index];
    if ((p->flags & (PACKET_MESSAGE | PACKET_CORRUPT)) || !net->nodes[p->node].look)
        return false;
    if (net->slots) /* it has landed, and nobody knows where it goes */
        net->slots[p->slot].landed_for = NET_NONE;
    uint64_t in_ps = p->tail_ps > now_ps ? p->tail_ps : now_ps;
    sim_schedule(&net->sim, in_ps, net_link_object(net, net_channel(net, p->slot)), NET_LOOK,
                 (union sim_payload){.u32 = {index}});
    return true;
}

/* The node lets the packet go on, to where it says. */
static void pass(struct network *net, uint32_t index, const struct net_passing *passing) {
    struct net_packet *p = &net->packets[index];
    uint32_t here = p->node, hosts = net->topology->hosts;
    uint64_t now_ps = passing->at_ps;
    uint64_t later_ps = passing->delay_ps < SIM_LATEST_PS ? passing->delay_ps : SIM_LATEST_PS;
    later_ps += now_ps;
    if (!net_possible(net, here, UINT32_MAX, passing->dst, 0)) {
        net_finish(net, index, now_ps, NET_NO_ROUTE);
        return;
    }
    p->cookie = passing->cookie;
    p->dst = passing->dst;
    net->ends[index].flow = passing->flow;
    p->selector = topology_selector(net->topology, net->ends[index].src, p->dst, passing->flow,
                                    net->config.multipath, net->config.seed);
    if (here == p->dst) {
        sim_schedule(&net->sim, later_ps, net_node_object(here), NET_DELIVER,
                     (union sim_payload){.u32 = {index}});
        return;
    }
    struct topo_hop hop = net->broken_count || (p->flags & PACKET_DETOUR)
                              ? net_detour(net, index, here)
                              : topology_next(net->topology, here, p->dst, p->selector);
    if (here < hosts) /* a host has room for all that comes: none is to be given back */
        p->slot = NET_NONE;
    if (hop.channel == TOPO_NONE)
        net_finish(net, index, now_ps, NET_NO_ROUTE);
    else
        net_forward(net, index, &hop, now_ps,
                    later_ps + (here < hosts ? 0 : net->config.switch_ps));
}

void net_on_look(void *context, const struct sim_event *event) {
    struct network *net = context;
    uint32_t index = event->with.u32[0];
    const struct net_packet *p = &net->packets[index];
    struct net_node node = net->nodes[p->node];
    struct net_passing passing = {
        .at_ps = event->at_ps,
        .node = p->node,
        .src = net->ends[index].src,
        .bytes = p->bytes - net->config.header_bytes,
        .duplicate = p->flags & PACKET_DUPLICATE,
        .contents = net->on.contents ? net->on.contents(net->on.context, p->cookie) : NULL,
        .cookie = p->cookie,
        .dst = p->dst,
        .flow = net->ends[index].flow,
    };
    if (node.look && node.look(node.context, &passing) == NET_CONSUME)
        net_finish(net, index, event->at_ps, NET_CONSUMED);
    else
        pass(net, index, &passing);
}

void net_on_deliver(void *context, const struct sim_event *event) {
    net_finish(context, event->with.u32[0], event->at_ps, NET_DELIVERED);
}

void network_emit(struct network *net, uint64_t now_ps, uint32_t node, uint32_t dst, uint32_t bytes,
                  uint32_t flow, uint64_t cookie) {
    if (!net_possible(net, node, net->topology->hosts + net->topology->switches, dst, bytes))
        return;
    net_place(net, now_ps, now_ps,
              &(struct net_origin){
                  .src = node, .dst = dst, .bytes = bytes, .flow = flow, .cookie = cookie});
}
