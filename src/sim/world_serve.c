/* Calls of ranks that are processes. Their arguments are words, in the order of the call's own
 * (portals/channel_calls.c); what these point to is copied from the process before the call and
 * back after it. The call itself is the one that ranks on fibres make, so it takes the same time.
 */
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

#include "sim/world_libc.h"
#include "sim/world_process.h"
#include "sim/world_pthread.h"

#define MOST_ITEMS (1u << 20) /* of an array of a program's */

/* ---- memory ---- */

bool world_process_read(struct world_process *p, void *to, uint64_t from, uint64_t bytes) {
    struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)from, bytes};
    return !bytes ||
           process_vm_readv(atomic_load(&p->shared->pid), &here, 1, &there, 1, 0) == (ssize_t)bytes;
}

bool world_process_write(struct world_process *p, uint64_t to, const void *from, uint64_t bytes) {
    struct iovec here = {(void *)(uintptr_t)from, bytes}, there = {(void *)(uintptr_t)to, bytes};
    return !bytes || process_vm_writev(atomic_load(&p->shared->pid), &here, 1, &there, 1, 0) ==
                         (ssize_t)bytes;
}

/* A call under way. */
struct served {
    struct world_process *p;
    struct channel_slot *slot;
    const uint64_t *word;
    void *array[3]; /* freed at its end */
    int arrays;
};

static void not_there(struct served *s, uint64_t address, bool writes) {
    if (s->slot->fault)
        return;
    s->slot->fault = address;
    s->slot->fault_writes = writes;
}

static bool is_good(const struct served *s) {
    return !s->slot->fault;
}

/* What argument i points to, in `here`; NULL: it is NULL. */
static void *in(struct served *s, int i, void *here, uint64_t bytes) {
    if (!s->word[i])
        return NULL;
    if (!world_process_read(s->p, here, s->word[i], bytes))
        not_there(s, s->word[i], false);
    return here;
}

/* Where a result stands before it goes to where argument i points to. */
static void *place(const struct served *s, int i, void *here) {
    return s->word[i] ? here : NULL;
}

static void out(struct served *s, int i, const void *from, uint64_t bytes) {
    if (s->word[i] && !world_process_write(s->p, s->word[i], from, bytes))
        not_there(s, s->word[i], true);
}

/* The result of a call that has gone well. */
static int give(struct served *s, int code, int i, const void *from, uint64_t bytes) {
    if (code == PTL_OK)
        out(s, i, from, bytes);
    return code;
}

/* An array of the program's, until the call ends; NULL: there is none, or not so many. */
static void *array(struct served *s, uint64_t address, uint64_t count, uint64_t bytes) {
    if (!address || count > MOST_ITEMS)
        return NULL;
    void *copy = calloc(count ? count : 1, bytes);
    s->array[s->arrays++] = copy;
    if (copy && !world_process_read(s->p, copy, address, count * bytes))
        not_there(s, address, false);
    return copy;
}

/* Up to the 0; "" if it is too long. */
static const char *string(struct served *s, int i, char *here, size_t room) {
    enum { PAGE = 4096 };
    uint64_t at = s->word[i];
    if (!at)
        return NULL;
    for (size_t have = 0; have < room;) {
        size_t piece = PAGE - (at + have) % PAGE;
        piece = piece < room - have ? piece : room - have;
        if (!world_process_read(s->p, here + have, at + have, piece)) {
            not_there(s, at + have, false);
            break;
        }
        if (memchr(here + have, 0, piece))
            return here;
        have += piece;
    }
    here[0] = 0;
    return here;
}

static ptl_process_t process_of(uint64_t word) {
    ptl_process_t process;
    memcpy(&process, &word, sizeof process);
    return process;
}

static ptl_ct_event_t count_of(const uint64_t *word) {
    return (ptl_ct_event_t){word[0], word[1]};
}

static void *pointer(uint64_t word) {
    return (void *)(uintptr_t)word;
}

