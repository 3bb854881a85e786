/* P4sPIN as the host and the card see it: images, HPU memory, entries with handlers, the endings
 * that handlers choose, and their commands. The handlers themselves run in the card's tests. */
#include "lib/test_wire.h"

#define LOGICAL (PTL_NI_MATCHING | PTL_NI_LOGICAL)

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;
static ptl_handle_ct_t ct;
static ptl_pt_index_t pt;
static ptl_handle_md_t md;
static ptl_image_h image;
static ptl_hpu_md_h hpu;
static ptl_handler_t header, payload, completion;
static uint8_t memory[4096], source[4096], more[256];

/* Process 1 has an image, HPU memory and a portal table entry; process 0 sends. */
static struct wire *pair(void) {
    struct wire *w = wire_with(LOGICAL, NULL, &ni);
    memset(memory, 0, sizeof memory);
    for (size_t i = 0; i < sizeof source; i++)
        source[i] = (uint8_t)(i * 3 + 1);
    ptl_handle_eq_t acks;
    CHECK_OK(PtlEQAlloc(ni, 64, &acks));
    ptl_md_t desc = {source, sizeof source, 0, acks, PTL_CT_NONE};
    CHECK_OK(PtlMDBind(ni, &desc, &md));
    wire_as(w, 1);
    CHECK_OK(PtlEQAlloc(ni, 64, &eq));
    CHECK_OK(PtlCTAlloc(ni, &ct));
    CHECK_OK(PtlPTAlloc(ni, 0, eq, PTL_PT_ANY, &pt));
    if (PtlImageLoad(ni, getenv("CARD_P4_IMAGE"), &image) != PTL_OK)
        TEST_FAIL("%s", PtlImageError());
    CHECK_OK(PtlImageFind(image, "card_header_handler", &header));
    CHECK_OK(PtlImageFind(image, "card_payload_handler", &payload));
    CHECK_OK(PtlImageFind(image, "card_completion_handler", &completion));
    CHECK_OK(PtlHPUAllocMem(200, ni, &hpu));
    return w;
}

static ptl_me_t entry(unsigned options) {
    ptl_me_t me = {.start = memory,
                   .length = sizeof memory,
                   .ct_handle = ct,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM |
                              PTL_ME_EVENT_LINK_DISABLE | PTL_ME_HANDLERS | options,
                   .header_handler = header,
                   .payload_handler = payload,
                   .completion_handler = completion,
                   .hpu_memory = hpu};
    me.match_id.rank = PTL_RANK_ANY;
    return me;
}

static ptl_handle_me_t append(struct wire *w, const ptl_me_t *me) {
    ptl_handle_me_t handle;
    wire_as(w, 1);
    CHECK_OK(PtlMEAppend(ni, pt, me, PTL_PRIORITY_LIST, (void *)9, &handle));
    return handle;
}

static struct wire_transit arrive(struct wire *w, uint64_t bytes, ptl_ack_req_t ack) {
    wire_as(w, 0);
    CHECK_OK(PtlPut(md, 0, bytes, ack, wire_rank(1), pt, 0, 0, NULL, 0));
    return wire_begin(w, w->queued - 1);
}

static ptl_event_t next(struct wire *w, ptl_event_kind_t type) {
    ptl_event_t ev;
    wire_as(w, 1);
    CHECK_OK(PtlEQGet(eq, &ev));
    CHECK_EQ(ev.type, type);
    return ev;
}

static void none(struct wire *w) {
    ptl_event_t ev;
    wire_as(w, 1);
    CHECK_EQ(PtlEQGet(eq, &ev), PTL_EQ_EMPTY);
}

static ptl_ct_event_t counted(struct wire *w) {
    ptl_ct_event_t value;
    wire_as(w, 1);
    CHECK_OK(PtlCTGet(ct, &value));
    return value;
}

