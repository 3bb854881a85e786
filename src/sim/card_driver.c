/* What is behind the ports of a card's HPUs (hpu/port.h): where a command's bytes are, which
 * commands an HPU may have in flight, and what the task's registers hold. */
#include <stdio.h>
#include <string.h>

#include "hpu/refusal.h"
#include "sim/card_private.h"

static struct card_hpu *hpu_of(struct port *p) {
    return (struct card_hpu *)p->hpu;
}

static bool in_step(struct port *p) {
    const struct card_hpu *h = hpu_of(p);
    return h->hpu.cycles * h->card->cycle <= h->card->now_ps;
}

/* ---- Checking commands ----------------------------------------------------------------------- */

static struct command *slots_of(const struct card_hpu *h) {
    return &h->card->command[h->index * h->card->config.hpu_commands];
}

/* Host memory of the context, by address. Without any, the callbacks stand for it. */
static bool reach_host(struct port *p, struct command *m, uint64_t address, uint32_t length) {
    const struct card_hpu *h = hpu_of(p);
    const struct card_context *set = &h->card->context[h->context].set;
    m->host_address = address;
    m->length = length;
    if (set->as_rtl || (!set->host && !set->host_bytes))
        return true; /* the callbacks stand for it, at any address */
    if (!port_has_host_at(p, m->number, address, length, set->host_address, set->host_bytes))
        return false;
    if (set->host && length) /* else the callbacks, within bounds */
        m->host = set->host + (address - set->host_address);
    return true;
}

/* P4sPIN: by offset in space 0, the match entry's memory, or 1, the handlers'. */
static bool reach_space(struct port *p, struct command *m, uint32_t space, uint32_t offset,
                        uint32_t length) {
    const struct card_hpu *h = hpu_of(p);
    const struct card_context *set = &h->card->context[h->context].set;
    bool any = space == 0 && !set->host && !set->host_bytes;
    uint64_t has = space ? (set->handler_host ? set->handler_host_bytes : 0) : set->host_bytes;
    if (!port_has_host(p, m->number, space, offset, length, any ? UINT64_MAX : has))
        return false;
    if (space == 0)
        return reach_host(p, m, set->host_address + offset, length);
    m->host_address = offset;
    m->length = length;
    m->host = length ? set->handler_host + offset : NULL;
    return true;
}

static enum hpu_access local(struct port *p, struct command *m, uint32_t address, uint32_t length,
                             bool write) {
    m->local = port_reach(p, m->number, address, length, write);
    return m->local ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}

static enum hpu_access check_host_atomic(struct port *p, struct command *m) {
    struct port_atomic a;
    m->target = TARGET_DMA;
    if (!port_atomic(p, m->number, &a) || !reach_space(p, m, a.space, a.offset, a.bytes))
        return HPU_ACCESS_FAULT;
    if (!m->host) {
        refusal_say(&p->refusal, m->number, "the host gave the card no memory for atomics");
        return port_refuse(p);
    }
    return local(p, m, a.local, a.local_bytes, true);
}

static enum hpu_access check_dma(struct port *p, struct command *m) {
    const uint32_t *w = m->word;
    bool by_address = m->number >= SPIN_COMMAND_HOST_DMA_TO;
    m->target = TARGET_DMA;
    m->to_host = m->number == SPIN_COMMAND_DMA_TO_HOST || m->number == SPIN_COMMAND_HOST_DMA_TO;
    if (by_address ? !reach_host(p, m, (uint64_t)w[0] << 32 | w[1], w[3])
                   : !reach_space(p, m, w[3], m->to_host ? w[1] : w[0], w[2]))
        return HPU_ACCESS_FAULT;
    uint32_t address = by_address ? w[2] : m->to_host ? w[0] : w[1];
    return local(p, m, address, m->length, !m->to_host);
}

/* Fills in where the command's bytes are, or says why not. */
static enum hpu_access check(struct port *p, struct command *m) {
    const uint32_t *w = m->word;
    bool put = m->number == SPIN_COMMAND_RDMA_PUT; /* its first word is the destination */
    switch (m->number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_DMA_FROM_HOST:
    case SPIN_COMMAND_HOST_DMA_TO:
    case SPIN_COMMAND_HOST_DMA_FROM:
        return check_dma(p, m);
    case SPIN_COMMAND_HOST_WRITE:
        m->target = TARGET_DIRECT;
        return reach_host(p, m, (uint64_t)w[0] << 32 | w[1], 8) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_DMA_CAS:
    case SPIN_COMMAND_DMA_FETCH_ADD:
        return check_host_atomic(p, m);
    case SPIN_COMMAND_LOCAL_DMA:
        m->target = TARGET_CLUSTER;
        m->length = w[2];
        return port_local_copy(p, &m->local, &m->other) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_RDMA_PUT:
    case SPIN_COMMAND_NIC_SEND:
    case SPIN_COMMAND_PUT_FROM_DEVICE:
    case SPIN_COMMAND_ATOMIC_FROM_DEVICE:
        m->length = w[1 + put];
        return local(p, m, w[put], m->length, false);
    case SPIN_COMMAND_PUT_FROM_HOST:
    case SPIN_COMMAND_ATOMIC_FROM_HOST:
        return reach_space(p, m, 0, w[0], w[1]) ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
    case SPIN_COMMAND_GET_TO_HOST: /* a request: no data with it */
        return reach_space(p, m, 0, w[0], w[1]) ? (m->length = 0, m->host = NULL, HPU_ACCESS_OK)
                                                : HPU_ACCESS_FAULT;
    }
    bool there = port_reach(p, m->number, w[0], w[1], true); /* GET_TO_DEVICE */
    return there ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}