/* ---- interfaces, descriptors, lists ---- */

static int ni_init(struct served *s, uint64_t limits_bytes) {
    const uint64_t *w = s->word;
    ptl_ni_limits_t desired = {0}, actual;
    ptl_handle_ni_t handle;
    const ptl_ni_limits_t *asked = in(s, 3, &desired, limits_bytes);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlNIInit((ptl_interface_t)w[0], (unsigned)w[1], (ptl_pid_t)w[2], asked, &actual,
                         place(s, 5, &handle));
    if (code == PTL_OK)
        out(s, 4, &actual, limits_bytes);
    return give(s, code, 5, &handle, sizeof handle);
}

static int set_map(struct served *s) {
    const uint64_t *w = s->word;
    ptl_process_t *map = array(s, w[2], w[1], sizeof *map);
    return is_good(s) ? PtlSetMap((ptl_handle_ni_t)w[0], w[1], map) : PTL_ARG_INVALID;
}

static int get_map(struct served *s) {
    const uint64_t *w = s->word;
    ptl_size_t actual = 0;
    ptl_process_t *map = array(s, w[2], w[1], sizeof *map);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlGetMap((ptl_handle_ni_t)w[0], w[1], map, place(s, 3, &actual));
    if (code == PTL_OK && map)
        out(s, 2, map, w[1] * sizeof *map);
    return give(s, code, 3, &actual, sizeof actual);
}

/* What the program calls an array of pieces of its memory; `count` of them. */
static void *pieces(struct served *s, void *start, uint64_t count, unsigned is_iovec) {
    return is_iovec ? array(s, (uintptr_t)start, count, sizeof(ptl_iovec_t)) : start;
}

static int md_bind(struct served *s) {
    ptl_md_t own, *md = in(s, 1, &own, sizeof own);
    ptl_handle_md_t handle;
    if (md && is_good(s))
        md->start = pieces(s, md->start, md->length, md->options & PTL_IOVEC);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlMDBind((ptl_handle_ni_t)s->word[0], md, place(s, 2, &handle));
    return give(s, code, 2, &handle, sizeof handle);
}

static ptl_le_t *take_le(struct served *s, int i, ptl_le_t *own) {
    ptl_le_t *le = in(s, i, own, sizeof *own);
    if (le && is_good(s))
        le->start = pieces(s, le->start, le->length, le->options & PTL_IOVEC);
    return le;
}

/* What follows min_free is there only with PTL_ME_HANDLERS, and the end only with PTL_ME_CLEANUP.
 */
static ptl_me_t *take_me(struct served *s, int i, ptl_me_t *own) {
    *own = (ptl_me_t){0};
    ptl_me_t *me = in(s, i, own, offsetof(ptl_me_t, header_handler));
    if (me && me->options & PTL_ME_HANDLERS) {
        in(s, i, own,
           me->options & PTL_ME_CLEANUP ? sizeof *own : offsetof(ptl_me_t, cleanup_handler));
        if (is_good(s) && me->hpu_initial_state)
            me->hpu_initial_state =
                array(s, (uintptr_t)me->hpu_initial_state, me->hpu_initial_state_length, 1);
        if (is_good(s))
            me->handler_host_mem_start =
                pieces(s, me->handler_host_mem_start, me->handler_host_mem_length,
                       me->options & PTL_ME_HANDLER_IOVEC);
    }
    if (me && is_good(s))
        me->start = pieces(s, me->start, me->length, me->options & PTL_IOVEC);
    return me;
}

static int le_append(struct served *s) {
    const uint64_t *w = s->word;
    ptl_handle_le_t handle;
    ptl_le_t own;
    const ptl_le_t *le = take_le(s, 2, &own);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlLEAppend((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1], le, (ptl_list_t)w[3],
                           pointer(w[4]), place(s, 5, &handle));
    return give(s, code, 5, &handle, sizeof handle);
}

