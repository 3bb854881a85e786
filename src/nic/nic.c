/* Actions: asked for by the other files, given to the driver in order, and followed up when done.
 */
#include "nic/nic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "nic/nic_private.h"

uint32_t nic_pool_mtu(const struct nic_pool *pool);

static void raised(void *context) {
    struct nic *nic = context;
    if (nic->raised)
        return;
    nic->raised = true;
    nic_tell(nic, (struct nic_action){.kind = NIC_RAISED});
}

static void lost(void *context, struct delivery_peer *delivery) {
    struct nic_peer *peer = (struct nic_peer *)delivery;
    nic_send_lost(context, peer);
    nic_receive_lost(context, peer);
}

static int check_config(const struct nic_config *c, struct spin_error *err) {
    if (c->mtu_bytes == 0 || c->mtu_bytes % 64 || c->mtu_bytes > nic_pool_mtu(c->pool))
        return spin_fail(err, SPIN_EARG,
                         "MTU of %u bytes: it must be a multiple of 64, at most the pool's %u",
                         c->mtu_bytes, nic_pool_mtu(c->pool));
    if (c->window_packets > 4096)
        return spin_fail(err, SPIN_ELIMIT, "window of %u packets: at most 4096", c->window_packets);
    if (!c->reliable && c->retry_time == 0)
        return spin_fail(err, SPIN_EARG,
                         "retry time 0 on an unreliable network: give more than a round trip");
    return 0;
}

static int make_parts(struct nic *nic, const struct nic_config *config, struct spin_error *err) {
    struct portals_config portals;
    if (config->portals)
        portals = *config->portals;
    else
        portals_config_default(&portals, config->mtu_bytes);
    portals.address = config->address;
    struct portals_owner owner = {.context = nic, .send = nic_send_message, .raised = raised};
    struct delivery_owner below = {.context = nic,
                                   .peer_bytes = sizeof(struct nic_peer),
                                   .up = nic_receive_packet,
                                   .room = nic_send_room,
                                   .lost = lost};
    int code = portals_new(&nic->portals, &portals, &owner, err);
    return code ? code : delivery_new(&nic->delivery, &nic->config, &nic->counts, &below, err);
}

int nic_new(struct nic **out, const struct nic_config *config, struct spin_error *err) {
    int code = check_config(config, err);
    if (code)
        return code;
    struct nic *nic = calloc(1, sizeof *nic);
    if (!nic)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    nic->config = *config;
    if (!config->window_packets)
        nic->config.window_packets = 64;
    if (!config->send_packets)
        nic->config.send_packets = 32;
    nic->outgoing.bytes = sizeof(struct outgoing);
    nic->departures.bytes = sizeof(struct departure);
    nic->incoming.bytes = sizeof(struct incoming);
    nic->tasks.bytes = sizeof(struct task);
    nic->commands.bytes = sizeof(struct command);
    nic->transfers.bytes = sizeof(struct transfer);
    nic->turn_end = &nic->turn;
    nic->loop_end = &nic->loop;
    code = make_parts(nic, config, err);
    if (code)
        nic_free(nic);
    else
        *out = nic;
    return code;
}

static void release_list(struct nic_packet *packet) {
    while (packet) {
        struct nic_packet *next = packet->next;
        nic_packet_release(packet);
        packet = next;
    }
}

#define EACH(type, name, records)                                                                  \
    type *name;                                                                                    \
    for (uint32_t i_ = 0; i_ < (records)->count; i_++)                                             \
        if ((name = records_at(records, i_)))

/* Packets that records hold; those of actions that the driver was given and did not finish too. */
static void release_packets(struct nic *nic) {
    EACH(struct outgoing, o, &nic->outgoing) release_list(o->ready);
    EACH(struct departure, d, &nic->departures) nic_packet_release(d->packet);
    EACH(struct incoming, in, &nic->incoming) {
        release_list(in->waiting);
        release_list(in->results);
    }
    EACH(struct task, task, &nic->tasks) if (task->packet) nic_packet_release(task->packet);
    EACH(struct transfer, t, &nic->transfers) if (t->packet) nic_packet_release(t->packet);
    release_list(nic->loop);
}

void nic_free(struct nic *nic) {
    if (!nic)
        return;
    for (struct nic_action action; nic->ring_count;)
        if (nic_next(nic, &action) && action.kind == NIC_SEND)
            nic_packet_release(action.packet); /* would have been the driver's */
    release_packets(nic);
    if (nic->portals)
        portals_free(nic->portals);
    delivery_free(nic->delivery);
    records_free(&nic->outgoing);
    records_free(&nic->departures);
    records_free(&nic->incoming);
    records_free(&nic->tasks);
    records_free(&nic->commands);
    records_free(&nic->transfers);
    free(nic->ring);
    free(nic);
}

