/* Large puts and replies between live cards: their data goes through slots beside the lane, and
 * reaches its message whole or in pieces. */
#include "lib/live_user.h"

#include "base/rng.h"

static struct user a, b;

/* Slots that b has emptied so far of those that a fills. */
static uint64_t slots(void) {
    struct live_box_view view;
    CHECK(box_open(&view, &folder, (struct nic_address){1, 2}, 1));
    uint64_t count = view.lane->bulk_head;
    box_close(&view);
    return count;
}

static uint64_t begun; /* slots, at the beginning of a test */

/* The first message opens the lane, the second asks for slots. */
static void begin(void) {
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    for (uint64_t i = 2; !slots(); i++) {
        CHECK_EQ(put(&a, 2, 0, MEMORY), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, i, &event), PTL_OK);
    }
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    look_at(&b, &a);
    memset(b.memory, 0, MEMORY);
    struct rng rng = rng_seeded(3);
    for (uint64_t i = 0; i < MEMORY; i++)
        a.source[i] = (uint8_t)rng_u64(&rng);
    look_at(&b, &a); /* what was cleared is its card's again */
    begun = slots();
}

static void end(void) {
    CHECK_EQ(live_card_malformed(a.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(large_puts_go_through_slots) {
    ptl_ct_event_t event;
    begin();
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(put(&a, 2, i * (MEMORY / 8), MEMORY / 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 8, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    CHECK(slots() >= begun + MEMORY / BULK_SLOT_BYTES);
    CHECK_EQ(live_card_malformed(b.card), 0);
    end();
}

/* Records of every length between them, one of which is as long as the header of a slot. */
TEST(small_puts_between_large_ones_take_no_slot) {
    ptl_ct_event_t event;
    begin();
    for (uint32_t bytes = 0; bytes <= 64; bytes++) {
        CHECK_EQ(put(&a, 2, 0, bytes), PTL_OK);
        CHECK_EQ(put(&a, 2, bytes * 100, 100000), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, 2 * (bytes + 1), &event), PTL_OK);
        look_at(&b, &a);
        CHECK(memcmp(a.source + bytes * 100, b.memory + bytes * 100, 100000) == 0);
        look_at(&b, &a); /* what was compared is its card's again */
        memset(a.source + bytes * 100, (int)bytes + 1, 200000); /* of the next */
    }
    end();
}

TEST(what_does_not_fit_is_dropped) {
    ptl_ct_event_t event;
    begin();
    memset(b.memory, 7, MEMORY);
    look_at(&b, &a);
    CHECK_EQ(PtlPut(a.md, 0, MEMORY, PTL_CT_ACK_REQ, at(2), 3, 0, MEMORY - 100000, NULL, 0),
             PTL_OK);
    CHECK_EQ(PtlPut(a.md, 0, MEMORY, PTL_CT_ACK_REQ, at(2), 3, 0, MEMORY - 10, NULL, 0), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 2, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory + MEMORY - 100000, 100000 - 10) == 0);
    CHECK(memcmp(a.source, b.memory + MEMORY - 10, 10) == 0);
    CHECK_EQ(b.memory[MEMORY - 100001], 7);
    CHECK(slots() > begun);
    end();
}

/* An entry in pieces: the card takes packets of the MTU. */
TEST(into_scattered_memory_it_comes_in_pieces) {
    ptl_ct_event_t event;
    ptl_pt_index_t pt;
    ptl_handle_le_t handle;
    ptl_iovec_t piece[100];
    uint8_t *to = calloc(100, 3000);
    begin();
    for (int i = 0; i < 100; i++)
        piece[i] = (ptl_iovec_t){to + (99 - i) * 3000, 3000};
    const ptl_le_t le = {.start = piece,
                         .length = 100,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_IOVEC};
    enter(&b);
    CHECK_EQ(PtlPTAlloc(b.ni, 0, PTL_EQ_NONE, 5, &pt), PTL_OK);
    CHECK_EQ(PtlLEAppend(b.ni, 5, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    enter(&a);
    CHECK_EQ(PtlPut(a.md, 1, 300000, PTL_CT_ACK_REQ, at(2), 5, 0, 0, NULL, 0), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    for (int i = 0; i < 100; i++)
        CHECK(memcmp(piece[i].iov_base, a.source + 1 + i * 3000, 3000) == 0);
    CHECK(slots() >= begun + 300000 / BULK_SLOT_BYTES);
    end();
    free(to);
}

TEST(large_replies_go_through_slots) {
    ptl_ct_event_t event;
    ptl_handle_md_t md;
    ptl_handle_ct_t replied;
    uint8_t *to = calloc(1, MEMORY);
    begin();
    for (uint64_t i = 0; i < MEMORY; i++)
        b.memory[i] = (uint8_t)(i * 7 + i / 4096);
    look_at(&b, &a);
    CHECK_EQ(PtlCTAlloc(a.ni, &replied), PTL_OK);
    const ptl_md_t init = {.start = to,
                           .length = MEMORY,
                           .options = PTL_MD_EVENT_CT_REPLY,
                           .eq_handle = PTL_EQ_NONE,
                           .ct_handle = replied};
    CHECK_EQ(PtlMDBind(a.ni, &init, &md), PTL_OK);
    struct live_box_view view;
    CHECK(box_open(&view, &folder, (struct nic_address){1, 1}, 2));
    for (uint64_t i = 1; !view.lane->bulk_head; i++) {
        CHECK(i < 1000);
        memset(to, 0, MEMORY);
        CHECK_EQ(PtlGet(md, 0, MEMORY, at(2), 3, 0, 0, NULL), PTL_OK);
        CHECK_EQ(PtlCTWait(replied, i, &event), PTL_OK);
        CHECK_EQ(event.failure, 0);
        CHECK(memcmp(to, b.memory, MEMORY) == 0);
    }
    box_close(&view);
    end();
    free(to);
}

/* More than all slots hold, to one that does not look: what is left follows when it does, and
 * nothing overtakes it. */
TEST(a_put_larger_than_all_slots_waits_for_them) {
    enum { LARGE = 3 * BULK_SLOTS * BULK_SLOT_BYTES };
    uint8_t *from = malloc(LARGE), *to = calloc(1, LARGE + 8);
    ptl_pt_index_t pt;
    ptl_handle_le_t handle;
    ptl_handle_md_t md;
    ptl_event_t event;
    ptl_handle_eq_t eq;
    begin();
    for (uint32_t i = 0; i < LARGE; i++)
        from[i] = (uint8_t)(i ^ i >> 11);
    const ptl_le_t le = {.start = to,
                         .length = LARGE + 8,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE};
    enter(&b);
    CHECK_EQ(PtlEQAlloc(b.ni, 16, &eq), PTL_OK);
    CHECK_EQ(PtlPTAlloc(b.ni, 0, eq, 5, &pt), PTL_OK);
    CHECK_EQ(PtlLEAppend(b.ni, 5, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    enter(&a);
    const ptl_md_t init = {
        .start = from, .length = LARGE, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(a.ni, &init, &md), PTL_OK);
    CHECK_EQ(PtlPut(md, 0, LARGE, PTL_NO_ACK_REQ, at(2), 5, 0, 0, NULL, 1), PTL_OK);
    CHECK_EQ(PtlPut(md, 0, 8, PTL_NO_ACK_REQ, at(2), 5, 0, LARGE, NULL, 2), PTL_OK);
    enter(&b);
    for (uint64_t i = 1; i <= 2; i++) {
        CHECK_EQ(PtlEQWait(eq, &event), PTL_OK);
        CHECK_EQ(event.type, PTL_EVENT_PUT);
        CHECK_EQ(event.hdr_data, i);
    }
    CHECK(memcmp(from, to, LARGE) == 0);
    CHECK(memcmp(from, to + LARGE, 8) == 0);
    end();
    free(from);
    free(to);
}

/* ---- liars ---- */

static void wait_for_malformed(uint64_t count) {
    CHECK_SOON(live_card_malformed(b.card) >= count, );
    CHECK_EQ(live_card_malformed(b.card), count);
}

TEST(slots_of_a_liar_harm_nothing) {
    struct liar liar;
    struct nic_packet *rest = &liar.rest;
    ptl_ct_event_t event;
    begin();
    liar_open(&liar, 4096, 10000);
    struct live_box_view *view = &liar.view;
    liar_write(&liar, rest, NULL, 0); /* it has no slots */
    box_ring(view->header);
    wait_for_malformed(1);
    atomic_fetch_or(&view->header->claims[0], 1ull << 7);
    box_attend(view->header);
    CHECK_SOON(view->lane->has_bulk, );
    liar_write(&liar, rest, NULL, 0); /* of no message */
    box_ring(view->header);
    wait_for_malformed(2);
    liar_write(&liar, &liar.first, NULL, liar.first.bytes);
    rest->bytes = 10001; /* more than the message has */
    liar_write(&liar, rest, NULL, 0);
    rest->bytes = BULK_SLOT_BYTES + 1; /* more than a slot */
    liar_write(&liar, rest, NULL, 0);
    rest->bytes = 100; /* too little for one */
    liar_write(&liar, rest, NULL, 0);
    view->lane->bulk_head = 77; /* which is not its to say */
    box_ring(view->header);
    wait_for_malformed(5);
    rest->bytes = 10000;
    memset(view->lane->bulk[4], 9, 10000); /* four were named before */
    enter(&b);
    CHECK_EQ(PtlCTGet(b.arrived, &event), PTL_OK);
    liar_write(&liar, rest, NULL, 0);
    box_ring(view->header);
    CHECK_EQ(PtlCTWait(b.arrived, event.success + 1, &event), PTL_OK);
    CHECK_EQ(b.memory[4096], 9);
    CHECK_EQ(b.memory[4096 + 9999], 9);
    look_at(&b, &a);
    CHECK_EQ(put(&a, 2, 0, MEMORY), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    CHECK_EQ(live_card_malformed(b.card), 5);
    liar_close(&liar);
    end();
}

TEST_MAIN
