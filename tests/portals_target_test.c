/* Messages at their target: offsets, permissions, events, counters, acknowledgements. */
#include <limits.h>

#include "lib/pair.h"

TEST(a_put_with_all_its_events) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    append(w, &me, PTL_PRIORITY_LIST, (void *)0x11);
    ptl_event_t ev = next(w, 1, PTL_EVENT_LINK);
    CHECK(ev.user_ptr == (void *)0x11);
    CHECK_EQ(ev.pt_index, pt);
    put(w, 5, 100, 8, PTL_ACK_REQ);
    wire_run(w);
    CHECK(memcmp(target_bytes + 8, source_bytes, 100) == 0);
    ev = next(w, 1, PTL_EVENT_PUT);
    CHECK(ev.start == target_bytes + 8);
    CHECK(ev.user_ptr == (void *)0x11);
    CHECK_EQ(ev.hdr_data, 0xabc);
    CHECK_EQ(ev.match_bits, 5);
    CHECK_EQ(ev.rlength, 100);
    CHECK_EQ(ev.mlength, 100);
    CHECK_EQ(ev.remote_offset, 8);
    CHECK_EQ(ev.initiator.rank, 0);
    CHECK_EQ(ev.uid, WIRE_UID(0));
    CHECK_EQ(ev.pt_index, pt);
    CHECK_EQ(ev.ptl_list, PTL_PRIORITY_LIST);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
    none(w, 1);
    ev = next(w, 0, PTL_EVENT_SEND);
    CHECK(ev.user_ptr == (void *)0x77);
    ev = next(w, 0, PTL_EVENT_ACK);
    CHECK(ev.user_ptr == (void *)0x77);
    CHECK_EQ(ev.mlength, 100);
    CHECK_EQ(ev.remote_offset, 8);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
    none(w, 0);
    wire_free(w);
}

static uint64_t counted_with_ack, events_with_ack;

static void look_at_target(struct wire *w, const struct nic_message *m) {
    struct portals *target = w->process[1].portals;
    ptl_ct_event_t count;
    ptl_event_t event;
    if (m->kind != NIC_ACK)
        return;
    CHECK_OK(portals_ct_get(target, ct, &count));
    counted_with_ack = count.success;
    events_with_ack += portals_eq_get(target, eq, &event) == PTL_OK;
}

/* Whoever has the acknowledgement may ask the target at once. */
STEP_TEST(the_target_knows_before_its_acknowledgement_leaves) {
    struct wire *w = pair();
    ptl_me_t plain = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM, 5, 0);
    ptl_me_t once = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_USE_ONCE, 6, 0);
    once.options |= PTL_ME_EVENT_UNLINK_DISABLE;
    plain.ct_handle = once.ct_handle = ct;
    append(w, &plain, PTL_PRIORITY_LIST, NULL);
    append(w, &once, PTL_PRIORITY_LIST, NULL);
    counted_with_ack = events_with_ack = 0;
    w->on_send = look_at_target;
    put(w, 5, 8, 0, PTL_ACK_REQ);
    wire_run(w);
    CHECK_EQ(counted_with_ack, 1);
    CHECK_EQ(events_with_ack, 1);
    put(w, 6, 8, 0, PTL_ACK_REQ);
    wire_run(w);
    CHECK_EQ(counted_with_ack, 2);
    CHECK_EQ(events_with_ack, 2);
    wire_free(w);
}

/* A descriptor is in use until nothing more will be seen at it: the send, or the acknowledgement
 * where an event or a count is to come. */
