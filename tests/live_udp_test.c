/* Live cards over UDP: all sizes and bytes, four processes, a network that loses, doubles, reorders
 * and corrupts, strangers, peers that are killed, two network namespaces. Each test process has
 * loopback addresses of its own, so several may run at once. */
#include "lib/live_net_user.h"
#include "lib/need_fork.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/live_auth.h"
#include "live/live_card_private.h"
#include "live/live_clock.h"
#include "live/live_faults.h"
#include "live/live_sum.h"
#include "live/live_udp.h"
#include "nic/wire.h"

#define PUT_BYTES (MEMORY / 8)

static struct live_folder folder;

static void open_folder(void) {
    char name[64];
    CHECK_EQ(live_folder_make(&folder, name, sizeof name, &err), 0);
}

/* 127.HOST.x.y; x.y are this test process's. */
static const char *host(uint32_t number) {
    static char text[4][20];
    static pid_t test;
    test = test ? test : getpid();
    snprintf(text[number % 4], sizeof text[0], "127.%u.%u.%u", 10 + number, test >> 8 & 255,
             test & 255);
    return text[number % 4];
}

static enum live_transport_kind transport = LIVE_UDP;

static int user_open(struct user *u, uint32_t pid, struct live_udp_settings udp, bool progress) {
    const struct live_card_options options = {
        .folder = &folder, .pid = pid, .transport = transport, .of_udp = udp, .progress = progress};
    return user_open_by(u, &options);
}

TEST(two_addresses_exchange_messages_of_all_sizes) {
    struct user a, b;
    struct in_addr address;
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, true), 0);
    CHECK_EQ(user_open(&a, LIVE_PIDS, (struct live_udp_settings){.interface = host(0)}, true), 0);
    CHECK(inet_pton(AF_INET, host(0), &address) == 1);
    CHECK_EQ(a.self.phys.nid, ntohl(address.s_addr));
    CHECK_EQ(a.self.phys.pid, LIVE_PIDS - 1);
    CHECK_EQ(b.self.phys.pid, 2);
    exchange(&a, &b, 7, 60, MEMORY / 2);
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(b.card), 0);
    CHECK_EQ(live_card_strangers(a.card) + live_card_strangers(b.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* While its progress thread may be at work. */
static struct nic_counts counts_of(const struct user *u) {
    live_lock_take(&u->card->lock);
    const struct nic_counts counts = *nic_counts(live_card_nic(u->card));
    live_lock_give(&u->card->lock);
    return counts;
}

/* b has a's address, c another; both at once, and each in turn after a pause in which all sleep. */
TEST(each_peer_has_its_transport) {
    struct user a, b, c;
    open_folder();
    transport = LIVE_AUTO;
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(0)}, true), 0);
    CHECK_EQ(user_open(&c, 2, (struct live_udp_settings){.interface = host(1)}, true), 0);
    CHECK_EQ(user_open(&a, LIVE_PIDS, (struct live_udp_settings){.interface = host(0)}, true), 0);
    transport = LIVE_UDP;
    CHECK_EQ(a.self.phys.nid, b.self.phys.nid);
    CHECK(a.self.phys.nid != c.self.phys.nid);
    exchange(&a, &b, 7, 40, MEMORY / 2);
    CHECK_EQ(counts_of(&a).receipts, 0); /* nothing was acknowledged by the card's delivery */
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    exchange(&a, &c, 8, 40, MEMORY / 2);
    CHECK(counts_of(&a).receipts > 0);
    for (int i = 0; i < 3; i++) {
        usleep(30000);
        CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
        exchange(&a, i % 2 ? &b : &c, 9, 22, 20000);
    }
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(c.card), 0);
    user_close(&a);
    user_close(&b);
    user_close(&c);
    live_folder_remove(&folder);
}

TEST(a_network_that_loses_doubles_reorders_and_corrupts) {
    const char *seeds = getenv("OPENSPIN_SEEDS");
    open_folder();
    for (uint64_t seed = 0; seed < (seeds ? strtoull(seeds, NULL, 10) : 2); seed++) {
        struct user a, b;
        char faults[100];
        snprintf(test_context, sizeof test_context, "seed %llu", (unsigned long long)seed);
        snprintf(faults, sizeof faults, "%llu:loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1",
                 (unsigned long long)seed);
        CHECK_EQ(user_open(&b, 2,
                           (struct live_udp_settings){
                               .interface = host(1), .faults = faults, .retries = 40},
                           true),
                 0);
        CHECK_EQ(user_open(&a, 1,
                           (struct live_udp_settings){
                               .interface = host(0), .faults = faults, .retries = 40},
                           true),
                 0);
        exchange(&a, &b, seed, 30, MEMORY / 32);
        CHECK(counts_of(&a).retransmitted > 0);
        CHECK(counts_of(&b).duplicates > 0);
        CHECK(live_card_malformed(b.card) + live_card_strangers(b.card) > 0);
        user_close(&a);
        user_close(&b);
    }
    test_context[0] = 0;
    live_folder_remove(&folder);
}

