/* Receiving datatypes: entries whose handlers put the data where it belongs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datatype_host.h"

/* ---- What is copied to the card ---- */

/* What the host takes, in worlds, to make a checkpoint, per loop. */
enum { CHECKPOINT_CYCLES = 40 };

static uint32_t *words_at(struct card_state *c, uint32_t word) {
    return (uint32_t *)c->head + word;
}

static void make_segment(const struct spin_layout *layout, struct card_state *c, uint32_t at,
                         uint64_t position) {
    struct dataloop_segment s = {0};
    dataloop_seek(layout->dataloop, &s, (uint32_t)position);
    memcpy(words_at(c, at), &s, 4 * c->head->segment_words);
}

static void make_checkpoints(const struct spin_layout *layout, struct card_state *c,
                             uint32_t interval, bool working) {
    struct datatype_state *h = c->head;
    h->interval = interval;
    for (uint32_t i = 0; i < h->count; i++) {
        uint64_t position = (uint64_t)i * interval;
        make_segment(layout, c, h->segments + i * h->segment_words, position);
        if (working)
            make_segment(layout, c, h->working + i * (h->segment_words + 1) + 1, position);
    }
    spin_work((uint64_t)h->count * layout->info.depth * CHECKPOINT_CYCLES, c->bytes);
}

static int prepare(const struct spin_types *t, const struct spin_layout *layout,
                   const struct spin_type_options *o, enum spin_type_strategy strategy,
                   struct card_state *c, struct spin_error *err) {
    bool working = strategy == SPIN_TYPE_READ_WRITE;
    if (strategy == SPIN_TYPE_HPU_LOCAL) {
        int code = datatype_make_state(t, layout, o->hpus ? o->hpus : 64, false, c, err);
        for (uint32_t i = 0; code == PTL_OK && i < c->head->count; i++)
            make_segment(layout, c, c->head->segments + i * c->head->segment_words, 0);
        return code;
    }
    if (!working && strategy != SPIN_TYPE_READ_ONLY)
        return datatype_make_state(t, layout, 0, false, c, err);
    struct spin_type_options options = *o;
    struct spin_interval interval;
    if (!options.card_bytes || options.card_bytes > t->card_bytes)
        options.card_bytes = t->card_bytes;
    spin_type_interval(layout, &options, &interval); /* too many: make_state says so */
    int code = datatype_make_state(t, layout, interval.checkpoints, working, c, err);
    if (code == PTL_OK)
        make_checkpoints(layout, c, interval.bytes, working);
    return code;
}

/* ---- Receiving ---- */

struct spin_receive {
    struct spin_types *types;
    const struct spin_layout *layout;
    uint8_t *buffer;
    uint32_t tag;
    struct spin_linked entry[2]; /* of whole messages, and of pieces */
    ptl_handle_ct_t ct[2];
    uint64_t seen[2]; /* counted so far */
    uint8_t *staging; /* of SPIN_TYPE_HOST: a whole message, then pieces with their heads */
    bool on_host;
};

static int append(struct spin_receive *r, int which, uint32_t tag, const char *strategy,
                  const struct card_state *c) {
    struct spin_types *t = r->types;
    const struct spin_layout_info *info = &r->layout->info;
    char name[40];
    snprintf(name, sizeof name, "%s_%s_handler", strategy, which ? "piece" : "payload");
    struct spin_entry e = {
        .bits = DATATYPE_BITS(which ? DATATYPE_PIECES : DATATYPE_WHOLE, tag),
        .options =
            PTL_ME_OP_PUT | PTL_ME_NO_TRUNCATE | PTL_ME_EVENT_COMM_DISABLE | PTL_ME_EVENT_CT_COMM,
        .ct = r->ct[which],
    };
    if (r->on_host) {
        e.start = which ? r->staging + info->size : r->staging;
        e.length = which ? datatype_pieces(r->types, r->layout) * DATATYPE_PACKET : info->size;
        e.options |= which ? PTL_ME_MANAGE_LOCAL : 0;
        return spin_entry_append(t->ni, t->pt, &e, &r->entry[which]);
    }
    e.start = which ? t->scratch : r->buffer + info->true_lb;
    e.length = which ? sizeof t->scratch : info->true_extent;
    e.image = t->image;
    e.payload = name;
    e.handler_memory = r->buffer + info->true_lb;
    e.handler_memory_bytes = info->true_extent;
    if (which) {
        e.memory = r->entry[0].memory;
    } else {
        e.state = c->head;
        e.state_bytes = c->bytes;
    }
    return spin_entry_append(t->ni, t->pt, &e, &r->entry[which]);
}