STEP_TEST(a_descriptor_is_in_use_until_its_last_event) {
    static const struct {
        unsigned options;
        bool eq, ct;
        ptl_ack_req_t ack;
        bool in_use; /* after the send */
    } cases[] = {{0, true, false, PTL_ACK_REQ, true},
                 {0, true, false, PTL_NO_ACK_REQ, false},
                 {0, false, true, PTL_CT_ACK_REQ, false},
                 {PTL_MD_EVENT_SUCCESS_DISABLE, true, false, PTL_ACK_REQ, false},
                 {PTL_MD_EVENT_CT_ACK, true, true, PTL_ACK_REQ, true},
                 {PTL_MD_EVENT_CT_ACK, false, true, PTL_CT_ACK_REQ, true}};
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ptl_md_t md = {source_bytes, 64, cases[i].options, cases[i].eq ? source_eq : PTL_EQ_NONE,
                       cases[i].ct ? source_ct : PTL_CT_NONE};
        ptl_handle_md_t handle;
        snprintf(test_context, sizeof test_context, "case %zu", i);
        wire_as(w, 0);
        CHECK_OK(PtlMDBind(ni, &md, &handle));
        CHECK_OK(PtlPut(handle, 0, 8, cases[i].ack, wire_rank(1), pt, 5, 0, NULL, 0));
        CHECK_EQ(PtlMDRelease(handle), PTL_IN_USE);
        wire_carry(w, 0);
        wire_as(w, 0);
        if (cases[i].in_use) {
            CHECK_EQ(PtlMDRelease(handle), PTL_IN_USE);
            wire_run(w);
            wire_as(w, 0);
        }
        CHECK_OK(PtlMDRelease(handle));
        wire_run(w);
    }
    wire_free(w);
}

TEST(a_get_and_its_events) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_GET, 5, 0);
    me.length = 60;
    append(w, &me, PTL_PRIORITY_LIST, (void *)0x11);
    for (int i = 0; i < 60; i++)
        target_bytes[i] = (uint8_t)(200 - i);
    wire_as(w, 0);
    CHECK_OK(PtlGet(source, 1000, 100, wire_rank(1), pt, 5, 20, (void *)0x55));
    CHECK_EQ(PtlMDRelease(source), PTL_IN_USE);
    wire_run(w);
    ptl_event_t ev = next(w, 1, PTL_EVENT_GET);
    CHECK_EQ(ev.rlength, 100);
    CHECK_EQ(ev.mlength, 40);
    CHECK(ev.start == target_bytes + 20);
    none(w, 1);
    ev = next(w, 0, PTL_EVENT_REPLY);
    CHECK_EQ(ev.mlength, 40);
    CHECK_EQ(ev.remote_offset, 20);
    CHECK(ev.user_ptr == (void *)0x55);
    none(w, 0);
    CHECK(memcmp(source_bytes + 1000, target_bytes + 20, 40) == 0);
    CHECK_EQ(source_bytes[1040], (uint8_t)(1040 * 7 + 1));
    CHECK_OK(PtlMDRelease(source));
    wire_free(w);
}

TEST(atomics_and_their_events) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    int32_t *target = (int32_t *)target_bytes, *own = (int32_t *)source_bytes;
    for (int i = 0; i < 4; i++) {
        target[i] = 1000 + i;
        own[i] = 5;
    }
    wire_as(w, 0);
    CHECK_OK(PtlAtomic(source, 0, 16, PTL_ACK_REQ, wire_rank(1), pt, 5, 0, NULL, 3, PTL_SUM,
                       PTL_INT32_T));
    wire_run(w);
    CHECK_EQ(target[3], 1008);
    ptl_event_t ev = next(w, 1, PTL_EVENT_ATOMIC);
    CHECK_EQ(ev.atomic_operation, PTL_SUM);
    CHECK_EQ(ev.atomic_type, PTL_INT32_T);
    CHECK_EQ(ev.hdr_data, 3);
    next(w, 0, PTL_EVENT_SEND);
    next(w, 0, PTL_EVENT_ACK);
    CHECK_OK(PtlFetchAtomic(source, 512, source, 0, 8, wire_rank(1), pt, 5, 4, NULL, 0, PTL_MAX,
                            PTL_INT32_T));
    wire_run(w);
    CHECK_EQ(own[128], 1006);
    CHECK_EQ(own[129], 1007);
    CHECK_EQ(target[1], 1006);
    ev = next(w, 1, PTL_EVENT_FETCH_ATOMIC);
    CHECK_EQ(ev.atomic_operation, PTL_MAX);
    next(w, 0, PTL_EVENT_SEND);
    ev = next(w, 0, PTL_EVENT_REPLY);
    CHECK_EQ(ev.mlength, 8);
    int32_t compare = 1006;
    own[0] = 77;
    CHECK_OK(PtlSwap(source, 512, source, 0, 4, wire_rank(1), pt, 5, 4, NULL, 0, &compare,
                     PTL_CSWAP, PTL_INT32_T));
    CHECK_OK(PtlSwap(source, 516, source, 0, 4, wire_rank(1), pt, 5, 8, NULL, 0, &compare,
                     PTL_CSWAP, PTL_INT32_T));
    wire_run(w);
    CHECK_EQ(target[1], 77);
    CHECK_EQ(target[2], 1007); /* not what it was compared with */
    CHECK_EQ(own[128], 1006);
    CHECK_EQ(own[129], 1007);
    next(w, 1, PTL_EVENT_FETCH_ATOMIC);
    next(w, 1, PTL_EVENT_FETCH_ATOMIC);
    wire_free(w);
}

