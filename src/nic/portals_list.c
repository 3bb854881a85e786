/* Entries of the priority and the overflow lists: appending, unlinking, searching, and the events
 * of their lives. */
#include "nic/portals_private.h"

#define OUR_OPTIONS ((unsigned)(PTL_ME_HANDLERS | PTL_ME_HANDLER_IOVEC | PTL_ME_CLEANUP))

/* LINK, AUTO_UNLINK, AUTO_FREE. */
static void tell(struct portals_entry *e, ptl_event_kind_t type, uint8_t fail) {
    ptl_event_t event = {.type = type,
                         .start = p4_memory_address(&e->memory, 0),
                         .user_ptr = e->user_ptr,
                         .pt_index = e->pt->index,
                         .ptl_list = e->list,
                         .ni_fail_type = fail};
    if (e->reserved && type != PTL_EVENT_LINK) {
        e->reserved--;
        p4_event_push_reserved(e->ni->p, e->pt->eq, &event);
    } else {
        p4_event_push(e->ni->p, e->pt->eq, &event);
    }
}

/* ---- The end of an entry ---- */

void p4_entry_discard(struct portals_entry *e) {
    e->pt->entries -= !e->told;
    p4_event_unreserve(e->pt->eq, e->reserved);
    p4_memory_clear(&e->memory);
    p4_spin_entry_clear(e);
    p4_object_give(&e->ni->entries, e);
}

void p4_entry_settle(struct portals_entry *e) {
    if (!e->expired || e->busy)
        return;
    bool quiet = e->silent || e->searches || e->options & PTL_ME_EVENT_UNLINK_DISABLE;
    if (!e->told && !quiet)
        tell(e, PTL_EVENT_AUTO_UNLINK, PTL_NI_OK);
    e->pt->entries -= !e->told;
    e->told = true;
    if (e->headers)
        return;
    if (e->list == PTL_OVERFLOW_LIST && !quiet)
        tell(e, PTL_EVENT_AUTO_FREE, PTL_NI_OK);
    p4_entry_discard(e);
}

int p4_entry_unlink(struct portals_entry *e) {
    if (e->told)
        return PTL_ARG_INVALID; /* unlinked already: AUTO_UNLINK said so */
    if (e->busy || e->headers || e->expired)
        return PTL_IN_USE;
    if (e->waiting)
        p4_trigger_cancel_append(e);
    else
        p4_match_remove(e);
    p4_entry_discard(e);
    return PTL_OK;
}

/* ---- Unexpected headers ---- */

static void tell_search(struct portals_entry *e, const struct portals_header *h);

/* The message that it took does not come after all: a receive waits for another one. */
static void unclaim(struct portals_entry *e) {
    e->busy--;
    if (e->searches) {
        tell_search(e, NULL);
    } else if (e->options & PTL_ME_USE_ONCE) {
        e->expired = false;
        if (p4_entry_link(e))
            p4_entry_link_failed(e);
        return;
    }
    p4_entry_settle(e);
}

/* Out of the pool; the overflow entry has one less. */
static void header_free(struct portals_header *h) {
    struct portals_entry *e = h->entry;
    pool_give(&e->ni->headers, h);
    e->headers--;
    p4_entry_settle(e);
}

void p4_header_drop(struct portals_header *h) {
    struct portals_entry *claimer = h->claimer;
    if (h->listed)
        p4_header_remove(h->entry->ni, h->entry->pt, h);
    header_free(h);
    if (claimer)
        unclaim(claimer);
}

static void tell_overflow(struct portals_entry *e, const struct portals_header *h) {
    ptl_event_t event = h->event;
    event.user_ptr = e->user_ptr;
    if (p4_entry_wants(e, PTL_ME_EVENT_OVER_DISABLE, event.ni_fail_type))
        p4_event_push(e->ni->p, e->pt->eq, &event);
    p4_entry_count(e->ni->p, e, PTL_ME_EVENT_CT_OVERFLOW, event.mlength, event.ni_fail_type);
}

void p4_header_arrived(struct portals_header *h, uint64_t mlength, uint8_t fail) {
    h->arrived = true;
    h->event.mlength = mlength;
    h->event.ni_fail_type = fail;
    struct portals_entry *claimer = h->claimer;
    if (!claimer)
        return;
    tell_overflow(claimer, h);
    header_free(h);
    p4_entry_release(claimer);
}

/* The entry takes a header: it is told now, or when the message has arrived. */
static void claim(struct portals_entry *e, struct portals_header *h) {
    p4_header_remove(e->ni, e->pt, h);
    if (h->arrived) {
        tell_overflow(e, h);
        header_free(h);
    } else {
        h->claimer = e;
        e->busy++;
    }
}

/* Takes the first header that it matches, or all of them; true: there was one. */
static bool claim_headers(struct portals_entry *e) {
    bool any = false;
    for (struct portals_header *h; (h = p4_header_find(e, NULL)); any = true) {
        claim(e, h);
        if (e->options & PTL_ME_USE_ONCE)
            return true;
    }
    return any;
}

