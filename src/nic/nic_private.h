/* The parts of the card's logic, for its own files:
 *
 *     nic.c          set-up; what was pending has ended
 *     nic_send.c     messages out: at once, or into the queue of their peer
 *     nic_depart.c   messages that wait there: packets, fetching their data
 *     nic_receive.c  messages in: storing, atomics, answers
 *     nic_open.c     which of them a packet belongs to
 *     nic_handler.c  handlers of a message and their return codes
 *     nic_command.c  what handlers ask for
 *     nic_page.c     moves that wait for a page of host memory
 *     nic_block_send.c, nic_block_receive.c   messages in blocks (nic_block.h)
 *
 * Whatever a pending move refers to is a record and lives until the move has ended. What ends
 * within one call stays on that call's stack. */
#ifndef SPIN_NIC_PRIVATE_H
#define SPIN_NIC_PRIVATE_H

#include <stddef.h>

#include "base/pool.h"
#include "nic/delivery.h"
#include "nic/flow.h"
#include "nic/nic.h"
#include "nic/nic_block.h"
#include "nic/timers.h"

#define NIC_SEGMENTS 8 /* pieces of memory asked for at once */

struct nic_peer {
    struct delivery_peer delivery;                      /* must be first */
    struct nic_outgoing *queue, **queue_end;            /* to be made packets of, in order */
    struct nic_outgoing **answers_end;                  /* of those that go before all others */
    struct nic_departure *departures, **departures_end; /* whose data is fetched, in order */
    struct nic_outgoing *all;                           /* everything that is not over */
    struct nic_incoming *open;                          /* of which packets are still to come */
    bool in_turn;
    bool busy;             /* the driver takes no more now */
    bool block_turn;       /* the next packet is one of a block, if there are such */
    bool full;             /* the driver was told so, and not yet that there is room */
    uint32_t turn_packets; /* sent in this turn */
    uint32_t requests;     /* in `queue` */
    struct nic_transfer *ready, **ready_end; /* with packets of blocks to send */
    struct nic_report_out *reports, **reports_end;
    struct nic_peer *next_turn;
};

/* What the card knows of a message that Portals makes for it. */
struct nic_origin {
    struct nic_packet *ready; /* its data, on the card already: whoever takes it sets it to NULL */
    bool from_handler;
    bool of_handler;       /* likewise, but its data is in host memory */
    struct nic_task *task; /* that gives the command, */
    uint32_t local_at;     /* and the address of its data in HPU memory */
    bool streams;          /* more of its data comes later */
    struct nic_incoming *reply_to;
    struct nic_outgoing *made; /* its record, if it has one */
};

/* A message to a peer that waits for its turn or for an answer. It is over when its last packet has
 * departed, or, if it wants an answer, when that is there. What travels as its initiator is this
 * record's number. */
struct nic_outgoing {
    struct pool_slot slot;
    struct nic_peer *peer;
    uint64_t initiator; /* in Portals */
    struct nic_outgoing *next_all, **link_all;
    /* From here to `message` zero at the beginning. */
    struct nic_outgoing *next;
    bool begun, request, wants_answer, from_handler, of_handler;
    bool bad;                        /* some of its data could not be read */
    bool to_card;                    /* a get into HPU memory, */
    struct nic_task_record *waiting; /* for this handler; NULL: it is gone */
    uint32_t departing;              /* packets */
    uint32_t message_number;         /* once begun */
    uint64_t packed;                 /* bytes in packets so far */
    struct nic_packet *ready;        /* whose data is on the card already, instead of fetching it */
    struct nic_incoming *reply_to;   /* of a reply with data: what it answers */
    struct nic_incoming *answer;     /* that is being received */
    struct nic_transfer *transfer;   /* in blocks, not all of them acknowledged */
    /* A stream: its packets come from handlers of this message. */
    bool streams, queued, abandoned;
    uint64_t handed; /* bytes, by handlers */
    struct nic_incoming *of;
    struct nic_outgoing *next_stream;
    struct nic_message message;
};

/* A packet on its way out of the card, until all its data is there. */
struct nic_departure {
    struct pool_slot slot;
    struct nic_peer *peer;
    struct nic_outgoing *outgoing; /* NULL: given up */
    struct nic_packet *packet;
    uint32_t fetches;
    bool absent;       /* of a packet of a block: a page of its data is, */
    uint64_t transfer; /* and the transfer's name */
    struct nic_departure *next;
};

/* A message from a peer, until everything that it caused is done. It begins on the stack of whoever
 * receives its first packet, and becomes a record (`kept`) when something of it stays. */
