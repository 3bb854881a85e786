/* Who sends more than a peer takes waits, on its own account: with several threads, to a peer that
 * takes nothing, to one that goes away, and where two flood each other. */
#include "lib/live_user.h"

#include <pthread.h>

#include "lib/need_fork.h"
#include "live/live_clock.h"

#define MOST    16384u /* live_card.c */
#define LANE    2048u  /* messages that a lane and its ends hold, at most */
#define THREADS 3u
#define EACH    12000u
#define ALL     (THREADS * EACH)

struct flood {
    struct user *user;
    uint32_t to, puts;
    _Atomic uint32_t *issued;
};

static void *send_all(void *context) {
    const struct flood *f = context;
    enter(f->user);
    for (uint32_t i = 0; i < f->puts; i++, atomic_fetch_add(f->issued, 1))
        if (put(f->user, f->to, 8 * (i % 1000), 8))
            return context;
    return NULL;
}

/* By calls that do not drive the card where nothing has come. */
static uint64_t ended(struct user *u, ptl_handle_ct_t counter, uint64_t *failures) {
    ptl_ct_event_t event;
    enter(u);
    CHECK_EQ(PtlCTGet(counter, &event), PTL_OK);
    if (failures)
        *failures = event.failure;
    return event.success + event.failure;
}

struct floods {
    struct user a, b, c;
    pthread_t thread[THREADS];
    struct flood flood;
    _Atomic uint32_t issued;
};

/* Threads of `a` send to `b`, which takes nothing, until they wait. */
static void begin(struct floods *f) {
    open_folder();
    CHECK_EQ(user_open(&f->b, 2, false), 0);
    CHECK_EQ(user_open(&f->c, 3, true), 0);
    CHECK_EQ(user_open(&f->a, 1, true), 0);
    f->issued = 0;
    f->flood = (struct flood){&f->a, 2, EACH, &f->issued};
    for (uint32_t i = 0; i < THREADS; i++)
        CHECK_EQ(pthread_create(&f->thread[i], NULL, send_all, &f->flood), 0);
    waits_for = "threads that send";
    CHECK_SOON(f->issued >= MOST - 8, );
    usleep(200000);
    CHECK(f->issued < MOST + LANE);
}

static void join(struct floods *f) {
    for (uint32_t i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(f->thread[i], &wrong);
        CHECK(!wrong);
    }
    CHECK_EQ(f->issued, ALL);
}

TEST(a_peer_that_takes_nothing_slows_who_sends_to_it) {
    struct floods f;
    uint64_t failures;
    begin(&f);
    enter(&f.a); /* another peer is no matter of theirs */
    CHECK_EQ(put(&f.a, 3, 0, 8), PTL_OK);
    waits_for = "a put to another peer";
    CHECK_SOON(ended(&f.a, f.a.acked, NULL) == 1, );
    waits_for = "the puts";
    CHECK_SOON(ended(&f.b, f.b.arrived, NULL) == ALL, );
    CHECK_SOON(ended(&f.a, f.a.acked, &failures) == ALL + 1, ended(&f.b, f.b.arrived, NULL));
    CHECK_EQ(failures, 0);
    join(&f);
    user_close(&f.a);
    user_close(&f.b);
    user_close(&f.c);
    live_folder_remove(&folder);
}

TEST(who_waits_for_a_peer_that_goes_goes_on) {
    struct floods f;
    uint64_t failures;
    begin(&f);
    user_close(&f.b);
    join(&f);
    waits_for = "the puts";
    CHECK_SOON(ended(&f.a, f.a.acked, &failures) == ALL, );
    CHECK(failures >= ALL - LANE);
    user_close(&f.a);
    user_close(&f.c);
    live_folder_remove(&folder);
}

/* Neither looks but in the calls that send. */
TEST(two_that_flood_each_other_go_on) {
    struct user a, b;
    pthread_t thread[2];
    _Atomic uint32_t issued = 0;
    uint64_t failures;
    open_folder();
    CHECK_EQ(user_open(&b, 2, false), 0);
    CHECK_EQ(user_open(&a, 1, false), 0);
    struct flood to_b = {&a, 2, 2 * ALL, &issued}, to_a = {&b, 1, 2 * ALL, &issued};
    CHECK_EQ(pthread_create(&thread[0], NULL, send_all, &to_b), 0);
    CHECK_EQ(pthread_create(&thread[1], NULL, send_all, &to_a), 0);
    waits_for = "the two";
    CHECK_SOON(ended(&a, a.acked, &failures) == 2 * ALL && !failures,
               ended(&b, b.acked, &failures));
    CHECK_SOON(ended(&b, b.acked, &failures) == 2 * ALL && !failures,
               ended(&a, a.acked, &failures));
    pthread_join(thread[0], NULL);
    pthread_join(thread[1], NULL);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

/* A process that is stopped, and goes on. */
TEST(memory_is_bounded_while_a_process_is_stopped) {
    struct user a;
    _Atomic uint32_t issued = 0;
    uint64_t failures;
    pthread_t thread;
    NEED_FORK;
    open_folder();
    pid_t child = serve_in_child(2);
    CHECK_EQ(user_open(&a, 1, true), 0);
    reach(&a);
    kill(child, SIGSTOP);
    waitpid(child, NULL, WUNTRACED);
    struct flood flood = {&a, 2, 4 * ALL, &issued};
    CHECK_EQ(pthread_create(&thread, NULL, send_all, &flood), 0);
    CHECK_SOON(issued >= MOST - 8, );
    usleep(200000);
    CHECK(issued < MOST + LANE);
    kill(child, SIGCONT);
    waits_for = "the puts";
    pthread_join(thread, NULL);
    CHECK_SOON(ended(&a, a.acked, &failures) == 4 * ALL, );
    CHECK_EQ(failures, 0);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST_MAIN
