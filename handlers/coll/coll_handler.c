/* Collectives on the card: a chunk takes its inputs in their order (coll_layout.h), each as soon as
 * those before it were taken, by the handler that brings it. An input that comes before its turn
 * waits, on the card (short vectors) or in host memory, for the handler that takes the one before
 * it. After the last input of a stage the data goes to other ranks. */
#include "spin/handler.h"

#include "coll_layout.h"

struct work {
    const struct coll_state *s;
    struct coll_head *head; /* of the packet */
    uint8_t *data;
    struct coll_node node;
    uint32_t stride, chunk_bytes;
    uint32_t *words; /* of the slot's chunks */
    uint8_t *card;   /* the slot's vectors, or NULL: they are in host memory */
    /* the chunk */
    uint32_t *word;
    uint32_t block, offset, at, bytes; /* at: in the vector */
    /* scratch, once it is needed: a packet, and an input */
    struct coll_head *out;
    uint8_t *input;
};

static void open_work(struct work *w, struct coll_state *s, struct coll_head *h) {
    uint32_t slot = h->sequence % COLL_SLOTS;
    w->s = s;
    w->head = h;
    w->data = (uint8_t *)(h + 1);
    w->node = (struct coll_node){s->rank, s->ranks, h->root, h->bytes, h->kind, h->algorithm};
    w->stride = coll_stride(&w->node);
    w->chunk_bytes = coll_chunk_bytes(&w->node, s->chunk_bytes);
    w->words = s->word + slot * s->words;
    w->card = NULL;
    if (h->bytes <= COLL_ON_CARD)
        w->card = (uint8_t *)(s->word + COLL_SLOTS * s->words) + slot * s->slot_bytes;
    w->out = NULL;
}

static bool open_chunk(struct work *w, uint32_t block, uint32_t offset) {
    uint32_t number = block, bytes = coll_block_bytes(&w->node, block);
    if (w->stride > w->chunk_bytes)
        number = block * coll_chunks(&w->node, w->stride, w->chunk_bytes) + offset / w->chunk_bytes;
    w->word = w->words + number;
    w->block = block;
    w->offset = offset;
    w->at = block * w->stride + offset;
    w->bytes = bytes - offset < w->chunk_bytes ? bytes - offset : w->chunk_bytes;
    return number < w->s->words && offset <= bytes;
}

/* ---- Where data waits: vector 0 is the data, vector i the input i ---- */

static void keep(const struct work *w, uint32_t vector, const void *data) {
    if (!w->bytes)
        return;
    if (w->card)
        memcpy(w->card + vector * COLL_ON_CARD + w->at, data, w->bytes);
    else
        PtlHandlerDMAToHostB(data, vector * w->s->room + w->at, w->bytes, PTL_ME_HOST_MEM);
}

/* `buffer` holds it if it is not on the card. */
static const uint8_t *look(const struct work *w, uint32_t vector, uint8_t *buffer) {
    if (w->card)
        return w->card + vector * COLL_ON_CARD + w->at;
    PtlHandlerDMAFromHostB(vector * w->s->room + w->at, buffer, w->bytes, PTL_ME_HOST_MEM);
    return buffer;
}

static bool has_scratch(struct work *w) {
    if (w->out)
        return true;
    w->out = malloc(sizeof *w->out + w->chunk_bytes);
    w->input = malloc(w->chunk_bytes);
    return w->out && w->input;
}

/* ---- Combining ---- */

#define LOOP(type, expression)                                                                     \
    for (uint32_t i = 0; i < bytes / sizeof(type); i++) {                                          \
        type a = ((const type *)x)[i], b = ((const type *)y)[i];                                   \
        ((type *)to)[i] = (expression);                                                            \
    }                                                                                              \
    return
#define ORDERED(type)                                                                              \
    if (operation == PTL_MIN) {                                                                    \
        LOOP(type, b < a ? b : a);                                                                 \
    }                                                                                              \
    LOOP(type, b > a ? b : a)

