/* The live card: rings, names, two cards over shared memory, peers that are killed and come back,
 * peers that lie, several threads at once. */
#include "lib/live_user.h"
#include "lib/need_fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/rng.h"
#include "live/live_box.h"
#include "live/live_card_private.h"
#include "live/live_clock.h"
#include "live/live_job.h"
#include "live/live_pmi.h"
#include "nic/nic.h"

/* ---- the lock ---- */

enum { LOCKERS = 4, LOCK_TIMES = 5000, LONG_EVERY = 1000 };

struct locked {
    struct live_lock lock;
    uint64_t count; /* plain: by who has the lock */
};

/* Now and then for so long that the others fall asleep. */
static void *count_with_lock(void *context) {
    struct locked *l = context;
    for (uint32_t i = 0; i < LOCK_TIMES; i++) {
        live_lock_take(&l->lock);
        uint64_t count = l->count;
        if (i % LONG_EVERY == 0)
            usleep(200);
        l->count = count + 1;
        live_lock_give(&l->lock);
    }
    return NULL;
}

TEST(one_at_a_time_has_the_lock_and_who_sleeps_gets_it) {
    struct locked l = {.count = 0};
    pthread_t thread[LOCKERS];
    for (uint32_t i = 0; i < LOCKERS; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, count_with_lock, &l), 0);
    for (uint32_t i = 0; i < LOCKERS; i++)
        pthread_join(thread[i], NULL);
    CHECK_EQ(l.count, LOCKERS * LOCK_TIMES);
    CHECK(live_lock_try(&l.lock));
    CHECK(!live_lock_is_wanted(&l.lock));
}

/* ---- the ring ---- */

TEST(ring_carries_records_of_any_length) {
    struct live_ring *ring = aligned_alloc(64, sizeof *ring);
    struct live_ring_out out = {.ring = ring};
    struct live_ring_in in = {.ring = ring};
    struct rng rng;
    rng = rng_seeded(1);
    memset(ring, 0, sizeof *ring);
    uint64_t written = 0, read = 0;
    uint32_t length[2048];
    for (int step = 0; step < 200000; step++) {
        if (rng_below(&rng, 3)) { /* more is written than read: it is full most of the time */
            uint32_t bytes = 64 + (uint32_t)rng_below(&rng, 4200);
            uint8_t *at = ring_reserve(&out, bytes);
            if (!at)
                continue;
            memset(at + 8, (int)(written & 255), bytes - 8);
            length[written++ % 2048] = bytes;
            ring_commit(&out, bytes, 0xabcd000000000000ull);
            continue;
        }
        uint64_t word = ring_peek(&in);
        uint32_t at = in.head % RING_LINES;
        if ((uint32_t)word == RING_SKIP) {
            ring_consume(&in, RING_LINES - at);
        } else if (word) {
            const uint8_t *record = (const uint8_t *)&ring->line[at];
            CHECK_EQ((uint32_t)word, length[read % 2048]);
            CHECK_EQ(word >> 48, 0xabcd);
            CHECK_EQ(record[8], read & 255);
            CHECK_EQ(record[(uint32_t)word - 1], read & 255);
            read++;
            ring_consume(&in, ring_lines((uint32_t)word));
        }
        ring->head = in.head;
    }
    CHECK(read > 10000);
    free(ring);
}

/* ---- names ---- */

TEST(pids_are_given_once) {
    struct live_box a, b, c;
    open_folder();
    CHECK_EQ(box_make(&a, &folder, 1, LIVE_PIDS, &err), 0);
    CHECK_EQ(box_make(&b, &folder, 1, LIVE_PIDS, &err), 0);
    CHECK(a.header->pid != b.header->pid);
    CHECK_EQ(box_make(&c, &folder, 1, a.header->pid, &err), SPIN_ELIMIT);
    uint32_t pid = a.header->pid;
    box_free(&a);
    CHECK_EQ(box_make(&c, &folder, 1, pid, &err), 0);
    box_free(&b);
    box_free(&c);
    live_folder_remove(&folder);
}

