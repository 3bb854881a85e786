/* What is behind the port of a rig: each command is recorded, and what can be done without a
 * network is done at once: DMA to the rig's host memory, atomics, the counter. */
#include <stdio.h>
#include <string.h>

#include "hpu/refusal.h"
#include "hpu/rig.h"

static struct spin_rig *rig_of(struct port *p) {
    return (struct spin_rig *)p->hpu;
}

/* `space` of a command: the ME's host memory or the handler's. NULL: refused. */
static uint8_t *host_memory(struct port *p, uint32_t number, uint32_t space, uint32_t offset,
                            uint32_t bytes) {
    const struct spin_rig *rig = rig_of(p);
    if (!port_has_host(p, number, space, offset, bytes, rig->host_bytes))
        return NULL;
    return (space ? rig->handler_host : rig->me_host) + (bytes ? offset : 0);
}

/* A host address of PsPIN's commands, in two words. Its host memory is the ME's. */
static uint8_t *host_at(struct port *p, uint32_t number, const uint32_t *high_low, uint32_t bytes) {
    const struct spin_rig *rig = rig_of(p);
    uint64_t address = (uint64_t)high_low[0] << 32 | high_low[1];
    if (!port_has_host_at(p, number, address, bytes, RIG_HOST_BASE, rig->host_bytes))
        return NULL;
    return rig->me_host + (bytes ? address - RIG_HOST_BASE : 0);
}

static enum hpu_access copy(uint8_t *host, uint8_t *local, uint32_t bytes, bool to_host) {
    if (!host || !local)
        return HPU_ACCESS_FAULT;
    memcpy(to_host ? host : local, to_host ? local : host, bytes);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_dma(struct port *p, uint32_t number) {
    const uint32_t *w = p->hpu->word;
    bool to_host = number == SPIN_COMMAND_DMA_TO_HOST;
    uint8_t *host = host_memory(p, number, w[3], to_host ? w[1] : w[0], w[2]);
    uint8_t *local = host ? port_reach(p, number, to_host ? w[0] : w[1], w[2], !to_host) : NULL;
    return copy(host, local, w[2], to_host);
}

static enum hpu_access do_host_dma(struct port *p, uint32_t number) {
    const uint32_t *w = p->hpu->word;
    bool to_host = number == SPIN_COMMAND_HOST_DMA_TO;
    uint8_t *host = host_at(p, number, w, w[3]);
    uint8_t *local = host ? port_reach(p, number, w[2], w[3], !to_host) : NULL;
    return copy(host, local, w[3], to_host);
}

static enum hpu_access do_host_write(struct port *p, uint32_t number) {
    uint32_t *w = p->hpu->word;
    return copy(host_at(p, number, w, 8), (uint8_t *)&w[2], 8, true);
}

static enum hpu_access do_atomic(struct port *p, uint32_t number) {
    struct port_atomic a;
    if (!port_atomic(p, number, &a))
        return HPU_ACCESS_FAULT;
    uint8_t *host = host_memory(p, number, a.space, a.offset, a.bytes);
    uint8_t *local = host ? port_reach(p, number, a.local, a.local_bytes, true) : NULL;
    if (!local)
        return HPU_ACCESS_FAULT;
    port_do_atomic(&a, number, host, local);
    return HPU_ACCESS_OK;
}

/* A message's data must be the handler's to send. */
static enum hpu_access do_message(struct port *p, uint32_t number) {
    const uint32_t *w = p->hpu->word;
    bool get = number == SPIN_COMMAND_GET_TO_DEVICE;
    bool device =
        get || number == SPIN_COMMAND_PUT_FROM_DEVICE || number == SPIN_COMMAND_ATOMIC_FROM_DEVICE;
    uint8_t *data =
        device ? port_reach(p, number, w[0], w[1], get) : host_memory(p, number, 0, w[0], w[1]);
    return data ? HPU_ACCESS_OK : HPU_ACCESS_FAULT;
}

static enum hpu_access do_outbound(struct port *p, uint32_t number) {
    const struct spin_rig *rig = rig_of(p);
    const uint32_t *w = p->hpu->word;
    bool raw = number == SPIN_COMMAND_NIC_SEND;
    uint32_t dest = raw ? 0 : w[0], length = raw ? w[1] : w[2];
    const uint8_t *data = port_reach(p, number, raw ? w[0] : w[1], length, false);
    if (!data)
        return HPU_ACCESS_FAULT;
    if (rig->outbound)
        rig->outbound(rig->outbound_context, dest, data, length);
    return HPU_ACCESS_OK;
}

static enum hpu_access do_local_dma(struct port *p) {
    uint8_t *from, *to;
    if (!port_local_copy(p, &from, &to))
        return HPU_ACCESS_FAULT;
    memmove(to, from, p->hpu->word[2]);
    return HPU_ACCESS_OK;
}

static enum hpu_access issue(struct port *p, uint32_t number, uint32_t handle) {
    (void)handle;
    switch (number) {
    case SPIN_COMMAND_DMA_TO_HOST:
    case SPIN_COMMAND_DMA_FROM_HOST:
        return do_dma(p, number);
    case SPIN_COMMAND_DMA_CAS:
    case SPIN_COMMAND_DMA_FETCH_ADD:
        return do_atomic(p, number);
    case SPIN_COMMAND_NIC_SEND:
    case SPIN_COMMAND_RDMA_PUT:
        return do_outbound(p, number);
    case SPIN_COMMAND_HOST_DMA_TO:
    case SPIN_COMMAND_HOST_DMA_FROM:
        return do_host_dma(p, number);
    case SPIN_COMMAND_HOST_WRITE:
        return do_host_write(p, number);
    case SPIN_COMMAND_LOCAL_DMA:
        return do_local_dma(p);
    }
    return do_message(p, number);
}

static void note(struct port *p, uint32_t number) {
    struct spin_rig *rig = rig_of(p);
    if (rig->commands == RIG_COMMANDS) {
        rig->commands_lost++;
        return;
    }
    struct spin_command *c = &rig->command[rig->commands++];
    c->number = (uint8_t)number;
    c->cycle = rig->hpu.cycles - rig->start_cycle;
    memcpy(c->word, rig->hpu.word, sizeof c->word);
}

static void print(struct port *p, const char *line) {
    const struct spin_rig *rig = rig_of(p);
    uint32_t id = rig->hpu.id;
    if (rig->print)
        rig->print(rig->print_context, id, line);
    else
        fprintf(stderr, "[%u,%u] %s\n", id / MAP_CLUSTER_HPUS, id % MAP_CLUSTER_HPUS, line);
}

const struct port_card rig_card = {.issue = issue, .note = note, .print = print};
