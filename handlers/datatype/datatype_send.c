/* Sending datatypes: gathered by the own card, or packed by the processor. */
#include <stdlib.h>

#include "datatype_host.h"

/* A card that has no free context drops what comes: pieces that a send has under way at most, that
 * the sends of all ranks to one may have, and that an HPU gathers at a time. */
enum { WINDOW = 128, OF_ALL = 512, PER_REQUEST = 4 };

struct spin_send {
    struct spin_types *types;
    const struct spin_layout *layout;
    const uint8_t *buffer;
    enum spin_send_way way;
    uint32_t number;          /* of the gathering entry */
    struct spin_linked entry; /* which gathers */
    uint8_t *staging;         /* packed data, pieces with heads, or requests to the own card */
    const uint8_t *start;     /* what is put: that, or the data itself if it is contiguous */
    ptl_handle_md_t md;       /* of it */
    ptl_handle_ct_t taken;    /* acknowledgements of what this processor has put, */
    ptl_handle_ct_t arrived;  /* and of what its card has */
    uint64_t puts, pieces;    /* waited for, of all messages so far */
    uint64_t next;            /* piece of this message */
    uint64_t window;          /* of pieces under way */
    uint32_t rank, tag;
};

/* ---- Opening ---- */

static int append_gathering(struct spin_send *s, struct spin_error *err) {
    struct spin_types *t = s->types;
    struct card_state c = {0};
    int code = datatype_make_state(t, s->layout, 0, false, &c, err);
    if (code != PTL_OK)
        return code;
    const struct spin_entry e = {
        .start = t->scratch,
        .length = sizeof t->scratch,
        .bits = DATATYPE_BITS(DATATYPE_GATHER, s->number),
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .ct = s->arrived,
        .image = t->image,
        .header = "gather_header_handler",
        .user_hdr_bytes = sizeof(struct datatype_request),
        .state = c.head,
        .state_bytes = c.bytes,
        .handler_memory = (uint8_t *)(uintptr_t)s->buffer + s->layout->info.true_lb,
        .handler_memory_bytes = s->layout->info.true_extent,
    };
    code = spin_entry_append(t->ni, t->pt, &e, &s->entry);
    free(c.head);
    return code == PTL_OK ? code
                          : datatype_refuse(err, code, "the card has no memory left for this send");
}

static bool is_contiguous(const struct spin_send *s) {
    return s->layout->info.regions <= 1;
}

static int open_puts(struct spin_send *s, struct spin_error *err) {
    uint64_t pieces = datatype_pieces(s->types, s->layout), bytes = pieces * DATATYPE_PACKET;
    if (s->way == SPIN_SEND_CARD)
        bytes = (pieces / PER_REQUEST + 1) * sizeof(struct datatype_request);
    if (is_contiguous(s)) {
        bytes = s->layout->info.size;
        s->start = s->buffer + s->layout->info.true_lb;
    } else {
        s->start = s->staging = malloc(bytes);
        if (!s->staging)
            return datatype_refuse(err, PTL_NO_SPACE, "no memory for packed data");
    }
    ptl_md_t md = {.start = (void *)(uintptr_t)s->start,
                   .length = bytes,
                   .eq_handle = PTL_EQ_NONE,
                   .options = PTL_MD_EVENT_CT_ACK};
    int code = PtlCTAlloc(s->types->ni, &s->taken);
    if (code == PTL_OK)
        code = PtlCTAlloc(s->types->ni, &s->arrived);
    md.ct_handle = s->taken;
    if (code == PTL_OK)
        code = PtlMDBind(s->types->ni, &md, &s->md);
    return code == PTL_OK ? code : datatype_refuse(err, code, "no counters left for this send");
}

int spin_send_open(struct spin_types *t, const void *buffer, const struct spin_layout *layout,
                   enum spin_send_way way, struct spin_send **out, struct spin_error *err) {
    struct spin_send *s = calloc(1, sizeof *s);
    *out = NULL;
    if (!s)
        return datatype_refuse(err, PTL_NO_SPACE, "no memory for a send");
    *s = (struct spin_send){.types = t,
                            .layout = layout,
                            .buffer = buffer,
                            .way = way,
                            .number = t->sends++,
                            .md = PTL_INVALID_HANDLE};
    s->window = OF_ALL / (spin_ranks() ? spin_ranks() : 1);
    s->window = s->window > WINDOW ? WINDOW : s->window < PER_REQUEST ? PER_REQUEST : s->window;
    int code = open_puts(s, err);
    if (code == PTL_OK && way == SPIN_SEND_CARD && !is_contiguous(s))
        code = append_gathering(s, err);
    if (code == PTL_OK)
        *out = s;
    else
        spin_send_close(s);
    return code;
}

