/* Faults by seed, links that break, and queues against theory. */
#include "lib/networld.h"

static uint64_t probability(double p) {
    return (uint64_t)(p * 4294967296.0);
}

static struct world *faulty_run(const char *spec, const struct net_config *c, uint32_t packets) {
    struct world *w = world_new(spec, c);
    sim_engine_digest(w->engine);
    struct traffic t = {.mean_ps = 100000, .bytes = 1000, .to = TOPO_NONE, .poisson = true};
    world_traffic(w, &t, packets, 5);
    world_run(w);
    return w;
}

TEST(faults_happen_at_their_rate_and_repeat_by_seed) {
    for (int mode = 0; mode < 3; mode++) {
        struct net_config c = net_config_default();
        c.flow_control = (enum net_flow_control)mode;
        c.faults.loss = probability(0.01);
        c.faults.corruption = probability(0.02);
        c.faults.duplication = probability(0.03);
        c.faults.reordering = probability(0.05);
        struct world *a = faulty_run("switch:32", &c, 2000), *b = faulty_run("switch:32", &c, 2000);
        struct net_counts n = network_counts(a->net);
        CHECK_EQ(n.injected, 64000);
        /* Two links per packet; expectations from the rates, bounds of five standard deviations. */
        uint64_t all = n.injected + n.duplicated;
        CHECK(n.duplicated > 3500 && n.duplicated < 4100);
        double lost = (double)n.fate[NET_LOST] / (double)all;
        double corrupt = (double)n.fate[NET_CORRUPTED] / (double)all;
        CHECK(lost > 0.0175 && lost < 0.0218);
        CHECK(corrupt > 0.035 && corrupt < 0.043);
        CHECK_EQ(a->copies, n.duplicated);
        CHECK(sim_engine_counts(a->engine).digest == sim_engine_counts(b->engine).digest);
        c.seed = 2;
        struct world *other = faulty_run("switch:32", &c, 2000);
        CHECK(sim_engine_counts(a->engine).digest != sim_engine_counts(other->engine).digest);
        world_free(a);
        world_free(b);
        world_free(other);
    }
}

TEST(reordering_breaks_the_order_and_nothing_else) {
    struct net_config c = net_config_default();
    c.faults.reordering = probability(0.1);
    c.faults.reorder_ps = 5000000;
    struct world *w = world_new("switch:8", &c);
    world_keep_order(w);
    struct traffic t = {.mean_ps = 100000, .bytes = 1000, .to = TOPO_NONE, .poisson = true};
    world_traffic(w, &t, 1000, 5);
    world_run(w);
    CHECK(w->disorder > 100);
    CHECK_EQ(w->fate[NET_DELIVERED], 8000);
    world_free(w);
}

TEST(messages_get_through_every_fault) {
    for (int mode = 0; mode < 3; mode++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            struct net_config c = net_config_default();
            c.flow_control = (enum net_flow_control)mode;
            c.seed = seed;
            c.faults.loss = c.faults.corruption = probability(0.02);
            c.faults.duplication = c.faults.reordering = probability(0.05);
            c.retry_ps = 5000000;
            c.retries = 50;
            struct world *w = world_new(mode == 1 ? "link" : "fattree:4", &c);
            uint32_t hosts = w->topology->hosts;
            for (uint32_t i = 0; i < 200; i++)
                network_send(w->net, 0, i * 1000, i % hosts, (i * 7 + 1) % hosts, i * 997, i, i);
            world_run(w);
            CHECK_EQ(w->messages_done, 200);
            CHECK_EQ(w->messages_lost, 0);
            CHECK(network_counts(w->net).retransmitted > 0);
            world_free(w);
        }
}

/* Breaks links of a topology, one after the other, under traffic that starts when all are broken.
 */
