/* Two worlds at once, on two threads: they share nothing. For the thread sanitizer, which is told
 * of every switch of fibres. */
#include "lib/test.h"

#include <pthread.h>

#include "openspin.h"
#include "portals4.h"

enum { RANKS = 6, ROUNDS = 20 };

struct ring {
    uint32_t token[RANKS];
    uint64_t finish_ps;
    int failed;
};

/* A token goes round the ring, each rank adding its number. */
static int pass_on(void *argument) {
    struct ring *ring = argument;
    uint32_t me = spin_rank(), *token = &ring->token[me];
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_le_t handle;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                  &ni) ||
        spin_map_ranks(ni) || PtlCTAlloc(ni, &ct) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 1;
    ptl_le_t le = {.start = token,
                   .length = 4,
                   .ct_handle = ct,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t memory = {
        .start = token, .length = 4, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    if (PtlLEAppend(ni, pt, &le, PTL_PRIORITY_LIST, NULL, &handle) || PtlMDBind(ni, &memory, &md))
        return 2;
    spin_barrier();
    for (uint32_t i = 0; i < ROUNDS; i++) {
        if ((me || i) && PtlCTWait(ct, me ? i + 1 : i, &event))
            return 3;
        *token += me;
        spin_compute(10);
        if (PtlPut(md, 0, 4, PTL_NO_ACK_REQ, (ptl_process_t){.rank = (me + 1) % RANKS}, pt, 0, 0,
                   NULL, 0))
            return 4;
    }
    if (!me && PtlCTWait(ct, ROUNDS, &event))
        return 5;
    spin_barrier();
    PtlNIFini(ni);
    PtlFini();
    return 0;
}

static void *run_world(void *argument) {
    struct ring *ring = argument;
    struct spin_world_options o = {.ranks = RANKS, .preset = "sc17-dis"};
    struct spin_world *w;
    ring->failed = 1;
    if (spin_world_new(&w, &o, NULL))
        return NULL;
    if (spin_world_run(w, pass_on, ring, NULL) == SPIN_OK) {
        struct spin_world_result r = spin_world_result(w);
        ring->failed = (int)r.failed;
        ring->finish_ps = r.makespan_ps;
    }
    spin_world_free(w);
    return NULL;
}

TEST(two_worlds_on_two_threads) {
    struct ring rings[2] = {0};
    pthread_t thread[2];
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_create(&thread[i], NULL, run_world, &rings[i]), 0);
    for (int i = 0; i < 2; i++)
        CHECK_EQ(pthread_join(thread[i], NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(rings[i].failed, 0);
        CHECK_EQ(rings[i].token[0], ROUNDS * RANKS * (RANKS - 1) / 2);
    }
    CHECK_EQ(rings[0].finish_ps, rings[1].finish_ps);
}

TEST_MAIN
