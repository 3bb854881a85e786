/* The card's logic, with no clock, no thread and no socket in it: packets, reliable delivery,
 * messages, handlers and their commands, Portals (portals.h). It is given packets, the host's
 * calls, results and `now`; it gives back actions. Simulated and live cards are its two drivers.
 *
 *     nic_packet_in(nic, packet, now);            a packet has arrived and was looked up
 *     while (nic_next(nic, &action))              do what it says: at once, or in virtual time
 *         ... nic_done(nic, action.token, now)    and say when it is done
 *     nic_deadline(nic)                           when nic_tick wants to be called
 *
 * After every call of this file and of Portals there may be new actions: ask until there are none.
 * One nic serves one process (nid, pid). Nothing here allocates for a packet: packets, messages and
 * tasks come from pools that grow to what is in flight. docs/nic.md explains. */
#ifndef SPIN_NIC_NIC_H
#define SPIN_NIC_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/message.h"
#include "nic/portals.h"
#include "openspin.h"

enum nic_packet_kind {
    NIC_DATA,
    NIC_RECEIPT, /* acknowledges packets, carries nothing */
    NIC_PROBE,   /* asks for a receipt: is the peer alive? */
};

/* A packet. References are counted: the sender's copy for retransmission is the one in flight, so
 * nobody but its maker writes to it. */
struct nic_packet {
    uint32_t references;
    uint8_t kind;
    bool first, last; /* of its message */
    struct nic_address source, target;
    /* Reliable delivery; 0 where the network is reliable. A stream is all that a source sends to a
     * target until one of them gives the other up; it begins with sequence 0, message 0. */
    uint32_t stream, sequence;
    uint32_t ack_stream, ack;   /* every packet of that stream of the other direction below `ack` is
                                   here, */
    uint64_t sack;              /* and ack + 1 + i where bit i is set */
    uint32_t message_number;    /* of the source's messages to this target */
    uint64_t offset;            /* of its data in the message */
    uint32_t bytes;             /* of data */
    struct nic_message message; /* of the first packet */
    uint8_t *data;              /* room for the MTU */
    struct nic_pool *pool;      /* where it comes from and goes back to */
    struct nic_packet *next;    /* of whoever holds it */
};

/* Packets, shared by the cards of one driver: what one sends, another releases. */
struct nic_pool;
int nic_pool_new(struct nic_pool **out, uint32_t mtu_bytes, struct spin_error *err);
void nic_pool_free(struct nic_pool *pool); /* after all cards */
/* How many packets are in use: 0 when nothing is in flight. */
uint64_t nic_pool_used(const struct nic_pool *pool);

/* Zeroed but for data and message; one reference. NULL: no memory. */
struct nic_packet *nic_packet_new(struct nic_pool *pool);
void nic_packet_keep(struct nic_packet *packet);
void nic_packet_release(struct nic_packet *packet);

enum nic_handler_kind { NIC_HEADER_HANDLER, NIC_PAYLOAD_HANDLER, NIC_COMPLETION_HANDLER };

/* A handler to be run. It ends by nic_handler_done. */
struct nic_task {
    uint8_t kind;
    uint32_t entry;
    uint32_t message_id; /* the same for all handlers of a message: for traces */
    const struct portals_handlers *handlers; /* image, HPU memory */
    const struct nic_message *message;       /* fields for ptl_header_t */
    uint64_t me_offset;
    const uint8_t *data; /* user header; the packet's payload */
    uint32_t bytes, user_hdr_bytes;
    uint64_t offset; /* of the payload in the message */
    uint32_t dropped_bytes;
    bool flow_control_triggered;
};

/* Reads, writes and atomics of host memory up to this size are done in the order of their actions
 * where they overlap: what Portals promises by max_war_ordered_size and max_waw_ordered_size. */
#define NIC_ORDERED_BYTES 64

enum nic_action_kind {
    NIC_SEND,   /* `packet` onto the wire; the driver owns a reference. done: it has left */
    NIC_FETCH,  /* the driver copies from `host` memory to the card's `local`; done: it is there */
    NIC_STORE,  /* likewise from `local` to `host` */
    NIC_AMO,    /* an atomic on host memory, there and back; nic_done performs it */
    NIC_RUN,    /* `task`, on any HPU; it ends by nic_handler_done, not by nic_done */
    NIC_RESUME, /* `task` was told to wait and shall try again; no nic_done */
    NIC_RAISED, /* an event or a counter of the host's has changed; no nic_done */
};

