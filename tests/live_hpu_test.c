/* Handlers of live cards on workers and on who drives: they run at the same time, count exactly,
 * wait, and what one of them does wrong costs its own message. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "hpu/jit.h"
#include "lib/live_user.h"
#include "lib/tsan_llvm.h"
#include "live/live_card_private.h"

#define BYTES    (8u * 4096)
#define MESSAGES (TEST_SANITIZED ? 40u : 200u)

struct state { /* tests/handlers/live_handlers.c */
    uint32_t sum, swaps, ids, met;
    uint64_t wide, slow;
};

struct side {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_image_h image;
};

static struct side sender, receiver;
static uint8_t source[BYTES], target[BYTES];
static struct state told;
static ptl_handle_md_t md;
static ptl_hpu_md_h memory;

static void be(const struct side *s) {
    portals_enter(live_card_process(s->card));
}

static bool lazy;      /* the next side receives in calls alone */
static uint8_t *paged; /* handlers have this host memory, which may not be there; NULL: `told` */
static bool unpaged;   /* without the pager */
#define PAGES 4u
static uint32_t node = 1; /* of both sides */

static void open_side(struct side *s, uint32_t pid, uint32_t hpus, enum spin_jit jit) {
    const struct live_card_options options = {.folder = &folder,
                                              .nid = node,
                                              .pid = pid,
                                              .progress = !lazy,
                                              .hpus = hpus,
                                              .jit = jit,
                                              .paging = paged && !unpaged};
    CHECK_EQ(live_card_new(&s->card, &options, &err), 0);
    be(s);
    CHECK_EQ(PtlInit(), PTL_OK);
    CHECK_EQ(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL,
                       NULL, &s->ni),
             PTL_OK);
    CHECK_EQ(PtlEQAlloc(s->ni, 4096, &s->eq), PTL_OK);
    CHECK_EQ(PtlPTAlloc(s->ni, 0, s->eq, 4, &s->pt), PTL_OK);
}

static bool deaf; /* the sender is lazy */

static void open_both(uint32_t hpus, enum spin_jit jit) {
    open_folder();
    open_side(&receiver, 2, hpus, jit);
    CHECK_EQ(PtlImageLoad(receiver.ni, getenv("LIVE_IMAGE"), &receiver.image), PTL_OK);
    CHECK_EQ(PtlHPUAllocMem(sizeof told, receiver.ni, &memory), PTL_OK);
    lazy = deaf;
    open_side(&sender, 1, 0, SPIN_JIT_OFF);
    lazy = false;
    const ptl_md_t all = {
        .start = source, .length = BYTES, .eq_handle = sender.eq, .ct_handle = PTL_CT_NONE};
    CHECK_EQ(PtlMDBind(sender.ni, &all, &md), PTL_OK);
    for (uint32_t i = 0; i < BYTES; i++)
        source[i] = (uint8_t)(i * 7 + 3);
}

static void close_both(void) {
    live_card_free(sender.card);
    live_card_free(receiver.card);
    portals_enter(NULL);
    live_folder_remove(&folder);
}

static ptl_handler_t handler(const char *name) {
    ptl_handler_t found = NULL;
    if (name && PtlImageFind(receiver.image, name, &found) != PTL_OK)
        TEST_FAIL("%s", PtlImageError());
    return found;
}