/* ---- Appending ---- */

/* What lists and matching lists have in common: a list entry is a matching one that ignores all. */
static ptl_me_t as_me(const ptl_le_t *le) {
    return (ptl_me_t){.start = le->start,
                      .length = le->length,
                      .ct_handle = le->ct_handle,
                      .uid = le->uid,
                      .options = le->options};
}

struct place {
    struct portals_ni *ni;
    struct portals_pt *pt;
    bool is_matching;
};

static int find_place(struct portals *p, ptl_handle_ni_t handle, ptl_pt_index_t index,
                      bool is_matching, struct place *place) {
    struct portals_ni *ni = p4_ni_of(p, handle);
    if (!ni || is_matching != !!(ni->options & PTL_NI_MATCHING))
        return PTL_ARG_INVALID;
    *place = (struct place){ni, p4_table_entry(ni, index), is_matching};
    return place->pt ? PTL_OK : PTL_ARG_INVALID;
}

static int check(struct portals *p, const struct place *place, const ptl_me_t *me) {
    struct portals_ni *ct_ni = place->ni;
    unsigned known = place->is_matching ? PTL_ME_APPEND_OPTIONS_MASK | OUR_OPTIONS
                                        : (unsigned)PTL_LE_APPEND_OPTIONS_MASK;
    if (me->options & ~known)
        return PTL_ARG_INVALID;
    if (me->ct_handle != PTL_CT_NONE &&
        (!p4_object_of(p, HANDLE_CT, me->ct_handle, &ct_ni) || ct_ni != place->ni))
        return PTL_ARG_INVALID;
    return PTL_OK;
}

/* Most entries: nothing but its offset and length decides what a put does to it. */
static bool is_plain(const struct portals_entry *e) {
    return e->list == PTL_PRIORITY_LIST && e->uid == PTL_UID_ANY && e->options & PTL_ME_OP_PUT &&
           !(e->options & (PTL_ME_MANAGE_LOCAL | PTL_ME_USE_ONCE)) && !e->memory.piece &&
           !e->handlers.image && !(e->pt->options & PTL_PT_FLOWCTRL);
}

/* A new entry, in no list. */
static int entry_new(struct portals *p, const struct place *place, const ptl_me_t *me, uint8_t list,
                     void *user_ptr, struct portals_entry **out) {
    struct portals_ni *ni = place->ni;
    int code = check(p, place, me);
    if (code)
        return code;
    struct portals_entry *e = pool_take(&ni->entries);
    if (!e)
        return PTL_NO_SPACE;
    e->ni = ni;
    e->pt = place->pt;
    e->pt->entries++;
    e->order = ni->next_order++;
    e->is_matching = place->is_matching;
    e->list = list;
    e->user_ptr = user_ptr;
    e->ct = p4_counter_name(me->ct_handle, p4_object_of(p, HANDLE_CT, me->ct_handle, NULL));
    e->uid = me->uid;
    e->options = me->options;
    if (e->is_matching) {
        e->match_id = me->match_id;
        e->match_bits = me->match_bits;
        e->ignore_bits = me->ignore_bits;
        e->min_free = me->options & PTL_ME_MANAGE_LOCAL ? me->min_free : 0;
    }
    code = p4_memory_set(&e->memory, me->start, me->length, me->options & PTL_IOVEC, ni);
    if (!code && me->options & PTL_ME_HANDLERS)
        code = p4_spin_entry_set(e, me);
    e->is_plain = is_plain(e);
    if (code)
        p4_entry_discard(e);
    else
        *out = e;
    return code;
}

int p4_entry_link(struct portals_entry *e) {
    struct portals_pt *pt = e->pt;
    struct portals_header *h =
        e->list == PTL_PRIORITY_LIST && pt->first ? p4_header_find(e, NULL) : NULL;
    if (h && e->options & PTL_ME_USE_ONCE) {
        claim(e, h);
        e->expired = true;
        p4_entry_settle(e);
        return PTL_OK;
    }
    if (pt->list[e->list].length >= (uint32_t)e->ni->limits.max_list_size)
        return PTL_LIST_TOO_LONG;
    if (!p4_match_insert(e))
        return PTL_NO_SPACE;
    if (h)
        claim_headers(e);
    if (!(e->options & PTL_ME_EVENT_LINK_DISABLE))
        tell(e, PTL_EVENT_LINK, PTL_NI_OK);
    return PTL_OK;
}

void p4_entry_link_failed(struct portals_entry *e) {
    tell(e, PTL_EVENT_LINK, PTL_NI_DROPPED);
    p4_entry_discard(e);
}

