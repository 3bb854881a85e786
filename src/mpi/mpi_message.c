/* Messages between two ranks: calls that send, receive and probe. */
#include "mpi_trace.h"

uint32_t trace_send(struct trace_comm *comm, int to, int tag, uint64_t bytes) {
    if (!comm || to == MPI_PROC_NULL || to < 0 || to >= comm->size)
        return TRACE_NONE;
    return trace_add(TRACE_SEND, (uint32_t)comm->world[to], bytes, trace_key(comm, 0, tag));
}

uint32_t trace_recv(struct trace_comm *comm, int from, int tag, uint64_t bytes) {
    if (!comm || from == MPI_PROC_NULL || from >= comm->size)
        return TRACE_NONE;
    return trace_add(TRACE_RECV, from < 0 ? TRACE_NONE : (uint32_t)comm->world[from], bytes,
                     tag == MPI_ANY_TAG ? 0 : trace_key(comm, 0, tag));
}

void trace_resolve(uint32_t op, const struct trace_comm *comm, MPI_Status *status) {
    struct mpi_trace *t = trace_of_process();
    int cancelled = 0, bytes;
    if (!t->on || op == TRACE_NONE || !comm)
        return;
    PMPI_Test_cancelled(status, &cancelled);
    if (cancelled || status->MPI_SOURCE < 0 || status->MPI_SOURCE >= comm->size) {
        t->ops[op] = (struct trace_op){.type = TRACE_CALC, .first_edge = t->ops[op].first_edge};
        return;
    }
    if (!t->wildcards || t->ops[op].peer != TRACE_NONE)
        t->ops[op].peer = (uint32_t)comm->world[status->MPI_SOURCE];
    t->ops[op].key = trace_key(comm, 0, status->MPI_TAG);
    PMPI_Get_count(status, MPI_BYTE, &bytes);
    if (bytes != MPI_UNDEFINED)
        t->ops[op].size = (uint64_t)bytes;
}

/* ---- sends ---- */

#define SENDS(Name)                                                                                \
    int MPI_##Name(const void *data, int count, MPI_Datatype type, int to, int tag,                \
                   MPI_Comm comm) {                                                                \
        trace_enter();                                                                             \
        trace_wait(trace_send(trace_comm(comm), to, tag, trace_bytes(count, type)));               \
        int code = PMPI_##Name(data, count, type, to, tag, comm);                                  \
        trace_leave();                                                                             \
        return code;                                                                               \
    }
SENDS(Send)
SENDS(Ssend)
SENDS(Bsend)
SENDS(Rsend)

#define STARTS_SEND(Name)                                                                          \
    int MPI_##Name(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm, \
                   MPI_Request *request) {                                                         \
        trace_enter();                                                                             \
        struct trace_comm *c = trace_comm(comm);                                                   \
        uint32_t op = trace_send(c, to, tag, trace_bytes(count, type));                            \
        int code = PMPI_##Name(data, count, type, to, tag, comm, request);                         \
        trace_request_add(                                                                         \
            (struct trace_request){.handle = *request, .op = op, .comm = c, .type = TRACE_SEND});  \
        trace_leave();                                                                             \
        return code;                                                                               \
    }
STARTS_SEND(Isend)
STARTS_SEND(Issend)
STARTS_SEND(Ibsend)
STARTS_SEND(Irsend)

#define PREPARES(Name, type_of_op, CONST)                                                          \
    int MPI_##Name(CONST void *data, int count, MPI_Datatype type, int peer, int tag,              \
                   MPI_Comm comm, MPI_Request *request) {                                          \
        trace_enter();                                                                             \
        int code = PMPI_##Name(data, count, type, peer, tag, comm, request);                       \
        trace_request_add((struct trace_request){.handle = *request,                               \
                                                 .op = TRACE_NONE,                                 \
                                                 .comm = trace_comm(comm),                         \
                                                 .persistent = true,                               \
                                                 .type = type_of_op,                               \
                                                 .peer = peer,                                     \
                                                 .tag = tag,                                       \
                                                 .bytes = trace_bytes(count, type)});              \
        trace_leave();                                                                             \
        return code;                                                                               \
    }
PREPARES(Send_init, TRACE_SEND, const)
PREPARES(Ssend_init, TRACE_SEND, const)
PREPARES(Bsend_init, TRACE_SEND, const)
PREPARES(Rsend_init, TRACE_SEND, const)
PREPARES(Recv_init, TRACE_RECV, )

