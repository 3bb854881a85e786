/* What the files of the packet network share. Everything is found by index: records move when their
 * pool grows, so no pointer to one is kept across an allocation. */
#ifndef SPIN_SIM_NETWORK_PRIVATE_H
#define SPIN_SIM_NETWORK_PRIVATE_H

#include "sim/network.h"
#include "sim/transfer.h"

#define NET_NONE            UINT32_MAX
#define NET_MAX_HOPS        250 /* a packet that failures send round longer than this is lost */
#define NET_INLINE_RELEASES 6   /* a slot fills two cache lines */
#define NET_DETOUR_VCS      16  /* virtual channels for packets on a detour, by distance to go */

enum {
    PACKET_DUPLICATE = 1,
    PACKET_CORRUPT = 2,
    PACKET_LOST = 4,      /* ends when it reaches the next node */
    PACKET_DETOUR = 8,    /* follows the distances of the links that are left */
    PACKET_MESSAGE = 16,  /* belongs to the message that its cookie names */
    PACKET_LEADS = 32,    /* the next packet of its message follows it out of the host */
    PACKET_REDUNDANT = 64 /* its twin is in already */
};

/* One cache line. */
struct net_packet {
    uint64_t cookie;
    uint64_t tail_ps;   /* when its last byte is at the node it goes to */
    uint64_t ready_ps;  /* when it may leave; once that is settled, when it was settled */
    uint64_t queued_ps; /* in queues so far */
    uint32_t dst, bytes, selector; /* bytes on the wire */
    uint32_t node;                 /* where it goes, or is */
    uint32_t slot;                 /* the link it came by: channel * vcs + vc; NET_NONE at first */
    uint32_t next;                 /* in a queue or the free list, index + 1 */
    uint16_t kind;                 /* of that link */
    uint16_t next_kind;            /* of the link it leaves `node` by; the event holds the rest */
    uint16_t hops;
    uint8_t flags;
};

/* What is needed only at the end of the way, apart from the line above. */
struct net_packet_end {
    uint32_t src, flow, twin;
    uint8_t attempt;
};

struct net_channel {
    uint64_t free_ps; /* busy until then */
    uint64_t bytes, busy_ps, queued_ps, most_ps;
    uint64_t broken_ps; /* 1 + when it last broke; 0: never */
    uint64_t packets;
    uint32_t drops;
} __attribute__((aligned(64)));

/* Buffer of a virtual channel at the far end of a link, and who waits for room in it. Two cache
 * lines. Packets in it of which it is not known when they leave are on the link (`flight`, first
 * to arrive first) or have landed. */
struct net_slot {
    uint32_t used;                /* bytes promised */
    uint32_t head, tail;          /* packets waiting for room, index + 1 */
    uint32_t unknown, landed;     /* packets that are not settled; those of them that have landed */
    uint32_t flight, flight_last; /* index + 1 */
    uint32_t landed_for;          /* the slot that all that have landed wait for, or NET_NONE */
    uint32_t least_bytes;         /* none that is not settled is smaller; 0: there is none */
    uint32_t node;                /* where the link ends */
    uint32_t heap;                /* releases beyond the first few: a heap, index + 1 */
    uint16_t kind;                /* of the link */
    bool active;                  /* being worked on further up the stack */
    uint8_t count;                /* of the releases kept here, earliest first */
    uint32_t release_bytes[NET_INLINE_RELEASES];
    uint64_t release_ps[NET_INLINE_RELEASES];
    uint64_t credit_ps; /* `used` holds as of this time */
} __attribute__((aligned(128)));

/* Where a wire is idle although departures after that are settled; several virtual channels only.
 */
struct net_gap {
    uint64_t from_ps, to_ps;
};

struct net_release {
    uint64_t at_ps;
    uint32_t bytes, child, sibling; /* index + 1; sibling also links the free list */
};

/* One cache line. */
struct net_message {
    uint64_t cookie, bytes, sent, at_ps;
    uint64_t stored_ps; /* its packets that are in, or are sure to be, are in memory by then */
    uint64_t packets_left : 61;
    bool lost : 1, begun : 1, cut : 1; /* cut: its last packet is on the way */
    uint32_t src, dst, flow;
    uint32_t next; /* in the host's queue or the free list, index + 1 */
};

/* Messages that a host has to send, index + 1; the first is being sent. */
struct net_outbox {
    uint32_t first, last;
};

/* Who looks at what comes to a node. */
struct net_node {
    net_look *look;
    void *context;
};

