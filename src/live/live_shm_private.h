/* The transport over shared memory from inside: what goes out (live_shm_out.c), what comes in
 * (live_shm_in.c), and peers, polling and sleeping (live_shm.c). */
#ifndef LIVE_SHM_PRIVATE_H
#define LIVE_SHM_PRIVATE_H

#include "live/live_box.h"
#include "live/live_huge.h"
#include "live/live_shm.h"
#include "nic/wire_short.h"

#define SHORT_WORDS 6 /* of a short record: all of its message but hdr_data or initiator */

enum out_state {
    OUT_NONE,    /* it has not been looked for, or was not there */
    OUT_CLAIMED, /* the lane is asked for */
    OUT_OPEN,
};

enum offer_state {
    OFFER_NONE,
    OFFER_DUE, /* its record has found no room in the lane */
    OFFER_MADE,
};

/* Whether the kernel lets one process use the memory of another. */
enum allowed { NOT_TRIED, ALLOWED, FORBIDDEN };

/* A process with which packets were exchanged. It stays when the process ends. */
struct live_shm_peer {
    struct nic_address address;
    struct live_box_view view;
    enum out_state out_state;
    struct live_ring_out out;
    bool refused, was_there; /* a packet; ever */
    uint64_t given_up_ns;    /* while it is not there */
    /* Large packets out: what is left of the one that is being copied; slots. */
    bool asked_bulk, has_bulk, bulk_is_last;
    uint32_t bulk_left, bulk_part;
    struct nic_packet bulk;
    uint64_t bulk_sent, bulk_head; /* filled; known to be empty again */
    enum offer_state offer;        /* of all that is left */
    enum allowed may_help;
    uint64_t offers;    /* made so far */
    uint32_t declining; /* so many are not offered */
    bool bulk_bad;      /* could not be read */
    /* In. */
    bool gave_bulk;
    uint64_t bulk_taken;
    enum allowed may_fetch;
    uint64_t answers; /* to offers, so far */
    struct live_offer_choice choice;
    uint32_t pieces; /* bytes that were handed over of the large packet that comes in pieces */
    struct live_ring_in in;
    struct nic_put put;             /* the last that was short, */
    uint64_t last_put[SHORT_WORDS]; /* as it came; the first word is 0: there is none */
    _Atomic uint64_t in_life;       /* of whom the lane is; 0: nobody's, whatever stands in it */
};

struct live_shm {
    struct live_transport transport;
    struct live_shm_options o;
    struct live_box box;
    struct live_shm_peer *peer[LIVE_PIDS]; /* by pid */
    struct live_shm_peer *known[LIVE_PIDS];
    uint32_t knowns, refused; /* peers */
    /* Whose lanes are polled; other threads look at them too, so none is ever taken away. */
    _Atomic uint32_t lanes;
    uint32_t turn;  /* whose turn it is */
    bool enough;    /* the card wants no more in this poll */
    bool told_full; /* that /dev/shm is */
    struct live_shm_peer *_Atomic lane[LIVE_PIDS];
    struct live_huge huge;
    struct live_shm_peer *fetching;           /* of whom the packet is whose data is elsewhere */
    uint64_t unfetched;                       /* bytes of it */
    bool unreadable;                          /* some of that data */
    const struct live_offer_choice *declined; /* of whom a message begins to come through slots */
};

static inline struct live_shm *shm_of(struct live_transport *t) {
    return (struct live_shm *)t;
}

/* Makes it where there is none; NULL: no memory, or no process of this machine. */
struct live_shm_peer *shm_find_peer(struct live_shm *s, struct nic_address address);
/* Peers are told on which processor we are: its number and 1. */
uint32_t shm_tell_processor(struct live_shm *s);

/* ---- out ---- */

bool shm_send_short(struct live_transport *t, const struct nic_message *m, uint32_t number,
                    const uint8_t *data);
enum live_sent shm_send(struct live_transport *t, const struct nic_packet *packet);
bool shm_lends(struct live_transport *t, struct nic_address target);
void shm_accept_again(struct live_shm *s, struct live_shm_peer *peer);
bool shm_open_view(struct live_shm *s, struct live_shm_peer *peer);
/* Claims the peer's lane if that was not done yet. */
bool shm_is_out_open(struct live_shm *s, struct live_shm_peer *peer);
/* Room for the largest packet. If there is none the peer tells when there is more: it takes the
 * wish away each time, so every look that finds too little renews it. */
bool shm_has_room(struct live_shm *s, struct live_shm_peer *peer);
/* Goes on with a large packet; true: all of it is sent. */
bool shm_push_bulk(struct live_shm *s, struct live_shm_peer *peer);
bool shm_bulk_may_go_on(struct live_shm_peer *peer);

/* ---- in ---- */

enum nic_status shm_fetch(struct live_transport *t, uint8_t *to, const uint8_t *from,
                          uint64_t bytes);
void shm_stored(struct live_transport *t, const uint8_t *to);
/* Its offer is answered, and nobody has seen to that yet. */
bool shm_is_answered(const struct live_shm_peer *peer);
/* Hands over what is in a lane: at most so many records, and no more than the card wants. */
void shm_drain(struct live_shm *s, struct live_shm_peer *peer, uint32_t most);
void shm_drain_all(struct live_shm *s, struct live_shm_peer *peer);

#endif
