/* The short form of a packet (wire.h), written and read in place: most packets of a network that
 * loses nothing are such, and each is one line of memory. */
#ifndef SPIN_NIC_WIRE_SHORT_H
#define SPIN_NIC_WIRE_SHORT_H

#include <string.h>

#include "nic/wire.h"

enum { WIRE_SHORT_ACK = 33, WIRE_SHORT_PUT = 64, WIRE_SHORT_HIGH = 63 /* of its bytes */ };
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

#define WIRE_SHORT_DATA NIC_SHORT_BYTES /* bytes, at most */
_Static_assert(WIRE_SHORT_DATA >> 8 <= WIRE_SHORT_HIGH, "6 bits of the kind and a byte say it");

static inline bool wire_is_short_put(uint8_t kind) {
    return (kind & ~WIRE_SHORT_HIGH) == WIRE_SHORT_PUT;
}
static inline bool wire_is_short_kind(uint8_t kind) {
    return kind == WIRE_SHORT_ACK || wire_is_short_put(kind);
}
/* The data of a put, by the first word of its packet. */
static inline uint32_t wire_short_bytes(uint64_t first) {
    return (uint32_t)(first >> 40 & WIRE_SHORT_HIGH) << 8 | (uint32_t)(first >> 56);
}

/* Whether a message that is one packet has a short form. */
static inline bool wire_message_is_short(const struct nic_message *m) {
    if ((m->source.pid | m->target.pid | m->uid | m->pt_index | m->remote_offset >> 16) >
            UINT16_MAX ||
        m->interface >> 4 | m->ack_req >> 2 | m->list >> 1 | m->operation | m->datatype ||
        (m->hdr_data && m->initiator))
        return false;
    if (m->kind == NIC_PUT)
        return m->payload <= WIRE_SHORT_DATA && m->length == m->payload && !m->fail;
    return m->kind == NIC_ACK && !m->payload && !m->match_bits;
}

static inline bool wire_is_short(const struct nic_packet *p) {
    if (p->kind != NIC_DATA || !p->first || !p->last || p->bad)
        return false;
    if (p->offset | p->stream | p->sequence | p->ack_stream | p->ack | p->sack | p->credit |
        p->prompt)
        return false;
    return p->message.payload == p->bytes && nic_address_equal(p->source, p->message.source) &&
           nic_address_equal(p->target, p->message.target) && wire_message_is_short(&p->message);
}

/* All but the first 8 bytes, which are returned. */
static inline uint64_t wire_encode_short_message(const struct nic_message *m, uint32_t number,
                                                 uint8_t *b) {
    bool ack = m->kind == NIC_ACK;
    uint64_t flags = m->ack_req | (uint32_t)m->interface << 2 | (m->list ? WIRE_LIST : 0u) |
                     (m->initiator ? WIRE_INITIATOR : 0u);
    wire_put64(b + 8, m->source.nid | (uint64_t)m->target.nid << 32);
    wire_put64(b + 16, m->source.pid | m->target.pid << 16 | (uint64_t)number << 32);
    wire_put64(b + 24, ack ? m->length : m->match_bits);
    wire_put64(b + 32, m->remote_offset | (uint64_t)m->uid << 32 | (uint64_t)m->pt_index << 48);
    wire_put64(b + 40, m->source_rank | (uint64_t)m->target_rank << 32);
    wire_put64(b + 48, m->initiator | m->hdr_data); /* one of them is 0 */
    return WIRE_MAGIC | (uint64_t)WIRE_VERSION << 32 |
           (ack ? WIRE_SHORT_ACK : WIRE_SHORT_PUT | m->payload >> 8) << 40 | flags << 48 |
           (ack ? m->fail : m->payload) << 56;
}

static inline uint64_t wire_encode_short(const struct nic_packet *p, uint8_t *b) {
    return wire_encode_short_message(&p->message, p->message_number, b);
}

/* Each byte is read once, but the first 8, which are given. Returns what is wrong with it. */
static inline __attribute__((always_inline)) const char *
wire_decode_short_message(struct nic_message *m, uint32_t *number, bool ack, uint64_t first,
                          const uint8_t *b) {
    uint64_t nids = wire_get64(b + 8), pids = wire_get64(b + 16), bits = wire_get64(b + 24);
    uint64_t place = wire_get64(b + 32), ranks = wire_get64(b + 40), other = wire_get64(b + 48);
    uint8_t flags = (uint8_t)(first >> 48), last = (uint8_t)(first >> 56);
    bool names = flags & WIRE_INITIATOR;
    *number = (uint32_t)(pids >> 32);
    m->kind = ack ? NIC_ACK : NIC_PUT;
    m->interface = (flags & WIRE_INTERFACE) >> 2;
    m->ack_req = flags & WIRE_ACK_REQ;
    m->operation = m->datatype = 0;
    m->fail = ack ? last : 0;
    m->list = (flags & WIRE_LIST) != 0;
    m->uid = (uint16_t)(place >> 32);
    m->source = (struct nic_address){(uint32_t)nids, (uint16_t)pids};
    m->target = (struct nic_address){(uint32_t)(nids >> 32), (uint16_t)(pids >> 16)};
    m->source_rank = (uint32_t)ranks;
    m->target_rank = (uint32_t)(ranks >> 32);
    m->pt_index = (uint32_t)(place >> 48);
    m->match_bits = ack ? 0 : bits;
    m->hdr_data = names ? 0 : other;
    m->remote_offset = (uint32_t)place;
    m->payload = ack ? 0 : wire_short_bytes(first);
    m->length = ack ? bits : m->payload;
    m->initiator = names ? other : 0;
    if (m->payload > WIRE_SHORT_DATA)
        return "more data than the short form has";
    return names && !other ? "an initiator that is none" : NULL;
}

static inline const char *wire_decode_short(struct nic_packet *p, uint64_t first,
                                            const uint8_t *b) {
    struct nic_message *m = &p->message;
    bool ack = (uint8_t)(first >> 40) == WIRE_SHORT_ACK;
    const char *wrong = wire_decode_short_message(m, &p->message_number, ack, first, b);
    memset(m->operand, 0, sizeof m->operand);
    p->kind = NIC_DATA;
    p->first = p->last = true;
    p->bad = false;
    p->source = m->source;
    p->target = m->target;
    p->stream = p->sequence = p->ack_stream = p->ack = 0;
    p->sack = 0;
    p->credit = 0;
    p->prompt = false;
    p->run = 0;
    p->offset = 0;
    p->bytes = (uint32_t)m->payload;
    return wrong;
}

#endif
