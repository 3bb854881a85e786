/* Design notes.
 *
 * A packet is a record in a pool; the event that moves it holds its index. On arrival at a switch
 * the next channel is chosen, the time of departure is settled from the channel's free_ps, and the
 * arrival at the far end is scheduled: one event per hop.
 *
 * A host's messages are cut into packets one at a time: when a packet reaches the first switch its
 * successor is placed, with a time that may lie before `now`, namely when the host's port became
 * free. It still arrives later than its predecessor, so nothing happens in the past; and a message
 * of any length has only as many packets in memory as are on the way.
 *
 * Records move when a pool grows, which any call that places a packet may cause: pointers to them
 * are taken anew after such calls. */
#include "sim/network_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/pages.h"

struct net_config net_config_default(void) {
    return (struct net_config){
        .fs_per_byte = 20000, /* 400 Gbit/s, A2 */
        .latency_ps = 33400,  /* a wire of 10 m, A3 */
        .switch_ps = 50000,   /* A3 */
        .mtu_bytes = 4096,    /* A3 */
        .buffer_bytes =
            65536, /* ours: 16 packets, above the 2 x 33.4 ns of a credit's round trip */
        .seed = 1,
        .retry_ps = 100000000, /* ours: 100 us */
        .retries = 7,
        .faults = {.reorder_ps = 1000000}, /* ours: 1 us */
    };
}

void net_no_memory(struct network *net) {
    net->out_of_memory = true;
    sim_stop(net->engine);
}

bool net_possible(struct network *net, uint32_t src, uint32_t nodes, uint32_t dst, uint64_t bytes) {
    if (bytes <= net->config.mtu_bytes && src < nodes && dst < net->topology->hosts)
        return true;
    if (!net->refused.is)
        net->refused = (struct net_refused){src, dst, (uint32_t)bytes, true};
    sim_stop(net->engine);
    return false;
}

int network_check(const struct network *net, struct spin_error *err) {
    if (net->refused.is)
        return spin_fail(
            err, SPIN_EARG,
            "network: a packet of %u bytes from node %u to host %u; there are %u hosts "
            "and %u switches, and the MTU is %u bytes",
            net->refused.bytes, net->refused.src, net->refused.dst, net->topology->hosts,
            net->topology->switches, net->config.mtu_bytes);
    if (!net->out_of_memory)
        return SPIN_OK;
    return spin_fail(err, SPIN_ENOMEM, "out of memory with %llu packets in flight",
                     (unsigned long long)net->counts.in_flight);
}

/* ---- the pool ---- */

static bool more_packets(struct network *net) {
    uint32_t room = net->packet_room ? 2 * net->packet_room : 1024;
    if (room > NET_NONE / 2)
        return false;
    struct net_packet_end *ends =
        pages_grow(net->ends, sizeof *ends * net->end_room, sizeof *ends * room);
    if (!ends)
        return false;
    net->ends = ends;
    net->end_room = room;
    struct net_packet *packets =
        pages_grow(net->packets, sizeof *packets * net->packet_room, sizeof *packets * room);
    if (!packets)
        return false;
    net->packets = packets;
    net->packet_room = room;
    return true;
}

uint32_t net_new_packet(struct network *net) {
    uint32_t index = net->packet_free;
    if (index) {
        net->packet_free = net->packets[--index].next;
        if (net->packet_free) /* the next call's */
            __builtin_prefetch(&net->packets[net->packet_free - 1], 1);
    } else if (net->packets_used < net->packet_room || more_packets(net)) {
        index = net->packets_used++;
    } else {
        net_no_memory(net);
        return NET_NONE;
    }
    if (++net->counts.in_flight > net->counts.most_in_flight)
        net->counts.most_in_flight = net->counts.in_flight;
    return index;
}

static void retire(struct network *net, uint32_t index, enum net_fate fate) {
    net->counts.fate[fate]++;
    net->counts.in_flight--;
    net->packets[index].next = net->packet_free;
    net->packet_free = index + 1;
}