static int le_search(struct served *s) {
    const uint64_t *w = s->word;
    ptl_le_t own;
    const ptl_le_t *le = take_le(s, 2, &own);
    return is_good(s) ? PtlLESearch((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1], le,
                                    (ptl_search_op_t)w[3], pointer(w[4]))
                      : PTL_ARG_INVALID;
}

static int me_append(struct served *s, bool triggered) {
    const uint64_t *w = s->word;
    ptl_handle_me_t handle;
    ptl_me_t own, *me = take_me(s, 2, &own);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = triggered ? PtlTriggeredMEAppend((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1], me,
                                                (ptl_list_t)w[3], pointer(w[4]),
                                                place(s, 5, &handle), (ptl_handle_ct_t)w[6], w[7])
                         : PtlMEAppend((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1], me,
                                       (ptl_list_t)w[3], pointer(w[4]), place(s, 5, &handle));
    return give(s, code, 5, &handle, sizeof handle);
}

static int me_search(struct served *s) {
    const uint64_t *w = s->word;
    ptl_me_t own;
    const ptl_me_t *me = take_me(s, 2, &own);
    return is_good(s) ? PtlMESearch((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1], me,
                                    (ptl_search_op_t)w[3], pointer(w[4]))
                      : PTL_ARG_INVALID;
}

/* ---- images ---- */

/* A path as the process means it, which may have changed its folder. */
static const char *absolute(const struct served *s, const char *path, char *text, size_t room) {
    char link[32], folder[PATH_MAX];
    struct stat there, here;
    snprintf(link, sizeof link, "/proc/%d/cwd", (int)atomic_load(&s->p->shared->pid));
    if (path[0] == '/' || stat(link, &there) || stat(".", &here) ||
        (there.st_ino == here.st_ino && there.st_dev == here.st_dev))
        return path;
    ssize_t length = readlink(link, folder, sizeof folder - 1);
    if (length < 0 || snprintf(text, room, "%.*s/%s", (int)length, folder, path) >= (int)room)
        return path;
    return text;
}

static int image_load(struct served *s) {
    char path[PATH_MAX], text[2 * PATH_MAX];
    ptl_image_h image;
    const char *name = string(s, 1, path, sizeof path);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code =
        PtlImageLoad((ptl_handle_ni_t)s->word[0],
                     name ? absolute(s, name, text, sizeof text) : NULL, place(s, 2, &image));
    return give(s, code, 2, &image, sizeof image);
}

static int image_parse(struct served *s) {
    const uint64_t *w = s->word;
    char text[PATH_MAX];
    ptl_image_h image;
    const char *name = string(s, 1, text, sizeof text);
    const void *bytes = w[3] < UINT32_MAX ? array(s, w[2], 1, w[3] ? w[3] : 1) : NULL;
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlImageParse((ptl_handle_ni_t)w[0], name, bytes, w[3], place(s, 4, &image));
    return give(s, code, 4, &image, sizeof image);
}

static int image_find(struct served *s) {
    char text[1024];
    ptl_handler_t handler;
    const char *name = string(s, 1, text, sizeof text);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlImageFind(pointer(s->word[0]), name, place(s, 2, &handler));
    return give(s, code, 2, &handler, sizeof handler);
}

static int hpu_free(struct served *s) {
    ptl_hpu_md_h own, *handle = in(s, 0, &own, sizeof own);
    return is_good(s) ? give(s, PtlHPUFreeMem(handle), 0, &own, sizeof own) : PTL_ARG_INVALID;
}

/* ---- events and counters ---- */

/* An event comes with two codes. */
static int give_event(struct served *s, int code, int i, const ptl_event_t *event) {
    if (code == PTL_OK || code == PTL_EQ_DROPPED)
        out(s, i, event, sizeof *event);
    return code;
}

