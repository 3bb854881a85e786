/* A GOAL schedule in memory: per rank, operations and who waits for whom.
 *
 * A schedule of 65,536 ranks has millions of operations, and most of them are alike: the ranks of a
 * parallel program do the same with different partners. So an operation is kept in 8 bytes, its
 * peer and the number of its *shape*; the shape says all the rest, and is shared. Operations of all
 * ranks lie in one array, rank after rank, in program order.
 *
 * The successors of an operation belong to its shape too, as distances from the operation. They are
 * in the order in which the timing rules take those that become free together: by type, then those
 * that wait for its start before those that wait for its end, then as the schedule states them. */
#ifndef SPIN_SIM_GOAL_H
#define SPIN_SIM_GOAL_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "openspin.h"

#define GOAL_ANY         UINT32_MAX /* source or tag -1 */
#define GOAL_MAX_RANKS   (1u << 28) /* the matching keys keep four bits for themselves */
#define GOAL_MAX_OPS     (UINT32_MAX - 1)
#define GOAL_ON_START    0x80000000u      /* in an edge: released when the operation has started */
#define GOAL_MAX_OF_RANK ((1u << 30) - 1) /* a distance has 31 bits with its sign */

/* The numbers are those of the binary format, and ascending in the order of the rules: send before
 * recv before calc. From GOAL_PUT on: the Portals dialect. */
#define GOAL_TYPES(X)                                                                              \
    X(GOAL_SEND, 1, "send")                                                                        \
    X(GOAL_RECV, 2, "recv")                                                                        \
    X(GOAL_CALC, 3, "calc")                                                                        \
    X(GOAL_PUT, 4, "put")                                                                          \
    X(GOAL_GET, 5, "get")                                                                          \
    X(GOAL_APPEND, 6, "append")                                                                    \
    X(GOAL_CTWAIT, 7, "test")                                                                      \
    X(GOAL_TPUT, 8, "tput")                                                                        \
    X(GOAL_TGET, 9, "tget")                                                                        \
    X(GOAL_TAPPEND, 10, "tappend")                                                                 \
    X(GOAL_GEM5CALC, 11, "gem5calc")

enum goal_type {
#define GOAL_ROW(name, number, word) name = number,
    GOAL_TYPES(GOAL_ROW)
#undef GOAL_ROW
};
const char *goal_type_word(unsigned type); /* "send" */

struct file_in;

/* An operation as it is stated. */
struct goal_op {
    uint64_t size;       /* bytes; of a calc, time units (nanoseconds) */
    uint32_t peer;       /* destination or source; GOAL_ANY; of a calc 0 */
    uint32_t tag;        /* GOAL_ANY */
    uint32_t successors; /* while its rank is open: the first in open_edges */
    uint8_t type, cpu, nic;
};

/* And as it is kept. */
struct goal_packed {
    uint32_t peer; /* of a calc, the low half of its size: computation is rarely twice the same */
    uint32_t shape;
};

struct goal_shape {
    uint64_t size; /* of a calc, without its low half */
    uint32_t tag;
    uint32_t edges; /* its successors are goal.edges[edges ... edges + edge_count - 1] */
    uint32_t edge_count;
    uint32_t waits; /* for so many operations */
    uint8_t type, cpu, nic;
};

/* Bits of goal_portals.options. */
enum {
    GOAL_OPTION_OVERFLOW = 1, /* append to the overflow list, not the priority list */
    GOAL_OPTION_USE_ONCE = 2,
};

/* What the 104-byte nodes carry beyond the 39; only operations of the Portals dialect have one.
 * What is not given has all bits set, as in LogGOPSim's files. */
#define GOAL_NONE     UINT32_MAX /* no counter, no handler */
#define GOAL_NO_VALUE UINT64_MAX /* of an argument */
struct goal_portals {
    uint32_t op; /* index in goal.ops */
    uint8_t options;
    uint32_t ct;         /* waited for, until it has the threshold */
    uint32_t oct;        /* the one that counts */
    uint32_t hh, ph, ch; /* handlers */
    uint32_t mem;        /* bytes of the handlers' memory */
    uint64_t threshold, arg[4];
};
#define GOAL_PORTALS_NONE                                                                          \
    ((struct goal_portals){.ct = GOAL_NONE,                                                        \
                           .oct = GOAL_NONE,                                                       \
                           .hh = GOAL_NONE,                                                        \
                           .ph = GOAL_NONE,                                                        \
                           .ch = GOAL_NONE,                                                        \
                           .arg = {GOAL_NO_VALUE, GOAL_NO_VALUE, GOAL_NO_VALUE, GOAL_NO_VALUE}})

enum { GOAL_SHAPES_NEAR = 1024 };

struct spin_goal {
    uint32_t num_ranks;
    uint32_t *first_op;      /* [num_ranks + 1] */
    struct goal_packed *ops; /* [op_count] */
    struct goal_shape *shapes;
    uint32_t *edges; /* of shapes: a distance, with GOAL_ON_START */
    uint32_t op_count, shape_count, edges_used;
    uint32_t edge_count; /* of operations: how often one waits for another */
    uint8_t max_cpu, max_nic;
    bool wildcards; /* some source or tag is ANY */
    struct goal_portals *portals;
    uint32_t portals_count;
    uint32_t op_room, shape_room, edge_room, portals_room;

