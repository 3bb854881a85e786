/* The store in worlds, on a network that is not trusted: answers, data and messages of the services
 * that are forged or sent once more. */
#include "lib/store_scene.h"
#include "lib/world_packet.h"

/* ---- A network that is not trusted ---- */

/* To the victim, which is the rank before this one; it says that it is from `node`. */
static int forge(struct scene *s, uint32_t node, uint64_t bits, uint64_t word, const uint8_t *data,
                 uint64_t bytes) {
    const struct nic_message m = {.source_rank = node,
                                  .pt_index = s->victim->port.pt,
                                  .match_bits = bits,
                                  .hdr_data = word,
                                  .payload = bytes};
    return world_packet(s->world, s->o.nodes + 2, s->o.nodes + 1, s->forged++, &m, data, 0,
                        (uint32_t)bytes);
}

/* Of the request that the victim has under way: that all is done, unsigned, with any signature, and
 * with that of an older answer; data, likewise. */
static int forge_all(struct scene *s, const struct store_flight *f) {
    const struct storage_head *h = &f->put[0].head;
    uint32_t v = h->virtual_rank, node = h->capability.place[v].node, tag[2];
    uint64_t word = storage_answer(f->request, v, STORAGE_DONE);
    uint64_t older = storage_answer(f->request - 1, v, STORAGE_DONE);
    uint64_t bytes = storage_read_bytes(h->length, h->packet);
    uint8_t *data = calloc(1, bytes + 1);
    if (h->operation == STORAGE_WRITE) {
        RANK_CHECK(forge(s, node, STORAGE_ANSWER, word, NULL, 0) == 0);
        RANK_CHECK(forge(s, node, STORAGE_ANSWER | 0x1234500, word, NULL, 0) == 0);
        RANK_CHECK(forge(s, node, storage_answer_bits(f->session, older), word, NULL, 0) == 0);
    } else {
        RANK_CHECK(bytes == h->length + STORAGE_TAG_BYTES); /* one packet */
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, h->length) == 0);
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, bytes) == 0);
        storage_packet_tag(f->session, f->request - 1, storage_read_role(v), 0, data, h->length,
                           tag);
        memcpy(data + h->length, tag, sizeof tag);
        RANK_CHECK(forge(s, node, STORAGE_DATA_BITS(f->request), word, data, bytes) == 0);
    }
    free(data);
    return 0;
}

/* A node dies between two writes: what it seems to answer to the next is forged. */
static int attacked(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data, *back = calloc(1, s->bytes);
    uint64_t got;
    if (number == 1) {
        uint64_t last = 0;
        while (s->finished == 0) {
            spin_compute(200);
            for (uint32_t i = 0; s->victim && i < STORE_FLIGHTS; i++) {
                const struct store_flight *f = &s->victim->flight[i];
                if (f->request > last && f->puts) {
                    last = f->request;
                    RANK_CHECK(forge_all(s, f) == 0);
                }
            }
        }
        free(back);
        return 0;
    }
    s->victim = store;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    for (uint32_t i = 0; i < 6; i++) {
        data = filled(i, s->bytes);
        if (i == 2)
            spin_compute_ps(DIES_PS);
        RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
        RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
        RANK_CHECK(memcmp(data, back, got) == 0);
        free(data);
    }
    RANK_CHECK(s->forged > 20 && spinstore_counts(store).forged > 10);
    spinstore_close(o);
    free(back);
    return 0;
}

TEST(forged_and_replayed_answers_and_data_are_not_believed) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (int card = 0; card < 4; card++) {
        struct scene s = {.o = {.nodes = 2,
                                .trust = SPINSTORE_AUTHENTICATED,
                                .node_bytes = 1 << 20,
                                .patience_ms = 1,
                                .silence_ms = 5},
                          .clients = 2,
                          .client = attacked,
                          .policy = {SPINSTORE_PLAIN, 0, 0},
                          .bytes = 1500};
        s.dies_ps[card / 2] = DIES_PS;
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 5, .set = &cards[card % 2], .set_count = 1},
            cards[card % 2], rank, &s, &s.world);
    }
}

/* What a third party sends to a rank of the store: bytes of a message, as if from `as`. */
static int strike(struct scene *s, uint32_t target, uint32_t as, const uint8_t *bytes,
                  uint32_t count) {
    static const ptl_match_bits_t bits[] = {STORE_TO_SERVICE, STORE_TO_NODE, STORE_TO_CLIENT};
    const struct nic_message m = {.source_rank = as,
                                  .pt_index = s->victim->port.pt,
                                  .match_bits = bits[target == 0            ? 0
                                                     : target <= s->o.nodes ? 1
                                                                            : 2],
                                  .payload = count};
    return world_packet(s->world, s->o.nodes + 2, target, s->strikes[target]++, &m, bytes, 0,
                        count);
}

