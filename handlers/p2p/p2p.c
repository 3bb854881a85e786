/* Requests, sends and progress. A send is a put, and for a large message an entry besides, from
 * which the receiver gets the rest; it is done when the receiver's card has acknowledged the put
 * and, of a message that was not stored whole, when the rest was fetched. */
#include "spinlib/p2p.h"

#include <stdlib.h>
#include <string.h>

#include "p2p_private.h"

enum { CHUNK = 256, INDEX_BITS = 24, DEPTH = 4096, MAX_DEPTH = 8192 };
#define EAGER_BYTES      (16u << 10)
#define UNEXPECTED_BYTES (1u << 20)

static const struct variant variants[] = {
    {.name = "rdma", .by_processor = true},
    {.name = "portals"},
    {.name = "spin", .handlers = true},
};

/* ---- Lists and requests ---- */

void p2p_add(struct request_list *list, struct spin_p2p_request *r) {
    r->next = NULL;
    r->before = list->last;
    *(list->last ? &list->last->next : &list->first) = r;
    list->last = r;
}

void p2p_remove(struct request_list *list, struct spin_p2p_request *r) {
    *(r->before ? &r->before->next : &list->first) = r->next;
    *(r->next ? &r->next->before : &list->last) = r->before;
}

static bool add_chunk(struct spin_p2p *p2p) {
    if (p2p->chunks == (1u << INDEX_BITS) / CHUNK)
        return false;
    void *longer = realloc(p2p->chunk, (p2p->chunks + 1) * sizeof *p2p->chunk);
    if (!longer)
        return false;
    p2p->chunk = longer;
    struct spin_p2p_request *r = calloc(CHUNK, sizeof *r);
    if (!r)
        return false;
    for (uint32_t i = 0; i < CHUNK; i++) {
        r[i].name = p2p->chunks * CHUNK + i;
        p2p_add(&p2p->free, &r[i]);
    }
    p2p->chunk[p2p->chunks++] = r;
    return true;
}

struct spin_p2p_request *p2p_request_of(const struct spin_p2p *p2p, uint32_t name) {
    uint32_t index = name & ((1u << INDEX_BITS) - 1);
    struct spin_p2p_request *r =
        index / CHUNK < p2p->chunks ? &p2p->chunk[index / CHUNK][index % CHUNK] : NULL;
    return r && r->name == name ? r : NULL;
}

static int new_request(struct spin_p2p *p2p, const struct spin_p2p_request *as,
                       struct spin_p2p_request **out) {
    *out = NULL;
    if (as->bytes >= 1ull << 32 || (as->bytes && !as->data))
        return PTL_ARG_INVALID;
    if (!p2p->free.first && !add_chunk(p2p))
        return PTL_NO_SPACE;
    struct spin_p2p_request *r = p2p->free.first;
    p2p_remove(&p2p->free, r);
    uint32_t name = r->name;
    *r = *as;
    r->name = name;
    r->place = -1;
    *out = r;
    return PTL_OK;
}

/* Takes a request that is done away. */
static void consume(struct spin_p2p *p2p, struct spin_p2p_request *r,
                    struct spin_p2p_status *status) {
    if (status)
        *status = r->status;
    p2p_remove(&p2p->done, r);
    r->name += 1u << INDEX_BITS; /* so that a late event is not taken for the next one's */
    p2p_add(&p2p->free, r);
}

void p2p_finish(struct spin_p2p *p2p, struct spin_p2p_request *r, int code) {
    if (r->again)
        p2p_remove(&p2p->again, r);
    r->again = false;
    if (r->stage != WAITING)
        --*(r->is_send ? &p2p->sending : &p2p->receiving);
    r->stage = FINISHED;
    r->status.code = code;
    if (code == PTL_OK)
        *(r->is_send ? &p2p->counts.sent : &p2p->counts.received) += 1;
    p2p_add(&p2p->done, r);
}

