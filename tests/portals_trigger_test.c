/* Triggered operations, and flow control under overload. */
#include "lib/test_wire.h"

#define LOGICAL (PTL_NI_MATCHING | PTL_NI_LOGICAL)

static ptl_handle_ni_t ni;
static uint64_t memory[WIRE_PROCESSES][64];

static ptl_handle_ct_t counter(void) {
    ptl_handle_ct_t ct;
    CHECK_OK(PtlCTAlloc(ni, &ct));
    return ct;
}

/* An entry of the portal table, with an event queue. */
static ptl_pt_index_t table_with(ptl_handle_eq_t *eq) {
    ptl_pt_index_t pt;
    CHECK_OK(PtlEQAlloc(ni, 32, eq));
    CHECK_OK(PtlPTAlloc(ni, 0, *eq, PTL_PT_ANY, &pt));
    return pt;
}

static uint64_t value(ptl_handle_ct_t ct) {
    ptl_ct_event_t count;
    CHECK_OK(PtlCTGet(ct, &count));
    return count.success;
}

static void add(ptl_handle_ct_t ct, uint64_t success) {
    CHECK_OK(PtlCTInc(ct, (ptl_ct_event_t){success, 0}));
}

static ptl_handle_md_t descriptor(void *start, uint64_t length, ptl_handle_ct_t ct,
                                  unsigned options) {
    ptl_handle_md_t handle;
    ptl_md_t md = {start, length, options, PTL_EQ_NONE, ct};
    CHECK_OK(PtlMDBind(ni, &md, &handle));
    return handle;
}

static ptl_me_t entry(void *start, uint64_t length, uint64_t bits, ptl_handle_ct_t ct) {
    ptl_me_t me = {.start = start,
                   .length = length,
                   .ct_handle = ct,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET |
                              (ct == PTL_CT_NONE ? 0 : PTL_ME_EVENT_CT_COMM),
                   .match_bits = bits};
    me.match_id.rank = PTL_RANK_ANY;
    return me;
}

TEST(operations_wait_for_their_threshold) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_ct_t a = counter(), b = counter(), c = counter();
    CHECK_OK(PtlTriggeredCTInc(b, (ptl_ct_event_t){10, 0}, a, 3));
    CHECK_OK(PtlTriggeredCTSet(c, (ptl_ct_event_t){7, 1}, a, 2));
    add(a, 1);
    CHECK_EQ(value(b) + value(c), 0);
    add(a, 1);
    CHECK_EQ(value(c), 7);
    CHECK_EQ(value(b), 0);
    CHECK_OK(PtlCTInc(a, (ptl_ct_event_t){0, 5})); /* failures trigger nothing */
    CHECK_EQ(value(b), 0);
    add(a, 1);
    CHECK_EQ(value(b), 10);
    CHECK_OK(PtlCTSet(a, (ptl_ct_event_t){0, 0}));
    add(a, 100);
    CHECK_EQ(value(b), 10);                                         /* once */
    CHECK_OK(PtlTriggeredCTInc(b, (ptl_ct_event_t){1, 0}, a, 100)); /* reached already */
    CHECK_EQ(value(b), 11);
    CHECK_OK(PtlTriggeredCTInc(b, (ptl_ct_event_t){1, 0}, a, 0));
    CHECK_EQ(value(b), 12);
    wire_free(w);
}

TEST(they_fire_by_threshold_then_as_they_came) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_ct_t a = counter(), b = counter();
    uint64_t thresholds[] = {5, 3, 5, 4, 3};
    for (uint64_t i = 0; i < 5; i++)
        CHECK_OK(PtlTriggeredCTSet(b, (ptl_ct_event_t){i + 1, 0}, a, thresholds[i]));
    uint64_t after[] = {0, 0, 0, 5, 4, 3};
    for (int i = 1; i <= 5; i++) {
        add(a, 1);
        CHECK_EQ(value(b), after[i]);
    }
    wire_free(w);
}