TEST(limits_of_the_card) {
    struct wire *w = pair();
    ptl_hpu_limits_t limits;
    CHECK_OK(PtlHPULimits(ni, &limits));
    CHECK_EQ(limits.max_payload_size, 4096);
    CHECK(limits.max_user_hdr_size > 0 && limits.max_handler_mem > 0);
    CHECK(limits.max_initial_state > 0 && limits.min_fragmentation_limit > 0);
    CHECK_EQ(PtlHPULimits(ni, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlHPULimits(99, &limits), PTL_ARG_INVALID);
    wire_free(w);
}

TEST(hpu_memory) {
    struct wire *w = pair();
    ptl_hpu_limits_t limits;
    ptl_hpu_md_h h = 5, second;
    CHECK_OK(PtlHPULimits(ni, &limits));
    CHECK_EQ(PtlHPUAllocMem(0, ni, &h), PTL_ARG_INVALID);
    CHECK_EQ(PtlHPUAllocMem(10, 99, &h), PTL_ARG_INVALID);
    CHECK_EQ(PtlHPUAllocMem(10, ni, NULL), PTL_ARG_INVALID);
    CHECK_EQ(PtlHPUAllocMem(limits.max_handler_mem + 1, ni, &h), PTL_NO_SPACE);
    CHECK_OK(PtlHPUAllocMem(limits.max_handler_mem, ni, &h));
    ptl_handle_ni_t of;
    CHECK_OK(PtlNIHandle(h, &of));
    CHECK_EQ(of, ni);
    second = h;
    CHECK_OK(PtlHPUFreeMem(&h));
    CHECK_EQ(h, PTL_INVALID_HANDLE);
    CHECK_EQ(PtlHPUFreeMem(&second), PTL_ARG_INVALID);
    CHECK_EQ(PtlHPUFreeMem(NULL), PTL_ARG_INVALID);
    /* all together: the card's memory is finite, and comes back */
    for (int round = 0; round < 2; round++) {
        ptl_hpu_md_h all[2000];
        int count = 0;
        while (count < 2000 && PtlHPUAllocMem(limits.max_handler_mem, ni, &all[count]) == PTL_OK)
            count++;
        CHECK(count >= 1 && count < 2000);
        while (count)
            CHECK_OK(PtlHPUFreeMem(&all[--count]));
    }
    wire_free(w);
}

TEST(images) {
    struct wire *w = pair();
    ptl_image_h bad;
    ptl_handler_t handler;
    CHECK_EQ(PtlImageLoad(ni, "/no/such/image", &bad), PTL_ARG_INVALID);
    CHECK_HAS(PtlImageError(), "/no/such/image");
    CHECK_EQ(PtlImageParse(ni, "four bytes", "abcd", 4, &bad), PTL_ARG_INVALID);
    CHECK_HAS(PtlImageError(), "four bytes");
    CHECK_EQ(PtlImageParse(ni, "none", NULL, 4, &bad), PTL_ARG_INVALID);
    ptl_image_h pspin; /* of the other interface: entries take both */
    CHECK_EQ(PtlImageLoad(ni, getenv("CARD_IMAGE"), &pspin), PTL_OK);
    CHECK_EQ(PtlImageUnload(pspin), PTL_OK);
    CHECK_EQ(PtlImageFind(image, "no_such_handler", &handler), PTL_ARG_INVALID);
    CHECK_HAS(PtlImageError(), "no_such_handler");
    CHECK_EQ(PtlImageFind((ptl_image_h)memory, "card_header_handler", &handler), PTL_ARG_INVALID);
    ptl_image_h again;
    FILE *file = fopen(getenv("CARD_P4_IMAGE"), "rb");
    static char bytes[1 << 20];
    size_t length = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    CHECK_OK(PtlImageParse(ni, "card_p4", bytes, length, &again));
    CHECK_OK(PtlImageFind(again, "card_header_handler", &handler));
    CHECK(handler != header);
    ptl_me_t me = entry(0);
    me.payload_handler = NULL;
    me.completion_handler = handler; /* of another image */
    ptl_handle_me_t handle;
    CHECK_EQ(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    CHECK_OK(PtlImageUnload(again));
    CHECK_EQ(PtlImageUnload(again), PTL_ARG_INVALID);
    me.completion_handler = NULL;
    me.header_handler = (ptl_handler_t)memory; /* of none */
    CHECK_EQ(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID);
    me.header_handler = header;
    handle = append(w, &me);
    CHECK_EQ(PtlImageUnload(image), PTL_IN_USE);
    ptl_hpu_md_h mine = hpu;
    CHECK_EQ(PtlHPUFreeMem(&mine), PTL_IN_USE);
    CHECK_OK(PtlMEUnlink(handle));
    CHECK_OK(PtlHPUFreeMem(&mine));
    CHECK_OK(PtlImageUnload(image));
    wire_free(w);
}

TEST(entries_check_what_handlers_need) {
    struct wire *w = pair();
    ptl_hpu_limits_t limits;
    ptl_handle_me_t handle;
    CHECK_OK(PtlHPULimits(ni, &limits));
    ptl_me_t me = entry(0);
#define BAD CHECK_EQ(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_ARG_INVALID)
    me.hpu_memory = 12345;
    BAD;
    me = entry(0);
    me.hpu_initial_state = source;
    me.hpu_initial_state_length = 201; /* longer than the memory */
    BAD;
    me = entry(0);
    me.hpu_memory = PTL_INVALID_HANDLE;
    me.hpu_initial_state_length = 1;
    BAD;
    me = entry(0);
    me.user_hdr_length = limits.max_user_hdr_size + 1;
    BAD;
    me = entry(PTL_ME_HANDLER_IOVEC);
    me.handler_host_mem_start = source;
    me.handler_host_mem_length = 5000;
    BAD;
#undef BAD
    me = entry(0);
    me.hpu_memory = PTL_INVALID_HANDLE; /* handlers without state */
    CHECK_OK(PtlMEUnlink(append(w, &me)));
    wire_free(w);
}

TEST(fields_are_not_read_without_the_option) {
    struct wire *w = pair();
    ptl_me_t me = entry(0);
    memset((uint8_t *)&me + 64, 0xa5, sizeof me - 64); /* what old programs leave there */
    me.options &= ~(unsigned)PTL_ME_HANDLERS;
    append(w, &me);
    struct wire_transit t = arrive(w, 8, PTL_NO_ACK_REQ);
    CHECK(!t.arrival->handlers);
    wire_end(w, &t, (struct portals_ending){0});
    next(w, PTL_EVENT_PUT);
    CHECK_OK(PtlImageUnload(image)); /* nobody uses it */
    wire_free(w);
}

TEST(the_card_finds_handlers_state_and_host_memory) {
    struct wire *w = pair();
    ptl_iovec_t pieces[2] = {{more, 10}, {more + 100, 30}};
    uint8_t state[16] = "initial state...";
    ptl_me_t me = entry(PTL_ME_HANDLER_IOVEC);
    me.hpu_initial_state = state;
    me.hpu_initial_state_length = 16;
    me.handler_host_mem_start = pieces;
    me.handler_host_mem_length = 2;
    me.user_hdr_length = 12;
    append(w, &me);
    struct wire_transit t = arrive(w, 100, PTL_NO_ACK_REQ);
    const struct portals_handlers *h = t.arrival->handlers;
    CHECK(h && h->image);
    CHECK(h->header && h->payload && h->completion);
    CHECK(h->header != h->payload);
    CHECK_EQ(h->state_bytes, 200);
    CHECK_EQ((uintptr_t)h->state % 64, 0);
    CHECK(memcmp(h->state, state, 16) == 0);
    CHECK_EQ(h->state[16], 0);
    CHECK_EQ(h->host_bytes, 40);
    CHECK_EQ(h->user_hdr_bytes, 12);
    struct nic_segment s[3];
    CHECK_EQ(portals_handler_segments(t.arrival, 5, 100, s, 3), 2);
    CHECK(s[0].host == more + 5 && s[0].bytes == 5);
    CHECK(s[1].host == more + 100 && s[1].bytes == 30);
    CHECK_EQ(portals_handler_segments(t.arrival, 40, 1, s, 3), 0);
    CHECK_EQ(portals_entry_segments(t.arrival, 4000, 1000, s, 3), 1); /* beyond the message */
    CHECK(s[0].host == memory + 4000 && s[0].bytes == 96);
    CHECK_EQ(portals_entry_bytes(t.arrival), 4096);
    h->state[0] = 'I';
    wire_end(w, &t, (struct portals_ending){0});
    /* another entry on the same memory, which overwrites nothing: state is kept */
    me.hpu_initial_state = NULL;
    me.match_bits = 1;
    append(w, &me);
    CHECK_EQ(h->state[0], 'I');
    wire_free(w);
}

/* ---- Endings ---- */

TEST(pending_leaves_the_entry_where_it_was) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_USE_ONCE);
    ptl_handle_me_t handle = append(w, &me);
    me = entry(0);
    append(w, &me); /* a second one behind it */
    struct wire_transit t = arrive(w, 8, PTL_ACK_REQ);
    struct wire_transit other = arrive(w, 9, PTL_NO_ACK_REQ); /* meets the second */
    wire_end(w, &t, (struct portals_ending){.pending = true});
    none(w);
    CHECK_EQ(counted(w).success, 0);
    CHECK_EQ(w->queue[0].message.kind, NIC_ACK); /* the message itself is done */
    CHECK_EQ(w->queue[0].message.fail, PTL_NI_OK);
    wire_end(w, &other, (struct portals_ending){0});
    CHECK_EQ(next(w, PTL_EVENT_PUT).mlength, 9);
    t = arrive(w, 10, PTL_NO_ACK_REQ); /* the first again */
    wire_end(w, &t, (struct portals_ending){0});
    CHECK_EQ(next(w, PTL_EVENT_PUT).mlength, 10);
    next(w, PTL_EVENT_AUTO_UNLINK);
    CHECK_EQ(PtlMEUnlink(handle), PTL_ARG_INVALID);
    wire_free(w);
}

