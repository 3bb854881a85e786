/* Worlds of other cards than SC'17's: PsPIN's, several kinds, cards without HPUs or a program. */
#include "lib/worlds.h"

#include "p4_broadcast/p4_broadcast.h"

/* ---- PsPIN's datapath --------------------------------------------------------------------------
 */

static const char *const on_pspin[] = {
    "card=pspin",        "loss=0.1",           "duplication=0.1", "reordering=0.1",
    "reorder_delay=5us", "retry_timeout=20us", "retries=20",      "seed=7"};

static struct p4_setup pspin_setup(enum p4_variant variant, uint32_t bytes, int settings) {
    struct p4_setup s = setup_of(variant, "sc17-int", bytes);
    s.world.set = on_pspin;
    s.world.set_count = settings;
    return s;
}

/* The use cases check their data. */
TEST(use_cases_on_pspin_cards) {
    static const uint32_t sizes[] = {1, 8, 100, 4096, 4097, 70000};
    for (int v = 0; v < P4_VARIANTS; v++)
        for (int i = 0; i < 6; i++) {
            struct p4_setup s = pspin_setup((enum p4_variant)v, sizes[i], 1);
            struct p4_outcome o = run_case(p4_pingpong, &s);
            CHECK_EQ(o.world.counts.handlers > 0, v >= P4_STORE);
        }
    for (int v = 0; v < P4_VARIANTS; v += P4_STREAM) {
        struct p4_setup s = pspin_setup((enum p4_variant)v, 65536, 1);
        struct p4_outcome o = run_case(p4_accumulate, &s);
        CHECK_EQ(o.world.counts.handlers, v == P4_STREAM ? 65536 / 4096 + 1 : 0);
        run_case(p4_strided, &s);
        s.ranks = 32;
        struct p4_outcome a = run_case(p4_broadcast, &s), b = run_case(p4_broadcast, &s);
        CHECK_EQ(a.time_ps, b.time_ps);
    }
    struct p4_setup raid = pspin_setup(P4_STREAM, 4096, 1);
    struct p4_outcome o = run_case(p4_raid, &raid);
    CHECK_EQ(o.world.counts.handlers, 2 + 3 + 1);
    CHECK_EQ(o.world.counts.handled_packets, 3);
}

TEST(pspin_cards_on_a_bad_network) {
    for (int v = 0; v < P4_VARIANTS; v++) {
        struct p4_setup s = pspin_setup((enum p4_variant)v, 300000, 8);
        struct p4_outcome o = run_case(p4_pingpong, &s);
        CHECK(o.world.counts.lost > 5 && o.world.counts.retransmitted > 5);
        s.ranks = 16;
        s.bytes = 20000;
        run_case(p4_broadcast, &s);
    }
}

/* A handler's command that met a page that was not there goes on when it has come, which may be
 * long after the card did anything else. */
TEST(page_faults_of_handlers_on_pspin_cards) {
    static const char *const set[] = {"card=pspin", "paging.memory=demand"};
    for (uint32_t bytes = 5000; bytes <= 20000; bytes += 5000) {
        struct p4_setup s = setup_of(P4_STREAM, "sc17-int", bytes);
        s.world.set = set;
        s.world.set_count = 2;
        CHECK(run_case(p4_accumulate, &s).world.counts.page_faults > 0);
        run_case(p4_strided, &s);
        s.ranks = 8;
        CHECK(run_case(p4_broadcast, &s).world.counts.page_faults > 7);
    }
}

/* The entry's memory is not there when the handler stores to it. */
struct paged_store {
    struct p4_setup setup;
    const char *handler;
};

static int store_to_absent(void *argument) {
    enum { PAGE = 64 << 10 };
    static const uint8_t state[64] = {7};
    const struct paged_store *what = argument;
    const struct p4_entry entry = {.start = PAGE,
                                   .length = 64,
                                   .bits = 1,
                                   .header = what->handler,
                                   .state = state,
                                   .state_bytes = sizeof state};
    struct p4_rank r;
    uint32_t me = spin_rank();
    if (!p4_open(&r, &what->setup, 2 * PAGE, me ? "paged" : NULL) || (me && !p4_append(&r, &entry)))
        return 1;
    spin_barrier();
    if (!(me ? p4_wait(&r, 1) : p4_put(&r, 0, 8, 1, 1)))
        return 2;
    int wrong = me && r.buffer[PAGE] != 7;
    p4_close(&r);
    return wrong ? 3 : 0;
}

