#include "slow_portals.h"

#include <string.h>

/* ---- The queue ---- */

static int reserved(const struct slow_portals *s) {
    int places = s->flow_control && !s->disabled_told;
    for (int i = 0; i < SLOW_MOST; i++) {
        places += s->delivery[i].used && s->delivery[i].holds;
        places += s->entry[i].used ? s->entry[i].holds : 0;
    }
    return places;
}

static void tell(struct slow_portals *s, ptl_event_t event) {
    if (s->queued + reserved(s) >= s->capacity) {
        s->dropped = true;
        if (!s->queued)
            return;
        memmove(s->queue, s->queue + 1, (size_t)--s->queued * sizeof *s->queue);
    }
    s->queue[s->queued++] = event;
}

static bool has_room(const struct slow_portals *s, int places) {
    return s->capacity - s->queued - reserved(s) >= places;
}

/* ---- Entries ---- */

static bool matches(const struct slow_portals *s, const struct slow_entry *e, uint64_t bits,
                    uint32_t rank, uint64_t length, uint64_t remote_offset) {
    if (!s->matching)
        return true;
    if ((e->me.match_bits | e->me.ignore_bits) != (bits | e->me.ignore_bits))
        return false;
    if (e->me.match_id.rank != PTL_RANK_ANY && e->me.match_id.rank != rank)
        return false;
    if (!(e->me.options & PTL_ME_NO_TRUNCATE))
        return true;
    uint64_t offset = e->me.options & PTL_ME_MANAGE_LOCAL ? e->local_offset : remote_offset;
    return offset + length <= e->room || (offset >= e->room && length == 0);
}

static bool entry_is_busy(const struct slow_portals *s, int index) {
    for (int i = 0; i < SLOW_MOST; i++) {
        if (s->delivery[i].used && s->delivery[i].entry == index)
            return true;
        if (s->header_used[i] && s->header[i].claimer == index)
            return true;
    }
    return false;
}

static bool entry_has_headers(const struct slow_portals *s, int index) {
    for (int i = 0; i < SLOW_MOST; i++)
        if (s->header_used[i] && s->header[i].entry == index)
            return true;
    return false;
}

static void tell_entry(struct slow_portals *s, struct slow_entry *e, ptl_event_kind_t type) {
    if (e->holds && type != PTL_EVENT_LINK)
        e->holds--;
    tell(s, (ptl_event_t){.type = type,
                          .start = (void *)e->at,
                          .user_ptr = (void *)e->user,
                          .ptl_list = e->list});
}

/* The end of those that are unlinked and no longer needed. */
static void settle(struct slow_portals *s, int index) {
    struct slow_entry *e = &s->entry[index];
    if (!e->used || !e->expired || entry_is_busy(s, index))
        return;
    bool quiet = e->search || e->me.options & PTL_ME_EVENT_UNLINK_DISABLE;
    if (!e->told && !quiet)
        tell_entry(s, e, PTL_EVENT_AUTO_UNLINK);
    e->told = true;
    if (entry_has_headers(s, index))
        return;
    if (e->list == PTL_OVERFLOW_LIST && !quiet)
        tell_entry(s, e, PTL_EVENT_AUTO_FREE);
    e->used = false;
}

static int find_free(struct slow_portals *s) {
    int used = 0, first = -1;
    for (int i = 0; i < SLOW_MOST; i++) {
        used += s->entry[i].used;
        if (!s->entry[i].used && first < 0)
            first = i;
    }
    return used < s->most_entries ? first : -1;
}

static void take_out(struct slow_portals *s, int index) {
    int list = s->entry[index].list, at = 0;
    while (s->list[list][at] != index)
        at++;
    memmove(&s->list[list][at], &s->list[list][at + 1],
            (size_t)(--s->length[list] - at) * sizeof(int));
    s->entry[index].linked = false;
}

static void put_in(struct slow_portals *s, int index) {
    int list = s->entry[index].list, at = 0;
    while (at < s->length[list] && s->entry[s->list[list][at]].appended < s->entry[index].appended)
        at++;
    memmove(&s->list[list][at + 1], &s->list[list][at],
            (size_t)(s->length[list]++ - at) * sizeof(int));
    s->list[list][at] = index;
    s->entry[index].linked = true;
}

