/* Messages out. Each peer has a queue; peers take turns, of turn_packets of one message: few are
 * fair, many are what a card with one send queue does, and what a program counts on that sends to
 * its farthest child first. A packet's data is fetched from host memory into the packet; packets of
 * a peer depart in order, when their data is there. */
#include <string.h>

#include "nic/nic_private.h"

/* Queues. */

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

static void link_outgoing(struct nic *nic, struct nic_peer *peer, struct outgoing *o) {
    o->peer = peer;
    o->next_all = peer->all;
    o->link_all = &peer->all;
    if (peer->all)
        peer->all->link_all = &o->next_all;
    peer->all = o;
    if (!peer->queue)
        peer->queue_end = &peer->queue;
    *peer->queue_end = o;
    peer->queue_end = &o->next;
    if (o->wants_answer)
        delivery_expect(nic->delivery, &peer->delivery, nic->now);
    take_turn(nic, peer);
}

static void unlink_outgoing(struct outgoing *o) {
    *o->link_all = o->next_all;
    if (o->next_all)
        o->next_all->link_all = o->link_all;
}

static void forget(struct nic *nic, struct outgoing *o) {
    unlink_outgoing(o);
    if (o->wants_answer)
        delivery_expect_less(&o->peer->delivery);
    records_give(&nic->outgoing, o);
}

void nic_send_over(struct nic *nic, struct outgoing *o) {
    o->wants_answer = false;
    delivery_expect_less(&o->peer->delivery);
    if (!o->departing && !o->ready && o->packed == o->message.payload && o->begun)
        forget(nic, o);
}

/* Called by Portals, for every message. */
void nic_send_message(void *context, const struct nic_message *message, uint32_t delivery) {
    struct nic *nic = context;
    struct outgoing *o = need(records_take(&nic->outgoing));
    o->message = *message;
    o->delivery = delivery;
    o->initiator = message->initiator;
    o->request = message->kind < NIC_ACK;
    if (o->request) {
        o->message.initiator = (uint64_t)o->record.generation << 32 | o->record.index;
        o->wants_answer = message->kind == NIC_GET || message->kind == NIC_FETCH_ATOMIC ||
                          message->ack_req != PTL_NO_ACK_REQ;
    }
    o->ready = nic->from_device;
    o->from_handler = nic->from_device;
    nic->from_device = NULL;
    nic->made = o;
    if (message->kind == NIC_REPLY && delivery != PORTALS_NONE && nic->replying) {
        o->reply_to = nic->replying;
        o->reply_to->pending++;
        o->ready = o->reply_to->results;
        o->reply_to->results = NULL;
    }
    link_outgoing(nic, (struct nic_peer *)delivery_peer(nic->delivery, message->target), o);
}

/* Packets. */

/* Asks for the data of a packet. What is no longer there is sent as zeroes. */
static void fetch(struct nic *nic, struct departure *d) {
    struct outgoing *o = d->outgoing;
    struct nic_packet *packet = d->packet;
    for (uint32_t have = 0; have < packet->bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint64_t from = packet->offset + have, bytes = packet->bytes - have;
        uint32_t pieces = o->message.kind == NIC_REPLY
                              ? portals_delivery_segments(nic->portals, o->delivery, from, bytes,
                                                          piece, NIC_SEGMENTS)
                              : portals_source_segments(nic->portals, o->initiator, from, bytes,
                                                        piece, NIC_SEGMENTS);
        if (!pieces) {
            memset(packet->data + have, 0, bytes);
            return;
        }
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_action action = {.host = piece[i].host,
                                        .local = packet->data + have,
                                        .bytes = piece[i].bytes,
                                        .packet = packet};
            nic_action(nic, NIC_FETCH, FETCH_DEPARTURE, action)->departure = d;
            d->fetches++;
            have += (uint32_t)piece[i].bytes;
        }
    }
}

static struct nic_packet *next_packet(struct nic *nic, struct outgoing *o) {
    struct nic_packet *packet = o->ready;
    if (packet) {
        o->ready = packet->next;
        packet->next = NULL;
    } else {
        packet = need(nic_packet_new(nic->config.pool));
        uint64_t left = o->message.payload - o->packed;
        packet->bytes = left < nic->config.mtu_bytes ? (uint32_t)left : nic->config.mtu_bytes;
        packet->offset = o->packed;
    }
    packet->first = !o->begun;
    if (packet->first)
        packet->message = o->message;
    o->begun = true;
    o->packed += packet->bytes;
    packet->last = o->packed == o->message.payload;
    return packet;
}

/* All packets of it have departed. */
static void gone(struct nic *nic, struct outgoing *o) {
    nic->counts.messages_out++;
    if (o->request)
        portals_sent(nic->portals, o->initiator);
    if (o->reply_to) {
        o->reply_to->pending--;
        nic_receive_check(nic, o->reply_to);
    }
    if (!o->wants_answer)
        forget(nic, o);
}

static void to_wire(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                    uint64_t transmission, bool from_handler) {
    struct nic_action action = {.packet = packet, .from_handler = from_handler};
    struct transfer *t = nic_action(nic, NIC_SEND, SEND_PACKET, action);
    t->peer = peer;
    t->sequence = packet->sequence;
    t->transmission = transmission;
}