static int append(struct portals *p, const struct place *place, const ptl_me_t *me, uint8_t list,
                  void *user_ptr, ptl_handle_any_t *handle) {
    struct portals_entry *e = NULL;
    if (!handle || list > PTL_OVERFLOW_LIST)
        return PTL_ARG_INVALID;
    int code = entry_new(p, place, me, list, user_ptr, &e);
    if (code)
        return code;
    enum handle_kind kind = place->is_matching ? HANDLE_ME : HANDLE_LE;
    ptl_handle_any_t made = p4_handle_new(place->ni, kind, e);
    p4_trigger_hold(p);
    code = p4_entry_link(e);
    if (code)
        p4_entry_discard(e);
    else
        *handle = made;
    p4_trigger_release(p);
    return code;
}

int portals_me_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                      ptl_handle_me_t *handle) {
    struct place place;
    int code = me ? find_place(p, ni, index, true, &place) : PTL_ARG_INVALID;
    return code ? code : append(p, &place, me, list, user_ptr, handle);
}

int portals_le_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_le_t *le, ptl_list_t list, void *user_ptr,
                      ptl_handle_le_t *handle) {
    struct place place;
    int code = le ? find_place(p, ni, index, false, &place) : PTL_ARG_INVALID;
    if (code)
        return code;
    ptl_me_t me = as_me(le);
    return append(p, &place, &me, list, user_ptr, handle);
}

int portals_trigger_me_append(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                              const ptl_me_t *me, ptl_list_t list, void *user_ptr,
                              ptl_handle_me_t *handle, ptl_handle_ct_t ct, ptl_size_t threshold) {
    struct place place;
    struct portals_entry *e = NULL;
    int code = me && handle && list <= PTL_OVERFLOW_LIST ? find_place(p, ni, index, true, &place)
                                                         : PTL_ARG_INVALID;
    if (!code)
        code = entry_new(p, &place, me, list, user_ptr, &e);
    if (code)
        return code;
    e->waiting = true;
    *handle = p4_handle_new(place.ni, HANDLE_ME, e);
    code = p4_trigger_append(p, e, ct, threshold);
    if (code)
        p4_entry_discard(e);
    return code;
}

int portals_me_unlink(struct portals *p, ptl_handle_me_t handle) {
    struct portals_entry *e = p4_object_of(p, HANDLE_ME, handle, NULL);
    return e && e->is_matching ? p4_entry_unlink(e) : PTL_ARG_INVALID;
}

int portals_le_unlink(struct portals *p, ptl_handle_le_t handle) {
    struct portals_entry *e = p4_object_of(p, HANDLE_LE, handle, NULL);
    return e && !e->is_matching ? p4_entry_unlink(e) : PTL_ARG_INVALID;
}

/* ---- Searching ---- */

static void tell_search(struct portals_entry *e, const struct portals_header *h) {
    ptl_event_t event = {.pt_index = e->pt->index, .ni_fail_type = PTL_NI_NO_MATCH};
    if (h) {
        event = h->event;
        event.ni_fail_type = PTL_NI_OK;
    }
    event.type = PTL_EVENT_SEARCH;
    event.user_ptr = e->user_ptr;
    if (p4_entry_wants(e, PTL_ME_EVENT_OVER_DISABLE, event.ni_fail_type))
        p4_event_push(e->ni->p, e->pt->eq, &event);
    p4_entry_count(e->ni->p, e, PTL_ME_EVENT_CT_OVERFLOW, event.mlength, event.ni_fail_type);
}

static void search_only(struct portals_entry *e) {
    struct portals_header *h = p4_header_find(e, NULL);
    do {
        tell_search(e, h);
        h = h && !(e->options & PTL_ME_USE_ONCE) ? p4_header_find(e, h) : NULL;
    } while (h);
}

/* A search is an entry that is never linked; it lasts until all that it took has arrived. */
static int search(struct portals *p, const struct place *place, const ptl_me_t *me,
                  ptl_search_op_t operation, void *user_ptr) {
    struct portals_entry *e = NULL;
    if (operation > PTL_SEARCH_DELETE)
        return PTL_ARG_INVALID;
    int code = entry_new(p, place, me, PTL_PRIORITY_LIST, user_ptr, &e);
    if (code)
        return code;
    e->searches = e->expired = true;
    e->busy++;
    p4_trigger_hold(p);
    if (operation == PTL_SEARCH_ONLY)
        search_only(e);
    else if (!claim_headers(e))
        tell_search(e, NULL);
    p4_entry_release(e);
    p4_trigger_release(p);
    return PTL_OK;
}

int portals_me_search(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_me_t *me, ptl_search_op_t operation, void *user_ptr) {
    struct place place;
    int code = me ? find_place(p, ni, index, true, &place) : PTL_ARG_INVALID;
    return code ? code : search(p, &place, me, operation, user_ptr);
}

int portals_le_search(struct portals *p, ptl_handle_ni_t ni, ptl_pt_index_t index,
                      const ptl_le_t *le, ptl_search_op_t operation, void *user_ptr) {
    struct place place;
    int code = le ? find_place(p, ni, index, false, &place) : PTL_ARG_INVALID;
    if (code)
        return code;
    ptl_me_t me = as_me(le);
    return search(p, &place, &me, operation, user_ptr);
}
