/* Lists: matching, unlinking, overflow and unexpected headers, search. */
#include "lib/pair.h"

TEST(the_first_entry_that_matches_takes_it) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 0x10, 0);
    append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    me = entry(PTL_ME_OP_PUT, 0, 0xff);
    append(w, &me, PTL_PRIORITY_LIST, (void *)2);
    me = entry(PTL_ME_OP_PUT, 0x20, 0);
    append(w, &me, PTL_PRIORITY_LIST, (void *)3);
    me = entry(PTL_ME_OP_PUT, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, (void *)4);
    me = entry(PTL_ME_OP_PUT, 0x100, 0);
    me.match_id.rank = 2; /* from another */
    append(w, &me, PTL_PRIORITY_LIST, (void *)5);
    uint64_t bits[] = {0x10, 0x20, 0x11, 0x100}, user[] = {1, 2, 2, 4};
    for (int i = 0; i < 4; i++) {
        put(w, bits[i], 4, 0, PTL_NO_ACK_REQ);
        wire_run(w);
        ptl_event_t ev = next(w, 1, PTL_EVENT_PUT);
        CHECK_EQ((uintptr_t)ev.user_ptr, user[i]);
        CHECK_EQ(ev.ptl_list, user[i] == 4 ? PTL_OVERFLOW_LIST : PTL_PRIORITY_LIST);
    }
    wire_free(w);
}

TEST(physical_sources_with_wildcards) {
    struct wire *w = wire_with(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, &ni);
    ptl_md_t md = {source_bytes, 64, 0, PTL_EQ_NONE, PTL_CT_NONE};
    wire_as(w, 1);
    CHECK_OK(PtlEQAlloc(ni, 64, &eq));
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    struct {
        uint32_t nid, pid;
    } ids[] = {{WIRE_NID(0), 8},
               {WIRE_NID(1), WIRE_PID(1)},
               {WIRE_NID(0), PTL_PID_ANY},
               {PTL_NID_ANY, WIRE_PID(2)},
               {PTL_NID_ANY, PTL_PID_ANY}};
    for (uintptr_t i = 0; i < 5; i++) {
        ptl_me_t me = entry(PTL_ME_OP_PUT, 1, 0);
        me.match_id.phys.nid = ids[i].nid;
        me.match_id.phys.pid = ids[i].pid;
        append(w, &me, PTL_PRIORITY_LIST, (void *)i);
    }
    uint32_t from[] = {0, 1, 2}, takes[] = {2, 1, WIRE_NID(2) == WIRE_NID(0) ? 2 : 3};
    for (int i = 0; i < 3; i++) {
        wire_as(w, from[i]);
        CHECK_OK(PtlMDBind(ni, &md, &source));
        CHECK_OK(PtlPut(source, 0, 4, 0, wire_phys(1), pt, 1, 0, NULL, 0));
        wire_run(w);
        ptl_event_t ev = next(w, 1, PTL_EVENT_PUT);
        CHECK_EQ((uintptr_t)ev.user_ptr, takes[i]);
        CHECK_EQ(ev.initiator.phys.nid, WIRE_NID(from[i]));
        CHECK_EQ(ev.initiator.phys.pid, WIRE_PID(from[i]));
    }
    wire_free(w);
}

/* A receive for one process takes the message of that one, whichever came first. */
TEST(unexpected_messages_of_physical_sources) {
    struct wire *w = wire_with(PTL_NI_MATCHING | PTL_NI_PHYSICAL, NULL, &ni);
    ptl_md_t md = {source_bytes, 64, 0, PTL_EQ_NONE, PTL_CT_NONE};
    wire_as(w, 1);
    CHECK_OK(PtlEQAlloc(ni, 64, &eq));
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 1, 0);
    me.match_id.phys.nid = PTL_NID_ANY;
    me.match_id.phys.pid = PTL_PID_ANY;
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    for (uint32_t from = 0; from < 3; from++) {
        wire_as(w, from);
        CHECK_OK(PtlMDBind(ni, &md, &source));
        CHECK_OK(PtlPut(source, 0, 4 + from, 0, wire_phys(1), pt, 1, 0, NULL, 0));
    }
    wire_run(w);
    me.options =
        PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE;
    for (uint32_t from = 3; from-- > 0;) {
        me.match_id = wire_phys(from);
        append(w, &me, PTL_PRIORITY_LIST, NULL);
        CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).rlength, 4 + from);
    }
    none(w, 1);
    wire_free(w);
}

