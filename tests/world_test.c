/* Simulated worlds: time to the picosecond, programs and what becomes of them, the use cases with
 * their data, faults, determinism, and worlds beside and inside each other. */
#include "lib/worlds.h"
#include "sim/world_private.h"

/* ---- programs ---------------------------------------------------------------------------------
 */

static int compute(void *argument) {
    (void)argument;
    spin_compute(100 * (spin_rank() + 1));
    return spin_ranks() == 3 && spin_now_ps() == 100000ull * (spin_rank() + 1) ? 0 : 1;
}

TEST(ranks_have_their_own_clocks) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 3};
    struct spin_world_result r = run_world(&o, compute, NULL, SPIN_OK, &err);
    CHECK_EQ(r.failed, 0);
    CHECK_EQ(r.makespan_ps, 300000);
}

/* Times that 64 bits do not hold, or not when they are computed. */
static int compute_for_ever(void *argument) {
    const uint32_t how = *(const uint32_t *)argument;
    spin_compute_ps(5000);
    if (how == 0)
        spin_compute_ps(UINT64_MAX);
    else if (how == 1)
        spin_compute(UINT64_MAX / 1000 + 1);
    else if (how == 2)
        spin_work(1ull << 60, 0);
    else
        spin_work(0, UINT64_MAX / 2);
    return 0;
}

static int work_for_hours(void *argument) {
    spin_work(0, 4000000000000000);
    *(uint64_t *)argument = spin_now_ps();
    return 0;
}

TEST(time_goes_forward_and_ends) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 1};
    for (uint32_t how = 0; how < 4; how++) {
        run_world(&o, compute_for_ever, &how, SPIN_ELIMIT, &err);
        CHECK_HAS(err.text, "simulated time goes beyond the limit");
    }
    uint64_t hours_ps;
    run_world(&o, work_for_hours, &hours_ps, SPIN_OK, &err);
    CHECK_EQ(hours_ps, 4000000000000000 / 1000 * 6209);
}

static int meet(void *argument) {
    uint64_t *times = argument;
    spin_compute(10 * spin_rank());
    spin_barrier();
    times[spin_rank()] = spin_now_ps();
    if (spin_rank() == 2)
        return 0; /* goes; the others do not wait for it */
    spin_barrier();
    return 0;
}

TEST(a_barrier_ends_when_the_last_has_come) {
    struct spin_error err;
    uint64_t times[4] = {0};
    struct spin_world_options o = {.ranks = 4};
    run_world(&o, meet, times, SPIN_OK, &err);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(times[i], 30000);
}

static int fail_some(void *argument) {
    (void)argument;
    return spin_rank() >= 2 ? 40 + (int)spin_rank() : 0;
}

TEST(what_ranks_return_is_kept) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 5};
    struct spin_world_result r = run_world(&o, fail_some, NULL, SPIN_OK, &err);
    CHECK_EQ(r.failed, 3);
    CHECK_EQ(r.first_failed, 2);
    CHECK_EQ(r.first_status, 42);
}

static int wait_for_ever(void *argument) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_ct_event_t event;
    (void)argument;
    if (open_interface(PTL_NI_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &ct))
        return 1;
    if (spin_rank() == 0)
        return 0;
    spin_compute(7);
    return PtlCTWait(ct, 1, &event);
}

TEST(a_deadlock_names_rank_and_call) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2};
    run_world(&o, wait_for_ever, NULL, SPIN_EDEADLOCK, &err);
    CHECK_HAS(err.text, "1 of 2 ranks");
    CHECK_HAS(err.text, "rank 1 in PtlCTWait (counter 0 of 1) since ");
}

static int poll_for_ever(void *argument) {
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_event_t event;
    (void)argument;
    if (open_interface(PTL_NI_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlEQAlloc(ni, 8, &eq))
        return 1;
    while (PtlEQGet(eq, &event) == PTL_EQ_EMPTY)
        ;
    return 1;
}

TEST(a_run_can_be_stopped) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2, .until_ps = 1000000};
    run_world(&o, poll_for_ever, NULL, SPIN_ELIMIT, &err);
    CHECK_HAS(err.text, "stopped at 1000 ns with 2 of 2 ranks not done: rank 0 in PtlEQGet at ");
}

