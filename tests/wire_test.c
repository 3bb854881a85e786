/* Packets as bytes: every field there and back, and every contradiction refused. */
#include "base/rng.h"
#include "lib/test.h"
#include "nic/wire.h"

#define MTU 256

static struct nic_pool *pool;

static struct nic_packet *fresh(void) {
    if (!pool)
        CHECK_EQ(nic_pool_new(&pool, MTU, NULL), 0);
    struct nic_packet *packet = nic_packet_new(pool);
    CHECK(packet != NULL);
    packet->message = (struct nic_message){0};
    return packet;
}

static struct nic_packet *random_packet(struct rng *rng) {
    struct nic_packet *p = fresh();
    p->kind = (uint8_t)rng_below(rng, 3);
    p->source = (struct nic_address){rng_u32(rng), rng_u32(rng)};
    p->target = (struct nic_address){rng_u32(rng), rng_u32(rng)};
    p->stream = rng_u32(rng);
    p->sequence = rng_u32(rng);
    p->ack_stream = rng_u32(rng);
    p->ack = rng_u32(rng);
    p->sack = rng_u64(rng);
    p->credit = (uint16_t)(rng_below(rng, 2) ? 1 + wire_credit_floor(rng_below(rng, 5000)) : 0);
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
static struct nic_packet *small_packet(struct rng *rng, bool *is_short) {
    struct nic_packet *p = fresh();
    struct nic_message *m = &p->message;
    bool ack = rng_below(rng, 2);
    p->first = p->last = true;
    p->source = (struct nic_address){rng_u32(rng), rng_below(rng, 65536)};
    p->target = (struct nic_address){rng_u32(rng), rng_below(rng, 65536)};
    p->message_number = rng_u32(rng);
    p->bytes = ack ? 0 : rng_below(rng, 256);
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

/* Field by field: padding has no value. */
static void check_same(const struct nic_packet *a, const struct nic_packet *b) {
#define SAME(field) CHECK(a->field == b->field)
    SAME(kind);
    SAME(first);
    SAME(last);
    SAME(bad);
    SAME(source.nid);
    SAME(source.pid);
    SAME(target.nid);
    SAME(target.pid);
    SAME(stream);
    SAME(sequence);
    SAME(ack_stream);
    SAME(ack);
    SAME(sack);
    SAME(credit);
    SAME(prompt);
    SAME(message_number);
    SAME(offset);
    SAME(bytes);
    CHECK(memcmp(a->data, b->data, a->bytes) == 0);
    if (!a->first)
        return;
    SAME(message.kind);
    SAME(message.interface);
    SAME(message.ack_req);
    SAME(message.operation);
    SAME(message.datatype);
    SAME(message.fail);
    SAME(message.list);
    SAME(message.uid);
    SAME(message.source.nid);
    SAME(message.source.pid);
    SAME(message.target.nid);
    SAME(message.target.pid);
    SAME(message.source_rank);
    SAME(message.target_rank);
    SAME(message.pt_index);
    SAME(message.match_bits);
    SAME(message.hdr_data);
    SAME(message.remote_offset);
    SAME(message.length);
    SAME(message.payload);
    SAME(message.initiator);
    CHECK(memcmp(a->message.operand, b->message.operand, 32) == 0);
#undef SAME
}

TEST(what_is_encoded_decodes_to_the_same) {
    struct rng rng = rng_seeded(1);
    uint8_t bytes[WIRE_HEADER_BYTES + MTU];
    for (uint32_t i = 0; i < 20000; i++) {
        struct nic_packet *out = random_packet(&rng), *in = fresh();
        uint32_t length = wire_encode(out, bytes);
        CHECK_EQ(length, nic_packet_bytes(out));
        const char *wrong = wire_decode(in, MTU, bytes, length);
        if (wrong)
            TEST_FAIL("packet %u: %s", i, wrong);
        check_same(out, in);
        nic_packet_release(out);
        nic_packet_release(in);
    }
}

TEST(what_fits_has_the_short_form_and_no_other) {
    struct rng rng = rng_seeded(2);
    uint8_t bytes[WIRE_HEADER_BYTES + MTU];
    for (uint32_t i = 0; i < 20000; i++) {
        bool is_short;
        struct nic_packet *out = small_packet(&rng, &is_short), *in = fresh();
        uint32_t length = wire_encode(out, bytes);
        CHECK_EQ(length, nic_packet_bytes(out));
        CHECK_EQ(length, out->bytes + (is_short ? 56 : 64 + 72));
        const char *wrong = wire_decode(in, MTU, bytes, length);
        if (wrong)
            TEST_FAIL("packet %u: %s", i, wrong);
        check_same(out, in);
        nic_packet_release(out);
        nic_packet_release(in);
    }
}

/* A put of 8 bytes is one line of memory. */
TEST(the_short_layout_is_the_documented_one) {
    struct nic_packet *p = fresh(), *in = fresh();
    uint8_t bytes[WIRE_HEADER_BYTES + MTU];
    p->first = p->last = true;
    p->source = (struct nic_address){0x01020304, 5};
    p->target = (struct nic_address){6, 0x0708};
    p->message_number = 9;
    p->bytes = 8;
    p->message = (struct nic_message){.kind = NIC_PUT,
                                      .interface = 5,
                                      .ack_req = 1,
                                      .uid = 10,
                                      .source = p->source,
                                      .target = p->target,
                                      .source_rank = 11,
                                      .target_rank = 12,
                                      .pt_index = 13,
                                      .match_bits = 14,
                                      .remote_offset = 15,
                                      .length = 8,
                                      .payload = 8,
                                      .initiator = 16};
    memcpy(p->data, "abcdefgh", 8);
    static const uint8_t line[64] = {'s', 'P', 'I', 'N', 2,   32,  1 | 5 << 2 | 128,
                                     8,   4,   3,   2,   1,   6,   0,
                                     0,   0,   5,   0,   8,   7,   9,
                                     0,   0,   0,   14,  0,   0,   0,
                                     0,   0,   0,   0,   15,  0,   0,
                                     0,   10,  0,   13,  0,   11,  0,
                                     0,   0,   12,  0,   0,   0,   16,
                                     0,   0,   0,   0,   0,   0,   0,
                                     'a', 'b', 'c', 'd', 'e', 'f', 'g',
                                     'h'};
    CHECK_EQ(wire_encode(p, bytes), 64);
    CHECK(memcmp(bytes, line, 64) == 0);
    CHECK(wire_decode(in, MTU, bytes, 64) == NULL);
    for (uint32_t shorter = 0; shorter < 64; shorter++)
        CHECK(wire_decode(in, MTU, bytes, shorter) != NULL);
    CHECK_HAS(wire_decode(in, MTU, bytes, 65), "length differs");
    CHECK_HAS(wire_decode(in, 4, bytes, 64), "more data than the MTU");
    bytes[48] = 0;
    CHECK_HAS(wire_decode(in, MTU, bytes, 64), "an initiator that is none");
    nic_packet_release(p);
    nic_packet_release(in);
}

/* The layout that wire.h promises, so that two versions of this code understand each other. */
TEST(the_layout_is_the_documented_one) {
    struct nic_packet *p = fresh();
    uint8_t bytes[WIRE_HEADER_BYTES + MTU];
    p->first = p->last = true;
    p->source = (struct nic_address){0x01020304, 5};
    p->sequence = 0x0a0b0c0d;
    p->sack = 0x1122334455667788;
    p->bytes = 3;
    p->message.kind = NIC_PUT;
    p->message.payload = 3;
    p->message.hdr_data = 0x99;
    memcpy(p->data, "abc", 3);
    CHECK_EQ(wire_encode(p, bytes), 64 + 72 + 3);
    CHECK(memcmp(bytes, "sPIN\2\0\3\0\4\3\2\1\5\0\0\0", 16) == 0);
    CHECK(memcmp(bytes + 28, "\x0d\x0c\x0b\x0a", 4) == 0);
    CHECK(memcmp(bytes + 40, "\x88\x77\x66\x55\x44\x33\x22\x11", 8) == 0);
    CHECK_EQ(bytes[52], 3);
    CHECK_EQ(bytes[96], 0x99);
    CHECK_EQ(bytes[120], 3);
    CHECK(memcmp(bytes + 136, "abc", 3) == 0);
    nic_packet_release(p);
}

/* Of each number of packets what can be said is at most one part in 16 less. */
TEST(credits_are_rounded_down) {
    uint32_t before = 0;
    for (uint32_t n = 0; n < 5000; n++) {
        uint32_t said = wire_credit_floor(n);
        CHECK(said <= n && said >= before && (n > 3967 || n - said <= n / 16));
        CHECK_EQ(wire_credit_floor(said), said);
        CHECK(n > 30 || said == n);
        before = said;
    }
    CHECK_EQ(before, (31 << 7) - 1);
}

TEST(contradictions_are_refused) {
    struct nic_packet *p = fresh(), *in = fresh();
    uint8_t good[WIRE_HEADER_BYTES + MTU], bad[WIRE_HEADER_BYTES + MTU];
    p->first = p->last = true;
    p->sequence = 1; /* no room for it in the short form */
    p->bytes = 8;
    p->message.length = p->message.payload = 8;
    memset(p->data, 1, 8);
    uint32_t length = wire_encode(p, good);
    CHECK(wire_decode(in, MTU, good, length) == NULL);
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *why;
    } change[] = {
        {0, 'S', "not a packet of ours"},
        {4, 1, "another version"},
        {28, 0, "long where the short form is enough"},
        {5, 3, "unknown kind"},
        {6, 16, "unknown kind, flag or credit"},
        {7, 32, "unknown kind, flag or credit"}, /* 0 << 1, which is 0 */
        {7, 0xef, "unknown kind, flag or credit"},
        {5, 1, "a receipt or probe with data"},
        {6, 2, "neither the first"},
        {6, 1, "contradicts its message's length"},
        {52, 7, "contradicts its message's length"},
        {56, 1, "contradicts its message's length"},
        {64, 6, "unknown kind of message"},
        {64, 3, "unknown kind of message"}, /* a fetching atomic has an operand */
        {71, 32, "unknown kind of message"},
        {120, 7, "contradicts its message's length"},
        {53, 1, "contradicts its message's length"},
    };
    for (uint32_t i = 0; i < sizeof change / sizeof change[0]; i++) {
        memcpy(bad, good, length);
        bad[change[i].at] = change[i].value;
        const char *wrong = wire_decode(in, MTU, bad, length);
        if (!wrong)
            TEST_FAIL("byte %u = %u is accepted", change[i].at, change[i].value);
        CHECK_HAS(wrong, change[i].why);
    }
    for (uint32_t shorter = 0; shorter < length; shorter++)
        CHECK(wire_decode(in, MTU, good, shorter) != NULL);
    CHECK_HAS(wire_decode(in, MTU, good, length + 1), "length differs");
    CHECK_HAS(wire_decode(in, 4, good, length), "more data than the MTU");
    nic_packet_release(p);
    nic_packet_release(in);
    CHECK_EQ(nic_pool_used(pool), 0);
    nic_pool_free(pool);
    pool = NULL;
}

TEST_MAIN
