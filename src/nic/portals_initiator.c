/* Operations of an initiator: from the call, a counter or a handler to the last event.
 *
 *     put, atomic    SEND, then ACK if asked for
 *     get            REPLY
 *     fetch, swap    SEND to the descriptor that gives, REPLY to the one that takes
 *
 * An operation lives until its last event: on the stack of its call if that is the SEND and the
 * owner sends at once, else in a record. A record's number has a generation, so an answer that
 * comes twice, or to an operation of an earlier life, meets nothing.
 */
#include "nic/portals_private.h"

#include <stdlib.h>
#include <string.h>

/* ---- Checks ---- */

static bool fits(const struct portals_area *m, uint64_t offset, uint64_t length) {
    return offset <= m->length && length <= m->length - offset;
}

static bool target_is_valid(const struct portals_ni *ni, ptl_process_t target) {
    if (ni->options & PTL_NI_LOGICAL)
        return target.rank < ni->map_size;
    return target.phys.pid != PTL_PID_ANY;
}

static bool is_swap(uint8_t operation) {
    return operation >= PTL_SWAP;
}

static int check_atomic(const struct portals_ni *ni, const struct portals_request *r) {
    uint64_t most =
        r->kind == PORTALS_ATOMIC ? ni->limits.max_atomic_size : ni->limits.max_fetch_atomic_size;
    uint32_t bytes = portals_item_bytes(r->datatype);
    if (!p4_atomic_is_valid(r->operation, r->datatype) ||
        is_swap(r->operation) != (r->kind == PORTALS_SWAP) || r->length > most || r->length % bytes)
        return PTL_ARG_INVALID;
    /* conditional and masked swaps are of one item */
    if (r->operation > PTL_SWAP && r->length != bytes)
        return PTL_ARG_INVALID;
    return PTL_OK;
}

static bool sends_data(uint8_t kind) {
    return kind != PORTALS_GET;
}

static bool takes_data(uint8_t kind) {
    return kind == PORTALS_GET || kind == PORTALS_FETCH_ATOMIC || kind == PORTALS_SWAP;
}

static inline __attribute__((always_inline)) struct portals_descriptor *
find_descriptor(struct portals *p, struct portals_ni **ni, ptl_handle_md_t handle, uint64_t offset,
                uint64_t length) {
    struct portals_ni *of = NULL;
    struct portals_descriptor *md = p4_object_of(p, HANDLE_MD, handle, &of);
    if (!md || (*ni && of != *ni) || !fits(&md->memory, offset, length))
        return NULL;
    *ni = of;
    return md;
}

/* An acknowledgement needs a place to be told at. */
static bool ack_is_valid(const struct portals_descriptor *md, ptl_ack_req_t ack_req) {
    return ack_req <= PTL_OC_ACK_REQ &&
           (ack_req != PTL_ACK_REQ || md->sink.eq.handle != PTL_EQ_NONE) &&
           (ack_req != PTL_CT_ACK_REQ || md->sink.ct.handle != PTL_CT_NONE);
}

static bool is_too_volatile(const struct portals_ni *ni, const struct portals_descriptor *md,
                            uint64_t length) {
    return ni->volatile_is_limited && (md->sink.options & PTL_MD_VOLATILE) &&
           length > ni->limits.max_volatile_size;
}

static inline __attribute__((always_inline)) int check_movement(struct portals *p,
                                                                const struct portals_request *r,
                                                                uint8_t kind,
                                                                struct portals_movement *n) {
    struct portals_ni *ni = NULL;
    struct portals_descriptor *md = NULL, *get_md = NULL;
    if (sends_data(kind)) {
        md = find_descriptor(p, &ni, r->md, r->local_offset, r->length);
        if (!md || (!takes_data(kind) && !ack_is_valid(md, r->ack_req)) ||
            is_too_volatile(ni, md, r->length))
            return PTL_ARG_INVALID;
    }
    if (takes_data(kind) &&
        !(get_md = find_descriptor(p, &ni, r->get_md, r->get_offset, r->length)))
        return PTL_ARG_INVALID;
    if (r->length > ni->limits.max_msg_size || !target_is_valid(ni, r->target))
        return PTL_ARG_INVALID;
    n->ni = ni;
    n->md = md;
    n->get_md = get_md;
    return kind >= PORTALS_ATOMIC ? check_atomic(ni, r) : PTL_OK;
}