static void to_self(struct nic *nic, struct nic_packet *packet, bool from_handler) {
    nic->sending--;
    packet->next = NULL;
    *nic->loop_end = packet;
    nic->loop_end = &packet->next;
    if (from_handler) {
        nic->handler_packets--;
        nic_command_room(nic);
    }
}

static void depart(struct nic *nic, struct nic_peer *peer) {
    for (struct departure *d; (d = peer->departures) && !d->fetches;) {
        struct outgoing *o = d->outgoing;
        peer->departures = d->next;
        uint64_t transmission = delivery_departs(nic->delivery, &peer->delivery, d->packet);
        if (peer->delivery.address.nid == nic->config.address.nid &&
            peer->delivery.address.pid == nic->config.address.pid)
            to_self(nic, d->packet, o->from_handler);
        else
            to_wire(nic, peer, d->packet, transmission, o->from_handler);
        bool last = --o->departing == 0 && o->packed == o->message.payload;
        records_give(&nic->departures, d);
        if (last)
            gone(nic, o);
    }
}

static void pack(struct nic *nic, struct nic_peer *peer) {
    struct outgoing *o = peer->queue;
    struct departure *d = need(records_take(&nic->departures));
    bool on_card = o->ready;
    d->peer = peer;
    d->outgoing = o;
    d->packet = next_packet(nic, o);
    delivery_number(nic->delivery, &peer->delivery, d->packet);
    nic->sending++;
    o->departing++;
    if (!peer->departures)
        peer->departures_end = &peer->departures;
    *peer->departures_end = d;
    peer->departures_end = &d->next;
    if (d->packet->last)
        peer->queue = o->next;
    if (!on_card)
        fetch(nic, d);
    depart(nic, peer);
}

void nic_send_fetched(struct nic *nic, struct departure *d) {
    if (--d->fetches)
        return;
    if (d->outgoing) {
        depart(nic, d->peer);
        return;
    }
    nic_packet_release(d->packet); /* given up meanwhile */
    nic->sending--;
    records_give(&nic->departures, d);
}

bool nic_send_more(struct nic *nic) {
    struct delivery_peer *to;
    uint64_t transmission;
    if (nic->sending >= nic->config.send_packets)
        return false;
    struct nic_packet *packet = delivery_next(nic->delivery, &to, &transmission);
    if (packet) {
        nic->sending++;
        to_wire(nic, (struct nic_peer *)to, packet, transmission, false);
        return true;
    }
    for (struct nic_peer *peer; (peer = next_turn(nic));) {
        if (!peer->queue || !delivery_room(nic->delivery, &peer->delivery))
            continue; /* nic_send_room brings it back */
        const struct outgoing *o = peer->queue;
        pack(nic, peer);
        bool goes_on = peer->queue == o && ++peer->turn_packets < nic->config.turn_packets;
        if (!goes_on)
            peer->turn_packets = 0;
        if (goes_on)
            keep_turn(nic, peer);
        else if (peer->queue)
            take_turn(nic, peer);
        return true;
    }
    return false;
}

void nic_send_room(void *context, struct delivery_peer *delivery) {
    struct nic_peer *peer = (struct nic_peer *)delivery;
    if (peer->queue)
        take_turn(context, peer);
}

/* The peer is lost. */

static void cancel_departures(struct nic *nic, struct nic_peer *peer) {
    for (struct departure *d; (d = peer->departures);) {
        peer->departures = d->next;
        d->outgoing = NULL;
        if (d->fetches)
            continue; /* nic_send_fetched releases it */
        nic_packet_release(d->packet);
        nic->sending--;
        records_give(&nic->departures, d);
    }
}

static void fail(struct nic *nic, struct outgoing *o) {
    bool departed = o->begun && !o->departing && o->packed == o->message.payload;
    while (o->ready) {
        struct nic_packet *packet = o->ready;
        o->ready = packet->next;
        nic_packet_release(packet);
    }
    if (o->from_handler && !departed) {
        nic->handler_packets--;
        nic_command_room(nic);
    }
    if (o->request && (o->wants_answer || !departed))
        portals_undeliverable(nic->portals, o->initiator);
    if (o->to_card)
        nic_command_answered(nic, o);
    if (o->reply_to && !departed) {
        o->reply_to->pending--;
        nic_receive_check(nic, o->reply_to);
    }
    forget(nic, o);
}

void nic_send_lost(struct nic *nic, struct nic_peer *peer) {
    cancel_departures(nic, peer);
    peer->queue = NULL;
    struct outgoing *all = peer->all;
    peer->all = NULL; /* what is sent from now on belongs to the next stream */
    if (all)
        all->link_all = &all;
    while (all) {
        struct outgoing *o = all;
        if (!o->answer) {
            fail(nic, o);
            continue;
        }
        /* Its answer is partly here; whoever receives that ends it. */
        unlink_outgoing(o);
        o->departing = 0;
        o->packed = o->message.payload;
        o->next_all = peer->all;
        o->link_all = &peer->all;
        if (peer->all)
            peer->all->link_all = &o->next_all;
        peer->all = o;
    }
}