/* The first packet that could not be. */
struct net_refused {
    uint32_t src, dst, bytes;
    bool is;
};

struct net_link_kind {
    uint64_t fs_per_byte, latency_ps;
};

enum net_kind {
    NET_ARRIVE,   /* a packet at the next node */
    NET_END,      /* a packet that never leaves its host */
    NET_CONTINUE, /* a host sends its next packet */
    NET_START,    /* a host sends a message */
    NET_RETRY,    /* or a packet of it again */
    NET_WHOLE,    /* a message is in */
    NET_BREAK,    /* a link breaks, or works again */
    NET_WAKE,     /* there may be credits */
    NET_LOOK,     /* a node is given a packet */
    NET_DELIVER,  /* and has held it back from its host */
    NET_KINDS
};

struct network {
    struct sim_engine *engine;
    const struct topology *topology;
    struct net_config config;
    struct net_callbacks on;
    struct sim_instance sim;
    struct net_link_kind *kinds;
    uint64_t fastest_fs; /* a byte, of all links */
    bool one_rate, faulty;
    uint32_t vcs, base_vcs; /* those above base_vcs are for detours */

    struct net_channel *channels;
    struct net_slot *slots; /* credits only */
    uint64_t *wakes;        /* a slot: 1 + the time of the wake-up that is due, or 0 */
    struct net_gap *gaps;   /* a channel; several virtual channels only */
    uint64_t *wire_ends;    /* a slot, likewise: of its last packet; the next follows it */

    struct net_packet *packets;
    struct net_packet_end *ends;
    uint32_t packet_room, end_room, packet_free, packets_used;
    struct net_release *releases;
    uint32_t release_room, release_free, releases_used;
    struct net_message *messages;
    uint32_t message_room, message_free, messages_used;
    struct net_outbox *outboxes; /* a host */
    bool out_of_memory;
    struct net_refused refused;
    struct net_node *nodes; /* by node; NULL while nobody looks at packets */

    struct net_failure *failures;
    uint8_t *broken; /* a bit per channel; NULL when no failure is planned */
    uint32_t broken_count, epoch;
    struct detours *detours;

    struct net_counts counts;
};

/* Who makes events: the plan of failures, the nodes, and each link for what is sent over it. */
#define NET_PLAN 0
static inline uint64_t net_node_object(uint32_t node) {
    return 1ull + node;
}
static inline uint64_t net_link_object(const struct network *net, uint32_t channel) {
    return 1ull + net->topology->hosts + net->topology->switches + channel;
}

static inline uint64_t net_transfer_ps(const struct network *net, uint32_t bytes, uint16_t kind) {
    return transfer_ps(bytes, net->kinds[kind].fs_per_byte);
}

static inline bool net_is_broken(const struct network *net, uint32_t channel) {
    return net->broken_count && (net->broken[channel / 8] >> channel % 8 & 1);
}

/* A virtual channel of a link by one number, and back. */
static inline uint32_t net_slot(const struct network *net, const struct topo_hop *hop) {
    return net->vcs == 1 ? hop->channel : hop->channel * net->vcs + hop->vc;
}
static inline uint32_t net_channel(const struct network *net, uint32_t slot) {
    return net->vcs == 1 ? slot : slot / net->vcs;
}

static inline void net_credit_prefetch(const struct network *net, uint32_t slot) {
    const char *lines = (const char *)&net->slots[slot];
    __builtin_prefetch(lines, 1);
    __builtin_prefetch(lines + 64, 1);
    if (net->wire_ends)
        __builtin_prefetch(&net->wire_ends[slot], 1);
}

/* What a host that sends will touch. Most topologies have channel h leave host h; where one does
 * not, the hint is wasted. */
static inline void net_prefetch_host(const struct network *net, uint32_t host) {
    __builtin_prefetch(&net->outboxes[host], 1);
    __builtin_prefetch(&net->channels[host], 1);
    if (net->slots)
        net_credit_prefetch(net, host * net->vcs);
}

/* network.c */
uint32_t net_new_packet(struct network *net); /* NET_NONE when memory ran out */
/* A new packet from its host's port; bytes are payload. */
struct net_origin {
    uint32_t src, dst, bytes, flow;
    uint64_t cookie;
    uint8_t flags, attempt;
};
void net_place(struct network *net, uint64_t now_ps, uint64_t ready_ps,
               const struct net_origin *origin);
