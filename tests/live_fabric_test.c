/* Live cards over libfabric: all sizes and bytes, a receiver that is slow, strangers, peers that
 * are killed, what a kill leaves behind. Two cards of one process are by TCP: the provider shm uses
 * the memory of a process's other endpoints, also when those are closed. */
#include "lib/live_net_user.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/live_book.h"
#include "live/live_clock.h"
#include "live/live_fabric_port.h"
#include "nic/nic.h"

#define NID 1

static struct live_folder folder;
static char job[64];

static int user_open(struct user *u, uint32_t pid, const char *provider, bool progress) {
    const struct live_card_options options = {.folder = &folder,
                                              .nid = NID,
                                              .pid = pid,
                                              .transport = LIVE_FABRIC,
                                              .provider = provider,
                                              .progress = progress};
    return user_open_by(u, &options);
}

/* libfabric may be missing, in the build or on the machine. */
static bool begin(void) {
    struct user u;
    CHECK_EQ(live_folder_make(&folder, job, sizeof job, &err), 0);
    if (user_open(&u, LIVE_PIDS, "shm", false) == 0) {
        CHECK_EQ(u.self.phys.nid, NID);
        CHECK_EQ(u.self.phys.pid, LIVE_PIDS - 1);
        user_close(&u);
        return true;
    }
    CHECK(strstr(err.text, "libfabric"));
    free(u.memory);
    free(u.source);
    live_folder_remove(&folder);
    return false;
}

#define NEED_FABRIC                                                                                \
    do {                                                                                           \
        if (!begin())                                                                              \
            TEST_SKIP(err.text);                                                                   \
    } while (0)

