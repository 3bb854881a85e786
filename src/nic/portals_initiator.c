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

static bool fits(const struct memory *m, uint64_t offset, uint64_t length) {
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

/* What a request names. */
struct named {
    struct portals_ni *ni;
    struct descriptor *md, *get_md;
};

static struct descriptor *find_descriptor(struct portals *p, struct named *n,
                                          ptl_handle_md_t handle, uint64_t offset,
                                          uint64_t length) {
    struct portals_ni *of = NULL;
    struct descriptor *md = p4_object_of(p, HANDLE_MD, handle, &of);
    if (!md || (n->ni && of != n->ni) || !fits(&md->memory, offset, length))
        return NULL;
    n->ni = of;
    return md;
}

/* An acknowledgement needs a place to be told at. */
static bool ack_is_valid(const struct descriptor *md, ptl_ack_req_t ack_req) {
    return ack_req <= PTL_OC_ACK_REQ &&
           (ack_req != PTL_ACK_REQ || md->sink.eq.handle != PTL_EQ_NONE) &&
           (ack_req != PTL_CT_ACK_REQ || md->sink.ct.handle != PTL_CT_NONE);
}

static bool is_too_volatile(const struct portals_ni *ni, const struct descriptor *md,
                            uint64_t length) {
    return ni->volatile_is_limited && (md->sink.options & PTL_MD_VOLATILE) &&
           length > ni->limits.max_volatile_size;
}

static int check_movement(struct portals *p, const struct portals_request *r, struct named *n) {
    *n = (struct named){0};
    if (sends_data(r->kind)) {
        n->md = find_descriptor(p, n, r->md, r->local_offset, r->length);
        if (!n->md || (!takes_data(r->kind) && !ack_is_valid(n->md, r->ack_req)) ||
            is_too_volatile(n->ni, n->md, r->length))
            return PTL_ARG_INVALID;
    }
    if (takes_data(r->kind) &&
        !(n->get_md = find_descriptor(p, n, r->get_md, r->get_offset, r->length)))
        return PTL_ARG_INVALID;
    if (r->length > n->ni->limits.max_msg_size || !target_is_valid(n->ni, r->target))
        return PTL_ARG_INVALID;
    return r->kind >= PORTALS_ATOMIC ? check_atomic(n->ni, r) : PTL_OK;
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
        const struct entry *e = p4_object_of(p, HANDLE_ME, r->me, ni);
        return e && e->is_matching ? PTL_OK : PTL_ARG_INVALID;
    }
    default: {
        struct named n;
        int code = check_movement(p, r, &n);
        *ni = n.ni;
        return code;
    }
    }
}

/* ---- Operations ---- */

static struct operation *operation_at(struct portals *p, uint64_t number) {
    return pool_named(&p->operations, number);
}

static void free_copy(struct operation *o) {
    if (o->copy != o->small_copy)
        free(o->copy);
}

void p4_operations_clear(struct portals *p) {
    for (uint32_t i = 0; i < p->operations.made; i++) {
        struct operation *o = pool_find(&p->operations, i);
        if (o)
            free_copy(o);
    }
    pool_clear(&p->operations);
}

/* The record of an operation that goes on after its call; NULL: no memory. */
static struct operation *keep(struct portals *p, struct operation *o) {
    if (o->slot.used || o->kept)
        return o->slot.used ? o : o->kept;
    struct operation *kept = pool_take_raw(&p->operations);
    if (!kept)
        return NULL;
    const size_t from = sizeof o->slot, to = offsetof(struct operation, own_out);
    memcpy((uint8_t *)kept + from, (const uint8_t *)o + from, to - from);
    if (o->out)
        kept->own_out = *o->out;
    if (o->in)
        kept->own_in = *o->in;
    kept->out = &kept->own_out;
    kept->in = &kept->own_in;
    if (o->copy == o->small_copy) {
        memcpy(kept->small_copy, o->small_copy, o->length);
        kept->copy = kept->small_copy;
    }
    if (kept->md)
        kept->md->operations++;
    if (kept->get_md)
        kept->get_md->operations++;
    if (kept->entry)
        kept->entry->busy++;
    return o->kept = kept;
}

bool portals_outgoing_keep(struct portals *p, const struct portals_outgoing *out,
                           uint64_t *initiator) {
    const struct operation *kept = keep(p, out->operation);
    if (kept)
        *initiator = pool_number(kept);
    return kept;
}

/* Its descriptor may be released. */
static void let_go(struct operation *o) {
    if (o->md)
        o->md->operations--;
    o->md = NULL;
}