/* Puts the packet in line for a channel, under whatever flow control there is. */
void net_forward(struct network *net, uint32_t index, const struct topo_hop *hop, uint64_t now_ps,
                 uint64_t ready_ps);
/* Settles when the packet is sent, at ready_ps or as soon after as the channel is free; returns
 * when its last byte leaves. */
uint64_t net_transmit(struct network *net, uint32_t index, const struct topo_hop *hop,
                      uint64_t now_ps, uint64_t ready_ps);
/* The packet's way ends: gives its buffer back, calls back, frees it. */
void net_finish(struct network *net, uint32_t index, uint64_t now_ps, enum net_fate fate);
void net_no_memory(struct network *net);
/* False: there can be no such packet, and network_check will say so. */
bool net_possible(struct network *net, uint32_t src, uint32_t nodes, uint32_t dst, uint64_t bytes);

/* net_credit.c */
int net_credit_create(struct network *net, struct spin_error *err);
void net_credit_destroy(struct network *net);
void net_credit_send(struct network *net, uint32_t index, const struct topo_hop *hop,
                     uint64_t now_ps, uint64_t ready_ps);
/* When a packet that is ready at ready_ps can start: it may use a gap before what is settled. */
uint64_t net_credit_start(struct network *net, const struct topo_hop *hop, uint64_t ready_ps,
                          uint64_t takes_ps);
/* What a packet that came by slot `in` may set moving; `follower` is behind it on the same link. */
static inline void net_credit_look_closer(const struct network *net, uint32_t in,
                                          uint32_t follower) {
    const struct net_slot *s = &net->slots[in];
    if (follower)
        __builtin_prefetch(&net->packets[follower - 1], 1);
    if (s->head)
        __builtin_prefetch(&net->packets[s->head - 1], 1);
    if (s->heap)
        __builtin_prefetch(&net->releases[s->heap - 1], 1);
}
/* The packet has reached the switch at the end of its link. */
void net_credit_landed(struct network *net, uint32_t index);
/* Room in the packet's buffer is free from `at_ps` on. */
void net_credit_release(struct network *net, uint32_t index, uint64_t now_ps, uint64_t at_ps);
void net_on_wake(void *context, const struct sim_event *event);
/* Everything that waits for a channel that broke is lost. */
void net_credit_flush(struct network *net, uint32_t channel, uint64_t now_ps);

/* net_fault.c */
void net_on_break(void *context, const struct sim_event *event);
int net_fault_create(struct network *net, struct spin_error *err);
void net_fault_destroy(struct network *net);
/* Schedules the failures, once nothing can go wrong any more. */
void net_fault_plan(struct network *net);
struct net_draw {
    bool lost, corrupt, duplicate;
    uint64_t held_ps;
};
/* What happens to the next packet on a channel. */
struct net_draw net_fault_draw(const struct network *net, uint32_t channel);
/* A copy of the packet follows it over the same link. */
void net_fault_duplicate(struct network *net, uint32_t index, const struct topo_hop *hop,
                         uint64_t now_ps);
/* The hop that a packet takes while links are broken; channel TOPO_NONE when there is none. */
struct topo_hop net_detour(struct network *net, uint32_t index, uint32_t node);

/* net_node.c */
/* True: the packet's node will be given it, and it goes on from there. */
bool net_node_takes(struct network *net, uint32_t index, uint64_t now_ps);
void net_on_look(void *context, const struct sim_event *event);
void net_on_deliver(void *context, const struct sim_event *event);
void net_node_destroy(struct network *net);

/* net_message.c */
int net_message_create(struct network *net, struct spin_error *err);
void net_message_destroy(struct network *net);
/* The packet in the lead has left the host, or never will: a message whose last packet it was
 * leaves the queue. True when there is more to send. */
bool net_message_leave(struct network *net, uint32_t host);
/* That, and then the next packet. */
void net_message_continue(struct network *net, uint32_t host, uint64_t now_ps);
/* A packet of it has come to its end, over the link that is `maker`, or at its host. */
void net_message_packet(struct network *net, const struct net_arrival *arrival, uint8_t attempt,
                        uint64_t maker);
/* A packet of it will be in at `at_ps` over that link, whatever happens. */
void net_message_due(struct network *net, uint32_t message, uint32_t channel, uint64_t at_ps);
void net_on_start(void *context, const struct sim_event *event);
void net_on_retry(void *context, const struct sim_event *event);
void net_on_whole(void *context, const struct sim_event *event);
void net_whole_ahead(void *context, const struct sim_event *event);

#endif