int p4_request_check(struct portals *p, const struct portals_request *r, struct portals_ni **ni) {
    *ni = NULL;
    switch (r->kind) {
    case PORTALS_CT_INC:
        if (!p4_increment_is_valid(r->ct_value))
            return PTL_ARG_INVALID;
        /* fall through */
    case PORTALS_CT_SET:
        return p4_object_of(p, HANDLE_CT, r->ct, ni) ? PTL_OK : PTL_ARG_INVALID;
    case PORTALS_ME_UNLINK: {
        const struct portals_entry *e = p4_object_of(p, HANDLE_ME, r->me, ni);
        return e && e->is_matching ? PTL_OK : PTL_ARG_INVALID;
    }
    default: {
        struct portals_movement n = {.ni = NULL};
        int code = check_movement(p, r, r->kind, &n);
        *ni = n.ni;
        return code;
    }
    }
}

/* ---- Operations ---- */

static struct portals_operation *operation_at(struct portals *p, uint64_t number) {
    return pool_named(&p->operations, number);
}

static bool copy_is_small(uint64_t length) {
    return length <= OPERATION_COPY_BYTES;
}

static void free_copy(struct portals_operation *o) {
    if (!copy_is_small(o->of.length))
        free(o->of.copy);
}

void p4_operations_clear(struct portals *p) {
    for (uint32_t i = 0; i < p->operations.made; i++) {
        struct portals_operation *o = pool_find(&p->operations, i);
        if (o)
            free_copy(o);
    }
    pool_clear(&p->operations);
}

/* What few have: a copy of the data, a descriptor that takes data, an entry whose handler it is of.
 */
static __attribute__((noinline)) void keep_more(struct portals_operation *o,
                                                const struct portals_sink *get_sink) {
    if (o->of.copy && copy_is_small(o->of.length))
        o->of.copy = memcpy(o->small_copy, o->of.copy, o->of.length);
    if (get_sink)
        o->in = *get_sink;
    if (o->of.get_md)
        o->of.get_md->operations++;
    if (o->of.entry)
        o->of.entry->busy++;
}

/* The record of a request that goes on after its call; false: no memory. */
bool portals_outgoing_keep(struct portals *p, struct portals_outgoing *out, uint64_t *initiator) {
    const struct nic_message *m = out->message;
    struct portals_operation *o = pool_take_raw(&p->operations);
    if (!o)
        return false;
    o->of = out->of;
    o->target = m->target;
    o->kind = m->kind;
    o->ack_req = m->ack_req;
    o->sent = o->receiving = false;
    if (out->sink)
        o->out = *out->sink;
    if (o->of.md)
        o->of.md->operations++;
    if ((uintptr_t)o->of.copy | (uintptr_t)o->of.get_md | (uintptr_t)o->of.entry)
        keep_more(o, out->get_sink);
    out->kept = o;
    *initiator = pool_number(o);
    return true;
}

/* Its descriptor may be released. */
static void let_go(struct portals_operation *o) {
    if (o->of.md)
        o->of.md->operations--;
    o->of.md = NULL;
}

static inline __attribute__((always_inline)) void
end_operation(struct portals *p, struct portals_operation *o, bool takes_data) {
    if (o->of.md)
        o->of.md->operations--;
    if (takes_data && o->of.get_md)
        o->of.get_md->operations--;
    struct portals_entry *e = o->of.entry;
    struct portals_ni *ni = o->of.ni;
    free_copy(o);
    pool_give(&p->operations, o);
    if (e)
        p4_entry_release(e);
    p4_closing_progress(p, ni);
}

static void operation_end(struct portals *p, struct portals_operation *o) {
    end_operation(p, o, true);
}

/* Volatile data is safe when the call returns. Into `small`, if it fits; false: no memory. What
 * cannot be read is left to the card, whose fetch says so. */
