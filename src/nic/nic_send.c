/* Messages out. A message of one packet, whose data is on the card or is none or is taken by the
 * driver itself, goes out at once when nothing waits before it. Else each peer has a queue; peers
 * take turns, of turn_packets of one message: few are fair, many are what a card with one send
 * queue does, and what a program counts on that sends to its farthest child first. A packet's data
 * is fetched from host memory into the packet; packets of a peer depart in order, when their data
 * is there. */
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

static void link_outgoing(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o) {
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

static void enqueue(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o) {
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

static void forget(struct nic *nic, struct nic_outgoing *o) {
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

/* Of a handler, which may have to wait before it makes more. */
static void count_for_handler(struct nic *nic, struct nic_outgoing *o,
                              const struct nic_origin *from) {
    o->of_handler = from->of_handler;
    nic->handler_messages += from->of_handler;
}

void nic_send_over(struct nic *nic, struct nic_outgoing *o) {
    o->wants_answer = false;
    delivery_expect_less(&o->peer->delivery);
    if (!o->departing && !o->ready && o->packed == o->message.payload && o->begun)
        forget(nic, o);
}

/* ---- At once ---- */

static __attribute__((noinline)) bool is_there(struct nic *nic, const uint8_t *data,
                                               uint64_t bytes) {
    return bytes <= nic->config.gather_bytes && nic_drive_present(nic, data, bytes) == bytes;
}

/* Nothing is before it, nothing may have to be repeated, and one packet is enough. */
static inline bool is_next(const struct nic *nic, const struct nic_peer *peer) {
    uintptr_t before = (uintptr_t)peer->queue | (uintptr_t)peer->departures | (uintptr_t)nic->turn;
    return !before && peer->delivery.direct && !peer->busy &&
           nic->sending < nic->config.send_packets;
}

/* A packet for data that the driver can take by itself, or for none; NULL: it cannot. */
static inline struct nic_packet *packet_for(struct nic *nic, const struct portals_outgoing *out) {
    uint64_t bytes = out->payload;
    bool can =
        !bytes || (out->data && (bytes <= nic->present_bytes || is_there(nic, out->data, bytes)));
    return can ? nic_drive_slot(nic, out->target) : NULL;
}

/* Of a handler, which may have made it: with data that is on the card. */
static __attribute__((noinline)) struct nic_message *
place_of_handler(struct nic *nic, struct portals_outgoing *out) {
    const struct nic_origin *from = out->origin;
    struct nic_packet *packet = from->ready;
    if (!packet)
        packet = packet_for(nic, out);
    else if (packet->bytes != out->payload || packet->bad)
        packet = NULL;
    out->packet = packet;
    return packet ? &packet->message : NULL;
}

/* Called by Portals, before nic_send_message: a message that may go at once is written into the
 * packet that leaves. */
static inline struct nic_message *place_at(struct nic *nic, struct nic_peer *peer,
                                           struct portals_outgoing *out) {
    out->peer = peer;
    out->packet = NULL;
    if (!is_next(nic, peer))
        return NULL;
    if (out->origin)
        return place_of_handler(nic, out);
    struct nic_packet *packet = packet_for(nic, out);
    out->packet = packet;
    return packet ? &packet->message : NULL;
}

static __attribute__((noinline)) struct nic_message *place_anywhere(struct nic *nic,
                                                                    struct portals_outgoing *out) {
    struct nic_peer *peer = (struct nic_peer *)delivery_peer_find(&nic->delivery, out->target);
    if (peer)
        return place_at(nic, peer, out);
    out->peer = out->packet = NULL;
    return NULL;
}

struct nic_message *nic_send_place(void *context, struct portals_outgoing *out) {
    struct nic *nic = context;
    struct delivery_peer *peer = nic->delivery.last_peer;
    if (!peer || !nic_address_equal(peer->address, out->target))
        return place_anywhere(nic, out);
    return place_at(nic, (struct nic_peer *)peer, out);
}

static void left_at_once(struct nic *nic, bool from_handler) {
    if (!from_handler)
        return;
    nic->handler_packets--;
    nic_command_room(nic);
}

/* Whether nic_left follows what the driver said of a packet. */
static inline bool is_pending(struct nic_peer *peer, enum nic_status status) {
    peer->busy |= status == NIC_BUSY;
    return status == NIC_PENDING || status == NIC_BUSY;
}

/* A packet that has not left yet, or is a handler's, or from the pool. */
static __attribute__((noinline)) enum portals_sending
sent_otherwise(struct nic *nic, struct nic_packet *packet, struct nic_peer *peer,
               const struct nic_origin *from, enum nic_status status) {
    if (is_pending(peer, status))
        nic->sending++;
    else
        left_at_once(nic, from && from->from_handler);
    if (status >= NIC_FAULT && from && from->reply_to)
        flow_failed(&from->reply_to->flow, PTL_NI_SEGV);
    if (packet->references)
        nic_packet_release(packet);
    return status < NIC_FAULT ? PORTALS_LEFT : PORTALS_UNREADABLE;
}

/* What a handler has sent: its packet is done with. */
static __attribute__((noinline)) void left_short(struct nic *nic, struct nic_origin *from) {
    struct nic_packet *packet = from->ready;
    from->ready = NULL;
    left_at_once(nic, from->from_handler);
    if (packet && packet->references)
        nic_packet_release(packet);
}

/* The packet is in the driver's memory, or from the pool; `from` is the message's origin. */
static inline __attribute__((always_inline)) enum portals_sending
send_whole(struct nic *nic, const struct portals_outgoing *out, struct nic_origin *from) {
    struct nic_peer *peer = out->peer;
    struct nic_packet *packet = out->packet;
    struct nic_departed how = {.peer = peer};
    if (from) {
        how.from_handler = from->from_handler;
        how.task = from->task;
        how.local_at = from->local_at;
    }
    if (from && from->ready)
        from->ready = NULL;
    else if (out->payload)
        packet->data = out->data;
    packet->kind = NIC_DATA;
    packet->first = packet->last = true;
    packet->bad = false;
    packet->source = nic->config.address;
    packet->target = out->target;
    memset(&packet->stream, 0,
           offsetof(struct nic_packet, message_number) - offsetof(struct nic_packet, stream));
    packet->message_number = peer->delivery.next_message++; /* all that is due: it is reliable */
    packet->offset = 0;
    packet->bytes = (uint32_t)out->payload;
    nic->counts.sent++;
    enum nic_status status = nic_drive_send(nic, packet, &how);
    nic->counts.messages_out++;
    if (status == NIC_DONE && !from && !packet->references)
        return PORTALS_LEFT;
    return sent_otherwise(nic, packet, how.peer, from, status);
}

static __attribute__((noinline)) enum portals_sending
send_of_handler(struct nic *nic, const struct portals_outgoing *out) {
    return send_whole(nic, out, out->origin);
}

static __attribute__((noinline)) enum portals_sending
send_at_once(struct nic *nic, const struct portals_outgoing *out) {
    return out->origin ? send_of_handler(nic, out) : send_whole(nic, out, NULL);
}

/* Without a packet where the driver can. */
static __attribute__((noinline)) enum portals_sending
send_short(struct nic *nic, const struct portals_outgoing *out) {
    const struct nic_driver *driver = nic->config.driver;
    struct nic_origin *from = out->origin;
    struct delivery_peer *peer = out->peer; /* a nic_peer begins with it */
    const uint8_t *data = from && from->ready ? from->ready->data : out->data;
    if (!driver->send_short(nic->config.context, out->message, peer->next_message, data))
        return send_at_once(nic, out);
    peer->next_message++;
    nic->counts.sent++;
    nic->counts.messages_out++;
    if (from)
        left_short(nic, from);
    return PORTALS_LEFT;
}

/* Called by Portals, before all else where the driver needs no packets. */
bool nic_send_put(void *context, const struct nic_message *m, const uint8_t *data) {
    struct nic *nic = context;
    struct nic_peer *peer = (struct nic_peer *)delivery_peer(&nic->delivery, m->target);
    if (!peer || !is_next(nic, peer) ||
        (m->payload > nic->present_bytes && !is_there(nic, data, m->payload)) ||
        !nic->config.driver->send_short(nic->config.context, m, peer->delivery.next_message, data))
        return false;
    peer->delivery.next_message++;
    nic->counts.sent++;
    nic->counts.messages_out++;
    return true;
}

/* ---- From Portals ---- */

bool nic_spare(struct nic *nic) {
    return pool_spare(&nic->outgoing) && pool_spare(&nic->leaving);
}

/* A request leaves a spare one for an answer, of which nobody can be told that there is no memory;
 * NULL: there is none. */
static struct nic_outgoing *take_record(struct nic *nic, bool request) {
    struct nic_outgoing *o = pool_take_raw(&nic->outgoing);
    if (!o || nic_spare(nic) || !request)
        return o;
    pool_give(&nic->outgoing, o);
    return NULL;
}

/* NULL: no memory. */
static struct nic_outgoing *outgoing_new(struct nic *nic, struct portals_outgoing *out,
                                         bool wants_answer) {
    uint64_t initiator = out->message->initiator;
    bool request = out->message->kind < NIC_ACK;
    if (request && !portals_outgoing_keep(nic->portals, out, &initiator))
        return NULL;
    struct nic_outgoing *o = take_record(nic, request);
    if (!o)
        return NULL;
    const size_t from = offsetof(struct nic_outgoing, next);
    memset((uint8_t *)o + from, 0, offsetof(struct nic_outgoing, message) - from);
    o->initiator = initiator;
    o->request = request;
    o->wants_answer = wants_answer;
    return o;
}

static bool wants_reply(const struct nic_message *m) {
    return m->kind == NIC_GET || m->kind == NIC_FETCH_ATOMIC;
}

static bool wants_ack(const struct nic_message *m) {
    return m->kind < NIC_ACK && m->ack_req != PTL_NO_ACK_REQ;
}

static void fail(struct nic *nic, struct nic_outgoing *o);

/* An answer that will not be sent: whoever waits for it must learn that. */
static void unanswered(struct nic *nic, const struct nic_message *answer, struct nic_peer *peer) {
    if (!peer->delivery.self) {
        delivery_fail(&nic->delivery, &peer->delivery, nic->now);
        return;
    }
    struct nic_outgoing *o = nic_named(nic, answer->initiator);
    if (o)
        fail(nic, o);
}

static enum portals_sending no_memory(struct nic *nic, const struct portals_outgoing *out) {
    const struct nic_origin *from = out->origin;
    struct nic_packet *packet = out->packet;
    if (packet && packet->references && !(from && from->ready))
        nic_packet_release(packet);
    nic->counts.no_memory++;
    if (out->message->kind >= NIC_ACK && out->peer)
        unanswered(nic, out->message, out->peer);
    return PORTALS_NO_MEMORY;
}

/* Into the queue of its peer. */
static __attribute__((noinline)) enum portals_sending queue_message(struct nic *nic,
                                                                    struct portals_outgoing *out) {
    const struct nic_message *m = out->message;
    struct nic_peer *peer = out->peer;
    struct nic_origin *from = out->origin;
    struct nic_outgoing *o = peer ? outgoing_new(nic, out, wants_reply(m) || wants_ack(m)) : NULL;
    if (!o)
        return no_memory(nic, out);
    o->message = *m;
    if (o->request)
        o->message.initiator = nic_number(nic, o);
    if (from) {
        o->ready = from->ready;
        o->from_handler = from->from_handler;
        o->streams = from->streams;
        count_for_handler(nic, o, from);
        o->reply_to = out->arrival ? from->reply_to : NULL;
        from->ready = NULL;
        from->made = o;
    }
    if (o->reply_to)
        o->reply_to->flow.work++;
    link_outgoing(nic, peer, o);
    enqueue(nic, peer, o);
    return PORTALS_KEPT;
}

/* A get or fetch that leaves at once: its reply needs a record, but for the message. */
static __attribute__((noinline)) enum portals_sending ask_at_once(struct nic *nic,
                                                                  struct portals_outgoing *out) {
    struct nic_message *m = out->message;
    struct nic_origin *from = out->origin;
    struct nic_outgoing *o = outgoing_new(nic, out, true);
    if (!o)
        return no_memory(nic, out);
    m->initiator = nic_number(nic, o);
    o->message.kind = m->kind; /* what the answer is checked against is enough */
    o->message.length = m->length;
    o->message.payload = m->payload;
    o->begun = true;
    o->packed = m->payload;
    if (from) {
        from->made = o;
        count_for_handler(nic, o, from);
    }
    link_outgoing(nic, out->peer, o);
    enum portals_sending how = send_at_once(nic, out);
    if (how != PORTALS_LEFT)
        forget(nic, o);
    return how;
}

static inline enum portals_sending leave(struct nic *nic, const struct portals_outgoing *out) {
    return nic->config.driver->send_short ? send_short(nic, out) : send_at_once(nic, out);
}

/* Portals has all that an acknowledgement needs: the message travels with the number there. */
static __attribute__((noinline)) enum portals_sending leave_for_ack(struct nic *nic,
                                                                    struct portals_outgoing *out) {
    if (!portals_outgoing_keep(nic->portals, out, &out->message->initiator))
        return no_memory(nic, out);
    out->message->initiator |= NIC_UNRECORDED;
    return leave(nic, out);
}

/* Called by Portals, for every message. */
enum portals_sending nic_send_message(void *context, struct portals_outgoing *out) {
    struct nic *nic = context;
    const struct nic_message *m = out->message;
    if (!out->packet)
        return queue_message(nic, out);
    if (wants_reply(m))
        return ask_at_once(nic, out);
    return wants_ack(m) ? leave_for_ack(nic, out) : leave(nic, out);
}

/* ---- Packets of messages that wait ---- */

uint32_t nic_send_pieces(struct nic *nic, const struct nic_outgoing *o, uint64_t from,
                         uint64_t bytes, struct nic_segment *piece, uint32_t room) {
    return o->reply_to
               ? portals_arrival_segments(&o->reply_to->arrival, from, bytes, piece, room)
               : portals_source_segments(nic->portals, o->initiator, from, bytes, piece, room);
}

/* What is no longer there is sent as zeroes. */
void nic_send_fetch(struct nic *nic, struct nic_departure *d) {
    struct nic_outgoing *o = d->outgoing;
    struct nic_packet *packet = d->packet;
    bool on_card = !o->reply_to && portals_source_on_card(nic->portals, o->initiator);
    for (uint32_t have = 0; have < packet->bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint64_t from = packet->offset + have, bytes = packet->bytes - have;
        uint32_t pieces = nic_send_pieces(nic, o, from, bytes, piece, NIC_SEGMENTS);
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

bool nic_send_may_lend(const struct nic *nic, const struct nic_outgoing *o) {
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
    if (left < NIC_LENT_MIN || !nic_send_may_lend(nic, o) ||
        !nic_send_pieces(nic, o, o->packed, left < LENT_MAX ? left : LENT_MAX, &piece, 1) ||
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
    if (!driver->in_place || peer->reliable || !o->begun || o->ready || o->from_handler ||
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
    if (!left || !nic_send_pieces(nic, o, o->packed, left, &piece, 1) ||
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
        forget(nic, o);
}

void nic_send_acknowledged(struct nic *nic, struct nic_outgoing *o) {
    o->packed = o->message.payload;
    if (!o->departing)
        gone(nic, o);
}

static void to_self(struct nic *nic, struct nic_packet *packet, bool from_handler) {
    nic->sending--;
    packet->next = NULL;
    *nic->loop_end = packet;
    nic->loop_end = &packet->next;
    left_at_once(nic, from_handler);
}

static void to_wire(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                    uint64_t transmission, bool from_handler, uint64_t lent) {
    struct nic_departed how = {.from_handler = from_handler,
                               .peer = peer,
                               .lent = lent,
                               .sequence = packet->sequence,
                               .more = nic_packet_count(packet) - 1,
                               .transmission = transmission};
    enum nic_status status = nic_drive_send(nic, packet, &how);
    how.unreadable = status >= NIC_FAULT && !packet->run; /* else it was not sent: it is lost */
    if (how.unreadable && !lent)
        how.lent = delivery_take_back(&nic->delivery, &peer->delivery, packet->sequence);
    if (!is_pending(peer, status))
        nic_packet_left(nic, &how);
}

void nic_send_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                     uint64_t lent) {
    uint64_t transmission = delivery_departs(&nic->delivery, &peer->delivery, packet);
    if (peer->delivery.self) {
        to_self(nic, packet, false);
    } else {
        to_wire(nic, peer, packet, transmission, false, lent);
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
            to_wire(nic, peer, packet, transmission, from_handler, lent);
            nic_packet_release(packet);
        }
        if (last)
            gone(nic, o);
    }
}

void nic_send_returned(struct nic *nic, uint64_t lent, bool unreadable) {
    struct nic_outgoing *o = nic_named(nic, lent - 1);
    if (o)
        o->bad |= unreadable;
    if (o && o->transfer)
        nic_block_returned(nic, o->transfer);
    else if (o && o->departing && --o->departing == 0 && o->packed == o->message.payload)
        gone(nic, o);
}

void nic_send_arrived(void *context, uint64_t lent) {
    nic_send_returned(context, lent, false);
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
        nic_send_fetch(nic, d);
    depart(nic, peer);
    return true;
}

void nic_send_fetched(struct nic *nic, struct nic_departure *d, bool fault) {
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

bool nic_send_more(struct nic *nic) {
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
            continue; /* nic_send_room brings it back */
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

void nic_send_room(void *context, struct delivery_peer *delivery) {
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
    if (is_pending(peer, nic_drive_send(nic, packet, &how)))
        nic->sending++;
    else
        left_at_once(nic, true);
    nic_packet_release(packet);
    if (!o->departing && is_packed(o))
        gone(nic, o);
}

void nic_send_stream(struct nic *nic, struct nic_outgoing *o, struct nic_packet *packet,
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
        enqueue(nic, peer, o);
}

void nic_send_abandon(struct nic *nic, struct nic_incoming *in) {
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
            continue; /* nic_send_fetched releases it */
        nic_packet_release(d->packet);
        nic->sending--;
        pool_give(&nic->departures, d);
    }
}

static void fail(struct nic *nic, struct nic_outgoing *o) {
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
        nic_command_answered(nic, o);
    if (o->reply_to && !departed) {
        o->reply_to->flow.work--;
        nic_receive_check(nic, o->reply_to);
    }
    forget(nic, o);
}

void nic_send_lost(struct nic *nic, struct nic_peer *peer) {
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
            fail(nic, o);
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
