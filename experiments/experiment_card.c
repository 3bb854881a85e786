#include "experiment_card.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "hpu/timing.h"
#include "rate.h"
#include "sim/network.h"
#include "sim/packet_model.h"
#include "sim/transfer.h"
#include "sim/world_cards.h"

/* ---- what the caller chose ---- */

/* What is left of a world where there is no host: all else as `usual` has it. */
static struct world_params without_hosts(const struct world_params *of,
                                         const struct world_params *usual) {
    struct world_params p = *usual;
    p.g = of->g;
    p.match_packet = of->match_packet;
    p.dma_reads = of->dma_reads;
    p.hpus = of->hpus;
    p.hpu_cycle = of->hpu_cycle;
    p.hpu_start = of->hpu_start;
    p.hpu_quantum = of->hpu_quantum;
    p.network = of->network;
    p.network.memory_fs = usual->network.memory_fs;
    p.network.retry_ps = usual->network.retry_ps;
    p.network.retries = usual->network.retries;
    p.is_pspin = of->is_pspin;
    p.pspin = of->pspin;
    return p;
}

static int take_setting(const char *setting, const struct world_params *usual,
                        struct world_params *to, struct spin_error *err) {
    struct world_params alone = *usual;
    if (world_cards_behind(setting))
        return spin_fail(err, SPIN_EARG, "--set %s: there is one card here; leave out its rank",
                         setting);
    int code = world_params_set(&alone, setting, err);
    if (code)
        return code;
    struct world_params seen = without_hosts(&alone, usual);
    if (memcmp(&seen, &alone, sizeof seen) != 0)
        return spin_fail(err, SPIN_EARG,
                         "--set %s: this experiment is a card without a host and without "
                         "retransmission; it has pspin.NAME, hpus, hpu_cycle, hpu_start, "
                         "match_packet, dma_NAME, g and the network",
                         setting);
    return world_params_set(to, setting, err);
}

/* `usual` is what the set-up was before. */
static int choose(const struct experiment_context *context, const char *card,
                  struct world_params *usual, struct world_params *chosen, struct spin_error *err) {
    const struct experiment_setup *setup = &context->setup;
    memset(usual, 0, sizeof *usual); /* they are compared as bytes */
    int code = world_params_preset(usual, "sc17-int", err);
    usual->is_pspin = strcmp(card, "pspin") == 0;
    *chosen = *usual;
    if (setup->card)
        chosen->is_pspin = strcmp(setup->card, "pspin") == 0;
    for (int i = 0; i < setup->set_count && !code; i++)
        code = take_setting(setup->set[i], usual, chosen, err);
    if (setup->topology)
        chosen->network.topology = setup->topology;
    if (!code && setup->ranks == 1)
        code = spin_fail(err, SPIN_EARG, "--ranks 1: one rank has the card, another must send");
    return code;
}

/* ---- the card ---- */

/* SC'17's card in the model of PsPIN's: an HPU takes a packet where it lies, any memory answers in
 * the cycle, commands cost nothing but what DMA and network take. The scheduler's two cycles are
 * the least that the model has. */
static int as_sc17(const struct world_params *p, struct card_config *g, struct spin_error *err) {
    uint64_t cycle = p->hpu_cycle;
    if (!p->hpus)
        return spin_fail(err, SPIN_EARG, "hpus=0: handlers need one");
    g->core = &hpu_timing_sc17;
    g->cycle = cycle;
    /* As many clusters as PsPIN's handlers know scratchpads, if that divides the HPUs; which one a
     * packet goes to costs nothing, and none takes more than it can run at once. */
    for (g->clusters = p->hpus % 4 ? 1 : 4; p->hpus % g->clusters || p->hpus / g->clusters > 16;)
        g->clusters++;
    g->cluster_tasks = g->cluster_hpus = p->hpus / g->clusters;
    g->wide_bytes = g->l1_banks = g->l2_banks = 1024;
    g->pe_accesses = 64;
    g->hpu_commands = 16;
    g->interface_commands = 1024;
    g->remote_cycles = g->icache_miss = 0;
    g->write_latency = (p->match_packet + cycle / 2) / cycle;
    g->request_latency = 2;
    g->copy_latency = g->copy_round = g->assign_cycles = g->loop_cycles = g->doorbell_cycles = 0;
    g->notify_latency = g->command_latency = g->response_latency = g->hold_cycles = 0;
    g->send_latency = g->to_host_latency = g->from_host_latency = g->fetch_cycles = 0;
    g->address_cycles = g->direct_latency = g->dma_issue = 0;
    g->invoke_cycles = (p->hpu_start + cycle / 2) / cycle;
    g->pcie_latency = p->network.dma_latency_ps;
    g->pcie_rate = p->network.dma_fs;
    g->quantum = p->hpu_quantum;
    return SPIN_OK;
}

