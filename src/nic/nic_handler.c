/* The handlers of a message: header, then payload for each packet in any order, then completion. A
 * message that matched an entry with handlers ends with its completion handler, whatever the others
 * returned. docs/nic.md has the table of return codes. */
#include <string.h>

#include "hpu/image.h"
#include "nic/nic_private.h"

/* A payload handler of P4sPIN may read its packet where that is. */
static bool may_share(const struct nic *nic, const struct nic_incoming *in,
                      enum nic_handler_kind kind, const struct nic_packet *packet,
                      const uint8_t *data) {
    return kind == NIC_PAYLOAD_HANDLER && data == packet->data &&
           packet->pool == nic->config.pool && !in->arrival.handlers->image->info.is_pspin;
}

/* A handler's run, but for what it is told of its data's length and place. `data`: in the packet.
 * NULL: no memory. */
static struct nic_task *make_task(struct nic *nic, struct nic_incoming *in,
                                  enum nic_handler_kind kind, struct nic_packet *packet,
                                  const uint8_t *data) {
    struct nic_packet *kept = packet ? nic_packet_keep(packet) : NULL;
    struct nic_task_record *task = packet && !kept ? NULL : pool_take(&nic->tasks);
    if (!task) {
        if (kept)
            nic_packet_release(kept);
        nic->counts.no_memory++;
        return NULL;
    }
    struct nic_task *seen = &task->seen;
    if (kept) {
        seen->data = kept->data + (data - packet->data);
        seen->may_share = may_share(nic, in, kind, kept, seen->data);
        /* It is the last to see it, if nothing is sent again: then it may write there, too. */
        bool last = nic->config.reliable || nic->config.own_packets;
        seen->owns_data = seen->may_share && last && !kept->lender;
    }
    seen->number = pool_number(task);
    seen->kind = (uint8_t)kind;
    seen->message_id = in->slot.index;
    seen->handlers = in->arrival.handlers;
    seen->message = in->message;
    seen->me_offset = in->arrival.offset;
    task->message = in;
    task->packet = seen->packet = kept;
    return seen;
}

static void run(struct nic *nic, struct nic_incoming *in, struct nic_task *seen, uint32_t entry) {
    seen->entry = entry;
    in->flow.work++;
    in->seen = true;
    nic->running++;
    nic->counts.tasks++;
    nic->config.driver->run(nic->config.context, seen);
}

/* Once for a packet that both a header and a payload handler see. */
static void count_handled(struct nic *nic, const struct nic_packet *packet) {
    nic->counts.handled_packets++;
    nic->counts.handled_bytes += packet->bytes;
}

static bool context_left(const struct nic *nic) {
    return !nic->config.contexts || nic->running < nic->config.contexts;
}

/* No context: the portal table entry takes nothing more. A message that no handler has seen is
 * refused whole; of another one the rest is dropped. */
static void exhausted(struct nic *nic, struct nic_incoming *in) {
    uint8_t fail = portals_exhausted(&in->arrival);
    nic->counts.flow_control++;
    in->flow_control = true;
    in->refused = !in->seen;
    if (in->refused)
        flow_refuse(&in->flow, fail);
    else
        in->flow.payload = FLOW_DISCARDED;
}

/* Gets and fetching atomics have an answer, which is the default action: payload handlers are not
 * for them. */
void nic_handler_message(struct nic_incoming *in) {
    const struct portals_handlers *h = nic_handlers(in);
    bool payload = in->message->kind == NIC_PUT || in->message->kind == NIC_ATOMIC;
    flow_begin(&in->flow,
               flow_handlers(h->header, payload ? h->payload : 0, h->completion, h->cleanup),
               h->image->info.is_pspin && payload);
}

void nic_handler_header(struct nic *nic, struct nic_incoming *in, struct nic_packet *first) {
    const struct portals_handlers *h = nic_handlers(in);
    struct nic_task *task =
        context_left(nic) ? make_task(nic, in, NIC_HEADER_HANDLER, first, first->data) : NULL;
    if (!task) {
        exhausted(nic, in);
        nic_receive_body(nic, in);
        return;
    }
    task->user_hdr_bytes = h->user_hdr_bytes < first->bytes ? h->user_hdr_bytes : first->bytes;
    task->bytes = h->image->info.is_pspin /* all of the first packet */
                      ? (uint32_t)nic_accepted(in, first)
                      : task->user_hdr_bytes;
    run(nic, in, task, h->header);
    count_handled(nic, first);
}

