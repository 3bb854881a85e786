/* Communicators: each has an id that all of its ranks agree on, and who they are in
 * MPI_COMM_WORLD. They are kept until the end, because requests may outlive MPI_Comm_free. */
#include <stdlib.h>

#include "mpi_trace.h"

static int *world_ranks(MPI_Comm comm, int size, int *world) {
    MPI_Group group, all;
    int *own = malloc((size_t)size * sizeof *own);
    if (!own)
        return NULL;
    for (int i = 0; i < size; i++)
        own[i] = i;
    PMPI_Comm_group(comm, &group);
    PMPI_Comm_group(MPI_COMM_WORLD, &all);
    PMPI_Group_translate_ranks(group, size, own, all, world);
    PMPI_Group_free(&group);
    PMPI_Group_free(&all);
    return own;
}

void trace_comm_add(MPI_Comm comm) {
    struct mpi_trace *t = trace_of_process();
    if (comm == MPI_COMM_NULL || !t->path)
        return;
    int size, between;
    PMPI_Comm_test_inter(comm, &between);
    if (between) {
        trace_fail("the program uses communicators between groups, which are not traced");
        return;
    }
    PMPI_Comm_size(comm, &size);
    struct trace_comm *c = malloc(sizeof *c + (size_t)size * sizeof c->world[0]);
    int *own = c ? world_ranks(comm, size, c->world) : NULL;
    /* All take part in this, also one that has failed. */
    uint64_t id = (uint64_t)t->rank << 32 | t->comms_made++;
    PMPI_Bcast(&id, 1, MPI_UINT64_T, 0, comm);
    if (!own) {
        free(c);
        trace_fail("there is no memory for a communicator");
        return;
    }
    free(own);
    c->id = id;
    c->size = size;
    c->collectives = 0;
    PMPI_Comm_rank(comm, &c->rank);
    PMPI_Comm_set_attr(comm, t->comm_keyval, c);
}

void trace_comm_begin(void) {
    struct mpi_trace *t = trace_of_process();
    PMPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, &t->comm_keyval, NULL);
    trace_comm_add(MPI_COMM_WORLD); /* with the id 0 */
    trace_comm_add(MPI_COMM_SELF);
}

struct trace_comm *trace_comm(MPI_Comm comm) {
    struct mpi_trace *t = trace_of_process();
    void *found;
    int there = 0;
    if (!t->on)
        return NULL;
    PMPI_Comm_get_attr(comm, t->comm_keyval, &found, &there);
    if (!there)
        trace_fail("the program made a communicator by a call that is not traced");
    return there ? found : NULL;
}

uint64_t trace_bytes(int64_t count, MPI_Datatype type) {
    MPI_Count bytes = 0;
    if (count <= 0)
        return 0;
    PMPI_Type_size_x(type, &bytes);
    return bytes > 0 ? (uint64_t)bytes * (uint64_t)count : 0;
}

#define OPEN(...) __VA_ARGS__
/* A call that makes the communicator *made. */
#define MAKES(Name, PARAMETERS, ARGUMENTS)                                                         \
    int MPI_##Name(OPEN PARAMETERS) {                                                              \
        trace_enter();                                                                             \
        int code = PMPI_##Name(OPEN ARGUMENTS);                                                    \
        if (code == MPI_SUCCESS)                                                                   \
            trace_comm_add(*made);                                                                 \
        trace_leave();                                                                             \
        return code;                                                                               \
    }

MAKES(Comm_dup, (MPI_Comm comm, MPI_Comm *made), (comm, made))
MAKES(Comm_dup_with_info, (MPI_Comm comm, MPI_Info info, MPI_Comm *made), (comm, info, made))
MAKES(Comm_split, (MPI_Comm comm, int color, int key, MPI_Comm *made), (comm, color, key, made))
MAKES(Comm_split_type, (MPI_Comm comm, int type, int key, MPI_Info info, MPI_Comm *made),
      (comm, type, key, info, made))
MAKES(Comm_create, (MPI_Comm comm, MPI_Group group, MPI_Comm *made), (comm, group, made))
MAKES(Comm_create_group, (MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made),
      (comm, group, tag, made))
MAKES(Cart_create,
      (MPI_Comm comm, int dims, const int *size, const int *periodic, int reorder, MPI_Comm *made),
      (comm, dims, size, periodic, reorder, made))
MAKES(Cart_sub, (MPI_Comm comm, const int *remain, MPI_Comm *made), (comm, remain, made))
MAKES(Graph_create,
      (MPI_Comm comm, int nodes, const int *index, const int *edges, int reorder, MPI_Comm *made),
      (comm, nodes, index, edges, reorder, made))
MAKES(Dist_graph_create,
      (MPI_Comm comm, int n, const int *sources, const int *degrees, const int *destinations,
       const int *weights, MPI_Info info, int reorder, MPI_Comm *made),
      (comm, n, sources, degrees, destinations, weights, info, reorder, made))
MAKES(Dist_graph_create_adjacent,
      (MPI_Comm comm, int in, const int *sources, const int *in_weights, int out,
       const int *destinations, const int *out_weights, MPI_Info info, int reorder, MPI_Comm *made),
      (comm, in, sources, in_weights, out, destinations, out_weights, info, reorder, made))
MAKES(Intercomm_create,
      (MPI_Comm comm, int leader, MPI_Comm peers, int other, int tag, MPI_Comm *made),
      (comm, leader, peers, other, tag, made))
MAKES(Intercomm_merge, (MPI_Comm comm, int high, MPI_Comm *made), (comm, high, made))

/* Done when it returns: the id of the communicator is agreed on by a call on it. */
int MPI_Comm_idup(MPI_Comm comm, MPI_Comm *made, MPI_Request *request) {
    *request = MPI_REQUEST_NULL;
    return MPI_Comm_dup(comm, made);
}