/* ---- on the way ---- */

/* Is all that can still happen to a packet on the link to its host known? Then its arrival needs no
 * event of its own; the message has one, at its end. */
static bool certain(const struct network *net, const struct net_packet *p) {
    return (p->flags & (PACKET_MESSAGE | PACKET_LEADS)) == PACKET_MESSAGE && !net->faulty &&
           !net->broken && !net->on.store;
}

uint64_t net_transmit(struct network *net, uint32_t index, const struct topo_hop *hop,
                      uint64_t now_ps, uint64_t ready_ps) {
    struct net_packet *p = &net->packets[index];
    struct net_channel *c = &net->channels[hop->channel];
    const struct net_link_kind *kind = &net->kinds[hop->kind];
    uint64_t takes = transfer_ps(p->bytes, kind->fs_per_byte);
    uint64_t start = c->free_ps > ready_ps ? c->free_ps : ready_ps;
    if (net->vcs > 1)
        start = net_credit_start(net, hop, ready_ps, takes);
    uint64_t end = start + takes;
    struct net_draw draw = {0};
    if (net->faulty)
        draw = net_fault_draw(net, hop->channel);

    if (end > c->free_ps)
        c->free_ps = end;
    c->bytes += p->bytes;
    c->busy_ps += takes;
    c->queued_ps += start - ready_ps;
    if (end - ready_ps > c->most_ps)
        c->most_ps = end - ready_ps;
    c->packets++;
    net->counts.hops++;
    net->counts.queued_ps += start - ready_ps;

    bool held_room = net->slots && p->slot != NET_NONE;
    uint64_t room_at = end + (held_room ? net->kinds[p->kind].latency_ps : 0);
    if (held_room) /* before the record forgets where it was */
        net_credit_release(net, index, now_ps, room_at);
    p = &net->packets[index];

    bool to_host = hop->node < net->topology->hosts;
    uint64_t tail = end + kind->latency_ps;
    uint64_t arrival = to_host || net->config.store_and_forward ? tail : start + kind->latency_ps;
    p->queued_ps += start - ready_ps;
    p->ready_ps = now_ps;
    p->tail_ps = tail + draw.held_ps;
    p->node = hop->node;
    p->kind = hop->kind;
    p->slot = net_slot(net, hop);
    p->hops++;
    p->flags |= (draw.lost ? PACKET_LOST : 0) | (draw.corrupt ? PACKET_CORRUPT : 0);
    if (draw.held_ps && (p->flags & PACKET_LEADS)) { /* its successor does not wait for it */
        p->flags &= (uint8_t)~PACKET_LEADS;
        sim_schedule(&net->sim, arrival, net_link_object(net, hop->channel), NET_CONTINUE,
                     (union sim_payload){.u32 = {net->ends[index].src}});
    }
    if (net->on.transmit)
        net->on.transmit(net->on.context, hop->channel, start, end, net->ends[index].src, p->dst,
                         p->bytes);
    if (to_host && certain(net, p)) {
        uint32_t message = (uint32_t)p->cookie;
        retire(net, index, NET_DELIVERED);
        net_message_due(net, message, hop->channel, tail);
        return end;
    }
    struct topo_hop next = {.channel = TOPO_NONE};
    if (!to_host)
        next = topology_next(net->topology, hop->node, p->dst, p->selector);
    p->next_kind = (uint16_t)next.kind;
    uint32_t by = next.channel == TOPO_NONE ? NET_NONE : net_slot(net, &next);
    sim_schedule(&net->sim, arrival + draw.held_ps, net_link_object(net, hop->channel), NET_ARRIVE,
                 (union sim_payload){.u32 = {index, p->slot, by, next.node}});
    if (draw.duplicate)
        net_fault_duplicate(net, index, hop, now_ps);
    return end;
}

