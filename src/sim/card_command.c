/* The command unit and its targets: NIC outbound engine, off-cluster DMA engine, HostDirect, and
 * the cluster's own DMA engine.
 *
 * Design notes. A command goes from the HPU through its cluster's arbiter to an interface, which
 * has a few in flight; then its way is known and reserved. Bytes of packets and local copies move
 * when its response is at the HPU, those of the host when they are there. */
#include <string.h>

#include "sim/card_private.h"
#include "spin/driver.h"

/* HostDirect carries 32 B (ISCA'21 section III-B1), whatever is used of it. */
#define DIRECT_BYTES 32u

static bool in_l1(uint32_t address) {
    return address >= MAP_L1_BASE && address < MAP_L2_HANDLER;
}

static bool in_l2_packets(uint32_t address) {
    return address >= MAP_L2_PACKETS && address < MAP_PROGRAM;
}

/* Whose L1 an address is of: of the own alias, the HPU's. */
static uint32_t cluster_of(const struct card *c, const struct card_command *m, uint32_t address) {
    uint32_t cluster = (address - MAP_L1_BASE) / (card_l1_address(c, 1) - MAP_L1_BASE);
    return address < MAP_L1_ALIAS && cluster < c->clusters ? cluster : c->hpu[m->hpu].cluster;
}

/* Which memory of the card a transfer reads or writes: an L1, L2 packets, L2 handler memory. */
static uint32_t place_of(const struct card *c, const struct card_command *m, uint32_t address) {
    return in_l1(address) ? cluster_of(c, m, address) : c->clusters + in_l2_packets(address);
}

static uint32_t context_of(const struct card *c, const struct card_command *m) {
    return c->task[m->task].context;
}

static const struct card_l2_packet *packet_of(const struct card *c, const struct card_command *m) {
    return &c->packet[c->task[m->task].packet];
}

/* What is reserved on the port from `start` on takes `both` longer, or as long again as is left of
 * it; who has its response scheduled already, gets it so much later. */
static void slow_down(struct card *c, struct card_list *reserved, uint64_t start, uint64_t both) {
    for (uint32_t i = reserved->head; i != NONE; i = c->command[i].next) {
        struct card_command *m = &c->command[i];
        if (m->port_ps <= start)
            continue;
        uint64_t more = m->port_ps - start < both ? m->port_ps - start : both;
        m->port_ps += more;
        m->late_ps += more;
        if (m->target == TARGET_OUTBOUND)
            c->outbound_free_ps = card_max(c->outbound_free_ps, m->port_ps);
        else if (!m->to_host)
            c->into_card_free_ps = card_max(c->into_card_free_ps, m->port_ps);
    }
}

/* The port of an L1 to the NIC-host interconnect carries one line per cycle, of a read and of a
 * write in turns while there are both. Each way is first come first served; who comes later slows
 * down what the other way still has to do. When the transfer ends, as far as is known. */
static uint64_t l1_port(struct card *c, struct card_command *m, uint32_t address, bool write,
                        uint64_t busy, uint64_t at) {
    uint32_t cluster = cluster_of(c, m, address);
    struct card_cluster *cl = &c->cluster[cluster];
    uint64_t *own = &cl->port_free_ps[write], *other = &cl->port_free_ps[!write];
    uint64_t start = card_max(at, *own), both = *other > start ? *other - start : 0;
    both = both < busy ? both : busy;
    *own = start + busy + both;
    *other += both;
    if (both) {
        slow_down(c, &cl->port[!write], start, both);
        card_slow_copies(c, cl, start, both);
    }
    card_l1_burst(c, cluster, write, address, *own - busy, *own);
    m->port_ps = *own;
    m->late_ps = 0;
    m->port = &cl->port[write];
    LIST_PUSH(c->command, m->port, (uint32_t)(m - c->command));
    return *own;
}

/* It is over, and so are those before it. */
static void leave_port(struct card *c, const struct card_command *m) {
    uint64_t end = m->port_ps;
    while (m->port->head != NONE && c->command[m->port->head].port_ps <= end)
        LIST_POP(c->command, m->port);
}

/* Through a port of the NIC-host interconnect: of an L1, or of the L2 packet buffer. L2 handler
 * memory's is taken as free. When the transfer ends. */
static uint64_t through_port(struct card *c, struct card_command *m, uint32_t address, bool write,
                             uint64_t busy, uint64_t at) {
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_NIC_HOST], busy);
    if (in_l1(address))
        return l1_port(c, m, address, write, busy, at);
    if (!in_l2_packets(address))
        return at + busy;
    uint64_t start = card_max(at, c->l2_nic_host_free_ps);
    start = card_l2_burst(c, L2_NIC_HOST, address - MAP_L2_PACKETS, busy, start);
    return c->l2_nic_host_free_ps = start + busy;
}

