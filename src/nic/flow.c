#include "nic/flow.h"

#include "portals4.h"

void flow_begin(struct flow *f, uint8_t handlers, bool no_codes) {
    *f = (struct flow){.phase = FLOW_NEW, .handlers = handlers, .no_codes = no_codes};
}

void flow_failed(struct flow *f, uint8_t fail) {
    if (f->fail == PTL_NI_OK)
        f->fail = fail;
}

void flow_refuse(struct flow *f, uint8_t fail) {
    f->phase = FLOW_BODY;
    f->handlers = 0;
    f->payload = FLOW_DISCARDED;
    f->fail = fail;
}

void flow_give_up(struct flow *f) {
    f->given_up = true;
    f->payload = FLOW_DISCARDED;
}

static bool is_drop(int32_t code) {
    return code == FLOW_DROP || code == FLOW_DROP_PENDING;
}

bool flow_is_error(enum flow_handler handler, int32_t code) {
    if (code == FLOW_SUCCESS || code == FLOW_SUCCESS_PENDING)
        return false;
    if (handler == FLOW_HEADER_HANDLER)
        return code < FLOW_SUCCESS || code >= FLOW_FAIL;
    return handler != FLOW_PAYLOAD_HANDLER || !is_drop(code);
}

/* The error of a code that is one. */
static uint8_t error_of(int32_t code) {
    return code == FLOW_SEGV ? PTL_NI_SEGV : PTL_NI_HANDLER_FAIL;
}

/* ---- packets ---- */

/* Payload handlers get the packets, if there are any. */
static enum flow_act processed(const struct flow *f) {
    return flow_has(f, FLOW_PAYLOAD_HANDLER) ? FLOW_HANDLED
           : f->no_codes                     ? FLOW_PASSED
                                             : FLOW_STORED;
}

enum flow_act flow_packet(struct flow *f, uint64_t bytes) {
    if (f->phase == FLOW_NEW && flow_has(f, FLOW_HEADER_HANDLER) && !f->given_up) {
        f->phase = FLOW_HEADER;
        return FLOW_IS_HEADER;
    }
    if (f->phase == FLOW_HEADER && !f->given_up)
        return FLOW_HELD;
    if (f->phase == FLOW_NEW) {
        f->phase = FLOW_BODY;
        if (!f->given_up)
            f->payload = (uint8_t)processed(f);
    }
    if (f->payload == FLOW_DISCARDED)
        f->dropped += bytes;
    return (enum flow_act)f->payload;
}

/* ---- handlers ---- */

static enum flow_act after_header(const struct flow *f, int32_t code) {
    switch (code) {
    case FLOW_SUCCESS: /* not among the paper's for this handler, but what it says */
    case FLOW_SUCCESS_PENDING:
    case FLOW_PROCESS_DATA:
    case FLOW_PROCESS_DATA_PENDING:
        return processed(f);
    case FLOW_PROCEED:
    case FLOW_PROCEED_PENDING:
        return FLOW_STORED;
    }
    return FLOW_DISCARDED;
}

static bool is_pending(enum flow_handler handler, int32_t code) {
    if (handler == FLOW_HEADER_HANDLER)
        return code >= 0 && code < FLOW_FAIL && code % 2;
    return handler != FLOW_PAYLOAD_HANDLER && code == FLOW_SUCCESS_PENDING;
}

uint8_t flow_ended(struct flow *f, enum flow_handler handler, int32_t code, uint64_t bytes) {
    bool drops = handler == FLOW_PAYLOAD_HANDLER && is_drop(code);
    bool error = flow_is_error(handler, code);
    f->pending |= is_pending(handler, code);
    if (error)
        flow_failed(f, error_of(code));
    if (error && f->no_codes)
        flow_give_up(f);
    if (drops)
        f->dropped += bytes;
    if (handler == FLOW_HEADER_HANDLER) {
        f->phase = FLOW_BODY;
        f->payload = (uint8_t)(f->given_up ? FLOW_DISCARDED : after_header(f, code));
    } else if (handler != FLOW_PAYLOAD_HANDLER) {
        f->phase = FLOW_ENDED;
    }
    return drops ? PTL_NI_DROPPED : error ? error_of(code) : PTL_NI_OK;
}

/* ---- the end ---- */

enum flow_next flow_next(struct flow *f) {
    bool ended = f->phase == FLOW_ENDED && !f->work;
    if (!ended && !flow_is_done(f))
        return FLOW_WAITS;
    bool cleans = f->cut_off && flow_has(f, FLOW_CLEANUP_HANDLER);
    if (!ended && !f->given_up && (cleans || flow_has(f, FLOW_COMPLETION_HANDLER))) {
        f->phase = FLOW_COMPLETION;
        return cleans ? FLOW_CLEANS_UP : FLOW_COMPLETES;
    }
    f->phase = FLOW_NONE;
    return FLOW_IS_OVER;
}
