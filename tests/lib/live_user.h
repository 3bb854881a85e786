/* Cards of one process or several, each with an entry of MEMORY bytes at index 3 and a descriptor
 * over as many, for tests of live cards. */
#ifndef TESTS_LIVE_USER_H
#define TESTS_LIVE_USER_H

#include "lib/test.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "live/live_box.h"
#include "live/live_card.h"
#include "nic/nic.h"
#include "nic/wire.h"

#define LIVE_USER __attribute__((unused))

static struct spin_error err;
static struct live_folder folder;

/* Whoever waits here for ever is ended, and says in which test and for what. */
#define LIMIT_S 300

LIVE_USER static const char *waits_for = "a call";

LIVE_USER static void say_and_end(int signal) {
    char text[400];
    (void)signal;
    int length = snprintf(text, sizeof text, "not ok - after %d s it still waits for %s; %s\n",
                          LIMIT_S, waits_for, test_context);
    _exit(write(1, text, (size_t)length) == length ? 1 : 2);
}

LIVE_USER static void open_folder(void) {
    char name[64];
    signal(SIGALRM, say_and_end);
    alarm(LIMIT_S);
    CHECK_EQ(live_folder_make(&folder, name, sizeof name, &err), 0);
}

#define MEMORY (1u << 20)

struct user {
    struct live_card *card;
    ptl_handle_ni_t ni;
    ptl_handle_ct_t sent, acked, arrived;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;
    uint8_t *memory, *source;
    ptl_ni_limits_t limits;
    _Atomic uint64_t next_value; /* of `acked`, for the next thread that waits */
};

/* For the thread that calls it. */
LIVE_USER static void enter(struct user *u) {
    portals_enter(live_card_process(u->card));
}

LIVE_USER static int user_open(struct user *u, uint32_t pid, bool progress) {
    const struct live_card_options options = {
        .folder = &folder, .nid = 1, .pid = pid, .progress = progress};
    const ptl_ni_limits_t all = {.features = PTL_COHERENT_ATOMICS}; /* the others as usual */
    *u = (struct user){0};
    u->memory = calloc(1, MEMORY);
    u->source = calloc(1, MEMORY);
    if (live_card_new(&u->card, &options, &err))
        return 1;
    enter(u);
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, &all,
                  &u->limits, &u->ni) ||
        PtlCTAlloc(u->ni, &u->arrived) || PtlCTAlloc(u->ni, &u->acked) ||
        PtlPTAlloc(u->ni, 0, PTL_EQ_NONE, 3, &u->pt))
        return 1;
    const ptl_le_t le = {.start = u->memory,
                         .length = MEMORY,
                         .ct_handle = u->arrived,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    const ptl_md_t md = {.start = u->source,
                         .length = MEMORY,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = u->acked};
    ptl_handle_le_t handle;
    return PtlLEAppend(u->ni, u->pt, &le, PTL_PRIORITY_LIST, NULL, &handle) ||
           PtlMDBind(u->ni, &md, &u->md);
}

LIVE_USER static void user_close(struct user *u) {
    live_card_free(u->card);
    free(u->memory);
    free(u->source);
    portals_enter(NULL);
}

LIVE_USER static ptl_process_t at(uint32_t pid) {
    return (ptl_process_t){.phys = {.nid = 1, .pid = pid}};
}

LIVE_USER static int put(struct user *u, uint32_t to, uint64_t offset, uint64_t bytes) {
    return PtlPut(u->md, offset, bytes, PTL_CT_ACK_REQ, at(to), 3, 0, offset, NULL, 0);
}

/* Through the lock of another card of this process, so that its memory is seen as it left it: the
 * sanitizer does not know that two mappings are the same memory. */
LIVE_USER static void look_at(struct user *other, struct user *own) {
    ptl_sr_value_t status;
    enter(other);
    PtlNIStatus(other->ni, PTL_SR_DROP_COUNT, &status);
    enter(own);
}

/* A child that is a user by itself, until it is killed. */
LIVE_USER static pid_t serve_in_child(uint32_t pid) {
    pid_t child = fork();
    if (!child) {
        struct user u;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (user_open(&u, pid, true))
            _exit(1);
        pause();
    }
    return child;
}

/* Until the child is there and has its entry. */
LIVE_USER static void reach(struct user *u) {
    ptl_ct_event_t event;
    for (int tries = 0; tries < 5000; tries++) {
        CHECK_EQ(PtlCTSet(u->acked, (ptl_ct_event_t){0, 0}), PTL_OK);
        CHECK_EQ(put(u, 2, 0, 8), PTL_OK);
        CHECK_EQ(PtlCTWait(u->acked, 1, &event), PTL_OK);
        if (event.success)
            break;
        usleep(2000);
    }
    CHECK_EQ(event.success, 1);
    CHECK_EQ(PtlCTSet(u->acked, (ptl_ct_event_t){0, 0}), PTL_OK);
}

/* A process of pid 7 by hand, which writes to the lane of process 2 what it likes: a put of two
 * packets, unless it changes them. */
struct liar {
    struct live_box box;
    struct live_box_view view;
    struct live_ring_out out;
    struct nic_packet first, rest;
};

LIVE_USER static void liar_open(struct liar *l, uint32_t first_bytes, uint32_t rest_bytes) {
    const struct nic_address self = {1, 7}, target = {1, 2};
    CHECK_EQ(box_make(&l->box, &folder, 1, 7, &err), 0);
    CHECK(box_open(&l->view, &folder, target, 7));
    atomic_store(&l->view.lane->claim, l->box.header->life);
    atomic_fetch_or(&l->view.header->claims[0], 1ull << 7);
    box_attend(l->view.header);
    CHECK_SOON(l->view.lane->accepted == l->box.header->life, );
    l->out = (struct live_ring_out){.ring = &l->view.lane->ring};
    l->first = (struct nic_packet){.kind = NIC_DATA,
                                   .first = true,
                                   .source = self,
                                   .target = target,
                                   .bytes = first_bytes,
                                   .message = {.kind = NIC_PUT,
                                               .interface = PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL,
                                               .source = self,
                                               .target = target,
                                               .ack_req = PTL_NO_ACK_REQ,
                                               .source_rank = PTL_RANK_ANY,
                                               .target_rank = PTL_RANK_ANY,
                                               .pt_index = 3,
                                               .length = first_bytes + rest_bytes,
                                               .payload = first_bytes + rest_bytes}};
    l->rest = (struct nic_packet){.kind = NIC_DATA,
                                  .last = true,
                                  .source = self,
                                  .target = target,
                                  .offset = first_bytes,
                                  .bytes = rest_bytes};
}

/* A packet's header with so many bytes behind it, whatever it says; data may be NULL. */
LIVE_USER static void liar_write(struct liar *l, const struct nic_packet *packet, const void *data,
                                 uint32_t bytes) {
    uint8_t head[WIRE_HEADER_BYTES];
    uint64_t word;
    uint32_t header = wire_encode_head(packet, head);
    uint8_t *to = ring_reserve(&l->out, header + bytes);
    CHECK(to);
    memcpy(&word, head, sizeof word);
    memcpy(to + 8, head + 8, header - 8);
    if (data)
        memcpy(to + header, data, bytes);
    ring_commit(&l->out, header + bytes, word);
}

LIVE_USER static void liar_close(struct liar *l) {
    box_close(&l->view);
    box_free(&l->box);
}

#endif
