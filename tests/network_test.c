#include "lib/networld.h"

#include "sim/transfer.h"
#include "slow_network.h"

/* h links, h - 1 switches: the formula of network.h. */
static uint64_t formula(const struct net_config *c, uint32_t links, uint32_t bytes) {
    uint64_t takes = transfer_ps(bytes + c->header_bytes, c->fs_per_byte);
    return links * c->latency_ps + (links - 1) * c->switch_ps +
           takes * (c->store_and_forward ? links : 1);
}

static const char *const all_topologies[] = {"link",
                                             "switch:7",
                                             "fattree:4",
                                             "fattree:36,levels=2",
                                             "torus:5x4",
                                             "torus:3x4x2,hosts=2",
                                             "dragonfly:2,4,2",
                                             "dragonfly:2,4,2,groups=4"};

TEST(an_empty_network_takes_the_formula) {
    for (int way = 0; way < 12; way++) {
        struct net_config c = net_config_default();
        c.store_and_forward = way & 1;
        c.multipath = way & 2;
        c.flow_control = (enum net_flow_control)(way / 4);
        c.header_bytes = way == 5 ? 40 : 0;
        for (size_t i = 0; i < sizeof all_topologies / sizeof all_topologies[0]; i++) {
            struct world *w = world_new(all_topologies[i], &c);
            struct rng r = rng_seeded(i);
            uint64_t now = 0;
            for (int pair = 0; pair < 40; pair++) {
                uint32_t a = rng_below(&r, w->topology->hosts),
                         b = rng_below(&r, w->topology->hosts);
                uint32_t bytes = rng_below(&r, 4097);
                now += 1000000000;
                struct spin_error err;
                CHECK_EQ(sim_run(w->engine, now, UINT64_MAX, &err), 0);
                network_inject(w->net, now, a, b, bytes, (uint32_t)pair, 0);
                CHECK_EQ(sim_run(w->engine, now + 900000000, UINT64_MAX, &err), 0);
                CHECK_EQ(w->arrived, pair + 1);
                CHECK_EQ(w->last_fate, NET_DELIVERED);
                CHECK_EQ(w->last_ps - now,
                         a == b ? 0 : formula(&c, topology_hops(w->topology, a, b), bytes));
            }
            world_run(w);
            CHECK_EQ(network_counts(w->net).queued_ps, 0);
            world_free(w);
        }
    }
}

static const char two_rates[] = "openspin-graph 1\nhost a b\nswitch s t\n"
                                "link a s rate=100Gbit/s\nlink s t rate=400Gbit/s latency=1us\n"
                                "link t b rate=200Gbit/s\n";

TEST(cut_through_never_outruns_a_slow_link) {
    struct world w = {.config = net_config_default()};
    struct spin_error err;
    w.engine = sim_engine_new(&err);
    CHECK_EQ(topology_parse_graph(&w.topology, two_rates, strlen(two_rates), "g", &err), 0);
    struct net_callbacks on = {.context = &w, .packet = world_packet};
    CHECK_EQ(network_create(&w.net, w.engine, w.topology, &w.config, &on, &err), 0);
    network_inject(w.net, 0, 0, 1, 1000, 0, 0);
    network_inject(w.net, 0, 1, 0, 1000, 0, 0);
    CHECK_EQ(sim_run(w.engine, SIM_FOREVER, UINT64_MAX, &err), 0);
    /* The fast link waits until it can send without a gap, so its 20,000 ps end with the slow
     * link's 80,000; the third then needs 40,000 from the head on. The way back: the fast link's
     * head is 20,000 late, the slow one takes its 80,000 from there. Both come to the same. */
    CHECK_EQ(w.last_ps, 80000 + 20000 + 2 * 33400 + 1000000 + 2 * 50000);
    CHECK_EQ(sim_engine_counts(w.engine).handled, 6);
    CHECK_EQ(w.arrived, 2);
    network_destroy(w.net);
    topology_destroy(w.topology);
    sim_engine_free(w.engine);
}

