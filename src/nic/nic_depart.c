/* Messages that wait to leave. Each peer has a queue; peers take turns, of turn_packets of one
 * message: few are fair, many are what a card with one send queue does, and what a program counts
 * on that sends to its farthest child first. A packet's data is fetched from host memory into the
 * packet; packets of a peer depart in order, when their data is there. */
#include <string.h>

#include "nic/nic_private.h"

/* ---- Queues ---- */

static void take_turn(struct nic *nic, struct nic_peer *peer) {
    if (peer->in_turn)
        return;
    peer->in_turn = true;
    peer->next_turn = NULL;
    *nic->turn_end = peer;
    nic->turn_end = &peer->next_turn;
}

/* It goes on before all others. */
static void keep_turn(struct nic *nic, struct nic_peer *peer) {
    peer->in_turn = true;
    peer->next_turn = nic->turn;
    if (!nic->turn)
        nic->turn_end = &peer->next_turn;
    nic->turn = peer;
}

static struct nic_peer *next_turn(struct nic *nic) {
    struct nic_peer *peer = nic->turn;
    if (!peer)
        return NULL;
    nic->turn = peer->next_turn;
    if (!nic->turn)
        nic->turn_end = &nic->turn;
    peer->in_turn = false;
    return peer;
}

void nic_depart_link(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o) {
    o->peer = peer;
    o->next_all = peer->all;
    o->link_all = &peer->all;
    if (peer->all)
        peer->all->link_all = &o->next_all;
    peer->all = o;
    if (o->wants_answer)
        delivery_expect(&nic->delivery, &peer->delivery);
}

/* Answers go before all others where a peer may run out of credit, which requests wait for: it may
 * get none until it has its answers. */
static bool goes_first(const struct nic *nic, const struct nic_outgoing *o) {
    return !o->request && nic->config.credit_packets && !o->peer->delivery.reliable;
}

static __attribute__((cold)) void tell_full(struct nic *nic, struct nic_peer *peer, bool full) {
    peer->full = full;
    nic->config.driver->full(nic->config.context, peer->delivery.address, full);
}

static void count_in(struct nic *nic, struct nic_peer *peer) {
    if (++peer->requests > nic->config.peer_requests && nic->config.peer_requests)
        tell_full(nic, peer, true);
}

/* Not as soon as there is room for one: who waits for room wakes up for many. */
static void count_out(struct nic *nic, struct nic_peer *peer, uint32_t requests) {
    peer->requests -= requests;
    if (peer->full && peer->requests <= nic->config.peer_requests / 2)
        tell_full(nic, peer, false);
}

void nic_depart_enqueue(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o) {
    bool first = goes_first(nic, o);
    o->queued = true;
    if (!peer->queue)
        peer->queue_end = peer->answers_end = &peer->queue;
    struct nic_outgoing **at = first ? peer->answers_end : peer->queue_end;
    o->next = *at;
    *at = o;
    if (first)
        peer->answers_end = &o->next;
    if (!o->next)
        peer->queue_end = &o->next;
    take_turn(nic, peer);
    if (o->request)
        count_in(nic, peer);
}

static void dequeue(struct nic *nic, struct nic_peer *peer) {
    struct nic_outgoing *o = peer->queue;
    peer->queue = o->next;
    o->queued = false;
    if (peer->answers_end == &o->next)
        peer->answers_end = &peer->queue;
    if (o->request)
        count_out(nic, peer, 1);
}

bool nic_is_full(const struct nic *nic, struct nic_address address) {
    const struct nic_peer *peer =
        (const struct nic_peer *)delivery_peer_known(&nic->delivery, address);
    return peer && peer->full;
}

static void unlink_outgoing(struct nic_outgoing *o) {
    *o->link_all = o->next_all;
    if (o->next_all)
        o->next_all->link_all = o->link_all;
}

static void end_stream(struct nic_outgoing *o) {
    struct nic_outgoing **at = &o->of->streams;
    while (*at != o)
        at = &(*at)->next_stream;
    *at = o->next_stream;
    o->of = NULL;
}

