/* Requests: calls that complete them, and persistent ones. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_trace.h"

static int order(const void *a, const void *b) {
    return memcmp(a, b, sizeof(MPI_Request));
}

void trace_request_add(struct trace_request request) {
    struct mpi_trace *t = trace_of_process();
    if (!t->on || request.handle == MPI_REQUEST_NULL)
        return;
    struct trace_request *own = malloc(sizeof *own);
    if (own)
        *own = request;
    struct trace_request **found = own ? tsearch(own, &t->request_tree, order) : NULL;
    if (!found)
        trace_fail("there is no memory for more requests");
    if (found && *found != own) /* a handle that is used again */
        **found = request;
    if (!found || *found != own)
        free(own);
}

static struct trace_request *find(MPI_Request handle) {
    struct mpi_trace *t = trace_of_process();
    if (!t->on || handle == MPI_REQUEST_NULL)
        return NULL;
    struct trace_request **found = tfind(&handle, &t->request_tree, order);
    return found ? *found : NULL;
}

static void forget(struct trace_request *r) {
    tdelete(r, &trace_of_process()->request_tree, order);
    free(r);
}

static void complete(MPI_Request handle, MPI_Status *status) {
    struct trace_request *r = find(handle);
    if (!r)
        return;
    if (r->op != TRACE_NONE) {
        if (r->type == TRACE_RECV)
            trace_resolve(r->op, r->comm, status);
        trace_wait(r->op);
    }
    r->op = TRACE_NONE;
    if (!r->persistent)
        forget(r);
}

/* ---- one request ---- */

int MPI_Wait(MPI_Request *request, MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    MPI_Request handle = *request;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Wait(request, status);
    complete(handle, status);
    trace_leave();
    return code;
}

int MPI_Test(MPI_Request *request, int *flag, MPI_Status *status) {
    trace_enter();
    MPI_Status own;
    MPI_Request handle = *request;
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = PMPI_Test(request, flag, status);
    if (*flag) {
        complete(handle, status);
        trace_leave();
    } else {
        trace_leave_in_vain();
    }
    return code;
}

int MPI_Request_free(MPI_Request *request) {
    trace_enter();
    struct trace_request *r = find(*request);
    if (r)
        forget(r);
    int code = PMPI_Request_free(request);
    trace_leave();
    return code;
}

static void start(MPI_Request handle) {
    struct trace_request *r = find(handle);
    if (!r || !r->persistent)
        return;
    r->op = r->type == TRACE_SEND ? trace_send(r->comm, r->peer, r->tag, r->bytes)
                                  : trace_recv(r->comm, r->peer, r->tag, r->bytes);
}

int MPI_Start(MPI_Request *request) {
    trace_enter();
    start(*request);
    int code = PMPI_Start(request);
    trace_leave();
    return code;
}

int MPI_Startall(int count, MPI_Request *requests) {
    trace_enter();
    for (int i = 0; i < count; i++)
        start(requests[i]);
    int code = PMPI_Startall(count, requests);
    trace_leave();
    return code;
}

/* ---- several: the handles as they were before the call, and a place for statuses ---- */

struct several {
    MPI_Request *handles;
    MPI_Status *statuses, *own;
};

static bool several_begin(struct several *s, int count, const MPI_Request *requests,
                          MPI_Status *statuses) {
    trace_enter();
    size_t n = count > 0 ? (size_t)count : 1;
    *s = (struct several){.handles = malloc(n * sizeof *s->handles), .statuses = statuses};
    if (statuses == MPI_STATUSES_IGNORE)
        s->statuses = s->own = malloc(n * sizeof *s->own);
    if (!s->handles || !s->statuses) {
        trace_fail("there is no memory for the requests of a call");
        s->statuses = statuses;
        return false;
    }
    if (count > 0)
        memcpy(s->handles, requests, n * sizeof *s->handles);
    return true;
}

static void several_end(struct several *s, bool in_vain) {
    free(s->handles);
    free(s->own);
    if (in_vain)
        trace_leave_in_vain();
    else
        trace_leave();
}

int MPI_Waitall(int count, MPI_Request *requests, MPI_Status *statuses) {
    struct several s;
    bool noted = several_begin(&s, count, requests, statuses);
    int code = PMPI_Waitall(count, requests, s.statuses);
    for (int i = 0; noted && i < count; i++)
        complete(s.handles[i], &s.statuses[i]);
    several_end(&s, false);
    return code;
}

int MPI_Testall(int count, MPI_Request *requests, int *flag, MPI_Status *statuses) {
    struct several s;
    bool noted = several_begin(&s, count, requests, statuses);
    int code = PMPI_Testall(count, requests, flag, s.statuses);
    for (int i = 0; noted && *flag && i < count; i++)
        complete(s.handles[i], &s.statuses[i]);
    several_end(&s, !*flag);
    return code;
}

/* Waitany and Testany; `flag` is 1 for the first. */
static int any(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status,
               bool wait) {
    struct several s;
    MPI_Status own;
    bool noted = several_begin(&s, count, requests, MPI_STATUSES_IGNORE);
    status = status == MPI_STATUS_IGNORE ? &own : status;
    int code = wait ? PMPI_Waitany(count, requests, index, status)
                    : PMPI_Testany(count, requests, index, flag, status);
    if (noted && *flag && *index != MPI_UNDEFINED)
        complete(s.handles[*index], status);
    several_end(&s, !*flag);
    return code;
}

int MPI_Waitany(int count, MPI_Request *requests, int *index, MPI_Status *status) {
    int flag = 1;
    return any(count, requests, index, &flag, status, true);
}

int MPI_Testany(int count, MPI_Request *requests, int *index, int *flag, MPI_Status *status) {
    return any(count, requests, index, flag, status, false);
}

static int some(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses,
                bool wait) {
    struct several s;
    bool noted = several_begin(&s, count, requests, statuses);
    int code = wait ? PMPI_Waitsome(count, requests, done, indices, s.statuses)
                    : PMPI_Testsome(count, requests, done, indices, s.statuses);
    for (int i = 0; noted && *done != MPI_UNDEFINED && i < *done; i++)
        complete(s.handles[indices[i]], &s.statuses[i]);
    several_end(&s, *done == 0);
    return code;
}

int MPI_Waitsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {
    return some(count, requests, done, indices, statuses, true);
}

int MPI_Testsome(int count, MPI_Request *requests, int *done, int *indices, MPI_Status *statuses) {
    return some(count, requests, done, indices, statuses, false);
}