void net_forward(struct network *net, uint32_t index, const struct topo_hop *hop, uint64_t now_ps,
                 uint64_t ready_ps) {
    struct net_packet *p = &net->packets[index];
    const struct net_link_kind *kind = &net->kinds[hop->kind];
    if (!net->one_rate && p->hops && !net->config.store_and_forward) {
        /* A fast link must not run ahead of the slow one that feeds it. */
        uint64_t takes = transfer_ps(p->bytes, kind->fs_per_byte);
        uint64_t all_in = p->tail_ps + net->config.switch_ps;
        if (all_in > takes && all_in - takes > ready_ps)
            ready_ps = all_in - takes;
    }
    if (net->config.flow_control == NET_DROP_TAIL && p->hops) {
        const struct net_channel *c = &net->channels[hop->channel];
        uint64_t backlog = c->free_ps > ready_ps ? c->free_ps - ready_ps : 0;
        uint64_t queued = backlog * 1000 / kind->fs_per_byte;
        if (queued + p->bytes > net->config.buffer_bytes) {
            net->channels[hop->channel].drops++;
            net_finish(net, index, now_ps, NET_DROPPED);
            return;
        }
    }
    if (net->slots)
        net_credit_send(net, index, hop, now_ps, ready_ps);
    else
        net_transmit(net, index, hop, now_ps, ready_ps);
}

/* The event says all that is needed to find what it will touch: the packet, the link it came by,
 * and the one it leaves by, which was looked up when the packet was sent here. */
static void arrive(void *context, const struct sim_event *event) {
    struct network *net = context;
    uint32_t index = event->with.u32[0];
    uint64_t now_ps = event->at_ps;
    struct net_packet *p = &net->packets[index];
    bool at_switch = p->node >= net->topology->hosts;
    if (net->slots && at_switch)
        net_credit_landed(net, index);
    if (p->flags & PACKET_LEADS) {
        p->flags &= (uint8_t)~PACKET_LEADS;
        net_message_continue(net, net->ends[index].src, now_ps);
        p = &net->packets[index];
    }
    uint64_t broken_ps = net->broken ? net->channels[net_channel(net, p->slot)].broken_ps : 0;
    if ((p->flags & PACKET_LOST) || broken_ps > p->ready_ps) {
        net_finish(net, index, now_ps, NET_LOST);
        return;
    }
    if (net->nodes && net_node_takes(net, index, now_ps))
        return;
    if (!at_switch) {
        net_finish(net, index, now_ps, p->flags & PACKET_CORRUPT ? NET_CORRUPTED : NET_DELIVERED);
        return;
    }
    uint32_t by = event->with.u32[2];
    struct topo_hop hop = {.channel = by == NET_NONE ? TOPO_NONE : net_channel(net, by),
                           .node = event->with.u32[3],
                           .kind = p->next_kind};
    hop.vc = by - hop.channel * net->vcs;
    if (net->broken_count || (p->flags & PACKET_DETOUR))
        hop = net_detour(net, index, p->node);
    if (hop.channel == TOPO_NONE)
        net_finish(net, index, now_ps, NET_NO_ROUTE);
    else
        net_forward(net, index, &hop, now_ps, now_ps + net->config.switch_ps);
}

/* What `arrive` will touch. When a packet has come by its host's own link, the next of its message
 * follows. */
static void look_ahead(void *context, const struct sim_event *event) {
    const struct network *net = context;
    uint32_t index = event->with.u32[0], in = event->with.u32[1], by = event->with.u32[2];
    __builtin_prefetch(&net->packets[index], 1);
    if (by == NET_NONE) {
        __builtin_prefetch(&net->ends[index]);
        return;
    }
    __builtin_prefetch(&net->channels[net_channel(net, by)], 1);
    if (net->slots) {
        net_credit_prefetch(net, in);
        net_credit_prefetch(net, by);
    }
    uint32_t host = net_channel(net, in);
    if (host < net->topology->hosts) {
        __builtin_prefetch(&net->ends[index]);
        net_prefetch_host(net, host);
    }
}

/* And what is found through that. A message is touched when its packet leaves or reaches a host, or
 * is sent on the last link. */