/* How long the host interface takes: by its rate, and one line per cycle. */
static uint64_t host_busy(const struct card *c, uint64_t address, uint32_t bytes) {
    uint64_t lines = card_beats(c, (uint32_t)(address % c->config.wide_bytes), bytes) * c->cycle;
    return card_max(lines, bytes * c->config.pcie_rate / 1000);
}

static uint64_t to_host(struct card *c, const struct card_command *m, uint64_t busy, uint32_t bytes,
                        uint64_t at) {
    uint64_t start = card_max(at, c->to_host_free_ps);
    c->to_host_free_ps = start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_TO_HOST], busy);
    card_span(c, CARD_ROW_HOST, 0, "to host", packet_of(c, m), start, start + busy, bytes);
    return c->to_host_free_ps;
}

/* The request does not pass writes that were issued before: PCI Express's rule for its reads. */
static uint64_t from_host(struct card *c, const struct card_command *m, uint64_t at) {
    uint64_t busy = host_busy(c, m->host_address, m->length);
    uint64_t asked = card_max(at, c->to_host_free_ps) + c->config.pcie_latency;
    uint64_t start = card_max(asked, c->from_host_free_ps);
    c->from_host_free_ps = start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_FROM_HOST], busy);
    card_span(c, CARD_ROW_HOST, 1, "from host", packet_of(c, m), start, start + busy, m->length);
    return c->from_host_free_ps;
}

/* When a read of the memories can begin. A stream of transfers has one AXI ID, so it goes to
 * another memory only when the one before is done, a cycle later; and until then it keeps writes
 * to the clusters waiting that come behind it. (RTL: axi_demux, axi_id_remap of cluster_noc.) */
static uint64_t turn_to(struct card *c, struct card_stream *of, uint32_t place, uint64_t at,
                        uint64_t free_ps) {
    uint64_t start = card_max(at, free_ps + (of->place != place) * c->cycle);
    if (of->place != place && start > at) {
        c->turning_from_ps = card_max(at, of->begun_ps);
        c->turning_ps = start;
    }
    of->place = place;
    return of->begun_ps = start;
}

/* Out of the card: to the network. */
static uint64_t send_packet(struct card *c, struct card_command *m, uint64_t at) {
    uint64_t cycles = c->config.network_rate * c->config.wide_bytes / 1000 / c->cycle;
    uint64_t line = (cycles ? cycles : 1) * c->cycle;
    uint32_t bytes = m->length ? m->length : 1, address = m->of.local_at;
    uint64_t busy = card_beats(c, 0, bytes) * line, read = 0;
    if (!m->of.local) /* the data are the host's */
        at = card_max(from_host(c, m, at), c->outbound_free_ps);
    else
        at = turn_to(c, &c->outbound, place_of(c, m, address), at, c->outbound_free_ps);
    if (m->of.local)
        read = through_port(c, m, address, false, card_beats(c, address, bytes) * c->cycle, at);
    c->outbound_free_ps = card_max(at + busy, read);
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_OUTBOUND], busy);
    card_span(c, CARD_ROW_OUTBOUND, 0, "send", packet_of(c, m), c->outbound_free_ps - busy,
              c->outbound_free_ps, m->length);
    return c->outbound_free_ps + c->config.send_latency * c->cycle;
}

/* Read from L1 or L2, and written to the host line by line as it comes. */
static uint64_t dma_to_host(struct card *c, struct card_command *m, uint64_t at) {
    uint32_t address = m->of.local_at;
    uint64_t busy = host_busy(c, m->host_address, m->length);
    at = turn_to(c, &c->to_host, place_of(c, m, address), at, c->to_host_free_ps);
    uint64_t read =
        through_port(c, m, address, false, card_beats(c, address, m->length) * c->cycle, at);
    return to_host(c, m, card_max(busy, read - at), m->length, at);
}