TEST(truncation) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE, 5, 0);
    me.length = 50;
    append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    me = entry(PTL_ME_OP_PUT, 5, 0);
    me.length = 40;
    append(w, &me, PTL_PRIORITY_LIST, (void *)2);
    struct {
        uint64_t length, offset, user, mlength;
    } cases[] = {{50, 0, 1, 50}, {51, 0, 2, 40}, {10, 40, 1, 10}, {10, 41, 2, 0}, {0, 60, 1, 0}};
    for (int i = 0; i < 5; i++) {
        memset(target_bytes, 0, sizeof target_bytes);
        put(w, 5, cases[i].length, cases[i].offset, PTL_ACK_REQ);
        wire_run(w);
        ptl_event_t ev = next(w, 1, PTL_EVENT_PUT);
        CHECK_EQ((uintptr_t)ev.user_ptr, cases[i].user);
        CHECK_EQ(ev.rlength, cases[i].length);
        CHECK_EQ(ev.mlength, cases[i].mlength);
        next(w, 0, PTL_EVENT_SEND);
        CHECK_EQ(next(w, 0, PTL_EVENT_ACK).mlength, cases[i].mlength);
        CHECK(memcmp(target_bytes + cases[i].offset, source_bytes, cases[i].mlength) == 0);
        CHECK_EQ(target_bytes[cases[i].offset + cases[i].mlength], 0);
    }
    /* an atomic is cut to whole items */
    wire_as(w, 0);
    CHECK_OK(PtlAtomic(source, 0, 24, PTL_NO_ACK_REQ, wire_rank(1), pt, 5, 30, NULL, 0, PTL_SUM,
                       PTL_INT64_T));
    wire_run(w);
    CHECK_EQ(next(w, 1, PTL_EVENT_ATOMIC).mlength, 8);
    wire_free(w);
}

TEST(use_once_is_unlinked_after_its_event) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 5, 0);
    ptl_handle_me_t handle = append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    put(w, 5, 8, 0, PTL_NO_ACK_REQ);
    put(w, 5, 8, 0, PTL_ACK_REQ);
    wire_run(w);
    next(w, 1, PTL_EVENT_PUT);
    CHECK(next(w, 1, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)1);
    none(w, 1);
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    next(w, 0, PTL_EVENT_SEND);
    next(w, 0, PTL_EVENT_SEND);
    CHECK_EQ(next(w, 0, PTL_EVENT_ACK).ni_fail_type, PTL_NI_DROPPED);
    wire_as(w, 1);
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

TEST(local_offsets_and_min_free) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_MANAGE_LOCAL, 5, 0);
    me.length = 100;
    me.min_free = 30;
    append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    for (int i = 0; i < 3; i++) {
        put(w, 5, 20, 77, PTL_ACK_REQ); /* the offset is not the initiator's */
        wire_run(w);
        ptl_event_t ev = next(w, 1, PTL_EVENT_PUT);
        CHECK(ev.start == target_bytes + 20 * i);
        CHECK_EQ(ev.remote_offset, 77);
        next(w, 0, PTL_EVENT_SEND);
        CHECK_EQ(next(w, 0, PTL_EVENT_ACK).remote_offset, 20 * i); /* where it went */
    }
    none(w, 1); /* 40 bytes are free */
    wire_as(w, 0);
    CHECK_OK(PtlGet(source, 0, 11, wire_rank(1), pt, 5, 0, NULL)); /* one offset for all */
    wire_run(w);
    CHECK(next(w, 1, PTL_EVENT_GET).start == target_bytes + 60);
    next(w, 1, PTL_EVENT_AUTO_UNLINK); /* 29 are not enough */
    none(w, 1);
    /* min_free 0: never, but messages are truncated */
    me.min_free = 0;
    ptl_handle_me_t handle = append(w, &me, PTL_PRIORITY_LIST, (void *)2);
    uint64_t mlength[] = {80, 20, 0};
    for (int i = 0; i < 3; i++) {
        put(w, 5, 80, 0, PTL_NO_ACK_REQ);
        wire_run(w);
        CHECK_EQ(next(w, 1, PTL_EVENT_PUT).mlength, mlength[i]);
    }
    CHECK_OK(PtlMEUnlink(handle));
    wire_free(w);
}