/* Of a record. */
static void operation_end(struct portals *p, struct operation *o) {
    let_go(o);
    if (o->get_md)
        o->get_md->operations--;
    struct entry *e = o->entry;
    struct portals_ni *ni = o->ni;
    free_copy(o);
    pool_give(&p->operations, o);
    if (e)
        p4_entry_release(e);
    p4_closing_progress(p, ni);
}

/* Volatile data is safe when the call returns. */
static bool copy_volatile(struct operation *o) {
    if (!o->md || !(o->md->sink.options & PTL_MD_VOLATILE) || !o->length)
        return true;
    o->copy = o->length <= sizeof o->small_copy ? o->small_copy : malloc(o->length);
    if (!o->copy)
        return false;
    struct nic_segment s;
    for (uint64_t done = 0; done < o->length; done += s.bytes) {
        p4_memory_segments(&o->md->memory, o->source_offset + done, o->length - done, &s, 1);
        memcpy(o->copy + done, s.host, s.bytes);
    }
    return true;
}

/* The message of an operation, but for what is particular to its kind. */
static void set_message(struct nic_message *m, const struct portals_ni *ni,
                        const struct operation *o, ptl_process_t target) {
    const struct portals_config *own = &ni->p->config;
    bool logical = ni->options & PTL_NI_LOGICAL;
    const ptl_process_t *to = logical ? &ni->map[target.rank] : &target;
    m->kind = o->kind;
    m->interface = (uint8_t)ni->options;
    m->ack_req = o->ack_req;
    m->fail = m->list = 0;
    m->uid = own->uid;
    m->source = own->address;
    m->source_rank = ni->rank;
    m->target = (struct nic_address){to->phys.nid, to->phys.pid};
    m->target_rank = logical ? target.rank : PTL_RANK_ANY;
    m->length = o->length;
    m->payload = o->kind == NIC_GET ? 0 : o->length;
    m->initiator = 0;
}

static const uint8_t message_kind[] = {
    [PORTALS_PUT] = NIC_PUT,           [PORTALS_GET] = NIC_GET,
    [PORTALS_ATOMIC] = NIC_ATOMIC,     [PORTALS_FETCH_ATOMIC] = NIC_FETCH_ATOMIC,
    [PORTALS_SWAP] = NIC_FETCH_ATOMIC,
};

static void left(struct portals *p, struct operation *o, uint8_t fail);
static void never(struct portals *p, struct operation *o, uint8_t fail);

/* What became of it, on the stack or in its record, is done when this returns. */
static int hand_out(struct portals *p, struct operation *o, const struct portals_outgoing *out) {
    enum portals_sending how = p->owner.send(p->owner.context, out);
    struct operation *at = o->kept ? o->kept : o;
    switch (how) {
    case PORTALS_LEFT:
        left(p, at, PTL_NI_OK);
        break;
    case PORTALS_KEPT:
        break;
    case PORTALS_UNREADABLE:
        never(p, at, PTL_NI_SEGV);
        break;
    case PORTALS_NO_MEMORY:
        if (o->kept)
            operation_end(p, o->kept);
    }
    if (!o->kept)
        free_copy(o);
    return how == PORTALS_NO_MEMORY ? PTL_NO_SPACE : PTL_OK;
}

static void set_operation(struct operation *o, struct portals_ni *ni, uint8_t kind, uint64_t length,
                          void *user_ptr) {
    memset(o, 0, offsetof(struct operation, own_out));
    o->ni = ni;
    o->kind = kind;
    o->length = length;
    o->user_ptr = user_ptr;
}

int p4_request_start(struct portals *p, const struct portals_request *r, bool by_trigger) {
    struct named n;
    struct operation o;
    struct portals_outgoing out;
    struct nic_message *m = &out.message;
    int code = check_movement(p, r, &n);
    if (code)
        return code;
    set_operation(&o, n.ni, message_kind[r->kind], r->length, r->user_ptr);
    o.ack_req = takes_data(r->kind) ? PTL_NO_ACK_REQ : r->ack_req;
    if (n.md) {
        o.md = n.md;
        o.out = &n.md->sink;
        o.source_offset = r->local_offset;
    }
    if (n.get_md) {
        o.get_md = n.get_md;
        o.in = &n.get_md->sink;
        o.get_offset = r->get_offset;
    }
    if (!by_trigger && !copy_volatile(&o))
        return PTL_NO_SPACE;
    set_message(m, n.ni, &o, r->target);
    m->operation = r->operation;
    m->datatype = r->datatype;
    m->pt_index = r->pt_index;
    m->match_bits = r->match_bits;
    m->hdr_data = r->hdr_data;
    m->remote_offset = r->remote_offset;
    memcpy(m->operand, r->operand, sizeof m->operand);
    o.target = m->target;
    out.arrival = NULL;
    out.origin = NULL;
    out.operation = &o;
    return hand_out(p, &o, &out);
}

