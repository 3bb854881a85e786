/* What a storage node keeps on its card, and how its host and its card talk about it. One piece of
 * HPU memory: storage_state, capabilities that are known, the windows of clients, the request
 * table, and the sums of parities. */
#ifndef STORAGE_STATE_H
#define STORAGE_STATE_H

#include "storage_parity.h"
#include "storage_wire.h"

/* ---- Requests under way ---- */

enum storage_phase {
    STORAGE_ACCEPTED = 1, /* data goes to the medium and on */
    STORAGE_BYPASS = 2,   /* all of it goes to the host */
};
#define STORAGE_PROBES 8u

/* A request that was accepted. Handlers find it by the card's number for their message, at the
 * place of that number or one of the next STORAGE_PROBES. The paper has 77 bytes. */
struct storage_descriptor {
    uint32_t message;              /* the card's number + 1; 0: the descriptor is free */
    uint8_t phase, status;         /* status: of the first thing that went wrong, or STORAGE_DONE */
    uint8_t children, first_child; /* how many; virtual rank of the first */
    uint8_t operation, virtual_rank, data_index, strategy;
    uint8_t k, m;
    uint16_t packet; /* AUTHENTICATED, else 0 */
    uint64_t request;
    uint32_t client;
    uint32_t base; /* of the data on the medium */
    uint32_t length;
    union {
        uint32_t stream[STORAGE_PARITIES]; /* to the children, one after the other */
        uint32_t write;                    /* of PARITY: which (storage_parity.h) */
    };
    uint8_t gone[STORAGE_PARITIES]; /* children that cannot be reached */
    uint32_t session[2];
};
_Static_assert(sizeof(struct storage_descriptor) == 64, "a power of two: found by a shift");

/* ---- Numbers that were used ---- */

/* Requests of one client, those for parity by the data node that they come from. The newest
 * STORAGE_WINDOW numbers are known one by one, smaller ones are taken for used. A window may be
 * given to another when all capabilities that were shown with it have expired. */
#define STORAGE_WINDOW 256u
struct storage_window {
    uint32_t lock;
    uint32_t who; /* storage_who() + 1; 0: nobody's */
    uint64_t highest;
    uint32_t expires; /* the last of those capabilities */
    uint32_t reserved[3];
    uint32_t seen[STORAGE_WINDOW / 32]; /* bit number % STORAGE_WINDOW */
};
_Static_assert(sizeof(struct storage_window) == 64, "likewise");

/* ---- The card ---- */

struct storage_counts {
    uint32_t accepted, answered, bypassed, cleaned;
    uint32_t under_way;                 /* descriptors in use when it was asked */
    uint32_t swapped;                   /* requests with a descriptor in L2 */
    uint32_t learnt;                    /* capabilities that were not known, and are genuine */
    uint32_t refused[STORAGE_STATUSES]; /* by status */
    /* Ranges of parities; writes that never got all parts of their parity; accumulators. */
    uint32_t sums_on_card, sums_at_host, parities_failed, accumulators, most_accumulators;
};

struct storage_state {
    struct storage_node node;
    uint32_t entry_bytes; /* of the entry for requests: of a longer message a part is cut off */
    uint32_t ranks;       /* of the job: others are nobody */
    uint32_t by_file;     /* the host flushes and answers */
    uint32_t load;        /* not 0: the card is behind, requests go to the host */
    uint32_t slots;       /* of the request table */
    uint32_t bypass_from; /* with more than so many under way requests go to the host */
    uint32_t window_mask; /* windows, less one: a power of two */
    uint32_t table_at;    /* bytes from here */
    uint32_t claim;       /* lock: who looks for a window that is nobody's */
    uint32_t dies_after, runs; /* tests: from this run of a handler on it does nothing; 0: never */
    uint32_t under_way;        /* descriptors in use */
    uint32_t swap_slots;       /* descriptors in L2, for when all are in use */
    uint32_t host_room;        /* of requests that the host has not taken, in STORAGE_HOST_COST */
    uint32_t host_holds;       /* so much of it is taken */
    struct storage_counts counts;
    struct storage_parity parity;
    uint32_t epoch; /* of the keys: from 1 on, one more with each that is set */
    uint32_t reserved;
    struct storage_known known[STORAGE_KNOWN]; /* from here on all is zero at first */
    struct storage_window window[];
};
_Static_assert(sizeof(struct storage_state) % 8 == 0, "64-bit words follow");

#define STORAGE_SWAP_SLOTS 32768u /* of the image "storage_swap_handler": 2 MiB of L2 */

static inline uint32_t storage_state_bytes(uint32_t windows, uint32_t slots) {
    return (uint32_t)(sizeof(struct storage_state) + windows * sizeof(struct storage_window) +
                      slots * sizeof(struct storage_descriptor));
}

static inline struct storage_descriptor *storage_table(struct storage_state *s) {
    return (struct storage_descriptor *)((uint8_t *)s + s->table_at);
}

/* Where the descriptor of a message may be. Numbers are small while few messages are under way. */
static inline uint32_t storage_home(uint32_t slots, uint32_t message) {
    return message < slots ? message : slots ? message % slots : 0;
}

/* ---- Host to card ---- */

enum storage_control_kind {
    STORAGE_SET_CLOCK = 1,  /* value */
    STORAGE_SET_LOAD = 2,   /* value */
    STORAGE_SET_KEY = 3,    /* key: takes the place of the one two generations before */
    STORAGE_END_KEY = 4,    /* key.generation is valid until key.ends */
    STORAGE_REPORT = 5,     /* the counts, to the memory of the entry */
    STORAGE_SUMMED = 6,     /* sum: so many bytes of the parity of write `value` are durable, and so
                               many pieces are no more in the host's queue */
    STORAGE_SET_SWAP = 7,   /* value: slots in L2 (0 to STORAGE_SWAP_SLOTS) */
    STORAGE_SET_SUMS = 8,   /* value: pieces that the queue has room for */
    STORAGE_SET_HOST = 9,   /* value: room for requests that bypass the card */
    STORAGE_HOST_TOOK = 10, /* value: so much of it is free again */
};
struct storage_control {
    uint32_t kind, value;
    union {
        struct storage_key key;
        struct {
            uint32_t generation, bytes, pieces;
        } sum;
    };
};

/* What a request that bypasses the card takes of its host's room, which is bytes of a queue; an
 * event counts, too. */
#define STORAGE_HOST_COST(bytes) ((uint32_t)(bytes) + 1024u)

/* ---- Card to itself ---- */

/* What is left of a read whose pieces are signed. */
struct storage_more {
    uint64_t request;
    uint32_t session[2];
    uint32_t client;
    uint32_t base;     /* of the next piece on the medium */
    uint32_t at, left; /* where it is in what the reader gets; bytes that are left */
    uint16_t packet;
    uint8_t virtual_rank;
};
/* A piece of 2 KiB takes about 30,000 cycles, a handler has a million by default. */
#define STORAGE_READ_ONCE 16384u

/* ---- Card to host ---- */

enum storage_notice_kind {
    STORAGE_WRITTEN = 1, /* flush [base, base + length), then answer */
    STORAGE_CLEANED = 2, /* the rest of a request has not come; nobody is answered */
};
struct storage_notice {
    uint32_t kind, client;
    uint64_t answer; /* header data */
    uint32_t base, length;
    uint32_t session[2]; /* that signs the answer, if packets are authenticated */
};

#endif
