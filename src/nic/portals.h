/* Portals 4 in one process: interfaces, tables, lists, events, counters, triggered operations. No
 * clock, no thread, no socket and no packet: it is given calls of the host program, headers of
 * messages and news of data that has moved; it gives back messages to send and says that something
 * was raised. Its owner (nic.h) moves the data.
 *
 * At the target of a message:
 *     portals_header     permission, matching, offsets: what to do with it
 *     portals_segments   where in host memory its bytes go to or come from
 *     portals_apply      one packet of an atomic, once the data of both sides is at hand
 *     portals_done       all data has moved: events, counters, unlinking, acknowledgement
 * At its initiator:
 *     portals_sent       the source buffer may be used again
 *     portals_segments   of a reply: where its bytes go
 *     portals_answered   an acknowledgement or a whole reply is in
 *     portals_undeliverable */
#ifndef SPIN_NIC_PORTALS_H
#define SPIN_NIC_PORTALS_H

#include <stdbool.h>
#include <stdint.h>

#include "nic/message.h"
#include "portals4.h"

struct portals;

struct portals_owner {
    void *context;
    /* A message for the network. Its payload comes from portals_segments with its `initiator` (or,
     * for a reply, its delivery) when the owner asks for it; nothing is copied here. */
    void (*send)(void *context, const struct nic_message *message, uint32_t delivery);
    /* An event or a counter has changed: whoever waits looks again. */
    void (*raised)(void *context);
};

/* The handlers of a matching entry (P4sPIN), as the card needs them. */
struct portals_handlers {
    const struct spin_image *image;
    uint32_t header, payload, completion; /* entry points; 0: none */
    uint8_t *state;                       /* HPU memory */
    uint32_t state_bytes;
    uint64_t host_bytes; /* of the handler's host memory; pieces by portals_handler_segments */
    uint32_t user_hdr_bytes;
};

/* A message at its target, from its header to portals_done. */
struct portals_delivery {
    uint8_t fail;     /* PTL_NI_OK, or why nothing of it is accepted */
    uint64_t mlength; /* bytes of it that are */
    uint64_t offset;  /* in the entry */
    const struct portals_handlers *handlers; /* NULL: none */
    bool list;                               /* overflow? */
};

/* Number of the delivery; it lasts until portals_done. */
uint32_t portals_header(struct portals *p, const struct nic_message *message);
const struct portals_delivery *portals_delivery(struct portals *p, uint32_t delivery);

/* Pieces of host memory behind bytes [offset, offset + length) of a delivery's or an operation's
 * data; returns their number, at most `room`; call again from where they end. */
uint32_t portals_delivery_segments(struct portals *p, uint32_t delivery, uint64_t offset,
                                   uint64_t length, struct nic_segment *segments, uint32_t room);
uint32_t portals_source_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                 uint64_t length, struct nic_segment *segments, uint32_t room);
uint32_t portals_reply_segments(struct portals *p, uint64_t initiator, uint64_t offset,
                                uint64_t length, struct nic_segment *segments, uint32_t room);
uint32_t portals_handler_segments(struct portals *p, uint32_t delivery, uint64_t offset,
                                  uint64_t length, struct nic_segment *segments, uint32_t room);

/* One packet of an atomic: operates on host memory; `before` takes what was there (fetch). */
void portals_apply(struct portals *p, uint32_t delivery, uint64_t offset, const uint8_t *data,
                   uint64_t length, uint8_t *before);

/* How a delivery ended, where handlers or the card changed what Portals alone would do. */
struct portals_ending {
    uint8_t fail;     /* PTL_NI_OK; PTL_NI_SEGV and the like raise an error event */
    bool pending;     /* a handler said so: the entry is not completed by this message */
    uint64_t dropped; /* bytes that handlers dropped: mlength is less by them */
};
void portals_done(struct portals *p, uint32_t delivery, struct portals_ending how);

void portals_sent(struct portals *p, uint64_t initiator);
void portals_answered(struct portals *p, const struct nic_message *answer);
void portals_undeliverable(struct portals *p, uint64_t initiator);

/* Flow control, when the card has no room for what a portal table entry is sent. */
void portals_exhausted(struct portals *p, uint32_t delivery);

#endif
