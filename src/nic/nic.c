/* The card as a whole: its parts, and what follows when something that was pending has ended. */
#include "nic/nic.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "nic/nic_private.h"

static void raised(void *context) {
    struct nic *nic = context;
    nic->config.driver->raise(nic->config.context);
}

static void lost(void *context, struct delivery_peer *delivery, bool sent) {
    struct nic_peer *peer = (struct nic_peer *)delivery;
    if (sent)
        nic_depart_lost(context, peer);
    nic_receive_lost(context, peer);
}

static uint64_t refused(void *context) {
    const struct nic *nic = context;
    const struct nic_driver *driver = nic->config.driver;
    const struct nic_counts *c = &nic->counts;
    return c->malformed + c->duplicates + c->out_of_window +
           (driver->refused ? driver->refused(nic->config.context) : 0);
}

/* Packets that wait for their handlers, for a header handler, or for pages. */
static uint32_t load(void *context) {
    const struct nic *nic = context;
    return nic->running + nic->held + nic_parked(nic);
}

static bool take_pid(void *context, uint32_t pid) {
    struct nic *nic = context;
    const struct nic_driver *driver = nic->config.driver;
    if (!driver->take_pid || !driver->take_pid(nic->config.context, pid))
        return false;
    nic->config.address.pid = pid;
    return true;
}

bool nic_use_host(void *context, uint8_t *host, uint64_t bytes, nic_user *user, void *argument) {
    const struct nic *nic = context;
    const struct nic_driver *driver = nic->config.driver;
    if (driver->use)
        return driver->use(nic->config.context, host, bytes, user, argument);
    user(argument, host);
    return true;
}

static int check_config(const struct nic_config *c, struct spin_error *err) {
    if (c->mtu_bytes == 0 || c->mtu_bytes % 64 || c->mtu_bytes > nic_pool_mtu(c->pool))
        return spin_fail(err, SPIN_EARG,
                         "MTU of %u bytes: it must be a multiple of 64, at most the pool's %u",
                         c->mtu_bytes, nic_pool_mtu(c->pool));
    if (c->window_packets > 4096)
        return spin_fail(err, SPIN_ELIMIT, "window of %u packets: at most 4096", c->window_packets);
    if (c->block_bytes > (uint64_t)NIC_BLOCK_PACKETS * c->mtu_bytes)
        return spin_fail(err, SPIN_ELIMIT, "blocks of %u bytes: at most %u packets of %u bytes",
                         c->block_bytes, NIC_BLOCK_PACKETS, c->mtu_bytes);
    if (c->blocks_outstanding > NIC_BLOCKS_MAX)
        return spin_fail(err, SPIN_ELIMIT, "%u blocks outstanding: at most %u",
                         c->blocks_outstanding, NIC_BLOCKS_MAX);
    if ((!c->reliable || c->driver->reliable) && c->retry_time == 0)
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
    struct portals_owner owner = {.context = nic,
                                  .place = nic_send_place,
                                  .send = nic_send_message,
                                  .put = config->driver->send_short ? nic_send_put : NULL,
                                  .raised = raised,
                                  .take_pid = take_pid,
                                  .refused = refused,
                                  .use = nic_use_host};
    static const struct delivery_owner below = {.peer_bytes = sizeof(struct nic_peer),
                                                .up = nic_receive_packet,
                                                .returned = nic_depart_arrived,
                                                .room = nic_depart_room,
                                                .load = load,
                                                .lost = lost};
    delivery_init(&nic->delivery, &nic->config, &nic->counts, &below, nic);
    return portals_new(&nic->portals, &portals, &owner, err);
}

