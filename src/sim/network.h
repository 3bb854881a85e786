/* The packet network: links, output-queued switches, flow control and faults.
 *
 * A packet costs one event per link, at the moment it reaches the next node; injecting it costs
 * none, nor does the last link of a message's packets, where nothing can happen to them any more.
 * When it leaves is known the moment it arrives, because a port sends first come, first served: the
 * port keeps the time until which it is busy. Only credits can leave that open; see net_credit.c.
 *
 * Times are picoseconds. Rates are femtoseconds per byte, an integer (400 Gbit/s = 20,000 fs/B);
 * the time of a packet on a link is rounded up to the next picosecond. No floating point anywhere.
 *
 * On an empty network a packet of n bytes over h links, with link latency L, switch traversal s and
 * n bytes taking T on a link, is delivered after
 *     cut-through          h L + (h - 1) s + T
 *     store and forward    h L + (h - 1) s + h T
 *
 * Contracts: a packet or message that was accepted gets exactly one callback for itself, plus one
 * for each duplicate that faults made. Callbacks run inside the engine's event handlers, never
 * inside network_inject or network_send. They may inject and send. */
#ifndef SPIN_SIM_NETWORK_H
#define SPIN_SIM_NETWORK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "openspin.h"
#include "sim/engine.h"
#include "sim/topology.h"

enum net_flow_control {
    NET_UNLIMITED, /* queues as long as it takes */
    NET_DROP_TAIL, /* a switch port holds `buffer_bytes`; what does not fit is dropped */
    NET_CREDIT,    /* a packet is sent when the next switch has room for it; nothing is dropped */
};

/* A link that breaks at `down_ps` and works again from `up_ps` (SIM_FOREVER: never). */
struct net_failure {
    uint32_t channel; /* either direction; both fail */
    uint64_t down_ps, up_ps;
};

/* Probabilities are fractions of 2^32, for each packet and link. */
struct net_faults {
    uint64_t loss, corruption, duplication, reordering;
    uint64_t reorder_ps; /* a reordered packet is held back for up to this long */
};

struct net_config {
    uint64_t fs_per_byte;
    uint64_t latency_ps;        /* of a link */
    uint64_t global_latency_ps; /* of a dragonfly's global links; 0: as any other */
    uint64_t switch_ps;         /* traversal */
    uint32_t mtu_bytes;         /* payload of a packet */
    uint32_t header_bytes;      /* sent with every packet, part of no message */
    enum net_flow_control flow_control;
    uint64_t buffer_bytes; /* a port (drop-tail); a link and virtual channel (credit) */
    bool store_and_forward;
    bool multipath; /* by hash of (source, destination, flow) */
    uint64_t seed;
    struct net_faults faults;
    const struct net_failure *failures; /* copied */
    uint32_t failure_count;
    uint64_t retry_ps; /* messages: a lost packet is sent again after this long; 0: never */
    uint32_t retries;  /* at most this often */
};

/* SC'17: 400 Gbit/s, 33.4 ns per wire, 50 ns per switch, MTU 4096 (published.md A2, A3); unlimited
 * queues, cut-through, single path, no faults. */
struct net_config net_config_default(void);

enum net_fate {
    NET_DELIVERED,
    NET_CORRUPTED, /* arrived, but its contents are wrong */
    NET_LOST,      /* on a wire, or in a link that broke */
    NET_DROPPED,   /* by a full port */
    NET_NO_ROUTE,  /* no path is left, or it went round too long while links failed */
    NET_CONSUMED,  /* by a node on its way, see network_attach */
    NET_FATES,
};

struct net_arrival {
    uint64_t at_ps, cookie;
    uint32_t src, dst, bytes, flow;
    enum net_fate fate;
    bool duplicate;     /* a copy that a fault made */
    uint64_t queued_ps; /* time in queues on the way */
};

