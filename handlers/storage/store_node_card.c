#include "store_node_card.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLOTS = 4096,
    WINDOWS = 256,
    ACCUMULATORS = 128,
    PARITIES = 256,
    BUCKETS = 256,
    OLDEST_SECONDS = 30,
};
#define CLEANUP_NS  1000000000u
#define MOST_BLOCKS ((1u << 20) - 1) /* offsets of a card have 32 bits */

static int open_entries(struct store_node_card *card, const struct store_node_options *o,
                        const struct storage_state *state) {
    struct spin_entry entry = {
        .start = o->medium,
        .length = state->entry_bytes,
        .bits = STORAGE_REQUEST,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .image = card->image,
        .header = "storage_header_handler",
        .payload = "storage_payload_handler",
        .completion = "storage_completion_handler",
        .cleanup = "storage_cleanup_handler",
        .cleanup_ns = card->cleanup_ns,
        .user_hdr_bytes = STORAGE_HEAD,
        .memory = card->memory,
        .state = state,
        .state_bytes = offsetof(struct storage_state, known),
    };
    int code = spin_entry_append(card->ni, card->pt, &entry, &card->requests);
    const struct spin_entry more = {
        .start = o->medium,
        .length = state->entry_bytes,
        .bits = STORAGE_MORE,
        .from_self = true,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .image = card->image,
        .payload = "storage_more_payload_handler",
        .memory = card->memory,
    };
    if (code == PTL_OK && o->trust == STORAGE_AUTHENTICATED)
        code = spin_entry_append(card->ni, card->pt, &more, &card->more);
    if (code != PTL_OK)
        return code;
    const struct spin_entry control = {
        .start = card->counts,
        .length = sizeof *card->counts,
        .bits = STORAGE_CONTROL,
        .from_self = true,
        .options = PTL_ME_OP_PUT | PTL_ME_EVENT_COMM_DISABLE,
        .image = card->image,
        .payload = "storage_control_payload_handler",
        .memory = card->memory,
    };
    return spin_entry_append(card->ni, card->pt, &control, &card->control);
}

static int open_memory(struct store_node_card *card, const struct store_node_options *o) {
    uint32_t slots = o->slots ? o->slots : SLOTS, windows = o->windows ? o->windows : WINDOWS;
    if (windows & (windows - 1) || o->bypass > slots + o->swap || o->swap > STORAGE_SWAP_SLOTS ||
        o->blocks > MOST_BLOCKS || slots > 1u << 24 || windows > 1u << 24)
        return PTL_ARG_INVALID;
    card->node = (struct storage_node){
        .rank = card->rank, .trust = o->trust, .blocks = o->blocks, .now = o->now};
    for (int i = 0; i < 2; i++)
        if (o->key[i].generation)
            card->node.key[o->key[i].generation % 2] = o->key[i];
    struct storage_state state = {
        .node = card->node,
        .entry_bytes = o->blocks * STORAGE_BLOCK + STORAGE_HEAD,
        .ranks = spin_ranks(),
        .dies_after = o->dies_after,
        .by_file = o->by_file,
        .slots = slots,
        .bypass_from = slots + o->swap - o->bypass,
        .window_mask = windows - 1,
        .epoch = 1,
        .table_at =
            (uint32_t)(sizeof(struct storage_state) + windows * sizeof(struct storage_window)),
    };
    ptl_hpu_limits_t limits = {0};
    int code = PtlHPULimits(card->ni, &limits);
    if (code != PTL_OK)
        return code;
    state.parity = (struct storage_parity){
        .writes = o->writes ? o->writes : PARITIES,
        .accumulators = o->accumulators ? o->accumulators : ACCUMULATORS,
        .buckets = BUCKETS,
        .room = ((uint32_t)limits.max_payload_size + 3) & ~3u,
        .oldest = card->oldest,
        .tables_at =
            storage_state_bytes(windows, slots) - (uint32_t)offsetof(struct storage_state, parity),
    };
    code = PtlHPUAllocMem(storage_state_bytes(windows, slots) + storage_parity_bytes(&state.parity),
                          card->ni, &card->memory);
    return code == PTL_OK ? open_entries(card, o, &state) : code;
}

static int set_swap(struct store_node_card *card, uint32_t slots) {
    return store_node_card_tell(
        card, &(struct storage_control){.kind = STORAGE_SET_SWAP, .value = slots});
}

