/* The card as the datapath of a Portals card (card.h, "Under another's messages"): the same
 * buffers, dispatcher, clusters, HPUs and command unit, with messages that others know. Context 0
 * stands for what belongs to no image. */
#include <string.h>

#include "base/error.h"
#include "nic/nic_call.h"
#include "sim/card_private.h"
#include "spin/driver.h"

int card_serve(struct card *c, const struct card_server *server, struct spin_error *err) {
    if (c->contexts)
        return spin_fail(err, SPIN_EARG, "a card that has contexts of its own cannot serve");
    if (c->config.mtu > card_most_bytes(c))
        return spin_fail(err, SPIN_EARG, "mtu: %llu bytes; the card's packet buffers take %u",
                         (unsigned long long)c->config.mtu, card_most_bytes(c));
    c->server = *server;
    c->contexts = 1;
    c->context[0].set = (struct card_context){.name = "the card", .abi = CARD_P4SPIN};
    return SPIN_OK;
}

/* ---- Packets ---- */

bool card_serve_packet(struct card *c, const uint8_t *bytes, uint32_t length, uint64_t user,
                       uint32_t *place) {
    uint32_t held = length ? length : 1; /* a header alone has a place too */
    uint32_t unit = card_space_take(&c->l2, (held + UNIT_BYTES - 1) / UNIT_BYTES);
    uint32_t i = unit == NONE ? NONE : card_packet_new(c);
    if (i == NONE) {
        if (unit != NONE)
            card_space_give(&c->l2, unit);
        c->stats.full++;
        c->wants_ready = true;
        return false;
    }
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    struct card_l2_packet *p = &c->packet[i];
    *p = (struct card_l2_packet){.queue = NONE,
                                 .length = held,
                                 .l2_unit = unit,
                                 .arrival_ps = c->now_ps,
                                 .user = user,
                                 .number = c->stats.taken++};
    if (length)
        memcpy(card_packet_bytes(c, p), bytes, length);
    *place = i;
    card_write(c, i, c->now_ps);
    return true;
}

void card_serve_release(struct card *c, uint32_t place) {
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    card_release_packet(c, place, SPIN_CARD_FATE_DONE);
    card_offer_room(c);
}

/* ---- Handlers ---- */

/* The context of an image: its code and its data on this card. */
static bool context_of_image(struct card *c, const struct spin_image *image, uint32_t *number,
                             struct spin_error *err) {
    for (uint32_t i = 1; i < c->contexts; i++)
        if (c->context[i].set.image == image) {
            *number = i;
            return true;
        }
    bool pspin = image->info.is_pspin;
    const struct card_context set = {.abi = pspin ? CARD_PSPIN : CARD_P4SPIN,
                                     .scratch_bytes = pspin ? c->server.scratch_bytes : 0,
                                     .image = image};
    if (card_add_context(c, &set, number, err))
        return false;
    c->server.keep(c->server.user, image);
    return true;
}

/* A completion handler has no packet, and one that the card has sent to itself has not come in: a
 * place for as long as the handler runs. NONE: there is no room. */
static uint32_t own_place(struct card *c, const struct nic_packet *packet) {
    uint32_t i = card_packet_new(c), unit = NONE;
    if (i == NONE)
        return NONE;
    if (packet && packet->bytes) {
        unit = card_space_take(&c->l2, (packet->bytes + UNIT_BYTES - 1) / UNIT_BYTES);
        if (unit == NONE) {
            card_packet_free(c, i);
            return NONE;
        }
        memcpy(c->l2_packets + (size_t)unit * UNIT_BYTES, packet->data, packet->bytes);
    }
    c->packet[i] = (struct card_l2_packet){.queue = NONE,
                                           .l2_unit = unit,
                                           .own_place = true,
                                           .arrival_ps = c->now_ps,
                                           .since_ps = c->now_ps};
    return i;
}

static void begin_task(struct card *c, struct nic_task *task, uint32_t context, uint32_t i) {
    struct card_l2_packet *p = &c->packet[i];
    p->context = context;
    p->message = task->message_id;
    p->l1_bytes = task->packet ? task->packet->bytes : 0;
    p->served = task;
    p->served_number = task->number;
    card_ready(c, i, (enum spin_handler_kind)task->kind);
}

bool card_serve_task(struct card *c, struct nic_task *task, uint32_t place,
                     struct spin_error *err) {
    uint32_t context;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    if (!context_of_image(c, task->handlers->image, &context, err))
        return false;
    if (!hpu_is_aligned(MAP_L1_SCRATCH, task->handlers->state)) { /* as every place of a state is */
        spin_fail(err, SPIN_EARG, INVOKE_UNALIGNED, task->handlers->image->path);
        return false;
    }
    if (place == NONE && !c->unplaced)
        place = own_place(c, task->packet);
    if (place != NONE) {
        begin_task(c, task, context, place);
        return true;
    }
    task->driver = NULL;
    if (c->unplaced)
        c->unplaced_last->driver = task;
    else
        c->unplaced = task;
    c->unplaced_last = task;
    return true;
}