TEST(errors_are_events) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_EVENT_SUCCESS_DISABLE);
    append(w, &me);
    uint8_t fails[] = {PTL_NI_SEGV, PTL_NI_HANDLER_FAIL};
    for (int i = 0; i < 2; i++) {
        struct wire_transit t = arrive(w, 8, PTL_ACK_REQ);
        /* an error is told even where a handler also said PENDING */
        wire_end(w, &t, (struct portals_ending){.fail = fails[i], .pending = true});
        CHECK_EQ(next(w, PTL_EVENT_PUT).ni_fail_type, fails[i]);
        none(w);
        CHECK_EQ(w->queue[0].message.fail, fails[i]);
        wire_run(w);
    }
    CHECK_EQ(counted(w).success, 0);
    CHECK_EQ(counted(w).failure, 2);
    struct wire_transit t = arrive(w, 8, PTL_NO_ACK_REQ);
    wire_end(w, &t, (struct portals_ending){0});
    none(w); /* success is not told here */
    wire_free(w);
}

/* Neither events nor a counter: the status register has it. */
TEST(silent_failures_are_counted) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_EVENT_COMM_DISABLE);
    ptl_sr_value_t failed;
    me.ct_handle = PTL_CT_NONE;
    append(w, &me);
    for (int i = 0; i < 3; i++) {
        struct wire_transit t = arrive(w, 8, PTL_NO_ACK_REQ);
        wire_end(w, &t, (struct portals_ending){.fail = i == 1 ? PTL_NI_HANDLER_FAIL : PTL_NI_OK});
        none(w);
        CHECK_OK(PtlNIStatus(ni, PTL_SR_FAILED_MESSAGES, &failed));
        CHECK_EQ(failed, i >= 1);
    }
    CHECK_EQ(PtlNIStatus(ni, (ptl_sr_index_t)66, &failed), PTL_ARG_INVALID);
    wire_free(w);
}