/* A message without a signature, and with one of zeroes. */
static int forge_message(struct scene *s, uint32_t target, uint32_t as, enum store_kind kind,
                         uint32_t serial, bool answer) {
    struct store_message *m = calloc(1, sizeof *m);
    uint8_t bytes[256] = {0};
    m->kind = kind;
    m->serial = serial;
    m->answer = answer;
    m->status = answer ? STORE_NO_OBJECT : STORE_OK;
    uint32_t count = store_message_write(m, bytes, 128);
    free(m);
    RANK_CHECK(count && strike(s, target, as, bytes, count) == 0);
    return strike(s, target, as, bytes, count + STORAGE_TAG_BYTES);
}

/* Messages that the third party has seen. */
struct seen {
    uint32_t as, target, count;
    uint8_t bytes[1000];
};

/* What a rank has just sent: buffers are used again soon. */
static void record(struct scene *s, const struct spinstore *from, struct seen *seen) {
    struct store_message *m = calloc(1, sizeof *m);
    for (uint32_t i = 0; i < 64; i++) {
        const struct store_buffer *b = &from->port.buffer[i];
        bool is_new = b->bytes[0] && s->seen < 100; /* the head has a serial number */
        for (uint32_t j = 0; j < s->seen && is_new; j++)
            is_new = seen[j].target != b->to || memcmp(seen[j].bytes, b->bytes, 12) != 0;
        uint32_t count = 12; /* how long it is is seen by reading it */
        while (is_new && count < 900 && !store_message_read(m, b->bytes, count))
            count++;
        if (!is_new || count == 900)
            continue;
        seen[s->seen] = (struct seen){from->rank, b->to, count + STORAGE_TAG_BYTES, {0}};
        memcpy(seen[s->seen++].bytes, b->bytes, count + STORAGE_TAG_BYTES);
    }
    free(m);
}

static int attack_services(struct scene *s) {
    struct seen *seen = calloc(100, sizeof *seen);
    while (s->left != 3) {
        record(s, s->store[0], seen);
        record(s, s->victim, seen);
        if (s->left == 1) /* while the victim waits for an answer, it gets wrong ones */
            RANK_CHECK(forge_message(s, s->o.nodes + 1, 0, s->victim->port.out->kind,
                                     s->victim->serial, true) == 0);
        spin_compute(300);
    }
    RANK_CHECK(forge_message(s, 0, s->o.nodes + 1, STORE_KIND_STOP, s->victim->serial + 1, false) ==
               0);
    for (uint32_t node = 1; node <= s->o.nodes; node++)
        RANK_CHECK(forge_message(s, node, 0, STORE_KIND_END, s->store[0]->serial, false) == 0);
    for (uint32_t i = 0; i < s->seen; i++)
        RANK_CHECK(strike(s, seen[i].target, seen[i].as, seen[i].bytes, seen[i].count) == 0);
    spin_compute(100000);
    free(seen);
    s->left = 4;
    return 0;
}

static int between_attacks(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_status before, after;
    s->victim = number ? s->victim : store;
    if (number)
        return attack_services(s);
    s->left = 1;
    RANK_CHECK(one_object(s, store, 0) == 0);
    s->left = 2;
    RANK_CHECK(spinstore_counts(store).forged > 5);
    RANK_CHECK(spinstore_remove(store, "object") == PTL_OK); /* to be replayed */
    RANK_CHECK(one_object(s, store, 0) == 0);
    RANK_CHECK(spinstore_ask(store, &before) == PTL_OK);
    s->left = 3;
    while (s->left != 4)
        spin_compute(1000);
    RANK_CHECK(s->seen > 15 && s->store[0]->port.forged > 8);
    for (uint32_t node = 1; node <= s->o.nodes; node++)
        RANK_CHECK(s->store[node]->port.forged >= 3); /* two ends, and its key once more */
    /* nobody has stopped, nothing is removed, nobody lost its keys */
    RANK_CHECK(spinstore_ask(store, &after) == PTL_OK && after.objects == before.objects);
    struct spinstore_object *o;
    uint64_t got;
    uint8_t *back = calloc(1, s->bytes);
    RANK_CHECK(spinstore_open(store, "object", NULL, &o) == PTL_OK);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(is_filled(back, 0, got) && spinstore_write(o, 0, back, got) == PTL_OK);
    spinstore_close(o);
    free(back);
    return 0;
}

TEST(messages_of_the_services_are_signed) {
    for (int trust = 0; trust < 3; trust++) {
        static const char *const cards[] = {"card=sc17", "card=pspin", "card=sc17"};
        struct scene s = {
            .o = {.nodes = 3, .trust = (enum spinstore_trust)trust, .node_bytes = 1 << 20},
            .secret = 0x0123456789abcdef,
            .clients = 2,
            .client = between_attacks,
            .policy = {SPINSTORE_RING, 2, 0},
            .bytes = 9000};
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 6, .set = &cards[trust], .set_count = 1},
            cards[trust], rank, &s, &s.world);
    }
}

