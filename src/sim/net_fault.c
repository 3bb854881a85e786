/* Faults: what a seed does to packets, links that break, and the way round them.
 *
 * The draws for a packet on a channel are a function of (seed, channel, number of the packet on
 * that channel): no generator is shared, so one link's faults do not depend on another's traffic.
 *
 * While links are broken, a packet that is injected takes, among the paths that its topology's own
 * rule can choose, the first one that is whole, trying a fixed row of selectors. If none of those
 * is whole, or if a packet finds the next link broken on its way, it goes by the true distances
 * over what is left: a breadth-first table towards its destination's switch, made on demand and
 * kept in a fixed number of rows. Those packets use virtual channels of their own, by distance to
 * go, which they never leave, so credits stay free of cycles unless links break or heal while they
 * travel or a detour is longer than NET_DETOUR_VCS hops. */
#include "sim/network_private.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"

#define ROW_BYTES   (64u << 20) /* memory for tables */
#define MOST_ROWS   1024
#define OTHER_PATHS 16
#define FAR         UINT16_MAX

struct detours {
    uint32_t rows;
    uint32_t *towards, *epoch; /* [rows]: destination's switch, and when it was made */
    uint16_t *distance;        /* [rows][switches] */
    uint32_t *queue;
};

/* ---- faults by chance ---- */

struct net_draw net_fault_draw(const struct network *net, uint32_t channel) {
    const struct net_faults *f = &net->config.faults;
    struct rng r = rng_seeded(net->config.seed ^ (uint64_t)channel << 20);
    /* Five draws per packet, so streams of successive packets do not overlap. */
    r.state = rng_u64(&r) + 5ull * net->channels[channel].packets * 0x9e3779b97f4a7c15ull;
    struct net_draw draw = {
        .lost = rng_u32(&r) < f->loss,
        .corrupt = rng_u32(&r) < f->corruption,
        .duplicate = rng_u32(&r) < f->duplication,
    };
    bool held = rng_u32(&r) < f->reordering;
    uint64_t delay = rng_u64(&r);
    if (held && f->reorder_ps)
        draw.held_ps = 1 + delay % f->reorder_ps;
    return draw;
}

void net_fault_duplicate(struct network *net, uint32_t index, const struct topo_hop *hop,
                         uint64_t now_ps) {
    if (net->ends[index].twin != NET_NONE || (net->packets[index].flags & PACKET_DUPLICATE))
        return; /* at most one living copy, and no copy of a copy */
    uint32_t copy = net_new_packet(net);
    if (copy == NET_NONE)
        return;
    const struct net_packet *p = &net->packets[index];
    struct net_packet *q = &net->packets[copy];
    *q = *p;
    q->flags = (uint8_t)((p->flags & (PACKET_MESSAGE | PACKET_DETOUR)) | PACKET_DUPLICATE);
    q->slot = NET_NONE; /* made on the way: it takes no room where its original was */
    q->hops = (uint16_t)(p->hops - 1);
    net->ends[copy] = net->ends[index];
    net->ends[copy].twin = index;
    net->ends[index].twin = copy;
    net->counts.duplicated++;
    if (net->on.copied && !(p->flags & PACKET_MESSAGE))
        net->on.copied(net->on.context, p->cookie);
    net_forward(net, copy, hop, now_ps, now_ps);
}

/* ---- links that break ---- */

static void set_broken(struct network *net, uint32_t channel, bool broken, uint64_t now_ps) {
    uint8_t bit = (uint8_t)(1u << channel % 8), *byte = &net->broken[channel / 8];
    if (channel == TOPO_NONE || !!(*byte & bit) == broken)
        return;
    *byte ^= bit;
    net->broken_count += broken ? 1 : UINT32_MAX; /* plus or minus one */
    net->epoch++;
    if (!broken)
        return;
    struct net_channel *c = &net->channels[channel];
    c->broken_ps = now_ps + 1;
    if (c->free_ps > now_ps) { /* what was in line was never sent */
        uint64_t unsent = c->free_ps - now_ps;
        unsent = unsent < c->busy_ps ? unsent : c->busy_ps;
        uint64_t bytes =
            unsent * 1000 / net->kinds[topology_channel(net->topology, channel).kind].fs_per_byte;
        c->busy_ps -= unsent;
        c->bytes -= bytes < c->bytes ? bytes : c->bytes;
        c->free_ps = now_ps;
    }
    if (net->slots)
        net_credit_flush(net, channel, now_ps);
}

