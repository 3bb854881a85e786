/* What receives and sends share. */
#ifndef DATATYPE_HOST_H
#define DATATYPE_HOST_H

#include "datatype_card.h"
#include "datatype_layout.h"

struct spin_types {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_image_h image;
    uint32_t card_bytes;              /* most memory of an entry */
    uint32_t sends;                   /* opened so far */
    uint32_t piece;                   /* bytes of data, that a packet has room for with a head */
    uint8_t scratch[DATATYPE_PACKET]; /* what entries are long whose data goes elsewhere */
};

/* The state of an entry as it is copied to the card. */
struct card_state {
    struct datatype_state *head;
    uint32_t bytes;
};

/* With the dataloop and room for `count` segments; with `working` for as many again, and a lock
 * before each. */
int datatype_make_state(const struct spin_types *t, const struct spin_layout *layout,
                        uint32_t count, bool working, struct card_state *c, struct spin_error *err);

/* Returns `code`, after writing `text`. */
int datatype_refuse(struct spin_error *err, int code, const char *text);

static inline uint64_t datatype_pieces(const struct spin_types *t,
                                       const struct spin_layout *layout) {
    return (layout->info.size + t->piece - 1) / t->piece;
}

/* What the host takes, in worlds, to pack or unpack so many bytes: a load and a store of 8 bytes
 * per cycle, 10 cycles per region. */
static inline void datatype_charge_copy(const struct spin_layout *layout, uint64_t bytes) {
    uint64_t regions = layout->info.size ? layout->info.regions * bytes / layout->info.size : 0;
    spin_work(bytes / 8 + regions * 10, 2 * bytes);
}

#endif
