/* Messages in. The first packet is matched; every packet's data is stored, operated with, or given
 * to a handler as it comes; when nothing is left to come or to be done, Portals learns it. */
#include <string.h>

#include "nic/nic_private.h"

/* Data. */

/* Where bytes of a message go. */
static uint32_t pieces_at(struct nic *nic, const struct incoming *in, uint64_t offset,
                          uint64_t bytes, struct nic_segment *piece) {
    if (in->answered)
        return portals_reply_segments(nic->portals, in->answered->initiator, offset, bytes, piece,
                                      NIC_SEGMENTS);
    return portals_delivery_segments(nic->portals, in->delivery, offset, bytes, piece,
                                     NIC_SEGMENTS);
}

/* Bytes of a packet that are accepted. */
static uint64_t accepted(const struct incoming *in, const struct nic_packet *packet) {
    if (packet->offset >= in->mlength)
        return 0;
    uint64_t left = in->mlength - packet->offset;
    return left < packet->bytes ? left : packet->bytes;
}

/* A reply into HPU memory: on the card, so at once, and only while its handler waits for it. */
static void store_on_card(struct nic *nic, const struct incoming *in,
                          const struct nic_packet *packet) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint64_t bytes = accepted(in, packet);
    if (in->answered->waiting && pieces_at(nic, in, packet->offset, bytes, piece))
        memcpy(piece[0].host, packet->data, piece[0].bytes); /* it is one piece */
}

/* Moves the first `bytes` of a packet's data to where they go in host memory, or from there. */
static void move(struct nic *nic, struct incoming *in, struct nic_packet *packet, uint64_t bytes,
                 enum nic_action_kind way) {
    for (uint64_t done = 0; done < bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = pieces_at(nic, in, packet->offset + done, bytes - done, piece);
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_action action = {.host = piece[i].host,
                                        .local = packet->data + done,
                                        .bytes = piece[i].bytes,
                                        .packet = packet};
            struct transfer *t = nic_action(nic, way, MOVE_MESSAGE, action);
            t->incoming = in;
            t->packet = packet;
            nic_packet_keep(packet);
            in->pending++;
            done += piece[i].bytes;
        }
        if (!pieces)
            break; /* the interface was closed meanwhile */
    }
}

static void store(struct nic *nic, struct incoming *in, struct nic_packet *packet) {
    if (in->answered && in->answered->to_card)
        store_on_card(nic, in, packet);
    else
        move(nic, in, packet, accepted(in, packet), NIC_STORE);
    nic_packet_release(packet);
}

void nic_receive_moved(struct nic *nic, struct transfer *t) {
    nic_packet_release(t->packet);
    t->incoming->pending--;
    nic_receive_check(nic, t->incoming);
}

static void operate(struct nic *nic, struct incoming *in, struct nic_packet *packet) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint64_t bytes = accepted(in, packet);
    if (!bytes || !pieces_at(nic, in, packet->offset, bytes, piece)) {
        nic_packet_release(packet);
        return;
    }
    struct nic_action action = {
        .host = piece[0].host, .local = packet->data, .bytes = bytes, .packet = packet};
    struct transfer *t = nic_action(nic, NIC_AMO, APPLY_ATOMIC, action);
    t->incoming = in;
    t->packet = packet;
    in->pending++;
}

/* A packet of the reply, whose data is to be filled in. */
static struct nic_packet *add_result(struct nic *nic, struct incoming *in, uint64_t offset,
                                     uint64_t bytes) {
    struct nic_packet *result = need(nic_packet_new(nic->config.pool));
    result->offset = offset;
    result->bytes = (uint32_t)bytes;
    memset(result->data, 0, bytes);
    struct nic_packet **at = &in->results;
    while (*at && (*at)->offset < offset)
        at = &(*at)->next;
    result->next = *at;
    *at = result;
    return result;
}

void nic_receive_apply(struct nic *nic, struct transfer *t) {
    struct incoming *in = t->incoming;
    struct nic_packet *packet = t->packet, *result = NULL;
    uint64_t bytes = accepted(in, packet);
    if (in->message.kind == NIC_FETCH_ATOMIC)
        result = add_result(nic, in, packet->offset, bytes);
    portals_apply(nic->portals, in->delivery, packet->offset, packet->data, bytes,
                  result ? result->data : NULL);
    nic_receive_moved(nic, t);
}