int nic_new(struct nic **out, const struct nic_config *config, struct spin_error *err) {
    int code = check_config(config, err);
    if (code)
        return code;
    struct nic *nic = zone_take_clear(config->zone, sizeof *nic);
    if (!nic)
        return spin_fail(err, SPIN_ENOMEM, "out of memory");
    nic->config = *config;
    if (!config->window_packets)
        nic->config.window_packets = 64;
    if (!config->send_packets)
        nic->config.send_packets = 32;
    if (nic->config.gather_bytes > config->mtu_bytes)
        nic->config.gather_bytes = config->mtu_bytes;
    pool_init(&nic->outgoing, config->zone, sizeof(struct nic_outgoing), UINT32_MAX);
    pool_init(&nic->departures, config->zone, sizeof(struct nic_departure), UINT32_MAX);
    pool_init(&nic->incoming, config->zone, sizeof(struct nic_incoming), UINT32_MAX);
    pool_init(&nic->tasks, config->zone, sizeof(struct nic_task_record), UINT32_MAX);
    pool_init(&nic->commands, config->zone, sizeof(struct nic_command_record), UINT32_MAX);
    pool_init(&nic->later, config->zone, sizeof(struct pool_slot), UINT32_MAX);
    if (!config->blocks_outstanding)
        nic->config.blocks_outstanding = 2;
    if (!config->unblocked_bytes)
        nic->config.unblocked_bytes = NIC_ORDERED_BYTES;
    if (config->block_bytes && nic->config.gather_bytes > nic->config.unblocked_bytes)
        nic->config.gather_bytes = nic->config.unblocked_bytes;
    nic->present_bytes = config->driver->present ? 0 : nic->config.gather_bytes;
    nic_block_init(nic);
    if (!config->driver->slot) {
        nic->slot = calloc(1, sizeof *nic->slot);
        if (!nic->slot) {
            nic_free(nic);
            return spin_fail(err, SPIN_ENOMEM, "out of memory");
        }
        nic->slot->pool = config->pool;
    }
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

#define EACH(type, name, pool)                                                                     \
    type *name;                                                                                    \
    for (uint32_t i_ = 0; i_ < (pool)->made; i_++)                                                 \
        if ((name = pool_find(pool, i_)))

/* Packets that records hold. */
static void release_packets(struct nic *nic) {
    EACH(struct nic_outgoing, o, &nic->outgoing) release_list(o->ready);
    EACH(struct nic_departure, d, &nic->departures) nic_packet_release(d->packet);
    EACH(struct nic_incoming, in, &nic->incoming) {
        release_list(in->waiting);
        release_list(in->results);
        if (in->last)
            nic_packet_release(in->last);
    }
    EACH(struct nic_task_record, task, &nic->tasks)
    if (task->packet)
        nic_packet_release(task->packet);
    release_list(nic->loop);
}

void nic_free(struct nic *nic) {
    if (!nic)
        return;
    nic_page_clear(nic);
    release_packets(nic);
    if (nic->portals)
        portals_free(nic->portals);
    delivery_clear(&nic->delivery);
    pool_clear(&nic->outgoing);
    pool_clear(&nic->departures);
    pool_clear(&nic->incoming);
    pool_clear(&nic->tasks);
    pool_clear(&nic->commands);
    pool_clear(&nic->later);
    nic_block_clear(nic);
    hash_table_free(&nic->open);
    free(nic->silences.at);
    free(nic->slot);
    zone_give(nic->config.zone, nic, sizeof *nic);
}

void nic_prefetch_progress(const struct nic *nic) {
    __builtin_prefetch(&nic->now);
    __builtin_prefetch(&nic->delivery);
    __builtin_prefetch(&nic->blocks.timeouts.count);
    __builtin_prefetch(&nic->counts.no_memory);
}

void nic_prefetch(const struct nic *nic) {
    nic_prefetch_progress(nic);
    __builtin_prefetch(&nic->config);
    __builtin_prefetch(&nic->incoming);
    __builtin_prefetch(&nic->tasks);
    __builtin_prefetch(&nic->commands);
}

static inline void prefetch(const void *object, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64)
        __builtin_prefetch((const char *)object + i);
}

void nic_prefetch_task(const struct nic_task *seen) {
    prefetch(nic_task_of(seen), sizeof(struct nic_task_record));
}

void nic_prefetch_message(const struct nic_task *seen) {
    const struct nic_task_record *task = nic_task_of(seen);
    prefetch(task->message, offsetof(struct nic_incoming, own));
    if (task->packet) {
        __builtin_prefetch(task->packet);
        __builtin_prefetch(&task->packet->bytes);
        __builtin_prefetch(&task->packet->data);
    }
}

void nic_prefetch_interface(const struct nic *nic) {
    portals_prefetch_interface(nic->portals);
    if (nic->delivery.last_peer)
        prefetch(nic->delivery.last_peer, sizeof(struct nic_peer));
}

void nic_prefetch_table(const struct nic *nic) {
    nic_prefetch(nic);
    portals_prefetch_table(nic->portals);
}

void nic_prefetch_bucket(const struct nic *nic, const struct nic_packet *packet) {
    if (packet->kind == NIC_DATA && packet->first)
        portals_prefetch_bucket(nic->portals, &packet->message);
}

