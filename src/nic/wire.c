#include "nic/wire.h"

#include <string.h>

#define SHORT_BYTES   WIRE_PACKET_BYTES
#define LONG_BYTES    WIRE_LATER_BYTES
#define MESSAGE_BYTES 72

enum { FIRST = 1, LAST = 2, BAD = 4, PROMPT = 8 };
enum { CREDIT_BITS = 5, CREDIT_HALF = 16, CREDIT_MOST = 31 << 7 };
enum { SHORT_PUT = 32, SHORT_ACK = 33 };
enum { ACK_REQ = 3, INTERFACE = 15 << 2, LIST = 64, INITIATOR = 128 };

static void put32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, 4); /* hosts are little-endian */
}
static void put16(uint8_t *at, uint16_t value) {
    memcpy(at, &value, 2);
}
static void put64(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
}
static uint16_t get16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, 2);
    return value;
}
static uint32_t get32(const uint8_t *at) {
    uint32_t value;
    memcpy(&value, at, 4);
    return value;
}
static uint64_t get64(const uint8_t *at) {
    uint64_t value;
    memcpy(&value, at, 8);
    return value;
}

/* Only an atomic that fetches has an operand beside its data: a swap. */
static uint32_t operand_bytes(const struct nic_message *m) {
    return m->kind == NIC_FETCH_ATOMIC ? sizeof m->operand : 0;
}

static uint32_t long_bytes(const struct nic_packet *p) {
    return LONG_BYTES + (p->first ? MESSAGE_BYTES + operand_bytes(&p->message) : 0);
}

/* ---- Credits ---- */

static uint8_t encode_credit(uint32_t credit) {
    uint32_t e = 0;
    for (; credit >= 2 * CREDIT_HALF; credit /= 2)
        e++;
    return (uint8_t)(e << CREDIT_BITS | credit);
}

static uint32_t decode_credit(uint8_t byte) {
    return (byte & (2 * CREDIT_HALF - 1u)) << (byte >> CREDIT_BITS);
}

static bool is_credit(uint8_t byte) {
    return byte < 2 * CREDIT_HALF || byte & CREDIT_HALF;
}

uint32_t wire_credit_floor(uint32_t packets) {
    uint32_t credit = packets < CREDIT_MOST ? packets + 1 : CREDIT_MOST;
    return decode_credit(encode_credit(credit)) - 1;
}

/* ---- The short form ---- */

bool wire_is_short(const struct nic_packet *p) {
    const struct nic_message *m = &p->message;
    if (p->kind != NIC_DATA || !p->first || !p->last || p->bad || p->offset)
        return false;
    bool is_put = m->kind == NIC_PUT, is_ack = m->kind == NIC_ACK;
    if (p->stream | p->sequence | p->ack_stream | p->ack | p->sack | p->credit | p->prompt |
        m->operation | m->datatype)
        return false;
    if ((p->source.pid | p->target.pid | m->uid | m->pt_index) > UINT16_MAX ||
        m->remote_offset > UINT32_MAX || m->interface > 15 || m->ack_req > 3 || m->list > 1 ||
        (m->hdr_data && m->initiator) || m->payload != p->bytes)
        return false;
    if (is_put)
        return p->bytes <= UINT8_MAX && m->length == m->payload && !m->fail;
    return is_ack && !p->bytes && !m->match_bits;
}

/* All but the first 8 bytes, which are returned: so in all encoders. */
static uint64_t encode_short(const struct nic_packet *p, uint8_t *b) {
    const struct nic_message *m = &p->message;
    bool ack = m->kind == NIC_ACK;
    uint64_t flags = m->ack_req | (uint32_t)m->interface << 2 | (m->list ? LIST : 0u) |
                     (m->initiator ? INITIATOR : 0u);
    put32(b + 8, p->source.nid);
    put32(b + 12, p->target.nid);
    put16(b + 16, (uint16_t)p->source.pid);
    put16(b + 18, (uint16_t)p->target.pid);
    put32(b + 20, p->message_number);
    put64(b + 24, ack ? m->length : m->match_bits);
    put32(b + 32, (uint32_t)m->remote_offset);
    put16(b + 36, (uint16_t)m->uid);
    put16(b + 38, (uint16_t)m->pt_index);
    put32(b + 40, m->source_rank);
    put32(b + 44, m->target_rank);
    put64(b + 48, m->initiator ? m->initiator : m->hdr_data);
    return WIRE_MAGIC | (uint64_t)WIRE_VERSION << 32 |
           (uint64_t)(ack ? SHORT_ACK : SHORT_PUT) << 40 | flags << 48 |
           (uint64_t)(ack ? m->fail : (uint8_t)p->bytes) << 56;
}

