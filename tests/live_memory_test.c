/* Memory that runs out on live cards: the n-th allocation fails, for every n of a run of two cards
 * from their making to the last event. Calls say so; of every operation that has begun each event
 * comes, with its data or as a failure; and the cards work afterwards. The linker puts our
 * allocator before the C library's (tests/meson.build). */
#include "lib/failing.h"
#include "lib/live_user.h"

/* ---- what is done ---- */

enum { CARDS = 2, OPS = 60, ROOM = 24576, EVENTS = 4 * OPS };
enum what { TRIGGERED, FETCH, GET, ATOMIC, PUT, WHATS };

/* What became of an operation, at its initiator and at its target. */
struct course {
    uint32_t sent, answered, arrived;
    bool failed;
};

struct party {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;
    uint8_t target[OPS][ROOM], source[OPS][ROOM], got[OPS][ROOM];
    ptl_handle_md_t got_md;
    ptl_handle_ct_t ct;
    uint64_t triggers;
    struct course course[OPS]; /* of those that it has begun */
};

static struct party party[CARDS];
static uint32_t refused; /* calls */

/* In turn; or one kind after the other, so that results of fetches wait on their card behind its
 * puts. */
static bool in_turn;

static enum what what_of(uint32_t k) {
    return (enum what)(in_turn ? k % WHATS : k * WHATS / OPS);
}

/* Of one packet and of several, of as much as is lent; atomics are of small numbers. */
static uint64_t length_of(uint32_t k) {
    static const uint64_t lengths[] = {8, 3000, 4096, 8, 10000, ROOM, 4000};
    enum what what = what_of(k);
    return what % 2 == 0 ? lengths[k / WHATS % 7] : 8 * (1 + k % 8);
}

static void open_party(uint32_t i) {
    struct party *u = &party[i];
    const struct live_card_options options = {.folder = &folder, .nid = 1, .pid = 1 + i};
    TRY(live_card_new(&u->card, &options, &err), SPIN_ENOMEM);
    portals_enter(live_card_process(u->card));
    TRY(PtlInit(), PTL_NO_SPACE);
    TRY(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                  &u->ni),
        PTL_NO_SPACE);
    TRY(PtlEQAlloc(u->ni, EVENTS, &u->eq), PTL_NO_SPACE);
    TRY(PtlCTAlloc(u->ni, &u->ct), PTL_NO_SPACE);
    u->triggers = 0;
    TRY(PtlPTAlloc(u->ni, 0, u->eq, 3, &u->pt), PTL_NO_SPACE);
    const ptl_le_t le = {.start = u->target,
                         .length = sizeof u->target,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t handle;
    TRY(PtlLEAppend(u->ni, u->pt, &le, PTL_PRIORITY_LIST, NULL, &handle), PTL_NO_SPACE);
    ptl_md_t md = {u->source, sizeof u->source, 0, u->eq, PTL_CT_NONE};
    TRY(PtlMDBind(u->ni, &md, &u->md), PTL_NO_SPACE);
    md.start = u->got;
    TRY(PtlMDBind(u->ni, &md, &u->got_md), PTL_NO_SPACE);
}

static int start(struct party *u, ptl_process_t to, uint32_t k) {
    uint64_t at = (uint64_t)k * ROOM, length = length_of(k);
    void *name = (void *)(uintptr_t)k;
    switch (what_of(k)) {
    case PUT:
        return PtlPut(u->md, at, length, PTL_ACK_REQ, to, 3, 0, at, name, k);
    case GET:
        return PtlGet(u->got_md, at, length, to, 3, 0, at, name);
    case FETCH:
        return PtlFetchAtomic(u->got_md, at, u->md, at, length, to, 3, 0, at, name, k, PTL_SUM,
                              PTL_UINT64_T);
    case TRIGGERED:
        if (PtlTriggeredPut(u->md, at, length, PTL_ACK_REQ, to, 3, 0, at, name, k, u->ct,
                            u->triggers + 1))
            return PTL_NO_SPACE;
        u->triggers++;
        return PtlCTInc(u->ct, (ptl_ct_event_t){1, 0});
    default:
        return PtlAtomic(u->md, at, length, PTL_ACK_REQ, to, 3, 0, at, name, k, PTL_SUM,
                         PTL_UINT64_T);
    }
}

static void note(struct party *u, struct party *other, const ptl_event_t *e) {
    struct course *own = &u->course[(uintptr_t)e->user_ptr % OPS];
    switch (e->type) {
    case PTL_EVENT_SEND:
        own->sent++;
        own->failed |= e->ni_fail_type != PTL_NI_OK;
        break;
    case PTL_EVENT_ACK:
    case PTL_EVENT_REPLY:
        own->answered++;
        own->failed |= e->ni_fail_type != PTL_NI_OK;
        break;
    default: /* at the target: where tells which */
        other->course[e->remote_offset / ROOM].arrived++;
    }
}

