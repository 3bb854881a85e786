/* What a rank does, as operations: the clock, the frontier, and the tables that grow. */
#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "mpi_trace.h"

/* A loop around MPI_Test takes less than this for an iteration; its time is waiting. */
#define POLL_NS 1000

struct mpi_trace *trace_of_process(void) {
    static struct mpi_trace trace;
    return &trace;
}

static uint64_t now_ns(const struct mpi_trace *t) {
    struct timespec now;
    clock_gettime(t->wall ? CLOCK_MONOTONIC : CLOCK_THREAD_CPUTIME_ID, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

void trace_enter(void) {
    struct mpi_trace *t = trace_of_process();
    if (!t->on)
        return;
    uint64_t passed = now_ns(t) - t->since_ns;
    if (!t->polled || passed >= POLL_NS)
        t->calc_ns += passed;
}

void trace_leave(void) {
    struct mpi_trace *t = trace_of_process();
    t->polled = false;
    t->since_ns = now_ns(t);
}

void trace_leave_in_vain(void) {
    trace_leave();
    trace_of_process()->polled = true;
}

void trace_fail(const char *format, ...) {
    struct mpi_trace *t = trace_of_process();
    t->on = false;
    if (t->failed[0])
        return;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(t->failed, sizeof t->failed, format, arguments);
    va_end(arguments);
}

bool trace_room(void **list, uint32_t *room, uint32_t count, size_t bytes) {
    if (count < *room)
        return true;
    uint64_t wanted = *room ? (uint64_t)*room * 2 : 64;
    void *larger = wanted < TRACE_NONE ? realloc(*list, wanted * bytes) : NULL;
    if (!larger) {
        trace_fail("there is no memory for more operations");
        return false;
    }
    *list = larger;
    *room = (uint32_t)wanted;
    return true;
}

static void edge_add(struct trace_edges *edges, struct trace_edge edge) {
    if (trace_room((void **)&edges->list, &edges->room, edges->count, sizeof edge))
        edges->list[edges->count++] = edge;
}

static uint32_t op_add(struct mpi_trace *t, struct trace_op op) {
    if (!trace_room((void **)&t->ops, &t->op_room, t->op_count, sizeof op))
        return TRACE_NONE;
    op.first_edge = t->edges.count;
    for (uint32_t i = 0; i < t->frontier.count; i++)
        edge_add(&t->edges, t->frontier.list[i]);
    t->frontier.count = 0;
    edge_add(&t->frontier, (struct trace_edge){t->op_count, op.type != TRACE_CALC});
    t->ops[t->op_count] = op;
    return t->op_count++;
}

/* Computation so far comes before what follows. */
static void flush_calc(struct mpi_trace *t) {
    bool counts = t->calc_ns >= t->shortest_ns;
    uint64_t size = counts ? (uint64_t)((double)t->calc_ns * t->scale + 0.5) : 0;
    t->calc_ns = 0;
    if (size)
        op_add(t, (struct trace_op){.type = TRACE_CALC, .size = size});
}

uint32_t trace_add(enum trace_type type, uint32_t peer, uint64_t size, uint32_t key) {
    struct mpi_trace *t = trace_of_process();
    if (!t->on)
        return TRACE_NONE;
    flush_calc(t);
    return op_add(t, (struct trace_op){.type = type, .peer = peer, .size = size, .key = key});
}

void trace_wait(uint32_t op) {
    struct mpi_trace *t = trace_of_process();
    if (!t->on || op == TRACE_NONE)
        return;
    flush_calc(t);
    struct trace_edges *f = &t->frontier;
    if (f->count && f->list[0].op == op) /* it was the last operation */
        f->list[0].on_start = false;
    else
        edge_add(f, (struct trace_edge){op, false});
}

static int key_order(const void *a, const void *b) {
    const struct mpi_trace *t = trace_of_process();
    return memcmp(&t->keys[*(const uint32_t *)a], &t->keys[*(const uint32_t *)b], sizeof *t->keys);
}

uint32_t trace_key(const struct trace_comm *comm, int collective, int tag) {
    struct mpi_trace *t = trace_of_process();
    uint32_t *own = malloc(sizeof *own);
    if (!own || !trace_room((void **)&t->keys, &t->key_room, t->key_count, sizeof *t->keys)) {
        free(own);
        trace_fail("there is no memory for more tags");
        return 0;
    }
    *own = t->key_count;
    t->keys[*own] = (struct trace_key){comm->id, collective, tag};
    uint32_t **found = tsearch(own, &t->key_tree, key_order);
    if (found && *found == own) {
        t->key_count++;
        return *own;
    }
    free(own);
    return found ? **found : 0;
}
