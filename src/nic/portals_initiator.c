/* Operations of an initiator: from the call, a counter or a handler to the last event.
 *
 *     put, atomic    SEND, then ACK if asked for
 *     get            REPLY
 *     fetch, swap    SEND to the descriptor that gives, REPLY to the one that takes
 *
 * An operation lives until its last event. The number that travels with its message has a
 * generation, so an answer that comes twice, or to an operation of an earlier life, meets nothing.
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

static int check_descriptor(struct portals *p, ptl_handle_md_t handle, uint64_t offset,
                            uint64_t length, struct portals_ni **ni) {
    struct portals_ni *of = NULL;
    const struct descriptor *md = p4_object_of(p, HANDLE_MD, handle, &of);
    if (!md || (*ni && of != *ni) || !fits(&md->memory, offset, length))
        return PTL_ARG_INVALID;
    *ni = of;
    return PTL_OK;
}

/* An acknowledgement needs a place to be told at. */
static int check_ack(struct portals *p, const struct portals_request *r) {
    const struct descriptor *md = p4_object_of(p, HANDLE_MD, r->md, NULL);
    if (r->ack_req > PTL_OC_ACK_REQ || (r->ack_req == PTL_ACK_REQ && md->eq == PTL_EQ_NONE) ||
        (r->ack_req == PTL_CT_ACK_REQ && md->ct == PTL_CT_NONE))
        return PTL_ARG_INVALID;
    return PTL_OK;
}

static bool is_too_volatile(struct portals *p, const struct portals_ni *ni,
                            const struct portals_request *r) {
    const struct descriptor *md = p4_object_of(p, HANDLE_MD, r->md, NULL);
    return ni->volatile_is_limited && (md->options & PTL_MD_VOLATILE) &&
           r->length > ni->limits.max_volatile_size;
}

static int check_movement(struct portals *p, const struct portals_request *r,
                          struct portals_ni **ni) {
    if (sends_data(r->kind) &&
        (check_descriptor(p, r->md, r->local_offset, r->length, ni) ||
         (!takes_data(r->kind) && check_ack(p, r)) || is_too_volatile(p, *ni, r)))
        return PTL_ARG_INVALID;
    if (takes_data(r->kind) && check_descriptor(p, r->get_md, r->get_offset, r->length, ni))
        return PTL_ARG_INVALID;
    if (r->length > (*ni)->limits.max_msg_size || !target_is_valid(*ni, r->target))
        return PTL_ARG_INVALID;
    return r->kind >= PORTALS_ATOMIC ? check_atomic(*ni, r) : PTL_OK;
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
    default:
        return check_movement(p, r, ni);
    }
}

/* ---- Operations ---- */

static uint64_t operation_number(const struct operation *o) {
    return (uint64_t)o->slot.generation << 32 | o->slot.index;
}

static struct operation *operation_at(struct portals *p, uint64_t number) {
    struct operation *o = pool_find(&p->operations, (uint32_t)number);
    return o && o->slot.generation == number >> 32 ? o : NULL;
}

