/* Datatypes on the card: opening, and what is copied there. */
#include "spinlib/datatype.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "datatype_host.h"

int spin_types_open(ptl_handle_ni_t ni, struct spin_types **out) {
    struct spin_types *t = calloc(1, sizeof *t);
    ptl_hpu_limits_t limits;
    *out = NULL;
    if (!t)
        return PTL_NO_SPACE;
    t->ni = ni;
    int code = PtlPTAlloc(ni, 0, PTL_EQ_NONE, PTL_PT_ANY, &t->pt);
    if (code != PTL_OK) {
        free(t);
        return code;
    }
    t->piece = DATATYPE_PACKET;
    if (PtlHPULimits(ni, &limits) == PTL_OK) {
        t->card_bytes =
            (uint32_t)(limits.max_initial_state < limits.max_handler_mem ? limits.max_initial_state
                                                                         : limits.max_handler_mem);
        if (limits.max_payload_size >= 64 && limits.max_payload_size < t->piece)
            t->piece = (uint32_t)limits.max_payload_size;
    }
    t->piece -= (uint32_t)sizeof(struct datatype_head);
    code = spin_handlers_load(ni, "datatype_handler", &t->image);
    if (code == PTL_OK)
        *out = t;
    else
        spin_types_close(t);
    return code;
}

void spin_types_close(struct spin_types *t) {
    if (!t)
        return;
    if (t->image)
        PtlImageUnload(t->image);
    PtlPTFree(t->ni, t->pt);
    free(t);
}

/* ---- Card memory ---- */

int datatype_refuse(struct spin_error *err, int code, const char *text) {
    if (err) {
        err->code = code == PTL_NO_SPACE ? SPIN_ELIMIT : SPIN_EARG;
        snprintf(err->text, sizeof err->text, "%s", text);
    }
    return code;
}

int datatype_make_state(const struct spin_types *t, const struct spin_layout *layout,
                        uint32_t count, bool working, struct card_state *c,
                        struct spin_error *err) {
    uint32_t words = dataloop_segment_words(layout->info.depth);
    uint64_t dataloop = sizeof *c->head / 4, segments = dataloop + layout->info.dataloop_bytes / 4;
    uint64_t second = segments + (uint64_t)count * words;
    uint64_t bytes = 4 * (second + (working ? (uint64_t)count * (words + 1) : 0));
    if (bytes > t->card_bytes) {
        char text[200];
        snprintf(text, sizeof text,
                 "the dataloop of %" PRIu32 " bytes and %" PRIu32 " segments take %" PRIu64
                 " bytes of card memory, and an entry may have %" PRIu32
                 "; take another strategy, or a type with fewer blocks",
                 layout->info.dataloop_bytes, count, bytes, t->card_bytes);
        return datatype_refuse(err, PTL_NO_SPACE, text);
    }
    c->bytes = (uint32_t)bytes;
    c->head = calloc(1, bytes);
    if (!c->head)
        return datatype_refuse(err, PTL_NO_SPACE, "no memory for what is copied to the card");
    *c->head = (struct datatype_state){
        .dataloop = (uint32_t)dataloop,
        .segments = (uint32_t)segments,
        .working = (uint32_t)second,
        .segment_words = words,
        .count = count,
        .interval = 1,
    };
    memcpy((uint32_t *)c->head + dataloop, layout->dataloop, layout->info.dataloop_bytes);
    return PTL_OK;
}