static uint64_t cluster_copy(struct card *c, const struct card_command *m) {
    struct card_cluster *cl = &c->cluster[c->hpu[m->hpu].cluster];
    uint32_t from = m->word[m->word[3]], to = m->word[!m->word[3]];
    uint64_t beats = card_max(card_beats(c, from, m->length), card_beats(c, to, m->length));
    uint64_t busy = beats * c->cycle, at = c->now_ps + c->config.dma_issue * c->cycle;
    if (in_l2_packets(from))
        at = card_l2_read(c, busy, at);
    uint64_t start = card_copy_start(c, cl, beats, at);
    c->context[context_of(c, m)].stats.cluster_dma_busy_ps += busy;
    if (in_l2_packets(from))
        start = card_l2_burst(c, L2_CLUSTERS, from - MAP_L2_PACKETS, busy, start);
    card_span(c, CARD_ROW_CLUSTER_DMA, c->hpu[m->hpu].cluster, "by handler", packet_of(c, m), start,
              start + busy, m->length);
    uint64_t end = start + (c->config.copy_latency + beats) * c->cycle;
    if (in_l1(from))
        card_l1_burst(c, cluster_of(c, m, from), false, from, start, start + busy);
    if (in_l1(to))
        card_l1_burst(c, cluster_of(c, m, to), true, to, end - busy, end);
    return end;
}

static void perform(struct card *c, const struct card_command *m);

uint64_t card_serve_host(struct card *c, bool out, uint64_t bytes, uint64_t at_ps) {
    uint64_t busy =
        card_max(card_beats(c, 0, (uint32_t)bytes) * c->cycle, bytes * c->config.pcie_rate / 1000);
    uint64_t *free_ps = out ? &c->to_host_free_ps : &c->from_host_free_ps;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    uint64_t asked = out ? at_ps : card_max(at_ps, c->to_host_free_ps) + c->config.pcie_latency;
    *free_ps = card_max(asked, *free_ps) + busy;
    CARD_COUNT(c, 0, unit_busy_ps[out ? CARD_UNIT_TO_HOST : CARD_UNIT_FROM_HOST], busy);
    return *free_ps + c->config.pcie_latency;
}

uint64_t card_serve_out(struct card *c, uint32_t bytes) {
    uint64_t cycles = c->config.network_rate * c->config.wide_bytes / 1000 / c->cycle;
    uint64_t busy = card_beats(c, 0, bytes ? bytes : 1) * (cycles ? cycles : 1) * c->cycle;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    c->outbound_free_ps = card_max(c->now_ps, c->outbound_free_ps) + busy;
    CARD_COUNT(c, 0, unit_busy_ps[CARD_UNIT_OUTBOUND], busy);
    return c->outbound_free_ps + c->config.send_latency * c->cycle;
}

static void respond(struct card *c, const struct card_command *m, uint64_t done_ps) {
    card_event(c, card_edge(c, done_ps + c->config.response_latency * c->cycle),
               CARD_RESPONSE_EVENT, (uint32_t)(m - c->command), 0);
}

/* ---- The way to the clusters ----------------------------------------------------------------
 * Reads of L1 (sends, DMA to the host) and writes (DMA from the host) pass one point of the
 * NIC-host interconnect. A write's address is there before its data: it waits for them, and for
 * the write before it, and keeps reads waiting meanwhile. One read passes in the cycle after a
 * write has begun, more if no other write waits. (RTL: axi_id_remap of cluster_noc, whose state
 * HoldAW serves no AR; axi_to_mem takes an address with its first line.) */

/* A write waits there in this cycle. */
static bool is_held_up(const struct card *c, uint64_t at) {
    if (c->fetches.head == NONE)
        return false;
    return card_max(c->command[c->fetches.head].address_ps, c->write_begun_ps + c->cycle) < at;
}

static void arrive(struct card *c, const struct card_command *m, uint64_t at) {
    card_event(c, card_edge(c, at), CARD_ARRIVED_EVENT, (uint32_t)(m - c->command), 0);
}

static void read_out(struct card *c, struct card_command *m, uint64_t at) {
    if (m->target == TARGET_OUTBOUND)
        respond(c, m, send_packet(c, m, at));
    else
        arrive(c, m, dma_to_host(c, m, at));
}

static void let_reads_pass(struct card *c, uint64_t at) {
    for (; c->held_reads.head != NONE && !is_held_up(c, at); at += c->cycle) {
        struct card_command *m = &c->command[c->held_reads.head];
        LIST_POP(c->command, &c->held_reads);
        read_out(c, m, at);
    }
}

/* Of the latency of a fetch, what is before its first line. */
static uint64_t fetch_cycles(const struct card *c) {
    const struct card_config *g = &c->config;
    return g->fetch_cycles < g->from_host_latency ? g->fetch_cycles : g->from_host_latency;
}