/* n packets of one message over h links, pipelined: the first takes its way, the others follow. */
TEST(a_message_is_a_pipeline_of_packets) {
    for (int way = 0; way < 6; way++) {
        struct net_config c = net_config_default();
        c.store_and_forward = way & 1;
        c.flow_control = (enum net_flow_control)(way / 2);
        for (size_t i = 0; i < sizeof all_topologies / sizeof all_topologies[0]; i++) {
            struct world *w = world_new(all_topologies[i], &c);
            uint32_t dst = w->topology->hosts - 1, links = topology_hops(w->topology, 0, dst);
            network_send(w->net, 0, 5000, 0, dst, 4096ull * 1000, 0, 1);
            world_run(w);
            CHECK_EQ(w->messages_done, 1);
            CHECK_EQ(w->last_ps, 5000 + formula(&c, links, 4096) + 999 * 81920);
            struct net_counts counts = network_counts(w->net);
            CHECK_EQ(counts.injected, 1000);
            CHECK_EQ(counts.queued_ps, 0); /* its own packets do not queue behind each other */
            /* Memory follows what is in flight, not what is to be sent. */
            CHECK(counts.most_in_flight < 60);
            world_free(w);
        }
    }
}

TEST(messages_of_a_host_follow_each_other) {
    struct world *w = world_new("switch:4", NULL);
    network_send(w->net, 0, 0, 0, 1, 10000, 0, 1);
    network_send(w->net, 0, 0, 0, 2, 0, 0, 2); /* an empty message is one packet of no bytes */
    network_send(w->net, 0, 0, 0, 2, 4097, 0, 3);
    network_send(w->net, 0, 70000, 3, 3, 500, 0, 4); /* to itself */
    world_run(w);
    CHECK_EQ(w->messages_done, 4);
    CHECK_EQ(network_counts(w->net).injected, 3 + 1 + 2);
    CHECK_EQ(w->last_ps, (10000 + 4097) * 20 + 2 * 33400 + 50000);
    world_free(w);
}

/* n - 1 hosts send one packet to host 0 at once: they leave the switch one after the other. */
TEST(incast_is_as_long_as_its_last_link) {
    for (int mode = 0; mode < 3; mode++)
        for (uint32_t n = 2; n < 200; n += 37) {
            struct net_config c = net_config_default();
            c.flow_control = (enum net_flow_control)mode;
            c.buffer_bytes = 4096 * 200;
            char spec[20];
            snprintf(spec, sizeof spec, "switch:%u", n);
            struct world *w = world_new(spec, &c);
            for (uint32_t src = 1; src < n; src++)
                network_inject(w->net, 0, src, 0, 4096, 0, src);
            world_run(w);
            CHECK_EQ(w->last_ps, formula(&c, 2, 4096) + (n - 2) * 81920ull);
            CHECK_EQ(network_counts(w->net).queued_ps, 81920ull * (n - 2) * (n - 1) / 2);
            world_free(w);
        }
}

/* A binomial broadcast of packets down a fat tree, forwarded by the hosts: every level costs one
 * packet time and one way; distances differ, so the sum is over the edges of the tree. */
struct broadcast {
    uint64_t last_ps;
    uint32_t reached;
};
static void forward(struct world *w, const struct net_arrival *a) {
    struct broadcast *b = w->more;
    b->reached++;
    b->last_ps = a->at_ps > b->last_ps ? a->at_ps : b->last_ps;
    for (uint32_t bit = a->cookie >> 1; bit; bit >>= 1)
        network_inject(w->net, a->at_ps, a->dst, a->dst + bit, 4096, 0, bit);
}

