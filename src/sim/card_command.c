/* The command unit and its targets: NIC outbound engine, off-cluster DMA engine, HostDirect, and
 * the cluster's own DMA engine. When a command is issued its way is known, so it is reserved at
 * once; bytes move when it is done, and the response takes a little longer to the HPU. */
#include <string.h>

#include "hpu/integer.h"
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
static uint32_t cluster_of(const struct card *c, const struct command *m, uint32_t address) {
    uint32_t cluster = (address - MAP_L1_BASE) / MAP_L1_STRIDE;
    return address < MAP_L1_ALIAS && cluster < c->clusters ? cluster : c->hpu[m->hpu].cluster;
}

static uint32_t context_of(const struct card *c, const struct command *m) {
    return c->task[m->task].context;
}

static uint32_t local_address(const struct command *m) {
    static const uint8_t word[] = {
        [SPIN_COMMAND_DMA_TO_HOST] = 0, [SPIN_COMMAND_PUT_FROM_DEVICE] = 0,
        [SPIN_COMMAND_NIC_SEND] = 0,    [SPIN_COMMAND_RDMA_PUT] = 1,
        [SPIN_COMMAND_HOST_DMA_TO] = 2,
    };
    return m->number < sizeof word ? m->word[word[m->number]] : 0;
}

/* Reading what is to leave the card, through the NIC-host interconnect. */
static uint64_t read_out(struct card *c, const struct command *m, uint64_t at, uint64_t *start) {
    uint32_t address = local_address(m);
    uint64_t busy = card_beats(c, address, m->length) * c->cycle;
    *start = card_max(at, c->nic_host_free_ps);
    if (in_l1(address)) {
        card_l1_burst(c, cluster_of(c, m, address), false, *start, *start + busy);
        busy += c->config.l1_read_time;
    } else if (in_l2_packets(address)) {
        *start = card_l2_burst(c, L2_NIC_HOST, address - MAP_L2_PACKETS, busy, *start);
    }
    c->nic_host_free_ps = *start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_NIC_HOST], busy);
    return c->nic_host_free_ps;
}

static uint64_t to_host(struct card *c, const struct command *m, uint32_t bytes, uint64_t at) {
    uint64_t busy = bytes * c->config.pcie_rate / 1000, start = card_max(at, c->to_host_free_ps);
    c->to_host_free_ps = start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_TO_HOST], busy);
    card_span(c, CARD_ROW_HOST, 0, "to host", start, start + busy, bytes);
    return c->to_host_free_ps;
}

/* The request does not pass writes that were issued before: PCI Express's rule for its reads. */
static uint64_t from_host(struct card *c, const struct command *m, uint64_t at) {
    uint64_t busy = m->length * c->config.pcie_rate / 1000;
    uint64_t asked = card_max(at, c->to_host_free_ps) + c->config.pcie_latency;
    uint64_t start = card_max(asked, c->from_host_free_ps);
    c->from_host_free_ps = start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_FROM_HOST], busy);
    card_span(c, CARD_ROW_HOST, 1, "from host", start, start + busy, m->length);
    return c->from_host_free_ps + c->config.pcie_latency;
}

static uint64_t send(struct card *c, const struct command *m, uint64_t at) {
    uint64_t start = at, read;
    if (m->local)
        read = read_out(c, m, at, &start);
    else /* the data are the host's */
        start = read = from_host(c, m, at);
    uint64_t cycles = c->config.network_rate * c->config.wide_bytes / 1000 / c->cycle;
    uint64_t busy = card_beats(c, 0, m->length ? m->length : 1) * (cycles ? cycles : 1) * c->cycle;
    start = card_max(start, c->outbound_free_ps);
    c->outbound_free_ps = start + busy;
    CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_OUTBOUND], busy);
    card_span(c, CARD_ROW_OUTBOUND, 0, "send", start, start + busy, m->length);
    return card_max(read, c->outbound_free_ps);
}

static uint64_t cluster_copy(struct card *c, const struct command *m) {
    struct cluster *cl = &c->cluster[c->hpu[m->hpu].cluster];
    uint32_t from = m->word[m->word[3]], to = m->word[!m->word[3]];
    uint64_t beats = card_max(card_beats(c, from, m->length), card_beats(c, to, m->length));
    uint64_t busy = beats * c->cycle;
    uint64_t start = card_max(c->now_ps + c->config.dma_issue * c->cycle, cl->dma_free_ps);
    if (in_l2_packets(from)) {
        start = card_l2_burst(c, L2_CLUSTERS, from - MAP_L2_PACKETS, busy,
                              card_max(start, c->l2_read_free_ps));
        c->l2_read_free_ps = start + busy;
        CARD_COUNT(c, context_of(c, m), unit_busy_ps[CARD_UNIT_L2_READ], busy);
    }
    cl->dma_free_ps = start + busy;
    cl->dma_busy_ps += busy;
    c->context[context_of(c, m)].stats.cluster_dma_busy_ps += busy;
    card_span(c, CARD_ROW_CLUSTER_DMA, c->hpu[m->hpu].cluster, "by handler", start, start + busy,
              m->length);
    uint64_t end =
        start + card_max(c->config.copy_least, c->config.copy_latency + beats) * c->cycle;
    if (in_l1(from))
        card_l1_burst(c, cluster_of(c, m, from), false, start, start + busy);
    if (in_l1(to))
        card_l1_burst(c, cluster_of(c, m, to), true, end - busy, end);
    return end;
}

bool card_command_room(const struct card *c, enum target target) {
    return c->target[target].room != 0;
}