TEST(what_a_killed_process_leaves_is_removed) {
    struct live_box box;
    struct live_box_view view;
    open_folder();
    pid_t child = fork();
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        box_make(&box, &folder, 1, 5, NULL);
        pause();
    }
    const struct nic_address address = {1, 5};
    CHECK_SOON(box_open(&view, &folder, address, 6), );
    CHECK(!box_ended(&view));
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK(box_ended(&view));
    uint64_t life = view.life;
    box_close(&view);
    CHECK(!box_open(&view, &folder, address, 6));
    CHECK_EQ(faccessat(folder.fd, "1.5", F_OK, 0), 0);
    CHECK_EQ(box_make(&box, &folder, 1, LIVE_PIDS, &err), 0); /* whoever is next */
    CHECK(faccessat(folder.fd, "1.5", F_OK, 0) != 0);
    box_free(&box);
    CHECK_EQ(box_make(&box, &folder, 1, 5, &err), 0);
    CHECK(box.header->life != life);
    box_free(&box);
    live_folder_remove(&folder);
}

TEST(only_this_user_can_open_the_folder) {
    struct stat is;
    open_folder();
    CHECK_EQ(stat(folder.path, &is), 0);
    CHECK_EQ(is.st_mode & 0777, 0700);
    char key[300];
    snprintf(key, sizeof key, "%s/key", folder.path);
    CHECK_EQ(stat(key, &is), 0);
    CHECK_EQ(is.st_mode & 0777, 0600);
    live_folder_remove(&folder);
    CHECK(stat(folder.path, &is) != 0);
}

/* ---- a process on a card ---- */

static void *echo(void *context) {
    struct user *u = context;
    ptl_ct_event_t event;
    enter(u);
    for (uint64_t i = 1; i <= 100; i++)
        if (PtlCTWait(u->arrived, i, &event) || event.failure || put(u, 1, 0, i))
            return "failed";
    return NULL;
}

