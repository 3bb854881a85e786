/* libFuzzer target: whatever bytes come, the graph reader gives a topology or an error of one line;
 * on a topology every walk ends after the hops that it says, and packets between its hosts are all
 * accounted for, under each kind of queue. */
#include "fuzz.h"

#include "sim/network.h"

static void walk(const struct topology *t, uint32_t src, uint32_t dst, uint32_t selector) {
    uint32_t hops = 0, most = topology_hops(t, src, dst);
    for (uint32_t node = src; node != dst; hops++) {
        struct topo_hop hop = topology_next(t, node, dst, selector);
        FUZZ_HOLDS(hops < most && hop.channel < t->channels, "a walk ends");
        FUZZ_HOLDS(t->family->source(t, hop.channel) == node, "a hop leaves the node");
        FUZZ_HOLDS(topology_channel(t, topology_reverse(t, hop.channel)).node == node,
                   "a link has a way back");
        node = hop.node;
    }
    FUZZ_HOLDS(hops == most, "a walk is as long as it says");
}

static void traffic(const struct topology *t, enum net_flow_control mode) {
    struct spin_error err;
    struct net_config config = net_config_default();
    struct net_callbacks on = {0};
    struct network *net;
    struct sim_engine *engine = sim_engine_new(&err);
    config.flow_control = mode;
    config.buffer_bytes = 4096;
    config.faults.loss = config.faults.duplication = 1u << 28;
    int code = network_create(&net, engine, t, &config, &on, &err);
    FUZZ_HOLDS(code == SPIN_OK || (code == SPIN_ELIMIT && mode == NET_CREDIT), "a network is made");
    if (!code) {
        for (uint32_t i = 0; i < 64; i++)
            network_inject(net, 0, i % t->hosts, (i * 7 + 3) % t->hosts, 64 * i, i, i);
        /* Latencies of hours add up: the engine may end such a run at its limit of time. */
        code = sim_run(engine, SIM_FOREVER, UINT64_MAX, &err);
        struct net_counts n = network_counts(net);
        uint64_t ended = n.in_flight;
        for (int i = 0; i < NET_FATES; i++)
            ended += n.fate[i];
        FUZZ_HOLDS(ended == n.injected + n.duplicated, "packets add up");
        FUZZ_HOLDS(n.in_flight == 0 || code == SPIN_ELIMIT, "packets arrive");
        network_destroy(net);
    }
    sim_engine_free(engine);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char *text = malloc(size + !size); /* of exactly this size: a read behind it is seen */
    memcpy(text, data, size);
    struct topology *t = NULL;
    struct spin_error err = {0};
    if (topology_parse_graph(&t, text, size, "fuzz", &err)) {
        FUZZ_HOLDS(err.text[0] != 0 && !strchr(err.text, '\n'), "an error is one line");
    } else {
        for (uint32_t i = 0; i < 40; i++)
            walk(t, i % t->hosts, (i * 11 + 5) % t->hosts, i * 0x9e3779b1u);
        for (int mode = 0; mode < 3; mode++)
            traffic(t, (enum net_flow_control)mode);
    }
    topology_destroy(t);
    free(text);
    return 0;
}
