/* Storage nodes whose cards write and replicate: every byte on every node, for every strategy,
 * trust model and awkward size; reads; denials. */
#include "lib/storage_client.h"

enum { BLOCKS = 64 };
#define EXTENT 150000u

static int write_sizes(struct storage_scene *s) {
    static const uint32_t sizes[] = {0, 1, 7, 1024, 1863, 1864, 1865, 3912, 3913, 20001, 70003};
    static const struct {
        uint8_t strategy, k;
    } policies[] = {{STORAGE_PLAIN, 1}, {STORAGE_RING, 2}, {STORAGE_RING, 4},
                    {STORAGE_PBT, 2},   {STORAGE_PBT, 4},  {STORAGE_PBT, 8}};
    for (uint32_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        struct store_grant g = storage_grant(s, policies[i].strategy, policies[i].k, 0, EXTENT);
        uint32_t count = sizeof sizes / sizeof *sizes;
        count -= s->options.trust == STORAGE_AUTHENTICATED; /* which takes long */
        for (uint32_t n = 0; n < count; n++) {
            int line = storage_write_once(s, &g, 5 * n + i, sizes[n]);
            if (line)
                return line;
        }
    }
    return 0;
}

TEST(every_byte_on_every_copy) {
    struct storage_scene s = {.nodes = 8, .options = {.blocks = BLOCKS}, .client = write_sizes};
    storage_world(&s, NULL, 0);
}

TEST(packets_of_an_untrusted_network_are_authenticated) {
    struct storage_scene s = {
        .nodes = 8,
        .options = {.blocks = BLOCKS, .trust = STORAGE_AUTHENTICATED},
        .client = write_sizes,
    };
    storage_world(&s, NULL, 0);
}

/* ---- Reads ---- */

static int read_back(struct storage_scene *s, const struct store_grant *g,
                     const struct storage_write *w, uint32_t v) {
    struct storage_head head;
    uint8_t *data = calloc(1, w->head.length + 1);
    uint64_t bytes = storage_read_bytes(w->head.length, w->head.packet);
    uint8_t *came = calloc(1, bytes + 1);
    struct spin_linked entry;
    store_head(&head, g,
               &(struct store_ask){.operation = STORAGE_READ,
                                   .trust = s->options.trust,
                                   .place = v,
                                   .offset = w->head.offset,
                                   .length = w->head.length,
                                   .packet = storage_mtu_of(s),
                                   .request = ++s->request});
    RANK_CHECK(spin_entry_append(s->job.ni, s->pt,
                                 &(struct spin_entry){.start = came,
                                                      .length = bytes,
                                                      .bits = STORAGE_DATA_BITS(head.request),
                                                      .options = PTL_ME_OP_PUT},
                                 &entry) == PTL_OK);
    RANK_CHECK(storage_put(s, &head, sizeof head, g->capability.place[v].node) == PTL_OK);
    uint64_t request = 0, at = 0;
    do {
        RANK_CHECK(storage_wait(s, &request) == (int)(v << 8 | STORAGE_DONE));
        if (head.packet)
            RANK_CHECK(store_read_piece(data, &head, g->session, at, came + at, s->bytes));
        at += s->bytes;
    } while (at < bytes);
    RANK_CHECK(request == s->request &&
               memcmp(head.packet ? data : came, w->data, w->head.length) == 0);
    spin_entry_remove(&entry);
    free(data);
    free(came);
    return 0;
}

static int write_and_read(struct storage_scene *s) {
    static const uint32_t sizes[] = {0, 1, 5000, 100001};
    struct store_grant g = storage_grant(s, STORAGE_RING, 3, 0, EXTENT);
    for (uint32_t n = 0; n < sizeof sizes / sizeof *sizes; n++) {
        struct storage_write w = storage_write_new(s, &g, 11 * n, sizes[n]);
        RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
        int line = storage_all_answer(s, 3);
        for (uint32_t v = 0; v < 3 && !line; v++)
            line = read_back(s, &g, &w, v);
        if (line)
            return line;
        storage_write_free(&w);
    }
    return 0;
}

