#include "part/part_world.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/rng.h"
#include "portals4.h"

#define WARM_BYTES 65536u /* sent before, so that the IOMMUs know their tables */
#define HUGE_PAGE                                                                                  \
    (2u << 20) /* buffers begin with one, so that no time depends on where they are                \
                */

struct run {
    const struct part_setup *setup;
    uint32_t sources; /* ranks from 0 on; the one behind them is the target of all */
    uint64_t room;    /* of each source's part of the target's buffer, and of its own */
    uint8_t *from, *to;
    bool *is_absent; /* of the target's pages */
    uint64_t start_ps, end_ps;
};

static uint8_t byte_at(uint64_t i) {
    return (uint8_t)(i * 31 + i / 251 + 7);
}

/* As it is before the measurement, when all of it was there. A source's data stays: the IOMMU's
 * table loses it, as when the system moves pages. */
static void prepare(const struct run *r, enum part_pages how, uint8_t *at, bool is_target) {
    uint64_t bytes = r->setup->bytes;
    if (is_target)
        memset(at, 0, bytes);
    for (uint64_t i = 0; i * PART_PAGE < bytes; i++) {
        bool goes = how == PART_TOUCH_ABSENT || how == PART_PIN_ABSENT ||
                    (how == PART_ABSENT && (!is_target || r->is_absent[i]));
        if (goes)
            spin_discard(at + i * PART_PAGE, PART_PAGE);
    }
    for (uint64_t i = 0; i < bytes && !is_target; i++)
        at[i] = byte_at(i);
}

/* As a part of it. */
static void before(enum part_pages how, uint8_t *at, uint64_t bytes) {
    if (how == PART_TOUCH_PRESENT || how == PART_TOUCH_ABSENT)
        spin_touch(at, bytes);
    else if (how == PART_PIN_PRESENT || how == PART_PIN_ABSENT)
        spin_pin(at, bytes);
}

#define GOOD(call)                                                                                 \
    do {                                                                                           \
        if ((call) != PTL_OK)                                                                      \
            return __LINE__;                                                                       \
    } while (0)

static int put(const struct run *r, ptl_handle_md_t md, uint64_t bytes) {
    const ptl_process_t target = {.phys = {.nid = r->sources}};
    return PtlPut(md, 0, bytes, PTL_CT_ACK_REQ, target, 0, 0, spin_rank() * r->room, NULL, 0);
}

static int send_buffer(struct run *r, ptl_handle_ni_t ni) {
    uint64_t bytes = r->setup->bytes;
    uint8_t *from = r->from + spin_rank() * r->room;
    ptl_md_t md = {.start = from, .length = bytes};
    ptl_handle_md_t handle;
    ptl_ct_event_t count;
    md.eq_handle = PTL_EQ_NONE;
    md.options = PTL_MD_EVENT_CT_ACK;
    GOOD(PtlCTAlloc(ni, &md.ct_handle));
    GOOD(PtlMDBind(ni, &md, &handle));
    spin_touch(from, bytes);
    spin_barrier();
    GOOD(put(r, handle, bytes < WARM_BYTES ? bytes : WARM_BYTES));
    GOOD(PtlCTWait(md.ct_handle, 1, &count));
    spin_barrier();
    prepare(r, r->setup->source, from, false);
    spin_barrier();
    r->start_ps = spin_now_ps();
    before(r->setup->source, from, bytes);
    spin_barrier();
    GOOD(put(r, handle, bytes));
    GOOD(PtlCTWait(md.ct_handle, 2, &count));
    return count.failure ? __LINE__ : 0;
}