static void do_again(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    r->again = true;
    p2p_add(&p2p->again, r);
}

static bool is_full(int code) {
    return code == PTL_NO_SPACE || code == PTL_LIST_TOO_LONG;
}

/* ---- Sends ---- */

static int offer(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    const ptl_me_t me = {
        .start = r->data,
        .length = r->bytes,
        .ct_handle = PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_GET | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE |
                   PTL_ME_EVENT_UNLINK_DISABLE,
        .match_id = {.rank = r->peer},
        .match_bits = P2P_OFFER(r->name),
    };
    return PtlMEAppend(p2p->ni, p2p->pt, &me, PTL_PRIORITY_LIST, r, &r->entry);
}

static int put(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    uint64_t along = r->bytes;
    if (along > p2p->eager_bytes)
        along = p2p->variant->by_processor ? 0 : p2p->eager_bytes;
    return PtlPut(r->acked ? p2p->large_md : p2p->md, (ptl_size_t)(uintptr_t)r->data, along,
                  PTL_ACK_REQ, (ptl_process_t){.rank = r->peer}, p2p->pt, r->bits, 0, r,
                  P2P_HEADER(r->name, r->bytes));
}

/* PTL_NO_SPACE, PTL_LIST_TOO_LONG: later. */
static int start_send(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    int code = r->bytes > p2p->eager_bytes ? offer(p2p, r) : PTL_OK;
    if (code != PTL_OK)
        return code;
    if (p2p->variant->by_processor) {
        uint32_t sequence = p2p->next_sequence[r->peer]++ & P2P_SEQUENCE_MASK;
        r->bits |= (uint64_t)sequence << P2P_SEQUENCE_AT;
    }
    r->stage = STARTED;
    r->fetched = r->bytes <= p2p->eager_bytes; /* nothing is left to be fetched, */
    r->acked = !r->fetched;                    /* or the get says that the put was taken */
    p2p->sending++;
    return put(p2p, r);
}

static void sent(struct spin_p2p *p2p, struct spin_p2p_request *r, int code) {
    if (code == PTL_OK && !(r->acked && r->fetched))
        return;
    p2p_finish(p2p, r, code);
}

/* The receiver's card has the message, has no room for it, or is gone. */
static int take_ack(struct spin_p2p *p2p, struct spin_p2p_request *r, const ptl_event_t *event) {
    uint8_t fail = event->ni_fail_type;
    if (fail != PTL_NI_OK) {
        if (fail == PTL_NI_PT_DISABLED) { /* by a processor's: its number keeps the order */
            do_again(p2p, r);
            return PTL_OK;
        }
        if (r->bytes > p2p->eager_bytes)
            PtlMEUnlink(r->entry);
        sent(p2p, r, fail == PTL_NI_DROPPED ? PTL_NO_SPACE : PTL_FAIL);
        return PTL_OK;
    }
    r->acked = true;
    if (r->bytes <= p2p->eager_bytes && event->mlength < r->bytes) {
        r->fetched = false;
        int code = offer(p2p, r);
        if (is_full(code))
            do_again(p2p, r);
        else if (code != PTL_OK)
            return code;
    }
    sent(p2p, r, PTL_OK);
    return PTL_OK;
}

static void take_fetched(struct spin_p2p *p2p, struct spin_p2p_request *r,
                         const ptl_event_t *event) {
    r->fetched = true;
    sent(p2p, r, event->ni_fail_type == PTL_NI_OK ? PTL_OK : PTL_FAIL);
}

/* ---- Receives ---- */

void p2p_match(struct spin_p2p_request *r, uint32_t source, uint64_t bits, uint64_t header,
               uint64_t have) {
    r->stage = MATCHED;
    r->size = P2P_SIZE(header);
    r->offer = P2P_NAME(header);
    r->have = have;
    r->status.source = source;
    r->status.tag = (uint32_t)bits;
}

