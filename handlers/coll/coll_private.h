/* Collectives on the host: parts, and the three variants that run them.
 *
 * A call becomes parts, numbered for the life of the communicator. A rank has at most COLL_WINDOW
 * parts under way and finishes them in order; a part's memory (slot) is used again COLL_SLOTS parts
 * later. Nobody asks whether a peer is ready: a rank that has finished a part that nobody finishes
 * before all have begun it (an allreduce, say) knows that all others have finished those
 * COLL_WINDOW before it. Broadcasts and reductions are no such parts; after three of them a barrier
 * is put in, which runs beside the parts that follow. */
#ifndef COLL_PRIVATE_H
#define COLL_PRIVATE_H

#include "coll_layout.h"
#include "spinlib/coll.h"

#define COLL_WINDOW       2u
#define COLL_UNSYNCED     3u /* COLL_SLOTS - COLL_WINDOW - COLL_WINDOW, less the barrier */
#define COLL_ATOMIC_BYTES 512u
/* A triggered ring takes a counter per rank and slot, and an interface has 1,024 of them. */
#define COLL_TRIGGERED_BLOCKS 64u

enum coll_variant_number { COLL_RDMA, COLL_TRIGGERED, COLL_SPIN, COLL_VARIANTS };

struct spin_coll_request {
    struct spin_coll_request *next;
    uint8_t kind, algorithm, variant;
    uint8_t operation, type;
    uint32_t root;
    const uint8_t *in;
    uint8_t *out;
    uint64_t bytes;   /* of the vector, or of a block */
    uint64_t begun;   /* of these */
    uint32_t element; /* bytes */
    uint32_t parts;   /* begun and not finished */
    bool done;
};

/* A part that is under way. */
struct coll_part {
    struct spin_coll_request *request; /* NULL: a barrier that was put in */
    struct coll_node node;
    uint64_t at; /* of the request's bytes */
    uint32_t sequence;
    uint8_t variant, operation, type;
    bool active;
    uint32_t left;   /* rdma: blocks */
    uint32_t result; /* the vector that it is in */
};

/* On a counter: blocks of the part are complete when it has reached that. */
struct coll_until {
    ptl_handle_ct_t ct;
    uint64_t count;
};

struct coll_slot {
    struct coll_part part;
    uint8_t *arena; /* vectors: the data, then inputs; see coll_layout.h */
    /* rdma: per block */
    struct spin_linked rdma;
    uint32_t *arrived; /* bits of inputs */
    uint8_t *stage;
    /* triggered: per counter */
    struct spin_linked *triggered;
    ptl_handle_ct_t *ct;
    uint64_t *count; /* that the counter will have, of parts so far */
    struct coll_until *until;
    uint32_t untils;
    /* spin */
    struct spin_linked spin;
    struct coll_until chunks;
    uint8_t *packets; /* own data with heads */
};

struct spin_coll {
    ptl_handle_ni_t ni;
    ptl_pt_index_t pt;
    ptl_handle_eq_t eq; /* rdma */
    ptl_handle_md_t md; /* of all memory */
    uint32_t rank, ranks;
    uint32_t part_bytes, room; /* of a part; from one vector to the next */
    uint32_t vectors;
    uint32_t next, finished, synced; /* parts: begun, finished, the last that synchronises + 1 */
    struct coll_slot slot[COLL_SLOTS];
    struct spin_coll_request *first, **last;
    int opened[COLL_VARIANTS]; /* a code: a card may have no handlers, say */
    uint32_t counters;         /* triggered: of a slot */
    ptl_image_h image;         /* spin */
    ptl_hpu_md_h memory;
    uint32_t chunk_bytes, words;
    char error[200];
};

struct coll_variant {
    uint32_t most_reduced, most_combined; /* bytes of a part: of reduce, of allreduce */
    int (*open)(struct spin_coll *c);
    void (*close)(struct spin_coll *c);
    int (*begin)(struct spin_coll *c, struct coll_slot *slot);
    /* *done: the part is complete. Waits for that if it may. */
    int (*complete)(struct spin_coll *c, struct coll_slot *slot, bool wait, bool *done);
};
extern const struct coll_variant coll_rdma, coll_triggered, coll_spin;

static inline uint8_t *coll_vector(const struct spin_coll *c, const struct coll_slot *s,
                                   uint32_t vector) {
    return s->arena + (uint64_t)vector * c->room;
}
/* The vector that is the data after a stage. A later stage's input becomes the data, with what it
 * is combined with: from where that was, it may still be on its way to a peer. */
static inline uint32_t coll_data(const struct coll_stage *stage, uint32_t number) {
    return number && stage->combine ? 1u + stage->first : 0;
}
/* Own data of a part: [at, at + bytes) of its vector. */
void coll_own(const struct spin_coll *c, const struct coll_slot *slot, uint32_t at, uint32_t bytes,
              void *to);
/* The same, to where stages and operations find it. */
void coll_own_all(const struct spin_coll *c, const struct coll_slot *slot);

/* Where a message of a stage goes: the input's number at the target and its offset there. A stage
 * that stores takes it into the data. */
struct coll_landing {
    uint32_t bit;
    uint64_t offset;
};
struct coll_landing coll_land(const struct spin_coll *c, const struct coll_node *node,
                              uint32_t block, uint32_t stage, uint32_t to);
int coll_put(const struct spin_coll *c, const void *data, uint64_t bytes, uint32_t to,
             ptl_match_bits_t bits, uint64_t offset, ptl_hdr_data_t hdr_data);

/* What is asked for, by its names. */
int coll_check(struct spin_coll *c, const struct spin_coll_call *call,
               struct spin_coll_request *request);

/* to = to op from */
void coll_combine(ptl_op_t operation, ptl_datatype_t type, void *to, const void *from,
                  uint64_t bytes);

#endif