/* ---- a receiver that is slow ---- */

/* Datagrams that the system has thrown away as the socket's buffer was full. */
static uint64_t dropped(const struct user *u) {
    char line[300];
    unsigned address, port;
    unsigned long long count;
    uint64_t drops = 0;
    FILE *file = fopen("/proc/net/udp", "r");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line,
                   " %*d: %x:%x %*x:%*x %*x %*x:%*x %*x:%*x %*x %*u %*d %*u %*d %*s "
                   "%llu",
                   &address, &port, &count) == 3 &&
            ntohl(address) == u->self.phys.nid && port == LIVE_UDP_PORT + u->self.phys.pid)
            drops += count;
    if (file)
        fclose(file);
    return drops;
}

static void drive_until_acked(struct user *slow, struct user *a, uint64_t count) {
    ptl_ct_event_t event = {0, 0};
    for (uint64_t began = live_now_ns(); event.success < count;) {
        live_card_poll(slow->card);
        PtlCTGet(a->acked, &event);
        CHECK_EQ(event.failure, 0);
        CHECK(live_now_ns() - began < 200000 * LIVE_MS);
    }
}

/* b does not drive its card, and has a small buffer: what two others send waits with them. */
TEST(who_does_not_drive_loses_nothing) {
    struct user a, b, c;
    struct user *const from[] = {&a, &c};
    open_folder();
    CHECK_EQ(user_open(&b, 2,
                       (struct live_udp_settings){.interface = host(1), .buffer_bytes = 200000},
                       false),
             0);
    CHECK_EQ(user_open(&a, 1, (struct live_udp_settings){.interface = host(0)}, true), 0);
    CHECK_EQ(user_open(&c, 3, (struct live_udp_settings){.interface = host(0)}, true), 0);
    uint64_t before = 0; /* what they send before they know what it takes may be too much */
    for (int round = 1; round <= 2; round++) {
        for (int i = 0; i < 2; i++) {
            enter(from[i]);
            for (uint64_t k = 0; k < 4 * PUT_BYTES; k++)
                from[i]->source[k] = (uint8_t)(k * 7 + (k >> 8) + (uint64_t)(i + round));
            for (uint64_t k = 0; k < 4; k++)
                CHECK_EQ(put(from[i], b.self, k * PUT_BYTES, PUT_BYTES), PTL_OK);
        }
        if (round == 2)
            usleep(100000);
        for (int i = 0; i < 2; i++) {
            enter(from[i]);
            drive_until_acked(&b, from[i], 4 * (uint64_t)round);
        }
        if (round == 1)
            before = dropped(&b);
    }
    CHECK_EQ(dropped(&b), before);
    enter(&c);
    look_at(&b, &c);
    CHECK_EQ(put(&c, b.self, 0, 4 * PUT_BYTES), PTL_OK);
    drive_until_acked(&b, &c, 9);
    look_at(&b, &c);
    CHECK(memcmp(c.source, b.memory, 4 * PUT_BYTES) == 0);
    user_close(&a);
    user_close(&b);
    user_close(&c);
    live_folder_remove(&folder);
}

/* A put of several datagrams is sent from where it lies: its memory is the program's again with the
 * SEND event, which says so if it was not there. */