TEST(any_copy_can_be_read) {
    for (uint32_t trust = STORAGE_TRUSTED; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {
            .nodes = 3, .options = {.blocks = BLOCKS, .trust = trust}, .client = write_and_read};
        storage_world(&s, NULL, 0);
    }
}

/* ---- Refusals ---- */

/* What comes is refused like this, and no medium has changed. */
static int refused(struct storage_scene *s, enum storage_status status) {
    uint64_t request = 0;
    int got = storage_wait(s, &request);
    RANK_CHECK(got >= 0 && (got & 0xff) == (int)status);
    for (uint32_t i = 0; i < s->nodes; i++)
        RANK_CHECK(storage_is_zero(s->medium[i], BLOCKS * STORAGE_BLOCK));
    return 0;
}

/* What a malicious client does to its grant before (S) or after (F) somebody signs it, or to the
 * message (M). */
#define ATTACKS(S, F, M)                                                                           \
    F(BAD_CAPABILITY, g.capability.bytes += 4096)                                                  \
    F(BAD_CAPABILITY, g.capability.place[0].block++)                                               \
    F(BAD_CAPABILITY, g.capability.place[1].node = 0)                                              \
    F(BAD_CAPABILITY, g.capability.expires++)                                                      \
    F(BAD_CAPABILITY, g.capability.object++)                                                       \
    F(BAD_CAPABILITY, g.capability.client++)                                                       \
    F(BAD_CAPABILITY, g.capability.strategy = STORAGE_PBT)                                         \
    F(BAD_CAPABILITY, g.mac[0] ^= 0x10000)                                                         \
    F(BAD_CAPABILITY, g.mac[1] = 0)                                                                \
    F(BAD_CAPABILITY, g.capability.key = 2)                                                        \
    F(BAD_CAPABILITY, g.capability.key = 0)                                                        \
    F(BAD_CAPABILITY, store_grant_sign(&g, &forger, s->options.trust))                             \
    S(EXPIRED, g.capability.expires = STORAGE_NOW - 1)                                             \
    S(RIGHTS, g.capability.rights = STORAGE_MAY_READ)                                              \
    S(BAD_CAPABILITY, g.capability.client = 0) /* stolen */                                        \
    S(RANGE, g.capability.place[0].node = 1)                                                       \
    S(RANGE, g.capability.place[0].block = BLOCKS)                                                 \
    S(RANGE, g.capability.bytes = UINT32_MAX)                                                      \
    M(RANGE, w.head.offset = EXTENT - 2999)                                                        \
    M(RANGE, w.head.offset = UINT32_MAX)                                                           \
    M(BAD_CAPABILITY, w.head.virtual_rank = 1)                                                     \
    M(BAD_VERSION, w.head.version = 2)                                                             \
    M(BAD_VERSION, w.head.capability.version = 2)                                                  \
    M(MALFORMED, w.head.virtual_rank = 2)                                                          \
    M(MALFORMED, w.head.operation = STORAGE_PARITY)                                                \
    M(MALFORMED, w.head.operation = 77)                                                            \
    M(MALFORMED, w.head.trust = STORAGE_TRUSTED)                                                   \
    M(MALFORMED, w.head.length--)                                                                  \
    M(MALFORMED, w.head.length = UINT32_MAX)                                                       \
    M(MALFORMED, w.bytes--)                                                                        \
    M(MALFORMED, w.bytes = STORAGE_HEAD)                                                           \
    M(MALFORMED, w.bytes = STORAGE_HEAD - 1)                                                       \
    M(MALFORMED, w.bytes = 41)                                                                     \
    M(MALFORMED, w.bytes = 1)                                                                      \
    M(MALFORMED, w.bytes = 0)

