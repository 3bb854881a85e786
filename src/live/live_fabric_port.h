/* An endpoint of libfabric (FI_EP_RDM: reliable datagrams) with its memory: frames that arrive,
 * frames that leave. libfabric's headers are needed to build it; the library is loaded by
 * fabric_port_open, so that libportals works where it is not installed.
 *
 * One thread at a time: it has a lock of its own, as `ready` is asked without the card's. */
#ifndef SPIN_LIVE_LIVE_FABRIC_PORT_H
#define SPIN_LIVE_LIVE_FABRIC_PORT_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

struct live_fabric_port;

/* Room for a frame; from fabric_port_slot until it is sent, or from fabric_port_take until
 * fabric_port_post. */
struct live_fabric_slot {
    uint8_t *bytes;
    uint32_t length;
    bool incoming;
    uint32_t peer, life; /* the user's own: to whom it goes */
};

struct live_fabric_port_options {
    const char *provider;  /* as fi_info names it; NULL: the best */
    const char *interface; /* an IPv4 address, or a domain as fi_info names it; NULL: any */
    uint32_t frame_bytes;  /* at most */
};

int fabric_port_open(struct live_fabric_port **out, const struct live_fabric_port_options *options,
                     struct spin_error *err);
void fabric_port_close(struct live_fabric_port *p);
const char *fabric_port_provider(const struct live_fabric_port *p);
/* Its address; returns the number of bytes, 0: there is no such room. */
uint32_t fabric_port_address(struct live_fabric_port *p, void *bytes, uint32_t room);
/* To sleep on once fabric_port_arm says so; -1: there is none. */
int fabric_port_fd(const struct live_fabric_port *p);
/* A frame of up to so many bytes has left when it is sent: nothing of it waits for the peer. */
uint32_t fabric_port_inject(const struct live_fabric_port *p);

/* A peer's address becomes a number. */
bool fabric_port_insert(struct live_fabric_port *p, const void *address, uint64_t *number);

enum fabric_sent {
    FABRIC_SENT,
    FABRIC_AGAIN,  /* not now */
    FABRIC_FAILED, /* never */
};
/* NULL: all are on their way. */
struct live_fabric_slot *fabric_port_slot(struct live_fabric_port *p);
/* The slot goes back in any case, at once or when it has left. */
enum fabric_sent fabric_port_send(struct live_fabric_port *p, struct live_fabric_slot *s,
                                  uint64_t number);
bool fabric_port_sending(struct live_fabric_port *p); /* something is on its way */

/* The next frame that has arrived (s->incoming; it goes back by fabric_port_post), or one that
 * could not be sent (which is only looked at). NULL: none. */
struct live_fabric_slot *fabric_port_take(struct live_fabric_port *p);
void fabric_port_post(struct live_fabric_port *p, struct live_fabric_slot *s);
/* Something to take? Any thread may ask. */
bool fabric_port_ready(struct live_fabric_port *p);
/* True: nothing is there, and fabric_port_fd becomes readable when something is. */
bool fabric_port_arm(struct live_fabric_port *p);

#endif