STEP_TEST(arguments_and_cancelling) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_ni_t other;
    CHECK_OK(PtlNIInit(0, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL, &other));
    ptl_handle_ct_t a = counter(), b = counter(), foreign;
    CHECK_OK(PtlCTAlloc(other, &foreign));
    ptl_ct_event_t one = {1, 0};
    ptl_process_t to = wire_rank(1);
    ptl_handle_md_t md = descriptor(memory[0], 64, PTL_CT_NONE, 0);
    ptl_me_t me = entry(memory[0], 8, 1, PTL_CT_NONE);
    ptl_handle_me_t handle;
    ptl_pt_index_t pt;
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
#define BAD(call) CHECK_EQ(call, PTL_ARG_INVALID)
    BAD(PtlTriggeredCTInc(b, one, foreign, 1));
    BAD(PtlTriggeredCTInc(b, one, PTL_CT_NONE, 1));
    BAD(PtlTriggeredCTInc(PTL_CT_NONE, one, a, 1));
    BAD(PtlTriggeredCTSet(md, one, a, 1));
    BAD(PtlTriggeredPut(PTL_INVALID_HANDLE, 0, 8, 0, to, pt, 0, 0, NULL, 0, a, 1));
    BAD(PtlTriggeredPut(md, 0, 65, 0, to, pt, 0, 0, NULL, 0, a, 1));
    BAD(PtlTriggeredGet(md, 60, 8, to, pt, 0, 0, NULL, a, 1));
    BAD(PtlTriggeredAtomic(md, 0, 8, 0, to, pt, 0, 0, NULL, 0, PTL_SWAP, PTL_INT8_T, a, 1));
    BAD(PtlTriggeredFetchAtomic(md, 0, md, 0, 8, to, pt, 0, 0, NULL, 0, PTL_MIN, PTL_FLOAT_COMPLEX,
                                a, 1));
    BAD(PtlTriggeredSwap(md, 0, md, 0, 8, to, pt, 0, 0, NULL, 0, NULL, PTL_CSWAP, PTL_INT64_T, a,
                         1));
    BAD(PtlTriggeredMEAppend(ni, pt, &me, 2, NULL, &handle, a, 1));
    BAD(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, foreign, 1));
    BAD(PtlTriggeredMEAppend(other, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, foreign, 1));
    BAD(PtlTriggeredMEUnlink(PTL_INVALID_HANDLE, a, 1));
#undef BAD
    CHECK_OK(PtlTriggeredPut(md, 0, 8, 0, to, pt, 0, 0, NULL, 0, a, 1));
    CHECK_OK(PtlTriggeredCTInc(b, one, a, 1));
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, a, 1));
    CHECK_OK(PtlMEUnlink(handle)); /* it is never appended, and nothing else is cancelled */
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, a, 1));
    CHECK_OK(PtlCTCancelTriggered(a));
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    add(a, 5);
    CHECK_EQ(value(b), 0);
    CHECK_EQ(w->queued, 0);
    CHECK_OK(PtlPTFree(ni, pt));
    /* a descriptor released before it fires: nothing is sent */
    CHECK_OK(PtlTriggeredPut(md, 0, 8, 0, to, pt, 0, 0, NULL, 0, a, 6));
    CHECK_OK(PtlMDRelease(md));
    add(a, 1);
    CHECK_EQ(w->queued, 0);
    /* a counter freed with operations */
    CHECK_OK(PtlTriggeredCTInc(b, one, a, 100));
    CHECK_OK(PtlCTFree(a));
    CHECK_EQ(value(b), 0);
    wire_free(w);
}

TEST(a_chain_of_counters_of_any_length) {
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_cts = limits.max_triggered_ops = 200000;
    struct wire *w = wire_with(LOGICAL, &limits, &ni);
    enum { LENGTH = 150000 };
    ptl_handle_ct_t *ct = malloc(LENGTH * sizeof *ct);
    for (int i = 0; i < LENGTH; i++)
        ct[i] = counter();
    for (int i = 0; i + 1 < LENGTH; i++)
        CHECK_OK(PtlTriggeredCTInc(ct[i + 1], (ptl_ct_event_t){1, 0}, ct[i], 1));
    add(ct[0], 1); /* without as much stack */
    CHECK_EQ(value(ct[LENGTH - 1]), 1);
    free(ct);
    wire_free(w);
}