static int attack(struct storage_scene *s, uint32_t number) {
    const struct storage_key forger = store_key(1, UINT32_MAX, STORAGE_SECRET + 1);
    struct store_grant g = storage_grant(s, STORAGE_RING, 2, 0, EXTENT);
    enum storage_status wanted = STORAGE_DONE;
    uint32_t i = 0;
#define BEFORE(status, change)                                                                     \
    if (i++ == number) {                                                                           \
        change;                                                                                    \
        wanted = STORAGE_##status;                                                                 \
        store_grant_sign(&g, &s->key, s->options.trust);                                           \
    }
#define AFTER(status, change)                                                                      \
    if (i++ == number) {                                                                           \
        change;                                                                                    \
        wanted = STORAGE_##status;                                                                 \
    }
#define COUNT(status, change) i++;
    ATTACKS(BEFORE, AFTER, COUNT)
    struct storage_write w = storage_write_new(s, &g, 0, 3000);
    i = 0;
    ATTACKS(COUNT, COUNT, AFTER)
    memcpy(w.message, &w.head, STORAGE_HEAD);
    RANK_CHECK(wanted != STORAGE_DONE);
    RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
    int line = refused(s, wanted);
    storage_write_free(&w);
    return line ? (int)(line + 1000 * number) : 0;
}

static int attack_all(struct storage_scene *s) {
    uint32_t attacks = 0;
    storage_clear(s);
#define ONE(status, change) attacks++;
    ATTACKS(ONE, ONE, ONE)
    for (uint32_t i = 0; i < attacks; i++) {
        int line = attack(s, i);
        if (line)
            return line;
    }
    struct store_grant g = storage_grant(s, STORAGE_RING, 2, 0, EXTENT);
    return storage_write_once(s, &g, 3, 9000); /* as if nothing had been */
}

TEST(what_is_forged_expired_or_elsewhere_is_refused) {
    struct storage_scene s = {.nodes = 2, .options = {.blocks = BLOCKS}, .client = attack_all};
    storage_world(&s, NULL, 0);
}

/* What would be cut off is not acknowledged: a message that is put at an offset, and one whose tags
 * do not fit behind a medium that it fills. A message is refused by its head: the rest of it leaves
 * meanwhile. */
enum { LEFT_NS = 1000000 };
static int cut_off(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, (BLOCKS - 1) * STORAGE_BLOCK);
    static const uint32_t offsets[] = {1, 4096, BLOCKS * STORAGE_BLOCK, UINT32_MAX};
    storage_clear(s);
    for (uint32_t i = 0; i < 4; i++) {
        struct storage_write w = storage_write_new(s, &g, 0, 3000);
        RANK_CHECK(PtlPut(s->md, (ptl_size_t)(uintptr_t)w.message, w.bytes, PTL_NO_ACK_REQ,
                          (ptl_process_t){.rank = 0}, s->pt, STORAGE_REQUEST, offsets[i], NULL,
                          0) == PTL_OK);
        int line = refused(s, STORAGE_MALFORMED);
        if (line)
            return line;
        spin_compute(LEFT_NS);
        storage_write_free(&w);
    }
    g = storage_grant(s, STORAGE_PLAIN, 1, 0, BLOCKS * STORAGE_BLOCK);
    g.capability.place[0].block = 0;
    store_grant_sign(&g, &s->key, s->options.trust);
    struct storage_write w = storage_write_new(s, &g, 0, BLOCKS * STORAGE_BLOCK);
    RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
    int line = s->options.trust == STORAGE_AUTHENTICATED ? refused(s, STORAGE_MALFORMED)
                                                         : storage_all_answer(s, 1);
    spin_compute(LEFT_NS);
    storage_write_free(&w);
    return line;
}

TEST(a_message_that_is_cut_off_is_refused) {
    for (uint32_t trust = STORAGE_CAPABILITY; trust <= STORAGE_AUTHENTICATED; trust++) {
        struct storage_scene s = {
            .nodes = 1, .options = {.blocks = BLOCKS, .trust = trust}, .client = cut_off};
        storage_world(&s, NULL, 0);
    }
}