static void count(struct slow_portals *s, const struct slow_entry *e, unsigned option,
                  uint64_t bytes, uint8_t fail) {
    if (!(e->me.options & option))
        return;
    if (fail)
        s->failure++;
    else
        s->success += e->me.options & PTL_ME_EVENT_CT_BYTES ? bytes : 1;
}

static bool wants(const struct slow_entry *e, unsigned disable, uint8_t fail) {
    return !(e->me.options & disable) && (fail || !(e->me.options & PTL_ME_EVENT_SUCCESS_DISABLE));
}

/* ---- Unexpected headers ---- */

static void tell_header(struct slow_portals *s, const struct slow_entry *e,
                        const struct slow_header *h, bool as_search) {
    ptl_event_t event = h->event;
    event.user_ptr = (void *)e->user;
    event.start = (void *)h->at;
    if (as_search) {
        event.type = PTL_EVENT_SEARCH;
        event.ni_fail_type = PTL_NI_OK;
    }
    if (wants(e, PTL_ME_EVENT_OVER_DISABLE, event.ni_fail_type))
        tell(s, event);
    count(s, e, PTL_ME_EVENT_CT_OVERFLOW, event.mlength, event.ni_fail_type);
}

static void tell_no_match(struct slow_portals *s, const struct slow_entry *e) {
    if (wants(e, PTL_ME_EVENT_OVER_DISABLE, PTL_NI_NO_MATCH))
        tell(s, (ptl_event_t){.type = PTL_EVENT_SEARCH,
                              .user_ptr = (void *)e->user,
                              .ni_fail_type = PTL_NI_NO_MATCH});
    count(s, e, PTL_ME_EVENT_CT_OVERFLOW, 0, PTL_NI_NO_MATCH);
}

/* Position in the unexpected list of the first at or behind `from` that matches, or -1. */
static int find_header(const struct slow_portals *s, const struct slow_entry *e, int from) {
    for (int i = from; i < s->unexpecteds; i++) {
        const struct slow_header *h = &s->header[s->unexpected[i]];
        if (matches(s, e, h->event.match_bits, h->rank, h->length, h->event.remote_offset))
            return i;
    }
    return -1;
}

static void unlist_header(struct slow_portals *s, int header) {
    for (int i = 0; i < s->unexpecteds; i++)
        if (s->unexpected[i] == header) {
            memmove(&s->unexpected[i], &s->unexpected[i + 1],
                    (size_t)(--s->unexpecteds - i) * sizeof(int));
            return;
        }
}

static void free_header(struct slow_portals *s, int header) {
    int entry = s->header[header].entry;
    unlist_header(s, header);
    s->header_used[header] = false;
    settle(s, entry);
}

/* Takes one header, or all; how many. */
static int claim(struct slow_portals *s, int index) {
    struct slow_entry *e = &s->entry[index];
    int taken = 0, at;
    while ((at = find_header(s, e, 0)) >= 0) {
        int header = s->unexpected[at];
        taken++;
        if (s->header[header].arrived) {
            tell_header(s, e, &s->header[header], false);
            free_header(s, header);
        } else {
            unlist_header(s, header);
            s->header[header].claimer = index;
        }
        if (e->me.options & PTL_ME_USE_ONCE)
            break;
    }
    return taken;
}

/* ---- Calls ---- */

int slow_append(struct slow_portals *s, const ptl_me_t *me, uint64_t at, uint8_t list,
                uint64_t user, int *index) {
    *index = find_free(s);
    if (*index < 0)
        return PTL_NO_SPACE;
    struct slow_entry *e = &s->entry[*index];
    *e = (struct slow_entry){.used = true,
                             .me = *me,
                             .user = user,
                             .room = me->length,
                             .at = at,
                             .list = list,
                             .appended = s->appends++};
    bool found = list == PTL_PRIORITY_LIST && find_header(s, e, 0) >= 0;
    if (found && me->options & PTL_ME_USE_ONCE) {
        claim(s, *index);
        e->expired = true;
        settle(s, *index);
        return PTL_OK;
    }
    if (s->length[list] >= s->most_list) {
        e->used = false;
        return PTL_LIST_TOO_LONG;
    }
    put_in(s, *index);
    if (found)
        claim(s, *index);
    if (!(me->options & PTL_ME_EVENT_LINK_DISABLE))
        tell_entry(s, e, PTL_EVENT_LINK);
    return PTL_OK;
}