struct nic_incoming {
    struct pool_slot slot; /* not used: on the stack */
    struct nic_peer *peer;
    const struct nic_message *message; /* of the first packet; of a record, `own` */
    uint32_t message_number;
    uint64_t mlength, received;
    struct nic_packet **waiting_end;
    /* From here on zero at the beginning, */
    struct nic_incoming *kept;
    struct nic_outgoing *answered; /* ack, reply: the request */
    struct flow flow;              /* its phase; work: moves, handlers and replies */
    bool refused, flow_control, aborted, replied, seen; /* by handlers */
    bool headless;                 /* in blocks: its header handler waits for its first bytes */
    struct nic_assembly *assembly; /* in blocks, not all of them here */
    struct nic_packet *waiting;    /* held by the header handler, */
    uint32_t held;                 /* so many */
    struct nic_packet *last;       /* of the message, for PsPIN's completion handler */
    struct nic_packet *results;    /* of a fetching atomic or small get, by offset */
    struct nic_outgoing *streams;  /* of its handlers, not complete */
    struct nic_incoming *next_open, **link_open;
    struct timer silence; /* set while its cleanup handler may have to run */
    uint64_t heard;       /* when the last packet came */
    /* and from here on anything. */
    struct portals_arrival arrival; /* of a request */
    struct nic_message own;
};

/* A put that is whole in its packet and meets a plain entry: what it needs until it is done, or
 * becomes a record. */
struct nic_plain {
    struct nic_peer *peer;
    const struct nic_packet *packet;
    struct portals_plain at;
};

struct nic_task_record {
    struct pool_slot slot;
    struct nic_task seen; /* by the driver */
    struct nic_incoming *message;
    struct nic_packet *packet; /* whose payload it has, or NULL */
    uint32_t commands;         /* not done */
    struct nic_command_record *first;
    bool ended, blocked, in_room_queue;
    bool host_fault; /* one of its commands met host memory that is not there */
    int32_t ending;
    struct nic_outgoing *get; /* that it waits for */
    bool get_done, get_failed;
    struct nic_task_record *next_waiter;
};

/* A handler's access to host memory: a record while something of it is pending. */
struct nic_command_record {
    struct pool_slot slot; /* not used: on the stack */
    struct nic_command_record *kept;
    struct nic_task_record *task;
    uint32_t transfers;
    struct port_command of;
    uint64_t direct; /* what a HOST_WRITE has in its words, which others follow; of an atomic what
                        the handler had where it is told the value before */
    uint8_t *copied; /* what is stored when its page is there; NULL: it is still the handler's */
    struct nic_command_record *next;
};

/* A move that waits for a page of host memory, to be repeated. */
struct nic_parked {
    struct pool_slot slot;
    struct nic_move move;
    struct nic_parked *next;
};

/* Most cards never have one. */
struct nic_parking {
    struct pool moves;
    struct nic_parked *first, **end; /* in the order in which they came */
};

/* In a message's initiator, of a put or atomic that has left: no record of the card's, but the
 * number of Portals' (whose indices are below it). */
#define NIC_UNRECORDED (1ull << 31)

enum nic_purpose {
    FETCH_DEPARTURE,
    MOVE_PLAIN,
    MOVE_MESSAGE,
    APPLY_ATOMIC,
    MOVE_COMMAND,
    ATOMIC_COMMAND
};

/* One of tens of thousands is in no cache when its turn comes: what every call looks at is together
 * in the first lines, and nic_prefetch names what most calls use. */
struct nic {
    uint64_t now;            /* of the call that is being worked on */
    struct nic_packet *loop; /* to ourselves */
    struct nic_peer *turn;   /* peers that may have something to send */
    struct timers silences;
    uint32_t running; /* handlers that take a context */
    uint32_t held;    /* packets that wait for header handlers which have begun, or may */
    uint32_t handler_packets;
    uint32_t sending;       /* packets between queue and wire */
    uint32_t present_bytes; /* a message of so many goes at once wherever its data is */
    struct delivery delivery;
    struct portals *portals;
    struct nic_blocks blocks;
    struct nic_peer **turn_end;
    struct nic_packet **loop_end;
    struct nic_packet *slot;            /* where the driver lends none */
    struct nic_task_record *room_queue; /* handlers that wait for less of theirs to be under way */
    uint32_t handler_messages;
    uint32_t opened;             /* messages of which packets are still to come, */
    struct hash_table open;      /* their places in the pool by peer and number, if they are many */
    struct nic_parking *parking; /* NULL until a move waits for a page */
    struct nic_config config;
    struct nic_counts counts;
    struct pool incoming, tasks, commands;
    struct pool later; /* a place for each move that the driver does later, and each packet */
    struct pool outgoing, departures;
};

