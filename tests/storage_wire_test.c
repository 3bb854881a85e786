/* Requests of the storage system: the MAC against its reference, and every field of a request that
 * is changed refused for the right reason. */
#include <stdlib.h>
#include <string.h>

#include "../handlers/storage/storage_state.h"
#include "base/rng.h"
#include "lib/test.h"

/* Of the reference implementation: key 00 01 .. 07, message 00 01 .. of so many bytes. */
TEST(the_mac_is_halfsiphash_2_4_with_64_bits) {
    static const struct {
        uint32_t bytes;
        uint8_t tag[8];
    } known[] = {
        {0, {0x21, 0x8d, 0x1f, 0x59, 0xb9, 0xb8, 0x3c, 0xc8}},
        {4, {0xd5, 0xe7, 0x8a, 0x17, 0x5b, 0xe5, 0x2e, 0xa1}},
        {8, {0xed, 0xfe, 0xe8, 0x20, 0xbc, 0xe4, 0x85, 0x8c}},
        {36, {0x86, 0xd6, 0x7a, 0x40, 0xec, 0x42, 0x76, 0xdc}},
        {60, {0xd6, 0x76, 0x28, 0x90, 0xbf, 0x26, 0xe4, 0x60}},
        {63, {0x2e, 0xa6, 0x3c, 0x71, 0xbf, 0x32, 0x60, 0x87}},
    };
    const uint32_t key[2] = {0x03020100, 0x07060504};
    uint8_t message[64];
    for (uint8_t i = 0; i < sizeof message; i++)
        message[i] = i;
    for (uint32_t i = 0; i < sizeof known / sizeof *known; i++) {
        uint32_t tag[2];
        storage_mac(key, message, known[i].bytes, tag);
        CHECK(memcmp(tag, known[i].tag, 8) == 0);
    }
}

enum { CLIENT = 9, RANK = 20, BYTES = 10000 };

static const struct storage_node node = {
    .rank = RANK,
    .trust = STORAGE_CAPABILITY,
    .blocks = 100,
    .now = 50,
    .key = {{.generation = 4, .ends = UINT32_MAX, .key = {1, 2}, .ticket = {7, 8}},
            {.generation = 3, .ends = 60, .key = {3, 4}, .ticket = {5, 6}}},
};

static void sign(struct storage_head *h, const struct storage_node *n) {
    const struct storage_key *key = &n->key[h->capability.key % 2];
    uint32_t session[2];
    if (h->trust == STORAGE_TRUSTED)
        memcpy(h->mac, key->ticket, sizeof h->mac);
    else
        storage_mac(key->key, &h->capability,
                    STORAGE_CAPABILITY_BYTES(storage_places(&h->capability)), h->mac);
    if (h->trust == STORAGE_AUTHENTICATED) {
        storage_session_key(key->key, h->mac, session);
        storage_head_tag(session, h, h->tag);
    }
}

/* The third of four copies in a ring, which comes from the second. */
static struct storage_head third(void) {
    struct storage_head h = {.version = STORAGE_VERSION,
                             .operation = STORAGE_WRITE,
                             .trust = STORAGE_CAPABILITY,
                             .virtual_rank = 2,
                             .request = 1000,
                             .offset = 100,
                             .length = 5000,
                             .capability = {.version = STORAGE_VERSION,
                                            .rights = STORAGE_MAY_WRITE,
                                            .strategy = STORAGE_RING,
                                            .key = 4,
                                            .k = 4,
                                            .client = CLIENT,
                                            .bytes = BYTES,
                                            .object = 77,
                                            .expires = 55}};
    for (uint32_t i = 0; i < 4; i++)
        h.capability.place[i] = (struct storage_place){RANK - 2 + i, 10 * i};
    sign(&h, &node);
    return h;
}

static enum storage_status check(const struct storage_head *h) {
    uint32_t session[2];
    return storage_check(h, STORAGE_HEAD + 5000, RANK - 1, &node, NULL, session);
}