/* Rank 1 has an entry over its memory; rank 0 goes on. */
static ptl_pt_index_t target(struct wire *w) {
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    wire_as(w, 1);
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    ptl_me_t me = entry(memory[1], 512, 1, PTL_CT_NONE);
    CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    wire_as(w, 0);
    return pt;
}

TEST(a_triggered_put_sends_what_is_there_when_it_fires) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_pt_index_t pt = target(w);
    ptl_handle_ct_t a = counter();
    ptl_handle_md_t md = descriptor(memory[0], 512, PTL_CT_NONE, PTL_MD_VOLATILE);
    memory[0][0] = 1;
    CHECK_OK(PtlTriggeredPut(md, 0, 8, 0, wire_rank(1), pt, 1, 0, NULL, 0, a, 1));
    memory[0][0] = 2;
    add(a, 1);
    wire_run(w);
    CHECK_EQ(memory[1][0], 2);
    wire_free(w);
}

/* A binary tree of triggered puts and atomics: the sum of all processes arrives at all of them,
 * though none of them calls anything after setting it up (progress). */
TEST(a_reduction_and_a_broadcast_by_triggers_alone) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_ct_t up[4], down[4], start[4];
    ptl_handle_md_t md[4];
    ptl_handle_me_t handle;
    ptl_pt_index_t pt;
    memset(memory, 0, sizeof memory);
    for (uint32_t i = 0; i < 4; i++) {
        wire_as(w, i);
        CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
        up[i] = counter();
        down[i] = counter();
        start[i] = counter();
        memory[i][0] = 1u << (4 * i);
        ptl_me_t me = entry(memory[i], 8, 1, up[i]); /* sums */
        CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
        me = entry(memory[i] + 8, 8, 2, down[i]); /* the result */
        CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
        md[i] = descriptor(memory[i], 512, PTL_CT_NONE, 0);
    }
    uint32_t parent[] = {0, 0, 0, 1}, children[] = {2, 1, 0, 0};
    for (uint32_t i = 0; i < 4; i++) {
        wire_as(w, i);
        CHECK_OK(PtlTriggeredCTInc(up[i], (ptl_ct_event_t){1, 0}, start[i], 1));
        if (i)
            CHECK_OK(PtlTriggeredAtomic(md[i], 0, 8, 0, wire_rank(parent[i]), pt, 1, 0, NULL, 0,
                                        PTL_SUM, PTL_UINT64_T, up[i], children[i] + 1));
        else
            CHECK_OK(PtlTriggeredPut(md[0], 0, 8, 0, wire_rank(0), pt, 2, 0, NULL, 0, up[0], 3));
        for (uint32_t child = 1; child < 4; child++)
            if (parent[child] == i)
                CHECK_OK(PtlTriggeredPut(md[i], 64, 8, 0, wire_rank(child), pt, 2, 0, NULL, 0,
                                         down[i], 1));
    }
    for (uint32_t i = 0; i < 4; i++) {
        wire_as(w, i);
        add(start[i], 1);
    }
    portals_enter(NULL); /* nobody calls anything now */
    struct rng r = rng_seeded(4);
    wire_run_shuffled(w, &r);
    for (int i = 0; i < 4; i++)
        CHECK_EQ(memory[i][8], 0x1111);
    wire_free(w);
}

STEP_TEST(every_triggered_movement) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_pt_index_t pt = target(w);
    ptl_handle_ct_t a = counter(), replies = counter();
    ptl_handle_md_t md = descriptor(memory[0], 512, replies, PTL_MD_EVENT_CT_REPLY);
    ptl_process_t to = wire_rank(1);
    uint64_t operand = 30;
    for (int i = 0; i < 64; i++) {
        memory[0][i] = 0;
        memory[1][i] = 10u * (unsigned)i;
    }
    memory[0][20] = 5;
    memory[0][21] = 99;
    CHECK_OK(PtlTriggeredGet(md, 0, 16, to, pt, 1, 8, NULL, a, 1));
    CHECK_OK(PtlTriggeredFetchAtomic(md, 80, md, 160, 8, to, pt, 1, 32, NULL, 0, PTL_SUM,
                                     PTL_UINT64_T, a, 1));
    CHECK_OK(PtlTriggeredSwap(md, 88, md, 168, 8, to, pt, 1, 24, NULL, 0, &operand, PTL_CSWAP,
                              PTL_UINT64_T, a, 1));
    operand = 0; /* copied by the call */
    CHECK_EQ(w->queued, 0);
    add(a, 1);
    CHECK_EQ(w->queued, 3);
    wire_run(w);
    CHECK_EQ(memory[0][0], 10);
    CHECK_EQ(memory[0][1], 20);
    CHECK_EQ(memory[0][10], 40);
    CHECK_EQ(memory[1][4], 45);
    CHECK_EQ(memory[0][11], 30);
    CHECK_EQ(memory[1][3], 99);
    CHECK_EQ(value(replies), 3);
    wire_free(w);
}

