/* Sums of parities on a card and at its host: as many threads as a card has HPUs add packets of the
 * k messages of writes, in any order, to accumulators that are too few. */
#include "lib/test.h"

#include <pthread.h>

#include "../handlers/storage/storage_parity.h"
#include "../handlers/storage/store_sums.h"
#include "base/rng.h"

#define THREADS 3u
#define WRITES  40u
#define ROOM    256u
#define MOST    1500u /* bytes of a parity */
#define OLDEST  5u

struct packet {
    uint32_t write, data_index, offset, length;
};

static struct {
    struct storage_parity *card;
    struct store_sums *sums;
    pthread_mutex_t host;
    uint32_t k[WRITES], length[WRITES], packets_left[WRITES][14], number[WRITES];
    uint8_t data[WRITES][14][MOST];
    uint8_t medium[WRITES][MOST], expected[WRITES][MOST];
    struct packet packet[WRITES * 14 * 60];
    uint32_t packets, next, durable[WRITES], refused, wrong;
    uint32_t first_write, end_write; /* of this round */
} t;

static void make_card(uint32_t writes, uint32_t accumulators) {
    free(t.card);
    const struct storage_parity sizes = {.writes = writes,
                                         .accumulators = accumulators,
                                         .buckets = 16,
                                         .room = ROOM,
                                         .oldest = OLDEST,
                                         .host_room = 1000,
                                         .tables_at = sizeof sizes};
    t.card = calloc(1, sizeof sizes + storage_parity_bytes(&sizes));
    *t.card = sizes;
    store_sums_free(t.sums);
    t.sums = store_sums_new(4096);
    pthread_mutex_init(&t.host, NULL);
}

static struct parity_request request_of(uint32_t write, uint32_t j, uint32_t step) {
    return (struct parity_request){.request = 7000 + write,
                                   .client = 3,
                                   .virtual_rank = t.k[write],
                                   .k = t.k[write],
                                   .data_index = j,
                                   .length = t.length[write],
                                   .at = write * MOST,
                                   .step = step};
}

static void answered(uint32_t write, enum parity_state state) {
    if (state == PARITY_DURABLE) {
        __atomic_fetch_add(&t.durable[write], 1, __ATOMIC_SEQ_CST);
        /* At the answer all of it is there. */
        if (memcmp(t.medium[write], t.expected[write], t.length[write]) != 0)
            __atomic_fetch_add(&t.wrong, 1, __ATOMIC_SEQ_CST);
    }
}

/* What the host's process does, in the order in which pieces come. */
static void at_host(uint64_t bits, uint64_t hdr_data, const uint8_t *data, uint32_t bytes,
                    uint32_t now) {
    struct store_sum sum;
    struct parity_request whose;
    pthread_mutex_lock(&t.host);
    parity_host_took(t.card, 1);
    enum store_sums_result result =
        store_sums_add(t.sums, bits, hdr_data, data, bytes, now, OLDEST, &sum);
    if (result == STORE_SUM_COMPLETE) {
        memcpy((uint8_t *)t.medium + sum.at, sum.data, sum.bytes);
        enum parity_state state =
            parity_host_done(t.card, sum.write, sum.generation, sum.bytes, &whose);
        answered((uint32_t)(sum.at / MOST), state);
    } else if (result == STORE_SUM_REFUSED) {
        t.wrong++;
    }
    pthread_mutex_unlock(&t.host);
}

static void handle(const struct packet *p, uint32_t now) {
    const uint32_t number = t.number[p->write];
    const struct parity_write *w = parity_write_at(t.card, number);
    const uint8_t *data = t.data[p->write][p->data_index];
    uint32_t offset = p->offset, left = p->length, which;
    while (left) {
        const struct parity_piece piece = parity_cut(w, offset, left);
        switch (parity_add(t.card, number, &piece, data + offset, &which)) {
        case PARITY_COMPLETE:
            memcpy(t.medium[p->write] + piece.start, parity_accumulator_at(t.card, which)->word,
                   piece.bytes);
            parity_written(t.card, which);
            break;
        case PARITY_AT_HOST:
            at_host(parity_sum_bits(w, number), parity_sum_data(w, &piece), data + offset,
                    piece.length, now);
            break;
        case PARITY_REFUSED:
            __atomic_fetch_add(&t.refused, 1, __ATOMIC_SEQ_CST);
            break;
        default:
            break;
        }
        offset += piece.length;
        left -= piece.length;
    }
    if (__atomic_sub_fetch(&t.packets_left[p->write][p->data_index], 1, __ATOMIC_SEQ_CST) == 0)
        answered(p->write, parity_end(t.card, number, p->data_index, 0, now));
}

static void *hpu(void *unused) {
    (void)unused;
    uint32_t i;
    while ((i = __atomic_fetch_add(&t.next, 1, __ATOMIC_SEQ_CST)) < t.packets)
        handle(&t.packet[i], 1);
    return NULL;
}