static bool copy_volatile(struct portals_outgoing *out, uint8_t *small, uint64_t length) {
    const struct portals *p = out->of.ni->p;
    uint8_t *copy = copy_is_small(length) ? small : malloc(length);
    if (!copy)
        return false;
    struct nic_segment s;
    bool good = true;
    for (uint64_t done = 0; done < length && good; done += s.bytes) {
        p4_memory_segments(&out->of.md->memory, out->of.source_offset + done, length - done, &s, 1);
        good = p4_host_read(p, copy + done, s.host, s.bytes);
    }
    if (good)
        out->data = out->of.copy = copy;
    else if (copy != small)
        free(copy);
    return true;
}

static bool is_volatile(const struct portals_descriptor *md) {
    return md->sink.options & PTL_MD_VOLATILE;
}

/* Where the message goes, */
static inline struct nic_address address_of(const struct portals_ni *ni, ptl_process_t target) {
    if (ni->options & PTL_NI_LOGICAL)
        target = ni->map[target.rank];
    return (struct nic_address){target.phys.nid, target.phys.pid};
}

/* and from where. */
static inline void set_addresses(struct nic_message *m, const struct portals *p,
                                 const struct portals_ni *ni, struct nic_address to,
                                 ptl_process_t target) {
    const struct portals_config *own = &p->config;
    m->interface = (uint8_t)ni->options;
    m->uid = own->uid;
    m->source = own->address;
    m->source_rank = ni->rank;
    m->target_rank = ni->options & PTL_NI_LOGICAL ? target.rank : PTL_RANK_ANY;
    m->target = to;
}

static const uint8_t message_kind[] = {
    [PORTALS_PUT] = NIC_PUT,           [PORTALS_GET] = NIC_GET,
    [PORTALS_ATOMIC] = NIC_ATOMIC,     [PORTALS_FETCH_ATOMIC] = NIC_FETCH_ATOMIC,
    [PORTALS_SWAP] = NIC_FETCH_ATOMIC,
};

/* An event of an initiator, and its count. */
struct said {
    ptl_event_kind_t type;
    unsigned count_option;
    bool full; /* an event, not only a count */
    uint8_t fail, list;
    uint64_t length, mlength, remote_offset;
    void *user_ptr;
};

static inline void tell(struct portals *p, const struct portals_sink *sink, const struct said *s) {
    bool failed = s->fail != PTL_NI_OK;
    if (s->full && (failed || !(sink->options & PTL_MD_EVENT_SUCCESS_DISABLE))) {
        ptl_event_t *event = p4_event_new(p, sink->eq);
        if (event) {
            event->start = NULL;
            event->user_ptr = s->user_ptr;
            event->hdr_data = event->match_bits = 0;
            event->rlength = s->length;
            event->mlength = s->mlength;
            event->remote_offset = s->remote_offset;
            event->initiator = (ptl_process_t){.phys = {0, 0}};
            event->uid = event->pt_index = 0;
            event->type = s->type;
            event->ptl_list = s->list;
            event->ni_fail_type = s->fail;
            event->atomic_operation = event->atomic_type = 0;
        }
    }
    if (!(sink->options & s->count_option))
        return;
    uint64_t success = sink->options & PTL_MD_EVENT_CT_BYTES ? s->mlength : 1;
    p4_count(p, sink->ct, failed ? 0 : success, failed);
}

static inline void tell_send(struct portals *p, const struct portals_sink *sink, void *user_ptr,
                             uint64_t length, uint8_t fail) {
    const struct said s = {.type = PTL_EVENT_SEND,
                           .count_option = PTL_MD_EVENT_CT_SEND,
                           .full =
                               fail != PTL_NI_OK || !(sink->options & PTL_MD_EVENT_SEND_DISABLE),
                           .fail = fail,
                           .length = length,
                           .mlength = length,
                           .user_ptr = user_ptr};
    tell(p, sink, &s);
}