STEP_TEST(triggered_append_and_unlink) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_eq_t eq;
    ptl_event_t ev;
    ptl_handle_me_t handle, buffer;
    ptl_pt_index_t pt = table_with(&eq);
    ptl_handle_ct_t a = counter();
    ptl_handle_md_t md = descriptor(memory[0], 512, PTL_CT_NONE, 0);
    ptl_me_t me = entry(memory[1], 512, 1, PTL_CT_NONE);
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, (void *)5, &handle, a, 1));
    CHECK_OK(PtlTriggeredMEUnlink(handle, a, 2));
    CHECK_OK(PtlPut(md, 0, 8, 0, wire_rank(0), pt, 1, 0, NULL, 0));
    wire_run(w); /* dropped */
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
    add(a, 1);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_LINK);
    CHECK(ev.user_ptr == (void *)5);
    CHECK_OK(PtlPut(md, 0, 8, 0, wire_rank(0), pt, 1, 0, NULL, 0));
    struct wire_transit t = wire_begin(w, 0);
    add(a, 1); /* unlinked while a message arrives: that one ends, no other comes */
    CHECK_OK(PtlPut(md, 0, 9, 0, wire_rank(0), pt, 1, 0, NULL, 0));
    wire_end(w, &t, (struct portals_ending){0});
    wire_run(w);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_PUT);
    CHECK_EQ(ev.mlength, 8);
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    /* one that finds its message in the overflow list */
    me.options |= PTL_ME_EVENT_LINK_DISABLE;
    CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_OVERFLOW_LIST, NULL, &buffer));
    CHECK_OK(PtlPut(md, 0, 10, 0, wire_rank(0), pt, 1, 0, NULL, 0));
    wire_run(w);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_OK(PtlTriggeredMEUnlink(buffer, a, 3)); /* goes when its header is gone */
    add(a, 1);
    me.options |= PTL_ME_USE_ONCE;
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, (void *)6, &handle, a, 4));
    add(a, 1);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_PUT_OVERFLOW);
    CHECK(ev.user_ptr == (void *)6);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_AUTO_UNLINK);
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

/* The entry is appended when the operation fires: behind those that came before that. */
STEP_TEST(a_triggered_append_is_last_when_it_fires) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_eq_t eq;
    ptl_event_t ev;
    ptl_handle_me_t handle;
    ptl_pt_index_t pt = table_with(&eq);
    ptl_handle_ct_t a = counter();
    ptl_handle_md_t md = descriptor(memory[0], 512, PTL_CT_NONE, 0);
    ptl_me_t exact = entry(memory[1], 512, 1, PTL_CT_NONE),
             any = entry(memory[1], 512, 0, PTL_CT_NONE);
    any.ignore_bits = UINT64_MAX;
    exact.options |= PTL_ME_EVENT_LINK_DISABLE;
    any.options |= PTL_ME_EVENT_LINK_DISABLE;
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &exact, PTL_PRIORITY_LIST, (void *)5, &handle, a, 1));
    CHECK_OK(PtlMEAppend(ni, pt, &any, PTL_PRIORITY_LIST, (void *)6, &handle));
    add(a, 1);
    CHECK_OK(PtlPut(md, 0, 8, 0, wire_rank(0), pt, 1, 0, NULL, 0));
    wire_run(w);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_PUT);
    CHECK(ev.user_ptr == (void *)6);
    wire_free(w);
}

