/* Messages in. The first packet is matched; every packet's data is stored, operated with, or given
 * to a handler as it comes; when nothing is left to come or to be done, Portals learns it. */
#include <string.h>

#include "base/guarded_copy.h"
#include "nic/nic_private.h"

/* ---- Records ---- */

/* It becomes a record, because something of it stays; NULL: no memory. */
struct nic_incoming *nic_receive_keep(struct nic *nic, struct nic_incoming *in) {
    if (in->slot.used || in->kept)
        return in->slot.used ? in : in->kept;
    struct nic_incoming *kept = pool_take_raw(&nic->incoming);
    if (!kept)
        return NULL;
    const size_t from = sizeof in->slot, to = offsetof(struct nic_incoming, arrival);
    memcpy((uint8_t *)kept + from, (const uint8_t *)in + from, to - from);
    kept->own = *in->message;
    kept->message = &kept->own;
    if (nic_is_request(in))
        portals_arrival_keep(&kept->arrival, &in->arrival, &kept->own);
    kept->waiting_end = &kept->waiting; /* nothing waits yet */
    return in->kept = kept;
}

struct nic_incoming *nic_receive_keep_plain(struct nic *nic, const struct nic_plain *plain) {
    struct nic_incoming *in = pool_take_raw(&nic->incoming);
    if (!in)
        return NULL;
    const size_t from = offsetof(struct nic_incoming, kept);
    memset((uint8_t *)in + from, 0, offsetof(struct nic_incoming, arrival) - from);
    in->peer = plain->peer;
    in->own = plain->packet->message;
    in->message = &in->own;
    in->message_number = plain->packet->message_number;
    in->mlength = plain->at.mlength;
    in->received = plain->packet->bytes;
    in->waiting_end = &in->waiting;
    in->flow.payload = FLOW_STORED;
    in->flow.phase = FLOW_BODY;
    portals_plain_keep(&in->arrival, &plain->at, &in->own);
    return in;
}

/* ---- Data ---- */

uint32_t nic_receive_pieces(struct nic *nic, const struct nic_incoming *in, uint64_t offset,
                            uint64_t bytes, struct nic_segment *piece) {
    if (in->answered)
        return portals_reply_segments(nic->portals, in->answered->initiator, offset, bytes, piece,
                                      NIC_SEGMENTS);
    return nic_is_request(in)
               ? portals_arrival_segments(&in->arrival, offset, bytes, piece, NIC_SEGMENTS)
               : 0;
}

/* Of a message that may still be on the stack. */
static void failed(struct nic_incoming *in, uint8_t fail) {
    flow_failed(&(in->kept ? in->kept : in)->flow, fail);
}

/* A reply into HPU memory: on the card, so at once, and only while its handler waits for it. */
static void store_on_card(struct nic *nic, const struct nic_incoming *in,
                          const struct nic_packet *packet) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint64_t bytes = nic_accepted(in, packet);
    if (in->answered->waiting && nic_receive_pieces(nic, in, packet->offset, bytes, piece))
        memcpy(piece[0].host, packet->data, piece[0].bytes); /* it is one piece */
}

static void move_failed(struct nic_incoming *in, struct nic_packet *packet, uint8_t way,
                        enum nic_status how) {
    failed(in, how == NIC_GONE ? PTL_NI_UNDELIVERABLE : PTL_NI_SEGV);
    packet->bad |= way == NIC_FETCH; /* of a reply: who asked learns it, too */
    if (packet->kind == NIC_BLOCK)
        nic_block_failed(in, packet);
}

static void move_piece(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet,
                       uint64_t at, struct nic_segment piece, enum nic_move_kind way) {
    struct nic_move m;
    m.kind = (uint8_t)way;
    m.purpose = MOVE_MESSAGE;
    m.from_handler = m.on_card = m.kept = false;
    m.record = in;
    m.host = piece.host;
    m.local = packet->data + at;
    m.bytes = piece.bytes;
    m.task = NULL;
    m.packet = packet;
    enum nic_status status = nic_drive_move(nic, &m);
    if (status >= NIC_FAULT)
        move_failed(in, packet, (uint8_t)way, status);
}

/* Between a packet and host memory in one piece. */
static void move_whole(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet,
                       uint64_t bytes, enum nic_move_kind way) {
    struct nic_segment whole = {in->arrival.data + packet->offset, bytes};
    move_piece(nic, in, packet, 0, whole, way);
}