/* The most frequent operation: a third of the loop would be its counters. Sums of integers wrap. */
static void add(uint32_t datatype, void *to, const void *x, const void *y, uint32_t bytes) {
    if (datatype == PTL_INT32_T) {
        _Pragma("clang loop unroll_count(4)") LOOP(uint32_t, a + b);
    }
    if (datatype == PTL_FLOAT) {
        LOOP(float, a + b);
    }
    if (datatype == PTL_DOUBLE) {
        LOOP(double, a + b);
    }
    _Pragma("clang loop unroll_count(4)") LOOP(uint64_t, a + b);
}

static __attribute__((noinline)) void combine(uint32_t operation, uint32_t datatype, void *to,
                                              const void *x, const void *y, uint32_t bytes) {
    switch (operation) {
    case PTL_SUM:
        add(datatype, to, x, y, bytes);
        return;
    case PTL_BAND:
        LOOP(uint32_t, a & b);
    case PTL_BOR:
        LOOP(uint32_t, a | b);
    case PTL_BXOR:
        LOOP(uint32_t, a ^ b);
    }
    switch (datatype) {
    case PTL_INT32_T:
        ORDERED(int32_t);
    case PTL_INT64_T:
        ORDERED(int64_t);
    case PTL_UINT64_T:
        ORDERED(uint64_t);
    case PTL_FLOAT:
        ORDERED(float);
    case PTL_DOUBLE:
        ORDERED(double);
    }
}

/* ---- Stages ---- */

