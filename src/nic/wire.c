#include "nic/wire.h"

#include <string.h>

#define MAGIC         0x4e495073u /* "sPIN" */
#define MESSAGE_BYTES 72

enum { FIRST = 1, LAST = 2, BAD = 4 };

static void put32(uint8_t *at, uint32_t value) {
    memcpy(at, &value, 4); /* hosts are little-endian */
}
static void put64(uint8_t *at, uint64_t value) {
    memcpy(at, &value, 8);
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

static uint32_t header_bytes(const struct nic_packet *p) {
    return WIRE_PACKET_BYTES + (p->first ? MESSAGE_BYTES + operand_bytes(&p->message) : 0);
}

uint32_t nic_packet_bytes(const struct nic_packet *packet) {
    return header_bytes(packet) + packet->bytes;
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

uint32_t wire_encode(const struct nic_packet *p, uint8_t *b) {
    put32(b, MAGIC);
    b[4] = WIRE_VERSION;
    b[5] = p->kind;
    b[6] = (uint8_t)((p->first ? FIRST : 0) | (p->last ? LAST : 0) | (p->bad ? BAD : 0));
    b[7] = 0;
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
    put32(b + 52, p->bytes);
    put64(b + 56, p->offset);
    if (p->first)
        encode_message(&p->message, b + WIRE_PACKET_BYTES);
    uint32_t header = header_bytes(p);
    if (p->bytes)
        memcpy(b + header, p->data, p->bytes);
    return header + p->bytes;
}

static const char *decode_packet(struct nic_packet *p, const uint8_t *b) {
    if (get32(b) != MAGIC)
        return "not a packet of ours";
    if (b[4] != WIRE_VERSION)
        return "another version of the format";
    p->kind = b[5];
    p->first = b[6] & FIRST;
    p->last = b[6] & LAST;
    p->bad = b[6] & BAD;
    if (p->kind > NIC_PROBE || b[6] > (FIRST | LAST | BAD) || b[7])
        return "unknown kind or flag";
    p->source = (struct nic_address){get32(b + 8), get32(b + 12)};
    p->target = (struct nic_address){get32(b + 16), get32(b + 20)};
    p->stream = get32(b + 24);
    p->sequence = get32(b + 28);
    p->ack_stream = get32(b + 32);
    p->ack = get32(b + 36);
    p->sack = get64(b + 40);
    p->message_number = get32(b + 48);
    p->bytes = get32(b + 52);
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

const char *wire_decode(struct nic_packet *p, uint32_t mtu_bytes, const uint8_t *b,
                        uint64_t length) {
    if (length < WIRE_PACKET_BYTES)
        return "shorter than a packet's header";
    const char *wrong = decode_packet(p, b);
    if (!wrong && p->first)
        wrong = decode_message(p, b + WIRE_PACKET_BYTES, length - WIRE_PACKET_BYTES);
    if (wrong)
        return wrong;
    uint32_t header = header_bytes(p);
    if (p->bytes > mtu_bytes)
        return "more data than the MTU";
    if (length != (uint64_t)header + p->bytes)
        return "length differs from what its header says";
    if (p->bytes)
        memcpy(p->data, b + header, p->bytes);
    return NULL;
}
