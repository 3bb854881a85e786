/* Looks of a process that find the same as the one before (struct channel_looks).
 *
 * Between two events of the engine nothing changes, and a look takes the time `poll`: so all that
 * end before the next event find the same. The process makes them without a switch to the world,
 * which makes them when it is asked for something else. Times, counts and traces are therefore
 * those of calls made one by one, and those of a shared object. */
#include "portals4.h"
#include "sim/world_process.h"

/* So that a process that looks for ever is seen to. */
#define MOST_LOOKS (1u << 20)

/* Nobody else could change what it finds, and how long a look takes is known. */
static bool is_alone(const struct world_process *p) {
    const struct spin_world *w = p->rank->world;
    return !atomic_load(&p->shared->threads) && !w->processes->outside && !w->noise &&
           !w->setting_up && p->rank->params->poll;
}

void world_looks_allow(struct world_process *p, struct channel_slot *s,
                       const struct world_thread *t) {
    struct channel_looks *l = &s->looks;
    l->left = 0;
    bool same = (s->call == PORTALS_CALL_PtlEQGet && s->code == PTL_EQ_EMPTY) ||
                (s->call == PORTALS_CALL_PtlCTGet && s->code == PTL_OK);
    if (!same || !is_alone(p))
        return;
    uint64_t next_ps = sim_next_ps(p->rank->world->engine);
    if (next_ps <= t->clock_ps + 1)
        return;
    uint64_t looks = (next_ps - 1 - t->clock_ps) / p->rank->params->poll;
    ptl_ct_event_t counts = {0};
    if (s->call == PORTALS_CALL_PtlCTGet &&
        portals_ct_get(nic_portals(p->rank->nic), (ptl_handle_ct_t)s->word[0], &counts))
        return;
    l->call = s->call;
    l->handle = s->word[0];
    l->counts[0] = counts.success;
    l->counts[1] = counts.failure;
    l->left = looks < MOST_LOOKS ? (uint32_t)looks : MOST_LOOKS;
}

static bool finds_same(const struct channel_looks *l) {
    ptl_event_t event;
    ptl_ct_event_t counts;
    if (l->call == PORTALS_CALL_PtlEQGet)
        return PtlEQGet((ptl_handle_eq_t)l->handle, &event) == PTL_EQ_EMPTY;
    return PtlCTGet((ptl_handle_ct_t)l->handle, &counts) == PTL_OK &&
           counts.success == l->counts[0] && counts.failure == l->counts[1];
}

bool world_looks_made(struct channel_slot *s) {
    const struct channel_looks looks = s->looks;
    bool same = true;
    s->looks.made = s->looks.left = 0;
    for (uint32_t i = 0; i < looks.made && i < MOST_LOOKS && same; i++)
        same = finds_same(&looks);
    return same;
}
