/* Portals matching: what one message and the entry that takes it cost when so many others wait, by
 * how many masks the entries use; and the same for unexpected headers. usage: bench-portals [quick]
 */
#include <stdbool.h>
#include <stdint.h>

#include "base/rng.h"
#include "measure.h"
#include "nic/portals.h"

static enum portals_sending forget(void *context, struct portals_outgoing *out) {
    (void)context, (void)out;
    return PORTALS_LEFT;
}

static void nothing(void *context) {
    (void)context;
}

struct target {
    struct portals *p;
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    uint32_t masks;
};

static struct target target_new(uint32_t waiting, uint32_t masks) {
    struct target t = {.masks = masks};
    struct portals_config config;
    ptl_ni_limits_t limits;
    portals_config_default(&config, 4096);
    portals_limits_default(&limits, NULL, NULL);
    limits.max_entries = limits.max_list_size = limits.max_unexpected_headers = (int)waiting + 10;
    const struct portals_owner owner = {.send = forget, .raised = nothing};
    if (portals_new(&t.p, &config, &owner, NULL))
        exit(1);
    portals_init(t.p);
    portals_ni_init(t.p, 0, PTL_NI_MATCHING | PTL_NI_LOGICAL, PTL_PID_ANY, &limits, NULL, NULL,
                    &t.ni);
    portals_pt_alloc(t.p, t.ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &t.pt);
    return t;
}

/* The tag is in the upper half; entries ignore one of `masks` patterns of the lower half. */
static void append(const struct target *t, uint32_t tag, ptl_list_t list) {
    ptl_handle_me_t handle;
    ptl_me_t me = {.ct_handle = PTL_CT_NONE,
                   .uid = PTL_UID_ANY,
                   .options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE,
                   .match_bits = (uint64_t)tag << 32,
                   .ignore_bits = t->masks ? 1 + tag % t->masks : 0};
    me.match_id.rank = PTL_RANK_ANY;
    if (list == PTL_OVERFLOW_LIST) {
        me.options = PTL_ME_OP_PUT;
        me.ignore_bits = ~0ull;
    }
    if (portals_me_append(t->p, t->ni, t->pt, &me, list, NULL, &handle))
        exit(1);
}

static bool deliver(const struct target *t, uint32_t tag) {
    struct nic_message m = {.kind = NIC_PUT,
                            .interface = PTL_NI_MATCHING | PTL_NI_LOGICAL,
                            .pt_index = t->pt,
                            .match_bits = (uint64_t)tag << 32};
    struct portals_arrival arrival;
    portals_header(t->p, &m, &arrival, NULL);
    bool taken = arrival.fail == PTL_NI_OK;
    portals_done(t->p, &arrival, (struct portals_ending){0});
    return taken;
}

/* Nanoseconds for a message and an entry while `waiting` others stay. */
static double step_ns(uint32_t waiting, uint32_t masks, bool unexpected, uint32_t steps) {
    struct target t = target_new(waiting, masks);
    struct rng rng = rng_seeded(1);
    uint32_t taken = 0;
    if (unexpected)
        append(&t, 0, PTL_OVERFLOW_LIST);
    for (uint32_t i = 0; i < waiting; i++)
        if (unexpected)
            deliver(&t, i);
        else
            append(&t, i, PTL_PRIORITY_LIST);
    double start = bench_cpu_seconds();
    for (uint32_t i = 0; i < steps; i++) {
        uint32_t tag = rng_below(&rng, waiting);
        if (unexpected)
            append(&t, tag, PTL_PRIORITY_LIST);
        taken += deliver(&t, tag);
        if (!unexpected)
            append(&t, tag, PTL_PRIORITY_LIST);
    }
    double seconds = bench_cpu_seconds() - start;
    portals_free(t.p);
    return taken == steps ? 1e9 * seconds / steps : -1;
}

int main(int argc, char **argv) {
    bool quick = argc > 1 && strcmp(argv[1], "quick") == 0;
    bench_machine();
    printf("ns for one message and one entry\n\n%10s %10s %10s %10s %10s %12s %12s\n", "waiting",
           "exact", "1 mask", "8 masks", "20 masks", "unexpected", "with a mask");
    for (uint32_t waiting = 10; waiting <= (quick ? 10000u : 100000u); waiting *= 10) {
        uint32_t steps = 300000, slow = waiting < 1000 ? steps : 3000000 / waiting;
        printf("%10u %10.1f %10.1f %10.1f %10.1f %12.1f %12.1f\n", waiting,
               step_ns(waiting, 0, false, steps), step_ns(waiting, 1, false, steps),
               step_ns(waiting, 8, false, steps), step_ns(waiting, 20, false, slow),
               step_ns(waiting, 0, true, steps), step_ns(waiting, 1, true, slow));
    }
    return 0;
}