int store_node_card_open(ptl_handle_ni_t ni, ptl_pt_index_t pt, const struct store_node_options *o,
                         struct store_node_card *card) {
    *card =
        (struct store_node_card){.ni = ni, .pt = pt, .rank = spin_rank(), .md = PTL_INVALID_HANDLE};
    card->counts = calloc(1, sizeof *card->counts);
    card->saying = calloc(1, sizeof *card->saying);
    card->oldest = o->oldest ? o->oldest : OLDEST_SECONDS;
    card->cleanup_ns = o->cleanup_ns ? o->cleanup_ns : CLEANUP_NS;
    int code = card->counts && card->saying ? PtlCTAlloc(ni, &card->told) : PTL_NO_SPACE;
    const ptl_md_t md = {.length = PTL_SIZE_MAX,
                         .options = PTL_MD_EVENT_CT_ACK | PTL_MD_EVENT_SEND_DISABLE,
                         .eq_handle = PTL_EQ_NONE,
                         .ct_handle = card->told};
    if (code == PTL_OK)
        code = PtlMDBind(ni, &md, &card->md);
    if (code == PTL_OK)
        code = spin_handlers_load(ni, o->swap ? "storage_swap_handler" : "storage_handler",
                                  &card->image);
    if (code == PTL_OK)
        code = open_memory(card, o);
    if (code == PTL_OK && o->swap) {
        code = set_swap(card, o->swap);
        card->swap = code == PTL_OK;
    }
    if (code != PTL_OK)
        store_node_card_close(card);
    return code;
}

void store_node_card_close(struct store_node_card *card) {
    if (card->swap)
        set_swap(card, 0);
    spin_entry_remove(&card->requests);
    spin_entry_remove(&card->more);
    spin_entry_remove(&card->control);
    if (card->memory)
        PtlHPUFreeMem(&card->memory);
    while (card->told && card->md != PTL_INVALID_HANDLE && PtlMDRelease(card->md) == PTL_IN_USE)
        ;
    if (card->told)
        PtlCTFree(card->told);
    if (card->image)
        PtlImageUnload(card->image);
    free(card->saying);
    free(card->counts);
    *card = (struct store_node_card){0};
}

/* As the card does. */
static void note(struct storage_node *n, const struct storage_control *c) {
    struct storage_key *key = &n->key[c->key.generation % 2];
    if (c->kind == STORAGE_SET_CLOCK)
        n->now = c->value;
    else if (c->kind == STORAGE_SET_KEY)
        *key = c->key;
    else if (c->kind == STORAGE_END_KEY && key->generation == c->key.generation)
        key->ends = c->key.ends;
}

/* The acknowledgement comes when the handler has run. */
int store_node_card_tell(struct store_node_card *card, const struct storage_control *what) {
    ptl_ct_event_t event;
    *card->saying = *what;
    note(&card->node, what);
    int code =
        PtlPut(card->md, (ptl_size_t)(uintptr_t)card->saying, sizeof *card->saying, PTL_CT_ACK_REQ,
               (ptl_process_t){.rank = card->rank}, card->pt, STORAGE_CONTROL, 0, NULL, 0);
    if (code == PTL_OK)
        code = PtlCTWait(card->told, ++card->tells, &event);
    return code == PTL_OK && event.failure ? PTL_FAIL : code;
}

int store_node_card_clock(struct store_node_card *card, uint32_t now) {
    return store_node_card_tell(card,
                                &(struct storage_control){.kind = STORAGE_SET_CLOCK, .value = now});
}

int store_node_card_key(struct store_node_card *card, const struct storage_key *key,
                        uint32_t previous_ends) {
    struct storage_control end = {
        .kind = STORAGE_END_KEY, .key = {.generation = key->generation - 1, .ends = previous_ends}};
    int code =
        store_node_card_tell(card, &(struct storage_control){.kind = STORAGE_SET_KEY, .key = *key});
    return code == PTL_OK ? store_node_card_tell(card, &end) : code;
}

int store_node_card_report(struct store_node_card *card, struct storage_counts *counts) {
    int code = store_node_card_tell(card, &(struct storage_control){.kind = STORAGE_REPORT});
    if (code == PTL_OK)
        *counts = *card->counts;
    return code;
}