TEST(dropped_bytes_are_not_in_mlength) {
    struct wire *w = pair();
    ptl_me_t me = entry(PTL_ME_EVENT_CT_BYTES);
    append(w, &me);
    struct wire_transit t = arrive(w, 100, PTL_ACK_REQ);
    wire_end(w, &t, (struct portals_ending){.dropped = 30});
    ptl_event_t ev = next(w, PTL_EVENT_PUT);
    CHECK_EQ(ev.mlength, 70);
    CHECK_EQ(ev.rlength, 100);
    CHECK_EQ(w->queue[0].message.length, 70);
    t = arrive(w, 100, PTL_NO_ACK_REQ);
    wire_end(w, &t, (struct portals_ending){.dropped = 500});
    CHECK_EQ(next(w, PTL_EVENT_PUT).mlength, 0);
    CHECK_EQ(counted(w).success, 70);
    wire_free(w);
}

TEST(a_card_without_room_takes_nothing) {
    for (int flow = 0; flow < 2; flow++) {
        struct wire *w = pair();
        wire_as(w, 1);
        CHECK_OK(PtlPTFree(ni, pt));
        CHECK_OK(PtlPTAlloc(ni, flow ? PTL_PT_FLOWCTRL : 0, eq, PTL_PT_ANY, &pt));
        ptl_me_t me = entry(PTL_ME_USE_ONCE | PTL_ME_MANAGE_LOCAL);
        append(w, &me);
        struct wire_transit t = arrive(w, 8, PTL_ACK_REQ);
        uint8_t fail = portals_exhausted(t.arrival);
        CHECK_EQ(fail, flow ? PTL_NI_PT_DISABLED : PTL_NI_DROPPED);
        wire_end(w, &t, (struct portals_ending){.fail = fail});
        CHECK_EQ(w->queue[0].message.fail, fail);
        if (flow)
            next(w, PTL_EVENT_PT_DISABLED);
        none(w);
        CHECK_EQ(memory[0], 0);
        if (flow)
            CHECK_OK(PtlPTEnable(ni, pt));
        t = arrive(w, 8, PTL_NO_ACK_REQ); /* the entry is as it was */
        wire_end(w, &t, (struct portals_ending){0});
        CHECK(next(w, PTL_EVENT_PUT).start == memory);
        next(w, PTL_EVENT_AUTO_UNLINK);
        wire_free(w);
    }
}

