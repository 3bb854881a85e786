/* A window over memory that nobody has touched, and that goes away while a peer sends:
 *   cc examples/unpinned_program.c -o unpinned $(pkg-config --cflags --libs portals4)
 *   OPENSPIN_PAGING=on openspin launch -n 2 ./unpinned
 * Rank 1 has a window of 1 GiB, rank 0 puts 1 MiB to each of four places of it. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define WINDOW (1ull << 30)
#define PUT    (1ull << 20)
#define PUTS   4u

#define CHECK(call)                                                                                \
    do {                                                                                           \
        int code_ = (call);                                                                        \
        if (code_ != PTL_OK) {                                                                     \
            printf("rank %u: %s returns %d\n", spin_rank(), #call, code_);                         \
            return 1;                                                                              \
        }                                                                                          \
    } while (0)

static ptl_handle_ni_t ni;
static ptl_handle_eq_t eq;

static uint64_t in_memory(void *window) {
    unsigned char *is = malloc(WINDOW / 4096);
    uint64_t pages = 0;
    if (is && mincore(window, WINDOW, is) == 0)
        for (uint64_t i = 0; i < WINDOW / 4096; i++)
            pages += is[i] & 1;
    free(is);
    return pages * 4096;
}

/* Rank 1: the window is neither touched nor locked. */
static int offer(void) {
    uint8_t *window = mmap(NULL, WINDOW, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    const ptl_le_t le = {.start = window,
                         .length = WINDOW,
                         .ct_handle = PTL_CT_NONE,
                         .uid = PTL_UID_ANY,
                         .options = PTL_LE_OP_PUT | PTL_LE_EVENT_LINK_DISABLE};
    ptl_handle_le_t handle;
    ptl_event_t event;
    if (window == MAP_FAILED)
        return 1;
    CHECK(PtlLEAppend(ni, 0, &le, PTL_PRIORITY_LIST, NULL, &handle));
    spin_barrier();
    for (uint32_t i = 0; i < PUTS; i++)
        CHECK(PtlEQWait(eq, &event));
    printf("%llu of %llu MiB of the window are in memory\n",
           (unsigned long long)in_memory(window) >> 20, WINDOW >> 20);
    fflush(stdout);
    munmap(window, WINDOW);
    spin_barrier();
    CHECK(PtlEQWait(eq, &event));
    printf("rank 1, whose window is gone: %s\n",
           PtlToStr((int)event.ni_fail_type, PTL_STR_FAIL_TYPE));
    return 0;
}

/* Rank 0. */
static int use(void) {
    const ptl_process_t target = {.rank = 1};
    ptl_handle_md_t md;
    ptl_event_t event;
    ptl_md_t from = {.start = malloc(PUT),
                     .length = PUT,
                     .options = PTL_MD_EVENT_SEND_DISABLE,
                     .eq_handle = eq,
                     .ct_handle = PTL_CT_NONE};
    memset(from.start, 1, PUT);
    CHECK(PtlMDBind(ni, &from, &md));
    spin_barrier();
    for (uint32_t i = 0; i < PUTS; i++) {
        CHECK(PtlPut(md, 0, PUT, PTL_ACK_REQ, target, 0, 0, i * (WINDOW / PUTS), NULL, 0));
        CHECK(PtlEQWait(eq, &event));
    }
    spin_barrier(); /* rank 1 has unmapped its window */
    CHECK(PtlPut(md, 0, PUT, PTL_ACK_REQ, target, 0, 0, 0, NULL, 0));
    do
        CHECK(PtlEQWait(eq, &event));
    while (event.type != PTL_EVENT_ACK);
    printf("rank 0, who puts there: %s\n", PtlToStr((int)event.ni_fail_type, PTL_STR_FAIL_TYPE));
    return 0;
}

int main(void) {
    ptl_pt_index_t pt;
    CHECK(PtlInit());
    CHECK(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL, NULL,
                    &ni));
    CHECK(spin_map_ranks(ni));
    CHECK(PtlEQAlloc(ni, 64, &eq));
    CHECK(PtlPTAlloc(ni, 0, eq, 0, &pt));
    int status = spin_rank() ? offer() : use();
    spin_barrier();
    PtlNIFini(ni);
    PtlFini();
    return status;
}
