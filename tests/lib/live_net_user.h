/* Cards on a network (UDP, libfabric), each with an entry of MEMORY bytes at index PT and a
 * descriptor over as many, whose failures are in an event queue; lib/live_user.h has those of
 * shared memory. */
#ifndef TESTS_LIVE_NET_USER_H
#define TESTS_LIVE_NET_USER_H

#include "lib/test.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "live/live_card.h"

#define MEMORY (1u << 20)
#define PT     3

static struct spin_error err;

struct user {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t acked, arrived;
    ptl_handle_md_t md;
    ptl_process_t self;
    uint8_t *memory, *source;
};

static void enter(const struct user *u) {
    portals_enter(live_card_process(u->card));
}

static int user_open_by(struct user *u, const struct live_card_options *options) {
    ptl_pt_index_t pt;
    ptl_handle_le_t handle;
    *u = (struct user){.memory = calloc(1, MEMORY), .source = calloc(1, MEMORY)};
    if (live_card_new(&u->card, options, &err))
        return 1;
    enter(u);
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                  &u->ni) ||
        PtlGetPhysId(u->ni, &u->self) || PtlCTAlloc(u->ni, &u->arrived) ||
        PtlCTAlloc(u->ni, &u->acked) || PtlEQAlloc(u->ni, 64, &u->eq) ||
        PtlPTAlloc(u->ni, 0, PTL_EQ_NONE, PT, &pt))
        return 2;
    const ptl_le_t le = {.start = u->memory,
                         .length = MEMORY,
                         .ct_handle = u->arrived,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    const ptl_md_t md = {.start = u->source,
                         .length = MEMORY,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY |
                                    PTL_MD_EVENT_SUCCESS_DISABLE | PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = u->eq,
                         .ct_handle = u->acked};
    return PtlLEAppend(u->ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) ||
           PtlMDBind(u->ni, &md, &u->md);
}

static void user_close(struct user *u) {
    live_card_free(u->card);
    free(u->memory);
    free(u->source);
    portals_enter(NULL);
}

static int put(struct user *u, ptl_process_t to, uint64_t offset, uint64_t bytes) {
    return PtlPut(u->md, offset, bytes, PTL_ACK_REQ, to, PT, 0, offset, NULL, 0);
}

/* Through the lock of the other's card, so that its memory is seen as that left it: the thread
 * sanitizer does not know that two mappings of a box are the same memory. */
static void look_at(struct user *other, struct user *own) {
    ptl_sr_value_t status;
    enter(other);
    PtlNIStatus(other->ni, PTL_SR_DROP_COUNT, &status);
    enter(own);
}

/* Puts of random places and sizes, and a get of everything, each byte checked. */
static void exchange(struct user *a, struct user *b, uint64_t seed, uint32_t puts, uint32_t most) {
    struct rng rng = rng_seeded(seed);
    ptl_ct_event_t event;
    enter(a);
    CHECK_EQ(PtlCTSet(a->acked, (ptl_ct_event_t){0, 0}), PTL_OK);
    for (uint32_t i = 0; i < puts; i++) {
        uint64_t bytes = i < 20 ? i : rng_below(&rng, most), from = rng_below(&rng, MEMORY / 2);
        for (uint64_t k = 0; k < bytes; k++)
            a->source[from + k] = (uint8_t)rng_u64(&rng);
        look_at(b, a);
        CHECK_EQ(put(a, b->self, from, bytes), PTL_OK);
        CHECK_EQ(PtlCTWait(a->acked, i + 1, &event), PTL_OK);
        CHECK_EQ(event.failure, 0);
        look_at(b, a);
        CHECK(memcmp(a->source + from, b->memory + from, bytes) == 0);
    }
    for (uint64_t k = 0; k < most; k++)
        b->memory[k] = (uint8_t)rng_u64(&rng);
    look_at(b, a);
    CHECK_EQ(PtlGet(a->md, 0, most, b->self, PT, 0, 0, NULL), PTL_OK);
    CHECK_EQ(PtlCTWait(a->acked, puts + 1, &event), PTL_OK);
    CHECK_EQ(event.failure, 0);
    CHECK(memcmp(a->source, b->memory, most) == 0);
}

/* Packets that the card has dropped, and no more. */
static void wait_for_counts(const struct user *u, uint64_t malformed, uint64_t strangers) {
    CHECK_SOON(live_card_malformed(u->card) + live_card_strangers(u->card) >= malformed + strangers,
               live_card_poll(u->card));
    CHECK_EQ(live_card_malformed(u->card), malformed);
    CHECK_EQ(live_card_strangers(u->card), strangers);
}

#endif