TEST(atomics_check_their_arguments) {
    struct wire *w = pair();
    ptl_process_t to = wire_rank(1);
    uint8_t operand[32] = {0};
#define ATOMIC(op, type, bytes) PtlAtomic(source, 0, bytes, 0, to, pt, 5, 0, NULL, 0, op, type)
#define FETCH(op, type, bytes)                                                                     \
    PtlFetchAtomic(source, 512, source, 0, bytes, to, pt, 5, 0, NULL, 0, op, type)
#define SWAP(op, type, bytes)                                                                      \
    PtlSwap(source, 512, source, 0, bytes, to, pt, 5, 0, NULL, 0, operand, op, type)
    wire_as(w, 0);
    CHECK_OK(ATOMIC(PTL_SUM, PTL_DOUBLE, 16));
    CHECK_EQ(ATOMIC(PTL_SUM, PTL_DOUBLE, 12), PTL_ARG_INVALID); /* not whole items */
    CHECK_EQ(ATOMIC(PTL_SWAP, PTL_DOUBLE, 8), PTL_ARG_INVALID);
    CHECK_EQ(ATOMIC(PTL_BOR, PTL_DOUBLE, 8), PTL_ARG_INVALID);
    CHECK_EQ(ATOMIC(PTL_MIN, PTL_FLOAT_COMPLEX, 8), PTL_ARG_INVALID);
    CHECK_EQ(ATOMIC(PTL_OP_LAST, PTL_INT8_T, 8), PTL_ARG_INVALID);
    CHECK_EQ(ATOMIC(PTL_SUM, PTL_DATATYPE_LAST, 8), PTL_ARG_INVALID);
    CHECK_EQ(FETCH(PTL_CSWAP, PTL_INT32_T, 4), PTL_ARG_INVALID);
    CHECK_OK(FETCH(PTL_LXOR, PTL_INT32_T, 512));
    CHECK_EQ(SWAP(PTL_SUM, PTL_INT32_T, 4), PTL_ARG_INVALID);
    CHECK_EQ(SWAP(PTL_CSWAP, PTL_INT32_T, 8), PTL_ARG_INVALID); /* one item */
    CHECK_EQ(SWAP(PTL_MSWAP, PTL_FLOAT, 4), PTL_ARG_INVALID);
    CHECK_EQ(SWAP(PTL_CSWAP_GT, PTL_DOUBLE_COMPLEX, 16), PTL_ARG_INVALID);
    CHECK_OK(SWAP(PTL_SWAP, PTL_LONG_DOUBLE_COMPLEX, 64));
    CHECK_OK(SWAP(PTL_MSWAP, PTL_INT32_T, 4));
    CHECK_EQ(
        PtlSwap(source, 512, source, 0, 4, to, pt, 5, 0, NULL, 0, NULL, PTL_CSWAP, PTL_INT32_T),
        PTL_ARG_INVALID);
    CHECK_EQ(PtlFetchAtomic(source, 4094, source, 0, 8, to, pt, 5, 0, NULL, 0, PTL_SUM, PTL_INT8_T),
             PTL_ARG_INVALID);
#undef ATOMIC
#undef FETCH
#undef SWAP
    wire_free(w);
}