/* A timeout is a time of the program's clock. */
static int time_out(void *argument) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_ct_event_t event;
    unsigned which;
    ptl_size_t test = 1;
    (void)argument;
    if (open_interface(PTL_NI_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &ct))
        return 1;
    uint64_t start = spin_now_ps();
    if (PtlCTPoll(&ct, &test, 1, 3, &event, &which) != PTL_CT_NONE_REACHED)
        return 2;
    uint64_t waited = spin_now_ps() - start;
    return waited >= 3000000000ull && waited < 3001000000ull ? 0 : 3;
}

TEST(timeouts_are_in_virtual_time) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 1};
    CHECK_EQ(run_world(&o, time_out, NULL, SPIN_OK, &err).failed, 0);
}

/* It is there as soon as it is sent: whoever waits must not miss it. */
static int nothing_to_oneself(void *argument) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    (void)argument;
    if (open_interface(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &ct) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {
        .ct_handle = ct, .uid = PTL_UID_ANY, .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t memory = {.eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    ptl_process_t self;
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) || PtlMDBind(ni, &memory, &md) ||
        PtlGetPhysId(ni, &self) || self.phys.nid != spin_rank())
        return 2;
    for (uint64_t i = 1; i <= 3; i++) {
        uint64_t start = spin_now_ps();
        if (PtlPut(md, 0, 0, PTL_NO_ACK_REQ, self, pt, 0, 0, NULL, 0) || PtlCTWait(ct, i, &event))
            return 3;
        if (spin_now_ps() - start > 1000000)
            return 4;
    }
    return 0;
}

TEST(an_empty_message_to_oneself) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2};
    struct spin_world_result r = run_world(&o, nothing_to_oneself, NULL, SPIN_OK, &err);
    CHECK_EQ(r.failed ? r.first_status : 0, 0);
}

/* Rank 1 waits until so many puts of rank 0 have come. */
static int count_puts(void *argument) {
    const uint64_t *puts = argument;
    static uint8_t bytes[8];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    if (open_interface(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &ct) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {.start = bytes,
                   .length = sizeof bytes,
                   .ct_handle = ct,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t memory = {
        .start = bytes, .length = sizeof bytes, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) || PtlMDBind(ni, &memory, &md))
        return 2;
    spin_barrier();
    if (spin_rank() == 1)
        return PtlCTWait(ct, *puts, &event) || event.success != *puts ? 3 : 0;
    for (uint64_t i = 0; i < *puts; i++)
        if (PtlPut(md, 0, sizeof bytes, PTL_NO_ACK_REQ, (ptl_process_t){.phys = {.nid = 1}}, pt, 0,
                   0, NULL, 0))
            return 4;
    return 0;
}

TEST(who_waits_for_a_counter_is_not_woken_by_each_count) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2};
    uint64_t few = 20, many = 120;
    struct spin_world_result a = run_world(&o, count_puts, &few, SPIN_OK, &err);
    struct spin_world_result b = run_world(&o, count_puts, &many, SPIN_OK, &err);
    CHECK_EQ(a.failed + b.failed, 0);
    /* A put: its program's call, departure and the end of it, two links, match, store. */
    CHECK((b.counts.events - a.counts.events) / (many - few) <= 7);
}

static int asks_for_features(void *argument) {
    ptl_ni_limits_t desired = {.features = 7}, actual;
    ptl_handle_ni_t ni;
    (void)argument;
    if (PtlInit() || PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, 0, &desired,
                               &actual, &ni))
        return 1;
    return (int)actual.features;
}

TEST(a_world_offers_coherent_atomics) {
    struct spin_error err;
    static const char *const pspin[] = {"card=pspin"};
    for (int i = 0; i < 2; i++) {
        struct spin_world_options o = {.ranks = 1, .set = pspin, .set_count = i};
        struct spin_world_result r = run_world(&o, asks_for_features, NULL, SPIN_OK, &err);
        CHECK_EQ(r.first_status, PTL_TARGET_BIND_INACCESSIBLE | PTL_COHERENT_ATOMICS);
    }
}

/* What a process sends to one place is done there in the order it was sent in, also where a read
 * takes longer than a write. */
enum { ORDERED = 64 };