static int eq_poll(struct served *s) {
    const uint64_t *w = s->word;
    ptl_event_t event;
    unsigned which;
    const ptl_handle_eq_t *handles = array(s, w[0], w[1], sizeof *handles);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlEQPoll(handles, (unsigned)w[1], (ptl_time_t)w[2], place(s, 3, &event),
                         place(s, 4, &which));
    if (code == PTL_OK || code == PTL_EQ_DROPPED)
        out(s, 4, &which, sizeof which);
    return give_event(s, code, 3, &event);
}

static int ct_poll(struct served *s) {
    const uint64_t *w = s->word;
    ptl_ct_event_t event;
    unsigned which;
    const ptl_handle_ct_t *handles = array(s, w[0], w[2], sizeof *handles);
    const ptl_size_t *tests = array(s, w[1], w[2], sizeof *tests);
    if (!is_good(s))
        return PTL_ARG_INVALID;
    int code = PtlCTPoll(handles, tests, (unsigned)w[2], (ptl_time_t)w[3], place(s, 4, &event),
                         place(s, 5, &which));
    if (code == PTL_OK)
        out(s, 5, &which, sizeof which);
    return give(s, code, 4, &event, sizeof event);
}

/* ---- data movement ---- */

static int swap(struct served *s, bool triggered) {
    const uint64_t *w = s->word;
    uint8_t operand[32] = {0};
    const void *at = NULL;
    if (w[12] > PTL_SWAP) /* else it is not looked at */
        at = in(s, 11, operand, portals_item_bytes((uint8_t)w[13]));
    if (!is_good(s))
        return PTL_ARG_INVALID;
    return triggered ? PtlTriggeredSwap((ptl_handle_md_t)w[0], w[1], (ptl_handle_md_t)w[2], w[3],
                                        w[4], process_of(w[5]), (ptl_pt_index_t)w[6], w[7], w[8],
                                        pointer(w[9]), w[10], at, (ptl_op_t)w[12],
                                        (ptl_datatype_t)w[13], (ptl_handle_ct_t)w[14], w[15])
                     : PtlSwap((ptl_handle_md_t)w[0], w[1], (ptl_handle_md_t)w[2], w[3], w[4],
                               process_of(w[5]), (ptl_pt_index_t)w[6], w[7], w[8], pointer(w[9]),
                               w[10], at, (ptl_op_t)w[12], (ptl_datatype_t)w[13]);
}

static int move(const uint64_t *w, uint32_t call) {
    switch (call) {
    case PORTALS_CALL_PtlPut:
        return PtlPut((ptl_handle_md_t)w[0], w[1], w[2], (ptl_ack_req_t)w[3], process_of(w[4]),
                      (ptl_pt_index_t)w[5], w[6], w[7], pointer(w[8]), w[9]);
    case PORTALS_CALL_PtlGet:
        return PtlGet((ptl_handle_md_t)w[0], w[1], w[2], process_of(w[3]), (ptl_pt_index_t)w[4],
                      w[5], w[6], pointer(w[7]));
    case PORTALS_CALL_PtlAtomic:
        return PtlAtomic((ptl_handle_md_t)w[0], w[1], w[2], (ptl_ack_req_t)w[3], process_of(w[4]),
                         (ptl_pt_index_t)w[5], w[6], w[7], pointer(w[8]), w[9], (ptl_op_t)w[10],
                         (ptl_datatype_t)w[11]);
    case PORTALS_CALL_PtlFetchAtomic:
        return PtlFetchAtomic((ptl_handle_md_t)w[0], w[1], (ptl_handle_md_t)w[2], w[3], w[4],
                              process_of(w[5]), (ptl_pt_index_t)w[6], w[7], w[8], pointer(w[9]),
                              w[10], (ptl_op_t)w[11], (ptl_datatype_t)w[12]);
    case PORTALS_CALL_PtlTriggeredPut:
        return PtlTriggeredPut((ptl_handle_md_t)w[0], w[1], w[2], (ptl_ack_req_t)w[3],
                               process_of(w[4]), (ptl_pt_index_t)w[5], w[6], w[7], pointer(w[8]),
                               w[9], (ptl_handle_ct_t)w[10], w[11]);
    case PORTALS_CALL_PtlTriggeredGet:
        return PtlTriggeredGet((ptl_handle_md_t)w[0], w[1], w[2], process_of(w[3]),
                               (ptl_pt_index_t)w[4], w[5], w[6], pointer(w[7]),
                               (ptl_handle_ct_t)w[8], w[9]);
    case PORTALS_CALL_PtlTriggeredAtomic:
        return PtlTriggeredAtomic((ptl_handle_md_t)w[0], w[1], w[2], (ptl_ack_req_t)w[3],
                                  process_of(w[4]), (ptl_pt_index_t)w[5], w[6], w[7], pointer(w[8]),
                                  w[9], (ptl_op_t)w[10], (ptl_datatype_t)w[11],
                                  (ptl_handle_ct_t)w[12], w[13]);
    default:
        return PtlTriggeredFetchAtomic((ptl_handle_md_t)w[0], w[1], (ptl_handle_md_t)w[2], w[3],
                                       w[4], process_of(w[5]), (ptl_pt_index_t)w[6], w[7], w[8],
                                       pointer(w[9]), w[10], (ptl_op_t)w[11], (ptl_datatype_t)w[12],
                                       (ptl_handle_ct_t)w[13], w[14]);
    }
}

