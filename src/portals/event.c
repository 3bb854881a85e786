/* Full and counting events. A call that waits looks, waits until something was raised, and looks
 * again; what it waits for may be freed meanwhile, by another thread: PTL_INTERRUPTED. */
#include <stdio.h>

#include "portals/portals_call.h"

int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle) {
    PORTALS_CALL(PtlEQAlloc, 0, portals_eq_alloc(p, ni_handle, count, eq_handle));
}

int PtlEQFree(ptl_handle_eq_t eq_handle) {
    PORTALS_CALL(PtlEQFree, 0, portals_eq_free(p, eq_handle));
}

/* Where counters and queues can be read without the lock; NULL: nowhere. */
static struct portals_cells *look_without_lock(void) {
    const struct portals_process *process = portals_current();
    if (!process || !process->host->look)
        return NULL;
    process->host->look(process->context);
    return process->host->cells;
}

int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event) {
    struct portals_cells *cells = look_without_lock();
    int code = cells ? portals_eq_take(cells, eq_handle, event) : PORTALS_ASK;
    if (code != PORTALS_ASK)
        return code;
    PORTALS_CALL(PtlEQGet, 0, portals_eq_get(p, eq_handle, event));
}

int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle) {
    PORTALS_CALL(PtlCTAlloc, 0, portals_ct_alloc(p, ni_handle, ct_handle));
}

int PtlCTFree(ptl_handle_ct_t ct_handle) {
    PORTALS_CALL(PtlCTFree, 0, portals_ct_free(p, ct_handle));
}

int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle) {
    PORTALS_CALL(PtlCTCancelTriggered, 0, portals_ct_cancel(p, ct_handle));
}

int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event) {
    struct portals_cells *cells = look_without_lock();
    if (cells && portals_ct_peek(cells, ct_handle, event))
        return PTL_OK;
    PORTALS_CALL(PtlCTGet, 0, portals_ct_get(p, ct_handle, event));
}

int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct) {
    PORTALS_CALL(PtlCTSet, 0, portals_ct_set(p, ct_handle, new_ct));
}

int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment) {
    PORTALS_CALL(PtlCTInc, 0, portals_ct_inc(p, ct_handle, increment));
}

/* ---- Waiting ---- */

/* What is waited for: one of some queues, or of some counters. */
struct portals_look {
    const ptl_handle_any_t *handles;
    const ptl_size_t *tests; /* NULL: queues */
    unsigned size;
    ptl_event_t *event;
    ptl_ct_event_t *count;
    unsigned *which;
    bool alone;      /* one, and `which` is not asked for */
    bool is_reached; /* a counter, while this waits: with this value */
    ptl_ct_event_t reached;
};

static int look_once(struct portals *p, const struct portals_look *l) {
    if (l->alone)
        return l->tests ? portals_ct_reached(p, *l->handles, *l->tests, l->count)
                        : portals_eq_get(p, *l->handles, l->event);
    return l->tests ? portals_ct_poll(p, l->handles, l->tests, l->size, l->count, l->which)
                    : portals_eq_poll(p, l->handles, l->size, l->event, l->which);
}

/* The same without the lock; PORTALS_ASK: it is not known, or not there and to be waited for. */
static int look_early(const struct portals_look *l, ptl_time_t timeout) {
    struct portals_cells *cells = look_without_lock();
    ptl_ct_event_t value;
    int code;
    if (!cells)
        return PORTALS_ASK;
    if (l->tests && l->alone) { /* most */
        if (!l->count || !portals_ct_peek(cells, *l->handles, &value) ||
            (value.success < *l->tests && !value.failure))
            return PORTALS_ASK;
        *l->count = value;
        return PTL_OK;
    }
    if (l->alone)
        code = portals_eq_take(cells, *l->handles, l->event);
    else if (l->tests)
        code = portals_ct_peek_any(cells, l->handles, l->tests, l->size, l->count, l->which);
    else
        code = portals_eq_take_any(cells, l->handles, l->size, l->event, l->which);
    bool none = code == (l->tests ? PTL_CT_NONE_REACHED : PTL_EQ_EMPTY);
    return none && timeout ? PORTALS_ASK : code;
}