static void put_in_place(const char *to) {
    struct user a, b;
    ptl_event_t event;
    ptl_ct_event_t count;
    ptl_handle_md_t md;
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = to}, true), 0);
    CHECK_EQ(user_open(&a, LIVE_PIDS, (struct live_udp_settings){.interface = host(0)}, true), 0);
    uint8_t *from = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(from != MAP_FAILED);
    const ptl_md_t all = {.start = from,
                          .length = MEMORY,
                          .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_SEND,
                          .eq_handle = a.eq,
                          .ct_handle = a.acked};
    CHECK_EQ(PtlMDBind(a.ni, &all, &md), PTL_OK);
    uint32_t undisturbed = 0;
    for (uint8_t round = 1; round <= 5; round++) {
        uint64_t repeated = counts_of(&a).retransmitted;
        memset(from, round, MEMORY);
        CHECK_EQ(PtlPut(md, 1, MEMORY - 1, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK(event.type == PTL_EVENT_SEND && event.ni_fail_type == PTL_NI_OK);
        memset(from, 0xee, MEMORY);
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK(event.type == PTL_EVENT_ACK && event.mlength == MEMORY - 1);
        look_at(&b, &a);
        for (uint32_t i = 0; i < MEMORY - 1; i++)
            if (b.memory[i] != round)
                TEST_FAIL("round %u, byte %u is %u", round, i, b.memory[i]);
        look_at(&b, &a);
        undisturbed += counts_of(&a).retransmitted == repeated;
    }
    CHECK(undisturbed > 0); /* who loses the processor for long seems to lose packets */
    CHECK_EQ(munmap(from + MEMORY / 2, MEMORY / 2), 0);
    CHECK_EQ(PtlPut(md, 0, MEMORY, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK_EQ(event.ni_fail_type, PTL_NI_SEGV);
    }
    CHECK_EQ(PtlPut(md, 0, MEMORY / 2, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK_EQ(event.ni_fail_type, PTL_NI_OK);
    }
    CHECK_EQ(PtlCTGet(a.acked, &count), PTL_OK);
    CHECK_EQ(count.success, 12);
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(b.card), 0);
    CHECK_EQ(munmap(from, MEMORY / 2), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(a_large_put_needs_no_copy_until_its_send_event) {
    put_in_place(host(1));
}

/* Where joined packets have a checksum of their header alone. */
TEST(a_large_put_within_a_machine_needs_no_copy_either) {
    put_in_place(host(0));
}

/* Memory that is gone is found at the first run of packets that cannot be read: the others leave as
 * packets of zeroes, and do not have to be repeated one by one. */
TEST(a_large_put_of_memory_that_is_gone_ends_soon) {
    struct user a, b;
    ptl_event_t event;
    ptl_handle_md_t md;
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(0)}, true), 0);
    CHECK_EQ(user_open(&a, LIVE_PIDS, (struct live_udp_settings){.interface = host(0)}, true), 0);
    uint8_t *from = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(from != MAP_FAILED);
    const ptl_md_t all = {.start = from,
                          .length = MEMORY,
                          .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_SEND,
                          .eq_handle = a.eq,
                          .ct_handle = a.acked};
    CHECK_EQ(PtlMDBind(a.ni, &all, &md), PTL_OK);
    CHECK_EQ(munmap(from + 8192, MEMORY - 8192), 0);
    CHECK_EQ(PtlPut(md, 0, MEMORY, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0), PTL_OK);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK_EQ(event.ni_fail_type, PTL_NI_SEGV);
    }
    CHECK(counts_of(&a).retransmitted < MEMORY / 4096 / 4);
    CHECK_EQ(munmap(from, 8192), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* ---- threads that are cancelled ---- */

static int came_back;

/* Cancelled before its calls, it ends behind them. */
static void *call_and_end(void *argument) {
    struct user *u = argument;
    ptl_ct_event_t event;
    const ptl_size_t most = UINT64_MAX;
    unsigned int which;
    enter(u);
    CHECK_EQ(pthread_cancel(pthread_self()), 0);
    CHECK_EQ(PtlCTPoll(&u->acked, &most, 1, 5, &event, &which), PTL_CT_NONE_REACHED);
    CHECK_EQ(put(u, u->self, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTGet(u->acked, &event), PTL_OK);
    came_back++;
    pthread_testcancel();
    return NULL;
}

TEST(a_thread_that_is_cancelled_leaves_the_card_to_others) {
    struct user a, b;
    pthread_t thread;
    void *result;
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, true), 0);
    CHECK_EQ(user_open(&a, LIVE_PIDS, (struct live_udp_settings){.interface = host(0)}, true), 0);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(pthread_create(&thread, NULL, call_and_end, &a), 0);
        CHECK_EQ(pthread_join(thread, &result), 0);
        CHECK(result == PTHREAD_CANCELED);
        CHECK_EQ(came_back, i);
    }
    enter(&a);
    CHECK_EQ(put(&a, b.self, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 4, &(ptl_ct_event_t){0, 0}), PTL_OK);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(faults_are_named_exactly) {
    static const char *const wrong[] = {"",          "loss=0.1",  "1",        "1:loss",
                                        "1:loss=2",  "1:loss=x",  "1:less=0", "1:loss=0.1;",
                                        "1:loss=-1", "1:loss=1,", "x:loss=0"};
    struct live_faults f;
    CHECK_EQ(live_faults_parse(&f, NULL, &err), 0);
    CHECK(!f.on);
    CHECK_EQ(live_faults_parse(&f, "3:corrupt=1,loss=0.25", &err), 0);
    CHECK(f.on && f.share[FAULT_LOSS] == 0.25 && f.share[FAULT_CORRUPT] == 1);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        if (i != 2) /* a seed without faults is none */
            CHECK_EQ(live_faults_parse(&f, wrong[i], &err), SPIN_EARG);
}

TEST(an_interface_that_is_not_there_is_refused) {
    struct user a;
    open_folder();
    CHECK(user_open(&a, 1, (struct live_udp_settings){.interface = "nosuch0"}, false) != 0);
    CHECK(strstr(err.text, "nosuch0"));
    free(a.memory);
    free(a.source);
    live_folder_remove(&folder);
}

/* ---- strangers ---- */

static int socket_at(const char *address, uint32_t port) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    CHECK(inet_pton(AF_INET, address, &at.sin_addr) == 1);
    CHECK(fd >= 0 && bind(fd, (const struct sockaddr *)(const void *)&at, sizeof at) == 0);
    return fd;
}

