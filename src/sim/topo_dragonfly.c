/* Dragonfly: groups of fully connected routers, groups fully connected among each other; minimal
 * routing (at most one local, one global and one local link) by arithmetic.
 *
 * Global port j of a group (j = router * h + port) leads to the group 1 + j mod (g - 1) further on,
 * so that offset and port determine each other in both directions. With fewer groups than a h + 1
 * every pair of groups has `copies` links; the flow takes one that makes its way shortest, and
 * multipath spreads over those that tie. Ports beyond copies * (g - 1) stay empty.
 *
 * Credits: the local link after a global one uses the second virtual channel; the order local,
 * global, local has no cycle. */
#include "sim/topology.h"

#include <stdio.h>

#include "base/error.h"

#define MOST_COPIES 4096 /* they are looked at one by one for each packet */

static struct topo_hop local_to(const struct topology *t, uint32_t sw, uint32_t router) {
    const struct topo_dragonfly *f = &t->dragonfly;
    uint32_t own = sw % f->routers;
    uint32_t port = router < own ? router : router - 1;
    return (struct topo_hop){.channel = f->local_first + sw * (f->routers - 1) + port,
                             .node = t->hosts + sw - own + router};
}

static struct topo_hop global_through(const struct topology *t, uint32_t group, uint32_t j) {
    const struct topo_dragonfly *f = &t->dragonfly;
    uint32_t apart = f->groups - 1, offset = j % apart, copy = j / apart;
    uint32_t other = (group + 1 + offset) % f->groups;
    uint32_t entry = (copy * apart + apart - 1 - offset) / f->globals;
    return (struct topo_hop){
        .channel = f->global_first + group * f->routers * f->globals + j,
        .node = t->hosts + other * f->routers + entry,
        .kind = 1,
    };
}

/* The global port that this flow takes from `router` of `group` to `target_router` of a group
 * `offset` further on: least extra local hops, ties by the selector. */
static uint32_t pick_global(const struct topo_dragonfly *f, uint32_t offset, uint32_t router,
                            uint32_t target_router, uint32_t selector) {
    uint32_t apart = f->groups - 1, best = 3, ties = 0;
    for (int pass = 0;; pass++) {
        uint32_t wanted = pass ? selector % ties : 0, seen = 0;
        for (uint32_t copy = 0; copy < f->copies; copy++) {
            uint32_t j = copy * apart + offset;
            uint32_t entry = (copy * apart + apart - 1 - offset) / f->globals;
            uint32_t cost = (j / f->globals != router) + (entry != target_router);
            if (pass) {
                if (cost == best && seen++ == wanted)
                    return j;
            } else if (cost < best) {
                best = cost;
                ties = 1;
            } else if (cost == best) {
                ties++;
            }
        }
    }
}

static struct topo_hop next(const struct topology *t, uint32_t node, uint32_t dst,
                            uint32_t selector) {
    const struct topo_dragonfly *f = &t->dragonfly;
    if (node < t->hosts)
        return (struct topo_hop){.channel = node, .node = t->hosts + node / f->per_router};
    uint32_t sw = node - t->hosts, target = dst / f->per_router;
    if (sw == target)
        return (struct topo_hop){.channel = t->hosts + dst, .node = dst};
    uint32_t group = sw / f->routers, router = sw % f->routers;
    uint32_t target_group = target / f->routers, target_router = target % f->routers;
    if (group == target_group) {
        struct topo_hop hop = local_to(t, sw, target_router);
        hop.vc = 1;
        return hop;
    }
    uint32_t offset = (target_group + f->groups - group - 1) % f->groups;
    uint32_t j = pick_global(f, offset, router, target_router, selector);
    if (j / f->globals == router)
        return global_through(t, group, j);
    return local_to(t, sw, j / f->globals);
}

static uint32_t ports(const struct topology *t, uint32_t node) {
    const struct topo_dragonfly *f = &t->dragonfly;
    return node < t->hosts ? 1 : f->per_router + f->routers - 1 + f->globals;
}

static struct topo_hop port(const struct topology *t, uint32_t node, uint32_t number) {
    const struct topo_dragonfly *f = &t->dragonfly;
    if (node < t->hosts)
        return (struct topo_hop){.channel = node, .node = t->hosts + node / f->per_router};
    uint32_t sw = node - t->hosts, own = sw % f->routers;
    if (number < f->per_router) {
        uint32_t host = sw * f->per_router + number;
        return (struct topo_hop){.channel = t->hosts + host, .node = host};
    }
    number -= f->per_router;
    if (number < f->routers - 1)
        return local_to(t, sw, number < own ? number : number + 1);
    uint32_t j = own * f->globals + number - (f->routers - 1);
    if (f->groups < 2 || j >= f->copies * (f->groups - 1))
        return (struct topo_hop){.channel = TOPO_NONE, .node = TOPO_NONE};
    return global_through(t, sw / f->routers, j);
}