static uint64_t deadline_of(const struct portals_process *process, ptl_time_t timeout) {
    const struct portals_host *host = process->host;
    if (timeout == PTL_TIME_FOREVER || !host->now)
        return UINT64_MAX;
    return host->now(process->context) + timeout * host->per_millisecond;
}

static bool is_over(const struct portals_process *process, uint64_t deadline) {
    return deadline != UINT64_MAX && process->host->now(process->context) >= deadline;
}

static int wait_for(enum portals_call call, struct portals_look *l, ptl_time_t timeout,
                    const void *caller) {
    int early = look_early(l, timeout);
    if (early != PORTALS_ASK)
        return early;
    struct portals_process *process = portals_call_begin(call, 0, caller);
    if (!process)
        return PTL_NO_INIT;
    struct portals *p = process->portals;
    const struct portals_host *host = process->host;
    int none = l->tests ? PTL_CT_NONE_REACHED : PTL_EQ_EMPTY, code = look_once(p, l);
    if (code != none || timeout == 0 || !host->wait)
        return portals_call_end(process, code);
    uint64_t deadline = deadline_of(process, timeout);
    process->look = l;
    if (l->tests && l->alone) {
        process->counts = true;
        process->count = l->handles[0];
        process->test = l->tests[0];
    }
    do {
        host->wait(process->context, deadline);
        code = l->is_reached               ? PTL_OK
               : portals_is_initialised(p) ? look_once(p, l)
                                           : PTL_ARG_INVALID;
    } while (code == none && !is_over(process, deadline));
    process->look = NULL;
    process->counts = false;
    if (l->is_reached)
        *l->count = l->reached;
    portals_call_end(process, code);
    if (host->charge && code != none)
        host->charge(process->context, call, 0);
    return code == PTL_ARG_INVALID ? PTL_INTERRUPTED : code;
}

bool portals_raised(struct portals_process *process) {
    ptl_ct_event_t value;
    if (!process->counts || !portals_is_initialised(process->portals))
        return true;
    int code = portals_ct_reached(process->portals, process->count, process->test, &value);
    if (code == PTL_CT_NONE_REACHED)
        return false;
    if (code == PTL_OK) {
        process->look->is_reached = true;
        process->look->reached = value;
        process->counts = false;
    }
    return true;
}

void portals_waits_for(const struct portals_process *process, char *text, size_t room) {
    const struct portals_look *l = process->look;
    ptl_ct_event_t count;
    if (!l)
        snprintf(text, room, "%s", "");
    else if (!l->tests)
        snprintf(text, room, "%s", l->size > 1 ? "an event in one of several queues" : "an event");
    else if (portals_ct_get(process->portals, l->handles[0], &count) == PTL_OK)
        snprintf(text, room, "counter %llu of %llu%s", (unsigned long long)count.success,
                 (unsigned long long)l->tests[0], l->size > 1 ? ", or others" : "");
    else
        snprintf(text, room, "a counter that is gone");
}

int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event) {
    return wait_for(
        PORTALS_CALL_PtlEQWait,
        &(struct portals_look){.handles = &eq_handle, .size = 1, .event = event, .alone = true},
        PTL_TIME_FOREVER, PORTALS_CALLER);
}

int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout,
              ptl_event_t *event, unsigned int *which) {
    return wait_for(
        PORTALS_CALL_PtlEQPoll,
        &(struct portals_look){.handles = eq_handles, .size = size, .event = event, .which = which},
        timeout, PORTALS_CALLER);
}

int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event) {
    return wait_for(
        PORTALS_CALL_PtlCTWait,
        &(struct portals_look){
            .handles = &ct_handle, .tests = &test, .size = 1, .count = event, .alone = true},
        PTL_TIME_FOREVER, PORTALS_CALLER);
}

int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size,
              ptl_time_t timeout, ptl_ct_event_t *event, unsigned int *which) {
    static const ptl_size_t no_tests;
    return wait_for(PORTALS_CALL_PtlCTPoll,
                    &(struct portals_look){.handles = ct_handles,
                                           .tests = tests ? tests : &no_tests,
                                           .size = tests ? size : 0,
                                           .count = event,
                                           .which = which},
                    timeout, PORTALS_CALLER);
}