TEST(a_broadcast_tree_meets_its_critical_path) {
    struct net_config c = net_config_default();
    struct broadcast b = {0};
    struct world *w = world_new("fattree:8,hosts=128", &c);
    w->packet = forward;
    w->more = &b;
    network_inject(w->net, 0, 0, 0, 0, 0, 128);
    world_run(w);
    /* No two edges of the tree share a link at the same time (d-mod-k on distances of powers of
     * two), so host h is reached after its prefix, plus the packets its parent sent before. */
    uint64_t worst = 0;
    for (uint32_t host = 1; host < 128; host++) {
        uint64_t at = 0;
        uint32_t from = 0, mask = 128;
        for (uint32_t bit = 64; bit; bit >>= 1) {
            if (!(host & bit))
                continue;
            uint32_t before = (uint32_t)(__builtin_ctz(mask) - __builtin_ctz(bit) - 1);
            at +=
                before * 81920ull + formula(&c, topology_hops(w->topology, from, from | bit), 4096);
            from |= bit;
            mask = bit;
        }
        worst = at > worst ? at : worst;
    }
    CHECK_EQ(b.reached, 128);
    CHECK_EQ(b.last_ps, worst);
    CHECK_EQ(network_counts(w->net).fate[NET_DELIVERED], 128);
    world_free(w);
}

/* A chain: host i passes each packet on to host i + 1. The first packet takes every hop, the others
 * follow one packet time apart. */
static void pass_on(struct world *w, const struct net_arrival *a) {
    if (a->dst + 1 < w->topology->hosts)
        network_inject(w->net, a->at_ps, a->dst, a->dst + 1, a->bytes, 0, a->cookie);
}

TEST(a_pipelined_broadcast_takes_hops_plus_packets) {
    for (uint32_t hosts = 2; hosts < 40; hosts += 9) {
        char spec[20];
        snprintf(spec, sizeof spec, "switch:%u", hosts);
        struct net_config c = net_config_default();
        struct world *w = world_new(spec, &c);
        w->packet = pass_on;
        for (uint32_t i = 0; i < 50; i++)
            network_inject(w->net, 0, 0, 1, 4096, 0, i);
        world_run(w);
        CHECK_EQ(w->arrived, 50 * (hosts - 1));
        CHECK_EQ(w->last_ps, (hosts - 1) * formula(&c, 2, 4096) + 49 * 81920);
        world_free(w);
    }
}

TEST(single_routes_keep_the_order_of_a_flow) {
    for (int way = 0; way < 24; way++) {
        struct net_config c = net_config_default();
        c.store_and_forward = way & 1;
        c.multipath = way & 2; /* per flow: still one path a flow */
        c.flow_control = (enum net_flow_control)(way / 4 % 3);
        c.buffer_bytes = 4096 * 3;
        struct world *w = world_new(all_topologies[2 + way % 6], &c);
        world_keep_order(w);
        struct traffic t = {.mean_ps = 50000, .bytes = 2048, .to = TOPO_NONE, .poisson = true};
        world_traffic(w, &t, 200, (uint64_t)way);
        world_run(w);
        CHECK_EQ(w->disorder, 0);
        CHECK(w->fate[NET_DELIVERED] > 100);
        world_free(w);
    }
}

/* Long overload with buffers of one or two packets: everything arrives, nothing stands still. */
TEST(credits_never_drop_and_never_deadlock) {
    static const char *const specs[] = {"switch:16",
                                        "fattree:4",
                                        "fattree:8,hosts=100,taper=3",
                                        "torus:6x6",
                                        "torus:4x4x4",
                                        "torus:2x3x5,hosts=3",
                                        "dragonfly:4,4,2",
                                        "dragonfly:2,4,2,groups=3"};
    for (int way = 0; way < 64; way++) {
        struct net_config c = net_config_default();
        c.flow_control = NET_CREDIT;
        c.buffer_bytes = 4096 * (1 + (way / 8) % 2);
        c.store_and_forward = way & 16;
        c.multipath = way & 32;
        struct world *w = world_new(specs[way % 8], &c);
        struct traffic t = {.mean_ps = 20000, .bytes = 4096, .to = TOPO_NONE};
        world_traffic(w, &t, 120, (uint64_t)way);
        world_run(w);
        uint64_t sent = (uint64_t)w->topology->hosts * 120;
        CHECK_EQ(w->fate[NET_DELIVERED], sent);
        CHECK(network_counts(w->net).queued_ps > 0);
        world_free(w);
    }
}

