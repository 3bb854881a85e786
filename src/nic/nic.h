/* The card's logic, with no clock, no thread and no socket in it: packets, reliable delivery,
 * messages, handlers and their commands, Portals (portals.h). It is given packets, the host's
 * calls, results and `now`; what it needs of its surroundings it asks of a driver, which does it at
 * once or says later how it ended. Simulated and live cards are its drivers.
 *
 *     nic_packet_in(nic, packet, now);     a packet has arrived and was looked up
 *     nic_progress(nic, now);              after every call of this file and of Portals
 *     nic_moved, nic_left, nic_handler_done   what was pending has ended
 *     nic_deadline(nic)                    when nic_tick wants to be called
 *
 * One nic serves one process (nid, pid). Nothing here allocates for a packet: packets, messages and
 * tasks come from pools that grow to what is in flight; a message that is whole in one packet, and
 * whose driver does everything at once, has no record at all. docs/nic.md explains. */
#ifndef SPIN_NIC_NIC_H
#define SPIN_NIC_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "hpu/port.h"
#include "nic/message.h"
#include "nic/portals.h"
#include "openspin.h"

enum nic_packet_kind {
    NIC_DATA,
    NIC_RECEIPT, /* acknowledges packets, carries nothing */
    NIC_PROBE,   /* asks for a receipt: is the peer alive? */
    NIC_BLOCK,   /* data of a block: see struct nic_block_tag */
    NIC_REPORT,  /* what became of a block */
};

/* What a receiver says of a block. */
enum nic_report {
    NIC_BLOCK_ACK,     /* it is in host memory */
    NIC_BLOCK_FAULT,   /* negative: a page of it was absent; an ERR follows */
    NIC_BLOCK_CORRUPT, /* negative: some of it arrived damaged; send it again */
    NIC_BLOCK_ERROR,   /* it has arrived, but its memory cannot be used */
    NIC_BLOCK_ERR,     /* explicit retransmission request: the pages are there now */
};

/* Of a packet of kind NIC_BLOCK or NIC_REPORT. */
struct nic_block_tag {
    uint64_t transfer;     /* its sender's number for it, which reports bring back */
    uint32_t block;        /* of the transfer, from 0 */
    uint32_t transmission; /* of this block, from 1: older ones are dropped */
    uint32_t block_bytes;  /* of all blocks of the transfer but the last; report: 0 */
    uint8_t place;         /* of the packet in its block; report: enum nic_report. A packet of more
                              than the MTU has those of all packets that it stands for */
    bool corrupt;          /* the receiving driver says so: its data is damaged, its header is not.
                              Other kinds of packets it drops then */
};

/* A packet. It is lent to whoever is called with it; who needs it afterwards keeps it
 * (nic_packet_keep), and nobody but its maker writes to it. References are counted: the sender's
 * copy for retransmission is the one in flight. One without references is on its maker's stack or
 * in a transport's own memory, and keeping it makes a copy. */
struct nic_packet {
    uint32_t references; /* 0: see above */
    uint8_t kind;
    bool first, last; /* of its message */
    bool bad;         /* its data could not be read at the source */
    struct nic_address source, target;
    /* Reliable delivery; 0 where the network is reliable. A stream is all that a source sends to a
     * target until one of them gives the other up; it begins with sequence 0, message 0. */
    uint32_t stream, sequence;
    uint32_t ack_stream, ack; /* every packet of that stream of the other direction below `ack` is
                                 here, */
    uint64_t sack;            /* and ack + 1 + i where bit i is set */
    uint16_t credit;          /* 0, or 1 + how many packets beyond `ack` its source takes */
    bool prompt;              /* acknowledge it at once */
    uint8_t run;              /* on its way out, in place (nic_driver.in_place): so many packets are
                                 one, all but the last of `each` bytes; else 0 */
    uint32_t message_number;  /* of the source's messages to this target; of its reports */
    uint64_t offset;          /* of its data in the message */
    uint32_t bytes;           /* of data */
    uint32_t each;
    union {
        struct nic_message message; /* of the first packet */
        struct nic_block_tag tag;   /* of a block or report, which is none */
    };
    uint8_t *data;             /* room for the MTU, where it comes from a pool */
    struct nic_pool *pool;     /* where it, or a copy of it, comes from and goes back to */
    struct nic_packet *next;   /* of whoever holds it */
    struct nic_packet *lender; /* whose data it has, and keeps; NULL: its own */
    uint32_t place;            /* the driver's own */
};

