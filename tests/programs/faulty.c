/* Rank 0 sends messages to rank 1, whose card runs a handler on each: NAME COUNT IMAGE. With a
 * fourth argument rank 0 waits for an answer that never comes. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s: %s\n", spin_rank(), #call, PtlToStr(code_, PTL_STR_ERROR));       \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static uint8_t memory[64], sent[64];

int main(int argc, char **argv) {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_image_h image;
    ptl_handle_ct_t ct;
    ptl_handle_me_t entry;
    ptl_handle_md_t md;
    ptl_ct_event_t event;
    if (argc < 4)
        return 2;
    unsigned count = (unsigned)atoi(argv[2]);
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    CHECK(PtlCTAlloc(ni, &ct));
    if (spin_rank() == 1) {
        ptl_me_t me = {.start = memory,
                       .length = sizeof memory,
                       .ct_handle = ct,
                       .uid = PTL_UID_ANY,
                       .match_id = {.rank = PTL_RANK_ANY},
                       .match_bits = 1,
                       .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_HANDLERS};
        CHECK(PtlImageLoad(ni, argv[3], &image));
        CHECK(PtlImageFind(image, argv[1], &me.payload_handler));
        CHECK(PtlHPUAllocMem(64, ni, &me.hpu_memory));
        CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    }
    spin_barrier();
    if (spin_rank() == 0) {
        const ptl_md_t all = {.start = sent,
                              .length = sizeof sent,
                              .eq_handle = PTL_EQ_NONE,
                              .ct_handle = PTL_CT_NONE};
        CHECK(PtlMDBind(ni, &all, &md));
        for (unsigned i = 0; i < count; i++)
            CHECK(PtlPut(md, 0, sizeof sent, PTL_NO_ACK_REQ, (ptl_process_t){.rank = 1}, pt, 1, 0,
                         NULL, 0));
        if (argc > 4)
            CHECK(PtlCTWait(ct, 1, &event));
    } else if (spin_rank() == 1) {
        do /* failures end a wait too */
            CHECK(PtlCTGet(ct, &event));
        while (event.success + event.failure < count);
        printf("rank 1: %llu good, %llu bad\n", (unsigned long long)event.success,
               (unsigned long long)event.failure);
    }
    PtlNIFini(ni);
    PtlFini();
    return 0;
}