int slow_unlink(struct slow_portals *s, int index) {
    struct slow_entry *e = &s->entry[index];
    if (!e->used || e->told)
        return PTL_ARG_INVALID;
    if (entry_is_busy(s, index) || entry_has_headers(s, index) || e->expired)
        return PTL_IN_USE;
    take_out(s, index);
    e->used = false;
    return PTL_OK;
}

int slow_search(struct slow_portals *s, const ptl_me_t *me, bool delete, uint64_t user) {
    int index = find_free(s), found = 0;
    if (index < 0)
        return PTL_NO_SPACE;
    struct slow_entry *e = &s->entry[index];
    *e = (struct slow_entry){
        .used = true, .me = *me, .user = user, .room = me->length, .search = true, .expired = true};
    if (delete) {
        found = claim(s, index);
    } else {
        for (int at = -1; (at = find_header(s, e, at + 1)) >= 0;) {
            tell_header(s, e, &s->header[s->unexpected[at]], true);
            found++;
            if (me->options & PTL_ME_USE_ONCE)
                break;
        }
    }
    if (!found)
        tell_no_match(s, e);
    settle(s, index);
    return PTL_OK;
}

int slow_disable(struct slow_portals *s) {
    s->enabled = false;
    for (int i = 0; i < SLOW_MOST; i++)
        if (s->delivery[i].used && !s->delivery[i].fail)
            return PTL_IN_USE;
    return PTL_OK;
}

void slow_enable(struct slow_portals *s) {
    if (s->flow_control && s->disabled_told) {
        if (!has_room(s, 1))
            s->capacity++;
        s->disabled_told = false;
    }
    s->enabled = true;
}

/* ---- Messages ---- */

static uint8_t exhausted(struct slow_portals *s, const struct slow_entry *e) {
    if (!s->flow_control)
        return PTL_NI_DROPPED;
    s->enabled = false;
    if (!s->disabled_told && !(e && e->me.options & PTL_ME_EVENT_FLOWCTRL_DISABLE)) {
        s->disabled_told = true;
        tell(s, (ptl_event_t){.type = PTL_EVENT_PT_DISABLED, .ni_fail_type = PTL_NI_PT_DISABLED});
    }
    return PTL_NI_PT_DISABLED;
}

static int find_entry(const struct slow_portals *s, int list, const struct nic_message *m) {
    for (int i = 0; i < s->length[list]; i++)
        if (matches(s, &s->entry[s->list[list][i]], m->match_bits, m->source_rank, m->length,
                    m->remote_offset))
            return s->list[list][i];
    return -1;
}

static bool is_atomic(const struct nic_message *m) {
    return m->kind == NIC_ATOMIC || m->kind == NIC_FETCH_ATOMIC;
}

static ptl_event_t event_of(const struct slow_delivery *d, ptl_event_kind_t type) {
    const struct nic_message *m = &d->message;
    ptl_event_t event = {.type = type,
                         .hdr_data = m->hdr_data,
                         .match_bits = m->match_bits,
                         .rlength = m->length,
                         .mlength = d->mlength,
                         .remote_offset = m->remote_offset,
                         .uid = m->uid,
                         .atomic_operation = m->operation,
                         .atomic_type = m->datatype};
    event.initiator.rank = m->source_rank;
    return event;
}

static const ptl_event_kind_t event_kind[] = {[NIC_PUT] = PTL_EVENT_PUT,
                                              [NIC_GET] = PTL_EVENT_GET,
                                              [NIC_ATOMIC] = PTL_EVENT_ATOMIC,
                                              [NIC_FETCH_ATOMIC] = PTL_EVENT_FETCH_ATOMIC};

