/* Large puts between live cards: what the receiver reads from the sender's memory, whole or in
 * pieces, and what it does when it cannot. */
#include "lib/live_user.h"

#include <sys/mman.h>

#include "base/rng.h"
#include "nic/wire.h"

static struct user a, b;

static uint64_t pulled(void) {
    struct box_view view;
    CHECK(box_open(&view, &folder, (struct nic_address){1, 2}, 1));
    bool pulls = view.lane->pulls;
    uint64_t count = view.lane->pulled;
    box_close(&view);
    if (!pulls)
        TEST_SKIP("the kernel lets no process read another's memory");
    return count;
}

/* The first message opens the lane. */
static void begin(void) {
    ptl_ct_event_t event;
    open_folder();
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(put(&a, 2, 0, 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(PtlCTSet(a.acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    look_at(&b, &a);
    struct rng rng = rng_seeded(3);
    for (uint64_t i = 0; i < MEMORY; i++)
        a.source[i] = (uint8_t)rng_u64(&rng);
    CHECK_EQ(pulled(), 0);
}

static void end(void) {
    CHECK_EQ(live_card_malformed(a.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
}

TEST(a_large_put_is_read_from_where_it_lies) {
    ptl_ct_event_t event;
    begin();
    for (uint64_t i = 0; i < 8; i++)
        CHECK_EQ(put(&a, 2, i * (MEMORY / 8), MEMORY / 8), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 8, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    CHECK_EQ(pulled(), 8);
    CHECK_EQ(live_card_malformed(b.card), 0);
    end();
}

TEST(what_does_not_fit_is_not_read) {
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
    CHECK_EQ(pulled(), 2);
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
    CHECK_EQ(pulled(), 1);
    end();
    free(to);
}

TEST(memory_that_is_not_there_is_a_fault_of_its_message) {
    ptl_ct_event_t event;
    ptl_handle_md_t hole;
    uint8_t *region =
        mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    begin();
    const ptl_md_t md = {.start = region,
                         .length = MEMORY,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = a.acked};
    CHECK_EQ(PtlMDBind(a.ni, &md, &hole), PTL_OK);
    munmap(region + MEMORY / 2, MEMORY / 2);
    CHECK_EQ(PtlPut(hole, 0, MEMORY, PTL_CT_ACK_REQ, at(2), 3, 0, 0, NULL, 0), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 1);
    CHECK_EQ(put(&a, 2, 0, MEMORY), PTL_OK); /* the next is as if nothing had been */
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    while (!event.success)
        CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    end();
    munmap(region, MEMORY / 2);
}

/* ---- liars ---- */

static void record(struct ring_out *out, const struct nic_packet *packet, uint64_t address) {
    uint8_t head[WIRE_HEADER_BYTES];
    uint64_t first;
    uint32_t header = wire_encode_head(packet, head);
    uint32_t bytes = header + (address ? (uint32_t)sizeof address : packet->bytes);
    uint8_t *to = ring_reserve(out, bytes);
    CHECK(to);
    memcpy(&first, head, sizeof first);
    memcpy(to + 8, head + 8, header - 8);
    if (address)
        memcpy(to + header, &address, sizeof address);
    ring_commit(out, bytes, first);
}

static void wait_for_lane(const struct box_view *view, uint64_t count) {
    for (int i = 0; i < 50000 && view->lane->pulled < count; i++)
        usleep(100);
    CHECK_EQ(view->lane->pulled, count);
}

TEST(what_is_lent_by_a_liar_harms_nothing) {
    struct box liar;
    struct box_view view;
    ptl_ct_event_t event;
    begin();
    CHECK_EQ(box_make(&liar, &folder, 1, 7, &err), 0);
    CHECK(box_open(&view, &folder, (struct nic_address){1, 2}, 7));
    claim(&view, &liar);
    struct ring_out out = {.ring = &view.lane->ring};
    struct nic_packet first = {.kind = NIC_DATA,
                               .first = true,
                               .source = {1, 7},
                               .target = {1, 2},
                               .bytes = 4096,
                               .message = {.kind = NIC_PUT,
                                           .interface = PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
                                           .source = {1, 7},
                                           .target = {1, 2},
                                           .ack_req = PTL_NO_ACK_REQ,
                                           .source_rank = PTL_RANK_ANY,
                                           .target_rank = PTL_RANK_ANY,
                                           .pt_index = 3,
                                           .length = 4096 + 100000,
                                           .payload = 4096 + 100000}};
    struct nic_packet rest = {.kind = NIC_DATA,
                              .last = true,
                              .source = {1, 7},
                              .target = {1, 2},
                              .offset = 4096,
                              .bytes = 100000};
    record(&out, &rest, (uintptr_t)&liar); /* of no message */
    box_ring(view.header);
    wait_for_lane(&view, 1);
    rest.bytes = 100001; /* more than the message has; and from nowhere */
    record(&out, &first, 0);
    record(&out, &rest, (uintptr_t)&liar);
    rest.bytes = 100000;
    record(&out, &rest, 16);
    box_ring(view.header);
    wait_for_lane(&view, 3);
    CHECK_EQ(put(&a, 2, 0, MEMORY), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    look_at(&b, &a);
    CHECK(memcmp(a.source, b.memory, MEMORY) == 0);
    CHECK_EQ(live_card_malformed(b.card), 2);
    enter(&b);
    CHECK_EQ(PtlCTGet(b.arrived, &event), PTL_OK);
    CHECK_EQ(event.failure, 1);
    box_close(&view);
    box_free(&liar);
    end();
}

TEST_MAIN
