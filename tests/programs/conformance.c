/* What Portals programs rely on, a point a function. */
#include "conformance.h"

#include <openspin.h>
#include <portals4.h>

/* ---- a rank with everything that a point needs ------------------------------------------------
 */

static ptl_handle_ni_t ni;
static ptl_handle_ct_t target_ct, own_ct;
static ptl_handle_eq_t own_eq;
static ptl_handle_md_t md;
static ptl_pt_index_t pt;
static volatile uint64_t memory[512], source[512];

static ptl_process_t right(void) {
    return (ptl_process_t){.rank = (spin_rank() + 1) % spin_ranks()};
}

static int open_interface(unsigned kind, const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual) {
    EXPECT_EQ(PtlInit(), PTL_OK);
    EXPECT_EQ(
        PtlNIInit(PTL_IFACE_DEFAULT, kind | PTL_NI_LOGICAL, PTL_PID_ANY, desired, actual, &ni),
        PTL_OK);
    EXPECT_EQ(spin_map_ranks(ni), PTL_OK);
    return 0;
}

/* A counted entry over `memory`, and a descriptor over `source` with these options. */
static int open_all(unsigned md_options) {
    if (open_interface(PTL_NI_NO_MATCHING, NULL, NULL))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &target_ct), PTL_OK);
    EXPECT_EQ(PtlCTAlloc(ni, &own_ct), PTL_OK);
    EXPECT_EQ(PtlEQAlloc(ni, 64, &own_eq), PTL_OK);
    EXPECT_EQ(PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt), PTL_OK);
    const ptl_le_t entry = {.start = (void *)memory,
                            .length = sizeof memory,
                            .ct_handle = target_ct,
                            .uid = PTL_UID_ANY,
                            .options = PTL_LE_OP_PUT | PTL_LE_OP_GET | PTL_LE_EVENT_CT_COMM};
    ptl_handle_le_t le;
    EXPECT_EQ(PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le), PTL_OK);
    const ptl_md_t descriptor = {.start = (void *)source,
                                 .length = sizeof source,
                                 .options = md_options,
                                 .eq_handle = own_eq,
                                 .ct_handle = own_ct};
    EXPECT_EQ(PtlMDBind(ni, &descriptor, &md), PTL_OK);
    source[0] = 4711;
    spin_barrier();
    return 0;
}

static int put(ptl_ack_req_t ack) {
    EXPECT_EQ(PtlPut(md, 0, 8, ack, right(), pt, 0, 0, NULL, 0), PTL_OK);
    return 0;
}

/* ---- handles ----------------------------------------------------------------------------------
 */

static int handle_is_equal(void) {
    ptl_handle_ct_t other;
    EXPECT(PtlHandleIsEqual(PTL_CT_NONE, PTL_CT_NONE)); /* before PtlInit */
    EXPECT(!PtlHandleIsEqual(PTL_CT_NONE, PTL_EQ_NONE));
    if (open_all(0))
        return 1;
    EXPECT_EQ(PtlCTAlloc(ni, &other), PTL_OK);
    EXPECT(PtlHandleIsEqual(other, other));
    EXPECT(!PtlHandleIsEqual(other, own_ct));
    EXPECT(!PtlHandleIsEqual(other, PTL_INVALID_HANDLE));
    PtlFini();
    EXPECT(PtlHandleIsEqual(PTL_INVALID_HANDLE, PTL_INVALID_HANDLE));
    EXPECT(!PtlHandleIsEqual(PTL_INVALID_HANDLE, PTL_CT_NONE));
    return 0;
}

/* ---- loops that wait --------------------------------------------------------------------------
 */

/* Rank 0 starts after 3 us; everybody waits for its left neighbour's 8 bytes, then sends. */
static int wait_by(void (*look)(void)) {
    if (open_all(PTL_MD_EVENT_CT_ACK))
        return 1;
    if (spin_rank() == 0) {
        spin_compute(3000);
        if (put(PTL_NO_ACK_REQ))
            return 1;
    }
    while (memory[0] != 4711)
        look();
    EXPECT(spin_now_ps() > 3000000);
    EXPECT(spin_now_ps() < 20000000);
    if (spin_rank() != 0 && put(PTL_NO_ACK_REQ))
        return 1;
    spin_barrier();
    return 0;
}

static void look_ct_get(void) {
    ptl_ct_event_t event;
    PtlCTGet(target_ct, &event);
}
static void look_eq_get(void) {
    ptl_event_t event;
    PtlEQGet(own_eq, &event);
}
static void look_poll_nothing(void) {
    ptl_event_t event;
    unsigned which;
    PtlEQPoll(&own_eq, 1, 0, &event, &which);
}
static void look_ni_status(void) {
    ptl_sr_value_t value;
    PtlNIStatus(ni, PTL_SR_DROP_COUNT, &value);
}
static void look_get_id(void) {
    ptl_process_t id;
    PtlGetPhysId(ni, &id);
}
static void look_handles(void) {
    (void)PtlHandleIsEqual(own_ct, target_ct);
}
static void look_bad_handle(void) {
    PtlMDRelease(PTL_INVALID_HANDLE);
}
static void look_init(void) {
    PtlInit();
}
static void look_compute(void) {
    spin_compute(10);
}
static void look_compute_nothing(void) {
    spin_compute(0);
}
static void look_work(void) {
    spin_work(100, 0);
}
static void look_work_nothing(void) {
    spin_work(0, 0);
}
static void look_now(void) {
    (void)spin_now_ps();
}
static void look_nothing_to_copy(void) {
    uint64_t to;
    spin_copy(&to, &to, 0);
}

#define LOOP(name)                                                                                 \
    static int loop_##name(void) {                                                                 \
        return wait_by(look_##name);                                                               \
    }
LOOP(ct_get)
LOOP(eq_get)
LOOP(poll_nothing)
LOOP(ni_status)
LOOP(get_id)
LOOP(handles)
LOOP(bad_handle)
LOOP(init)
LOOP(compute)
LOOP(compute_nothing)
LOOP(work)
LOOP(work_nothing)
LOOP(now)
LOOP(nothing_to_copy)

/* All ranks in barriers until a message is there. */
static int loop_barrier(void) {
    if (open_all(0) || put(PTL_NO_ACK_REQ))
        return 1;
    int seen = 0;
    for (int i = 0; i < 1000; i++) {
        seen += memory[0] == 4711;
        spin_barrier();
    }
    EXPECT(seen > 0);
    return 0;
}

static const struct point points[] = {
    {"handle-is-equal", handle_is_equal},
    {"loop-ct-get", loop_ct_get},
    {"loop-eq-get", loop_eq_get},
    {"loop-poll-nothing", loop_poll_nothing},
    {"loop-ni-status", loop_ni_status},
    {"loop-get-id", loop_get_id},
    {"loop-handles", loop_handles},
    {"loop-bad-handle", loop_bad_handle},
    {"loop-init", loop_init},
    {"loop-compute", loop_compute},
    {"loop-compute-nothing", loop_compute_nothing},
    {"loop-work", loop_work},
    {"loop-work-nothing", loop_work_nothing},
    {"loop-now", loop_now},
    {"loop-nothing-to-copy", loop_nothing_to_copy},
    {"loop-barrier", loop_barrier},
    {NULL, NULL},
};

int main(int argc, char **argv) {
    return conformance(points, argc, argv);
}
