/* How ranks of the store send messages (store_message.h) to each other and learn what happened: one
 * event queue per rank, a queue of messages that came, and buffers of those that go. */
#ifndef STORE_PORT_H
#define STORE_PORT_H

#include "spinlib/spinlib.h"
#include "store_message.h"

/* Match bits beside those of storage_wire.h, at the same portal table entry. */
enum { STORE_TO_SERVICE = 0x61, STORE_TO_CLIENT = 0x62, STORE_TO_NODE = 0x63 };
enum { STORE_QUEUES = 2 };

struct store_buffer {
    struct store_buffer *next_free;
    uint32_t to;
    enum store_kind kind;
    bool acknowledged; /* its end is an ACK event */
    uint8_t bytes[STORE_MESSAGE_BYTES + STORAGE_TAG_BYTES];
};

/* Signed messages: what a rank knows of another. A session is chosen by the one who could be
 * fooled by old messages: the service for its clients, a node for itself. */
struct store_peer {
    uint32_t session, next; /* that messages are signed for; from the next such message on */
    uint32_t serial;        /* of its last question */
    bool asked;             /* there was one */
};

struct store_port {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq;
    ptl_handle_md_t md;    /* of all memory */
    ptl_match_bits_t bits; /* of what we take */
    struct spin_linked entry[STORE_QUEUES];
    uint8_t *queue[STORE_QUEUES];
    struct store_buffer *buffer, *free_buffer;
    struct store_message *in, *out; /* the message that came; the one to be sent */
    /* If messages are signed. */
    uint32_t key[2];
    struct store_peer
        *peer; /* by rank; of the service alone where this is not it; NULL: not signed */
    bool serves;
    uint64_t forged;
};

int store_port_open(struct store_port *port, ptl_handle_ni_t ni, ptl_match_bits_t bits);
void store_port_close(struct store_port *port);
/* From now on messages are signed, with the key of the rank that is not the service. */
int store_port_sign(struct store_port *port, uint64_t secret, bool serves);
struct store_peer *store_port_peer(struct store_port *port, uint32_t rank);
/* Hides what only `rank` (of whoever is not the service) may know, or shows it again: 8 bytes for
 * each number, which is never used for two of them. */
void store_port_hide(const struct store_port *port, uint32_t rank, uint64_t number,
                     uint32_t words[2]);

/* port->out, with nothing but its kind. */
struct store_message *store_port_begin(struct store_port *port, enum store_kind kind);
/* Sends it. PTL_NO_SPACE: as many are under way as there are buffers. With `acknowledged`
 * store_port_next says what became of it: STORE_PORT_SENT. */
int store_port_send(struct store_port *port, uint32_t to, ptl_match_bits_t bits, bool acknowledged);
/* An answer to port->in, whose sender was `to`. */
int store_port_answer(struct store_port *port, uint32_t to, ptl_match_bits_t bits,
                      enum store_status status);

enum store_port_news {
    STORE_PORT_MESSAGE, /* port->in is from event->initiator.rank */
    STORE_PORT_SENT,    /* *sent has arrived, or has not: event->ni_fail_type */
    STORE_PORT_OTHER,   /* an event of somebody else's */
    STORE_PORT_NOTHING, /* within the time */
};
/* PTL_OK, or what is wrong with the event queue. `sent` is good until the next call that sends. */
int store_port_next(struct store_port *port, ptl_time_t timeout_ms, enum store_port_news *news,
                    ptl_event_t *event, const struct store_buffer **sent);

#endif