void p2p_received(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    r->status.bytes = r->size < r->bytes ? r->size : r->bytes;
    p2p_finish(p2p, r, r->size > r->bytes ? PTL_NO_SPACE : PTL_OK);
}

int p2p_get_rest(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    uint64_t end = r->size < r->bytes ? r->size : r->bytes;
    uint64_t have = r->have < end ? r->have : end;
    p2p->counts.host_gets++;
    return PtlGet(p2p->md, (ptl_size_t)(uintptr_t)r->data + have, end - have,
                  (ptl_process_t){.rank = r->status.source}, p2p->pt, P2P_OFFER(r->offer), have, r);
}

static void take_reply(struct spin_p2p *p2p, struct spin_p2p_request *r, const ptl_event_t *event) {
    uint8_t fail = event->ni_fail_type;
    if (fail == PTL_NI_OK)
        p2p_received(p2p, r);
    else if (fail == PTL_NI_DROPPED || fail == PTL_NI_PT_DISABLED) /* not offered yet */
        do_again(p2p, r);
    else
        p2p_finish(p2p, r, PTL_FAIL);
}

void p2p_buffered(struct spin_p2p *p2p, const uint8_t *data, uint64_t bytes) {
    for (int i = 0; i < BUFFERS && bytes; i++) {
        uint64_t end = (uintptr_t)data - (uintptr_t)p2p->buffer[i] + bytes;
        if (end <= p2p->buffer_bytes && end > p2p->filled[i])
            p2p->filled[i] = end;
    }
}

int p2p_buffer_append(struct spin_p2p *p2p, int i, ptl_list_t list, unsigned int options) {
    p2p->filled[i] = 0;
    const ptl_me_t me = {
        .start = p2p->buffer[i],
        .length = p2p->buffer_bytes,
        .ct_handle = p2p->unexpected,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_LINK_DISABLE | options,
        .match_id = {.rank = PTL_RANK_ANY},
        .ignore_bits = ~P2P_OFFERED,
        .min_free = p2p->eager_bytes ? p2p->eager_bytes : 1,
    };
    return PtlMEAppend(p2p->ni, p2p->pt, &me, list, &p2p->buffer[i], &p2p->buffer_entry[i]);
}

/* ---- Progress ---- */

static int take_event(struct spin_p2p *p2p, const ptl_event_t *event, bool came) {
    if (came) {
        if (event->type == PTL_EVENT_GET) {
            take_fetched(p2p, event->user_ptr, event);
            return PTL_OK;
        }
        return p2p->variant->by_processor ? processor_event(p2p, event) : card_event(p2p, event);
    }
    if (event->type == PTL_EVENT_ACK)
        return take_ack(p2p, event->user_ptr, event);
    if (event->type == PTL_EVENT_REPLY)
        take_reply(p2p, event->user_ptr, event);
    return PTL_OK;
}

/* What was refused is tried once more. */
static int repeat(struct spin_p2p *p2p) {
    struct request_list list = p2p->again;
    p2p->again = (struct request_list){0};
    while (list.first) {
        struct spin_p2p_request *r = list.first;
        p2p_remove(&list, r);
        r->again = false;
        p2p->counts.resent++;
        bool offers = r->acked && r->bytes <= p2p->eager_bytes;
        int code = !r->is_send ? p2p_get_rest(p2p, r) : offers ? offer(p2p, r) : put(p2p, r);
        if (is_full(code))
            do_again(p2p, r);
        else if (code != PTL_OK)
            return code;
    }
    return PTL_OK;
}

