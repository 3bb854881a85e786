/* What Portals programs rely on, a point a function. */
#include "conformance.h"

#include <limits.h>
#include <openspin.h>
#include <portals4.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

/* ---- a rank with everything that a point needs ------------------------------------------------
 */

static ptl_handle_ni_t ni;
static ptl_handle_ct_t target_ct, own_ct;
static ptl_handle_eq_t own_eq;
static ptl_handle_md_t md;
static ptl_pt_index_t pt;
static volatile uint64_t memory[512], source[512];

static ptl_process_t right(void) {
    return (ptl_process_t){.rank = (spin_rank() + 1) % spin_ranks()};
}

static int open_interface(unsigned kind, const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual) {
    EXPECT_EQ(PtlInit(), PTL_OK);
    EXPECT_EQ(
        PtlNIInit(PTL_IFACE_DEFAULT, kind | PTL_NI_LOGICAL, PTL_PID_ANY, desired, actual, &ni),
        PTL_OK);
    EXPECT_EQ(spin_map_ranks(ni), PTL_OK);
    return 0;
}

/* A counted entry over `memory`, and a descriptor over `source` with these options. */
static int open_all(unsigned md_options) {
    if (open_interface(PTL_NI_NO_MATCHING, NULL, NULL))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &target_ct), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &own_ct), PTL_OK);
    EXPECT_EQ(PtlEQAlloc(ni, 64, &own_eq), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_OK);
    const ptl_le_t entry = {.start = (void *)memory,
                            .length = sizeof memory,
                            .ct_handle = target_ct,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    ptl_handle_le_t le;
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    const ptl_md_t descriptor = {.start = (void *)source,
                                 .length = sizeof source,
                                 .options = md_options,
                                 .eq_handle = own_eq,
                                 .ct_handle = own_ct};
    EXPECT_EQ(PtlMDBind(ni, &descriptor, &md), PTL_OK);
    source[0] = 4711;
    spin_barrier();
    return 0;
}

static int put(ptl_ack_req_t ack) {
    EXPECT_EQ(PtlPut(md, 0, 8, ack, right(), pt, 0, 0, NULL, 0), PTL_OK);
    return 0;
}

/* ---- handles ----------------------------------------------------------------------------------
 */

static int handle_is_equal(void) {
    ptl_handle_ct_t other;
    EXPECT(PtlHandleIsEqual(PTL_CT_NONE, PTL_CT_NONE)); /* before PtlInit */
    EXPECT(!PtlHandleIsEqual(PTL_CT_NONE, PTL_EQ_NONE));
    if (open_all(0))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &other), PTL_OK);
    EXPECT(PtlHandleIsEqual(other, other));
    EXPECT(!PtlHandleIsEqual(other, own_ct));
    EXPECT(!PtlHandleIsEqual(other, PTL_INVALID_HANDLE));
    PtlFini();
    EXPECT(PtlHandleIsEqual(PTL_INVALID_HANDLE, PTL_INVALID_HANDLE));
    EXPECT(!PtlHandleIsEqual(PTL_INVALID_HANDLE, PTL_CT_NONE));
    return 0;
}

/* ---- loops that wait --------------------------------------------------------------------------
 */

/* Rank 0 starts after 3 us; everybody waits for its left neighbour's 8 bytes, then sends. */
static int wait_by(void (*look)(void)) {
    if (open_all(PTL_MD_EVENT_CT_ACK))
        return 1;
    if (spin_rank() == 0) {
        spin_compute(3000);
        if (put(PTL_NO_ACK_REQ))
            return 1;
    }
    while (memory[0] != 4711)
        look();
    EXPECT(spin_now_ps() > 3000000);
    EXPECT(getenv("OPENSPIN_JOB") || spin_now_ps() < 20000000); /* on live cards time is real */
    if (spin_rank() != 0 && put(PTL_NO_ACK_REQ))
        return 1;
    spin_barrier();
    return 0;
}

