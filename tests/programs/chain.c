/* A message goes from card to card, each of which stores it and passes it on while it comes:
 *     chain IMAGE BYTES [CUT]
 * Rank 0 sends, the others look at what they have got. With CUT the second rank's card leaves
 * packets out: then the third tells that its cleanup handler has run. */
#include <string.h>

#include "need.h"

struct state {
    uint32_t rank, cut, packets, stream[64];
};

static uint8_t byte_at(uint64_t i) {
    return (uint8_t)(i * 31 + i / 251);
}

int main(int argc, char **argv) {
    uint64_t bytes = argc > 2 ? strtoull(argv[2], NULL, 10) : 100000;
    uint32_t rank = spin_rank(), ranks = spin_ranks(), cut = argc > 3 ? (uint32_t)atoi(argv[3]) : 0;
    uint8_t *memory = calloc(1, bytes + 16);
    uint32_t *told = calloc(2, sizeof *told);
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_pt_index_t pt;
    ptl_handle_me_t handle;
    ptl_image_h image;
    ptl_event_t event;
    NEED(PtlInit());
    NEED(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                   &ni));
    NEED(spin_map_ranks(ni));
    NEED(PtlEQAlloc(ni, 64, &eq));
    NEED(PtlPTAlloc(ni, 0, eq, 3, &pt));
    NEED(PtlImageLoad(ni, argv[1], &image));
    struct state state = {.rank = rank, .cut = rank == 1 ? cut : 0};
    ptl_me_t me = {.start = memory,
                   .length = bytes,
                   .ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options =
                       PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_HANDLERS | PTL_ME_CLEANUP,
                   .match_id = {.rank = PTL_RANK_ANY},
                   .match_bits = 7,
                   .hpu_initial_state = &state,
                   .hpu_initial_state_length = sizeof state,
                   .handler_host_mem_start = told,
                   .handler_host_mem_length = 8,
                   .user_hdr_length = 16,
                   /* where nothing is missing a slow machine shall not make it so */
                   .cleanup_time = cut && rank == 2 ? 20000000 : 60000000000};
    NEED(PtlImageFind(image, "chain_header_handler", &me.header_handler));
    NEED(PtlImageFind(image, "chain_payload_handler", &me.payload_handler));
    NEED(PtlImageFind(image, "chain_completion_handler", &me.completion_handler));
    NEED(PtlImageFind(image, "chain_cleanup_handler", &me.cleanup_handler));
    NEED(PtlHPUAllocMem(sizeof state, ni, &me.hpu_memory));
    NEED(PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle));
    spin_barrier();
    if (rank == 0) {
        ptl_handle_md_t md;
        for (uint64_t i = 0; i < bytes; i++)
            memory[i] = byte_at(i);
        memcpy(memory, &ranks, sizeof ranks);
        const ptl_md_t d = {memory, bytes, 0, eq, PTL_CT_NONE};
        NEED(PtlMDBind(ni, &d, &md));
        NEED(PtlPut(md, 0, bytes, PTL_ACK_REQ, (ptl_process_t){.rank = 1}, pt, 7, 0, NULL, 0));
        do
            NEED(PtlEQWait(eq, &event));
        while (event.type != PTL_EVENT_ACK);
        printf("rank 0: acknowledged\n");
    } else if (rank <= (cut ? 2 : ranks)) {
        NEED(PtlEQWait(eq, &event));
        uint64_t wrong = 0;
        for (uint64_t i = 4; i < bytes; i++)
            wrong += memory[i] != byte_at(i);
        if (rank == 2 && cut)
            printf("rank 2: cleaned up %d, more than nothing is missing %d %d, failed %d\n",
                   told[0] == 0xc1ea2u, told[1] > 0, wrong > 0,
                   event.ni_fail_type == PTL_NI_UNDELIVERABLE);
        else
            printf("rank %u: %llu bytes from rank %u, %llu wrong\n", rank,
                   (unsigned long long)event.rlength, event.initiator.rank,
                   (unsigned long long)wrong);
    }
    spin_barrier();
    PtlFini();
    return 0;
}
