/* Large data that a sender offers where it lies, and that both copy: what arrives, who is told of
 * memory that is not there, and what a liar can do. */
#include "lib/live_user.h"
#include "lib/need_fork.h"

#include <sys/mman.h>

#include "base/rng.h"
#include "live/live_huge.h"

#define LARGE (4u << 20)
#define PAGE  4096u

static struct user a, b;
static uint8_t *from, *to;
static ptl_handle_md_t md;
static ptl_handle_eq_t sent, arrived;

static uint8_t *map(void) {
    uint8_t *memory = mmap(NULL, LARGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Offers of a that b has answered, and the last answer: it comes after the acknowledgement. */
static uint64_t answers(void) {
    struct live_box_view view;
    CHECK(box_open(&view, &folder, (struct nic_address){1, 2}, 1));
    uint64_t count = view.lane->offer.answers;
    box_close(&view);
    return count;
}

/* Whether a has slots at b: then what is large enough is offered. */
static bool has_slots(void) {
    struct live_box_view view;
    CHECK(box_open(&view, &folder, (struct nic_address){1, 2}, 1));
    bool has = view.lane->has_bulk;
    box_close(&view);
    return has;
}

/* Index 5 of b is `to`, with events; `md` of a is `from`, with events. The first offer is still to
 * come: it is always taken. */
static void begin(void) {
    ptl_ct_event_t event;
    ptl_pt_index_t pt;
    ptl_handle_le_t handle;
    open_folder();
    from = map();
    to = map();
    struct rng rng = rng_seeded(5);
    for (uint64_t i = 0; i < LARGE; i++)
        from[i] = (uint8_t)rng_u64(&rng);
    CHECK_EQ(user_open(&b, 2, true), 0);
    CHECK_EQ(PtlEQAlloc(b.ni, 64, &arrived), PTL_OK);
    CHECK_EQ(PtlPTAlloc(b.ni, 0, arrived, 5, &pt), PTL_OK);
    const ptl_le_t le = {.start = to,
                         .length = LARGE,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE};
    CHECK_EQ(PtlLEAppend(b.ni, 5, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
    CHECK_EQ(user_open(&a, 1, true), 0);
    CHECK_EQ(PtlEQAlloc(a.ni, 64, &sent), PTL_OK);
    const ptl_md_t init = {
        .start = from, .length = LARGE, .eq_handle = sent, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(a.ni, &init, &md), PTL_OK);
    for (uint64_t i = 1; i == 1 || !has_slots(); i++) {
        CHECK_EQ(put(&a, 2, 0, 100000), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, i, &event), PTL_OK);
    }
    CHECK_EQ(answers(), 0);
}

static void end(void) {
    CHECK_EQ(live_card_malformed(a.card), 0);
    user_close(&a);
    user_close(&b);
    live_folder_remove(&folder);
    munmap(from, LARGE);
    munmap(to, LARGE);
}

static ptl_ni_fail_t event_of(ptl_handle_eq_t eq, ptl_event_kind_t kind, uint64_t bytes) {
    ptl_event_t event;
    CHECK_EQ(PtlEQWait(eq, &event), PTL_OK);
    CHECK_EQ(event.type, kind);
    if (kind != PTL_EVENT_SEND && event.ni_fail_type == PTL_NI_OK)
        CHECK_EQ(event.mlength, bytes);
    return event.ni_fail_type;
}

/* All that a put of `bytes` at `at` says: how it was sent, acknowledged, and received. */
struct ending {
    ptl_ni_fail_t sent, acked, put;
};

static struct ending put_large(uint64_t offset, uint64_t bytes, uint64_t accepted) {
    struct ending e;
    look_at(&b, &a); /* what was compared or cleared is its card's again */
    CHECK_EQ(PtlPut(md, offset, bytes, PTL_ACK_REQ, at(2), 5, 0, offset, NULL, 0), PTL_OK);
    e.sent = event_of(sent, PTL_EVENT_SEND, bytes);
    e.acked = event_of(sent, PTL_EVENT_ACK, accepted);
    enter(&b);
    e.put = event_of(arrived, PTL_EVENT_PUT, accepted);
    look_at(&b, &a);
    return e;
}

static void check_ok(struct ending e) {
    CHECK_EQ(e.sent, PTL_NI_OK);
    CHECK_EQ(e.acked, PTL_NI_OK);
    CHECK_EQ(e.put, PTL_NI_OK);
}

/* Both ways are measured with some messages each, and then it is as it is faster. */
TEST(what_is_offered_arrives) {
    struct rng rng = rng_seeded(7);
    begin();
    for (uint64_t i = 1; i <= 8; i++) {
        memset(to, 0, LARGE);
        check_ok(put_large(i, LARGE - i, LARGE - i));
        CHECK_SOON(answers() == (i << 2 | (i <= 4 ? OFFER_TAKEN : OFFER_DECLINED)), );
        CHECK(memcmp(from + i, to + i, LARGE - i) == 0);
    }
    for (int i = 0; i < 40; i++) {
        uint64_t offset = rng_below(&rng, LARGE), bytes = 1 + rng_below(&rng, LARGE - offset);
        from[offset + bytes / 2]++;
        check_ok(put_large(offset, bytes, bytes));
        CHECK(memcmp(from + offset, to + offset, bytes) == 0);
    }
    CHECK_EQ(live_card_malformed(b.card), 0);
    end();
}

/* More than the entry has: what fits. */
TEST(what_does_not_fit_is_not_copied) {
    begin();
    CHECK_EQ(PtlPut(md, 0, LARGE, PTL_ACK_REQ, at(2), 5, 0, LARGE / 2 + 10, NULL, 0), PTL_OK);
    CHECK_EQ(event_of(sent, PTL_EVENT_SEND, 0), PTL_NI_OK);
    CHECK_EQ(event_of(sent, PTL_EVENT_ACK, LARGE / 2 - 10), PTL_NI_OK);
    CHECK_SOON(answers() == (1u << 2 | OFFER_TAKEN), );
    look_at(&b, &a);
    CHECK_EQ(to[LARGE / 2 + 9], 0);
    CHECK(memcmp(from, to + LARGE / 2 + 10, LARGE / 2 - 10) == 0);
    end();
}

/* The same in another process, whose memory only the kernel reaches. */
TEST(between_processes_what_fits_is_copied) {
    ptl_ct_event_t event;
    NEED_FORK;
    open_folder();
    pid_t child = serve_in_child(2);
    CHECK_EQ(user_open(&a, 1, true), 0);
    reach(&a);
    for (uint32_t i = 0; i < MEMORY; i++)
        a.source[i] = (uint8_t)(i ^ i >> 8);
    uint64_t done = 0;
    for (; !done || !has_slots(); done++) {
        CHECK_EQ(put(&a, 2, 0, 100000), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, done + 1, &event), PTL_OK);
    }
    CHECK_EQ(PtlPut(a.md, 0, MEMORY, PTL_CT_ACK_REQ, at(2), 3, 0, MEMORY - 5000, NULL, 0), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, ++done, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    CHECK_SOON(answers() == (1u << 2 | OFFER_TAKEN), );
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(put(&a, 2, 0, MEMORY - 5000), PTL_OK);
        CHECK_EQ(PtlCTWait(a.acked, ++done, &event), PTL_OK);
    }
    CHECK_EQ(PtlGet(a.md, 0, MEMORY, at(2), 3, 0, 0, NULL), PTL_OK);
    CHECK_EQ(PtlCTWait(a.acked, ++done, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    for (uint32_t i = 0; i < MEMORY; i++) {
        uint32_t from_start = i < MEMORY - 5000 ? i : i - (MEMORY - 5000);
        CHECK_EQ(a.source[i], (uint8_t)(from_start ^ from_start >> 8));
    }
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    user_close(&a);
    live_folder_remove(&folder);
}

TEST(replies_are_offered) {
    struct live_box_view view;
    begin();
    memset(to, 9, LARGE);
    look_at(&b, &a);
    CHECK(box_open(&view, &folder, (struct nic_address){1, 1}, 2));
    for (uint32_t i = 0; !(view.lane->offer.answers >> 2); i++) {
        CHECK(i < 1000);
        memset(from, 0, LARGE);
        CHECK_EQ(PtlGet(md, 0, LARGE, at(2), 5, 0, 0, NULL), PTL_OK);
        CHECK_EQ(event_of(sent, PTL_EVENT_REPLY, LARGE), PTL_NI_OK);
        look_at(&b, &a);
        CHECK(memcmp(from, to, LARGE) == 0);
    }
    box_close(&view);
    end();
}

/* Both ends are told, and the process lives. The hole is where the receiver copies, or where the
 * sender would. */
TEST(a_source_that_is_not_there_fails) {
    for (int high = 0; high < 2; high++) {
        begin();
        CHECK_EQ(munmap(from + (high ? LARGE - 2 * PAGE : 4 * PAGE), PAGE), 0);
        struct ending e = put_large(0, LARGE, LARGE);
        CHECK_EQ(e.acked, PTL_NI_SEGV);
        CHECK_EQ(e.put, PTL_NI_SEGV);
        CHECK_SOON(answers() == (1u << 2 | OFFER_UNREADABLE), );
        check_ok(put_large(LARGE / 2, 1000, 1000));
        end();
    }
}

/* The same where nothing comes back. */
TEST(without_an_acknowledgement_the_sender_is_told_too) {
    begin();
    CHECK_EQ(munmap(from + LARGE / 2, PAGE), 0);
    CHECK_EQ(PtlPut(md, 0, LARGE, PTL_NO_ACK_REQ, at(2), 5, 0, 0, NULL, 0), PTL_OK);
    CHECK_EQ(event_of(sent, PTL_EVENT_SEND, 0), PTL_NI_SEGV);
    end();
}

TEST(a_destination_that_is_not_there_fails) {
    for (int high = 0; high < 2; high++) {
        begin();
        uint8_t *hole = to + (high ? LARGE - 2 * PAGE : 4 * PAGE);
        CHECK_EQ(mprotect(hole, PAGE, PROT_READ), 0);
        struct ending e = put_large(0, LARGE, LARGE);
        CHECK_EQ(e.sent, PTL_NI_OK);
        CHECK_EQ(e.acked, PTL_NI_SEGV);
        CHECK_EQ(e.put, PTL_NI_SEGV);
        CHECK_EQ(hole[0], 0);
        CHECK_SOON(answers() == (1u << 2 | OFFER_TAKEN), );
        check_ok(put_large(LARGE / 2, 1000, 1000));
        end();
    }
}

/* As a receiver does: answers one offer after the other, and what it does takes so long. */
struct run {
    struct live_offer_choice choice;
    uint64_t offer_ns,
        slot_ns; /* of a MiB, in a row; after a change an offer takes four times that */
    bool was_offer;
    uint32_t taken, declined, unwanted;
};

static void answer_one(struct run *r) {
    enum offer_answer answer = offer_choose(&r->choice);
    bool offer = answer == OFFER_TAKEN;
    if (offer)
        offer_measured(&r->choice.offer_ps, 1 << 20, r->offer_ns * (r->was_offer ? 1 : 4));
    else
        offer_measured(&r->choice.slot_ps, 1 << 20, r->slot_ns);
    r->was_offer = offer;
    r->taken += offer;
    r->declined += answer == OFFER_DECLINED;
    r->unwanted += answer == OFFER_UNWANTED;
}

static void answer_many(struct run *r, int times) {
    r->taken = r->declined = r->unwanted = 0;
    for (int i = 0; i < times; i++)
        answer_one(r);
}

/* Only rates are measured: the better way is chosen, the other tried now and then. */
TEST(the_faster_way_is_chosen) {
    static struct run r;
    r = (struct run){.offer_ns = 50000, .slot_ns = 40000};
    answer_many(&r, 4);
    CHECK_EQ(r.taken, 4);
    answer_many(&r, 4);
    CHECK_EQ(r.declined, 4);
    answer_many(&r, 640); /* of those that are still offered: 16 are not after each of them */
    CHECK_EQ(r.declined, 0);
    CHECK(r.taken >= 4 && r.taken <= 64 && r.taken % 4 == 0);
    r.slot_ns = 60000; /* it is noticed at once: slots are what is in use */
    answer_many(&r, 100);
    answer_many(&r, 6400);
    CHECK_EQ(r.unwanted, 0);
    CHECK(r.declined >= 4 && r.declined <= 64 && r.declined % 4 == 0);
}

/* A single offer between slots takes longer than slots do, and still offers are faster. */
TEST(the_other_way_is_tried_more_than_once) {
    static struct run r;
    r = (struct run){.offer_ns = 80000, .slot_ns = 25000};
    answer_many(&r, 40);
    CHECK(r.unwanted > 20);
    r.offer_ns = 16000; /* the processes have moved to other processors */
    answer_many(&r, 100);
    answer_many(&r, 100);
    CHECK(r.taken >= 96);
}

TEST(one_slow_message_is_no_measure) {
    uint64_t ps = 0, before;
    offer_measured(&ps, 1 << 20, 50000);
    before = ps;
    offer_measured(&ps, 1 << 20, 1000000); /* it had lost its processor */
    CHECK(ps > before && ps < 5 * before);
    offer_measured(&ps, 1 << 20, 50000);
    CHECK_EQ(ps, before);
}

/* From the answer until the last part that comes through slots; what is less comes otherwise. */
TEST(slots_are_timed_to_the_end_of_their_message) {
    struct live_offer_choice c = {0};
    offer_came(&c, 300000, 4096);
    CHECK_EQ(c.slot_ps, 0);
    offer_declined(&c, 1000000, OFFER_DECLINED);
    offer_came(&c, 300000, 4096);
    offer_came(&c, 300000, 4096);
    CHECK_EQ(c.slot_ps, 0);
    nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    offer_came(&c, 396000, 4096);
    CHECK(c.slot_ps > 2000000000 / 1000); /* 2 ms for less than 1000 KiB */
    uint64_t before = c.slot_ps;
    offer_came(&c, 300000, 4096);
    offer_declined(&c, 300000, OFFER_UNWANTED);
    offer_untimed(&c);
    offer_came(&c, 300000, 4096);
    CHECK_EQ(c.slot_ps, before);
}

/* Nothing is touched that is not all there, and nothing changes. */
TEST(memory_of_large_messages_stays_as_it_is) {
    struct live_huge huge = {0};
    uint8_t *memory = map();
    unsigned char page[LARGE / PAGE];
    memory[LARGE / 2] = 3;
    for (int i = 0; i < 10000; i++)
        live_huge_used(&huge, memory, LARGE, 1);
    uint32_t resident = 0;
    CHECK_EQ(mincore(memory, LARGE, page), 0);
    for (uint32_t i = 0; i < LARGE / PAGE; i++)
        resident += page[i] & 1;
    CHECK_EQ(resident, 1);
    for (uint32_t i = 0; i < LARGE; i++)
        memory[i] = (uint8_t)(i ^ i >> 9);
    for (int i = 0; i < 10000; i++)
        live_huge_used(&huge, memory, LARGE, i % 3 ? OFFER_REST : 1);
    for (uint32_t i = 0; i < LARGE; i++)
        CHECK_EQ(memory[i], (uint8_t)(i ^ i >> 9));
    munmap(memory, LARGE);
    live_huge_used(&huge, memory, LARGE, 1); /* nor does it mind */
}

TEST(offers_of_a_liar_harm_nothing) {
    struct liar liar;
    ptl_ct_event_t event;
    begin();
    liar_open(&liar, 4096, 500000);
    const uint64_t addresses[] = {(uintptr_t)from, 16, UINT64_MAX - 4096, (uintptr_t)from};
    for (uint64_t i = 0; i < 4; i++) {
        if (i) { /* the first offer is of no message */
            liar.first.message_number = liar.rest.message_number = (uint32_t)i - 1;
            liar_write(&liar, &liar.first, NULL, liar.first.bytes);
        }
        liar.rest.source.pid = i == 3 ? 8 : 7; /* and the last lies about its sender */
        uint8_t offered[OFFER_BYTES] = {0};
        memcpy(offered, &addresses[i], sizeof addresses[i]);
        liar_write(&liar, &liar.rest, offered, sizeof offered);
        liar.view.lane->offer.left = UINT64_MAX; /* which is not its to say */
        liar.view.lane->offer.answers = 99;
        box_ring(liar.view.header);
        CHECK_SOON(liar.view.lane->offer.answers >> 2 == i + 1, );
    }
    CHECK_EQ(live_card_malformed(b.card), 1);
    liar_close(&liar);
    CHECK_EQ(put(&a, 2, 0, MEMORY), PTL_OK);
    CHECK_EQ(PtlCTGet(a.acked, &event), PTL_OK);
    check_ok(put_large(0, LARGE, LARGE));
    CHECK(memcmp(from, to, LARGE) == 0);
    end();
}

TEST_MAIN