static int receive_buffer(struct run *r, ptl_handle_ni_t ni) {
    uint64_t bytes = r->setup->bytes;
    ptl_pt_index_t index;
    ptl_handle_le_t handle;
    ptl_ct_event_t count;
    ptl_le_t le = {.start = r->to,
                   .length = r->sources * r->room,
                   .uid = PTL_UID_ANY,
                   .options = PTL_LE_OP_PUT | PTL_LE_EVENT_CT_COMM | PTL_LE_EVENT_LINK_DISABLE};
    GOOD(PtlPTAlloc(ni, 0, PTL_EQ_NONE, 0, &index));
    GOOD(PtlCTAlloc(ni, &le.ct_handle));
    GOOD(PtlLEAppend(ni, index, &le, PTL_PRIORITY_LIST, NULL, &handle));
    for (uint32_t k = 0; k < r->sources; k++)
        spin_touch(r->to + k * r->room, bytes);
    spin_barrier();
    GOOD(PtlCTWait(le.ct_handle, r->sources, &count));
    spin_barrier();
    for (uint32_t k = 0; k < r->sources; k++)
        prepare(r, r->setup->target, r->to + k * r->room, true);
    spin_barrier();
    for (uint32_t k = 0; k < r->sources; k++)
        before(r->setup->target, r->to + k * r->room, bytes);
    spin_barrier();
    GOOD(PtlCTWait(le.ct_handle, 2 * r->sources, &count));
    r->end_ps = spin_now_ps();
    if (count.failure)
        return __LINE__;
    for (uint32_t k = 0; k < r->sources; k++)
        for (uint64_t i = 0; i < bytes; i++)
            if (r->to[k * r->room + i] != byte_at(i))
                return __LINE__;
    return 0;
}

static int rank(void *argument) {
    ptl_handle_ni_t ni;
    GOOD(PtlInit());
    GOOD(PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_NO_MATCHING | PTL_NI_PHYSICAL, PTL_PID_ANY, NULL, NULL,
                   &ni));
    struct run *r = argument;
    return spin_rank() == r->sources ? receive_buffer(r, ni) : send_buffer(r, ni);
}

/* All pages, or some by chance; the paper draws them with rand(). */
static void choose(const struct part_setup *s, bool *is_absent) {
    uint64_t pages = (s->bytes + PART_PAGE - 1) / PART_PAGE;
    struct rng rng = rng_seeded(s->seed);
    for (uint64_t i = 0; i < pages; i++) {
        bool hit = !s->fault_percent || rng_below(&rng, 100) < s->fault_percent;
        is_absent[i] = s->target == PART_ABSENT && hit;
    }
}

static int run_world(const struct experiment_context *context, struct run *r,
                     struct part_outcome *outcome, struct spin_error *err) {
    struct spin_world_options base = {.ranks = r->sources + 1,
                                      .preset = "part",
                                      .trace = r->setup->trace,
                                      .picture = r->setup->picture,
                                      .set = r->setup->set};
    struct experiment_world w;
    struct spin_world *world;
    while (base.set_count < PART_SETTINGS && r->setup->set[base.set_count])
        base.set_count++;
    int code = experiment_world(context, &base, &w, err);
    if (!code)
        code = spin_world_new(&world, &w.options, err);
    if (code)
        return code;
    code = spin_world_run(world, rank, r, err);
    struct spin_world_result result = spin_world_result(world);
    if (!code && result.failed)
        code = spin_fail(err, SPIN_EFORMAT, "a transfer of %llu bytes: rank %u failed at check %d",
                         (unsigned long long)r->setup->bytes, result.first_failed,
                         result.first_status);
    outcome->us = (double)(r->end_ps - r->start_ps) / 1e6;
    outcome->counts = result.counts;
    spin_world_free(world);
    return code;
}

int part_transfer(const struct experiment_context *context, const struct part_setup *setup,
                  struct part_outcome *outcome, struct spin_error *err) {
    uint32_t ranks = context->setup.ranks ? context->setup.ranks : 2;
    if (ranks < 2)
        return spin_fail(err, SPIN_EARG, "--ranks %u: one that sends and one that receives", ranks);
    uint64_t room = (setup->bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    struct run r = {.setup = setup,
                    .sources = ranks - 1,
                    .room = room,
                    .from = aligned_alloc(HUGE_PAGE, (ranks - 1) * room),
                    .to = aligned_alloc(HUGE_PAGE, (ranks - 1) * room),
                    .is_absent = calloc(setup->bytes / PART_PAGE + 1, sizeof *r.is_absent)};
    int code = SPIN_OK;
    if (!r.from || !r.to || !r.is_absent) {
        code = spin_fail(err, SPIN_ENOMEM, "out of memory for transfers of %llu bytes",
                         (unsigned long long)setup->bytes);
    } else {
        for (uint64_t i = 0; i < r.sources * room; i++)
            r.from[i] = byte_at(i % room);
        choose(setup, r.is_absent);
        code = run_world(context, &r, outcome, err);
    }
    free(r.from);
    free(r.to);
    free(r.is_absent);
    return code;
}
