/* Receives that the processor matches, as message passing on RDMA does: everything that comes lies
 * in buffers that are its own, one behind the other, and an event says so. The processor looks for
 * the receive when it is in the library, copies a small message, and gets a large one. Messages end
 * in any order, so a sequence number per source puts them back in theirs; it also lets a sender
 * repeat what found no room. */
#include <stdlib.h>
#include <string.h>

#include "p2p_private.h"

/* What the processor takes, in worlds: to read an event, and to look at an entry of a list. */
enum { EVENT_CYCLES = 64, LOOK_CYCLES = 10, LINE = 64 };

int processor_open(struct spin_p2p *p2p) {
    p2p->next_sequence = calloc(p2p->ranks, sizeof *p2p->next_sequence);
    p2p->expected = calloc(p2p->ranks, sizeof *p2p->expected);
    int code = p2p->next_sequence && p2p->expected ? PTL_OK : PTL_NO_SPACE;
    for (int i = 0; i < BUFFERS && code == PTL_OK; i++)
        code = p2p_buffer_append(p2p, i, PTL_PRIORITY_LIST, PTL_ME_NO_TRUNCATE);
    return code;
}

static void free_arrivals(struct arrival *a) {
    while (a) {
        struct arrival *next = a->next;
        free(a->data);
        free(a);
        a = next;
    }
}

void processor_close(struct spin_p2p *p2p) {
    for (uint32_t i = 0; i < EARLY; i++)
        free_arrivals(p2p->early[i]);
    free_arrivals(p2p->unexpected_first);
    free(p2p->next_sequence);
    free(p2p->expected);
}

static bool matches(const struct spin_p2p_request *r, const struct arrival *a) {
    return (r->peer == SPIN_P2P_ANY_SOURCE || r->peer == a->source) &&
           ((r->bits ^ a->bits) & ~r->ignore) == 0;
}

static int take(struct spin_p2p *p2p, struct spin_p2p_request *r, const struct arrival *a) {
    p2p_match(r, a->source, a->bits, a->header, a->bytes);
    if (r->size > p2p->eager_bytes)
        return p2p_get_rest(p2p, r);
    uint64_t bytes = a->bytes < r->bytes ? a->bytes : r->bytes;
    if (bytes) {
        spin_copy(r->data, a->data, bytes);
        p2p->counts.copied_bytes += bytes;
    }
    p2p_received(p2p, r);
    return PTL_OK;
}

static void count(struct spin_p2p *p2p, const struct arrival *a, bool unexpected) {
    bool large = P2P_SIZE(a->header) > p2p->eager_bytes;
    struct spin_p2p_counts *c = &p2p->counts;
    if (unexpected)
        ++*(large ? &c->unexpected_large : &c->unexpected_small);
    else
        ++*(large ? &c->expected_large : &c->expected_small);
}

/* Out of the buffer, which is needed for what comes. */
static struct arrival *keep(struct spin_p2p *p2p, const struct arrival *a) {
    struct arrival *kept = malloc(sizeof *kept);
    uint8_t *data = kept ? malloc(a->bytes ? a->bytes : 1) : NULL;
    if (!data) {
        free(kept);
        return NULL;
    }
    *kept = *a;
    kept->next = NULL;
    kept->data = data;
    if (a->bytes)
        spin_copy(data, a->data, a->bytes);
    p2p->counts.copied_bytes += a->bytes;
    return kept;
}

/* The next one of its source. `kept`: it is out of the buffer already. */
static int deliver(struct spin_p2p *p2p, struct arrival *a, bool kept) {
    p2p->expected[a->source]++;
    uint64_t looked = 0;
    struct spin_p2p_request *r = p2p->posted.first;
    for (; r && !matches(r, a); r = r->next)
        looked++;
    spin_work(looked * LOOK_CYCLES, looked * LINE);
    if (r) {
        p2p_remove(&p2p->posted, r);
        count(p2p, a, false);
        int code = take(p2p, r, a);
        if (kept) {
            a->next = NULL;
            free_arrivals(a);
        }
        return code;
    }
    if (!kept)
        a = keep(p2p, a);
    if (!a)
        return PTL_NO_SPACE;
    count(p2p, a, true);
    a->next = NULL;
    *p2p->unexpected_end = a;
    p2p->unexpected_end = &a->next;
    return PTL_OK;
}