/* ---- A node that begins anew ---- */

/* Its card has forgotten which numbers were used: a write of its earlier life is sent once more. */
static int after_a_restart(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    struct spinstore_status status;
    struct spinstore_repaired repaired;
    uint8_t *data = filled(1, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    if (number) {
        while (s->left != 1)
            spin_compute(1000);
        const struct storage_head *h = &s->victim->flight[s->requests % STORE_FLIGHTS].put[0].head;
        uint8_t message[2000];
        memcpy(message, h, STORAGE_HEAD);
        memcpy(message + STORAGE_HEAD, data, s->bytes);
        RANK_CHECK(h->request == s->requests && h->operation == STORAGE_WRITE && !h->packet);
        const struct nic_message m = {.source_rank = s->o.nodes + 1,
                                      .pt_index = s->victim->port.pt,
                                      .match_bits = STORAGE_REQUEST,
                                      .payload = STORAGE_HEAD + s->bytes};
        for (uint32_t node = 1; node <= s->o.nodes; node++)
            RANK_CHECK(world_packet(s->world, s->o.nodes + 2, node, 0, &m, message, 0,
                                    (uint32_t)m.payload) == 0);
        free(data);
        free(back);
        return 0;
    }
    s->victim = store;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    s->requests = store->next_request;
    RANK_CHECK(spin_now_ps() < DIES_PS);
    spin_compute_ps(2 * DIES_PS);
    RANK_CHECK(s->restarted == 1);
    s->left = 1;
    spin_compute(1000000);
    for (uint64_t i = 0; i < s->o.node_bytes; i++) /* which is empty, and stays so */
        RANK_CHECK(s->medium[0][i] == 0);
    spin_compute_ps(2500000000000);
    RANK_CHECK(spinstore_ask(store, &status) == PTL_OK && status.dead == 1 && status.damaged == 1);
    RANK_CHECK(spinstore_repair(store, &repaired) == PTL_OK && repaired.parts == 1);
    RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK && got == s->bytes);
    RANK_CHECK(memcmp(data, back, got) == 0 && spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_node_that_begins_anew_carries_out_nothing_old) {
    for (int is_signed = 0; is_signed < 2; is_signed++) {
        static const char *const cards[] = {"card=sc17", "card=pspin"};
        struct scene s = {.o = {.nodes = 3, .node_bytes = 64 << 10, .silence_ms = 100},
                          .secret = is_signed ? 77 : 0,
                          .clients = 2,
                          .client = after_a_restart,
                          .policy = {SPINSTORE_RING, 2, 0},
                          .bytes = 1000,
                          .restarts = true,
                          .dies_ps = {DIES_PS}};
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 6, .set = &cards[is_signed], .set_count = 1},
            cards[is_signed], rank, &s, &s.world);
    }
}

/* It cannot sign that it refuses, because it has no key; nobody waits for it for that. */
static int is_refused(struct scene *s, struct spinstore *store, uint32_t number) {
    struct spinstore_object *o;
    uint8_t *data = filled(number, s->bytes), *back = calloc(1, s->bytes);
    uint64_t got;
    RANK_CHECK(spinstore_open(store, "o", &s->policy, &o) == PTL_OK);
    RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    RANK_CHECK(spin_now_ps() < DIES_PS);
    spin_compute_ps(2 * DIES_PS);
    RANK_CHECK(s->restarted == 1);
    uint64_t began = spin_now_ps();
    for (uint32_t i = 0; i < 3; i++) {
        if (s->policy.strategy != SPINSTORE_PLAIN) {
            RANK_CHECK(spinstore_read(o, 0, back, s->bytes, &got) == PTL_OK);
            RANK_CHECK(got == s->bytes && memcmp(data, back, got) == 0);
        }
        RANK_CHECK(spinstore_write(o, 0, data, s->bytes) == PTL_OK);
    }
    /* patience is two seconds, and the service asks everybody once per second */
    RANK_CHECK(spin_now_ps() - began < 10000000000);
    spinstore_close(o);
    free(data);
    free(back);
    return 0;
}

TEST(a_node_without_a_key_holds_nobody_up) {
    static const char *const cards[] = {"card=sc17", "card=pspin"};
    for (int trust = 0; trust < 6; trust++) {
        struct scene s = {
            .o = {.nodes = 3, .node_bytes = 64 << 10, .trust = (enum spinstore_trust)(trust / 2)},
            .secret = 77,
            .clients = 1,
            .client = is_refused,
            .policy = {trust % 2 ? SPINSTORE_RING : SPINSTORE_PLAIN, trust % 2 * 2, 0},
            .bytes = 1000,
            .restarts = true,
            .dies_ps = {DIES_PS}};
        spinlib_world_seen(
            (struct spin_world_options){.ranks = 5, .set = &cards[trust % 2], .set_count = 1},
            cards[trust % 2], rank, &s, &s.world);
    }
}

TEST_MAIN
