/* What handlers ask of the card, beside what the port does by itself (hpu/port.h), which has
 * decoded and checked it. DMA and atomics on host memory take time and have handles; messages are
 * handed to Portals as if the host had started them (SC'17, appendix B.6); counters are at once. */
#include <stdlib.h>
#include <string.h>

#include "hpu/refusal.h"
#include "hpu/rig.h"
#include "nic/nic_call.h"
#include "nic/nic_private.h"
#include "spin/driver.h"

#define COMMANDS 64 /* of a handler, under way: then it waits */

struct issue {
    struct nic *nic;
    struct nic_task_record *task;
    struct port *port;
    const struct port_command *command;
};

/* Refused: it cannot be carried out. */
static enum hpu_access refuse(const struct issue *is) {
    return port_refuse(is->port);
}

/* Waiting. */

static enum hpu_access wait_for(struct nic_task_record *task) {
    task->blocked = true;
    return HPU_ACCESS_WAIT;
}

static enum hpu_access wait_for_room(struct nic *nic, struct nic_task_record *task) {
    if (!task->in_room_queue) {
        struct nic_task_record **end = &nic->room_queue;
        while (*end)
            end = &(*end)->next_waiter;
        *end = task;
        task->next_waiter = NULL;
        task->in_room_queue = true;
    }
    return wait_for(task);
}

static bool is_below(uint32_t count, uint32_t most) {
    return !most || count < most;
}

void nic_command_room(struct nic *nic) {
    while (nic->room_queue && is_below(nic->handler_packets, nic->config.handler_packets) &&
           is_below(nic->handler_messages, nic->config.handler_messages)) {
        struct nic_task_record *task = nic->room_queue;
        nic->room_queue = task->next_waiter;
        task->in_room_queue = false;
        nic_handler_resume(nic, task);
    }
}

/* Host memory. */

/* Something of it is pending; NULL: no memory. */
struct nic_command_record *nic_command_keep(struct nic *nic, struct nic_command_record *c) {
    if (c->slot.used || c->kept)
        return c->slot.used ? c : c->kept;
    struct nic_command_record *kept = pool_take(&nic->commands);
    if (!kept)
        return NULL;
    const struct pool_slot slot = kept->slot;
    *kept = *c;
    kept->slot = slot;
    kept->next = c->task->first;
    c->task->first = kept;
    c->task->commands++;
    return c->kept = kept;
}

static void command_over(struct nic *nic, struct nic_command_record *c) {
    struct nic_task_record *task = c->task;
    struct nic_command_record **at = &task->first;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    free(c->copied);
    pool_give(&nic->commands, c);
    task->commands--;
    if (!task->ended)
        nic_handler_resume(nic, task);
    else if (!task->commands)
        nic_handler_drained(nic, task);
}

struct port_host nic_command_host(const struct nic *nic, const struct nic_task *seen,
                                  uint32_t space) {
    const struct nic_incoming *in = nic_task_of(seen)->message;
    const struct portals_handlers *h = nic_handlers(in);
    /* By address, as PsPIN's handlers have it: the entry's memory, where `exec` has it too. */
    struct port_host has = {space == PORT_AT_ADDRESS ? RIG_HOST_BASE : 0, 0, NULL};
    (void)nic;
    if (h) /* else the interface was closed meanwhile */
        has.bytes = space == PORT_HANDLER ? h->host_bytes : portals_entry_bytes(&in->arrival);
    return has;
}

void nic_command_direct(const struct nic_task *seen, struct hpu_direct direct[2]) {
    const struct nic_incoming *in = nic_task_of(seen)->message;
    struct nic_segment entry = {0}, handler = {0};
    if (nic_handlers(in))
        portals_whole_memory(&in->arrival, &entry, &handler);
    direct[PORT_ENTRY] = (struct hpu_direct){entry.bytes, entry.host};
    direct[PORT_HANDLER] = (struct hpu_direct){handler.bytes, handler.host};
}