static int in_order(void *argument) {
    uint64_t *target = argument, got[ORDERED], operand[ORDERED];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t replies, acks;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    const ptl_process_t other = {.phys = {.nid = 1, .pid = 0}};
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, 0, NULL, NULL, &ni) ||
        PtlCTAlloc(ni, &replies) || PtlCTAlloc(ni, &acks) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {.start = target,
                   .length = 8,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET};
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle))
        return 2;
    spin_barrier();
    if (spin_rank() == 0) {
        ptl_md_t into = {.start = got,
                         .length = sizeof got,
                         .options = PTL_MD_EVENT_CT_REPLY,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = replies};
        ptl_md_t from = {.start = operand,
                         .length = sizeof operand,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = acks};
        ptl_handle_md_t get_md;
        if (PtlMDBind(ni, &into, &get_md) || PtlMDBind(ni, &from, &md))
            return 3;
        /* get, put, atomic, put, again and again: the get must bring what the last put left */
        for (uint64_t i = 0; i < ORDERED; i++) {
            operand[i] = 1000 + i;
            if (PtlGet(get_md, 8 * i, 8, other, pt, 0, 0, NULL) ||
                PtlAtomic(md, 8 * i, 8, PTL_CT_ACK_REQ, other, pt, 0, 0, NULL, 0, PTL_SUM,
                          PTL_UINT64_T) ||
                PtlPut(md, 8 * i, 8, PTL_CT_ACK_REQ, other, pt, 0, 0, NULL, 0))
                return 4;
        }
        if (PtlCTWait(replies, ORDERED, &event) || PtlCTWait(acks, 2 * ORDERED, &event))
            return 5;
        for (uint64_t i = 0; i < ORDERED; i++)
            if (got[i] != (i ? 1000 + i - 1 : 5))
                return 6;
    }
    spin_barrier();
    return *target == 1000 + ORDERED - 1 ? 0 : 7;
}

TEST(small_messages_are_ordered) {
    struct spin_error err;
    for (int lossy = 0; lossy < 2; lossy++) {
        static const char *const set[] = {"loss=0.1", "duplication=0.1", "reordering=0.1"};
        uint64_t target = 5;
        struct spin_world_options o = {.ranks = 2, .preset = "sc17-dis"};
        o.set = set;
        o.set_count = lossy ? 3 : 0;
        struct spin_world_result r = run_world(&o, in_order, &target, SPIN_OK, &err);
        CHECK_EQ(r.failed ? r.first_status : 0, 0);
    }
}

struct beside {
    uint64_t get_at, put_at, delay_ns, took_ps;
    uint8_t memory[64];
};

/* Eight bytes are put, and eight are got by another: when the put is acknowledged. */
static int get_and_put(void *argument) {
    struct beside *b = argument;
    static uint8_t mine[16];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t acks;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    const ptl_process_t other = {.phys = {.nid = 1}};
    if (open_interface(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &acks) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {.start = b->memory,
                   .length = sizeof b->memory,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET};
    ptl_md_t all = {.start = mine,
                    .length = sizeof mine,
                    .options = PTL_MD_EVENT_CT_ACK,
                    .eq_handle = PTL_EQ_NONE,
                    .ct_handle = acks};
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) || PtlMDBind(ni, &all, &md))
        return 2;
    spin_barrier();
    if (spin_rank() == 0) {
        uint64_t from_ps = spin_now_ps();
        if (PtlPut(md, 8, 8, PTL_CT_ACK_REQ, other, pt, 0, b->put_at, NULL, 0) ||
            PtlCTWait(acks, 1, &event))
            return 3;
        b->took_ps = spin_now_ps() - from_ps;
    } else if (spin_rank() == 2) {
        spin_compute(b->delay_ns);
        if (PtlGet(md, 0, 8, other, pt, 0, b->get_at, NULL))
            return 4;
    }
    spin_barrier();
    return 0;
}

/* A small write waits for a read of the same bytes (world_nic.c), not for one of those beside. */
TEST(a_small_write_waits_for_a_read_of_the_same_bytes) {
    static const struct {
        uint64_t get_at, put_at;
        bool waits;
    } cases[] = {{0, 48, false}, {0, 8, false}, {8, 0, false},
                 {0, 0, true},   {0, 7, true},  {7, 0, true}};
    struct spin_error err;
    uint64_t free_ps = 0;
    for (int i = 0; i < 6; i++) {
        uint64_t longest_ps = 0;
        for (uint64_t delay_ns = 0; delay_ns < 1000; delay_ns += 50) {
            struct beside b = {
                .get_at = cases[i].get_at, .put_at = cases[i].put_at, .delay_ns = delay_ns};
            struct spin_world_options o = {.ranks = 3, .preset = "sc17-dis"};
            CHECK_EQ(run_world(&o, get_and_put, &b, SPIN_OK, &err).failed, 0);
            longest_ps = b.took_ps > longest_ps ? b.took_ps : longest_ps;
        }
        free_ps = i ? free_ps : longest_ps;
        CHECK_EQ(longest_ps > free_ps, cases[i].waits);
    }
}

