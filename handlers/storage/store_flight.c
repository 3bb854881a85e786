/* Requests of a client that are under way. The card may look at the data of a message until its
 * SEND event; the message's descriptor can be released after its ACK event. A node that died has
 * both fail; one that is only slow leaves the flight behind, to be freed when it answers. */
#include <stdlib.h>
#include <string.h>

#include "store_private.h"

static const uint8_t zero[256];

struct store_flight *store_flight_new(struct spinstore *s) {
    for (uint32_t i = 0; i < STORE_FLIGHTS; i++) {
        struct store_flight *f = &s->flight[++s->next_request % STORE_FLIGHTS];
        if (f->request)
            continue;
        f->request = s->next_request;
        f->left = false;
        f->places = f->done = f->gone = f->puts = f->doubted = f->asked = 0;
        f->worst = STORAGE_DONE;
        return f;
    }
    return NULL;
}

static void release(struct store_put *p) {
    while (PtlMDRelease(p->md) == PTL_IN_USE)
        ;
    free(p->signed_message);
    p->signed_message = NULL;
}

static void free_if_over(struct store_flight *f) {
    for (uint32_t i = 0; i < f->puts; i++)
        if (!f->put[i].over)
            return;
    if (f->left) {
        for (uint32_t i = 0; i < f->puts; i++)
            release(&f->put[i]);
        f->request = 0;
    }
}

void store_flight_leave(struct spinstore *s, struct store_flight *f) {
    (void)s;
    spin_entry_remove(&f->entry);
    f->left = true;
    free_if_over(f);
}

/* Sends put[puts]: `bytes` of the message are in its pieces. */
static int send_put(struct spinstore *s, struct store_flight *f, struct store_put *p,
                    uint32_t pieces, uint64_t bytes) {
    const ptl_md_t md = {.start = p->piece,
                         .length = pieces,
                         .options = PTL_IOVEC,
                         .eq_handle = s->port.eq,
                         .ct_handle = PTL_CT_NONE};
    p->sent = p->over = false;
    int code = PtlMDBind(s->port.ni, &md, &p->md);
    if (code != PTL_OK) {
        free(p->signed_message);
        p->signed_message = NULL;
        return code;
    }
    code = PtlPut(p->md, 0, bytes, PTL_ACK_REQ,
                  (ptl_process_t){.rank = p->head.capability.place[p->place].node}, s->port.pt,
                  STORAGE_REQUEST, 0, p, 0);
    if (code == PTL_OK)
        f->puts++;
    else
        release(p);
    return code;
}

static struct store_put *begin(struct spinstore *s, struct store_flight *f,
                               const struct store_grant *grant, struct store_ask ask) {
    struct store_put *p = &f->put[f->puts];
    ask.trust = store_trust(s);
    ask.request = f->request;
    ask.packet = s->mtu;
    p->place = ask.place;
    p->signed_message = NULL;
    memcpy(f->session, grant->session, sizeof f->session);
    store_head(&p->head, grant, &ask);
    p->piece[0] = (ptl_iovec_t){&p->head, STORAGE_HEAD};
    spin_work(100, STORAGE_HEAD); /* it is put together */
    return p;
}

/* Signed packets have their tags between the data. */
static int send_signed(struct spinstore *s, struct store_flight *f, struct store_put *p,
                       const struct store_grant *grant, const uint8_t *data, uint32_t bytes,
                       uint32_t zeroes) {
    uint64_t whole = storage_message_bytes(bytes + zeroes, p->head.packet);
    uint8_t *padded = zeroes ? calloc(1, bytes + zeroes) : NULL;
    p->signed_message = malloc(whole);
    if (!p->signed_message || (zeroes && !padded)) {
        free(p->signed_message);
        free(padded);
        p->signed_message = NULL;
        return PTL_NO_SPACE;
    }
    if (padded)
        memcpy(padded, data, bytes);
    store_message_fill(p->signed_message, &p->head, grant->session, padded ? padded : data);
    spin_work((uint64_t)bytes * 2, 2ull * bytes); /* HalfSipHash: half a byte per cycle */
    free(padded);
    p->piece[0] = (ptl_iovec_t){p->signed_message, whole};
    return send_put(s, f, p, 1, whole);
}