STEP_TEST(unlink_is_refused_while_a_message_arrives) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET, 5, 0);
    ptl_handle_me_t handle = append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    put(w, 5, 8, 0, PTL_NO_ACK_REQ);
    struct wire_transit t = wire_begin(w, 0);
    wire_as(w, 1);
    CHECK_EQ(PtlMEUnlink(handle), PTL_IN_USE);
    CHECK_EQ(PtlPTFree(ni, pt), PTL_PT_IN_USE);
    wire_end(w, &t, (struct portals_ending){0});
    next(w, 1, PTL_EVENT_PUT);
    CHECK_OK(PtlMEUnlink(handle)); /* right after the event */
    /* the reply of a get is an operation too, until its data has left */
    handle = append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    wire_as(w, 0);
    CHECK_OK(PtlGet(source, 0, 8, wire_rank(1), pt, 5, 0, NULL));
    wire_carry(w, 0);
    wire_as(w, 1);
    CHECK_EQ(PtlMEUnlink(handle), PTL_IN_USE);
    wire_run(w);
    wire_as(w, 1);
    CHECK_OK(PtlMEUnlink(handle));
    wire_free(w);
}

/* Two messages into one buffer that end in the other order: AUTO_UNLINK is last. */
STEP_TEST(auto_unlink_waits_for_every_message) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL, 5, 0);
    me.length = 40;
    me.min_free = 20;
    ptl_handle_me_t handle = append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    put(w, 5, 16, 0, PTL_NO_ACK_REQ);
    put(w, 5, 16, 0, PTL_NO_ACK_REQ);
    struct wire_transit first = wire_begin(w, 0), second = wire_begin(w, 0);
    wire_end(w, &second, (struct portals_ending){0});
    CHECK(next(w, 1, PTL_EVENT_PUT).start == target_bytes + 16);
    none(w, 1);
    CHECK_EQ(PtlMEUnlink(handle), PTL_IN_USE);
    wire_end(w, &first, (struct portals_ending){0});
    CHECK(next(w, 1, PTL_EVENT_PUT).start == target_bytes);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    none(w, 1);
    wire_free(w);
}

/* ---- Unexpected messages ---- */

TEST(overflow_and_a_later_receive) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    me.length = 100;
    me.min_free = 60;
    ptl_handle_me_t buffer = append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    put(w, 5, 24, 3, PTL_ACK_REQ);
    put(w, 6, 24, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    CHECK_EQ(next(w, 1, PTL_EVENT_AUTO_UNLINK).ptl_list, PTL_OVERFLOW_LIST);
    none(w, 1);
    CHECK_EQ(PtlMEUnlink(buffer), PTL_ARG_INVALID);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 6, 0);
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    me.start = target_bytes + 2000;
    ptl_handle_me_t receive = append(w, &me, PTL_PRIORITY_LIST, (void *)6);
    ptl_event_t ev = next(w, 1, PTL_EVENT_PUT_OVERFLOW); /* and no LINK: it was never linked */
    CHECK(ev.start == target_bytes + 24);
    CHECK(ev.user_ptr == (void *)6);
    CHECK_EQ(ev.mlength, 24);
    CHECK_EQ(ev.match_bits, 6);
    CHECK_EQ(ev.ptl_list, PTL_OVERFLOW_LIST);
    CHECK_EQ(ev.hdr_data, 0xabc);
    CHECK_EQ(ev.initiator.rank, 0);
    CHECK(next(w, 1, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)6);
    none(w, 1);
    CHECK_EQ(PtlMEUnlink(receive), PTL_ARG_INVALID);
    me.match_bits = 5;
    append(w, &me, PTL_PRIORITY_LIST, (void *)5);
    ev = next(w, 1, PTL_EVENT_PUT_OVERFLOW);
    CHECK(ev.start == target_bytes);
    CHECK_EQ(ev.remote_offset, 3);
    /* the buffer is free when its last message was taken */
    CHECK(next(w, 1, PTL_EVENT_AUTO_FREE).user_ptr == (void *)0xb);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    none(w, 1);
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