struct portals *nic_portals(struct nic *nic) {
    return nic->portals;
}

const struct nic_counts *nic_counts(const struct nic *nic) {
    return &nic->counts;
}

bool nic_quiet(const struct nic *nic) {
    return !nic->ring_count && !nic->loop && !nic->outgoing.used && !nic->departures.used &&
           !nic->incoming.used && !nic->tasks.used && !nic->commands.used && !nic->transfers.used &&
           !nic->sending && !nic->running && !nic->handler_packets && !nic->room_queue;
}

/* The ring of actions. */

static void grow_ring(struct nic *nic) {
    uint32_t room = nic->ring_room ? 2 * nic->ring_room : 16;
    struct nic_action *ring = need(malloc(room * sizeof *ring));
    for (uint32_t i = 0; i < nic->ring_count; i++)
        ring[i] = nic->ring[(nic->ring_first + i) & (nic->ring_room - 1)];
    free(nic->ring);
    nic->ring = ring;
    nic->ring_room = room;
    nic->ring_first = 0;
}

void nic_tell(struct nic *nic, struct nic_action action) {
    if (nic->ring_count == nic->ring_room)
        grow_ring(nic);
    nic->ring[(nic->ring_first + nic->ring_count++) & (nic->ring_room - 1)] = action;
}

struct transfer *nic_action(struct nic *nic, enum nic_action_kind kind,
                            enum transfer_purpose purpose, struct nic_action action) {
    struct transfer *t = need(records_take(&nic->transfers));
    t->purpose = (uint8_t)purpose;
    t->from_handler = action.from_handler;
    action.kind = (uint8_t)kind;
    action.token = t->record.index;
    nic_tell(nic, action);
    return t;
}

/* A packet to ourselves goes no further than here. */
static bool loop_back(struct nic *nic) {
    struct nic_packet *packet = nic->loop;
    if (!packet)
        return false;
    nic->loop = packet->next;
    if (!nic->loop)
        nic->loop_end = &nic->loop;
    delivery_packet_in(nic->delivery, packet, nic->now);
    return true;
}

bool nic_next(struct nic *nic, struct nic_action *action) {
    while (!nic->ring_count)
        if (!loop_back(nic) && !nic_send_more(nic))
            return false;
    *action = nic->ring[nic->ring_first];
    nic->ring_first = (nic->ring_first + 1) & (nic->ring_room - 1);
    nic->ring_count--;
    if (action->kind == NIC_RAISED)
        nic->raised = false;
    return true;
}

static void sent(struct nic *nic, struct transfer *t, uint64_t now) {
    nic->sending--;
    delivery_left(nic->delivery, &t->peer->delivery, t->sequence, t->transmission, now);
    if (t->from_handler) {
        nic->handler_packets--;
        nic_command_room(nic);
    }
}

void nic_done(struct nic *nic, uint32_t token, uint64_t now) {
    struct transfer *at = records_at(&nic->transfers, token);
    if (!at)
        return;
    struct transfer t = *at;
    nic->now = now;
    records_give(&nic->transfers, at);
    switch (t.purpose) {
    case SEND_PACKET:
        sent(nic, &t, now);
        break;
    case FETCH_DEPARTURE:
        nic_send_fetched(nic, t.departure);
        break;
    case MOVE_MESSAGE:
        nic_receive_moved(nic, &t);
        break;
    case APPLY_ATOMIC:
        nic_receive_apply(nic, &t);
        break;
    case MOVE_COMMAND:
        nic_command_moved(nic, t.command);
        break;
    case ATOMIC_COMMAND:
        nic_command_atomic(nic, t.command);
        break;
    }
}

/* What we send ourselves never leaves the card: a packet from the wire that says so lies, and
 * nobody would ever finish what it begins. */
void nic_packet_in(struct nic *nic, struct nic_packet *packet, uint64_t now) {
    const struct nic_address *own = &nic->config.address;
    nic->now = now;
    if (packet->source.nid == own->nid && packet->source.pid == own->pid) {
        nic->counts.malformed++;
        nic_packet_release(packet);
        return;
    }
    delivery_packet_in(nic->delivery, packet, now);
}

uint64_t nic_deadline(const struct nic *nic) {
    return delivery_deadline(nic->delivery);
}

void nic_tick(struct nic *nic, uint64_t now) {
    nic->now = now;
    delivery_tick(nic->delivery, now);
}
