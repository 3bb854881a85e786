/* Messages of the store: what is written is read as it was, anything shorter, longer or changed is
 * refused or says something that is within its limits. */
#include "storage/store_message.h"

#include <string.h>

#include "base/rng.h"
#include "lib/test.h"

static void random_layout(struct rng *r, struct store_message *m) {
    struct store_layout *l = &m->layout[m->layouts++];
    static const uint8_t strategies[] = {STORAGE_PLAIN, STORAGE_RING, STORAGE_PBT, STORAGE_RS};
    struct storage_capability *c = &l->grant.capability;
    c->strategy = strategies[rng_below(r, 4)];
    c->k = c->strategy == STORAGE_PLAIN ? 1 : 1 + (uint8_t)rng_below(r, 8);
    c->m = c->strategy == STORAGE_RS ? 1 + (uint8_t)rng_below(r, 4) : 0;
    const struct spinstore_policy p = {c->m ? SPINSTORE_RS : SPINSTORE_RING, c->k, c->m};
    l->length = 1 + rng_below(r, 300000);
    l->chunk = c->bytes = store_chunk_of(&p, l->length);
    l->piece = store_piece_of(&p, l->chunk);
    l->from = rng_below(r, l->length);
    l->part = rng_below(r, l->length - l->from);
    l->offset = rng_u32(r);
    l->extent = rng_u32(r);
    l->dead = rng_below(r, 1u << 14);
    for (uint32_t i = 0; i < storage_places(c); i++)
        c->place[i] = (struct storage_place){rng_u32(r), rng_u32(r)};
    l->grant.mac[0] = rng_u32(r);
    l->grant.session[1] = rng_u32(r);
    l->first_sum = m->sums;
    l->sums = store_policy_width(&p) * store_pieces(l->chunk, l->piece);
    for (uint32_t i = 0; i < l->sums; i++)
        m->sum[m->sums++] = rng_u32(r);
}

/* Fields that the kind has no use for stay 0, as they are when it is read. */
static void random_answer(struct rng *r, struct store_message *m) {
    switch (m->kind) {
    case STORE_KIND_HELLO:
        m->session = rng_below(r, 65536);
        m->nodes = rng_u32(r);
        break;
    case STORE_KIND_OPEN:
        m->object = rng_u32(r);
        m->policy = (struct spinstore_policy){SPINSTORE_RS, 10, 4};
        m->size = rng_u64(r);
        m->version = rng_u64(r);
        break;
    case STORE_KIND_REPAIR:
        m->index = rng_below(r, 14);
        random_layout(r, m);
        m->layout[m->layouts++] = m->layout[0];
        m->layout[1].first_sum = m->sums;
        m->layout[1].sums = 0;
        break;
    case STORE_KIND_ALLOCATE:
        random_layout(r, m);
        break;
    case STORE_KIND_LAYOUT:
        m->size = rng_u64(r);
        m->version = rng_u64(r);
        for (uint32_t n = rng_below(r, 6); n; n--)
            random_layout(r, m);
        break;
    case STORE_KIND_COUNTS:
        m->counts = (struct store_meta_counts){1, 2, 3, 4, 5};
        m->dead_nodes = rng_u32(r);
        break;
    default:
        break;
    }
}