/* The checksum by definition: each word for itself. */
static uint64_t plain_sum(const struct live_sum *sum, const uint8_t *part[2],
                          const uint32_t *bytes) {
    uint64_t lane[8] = {0}, all = (uint64_t)bytes[0] << 32 | bytes[1];
    uint32_t at = 0;
    for (uint32_t i = 0; i < 2; i++)
        for (uint32_t done = 0; done < (bytes[i] + 63) / 64 * 64; done += 8) {
            uint64_t word = 0, key = sum->key[at];
            if (done < bytes[i])
                memcpy(&word, part[i] + done, bytes[i] - done < 8 ? bytes[i] - done : 8);
            uint32_t low = (uint32_t)word + (uint32_t)key;
            uint32_t high = (uint32_t)(word >> 32) + (uint32_t)(key >> 32);
            lane[at % 8] += (uint64_t)low * high + word;
            at = (at + 1) % LIVE_SUM_WORDS;
            for (uint32_t k = 0; k < 8 && !at; k++)
                lane[k] = (lane[k] ^ lane[k] >> 32) * 0x9e3779b97f4a7c15ull;
        }
    for (uint32_t i = 0; i < 8; i++) {
        all = (all ^ lane[i]) * 0x9e3779b97f4a7c15ull;
        all ^= all >> 32;
    }
    return rng_mix(all);
}

TEST(checksums_are_as_defined_and_find_every_changed_bit) {
    static uint8_t bytes[10000];
    const uint8_t key[LIVE_KEY_BYTES] = {3, 1, 4, 1, 5}, *part[2] = {bytes, bytes + 200};
    struct rng rng = rng_seeded(9);
    struct live_sum sum;
    live_sum_init(&sum, key);
    for (uint32_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)rng_below(&rng, 256);
    for (uint32_t i = 0; i < 500; i++) {
        uint32_t length[2] = {(uint32_t)rng_below(&rng, 169), (uint32_t)rng_below(&rng, 300)};
        length[1] = i % 10 ? length[1] : (uint32_t)rng_below(&rng, 9000);
        uint64_t right = plain_sum(&sum, part, length);
        for (uint32_t way = 0; live_sum_way(way); way++) {
            sum.add = live_sum_way(way);
            CHECK_EQ(live_sum_of(&sum, part[0], length[0], part[1], length[1]), right);
        }
        if (!length[i % 2])
            continue;
        uint8_t *changed = &bytes[200 * (i % 2) + rng_below(&rng, length[i % 2])];
        uint8_t bit = (uint8_t)(1u << rng_below(&rng, 8));
        *changed ^= bit;
        CHECK(live_sum_of(&sum, part[0], length[0], part[1], length[1]) != right);
        *changed ^= bit;
    }
}

static void throw_at(int fd, const struct user *u, const uint8_t *bytes, size_t length) {
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_port = htons((uint16_t)(LIVE_UDP_PORT + u->self.phys.pid)),
                                   .sin_addr.s_addr = htonl(u->self.phys.nid)};
    CHECK_EQ(sendto(fd, bytes, length, 0, (const struct sockaddr *)(const void *)&to, sizeof to),
             (ssize_t)length);
}

/* A datagram as a process of the job with that address would send it: a probe. */
static uint32_t forge(uint8_t *bytes, const struct user *to, struct nic_address from) {
    struct nic_packet probe = {.kind = NIC_PROBE,
                               .source = from,
                               .target = {to->self.phys.nid, to->self.phys.pid},
                               .stream = 5};
    uint32_t length = wire_encode(&probe, bytes + LIVE_UDP_HEAD_BYTES);
    struct live_sum key;
    live_sum_init(&key, folder.key);
    uint64_t sum = live_sum_of(&key, bytes + LIVE_UDP_HEAD_BYTES, length, NULL, 0);
    memcpy(bytes, folder.key, LIVE_KEY_BYTES);
    memcpy(bytes + LIVE_KEY_BYTES, &sum, sizeof sum);
    return LIVE_UDP_HEAD_BYTES + length;
}

