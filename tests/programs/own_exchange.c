/* A program that knows nothing of openspin.h: its ranks tell each other their addresses by PMIx,
 * set their own maps, and put to their right neighbours. Each prints what it got and from which
 * node. */
#include <pmix.h>
#include <portals4.h>
#include <stdio.h>
#include <string.h>

static pmix_proc_t self;
static ptl_process_t map[64];
static unsigned ranks, received = 777, own;

static int exchange(ptl_process_t id) {
    pmix_value_t *value, mine = {.type = PMIX_BYTE_OBJECT, .data.bo = {(char *)&id, sizeof id}};
    pmix_proc_t of = self;
    if (PMIx_Put(PMIX_GLOBAL, "id", &mine) || PMIx_Commit() || PMIx_Fence(NULL, 0, NULL, 0))
        return 1;
    for (of.rank = 0; of.rank < ranks; of.rank++) {
        if (PMIx_Get(&of, "id", NULL, 0, &value))
            return 1;
        memcpy(&map[of.rank], value->data.bo.bytes, sizeof map[0]);
        PMIX_VALUE_RELEASE(value);
    }
    return 0;
}

static int count_ranks(void) {
    pmix_proc_t all = self;
    pmix_value_t *value;
    all.rank = PMIX_RANK_WILDCARD;
    if (PMIx_Init(&self, NULL, 0))
        return 1;
    memcpy(all.nspace, self.nspace, sizeof all.nspace);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &value))
        return 1;
    ranks = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    return ranks > 64;
}

int main(void) {
    ptl_handle_ni_t ni;
    ptl_handle_ct_t ct;
    ptl_handle_md_t md;
    ptl_handle_le_t le;
    ptl_pt_index_t pt;
    ptl_process_t id;
    ptl_ct_event_t event;
    if (count_ranks() || PtlInit() ||
        PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                  &ni) ||
        PtlGetPhysId(ni, &id) || exchange(id) || PtlSetMap(ni, (ptl_size_t)ranks, map))
        return 10;
    if (PtlCTAlloc(ni, &ct) || PtlPTAlloc(ni, 0, PTL_EQ_NONE, 4, &pt))
        return 11;
    ptl_le_t entry = {.start = &received,
                      .length = sizeof received,
                      .ct_handle = ct,
                      .uid = PTL_UID_ANY,
                      .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM};
    ptl_md_t memory = {
        .start = &own, .length = sizeof own, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    if (PtlLEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &le) || PtlMDBind(ni, &memory, &md) ||
        PMIx_Fence(NULL, 0, NULL, 0))
        return 12;
    own = 100 + self.rank;
    ptl_process_t right = {.rank = (self.rank + 1) % ranks};
    if (PtlPut(md, 0, sizeof own, PTL_NO_ACK_REQ, right, pt, 0, 0, NULL, 0) ||
        PtlCTWait(ct, 1, &event) || event.failure)
        return 13;
    printf("rank %u of %u on node %u: %u from the left\n", self.rank, ranks, id.phys.nid, received);
    fflush(stdout);
    return PMIx_Fence(NULL, 0, NULL, 0) || PMIx_Finalize(NULL, 0) || PtlNIFini(ni);
}
