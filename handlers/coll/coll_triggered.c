/* Collectives by triggered operations (Portals 4): the processor prepares all that its card will do
 * with a part, and then waits for the last counter.
 *
 * Inputs that are combined arrive beside each other. When all of a stage are there, the card adds
 * them to the data one after the other by atomic operations on its own memory; so the result does
 * not depend on who came first, and nobody has to wait until the target has begun. A stage's
 * counter counts its inputs, then these operations, whose thresholds follow each other. */
#include <stdlib.h>

#include "coll_private.h"

#define MOST_COMBINED 8192u /* atomic operations have 512 bytes: this bounds their number */

/* A counter for each stage; or, of vectors that have blocks, one for each of these: what arrives
 * for a block comes in the order of its stages. */
static uint32_t counter_of(const struct coll_node *n, uint32_t block, uint32_t stage) {
    return coll_blocks(n) > 1 ? block : stage;
}

static ptl_match_bits_t bits_of(uint32_t slot, uint32_t counter) {
    return COLL_TRIGGERED_BITS + ((ptl_match_bits_t)counter << 16) + slot;
}

static int open_counter(struct spin_coll *c, struct coll_slot *s, uint32_t slot, uint32_t i) {
    int code = PtlCTAlloc(c->ni, &s->ct[i]);
    const struct spin_entry entry = {
        .start = s->arena,
        .length = (uint64_t)c->vectors * c->room,
        .bits = bits_of(slot, i),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_CT_COMM | PTL_ME_EVENT_COMM_DISABLE,
        .ct = s->ct[i],
    };
    return code == PTL_OK ? spin_entry_append(c->ni, c->pt, &entry, &s->triggered[i]) : code;
}

static int open_triggered(struct spin_coll *c) {
    int code = PTL_OK;
    c->counters = c->vectors;
    if (c->counters < c->ranks && c->ranks <= COLL_TRIGGERED_BLOCKS)
        c->counters = c->ranks;
    for (uint32_t slot = 0; slot < COLL_SLOTS && code == PTL_OK; slot++) {
        struct coll_slot *s = &c->slot[slot];
        s->ct = calloc(c->counters, sizeof *s->ct);
        s->triggered = calloc(c->counters, sizeof *s->triggered);
        s->count = calloc(c->counters, sizeof *s->count);
        s->until = calloc(c->counters, sizeof *s->until);
        if (!s->ct || !s->triggered || !s->count || !s->until)
            return PTL_NO_SPACE;
        for (uint32_t i = 0; i < c->counters && code == PTL_OK; i++)
            code = open_counter(c, s, slot, i);
    }
    return code;
}

static void close_triggered(struct spin_coll *c) {
    for (uint32_t slot = 0; slot < COLL_SLOTS; slot++) {
        struct coll_slot *s = &c->slot[slot];
        for (uint32_t i = 0; s->triggered && s->ct && i < c->counters; i++) {
            spin_entry_remove(&s->triggered[i]);
            if (s->ct[i])
                PtlCTFree(s->ct[i]);
        }
        free(s->ct);
        free(s->triggered);
        free(s->count);
        free(s->until);
    }
}

/* The stage's messages, when the data is complete. Without inputs that is now. */
static int send_on(const struct spin_coll *c, const struct coll_slot *s, uint32_t block,
                   const struct coll_stage *stage, struct coll_until when) {
    const struct coll_node *n = &s->part.node;
    const uint8_t *data = coll_vector(c, s, s->part.result) + (uint64_t)block * coll_stride(n);
    uint64_t bytes = coll_block_bytes(n, block);
    int code = PTL_OK;
    for (uint32_t i = 0; i < stage->outs && code == PTL_OK; i++) {
        uint64_t offset = coll_land(c, n, block, stage->next, stage->out[i]).offset;
        ptl_match_bits_t bits =
            bits_of(s->part.sequence % COLL_SLOTS, coll_blocks(n) > 1 ? block : stage->next);
        if (!when.count)
            code = coll_put(c, data, bytes, stage->out[i], bits, offset, 0);
        else
            code = PtlTriggeredPut(c->md, (ptl_size_t)(uintptr_t)data, bytes, PTL_NO_ACK_REQ,
                                   (ptl_process_t){.rank = stage->out[i]}, c->pt, bits, offset,
                                   NULL, 0, when.ct, when.count);
    }
    return code;
}

/* One vector is added to another, once the counter is there; it goes on by as many as there are
 * operations. */
