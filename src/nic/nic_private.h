/* The parts of the card's logic, for its own files:
 *
 *     nic.c          actions and what follows when they are done
 *     nic_send.c     messages out: queues, packets, fetching their data
 *     nic_receive.c  messages in: storing, atomics, answers
 *     nic_handler.c  handlers of a message and their return codes
 *     nic_command.c  what handlers ask for
 *
 * Whatever is referred to by an action in flight is a record and lives until the action is done. */
#ifndef SPIN_NIC_PRIVATE_H
#define SPIN_NIC_PRIVATE_H

#include "nic/delivery.h"
#include "nic/nic.h"
#include "nic/no_memory.h"
#include "nic/records.h"

#define NIC_SEGMENTS 8 /* pieces of memory asked for at once */

struct nic_peer {
    struct delivery_peer delivery;                  /* must be first */
    struct outgoing *queue, **queue_end;            /* to be made packets of, in order */
    struct departure *departures, **departures_end; /* packets whose data is fetched, in order */
    struct outgoing *all;                           /* everything that is not over */
    struct incoming *open;                          /* of which packets are still to come */
    bool in_turn;
    uint32_t turn_packets; /* sent in this turn */
    struct nic_peer *next_turn;
};

/* A message to a peer. It is over when its last packet has departed, or, if it wants an answer,
 * when that is there. What travels as its initiator is this record's number. */
struct outgoing {
    struct record record;
    struct nic_peer *peer;
    struct nic_message message;
    uint64_t initiator; /* in Portals */
    uint32_t delivery;  /* whose data a reply carries, or PORTALS_NONE */
    bool begun, request, wants_answer, from_handler;
    uint32_t departing;        /* packets */
    uint64_t packed;           /* bytes in packets so far */
    struct nic_packet *ready;  /* whose data is on the card already, instead of fetching it */
    struct incoming *reply_to; /* of a reply: what it answers */
    struct incoming *answer;   /* that is being received */
    bool to_card;              /* a get into HPU memory, */
    struct task *waiting;      /* for this handler; NULL: it is gone */
    struct outgoing *next, *next_all, **link_all;
};

/* A packet on its way out of the card, until all its data is there. */
struct departure {
    struct record record;
    struct nic_peer *peer;
    struct outgoing *outgoing; /* NULL: given up */
    struct nic_packet *packet;
    uint32_t fetches;
    struct departure *next;
};

/* What becomes of the data of a message. */
enum incoming_mode { MODE_DEFAULT, MODE_HANDLERS, MODE_DROP };
enum incoming_phase { PHASE_HEADER, PHASE_BODY, PHASE_COMPLETION };

/* A message from a peer, until everything that it caused is done. */
struct incoming {
    struct record record;
    struct nic_peer *peer;
    struct nic_message message;
    uint32_t message_number;
    uint32_t delivery;         /* PORTALS_NONE: none */
    struct outgoing *answered; /* ack, reply: the request */
    uint8_t mode, phase;
    uint8_t fail;                                                      /* the first error */
    bool refused, pending_entry, flow_control, aborted, replied, seen; /* by handlers */
    uint64_t mlength, received, dropped;
    uint32_t pending;                          /* actions, handlers and replies that are not done */
    struct nic_packet *waiting, **waiting_end; /* for the header handler's end */
    struct nic_packet *results;                /* of a fetching atomic or small get, by offset */
    struct incoming *next_open;
};

struct task {
    struct record record;
    struct nic_task seen; /* by the driver */
    struct incoming *message;
    struct nic_packet *packet;  /* whose payload it has, or NULL */
    uint32_t handles, commands; /* given out; not done */
    struct command *first;
    bool ended, blocked, in_room_queue;
    int32_t ending;
    struct outgoing *get; /* that it waits for */
    bool get_done;
    struct task *next_waiter;
};