struct net_callbacks {
    void *context;
    void (*packet)(void *context, const struct net_arrival *arrival);
    /* A fault has made a copy of a packet: one more call of `packet` will come with this cookie.
     * NULL for nobody who needs to know. */
    void (*copied)(void *context, uint64_t cookie);
    /* The last byte of a message is in (or, when `lost`, never will be), as of at_ps: now, or later
     * by what `store` said. */
    void (*message)(void *context, uint64_t cookie, uint64_t at_ps, bool lost);
    /* Between the card and the host's memory, packets of messages only; NULL for no cost. `store`
     * is called when a packet is in and says when it is in memory; `fetch` when one is to be sent
     * from at_ps on, and says when the card has it. */
    uint64_t (*store)(void *context, uint32_t host, uint64_t at_ps, uint32_t bytes);
    uint64_t (*fetch)(void *context, uint32_t host, uint64_t at_ps, uint32_t bytes);
    /* A packet arrives soon: chances to prefetch what `packet` will touch, the second when what the
     * first asked for should be there. They must change nothing. NULL for none. */
    void (*ahead)(void *context, uint64_t cookie, uint32_t dst);
    void (*closer)(void *context, uint64_t cookie, uint32_t dst);
    /* The contents of a packet that was injected with this cookie, for nodes that look at them.
     * NULL for none. */
    uint8_t *(*contents)(void *context, uint64_t cookie);
    /* For traces: a packet occupies a channel from start to end. NULL for none. */
    void (*transmit)(void *context, uint32_t channel, uint64_t start_ps, uint64_t end_ps,
                     uint32_t src, uint32_t dst, uint32_t bytes);
};

struct network;

/* The topology must outlive the network. */
int network_create(struct network **out, struct sim_engine *engine, const struct topology *topology,
                   const struct net_config *config, const struct net_callbacks *callbacks,
                   struct spin_error *err);
void network_destroy(struct network *net);

/* A packet of `bytes` payload, at most the MTU, enters its host's port now. To the own host it
 * arrives at once. Should memory run out, or a packet not be possible, the engine stops and
 * network_check says so. */
void network_inject(struct network *net, uint64_t now_ps, uint32_t src, uint32_t dst,
                    uint32_t bytes, uint32_t flow, uint64_t cookie);
/* A message of any length, cut into packets; it enters the host's queue of messages at `at_ps`, now
 * or later. Messages of a host are sent one after the other. */
void network_send(struct network *net, uint64_t now_ps, uint64_t at_ps, uint32_t src, uint32_t dst,
                  uint64_t bytes, uint32_t flow, uint64_t cookie);
int network_check(const struct network *net, struct spin_error *err);
/* A packet will soon enter that host's port. */
void network_prefetch(const struct network *net, uint32_t host);

/* ---- nodes that look at what passes them ----
 *
 * A node, a switch or a host, can be given the packets that come to it, with their contents: a
 * switch with processors, a card between wire and host. It gets a packet when its last byte is in,
 * before it is sent on or delivered; so cut-through ends there. Packets of messages
 * (network_send) have no contents and are not shown, nor are corrupted ones. */
struct net_passing {
    uint64_t at_ps; /* now */
    uint32_t node;  /* hosts come first, then switches */
    uint32_t src, bytes;
    bool duplicate;
    /* What the node may change. */
    uint8_t *contents; /* as the callback has it, or NULL */
    uint64_t cookie;
    uint32_t dst, flow;
    uint64_t delay_ps; /* it goes on so much later; 0 at first */
};

enum net_pass {
    NET_PASS,   /* to `dst`, which at a host may be itself */
    NET_CONSUME /* its way ends here, with a callback of that fate */
};

typedef enum net_pass net_look(void *context, struct net_passing *packet);

/* From now on `look` is given what comes to the node; NULL for nobody. `look` may call
 * network_inject, network_send and network_emit. */
int network_attach(struct network *net, uint32_t node, net_look *look, void *context,
                   struct spin_error *err);
/* A packet that a node makes: it leaves through the node's port as if it had just been switched,
 * and arrives with the node as its source. Otherwise as network_inject. */
void network_emit(struct network *net, uint64_t now_ps, uint32_t node, uint32_t dst, uint32_t bytes,
                  uint32_t flow, uint64_t cookie);

struct net_counts {
    uint64_t injected, duplicated; /* packets */
    uint64_t fate[NET_FATES];      /* packets that ended so; their sum is injected + duplicated -
                                    * in_flight */
    uint64_t in_flight, most_in_flight;
    uint64_t hops;      /* packets times links */
    uint64_t queued_ps; /* time lost in queues, all packets */
    uint64_t wakes;     /* extra events of the credit scheme */
    uint64_t messages, messages_lost, retransmitted;
    uint64_t rerouted;   /* packets that left their usual path because of a broken link */
    uint64_t bytes_held; /* memory */
};
struct net_counts network_counts(const struct network *net);

struct net_link {
    uint64_t packets, bytes, busy_ps, queued_ps, drops;
    uint64_t queue_max_bytes; /* with credits an upper bound: it counts the time of stalls too */
};
struct net_link network_link(const struct network *net, uint32_t channel);

#endif
