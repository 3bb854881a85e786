#include "mpi_algorithm.h"

uint64_t block_bytes(const struct mpi_blocks *b, int rank) {
    if (!b->counts)
        return b->bytes;
    return trace_bytes(b->counts[rank], b->types ? b->types[rank] : b->type);
}

static uint32_t deliver(const struct mpi_collective *c, int to, uint64_t bytes) {
    return trace_add(TRACE_SEND, (uint32_t)c->comm->world[to], bytes, c->key);
}

static uint32_t receive(const struct mpi_collective *c, int from, uint64_t bytes) {
    return trace_add(TRACE_RECV, (uint32_t)c->comm->world[from], bytes, c->key);
}

static void exchange(const struct mpi_collective *c, int to, uint64_t out, int from, uint64_t in) {
    uint32_t received = receive(c, from, in), sent = deliver(c, to, out);
    trace_wait(sent);
    trace_wait(received);
}

/* The rank that is `distance` further, round the ring. */
static int further(const struct mpi_collective *c, int rank, int distance) {
    int size = c->comm->size;
    return (int)(((int64_t)rank + distance + size) % size);
}

void collective_barrier(const struct mpi_collective *c) {
    int rank = c->comm->rank;
    for (int d = 1; d < c->comm->size; d *= 2)
        exchange(c, further(c, rank, d), 1, further(c, rank, -d), 1);
}

/* The lowest bit of a rank's distance from the root leads to its parent; those below it to its
 * children. */
static int parent_bit(const struct mpi_collective *c, int relative) {
    int bit = 1;
    while (bit < c->comm->size && !(relative & bit))
        bit *= 2;
    return bit;
}

/* Ranks below the child at this bit, itself included. */
static uint64_t subtree(const struct mpi_collective *c, int child, int bit) {
    int rest = c->comm->size - child;
    return (uint64_t)(rest < bit ? rest : bit);
}

/* Down a binomial tree: `bytes` to each child, times the ranks below it (each). */
static void tree_down(const struct mpi_collective *c, int root, uint64_t bytes, bool each) {
    int relative = further(c, c->comm->rank, -root), bit = parent_bit(c, relative);
    if (relative)
        trace_wait(receive(c, further(c, relative - bit, root),
                           each ? bytes * subtree(c, relative, bit) : bytes));
    for (bit /= 2; bit; bit /= 2)
        if (relative + bit < c->comm->size)
            trace_wait(deliver(c, further(c, relative + bit, root),
                               each ? bytes * subtree(c, relative + bit, bit) : bytes));
}

static void tree_up(const struct mpi_collective *c, int root, uint64_t bytes, bool each) {
    int relative = further(c, c->comm->rank, -root), last = parent_bit(c, relative);
    for (int bit = 1; bit < last; bit *= 2)
        if (relative + bit < c->comm->size)
            trace_wait(receive(c, further(c, relative + bit, root),
                               each ? bytes * subtree(c, relative + bit, bit) : bytes));
    if (relative)
        trace_wait(deliver(c, further(c, relative - last, root),
                           each ? bytes * subtree(c, relative, last) : bytes));
}

void collective_bcast(const struct mpi_collective *c, int root, uint64_t bytes) {
    tree_down(c, root, bytes, false);
}

void collective_reduce(const struct mpi_collective *c, int root, uint64_t bytes) {
    tree_up(c, root, bytes, false);
}

void collective_scatter(const struct mpi_collective *c, int root, uint64_t bytes) {
    tree_down(c, root, bytes, true);
}

void collective_gather(const struct mpi_collective *c, int root, uint64_t bytes) {
    tree_up(c, root, bytes, true);
}

/* ---- round the ring: step i hands on block (rank + first - i) ---- */

static void ring(const struct mpi_collective *c, const struct mpi_blocks *b, int first) {
    int rank = c->comm->rank, size = c->comm->size;
    for (int i = 0; i < size - 1; i++) {
        int out = further(c, rank, first - i), in = further(c, rank, first - i - 1);
        exchange(c, further(c, rank, 1), block_bytes(b, further(c, out, size)),
                 further(c, rank, -1), block_bytes(b, further(c, in, size)));
    }
}