/* A move that is done when its page has come takes the time of its own command, whatever the
 * handler has asked for since. */
TEST(a_move_that_is_repeated_is_timed_as_itself) {
    static const char *const set[] = {"card=pspin", "paging.memory=demand"};
    static const char *const handlers[] = {"same_header_handler", "other_header_handler"};
    uint64_t times[2];
    for (int i = 0; i < 2; i++) {
        struct paged_store what = {setup_of(P4_STREAM, "sc17-int", 64), handlers[i]};
        struct spin_error err;
        struct spin_world_options o = {.ranks = 2, .set = set, .set_count = 2};
        what.setup.images = getenv("PAGED");
        struct spin_world_result r = run_world(&o, store_to_absent, &what, SPIN_OK, &err);
        CHECK_EQ(r.failed ? r.first_status : 0, 0);
        CHECK_EQ(r.counts.faults, 0);
        CHECK(r.counts.page_faults > 0);
        times[i] = r.makespan_ps;
    }
    CHECK_EQ(times[0], times[1]);
}

/* Interpreted and generated code take the same time, also with the small card's buffers full. */
TEST(generated_code_on_pspin_cards) {
    static const char *const small[] = {"card=pspin", "pspin.l2_packet_bytes=16KiB",
                                        "pspin.clusters=1"};
    uint64_t times[2];
    for (int i = 0; i < 2; i++) {
        struct p4_setup s = pspin_setup(P4_STREAM, 100000, 1);
        s.world.set = small;
        s.world.set_count = 3;
        s.world.jit = i ? SPIN_JIT_ON : SPIN_JIT_OFF;
        s.ranks = 8;
        times[i] = run_case(p4_broadcast, &s).time_ps;
    }
    CHECK_EQ(times[0], times[1]);
}

/* Messages of two images in turn: the sum is of one, the products (of zeroes) of the other. */
enum { OF_EACH = 30 };

static int of_two_images(void *argument) {
    const struct p4_setup *setup = argument;
    const uint64_t sum[2] = {0, OF_EACH};
    const uint32_t offset[2] = {0};
    struct p4_rank r;
    bool node = spin_rank() == 1;
    if (!p4_open(&r, setup, 128, node ? "p4_accumulate" : NULL))
        return 1;
    if (node && (!p4_append(&r, &(struct p4_entry){.length = 64,
                                                   .bits = 1,
                                                   .header = "accumulate_header_handler",
                                                   .payload = "accumulate_payload_handler",
                                                   .state = offset,
                                                   .state_bytes = sizeof offset}) ||
                 PtlImageLoad(r.ni, IMAGES "/bench/sum_handler.spin", &r.image) ||
                 !p4_append(&r, &(struct p4_entry){.start = 64,
                                                   .length = 64,
                                                   .bits = 2,
                                                   .payload = "sum_payload_handler",
                                                   .state = sum,
                                                   .state_bytes = sizeof sum})))
        return 2;
    spin_barrier();
    if (!node)
        memset(r.buffer, 1, 64);
    for (int i = 0; !node && i < 2 * OF_EACH; i++)
        if (!p4_put(&r, 0, 64, 1, 1 + (uint32_t)i % 2))
            return 3;
    uint64_t total = 0;
    if (node && !p4_wait(&r, 2 * OF_EACH))
        return 4;
    memcpy(&total, r.buffer + 64, sizeof total);
    spin_barrier();
    p4_close(&r);
    return !node || total == OF_EACH * 0x01010101ull ? 0 : 5;
}

TEST(two_images_on_one_pspin_card) {
    static const char *const set[] = {"card=pspin", "pspin.contexts=3"}; /* the card's, and two */
    struct p4_setup s = pspin_setup(P4_STREAM, 64, 1);
    struct spin_error err;
    struct spin_world_options o = {.ranks = 2, .set = set, .set_count = 2};
    struct spin_world_result r = run_world(&o, of_two_images, &s, SPIN_OK, &err);
    CHECK_EQ(r.failed ? r.first_status : 0, 0);
    CHECK_EQ(r.counts.handlers, 3 * OF_EACH);
}