struct behind {
    uint64_t delay_ns;
    uint8_t memory[64];
};

/* 64 bytes are put, and then eight of the same again; another gets the first eight. */
static int put_twice(void *argument) {
    struct behind *b = argument;
    static uint8_t mine[72], got[8];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t acks;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    const ptl_process_t other = {.phys = {.nid = 1}};
    if (open_interface(PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &acks) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {.start = b->memory,
                   .length = sizeof b->memory,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET};
    ptl_md_t all = {.start = spin_rank() ? got : mine,
                    .length = spin_rank() ? sizeof got : sizeof mine,
                    .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                    .eq_handle = PTL_EQ_NONE,
                    .ct_handle = acks};
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) || PtlMDBind(ni, &all, &md))
        return 2;
    memset(mine, 1, 64);
    memset(mine + 64, 2, 8);
    spin_barrier();
    if (spin_rank() == 0) {
        if (PtlPut(md, 0, 64, PTL_CT_ACK_REQ, other, pt, 0, 0, NULL, 0) ||
            PtlPut(md, 64, 8, PTL_CT_ACK_REQ, other, pt, 0, 32, NULL, 0) ||
            PtlCTWait(acks, 2, &event))
            return 3;
    } else if (spin_rank() == 2) {
        spin_compute(b->delay_ns);
        if (PtlGet(md, 0, 8, other, pt, 0, 0, NULL) || PtlCTWait(acks, 1, &event))
            return 4;
    }
    spin_barrier();
    return 0;
}

/* A small write that waits for a read is not overtaken by one that comes after it. */
TEST(small_writes_keep_their_order_behind_a_read) {
    static const char *const cards[][2] = {{"card=sc17", "dma_latency=250ns"},
                                           {"card=pspin", "pspin.pcie_latency=300ns"}};
    struct spin_error err;
    for (int card = 0; card < 2; card++)
        for (uint64_t delay_ns = 0; delay_ns < 1000; delay_ns += 50) {
            struct behind b = {.delay_ns = delay_ns};
            struct spin_world_options o = {.ranks = 3, .set = cards[card], .set_count = 2};
            CHECK_EQ(run_world(&o, put_twice, &b, SPIN_OK, &err).failed, 0);
            CHECK_EQ(b.memory[31], 1);
            CHECK_EQ(b.memory[32], 2);
            CHECK_EQ(b.memory[39], 2);
            CHECK_EQ(b.memory[40], 1);
        }
}

static int meet_all(void *argument) {
    (void)argument;
    spin_compute(spin_rank() % 100);
    spin_barrier();
    return spin_ranks() == 65536 && spin_now_ps() == 99000 ? 0 : 1;
}

TEST(sixty_five_thousand_ranks) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 65536};
    struct spin_world_result r = run_world(&o, meet_all, NULL, SPIN_OK, &err);
    CHECK_EQ(r.failed, 0);
    CHECK_EQ(r.makespan_ps, 99000);
}

/* ---- time -------------------------------------------------------------------------------------
 */

/* Every part of the way on one wire: nothing else is in it. */
TEST(pingpong_is_the_sum_of_its_parts) {
    static const char *const presets[] = {"sc17-int", "sc17-dis"};
    for (int d = 0; d < 2; d++) {
        const uint64_t n = 1024, L = d ? 250000 : 50000, G = d ? 15600 : 6700;
        const uint64_t dma = (n * G + 999) / 1000, wire = 33400 + n * 20;
        const uint64_t o = 65000, match = 30000, poll = 51000;
        const uint64_t read = dma + 2 * L, write = dma;
        struct p4_setup s = setup_of(P4_RDMA, presets[d], (uint32_t)n);
        s.world.topology = "link";
        /* The start is before the call, the end after the look. The CPU's matching reads a line. */
        uint64_t there = o + read + wire + match + write;
        uint64_t back_cpu = L + poll + 51000 + (64 * 6209 + 999) / 1000 + there;
        uint64_t seen = L + poll;
        struct p4_outcome rdma = run_case(p4_pingpong, &s);
        CHECK_EQ(rdma.time_ps, (there + back_cpu + seen) / 2);
        s.variant = P4_TRIGGERED; /* the same without the CPU */
        struct p4_outcome p4 = run_case(p4_pingpong, &s);
        CHECK_EQ(p4.time_ps, (there + (there - o) + seen) / 2);
        CHECK_EQ(rdma.world.counts.packets, 2);
        CHECK_EQ(rdma.world.counts.handlers, 0);
        s.variant = P4_STREAM; /* nor DMA: two handlers, a start each, some instructions */
        struct p4_outcome stream = run_case(p4_pingpong, &s);
        uint64_t without = (o + read + wire + match + wire + match + write + seen) / 2;
        CHECK_EQ(stream.world.counts.handlers, 3);
        CHECK(stream.time_ps > without && stream.time_ps < without + 40000);
    }
}