TEST(a_good_request_is_accepted) {
    struct storage_head h = third();
    CHECK_EQ(check(&h), STORAGE_DONE);
    h.capability.key = 3; /* the one before */
    sign(&h, &node);
    CHECK_EQ(check(&h), STORAGE_DONE);
    struct storage_node later = node;
    uint32_t session[2];
    later.now = 61;
    h.capability.expires = 100;
    sign(&h, &node);
    CHECK_EQ(storage_check(&h, STORAGE_HEAD + 5000, RANK - 1, &later, NULL, session),
             STORAGE_EXPIRED);
    later.now = 60;
    CHECK_EQ(storage_check(&h, STORAGE_HEAD + 5000, RANK - 1, &later, NULL, session), STORAGE_DONE);
}

/* ---- Capabilities that are known ---- */

static struct storage_known places[STORAGE_KNOWN];

static enum storage_status check_known(const struct storage_head *h, const struct storage_node *n,
                                       uint32_t epoch, uint32_t *learnt) {
    const struct storage_known_table known = {places, epoch, learnt};
    uint32_t session[2] = {0, 0};
    return storage_check(h, STORAGE_HEAD + 5000, RANK - 1, n, &known, session);
}

TEST(a_known_capability_is_computed_once_and_nothing_else_passes_for_it) {
    struct storage_head h = third();
    uint32_t learnt = 0;
    memset(places, 0, sizeof places);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(check_known(&h, &node, 1, &learnt), STORAGE_DONE);
    CHECK_EQ(learnt, 1);
    for (uint32_t bit = 0; bit < 8 * STORAGE_CAPABILITY_BYTES(4); bit++) {
        struct storage_head changed = h;
        ((uint8_t *)&changed.capability)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(check_known(&changed, &node, 1, &learnt) != STORAGE_DONE);
    }
    for (uint32_t bit = 0; bit < 64; bit++) {
        struct storage_head changed = h;
        changed.mac[bit / 32] ^= 1u << bit % 32;
        CHECK_EQ(check_known(&changed, &node, 1, &learnt), STORAGE_BAD_CAPABILITY);
    }
    CHECK_EQ(learnt, 1);
    /* what is not signed is checked as ever */
    struct storage_node later = node;
    later.now = 56;
    CHECK_EQ(check_known(&h, &later, 1, &learnt), STORAGE_EXPIRED);
    struct storage_head beyond = h;
    beyond.offset = BYTES;
    CHECK_EQ(check_known(&beyond, &node, 1, &learnt), STORAGE_RANGE);
}

TEST(a_known_capability_is_forgotten_with_its_key) {
    struct storage_head h = third();
    struct storage_node changed = node;
    uint32_t learnt = 0;
    memset(places, 0, sizeof places);
    CHECK_EQ(check_known(&h, &node, 1, &learnt), STORAGE_DONE);
    changed.key[0].key[1]++; /* the same generation, another key */
    CHECK_EQ(check_known(&h, &changed, 2, &learnt), STORAGE_BAD_CAPABILITY);
    CHECK_EQ(check_known(&h, &node, 2, &learnt), STORAGE_DONE);
    CHECK_EQ(learnt, 2);
    changed = node;
    changed.key[0].generation = 6;
    CHECK_EQ(check_known(&h, &changed, 3, &learnt), STORAGE_BAD_CAPABILITY);
    for (uint32_t i = 0; i < STORAGE_KNOWN; i++) /* somebody writes them */
        places[i].turn++;
    CHECK_EQ(check_known(&h, &node, 2, &learnt), STORAGE_DONE);
    CHECK_EQ(learnt, 3);
}