/* With room for the round trip, credits must not slow a stream; with half of it, they halve it. */
TEST(credits_pace_a_stream_by_the_round_trip) {
    struct net_config c = net_config_default();
    c.flow_control = NET_CREDIT;
    c.latency_ps = 1000000;
    c.switch_ps = 0;
    for (uint32_t packets = 1; packets < 40; packets++) {
        c.buffer_bytes = 4096 * packets;
        struct world *w = world_new("switch:2", &c);
        network_send(w->net, 0, 0, 0, 1, 4096 * 1000, 0, 1);
        world_run(w);
        /* A packet's room comes back 2 us and one packet time after it began (cut-through, on the
         * first link; on the last also: the host takes it when all is in). */
        uint64_t round = 2 * 1000000 + 81920;
        uint64_t window = packets * 81920ull;
        uint64_t rounds = 999 / packets, rest = 999 % packets;
        uint64_t last_start = window >= round ? 999 * 81920ull : rounds * round + rest * 81920ull;
        CHECK_EQ(w->last_ps, last_start + formula(&c, 2, 4096));
        world_free(w);
    }
}

enum { COMPARED = 400 };
struct comparison {
    struct slow_packet packets[COMPARED];
    uint64_t times[COMPARED];
};

static void note_time(struct world *w, const struct net_arrival *a) {
    ((struct comparison *)w->more)->times[a->cookie] = a->at_ps;
}

static void enter(void *context, const struct sim_event *event) {
    struct world *w = context;
    const struct slow_packet *p = &((struct comparison *)w->more)->packets[event->with.u32[0]];
    network_inject(w->net, event->at_ps, p->src, p->dst, p->bytes, 0, event->with.u32[0]);
}

/* Every packet of random traffic arrives when the plain implementation says, to the picosecond. */
static bool agrees_with_slow(uint64_t seed) {
    static const char *const specs[] = {"switch:6", "fattree:4", "fattree:4,levels=2",
                                        "fattree:6,hosts=20,taper=2"};
    struct rng r = rng_seeded(seed);
    struct net_config c = net_config_default();
    c.fs_per_byte = 20011;
    c.latency_ps = 1 + rng_below(&r, 300000);
    c.switch_ps = rng_below(&r, 100000);
    c.flow_control = seed % 4 ? NET_CREDIT : NET_UNLIMITED;
    c.buffer_bytes = 4096 + rng_below(&r, 20000);
    c.store_and_forward = rng_below(&r, 3) == 0;
    c.multipath = rng_below(&r, 2);
    struct world *w = world_new(specs[seed % 4], &c);
    struct comparison both = {0};
    uint32_t spread = 1000 + rng_below(&r, 40000000), few = 2 + rng_below(&r, 4);
    bool small = rng_below(&r, 2);
    static const struct sim_module entering = {"entering", 1, {{.run = enter}}};
    CHECK_EQ(sim_engine_join(w->engine, &entering, w, &w->sim, NULL), 0);
    for (uint32_t i = 0; i < COMPARED; i++) {
        uint32_t hosts = w->topology->hosts, src = rng_below(&r, hosts);
        uint32_t dst = rng_below(&r, seed % 3 ? hosts : few);
        both.packets[i] = (struct slow_packet){.src = src,
                                               .dst = dst == src ? (dst + 1) % hosts : dst,
                                               .bytes = small ? 1 + rng_below(&r, 4096) : 4096,
                                               .at_ps = rng_below(&r, spread)};
        sim_schedule(&w->sim, both.packets[i].at_ps, i, 0, (union sim_payload){.u32 = {i}});
    }
    w->more = &both;
    w->packet = note_time;
    struct spin_error err;
    CHECK_EQ(sim_run(w->engine, SIM_FOREVER, UINT64_MAX, &err), 0);
    bool clear = slow_network(w->topology, &c, both.packets, COMPARED);
    for (uint32_t i = 0; clear && i < COMPARED; i++)
        if (both.times[i] != both.packets[i].delivered_ps)
            TEST_FAIL("seed %llu, packet %u: %llu ps, the plain implementation has %llu ps",
                      (unsigned long long)seed, i, (unsigned long long)both.times[i],
                      (unsigned long long)both.packets[i].delivered_ps);
    world_free(w);
    return clear;
}