/* Packets of a message follow each other at the wire's rate. */
TEST(a_long_message_is_a_pipeline) {
    struct p4_setup s = setup_of(P4_TRIGGERED, "sc17-int", 1 << 20);
    s.world.topology = "link";
    uint64_t time = run_case(p4_pingpong, &s).time_ps;
    uint64_t wire = (1ull << 20) * 20; /* slower than DMA and memory */
    CHECK(time > wire && time < wire + 1000000);
}

static const char *const few_hpus[] = {"hpus=1"};

TEST(more_hpus_help_handlers_that_compute) {
    struct p4_setup s = setup_of(P4_STREAM, "sc17-int", 1 << 16);
    uint64_t four = run_case(p4_accumulate, &s).time_ps;
    s.world.set = few_hpus;
    s.world.set_count = 1;
    uint64_t one = run_case(p4_accumulate, &s).time_ps;
    CHECK(one > 3 * four && one < 5 * four);
}

static int busy_target(void *argument) {
    (void)argument;
    spin_compute(1000000);
    return 0;
}

TEST(noise_takes_time_from_programs) {
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2,
                                   .noise = {.period_ps = 10000000, .length_ps = 1000000}};
    uint64_t makespan = run_world(&o, busy_target, NULL, SPIN_OK, &err).makespan_ps;
    CHECK(makespan > 1090000000 && makespan < 1120000000);
}

/* ---- a handler that fails ---------------------------------------------------------------------
 */

/* Its state is smaller than it believes: the header handler stores outside of it. */
static int fail_on_card(void *argument) {
    const struct p4_setup *setup = argument;
    const uint32_t state = 0;
    struct p4_rank r;
    ptl_ct_event_t event = {0};
    bool target = spin_rank() > 0;
    if (!p4_open(&r, setup, 64, target ? "p4_pingpong" : NULL))
        return 1;
    if (target && !p4_append(&r, &(struct p4_entry){.length = 64,
                                                    .bits = 1,
                                                    .header = "pingpong_header_handler",
                                                    .state = &state,
                                                    .state_bytes = 4}))
        return 2;
    spin_barrier();
    int status = 0;
    for (uint32_t to = 1; !target && !status && to < spin_ranks(); to++)
        status = p4_put(&r, 0, 64, to, 1) ? 0 : 3;
    if (target &&
        (PtlCTWait(r.ct, 1, &event) != PTL_OK || event.failure != 1 || event.success != 0))
        status = 4;
    spin_barrier();
    p4_close(&r);
    return status;
}

struct told {
    int faults;
    bool of_rank[4];
    char first[600];
};

static void tell_fault(void *user, const char *text) {
    struct told *told = user;
    unsigned rank;
    CHECK(sscanf(text, "rank %u, HPU 0, pingpong_header_handler, ", &rank) == 1 && rank < 4);
    CHECK(!told->of_rank[rank]);
    told->of_rank[rank] = true;
    if (!told->faults++)
        snprintf(told->first, sizeof told->first, "%s", text);
}

/* With and without somebody who is told of each: the first one is kept, on both kinds of cards. */
TEST(every_fault_is_told_when_it_happens) {
    static const char *const set[] = {"card=pspin"};
    for (int i = 0; i < 4; i++) {
        struct p4_setup setup = setup_of(P4_STREAM, "sc17-int", 64);
        struct told told = {0};
        struct spin_world_options o = {.ranks = 4,
                                       .set = set,
                                       .set_count = i / 2,
                                       .fault = i % 2 ? tell_fault : NULL,
                                       .user = &told};
        struct spin_error err;
        struct spin_world *w;
        CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_OK);
        CHECK_EQ(spin_world_run(w, fail_on_card, &setup, &err), SPIN_OK);
        struct spin_world_result r = spin_world_result(w);
        CHECK_EQ(r.failed, 0);
        CHECK_EQ(r.counts.faults, 3);
        CHECK_EQ(told.faults, i % 2 ? 3 : 0);
        CHECK_HAS(r.first_fault, "rank 1, HPU 0, pingpong_header_handler, ");
        if (i % 2)
            CHECK_STR(told.first, r.first_fault);
        spin_world_free(w);
    }
}