/* A handler's access to host memory. */
struct command {
    struct record record;
    struct task *task;
    uint32_t handle, transfers;
    uint32_t number, type; /* of an atomic: SPIN_COMMAND_*, PTL_*_T */
    uint32_t local_bytes;
    uint8_t *host, *local;
    uint64_t operand;
    struct command *next;
};

/* An action that the driver was given, by its token. */
enum transfer_purpose {
    SEND_PACKET,
    FETCH_DEPARTURE,
    MOVE_MESSAGE,
    APPLY_ATOMIC,
    MOVE_COMMAND,
    ATOMIC_COMMAND,
};
struct transfer {
    struct record record;
    uint8_t purpose;
    bool from_handler;
    struct nic_peer *peer;
    uint32_t sequence;
    uint64_t transmission;
    struct departure *departure;
    struct incoming *incoming;
    struct nic_packet *packet;
    struct command *command;
};

struct nic {
    struct nic_config config;
    struct nic_counts counts;
    struct portals *portals;
    struct delivery *delivery;
    uint64_t now;
    struct nic_action *ring; /* of actions for the driver */
    uint32_t ring_first, ring_count, ring_room;
    bool raised; /* one of them says so already */
    struct records outgoing, departures, incoming, tasks, commands, transfers;
    struct nic_peer *turn, **turn_end;   /* peers that may have something to send */
    uint32_t sending;                    /* packets between queue and wire */
    struct nic_packet *loop, **loop_end; /* to ourselves */
    uint32_t running;                    /* handlers that take a context */
    uint32_t handler_packets;
    struct task *room_queue;        /* handlers that wait for handler_packets */
    struct incoming *replying;      /* whose reply Portals is making now */
    struct nic_packet *from_device; /* data of the message that Portals is making now */
    struct outgoing *made;          /* that message */
};

/* nic.c */
struct transfer *nic_action(struct nic *nic, enum nic_action_kind kind,
                            enum transfer_purpose purpose, struct nic_action action);
void nic_tell(struct nic *nic, struct nic_action action); /* one without nic_done */

/* nic_send.c */
void nic_send_message(void *context, const struct nic_message *message, uint32_t delivery);
bool nic_send_more(struct nic *nic); /* true: there are new actions */
void nic_send_room(void *context, struct delivery_peer *peer);
void nic_send_fetched(struct nic *nic, struct departure *departure);
void nic_send_lost(struct nic *nic, struct nic_peer *peer);
void nic_send_over(struct nic *nic, struct outgoing *o); /* answered */

/* nic_receive.c */
void nic_receive_packet(void *context, struct delivery_peer *peer, struct nic_packet *packet);
void nic_receive_body(struct nic *nic, struct incoming *in);  /* the header handler has ended */
void nic_receive_check(struct nic *nic, struct incoming *in); /* is it complete? */
void nic_receive_finish(struct nic *nic, struct incoming *in);
void nic_receive_moved(struct nic *nic, struct transfer *t);
void nic_receive_apply(struct nic *nic, struct transfer *t);
void nic_receive_lost(struct nic *nic, struct nic_peer *peer);

/* nic_handler.c */
void nic_handler_message(struct nic *nic, struct incoming *in, struct nic_packet *first);
void nic_handler_packet(struct nic *nic, struct incoming *in, struct nic_packet *packet);
void nic_handler_completion(struct nic *nic, struct incoming *in);
void nic_handler_drained(struct nic *nic, struct task *task); /* no command is left */
const struct portals_handlers *nic_handlers(struct nic *nic, const struct incoming *in);
void nic_handler_resume(struct nic *nic, struct task *task);

/* nic_command.c */
void nic_command_moved(struct nic *nic, struct command *command);
void nic_command_atomic(struct nic *nic, struct command *command);
void nic_command_answered(struct nic *nic, struct outgoing *o);
void nic_command_room(struct nic *nic);

static inline struct task *nic_task_of(const struct nic_task *seen) {
    return (struct task *)((char *)(uintptr_t)seen - offsetof(struct task, seen));
}

#endif