static void left(struct portals *p, struct portals_operation *o, uint8_t fail);
static void never(struct portals *p, struct portals_operation *o, uint8_t fail);
static void never_began(struct portals *p, const struct portals_outgoing *out, uint8_t kind,
                        uint8_t ack_req);

static bool is_answered(uint8_t ack_req, uint8_t kind) {
    return kind == NIC_GET || kind == NIC_FETCH_ATOMIC || ack_req != PTL_NO_ACK_REQ;
}

/* Will the initiator see that its message was accepted? */
static bool ack_is_seen(const struct portals_operation *o) {
    const struct portals_sink *s = &o->out;
    bool full = o->ack_req == PTL_ACK_REQ && s->eq.handle != PTL_EQ_NONE &&
                !(s->options & PTL_MD_EVENT_SUCCESS_DISABLE);
    return full || (s->ct.handle != PTL_CT_NONE && (s->options & PTL_MD_EVENT_CT_ACK));
}

/* It has been sent, which may be its end. Who sees no more of it at its descriptor takes it for
 * that. */
static inline void wait_for_answer(struct portals *p, struct portals_operation *o, uint8_t kind) {
    o->sent = true;
    if (!is_answered(o->ack_req, kind))
        operation_end(p, o);
    else if (kind == NIC_FETCH_ATOMIC || !ack_is_seen(o))
        let_go(o);
}

static __attribute__((noinline)) void unreadable(struct portals *p,
                                                 const struct portals_outgoing *out) {
    p4_trigger_hold(p);
    tell_send(p, out->sink, out->of.user_ptr, out->of.length, PTL_NI_SEGV);
    p4_closing_progress(p, out->of.ni);
    p4_trigger_release(p);
}

static void end_kept(struct portals *p, struct portals_operation *o, enum portals_sending how) {
    if (how == PORTALS_LEFT)
        left(p, o, PTL_NI_OK);
    else if (how == PORTALS_UNREADABLE)
        never(p, o, PTL_NI_SEGV);
    else if (how == PORTALS_NO_MEMORY)
        operation_end(p, o);
}

/* What has left within its call. */
static inline __attribute__((always_inline)) void left_at_once(struct portals *p,
                                                               const struct portals_outgoing *out,
                                                               const struct portals_sink *sink,
                                                               uint8_t kind) {
    p4_trigger_hold(p);
    tell_send(p, sink, out->of.user_ptr, out->of.length, PTL_NI_OK);
    if (out->kept)
        wait_for_answer(p, out->kept, kind);
    if (out->of.ni->closing)
        p4_closing_go_on(p, out->of.ni);
    p4_trigger_release(p);
}

/* `sink`: that of `out`. */
static inline __attribute__((always_inline)) int hand_out(struct portals *p,
                                                          struct portals_outgoing *out,
                                                          const struct portals_sink *sink,
                                                          uint8_t kind) {
    enum portals_sending how = p->owner.send(p->owner.context, out);
    if (how == PORTALS_LEFT && sink)
        left_at_once(p, out, sink, kind);
    else if (out->kept)
        end_kept(p, out->kept, how);
    else if (how == PORTALS_UNREADABLE)
        unreadable(p, out);
    if (out->of.copy && !out->kept && !copy_is_small(out->of.length))
        free(out->of.copy);
    return how == PORTALS_NO_MEMORY ? PTL_NO_SPACE : PTL_OK;
}

/* A put that nobody answers, and whose owner takes its data at once, needs no more than its
 * message. False: nothing has happened. */
static inline __attribute__((always_inline)) bool
put_at_once(struct portals *p, const struct portals_request *r, const struct portals_movement *n) {
    const struct portals_descriptor *md = n->md;
    struct nic_message m;
    m.kind = NIC_PUT;
    m.ack_req = PTL_NO_ACK_REQ;
    m.operation = m.datatype = m.fail = m.list = 0;
    set_addresses(&m, p, n->ni, address_of(n->ni, r->target), r->target);
    m.pt_index = r->pt_index;
    m.match_bits = r->match_bits;
    m.hdr_data = r->hdr_data;
    m.remote_offset = r->remote_offset;
    m.length = m.payload = r->length;
    m.initiator = 0;
    if (!p->owner.put(p->owner.context, &m, p4_memory_whole(&md->memory, r->local_offset)))
        return false;
    p4_trigger_hold(p);
    tell_send(p, &md->sink, r->user_ptr, r->length, PTL_NI_OK);
    p4_closing_progress(p, n->ni);
    p4_trigger_release(p);
    return true;
}

