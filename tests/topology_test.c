#include "lib/test.h"

#include "base/rng.h"
#include "sim/transfer.h"
#include "sim/topology.h"

static struct topology *make(const char *spec, uint32_t hosts) {
    struct topology *t;
    struct spin_error err;
    if (topology_create(&t, spec, hosts, &err))
        TEST_FAIL("%s: %.300s", spec, err.text);
    return t;
}

/* Walks the path; checks that it is connected, ends, and is as long as the formula says. */
static void walk(const struct topology *t, uint32_t src, uint32_t dst, uint32_t selector) {
    uint32_t node = src, links = 0, wanted = topology_hops(t, src, dst);
    while (node != dst) {
        struct topo_hop hop = topology_next(t, node, dst, selector);
        CHECK(hop.channel < t->channels && hop.node < t->hosts + t->switches);
        CHECK(hop.kind < t->n_kinds);
        CHECK_EQ(t->family->source(t, hop.channel), node);
        CHECK(hop.node >= t->hosts || hop.node == dst);
        CHECK(hop.vc < t->vcs_hashed);
        node = hop.node;
        if (++links > wanted)
            TEST_FAIL("%s: %u to %u takes more than the %u links of the formula", t->text, src, dst,
                      wanted);
    }
    CHECK_EQ(links, wanted);
}

/* Every port's channel belongs to it, ends where it says, is used once, and has a way back. */
static void check_wiring(const struct topology *t) {
    uint32_t wired = 0;
    bool *seen = calloc(t->channels, 1);
    for (uint32_t node = 0; node < t->hosts + t->switches; node++)
        for (uint32_t port = 0; port < t->family->ports(t, node); port++) {
            struct topo_hop hop = t->family->port(t, node, port);
            if (hop.channel == TOPO_NONE)
                continue;
            CHECK(hop.channel < t->channels && !seen[hop.channel]);
            seen[hop.channel] = true;
            wired++;
            CHECK_EQ(t->family->source(t, hop.channel), node);
            CHECK_EQ(t->family->number(t, hop.channel), port);
            CHECK_EQ(topology_channel(t, topology_reverse(t, hop.channel)).node, node);
            CHECK_EQ(topology_reverse(t, topology_reverse(t, hop.channel)), hop.channel);
            bool back = false;
            for (uint32_t i = 0; i < t->family->ports(t, hop.node) && !back; i++)
                back = t->family->port(t, hop.node, i).node == node;
            CHECK(back);
        }
    CHECK_EQ(wired, 2 * t->links);
    free(seen);
}

static void check_pairs(const struct topology *t, struct rng *r, uint32_t pairs) {
    for (uint32_t i = 0; i < pairs; i++) {
        uint32_t src = rng_below(r, t->hosts), dst = rng_below(r, t->hosts);
        walk(t, src, dst, topology_selector(t, src, dst, 0, false, 0));
        walk(t, src, dst, topology_selector(t, src, dst, rng_u32(r), true, 7));
    }
}

TEST(all_pairs_of_small_networks_connect) {
    static const char *specs[] = {"link",
                                  "switch:5",
                                  "switch:1",
                                  "fattree:4,levels=1",
                                  "fattree:4",
                                  "fattree:4,levels=4",
                                  "fattree:5,levels=3",
                                  "fattree:6,hosts=31",
                                  "fattree:8,taper=3",
                                  "torus:1x1",
                                  "torus:4x5",
                                  "torus:2x2x2",
                                  "torus:3x1x4,hosts=2",
                                  "dragonfly:1,2,1",
                                  "dragonfly:2,4,2",
                                  "dragonfly:2,4,2,groups=3",
                                  "dragonfly:1,3,1,groups=2",
                                  "dragonfly:3,5,1,groups=1",
                                  "dragonfly:1,1,4"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topology *t = make(specs[i], 0);
        check_wiring(t);
        for (uint32_t a = 0; a < t->hosts; a++)
            for (uint32_t b = 0; b < t->hosts; b++)
                for (uint32_t s = 0; s < 12; s++)
                    walk(t, a, b, s * 0x1234567u + s);
        topology_destroy(t);
    }
}