/* One counter's turn has come for both: the unlink is first, and the append does not happen. */
STEP_TEST(an_entry_may_be_unlinked_before_it_is_appended) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    wire_as(w, 0);
    ptl_handle_ct_t a = counter(), b = counter();
    ptl_me_t me = entry(memory[0], 8, 1, PTL_CT_NONE);
    ptl_handle_me_t handle;
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_event_t event;
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    CHECK_OK(PtlEQAlloc(ni, 8, &eq));
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, b, 1));
    CHECK_OK(PtlTriggeredCTInc(b, (ptl_ct_event_t){1, 0}, a, 1));
    CHECK_OK(PtlTriggeredMEUnlink(handle, a, 1));
    add(a, 1);
    CHECK_EQ(value(b), 1);
    CHECK_EQ(PtlEQGet(eq, &event), PTL_EQ_EMPTY);
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

TEST(a_triggered_append_to_a_full_list_says_so) {
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_list_size = 1;
    struct wire *w = wire_with(LOGICAL, &limits, &ni);
    ptl_handle_eq_t eq;
    ptl_event_t ev;
    ptl_handle_me_t handle;
    ptl_pt_index_t pt = table_with(&eq);
    ptl_handle_ct_t a = counter();
    ptl_me_t me = entry(memory[1], 512, 1, PTL_CT_NONE);
    for (uint64_t i = 1; i <= 2; i++)
        CHECK_OK(PtlTriggeredMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle, a, i));
    add(a, 2);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(PtlEQGet(eq, &ev));
        CHECK_EQ(ev.type, PTL_EVENT_LINK);
        CHECK_EQ(ev.ni_fail_type, i ? PTL_NI_DROPPED : PTL_NI_OK);
    }
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    wire_free(w);
}

/* ---- Flow control ---- */

/* Three senders with acknowledgements; process 0 is the target. */
struct sender {
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    uint64_t next, acknowledged; /* numbers of messages, which are to arrive in order */
};

static void set_up_senders(struct wire *w, struct sender *senders) {
    for (uint32_t i = 1; i < WIRE_PROCESSES; i++) {
        wire_as(w, i);
        CHECK_OK(PtlEQAlloc(ni, 4096, &senders[i].eq));
        ptl_md_t md = {memory[i], sizeof memory[i], PTL_MD_EVENT_SEND_DISABLE, senders[i].eq,
                       PTL_CT_NONE};
        CHECK_OK(PtlMDBind(ni, &md, &senders[i].md));
    }
}

/* What may run out, and that the entry recovers from it: every message is delivered once, in order,
 * though senders go back to the first one that was refused. */
