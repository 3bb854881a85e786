/* Blocks: how puts and replies travel between host memories whose pages may be absent
 * (nic_config.block_bytes; docs/nic.md has the states of a block).
 *
 * The message is announced by a first packet without data, which is matched in order. Its data
 * follows in blocks of a fixed size, each of up to 64 packets, and at most blocks_outstanding under
 * way. The receiver reports of each block that it is in host memory, or why not; the sender reads a
 * block from host memory again and sends it anew, with a higher transmission number, when it is
 * asked to (ERR, corrupt) or when nothing was reported in time. Packets and reports go through
 * delivery.h like all others, so each arrives once even on a network that loses them. */
#ifndef SPIN_NIC_NIC_BLOCK_H
#define SPIN_NIC_NIC_BLOCK_H

#include <stddef.h>

#include "base/pool.h"
#include "nic/nic.h"
#include "nic/timers.h"

#define NIC_BLOCKS_MAX    8
#define NIC_BLOCK_PACKETS 64 /* one bit each */
#define NIC_BLOCK_SPAN    64 /* no block is sent so far beyond the oldest unacknowledged one */

struct nic_peer;
struct nic_outgoing;
struct nic_incoming;
struct nic_departure;

/* Of what waits for a page: in a list of the card's. */
struct nic_page_wait {
    struct nic_page_wait *next, **link; /* NULL: it does not wait */
};

static inline void nic_page_wait(struct nic_page_wait **list, struct nic_page_wait *w) {
    if (w->link)
        return;
    *w = (struct nic_page_wait){*list, list};
    if (w->next)
        w->next->link = &w->next;
    *list = w;
}

static inline void nic_page_wait_over(struct nic_page_wait *w) {
    if (!w->link)
        return;
    *w->link = w->next;
    if (w->next)
        w->next->link = w->link;
    w->link = NULL;
}

/* A block under way, at its sender. A packet of it is unsent, waits for its page, is being fetched,
 * or has left. */
struct nic_block_out {
    struct timer timeout; /* set: all packets have left */
    struct nic_transfer *transfer;
    bool used;
    bool patient; /* the receiver will ask for it: no timeout */
    uint32_t block, transmission;
    uint32_t fetching;   /* packets of this transmission */
    uint64_t unsent;     /* packets, a bit each */
    uint64_t absent;     /* whose pages are absent */
    uint64_t unreadable; /* whose pages will never be there */
};

/* A message in blocks, at its sender, until all are acknowledged. */
struct nic_transfer {
    struct pool_slot slot;
    struct nic_page_wait waiting;
    struct nic_outgoing *outgoing;
    uint32_t block_bytes, packet_bytes, blocks;
    uint32_t next;      /* block that was never sent */
    uint32_t oldest;    /* that is not acknowledged, */
    uint64_t whole;     /* and oldest + i is where bit i is set */
    uint32_t under_way; /* blocks */
    uint32_t fetching;  /* packets, of any transmission */
    bool ready;         /* in the list of its peer */
    bool answered;      /* and told when nothing is being fetched: by */
    struct nic_message answer;
    struct nic_transfer *next_ready;
    struct nic_block_out block[NIC_BLOCKS_MAX];
};

/* A block that has begun to arrive and is not whole. */
struct nic_block_in {
    bool used;
    bool error;   /* some of its memory, here or at its source, cannot be used */
    bool hurried; /* it was asked for before its pages were there */
    bool patient; /* its sender was told of a fault in this transmission, and waits for an ERR */
    bool wanted;  /* pages that were absent are there now: it has to come again */
    uint32_t block, transmission;
    uint32_t complained; /* the last transmission that had a negative report */
    uint32_t moves;      /* pending */
    uint32_t bytes;      /* of packets that are here, */
    uint64_t got;        /* a bit each */
    uint64_t absent;     /* packets whose pages are absent: they were dropped */
};

/* A message in blocks, at its receiver, until all have arrived. */
struct nic_assembly {
    struct pool_slot slot;
    struct nic_page_wait waiting;
    struct nic_incoming *incoming;
    uint64_t transfer;
    uint32_t block_bytes, packet_bytes;
    uint32_t oldest; /* that is not whole, */
    uint64_t whole;  /* and oldest + i is where bit i is set */
    struct nic_block_in block[NIC_BLOCKS_MAX];
};

/* A report that waits to be sent. */
struct nic_report_out {
    struct pool_slot slot;
    struct nic_block_tag tag;
    struct nic_report_out *next;
};