TEST(acknowledgements) {
    struct {
        ptl_ack_req_t ack;
        unsigned me_options, md_options;
        bool full;
        uint64_t count;
    } cases[] = {
        {PTL_NO_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK, false, 0},
        {PTL_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK, true, 1},
        {PTL_ACK_REQ, 0, 0, true, 0},
        {PTL_CT_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK, false, 1},
        {PTL_OC_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK, false, 1},
        {PTL_CT_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_BYTES, false, 30},
        {PTL_CT_ACK_REQ, 0, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_SEND, false, 2},
        {PTL_ACK_REQ, PTL_ME_ACK_DISABLE, PTL_MD_EVENT_CT_ACK, false, 0},
        {PTL_ACK_REQ, 0, PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_EVENT_CT_ACK, false, 1},
        {PTL_ACK_REQ, 0, PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_BYTES, true, 40},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct wire *w =
            pair_with(LOGICAL, 0, 64, NULL, cases[i].md_options | PTL_MD_EVENT_SEND_DISABLE);
        ptl_me_t me = entry(PTL_ME_OP_PUT | cases[i].me_options, 5, 0);
        me.length = 30; /* truncates 40 bytes: an acknowledgement tells */
        append(w, &me, PTL_PRIORITY_LIST, NULL);
        put(w, 5, 40, 0, cases[i].ack);
        wire_run(w);
        next(w, 1, PTL_EVENT_PUT);
        if (cases[i].full)
            CHECK_EQ(next(w, 0, PTL_EVENT_ACK).mlength, 30);
        none(w, 0);
        ptl_ct_event_t count;
        CHECK_OK(PtlCTGet(source_ct, &count));
        CHECK_EQ(count.success, cases[i].count);
        CHECK_EQ(count.failure, 0);
        CHECK_OK(PtlMDRelease(source)); /* nothing is left in progress */
        wire_free(w);
    }
}

TEST(refusals_reach_the_initiator) {
    struct wire *w = pair_with(LOGICAL, 0, 64, NULL, PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY);
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    me = entry(PTL_ME_OP_PUT, 6, 0);
    me.uid = 501;
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    me = entry(PTL_ME_OP_GET, 7, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    ptl_event_t ev;
    put(w, 99, 8, 0, PTL_ACK_REQ); /* nothing matches */
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    ev = next(w, 0, PTL_EVENT_ACK);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_DROPPED);
    CHECK_EQ(ev.mlength, 0);
    CHECK_EQ(status(w, PTL_SR_DROP_COUNT), 1);
    put(w, 6, 8, 0, PTL_ACK_REQ); /* another user's */
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_PERM_VIOLATION);
    CHECK_EQ(status(w, PTL_SR_PERMISSION_VIOLATIONS), 1);
    put(w, 7, 8, 0, PTL_ACK_REQ); /* read only */
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_OP_VIOLATION);
    CHECK_OK(PtlGet(source, 0, 8, wire_rank(1), pt, 5, 0, NULL)); /* write only */
    wire_run(w);
    CHECK_EQ(next(w, 0, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_OP_VIOLATION);
    CHECK_OK(PtlFetchAtomic(source, 512, source, 0, 8, wire_rank(1), pt, 5, 0, NULL, 0, PTL_SUM,
                            PTL_INT8_T)); /* needs both */
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_OP_VIOLATION);
    CHECK_EQ(status(w, PTL_SR_OPERATION_VIOLATIONS), 3);
    CHECK_EQ(status(w, PTL_SR_DROP_COUNT), 1);
    wire_as(w, 0);
    CHECK_OK(PtlPut(source, 0, 8, PTL_ACK_REQ, wire_rank(1), pt + 1, 5, 0, NULL, 0)); /* no entry */
    CHECK_OK(PtlPut(source, 0, 8, PTL_ACK_REQ, wire_rank(1), 4000000, 5, 0, NULL, 0));
    wire_run(w);
    for (int i = 0; i < 2; i++)
        next(w, 0, PTL_EVENT_SEND);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_DROPPED);
    none(w, 1); /* none of it is told to the target */
    ptl_ct_event_t count;
    wire_as(w, 0);
    CHECK_OK(PtlCTGet(source_ct, &count));
    CHECK_EQ(count.success, 0);
    CHECK_EQ(count.failure, 7);
    CHECK_EQ(target_bytes[0], 0);
    wire_free(w);
}

TEST(to_an_interface_that_is_not_there) {
    struct wire *w = pair();
    wire_as(w, 1);
    CHECK_OK(PtlNIFini(ni));
    put(w, 5, 8, 0, PTL_ACK_REQ);
    CHECK_OK(PtlGet(source, 0, 8, wire_rank(1), pt, 5, 0, NULL));
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_DROPPED);
    CHECK_EQ(next(w, 0, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_DROPPED);
    wire_free(w);
}

