#include "sim/packet_model.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/rng.h"
#include "base/units.h"
#include "sim/host.h"
#include "sim/network.h"

struct flight { /* a message on its way */
    struct pool_slot slot;
    union sim_payload handle;
    uint32_t from, to;
    uint64_t bytes;
};

struct packet_model {
    struct sim_engine *engine;
    struct loggops *replay;
    struct spin_packet options;
    struct topology *topology;
    struct network *net;
    struct hosts *hosts; /* NULL without DMA */
    struct sim_transport transport;
    uint32_t *host_of; /* rank -> host; NULL for the identity */
    struct net_failure *failures;
    uint32_t failure_count;
    struct pool flights;
    bool out_of_memory;
    uint64_t lost;
    struct flight first_lost;
    uint64_t first_lost_ps;
    struct trace *trace;
    uint32_t trace_process;
    const struct timeline_view *view;
    uint8_t *named; /* a bit per channel: its row has a name */
    uint8_t *shown; /* one bit per host: it has a rank of the view's */
};

/* ---- the transport ---- */

static void send_message(void *context, const struct sim_message *message) {
    struct packet_model *m = context;
    struct flight *flight = pool_take(&m->flights);
    if (!flight) {
        m->out_of_memory = true;
        sim_stop(m->engine);
        return;
    }
    flight->handle = message->handle;
    flight->from = message->from;
    flight->to = message->to;
    flight->bytes = message->bytes;
    /* The LogGOPS rules may run an operation with a time before one that has already been handled.
     * On the network nothing is sent before now. */
    uint64_t now = sim_engine_counts(m->engine).now_ps;
    uint64_t at = message->at_ps > now ? message->at_ps : now;
    uint32_t src = m->host_of ? m->host_of[message->from] : message->from;
    uint32_t dst = m->host_of ? m->host_of[message->to] : message->to;
    /* A flow is what a pair of ranks sends through one nic: its messages stay in order. */
    network_send(m->net, now, at, src, dst, message->bytes, message->nic, flight->slot.index);
}

static void arrived(void *context, uint64_t cookie, uint64_t at_ps, bool lost) {
    struct packet_model *m = context;
    struct flight *in = pool_at(&m->flights, (uint32_t)cookie), flight = *in;
    pool_give(&m->flights, in);
    if (!lost) {
        loggops_arrive(m->replay, at_ps, flight.handle);
        return;
    }
    if (m->lost++ == 0) {
        m->first_lost = flight;
        m->first_lost_ps = at_ps;
    }
}

static uint64_t store(void *context, uint32_t host, uint64_t at_ps, uint32_t bytes) {
    return host_dma(((struct packet_model *)context)->hosts, host, HOST_TO_MEMORY, at_ps, bytes);
}

static uint64_t fetch(void *context, uint32_t host, uint64_t at_ps, uint32_t bytes) {
    return host_dma(((struct packet_model *)context)->hosts, host, HOST_FROM_MEMORY, at_ps, bytes);
}

static void trace_link(void *context, uint32_t channel, uint64_t start_ps, uint64_t end_ps,
                       uint32_t src, uint32_t dst, uint32_t bytes) {
    struct packet_model *m = context;
    uint32_t row = TRACE_LINK + channel;
    bool chosen = (m->shown[src / 8] >> src % 8 & 1) || (m->shown[dst / 8] >> dst % 8 & 1);
    if (!chosen || end_ps < m->view->from_ps || start_ps > m->view->to_ps)
        return;
    if (!(m->named[channel / 8] >> channel % 8 & 1)) {
        char name[TOPO_MAX_NAME];
        topology_name(m->topology, channel, name);
        m->named[channel / 8] |= (uint8_t)(1u << channel % 8);
        trace_row(m->trace, m->trace_process, row, name, channel);
    }
    char what[40];
    snprintf(what, sizeof what, "h%u to h%u", src, dst);
    trace_box(m->trace, m->trace_process, row, what, start_ps, end_ps - start_ps, bytes, -1);
}