TEST(two_cards_exchange_messages_of_all_sizes) {
    struct user a, b;
    ptl_ct_event_t event;
    struct rng rng;
    rng = rng_seeded(7);
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(user_open(&a, 1, true), 0);
    uint64_t sent = 0;
    for (uint32_t i = 0; i < 60; i++) {
        uint64_t bytes = i < 20 ? i : rng_below(&rng, i < 50 ? 20000 : MEMORY / 2),
                 from = rng_below(&rng, MEMORY / 2);
        for (uint64_t k = 0; k < bytes; k++)
            a.source[from + k] = (uint8_t)rng_u64(&rng);
        CHECK_EQ(put(&a, 2, from, bytes), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, ++sent, &event), PTL_OK);
        CHECK_EQ(event.failure, 0);
        look_at(&b, &a);
        CHECK(memcmp(a.source + from, b.memory + from, bytes) == 0);
        look_at(&b, &a); /* and the next put comes after this look */
    }
    memcpy(b.memory, a.source, MEMORY);
    memset(a.source, 0, MEMORY);
    look_at(&b, &a);
    CHECK_EQ(PtlGet(a.md, 0, MEMORY, at(2), 3, 0, 0, NULL), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, ++sent, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(b.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* The same put each time: what it met before must not be taken for what it meets now. */
TEST(a_put_meets_what_is_there_when_it_comes) {
    struct user a, b;
    ptl_ct_event_t event;
    uint64_t other[2] = {0}, acks = 0, fails = 0;
    ptl_handle_le_t le[2];
    ptl_pt_index_t pt;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(PtlPTAlloc(b.ni, 0, PTL_EQ_NONE, 5, &pt), PTL_OK);
    CHECK_EQ(user_open(&a, 1, true), 0);
    for (uint64_t round = 0; round < 12; round++) {
        uint32_t which = round / 3 % 2;
        enter(&b);
        if (round % 3 == 0) {
            const ptl_le_t entry = {.start = &other[which],
                                    .length = 8,
                                    .ct_handle = PTL_CT_NONE,
                                    .uid = PTL_UID_ANY,
                                    .options = PTL_LE_OP_PUT};
            if (round)
                CHECK_EQ(PtlLEUnlink(le[1 - which]), PTL_OK);
            CHECK_EQ(PtlLEAppend(b.ni, 5, &entry, PTL_PRIORITY_LIST, NULL, &le[which]), PTL_OK);
        }
        if (round % 6 == 5)
            CHECK_EQ(PtlPTDisable(b.ni, 5), PTL_OK);
        enter(&a);
        uint64_t value = 100 + round;
        memcpy(a.source, &value, sizeof value);
        CHECK_EQ(PtlPut(a.md, 0, 8, PTL_CT_ACK_REQ, at(2), 5, 0, 0, NULL, 0), PTL_OK);
        fails += round % 6 == 5;
        acks += round % 6 != 5;
        do
            CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
        while (event.success + event.failure < acks + fails);
        CHECK_EQ(event.failure, fails);
        look_at(&b, &a);
        CHECK_EQ(other[which], round % 6 == 5 ? value - 1 : value);
        enter(&b);
        CHECK_EQ(PtlPTEnable(b.ni, 5), PTL_OK);
    }
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(b.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* Nobody but the calls looks what has come. */
TEST(an_acknowledgement_that_has_come_holds_nothing_back) {
    struct user a, b;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&b, 2, false), 0);
    CHECK_EQ(user_open(&a, 1, false), 0);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK); /* opens the lanes */
    do {
        look_at(&b, &a);
        CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
    } while (!event.success);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
    CHECK_EQ(PtlMDRelease(a.md), PTL_IN_USE);
    enter(&b);
    CHECK_EQ(PtlCTWait(b.arrived, 2, &event), PTL_OK);
    enter(&a);
    CHECK_EQ(PtlMDRelease(a.md), PTL_OK);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(two_threads_play_ping_pong) {
    struct user a, b;
    pthread_t thread;
    ptl_ct_event_t event;
    void *wrong;
    open_folder();
    CHECK_EQ(user_open(&b, 2, false), 0);
    CHECK_EQ(user_open(&a, 1, false), 0);
    CHECK_EQ(pthread_create(&thread, NULL, echo, &b), 0);
    for (uint64_t i = 1; i <= 100; i++) {
        CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
        CHECK_EQ(PtlCTWait(a.arrived, i, &event), PTL_OK);
        CHECK_EQ(event.failure, 0);
    }
    pthread_join(thread, &wrong);
    CHECK(!wrong);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* ---- threads of one process ---- */

static void *send_many(void *context) {
    struct user *u = context;
    enter(u);
    for (int i = 0; i < 500; i++)
        if (put(u, 2, (uint64_t)(i % 16) * 64, 64))
            return "failed";
    return NULL;
}

static void *wait_for_all(void *context) {
    struct user *u = context;
    ptl_ct_event_t event;
    enter(u);
    return PtlCTWait(u->acked, 2000, &event) || event.failure ? "failed" : NULL;
}

TEST(threads_send_and_wait_at_once) {
    struct user a, b;
    pthread_t sender[4], waiter[3];
    void *wrong;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(user_open(&a, 1, true), 0);
    for (int i = 0; i < 3; i++)
        CHECK_EQ(pthread_create(&waiter[i], NULL, wait_for_all, &a), 0);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(pthread_create(&sender[i], NULL, send_many, &a), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(sender[i], &wrong);
        CHECK(!wrong);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(waiter[i], &wrong);
        CHECK(!wrong);
    }
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

static void *wait_for_ever(void *context) {
    struct user *u = context;
    ptl_ct_event_t event;
    enter(u);
    return PtlCTWait(u->arrived, 1, &event) == PTL_INTERRUPTED ? NULL : "not interrupted";
}

static bool is_in_a_call(struct live_card *card) {
    const struct portals_process *process = live_card_process(card);
    process->host->lock(process->context);
    bool called = process->call == PORTALS_CALL_PtlCTWait;
    process->host->unlock(process->context);
    return called;
}

/* Who reads counters and looks for events needs nothing of who drives the card. */
TEST(counters_and_empty_queues_are_read_without_the_lock) {
    struct user a;
    ptl_ct_event_t event;
    ptl_event_t full;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    open_folder();
    CHECK_EQ(user_open(&a, 1, false), 0);
    CHECK_EQ(PtlEQAlloc(a.ni, 4, &eq), PTL_OK);
    CHECK_EQ(PtlCTAlloc(a.ni, &ct), PTL_OK);
    CHECK_EQ(PtlCTInc(ct, (ptl_ct_event_t){7, 0}), PTL_OK);
    CHECK_EQ(PtlCTInc(ct, (ptl_ct_event_t){0, 2}), PTL_OK);
    const struct portals_process *process = live_card_process(a.card);
    process->host->lock(process->context); /* another would wait for it for ever */
    CHECK_EQ(PtlCTGet(ct, &event), PTL_OK);
    CHECK_EQ(event.success, 7);
    CHECK_EQ(event.failure, 2);
    CHECK_EQ(PtlEQGet(eq, &full), PTL_EQ_EMPTY);
    process->host->unlock(process->context);
    CHECK_EQ(PtlCTSet(ct, (ptl_ct_event_t){1, 0}), PTL_OK);
    CHECK_EQ(PtlCTGet(ct, &event), PTL_OK);
    CHECK_EQ(event.success, 1);
    CHECK_EQ(event.failure, 0);
    CHECK_EQ(PtlCTFree(ct), PTL_OK);
    CHECK_EQ(PtlCTGet(ct, &event), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQFree(eq), PTL_OK);
    CHECK_EQ(PtlEQGet(eq, &full), PTL_ARG_INVALID);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST(a_free_interrupts_who_sleeps) {
    struct user a;
    pthread_t waiter;
    void *wrong;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(pthread_create(&waiter, NULL, wait_for_ever, &a), 0);
    while (!is_in_a_call(a.card))
        usleep(1000);
    usleep(20000); /* it sleeps by then, or not: either is right */
    CHECK_EQ(PtlCTFree(a.arrived), PTL_OK);
    pthread_join(waiter, &wrong);
    CHECK(!wrong);
    user_close(&a);
    live_folder_remove(&folder);
}

static void *add_many(void *context) {
    _Atomic uint64_t *word = context;
    for (int i = 0; i < 20000; i++)
        atomic_fetch_add(word, 1);
    return NULL;
}

TEST(atomics_of_card_and_program_are_one_step) {
    struct user a;
    ptl_ct_event_t event;
    pthread_t adder;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK(a.limits.features & PTL_COHERENT_ATOMICS);
    uint64_t one = 1, sum;
    memcpy(a.source, &one, sizeof one);
    CHECK_EQ(pthread_create(&adder, NULL, add_many, a.memory), 0);
    for (int i = 0; i < 20000; i++)
        CHECK_EQ(
            PtlAtomic(a.md, 0, 8, PTL_CT_ACK_REQ, at(1), 3, 0, 0, NULL, 0, PTL_SUM, PTL_UINT64_T),
            PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 20000, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    pthread_join(adder, NULL);
    memcpy(&sum, a.memory, sizeof sum);
    CHECK_EQ(sum, 40000);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST(a_wait_ends_at_its_time) {
    struct user a;
    ptl_ct_event_t event;
    ptl_size_t one = 1;
    unsigned which;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    uint64_t began = live_now_ns();
    CHECK_EQ(PtlCTPoll(&a.arrived, &one, 1, 30, &event, &which), PTL_CT_NONE_REACHED);
    CHECK(live_now_ns() - began >= 30 * LIVE_MS);
    user_close(&a);
    live_folder_remove(&folder);
}

/* A thread that looks at a card all the time, as one in spin_barrier does. */
struct looker {
    struct live_card *card;
    _Atomic bool ends;
};

static void *look_all_the_time(void *context) {
    struct looker *l = context;
    while (!atomic_load(&l->ends))
        live_card_poll(l->card);
    return NULL;
}

TEST(a_pid_is_taken_while_another_thread_looks) {
    enum { TIMES = 300 };
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_process_t own;
    pthread_t thread;
    open_folder();
    const struct live_card_options options = {
        .folder = &folder, .nid = 1, .pid = LIVE_PIDS, .progress = true};
    CHECK_EQ(live_card_new(&card, &options, &err), 0);
    struct looker looker = {.card = card};
    CHECK_EQ(pthread_create(&thread, NULL, look_all_the_time, &looker), 0);
    portals_enter(live_card_process(card));
    CHECK_EQ(PtlInit(), PTL_OK);
    for (uint32_t pid = 0; pid < TIMES; pid++) {
        CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, (ptl_pid_t)pid,
                           NULL, NULL, &ni),
                 PTL_OK);
        CHECK_EQ(PtlGetPhysId(ni, &own), PTL_OK);
        CHECK_EQ(own.phys.pid, pid);
        CHECK_EQ(PtlNIFini(ni), PTL_OK);
    }
    atomic_store(&looker.ends, true);
    pthread_join(thread, NULL);
    PtlFini();
    live_card_free(card);
    live_folder_remove(&folder);
}

TEST(a_peer_begins_anew_while_another_thread_looks) {
    struct user a, b;
    pthread_t thread;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    struct looker looker = {.card = a.card};
    CHECK_EQ(pthread_create(&thread, NULL, look_all_the_time, &looker), 0);
    for (uint64_t life = 0; life < 20; life++) {
        CHECK_EQ(user_open(&b, 2, false), 0);
        CHECK_EQ(put(&b, 1, 0, 8), PTL_OK);
        CHECK_EQ(PtlCTWait(b.acked, 1, &(ptl_ct_event_t){0}), PTL_OK);
        user_close(&b);
    }
    atomic_store(&looker.ends, true);
    pthread_join(thread, NULL);
    enter(&a);
    user_close(&a);
    live_folder_remove(&folder);
}

/* ---- peers that end ---- */

TEST(a_peer_that_is_killed_is_undeliverable_and_comes_back) {
    struct user a;
    ptl_ct_event_t event;
    NEED_FORK;
    open_folder();
    for (int seed = 0; seed < 3; seed++) {
        pid_t child = serve_in_child(2);
        CHECK_EQ(user_open(&a, 1, true), 0);
        reach(&a);
        kill(child, seed ? SIGKILL : SIGSTOP); /* so that much is under way in the first case */
        for (int i = 0; i < 20; i++)
            CHECK_EQ(put(&a, 2, 0, MEMORY / 8), PTL_OK);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        /* Whatever did not arrive fails; nothing hangs. */
        do
            CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
        while (event.success + event.failure < 20);
        CHECK(event.failure > 0);
        /* A new life under the same name. */
        child = serve_in_child(2);
        reach(&a);
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        user_close(&a);
    }
    live_folder_remove(&folder);
}

/* Puts and gets of all sizes under way to a peer that is killed in the middle: each of them ends.
 */
TEST(whatever_is_under_way_to_a_killed_peer_ends) {
    struct user a;
    ptl_ct_event_t event;
    const char *seeds = getenv("OPENSPIN_SEEDS");
    NEED_FORK;
    open_folder();
    for (uint64_t seed = 0; seed < (seeds ? strtoull(seeds, NULL, 10) : 3); seed++) {
        struct rng rng = rng_seeded(seed);
        uint64_t started = 1, kill_ns = 1000 * rng_below(&rng, 20000);
        pid_t child = serve_in_child(2);
        snprintf(test_context, sizeof test_context, "seed %llu", (unsigned long long)seed);
        CHECK_EQ(user_open(&a, 1, true), 0);
        CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
        for (uint64_t began = live_now_ns(); live_now_ns() - began < kill_ns;) {
            uint64_t bytes = rng_below(&rng, rng_below(&rng, 2) ? 100 : MEMORY / 4);
            CHECK_EQ(rng_below(&rng, 2) ? put(&a, 2, 0, bytes)
                                        : PtlGet(a.md, 0, bytes, at(2), 3, 0, 0, NULL),
                     PTL_OK);
            started++;
            if (started % 16 == 0) /* not more than a few are under way */
                CHECK_EQ(PtlCTWait(a.acked, started - 8, &event), PTL_OK);
        }
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
        CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
        started++;
        uint64_t began = live_now_ns();
        do {
            CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
            CHECK(live_now_ns() - began < 200000 * LIVE_MS);
        } while (event.success + event.failure < started);
        CHECK_EQ(event.success + event.failure, started);
        CHECK(event.failure > 0);
        user_close(&a);
    }
    test_context[0] = 0;
    live_folder_remove(&folder);
}

TEST(nobody_there_is_undeliverable) {
    struct user a;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(put(&a, 9, 0, 8), PTL_OK);
    CHECK_EQ(PtlPut(a.md, 0, 8, PTL_CT_ACK_REQ, (ptl_process_t){.phys = {.nid = 77, .pid = 1}}, 3,
                    0, 0, NULL, 0),
             PTL_OK);
    do
        CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
    while (event.failure < 2);
    CHECK_EQ(event.success, 0);
    user_close(&a);
    live_folder_remove(&folder);
}

/* ---- peers that lie ---- */

TEST(nonsense_in_a_lane_is_counted_and_harms_nothing) {
    struct user a, b;
    struct liar liar;
    struct rng rng;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    for (uint64_t seed = 0; seed < 50; seed++) {
        rng = rng_seeded(seed);
        liar_open(&liar, 0, 0);
        struct live_ring_out *out = &liar.out;
        for (int record = 0; record < 40; record++) {
            uint32_t bytes = 64 + (uint32_t)rng_below(&rng, 400);
            uint8_t *to = ring_reserve(out, bytes);
            if (!to)
                break;
            for (uint32_t i = 8; i < bytes; i++)
                to[i] = (uint8_t)rng_u64(&rng);
            /* Mostly a right length and version, then anything. */
            ring_commit(out, bytes,
                        rng_below(&rng, 4) ? 0x0003000100000000ull : rng_u64(&rng) << 32);
            if (rng_below(&rng, 20) == 0)
                atomic_store(&out->ring->line[out->tail % RING_LINES].word, rng_u64(&rng));
            box_ring(liar.view.header);
        }
        liar_close(&liar);
    }
    CHECK_EQ(user_open(&a, 1, true), 0);
    a.source[0] = 42;
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK_EQ(b.memory[0], 42);
    CHECK(live_card_malformed(b.card) > 100);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* What a liar writes where its lane was closed for it is nothing to look at: the card would look
 * for ever. */
TEST(a_lane_that_is_closed_is_not_looked_at) {
    struct user b;
    struct liar liar;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    liar_open(&liar, 0, 0);
    atomic_store(&liar.view.lane->ring.line[0].word, 1); /* no packet is that short */
    box_ring(liar.view.header);
    CHECK_SOON(live_card_malformed(b.card), CHECK_EQ(PtlCTGet(b.arrived, &event), PTL_OK));
    CHECK_EQ(live_card_malformed(b.card), 1);
    atomic_store(&liar.view.lane->ring.line[0].word, 1);
    box_ring(liar.view.header);
    CHECK_SOON(atomic_load(&liar.view.header->bell) == 1, ); /* the progress thread sleeps */
    waits_for = "the lock of a card whose progress thread has nothing to do";
    CHECK_EQ(PtlCTGet(b.arrived, &event), PTL_OK);
    CHECK_EQ(live_card_malformed(b.card), 1);
    liar_close(&liar);
    user_close(&b);
    live_folder_remove(&folder);
}

/* Followers: whoever leads goes when its own event comes, and one of the others leads then. There
 * is no progress thread that would do it for them. */
static void *wait_for_value(void *context) {
    struct user *u = context;
    ptl_ct_event_t event;
    uint64_t value = atomic_fetch_add(&u->next_value, 1);
    enter(u);
    return PtlCTWait(u->acked, value, &event) || event.failure ? "failed" : NULL;
}

TEST(one_of_those_who_follow_leads_when_the_leader_goes) {
    struct user a;
    pthread_t waiter[4];
    void *wrong;
    open_folder();
    CHECK_EQ(user_open(&a, 1, false), 0);
    for (uint64_t round = 0; round < 100; round++) {
        snprintf(test_context, sizeof test_context, "round %llu", (unsigned long long)round);
        waits_for = "a counter that nobody drives the card for";
        atomic_store(&a.next_value, 4 * round + 1);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(pthread_create(&waiter[i], NULL, wait_for_value, &a), 0);
        for (int i = 0; i < 4; i++)
            CHECK_EQ(put(&a, 1, 0, 8), PTL_OK);
        for (int i = 0; i < 4; i++) {
            pthread_join(waiter[i], &wrong);
            CHECK(!wrong);
        }
    }
    test_context[0] = 0;
    user_close(&a);
    live_folder_remove(&folder);
}

/* ---- jobs ---- */

/* ---- the progress thread is rung for ---- */

static uint32_t rings;

static void count_ring(struct live_transport *t) {
    (void)t;
    rings++;
}

static void wait_ns(struct live_card *card, uint64_t ns) {
    live_lock_take(&card->lock);
    live_wait(card, live_now_ns() + ns);
    live_lock_give(&card->lock);
}

/* It is there in name only, as one that has no processor. */
TEST(a_progress_thread_is_rung_for_once_until_somebody_sleeps) {
    struct user a;
    open_folder();
    CHECK_EQ(user_open(&a, 1, false), 0);
    const struct live_transport_calls *own = a.card->transport->calls;
    struct live_transport_calls counted = *own;
    counted.ring = count_ring;
    a.card->transport->calls = &counted;
    rings = 0;
    wait_ns(a.card, 10);
    CHECK_EQ(rings, 0);
    atomic_store(&a.card->progress, PROGRESS_SLEEPS);
    for (int i = 0; i < 3; i++)
        wait_ns(a.card, 10); /* who has so little time does not sleep */
    CHECK_EQ(rings, 1);
    CHECK_EQ(atomic_load(&a.card->progress), PROGRESS_CALLED);
    /* One that sleeps does so on the bell that the thread may be about to use. Without a processor
     * its time is over before that. */
    for (int i = 0; i < 1000 && rings == 1; i++)
        wait_ns(a.card, 2 * LIVE_MS);
    CHECK_EQ(rings, 2);
    CHECK_EQ(atomic_load(&a.card->progress), PROGRESS_CALLED);
    atomic_store(&a.card->progress, PROGRESS_TICKS);
    a.card->transport->calls = own;
    user_close(&a);
    live_folder_remove(&folder);
}

/* b waits on a's processor, as a says. What a said is old when it runs elsewhere and does not wait,
 * so it says it again when it finds b asleep. */
TEST(a_sender_that_wakes_a_peer_says_where_it_runs) {
    struct user a, b;
    struct live_box_view of_a, of_b;
    cpu_set_t all, one;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(sched_getaffinity(0, sizeof all, &all), 0);
    CPU_ZERO(&one);
    CPU_SET((size_t)sched_getcpu(), &one);
    CHECK_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    uint32_t here = (uint32_t)sched_getcpu() + 1;
    CHECK_EQ(user_open(&b, 2, false), 0);
    CHECK_EQ(user_open(&a, 1, false), 0);
    CHECK(box_open(&of_a, &folder, (struct nic_address){1, 1}, 2));
    CHECK(box_open(&of_b, &folder, (struct nic_address){1, 2}, 1));
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK); /* claims its lane, */
    look_at(&b, &a);                    /* which is given, */
    look_at(&a, &b);                    /* and used */
    CHECK_EQ(PtlCTWait(b.arrived, 1, &event), PTL_OK);
    struct live_transport *from_b = b.card->transport;
    atomic_store(&of_a.header->processor, here);
    CHECK(from_b->calls->hinders(from_b));
    atomic_store(&of_a.header->processor, here + 1);
    CHECK(!from_b->calls->hinders(from_b));
    enter(&a);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK); /* b is awake */
    CHECK_EQ(atomic_load(&of_a.header->processor), here + 1);
    atomic_store(&of_b.header->bell, 1);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
    CHECK_EQ(atomic_load(&of_b.header->bell), 0);
    CHECK_EQ(atomic_load(&of_a.header->processor), here);
    CHECK_EQ(sched_setaffinity(0, sizeof all, &all), 0);
    box_close(&of_a);
    box_close(&of_b);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(a_barrier_waits_for_those_who_run) {
    open_folder();
    struct live_job *job = live_job_make(&folder, 3, &err);
    CHECK(job);
    uint32_t number = live_job_arrive(job, 0);
    CHECK_EQ(live_job_arrive(job, 1), number);
    CHECK(!live_job_passed(job, number));
    CHECK_EQ(live_job_arrive(job, 2), number);
    CHECK(live_job_passed(job, number));
    number = live_job_arrive(job, 1);
    live_job_leave(job, 1); /* it ends while it waits, and is not counted */
    CHECK_EQ(live_job_arrive(job, 0), number);
    CHECK(!live_job_passed(job, number));
    CHECK_EQ(live_job_arrive(job, 2), number);
    CHECK(live_job_passed(job, number));
    number = live_job_arrive(job, 0);
    CHECK(!live_job_passed(job, number));
    live_job_leave(job, 2); /* it ends before it comes */
    CHECK(live_job_passed(job, number));
    live_job_close(job);
    live_folder_remove(&folder);
}

static void say(int fd, struct live_pmi *pmi, uint32_t rank, const char *line) {
    int status;
    CHECK_EQ(write(fd, line, strlen(line)), (ssize_t)strlen(line));
    CHECK(live_pmi_serve(pmi, rank, &status));
}

static const char *hear(int fd) {
    static char text[2000];
    ssize_t got = recv(fd, text, sizeof text - 1, MSG_DONTWAIT);
    text[got < 0 ? 0 : got] = 0;
    return text;
}

TEST(a_pmi_server_keeps_values_and_a_barrier) {
    struct live_pmi *pmi = live_pmi_new(2);
    int pair[2][2], status = 0;
    for (uint32_t i = 0; i < 2; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair[i]), 0);
        live_pmi_add(pmi, i, pair[i][0]);
    }
    int a = pair[0][1], b = pair[1][1];
    say(a, pmi, 0, "cmd=init pmi_version=1 pmi_subversion=1\n");
    CHECK_STR(hear(a), "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n");
    say(a, pmi, 0, "cmd=put kvsname=openspin key=k va"); /* in two pieces */
    CHECK_STR(hear(a), "");
    say(a, pmi, 0, "lue=some value\n");
    CHECK_STR(hear(a), "cmd=put_result rc=0 msg=success\n");
    say(b, pmi, 1, "cmd=get kvsname=openspin key=k\n");
    CHECK_STR(hear(b), "cmd=get_result rc=0 msg=success value=some value\n");
    say(b, pmi, 1, "cmd=get kvsname=openspin key=other\n");
    CHECK(strstr(hear(b), "rc=-1"));
    say(a, pmi, 0, "cmd=barrier_in\n");
    CHECK_STR(hear(a), "");
    say(b, pmi, 1, "cmd=barrier_in\n");
    CHECK_STR(hear(a), "cmd=barrier_out\n");
    CHECK_STR(hear(b), "cmd=barrier_out\n");
    CHECK_EQ(write(b, "cmd=abort exitcode=7\n", 21), 21);
    CHECK(!live_pmi_serve(pmi, 1, &status));
    CHECK_EQ(status, 7);
    live_pmi_free(pmi);
    close(a);
    close(b);
}

TEST_MAIN