/* `kind` is that of the request: where it is a constant, the compiler leaves out the rest. */
static inline __attribute__((always_inline)) int
start(struct portals *p, const struct portals_request *r, uint8_t kind, bool by_trigger) {
    struct portals_outgoing out;
    struct portals_movement *n = &out.of;
    struct nic_message own;
    uint8_t small_copy[OPERATION_COPY_BYTES];
    int code = check_movement(p, r, kind, n);
    if (code)
        return code;
    const struct portals_ni *ni = n->ni;
    if (kind == PORTALS_PUT && p->owner.put && r->ack_req == PTL_NO_ACK_REQ &&
        !n->md->memory.piece && put_at_once(p, r, n))
        return PTL_OK;
    out.target = address_of(ni, r->target);
    out.payload = sends_data(kind) ? r->length : 0;
    const struct portals_sink *sink = sends_data(kind) ? &n->md->sink : NULL;
    out.sink = sink;
    out.get_sink = takes_data(kind) ? &n->get_md->sink : NULL;
    out.of.source_offset = r->local_offset;
    out.of.get_offset = r->get_offset;
    out.of.length = r->length;
    out.of.user_ptr = r->user_ptr;
    out.arrival = NULL;
    out.of.entry = NULL;
    out.of.card = out.of.copy = NULL;
    out.origin = out.kept = NULL;
    out.data = sends_data(kind) ? p4_memory_whole(&n->md->memory, r->local_offset) : NULL;
    if (out.payload && is_volatile(n->md) && !by_trigger &&
        !copy_volatile(&out, small_copy, r->length))
        return PTL_NO_SPACE;
    struct nic_message *m = p4_message_place(p, &out, &own);
    set_addresses(m, p, ni, out.target, r->target);
    m->kind = message_kind[kind];
    m->ack_req = takes_data(kind) ? PTL_NO_ACK_REQ : r->ack_req;
    m->operation = kind >= PORTALS_ATOMIC ? r->operation : 0;
    m->datatype = kind >= PORTALS_ATOMIC ? r->datatype : 0;
    m->fail = m->list = 0;
    m->pt_index = r->pt_index;
    m->match_bits = r->match_bits;
    m->hdr_data = r->hdr_data;
    m->remote_offset = r->remote_offset;
    m->length = r->length;
    m->payload = sends_data(kind) ? r->length : 0;
    m->initiator = 0;
    if (kind == PORTALS_SWAP)
        memcpy(m->operand, r->operand, sizeof m->operand);
    else if (kind == PORTALS_FETCH_ATOMIC)
        memset(m->operand, 0, sizeof m->operand);
    code = hand_out(p, &out, sends_data(kind) ? sink : NULL, message_kind[kind]);
    if (by_trigger && code) /* no memory, and its call has returned */
        never_began(p, &out, message_kind[kind], takes_data(kind) ? PTL_NO_ACK_REQ : r->ack_req);
    return code;
}

__attribute__((noinline)) int p4_request_start(struct portals *p, const struct portals_request *r,
                                               bool by_trigger) {
    return start(p, r, r->kind, by_trigger);
}

int portals_start(struct portals *p, const struct portals_request *r) {
    return r->kind == PORTALS_PUT ? start(p, r, PORTALS_PUT, false) : p4_request_start(p, r, false);
}

/* ---- Commands of handlers ---- */

static int check_command(const struct portals_arrival *a, const struct portals_command *c) {
    const struct portals_ni *ni = a->ni;
    if (!ni || c->kind > NIC_ATOMIC || c->ack_req > PTL_OC_ACK_REQ ||
        !target_is_valid(ni, c->target) || c->length > ni->limits.max_msg_size)
        return PTL_ARG_INVALID;
    if (!c->card && !fits(&a->entry->memory, c->offset, c->length))
        return PTL_ARG_INVALID;
    if (c->kind != NIC_ATOMIC)
        return PTL_OK;
    struct portals_request r = {.kind = PORTALS_ATOMIC,
                                .operation = c->operation,
                                .datatype = c->datatype,
                                .length = c->length};
    return check_atomic(ni, &r);
}