static inline struct nic_packet *nic_drive_slot(struct nic *nic, struct nic_address target) {
    return nic->config.driver->slot ? nic->config.driver->slot(nic->config.context, target)
                                    : nic->slot;
}
static inline enum nic_status nic_drive_send(struct nic *nic, struct nic_packet *packet,
                                             const struct nic_departed *how) {
    return nic->config.driver->send(nic->config.context, packet, how);
}
/* nic.c: the driver's `use`. */
bool nic_use_host(void *context, uint8_t *host, uint64_t bytes, nic_user *user, void *argument);
static inline uint64_t nic_drive_present(struct nic *nic, const uint8_t *host, uint64_t bytes) {
    return nic->config.driver->present
               ? nic->config.driver->present(nic->config.context, host, bytes)
               : bytes;
}
enum nic_status nic_page_absent(struct nic *nic, struct nic_move *move);
/* NIC_ABSENT: what follows is seen to. */
static inline enum nic_status nic_drive_move(struct nic *nic, struct nic_move *move) {
    enum nic_status status = nic->config.driver->move(nic->config.context, move);
    if (__builtin_expect(status == NIC_DONE, 1))
        return NIC_DONE;
    return status == NIC_ABSENT ? nic_page_absent(nic, move) : status;
}

uint32_t nic_pool_mtu(const struct nic_pool *pool); /* packet.c */

/* nic.c */
/* What nic_left tells, or was so at once. */
void nic_packet_left(struct nic *nic, const struct nic_departed *how);

/* nic_page.c */
/* One that has ended so later. NIC_PENDING: the card waits for its page; NIC_ABSENT: it is of a
 * block; NIC_FAULT: no memory. */
enum nic_status nic_page_park(struct nic *nic, struct nic_move *later);
void nic_page_clear(struct nic *nic);

/* nic_send.c */
struct nic_message *nic_send_place(void *context, struct portals_outgoing *out);
enum portals_sending nic_send_message(void *context, struct portals_outgoing *out);
bool nic_send_put(void *context, const struct nic_message *message, const uint8_t *data);

/* nic_depart.c */
/* The record of a message: one of its peer's; waits in the queue; is over; is undeliverable. */
void nic_depart_link(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o);
void nic_depart_enqueue(struct nic *nic, struct nic_peer *peer, struct nic_outgoing *o);
void nic_depart_forget(struct nic *nic, struct nic_outgoing *o);
void nic_depart_fail(struct nic *nic, struct nic_outgoing *o);
bool nic_depart_more(struct nic *nic);
/* A packet that was lent has left. */
void nic_depart_returned(struct nic *nic, uint64_t lent, bool unreadable);
void nic_depart_arrived(void *context, uint64_t lent); /* delivery_owner.returned */
void nic_depart_fetched(struct nic *nic, struct nic_departure *d, bool fault);
/* Where bytes of a message are; asks for the data of a packet; a packet that is numbered leaves;
 * all blocks of a message are acknowledged. */
uint32_t nic_depart_pieces(struct nic *nic, const struct nic_outgoing *o, uint64_t from,
                           uint64_t bytes, struct nic_segment *piece, uint32_t room);
void nic_depart_fetch(struct nic *nic, struct nic_departure *d);
void nic_depart_packet(struct nic *nic, struct nic_peer *peer, struct nic_packet *packet,
                       uint64_t lent);
/* Whether the data of a message may be lent to its peer, as long as it is in one piece. */
bool nic_depart_may_lend(const struct nic *nic, const struct nic_outgoing *o);
#define NIC_LENT_MIN (16u << 10)
void nic_depart_acknowledged(struct nic *nic, struct nic_outgoing *o);
void nic_depart_over(struct nic *nic, struct nic_outgoing *o); /* its answer is in */
void nic_depart_room(void *context, struct delivery_peer *peer);
void nic_depart_lost(struct nic *nic, struct nic_peer *peer);
/* A packet more of a stream, whose reference it takes. */
void nic_depart_stream(struct nic *nic, struct nic_outgoing *o, struct nic_packet *packet,
                       struct nic_task *task, uint32_t local_at);
/* The message whose handlers have made streams is over. */
void nic_depart_abandon(struct nic *nic, struct nic_incoming *in);