TEST(a_handler_that_faults_costs_its_message) {
    struct p4_setup setup = setup_of(P4_STREAM, "sc17-int", 64);
    struct spin_world_options o = {.ranks = 2};
    struct spin_error err;
    struct spin_world *w;
    CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_OK);
    CHECK_EQ(spin_world_run(w, fail_on_card, &setup, &err), SPIN_OK);
    struct spin_world_result r = spin_world_result(w);
    CHECK_EQ(r.failed ? r.first_status : 0, 0);
    CHECK_EQ(r.counts.faults, 1);
    CHECK_HAS(r.first_fault, "rank 1, HPU 0, pingpong_header_handler, ");
    CHECK_HAS(r.first_fault, " ns: SEGV at pc 0x1d0000");
    /* Atomics need the host's alignment to be the handler's. */
    CHECK(w->executors > 0);
    for (uint32_t i = 0; i < w->executors; i++) {
        const struct hpu *h = &w->executor[i]->hpu;
        CHECK(h->windows > 2);
        for (uint32_t k = 0; k < h->windows; k++)
            CHECK_EQ(((uintptr_t)h->window[k].host - h->window[k].base) % 8, 0);
        CHECK_EQ((uintptr_t)w->executor[i]->stack % 16, 0);
    }
    spin_world_free(w);
}

/* ---- stopped runs -----------------------------------------------------------------------------
 */

struct stopped {
    struct p4_setup setup;
    uint8_t *buffer[2]; /* of ranks that have not returned */
};

/* As in p4_pingpong, without an end. */
static int echo(void *argument) {
    struct stopped *s = argument;
    const uint32_t state[] = {UINT32_MAX, 0, 0, 0, 0};
    uint32_t n = s->setup.bytes, me = spin_rank();
    struct p4_rank r;
    struct p4_entry entry = {.length = n, .bits = me ? 1 : 10, .counts_bytes = true};
    if (me) {
        entry.header = "pingpong_header_handler";
        entry.payload = "pingpong_payload_handler";
        entry.completion = "pingpong_completion_handler";
        entry.state = state;
        entry.state_bytes = sizeof state;
    }
    if (!p4_open(&r, &s->setup, n, me ? "p4_pingpong" : NULL))
        return 1;
    s->buffer[me] = r.buffer;
    if (!p4_append(&r, &entry))
        return 2;
    spin_barrier();
    if (!me && (!p4_put(&r, 0, n, 1, 1) || !p4_wait(&r, n)))
        return 3;
    spin_barrier();
    s->buffer[me] = NULL;
    p4_close(&r);
    return 0;
}

/* With packets on the wire, DMA and handlers under way: nothing of it is lost to a leak checker. */
TEST(a_run_can_be_stopped_at_any_time) {
    int stops = 0;
    for (uint64_t at = 50000; at < 4000000; at += 130000) {
        struct stopped s = {.setup = setup_of(P4_STREAM, "sc17-dis", 40000)};
        struct spin_error err;
        struct spin_world *w;
        struct spin_world_options o = {.ranks = 2, .preset = "sc17-dis", .until_ps = at};
        CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_OK);
        int code = spin_world_run(w, echo, &s, &err);
        CHECK(code == SPIN_OK || code == SPIN_ELIMIT);
        stops += code == SPIN_ELIMIT;
        CHECK_EQ(spin_world_result(w).failed, 0);
        spin_world_free(w);
        free(s.buffer[0]);
        free(s.buffer[1]);
    }
    CHECK(stops > 10 && stops < 30);
}

/* ---- the use cases: each checks its data ------------------------------------------------------
 */

TEST(pingpong_returns_every_byte) {
    static const uint32_t sizes[] = {1, 8, 100, 4095, 4096, 4097, 8192, 70000};
    for (int d = 0; d < 2; d++)
        for (int v = 0; v < P4_VARIANTS; v++)
            for (int i = 0; i < 8; i++) {
                struct p4_setup s =
                    setup_of((enum p4_variant)v, d ? "sc17-dis" : "sc17-int", sizes[i]);
                struct p4_outcome o = run_case(p4_pingpong, &s);
                CHECK_EQ(o.world.counts.handlers > 0, v >= P4_STORE);
            }
}

