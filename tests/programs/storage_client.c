/* Ranks that use two cards without a program (tests/cli/cards.sh): the last rank but one adds up
 * what it is sent, the last one stores. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s returns %d\n", spin_rank(), #call, code_);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static char read_back[8];
static uint32_t number, stored[2];
static uint64_t sum;

int main(void) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_ct_event_t event;
    ptl_process_t adder = {.rank = spin_ranks() - 2}, store = {.rank = spin_ranks() - 1};
    ptl_md_t all = {.start = NULL,
                    .length = PTL_SIZE_MAX,
                    .eq_handle = PTL_EQ_NONE,
                    .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    number = 10 + spin_rank();
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlCTAlloc(ni, &ct));
    all.ct_handle = ct;
    CHECK(PtlMDBind(ni, &all, &md));
    CHECK(PtlPut(md, (ptl_size_t)&number, 4, PTL_CT_ACK_REQ, adder, 0, 1, 0, NULL, 0));
    CHECK(
        PtlPut(md, (ptl_size_t)&number, 4, PTL_CT_ACK_REQ, store, 4, 8, 4 * spin_rank(), NULL, 0));
    CHECK(PtlGet(md, (ptl_size_t)read_back, 7, store, 4, 7, 0, NULL));
    CHECK(PtlCTWait(ct, 3, &event));
    spin_barrier();
    CHECK(PtlGet(md, (ptl_size_t)&sum, sizeof sum, adder, 0, 1, 0, NULL));
    CHECK(PtlGet(md, (ptl_size_t)stored, sizeof stored, store, 4, 8, 0, NULL));
    CHECK(PtlCTWait(ct, 5, &event));
    printf("rank %u: read '%s', stored %u and %u, sum %llu\n", spin_rank(), read_back, stored[0],
           stored[1], (unsigned long long)sum);
    return event.failure != 0;
}
