/* Several threads of one process: the lock, waiting, and being interrupted by another thread. */
#include "lib/test.h"

#include <pthread.h>

#include "portals/process.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t raised = PTHREAD_COND_INITIALIZER;
static int waiting, locks; /* under the mutex */
static struct portals_cells cells;
static struct portals_process process;
static ptl_handle_ni_t ni;

static void take(void *context) {
    (void)context;
    pthread_mutex_lock(&mutex);
    locks++;
}

static void give(void *context) {
    (void)context;
    pthread_mutex_unlock(&mutex);
}

/* Called with the lock held, by whoever changed something. */
static void wake(void *context) {
    (void)context;
    pthread_cond_broadcast(&raised);
}

static void sleep_until_raised(void *context, uint64_t deadline) {
    (void)context, (void)deadline;
    waiting++;
    pthread_cond_wait(&raised, &mutex);
    waiting--;
}

static enum portals_sending lose(void *context, struct portals_outgoing *out) {
    (void)context, (void)out;
    return PORTALS_LEFT;
}

static void look(void *context) {
    (void)context;
}

static void set_up(void) {
    struct portals_config config;
    struct spin_error err;
    portals_config_default(&config, 4096);
    static const struct portals_host host = {
        .wait = sleep_until_raised, .lock = take, .unlock = give, .look = look, .cells = &cells};
    config.cells = &cells;
    process = (struct portals_process){.host = &host};
    const struct portals_owner owner = {.send = lose, .raised = wake};
    CHECK_EQ(portals_new(&process.portals, &config, &owner, &err), SPIN_OK);
    portals_enter(&process);
    CHECK_EQ(PtlInit(), PTL_OK);
    CHECK_EQ(PtlNIInit(0, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &ni), PTL_OK);
}

static void tear_down(void) {
    portals_free(process.portals);
    portals_enter(NULL);
}

/* Until that many threads sleep in a call. */
static void until_waiting(int count) {
    for (;;) {
        pthread_mutex_lock(&mutex);
        bool there = waiting == count;
        pthread_mutex_unlock(&mutex);
        if (there)
            return;
        sched_yield();
    }
}

struct waiter {
    ptl_handle_any_t handle;
    uint64_t test;
    int code;
    uint64_t value;
};

static void *wait_for_event(void *context) {
    struct waiter *w = context;
    ptl_event_t event;
    portals_enter(&process);
    w->code = PtlEQWait(w->handle, &event);
    return NULL;
}

static void *wait_for_count(void *context) {
    struct waiter *w = context;
    ptl_ct_event_t value = {0};
    portals_enter(&process);
    w->code = PtlCTWait(w->handle, w->test, &value);
    w->value = value.success;
    return NULL;
}

TEST(another_thread_frees_what_is_waited_for) {
    for (int way = 0; way < 3; way++) {
        struct waiter eq = {0}, ct = {.test = 1};
        pthread_t threads[2];
        set_up();
        CHECK_EQ(PtlEQAlloc(ni, 4, &eq.handle), PTL_OK);
        CHECK_EQ(PtlCTAlloc(ni, &ct.handle), PTL_OK);
        pthread_create(&threads[0], NULL, wait_for_event, &eq);
        pthread_create(&threads[1], NULL, wait_for_count, &ct);
        until_waiting(2);
        if (way == 0) {
            CHECK_EQ(PtlEQFree(eq.handle), PTL_OK);
            CHECK_EQ(PtlCTFree(ct.handle), PTL_OK);
        } else if (way == 1) {
            CHECK_EQ(PtlNIFini(ni), PTL_OK);
        } else {
            PtlFini();
        }
        for (int i = 0; i < 2; i++)
            pthread_join(threads[i], NULL);
        CHECK_EQ(eq.code, PTL_INTERRUPTED);
        CHECK_EQ(ct.code, PTL_INTERRUPTED);
        tear_down();
    }
}

enum { THREADS = 4, INCREMENTS = 5000 };

static void *increment(void *context) {
    const struct waiter *w = context;
    portals_enter(&process);
    for (int i = 0; i < INCREMENTS; i++)
        PtlCTInc(w->handle, (ptl_ct_event_t){1, 0});
    return NULL;
}

TEST(counting_from_many_threads) {
    struct waiter ct = {.test = THREADS * INCREMENTS};
    pthread_t threads[THREADS], last;
    set_up();
    CHECK_EQ(PtlCTAlloc(ni, &ct.handle), PTL_OK);
    pthread_create(&last, NULL, wait_for_count, &ct);
    struct waiter target = ct;
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, increment, &target);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pthread_join(last, NULL);
    CHECK_EQ(ct.code, PTL_OK);
    CHECK_EQ(ct.value, THREADS * INCREMENTS);
    tear_down();
}

/* ---- Without the lock ---- */