/* What waits for room on the card, in its order. */
static int start_waiting(struct spin_p2p *p2p) {
    int code = PTL_OK;
    while (p2p->sends.first && p2p->sending < p2p->depth && code == PTL_OK) {
        struct spin_p2p_request *r = p2p->sends.first;
        code = start_send(p2p, r);
        if (code == PTL_OK)
            p2p_remove(&p2p->sends, r);
    }
    if (code != PTL_OK && !is_full(code))
        return code;
    code = PTL_OK;
    while (p2p->receives.first && p2p->receiving < p2p->depth && code == PTL_OK) {
        struct spin_p2p_request *r = p2p->receives.first;
        p2p_remove(&p2p->receives, r); /* before its message, which may be here */
        code = card_post(p2p, r);
        if (code != PTL_OK) {
            r->before = NULL;
            r->next = p2p->receives.first;
            *(r->next ? &r->next->before : &p2p->receives.last) = r;
            p2p->receives.first = r;
        }
    }
    return is_full(code) ? PTL_OK : code;
}

int p2p_progress(struct spin_p2p *p2p, ptl_time_t timeout_ms) {
    ptl_event_t event;
    unsigned int which;
    int code = repeat(p2p);
    bool waits = p2p->again.first || p2p->sends.first || p2p->receives.first;
    if (waits && timeout_ms > 1)
        timeout_ms = 1; /* room may be another's to give */
    if (code == PTL_OK)
        code = PtlEQPoll(p2p->eq, 2, timeout_ms, &event, &which);
    while (code == PTL_OK && (code = take_event(p2p, &event, which == 1)) == PTL_OK)
        code = PtlEQPoll(p2p->eq, 2, 0, &event, &which);
    if (code == PTL_EQ_EMPTY && p2p->disabled)
        code = processor_enable(p2p);
    if (code == PTL_EQ_EMPTY || code == PTL_OK)
        code = start_waiting(p2p);
    return code == PTL_EQ_DROPPED ? PTL_FAIL : code;
}

/* ---- Calls ---- */

/* It waits for room if there is none; any other error is the caller's. */
static int wait_for_room(struct spin_p2p *p2p, struct request_list *list, int code,
                         struct spin_p2p_request **request) {
    if (is_full(code)) {
        p2p_add(list, *request);
        return PTL_OK;
    }
    if (code != PTL_OK) {
        p2p_add(&p2p->free, *request);
        *request = NULL;
    }
    return code;
}

int spin_p2p_isend(struct spin_p2p *p2p, const void *data, uint64_t bytes, uint32_t to,
                   uint32_t tag, uint16_t context, struct spin_p2p_request **request) {
    const struct spin_p2p_request as = {
        .is_send = true,
        .data = (uint8_t *)(uintptr_t)data,
        .bytes = bytes,
        .peer = to,
        .tag = tag,
        .bits = P2P_BITS(context, tag),
        .status = {.source = spin_rank(), .tag = tag, .bytes = bytes},
    };
    *request = NULL;
    if (to >= p2p->ranks || tag == SPIN_P2P_ANY_TAG)
        return PTL_ARG_INVALID;
    int code = new_request(p2p, &as, request);
    if (code != PTL_OK)
        return code;
    bool now = !p2p->sends.first && p2p->sending < p2p->depth;
    code = now ? start_send(p2p, *request) : PTL_NO_SPACE;
    return wait_for_room(p2p, &p2p->sends, code, request);
}

static struct spin_p2p_request receive_as(void *into, uint64_t room, uint32_t from, uint32_t tag,
                                          uint16_t context) {
    bool any = tag == SPIN_P2P_ANY_TAG;
    return (struct spin_p2p_request){
        .data = into,
        .bytes = room,
        .peer = from,
        .tag = tag,
        .bits = P2P_BITS(context, any ? 0 : tag),
        .ignore = P2P_IGNORED | (any ? 0xffffffffu : 0),
    };
}

int spin_p2p_irecv(struct spin_p2p *p2p, void *into, uint64_t room, uint32_t from, uint32_t tag,
                   uint16_t context, struct spin_p2p_request **request) {
    const struct spin_p2p_request as = receive_as(into, room, from, tag, context);
    *request = NULL;
    if (from >= p2p->ranks && from != SPIN_P2P_ANY_SOURCE)
        return PTL_ARG_INVALID;
    int code = new_request(p2p, &as, request);
    if (code != PTL_OK)
        return code;
    if (p2p->variant->by_processor)
        code = processor_post(p2p, *request);
    else
        code = p2p->receives.first || p2p->receiving == p2p->depth ? PTL_NO_SPACE
                                                                   : card_post(p2p, *request);
    code = wait_for_room(p2p, &p2p->receives, code, request);
    /* If its message is here already, the rest of that is asked for now. */
    return code == PTL_OK ? p2p_progress(p2p, 0) : code;
}