TEST(undeliverable) {
    struct wire *w = wire_with(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, &ni);
    CHECK_OK(PtlEQAlloc(ni, 16, &source_eq));
    CHECK_OK(PtlCTAlloc(ni, &source_ct));
    ptl_md_t md = {source_bytes, sizeof source_bytes,
                   PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_SEND | PTL_MD_EVENT_CT_REPLY |
                       PTL_MD_EVENT_SUCCESS_DISABLE,
                   source_eq, source_ct};
    CHECK_OK(PtlMDBind(ni, &md, &source));
    ptl_process_t nobody = {.rank = 0};
    nobody.phys.nid = 4444;
    nobody.phys.pid = 4;
    CHECK_OK(PtlPut(source, 0, 8, PTL_NO_ACK_REQ, nobody, 0, 0, 0, NULL, 0));
    CHECK_OK(PtlPut(source, 0, 8, PTL_ACK_REQ, nobody, 0, 0, 0, NULL, 0));
    CHECK_OK(PtlGet(source, 0, 8, nobody, 0, 0, 0, NULL));
    wire_run(w);
    for (int i = 0; i < (WIRE_HOLDS ? 2 : 0); i++) /* elsewhere they have left before */
        CHECK_EQ(next(w, 0, PTL_EVENT_SEND).ni_fail_type, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_UNDELIVERABLE);
    CHECK_EQ(next(w, 0, PTL_EVENT_REPLY).ni_fail_type, PTL_NI_UNDELIVERABLE);
    none(w, 0);
    ptl_ct_event_t count;
    CHECK_OK(PtlCTGet(source_ct, &count));
    CHECK_EQ(count.failure, WIRE_HOLDS ? 4 : 2);
    CHECK_OK(PtlMDRelease(source));
    wire_free(w);
}

TEST(a_portal_table_entry_without_a_queue) {
    struct wire *w = pair();
    wire_as(w, 1);
    CHECK_OK(PtlPTFree(ni, pt));
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL, 0, ~0ull);
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    me.length = 60;
    me.min_free = 20;
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    put(w, 6, 24, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    wire_as(w, 1);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 5, 0);
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_ONLY, NULL));
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, NULL));
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, NULL));
    me.match_bits = 6;
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    none(w, 1);
    CHECK_OK(PtlPTFree(ni, pt)); /* all of it is gone */
    wire_free(w);
}

TEST(events_can_be_disabled) {
    struct {
        unsigned options;
        bool put, unlink;
    } cases[] = {{0, true, true},
                 {PTL_ME_EVENT_COMM_DISABLE, false, true},
                 {PTL_ME_EVENT_SUCCESS_DISABLE, false, true},
                 {PTL_ME_EVENT_UNLINK_DISABLE, true, false}};
    for (int i = 0; i < 4; i++) {
        struct wire *w = pair();
        ptl_me_t me =
            entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_COMM | cases[i].options, 5, 0);
        me.ct_handle = ct;
        append(w, &me, PTL_PRIORITY_LIST, NULL);
        put(w, 5, 8, 0, PTL_NO_ACK_REQ);
        wire_run(w);
        if (cases[i].put)
            next(w, 1, PTL_EVENT_PUT);
        if (cases[i].unlink)
            next(w, 1, PTL_EVENT_AUTO_UNLINK);
        none(w, 1);
        ptl_ct_event_t count;
        CHECK_OK(PtlCTGet(ct, &count)); /* counting is not disabled by it */
        CHECK_EQ(count.success, 1);
        wire_free(w);
    }
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 8, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_OVER_DISABLE, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    none(w, 1);
    wire_free(w);
}

TEST(a_queue_that_nobody_empties_says_so) {
    struct wire *w = pair_with(LOGICAL, 0, 4, NULL, 0);
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    for (uint64_t i = 1; i <= 7; i++)
        put(w, 5, i, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    ptl_event_t ev;
    wire_as(w, 1);
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_DROPPED);
    CHECK_EQ(ev.mlength, 4); /* the oldest that is left */
    for (uint64_t i = 5; i <= 7; i++) {
        CHECK_OK(PtlEQGet(eq, &ev));
        CHECK_EQ(ev.mlength, i);
    }
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
    wire_free(w);
}

/* ---- Memory in pieces, volatile memory, loopback ---- */