TEST(random_traffic_agrees_with_a_plain_implementation) {
    uint32_t compared = 0;
    for (uint64_t seed = 1; seed <= (TEST_SANITIZED ? 60 : 250); seed++)
        compared += agrees_with_slow(seed * 1000003);
    CHECK(compared > (TEST_SANITIZED ? 28 : 120));
}

TEST(drop_tail_counts_what_it_drops) {
    struct net_config c = net_config_default();
    c.flow_control = NET_DROP_TAIL;
    c.buffer_bytes = 4096 * 5;
    struct world *w = world_new("switch:32", &c);
    for (uint32_t src = 1; src < 32; src++)
        network_inject(w->net, 0, src, 0, 4096, 0, src);
    world_run(w);
    CHECK_EQ(w->fate[NET_DELIVERED], 5);
    CHECK_EQ(w->fate[NET_DROPPED], 26);
    struct net_link link = network_link(w->net, w->topology->fattree.down[1]);
    CHECK_EQ(link.drops, 26);
    CHECK_EQ(link.bytes, 4096 * 5);
    CHECK_EQ(link.queue_max_bytes, 4096 * 5);
    world_free(w);
}

TEST(messages_survive_drops_by_sending_again) {
    struct net_config c = net_config_default();
    c.flow_control = NET_DROP_TAIL;
    c.buffer_bytes = 4096 * 2;
    c.retry_ps = 2000000;
    c.retries = 100;
    struct world *w = world_new("switch:16", &c);
    for (uint32_t src = 1; src < 16; src++)
        network_send(w->net, 0, 0, src, 0, 20000, 0, src);
    world_run(w);
    struct net_counts n = network_counts(w->net);
    CHECK_EQ(w->messages_done, 15);
    CHECK(n.fate[NET_DROPPED] > 0);
    CHECK_EQ(n.retransmitted, n.fate[NET_DROPPED]);
    CHECK_EQ(n.fate[NET_DELIVERED], 75);
    world_free(w);

    c.retries = 0;
    w = world_new("switch:16", &c);
    for (uint32_t src = 1; src < 16; src++)
        network_send(w->net, 0, 0, src, 0, 20000, 0, src);
    world_run(w);
    CHECK(w->messages_lost > 0);
    CHECK_EQ(w->messages_done + w->messages_lost, 15);
    world_free(w);
}

/* The last link of a message's packets costs nothing, but the message has an event at its end; a
 * retransmission has its timer, a wait for room now and then a wake-up. */
TEST(one_event_a_hop_or_less) {
    struct net_config c = net_config_default();
    for (int mode = 0; mode < 3; mode++) {
        c.flow_control = (enum net_flow_control)mode;
        struct world *w = world_new("fattree:8,hosts=128", &c);
        for (uint32_t host = 0; host < 128; host++)
            network_send(w->net, 0, 0, host, (host * 37 + 11) % 128, 4096 * 100, 0, host);
        world_run(w);
        uint64_t events = sim_engine_counts(w->engine).handled, hops = network_counts(w->net).hops;
        CHECK_EQ(w->messages_done, 128);
        CHECK(events <= hops);
        if (mode == NET_UNLIMITED)
            CHECK_EQ(events, hops - 128 * 100 + 128);
        world_free(w);
    }
}

/* Packets that are injected one by one, and those on links that can fail, are followed to the end.
 */
TEST(one_event_a_hop_for_single_packets) {
    struct net_config c = net_config_default();
    struct world *w = world_new("fattree:8,hosts=128", &c);
    for (uint32_t host = 0; host < 128; host++)
        network_inject(w->net, 0, host, (host * 37 + 11) % 128, 4096, 0, host);
    world_run(w);
    CHECK_EQ(sim_engine_counts(w->engine).handled, network_counts(w->net).hops);
    world_free(w);
}

