/* Every rank puts its number into its right neighbour and prints what it got. With an argument, one
 * rank misbehaves: crash, call, abort, overflow, exit3, wait, return, wild; all ranks exit;
 * physical is another interface.
 */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static unsigned received = 777, own; /* globals: each rank has its own */

static int deep(int n) {
    volatile char room[512];
    room[0] = (char)n;
    return n ? deep(n - 1) + room[0] : 0;
}

static void misbehave(const char *how) {
    if (strcmp(how, "crash") == 0)
        *(volatile int *)8 = 1;
    if (strcmp(how, "abort") == 0)
        abort();
    if (strcmp(how, "leave") == 0)
        exit(7);
    if (strcmp(how, "overflow") == 0)
        printf("%d\n", deep(100000));
}

int main(int argc, char **argv) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_le_t le;
    ptl_pt_index_t pt;
    ptl_ct_event_t event;
    const char *how = argc > 1 ? argv[1] : "";
    unsigned right = (spin_rank() + 1) % spin_ranks(), mode = PTL_NI_LOGICAL;
    if (strcmp(how, "physical") == 0)
        mode = PTL_NI_PHYSICAL;
    if (PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | mode, PTL_PID_ANY, NULL, NULL, &ni))
        return 10;
    if (mode == PTL_NI_LOGICAL && spin_map_ranks(ni))
        return 11;
    if (PtlCTAlloc(ni, &ct) || PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &pt))
        return 12;
    ptl_le_t entry = {.start = &received,
                      .length = sizeof received,
                      .ct_handle = ct,
                      .uid = PTL_UID_ANY,
                      .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t memory = {
        .start = &own, .length = sizeof own, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    if (PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le) || PtlMDBind(ni, &memory, &md))
        return 13;
    if (spin_rank() == 1 && strcmp(how, "wild") == 0) {
        memory.start = (void *)16;
        if (PtlMDBind(ni, &memory, &md))
            return 16;
    }
    if (spin_rank() == 1 && strcmp(how, "call") == 0)
        return PtlMDBind(ni, (const ptl_md_t *)8, &md);
    own = 100 + spin_rank();
    spin_barrier();
    if (spin_rank() == 1)
        misbehave(how);
    if (spin_rank() && strcmp(how, "desert") == 0)
        exit((int)spin_rank());
    ptl_process_t target = {.rank = right};
    if (mode == PTL_NI_PHYSICAL)
        target = (ptl_process_t){.phys = {.nid = right, .pid = 0}};
    if (!(spin_rank() == 1 && strcmp(how, "wait") == 0) &&
        PtlPut(md, 0, sizeof own, PTL_NO_ACK_REQ, target, pt, 0, 0, NULL, 0))
        return 14;
    if (PtlCTWait(ct, 1, &event))
        return 15;
    printf("rank %u of %u: %u from the left, %s\n", spin_rank(), spin_ranks(), received,
           argc > 2 ? argv[2] : "nothing to say");
    spin_barrier();
    PtlNIFini(ni);
    PtlFini();
    if (strcmp(how, "exit") == 0)
        exit(0);
    if (strcmp(how, "exit3") == 0 && spin_rank() == 1)
        exit(3);
    return spin_rank() == 1 && strcmp(how, "return") == 0 ? 3 : 0;
}
