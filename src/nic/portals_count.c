/* Counting events. */
#include "nic/portals_private.h"

void p4_counter_watched(struct portals *p, struct portals_counter *ct) {
    p4_cell_tell(ct->cell, ct->value.success, ct->value.failure);
    if (ct->first)
        p4_trigger_look(p, ct);
}

int portals_ct_alloc(struct portals *p, ptl_handle_ni_t handle, ptl_handle_ct_t *out) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || !out)
        return PTL_ARG_INVALID;
    struct portals_counter *ct = pool_take(&ni->cts);
    if (!ct)
        return PTL_NO_SPACE;
    ct->ni = ni;
    *out = p4_handle_new(ni, HANDLE_CT, ct);
    ct->cell = p4_cell_take(p, *out);
    return PTL_OK;
}

int portals_ct_free(struct portals *p, ptl_handle_ct_t handle) {
    struct portals_ni *ni;
    struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, &ni);
    if (!ct)
        return PTL_ARG_INVALID;
    p4_trigger_cancel_all(ni, ct);
    p4_cell_give(ct->cell);
    p4_object_give(&ni->cts, ct);
    p->owner.raised(p->owner.context); /* whoever waits for it is interrupted */
    return PTL_OK;
}

int portals_ct_cancel(struct portals *p, ptl_handle_ct_t handle) {
    struct portals_ni *ni;
    struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, &ni);
    if (!ct)
        return PTL_ARG_INVALID;
    p4_trigger_cancel_all(ni, ct);
    return PTL_OK;
}

int portals_ct_get(struct portals *p, ptl_handle_ct_t handle, ptl_ct_event_t *event) {
    const struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, NULL);
    if (!ct || !event)
        return PTL_ARG_INVALID;
    *event = ct->value;
    return PTL_OK;
}

int portals_ct_set(struct portals *p, ptl_handle_ct_t handle, ptl_ct_event_t value) {
    struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, NULL);
    if (!ct)
        return PTL_ARG_INVALID;
    p4_trigger_hold(p);
    ct->value = value;
    p4_counter_changed(p, ct);
    p4_trigger_release(p);
    return PTL_OK;
}

bool p4_increment_is_valid(ptl_ct_event_t increment) {
    return !increment.success || !increment.failure;
}

int portals_ct_inc(struct portals *p, ptl_handle_ct_t handle, ptl_ct_event_t increment) {
    struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, NULL);
    if (!ct || !p4_increment_is_valid(increment))
        return PTL_ARG_INVALID;
    ptl_ct_event_t sum = {ct->value.success + increment.success,
                          ct->value.failure + increment.failure};
    p4_trigger_hold(p);
    ct->value = sum;
    p4_counter_changed(p, ct);
    p4_trigger_release(p);
    return PTL_OK;
}

static inline bool is_reached(const struct portals_counter *ct, ptl_size_t test) {
    return ct->value.success >= test || ct->value.failure;
}

int portals_ct_reached(struct portals *p, ptl_handle_ct_t handle, ptl_size_t test,
                       ptl_ct_event_t *event) {
    const struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, NULL);
    if (!ct || !event)
        return PTL_ARG_INVALID;
    if (!is_reached(ct, test))
        return PTL_CT_NONE_REACHED;
    *event = ct->value;
    return PTL_OK;
}

int portals_ct_poll(struct portals *p, const ptl_handle_ct_t *handles, const ptl_size_t *tests,
                    unsigned size, ptl_ct_event_t *event, unsigned *which) {
    struct portals_ni *first = NULL, *ni;
    if (!handles || !tests || !size || !event || !which)
        return PTL_ARG_INVALID;
    for (unsigned i = 0; i < size; i++) {
        if (!p4_object_of(p, HANDLE_CT, handles[i], &ni) || (first && ni != first))
            return PTL_ARG_INVALID;
        first = ni;
    }
    uint32_t start = size > 1 ? first->turn % size : 0;
    for (unsigned i = 0; i < size; i++) {
        unsigned at = start + i < size ? start + i : start + i - size;
        const struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handles[at], NULL);
        if (is_reached(ct, tests[at])) {
            first->turn = at + 1; /* the others are first then */
            *event = ct->value;
            *which = at;
            return PTL_OK;
        }
    }
    return PTL_CT_NONE_REACHED;
}