static ptl_handle_md_t bind_to(ptl_handle_eq_t eq) {
    static uint8_t byte;
    const ptl_md_t md = {.start = &byte, .length = 1, .eq_handle = eq, .ct_handle = PTL_CT_NONE};
    ptl_handle_md_t handle = PTL_INVALID_HANDLE;
    CHECK_EQ(PtlMDBind(ni, &md, &handle), PTL_OK);
    return handle;
}

/* SEND events with numbers. */
static void send_number(ptl_handle_md_t md, uint64_t number) {
    CHECK_EQ(PtlPut(md, 0, 1, PTL_NO_ACK_REQ, (ptl_process_t){.rank = 0}, 0, 0, 0,
                    (void *)(uintptr_t)number, 0),
             PTL_OK);
}

static void set_up_sender(void) {
    const ptl_process_t self = {.phys = {0, 0}};
    set_up();
    CHECK_EQ(PtlSetMap(ni, 1, &self), PTL_OK);
}

TEST(what_is_there_is_taken_without_the_lock) {
    ptl_handle_eq_t eq[2];
    ptl_handle_ct_t ct[2];
    ptl_event_t event;
    ptl_ct_event_t count;
    unsigned which = 9;
    set_up_sender();
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(PtlEQAlloc(ni, 8, &eq[i]), PTL_OK);
        CHECK_EQ(PtlCTAlloc(ni, &ct[i]), PTL_OK);
    }
    ptl_handle_md_t md = bind_to(eq[1]);
    for (uint64_t i = 0; i < 3; i++)
        send_number(md, 10 + i);
    CHECK_EQ(PtlCTSet(ct[1], (ptl_ct_event_t){5, 0}), PTL_OK);
    int before = locks;
    CHECK_EQ(PtlEQGet(eq[0], &event), PTL_EQ_EMPTY);
    CHECK_EQ(PtlEQGet(eq[1], &event), PTL_OK);
    CHECK_EQ(event.type, PTL_EVENT_SEND);
    CHECK_EQ((uintptr_t)event.user_ptr, 10);
    CHECK_EQ(PtlEQWait(eq[1], &event), PTL_OK);
    CHECK_EQ((uintptr_t)event.user_ptr, 11);
    CHECK_EQ(PtlEQPoll(eq, 2, 1000, &event, &which), PTL_OK);
    CHECK_EQ((uintptr_t)event.user_ptr, 12);
    CHECK_EQ(which, 1);
    CHECK_EQ(PtlEQPoll(eq, 2, 0, &event, &which), PTL_EQ_EMPTY);
    CHECK_EQ(PtlCTGet(ct[1], &count), PTL_OK);
    CHECK_EQ(PtlCTWait(ct[1], 5, &count), PTL_OK);
    CHECK_EQ(count.success, 5);
    CHECK_EQ(PtlCTPoll(ct, (ptl_size_t[]){1, 5}, 2, 1000, &count, &which), PTL_OK);
    CHECK_EQ(which, 1);
    CHECK_EQ(PtlCTPoll(ct, (ptl_size_t[]){1, 6}, 2, 0, &count, &which), PTL_CT_NONE_REACHED);
    CHECK_EQ(locks, before);
    /* What is wrong is told by who has it. */
    CHECK_EQ(PtlEQPoll((ptl_handle_eq_t[]){eq[1], ct[0]}, 2, 0, &event, &which), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQGet(eq[1], NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlEQFree(eq[1]), PTL_OK);
    CHECK_EQ(PtlEQGet(eq[1], &event), PTL_ARG_INVALID);
    tear_down();
}

/* Who polls several looks first where it has not looked longest. */
TEST(polls_without_the_lock_begin_with_each_in_turn) {
    enum { MANY = 3 };
    ptl_handle_eq_t eq[MANY];
    ptl_handle_ct_t ct[MANY];
    ptl_event_t event;
    ptl_ct_event_t count;
    unsigned which, before = MANY;
    set_up_sender();
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(PtlEQAlloc(ni, 8, &eq[i]), PTL_OK);
        CHECK_EQ(PtlCTAlloc(ni, &ct[i]), PTL_OK);
        CHECK_EQ(PtlCTSet(ct[i], (ptl_ct_event_t){5, 0}), PTL_OK);
        ptl_handle_md_t md = bind_to(eq[i]);
        for (uint64_t k = 0; k < MANY; k++)
            send_number(md, 10 * (uint64_t)i + k);
    }
    int locked = locks;
    for (unsigned k = 0; k < MANY * MANY; k++, before = which) {
        CHECK_EQ(PtlEQPoll(eq, MANY, 0, &event, &which), PTL_OK);
        CHECK(before == MANY || which == (before + 1) % MANY);
        CHECK_EQ((uintptr_t)event.user_ptr, 10 * which + k / MANY);
    }
    CHECK_EQ(PtlEQPoll(eq, MANY, 0, &event, &which), PTL_EQ_EMPTY);
    before = MANY;
    for (unsigned k = 0; k < MANY * MANY; k++, before = which) {
        CHECK_EQ(PtlCTPoll(ct, (ptl_size_t[]){5, 4, 3}, MANY, 0, &count, &which), PTL_OK);
        CHECK(before == MANY || which == (before + 1) % MANY);
    }
    CHECK_EQ(locks, locked);
    tear_down();
}

