/* Rank 0 puts to rank 1, before and after a child of fork has called Portals: forks CALL. */
#include <openspin.h>
#include <portals4.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static ptl_handle_ni_t ni;
static ptl_handle_ct_t acks, puts_in;
static ptl_handle_md_t md;
static ptl_pt_index_t pt;
static uint64_t word, from = 7;

static int open_ni(void) {
    const ptl_md_t own = {
        .start = &from, .length = 8, .options = PTL_MD_EVENT_CT_ACK, .eq_handle = PTL_EQ_NONE};
    ptl_handle_me_t me;
    int code = PtlInit();
    if (!code)
        code = PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, NULL,
                         NULL, &ni);
    if (!code)
        code = spin_map_ranks(ni);
    if (code || PtlCTAlloc(ni, &acks) || PtlCTAlloc(ni, &puts_in) ||
        PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &pt))
        return 1;
    ptl_md_t bound = own;
    bound.ct_handle = acks;
    const ptl_me_t entry = {.start = &word,
                            .length = 8,
                            .ct_handle = puts_in,
                            .uid = PTL_UID_ANY,
                            .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM,
                            .match_id.rank = PTL_RANK_ANY};
    return PtlMDBind(ni, &bound, &md) || PtlMEAppend(ni, pt, &entry, PTL_PRIORITY_LIST, NULL, &me);
}

static int put(void) {
    return PtlPut(md, 0, 8, PTL_CT_ACK_REQ, (ptl_process_t){.rank = 1}, pt, 0, 0, NULL, 0);
}

/* What a child does; its status is the code. */
static int in_child(const char *call) {
    ptl_ct_event_t count;
    ptl_event_t event;
    unsigned which;
    if (!strcmp(call, "put"))
        return put();
    if (!strcmp(call, "get"))
        return PtlCTGet(acks, &count);
    if (!strcmp(call, "wait"))
        return PtlCTWait(acks, 100, &count);
    if (!strcmp(call, "poll"))
        return PtlEQPoll(NULL, 0, 0, &event, &which);
    if (!strcmp(call, "init"))
        return PtlInit();
    if (!strcmp(call, "barrier"))
        return spin_barrier(), PTL_NO_INIT;
    execlp("true", "true", (char *)NULL);
    return 99;
}

int main(int argc, char **argv) {
    ptl_ct_event_t count;
    int status = -1;
    if (argc < 2 || open_ni())
        return 1;
    spin_barrier();
    for (unsigned i = 1; spin_rank() == 0 && i < 4; i++) {
        if (put() || PtlCTWait(acks, i, &count) || count.success != i)
            return 2;
        pid_t child = i < 3 ? fork() : -1;
        if (!child)
            _exit(in_child(argv[1]));
        if (child > 0 && waitpid(child, &status, 0) != child)
            return 3;
    }
    spin_barrier();
    PtlCTGet(puts_in, &count);
    if (spin_rank() == 0)
        printf("%s: %s\n", argv[1],
               WEXITSTATUS(status) ? PtlToStr(WEXITSTATUS(status), PTL_STR_ERROR) : "no error");
    else
        printf("%u puts\n", (unsigned)count.success);
    PtlFini();
    return 0;
}