/* An entry at the receiver with handlers by these names. */
static void entry(uint64_t bits, const char *header, const char *payload, const char *completion) {
    static const struct state zero;
    bool keeps = completion; /* of what others have counted */
    be(&receiver);
    const ptl_me_t me = {.start = target,
                         .length = BYTES,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                         .match_bits = bits,
                         .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_HANDLERS,
                         .handler_host_mem_start = paged ? (void *)paged : &told,
                         .handler_host_mem_length = paged ? PAGES * 4096 : sizeof told,
                         .hpu_memory = memory,
                         .hpu_initial_state = keeps ? NULL : (void *)(uintptr_t)&zero,
                         .hpu_initial_state_length = keeps ? 0 : sizeof zero,
                         .header_handler = handler(header),
                         .payload_handler = handler(payload),
                         .completion_handler = handler(completion)};
    ptl_handle_me_t handle;
    CHECK_EQ(PtlMEAppend(receiver.ni, receiver.pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
}

static void send_put(uint64_t bits, uint32_t bytes) {
    const ptl_process_t to = {.phys = {.nid = node, .pid = 2}};
    be(&sender);
    CHECK_EQ(PtlPut(md, 0, bytes, PTL_ACK_REQ, to, 4, bits, 0, NULL, bits), PTL_OK);
}

/* The next event of that kind. */
static ptl_event_t event(struct side *s, ptl_event_kind_t kind) {
    ptl_event_t ev;
    unsigned which;
    be(s);
    do
        CHECK_EQ(PtlEQPoll(&s->eq, 1, 300000, &ev, &which), PTL_OK);
    while (ev.type != kind);
    return ev;
}

static void count_exactly(uint32_t hpus, enum spin_jit jit) {
    uint32_t sum = 0;
    snprintf(test_context, sizeof test_context, "%u workers, jit %d", hpus, jit);
    open_both(hpus, jit);
    entry(1, NULL, "count_payload_handler", NULL);
    entry(2, NULL, NULL, "tell_completion_handler");
    for (uint32_t i = 0, word; i < BYTES / 4; i++) {
        memcpy(&word, source + 4 * i, 4);
        sum += word;
    }
    for (uint32_t i = 0; i < MESSAGES; i++)
        send_put(1, BYTES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
        CHECK_EQ(event(&sender, PTL_EVENT_ACK).ni_fail_type, PTL_NI_OK);
    }
    send_put(2, 0);
    event(&receiver, PTL_EVENT_PUT);
    CHECK_EQ(told.swaps, MESSAGES * 8);
    CHECK_EQ(told.wide, MESSAGES * 8);
    CHECK_EQ(told.slow, MESSAGES * 8);
    CHECK_EQ(told.sum, sum * MESSAGES);
    CHECK_EQ(told.ids, 0);
    close_both();
}

TEST(atomics_of_handlers_on_workers_count_exactly) {
    count_exactly(0, SPIN_JIT_OFF);
    count_exactly(1, SPIN_JIT_OFF);
    count_exactly(4, SPIN_JIT_OFF);
    count_exactly(0, SPIN_JIT_ASIDE);
    count_exactly(4, SPIN_JIT_ASIDE);
}

/* Each packet's handler begins as the first did, and its DMA goes where it should. */
static void begin_anew(uint32_t hpus, enum spin_jit jit) {
    enum { PART = BYTES - 1000 }; /* the last packet is smaller */
    snprintf(test_context, sizeof test_context, "%u workers, jit %d", hpus, jit);
    memset(target, 0, sizeof target);
    open_both(hpus, jit);
    entry(1, NULL, "fresh_payload_handler", NULL);
    entry(2, NULL, NULL, "tell_completion_handler");
    for (uint32_t i = 0; i < MESSAGES; i++)
        send_put(1, PART);
    for (uint32_t i = 0; i < MESSAGES; i++)
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    send_put(2, 0);
    event(&receiver, PTL_EVENT_PUT);
    CHECK_EQ(told.sum, MESSAGES * 8);
    CHECK(memcmp(target, source, PART) == 0);
    CHECK_EQ(target[PART], 0);
    close_both();
}

TEST(handlers_of_a_message_begin_anew) {
    begin_anew(0, SPIN_JIT_OFF);
    begin_anew(2, SPIN_JIT_OFF);
    begin_anew(0, SPIN_JIT_ASIDE);
    begin_anew(2, SPIN_JIT_ASIDE);
}

/* The other message's handlers go on as if nothing had been. */
TEST(dma_outside_of_what_is_given) {
    static const char *const wrong[] = {"outside_payload_handler", "inside_payload_handler"};
    for (uint32_t hpus = 0; hpus < 2; hpus++) {
        open_both(hpus, SPIN_JIT_OFF);
        memset(target, 0, sizeof target); /* before calls of the receiver, which writes there */
        entry(1, NULL, "fresh_payload_handler", NULL);
        for (uint64_t i = 0; i < 2; i++)
            entry(2 + i, NULL, wrong[i], NULL);
        for (uint64_t i = 0; i < 12; i++) {
            uint64_t bits = 1 + i % 3;
            send_put(bits, bits == 1 ? BYTES - 64 : 4096);
            CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type,
                     bits == 1 ? PTL_NI_OK : PTL_NI_SEGV);
        }
        CHECK(memcmp(target, source, BYTES - 64) == 0);
        CHECK_EQ(target[BYTES - 64], 0);
        close_both();
    }
}

/* Two packets of one message; two messages. */
TEST(payload_handlers_run_at_the_same_time) {
    open_both(2, SPIN_JIT_OFF);
    entry(1, NULL, "meet_payload_handler", NULL);
    for (int i = 0; i < 2; i++) {
        send_put(1, 8192);
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    }
    entry(2, NULL, "meet_payload_handler", NULL); /* the state is new */
    send_put(2, 64);
    send_put(2, 64);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    close_both();
}

/* While one loops, messages of others are delivered. */
static void wrong_costs_its_own(uint32_t hpus) {
    snprintf(test_context, sizeof test_context, "%u workers", hpus);
    open_both(hpus, SPIN_JIT_OFF);
    entry(1, "loop_header_handler", NULL, NULL);
    entry(2, NULL, "fault_payload_handler", NULL);
    entry(3, NULL, NULL, NULL);
    send_put(1, 64);
    send_put(2, 8192);
    send_put(3, BYTES);
    unsigned ended = 0;
    for (int i = 0; i < 3; i++) {
        ptl_event_t ev = event(&receiver, PTL_EVENT_PUT);
        CHECK_EQ(ev.ni_fail_type, ev.match_bits == 3 ? PTL_NI_OK : PTL_NI_SEGV);
        ended |= 1u << ev.match_bits;
        if (hpus > 1 && ev.match_bits == 1)
            CHECK_EQ(i, 2); /* the others did not wait for it */
    }
    CHECK_EQ(ended, 14);
    CHECK(memcmp(target, source, BYTES) == 0);
    close_both();
}

TEST(what_a_handler_does_wrong_costs_its_own_message) {
    wrong_costs_its_own(0);
    wrong_costs_its_own(2);
}

/* To a process that takes nothing: it waits, and the card's memory does not grow. */
static void flood(uint32_t hpus, const char *header) {
    snprintf(test_context, sizeof test_context, "%s, %u workers", header, hpus);
    deaf = true;
    open_both(hpus, SPIN_JIT_OFF);
    deaf = false;
    entry(1, header, NULL, NULL);
    entry(3, NULL, NULL, NULL);
    send_put(3, 64); /* they know each other then */
    event(&sender, PTL_EVENT_ACK);
    event(&receiver, PTL_EVENT_PUT);
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    for (int i = 0; i < 20; i++)
        send_put(1, 64);
    send_put(3, 64);
    CHECK_EQ(event(&receiver, PTL_EVENT_PUT).match_bits, 3);
    usleep(100000);
    getrusage(RUSAGE_SELF, &after);
    CHECK(after.ru_maxrss - before.ru_maxrss < 20000); /* KiB */
    close_both();
}

TEST(handlers_that_flood_wait_and_use_little_memory) {
    flood(0, "flood_header_handler");
    flood(2, "flood_header_handler");
    flood(0, "flood_host_header_handler");
    flood(2, "flood_host_header_handler");
}

/* What it sends is thrown away where it arrives. */
TEST(a_handler_that_floods_ends_after_so_many_messages) {
    static const char *const header[] = {"flood_header_handler", "flood_host_header_handler"};
    for (uint32_t i = 0; i < 4; i++) {
        ptl_sr_value_t dropped;
        snprintf(test_context, sizeof test_context, "%s, %u workers", header[i / 2], i % 2);
        open_both(i % 2, SPIN_JIT_OFF);
        entry(1, header[i / 2], NULL, NULL);
        send_put(1, 64);
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_SEGV);
        be(&sender);
        CHECK_EQ(PtlNIStatus(sender.ni, PTL_SR_DROP_COUNT, &dropped), PTL_OK);
        CHECK(dropped <= 100000);
        close_both();
    }
}

