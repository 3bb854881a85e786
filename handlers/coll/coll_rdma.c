/* Collectives by the processors: each message raises an event; the processor that takes it
 * combines and forwards. */
#include <stdlib.h>
#include <string.h>

#include "coll_private.h"

static int open_slot(struct spin_coll *c, struct coll_slot *s, uint32_t i) {
    const struct spin_entry entry = {
        .start = s->arena,
        .length = (uint64_t)c->vectors * c->room,
        .bits = COLL_RDMA_BITS + i,
        .options = PTL_ME_OP_PUT,
        .user_ptr = s,
    };
    s->arrived = calloc(c->ranks, sizeof *s->arrived);
    s->stage = calloc(c->ranks, sizeof *s->stage);
    if (!s->arrived || !s->stage)
        return PTL_NO_SPACE;
    return spin_entry_append(c->ni, c->pt, &entry, &s->rdma);
}

static int open_rdma(struct spin_coll *c) {
    int code = PTL_OK;
    for (uint32_t i = 0; i < COLL_SLOTS && code == PTL_OK; i++)
        code = open_slot(c, &c->slot[i], i);
    return code;
}

static void close_rdma(struct spin_coll *c) {
    for (uint32_t i = 0; i < COLL_SLOTS; i++) {
        spin_entry_remove(&c->slot[i].rdma);
        free(c->slot[i].arrived);
        free(c->slot[i].stage);
    }
}

static ptl_hdr_data_t header(uint32_t block, uint32_t input) {
    return (ptl_hdr_data_t)block << 8 | input;
}

static int send_on(const struct spin_coll *c, const struct coll_slot *s, uint32_t block,
                   const struct coll_stage *stage) {
    const struct coll_node *n = &s->part.node;
    const uint8_t *data = coll_vector(c, s, coll_data(stage, s->stage[block]));
    int code = PTL_OK;
    for (uint32_t i = 0; i < stage->outs && code == PTL_OK; i++) {
        struct coll_landing l = coll_land(c, n, block, stage->next, stage->out[i]);
        code = coll_put(c, data + (uint64_t)block * coll_stride(n), coll_block_bytes(n, block),
                        stage->out[i], COLL_RDMA_BITS + s->part.sequence % COLL_SLOTS, l.offset,
                        header(block, l.bit));
    }
    return code;
}

static bool is_ready(uint32_t arrived, const struct coll_stage *s) {
    uint32_t needed = s->own | ((1u << s->ins) - 1) << (1 + s->first);
    return !(needed & ~arrived);
}

static void block_over(struct coll_slot *s, uint32_t block) {
    s->arrived[block] = 0;
    s->stage[block] = 0;
    s->part.left--;
}

static void combine(const struct spin_coll *c, struct coll_slot *s, uint32_t block,
                    const struct coll_stage *stage) {
    const struct coll_part *p = &s->part;
    uint64_t at = (uint64_t)block * coll_stride(&p->node);
    uint64_t bytes = coll_block_bytes(&p->node, block);
    uint32_t data = coll_data(stage, s->stage[block]);
    for (uint32_t i = 0; i < stage->ins && stage->combine && bytes; i++)
        coll_combine(p->operation, p->type, coll_vector(c, s, data) + at,
                     coll_vector(c, s, data ? p->result : 1 + stage->first + i) + at, bytes);
    s->part.result = data;
}

/* The stages of a block whose inputs are here. */
static int advance(const struct spin_coll *c, struct coll_slot *s, uint32_t block) {
    const struct coll_node *n = &s->part.node;
    struct coll_stage stage;
    if (n->kind == COLL_ALLTOALL) {
        block_over(s, block);
        return PTL_OK;
    }
    for (;;) {
        coll_stage(n, block, s->stage[block], &stage);
        if (!is_ready(s->arrived[block], &stage))
            return PTL_OK;
        combine(c, s, block, &stage);
        int code = send_on(c, s, block, &stage);
        if (code != PTL_OK)
            return code;
        if (stage.last) {
            block_over(s, block);
            return PTL_OK;
        }
        s->stage[block]++;
    }
}

static int send_blocks(const struct spin_coll *c, const struct coll_slot *s) {
    uint32_t stride = coll_stride(&s->part.node);
    int code = PTL_OK;
    for (uint32_t k = 1; k < c->ranks && code == PTL_OK; k++) {
        uint32_t to = coll_modulo(c->rank + k, c->ranks);
        code = coll_put(c, coll_vector(c, s, 1) + (uint64_t)to * stride, stride, to,
                        COLL_RDMA_BITS + s->part.sequence % COLL_SLOTS, (uint64_t)c->rank * stride,
                        header(c->rank, 1));
    }
    return code;
}

static int begin(struct spin_coll *c, struct coll_slot *s) {
    struct coll_part *p = &s->part;
    bool exchanges = p->node.kind == COLL_ALLTOALL;
    uint32_t blocks = coll_blocks(&p->node);
    int code = PTL_OK;
    coll_own_all(c, s);
    for (uint32_t b = 0; b < blocks; b++)
        p->left += !p->node.bytes || coll_block_bytes(&p->node, b);
    if (exchanges) {
        p->left--; /* its own */
        code = send_blocks(c, s);
    }
    for (uint32_t b = 0; b < blocks && code == PTL_OK; b++) {
        if (p->node.bytes && !coll_block_bytes(&p->node, b))
            continue;
        s->arrived[b] |= !exchanges;
        if (s->arrived[b])
            code = advance(c, s, b);
    }
    return code;
}

/* An event may be of a part that this rank has not begun. */
static int take(struct spin_coll *c, const ptl_event_t *event) {
    struct coll_slot *s = event->user_ptr;
    uint32_t block = (uint32_t)(event->hdr_data >> 8);
    if (event->type != PTL_EVENT_PUT)
        return PTL_OK;
    if (event->ni_fail_type != PTL_NI_OK)
        return PTL_FAIL;
    spin_work(64, sizeof *event);
    s->arrived[block] |= 1u << (event->hdr_data & 0xff);
    return s->part.active && s->part.variant == COLL_RDMA ? advance(c, s, block) : PTL_OK;
}

static int complete(struct spin_coll *c, struct coll_slot *s, bool wait, bool *done) {
    while (s->part.left) {
        ptl_event_t event;
        int code = wait ? PtlEQWait(c->eq, &event) : PtlEQGet(c->eq, &event);
        if (code == PTL_EQ_EMPTY)
            return PTL_OK;
        if (code == PTL_OK)
            code = take(c, &event);
        if (code != PTL_OK)
            return code;
    }
    *done = true;
    return PTL_OK;
}

const struct coll_variant coll_rdma = {
    .most_reduced = UINT32_MAX,
    .most_combined = UINT32_MAX,
    .open = open_rdma,
    .close = close_rdma,
    .begin = begin,
    .complete = complete,
};
