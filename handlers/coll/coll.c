/* Communicators, and how calls become parts that follow each other. */
#include "spinlib/coll.h"

#include <stdlib.h>
#include <string.h>

#include "coll_private.h"

#define PART_BYTES 65536u

static const struct coll_variant *const variant[COLL_VARIANTS] = {&coll_rdma, &coll_triggered,
                                                                  &coll_spin};

/* ---- Communicators ---- */

static uint32_t steps_of(uint32_t ranks) {
    uint32_t steps = 0;
    while (1u << steps < ranks)
        steps++;
    return steps;
}

static int open_memory(struct spin_coll *c) {
    /* what is gathered has a byte per rank at least */
    c->room = ((c->part_bytes > c->ranks ? c->part_bytes : c->ranks) + 63) & ~63u;
    c->vectors = steps_of(c->ranks) + 3;
    for (uint32_t i = 0; i < COLL_SLOTS; i++)
        if (!(c->slot[i].arena = aligned_alloc(64, (size_t)c->vectors * c->room)))
            return PTL_NO_SPACE;
    return PTL_OK;
}

/* A variant that one rank's card cannot do, no rank does. */
static int agree(struct spin_coll *c) {
    static const struct spin_coll_how how = {"recursive-doubling", "rdma"};
    uint64_t can = 0;
    for (int v = 0; v < COLL_VARIANTS; v++)
        can |= (uint64_t)(c->opened[v] == PTL_OK) << v;
    int code = spin_coll_allreduce(c, &how, &can, &can, 1, PTL_UINT64_T, PTL_BAND);
    for (int v = 0; v < COLL_VARIANTS; v++)
        if (c->opened[v] == PTL_OK && !(can >> v & 1))
            c->opened[v] = PTL_NO_SPACE;
    return code;
}

int spin_coll_open(ptl_handle_ni_t ni, ptl_pt_index_t pt, uint32_t part_bytes,
                   struct spin_coll **out) {
    struct spin_coll *c = calloc(1, sizeof *c);
    const ptl_md_t md = {
        .length = PTL_SIZE_MAX, .eq_handle = PTL_EQ_NONE, .ct_handle = PTL_CT_NONE};
    *out = NULL;
    if (!c)
        return PTL_NO_SPACE;
    c->ni = ni;
    c->md = PTL_INVALID_HANDLE;
    c->eq = PTL_EQ_NONE;
    c->pt = PTL_PT_ANY;
    c->memory = PTL_INVALID_HANDLE;
    c->last = &c->first;
    c->rank = spin_rank();
    c->ranks = spin_ranks();
    c->part_bytes = part_bytes > (1u << 24) ? 1u << 24
                    : part_bytes            ? (part_bytes + 7) & ~7u
                                            : PART_BYTES;
    int code = open_memory(c);
    /* what may come before this rank looks: two messages per block, or one per step */
    if (code == PTL_OK)
        code = PtlEQAlloc(ni, COLL_SLOTS * (2 * (ptl_size_t)c->ranks + c->vectors), &c->eq);
    if (code == PTL_OK)
        code = PtlPTAlloc(ni, 0, c->eq, pt, &c->pt);
    if (code == PTL_OK)
        code = PtlMDBind(ni, &md, &c->md);
    for (int v = 0; v < COLL_VARIANTS && code == PTL_OK; v++)
        c->opened[v] = variant[v]->open(c);
    spin_barrier(); /* nobody sends to an entry that is not there */
    if (code == PTL_OK)
        code = agree(c);
    if (code == PTL_OK)
        *out = c;
    else
        spin_coll_close(c);
    return code;
}

void spin_coll_close(struct spin_coll *c) {
    if (!c)
        return;
    for (int v = 0; v < COLL_VARIANTS; v++)
        variant[v]->close(c);
    while (c->md != PTL_INVALID_HANDLE && PtlMDRelease(c->md) == PTL_IN_USE)
        ;
    if (c->pt != PTL_PT_ANY)
        PtlPTFree(c->ni, c->pt);
    if (c->eq != PTL_EQ_NONE)
        PtlEQFree(c->eq);
    while (c->first) {
        struct spin_coll_request *r = c->first;
        c->first = r->next;
        free(r);
    }
    for (uint32_t i = 0; i < COLL_SLOTS; i++)
        free(c->slot[i].arena);
    free(c);
}

/* ---- What the variants share ---- */

int coll_put(const struct spin_coll *c, const void *data, uint64_t bytes, uint32_t to,
             ptl_match_bits_t bits, uint64_t offset, ptl_hdr_data_t hdr_data) {
    return PtlPut(c->md, (ptl_size_t)(uintptr_t)data, bytes, PTL_NO_ACK_REQ,
                  (ptl_process_t){.rank = to}, c->pt, bits, offset, NULL, hdr_data);
}