/* Of gets to a peer that is gone, for each of which it waits: minutes until its budget ends. */
TEST(an_interface_does_not_wait_for_a_handler_that_floods) {
    for (uint32_t hpus = 0; hpus < 2; hpus++) {
        open_both(hpus, SPIN_JIT_OFF);
        entry(1, "flood_of_gets_header_handler", NULL, NULL);
        send_put(1, 64);
        usleep(50000);
        live_card_free(sender.card);
        be(&receiver);
        uint64_t began_ns = live_now_ns();
        CHECK_EQ(PtlNIFini(receiver.ni), PTL_OK);
        CHECK(live_now_ns() - began_ns < 20000 * (uint64_t)LIVE_MS);
        live_card_free(receiver.card);
        portals_enter(NULL);
        live_folder_remove(&folder);
    }
}

/* What get_header_handler gets of the sender. */
static void answer_with(uint64_t *answer) {
    ptl_handle_me_t handle;
    const ptl_me_t me = {.start = answer,
                         .length = sizeof *answer,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                         .match_bits = 50,
                         .options = PTL_ME_OP_GET | PTL_ME_EVENT_LINK_DISABLE};
    be(&sender);
    CHECK_EQ(PtlMEAppend(sender.ni, sender.pt, &me, PTL_PRIORITY_LIST, NULL, &handle), PTL_OK);
}