TEST(strangers_and_liars_are_counted_and_harm_nothing) {
    struct user a, b;
    uint8_t bytes[300];
    struct rng rng = rng_seeded(3);
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, false), 0);
    int stranger = socket_at(host(3), LIVE_UDP_PORT + 7);
    CHECK_EQ(inet_addr(host(3)) != INADDR_NONE, 1);
    const struct nic_address self = {ntohl(inet_addr(host(3))), 7};
    /* Without the key: noise, less than a key, a good packet with one bit of the key wrong. */
    for (uint32_t i = 0; i < 50; i++) {
        uint32_t length = rng_below(&rng, sizeof bytes);
        for (uint32_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)rng_u64(&rng);
        throw_at(stranger, &b, bytes, length);
    }
    throw_at(stranger, &b, folder.key, LIVE_KEY_BYTES - 1);
    uint32_t length = forge(bytes, &b, self);
    bytes[15] ^= 1;
    throw_at(stranger, &b, bytes, length);
    wait_for_counts(&b, 0, 52);
    /* With it: every shorter length, a changed bit, another's address or port, another target. */
    length = forge(bytes, &b, self);
    for (uint32_t i = LIVE_KEY_BYTES; i < length; i++)
        throw_at(stranger, &b, bytes, i);
    bytes[length - 1] ^= 4;
    throw_at(stranger, &b, bytes, length);
    length = forge(bytes, &b, (struct nic_address){self.nid, 8});
    throw_at(stranger, &b, bytes, length);
    length = forge(bytes, &b, (struct nic_address){self.nid + 1, 7});
    throw_at(stranger, &b, bytes, length);
    struct user other = b;
    other.self.phys.pid = 9;
    length = forge(bytes, &other, self);
    throw_at(stranger, &b, bytes, length);
    wait_for_counts(&b, length - LIVE_KEY_BYTES + 4, 52);
    /* None of them is a peer; a good one is, and is answered. */
    length = forge(bytes, &b, self);
    throw_at(stranger, &b, bytes, length);
    CHECK_SOON(recv(stranger, bytes, sizeof bytes, MSG_DONTWAIT) >= 0, live_card_poll(b.card));
    CHECK_EQ(nic_counts(live_card_nic(b.card))->receipts, 1);
    CHECK(memcmp(bytes, folder.key, LIVE_KEY_BYTES) == 0);
    close(stranger);
    user_close(&b);
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, true), 0);
    CHECK_EQ(user_open(&a, 1, (struct live_udp_settings){.interface = host(0)}, true), 0);
    exchange(&a, &b, 1, 25, 10000);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* Several packets that are one, of 65 bytes, as a process of the job at that address sends them. */
static uint32_t forge_joined(uint8_t *bytes, const struct user *to, struct nic_address from,
                             uint32_t summed) {
    const uint32_t data = 65;
    uint8_t *body = bytes + LIVE_UDP_HEAD_BYTES;
    struct nic_packet run = {.kind = NIC_DATA,
                             .source = from,
                             .target = {to->self.phys.nid, to->self.phys.pid},
                             .stream = 5,
                             .sequence = 1,
                             .offset = 64,
                             .bytes = data};
    wire_encode_joined(&run, 64, body);
    memset(body + WIRE_JOINED_BYTES, 7, data);
    struct live_sum key;
    live_sum_init(&key, folder.key);
    uint64_t sum = live_sum_of(&key, body, WIRE_JOINED_BYTES, body + WIRE_JOINED_BYTES, summed);
    memcpy(bytes, folder.key, LIVE_KEY_BYTES);
    memcpy(bytes + LIVE_KEY_BYTES, &sum, sizeof sum);
    return LIVE_UDP_HEAD_BYTES + WIRE_JOINED_BYTES + data;
}

/* From elsewhere all of it is summed, from the same machine the header: every changed bit of what
 * is summed is found, and nothing passes with the other's sum. */
TEST(joined_packets_have_the_checksum_of_where_they_come_from) {
    struct user b;
    uint8_t bytes[LIVE_UDP_HEAD_BYTES + WIRE_JOINED_BYTES + 65];
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, false), 0);
    uint32_t wrong = 0;
    for (uint32_t here = 0; here < 2; here++) {
        const char *at = here ? host(1) : host(3);
        const struct nic_address from = {ntohl(inet_addr(at)), 7};
        uint32_t summed = here ? 0 : 65;
        int fd = socket_at(at, LIVE_UDP_PORT + 7);
        uint32_t length = forge_joined(bytes, &b, from, summed);
        throw_at(fd, &b, bytes, length);
        wait_for_counts(&b, wrong, 0);
        for (uint32_t i = LIVE_UDP_HEAD_BYTES; i < length - (65 - summed); i++) {
            bytes[i] ^= 16;
            throw_at(fd, &b, bytes, length);
            bytes[i] ^= 16;
            wait_for_counts(&b, ++wrong, 0);
        }
        throw_at(fd, &b, bytes, forge_joined(bytes, &b, from, 65 - summed));
        wait_for_counts(&b, ++wrong, 0);
        close(fd);
    }
    user_close(&b);
    live_folder_remove(&folder);
}

