/* A network with an engine and a record of what arrived, for tests. */
#ifndef TESTS_NETWORLD_H
#define TESTS_NETWORLD_H

#include "lib/test.h"

#include "base/rng.h"
#include "sim/engine.h"
#include "sim/network.h"

struct world {
    struct sim_engine *engine;
    struct topology *topology;
    struct network *net;
    struct net_config config;
    uint64_t arrived, last_ps, last_queued_ps, messages_done, messages_lost, queued_ps;
    uint64_t fate[NET_FATES], copies;
    enum net_fate last_fate;
    /* Order: the last cookie seen of each pair, when `order` is set; `disorder` counts the others.
     */
    uint64_t *order, disorder;
    void (*packet)(struct world *w, const struct net_arrival *a);
    /* Open-loop traffic: each source injects by itself. */
    struct sim_instance sim; /* the sources */
    struct source *sources;
    void *more;
};

static inline void world_packet(void *context, const struct net_arrival *a) {
    struct world *w = context;
    w->arrived++;
    w->last_ps = a->at_ps;
    w->last_queued_ps = a->queued_ps;
    w->queued_ps += a->queued_ps;
    w->last_fate = a->fate;
    w->fate[a->fate]++;
    w->copies += a->duplicate;
    if (w->order && a->fate == NET_DELIVERED) {
        uint64_t *last = &w->order[(uint64_t)a->src * w->topology->hosts + a->dst];
        w->disorder += a->cookie <= *last;
        *last = a->cookie;
    }
    if (w->packet)
        w->packet(w, a);
}

static inline void world_message(void *context, uint64_t cookie, uint64_t at_ps, bool lost) {
    struct world *w = context;
    (void)cookie;
    w->last_ps = at_ps;
    w->messages_done += !lost;
    w->messages_lost += lost;
}

static inline struct world *world_new(const char *spec, const struct net_config *config) {
    struct world *w = calloc(1, sizeof *w);
    struct spin_error err = {0};
    w->config = config ? *config : net_config_default();
    w->engine = sim_engine_new(&err);
    if (topology_create(&w->topology, spec, 0, &err) ||
        network_create(
            &w->net, w->engine, w->topology, &w->config,
            &(struct net_callbacks){.context = w, .packet = world_packet, .message = world_message},
            &err))
        TEST_FAIL("%s: %.400s", spec, err.text);
    return w;
}

static inline void world_keep_order(struct world *w) {
    w->order = calloc((uint64_t)w->topology->hosts * w->topology->hosts, sizeof *w->order);
}

/* Runs to the end and checks what must always hold: packets add up, no link is busy for longer than
 * the run, nothing is left over. */
static inline void world_run(struct world *w) {
    struct spin_error err;
    if (sim_run(w->engine, SIM_FOREVER, UINT64_MAX, &err) || network_check(w->net, &err))
        TEST_FAIL("%.400s", err.text);
    struct net_counts c = network_counts(w->net);
    uint64_t ended = 0;
    for (int i = 0; i < NET_FATES; i++)
        ended += c.fate[i];
    CHECK_EQ(c.in_flight, 0);
    CHECK_EQ(ended, c.injected + c.duplicated);
    uint64_t now = sim_engine_counts(w->engine).now_ps, hops = 0, drops = 0, queued = 0;
    for (uint32_t channel = 0; channel < w->topology->channels; channel++) {
        struct net_link link = network_link(w->net, channel);
        if (link.busy_ps > now)
            TEST_FAIL("channel %u busy for %llu ps of a run of %llu ps", channel,
                      (unsigned long long)link.busy_ps, (unsigned long long)now);
        hops += link.packets;
        drops += link.drops;
        queued += link.queued_ps;
    }
    CHECK_EQ(hops, c.hops);
    CHECK_EQ(queued, c.queued_ps);
    CHECK_EQ(drops, c.fate[NET_DROPPED]);
}

static inline void world_free(struct world *w) {
    network_destroy(w->net);
    topology_destroy(w->topology);
    sim_engine_free(w->engine);
    free(w->order);
    free(w->sources);
    free(w);
}

/* Sources: `count` packets each, at exponential or equal distances, to a pattern's destinations. */
struct source {
    struct rng r;
    uint32_t left;
    uint64_t sequence;
};
struct traffic {
    uint64_t mean_ps;
    uint32_t bytes, to; /* to: TOPO_NONE for uniform, a host for incast */
    bool poisson;
};

static inline void world_source(void *context, const struct sim_event *event) {
    struct world *w = context;
    const struct traffic *t = w->more;
    uint32_t host = event->with.u32[0];
    struct source *s = &w->sources[host];
    uint32_t dst = t->to;
    if (dst == TOPO_NONE) {
        dst = rng_below(&s->r, w->topology->hosts - 1);
        dst += dst >= host;
    }
    if (dst != host)
        network_inject(w->net, event->at_ps, host, dst, t->bytes, 0, ++s->sequence);
    if (--s->left)
        sim_schedule(&w->sim,
                     event->at_ps + (t->poisson ? rng_exponential(&s->r, t->mean_ps) : t->mean_ps),
                     host, 0, event->with);
}

static inline void world_traffic(struct world *w, struct traffic *t, uint32_t packets,
                                 uint64_t seed) {
    w->more = t;
    w->sources = calloc(w->topology->hosts, sizeof *w->sources);
    static const struct sim_module sources = {"sources", 1, {{.run = world_source}}};
    CHECK_EQ(sim_engine_join(w->engine, &sources, w, &w->sim, NULL), 0);
    for (uint32_t host = 0; host < w->topology->hosts; host++) {
        w->sources[host] =
            (struct source){.r = rng_seeded(seed + host * 1000003ull), .left = packets};
        sim_schedule(&w->sim, rng_exponential(&w->sources[host].r, t->mean_ps), host, 0,
                     (union sim_payload){.u32 = {host}});
    }
}

#endif
