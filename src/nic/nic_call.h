/* The header that a handler of a message is called with (ptl_header_t), the same on every card. */
#ifndef SPIN_NIC_NIC_CALL_H
#define SPIN_NIC_NIC_CALL_H

#include "hpu/call.h"
#include "nic/nic.h"

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

#endif