/* Every rank sends all ranks, itself too, more than a card's packet buffer holds, and more small
 * messages than it has places, each with a completion handler. */
enum { WHOLE = 50000, SMALL_MESSAGES = 100 };

static int more_than_fits(void *argument) {
    struct p4_broadcast state = {.ranks = 1, .most_streamed = WHOLE, .packet_bytes = 4096};
    struct p4_entry entry = {.length = WHOLE,
                             .bits = 1,
                             .header = "bcast_header_handler",
                             .payload = "bcast_payload_handler",
                             .state = &state,
                             .state_bytes = sizeof state};
    struct p4_entry small = {.start = 2 * WHOLE, .length = 8, .bits = 2, .state = &state};
    static uint8_t buffers[3][2 * WHOLE + 8]; /* also of ranks that do not come to their end */
    uint8_t *own = memset(buffers[spin_rank()], 0, sizeof *buffers);
    struct p4_rank r;
    small.completion = "bcast_completion_handler";
    small.state_bytes = sizeof state;
    state.streams = 1;
    if (!p4_open_with(&r, argument, own, sizeof *buffers, "p4_broadcast") ||
        !p4_append(&r, &entry) || !p4_append(&r, &small))
        return 1;
    for (uint32_t i = 0; i < WHOLE; i++)
        r.buffer[WHOLE + i] = (uint8_t)(1 + i * 7 + i / 4096);
    spin_barrier();
    for (uint32_t i = 0; i < spin_ranks(); i++)
        if (!p4_put(&r, WHOLE, WHOLE, i, 1))
            return 2;
    for (uint32_t i = 0; i < SMALL_MESSAGES * spin_ranks(); i++)
        if (!p4_put(&r, WHOLE, 8, i % spin_ranks(), 2))
            return 3;
    if (!p4_wait(&r, (1 + SMALL_MESSAGES) * spin_ranks()))
        return 4;
    int wrong = memcmp(r.buffer, r.buffer + WHOLE, WHOLE) != 0;
    spin_barrier();
    p4_close(&r);
    return wrong ? 5 : 0;
}

TEST(handlers_wait_for_a_place_in_the_packet_buffer) {
    static const char *const set[] = {"card=pspin", "pspin.l2_packet_bytes=8KiB",
                                      "pspin.clusters=1", "pspin.cluster_hpus=1"};
    struct p4_setup s = pspin_setup(P4_STREAM, WHOLE, 1);
    struct spin_error err;
    struct spin_world_options o = {.ranks = 3, .set = set, .set_count = 4};
    struct spin_world_result r = run_world(&o, more_than_fits, &s, SPIN_OK, &err);
    CHECK_EQ(r.failed ? r.first_status : 0, 0);
    CHECK_EQ(r.counts.handlers, 3 * 3 * (1 + (WHOLE + 4095) / 4096 + SMALL_MESSAGES));
    /* and a run that ends meanwhile leaves nothing behind */
    for (o.until_ps = 2000000; o.until_ps < r.makespan_ps; o.until_ps += r.makespan_ps / 8)
        run_world(&o, more_than_fits, &s, SPIN_ELIMIT, &err);
}

/* Two packets for handlers, of which one fits into the packet buffer at a time; then, from another
 * rank, small ones, for which there would be room. They wait behind the one that waits, and come in
 * with it, as soon as the first one's handler has ended. */
enum { LARGE_BITS = 1, SMALL_BITS, GO_BITS, LARGE = 4096, SMALL = 64, SMALLS = 10 };

static bool take_turns(const struct p4_rank *r) {
    for (uint32_t i = 0; i < SMALLS + 2; i++) {
        ptl_event_t event;
        uint64_t expected = i == 0 || i == SMALLS + 1 ? LARGE_BITS : SMALL_BITS;
        if (PtlEQWait(r->eq, &event) || event.type != PTL_EVENT_PUT || event.match_bits != expected)
            return false;
    }
    return true;
}

