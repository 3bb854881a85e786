/* What the handlers of a message make of it: by SC'17's appendix B.3 to B.5, the same on every
 * card. The header handler runs alone and says what becomes of the payload; payload handlers run on
 * every packet, in any order; the completion handler runs once, whatever the others returned.
 * docs/nic.md has the table of return codes. Who runs handlers, and when, is the card's. */
#ifndef SPIN_NIC_FLOW_H
#define SPIN_NIC_FLOW_H

#include <stdbool.h>
#include <stdint.h>

/* Return codes, as spin/handler.h numbers them; that file is for the card's compiler. */
enum flow_code {
    FLOW_SUCCESS,
    FLOW_SUCCESS_PENDING,
    FLOW_PROCESS_DATA,
    FLOW_PROCESS_DATA_PENDING,
    FLOW_PROCEED,
    FLOW_PROCEED_PENDING,
    FLOW_DROP,
    FLOW_DROP_PENDING,
    FLOW_FAIL,
    FLOW_SEGV, /* also what a fault of the processor counts as */
};

/* What becomes of the payload. */
enum flow_payload {
    FLOW_STORED,  /* as without handlers */
    FLOW_HANDLED, /* payload handlers get it */
    FLOW_DISCARDED,
};

struct flow {
    uint8_t payload;
    uint8_t fail;     /* the first error: PTL_NI_OK, PTL_NI_SEGV, PTL_NI_HANDLER_FAIL, ... */
    bool pending;     /* a handler said so: the entry is not completed */
    uint64_t dropped; /* bytes */
};

/* Only the first error of a message is told. */
void flow_failed(struct flow *f, uint8_t fail);
/* Without a header handler, or after it. */
void flow_process(struct flow *f, bool has_payload_handler);
/* `bytes`: of the whole message, as far as it is accepted. */
void flow_header_ended(struct flow *f, int32_t code, bool has_payload_handler, uint64_t bytes);
/* `bytes`: of the packet. True: they were dropped. */
bool flow_payload_ended(struct flow *f, int32_t code, uint64_t bytes);
void flow_completion_ended(struct flow *f, int32_t code);
/* An error that a handler returned, or a code that there is not. */
bool flow_is_failure(int32_t code, bool of_header);

#endif