void collective_allgather(const struct mpi_collective *c, const struct mpi_blocks *all) {
    ring(c, all, 0);
}

void collective_reduce_scatter(const struct mpi_collective *c, const struct mpi_blocks *all) {
    ring(c, all, -1);
}

/* Ranks beyond the largest power of two give what they have to a partner, and get the result. */
static void doubling(const struct mpi_collective *c, uint64_t bytes) {
    int rank = c->comm->rank, size = c->comm->size, power = 1;
    while (power * 2 <= size)
        power *= 2;
    int beyond = size - power;
    if (rank >= power) {
        trace_wait(deliver(c, rank - power, bytes));
        trace_wait(receive(c, rank - power, bytes));
        return;
    }
    if (rank < beyond)
        trace_wait(receive(c, rank + power, bytes));
    for (int d = 1; d < power; d *= 2)
        exchange(c, rank ^ d, bytes, rank ^ d, bytes);
    if (rank < beyond)
        trace_wait(deliver(c, rank + power, bytes));
}

void collective_allreduce(const struct mpi_collective *c, uint64_t bytes) {
    if (bytes <= RING_FROM) {
        doubling(c, bytes);
        return;
    }
    uint64_t pieces = (uint64_t)c->comm->size;
    const struct mpi_blocks piece = {.bytes = (bytes + pieces - 1) / pieces};
    ring(c, &piece, -1);
    ring(c, &piece, 0);
}

void collective_gatherv(const struct mpi_collective *c, int root, uint64_t own,
                        const struct mpi_blocks *all) {
    int rank = c->comm->rank, size = c->comm->size;
    if (rank != root) {
        trace_wait(deliver(c, root, own));
        return;
    }
    uint32_t first = TRACE_NONE;
    for (int i = 1; i < size; i++) {
        uint32_t op = receive(c, further(c, rank, i), block_bytes(all, further(c, rank, i)));
        first = first == TRACE_NONE ? op : first;
    }
    for (int i = 1; i < size && first != TRACE_NONE; i++)
        trace_wait(first + (uint32_t)i - 1);
}

void collective_scatterv(const struct mpi_collective *c, int root, uint64_t own,
                         const struct mpi_blocks *all) {
    int rank = c->comm->rank;
    if (rank != root) {
        trace_wait(receive(c, root, own));
        return;
    }
    for (int i = 1; i < c->comm->size; i++)
        trace_wait(deliver(c, further(c, rank, i), block_bytes(all, further(c, rank, i))));
}

void collective_alltoall(const struct mpi_collective *c, const struct mpi_blocks *out,
                         const struct mpi_blocks *in) {
    int rank = c->comm->rank;
    for (int i = 1; i < c->comm->size; i++) {
        int to = further(c, rank, i), from = further(c, rank, -i);
        exchange(c, to, block_bytes(out, to), from, block_bytes(in, from));
    }
}

void collective_scan(const struct mpi_collective *c, uint64_t bytes) {
    int rank = c->comm->rank;
    for (int64_t d = 1; d < c->comm->size; d *= 2) {
        uint32_t received = TRACE_NONE, sent = TRACE_NONE;
        if (rank >= d)
            received = receive(c, (int)(rank - d), bytes);
        if (rank + d < c->comm->size)
            sent = deliver(c, (int)(rank + d), bytes);
        trace_wait(sent);
        trace_wait(received);
    }
}

void collective_neighbors(const struct mpi_collective *c, const int *to, int outs,
                          const struct mpi_blocks *out, const int *from, int ins,
                          const struct mpi_blocks *in) {
    uint32_t first = TRACE_NONE, last = TRACE_NONE;
    for (int i = 0; i < ins + outs; i++) {
        int peer = i < ins ? from[i] : to[i - ins];
        if (peer < 0)
            continue;
        last = i < ins ? receive(c, peer, block_bytes(in, i))
                       : deliver(c, peer, block_bytes(out, i - ins));
        first = first == TRACE_NONE ? last : first;
    }
    for (uint32_t op = first; op != TRACE_NONE && op <= last; op++)
        trace_wait(op);
}