/* Before the data of a packet of a pool: free for whoever alone holds the packet. */
#define NIC_PACKET_HEADROOM 64

/* Packets, shared by the cards of one driver: what one sends, another releases. The pool is the
 * driver's. One thread at a time uses it, its owner, unless it is shared. */
struct nic_pool;
int nic_pool_new(struct nic_pool **out, uint32_t mtu_bytes, struct spin_error *err);
void nic_pool_free(struct nic_pool *pool); /* after all cards */
/* Told of every packet that goes back to it, by the thread that releases it: its memory may be
 * scarce. */
void nic_pool_watch(struct nic_pool *pool, void (*back)(void *context, struct nic_packet *packet),
                    void *context);
/* Before the first packet: any thread may keep and release packets of this pool from now on. New
 * ones, and copies of packets without references, are still made by one thread at a time. */
void nic_pool_share(struct nic_pool *pool);
/* Before the first packet: packets are made in that zone. */
void nic_pool_in(struct nic_pool *pool, struct zone *zone);
/* How many packets are in use: 0 when nothing is in flight. */
uint64_t nic_pool_used(const struct nic_pool *pool);

/* Zeroed but for data and message; one reference. NULL: no memory. */
struct nic_packet *nic_packet_new(struct nic_pool *pool);
/* The same, with the data of another that nobody writes to any more; it has no headroom. NULL: no
 * memory, or a pool that is shared or watched. */
struct nic_packet *nic_packet_borrow(struct nic_packet *lender, uint8_t *data);
/* One of its own with the same contents; NULL: no memory. */
struct nic_packet *nic_packet_copy(const struct nic_packet *packet);
/* The packet with a reference more, or a copy of it; NULL: no memory. */
struct nic_packet *nic_packet_keep(struct nic_packet *packet);
void nic_packet_release(struct nic_packet *packet);
/* How many packets it stands for. */
static inline uint32_t nic_packet_count(const struct nic_packet *packet) {
    return packet->run ? packet->run : 1;
}
/* A packet of a run, the `i`-th, as a run of its own; NULL: no memory. */
struct nic_packet *nic_packet_single(const struct nic_packet *run, uint32_t i);
/* Of a run of one: its data could not be read. */
void nic_packet_blank(struct nic_packet *packet);

/* As flow.h and spin_image.h number them. */
enum nic_handler_kind {
    NIC_HEADER_HANDLER = SPIN_HEADER_HANDLER,
    NIC_PAYLOAD_HANDLER = SPIN_PAYLOAD_HANDLER,
    NIC_COMPLETION_HANDLER = SPIN_COMPLETION_HANDLER,
    NIC_CLEANUP_HANDLER = SPIN_CLEANUP_HANDLER
};

/* A handler to be run. It ends by nic_handler_done. */
struct nic_task {
    void *driver;    /* the driver's own */
    uint64_t number; /* for nic_handler_done, to be noted when it is to be run: this memory will be
                        another task's, with another number (until it has had 2^32 of them) */
    uint8_t kind;
    uint32_t entry;
    uint32_t message_id; /* the same for all handlers of a message: for traces */
    const struct portals_handlers *handlers; /* image, HPU memory */
    const struct nic_message *message;       /* fields for ptl_header_t */
    uint64_t me_offset;
    struct nic_packet *packet; /* that it is called for; NULL: for the whole message */
    const uint8_t *data;       /* user header; the packet's payload */
    bool owns_data;            /* nobody else will look at it, nor at the headroom before it */
    bool may_share;            /* it may be used as it is by who only reads it, and then */
    bool reads_only;           /* the driver says so: what is sent from there is not copied */
    uint32_t bytes, user_hdr_bytes;
    uint64_t offset; /* of the payload in the message */
    uint32_t dropped_bytes;
    bool flow_control_triggered;
};

