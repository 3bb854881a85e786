/* Packets as bytes: every field there and back, and every contradiction refused. */
#include "lib/wire_packets.h"

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
    if (a->kind >= NIC_BLOCK) {
        SAME(tag.transfer);
        SAME(tag.block);
        SAME(tag.transmission);
        SAME(tag.block_bytes);
        SAME(tag.place);
    }
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

/* Also where others follow it, as in datagrams that the system has joined. */
static void check_length(const uint8_t *bytes, uint32_t length) {
    CHECK_EQ(wire_length(bytes, length), length);
    CHECK_EQ(wire_length(bytes, length + WIRE_HEADER_BYTES), length);
    CHECK_EQ(wire_length(bytes, length - 1), length - 1);
}

/* Encodes packet number `i` of a test, decodes it, and compares; the bytes that it takes. */
static uint32_t round_trip(const struct nic_packet *out, uint32_t i, uint8_t *bytes) {
    struct nic_packet *in = fresh();
    uint32_t length = wire_encode(out, bytes);
    CHECK_EQ(length, nic_packet_bytes(out));
    check_length(bytes, length);
    const char *wrong = wire_decode(in, MTU, bytes, length);
    if (wrong)
        TEST_FAIL("packet %u: %s", i, wrong);
    check_same(out, in);
    nic_packet_release(in);
    return length;
}

TEST(what_is_encoded_decodes_to_the_same) {
    struct rng rng = rng_seeded(1);
    uint8_t bytes[2 * WIRE_HEADER_BYTES + MTU] = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        struct nic_packet *out = random_packet(&rng);
        round_trip(out, i, bytes);
        nic_packet_release(out);
    }
}