static void look_ct_get(void) {
    ptl_ct_event_t event;
    PtlCTGet(target_ct, &event);
}
static void look_eq_get(void) {
    ptl_event_t event;
    PtlEQGet(own_eq, &event);
}
static void look_poll_nothing(void) {
    ptl_event_t event;
    unsigned which;
    PtlEQPoll(&own_eq, 1, 0, &event, &which);
}
static void look_ni_status(void) {
    ptl_sr_value_t value;
    PtlNIStatus(ni, PTL_SR_DROP_COUNT, &value);
}
static void look_get_id(void) {
    ptl_process_t id;
    PtlGetPhysId(ni, &id);
}
static void look_handles(void) {
    (void)PtlHandleIsEqual(own_ct, target_ct);
}
static void look_bad_handle(void) {
    PtlMDRelease(PTL_INVALID_HANDLE);
}
static void look_init(void) {
    PtlInit();
}
static void look_compute(void) {
    spin_compute(10);
}
static void look_compute_nothing(void) {
    spin_compute(0);
}
static void look_work(void) {
    spin_work(100, 0);
}
static void look_work_nothing(void) {
    spin_work(0, 0);
}
static void look_now(void) {
    (void)spin_now_ps();
}
static void look_yield(void) {
    sched_yield();
}
static void look_usleep(void) {
    usleep(1);
}
static void look_usleep_nothing(void) {
    usleep(0);
}
static void look_nanosleep_nothing(void) {
    nanosleep(&(struct timespec){0, 0}, NULL);
}
static void look_clock(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
}
static void look_time(void) {
    (void)time(NULL);
}
static void look_nothing_to_copy(void) {
    uint64_t to;
    spin_copy(&to, &to, 0);
}

#define LOOP(name)                                                                                 \
    static int loop_##name(void) {                                                                 \
        return wait_by(look_##name);                                                               \
    }
LOOP(ct_get)
LOOP(eq_get)
LOOP(poll_nothing)
LOOP(ni_status)
LOOP(get_id)
LOOP(handles)
LOOP(bad_handle)
LOOP(init)
LOOP(compute)
LOOP(compute_nothing)
LOOP(work)
LOOP(work_nothing)
LOOP(now)
LOOP(nothing_to_copy)
LOOP(yield)
LOOP(usleep)
LOOP(usleep_nothing)
LOOP(nanosleep_nothing)
LOOP(clock)
LOOP(time)

/* After a computation memory is as of its end, and what it writes then does not reach back. */
static int memory_after(void (*compute)(void)) {
    if (open_all(0) || put(PTL_NO_ACK_REQ))
        return 1;
    compute(); /* 5 us: the message is long there */
    source[0] = 1;
    EXPECT_EQ(memory[0], 4711);
    spin_barrier();
    return 0;
}
static void compute_long(void) {
    spin_compute(5000);
}
static void work_long(void) {
    spin_work(12500, 0);
}
static int memory_after_compute(void) {
    return memory_after(compute_long);
}
static int memory_after_work(void) {
    return memory_after(work_long);
}

/* All ranks in barriers until a message is there. */
static int loop_barrier(void) {
    if (open_all(0) || put(PTL_NO_ACK_REQ))
        return 1;
    int seen = 0;
    for (int i = 0; i < 1000; i++) {
        seen += memory[0] == 4711;
        spin_barrier();
    }
    EXPECT(seen > 0);
    return 0;
}

/* A wait ends with the value for which it waited, though more come before the program goes on. */
static int wait_is_exact(void) {
    ptl_ct_event_t event = {0};
    const ptl_process_t first = {.rank = 0};
    if (open_all(0))
        return 1;
    if (spin_rank()) {
        EXPECT_EQ(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, first, pt, 0, 0, NULL, 0), PTL_OK);
    } else {
        EXPECT_EQ(PtlCTWait(target_ct, 1, &event), PTL_OK);
        EXPECT_EQ(event.success, 1);
        EXPECT_EQ(PtlCTWait(target_ct, spin_ranks() - 1, &event), PTL_OK);
        EXPECT_EQ(event.success, spin_ranks() - 1);
    }
    spin_barrier();
    return 0;
}