/* nic_receive.c */
void nic_receive_packet(void *context, struct delivery_peer *peer, struct nic_packet *packet);
struct nic_incoming *nic_receive_keep(struct nic *nic, struct nic_incoming *in);
struct nic_incoming *nic_receive_keep_plain(struct nic *nic, const struct nic_plain *plain);
void nic_receive_moved(struct nic *nic, struct nic_move *move, enum nic_status how);
void nic_receive_body(struct nic *nic, struct nic_incoming *in);
void nic_receive_check(struct nic *nic, struct nic_incoming *in);
void nic_receive_finish(struct nic *nic, struct nic_incoming *in);
void nic_receive_lost(struct nic *nic, struct nic_peer *peer);
void nic_receive_tick(struct nic *nic);
/* For messages in blocks: a packet's data; where bytes of it go. */
void nic_receive_data(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet);
uint32_t nic_receive_pieces(struct nic *nic, const struct nic_incoming *in, uint64_t offset,
                            uint64_t bytes, struct nic_segment *piece);

/* nic_open.c */
/* More of it is to come; no more is; the one with that number, of which more is, or NULL. */
void nic_open_begin(struct nic *nic, struct nic_incoming *in);
void nic_open_end(struct nic *nic, struct nic_incoming *in);
struct nic_incoming *nic_open_find(struct nic *nic, const struct nic_peer *peer,
                                   uint32_t message_number);

/* nic_handler.c */
void nic_handler_message(struct nic_incoming *in); /* has handlers, and begins */
void nic_handler_header(struct nic *nic, struct nic_incoming *in, struct nic_packet *first);
void nic_handler_packet(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet);
void nic_handler_last(struct nic *nic, struct nic_incoming *in, struct nic_packet *packet);
/* There is no memory to keep it: its message fails, and if PsPIN's completion handler would have
 * got it, that does not run. */
void nic_handler_unkept(struct nic_incoming *in, const struct nic_packet *packet);
/* Completion, or cleanup. */
void nic_handler_end(struct nic *nic, struct nic_incoming *in, enum nic_handler_kind kind);
void nic_handler_drained(struct nic *nic, struct nic_task_record *task); /* no command is left */
void nic_handler_resume(struct nic *nic, struct nic_task_record *task);

/* nic_command.c */
struct nic_command_record *nic_command_keep(struct nic *nic, struct nic_command_record *c);
/* A move of a command is to be done later: its data stays where the record is. */
void nic_command_later(const struct nic_move *move, struct nic_move *later);
/* It waits for a page: a handler that ends leaves its memory to others. False: no memory. */
bool nic_command_own(struct nic_move *later);
void nic_command_disown(struct nic_move *later);
void nic_command_moved(struct nic *nic, struct nic_move *move, enum nic_status how);
void nic_command_answered(struct nic *nic, struct nic_outgoing *o, bool failed);
void nic_command_room(struct nic *nic);

/* What travels as a message's initiator is the number of its record, with the stream in its upper
 * bits: an answer to an earlier life of this process finds no record. */
static inline uint64_t nic_number(const struct nic *nic, const struct nic_outgoing *o) {
    return pool_number(o) ^ (uint64_t)nic->config.stream << 48;
}
static inline struct nic_outgoing *nic_named(const struct nic *nic, uint64_t number) {
    return pool_named(&nic->outgoing, number ^ (uint64_t)nic->config.stream << 48);
}

static inline bool nic_is_request(const struct nic_incoming *in) {
    return in->message->kind < NIC_ACK;
}

/* NULL as well when the program has closed the interface meanwhile. */
static inline const struct portals_handlers *nic_handlers(const struct nic_incoming *in) {
    return nic_is_request(in) ? in->arrival.handlers : NULL;
}

/* Bytes of a packet that the entry, or who asked for them, accepts. */
static inline uint64_t nic_accepted(const struct nic_incoming *in,
                                    const struct nic_packet *packet) {
    if (packet->offset >= in->mlength)
        return 0;
    uint64_t left = in->mlength - packet->offset;
    return left < packet->bytes ? left : packet->bytes;
}

static inline struct nic_task_record *nic_task_of(const struct nic_task *seen) {
    return (struct nic_task_record *)((char *)(uintptr_t)seen -
                                      offsetof(struct nic_task_record, seen));
}

/* Of a packet that was sent, for nic_depart.c and nic_send.c. It has left: of a handler's, one less
 * waits. */
static inline void nic_depart_left(struct nic *nic, bool from_handler) {
    if (!from_handler)
        return;
    nic->handler_packets--;
    nic_command_room(nic);
}

/* Whether nic_left follows what the driver said of a packet. */
static inline bool nic_depart_later(struct nic_peer *peer, enum nic_status status) {
    peer->busy |= status == NIC_BUSY;
    return status == NIC_PENDING || status == NIC_BUSY;
}

#endif