/* ---- What a card asks of its surroundings ---- */

enum nic_status {
    NIC_DONE,
    NIC_PENDING, /* it ends later, with one of the others */
    NIC_BUSY,    /* of `send`: pending, and nothing more to this peer before nic_peer_room */
    /* Of a move: a page fault. The page is not there now; nic_paged_in will say when it is, and
     * until then every move that meets it is absent. Nothing was moved, the driver keeps nothing of
     * it: the card repeats the move, or has the data sent again. Not of `send`: where pages can be
     * absent gather_bytes is 0, or the driver has `present`. */
    NIC_ABSENT,
    NIC_FAULT, /* that host memory is not there, or not to be used so */
    NIC_GONE,  /* nobody will ever do it */
};

/* Reads, writes and atomics of host memory up to this size are done in the order in which they were
 * asked for where they overlap: what Portals promises by max_war_ordered_size and
 * max_waw_ordered_size. */
#define NIC_ORDERED_BYTES 64

enum nic_move_kind {
    NIC_FETCH,          /* from `host` memory to the card's `local` */
    NIC_STORE,          /* from `local` to `host` */
    NIC_ATOMIC_ON_HOST, /* there and back; the card performs it when it is told that it is done */
};

/* A use of host memory. Nothing else touches it. A driver that cannot do it at once calls
 * nic_move_later, keeps what that gives it, and hands it to nic_moved at the end. */
struct nic_move {
    uint8_t kind;
    bool from_handler; /* a handler's own, of `task`: for priorities and statistics */
    bool on_card;      /* `host` is the card's own: a copy of volatile data, or HPU memory */
    bool kept;         /* the card's own: it is repeated, and what it refers to is a record */
    uint32_t local_at; /* a handler's own: the address that it gave for `local`, 0: none */
    uint8_t *host, *local;
    uint64_t bytes;
    struct nic_task *task;
    struct nic_packet *packet; /* whose data it moves, or NULL */
    /* The card's own. */
    uint8_t purpose;
    uint32_t pending, generation; /* what is under way has a place, which is another's after it */
    void *record;
};

/* What else a move that met an absent page belongs to, for a driver that pages in more than that:
 * from `host` on so many bytes, in one piece of memory, are of the same block and of the same
 * transfer. Of a move that is not in a block both are its own bytes. */
struct nic_extent {
    uint64_t transfer; /* the same for all moves of a transfer on this card; 0: it has no blocks */
    uint32_t block;    /* of the transfer, from 0 */
    uint64_t block_bytes, transfer_bytes;
};

/* When a receiver asks for a block again (ERR, an explicit retransmission request) whose pages
 * were absent. */
enum nic_err_policy {
    NIC_ERR_LATE,      /* after all pages of a page-in */
    NIC_ERR_PER_BLOCK, /* as soon as the pages of this block are there */
    NIC_ERR_EARLY,     /* at once; and as per block if they are still absent when it comes again */
};

/* A packet that leaves. A driver that cannot send it at once calls nic_leaves_later, keeps what
 * that gives it, and hands it to nic_left at the end. */
struct nic_departed {
    bool from_handler;
    uint32_t local_at;     /* with `task`: the address of the data, as its command says; 0: none */
    struct nic_task *task; /* in `send` only: the handler whose command it is, which still runs */
    uint32_t sequence;
    uint32_t pending; /* the card's own, as of a move */
    uint64_t transmission;
    struct nic_peer *peer;
    uint32_t generation;
    uint32_t more;   /* packets of a run, behind the first */
    uint64_t lent;   /* 0, or of a packet that is lent (see `lends`): whose memory it is */
    bool unreadable; /* the driver's, in nic_left: that memory was not there */
};

#define NIC_SHORT_BYTES 4096u /* of data in a put that may go without a packet */

/* Functions of a driver. They are called from inside the card's, and call none of it but
 * nic_move_later, nic_leaves_later and the functions of packets. */