void spin_p2p_set_user(struct spin_p2p_request *request, void *user) {
    request->status.user = user;
}

int spin_p2p_test(struct spin_p2p *p2p, struct spin_p2p_request **request, bool *done,
                  struct spin_p2p_status *status) {
    struct spin_p2p_request *r = *request;
    *done = true;
    if (!r)
        return PTL_OK;
    int code = r->stage == FINISHED ? PTL_OK : p2p_progress(p2p, 0);
    *done = r->stage == FINISHED;
    if (!*done)
        return code;
    consume(p2p, r, status);
    *request = NULL;
    return PTL_OK;
}

int spin_p2p_wait(struct spin_p2p *p2p, struct spin_p2p_request **request,
                  struct spin_p2p_status *status) {
    struct spin_p2p_request *r = *request;
    if (!r)
        return PTL_OK;
    while (r->stage != FINISHED) {
        int code = p2p_progress(p2p, PTL_TIME_FOREVER);
        if (code != PTL_OK)
            return code;
    }
    consume(p2p, r, status);
    *request = NULL;
    return PTL_OK;
}

int spin_p2p_waitall(struct spin_p2p *p2p, uint32_t count, struct spin_p2p_request **request,
                     struct spin_p2p_status *status) {
    int code = PTL_OK;
    for (uint32_t i = 0; i < count && code == PTL_OK; i++)
        code = spin_p2p_wait(p2p, &request[i], status ? &status[i] : NULL);
    return code;
}

int spin_p2p_waitany(struct spin_p2p *p2p, uint32_t count, struct spin_p2p_request **request,
                     uint32_t *which, struct spin_p2p_status *status) {
    for (;;) {
        bool any = false;
        for (*which = 0; *which < count; ++*which) {
            struct spin_p2p_request *r = request[*which];
            any |= r != NULL;
            if (!r || r->stage != FINISHED)
                continue;
            consume(p2p, r, status);
            request[*which] = NULL;
            return PTL_OK;
        }
        int code = any ? p2p_progress(p2p, PTL_TIME_FOREVER) : PTL_OK;
        if (!any || code != PTL_OK)
            return code;
    }
}

int spin_p2p_next(struct spin_p2p *p2p, ptl_time_t timeout_ms, struct spin_p2p_status *status) {
    int code = PTL_OK;
    if (!p2p->done.first)
        code = p2p_progress(p2p, timeout_ms);
    while (code == PTL_OK && !p2p->done.first && timeout_ms == PTL_TIME_FOREVER)
        code = p2p_progress(p2p, timeout_ms);
    if (code != PTL_OK)
        return code;
    if (!p2p->done.first)
        return PTL_EQ_EMPTY;
    consume(p2p, p2p->done.first, status);
    return PTL_OK;
}

int spin_p2p_send(struct spin_p2p *p2p, const void *data, uint64_t bytes, uint32_t to, uint32_t tag,
                  uint16_t context) {
    struct spin_p2p_request *r;
    struct spin_p2p_status status = {0};
    int code = spin_p2p_isend(p2p, data, bytes, to, tag, context, &r);
    if (code == PTL_OK)
        code = spin_p2p_wait(p2p, &r, &status);
    return code == PTL_OK ? status.code : code;
}