/* Host memory that Portals knows, but the driver does not reach. */
static enum hpu_access host_fault(const struct issue *is, uint64_t offset) {
    refusal_say(&is->port->refusal, is->command->number,
                "the host's memory at offset %llu is not there", (unsigned long long)offset);
    return hpu_refuse(is->port->hpu, HPU_FAULT_HOST, 0);
}

static uint32_t host_pieces(const struct issue *is, uint64_t done, struct nic_segment *piece) {
    const struct portals_arrival *arrival = &is->task->message->arrival;
    const struct port_command *c = is->command;
    uint64_t offset = c->host_at + done, bytes = c->bytes - done;
    if (c->space == PORT_AT_ADDRESS)
        offset -= RIG_HOST_BASE;
    return c->space == PORT_HANDLER
               ? portals_handler_segments(arrival, offset, bytes, piece, NIC_SEGMENTS)
               : portals_entry_segments(arrival, offset, bytes, piece, NIC_SEGMENTS);
}

/* On the stack, until something of it is pending. Clearing all of it takes longer than a small
 * copy does. */
static void begin_command(struct nic_command_record *c, const struct issue *is) {
    c->slot.used = false;
    c->kept = NULL;
    c->task = is->task;
    c->transfers = 0;
    c->of = *is->command;
    c->copied = NULL;
    c->next = NULL;
}

/* One move for each piece; the handle is complete when all are. */
static enum hpu_access copy(const struct issue *is) {
    const struct port_command *of = is->command;
    struct nic_command_record c;
    if (is->task->commands == COMMANDS)
        return wait_for(is->task);
    begin_command(&c, is);
    if (of->number == SPIN_COMMAND_HOST_WRITE) {
        memcpy(&c.direct, of->local, sizeof c.direct);
        c.of.local = (uint8_t *)&c.direct;
    }
    for (uint64_t done = 0; done < of->bytes;) {
        struct nic_segment piece[NIC_SEGMENTS];
        uint32_t pieces = host_pieces(is, done, piece);
        for (uint32_t i = 0; i < pieces; i++) {
            struct nic_move m = {.kind = of->effect == PORT_STORE ? NIC_STORE : NIC_FETCH,
                                 .purpose = MOVE_COMMAND,
                                 .record = &c,
                                 .host = piece[i].host,
                                 .local = c.of.local + done,
                                 .bytes = piece[i].bytes,
                                 .task = &is->task->seen,
                                 .local_at = of->local_at + (uint32_t)done,
                                 .from_handler = true};
            if (nic_drive_move(is->nic, &m) >= NIC_FAULT)
                return host_fault(is, of->host_at + done);
            done += piece[i].bytes;
        }
        if (!pieces)
            break;
    }
    return HPU_ACCESS_OK;
}

void nic_command_later(const struct nic_move *move, struct nic_move *later) {
    const struct nic_command_record *c = move->record;
    struct nic_command_record *kept = later->record;
    if (c->of.number == SPIN_COMMAND_HOST_WRITE)
        later->local = (uint8_t *)&kept->direct + (move->local - (const uint8_t *)&c->direct);
}

bool nic_command_own(struct nic_move *later) {
    struct nic_command_record *c = later->record;
    if (later->kept || later->kind != NIC_STORE || c->of.number == SPIN_COMMAND_HOST_WRITE)
        return true;
    uint64_t at = (uint64_t)(later->local - c->of.local);
    if (!c->copied && !(c->copied = malloc(c->of.bytes)))
        return false;
    memcpy(c->copied + at, later->local, later->bytes);
    later->local = c->copied + at;
    return true;
}

void nic_command_disown(struct nic_move *later) {
    struct nic_command_record *c = later->record;
    free(c->copied);
    c->copied = NULL;
}

/* On a value in host memory, which may be another address space's; false: it is not there. A
 * handler that has returned left what it compares with in the command; its own memory is another's
 * now. */
static void do_on_host(void *argument, uint8_t *host) {
    (void)host; /* the command knows it */
    port_do_atomic(argument);
}