static int link_entries(struct spin_receive *r, uint32_t tag, const char *strategy,
                        const struct card_state *c, struct spin_error *err) {
    int code = PTL_OK;
    for (int which = 0; which < 2 && code == PTL_OK; which++) {
        code = PtlCTAlloc(r->types->ni, &r->ct[which]);
        if (code == PTL_OK)
            code = append(r, which, tag, strategy, c);
    }
    if (code == PTL_NO_SPACE)
        datatype_refuse(err, code, "the card has no memory left for this receive");
    else if (code != PTL_OK)
        datatype_refuse(err, code, "the receive could not be appended");
    return code;
}

/* The handler's name, or NULL if there is none for this layout. */
static const char *handler_of(const struct spin_layout *layout, enum spin_type_strategy *strategy) {
    static const char *const general[] = {
        [SPIN_TYPE_HPU_LOCAL] = "local",
        [SPIN_TYPE_READ_ONLY] = "read_only",
        [SPIN_TYPE_READ_WRITE] = "read_write",
        [SPIN_TYPE_SEEK] = "seek",
        [SPIN_TYPE_HOST] = "",
    };
    if (*strategy == SPIN_TYPE_BEST)
        *strategy =
            layout->info.form == SPIN_LAYOUT_GENERAL ? SPIN_TYPE_SEEK : SPIN_TYPE_SPECIALISED;
    if (*strategy != SPIN_TYPE_SPECIALISED)
        return *strategy <= SPIN_TYPE_HOST ? general[*strategy] : NULL;
    return layout->info.form == SPIN_LAYOUT_VECTOR  ? "vector"
           : layout->info.form == SPIN_LAYOUT_INDEX ? "list"
                                                    : NULL;
}

int spin_receive_open(struct spin_types *t, void *buffer, const struct spin_layout *layout,
                      uint32_t tag, const struct spin_type_options *options,
                      struct spin_receive **out, struct spin_error *err) {
    const struct spin_type_options o = options ? *options : (struct spin_type_options){0};
    enum spin_type_strategy strategy = o.strategy;
    const char *handler = handler_of(layout, &strategy);
    *out = NULL;
    if (!handler)
        return datatype_refuse(
            err, PTL_ARG_INVALID,
            "the layout is neither a vector nor an index: no handler is specialised");
    if (layout->info.size > layout->info.true_extent)
        return datatype_refuse(err, PTL_ARG_INVALID,
                               "data of the layout overlaps: it cannot be received");
    struct spin_receive *r = calloc(1, sizeof *r);
    struct card_state c = {0};
    if (!r)
        return datatype_refuse(err, PTL_NO_SPACE, "no memory for a receive");
    *r = (struct spin_receive){.types = t, .layout = layout, .buffer = buffer, .tag = tag};
    r->on_host = strategy == SPIN_TYPE_HOST;
    int code = PTL_OK;
    if (r->on_host) {
        r->staging = malloc(layout->info.size + datatype_pieces(t, layout) * DATATYPE_PACKET);
        if (!r->staging)
            code = datatype_refuse(err, PTL_NO_SPACE, "no memory for packed data");
    } else {
        code = prepare(t, layout, &o, strategy, &c, err);
    }
    if (code == PTL_OK)
        code = link_entries(r, tag, handler, &c, err);
    free(c.head);
    if (code == PTL_OK)
        *out = r;
    else
        spin_receive_close(r);
    return code;
}

static void unpack(struct spin_receive *r, bool pieces) {
    const uint8_t *from = r->staging + (pieces ? r->layout->info.size : 0);
    uint64_t size = r->layout->info.size;
    if (!pieces)
        spin_layout_unpack(r->layout, r->buffer, 0, size, from);
    for (uint64_t done = 0; pieces && done < size;) {
        struct datatype_head h;
        memcpy(&h, from, sizeof h);
        spin_layout_unpack(r->layout, r->buffer, h.position, h.bytes, from + sizeof h);
        from += sizeof h + h.bytes;
        done += h.bytes;
    }
    datatype_charge_copy(r->layout, size);
}

int spin_receive_wait(struct spin_receive *r) {
    uint64_t pieces = datatype_pieces(r->types, r->layout);
    const ptl_size_t tests[2] = {r->seen[0] + 1, r->seen[1] + (pieces ? pieces : 1)};
    ptl_ct_event_t event;
    unsigned int which;
    int code = PtlCTPoll(r->ct, tests, 2, PTL_TIME_FOREVER, &event, &which);
    if (code != PTL_OK)
        return code;
    if (event.failure)
        return PTL_FAIL;
    r->seen[which] = tests[which];
    if (!r->on_host)
        return PTL_OK;
    unpack(r, which == 1);
    if (which == 0)
        return PTL_OK;
    spin_entry_remove(&r->entry[1]); /* pieces are stored from the beginning again */
    return append(r, 1, r->tag, "", NULL);
}

void spin_receive_close(struct spin_receive *r) {
    if (!r)
        return;
    for (int which = 1; which >= 0; which--) { /* the first has the memory of both */
        spin_entry_remove(&r->entry[which]);
        if (r->ct[which])
            PtlCTFree(r->ct[which]);
    }
    free(r->staging);
    free(r);
}
