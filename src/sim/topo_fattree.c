/* Fat trees of any number of levels, by arithmetic.
 *
 * A node of level l is (pod, place): the pod says which hosts are below it, the place which of the
 * pod's switches it is. A pod of level l holds span[l] hosts and width[l] switches. Going up one
 * level keeps the place and adds one digit to it (the port); going down drops that digit. So any
 * sequence of digits chosen on the way up meets the destination on the way down, and no table is
 * needed. Only pods that have hosts exist: 1 M hosts on 36-port switches are ten pods of level 4,
 * not the 36 that would fit.
 *
 * With the destination as selector the digits are those of the destination's own number, which is
 * the d-mod-k rule: permutations by a shift use every link once. */
#include "sim/topology.h"

#include <stdio.h>

#include "base/error.h"

static uint32_t level_of(const struct topo_fattree *f, uint32_t node) {
    uint32_t level = 1;
    while (node >= f->first[level + 1])
        level++;
    return level;
}

static struct topo_hop up_from(const struct topo_fattree *f, uint32_t level, uint32_t index,
                               uint32_t digit) {
    uint32_t pod = index / f->width[level], place = index % f->width[level];
    uint32_t parent =
        pod / f->children[level + 1] * f->width[level + 1] + place + f->width[level] * digit;
    return (struct topo_hop){.channel = f->up[level] + index * f->parents[level] + digit,
                             .node = f->first[level + 1] + parent};
}

static struct topo_hop down_from(const struct topo_fattree *f, uint32_t level, uint32_t index,
                                 uint32_t child_pod) {
    uint32_t place = index % f->width[level - 1];
    uint32_t child = child_pod * f->width[level - 1] + place;
    return (struct topo_hop){.channel = f->down[level] + index * f->children[level] +
                                        child_pod % f->children[level],
                             .node = f->first[level - 1] + child};
}

static struct topo_hop next(const struct topology *t, uint32_t node, uint32_t dst,
                            uint32_t selector) {
    const struct topo_fattree *f = &t->fattree;
    if (node < t->hosts)
        return up_from(f, 0, node, 0);
    uint32_t level = level_of(f, node), index = node - f->first[level];
    if (index / f->width[level] == dst / f->span[level])
        return down_from(f, level, index, dst / f->span[level - 1]);
    return up_from(f, level, index, selector / f->width[level] % f->parents[level]);
}

static uint32_t ports(const struct topology *t, uint32_t node) {
    const struct topo_fattree *f = &t->fattree;
    if (node < t->hosts)
        return 1;
    uint32_t level = level_of(f, node);
    return f->children[level] + f->parents[level];
}

static struct topo_hop port(const struct topology *t, uint32_t node, uint32_t number) {
    const struct topo_fattree *f = &t->fattree;
    if (node < t->hosts)
        return up_from(f, 0, node, 0);
    uint32_t level = level_of(f, node), index = node - f->first[level];
    if (number >= f->children[level])
        return up_from(f, level, index, number - f->children[level]);
    uint32_t pod = index / f->width[level] * f->children[level] + number;
    if (pod >= f->pods[level - 1])
        return (struct topo_hop){.channel = TOPO_NONE, .node = TOPO_NONE};
    return down_from(f, level, index, pod);
}

static uint32_t source(const struct topology *t, uint32_t channel) {
    const struct topo_fattree *f = &t->fattree;
    for (uint32_t level = f->levels; level > 0; level--) {
        if (channel >= f->down[level])
            return f->first[level] + (channel - f->down[level]) / f->children[level];
        if (channel >= f->up[level - 1])
            return f->first[level - 1] + (channel - f->up[level - 1]) / f->parents[level - 1];
    }
    return TOPO_NONE;
}

static uint32_t number(const struct topology *t, uint32_t channel) {
    const struct topo_fattree *f = &t->fattree;
    for (uint32_t level = f->levels; level > 0; level--) {
        if (channel >= f->down[level])
            return (channel - f->down[level]) % f->children[level];
        if (channel >= f->up[level - 1]) /* upward ports come after the downward ones */
            return (channel - f->up[level - 1]) % f->parents[level - 1] + f->children[level - 1];
    }
    return 0;
}

static uint32_t hops(const struct topology *t, uint32_t src, uint32_t dst) {
    uint32_t level = 0;
    while (src / t->fattree.span[level] != dst / t->fattree.span[level])
        level++;
    return 2 * level;
}

