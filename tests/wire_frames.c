/* Writes frames.pcapng: packets of every kind, most of them damaged, each with a comment that says
 * what the decoder makes of it. cli/seen.sh compares that with what the dissector makes of them. */
#include "lib/wire_packets.h"

#include "nic/wire_capture.h"

#define FRAMES 3000
#define ROOM   8192u

static void damage(struct rng *rng, uint8_t *bytes, uint32_t *length) {
    switch (rng_below(rng, 4)) {
    case 0:
        bytes[rng_below(rng, *length < 144 ? *length : 144)] ^= (uint8_t)(1u << rng_below(rng, 8));
        break;
    case 1:
        *length = 1 + rng_below(rng, *length); /* UDP hands nothing to nobody */
        break;
    case 2:
        bytes[4 + rng_below(rng, 4)] = (uint8_t)rng_below(rng, 90);
        break;
    default:
        break;
    }
}

/* Several packets as one. */
static uint32_t encode_run(struct rng *rng, uint8_t *bytes) {
    struct nic_packet run = {.kind = NIC_DATA,
                             .last = rng_below(rng, 2),
                             .prompt = rng_below(rng, 2),
                             .source = {1, 2},
                             .target = {3, 4},
                             .stream = 5,
                             .sequence = (uint32_t)rng_below(rng, 1000),
                             .message_number = 7,
                             .offset = 64 * (1 + rng_below(rng, 9)),
                             .bytes = 101 + (uint32_t)rng_below(rng, 900)};
    wire_encode_joined(&run, 100, bytes);
    memset(bytes + WIRE_JOINED_BYTES, 3, run.bytes);
    return WIRE_JOINED_BYTES + run.bytes;
}

/* Of one that is right: what the first packet of a message says, else of itself alone. */
static void describe(const struct nic_packet *p, char *text, size_t room) {
    static const char *const kinds[] = {"data", "receipt", "probe", "block", "report"};
    static const char *const messages[] = {"put", "get", "atomic", "fetch", "ack", "reply"};
    const struct nic_message *m = &p->message;
    if (!p->first || p->kind != NIC_DATA) {
        snprintf(text, room, "%s %u %u", kinds[p->kind], p->bytes, p->message_number);
        return;
    }
    bool swap = m->kind == NIC_FETCH_ATOMIC && m->operation >= PTL_SWAP;
    snprintf(text, room, "%s %u %u %u %u %llu", swap ? "swap" : messages[m->kind], p->bytes,
             p->message_number, m->pt_index, m->uid, (unsigned long long)m->remote_offset);
}

TEST(frames) {
    static const uint8_t key[24] = {1, 2, 3, 4, 5, 6, 7, 8};
    struct wire_capture c = {.mtu_bytes = MTU};
    struct spin_error err;
    struct rng rng = rng_seeded(14);
    struct nic_address here = {1, 2}, there = {3, 4};
    CHECK_EQ(wire_capture_open(&c, "frames.pcapng", &err), 0);
    for (int i = 0; i < FRAMES; i++) {
        bool is_short;
        uint8_t bytes[ROOM] = {0}, data[ROOM], *at = bytes + sizeof key;
        char text[200];
        struct nic_packet *p = i % 2 ? random_packet(&rng) : small_packet(&rng, &is_short), in;
        uint32_t length = i % 10 ? wire_encode(p, at) : encode_run(&rng, at), each;
        nic_packet_release(p);
        if (i % 3)
            damage(&rng, at, &length);
        memset(&in, 0, sizeof in);
        in.data = data;
        bool run = length >= WIRE_PACKET_BYTES && wire_is_joined(at);
        const char *wrong = run ? wire_decode_joined(&in, &each, UINT32_MAX, at, length)
                                : wire_decode(&in, UINT32_MAX, at, length);
        if (wrong)
            snprintf(text, sizeof text, "%s", wrong);
        else if (run)
            snprintf(text, sizeof text, "run %u %u", in.bytes, in.message_number);
        else
            describe(&in, text, sizeof text);
        const struct capture_mark mark = {CAPTURE_IN, text};
        memcpy(bytes, key, sizeof key);
        bool head = i % 3 == 0 && i % 5 == 0; /* as UDP has it */
        wire_capture_bytes(&c, (uint64_t)i, here, there, head ? bytes : at,
                           head ? length + (uint32_t)sizeof key : length, &mark);
    }
    CHECK_EQ(capture_close(&c.file, true, &err), 0);
    nic_pool_free(pool);
}

TEST_MAIN