static const char *decode_short(struct nic_packet *p, const uint8_t *b) {
    struct nic_message *m = &p->message;
    bool ack = b[5] == SHORT_ACK;
    uint64_t other = get64(b + 48);
    p->kind = NIC_DATA;
    p->first = p->last = true;
    p->bad = false;
    p->source = (struct nic_address){get32(b + 8), get16(b + 16)};
    p->target = (struct nic_address){get32(b + 12), get16(b + 18)};
    p->stream = p->sequence = p->ack_stream = p->ack = 0;
    p->sack = 0;
    p->credit = 0;
    p->prompt = false;
    p->message_number = get32(b + 20);
    p->offset = 0;
    p->bytes = ack ? 0 : b[7];
    m->kind = ack ? NIC_ACK : NIC_PUT;
    m->interface = (b[6] & INTERFACE) >> 2;
    m->ack_req = b[6] & ACK_REQ;
    m->operation = m->datatype = 0;
    m->fail = ack ? b[7] : 0;
    m->list = (b[6] & LIST) != 0;
    m->uid = get16(b + 36);
    m->source = p->source;
    m->target = p->target;
    m->source_rank = get32(b + 40);
    m->target_rank = get32(b + 44);
    m->pt_index = get16(b + 38);
    m->match_bits = ack ? 0 : get64(b + 24);
    m->hdr_data = b[6] & INITIATOR ? 0 : other;
    m->remote_offset = get32(b + 32);
    m->length = ack ? get64(b + 24) : p->bytes;
    m->payload = p->bytes;
    m->initiator = b[6] & INITIATOR ? other : 0;
    memset(m->operand, 0, sizeof m->operand);
    return b[6] & INITIATOR && !other ? "an initiator that is none" : NULL;
}

/* ---- The long form ---- */

uint32_t wire_head_bytes(const struct nic_packet *p, bool is_short) {
    return is_short ? SHORT_BYTES : long_bytes(p);
}

uint32_t nic_packet_bytes(const struct nic_packet *packet) {
    return wire_head_bytes(packet, wire_is_short(packet)) + packet->bytes;
}

static void encode_message(const struct nic_message *m, uint8_t *b) {
    const uint8_t small[8] = {m->kind,     m->interface, m->ack_req, m->operation,
                              m->datatype, m->fail,      m->list,    (uint8_t)operand_bytes(m)};
    memcpy(b, small, 8);
    put32(b + 8, m->uid);
    put32(b + 12, m->source_rank);
    put32(b + 16, m->target_rank);
    put32(b + 20, m->pt_index);
    put64(b + 24, m->match_bits);
    put64(b + 32, m->hdr_data);
    put64(b + 40, m->remote_offset);
    put64(b + 48, m->length);
    put64(b + 56, m->payload);
    put64(b + 64, m->initiator);
    memcpy(b + MESSAGE_BYTES, m->operand, operand_bytes(m));
}

static uint64_t encode_long(const struct nic_packet *p, uint8_t *b) {
    uint64_t flags = (p->first ? FIRST : 0u) | (p->last ? LAST : 0u) | (p->bad ? BAD : 0u) |
                     (p->prompt ? PROMPT : 0u);
    put32(b + 8, p->source.nid);
    put32(b + 12, p->source.pid);
    put32(b + 16, p->target.nid);
    put32(b + 20, p->target.pid);
    put32(b + 24, p->stream);
    put32(b + 28, p->sequence);
    put32(b + 32, p->ack_stream);
    put32(b + 36, p->ack);
    put64(b + 40, p->sack);
    put32(b + 48, p->message_number);
    put32(b + WIRE_BYTES_AT, p->bytes);
    put64(b + 56, p->offset);
    if (p->first)
        encode_message(&p->message, b + LONG_BYTES);
    return WIRE_MAGIC | (uint64_t)WIRE_VERSION << 32 | (uint64_t)p->kind << 40 | flags << 48 |
           (uint64_t)encode_credit(p->credit) << 56;
}

void wire_encode_rest(const struct nic_packet *p, bool is_short, uint8_t *b, uint64_t *first) {
    *first = is_short ? encode_short(p, b) : encode_long(p, b);
}

uint32_t wire_encode_head(const struct nic_packet *p, uint8_t *b) {
    bool is_short = wire_is_short(p);
    uint64_t first;
    wire_encode_rest(p, is_short, b, &first);
    put64(b, first);
    return wire_head_bytes(p, is_short);
}

