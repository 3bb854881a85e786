/* The parts of a replay on cards: goal_card.c has the world and its result, goal_card_rank.c what a
 * rank's processor does, goal_card_portals.c the operations of GOAL's Portals dialect. */
#ifndef OPENSPIN_GOAL_CARD_PRIVATE_H
#define OPENSPIN_GOAL_CARD_PRIVATE_H

#include "goal_card.h"
#include "sim/goal.h"

/* What a rank's processor has to do, by the order of the rules: first what is sent, then what is
 * received, then computation. Operations are indices of the schedule. */
enum { TODO_SEND, TODO_RECV, TODO_CALC, TODO_KINDS };
struct card_cpu {
    uint32_t first[TODO_KINDS], last[TODO_KINDS];
    uint32_t running; /* a calc, or GOAL_ANY */
    uint64_t free_ps; /* when it ends */
};

/* A counter of a rank, with the memory descriptors of what counts there. */
struct card_counter {
    uint32_t name;
    ptl_handle_ct_t ct;
    ptl_handle_md_t put, get;
};

struct card_rank {
    struct card_replay *all;
    uint32_t rank, first_op, ops;
    uint32_t done;      /* operations */
    uint32_t under_way; /* requests of the message layer */
    struct card_cpu *cpu;
    uint32_t cpus;
    struct spin_job job;
    struct spin_p2p *p2p;
    uint64_t began_ps, finish_ps;
    uint64_t messages, bytes, received; /* sent; received */
    struct spin_p2p_counts counts;

    /* The Portals dialect. */
    ptl_pt_index_t pt;
    struct card_counter *counter; /* [counters], by name */
    uint32_t counters;
    ptl_handle_md_t put, get;       /* for what no counter counts */
    uint32_t first_test, last_test; /* that wait, linked like what is to do */
    ptl_image_h image;
};

struct card_replay {
    const struct spin_goal *goal;
    const struct goal_card_options *options;
    bool portals;        /* there are operations of that dialect */
    uint64_t most_bytes; /* of a message */
    uint64_t unexpected_bytes;
    uint32_t depth;    /* messages of a rank that its card has at a time */
    uint8_t *out, *in; /* what all ranks send, and where all receive */
    uint32_t *waits;   /* [operations]: for so many others */
    uint32_t *next;    /* [operations]: in the list that it is in */
    uint64_t *running; /* a bit per operation: begun and not done */
    struct card_rank *rank;
    uint64_t done;    /* operations of all ranks */
    char failed[400]; /* the first rank that could not go on says why */
};

/* ---- goal_card.c ---- */

/* The variant of the message layer, or NULL. */
const char *card_variant(const char *matching);
/* "rank 3, operation 7 (send 8b to 1 tag 0): WHAT: PTL_NO_SPACE"; returns `code`. */
int card_failed(struct card_rank *r, uint32_t op, const char *what, int code);

/* ---- goal_card_rank.c ---- */

/* What every rank runs; `argument` is the replay. */
int card_rank_main(void *argument);
/* For the others. */
void card_started(struct card_rank *r, uint32_t op);
void card_done(struct card_rank *r, uint32_t op);

/* ---- goal_card_portals.c ---- */

int card_portals_open(struct card_rank *r);
void card_portals_close(struct card_rank *r);
/* Hands the operation to the card; it is then done, but for a test that waits. */
int card_portals_run(struct card_rank *r, uint32_t op);
/* Tests that have come true are done. */
int card_portals_look(struct card_rank *r, bool *any);

#endif