TEST(accumulate_is_the_complex_product) {
    static const uint32_t sizes[] = {8, 64, 4096, 4104, 65536};
    for (int v = 0; v < P4_VARIANTS; v += P4_STREAM)
        for (int i = 0; i < 5; i++) {
            struct p4_setup s = setup_of((enum p4_variant)v, "sc17-dis", sizes[i]);
            struct p4_outcome o = run_case(p4_accumulate, &s);
            CHECK_EQ(o.world.counts.handlers, v == P4_STREAM ? (sizes[i] + 4095) / 4096 + 1 : 0);
            CHECK_EQ(o.world.counts.handled_packets, v == P4_STREAM ? (sizes[i] + 4095) / 4096 : 0);
            CHECK_EQ(o.world.counts.handled_bytes, v == P4_STREAM ? sizes[i] : 0);
        }
}

TEST(broadcast_reaches_everybody) {
    static const uint32_t sizes[] = {8, 4096, 10000, 65536};
    for (uint32_t ranks = 2; ranks <= 64; ranks *= 2)
        for (int v = 0; v < P4_VARIANTS; v++)
            for (int i = 0; i < 4; i++) {
                struct p4_setup s = setup_of((enum p4_variant)v, "sc17-int", sizes[i]);
                s.ranks = ranks;
                run_case(p4_broadcast, &s);
            }
}

TEST(strided_and_raid) {
    for (int v = 0; v < P4_VARIANTS; v += P4_STREAM) {
        struct p4_setup s = setup_of((enum p4_variant)v, "sc17-dis", 100000);
        run_case(p4_strided, &s);
    }
    struct p4_setup s = setup_of(P4_STREAM, "sc17-dis", 4096);
    struct p4_outcome o = run_case(p4_raid, &s);
    CHECK_EQ(o.world.counts.handlers, 2 + 3 + 1);
    CHECK_EQ(o.world.counts.handled_packets, 3); /* the write, the change, "stored" */
    CHECK_EQ(o.world.counts.handled_bytes, 4096 + 4096 + 1);
}

/* ---- a network that loses, repeats and reorders -----------------------------------------------
 */

static const char *const faulty[] = {
    "loss=0.1",           "duplication=0.1", "reordering=0.1", "reorder_delay=5us",
    "retry_timeout=20us", "retries=20",      "seed=7"};

TEST(faults_cost_time_and_no_byte) {
    for (int v = 0; v < P4_VARIANTS; v++) {
        struct p4_setup s = setup_of((enum p4_variant)v, "sc17-int", 300000);
        uint64_t clean = run_case(p4_pingpong, &s).time_ps;
        s.world.set = faulty;
        s.world.set_count = 7;
        struct p4_outcome o = run_case(p4_pingpong, &s);
        CHECK(o.world.counts.lost > 5);
        CHECK(o.world.counts.retransmitted > 5);
        CHECK(o.time_ps > clean);
        s.ranks = 16;
        s.bytes = 20000;
        run_case(p4_broadcast, &s);
    }
}

/* ---- determinism, and worlds beside and inside each other --------------------------------------
 */

TEST(the_same_run_twice) {
    struct p4_setup s = setup_of(P4_STREAM, "sc17-dis", 65536);
    s.ranks = 32;
    struct p4_outcome a = run_case(p4_broadcast, &s), b = run_case(p4_broadcast, &s);
    CHECK_EQ(a.time_ps, b.time_ps);
    CHECK(memcmp(&a.world.counts, &b.world.counts, sizeof a.world.counts) == 0);
}

static uint64_t inner_time;

static int run_inner(void *argument) {
    (void)argument;
    spin_compute(5);
    if (spin_rank() == 1) {
        struct p4_setup s = setup_of(P4_STREAM, "sc17-int", 5000);
        inner_time = run_case(p4_pingpong, &s).time_ps;
    }
    /* Afterwards this is rank 1 of this world again. */
    return spin_ranks() == 3 && spin_now_ps() == 5000 ? 0 : 1;
}

TEST(generated_code_changes_nothing) {
#ifdef OPENSPIN_JIT
    const enum spin_jit compiled = SPIN_JIT_FORCE;
#else
    const enum spin_jit compiled = SPIN_JIT_ON;
#endif
    struct p4_setup s = setup_of(P4_STREAM, "sc17-int", 30000);
    s.ranks = 16;
    uint64_t times[2];
    for (int i = 0; i < 2; i++) {
        s.world.jit = i ? compiled : SPIN_JIT_OFF;
        times[i] = run_case(p4_broadcast, &s).time_ps;
    }
    CHECK_EQ(times[0], times[1]);
}