    /* While it is built: the open rank, with edges that name operations by their index in it. */
    uint32_t ranks_done;
    struct goal_op *open; /* [open_count + 1]: the last one only ends the edges */
    uint32_t *open_edges;
    uint32_t open_count, open_edge_count, open_room, open_edge_room;
    struct goal_link *links; /* in the order they came */
    uint32_t link_count, link_room;
    bool backward;       /* an edge of the rank leads to an earlier operation */
    uint32_t last_edges; /* of the rank that was closed last */
    uint32_t *scratch;
    uint32_t scratch_room;
    uint32_t near[GOAL_SHAPES_NEAR]; /* shapes + 1, by a hash: where to look for one that exists */
};

/* ---- looking ---- */

static inline const struct goal_shape *goal_shape_of(const struct spin_goal *goal, uint32_t op) {
    return &goal->shapes[goal->ops[op].shape];
}

static inline uint64_t goal_size_of(const struct goal_shape *shape, uint32_t peer) {
    return shape->type == GOAL_CALC ? shape->size | peer : shape->size;
}

/* All of an operation, for those that need not be fast. */
struct goal_op goal_at(const struct spin_goal *goal, uint32_t op);

/* The successor that an edge of operation `op` leads to; both are indices of the schedule, or both
 * of the rank. */
static inline uint32_t goal_after(uint32_t op, uint32_t edge) {
    return op + (uint32_t)((int32_t)(edge << 1) >> 1);
}

static inline uint32_t goal_rank_ops(const struct spin_goal *goal, uint32_t rank) {
    return goal->first_op[rank + 1] - goal->first_op[rank];
}
const struct goal_portals *goal_portals_of(const struct spin_goal *goal, uint32_t op);
/* "recv 8b from 2 tag 5", for messages. Returns `text`. */
char *goal_describe(const struct spin_goal *goal, uint32_t op, char *text, size_t room);
uint64_t goal_bytes(const struct spin_goal *goal); /* of memory */
/* The error of a replay that cannot go on: it names operations that run (a bit for each) and whose
 * partner did not come. All others that are not done wait for these. */
int goal_deadlock(const struct spin_goal *goal, const uint64_t *running, uint64_t done,
                  struct spin_error *err);

/* ---- building: new, then per rank op..., link..., end_rank; in order of ranks ---- */

struct spin_goal *goal_new(uint32_t num_ranks, struct spin_error *err);
void goal_free(struct spin_goal *goal);
/* For the two below. */
bool goal_more_ops(struct spin_goal *goal);
bool goal_more_edges(struct spin_goal *goal);

/* Adds an operation to the open rank. Returns its index in the rank, or GOAL_ANY when there is no
 * room (over the limit or out of memory). `successors` is ignored. Inline, as reading a file is
 * little else. */
static inline uint32_t goal_add(struct spin_goal *goal, struct goal_op op) {
    if (goal->open_count + 1 >= goal->open_room && !goal_more_ops(goal))
        return GOAL_ANY;
    goal->max_cpu = op.cpu > goal->max_cpu ? op.cpu : goal->max_cpu;
    goal->max_nic = op.nic > goal->max_nic ? op.nic : goal->max_nic;
    goal->wildcards |= op.type != GOAL_CALC && (op.tag == GOAL_ANY || op.peer == GOAL_ANY);
    op.successors = goal->open_edge_count;
    goal->open[goal->open_count] = op;
    return goal->open_count++;
}

/* `after` may run once `before` is done, or (on_start) has started. */
bool goal_link(struct spin_goal *goal, uint32_t after, uint32_t before, bool on_start);
/* The same, for a builder that adds all successors of an operation right after it, also some that
 * are not added yet: `after` waits for the operation that was added last. Not in a rank with
 * goal_link. */
static inline bool goal_add_successor(struct spin_goal *goal, uint32_t after, bool on_start) {
    if (goal->open_edge_count >= goal->open_edge_room && !goal_more_edges(goal))
        return false;
    goal->backward |= after < goal->open_count;
    goal->open_edges[goal->open_edge_count++] = after | (on_start ? GOAL_ON_START : 0);
    return true;
}
/* Sets marked[i] for every operation i of the open rank that one of the links from `first_link` on
 * makes another one wait for. */
void goal_mark_linked(const struct spin_goal *goal, uint32_t first_link, bool *marked);
/* Attaches the Portals part to the operation added last. */
bool goal_add_portals(struct spin_goal *goal, struct goal_portals portals);
/* Closes the rank. SPIN_EFORMAT when its operations wait for each other in a circle; *circle then
 * holds an operation on it. */
int goal_end_rank(struct spin_goal *goal, uint32_t *circle);
/* Instead of all that: the rank is as the one before, without Portals operations. Returns its
 * first operation, so that the caller can give its messages their own peers; NULL when there is no
 * room. */
struct goal_packed *goal_repeat_rank(struct spin_goal *goal);

/* ---- files ---- */

/* `name` is for messages. The text reader wants a 0 behind the last byte. */
int goal_read_text(const char *name, const char *text, size_t length, struct spin_goal **goal,
                   struct spin_error *err);
int goal_read_binary(struct file_in *file, struct spin_goal **goal, struct spin_error *err);
bool goal_is_binary(const uint8_t *bytes, size_t length);
int goal_write_text(const struct spin_goal *goal, FILE *out, struct spin_error *err);
/* `portals`: nodes of 104 bytes. A schedule with Portals operations is always written so. A failed
 * write shows when the file is closed. */
void goal_write_binary(const struct spin_goal *goal, bool portals, FILE *out);

#endif
