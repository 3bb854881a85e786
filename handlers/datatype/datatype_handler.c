/* Derived datatypes on the card (SC'17 section 5.2; general handlers as in the slides, E1).
 * Receiving: the regions of a packet go from the packet to host memory by DMA. A handler's place in
 * the dataloop is a function of the packet's position alone, so packets may come in any order, and
 * several messages at once; the strategies differ in how the place is found. Sending: pieces are
 * gathered by DMA and put. */
#include "spin/handler.h"

#include "datatype_card.h"

typedef struct datatype_request ptl_user_header_t;

struct packet {
    const uint8_t *data;
    uint32_t position, bytes;
};

static const uint32_t *dataloop_of(const struct datatype_state *s) {
    return (const uint32_t *)s + s->dataloop;
}

static void store(void *data, uint32_t at, uint32_t from, uint32_t bytes) {
    ptl_dma_h stored; /* the message is complete when all are */
    PtlHandlerDMAToHostNB((const uint8_t *)data + from, at, bytes, PTL_HANDLER_HOST_MEM, &stored);
}

static void scatter(const uint32_t *d, struct dataloop_segment *segment, const struct packet *p) {
    dataloop_move(d, segment, p->bytes, store, (void *)(uintptr_t)p->data);
}

/* ---- Finding the place ---- */

/* Specialised: blocks at a stride. */
static void vector(struct datatype_state *s, const struct packet *p) {
    const uint32_t *d = dataloop_of(s), *l = d + d[DATALOOP_ROOT];
    uint32_t block = l[DATALOOP_BYTES], stride = l[DATALOOP_STRIDE];
    uint32_t i = p->position / block, in_block = p->position - i * block;
    uint32_t at = d[DATALOOP_BASE] + i * stride + in_block, left = block - in_block;
    for (uint32_t done = 0; done < p->bytes;) {
        uint32_t n = left < p->bytes - done ? left : p->bytes - done;
        store((void *)(uintptr_t)p->data, at, done, n);
        done += n;
        at += stride - in_block;
        in_block = 0;
        left = block;
    }
}

/* Specialised: blocks at the offsets of a table. */
static void list(struct datatype_state *s, const struct packet *p) {
    const uint32_t *d = dataloop_of(s), *l = d + d[DATALOOP_ROOT];
    void *data = (void *)(uintptr_t)p->data;
    uint32_t in_block = p->position, i = dataloop_find(l, &in_block);
    struct dataloop_frame f = {d[DATALOOP_ROOT], i, d[DATALOOP_BASE]};
    struct dataloop_element e = dataloop_element(l, i);
    uint32_t left = e.bytes - in_block, done = left < p->bytes ? left : p->bytes;
    store(data, f.base + e.offset + in_block, 0, done);
    done = dataloop_whole(l, &f, done, p->bytes, store, data);
    if (done < p->bytes)
        store(data, f.base + dataloop_element(l, f.index + 1).offset, done, p->bytes - done);
}

/* By the positions in the dataloop: a division or a bisection per level. */
static void seek(struct datatype_state *s, const struct packet *p) {
    struct dataloop_segment segment;
    dataloop_seek(dataloop_of(s), &segment, p->position);
    scatter(dataloop_of(s), &segment, p);
}

/* Each HPU has a segment that it moves on over what others handle; back means from the start. */
static void local(struct datatype_state *s, const struct packet *p) {
    const uint32_t *d = dataloop_of(s);
    uint32_t hpu = PTL_MY_HPU;
    if (hpu >= s->count) {
        seek(s, p);
        return;
    }
    struct dataloop_segment *segment =
        (struct dataloop_segment *)((uint32_t *)s + s->segments + hpu * s->segment_words);
    if (p->position < segment->position)
        dataloop_seek(d, segment, 0);
    dataloop_catch_up(d, segment, p->position);
    scatter(d, segment, p);
}

/* From a copy of the checkpoint before it. */
static void read_only(struct datatype_state *s, const struct packet *p) {
    const uint32_t *d = dataloop_of(s);
    const uint32_t *from =
        (const uint32_t *)s + s->segments + p->position / s->interval * s->segment_words;
    struct dataloop_segment segment;
    for (uint32_t i = 0, *to = (uint32_t *)&segment; i < s->segment_words; i++)
        to[i] = from[i];
    dataloop_catch_up(d, &segment, p->position);
    scatter(d, &segment, p);
}

/* With the checkpoint itself, which is then where the next packet begins. If another HPU has it, or
 * it is beyond this packet, the copy that is never changed does. */