TEST(random_sizes_connect_by_the_formula) {
    struct rng r = rng_seeded(11);
    char spec[80];
    for (int i = 0; i < 150; i++) {
        switch (i % 3) {
        case 0:
            snprintf(spec, sizeof spec, "fattree:%u,hosts=%u,taper=%u", 4 + rng_below(&r, 60),
                     1 + rng_below(&r, 3000), 1 + rng_below(&r, 3));
            break;
        case 1:
            snprintf(spec, sizeof spec, "torus:%ux%ux%u,hosts=%u", 1 + rng_below(&r, 12),
                     1 + rng_below(&r, 12), 1 + rng_below(&r, 12), 1 + rng_below(&r, 4));
            break;
        default: {
            uint32_t a = 1 + rng_below(&r, 9), h = 1 + rng_below(&r, 5);
            snprintf(spec, sizeof spec, "dragonfly:%u,%u,%u,groups=%u", 1 + rng_below(&r, 5), a, h,
                     1 + rng_below(&r, a * h + 1));
        }
        }
        struct topology *t = make(spec, 0);
        check_wiring(t);
        check_pairs(t, &r, 200);
        topology_destroy(t);
    }
}

TEST(large_networks_are_computed_not_stored) {
    struct rng r = rng_seeded(3);
    struct topology *t = make("fattree:36", 1048576);
    CHECK_EQ(t->hosts, 1048576);
    CHECK_EQ(t->fattree.levels, 5);
    check_pairs(t, &r, 20000);
    CHECK_EQ(topology_hops(t, 0, 1048575), 10);
    CHECK_EQ(topology_hops(t, 0, 17), 2);
    topology_destroy(t);
    t = make("fattree:36", 11664);
    CHECK_EQ(t->fattree.levels, 3);
    CHECK_EQ(t->switches, 648 + 648 + 324);
    topology_destroy(t);
    t = make("torus:128x128x64", 0);
    CHECK_EQ(t->hosts, 1048576);
    check_pairs(t, &r, 5000);
    topology_destroy(t);
    t = make("dragonfly:16,32,16", 0);
    CHECK_EQ(t->hosts, 262656);
    check_pairs(t, &r, 5000);
    topology_destroy(t);
}

/* The formulas against a search over the wiring: fat trees and tori route along shortest paths. */
TEST(formulas_are_the_shortest_paths) {
    static const char *const specs[] = {"fattree:4,levels=4", "fattree:6,hosts=50,taper=2",
                                        "torus:5x6",          "torus:3x4x5,hosts=2",
                                        "dragonfly:2,4,1",    "switch:9"};
    for (size_t i = 0; i < sizeof specs / sizeof specs[0]; i++) {
        struct topology *t = make(specs[i], 0);
        uint32_t nodes = t->hosts + t->switches, *queue = malloc(nodes * sizeof *queue);
        uint32_t *far = malloc(nodes * sizeof *far);
        for (uint32_t src = 0; src < t->hosts; src++) {
            uint32_t head = 0, tail = 0;
            memset(far, 0xff, nodes * sizeof *far);
            far[src] = 0;
            queue[tail++] = src;
            while (head < tail) {
                uint32_t node = queue[head++];
                for (uint32_t p = 0; p < t->family->ports(t, node); p++) {
                    uint32_t next = t->family->port(t, node, p).node;
                    if (next != TOPO_NONE && far[next] == UINT32_MAX) {
                        far[next] = far[node] + 1;
                        queue[tail++] = next;
                    }
                }
            }
            for (uint32_t dst = 0; dst < t->hosts; dst++)
                CHECK_EQ(topology_hops(t, src, dst), far[dst]);
        }
        free(queue);
        free(far);
        topology_destroy(t);
    }
}

/* A shift by one leaf: d-mod-k must put each flow on an up link of its own. */
TEST(deterministic_fat_tree_has_no_conflict_on_shifts) {
    struct topology *t = make("fattree:8,levels=3", 0);
    for (uint32_t shift = 1; shift < t->hosts; shift += 5) {
        uint32_t *load = calloc(t->channels, sizeof *load);
        for (uint32_t src = 0; src < t->hosts; src++) {
            uint32_t dst = (src + shift) % t->hosts, node = src;
            while (node != dst) {
                struct topo_hop hop =
                    topology_next(t, node, dst, topology_selector(t, src, dst, 0, false, 0));
                CHECK_EQ(load[hop.channel]++, 0);
                node = hop.node;
            }
        }
        free(load);
    }
    topology_destroy(t);
}

