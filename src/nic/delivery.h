/* Reliable delivery between cards: packets go in at one side in order, come up at the other side
 * once each, the first of a message before any other of it and messages in order; the other packets
 * of a message in any order.
 *
 * Each direction between two cards is a stream of numbered packets. The receiver says what it has
 * (everything below `ack`, and single ones by `sack`), with every packet that goes back or in a
 * receipt. The sender keeps what is not acknowledged, at most a window; it repeats a packet when
 * three that left later have arrived, and everything when nothing was heard for retry_time, doubled
 * each time. After `retries` times the peer is given up: the owner is told, the stream ends, a new
 * one may begin. A peer that begins a new stream has forgotten the old one, so that is the same.
 * With least_retry_time the window and the time of each peer are its own (congestion.h): what is
 * lost is repeated as the window allows.
 *
 * With receipt_time a packet that came in order is acknowledged by the next one that goes back, or
 * by a receipt after that time; at once if its sender asks for it, as half of its window is on the
 * way. With credit_packets every acknowledgement also says how many packets beyond it the receiver
 * takes, its share of what all of its senders may have waiting there: who has used that up waits,
 * and probes when it hears nothing. Only answers go on then, few at a time: handlers that wait for
 * them may be what the receiver is full of.
 *
 * Who waits for a peer without having sent it anything (an answer, the rest of a message) says so
 * by delivery_expect: then the peer is probed when it is silent, and given up when it stays so.
 *
 * Packets of blocks and reports (nic_block.h) are packets of the stream like all others. A report
 * is of no message: reports have numbers of their own, and come up in their order.
 *
 * Where the network to a peer is reliable there are no copies, acknowledgements or timers; where it
 * is ordered too, nothing is ever held back. */
#ifndef SPIN_NIC_DELIVERY_H
#define SPIN_NIC_DELIVERY_H

#include "nic/nic.h"
#include "base/index_table.h"
#include "nic/congestion.h"
#include "nic/timers.h"

struct delivery_slot {
    struct nic_packet *packet; /* NULL: acknowledged */
    uint64_t transmission;     /* number of its last one, among all to this peer */
    uint8_t state;
    bool repeats;  /* it was sent more than once */
    uint64_t lent; /* of a packet of a run: the owner's name for its memory; else 0 */
};

/* The owner's struct for a peer begins with it. */
struct delivery_peer {
    struct nic_address address;
    bool reliable; /* the network, or ourselves */
    bool self;
    bool direct;           /* reliable, and another */
    uint32_t number;       /* among the peers */
    uint32_t packet_bytes; /* of data in a packet to it, at most */
    /* Out. */
    uint32_t stream, next_sequence, oldest; /* not acknowledged: [oldest, next_sequence) */
    uint32_t next_message;
    uint32_t next_report;
    uint32_t reserved;               /* packets that will be numbered: they have room */
    bool hopeless;                   /* to be given up */
    bool acknowledged;               /* something of the stream has been */
    uint32_t lost, left, first_lost; /* slots in these states; none lost is older */
    uint64_t transmissions, newest_arrived;
    struct delivery_slot *slot; /* a window, by sequence */
    struct congestion congestion;
    uint64_t *left_at; /* by sequence: of a packet that left once; 0: again. NULL: not measured */
    bool limited;      /* the peer has said how much it takes: */
    bool starved;      /* something waits for its credit */
    uint32_t limit;    /* it takes packets before this one */
    /* In. */
    bool heard, closed; /* a stream was seen; it is ignored until a newer one */
    uint32_t in_stream, expected, in_message, in_report;
    uint32_t ahead;    /* arrived, beyond one that has not */
    uint64_t *arrived; /* bits, a window, by sequence */
    struct nic_packet *held, **held_end;
    /* Due: a receipt, a probe, or lost packets. */
    bool receipt, probe, in_due;
    bool stinted;        /* it was told less than its share */
    uint64_t receipt_by; /* the receipt may wait until then; UINT64_MAX: none does */
    struct delivery_peer *next_due;
    bool to_arm;  /* its timer: see delivery_arm */
    bool refused; /* nobody is at its address, it was said since it was last heard */
    struct delivery_peer *next_to_arm;
    /* Timers. */
    uint32_t expectations, failures;
    uint64_t deadline;  /* UINT64_MAX: none */
    struct timer timer; /* not after it */
};

struct delivery_owner {
    uint32_t peer_bytes; /* of the owner's struct for a peer */
    /* A packet of a message; it is lent. */
    void (*up)(void *context, struct delivery_peer *peer, struct nic_packet *packet);
    /* A packet of a run has arrived: its memory is not used any more. */
    void (*returned)(void *context, uint64_t lent);
    /* Something that was sent has arrived: there is room for more. */
    void (*room)(void *context, struct delivery_peer *peer);
    /* The peer is given up or has forgotten us: nothing of what was begun to arrive is finished,
     * and if `sent`, nothing of what was sent. */
    void (*lost)(void *context, struct delivery_peer *peer, bool sent);
    /* How many of config->credit_packets wait on the card itself. NULL: none. */
    uint32_t (*load)(void *context);
};

/* Nothing that was sent waits for an acknowledgement. */
struct delivery;
bool delivery_settled(const struct delivery *d);

/* Its fields are for delivery*.c. */
struct delivery {
    struct delivery_peer *due, *to_arm;
    uint32_t stinted; /* peers */
    uint32_t senders; /* peers whose stream is followed: they share the credit */
    struct timers timers;
    struct delivery_peer *last_peer, **peer; /* the one that was asked for last; all */
    /* Until here all that most calls use. */
    const struct nic_config *config;
    struct nic_counts *counts;
    const struct delivery_owner *owner;
    void *context; /* the owner's */
    uint32_t ring; /* slots and bits of a window: a power of two */
    uint32_t peers, peers_room;
    struct hash_table by_address; /* peers' numbers, if they are many */
    struct delivery_peer **due_end;
};

