/* Collectives on the card: each chunk goes through the stages of its block (coll_layout.h) as its
 * inputs arrive. Whoever brings the last input of a stage runs it, with the data of its packet;
 * inputs that come before their stage are kept, on the card (short vectors) or in host memory. */
#include "spin/handler.h"

#include "coll_layout.h"

struct work {
    struct coll_state *s;
    const struct coll_head *head; /* of the packet */
    struct coll_node node;
    uint32_t stride, per_block; /* bytes, chunks */
    uint32_t *words;            /* of the slot's chunks */
    uint8_t *card;              /* the slot's data, or NULL: it is in host memory */
    struct coll_head *out;      /* scratch: a packet, and an input, or NULL */
    uint8_t *input;
};

/* One chunk. */
struct chunk {
    uint32_t *word;
    uint32_t block, offset, at, bytes; /* at: in the vector */
};

/* What came with the packet: bit of the input, or 0. */
struct direct {
    uint32_t bit;
    const uint8_t *data;
};

static void open_work(struct work *w, struct coll_state *s, const struct coll_head *h) {
    uint32_t slot = h->sequence % COLL_SLOTS;
    w->s = s;
    w->head = h;
    w->out = NULL;
    w->node = (struct coll_node){s->rank, s->ranks, h->root, h->bytes, h->kind, h->algorithm};
    w->stride = coll_stride(&w->node);
    w->per_block =
        w->stride > s->chunk_bytes ? coll_chunks(&w->node, w->stride, s->chunk_bytes) : 1;
    w->words = s->word + slot * s->words;
    w->card = (uint8_t *)(s->word + COLL_SLOTS * s->words) + slot * s->slot_bytes;
    if (h->bytes > COLL_ON_CARD || h->kind == COLL_ALLTOALL)
        w->card = NULL;
}

static bool open_chunk(const struct work *w, uint32_t block, uint32_t offset, struct chunk *c) {
    uint32_t number = block * w->per_block;
    uint32_t bytes = coll_block_bytes(&w->node, block);
    if (offset)
        number += offset / w->s->chunk_bytes;
    *c = (struct chunk){w->words + number, block, offset, block * w->stride + offset,
                        bytes - offset < w->s->chunk_bytes ? bytes - offset : w->s->chunk_bytes};
    return number < w->s->words && offset <= bytes;
}

/* ---- Where data waits ---- */

/* The data is vector 0, input i is vector 1 + i: that is the number of its bit. */
static void keep(const struct work *w, const struct chunk *c, uint32_t vector, const void *data) {
    if (!c->bytes)
        return;
    if (w->card)
        memcpy(w->card + vector * COLL_ON_CARD + c->at, data, c->bytes);
    else
        PtlHandlerDMAToHostB(data, vector * w->s->room + c->at, c->bytes, PTL_ME_HOST_MEM);
}

/* `buffer` holds it if it is not on the card. */
static const uint8_t *look(const struct work *w, const struct chunk *c, uint32_t vector,
                           uint8_t *buffer) {
    if (w->card)
        return w->card + vector * COLL_ON_CARD + c->at;
    if (c->bytes)
        PtlHandlerDMAFromHostB(vector * w->s->room + c->at, buffer, c->bytes, PTL_ME_HOST_MEM);
    return buffer;
}

/* ---- Combining ---- */

#define LOOP(type, expression)                                                                     \
    {                                                                                              \
        type *a = to;                                                                              \
        const type *b = from;                                                                      \
        for (uint32_t i = 0; i < bytes / sizeof(type); i++)                                        \
            a[i] = (expression);                                                                   \
        return;                                                                                    \
    }
/* Sums of integers wrap. */
#define ORDERED(type, sum_type)                                                                    \
    if (operation == PTL_SUM)                                                                      \
        LOOP(sum_type, a[i] + b[i])                                                                \
    if (operation == PTL_MIN)                                                                      \
        LOOP(type, b[i] < a[i] ? b[i] : a[i])                                                      \
    if (operation == PTL_MAX)                                                                      \
    LOOP(type, b[i] > a[i] ? b[i] : a[i])

static void combine(uint32_t operation, uint32_t datatype, void *to, const void *from,
                    uint32_t bytes) {
    if (operation == PTL_BAND)
        LOOP(uint32_t, a[i] & b[i])
    if (operation == PTL_BOR)
        LOOP(uint32_t, a[i] | b[i])
    if (operation == PTL_BXOR)
        LOOP(uint32_t, a[i] ^ b[i])
    switch (datatype) {
    case PTL_INT32_T:
        ORDERED(int32_t, uint32_t)
        return;
    case PTL_INT64_T:
        ORDERED(int64_t, uint64_t)
        return;
    case PTL_UINT64_T:
        ORDERED(uint64_t, uint64_t)
        return;
    case PTL_FLOAT:
        ORDERED(float, float)
        return;
    case PTL_DOUBLE:
        ORDERED(double, double)
        return;
    }
}