static void look_closer(void *context, const struct sim_event *event) {
    const struct network *net = context;
    const struct net_packet *p = &net->packets[event->with.u32[0]];
    bool at_end = event->with.u32[2] == NET_NONE;
    bool at_edge = at_end || (p->flags & PACKET_LEADS) || event->with.u32[3] < net->topology->hosts;
    if (at_edge && (p->flags & PACKET_MESSAGE))
        __builtin_prefetch(&net->messages[p->cookie], 1);
    else if (at_end && net->on.ahead)
        net->on.ahead(net->on.context, p->cookie, p->dst);
    if (net->slots && !at_end)
        net_credit_look_closer(net, event->with.u32[1], p->next);
}

static void look_nearest(void *context, const struct sim_event *event) {
    const struct network *net = context;
    const struct net_packet *p = &net->packets[event->with.u32[0]];
    if (event->with.u32[2] == NET_NONE && net->on.closer && !(p->flags & PACKET_MESSAGE))
        net->on.closer(net->on.context, p->cookie, p->dst);
}

/* ---- the ends of the way ---- */

void net_place(struct network *net, uint64_t now_ps, uint64_t ready_ps,
               const struct net_origin *origin) {
    uint32_t index = net_new_packet(net);
    if (index == NET_NONE)
        return;
    struct net_packet *p = &net->packets[index];
    *p = (struct net_packet){
        .cookie = origin->cookie,
        .dst = origin->dst,
        .bytes = origin->bytes + net->config.header_bytes,
        .selector = topology_selector(net->topology, origin->src, origin->dst, origin->flow,
                                      net->config.multipath, net->config.seed),
        .node = origin->src,
        .slot = NET_NONE,
        .flags = origin->flags,
    };
    if (origin->src >= net->topology->hosts) { /* made in a switch: at its port like any other */
        p->hops = 1;
        p->tail_ps = now_ps;
        ready_ps = now_ps + net->config.switch_ps;
    }
    net->ends[index] = (struct net_packet_end){
        .src = origin->src, .flow = origin->flow, .twin = NET_NONE, .attempt = origin->attempt};
    net->counts.injected++;
    struct topo_hop hop = {.channel = TOPO_NONE};
    if (origin->src != origin->dst)
        hop = net->broken_count
                  ? net_detour(net, index, origin->src)
                  : topology_next(net->topology, origin->src, origin->dst, p->selector);
    if (hop.channel == TOPO_NONE) /* to itself, or no way: by an event, so that no callback runs
                                   * inside the call that injects */
        sim_schedule(&net->sim, now_ps, net_node_object(origin->src), NET_END,
                     (union sim_payload){.u32 = {index}});
    else
        net_forward(net, index, &hop, now_ps, ready_ps);
}

static void end_at_source(void *context, const struct sim_event *event) {
    struct network *net = context;
    uint32_t index = event->with.u32[0];
    bool to_itself = net->packets[index].dst == net->ends[index].src;
    net_finish(net, index, event->at_ps, to_itself ? NET_DELIVERED : NET_NO_ROUTE);
}

void network_prefetch(const struct network *net, uint32_t host) {
    __builtin_prefetch(&net->channels[host], 1);
}

void network_inject(struct network *net, uint64_t now_ps, uint32_t src, uint32_t dst,
                    uint32_t bytes, uint32_t flow, uint64_t cookie) {
    /* One larger than the MTU might never fit into a buffer. */
    if (!net_possible(net, src, net->topology->hosts, dst, bytes))
        return;
    net_place(net, now_ps, now_ps,
              &(struct net_origin){
                  .src = src, .dst = dst, .bytes = bytes, .flow = flow, .cookie = cookie});
}