/* ---- failures ---- */

/* "s0-s3@1us" or "h4-s1@1us:5us". */
static int read_failure(const struct topology *t, const char *text, struct net_failure *failure,
                        struct spin_error *err) {
    const char *dash = strchr(text, '-'), *at = dash ? strchr(dash, '@') : NULL;
    char down[40];
    size_t length = at ? strcspn(at + 1, ":") : 0;
    if (!at || length >= sizeof down)
        return spin_fail(err, SPIN_EARG,
                         "failure '%.60s': expected A-B@TIME or A-B@TIME:TIME, such as s0-s3@1us",
                         text);
    memcpy(down, at + 1, length);
    down[length] = 0;
    uint32_t a = topology_find_node(t, text, (size_t)(dash - text));
    uint32_t b = topology_find_node(t, dash + 1, (size_t)(at - dash - 1));
    failure->channel = TOPO_NONE;
    for (uint32_t port = 0; a != TOPO_NONE && b != TOPO_NONE && port < t->family->ports(t, a);
         port++)
        if (t->family->port(t, a, port).node == b && failure->channel == TOPO_NONE)
            failure->channel = t->family->port(t, a, port).channel;
    if (failure->channel == TOPO_NONE)
        return spin_fail(err, SPIN_EARG,
                         "failure '%.60s': no link between these; hosts are h0 to h%u, switches s0 "
                         "to s%u",
                         text, t->hosts - 1, t->switches ? t->switches - 1 : 0);
    failure->up_ps = SIM_FOREVER;
    if (!units_time_ps(down, &failure->down_ps) || failure->down_ps >= SIM_LATEST_PS ||
        (at[1 + length] == ':' &&
         (!units_time_ps(at + length + 2, &failure->up_ps) || failure->up_ps >= SIM_LATEST_PS ||
          failure->up_ps <= failure->down_ps)))
        return spin_fail(err, SPIN_EARG,
                         "failure '%.60s': '%.40s' is not TIME or TIME:LATER (such as 1us:5us)",
                         text, at + 1);
    return SPIN_OK;
}

/* Links between switches where there are any: a host that is cut off is a different experiment. A
 * link that is drawn again is drawn anew, up to a number of times; `taken` has a bit per channel.
 */
static void draw_failures(const struct spin_packet *o, const struct topology *t, uint8_t *taken,
                          struct net_failure *failures, uint32_t count) {
    struct rng r = rng_seeded(o->seed ^ 0x6661696cu);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t channel = 0;
        for (int tries = 0; tries < 1000; tries++) {
            channel = rng_below(&r, t->channels);
            struct topo_hop hop = topology_channel(t, channel);
            bool inner = hop.node >= t->hosts && t->family->source(t, channel) >= t->hosts;
            if (hop.channel != TOPO_NONE && !(taken[channel / 8] >> channel % 8 & 1) &&
                (inner || tries > 500))
                break;
        }
        uint32_t back = topology_reverse(t, channel);
        taken[channel / 8] |= (uint8_t)(1u << channel % 8);
        taken[back / 8] |= (uint8_t)(1u << back % 8);
        failures[i] = (struct net_failure){channel, o->fail_at_ps,
                                           o->fail_until_ps ? o->fail_until_ps : SIM_FOREVER};
    }
}

static int make_failures(struct packet_model *m, struct spin_error *err) {
    const struct spin_packet *o = &m->options;
    uint32_t drawn = (uint32_t)o->fail_links, named = (uint32_t)o->failure_count;
    if (drawn > m->topology->links)
        return spin_fail(err, SPIN_EARG, "fail_links: %u links are to break, there are %u", drawn,
                         m->topology->links);
    if (o->fail_until_ps && o->fail_until_ps <= o->fail_at_ps)
        return spin_fail(err, SPIN_EARG, "fail_until must be later than fail_at");
    m->failures = calloc((size_t)drawn + named + 1, sizeof *m->failures);
    if (!m->failures)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u failures", drawn + named);
    for (uint32_t i = 0; i < named; i++) {
        int code = read_failure(m->topology, o->failures[i], &m->failures[i], err);
        if (code)
            return code;
    }
    uint8_t *taken = calloc(m->topology->channels / 8 + 1, 1);
    if (!taken)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for %u failures", drawn);
    draw_failures(o, m->topology, taken, m->failures + named, drawn);
    free(taken);
    m->failure_count = drawn + named;
    return SPIN_OK;
}

