/* Collectives by handlers (coll_handler.c): the processor gives its data to its own card, as
 * packets like those of others, and waits until the card has counted all chunks of the part. */
#include <stdlib.h>
#include <string.h>

#include "coll_private.h"

/* Targets of an alltoall that one handler sends to. */
#define TARGETS 8u

/* Six parts of a reduction may come to a card that is slow, from log2 P children: the card has room
 * for 1,024 packets that wait for handlers. */
#define MOST_REDUCED 32768u

static uint32_t most_packets(const struct spin_coll *c) {
    return c->room / (c->chunk_bytes < COLL_COMBINED ? c->chunk_bytes : COLL_COMBINED) + c->ranks +
           2;
}

static int open_slot(struct spin_coll *c, struct coll_slot *s, uint32_t i,
                     const struct coll_state *state) {
    int code = PtlCTAlloc(c->ni, &s->chunks.ct);
    const struct spin_entry entry = {
        .start = s->arena,
        .length = (uint64_t)c->vectors * c->room,
        .bits = COLL_SPIN_BITS + i,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .ct = s->chunks.ct,
        .image = c->image,
        .payload = "coll_payload_handler",
        .memory = c->memory,
        .state = state,
        .state_bytes = sizeof *state,
    };
    s->packets = malloc(most_packets(c) * (sizeof(struct coll_head) + 4) + c->room);
    if (!s->packets)
        return PTL_NO_SPACE;
    return code == PTL_OK ? spin_entry_append(c->ni, c->pt, &entry, &s->spin) : code;
}

static int open_spin(struct spin_coll *c) {
    ptl_hpu_limits_t limits;
    int code = PtlHPULimits(c->ni, &limits);
    if (code != PTL_OK || limits.max_handler_mem == 0)
        return code != PTL_OK ? code : PTL_NO_SPACE; /* a card without HPUs */
    uint64_t packet = limits.max_payload_size < 4096 ? limits.max_payload_size : 4096;
    c->chunk_bytes = (uint32_t)(packet - sizeof(struct coll_head)) & ~7u;
    c->words = (2 * most_packets(c) + 1) & ~1u;
    const struct coll_state state = {
        .rank = c->rank,
        .ranks = c->ranks,
        .chunk_bytes = c->chunk_bytes,
        .words = c->words,
        .slot_bytes = c->vectors * COLL_ON_CARD,
        .room = c->room,
    };
    code = spin_handlers_load(c->ni, "coll_handler", &c->image);
    if (code == PTL_OK)
        code = PtlHPUAllocMem(sizeof state + COLL_SLOTS * (c->words * 4 + state.slot_bytes), c->ni,
                              &c->memory);
    for (uint32_t i = 0; i < COLL_SLOTS && code == PTL_OK; i++)
        code = open_slot(c, &c->slot[i], i, &state);
    return code;
}

static void close_spin(struct spin_coll *c) {
    for (uint32_t i = 0; i < COLL_SLOTS; i++) {
        spin_entry_remove(&c->slot[i].spin);
        if (c->slot[i].chunks.ct)
            PtlCTFree(c->slot[i].chunks.ct);
        free(c->slot[i].packets);
    }
    if (c->memory != PTL_INVALID_HANDLE)
        PtlHPUFreeMem(&c->memory);
    if (c->image)
        PtlImageUnload(c->image);
}

/* A packet to the own card; the next begins behind its head. */
static int give(const struct spin_coll *c, const struct coll_slot *s, struct coll_head **packet,
                uint32_t block, uint32_t offset, uint32_t bytes) {
    const struct coll_part *p = &s->part;
    struct coll_head *h = *packet;
    *h = (struct coll_head){.sequence = p->sequence,
                            .kind = p->node.kind,
                            .algorithm = p->node.algorithm,
                            .operation = p->operation,
                            .type = p->type,
                            .bytes = p->node.bytes,
                            .root = p->node.root,
                            .from = c->rank,
                            .stage = COLL_OWN,
                            .block = block,
                            .offset = offset};
    *packet = (struct coll_head *)(void *)((uint8_t *)(h + 1) + ((bytes + 3) & ~3u));
    return coll_put(c, h, sizeof *h + bytes, c->rank, COLL_SPIN_BITS + p->sequence % COLL_SLOTS, 0,
                    0);
}