/* ---- Commands ---- */

/* Process 0 gets an entry that takes everything under the same index. */
static uint8_t away[4096];

static void open_process_0(struct wire *w) {
    ptl_pt_index_t index;
    ptl_handle_me_t handle;
    wire_as(w, 0);
    CHECK_OK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, pt, &index));
    ptl_me_t me = {.start = away,
                   .length = sizeof away,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET,
                   .ignore_bits = ~0ull};
    me.match_id.rank = PTL_RANK_ANY;
    CHECK_OK(PtlMEAppend(ni, index, &me, PTL_PRIORITY_LIST, NULL, &handle));
    memset(away, 0, sizeof away);
}

TEST(commands_send_from_host_and_card) {
    struct wire *w = pair();
    open_process_0(w);
    ptl_me_t me = entry(0);
    ptl_handle_me_t handle = append(w, &me);
    for (int i = 0; i < 100; i++)
        memory[i] = (uint8_t)(i + 1);
    struct wire_transit t = arrive(w, 0, PTL_NO_ACK_REQ);
    struct portals *p = t.to->portals;
    uint8_t card[64];
    memset(card, 0x5c, sizeof card);
    struct portals_command c = {.kind = NIC_PUT,
                                .offset = 10,
                                .length = 20,
                                .count = true,
                                .target = wire_rank(0),
                                .match_bits = 77,
                                .user_ptr = (void *)3};
    CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_OK);
    c.card = card;
    c.remote_offset = 100;
    c.length = 64;
    c.count = false;
    CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_OK);
    wire_end(w, &t, (struct portals_ending){0});
    next(w, PTL_EVENT_PUT);
    CHECK_EQ(PtlMEUnlink(handle), PTL_IN_USE); /* its memory is still being sent */
    CHECK_EQ(w->queue[0].message.pt_index, pt);
    CHECK_EQ(w->queue[0].message.match_bits, 77);
    wire_run(w);
    CHECK(memcmp(away, memory + 10, 20) == 0);
    CHECK(memcmp(away + 100, card, 64) == 0);
    none(w);                         /* sends raise no full event */
    CHECK_EQ(counted(w).success, 2); /* the message, and the send that was to be counted */
    CHECK_OK(PtlMEUnlink(handle));
    wire_free(w);
}

