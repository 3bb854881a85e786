/* What hosts and cards of a collective share: the algorithms.
 *
 * A collective is cut into parts (coll.c), and a part works on a vector. The vector consists of
 * blocks, each of which goes its own way, and a block of chunks, one packet each. For a rank, the
 * way of a block is a list of stages. A stage takes inputs (this rank's own data, and what other
 * ranks send), combines them with the data or stores them in its place, and sends the result to
 * other ranks. Each of the three variants runs these stages in its way; none of them knows an
 * algorithm. */
#ifndef COLL_LAYOUT_H
#define COLL_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum coll_kind {
    COLL_BROADCAST,
    COLL_REDUCE,
    COLL_ALLREDUCE,
    COLL_BARRIER,
    COLL_ALLGATHER,
    COLL_ALLTOALL
};
enum coll_algorithm { COLL_BINOMIAL, COLL_PIPELINED, COLL_DOUBLING, COLL_RING };

/* A part, as every packet carries it: so a card needs not know which collective is next. */
struct coll_head {
    uint32_t sequence; /* of the part */
    uint8_t kind, algorithm, operation, type;
    uint32_t bytes; /* of the vector */
    uint32_t root;
    uint32_t from;
    uint32_t stage;  /* at the target; COLL_OWN: its own data */
    uint32_t block;  /* of own data: or COLL_OWN, all */
    uint32_t offset; /* of the chunk in its block */
};
#define COLL_OWN UINT32_MAX

/* Parts that may be under way between the fastest and the slowest rank; a part has slot
 * sequence % COLL_SLOTS. Match bits: the variant, and the slot. */
#define COLL_SLOTS          8u
#define COLL_RDMA_BITS      (1ull << 56)
#define COLL_TRIGGERED_BITS (2ull << 56) /* and the counter << 16 */
#define COLL_SPIN_BITS      (3ull << 56)

/* A part seen by one rank. */
struct coll_node {
    uint32_t rank, ranks, root, bytes;
    uint8_t kind, algorithm;
};

/* ---- Blocks and chunks ---- */

static inline uint32_t coll_blocks(const struct coll_node *n) {
    return n->algorithm == COLL_RING || n->kind == COLL_ALLGATHER || n->kind == COLL_ALLTOALL
               ? n->ranks
               : 1;
}

/* Bytes from one block to the next; the last ones may be shorter or empty. What is gathered has
 * blocks of one size; what is combined has blocks of whole numbers of 8 bytes. */
static inline uint32_t coll_stride(const struct coll_node *n) {
    uint32_t blocks = coll_blocks(n);
    if (blocks == 1)
        return n->bytes;
    if (n->kind != COLL_ALLREDUCE)
        return n->bytes / blocks;
    return ((n->bytes + 7) / 8 + blocks - 1) / blocks * 8;
}

static inline uint32_t coll_block_bytes(const struct coll_node *n, uint32_t block) {
    uint32_t stride = coll_stride(n), at = block * stride;
    return at >= n->bytes ? 0 : n->bytes - at < stride ? n->bytes - at : stride;
}

/* What is combined goes in shorter chunks, of which more HPUs work at the same time. */
#define COLL_COMBINED 2048u
static inline bool coll_combines(const struct coll_node *n) {
    return n->kind == COLL_REDUCE || n->kind == COLL_ALLREDUCE;
}
static inline uint32_t coll_chunk_bytes(const struct coll_node *n, uint32_t chunk_bytes) {
    return coll_combines(n) && chunk_bytes > COLL_COMBINED ? COLL_COMBINED : chunk_bytes;
}

/* Chunks of a block of so many bytes. A barrier is one empty chunk. */
static inline uint32_t coll_chunks(const struct coll_node *n, uint32_t bytes,
                                   uint32_t chunk_bytes) {
    return n->bytes ? (bytes + chunk_bytes - 1) / chunk_bytes : 1;
}

/* ---- Stages ---- */

#define COLL_PEERS 17 /* 65,536 ranks */
struct coll_stage {
    uint8_t own;     /* this rank's data is an input */
    uint8_t combine; /* inputs are combined, in this order; otherwise the one input is stored */
    uint8_t last;    /* of this block on this rank */
    uint8_t next;    /* the stage at the targets */
    uint8_t first;   /* number of its first input among the block's inputs from others */
    uint8_t ins, outs;
    uint16_t in[COLL_PEERS], out[COLL_PEERS]; /* short: they are on a handler's stack */
};