static struct sink sink_of(const struct descriptor *md) {
    return (struct sink){md->eq, md->ct, md->options};
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

/* Its descriptor may be released. */
static void let_go(struct operation *o) {
    if (o->md)
        o->md->operations--;
    o->md = NULL;
}

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
    if (!o->md || !(o->md->options & PTL_MD_VOLATILE) || !o->length)
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
static struct nic_message message_of(const struct portals_ni *ni, const struct operation *o,
                                     ptl_process_t target) {
    const struct portals_config *own = &ni->p->config;
    struct nic_message m = {
        .kind = o->kind,
        .interface = (uint8_t)ni->options,
        .ack_req = o->ack_req,
        .uid = own->uid,
        .source = own->address,
        .source_rank = ni->rank,
        .target = {target.phys.nid, target.phys.pid},
        .target_rank = PTL_RANK_ANY,
        .length = o->length,
        .payload = o->kind == NIC_GET ? 0 : o->length,
        .initiator = operation_number(o),
    };
    if (ni->options & PTL_NI_LOGICAL) {
        const ptl_process_t *to = &ni->map[target.rank];
        m.target = (struct nic_address){to->phys.nid, to->phys.pid};
        m.target_rank = target.rank;
    }
    return m;
}

static const uint8_t message_kind[] = {
    [PORTALS_PUT] = NIC_PUT,           [PORTALS_GET] = NIC_GET,
    [PORTALS_ATOMIC] = NIC_ATOMIC,     [PORTALS_FETCH_ATOMIC] = NIC_FETCH_ATOMIC,
    [PORTALS_SWAP] = NIC_FETCH_ATOMIC,
};

static void set_descriptors(struct portals *p, struct operation *o,
                            const struct portals_request *r) {
    if (sends_data(r->kind)) {
        o->md = p4_object_of(p, HANDLE_MD, r->md, NULL);
        o->md->operations++;
        o->out = sink_of(o->md);
        o->source_offset = r->local_offset;
    }
    if (takes_data(r->kind)) {
        o->get_md = p4_object_of(p, HANDLE_MD, r->get_md, NULL);
        o->get_md->operations++;
        o->in = sink_of(o->get_md);
        o->get_offset = r->get_offset;
    }
}

/* The operation may be over before this returns. */
static int send_or_end(struct portals *p, struct operation *o, const struct nic_message *m,
                       void *origin) {
    if (p->owner.send(p->owner.context, m, PORTALS_NONE, origin))
        return PTL_OK;
    operation_end(p, o);
    return PTL_NO_SPACE;
}

int p4_request_start(struct portals *p, const struct portals_request *r, bool by_trigger) {
    struct portals_ni *ni;
    int code = p4_request_check(p, r, &ni);
    if (code)
        return code;
    struct operation *o = pool_take(&p->operations);
    if (!o)
        return PTL_NO_SPACE;
    o->ni = ni;
    o->kind = message_kind[r->kind];
    o->ack_req = takes_data(r->kind) ? PTL_NO_ACK_REQ : r->ack_req;
    o->length = r->length;
    o->user_ptr = r->user_ptr;
    set_descriptors(p, o, r);
    if (!by_trigger && !copy_volatile(o)) {
        operation_end(p, o);
        return PTL_NO_SPACE;
    }
    struct nic_message m = message_of(ni, o, r->target);
    m.operation = r->operation;
    m.datatype = r->datatype;
    m.pt_index = r->pt_index;
    m.match_bits = r->match_bits;
    m.hdr_data = r->hdr_data;
    m.remote_offset = r->remote_offset;
    memcpy(m.operand, r->operand, sizeof m.operand);
    o->target = m.target;
    return send_or_end(p, o, &m, NULL);
}

int portals_start(struct portals *p, const struct portals_request *request) {
    return p4_request_start(p, request, false);
}

/* ---- Commands of handlers ---- */

static struct delivery *handler_delivery(struct portals *p, uint32_t number) {
    struct delivery *d = pool_find(&p->deliveries, number);
    return d && d->ni ? d : NULL;
}

static int check_command(const struct delivery *d, const struct portals_command *c) {
    const struct portals_ni *ni = d->ni;
    if (c->kind > NIC_ATOMIC || c->ack_req > PTL_OC_ACK_REQ || !target_is_valid(ni, c->target) ||
        c->length > ni->limits.max_msg_size)
        return PTL_ARG_INVALID;
    if (!c->card && !fits(&d->entry->memory, c->offset, c->length))
        return PTL_ARG_INVALID;
    if (c->kind != NIC_ATOMIC)
        return PTL_OK;
    struct portals_request r = {.kind = PORTALS_ATOMIC,
                                .operation = c->operation,
                                .datatype = c->datatype,
                                .length = c->length};
    return check_atomic(ni, &r);
}

int portals_command(struct portals *p, uint32_t delivery, const struct portals_command *c,
                    void *origin) {
    struct delivery *d = handler_delivery(p, delivery);
    int code = d ? check_command(d, c) : PTL_ARG_INVALID;
    if (code)
        return code;
    struct operation *o = pool_take(&p->operations);
    if (!o)
        return PTL_NO_SPACE;
    struct entry *e = d->entry;
    e->busy++;
    o->ni = d->ni;
    o->entry = e;
    o->kind = c->kind;
    o->card = c->card;
    o->ack_req = c->kind == NIC_GET ? PTL_NO_ACK_REQ : c->ack_req;
    o->source_offset = o->get_offset = c->offset;
    o->length = c->length;
    o->user_ptr = c->user_ptr;
    unsigned counts = o->ack_req == PTL_NO_ACK_REQ ? PTL_MD_EVENT_CT_SEND : PTL_MD_EVENT_CT_ACK;
    o->out = (struct sink){e->pt->eq, c->count ? e->ct : PTL_CT_NONE,
                           counts | PTL_MD_EVENT_SEND_DISABLE};
    o->in = (struct sink){e->pt->eq, o->out.ct, PTL_MD_EVENT_CT_REPLY};
    struct nic_message m = message_of(o->ni, o, c->target);
    m.operation = c->operation;
    m.datatype = c->datatype;
    m.pt_index = e->pt->index;
    m.match_bits = c->match_bits;
    m.hdr_data = c->hdr_data;
    m.remote_offset = c->remote_offset;
    o->target = m.target;
    return send_or_end(p, o, &m, origin);
}

int portals_command_ct_get(struct portals *p, uint32_t delivery, ptl_ct_event_t *event) {
    const struct delivery *d = handler_delivery(p, delivery);
    return d ? portals_ct_get(p, d->entry->ct, event) : PTL_ARG_INVALID;
}

int portals_command_ct_inc(struct portals *p, uint32_t delivery, ptl_ct_event_t increment) {
    const struct delivery *d = handler_delivery(p, delivery);
    return d ? portals_ct_inc(p, d->entry->ct, increment) : PTL_ARG_INVALID;
}

int portals_command_ct_set(struct portals *p, uint32_t delivery, ptl_ct_event_t value) {
    const struct delivery *d = handler_delivery(p, delivery);
    return d ? portals_ct_set(p, d->entry->ct, value) : PTL_ARG_INVALID;
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

uint32_t portals_source_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                 uint64_t length, struct nic_segment *segments, uint32_t room) {
    const struct operation *o = operation_at(p, initiator);
    if (!o || o->kind == NIC_GET)
        return 0;
    return operation_segments(o, o->md, o->copy, o->source_offset, offset, length, segments, room);
}

uint32_t portals_reply_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room) {
    struct operation *o = operation_at(p, initiator);
    if (!o || (o->kind != NIC_GET && o->kind != NIC_FETCH_ATOMIC))
        return 0;
    o->receiving = true;
    return operation_segments(o, o->get_md, NULL, o->get_offset, offset, length, segments, room);
}

