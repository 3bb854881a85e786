/* Packets of a shared pool in several threads: one makes them, others read, keep and release them.
 * And the card's atomics beside those of the host's threads. The thread sanitizer runs this. */
#include "lib/test.h"

#include <pthread.h>

#include "nic/nic.h"
#include "nic/portals_private.h"

#define WORKERS 3
#define PLACES  16

/* Packets on their way from thread to thread; each place is one. */
static struct nic_packet *place[PLACES];
static uint32_t finished, wrong, seen;

static bool is_whole(const struct nic_packet *packet) {
    bool whole = packet->bytes == 64;
    for (uint32_t i = 0; i < packet->bytes; i++)
        whole &= packet->data[i] == (uint8_t)(packet->sequence + i);
    return whole;
}

/* Takes packets out of any place, puts some of them back with a reference more. */
static void *work(void *context) {
    uint32_t at = *(uint32_t *)context;
    for (bool last = false; !last;) {
        last = __atomic_load_n(&finished, __ATOMIC_ACQUIRE);
        for (uint32_t i = 0; i < PLACES; i++) {
            struct nic_packet *none = NULL, **p = &place[(at += 7) % PLACES];
            struct nic_packet *packet = __atomic_exchange_n(p, NULL, __ATOMIC_ACQ_REL);
            if (!packet)
                continue;
            __atomic_add_fetch(&wrong, !is_whole(packet), __ATOMIC_RELAXED);
            __atomic_add_fetch(&seen, 1, __ATOMIC_RELAXED);
            struct nic_packet *more = nic_packet_keep(packet);
            nic_packet_release(packet);
            if (last || more->sequence % 3 ||
                !__atomic_compare_exchange_n(p, &none, more, false, __ATOMIC_ACQ_REL,
                                             __ATOMIC_RELAXED))
                nic_packet_release(more);
        }
    }
    return NULL;
}

static uint32_t told;
static void back(void *context, struct nic_packet *packet) {
    (void)context;
    __atomic_add_fetch(&told, packet->bytes == 64, __ATOMIC_RELAXED);
}

TEST(a_packet_of_a_shared_pool_is_released_by_any_thread) {
    enum { COUNT = 20000 };
    struct nic_pool *pool;
    pthread_t thread[WORKERS];
    uint32_t number[WORKERS], made = 0;
    finished = wrong = seen = told = 0;
    CHECK_EQ(nic_pool_new(&pool, 64, NULL), 0);
    nic_pool_share(pool);
    nic_pool_watch(pool, back, NULL);
    for (uint32_t i = 0; i < WORKERS; i++) {
        number[i] = i;
        CHECK_EQ(pthread_create(&thread[i], NULL, work, &number[i]), 0);
    }
    for (uint32_t i = 0; i < COUNT; i++) {
        struct nic_packet *packet = nic_packet_new(pool), *none = NULL;
        CHECK(packet != NULL);
        CHECK_EQ(packet->references, 1);
        packet->sequence = i;
        packet->bytes = 64;
        for (uint32_t k = 0; k < 64; k++)
            packet->data[k] = (uint8_t)(i + k);
        made += nic_pool_used(pool) <= PLACES + WORKERS + 2;
        struct nic_packet *kept = nic_packet_keep(packet);
        CHECK(kept == packet);
        if (!__atomic_compare_exchange_n(&place[i % PLACES], &none, kept, false, __ATOMIC_ACQ_REL,
                                         __ATOMIC_RELAXED))
            nic_packet_release(kept);
        nic_packet_release(packet);
    }
    __atomic_store_n(&finished, 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < WORKERS; i++)
        pthread_join(thread[i], NULL);
    for (uint32_t i = 0; i < PLACES; i++)
        if (place[i]) {
            nic_packet_release(place[i]);
            place[i] = NULL;
        }
    CHECK_EQ(wrong, 0);
    CHECK(seen > 0);
    CHECK_EQ(made, COUNT); /* what came back was used again */
    CHECK_EQ(told, COUNT);
    CHECK_EQ(nic_pool_used(pool), 0);
    nic_pool_free(pool);
}

TEST(a_pool_of_one_thread_uses_packets_again) {
    for (uint32_t watched = 0; watched < 2; watched++) {
        struct nic_pool *pool;
        told = 0;
        CHECK_EQ(nic_pool_new(&pool, 64, NULL), 0);
        if (watched)
            nic_pool_watch(pool, back, NULL);
        struct nic_packet *first = nic_packet_new(pool);
        first->bytes = 64;
        CHECK(nic_packet_keep(first) == first);
        CHECK_EQ(first->references, 2);
        nic_packet_release(first);
        CHECK_EQ(nic_pool_used(pool), 1);
        CHECK_EQ(told, 0);
        nic_packet_release(first);
        CHECK_EQ(nic_pool_used(pool), 0);
        CHECK_EQ(told, watched);
        CHECK(nic_packet_new(pool) == first);
        CHECK_EQ(nic_pool_used(pool), 1);
        nic_packet_release(first);
        nic_pool_free(pool);
    }
}

#define ADDS 20000

static uint64_t sum64, seen_before;
static uint32_t sum32;
static float sum_float;

static void *host_adds(void *context) {
    (void)context;
    for (uint32_t i = 0; i < ADDS; i++) {
        __atomic_add_fetch(&sum64, 3, __ATOMIC_RELAXED);
        __atomic_sub_fetch(&sum32, 1, __ATOMIC_RELAXED);
        uint32_t bits = __atomic_load_n((uint32_t *)(void *)&sum_float, __ATOMIC_RELAXED), next;
        do {
            float value;
            memcpy(&value, &bits, 4);
            value += 1;
            memcpy(&next, &value, 4);
        } while (!__atomic_compare_exchange_n((uint32_t *)(void *)&sum_float, &bits, next, false,
                                              __ATOMIC_RELAXED, __ATOMIC_RELAXED));
    }
    return NULL;
}

TEST(atomics_of_the_card_and_of_the_host_lose_nothing_of_each_other) {
    pthread_t thread;
    uint64_t one = 1, before;
    uint32_t two = 2;
    float a_half = 0.5f;
    uint8_t operand[32] = {0};
    sum64 = seen_before = sum32 = 0;
    sum_float = 0;
    CHECK_EQ(pthread_create(&thread, NULL, host_adds, NULL), 0);
    for (uint32_t i = 0; i < ADDS; i++) {
        p4_atomic_apply(PTL_SUM, PTL_UINT64_T, (uint8_t *)&sum64, (uint8_t *)&one, operand, 8,
                        (uint8_t *)&before);
        CHECK(!i || before > seen_before); /* our own addition at least */
        seen_before = before;
        p4_atomic_apply(PTL_SUM, PTL_UINT32_T, (uint8_t *)&sum32, (uint8_t *)&two, operand, 4,
                        NULL);
        p4_atomic_apply(PTL_SUM, PTL_FLOAT, (uint8_t *)&sum_float, (uint8_t *)&a_half, operand, 4,
                        NULL);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(sum64, 4 * ADDS);
    CHECK_EQ(sum32, ADDS);
    CHECK(sum_float == 1.5f * ADDS);
}

TEST_MAIN