static bool do_atomic(struct nic *nic, struct nic_command_record *record) {
    const struct nic_memory *m = portals_memory(nic->portals);
    struct port_command c = record->of;
    if (record->task->ended)
        c.local = (uint8_t *)&record->direct;
    if (!m)
        return nic_use_host(nic, c.host, c.bytes, do_on_host, &c);
    uint64_t value = 0;
    c.host = (uint8_t *)&value;
    if (!m->read(m->context, &value, record->of.host, c.bytes))
        return false;
    port_do_atomic(&c);
    return m->write(m->context, record->of.host, &value, c.bytes);
}

void nic_command_moved(struct nic *nic, struct nic_move *m, enum nic_status how) {
    struct nic_command_record *c = m->record;
    if (how != NIC_DONE || (m->purpose == ATOMIC_COMMAND && !do_atomic(nic, c)))
        c->task->host_fault = true;
    if (--c->transfers == 0)
        command_over(nic, c);
}

/* An atomic is on one naturally aligned value, in one piece. */
static enum hpu_access atomic(const struct issue *is) {
    struct nic_segment piece[NIC_SEGMENTS];
    struct nic_command_record c;
    begin_command(&c, is);
    if (!host_pieces(is, 0, piece))
        return host_fault(is, c.of.host_at);
    c.of.host = piece[0].host;
    if (!port_has_value(is->port, &c.of, piece[0].bytes))
        return HPU_ACCESS_FAULT;
    if (is->task->commands == COMMANDS)
        return wait_for(is->task);
    memcpy(&c.direct, c.of.local, c.of.local_bytes);
    struct nic_move m = {.kind = NIC_ATOMIC_ON_HOST,
                         .purpose = ATOMIC_COMMAND,
                         .record = &c,
                         .host = c.of.host,
                         .local = c.of.local,
                         .bytes = c.of.bytes,
                         .task = &is->task->seen,
                         .local_at = c.of.local_at,
                         .from_handler = true};
    enum nic_status status = nic_drive_move(is->nic, &m);
    if (status >= NIC_FAULT || (status == NIC_DONE && !do_atomic(is->nic, &c)))
        return host_fault(is, c.of.host_at);
    return HPU_ACCESS_OK;
}

enum hpu_access nic_command_over(const struct nic *nic, const struct nic_task *seen,
                                 struct port *port, uint32_t handle, bool wait) {
    struct nic_task_record *task = nic_task_of(seen);
    (void)nic;
    const struct nic_command_record *c = task->first;
    while (c && c->of.handle != handle)
        c = c->next;
    if (task->host_fault) { /* its move has met memory that is not there */
        refusal_say(&port->refusal, 0, "a command before it has met host memory that is not there");
        return hpu_refuse(port->hpu, HPU_FAULT_HOST, 0);
    }
    if (c && wait)
        return wait_for(task);
    return c ? HPU_ACCESS_WAIT : HPU_ACCESS_OK;
}

/* Messages. */

/* A handler's number of a process has 16 bits of the node id: the others are those of the sender,
 * if it means that, and our own for any other process. */
static ptl_process_t process_of(const struct issue *is, uint32_t id) {
    const struct nic_message *m = is->task->message->message;
    if (!(m->interface & PTL_NI_PHYSICAL))
        return (ptl_process_t){.rank = id};
    bool sender = id == nic_process_word(m, true);
    uint32_t nid = sender ? m->source.nid : is->nic->config.address.nid;
    return (ptl_process_t){.phys = {.nid = (nid & ~0xffffu) | id >> 16, .pid = id & 0xffff}};
}

static uint64_t pair(const uint32_t *word) {
    return word[0] | (uint64_t)word[1] << 32;
}

/* PsPIN's packets: to the process that is named, or back to where the message is from, as a put of
 * the same match bits. */