TEST(a_full_queue_says_once_what_it_has_lost) {
    ptl_handle_eq_t eq;
    ptl_event_t event;
    set_up_sender();
    CHECK_EQ(PtlEQAlloc(ni, 5, &eq), PTL_OK);
    ptl_handle_md_t md = bind_to(eq);
    for (uint64_t i = 0; i < 12; i++)
        send_number(md, i);
    for (uint64_t i = 7; i < 12; i++) {
        CHECK_EQ(PtlEQGet(eq, &event), i == 7 ? PTL_EQ_DROPPED : PTL_OK);
        CHECK_EQ((uintptr_t)event.user_ptr, i);
    }
    CHECK_EQ(PtlEQGet(eq, &event), PTL_EQ_EMPTY);
    tear_down();
}

enum { TAKERS = 3, EVENTS = 6000 };

struct taker {
    _Atomic ptl_handle_eq_t *eq;
    _Atomic uint32_t *taken;
    _Atomic bool *over;
    uint32_t wrong, dropped;
};

/* Numbers that one thread takes go up; bit 16 on says of which queue. */
static void *take_events(void *context) {
    struct taker *t = context;
    uint64_t last = 0;
    ptl_event_t event;
    portals_enter(&process);
    while (!atomic_load(t->over)) {
        ptl_handle_eq_t eq = atomic_load(t->eq);
        int code = PtlEQGet(eq, &event);
        if (code != PTL_OK && code != PTL_EQ_DROPPED)
            continue;
        uint64_t number = (uintptr_t)event.user_ptr;
        t->wrong += number <= last || event.type != PTL_EVENT_SEND || event.rlength != 1;
        t->dropped += code == PTL_EQ_DROPPED;
        last = number;
        atomic_fetch_add(&t->taken[number % EVENTS], 1);
    }
    return NULL;
}

/* `places`: too few, and events are lost; `lives`: of the queue, each with some of the events. */
static void many_take(uint32_t places, uint32_t lives) {
    static _Atomic uint32_t taken[EVENTS];
    _Atomic ptl_handle_eq_t eq = PTL_EQ_NONE;
    _Atomic bool over = false;
    struct taker taker[TAKERS];
    pthread_t thread[TAKERS];
    uint32_t missing = 0, wrong = 0, dropped = 0;
    set_up_sender();
    for (uint32_t i = 0; i < EVENTS; i++)
        taken[i] = 0;
    for (uint32_t i = 0; i < TAKERS; i++) {
        taker[i] = (struct taker){.eq = &eq, .taken = taken, .over = &over};
        pthread_create(&thread[i], NULL, take_events, &taker[i]);
    }
    for (uint32_t life = 0; life < lives; life++) {
        ptl_handle_eq_t queue;
        CHECK_EQ(PtlEQAlloc(ni, places, &queue), PTL_OK);
        ptl_handle_md_t md = bind_to(queue);
        atomic_store(&eq, queue);
        for (uint32_t i = EVENTS / lives * life; i < EVENTS / lives * (life + 1); i++)
            send_number(md, EVENTS + i);
        CHECK_EQ(PtlMDRelease(md), PTL_OK);
        if (life + 1 < lives)
            CHECK_EQ(PtlEQFree(queue), PTL_OK);
    }
    ptl_event_t event;
    while (PtlEQGet(atomic_load(&eq), &event) != PTL_EQ_EMPTY)
        atomic_fetch_add(&taken[(uintptr_t)event.user_ptr % EVENTS], 1);
    atomic_store(&over, true);
    for (uint32_t i = 0; i < TAKERS; i++) {
        pthread_join(thread[i], NULL);
        wrong += taker[i].wrong;
        dropped += taker[i].dropped;
    }
    for (uint32_t i = 0; i < EVENTS; i++) {
        missing += !taken[i];
        CHECK(taken[i] <= 1);
    }
    CHECK_EQ(wrong, 0);
    if (places >= EVENTS && lives == 1)
        CHECK_EQ(missing + dropped, 0);
    CHECK(lives > 1 || (missing > 0) >= (dropped > 0));
    tear_down();
}

TEST(many_threads_take_each_event_once) {
    many_take(EVENTS, 1);
}

TEST(many_threads_take_from_a_queue_that_is_too_small) {
    many_take(3, 1);
}

TEST(many_threads_take_from_queues_that_are_freed) {
    many_take(16, 200);
}

TEST_MAIN