void net_on_break(void *context, const struct sim_event *event) {
    struct network *net = context;
    const struct net_failure *f = &net->failures[event->with.u32[0]];
    bool broken = event->with.u32[1];
    set_broken(net, f->channel, broken, event->at_ps);
    set_broken(net, topology_reverse(net->topology, f->channel), broken, event->at_ps);
}

int net_fault_create(struct network *net, struct spin_error *err) {
    const struct net_faults *f = &net->config.faults;
    const struct topology *t = net->topology;
    net->faulty = f->loss || f->corruption || f->duplication || f->reordering;
    if (!net->config.failure_count)
        return SPIN_OK;
    uint32_t count = net->config.failure_count;
    net->failures = malloc(sizeof *net->failures * count);
    net->broken = calloc(t->channels / 8 + 1, 1);
    struct detours *d = net->detours = calloc(1, sizeof *d);
    if (!net->failures || !net->broken || !d)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory for failures");
    memcpy(net->failures, net->config.failures, sizeof *net->failures * count);
    uint64_t rows = ROW_BYTES / (sizeof *d->distance * ((uint64_t)t->switches + 1));
    d->rows = (uint32_t)(rows < 1 ? 1 : rows > MOST_ROWS ? MOST_ROWS : rows);
    d->towards = malloc(sizeof *d->towards * d->rows);
    d->epoch = calloc(d->rows, sizeof *d->epoch);
    d->distance = malloc(sizeof *d->distance * d->rows * ((size_t)t->switches + 1));
    d->queue = malloc(sizeof *d->queue * ((size_t)t->switches + 1));
    if (!d->towards || !d->epoch || !d->distance || !d->queue)
        return spin_fail(err, SPIN_ENOMEM, "network: out of memory for the ways round failures");
    for (uint32_t i = 0; i < count; i++) {
        const struct net_failure *failure = &net->failures[i];
        if (failure->channel >= t->channels ||
            topology_channel(t, failure->channel).channel == TOPO_NONE)
            return spin_fail(err, SPIN_EARG,
                             "network: failure %u names link %u, which is not there", i,
                             failure->channel);
        if (failure->up_ps <= failure->down_ps)
            return spin_fail(err, SPIN_EARG, "network: failure %u ends before it begins", i);
    }
    return SPIN_OK;
}

void net_fault_plan(struct network *net) {
    for (uint32_t i = 0; i < net->config.failure_count; i++) {
        const struct net_failure *failure = &net->failures[i];
        sim_schedule(&net->sim, failure->down_ps, NET_PLAN, NET_BREAK,
                     (union sim_payload){.u32 = {i, true}});
        if (failure->up_ps != SIM_FOREVER)
            sim_schedule(&net->sim, failure->up_ps, NET_PLAN, NET_BREAK,
                         (union sim_payload){.u32 = {i, false}});
    }
}

void net_fault_destroy(struct network *net) {
    if (net->detours) {
        free(net->detours->towards);
        free(net->detours->epoch);
        free(net->detours->distance);
        free(net->detours->queue);
    }
    free(net->detours);
    free(net->failures);
    free(net->broken);
}

/* ---- the way round ---- */

static bool is_whole(const struct network *net, uint32_t src, uint32_t dst, uint32_t selector) {
    for (uint32_t node = src; node != dst;) {
        struct topo_hop hop = topology_next(net->topology, node, dst, selector);
        if (net_is_broken(net, hop.channel))
            return false;
        node = hop.node;
    }
    return true;
}