/* ---- all of them ---- */

/* Calls with numbers alone. */
static int plain(const uint64_t *w, uint32_t call) {
    switch (call) {
    case PORTALS_CALL_PtlInit:
        return PtlInit();
    case PORTALS_CALL_PtlFini:
        PtlFini();
        return PTL_OK;
    case PORTALS_CALL_PtlNIFini:
        return PtlNIFini((ptl_handle_ni_t)w[0]);
    case PORTALS_CALL_PtlPTFree:
        return PtlPTFree((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1]);
    case PORTALS_CALL_PtlPTDisable:
        return PtlPTDisable((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1]);
    case PORTALS_CALL_PtlPTEnable:
        return PtlPTEnable((ptl_handle_ni_t)w[0], (ptl_pt_index_t)w[1]);
    case PORTALS_CALL_PtlMDRelease:
        return PtlMDRelease((ptl_handle_md_t)w[0]);
    case PORTALS_CALL_PtlLEUnlink:
        return PtlLEUnlink((ptl_handle_le_t)w[0]);
    case PORTALS_CALL_PtlMEUnlink:
        return PtlMEUnlink((ptl_handle_me_t)w[0]);
    case PORTALS_CALL_PtlEQFree:
        return PtlEQFree((ptl_handle_eq_t)w[0]);
    case PORTALS_CALL_PtlCTFree:
        return PtlCTFree((ptl_handle_ct_t)w[0]);
    case PORTALS_CALL_PtlCTCancelTriggered:
        return PtlCTCancelTriggered((ptl_handle_ct_t)w[0]);
    case PORTALS_CALL_PtlCTSet:
        return PtlCTSet((ptl_handle_ct_t)w[0], count_of(w + 1));
    case PORTALS_CALL_PtlCTInc:
        return PtlCTInc((ptl_handle_ct_t)w[0], count_of(w + 1));
    case PORTALS_CALL_PtlTriggeredCTInc:
        return PtlTriggeredCTInc((ptl_handle_ct_t)w[0], count_of(w + 1), (ptl_handle_ct_t)w[3],
                                 w[4]);
    case PORTALS_CALL_PtlTriggeredCTSet:
        return PtlTriggeredCTSet((ptl_handle_ct_t)w[0], count_of(w + 1), (ptl_handle_ct_t)w[3],
                                 w[4]);
    case PORTALS_CALL_PtlTriggeredMEUnlink:
        return PtlTriggeredMEUnlink((ptl_handle_me_t)w[0], (ptl_handle_ct_t)w[1], w[2]);
    case PORTALS_CALL_PtlStartBundle:
        return PtlStartBundle((ptl_handle_ni_t)w[0]);
    case PORTALS_CALL_PtlEndBundle:
        return PtlEndBundle((ptl_handle_ni_t)w[0]);
    case PORTALS_CALL_PtlHandleIsEqual:
        return PtlHandleIsEqual((ptl_handle_any_t)w[0], (ptl_handle_any_t)w[1]);
    case PORTALS_CALL_PtlAtomicSync:
        return PtlAtomicSync();
    case PORTALS_CALL_PtlImageUnload:
        return PtlImageUnload(pointer(w[0]));
    default:
        return move(w, call);
    }
}