TEST(a_world_inside_a_world) {
    struct spin_error err;
    struct p4_setup s = setup_of(P4_STREAM, "sc17-int", 5000);
    uint64_t alone = run_case(p4_pingpong, &s).time_ps;
    struct spin_world_options o = {.ranks = 3};
    const char *const big[] = {"stack=1MiB"};
    o.set = big;
    o.set_count = 1;
    CHECK_EQ(run_world(&o, run_inner, NULL, SPIN_OK, &err).failed, 0);
    CHECK_EQ(inner_time, alone);
}

TEST(two_worlds_side_by_side) {
    struct spin_error err;
    struct spin_world *a, *b;
    struct spin_world_options o = {.ranks = 3}, p = {.ranks = 3, .preset = "sc17-dis"};
    CHECK_EQ(spin_world_new(&a, &o, &err), SPIN_OK);
    CHECK_EQ(spin_world_new(&b, &p, &err), SPIN_OK);
    CHECK_EQ(spin_world_run(b, compute, NULL, &err), SPIN_OK);
    CHECK_EQ(spin_world_run(a, compute, NULL, &err), SPIN_OK);
    CHECK_EQ(spin_world_run(a, compute, NULL, &err), SPIN_EARG);
    CHECK_HAS(err.text, "a world runs once");
    CHECK_EQ(spin_world_result(a).makespan_ps, spin_world_result(b).makespan_ps);
    spin_world_free(a);
    spin_world_free(b);
}

/* ---- parameters -------------------------------------------------------------------------------
 */

static void refuse(const char *setting, const char *why) {
    struct spin_error err = {0};
    struct spin_world *w;
    struct spin_world_options o = {.ranks = 2, .set = &setting, .set_count = 1};
    if (spin_world_new(&w, &o, &err) == SPIN_OK)
        TEST_FAIL("%s is taken", setting);
    CHECK_HAS(err.text, why);
}

TEST(parameters_are_checked_and_shown) {
    struct spin_error err;
    struct spin_world *w;
    struct spin_parameter row;
    refuse("hpus=65", "hpus: '65' is outside the limits, 0 to 64");
    refuse("o=fast", "o: 'fast' is not a time");
    refuse("stack=1", "stack: '1' is outside the limits");
    refuse("speed=9", "unknown parameter 'speed'");
    refuse("mtu=100", "a multiple of 64");
    refuse("fail_links=1", "links of a world do not break");
    struct spin_world_options o = {.ranks = 0};
    CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_EARG);
    CHECK_HAS(err.text, "a world of 0 ranks; the limits are 1 and 65536");
    o = (struct spin_world_options){.ranks = 2, .preset = "pspin"};
    CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_EARG);
    CHECK_HAS(err.text, "unknown preset 'pspin'");
    o = (struct spin_world_options){.ranks = 5, .topology = "link"};
    CHECK(spin_world_new(&w, &o, &err) != SPIN_OK);
    const char *const set[] = {"hpus=8", "loss=0.5"};
    o = (struct spin_world_options){.ranks = 2, .set = set, .set_count = 2};
    CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_OK);
    int seen = 0;
    for (int i = 0; spin_world_parameter(w, i, &row); i++) {
        CHECK(row.what[0] && row.source[0] && row.value[0]);
        if (strcmp(row.name, "hpus") == 0) {
            CHECK_STR(row.value, "8");
            CHECK_STR(row.source, "set by the user");
            seen++;
        }
        if (strcmp(row.name, "o") == 0) {
            CHECK_STR(row.value, "65 ns");
            CHECK_HAS(row.source, "SC'17");
            seen++;
        }
        if (strcmp(row.name, "loss") == 0)
            CHECK_STR(row.value, "0.5");
    }
    CHECK_EQ(seen, 2);
    spin_world_free(w);
}

/* ---- ranks that make no calls -----------------------------------------------------------------
 */

static volatile int flag;

__attribute__((noinline)) static void watch_the_flag(void) {
    while (!flag)
        ;
}

static int watch_memory(void *argument) {
    (void)argument;
    if (spin_rank() == 1)
        watch_the_flag();
    spin_barrier();
    return 0;
}

TEST(a_function_that_watches_memory_is_named) {
    static const char *const set[] = {"patience=1"};
    struct spin_error err;
    struct spin_world_options o = {.ranks = 3, .set = set, .set_count = 1, .catch_crashes = true};
    run_world(&o, watch_memory, NULL, SPIN_ELIMIT, &err);
    CHECK_HAS(err.text, "rank 1 watches memory in ");
    CHECK_HAS(err.text, " for 1 s without a call; ");
}

TEST_MAIN
