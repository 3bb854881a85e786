/* Ranks without a program: cards that serve by themselves, such as storage nodes. Before time
 * begins, what the rank's section of the file of cards says becomes entries, through the same calls
 * that a program would make, and the host's set-up function is called. Then nobody is there: no
 * events are read, and the card goes on. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/file.h"
#include "base/settings.h"
#include "sim/world_private.h"

#define MOST_BYTES (1ull << 40)

/* ---- what a file says of an entry ---- */

int world_entry_read(struct world_entry **out, const char *text, struct spin_error *err) {
    static const char *const interfaces[] = {"logical", "physical", NULL};
    static const char *const operations[] = {"both", "put", "get", NULL};
    struct world_entry *e = *out = calloc(1, sizeof *e);
    char *words = e ? strdup(text) : NULL;
    if (!words)
        return spin_fail(err, SPIN_ENOMEM, "out of memory for an entry");
    e->text = words;
    char *to = words;
    for (const char *from = words; *from; from++)
        if (!isspace((unsigned char)*from)) /* behind commas */
            *to++ = *from;
    *to = 0;
    const struct setting table[] = {
        {"portal", SETTING_COUNT, &e->portal, 0, 511, NULL},
        {"match", SETTING_COUNT, &e->match, 0, UINT64_MAX, NULL},
        {"ignore", SETTING_COUNT, &e->ignore, 0, UINT64_MAX, NULL},
        {"bytes", SETTING_BYTES, &e->bytes, 0, MOST_BYTES, NULL},
        {"data", SETTING_TEXT, &e->data, 0, 0, NULL},
        {"operations", SETTING_WORD, &e->operations, 0, 0, operations},
        {"interface", SETTING_WORD, &e->interface, 0, 0, interfaces},
        {"image", SETTING_TEXT, &e->image, 0, 0, NULL},
        {"header", SETTING_TEXT, &e->handler[0], 0, 0, NULL},
        {"payload", SETTING_TEXT, &e->handler[1], 0, 0, NULL},
        {"completion", SETTING_TEXT, &e->handler[2], 0, 0, NULL},
        {"state", SETTING_BYTES, &e->state, 0, 1ull << 28, NULL},
        {"initial", SETTING_TEXT, &e->initial, 0, 0, NULL},
        {"host", SETTING_BYTES, &e->host, 0, MOST_BYTES, NULL},
        {"user_header", SETTING_BYTES, &e->user_header, 0, 1ull << 20, NULL},
        {0},
    };
    int code = settings_read("entry", words, table, err);
    bool handlers = e->handler[0] || e->handler[1] || e->handler[2];
    if (!code && handlers != (e->image != NULL))
        code = spin_fail(err, SPIN_EARG,
                         "entry: an image and its header, payload or completion handler go "
                         "together");
    return code;
}

void world_entry_free(struct world_entry *e) {
    if (!e)
        return;
    free(e->text);
    free(e);
}

/* ---- entries ---- */

struct world_memory { /* of a rank that has no program which could have it */
    struct world_memory *next;
    _Alignas(16) uint8_t bytes[];
};

static uint8_t *memory_new(struct world_rank *r, uint64_t bytes) {
    struct world_memory *m = calloc(1, sizeof *m + bytes); /* pages that nobody uses cost nothing */
    if (!m)
        return NULL;
    m->next = r->memory;
    r->memory = m;
    return m->bytes;
}

void world_memory_free(struct world_rank *r) {
    while (r->memory) {
        struct world_memory *next = r->memory->next;
        free(r->memory);
        r->memory = next;
    }
}

struct set_up {
    struct world_rank *rank;
    bool has[2]; /* by the entry's interface */
    ptl_handle_ni_t ni[2];
};

/* "rank 4, entry 2: what" ends the run. */
static int refuse(const struct set_up *s, const struct world_entry *e, const char *what) {
    world_fail(s->rank->world, SPIN_EARG, "rank %u, its entry of portal %llu, match 0x%llx: %s",
               s->rank->index, (unsigned long long)e->portal, (unsigned long long)e->match, what);
    return 1;
}

static int open_interface(struct set_up *s, const struct world_entry *e) {
    unsigned kind = e->interface ? PTL_NI_PHYSICAL : PTL_NI_LOGICAL;
    ptl_handle_ni_t *ni = &s->ni[e->interface];
    if (!s->has[e->interface] &&
        (PtlNIInit(PTL_IFACE_DEFAULT, PTL_NI_MATCHING | kind, PTL_PID_ANY, NULL, NULL, ni) ||
         (kind == PTL_NI_LOGICAL && spin_map_ranks(*ni))))
        return refuse(s, e, "no interface");
    s->has[e->interface] = true;
    ptl_pt_index_t index;
    int code = PtlPTAlloc(*ni, 0, PTL_EQ_NONE, (ptl_pt_index_t)e->portal, &index);
    if (code && code != PTL_PT_IN_USE) /* by an entry before it */
        return refuse(s, e, "the interface has no such portal table entry");
    return 0;
}

