/* Several threads of one process: the lock, waiting, and being interrupted by another thread. */
#include "lib/test.h"

#include <pthread.h>

#include "portals/process.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t raised = PTHREAD_COND_INITIALIZER;
static int waiting; /* under the mutex */
static struct portals_process process;
static ptl_handle_ni_t ni;

static void take(void *context) {
    (void)context;
    pthread_mutex_lock(&mutex);
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

static void set_up(void) {
    struct portals_config config;
    struct spin_error err;
    portals_config_default(&config, 4096);
    static const struct portals_host host = {
        .wait = sleep_until_raised, .lock = take, .unlock = give};
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

TEST_MAIN