TEST(wrong_configurations_are_refused) {
    struct spin_error err;
    struct topology *t;
    struct network *net;
    struct sim_engine *engine = sim_engine_new(&err);
    CHECK_EQ(topology_create(&t, "switch:4", 0, &err), 0);
    struct net_callbacks on = {0};
    struct net_config c = net_config_default();
    c.flow_control = NET_CREDIT;
    c.buffer_bytes = 4095;
    CHECK_EQ(network_create(&net, engine, t, &c, &on, &err), SPIN_EARG);
    CHECK_HAS(err.text, "a buffer of 4095 bytes");
    c = net_config_default();
    c.mtu_bytes = 0;
    CHECK_EQ(network_create(&net, engine, t, &c, &on, &err), SPIN_EARG);
    c = net_config_default();
    c.fs_per_byte = 0;
    CHECK_EQ(network_create(&net, engine, t, &c, &on, &err), SPIN_EARG);
    c = net_config_default();
    struct net_failure failure = {.channel = 999, .up_ps = 5};
    c.failures = &failure;
    c.failure_count = 1;
    CHECK_EQ(network_create(&net, engine, t, &c, &on, &err), SPIN_EARG);
    CHECK_HAS(err.text, "link 999");
    topology_destroy(t);
    sim_engine_free(engine);
}

/* ---- nodes that look at contents ---- */

enum { VALUES = 6 };

/* Packets are 8 bytes with a number; the switch adds up those to one host and sends their sum. */
struct summing {
    struct world *w;
    uint64_t values[VALUES + 1], sum, delay_ps, seen_ps[VALUES];
    uint32_t seen, wanted, redirect_to;
    bool emits;
};

static uint8_t *contents_of(void *context, uint64_t cookie) {
    struct summing *s = ((struct world *)context)->more;
    return (uint8_t *)&s->values[cookie];
}

static enum net_pass add_up(void *context, struct net_passing *p) {
    struct summing *s = context;
    uint64_t value;
    memcpy(&value, p->contents, sizeof value);
    s->sum += value;
    s->seen_ps[s->seen++] = p->at_ps;
    if (s->seen < s->wanted)
        return NET_CONSUME;
    if (s->emits) {
        s->values[VALUES] = s->sum;
        network_emit(s->w->net, p->at_ps, p->node, p->dst, p->bytes, p->flow, VALUES);
        return NET_CONSUME;
    }
    memcpy(p->contents, &s->sum, sizeof s->sum);
    p->delay_ps = s->delay_ps;
    if (s->redirect_to != TOPO_NONE)
        p->dst = s->redirect_to;
    return NET_PASS;
}

static uint64_t delivered_ps;
static uint32_t delivered_to;
static void note_delivery(struct world *w, const struct net_arrival *a) {
    (void)w;
    if (a->fate != NET_DELIVERED)
        return;
    delivered_ps = a->at_ps;
    delivered_to = a->dst;
}

static struct summing *summing_world(enum net_flow_control flow_control, bool store) {
    struct net_config c = net_config_default();
    struct spin_error err;
    c.flow_control = flow_control;
    c.buffer_bytes = c.mtu_bytes;
    c.store_and_forward = store;
    struct summing *s = calloc(1, sizeof *s);
    s->w = calloc(1, sizeof *s->w);
    struct world *w = s->w;
    w->config = c;
    w->engine = sim_engine_new(&err);
    w->more = s;
    w->packet = note_delivery;
    CHECK_EQ(topology_create(&w->topology, "switch:8", 0, &err), 0);
    struct net_callbacks on = {.context = w, .packet = world_packet, .contents = contents_of};
    CHECK_EQ(network_create(&w->net, w->engine, w->topology, &c, &on, &err), 0);
    s->wanted = VALUES;
    s->redirect_to = TOPO_NONE;
    return s;
}

static void summing_run(struct summing *s, uint32_t node) {
    struct spin_error err;
    CHECK_EQ(network_attach(s->w->net, node, add_up, s, &err), 0);
    for (uint32_t i = 0; i < VALUES; i++) {
        s->values[i] = 100 + i;
        network_inject(s->w->net, 0, i + 1, 0, 8, 0, i);
    }
    world_run(s->w);
    CHECK_EQ(s->seen, VALUES);
    CHECK_EQ(s->sum, 615);
}

static void summing_free(struct summing *s) {
    world_free(s->w);
    free(s);
}