/* ---- receives ---- */

int MPI_Recv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
             MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    struct trace_comm *c = trace_comm(comm);
    uint32_t op = trace_recv(c, from, tag, trace_bytes(count, type));
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Recv(data, count, type, from, tag, comm, status);
    trace_resolve(op, c, status);
    trace_wait(op);
    trace_leave();
    return code;
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request) {
    trace_enter();
    struct trace_comm *c = trace_comm(comm);
    uint32_t op = trace_recv(c, from, tag, trace_bytes(count, type));
    int code = PMPI_Irecv(data, count, type, from, tag, comm, request);
    trace_request_add(
        (struct trace_request){.handle = *request, .op = op, .comm = c, .type = TRACE_RECV});
    trace_leave();
    return code;
}

int MPI_Sendrecv(const void *out, int out_count, MPI_Datatype out_type, int to, int out_tag,
                 void *in, int in_count, MPI_Datatype in_type, int from, int in_tag, MPI_Comm comm,
                 MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    struct trace_comm *c = trace_comm(comm);
    uint32_t received = trace_recv(c, from, in_tag, trace_bytes(in_count, in_type));
    uint32_t sent = trace_send(c, to, out_tag, trace_bytes(out_count, out_type));
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Sendrecv(out, out_count, out_type, to, out_tag, in, in_count, in_type, from,
                             in_tag, comm, status);
    trace_resolve(received, c, status);
    trace_wait(sent);
    trace_wait(received);
    trace_leave();
    return code;
}

int MPI_Sendrecv_replace(void *data, int count, MPI_Datatype type, int to, int out_tag, int from,
                         int in_tag, MPI_Comm comm, MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    struct trace_comm *c = trace_comm(comm);
    uint32_t received = trace_recv(c, from, in_tag, trace_bytes(count, type));
    uint32_t sent = trace_send(c, to, out_tag, trace_bytes(count, type));
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Sendrecv_replace(data, count, type, to, out_tag, from, in_tag, comm, status);
    trace_resolve(received, c, status);
    trace_wait(sent);
    trace_wait(received);
    trace_leave();
    return code;
}

/* ---- probes: the receive that follows is what the schedule has ---- */

int MPI_Probe(int from, int tag, MPI_Comm comm, MPI_Status *status) {
    trace_enter();
    int code = PMPI_Probe(from, tag, comm, status);
    trace_leave();
    return code;
}

int MPI_Iprobe(int from, int tag, MPI_Comm comm, int *flag, MPI_Status *status) {
    trace_enter();
    int code = PMPI_Iprobe(from, tag, comm, flag, status);
    if (*flag)
        trace_leave();
    else
        trace_leave_in_vain();
    return code;
}

/* A message that was taken out is received by a call that does not name its communicator, so the
 * receive is noted here, with what is known of it now. */
static void note_taken(MPI_Message message, struct trace_comm *comm, MPI_Status *status) {
    if (!comm || message == MPI_MESSAGE_NULL || message == MPI_MESSAGE_NO_PROC)
        return;
    uint32_t op = trace_recv(comm, status->MPI_SOURCE, status->MPI_TAG, 0);
    trace_resolve(op, comm, status);
    trace_wait(op);
}

int MPI_Mprobe(int from, int tag, MPI_Comm comm, MPI_Message *message, MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Mprobe(from, tag, comm, message, status);
    note_taken(*message, trace_comm(comm), status);
    trace_leave();
    return code;
}

int MPI_Improbe(int from, int tag, MPI_Comm comm, int *flag, MPI_Message *message,
                MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Improbe(from, tag, comm, flag, message, status);
    if (*flag)
        note_taken(*message, trace_comm(comm), status);
    if (*flag)
        trace_leave();
    else
        trace_leave_in_vain();
    return code;
}

int MPI_Mrecv(void *data, int count, MPI_Datatype type, MPI_Message *message, MPI_Status *status) {
    trace_enter();
    int code = PMPI_Mrecv(data, count, type, message, status);
    trace_leave();
    return code;
}

int MPI_Imrecv(void *data, int count, MPI_Datatype type, MPI_Message *message,
               MPI_Request *request) {
    trace_enter();
    int code = PMPI_Imrecv(data, count, type, message, request);
    trace_leave();
    return code;
}
