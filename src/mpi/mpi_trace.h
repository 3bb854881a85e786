/* The tracer for MPI programs: a library that is loaded before Open MPI's and sees every call
 * through MPI's profiling interface (PMPI). Each rank keeps what it sends, receives and computes as
 * operations of a GOAL schedule; MPI_Finalize brings them together in one file.
 *
 * The *frontier* is what the next operation has to wait for. A blocking call puts itself there; a
 * nonblocking one only its start, until a call that completes its request adds the operation
 * itself. Time that passes between two calls becomes a calc.
 *
 * There is one trace per process, because MPI's calls name none. MPI must not be called by several
 * threads at a time. */
#ifndef SPIN_MPI_TRACE_H
#define SPIN_MPI_TRACE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRACE_NONE UINT32_MAX /* no operation; the source of a receive from anybody */

enum trace_type { TRACE_SEND, TRACE_RECV, TRACE_CALC };

/* What keeps messages apart. The communicator's id is the same on all of its ranks. */
struct trace_key {
    uint64_t comm;
    int32_t collective; /* 0: a message of the program; else which of its last collectives */
    int32_t tag;
};

struct trace_op {
    uint64_t size; /* bytes, or nanoseconds */
    uint32_t peer; /* in MPI_COMM_WORLD */
    uint32_t key;  /* index in trace.keys */
    uint32_t first_edge;
    uint8_t type;
};

/* One operation waits for another, until that is done or (on_start) has started. */
struct trace_edge {
    uint32_t op;
    bool on_start;
};

struct trace_edges {
    struct trace_edge *list;
    uint32_t count, room;
};

struct mpi_trace {
    bool on;
    bool wildcards;       /* receives from anybody stay so */
    bool wall;            /* which clock measures computation */
    double scale;         /* of computation */
    uint64_t shortest_ns; /* computation that counts */
    uint64_t since_ns, calc_ns;
    bool polled; /* the last call asked for something that was not there */
    int rank, ranks;
    struct trace_op *ops;
    uint32_t op_count, op_room;
    struct trace_edges edges; /* of all operations */
    struct trace_edges frontier;
    struct trace_key *keys;
    uint32_t key_count, key_room;
    void *key_tree, *request_tree;
    uint32_t comms_made;
    int comm_keyval;
    char *path;
    char failed[200]; /* why there will be no schedule */
};
struct mpi_trace *trace_of_process(void);

/* ---- recording (mpi_record.c) ---- */

/* Every traced call of MPI is between these. */
void trace_enter(void);
void trace_leave(void);
/* As trace_leave, for a call that asked in vain: a short time until the next call is waiting. */
void trace_leave_in_vain(void);

struct trace_comm {
    uint64_t id;
    int rank, size;
    uint32_t collectives; /* that were called on it */
    int world[];          /* rank of the communicator -> of MPI_COMM_WORLD */
};

uint32_t trace_key(const struct trace_comm *comm, int collective, int tag);
/* Returns its number; the frontier is its start. */
uint32_t trace_add(enum trace_type type, uint32_t peer, uint64_t size, uint32_t key);
/* What follows waits for it. */
void trace_wait(uint32_t op);
/* The schedule cannot be right any more; the first reason counts. */
void trace_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* An array with room for one more; false: trace_fail. */
bool trace_room(void **list, uint32_t *room, uint32_t count, size_t bytes);

/* ---- communicators (mpi_communicator.c) ---- */

/* NULL, and trace_fail, for one that is not traced. */
struct trace_comm *trace_comm(MPI_Comm comm);
/* All of its ranks call this. */
void trace_comm_add(MPI_Comm comm);
void trace_comm_begin(void);
uint64_t trace_bytes(int64_t count, MPI_Datatype type);

/* ---- requests (mpi_request.c) ---- */

struct trace_request {
    MPI_Request handle; /* first: the tree compares it */
    uint32_t op;        /* TRACE_NONE: a persistent one that is not started */
    struct trace_comm *comm;
    bool persistent;
    uint8_t type;
    int peer, tag;
    uint64_t bytes;
};
void trace_request_add(struct trace_request request);

/* ---- messages (mpi_message.c) ---- */

uint32_t trace_send(struct trace_comm *comm, int to, int tag, uint64_t bytes);
uint32_t trace_recv(struct trace_comm *comm, int from, int tag, uint64_t bytes);
/* What a receive took. */
void trace_resolve(uint32_t op, const struct trace_comm *comm, MPI_Status *status);

/* ---- the file (mpi_write.c) ---- */

/* All ranks call this. */
void trace_write(void);

#endif
