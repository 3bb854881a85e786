/* The parts of the message layer: p2p.c has requests, sends and progress; p2p_card.c receives that
 * the card matches (Portals 4 and sPIN), p2p_processor.c those that the processor does (RDMA). */
#ifndef P2P_PRIVATE_H
#define P2P_PRIVATE_H

#include "p2p_layout.h"
#include "spinlib/p2p.h"

enum {
    BUFFERS = 4, /* of what comes unexpected, or, with RDMA, of all that comes */
    EARLY = 256, /* lists of what came early */
};

enum request_stage {
    WAITING,  /* in a queue, until the card has room */
    STARTED,  /* on the card, or in the processor's list */
    MATCHED,  /* a receive: its message is known */
    FINISHED, /* in the list of those that are done */
};

struct spin_p2p_request {
    struct spin_p2p_request *next, *before; /* in the queue or list it is in */
    uint32_t name;                          /* generation << 24 | index */
    uint8_t stage;
    bool is_send, cancelled;
    bool acked, fetched; /* a send: what has happened */
    bool again;          /* in that queue: its put, offer or get has to be repeated */
    bool first_here;     /* a receive of which the card fetches the rest, */
    bool rest_here;      /* and which of both have come */
    bool rest_failed;
    uint8_t *data;
    uint64_t bytes;        /* of the message, or room for it */
    uint32_t peer, tag;    /* as the caller said */
    uint64_t bits, ignore; /* to match */
    uint64_t have, size;   /* a receive: bytes that came with the message, of all that it has */
    uint32_t offer;        /* the sender's name of it */
    int32_t place;         /* of its state on the card, or -1 */
    ptl_handle_me_t entry;
    struct spin_p2p_status status;
};

struct request_list {
    struct spin_p2p_request *first, *last;
};

/* One that came, where the processor matches. */
struct arrival {
    struct arrival *next;
    uint32_t source;
    uint64_t bits, header, bytes;
    uint8_t *data;
};

struct variant {
    const char *name;
    bool by_processor, handlers;
};

struct spin_p2p {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq[2];        /* of what was begun here, and of what came */
    ptl_handle_md_t md, large_md; /* of all memory; the second's puts only say what failed */
    const struct variant *variant;
    uint32_t ranks, eager_bytes, depth;

    struct spin_p2p_request **chunk; /* of CHUNK requests each */
    uint32_t chunks;
    struct request_list free, done, sends, receives, again; /* `sends`, `receives`: that wait */
    uint32_t sending, receiving;                            /* from the card's start to their end */
    struct spin_p2p_counts counts;

    uint8_t *buffer[BUFFERS];
    uint64_t buffer_bytes, filled[BUFFERS]; /* of each; and up to where what came lies */
    ptl_handle_me_t buffer_entry[BUFFERS];

    /* The card matches. */
    ptl_handle_me_t last_resort;  /* takes the header of what has no room elsewhere */
    ptl_handle_ct_t unexpected;   /* messages that came before their receive */
    ptl_image_h image;            /* with handlers: */
    ptl_handler_t header_handler; /* and per receive that has one a place on the card */
    ptl_hpu_md_h *place;
    uint32_t *free_place, places_free, places;
    bool searching, found;
    struct spin_p2p_status seen;

    /* The processor matches. */
    uint16_t *next_sequence, *expected; /* per rank */
    struct request_list posted;
    /* Came before one that their rank sent before them; by the last bits of their number. */
    struct arrival *early[EARLY];
    struct arrival *unexpected_first, **unexpected_end;
    bool disabled; /* the card has refused messages */
};

/* ---- p2p.c ---- */

void p2p_add(struct request_list *list, struct spin_p2p_request *r);
void p2p_remove(struct request_list *list, struct spin_p2p_request *r);
struct spin_p2p_request *p2p_request_of(const struct spin_p2p *p2p, uint32_t name);
/* It is done; whoever waits finds it so. */
void p2p_finish(struct spin_p2p *p2p, struct spin_p2p_request *r, int code);
/* The message that it matches, of which so many bytes came along. */
void p2p_match(struct spin_p2p_request *r, uint32_t source, uint64_t bits, uint64_t header,
               uint64_t have);
/* All that it has room for is there. */
void p2p_received(struct spin_p2p *p2p, struct spin_p2p_request *r);
/* The processor gets the rest of its message, 0 bytes if there is no room: the sender waits. */
int p2p_get_rest(struct spin_p2p *p2p, struct spin_p2p_request *r);
/* Whatever has happened, or happens within so many milliseconds. */
int p2p_progress(struct spin_p2p *p2p, ptl_time_t timeout_ms);
/* A message has come that lies there, in one of the buffers. */
void p2p_buffered(struct spin_p2p *p2p, const uint8_t *data, uint64_t bytes);
/* The memory of messages that nobody waits for yet. */
int p2p_buffer_append(struct spin_p2p *p2p, int i, ptl_list_t list, unsigned int options);

/* ---- p2p_card.c ---- */

int card_open(struct spin_p2p *p2p);
void card_close(struct spin_p2p *p2p);
/* Messages that nobody has received, before the end. */
void card_forget_unexpected(struct spin_p2p *p2p);
/* PTL_NO_SPACE, PTL_LIST_TOO_LONG: later. */
int card_post(struct spin_p2p *p2p, struct spin_p2p_request *r);
int card_event(struct spin_p2p *p2p, const ptl_event_t *event);
/* False: a message has matched it. */
bool card_cancel(struct spin_p2p *p2p, struct spin_p2p_request *r);
int card_probe(struct spin_p2p *p2p, const struct spin_p2p_request *r, bool *found);
/* Until a message comes that nobody waits for, or some time has passed. */
int card_await(struct spin_p2p *p2p, uint64_t unexpected);

/* ---- p2p_processor.c ---- */

int processor_open(struct spin_p2p *p2p);
void processor_close(struct spin_p2p *p2p);
int processor_post(struct spin_p2p *p2p, struct spin_p2p_request *r);
int processor_event(struct spin_p2p *p2p, const ptl_event_t *event);
bool processor_probe(struct spin_p2p *p2p, const struct spin_p2p_request *r);
/* Takes messages again, after the card has refused some. */
int processor_enable(struct spin_p2p *p2p);

#endif