bool portals_command_at_once(struct portals *p, const struct portals_arrival *a,
                             const struct portals_command *c) {
    if (!p->owner.put || c->ack_req != PTL_NO_ACK_REQ || c->count || check_command(a, c))
        return false;
    struct nic_message m;
    m.kind = NIC_PUT;
    m.ack_req = PTL_NO_ACK_REQ;
    m.operation = m.datatype = m.fail = m.list = 0;
    set_addresses(&m, p, a->ni, address_of(a->ni, c->target), c->target);
    m.pt_index = a->entry->pt->index;
    m.match_bits = c->match_bits;
    m.hdr_data = c->hdr_data;
    m.remote_offset = c->remote_offset;
    m.length = m.payload = c->length;
    m.initiator = 0;
    return p->owner.put(p->owner.context, &m, c->card);
}

int portals_command(struct portals *p, const struct portals_arrival *a,
                    const struct portals_command *c, void *origin) {
    int code = check_command(a, c);
    if (code)
        return code;
    struct portals_entry *e = a->entry;
    bool get = c->kind == NIC_GET;
    uint8_t ack_req = get ? PTL_NO_ACK_REQ : c->ack_req;
    unsigned counts = ack_req == PTL_NO_ACK_REQ ? PTL_MD_EVENT_CT_SEND : PTL_MD_EVENT_CT_ACK;
    struct portals_counter_name ct = c->count ? e->ct : p4_counter_name(PTL_CT_NONE, NULL);
    const struct portals_sink sink = {e->pt->eq, ct, counts | PTL_MD_EVENT_SEND_DISABLE};
    const struct portals_sink get_sink = {e->pt->eq, ct, PTL_MD_EVENT_CT_REPLY};
    struct nic_message own;
    struct portals_outgoing out = {.target = address_of(a->ni, c->target),
                                   .payload = get ? 0 : c->length,
                                   .data = get       ? NULL
                                           : c->card ? c->card
                                                     : p4_memory_whole(&e->memory, c->offset),
                                   .origin = origin,
                                   .of = {.ni = a->ni,
                                          .entry = e,
                                          .card = c->card,
                                          .source_offset = c->offset,
                                          .get_offset = c->offset,
                                          .length = c->length,
                                          .user_ptr = c->user_ptr},
                                   .sink = get ? NULL : &sink,
                                   .get_sink = &get_sink};
    struct nic_message *m = p4_message_place(p, &out, &own);
    *m = (struct nic_message){.kind = c->kind,
                              .ack_req = ack_req,
                              .operation = c->operation,
                              .datatype = c->datatype,
                              .pt_index = e->pt->index,
                              .match_bits = c->match_bits,
                              .hdr_data = c->hdr_data,
                              .remote_offset = c->remote_offset,
                              .length = c->length,
                              .payload = out.payload};
    set_addresses(m, p, a->ni, out.target, c->target);
    return hand_out(p, &out, out.sink, c->kind);
}

int portals_command_ct_get(struct portals *p, const struct portals_arrival *a,
                           ptl_ct_event_t *event) {
    return a->ni ? portals_ct_get(p, a->entry->ct.handle, event) : PTL_ARG_INVALID;
}

int portals_command_ct_inc(struct portals *p, const struct portals_arrival *a,
                           ptl_ct_event_t increment) {
    return a->ni ? portals_ct_inc(p, a->entry->ct.handle, increment) : PTL_ARG_INVALID;
}

int portals_command_ct_set(struct portals *p, const struct portals_arrival *a,
                           ptl_ct_event_t value) {
    return a->ni ? portals_ct_set(p, a->entry->ct.handle, value) : PTL_ARG_INVALID;
}

/* ---- Data and answers ---- */