static void check_reroute(const char *spec, uint32_t broken, enum net_flow_control mode,
                          bool multipath) {
    struct topology *t;
    struct spin_error err;
    CHECK_EQ(topology_create(&t, spec, 0, &err), 0);
    struct net_failure failures[64];
    struct rng r = rng_seeded(broken * 31 + mode);
    uint32_t count = 0;
    while (count < broken) {
        uint32_t channel = rng_below(&r, t->channels);
        struct topo_hop hop = topology_channel(t, channel);
        /* Links between switches only: a host with a broken link cannot be reached. */
        if (hop.channel == TOPO_NONE || hop.node < t->hosts ||
            t->family->source(t, channel) < t->hosts)
            continue;
        failures[count++] = (struct net_failure){channel, 0, SIM_FOREVER};
    }
    struct net_config c = net_config_default();
    c.flow_control = mode;
    c.multipath = multipath;
    c.failures = failures;
    c.failure_count = count;
    struct world *w = world_new(spec, &c);
    world_keep_order(w);
    struct traffic traffic = {.mean_ps = 300000, .bytes = 4096, .to = TOPO_NONE, .poisson = true};
    world_traffic(w, &traffic, 100, 9);
    world_run(w);
    struct net_counts n = network_counts(w->net);
    if (n.fate[NET_DELIVERED] != n.injected || !n.rerouted || w->disorder)
        TEST_FAIL("%s, mode %d: %llu of %llu delivered, %llu rerouted, %llu out of order", spec,
                  mode, (unsigned long long)n.fate[NET_DELIVERED], (unsigned long long)n.injected,
                  (unsigned long long)n.rerouted, (unsigned long long)w->disorder);
    for (uint32_t i = 0; i < count; i++)
        CHECK_EQ(network_link(w->net, failures[i].channel).packets, 0);
    world_free(w);
    topology_destroy(t);
}

TEST(broken_links_are_avoided_where_a_path_exists) {
    for (int mode = 0; mode < 3; mode += 2)
        for (int multipath = 0; multipath < 2; multipath++) {
            check_reroute("fattree:8", 20, (enum net_flow_control)mode, multipath);
            check_reroute("torus:6x6", 6, (enum net_flow_control)mode, multipath);
            check_reroute("torus:4x4x4", 20, (enum net_flow_control)mode, multipath);
            check_reroute("dragonfly:2,4,2", 8, (enum net_flow_control)mode, multipath);
        }
}

TEST(a_host_cut_off_is_counted_and_its_messages_reported) {
    struct net_failure failure = {.channel = 3, .down_ps = 0, .up_ps = SIM_FOREVER};
    struct net_config c = net_config_default();
    c.failures = &failure;
    c.failure_count = 1;
    c.retry_ps = 1000000;
    struct world *w = world_new("torus:4x4", &c);
    struct spin_error err;
    CHECK_EQ(sim_run(w->engine, 1, UINT64_MAX, &err), 0);
    network_send(w->net, 1, 1, 3, 5, 10000, 0, 1); /* from it */
    network_send(w->net, 1, 1, 6, 3, 10000, 0, 2); /* to it */
    network_send(w->net, 1, 1, 3, 3, 10000, 0, 3); /* within it */
    network_send(w->net, 1, 1, 3, 7, 10000, 0, 4); /* queued behind the first */
    network_send(w->net, 1, 1, 6, 7, 10000, 0, 5);
    world_run(w);
    CHECK_EQ(w->messages_lost, 3);
    CHECK_EQ(w->messages_done, 2);
    CHECK_EQ(w->fate[NET_DELIVERED], 0); /* packets of messages are not reported one by one */
    CHECK_EQ(network_counts(w->net).fate[NET_NO_ROUTE], 3 * 3 * 8);
    world_free(w);
}

/* A link breaks under a stream and heals: what was in it is lost, sent again, and all arrives. */
TEST(a_link_that_heals_carries_traffic_again) {
    for (int mode = 0; mode < 3; mode++) {
        struct net_failure failure = {.channel = 0, .down_ps = 3000000, .up_ps = 9000000};
        struct net_config c = net_config_default();
        c.flow_control = (enum net_flow_control)mode;
        c.failures = &failure;
        c.failure_count = 1;
        c.retry_ps = 2000000;
        c.retries = 10;
        struct world *w = world_new("switch:2", &c);
        network_send(w->net, 0, 0, 0, 1, 4096 * 100, 0, 1);
        world_run(w);
        struct net_counts n = network_counts(w->net);
        CHECK_EQ(w->messages_done, 1);
        CHECK(n.fate[NET_LOST] > 0);
        CHECK(n.fate[NET_NO_ROUTE] > 0);
        CHECK_EQ(n.fate[NET_DELIVERED], 100);
        CHECK(w->last_ps > 9000000);
        world_free(w);
    }
}

/* Links of a torus break and heal over and over under load: all packets are accounted for, and what
 * is sent after the last one has healed arrives. */