/* From the host into the card: the first line that is written may need two of the host's. */
static void fetch(struct card *c, struct card_command *m, uint64_t at) {
    uint64_t busy = host_busy(c, m->host_address, m->length);
    uint32_t lines = card_beats(c, m->host_address % c->config.wide_bytes, m->length);
    m->ready_ps = from_host(c, m, at) - busy + fetch_cycles(c) * c->cycle;
    m->last_ps = m->ready_ps + busy;
    m->ready_ps += lines > card_beats(c, m->of.local_at, m->length) ? c->cycle : 0;
    m->address_ps = at + c->config.address_cycles * c->cycle;
    if (in_l1(m->of.local_at))
        LIST_PUSH(c->command, &c->fetches, (uint32_t)(m - c->command));
    arrive(c, m, m->ready_ps);
}

/* The command is the interface's: what it needs is reserved. */
static void start(struct card *c, struct card_command *m, uint64_t at) {
    bool at_l1 = m->of.local && in_l1(m->of.local_at);
    if (m->target == TARGET_DIRECT) {
        arrive(c, m, to_host(c, m, host_busy(c, m->host_address, DIRECT_BYTES), DIRECT_BYTES, at));
    } else if (m->target == TARGET_DMA && !m->to_host) {
        fetch(c, m, at);
    } else if (c->held_reads.head != NONE || (at_l1 && is_held_up(c, at))) {
        LIST_PUSH(c->command, &c->held_reads, (uint32_t)(m - c->command));
    } else {
        read_out(c, m, at);
    }
}

/* When a fetch whose first line is here can write it: behind the write before, and behind a read
 * that goes to another memory first. */
static uint64_t write_at(const struct card *c, const struct card_command *m, uint32_t place) {
    uint64_t start =
        card_max(m->ready_ps, c->into_card_free_ps + (c->write_place != place) * c->cycle);
    uint64_t came = card_max(m->address_ps, c->write_begun_ps + c->cycle);
    if (place < c->clusters && came > c->turning_from_ps)
        start = card_max(start, c->turning_ps);
    return start;
}

static void fetch_begins(struct card *c, struct card_command *m) {
    uint32_t address = m->of.local_at, place = place_of(c, m, address);
    uint64_t start = write_at(c, m, place);
    if (place < c->clusters && m != &c->command[c->fetches.head]) /* they keep their order */
        start = card_max(start, c->now_ps + c->cycle);
    if (start > c->now_ps) { /* others may slow down what is before it */
        arrive(c, m, start);
        return;
    }
    if (!m->served)
        perform(c, m);
    if (place < c->clusters) {
        LIST_POP(c->command, &c->fetches);
        c->write_begun_ps = c->now_ps;
    }
    uint64_t busy = card_beats(c, address, m->length) * c->cycle;
    c->into_card_free_ps = through_port(c, m, address, true, busy, c->now_ps);
    c->write_place = place;
    uint64_t last = card_max(c->into_card_free_ps, m->last_ps);
    respond(c, m, last + (c->config.from_host_latency - fetch_cycles(c)) * c->cycle);
    let_reads_pass(c, c->now_ps + c->cycle);
}

/* Bytes are at the host, or the first line is here. Only now the way to a memory of the card is
 * reserved, line by line as they come: a host may be far, and others use the port meanwhile. */
void card_on_arrived(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct card_command *m = &c->command[event->with.u32[0]];
    const struct card_config *g = &c->config;
    if (m->target == TARGET_DMA && !m->to_host) {
        fetch_begins(c, m);
        return;
    }
    if (!m->served)
        perform(c, m);
    uint64_t rest = m->to_host ? g->to_host_latency : g->direct_latency;
    respond(c, m, c->now_ps + rest * c->cycle + g->pcie_latency);
}

/* The clusters' arbiters and those of the interfaces: each lets one command pass in a cycle. What
 * stands in front of an interface without room holds up all behind it in its cluster. */
static void pass_commands(struct card *c, uint32_t cluster) {
    struct card_cluster *cl = &c->cluster[cluster];
    while (cl->commands.head != NONE) {
        struct card_command *m = &c->command[cl->commands.head];
        struct card_interface *to = &c->interface[m->target];
        if (!to->room)
            return;
        LIST_POP(c->command, &cl->commands);
        uint64_t at = card_max(card_max(m->ready_ps, c->now_ps), to->free_ps);
        to->room--;
        to->free_ps = at + c->cycle;
        cl->command_free_ps = card_max(cl->command_free_ps, to->free_ps);
        start(c, m, at);
    }
}

static void interface_has_room(struct card *c, struct card_interface *of) {
    of->room++;
    of->turn = (of->turn + 1) % c->clusters;
    for (uint32_t i = 0; i < c->clusters; i++)
        pass_commands(c, (of->turn + i) % c->clusters);
}