/* Half as many as there are places: most find one, and those that do not are right all the same. */
TEST(known_capabilities_share_their_places) {
    enum { MANY = STORAGE_KNOWN / 2, ROUNDS = 4 };
    uint32_t learnt = 0;
    static struct storage_head h[MANY];
    memset(places, 0, sizeof places);
    for (int round = 0; round < ROUNDS; round++)
        for (uint32_t i = 0; i < MANY; i++) {
            h[i] = third();
            h[i].capability.object += i;
            sign(&h[i], &node);
            CHECK_EQ(check_known(&h[i], &node, 1, &learnt), STORAGE_DONE);
        }
    CHECK(learnt >= MANY && learnt < 2 * MANY);
    for (uint32_t i = 0; i < MANY; i++) {
        struct storage_head mixed = h[i];
        memcpy(mixed.mac, h[(i + 1) % MANY].mac, sizeof mixed.mac);
        CHECK_EQ(check_known(&mixed, &node, 1, &learnt), STORAGE_BAD_CAPABILITY);
    }
}

/* What a client may want to change in a capability: none of it is signed any more. */
TEST(a_capability_that_was_changed_is_refused) {
    for (uint32_t bit = 0; bit < 8 * STORAGE_CAPABILITY_BYTES(4); bit++) {
        struct storage_head h = third();
        ((uint8_t *)&h.capability)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        enum storage_status status = check(&h);
        snprintf(test_context, sizeof test_context, "bit %u", bit);
        CHECK(status == STORAGE_BAD_CAPABILITY || status == STORAGE_MALFORMED ||
              status == STORAGE_BAD_VERSION);
    }
    for (uint32_t bit = 0; bit < 64; bit++) {
        struct storage_head h = third();
        h.mac[bit / 32] ^= 1u << bit % 32;
        CHECK_EQ(check(&h), STORAGE_BAD_CAPABILITY);
    }
}