struct nic_driver {
    /* Lends a packet of the wire, for the card to write a small message into; NULL: there is none
     * now, and the message waits. It is one without references in the driver's own memory (or,
     * where gather_bytes is 0, one of the pool), and the card sends it next, if at all: the next
     * call may lend the same. In `send` its `data` is where the data comes from. The function
     * may be NULL: then the card has such a packet of its own. */
    struct nic_packet *(*slot)(void *context, struct nic_address target);
    /* Onto the wire. The packet is lent; `how` is for nic_leaves_later, where it leaves later. */
    enum nic_status (*send)(void *context, struct nic_packet *packet,
                            const struct nic_departed *how);
    /* The same of a small put (NIC_SHORT_BYTES) or acknowledgement that is one packet, of this
     * number, without one being made. False: it has not left, and goes by `send`. NULL: none goes
     * so. */
    bool (*send_short)(void *context, const struct nic_message *message, uint32_t number,
                       const uint8_t *data);
    /* NIC_DONE: what moves is moved, an atomic may be performed. */
    enum nic_status (*move)(void *context, struct nic_move *move);
    /* Lets `user` use host memory of which `move` has said that an atomic may be performed there.
     * False: it is gone since, and a part may have been done. NULL: it does not go. */
    bool (*use)(void *context, uint8_t *host, uint64_t bytes, nic_user *user, void *argument);
    /* On any HPU. It ends by nic_handler_done. */
    void (*run)(void *context, struct nic_task *task);
    /* A handler that was told to wait shall try again. */
    void (*resume)(void *context, struct nic_task *task);
    /* An event or a counter of the host's has changed. */
    void (*raise)(void *context);
    /* PtlNIInit asks for this pid: may the process have it from now on? NULL: its own alone. */
    bool (*take_pid)(void *context, uint32_t pid);
    /* Does the network to this peer lose nothing? Asked once, when the card first meets it; NULL:
     * nic_config.reliable holds for all. */
    bool (*reliable)(void *context, struct nic_address peer);
    /* Packets that it threw away because they were none of the job's, or not whole. NULL: none. */
    uint64_t (*refused)(void *context);
    /* How much data a packet to this peer has, at most; asked once, like `reliable`. NULL:
     * nic_config.mtu_bytes. Data that a handler sends from HPU memory stays one packet. */
    uint32_t (*packet_bytes)(void *context, struct nic_address peer);
    /* Whether packets to this target may be *lent*: one of more than the MTU, behind the first of a
     * large put or reply, whose `data` is the program's own memory until nic_left. NULL: none. If
     * it cannot be read, `send` says NIC_FAULT, having sent zeroes as bad packets. */
    bool (*lends)(void *context, struct nic_address target);
    /* How many bytes to this target, to which the network is not reliable, may be sent at once from
     * where they lie in the program's memory, behind the first packet of a put or reply of that
     * `payload`: a *run* of packets, of which each is acknowledged by itself; until then its memory
     * is the card's. `send` has done with the data when the next packet comes in, and is never
     * pending. If it cannot be read, a run of one is sent as zeroes (nic_packet_blank), a longer
     * one is not sent, and comes again as single packets; both are NIC_FAULT. NULL or 0: data is
     * copied. */
    uint32_t (*in_place)(void *context, struct nic_address target, uint64_t payload);
    /* How many of these bytes of host memory, from the first on, are there: asked before `send`
     * takes data from there by itself, of a small message or of one that is lent. What is absent
     * goes through `move`. NULL: all. */
    uint64_t (*present)(void *context, const uint8_t *host, uint64_t bytes);
    /* The data of a small put, which is no packet (nic_put_in), to host memory. False: it has to
     * come as a packet, and goes through `move`. NULL: it is copied, and comes so if that cannot
     * be done (guarded_copy.h). */
    bool (*store_short)(void *context, uint8_t *host, const uint8_t *data, uint64_t bytes);
    /* The card waits for something to happen in time, though its network is reliable: what time it
     * is, which it is to be told from now on. NULL: it always is. */
    uint64_t (*now)(void *context);
    /* More than `peer_requests` of the config wait for their turn to this peer, and another has
     * just joined them; or half of them at most do again: who makes them may wait meanwhile. */
    void (*full)(void *context, struct nic_address peer, bool full);
};