void card_command_start(struct card *c, struct card_command *m) {
    uint32_t cluster = c->hpu[m->hpu].cluster;
    struct card_cluster *cl = &c->cluster[cluster];
    if (m->target == TARGET_CLUSTER) {
        respond(c, m, cluster_copy(c, m));
        return;
    }
    m->ready_ps = card_max(c->now_ps + c->config.command_latency * c->cycle, cl->command_free_ps);
    cl->command_free_ps = m->ready_ps + c->cycle;
    LIST_PUSH(c->command, &cl->commands, (uint32_t)(m - c->command));
    pass_commands(c, cluster);
}

/* ---- What a command does when its time has come ---------------------------------------------- */

static void digest_bytes(struct card *c, const uint8_t *bytes, uint32_t length) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    card_digest(c, hash, length);
}

static void write_host(struct card *c, const struct card_command *m, const uint8_t *bytes) {
    uint32_t context = context_of(c, m);
    if (m->of.host)
        memcpy(m->of.host, bytes, m->length);
    CARD_COUNT(c, context, host_writes, 1);
    CARD_COUNT(c, context, host_write_bytes, m->length);
    digest_bytes(c, bytes, m->length);
    if (c->callbacks.host_write)
        c->callbacks.host_write(c->callbacks.user, context, m->host_address, bytes, m->length,
                                c->now_ps);
}

static void read_host(struct card *c, const struct card_command *m) {
    uint32_t context = context_of(c, m);
    if (m->of.host)
        memcpy(m->of.local, m->of.host, m->length);
    else
        memset(m->of.local, 0, m->length);
    CARD_COUNT(c, context, host_reads, 1);
    CARD_COUNT(c, context, host_read_bytes, m->length);
    if (c->callbacks.host_read)
        c->callbacks.host_read(c->callbacks.user, context, m->host_address, m->of.local, m->length,
                               c->now_ps);
}

static void packet_out(struct card *c, const struct card_command *m) {
    const struct card_task *t = &c->task[m->task];
    const uint8_t *bytes = m->of.local ? m->of.local : m->of.host;
    struct card_out out = {.context = t->context,
                           .message = c->packet[t->packet].message,
                           .command = m->of.number,
                           .word = m->word,
                           .bytes = bytes,
                           .length = bytes ? m->length : 0};
    CARD_COUNT(c, t->context, packets_out, 1);
    CARD_COUNT(c, t->context, bytes_out, out.length);
    card_digest(c, c->now_ps, m->of.number);
    digest_bytes(c, bytes, out.length);
    if (c->callbacks.packet_out)
        c->callbacks.packet_out(c->callbacks.user, &out, c->now_ps);
}

static void perform(struct card *c, const struct card_command *m) {
    switch (m->of.effect) {
    case PORT_STORE:
        write_host(c, m,
                   m->of.number == SPIN_COMMAND_HOST_WRITE ? (const uint8_t *)&m->word[2]
                                                           : m->of.local);
        break;
    case PORT_FETCH:
        read_host(c, m);
        break;
    case PORT_ATOMIC:
        CARD_COUNT(c, context_of(c, m), host_writes, 1);
        port_do_atomic(&m->of);
        break;
    case PORT_COPY:
        memmove(m->of.other, m->of.local, m->length);
        break;
    default:
        packet_out(c, m);
    }
}

void card_wake(struct card *c, struct card_hpu *h, uint64_t at_ps) {
    h->waits_for = 0;
    h->state = CORE_RUNNING;
    card_event(c, at_ps, CARD_RUN_EVENT, h->index, 0);
}

void card_on_response(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct card_command *m = &c->command[event->with.u32[0]];
    struct card_hpu *h = &c->hpu[m->hpu];
    uint32_t task = m->task;
    if (m->late_ps) {
        card_event(c, card_edge(c, c->now_ps + m->late_ps), CARD_RESPONSE_EVENT, event->with.u32[0],
                   0);
        m->late_ps = 0;
        return;
    }
    if (m->port)
        leave_port(c, m);
    if (!m->served && (m->target == TARGET_OUTBOUND || m->target == TARGET_CLUSTER))
        perform(c, m); /* what concerns the host is done */
    m->in_use = false; /* its place is taken again when an HPU runs: not in this event */
    h->in_flight--;
    bool awaited = m->of.handle && h->waits_for == m->of.handle && h->task == task;
    if (h->state == CORE_BLOCKED && (h->waits_for == WAITS_ANY || awaited))
        card_wake(c, h, c->now_ps);
    if (m->target != TARGET_CLUSTER)
        interface_has_room(c, &c->interface[m->target]);
    if (m->served)
        card_served_response(c, m);
    card_command_over(c, task);
}