/* All of a card. */
struct nic_blocks {
    struct timers timeouts; /* first: it is looked at after every call */
    struct pool transfers, assemblies, reports;
    struct nic_page_wait *waiting_out, *waiting_in; /* transfers, assemblies */
};

void nic_block_init(struct nic *nic);
void nic_block_clear(struct nic *nic);

/* Sending: nic_block_send.c. */

/* Is this message to travel in blocks? */
bool nic_block_wanted(const struct nic *nic, const struct nic_outgoing *o);
/* Its first packet is about to be made; false: no memory. */
bool nic_block_begin(struct nic *nic, struct nic_outgoing *o);
/* Its first packet has its number: blocks may follow. */
void nic_block_announced(struct nic *nic, struct nic_outgoing *o);
/* The first transfer that is ready and of a reply; NULL: none. */
struct nic_transfer *nic_block_ready_answer(const struct nic_peer *peer);
/* A packet of a transfer that is ready; false: no memory. */
bool nic_block_send(struct nic *nic, struct nic_peer *peer, struct nic_transfer *t);
void nic_block_fetched(struct nic *nic, struct nic_departure *d);
void nic_block_returned(struct nic *nic, struct nic_transfer *t); /* a packet that was lent */
/* Its acknowledgement by Portals is in, and says that all blocks have arrived, maybe before their
 * reports. False: what is being fetched from its memory comes first, and it is told then. */
bool nic_block_answered(struct nic *nic, struct nic_outgoing *o, const struct nic_message *answer);
/* It will never be sent. */
void nic_block_drop(struct nic *nic, struct nic_outgoing *o);
void nic_block_reported(struct nic *nic, struct nic_peer *peer, const struct nic_packet *packet);
bool nic_block_send_report(struct nic *nic, struct nic_peer *peer);
void nic_block_report(struct nic *nic, struct nic_peer *peer, const struct nic_block_tag *of,
                      enum nic_report what);
void nic_block_source_in(struct nic *nic, const struct nic_pages *pages);
struct nic_extent nic_block_source_extent(struct nic *nic, const struct nic_move *move);
void nic_block_tick(struct nic *nic);
void nic_block_lost(struct nic *nic, struct nic_peer *peer);

/* Receiving: nic_block_receive.c. */

void nic_block_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet);
/* A move of a packet stays pending; it has ended, with an error or not, but is not absent. */
void nic_block_move_later(struct nic_incoming *in, const struct nic_packet *packet);
void nic_block_moved(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet);
void nic_block_failed(struct nic_incoming *in, const struct nic_packet *packet);
/* A move of a packet has met an absent page. */
void nic_block_absent(struct nic *nic, struct nic_incoming *in, const struct nic_packet *packet);
/* What was held is no longer. */
void nic_block_settle(struct nic *nic, struct nic_incoming *in);
/* The rest of the message is not wanted. */
void nic_block_end(struct nic *nic, struct nic_incoming *in);
void nic_block_target_in(struct nic *nic, const struct nic_pages *pages);
struct nic_extent nic_block_target_extent(struct nic *nic, const struct nic_move *move);

/* nic_page.c: does a packet wait for one of the pages? It has `bytes` of `out`, or of `in`, from
 * `offset` on; what is nobody's memory any more waits for nothing, and may go on as well. */
bool nic_page_meets(struct nic *nic, const struct nic_pages *pages, const struct nic_outgoing *out,
                    const struct nic_incoming *in, uint64_t offset, uint64_t bytes);

/* Which bytes of a message a block has. */
static inline uint32_t nic_block_length(uint32_t block, uint32_t block_bytes, uint64_t payload) {
    uint64_t begin = (uint64_t)block * block_bytes, left = payload > begin ? payload - begin : 0;
    return left < block_bytes ? (uint32_t)left : block_bytes;
}

/* Of a move whose data is at `from` in its message: `piece` is what lies there in one piece. */
static inline struct nic_extent nic_block_extent(const struct nic_move *move, uint64_t from,
                                                 uint64_t piece) {
    const struct nic_block_tag *tag = &move->packet->tag;
    uint64_t left = (uint64_t)(tag->block + 1ull) * tag->block_bytes - from;
    return (struct nic_extent){
        .block = tag->block, .block_bytes = left < piece ? left : piece, .transfer_bytes = piece};
}

#endif
