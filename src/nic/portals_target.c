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

/* ---- Acceptance ---- */

/* Counts it in a status register, and says what the initiator is told. */
static uint8_t violation(struct portals_ni *ni, ptl_sr_index_t status, uint8_t fail) {
    ni->status[status]++;
    return fail;
}

static uint8_t permission(struct portals_ni *ni, const struct portals_entry *e,
                          const struct nic_message *m) {
    if (e->uid != PTL_UID_ANY && e->uid != m->uid)
        return violation(ni, PTL_SR_PERMISSION_VIOLATIONS, PTL_NI_PERM_VIOLATION);
    unsigned needed = kinds[m->kind].permissions;
    if ((e->options & needed) != needed)
        return violation(ni, PTL_SR_OPERATION_VIOLATIONS, PTL_NI_OP_VIOLATION);
    return PTL_NI_OK;
}

/* What it changes in the entry; true: the entry expires by it. */
static bool take_room(struct portals_arrival *a, struct portals_entry *e) {
    const struct nic_message *m = a->message;
    uint64_t room = p4_entry_room(e, m, &a->offset);
    a->mlength = m->length < room ? m->length : room;
    if (is_atomic(m->kind)) /* whole items */
        a->mlength -= a->mlength % portals_item_bytes(m->datatype);
    if (!(e->options & PTL_ME_MANAGE_LOCAL))
        return e->options & PTL_ME_USE_ONCE;
    e->local_offset += a->mlength;
    return e->options & PTL_ME_USE_ONCE || e->memory.length - e->local_offset < e->min_free;
}

static void give_room(const struct portals_arrival *a, struct portals_entry *e) {
    if (e->options & PTL_ME_MANAGE_LOCAL && e->local_offset == a->offset + a->mlength)
        e->local_offset = a->offset;
}

/* Places in the queue for what it will raise, where flow control promises that nothing is lost. */
static bool reserve_events(struct portals_arrival *a, struct portals_entry *e, bool expires) {
    struct portals_pt *pt = e->pt;
    if (!(pt->options & PTL_PT_FLOWCTRL))
        return true;
    uint32_t last = 0;
    if (expires && !(e->options & PTL_ME_EVENT_UNLINK_DISABLE))
        last = e->list == PTL_OVERFLOW_LIST ? 2 : 1;
    bool own = !(e->options & PTL_ME_EVENT_COMM_DISABLE);
    if (!p4_event_reserve(e->ni->p, pt->eq, last + own))
        return false;
    e->reserved += last;
    a->reserved = own;
    return true;
}

static inline void fill_event(ptl_event_t *event, const struct nic_message *m, void *start,
                              const struct portals_entry *e, ptl_event_kind_t type,
                              uint64_t mlength, uint8_t fail) {
    event->start = start;
    event->user_ptr = e->user_ptr;
    event->hdr_data = m->hdr_data;
    event->match_bits = m->match_bits;
    event->rlength = m->length;
    event->mlength = mlength;
    event->remote_offset = m->remote_offset;
    event->initiator = p4_initiator_id(e->ni, m->source, m->source_rank);
    event->uid = m->uid;
    event->pt_index = e->pt->index;
    event->type = type;
    event->ptl_list = e->list;
    event->ni_fail_type = fail;
    event->atomic_operation = m->operation;
    event->atomic_type = m->datatype;
}

static bool make_header(struct portals_arrival *a, struct portals_entry *e) {
    struct portals_ni *ni = e->ni;
    struct portals_header *h = pool_take(&ni->headers);
    if (!h)
        return false;
    fill_event(&h->event, a->message, p4_memory_address(&e->memory, a->offset), e,
               kinds[a->message->kind].overflow_event, a->mlength, PTL_NI_OK);
    h->length = a->message->length;
    h->source = a->message->source;
    h->source_rank = a->message->source_rank;
    h->entry = e;
    if (!p4_header_insert(ni, e->pt, h)) {
        pool_give(&ni->headers, h);
        return false;
    }
    e->headers++;
    a->header = h;
    return true;
}

static void take(struct portals_arrival *a, struct portals_entry *e) {
    e->busy++;
    e->pt->arrivals++;
    a->entry = e;
    a->data = p4_memory_whole(&e->memory, a->offset);
    a->list = e->list;
}