/* An overflow entry that was unlinked automatically cannot be unlinked by the program: what nobody
 * received goes with the entry of the table, and the buffer is the program's again. */
TEST(unexpected_messages_go_with_their_table_entry) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    me.length = 100;
    me.min_free = 60;
    append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    put(w, 6, 24, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    me.min_free = 10;
    ptl_handle_me_t other = append(w, &me, PTL_OVERFLOW_LIST, (void *)0xc);
    put(w, 7, 24, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    wire_as(w, 1);
    CHECK_EQ(PtlMEUnlink(other), PTL_IN_USE); /* linked, and with a message */
    CHECK_EQ(PtlPTFree(ni, pt), PTL_PT_IN_USE);
    ptl_me_t any = entry(PTL_ME_OP_PUT, 7, 0);
    CHECK_OK(PtlMESearch(ni, pt, &any, PTL_SEARCH_DELETE, NULL));
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).match_bits, 7);
    CHECK_OK(PtlMEUnlink(other));
    CHECK_OK(PtlPTFree(ni, pt));
    CHECK(next(w, 1, PTL_EVENT_AUTO_FREE).user_ptr == (void *)0xb);
    none(w, 1);
    any.ignore_bits = ~0ull;
    ptl_pt_index_t again; /* what has the index now knows nothing of them */
    CHECK_OK(PtlPTAlloc(ni, 0, eq, pt, &again));
    CHECK_OK(PtlMESearch(ni, pt, &any, PTL_SEARCH_ONLY, NULL));
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).ni_fail_type, PTL_NI_NO_MATCH);
    wire_free(w);
}

/* What is found by its match bits is also found after others with the same bits came and went. */
TEST(unexpected_messages_come_and_go) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 6, 0);
    for (int round = 0; round < 40; round++) {
        int count = 1 + round % 3; /* other bits stay before, between and behind */
        for (int i = 0; i < count; i++) {
            put(w, 6, 10 + i, 0, PTL_NO_ACK_REQ);
            put(w, (uint64_t)(100 + round), 7, 0, PTL_NO_ACK_REQ);
        }
        wire_run(w);
        for (int i = 0; i < count; i++) {
            append(w, &me, PTL_PRIORITY_LIST, (void *)6);
            CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).rlength, 10 + i);
        }
        none(w, 1);
    }
    me.match_bits = 100 + 20;
    append(w, &me, PTL_PRIORITY_LIST, (void *)7);
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).match_bits, 120);
    wire_free(w);
}

