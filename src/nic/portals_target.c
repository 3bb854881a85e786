/* A message at its target: what it meets, where its bytes go, and what is told of it. */
#include "nic/portals_private.h"

#include <string.h>

/* What a message of a kind needs of an entry, and what it is called when it is done. */
static const struct {
    unsigned permissions;
    ptl_event_kind_t event, overflow_event;
} kinds[] = {
    [NIC_PUT] = {PTL_ME_OP_PUT, PTL_EVENT_PUT, PTL_EVENT_PUT_OVERFLOW},
    [NIC_GET] = {PTL_ME_OP_GET, PTL_EVENT_GET, PTL_EVENT_GET_OVERFLOW},
    [NIC_ATOMIC] = {PTL_ME_OP_PUT, PTL_EVENT_ATOMIC, PTL_EVENT_ATOMIC_OVERFLOW},
    [NIC_FETCH_ATOMIC] = {PTL_ME_OP_PUT | PTL_ME_OP_GET, PTL_EVENT_FETCH_ATOMIC,
                          PTL_EVENT_FETCH_ATOMIC_OVERFLOW},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static bool is_atomic(uint8_t kind) {
    return kind == NIC_ATOMIC || kind == NIC_FETCH_ATOMIC;
}

static struct delivery *delivery_at(struct portals *p, uint32_t number) {
    return pool_find(&p->deliveries, number);
}

const struct portals_delivery *portals_delivery(struct portals *p, uint32_t number) {
    const struct delivery *d = delivery_at(p, number);
    return d ? &d->told : NULL;
}

/* ---- Acceptance ---- */

/* Counts it in a status register, and says what the initiator is told. */
static uint8_t violation(struct portals_ni *ni, ptl_sr_index_t status, uint8_t fail) {
    ni->status[status]++;
    return fail;
}

static uint8_t permission(struct portals_ni *ni, const struct entry *e,
                          const struct nic_message *m) {
    if (e->uid != PTL_UID_ANY && e->uid != m->uid)
        return violation(ni, PTL_SR_PERMISSION_VIOLATIONS, PTL_NI_PERM_VIOLATION);
    unsigned needed = kinds[m->kind].permissions;
    if ((e->options & needed) != needed)
        return violation(ni, PTL_SR_OPERATION_VIOLATIONS, PTL_NI_OP_VIOLATION);
    return PTL_NI_OK;
}

/* What it changes in the entry; true: the entry expires by it. */
static bool take_room(struct delivery *d, struct entry *e) {
    const struct nic_message *m = &d->message;
    uint64_t room = p4_entry_room(e, m, &d->told.offset);
    d->told.mlength = m->length < room ? m->length : room;
    if (is_atomic(m->kind)) /* whole items */
        d->told.mlength -= d->told.mlength % portals_item_bytes(m->datatype);
    if (!(e->options & PTL_ME_MANAGE_LOCAL))
        return e->options & PTL_ME_USE_ONCE;
    e->local_offset += d->told.mlength;
    return e->options & PTL_ME_USE_ONCE || e->memory.length - e->local_offset < e->min_free;
}

static void give_room(const struct delivery *d, struct entry *e) {
    if (e->options & PTL_ME_MANAGE_LOCAL && e->local_offset == d->told.offset + d->told.mlength)
        e->local_offset = d->told.offset;
}

/* Places in the queue for what it will raise, where flow control promises that nothing is lost. */
static bool reserve_events(struct delivery *d, struct entry *e, bool expires) {
    struct portals *p = e->ni->p;
    struct portals_pt *pt = e->pt;
    if (!(pt->options & PTL_PT_FLOWCTRL))
        return true;
    uint32_t last = 0;
    if (expires && !(e->options & PTL_ME_EVENT_UNLINK_DISABLE))
        last = e->list == PTL_OVERFLOW_LIST ? 2 : 1;
    bool own = !(e->options & PTL_ME_EVENT_COMM_DISABLE);
    if (!p4_event_reserve(p, pt->eq, last + own))
        return false;
    e->reserved += last;
    d->reserved = own;
    return true;
}

static ptl_event_t target_event(const struct delivery *d, const struct entry *e,
                                ptl_event_kind_t type) {
    const struct nic_message *m = &d->message;
    return (ptl_event_t){
        .start = p4_memory_address(&e->memory, d->told.offset),
        .user_ptr = e->user_ptr,
        .hdr_data = m->hdr_data,
        .match_bits = m->match_bits,
        .rlength = m->length,
        .mlength = d->told.mlength,
        .remote_offset = m->remote_offset,
        .initiator = p4_initiator_id(e->ni, m->source, m->source_rank),
        .uid = m->uid,
        .pt_index = e->pt->index,
        .type = type,
        .ptl_list = e->list,
        .ni_fail_type = PTL_NI_OK,
        .atomic_operation = m->operation,
        .atomic_type = m->datatype,
    };
}

static bool make_header(struct delivery *d, struct entry *e) {
    struct portals_ni *ni = e->ni;
    struct header *h = pool_take(&ni->headers);
    if (!h)
        return false;
    h->event = target_event(d, e, kinds[d->message.kind].overflow_event);
    h->length = d->message.length;
    h->source = d->message.source;
    h->source_rank = d->message.source_rank;
    h->entry = e;
    if (!p4_header_insert(ni, e->pt, h)) {
        pool_give(&ni->headers, h);
        return false;
    }
    e->headers++;
    d->header = h;
    return true;
}

static uint8_t accept(struct delivery *d, struct entry *e) {
    struct portals_pt *pt = e->pt;
    bool expires = take_room(d, e);
    if (!reserve_events(d, e, expires)) {
        give_room(d, e);
        return p4_table_exhausted(e->ni, pt, e->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
    }
    if (e->list == PTL_OVERFLOW_LIST && !(e->options & PTL_ME_UNEXPECTED_HDR_DISABLE) &&
        !make_header(d, e)) {
        give_room(d, e);
        p4_event_unreserve(e->ni->p, pt->eq, e->reserved + d->reserved);
        e->reserved = d->reserved = 0;
        return p4_table_exhausted(e->ni, pt, e->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
    }
    if (expires) {
        p4_match_remove(e);
        e->expired = d->expires = true;
    }
    e->busy++;
    pt->deliveries++;
    d->entry = e;
    d->told.list = e->list;
    if (e->handlers.image)
        d->told.handlers = &e->handlers;
    return PTL_NI_OK;
}

/* Whether it is accepted, and by what; else why not. */
static uint8_t receive(struct delivery *d, struct portals_ni *ni) {
    const struct nic_message *m = &d->message;
    struct portals_pt *pt = p4_table_entry(ni, m->pt_index);
    if (!pt)
        return PTL_NI_DROPPED;
    if (!pt->enabled)
        return PTL_NI_PT_DISABLED;
    struct entry *e = p4_match_message(ni, pt, PTL_PRIORITY_LIST, m);
    if (!e)
        e = p4_match_message(ni, pt, PTL_OVERFLOW_LIST, m);
    if (!e)
        return p4_table_exhausted(ni, pt, false);
    uint8_t fail = permission(ni, e, m);
    return fail ? fail : accept(d, e);
}

/* Fields that the sender's card made, but that decide what this one does. */
static bool is_sound(const struct nic_message *m) {
    if (m->kind >= KINDS || m->ack_req > PTL_OC_ACK_REQ)
        return false;
    if (!is_atomic(m->kind))
        return true;
    return p4_atomic_is_valid(m->operation, m->datatype);
}

uint32_t portals_header(struct portals *p, const struct nic_message *message) {
    struct delivery *d = pool_take(&p->deliveries);
    if (!d)
        return PORTALS_NONE;
    d->message = *message;
    d->told.kind = message->kind;
    struct portals_ni *ni = p->ni[p4_interface_number(message->interface)];
    if (!ni || ni->closing || !is_sound(message)) {
        d->told.fail = PTL_NI_DROPPED;
    } else {
        d->told.fail = receive(d, ni);
        if (d->told.fail == PTL_NI_OK)
            d->ni = ni;
        else if (d->told.fail == PTL_NI_DROPPED || d->told.fail == PTL_NI_PT_DISABLED)
            ni->status[PTL_SR_DROP_COUNT]++;
    }
    if (d->told.fail)
        d->told.mlength = d->told.offset = 0;
    return d->slot.index;
}

/* ---- Data ---- */

uint32_t portals_delivery_segments(struct portals *p, uint32_t number, uint64_t offset,
                                   uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct delivery *d = delivery_at(p, number);
    if (!d || !d->ni || offset >= d->told.mlength)
        return 0;
    if (length > d->told.mlength - offset)
        length = d->told.mlength - offset;
    return p4_memory_segments(&d->entry->memory, d->told.offset + offset, length, segments, room);
}

uint32_t portals_entry_segments(struct portals *p, uint32_t number, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct delivery *d = delivery_at(p, number);
    return d && d->ni ? p4_memory_segments(&d->entry->memory, offset, length, segments, room) : 0;
}

uint32_t portals_handler_segments(struct portals *p, uint32_t number, uint64_t offset,
                                  uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct delivery *d = delivery_at(p, number);
    return d && d->ni
               ? p4_memory_segments(&d->entry->handler_memory, offset, length, segments, room)
               : 0;
}

uint64_t portals_entry_bytes(struct portals *p, uint32_t number) {
    const struct delivery *d = delivery_at(p, number);
    return d && d->ni ? d->entry->memory.length : 0;
}

/* An item that lies in several pieces of memory. */
static void move_item(const struct memory *m, uint64_t offset, uint8_t *item, uint32_t bytes,
                      bool out) {
    struct nic_segment s;
    for (uint32_t done = 0; done < bytes; done += (uint32_t)s.bytes) {
        p4_memory_segments(m, offset + done, bytes - done, &s, 1);
        if (out)
            memcpy(item + done, s.host, s.bytes);
        else
            memcpy(s.host, item + done, s.bytes);
    }
}

void portals_apply(struct portals *p, uint32_t number, uint64_t offset, const uint8_t *data,
                   uint64_t length, uint8_t *before) {
    const struct delivery *d = delivery_at(p, number);
    if (!d || !d->ni || !is_atomic(d->message.kind))
        return;
    const struct nic_message *m = &d->message;
    uint32_t bytes = portals_item_bytes(m->datatype);
    struct nic_segment s;
    uint64_t done = 0;
    while (length - done >= bytes &&
           portals_delivery_segments(p, number, offset + done, length - done, &s, 1)) {
        uint64_t whole = s.bytes - s.bytes % bytes;
        uint8_t item[32];
        uint8_t *target = s.host;
        if (!whole) {
            whole = bytes;
            target = item;
            move_item(&d->entry->memory, d->told.offset + offset + done, item, bytes, true);
        }
        if (before)
            memcpy(before + done, target, whole);
        p4_atomic_apply(m->operation, m->datatype, target, data + done, m->operand, whole);
        if (target == item)
            move_item(&d->entry->memory, d->told.offset + offset + done, item, bytes, false);
        done += whole;
    }
}

/* ---- Answers ---- */

static bool wants_reply(const struct delivery *d) {
    return d->message.kind == NIC_GET || d->message.kind == NIC_FETCH_ATOMIC;
}

static void answer(struct portals *p, const struct delivery *d, uint8_t kind, uint8_t ack_req,
                   uint8_t fail, uint64_t mlength, uint64_t payload, void *origin) {
    const struct nic_message *m = &d->message;
    struct nic_message a = {
        .kind = kind,
        .interface = m->interface,
        .ack_req = ack_req,
        .fail = fail,
        .list = d->told.list,
        .uid = p->config.uid,
        .source = p->config.address,
        .target = m->source,
        .source_rank = m->target_rank,
        .target_rank = m->source_rank,
        .pt_index = m->pt_index,
        .remote_offset = d->told.offset,
        .length = mlength,
        .payload = payload,
        .initiator = m->initiator,
    };
    p->owner.send(p->owner.context, &a, payload ? d->slot.index : PORTALS_NONE, origin);
}

void portals_reply(struct portals *p, uint32_t number, void *origin) {
    struct delivery *d = delivery_at(p, number);
    if (!d || d->told.fail || !wants_reply(d) || d->replied)
        return;
    d->replied = true;
    answer(p, d, NIC_REPLY, PTL_NO_ACK_REQ, PTL_NI_OK, d->told.mlength, d->told.mlength, origin);
}

/* An acknowledgement as it was asked for, or a reply without data. An entry that disables
 * acknowledgements still lets the initiator's card forget the operation: one that tells nobody. */
static void answer_ending(struct portals *p, const struct delivery *d, uint8_t fail,
                          uint64_t mlength) {
    uint8_t ack_req = d->message.ack_req;
    if (wants_reply(d)) {
        if (!d->replied)
            answer(p, d, NIC_REPLY, PTL_NO_ACK_REQ, fail, fail ? 0 : mlength, 0, NULL);
    } else if (ack_req != PTL_NO_ACK_REQ) {
        if (!fail && d->entry && d->entry->options & PTL_ME_ACK_DISABLE)
            ack_req = PTL_NO_ACK_REQ;
        answer(p, d, NIC_ACK, ack_req, fail, fail ? 0 : mlength, 0, NULL);
    }
}

/* ---- The end ---- */

/* Back into the list, where this message took it out. */
static void relink(struct delivery *d) {
    struct entry *e = d->entry;
    if (!d->expires || e->silent)
        return;
    p4_event_unreserve(e->ni->p, e->pt->eq, e->reserved);
    e->reserved = 0;
    e->expired = false;
    p4_match_insert(e); /* needs no memory: it was there before */
}

/* As if it had never matched. */
static void take_back(struct delivery *d) {
    give_room(d, d->entry);
    relink(d);
    if (d->header)
        p4_header_drop(d->header);
}

static void tell(struct delivery *d, uint64_t mlength, uint8_t fail) {
    struct entry *e = d->entry;
    ptl_event_t event = target_event(d, e, kinds[d->message.kind].event);
    event.mlength = mlength;
    event.ni_fail_type = fail;
    if (p4_entry_wants(e, PTL_ME_EVENT_COMM_DISABLE, fail))
        p4_event_push(e->ni->p, e->pt->eq, &event);
    p4_entry_count(e, PTL_ME_EVENT_CT_COMM, mlength, fail);
    if (d->header)
        p4_header_arrived(d->header, mlength, fail);
}

static void end_entry(struct portals *p, struct delivery *d, struct portals_ending how,
                      uint64_t mlength) {
    struct entry *e = d->entry;
    struct portals_pt *pt = e->pt;
    struct portals_ni *ni = d->ni;
    if (d->reserved)
        p4_event_unreserve(p, pt->eq, 1);
    if (how.fail == PTL_NI_DROPPED || how.fail == PTL_NI_PT_DISABLED) {
        take_back(d);
        ni->status[PTL_SR_DROP_COUNT]++;
    } else if (how.pending && how.fail == PTL_NI_OK) {
        relink(d);
        if (d->header)
            p4_header_drop(d->header);
    } else {
        tell(d, mlength, how.fail);
    }
    pt->deliveries--;
    if (!pt->enabled && !pt->deliveries)
        p->owner.raised(p->owner.context); /* PtlPTDisable waits for it */
    p4_entry_release(e);
}

void portals_done(struct portals *p, uint32_t number, struct portals_ending how) {
    struct delivery *d = delivery_at(p, number);
    if (!d)
        return;
    uint8_t fail = d->told.fail ? d->told.fail : how.fail;
    uint64_t mlength =
        d->told.mlength - (how.dropped < d->told.mlength ? how.dropped : d->told.mlength);
    if (!d->told.fail && !d->ni) /* closed meanwhile */
        fail = PTL_NI_DROPPED;
    p4_trigger_hold(p);
    answer_ending(p, d, fail, mlength);
    struct portals_ni *ni = d->ni;
    if (ni)
        end_entry(p, d, how, mlength);
    pool_give(&p->deliveries, d);
    p4_closing_progress(p, ni);
    p4_trigger_release(p);
}

uint8_t portals_exhausted(struct portals *p, uint32_t number) {
    struct delivery *d = delivery_at(p, number);
    if (!d || !d->ni)
        return PTL_NI_DROPPED;
    return p4_table_exhausted(d->ni, d->entry->pt,
                              d->entry->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
}

bool p4_delivery_moves(struct portals_ni *ni) {
    struct pool *pool = &ni->p->deliveries;
    for (uint32_t i = 0; i < pool->made; i++) {
        const struct delivery *d = pool_find(pool, i);
        if (d && d->ni == ni)
            return true;
    }
    return false;
}

void p4_delivery_forget(struct portals_ni *ni) {
    struct pool *pool = &ni->p->deliveries;
    for (uint32_t i = 0; i < pool->made; i++) {
        struct delivery *d = pool_find(pool, i);
        if (!d || d->ni != ni)
            continue;
        d->ni = NULL;
        d->entry = NULL;
        d->header = NULL;
        d->told.handlers = NULL;
    }
}