void net_finish(struct network *net, uint32_t index, uint64_t now_ps, enum net_fate fate) {
    struct net_packet *p = &net->packets[index];
    if (net->slots && p->slot != NET_NONE && p->node >= net->topology->hosts) {
        net_credit_release(net, index, now_ps, now_ps + net->kinds[p->kind].latency_ps);
        p = &net->packets[index];
    }
    struct net_packet_end end = net->ends[index];
    struct net_arrival arrival = {
        .at_ps = now_ps,
        .cookie = p->cookie,
        .src = end.src,
        .dst = p->dst,
        .bytes = p->bytes - net->config.header_bytes,
        .flow = end.flow,
        .fate = fate,
        .duplicate = p->flags & PACKET_DUPLICATE,
        .queued_ps = p->queued_ps,
    };
    uint8_t flags = p->flags;
    uint64_t maker = p->slot == NET_NONE ? net_node_object(end.src)
                                         : net_link_object(net, net_channel(net, p->slot));
    if (end.twin != NET_NONE) {
        net->ends[end.twin].twin = NET_NONE;
        if (fate == NET_DELIVERED)
            net->packets[end.twin].flags |= PACKET_REDUNDANT;
    }
    retire(net, index, fate);
    if ((flags & PACKET_LEADS) && net_message_leave(net, end.src)) /* it never left its host */
        sim_schedule(&net->sim, now_ps, net_node_object(end.src), NET_CONTINUE,
                     (union sim_payload){.u32 = {end.src}});
    if (!(flags & PACKET_MESSAGE)) {
        if (net->on.packet)
            net->on.packet(net->on.context, &arrival);
        return;
    }
    bool other_alive = fate != NET_DELIVERED && end.twin != NET_NONE;
    if (!(flags & PACKET_REDUNDANT) && !other_alive)
        net_message_packet(net, &arrival, end.attempt, maker);
}

static void go_on(void *context, const struct sim_event *event) {
    net_message_continue(context, event->with.u32[0], event->at_ps);
}

/* ---- set-up and figures ---- */

static int check_config(const struct net_config *c, struct spin_error *err) {
    if (c->fs_per_byte == 0 || c->fs_per_byte > TOPO_SLOWEST_FS)
        return spin_fail(err, SPIN_EARG, "network: a rate of %llu fs/B is outside 1 to 10^12",
                         (unsigned long long)c->fs_per_byte);
    if (c->mtu_bytes == 0 || c->mtu_bytes > 1u << 20 || c->header_bytes > 65536)
        return spin_fail(err, SPIN_EARG,
                         "network: an MTU of %u and a header of %u bytes; the limits are 1 to "
                         "1048576 and 0 to 65536",
                         c->mtu_bytes, c->header_bytes);
    if (c->latency_ps > TOPO_MAX_LATENCY_PS || c->switch_ps > TOPO_MAX_LATENCY_PS ||
        c->global_latency_ps > TOPO_MAX_LATENCY_PS)
        return spin_fail(err, SPIN_EARG,
                         "network: a latency is over the limit of 2^50 ps (18 min)");
    uint64_t most = (uint64_t)c->mtu_bytes + c->header_bytes;
    if (c->flow_control != NET_UNLIMITED && (c->buffer_bytes < most || c->buffer_bytes > 1u << 31))
        return spin_fail(err, SPIN_EARG,
                         "network: a buffer of %llu bytes; it must hold a packet of %llu bytes and "
                         "be at most 2 GiB",
                         (unsigned long long)c->buffer_bytes, (unsigned long long)most);
    return SPIN_OK;
}

static int fill_kinds(struct network *net, struct spin_error *err) {
    const struct topology *t = net->topology;
    net->kinds = calloc(t->n_kinds, sizeof *net->kinds);
    if (!net->kinds)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory");
    net->one_rate = true;
    for (uint32_t i = 0; i < t->n_kinds; i++) {
        struct topo_kind k = t->kinds[i];
        uint64_t latency = i == 1 && t->family == &topo_dragonfly_family
                               ? net->config.global_latency_ps
                               : k.latency_ps;
        net->kinds[i].fs_per_byte = k.fs_per_byte ? k.fs_per_byte : net->config.fs_per_byte;
        net->kinds[i].latency_ps = latency ? latency : net->config.latency_ps;
        net->one_rate &= net->kinds[i].fs_per_byte == net->config.fs_per_byte;
        if (i == 0 || net->kinds[i].fs_per_byte < net->fastest_fs)
            net->fastest_fs = net->kinds[i].fs_per_byte;
    }
    return SPIN_OK;
}