/* However many there are, and whoever they say they are. */
TEST(a_flood_of_strangers_takes_no_memory) {
    struct user b;
    uint8_t bytes[1400];
    struct rng rng = rng_seeded(8);
    open_folder();
    CHECK_EQ(user_open(&b, 2, (struct live_udp_settings){.interface = host(1)}, false), 0);
    int stranger = socket_at(host(3), LIVE_UDP_PORT + 7);
    struct nic_address liar = {ntohl(inet_addr(host(3))), 7};
    size_t before = 0;
    for (uint32_t i = 0; i < 6000; i++) {
        uint32_t length = 100 + rng_below(&rng, sizeof bytes - 100);
        memset(bytes, (int)i, sizeof bytes);
        if (i % 2) { /* one with the key, which says that it is another */
            liar.pid = 8 + i % 1000;
            length = forge(bytes, &b, liar);
        }
        throw_at(stranger, &b, bytes, length);
        live_card_poll(b.card);
        /* The system throws away what it cannot keep: not more than it can. */
        CHECK_SOON(i < 100 + live_card_malformed(b.card) + live_card_strangers(b.card),
                   live_card_poll(b.card));
        if (i == 100)
            before = mallinfo2().uordblks;
    }
    wait_for_counts(&b, 3000, 3000);
    CHECK(mallinfo2().uordblks <= before + 4096); /* nothing per datagram */
    CHECK_EQ(nic_counts(live_card_nic(b.card))->receipts, 0);
    close(stranger);
    user_close(&b);
    live_folder_remove(&folder);
}

/* ---- authentication ---- */

static bool has_sodium(void) {
    struct live_auth auth;
    return live_auth_init(&auth, folder.key, &err) == 0;
}

static int refused(const struct user *u) {
    ptl_sr_value_t value = -1;
    enter(u);
    CHECK_EQ(PtlNIStatus(u->ni, PTL_SR_REFUSED_PACKETS, &value), PTL_OK);
    return value;
}

TEST(with_authentication_all_arrives_over_a_bad_network) {
    struct user a, b;
    const char *faults = "9:loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1";
    open_folder();
    if (!has_sodium())
        TEST_SKIP("no libsodium here");
    for (int bad = 0; bad < 2; bad++) {
        struct live_udp_settings udp = {
            .interface = host(1), .faults = bad ? faults : NULL, .retries = 40, .auth = true};
        CHECK_EQ(user_open(&b, 2, udp, true), 0);
        udp.interface = host(0);
        CHECK_EQ(user_open(&a, 1, udp, true), 0);
        exchange(&a, &b, 5, 40, bad ? MEMORY / 32 : MEMORY / 2);
        CHECK(bad ? refused(&b) > 0 : live_card_strangers(b.card) == 0);
        user_close(&a);
        user_close(&b);
    }
    live_folder_remove(&folder);
}

/* A put of one byte as a process of the job at that address would send it. */
static uint32_t forge_put(uint8_t *bytes, const struct user *to, struct nic_address from,
                          uint32_t stream, uint32_t sequence, const struct live_auth *auth) {
    uint8_t data = 0x5a;
    struct nic_packet packet = {
        .kind = NIC_DATA,
        .first = true,
        .last = true,
        .source = from,
        .target = {to->self.phys.nid, to->self.phys.pid},
        .stream = stream,
        .sequence = sequence,
        .ack_stream = UINT32_MAX,
        .message_number = sequence,
        .bytes = 1,
        .data = &data,
        .message = {.kind = NIC_PUT, .length = 1, .payload = 1, .pt_index = PT, .interface = 3}};
    uint32_t length = wire_encode(&packet, bytes + LIVE_UDP_HEAD_BYTES);
    memset(bytes, 0, LIVE_UDP_HEAD_BYTES);
    live_auth_tag(auth, bytes, bytes + LIVE_UDP_HEAD_BYTES, length);
    return LIVE_UDP_HEAD_BYTES + length;
}

/* Until so many were refused, and so many taken. */
static void expect(const struct user *u, int refusals, uint64_t taken) {
    const struct nic_counts *counts = nic_counts(live_card_nic(u->card));
    CHECK_SOON(refused(u) >= refusals && counts->received >= taken, live_card_poll(u->card));
    CHECK_EQ(refused(u), refusals);
    CHECK_EQ(counts->received, taken);
}

TEST(forged_and_repeated_datagrams_are_refused_and_counted) {
    struct user b;
    struct live_auth auth;
    uint8_t bytes[400];
    open_folder();
    if (live_auth_init(&auth, folder.key, &err))
        TEST_SKIP("no libsodium here");
    CHECK_EQ(
        user_open(&b, 2, (struct live_udp_settings){.interface = host(1), .auth = true}, false), 0);
    int peer = socket_at(host(3), LIVE_UDP_PORT + 7);
    const struct nic_address self = {ntohl(inet_addr(host(3))), 7};
    uint32_t length = forge_put(bytes, &b, self, 100, 0, &auth);
    for (uint32_t bit = 0; bit < 8 * length; bit += 3) { /* any bit changed, */
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
        throw_at(peer, &b, bytes, length);
        bytes[bit / 8] ^= (uint8_t)(1u << bit % 8);
    }
    for (uint32_t shorter = 0; shorter < length; shorter++) /* any part, */
        throw_at(peer, &b, bytes, shorter);
    uint32_t false_length = forge(bytes, &b, self); /* the key itself */
    throw_at(peer, &b, bytes, false_length);
    int count = (int)((8 * length + 2) / 3 + length + 1);
    expect(&b, count, 0);
    length = forge_put(bytes, &b, self, 100, 0, &auth); /* and one that is right */
    throw_at(peer, &b, bytes, length);
    expect(&b, count, 1);
    for (int i = 0; i < 5; i++) /* again */
        throw_at(peer, &b, bytes, length);
    length = forge_put(bytes, &b, self, 99, 0, &auth); /* of an earlier life */
    throw_at(peer, &b, bytes, length);
    expect(&b, count + 6, 1);
    close(peer);
    user_close(&b);
    live_folder_remove(&folder);
}