void nic_depart_forget(struct nic *nic, struct nic_outgoing *o) {
    unlink_outgoing(o);
    if (o->of)
        end_stream(o);
    if (o->wants_answer)
        delivery_expect_less(&o->peer->delivery);
    bool of_handler = o->of_handler;
    pool_give(&nic->outgoing, o);
    if (of_handler) {
        nic->handler_messages--;
        nic_command_room(nic);
    }
}

void nic_depart_over(struct nic *nic, struct nic_outgoing *o) {
    o->wants_answer = false;
    delivery_expect_less(&o->peer->delivery);
    if (!o->departing && !o->ready && o->packed == o->message.payload && o->begun)
        nic_depart_forget(nic, o);
}

/* ---- Packets of messages that wait ---- */

uint32_t nic_depart_pieces(struct nic *nic, const struct nic_outgoing *o, uint64_t from,
                           uint64_t bytes, struct nic_segment *piece, uint32_t room) {
    return o->reply_to
               ? portals_arrival_segments(&o->reply_to->arrival, from, bytes, piece, room)
               : portals_source_segments(nic->portals, o->initiator, from, bytes, piece, room);
}

/* What is no longer there is sent as zeroes. */
void nic_depart_fetch(struct nic *nic, struct nic_departure *d) {
    struct nic_outgoing *o = d->outgoing;
    struct nic_packet *packet = d->packet;
    bool on_card = !o->reply_to && portals_source_on_card(nic->portals, o->initiator);
    for (uint32_t have = 0; have < packet->bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint64_t from = packet->offset + have, bytes = packet->bytes - have;
        uint32_t pieces = nic_depart_pieces(nic, o, from, bytes, piece, NIC_SEGMENTS);
        if (!pieces) {
            memset(packet->data + have, 0, bytes);
            return;
        }
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_move move = {.kind = NIC_FETCH,
                                    .purpose = FETCH_DEPARTURE,
                                    .on_card = on_card,
                                    .record = d,
                                    .host = piece[i].host,
                                    .local = packet->data + have,
                                    .bytes = piece[i].bytes,
                                    .packet = packet};
            packet->bad |= nic_drive_move(nic, &move) >= NIC_FAULT;
            have += (uint32_t)piece[i].bytes;
        }
    }
}

#define LENT_MAX (1u << 30)

static bool is_lent(const struct nic *nic, const struct nic_packet *packet) {
    return packet->bytes > nic->config.mtu_bytes && !packet->run;
}

bool nic_depart_may_lend(const struct nic *nic, const struct nic_outgoing *o) {
    const struct nic_driver *driver = nic->config.driver;
    return driver->lends && o->begun && !o->ready && !o->from_handler && !o->peer->delivery.self &&
           (o->message.kind == NIC_PUT || o->reply_to) &&
           driver->lends(nic->config.context, o->peer->delivery.address);
}

/* The rest of a large put or reply where it lies, or as much of it as is in one piece; NULL: it is
 * copied, a packet at a time. */
static struct nic_packet *lend(struct nic *nic, struct nic_outgoing *o) {
    uint64_t left = o->message.payload - o->packed;
    struct nic_segment piece;
    if (left < NIC_LENT_MIN || !nic_depart_may_lend(nic, o) ||
        !nic_depart_pieces(nic, o, o->packed, left < LENT_MAX ? left : LENT_MAX, &piece, 1) ||
        piece.bytes < NIC_LENT_MIN || nic_drive_present(nic, piece.host, piece.bytes) < piece.bytes)
        return NULL;
    struct nic_packet *packet = nic_packet_new(nic->config.pool);
    if (!packet)
        return NULL;
    packet->bytes = (uint32_t)piece.bytes;
    packet->data = piece.host;
    packet->offset = o->packed;
    return packet;
}