/* No packet that has come in waits for one of these, so there will be room for all. */
void card_served_place(struct card *c) {
    while (c->unplaced) {
        struct nic_task *task = c->unplaced;
        struct spin_error err;
        uint32_t context, i = own_place(c, task->packet);
        if (i == NONE)
            return;
        c->unplaced = task->driver;
        context_of_image(c, task->handlers->image, &context, &err); /* it has one since it waits */
        begin_task(c, task, context, i);
    }
}

void card_serve_over(struct card *c) {
    c->unplaced = NULL;
    c->wants_ready = false;
}

/* Where the state of an entry is in the L1 of its message's home cluster: behind the scratchpad of
 * its image, and a gap, so that who writes beyond that is found. */
static uint32_t state_at(const struct card_execution *x) {
    return x->set.scratch_bytes ? x->scratch_offset + ((x->set.scratch_bytes + 127) & ~63u)
                                : MAP_L1_SCRATCH;
}

void card_served_call(struct card *c, struct card_hpu *h, struct invoke_call *call) {
    const struct card_task *t = &c->task[h->task];
    struct nic_task *task = c->packet[t->packet].served;
    struct card_execution *x = &c->context[t->context];
    uint32_t skip = task->packet ? (uint32_t)(task->data - task->packet->data) : 0;
    struct invoke_memory before = x->given.memory;
    enum hpu_region region = x->given.memory_region;
    const struct port_host host = c->server.host(c->server.user, task, PORT_AT_ADDRESS);
    x->given.host_address = host.base;
    x->given.host_bytes = host.bytes;
    x->given.memory =
        (struct invoke_memory){card_l1_address(c, call->home_cluster) + state_at(x),
                               task->handlers->state_bytes, task->handlers->state, NULL};
    x->given.memory_region =
        call->home_cluster == h->cluster ? HPU_REGION_L1 : HPU_REGION_REMOTE_L1;
    task->driver = h;
    card_switch_context(c, h, t->context);
    h->port.counter = NULL; /* the entry's is the server's */
    call->entry = task->entry;
    call->budget_cycles = c->server.budget_cycles;
    call->length = skip + task->bytes;
    call->bytes = t->l1_bytes < call->length ? t->l1_bytes : call->length;
    call->memory_address = x->given.memory.address;
    call->memory_bytes = task->handlers->state_bytes;
    call->header = nic_call_header(task);
    call->offset = (uint32_t)task->offset;
    call->user_hdr_bytes = task->kind == NIC_HEADER_HANDLER ? task->user_hdr_bytes : skip;
    call->dropped_bytes = task->dropped_bytes;
    call->flow_control = task->flow_control_triggered;
    x->given.memory = before;
    x->given.memory_region = region;
}

void card_serve_resume(struct card *c, struct nic_task *task) {
    struct card_hpu *h = task->driver;
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    if (h->state == CORE_BLOCKED)
        card_wake(c, h, c->now_ps);
}

void card_served_ended(struct card *c, const struct card_task *t) {
    struct card_l2_packet *p = &c->packet[t->packet];
    uint64_t number = p->served_number;
    bool fault = t->faulted && t->fault.ending != SPIN_RETURNED;
    p->served = NULL;
    if (p->own_place) {
        if (p->l2_unit != NONE)
            card_space_give(&c->l2, p->l2_unit);
        card_packet_free(c, t->packet);
    }
    bool no_codes = c->context[t->context].set.abi == CARD_PSPIN;
    c->server.ended(c->server.user, number, flow_code(fault, no_codes, t->value), c->now_ps);
}

/* ---- Commands ---- */

bool card_serve_has_place(const struct nic_task *task) {
    const struct card_hpu *h = task->driver;
    return h->in_flight < h->card->config.hpu_commands;
}

static struct card_command *command_of(struct card_hpu *h, enum card_served served,
                                       enum card_target target, uint64_t length, uint8_t *local,
                                       uint32_t local_at) {
    struct card_command *m = card_command_new(h, target, (uint32_t)length);
    m->of.local_at = local_at;
    m->of.local = local;
    m->served = (uint8_t)served;
    return m;
}

/* Also of a handler that runs no more just now: its page has come. */
void card_serve_move(struct card *c, struct nic_task *task, const struct nic_move *move) {
    c->now_ps = sim_engine_counts(c->engine).now_ps;
    struct card_command *m =
        command_of(task->driver, SERVED_MOVE, TARGET_DMA, move->bytes, move->local, move->local_at);
    m->to_host = move->kind == NIC_STORE;
    m->host_address = 0; /* aligned, wherever the program's memory is in this run */
    m->move = *move;
    card_command_start(c, m);
}

void card_serve_send(struct card *c, const struct nic_departed *how, uint8_t *bytes,
                     uint32_t length, uint32_t number) {
    struct card_command *m =
        command_of(how->task->driver, SERVED_SEND, TARGET_OUTBOUND, length, bytes, how->local_at);
    m->served_number = number;
    card_command_start(c, m);
}

void card_served_response(struct card *c, struct card_command *m) {
    if (m->served == SERVED_MOVE)
        c->server.moved(c->server.user, &m->move, c->now_ps);
    else
        c->server.departed(c->server.user, m->served_number, c->now_ps);
}