STEP_TEST(iovecs_on_both_sides) {
    struct wire *w = pair();
    ptl_iovec_t from[4] = {{source_bytes, 3},
                           {source_bytes + 100, 0},
                           {source_bytes + 200, 50},
                           {source_bytes + 300, 1000}};
    ptl_iovec_t to[3] = {
        {target_bytes + 10, 20}, {target_bytes + 500, 7}, {target_bytes + 600, 90}};
    ptl_md_t md = {from, 4, PTL_IOVEC, source_eq, PTL_CT_NONE};
    uint8_t flat[1100], expected[4096] = {0};
    wire_as(w, 0);
    CHECK_OK(PtlMDRelease(source));
    CHECK_OK(PtlMDBind(ni, &md, &source));
    memcpy(flat, source_bytes, 3);
    memcpy(flat + 3, source_bytes + 200, 50);
    memcpy(flat + 53, source_bytes + 300, 1000);
    memset(from, 0xff, sizeof from); /* the array is the library's after the call */
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_IOVEC, 5, 0);
    me.start = to;
    me.length = 3;
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    memset(to, 0xff, sizeof to);
    wire_as(w, 0);
    CHECK_EQ(PtlPut(source, 0, 1054, 0, wire_rank(1), pt, 5, 0, NULL, 0), PTL_ARG_INVALID);
    CHECK_OK(PtlPut(source, 1, 100, PTL_NO_ACK_REQ, wire_rank(1), pt, 5, 15, NULL, 0));
    wire_run(w);
    memcpy(expected + 25, flat + 1, 5);
    memcpy(expected + 500, flat + 6, 7);
    memcpy(expected + 600, flat + 13, 88);
    ptl_event_t ev = next(w, 1, PTL_EVENT_PUT);
    CHECK_EQ(ev.mlength, 100);
    CHECK(ev.start == target_bytes + 25);
    CHECK(memcmp(target_bytes, expected, sizeof expected) == 0);
    /* items that straddle pieces */
    uint64_t values[12], sum[12], got[12];
    memset(&expected, 0, sizeof expected);
    for (int i = 0; i < 12; i++)
        values[i] = (uint64_t)i * 0x0123456789abcdull + 77;
    memset(target_bytes, 0x5a, sizeof target_bytes);
    memset(sum, 0x5a, sizeof sum);
    md = (ptl_md_t){values, sizeof values, 0, PTL_EQ_NONE, PTL_CT_NONE};
    ptl_handle_md_t plain, back;
    wire_as(w, 0);
    CHECK_OK(PtlMDBind(ni, &md, &plain));
    md.start = got;
    CHECK_OK(PtlMDBind(ni, &md, &back));
    CHECK_OK(PtlFetchAtomic(back, 0, plain, 0, 96, wire_rank(1), pt, 5, 2, NULL, 0, PTL_SUM,
                            PTL_UINT64_T));
    CHECK_OK(PtlGet(back, 0, 96, wire_rank(1), pt, 5, 2, NULL));
    wire_carry(w, 0);
    wire_carry(w, 1);
    for (int i = 0; i < 12; i++)
        CHECK(got[i] == sum[i]); /* what was there */
    wire_run(w);
    for (int i = 0; i < 12; i++)
        CHECK(got[i] == sum[i] + values[i]);
    wire_free(w);
}

TEST(volatile_data_may_change_after_the_call) {
    uint64_t sizes[] = {8, 40, 300, 301, 900};
    ptl_ni_limits_t limits;
    portals_limits_default(&limits, NULL, NULL);
    limits.max_volatile_size = 300;
    for (int i = 0; i < 5; i++) {
        if (i == 3)
            limits.max_volatile_size = 0; /* a program without a wish: whatever the size */
        if (i == 4)
            limits.max_volatile_size = LONG_MAX; /* more than it gets: likewise */
        struct wire *w = pair_with(LOGICAL, 0, 64, &limits, PTL_MD_VOLATILE);
        ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
        append(w, &me, PTL_PRIORITY_LIST, NULL);
        put(w, 5, sizes[i], 0, PTL_NO_ACK_REQ);
        memset(source_bytes, 0xee, sizeof source_bytes);
        wire_run(w);
        CHECK_EQ(target_bytes[1], 8);
        CHECK_EQ(target_bytes[sizes[i]], 0);
        wire_as(w, 0);
        CHECK_EQ(PtlPut(source, 0, 301, PTL_NO_ACK_REQ, wire_rank(1), pt, 5, 0, NULL, 0),
                 i < 3 ? PTL_ARG_INVALID : PTL_OK);
        wire_free(w);
    }
}