static uint8_t receive(struct slow_portals *s, struct slow_delivery *d) {
    const struct nic_message *m = &d->message;
    if (!s->enabled)
        return PTL_NI_PT_DISABLED;
    int index = find_entry(s, PTL_PRIORITY_LIST, m);
    if (index < 0)
        index = find_entry(s, PTL_OVERFLOW_LIST, m);
    if (index < 0)
        return exhausted(s, NULL);
    struct slow_entry *e = &s->entry[index];
    bool reads = m->kind == NIC_GET || m->kind == NIC_FETCH_ATOMIC, writes = m->kind != NIC_GET;
    if (e->me.uid != PTL_UID_ANY && e->me.uid != m->uid)
        return PTL_NI_PERM_VIOLATION;
    if ((reads && !(e->me.options & PTL_ME_OP_GET)) || (writes && !(e->me.options & PTL_ME_OP_PUT)))
        return PTL_NI_OP_VIOLATION;
    /* where, and how much of it */
    bool local = e->me.options & PTL_ME_MANAGE_LOCAL;
    d->offset = local ? e->local_offset : m->remote_offset;
    uint64_t room = d->offset < e->room ? e->room - d->offset : 0;
    d->mlength = m->length < room ? m->length : room;
    if (is_atomic(m))
        d->mlength = d->mlength / portals_item_bytes(m->datatype) * portals_item_bytes(m->datatype);
    uint64_t left = local ? room - d->mlength : 0;
    d->expires = e->me.options & PTL_ME_USE_ONCE || (local && left < e->me.min_free);
    /* what it needs */
    int last = 0, own = !(e->me.options & PTL_ME_EVENT_COMM_DISABLE);
    if (d->expires && !(e->me.options & PTL_ME_EVENT_UNLINK_DISABLE))
        last = e->list == PTL_OVERFLOW_LIST ? 2 : 1;
    bool header = e->list == PTL_OVERFLOW_LIST && !(e->me.options & PTL_ME_UNEXPECTED_HDR_DISABLE);
    int headers = 0, free_header_at = -1;
    for (int i = 0; i < SLOW_MOST; i++) {
        headers += s->header_used[i];
        if (!s->header_used[i])
            free_header_at = i;
    }
    if ((s->flow_control && !has_room(s, last + own)) || (header && headers >= s->most_headers))
        return exhausted(s, e);
    /* accepted */
    d->entry = index;
    if (s->flow_control) {
        d->holds = own;
        e->holds = last;
    }
    if (header) {
        s->header_used[free_header_at] = true;
        s->header[free_header_at] = (struct slow_header){
            .event = event_of(d, event_kind[m->kind] + 1),
            .at = e->at + d->offset,
            .length = m->length,
            .rank = m->source_rank,
            .entry = index,
            .claimer = -1,
        };
        s->header[free_header_at].event.ptl_list = PTL_OVERFLOW_LIST;
        s->unexpected[s->unexpecteds++] = free_header_at;
        d->header = free_header_at;
    }
    if (local)
        e->local_offset += d->mlength;
    if (d->expires) {
        take_out(s, index);
        e->expired = true;
    }
    return PTL_NI_OK;
}

int slow_header(struct slow_portals *s, const struct nic_message *m) {
    int number = 0;
    while (s->delivery[number].used)
        number++;
    struct slow_delivery *d = &s->delivery[number];
    *d = (struct slow_delivery){.message = *m, .entry = -1, .header = -1};
    d->fail = receive(s, d); /* not yet used: it holds nothing while room is looked for */
    d->used = true;
    if (d->fail == PTL_NI_DROPPED || d->fail == PTL_NI_PT_DISABLED)
        s->status[PTL_SR_DROP_COUNT]++;
    else if (d->fail == PTL_NI_PERM_VIOLATION)
        s->status[PTL_SR_PERMISSION_VIOLATIONS]++;
    else if (d->fail == PTL_NI_OP_VIOLATION)
        s->status[PTL_SR_OPERATION_VIOLATIONS]++;
    if (d->fail)
        d->offset = d->mlength = 0;
    return number;
}

uint8_t slow_exhausted(struct slow_portals *s, int delivery) {
    struct slow_delivery *d = &s->delivery[delivery];
    return d->fail ? PTL_NI_DROPPED : exhausted(s, &s->entry[d->entry]);
}

