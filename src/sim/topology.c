#include "sim/topology.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/rng.h"

#define GRAPH_FILE_LIMIT (64u << 20)

/* Two hosts and a wire: channel h leaves host h. */
static struct topo_hop link_next(const struct topology *t, uint32_t node, uint32_t dst,
                                 uint32_t selector) {
    (void)t, (void)dst, (void)selector;
    return (struct topo_hop){.channel = node, .node = 1 - node};
}
static uint32_t link_ports(const struct topology *t, uint32_t node) {
    (void)t, (void)node;
    return 1;
}
static struct topo_hop link_port(const struct topology *t, uint32_t node, uint32_t port) {
    return link_next(t, node, port, 0);
}
static uint32_t link_source(const struct topology *t, uint32_t channel) {
    (void)t;
    return channel;
}
static uint32_t link_hops(const struct topology *t, uint32_t src, uint32_t dst) {
    (void)t;
    return src != dst;
}
static uint32_t link_number(const struct topology *t, uint32_t channel) {
    (void)t, (void)channel;
    return 0;
}
const struct topo_family topo_link_family = {"link",      link_next,   link_ports, link_port,
                                             link_source, link_number, link_hops,  NULL};

/* The arguments of a spec: numbers in order, then key=value. */
struct arguments {
    uint32_t number[4];
    uint32_t numbers;
    bool by_x; /* the numbers were joined by 'x', as in 8x8x4 */
    uint32_t levels, hosts, taper, groups;
};

static bool read_number(const char **at, uint32_t *value) {
    if (**at < '0' || **at > '9')
        return false;
    uint64_t v = 0;
    for (; **at >= '0' && **at <= '9'; ++*at) {
        v = 10 * v + (uint64_t)(**at - '0');
        if (v > TOPO_MAX_HOSTS)
            return false;
    }
    *value = (uint32_t)v;
    return true;
}

static bool read_key(const char **at, struct arguments *a) {
    static const struct {
        const char *key;
        size_t offset;
    } keys[] = {{"levels=", offsetof(struct arguments, levels)},
                {"hosts=", offsetof(struct arguments, hosts)},
                {"taper=", offsetof(struct arguments, taper)},
                {"groups=", offsetof(struct arguments, groups)}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        size_t length = strlen(keys[i].key);
        if (strncmp(*at, keys[i].key, length) != 0)
            continue;
        uint32_t *value = (uint32_t *)(void *)((char *)a + keys[i].offset);
        *at += length;
        return !*value && read_number(at, value) && *value > 0;
    }
    return false;
}

static int read_arguments(const char *spec, const char *at, struct arguments *a,
                          struct spin_error *err) {
    *a = (struct arguments){0};
    while (*at) {
        uint32_t value;
        bool good = false;
        if (*at >= '0' && *at <= '9') {
            good = a->numbers < 4 && read_number(&at, &value) && value > 0;
            if (good)
                a->number[a->numbers++] = value;
        } else {
            good = read_key(&at, a);
        }
        if (good && *at == 'x')
            a->by_x = true;
        if (good && (*at == ',' || *at == 'x') && at[1])
            at++;
        else if (!good || *at)
            return spin_fail(err, SPIN_EARG,
                             "topology '%s': cannot read '%s'; expected numbers from 1 to %u and "
                             "levels=, hosts=, taper= or groups=, joined by commas",
                             spec, at, TOPO_MAX_HOSTS);
    }
    return SPIN_OK;
}

static int create_torus(struct topology *t, const char *spec, const struct arguments *a,
                        struct spin_error *err) {
    if (a->numbers < 2 || a->numbers > 3 || !a->by_x || a->levels || a->taper || a->groups)
        return spin_fail(err, SPIN_EARG,
                         "topology '%s': expected torus:XxY or torus:XxYxZ[,hosts=N per switch]",
                         spec);
    for (uint32_t i = 0; i < a->numbers; i++)
        if (a->number[i] > 1u << 20)
            return spin_fail(err, SPIN_ELIMIT,
                             "topology '%s': a side of %u is over the limit of %u", spec,
                             a->number[i], 1u << 20);
    t->family = &topo_torus_family;
    return topo_build_torus(t, a->numbers, a->number, a->hosts ? a->hosts : 1, err);
}