static uint8_t accept_message(struct portals_arrival *a, struct portals_entry *e) {
    struct portals_pt *pt = e->pt;
    bool expires = take_room(a, e);
    if (!reserve_events(a, e, expires)) {
        give_room(a, e);
        return p4_table_exhausted(e->ni, pt, e->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
    }
    if (e->list == PTL_OVERFLOW_LIST && !(e->options & PTL_ME_UNEXPECTED_HDR_DISABLE) &&
        !make_header(a, e)) {
        give_room(a, e);
        p4_event_unreserve(pt->eq, e->reserved + a->reserved);
        e->reserved = a->reserved = 0;
        return p4_table_exhausted(e->ni, pt, e->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
    }
    if (expires) {
        p4_match_remove(e);
        e->expired = a->expires = true;
    }
    take(a, e);
    if (e->handlers.image)
        a->handlers = &e->handlers;
    return PTL_NI_OK;
}

/* Whether it is accepted, and by what; else why not. */
static uint8_t receive(struct portals_arrival *a, struct portals_ni *ni,
                       struct portals_entry *met) {
    const struct nic_message *m = a->message;
    struct portals_pt *pt = p4_table_entry(ni, m->pt_index);
    if (!pt)
        return PTL_NI_DROPPED;
    if (!pt->enabled)
        return PTL_NI_PT_DISABLED;
    struct portals_entry *e = met ? met : p4_match_message(ni, &pt->list[PTL_PRIORITY_LIST], m);
    if (!e)
        e = p4_match_message(ni, &pt->list[PTL_OVERFLOW_LIST], m);
    if (!e)
        return p4_table_exhausted(ni, pt, false);
    uint8_t fail = permission(ni, e, m);
    return fail ? fail : accept_message(a, e);
}

/* Fields that the sender's card made, but that decide what this one does. */
static bool is_sound(const struct nic_message *m) {
    if (m->kind >= KINDS || m->ack_req > PTL_OC_ACK_REQ)
        return false;
    if (!is_atomic(m->kind))
        return true;
    return p4_atomic_is_valid(m->operation, m->datatype);
}

void portals_header(struct portals *p, const struct nic_message *message, struct portals_arrival *a,
                    struct portals_entry *met) {
    struct portals_ni *ni = p->ni[p4_interface_number(message->interface)];
    a->kind = message->kind;
    a->message = message;
    a->list = a->reserved = a->expires = a->replied = false;
    a->mlength = a->offset = 0;
    a->data = NULL;
    a->handlers = NULL;
    a->ni = NULL;
    a->entry = NULL;
    a->header = NULL;
    a->link = NULL;
    if (!ni || ni->closing || !is_sound(message)) {
        a->fail = PTL_NI_DROPPED;
        return;
    }
    a->fail = receive(a, ni, met);
    if (a->fail == PTL_NI_OK) {
        a->ni = ni;
        return;
    }
    a->mlength = a->offset = 0;
    if (a->fail == PTL_NI_DROPPED || a->fail == PTL_NI_PT_DISABLED)
        ni->status[PTL_SR_DROP_COUNT]++;
}

void portals_arrival_keep(struct portals_arrival *to, const struct portals_arrival *from,
                          const struct nic_message *message) {
    *to = *from;
    to->message = message;
    if (!to->ni)
        return;
    to->next = to->ni->arrivals;
    to->link = &to->ni->arrivals;
    if (to->next)
        to->next->link = &to->next;
    to->ni->arrivals = to;
}

static void unlink_kept(struct portals_arrival *a) {
    if (!a->link)
        return;
    *a->link = a->next;
    if (a->next)
        a->next->link = a->link;
    a->link = NULL;
}

/* ---- Data ---- */

uint32_t portals_arrival_segments(const struct portals_arrival *a, uint64_t offset, uint64_t length,
                                  struct nic_segment *segments, uint32_t room) {
    if (!a->ni || offset >= a->mlength)
        return 0;
    if (length > a->mlength - offset)
        length = a->mlength - offset;
    return p4_memory_segments(&a->entry->memory, a->offset + offset, length, segments, room);
}

uint32_t portals_entry_segments(const struct portals_arrival *a, uint64_t offset, uint64_t length,
                                struct nic_segment *segments, uint32_t room) {
    return a->ni ? p4_memory_segments(&a->entry->memory, offset, length, segments, room) : 0;
}

uint32_t portals_handler_segments(const struct portals_arrival *a, uint64_t offset, uint64_t length,
                                  struct nic_segment *segments, uint32_t room) {
    return a->ni ? p4_memory_segments(&a->entry->handler_memory, offset, length, segments, room)
                 : 0;
}

uint64_t portals_entry_bytes(const struct portals_arrival *a) {
    return a->ni ? a->entry->memory.length : 0;
}

static struct nic_segment whole(const struct portals_area *m) {
    return (struct nic_segment){m->start, m->piece ? 0 : m->length};
}

void portals_whole_memory(const struct portals_arrival *a, struct nic_segment *entry,
                          struct nic_segment *handler) {
    *entry = *handler = (struct nic_segment){NULL, 0};
    if (!a->ni || a->ni->p->memory)
        return;
    *entry = whole(&a->entry->memory);
    *handler = whole(&a->entry->handler_memory);
}

struct copy {
    uint8_t *items;
    uint64_t bytes;
};

static void copy_out(void *argument, uint8_t *host) {
    const struct copy *c = argument;
    memcpy(c->items, host, c->bytes);
}

static void copy_in(void *argument, uint8_t *host) {
    const struct copy *c = argument;
    memcpy(host, c->items, c->bytes);
}

/* Items that lie in several pieces of memory, or not in ours. */
static bool move_items(const struct portals_arrival *a, uint64_t offset, uint8_t *items,
                       uint64_t bytes, bool out) {
    const struct portals *p = a->ni->p;
    struct nic_segment s;
    bool good = true;
    for (uint64_t done = 0; done < bytes && good; done += s.bytes) {
        p4_memory_segments(&a->entry->memory, a->offset + offset + done, bytes - done, &s, 1);
        struct copy copy = {items + done, s.bytes};
        if (p->memory)
            good = out ? p4_host_read(p, copy.items, s.host, s.bytes)
                       : p4_host_write(p, s.host, copy.items, s.bytes);
        else
            good = p4_host_use(p, s.host, s.bytes, out ? copy_out : copy_in, &copy);
    }
    return good;
}

/* Whole items in one piece of memory. */
struct atomic {
    const struct nic_message *message;
    const uint8_t *data;
    uint64_t bytes;
    uint8_t *before;
};

static void perform(void *argument, uint8_t *target) {
    const struct atomic *a = argument;
    const struct nic_message *m = a->message;
    p4_atomic_apply(m->operation, m->datatype, target, a->data, m->operand, a->bytes, a->before);
}

bool portals_apply(const struct portals_arrival *a, uint64_t offset, const uint8_t *data,
                   uint64_t length, uint8_t *before) {
    if (!a->ni || !is_atomic(a->message->kind))
        return true;
    const struct portals *p = a->ni->p;
    uint32_t bytes = portals_item_bytes(a->message->datatype);
    struct nic_segment s;
    bool good = true;
    for (uint64_t done = 0; good && length - done >= bytes &&
                            portals_arrival_segments(a, offset + done, length - done, &s, 1);) {
        uint8_t items[512];
        uint64_t whole = s.bytes - s.bytes % bytes;
        bool in_place = whole && !p->memory;
        if (!in_place)
            whole = !whole ? bytes : whole < sizeof items ? whole : sizeof items;
        struct atomic one = {a->message, data + done, whole, before ? before + done : NULL};
        if (in_place) {
            good = p4_host_use(p, s.host, whole, perform, &one);
        } else if ((good = move_items(a, offset + done, items, whole, true))) {
            perform(&one, items);
            good = move_items(a, offset + done, items, whole, false);
        }
        done += whole;
    }
    return good;
}

/* ---- Answers ---- */

static bool wants_reply(const struct portals_arrival *a) {
    return a->message->kind == NIC_GET || a->message->kind == NIC_FETCH_ATOMIC;
}

/* What an answer says. */
struct answer {
    uint8_t kind, ack_req, fail, list;
    uint64_t offset, mlength, payload;
    uint8_t *data;
    struct portals_arrival *arrival;
    void *origin;
};

static inline void answer(struct portals *p, const struct nic_message *to, const struct answer *a) {
    struct portals_outgoing out; /* of an answer Portals has nothing of its own in it */
    struct nic_message own;
    out.target = to->source;
    out.payload = a->payload;
    out.data = a->data;
    out.arrival = a->arrival;
    out.origin = a->origin;
    struct nic_message *m = p4_message_place(p, &out, &own);
    m->kind = a->kind;
    m->interface = to->interface;
    m->ack_req = a->ack_req;
    m->operation = m->datatype = 0;
    m->fail = a->fail;
    m->list = a->list;
    m->uid = p->config.uid;
    m->source = p->config.address;
    m->target = to->source;
    m->source_rank = to->target_rank;
    m->target_rank = to->source_rank;
    m->pt_index = to->pt_index;
    m->match_bits = m->hdr_data = 0;
    m->remote_offset = a->offset;
    m->length = a->mlength;
    m->payload = a->payload;
    m->initiator = to->initiator;
    p->owner.send(p->owner.context, &out);
}

void portals_reply(struct portals *p, struct portals_arrival *a, void *origin) {
    if (a->fail || !wants_reply(a) || a->replied)
        return;
    a->replied = true;
    const struct answer reply = {.kind = NIC_REPLY,
                                 .ack_req = PTL_NO_ACK_REQ,
                                 .list = a->list,
                                 .offset = a->offset,
                                 .mlength = a->mlength,
                                 .payload = a->mlength,
                                 .data = a->mlength ? a->data : NULL,
                                 .arrival = a->mlength ? a : NULL,
                                 .origin = origin};
    answer(p, a->message, &reply);
}

/* An acknowledgement as it was asked for, or a reply without data. An entry that disables
 * acknowledgements (`silent`) still lets the initiator's card forget the operation: one that tells
 * nobody. */
static void answer_ending(struct portals *p, struct portals_arrival *a, uint8_t fail,
                          uint64_t mlength, bool silent) {
    struct answer said = {.kind = NIC_ACK,
                          .ack_req = a->message->ack_req,
                          .fail = fail,
                          .list = a->list,
                          .offset = a->offset,
                          .mlength = fail ? 0 : mlength};
    if (wants_reply(a)) {
        said.kind = NIC_REPLY;
        said.ack_req = PTL_NO_ACK_REQ;
        if (!a->replied)
            answer(p, a->message, &said);
    } else if (said.ack_req != PTL_NO_ACK_REQ) {
        if (!fail && silent)
            said.ack_req = PTL_NO_ACK_REQ;
        answer(p, a->message, &said);
    }
}

/* ---- The end ---- */

/* Back into the list, where this message took it out. */
static void relink(struct portals_arrival *a) {
    struct portals_entry *e = a->entry;
    if (!a->expires || e->silent)
        return;
    p4_event_unreserve(e->pt->eq, e->reserved);
    e->reserved = 0;
    e->expired = false;
    p4_match_insert(e); /* needs no memory: it was there before */
}

/* As if it had never matched. */
static void take_back(struct portals_arrival *a) {
    give_room(a, a->entry);
    relink(a);
    if (a->header)
        p4_header_drop(a->header);
}

/* The event of a message, and its count. */
static inline __attribute__((always_inline)) void tell(struct portals *p, struct portals_entry *e,
                                                       const struct nic_message *m, uint8_t kind,
                                                       void *start, uint64_t mlength,
                                                       uint8_t fail) {
    if (p4_entry_wants(e, PTL_ME_EVENT_COMM_DISABLE, fail)) {
        ptl_event_t *event = p4_event_new(p, e->pt->eq);
        if (event)
            fill_event(event, m, start, e, kinds[kind].event, mlength, fail);
    }
    p4_entry_count(p, e, PTL_ME_EVENT_CT_COMM, mlength, fail);
}

static inline __attribute__((always_inline)) void end_entry(struct portals *p,
                                                            struct portals_arrival *a,
                                                            struct portals_ending how,
                                                            uint64_t mlength) {
    struct portals_entry *e = a->entry;
    struct portals_pt *pt = e->pt;
    struct portals_ni *ni = a->ni;
    if (a->reserved)
        p4_event_unreserve(pt->eq, 1);
    if (how.fail == PTL_NI_DROPPED || how.fail == PTL_NI_PT_DISABLED) {
        take_back(a);
        ni->status[PTL_SR_DROP_COUNT]++;
    } else if (how.pending && how.fail == PTL_NI_OK) {
        relink(a);
        if (a->header)
            p4_header_drop(a->header);
    } else {
        tell(p, e, a->message, a->kind, p4_memory_address(&e->memory, a->offset), mlength,
             how.fail);
        ni->failed += how.fail != PTL_NI_OK; /* the entry may have neither events nor a counter */
        if (a->header)
            p4_header_arrived(a->header, mlength, how.fail);
    }
    pt->arrivals--;
    if (!pt->enabled && !pt->arrivals)
        p->news = true; /* PtlPTDisable waits for it */
    p4_entry_release(e);
}

static inline __attribute__((always_inline)) void done(struct portals *p, struct portals_arrival *a,
                                                       struct portals_ending how) {
    uint8_t fail = a->fail ? a->fail : how.fail;
    uint64_t mlength = a->mlength - (how.dropped < a->mlength ? how.dropped : a->mlength);
    struct portals_ni *ni = a->ni;
    if (!a->fail && !ni) /* closed meanwhile */
        fail = PTL_NI_DROPPED;
    bool silent = a->entry && a->entry->options & PTL_ME_ACK_DISABLE;
    p4_trigger_hold(p);
    if (ni) /* first: whoever has the acknowledgement may look at once what the target was told */
        end_entry(p, a, how, mlength);
    answer_ending(p, a, fail, mlength, silent);
    unlink_kept(a);
    p4_closing_progress(p, ni);
    p4_trigger_release(p);
}

void portals_done(struct portals *p, struct portals_arrival *a, struct portals_ending how) {
    if (!(how.fail | how.pending) && !how.dropped) /* most: the compiler leaves out the rest */
        done(p, a, (struct portals_ending){0});
    else
        done(p, a, how);
}

/* ---- Plain puts ---- */

void portals_plain_keep(struct portals_arrival *to, const struct portals_plain *plain,
                        const struct nic_message *message) {
    const struct portals_arrival a = {.kind = message->kind,
                                      .mlength = plain->mlength,
                                      .offset = message->remote_offset,
                                      .message = message,
                                      .ni = plain->entry->ni};
    portals_arrival_keep(to, &a, message);
    take(to, plain->entry);
}

static inline __attribute__((always_inline)) void plain_done(struct portals *p,
                                                             const struct nic_message *m,
                                                             const struct portals_plain *plain,
                                                             uint8_t fail) {
    struct portals_entry *e = plain->entry;
    uint8_t ack_req = m->ack_req;
    p4_trigger_hold(p);
    tell(p, e, m, NIC_PUT, plain->data, plain->mlength, fail); /* first, as in `done` */
    if (ack_req != PTL_NO_ACK_REQ) {
        if (!fail && e->options & PTL_ME_ACK_DISABLE)
            ack_req = PTL_NO_ACK_REQ;
        const struct answer said = {.kind = NIC_ACK,
                                    .ack_req = ack_req,
                                    .fail = fail,
                                    .list = PTL_PRIORITY_LIST,
                                    .offset = m->remote_offset,
                                    .mlength = fail ? 0 : plain->mlength};
        answer(p, m, &said);
    }
    p4_trigger_release(p);
}

static __attribute__((noinline)) void plain_failed(struct portals *p, const struct nic_message *m,
                                                   const struct portals_plain *plain,
                                                   uint8_t fail) {
    plain_done(p, m, plain, fail);
}

void portals_plain_done(struct portals *p, const struct nic_message *m,
                        const struct portals_plain *plain, uint8_t fail) {
    if (fail)
        plain_failed(p, m, plain, fail);
    else
        plain_done(p, m, plain, PTL_NI_OK); /* the compiler leaves out the rest */
}

uint8_t portals_exhausted(const struct portals_arrival *a) {
    if (!a->ni)
        return PTL_NI_DROPPED;
    return p4_table_exhausted(a->ni, a->entry->pt,
                              a->entry->options & PTL_ME_EVENT_FLOWCTRL_DISABLE);
}

void p4_arrival_forget(struct portals_ni *ni) {
    for (struct portals_arrival *a; (a = ni->arrivals);) {
        unlink_kept(a);
        a->ni = NULL;
        a->entry = NULL;
        a->header = NULL;
        a->handlers = NULL;
        a->data = NULL;
    }
}