/* ---- set-up ---- */

struct net_config packet_net_config(const struct spin_packet *o) {
    return (struct net_config){
        .fs_per_byte = o->link_fs,
        .latency_ps = o->link_latency_ps,
        .global_latency_ps = o->global_latency_ps,
        .switch_ps = o->switch_ps,
        .mtu_bytes = (uint32_t)o->mtu_bytes,
        .header_bytes = (uint32_t)o->header_bytes,
        .flow_control = (enum net_flow_control)o->queue,
        .buffer_bytes = o->buffer_bytes,
        .store_and_forward = o->switching == SPIN_SWITCH_STORE,
        .multipath = o->routing == SPIN_ROUTE_HASH,
        .seed = o->seed,
        .faults = {o->loss, o->corruption, o->duplication, o->reordering, o->reorder_ps},
    };
}

static struct net_config network_config(const struct packet_model *m) {
    struct net_config config = packet_net_config(&m->options);
    config.failures = m->failures;
    config.failure_count = m->failure_count;
    config.retry_ps = m->options.retry_ps;
    config.retries = (uint32_t)m->options.retries;
    return config;
}

uint32_t *packet_place(const struct spin_packet *o, uint32_t hosts, uint32_t ranks) {
    uint32_t *host_of = malloc(sizeof *host_of * hosts);
    struct rng r = rng_seeded(o->seed ^ 0x706c6163u);
    for (uint32_t h = 0; host_of && h < hosts; h++)
        host_of[h] = h;
    if (!host_of || o->placement != SPIN_PLACE_RANDOM)
        return host_of;
    for (uint32_t h = 0; h < ranks && h + 1 < hosts; h++) {
        uint32_t k = h + rng_below(&r, hosts - h), t = host_of[h];
        host_of[h] = host_of[k];
        host_of[k] = t;
    }
    return host_of;
}

static int place_ranks(struct packet_model *m, uint32_t ranks, struct spin_error *err) {
    if (m->options.placement != SPIN_PLACE_RANDOM)
        return SPIN_OK;
    m->host_of = packet_place(&m->options, m->topology->hosts, ranks);
    return m->host_of ? SPIN_OK
                      : spin_fail(err, SPIN_ENOMEM, "out of memory to place %u ranks", ranks);
}

static int make_hosts(struct packet_model *m, struct spin_error *err) {
    if (m->options.dma == SPIN_DMA_NONE)
        return SPIN_OK;
    struct host_config config;
    int code = host_preset("sc17-int", &config, err);
    config.cpus = 1; /* the replay has its own */
    config.memory_fs_per_byte = m->options.memory_fs;
    config.dma_latency_ps = m->options.dma_latency_ps;
    config.dma_fs_per_byte = m->options.dma_fs;
    return code ? code : hosts_new(&m->hosts, m->topology->hosts, &config, NULL, err);
}

static int start_trace(struct packet_model *m, uint32_t ranks, struct spin_error *err) {
    if (!m->trace)
        return SPIN_OK;
    m->named = calloc(m->topology->channels / 8 + 1, 1);
    m->shown = calloc(m->topology->hosts / 8 + 1, 1);
    if (!m->named || !m->shown)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for the trace");
    for (uint32_t rank = 0; rank < ranks; rank++) {
        uint32_t host = m->host_of ? m->host_of[rank] : rank;
        if (timeline_view_rank(m->view, rank))
            m->shown[host / 8] |= (uint8_t)(1u << host % 8);
    }
    m->trace_process = ranks;
    trace_process(m->trace, ranks, "network");
    return SPIN_OK;
}

