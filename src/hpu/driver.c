/* What is behind the port of a rig: each command is recorded, and what can be done without a
 * network is done at once: DMA to the rig's host memory, atomics, the counter. */
#include <stdio.h>
#include <string.h>

#include "hpu/rig.h"

static struct spin_rig *rig_of(struct port *p) {
    return (struct spin_rig *)p->hpu;
}

/* PsPIN's host memory is the ME's. */
static struct port_host host(struct port *p, uint32_t space) {
    const struct spin_rig *rig = rig_of(p);
    return (struct port_host){space == PORT_AT_ADDRESS ? RIG_HOST_BASE : 0, rig->host_bytes,
                              space == PORT_HANDLER ? rig->handler_host : rig->me_host};
}

static enum hpu_access issue(struct port *p, const struct port_command *c) {
    const struct spin_rig *rig = rig_of(p);
    switch (c->effect) {
    case PORT_STORE:
        if (c->bytes)
            memcpy(c->host, c->local, c->bytes);
        break;
    case PORT_FETCH:
        if (c->bytes)
            memcpy(c->local, c->host, c->bytes);
        break;
    case PORT_ATOMIC:
        port_do_atomic(c);
        break;
    case PORT_COPY:
        memmove(c->other, c->local, c->bytes);
        break;
    case PORT_PACKET:
        if (rig->outbound)
            rig->outbound(rig->outbound_context,
                          c->number == SPIN_COMMAND_RDMA_PUT ? c->word[0] : 0, c->local, c->bytes);
        break;
    }
    return HPU_ACCESS_OK;
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

const struct port_card rig_card = {.host = host, .issue = issue, .note = note, .print = print};
