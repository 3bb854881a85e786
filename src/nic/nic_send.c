/* Messages out, as Portals gives them to the card. One of one packet, whose data is on the card or
 * is none or is taken by the driver itself, goes out at once when nothing waits before it. Every
 * other gets a record and waits in the queue of its peer (nic_depart.c). */
#include <string.h>

#include "nic/nic_private.h"

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

/* A packet that has not left yet, or is a handler's, or from the pool. */
static __attribute__((noinline)) enum portals_sending
sent_otherwise(struct nic *nic, struct nic_packet *packet, struct nic_peer *peer,
               const struct nic_origin *from, enum nic_status status) {
    if (nic_depart_later(peer, status))
        nic->sending++;
    else
        nic_depart_left(nic, from && from->from_handler);
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
    nic_depart_left(nic, from->from_handler);
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
    return pool_spare(&nic->outgoing) && pool_spare(&nic->later);
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

/* An answer that will not be sent: whoever waits for it must learn that. */
static void unanswered(struct nic *nic, const struct nic_message *answer, struct nic_peer *peer) {
    if (!peer->delivery.self) {
        delivery_fail(&nic->delivery, &peer->delivery, nic->now);
        return;
    }
    struct nic_outgoing *o = nic_named(nic, answer->initiator);
    if (o)
        nic_depart_fail(nic, o);
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

/* Of a handler, which may have to wait before it makes more. */
static void count_for_handler(struct nic *nic, struct nic_outgoing *o,
                              const struct nic_origin *from) {
    o->of_handler = from->of_handler;
    nic->handler_messages += from->of_handler;
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
    nic_depart_link(nic, peer, o);
    nic_depart_enqueue(nic, peer, o);
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
    nic_depart_link(nic, out->peer, o);
    enum portals_sending how = send_at_once(nic, out);
    if (how != PORTALS_LEFT)
        nic_depart_forget(nic, o);
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