TEST(a_persistent_entry_takes_all_that_match) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT, 0, ~0ull);
    ptl_handle_me_t buffer = append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    for (int i = 0; i < 6; i++)
        put(w, (uint64_t)(i % 2), 10 + i, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    for (int i = 0; i < 6; i++)
        CHECK_EQ(next(w, 1, PTL_EVENT_PUT).ptl_list, PTL_OVERFLOW_LIST);
    wire_as(w, 1);
    CHECK_EQ(PtlMEUnlink(buffer), PTL_IN_USE); /* headers lie in it */
    me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_CT_OVERFLOW, 1, 0);
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    me.ct_handle = ct;
    append(w, &me, PTL_PRIORITY_LIST, (void *)1);
    for (int i = 1; i < 6; i += 2)
        CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).rlength, 10 + i); /* in order */
    next(w, 1, PTL_EVENT_LINK);
    ptl_ct_event_t count;
    CHECK_OK(PtlCTGet(ct, &count));
    CHECK_EQ(count.success, 3);
    me = entry(PTL_ME_OP_PUT, 0, ~0ull);
    append(w, &me, PTL_PRIORITY_LIST, (void *)2);
    for (int i = 0; i < 6; i += 2)
        CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).rlength, 10 + i);
    none(w, 1);
    CHECK_OK(PtlMEUnlink(buffer));
    wire_free(w);
}

TEST(counters_on_overflow_entries_count) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_BYTES, 0, ~0ull);
    me.ct_handle = ct;
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    put(w, 6, 30, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    ptl_ct_event_t count;
    wire_as(w, 1);
    CHECK_OK(PtlCTGet(ct, &count));
    CHECK_EQ(count.success, 54);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_OVERFLOW | PTL_ME_EVENT_CT_BYTES,
               6, 0);
    me.ct_handle = ct;
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    CHECK_OK(PtlCTGet(ct, &count));
    CHECK_EQ(count.success, 84);
    wire_free(w);
}

STEP_TEST(a_receive_posted_while_the_message_arrives) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    struct wire_transit t = wire_begin(w, 0);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 5, 0);
    ptl_handle_me_t receive = append(w, &me, PTL_PRIORITY_LIST, (void *)5);
    none(w, 1); /* the data is not there yet */
    CHECK_EQ(PtlMEUnlink(receive), PTL_IN_USE);
    wire_end(w, &t, (struct portals_ending){0});
    next(w, 1, PTL_EVENT_PUT);
    CHECK(next(w, 1, PTL_EVENT_PUT_OVERFLOW).user_ptr == (void *)5);
    CHECK(next(w, 1, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)5);
    CHECK(next(w, 1, PTL_EVENT_AUTO_UNLINK).user_ptr == (void *)0xb);
    CHECK(next(w, 1, PTL_EVENT_AUTO_FREE).user_ptr == (void *)0xb);
    none(w, 1);
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

/* Whether the receive came before the end of the message or after it. */
STEP_TEST(a_receive_is_told_that_its_message_failed) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_UNLINK_DISABLE, 5, 0);
    for (int late = 0; late < 2; late++) {
        put(w, 5, 24, 0, PTL_NO_ACK_REQ);
        struct wire_transit t = wire_begin(w, 0);
        if (!late)
            append(w, &me, PTL_PRIORITY_LIST, (void *)5);
        wire_end(w, &t, (struct portals_ending){.fail = PTL_NI_SEGV});
        if (late)
            append(w, &me, PTL_PRIORITY_LIST, (void *)5);
        ptl_event_t ev;
        int code;
        while ((code = PtlEQGet(eq, &ev)) == PTL_OK && ev.type != PTL_EVENT_PUT_OVERFLOW)
            CHECK_EQ(ev.ni_fail_type, PTL_NI_SEGV);
        CHECK_EQ(code, PTL_OK);
        CHECK(ev.user_ptr == (void *)5);
        CHECK_EQ(ev.ni_fail_type, PTL_NI_SEGV);
    }
    wire_free(w);
}

/* The card gives a message up that a receive and a search had taken: they do not go with it. */
STEP_TEST(a_receive_outlives_a_message_that_is_dropped) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, (void *)0xb);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    put(w, 6, 24, 0, PTL_NO_ACK_REQ);
    struct wire_transit first = wire_begin(w, 0), second = wire_begin(w, 0);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 5, 0);
    me.options &= ~(unsigned)PTL_ME_EVENT_LINK_DISABLE;
    append(w, &me, PTL_PRIORITY_LIST, (void *)5);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 6, 0);
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, (void *)6));
    none(w, 1);
    wire_end(w, &first, (struct portals_ending){.fail = PTL_NI_DROPPED});
    CHECK(next(w, 1, PTL_EVENT_LINK).user_ptr == (void *)5);
    wire_end(w, &second, (struct portals_ending){.fail = PTL_NI_DROPPED});
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).ni_fail_type, PTL_NI_NO_MATCH);
    none(w, 1);
    put(w, 5, 25, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT).mlength, 25);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    none(w, 1);
    wire_free(w);
}