TEST(a_handler_that_waits_gives_its_worker_to_others) {
    static const uint32_t workers[] = {0, 1, 2};
    for (int k = 0; k < 3; k++) {
        uint64_t answer = 77;
        open_both(workers[k], SPIN_JIT_OFF);
        entry(1, "get_header_handler", NULL, NULL);
        entry(3, NULL, NULL, NULL);
        answer_with(&answer);
        for (int i = 0; i < 50; i++)
            send_put(i % 2 ? 3 : 1, 64);
        for (int i = 0; i < 50; i++)
            CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
        CHECK_EQ(*(uint64_t *)&told, 77);
        close_both();
    }
}

/* As an IPv4 address is; a handler's number of a process has 16 bits for it. */
TEST(a_handler_answers_on_a_node_with_a_long_number) {
    uint64_t answer = 78;
    node = 0x7f2c8fd5;
    open_both(0, SPIN_JIT_OFF);
    entry(1, "get_header_handler", NULL, NULL);
    answer_with(&answer);
    send_put(1, 64);
    CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, PTL_NI_OK);
    CHECK_EQ(*(uint64_t *)&told, 78);
    close_both();
    node = 1;
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

TEST(workers_without_work_use_no_time) {
    open_both(4, SPIN_JIT_OFF);
    entry(1, NULL, "count_payload_handler", NULL);
    for (int i = 0; i < 20; i++)
        send_put(1, BYTES);
    for (int i = 0; i < 20; i++)
        event(&receiver, PTL_EVENT_PUT);
    uint64_t before;
    /* Soon; one that looks all the time uses three times that, in each 0.3 s. */
    CHECK_SOON((before = cpu_ns(), usleep(300000), cpu_ns() - before < 100000000), );
    close_both();
}

/* ---- host memory whose pages are absent ---- */