uint32_t wire_encode(const struct nic_packet *p, uint8_t *b) {
    uint32_t header = wire_encode_head(p, b);
    if (p->bytes)
        memcpy(b + header, p->data, p->bytes);
    return header + p->bytes;
}

static const char *decode_packet(struct nic_packet *p, const uint8_t *b) {
    p->kind = b[5];
    p->first = b[6] & FIRST;
    p->last = b[6] & LAST;
    p->bad = b[6] & BAD;
    p->prompt = b[6] & PROMPT;
    p->credit = (uint16_t)decode_credit(b[7]);
    if (p->kind > NIC_PROBE || b[6] > (FIRST | LAST | BAD | PROMPT) || !is_credit(b[7]))
        return "unknown kind, flag or credit";
    p->source = (struct nic_address){get32(b + 8), get32(b + 12)};
    p->target = (struct nic_address){get32(b + 16), get32(b + 20)};
    p->stream = get32(b + 24);
    p->sequence = get32(b + 28);
    p->ack_stream = get32(b + 32);
    p->ack = get32(b + 36);
    p->sack = get64(b + 40);
    p->message_number = get32(b + 48);
    p->bytes = get32(b + WIRE_BYTES_AT);
    p->offset = get64(b + 56);
    if (p->kind != NIC_DATA && (p->bytes || p->offset || b[6] || p->message_number))
        return "a receipt or probe with data";
    if (p->kind == NIC_DATA && !p->first && (p->bytes == 0 || p->offset == 0))
        return "neither the first of its message nor with data of its own";
    if (p->offset + p->bytes < p->offset)
        return "data past the end of all numbers";
    return NULL;
}

static const char *decode_message(struct nic_packet *p, const uint8_t *b, uint64_t room) {
    struct nic_message *m = &p->message;
    if (room < MESSAGE_BYTES)
        return "shorter than a message's header";
    *m = (struct nic_message){
        .kind = b[0],
        .interface = b[1],
        .ack_req = b[2],
        .operation = b[3],
        .datatype = b[4],
        .fail = b[5],
        .list = b[6],
        .uid = get32(b + 8),
        .source_rank = get32(b + 12),
        .target_rank = get32(b + 16),
        .pt_index = get32(b + 20),
        .match_bits = get64(b + 24),
        .hdr_data = get64(b + 32),
        .remote_offset = get64(b + 40),
        .length = get64(b + 48),
        .payload = get64(b + 56),
        .initiator = get64(b + 64),
        .source = p->source,
        .target = p->target,
    };
    if (m->kind > NIC_REPLY || b[7] != operand_bytes(m))
        return "unknown kind of message";
    if (room < MESSAGE_BYTES + operand_bytes(m))
        return "shorter than its operand";
    memcpy(m->operand, b + MESSAGE_BYTES, operand_bytes(m));
    if (p->offset != 0 || p->bytes > m->payload || p->last != (p->bytes == m->payload))
        return "first packet that contradicts its message's length";
    return NULL;
}

static const char *decode_long(struct nic_packet *p, const uint8_t *b, uint64_t length) {
    if (length < LONG_BYTES)
        return "shorter than a packet's header";
    const char *wrong = decode_packet(p, b);
    if (!wrong && p->first)
        wrong = decode_message(p, b + LONG_BYTES, length - LONG_BYTES);
    return !wrong && wire_is_short(p) ? "long where the short form is enough" : wrong;
}

const char *wire_decode_head(struct nic_packet *p, uint32_t mtu_bytes, const uint8_t *b,
                             uint64_t length, uint32_t *data) {
    if (length < WIRE_PACKET_BYTES)
        return "shorter than a packet's header";
    if (get32(b) != WIRE_MAGIC)
        return "not a packet of ours";
    if (b[4] != WIRE_VERSION)
        return "another version of the format";
    bool compact = b[5] == SHORT_PUT || b[5] == SHORT_ACK;
    const char *wrong = compact ? decode_short(p, b) : decode_long(p, b, length);
    if (wrong)
        return wrong;
    uint32_t header = compact ? SHORT_BYTES : long_bytes(p);
    if (p->bytes > mtu_bytes)
        return "more data than the MTU";
    if (length != (uint64_t)header + p->bytes)
        return "length differs from what its header says";
    *data = header;
    return NULL;
}

const char *wire_decode(struct nic_packet *p, uint32_t mtu_bytes, const uint8_t *b,
                        uint64_t length) {
    uint32_t data;
    const char *wrong = wire_decode_head(p, mtu_bytes, b, length, &data);
    if (!wrong && p->bytes)
        memcpy(p->data, b + data, p->bytes);
    return wrong;
}