/* Many looks at a queue and a counter, while the others sleep. How many is what runs compare. */
static int looks(void) {
    ptl_event_t event;
    ptl_ct_event_t count = {0};
    unsigned long in_queue = 0, at_counter = 0;
    if (open_all(PTL_MD_EVENT_CT_ACK))
        return 1;
    usleep(200 * spin_rank());
    EXPECT_EQ(PtlPut(md, 0, 8, PTL_ACK_REQ, right(), pt, 0, 0, NULL, 0), PTL_OK);
    for (int i = 0; i < 2; in_queue++) {
        int code = PtlEQGet(own_eq, &event);
        EXPECT(code == PTL_OK || code == PTL_EQ_EMPTY);
        i += code == PTL_OK;
    }
    for (; count.success < 1; at_counter++)
        EXPECT_EQ(PtlCTGet(target_ct, &count), PTL_OK);
    printf("%u: %lu looks at the queue, %lu at the counter, %llu ps\n", spin_rank(), in_queue,
           at_counter, (unsigned long long)spin_now_ps());
    spin_barrier();
    return 0;
}

/* ---- descriptors ------------------------------------------------------------------------------
 */

static int bind_md(unsigned options, ptl_handle_eq_t eq, ptl_handle_ct_t ct, ptl_handle_md_t *out) {
    const ptl_md_t descriptor = {.start = (void *)source,
                                 .length = sizeof source,
                                 .options = options,
                                 .eq_handle = eq,
                                 .ct_handle = ct};
    EXPECT_EQ(PtlMDBind(ni, &descriptor, out), PTL_OK);
    return 0;
}

/* The SEND was seen, and more cannot be: the acknowledgement is not counted. */
static int release_after_send(void) {
    ptl_ct_event_t event;
    ptl_handle_md_t unseen;
    if (open_all(0) || bind_md(PTL_MD_EVENT_CT_SEND, PTL_EQ_NONE, own_ct, &unseen))
        return 1;
    EXPECT_EQ(PtlPut(unseen, 0, 8, PTL_CT_ACK_REQ, right(), pt, 0, 0, NULL, 0), PTL_OK);
    EXPECT_EQ(PtlCTWait(own_ct, 1, &event), PTL_OK);
    EXPECT_EQ(PtlMDRelease(unseen), PTL_OK);
    EXPECT_EQ(PtlCTWait(target_ct, 1, &event), PTL_OK);
    spin_compute(10000); /* the acknowledgement finds nothing amiss */
    EXPECT_EQ(PtlCTGet(own_ct, &event), PTL_OK);
    EXPECT_EQ(event.success, 1);
    EXPECT_EQ(event.failure, 0);
    spin_barrier();
    return 0;
}

/* An acknowledgement that will be seen keeps the descriptor; programs ask until it is there. */
static int release_in_a_loop(void) {
    ptl_ct_event_t event;
    int code, tries = 0;
    if (open_all(PTL_MD_EVENT_CT_ACK) || put(PTL_CT_ACK_REQ))
        return 1;
    while ((code = PtlMDRelease(md)) == PTL_IN_USE)
        tries++;
    EXPECT_EQ(code, PTL_OK);
    EXPECT(getenv("OPENSPIN_JOB") || tries > 0); /* on live cards it may be there already */
    EXPECT_EQ(PtlCTGet(own_ct, &event), PTL_OK);
    EXPECT_EQ(event.success, 1);
    spin_barrier();
    return 0;
}