int store_flight_write(struct spinstore *s, struct store_flight *f, const struct store_grant *grant,
                       uint32_t place, const uint8_t *data, uint32_t bytes, uint32_t zeroes,
                       uint32_t places) {
    struct store_put *p = begin(
        s, f, grant,
        (struct store_ask){.operation = STORAGE_WRITE, .place = place, .length = bytes + zeroes});
    f->places |= places;
    if (p->head.packet)
        return send_signed(s, f, p, grant, data, bytes, zeroes);
    uint32_t pieces = 1;
    if (bytes)
        p->piece[pieces++] = (ptl_iovec_t){(void *)(uintptr_t)data, bytes};
    if (zeroes)
        p->piece[pieces++] = (ptl_iovec_t){(void *)(uintptr_t)zero, zeroes};
    return send_put(s, f, p, pieces, (uint64_t)STORAGE_HEAD + bytes + zeroes);
}

int store_flight_read(struct spinstore *s, struct store_flight *f, const struct store_grant *grant,
                      uint32_t place, uint32_t offset, uint8_t *to, uint32_t bytes) {
    struct spin_entry entry = {.start = to,
                               .length = bytes,
                               .bits = STORAGE_DATA_BITS(f->request),
                               .options = PTL_ME_OP_PUT};
    struct store_put *p =
        begin(s, f, grant,
              (struct store_ask){
                  .operation = STORAGE_READ, .place = place, .offset = offset, .length = bytes});
    f->places |= 1u << place;
    p->to = to;
    p->came = 0;
    if (p->head.packet) { /* with tags */
        entry.length = storage_read_bytes(bytes, p->head.packet);
        entry.start = p->signed_message = malloc(entry.length);
        if (!entry.start)
            return PTL_NO_SPACE;
    }
    int code = spin_entry_append(s->port.ni, s->port.pt, &entry, &f->entry);
    if (code == PTL_OK)
        return send_put(s, f, p, 1, STORAGE_HEAD);
    free(p->signed_message);
    p->signed_message = NULL;
    return code;
}

/* ---- What happens to them ---- */

static struct store_flight *flight_of(struct spinstore *s, uint64_t request) {
    struct store_flight *f = &s->flight[request % STORE_FLIGHTS];
    return request && f->request == request && !f->left ? f : NULL;
}

/* Whether this rank is a node of the extent; for a place of it, that very node. */
static bool is_node(const struct store_flight *f, uint32_t rank, uint32_t place) {
    const struct storage_capability *c = &f->put[0].head.capability;
    for (uint32_t i = 0; place == STORAGE_PLACES && i < storage_places(c); i++)
        if (c->place[i].node == rank)
            return true;
    return place < STORAGE_PLACES && c->place[place].node == rank;
}

/* A node says for itself that it has the data, and may say for others that they have not. What
 * anybody else says is not believed; nor, on a network that is not trusted, what is not signed. A
 * node that has no key cannot sign: that it refuses, whoever says so, is a reason to ask. */
static void answered(struct spinstore *s, uint64_t answer, ptl_match_bits_t bits, uint32_t from) {
    struct store_flight *f = flight_of(s, answer >> 16);
    uint32_t place = answer >> 8 & 0xff, status = answer & 0xff;
    if (f && !storage_is_genuine((enum storage_status)status) && place < STORAGE_PLACES &&
        is_node(f, from, place))
        f->doubted |= 1u << place & f->places;
    if (f && f->put[0].head.packet && bits != storage_answer_bits(f->session, answer)) {
        s->counts.forged++;
        return;
    }
    if (!f || place >= STORAGE_PLACES || !(f->places >> place & 1) ||
        !is_node(f, from, status == STORAGE_DONE ? place : STORAGE_PLACES))
        return;
    if (status == STORAGE_DONE)
        f->done |= 1u << place;
    else if (status == STORAGE_GONE)
        f->gone |= 1u << place;
    if (status != STORAGE_DONE && f->worst == STORAGE_DONE)
        f->worst = status < STORAGE_STATUSES ? (enum storage_status)status : STORAGE_MALFORMED;
}

/* Pieces come in order. What is not this node's answer to this request changes nothing: the true
 * one may still come, and its entry is there for that. */
static void piece_came(struct spinstore *s, struct store_flight *f, const ptl_event_t *event) {
    struct store_put *p = &f->put[0];
    spin_work(event->mlength * 2, 2 * event->mlength); /* HalfSipHash */
    if (event->ni_fail_type != PTL_NI_OK || event->remote_offset != p->came ||
        !store_read_piece(p->to, &p->head, f->session, p->came, event->start, event->mlength)) {
        s->counts.forged++;
        return;
    }
    p->came += event->mlength;
    if (p->came == storage_read_bytes(p->head.length, p->head.packet))
        f->done |= f->places;
}

