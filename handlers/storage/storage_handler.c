/* A storage node's card: checks requests, writes their data to the node's medium, passes them on
 * to other nodes while they come, and answers. docs/storage.md has the protocol. */
#include "spin/handler.h"

#include "storage_erasure.h"
#include "storage_state.h"

typedef struct storage_head ptl_user_header_t;

/* What few requests need is not between what all do, and what hardly any needs is far away: a
 * cluster has 4 KiB of instruction cache. */
#define ASIDE static __attribute__((noinline))
#define RARE  static __attribute__((noinline, cold))

/* For tests: as a card whose node has died. */
RARE bool has_died(struct storage_state *s) {
    return __atomic_add_fetch(&s->runs, 1, __ATOMIC_RELAXED) >= s->dies_after;
}

static inline bool is_dead(struct storage_state *s) {
    return s->dies_after && has_died(s);
}

RARE void answer_signed(const uint32_t session[2], uint32_t client, uint64_t word) {
    PtlHandlerPutFromDevice(session, 0, PTL_NO_CT, PTL_NO_ACK_REQ, client,
                            storage_answer_bits(session, word), 0, NULL, word);
}

/* session: of a capability that is genuine, else NULL. */
static void answer(struct storage_state *s, const uint32_t *session, uint32_t client,
                   uint64_t request, uint32_t virtual_rank, uint32_t status) {
    const uint64_t word = storage_answer(request, virtual_rank, status);
    if (status != STORAGE_DONE)
        __atomic_fetch_add(&s->counts.refused[status], 1, __ATOMIC_RELAXED);
    if (s->node.trust == STORAGE_AUTHENTICATED && session)
        answer_signed(session, client, word);
    else
        PtlHandlerPutFromDevice(s, 0, PTL_NO_CT, PTL_NO_ACK_REQ, client, STORAGE_ANSWER, 0, NULL,
                                word);
}

RARE void notice(struct storage_state *s, const struct storage_descriptor *d, uint32_t kind) {
    const struct storage_notice n = {
        kind,    d->client, storage_answer(d->request, d->virtual_rank, STORAGE_DONE),
        d->base, d->length, {d->session[0], d->session[1]}};
    PtlHandlerPutFromDevice(&n, sizeof n, PTL_NO_CT, PTL_NO_ACK_REQ, s->node.rank, STORAGE_NOTICE,
                            0, NULL, 0);
}

/* ---- The request table ---- */

/* A second table for when the first one is full, in L2: variables of an image are there. */
#ifdef STORAGE_SWAP
static struct storage_descriptor swap_table[STORAGE_SWAP];
static uint32_t swap_is_taken; /* by one node of this card */
#else
#define STORAGE_SWAP 0u
#define swap_table   ((struct storage_descriptor *)NULL)
#endif

static inline struct storage_descriptor *search_in(struct storage_descriptor *table, uint32_t slots,
                                                   uint32_t message) {
    uint32_t at = storage_home(slots, message);
    for (uint32_t i = 0; i < STORAGE_PROBES && i < slots; i++, at++) {
        struct storage_descriptor *d = &table[at < slots ? at : at - slots];
        if (d->message == message + 1)
            return d;
    }
    return NULL;
}

RARE struct storage_descriptor *search(struct storage_state *s, uint32_t message) {
    struct storage_descriptor *d = search_in(storage_table(s), s->slots, message);
    return d || STORAGE_SWAP == 0 ? d : search_in(swap_table, s->swap_slots, message);
}

/* Of this handler's message; NULL: it was not accepted. */
static inline struct storage_descriptor *find(struct storage_state *s) {
    uint32_t message = PtlHandlerMessage();
    if (message < s->slots && storage_table(s)[message].message == message + 1)
        return &storage_table(s)[message];
    return search(s, message);
}