/* Calls of openspin.h and of the C library. */
static int other(struct served *s, uint32_t call) {
    const uint64_t *w = s->word;
    struct channel_slot *slot = s->slot;
    struct timespec time;
    switch (call) {
    case CHANNEL_NOW:
        slot->back[0] = spin_now_ps();
        return 0;
    case CHANNEL_COMPUTE:
        spin_compute_ps(w[0]);
        return 0;
    case CHANNEL_WORK:
        spin_work(w[0], w[1]);
        return 0;
    case CHANNEL_BARRIER:
        spin_barrier();
        return 0;
    case CHANNEL_MEMORY: /* the process has done its part */
        return world_use_memory(world_current(), (enum portals_memory)w[0], pointer(w[1]), w[2]);
    case CHANNEL_MAP:
        return spin_map_ranks((uint32_t)w[0]);
    case CHANNEL_NI_INIT_41:
        return ni_init(s, offsetof(ptl_ni_limits_t, max_user_hdr_size));
    case CHANNEL_CLOCK:
        world_clock_read((clockid_t)w[0], &time);
        slot->back[0] = (uint64_t)time.tv_sec;
        slot->back[1] = (uint64_t)time.tv_nsec;
        return 0;
    case CHANNEL_SLEEP:
        time = (struct timespec){(time_t)w[2], (long)w[3]};
        return world_clock_sleep((clockid_t)w[0], (int)w[1], &time);
    case CHANNEL_WAIT:
        time = (struct timespec){(time_t)w[2], (long)w[3]};
        world_wait_on(world_current(), pointer(w[0]), "a wait with a time limit",
                      world_time_ps((clockid_t)w[1], &time));
        return 0;
    case CHANNEL_WAKE:
        if (world_wake_first(s->p->rank, pointer(w[0])))
            return 0;
        world_pause(world_current(), 0); /* its call is on the way */
        return 1;
    case CHANNEL_THREAD_BEGIN:
        return 0;
    default:
        return PTL_ARG_INVALID;
    }
}

/* Results that are one handle or one number, at the pointer that is the call's last argument. */
#define GIVE(type, i, call)                                                                        \
    {                                                                                              \
        type value;                                                                                \
        void *to = place(s, i, &value);                                                            \
        return give(s, call, i, &value, sizeof value);                                             \
    }