/* Flows of one pair over the ports of the leaf: each port within 10 % of its share. */
TEST(multipath_is_balanced) {
    struct topology *t = make("fattree:36", 11664);
    uint32_t count[18] = {0};
    for (uint32_t flow = 0; flow < 180000; flow++) {
        struct topo_hop hop =
            topology_next(t, t->hosts, 11000, topology_selector(t, 3, 11000, flow, true, 1));
        count[hop.channel - t->fattree.up[1]]++;
    }
    for (int i = 0; i < 18; i++)
        CHECK(count[i] > 9000 && count[i] < 11000);
    topology_destroy(t);

    t = make("dragonfly:1,8,2,groups=2", 0); /* 16 global links to the other group */
    CHECK_EQ(t->dragonfly.copies, 16);
    uint32_t ways = 0, seen[64] = {0};
    for (uint32_t flow = 0; flow < 4000; flow++) {
        uint32_t node = 0, selector = topology_selector(t, 0, 12, flow, true, 1);
        while (node != 12) {
            struct topo_hop hop = topology_next(t, node, 12, selector);
            if (hop.kind == 1)
                ways += seen[hop.channel - t->dragonfly.global_first]++ == 0;
            node = hop.node;
        }
    }
    /* Shortest are those that leave from router 0 (2 links) or enter at router 4 (2 links). */
    CHECK_EQ(ways, 4);
    topology_destroy(t);
}

static const char ring[] = "openspin-graph 1\n"
                           "# a ring of four with a slow chord\n"
                           "host a b c d e\r\n"
                           "switch s0 s1 s2 s3\n"
                           "link a s0\nlink b s1\nlink c s2\nlink d s3\nlink e s3\n"
                           "link s0 s1\nlink s1 s2\nlink s2 s3\nlink s3 s0\n"
                           "link s0 s2 rate=100Gbit/s latency=1us # chord\n"
                           "link s1 s2\n";

TEST(graphs_route_by_distance) {
    struct topology *t;
    struct spin_error err;
    if (topology_parse_graph(&t, ring, strlen(ring), "ring", &err))
        TEST_FAIL("%s", err.text);
    CHECK_EQ(t->hosts, 5);
    CHECK_EQ(t->switches, 4);
    CHECK_EQ(t->links, 11);
    CHECK_EQ(t->graph.diameter, 2);
    CHECK_EQ(topology_hops(t, 0, 2), 3);
    CHECK_EQ(topology_hops(t, 1, 3), 4);
    CHECK_EQ(topology_hops(t, 3, 4), 2);
    check_wiring(t);
    for (uint32_t a = 0; a < 5; a++)
        for (uint32_t b = 0; b < 5; b++)
            for (uint32_t s = 0; s < 20; s++)
                walk(t, a, b, s);
    struct topo_hop chord = topology_next(t, 5, 2, 0);
    CHECK_EQ(t->kinds[chord.kind].fs_per_byte, 80000);
    CHECK_EQ(t->kinds[chord.kind].latency_ps, 1000000);
    char name[TOPO_MAX_NAME];
    topology_name(t, chord.channel, name);
    CHECK_STR(name, "s0>s2");
    CHECK_EQ(topology_find_node(t, "s2", 2), 7);
    topology_destroy(t);
}