const struct topo_family topo_fattree_family = {"fattree", next,   ports, port,
                                                source,    number, hops,  NULL};

/* Levels needed for `hosts`, or 0 when 15 are not enough. */
static uint32_t levels_for(uint32_t radix, uint32_t below, uint32_t inner, uint64_t hosts) {
    uint64_t capacity = radix; /* one switch: every port is a host's */
    uint64_t pods = below;     /* hosts under one leaf, then under one pod of each level */
    for (uint32_t levels = 1; levels < 15; levels++) {
        if (hosts <= capacity)
            return levels;
        capacity = pods * radix;
        pods *= inner;
        if (capacity > 1ull << 40)
            capacity = 1ull << 40, pods = 1ull << 30;
    }
    return 0;
}

static uint64_t capacity_of(uint32_t radix, uint32_t below, uint32_t inner, uint32_t levels) {
    uint64_t hosts = levels == 1 ? radix : (uint64_t)below * radix;
    for (uint32_t level = 2; level < levels && hosts < 1ull << 40; level++)
        hosts *= inner;
    return hosts;
}

int topo_build_fattree(struct topology *t, uint32_t radix, uint32_t levels, uint32_t hosts,
                       uint32_t taper, struct spin_error *err) {
    struct topo_fattree *f = &t->fattree;
    uint32_t inner = radix / 2;
    uint32_t below = (uint32_t)((uint64_t)radix * taper / (taper + 1));
    uint32_t above = radix - below;
    if (taper == 1) /* an odd port stays empty */
        below = above = inner;
    if (!levels)
        levels = hosts ? levels_for(radix, below, inner, hosts) : 3;
    if (levels < 1 || levels > 14)
        return spin_fail(err, SPIN_ELIMIT,
                         "fattree:%u: %u hosts need more than 14 levels; use a larger radix", radix,
                         hosts);
    uint64_t capacity = capacity_of(radix, below, inner, levels);
    if (!hosts)
        hosts = (uint32_t)(capacity < TOPO_MAX_HOSTS ? capacity : TOPO_MAX_HOSTS);
    if (hosts > capacity)
        return spin_fail(err, SPIN_ELIMIT,
                         "fattree:%u with %u levels holds %llu hosts, %u are needed; give it more "
                         "levels or a larger radix",
                         radix, levels, (unsigned long long)capacity, hosts);
    f->levels = levels;
    t->hosts = hosts;
    uint64_t span = 1, width = 1, nodes = 0, channels = 0, links = 0;
    for (uint32_t level = 0; level <= levels; level++) {
        if (level > 0)
            f->children[level] = level == levels ? radix : level == 1 ? below : inner;
        f->parents[level] = level == 0 ? 1 : level == levels ? 0 : level == 1 ? above : inner;
        span = level == levels ? capacity : level ? span * f->children[level] : 1;
        width *= level ? f->parents[level - 1] : 1;
        uint64_t pods = (hosts + span - 1) / span;
        f->span[level] = (uint32_t)(span < UINT32_MAX ? span : UINT32_MAX);
        f->width[level] = (uint32_t)width;
        f->pods[level] = (uint32_t)pods;
        f->first[level] = (uint32_t)nodes;
        nodes += pods * width;
        links += pods * width * f->parents[level];
        if (level > 0) {
            f->down[level] = (uint32_t)channels;
            channels += pods * width * f->children[level];
        }
        f->up[level] = (uint32_t)channels;
        channels += pods * width * f->parents[level];
        if (width > UINT32_MAX || nodes >= UINT32_MAX || channels >= UINT32_MAX)
            return spin_fail(err, SPIN_ELIMIT,
                             "fattree:%u with %u levels has more than 2^32 ports; use fewer levels "
                             "or a larger radix",
                             radix, levels);
    }
    f->first[levels + 1] = (uint32_t)nodes;
    t->switches = (uint32_t)nodes - hosts;
    t->channels = (uint32_t)channels;
    t->links = (uint32_t)links;
    t->vcs = t->vcs_hashed = 1; /* up, then down: no cycle */
    if (levels == 1)
        snprintf(t->text, sizeof t->text, "one switch of %u ports", radix);
    else
        snprintf(t->text, sizeof t->text, "fat tree of %u-port switches, %u levels", radix, levels);
    return SPIN_OK;
}
