/* Receives that the card matches: an entry each. A message that meets one is stored where it
 * belongs, and of a large one the rest is fetched, by the card's handler ("spin", case II of
 * Figure 5b) or by the processor when it gets to it ("portals"). A message that meets none lies in
 * a buffer of the overflow list, where the receive finds it later and the processor does what is
 * left: the copy (case III), and the get (case IV). When all buffers are full only the header is
 * kept, and the data stays with its sender as if the message were large. */
#include <stdlib.h>

#include "p2p_private.h"

static int append_last_resort(struct spin_p2p *p2p) {
    const ptl_me_t me = {
        .ct_handle = p2p->unexpected,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_COMM_DISABLE |
                   PTL_ME_EVENT_UNLINK_DISABLE | PTL_ME_EVENT_CT_COMM,
        .match_id = {.rank = PTL_RANK_ANY},
        .ignore_bits = ~P2P_OFFERED,
    };
    return PtlMEAppend(p2p->ni, p2p->pt, &me, PTL_OVERFLOW_LIST, NULL, &p2p->last_resort);
}

/* An entry can only be appended, so the last resort is replaced by one behind the buffer. The old
 * one takes no more messages, and goes when its headers have. */
static int append_buffer(struct spin_p2p *p2p, int i) {
    ptl_handle_me_t old = p2p->last_resort;
    int code = p2p_buffer_append(p2p, i, PTL_OVERFLOW_LIST,
                                 PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM);
    if (code == PTL_OK)
        code = append_last_resort(p2p);
    if (code == PTL_OK && old != PTL_INVALID_HANDLE)
        code = PtlTriggeredMEUnlink(old, p2p->unexpected, 0);
    return code;
}

static int open_handlers(struct spin_p2p *p2p) {
    p2p->place = calloc(p2p->depth, sizeof *p2p->place);
    p2p->free_place = calloc(p2p->depth, sizeof *p2p->free_place);
    if (!p2p->place || !p2p->free_place)
        return PTL_NO_SPACE;
    int code = spin_handlers_load(p2p->ni, "p2p_handler", &p2p->image);
    if (code == PTL_OK)
        code = PtlImageFind(p2p->image, "p2p_header_handler", &p2p->header_handler);
    return code;
}

int card_open(struct spin_p2p *p2p) {
    int code = PtlCTAlloc(p2p->ni, &p2p->unexpected);
    for (int i = 0; i < BUFFERS && code == PTL_OK; i++)
        code = p2p_buffer_append(p2p, i, PTL_OVERFLOW_LIST,
                                 PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM);
    if (code == PTL_OK)
        code = append_last_resort(p2p);
    return code == PTL_OK && p2p->variant->handlers ? open_handlers(p2p) : code;
}

void card_close(struct spin_p2p *p2p) {
    for (uint32_t i = 0; i < p2p->places; i++)
        PtlHPUFreeMem(&p2p->place[i]);
    free(p2p->place);
    free(p2p->free_place);
    if (p2p->image)
        PtlImageUnload(p2p->image);
    if (p2p->unexpected != PTL_CT_NONE)
        PtlCTFree(p2p->unexpected);
}

/* ---- Receives ---- */

static ptl_me_t entry_of(const struct spin_p2p_request *r) {
    return (ptl_me_t){
        .start = r->data,
        .length = r->bytes,
        .ct_handle = PTL_CT_NONE,
        .uid = PTL_UID_ANY,
        .options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE | PTL_ME_EVENT_LINK_DISABLE |
                   PTL_ME_EVENT_UNLINK_DISABLE,
        .match_id = {.rank = r->peer == SPIN_P2P_ANY_SOURCE ? PTL_RANK_ANY : r->peer},
        .match_bits = r->bits,
        .ignore_bits = r->ignore,
    };
}

/* A place on the card for the state of a receive, or -1: then the processor gets the rest of a
 * large message. */
static int32_t take_place(struct spin_p2p *p2p) {
    if (!p2p->places_free && p2p->places < p2p->depth &&
        PtlHPUAllocMem(sizeof(struct p2p_receive), p2p->ni, &p2p->place[p2p->places]) == PTL_OK)
        p2p->free_place[p2p->places_free++] = p2p->places++;
    return p2p->places_free ? (int32_t)p2p->free_place[--p2p->places_free] : -1;
}

/* Its handler has run, or will not. */
static void give_place(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    if (r->place >= 0)
        p2p->free_place[p2p->places_free++] = (uint32_t)r->place;
    r->place = -1;
}

int card_post(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    ptl_me_t me = entry_of(r);
    struct p2p_receive state = {
        .room = (uint32_t)r->bytes, .request = r->name, .eager_bytes = p2p->eager_bytes};
    /* One that is too short for a large message needs no handler. */
    if (p2p->variant->handlers && r->bytes > p2p->eager_bytes)
        r->place = take_place(p2p);
    if (r->place >= 0) {
        me.options |= PTL_ME_HANDLERS;
        me.header_handler = p2p->header_handler;
        me.hpu_memory = p2p->place[r->place];
        me.hpu_initial_state = &state;
        me.hpu_initial_state_length = sizeof state;
    }
    int code = PtlMEAppend(p2p->ni, p2p->pt, &me, PTL_PRIORITY_LIST, r, &r->entry);
    if (code == PTL_OK) {
        r->stage = STARTED;
        p2p->receiving++;
    } else {
        give_place(p2p, r);
    }
    return code;
}

static void finish(struct spin_p2p *p2p, struct spin_p2p_request *r, bool failed) {
    if (failed)
        p2p_finish(p2p, r, PTL_FAIL);
    else
        p2p_received(p2p, r);
}