/* Behind a signature that is right. */
#define REFUSED(status, change)                                                                    \
    do {                                                                                           \
        struct storage_head h = third();                                                           \
        change;                                                                                    \
        sign(&h, &node);                                                                           \
        snprintf(test_context, sizeof test_context, "%s", #change);                                \
        CHECK_EQ(check(&h), status);                                                               \
    } while (0)

TEST(each_field_has_its_reason) {
    REFUSED(STORAGE_BAD_VERSION, h.version = 2);
    REFUSED(STORAGE_BAD_VERSION, h.capability.version = 0);
    REFUSED(STORAGE_MALFORMED, h.operation = 0);
    REFUSED(STORAGE_MALFORMED, h.operation = 4);
    REFUSED(STORAGE_MALFORMED, h.operation = STORAGE_PARITY);
    REFUSED(STORAGE_MALFORMED, h.operation = STORAGE_READ); /* it has data */
    REFUSED(STORAGE_MALFORMED, h.trust = STORAGE_TRUSTED);
    REFUSED(STORAGE_MALFORMED, h.trust = STORAGE_AUTHENTICATED);
    REFUSED(STORAGE_MALFORMED, h.virtual_rank = 4);
    REFUSED(STORAGE_MALFORMED, h.data_index = 1);
    REFUSED(STORAGE_MALFORMED, h.zero = 1);
    REFUSED(STORAGE_MALFORMED, h.packet = 2048);
    REFUSED(STORAGE_MALFORMED, h.request = 1ull << 48);
    REFUSED(STORAGE_MALFORMED, h.request = 0);
    REFUSED(STORAGE_MALFORMED, h.length--);
    REFUSED(STORAGE_MALFORMED, h.length = UINT32_MAX);
    REFUSED(STORAGE_MALFORMED, h.capability.strategy = 0);
    REFUSED(STORAGE_MALFORMED, h.capability.strategy = 5);
    REFUSED(STORAGE_MALFORMED, h.capability.strategy = STORAGE_PLAIN);
    REFUSED(STORAGE_MALFORMED, h.capability.k = 0);
    REFUSED(STORAGE_MALFORMED, h.capability.k = 9);
    REFUSED(STORAGE_MALFORMED, h.capability.m = 1);
    REFUSED(STORAGE_MALFORMED, h.capability.unsigned_zero = 1);
    REFUSED(STORAGE_BAD_CAPABILITY, h.capability.key = 2);
    REFUSED(STORAGE_BAD_CAPABILITY, h.capability.key = 5);
    REFUSED(STORAGE_EXPIRED, h.capability.expires = 49);
    REFUSED(STORAGE_RIGHTS, h.capability.rights = STORAGE_MAY_READ);
    REFUSED(STORAGE_BAD_CAPABILITY, h.capability.place[1].node = 3); /* not this sender's */
    REFUSED(STORAGE_BAD_CAPABILITY, h.virtual_rank = 3);
    REFUSED(STORAGE_RANGE, h.capability.place[2].node = 3);
    REFUSED(STORAGE_RANGE, h.capability.place[2].block = 98); /* of 3 blocks the last is missing */
    REFUSED(STORAGE_RANGE, h.capability.place[2].block = UINT32_MAX);
    REFUSED(STORAGE_RANGE, h.capability.bytes = UINT32_MAX);
    REFUSED(STORAGE_RANGE, h.offset = 5001);
    REFUSED(STORAGE_RANGE, h.offset = UINT32_MAX);
    REFUSED(STORAGE_DONE, h.offset = 5000);
    REFUSED(STORAGE_DONE, h.capability.place[2].block = 97);
}

static enum storage_status check_bytes(struct storage_head h, uint64_t bytes, uint32_t source) {
    uint32_t session[2];
    sign(&h, &node);
    return storage_check(&h, bytes, source, &node, NULL, session);
}

/* The last values that are right. */
TEST(limits_are_within) {
    struct storage_head h = third();
    h.length = 0;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_DONE);
    h.offset = BYTES;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_DONE);
    h.offset++;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_RANGE);
    h = third();
    h.length = h.offset = h.capability.bytes = 0;
    h.capability.place[2].block = node.blocks;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_DONE);
    h.capability.place[2].block++;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_RANGE);
    REFUSED(STORAGE_DONE, h.capability.expires = node.now);
    for (enum storage_status i = 0; i < STORAGE_STATUSES; i++)
        CHECK_EQ(storage_is_genuine(i),
                 i != STORAGE_MALFORMED && i != STORAGE_BAD_VERSION && i != STORAGE_BAD_CAPABILITY);
}

TEST(reads_come_from_the_client_for_any_copy) {
    struct storage_head h = third();
    h.operation = STORAGE_READ;
    h.capability.rights = STORAGE_MAY_READ;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, CLIENT), STORAGE_DONE);
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, RANK - 1), STORAGE_BAD_CAPABILITY);
    CHECK_EQ(check_bytes(h, STORAGE_HEAD + 1, CLIENT), STORAGE_MALFORMED);
    h.data_index = 1;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, CLIENT), STORAGE_MALFORMED);
    h.data_index = 0;
    h.capability.rights = STORAGE_MAY_WRITE;
    CHECK_EQ(check_bytes(h, STORAGE_HEAD, CLIENT), STORAGE_RIGHTS);
}

/* RS(3,2): who may send what to this node at which place. */
TEST(roles_of_erasure_coding) {
    for (uint32_t v = 0; v < 6; v++)
        for (uint32_t index = 0; index < 5; index++)
            for (uint32_t operation = STORAGE_WRITE; operation <= STORAGE_PARITY;
                 operation += STORAGE_PARITY - STORAGE_WRITE) {
                struct storage_head h = third();
                h.operation = (uint8_t)operation;
                h.virtual_rank = (uint8_t)v;
                h.data_index = (uint8_t)index;
                h.capability.strategy = STORAGE_RS;
                h.capability.k = 3;
                h.capability.m = 2;
                for (uint32_t i = 0; i < STORAGE_PLACES; i++)
                    h.capability.place[i] = (struct storage_place){i == v ? RANK : 30 + i, 0};
                bool parity = operation == STORAGE_PARITY;
                bool right = parity ? v >= 3 && v < 5 && index < 3 : v < 3 && index == v;
                uint32_t first, source = parity ? 30 + index : CLIENT;
                snprintf(test_context, sizeof test_context, "%u at %u from %u", operation, v,
                         index);
                CHECK_EQ(check_bytes(h, STORAGE_HEAD + 5000, source),
                         right ? STORAGE_DONE : STORAGE_MALFORMED);
                CHECK_EQ(storage_children(&h.capability, v, &first), v < 3 ? 2u : 0);
                CHECK_EQ(first, 3);
                CHECK_EQ(storage_role(&h), parity ? v << 8 | 0x80 | index : index);
            }
}

