/* Packet-hops a second of the packet network: permutation, uniform and incast traffic on fat trees
 * of 36-port switches. Usage: bench-network [QUICK]; prints the machine beside the figures. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/rng.h"
#include "sim/network.h"

struct job {
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

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

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

static int run(const struct job *job) {
    struct spin_error err;
    struct topology *t;
    struct bench b = {0};
    struct net_config c = net_config_default();
    c.flow_control = job->flow_control;
    c.multipath = job->multipath;
    struct sim_engine *engine = sim_engine_new(&err);
    struct net_callbacks on = {.context = &b, .message = on_message};
    if (!engine || topology_create(&t, "fattree:36", job->hosts, &err) ||
        network_create(&b.net, engine, t, &c, &on, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        return 1;
    }
    double begin = seconds();
    start(&b, job);
    if (sim_run(engine, SIM_FOREVER, UINT64_MAX, &err) || network_check(b.net, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        return 1;
    }
    double took = seconds() - begin;
    struct net_counts n = network_counts(b.net);
    struct sim_counts e = sim_engine_counts(engine);
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    static const char *const modes[] = {"unlimited", "drop-tail", "credit"};
    printf("%9u  %-11s %-9s %-6s %11" PRIu64 "  %6.2f s  %6.2f M/s  %5.3f  %9" PRIu64 "  %5ld MB\n",
           job->hosts, job->pattern, modes[job->flow_control], job->multipath ? "hash" : "single",
           n.hops, took, (double)n.hops / took / 1e6, (double)e.handled / (double)n.hops,
           n.most_in_flight, usage.ru_maxrss / 1024);
    network_destroy(b.net);
    topology_destroy(t);
    sim_engine_free(engine);
    free(b.r);
    free(b.left);
    return 0;
}

static void print_machine(void) {
    char line[256], model[200] = "unknown processor";
    FILE *f = fopen("/proc/cpuinfo", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "model name : %199[^\n]", model) == 1)
            break;
    if (f)
        fclose(f);
    printf("machine: %s, %ld processors; compiler %s; CPU seconds, one thread\n", model,
           sysconf(_SC_NPROCESSORS_ONLN), __VERSION__);
}

int main(int argc, char **argv) {
    (void)argv;
    bool quick = argc > 1;
    static const struct job jobs[] = {
        {1024, "permutation", NET_UNLIMITED, 2000, false},
        {1024, "permutation", NET_UNLIMITED, 2000, true},
        {1024, "permutation", NET_DROP_TAIL, 2000, false},
        {1024, "permutation", NET_CREDIT, 2000, false},
        {1024, "uniform", NET_UNLIMITED, 2000, true},
        {1024, "uniform", NET_CREDIT, 2000, true},
        {1024, "incast", NET_UNLIMITED, 500, false},
        {1024, "incast", NET_CREDIT, 500, false},
        {65536, "permutation", NET_UNLIMITED, 40, false},
        {65536, "permutation", NET_CREDIT, 40, false},
        {65536, "uniform", NET_UNLIMITED, 40, true},
        {65536, "uniform", NET_CREDIT, 40, true},
        {65536, "incast", NET_UNLIMITED, 8, false},
        {1048576, "permutation", NET_UNLIMITED, 3, false},
    };
    const char *only = getenv("BENCH_ONLY"); /* the number of one job */
    print_machine();
    printf("    hosts  pattern     queues    path   packet-hops      time      speed  "
           "events  in flight   memory\n%75s\n",
           "a hop       most");
    fflush(stdout);
    for (size_t i = 0; i < sizeof jobs / sizeof jobs[0]; i++) {
        if ((quick && jobs[i].hosts > 1024) || (only && (size_t)atoi(only) != i))
            continue;
        /* A process each, so that the memory shown is the job's own. */
        pid_t child = fork();
        if (child == 0) {
            int code = run(&jobs[i]);
            fflush(stdout);
            _exit(code);
        }
        int status = 1;
        if (child < 0 || waitpid(child, &status, 0) < 0 || status != 0)
            return 1;
    }
    return 0;
}