static int arguments_invalid(void) {
    const ptl_ct_event_t both = {1, 1}, success = {2, 0}, failure = {0, 1};
    ptl_handle_md_t only_ct, only_eq;
    if (open_all(0) || bind_md(0, PTL_EQ_NONE, own_ct, &only_ct) ||
        bind_md(0, own_eq, PTL_CT_NONE, &only_eq))
        return 1;
    EXPECT_EQ(PtlCTInc(own_ct, both), PTL_ARG_INVALID);
    EXPECT_EQ(PtlCTInc(own_ct, success), PTL_OK);
    EXPECT_EQ(PtlCTInc(own_ct, failure), PTL_OK);
    EXPECT_EQ(PtlCTSet(own_ct, both), PTL_OK);
    EXPECT_EQ(PtlTriggeredCTInc(own_ct, both, target_ct, 100), PTL_ARG_INVALID);
    EXPECT_EQ(PtlTriggeredCTInc(own_ct, success, target_ct, 100), PTL_OK);
    EXPECT_EQ(PtlTriggeredCTSet(own_ct, both, target_ct, 100), PTL_OK);
    for (int i = 0; i < 2; i++) { /* without a queue, without a counter */
        ptl_handle_md_t bad = i ? only_eq : only_ct, good = i ? only_ct : only_eq;
        ptl_ack_req_t ack = i ? PTL_CT_ACK_REQ : PTL_ACK_REQ;
        ptl_process_t to = right();
        EXPECT_EQ(PtlPut(bad, 0, 8, ack, to, pt, 0, 0, NULL, 0), PTL_ARG_INVALID);
        EXPECT_EQ(PtlAtomic(bad, 0, 8, ack, to, pt, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T),
                  PTL_ARG_INVALID);
        EXPECT_EQ(PtlTriggeredPut(bad, 0, 8, ack, to, pt, 0, 0, NULL, 0, target_ct, 100),
                  PTL_ARG_INVALID);
        EXPECT_EQ(PtlTriggeredAtomic(bad, 0, 8, ack, to, pt, 0, 0, NULL, 0, PTL_SUM, PTL_INT64_T,
                                     target_ct, 100),
                  PTL_ARG_INVALID);
        EXPECT_EQ(PtlPut(good, 0, 8, ack, to, pt, 0, 0, NULL, 0), PTL_OK);
        EXPECT_EQ(PtlPut(bad, 0, 8, PTL_NO_ACK_REQ, to, pt, 0, 0, NULL, 0), PTL_OK);
    }
    spin_barrier();
    return 0;
}

/* ---- limits -----------------------------------------------------------------------------------
 */

/* An entry for everything over `memory`, and descriptors for a counter. */
static int open_with(const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual) {
    if (open_interface(PTL_NI_NO_MATCHING, desired, actual))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &own_ct), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &target_ct), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_OK);
    const ptl_le_t entry = {.start = (void *)memory,
                            .length = sizeof memory,
                            .ct_handle = target_ct,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    ptl_handle_le_t le;
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    spin_barrier();
    return 0;
}

static int limits_left_zero(void) {
    enum { ITEMS = 32 };
    static const ptl_ni_limits_t nothing;
    static uint64_t before[ITEMS];
    ptl_ni_limits_t actual;
    ptl_ct_event_t event;
    ptl_handle_md_t from, into, unsafe;
    if (open_with(&nothing, &actual))
        return 1;
    EXPECT_EQ(actual.max_fetch_atomic_size, 512);
    EXPECT_EQ(actual.max_triggered_ops, 1024);
    EXPECT_EQ(actual.max_entries, 1024);
    EXPECT(actual.max_volatile_size >= 8);
    const ptl_md_t gets = {.start = before,
                           .length = sizeof before,
                           .options = PTL_MD_EVENT_CT_REPLY,
                           .eq_handle = PTL_EQ_NONE,
                           .ct_handle = own_ct};
    EXPECT_EQ(PtlMDBind(ni, &gets, &into), PTL_OK);
    if (bind_md(0, PTL_EQ_NONE, PTL_CT_NONE, &from) ||
        bind_md(PTL_MD_VOLATILE, PTL_EQ_NONE, PTL_CT_NONE, &unsafe))
        return 1;
    for (int i = 0; i < ITEMS; i++)
        source[i] = 10 + i;
    ptl_process_t to = right();
    EXPECT_EQ(PtlFetchAtomic(into, 0, from, 0, sizeof before, to, pt, 0, 0, NULL, 0, PTL_SUM,
                             PTL_UINT64_T),
              PTL_OK);
    EXPECT_EQ(PtlCTWait(own_ct, 1, &event), PTL_OK);
    EXPECT_EQ(PtlSwap(into, 0, from, 8, 8, to, pt, 0, 0, NULL, 0, NULL, PTL_SWAP, PTL_UINT64_T),
              PTL_OK);
    EXPECT_EQ(PtlCTWait(own_ct, 2, &event), PTL_OK);
    EXPECT_EQ(before[0], 10); /* what the fetch has added */
    EXPECT_EQ(PtlTriggeredPut(from, 16, 8, PTL_NO_ACK_REQ, to, pt, 0, 8, NULL, 0, own_ct, 3),
              PTL_OK);
    EXPECT_EQ(PtlCTInc(own_ct, (ptl_ct_event_t){1, 0}), PTL_OK);
    source[100] = 99;
    EXPECT_EQ(PtlPut(unsafe, 800, 8, PTL_NO_ACK_REQ, to, pt, 0, 16, NULL, 0), PTL_OK);
    source[100] = 0; /* volatile: the call has taken it */
    source[255] = 77;
    EXPECT_EQ(PtlPut(unsafe, 1024, 1024, PTL_NO_ACK_REQ, to, pt, 0, 1024, NULL, 0), PTL_OK);
    source[255] = 0; /* the program has set no limit, so of any size */
    EXPECT_EQ(PtlCTWait(target_ct, 5, &event), PTL_OK);
    EXPECT_EQ(memory[255], 77);
    EXPECT_EQ(memory[0], 11);
    EXPECT_EQ(memory[1], 12);
    EXPECT_EQ(memory[2], 99);
    EXPECT_EQ(memory[ITEMS - 1], 10 + ITEMS - 1);
    spin_barrier();
    return 0;
}

