/* The portal table: its entries, and flow control.
 *
 * An entry with flow control never loses an event or a message silently. What a message may raise
 * is reserved in the queue before the message is accepted, and one more place is kept for
 * PT_DISABLED itself; a message for which something is missing disables the entry and is refused,
 * and so is every later one until the program enables it again. */
#include "nic/portals_private.h"

#include <stdlib.h>
#include <string.h>

/* A free index as wanted, or why there is none. */
static int choose(const struct portals_ni *ni, ptl_pt_index_t wanted, uint32_t *index) {
    uint32_t last = (uint32_t)ni->limits.max_pt_index;
    if (wanted != PTL_PT_ANY) {
        *index = wanted;
        return wanted > last                ? PTL_ARG_INVALID
               : p4_table_entry(ni, wanted) ? PTL_PT_IN_USE
                                            : PTL_OK;
    }
    for (*index = 0; *index <= last; ++*index)
        if (!p4_table_entry(ni, *index))
            return PTL_OK;
    return PTL_PT_FULL;
}

void p4_table_release(struct portals_ni *ni) {
    if (ni->table != &ni->only)
        free(ni->table);
}

/* False: no memory. */
static bool table_room(struct portals_ni *ni, uint32_t index) {
    if (index < ni->table_size)
        return true;
    uint32_t size = index + 1 < 2 * ni->table_size ? 2 * ni->table_size : index + 1;
    struct portals_pt **table = size == 1 ? &ni->only : calloc(size, sizeof *table);
    if (!table)
        return false;
    if (ni->table_size)
        memcpy(table, ni->table, ni->table_size * sizeof *table);
    p4_table_release(ni);
    ni->table = table;
    ni->table_size = size;
    return true;
}

int portals_pt_alloc(struct portals *p, ptl_handle_ni_t handle, unsigned options,
                     ptl_handle_eq_t eq, ptl_pt_index_t wanted, ptl_pt_index_t *out) {
    struct portals_ni *ni = p4_ni_of(p, handle), *eq_ni = ni;
    if (!ni || !out || options & ~(unsigned)PTL_PT_ALLOC_OPTIONS_MASK)
        return PTL_ARG_INVALID;
    if (eq == PTL_EQ_NONE && options & PTL_PT_FLOWCTRL)
        return PTL_PT_EQ_NEEDED;
    struct portals_event_queue *q = p4_object_of(p, HANDLE_EQ, eq, &eq_ni);
    if (eq != PTL_EQ_NONE && (!q || eq_ni != ni))
        return PTL_ARG_INVALID;
    struct portals_queue_name queue = p4_queue_name(eq, q);
    uint32_t index;
    int code = choose(ni, wanted, &index);
    if (code)
        return code;
    struct portals_pt *pt = zone_take_clear(p->config.zone, sizeof *pt);
    if (!pt)
        return PTL_NO_SPACE;
    pt->reserves = options & PTL_PT_FLOWCTRL;
    if (pt->reserves && !p4_event_add_place(p, queue)) {
        zone_give(p->config.zone, pt, sizeof *pt);
        return PTL_NO_SPACE;
    }
    pt->index = index;
    pt->options = options;
    pt->eq = queue;
    pt->enabled = true;
    if (!table_room(ni, index)) {
        if (pt->reserves)
            p4_event_unreserve(queue, 1);
        zone_give(p->config.zone, pt, sizeof *pt);
        return PTL_NO_SPACE;
    }
    ni->table[index] = pt;
    *out = index;
    return PTL_OK;
}

void p4_table_free(const struct portals_ni *ni, struct portals_pt *pt) {
    struct zone *zone = ni->p->config.zone;
    if (!pt)
        return;
    zone_give(zone, pt->list[PTL_PRIORITY_LIST].more, LIST_MORE_BYTES);
    zone_give(zone, pt->list[PTL_OVERFLOW_LIST].more, LIST_MORE_BYTES);
    zone_give(zone, pt, sizeof *pt);
}

int portals_pt_free(struct portals *p, ptl_handle_ni_t handle, ptl_pt_index_t index) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    struct portals_pt *pt = ni ? p4_table_entry(ni, index) : NULL;
    if (!pt)
        return PTL_ARG_INVALID;
    if (pt->entries || pt->arrivals)
        return PTL_PT_IN_USE;
    p4_trigger_hold(p);
    while (pt->first) /* of entries that were unlinked with it; nobody can ask for it any more */
        p4_header_drop(pt->first);
    p4_trigger_release(p);
    if (pt->reserves)
        p4_event_unreserve(pt->eq, 1);
    ni->table[index] = NULL;
    p4_table_free(ni, pt);
    return PTL_OK;
}

int portals_pt_disable(struct portals *p, ptl_handle_ni_t handle, ptl_pt_index_t index) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    struct portals_pt *pt = ni ? p4_table_entry(ni, index) : NULL;
    if (!pt)
        return PTL_ARG_INVALID;
    pt->enabled = false;
    ni->p->changes++;
    return pt->arrivals ? PTL_IN_USE : PTL_OK;
}

int portals_pt_enable(struct portals *p, ptl_handle_ni_t handle, ptl_pt_index_t index) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    struct portals_pt *pt = ni ? p4_table_entry(ni, index) : NULL;
    if (!pt)
        return PTL_ARG_INVALID;
    if (pt->options & PTL_PT_FLOWCTRL && !pt->reserves)
        pt->reserves = p4_event_reserve(p, pt->eq, 1) || p4_event_add_place(p, pt->eq);
    pt->enabled = true;
    return PTL_OK;
}

uint8_t p4_table_exhausted(struct portals_ni *ni, struct portals_pt *pt, bool quiet) {
    if (!(pt->options & PTL_PT_FLOWCTRL))
        return PTL_NI_DROPPED;
    pt->enabled = false;
    ni->p->changes++;
    if (!quiet && pt->reserves) {
        ptl_event_t event = {.type = PTL_EVENT_PT_DISABLED,
                             .pt_index = pt->index,
                             .ni_fail_type = PTL_NI_PT_DISABLED};
        pt->reserves = false;
        p4_trigger_hold(ni->p);
        p4_event_push_reserved(ni->p, pt->eq, &event);
        p4_trigger_release(ni->p);
    }
    return PTL_NI_PT_DISABLED;
}
