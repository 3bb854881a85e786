/* The processor of a storage node: requests that bypass the card, with the card's own check, and
 * what the card says to its host. */
#ifndef STORE_NODE_HOST_H
#define STORE_NODE_HOST_H

#include "store_node_card.h"
#include "store_sums.h"

struct store_host_options {
    uint32_t most_bytes;  /* of a request's data that may come; 0: a MiB */
    uint32_t queue_bytes; /* of each of two queues; 0: for four such requests */
    uint32_t sum_bytes;   /* of each of two queues for parts of parities; 0: a MiB */
    /* Makes these bytes of the medium durable; not 0: they are not. Only if the node is by_file. */
    int (*flush)(void *user, uint64_t first, uint64_t bytes);
    /* The rest of a request did not come; or NULL. */
    void (*cleaned)(void *user, const struct storage_notice *notice);
    void *user;
};

enum { STORE_HOST_QUEUES = 6 }; /* two of requests, of notices, of parts of parities */

struct store_node_host {
    struct store_node_card *card;
    uint8_t *medium;
    struct store_host_options options;
    struct store_host_queue {
        uint8_t *memory;
        uint64_t bytes, min_free;
        ptl_match_bits_t bits, ignore;
        struct spin_linked entry;
    } queue[STORE_HOST_QUEUES];
    ptl_handle_md_t md; /* of all memory */
    ptl_handle_ct_t sent;
    uint64_t sends;
    struct store_sums *sums;      /* of parities, that the card cannot make */
    uint32_t pieces, most_pieces; /* taken, of which the card has not been told; to tell it */
    uint32_t taken, most_taken;   /* likewise, of its room for requests */
    uint64_t requests;            /* that it carried out or refused */
    uint64_t broken_off;          /* whose rest has not come */
};

/* The medium is that of the card; events of the queues go to the event queue of the card's portal
 * table entry. */
int store_node_host_open(struct store_node_card *card, void *medium,
                         const struct store_host_options *options, struct store_node_host *host);
/* Before the card is closed. Nothing for one that is all zero. */
void store_node_host_close(struct store_node_host *host);

/* Whether an event is one of the host's queues: then it does what there is to do. */
bool store_node_host_event(struct store_node_host *host, const ptl_event_t *event, int *code);

#endif
