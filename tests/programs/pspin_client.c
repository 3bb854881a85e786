/* Rank 0 sends a message of 10,000 bytes to rank 1, whose handlers are of PsPIN's interface
 * (tests/handlers/pspin_world.c), and reads what they have left. With an image as argument rank 1
 * gives its card the entry itself; else that is a card without a program, set up from outside. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("%s returns %d\n", #call, code_);                                               \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static ptl_handle_ni_t ni;
static uint64_t message[1250], back[8], left[5], memory[2048];

/* As tests/cli/cards.sh has it for the card without a program. */
static int serve(const char *path) {
    uint64_t state = 0;
    ptl_image_h image;
    ptl_handle_me_t entry;
    ptl_pt_index_t pt;
    ptl_me_t me = {.start = memory,
                   .length = sizeof memory,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = 9,
                   .options = PTL_ME_OP_PUT | PTL_ME_OP_GET | PTL_ME_HANDLERS,
                   .hpu_initial_state = &state,
                   .hpu_initial_state_length = sizeof state};
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &pt));
    CHECK(PtlImageLoad(ni, path, &image));
    CHECK(PtlImageFind(image, "world_hh", &me.header_handler));
    CHECK(PtlImageFind(image, "world_ph", &me.payload_handler));
    CHECK(PtlImageFind(image, "world_th", &me.completion_handler));
    CHECK(PtlHPUAllocMem(sizeof state, ni, &me.hpu_memory));
    CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    spin_barrier(); /* it is there */
    spin_barrier(); /* it was used */
    return 0;
}

int main(int argc, char **argv) {
    ptl_handle_ct_t ct, echoes;
    ptl_handle_md_t md;
    ptl_handle_me_t entry;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    ptl_process_t node = {.rank = 1};
    for (int i = 0; i < 1250; i++)
        message[i] = 1000 + (uint64_t)i;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    if (spin_rank() == 1)
        return serve(argv[argc - 1]);
    CHECK(PtlCTAlloc(ni, &ct));
    CHECK(PtlCTAlloc(ni, &echoes));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &pt));
    ptl_me_t me = {.start = back,
                   .length = sizeof back,
                   .ct_handle = echoes,
                   .uid = PTL_UID_ANY,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = 9,
                   .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_CT_COMM};
    CHECK(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &entry));
    ptl_md_t all = {.length = PTL_SIZE_MAX,
                    .eq_handle = PTL_EQ_NONE,
                    .ct_handle = ct,
                    .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_CT_REPLY};
    CHECK(PtlMDBind(ni, &all, &md));
    if (argc > 1)
        spin_barrier();
    CHECK(PtlPut(md, (ptl_size_t)message, 10000, PTL_CT_ACK_REQ, node, 0, 9, 0, NULL, 0));
    CHECK(PtlCTWait(ct, 1, &event));
    CHECK(event.failure ? PTL_FAIL : PTL_OK);
    CHECK(PtlCTWait(echoes, 3, &event));
    CHECK(PtlGet(md, (ptl_size_t)left, sizeof left, node, 0, 9, 0, NULL));
    CHECK(PtlCTWait(ct, 2, &event));
    uint64_t echoed = back[0] + back[1] + back[2], stored = left[2] + left[3] + left[4];
    printf("%u bytes, %u in the first packet, %u headers, %u payloads; echoed %llu, stored %llu\n",
           (unsigned)left[0], (unsigned)(left[0] >> 32), (unsigned)left[1] - 100,
           (unsigned)(left[1] >> 32) - 200, (unsigned long long)echoed, (unsigned long long)stored);
    if (argc > 1)
        spin_barrier();
    return 0;
}