/* A small get is read when it comes, not when its reply's turn to be sent has come: a put behind it
 * must not be seen by it (max_war_ordered_size). */
static void read_early(struct nic *nic, struct incoming *in) {
    struct nic_packet *result = add_result(nic, in, 0, in->mlength);
    move(nic, in, result, in->mlength, NIC_FETCH);
}

static void take_data(struct nic *nic, struct incoming *in, struct nic_packet *packet) {
    if (in->flow_control && !in->refused)
        in->dropped += accepted(in, packet);
    if (in->mode == MODE_HANDLERS)
        nic_handler_packet(nic, in, packet);
    else if (in->mode == MODE_DROP || packet->bytes == 0)
        nic_packet_release(packet);
    else if (in->message.kind == NIC_ATOMIC || in->message.kind == NIC_FETCH_ATOMIC)
        operate(nic, in, packet);
    else
        store(nic, in, packet);
}

/* From the first packet to the last. */

static struct outgoing *asked_for(struct nic *nic, const struct nic_peer *peer,
                                  const struct nic_message *m) {
    struct outgoing *o = records_at(&nic->outgoing, (uint32_t)m->initiator);
    if (!o || o->record.generation != (uint32_t)(m->initiator >> 32) || o->peer != peer ||
        !o->wants_answer || o->answer)
        return NULL;
    bool fetches = o->message.kind == NIC_GET || o->message.kind == NIC_FETCH_ATOMIC;
    return fetches == (m->kind == NIC_REPLY) ? o : NULL;
}

/* An answer: to what? Nobody's is dropped. */
static void match_answer(struct nic *nic, struct incoming *in) {
    in->delivery = PORTALS_NONE;
    in->mode = MODE_DROP;
    in->answered = asked_for(nic, in->peer, &in->message);
    if (!in->answered)
        return;
    in->answered->answer = in;
    in->mlength = in->message.payload < in->answered->message.length ? in->message.payload
                                                                     : in->answered->message.length;
    in->mode = MODE_DEFAULT;
}

static void match_request(struct nic *nic, struct incoming *in) {
    in->delivery = portals_header(nic->portals, &in->message);
    in->mode = MODE_DROP;
    if (in->delivery == PORTALS_NONE)
        return;
    const struct portals_delivery *d = portals_delivery(nic->portals, in->delivery);
    in->refused = d->fail != PTL_NI_OK;
    in->fail = d->fail;
    in->mlength = d->mlength;
    if (!in->refused)
        in->mode = MODE_DEFAULT;
}

static void close(struct incoming *in) {
    struct incoming **at = &in->peer->open;
    while (*at && *at != in)
        at = &(*at)->next_open;
    if (!*at)
        return;
    *at = in->next_open;
    delivery_expect_less(&in->peer->delivery);
}

static void open(struct nic *nic, struct incoming *in) {
    in->next_open = in->peer->open;
    in->peer->open = in;
    delivery_expect(nic->delivery, &in->peer->delivery, nic->now);
}

static void hold(struct incoming *in, struct nic_packet *packet) {
    packet->next = NULL;
    *in->waiting_end = packet;
    in->waiting_end = &packet->next;
}

static void first_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet) {
    struct incoming *in = need(records_take(&nic->incoming));
    nic->counts.messages_in++;
    in->peer = peer;
    in->message = packet->message;
    in->message_number = packet->message_number;
    in->waiting_end = &in->waiting;
    in->received = packet->bytes;
    if (in->received < in->message.payload)
        open(nic, in);
    if (in->message.kind >= NIC_ACK)
        match_answer(nic, in);
    else
        match_request(nic, in);
    hold(in, packet);
    in->pending++; /* by this function */
    if (in->mode == MODE_DEFAULT && nic_handlers(nic, in))
        nic_handler_message(nic, in, packet);
    else
        nic_receive_body(nic, in);
    in->pending--;
    nic_receive_check(nic, in);
}

static struct incoming *find_open(const struct nic_peer *peer, uint32_t message_number) {
    struct incoming *in = peer->open;
    while (in && in->message_number != message_number)
        in = in->next_open;
    return in;
}