struct nic_config {
    /* What most calls use: a line of a cache. */
    const struct nic_driver *driver;
    void *context; /* of its functions */
    struct nic_pool *pool;
    struct nic_address address;
    uint32_t mtu_bytes;     /* of data in a packet: a multiple of 64, at most the pool's */
    bool reliable, ordered; /* what the network already gives; reliable: no acknowledgements */
    bool own_packets;       /* what arrives is no longer its sender's */
    uint32_t contexts; /* handlers queued or running; more triggers flow control; 0: no limit */
    uint32_t handler_packets; /* of handlers, waiting to leave: more makes them wait; 0: no limit */
    uint32_t handler_messages; /* likewise, messages from and to host memory that are not over */
    uint32_t send_packets;     /* being fetched or waiting to leave; 0: 32 */
    uint32_t turn_packets;     /* of a message, then it is another peer's turn; 0: 1 */
    /* The rest. `send` takes the data of a packet from host memory by itself, up to so many bytes:
     * such a message is sent without a copy on the card. */
    uint32_t gather_bytes;
    struct zone *zone;     /* of its records, to outlive it; NULL: malloc */
    uint32_t units_per_ns; /* of the driver's time; 0: 1 */
    /* As `retries`, of a peer of which nothing says that it has ended (nic_peer_refused): it may be
     * slow, or the network down for a while. 0: `retries`. */
    uint32_t silent_retries;
    uint64_t retry_time; /* in the driver's unit of time: longer than there and back */
    /* Not 0: round trips are measured, and retry_time is what holds before the first; it will not
     * be less than this. The window grows to window_packets while nothing is lost (congestion.h).
     */
    uint64_t least_retry_time;
    uint64_t most_retry_time; /* nor more, doubled after failures; 0: no limit */
    uint64_t receipt_time;    /* packets may be acknowledged so much later; 0: at once */
    uint32_t credit_packets;  /* of all peers together, that may wait here; 0: no limit */
    uint32_t retries;         /* then the peer is given up: its messages are undeliverable */
    uint32_t window_packets;  /* on the way to one peer, 1 to 4096; 0: 64 */
    uint32_t stream;          /* higher than in an earlier life of this process */
    /* Host memory whose pages may be absent (docs/nic.md): puts and replies with data in host
     * memory travel in blocks, each acknowledged, and repeated alone. */
    uint32_t block_bytes;        /* at most 64 packets; 0: there are no blocks */
    uint32_t unblocked_bytes;    /* messages of so many bytes or less have none; 0: 64 */
    uint32_t blocks_outstanding; /* of a transfer, at most 8; 0: 2 */
    uint64_t block_timeout;      /* a block that is not acknowledged is sent again; 0: it is not */
    bool fault_ends_timeout;     /* nor is one of which the receiver has said that a page is absent:
                                    it waits for the ERR */
    uint8_t err_policy;          /* enum nic_err_policy */
    /* Copied, but for the address; NULL: portals_config_default. */
    const struct portals_config *portals;
    uint32_t peer_requests; /* that wait for their turn: then `full`; 0: no limit */
};

struct nic;

int nic_new(struct nic **out, const struct nic_config *config, struct spin_error *err);
void nic_free(struct nic *nic);
struct portals *nic_portals(struct nic *nic);
/* For a driver of many: it will be called soon; `progress`, by nic_progress and little else. */
void nic_prefetch(const struct nic *nic);
void nic_prefetch_progress(const struct nic *nic);
void nic_prefetch_task(const struct nic_task *task); /* one of its handlers has ended, */
void nic_prefetch_move(const struct nic_move *move); /* or a move */
/* And when that is there: what belongs to the handler. */
void nic_prefetch_message(const struct nic_task *task);
/* A packet will come, in four steps. */
void nic_prefetch_interface(const struct nic *nic);
void nic_prefetch_table(const struct nic *nic);
void nic_prefetch_bucket(const struct nic *nic, const struct nic_packet *packet);
void nic_prefetch_match(const struct nic *nic, const struct nic_packet *packet);