static int first_come(void *argument) {
    static uint8_t buffers[3][2 * LARGE];
    const uint32_t state[2] = {0};
    const struct p4_entry entries[] = {{.length = 8, .bits = GO_BITS},
                                       {.start = LARGE, .length = SMALL, .bits = SMALL_BITS},
                                       {.length = LARGE,
                                        .bits = LARGE_BITS,
                                        .header = "accumulate_header_handler",
                                        .payload = "accumulate_payload_handler",
                                        .state = state,
                                        .state_bytes = sizeof state}};
    struct p4_rank r;
    uint32_t me = spin_rank();
    bool well = true;
    if (!p4_open_with(&r, argument, buffers[me], sizeof *buffers, me == 2 ? "p4_accumulate" : NULL))
        return 1;
    for (uint32_t i = 0; i < (me == 2 ? 3 : 1); i++)
        if (!p4_append(&r, &entries[i]))
            return 2;
    spin_barrier();
    if (me == 0)
        well = p4_put(&r, 0, LARGE, 2, LARGE_BITS) && p4_put(&r, 0, LARGE, 2, LARGE_BITS) &&
               p4_put(&r, 0, 8, 1, GO_BITS);
    if (me == 1)
        well = p4_wait(&r, 1);
    for (uint32_t i = 0; me == 1 && i < SMALLS; i++)
        well &= p4_put(&r, 0, SMALL, 2, SMALL_BITS);
    if (me == 2)
        well = take_turns(&r);
    spin_barrier();
    p4_close(&r);
    return well ? 0 : 3;
}

TEST(no_packet_overtakes_one_that_waits_for_the_packet_buffer) {
    static const char *const set[] = {"card=pspin", "pspin.l2_packet_bytes=6KiB"};
    struct p4_setup s = pspin_setup(P4_RDMA, LARGE, 1);
    struct spin_error err;
    struct spin_world_options o = {.ranks = 3, .set = set, .set_count = 2};
    struct spin_world_result r = run_world(&o, first_come, &s, SPIN_OK, &err);
    CHECK_EQ(r.failed ? r.first_status : 0, 0);
    CHECK_EQ(r.counts.handlers, 2 * 2);
}

TEST(a_packet_buffer_takes_a_packet) {
    static const char *const set[] = {"card=pspin", "pspin.l2_packet_bytes=2KiB"};
    struct spin_world_options o = {.ranks = 2, .set = set, .set_count = 2};
    struct spin_world *w;
    struct spin_error err;
    CHECK_EQ(spin_world_new(&w, &o, &err), SPIN_EARG);
    CHECK(strstr(err.text, "mtu: 4096 bytes; the card's packet buffers take 2048"));
}

/* A thousand cards of which most do nothing. */
TEST(a_thousand_pspin_cards) {
    struct p4_setup s = pspin_setup(P4_STREAM, 4096, 1);
    s.ranks = 1024;
    CHECK(run_case(p4_broadcast, &s).world.counts.handlers >= 1023);
}

/* ---- cards of several kinds -------------------------------------------------------------------
 */

/* The use cases check their data, whichever of both cards sends and answers. */
TEST(worlds_of_two_cards) {
    static const char *const set[2][2] = {{"0:card=pspin", "0:pspin.clusters=2"},
                                          {"1-:card=pspin", "1-:hpus=0"}};
    for (int k = 0; k < 2; k++)
        for (int v = 0; v < P4_VARIANTS; v++) {
            struct p4_setup s = setup_of((enum p4_variant)v, "sc17-int", 70000);
            uint64_t alike = run_case(p4_pingpong, &s).time_ps;
            s.world.set = set[k];
            s.world.set_count = 2;
            CHECK(run_case(p4_pingpong, &s).time_ps != alike);
            s.ranks = 16;
            run_case(p4_broadcast, &s);
        }
}

/* Appendix B.2.1: what a card has is in the limits, and what goes beyond is refused. */
static int without_hpus(void *argument) {
    ptl_ni_limits_t actual;
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_image_h image;
    ptl_hpu_md_h memory;
    ptl_handle_me_t entry;
    ptl_hpu_limits_t limits;
    ptl_me_t me = {.uid = PTL_UID_ANY,
                   .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                   .ct_handle = PTL_CT_NONE,
                   .hpu_memory = PTL_INVALID_HANDLE,
                   .options = PTL_ME_OP_PUT | PTL_ME_HANDLERS};
    bool has = spin_rank() == 0;
    int refused = has ? PTL_OK : PTL_NO_SPACE;
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, &actual,
                  &ni) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt) || PtlHPULimits(ni, &limits))
        return 1;
    if ((limits.max_handler_mem > 0) != has || (actual.max_payload_size > 0) != has ||
        (actual.max_user_hdr_size > 0) != has || (actual.max_initial_state > 0) != has)
        return 2;
    if (PtlHPUAllocMem(64, ni, &memory) != refused)
        return 3;
    if (PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry)) /* no handlers after all */
        return 4;
    if (PtlImageLoad(ni, argument, &image) ||
        PtlImageFind(image, "pingpong_header_handler", &me.header_handler))
        return 5;
    return PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry) == refused ? 0 : 6;
}