static enum hpu_access start_packet(const struct issue *is, uint8_t *card,
                                    struct nic_origin *origin) {
    const struct port_command *of = is->command;
    const struct nic_message *m = is->task->message->message;
    uint32_t back = nic_process_word(m, true);
    uint32_t to = of->number == SPIN_COMMAND_RDMA_PUT ? of->word[0] : back;
    struct portals_command command = {.kind = NIC_PUT,
                                      .ack_req = PTL_NO_ACK_REQ,
                                      .card = card,
                                      .length = of->bytes,
                                      .target = process_of(is, to),
                                      .match_bits = m->match_bits,
                                      .hdr_data = m->hdr_data};
    int code = portals_command(is->nic->portals, &is->task->message->arrival, &command, origin);
    if (code == PTL_OK)
        return HPU_ACCESS_OK;
    refusal_say(&is->port->refusal, of->number, "%u bytes to %u: %s", of->bytes, to,
                PtlToStr(code, PTL_STR_ERROR));
    return refuse(is);
}

static inline struct portals_command command_of(const struct issue *is, enum nic_message_kind kind,
                                                uint8_t *card, uint32_t length) {
    const uint32_t *w = is->command->word;
    uint32_t atomic = kind == NIC_ATOMIC ? w[11] : 0;
    return (struct portals_command){.kind = (uint8_t)kind,
                                    .ack_req = (uint8_t)w[3],
                                    .operation = (uint8_t)atomic,
                                    .datatype = (uint8_t)(atomic >> 8),
                                    .count = w[2],
                                    .card = card,
                                    .offset = is->command->host_at,
                                    .length = length,
                                    .target = process_of(is, w[4]),
                                    .match_bits = pair(&w[5]),
                                    .remote_offset = w[7],
                                    .hdr_data = pair(&w[9]),
                                    .user_ptr = (void *)(uintptr_t)w[8]};
}

static enum hpu_access start_message(const struct issue *is, enum nic_message_kind kind,
                                     uint8_t *card, struct nic_origin *origin) {
    const uint32_t *w = is->command->word;
    if (is->command->effect == PORT_PACKET)
        return start_packet(is, card, origin);
    uint32_t atomic = kind == NIC_ATOMIC ? w[11] : 0;
    struct portals_command command = command_of(is, kind, card, origin->streams ? w[11] : w[1]);
    int code = PTL_ARG_INVALID; /* there are no such operations */
    if (atomic <= 0xffff)
        code = portals_command(is->nic->portals, &is->task->message->arrival, &command, origin);
    if (code == PTL_OK)
        return HPU_ACCESS_OK;
    if (kind == NIC_ATOMIC)
        refusal_say(&is->port->refusal, is->command->number,
                    "operation %u on type %u, %u bytes: %s", atomic & 0xff, atomic >> 8, w[1],
                    PtlToStr(code, PTL_STR_ERROR));
    else
        refusal_say(&is->port->refusal, is->command->number, "%u bytes to %u: %s", w[1], w[4],
                    PtlToStr(code, PTL_STR_ERROR));
    return refuse(is);
}

/* What a handler sends of the packet that it only reads is not copied: the one borrows it of the
 * other. A little is copied, since a borrowed packet holds the whole, and so is what would not lie
 * as in the card's memory. */
static bool is_borrowed(const struct issue *is) {
    enum { LEAST = 256, LINE = 64 };
    const struct nic_packet *of = is->task->packet;
    const uint8_t *local = is->command->local;
    return is->task->seen.reads_only && is->command->bytes >= LEAST && local >= of->data &&
           local + is->command->bytes <= of->data + of->bytes && (uintptr_t)local % LINE == 0;
}

/* The data of a command from HPU memory, so that the handler may go on with it; NULL: no memory,
 * and the command is refused. */
static struct nic_packet *packet_of(const struct issue *is) {
    uint8_t *local = is->command->local;
    struct nic_packet *packet = is_borrowed(is) ? nic_packet_borrow(is->task->packet, local) : NULL;
    if (!packet && (packet = nic_packet_new(is->nic->config.pool)))
        memcpy(packet->data, local, is->command->bytes);
    if (packet) {
        packet->bytes = is->command->bytes;
        return packet;
    }
    is->nic->counts.no_memory++;
    refusal_say(&is->port->refusal, is->command->number, "out of memory for packets");
    return NULL;
}