static int combine(const struct spin_coll *c, const struct coll_slot *s, uint32_t block,
                   uint32_t from_vector, uint32_t to_vector, uint32_t counter, uint64_t *count) {
    const struct coll_node *n = &s->part.node;
    uint64_t at = (uint64_t)block * coll_stride(n), bytes = coll_block_bytes(n, block);
    uint64_t threshold = *count;
    const uint8_t *from = coll_vector(c, s, from_vector) + at;
    uint64_t to = (uint64_t)to_vector * c->room + at;
    int code = PTL_OK;
    for (uint64_t done = 0; done < bytes && code == PTL_OK; done += COLL_ATOMIC_BYTES) {
        uint64_t length = bytes - done < COLL_ATOMIC_BYTES ? bytes - done : COLL_ATOMIC_BYTES;
        code = PtlTriggeredAtomic(c->md, (ptl_size_t)(uintptr_t)(from + done), length,
                                  PTL_NO_ACK_REQ, (ptl_process_t){.rank = c->rank}, c->pt,
                                  bits_of(s->part.sequence % COLL_SLOTS, counter), to + done, NULL,
                                  0, s->part.operation, s->part.type, s->ct[counter], threshold);
        ++*count;
    }
    return code;
}

/* One stage of a block. *when: its data is complete; before: that of the stage before it. */
static int prepare(const struct spin_coll *c, struct coll_slot *s, uint32_t block, uint32_t number,
                   const struct coll_stage *stage, struct coll_until *when) {
    uint32_t counter = counter_of(&s->part.node, block, number);
    uint64_t *count = &s->count[counter];
    int code = PTL_OK;
    if (number && stage->combine && when->count) { /* its input may come before the data is there */
        code = PtlTriggeredCTInc(s->ct[counter], (ptl_ct_event_t){.success = 1}, when->ct,
                                 when->count);
        ++*count;
    }
    *count += stage->ins;
    uint32_t data = coll_data(stage, number);
    for (uint32_t i = 0; i < stage->ins && stage->combine && code == PTL_OK; i++)
        code = combine(c, s, block, data ? s->part.result : 1u + stage->first + i, data, counter,
                       count);
    s->part.result = data;
    *when = (struct coll_until){s->ct[counter], stage->ins ? *count : 0};
    return code == PTL_OK ? send_on(c, s, block, stage, *when) : code;
}

static int send_blocks(const struct spin_coll *c, struct coll_slot *s) {
    uint32_t stride = coll_stride(&s->part.node);
    int code = PTL_OK;
    for (uint32_t k = 1; k < c->ranks && code == PTL_OK; k++) {
        uint32_t to = coll_modulo(c->rank + k, c->ranks);
        code = coll_put(c, coll_vector(c, s, 1) + (uint64_t)to * stride, stride, to,
                        bits_of(s->part.sequence % COLL_SLOTS, 0), (uint64_t)c->rank * stride, 0);
    }
    s->count[0] += c->ranks - 1;
    s->until[s->untils++] = (struct coll_until){s->ct[0], s->count[0]};
    return code;
}

static int begin(struct spin_coll *c, struct coll_slot *s) {
    const struct coll_node *n = &s->part.node;
    int code = PTL_OK;
    s->untils = 0;
    coll_own_all(c, s);
    if (n->kind == COLL_ALLTOALL)
        return send_blocks(c, s);
    for (uint32_t b = 0; b < coll_blocks(n) && code == PTL_OK; b++) {
        struct coll_until when = {0};
        struct coll_stage stage = {0};
        if (n->bytes && !coll_block_bytes(n, b))
            continue;
        for (uint32_t k = 0; !stage.last && code == PTL_OK; k++) {
            coll_stage(n, b, k, &stage);
            code = prepare(c, s, b, k, &stage, &when);
        }
        if (when.count)
            s->until[s->untils++] = when;
    }
    return code;
}

static int complete(struct spin_coll *c, struct coll_slot *s, bool wait, bool *done) {
    (void)c;
    while (s->untils) {
        const struct coll_until *u = &s->until[s->untils - 1];
        ptl_ct_event_t event;
        int code = wait ? PtlCTWait(u->ct, u->count, &event) : PtlCTGet(u->ct, &event);
        if (code == PTL_OK && event.failure)
            code = PTL_FAIL;
        if (code != PTL_OK || event.success < u->count)
            return code;
        s->untils--;
    }
    *done = true;
    return PTL_OK;
}

const struct coll_variant coll_triggered = {
    .most_reduced = MOST_COMBINED,
    .most_combined = MOST_COMBINED,
    .open = open_triggered,
    .close = close_triggered,
    .begin = begin,
    .complete = complete,
};
