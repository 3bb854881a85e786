/* Collectives: each call, blocking and not, notes its messages by mpi_algorithm.h. */
#include <stdlib.h>

#include "mpi_algorithm.h"

/* Messages of this many collectives of a communicator are kept apart, so that nonblocking ones may
 * overlap. */
#define KEPT_APART 64

/* A nonblocking collective is between two empty operations: what follows the call goes on from the
 * first, and its request stands for the second. */
struct noted {
    struct mpi_collective c;
    uint32_t entry;
};

static bool note_begin(struct noted *n, MPI_Comm comm, bool blocking) {
    trace_enter();
    n->entry = TRACE_NONE;
    n->c.comm = trace_comm(comm);
    if (!n->c.comm)
        return false;
    n->c.key = trace_key(n->c.comm, 1 + (int)(n->c.comm->collectives++ % KEPT_APART), 0);
    if (!blocking)
        n->entry = trace_add(TRACE_CALC, 0, 0, 0);
    return true;
}

static void note_request(struct noted *n, MPI_Request request) {
    struct mpi_trace *t = trace_of_process();
    uint32_t done = trace_add(TRACE_CALC, 0, 0, 0);
    if (done == TRACE_NONE || n->entry == TRACE_NONE)
        return;
    t->frontier.list[0] = (struct trace_edge){n->entry, false};
    trace_request_add((struct trace_request){.handle = request, .op = done, .type = TRACE_CALC});
}

#define OPEN(...) __VA_ARGS__
/* The call and its nonblocking form; what follows notes its messages in `n.c`. */
#define COLLECTIVE(Name, name, PARAMETERS, ARGUMENTS, ...)                                         \
    static void note_##name(struct mpi_collective *c, OPEN PARAMETERS) {                           \
        __VA_ARGS__                                                                                \
    }                                                                                              \
    int MPI_##Name(OPEN PARAMETERS) {                                                              \
        struct noted n;                                                                            \
        if (note_begin(&n, comm, true))                                                            \
            note_##name(&n.c, OPEN ARGUMENTS);                                                     \
        int code = PMPI_##Name(OPEN ARGUMENTS);                                                    \
        trace_leave();                                                                             \
        return code;                                                                               \
    }                                                                                              \
    int MPI_I##name(OPEN PARAMETERS, MPI_Request *request) {                                       \
        struct noted n;                                                                            \
        bool noted = note_begin(&n, comm, false);                                                  \
        if (noted)                                                                                 \
            note_##name(&n.c, OPEN ARGUMENTS);                                                     \
        int code = PMPI_I##name(OPEN ARGUMENTS, request);                                          \
        if (noted)                                                                                 \
            note_request(&n, *request);                                                            \
        trace_leave();                                                                             \
        return code;                                                                               \
    }

COLLECTIVE(Barrier, barrier, (MPI_Comm comm), (comm), collective_barrier(c);)

COLLECTIVE(Bcast, bcast, (void *data, int count, MPI_Datatype type, int root, MPI_Comm comm),
           (data, count, type, root, comm), collective_bcast(c, root, trace_bytes(count, type));)

COLLECTIVE(Reduce, reduce,
           (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, int root,
            MPI_Comm comm),
           (data, result, count, type, op, root, comm),
           collective_reduce(c, root, trace_bytes(count, type));)

COLLECTIVE(Allreduce, allreduce,
           (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, result, count, type, op, comm),
           collective_allreduce(c, trace_bytes(count, type));)

COLLECTIVE(Scan, scan,
           (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, result, count, type, op, comm), collective_scan(c, trace_bytes(count, type));)

COLLECTIVE(Exscan, exscan,
           (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, result, count, type, op, comm), collective_scan(c, trace_bytes(count, type));)

COLLECTIVE(Reduce_scatter, reduce_scatter,
           (const void *data, void *result, const int *counts, MPI_Datatype type, MPI_Op op,
            MPI_Comm comm),
           (data, result, counts, type, op, comm),
           collective_reduce_scatter(c, &(struct mpi_blocks){.counts = counts, .type = type});)

COLLECTIVE(Reduce_scatter_block, reduce_scatter_block,
           (const void *data, void *result, int count, MPI_Datatype type, MPI_Op op, MPI_Comm comm),
           (data, result, count, type, op, comm),
           collective_reduce_scatter(c, &(struct mpi_blocks){.bytes = trace_bytes(count, type)});)

/* Parameters of the calls that have a block to send and one to receive, of one size or of many. */
#define OUT      const void *out, int out_count, MPI_Datatype out_type
#define IN       void *in, int in_count, MPI_Datatype in_type
#define OUT_MANY const void *out, const int *out_counts, const int *out_at, MPI_Datatype out_type
#define IN_MANY  void *in, const int *in_counts, const int *in_at, MPI_Datatype in_type
#define OUT_WITH                                                                                   \
    const void *out, const int *out_counts, const int *out_at, const MPI_Datatype *out_types
#define IN_WITH void *in, const int *in_counts, const int *in_at, const MPI_Datatype *in_types

#define ONE(way)  ((struct mpi_blocks){.bytes = trace_bytes(way##_count, way##_type)})
#define MANY(way) ((struct mpi_blocks){.counts = way##_counts, .type = way##_type})
#define WITH(way) ((struct mpi_blocks){.counts = way##_counts, .types = way##_types})

COLLECTIVE(Gather, gather, (OUT, IN, int root, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, root, comm),
           collective_gather(c, root, c->comm->rank == root ? ONE(in).bytes : ONE(out).bytes);)