struct coll_landing coll_land(const struct spin_coll *c, const struct coll_node *node,
                              uint32_t block, uint32_t stage, uint32_t to) {
    struct coll_node there = *node;
    struct coll_stage s;
    there.rank = to;
    coll_stage(&there, block, stage, &s);
    uint32_t input = coll_input(&s, stage, node->rank) + !(stage || s.own);
    uint64_t at = (uint64_t)block * coll_stride(node);
    return (struct coll_landing){input, (s.combine ? (uint64_t)input * c->room : 0) + at};
}

#define LOOP(type_name, expression)                                                                \
    {                                                                                              \
        type_name *a = to;                                                                         \
        const type_name *b = from;                                                                 \
        for (uint64_t i = 0; i < bytes / sizeof(type_name); i++)                                   \
            a[i] = (expression);                                                                   \
        return;                                                                                    \
    }
/* Sums of integers wrap. */
#define ORDERED(type_name, sum_type)                                                               \
    if (operation == PTL_SUM)                                                                      \
        LOOP(sum_type, a[i] + b[i])                                                                \
    if (operation == PTL_MIN)                                                                      \
        LOOP(type_name, b[i] < a[i] ? b[i] : a[i])                                                 \
    LOOP(type_name, b[i] > a[i] ? b[i] : a[i])

void coll_combine(ptl_op_t operation, ptl_datatype_t type, void *to, const void *from,
                  uint64_t bytes) {
    spin_work(bytes / 8, 3 * bytes); /* a vector instruction per 16 bytes, its loads and stores */
    if (operation == PTL_BAND)
        LOOP(uint32_t, a[i] & b[i])
    if (operation == PTL_BOR)
        LOOP(uint32_t, a[i] | b[i])
    if (operation == PTL_BXOR)
        LOOP(uint32_t, a[i] ^ b[i])
    switch (type) {
    case PTL_INT32_T:
        ORDERED(int32_t, uint32_t)
    case PTL_INT64_T:
        ORDERED(int64_t, uint64_t)
    case PTL_UINT64_T:
        ORDERED(uint64_t, uint64_t)
    case PTL_FLOAT:
        ORDERED(float, float)
    case PTL_DOUBLE:
        ORDERED(double, double)
    }
}

void coll_own(const struct spin_coll *c, const struct coll_slot *s, uint32_t at, uint32_t bytes,
              void *to) {
    (void)c;
    if (bytes)
        spin_copy(to, s->part.request->in + s->part.at + at, bytes);
}

void coll_own_all(const struct spin_coll *c, const struct coll_slot *s) {
    const struct coll_part *p = &s->part;
    uint32_t stride = coll_stride(&p->node);
    uint8_t *data = coll_vector(c, s, 0);
    switch (p->node.kind) {
    case COLL_BARRIER:
        return;
    case COLL_BROADCAST:
        if (c->rank == p->node.root)
            coll_own(c, s, 0, p->node.bytes, data);
        return;
    case COLL_ALLGATHER:
        coll_own(c, s, 0, stride, data + (uint64_t)c->rank * stride);
        return;
    case COLL_ALLTOALL:
        for (uint32_t r = 0; r < c->ranks; r++)
            spin_copy(r == c->rank ? data + (uint64_t)r * stride
                                   : coll_vector(c, s, 1) + (uint64_t)r * stride,
                      p->request->in + r * p->request->bytes + p->at, stride);
        return;
    default:
        coll_own(c, s, 0, p->node.bytes, data);
    }
}

/* ---- Parts ---- */

static bool synchronises(uint32_t kind) {
    return kind != COLL_BROADCAST && kind != COLL_REDUCE;
}

static bool has_blocks(uint32_t kind) {
    return kind == COLL_ALLGATHER || kind == COLL_ALLTOALL;
}

static struct coll_slot *slot_of(struct spin_coll *c, uint32_t sequence) {
    return &c->slot[sequence % COLL_SLOTS];
}

/* Bytes of the request's next part. */
static uint64_t next_bytes(const struct spin_coll *c, const struct spin_coll_request *r) {
    uint64_t most = c->part_bytes, left = r->bytes - r->begun;
    if (has_blocks(r->kind))
        most = most / c->ranks ? most / c->ranks : 1;
    else if (r->kind == COLL_REDUCE && variant[r->variant]->most_reduced < most)
        most = variant[r->variant]->most_reduced;
    else if (r->kind == COLL_ALLREDUCE && variant[r->variant]->most_combined < most)
        most = variant[r->variant]->most_combined;
    return left < most ? left : most;
}

static int begin_part(struct spin_coll *c, struct spin_coll_request *r, struct coll_node node,
                      uint8_t by) {
    struct coll_slot *s = slot_of(c, c->next);
    s->part = (struct coll_part){.request = r, .node = node, .sequence = c->next, .variant = by};
    if (r) {
        s->part.operation = r->operation;
        s->part.type = r->type;
        s->part.at = r->begun;
    }
    s->part.active = true;
    c->next++;
    if (synchronises(node.kind))
        c->synced = c->next;
    return variant[by]->begin(c, s);
}