static uint32_t one_segment(uint8_t *memory, uint64_t offset, uint64_t length,
                            struct nic_segment *segments, uint32_t room) {
    if (!room || !length)
        return 0;
    segments[0] = (struct nic_segment){memory + offset, length};
    return 1;
}

/* Within the operation's bytes: of the copy, the card, the descriptor or the entry. */
static uint32_t operation_segments(const struct portals_operation *o,
                                   const struct portals_descriptor *md, uint8_t *copy,
                                   uint64_t start, uint64_t offset, uint64_t length,
                                   struct nic_segment *segments, uint32_t room) {
    if (offset >= o->of.length)
        return 0;
    if (length > o->of.length - offset)
        length = o->of.length - offset;
    if (copy)
        return one_segment(copy, offset, length, segments, room);
    if (o->of.card)
        return one_segment(o->of.card, offset, length, segments, room);
    if (!o->of.ni || (!md && !o->of.entry))
        return 0;
    return p4_memory_segments(md ? &md->memory : &o->of.entry->memory, start + offset, length,
                              segments, room);
}

bool portals_source_on_card(struct portals *p, uint64_t initiator) {
    const struct portals_operation *o = operation_at(p, initiator);
    return o && (o->of.copy || o->of.card);
}

uint32_t portals_source_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                 uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct portals_operation *o = operation_at(p, initiator);
    if (!o || o->kind == NIC_GET)
        return 0;
    return operation_segments(o, o->of.md, o->of.copy, o->of.source_offset, offset, length,
                              segments, room);
}

uint32_t portals_reply_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room) {
    struct portals_operation *o = operation_at(p, initiator);
    if (!o || (o->kind != NIC_GET && o->kind != NIC_FETCH_ATOMIC))
        return 0;
    o->receiving = true;
    return operation_segments(o, o->of.get_md, NULL, o->of.get_offset, offset, length, segments,
                              room);
}

/* Once, and not of a get. */
static void tell_sent(struct portals *p, struct portals_operation *o, uint8_t fail) {
    if (o->sent || o->kind == NIC_GET)
        return;
    o->sent = true;
    if (o->of.ni)
        tell_send(p, &o->out, o->of.user_ptr, o->of.length, fail);
}

/* Its source may be used again. */
static void left(struct portals *p, struct portals_operation *o, uint8_t fail) {
    struct portals_ni *ni = o->of.ni;
    bool goes_on = is_answered(o->ack_req, o->kind);
    p4_trigger_hold(p);
    tell_sent(p, o, fail);
    wait_for_answer(p, o, o->kind);
    if (goes_on) /* else its end has told, and the interface may be gone */
        p4_closing_progress(p, ni);
    p4_trigger_release(p);
}

static void tell_answer(struct portals *p, const struct portals_operation *o, uint8_t ack_req,
                        struct said *s) {
    bool reply = o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC;
    if (!o->of.ni || (!reply && ack_req == PTL_NO_ACK_REQ))
        return;
    s->type = reply ? PTL_EVENT_REPLY : PTL_EVENT_ACK;
    s->count_option = reply ? PTL_MD_EVENT_CT_REPLY : PTL_MD_EVENT_CT_ACK;
    s->full = reply || ack_req == PTL_ACK_REQ;
    s->length = o->of.length;
    s->user_ptr = o->of.user_ptr;
    if (s->mlength > o->of.length)
        s->mlength = o->of.length;
    tell(p, reply ? &o->in : &o->out, s);
}

static void tell_never(struct portals *p, struct portals_operation *o, uint8_t fail) {
    tell_sent(p, o, fail);
    if (is_answered(o->ack_req, o->kind))
        tell_answer(p, o, o->ack_req, &(struct said){.fail = fail});
}

/* Nothing more will come of it. */
static void never(struct portals *p, struct portals_operation *o, uint8_t fail) {
    p4_trigger_hold(p);
    tell_never(p, o, fail);
    operation_end(p, o);
    p4_trigger_release(p);
}