int spin_p2p_recv(struct spin_p2p *p2p, void *into, uint64_t room, uint32_t from, uint32_t tag,
                  uint16_t context, struct spin_p2p_status *status) {
    struct spin_p2p_request *r;
    struct spin_p2p_status own = {0};
    int code = spin_p2p_irecv(p2p, into, room, from, tag, context, &r);
    if (code == PTL_OK)
        code = spin_p2p_wait(p2p, &r, &own);
    if (status)
        *status = own;
    return code == PTL_OK ? own.code : code;
}

static int look_for(struct spin_p2p *p2p, const struct spin_p2p_request *r, bool *found,
                    struct spin_p2p_status *status) {
    int code = p2p_progress(p2p, 0);
    *found = false;
    if (code == PTL_OK && p2p->variant->by_processor)
        *found = processor_probe(p2p, r);
    else if (code == PTL_OK)
        code = card_probe(p2p, r, found);
    if (*found && status)
        *status = p2p->seen;
    return code;
}

int spin_p2p_iprobe(struct spin_p2p *p2p, uint32_t from, uint32_t tag, uint16_t context,
                    bool *found, struct spin_p2p_status *status) {
    const struct spin_p2p_request as = receive_as(NULL, 0, from, tag, context);
    return look_for(p2p, &as, found, status);
}

int spin_p2p_probe(struct spin_p2p *p2p, uint32_t from, uint32_t tag, uint16_t context,
                   struct spin_p2p_status *status) {
    const struct spin_p2p_request as = receive_as(NULL, 0, from, tag, context);
    for (;;) {
        bool found;
        ptl_ct_event_t before = {0};
        int code = p2p->variant->by_processor ? PTL_OK : PtlCTGet(p2p->unexpected, &before);
        if (code == PTL_OK)
            code = look_for(p2p, &as, &found, status);
        if (code != PTL_OK || found)
            return code;
        code = p2p->variant->by_processor ? p2p_progress(p2p, PTL_TIME_FOREVER)
                                          : card_await(p2p, before.success);
        if (code != PTL_OK)
            return code;
    }
}

int spin_p2p_cancel(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    if (!r || r->is_send)
        return PTL_ARG_INVALID;
    if (r->stage > STARTED)
        return PTL_OK;
    if (r->stage == WAITING)
        p2p_remove(&p2p->receives, r);
    else if (p2p->variant->by_processor)
        p2p_remove(&p2p->posted, r);
    else if (!card_cancel(p2p, r))
        return PTL_OK;
    r->cancelled = true;
    p2p_finish(p2p, r, PTL_IGNORED);
    return PTL_OK;
}

void spin_p2p_counts(const struct spin_p2p *p2p, struct spin_p2p_counts *counts) {
    *counts = p2p->counts;
    for (int i = 0; i < BUFFERS; i++)
        counts->buffered_bytes += p2p->filled[i];
}

/* ---- Opening ---- */

static const struct variant *find_variant(const char *name) {
    if (!name)
        name = "spin";
    for (size_t i = 0; i < sizeof variants / sizeof variants[0]; i++)
        if (strcmp(variants[i].name, name) == 0)
            return &variants[i];
    return NULL;
}

static bool take_options(struct spin_p2p *p2p, const struct spin_p2p_options *o) {
    uint64_t unexpected = o->unexpected_bytes ? o->unexpected_bytes : UNEXPECTED_BYTES;
    p2p->variant = find_variant(o->variant);
    p2p->eager_bytes = o->no_eager ? 0 : o->eager_bytes ? o->eager_bytes : EAGER_BYTES;
    p2p->depth = o->depth ? o->depth : DEPTH;
    if (p2p->eager_bytes >= 1u << 30 || p2p->depth > MAX_DEPTH || unexpected >= 1ull << 40)
        return false;
    p2p->buffer_bytes = unexpected / BUFFERS;
    if (p2p->buffer_bytes < p2p->eager_bytes)
        p2p->buffer_bytes = p2p->eager_bytes;
    if (p2p->buffer_bytes < 64)
        p2p->buffer_bytes = 64;
    return p2p->variant;
}