bool card_cancel(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    if (PtlMEUnlink(r->entry) != PTL_OK)
        return false;
    give_place(p2p, r);
    return true;
}

static void count(struct spin_p2p *p2p, const struct spin_p2p_request *r, bool unexpected) {
    bool large = r->size > p2p->eager_bytes;
    uint64_t *counts[2][2] = {{&p2p->counts.expected_small, &p2p->counts.expected_large},
                              {&p2p->counts.unexpected_small, &p2p->counts.unexpected_large}};
    ++*counts[unexpected][large];
}

/* A message that came after its receive: cases I and II. */
static int take_expected(struct spin_p2p *p2p, struct spin_p2p_request *r,
                         const ptl_event_t *event) {
    bool by_handler = r->place >= 0 && P2P_SIZE(event->hdr_data) > p2p->eager_bytes;
    p2p_match(r, event->initiator.rank, event->match_bits, event->hdr_data, event->mlength);
    give_place(p2p, r);
    count(p2p, r, false);
    if (event->ni_fail_type != PTL_NI_OK) {
        p2p_finish(p2p, r, PTL_FAIL);
        return PTL_OK;
    }
    if (by_handler) {
        r->first_here = true;
        if (r->rest_here)
            finish(p2p, r, r->rest_failed);
        return PTL_OK;
    }
    if (r->have < r->size)
        return p2p_get_rest(p2p, r);
    p2p_received(p2p, r);
    return PTL_OK;
}

/* One that came before it: cases III and IV. */
static int take_unexpected(struct spin_p2p *p2p, struct spin_p2p_request *r,
                           const ptl_event_t *event) {
    p2p_match(r, event->initiator.rank, event->match_bits, event->hdr_data, event->mlength);
    give_place(p2p, r);
    count(p2p, r, true);
    if (event->ni_fail_type != PTL_NI_OK) {
        p2p_finish(p2p, r, PTL_FAIL);
        return PTL_OK;
    }
    p2p_buffered(p2p, event->start, r->have);
    uint64_t bytes = r->have < r->bytes ? r->have : r->bytes;
    if (bytes) {
        spin_copy(r->data, event->start, bytes);
        p2p->counts.copied_bytes += bytes;
    }
    if (r->have < r->size)
        return p2p_get_rest(p2p, r);
    p2p_received(p2p, r);
    return PTL_OK;
}

/* The rest of a large message, that a handler got. */
static void take_rest(struct spin_p2p *p2p, const ptl_event_t *event) {
    struct spin_p2p_request *r = p2p_request_of(p2p, (uint32_t)(uintptr_t)event->user_ptr);
    if (!r || r->is_send || r->stage == FINISHED)
        return;
    r->rest_here = true;
    r->rest_failed = event->ni_fail_type != PTL_NI_OK;
    if (r->first_here)
        finish(p2p, r, r->rest_failed);
}

int card_event(struct spin_p2p *p2p, const ptl_event_t *event) {
    switch (event->type) {
    case PTL_EVENT_PUT:
        return take_expected(p2p, event->user_ptr, event);
    case PTL_EVENT_PUT_OVERFLOW:
        if (event->user_ptr == p2p) { /* a search has taken it away */
            p2p->searching = false;
            return PTL_OK;
        }
        return take_unexpected(p2p, event->user_ptr, event);
    case PTL_EVENT_REPLY:
        take_rest(p2p, event);
        return PTL_OK;
    case PTL_EVENT_AUTO_UNLINK:
        p2p->buffer_entry[(uint8_t **)event->user_ptr - p2p->buffer] = PTL_INVALID_HANDLE;
        return PTL_OK;
    case PTL_EVENT_AUTO_FREE: /* all that lay in it was received */
        return append_buffer(p2p, (int)((uint8_t **)event->user_ptr - p2p->buffer));
    case PTL_EVENT_SEARCH:
        p2p->searching = false;
        p2p->found = event->ni_fail_type == PTL_NI_OK;
        p2p->seen = (struct spin_p2p_status){.source = event->initiator.rank,
                                             .tag = (uint32_t)event->match_bits,
                                             .bytes = P2P_SIZE(event->hdr_data)};
        return PTL_OK;
    }
    return PTL_OK;
}

/* ---- Probes ---- */

static int search(struct spin_p2p *p2p, const ptl_me_t *me, ptl_search_op_t what, bool *found) {
    p2p->searching = p2p->found = true;
    int code = PtlMESearch(p2p->ni, p2p->pt, me, what, p2p);
    while (code == PTL_OK && p2p->searching)
        code = p2p_progress(p2p, PTL_TIME_FOREVER);
    *found = p2p->found;
    return code;
}

int card_probe(struct spin_p2p *p2p, const struct spin_p2p_request *r, bool *found) {
    const ptl_me_t me = entry_of(r);
    return search(p2p, &me, PTL_SEARCH_ONLY, found);
}

int card_await(struct spin_p2p *p2p, uint64_t unexpected) {
    ptl_ct_event_t event;
    unsigned int which;
    ptl_size_t test = unexpected + 1;
    int code = PtlCTPoll(&p2p->unexpected, &test, 1, 1, &event, &which);
    return code == PTL_CT_NONE_REACHED ? PTL_OK : code;
}

void card_forget_unexpected(struct spin_p2p *p2p) {
    const struct spin_p2p_request any = {.peer = SPIN_P2P_ANY_SOURCE, .ignore = ~P2P_OFFERED};
    ptl_me_t me = entry_of(&any);
    bool found = p2p->unexpected != PTL_CT_NONE && !p2p->variant->by_processor;
    while (found && search(p2p, &me, PTL_SEARCH_DELETE, &found) == PTL_OK)
        ;
}