static inline uint32_t coll_modulo(uint32_t rank, uint32_t ranks) {
    return rank < ranks ? rank : rank - ranks;
}

/* Inputs of every stage after the first are one. */
static inline void coll_begin(struct coll_stage *s, uint32_t stage, uint32_t ins0) {
    s->own = stage == 0;
    s->combine = s->last = s->next = s->ins = s->outs = 0;
    s->first = (uint8_t)(stage ? ins0 + stage - 1 : 0);
}

/* Children of a node of the tree whose root is 0, nearest first; the chain is a tree too. */
static inline uint32_t coll_children(const struct coll_node *n, uint32_t v, uint16_t *child) {
    uint32_t count = 0;
    if (n->algorithm != COLL_BINOMIAL) {
        if (v + 1 < n->ranks)
            child[count++] = (uint16_t)coll_modulo(v + 1 + n->root, n->ranks);
        return count;
    }
    for (uint32_t mask = 1; !(v & mask) && v + mask < n->ranks; mask <<= 1)
        child[count++] = (uint16_t)coll_modulo(v + mask + n->root, n->ranks);
    return count;
}

/* Up to the root and (stage 1, but for the root) down again; or only one of them. */
static inline void coll_tree(const struct coll_node *n, uint32_t stage, struct coll_stage *s) {
    uint16_t child[COLL_PEERS];
    uint32_t v = coll_modulo(n->rank + n->ranks - n->root, n->ranks);
    uint32_t up = n->algorithm == COLL_BINOMIAL ? v & (v - 1) : v - 1;
    uint32_t children = coll_children(n, v, child), parent = coll_modulo(up + n->root, n->ranks);
    bool down = n->kind == COLL_BROADCAST || stage == 1 || (v == 0 && n->kind != COLL_REDUCE);
    coll_begin(s, stage, children);
    s->next = n->kind != COLL_BROADCAST && down;
    if (n->kind == COLL_BROADCAST || stage == 1) {
        s->own = v == 0;
        if (v)
            s->in[s->ins++] = (uint16_t)(parent);
    } else {
        s->combine = 1;
        for (uint32_t i = 0; i < children; i++)
            s->in[s->ins++] = child[i];
        if (v)
            s->out[s->outs++] = (uint16_t)(parent);
    }
    while (down && children) /* the one with most to do first */
        s->out[s->outs++] = child[--children];
    s->last = down || n->kind == COLL_REDUCE;
}

/* Ranks beyond the largest power of two have a partner that stands for them. */
static inline void coll_doubling(const struct coll_node *n, uint32_t stage, struct coll_stage *s) {
    uint32_t power = 1, steps = 0;
    for (; power * 2 <= n->ranks; power *= 2)
        steps++;
    uint32_t other = n->rank < power ? n->rank + power : n->rank - power;
    bool has_other = other < n->ranks;
    coll_begin(s, stage, n->rank < power && has_other);
    if (n->rank >= power) {
        if (stage == 0)
            s->out[s->outs++] = (uint16_t)(other);
        else
            s->in[s->ins++] = (uint16_t)(other);
        s->last = stage == 1;
        return;
    }
    s->combine = 1;
    if (stage)
        s->in[s->ins++] = (uint16_t)(n->rank ^ 1u << (stage - 1));
    else if (has_other)
        s->in[s->ins++] = (uint16_t)(other);
    s->last = stage == steps;
    s->next = (uint8_t)(s->last ? 1 : stage + 1);
    if (!s->last)
        s->out[s->outs++] = (uint16_t)(n->rank ^ 1u << stage);
    else if (has_other)
        s->out[s->outs++] = (uint16_t)(other);
}

