/* Packet-hops per second of the packet network: permutation, uniform and incast traffic on fat
 * trees of 36-port switches, a torus and a dragonfly. Usage: bench-network [quick]; quick leaves
 * out the large ones, BENCH_ONLY=n runs row n alone. */
#include <inttypes.h>

#include "measure.h"

#include "base/rng.h"
#include "sim/network.h"

struct job {
    const char *topology;
    uint32_t hosts;
    const char *pattern;
    enum net_flow_control flow_control;
    uint32_t packets; /* a host */
    bool multipath;
};

struct bench {
    struct network *net;
    struct rng *r;
    uint32_t hosts, *left, packet_bytes;
    uint64_t done;
};

static uint32_t other(struct bench *b, uint32_t host) {
    uint32_t dst = rng_below(&b->r[host], b->hosts - 1);
    return dst + (dst >= host);
}

/* Uniform: each message is one packet; the next one starts when it is in. Four at a time. */
static void on_message(void *context, uint64_t cookie, uint64_t at_ps, bool lost) {
    struct bench *b = context;
    uint32_t host = (uint32_t)cookie;
    (void)lost;
    b->done++;
    if (b->left && b->left[host] && b->left[host]--)
        network_send(b->net, at_ps, at_ps, host, other(b, host), b->packet_bytes, (uint32_t)b->done,
                     host);
}

static void start(struct bench *b, const struct job *job) {
    b->hosts = job->hosts;
    b->packet_bytes = 4096;
    b->r = malloc(sizeof *b->r * job->hosts);
    for (uint32_t h = 0; h < job->hosts; h++)
        b->r[h] = rng_seeded(h * 1000003ull); /* streams far apart */
    if (strcmp(job->pattern, "uniform") == 0) {
        b->left = malloc(sizeof *b->left * job->hosts);
        for (uint32_t h = 0; h < job->hosts; h++) {
            b->left[h] = job->packets - 4;
            for (uint32_t i = 0; i < 4; i++)
                network_send(b->net, 0, 0, h, other(b, h), b->packet_bytes, i, h);
        }
    } else if (strcmp(job->pattern, "incast") == 0) {
        for (uint32_t h = 1; h < job->hosts; h++)
            network_send(b->net, 0, 0, h, 0, (uint64_t)job->packets * b->packet_bytes, 0, h);
    } else { /* a random permutation without fixed points in most places */
        uint32_t *to = malloc(sizeof *to * job->hosts);
        for (uint32_t h = 0; h < job->hosts; h++)
            to[h] = h;
        for (uint32_t h = job->hosts - 1; h > 0; h--) {
            uint32_t k = rng_below(&b->r[0], h), t = to[h];
            to[h] = to[k];
            to[k] = t;
        }
        for (uint32_t h = 0; h < job->hosts; h++)
            network_send(b->net, 0, 0, h, to[h], (uint64_t)job->packets * b->packet_bytes, 0, h);
        free(to);
    }
}

static void run(const void *argument, double *result) {
    const struct job *job = argument;
    struct spin_error err;
    struct topology *t;
    struct bench b = {0};
    struct net_config c = net_config_default();
    c.flow_control = job->flow_control;
    c.multipath = job->multipath;
    struct sim_engine *engine = sim_engine_new(&err);
    struct net_callbacks on = {.context = &b, .message = on_message};
    if (!engine || topology_create(&t, job->topology, job->hosts, &err) ||
        network_create(&b.net, engine, t, &c, &on, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        _exit(1);
    }
    double begin = bench_cpu_seconds();
    start(&b, job);
    if (sim_run(engine, SIM_FOREVER, UINT64_MAX, &err) || network_check(b.net, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        _exit(1);
    }
    struct net_counts n = network_counts(b.net);
    result[0] = bench_cpu_seconds() - begin;
    result[1] = (double)n.hops;
    result[2] = (double)sim_engine_counts(engine).handled;
    result[3] = (double)n.most_in_flight;
    network_destroy(b.net);
    topology_destroy(t);
    sim_engine_free(engine);
    free(b.r);
    free(b.left);
}

int main(int argc, char **argv) {
    (void)argv;
    bool quick = argc > 1;
    static const struct job jobs[] = {
        {"fattree:36", 1024, "permutation", NET_UNLIMITED, 2000, false},
        {"fattree:36", 1024, "permutation", NET_UNLIMITED, 2000, true},
        {"fattree:36", 1024, "permutation", NET_DROP_TAIL, 2000, false},
        {"fattree:36", 1024, "permutation", NET_CREDIT, 2000, false},
        {"fattree:36", 1024, "uniform", NET_UNLIMITED, 2000, true},
        {"fattree:36", 1024, "uniform", NET_CREDIT, 2000, true},
        {"fattree:36", 1024, "incast", NET_UNLIMITED, 500, false},
        {"fattree:36", 1024, "incast", NET_CREDIT, 500, false},
        {"torus:10x10x10", 1000, "uniform", NET_UNLIMITED, 1000, true},
        {"torus:10x10x10", 1000, "uniform", NET_CREDIT, 1000, true},
        {"torus:10x10x10", 1000, "permutation", NET_CREDIT, 1000, false},
        {"dragonfly:4,8,4", 1056, "uniform", NET_UNLIMITED, 1000, true},
        {"dragonfly:4,8,4", 1056, "permutation", NET_CREDIT, 1000, true},
        {"fattree:36", 65536, "permutation", NET_UNLIMITED, 40, false},
        {"fattree:36", 65536, "permutation", NET_CREDIT, 40, false},
        {"fattree:36", 65536, "uniform", NET_UNLIMITED, 40, true},
        {"fattree:36", 65536, "uniform", NET_CREDIT, 40, true},
        {"fattree:36", 65536, "incast", NET_UNLIMITED, 8, false},
        {"fattree:36", 1048576, "permutation", NET_UNLIMITED, 3, false},
    };
    const char *only = getenv("BENCH_ONLY"); /* the number of one job */
    bench_machine();
    puts("  hosts   topology        pattern      queues     path    packet-hops    time     speed  "
         "events/hop  in flight   memory");
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        static const char *const modes[] = {"unlimited", "drop-tail", "credit"};
        const struct job *job = &jobs[i];
        if ((quick && job->hosts > 2000) || (only && (size_t)atoi(only) != i))
            continue;
        double r[4];
        double memory = bench_apart(run, job, r, 4);
        if (memory < 0)
            return 1;
        printf("%7u   %-15s %-12s %-10s %-6s %12.0f %5.2f s %5.2f M/s  %9.3f  %9.0f  %5.0f MB\n",
               job->hosts, job->topology, job->pattern, modes[job->flow_control],
               job->multipath ? "hash" : "single", r[1], r[0], r[1] / r[0] / 1e6, r[2] / r[1], r[3],
               memory);
    }
    return 0;
}
