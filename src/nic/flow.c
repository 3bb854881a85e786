#include "nic/flow.h"

#include "portals4.h"

void flow_failed(struct flow *f, uint8_t fail) {
    if (f->fail == PTL_NI_OK)
        f->fail = fail;
}

static void failed_by(struct flow *f, int32_t code) {
    flow_failed(f, code == FLOW_SEGV ? PTL_NI_SEGV : PTL_NI_HANDLER_FAIL);
}

void flow_process(struct flow *f, bool has_payload_handler) {
    f->payload = has_payload_handler ? FLOW_HANDLED : FLOW_STORED;
}

bool flow_is_failure(int32_t code, bool of_header) {
    if (code == FLOW_SUCCESS || code == FLOW_SUCCESS_PENDING)
        return false;
    if (code == FLOW_DROP || code == FLOW_DROP_PENDING)
        return false;
    return !of_header || code < FLOW_SUCCESS || code >= FLOW_FAIL;
}

void flow_header_ended(struct flow *f, int32_t code, bool has_payload_handler, uint64_t bytes) {
    f->pending |= code >= 0 && code < FLOW_FAIL && code % 2;
    switch (code) {
    case FLOW_SUCCESS: /* not among the paper's for this handler, but what it says */
    case FLOW_SUCCESS_PENDING:
    case FLOW_PROCESS_DATA:
    case FLOW_PROCESS_DATA_PENDING:
        flow_process(f, has_payload_handler);
        return;
    case FLOW_PROCEED:
    case FLOW_PROCEED_PENDING:
        f->payload = FLOW_STORED;
        return;
    case FLOW_DROP:
    case FLOW_DROP_PENDING:
        break;
    default:
        failed_by(f, code);
    }
    f->payload = FLOW_DISCARDED;
    f->dropped = bytes;
}

bool flow_payload_ended(struct flow *f, int32_t code, uint64_t bytes) {
    bool drop = code == FLOW_DROP || code == FLOW_DROP_PENDING;
    if (drop)
        f->dropped += bytes;
    else if (flow_is_failure(code, false))
        failed_by(f, code);
    return drop;
}

void flow_completion_ended(struct flow *f, int32_t code) {
    f->pending |= code == FLOW_SUCCESS_PENDING;
    if (code != FLOW_SUCCESS && code != FLOW_SUCCESS_PENDING)
        failed_by(f, code);
}
