/* Triggered operations: a counter has those that wait for it, by threshold, then as they came. One
 * that fires may change other counters, so counters whose turn it is stand in a list instead of
 * calling each other: a chain of any length needs no stack. */
#include "nic/portals_private.h"

static void remove_trigger(struct portals_ni *ni, struct portals_counter *ct,
                           struct portals_trigger *t) {
    if (t->before)
        t->before->after = t->after;
    else
        ct->first = t->after;
    if (t->after)
        t->after->before = t->before;
    else
        ct->last = t->before;
    pool_give(&ni->triggers, t);
}

/* Thresholds mostly come in rising order: from the end. */
static void insert_trigger(struct portals_counter *ct, struct portals_trigger *t) {
    struct portals_trigger *at = ct->last;
    while (at && at->threshold > t->threshold)
        at = at->before;
    t->before = at;
    t->after = at ? at->after : ct->first;
    if (t->after)
        t->after->before = t;
    else
        ct->last = t;
    if (at)
        at->after = t;
    else
        ct->first = t;
}

static void fire(struct portals *p, const struct portals_request *request,
                 struct portals_entry *append) {
    switch (request->kind) {
    case PORTALS_CT_INC:
        portals_ct_inc(p, request->ct, request->ct_value);
        break;
    case PORTALS_CT_SET:
        portals_ct_set(p, request->ct, request->ct_value);
        break;
    case PORTALS_ME_UNLINK: {
        struct portals_entry *e = p4_object_of(p, HANDLE_ME, request->me, NULL);
        if (e && p4_entry_unlink(e) == PTL_IN_USE && !e->expired) {
            /* nothing new may match; it goes when what is in progress has ended */
            p4_match_remove(e);
            e->expired = e->silent = true;
            p4_entry_settle(e);
        }
        break;
    }
    case PORTALS_ME_APPEND:
        append->waiting = false;
        append->order = append->ni->next_order++;
        if (p4_entry_link(append))
            p4_entry_link_failed(append);
        break;
    default:
        p4_request_start(p, request, true); /* a descriptor released meanwhile: nothing is sent */
    }
}

static struct portals_counter *next_ready(struct portals *p) {
    struct portals_counter *ct = p->ready_first;
    if (ct) {
        p->ready_first = ct->next_ready;
        if (!p->ready_first)
            p->ready_last = NULL;
        ct->next_ready = NULL;
        ct->ready = false;
    }
    return ct;
}

static bool is_due(const struct portals_counter *ct) {
    return ct->first && ct->value.success >= ct->first->threshold;
}

static void stand_in_line(struct portals *p, struct portals_counter *ct) {
    ct->ready = true;
    if (p->ready_last)
        p->ready_last->next_ready = ct;
    else
        p->ready_first = ct;
    p->ready_last = ct;
}

void p4_trigger_look(struct portals *p, struct portals_counter *ct) {
    if (is_due(ct) && !ct->ready)
        stand_in_line(p, ct);
}

/* Held while they fire: what they set off stands in line behind them. */
void p4_trigger_fire(struct portals *p) {
    for (struct portals_counter *ct; (ct = next_ready(p));) {
        struct portals_request request = ct->first->request;
        struct portals_entry *append = ct->first->entry;
        remove_trigger(ct->ni, ct, ct->first);
        if (is_due(ct)) /* one at a time, so that counters fire in the order they are reached */
            stand_in_line(p, ct);
        fire(p, &request, append);
    }
}

static void leave_line(struct portals *p, struct portals_counter *ct) {
    for (struct portals_counter **at = &p->ready_first, *before = NULL; *at;
         before = *at, at = &(*at)->next_ready)
        if (*at == ct) {
            *at = ct->next_ready;
            if (p->ready_last == ct)
                p->ready_last = before;
            ct->next_ready = NULL;
            ct->ready = false;
            break;
        }
}

void p4_trigger_cancel_all(struct portals_ni *ni, struct portals_counter *ct) {
    while (ct->first) {
        struct portals_entry *append = ct->first->entry;
        remove_trigger(ni, ct, ct->first);
        if (append)
            p4_entry_discard(append);
    }
    leave_line(ni->p, ct);
}

/* An entry does not know its trigger: hardly one is taken back before it is appended. */
void p4_trigger_cancel_append(struct portals_entry *e) {
    struct portals_ni *ni = e->ni;
    for (uint32_t i = 0; i < ni->cts.made; i++) {
        struct portals_counter *ct = pool_find(&ni->cts, i);
        struct portals_trigger *t = ct ? ct->first : NULL;
        while (t && t->entry != e)
            t = t->after;
        if (!t)
            continue;
        remove_trigger(ni, ct, t);
        if (!is_due(ct))
            leave_line(ni->p, ct);
        return;
    }
}

static int add(struct portals *p, struct portals_ni *ni, ptl_handle_ct_t handle,
               const struct portals_request *request, struct portals_entry *append,
               ptl_size_t threshold) {
    struct portals_ni *ct_ni;
    struct portals_counter *ct = p4_object_of(p, HANDLE_CT, handle, &ct_ni);
    if (!ct || ct_ni != ni)
        return PTL_ARG_INVALID;
    struct portals_trigger *t = pool_take(&ni->triggers);
    if (!t)
        return PTL_NO_SPACE;
    t->request = *request;
    t->entry = append;
    t->threshold = threshold;
    insert_trigger(ct, t);
    p4_trigger_hold(p);
    p4_trigger_look(p, ct);
    p4_trigger_release(p);
    return PTL_OK;
}

int portals_trigger(struct portals *p, const struct portals_request *request, ptl_handle_ct_t ct,
                    ptl_size_t threshold) {
    struct portals_ni *ni;
    int code = p4_request_check(p, request, &ni);
    return code ? code : add(p, ni, ct, request, NULL, threshold);
}

/* portals_list.c makes the entry. */
int p4_trigger_append(struct portals *p, struct portals_entry *e, ptl_handle_ct_t ct,
                      ptl_size_t threshold) {
    struct portals_request request = {.kind = PORTALS_ME_APPEND};
    return add(p, e->ni, ct, &request, e, threshold);
}