TEST(unexpected_headers_can_be_disabled) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_UNEXPECTED_HDR_DISABLE, 0, ~0ull);
    ptl_handle_me_t buffer = append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    next(w, 1, PTL_EVENT_PUT);
    me = entry(PTL_ME_OP_PUT, 5, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    none(w, 1);
    CHECK_OK(PtlMEUnlink(buffer));
    wire_free(w);
}

TEST(every_kind_of_overflow_event) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    append(w, &me, PTL_OVERFLOW_LIST, NULL);
    wire_as(w, 0);
    CHECK_OK(PtlPut(source, 0, 8, 0, wire_rank(1), pt, 1, 0, NULL, 0));
    CHECK_OK(PtlGet(source, 0, 8, wire_rank(1), pt, 1, 0, NULL));
    CHECK_OK(PtlAtomic(source, 0, 8, 0, wire_rank(1), pt, 1, 0, NULL, 0, PTL_SUM, PTL_INT8_T));
    CHECK_OK(PtlFetchAtomic(source, 512, source, 0, 8, wire_rank(1), pt, 1, 0, NULL, 0, PTL_BOR,
                            PTL_INT8_T));
    wire_run(w);
    none(w, 1);
    me = entry(PTL_ME_OP_PUT, 1, 0);
    append(w, &me, PTL_PRIORITY_LIST, NULL);
    next(w, 1, PTL_EVENT_PUT_OVERFLOW);
    next(w, 1, PTL_EVENT_GET_OVERFLOW);
    CHECK_EQ(next(w, 1, PTL_EVENT_ATOMIC_OVERFLOW).atomic_operation, PTL_SUM);
    CHECK_EQ(next(w, 1, PTL_EVENT_FETCH_ATOMIC_OVERFLOW).atomic_operation, PTL_BOR);
    none(w, 1);
    wire_free(w);
}

TEST(search_only_and_delete) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    ptl_handle_me_t buffer = append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    put(w, 5, 25, 0, PTL_NO_ACK_REQ);
    put(w, 6, 26, 0, PTL_NO_ACK_REQ);
    wire_run(w);
    wire_as(w, 1);
    me = entry(PTL_ME_OP_PUT | PTL_ME_USE_ONCE, 5, 0);
    me.length = 0;
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_ONLY, (void *)9));
    ptl_event_t ev = next(w, 1, PTL_EVENT_SEARCH);
    CHECK_EQ(ev.ni_fail_type, PTL_NI_OK);
    CHECK_EQ(ev.mlength, 24);
    CHECK(ev.user_ptr == (void *)9);
    none(w, 1);
    me.options &= ~(unsigned)PTL_ME_USE_ONCE; /* persistent: every one */
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_ONLY, (void *)9));
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).mlength, 24);
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).mlength, 25);
    none(w, 1);
    me.match_bits = 7;
    for (int op = PTL_SEARCH_ONLY; op <= PTL_SEARCH_DELETE; op++) {
        CHECK_OK(PtlMESearch(ni, pt, &me, (ptl_search_op_t)op, (void *)8));
        ev = next(w, 1, PTL_EVENT_SEARCH);
        CHECK_EQ(ev.ni_fail_type, PTL_NI_NO_MATCH);
        CHECK(ev.user_ptr == (void *)8);
        none(w, 1);
    }
    me.match_bits = 5;
    me.options |= PTL_ME_USE_ONCE | PTL_ME_EVENT_CT_OVERFLOW;
    me.ct_handle = ct;
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, (void *)7));
    ev = next(w, 1, PTL_EVENT_PUT_OVERFLOW);
    CHECK_EQ(ev.mlength, 24);
    CHECK(ev.start == target_bytes);
    none(w, 1); /* a search is never linked or unlinked */
    me.match_bits = 0;
    me.ignore_bits = ~0ull;
    me.options &= ~(unsigned)PTL_ME_USE_ONCE;
    CHECK_EQ(PtlMEUnlink(buffer), PTL_IN_USE);
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, NULL));
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).mlength, 25);
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).mlength, 26);
    ptl_ct_event_t count;
    CHECK_OK(PtlCTGet(ct, &count));
    CHECK_EQ(count.success, 3);
    CHECK_OK(PtlMEUnlink(buffer));
    for (int i = 0; i < PTL_SR_LAST; i++)
        CHECK_EQ(status(w, (ptl_sr_index_t)i), 0);
    wire_free(w);
}