static int open_card(struct spin_p2p *p2p) {
    /* Each send has an acknowledgement and a get, each receive a put and a reply. */
    uint32_t events = 4 * p2p->depth + 64;
    bool by_processor = p2p->variant->by_processor;
    ptl_md_t md = {
        .length = PTL_SIZE_MAX, .options = PTL_MD_EVENT_SEND_DISABLE, .ct_handle = PTL_CT_NONE};
    for (int i = 0; i < 2; i++) {
        int code = PtlEQAlloc(p2p->ni, events, &p2p->eq[i]);
        if (code != PTL_OK)
            return code;
    }
    md.eq_handle = p2p->eq[0];
    int code = PtlMDBind(p2p->ni, &md, &p2p->md);
    md.options |= PTL_MD_EVENT_SUCCESS_DISABLE;
    if (code == PTL_OK)
        code = PtlMDBind(p2p->ni, &md, &p2p->large_md);
    if (code == PTL_OK)
        code = PtlPTAlloc(p2p->ni, by_processor ? PTL_PT_FLOWCTRL : 0, p2p->eq[1], PTL_PT_ANY,
                          &p2p->pt);
    for (int i = 0; i < BUFFERS && code == PTL_OK; i++)
        if (!(p2p->buffer[i] = malloc(p2p->buffer_bytes)))
            code = PTL_NO_SPACE;
    if (code == PTL_OK)
        code = by_processor ? processor_open(p2p) : card_open(p2p);
    return code;
}

int spin_p2p_open(ptl_handle_ni_t ni, const struct spin_p2p_options *options,
                  struct spin_p2p **out) {
    static const struct spin_p2p_options none;
    struct spin_p2p *p2p = calloc(1, sizeof *p2p);
    *out = NULL;
    if (!p2p)
        return PTL_NO_SPACE;
    *p2p = (struct spin_p2p){.ni = ni,
                             .pt = PTL_PT_ANY,
                             .eq = {PTL_EQ_NONE, PTL_EQ_NONE},
                             .md = PTL_INVALID_HANDLE,
                             .large_md = PTL_INVALID_HANDLE,
                             .ranks = spin_ranks(),
                             .unexpected = PTL_CT_NONE,
                             .last_resort = PTL_INVALID_HANDLE,
                             .unexpected_end = &p2p->unexpected_first};
    for (int i = 0; i < BUFFERS; i++)
        p2p->buffer_entry[i] = PTL_INVALID_HANDLE;
    int code = take_options(p2p, options ? options : &none) ? open_card(p2p) : PTL_ARG_INVALID;
    if (code == PTL_OK)
        *out = p2p;
    else
        spin_p2p_close(p2p);
    return code;
}

static void unlink_entry(ptl_handle_me_t entry) {
    while (entry != PTL_INVALID_HANDLE && PtlMEUnlink(entry) == PTL_IN_USE)
        ;
}

void spin_p2p_close(struct spin_p2p *p2p) {
    if (!p2p)
        return;
    card_forget_unexpected(p2p);
    unlink_entry(p2p->last_resort);
    for (int i = 0; i < BUFFERS; i++) {
        unlink_entry(p2p->buffer_entry[i]);
        free(p2p->buffer[i]);
    }
    card_close(p2p);
    processor_close(p2p);
    const ptl_handle_md_t mds[] = {p2p->md, p2p->large_md};
    for (int i = 0; i < 2; i++)
        while (mds[i] != PTL_INVALID_HANDLE && PtlMDRelease(mds[i]) == PTL_IN_USE)
            ;
    if (p2p->pt != PTL_PT_ANY)
        PtlPTFree(p2p->ni, p2p->pt);
    for (int i = 0; i < 2; i++)
        if (p2p->eq[i] != PTL_EQ_NONE)
            PtlEQFree(p2p->eq[i]);
    for (uint32_t i = 0; i < p2p->chunks; i++)
        free(p2p->chunk[i]);
    free(p2p->chunk);
    free(p2p);
}
