/* The parts of a rank of the store: store_rank.c (joining), store_service.c, store_node.c,
 * store_client.c (writes), store_read.c and store_repair.c. */
#ifndef STORE_PRIVATE_H
#define STORE_PRIVATE_H

#include "store_crc.h"
#include "store_port.h"

enum {
    STORE_SLACK_S = 3,       /* that a node's clock may be behind the service's */
    STORE_FLIGHTS = 32,      /* requests to nodes that are under way, at most */
    STORE_GENERATIONS = 255, /* of keys */
};

struct store_service;
struct store_node;

/* A message of a request. */
struct store_put {
    bool sent, over; /* our memory is not looked at any more; it has arrived, or never will */
    uint32_t place;
    ptl_handle_md_t md;
    ptl_iovec_t piece[3]; /* head, data, zeroes */
    struct storage_head head;
    uint8_t *signed_message; /* if packets are authenticated: as it travels */
    uint8_t *to;             /* of a read: where its data goes, */
    uint64_t came;           /* and how much has come, with tags */
};

/* A request of this client: one message to a node, or one to each of k data nodes. */
struct store_flight {
    uint64_t request;          /* 0: free */
    bool left;                 /* nobody waits for it; it is freed when its messages are over */
    uint32_t places;           /* a bit per place that has to answer */
    uint32_t done, gone;       /* a bit per place that has; that cannot be reached */
    uint32_t doubted, asked;   /* that refuse as if it had no key; the service was asked about */
    enum storage_status worst; /* of the answers */
    uint32_t session[2];       /* that signs them, if packets are authenticated */
    struct spin_linked entry;  /* of a read */
    uint32_t puts;
    struct store_put put[STORAGE_PLACES];
};

struct spinstore {
    struct store_port port;
    struct spinstore_options o;
    uint32_t rank;
    struct store_service *service;
    struct store_node *node;
    /* A client. */
    uint32_t session, serial;
    uint64_t next_request, next_write;
    bool answered;               /* port.in is the answer to `serial` */
    bool alone;                  /* the service is gone */
    bool denied;                 /* the last extent: a node had no room for the request */
    struct store_flight *flight; /* STORE_FLIGHTS, by request modulo that */
    struct spin_linked answers;
    struct spinstore_counts counts;
    struct store_message *plan; /* the layouts that are being read */
    uint32_t sum[STORE_PIECES]; /* of the extent that is being written */
    uint8_t *scratch;           /* for reads: chunks of an extent */
    uint64_t scratch_bytes;
    uint32_t mtu;
};

struct spinstore_object {
    struct spinstore *store;
    uint32_t id;
    struct spinstore_policy policy;
    uint64_t size, version;
    char name[SPINSTORE_NAME + 1];
};

static inline enum storage_trust store_trust(const struct spinstore *s) {
    static const enum storage_trust trusts[] = {STORAGE_CAPABILITY, STORAGE_TRUSTED,
                                                STORAGE_AUTHENTICATED};
    return trusts[s->o.trust];
}

static inline bool store_is_node(const struct spinstore *s, uint32_t rank) {
    return rank - s->o.first_node < s->o.nodes;
}

int store_service_open(struct spinstore *store);
void store_service_close(struct spinstore *store);
int store_service_work(struct spinstore *store, ptl_time_t timeout_ms, bool *stopped);

int store_node_open(struct spinstore *store);
void store_node_close(struct spinstore *store);
struct storage_counts;
int store_node_card_counts(struct spinstore *store, struct storage_counts *counts);
/* For tests: its card is behind, so its host does what comes. */
int store_node_behind(struct spinstore *store);
int store_node_work(struct spinstore *store, ptl_time_t timeout_ms, bool *stopped);

int store_client_open(struct spinstore *store);
void store_client_close(struct spinstore *store);
/* Hides the key that a message has for a node, or shows it again. */
static inline void store_hide_key(const struct store_port *port, uint32_t node,
                                  struct store_message *m) {
    store_port_hide(port, node, (uint64_t)m->serial << 8 | 1, m->key.key);
    store_port_hide(port, node, (uint64_t)m->serial << 8 | 2, m->key.ticket);
}
/* Likewise the key of a capability's packets, for a client. */
static inline void store_hide_session(const struct store_port *port, uint32_t client,
                                      struct store_grant *g) {
    store_port_hide(port, client, g->mac[0] | (uint64_t)g->mac[1] << 32, g->session);
}

/* A question to the service, and its answer: port.in. PTL_OK, also if the answer's status is not
 * STORE_OK. The first question says hello before. */
int store_client_begin(struct spinstore *store, enum store_kind kind,
                       struct store_message **question);
int store_client_ask(struct spinstore *store);
/* The answer becomes store->plan, so that others may follow. */
static inline void store_client_keep(struct spinstore *s) {
    struct store_message *kept = s->port.in;
    s->port.in = s->plan;
    s->plan = kept;
}
/* What a status of the service means to a caller of the library. */
int store_client_code(enum store_status status);
/* Waits for the service to say whether those places still live; makes it look. *died: one does not.
 */
int store_client_suspect(struct spinstore *store, const struct storage_capability *capability,
                         uint32_t places, bool *died);

/* Requests under way. NULL: there are too many. */
struct store_flight *store_flight_new(struct spinstore *store);
/* Writes `data`, followed by so many zeroes, to the beginning of the extent at that place. `places`
 * will answer. */
int store_flight_write(struct spinstore *store, struct store_flight *flight,
                       const struct store_grant *grant, uint32_t place, const uint8_t *data,
                       uint32_t bytes, uint32_t zeroes, uint32_t places);
int store_flight_read(struct spinstore *store, struct store_flight *flight,
                      const struct store_grant *grant, uint32_t place, uint32_t offset, uint8_t *to,
                      uint32_t bytes);
/* Until all are over or have failed, or the client's patience is over. The service is asked about
 * nodes that seem to have no key. PTL_FAIL: the cards still look at our memory. */
int store_flights_wait(struct spinstore *store, struct store_flight *const *flight, uint32_t count);
static inline bool store_flight_ok(const struct store_flight *f) {
    return f->done == f->places && f->worst == STORAGE_DONE;
}
/* Places that should have answered and have not. */
static inline uint32_t store_flight_silent(const struct store_flight *f) {
    return f->worst == STORAGE_DONE || f->gone ? f->gone | (f->places & ~f->done) : 0;
}
void store_flight_leave(struct spinstore *store, struct store_flight *flight);
/* Everything that has come, or comes within the time. */
int store_client_events(struct spinstore *store, ptl_time_t timeout_ms);

/* All chunks of an extent, data and (RS) parity, from what nodes have, each in its place from
 * scratch on. `sum` are the extent's. PTL_FAIL: too few of them are there. */
int store_read_chunks(struct spinstore *store, const struct store_layout *layout,
                      const uint32_t *sum, uint8_t *chunk[STORE_PLACES]);

#endif