/* A little data that leaves before the handler goes on needs no packet. */
static bool put_at_once(const struct issue *is) {
    const struct port_command *of = is->command;
    if (!is->nic->config.driver->send_short || of->effect != PORT_MESSAGE ||
        of->bytes > NIC_SHORT_BYTES)
        return false;
    const struct portals_command command = command_of(is, NIC_PUT, of->local, of->bytes);
    return portals_command_at_once(is->nic->portals, &is->task->message->arrival, &command);
}

/* `stream`: more data comes later, and this is the message then. */
static enum hpu_access from_device(const struct issue *is, enum nic_message_kind kind,
                                   struct nic_outgoing **stream) {
    struct nic *nic = is->nic;
    if (is->command->bytes > nic->config.mtu_bytes) {
        refusal_length(&is->port->refusal, is->command->number, is->command->bytes,
                       nic->config.mtu_bytes);
        return refuse(is);
    }
    if (!is_below(nic->handler_packets, nic->config.handler_packets))
        return wait_for_room(nic, is->task);
    if (kind == NIC_PUT && !stream && put_at_once(is))
        return HPU_ACCESS_OK;
    struct nic_packet *packet = packet_of(is);
    if (!packet)
        return refuse(is);
    struct nic_origin origin = {.ready = packet,
                                .from_handler = true,
                                .streams = stream,
                                .task = &is->task->seen,
                                .local_at = is->command->local_at};
    nic->handler_packets++;
    enum hpu_access done = start_message(is, kind, packet->data, &origin);
    if (origin.ready) { /* there was no message */
        nic->handler_packets--;
        nic_packet_release(packet);
    }
    if (stream)
        *stream = origin.made;
    return done;
}

/* ---- Streams ---- */

#define WHOLE_STREAM UINT32_MAX /* nothing more of it is to come */

static enum hpu_access stream_start(const struct issue *is) {
    struct nic_incoming *in = is->task->message;
    uint32_t total = is->command->word[11];
    if (total == is->command->bytes) {
        enum hpu_access done = from_device(is, NIC_PUT, NULL);
        is->port->hpu->result = WHOLE_STREAM;
        return done;
    }
    struct nic_outgoing *o = NULL;
    enum hpu_access done = from_device(is, NIC_PUT, &o);
    is->port->hpu->result = o ? o->slot.index + 1 : 0;
    if (!o)
        return done;
    o->of = in;
    o->next_stream = in->streams;
    in->streams = o;
    o->handed = is->command->bytes;
    return done;
}

static enum hpu_access stream_put(const struct issue *is) {
    struct nic *nic = is->nic;
    const struct port_command *c = is->command;
    uint32_t stream = c->word[4], offset = c->word[5];
    struct nic_outgoing *o = pool_find(&nic->outgoing, stream - 1);
    is->port->hpu->result = PTL_FAIL;
    if (!o || !o->streams || o->of != is->task->message)
        return HPU_ACCESS_OK; /* gone with its target */
    if (offset > o->message.payload || c->bytes > o->message.payload - offset ||
        c->bytes > o->message.payload - o->handed) {
        refusal_say(&is->port->refusal, c->number,
                    "%u bytes at %u of a message of %llu, of which %llu are sent", c->bytes, offset,
                    (unsigned long long)o->message.payload, (unsigned long long)o->handed);
        return refuse(is);
    }
    if (!is_below(nic->handler_packets, nic->config.handler_packets))
        return wait_for_room(nic, is->task);
    struct nic_packet *packet = c->bytes ? packet_of(is) : NULL;
    if (c->bytes && !packet)
        return refuse(is);
    is->port->hpu->result = PTL_OK;
    if (!packet)
        return HPU_ACCESS_OK;
    packet->offset = offset;
    o->handed += c->bytes;
    nic->handler_packets++;
    nic_depart_stream(nic, o, packet, &is->task->seen, c->local_at);
    return HPU_ACCESS_OK;
}

static enum hpu_access with_host(const struct issue *is, enum nic_message_kind kind) {
    struct nic *nic = is->nic;
    struct nic_origin origin = {.of_handler = true, .task = &is->task->seen};
    if (!is_below(nic->handler_messages, nic->config.handler_messages))
        return wait_for_room(nic, is->task);
    return start_message(is, kind, NULL, &origin);
}