/* An event of an initiator, and its count. */
static void tell(struct portals *p, const struct operation *o, const struct sink *sink,
                 ptl_event_kind_t type, unsigned count_option, bool full, ptl_event_t event) {
    bool failed = event.ni_fail_type != PTL_NI_OK;
    if (!o->ni)
        return;
    event.type = type;
    event.user_ptr = o->user_ptr;
    event.rlength = o->length;
    if (full && (failed || !(sink->options & PTL_MD_EVENT_SUCCESS_DISABLE)))
        p4_event_push(p, sink->eq, &event);
    if (!(sink->options & count_option))
        return;
    uint64_t success = sink->options & PTL_MD_EVENT_CT_BYTES ? event.mlength : 1;
    p4_count(p, sink->ct, failed ? 0 : success, failed);
}

static void tell_send(struct portals *p, struct operation *o, uint8_t fail) {
    if (o->sent || o->kind == NIC_GET)
        return;
    o->sent = true;
    bool full = fail != PTL_NI_OK || !(o->out.options & PTL_MD_EVENT_SEND_DISABLE);
    tell(p, o, &o->out, PTL_EVENT_SEND, PTL_MD_EVENT_CT_SEND, full,
         (ptl_event_t){.mlength = o->length, .ni_fail_type = fail});
}

static bool is_answered(const struct operation *o) {
    return o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC || o->ack_req != PTL_NO_ACK_REQ;
}

/* Will the initiator see that its message was accepted? */
static bool ack_is_seen(const struct operation *o) {
    const struct sink *s = &o->out;
    bool full = o->ack_req == PTL_ACK_REQ && s->eq != PTL_EQ_NONE &&
                !(s->options & PTL_MD_EVENT_SUCCESS_DISABLE);
    return full || (s->ct != PTL_CT_NONE && (s->options & PTL_MD_EVENT_CT_ACK));
}

void portals_sent(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct operation *o = operation_at(p, initiator);
    if (!o)
        return;
    p4_trigger_hold(p);
    tell_send(p, o, fail);
    if (!is_answered(o)) {
        operation_end(p, o);
    } else {
        /* Who sees no more of it there takes the send for its end. */
        if (o->kind == NIC_FETCH_ATOMIC || !ack_is_seen(o))
            let_go(o);
        p4_closing_progress(p, o->ni);
    }
    p4_trigger_release(p);
}

static void tell_answer(struct portals *p, struct operation *o, uint8_t ack_req,
                        ptl_event_t event) {
    if (event.mlength > o->length)
        event.mlength = o->length;
    if (o->kind == NIC_GET || o->kind == NIC_FETCH_ATOMIC)
        tell(p, o, &o->in, PTL_EVENT_REPLY, PTL_MD_EVENT_CT_REPLY, true, event);
    else if (ack_req != PTL_NO_ACK_REQ)
        tell(p, o, &o->out, PTL_EVENT_ACK, PTL_MD_EVENT_CT_ACK, ack_req == PTL_ACK_REQ, event);
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
                (ptl_event_t){.mlength = answer->length,
                              .remote_offset = answer->remote_offset,
                              .ptl_list = answer->list,
                              .ni_fail_type = answer->fail});
    operation_end(p, o);
    p4_trigger_release(p);
}

void portals_failed(struct portals *p, uint64_t initiator, uint8_t fail) {
    struct operation *o = operation_at(p, initiator);
    if (!o)
        return;
    p4_trigger_hold(p);
    tell_send(p, o, fail);
    if (is_answered(o))
        tell_answer(p, o, o->ack_req, (ptl_event_t){.ni_fail_type = fail});
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