/* Whatever the network does, messages of the promised size are written in order. */
static int order_is_kept(void) {
    enum { MESSAGES = 64 };
    const ptl_ni_limits_t greedy = {.max_waw_ordered_size = LONG_MAX,
                                    .max_war_ordered_size = LONG_MAX};
    ptl_ni_limits_t actual;
    ptl_handle_md_t from;
    ptl_ct_event_t event;
    if (open_with(&greedy, &actual) || bind_md(0, PTL_EQ_NONE, PTL_CT_NONE, &from))
        return 1;
    EXPECT(actual.max_waw_ordered_size >= 8 && actual.max_war_ordered_size >= 8);
    ptl_size_t bytes = actual.max_waw_ordered_size;
    EXPECT(bytes <= 64); /* so that `source` has room */
    for (int i = 0; i < MESSAGES; i++) {
        memset((char *)source + i * bytes, i + 1, bytes);
        EXPECT_EQ(PtlPut(from, i * bytes, bytes, 0, right(), pt, 0, 0, NULL, 0), PTL_OK);
    }
    for (int seen = 0, last = 0; seen < MESSAGES;) {
        EXPECT_EQ(PtlCTWait(target_ct, seen + 1, &event), PTL_OK);
        int value = *(volatile unsigned char *)memory;
        EXPECT(value >= last);
        EXPECT_EQ(((volatile unsigned char *)memory)[bytes - 1], value);
        last = value;
        seen = (int)event.success;
    }
    EXPECT_EQ(*(volatile unsigned char *)memory, MESSAGES);
    spin_barrier();
    return 0;
}