static void answer(struct slow_portals *s, const struct slow_delivery *d, uint8_t fail,
                   uint64_t mlength) {
    bool reply = d->message.kind == NIC_GET || d->message.kind == NIC_FETCH_ATOMIC;
    bool mute = !fail && s->entry[d->entry].me.options & PTL_ME_ACK_DISABLE;
    s->answered = reply || d->message.ack_req;
    s->answer = (struct nic_message){
        .kind = reply ? NIC_REPLY : NIC_ACK,
        .fail = fail,
        .length = fail ? 0 : mlength,
        .remote_offset = d->offset,
        .ack_req = reply || mute ? PTL_NO_ACK_REQ : d->message.ack_req,
        .list = d->entry >= 0 ? s->entry[d->entry].list : 0,
        .initiator = d->message.initiator,
    };
}

/* Back where it was. */
static void relink(struct slow_portals *s, const struct slow_delivery *d) {
    struct slow_entry *e = &s->entry[d->entry];
    if (!d->expires)
        return;
    e->holds = 0;
    e->expired = false;
    put_in(s, d->entry);
}

/* Whoever took it waits for another message. */
static void unclaim(struct slow_portals *s, int index) {
    struct slow_entry *e = &s->entry[index];
    if (e->search) {
        tell_no_match(s, e);
        settle(s, index);
    } else if (!(e->me.options & PTL_ME_USE_ONCE)) {
        settle(s, index);
    } else if (find_header(s, e, 0) >= 0) {
        claim(s, index);
        settle(s, index);
    } else {
        e->expired = false;
        bool too_long = s->length[PTL_PRIORITY_LIST] >= s->most_list;
        if (!too_long)
            put_in(s, index);
        if (too_long || !(e->me.options & PTL_ME_EVENT_LINK_DISABLE))
            tell_entry(s, e, PTL_EVENT_LINK);
        if (too_long) {
            if (s->queued)
                s->queue[s->queued - 1].ni_fail_type = PTL_NI_DROPPED;
            e->used = false;
        }
    }
}

static void drop_header(struct slow_portals *s, struct slow_delivery *d) {
    if (d->header < 0)
        return;
    int claimer = s->header[d->header].claimer;
    free_header(s, d->header);
    if (claimer >= 0)
        unclaim(s, claimer);
}

void slow_done(struct slow_portals *s, int delivery, struct portals_ending how) {
    struct slow_delivery *d = &s->delivery[delivery];
    uint8_t fail = d->fail ? d->fail : how.fail;
    uint64_t mlength = how.dropped < d->mlength ? d->mlength - how.dropped : 0;
    answer(s, d, fail, mlength);
    if (d->fail) {
        d->used = false;
        return;
    }
    struct slow_entry *e = &s->entry[d->entry];
    d->holds = false;
    if (how.fail == PTL_NI_DROPPED || how.fail == PTL_NI_PT_DISABLED) {
        if (e->me.options & PTL_ME_MANAGE_LOCAL && e->local_offset == d->offset + d->mlength)
            e->local_offset = d->offset;
        relink(s, d);
        drop_header(s, d);
        s->status[PTL_SR_DROP_COUNT]++;
    } else if (how.pending && !how.fail) {
        relink(s, d);
        drop_header(s, d);
    } else {
        ptl_event_t event = event_of(d, event_kind[d->message.kind]);
        event.start = (void *)(e->at + d->offset);
        event.user_ptr = (void *)e->user;
        event.mlength = mlength;
        event.ni_fail_type = how.fail;
        event.ptl_list = e->list;
        if (wants(e, PTL_ME_EVENT_COMM_DISABLE, how.fail))
            tell(s, event);
        count(s, e, PTL_ME_EVENT_CT_COMM, mlength, how.fail);
        if (d->header >= 0) {
            struct slow_header *h = &s->header[d->header];
            h->arrived = true;
            h->event.mlength = mlength;
            h->event.ni_fail_type = how.fail;
            if (h->claimer >= 0) {
                int claimer = h->claimer;
                tell_header(s, &s->entry[claimer], h, false);
                free_header(s, d->header);
                settle(s, claimer);
            }
        }
    }
    d->used = false;
    settle(s, d->entry);
}