/* Packets of all messages of writes, begun in order and then shuffled within a distance. */
static void make_packets(struct rng *rng, uint32_t step, bool odd) {
    t.packets = t.next = 0;
    for (uint32_t write = t.first_write; write < t.end_write; write++) {
        t.k[write] = 1 + rng_below(rng, 10);
        t.length[write] = 1 + rng_below(rng, MOST);
        memset(t.expected[write], 0, MOST);
        memset(t.medium[write], 0x55, MOST);
        t.durable[write] = 0;
        for (uint32_t j = 0; j < t.k[write]; j++) {
            t.packets_left[write][j] = 0;
            for (uint32_t i = 0; i < t.length[write]; i++)
                t.expected[write][i] ^= t.data[write][j][i] = (uint8_t)rng_u32(rng);
            for (uint32_t at = 0, length; at < t.length[write]; at += length) {
                length = odd ? 1 + rng_below(rng, 90) : step - (at ? 0 : STORAGE_PARITY_HEAD);
                if (length > t.length[write] - at)
                    length = t.length[write] - at;
                t.packet[t.packets++] = (struct packet){write, j, at, length};
                t.packets_left[write][j]++;
            }
        }
    }
    for (uint32_t i = 0; i < t.packets; i++) {
        const uint32_t with = i + rng_below(rng, t.packets - i);
        const struct packet p = t.packet[i];
        t.packet[i] = t.packet[with];
        t.packet[with] = p;
    }
}

static void begin_all(uint32_t step) {
    for (uint32_t write = t.first_write; write < t.end_write; write++)
        for (uint32_t j = 0; j < t.k[write]; j++) {
            struct parity_request q = request_of(write, j, step);
            int mismatch;
            uint32_t number = parity_begin(t.card, &q, 1, &mismatch);
            CHECK(number != STORAGE_PARITY_NONE && !mismatch);
            CHECK(j == 0 || number == t.number[write]);
            t.number[write] = number;
        }
}