/* False: there was none. */
static bool take_event(uint32_t i, ptl_time_t within_ms) {
    ptl_event_t e;
    unsigned which;
    portals_enter(live_card_process(party[i].card));
    int code = PtlEQPoll(&party[i].eq, 1, within_ms, &e, &which);
    if (code == PTL_EQ_EMPTY)
        return false;
    CHECK_EQ(code, PTL_OK); /* none was dropped: there is a place for each */
    note(&party[i], &party[!i], &e);
    return true;
}

/* The first operation whose initiator waits for an event; -1: none. */
static int waits(void) {
    for (int n = 0; n < CARDS * OPS; n++) {
        const struct course *c = &party[n / OPS].course[n % OPS];
        if (!c->answered || (what_of((uint32_t)n % OPS) != GET && !c->sent))
            return n;
    }
    return -1;
}

enum { IDLE_MS = 1, MOST_IDLE = 2000 };

static void take_events(void) {
    for (uint32_t idle = 0; waits() >= 0 && idle < MOST_IDLE;) {
        bool any = false;
        for (uint32_t i = 0; i < CARDS; i++)
            while (take_event(i, 0))
                any = true;
        for (uint32_t i = 0; !any && i < CARDS; i++)
            any |= take_event(i, IDLE_MS);
        idle = any ? 0 : idle + 1;
    }
    for (uint32_t i = 0; i < CARDS; i++) /* what has come with the last one */
        while (take_event(i, IDLE_MS))
            ;
}

/* Each operation ends once, and what has not failed was done. */
static void check_course(uint32_t i, uint32_t k) {
    const struct party *u = &party[i], *other = &party[!i];
    const struct course *c = &u->course[k];
    uint64_t one, after, length = length_of(k);
    if (c->answered != 1 || c->sent != (what_of(k) != GET))
        TEST_FAIL("operation %u of card %u: %u SEND, %u ACK or REPLY", k, i, c->sent, c->answered);
    if (c->failed)
        return;
    CHECK_EQ(c->arrived, 1);
    switch (what_of(k)) {
    case PUT:
    case TRIGGERED:
        CHECK(memcmp(other->target[k], u->source[k], length) == 0);
        break;
    case GET:
        CHECK(memcmp(other->target[k], u->got[k], length) == 0);
        break;
    default:
        for (uint64_t at = 0; at < length; at += 8) {
            memcpy(&one, u->source[k] + at, 8);
            memcpy(&after, other->target[k] + at, 8);
            CHECK_EQ(after, 0x0101010101010101ull + one);
            memcpy(&one, u->got[k] + at, 8);
            CHECK(what_of(k) != FETCH || one == 0x0101010101010101ull);
        }
    }
}

/* All that both cards have to say to the other, before either looks what has come: more than a lane
 * holds, so that much of it waits. Returns how many operations have failed. */
static uint32_t exchange(bool turns) {
    uint32_t failed = 0;
    in_turn = turns;
    for (uint32_t i = 0; i < CARDS; i++) {
        memset(party[i].course, 0, sizeof party[i].course);
        memset(party[i].target, 1, sizeof party[i].target);
        memset(party[i].got, 0x77, sizeof party[i].got);
        for (uint32_t k = 0; k < OPS; k++)
            memset(party[i].source[k], (int)(0x20 + k), ROOM);
    }
    for (uint32_t k = 0; k < OPS; k++)
        for (uint32_t i = 0; i < CARDS; i++) {
            portals_enter(live_card_process(party[i].card));
            TRY(start(&party[i], at(2 - i), k), PTL_NO_SPACE);
        }
    take_events();
    for (uint32_t i = 0; i < CARDS; i++)
        for (uint32_t k = 0; k < OPS; k++) {
            check_course(i, k);
            failed += party[i].course[k].failed;
        }
    return failed;
}

/* Returns how many allocations it took. */
static uint64_t run(uint64_t n, bool turns_first) {
    int64_t before = alive;
    snprintf(test_context, sizeof test_context, "allocation %llu, %s first", (unsigned long long)n,
             turns_first ? "in turn" : "by kind");
    allocations = 0;
    fail_at = n;
    for (uint32_t i = 0; i < CARDS; i++)
        open_party(i);
    for (int turns = 0; turns < 2; turns++)
        exchange(turns_first ^ (turns == 1));
    uint64_t taken = allocations;
    fail_at = 0;
    CHECK_EQ(exchange(true), 0); /* with memory again nothing fails */
    for (uint32_t i = 0; i < CARDS; i++)
        live_card_free(party[i].card);
    portals_enter(NULL);
    CHECK_EQ(alive, before);
    return taken;
}

TEST(every_operation_ends_where_one_allocation_fails) {
    open_folder();
    refused = 0;
    for (int turns_first = 0; turns_first < 2; turns_first++) {
        uint64_t count = run(0, turns_first);
        CHECK(count > 60);
        for (uint64_t n = 1; n <= count; n += TEST_SANITIZED ? 3 : 1)
            run(n, turns_first);
    }
    test_context[0] = 0;
    CHECK(refused > (TEST_SANITIZED ? 3 : 10));
    live_folder_remove(&folder);
}

TEST_MAIN