TEST(what_fits_has_the_short_form_and_no_other) {
    struct rng rng = rng_seeded(2);
    uint8_t bytes[2 * WIRE_HEADER_BYTES + MTU] = {0};
    for (uint32_t i = 0; i < 20000; i++) {
        bool is_short;
        struct nic_packet *out = small_packet(&rng, &is_short);
        CHECK_EQ(round_trip(out, i, bytes), out->bytes + (is_short ? 56 : 64 + 72));
        nic_packet_release(out);
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
    static const uint8_t line[64] = {'s', 'P', 'I', 'N', 3,   64,  1 | 5 << 2 | 128,
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
    bytes[5] = 64 + 4097 / 256;
    bytes[7] = 4097 % 256;
    CHECK_HAS(wire_decode(in, MTU, bytes, 56 + 4097), "more data than the short form has");
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
    CHECK(memcmp(bytes, "sPIN\3\0\3\0\4\3\2\1\5\0\0\0", 16) == 0);
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

TEST(receipts_and_probes_have_no_data) {
    static const uint32_t at[] = {6, 48, WIRE_BYTES_AT, 56}; /* flags, number, bytes, offset */
    struct nic_packet *p = fresh(), *in = fresh();
    uint8_t bytes[WIRE_HEADER_BYTES + MTU];
    for (int kind = NIC_RECEIPT; kind <= NIC_PROBE; kind++) {
        p->kind = (uint8_t)kind;
        uint32_t length = wire_encode(p, bytes);
        CHECK(wire_decode(in, MTU, bytes, length) == NULL);
        for (int i = 0; i < 4; i++) {
            bytes[at[i]] = 1;
            const char *why = wire_decode(in, MTU, bytes, length);
            CHECK_HAS(why ? why : "nothing", "a receipt or probe with data");
            bytes[at[i]] = 0;
        }
    }
    nic_packet_release(p);
    nic_packet_release(in);
}

TEST(contradictions_of_blocks_are_refused) {
    static const struct {
        uint8_t kind;
        uint32_t at;
        uint8_t value;
        const char *why;
    } change[] = {
        {NIC_BLOCK, 6, 1, "the first of its message"},
        {NIC_BLOCK, 52, 0, "without data"},
        {NIC_BLOCK, 56, 0, "data of another block"},
        {NIC_BLOCK, 72, 1, "data of another block"},
        {NIC_BLOCK, 76, 0, "never sent"},
        {NIC_BLOCK, 80, 0, "without a size"},
        {NIC_BLOCK, 84, 64, "more packets than a block has"},
        {NIC_BLOCK, 85, 1, "unknown report"},
        {NIC_REPORT, 6, 2, "report of a block with data"},
        {NIC_REPORT, 52, 1, "report of a block with data"},
        {NIC_REPORT, 56, 1, "report of a block with data"},
        {NIC_REPORT, 76, 0, "never sent"},
        {NIC_REPORT, 80, 1, "without a size"},
        {NIC_REPORT, 84, NIC_BLOCK_ERR + 1, "unknown report"},
        {NIC_REPORT, 87, 1, "unknown report"},
    };
    struct nic_packet *p = fresh(), *in = fresh();
    for (uint32_t i = 0; i < sizeof change / sizeof change[0]; i++) {
        uint8_t bytes[WIRE_HEADER_BYTES + MTU];
        bool report = change[i].kind == NIC_REPORT;
        p->kind = change[i].kind;
        p->bytes = report ? 0 : 32;
        p->offset = report ? 0 : 2 * 64;
        p->tag =
            (struct nic_block_tag){.block = 2, .transmission = 3, .block_bytes = report ? 0 : 64};
        memset(p->data, 0, 32);
        uint32_t length = wire_encode(p, bytes);
        CHECK(wire_decode(in, MTU, bytes, length) == NULL);
        bytes[change[i].at] = change[i].value;
        const char *wrong = wire_decode(in, MTU, bytes, length);
        CHECK_HAS(wrong ? wrong : "nothing", change[i].why);
    }
    nic_packet_release(p);
    nic_packet_release(in);
}

TEST(a_run_of_packets_is_one_and_says_what_each_has) {
    struct nic_packet run = {.kind = NIC_DATA,
                             .last = true,
                             .prompt = true,
                             .source = {1, 2},
                             .target = {3, 4},
                             .stream = 5,
                             .sequence = 6,
                             .ack_stream = 7,
                             .ack = 8,
                             .sack = 9,
                             .credit = 17,
                             .message_number = 10,
                             .offset = 640,
                             .bytes = 150};
    static const struct {
        uint32_t at;
        uint8_t value;
        const char *why;
    } change[] = {
        {4, 1, "another version"},
        {6, 1, "several packets that are none"}, /* the first */
        {6, 4, "several packets that are none"}, /* bad */
        {6, 16, "unknown kind, flag or credit"},
        {52, 64, "several packets that are none"}, /* one */
        {52, 149, "length differs"},
        {57, 0, "length differs"},
        {64, 0, "several packets that are none"},
        {64, 65, "several packets that are none"}, /* than the MTU */
        {71, 1, "several packets that are none"},
    };
    uint8_t good[WIRE_JOINED_BYTES], bad[WIRE_JOINED_BYTES];
    const uint64_t length = WIRE_JOINED_BYTES + 150;
    uint32_t each;
    struct nic_packet in;
    wire_encode_joined(&run, 64, good);
    CHECK(wire_is_joined(good));
    CHECK_EQ(wire_length(good, 5000), length);
    CHECK(wire_decode_joined(&in, &each, 64, good, length) == NULL);
    CHECK_EQ(each, 64);
    CHECK(in.last && in.prompt && !in.first && !in.bad && in.kind == NIC_DATA && !in.run);
    CHECK(in.source.nid == 1 && in.source.pid == 2 && in.target.nid == 3 && in.target.pid == 4);
    CHECK(in.stream == 5 && in.sequence == 6 && in.ack_stream == 7 && in.ack == 8 && in.sack == 9);
    CHECK(in.credit == 17 && in.message_number == 10 && in.offset == 640 && in.bytes == 150);
    CHECK_HAS(wire_decode_head(&in, 4096, good, length, &each), "unknown kind");
    CHECK_HAS(wire_decode_joined(&in, &each, 64, good, WIRE_JOINED_BYTES - 1), "shorter than");
    for (uint32_t i = 0; i < sizeof change / sizeof *change; i++) {
        memcpy(bad, good, sizeof bad);
        bad[change[i].at] = change[i].value;
        const char *wrong = wire_decode_joined(&in, &each, 64, bad, length - (i == 6));
        CHECK_HAS(wrong ? wrong : "nothing", change[i].why);
    }
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
        {5, 5, "unknown kind"},
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