static void run_packets(void) {
    pthread_t thread[THREADS];
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_create(&thread[i], NULL, hpu, NULL);
    for (uint32_t i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
}

static void check_all_free(uint32_t accumulators) {
    CHECK_EQ(t.card->in_use, 0);
    uint32_t count = 0;
    for (uint32_t i = t.card->free_accumulator; i != STORAGE_PARITY_NONE; count++) {
        const struct parity_accumulator *a = parity_accumulator_at(t.card, i);
        for (uint32_t word = 0; word < ROOM / 4; word++)
            CHECK_EQ(a->word[word], 0);
        i = a->next;
    }
    CHECK_EQ(count, t.card->used_accumulators);
    CHECK(count <= accumulators);
    for (uint32_t i = 0; i < t.card->buckets; i++) {
        CHECK_EQ(parity_buckets(t.card)[i].first, STORAGE_PARITY_NONE);
        CHECK_EQ(parity_buckets(t.card)[i].first_write, STORAGE_PARITY_NONE);
    }
}

/* With enough accumulators, with hardly any, and with none. */
TEST(every_parity_is_the_sum_of_its_parts) {
    static const uint32_t accumulators[] = {1000, 37, 3, 0};
    for (uint32_t seed = 0; seed < 12; seed++) {
        struct rng rng = rng_seeded(seed);
        const uint32_t count = accumulators[seed % 4];
        snprintf(test_context, sizeof test_context, "seed %u", seed);
        make_card(WRITES, count);
        t.first_write = 0;
        t.end_write = WRITES;
        t.wrong = 0;
        const uint32_t step = seed / 4 == 2 ? 2 * ROOM : ROOM; /* packets longer than ranges */
        make_packets(&rng, step, seed / 4 == 1);
        begin_all(step);
        run_packets();
        CHECK_EQ(t.wrong, 0);
        for (uint32_t i = 0; i < WRITES; i++)
            CHECK_EQ(t.durable[i], 1);
        if (count == 1000)
            CHECK_EQ(t.card->sums_at_host, 0);
        if (count == 0)
            CHECK_EQ(t.card->sums_on_card, 0);
        if (count == 37)
            CHECK(t.card->sums_on_card > 0 && t.card->sums_at_host > 0);
        CHECK(t.card->most_in_use <= count);
        CHECK_EQ(store_sums_count(t.sums), 0);
        CHECK_EQ(t.card->host_pieces, 0);
        check_all_free(count);
    }
}

/* Neither card nor host has room: it fails, once, and nothing is left. */
TEST(a_write_without_room_anywhere_is_refused) {
    struct rng rng = rng_seeded(5);
    make_card(WRITES, 1);
    t.card->host_room = 0;
    t.first_write = t.refused = 0;
    t.end_write = 1;
    do
        make_packets(&rng, ROOM, false);
    while (t.k[0] < 3 || t.length[0] < 600);
    begin_all(ROOM);
    for (uint32_t i = 0; i < t.packets; i++)
        handle(&t.packet[i], 1);
    CHECK_EQ(t.refused, 1);
    CHECK_EQ(t.durable[0], 0);
    CHECK_EQ(t.card->host_pieces, 0);
    CHECK_EQ(t.card->failed_writes, 1);
    check_all_free(1);
}

/* One that breaks off gives back what it holds when its other messages have ended. */
TEST(a_broken_message_frees_its_write) {
    struct rng rng = rng_seeded(3);
    make_card(WRITES, 64);
    t.first_write = 0;
    t.end_write = 1;
    do
        make_packets(&rng, ROOM, false);
    while (t.k[0] < 3 || t.length[0] < 600);
    begin_all(ROOM);
    for (uint32_t i = 0; i < t.packets; i++)
        if (t.packet[i].data_index != 1)
            handle(&t.packet[i], 1);
    CHECK(t.card->in_use > 0);
    CHECK_EQ(t.durable[0], 0);
    CHECK_EQ(parity_end(t.card, t.number[0], 1, 1, 2), PARITY_FAILED);
    check_all_free(64);
    CHECK_EQ(t.card->failed_writes, 1);
}

/* Without its other messages a write is given up when it is old, and its record is needed. */
TEST(a_write_that_stays_incomplete_is_given_up) {
    struct rng rng = rng_seeded(4);
    make_card(2, 64);
    t.first_write = 0;
    t.end_write = 2;
    do
        make_packets(&rng, ROOM, false);
    while (t.k[0] < 2 || t.k[1] < 2);
    int mismatch;
    for (uint32_t write = 0; write < 2; write++) {
        struct parity_request q = request_of(write, 0, ROOM);
        t.number[write] = parity_begin(t.card, &q, 1, &mismatch);
        CHECK(t.number[write] != STORAGE_PARITY_NONE);
    }
    for (uint32_t i = 0; i < t.packets; i++)
        if (t.packet[i].data_index == 0)
            handle(&t.packet[i], 1);
    struct parity_request q = request_of(5, 0, ROOM);
    q.k = 1;
    q.length = 10;
    parity_sweep(t.card, 1 + OLDEST);
    CHECK_EQ(parity_begin(t.card, &q, 2, &mismatch), STORAGE_PARITY_NONE);
    CHECK_EQ(mismatch, 0);
    parity_sweep(t.card, 2 + OLDEST);
    check_all_free(64);
    CHECK(parity_begin(t.card, &q, 2 + OLDEST, &mismatch) != STORAGE_PARITY_NONE);
}

TEST(messages_that_contradict_each_other_are_refused) {
    make_card(4, 4);
    t.k[0] = 3;
    t.length[0] = 100;
    struct parity_request q = request_of(0, 1, ROOM), other = q;
    int mismatch;
    const uint32_t number = parity_begin(t.card, &q, 1, &mismatch);
    CHECK(number != STORAGE_PARITY_NONE);
    CHECK_EQ(parity_begin(t.card, &q, 1, &mismatch), STORAGE_PARITY_NONE);
    CHECK_EQ(mismatch, 1); /* again the same */
    other.data_index = 2;
    other.length = 99;
    CHECK_EQ(parity_begin(t.card, &other, 1, &mismatch), STORAGE_PARITY_NONE);
    CHECK_EQ(mismatch, 1);
    other = q;
    other.data_index = 0;
    CHECK_EQ(parity_begin(t.card, &other, 1, &mismatch), number);
    /* Bytes that the host claims beyond those that are left, or of another generation. */
    struct parity_request whose;
    const uint32_t generation = parity_write_at(t.card, number)->generation;
    CHECK_EQ(parity_host_done(t.card, number, generation, 101, &whose), PARITY_OPEN);
    CHECK_EQ(parity_host_done(t.card, number, generation + 1, 100, &whose), PARITY_OPEN);
    CHECK_EQ(parity_host_done(t.card, 5, 0, 1, &whose), PARITY_OPEN);
    CHECK_EQ(parity_write_at(t.card, number)->left, 100);
}

/* The host's sums are bounded too; old ones make room. */
TEST(sums_of_the_host_are_bounded) {
    const struct parity_write w = {.k = 2, .at = 0, .length = 64, .step = ROOM, .generation = 9};
    uint8_t data[64] = {1};
    struct store_sums *sums = store_sums_new(2);
    struct store_sum sum;
    uint64_t header = parity_sum_data(&w, &(struct parity_piece){.bytes = 64, .length = 64});
    for (uint32_t write = 0; write < 3; write++)
        CHECK_EQ(
            store_sums_add(sums, parity_sum_bits(&w, write), header, data, 64, 1, OLDEST, &sum),
            write < 2 ? STORE_SUM_OPEN : STORE_SUM_REFUSED);
    CHECK_EQ(store_sums_add(sums, parity_sum_bits(&w, 0), header, data, 65, 1, OLDEST, &sum),
             STORE_SUM_REFUSED);
    CHECK_EQ(store_sums_add(sums, parity_sum_bits(&w, 2), header, data, 64, 7, OLDEST, &sum),
             STORE_SUM_OPEN);
    CHECK_EQ(store_sums_count(sums), 2); /* an old one has made room */
    CHECK_EQ(store_sums_add(sums, parity_sum_bits(&w, 2), header, data, 64, 7, OLDEST, &sum),
             STORE_SUM_COMPLETE);
    CHECK(sum.data[0] == 0 && sum.bytes == 64 && sum.write == 2 && sum.generation == 9);
    store_sums_free(sums);
}

TEST_MAIN
