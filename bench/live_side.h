/* Two live cards in two processes that measure what passes between them. */
#ifndef BENCH_LIVE_SIDE_H
#define BENCH_LIVE_SIDE_H

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/live_card.h"
#include "live/live_clock.h"
#include "measure.h"

#define MEMORY (4u << 20)
#define NEED(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_) {                                                                               \
            fprintf(stderr, "bench: %s: %s\n", #call, PtlToStr(code_, PTL_STR_ERROR));             \
            _exit(1);                                                                              \
        }                                                                                          \
    } while (0)

struct side {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_ct_t arrived, acked;
    ptl_handle_md_t md;
    ptl_process_t peer;
    uint64_t seen;
    uint8_t *source, *memory;
};

/* One of two processes, with the pids 0 and 1 of one node. */
static void side_open(struct side *s, const struct live_card_options *options) {
    struct spin_error err;
    *s = (struct side){0};
    if (live_card_new(&s->card, options, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        _exit(1);
    }
    s->source = malloc(MEMORY);
    s->memory = malloc(MEMORY);
    memset(s->source, 1, MEMORY);
    memset(s->memory, 2, MEMORY);
    portals_enter(live_card_process(s->card));
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &s->ni));
    NEED(PtlGetPhysId(s->ni, &s->peer));
    s->peer.phys.pid = 1 - s->peer.phys.pid;
    ptl_pt_index_t pt;
    NEED(PtlPTAlloc(s->ni, 0, PTL_EQ_NONE, 0, &pt));
    NEED(PtlCTAlloc(s->ni, &s->arrived));
    NEED(PtlCTAlloc(s->ni, &s->acked));
    const ptl_me_t me = {.start = s->memory,
                         .length = MEMORY,
                         .ct_handle = s->arrived,
                         .uid = PTL_UID_ANY,
                         .match_id = {.phys = {.nid = PTL_NID_ANY, .pid = PTL_PID_ANY}},
                         .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM};
    const ptl_md_t md = {.start = s->source,
                         .length = MEMORY,
                         .options = PTL_MD_EVENT_CT_ACK,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = s->acked};
    ptl_handle_me_t handle;
    NEED(PtlMEAppend(s->ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle));
    NEED(PtlMDBind(s->ni, &md, &s->md));
}

static void put(struct side *s, uint64_t bytes, ptl_ack_req_t ack) {
    NEED(PtlPut(s->md, 0, bytes, ack, s->peer, 0, 0, 0, NULL, 0));
}

static void await(struct side *s, uint64_t more) {
    ptl_ct_event_t event;
    s->seen += more;
    NEED(PtlCTWait(s->arrived, s->seen, &event));
}

/* Until both have an entry for what the other sends. */
static void meet(struct side *s) {
    ptl_ct_event_t event;
    do {
        NEED(PtlCTSet(s->acked, (ptl_ct_event_t){0, 0}));
        put(s, 0, PTL_CT_ACK_REQ);
        NEED(PtlCTWait(s->acked, 1, &event));
    } while (event.failure);
    await(s, 1);
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Both sides run it. Returns the median of half a round trip in ns: a shared machine takes away the
 * processor now and then. */
static double ping_pong(struct side *s, bool first, uint64_t bytes, uint32_t times) {
    double *took = malloc(times * sizeof *took), median;
    for (uint32_t i = 0; i < times; i++) {
        uint64_t began = live_now_ns();
        if (first)
            put(s, bytes, PTL_NO_ACK_REQ);
        await(s, 1);
        if (!first)
            put(s, bytes, PTL_NO_ACK_REQ);
        took[i] = (double)(live_now_ns() - began) / 2;
    }
    qsort(took, times, sizeof *took, compare);
    median = took[times / 2];
    free(took);
    return median;
}

/* ns per message from the first to the second. */
static double stream(struct side *s, bool first, uint64_t bytes, uint32_t times, uint32_t window) {
    ptl_ct_event_t event;
    uint64_t began = live_now_ns();
    if (!first) {
        await(s, times);
        put(s, 0, PTL_NO_ACK_REQ);
        return 0;
    }
    NEED(PtlCTSet(s->acked, (ptl_ct_event_t){0, 0}));
    for (uint32_t i = 0; i < times; i++) {
        put(s, bytes, window ? PTL_CT_ACK_REQ : PTL_NO_ACK_REQ);
        if (window && i + 1 >= window)
            NEED(PtlCTWait(s->acked, i + 2 - window, &event));
    }
    await(s, 1);
    return (double)(live_now_ns() - began) / times;
}

/* Both processes run `work` on their sides, this one as the first. Returns the status to end with.
 */
static int sides_run(const char *name, struct live_card_options options,
                     void (*work)(struct side *s, bool first)) {
    struct live_folder folder;
    struct spin_error err;
    struct side side;
    char job[64];
    int status;
    if (live_folder_make(&folder, job, sizeof job, &err)) {
        fprintf(stderr, "%s: %s\n", name, err.text);
        return 1;
    }
    options.folder = &folder;
    options.progress = true;
    options.paging = wants_paging();
    fflush(stdout);
    pid_t child = fork();
    options.pid = child == 0;
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        side_open(&side, &options);
        work(&side, false);
        live_card_leave(side.card, 1000 * LIVE_MS);
        _exit(0);
    }
    side_open(&side, &options);
    work(&side, true);
    live_card_leave(side.card, 1000 * LIVE_MS);
    waitpid(child, &status, 0);
    live_card_free(side.card);
    live_folder_remove(&folder);
    return status != 0;
}

#endif