TEST(volatile_data_in_pieces_is_copied_in_order) {
    static const uint64_t sizes[] = {30, 300};
    for (int i = 0; i < 2; i++) {
        struct wire *w = pair();
        ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
        append(w, &me, PTL_PRIORITY_LIST, NULL);
        wire_as(w, 0);
        ptl_iovec_t pieces[] = {
            {source_bytes, 7}, {source_bytes + 7, 11}, {source_bytes + 18, 400}};
        ptl_md_t md = {pieces, 3, PTL_IOVEC | PTL_MD_VOLATILE, PTL_EQ_NONE, PTL_CT_NONE};
        ptl_handle_md_t handle;
        CHECK_OK(PtlMDBind(ni, &md, &handle));
        CHECK_OK(PtlPut(handle, 3, sizes[i], PTL_NO_ACK_REQ, wire_rank(1), pt, 5, 0, NULL, 0));
        memset(source_bytes, 0xee, sizeof source_bytes);
        wire_run(w);
        for (uint64_t k = 0; k < sizes[i]; k++)
            CHECK_EQ(target_bytes[k], (uint8_t)((k + 3) * 7 + 1));
        wire_free(w);
    }
}

TEST(a_process_sends_to_itself) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    ptl_md_t md = {source_bytes, 64, 0, eq, PTL_CT_NONE};
    ptl_handle_md_t own;
    CHECK_OK(PtlMDBind(ni, &md, &own));
    CHECK_OK(PtlPut(own, 0, 64, PTL_ACK_REQ, wire_rank(1), pt, 5, 0, NULL, 0));
    CHECK_OK(PtlGet(own, 0, 64, wire_rank(1), pt, 5, 0, NULL));
    wire_run(w);
    next(w, 1, PTL_EVENT_SEND);
    next(w, 1, PTL_EVENT_PUT);
    next(w, 1, PTL_EVENT_ACK);
    next(w, 1, PTL_EVENT_GET);
    next(w, 1, PTL_EVENT_REPLY);
    wire_free(w);
}

STEP_TEST(answers_are_believed_once_and_from_the_target_only) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    put(w, 5, 8, 0, PTL_ACK_REQ);
    wire_carry(w, 0);
    next(w, 0, PTL_EVENT_SEND);
    struct nic_message ack = w->queue[0].message, forged = ack;
    struct portals *p = w->process[0].portals;
    forged.source.nid = 103; /* another process */
    portals_answered(p, forged.initiator, &forged, PTL_NI_OK);
    forged = ack;
    forged.kind = NIC_REPLY;
    portals_answered(p, forged.initiator, &forged, PTL_NI_OK);
    forged = ack;
    forged.initiator += 1ull << 32;
    portals_answered(p, forged.initiator, &forged, PTL_NI_OK);
    forged.initiator = UINT64_MAX;
    portals_answered(p, forged.initiator, &forged, PTL_NI_OK);
    none(w, 0);
    wire_run(w);
    next(w, 0, PTL_EVENT_ACK);
    portals_answered(p, ack.initiator, &ack, PTL_NI_OK);
    portals_sent(p, ack.initiator, PTL_NI_OK);
    portals_failed(p, ack.initiator, PTL_NI_UNDELIVERABLE);
    none(w, 0);
    wire_free(w);
}

/* What it has acknowledged, what has not been sent, and what went to others is not lost with it. */
STEP_TEST(what_a_lost_process_was_sent_has_failed) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    struct portals *p = w->process[0].portals;
    put(w, 5, 8, 0, PTL_ACK_REQ);
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    next(w, 0, PTL_EVENT_ACK);
    put(w, 5, 8, 0, PTL_ACK_REQ);
    portals_sent(p, w->queue[0].message.initiator, PTL_NI_OK);
    next(w, 0, PTL_EVENT_SEND);
    put(w, 5, 8, 0, PTL_ACK_REQ); /* stays in the queue */
    CHECK(!portals_quiet(p));
    portals_lost(p, (struct nic_address){102, 7});
    none(w, 0);
    portals_lost(p, (struct nic_address){101, 7});
    ptl_event_t event = next(w, 0, PTL_EVENT_ACK);
    CHECK_EQ(event.ni_fail_type, PTL_NI_UNDELIVERABLE);
    none(w, 0);
    free(wire_take(w, 0).data); /* lost */
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    next(w, 0, PTL_EVENT_ACK);
    none(w, 0);
    CHECK(portals_quiet(p));
    wire_free(w);
}

