/* Packets with random contents, for tests of what reads and writes them as bytes. */
#ifndef TESTS_WIRE_PACKETS_H
#define TESTS_WIRE_PACKETS_H

#include "base/rng.h"
#include "lib/test.h"
#include "nic/wire.h"

#define MTU 4608 /* more than a short put has */

static struct nic_pool *pool;

static struct nic_packet *fresh(void) {
    if (!pool)
        CHECK_EQ(nic_pool_new(&pool, MTU, NULL), 0);
    struct nic_packet *packet = nic_packet_new(pool);
    CHECK(packet != NULL);
    packet->message = (struct nic_message){0};
    return packet;
}

/* What a packet of a block, or a report of one, says. */
__attribute__((unused)) static void random_tag(struct rng *rng, struct nic_packet *p) {
    bool report = p->kind == NIC_REPORT;
    p->prompt = rng_below(rng, 2);
    p->tag = (struct nic_block_tag){.transfer = rng_u64(rng),
                                    .block = rng_u32(rng),
                                    .transmission = 1 + rng_u32(rng) / 2,
                                    .block_bytes = report ? 0 : 1 + rng_u32(rng) / 2,
                                    .place = (uint8_t)rng_below(rng, report ? 5 : 64)};
    p->message_number = rng_u32(rng);
    if (report)
        return;
    p->last = rng_below(rng, 2);
    p->bad = rng_below(rng, 2);
    p->offset = (uint64_t)p->tag.block * p->tag.block_bytes + rng_below(rng, p->tag.block_bytes);
    p->bytes = 1 + rng_below(rng, MTU);
    for (uint32_t i = 0; i < p->bytes; i++)
        p->data[i] = (uint8_t)rng_u32(rng);
}

__attribute__((unused)) static struct nic_packet *random_packet(struct rng *rng) {
    struct nic_packet *p = fresh();
    p->kind = (uint8_t)rng_below(rng, 5);
    p->source = (struct nic_address){rng_u32(rng), rng_u32(rng)};
    p->target = (struct nic_address){rng_u32(rng), rng_u32(rng)};
    p->stream = rng_u32(rng);
    p->sequence = rng_u32(rng);
    p->ack_stream = rng_u32(rng);
    p->ack = rng_u32(rng);
    p->sack = rng_u64(rng);
    p->credit = (uint16_t)(rng_below(rng, 2) ? 1 + wire_credit_floor(rng_below(rng, 5000)) : 0);
    if (p->kind >= NIC_BLOCK)
        random_tag(rng, p);
    if (p->kind != NIC_DATA)
        return p;
    p->message_number = rng_u32(rng);
    p->bytes = rng_below(rng, MTU + 1);
    p->first = p->bytes == 0 || rng_below(rng, 2);
    for (uint32_t i = 0; i < p->bytes; i++)
        p->data[i] = (uint8_t)rng_u32(rng);
    p->last = rng_below(rng, 2);
    p->prompt = rng_below(rng, 2);
    if (!p->first) {
        p->offset = 1 + rng_u64(rng) / 2;
        return p;
    }
    struct nic_message *m = &p->message;
    m->kind = (uint8_t)rng_below(rng, 6);
    m->interface = (uint8_t)rng_u32(rng);
    m->ack_req = (uint8_t)rng_u32(rng);
    m->operation = (uint8_t)rng_u32(rng);
    m->datatype = (uint8_t)rng_u32(rng);
    m->fail = (uint8_t)rng_u32(rng);
    m->list = (uint8_t)rng_u32(rng);
    m->uid = rng_u32(rng);
    m->source = p->source;
    m->target = p->target;
    m->source_rank = rng_u32(rng);
    m->target_rank = rng_u32(rng);
    m->pt_index = rng_u32(rng);
    m->match_bits = rng_u64(rng);
    m->hdr_data = rng_u64(rng);
    m->remote_offset = rng_u64(rng);
    m->length = rng_u64(rng);
    m->payload = p->last ? p->bytes : p->bytes + 1 + rng_u64(rng) / 2;
    m->initiator = rng_u64(rng);
    for (uint32_t i = 0; m->kind == NIC_FETCH_ATOMIC && i < 32; i++)
        m->operand[i] = (uint8_t)rng_u32(rng);
    return p;
}

/* One that fits into the short form, or just not: each of its limits is met in turn. */
__attribute__((unused)) static struct nic_packet *small_packet(struct rng *rng, bool *is_short) {
    struct nic_packet *p = fresh();
    struct nic_message *m = &p->message;
    bool ack = rng_below(rng, 2);
    p->first = p->last = true;
    p->source = (struct nic_address){rng_u32(rng), rng_below(rng, 65536)};
    p->target = (struct nic_address){rng_u32(rng), rng_below(rng, 65536)};
    p->message_number = rng_u32(rng);
    p->bytes = ack ? 0 : rng_below(rng, rng_below(rng, 2) ? 256 : 4097);
    for (uint32_t i = 0; i < p->bytes; i++)
        p->data[i] = (uint8_t)rng_u32(rng);
    m->kind = ack ? NIC_ACK : NIC_PUT;
    m->interface = (uint8_t)rng_below(rng, 16);
    m->ack_req = (uint8_t)rng_below(rng, 4);
    m->fail = ack ? (uint8_t)rng_u32(rng) : 0;
    m->list = (uint8_t)rng_below(rng, 2);
    m->uid = rng_below(rng, 65536);
    m->source = p->source;
    m->target = p->target;
    m->source_rank = rng_u32(rng);
    m->target_rank = rng_u32(rng);
    m->pt_index = rng_below(rng, 65536);
    m->match_bits = ack ? 0 : rng_u64(rng);
    m->remote_offset = rng_u32(rng);
    m->length = ack ? rng_u64(rng) : p->bytes;
    m->payload = p->bytes;
    if (rng_below(rng, 2))
        m->initiator = rng_u64(rng);
    else
        m->hdr_data = rng_u64(rng);
    uint32_t change = rng_below(rng, 40);
    *is_short = change > 16;
    switch (change) { /* what the short form has no room for */
    case 0:
        p->bad = true;
        break;
    case 1:
        p->stream = 1;
        break;
    case 2:
        p->sequence = 1;
        break;
    case 3:
        p->ack_stream = 1;
        break;
    case 4:
        p->ack = 1;
        break;
    case 5:
        p->sack = 1ull << 63;
        break;
    case 6:
        p->source.pid = m->source.pid = 65536;
        break;
    case 7:
        p->target.pid = m->target.pid = 65536;
        break;
    case 8:
        m->uid = 65536;
        break;
    case 9:
        m->pt_index = 65536;
        break;
    case 10:
        m->remote_offset = 1ull << 32;
        break;
    case 11:
        m->interface = 16;
        break;
    case 12:
        m->ack_req = 4;
        break;
    case 13:
        m->list = 2;
        break;
    case 14:
        m->initiator = m->hdr_data = 1;
        break;
    case 15:
        m->operation = 1;
        break;
    case 16:
        m->datatype = 1;
        break;
    }
    return p;
}

#endif