/* A block of which no other input is waited for goes as packets; others wait in the arena. */
static int begin_block(const struct spin_coll *c, const struct coll_slot *s, uint32_t block,
                       struct coll_head **packet, bool *waits) {
    const struct coll_node *n = &s->part.node;
    uint32_t bytes = coll_block_bytes(n, block), at = block * coll_stride(n);
    uint32_t own_at = n->kind == COLL_ALLGATHER ? 0 : at;
    struct coll_stage stage;
    int code = PTL_OK;
    coll_stage(n, block, 0, &stage);
    if (!stage.own || !bytes)
        return PTL_OK;
    if (stage.ins) {
        *waits = true;
        coll_own(c, s, own_at, bytes, coll_vector(c, s, 0) + at);
        return PTL_OK;
    }
    uint32_t chunk = coll_chunk_bytes(n, c->chunk_bytes);
    for (uint32_t done = 0; done < bytes && code == PTL_OK; done += chunk) {
        uint32_t length = bytes - done < chunk ? bytes - done : chunk;
        coll_own(c, s, own_at + done, length, *packet + 1);
        code = give(c, s, packet, block, done, length);
    }
    return code;
}

/* A short vector goes as one packet: cards keep it. */
static int begin_short(const struct spin_coll *c, const struct coll_slot *s,
                       struct coll_head *packet) {
    const struct coll_node *n = &s->part.node;
    uint32_t stride = coll_stride(n);
    if (n->kind == COLL_BROADCAST && c->rank != n->root)
        return PTL_OK;
    if (n->kind == COLL_ALLGATHER) {
        memset(packet + 1, 0, n->bytes);
        coll_own(c, s, 0, stride, (uint8_t *)(packet + 1) + c->rank * stride);
    } else {
        coll_own(c, s, 0, n->bytes, packet + 1);
    }
    return give(c, s, &packet, 0, 0, n->bytes);
}

static int begin(struct spin_coll *c, struct coll_slot *s) {
    const struct coll_node *n = &s->part.node;
    struct coll_head *packet = (struct coll_head *)(void *)s->packets;
    uint32_t blocks = coll_blocks(n);
    bool waits = false;
    int code = PTL_OK;
    for (uint32_t b = 0; b < blocks; b++)
        if (n->kind != COLL_ALLTOALL || b != c->rank)
            s->chunks.count +=
                coll_chunks(n, coll_block_bytes(n, b), coll_chunk_bytes(n, c->chunk_bytes));
    if (n->kind == COLL_ALLTOALL) {
        coll_own_all(c, s);
        for (uint32_t k = 1; k < c->ranks && code == PTL_OK; k += TARGETS)
            code = give(c, s, &packet, k, TARGETS, 0);
        return code;
    }
    if (n->bytes <= COLL_ON_CARD)
        return begin_short(c, s, packet);
    for (uint32_t b = 0; b < blocks && code == PTL_OK; b++)
        code = begin_block(c, s, b, &packet, &waits);
    return waits && code == PTL_OK ? give(c, s, &packet, COLL_OWN, 0, 0) : code;
}

static int complete(struct spin_coll *c, struct coll_slot *s, bool wait, bool *done) {
    ptl_ct_event_t event;
    (void)c;
    int code =
        wait ? PtlCTWait(s->chunks.ct, s->chunks.count, &event) : PtlCTGet(s->chunks.ct, &event);
    if (code == PTL_OK && event.failure)
        code = PTL_FAIL;
    *done = code == PTL_OK && event.success >= s->chunks.count;
    return code;
}

const struct coll_variant coll_spin = {
    .most_reduced = MOST_REDUCED,
    .most_combined = UINT32_MAX,
    .open = open_spin,
    .close = close_spin,
    .begin = begin,
    .complete = complete,
};