int portals_start(struct portals *p, const struct portals_request *request) {
    return p4_request_start(p, request, false);
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

int portals_command(struct portals *p, const struct portals_arrival *a,
                    const struct portals_command *c, void *origin) {
    struct operation o;
    struct portals_outgoing out = {.origin = origin, .operation = &o};
    struct nic_message *m = &out.message;
    int code = check_command(a, c);
    if (code)
        return code;
    struct entry *e = a->entry;
    set_operation(&o, a->ni, c->kind, c->length, c->user_ptr);
    o.entry = e;
    o.card = c->card;
    o.ack_req = c->kind == NIC_GET ? PTL_NO_ACK_REQ : c->ack_req;
    o.source_offset = o.get_offset = c->offset;
    unsigned counts = o.ack_req == PTL_NO_ACK_REQ ? PTL_MD_EVENT_CT_SEND : PTL_MD_EVENT_CT_ACK;
    struct counter_name ct = c->count ? e->ct : (struct counter_name){PTL_CT_NONE, NULL};
    o.own_out = (struct sink){e->pt->eq, ct, counts | PTL_MD_EVENT_SEND_DISABLE};
    o.own_in = (struct sink){e->pt->eq, ct, PTL_MD_EVENT_CT_REPLY};
    o.out = &o.own_out;
    o.in = &o.own_in;
    set_message(m, o.ni, &o, c->target);
    m->operation = c->operation;
    m->datatype = c->datatype;
    m->pt_index = e->pt->index;
    m->match_bits = c->match_bits;
    m->hdr_data = c->hdr_data;
    m->remote_offset = c->remote_offset;
    o.target = m->target;
    return hand_out(p, &o, &out);
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
static uint32_t operation_segments(const struct operation *o, const struct descriptor *md,
                                   uint8_t *copy, uint64_t start, uint64_t offset, uint64_t length,
                                   struct nic_segment *segments, uint32_t room) {
    if (offset >= o->length)
        return 0;
    if (length > o->length - offset)
        length = o->length - offset;
    if (copy)
        return one_segment(copy, offset, length, segments, room);
    if (o->card)
        return one_segment(o->card, offset, length, segments, room);
    if (!o->ni || (!md && !o->entry))
        return 0;
    return p4_memory_segments(md ? &md->memory : &o->entry->memory, start + offset, length,
                              segments, room);
}

static uint32_t source_segments(const struct operation *o, uint64_t offset, uint64_t length,
                                struct nic_segment *segments, uint32_t room) {
    if (o->kind == NIC_GET)
        return 0;
    return operation_segments(o, o->md, o->copy, o->source_offset, offset, length, segments, room);
}

uint32_t portals_outgoing_segments(const struct portals_outgoing *out, uint64_t offset,
                                   uint64_t length, struct nic_segment *segments, uint32_t room) {
    if (out->operation)
        return source_segments(out->operation, offset, length, segments, room);
    return out->arrival ? portals_arrival_segments(out->arrival, offset, length, segments, room)
                        : 0;
}

uint32_t portals_source_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                 uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct operation *o = operation_at(p, initiator);
    return o ? source_segments(o, offset, length, segments, room) : 0;
}

uint32_t portals_reply_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room) {
    struct operation *o = operation_at(p, initiator);
    if (!o || (o->kind != NIC_GET && o->kind != NIC_FETCH_ATOMIC))
        return 0;
    o->receiving = true;
    return operation_segments(o, o->get_md, NULL, o->get_offset, offset, length, segments, room);
}

/* What an event of an initiator says besides the operation. */
struct said {
    ptl_event_kind_t type;
    unsigned count_option;
    bool full; /* an event, not only a count */
    uint8_t fail, list;
    uint64_t mlength, remote_offset;
};

static inline void tell(struct portals *p, const struct operation *o, const struct sink *sink,
                        struct said s) {
    bool failed = s.fail != PTL_NI_OK;
    if (!o->ni)
        return;
    if (s.full && (failed || !(sink->options & PTL_MD_EVENT_SUCCESS_DISABLE))) {
        ptl_event_t *event = p4_event_new(p, sink->eq);
        if (event)
            *event = (ptl_event_t){.type = s.type,
                                   .user_ptr = o->user_ptr,
                                   .rlength = o->length,
                                   .mlength = s.mlength,
                                   .remote_offset = s.remote_offset,
                                   .ptl_list = s.list,
                                   .ni_fail_type = s.fail};
    }
    if (!(sink->options & s.count_option))
        return;
    uint64_t success = sink->options & PTL_MD_EVENT_CT_BYTES ? s.mlength : 1;
    p4_count(p, sink->ct, failed ? 0 : success, failed);
}