static int limits_are_kept(void) {
    const ptl_ni_limits_t few = {.max_entries = 3,
                                 .max_mds = 2,
                                 .max_cts = 3,
                                 .max_eqs = 2,
                                 .max_list_size = 2,
                                 .max_triggered_ops = 2,
                                 .max_volatile_size = 16};
    ptl_ni_limits_t actual;
    ptl_handle_any_t handle;
    ptl_pt_index_t other;
    if (open_with(&few, &actual)) /* two counters, one entry */
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &handle), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &handle), PTL_NO_SPACE);
    if (bind_md(PTL_MD_VOLATILE, PTL_EQ_NONE, PTL_CT_NONE, &md))
        return 1;
    EXPECT_EQ(PtlPut(md, 0, 17, 0, right(), pt, 0, 0, NULL, 0), PTL_ARG_INVALID);
    EXPECT_EQ(PtlPut(md, 0, 16, 0, right(), pt, 0, 0, NULL, 0), PTL_OK);
    while (PtlMDRelease(md) == PTL_IN_USE)
        ;
    for (int i = 0; i < 3; i++) {
        const ptl_md_t descriptor = {.eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
        EXPECT_EQ(PtlEQAlloc(ni, 8, &handle), i < 2 ? PTL_OK : PTL_NO_SPACE);
        EXPECT_EQ(PtlMDBind(ni, &descriptor, &handle), i < 2 ? PTL_OK : PTL_NO_SPACE);
        EXPECT_EQ(PtlTriggeredCTInc(own_ct, (ptl_ct_event_t){1, 0}, own_ct, 9),
                  i < 2 ? PTL_OK : PTL_NO_SPACE);
    }
    const ptl_le_t entry = {.ct_handle = PTL_CT_NONE, .uid = PTL_UID_ANY};
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &other), PTL_OK);
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &handle), PTL_LIST_TOO_LONG);
    EXPECT_EQ(PtlLEAppend(ni, other, &entry, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    EXPECT_EQ(PtlLEAppend(ni, other, &entry, PTL_PRIORITY_LIST, NULL, &handle), PTL_NO_SPACE);
    return 0;
}

/* One entry and one descriptor over all memory, offsets being addresses. */
static int all_memory(void) {
    ptl_handle_le_t le;
    ptl_handle_md_t all;
    ptl_ct_event_t event;
    if (open_interface(PTL_NI_NO_MATCHING, NULL, NULL))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &own_ct), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_OK);
    const ptl_le_t entry = {.start = NULL,
                            .length = PTL_SIZE_MAX,
                            .ct_handle = PTL_CT_NONE,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT | PTL_LE_OP_GET};
    const ptl_md_t descriptor = {.start = NULL,
                                 .length = PTL_SIZE_MAX,
                                 .options = PTL_MD_EVENT_CT_ACK,
                                 .eq_handle = PTL_EQ_NONE,
                                 .ct_handle = own_ct};
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    EXPECT_EQ(PtlMDBind(ni, &descriptor, &all), PTL_OK);
    source[3] = 33;
    ptl_process_t self = {.rank = spin_rank()};
    EXPECT_EQ(PtlPut(all, (uintptr_t)&source[3], 8, PTL_CT_ACK_REQ, self, pt, 0,
                     (uintptr_t)&memory[5], NULL, 0),
              PTL_OK);
    EXPECT_EQ(PtlCTWait(own_ct, 1, &event), PTL_OK);
    EXPECT_EQ(memory[5], 33);
    return 0;
}

/* ---- the command line -------------------------------------------------------------------------
 */

static int given;
static char **word;

static int arguments(void) {
    static const char *const expected[] = {"-n", "7", "--json", "--help", "--", "--until=1ns", "-"};
    EXPECT_EQ(given, 2 + sizeof expected / sizeof expected[0]);
    for (int i = 2; i < given; i++)
        EXPECT(strcmp(word[i], expected[i - 2]) == 0);
    EXPECT_EQ(spin_ranks(), 2);
    return 0;
}

static const struct point points[] = {
    {"handle-is-equal", handle_is_equal},
    {"loop-ct-get", loop_ct_get},
    {"loop-eq-get", loop_eq_get},
    {"loop-poll-nothing", loop_poll_nothing},
    {"loop-ni-status", loop_ni_status},
    {"loop-get-id", loop_get_id},
    {"loop-handles", loop_handles},
    {"loop-bad-handle", loop_bad_handle},
    {"loop-init", loop_init},
    {"loop-compute", loop_compute},
    {"loop-compute-nothing", loop_compute_nothing},
    {"loop-work", loop_work},
    {"loop-work-nothing", loop_work_nothing},
    {"loop-now", loop_now},
    {"loop-nothing-to-copy", loop_nothing_to_copy},
    {"loop-yield", loop_yield},
    {"loop-usleep", loop_usleep},
    {"loop-usleep-nothing", loop_usleep_nothing},
    {"loop-nanosleep-nothing", loop_nanosleep_nothing},
    {"loop-clock", loop_clock},
    {"loop-time", loop_time},
    {"loop-barrier", loop_barrier},
    {"memory-after-compute", memory_after_compute},
    {"memory-after-work", memory_after_work},
    {"looks", looks},
    {"wait-is-exact", wait_is_exact},
    {"release-after-send", release_after_send},
    {"release-in-a-loop", release_in_a_loop},
    {"arguments-invalid", arguments_invalid},
    {"limits-left-zero", limits_left_zero},
    {"limits-are-kept", limits_are_kept},
    {"order-is-kept", order_is_kept},
    {"all-memory", all_memory},
    {"arguments", arguments},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    given = argc;
    word = argv;
    return conformance(points, argc, argv);
}