/* How many packets a run of its next data has, if that may leave from where it lies; else 0. */
static uint32_t run_packets(const struct nic *nic, const struct nic_outgoing *o) {
    const struct nic_driver *driver = nic->config.driver;
    const struct delivery_peer *peer = &o->peer->delivery;
    if (!driver->in_place || peer->reliable || !o->begun || o->bad || o->ready || o->from_handler ||
        o->transfer || (o->message.kind != NIC_PUT && !o->reply_to) ||
        (!o->reply_to && portals_source_on_card(nic->portals, o->initiator)))
        return 0;
    uint64_t left = o->message.payload - o->packed, each = peer->packet_bytes;
    uint32_t most = driver->in_place(nic->config.context, peer->address, o->message.payload) /
                    peer->packet_bytes;
    most = most < UINT8_MAX ? most : UINT8_MAX;
    return left < most * each ? (uint32_t)((left + each - 1) / each) : most;
}

/* The next packets of a large put or reply as a run, if they may leave from where their data lies.
 */
static void run(struct nic *nic, const struct nic_outgoing *o, struct nic_packet *packet) {
    const struct delivery_peer *peer = &o->peer->delivery;
    uint32_t packets = run_packets(nic, o), room = delivery_room_packets(peer);
    uint64_t left = o->message.payload - o->packed, each = peer->packet_bytes;
    struct nic_segment piece;
    packets = packets < room ? packets : room;
    left = left < packets * each ? left : packets * each;
    if (!left || !nic_depart_pieces(nic, o, o->packed, left, &piece, 1) ||
        nic_drive_present(nic, piece.host, piece.bytes) < piece.bytes)
        return;
    if (piece.bytes < left) /* the rest lies elsewhere */
        piece.bytes -= piece.bytes % each;
    if (!piece.bytes)
        return;
    packet->data = piece.host;
    packet->bytes = (uint32_t)piece.bytes;
    packet->each = peer->packet_bytes;
    packet->run = (uint8_t)((piece.bytes + each - 1) / each);
}

/* A run that has room in part waits for all of it, if that is to come: a datagram costs much more
 * than its data. */
static bool awaits_room(const struct nic *nic, const struct nic_peer *peer) {
    return delivery_room_grows(&nic->delivery, &peer->delivery) &&
           delivery_room_packets(&peer->delivery) < run_packets(nic, peer->queue);
}

/* Of data on the card what is next, else one to be filled; NULL: no memory. */
static struct nic_packet *next_packet(struct nic *nic, struct nic_outgoing *o) {
    struct nic_packet *packet = o->ready;
    if (packet && (o->streams || packet->offset == o->packed)) {
        o->ready = packet->next;
        packet->next = NULL;
    } else if (!(packet = lend(nic, o))) {
        uint64_t left = (o->ready ? o->ready->offset : o->message.payload) - o->packed;
        uint32_t most = o->transfer ? 0 : o->peer->delivery.packet_bytes;
        packet = nic_packet_new(nic->config.pool);
        if (!packet)
            return NULL;
        packet->bytes = left < most ? (uint32_t)left : most;
        packet->offset = o->packed;
        run(nic, o, packet);
    }
    packet->first = !o->begun;
    if (packet->first)
        packet->message = o->message;
    o->begun = true;
    o->packed += packet->bytes;
    packet->last = o->packed == o->message.payload;
    return packet;
}

/* Nothing of it is left to be made a packet of. */
static bool is_packed(const struct nic_outgoing *o) {
    return o->packed == o->message.payload || (o->abandoned && !o->ready);
}

/* All packets of it have departed. */
static void gone(struct nic *nic, struct nic_outgoing *o) {
    nic->counts.messages_out++;
    if (o->request)
        portals_sent(nic->portals, o->initiator, o->bad ? PTL_NI_SEGV : PTL_NI_OK);
    if (o->reply_to) {
        if (o->bad)
            flow_failed(&o->reply_to->flow, PTL_NI_SEGV);
        o->reply_to->flow.work--;
        nic_receive_check(nic, o->reply_to);
    }
    if (!o->wants_answer)
        nic_depart_forget(nic, o);
}

void nic_depart_acknowledged(struct nic *nic, struct nic_outgoing *o) {
    o->packed = o->message.payload;
    if (!o->departing)
        gone(nic, o);
}