TEST(a_switch_that_sums_what_passes_it) {
    const uint64_t link_ps = 33400, takes_ps = 160, switch_ps = 50000;
    for (int way = 0; way < 12; way++) {
        struct summing *s = summing_world((enum net_flow_control)(way % 3), way / 3 % 2);
        s->emits = way >= 6;
        summing_run(s, s->w->topology->hosts);
        struct net_counts n = network_counts(s->w->net);
        CHECK_EQ(n.fate[NET_CONSUMED], s->emits ? VALUES : VALUES - 1);
        CHECK_EQ(n.fate[NET_DELIVERED], 1);
        CHECK_EQ(n.injected, VALUES + s->emits);
        for (int i = 0; i < VALUES; i++) /* with its last byte, whatever the switching */
            CHECK_EQ(s->seen_ps[i], link_ps + takes_ps);
        CHECK_EQ(s->values[s->emits ? VALUES : VALUES - 1], 615);
        CHECK_EQ(delivered_ps, 2 * link_ps + 2 * takes_ps + switch_ps);
        summing_free(s);
    }
}

TEST(a_node_delays_and_redirects) {
    for (int way = 0; way < 3; way++) {
        struct summing *s = summing_world((enum net_flow_control)way, false);
        s->delay_ps = 7000;
        s->redirect_to = 7;
        summing_run(s, s->w->topology->hosts);
        CHECK_EQ(delivered_to, 7);
        CHECK_EQ(delivered_ps, 2 * 33400 + 2 * 160 + 50000 + 7000);
        summing_free(s);
        /* A host sees them one after the other, and sends the last one on. */
        s = summing_world((enum net_flow_control)way, false);
        s->redirect_to = 7;
        summing_run(s, 0);
        CHECK_EQ(delivered_to, 7);
        CHECK_EQ(delivered_ps, s->seen_ps[VALUES - 1] + 2 * 33400 + 50000 + 160);
        CHECK_EQ(network_counts(s->w->net).fate[NET_CONSUMED], VALUES - 1);
        summing_free(s);
        /* Or keeps it back for a while. */
        s = summing_world((enum net_flow_control)way, false);
        s->delay_ps = 9000;
        summing_run(s, 0);
        CHECK_EQ(delivered_to, 0);
        CHECK_EQ(delivered_ps, s->seen_ps[VALUES - 1] + 9000);
        summing_free(s);
    }
}

TEST(messages_pass_a_node_that_looks) {
    struct summing *s = summing_world(NET_CREDIT, false);
    struct spin_error err;
    CHECK_EQ(network_attach(s->w->net, 8, add_up, s, &err), 0);
    network_send(s->w->net, 0, 0, 1, 2, 100000, 0, 0);
    world_run(s->w);
    CHECK_EQ(s->seen, 0);
    CHECK_EQ(network_attach(s->w->net, 9, add_up, s, &err), SPIN_EARG);
    CHECK_STR(err.text, "network: node 9; there are 8 hosts and 1 switches");
    summing_free(s);
}

/* ---- packets that cannot be ---- */

TEST(an_impossible_packet_ends_the_run_with_an_error) {
    static const struct { uint32_t src, dst, bytes; } bad[] = {{1, 2, 4097}, {8, 1, 8}, {1, 8, 8}};
    for (int i = 0; i < 3; i++) {
        struct world *w = world_new("switch:8", NULL);
        struct spin_error err;
        network_inject(w->net, 0, bad[i].src, bad[i].dst, bad[i].bytes, 0, 0);
        CHECK_EQ(network_check(w->net, &err), SPIN_EARG);
        CHECK_HAS(err.text, i == 0   ? "a packet of 4097 bytes from node 1 to host 2"
                            : i == 1 ? "from node 8 to host 1"
                                     : "from node 1 to host 8");
        CHECK_HAS(err.text, "8 hosts and 1 switches, and the MTU is 4096 bytes");
        world_free(w);
    }
    struct world *w = world_new("switch:8", NULL);
    struct spin_error err;
    network_send(w->net, 0, 0, 8, 1, 8, 0, 0);
    CHECK_EQ(network_check(w->net, &err), SPIN_EARG);
    world_free(w);
}

TEST_MAIN