/* ---- In flight ------------------------------------------------------------------------------- */

/* Commands of a task wait until the HPU's task before it is reported as complete, so that what is
 * in flight is always one task's. In the RTL the handle is made when the command is issued: the
 * lowest free number, while those of the task before are still in flight; what leaves later has
 * number 0. A wait for such a handle finds nothing in flight. */
static bool is_held(struct card_hpu *h) {
    struct card *c = h->card;
    if (h->ended_count) {
        h->waits_for = WAITS_HELD;
        h->unnamed = c->config.held_handles && slots_of(h)->in_use;
        return true;
    }
    if (h->held_ps <= c->now_ps)
        return false;
    h->waits_for = 0;
    card_event(c, h->held_ps, CARD_RUN_EVENT, h->index, 0);
    return true;
}

/* The HPU has a place for a command and may give it now; else it waits. */
static bool may_issue(struct card_hpu *h, bool leaves_cluster) {
    if (leaves_cluster && is_held(h))
        return false;
    if (h->in_flight < h->card->config.hpu_commands)
        return true;
    h->waits_for = WAITS_ANY;
    return false;
}

struct command *card_command_place(struct card_hpu *h, const struct command *m) {
    struct command *slot = slots_of(h);
    while (slot->in_use)
        slot++;
    *slot = *m;
    h->in_flight++;
    h->card->task[h->task].commands++;
    return slot;
}

static struct nic_task *served_task(const struct card_hpu *h) {
    return h->card->packet[h->card->task[h->task].packet].served;
}

static enum hpu_access issue(struct port *p, uint32_t number, uint32_t handle) {
    struct card_hpu *h = hpu_of(p);
    struct card *c = h->card;
    if (card_serves(c))
        return may_issue(h, true)
                   ? c->server.issue(c->server.user, p, served_task(h), number, c->now_ps)
                   : HPU_ACCESS_WAIT;
    struct command m = {.in_use = true,
                        .target = TARGET_OUTBOUND,
                        .number = (uint8_t)number,
                        .hpu = h->index,
                        .task = h->task};
    memcpy(m.word, h->hpu.word, sizeof m.word);
    enum hpu_access good = check(p, &m);
    if (good != HPU_ACCESS_OK)
        return good;
    if (!may_issue(h, m.target != TARGET_CLUSTER))
        return HPU_ACCESS_WAIT;
    m.handle = h->unnamed ? 0 : handle;
    h->unnamed = false;
    card_command_start(c, card_command_place(h, &m));
    return HPU_ACCESS_OK;
}

static bool ended(struct port *p, uint32_t handle) {
    const struct card_hpu *h = hpu_of(p);
    const struct card_server *server = &h->card->server;
    if (card_serves(h->card))
        return server->test(server->user, p, served_task(h), handle, false);
    const struct command *slot = slots_of(h);
    for (uint32_t i = 0; i < h->card->config.hpu_commands; i++)
        if (slot[i].in_use && slot[i].handle == handle && slot[i].task == h->task)
            return false;
    return true;
}

static void wait_for(struct port *p, uint32_t handle) {
    struct card_hpu *h = hpu_of(p);
    const struct card_server *server = &h->card->server;
    if (card_serves(h->card))
        server->test(server->user, p, served_task(h), handle, true);
    else
        h->waits_for = handle;
}

static void print(struct port *p, const char *line) {
    const struct card_hpu *h = hpu_of(p);
    const struct card_callbacks *to = &h->card->callbacks;
    uint32_t core = h->index % (uint32_t)h->card->config.cluster_hpus;
    if (to->print)
        to->print(to->user, h->cluster, core, line);
    else
        fprintf(stderr, "[%u,%u] %s\n", h->cluster, core, line);
}

const struct port_card card_port = {
    .in_step = in_step, .issue = issue, .ended = ended, .wait = wait_for, .print = print};