static bool swap(uint32_t *word, uint32_t from, uint32_t to) {
    return __atomic_compare_exchange_n(word, &from, to, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
}

static uint32_t next_of(uint32_t word) {
    return word >> COLL_NEXT_SHIFT & 0x1f;
}

static void put(const struct coll_head *h, uint32_t bytes, uint32_t to) {
    PtlHandlerPutFromDevice(h, bytes, PTL_NO_CT, PTL_NO_ACK_REQ, to,
                            COLL_SPIN_BITS + h->sequence % COLL_SLOTS, 0, NULL, 0);
}

/* The data is the packet's, which goes on with another head, or is brought behind one. */
static void send_on(struct work *w, const struct coll_stage *s, const uint8_t *value) {
    struct coll_head *h = w->head;
    if (!s->outs)
        return;
    if (value != w->data) {
        h = w->out;
        *h = *w->head;
        h->block = w->block;
        h->offset = w->offset;
        if (value != (const uint8_t *)(h + 1))
            memcpy(h + 1, value, w->bytes);
    }
    h->from = w->node.rank;
    h->stage = s->next;
    for (uint32_t i = 0; i < s->outs; i++)
        put(h, sizeof *h + w->bytes, s->out[i]);
}

static void finish(const struct work *w, const uint8_t *value) {
    bool has_result = w->node.kind == COLL_REDUCE      ? w->node.rank == w->node.root
                      : w->node.kind == COLL_BROADCAST ? w->node.rank != w->node.root
                                                       : true;
    if (has_result && w->bytes)
        PtlHandlerDMAToHostB(value, w->at, w->bytes, PTL_ME_HOST_MEM);
    __atomic_store_n(w->word, 0, __ATOMIC_RELEASE);
    PtlHandlerCTInc((ptl_ct_event_t){.success = 1});
}

/* Takes one input: `direct`, or NULL: it waits. Returns the data; NULL: it is where it was. */
static const uint8_t *take_input(struct work *w, const struct coll_stage *s, uint32_t input,
                                 const uint8_t *value, const uint8_t *direct) {
    if (!w->bytes)
        return w->data;
    if (input == 0 && s->own)
        return direct;
    if (!direct)
        direct = look(w, input, w->input);
    if (!s->combine)
        return direct;
    uint8_t *to = (uint8_t *)(w->out + 1);
    if (!value)
        value = look(w, 0, to);
    combine(w->head->operation, w->head->type, to, value, direct, w->bytes);
    return to;
}

/* Whether the next input is here; otherwise the data (NULL: it is there) is kept, unless the next
 * input takes its place, and the lock given up. */
static bool goes_on(const struct work *w, uint32_t next, const uint8_t *value) {
    for (;;) {
        uint32_t seen = __atomic_load_n(w->word, __ATOMIC_ACQUIRE);
        if (seen >> next & 1)
            return true;
        if (value)
            keep(w, 0, value);
        value = NULL;
        if (swap(w->word, seen, (seen & ((1u << COLL_NEXT_SHIFT) - 1)) | next << COLL_NEXT_SHIFT))
            return false;
    }
}

/* The chunk is locked. Takes the input `next` of stage `s`, and all that follow and are here. */
static inline int run(struct work *w, struct coll_stage *s, uint32_t stage, uint32_t next,
                      const uint8_t *direct) {
    const uint8_t *value = NULL;
    uint32_t end = stage ? next + 1 : (uint32_t)s->own + s->ins;
    if (w->bytes && !(direct && end == 1 && s->last) && !has_scratch(w))
        return FAIL;
    for (;;) {
        value = take_input(w, s, next, value, direct);
        direct = NULL;
        bool stage_over = ++next >= end;
        if (stage_over) {
            if (!value && (s->outs || s->last)) /* own data alone, which waits here */
                value = look(w, 0, (uint8_t *)(w->out + 1));
            send_on(w, s, value);
            if (s->last) {
                finish(w, value);
                return SUCCESS;
            }
        }
        bool stores = stage_over && w->node.algorithm != COLL_DOUBLING; /* what comes next */
        if (!goes_on(w, next, stores ? NULL : value))
            return SUCCESS;
        if (stage_over) {
            coll_stage(&w->node, w->block, ++stage, s);
            end = next + 1;
        }
    }
}

static uint32_t stage_of_input(const struct work *w, uint32_t input, struct coll_stage *s) {
    coll_stage(&w->node, w->block, 0, s);
    uint32_t first = (uint32_t)s->own + s->ins;
    if (input < first)
        return 0;
    coll_stage(&w->node, w->block, input - first + 1, s);
    return input - first + 1;
}

/* Puts an input where it waits. True: the next input is here, and the chunk is locked for it. */
static __attribute__((noinline)) bool wait_here(const struct work *w, uint32_t input,
                                                const uint8_t *data, uint32_t *next) {
    if (data)
        keep(w, input, data);
    uint32_t seen = __atomic_fetch_or(w->word, 1u << input, __ATOMIC_ACQ_REL) | 1u << input;
    while (!(seen & COLL_LOCKED)) { /* otherwise who holds it will see the bit */
        *next = next_of(seen);
        if (!(seen >> *next & 1))
            return false;
        if (swap(w->word, seen, seen | COLL_LOCKED))
            return true;
        seen = __atomic_load_n(w->word, __ATOMIC_ACQUIRE);
    }
    return false;
}

/* An input of stage `s` is here: with the packet, or (own data, without a pointer) in its place.
 * Inlined: saving registers twice would cost a short packet a tenth of its instructions. */
static inline __attribute__((always_inline)) int
deliver(struct work *w, struct coll_stage *s, uint32_t stage, uint32_t input, const uint8_t *data) {
    bool alone = s->last && s->own + s->ins == 1 && stage == 0; /* nothing else comes */
    uint32_t seen = __atomic_load_n(w->word, __ATOMIC_ACQUIRE);
    if (!alone && ((seen & COLL_LOCKED) || next_of(seen) != input ||
                   !swap(w->word, seen, seen | COLL_LOCKED))) {
        if (!wait_here(w, input, data, &input))
            return SUCCESS;
        stage = stage_of_input(w, input, s);
        data = NULL;
    }
    return run(w, s, stage, input, data);
}

/* ---- Own data ---- */

/* A vector of several blocks that stays on the card. */
static __attribute__((noinline)) int deliver_blocks(struct work *w, uint32_t bytes) {
    int code = SUCCESS;
    memcpy(w->card, w->data, bytes);
    for (uint32_t block = 0; block < w->node.ranks && code == SUCCESS; block++) {
        struct coll_stage s;
        coll_stage(&w->node, block, 0, &s);
        if (!s.own || !coll_block_bytes(&w->node, block))
            continue;
        if (!open_chunk(w, block, 0))
            return FAIL;
        code = deliver(w, &s, 0, 0, NULL);
    }
    return code;
}

/* All is in host memory, but for chunks that need nothing else: these came by themselves. For each
 * of the others a packet to this card, so that all HPUs take part. */
static __attribute__((noinline)) int spread(struct work *w) {
    struct coll_head *h = w->head;
    for (uint32_t block = 0; block < coll_blocks(&w->node); block++) {
        struct coll_stage s;
        uint32_t bytes = coll_block_bytes(&w->node, block);
        coll_stage(&w->node, block, 0, &s);
        if (!s.own || !s.ins)
            continue;
        h->block = block;
        for (h->offset = 0; h->offset < bytes; h->offset += w->chunk_bytes)
            put(h, sizeof *h, w->node.rank);
    }
    return SUCCESS;
}

/* Own blocks to `count` ranks from the one at distance `first`. */
static __attribute__((noinline)) int send_blocks(struct work *w, uint32_t first, uint32_t count) {
    if (!has_scratch(w))
        return FAIL;
    *w->out = *w->head;
    w->out->stage = 0;
    w->out->block = w->node.rank;
    for (uint32_t k = first; k < first + count && k < w->node.ranks; k++) {
        uint32_t to = coll_modulo(w->node.rank + k, w->node.ranks);
        for (uint32_t at = 0; at < w->stride; at += w->chunk_bytes) {
            uint32_t bytes = w->stride - at < w->chunk_bytes ? w->stride - at : w->chunk_bytes;
            PtlHandlerDMAFromHostB(w->s->room + to * w->stride + at, w->out + 1, bytes,
                                   PTL_ME_HOST_MEM);
            w->out->offset = at;
            put(w->out, sizeof *w->out + bytes, to);
        }
    }
    return SUCCESS;
}

/* What is only stored, and has no other input: it is sent on and stored. */
static int relay(const struct coll_state *state, const struct coll_head *h, uint32_t bytes) {
    const struct coll_node n = {state->rank, state->ranks, h->root,
                                h->bytes,    h->kind,      h->algorithm};
    uint32_t at = h->block * coll_stride(&n) + h->offset;
    struct coll_stage s;
    coll_stage(&n, h->block, 0, &s);
    for (uint32_t i = 0; i < s.outs; i++)
        put(h, sizeof *h + bytes, s.out[i]);
    PtlHandlerDMAToHostB(h + 1, at, bytes, PTL_ME_HOST_MEM);
    PtlHandlerCTInc((ptl_ct_event_t){.success = 1});
    return SUCCESS;
}

/* Own data is a short vector; or one chunk, which is here or (without data) in host memory; or all
 * of these. */
static inline int take(struct coll_state *state, struct coll_head *h, uint32_t bytes) {
    struct coll_stage s;
    struct work w;
    bool own = h->stage == COLL_OWN;
    open_work(&w, state, h);
    if (own && h->kind == COLL_ALLTOALL)
        return send_blocks(&w, h->block, h->offset);
    if (own && h->block == COLL_OWN)
        return spread(&w);
    if (own && w.card && coll_blocks(&w.node) > 1)
        return deliver_blocks(&w, bytes);
    bool in_host = own && !bytes && !w.card;
    if (!open_chunk(&w, h->block, h->offset) || (w.bytes != bytes && !in_host))
        return FAIL;
    if (h->kind == COLL_ALLTOALL) {
        finish(&w, w.data);
        return SUCCESS;
    }
    uint32_t stage = own ? 0 : h->stage;
    coll_stage(&w.node, h->block, stage, &s);
    return deliver(&w, &s, stage, own ? 0 : coll_input(&s, stage, h->from),
                   in_host ? NULL : w.data);
}

__handler int coll_payload_handler(const ptl_payload_t p, void *state) {
    struct coll_head *h = (struct coll_head *)(uintptr_t)p.base;
    int code = FAIL;
    if (p.length >= sizeof *h) {
        bool stored = h->kind == COLL_BROADCAST || h->kind == COLL_ALLGATHER;
        uint32_t bytes = p.length - sizeof *h;
        code = stored && h->stage != COLL_OWN ? relay(state, h, bytes) : take(state, h, bytes);
    }
    if (code == FAIL) /* so that nobody waits for it */
        PtlHandlerCTInc((ptl_ct_event_t){.failure = 1});
    return code;
}