/* A barrier needs no partners: in step k everybody tells the rank 2^k further (dissemination). */
static inline void coll_dissemination(const struct coll_node *n, uint32_t stage,
                                      struct coll_stage *s) {
    uint32_t distance = 1u << stage;
    coll_begin(s, stage, 0);
    s->combine = 1;
    if (stage)
        s->in[s->ins++] = (uint16_t)coll_modulo(n->rank + n->ranks - distance / 2, n->ranks);
    s->last = distance >= n->ranks;
    s->next = (uint8_t)(stage + 1);
    if (!s->last)
        s->out[s->outs++] = (uint16_t)coll_modulo(n->rank + distance, n->ranks);
}

/* Block b begins at rank b + 1, is complete at rank b, and goes round once more to be stored. */
static inline void coll_ring_reduce(const struct coll_node *n, uint32_t block, uint32_t stage,
                                    struct coll_stage *s) {
    uint32_t at = coll_modulo(n->rank + 2 * n->ranks - block - 1, n->ranks);
    at = coll_modulo(at, n->ranks);
    uint32_t left = coll_modulo(n->rank + n->ranks - 1, n->ranks);
    bool complete = at == n->ranks - 1;
    coll_begin(s, stage, at > 0);
    s->combine = stage == 0;
    if (stage || at)
        s->in[s->ins++] = (uint16_t)(left);
    s->last = stage == 1 || complete;
    s->next = s->last;
    if (stage == 0 || at < n->ranks - 2)
        s->out[s->outs++] = (uint16_t)coll_modulo(n->rank + 1, n->ranks);
}

/* Block b comes from rank b: round the ring, or on a binomial tree whose root is b (which is what
 * recursive doubling is for one block). */
static inline void coll_gather(const struct coll_node *n, uint32_t block, struct coll_stage *s) {
    uint32_t away = coll_modulo(block + n->ranks - n->rank, n->ranks); /* that rank from here */
    uint32_t step = 1;
    coll_begin(s, 0, away > 0);
    s->own = away == 0;
    s->last = 1;
    if (n->algorithm == COLL_RING) {
        if (away)
            s->in[s->ins++] = (uint16_t)coll_modulo(n->rank + n->ranks - 1, n->ranks);
        if (away != 1 && n->ranks > 1)
            s->out[s->outs++] = (uint16_t)coll_modulo(n->rank + 1, n->ranks);
        return;
    }
    while (step <= away)
        step *= 2;
    if (away)
        s->in[s->ins++] = (uint16_t)coll_modulo(n->rank + step / 2, n->ranks);
    for (; away + step < n->ranks; step *= 2)
        s->out[s->outs++] = (uint16_t)coll_modulo(n->rank + n->ranks - step, n->ranks);
}

static inline void coll_stage(const struct coll_node *n, uint32_t block, uint32_t stage,
                              struct coll_stage *s) {
    if (n->kind == COLL_ALLGATHER)
        coll_gather(n, block, s);
    else if (n->algorithm == COLL_DOUBLING && n->kind == COLL_BARRIER)
        coll_dissemination(n, stage, s);
    else if (n->algorithm == COLL_DOUBLING)
        coll_doubling(n, stage, s);
    else if (n->algorithm == COLL_RING)
        coll_ring_reduce(n, block, stage, s);
    else
        coll_tree(n, stage, s);
}

/* The number of an input: in the order in which a block takes them, from 0. Own data is the first
 * where there is some. */
static inline uint32_t coll_input(const struct coll_stage *s, uint32_t stage, uint32_t from) {
    uint32_t i = 0;
    while (i + 1u < s->ins && s->in[i] != from)
        i++;
    return s->first + i + (stage || s->own);
}

/* ---- On the card ---- */

#define COLL_ON_CARD 1024u /* vectors up to here stay on the card until they are complete */

/* The word of a chunk: a bit for each input that is here and was not taken, the number of the next
 * one that will be, and a lock. All zero before its first input and after its last. */
#define COLL_NEXT_SHIFT 24
#define COLL_LOCKED     0x80000000u

/* The memory of a communicator: this, and for each slot a word per chunk and, if they stay here,
 * the data and one vector per input. */
struct coll_state {
    uint32_t rank, ranks;
    uint32_t chunk_bytes;
    uint32_t words;      /* chunks of a slot; an even number */
    uint32_t slot_bytes; /* of data on the card */
    uint32_t room;       /* from one vector to the next, in host memory */
    uint32_t word[];
};

#endif
