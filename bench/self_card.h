/* A live card that sends messages to itself: every packet is made, matched to its message, given to
 * its handler and accounted for, by one processor. */
#ifndef BENCH_SELF_CARD_H
#define BENCH_SELF_CARD_H

#include "measure.h"

#include "live/live_card.h"

#define NEED(call)                                                                                 \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_) {                                                                               \
            fprintf(stderr, "bench: %s: %s\n", #call, PtlToStr(code_, PTL_STR_ERROR));             \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

#define SELF_MESSAGE (64u << 10) /* bytes */
#define SELF_TURNS   5
#define SELF_WARM_NS 2e8 /* then the handler is compiled */

struct self_card {
    struct live_folder folder;
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_ct_t arrived;
    ptl_handle_md_t md;
    ptl_image_h image;
    ptl_process_t self;
    uint64_t messages;
};

static inline double self_card_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return 1e9 * (double)t.tv_sec + (double)t.tv_nsec;
}

/* Messages are the SELF_MESSAGE bytes at `source`. */
static inline void self_card_open(struct self_card *s, const char *path, uint32_t packet_bytes,
                                  void *source) {
    const struct live_card_options options = {
        .folder = &s->folder, .nid = 1, .pid = 1, .jit = SPIN_JIT_ASIDE, .mtu_bytes = packet_bytes};
    struct spin_error err;
    ptl_pt_index_t pt;
    char name[64];
    if (live_folder_make(&s->folder, name, sizeof name, &err) ||
        live_card_new(&s->card, &options, &err)) {
        fprintf(stderr, "bench: %s\n", err.text);
        exit(1);
    }
    portals_enter(live_card_process(s->card));
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &s->ni));
    NEED(PtlGetPhysId(s->ni, &s->self));
    NEED(PtlPTAlloc(s->ni, 0, PTL_EQ_NONE, 0, &pt));
    NEED(PtlCTAlloc(s->ni, &s->arrived));
    const ptl_md_t all = {.start = source,
                          .length = SELF_MESSAGE,
                          .eq_handle = PTL_EQ_NONE,
                          .ct_handle = PTL_CT_NONE};
    NEED(PtlMDBind(s->ni, &all, &s->md));
    NEED(PtlImageLoad(s->ni, path, &s->image));
    s->messages = 0;
}

static inline void self_card_close(struct self_card *s) {
    live_card_free(s->card);
    live_folder_remove(&s->folder);
}

/* An entry with a payload handler; none: the card stores the data. `initial` has `state` bytes, or
 * is NULL. */
static inline void self_card_entry(struct self_card *s, uint64_t bits, const char *handler,
                                   uint32_t state, const void *initial, void *host,
                                   uint64_t host_bytes) {
    ptl_me_t me = {.start = host,
                   .length = host_bytes,
                   .ct_handle = s->arrived,
                   .uid = PTL_UID_ANY,
                   .match_id = {.phys = {PTL_NID_ANY, PTL_PID_ANY}},
                   .match_bits = bits,
                   .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM};
    ptl_handle_me_t handle;
    if (handler) {
        me.options |= PTL_ME_HANDLERS;
        me.hpu_initial_state = (void *)(uintptr_t)initial;
        me.hpu_initial_state_length = initial ? state : 0;
        NEED(PtlImageFind(s->image, handler, &me.payload_handler));
        NEED(PtlHPUAllocMem(state, s->ni, &me.hpu_memory));
    }
    NEED(PtlMEAppend(s->ni, 0, &me, PTL_PRIORITY_LIST, NULL, &handle));
}

static inline void self_card_send(struct self_card *s, uint64_t bits, uint32_t count) {
    ptl_ct_event_t event;
    for (uint32_t i = 0; i < count; i++)
        NEED(PtlPut(s->md, 0, SELF_MESSAGE, PTL_NO_ACK_REQ, s->self, 0, bits, 0, NULL, 0));
    s->messages += count;
    NEED(PtlCTWait(s->arrived, s->messages, &event));
    if (event.failure) {
        fprintf(stderr, "bench: a handler failed\n");
        exit(1);
    }
}

/* ns per packet: the best of some turns. */
static inline double self_card_time(struct self_card *s, uint64_t bits, uint32_t packet_bytes) {
    uint32_t count = packet_bytes < 512 ? 40 : 200;
    double best = 0, began = self_card_ns();
    do
        self_card_send(s, bits, count);
    while (self_card_ns() - began < SELF_WARM_NS);
    for (int i = 0; i < SELF_TURNS; i++) {
        double start = self_card_ns();
        self_card_send(s, bits, count);
        double ns = (self_card_ns() - start) / count / (SELF_MESSAGE / packet_bytes);
        best = i == 0 || ns < best ? ns : best;
    }
    return best;
}

#endif
