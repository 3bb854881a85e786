#include "spinlib/ftb.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "ftb_layout.h"

#define AHEAD 8u

/* A broadcast that is expected: an entry for its number. */
struct expected {
    struct spin_linked entry;
    ptl_handle_ct_t ct; /* chunks that are here */
    uint8_t *memory;    /* total bytes (8), data; by the host, copies as they come */
    struct ftb_state *state;
    uint32_t sequence;
    /* By the host: */
    uint8_t *data; /* once per chunk */
    uint64_t total;
    uint32_t here; /* chunks */
};

struct spin_ftb {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq; /* by the host */
    ptl_image_h image;
    uint32_t rank, ranks, degree;
    uint32_t chunk_bytes, chunks;
    uint32_t slots; /* one more than may be ahead: for what the caller looks at */
    uint32_t next;  /* number of the next broadcast */
    uint32_t may_forward;
    bool by_host;
    bool waits; /* for a broadcast that did not come in time */
    uint64_t copies;
    uint32_t state_bytes;
    uint64_t room; /* of expected.memory */
    struct expected *slot;
    uint8_t *staging; /* chunks with their headers */
    ptl_handle_md_t md;
    ptl_handle_ct_t sent;
    uint64_t puts; /* that were started from staging, or from a slot */
};

static struct expected *slot_of(struct spin_ftb *f, uint32_t sequence) {
    return &f->slot[sequence % f->slots];
}

/* ---- Opening ---- */

static int expect(struct spin_ftb *f, uint32_t sequence) {
    struct expected *x = slot_of(f, sequence);
    static const ptl_ct_event_t zero;
    PtlCTSet(x->ct, zero);
    x->sequence = sequence;
    x->here = 0;
    memset(x->state->seen, 0, f->state_bytes - sizeof *x->state);
    struct spin_entry entry = {
        .start = x->memory,
        .length = f->room,
        .bits = sequence,
        .options = PTL_ME_OP_PUT,
        .ct = x->ct,
        .user_ptr = x,
    };
    if (f->by_host) {
        entry.options |= PTL_ME_MANAGE_LOCAL | PTL_ME_NO_TRUNCATE;
    } else {
        entry.options |= PTL_ME_EVENT_COMM_DISABLE;
        entry.image = f->image;
        entry.payload = "ftb_payload_handler";
        entry.state = x->state;
        entry.state_bytes = f->state_bytes;
    }
    return spin_entry_append(f->ni, f->pt, &entry, &x->entry);
}

static int open_slot(struct spin_ftb *f, uint32_t i) {
    struct expected *x = &f->slot[i];
    int code = PtlCTAlloc(f->ni, &x->ct);
    if (code != PTL_OK)
        return code;
    x->memory = malloc(f->room);
    x->state = calloc(1, f->state_bytes);
    x->data = f->by_host ? malloc((size_t)f->chunks * f->chunk_bytes) : NULL;
    if (!x->memory || !x->state || (f->by_host && !x->data))
        return PTL_NO_SPACE;
    x->state->rank = f->rank;
    x->state->ranks = f->ranks;
    x->state->chunk_bytes = f->chunk_bytes;
    x->state->chunks = f->chunks;
    x->state->may_forward = f->may_forward;
    return expect(f, i);
}

/* What a broadcast takes, by the size of a packet. */
static int measure(struct spin_ftb *f, const struct spin_ftb_options *o) {
    ptl_hpu_limits_t limits;
    int code = PtlHPULimits(f->ni, &limits);
    if (code != PTL_OK)
        return code;
    if (o->most_bytes > UINT32_MAX / 2)
        return PTL_ARG_INVALID;
    uint64_t packet = limits.max_payload_size < 65536 ? limits.max_payload_size : 65536;
    f->rank = spin_rank();
    f->ranks = spin_ranks();
    while (1u << f->degree < f->ranks)
        f->degree++;
    f->chunk_bytes = (uint32_t)((packet - sizeof(struct ftb_chunk)) & ~7ull);
    f->chunks = (uint32_t)((o->most_bytes + f->chunk_bytes - 1) / f->chunk_bytes);
    f->chunks += f->chunks == 0; /* an empty broadcast is a chunk too */
    f->slots = (o->ahead ? o->ahead : AHEAD) + 1;
    f->by_host = o->by_host;
    f->may_forward = o->stop_after ? o->stop_after - 1 : UINT32_MAX;
    f->state_bytes = (uint32_t)sizeof(struct ftb_state) + (f->chunks + 31) / 32 * 4;
    uint64_t data = (uint64_t)f->chunks * f->chunk_bytes;
    /* an entry that is shorter than a message would have it cut off */
    f->room = o->by_host ? f->degree * (data + f->chunks * sizeof(struct ftb_chunk))
                         : sizeof(uint64_t) + data + sizeof(struct ftb_chunk);
    return PTL_OK;
}