static void overload(const ptl_ni_limits_t *limits, uint32_t events, unsigned overflow_options,
                     int buffers) {
    struct wire *w = wire_with(LOGICAL, limits, &ni);
    struct sender senders[WIRE_PROCESSES] = {0};
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    enum { MESSAGES = 40 };
    uint64_t got[WIRE_PROCESSES] = {0}, disabled = 0, refused = 0, target = 0;
    wire_as(w, 0);
    CHECK_OK(PtlEQAlloc(ni, events, &eq));
    CHECK_OK(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, eq, PTL_PT_ANY, &pt));
    ptl_me_t over = entry(memory[0], 512, 0, PTL_CT_NONE);
    over.options |= overflow_options | PTL_ME_EVENT_LINK_DISABLE;
    over.ignore_bits = ~0ull;
    set_up_senders(w, senders);
    struct rng r = rng_seeded(events);
    for (int round = 0; round < 2000 && target < 3 * MESSAGES; round++) {
        wire_as(w, 0);
        for (int i = 0; i < buffers && overflow_options & PTL_ME_USE_ONCE; i++)
            CHECK_OK(PtlMEAppend(ni, pt, &over, PTL_OVERFLOW_LIST, NULL, &handle));
        if (round == 0 && !(overflow_options & PTL_ME_USE_ONCE))
            CHECK_OK(PtlMEAppend(ni, pt, &over, PTL_OVERFLOW_LIST, NULL, &handle));
        for (uint32_t i = 1; i < WIRE_PROCESSES; i++) {
            wire_as(w, i);
            for (int k = 0; k < 10 && senders[i].next < MESSAGES; k++, senders[i].next++)
                CHECK_OK(PtlPut(senders[i].md, 0, 8, PTL_ACK_REQ, wire_rank(0), pt, 0, 0,
                                (void *)senders[i].next, senders[i].next));
        }
        wire_run(w);
        for (uint32_t i = 1; i < WIRE_PROCESSES; i++) { /* go back to the first refused */
            ptl_event_t ev;
            bool failed = false;
            wire_as(w, i);
            while (PtlEQGet(senders[i].eq, &ev) == PTL_OK) {
                CHECK_EQ(ev.type, PTL_EVENT_ACK);
                if (ev.ni_fail_type == PTL_NI_OK) {
                    CHECK(!failed); /* nothing is accepted behind a refusal */
                    CHECK_EQ((uintptr_t)ev.user_ptr, senders[i].acknowledged);
                    senders[i].acknowledged++;
                } else {
                    CHECK_EQ(ev.ni_fail_type, PTL_NI_PT_DISABLED);
                    failed = true;
                    refused++;
                }
            }
            senders[i].next = senders[i].acknowledged;
        }
        /* the target takes some of its events, some rounds none, and recovers */
        wire_as(w, 0);
        ptl_event_t ev;
        int code = PTL_EQ_EMPTY;
        bool stopped = false;
        for (uint32_t k = 0; rng_below(&r, 3) && k < 1 + events / 2; k++)
            if ((code = PtlEQGet(eq, &ev)) == PTL_OK) {
                if (ev.type == PTL_EVENT_PUT) {
                    CHECK_EQ(ev.hdr_data, got[ev.initiator.rank]); /* once, in order */
                    got[ev.initiator.rank]++;
                    target++;
                } else if (ev.type == PTL_EVENT_PT_DISABLED) {
                    CHECK_EQ(ev.pt_index, pt);
                    stopped = true;
                    disabled++;
                }
            } else {
                CHECK_EQ(code, PTL_EQ_EMPTY); /* never PTL_EQ_DROPPED */
            }
        if (stopped) {
            ptl_me_t all = entry(NULL, 0, 0, PTL_CT_NONE);
            all.ignore_bits = ~0ull;
            all.options |= PTL_ME_EVENT_OVER_DISABLE;
            CHECK_OK(PtlMESearch(ni, pt, &all, PTL_SEARCH_DELETE, NULL));
            while (PtlEQGet(eq, &ev) == PTL_OK)
                if (ev.type == PTL_EVENT_PUT) {
                    CHECK_EQ(ev.hdr_data, got[ev.initiator.rank]);
                    got[ev.initiator.rank]++;
                    target++;
                }
            CHECK_OK(PtlPTEnable(ni, pt));
        }
    }
    for (int i = 1; i < WIRE_PROCESSES; i++)
        CHECK_EQ(got[i], MESSAGES);
    CHECK(disabled > 2 && refused > 2);
    wire_free(w);
}

TEST(flow_control_when_the_queue_is_full) {
    overload(NULL, 8, PTL_ME_UNEXPECTED_HDR_DISABLE, 0);
}

TEST(flow_control_when_headers_run_out) {
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_unexpected_headers = 5;
    overload(&limits, 200, 0, 0);
}

TEST(flow_control_when_buffers_run_out) {
    overload(NULL, 200, PTL_ME_USE_ONCE | PTL_ME_UNEXPECTED_HDR_DISABLE, 2);
}