static void to_self(struct nic *nic, struct nic_packet *packet, bool from_handler) {
    nic->sending--;
    packet->next = NULL;
    *nic->loop_end = packet;
    nic->loop_end = &packet->next;
    nic_depart_left(nic, from_handler);
}

/* `o`: the message, NULL if the packet is sent again. */
static void to_wire(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                    uint64_t transmission, struct nic_outgoing *o, uint64_t lent) {
    struct nic_departed how = {.from_handler = o && o->from_handler,
                               .peer = peer,
                               .lent = lent,
                               .sequence = packet->sequence,
                               .more = nic_packet_count(packet) - 1,
                               .transmission = transmission};
    enum nic_status status = nic_drive_send(nic, packet, &how);
    how.unreadable = status >= NIC_FAULT && !packet->run; /* else it was not sent: it is lost */
    if (o && status >= NIC_FAULT && packet->run)
        o->bad = true; /* no further run of it is tried: each would be lost as well */
    if (how.unreadable && !lent)
        how.lent = delivery_take_back(&nic->delivery, &peer->delivery, packet->sequence);
    if (!nic_depart_later(peer, status))
        nic_packet_left(nic, &how);
}

void nic_depart_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                       uint64_t lent) {
    uint64_t transmission = delivery_departs(&nic->delivery, &peer->delivery, packet);
    if (peer->delivery.self) {
        to_self(nic, packet, false);
    } else {
        to_wire(nic, peer, packet, transmission, NULL, lent);
        nic_packet_release(packet);
    }
}

static void depart(struct nic *nic, struct nic_peer *peer) {
    for (struct nic_departure *d; (d = peer->departures) && !d->fetches;) {
        struct nic_outgoing *o = d->outgoing;
        struct nic_packet *packet = d->packet;
        peer->departures = d->next;
        if (packet->bad) {
            o->bad = true;
            memset(packet->data, 0, packet->bytes); /* of what was in its memory before, nothing */
        }
        uint64_t name = nic_number(nic, o) + 1, lent = is_lent(nic, packet) ? name : 0;
        if (packet->run)
            delivery_lend(&nic->delivery, &peer->delivery, packet, name);
        bool last = !lent && !packet->run && --o->departing == 0 && is_packed(o);
        bool from_handler = o->from_handler;
        pool_give(&nic->departures, d);
        uint64_t transmission = delivery_departs(&nic->delivery, &peer->delivery, packet);
        if (peer->delivery.self) {
            to_self(nic, packet, from_handler);
        } else {
            to_wire(nic, peer, packet, transmission, o, lent);
            nic_packet_release(packet);
        }
        if (last)
            gone(nic, o);
    }
}

void nic_depart_returned(struct nic *nic, uint64_t lent, bool unreadable) {
    struct nic_outgoing *o = nic_named(nic, lent - 1);
    if (o)
        o->bad |= unreadable;
    if (o && o->transfer)
        nic_block_returned(nic, o->transfer);
    else if (o && o->departing && --o->departing == 0 && o->packed == o->message.payload)
        gone(nic, o);
}

void nic_depart_arrived(void *context, uint64_t lent) {
    nic_depart_returned(context, lent, false);
}

/* False: no memory. */
static bool pack(struct nic *nic, struct nic_peer *peer) {
    struct nic_outgoing *o = peer->queue;
    bool blocks = nic_block_wanted(nic, o);
    struct nic_departure *d =
        !blocks || o->transfer || nic_block_begin(nic, o) ? pool_take(&nic->departures) : NULL;
    bool on_card = o->ready && (o->streams || o->ready->offset == o->packed);
    if (!d || !(d->packet = next_packet(nic, o))) {
        if (d)
            pool_give(&nic->departures, d);
        nic->counts.no_memory++;
        return false;
    }
    d->peer = peer;
    d->outgoing = o;
    delivery_number(&nic->delivery, &peer->delivery, d->packet, o->message_number);
    o->message_number = d->packet->message_number;
    nic->sending++;
    o->departing += nic_packet_count(d->packet);
    if (!peer->departures)
        peer->departures_end = &peer->departures;
    *peer->departures_end = d;
    peer->departures_end = &d->next;
    if (d->packet->last || blocks || (o->streams && !o->ready))
        dequeue(nic, peer);
    if (blocks)
        nic_block_announced(nic, o);
    if (!on_card && !is_lent(nic, d->packet) && !d->packet->run)
        nic_depart_fetch(nic, d);
    depart(nic, peer);
    return true;
}

