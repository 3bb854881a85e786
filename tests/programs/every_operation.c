/* Rank 0 sends one of each kind of message to rank 1, whose card also answers a put by a handler of
 * its own: for tests of what is seen from outside.
 *
 *   every_operation IMAGE [FILE]    with FILE: makes it, and goes on when it is gone */
#include <fcntl.h>
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s: %s\n", spin_rank(), #call, PtlToStr(code_, PTL_STR_ERROR));       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

enum { LONG = 6000, PLAIN = 1, ECHOED = 10, ABSENT = 99 };
static ptl_handle_ni_t ni;
static ptl_handle_ct_t done, echoed;
static ptl_pt_index_t pt;
static uint64_t memory[LONG / 8 + 1], sent[LONG / 8 + 1];
static const ptl_process_t target = {.rank = 1};

static int append(ptl_match_bits_t bits, ptl_handle_ct_t ct, const char *image_path) {
    static const uint32_t state[4];
    ptl_handle_me_t entry;
    ptl_image_h image;
    ptl_me_t me = {.start = memory,
                   .length = sizeof memory,
                   .ct_handle = ct,
                   .uid = PTL_UID_ANY,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = bits,
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_EVENT_CT_COMM,
                   .hpu_memory = PTL_INVALID_HANDLE};
    if (image_path) {
        if (PtlImageLoad(ni, image_path, &image) != PTL_OK) {
            printf("%s\n", PtlImageError());
            return 1;
        }
        CHECK(PtlImageFind(image, "pingpong_header_handler", &me.header_handler));
        CHECK(PtlImageFind(image, "pingpong_payload_handler", &me.payload_handler));
        CHECK(PtlImageFind(image, "pingpong_completion_handler", &me.completion_handler));
        CHECK(PtlHPUAllocMem(sizeof state, ni, &me.hpu_memory));
        me.hpu_initial_state = (void *)state;
        me.hpu_initial_state_length = sizeof state;
        me.options |= PTL_ME_HANDLERS;
    }
    CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    return 0;
}

static int send_all(void) {
    ptl_handle_md_t md;
    ptl_ct_event_t event;
    unsigned which;
    const ptl_size_t never = 2;
    const uint64_t compared = 5;
    const ptl_md_t all = {.start = sent,
                          .length = sizeof sent,
                          .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY,
                          .eq_handle = PTL_EQ_NONE,
                          .ct_handle = done};
    CHECK(PtlMDBind(ni, &all, &md));
    sent[0] = 5;
    CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, target, pt, PLAIN, 0, NULL, 0x1234));
    CHECK(PtlCTWait(done, 1, &event));
    CHECK(PtlPut(md, 0, LONG, PTL_CT_ACK_REQ, target, pt, PLAIN, 0, NULL, 0));
    CHECK(PtlCTWait(done, 2, &event));
    CHECK(PtlGet(md, 0, 100, target, pt, PLAIN, 0, NULL));
    CHECK(PtlCTWait(done, 3, &event));
    CHECK(
        PtlAtomic(md, 0, 8, PTL_CT_ACK_REQ, target, pt, PLAIN, 0, NULL, 0, PTL_SUM, PTL_UINT64_T));
    CHECK(PtlCTWait(done, 4, &event));
    CHECK(PtlFetchAtomic(md, 0, md, 8, 8, target, pt, PLAIN, 0, NULL, 0, PTL_MAX, PTL_INT64_T));
    CHECK(PtlCTWait(done, 5, &event));
    CHECK(PtlSwap(md, 0, md, 8, 8, target, pt, PLAIN, 0, NULL, 0, &compared, PTL_CSWAP,
                  PTL_UINT64_T));
    CHECK(PtlCTWait(done, 6, &event));
    CHECK(PtlPut(md, 0, 64, PTL_NO_ACK_REQ, target, pt, ECHOED, 0, NULL, 0));
    CHECK(PtlCTWait(echoed, 1, &event));
    /* In vain, so that there is a wait however late this process got its answers. */
    if (PtlCTPoll(&echoed, &never, 1, 1, &event, &which) != PTL_CT_NONE_REACHED)
        return 1;
    CHECK(PtlPut(md, 0, 8, PTL_CT_ACK_REQ, target, pt, ABSENT, 0, NULL, 0));
    PtlCTWait(done, 7, &event);
    return event.failure != 1;
}

static void wait_while_there(const char *path) {
    close(open(path, O_CREAT | O_WRONLY, 0600));
    while (access(path, F_OK) == 0)
        usleep(10000);
}

int main(int argc, char **argv) {
    if (argc < 2)
        return 2;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 4, &pt));
    CHECK(PtlCTAlloc(ni, &done));
    CHECK(PtlCTAlloc(ni, &echoed));
    if (append(PLAIN, echoed, NULL) || append(ECHOED, echoed, spin_rank() == 1 ? argv[1] : NULL))
        return 1;
    spin_barrier();
    int status = spin_rank() == 0 ? send_all() : 0;
    if (spin_rank() == 0 && argc > 2)
        wait_while_there(argv[2]);
    spin_barrier();
    if (spin_rank() == 0)
        printf("all operations: %s\n", status ? "failed" : "done");
    PtlNIFini(ni);
    PtlFini();
    return status;
}
