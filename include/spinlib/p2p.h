/* spinlib/p2p.h: messages between two ranks as MPI has them (SC'17 section 5.1): tagged, matched
 * with receives in order, of any source and any tag, small (eager) and large (rendezvous). The
 * variant says who matches and who fetches large messages: the processor ("rdma"), the card and the
 * processor ("portals"), or the card alone ("spin"). See handlers/p2p/README.md. */
#ifndef SPINLIB_P2P_H
#define SPINLIB_P2P_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

struct spin_p2p;
struct spin_p2p_request; /* of a send or a receive, until it was waited for */

#define SPIN_P2P_ANY_SOURCE 0xffffffffu
#define SPIN_P2P_ANY_TAG    0xffffffffu /* the largest tag is one less */

struct spin_p2p_options {
    const char *variant;       /* "rdma", "portals" or "spin" (NULL) */
    uint32_t eager_bytes;      /* longer messages are fetched by their receiver (0: 16 KiB) */
    bool no_eager;             /* all messages but empty ones are fetched (eager_bytes is 0) */
    uint64_t unexpected_bytes; /* for messages that come before their receive (0: 1 MiB) */
    /* Sends, and receives, that the card has at a time (0: 4,096, at most 8,192). Those beyond it
     * wait for these to end, so a program must not need more at once to go on. */
    uint32_t depth;
};

/* All ranks call it with the same options, in the same order as other calls that take a portal
 * table entry. PTL_ARG_INVALID: there is no such variant, or an option is out of bounds. */
int spin_p2p_open(ptl_handle_ni_t ni, const struct spin_p2p_options *options,
                  struct spin_p2p **p2p);
/* When no rank has a request any more. Like all calls here it is made by one thread at a time. */
void spin_p2p_close(struct spin_p2p *p2p);

struct spin_p2p_status {
    uint32_t source, tag;
    uint64_t bytes; /* of the message; of a receive that was too short for it, what was stored */
    /* PTL_OK; PTL_NO_SPACE: the receive was too short, or the other rank has not opened its end, or
     * has no place for one more unexpected message; PTL_FAIL: that rank is gone; PTL_IGNORED:
     * cancelled. */
    int code;
    void *user; /* the request's, by spin_p2p_set_user */
};

/* Both return at once. `data` and `into` stay as they are until the request is done. A message has
 * less than 4 GiB. Messages of one context only match receives of that context. */
int spin_p2p_isend(struct spin_p2p *p2p, const void *data, uint64_t bytes, uint32_t to,
                   uint32_t tag, uint16_t context, struct spin_p2p_request **request);
int spin_p2p_irecv(struct spin_p2p *p2p, void *into, uint64_t room, uint32_t from, uint32_t tag,
                   uint16_t context, struct spin_p2p_request **request);
/* NULL until it is set. */
void spin_p2p_set_user(struct spin_p2p_request *request, void *user);

/* These return PTL_OK and the request's end in `status` (or NULL, for who does not care): the call
 * has succeeded even if the message has not. A request that is done is gone, and *request NULL;
 * requests that are NULL are skipped. */
int spin_p2p_wait(struct spin_p2p *p2p, struct spin_p2p_request **request,
                  struct spin_p2p_status *status);
int spin_p2p_test(struct spin_p2p *p2p, struct spin_p2p_request **request, bool *done,
                  struct spin_p2p_status *status);
/* `status`: of each, or NULL. */
int spin_p2p_waitall(struct spin_p2p *p2p, uint32_t count, struct spin_p2p_request **request,
                     struct spin_p2p_status *status);
/* *which is `count` if all are NULL. */
int spin_p2p_waitany(struct spin_p2p *p2p, uint32_t count, struct spin_p2p_request **request,
                     uint32_t *which, struct spin_p2p_status *status);
/* The next of all requests that is done, in the order in which they ended; status->user says which
 * it was. It costs nothing for those that are not done. PTL_EQ_EMPTY: none was within so many
 * milliseconds (PTL_TIME_FOREVER: it waits). */
int spin_p2p_next(struct spin_p2p *p2p, ptl_time_t timeout_ms, struct spin_p2p_status *status);

/* isend or irecv, and wait. The code is the message's. */
int spin_p2p_send(struct spin_p2p *p2p, const void *data, uint64_t bytes, uint32_t to, uint32_t tag,
                  uint16_t context);
int spin_p2p_recv(struct spin_p2p *p2p, void *into, uint64_t room, uint32_t from, uint32_t tag,
                  uint16_t context, struct spin_p2p_status *status);

/* Whether a message waits that such a receive would take: at once, or when there is one. */
int spin_p2p_iprobe(struct spin_p2p *p2p, uint32_t from, uint32_t tag, uint16_t context,
                    bool *found, struct spin_p2p_status *status);
int spin_p2p_probe(struct spin_p2p *p2p, uint32_t from, uint32_t tag, uint16_t context,
                   struct spin_p2p_status *status);
/* A receive that no message has matched yet ends as cancelled; any other goes on. Either way it has
 * to be waited for. */
int spin_p2p_cancel(struct spin_p2p *p2p, struct spin_p2p_request *request);

/* What an endpoint has done so far. */
struct spin_p2p_counts {
    uint64_t sent, received;
    uint64_t expected_small, expected_large;     /* cases I and II of Figure 5b: receive first */
    uint64_t unexpected_small, unexpected_large; /* cases III and IV: message first */
    uint64_t copied_bytes;                       /* by the processor */
    uint64_t host_gets;                          /* that the processor began */
    uint64_t resent;                             /* for want of room at the receiver */
    /* In use now, of the buffers for messages that come before their receive (with "rdma": for all
     * that come), as far as they were taken out. A buffer is used again when it is full. */
    uint64_t buffered_bytes;
};
void spin_p2p_counts(const struct spin_p2p *p2p, struct spin_p2p_counts *counts);

#ifdef __cplusplus
}
#endif

#endif