/* At its source a packet looks for a whole path of the usual kind. */
static void pick_path(struct network *net, uint32_t index, uint32_t src) {
    struct net_packet *p = &net->packets[index];
    uint32_t first = p->selector;
    for (uint32_t i = 0; i < OTHER_PATHS; i++) {
        if (is_whole(net, src, p->dst, p->selector)) {
            net->counts.rerouted += i > 0;
            return;
        }
        p->selector = first + (i + 1) * 0x9e3779b1u;
    }
    p->selector = first;
    p->flags |= PACKET_DETOUR;
    net->counts.rerouted++;
}

static void fill(struct network *net, uint32_t from, uint16_t *distance) {
    const struct topology *t = net->topology;
    uint32_t *queue = net->detours->queue, head = 0, tail = 0;
    memset(distance, 0xff, sizeof *distance * t->switches);
    distance[from - t->hosts] = 0;
    queue[tail++] = from;
    while (head < tail) {
        uint32_t node = queue[head++], ports = t->family->ports(t, node);
        for (uint32_t port = 0; port < ports; port++) {
            struct topo_hop hop = t->family->port(t, node, port);
            if (hop.channel == TOPO_NONE || hop.node < t->hosts ||
                net_is_broken(net, hop.channel) || distance[hop.node - t->hosts] != FAR ||
                distance[node - t->hosts] >= FAR - 1)
                continue;
            distance[hop.node - t->hosts] = (uint16_t)(distance[node - t->hosts] + 1);
            queue[tail++] = hop.node;
        }
    }
}

static const uint16_t *row_towards(struct network *net, uint32_t sw) {
    struct detours *d = net->detours;
    uint32_t row = sw % d->rows;
    uint16_t *distance = d->distance + (size_t)row * net->topology->switches;
    if (d->epoch[row] != net->epoch || d->towards[row] != sw) {
        fill(net, sw, distance);
        d->epoch[row] = net->epoch;
        d->towards[row] = sw;
    }
    return distance;
}

static struct topo_hop by_distance(struct network *net, uint32_t index, uint32_t node) {
    const struct topology *t = net->topology;
    const struct net_packet *p = &net->packets[index];
    const struct topo_hop none = {.channel = TOPO_NONE, .node = TOPO_NONE};
    /* The last switch is the one that the host's own link leads to. */
    uint32_t last = topology_next(t, p->dst, p->dst, 0).node;
    const uint16_t *distance = row_towards(net, last);
    uint32_t own = distance[node - t->hosts], ports = t->family->ports(t, node), nearer = 0;
    if (own == FAR || p->hops > NET_MAX_HOPS)
        return none;
    if (own == 0) {
        struct topo_hop hop = topology_next(t, node, p->dst, p->selector);
        return net_is_broken(net, hop.channel) ? none : hop;
    }
    uint32_t wanted = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t port = 0; port < ports; port++) {
            struct topo_hop hop = t->family->port(t, node, port);
            if (hop.channel == TOPO_NONE || hop.node < t->hosts ||
                net_is_broken(net, hop.channel) || distance[hop.node - t->hosts] != own - 1)
                continue;
            if (pass == 0) {
                nearer++;
            } else if (wanted-- == 0) {
                uint32_t vc = own - 1 < NET_DETOUR_VCS ? own - 1 : NET_DETOUR_VCS - 1;
                hop.vc = (uint8_t)(net->base_vcs + vc);
                return hop;
            }
        }
        if (!nearer)
            break;
        wanted = p->selector % nearer;
    }
    return none;
}

struct topo_hop net_detour(struct network *net, uint32_t index, uint32_t node) {
    struct net_packet *p = &net->packets[index];
    const struct topology *t = net->topology;
    if (node < t->hosts) {
        struct topo_hop hop = topology_next(t, node, p->dst, p->selector);
        if (net_is_broken(net, hop.channel))
            return (struct topo_hop){.channel = TOPO_NONE, .node = TOPO_NONE};
        if (t->switches)
            pick_path(net, index, node);
        return hop;
    }
    if (!(p->flags & PACKET_DETOUR)) {
        struct topo_hop hop = topology_next(t, node, p->dst, p->selector);
        if (!net_is_broken(net, hop.channel))
            return hop;
        p->flags |= PACKET_DETOUR;
        net->counts.rerouted++;
    }
    return by_distance(net, index, node);
}
