/* The short form of a packet (wire.h), written and read in place: most packets of a network that
 * loses nothing are such, and each is one line of memory. */
#ifndef SPIN_NIC_WIRE_SHORT_H
#define SPIN_NIC_WIRE_SHORT_H

#include <string.h>

#include "nic/wire.h"

enum { WIRE_SHORT_PUT = 32, WIRE_SHORT_ACK = 33 };
enum { WIRE_ACK_REQ = 3, WIRE_INTERFACE = 15 << 2, WIRE_LIST = 64, WIRE_INITIATOR = 128 };

static inline void wire_put32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, 4); /* hosts are little-endian */
}
static inline void wire_put16(uint8_t *at, uint16_t value) {
    memcpy(at, &value, 2);
}
static inline void wire_put64(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
}
static inline uint16_t wire_get16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, 2);
    return value;
}
static inline uint32_t wire_get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}
static inline uint64_t wire_get64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

static inline bool wire_is_short(const struct nic_packet *p) {
    const struct nic_message *m = &p->message;
    if (p->kind != NIC_DATA || !p->first || !p->last || p->bad)
        return false;
    if (p->offset | p->stream | p->sequence | p->ack_stream | p->ack | p->sack | p->credit |
        p->prompt | m->operation | m->datatype)
        return false;
    if ((p->source.pid | p->target.pid | m->uid | m->pt_index | m->remote_offset >> 16) >
            UINT16_MAX ||
        (m->interface > 15) | (m->ack_req > 3) | (m->list > 1) || m->payload != p->bytes ||
        (m->hdr_data && m->initiator))
        return false;
    if (m->kind == NIC_PUT)
        return p->bytes <= UINT8_MAX && m->length == m->payload && !m->fail;
    return m->kind == NIC_ACK && !p->bytes && !m->match_bits;
}

/* All but the first 8 bytes, which are returned. */
static inline uint64_t wire_encode_short(const struct nic_packet *p, uint8_t *b) {
    const struct nic_message *m = &p->message;
    bool ack = m->kind == NIC_ACK;
    uint64_t flags = m->ack_req | (uint32_t)m->interface << 2 | (m->list ? WIRE_LIST : 0u) |
                     (m->initiator ? WIRE_INITIATOR : 0u);
    wire_put64(b + 8, p->source.nid | (uint64_t)p->target.nid << 32);
    wire_put64(b + 16, p->source.pid | p->target.pid << 16 | (uint64_t)p->message_number << 32);
    wire_put64(b + 24, ack ? m->length : m->match_bits);
    wire_put64(b + 32, m->remote_offset | (uint64_t)m->uid << 32 | (uint64_t)m->pt_index << 48);
    wire_put64(b + 40, m->source_rank | (uint64_t)m->target_rank << 32);
    wire_put64(b + 48, m->initiator | m->hdr_data); /* one of them is 0 */
    return WIRE_MAGIC | (uint64_t)WIRE_VERSION << 32 |
           (uint64_t)(ack ? WIRE_SHORT_ACK : WIRE_SHORT_PUT) << 40 | flags << 48 |
           (uint64_t)(ack ? m->fail : (uint8_t)p->bytes) << 56;
}

/* Each byte is read once, but the first 8, which are given. Returns what is wrong with it. */
static inline const char *wire_decode_short(struct nic_packet *p, uint64_t first,
                                            const uint8_t *b) {
    struct nic_message *m = &p->message;
    uint64_t nids = wire_get64(b + 8), pids = wire_get64(b + 16), bits = wire_get64(b + 24);
    uint64_t place = wire_get64(b + 32), ranks = wire_get64(b + 40), other = wire_get64(b + 48);
    uint8_t flags = (uint8_t)(first >> 48), last = (uint8_t)(first >> 56);
    bool ack = (uint8_t)(first >> 40) == WIRE_SHORT_ACK, names = flags & WIRE_INITIATOR;
    p->kind = NIC_DATA;
    p->first = p->last = true;
    p->bad = false;
    p->source = (struct nic_address){(uint32_t)nids, (uint16_t)pids};
    p->target = (struct nic_address){(uint32_t)(nids >> 32), (uint16_t)(pids >> 16)};
    p->stream = p->sequence = p->ack_stream = p->ack = 0;
    p->sack = 0;
    p->credit = 0;
    p->prompt = false;
    p->message_number = (uint32_t)(pids >> 32);
    p->offset = 0;
    p->bytes = ack ? 0 : last;
    m->kind = ack ? NIC_ACK : NIC_PUT;
    m->interface = (flags & WIRE_INTERFACE) >> 2;
    m->ack_req = flags & WIRE_ACK_REQ;
    m->operation = m->datatype = 0;
    m->fail = ack ? last : 0;
    m->list = (flags & WIRE_LIST) != 0;
    m->uid = (uint16_t)(place >> 32);
    m->source = p->source;
    m->target = p->target;
    m->source_rank = (uint32_t)ranks;
    m->target_rank = (uint32_t)(ranks >> 32);
    m->pt_index = (uint32_t)(place >> 48);
    m->match_bits = ack ? 0 : bits;
    m->hdr_data = names ? 0 : other;
    m->remote_offset = (uint32_t)place;
    m->length = ack ? bits : p->bytes;
    m->payload = p->bytes;
    m->initiator = names ? other : 0;
    memset(m->operand, 0, sizeof m->operand);
    return names && !other ? "an initiator that is none" : NULL;
}

#endif