TEST(a_message_without_a_whole_head_is_not_read) {
    struct storage_head *h = malloc(STORAGE_HEAD);
    uint32_t session[2];
    *h = third();
    for (uint32_t bytes = 0; bytes < STORAGE_HEAD; bytes++) {
        uint8_t *cut = malloc(bytes ? bytes : 1);
        memcpy(cut, h, bytes);
        CHECK_EQ(storage_check((struct storage_head *)(void *)cut, bytes, RANK - 1, &node, NULL,
                               session),
                 STORAGE_MALFORMED);
        free(cut);
    }
    free(h);
}

TEST(strategies_have_their_numbers_of_nodes) {
    for (uint32_t strategy = 0; strategy < 256; strategy++)
        for (uint32_t k = 0; k < 256; k++)
            for (uint32_t m = 0; m < 8; m++) {
                const struct storage_capability c = {
                    .strategy = (uint8_t)strategy, .k = (uint8_t)k, .m = (uint8_t)m};
                uint32_t wanted = strategy == STORAGE_PLAIN ? k == 1 && m == 0
                                  : strategy == STORAGE_RING || strategy == STORAGE_PBT
                                      ? (k <= 8 && m == 0 ? k : 0)
                                  : strategy == STORAGE_RS && k && m && m <= 4 && k + m <= 14
                                      ? k + m
                                      : 0;
                CHECK_EQ(storage_places(&c), wanted);
            }
}

/* Each copy is sent once, by the one that its receiver takes for its sender. */
TEST(children_and_senders_agree) {
    for (uint8_t strategy = STORAGE_RING; strategy <= STORAGE_PBT; strategy++)
        for (uint8_t k = 1; k <= STORAGE_REPLICAS; k++) {
            struct storage_head h = {.operation = STORAGE_WRITE,
                                     .capability = {.strategy = strategy, .k = k, .client = 50}};
            uint32_t got[STORAGE_REPLICAS] = {1};
            for (uint32_t i = 0; i < k; i++)
                h.capability.place[i].node = 100 + i;
            CHECK_EQ(storage_sender(&h), 50);
            for (uint32_t v = 0; v < k; v++) {
                uint32_t first, count = storage_children(&h.capability, v, &first);
                for (uint32_t i = first; i < first + count; i++) {
                    CHECK(i < k);
                    got[i]++;
                    h.virtual_rank = (uint8_t)i;
                    CHECK_EQ(storage_sender(&h), 100 + v);
                }
                h.virtual_rank = 0;
            }
            for (uint32_t v = 0; v < k; v++)
                CHECK_EQ(got[v], 1);
        }
}

