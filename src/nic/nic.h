/* The card's logic, with no clock, no thread and no socket in it: packets, reliable delivery,
 * messages, handlers and their commands, Portals (portals.h). It is given packets, the host's calls,
 * results and `now`; it gives back actions. Simulated and live cards are its two drivers.
 *
 *     nic_packet_in(nic, packet, now);            a packet has arrived and was looked up
 *     while (nic_next(nic, &action))              do what it says: at once, or in virtual time
 *         ... nic_done(nic, action.token, now)    and say when it is done
 *     nic_deadline(nic)                           when nic_tick wants to be called: retransmission
 *
 * One nic serves one process (nid, pid). Nothing here allocates for a packet: packets, messages and
 * tasks come from pools that grow to what is in flight. */
#ifndef SPIN_NIC_NIC_H
#define SPIN_NIC_NIC_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/message.h"
#include "nic/portals.h"

/* A packet. Buffers are counted: the sender's copy for retransmission is the one in flight. */
struct nic_packet {
    uint32_t references;
    struct nic_address source, target;
    uint8_t kind;                /* data, transport acknowledgement */
    uint32_t sequence, ack, sack; /* reliable delivery; unused where the network is reliable */
    uint32_t message_number;     /* of the source's messages to this target */
    bool first, last;            /* of its message */
    uint64_t offset;             /* of its data in the message */
    uint32_t bytes;              /* of data */
    struct nic_message message;  /* of the first packet */
    uint8_t *data;               /* room for the MTU */
};

enum nic_handler_kind { NIC_HEADER_HANDLER, NIC_PAYLOAD_HANDLER, NIC_COMPLETION_HANDLER };

/* A handler to be run. It ends by nic_handler_done. */
struct nic_task {
    uint8_t kind;
    uint32_t entry;
    const struct portals_handlers *handlers; /* image, HPU memory */
    const struct nic_message *message;       /* fields for ptl_header_t */
    uint64_t me_offset;
    const uint8_t *data; /* user header; the packet's payload */
    uint32_t bytes, user_hdr_bytes;
    uint64_t offset; /* of the payload in the message */
    uint32_t dropped_bytes;
    bool flow_control_triggered;
};

enum nic_action_kind {
    NIC_SEND,  /* `packet` onto the wire; done: it has left */
    NIC_FETCH, /* from `host` memory to the card's `local`; done: it is there */
    NIC_STORE, /* from the card's `local` to `host` memory */
    NIC_AMO,   /* an atomic on host memory: there and back; `done` performs it */
    NIC_RUN,   /* `task`, on any HPU */
    NIC_RAISED, /* an event or a counter of the host's has changed; no nic_done */
};

struct nic_action {
    uint8_t kind;
    bool from_handler; /* a handler's own DMA: for priorities and statistics */
    uint32_t token;
    struct nic_packet *packet;
    const struct nic_task *task;
    uint8_t *host, *local;
    uint64_t bytes;
};

struct nic_config {
    struct nic_address address;
    uint32_t mtu_bytes;
    bool reliable, ordered; /* what the network already gives: no acknowledgements then */
    uint64_t retry_time;    /* in the driver's unit of time */
    uint32_t retries;       /* then the message is undeliverable */
    uint32_t window_packets; /* on the way to one peer */
    uint32_t hpu_memory_bytes, contexts; /* handlers in flight: more triggers flow control */
};

struct nic;

int nic_new(struct nic **out, const struct nic_config *config, struct spin_error *err);
void nic_free(struct nic *nic);
struct portals *nic_portals(struct nic *nic);

struct nic_packet *nic_packet_new(struct nic *nic); /* for a driver that reads a wire */
void nic_packet_keep(struct nic_packet *packet);
void nic_packet_release(struct nic *nic, struct nic_packet *packet);

void nic_packet_in(struct nic *nic, struct nic_packet *packet, uint64_t now);
bool nic_next(struct nic *nic, struct nic_action *action);
void nic_done(struct nic *nic, uint32_t token, uint64_t now);
uint64_t nic_deadline(const struct nic *nic); /* UINT64_MAX: none */
void nic_tick(struct nic *nic, uint64_t now);

/* A command of the running handler `task`, as spin/driver.h numbers them. `reach` finds HPU memory
 * behind a handler's address, or NULL. */
enum nic_command_result {
    NIC_COMMAND_DONE,  /* `result` is there */
    NIC_COMMAND_WAIT,  /* no room now: try again after the next nic_done */
    NIC_COMMAND_FAULT, /* malformed */
    NIC_COMMAND_SEGV,  /* names memory that the handler does not have */
};
enum nic_command_result nic_command(struct nic *nic, const struct nic_task *task, uint32_t number,
                                    const uint32_t *word,
                                    uint8_t *(*reach)(void *context, uint32_t address,
                                                      uint64_t bytes, bool write),
                                    void *context, uint32_t *result, uint64_t now);
/* Has the command with this handle been done? */
bool nic_command_test(struct nic *nic, const struct nic_task *task, uint32_t handle, bool *known);
/* `ending` is a return code of spin/handler.h; a fault of the processor is SEGV. */
void nic_handler_done(struct nic *nic, const struct nic_task *task, int32_t ending, uint64_t now);

#endif