/* The packet is lent. */
void nic_packet_in(struct nic *nic, struct nic_packet *packet, uint64_t now);
/* A small put that is one packet, likewise, without a packet: from a driver whose `move` would copy
 * its data and no more. False: nothing has happened, and it is for nic_packet_in. The driver keeps
 * the last one of each peer; `same`: the message says the same as then, but for hdr_data and
 * initiator, so that what it has met is known. */
struct nic_put {
    struct nic_message message;
    struct portals_plain at; /* what it met, */
    bool known;              /* if that was looked for */
};
bool nic_put_in(struct nic *nic, struct nic_put *put, bool same, uint32_t number,
                const uint8_t *data, uint64_t now);
/* What becomes of a packet that is larger than the MTU. NIC_REST_WHOLE: it can be given to
 * nic_packet_in as it is; its data is used by `move`, which has to do it at once (of a block, or
 * say that a page is absent), and by nothing else: so it may be another process's. */
enum nic_rest {
    NIC_REST_WRONG, /* it is not of a message that has begun, or does not fit into it */
    NIC_REST_WHOLE,
    NIC_REST_PACKETS, /* it has to come in pieces of the MTU; of a block, each with its place */
};
enum nic_rest nic_rest(struct nic *nic, const struct nic_packet *packet);
/* Whether nic_progress or, whatever the time is, nic_tick may have something to do. */
bool nic_has_work(const struct nic *nic);
/* Sends what waits to be sent. */
void nic_progress(struct nic *nic, uint64_t now);
/* From a driver's `move`: what it keeps until then; false: no memory, and the move is a fault. */
bool nic_move_later(struct nic *nic, const struct nic_move *move, struct nic_move *later);
/* What was pending has ended. Each of nic_moved, nic_left and nic_handler_done is told once; what
 * is told again, however late and whatever is under way by then, changes nothing. */
void nic_moved(struct nic *nic, struct nic_move *later, enum nic_status how, uint64_t now);
/* From `move`, or before nic_moved(..., NIC_ABSENT): what the move belongs to. */
struct nic_extent nic_move_extent(struct nic *nic, const struct nic_move *move);
/* Pages that were absent when a move met them, and more if the driver likes. */
struct nic_pages {
    const uint8_t *host;
    uint64_t bytes;
    bool more;   /* the page-in that they are of goes on: at its end all of it is said once more */
    bool failed; /* they will never be there: what waits for them ends as NIC_FAULT does */
};
/* They are there now. Everything that waits for them goes on: moves are repeated, blocks are sent,
 * or asked for. Called by whoever else calls the card, like nic_moved, and for any page that a move
 * has met as absent sooner or later; more often does no harm. */
void nic_paged_in(struct nic *nic, const struct nic_pages *pages, uint64_t now);
/* Moves that wait on the card for a page, each with a packet: who takes packets from a network can
 * see to it that they are not too many. */
uint32_t nic_parked(const struct nic *nic);
/* A driver that ends first: the packet of a move that will not end. */
void nic_move_forget(struct nic_move *later);
/* From a driver's `send`, likewise; false: no memory. It has left at once then, or is a fault. */
bool nic_leaves_later(struct nic *nic, const struct nic_departed *how, struct nic_departed *later);
/* From `send`, too: it has left at once after all, or is a fault. */
void nic_leaves_now(struct nic *nic, const struct nic_departed *later);
void nic_left(struct nic *nic, const struct nic_departed *how, uint64_t now);
/* There is memory for an answer, to be sent later too, and from now on what programs ask for leaves
 * it that; false: not now. For a reliable network, where a lost answer is waited for in vain. */