static uint32_t source(const struct topology *t, uint32_t channel) {
    const struct topo_dragonfly *f = &t->dragonfly;
    if (channel < t->hosts)
        return channel;
    if (channel < f->local_first)
        return t->hosts + (channel - t->hosts) / f->per_router;
    if (channel < f->global_first)
        return t->hosts + (channel - f->local_first) / (f->routers - 1);
    return t->hosts + (channel - f->global_first) / f->globals;
}

static uint32_t number(const struct topology *t, uint32_t channel) {
    const struct topo_dragonfly *f = &t->dragonfly;
    if (channel < t->hosts)
        return 0;
    if (channel < f->local_first)
        return (channel - t->hosts) % f->per_router;
    if (channel < f->global_first)
        return f->per_router + (channel - f->local_first) % (f->routers - 1);
    return f->per_router + f->routers - 1 + (channel - f->global_first) % f->globals;
}

static uint32_t hops(const struct topology *t, uint32_t src, uint32_t dst) {
    const struct topo_dragonfly *f = &t->dragonfly;
    uint32_t a = src / f->per_router, b = dst / f->per_router;
    if (a == b)
        return 2;
    if (a / f->routers == b / f->routers)
        return 3;
    /* Two host links and a global one, and a local link on each side where it does not meet. */
    uint32_t offset = (b / f->routers + f->groups - a / f->routers - 1) % f->groups, extra = 2;
    for (uint32_t copy = 0; copy < f->copies; copy++) {
        uint32_t leave = copy * (f->groups - 1) + offset;
        uint32_t enter = copy * (f->groups - 1) + f->groups - 2 - offset;
        uint32_t cost =
            (leave / f->globals != a % f->routers) + (enter / f->globals != b % f->routers);
        extra = cost < extra ? cost : extra;
    }
    return 3 + extra;
}

const struct topo_family topo_dragonfly_family = {"dragonfly", next,   ports, port,
                                                  source,      number, hops,  NULL};

int topo_build_dragonfly(struct topology *t, uint32_t p, uint32_t a, uint32_t h, uint32_t groups,
                         struct spin_error *err) {
    struct topo_dragonfly *f = &t->dragonfly;
    uint64_t most = (uint64_t)a * h + 1;
    if (!groups)
        groups = (uint32_t)most;
    if (groups > most)
        return spin_fail(err, SPIN_ELIMIT,
                         "dragonfly:%u,%u,%u: %u groups, but %u routers with %u global links each "
                         "reach at most %llu",
                         p, a, h, groups, a, h, (unsigned long long)most);
    uint64_t switches = (uint64_t)a * groups, hosts = switches * p;
    uint64_t channels = 2 * hosts + switches * (a - 1) + switches * h;
    if (hosts > TOPO_MAX_HOSTS || channels >= UINT32_MAX)
        return spin_fail(
            err, SPIN_ELIMIT,
            "dragonfly:%u,%u,%u with %u groups has %llu hosts and %llu ports, over the "
            "limit of %u hosts and 2^32 ports",
            p, a, h, groups, (unsigned long long)hosts, (unsigned long long)channels,
            TOPO_MAX_HOSTS);
    if (groups > 1 && (uint64_t)a * h / (groups - 1) > MOST_COPIES)
        return spin_fail(
            err, SPIN_ELIMIT,
            "dragonfly:%u,%u,%u with %u groups has %llu links between each two, over the "
            "limit of %u; use more groups",
            p, a, h, groups, (unsigned long long)((uint64_t)a * h / (groups - 1)), MOST_COPIES);
    f->per_router = p;
    f->routers = a;
    f->globals = h;
    f->groups = groups;
    f->copies = groups > 1 ? (uint32_t)(((uint64_t)a * h) / (groups - 1)) : 0;
    t->hosts = (uint32_t)hosts;
    t->switches = (uint32_t)switches;
    t->channels = (uint32_t)channels;
    f->local_first = 2 * t->hosts;
    f->global_first = f->local_first + t->switches * (a - 1);
    uint64_t global_links = groups > 1 ? (uint64_t)groups * (groups - 1) / 2 * f->copies : 0;
    t->links = (uint32_t)(hosts + switches * (a - 1) / 2 + global_links);
    t->vcs = t->vcs_hashed = 2;
    snprintf(t->text, sizeof t->text, "dragonfly of %u groups of %u routers", groups, a);
    return SPIN_OK;
}