static void tell_send(struct portals *p, struct operation *o, uint8_t fail) {
    if (o->sent || o->kind == NIC_GET)
        return;
    o->sent = true;
    tell(p, o, o->out,
         (struct said){.type = PTL_EVENT_SEND,
                       .count_option = PTL_MD_EVENT_CT_SEND,
                       .full = fail != PTL_NI_OK || !(o->out->options & PTL_MD_EVENT_SEND_DISABLE),
                       .fail = fail,
                       .mlength = o->length});
}

static bool is_answered(const struct operation *o) {
    return o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC || o->ack_req != PTL_NO_ACK_REQ;
}

/* Will the initiator see that its message was accepted? */
static bool ack_is_seen(const struct operation *o) {
    const struct sink *s = o->out;
    bool full = o->ack_req == PTL_ACK_REQ && s->eq.handle != PTL_EQ_NONE &&
                !(s->options & PTL_MD_EVENT_SUCCESS_DISABLE);
    return full || (s->ct.handle != PTL_CT_NONE && (s->options & PTL_MD_EVENT_CT_ACK));
}

static void over(struct portals *p, struct operation *o) {
    if (o->slot.used)
        operation_end(p, o);
    else
        p4_closing_progress(p, o->ni);
}

/* Its source may be used again. */
static void left(struct portals *p, struct operation *o, uint8_t fail) {
    p4_trigger_hold(p);
    tell_send(p, o, fail);
    if (!is_answered(o)) {
        over(p, o);
    } else {
        /* Who sees no more of it there takes the send for its end. */
        if (o->kind == NIC_FETCH_ATOMIC || !ack_is_seen(o))
            let_go(o);
        p4_closing_progress(p, o->ni);
    }
    p4_trigger_release(p);
}

static void tell_answer(struct portals *p, struct operation *o, uint8_t ack_req, struct said s) {
    if (s.mlength > o->length)
        s.mlength = o->length;
    bool reply = o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC;
    if (!reply && ack_req == PTL_NO_ACK_REQ)
        return;
    s.type = reply ? PTL_EVENT_REPLY : PTL_EVENT_ACK;
    s.count_option = reply ? PTL_MD_EVENT_CT_REPLY : PTL_MD_EVENT_CT_ACK;
    s.full = reply || ack_req == PTL_ACK_REQ;
    tell(p, o, reply ? o->in : o->out, s);
}

/* Nothing more will come of it. */
static void never(struct portals *p, struct operation *o, uint8_t fail) {
    p4_trigger_hold(p);
    tell_send(p, o, fail);
    if (is_answered(o))
        tell_answer(p, o, o->ack_req, (struct said){.fail = fail});
    over(p, o);
    p4_trigger_release(p);
}

void portals_sent(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct operation *o = operation_at(p, initiator);
    if (o)
        left(p, o, fail);
}

void portals_failed(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct operation *o = operation_at(p, initiator);
    if (o)
        never(p, o, fail);
}

void portals_answered(struct portals *p, const struct nic_message *answer) {
    struct operation *o = operation_at(p, answer->initiator);
    bool is_reply = o && (o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC);
    if (!o || !nic_address_equal(answer->source, o->target) || !is_answered(o) ||
        answer->kind != (is_reply ? NIC_REPLY : NIC_ACK))
        return;
    p4_trigger_hold(p);
    tell_send(p, o, PTL_NI_OK); /* remote completion includes the local one */
    tell_answer(p, o, answer->ack_req == PTL_NO_ACK_REQ ? PTL_NO_ACK_REQ : o->ack_req,
                (struct said){.mlength = answer->length,
                              .remote_offset = answer->remote_offset,
                              .list = answer->list,
                              .fail = answer->fail});
    operation_end(p, o);
    p4_trigger_release(p);
}

bool p4_operation_moves(struct portals_ni *ni) {
    struct pool *pool = &ni->p->operations;
    for (uint32_t i = 0; i < pool->made; i++) {
        const struct operation *o = pool_find(pool, i);
        if (o && o->ni == ni && ((!o->sent && o->kind != NIC_GET) || o->receiving))
            return true;
    }
    return false;
}

void p4_operation_forget(struct portals_ni *ni) {
    struct pool *pool = &ni->p->operations;
    for (uint32_t i = 0; i < pool->made; i++) {
        struct operation *o = pool_find(pool, i);
        if (!o || o->ni != ni)
            continue;
        o->ni = NULL;
        o->md = o->get_md = NULL;
        o->entry = NULL;
    }
}