STEP_TEST(a_search_takes_what_is_still_arriving) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE, 0, ~0ull);
    ptl_handle_me_t buffer = append(w, &me, PTL_OVERFLOW_LIST, NULL);
    put(w, 5, 24, 0, PTL_NO_ACK_REQ);
    struct wire_transit t = wire_begin(w, 0);
    me = entry(PTL_ME_USE_ONCE, 5, 0);
    wire_as(w, 1);
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, (void *)7));
    none(w, 1);
    CHECK_OK(PtlMESearch(ni, pt, &me, PTL_SEARCH_DELETE, (void *)8)); /* it is gone */
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).ni_fail_type, PTL_NI_NO_MATCH);
    wire_end(w, &t, (struct portals_ending){0});
    CHECK(next(w, 1, PTL_EVENT_PUT_OVERFLOW).user_ptr == (void *)7);
    none(w, 1);
    CHECK_OK(PtlMEUnlink(buffer));
    CHECK_OK(PtlPTFree(ni, pt));
    wire_free(w);
}

TEST(non_matching_lists) {
    struct wire *w = pair_with(PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, 0, 64, NULL, 0);
    ptl_le_t le = {target_bytes, 100, PTL_CT_NONE, PTL_UID_ANY,
                   PTL_LE_OP_PUT | PTL_LE_USE_ONCE | PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t handle;
    wire_as(w, 1);
    CHECK_OK(PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, (void *)1, &handle));
    le.options &= ~(unsigned)PTL_LE_USE_ONCE;
    le.start = target_bytes + 1000;
    CHECK_OK(PtlLEAppend(ni, pt, &le, PTL_OVERFLOW_LIST, (void *)2, &handle));
    put(w, 123, 10, 5, PTL_NO_ACK_REQ); /* match bits mean nothing here */
    put(w, 456, 11, 5, PTL_NO_ACK_REQ);
    put(w, 789, 12, 5, PTL_NO_ACK_REQ);
    wire_run(w);
    CHECK(next(w, 1, PTL_EVENT_PUT).start == target_bytes + 5);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    CHECK(next(w, 1, PTL_EVENT_PUT).start == target_bytes + 1005);
    next(w, 1, PTL_EVENT_PUT);
    CHECK_OK(PtlLESearch(ni, pt, &le, PTL_SEARCH_ONLY, NULL));
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).mlength, 11);
    CHECK_EQ(next(w, 1, PTL_EVENT_SEARCH).mlength, 12);
    le.options |= PTL_LE_USE_ONCE;
    ptl_handle_le_t receive;
    CHECK_OK(PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, (void *)3, &receive));
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).mlength, 11);
    next(w, 1, PTL_EVENT_AUTO_UNLINK);
    CHECK_OK(PtlLESearch(ni, pt, &le, PTL_SEARCH_DELETE, NULL));
    CHECK_EQ(next(w, 1, PTL_EVENT_PUT_OVERFLOW).mlength, 12);
    CHECK_OK(PtlLEUnlink(handle));
    none(w, 1);
    wire_free(w);
}

TEST_MAIN