void nic_prefetch_match(const struct nic *nic, const struct nic_packet *packet) {
    if (packet->kind != NIC_DATA || !packet->first)
        return;
    portals_prefetch_entry(nic->portals, &packet->message);
    pool_prefetch(&nic->incoming);
    pool_prefetch(&nic->tasks);
}

void nic_prefetch_move(const struct nic_move *m) {
    prefetch(m->record, sizeof(struct nic_command_record)); /* or what else it is: as large */
    if (m->task)
        nic_prefetch_task(m->task);
    __builtin_prefetch(m->host, 1);
}

struct portals *nic_portals(struct nic *nic) {
    return nic->portals;
}

const struct nic_counts *nic_counts(const struct nic *nic) {
    return &nic->counts;
}

bool nic_quiet(const struct nic *nic) {
    return !nic->loop && !nic->outgoing.used && !nic->departures.used && !nic->incoming.used &&
           !nic->tasks.used && !nic->commands.used && portals_quiet(nic->portals) &&
           !nic->later.used && !nic->sending && !nic->running && !nic->handler_packets &&
           !nic->room_queue && !nic->blocks.reports.used && !nic->blocks.transfers.used &&
           !nic->blocks.assemblies.used && !nic->blocks.waiting_out && !nic->blocks.waiting_in &&
           !nic_parked(nic);
}

void nic_hurry(struct nic *nic) {
    delivery_hurry(&nic->delivery);
}

bool nic_settled(const struct nic *nic) {
    return delivery_settled(&nic->delivery);
}

bool nic_task_is_late(const struct nic_task *task) {
    return portals_is_closing(&nic_task_of(task)->message->arrival);
}

/* ---- What a driver does later ---- */

/* Its place; NULL: it has ended, and was told before. */
static struct pool_slot *place_of(const struct nic *nic, uint32_t index, uint32_t generation) {
    struct pool_slot *slot = pool_find(&nic->later, index);
    return slot && slot->generation == generation ? slot : NULL;
}

static struct pool_slot *place_new(struct nic *nic) {
    struct pool_slot *slot = pool_take_raw(&nic->later);
    nic->counts.no_memory += !slot;
    return slot;
}

/* ---- Moves ---- */

/* The message of a move lives on in a record, its packet by a reference or as a copy. */
static bool keep_message(struct nic *nic, struct nic_move *m) {
    struct nic_packet *packet = nic_packet_keep(m->packet);
    struct nic_incoming *in = !packet                    ? NULL
                              : m->purpose == MOVE_PLAIN ? nic_receive_keep_plain(nic, m->record)
                                                         : nic_receive_keep(nic, m->record);
    if (!in) {
        if (packet)
            nic_packet_release(packet);
        return false;
    }
    if (m->purpose == MOVE_PLAIN)
        m->purpose = MOVE_MESSAGE;
    m->local = packet->data + (m->local - m->packet->data);
    m->packet = packet;
    m->record = in;
    in->flow.work++;
    if (packet->kind == NIC_BLOCK)
        nic_block_move_later(in, packet);
    return true;
}

/* What it refers to lives on; false: no memory. */
static bool keep_record(struct nic *nic, const struct nic_move *move, struct nic_move *later) {
    switch (move->purpose) {
    case FETCH_DEPARTURE:
        ((struct nic_departure *)move->record)->fetches++;
        break;
    case MOVE_PLAIN:
    case MOVE_MESSAGE:
    case APPLY_ATOMIC:
        return keep_message(nic, later);
    case MOVE_COMMAND:
    case ATOMIC_COMMAND:
        later->record = nic_command_keep(nic, move->record);
        if (!later->record)
            return false;
        ((struct nic_command_record *)later->record)->transfers++;
        nic_command_later(move, later);
        break;
    }
    return true;
}

bool nic_move_later(struct nic *nic, const struct nic_move *move, struct nic_move *later) {
    *later = *move;
    if (move->kept)
        return true;
    struct pool_slot *place = place_new(nic);
    if (!place)
        return false;
    if (!keep_record(nic, move, later)) {
        nic->counts.no_memory++;
        pool_give(&nic->later, place);
        return false;
    }
    later->pending = place->index;
    later->generation = place->generation;
    return true;
}

void nic_move_forget(struct nic_move *later) {
    if (later->purpose == MOVE_MESSAGE || later->purpose == APPLY_ATOMIC)
        nic_packet_release(later->packet);
}