/* `config`, `counts` and `owner` are to outlive it. */
void delivery_init(struct delivery *d, const struct nic_config *config, struct nic_counts *counts,
                   const struct delivery_owner *owner, void *context);
void delivery_clear(struct delivery *d);

/* The peer with that address, made when it is asked for; NULL: no memory. It stays as long as the
 * card. */
struct delivery_peer *delivery_peer_find(struct delivery *d, struct nic_address address);
static inline struct delivery_peer *delivery_peer(struct delivery *d, struct nic_address address) {
    if (d->last_peer && nic_address_equal(d->last_peer->address, address))
        return d->last_peer;
    return delivery_peer_find(d, address);
}
/* NULL: never met. */
struct delivery_peer *delivery_peer_known(const struct delivery *d, struct nic_address address);
/* The i-th peer in the order in which they were made; NULL past the last. */
struct delivery_peer *delivery_peer_at(const struct delivery *d, uint32_t i);

/* Whether this packet would be held until others have come. */
bool delivery_early(const struct delivery_peer *peer, const struct nic_packet *packet);
/* May another packet be sent? False: the owner's `room` says when. */
bool delivery_room(struct delivery *d, struct delivery_peer *peer);
/* The same of an answer, for which a few packets may be on the way without credit. */
bool delivery_room_answer(const struct delivery_peer *peer);
/* How many, if it may: for a run. */
uint32_t delivery_room_packets(const struct delivery_peer *peer);
/* Receipts were asked for that make room for more: who has little may wait for them. */
bool delivery_room_grows(const struct delivery *d, const struct delivery_peer *peer);
/* Neither packets nor timers wait for delivery_next and delivery_arm. */
static inline bool delivery_idle(const struct delivery *d) {
    return !d->due && !d->to_arm && !d->stinted;
}
/* Gives it source, target, stream, sequence and message number: in the order of sending. The first
 * packet of a message takes the next number; the others have `number`. */
void delivery_number_stream(struct delivery *d, struct delivery_peer *peer,
                            struct nic_packet *packet);
static inline void delivery_number(struct delivery *d, struct delivery_peer *peer,
                                   struct nic_packet *packet, uint32_t number) {
    packet->source = d->config->address;
    packet->target = peer->address;
    packet->message_number = packet->first ? peer->next_message++ : number;
    if (!peer->reliable)
        delivery_number_stream(d, peer, packet);
}
/* It goes out now, in the same order. Returns the number of the transmission, for delivery_left. */
uint64_t delivery_departs_stream(struct delivery *d, struct delivery_peer *peer,
                                 struct nic_packet *packet);
static inline uint64_t delivery_departs(struct delivery *d, struct delivery_peer *peer,
                                        struct nic_packet *packet) {
    d->counts->sent++;
    return peer->reliable ? 0 : delivery_departs_stream(d, peer, packet);
}
/* Of a run that has been numbered: the name of its memory. */
void delivery_lend(struct delivery *d, struct delivery_peer *peer, const struct nic_packet *run,
                   uint64_t lent);
/* A packet of it has data of its own now: that name, or 0, and nothing is returned later. */
uint64_t delivery_take_back(struct delivery *d, struct delivery_peer *peer, uint32_t sequence);
/* What else has to go out: repeated packets, receipts, probes; NULL: nothing. A receipt
 * or probe is made in `bare`; else it is lent until the next call. */
struct nic_packet *delivery_next(struct delivery *d, struct delivery_peer **peer,
                                 struct nic_packet *bare, uint64_t *transmission);
/* A packet of either kind has left, or a run, of so many `more`. */
void delivery_left(struct delivery *d, struct delivery_peer *peer, uint32_t sequence, uint32_t more,
                   uint64_t transmission, uint64_t now);

void delivery_packet_in(struct delivery *d, struct nic_packet *packet, uint64_t now);
/* The peer of a packet, if it is of the next message from where the last one came, on a network
 * that loses nothing, and nothing is held: whoever takes it, the first with data, says so. NULL:
 * another packet, for delivery_packet_in. */
static inline struct delivery_peer *delivery_last_peer(const struct delivery *d,
                                                       const struct nic_packet *packet) {
    struct delivery_peer *peer = d->last_peer;
    return peer && peer->direct && nic_address_equal(peer->address, packet->source) &&
                   !peer->held && packet->message_number == peer->in_message
               ? peer
               : NULL;
}
static inline void delivery_took(struct delivery *d, struct delivery_peer *peer) {
    peer->in_message++;
    d->counts->received++;
}

/* The driver knows that this peer is gone: as if it were given up. */
void delivery_lose(struct delivery *d, struct nic_address address);
/* It was told so, which need not be true: the peer is given up sooner (config->retries). */
void delivery_refused(struct delivery *d, struct nic_address address);

void delivery_expect(struct delivery *d, struct delivery_peer *peer);
void delivery_expect_less(struct delivery_peer *peer);
/* Receipts that wait for company go out with the next delivery_next. */
void delivery_hurry(struct delivery *d);
/* Something that the peer waits for will never be sent: it is given up at the next tick, so that it
 * learns that. Not on a reliable network, where nobody is given up. */
void delivery_fail(struct delivery *d, struct delivery_peer *peer, uint64_t now);
/* The timers of what is expected since the last call run from now on. */
void delivery_arm(struct delivery *d, uint64_t now);

static inline uint64_t delivery_deadline(const struct delivery *d) {
    return timers_first(&d->timers);
}
void delivery_tick(struct delivery *d, uint64_t now);

#endif