static uint32_t sequence_of(const struct arrival *a) {
    return (uint32_t)(a->bits >> P2P_SEQUENCE_AT) & P2P_SEQUENCE_MASK;
}

static bool is_next(const struct spin_p2p *p2p, const struct arrival *a) {
    return sequence_of(a) == (p2p->expected[a->source] & P2P_SEQUENCE_MASK);
}

/* The next one of this source, if it came too early and was kept, or NULL. */
static struct arrival *take_early(struct spin_p2p *p2p, uint32_t source) {
    struct arrival **at = &p2p->early[p2p->expected[source] % EARLY], *a;
    while (*at && !((*at)->source == source && is_next(p2p, *at)))
        at = &(*at)->next;
    a = *at;
    if (a)
        *at = a->next;
    return a;
}

static int take_message(struct spin_p2p *p2p, const ptl_event_t *event) {
    struct arrival a = {.source = event->initiator.rank,
                        .bits = event->match_bits,
                        .header = event->hdr_data,
                        .bytes = event->mlength,
                        .data = event->start};
    p2p_buffered(p2p, a.data, a.bytes);
    spin_work(EVENT_CYCLES, LINE);
    if (event->ni_fail_type != PTL_NI_OK || a.source >= p2p->ranks)
        return PTL_OK; /* its sender is told, too */
    if (!is_next(p2p, &a)) {
        struct arrival *early = keep(p2p, &a), **list = &p2p->early[sequence_of(&a) % EARLY];
        if (!early)
            return PTL_NO_SPACE;
        early->next = *list;
        *list = early;
        return PTL_OK;
    }
    int code = deliver(p2p, &a, false);
    struct arrival *early;
    while (code == PTL_OK && (early = take_early(p2p, a.source)))
        code = deliver(p2p, early, true);
    return code;
}

int processor_post(struct spin_p2p *p2p, struct spin_p2p_request *r) {
    uint64_t looked = 0;
    struct arrival **at = &p2p->unexpected_first;
    r->stage = STARTED;
    p2p->receiving++;
    for (; *at && !matches(r, *at); at = &(*at)->next)
        looked++;
    spin_work(looked * LOOK_CYCLES, looked * LINE);
    struct arrival *a = *at;
    if (!a) {
        p2p_add(&p2p->posted, r);
        return PTL_OK;
    }
    *at = a->next;
    if (p2p->unexpected_end == &a->next)
        p2p->unexpected_end = at;
    int code = take(p2p, r, a);
    a->next = NULL;
    free_arrivals(a);
    return code;
}

bool processor_probe(struct spin_p2p *p2p, const struct spin_p2p_request *r) {
    const struct arrival *a = p2p->unexpected_first;
    while (a && !matches(r, a))
        a = a->next;
    if (a)
        p2p->seen = (struct spin_p2p_status){
            .source = a->source, .tag = (uint32_t)a->bits, .bytes = P2P_SIZE(a->header)};
    return a;
}

int processor_event(struct spin_p2p *p2p, const ptl_event_t *event) {
    switch (event->type) {
    case PTL_EVENT_PUT:
        return take_message(p2p, event);
    case PTL_EVENT_AUTO_UNLINK: /* it is full, and all that lay in it was taken */
        return p2p_buffer_append(p2p, (int)((uint8_t **)event->user_ptr - p2p->buffer),
                                 PTL_PRIORITY_LIST, PTL_ME_NO_TRUNCATE);
    case PTL_EVENT_PT_DISABLED:
        p2p->disabled = true;
    }
    return PTL_OK;
}

int processor_enable(struct spin_p2p *p2p) {
    p2p->disabled = false;
    return PtlPTEnable(p2p->ni, p2p->pt);
}