TEST(bad_graphs_are_refused_with_line_and_column) {
    static const struct {
        const char *text, *why;
    } cases[] = {
        {"", "first line must be"},
        {"openspin-graph 2\n", "g:1:1: the first line must be 'openspin-graph 1'"},
        {"openspin-graph 1 x\n", "g:1:18: nothing follows"},
        {"openspin-graph 1\n\n  node a\n", "g:3:3: expected host, switch or link, not 'node'"},
        {"openspin-graph 1\nhost\n", "g:2:5: expected a name"},
        {"openspin-graph 1\nhost a b a\n", "g:2:10: this name is already taken: 'a'"},
        {"openspin-graph 1\nhost a/b\n", "g:2:6: a name has"},
        {"openspin-graph 1\nhost a\nlink a\n", "g:3:7: a link needs two names"},
        {"openspin-graph 1\nhost a\nlink a z\n",
         "g:3:8: no host or switch of this name above: 'z'"},
        {"openspin-graph 1\nlink a b\n", "no host or switch of this name"},
        {"openspin-graph 1\nswitch s\nlink s s\n", "to itself"},
        {"openspin-graph 1\nhost a b\nlink a b\n", "not to another host"},
        {"openspin-graph 1\nhost a\nswitch s\nlink a s rate=fast\n", "g:4:15: not a rate"},
        {"openspin-graph 1\nhost a\nswitch s\nlink a s latency=0\n", "g:4:18: not a latency"},
        {"openspin-graph 1\nhost a\nswitch s\nlink a s colour=red\n", "g:4:10: expected one rate"},
        {"openspin-graph 1\nhost a b\nswitch s\nlink a s\n", "g:2: host 'b' has 0 links"},
        {"openspin-graph 1\nhost a\nswitch s\nlink a s\nlink s a\n", "host 'a' has 2 links"},
        {"openspin-graph 1\nswitch s\n", "no host"},
        {"openspin-graph 1\nhost a b\nswitch s t\nlink a s\nlink b t\n", "no path"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct topology *t;
        struct spin_error err = {0};
        CHECK(topology_parse_graph(&t, cases[i].text, strlen(cases[i].text), "g", &err) != SPIN_OK);
        CHECK(t == NULL);
        CHECK_HAS(err.text, cases[i].why);
    }
}

TEST(route_tables_have_a_limit) {
    size_t room = 64u << 20, used = 0;
    char *text = malloc(room);
    used += (size_t)sprintf(text, "openspin-graph 1\n");
    for (int i = 0; i < 20000; i++)
        used += (size_t)sprintf(text + used, "host h%d\nswitch s%d\nlink h%d s%d\n", i, i, i, i);
    for (int i = 1; i < 20000; i++)
        used += (size_t)sprintf(text + used, "link s%d s%d\n", i / 2, i);
    struct topology *t;
    struct spin_error err;
    CHECK_EQ(topology_parse_graph(&t, text, used, "big", &err), SPIN_ELIMIT);
    CHECK_HAS(err.text, "limit of 512 MiB");
    free(text);
}

TEST(bad_specs_are_refused) {
    static const struct {
        const char *spec;
        uint32_t hosts;
        const char *why;
    } cases[] = {
        {"mesh:4x4", 0, "unknown topology 'mesh:4x4'"},
        {"", 0, "unknown topology"},
        {"fattree", 0, "expected fattree:RADIX"},
        {"fattree:3", 0, "radix must be 4"},
        {"fattree:36,", 0, "cannot read ','"},
        {"fattree:36,levels=0", 0, "cannot read"},
        {"fattree:36,levels=1", 37, "holds 36 hosts, 37 are needed"},
        {"fattree:99999999999", 0, "cannot read"},
        {"fattree:4", 60000000, "14 levels"},
        {"fattree:65536,levels=3", 0, "2^32 ports"},
        {"fattree:8,hosts=4", 5, "has 4 hosts, 5 are needed"},
        {"torus:4", 0, "expected torus:XxY"},
        {"torus:4,4", 0, "expected torus:XxY"},
        {"torus:4x4x4x4", 0, "expected torus"},
        {"torus:1048576x1048576", 0, "over the limit"},
        {"dragonfly:1,2", 0, "expected dragonfly:P,A,H"},
        {"dragonfly:1,2,1,groups=4", 0, "at most 3"},
        {"dragonfly:4096,4096,4096", 0, "over the limit"},
        {"dragonfly:1,128,128,groups=2", 0, "16384 links between each two"},
        {"link:3", 0, "takes no numbers"},
        {"link", 3, "has 2 hosts, 3 are needed"},
        {"file:/nonexistent", 0, "cannot open"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct topology *t;
        struct spin_error err = {0};
        CHECK(topology_create(&t, cases[i].spec, cases[i].hosts, &err) != SPIN_OK);
        CHECK_HAS(err.text, cases[i].why);
    }
}

TEST(transfer_times_round_up) {
    CHECK_EQ(transfer_ps(4096, 20000), 81920);
    CHECK_EQ(transfer_ps(1, 15600), 16);
    CHECK_EQ(transfer_ps(0, 15600), 0);
}

TEST_MAIN