TEST(links_that_come_and_go_lose_no_count) {
    for (int mode = 0; mode < 3; mode++)
        for (uint64_t seed = 1; seed < 6; seed++) {
            struct net_failure failures[40];
            struct topology *t;
            struct spin_error err;
            CHECK_EQ(topology_create(&t, "torus:4x4x3", 0, &err), 0);
            struct rng r = rng_seeded(seed * 7919);
            for (int i = 0; i < 40; i++) {
                uint64_t down = rng_below(&r, 10000000);
                failures[i] = (struct net_failure){rng_below(&r, t->channels), down,
                                                   down + 1 + rng_below(&r, 3000000)};
            }
            topology_destroy(t);
            struct net_config c = net_config_default();
            c.flow_control = (enum net_flow_control)mode;
            c.multipath = seed & 1;
            c.buffer_bytes = 8192;
            c.failures = failures;
            c.failure_count = 40;
            struct world *w = world_new("torus:4x4x3", &c);
            struct traffic traffic = {.mean_ps = 120000, .bytes = 4096, .to = TOPO_NONE};
            world_traffic(w, &traffic, 100, seed);
            CHECK_EQ(sim_run(w->engine, 14000000, UINT64_MAX, &err), 0);
            uint64_t before = w->fate[NET_DELIVERED];
            for (uint32_t h = 0; h < w->topology->hosts; h++)
                network_inject(w->net, 14000000, h, (h + 7) % w->topology->hosts, 100, 0, 1000000);
            uint64_t in_flight = network_counts(w->net).in_flight;
            world_run(w);
            CHECK(w->fate[NET_LOST] > 0);
            CHECK_EQ(w->fate[NET_DELIVERED], before + in_flight);
            world_free(w);
        }
}

/* Poisson arrivals at one port with a fixed time each: the Pollaczek-Khinchine mean for M/D/1,
 * rho T / (2 (1 - rho)). The host's own port takes exactly the arrivals that the generator makes.
 */
static void check_md1(uint32_t percent, uint32_t packets) {
    struct net_config c = net_config_default();
    uint64_t takes = 81920;
    struct world *w = world_new("link", &c);
    struct traffic t = {.mean_ps = takes * 100 / percent, .bytes = 4096, .to = 1, .poisson = true};
    world_traffic(w, &t, packets, 77);
    world_run(w);
    double mean = (double)network_counts(w->net).queued_ps / packets;
    double expected = percent / 100.0 * (double)takes / (2 * (1 - percent / 100.0));
    if (mean < 0.99 * expected || mean > 1.01 * expected)
        TEST_FAIL("at load 0.%u the mean wait is %.1f ps, theory says %.1f ps", percent, mean,
                  expected);
    CHECK_EQ(w->queued_ps, network_counts(w->net).queued_ps);
    world_free(w);
}

/* Millions of packets for a mean: nothing that a sanitizer would see better than in fewer. */
#define A_STATISTIC "a statistic, which the other builds take"

TEST(a_port_is_an_m_d_1_queue) {
    if (TEST_SANITIZED)
        TEST_SKIP(A_STATISTIC);
    check_md1(30, 1000000);
    check_md1(50, 1000000);
    check_md1(70, 3000000);
}

/* The same at a switch: 200 hosts on fast links make a stream that is Poisson to within the time of
 * a packet on a fast link, the output is slow. Hosts do not end together, and the load falls
 * towards the end: enough packets make that part small. */
TEST(a_switch_port_is_an_m_d_1_queue) {
    if (TEST_SANITIZED)
        TEST_SKIP(A_STATISTIC);
    char *text = malloc(1 << 16);
    int used = sprintf(text, "openspin-graph 1\nswitch s\nhost sink\nlink sink s rate=1Gbit/s\n");
    for (int i = 0; i < 200; i++)
        used += sprintf(text + used, "host h%d\nlink h%d s rate=1000Gbit/s\n", i, i);
    struct spin_error err;
    struct world *w = calloc(1, sizeof *w);
    w->config = net_config_default();
    w->engine = sim_engine_new(&err);
    CHECK_EQ(topology_parse_graph(&w->topology, text, (size_t)used, "star", &err), 0);
    struct net_callbacks on = {.context = w, .packet = world_packet};
    CHECK_EQ(network_create(&w->net, w->engine, w->topology, &w->config, &on, &err), 0);
    const uint32_t packets = 30000;
    uint64_t takes = 8000ull * 1000; /* 1000 bytes at 1 Gbit/s */
    struct traffic t = {.mean_ps = takes * 200 * 2, .bytes = 1000, .to = 0, .poisson = true};
    world_traffic(w, &t, packets, 3);
    world_run(w);
    uint64_t waits = 0;
    for (uint32_t channel = 0; channel < w->topology->channels; channel++)
        if (topology_channel(w->topology, channel).node == 0)
            waits = network_link(w->net, channel).queued_ps;
    double mean = (double)waits / (200.0 * packets), expected = 0.5 * (double)takes / (2 * 0.5);
    if (mean < 0.99 * expected || mean > 1.01 * expected)
        TEST_FAIL("the mean wait is %.1f ps, theory says %.1f ps", mean, expected);
    world_free(w);
    free(text);
}

TEST_MAIN
