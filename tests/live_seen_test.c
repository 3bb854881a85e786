/* What others see of a card: that it is whole at any moment, is there as long as its process, and
 * says of handlers what was counted. */
#include "lib/live_user.h"
#include "lib/need_fork.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/wait.h>

#include "live/live_seen.h"

static const char *job_name(void) {
    return strrchr(folder.path, '/') + 1;
}

static uint32_t look(struct spin_live_card **cards) {
    uint32_t count = 0;
    CHECK_EQ(spin_live_cards(job_name(), cards, &count, &err), 0);
    return count;
}

/* ---- cards ---- */

TEST(counts_of_two_cards) {
    struct user a, b;
    struct spin_live_card *cards;
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(user_open(&b, 2, true), 0);
    enter(&a);
    CHECK_EQ(put(&a, 2, 0, 8), 0);
    CHECK_EQ(put(&a, 2, 0, 10000), 0);
    CHECK_EQ(PtlCTWait(a.acked, 2, &event), PTL_OK);
    CHECK_EQ(PtlPut(a.md, 0, 8, PTL_CT_ACK_REQ, at(2), 5, 0, 0, NULL, 0), 0); /* nobody's */
    CHECK(PtlCTWait(a.acked, 3, &event) == PTL_OK && event.failure == 1);
    /* They show what there is when they sleep. */
    CHECK_SOON(look(&cards) == 2 && cards[1].counts.dropped && cards[0].counts.packets_in >= 3 &&
                   cards[1].counts.bytes_in >= 10016,
               free(cards));
    CHECK_EQ(cards[0].pid, 1);
    CHECK_EQ(cards[1].pid, 2);
    CHECK_EQ(cards[0].os_pid, getpid());
    CHECK(strcmp(cards[0].job, job_name()) == 0);
    CHECK(strcmp(cards[0].transport, "shm") == 0);
    CHECK_EQ(cards[0].counts.bytes_out, 10016);
    CHECK_EQ(cards[1].counts.bytes_in, 10016);
    CHECK_EQ(cards[0].counts.packets_out, cards[1].counts.packets_in);
    CHECK_EQ(cards[0].counts.packets_in, 3);
    CHECK_EQ(cards[1].counts.dropped, 1);
    CHECK_EQ(cards[0].counts.dropped, 0);
    CHECK(cards[1].shown_ns >= cards[1].began_ns);
    free(cards);
    user_close(&b);
    CHECK_EQ(look(&cards), 1);
    free(cards);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST(a_card_of_a_process_that_was_killed_is_not_seen) {
    NEED_FORK;
    struct spin_live_card *cards;
    int up[2];
    char byte;
    open_folder();
    CHECK_EQ(pipe(up), 0);
    pid_t child = fork();
    if (child == 0) {
        struct user u;
        int failed = user_open(&u, 3, true);
        (void)!write(up[1], "x", 1);
        if (!failed)
            pause();
        _exit(1);
    }
    CHECK_EQ(read(up[0], &byte, 1), 1);
    CHECK_EQ(look(&cards), 1);
    CHECK_EQ(cards[0].os_pid, child);
    free(cards);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    CHECK_EQ(look(&cards), 0);
    free(cards);
    close(up[0]);
    close(up[1]);
    live_folder_remove(&folder);
}

TEST(jobs_that_are_not_there) {
    static const char *const names[] = {"job-1-1", "nothing", "", "../..", "job-/../.."};
    struct spin_live_card *cards;
    uint32_t count;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        CHECK_EQ(spin_live_cards(names[i], &cards, &count, &err), SPIN_EARG);
        CHECK(strstr(err.text, "there is no job"));
    }
}

TEST(files_that_are_no_cards_are_passed_over) {
    struct spin_live_card *cards;
    struct live_owner self = live_owner_self();
    char name[64], nonsense[sizeof(struct spin_live_card) + 16];
    open_folder();
    memset(nonsense, 0xff, sizeof nonsense);
    for (int i = 0; i < 2; i++) { /* too short; of the right length */
        snprintf(name, sizeof name, "seen-%u-%llu-%d", self.os_pid, (unsigned long long)self.start,
                 i);
        int fd = openat(folder.fd, name, O_WRONLY | O_CREAT, 0600);
        size_t bytes = i ? sizeof nonsense : 100;
        CHECK(fd >= 0 && write(fd, nonsense, bytes) == (ssize_t)bytes);
        close(fd);
    }
    CHECK_EQ(look(&cards), 0);
    free(cards);
    live_folder_remove(&folder);
}

/* ---- one page, written and read at once ---- */

static struct live_seen seen;
static _Atomic bool ends;

static void *shows(void *unused) {
    for (uint64_t i = 1; !ends; i++) {
        seen.card.counts.packets_out = seen.card.counts.bytes_in = i;
        seen.card.counts.packets_in_memory = 3 * i;
        live_seen_show(&seen, i);
    }
    return unused;
}

TEST(what_is_read_is_whole) {
    const struct spin_live_card card = {.ranks = 1, .program = "x"};
    pthread_t writer;
    open_folder();
    ends = false;
    live_seen_open(&seen, &folder, &card);
    CHECK(seen.page != NULL);
    CHECK_EQ(pthread_create(&writer, NULL, shows, NULL), 0);
    uint32_t read = 0;
    for (int i = 0; i < 2000; i++) {
        struct spin_live_card *cards;
        if (look(&cards) == 1) { /* or it was written all the time */
            read++;
            CHECK_EQ(cards[0].counts.packets_out, cards[0].counts.bytes_in);
            CHECK_EQ(cards[0].counts.packets_in_memory, 3 * cards[0].counts.packets_out);
        }
        free(cards);
    }
    ends = true;
    pthread_join(writer, NULL);
    CHECK(read > 0);
    live_seen_close(&seen);
    live_folder_remove(&folder);
}

/* ---- handlers ---- */

TEST(times_of_runs_are_all_or_each_sixteenth) {
    struct live_seen_handler h = {0};
    uint32_t timed = 0;
    for (uint32_t run = 0; run < 16 * SEEN_SAMPLE; run++) {
        uint64_t began_ns = live_seen_begins(&h, false, false);
        timed += began_ns != 0;
        CHECK(run >= SEEN_EXACT || began_ns);
        if (began_ns) { /* a run of a microsecond at least, that counts for itself or for 16 */
            uint64_t before = h.ns;
            live_seen_ends(&h, began_ns - 1000, false);
            CHECK(h.ns - before >= (run < SEEN_EXACT ? 1000 : 1000 * SEEN_SAMPLE));
        }
    }
    CHECK_EQ(timed, SEEN_EXACT + 15);
    CHECK_EQ(h.begun, 256);
    live_seen_begins(&h, true, true); /* it had waited, and goes on */
    live_seen_ends(&h, 0, true);
    CHECK_EQ(h.begun - h.again, 256);
    CHECK_EQ(h.faults, 1);
}

TEST_MAIN