int experiment_card(const struct experiment_context *context, const char *setting,
                    struct card_config *config, struct spin_error *err) {
    struct world_params usual, chosen;
    int code = card_config_preset(config, "pspin", err);
    if (!code)
        code = choose(context, "pspin", &usual, &chosen, err);
    if (!code && !chosen.is_pspin)
        code = as_sc17(&chosen, config, err);
    if (!code && setting)
        code = card_config_set(config, setting, err);
    for (int i = 0; i < context->setup.set_count && !code && chosen.is_pspin; i++)
        if (strncmp(context->setup.set[i], "pspin.", 6) == 0)
            code = card_config_set(config, context->setup.set[i] + 6, err);
    config->jit = context->jit;
    if (!code && chosen.network.link_fs != usual.network.link_fs)
        config->network_rate = chosen.network.link_fs;
    return code;
}

int experiment_hpus(const struct experiment_context *context, const char *card, double published,
                    double *hpus, struct spin_error *err) {
    struct world_params usual, chosen;
    int code = choose(context, card, &usual, &chosen, err);
    uint32_t count = world_params_hpus(&chosen);
    *hpus = context->setup.card || count != world_params_hpus(&usual) ? count : published;
    if (!code && !count)
        code = spin_fail(err, SPIN_EARG, "hpus=0: handlers need one");
    return code;
}

/* ---- the network ---- */

struct crossing {
    uint64_t *at_ps;
    uint32_t arrived;
};

static void on_packet(void *user, const struct net_arrival *arrival) {
    struct crossing *c = user;
    if (arrival->fate != NET_DELIVERED || arrival->duplicate)
        return;
    c->at_ps[arrival->cookie] = arrival->at_ps;
    c->arrived++;
}

static bool has_network(const struct experiment_setup *setup, const struct world_params *usual,
                        const struct world_params *chosen) {
    return setup->ranks || setup->topology || usual->g != chosen->g ||
           memcmp(&usual->network, &chosen->network, sizeof usual->network) != 0;
}

int experiment_network(const struct experiment_context *context, bool *is_there,
                       struct spin_error *err) {
    struct world_params usual, chosen;
    int code = choose(context, "pspin", &usual, &chosen, err);
    *is_there = !code && has_network(&context->setup, &usual, &chosen);
    return code;
}