static void never_began(struct portals *p, const struct portals_outgoing *out, uint8_t kind,
                        uint8_t ack_req) {
    struct portals_operation o = {.of = out->of, .kind = kind, .ack_req = ack_req};
    if (out->sink)
        o.out = *out->sink;
    if (out->get_sink)
        o.in = *out->get_sink;
    p4_trigger_hold(p);
    tell_never(p, &o, PTL_NI_UNDELIVERABLE);
    p4_trigger_release(p);
}

bool portals_quiet(const struct portals *p) {
    return !p->operations.used;
}

void portals_sent(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct portals_operation *o = operation_at(p, initiator);
    if (o)
        left(p, o, fail);
}

void portals_failed(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct portals_operation *o = operation_at(p, initiator);
    if (o)
        never(p, o, fail);
}

void portals_answered(struct portals *p, uint64_t initiator, const struct nic_message *answer,
                      uint8_t fail) {
    struct portals_operation *o = operation_at(p, initiator);
    bool is_reply = o && (o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC);
    if (!o || !nic_address_equal(answer->source, o->target) || !is_answered(o->ack_req, o->kind) ||
        answer->kind != (is_reply ? NIC_REPLY : NIC_ACK))
        return;
    p4_trigger_hold(p);
    tell_sent(p, o, PTL_NI_OK); /* remote completion includes the local one */
    tell_answer(p, o, answer->ack_req == PTL_NO_ACK_REQ ? PTL_NO_ACK_REQ : o->ack_req,
                &(struct said){.mlength = answer->length,
                               .remote_offset = answer->remote_offset,
                               .list = answer->list,
                               .fail = fail ? fail : answer->fail});
    operation_end(p, o);
    p4_trigger_release(p);
}

void portals_acknowledged(struct portals *p, uint64_t initiator, const struct nic_message *answer) {
    struct portals_operation *o = operation_at(p, initiator);
    if (!o || !nic_address_equal(answer->source, o->target) || !o->sent ||
        o->kind == NIC_FETCH_ATOMIC)
        return;
    if (answer->fail) {
        portals_answered(p, initiator, answer, PTL_NI_OK);
        return;
    }
    p4_trigger_hold(p);
    if (o->of.ni && answer->ack_req != PTL_NO_ACK_REQ) {
        const struct said s = {.type = PTL_EVENT_ACK,
                               .count_option = PTL_MD_EVENT_CT_ACK,
                               .full = o->ack_req == PTL_ACK_REQ,
                               .list = answer->list,
                               .length = o->of.length,
                               .mlength =
                                   answer->length < o->of.length ? answer->length : o->of.length,
                               .remote_offset = answer->remote_offset,
                               .user_ptr = o->of.user_ptr};
        tell(p, &o->out, &s);
    }
    end_operation(p, o, false);
    p4_trigger_release(p);
}

/* What this sets off is sent after it, and not lost. */
void portals_lost(struct portals *p, struct nic_address peer) {
    p4_trigger_hold(p);
    for (uint32_t i = 0; i < p->operations.made; i++) {
        struct portals_operation *o = pool_find(&p->operations, i);
        if (o && o->sent && (o->kind == NIC_PUT || o->kind == NIC_ATOMIC) &&
            nic_address_equal(o->target, peer))
            never(p, o, PTL_NI_UNDELIVERABLE);
    }
    p4_trigger_release(p);
}

bool p4_operation_moves(struct portals_ni *ni) {
    struct pool *pool = &ni->p->operations;
    for (uint32_t i = 0; i < pool->made; i++) {
        const struct portals_operation *o = pool_find(pool, i);
        if (o && o->of.ni == ni && ((!o->sent && o->kind != NIC_GET) || o->receiving))
            return true;
    }
    return false;
}

void p4_operation_forget(struct portals_ni *ni) {
    struct pool *pool = &ni->p->operations;
    for (uint32_t i = 0; i < pool->made; i++) {
        struct portals_operation *o = pool_find(pool, i);
        if (!o || o->of.ni != ni)
            continue;
        o->of.ni = NULL;
        o->of.md = o->of.get_md = NULL;
        o->of.entry = NULL;
    }
}