void card_command_start(struct card *c, struct command *m) {
    struct cluster *cl = &c->cluster[c->hpu[m->hpu].cluster];
    uint64_t at = card_max(c->now_ps, cl->command_free_ps), done = 0, start;
    if (m->target != TARGET_CLUSTER) { /* the cluster's arbiter lets one pass in a cycle */
        cl->command_free_ps = at + c->cycle;
        at += c->config.command_latency * c->cycle;
    }
    switch (m->target) {
    case TARGET_OUTBOUND:
        done = send(c, m, at);
        break;
    case TARGET_DMA:
        if (m->to_host) {
            done = read_out(c, m, at, &start);
            done = card_max(done, to_host(c, m, m->length, start)) + c->config.pcie_latency;
        } else {
            done = from_host(c, m, at);
        }
        break;
    case TARGET_DIRECT:
        done = to_host(c, m, DIRECT_BYTES, at) + c->config.pcie_latency;
        break;
    case TARGET_CLUSTER:
        done = cluster_copy(c, m);
        break;
    }
    c->target[m->target].room--;
    card_event(c, card_edge(c, done), c->kind_command, (uint32_t)(m - c->command), 0);
}

/* ---- What a command does when its time has come ---------------------------------------------- */

static void digest_bytes(struct card *c, const uint8_t *bytes, uint32_t length) {
    uint64_t hash = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < length; i++)
        hash = (hash ^ bytes[i]) * 0x100000001b3ull;
    card_digest(c, hash, length);
}

static void write_host(struct card *c, const struct command *m, const uint8_t *bytes) {
    uint32_t context = context_of(c, m);
    if (m->host)
        memcpy(m->host, bytes, m->length);
    CARD_COUNT(c, context, host_writes, 1);
    CARD_COUNT(c, context, host_write_bytes, m->length);
    digest_bytes(c, bytes, m->length);
    if (c->callbacks.host_write)
        c->callbacks.host_write(c->callbacks.user, context, m->host_address, bytes, m->length,
                                c->now_ps);
}

static void read_host(struct card *c, const struct command *m) {
    uint32_t context = context_of(c, m);
    if (m->host)
        memcpy(m->local, m->host, m->length);
    else
        memset(m->local, 0, m->length);
    CARD_COUNT(c, context, host_reads, 1);
    CARD_COUNT(c, context, host_read_bytes, m->length);
    if (c->callbacks.host_read)
        c->callbacks.host_read(c->callbacks.user, context, m->host_address, m->local, m->length,
                               c->now_ps);
}

static void packet_out(struct card *c, const struct command *m) {
    const struct task *t = &c->task[m->task];
    const uint8_t *bytes = m->local ? m->local : m->host;
    struct card_out out = {.context = t->context,
                           .message = c->packet[t->packet].message,
                           .command = m->number,
                           .word = m->word,
                           .bytes = bytes,
                           .length = bytes ? m->length : 0};
    CARD_COUNT(c, t->context, packets_out, 1);
    CARD_COUNT(c, t->context, bytes_out, out.length);
    card_digest(c, c->now_ps, m->number);
    digest_bytes(c, bytes, out.length);
    if (c->callbacks.packet_out)
        c->callbacks.packet_out(c->callbacks.user, &out, c->now_ps);
}

/* Compare-and-swap and fetch-and-add of P4sPIN in host memory; the driver has checked them. */
static void host_atomic(struct card *c, const struct command *m) {
    uint64_t swap = m->word[2] | (uint64_t)m->word[3] << 32;
    CARD_COUNT(c, context_of(c, m), host_writes, 1);
    if (m->number == SPIN_COMMAND_DMA_CAS) {
        if (memcmp(m->host, m->local, 8) == 0)
            memcpy(m->host, &swap, 8);
        else
            memcpy(m->local, m->host, 8);
        return;
    }
    uint64_t before =
        integer_fetch_add(m->word[5], m->host, m->word[1] | (uint64_t)m->word[2] << 32);
    memcpy(m->local, &before, m->word[4]);
}

static void perform(struct card *c, const struct command *m) {
    switch (m->number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_HOST_DMA_TO:
        write_host(c, m, m->local);
        break;
    case SPIN_COMMAND_DMA_FROM_HOST:
    case SPIN_COMMAND_HOST_DMA_FROM:
        read_host(c, m);
        break;
    case SPIN_COMMAND_HOST_WRITE:
        write_host(c, m, (const uint8_t *)&m->word[2]);
        break;
    case SPIN_COMMAND_DMA_CAS:
    case SPIN_COMMAND_DMA_FETCH_ADD:
        host_atomic(c, m);
        break;
    case SPIN_COMMAND_LOCAL_DMA:
        memmove(m->other, m->local, m->length);
        break;
    default:
        packet_out(c, m);
    }
}

static void wake(struct card *c, struct card_hpu *h) {
    h->waits_for = 0;
    h->state = CORE_RUNNING;
    card_event(c, c->now_ps, c->kind_run, h->index, 0);
}

void card_on_command(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct command *m = &c->command[event->with.u32[0]];
    perform(c, m);
    struct target_state *target = &c->target[m->target];
    target->room++;
    if (target->blocked.head != NONE) {
        struct card_hpu *h = &c->hpu[target->blocked.head];
        LIST_POP(c->hpu, &target->blocked);
        wake(c, h);
    }
    card_event(c, c->now_ps + c->config.response_latency * c->cycle, c->kind_response,
               event->with.u32[0], 0);
}

void card_on_response(void *context, const struct sim_event *event) {
    struct card *c = context;
    c->now_ps = event->at_ps;
    struct command *m = &c->command[event->with.u32[0]];
    struct card_hpu *h = &c->hpu[m->hpu];
    m->in_use = false;
    h->in_flight--;
    if (h->state == CORE_BLOCKED &&
        (h->waits_for == NONE || (h->waits_for == m->handle && h->task == m->task)))
        wake(c, h);
    card_command_over(c, m->task);
}