void nic_depart_fetched(struct nic *nic, struct nic_departure *d, bool fault) {
    d->packet->bad |= fault;
    if (--d->fetches)
        return;
    if (d->packet->kind == NIC_BLOCK) {
        nic_block_fetched(nic, d);
        return;
    }
    if (d->outgoing) {
        depart(nic, d->peer);
        return;
    }
    nic_packet_release(d->packet); /* given up meanwhile */
    nic->sending--;
    pool_give(&nic->departures, d);
}

static bool has_packets(const struct nic_peer *peer) {
    return peer->queue || peer->ready || peer->reports;
}

static void end_turn(struct nic *nic, struct nic_peer *peer) {
    peer->turn_packets = 0;
    if (has_packets(peer))
        take_turn(nic, peer);
}

/* What waits for these may be what a peer without room is full of. False: there are none; `sent`:
 * there was memory for it. */
static bool send_answer(struct nic *nic, struct nic_peer *peer, bool *sent) {
    struct nic_transfer *t;
    if (!delivery_room_answer(&peer->delivery))
        return false;
    if (peer->reports)
        *sent = nic_block_send_report(nic, peer);
    else if (peer->queue && !peer->queue->request)
        *sent = pack(nic, peer);
    else if ((t = nic_block_ready_answer(peer)))
        *sent = nic_block_send(nic, peer, t);
    else
        return false;
    end_turn(nic, peer);
    return true;
}

bool nic_depart_more(struct nic *nic) {
    struct delivery_peer *to;
    uint64_t transmission;
    if (nic->sending >= nic->config.send_packets)
        return false;
    struct nic_packet bare, *packet = delivery_next(&nic->delivery, &to, &bare, &transmission);
    if (packet) {
        nic->sending++;
        to_wire(nic, (struct nic_peer *)to, packet, transmission, false, 0);
        return true;
    }
    for (struct nic_peer *peer; (peer = next_turn(nic));) {
        if (!has_packets(peer) || peer->busy)
            continue; /* nic_depart_room brings it back */
        bool sent = true;
        if (!delivery_room(&nic->delivery, &peer->delivery)) {
            if (send_answer(nic, peer, &sent))
                return sent;
            continue; /* likewise */
        }
        const struct nic_outgoing *o = peer->queue;
        if (!peer->reports && !peer->ready && awaits_room(nic, peer))
            continue; /* likewise */
        if (peer->reports || peer->ready) {
            bool other = peer->reports || !o || peer->block_turn;
            peer->block_turn = !peer->block_turn;
            if (peer->reports)
                sent = nic_block_send_report(nic, peer);
            else if (other)
                sent = nic_block_send(nic, peer, peer->ready);
            if (other) {
                if (sent && peer->ready && !peer->in_turn &&
                    ++peer->turn_packets < nic->config.turn_packets)
                    keep_turn(nic, peer);
                else
                    end_turn(nic, peer);
                return sent;
            }
        }
        if (!pack(nic, peer)) {
            take_turn(nic, peer); /* another time */
            return false;
        }
        bool goes_on = peer->queue == o && ++peer->turn_packets < nic->config.turn_packets;
        if (goes_on)
            keep_turn(nic, peer);
        else
            end_turn(nic, peer);
        return true;
    }
    return false;
}

void nic_depart_room(void *context, struct delivery_peer *delivery) {
    struct nic_peer *peer = (struct nic_peer *)delivery;
    if (has_packets(peer) && !peer->busy)
        take_turn(context, peer);
}

/* ---- Streams ---- */