/* ---- Stages ---- */

static uint32_t inputs(const struct coll_stage *s) {
    return s->own | ((1u << s->ins) - 1) << (1 + s->first);
}

static uint32_t stage_of(uint32_t word) {
    return word >> COLL_STAGE_SHIFT & 0x1f;
}

static bool is_ready(uint32_t word, const struct coll_stage *s) {
    return !(inputs(s) & ~word);
}

static bool swap(uint32_t *word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static void send_on(const struct coll_stage *s, const struct coll_head *h, uint32_t bytes) {
    for (uint32_t i = 0; i < s->outs; i++)
        PtlHandlerPutFromDevice(h, bytes, PTL_NO_CT, PTL_NO_ACK_REQ, s->out[i],
                                COLL_SPIN_BITS + h->sequence % COLL_SLOTS, 0, NULL, 0);
}

/* The next stage, if its inputs are here; otherwise the lock is given up. */
static bool go_on(const struct work *w, const struct chunk *c, struct coll_stage *s,
                  const uint8_t *value, bool *kept) {
    for (;;) {
        uint32_t seen = __atomic_load_n(c->word, __ATOMIC_ACQUIRE);
        uint32_t next = seen + (1u << COLL_STAGE_SHIFT);
        coll_stage(&w->node, c->block, stage_of(next), s);
        if (is_ready(next, s)) {
            __atomic_fetch_add(c->word, 1u << COLL_STAGE_SHIFT, __ATOMIC_ACQ_REL);
            return true;
        }
        if (s->combine && !*kept)
            keep(w, c, 0, value);
        *kept = true;
        if (swap(c->word, seen, next & ~COLL_LOCKED))
            return false;
    }
}

static void finish(const struct work *w, const struct chunk *c, const uint8_t *value) {
    bool has_result = w->node.kind == COLL_REDUCE      ? w->node.rank == w->node.root
                      : w->node.kind == COLL_BROADCAST ? w->node.rank != w->node.root
                                                       : true;
    if (has_result && c->bytes)
        PtlHandlerDMAToHostB(value, c->at, c->bytes, PTL_ME_HOST_MEM);
    __atomic_store_n(c->word, 0, __ATOMIC_RELEASE);
    PtlHandlerCTInc((ptl_ct_event_t){.success = 1});
}

/* Once per handler: what is allocated lasts as long as it runs. */
static bool has_scratch(struct work *w) {
    if (w->out)
        return true;
    w->out = malloc(sizeof *w->out + w->s->chunk_bytes);
    w->input = malloc(w->s->chunk_bytes);
    return w->out && w->input;
}

/* The packet that goes on, with the data as it was before the stage. */
static void open_packet(const struct work *w, const struct chunk *c, const struct coll_stage *s,
                        struct direct d) {
    uint8_t *value = (uint8_t *)(w->out + 1);
    const uint8_t *before = value;
    *w->out = *w->head;
    w->out->from = w->s->rank;
    w->out->block = c->block;
    w->out->offset = c->offset;
    if (s->own || s->combine)
        before = d.bit == 1 ? d.data : look(w, c, 0, value);
    if (before != value)
        memcpy(value, before, c->bytes);
}

/* The word is locked, and the inputs of `s` are here. */
static int run(struct work *w, const struct chunk *c, struct coll_stage *s, struct direct d) {
    if (!s->combine && !s->own && d.bit == 2u << s->first) { /* goes on as it is */
        send_on(s, w->head, sizeof *w->head + c->bytes);
        finish(w, c, d.data);
        return SUCCESS;
    }
    if (!has_scratch(w))
        return FAIL;
    open_packet(w, c, s, d);
    uint8_t *value = (uint8_t *)(w->out + 1);
    for (;;) {
        bool kept = false;
        for (uint32_t i = 0; i < s->ins; i++) {
            uint32_t bit = 2u << (s->first + i);
            const uint8_t *in = d.bit == bit ? d.data : look(w, c, 1 + s->first + i, w->input);
            if (s->combine)
                combine(w->head->operation, w->head->type, value, in, c->bytes);
            else
                memcpy(value, in, c->bytes);
        }
        w->out->stage = s->next;
        send_on(s, w->out, sizeof *w->out + c->bytes);
        if (s->last) {
            finish(w, c, value);
            return SUCCESS;
        }
        d.bit = 0;
        if (!go_on(w, c, s, value, &kept))
            return SUCCESS;
    }
}

/* An input is here: with the packet, or (own data, without a pointer) where it waits. */
static int deliver(struct work *w, const struct chunk *c, uint32_t bit, const uint8_t *data) {
    struct coll_stage s;
    uint32_t seen = __atomic_load_n(c->word, __ATOMIC_ACQUIRE);
    coll_stage(&w->node, c->block, stage_of(seen), &s);
    if (!(seen & COLL_LOCKED) && is_ready(seen | bit, &s) &&
        swap(c->word, seen, seen | bit | COLL_LOCKED))
        return run(w, c, &s, (struct direct){data ? bit : 0, data});
    if (data)
        keep(w, c, (uint32_t)__builtin_ctz(bit), data);
    seen = __atomic_fetch_or(c->word, bit, __ATOMIC_ACQ_REL) | bit;
    while (!(seen & COLL_LOCKED)) { /* otherwise who holds it will see the bit */
        coll_stage(&w->node, c->block, stage_of(seen), &s);
        if (!is_ready(seen, &s))
            return SUCCESS;
        if (swap(c->word, seen, seen | COLL_LOCKED))
            return run(w, c, &s, (struct direct){0, NULL});
        seen = __atomic_load_n(c->word, __ATOMIC_ACQUIRE);
    }
    return SUCCESS;
}

/* ---- Own data ---- */

/* All of it is where it waits, but for chunks that need nothing else: these come by themselves. */
static int deliver_own(struct work *w) {
    int code = SUCCESS;
    for (uint32_t block = 0; block < coll_blocks(&w->node) && code == SUCCESS; block++) {
        struct coll_stage s;
        struct chunk c;
        uint32_t bytes = coll_block_bytes(&w->node, block), offset = 0;
        coll_stage(&w->node, block, 0, &s);
        if (!s.own || (!w->card && !s.ins) || (w->node.bytes && !bytes))
            continue;
        do {
            if (!open_chunk(w, block, offset, &c))
                return FAIL;
            code = deliver(w, &c, 1, NULL);
            offset += w->s->chunk_bytes;
        } while (offset < bytes && code == SUCCESS);
    }
    return code;
}

/* Own blocks to `count` ranks from the one at distance `first`. */
static int send_blocks(const struct work *w, uint32_t first, uint32_t count) {
    struct coll_head *out = malloc(sizeof *out + w->s->chunk_bytes);
    if (!out)
        return FAIL;
    *out = *w->head;
    out->stage = 0;
    out->block = out->from = w->s->rank;
    for (uint32_t k = first; k < first + count && k < w->s->ranks; k++) {
        uint32_t to = coll_modulo(w->s->rank + k, w->s->ranks);
        for (uint32_t at = 0; at < w->stride; at += w->s->chunk_bytes) {
            uint32_t bytes =
                w->stride - at < w->s->chunk_bytes ? w->stride - at : w->s->chunk_bytes;
            const struct coll_stage s = {.outs = 1, .out = {(uint16_t)to}};
            PtlHandlerDMAFromHostB(w->s->room + to * w->stride + at, out + 1, bytes,
                                   PTL_ME_HOST_MEM);
            out->offset = at;
            send_on(&s, out, sizeof *out + bytes);
        }
    }
    return SUCCESS;
}

static int take_own(struct work *w, const uint8_t *data, uint32_t bytes) {
    struct chunk c;
    if (w->node.kind == COLL_ALLTOALL)
        return send_blocks(w, w->head->block, w->head->offset);
    if (w->card) {
        memcpy(w->card, data, bytes);
        return deliver_own(w);
    }
    if (!bytes)
        return deliver_own(w);
    if (!open_chunk(w, w->head->block, w->head->offset, &c) || c.bytes != bytes)
        return FAIL;
    return deliver(w, &c, 1, data);
}

static int take(struct coll_state *state, const struct coll_head *h, uint32_t length) {
    const uint8_t *data = (const uint8_t *)(h + 1);
    uint32_t bytes = length - sizeof *h;
    struct coll_stage s;
    struct chunk c;
    struct work w;
    if (length < sizeof *h)
        return FAIL;
    open_work(&w, state, h);
    if (h->stage == COLL_OWN)
        return take_own(&w, data, bytes);
    if (!open_chunk(&w, h->block, h->offset, &c) || c.bytes != bytes)
        return FAIL;
    if (h->kind == COLL_ALLTOALL) {
        finish(&w, &c, data);
        return SUCCESS;
    }
    coll_stage(&w.node, h->block, h->stage, &s);
    return deliver(&w, &c, 2u << coll_input(&s, h->from), data);
}

__handler int coll_payload_handler(const ptl_payload_t p, void *state) {
    int code = take(state, (const struct coll_head *)p.base, p.length);
    if (code == FAIL) /* so that nobody waits for it */
        PtlHandlerCTInc((ptl_ct_event_t){.failure = 1});
    return code;
}