static void random_request(struct rng *r, struct store_message *m) {
    switch (m->kind) {
    case STORE_KIND_OPEN:
        memset(m->name, 'a', 1 + rng_below(r, SPINSTORE_NAME));
        m->create = rng_below(r, 2);
        if (m->create)
            m->policy = (struct spinstore_policy){SPINSTORE_TREE, 5, 0};
        break;
    case STORE_KIND_ALLOCATE:
        m->object = rng_u32(r);
        m->write = rng_u64(r);
        m->offset = rng_u64(r);
        m->length = rng_u32(r);
        break;
    case STORE_KIND_SEAL:
        m->extent = rng_u32(r);
        m->write = rng_u64(r);
        m->last = rng_below(r, 2);
        for (uint32_t n = rng_below(r, 257); n; n--)
            m->sum[m->sums++] = rng_u32(r);
        break;
    case STORE_KIND_LAYOUT:
        m->object = rng_u32(r);
        m->bytes = rng_u64(r);
        break;
    case STORE_KIND_REPAIRED:
        m->extent = rng_u32(r);
        m->index = rng_below(r, 14);
        m->target = rng_u32(r);
        break;
    case STORE_KIND_KEYS:
        m->key = (struct storage_key){7, 1000, {1, 2}, {3, 4}};
        m->previous_ends = rng_u32(r);
        m->clock = rng_u32(r);
        break;
    default:
        break;
    }
}

static void random_message(struct rng *r, struct store_message *m) {
    *m = (struct store_message){.kind = 1 + rng_below(r, STORE_KIND_COUNT - 1),
                                .answer = rng_below(r, 2),
                                .serial = rng_u32(r)};
    if (!m->answer)
        random_request(r, m);
    else if (rng_below(r, 4) > 0)
        random_answer(r, m);
    else if ((m->status = 1 + rng_below(r, STORE_STATUSES - 1)) == STORE_LOST &&
             m->kind == STORE_KIND_REPAIR)
        m->extent = rng_u32(r);
}

static struct store_message message, again;
static uint8_t bytes[STORE_MESSAGE_BYTES + 16], other[STORE_MESSAGE_BYTES + 16];

TEST(what_is_written_is_read) {
    struct rng r = rng_seeded(3);
    for (int i = 0; i < 3000; i++) {
        snprintf(test_context, sizeof test_context, "message %d", i);
        random_message(&r, &message);
        uint32_t length = store_message_write(&message, bytes, STORE_MESSAGE_BYTES);
        CHECK(length >= 12);
        memset(&again, 0, sizeof again);
        CHECK(store_message_read(&again, bytes, length));
        CHECK(memcmp(&message, &again, sizeof message) == 0);
        CHECK(!store_message_read(&again, bytes, length - 1));
        CHECK(!store_message_read(&again, bytes, length + 1));
        CHECK(!store_message_read(&again, bytes, rng_below(&r, length)));
        CHECK(store_message_write(&message, other, length - 1) == 0);
    }
}

/* A changed byte makes another message, which is read as it was written, or none. */
TEST(what_is_changed_is_refused_or_within_limits) {
    struct rng r = rng_seeded(4);
    uint32_t taken = 0;
    for (int i = 0; i < 20000; i++) {
        snprintf(test_context, sizeof test_context, "message %d", i);
        if (i % 20 == 0)
            random_message(&r, &message);
        uint32_t length = store_message_write(&message, bytes, STORE_MESSAGE_BYTES);
        bytes[rng_below(&r, length < 60 ? length : 60)] ^= (uint8_t)(1u << rng_below(&r, 8));
        if (!store_message_read(&again, bytes, length))
            continue;
        taken++;
        CHECK_EQ(store_message_write(&again, other, STORE_MESSAGE_BYTES), length);
        CHECK(memcmp(bytes, other, length) == 0);
    }
    CHECK(taken > 1000);
}

TEST(limits) {
    message = (struct store_message){.kind = STORE_KIND_OPEN, .name = ""};
    CHECK_EQ(store_message_write(&message, bytes, sizeof bytes), 0); /* no name */
    CHECK(!store_message_read(&again, bytes, STORE_MESSAGE_BYTES + 1));
    message = (struct store_message){.kind = STORE_KIND_LAYOUT, .answer = true};
    struct rng r = rng_seeded(9);
    while (store_message_fits(&message, STORE_PIECES))
        random_layout(&r, &message);
    CHECK(message.layouts >= 5);
    uint32_t length = store_message_write(&message, bytes, STORE_MESSAGE_BYTES);
    CHECK(length && store_message_read(&again, bytes, length));
}

TEST_MAIN