/* It departs within the handler's command. */
static void stream_at_once(struct nic *nic, struct nic_outgoing *o, struct nic_packet *packet,
                           struct nic_task *task, uint32_t local_at) {
    struct nic_peer *peer = o->peer;
    const struct nic_departed how = {
        .from_handler = true, .task = task, .local_at = local_at, .peer = peer};
    packet->first = false;
    o->packed += packet->bytes;
    packet->last = o->packed == o->message.payload;
    delivery_number(&nic->delivery, &peer->delivery, packet, o->message_number);
    delivery_departs(&nic->delivery, &peer->delivery, packet);
    if (nic_depart_later(peer, nic_drive_send(nic, packet, &how)))
        nic->sending++;
    else
        nic_depart_left(nic, true);
    nic_packet_release(packet);
    if (!o->departing && is_packed(o))
        gone(nic, o);
}

void nic_depart_stream(struct nic *nic, struct nic_outgoing *o, struct nic_packet *packet,
                       struct nic_task *task, uint32_t local_at) {
    struct nic_peer *peer = o->peer;
    if (o->begun && !o->ready && peer->delivery.direct && !peer->queue && !peer->departures &&
        !peer->busy && !nic->turn && nic->sending < nic->config.send_packets) {
        stream_at_once(nic, o, packet, task, local_at);
        return;
    }
    struct nic_packet **end = &o->ready;
    while (*end)
        end = &(*end)->next;
    *end = packet;
    packet->next = NULL;
    if (!o->queued)
        nic_depart_enqueue(nic, peer, o);
}

void nic_depart_abandon(struct nic *nic, struct nic_incoming *in) {
    for (struct nic_outgoing *o; (o = in->streams);) {
        end_stream(o);
        o->abandoned = true;
        if (!o->departing && !o->queued)
            gone(nic, o);
    }
}

/* ---- The peer is lost ---- */

static void cancel_departures(struct nic *nic, struct nic_peer *peer) {
    for (struct nic_departure *d; (d = peer->departures);) {
        peer->departures = d->next;
        d->outgoing = NULL;
        if (d->fetches)
            continue; /* nic_depart_fetched releases it */
        nic_packet_release(d->packet);
        nic->sending--;
        pool_give(&nic->departures, d);
    }
}

void nic_depart_fail(struct nic *nic, struct nic_outgoing *o) {
    nic_block_drop(nic, o);
    bool departed = o->begun && !o->departing && o->packed == o->message.payload;
    uint32_t packets = o->departing;
    while (o->ready) {
        struct nic_packet *packet = o->ready;
        o->ready = packet->next;
        nic_packet_release(packet);
        packets++;
    }
    if (o->from_handler && packets) {
        nic->handler_packets -= packets;
        nic_command_room(nic);
    }
    if (o->request && (o->wants_answer || !departed))
        portals_failed(nic->portals, o->initiator, PTL_NI_UNDELIVERABLE);
    if (o->to_card)
        nic_command_answered(nic, o, true);
    if (o->reply_to && !departed) {
        o->reply_to->flow.work--;
        nic_receive_check(nic, o->reply_to);
    }
    nic_depart_forget(nic, o);
}

void nic_depart_lost(struct nic *nic, struct nic_peer *peer) {
    cancel_departures(nic, peer);
    nic_block_lost(nic, peer);
    peer->queue = NULL;
    count_out(nic, peer, peer->requests);
    peer->busy = false;
    struct nic_outgoing *all = peer->all;
    peer->all = NULL; /* what is sent from now on belongs to the next stream */
    if (all)
        all->link_all = &all;
    portals_lost(nic->portals, peer->delivery.address); /* and what has no record here */
    while (all) {
        struct nic_outgoing *o = all;
        if (!o->answer) {
            nic_depart_fail(nic, o);
            continue;
        }
        /* Its answer is partly here; whoever receives that ends it. */
        unlink_outgoing(o);
        nic_block_drop(nic, o);
        o->departing = 0;
        o->packed = o->message.payload;
        o->next_all = peer->all;
        o->link_all = &peer->all;
        if (peer->all)
            peer->all->link_all = &o->next_all;
        peer->all = o;
    }
}