static int open_sender(struct spin_ftb *f) {
    uint64_t each = f->chunk_bytes + sizeof(struct ftb_chunk);
    f->staging = malloc(each * f->chunks);
    /* by the host, what came is forwarded from where it is */
    ptl_md_t md = {.start = f->by_host ? NULL : f->staging,
                   .length = f->by_host ? PTL_SIZE_MAX : each * f->chunks,
                   .options = PTL_MD_EVENT_CT_SEND,
                   .eq_handle = PTL_EQ_NONE};
    if (!f->staging)
        return PTL_NO_SPACE;
    int code = PtlCTAlloc(f->ni, &f->sent);
    md.ct_handle = f->sent;
    return code == PTL_OK ? PtlMDBind(f->ni, &md, &f->md) : code;
}

int spin_ftb_open(ptl_handle_ni_t ni, const struct spin_ftb_options *o, struct spin_ftb **out) {
    struct spin_ftb *f = calloc(1, sizeof *f);
    *out = NULL;
    if (!f)
        return PTL_NO_SPACE;
    f->ni = ni;
    f->md = PTL_INVALID_HANDLE;
    f->eq = PTL_EQ_NONE;
    int code = measure(f, o);
    if (code == PTL_OK && !(f->slot = calloc(f->slots, sizeof *f->slot)))
        code = PTL_NO_SPACE;
    if (code == PTL_OK && f->by_host)
        code = PtlEQAlloc(ni, (ptl_size_t)f->slots * f->degree * f->chunks + f->slots, &f->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, f->eq, PTL_PT_ANY, &f->pt);
    if (code == PTL_OK && !f->by_host)
        code = spin_handlers_load(ni, "ftb_handler", &f->image);
    if (code == PTL_OK)
        code = open_sender(f);
    for (uint32_t i = 0; i < f->slots && code == PTL_OK; i++)
        code = open_slot(f, i);
    if (code == PTL_OK)
        *out = f;
    else
        spin_ftb_close(f);
    return code;
}

void spin_ftb_close(struct spin_ftb *f) {
    if (!f)
        return;
    for (uint32_t i = 0; f->slot && i < f->slots; i++) {
        struct expected *x = &f->slot[i];
        spin_entry_remove(&x->entry);
        if (x->ct)
            PtlCTFree(x->ct);
        free(x->memory);
        free(x->state);
        free(x->data);
    }
    while (f->md != PTL_INVALID_HANDLE && PtlMDRelease(f->md) == PTL_IN_USE)
        ;
    if (f->sent)
        PtlCTFree(f->sent);
    PtlPTFree(f->ni, f->pt);
    if (f->eq != PTL_EQ_NONE)
        PtlEQFree(f->eq);
    if (f->image)
        PtlImageUnload(f->image);
    free(f->slot);
    free(f->staging);
    free(f);
}

/* ---- Sending ---- */

static uint64_t md_offset(const struct spin_ftb *f, const void *start) {
    return f->by_host ? (uint64_t)(uintptr_t)start
                      : (uint64_t)((const uint8_t *)start - f->staging);
}

/* To all neighbours but the root of the broadcast. */
static int forward(struct spin_ftb *f, const struct ftb_chunk *c, const void *packet,
                   uint64_t bytes) {
    for (uint32_t k = 0; k < f->degree; k++) {
        uint32_t to = ftb_neighbour(f->rank, f->ranks, k);
        if (to == c->root)
            continue;
        if (f->may_forward != UINT32_MAX && f->may_forward-- == 0) {
            f->may_forward = 0;
            return PTL_OK;
        }
        int code = PtlPut(f->md, md_offset(f, packet), bytes, PTL_NO_ACK_REQ,
                          (ptl_process_t){.rank = to}, f->pt, c->sequence, 0, NULL, c->total);
        if (code != PTL_OK)
            return code;
        f->puts++;
    }
    return PTL_OK;
}

/* Until nothing is read from our memory any more; sends to ranks that failed are failures. */
static int wait_for_sends(struct spin_ftb *f) {
    ptl_ct_event_t event;
    int code = PtlCTWait(f->sent, f->puts, &event);
    while (code == PTL_OK && event.success + event.failure < f->puts) {
        sched_yield();
        code = PtlCTGet(f->sent, &event);
    }
    return code;
}

/* Before the next broadcast: the entry of the last one is over, and another takes its place. */
static int go_on(struct spin_ftb *f) {
    if (f->next == 0)
        return PTL_OK;
    spin_entry_remove(&slot_of(f, f->next - 1)->entry);
    return expect(f, f->next - 1 + f->slots);
}