/* The beginning of `to` from a file. */
static int fill(const struct set_up *s, const struct world_entry *e, const char *path, uint8_t *to,
                uint64_t room) {
    struct spin_error err;
    uint8_t *data;
    size_t length;
    if (!path)
        return 0;
    if (file_read(path, "data", room, &data, &length, &err))
        return refuse(s, e, err.text);
    memcpy(to, data, length);
    free(data);
    return 0;
}

static int set_handlers(const struct set_up *s, const struct world_entry *e, ptl_me_t *me) {
    ptl_handler_t *handler[] = {&me->header_handler, &me->payload_handler, &me->completion_handler};
    ptl_image_h image;
    if (!e->image)
        return 0;
    me->options |= PTL_ME_HANDLERS;
    if (PtlImageLoad(s->ni[e->interface], e->image, &image))
        return refuse(s, e, PtlImageError());
    for (int i = 0; i < 3; i++)
        if (e->handler[i] && PtlImageFind(image, e->handler[i], handler[i]))
            return refuse(s, e, PtlImageError());
    me->user_hdr_length = e->user_header;
    me->handler_host_mem_length = e->host;
    if (e->host && !(me->handler_host_mem_start = memory_new(s->rank, e->host)))
        return refuse(s, e, "no memory for its handlers");
    if (!e->state)
        return 0;
    if (PtlHPUAllocMem(e->state, s->ni[e->interface], &me->hpu_memory))
        return refuse(s, e, "the card has no such memory for handlers' state");
    me->hpu_initial_state = memory_new(s->rank, e->state);
    me->hpu_initial_state_length = e->state;
    if (!me->hpu_initial_state)
        return refuse(s, e, "no memory for its handlers' state");
    return fill(s, e, e->initial, me->hpu_initial_state, e->state);
}

static int append(struct set_up *s, const struct world_entry *e) {
    static const unsigned operations[] = {PTL_ME_OP_PUT | PTL_ME_OP_GET, PTL_ME_OP_PUT,
                                          PTL_ME_OP_GET};
    ptl_handle_me_t entry;
    ptl_me_t me = {.length = e->bytes,
                   .uid = PTL_UID_ANY,
                   .ct_handle = PTL_CT_NONE,
                   .match_bits = e->match,
                   .ignore_bits = e->ignore,
                   .hpu_memory = PTL_INVALID_HANDLE,
                   .options = operations[e->operations] | PTL_ME_EVENT_COMM_DISABLE |
                              PTL_ME_EVENT_LINK_DISABLE | PTL_ME_EVENT_UNLINK_DISABLE};
    if (e->interface)
        me.match_id.phys = (typeof(me.match_id.phys)){PTL_NID_ANY, PTL_PID_ANY};
    else
        me.match_id.rank = PTL_RANK_ANY;
    if (open_interface(s, e) || set_handlers(s, e, &me))
        return 1;
    if (e->bytes && !(me.start = memory_new(s->rank, e->bytes)))
        return refuse(s, e, "no memory for its bytes");
    if (fill(s, e, e->data, me.start, e->bytes))
        return 1;
    int code = PtlMEAppend(s->ni[e->interface], (ptl_pt_index_t)e->portal, &me, PTL_PRIORITY_LIST,
                           NULL, &entry);
    if (!code)
        return 0;
    return refuse(s, e,
                  e->image && code == PTL_NO_SPACE && !s->rank->params->hpus &&
                          !s->rank->params->is_pspin
                      ? "the card has no HPUs for its handlers"
                      : PtlToStr(code, PTL_STR_ERROR));
}

/* In the order of the file; a card's list has the last one first. */
static int append_all(struct set_up *s, const struct world_card *card) {
    for (uint32_t left = card->entry_count; left-- > 0;) {
        const struct world_entry *e = card->entries;
        for (uint32_t i = 0; i < left; i++)
            e = e->next;
        if (append(s, e))
            return 1;
    }
    return 0;
}

int world_set_up(struct world_rank *r) {
    struct spin_world *w = r->world;
    const struct world_card *card = w->cards.card[w->cards.of[r->index]];
    struct set_up s = {.rank = r};
    if (card->entries && (PtlInit() || append_all(&s, card)))
        return 1;
    return w->setup ? w->setup(w->setup_argument) : 0;
}