void spin_send_close(struct spin_send *s) {
    if (!s)
        return;
    spin_entry_remove(&s->entry);
    if (s->md != PTL_INVALID_HANDLE)
        while (PtlMDRelease(s->md) == PTL_IN_USE)
            ;
    if (s->taken)
        PtlCTFree(s->taken);
    if (s->arrived)
        PtlCTFree(s->arrived);
    free(s->staging);
    free(s);
}

/* ---- Sending ---- */

static int put(struct spin_send *s, const void *from, uint64_t bytes, uint32_t rank,
               uint64_t bits) {
    s->puts++;
    return PtlPut(s->md, (uint64_t)((const uint8_t *)from - s->start), bytes, PTL_CT_ACK_REQ,
                  (ptl_process_t){.rank = rank}, s->types->pt, bits, 0, NULL, 0);
}

/* Pieces from s->next on; returns how many they are. */
static uint32_t put_some(struct spin_send *s, int *code) {
    uint32_t piece = s->types->piece;
    uint64_t at = s->next * piece, left = s->layout->info.size - at;
    uint64_t most = s->way == SPIN_SEND_CARD ? (uint64_t)PER_REQUEST * piece : piece;
    uint32_t bytes = (uint32_t)(left < most ? left : most);
    uint64_t bits = DATATYPE_BITS(DATATYPE_PIECES, s->tag);
    if (s->way == SPIN_SEND_CARD) {
        struct datatype_request *q =
            (struct datatype_request *)(void *)s->staging + s->next / PER_REQUEST;
        *q = (struct datatype_request){(uint32_t)at, bytes, s->rank, s->tag, piece};
        *code =
            put(s, q, sizeof *q, spin_rank(), DATATYPE_BITS(DATATYPE_GATHER, (uint64_t)s->number));
    } else {
        uint8_t *to = s->staging + s->next * DATATYPE_PACKET;
        *(struct datatype_head *)(void *)to = (struct datatype_head){(uint32_t)at, bytes};
        spin_layout_pack(s->layout, s->buffer, at, bytes, to + sizeof(struct datatype_head));
        datatype_charge_copy(s->layout, bytes);
        *code = put(s, to, sizeof(struct datatype_head) + bytes, s->rank, bits);
    }
    return (bytes + piece - 1) / piece;
}

/* What is counted when `ahead` pieces of this message are still under way. */
static int wait_until(struct spin_send *s, uint64_t ahead) {
    bool by_card = s->way == SPIN_SEND_CARD;
    uint64_t before = s->next > ahead ? s->next - ahead : 0;
    ptl_ct_event_t event;
    int code = PTL_OK;
    if (by_card && !ahead) { /* a request that was refused brings no pieces */
        code = PtlCTWait(s->taken, s->puts, &event);
        if (code != PTL_OK || event.failure)
            return code != PTL_OK ? code : PTL_FAIL;
    }
    code = by_card ? PtlCTWait(s->arrived, s->pieces + before, &event)
                   : PtlCTWait(s->taken, s->puts - (s->next - before), &event);
    return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
}

/* As many as may be under way; with `all` the rest too, as places become free. */
static int put_pieces(struct spin_send *s, bool all) {
    uint64_t pieces = datatype_pieces(s->types, s->layout);
    int code = PTL_OK;
    while (s->next < pieces && (all || s->next < s->window)) {
        if (all)
            code = wait_until(s, s->window - PER_REQUEST);
        if (code == PTL_OK)
            s->next += put_some(s, &code);
        if (code != PTL_OK)
            break;
    }
    return code;
}

/* All of it as one message. */
static bool is_whole(const struct spin_send *s) {
    return s->way == SPIN_SEND_PACK || is_contiguous(s);
}

int spin_send_start(struct spin_send *s, uint32_t rank, uint32_t tag) {
    s->rank = rank;
    s->tag = tag;
    s->next = 0;
    if (!is_whole(s))
        return put_pieces(s, false);
    uint64_t size = s->layout->info.size;
    if (!is_contiguous(s)) {
        spin_layout_pack(s->layout, s->buffer, 0, size, s->staging);
        datatype_charge_copy(s->layout, size);
    }
    return put(s, s->start, size, rank, DATATYPE_BITS(DATATYPE_WHOLE, tag));
}

int spin_send_wait(struct spin_send *s) {
    ptl_ct_event_t event;
    if (is_whole(s)) {
        int code = PtlCTWait(s->taken, s->puts, &event);
        return code != PTL_OK ? code : event.failure ? PTL_FAIL : PTL_OK;
    }
    int code = put_pieces(s, true);
    if (code == PTL_OK)
        code = wait_until(s, 0);
    if (s->way == SPIN_SEND_CARD)
        s->pieces += s->next;
    return code;
}
