/* Every rank sends its number to rank 0, whose card adds them up (sum_handler.c).
 *   openspin cc examples/sum_handler.c -o sum.spin
 *   cc -shared -fPIC $(pkg-config --cflags portals4) examples/sum_program.c -o sum.so
 *   openspin sim run -n 16 sum.so sum.spin */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s returns %d\n", spin_rank(), #call, code_);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static ptl_handle_ni_t ni;
static ptl_pt_index_t pt;

/* Rank 0: an entry whose messages go through the handler. */
static int collect(const char *image_path) {
    uint64_t total = 0;
    struct {
        uint64_t total, left;
    } state = {.left = spin_ranks() - 1};
    ptl_handle_ct_t ct;
    ptl_image_h image;
    ptl_handle_me_t entry;
    ptl_ct_event_t event;
    ptl_me_t me = {
        .start = &total,
        .length = sizeof total,
        .uid = PTL_UID_ANY,
        .match_id = {.rank = PTL_RANK_ANY},
        .match_bits = 1,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_HANDLERS,
        .hpu_initial_state = &state,
        .hpu_initial_state_length = sizeof state,
    };
    CHECK(PtlCTAlloc(ni, &ct));
    me.ct_handle = ct;
    if (PtlImageLoad(ni, image_path, &image) != PTL_OK) {
        printf("%s\n", PtlImageError());
        return 1;
    }
    CHECK(PtlImageFind(image, "sum_payload_handler", &me.payload_handler));
    CHECK(PtlHPUAllocMem(sizeof state, ni, &me.hpu_memory));
    CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    spin_barrier(); /* now the others may send */
    uint64_t start = spin_now_ps();
    CHECK(PtlCTWait(ct, spin_ranks() - 1, &event));
    printf("the sum of 1 to %u is %llu; it took %.1f ns\n", spin_ranks() - 1,
           (unsigned long long)total, (double)(spin_now_ps() - start) / 1000);
    return 0;
}

static uint32_t number; /* not on the stack: the card reads it after PtlPut has returned */

static int contribute(void) {
    number = spin_rank();
    ptl_handle_md_t md;
    ptl_md_t memory = {.start = &number,
                       .length = sizeof number,
                       .eq_handle = PTL_EQ_NONE,
                       .ct_handle = PTL_CT_NONE};
    CHECK(PtlMDBind(ni, &memory, &md));
    spin_barrier();
    CHECK(PtlPut(md, 0, sizeof number, PTL_NO_ACK_REQ, (ptl_process_t){.rank = 0}, pt, 1, 0, NULL,
                 0));
    return 0;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        printf("usage: %s IMAGE\n", argv[0]);
        return 2;
    }
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt));
    int status = spin_rank() == 0 ? collect(argv[1]) : contribute();
    spin_barrier(); /* memory and cards stay until all is done */
    PtlNIFini(ni);
    PtlFini();
    return status;
}
