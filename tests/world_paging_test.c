/* Worlds whose ranks' pages may be absent. */
#include <sys/mman.h>

#include "base/rng.h"
#include "lib/spinlib_world.h"
#include "openspin.h"
#include "portals4.h"

#define PAGE 4096u

static uint8_t *map_memory(uint64_t bytes, int protection) {
    uint8_t *at = mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* An entry over memory of a rank, and a descriptor over other memory of it; both count. */
struct ends {
    ptl_handle_ni_t ni;
    ptl_handle_md_t md;
    ptl_handle_ct_t sent, received;
};

static int open_ends(struct ends *e, uint8_t *from, uint8_t *to, uint64_t bytes) {
    ptl_pt_index_t index;
    ptl_handle_le_t handle;
    ptl_le_t le = {.start = to,
                   .length = bytes,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM |
                              PTL_LE_EVENT_LINK_DISABLE};
    ptl_md_t md = {
        .start = from, .length = bytes, .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    RANK_CHECK(!PtlInit());
    RANK_CHECK(!PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY,
                          NULL, NULL, &e->ni));
    RANK_CHECK(!PtlPTAlloc(e->ni, 0, PTL_EQ_NONE, 0, &index));
    RANK_CHECK(!PtlCTAlloc(e->ni, &e->sent) && !PtlCTAlloc(e->ni, &e->received));
    le.ct_handle = e->received;
    md.ct_handle = e->sent;
    md.eq_handle = PTL_EQ_NONE;
    RANK_CHECK(!PtlLEAppend(e->ni, index, &le, PTL_PRIORITY_LIST, NULL, &handle));
    RANK_CHECK(!PtlMDBind(e->ni, &md, &e->md));
    return 0;
}

static const ptl_process_t peer = {.phys = {.nid = 1}};

static int put(const struct ends *e, uint64_t from, uint64_t to, uint64_t bytes) {
    return PtlPut(e->md, from, bytes, PTL_CT_ACK_REQ, peer, 0, 0, to, NULL, 0);
}

/* ---- bytes ---- */

/* Random puts and gets of rank 0 in a window of rank 1, while pages come and go on both sides. */
struct scatter {
    uint64_t seed;
    struct spin_world_counts counts;
};

enum { WINDOW = 24 * PAGE };

static int scatter(void *argument) {
    const struct scatter *s = argument;
    struct rng rng = rng_seeded(s->seed * 2 + spin_rank());
    uint8_t *from = map_memory(WINDOW, PROT_READ | PROT_WRITE);
    uint8_t *to = map_memory(WINDOW, PROT_READ | PROT_WRITE), model[WINDOW] = {0};
    struct ends e;
    ptl_ct_event_t count;
    RANK_CHECK(from && to && !open_ends(&e, from, to, WINDOW));
    spin_barrier();
    for (uint32_t i = 1; i <= 12; i++) {
        uint32_t bytes = 1 + rng_below(&rng, rng_below(&rng, 2) ? 100 : 60000);
        uint32_t at = rng_below(&rng, WINDOW - bytes + 1),
                 near = rng_below(&rng, WINDOW - bytes + 1);
        if (spin_rank()) { /* what the system might do to its pages, but keeping what is in them */
            if (rng_below(&rng, 2))
                spin_touch(to + near, bytes);
        } else if (rng_below(&rng, 3)) {
            spin_discard(from, WINDOW);
            for (uint32_t k = 0; k < bytes; k++)
                from[near + k] = (uint8_t)rng_u64(&rng);
            memcpy(model + at, from + near, bytes);
            RANK_CHECK(!put(&e, near, at, bytes));
            RANK_CHECK(!PtlCTWait(e.sent, i, &count) && !count.failure);
        } else {
            spin_discard(from, WINDOW);
            RANK_CHECK(!PtlGet(e.md, near, bytes, peer, 0, 0, at, NULL));
            RANK_CHECK(!PtlCTWait(e.sent, i, &count) && !count.failure);
            RANK_CHECK(!memcmp(from + near, model + at, bytes));
        }
    }
    spin_barrier();
    munmap(from, WINDOW);
    munmap(to, WINDOW);
    return 0;
}

TEST(bytes_are_right_under_faults) {
    const char *more = getenv("OPENSPIN_SEEDS");
    uint64_t seeds = more ? strtoull(more, NULL, 10) : 24;
    static const char *const policies[] = {"paging.policy=one", "paging.policy=block",
                                           "paging.policy=all"};
    static const char *const errs[] = {"paging.err=late", "paging.err=early", "paging.err=block"};
    static const char *const networks[] = {"loss=0", "loss=0.02", "duplication=0.05",
                                           "reordering=0.2"};
    static const char *const blocks[] = {"paging.block=16KiB", "paging.block=4KiB",
                                         "paging.block=0"};
    static const char *const timeouts[] = {"paging.timeout=1ms", "paging.timeout=100us"};
    for (uint64_t seed = 0; seed < seeds; seed++) {
        const char *set[] = {policies[seed % 3],
                             errs[seed / 3 % 3],
                             networks[seed % 4],
                             blocks[seed / 2 % 3],
                             timeouts[seed / 5 % 2],
                             "paging.resident=20",
                             seed % 7 ? "seed=1" : "paging.memory=present",
                             seed % 2 ? "card=sc17" : "card=pspin"};
        struct spin_world_options o = {
            .ranks = 2, .preset = "part", .set = set, .set_count = sizeof set / sizeof *set};
        struct scatter s = {.seed = seed};
        snprintf(test_context, sizeof test_context, "seed %llu", (unsigned long long)seed);
        spinlib_world_on(o, "scatter", scatter, &s);
    }
}

/* ---- order ---- */

/* Rank 0 gets a word of a page whose translation is not known any more and one of a page whose is,
 * and puts the first one anew. */
static int get_both_and_put(void *argument) {
    uint8_t *to = argument;
    static uint64_t mine[3];
    struct ends e;
    ptl_ct_event_t count;
    RANK_CHECK(!open_ends(&e, (uint8_t *)mine, to, 3 * PAGE));
    ptl_md_t volatile_md = {.start = mine,
                            .length = sizeof mine,
                            .options = PTL_MD_VOLATILE | PTL_MD_EVENT_CT_ACK,
                            .eq_handle = PTL_EQ_NONE,
                            .ct_handle = e.sent};
    ptl_handle_md_t now;
    RANK_CHECK(!PtlMDBind(e.ni, &volatile_md, &now));
    spin_barrier();
    for (uint64_t i = 0; i < 4 && spin_rank() == 0; i++) {
        mine[2] = 100 + i;
        RANK_CHECK(!PtlGet(e.md, 8, 8, peer, 0, 0, 2 * PAGE, NULL));
        RANK_CHECK(!PtlGet(e.md, 8, 8, peer, 0, 0, PAGE, NULL));
        RANK_CHECK(!PtlCTWait(e.sent, 5 * i + 2, &count)); /* the two that are known */
        RANK_CHECK(!PtlGet(e.md, 0, 8, peer, 0, 0, 0, NULL));
        RANK_CHECK(!PtlGet(e.md, 8, 8, peer, 0, 0, PAGE, NULL));
        spin_compute(500); /* the second read ends before the first */
        RANK_CHECK(!PtlPut(now, 16, 8, PTL_CT_ACK_REQ, peer, 0, 0, 0, NULL, 0));
        RANK_CHECK(!PtlCTWait(e.sent, 5 * i + 5, &count) && !count.failure);
        RANK_CHECK(mine[0] == (i ? 99 + i : 0));
    }
    spin_barrier();
    return 0;
}

/* Where one read waits for its translation and a later one does not, on either card. */
TEST(small_reads_and_writes_keep_their_order_behind_a_translation) {
    static const char *const set[] = {
        "paging.memory=present", "paging.block=0",           "paging.start=0",
        "paging.level_time=2us", "paging.l1_entries=2",      "paging.l2_entries=1",
        "paging.l2_ways=1",      "pspin.pcie_latency=300ns", "card=pspin"};
    for (int card = 0; card < 2; card++) {
        uint8_t *to = map_memory(3 * PAGE, PROT_READ | PROT_WRITE);
        struct spin_world_options o = {
            .ranks = 2, .preset = "part", .set = set, .set_count = 8 + card};
        CHECK(to);
        spinlib_world_on(o, card ? "pspin" : "sc17", get_both_and_put, to);
        munmap(to, 3 * PAGE);
    }
}

/* ---- what is not there ---- */

/* PtlCTWait returns at once when there was a failure. */
static bool wait_for(ptl_handle_ct_t ct, uint64_t most, ptl_ct_event_t *count) {
    for (int i = 0; i < 100000; i++) {
        if (PtlCTGet(ct, count) || count->success + count->failure >= most)
            return count->success + count->failure == most;
        spin_compute(1000);
    }
    return false;
}

static int to_nowhere(void *argument) {
    bool at_source = *(const bool *)argument;
    uint32_t pages = 16, hole = 9;
    uint8_t *memory = map_memory(pages * PAGE, PROT_READ | PROT_WRITE);
    struct ends e;
    ptl_ct_event_t count;
    RANK_CHECK(memory && !open_ends(&e, memory, memory, pages * PAGE));
    if (at_source == (spin_rank() == 0))
        munmap(memory + hole * PAGE, PAGE);
    spin_barrier();
    if (spin_rank() == 0) {
        RANK_CHECK(!put(&e, 0, 0, pages * PAGE));
        RANK_CHECK(wait_for(e.sent, 1, &count) && count.failure == 1);
        RANK_CHECK(!put(&e, 0, 0, PAGE)); /* and life goes on */
        RANK_CHECK(wait_for(e.sent, 2, &count) && count.success == 1);
    } else {
        RANK_CHECK(wait_for(e.received, 2, &count) && count.failure == 1);
    }
    spin_barrier();
    munmap(memory, pages * PAGE);
    return 0;
}

TEST(unmapped_memory_is_an_error_and_no_hang) {
    for (int at_source = 0; at_source < 2; at_source++) {
        bool where = at_source;
        const char *set[] = {"paging.block=16KiB"};
        spinlib_world_on(
            (struct spin_world_options){.ranks = 2, .preset = "part", .set = set, .set_count = 1},
            at_source ? "source" : "target", to_nowhere, &where);
    }
}

static int to_read_only(void *argument) {
    uint8_t *memory = map_memory(4 * PAGE, spin_rank() ? PROT_READ : PROT_READ | PROT_WRITE);
    struct ends e;
    ptl_ct_event_t count;
    (void)argument;
    RANK_CHECK(memory && !open_ends(&e, memory, memory, 4 * PAGE));
    spin_barrier();
    if (spin_rank() == 0) {
        RANK_CHECK(!put(&e, 0, 0, 4 * PAGE));
        RANK_CHECK(!PtlCTWait(e.sent, 1, &count) || count.failure == 1);
        RANK_CHECK(count.failure == 1);
    }
    spin_barrier();
    munmap(memory, 4 * PAGE);
    return 0;
}

TEST(read_only_memory_is_an_error) {
    spinlib_world_on((struct spin_world_options){.ranks = 2, .preset = "part"}, "read-only",
                     to_read_only, NULL);
}

/* ---- times ---- */

struct timed {
    bool touches;
    uint64_t end_ps;
};

static int timed(void *argument) {
    struct timed *t = argument;
    uint8_t *memory = map_memory(16 * PAGE, PROT_READ | PROT_WRITE);
    struct ends e;
    ptl_ct_event_t count;
    RANK_CHECK(memory && !open_ends(&e, memory, memory, 16 * PAGE));
    if (t->touches)
        RANK_CHECK(!spin_touch(memory, 8 * PAGE) && !spin_pin(memory + 8 * PAGE, 8 * PAGE));
    spin_barrier();
    if (spin_rank() == 0) {
        uint64_t start = spin_now_ps();
        RANK_CHECK(!put(&e, 0, 0, 16 * PAGE));
        RANK_CHECK(!PtlCTWait(e.sent, 1, &count) && !count.failure);
        t->end_ps = spin_now_ps() - start;
    }
    spin_barrier();
    munmap(memory, 16 * PAGE);
    return 0;
}

static struct spin_world_result run_timed(struct timed *t, const char *preset, const char *set) {
    struct spin_world_options o = {.ranks = 2, .preset = preset, .set = &set, .set_count = !!set};
    struct spin_world *w;
    struct spin_error err;
    CHECK_EQ(spin_world_new(&w, &o, &err), 0);
    CHECK_EQ(spin_world_run(w, timed, t, &err), 0);
    struct spin_world_result r = spin_world_result(w);
    CHECK_EQ(r.failed, 0);
    spin_world_free(w);
    return r;
}

TEST(what_is_touched_does_not_fault) {
    struct timed touched = {.touches = true}, absent = {0};
    struct spin_world_result with = run_timed(&touched, "part", NULL);
    struct spin_world_result without = run_timed(&absent, "part", NULL);
    CHECK_EQ(with.counts.page_faults, 0);
    CHECK_EQ(with.counts.fault_interrupts, 0);
    CHECK(without.counts.page_faults > 0);
    CHECK(without.counts.pages_in >= 32); /* of both sides */
    CHECK(absent.end_ps > touched.end_ps + 50000000);
}

/* 512 pages become a huge one under a card that uses them: it waits for the copy, and no more. */
static int collapsing(void *argument) {
    uint64_t bytes = 2 << 20;
    uint8_t *memory = aligned_alloc(bytes, bytes);
    struct ends e;
    ptl_ct_event_t count;
    (void)argument;
    RANK_CHECK(memory && !open_ends(&e, memory, memory, bytes));
    memset(memory, spin_rank() ? 0 : 7, bytes);
    spin_touch(memory, bytes); /* 1.5 ms */
    spin_barrier();
    for (uint32_t i = 1; i <= 4 && spin_rank() == 0; i++) {
        RANK_CHECK(!put(&e, 0, 0, bytes)); /* 1.7 ms */
        RANK_CHECK(!PtlCTWait(e.sent, i, &count) && !count.failure);
    }
    spin_barrier();
    RANK_CHECK(memory[0] == 7 && !memcmp(memory, memory + 1, bytes - 1));
    free(memory);
    return 0;
}

TEST(huge_pages_collapse_under_the_card) {
    const char *set[] = {"paging.collapse_period=2ms"};
    struct spin_world_options o = {.ranks = 2, .preset = "part", .set = set, .set_count = 1};
    struct spin_world *w;
    struct spin_error err;
    CHECK_EQ(spin_world_new(&w, &o, &err), 0);
    CHECK_EQ(spin_world_run(w, collapsing, NULL, &err), 0);
    struct spin_world_result r = spin_world_result(w);
    CHECK_EQ(r.failed, 0);
    CHECK(r.counts.page_faults > 0);
    CHECK(r.counts.pages_in == 1024); /* touched, once */
    spin_world_free(w);
}

/* Off is the default: nothing of it costs or counts anything. */
TEST(off_by_default) {
    struct timed plain = {.touches = true}, off = {0};
    struct spin_world_result a = run_timed(&plain, "sc17-int", NULL);
    struct spin_world_result b = run_timed(&off, "sc17-int", "paging.memory=off");
    CHECK_EQ(plain.end_ps, off.end_ps);
    CHECK_EQ(a.makespan_ps, b.makespan_ps);
    CHECK_EQ(a.counts.page_faults + a.counts.pages_in + a.counts.blocks, 0);
}

TEST_MAIN