TEST(a_card_without_hpus_refuses_handlers) {
    static const char *const set[] = {"1:hpus=0"};
    struct spin_error err;
    char image[] = IMAGES "/p4_pingpong.spin";
    struct spin_world_options o = {.ranks = 2, .set = set, .set_count = 1};
    struct spin_world_result r = run_world(&o, without_hpus, image, SPIN_OK, &err);
    if (r.failed)
        TEST_FAIL("rank %u returns %d", r.first_failed, r.first_status);
}

/* ---- ranks without a program ------------------------------------------------------------------
 */

struct served {
    uint8_t memory[64]; /* of the card without a program */
    int setups;
    bool waits, fails;
};

static int serve_memory(void *argument) {
    struct served *s = argument;
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_ct_t ct;
    ptl_ct_event_t event;
    ptl_handle_me_t entry;
    ptl_me_t me = {.start = s->memory,
                   .length = sizeof s->memory,
                   .uid = PTL_UID_ANY,
                   .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                   .ct_handle = PTL_CT_NONE,
                   .options = PTL_ME_OP_PUT};
    s->setups++;
    for (int i = 0; i < 200; i++) /* as often as it likes: time has not begun */
        if (spin_now_ps())
            return 8;
    if (open_interface(PTL_NI_MATCHING | PTL_NI_PHYSICAL, &ni) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, 3, &pt) || PtlCTAlloc(ni, &ct) ||
        PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry) || spin_rank() != 1)
        return 1;
    if (s->waits)
        PtlCTWait(ct, 1, &event);
    return s->fails ? 5 : 0;
}

static int use_memory(void *argument) {
    static uint8_t byte = 77;
    ptl_handle_ni_t ni;
    ptl_handle_md_t md;
    ptl_handle_ct_t ct;
    ptl_ct_event_t event;
    ptl_md_t one = {
        .start = &byte, .length = 1, .eq_handle = PTL_EQ_NONE, .options = PTL_MD_EVENT_CT_ACK};
    ptl_process_t node = {.phys = {.nid = 1}};
    (void)argument;
    if (open_interface(PTL_NI_MATCHING | PTL_NI_PHYSICAL, &ni) || PtlCTAlloc(ni, &ct))
        return 1;
    one.ct_handle = ct;
    if (PtlMDBind(ni, &one, &md) || PtlPut(md, 0, 1, PTL_CT_ACK_REQ, node, 3, 0, 9, NULL, 0))
        return 2;
    spin_barrier(); /* of all ranks with a program: this one */
    return PtlCTWait(ct, 1, &event) || event.success != 1 ? 3 : 0;
}

TEST(a_card_without_a_program) {
    static const char *const set[2] = {"1:program=none", "1:card=pspin"};
    struct spin_error err;
    for (int pspin = 0; pspin < 2; pspin++) {
        struct served s = {.setups = 0};
        struct spin_world_options o = {.ranks = 2,
                                       .set = set,
                                       .set_count = 1 + pspin,
                                       .setup = serve_memory,
                                       .setup_argument = &s};
        CHECK_EQ(run_world(&o, use_memory, &s, SPIN_OK, &err).failed, 0);
        CHECK_EQ(s.memory[9], 77);
        CHECK_EQ(s.setups, 1);
        s.waits = true;
        run_world(&o, use_memory, &s, SPIN_EARG, &err);
        CHECK_HAS(err.text, "rank 1 has no program, and its set-up waits in PtlCTWait");
        s.waits = false;
        s.fails = true;
        run_world(&o, use_memory, &s, SPIN_EARG, &err);
        CHECK_HAS(err.text, "rank 1 has no program, and its set-up returned 5");
    }
}

TEST_MAIN