void nic_handler_packet(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    const struct portals_handlers *h = nic_handlers(in);
    uint64_t bytes = nic_accepted(in, packet), skip = h ? 0 : bytes;
    if (h && packet->offset < h->user_hdr_bytes)
        skip = h->user_hdr_bytes - packet->offset;
    if (bytes <= skip)
        return;
    struct nic_task *task =
        packet->bad || !context_left(nic)
            ? NULL
            : make_task(nic, in, NIC_PAYLOAD_HANDLER, packet, packet->data + skip);
    if (!task) {
        if (!packet->bad)
            exhausted(nic, in);
        in->flow.dropped += bytes;
        return;
    }
    task->bytes = (uint32_t)(bytes - skip);
    task->offset = packet->offset + skip;
    run(nic, in, task, h->payload);
    if (packet->offset || !h->header)
        count_handled(nic, packet);
}

/* PsPIN's completion handler is called with the message's last packet. */
void nic_handler_last(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet) {
    if (in->last || !in->flow.no_codes || !flow_has(&in->flow, FLOW_COMPLETION_HANDLER))
        return;
    in->last = nic_packet_keep(packet);
    if (in->last)
        return;
    nic->counts.no_memory++;
    nic_handler_unkept(in, packet);
}

void nic_handler_unkept(struct nic_incoming *in, const struct nic_packet *packet) {
    flow_failed(&in->flow, PTL_NI_UNDELIVERABLE);
    if (in->flow.no_codes && packet->last)
        flow_give_up(&in->flow);
}

void nic_handler_end(struct nic *nic, struct nic_incoming *in, enum nic_handler_kind kind) {
    const struct portals_handlers *h = nic_handlers(in);
    if (!h) { /* the interface was closed meanwhile */
        nic_receive_finish(nic, in);
        return;
    }
    struct nic_task *task = make_task(nic, in, kind, in->last, in->last ? in->last->data : NULL);
    if (!task) { /* what it would have done is missing */
        flow_failed(&in->flow, PTL_NI_UNDELIVERABLE);
        nic_receive_finish(nic, in);
        return;
    }
    task->dropped_bytes = flow_dropped(&in->flow);
    task->flow_control_triggered = in->flow_control;
    if (in->last) {
        task->bytes = (uint32_t)nic_accepted(in, in->last);
        task->offset = in->last->offset;
    }
    run(nic, in, task, kind == NIC_CLEANUP_HANDLER ? h->cleanup : h->completion);
}

/* The handler has returned and none of its commands is under way. One whose command met memory that
 * is not there has failed, whether it waited for that or not. */
void nic_handler_drained(struct nic *nic, struct nic_task_record *task) {
    struct nic_incoming *in = task->message;
    enum nic_handler_kind kind = (enum nic_handler_kind)task->seen.kind;
    struct nic_packet *packet = task->packet;
    uint32_t bytes = task->seen.bytes;
    int32_t ending = task->host_fault ? FLOW_SEGV : task->ending;
    pool_give(&nic->tasks, task);
    in->flow.work--;
    if (packet)
        nic_packet_release(packet);
    flow_ended(&in->flow, (enum flow_handler)kind, ending, bytes);
    if (kind != NIC_HEADER_HANDLER) {
        nic_receive_check(nic, in);
        return;
    }
    if (in->flow.payload == FLOW_DISCARDED && in->message->kind == NIC_GET)
        in->flow.dropped = in->mlength; /* no packet brings it */
    nic_receive_body(nic, in);
}

static void leave_room_queue(struct nic *nic, struct nic_task_record *task) {
    struct nic_task_record **at = &nic->room_queue;
    while (*at && *at != task)
        at = &(*at)->next_waiter;
    if (*at)
        *at = task->next_waiter;
}

void nic_handler_done(struct nic *nic, uint64_t number, int32_t ending, uint64_t now) {
    struct nic_task_record *task = pool_named(&nic->tasks, number);
    if (!task || task->ended)
        return; /* told twice */
    nic->now = now;
    nic->running--;
    task->ended = true;
    task->blocked = false;
    task->ending = ending;
    if (task->in_room_queue)
        leave_room_queue(nic, task);
    if (task->get)
        task->get->waiting = NULL; /* its data goes nowhere */
    if (task->seen.kind == NIC_COMPLETION_HANDLER)
        portals_prefetch_ending(&task->message->arrival);
    if (!task->commands)
        nic_handler_drained(nic, task);
}

void nic_handler_resume(struct nic *nic, struct nic_task_record *task) {
    if (!task->blocked)
        return;
    task->blocked = false;
    nic->config.driver->resume(nic->config.context, &task->seen);
}