static uint8_t *untouched_pages(void) {
    uint8_t *at =
        mmap(NULL, PAGES * 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(at != MAP_FAILED);
    madvise(at, PAGES * 4096, MADV_NOHUGEPAGE);
    return at;
}

static uint64_t parked(void) {
    live_lock_take(&receiver.card->lock);
    uint64_t all = nic_parked(receiver.card->nic);
    live_lock_give(&receiver.card->lock);
    return all;
}

/* A message whose handler meets an absent page, and another with handlers and a plain one behind
 * it, which pass it. */
static void begin_paged(uint32_t hpus, const char *handler) {
    snprintf(test_context, sizeof test_context, "%s, %u workers", handler, hpus);
    paged = untouched_pages();
    memset(target, 0, BYTES); /* it is there */
    open_both(hpus, SPIN_JIT_OFF);
    entry(1, handler, NULL, NULL);
    entry(2, NULL, "count_payload_handler", NULL);
    entry(3, NULL, NULL, NULL);
    live_card_hold_pager(receiver.card, true);
    send_put(1, 64);
    CHECK_SOON(parked() > 0, );
    for (uint64_t bits = 2; bits <= 3; bits++) {
        send_put(bits, 8192);
        CHECK_EQ(event(&receiver, PTL_EVENT_PUT).match_bits, bits);
        CHECK_EQ(event(&sender, PTL_EVENT_ACK).ni_fail_type, PTL_NI_OK);
    }
    CHECK(parked() > 0);
}

static void end_paged(int fails) {
    live_card_hold_pager(receiver.card, false);
    ptl_event_t ev = event(&receiver, PTL_EVENT_PUT);
    CHECK_EQ(ev.match_bits, 1);
    CHECK_EQ(ev.ni_fail_type, fails);
    CHECK_EQ(event(&sender, PTL_EVENT_ACK).ni_fail_type, fails);
    CHECK_EQ(parked(), 0);
    close_both();
}

static const char *const pagers[] = {"pages_header_handler", "hasty_header_handler"};

TEST(a_handler_waits_alone_for_absent_pages) {
    for (uint32_t i = 0; i < 6; i++) {
        begin_paged(i % 3, pagers[i / 3]);
        unsigned char there[PAGES] = {0};
        CHECK_EQ(mincore(paged, PAGES * 4096, there), 0);
        CHECK(!(there[0] & 1));
        end_paged(PTL_NI_OK);
        for (uint32_t page = 0; page < PAGES; page++)
            CHECK_EQ(*(uint64_t *)(void *)(paged + page * 4096), page == 1 ? 0 : 1);
        munmap(paged, PAGES * 4096);
        paged = NULL;
    }
}

TEST(absent_pages_that_go_away_fail_the_handler_that_waits) {
    for (uint32_t i = 0; i < 6; i++) {
        begin_paged(i % 3, pagers[i / 3]);
        munmap(paged, PAGES * 4096);
        end_paged(PTL_NI_SEGV);
        paged = NULL;
    }
}

TEST(without_the_pager_it_fails_the_handler_that_uses_it) {
    for (uint32_t i = 0; i < 6; i++) {
        snprintf(test_context, sizeof test_context, "%s, %u workers", pagers[i / 3], i % 3);
        paged = untouched_pages();
        unpaged = true;
        open_both(i % 3, SPIN_JIT_OFF);
        entry(1, pagers[i / 3], NULL, NULL);
        entry(2, NULL, "count_payload_handler", NULL);
        mprotect(paged, PAGES * 4096, PROT_NONE); /* and nobody else's may come there */
        for (uint64_t bits = 1; bits <= 2; bits++) {
            int fails = bits == 1 ? PTL_NI_SEGV : PTL_NI_OK;
            send_put(bits, 64);
            CHECK_EQ(event(&receiver, PTL_EVENT_PUT).ni_fail_type, fails);
            CHECK_EQ(event(&sender, PTL_EVENT_ACK).ni_fail_type, fails);
        }
        close_both();
        munmap(paged, PAGES * 4096);
        paged = NULL;
        unpaged = false;
    }
}

TEST_MAIN
