/* Tori of two and three dimensions: dimension-order routing by arithmetic.
 *
 * Multipath picks the order of the dimensions and, where both ways round a ring are equally long,
 * the direction; deterministic routing takes x, y, z and decides such ties by the parity of the
 * coordinate, which loads both directions alike.
 *
 * Credits cannot deadlock: each order of dimensions has two virtual channels of its own. A packet
 * that still has to pass the wrap-around of the ring it is on uses the first, one that has not (or
 * no longer) uses the second; neither class closes the ring. A ring of two switches has two links
 * between them. */
#include "sim/topology.h"

#include <stdio.h>

#include "base/error.h"

static const uint8_t orders2[2][3] = {{0, 1, 0}, {1, 0, 0}};
static const uint8_t orders3[6][3] = {{0, 1, 2}, {1, 0, 2}, {0, 2, 1},
                                      {2, 0, 1}, {1, 2, 0}, {2, 1, 0}};

static uint32_t coordinate(const struct topo_torus *f, uint32_t sw, uint32_t dim) {
    return sw / f->stride[dim] % f->size[dim];
}

static struct topo_hop step(const struct topology *t, uint32_t sw, uint32_t dim, bool back) {
    const struct topo_torus *f = &t->torus;
    uint32_t at = coordinate(f, sw, dim), size = f->size[dim];
    uint32_t to = back ? (at ? at - 1 : size - 1) : (at + 1 < size ? at + 1 : 0);
    uint32_t neighbour = sw - at * f->stride[dim] + to * f->stride[dim];
    return (struct topo_hop){.channel = 2 * t->hosts + sw * 2 * f->dims + 2 * dim + back,
                             .node = t->hosts + neighbour};
}

static struct topo_hop next(const struct topology *t, uint32_t node, uint32_t dst,
                            uint32_t selector) {
    const struct topo_torus *f = &t->torus;
    if (node < t->hosts)
        return (struct topo_hop){.channel = node, .node = t->hosts + node / f->per_switch};
    uint32_t sw = node - t->hosts, target = dst / f->per_switch;
    if (sw == target)
        return (struct topo_hop){.channel = t->hosts + dst, .node = dst};
    uint32_t order = selector % (f->dims == 2 ? 2 : 6);
    const uint8_t *dims = f->dims == 2 ? orders2[order] : orders3[order];
    for (uint32_t i = 0;; i++) { /* ends: some coordinate differs */
        uint32_t dim = dims[i], size = f->size[dim];
        uint32_t from = coordinate(f, sw, dim), to = coordinate(f, target, dim);
        if (from == to)
            continue;
        uint32_t ahead = to > from ? to - from : to + size - from;
        bool back = 2 * ahead > size;
        if (2 * ahead == size)
            back = ((selector >> (8 + dim)) ^ from) & 1;
        struct topo_hop hop = step(t, sw, dim, back);
        bool wraps = back ? to > from : to < from;
        hop.vc = (uint8_t)(2 * order + !wraps);
        return hop;
    }
}

static uint32_t ports(const struct topology *t, uint32_t node) {
    return node < t->hosts ? 1 : t->torus.per_switch + 2 * t->torus.dims;
}

static struct topo_hop port(const struct topology *t, uint32_t node, uint32_t number) {
    const struct topo_torus *f = &t->torus;
    if (node < t->hosts)
        return (struct topo_hop){.channel = node, .node = t->hosts + node / f->per_switch};
    uint32_t sw = node - t->hosts;
    if (number < f->per_switch) {
        uint32_t host = sw * f->per_switch + number;
        return (struct topo_hop){.channel = t->hosts + host, .node = host};
    }
    uint32_t side = number - f->per_switch;
    if (f->size[side / 2] < 2)
        return (struct topo_hop){.channel = TOPO_NONE, .node = TOPO_NONE};
    return step(t, sw, side / 2, side & 1);
}

static uint32_t source(const struct topology *t, uint32_t channel) {
    if (channel < t->hosts)
        return channel;
    if (channel < 2 * t->hosts)
        return t->hosts + (channel - t->hosts) / t->torus.per_switch;
    return t->hosts + (channel - 2 * t->hosts) / (2 * t->torus.dims);
}

static uint32_t number(const struct topology *t, uint32_t channel) {
    if (channel < t->hosts)
        return 0;
    if (channel < 2 * t->hosts)
        return (channel - t->hosts) % t->torus.per_switch;
    return t->torus.per_switch + (channel - 2 * t->hosts) % (2 * t->torus.dims);
}

static uint32_t hops(const struct topology *t, uint32_t src, uint32_t dst) {
    const struct topo_torus *f = &t->torus;
    uint32_t a = src / f->per_switch, b = dst / f->per_switch, links = 2;
    for (uint32_t dim = 0; dim < f->dims; dim++) {
        uint32_t x = coordinate(f, a, dim), y = coordinate(f, b, dim);
        uint32_t apart = x > y ? x - y : y - x;
        links += apart < f->size[dim] - apart ? apart : f->size[dim] - apart;
    }
    return links;
}

const struct topo_family topo_torus_family = {"torus", next,   ports, port,
                                              source,  number, hops,  NULL};

int topo_build_torus(struct topology *t, uint32_t dims, const uint32_t *size, uint32_t per_switch,
                     struct spin_error *err) {
    struct topo_torus *f = &t->torus;
    uint64_t switches = 1, links = 0;
    f->dims = dims;
    f->per_switch = per_switch;
    for (uint32_t dim = 0; dim < dims; dim++) {
        f->size[dim] = size[dim];
        f->stride[dim] = (uint32_t)switches;
        switches *= size[dim]; /* each is at most 2^20: no overflow in 64 bits */
    }
    if (switches * per_switch > TOPO_MAX_HOSTS || switches * 2 * dims > 1u << 30)
        return spin_fail(err, SPIN_ELIMIT,
                         "torus of %llu switches with %u hosts each is over the limit of %u hosts",
                         (unsigned long long)switches, per_switch, TOPO_MAX_HOSTS);
    t->switches = (uint32_t)switches;
    t->hosts = t->switches * per_switch;
    t->channels = 2 * t->hosts + t->switches * 2 * dims;
    for (uint32_t dim = 0; dim < dims; dim++)
        links += size[dim] > 1 ? switches : 0;
    t->links = (uint32_t)links + t->hosts;
    t->vcs = 2;
    t->vcs_hashed = dims == 2 ? 4 : 12;
    if (dims == 2)
        snprintf(t->text, sizeof t->text, "torus of %ux%u switches", size[0], size[1]);
    else
        snprintf(t->text, sizeof t->text, "torus of %ux%ux%u switches", size[0], size[1], size[2]);
    return SPIN_OK;
}