int spin_ftb_send(struct spin_ftb *f, const void *data, uint64_t bytes) {
    if (bytes > (uint64_t)f->chunks * f->chunk_bytes)
        return PTL_ARG_INVALID;
    uint64_t each = f->chunk_bytes + sizeof(struct ftb_chunk), at = 0;
    int code = go_on(f);
    if (code != PTL_OK)
        return code;
    for (uint32_t i = 0; i == 0 || at < bytes; i++) {
        struct ftb_chunk *c = (struct ftb_chunk *)(void *)(f->staging + i * each);
        uint64_t length = bytes - at < f->chunk_bytes ? bytes - at : f->chunk_bytes;
        *c = (struct ftb_chunk){
            .sequence = f->next, .root = f->rank, .total = (uint32_t)bytes, .chunk = i};
        spin_copy(c + 1, (const uint8_t *)data + at, length);
        code = forward(f, c, c, sizeof *c + length);
        if (code != PTL_OK)
            return code;
        at += length;
    }
    f->next++;
    return wait_for_sends(f);
}

/* ---- Receiving ---- */

static uint64_t chunks_of(const struct spin_ftb *f, uint64_t bytes) {
    return bytes ? (bytes + f->chunk_bytes - 1) / f->chunk_bytes : 1;
}

/* By the card: the first chunk brings the number of all. */
static int receive_by_card(struct spin_ftb *f, struct expected *x, ptl_time_t timeout,
                           uint64_t *bytes) {
    ptl_ct_event_t event;
    unsigned int which;
    ptl_size_t chunks = 1;
    for (int turn = 0; turn < 2; turn++) {
        int code = PtlCTPoll(&x->ct, &chunks, 1, timeout, &event, &which);
        if (code != PTL_OK)
            return code;
        memcpy(bytes, x->memory, sizeof *bytes);
        chunks = chunks_of(f, *bytes);
    }
    f->copies += chunks;
    return PTL_OK;
}

/* One copy that came to the host. Events of a broadcast that is over may still be in the queue when
 * its memory is used again; match_bits tell. */
static int take(struct spin_ftb *f, const ptl_event_t *event) {
    struct expected *x = event->user_ptr;
    const uint8_t *packet = event->start; /* not aligned: packets lie behind each other */
    struct ftb_chunk c;
    f->copies++;
    spin_work(64, sizeof c); /* the event and the header are read and compared */
    uint64_t length = event->mlength - sizeof c;
    if (event->match_bits != x->sequence || event->mlength < sizeof c || length > f->chunk_bytes)
        return PTL_OK;
    memcpy(&c, packet, sizeof c);
    if (c.chunk >= f->chunks)
        return PTL_OK;
    uint32_t bit = 1u << c.chunk % 32;
    if (x->state->seen[c.chunk / 32] & bit)
        return PTL_OK;
    x->state->seen[c.chunk / 32] |= bit;
    int code = forward(f, &c, packet, event->mlength);
    spin_copy(x->data + (uint64_t)c.chunk * f->chunk_bytes, packet + sizeof c, length);
    x->total = c.total;
    x->here++;
    return code;
}

static int receive_by_host(struct spin_ftb *f, struct expected *x, ptl_time_t timeout,
                           uint64_t *bytes) {
    while (x->here == 0 || x->here < chunks_of(f, x->total)) {
        ptl_event_t event;
        unsigned int which;
        int code = PtlEQPoll(&f->eq, 1, timeout, &event, &which);
        if (code == PTL_EQ_EMPTY)
            return PTL_CT_NONE_REACHED;
        if (code == PTL_OK && event.type == PTL_EVENT_PUT)
            code = take(f, &event);
        if (code != PTL_OK)
            return code;
    }
    *bytes = x->total;
    return wait_for_sends(f);
}

int spin_ftb_receive(struct spin_ftb *f, ptl_time_t timeout, const void **data, uint64_t *bytes) {
    struct expected *x = slot_of(f, f->next);
    int code = f->waits ? PTL_OK : go_on(f);
    if (code == PTL_OK)
        code = f->by_host ? receive_by_host(f, x, timeout, bytes)
                          : receive_by_card(f, x, timeout, bytes);
    f->waits = code == PTL_CT_NONE_REACHED;
    if (code != PTL_OK)
        return code;
    *data = f->by_host ? x->data : x->memory + sizeof(uint64_t);
    f->next++;
    return PTL_OK;
}

uint64_t spin_ftb_copies(const struct spin_ftb *f) {
    return f->copies;
}
