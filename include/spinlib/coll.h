/* spinlib/coll.h: collectives of all ranks, by several algorithms, each in three variants:
 *     "rdma"       the processors forward and combine, after an event for each message;
 *     "triggered"  Portals 4: processors prepare triggered operations, cards execute them;
 *     "spin"       handlers on the cards forward and combine each packet as it arrives.
 * See handlers/coll/README.md for the algorithms. */
#ifndef SPINLIB_COLL_H
#define SPINLIB_COLL_H

#include "spinlib.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A communicator: all ranks of the job. Ranks make the same calls on it in the same order; they
 * need not be in step. Communicators are independent of each other. */
struct spin_coll;

/* All ranks call it, in the same order as other calls that take a portal table entry; returns when
 * all have. `pt` is the entry, or PTL_PT_ANY. Data travels in parts of at most `part_bytes` (0: 64
 * KiB), whatever its size: that bounds the memory of the communicator on host and card. */
int spin_coll_open(ptl_handle_ni_t ni, ptl_pt_index_t pt, uint32_t part_bytes,
                   struct spin_coll **coll);
/* All ranks, when their calls are over. */
void spin_coll_close(struct spin_coll *coll);

/* How a collective is done. A NULL is "auto", which depends on the collective, the size and the
 * number of ranks; so is a NULL instead of a pointer to this. */
struct spin_coll_how {
    const char *algorithm; /* "binomial", "pipelined", "recursive-doubling", "ring" */
    const char *variant;   /* "rdma", "triggered", "spin" */
};

/* What there is. The last row has no collective. */
struct spin_coll_way {
    const char *collective, *algorithm;
};
const struct spin_coll_way *spin_coll_ways(void);
const char *const *spin_coll_variants(void); /* the last is NULL */

/* Each returns when this rank's part is done and its buffers may be used; a barrier, when all ranks
 * have called it. `in` and `out` are different memory, or the same if both are needed (reduce and
 * allreduce). Types are PTL_INT32_T, PTL_INT64_T, PTL_UINT64_T, PTL_FLOAT and PTL_DOUBLE,
 * operations PTL_SUM, PTL_MIN, PTL_MAX and, of integers, PTL_BAND, PTL_BOR and PTL_BXOR. What is
 * computed depends on the algorithm and the number of ranks, and neither on the variant nor on the
 * order in which messages arrive; every rank gets the same bits.
 * PTL_ARG_INVALID: spin_coll_error says what is wrong. */
int spin_coll_barrier(struct spin_coll *coll, const struct spin_coll_how *how);
int spin_coll_broadcast(struct spin_coll *coll, const struct spin_coll_how *how, void *data,
                        uint64_t bytes, uint32_t root);
int spin_coll_reduce(struct spin_coll *coll, const struct spin_coll_how *how, const void *in,
                     void *out, uint64_t count, ptl_datatype_t type, ptl_op_t operation,
                     uint32_t root); /* `out` is the root's alone */
int spin_coll_allreduce(struct spin_coll *coll, const struct spin_coll_how *how, const void *in,
                        void *out, uint64_t count, ptl_datatype_t type, ptl_op_t operation);
/* `bytes` from each rank to `out`, in the order of ranks. */
int spin_coll_allgather(struct spin_coll *coll, const struct spin_coll_how *how, const void *in,
                        void *out, uint64_t bytes);
/* Rank r gets the r-th `bytes` of every rank. */
int spin_coll_alltoall(struct spin_coll *coll, const struct spin_coll_how *how, const void *in,
                       void *out, uint64_t bytes);

/* The same without waiting: start, and later wait for it, or test. Several may be started; they
 * run one after the other, each while its predecessor ends. What the cards do goes on by itself;
 * further parts begin, and processors forward ("rdma"), in spin_coll_test and spin_coll_wait. */
struct spin_coll_call {
    const char *collective; /* "broadcast", ... */
    struct spin_coll_how how;
    const void *in;
    void *out;      /* also what a broadcast sends or receives */
    uint64_t count; /* of elements, or bytes of broadcast, allgather and alltoall */
    ptl_datatype_t type;
    ptl_op_t operation;
    uint32_t root;
};
struct spin_coll_request;
int spin_coll_start(struct spin_coll *coll, const struct spin_coll_call *call,
                    struct spin_coll_request **request);
/* A request is over, and no longer there, once *done is true, or wait has returned. */
int spin_coll_test(struct spin_coll *coll, struct spin_coll_request *request, bool *done);
int spin_coll_wait(struct spin_coll *coll, struct spin_coll_request *request);

/* What is wrong with the last call. */
const char *spin_coll_error(const struct spin_coll *coll);

#ifdef __cplusplus
}
#endif

#endif