static const struct sim_module module = {
    .name = "network",
    .kinds = NET_KINDS,
    .kind = {
        [NET_ARRIVE] =
            {.run = arrive, .ahead = look_ahead, .closer = look_closer, .nearest = look_nearest},
        [NET_END] = {.run = end_at_source},
        [NET_CONTINUE] = {.run = go_on},
        [NET_START] = {.run = net_on_start},
        [NET_RETRY] = {.run = net_on_retry},
        [NET_WHOLE] = {.run = net_on_whole, .ahead = net_whole_ahead},
        [NET_BREAK] = {.run = net_on_break},
        [NET_WAKE] = {.run = net_on_wake},
        [NET_LOOK] = {.run = net_on_look},
        [NET_DELIVER] = {.run = net_on_deliver},
    }};

int network_create(struct network **out, struct sim_engine *engine, const struct topology *topology,
                   const struct net_config *config, const struct net_callbacks *callbacks,
                   struct spin_error *err) {
    *out = NULL;
    int code = check_config(config, err);
    if (code)
        return code;
    struct network *net = calloc(1, sizeof *net);
    if (!net)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory");
    net->engine = engine;
    net->topology = topology;
    net->config = *config;
    net->on = *callbacks;
    net->vcs = 1;
    /* Zeroed memory that is not touched costs nothing: a port that never sends takes no room. */
    net->channels = pages_new(sizeof *net->channels * topology->channels);
    if (!net->channels)
        code =
            spin_fail(err, SPIN_ENOMEM, "network: out of memory for %u ports", topology->channels);
    if (!code)
        code = fill_kinds(net, err);
    if (!code)
        code = net_message_create(net, err);
    if (!code)
        code = net_fault_create(net, err);
    if (!code && config->flow_control == NET_CREDIT)
        code = net_credit_create(net, err);
    if (!code)
        code = sim_engine_join(engine, &module, net, &net->sim, err);
    if (code) {
        network_destroy(net);
        return code;
    }
    net_fault_plan(net);
    *out = net;
    return SPIN_OK;
}

void network_destroy(struct network *net) {
    if (!net)
        return;
    net_message_destroy(net);
    net_fault_destroy(net);
    net_credit_destroy(net);
    net_node_destroy(net);
    free(net->kinds);
    pages_free(net->channels, sizeof *net->channels * net->topology->channels);
    pages_free(net->packets, sizeof *net->packets * net->packet_room);
    pages_free(net->ends, sizeof *net->ends * net->end_room);
    free(net);
}

struct net_counts network_counts(const struct network *net) {
    struct net_counts counts = net->counts;
    const struct topology *t = net->topology;
    counts.bytes_held = (uint64_t)net->packet_room * (sizeof *net->packets + sizeof *net->ends) +
                        (uint64_t)net->release_room * sizeof *net->releases +
                        (uint64_t)net->message_room * sizeof *net->messages +
                        (uint64_t)t->channels * sizeof *net->channels;
    if (net->slots)
        counts.bytes_held += (uint64_t)t->channels * net->vcs * sizeof *net->slots;
    return counts;
}

struct net_link network_link(const struct network *net, uint32_t channel) {
    const struct net_channel *c = &net->channels[channel];
    if (!c->packets && !c->drops)
        return (struct net_link){0};
    struct topo_hop hop = topology_channel(net->topology, channel);
    uint64_t rate = net->kinds[hop.channel == TOPO_NONE ? 0 : hop.kind].fs_per_byte;
    unsigned __int128 most = (unsigned __int128)c->most_ps * 1000 / rate;
    return (struct net_link){.packets = c->packets,
                             .bytes = c->bytes,
                             .busy_ps = c->busy_ps,
                             .queued_ps = c->queued_ps,
                             .drops = c->drops,
                             .queue_max_bytes = (uint64_t)most};
}