TEST(commands_get_and_do_atomics) {
    struct wire *w = pair();
    open_process_0(w);
    ptl_me_t me = entry(0);
    ptl_handle_me_t handle = append(w, &me);
    struct wire_transit t = arrive(w, 0, PTL_NO_ACK_REQ);
    struct portals *p = t.to->portals;
    uint8_t card[16] = {0};
    memset(away, 7, sizeof away);
    struct portals_command c = {.kind = NIC_GET,
                                .offset = 200,
                                .length = 8,
                                .count = true,
                                .target = wire_rank(0),
                                .user_ptr = (void *)4};
    CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_OK);
    c.card = card;
    CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_OK);
    memory[0] = 30;
    c = (struct portals_command){.kind = NIC_ATOMIC,
                                 .length = 1,
                                 .target = wire_rank(0),
                                 .remote_offset = 300,
                                 .ack_req = PTL_ACK_REQ,
                                 .count = true,
                                 .operation = PTL_SUM,
                                 .datatype = PTL_UINT8_T,
                                 .user_ptr = (void *)5};
    CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_OK);
    wire_end(w, &t, (struct portals_ending){0});
    wire_run(w);
    next(w, PTL_EVENT_PUT);
    for (int i = 0; i < 2; i++)
        CHECK(next(w, PTL_EVENT_REPLY).user_ptr == (void *)4);
    CHECK(next(w, PTL_EVENT_ACK).user_ptr == (void *)5);
    none(w);
    CHECK_EQ(memory[200], 7);
    CHECK_EQ(card[7], 7);
    CHECK_EQ(card[8], 0);
    CHECK_EQ(away[300], 37);
    CHECK_EQ(counted(w).success, 4);
    CHECK_OK(PtlMEUnlink(handle));
    wire_free(w);
}

TEST(commands_are_checked) {
    struct wire *w = pair();
    ptl_me_t me = entry(0);
    append(w, &me);
    struct wire_transit t = arrive(w, 8, PTL_NO_ACK_REQ);
    struct portals *p = t.to->portals;
    struct portals_command good = {.kind = NIC_PUT, .length = 8, .target = wire_rank(0)}, c;
#define BAD(field, value)                                                                          \
    do {                                                                                           \
        c = good;                                                                                  \
        c.field = value;                                                                           \
        CHECK_EQ(portals_command(p, t.arrival, &c, NULL), PTL_ARG_INVALID);                        \
    } while (0)
    BAD(kind, NIC_FETCH_ATOMIC);
    BAD(offset, 4090); /* beyond the entry */
    BAD(offset, UINT64_MAX);
    BAD(length, 5ull << 30);
    BAD(target, wire_rank(4));
    BAD(ack_req, 9);
    good.kind = NIC_ATOMIC;
    BAD(operation, PTL_SWAP);
    BAD(datatype, PTL_DATATYPE_LAST);
    BAD(length, 513);
#undef BAD
    const struct portals_arrival refused = {.fail = PTL_NI_DROPPED};
    CHECK_EQ(portals_command(p, &refused, &good, NULL), PTL_ARG_INVALID);
    CHECK_EQ(w->queued, 0);
    wire_end(w, &t, (struct portals_ending){0});
    wire_free(w);
}

TEST(commands_on_the_counter) {
    struct wire *w = pair();
    ptl_me_t me = entry(0);
    append(w, &me);
    struct wire_transit t = arrive(w, 8, PTL_NO_ACK_REQ);
    struct portals *p = t.to->portals;
    ptl_ct_event_t value;
    CHECK_EQ(portals_command_ct_set(p, t.arrival, (ptl_ct_event_t){10, 1}), PTL_OK);
    CHECK_EQ(portals_command_ct_inc(p, t.arrival, (ptl_ct_event_t){5, 0}), PTL_OK);
    CHECK_EQ(portals_command_ct_inc(p, t.arrival, (ptl_ct_event_t){0, 2}), PTL_OK);
    CHECK_EQ(portals_command_ct_inc(p, t.arrival, (ptl_ct_event_t){1, 1}), PTL_ARG_INVALID);
    CHECK_EQ(portals_command_ct_get(p, t.arrival, &value), PTL_OK);
    CHECK_EQ(value.success, 15);
    CHECK_EQ(value.failure, 3);
    CHECK_EQ(counted(w).success, 15);
    wire_end(w, &t, (struct portals_ending){0});
    me.ct_handle = PTL_CT_NONE;
    me.match_bits = 1;
    append(w, &me);
    wire_as(w, 0);
    CHECK_OK(PtlPut(md, 0, 8, 0, wire_rank(1), pt, 1, 0, NULL, 0));
    t = wire_begin(w, 0);
    CHECK_EQ(portals_command_ct_inc(p, t.arrival, (ptl_ct_event_t){5, 2}), PTL_ARG_INVALID);
    wire_end(w, &t, (struct portals_ending){0});
    wire_free(w);
}

TEST_MAIN