static int create_fattree(struct topology *t, const char *spec, const struct arguments *a,
                          uint32_t hosts, struct spin_error *err) {
    if (a->numbers != 1 || a->groups)
        return spin_fail(err, SPIN_EARG,
                         "topology '%s': expected fattree:RADIX[,levels=L][,hosts=N][,taper=T]",
                         spec);
    uint32_t taper = a->taper ? a->taper : 1;
    if (a->number[0] < 4 || a->number[0] > 65536 || taper >= a->number[0])
        return spin_fail(err, SPIN_EARG,
                         "topology '%s': the radix must be 4 to 65536 and the taper below it",
                         spec);
    t->family = &topo_fattree_family;
    return topo_build_fattree(t, a->number[0], a->levels, a->hosts ? a->hosts : hosts, taper, err);
}

static int create_dragonfly(struct topology *t, const char *spec, const struct arguments *a,
                            struct spin_error *err) {
    if (a->numbers != 3 || a->by_x || a->levels || a->taper || a->hosts || a->number[0] > 4096 ||
        a->number[1] > 4096 || a->number[2] > 4096)
        return spin_fail(err, SPIN_EARG,
                         "topology '%s': expected dragonfly:P,A,H[,groups=G]: hosts per router, "
                         "routers per group, global links per router, each 1 to 4096",
                         spec);
    t->family = &topo_dragonfly_family;
    return topo_build_dragonfly(t, a->number[0], a->number[1], a->number[2], a->groups, err);
}

static int create_switch(struct topology *t, const char *spec, const struct arguments *a,
                         uint32_t hosts, struct spin_error *err) {
    uint32_t ports = a->numbers ? a->number[0] : hosts ? hosts : 2;
    if (a->numbers > 1 || a->levels || a->hosts || a->taper || a->groups)
        return spin_fail(err, SPIN_EARG, "topology '%s': expected switch or switch:HOSTS", spec);
    t->family = &topo_fattree_family;
    return topo_build_fattree(t, ports, 1, ports, 1, err);
}

static int create_link(struct topology *t, const char *spec, const struct arguments *a,
                       struct spin_error *err) {
    if (a->numbers || a->levels || a->hosts || a->taper || a->groups)
        return spin_fail(err, SPIN_EARG, "topology '%s': a link takes no numbers: it has two hosts",
                         spec);
    t->family = &topo_link_family;
    t->hosts = t->channels = 2;
    t->links = t->vcs = t->vcs_hashed = 1;
    snprintf(t->text, sizeof t->text, "one link");
    return SPIN_OK;
}

static int create_structured(struct topology *t, const char *spec, uint32_t hosts,
                             struct spin_error *err) {
    size_t word = strcspn(spec, ":");
    struct arguments a;
    int code = read_arguments(spec, spec[word] ? spec + word + 1 : "", &a, err);
    if (code)
        return code;
#define IS(name) (word == strlen(name) && memcmp(spec, name, word) == 0)
    if (IS("link"))
        return create_link(t, spec, &a, err);
    if (IS("switch"))
        return create_switch(t, spec, &a, hosts, err);
    if (IS("fattree"))
        return create_fattree(t, spec, &a, hosts, err);
    if (IS("torus"))
        return create_torus(t, spec, &a, err);
    if (IS("dragonfly"))
        return create_dragonfly(t, spec, &a, err);
#undef IS
    return spin_fail(
        err, SPIN_EARG,
        "unknown topology '%s'; known are link, switch:N, fattree:RADIX, torus:XxY[xZ], "
        "dragonfly:P,A,H and file:PATH",
        spec);
}

static int create_from_file(struct topology **out, const char *path, struct spin_error *err) {
    uint8_t *text;
    size_t length;
    int code = file_read(path, "topology", GRAPH_FILE_LIMIT, &text, &length, err);
    if (code)
        return code;
    code = topology_parse_graph(out, (const char *)text, length, path, err);
    free(text);
    return code;
}

int topology_create(struct topology **out, const char *spec, uint32_t hosts,
                    struct spin_error *err) {
    *out = NULL;
    struct topology *t = NULL;
    int code;
    if (strncmp(spec, "file:", 5) == 0) {
        code = create_from_file(&t, spec + 5, err);
        if (code)
            return code;
    } else {
        t = calloc(1, sizeof *t);
        if (t)
            t->kinds = calloc(2, sizeof *t->kinds); /* the second: global links of a dragonfly */
        if (!t || !t->kinds) {
            free(t);
            return spin_fail(err, SPIN_ENOMEM, "topology '%s': out of memory", spec);
        }
        t->n_kinds = 2;
        code = create_structured(t, spec, hosts, err);
        if (code) {
            topology_destroy(t);
            return code;
        }
    }
    if (hosts > t->hosts) {
        code = spin_fail(err, SPIN_ELIMIT, "topology '%s' has %u hosts, %u are needed", spec,
                         t->hosts, hosts);
        topology_destroy(t);
        return code;
    }
    *out = t;
    return SPIN_OK;
}