/* Own data of a rank alone. */
static void finish_alone(struct spin_coll_request *r) {
    if (r->kind != COLL_BROADCAST && r->bytes && r->in != r->out)
        spin_copy(r->out, r->in, r->bytes);
    r->begun = r->bytes;
    r->done = true;
}

/* The next part of the first request that has one; *begun: there was one. */
static int begin_next(struct spin_coll *c, bool *begun) {
    struct spin_coll_request *r = c->first;
    while (r && r->begun == r->bytes && (r->kind != COLL_BARRIER || r->parts || r->done))
        r = r->next;
    *begun = r != NULL;
    if (!r)
        return PTL_OK;
    struct coll_node node = {.rank = c->rank, .ranks = c->ranks, .root = r->root};
    if (!synchronises(r->kind) && c->next - c->synced >= COLL_UNSYNCED) {
        node.kind = COLL_BARRIER;
        node.algorithm = COLL_DOUBLING;
        node.root = 0;
        return begin_part(c, NULL, node, r->variant);
    }
    uint64_t bytes = next_bytes(c, r);
    node.kind = r->kind;
    node.algorithm = r->algorithm;
    node.bytes = (uint32_t)(has_blocks(r->kind) ? bytes * c->ranks : bytes);
    int code = begin_part(c, r, node, r->variant);
    r->begun += bytes;
    r->parts++;
    return code;
}

static void take_result(const struct spin_coll *c, const struct coll_slot *s) {
    const struct coll_part *p = &s->part;
    const struct spin_coll_request *r = p->request;
    const uint8_t *data = coll_vector(c, s, p->result);
    uint32_t stride = coll_stride(&p->node);
    switch (p->node.kind) {
    case COLL_BARRIER:
        return;
    case COLL_BROADCAST:
        if (c->rank != p->node.root)
            spin_copy(r->out + p->at, data, p->node.bytes);
        return;
    case COLL_REDUCE:
        if (c->rank == p->node.root)
            spin_copy(r->out + p->at, data, p->node.bytes);
        return;
    case COLL_ALLREDUCE:
        spin_copy(r->out + p->at, data, p->node.bytes);
        return;
    default:
        for (uint32_t b = 0; b < c->ranks; b++)
            spin_copy(r->out + b * r->bytes + p->at, data + (uint64_t)b * stride, stride);
    }
}

/* The oldest part; *done: it is finished. */
static int finish_oldest(struct spin_coll *c, bool wait, bool *done) {
    struct coll_slot *s = slot_of(c, c->finished);
    struct spin_coll_request *r = s->part.request;
    int code = variant[s->part.variant]->complete(c, s, wait, done);
    if (code != PTL_OK || !*done)
        return code;
    if (r) {
        take_result(c, s);
        r->parts--;
        r->done = r->parts == 0 && r->begun == r->bytes;
    }
    s->part.active = false;
    c->finished++;
    return PTL_OK;
}

/* As far as it goes without waiting, or (`wait`) until one more part is finished. */
static int progress(struct spin_coll *c, bool wait) {
    for (;;) {
        bool begun = true, done = false;
        int code = PTL_OK;
        while (code == PTL_OK && begun && c->next - c->finished < COLL_WINDOW)
            code = begin_next(c, &begun);
        if (code != PTL_OK || c->next == c->finished)
            return code;
        code = finish_oldest(c, wait, &done);
        if (code != PTL_OK || wait || !done)
            return code;
    }
}

/* ---- Requests ---- */

int spin_coll_start(struct spin_coll *c, const struct spin_coll_call *call,
                    struct spin_coll_request **request) {
    struct spin_coll_request *r = malloc(sizeof *r);
    *request = NULL;
    if (!r)
        return PTL_NO_SPACE;
    int code = coll_check(c, call, r);
    if (code != PTL_OK) {
        free(r);
        return code;
    }
    if (c->ranks == 1)
        finish_alone(r);
    else if (r->bytes == 0 && r->kind != COLL_BARRIER)
        r->done = true;
    *c->last = r;
    c->last = &r->next;
    *request = r;
    return progress(c, false);
}

static void forget(struct spin_coll *c, struct spin_coll_request *r) {
    struct spin_coll_request **at = &c->first;
    while (*at != r)
        at = &(*at)->next;
    *at = r->next;
    if (c->last == &r->next)
        c->last = at;
    free(r);
}

int spin_coll_test(struct spin_coll *c, struct spin_coll_request *r, bool *done) {
    int code = r->done ? PTL_OK : progress(c, false);
    *done = r->done;
    if (r->done)
        forget(c, r);
    return code;
}

int spin_coll_wait(struct spin_coll *c, struct spin_coll_request *r) {
    int code = PTL_OK;
    while (code == PTL_OK && !r->done)
        code = progress(c, true);
    if (r->done)
        forget(c, r);
    return code;
}