static bool well_formed(const struct incoming *in, const struct nic_packet *packet) {
    uint64_t left = in->message.payload - in->received;
    return packet->bytes && packet->bytes <= left && packet->offset <= in->message.payload &&
           packet->bytes <= in->message.payload - packet->offset;
}

void nic_receive_packet(void *context, struct delivery_peer *delivery, struct nic_packet *packet) {
    struct nic *nic = context;
    struct nic_peer *peer = (struct nic_peer *)delivery;
    struct incoming *in = packet->first ? NULL : find_open(peer, packet->message_number);
    bool good = packet->first ? packet->offset == 0 && packet->bytes <= packet->message.payload &&
                                    packet->message.kind <= NIC_REPLY
                              : in && well_formed(in, packet);
    if (!good) {
        nic->counts.malformed++;
        nic_packet_release(packet);
        return;
    }
    if (packet->first) {
        first_packet(nic, peer, packet);
        return;
    }
    in->received += packet->bytes;
    if (in->received == in->message.payload)
        close(in);
    if (in->phase == PHASE_HEADER) {
        hold(in, packet);
        return;
    }
    take_data(nic, in, packet);
    nic_receive_check(nic, in);
}

/* The end. */

/* Portals sends the header of the reply through nic_send_message. */
static void reply(struct nic *nic, struct incoming *in) {
    in->replied = true;
    nic->replying = in;
    portals_reply(nic->portals, in->delivery);
    nic->replying = NULL;
}

static bool replies(const struct incoming *in) {
    return (in->message.kind == NIC_GET || in->message.kind == NIC_FETCH_ATOMIC) &&
           in->delivery != PORTALS_NONE && in->mode == MODE_DEFAULT && !in->aborted;
}

void nic_receive_body(struct nic *nic, struct incoming *in) {
    in->phase = PHASE_BODY;
    in->pending++; /* by this function */
    if (in->message.kind == NIC_GET && replies(in) && in->mlength &&
        in->mlength <= NIC_ORDERED_BYTES)
        read_early(nic, in);
    while (in->waiting) {
        struct nic_packet *packet = in->waiting;
        in->waiting = packet->next;
        packet->next = NULL;
        take_data(nic, in, packet);
    }
    in->pending--;
    nic_receive_check(nic, in);
}

void nic_receive_check(struct nic *nic, struct incoming *in) {
    if (in->phase != PHASE_BODY || in->pending ||
        (in->received < in->message.payload && !in->aborted))
        return;
    if (replies(in) && !in->replied) {
        reply(nic, in);
        if (in->pending)
            return; /* its data is being fetched */
    }
    in->phase = PHASE_COMPLETION;
    nic_handler_completion(nic, in);
}

static void finish_answer(struct nic *nic, struct incoming *in) {
    struct outgoing *o = in->answered;
    if (!o)
        return;
    o->answer = NULL;
    if (in->aborted) {
        portals_undeliverable(nic->portals, o->initiator);
    } else {
        struct nic_message answer = in->message;
        answer.initiator = o->initiator;
        portals_answered(nic->portals, &answer);
    }
    if (o->to_card)
        nic_command_answered(nic, o);
    nic_send_over(nic, o);
}

void nic_receive_finish(struct nic *nic, struct incoming *in) {
    struct incoming last = *in;
    while (in->results) {
        struct nic_packet *result = in->results;
        in->results = result->next;
        nic_packet_release(result);
    }
    records_give(&nic->incoming, in);
    if (last.message.kind >= NIC_ACK) {
        finish_answer(nic, &last);
        return;
    }
    struct portals_ending ending = {
        .fail = last.fail, .pending = last.pending_entry, .dropped = last.dropped};
    if (last.delivery != PORTALS_NONE)
        portals_done(nic->portals, last.delivery, ending);
}

/* The rest of what the peer has begun will not come. */
void nic_receive_lost(struct nic *nic, struct nic_peer *peer) {
    for (struct incoming *in; (in = peer->open);) {
        close(in);
        in->aborted = true;
        if (!in->fail)
            in->fail = PTL_NI_UNDELIVERABLE;
        uint64_t missing = in->message.payload - in->received;
        in->dropped += missing < in->mlength ? missing : in->mlength;
        nic_receive_check(nic, in);
    }
}