static int perform(struct served *s, uint32_t call) {
    const uint64_t *w = s->word;
    ptl_event_t event;
    switch (call) {
    case PORTALS_CALL_PtlNIInit:
        return ni_init(s, sizeof(ptl_ni_limits_t));
    case PORTALS_CALL_PtlNIStatus:
        GIVE(ptl_sr_value_t, 2, PtlNIStatus((ptl_handle_ni_t)w[0], (ptl_sr_index_t)w[1], to))
    case PORTALS_CALL_PtlNIHandle:
        GIVE(ptl_handle_ni_t, 1, PtlNIHandle((ptl_handle_any_t)w[0], to))
    case PORTALS_CALL_PtlSetMap:
        return set_map(s);
    case PORTALS_CALL_PtlGetMap:
        return get_map(s);
    case PORTALS_CALL_PtlGetUid:
        GIVE(ptl_uid_t, 1, PtlGetUid((ptl_handle_ni_t)w[0], to))
    case PORTALS_CALL_PtlGetId:
        GIVE(ptl_process_t, 1, PtlGetId((ptl_handle_ni_t)w[0], to))
    case PORTALS_CALL_PtlGetPhysId:
        GIVE(ptl_process_t, 1, PtlGetPhysId((ptl_handle_ni_t)w[0], to))
    case PORTALS_CALL_PtlPTAlloc:
        GIVE(ptl_pt_index_t, 4,
             PtlPTAlloc((ptl_handle_ni_t)w[0], (unsigned)w[1], (ptl_handle_eq_t)w[2],
                        (ptl_pt_index_t)w[3], to))
    case PORTALS_CALL_PtlMDBind:
        return md_bind(s);
    case PORTALS_CALL_PtlLEAppend:
        return le_append(s);
    case PORTALS_CALL_PtlLESearch:
        return le_search(s);
    case PORTALS_CALL_PtlMEAppend:
        return me_append(s, false);
    case PORTALS_CALL_PtlTriggeredMEAppend:
        return me_append(s, true);
    case PORTALS_CALL_PtlMESearch:
        return me_search(s);
    case PORTALS_CALL_PtlEQAlloc:
        GIVE(ptl_handle_eq_t, 2, PtlEQAlloc((ptl_handle_ni_t)w[0], w[1], to))
    case PORTALS_CALL_PtlEQGet:
        return give_event(s, PtlEQGet((ptl_handle_eq_t)w[0], place(s, 1, &event)), 1, &event);
    case PORTALS_CALL_PtlEQWait:
        return give_event(s, PtlEQWait((ptl_handle_eq_t)w[0], place(s, 1, &event)), 1, &event);
    case PORTALS_CALL_PtlEQPoll:
        return eq_poll(s);
    case PORTALS_CALL_PtlCTAlloc:
        GIVE(ptl_handle_ct_t, 1, PtlCTAlloc((ptl_handle_ni_t)w[0], to))
    case PORTALS_CALL_PtlCTGet:
        GIVE(ptl_ct_event_t, 1, PtlCTGet((ptl_handle_ct_t)w[0], to))
    case PORTALS_CALL_PtlCTWait:
        GIVE(ptl_ct_event_t, 2, PtlCTWait((ptl_handle_ct_t)w[0], w[1], to))
    case PORTALS_CALL_PtlCTPoll:
        return ct_poll(s);
    case PORTALS_CALL_PtlSwap:
        return swap(s, false);
    case PORTALS_CALL_PtlTriggeredSwap:
        return swap(s, true);
    case PORTALS_CALL_PtlHPULimits:
        GIVE(ptl_hpu_limits_t, 1, PtlHPULimits((ptl_handle_ni_t)w[0], to))
    case PORTALS_CALL_PtlHPUAllocMem:
        GIVE(ptl_hpu_md_h, 2, PtlHPUAllocMem(w[0], (ptl_handle_ni_t)w[1], to))
    case PORTALS_CALL_PtlHPUFreeMem:
        return hpu_free(s);
    case PORTALS_CALL_PtlImageLoad:
        return image_load(s);
    case PORTALS_CALL_PtlImageParse:
        return image_parse(s);
    case PORTALS_CALL_PtlImageFind:
        return image_find(s);
    case PORTALS_CALL_PtlImageError:
        snprintf(s->slot->text, sizeof s->slot->text, "%s", PtlImageError());
        return PTL_OK;
    default:
        return call < PORTALS_CALL_COUNT ? plain(w, call) : other(s, call);
    }
}

void world_serve(struct world_process *p, struct channel_slot *slot) {
    uint64_t word[sizeof slot->word / sizeof slot->word[0]]; /* as they are now */
    memcpy(word, slot->word, sizeof word);
    struct served s = {.p = p, .slot = slot, .word = word};
    slot->code = perform(&s, slot->call);
    for (int i = 0; i < s.arrays; i++)
        free(s.array[i]);
}