static inline struct storage_descriptor *take_in(struct storage_descriptor *table, uint32_t slots,
                                                 uint32_t message) {
    uint32_t at = storage_home(slots, message);
    for (uint32_t i = 0; i < STORAGE_PROBES && i < slots; i++, at++) {
        struct storage_descriptor *d = &table[at < slots ? at : at - slots];
        uint32_t free_one = 0;
        if (d->message == 0 &&
            __atomic_compare_exchange_n(&d->message, &free_one, message + 1, false,
                                        __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
            return d;
    }
    return NULL;
}

RARE struct storage_descriptor *take_swapped(struct storage_state *s, uint32_t message) {
    struct storage_descriptor *d = take_in(swap_table, s->swap_slots, message);
    if (d)
        __atomic_fetch_add(&s->counts.swapped, 1, __ATOMIC_RELAXED);
    return d;
}

/* A free one for it; NULL: there is none. */
static struct storage_descriptor *take(struct storage_state *s) {
    uint32_t message = PtlHandlerMessage();
    struct storage_descriptor *d = take_in(storage_table(s), s->slots, message);
    if (!d && STORAGE_SWAP > 0)
        d = take_swapped(s, message);
    if (d)
        __atomic_fetch_add(&s->under_way, 1, __ATOMIC_RELAXED);
    return d;
}

static void give(struct storage_state *s, struct storage_descriptor *d) {
    __atomic_fetch_sub(&s->under_way, 1, __ATOMIC_RELAXED);
    __atomic_store_n(&d->message, 0, __ATOMIC_RELEASE);
}

/* From now on so many are of this node; 0: none. */
RARE int set_swap(struct storage_state *s, uint32_t slots) {
#if STORAGE_SWAP
    if (slots > STORAGE_SWAP ||
        (!s->swap_slots && slots && __atomic_exchange_n(&swap_is_taken, 1, __ATOMIC_ACQUIRE)))
        return FAIL;
    for (uint32_t i = 0; i < slots; i++)
        swap_table[i].message = 0;
    if (s->swap_slots && !slots)
        __atomic_store_n(&swap_is_taken, 0, __ATOMIC_RELEASE);
    s->swap_slots = slots;
    return SUCCESS;
#else
    (void)s;
    return slots ? FAIL : SUCCESS;
#endif
}

/* ---- Numbers that were used ---- */

static void lock(uint32_t *word) {
    while (__atomic_exchange_n(word, 1, __ATOMIC_ACQUIRE))
        PtlHandlerYield();
}

static void unlock(uint32_t *word) {
    __atomic_store_n(word, 0, __ATOMIC_RELEASE);
}

static struct storage_window *window_at(struct storage_state *s, uint32_t who, uint32_t probe) {
    return &s->window[((who * 2654435769u >> 16) + probe) & s->window_mask];
}

RARE struct storage_window *search_window(struct storage_state *s, uint32_t who) {
    for (uint32_t i = 0; i < STORAGE_PROBES; i++) {
        struct storage_window *w = window_at(s, who, i);
        if (w->who == who)
            return w;
    }
    return NULL;
}

/* One at a time, so that nobody gets two. */
RARE struct storage_window *claim_window(struct storage_state *s, uint32_t who) {
    lock(&s->claim);
    struct storage_window *mine = search_window(s, who);
    for (uint32_t i = 0; !mine && i < STORAGE_PROBES; i++) {
        struct storage_window *w = window_at(s, who, i);
        if (w->who && w->expires >= s->node.now)
            continue;
        lock(&w->lock);
        w->who = who;
        w->highest = 0;           /* so that the first number forgets all others */
        w->expires = s->node.now; /* it is in use */
        unlock(&w->lock);
        mine = w;
    }
    unlock(&s->claim);
    return mine;
}

static void forget_all(struct storage_window *w) {
    for (uint32_t i = 0; i < STORAGE_WINDOW / 32; i++)
        w->seen[i] = 0;
}

/* Takes a number that was not used. Those that come into the window with it are unused. */
static enum storage_status mark(struct storage_window *w, uint64_t number) {
    uint32_t bit = (uint32_t)number % STORAGE_WINDOW;
    if (number > w->highest) {
        if (number - w->highest >= STORAGE_WINDOW)
            forget_all(w);
        else
            for (uint32_t at = (uint32_t)w->highest + 1; at != (uint32_t)number; at++)
                w->seen[at % STORAGE_WINDOW / 32] &= ~(1u << at % 32);
        w->highest = number;
    } else if (w->highest - number >= STORAGE_WINDOW || w->seen[bit / 32] >> bit % 32 & 1) {
        return STORAGE_REPLAY;
    }
    w->seen[bit / 32] |= 1u << bit % 32;
    return STORAGE_DONE;
}

/* Notes that the number of a request is used, if it was not. Parts of a parity come with the same
 * number from each data node. */
static enum storage_status use_number(struct storage_state *s, const struct storage_head *h) {
    uint32_t part = h->operation == STORAGE_PARITY ? h->data_index + 1u : 0;
    uint32_t who = h->capability.client * 16 + part + 1;
    for (;;) {
        struct storage_window *w = window_at(s, who, 0); /* nearly always */
        if (w->who != who)
            w = search_window(s, who);
        if (!w)
            w = claim_window(s, who);
        if (!w)
            return STORAGE_FULL;
        lock(&w->lock);
        if (w->who == who) { /* else it is another's now */
            enum storage_status status = mark(w, h->request);
            if (w->expires < h->capability.expires)
                w->expires = h->capability.expires;
            unlock(&w->lock);
            return status;
        }
        unlock(&w->lock);
    }
}

/* ---- The beginning of a request ---- */

RARE int refuse(struct storage_state *s, const ptl_header_t *h, const uint32_t session[2],
                enum storage_status status) {
    const struct storage_head *head = &h->user_hdr;
    bool has_head = h->length >= STORAGE_HEAD, genuine = storage_is_genuine(status);
    answer(s, genuine ? session : NULL, genuine ? head->capability.client : h->source_id,
           has_head ? head->request & STORAGE_MOST_REQUEST : 0, has_head ? head->virtual_rank : 0,
           status);
    return DROP;
}

/* Piece by piece, because each is signed; a handler's time is for some of them, and the next
 * handler has the rest. False: there is no memory. */
RARE bool read_signed(const struct storage_state *s, struct storage_more *m) {
    const uint64_t word = storage_answer(m->request, m->virtual_rank, STORAGE_DONE);
    const uint32_t piece = storage_piece(m->packet), role = storage_read_role(m->virtual_rank);
    const uint32_t end = m->at + STORAGE_READ_ONCE;
    uint8_t *out = malloc(piece);
    uint32_t tag[2];
    if (!out)
        return false;
    do {
        uint32_t bytes = m->left < piece - STORAGE_TAG_BYTES ? m->left : piece - STORAGE_TAG_BYTES;
        if (bytes)
            PtlHandlerDMAFromHostB(m->base, out, bytes, PTL_ME_HOST_MEM);
        storage_packet_tag(m->session, m->request, role, m->at, out, bytes, tag);
        __builtin_memcpy(out + bytes, tag, sizeof tag);
        PtlHandlerPutFromDevice(out, bytes + STORAGE_TAG_BYTES, PTL_NO_CT, PTL_NO_ACK_REQ,
                                m->client, STORAGE_DATA_BITS(m->request), m->at, NULL, word);
        m->at += bytes + STORAGE_TAG_BYTES;
        m->base += bytes;
        m->left -= bytes;
    } while (m->left && m->at < end);
    if (m->left)
        PtlHandlerPutFromDevice(m, sizeof *m, PTL_NO_CT, PTL_NO_ACK_REQ, s->node.rank, STORAGE_MORE,
                                0, NULL, 0);
    return true;
}

ASIDE int read_medium(struct storage_state *s, const ptl_header_t *header, uint32_t base,
                      const uint32_t session[2]) {
    const struct storage_head *h = &header->user_hdr;
    __atomic_fetch_add(&s->counts.accepted, 1, __ATOMIC_RELAXED);
    if (h->packet) {
        struct storage_more m = {
            h->request, {session[0], session[1]}, h->capability.client, base, 0, h->length,
            h->packet,  h->virtual_rank};
        return read_signed(s, &m) ? DROP : refuse(s, header, session, STORAGE_FULL);
    }
    PtlHandlerPutFromHost(base, h->length, PTL_NO_CT, PTL_NO_ACK_REQ, h->capability.client,
                          STORAGE_DATA_BITS(h->request), 0, NULL,
                          storage_answer(h->request, h->virtual_rank, STORAGE_DONE));
    return DROP;
}

static void host_took(struct storage_state *s, uint32_t cost) {
    __atomic_fetch_sub(&s->host_holds, cost, __ATOMIC_RELAXED);
}

/* All of it goes to the host, which does what the card would, if there is room in its queue. */
RARE int bypass(struct storage_state *s, struct storage_descriptor *d, const ptl_header_t *h,
                const uint32_t session[2]) {
    const uint32_t cost = STORAGE_HOST_COST(h->length);
    bool fits = __atomic_add_fetch(&s->host_holds, cost, __ATOMIC_RELAXED) <= s->host_room;
    d->stream[0] = fits ? PtlHandlerStreamStart(&h->user_hdr, STORAGE_HEAD, h->length, s->node.rank,
                                                STORAGE_HOST, 0, h->source_id)
                        : 0;
    if (!d->stream[0]) {
        host_took(s, cost);
        give(s, d);
        return refuse(s, h, session, STORAGE_FULL);
    }
    __atomic_fetch_add(&s->counts.bypassed, 1, __ATOMIC_RELAXED);
    d->phase = STORAGE_BYPASS;
    return PROCESS_DATA;
}

/* A stream to each child. The head is changed where it is: it is this handler's. */
static void start_streams(const struct storage_state *s, struct storage_descriptor *d,
                          ptl_header_t *h) {
    struct storage_head *head = &h->user_hdr;
    uint32_t first, count = storage_children(&head->capability, head->virtual_rank, &first);
    d->children = (uint8_t)count;
    d->first_child = (uint8_t)first;
    for (uint32_t i = 0; i < count; i++) {
        storage_pass_on(head, d->session, first + i);
        uint32_t node = head->capability.place[first + i].node;
        d->stream[i] = node < s->ranks ? PtlHandlerStreamStart(head, STORAGE_HEAD, h->length, node,
                                                               STORAGE_REQUEST, 0, 0)
                                       : 0;
        d->gone[i] = d->stream[i] == 0;
    }
}

__handler int storage_header_handler(ptl_header_t h, void *state) {
    struct storage_state *s = state;
    struct storage_head *head = &h.user_hdr;
    const struct storage_capability *c = &head->capability;
    uint32_t session[2] = {0, 0};
    if (is_dead(s))
        return DROP;
    const struct storage_known_table known = {
        s->known, __atomic_load_n(&s->epoch, __ATOMIC_ACQUIRE), &s->counts.learnt};
    enum storage_status status =
        storage_check(head, h.length, h.source_id, &s->node, &known, session);
    if (h.offset || h.length > s->entry_bytes) /* a part would be cut off */
        status = STORAGE_MALFORMED;
    if (status != STORAGE_DONE)
        return refuse(s, &h, session, status);
    uint32_t base = c->place[head->virtual_rank].block * STORAGE_BLOCK + head->offset;
    bool reads = head->operation == STORAGE_READ; /* at once: it needs no descriptor */
    struct storage_descriptor *d = reads ? NULL : take(s);
    bool behind = s->load || s->under_way > s->bypass_from;
    status = d || reads ? use_number(s, head) : STORAGE_FULL;
    if (reads && status == STORAGE_DONE)
        return read_medium(s, &h, base, session);
    if (status == STORAGE_DONE && head->operation == STORAGE_PARITY)
        status = begin_parity(s, d, head, session, base, behind);
    if (status != STORAGE_DONE) {
        if (d)
            give(s, d);
        return refuse(s, &h, session, status);
    }
    if (behind && head->operation == STORAGE_WRITE)
        return bypass(s, d, &h, session);
    __atomic_fetch_add(&s->counts.accepted, 1, __ATOMIC_RELAXED);
    d->phase = STORAGE_ACCEPTED;
    d->status = STORAGE_DONE;
    d->operation = head->operation;
    d->virtual_rank = head->virtual_rank;
    d->data_index = head->data_index;
    d->strategy = c->strategy;
    d->k = c->k;
    d->m = c->m;
    d->packet = head->packet;
    d->request = head->request;
    d->client = c->client;
    d->base = base;
    d->length = head->length;
    if (head->packet) {
        d->session[0] = session[0];
        d->session[1] = session[1];
    }
    start_streams(s, d, &h);
    return PROCESS_DATA;
}

/* The rest of a read, from this card to itself. */
__handler int storage_more_payload_handler(const ptl_payload_t p, void *state) {
    struct storage_more m;
    if (is_dead(state) || p.length != sizeof m)
        return DROP;
    __builtin_memcpy(&m, p.base, sizeof m);
    read_signed(state, &m);
    return DROP;
}

/* ---- Its packets ---- */

/* A packet that is authenticated is a whole one, and ends with its tag. */
static bool is_authentic(const struct storage_descriptor *d, const ptl_payload_t *p) {
    uint32_t tag[2], was[2], index = p->offset / d->packet;
    if (p->length <= STORAGE_TAG_BYTES || (p->offset + p->length - 1) / d->packet != index ||
        p->offset != (index ? index * d->packet : STORAGE_HEAD))
        return false;
    uint32_t bytes = p->length - STORAGE_TAG_BYTES;
    __builtin_memcpy(was, p->base + bytes, sizeof was);
    storage_packet_tag(d->session, d->request, storage_role_of(d), p->offset, p->base, bytes, tag);
    return storage_mac_equal(tag, was);
}

/* Data to the medium, and the packet to other nodes that have copies. */
static inline void store_and_pass_on(struct storage_descriptor *d, const ptl_payload_t *p,
                                     uint32_t bytes, uint32_t at) {
    ptl_dma_h stored; /* the message does not end before it */
    PtlHandlerDMAToHostNB(p->base, d->base + at, bytes, PTL_ME_HOST_MEM, &stored);
    uint32_t copies = d->strategy == STORAGE_RS ? 0 : d->children;
    for (uint32_t i = 0; i < copies; i++)
        if (PtlHandlerStreamPut(d->stream[i], p->base, p->length, p->offset) != PTL_OK)
            d->gone[i] = 1;
}

/* Other packets than those that are copied as they are. */
ASIDE int process(struct storage_state *s, struct storage_descriptor *d, const ptl_payload_t *p) {
    if (d->phase == STORAGE_BYPASS) {
        PtlHandlerStreamPut(d->stream[0], p->base, p->length, p->offset);
        return SUCCESS;
    }
    uint32_t bytes = p->length, at = p->offset - STORAGE_HEAD;
    if (d->packet) {
        if (!is_authentic(d, p)) {
            d->status = STORAGE_BAD_CAPABILITY;
            return DROP;
        }
        bytes -= STORAGE_TAG_BYTES;
        at = storage_data_offset(p->offset, d->packet);
    }
    if (d->operation == STORAGE_PARITY) {
        add_parity(s, d, p->base, bytes, at);
        return SUCCESS;
    }
    store_and_pass_on(d, p, bytes, at);
    if (d->strategy == STORAGE_RS && !encode(d, p->base, bytes, p->offset))
        d->status = STORAGE_FULL;
    return SUCCESS;
}

__handler int storage_payload_handler(const ptl_payload_t p, void *state) {
    struct storage_state *s = state;
    struct storage_descriptor *d = find(s);
    if (is_dead(s) || !d)
        return DROP;
    if (d->phase != STORAGE_ACCEPTED || d->packet || d->strategy == STORAGE_RS)
        return process(s, d, &p);
    store_and_pass_on(d, &p, p.length, p.offset - STORAGE_HEAD);
    return SUCCESS;
}

/* ---- Its end ---- */

/* All of its packets are; it is answered if the whole parity is durable, or will never be. */
ASIDE bool end_parity(struct storage_state *s, const struct storage_descriptor *d,
                      uint32_t status) {
    return parity_end(&s->parity, d->write, d->data_index, status != STORAGE_DONE, s->node.now) ==
               PARITY_DURABLE ||
           status != STORAGE_DONE;
}

static void finish(struct storage_state *s, const struct storage_descriptor *d, uint32_t status) {
    if (status == STORAGE_DONE)
        __atomic_fetch_add(&s->counts.answered, 1, __ATOMIC_RELAXED);
    if (status == STORAGE_DONE && s->by_file)
        notice(s, d, STORAGE_WRITTEN);
    else
        answer(s, d->session, d->client, d->request, d->virtual_rank, status);
}

/* Children that cannot be reached do not answer themselves. */
RARE void answer_for_the_gone(struct storage_state *s, const struct storage_descriptor *d) {
    for (uint32_t i = 0; i < d->children; i++)
        if (d->gone[i])
            answer(s, d->session, d->client, d->request, d->first_child + i, STORAGE_GONE);
}

static inline bool has_gone(const struct storage_descriptor *d) {
    uint32_t all; /* bytes beyond the last child's are those of an older request */
    __builtin_memcpy(&all, d->gone, sizeof all);
    return d->children && all;
}

/* Every packet is on the medium. */
__handler int storage_completion_handler(int dropped, bool flow_control, void *state) {
    struct storage_state *s = state;
    struct storage_descriptor *d = find(s);
    if (is_dead(s) || !d)
        return SUCCESS;
    if (d->phase == STORAGE_ACCEPTED) {
        uint32_t status = d->status;
        if (status == STORAGE_DONE && (dropped || flow_control))
            status = STORAGE_FULL; /* the card could not take all of it */
        if (has_gone(d))
            answer_for_the_gone(s, d);
        if (d->operation != STORAGE_PARITY || end_parity(s, d, status))
            finish(s, d, status);
    }
    give(s, d);
    return SUCCESS;
}

/* The rest of a request does not come. Streams to children end with the message, and so theirs. */
__handler int storage_cleanup_handler(int dropped, bool flow_control, void *state) {
    struct storage_state *s = state;
    struct storage_descriptor *d = find(s);
    (void)dropped;
    (void)flow_control;
    if (is_dead(s) || !d)
        return SUCCESS;
    __atomic_fetch_add(&s->counts.cleaned, 1, __ATOMIC_RELAXED);
    if (d->phase == STORAGE_ACCEPTED) {
        if (d->operation == STORAGE_PARITY)
            end_parity(s, d, STORAGE_GONE);
        notice(s, d, STORAGE_CLEANED);
    }
    give(s, d);
    return SUCCESS;
}

/* A request that bypasses the card breaks off on its way to the host: that is what the host's event
 * says. */
__handler int storage_host_cleanup_handler(int dropped, bool flow_control, void *state) {
    (void)dropped;
    (void)flow_control;
    (void)state;
    return SUCCESS;
}

/* ---- What the host says ---- */

/* Handlers that look at a key meanwhile find its old generation, none, or the whole new key. */
RARE void set_key(struct storage_state *s, const struct storage_key *key) {
    struct storage_key *to = &s->node.key[key->generation % 2];
    __atomic_store_n(&to->generation, 0, __ATOMIC_SEQ_CST);
    to->ends = key->ends;
    for (int i = 0; i < 2; i++) {
        to->key[i] = key->key[i];
        to->ticket[i] = key->ticket[i];
    }
    __atomic_fetch_add(&s->epoch, 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&to->generation, key->generation, __ATOMIC_SEQ_CST);
}

/* The host has made a sum durable. */
RARE void summed(struct storage_state *s, const struct storage_control *c) {
    struct parity_request whose;
    parity_host_took(&s->parity, c->sum.pieces);
    if (parity_host_done(&s->parity, c->value, c->sum.generation, c->sum.bytes, &whose) !=
        PARITY_DURABLE)
        return;
    const struct storage_descriptor d = {.virtual_rank = (uint8_t)whose.virtual_rank,
                                         .request = whose.request,
                                         .client = whose.client,
                                         .base = whose.at,
                                         .length = whose.length,
                                         .session = {whose.session[0], whose.session[1]}};
    finish(s, &d, STORAGE_DONE);
}

RARE void report(struct storage_state *s) {
    struct storage_counts *c = &s->counts;
    c->under_way = s->under_way;
    c->sums_on_card = s->parity.sums_on_card;
    c->sums_at_host = s->parity.sums_at_host;
    c->parities_failed = s->parity.failed_writes;
    c->accumulators = s->parity.in_use;
    c->most_accumulators = s->parity.most_in_use;
    PtlHandlerDMAToHostB(c, 0, sizeof *c, PTL_ME_HOST_MEM);
}

__handler int storage_control_payload_handler(const ptl_payload_t p, void *state) {
    struct storage_state *s = state;
    struct storage_control c;
    if (p.length != sizeof c)
        return FAIL;
    __builtin_memcpy(&c, p.base, sizeof c);
    struct storage_key *key = &s->node.key[c.key.generation % 2];
    switch (c.kind) {
    case STORAGE_SET_CLOCK:
        s->node.now = c.value;
        return SUCCESS;
    case STORAGE_SET_LOAD:
        s->load = c.value;
        return SUCCESS;
    case STORAGE_SET_KEY:
        set_key(s, &c.key);
        return SUCCESS;
    case STORAGE_END_KEY:
        if (key->generation == c.key.generation)
            key->ends = c.key.ends;
        return SUCCESS;
    case STORAGE_SET_SWAP:
        return set_swap(s, c.value);
    case STORAGE_REPORT:
        report(s);
        return SUCCESS;
    case STORAGE_SET_SUMS:
        s->parity.host_room = c.value;
        return SUCCESS;
    case STORAGE_SUMMED:
        summed(s, &c);
        return SUCCESS;
    case STORAGE_SET_HOST:
        s->host_room = c.value;
        return SUCCESS;
    case STORAGE_HOST_TOOK:
        host_took(s, c.value);
        return SUCCESS;
    default:
        return FAIL;
    }
}