TEST(tickets_are_compared_and_packets_signed) {
    struct storage_node n = node;
    uint32_t session[2];
    n.trust = STORAGE_TRUSTED;
    struct storage_head h = third();
    h.trust = STORAGE_TRUSTED;
    sign(&h, &n);
    CHECK_EQ(storage_check(&h, STORAGE_HEAD + 5000, RANK - 1, &n, NULL, session), STORAGE_DONE);
    h.mac[1]++;
    CHECK_EQ(storage_check(&h, STORAGE_HEAD + 5000, RANK - 1, &n, NULL, session),
             STORAGE_BAD_CAPABILITY);

    n.trust = STORAGE_AUTHENTICATED;
    h = third();
    h.trust = STORAGE_AUTHENTICATED;
    h.packet = 2048;
    uint64_t bytes = storage_message_bytes(5000, 2048);
    CHECK_EQ(bytes, STORAGE_HEAD + 5000 + 3 * 8);
    sign(&h, &n);
    CHECK_EQ(storage_check(&h, bytes, RANK - 1, &n, NULL, session), STORAGE_DONE);
    for (uint32_t bit = 0; bit < 24 * 8; bit++) { /* what the capability does not sign */
        struct storage_head changed = h;
        ((uint8_t *)&changed)[bit / 8] ^= (uint8_t)(1 << bit % 8);
        CHECK(storage_check(&changed, bytes, RANK - 1, &n, NULL, session) != STORAGE_DONE);
    }
    storage_pass_on(&h, session, 3);
    n.rank++;
    CHECK_EQ(storage_check(&h, bytes, RANK, &n, NULL, session), STORAGE_DONE);
}

TEST(packets_have_a_least_size_and_whole_tags) {
    struct storage_node n = node;
    uint32_t session[2], tag[2], other[2];
    n.trust = STORAGE_AUTHENTICATED;
    for (uint32_t packet = 504; packet < 530; packet++) {
        struct storage_head h = third();
        h.trust = STORAGE_AUTHENTICATED;
        h.packet = (uint16_t)packet;
        sign(&h, &n);
        CHECK_EQ(
            storage_check(&h, storage_message_bytes(5000, packet), RANK - 1, &n, NULL, session),
            packet >= 512 && packet % 8 == 0 ? STORAGE_DONE : STORAGE_MALFORMED);
    }
    uint8_t data[11] = "0123456789";
    for (uint32_t bytes = 1; bytes <= 10; bytes++) { /* the last byte counts, the next one not */
        storage_packet_tag(session, 7, 0, 184, data, bytes, tag);
        data[bytes] ^= 1;
        storage_packet_tag(session, 7, 0, 184, data, bytes, other);
        CHECK(storage_mac_equal(tag, other));
        data[bytes - 1] ^= 1;
        storage_packet_tag(session, 7, 0, 184, data, bytes, other);
        CHECK(!storage_mac_equal(tag, other));
    }
}

/* Packet by packet, every byte of data is at one place only. */
TEST(packets_that_are_signed_cover_the_data) {
    for (uint32_t packet = 512; packet <= 4096; packet += 512)
        for (uint32_t length = 0; length < 9000; length = length < 2600 ? length + 1 : length * 2) {
            uint64_t bytes = storage_message_bytes(length, packet);
            uint32_t data = 0, at = STORAGE_HEAD;
            while (at < bytes) {
                uint64_t end = (at / packet + 1) * packet;
                end = end < bytes ? end : bytes;
                CHECK(end >= at + 8);
                CHECK_EQ(storage_data_offset(at, packet), data);
                data += (uint32_t)(end - at - 8);
                at = (uint32_t)end;
            }
            CHECK_EQ(data, length);
        }
}

/* Whatever it is, an answer and no more. */
TEST(any_bytes_are_checked) {
    struct rng r = rng_seeded(5);
    for (int i = 0; i < 20000; i++) {
        struct storage_head h = third();
        uint32_t session[2], n = rng_below(&r, 6);
        for (uint32_t k = 0; k < n; k++)
            ((uint8_t *)&h)[rng_below(&r, STORAGE_HEAD)] = (uint8_t)rng_u32(&r);
        enum storage_status status = storage_check(&h, rng_below(&r, 2 * (STORAGE_HEAD + 5000)),
                                                   RANK - 1, &node, NULL, session);
        CHECK(status < STORAGE_STATUSES);
    }
}

TEST_MAIN