/* Also after pauses in which all sleep. */
TEST(two_cards_exchange_messages_of_all_sizes) {
    struct user a, b;
    NEED_FABRIC;
    CHECK_EQ(user_open(&b, 2, "tcp", true), 0);
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    CHECK_EQ(a.self.phys.pid, 1);
    exchange(&a, &b, 7, 40, MEMORY / 2);
    for (int k = 0; k < 2; k++) {
        usleep(20000);
        exchange(k ? &a : &b, k ? &b : &a, 9, 22, 20000);
    }
    CHECK_EQ(nic_counts(live_card_nic(a.card))->receipts, 0); /* the provider is reliable */
    CHECK_EQ(live_card_malformed(a.card) + live_card_malformed(b.card), 0);
    CHECK_EQ(live_card_strangers(a.card) + live_card_strangers(b.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* Puts from, and gets of, memory that may not be read: both cards and programs go on. */
TEST(memory_that_cannot_be_read_is_an_error) {
    static const uint32_t sizes[] = {8, 500, 2000, 4096, 10000};
    struct user a, b;
    ptl_ct_event_t event;
    NEED_FABRIC;
    CHECK_EQ(user_open(&b, 2, "tcp", true), 0);
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    exchange(&a, &b, 3, 22, 20000);
    for (uint32_t i = 0; i < 10; i++) {
        uint32_t bytes = sizes[i / 2];
        uint8_t *memory = i % 2 ? b.memory : a.source;
        uint64_t at = 4096 - (uintptr_t)memory % 4096;
        snprintf(test_context, sizeof test_context, "%s of %u", i % 2 ? "get" : "put", bytes);
        CHECK_EQ(mprotect(memory + at, 16384, PROT_NONE), 0);
        enter(&a);
        CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
        CHECK_EQ(i % 2 ? PtlGet(a.md, 0, bytes, b.self, PT, 0, at, NULL)
                       : PtlPut(a.md, at, bytes, PTL_ACK_REQ, b.self, PT, 0, 0, NULL, 0),
                 PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
        CHECK_EQ(event.failure, 1);
        CHECK_EQ(mprotect(memory + at, 16384, PROT_READ | PROT_WRITE), 0);
    }
    exchange(&a, &b, 4, 22, 20000);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* More than its credits: the rest waits on the sender's card until the receiver looks. */
TEST(a_slow_receiver_slows_its_sender_and_loses_nothing) {
    NEED_FABRIC;
    struct user a, b;
    ptl_ct_event_t event;
    CHECK_EQ(user_open(&b, 2, "tcp", false), 0);
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    for (uint32_t k = 0; k < MEMORY; k++)
        a.source[k] = (uint8_t)(k * 31 + (k >> 8));
    for (int i = 0; i < 3; i++)
        CHECK_EQ(put(&a, b.self, 0, MEMORY), PTL_OK);
    usleep(30000);
    CHECK(nic_counts(live_card_nic(a.card))->sent < 2 * 64 + 3);
    enter(&b);
    CHECK_EQ(PtlCTWait(b.arrived, 3, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    user_close(&b);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST(a_provider_that_is_not_there_is_refused) {
    struct user u;
    NEED_FABRIC;
    CHECK_EQ(user_open(&u, 1, "pigeon", false), 1);
    CHECK(strstr(err.text, "pigeon") && strstr(err.text, "fi_info"));
    free(u.memory);
    free(u.source);
    live_folder_remove(&folder);
}

TEST(signals_stay_the_programs) {
    struct user u;
    struct sigaction before[32], now;
    for (int i = 1; i < 32; i++)
        CHECK_EQ(sigaction(i, NULL, &before[i]), 0);
    NEED_FABRIC;
    CHECK_EQ(user_open(&u, 1, "shm", false), 0);
    for (int i = 1; i < 32; i++) {
        CHECK_EQ(sigaction(i, NULL, &now), 0);
        CHECK(now.sa_handler == before[i].sa_handler);
    }
    user_close(&u);
    live_folder_remove(&folder);
}

/* ---- strangers ---- */

/* The provider may want to be asked several times. */
static void throw_at(struct live_fabric_port *port, uint64_t number, const uint8_t *bytes,
                     uint32_t length) {
    enum fabric_sent sent = FABRIC_AGAIN;
    for (int i = 0; i < 200000 && sent == FABRIC_AGAIN; i++) {
        struct live_fabric_slot *slot = fabric_port_slot(port);
        CHECK(slot);
        memcpy(slot->bytes, bytes, length);
        slot->length = length;
        sent = fabric_port_send(port, slot, number);
        if (sent == FABRIC_AGAIN && !fabric_port_ready(port))
            usleep(1000);
    }
    CHECK_EQ(sent, FABRIC_SENT);
}

TEST(strangers_and_liars_are_counted_and_harm_nothing) {
    struct live_fabric_port *port;
    const struct live_fabric_port_options options = {.provider = "tcp", .frame_bytes = 1000};
    struct live_entry e;
    struct live_book book;
    struct user a, b;
    uint64_t number;
    uint8_t bytes[300];
    struct rng rng = rng_seeded(3);
    NEED_FABRIC;
    CHECK_EQ(user_open(&b, 2, "tcp", true), 0);
    live_book_open(&book, &folder, NULL);
    CHECK(live_book_find(&book, 2, &e));
    CHECK_EQ(e.owner.os_pid, (uint32_t)getpid());
    CHECK_EQ(fabric_port_open(&port, &options, &err), 0);
    CHECK(fabric_port_insert(port, e.address, &number));
    for (uint32_t i = 0; i < 50; i++) { /* noise, and less than a head */
        uint32_t length = 1 + rng_below(&rng, sizeof bytes - 1);
        for (uint32_t k = 0; k < length; k++)
            bytes[k] = (uint8_t)rng_u64(&rng);
        throw_at(port, number, bytes, length);
    }
    throw_at(port, number, folder.key, LIVE_KEY_BYTES);
    wait_for_counts(&b, 0, 51);
    for (uint32_t i = 0; i < 50; i++) { /* with the key, of a process that does not exist or lies */
        for (uint32_t k = 0; k < sizeof bytes; k++)
            bytes[k] = (uint8_t)rng_u64(&rng);
        memcpy(bytes, folder.key, LIVE_KEY_BYTES);
        bytes[36] = bytes[37] = bytes[38] = bytes[39] = 0; /* a packet */
        if (i % 2)
            memcpy(bytes + 24, (uint32_t[]){NID, 7, 0}, 12);
        memset(bytes + 40, 0, 8); /* of the first term */
        throw_at(port, number, bytes, sizeof bytes);
    }
    wait_for_counts(&b, 50, 51);
    fabric_port_close(port);
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    exchange(&a, &b, 1, 25, 10000);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* ---- terms ---- */

/* A process with a port, which says what the test wants: pid 7. */
struct actor {
    struct live_fabric_port *port;
    struct live_entry entry;
    uint64_t number; /* of the card that it speaks to */
};

/* As live_fabric.c has it. */
struct head {
    uint8_t key[LIVE_KEY_BYTES];
    uint64_t life;
    uint32_t nid, pid, taken, kind, term, zero;
};

static void actor_open(struct actor *a, uint32_t to) {
    const struct live_fabric_port_options options = {.provider = "tcp", .frame_bytes = 5000};
    struct live_entry e;
    struct live_book book;
    uint32_t pid = 7;
    live_book_open(&book, &folder, NULL);
    CHECK(live_book_find(&book, to, &e));
    CHECK_EQ(fabric_port_open(&a->port, &options, &err), 0);
    CHECK(fabric_port_insert(a->port, e.address, &a->number));
    a->entry = (struct live_entry){.life = 77, .owner = live_owner_self(), .nid = NID};
    strcpy(a->entry.provider, e.provider);
    a->entry.bytes = fabric_port_address(a->port, a->entry.address, sizeof a->entry.address);
    CHECK_EQ(live_book_enter(&book, &pid, &a->entry, &err), 0);
}

static void say(struct actor *a, uint32_t term) {
    struct head head = {.life = 77, .nid = NID, .pid = 7, .kind = 1, .term = term};
    memcpy(head.key, folder.key, sizeof head.key);
    throw_at(a->port, a->number, (const uint8_t *)&head, sizeof head);
}

/* The next frame of that term. */
static uint32_t hear(struct actor *a, uint32_t term) {
    for (int i = 0; i < 60000; i++) {
        struct head head = {.kind = 99};
        struct live_fabric_slot *slot = fabric_port_take(a->port);
        if (!slot) {
            usleep(1000);
            continue;
        }
        if (slot->incoming) {
            memcpy(&head, slot->bytes, sizeof head);
            fabric_port_post(a->port, slot);
        }
        if (head.kind != 99 && head.term == term)
            return head.kind;
    }
    return 99;
}

/* Who has given a peer up says so, and then that ends what it has under way, too; what is of a time
 * before is answered by what the time is. */
TEST(a_peer_that_gives_up_says_so) {
    const ptl_process_t to = {.phys = {.nid = NID, .pid = 7}};
    struct actor actor;
    struct user a;
    ptl_event_t event;
    NEED_FABRIC;
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    actor_open(&actor, 1);
    CHECK_EQ(put(&a, to, 0, 8), PTL_OK);
    CHECK_EQ(hear(&actor, 0), 0); /* which takes it, and never acknowledges it */
    say(&actor, 0);
    usleep(20000);
    CHECK_EQ(PtlEQGet(a.eq, &event), PTL_EQ_EMPTY);
    say(&actor, 1);
    CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
    CHECK_EQ(event.ni_fail_type, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(put(&a, to, 0, 8), PTL_OK);
    CHECK_EQ(hear(&actor, 1), 0);
    say(&actor, 0); /* of before */
    CHECK_EQ(hear(&actor, 1), 1);
    CHECK_EQ(PtlEQGet(a.eq, &event), PTL_EQ_EMPTY);
    CHECK_EQ(live_card_malformed(a.card), 0);
    user_close(&a);
    fabric_port_close(actor.port);
    live_folder_remove(&folder);
}

/* ---- processes ---- */

/* Until it has had one message, and has answered. */
static void serve_one(struct user *u) {
    ptl_ct_event_t count = {0};
    while (!count.success && !PtlCTGet(u->arrived, &count))
        usleep(100);
    for (int i = 0; i < 100; i++, usleep(100))
        live_card_poll(u->card);
}

/* A program of its own, as libfabric does not survive a fork: this one, with other work to do. */
__attribute__((constructor)) static void serve(void) {
    const char *pid = getenv("SERVE_PID");
    struct user u;
    if (!pid)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(300);
    if (live_folder_open(&folder, getenv("SERVE_JOB"), &err) ||
        user_open(&u, (uint32_t)atoi(pid), getenv("SERVE_PROVIDER"), !getenv("SERVE_IDLE")) ||
        write(atoi(getenv("SERVE_FD")), "x", 1) != 1)
        _exit(1);
    if (getenv("SERVE_IDLE"))
        serve_one(&u);
    for (;;)
        pause();
}

static void set_number(const char *name, uint32_t number) {
    char text[20];
    snprintf(text, sizeof text, "%u", number);
    setenv(name, text, 1);
}

/* Returns when it can be sent to. */
static pid_t serve_in_child(const char *provider, uint32_t pid) {
    int up[2];
    char word;
    CHECK_EQ(pipe(up), 0);
    pid_t child = fork();
    if (!child) {
        setenv("SERVE_PROVIDER", provider, 1);
        setenv("SERVE_JOB", job, 1);
        set_number("SERVE_PID", pid);
        set_number("SERVE_FD", (uint32_t)up[1]);
        execl("/proc/self/exe", "serve", NULL);
        _exit(1);
    }
    close(up[1]);
    CHECK_EQ(read(up[0], &word, 1), 1);
    close(up[0]);
    return child;
}

/* Of the provider shm: a sender has what it sent answered in order, so nothing that waits for an
 * answer may lie in front. The child that is killed does not look any more, so it has no lock of
 * libfabric's.
 */
TEST(a_kill_does_not_keep_what_goes_to_others) {
    const ptl_process_t dead = {.phys = {.nid = NID, .pid = 2}},
                        alive = {.phys = {.nid = NID, .pid = 3}};
    struct user a;
    ptl_ct_event_t count;
    ptl_event_t event;
    NEED_FABRIC;
    setenv("SERVE_IDLE", "1", 1);
    pid_t idle = serve_in_child("shm", 2);
    unsetenv("SERVE_IDLE");
    pid_t child = serve_in_child("shm", 3);
    CHECK_EQ(user_open(&a, 1, "shm", true), 0);
    CHECK_EQ(put(&a, dead, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    usleep(200000);
    CHECK_EQ(put(&a, dead, 0, MEMORY / 4), PTL_OK);
    usleep(20000);
    kill(idle, SIGKILL);
    waitpid(idle, NULL, 0);
    CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
    CHECK_EQ(event.ni_fail_type, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    for (int k = 0; k < 3; k++)
        CHECK_EQ(put(&a, alive, 0, MEMORY), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 3, &count), PTL_OK);
    CHECK_EQ(count.success, 3);
    user_close(&a);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    live_folder_remove(&folder);
}

/* Not with provider shm: its processes share a spin lock, and one that is stopped or killed while
 * it has it lets all others spin. */
TEST(a_peer_that_is_killed_is_undeliverable_and_comes_back) {
    const ptl_process_t to = {.phys = {.nid = NID, .pid = 2}};
    struct user a;
    ptl_ct_event_t count;
    ptl_event_t event;
    NEED_FABRIC;
    pid_t child = serve_in_child("tcp", 2);
    CHECK_EQ(user_open(&a, 1, "tcp", true), 0);
    CHECK_EQ(put(&a, to, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 0);
    kill(child, SIGSTOP); /* so that much is under way */
    waitpid(child, NULL, WUNTRACED);
    for (int k = 0; k < 10; k++)
        CHECK_EQ(put(&a, to, 0, MEMORY / 2), PTL_OK);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    for (int k = 0; k < 10; k++) {
        CHECK_EQ(PtlEQWait(a.eq, &event), PTL_OK);
        CHECK_EQ(event.ni_fail_type, PTL_NI_UNDELIVERABLE);
    }
    CHECK_EQ(PtlCTGet(a.acked, &count), PTL_OK);
    CHECK_EQ(count.success, 1);
    CHECK_EQ(count.failure, 10);
    /* A new life under the same name. */
    child = serve_in_child("tcp", 2);
    enter(&a);
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    CHECK_EQ(put(&a, to, 0, MEMORY / 2), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &count), PTL_OK);
    CHECK_EQ(count.failure, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    user_close(&a);
    live_folder_remove(&folder);
}

/* The provider's memory of a process that was killed goes with its name. */
TEST(a_kill_leaves_nothing_behind) {
    struct live_entry e;
    struct live_book book;
    char path[300];
    NEED_FABRIC;
    pid_t child = serve_in_child("shm", 2);
    live_book_open(&book, &folder, NULL);
    CHECK(live_book_find(&book, 2, &e));
    snprintf(path, sizeof path, "/dev/shm/%s", (char *)e.address + strlen("fi_shm://"));
    CHECK_EQ(access(path, F_OK), 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_EQ(access(path, F_OK), 0);
    live_folder_remove(&folder);
    CHECK(access(path, F_OK) != 0);
}

TEST_MAIN
