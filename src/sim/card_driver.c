/* What is behind the ports of a card's HPUs (hpu/port.h): host memory of contexts, where a command
 * goes, and which an HPU may have in flight. */
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

/* ---- Host memory ----------------------------------------------------------------------------- */

static struct nic_task *served_task(const struct card_hpu *h) {
    return h->card->packet[h->card->task[h->task].packet].served;
}

/* The context's. Without any, and for a context as in the RTL, the callbacks stand for it, at any
 * address. */
static struct port_host host(struct port *p, uint32_t space) {
    const struct card_hpu *h = hpu_of(p);
    const struct card *c = h->card;
    const struct card_context *set = &c->context[h->context].set;
    if (card_serves(c))
        return c->server.host(c->server.user, served_task(h), space);
    if (space == PORT_HANDLER)
        return (struct port_host){0, set->handler_host ? set->handler_host_bytes : 0,
                                  set->handler_host};
    bool by_address = space == PORT_AT_ADDRESS;
    if ((set->as_rtl && by_address) || (!set->host && !set->host_bytes))
        return (struct port_host){0, UINT64_MAX, NULL};
    return (struct port_host){by_address ? set->host_address : 0, set->host_bytes,
                              set->as_rtl ? NULL : set->host};
}

static struct card_command *slots_of(const struct card_hpu *h) {
    return &h->card->command[h->index * h->card->config.hpu_commands];
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

struct card_command *card_command_new(struct card_hpu *h, enum card_target target,
                                      uint32_t length) {
    struct card_command *slot = slots_of(h);
    while (slot->in_use)
        slot++;
    *slot = (struct card_command){.in_use = true,
                                  .target = (uint8_t)target,
                                  .hpu = h->index,
                                  .task = h->task,
                                  .length = length};
    h->in_flight++;
    h->card->task[h->task].commands++;
    return slot;
}

/* Where the command goes, and what it takes with it. */
static void start(struct card_hpu *h, const struct port_command *of) {
    static const uint8_t targets[] = {
        [PORT_STORE] = TARGET_DMA,        [PORT_FETCH] = TARGET_DMA,
        [PORT_ATOMIC] = TARGET_DMA,       [PORT_COPY] = TARGET_CLUSTER,
        [PORT_MESSAGE] = TARGET_OUTBOUND, [PORT_PACKET] = TARGET_OUTBOUND};
    const struct card_context *set = &h->card->context[h->context].set;
    bool direct = of->number == SPIN_COMMAND_HOST_WRITE;
    bool request =
        of->number == SPIN_COMMAND_GET_TO_HOST || of->number == SPIN_COMMAND_GET_TO_DEVICE;
    struct card_command *m = card_command_new(h, direct ? TARGET_DIRECT : targets[of->effect],
                                              request ? 0 : of->bytes); /* a request has no data */
    m->of = *of;
    memcpy(m->word, of->word, sizeof m->word);
    m->of.word = m->word;
    m->to_host = of->effect == PORT_STORE && !direct;
    m->host_address = of->host_at + (of->space == PORT_ENTRY ? set->host_address : 0);
    if (request)
        m->of.host = m->of.local = NULL;
    if (h->unnamed)
        m->of.handle = 0;
    h->unnamed = false;
    card_command_start(h->card, m);
}

static enum hpu_access issue(struct port *p, const struct port_command *of) {
    struct card_hpu *h = hpu_of(p);
    struct card *c = h->card;
    if (card_serves(c))
        return may_issue(h, true)
                   ? c->server.issue(c->server.user, p, served_task(h), of, c->now_ps)
                   : HPU_ACCESS_WAIT;
    if (of->effect == PORT_ATOMIC && !of->host) {
        refusal_say(&p->refusal, of->number, "the host gave the card no memory for atomics");
        return port_refuse(p);
    }
    if (!may_issue(h, of->effect != PORT_COPY))
        return HPU_ACCESS_WAIT;
    start(h, of);
    return HPU_ACCESS_OK;
}

static enum hpu_access over(struct port *p, uint32_t handle, bool wait) {
    struct card_hpu *h = hpu_of(p);
    const struct card_server *server = &h->card->server;
    if (card_serves(h->card))
        return server->over(server->user, p, served_task(h), handle, wait);
    const struct card_command *slot = slots_of(h);
    for (uint32_t i = 0; i < h->card->config.hpu_commands; i++)
        if (slot[i].in_use && slot[i].of.handle == handle && slot[i].task == h->task) {
            if (wait)
                h->waits_for = handle;
            return HPU_ACCESS_WAIT;
        }
    return HPU_ACCESS_OK;
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
    .in_step = in_step, .host = host, .issue = issue, .over = over, .print = print};
