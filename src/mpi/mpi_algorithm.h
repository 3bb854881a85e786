/* The messages of a collective on one rank, by the usual algorithms. What a library does depends on
 * its version, the machine and its settings; these are the ones that the textbooks have, chosen by
 * size alone. Reductions take no time of their own. */
#ifndef SPIN_MPI_ALGORITHM_H
#define SPIN_MPI_ALGORITHM_H

#include "mpi_trace.h"

/* A collective that is being noted. */
struct mpi_collective {
    struct trace_comm *comm;
    uint32_t key;
};

/* Sizes of blocks, one per rank. */
struct mpi_blocks {
    const int *counts;         /* NULL: all have `bytes` */
    const MPI_Datatype *types; /* of alltoallw; NULL: `type` */
    MPI_Datatype type;
    uint64_t bytes;
};
uint64_t block_bytes(const struct mpi_blocks *b, int rank);

void collective_barrier(const struct mpi_collective *c);                         /* dissemination */
void collective_bcast(const struct mpi_collective *c, int root, uint64_t bytes); /* binomial tree */
void collective_reduce(const struct mpi_collective *c, int root,
                       uint64_t bytes); /* binomial tree */
/* Recursive doubling up to RING_FROM bytes, round a ring (in as many pieces as ranks) above. */
#define RING_FROM (64u << 10)
void collective_allreduce(const struct mpi_collective *c, uint64_t bytes);
void collective_gather(const struct mpi_collective *c, int root,
                       uint64_t bytes); /* binomial tree */
void collective_scatter(const struct mpi_collective *c, int root,
                        uint64_t bytes); /* binomial tree */
/* The root's blocks; `own` are this rank's bytes. All directly from and to the root. */
void collective_gatherv(const struct mpi_collective *c, int root, uint64_t own,
                        const struct mpi_blocks *all);
void collective_scatterv(const struct mpi_collective *c, int root, uint64_t own,
                         const struct mpi_blocks *all);
void collective_allgather(const struct mpi_collective *c, const struct mpi_blocks *all); /* ring */
void collective_reduce_scatter(const struct mpi_collective *c,
                               const struct mpi_blocks *all); /* ring */
void collective_alltoall(const struct mpi_collective *c, const struct mpi_blocks *out,
                         const struct mpi_blocks *in);                /* one partner per step */
void collective_scan(const struct mpi_collective *c, uint64_t bytes); /* recursive doubling */
/* All at once; ranks below 0 are not there. */
void collective_neighbors(const struct mpi_collective *c, const int *to, int outs,
                          const struct mpi_blocks *out, const int *from, int ins,
                          const struct mpi_blocks *in);

#endif