COLLECTIVE(Gatherv, gatherv, (OUT, IN_MANY, int root, MPI_Comm comm),
           (out, out_count, out_type, in, in_counts, in_at, in_type, root, comm),
           collective_gatherv(c, root, c->comm->rank == root ? 0 : ONE(out).bytes, &MANY(in));)

COLLECTIVE(Scatter, scatter, (OUT, IN, int root, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, root, comm),
           collective_scatter(c, root, c->comm->rank == root ? ONE(out).bytes : ONE(in).bytes);)

COLLECTIVE(Scatterv, scatterv, (OUT_MANY, IN, int root, MPI_Comm comm),
           (out, out_counts, out_at, out_type, in, in_count, in_type, root, comm),
           collective_scatterv(c, root, c->comm->rank == root ? 0 : ONE(in).bytes, &MANY(out));)

COLLECTIVE(Allgather, allgather, (OUT, IN, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, comm),
           collective_allgather(c, &ONE(in));)

COLLECTIVE(Allgatherv, allgatherv, (OUT, IN_MANY, MPI_Comm comm),
           (out, out_count, out_type, in, in_counts, in_at, in_type, comm),
           collective_allgather(c, &MANY(in));)

COLLECTIVE(Alltoall, alltoall, (OUT, IN, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, comm),
           collective_alltoall(c, out == MPI_IN_PLACE ? &ONE(in) : &ONE(out), &ONE(in));)

COLLECTIVE(Alltoallv, alltoallv, (OUT_MANY, IN_MANY, MPI_Comm comm),
           (out, out_counts, out_at, out_type, in, in_counts, in_at, in_type, comm),
           collective_alltoall(c, out == MPI_IN_PLACE ? &MANY(in) : &MANY(out), &MANY(in));)

COLLECTIVE(Alltoallw, alltoallw, (OUT_WITH, IN_WITH, MPI_Comm comm),
           (out, out_counts, out_at, out_types, in, in_counts, in_at, in_types, comm),
           collective_alltoall(c, out == MPI_IN_PLACE ? &WITH(in) : &WITH(out), &WITH(in));)

/* ---- between neighbours of a topology ---- */

struct neighbors {
    int *from, *to;
    int ins, outs;
};

static void neighbors_free(struct neighbors *n) {
    free(n->from);
    free(n->to);
}

static bool neighbors_room(struct neighbors *n, int ins, int outs) {
    *n = (struct neighbors){.from = calloc((size_t)ins + 1, sizeof(int)),
                            .to = calloc((size_t)outs + 1, sizeof(int)),
                            .ins = ins,
                            .outs = outs};
    if (n->from && n->to)
        return true;
    neighbors_free(n);
    trace_fail("there is no memory for the neighbours of a rank");
    return false;
}

static bool neighbors_of(MPI_Comm comm, int rank, struct neighbors *n) {
    int kind, ins, outs, weighted, dims;
    PMPI_Topo_test(comm, &kind);
    if (kind == MPI_CART) {
        PMPI_Cartdim_get(comm, &dims);
        if (!neighbors_room(n, 2 * dims, 2 * dims))
            return false;
        for (int d = 0; d < dims; d++)
            PMPI_Cart_shift(comm, d, 1, &n->from[2 * d], &n->from[2 * d + 1]);
        for (int i = 0; i < 2 * dims; i++)
            n->to[i] = n->from[i];
        return true;
    }
    if (kind == MPI_GRAPH) {
        PMPI_Graph_neighbors_count(comm, rank, &ins);
        if (!neighbors_room(n, ins, ins))
            return false;
        PMPI_Graph_neighbors(comm, rank, ins, n->from);
        PMPI_Graph_neighbors(comm, rank, ins, n->to);
        return true;
    }
    PMPI_Dist_graph_neighbors_count(comm, &ins, &outs, &weighted);
    if (!neighbors_room(n, ins, outs))
        return false;
    PMPI_Dist_graph_neighbors(comm, ins, n->from, MPI_UNWEIGHTED, outs, n->to, MPI_UNWEIGHTED);
    return true;
}

static void note_neighbors(const struct mpi_collective *c, MPI_Comm comm,
                           const struct mpi_blocks *out, const struct mpi_blocks *in) {
    struct neighbors n;
    if (!neighbors_of(comm, c->comm->rank, &n))
        return;
    collective_neighbors(c, n.to, n.outs, out, n.from, n.ins, in);
    neighbors_free(&n);
}

COLLECTIVE(Neighbor_allgather, neighbor_allgather, (OUT, IN, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, comm),
           note_neighbors(c, comm, &ONE(out), &ONE(in));)

COLLECTIVE(Neighbor_allgatherv, neighbor_allgatherv, (OUT, IN_MANY, MPI_Comm comm),
           (out, out_count, out_type, in, in_counts, in_at, in_type, comm),
           note_neighbors(c, comm, &ONE(out), &MANY(in));)

COLLECTIVE(Neighbor_alltoall, neighbor_alltoall, (OUT, IN, MPI_Comm comm),
           (out, out_count, out_type, in, in_count, in_type, comm),
           note_neighbors(c, comm, &ONE(out), &ONE(in));)

COLLECTIVE(Neighbor_alltoallv, neighbor_alltoallv, (OUT_MANY, IN_MANY, MPI_Comm comm),
           (out, out_counts, out_at, out_type, in, in_counts, in_at, in_type, comm),
           note_neighbors(c, comm, &MANY(out), &MANY(in));)