/* Nobody has the one's port; the other's owner says nothing. */
TEST(who_is_silent_is_given_up_later_than_who_has_ended) {
    const struct live_udp_settings settings = {
        .interface = host(0), .retries = 1, .silent_retries = 4};
    const uint32_t nid = ntohl(inet_addr(host(3)));
    const ptl_process_t nobody = {.phys = {nid, 8}}, silent = {.phys = {nid, 7}};
    struct user a;
    ptl_ct_event_t count;
    open_folder();
    int peer = socket_at(host(3), LIVE_UDP_PORT + 7);
    CHECK_EQ(user_open(&a, 1, settings, true), 0);
    CHECK_EQ(put(&a, nobody, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 1);
    CHECK_EQ(counts_of(&a).retransmitted, 1);
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    CHECK_EQ(put(&a, silent, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 1);
    CHECK_EQ(counts_of(&a).retransmitted, 1 + 4);
    close(peer);
    user_close(&a);
    live_folder_remove(&folder);
}

/* ---- processes ---- */

/* It ends with its parent, and does not outlast a test that fails. */
static pid_t fork_child(void) {
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(300);
    }
    return child;
}

/* Returns when it can be sent to. */
static pid_t serve_in_child(const char *interface, uint32_t pid) {
    int up[2];
    char word;
    CHECK_EQ(pipe(up), 0);
    pid_t child = fork_child();
    if (!child) {
        struct user u;
        if (user_open(&u, pid, (struct live_udp_settings){.interface = interface}, true) ||
            write(up[1], "x", 1) != 1)
            _exit(1);
        for (;;)
            pause();
    }
    close(up[1]);
    CHECK_EQ(read(up[0], &word, 1), 1);
    close(up[0]);
    return child;
}

TEST(a_peer_that_is_killed_is_undeliverable_and_comes_back) {
    struct user a;
    ptl_ct_event_t count;
    ptl_event_t event;
    NEED_FORK;
    open_folder();
    (void)host(0); /* before there are children */
    pid_t child = serve_in_child(host(1), 2);
    CHECK_EQ(user_open(&a, 1, (struct live_udp_settings){.interface = host(0), .retries = 7}, true),
             0);
    const ptl_process_t to = {.phys = {.nid = ntohl(inet_addr(host(1))), .pid = 2}};
    CHECK_EQ(put(&a, to, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 0);
    kill(child, SIGSTOP); /* so that much is under way */
    waitpid(child, NULL, WUNTRACED);
    for (int i = 0; i < 10; i++)
        CHECK_EQ(put(&a, to, 0, MEMORY / 2), PTL_OK);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK_EQ(event.ni_fail_type, PTL_NI_UNDELIVERABLE);
    }
    CHECK_EQ(PtlCTGet(a.acked, &count), PTL_OK);
    CHECK_EQ(count.success, 1);
    CHECK_EQ(count.failure, 10);
    /* A new life under the same name. */
    child = serve_in_child(host(1), 2);
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    CHECK_EQ(put(&a, to, 0, MEMORY / 2), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    user_close(&a);
    live_folder_remove(&folder);
}

#define RANKS 8 /* at most */
#define PART  (MEMORY / 16)

static uint8_t part_byte(uint32_t rank, uint32_t at) {
    return (uint8_t)(rank * 61 + at * 7 + (at >> 8));
}

/* Each puts a part of its own into every other; whoever has all checks them. */
static int all_to_all(uint32_t rank, uint32_t ranks, const char *faults, int up, int go) {
    struct user u;
    char word;
    ptl_ct_event_t event;
    if (user_open(&u, rank,
                  (struct live_udp_settings){.interface = host(0), .faults = faults, .retries = 40},
                  true))
        return 1;
    if (write(up, "x", 1) != 1 || read(go, &word, 1) != 0) /* all are there when it is closed */
        return 6;
    for (uint32_t i = 0; i < PART; i++)
        u.source[rank * PART + i] = part_byte(rank, i);
    for (uint32_t to = 0; to < ranks; to++)
        if (put(&u, (ptl_process_t){.phys = {u.self.phys.nid, to}}, rank * PART, PART))
            return 2;
    if (PtlCTWait(u.arrived, ranks, &event) || event.failure)
        return 3;
    if (PtlCTWait(u.acked, ranks, &event) || event.failure)
        return 4;
    for (uint32_t i = 0; i < ranks * PART; i++)
        if (u.memory[i] != part_byte(i / PART, i % PART))
            return 5;
    live_card_leave(u.card, 2000 * LIVE_MS);
    return 0;
}

static void run_ranks(uint32_t ranks, const char *faults) {
    pid_t child[RANKS];
    int status, up[2], go[2];
    char word;
    (void)host(0);
    CHECK(pipe(up) == 0 && pipe(go) == 0);
    for (uint32_t rank = 0; rank < ranks; rank++)
        if (!(child[rank] = fork_child())) {
            close(go[1]);
            _exit(all_to_all(rank, ranks, faults, up[1], go[0]));
        }
    for (uint32_t rank = 0; rank < ranks; rank++)
        CHECK_EQ(read(up[0], &word, 1), 1);
    close(go[1]);
    close(go[0]);
    close(up[0]);
    close(up[1]);
    for (uint32_t rank = 0; rank < ranks; rank++) {
        CHECK_EQ(waitpid(child[rank], &status, 0), child[rank]);
        CHECK_EQ(status, 0);
    }
}

TEST(processes_exchange_everything_over_a_bad_network) {
    char faults[80];
    NEED_FORK;
    open_folder();
    run_ranks(4, NULL);
    for (uint32_t ranks = 2; ranks <= RANKS; ranks *= 2) {
        snprintf(faults, sizeof faults, "%u:loss=0.1,duplicate=0.1,reorder=0.1,corrupt=0.1", ranks);
        run_ranks(ranks, faults);
    }
    live_folder_remove(&folder);
}

/* ---- machines ---- */

static int near_end(pid_t far, int ready, int there) {
    char command[200], word;
    struct user u;
    ptl_ct_event_t event;
    snprintf(command, sizeof command,
             "ip link add near type veth peer name far netns %d && "
             "ip addr add 10.77.0.1/24 dev near && ip link set near up",
             (int)far);
    if (system(command) || write(ready, "x", 1) != 1 || read(there, &word, 1) != 1)
        return 11;
    if (user_open(&u, 1, (struct live_udp_settings){.interface = "near", .retries = 40}, true))
        return 12;
    if (u.self.phys.nid != 0x0a4d0001)
        return 13;
    const ptl_process_t to = {.phys = {.nid = 0x0a4d0002, .pid = 2}};
    for (uint32_t i = 0; i < MEMORY; i++)
        u.source[i] = (uint8_t)(i * 31 + (i >> 8));
    if (put(&u, to, 0, MEMORY) || PtlCTWait(u.acked, 1, &event) || event.failure)
        return 14;
    if (nic_counts(live_card_nic(u.card))->sent <
        MEMORY / 1472) /* each fits into an Ethernet frame */
        return 17;
    memset(u.source, 0, MEMORY);
    if (PtlGet(u.md, 0, MEMORY, to, PT, 0, 0, NULL) || PtlCTWait(u.acked, 2, &event) ||
        event.failure)
        return 15;
    for (uint32_t i = 0; i < MEMORY; i++)
        if (u.source[i] != (uint8_t)(i * 31 + (i >> 8)))
            return 16;
    return 0;
}

static int two_machines(void) {
    int ready[2], done[2];
    if (unshare(CLONE_NEWNET) || pipe(ready) || pipe(done))
        return 77;
    pid_t far = fork_child();
    if (!far) {
        struct user u;
        if (unshare(CLONE_NEWNET) || write(done[1], "x", 1) != 1)
            _exit(1);
        close(ready[1]);
        char word;
        if (read(ready[0], &word, 1) != 1 ||
            system("ip addr add 10.77.0.2/24 dev far && ip link set far up") ||
            user_open(&u, 2, (struct live_udp_settings){.retries = 40}, true) ||
            write(done[1], "x", 1) != 1)
            _exit(2);
        for (;;)
            pause();
    }
    char word;
    int code = read(done[0], &word, 1) == 1 ? near_end(far, ready[1], done[0]) : 10;
    kill(far, SIGKILL);
    waitpid(far, NULL, 0);
    return code;
}

TEST(two_network_namespaces) {
    int status;
    NEED_FORK;
    if (geteuid() || system("ip -V >/dev/null 2>&1"))
        TEST_SKIP("needs root and the command ip");
    open_folder();
    for (int i = 0; i < 2; i++) {
        transport = i ? LIVE_AUTO : LIVE_UDP;
        pid_t child = fork_child();
        if (!child)
            _exit(two_machines());
        CHECK_EQ(waitpid(child, &status, 0), child);
        if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
            TEST_SKIP("no network namespaces here");
        CHECK_EQ(status, 0);
    }
    transport = LIVE_UDP;
    live_folder_remove(&folder);
}

TEST_MAIN