struct nic_action {
    uint8_t kind;
    bool from_handler; /* a handler's own: for priorities and statistics */
    uint32_t token;
    struct nic_packet *packet;
    const struct nic_task *task;
    uint8_t *host, *local;
    uint64_t bytes;
};

struct nic_config {
    struct nic_address address;
    struct nic_pool *pool;
    uint32_t mtu_bytes;      /* of data in a packet: a multiple of 64, at most the pool's */
    bool reliable, ordered;  /* what the network already gives; reliable: no acknowledgements */
    uint64_t retry_time;     /* in the driver's unit of time: longer than there and back */
    uint32_t retries;        /* then the peer is given up: its messages are undeliverable */
    uint32_t window_packets; /* on the way to one peer, 1 to 4096; 0: 64 */
    uint32_t stream;         /* higher than in an earlier life of this process */
    uint32_t send_packets;   /* being fetched or waiting to leave; 0: 32 */
    uint32_t turn_packets;   /* of a message, then it is another peer's turn; 0: 1 */
    uint32_t contexts; /* handlers queued or running; more triggers flow control; 0: no limit */
    uint32_t handler_packets; /* of handlers, waiting to leave: more makes them wait; 0: no limit */
    /* Copied, but for the address; NULL: portals_config_default. */
    const struct portals_config *portals;
};

struct nic;

int nic_new(struct nic **out, const struct nic_config *config, struct spin_error *err);
void nic_free(struct nic *nic);
struct portals *nic_portals(struct nic *nic);

void nic_packet_in(struct nic *nic, struct nic_packet *packet,
                   uint64_t now); /* takes a reference */
bool nic_next(struct nic *nic, struct nic_action *action);
void nic_done(struct nic *nic, uint32_t token, uint64_t now);
uint64_t nic_deadline(const struct nic *nic); /* UINT64_MAX: none */
void nic_tick(struct nic *nic, uint64_t now); /* at or after the deadline */

/* Nothing is under way: no message, no handler, no answer that is waited for. */
bool nic_quiet(const struct nic *nic);

/* What has happened so far. */
struct nic_counts {
    uint64_t sent, received;            /* data packets, without the next two lines */
    uint64_t retransmitted, receipts;   /* sent */
    uint64_t duplicates, out_of_window; /* received, thrown away */
    uint64_t malformed;                 /* likewise: contradict themselves or what came before */
    uint64_t given_up;                  /* peers */
    uint64_t messages_in, messages_out;
    uint64_t tasks, flow_control;
};
const struct nic_counts *nic_counts(const struct nic *nic);

/* Bytes of the packet on a wire: its header as wire.h writes it, and its data. */
uint32_t nic_packet_bytes(const struct nic_packet *packet);

/* A command of the running handler `task`, as spin/driver.h numbers them. `reach` finds HPU memory
 * behind a handler's address, or NULL; it must last until the command is done. `result` is what
 * the handler finds in the register: a handle for DMA, a value for CAS, else PTL_OK or an error. Of
 * a command that is refused `refusal` says why. */
enum nic_command_result {
    NIC_COMMAND_DONE,  /* `result` is there */
    NIC_COMMAND_WAIT,  /* not yet: the same command again after NIC_RESUME for this task */
    NIC_COMMAND_FAULT, /* refused: malformed */
    NIC_COMMAND_SEGV,  /* refused: names HPU memory that the handler does not have */
    NIC_COMMAND_HOST,  /* refused: names host memory that is not there */
};
typedef uint8_t *nic_reach(void *context, uint32_t address, uint64_t bytes, bool write);
enum nic_command_result nic_command(struct nic *nic, const struct nic_task *task, uint32_t number,
                                    const uint32_t *word, nic_reach *reach, void *context,
                                    uint32_t *result, struct spin_refusal *refusal, uint64_t now);
/* Has the command with this handle been done? FAULT: nothing of that handle was ever started.
 * DONE with `result` 1 or 0; with `wait`, WAIT instead of 0, and NIC_RESUME follows. */
enum nic_command_result nic_command_test(struct nic *nic, const struct nic_task *task,
                                         uint32_t handle, bool wait, uint32_t *result,
                                         struct spin_refusal *refusal);
/* `ending` is a return code of spin/handler.h; a fault of the processor is SEGV. The task is gone
 * after this. */
void nic_handler_done(struct nic *nic, const struct nic_task *task, int32_t ending, uint64_t now);

#endif