static int by_time(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A sender's packets leave one after the other, as a world's card sends them. */
static int send_all(struct sim_engine *engine, struct network *net, const struct world_params *p,
                    uint32_t senders, uint32_t packets, const uint32_t *bytes, uint64_t *at_ps,
                    struct spin_error *err) {
    uint64_t *free_ps = calloc(senders, sizeof *free_ps), now = 0;
    int code = free_ps ? SPIN_OK : spin_fail(err, SPIN_ENOMEM, "out of memory");
    for (uint32_t i = 0; i < packets && !code; i++) {
        uint32_t from = i % senders;
        uint64_t takes = transfer_ps(bytes[i] + p->network.header_bytes, p->network.link_fs);
        /* In order of time: a sender that is behind keeps none of the others. */
        uint64_t at = at_ps[i] > free_ps[from] ? at_ps[i] : free_ps[from];
        now = at > now ? at : now;
        free_ps[from] = now + (takes > p->g ? takes : p->g);
        code = sim_run(engine, now, UINT64_MAX, err);
        if (!code)
            network_inject(net, now, 1 + from, 0, bytes[i], 1 + from, i);
    }
    if (!code)
        code = sim_run(engine, SIM_FOREVER, UINT64_MAX, err);
    if (!code)
        code = network_check(net, err);
    free(free_ps);
    return code;
}

static int cross(struct world_params *p, uint32_t ranks, uint32_t packets, const uint32_t *bytes,
                 uint64_t *at_ps, struct spin_error *err) {
    struct sim_engine *engine = sim_engine_new(err);
    struct topology *topology = NULL;
    struct network *net = NULL;
    struct crossing crossing = {.at_ps = at_ps};
    const struct net_callbacks callbacks = {.context = &crossing, .packet = on_packet};
    for (uint32_t i = 0; i < packets; i++) /* a packet is as long as the experiment says */
        if (bytes[i] > p->network.mtu_bytes)
            p->network.mtu_bytes = bytes[i];
    const struct net_config config = packet_net_config(&p->network);
    int code = engine ? topology_create(&topology, p->network.topology, ranks, err) : SPIN_ENOMEM;
    if (!code && topology->hosts < ranks)
        code = spin_fail(err, SPIN_EARG, "%s has %u hosts, fewer than %u ranks",
                         p->network.topology, topology->hosts, ranks);
    if (!code)
        code = network_create(&net, engine, topology, &config, &callbacks, err);
    if (!code)
        code = send_all(engine, net, p, ranks - 1, packets, bytes, at_ps, err);
    if (!code && crossing.arrived != packets)
        code = spin_fail(err, SPIN_EARG, "the network lost %u of %u packets, which nobody repeats",
                         packets - crossing.arrived, packets);
    if (net)
        network_destroy(net);
    if (topology)
        topology_destroy(topology);
    if (engine)
        sim_engine_free(engine);
    /* Packets are alike: the first that comes is the first of the load. */
    if (!code)
        qsort(at_ps, packets, sizeof *at_ps, by_time);
    return code;
}

static uint32_t ranks_of(const struct experiment_context *context) {
    return context->setup.ranks ? context->setup.ranks : 2;
}

int experiment_arrivals(const struct experiment_context *context, uint32_t packets,
                        const uint32_t *bytes, uint64_t *at_ps, struct spin_error *err) {
    struct world_params usual, chosen;
    int code = choose(context, "pspin", &usual, &chosen, err);
    if (!code && has_network(&context->setup, &usual, &chosen))
        code = cross(&chosen, ranks_of(context), packets, bytes, at_ps, err);
    /* Into SC'17's card a packet comes every g at most. */
    for (uint32_t i = 1; i < packets && !code && !chosen.is_pspin; i++)
        if (at_ps[i] < at_ps[i - 1] + chosen.g)
            at_ps[i] = at_ps[i - 1] + chosen.g;
    return code;
}

int experiment_interval(const struct experiment_context *context, double bytes, double gbit,
                        double gap_ns, double *ns, struct spin_error *err) {
    enum { PACKETS = 256 };
    struct world_params usual, chosen;
    uint64_t at_ps[PACKETS] = {0};
    uint32_t each[PACKETS];
    *ns = rate_interval_ns(bytes, gbit, gap_ns);
    int code = choose(context, "pspin", &usual, &chosen, err);
    if (code || !has_network(&context->setup, &usual, &chosen))
        return code;
    if (bytes > UINT16_MAX)
        return spin_fail(err, SPIN_EARG, "--bytes %.0f: a packet has at most %u", bytes,
                         UINT16_MAX);
    for (int i = 0; i < PACKETS; i++)
        each[i] = (uint32_t)bytes;
    if (chosen.network.link_fs == usual.network.link_fs)
        chosen.network.link_fs = (uint64_t)(8e6 / gbit + 0.5);
    if (chosen.g == usual.g)
        chosen.g = (uint64_t)(1000 * gap_ns + 0.5);
    code = cross(&chosen, ranks_of(context), PACKETS, each, at_ps, err);
    double steady = (double)(at_ps[PACKETS - 1] - at_ps[PACKETS / 2 - 1]) / (PACKETS / 2) / 1000;
    *ns = steady > chosen.g / 1000.0 ? steady : chosen.g / 1000.0;
    return code;
}

void experiment_note_network(const struct experiment_context *context, struct sheet *sheet) {
    struct world_params usual, chosen;
    struct spin_error unused;
    if (choose(context, "pspin", &usual, &chosen, &unused) ||
        !has_network(&context->setup, &usual, &chosen))
        return;
    sheet_note(sheet, "Packets come from %u other rank%s through %s.", ranks_of(context) - 1,
               ranks_of(context) > 2 ? "s" : "", chosen.network.topology);
}