/* Blocks until the data is there: the call gives the handler no handle to wait for. */
static enum hpu_access get_to_device(const struct issue *is) {
    struct nic_task_record *task = is->task;
    if (task->get)
        return wait_for(task);
    if (task->get_done) {
        task->get_done = false;
        is->port->hpu->result = task->get_failed ? PTL_FAIL : PTL_OK;
        return HPU_ACCESS_OK;
    }
    struct nic_origin origin = {0};
    enum hpu_access done = start_message(is, NIC_GET, is->command->local, &origin);
    if (done != HPU_ACCESS_OK || !origin.made)
        return done;
    task->get = origin.made;
    task->get->to_card = true;
    task->get->waiting = task;
    return wait_for(task);
}

/* The reply is in, or will never be. */
void nic_command_answered(struct nic *nic, struct nic_outgoing *o, bool failed) {
    struct nic_task_record *task = o->waiting;
    o->to_card = false;
    o->waiting = NULL;
    if (!task)
        return;
    task->get = NULL;
    task->get_done = true;
    task->get_failed = failed;
    nic_handler_resume(nic, task);
}

/* Counters: the entry's. On the card they have 32 bits. */

static enum hpu_access counter(const struct issue *is) {
    const struct portals_arrival *arrival = &is->task->message->arrival;
    const struct port_command *c = is->command;
    ptl_ct_event_t event = {c->word[0], c->word[1]};
    int code;
    if (c->number == SPIN_COMMAND_CT_GET)
        code = portals_command_ct_get(is->nic->portals, arrival, &event);
    else if (c->number == SPIN_COMMAND_CT_INC)
        code = portals_command_ct_inc(is->nic->portals, arrival, event);
    else
        code = portals_command_ct_set(is->nic->portals, arrival, event);
    if (code != PTL_OK) {
        refusal_say(&is->port->refusal, c->number, "the ME has no counter");
        return refuse(is);
    }
    const uint32_t small[2] = {(uint32_t)event.success, (uint32_t)event.failure};
    if (c->number == SPIN_COMMAND_CT_GET)
        memcpy(c->local, small, 8);
    return HPU_ACCESS_OK;
}

static enum hpu_access message(const struct issue *is) {
    switch (is->command->number) {
    case SPIN_COMMAND_PUT_FROM_HOST:
        return with_host(is, NIC_PUT);
    case SPIN_COMMAND_PUT_FROM_DEVICE:
        return from_device(is, NIC_PUT, NULL);
    case SPIN_COMMAND_GET_TO_HOST:
        return with_host(is, NIC_GET);
    case SPIN_COMMAND_GET_TO_DEVICE:
        return get_to_device(is);
    case SPIN_COMMAND_ATOMIC_FROM_HOST:
        return with_host(is, NIC_ATOMIC);
    case SPIN_COMMAND_STREAM_START:
        return stream_start(is);
    case SPIN_COMMAND_STREAM_PUT:
        return stream_put(is);
    }
    return from_device(is, NIC_ATOMIC, NULL);
}

static bool is_of_pspin(uint32_t number) {
    return number >= SPIN_COMMAND_NIC_SEND && number <= SPIN_COMMAND_LOCAL_DMA;
}

enum hpu_access nic_command(struct nic *nic, const struct nic_task *seen, struct port *port,
                            const struct port_command *command, uint64_t now) {
    const struct issue is = {nic, nic_task_of(seen), port, command};
    nic->now = now;
    if (is_of_pspin(command->number) && !port->is_pspin) {
        refusal_unknown(&port->refusal, command->number, "a Portals card"); /* PsPIN's */
        return refuse(&is);
    }
    switch (command->effect) {
    case PORT_MESSAGE:
        return message(&is);
    case PORT_PACKET:
        return from_device(&is, NIC_PUT, NULL);
    case PORT_COUNTER:
        return counter(&is);
    case PORT_ATOMIC:
        return atomic(&is);
    case PORT_COPY: /* at once: the card has no engine for it */
        memmove(command->other, command->local, command->bytes);
        return HPU_ACCESS_OK;
    }
    return copy(&is);
}
