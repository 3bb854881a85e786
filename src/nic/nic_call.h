/* How a handler of a message is called, the same on every card: its header (ptl_header_t); and on
 * a Portals card, where what it has is in the HPU's memory, and its call. */
#ifndef SPIN_NIC_NIC_CALL_H
#define SPIN_NIC_NIC_CALL_H

#include <string.h>

#include "hpu/call.h"
#include "hpu/heap.h"
#include "hpu/hpu_invoke.h"
#include "nic/nic.h"

_Static_assert(NIC_PACKET_HEADROOM >= CALL_HEADROOM, "a call is laid before the packet's data");

static inline uint32_t nic_process_word(const struct nic_message *m, bool source) {
    uint32_t rank = source ? m->source_rank : m->target_rank;
    const struct nic_address *a = source ? &m->source : &m->target;
    return m->interface & PTL_NI_LOGICAL ? rank : a->nid << 16 | (a->pid & 0xffff);
}

static inline struct call_header nic_call_header(const struct nic_task *t) {
    static const uint8_t types[] = {
        [NIC_PUT] = 0, [NIC_GET] = 1, [NIC_ATOMIC] = 2, [NIC_FETCH_ATOMIC] = 2};
    const struct nic_message *m = t->message;
    return (struct call_header){
        .type = types[m->kind],
        .length = (uint32_t)m->length,
        .target = nic_process_word(m, false),
        .source = nic_process_word(m, true),
        .match_bits = m->match_bits,
        .hdr_data = m->hdr_data,
        .offset = (uint32_t)t->me_offset,
    };
}

/* Where the handlers of a Portals card, which is one cluster, find what each has for itself. The
 * state may have any size, so the scratchpad that they share is where another cluster's L1 is. */
#define NIC_HANDLER_PACKET (MAP_L1_BASE + MAP_L1_PACKETS + CALL_HEADROOM)
#define NIC_HANDLER_HEAP   (MAP_L1_BASE + MAP_L1_SCRATCH)
#define NIC_HANDLER_STATE  (NIC_HANDLER_HEAP + HEAP_BYTES + 64u) /* guarded */
#define NIC_HANDLER_PAD    (MAP_L1_BASE + MAP_L1_STRIDE + MAP_L1_SCRATCH)

/* The call of a task. Its data goes to `room`, behind the headroom of a call, unless the task owns
 * it or only reads it and it is used as it is. Left to the card: the budget. Fields are set one by
 * one, and those that such a call has no use for are not: clearing all takes longer than a short
 * handler does. */
static inline void nic_task_call(struct invoke_call *call, const struct nic_task *t,
                                 uint8_t *room) {
    bool pspin = t->handlers->image->info.is_pspin, as_it_is = t->owns_data || t->reads_only;
    call->entry = t->entry;
    call->kind = pspin ? SPIN_PSPIN_HANDLER : (enum spin_handler_kind)t->kind;
    call->packet = as_it_is ? (uint8_t *)(uintptr_t)t->data : room + CALL_HEADROOM;
    call->address = NIC_HANDLER_PACKET;
    call->headroom = CALL_HEADROOM;
    call->bytes = call->length = t->bytes;
    call->reads_only = t->reads_only;
    call->arguments = call->l2_packet = NULL;
    call->l2_address = pspin ? NIC_HANDLER_PACKET : 0; /* there is one copy */
    call->memory_address = NIC_HANDLER_STATE;
    call->memory_bytes = (uint32_t)t->handlers->state_bytes;
    call->offset = (uint32_t)t->offset;
    call->user_hdr_bytes = t->user_hdr_bytes;
    call->dropped_bytes = t->dropped_bytes;
    call->flow_control = t->flow_control_triggered;
    call->home_cluster = 0;
    call->flow = t->message_id;
    if (t->bytes && !as_it_is)
        memcpy(call->packet, t->data, t->bytes);
    if (t->kind == NIC_HEADER_HANDLER)
        call->header = nic_call_header(t);
}

#endif