void topology_destroy(struct topology *t) {
    if (!t)
        return;
    if (t->family && t->family->destroy)
        t->family->destroy(t);
    free(t->kinds);
    free(t);
}

uint32_t topology_selector(const struct topology *t, uint32_t src, uint32_t dst, uint32_t flow,
                           bool hashed, uint64_t seed) {
    if (!hashed) /* a torus keeps to one order of dimensions: that is what its two channels allow */
        return t->family == &topo_torus_family ? 0 : dst;
    struct rng r = rng_seeded(seed ^ ((uint64_t)src << 32 | dst));
    r.state ^= rng_u64(&r) + flow;
    return rng_u32(&r);
}

uint32_t topology_hops(const struct topology *t, uint32_t src, uint32_t dst) {
    return src == dst ? 0 : t->family->hops(t, src, dst);
}

struct topo_hop topology_channel(const struct topology *t, uint32_t channel) {
    return t->family->port(t, t->family->source(t, channel), t->family->number(t, channel));
}

uint32_t topology_reverse(const struct topology *t, uint32_t channel) {
    if (t->family == &topo_graph_family)
        return channel ^ 1;
    uint32_t from = t->family->source(t, channel), to = topology_channel(t, channel).node;
    if (to == TOPO_NONE)
        return TOPO_NONE;
    /* Parallel links: the k-th of one side is the k-th of the other, except that the two of a torus
     * ring of two switches cross (forward here is backward there). */
    uint32_t rank = 0, found[2] = {TOPO_NONE, TOPO_NONE}, count = 0;
    for (uint32_t port = 0; t->family->port(t, from, port).channel != channel; port++)
        rank += t->family->port(t, from, port).node == to;
    bool crossed = t->family == &topo_torus_family && from >= t->hosts && to >= t->hosts;
    for (uint32_t port = 0; port < t->family->ports(t, to); port++) {
        struct topo_hop hop = t->family->port(t, to, port);
        if (hop.node != from || hop.channel == TOPO_NONE)
            continue;
        if (crossed && count < 2)
            found[count] = hop.channel;
        else if (!crossed && count == rank)
            return hop.channel;
        count++;
    }
    return crossed && count == 2 ? found[1 - rank] : found[0];
}

void topology_node_name(const struct topology *t, uint32_t node, char name[TOPO_MAX_NAME / 2]) {
    if (t->family == &topo_graph_family)
        snprintf(name, TOPO_MAX_NAME / 2, "%s", t->graph.names + t->graph.name_at[node]);
    else if (node < t->hosts)
        snprintf(name, TOPO_MAX_NAME / 2, "h%u", node);
    else
        snprintf(name, TOPO_MAX_NAME / 2, "s%u", node - t->hosts);
}

void topology_name(const struct topology *t, uint32_t channel, char name[TOPO_MAX_NAME]) {
    char from[TOPO_MAX_NAME / 2], to[TOPO_MAX_NAME / 2];
    topology_node_name(t, t->family->source(t, channel), from);
    topology_node_name(t, topology_channel(t, channel).node, to);
    snprintf(name, TOPO_MAX_NAME, "%s>%s", from, to);
}

uint32_t topology_find_node(const struct topology *t, const char *name, size_t length) {
    if (t->family == &topo_graph_family) {
        for (uint32_t node = 0; node < t->hosts + t->switches; node++) {
            const char *own = t->graph.names + t->graph.name_at[node];
            if (strlen(own) == length && memcmp(own, name, length) == 0)
                return node;
        }
        return TOPO_NONE;
    }
    uint32_t number;
    const char *at = name + 1;
    if (length < 2 || length > 10 || !read_number(&at, &number) || at != name + length)
        return TOPO_NONE;
    if (name[0] == 'h' && number < t->hosts)
        return number;
    if (name[0] == 's' && number < t->switches)
        return t->hosts + number;
    return TOPO_NONE;
}
