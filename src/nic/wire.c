#include "nic/wire.h"

#include "nic/wire_short.h"

#define LONG_BYTES    WIRE_LATER_BYTES
#define MESSAGE_BYTES 72
#define TAG_BYTES     WIRE_TAG_BYTES

enum { JOINED = 34 }; /* instead of a kind */
enum { FIRST = 1, LAST = 2, BAD = 4, PROMPT = 8 };
enum { CREDIT_BITS = 5, CREDIT_HALF = 16, CREDIT_MOST = 31 << 7 };

/* Only an atomic that fetches has an operand beside its data: a swap. */
static uint32_t operand_bytes(const struct nic_message *m) {
    return m->kind == NIC_FETCH_ATOMIC ? sizeof m->operand : 0;
}

uint32_t wire_long_bytes(const struct nic_packet *p) {
    if (p->kind >= NIC_BLOCK)
        return LONG_BYTES + TAG_BYTES;
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

/* ---- The long form ---- */

uint32_t nic_packet_bytes(const struct nic_packet *packet) {
    uint32_t header = wire_is_short(packet) ? WIRE_PACKET_BYTES : wire_long_bytes(packet);
    return header + packet->bytes;
}

static void encode_message(const struct nic_message *m, uint8_t *b) {
    const uint8_t small[8] = {m->kind,     m->interface, m->ack_req, m->operation,
                              m->datatype, m->fail,      m->list,    (uint8_t)operand_bytes(m)};
    memcpy(b, small, 8);
    wire_put32(b + 8, m->uid);
    wire_put32(b + 12, m->source_rank);
    wire_put32(b + 16, m->target_rank);
    wire_put32(b + 20, m->pt_index);
    wire_put64(b + 24, m->match_bits);
    wire_put64(b + 32, m->hdr_data);
    wire_put64(b + 40, m->remote_offset);
    wire_put64(b + 48, m->length);
    wire_put64(b + 56, m->payload);
    wire_put64(b + 64, m->initiator);
    memcpy(b + MESSAGE_BYTES, m->operand, operand_bytes(m));
}

static void encode_tag(const struct nic_block_tag *tag, uint8_t *b) {
    wire_put64(b, tag->transfer);
    wire_put32(b + 8, tag->block);
    wire_put32(b + 12, tag->transmission);
    wire_put32(b + 16, tag->block_bytes);
    wire_put32(b + 20, tag->place);
}

uint64_t wire_encode_long(const struct nic_packet *p, uint8_t *b) {
    uint64_t flags = (p->first ? FIRST : 0u) | (p->last ? LAST : 0u) | (p->bad ? BAD : 0u) |
                     (p->prompt ? PROMPT : 0u);
    wire_put32(b + 8, p->source.nid);
    wire_put32(b + 12, p->source.pid);
    wire_put32(b + 16, p->target.nid);
    wire_put32(b + 20, p->target.pid);
    wire_put32(b + 24, p->stream);
    wire_put32(b + 28, p->sequence);
    wire_put32(b + 32, p->ack_stream);
    wire_put32(b + 36, p->ack);
    wire_put64(b + 40, p->sack);
    wire_put32(b + 48, p->message_number);
    wire_put32(b + WIRE_BYTES_AT, p->bytes);
    wire_put64(b + 56, p->offset);
    if (p->kind >= NIC_BLOCK)
        encode_tag(&p->tag, b + LONG_BYTES);
    else if (p->first)
        encode_message(&p->message, b + LONG_BYTES);
    return WIRE_MAGIC | (uint64_t)WIRE_VERSION << 32 | (uint64_t)p->kind << 40 | flags << 48 |
           (uint64_t)encode_credit(p->credit) << 56;
}

uint32_t wire_encode_head(const struct nic_packet *p, uint8_t *b) {
    bool is_short = wire_is_short(p);
    wire_put64(b, is_short ? wire_encode_short(p, b) : wire_encode_long(p, b));
    return is_short ? WIRE_PACKET_BYTES : wire_long_bytes(p);
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
    p->run = 0;
    p->credit = (uint16_t)decode_credit(b[7]);
    if (p->kind > NIC_REPORT || b[6] > (FIRST | LAST | BAD | PROMPT) || !is_credit(b[7]))
        return "unknown kind, flag or credit";
    p->source = (struct nic_address){wire_get32(b + 8), wire_get32(b + 12)};
    p->target = (struct nic_address){wire_get32(b + 16), wire_get32(b + 20)};
    p->stream = wire_get32(b + 24);
    p->sequence = wire_get32(b + 28);
    p->ack_stream = wire_get32(b + 32);
    p->ack = wire_get32(b + 36);
    p->sack = wire_get64(b + 40);
    p->message_number = wire_get32(b + 48);
    p->bytes = wire_get32(b + WIRE_BYTES_AT);
    p->offset = wire_get64(b + 56);
    bool empty = !p->bytes && !p->offset;
    if ((p->kind == NIC_RECEIPT || p->kind == NIC_PROBE) && (!empty || p->message_number || b[6]))
        return "a receipt or probe with data";
    if (p->kind == NIC_REPORT && (!empty || b[6] & ~PROMPT))
        return "a report of a block with data";
    if (p->kind == NIC_BLOCK && (p->first || !p->bytes))
        return "a packet of a block without data, or the first of its message";
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
        .uid = wire_get32(b + 8),
        .source_rank = wire_get32(b + 12),
        .target_rank = wire_get32(b + 16),
        .pt_index = wire_get32(b + 20),
        .match_bits = wire_get64(b + 24),
        .hdr_data = wire_get64(b + 32),
        .remote_offset = wire_get64(b + 40),
        .length = wire_get64(b + 48),
        .payload = wire_get64(b + 56),
        .initiator = wire_get64(b + 64),
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

static const char *decode_tag(struct nic_packet *p, const uint8_t *b, uint64_t room) {
    if (room < TAG_BYTES)
        return "shorter than the tag of a block";
    p->tag = (struct nic_block_tag){.transfer = wire_get64(b),
                                    .block = wire_get32(b + 8),
                                    .transmission = wire_get32(b + 12),
                                    .block_bytes = wire_get32(b + 16),
                                    .place = b[20]};
    bool report = p->kind == NIC_REPORT;
    if (b[21] || b[22] || b[23] || p->tag.place > (report ? NIC_BLOCK_ERR : 63))
        return "unknown report, or more packets than a block has";
    if (!p->tag.transmission || report == (p->tag.block_bytes != 0))
        return "a block that was never sent, or without a size";
    if (!report && p->offset / p->tag.block_bytes != p->tag.block)
        return "data of another block";
    return NULL;
}

static const char *decode_long(struct nic_packet *p, const uint8_t *b, uint64_t length) {
    if (length < LONG_BYTES)
        return "shorter than a packet's header";
    const char *wrong = decode_packet(p, b);
    if (!wrong && p->kind >= NIC_BLOCK)
        wrong = decode_tag(p, b + LONG_BYTES, length - LONG_BYTES);
    else if (!wrong && p->first)
        wrong = decode_message(p, b + LONG_BYTES, length - LONG_BYTES);
    return !wrong && wire_is_short(p) ? "long where the short form is enough" : wrong;
}

void wire_encode_joined(const struct nic_packet *p, uint32_t each, uint8_t *b) {
    wire_put64(b, wire_encode_long(p, b));
    b[5] = JOINED;
    wire_put64(b + LONG_BYTES, each);
}

bool wire_is_joined(const uint8_t *b) {
    return wire_get32(b) == WIRE_MAGIC && b[5] == JOINED;
}

const char *wire_decode_joined(struct nic_packet *p, uint32_t *each, uint32_t mtu_bytes,
                               const uint8_t *b, uint64_t length) {
    uint8_t plain[LONG_BYTES];
    if (length < WIRE_JOINED_BYTES)
        return "shorter than the header of several packets";
    if (b[4] != WIRE_VERSION)
        return "another version of the format";
    memcpy(plain, b, sizeof plain);
    plain[5] = NIC_DATA;
    const char *wrong = decode_packet(p, plain);
    if (wrong)
        return wrong;
    uint64_t unit = wire_get64(b + LONG_BYTES);
    if (p->first || p->bad || !unit || unit > mtu_bytes || p->bytes <= unit)
        return "several packets that are none";
    if (length != (uint64_t)WIRE_JOINED_BYTES + p->bytes)
        return "length differs from what its header says";
    *each = (uint32_t)unit;
    return NULL;
}

bool wire_begins(const uint8_t *b) {
    return wire_get32(b) == WIRE_MAGIC;
}

uint32_t wire_length(const uint8_t *b, uint32_t room) {
    uint64_t length = LONG_BYTES;
    if (room < LONG_BYTES || !wire_begins(b))
        return room;
    if (wire_is_short_kind(b[5])) {
        length = WIRE_PACKET_BYTES;
        length += b[5] == WIRE_SHORT_ACK ? 0 : wire_short_bytes(wire_get64(b));
        return length < room ? (uint32_t)length : room;
    }
    length += wire_get32(b + WIRE_BYTES_AT);
    if (b[5] == JOINED)
        length = WIRE_JOINED_BYTES + (uint64_t)wire_get32(b + WIRE_BYTES_AT);
    else if (b[5] >= NIC_BLOCK)
        length += TAG_BYTES;
    else if (b[6] & FIRST)
        length += room > LONG_BYTES + 7 ? MESSAGE_BYTES + (uint32_t)b[LONG_BYTES + 7] : room;
    return length < room ? (uint32_t)length : room;
}

const char *wire_decode_head(struct nic_packet *p, uint32_t mtu_bytes, const uint8_t *b,
                             uint64_t length, uint32_t *data) {
    if (length < WIRE_PACKET_BYTES)
        return "shorter than a packet's header";
    if (wire_get32(b) != WIRE_MAGIC)
        return "not a packet of ours";
    if (b[4] != WIRE_VERSION)
        return "another version of the format";
    bool compact = wire_is_short_kind(b[5]);
    const char *wrong =
        compact ? wire_decode_short(p, wire_get64(b), b) : decode_long(p, b, length);
    if (wrong)
        return wrong;
    uint32_t header = compact ? WIRE_PACKET_BYTES : wire_long_bytes(p);
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
