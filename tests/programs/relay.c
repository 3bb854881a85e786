/* Rank 0 sends a message along all ranks, whose handlers (tests/handlers/relay_handlers.c) send
 * each packet on, store it, change it, store that, and send it back to rank 0. Everybody checks
 * every word. Arguments: the image, the payload handler, bytes of the message. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s returns %d\n", spin_rank(), #call, code_);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

struct relay {
    uint32_t rank, ranks, half;
};

/* A packet begins with its place in the message. */
static uint32_t word_of(uint32_t i) {
    return i % 128 ? i * 2654435761u + 12345 : 4 * i;
}

static int wrong(const char *what, uint32_t at, uint32_t got, uint32_t expected) {
    printf("rank %u: %s, word %u is %u instead of %u\n", spin_rank(), what, at, got, expected);
    return 2;
}

static int append(ptl_handle_ni_t ni, ptl_pt_index_t pt, void *start, uint32_t bytes,
                  ptl_match_bits_t bits, ptl_handle_ct_t ct, ptl_me_t me) {
    ptl_handle_me_t handle;
    me.start = start;
    me.length = bytes;
    me.match_bits = bits;
    me.ct_handle = ct;
    me.uid = PTL_UID_ANY;
    me.match_id.rank = PTL_RANK_ANY;
    me.options |= PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_CT_BYTES;
    return PtlMEAppend(ni, pt, &me, PTL_PRIORITY_LIST, NULL, &handle);
}

int main(int argc, char **argv) {
    uint32_t bytes = argc > 3 ? (uint32_t)atoi(argv[3]) : 0, words = bytes / 4, me = spin_rank();
    uint32_t changes = strstr(argv[2], "read") == NULL, ranks = spin_ranks();
    uint32_t *memory = calloc(ranks + 2, bytes);
    struct relay state = {me, ranks, bytes};
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    ptl_image_h image;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlCTAlloc(ni, &ct));
    CHECK(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &pt));
    for (uint32_t i = 0; me == 0 && i < words; i++)
        memory[i] = word_of(i);
    for (uint32_t i = 0; me && i < words; i++)
        memory[2 * words + i] = 77 + me; /* what a command reads */
    for (uint32_t r = 1; me == 0 && r < ranks; r++)
        CHECK(append(ni, pt, memory + r * words, bytes, 100 + r, ct, (ptl_me_t){0}));
    if (me) {
        ptl_me_t with = {.options = PTL_ME_HANDLERS,
                         .hpu_initial_state = &state,
                         .hpu_initial_state_length = sizeof state};
        CHECK(PtlImageLoad(ni, argv[1], &image));
        CHECK(PtlImageFind(image, "relay_header_handler", &with.header_handler));
        CHECK(PtlImageFind(image, argv[2], &with.payload_handler));
        CHECK(PtlHPUAllocMem(sizeof state, ni, &with.hpu_memory));
        CHECK(append(ni, pt, memory, 3 * bytes, 1, ct, with));
    }
    ptl_md_t all = {
        .start = memory, .length = bytes, .ct_handle = PTL_CT_NONE, .eq_handle = PTL_EQ_NONE};
    CHECK(PtlMDBind(ni, &all, &md));
    spin_barrier();
    if (me == 0)
        CHECK(PtlPut(md, 0, bytes, PTL_NO_ACK_REQ, (ptl_process_t){.rank = 1}, pt, 1, 0, NULL, 0));
    CHECK(PtlCTWait(ct, me ? bytes : (ranks - 1) * bytes, &event));
    for (uint32_t i = 0; i < words; i++) {
        if (memory[i] != word_of(i))
            return wrong("as it came", i, memory[i], word_of(i));
        for (uint32_t r = me ? me : 1; r < (me ? me + 1 : ranks); r++) {
            uint32_t got = memory[(me ? 1 : r) * words + i];
            uint32_t expected = changes ? word_of(i) + r : 77 + r;
            if (got != expected)
                return wrong("changed", i, got, expected);
        }
    }
    spin_barrier();
    if (me == 0)
        printf("%u ranks have %u bytes as they were sent\n", ranks, bytes);
    return 0;
}