/* Data of a read has come. */
static void data_came(struct spinstore *s, const ptl_event_t *event) {
    struct store_flight *f = flight_of(s, event->match_bits >> 8);
    if (!f || !is_node(f, event->initiator.rank, f->put[0].head.virtual_rank))
        return;
    if (f->put[0].head.packet)
        piece_came(s, f, event);
    else if (event->ni_fail_type == PTL_NI_OK && event->mlength == f->put[0].head.length)
        f->done |= f->places;
    else
        f->gone |= f->places;
}

static void put_event(struct spinstore *s, const ptl_event_t *event) {
    struct store_put *p = event->user_ptr;
    if ((uint8_t *)p < (uint8_t *)s->flight ||
        (uint8_t *)p >= (uint8_t *)(s->flight + STORE_FLIGHTS))
        return;
    struct store_flight *f =
        &s->flight[(size_t)((uint8_t *)p - (uint8_t *)s->flight) / sizeof *s->flight];
    p->sent = true;
    if (event->type != PTL_EVENT_ACK)
        return;
    p->over = true;
    if (event->ni_fail_type != PTL_NI_OK)
        f->gone |= 1u << p->place;
    free_if_over(f);
}

static void take(struct spinstore *s, enum store_port_news news, const ptl_event_t *event) {
    if (news == STORE_PORT_MESSAGE && s->port.in->answer && s->port.in->serial == s->serial &&
        event->initiator.rank == s->o.service) {
        for (uint32_t i = 0; i < s->port.in->layouts; i++)
            store_hide_session(&s->port, s->rank, &s->port.in->layout[i].grant);
        s->answered = true;
    } else if (news == STORE_PORT_SENT && event->ni_fail_type != PTL_NI_OK)
        s->alone = true;
    else if (news == STORE_PORT_OTHER &&
             (event->type == PTL_EVENT_SEND || event->type == PTL_EVENT_ACK))
        put_event(s, event);
    else if (news == STORE_PORT_OTHER && event->type == PTL_EVENT_PUT &&
             (event->match_bits & 0xff) == STORAGE_ANSWER)
        answered(s, event->hdr_data, event->match_bits, event->initiator.rank);
    else if (news == STORE_PORT_OTHER && event->type == PTL_EVENT_PUT &&
             (event->match_bits & 0xff) == STORAGE_DATA)
        data_came(s, event);
}

int store_client_events(struct spinstore *s, ptl_time_t timeout_ms) {
    enum store_port_news news;
    ptl_event_t event;
    const struct store_buffer *sent;
    int code = store_port_next(&s->port, timeout_ms, &news, &event, &sent);
    if (code == PTL_OK)
        take(s, news, &event);
    return code;
}

static bool is_over(const struct store_flight *f) {
    return f->done == f->places || f->gone || f->worst != STORAGE_DONE;
}

static bool may_return(const struct store_flight *f) {
    for (uint32_t i = 0; i < f->puts; i++)
        if (!f->put[i].sent)
            return false;
    return true;
}

/* Each once, so that who forges refusals can only make us ask. */
static int ask_about_doubted(struct spinstore *s, struct store_flight *f) {
    int code = PTL_OK;
    for (uint32_t i = 0; i < STORAGE_PLACES && code == PTL_OK; i++) {
        bool died;
        if (!((f->doubted & ~f->asked) >> i & 1))
            continue;
        f->asked |= 1u << i;
        code = store_client_suspect(s, &f->put[0].head.capability, 1u << i, &died);
        if (code == PTL_OK && died)
            f->gone |= 1u << i;
    }
    return code;
}

int store_flights_wait(struct spinstore *s, struct store_flight *const *flight, uint32_t count) {
    uint64_t began = spin_now_ps(), patience = s->o.patience_ms * 1000000000ull;
    uint64_t silence = s->o.silence_ms * 1000000000ull;
    for (;;) {
        bool over = true, ours = true;
        int code = PTL_OK;
        for (uint32_t i = 0; i < count && code == PTL_OK; i++) {
            code = ask_about_doubted(s, flight[i]);
            over &= is_over(flight[i]);
            ours &= may_return(flight[i]);
        }
        if (code != PTL_OK)
            return code;
        uint64_t waited = spin_now_ps() - began;
        if (ours && (over || waited >= patience))
            return PTL_OK;
        if (waited >= patience + silence)
            return PTL_FAIL;
        uint64_t until = waited < patience ? patience : patience + silence;
        code = store_client_events(s, (ptl_time_t)((until - waited) / 1000000000u + 1));
        if (code != PTL_OK)
            return code;
    }
}