void nic_moved(struct nic *nic, struct nic_move *later, enum nic_status how, uint64_t now) {
    struct pool_slot *place = place_of(nic, later->pending, later->generation);
    if (!place)
        return; /* told twice */
    nic->now = now;
    later->generation = ++place->generation; /* it may be repeated, and that is told by itself */
    if (how == NIC_ABSENT && (how = nic_page_park(nic, later)) == NIC_PENDING)
        return;
    pool_give(&nic->later, place);
    switch (later->purpose) {
    case FETCH_DEPARTURE:
        nic_depart_fetched(nic, later->record, how >= NIC_FAULT);
        break;
    case MOVE_MESSAGE:
    case APPLY_ATOMIC:
        nic_receive_moved(nic, later, how);
        break;
    case MOVE_COMMAND:
    case ATOMIC_COMMAND:
        nic_command_moved(nic, later, how);
        break;
    }
}

/* ---- Packets ---- */

/* A packet to ourselves goes no further than here. */
static bool loop_back(struct nic *nic) {
    struct nic_packet *packet = nic->loop;
    if (!packet)
        return false;
    nic->loop = packet->next;
    if (!nic->loop)
        nic->loop_end = &nic->loop;
    delivery_packet_in(&nic->delivery, packet, nic->now);
    nic_packet_release(packet);
    return true;
}

static void __attribute__((noinline)) work(struct nic *nic, uint64_t now) {
    while (loop_back(nic) || nic_depart_more(nic))
        ;
    delivery_arm(&nic->delivery, now);
}

bool nic_has_work(const struct nic *nic) {
    return nic->loop || nic->turn || !delivery_idle(&nic->delivery) || nic->delivery.timers.count ||
           nic->silences.count || nic->blocks.timeouts.count;
}

void nic_progress(struct nic *nic, uint64_t now) {
    nic->now = now;
    if (nic->loop || nic->turn || !delivery_idle(&nic->delivery))
        work(nic, now);
}

bool nic_leaves_later(struct nic *nic, const struct nic_departed *how, struct nic_departed *later) {
    const struct pool_slot *place = place_new(nic);
    if (!place)
        return false;
    *later = *how;
    later->pending = place->index;
    later->generation = place->generation;
    return true;
}

/* False: it was before. */
static bool take_leaving(struct nic *nic, const struct nic_departed *how) {
    struct pool_slot *place = place_of(nic, how->pending, how->generation);
    if (place)
        pool_give(&nic->later, place);
    return place;
}

void nic_leaves_now(struct nic *nic, const struct nic_departed *later) {
    take_leaving(nic, later);
}

void nic_left(struct nic *nic, const struct nic_departed *how, uint64_t now) {
    if (!take_leaving(nic, how))
        return; /* told twice */
    nic->now = now;
    nic_packet_left(nic, how);
}

void nic_packet_left(struct nic *nic, const struct nic_departed *how) {
    nic->sending--;
    delivery_left(&nic->delivery, &how->peer->delivery, how->sequence, how->more, how->transmission,
                  nic->now);
    if (how->lent)
        nic_depart_returned(nic, how->lent, how->unreadable);
    if (how->from_handler) {
        nic->handler_packets--;
        nic_command_room(nic);
    }
}

bool nic_peer_meet(struct nic *nic, struct nic_address address) {
    return delivery_peer(&nic->delivery, address) != NULL;
}

void nic_peer_room(struct nic *nic, struct nic_address address, uint64_t now) {
    struct nic_peer *peer = (struct nic_peer *)delivery_peer(&nic->delivery, address);
    nic->now = now;
    if (!peer)
        return;
    peer->busy = false;
    nic_depart_room(nic, &peer->delivery);
}

void nic_peer_lost(struct nic *nic, struct nic_address address, uint64_t now) {
    nic->now = now;
    delivery_lose(&nic->delivery, address);
}

void nic_peer_refused(struct nic *nic, struct nic_address address) {
    delivery_refused(&nic->delivery, address);
}

uint64_t nic_deadline(const struct nic *nic) {
    uint64_t due = delivery_deadline(&nic->delivery);
    uint64_t silence = timers_first(&nic->silences), block = timers_first(&nic->blocks.timeouts);
    due = silence < due ? silence : due;
    return block < due ? block : due;
}

void nic_tick(struct nic *nic, uint64_t now) {
    nic->now = now;
    delivery_tick(&nic->delivery, now);
    nic_receive_tick(nic);
    nic_block_tick(nic);
}