STEP_TEST(malformed_headers_are_refused) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET, 0, ~0ull);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    struct portals *p = w->process[1].portals;
    struct rng r = rng_seeded(1);
    uint32_t accepted = 0;
    for (int i = 0; i < 20000; i++) {
        struct nic_message m = {.source = {100, 7}, .target = {101, 7}};
        uint8_t *bytes = (uint8_t *)&m;
        for (size_t k = 0; k < sizeof m; k++)
            if (rng_below(&r, 4) == 0)
                bytes[k] = (uint8_t)rng_u32(&r);
        m.interface = rng_below(&r, 3) ? LOGICAL : m.interface;
        m.pt_index = rng_below(&r, 3) ? pt : m.pt_index;
        m.kind = rng_below(&r, 3) ? m.kind % 5 : m.kind;
        struct portals_arrival arrival;
        portals_header(p, &m, &arrival, NULL);
        accepted += arrival.fail == PTL_NI_OK;
        struct nic_segment s;
        if (portals_arrival_segments(&arrival, 0, m.length, &s, 1))
            CHECK(s.host >= target_bytes && s.host + s.bytes <= target_bytes + sizeof target_bytes);
        portals_done(p, &arrival, (struct portals_ending){0});
        while (w->queued)
            free(wire_take(w, 0).data);
    }
    CHECK(accepted > 1000 && accepted < 19000);
    CHECK(!portals_check(p));
    wire_free(w);
}

/* The interface is closed while messages are under way: the card may go on with what it has begun,
 * and takes nothing more. */
STEP_TEST(closing_waits_for_what_is_being_moved) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    put(w, 5, 100, 0, PTL_ACK_REQ);
    put(w, 5, 100, 0, PTL_ACK_REQ);
    struct wire_transit first = wire_begin(w, 0);
    struct portals *p = w->process[1].portals;
    CHECK_EQ(portals_ni_fini(p, ni), PTL_IN_USE);
    wire_run(w); /* the second is refused */
    CHECK_EQ(portals_ni_fini(p, ni), PTL_IN_USE);
    wire_end(w, &first, (struct portals_ending){0});
    CHECK_EQ(memcmp(target_bytes, source_bytes, 100), 0);
    CHECK_EQ(portals_ni_fini(p, ni), PTL_OK);
    CHECK_EQ(portals_ni_fini(p, ni), PTL_ARG_INVALID);
    wire_run(w);
    next(w, 0, PTL_EVENT_SEND);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_DROPPED);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_OK);
    /* At the initiator: until the data has been sent, not until it is answered. */
    put(w, 5, 100, 0, PTL_ACK_REQ);
    p = w->process[0].portals;
    CHECK_EQ(portals_ni_fini(p, ni), PTL_IN_USE);
    struct wire_message m = wire_take(w, 0);
    portals_sent(p, m.message.initiator, PTL_NI_OK);
    CHECK_EQ(portals_ni_fini(p, ni), PTL_OK);
    portals_failed(p, m.message.initiator, PTL_NI_UNDELIVERABLE); /* meets nobody */
    free(m.data);
    wire_free(w);
}

/* A program that leaves without closing anything does not take from the card what it uses. */
STEP_TEST(leaving_under_messages) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    put(w, 5, 100, 0, PTL_ACK_REQ);
    struct wire_transit first = wire_begin(w, 0);
    struct portals *p = w->process[1].portals;
    while (portals_is_initialised(p))
        portals_fini(p);
    struct nic_segment s;
    CHECK_EQ(portals_arrival_segments(first.arrival, 0, 100, &s, 1), 1);
    wire_end(w, &first, (struct portals_ending){0});
    CHECK_EQ(portals_init(p), PTL_OK); /* everything is gone: it may begin afresh */
    ptl_handle_ni_t again;
    CHECK_EQ(portals_ni_init(p, PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY,
                             NULL, NULL, NULL, &again),
             PTL_OK);
    wire_free(w);
}

TEST_MAIN
