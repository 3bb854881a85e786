/* Two processes on a wire: 0 sends from source_bytes, 1 has a portal table entry with a queue. */
#ifndef TESTS_PAIR_H
#define TESTS_PAIR_H

#include "lib/test_wire.h"

#define LOGICAL (PTL_NI_MATCHING | PTL_NI_LOGICAL)

__attribute__((unused)) static ptl_handle_ni_t ni;
__attribute__((unused)) static ptl_handle_eq_t
    eq; /* of process 1's portal table entry; process 0's descriptor has its own */
__attribute__((unused)) static ptl_handle_ct_t ct;
__attribute__((unused)) static ptl_handle_eq_t source_eq;
__attribute__((unused)) static ptl_handle_ct_t source_ct;
__attribute__((unused)) static ptl_handle_md_t source;
__attribute__((unused)) static ptl_pt_index_t pt;
__attribute__((unused)) static uint8_t target_bytes[4096], source_bytes[4096];

/* Process 0 sends from source_bytes, process 1 has a portal table entry with a queue. */
__attribute__((unused)) static struct wire *pair_with(unsigned ni_options, unsigned pt_options,
                                                      unsigned events,
                                                      const ptl_ni_limits_t *limits,
                                                      unsigned md_options) {
    struct wire *w = wire_with(ni_options, limits, &ni);
    for (size_t i = 0; i < sizeof source_bytes; i++)
        source_bytes[i] = (uint8_t)(i * 7 + 1);
    memset(target_bytes, 0, sizeof target_bytes);
    wire_as(w, 1);
    CHECK_OK(PtlEQAlloc(ni, events, &eq));
    CHECK_OK(PtlCTAlloc(ni, &ct));
    CHECK_OK(PtlPTAlloc(ni, pt_options, eq, PTL_PT_ANY, &pt));
    wire_as(w, 0);
    CHECK_OK(PtlEQAlloc(ni, 64, &source_eq));
    CHECK_OK(PtlCTAlloc(ni, &source_ct));
    ptl_md_t md = {source_bytes, sizeof source_bytes, md_options, source_eq, source_ct};
    CHECK_OK(PtlMDBind(ni, &md, &source));
    return w;
}

__attribute__((unused)) static struct wire *pair(void) {
    return pair_with(LOGICAL, 0, 64, NULL, 0);
}

__attribute__((unused)) static ptl_me_t entry(unsigned options, uint64_t bits, uint64_t ignore) {
    ptl_me_t me = {.start = target_bytes,
                   .length = sizeof target_bytes,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = options | PTL_ME_EVENT_LINK_DISABLE,
                   .match_bits = bits,
                   .ignore_bits = ignore};
    me.match_id.rank = PTL_RANK_ANY;
    return me;
}

/* Process 1 appends. */
__attribute__((unused)) static ptl_handle_me_t append(struct wire *w, const ptl_me_t *me,
                                                      ptl_list_t list, void *user_ptr) {
    ptl_handle_me_t handle;
    wire_as(w, 1);
    CHECK_OK(PtlMEAppend(ni, pt, me, list, user_ptr, &handle));
    return handle;
}

/* Process 0 puts. */
__attribute__((unused)) static void put(struct wire *w, uint64_t bits, uint64_t length,
                                        uint64_t offset, ptl_ack_req_t ack) {
    wire_as(w, 0);
    CHECK_OK(PtlPut(source, 0, length, ack, wire_rank(1), pt, bits, offset, (void *)0x77, 0xabc));
}

__attribute__((unused)) static ptl_event_t next(struct wire *w, uint32_t process,
                                                ptl_event_kind_t type) {
    ptl_event_t ev;
    wire_as(w, process);
    int code = PtlEQGet(process ? eq : source_eq, &ev);
    if (code != PTL_OK)
        TEST_FAIL("no event of type %d but code %d", type, code);
    CHECK_EQ(ev.type, type);
    return ev;
}

__attribute__((unused)) static void none(struct wire *w, uint32_t process) {
    ptl_event_t ev;
    wire_as(w, process);
    int code = PtlEQGet(process ? eq : source_eq, &ev);
    if (code != PTL_EQ_EMPTY)
        TEST_FAIL("an event of type %d that nobody asked for", ev.type);
}

__attribute__((unused)) static int status(struct wire *w, ptl_sr_index_t index) {
    ptl_sr_value_t value;
    wire_as(w, 1);
    CHECK_OK(PtlNIStatus(ni, index, &value));
    return value;
}

#endif
