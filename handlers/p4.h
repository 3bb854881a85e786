/* The use cases of the SC'17 paper on simulated worlds (p4_world.c) and live cards (p4_live.c):
 * host programs against portals4.h, each in the variants that the paper compares. A run makes a
 * world, checks the data that came out, and says how long it took in virtual time. */
#ifndef OPENSPIN_P4_H
#define OPENSPIN_P4_H

#include "openspin.h"
#include "portals4.h"

enum p4_variant {
    P4_RDMA,      /* the card stores; the CPU sees the completion, matches and answers */
    P4_TRIGGERED, /* Portals 4: operations set up in advance, started by a counter */
    P4_STORE,     /* sPIN: one packet from the card, more than one from host memory */
    P4_STREAM,    /* sPIN: every packet from the card */
    P4_VARIANTS
};
const char *p4_variant_name(enum p4_variant variant); /* "RDMA", "Portals 4", "sPIN store", ... */

struct p4_setup {
    enum p4_variant variant;
    /* Of a broadcast, a power of two; of ping-pong and accumulation even (0: 2): each of the first
     * half with one of the second, all at once. The others have theirs. */
    uint32_t ranks;
    uint32_t bytes;
    uint32_t trips;                  /* of ping-pong, timed as one; 0: 1 */
    uint32_t block;                  /* of strided data; 0: 8 KiB. The gap is as long */
    const char *images;              /* folder of the handler images */
    struct spin_world_options world; /* preset, settings, pictures; ranks are set here */
    /* Of a broadcast: all ranks are set up, and the first message is about to leave. Or NULL. */
    void (*ready)(void *user);
    void *user;
};

struct p4_outcome {
    uint64_t time_ps;
    struct spin_world_result world;
};

/* Half of the time there and back, of the slowest pair. Several trips follow each other at once. */
int p4_pingpong(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err);
/* From the call that sends an array of complex numbers until the target's program knows that it was
 * multiplied into its own. Variants: RDMA and sPIN stream. */
int p4_accumulate(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err);
/* From the root's first call until the last rank knows that it has the data. */
int p4_broadcast(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err);
/* A message that the handler scatters into blocks with gaps. */
int p4_strided(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err);
/* One write to a RAID-5 of a client, a data server and a parity server. */
int p4_raid(const struct p4_setup *setup, struct p4_outcome *outcome, struct spin_error *err);

/* ---- For the use cases themselves -------------------------------------------------------------
 */

enum p4_handler { P4_HEADER, P4_PAYLOAD, P4_COMPLETION, P4_HANDLERS };

/* What a rank of any of them has: one matching, logical interface. */
struct p4_rank {
    const struct p4_setup *setup;
    ptl_handle_ni_t ni;
    ptl_handle_eq_t eq;
    ptl_handle_ct_t ct;
    ptl_pt_index_t pt;
    ptl_handle_md_t md; /* of `buffer` */
    uint8_t *buffer;
    uint8_t *own; /* `buffer`, unless the caller has it */
    uint64_t buffer_bytes;
    ptl_image_h image;
    const char *found[P4_HANDLERS]; /* names of handlers that were looked up last, */
    ptl_handler_t handler[P4_HANDLERS];
};

/* What ranks and caller know together; what a use case adds is behind it. On live cards each
 * process has its own, and what one has not set is 0. */
struct p4_shared {
    const struct p4_setup *setup;
    uint64_t start_ps, end_ps;
};

/* Runs the ranks of a use case, whose images (ended by NULL) are looked at first; `shared`
 * begins with a struct p4_shared. Each returns 0 or a number that the error will show. */
int p4_run(const struct p4_setup *setup, uint32_t ranks, const char *const *images,
           int (*rank)(void *shared), void *shared, struct p4_outcome *outcome,
           struct spin_error *err);

/* Of an image, to be freed; NULL: no memory. */
char *p4_image_path(const struct p4_setup *setup, const char *image);
/* Work that the program has done takes this long: in a world, where it took no time. */
void p4_work(uint64_t cycles, uint64_t memory_bytes);
/* Ranks that work in pairs: how many there are, and who is with this one. */
static inline uint32_t p4_ranks(const struct p4_setup *setup) {
    return setup->ranks ? setup->ranks : 2;
}
static inline uint32_t p4_trips(const struct p4_setup *setup) {
    return setup->trips ? setup->trips : 1;
}
static inline bool p4_is_first(void) {
    return spin_rank() < spin_ranks() / 2;
}
static inline uint32_t p4_partner(void) {
    return p4_is_first() ? spin_rank() + spin_ranks() / 2 : spin_rank() - spin_ranks() / 2;
}
/* The slowest has ended. */
static inline void p4_ended(struct p4_shared *shared) {
    uint64_t now = spin_now_ps();
    if (now > shared->end_ps)
        shared->end_ps = now;
}
/* After a barrier: all ranks wait for what is sent now. */
void p4_settle(void);
/* The barrier at the end of what is timed. True: once more, from the barrier before it. Live cards
 * are asked until they are warm and have been timed often enough; in a world all times are the
 * same.
 */
bool p4_again(struct p4_shared *shared);
/* Complex numbers, into the first array: on the host. */
void p4_multiply(float *into, const float *by, uint32_t floats);

/* True when all went well; otherwise the rank returns. `image` may be NULL. The buffer is zero at
 * first. */
bool p4_open(struct p4_rank *r, const struct p4_setup *setup, uint64_t bytes, const char *image);
/* The same with the caller's buffer. */
bool p4_open_with(struct p4_rank *r, const struct p4_setup *setup, void *buffer, uint64_t bytes,
                  const char *image);
void p4_close(struct p4_rank *r);
/* A matching entry on [start, start + length) of the buffer that counts, with or without handlers
 * of the image (names, NULL for none) and their state. */
struct p4_entry {
    uint64_t start, length;
    ptl_match_bits_t bits;
    bool counts_bytes;
    const char *header, *payload, *completion;
    const void *state;
    uint32_t state_bytes;
};
bool p4_append(struct p4_rank *r, const struct p4_entry *entry);
bool p4_put(struct p4_rank *r, uint64_t offset, uint64_t length, uint32_t target,
            ptl_match_bits_t bits);
/* Until the counter has come to n. */
bool p4_wait(struct p4_rank *r, uint64_t n);
/* Until the next message is in the event queue; then matched by the CPU. */
bool p4_receive(struct p4_rank *r);

#endif
