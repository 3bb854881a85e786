/* The card of a storage node, as its host opens it: card memory, the entry for requests, whose
 * memory is the medium, and the one through which the host tells the card something. */
#ifndef STORE_NODE_CARD_H
#define STORE_NODE_CARD_H

#include "spinlib/spinlib.h"

#include "storage_state.h"

struct store_node_options {
    void *medium;          /* of `blocks` blocks, and STORAGE_HEAD bytes behind them */
    uint32_t blocks;       /* fewer than 2^20 */
    uint32_t slots;        /* requests at a time; 0: 4096 */
    uint32_t swap;         /* more of them in L2, up to STORAGE_SWAP_SLOTS, of one node per card */
    uint32_t windows;      /* clients, a power of two; 0: 256 */
    uint32_t bypass;       /* so many of the slots are for requests that go to the host */
    uint32_t accumulators; /* for sums of parities, of a packet each; 0: 128 */
    uint32_t writes;       /* parities at a time; 0: 256 */
    uint32_t oldest;       /* seconds after which a parity that lacks a part is given up; 0: 30 */
    uint64_t cleanup_ns;   /* silence after which a request is given up; 0: a second */
    enum storage_trust trust;
    bool by_file;              /* the host flushes and answers (STORAGE_NOTICE) */
    uint32_t now;              /* by the clock of the store */
    struct storage_key key[2]; /* in any order; generation 0: none */
    /* For tests: from this run of a handler on, counted from 1, the card does nothing; 0: never. */
    uint32_t dies_after;
};

struct store_node_card {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    uint32_t rank;
    ptl_image_h image;
    ptl_hpu_md_h memory;
    struct storage_node node; /* what the card knows */
    struct spin_linked requests, more, control;
    bool swap;          /* it has the card's table in L2 */
    ptl_handle_md_t md; /* of all memory */
    ptl_handle_ct_t told;
    uint64_t tells;
    struct storage_control *saying;
    struct storage_counts *counts; /* as of the last report */
    uint32_t oldest;
    uint64_t cleanup_ns;
};

int store_node_card_open(ptl_handle_ni_t ni, ptl_pt_index_t pt, const struct store_node_options *o,
                         struct store_node_card *card);
/* Nothing for one that is all zero. */
void store_node_card_close(struct store_node_card *card);

/* Writes card memory, and returns when that is done. */
int store_node_card_tell(struct store_node_card *card, const struct storage_control *what);
/* The same, in words. */
int store_node_card_clock(struct store_node_card *card, uint32_t now);
/* Makes `key` the current one; the one before it is valid until `previous_ends`. */
int store_node_card_key(struct store_node_card *card, const struct storage_key *key,
                        uint32_t previous_ends);
/* Reads the counts. */
int store_node_card_report(struct store_node_card *card, struct storage_counts *counts);

#endif