/* The node before says so. */
static int to_nobody(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PBT, 3, 0, EXTENT);
    g.capability.place[2].node = 1000;
    store_grant_sign(&g, &s->key, s->options.trust);
    struct storage_write w = storage_write_new(s, &g, 0, 5000);
    uint32_t answers = 0;
    RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
    for (int got; (got = storage_wait(s, NULL)) >= 0;) {
        RANK_CHECK((got & 0xff) == (got >> 8 == 2 ? STORAGE_GONE : STORAGE_DONE));
        answers |= 1u << (got >> 8);
    }
    RANK_CHECK(answers == 7);
    storage_write_free(&w);
    return 0;
}

TEST(a_node_that_cannot_be_reached_is_told_of) {
    struct storage_scene s = {.nodes = 3, .options = {.blocks = BLOCKS}, .client = to_nobody};
    storage_world(&s, NULL, 0);
}

/* A number is used once; those within the window in any order, those far below not at all. */
static int replay(struct storage_scene *s) {
    struct store_grant g = storage_grant(s, STORAGE_PLAIN, 1, 0, EXTENT);
    static const struct {
        int step;
        enum storage_status wanted;
    } rows[] = {{0, STORAGE_DONE},     {0, STORAGE_REPLAY},    {10, STORAGE_DONE},
                {5, STORAGE_DONE},     {5, STORAGE_REPLAY},    {10, STORAGE_REPLAY},
                {-200, STORAGE_DONE},  {-200, STORAGE_REPLAY}, {-246, STORAGE_REPLAY},
                {-245, STORAGE_DONE},  {1000, STORAGE_DONE},   {10, STORAGE_REPLAY},
                {999, STORAGE_DONE},   {745, STORAGE_DONE},    {744, STORAGE_REPLAY},
                {999, STORAGE_REPLAY}, {1010, STORAGE_DONE},   {1200, STORAGE_DONE},
                {1270, STORAGE_DONE},  {1266, STORAGE_DONE},   {1266, STORAGE_REPLAY}};
    const uint64_t first = s->request += 1000;
    for (uint32_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        s->request = first + (uint64_t)(int64_t)rows[i].step - 1;
        struct storage_write w = storage_write_new(s, &g, 0, 100);
        RANK_CHECK(storage_put(s, w.message, w.bytes, 0) == PTL_OK);
        int got = storage_wait(s, NULL);
        if (got != (int)rows[i].wanted)
            return (int)(__LINE__ + 1000 * i);
        storage_write_free(&w);
    }
    return 0;
}

TEST(a_request_is_carried_out_once) {
    struct storage_scene s = {.nodes = 1, .options = {.blocks = BLOCKS}, .client = replay};
    storage_world(&s, NULL, 0);
}

/* Any bytes: an answer or nothing, and a card that goes on. */
static int garbage(struct storage_scene *s) {
    struct rng r = rng_seeded(3);
    struct store_grant g = storage_grant(s, STORAGE_PBT, 3, 0, EXTENT);
    uint8_t *message = malloc(9000);
    for (int i = 0; i < 100; i++) {
        uint32_t bytes = rng_below(&r, 3) ? rng_below(&r, 9000) : rng_below(&r, 400);
        for (uint32_t k = 0; k < bytes; k++)
            message[k] = (uint8_t)rng_u32(&r);
        if (bytes > STORAGE_HEAD && i % 2) { /* nearly right */
            struct storage_write w = storage_write_new(s, &g, 0, bytes - STORAGE_HEAD);
            memcpy(message, &w.head, STORAGE_HEAD);
            message[rng_below(&r, STORAGE_HEAD)] ^= (uint8_t)(1 << rng_below(&r, 8));
            storage_write_free(&w);
        }
        RANK_CHECK(storage_put(s, message, bytes, rng_below(&r, 3)) == PTL_OK);
    }
    while (storage_wait(s, NULL) >= 0)
        ;
    free(message);
    return storage_write_once(s, &g, 3, 9000);
}

TEST(any_bytes_do_no_harm) {
    struct storage_scene s = {.nodes = 3, .options = {.blocks = BLOCKS}, .client = garbage};
    storage_world(&s, NULL, 0);
}

TEST_MAIN