bool nic_spare(struct nic *nic);
/* What the card has for a peer is made now, before its first packet; false: no memory. */
bool nic_peer_meet(struct nic *nic, struct nic_address peer);
/* After NIC_BUSY: the driver takes packets to this peer again. */
void nic_peer_room(struct nic *nic, struct nic_address peer, uint64_t now);
/* Where the driver knows what a reliable network cannot tell: the peer has ended, or a new process
 * has its address. What was sent to it or begun by it is undeliverable, and both sides count their
 * messages from 0. */
void nic_peer_lost(struct nic *nic, struct nic_address peer, uint64_t now);
/* There seems to be nobody at its address: unless it is heard it is given up after `retries`. */
void nic_peer_refused(struct nic *nic, struct nic_address peer);
/* The last `full` of this peer was true. */
bool nic_is_full(const struct nic *nic, struct nic_address peer);
uint64_t nic_deadline(const struct nic *nic); /* UINT64_MAX: none */
void nic_tick(struct nic *nic, uint64_t now); /* at or after the deadline */

/* Nothing is under way: no message, no handler, no answer that is waited for. */
bool nic_quiet(const struct nic *nic);

/* Before the process ends: what has arrived is acknowledged by the next nic_progress. */
void nic_hurry(struct nic *nic);
/* Nothing that was sent waits to be acknowledged by a peer's card. */
bool nic_settled(const struct nic *nic);

/* What has happened so far. */
struct nic_counts {
    uint64_t sent, received; /* data packets, without those that are sent again or thrown away */
    uint64_t messages_in, messages_out;
    uint64_t tasks;
    uint64_t handled_packets,
        handled_bytes;  /* that a header or a payload handler was started for */
    uint64_t no_memory; /* something was lost or refused for it */
    /* Until here what most calls use. */
    uint64_t retransmitted, receipts;   /* sent */
    uint64_t duplicates, out_of_window; /* received, thrown away */
    uint64_t malformed;                 /* likewise: contradict themselves or what came before */
    uint64_t given_up;                  /* peers */
    uint64_t flow_control;
    /* Of absent pages and blocks. */
    uint64_t source_faults, destination_faults; /* moves that met an absent page */
    uint64_t parked;                            /* of those, the ones that waited on the card */
    uint64_t blocks_sent;                       /* blocks, each once, */
    uint64_t blocks_repeated;                   /* and how often one was sent again, because of */
    uint64_t block_timeouts;                    /* a timeout, */
    uint64_t errs_in, corrupt_in;               /* an ERR, or a report that it was damaged */
    uint64_t blocks_received;                   /* whole, each once */
    uint64_t acks_out, nacks_out, errs_out;     /* reports of blocks, sent */
    uint64_t stale; /* packets of older transmissions, thrown away, and late reports */
};
const struct nic_counts *nic_counts(const struct nic *nic);

/* Bytes of the packet on a wire: its header as wire.h writes it, and its data. */
uint32_t nic_packet_bytes(const struct nic_packet *packet);

/* Behind the port of the HPU that runs `task` (hpu/port.h, struct port_card): the host memory that
 * it may use, its commands, and whether one with a handle is over. What is to be repeated, because
 * the handler waits, is after `resume` of this task. HPU memory that a command names must last
 * until the command is over. */
struct port_host nic_command_host(const struct nic *nic, const struct nic_task *task,
                                  uint32_t space);
/* That memory where it lies in one piece of this process (hpu.h, `direct`), until the card is next
 * called; of no bytes: it does not. */
void nic_command_direct(const struct nic_task *task, struct hpu_direct direct[2]);
enum hpu_access nic_command(struct nic *nic, const struct nic_task *task, struct port *port,
                            const struct port_command *command, uint64_t now);
enum hpu_access nic_command_over(const struct nic *nic, const struct nic_task *task,
                                 struct port *port, uint32_t handle, bool wait);
/* Its interface is being closed, which waits for it. */
bool nic_task_is_late(const struct nic_task *task);
/* `ending` is a flow_code (flow.h). The task is gone after this, also if it was told to wait: then
 * it is not resumed. */
/* `task`: its number. */
void nic_handler_done(struct nic *nic, uint64_t task, int32_t ending, uint64_t now);

#endif