int packet_model_new(struct packet_model **out, struct sim_engine *engine,
                     const struct spin_packet *options, uint32_t ranks, struct trace *trace,
                     const struct timeline_view *view, struct spin_error *err) {
    *out = NULL;
    struct packet_model *m = calloc(1, sizeof *m);
    if (!m)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    m->engine = engine;
    pool_init(&m->flights, NULL, sizeof(struct flight), UINT32_MAX);
    m->options = *options;
    m->trace = trace;
    m->view = view;
    m->transport = (struct sim_transport){.context = m, .send = send_message};
    int code = topology_create(&m->topology, options->topology, ranks, err);
    if (!code)
        code = make_failures(m, err);
    if (!code)
        code = place_ranks(m, ranks, err);
    if (!code)
        code = make_hosts(m, err);
    if (!code)
        code = start_trace(m, ranks, err);
    if (!code) {
        struct net_config config = network_config(m);
        struct net_callbacks on = {
            .context = m,
            .message = arrived,
            .store = m->hosts ? store : NULL,
            .fetch = m->hosts && options->dma == SPIN_DMA_BOTH ? fetch : NULL,
            .transmit = trace ? trace_link : NULL,
        };
        code = network_create(&m->net, engine, m->topology, &config, &on, err);
    }
    if (code) {
        packet_model_free(m);
        return code;
    }
    *out = m;
    return SPIN_OK;
}

void packet_model_free(struct packet_model *m) {
    if (!m)
        return;
    network_destroy(m->net);
    topology_destroy(m->topology);
    hosts_free(m->hosts);
    free(m->host_of);
    free(m->shown);
    free(m->failures);
    pool_clear(&m->flights);
    free(m->named);
    free(m);
}

const struct sim_transport *packet_model_transport(const struct packet_model *m) {
    return &m->transport;
}

void packet_model_attach(struct packet_model *m, struct loggops *replay) {
    m->replay = replay;
}

/* ---- at the end ---- */

bool packet_model_stopped(const struct packet_model *m) {
    return m->out_of_memory || network_check(m->net, NULL) != SPIN_OK;
}

int packet_model_verdict(const struct packet_model *m, int code, struct spin_error *err) {
    if (m->out_of_memory)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for messages on the network");
    int network = network_check(m->net, err);
    if (network)
        return network;
    if (!m->lost || code != SPIN_EDEADLOCK)
        return code;
    char why[280];
    snprintf(why, sizeof why, "%.279s", err->text);
    char *last = strrchr(why, ','); /* a list that is cut ends with a whole item */
    bool cut = strlen(err->text) >= sizeof why && last;
    if (cut)
        *last = 0;
    return spin_fail(err, SPIN_EDEADLOCK,
                     "the network lost %" PRIu64 " message%s for good, the first of %" PRIu64
                     " bytes from rank %u to rank %u at %" PRIu64 ".%03" PRIu64
                     " ns, after %u retries; %s%s",
                     m->lost, m->lost > 1 ? "s" : "", m->first_lost.bytes, m->first_lost.from,
                     m->first_lost.to, m->first_lost_ps / 1000, m->first_lost_ps % 1000,
                     (unsigned)m->options.retries, why, cut ? ", ..." : "");
}

static void write_row(const struct topology *t, FILE *out, uint32_t channel,
                      const struct net_link *link, uint64_t makespan_ps) {
    char name[TOPO_MAX_NAME];
    topology_name(t, channel, name);
    uint64_t ppm =
        makespan_ps ? (uint64_t)((unsigned __int128)link->busy_ps * 1000000 / makespan_ps) : 0;
    fprintf(out,
            "%s,%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ".%06" PRIu64 ",%" PRIu64 ",%" PRIu64
            ",%" PRIu64 "\n",
            name, link->packets, link->bytes, link->busy_ps, ppm / 1000000, ppm % 1000000,
            link->queued_ps, link->queue_max_bytes, link->drops);
}