TEST(without_flow_control_messages_are_dropped) {
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_unexpected_headers = 2;
    struct wire *w = wire_with(LOGICAL, &limits, &ni);
    struct sender senders[WIRE_PROCESSES] = {0};
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    ptl_sr_value_t dropped;
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    ptl_me_t over = entry(memory[0], 512, 0, PTL_CT_NONE);
    over.options |= PTL_ME_MANAGE_LOCAL;
    CHECK_OK(PtlMEAppend(ni, pt, &over, PTL_OVERFLOW_LIST, NULL, &handle));
    set_up_senders(w, senders);
    wire_as(w, 1);
    for (int i = 0; i < 4; i++)
        CHECK_OK(PtlPut(senders[1].md, 0, 8, PTL_ACK_REQ, wire_rank(0), pt, 0, 0, NULL, 0));
    wire_run(w);
    for (int i = 0; i < 4; i++) {
        ptl_event_t ev;
        CHECK_OK(PtlEQGet(senders[1].eq, &ev));
        CHECK_EQ(ev.ni_fail_type, i < 2 ? PTL_NI_OK : PTL_NI_DROPPED);
        CHECK_EQ(ev.remote_offset, i < 2 ? i * 8 : 0); /* a refused one takes no room */
    }
    wire_as(w, 0);
    CHECK_OK(PtlNIStatus(ni, PTL_SR_DROP_COUNT, &dropped));
    CHECK_EQ(dropped, 2);
    wire_free(w);
}

static void end_transit(struct wire *w);
static struct wire_transit held;

STEP_TEST(disabling_waits_for_what_is_being_delivered) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    struct sender senders[WIRE_PROCESSES] = {0};
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    ptl_event_t ev;
    CHECK_OK(PtlEQAlloc(ni, 8, &eq));
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    ptl_me_t me = entry(memory[0], 512, 0, PTL_CT_NONE);
    me.options |= PTL_ME_EVENT_LINK_DISABLE;
    CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    set_up_senders(w, senders);
    wire_as(w, 1);
    CHECK_OK(PtlPut(senders[1].md, 0, 8, PTL_ACK_REQ, wire_rank(0), pt, 0, 0, NULL, 0));
    CHECK_OK(PtlPut(senders[1].md, 0, 9, PTL_ACK_REQ, wire_rank(0), pt, 0, 0, NULL, 0));
    held = wire_begin(w, 0);
    wire_as(w, 0);
    w->on_wait = end_transit;
    CHECK_OK(PtlPTDisable(ni, pt)); /* the event of what was under way is in */
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, PTL_EVENT_PUT);
    wire_run(w);
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY); /* and no PT_DISABLED: the program asked for it */
    wire_as(w, 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(PtlEQGet(senders[1].eq, &ev));
        CHECK_EQ(ev.ni_fail_type, i ? PTL_NI_PT_DISABLED : PTL_NI_OK);
    }
    wire_as(w, 0);
    CHECK_OK(PtlPTEnable(ni, pt));
    wire_as(w, 1);
    CHECK_OK(PtlPut(senders[1].md, 0, 9, PTL_ACK_REQ, wire_rank(0), pt, 0, 0, NULL, 0));
    wire_run(w);
    CHECK_OK(PtlEQGet(senders[1].eq, &ev));
    CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
    wire_free(w);
}

static void end_transit(struct wire *w) {
    wire_end(w, &held, (struct portals_ending){0});
}

TEST(an_entry_can_disable_the_flow_control_event) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    ptl_event_t ev;
    for (int quiet = 0; quiet < 2; quiet++) {
        wire_as(w, 0);
        CHECK_OK(PtlEQAlloc(ni, 1, &eq));
        CHECK_OK(PtlPTAlloc(ni, PTL_PT_FLOWCTRL, eq, PTL_PT_ANY, &pt));
        ptl_me_t me = entry(memory[0], 512, 0, PTL_CT_NONE);
        me.options |= PTL_ME_EVENT_LINK_DISABLE | (quiet ? PTL_ME_EVENT_FLOWCTRL_DISABLE : 0);
        CHECK_OK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
        ptl_handle_md_t md = descriptor(memory[1], 64, PTL_CT_NONE, 0);
        for (int i = 0; i < 3; i++)
            CHECK_OK(PtlPut(md, 0, 8, 0, wire_rank(0), pt, 0, 0, NULL, 0));
        wire_run(w);
        CHECK_OK(PtlEQGet(eq, &ev)); /* the one that there was room for */
        CHECK_EQ(ev.type, PTL_EVENT_PUT);
        int code = PtlEQGet(eq, &ev);
        CHECK_EQ(code, quiet ? PTL_EQ_EMPTY : PTL_OK);
        if (!quiet)
            CHECK_EQ(ev.type, PTL_EVENT_PT_DISABLED);
        CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
    }
    wire_free(w);
}

TEST_MAIN