/* Moves the first `bytes` of a packet's data to where they go in host memory, or from there. */
static void move(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet,
                 uint64_t bytes, enum nic_move_kind way) {
    if (nic_is_request(in) && in->arrival.data && bytes) {
        move_whole(nic, in, packet, bytes, way);
        return;
    }
    for (uint64_t done = 0; done < bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = nic_receive_pieces(nic, in, packet->offset + done, bytes - done, piece);
        for (uint32_t i = 0; i < pieces; i++) {
            move_piece(nic, in, packet, done, piece[i], way);
            done += piece[i].bytes;
        }
        if (!pieces)
            break; /* the interface was closed meanwhile */
    }
}

static void store(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    if (in->answered && in->answered->to_card)
        store_on_card(nic, in, packet);
    else
        move(nic, in, packet, nic_accepted(in, packet), NIC_STORE);
}

/* A packet of the reply, whose data is to be filled in; NULL: no memory. */
static struct nic_packet *add_result(struct nic *nic, struct nic_incoming *in, uint64_t offset,
                                     uint64_t bytes) {
    struct nic_packet *result = nic_packet_new(nic->config.pool);
    if (!result) {
        nic->counts.no_memory++;
        return NULL;
    }
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

/* `done`: on host memory; else what a fetch brings back is marked as bad. */
static void apply(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet,
                  bool done) {
    struct nic_packet *result = NULL;
    uint64_t bytes = nic_accepted(in, packet);
    if (in->message->kind == NIC_FETCH_ATOMIC && bytes) {
        result = add_result(nic, in, packet->offset, bytes);
        if (!result) { /* nothing is done then, and the reply says so */
            in->flow.payload = FLOW_DISCARDED;
            in->flow.dropped += bytes;
            failed(in, PTL_NI_UNDELIVERABLE);
            return;
        }
        result->bad = !done;
    }
    if (!done || portals_apply(&in->arrival, packet->offset, packet->data, bytes,
                               result ? result->data : NULL))
        return;
    failed(in, PTL_NI_SEGV);
    if (result)
        result->bad = true;
}

static void operate(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    struct nic_segment piece[NIC_SEGMENTS];
    uint64_t bytes = nic_accepted(in, packet);
    if (!bytes || !nic_receive_pieces(nic, in, packet->offset, bytes, piece))
        return; /* nothing of it is accepted, or the interface was closed meanwhile */
    struct nic_move m = {.kind = NIC_ATOMIC_ON_HOST,
                         .purpose = APPLY_ATOMIC,
                         .record = in,
                         .host = piece[0].host,
                         .local = packet->data,
                         .bytes = bytes,
                         .packet = packet};
    enum nic_status status = nic_drive_move(nic, &m);
    if (status >= NIC_FAULT)
        failed(in, PTL_NI_SEGV);
    if (status != NIC_PENDING)
        apply(nic, in, packet, status == NIC_DONE);
}

void nic_receive_moved(struct nic *nic, struct nic_move *m, enum nic_status how) {
    struct nic_incoming *in = m->record;
    if (how == NIC_ABSENT)
        nic_block_absent(nic, in, m->packet);
    else if (how != NIC_DONE)
        move_failed(in, m->packet, m->kind, how);
    if (m->purpose == APPLY_ATOMIC)
        apply(nic, in, m->packet, how == NIC_DONE);
    if (m->packet->kind == NIC_BLOCK)
        nic_block_moved(nic, in, m->packet);
    nic_packet_release(m->packet);
    in->flow.work--;
    nic_receive_check(nic, in);
}

static bool replies(const struct nic_incoming *in) {
    return (in->message->kind == NIC_GET || in->message->kind == NIC_FETCH_ATOMIC) &&
           in->flow.payload == FLOW_STORED && !in->aborted;
}

/* A small get is read when it comes, not when its reply's turn to be sent has come: a put behind it
 * must not be seen by it (max_war_ordered_size). */
static void read_early(struct nic *nic, struct nic_incoming *in) {
    if (in->message->kind != NIC_GET || !replies(in) || !in->mlength ||
        in->mlength > NIC_ORDERED_BYTES)
        return;
    struct nic_packet *result = add_result(nic, in, 0, in->mlength);
    if (result)
        move(nic, in, result, in->mlength, NIC_FETCH);
}

static void hold(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet);
static void hold_first(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet);

static void store_or_operate(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    if (packet->bytes == 0)
        return;
    if (packet->bad)
        apply(nic, in, packet, false);
    else if (in->message->kind == NIC_ATOMIC || in->message->kind == NIC_FETCH_ATOMIC)
        operate(nic, in, packet);
    else
        store(nic, in, packet);
}

/* Of a message with handlers, in any phase, and of others what is not plain. */
static __attribute__((noinline)) void take_other_data(struct nic *nic, struct nic_incoming *in,
                                                      struct nic_packet *packet) {
    enum flow_act act = flow_packet(&in->flow, in->refused ? 0 : nic_accepted(in, packet));
    if (packet->last && act < FLOW_HELD)
        nic_handler_last(nic, in, packet);
    if (packet->bad && act < FLOW_HELD)
        failed(in, PTL_NI_SEGV);
    switch (act) {
    case FLOW_IS_HEADER:
        hold_first(nic, in, packet);
        nic_handler_header(nic, in, in->waiting ? in->waiting : packet);
        return;
    case FLOW_HELD:
        hold(nic, in, packet);
        return;
    case FLOW_HANDLED:
        nic_handler_packet(nic, in, packet);
        return;
    case FLOW_STORED:
        store_or_operate(nic, in, packet);
        return;
    case FLOW_DISCARDED:
    case FLOW_PASSED:
        return;
    }
}

/* The packet is lent. */
static inline void take_data(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    bool stored = in->flow.phase == FLOW_BODY && in->flow.payload == FLOW_STORED && !packet->bad;
    bool plain = stored && in->message->kind == NIC_PUT && in->arrival.data;
    uint64_t bytes = plain ? nic_accepted(in, packet) : 0;
    if (stored && !packet->bytes)
        return;
    if (!plain)
        take_other_data(nic, in, packet);
    else if (bytes)
        move_whole(nic, in, packet, bytes, NIC_STORE);
}

/* What it holds waits for its handler now, and no more for its source. */
static void end_headless(struct nic *nic, struct nic_incoming *in) {
    in->headless = false;
    nic->held += in->held;
}

void nic_receive_data(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    if (in->headless && packet->offset) {
        hold(nic, in, packet);
        return;
    }
    if (in->headless)
        end_headless(nic, in);
    take_data(nic, in, packet);
}

/* ---- From the first packet to the last ---- */

static struct nic_outgoing *asked_for(struct nic *nic, const struct nic_peer *peer,
                                      const struct nic_message *m) {
    struct nic_outgoing *o = nic_named(nic, m->initiator);
    if (!o || o->peer != peer || !o->wants_answer || o->answer)
        return NULL;
    bool fetches = o->message.kind == NIC_GET || o->message.kind == NIC_FETCH_ATOMIC;
    return fetches == (m->kind == NIC_REPLY) ? o : NULL;
}

/* An answer: to what? Nobody's is dropped. */
static void match_answer(struct nic *nic, struct nic_incoming *in) {
    in->flow.payload = FLOW_DISCARDED;
    in->answered = asked_for(nic, in->peer, in->message);
    if (!in->answered)
        return;
    in->mlength = in->message->payload < in->answered->message.length
                      ? in->message->payload
                      : in->answered->message.length;
    in->flow.payload = FLOW_STORED;
}

static void match_request(struct nic *nic, struct nic_incoming *in, struct portals_entry *met) {
    portals_header(nic->portals, in->message, &in->arrival, met);
    in->flow.fail = in->arrival.fail;
    in->refused = in->flow.fail != PTL_NI_OK;
    in->flow.payload = in->refused ? FLOW_DISCARDED : FLOW_STORED;
    in->mlength = in->arrival.mlength;
}

/* ---- Silence ---- */

static uint64_t patience(const struct nic *nic, const struct portals_handlers *h) {
    uint64_t unit = nic->config.units_per_ns ? nic->config.units_per_ns : 1;
    return h->cleanup_ns < UINT64_MAX / 2 / unit ? h->cleanup_ns * unit : UINT64_MAX / 2;
}

/* Its sender shall not be silent for too long from now on. */
static void expect_more(struct nic *nic, struct nic_incoming *in) {
    if (nic->config.driver->now)
        nic->now = nic->config.driver->now(nic->config.context);
    if (timers_room(&nic->silences, nic->silences.count + 1))
        timers_set(&nic->silences, &in->silence, nic->now + patience(nic, nic_handlers(in)));
    else
        nic->counts.no_memory++;
}

/* Of the packets that waited for its header handler; NULL: no more. */
static struct nic_packet *next_held(struct nic *nic, struct nic_incoming *in) {
    struct nic_packet *packet = in->waiting;
    if (!packet)
        return NULL;
    in->held--;
    nic->held--;
    in->waiting = packet->next;
    if (!in->waiting)
        in->waiting_end = &in->waiting;
    return packet;
}

/* Its header handler will not run. */
static void refuse_headless(struct nic *nic, struct nic_incoming *in) {
    end_headless(nic, in);
    in->refused = true;
    flow_refuse(&in->flow, PTL_NI_UNDELIVERABLE);
    for (struct nic_packet *packet; (packet = next_held(nic, in));)
        nic_packet_release(packet);
}

/* The rest of it will not come. */
static void cut_off(struct nic *nic, struct nic_incoming *in) {
    nic_open_end(nic, in);
    nic_block_end(nic, in);
    if (in->headless)
        refuse_headless(nic, in);
    in->aborted = true;
    flow_cut_off(&in->flow);
    failed(in, PTL_NI_UNDELIVERABLE);
    uint64_t missing = in->message->payload - in->received;
    in->flow.dropped += missing < in->mlength ? missing : in->mlength;
    nic_receive_check(nic, in);
}

/* Packets leave the timer as it is: it finds out when the last one came. */
void nic_receive_tick(struct nic *nic) {
    for (struct timer *timer; (timer = timers_expired(&nic->silences, nic->now));) {
        struct nic_incoming *in =
            (struct nic_incoming *)((char *)timer - offsetof(struct nic_incoming, silence));
        const struct portals_handlers *h = nic_handlers(in);
        uint64_t due = h ? in->heard + patience(nic, h) : 0;
        if (due > nic->now)
            timers_set(&nic->silences, timer, due);
        else
            cut_off(nic, in);
    }
}

/* ---- The end of a message ---- */

static void finish_answer(struct nic *nic, const struct nic_incoming *in) {
    struct nic_outgoing *o = in->answered;
    if (!o)
        return;
    o->answer = NULL;
    if (o->transfer && !in->aborted && !nic_block_answered(nic, o, in->message))
        return;
    if (in->aborted)
        portals_failed(nic->portals, o->initiator, PTL_NI_UNDELIVERABLE);
    else
        portals_answered(nic->portals, o->initiator, in->message, in->flow.fail);
    if (o->to_card)
        nic_command_answered(nic, o, in->aborted || in->flow.fail || in->message->fail);
    nic_depart_over(nic, o);
}

static inline void finish_request(struct nic *nic, struct nic_incoming *in) {
    const struct portals_ending ending = {
        .fail = in->flow.fail, .pending = in->flow.pending, .dropped = in->flow.dropped};
    portals_done(nic->portals, &in->arrival, ending);
}

/* Until the header handler has ended. */
static void hold(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    struct nic_packet *kept = nic_packet_keep(packet);
    if (!kept) {
        nic->counts.no_memory++;
        in->flow.dropped += nic_accepted(in, packet);
        nic_handler_unkept(in, packet);
        return;
    }
    in->held++;
    nic->held += !in->headless;
    kept->next = NULL;
    *in->waiting_end = kept;
    in->waiting_end = &kept->next;
}

/* Likewise; of a message in blocks others may have come before. */
static void hold_first(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    struct nic_packet *others = in->waiting, **end = in->waiting_end;
    in->waiting = NULL;
    in->waiting_end = &in->waiting;
    hold(nic, in, packet);
    *in->waiting_end = others;
    if (others)
        in->waiting_end = end;
}

/* Nobody can be told but the counter. */
static void drop_unkept(struct nic *nic, struct nic_incoming *in) {
    nic->counts.no_memory++;
    in->flow.fail = PTL_NI_DROPPED;
    nic_receive_finish(nic, in);
}

/* Of a message that needs a record: more of it is to come, handlers are to run, or it replies. */
static __attribute__((noinline)) void begin_record(struct nic *nic, struct nic_incoming *first,
                                                   struct nic_packet *packet) {
    struct nic_incoming *in = nic_receive_keep(nic, first);
    if (!in) {
        drop_unkept(nic, first);
        return;
    }
    if (in->answered)
        in->answered->answer = in;
    if (in->received < in->message->payload)
        nic_open_begin(nic, in);
    if (in->flow.payload == FLOW_STORED && nic_handlers(in)) {
        nic_handler_message(in);
        if (in->received < in->message->payload && nic_handlers(in)->cleanup)
            expect_more(nic, in);
    }
    in->flow.work++; /* by this function */
    if (!flow_has(&in->flow, FLOW_HEADER_HANDLER))
        read_early(nic, in);
    in->headless =
        !packet->bytes && in->message->payload && flow_has(&in->flow, FLOW_HEADER_HANDLER);
    if (!in->headless)
        take_data(nic, in, packet);
    in->flow.work--;
    nic_receive_check(nic, in);
}

/* `met`: the entry, if it has been looked for. */
static __attribute__((noinline)) void first_packet(struct nic *nic, struct nic_peer *peer,
                                                   struct nic_packet *packet,
                                                   struct portals_entry *met) {
    struct nic_incoming in;
    nic->counts.messages_in++;
    const size_t from = offsetof(struct nic_incoming, kept);
    memset((uint8_t *)&in + from, 0, offsetof(struct nic_incoming, arrival) - from);
    in.slot.used = false;
    in.peer = peer;
    in.message = &packet->message;
    in.message_number = packet->message_number;
    in.received = packet->bytes;
    in.mlength = 0;
    in.flow.phase = FLOW_BODY;
    if (in.message->kind >= NIC_ACK)
        match_answer(nic, &in);
    else
        match_request(nic, &in, met);
    if (in.received < in.message->payload || replies(&in) ||
        (in.flow.payload == FLOW_STORED && nic_handlers(&in))) {
        begin_record(nic, &in, packet);
        return;
    }
    take_data(nic, &in, packet);
    if (!in.kept) {
        if (nic_is_request(&in)) /* and no results: what replies is a record */
            finish_request(nic, &in);
        else
            finish_answer(nic, &in);
        return;
    }
    if (in.kept->answered)
        in.kept->answered->answer = in.kept;
    nic_receive_check(nic, in.kept);
}

static bool well_formed(const struct nic_incoming *in, const struct nic_packet *packet) {
    uint64_t left = in->message->payload - in->received;
    return packet->bytes && packet->bytes <= left && packet->offset <= in->message->payload &&
           packet->bytes <= in->message->payload - packet->offset;
}

/* A message in one packet: all that its first bytes can say, by one comparison. */
static inline bool is_whole(const struct nic_packet *packet) {
    static const struct nic_packet whole = {.kind = NIC_DATA, .first = true, .last = true};
    return memcmp(&packet->kind, &whole.kind, 4) == 0;
}
_Static_assert(offsetof(struct nic_packet, bad) == offsetof(struct nic_packet, kind) + 3,
               "kind, first, last, bad");

static inline bool is_whole_put(const struct nic_packet *packet) {
    return packet->message.kind == NIC_PUT && !packet->offset && is_whole(packet) &&
           packet->bytes == packet->message.payload;
}

/* Most messages are such; false: its entry, `met`, is not plain. */
static bool plain_put(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                      struct portals_entry **met) {
    const struct nic_message *m = &packet->message;
    struct nic_plain plain;
    uint8_t fail = PTL_NI_OK;
    if (!portals_plain(nic->portals, m, &plain.at)) {
        *met = plain.at.met;
        return false;
    }
    nic->counts.messages_in++;
    uint64_t bytes = plain.at.mlength < packet->bytes ? plain.at.mlength : packet->bytes;
    if (bytes) {
        struct nic_move move;
        plain.peer = peer;
        plain.packet = packet;
        move.kind = NIC_STORE;
        move.purpose = MOVE_PLAIN;
        move.from_handler = move.on_card = move.kept = false;
        move.record = &plain;
        move.host = plain.at.data;
        move.local = packet->data;
        move.bytes = bytes;
        move.task = NULL;
        move.packet = packet;
        enum nic_status status = nic_drive_move(nic, &move);
        if (status == NIC_PENDING)
            return true; /* it has become a record */
        if (status != NIC_DONE)
            fail = PTL_NI_SEGV;
    }
    portals_plain_done(nic->portals, m, &plain.at, fail);
    return true;
}

/* An acknowledgement of what Portals alone keeps. */
static inline bool is_plain_ack(const struct nic_packet *packet) {
    const struct nic_message *m = &packet->message;
    return m->kind == NIC_ACK && !packet->offset && is_whole(packet) && !m->payload &&
           !packet->bytes && m->initiator & NIC_UNRECORDED;
}

static inline void plain_ack(struct nic *nic, const struct nic_packet *packet) {
    const struct nic_message *m = &packet->message;
    nic->counts.messages_in++;
    portals_acknowledged(nic->portals, m->initiator ^ NIC_UNRECORDED, m);
}

static void message_in(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet) {
    const struct nic_message *m = &packet->message;
    struct portals_entry *met = NULL;
    if (packet->offset || packet->bytes > m->payload || m->kind > NIC_REPLY)
        nic->counts.malformed++;
    else if (is_plain_ack(packet))
        plain_ack(nic, packet);
    else if (!is_whole_put(packet) || !plain_put(nic, peer, packet, &met))
        first_packet(nic, peer, packet, met);
}

/* Whether the memory that a packet goes to is there: what is absent waits a packet at a time. */
static bool is_present(struct nic *nic, const struct nic_incoming *in,
                       const struct nic_packet *packet) {
    uint64_t bytes = nic_accepted(in, packet);
    for (uint64_t done = 0; done < bytes && nic->config.driver->present;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = nic_receive_pieces(nic, in, packet->offset + done, bytes - done, piece);
        if (!pieces)
            return true; /* the interface was closed meanwhile */
        for (uint32_t i = 0; i < pieces; i++) {
            if (nic_drive_present(nic, piece[i].host, piece[i].bytes) < piece[i].bytes)
                return false;
            done += piece[i].bytes;
        }
    }
    return true;
}

enum nic_rest nic_rest(struct nic *nic, const struct nic_packet *packet) {
    const struct nic_peer *peer = (struct nic_peer *)delivery_peer(&nic->delivery, packet->source);
    const struct nic_incoming *in = peer ? nic_open_find(nic, peer, packet->message_number) : NULL;
    bool block = packet->kind == NIC_BLOCK;
    if (block && peer && !in) /* late, and reported as such; or early, and held */
        return delivery_early(&peer->delivery, packet) ? NIC_REST_PACKETS : NIC_REST_WHOLE;
    if (packet->first || !in || (!block && !well_formed(in, packet)))
        return NIC_REST_WRONG;
    bool stored = in->flow.phase == FLOW_BODY && in->flow.payload == FLOW_STORED && !packet->bad;
    bool in_one = in->answered ? in->message->kind == NIC_REPLY && !in->answered->to_card
                               : in->message->kind == NIC_PUT && in->arrival.data;
    return stored && in_one && nic_accepted(in, packet) && (block || is_present(nic, in, packet))
               ? NIC_REST_WHOLE
               : NIC_REST_PACKETS;
}

void nic_receive_packet(void *context, struct delivery_peer *delivery, struct nic_packet *packet) {
    struct nic *nic = context;
    struct nic_peer *peer = (struct nic_peer *)delivery;
    if (packet->first) {
        message_in(nic, peer, packet);
        return;
    }
    if (packet->kind != NIC_DATA) {
        if (packet->kind == NIC_BLOCK)
            nic_block_packet(nic, peer, packet);
        else
            nic_block_reported(nic, peer, packet);
        return;
    }
    struct nic_incoming *in = nic_open_find(nic, peer, packet->message_number);
    if (!in || in->assembly || !well_formed(in, packet)) {
        nic->counts.malformed++;
        return;
    }
    in->received += packet->bytes;
    in->heard = nic->now;
    if (in->received == in->message->payload)
        nic_open_end(nic, in);
    take_data(nic, in, packet);
    nic_receive_check(nic, in);
}

/* ---- The end ---- */

/* Portals sends the header of the reply through nic_send_message. */
static void reply(struct nic *nic, struct nic_incoming *in) {
    struct nic_origin origin = {.ready = in->results, .reply_to = in};
    in->replied = true;
    in->results = NULL;
    portals_reply(nic->portals, &in->arrival, &origin);
    in->results = origin.ready; /* nobody has taken them */
}

/* The header handler has ended. */
void nic_receive_body(struct nic *nic, struct nic_incoming *in) {
    in->flow.work++; /* by this function */
    read_early(nic, in);
    for (struct nic_packet *packet; (packet = next_held(nic, in));) {
        packet->next = NULL;
        take_data(nic, in, packet);
        nic_packet_release(packet);
    }
    nic_block_settle(nic, in);
    in->flow.work--;
    nic_receive_check(nic, in);
}

void nic_receive_check(struct nic *nic, struct nic_incoming *in) {
    in->flow.whole |= in->received >= in->message->payload;
    if (flow_is_done(&in->flow) && replies(in) && !in->replied)
        reply(nic, in); /* and if its data is being fetched, that is work */
    switch (flow_next(&in->flow)) {
    case FLOW_WAITS:
        return;
    case FLOW_COMPLETES:
        nic_handler_end(nic, in, NIC_COMPLETION_HANDLER);
        return;
    case FLOW_CLEANS_UP:
        nic_handler_end(nic, in, NIC_CLEANUP_HANDLER);
        return;
    case FLOW_IS_OVER:
        nic_receive_finish(nic, in);
    }
}

void nic_receive_finish(struct nic *nic, struct nic_incoming *in) {
    if (in->streams)
        nic_depart_abandon(nic, in);
    if (in->last)
        nic_packet_release(in->last);
    while (in->results) {
        struct nic_packet *result = in->results;
        in->results = result->next;
        nic_packet_release(result);
    }
    if (nic_is_request(in))
        finish_request(nic, in);
    else
        finish_answer(nic, in);
    if (in->slot.used)
        pool_give(&nic->incoming, in);
}

/* The rest of what the peer has begun will not come. */
void nic_receive_lost(struct nic *nic, struct nic_peer *peer) {
    while (peer->open)
        cut_off(nic, peer->open);
}

/* ---- From the wire ---- */

/* What we send ourselves never leaves the card: a packet from the wire that says so lies, and
 * nobody would ever finish what it begins. */
static __attribute__((noinline)) void any_packet_in(struct nic *nic, struct nic_packet *packet,
                                                    uint64_t now) {
    if (nic_address_equal(packet->source, nic->config.address))
        nic->counts.malformed++;
    else
        delivery_packet_in(&nic->delivery, packet, now);
}

static __attribute__((noinline)) void put_in(struct nic *nic, struct nic_peer *peer,
                                             struct nic_packet *packet) {
    struct portals_entry *met;
    if (!plain_put(nic, peer, packet, &met))
        first_packet(nic, peer, packet, met);
}

/* A look at what most packets are. */
void nic_packet_in(struct nic *nic, struct nic_packet *packet, uint64_t now) {
    nic->now = now;
    struct nic_peer *peer = (struct nic_peer *)delivery_last_peer(&nic->delivery, packet);
    if (peer && is_whole_put(packet)) {
        delivery_took(&nic->delivery, &peer->delivery);
        put_in(nic, peer, packet);
    } else if (peer && is_plain_ack(packet)) {
        delivery_took(&nic->delivery, &peer->delivery);
        plain_ack(nic, packet);
    } else {
        any_packet_in(nic, packet, now);
    }
}

/* False: not now. */
static inline bool store_short(struct nic *nic, const struct portals_plain *at,
                               const uint8_t *data) {
    const struct nic_driver *driver = nic->config.driver;
    if (driver->store_short)
        return !at->mlength ||
               driver->store_short(nic->config.context, at->data, data, at->mlength);
    return guarded_write(GUARDED_BY_SIGNAL, at->data, data, at->mlength);
}

bool nic_put_in(struct nic *nic, struct nic_put *put, bool same, uint32_t number,
                const uint8_t *data, uint64_t now) {
    const struct nic_message *m = &put->message;
    struct delivery_peer *peer = nic->delivery.last_peer;
    put->known &= same;
    if (!peer || !peer->direct || peer->held || peer->in_message != number ||
        !nic_address_equal(peer->address, m->source))
        return false;
    if (!put->known || !portals_plain_holds(nic->portals, &put->at)) {
        portals_plain(nic->portals, m, &put->at);
        put->known = true;
    }
    if (!put->at.entry || !store_short(nic, &put->at, data))
        return false;
    nic->now = now;
    nic->counts.messages_in++;
    delivery_took(&nic->delivery, peer);
    portals_plain_done(nic->portals, m, &put->at, PTL_NI_OK);
    return true;
}