/* Keeps the list of the busiest, the busiest first, the lower number first among equals. */
static void keep_busiest(struct spin_packet_result *r, uint32_t *channels, uint32_t channel,
                         const struct net_link *link) {
    enum { KEPT = sizeof r->busiest / sizeof r->busiest[0] };
    uint32_t filled = r->busy_links - 1 < KEPT ? (uint32_t)r->busy_links - 1 : KEPT, at = filled;
    while (at > 0 && r->busiest[at - 1].busy_ps < link->busy_ps)
        at--;
    if (at == KEPT)
        return;
    for (uint32_t i = filled < KEPT ? filled : KEPT - 1; i > at; i--) {
        r->busiest[i] = r->busiest[i - 1];
        channels[i] = channels[i - 1];
    }
    channels[at] = channel;
    r->busiest[at] = (struct spin_link_use){.packets = link->packets,
                                            .bytes = link->bytes,
                                            .busy_ps = link->busy_ps,
                                            .queued_ps = link->queued_ps,
                                            .queue_max_bytes = link->queue_max_bytes,
                                            .drops = link->drops};
}

static void look_at_links(const struct topology *t, const struct network *net, uint64_t makespan_ps,
                          struct spin_packet_result *r, FILE *report) {
    uint32_t channels[8];
    unsigned __int128 busy = 0;
    if (report)
        fputs("link,packets,bytes,busy_ps,use,queued_ps,queue_max_bytes,drops\n", report);
    for (uint32_t channel = 0; channel < t->channels; channel++) {
        struct net_link link = network_link(net, channel);
        if (!link.packets && !link.drops)
            continue;
        r->busy_links++;
        busy += link.busy_ps;
        keep_busiest(r, channels, channel, &link);
        if (report)
            write_row(t, report, channel, &link, makespan_ps);
    }
    if (!r->busy_links || !makespan_ps)
        return;
    r->mean_use_ppm = (uint64_t)(busy * 1000000 / r->busy_links / makespan_ps);
    r->most_use_ppm = (uint64_t)((unsigned __int128)r->busiest[0].busy_ps * 1000000 / makespan_ps);
    for (uint32_t i = 0; i < 8 && i < r->busy_links; i++)
        topology_name(t, channels[i], r->busiest[i].name);
}

int packet_links(const struct topology *t, const struct network *net, uint64_t until_ps,
                 struct spin_packet_result *r, const char *path, struct spin_error *err) {
    struct file_out out;
    if (!path) {
        look_at_links(t, net, until_ps, r, NULL);
        return SPIN_OK;
    }
    int code = file_out_open(&out, path, err);
    if (code)
        return code;
    look_at_links(t, net, until_ps, r, out.stream);
    return file_out_commit(&out, err);
}

int packet_model_result(const struct packet_model *m, uint64_t makespan_ps,
                        struct spin_packet_result *r, struct spin_error *err) {
    struct net_counts n = network_counts(m->net);
    *r = (struct spin_packet_result){
        .hosts = m->topology->hosts,
        .switches = m->topology->switches,
        .links = m->topology->links,
        .packets = n.injected,
        .hops = n.hops,
        .lost = n.fate[NET_LOST],
        .dropped = n.fate[NET_DROPPED],
        .corrupted = n.fate[NET_CORRUPTED],
        .no_route = n.fate[NET_NO_ROUTE],
        .duplicated = n.duplicated,
        .retransmitted = n.retransmitted,
        .rerouted = n.rerouted,
        .lost_messages = n.messages_lost,
        .queued_ps = n.queued_ps,
        .dma_queued_ps = m->hosts ? hosts_counts(m->hosts).dma_queued_ps : 0,
    };
    snprintf(r->topology, sizeof r->topology, "%s", m->topology->text);
    return packet_links(m->topology, m->net, makespan_ps, r, m->options.link_report, err);
}

uint64_t packet_model_bytes(const struct packet_model *m) {
    return network_counts(m->net).bytes_held + (uint64_t)m->flights.made * sizeof(struct flight);
}