static void read_write(struct datatype_state *s, const struct packet *p) {
    const uint32_t *d = dataloop_of(s);
    uint32_t i = p->position / s->interval;
    uint32_t *lock = (uint32_t *)s + s->working + i * (s->segment_words + 1);
    if (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE)) {
        read_only(s, p);
        return;
    }
    struct dataloop_segment *segment = (struct dataloop_segment *)(lock + 1);
    if (p->position < segment->position) {
        const uint32_t *from = (const uint32_t *)s + s->segments + i * s->segment_words;
        for (uint32_t w = 0, *to = (uint32_t *)segment; w < s->segment_words; w++)
            to[w] = from[w];
    }
    dataloop_catch_up(d, segment, p->position);
    scatter(d, segment, p);
    __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

/* ---- Handlers: of packets of one message, and of pieces ---- */

static int fits(const struct datatype_state *s, const struct packet *p) {
    uint32_t size = dataloop_of(s)[DATALOOP_SIZE];
    return p->position <= size && p->bytes <= size - p->position;
}

#define HANDLERS(strategy)                                                                         \
    __handler int strategy##_payload_handler(const ptl_payload_t p, void *state) {                 \
        const struct packet packet = {p.base, p.offset, p.length};                                 \
        if (!fits(state, &packet))                                                                 \
            return FAIL;                                                                           \
        if (packet.bytes)                                                                          \
            strategy(state, &packet);                                                              \
        return SUCCESS;                                                                            \
    }                                                                                              \
    __handler int strategy##_piece_handler(const ptl_payload_t p, void *state) {                   \
        const struct datatype_head *h = (const struct datatype_head *)p.base;                      \
        if (p.offset || p.length < sizeof *h || p.length - sizeof *h != h->bytes)                  \
            return FAIL;                                                                           \
        const struct packet packet = {p.base + sizeof *h, h->position, h->bytes};                  \
        if (!fits(state, &packet))                                                                 \
            return FAIL;                                                                           \
        if (packet.bytes)                                                                          \
            strategy(state, &packet);                                                              \
        return SUCCESS;                                                                            \
    }

HANDLERS(vector)
HANDLERS(list)
HANDLERS(seek)
HANDLERS(local)
HANDLERS(read_only)
HANDLERS(read_write)

/* ---- Sending ---- */

struct gathered {
    struct datatype_head *head; /* and the piece behind it; NULL: none */
    ptl_dma_h first, last;      /* transfers are numbered one by one */
};

static void fetch(void *argument, uint32_t at, uint32_t from, uint32_t bytes) {
    struct gathered *g = argument;
    PtlHandlerDMAFromHostNB(at, (uint8_t *)(g->head + 1) + from, bytes, PTL_HANDLER_HOST_MEM,
                            &g->last);
}

static void send_piece(const struct gathered *g, const struct datatype_request *q) {
    if (!g->head)
        return;
    for (ptl_dma_h i = g->first; i <= g->last; i++)
        PtlHandlerDMAWait(i);
    PtlHandlerPutFromDevice(g->head, g->head->bytes + sizeof *g->head, PTL_LOCAL_ME_CT,
                            PTL_CT_ACK_REQ, q->target, DATATYPE_BITS(DATATYPE_PIECES, q->tag), 0,
                            NULL, 0);
}

/* While a piece is fetched the one before it is sent, from the other buffer. */
__handler int gather_header_handler(const ptl_header_t h, void *state) {
    const struct datatype_request *q = &h.user_hdr;
    const uint32_t *d = dataloop_of(state);
    uint8_t *buffers = malloc(2 * DATATYPE_PACKET);
    uint32_t size = d[DATALOOP_SIZE], next = q->position, left = q->bytes;
    if (!buffers || next > size || left > size - next || !q->piece ||
        q->piece > DATATYPE_PACKET - sizeof(struct datatype_head))
        return FAIL;
    struct dataloop_segment segment;
    struct gathered before = {0};
    dataloop_seek(d, &segment, next);
    for (uint32_t turn = 0; left; turn ^= 1) {
        uint32_t bytes = left < q->piece ? left : q->piece;
        struct gathered now = {(struct datatype_head *)(buffers + turn * DATATYPE_PACKET),
                               before.last + 1, before.last};
        *now.head = (struct datatype_head){next, bytes};
        dataloop_move(d, &segment, bytes, fetch, &now);
        send_piece(&before, q);
        before = now;
        next += bytes;
        left -= bytes;
    }
    send_piece(&before, q);
    return DROP;
}
