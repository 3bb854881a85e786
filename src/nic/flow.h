/* The life of a message with handlers, the same on every card (SC'17, appendix B.3 to B.5): the
 * header handler runs alone, with the first packet; packets that come meanwhile are held. What it
 * returns decides what becomes of the packets, the held ones first and in any order. When all have
 * come and everything is done, the completion handler runs, once, whatever the others returned. Of
 * a message whose rest will not come the cleanup handler runs instead, if there is one. docs/nic.md
 * has the states and the table of return codes.
 *
 * A card that receives a message has one of these for it, and asks: what is to be done with this
 * packet, what does the end of that handler mean, what comes next. Where packets are held, when and
 * on which HPU handlers run, and how long that takes is the card's. Fronts are the Portals card
 * (nic_receive.c, nic_handler.c) and the match rules of `card run` (sim/card_queue.c). */
#ifndef SPIN_NIC_FLOW_H
#define SPIN_NIC_FLOW_H

#include <stdbool.h>
#include <stdint.h>

#include "openspin.h"

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

enum flow_handler {
    FLOW_HEADER_HANDLER = SPIN_HEADER_HANDLER,
    FLOW_PAYLOAD_HANDLER = SPIN_PAYLOAD_HANDLER,
    FLOW_COMPLETION_HANDLER = SPIN_COMPLETION_HANDLER,
    FLOW_CLEANUP_HANDLER = SPIN_CLEANUP_HANDLER
};

enum flow_phase {
    FLOW_NONE, /* no message yet, or no more */
    FLOW_NEW,  /* no packet yet */
    FLOW_HEADER,
    FLOW_BODY,
    FLOW_COMPLETION, /* or cleanup */
    FLOW_ENDED,      /* the handler of that has returned */
};

/* What is done with a packet. */
enum flow_act {
    FLOW_STORED,  /* as without handlers */
    FLOW_HANDLED, /* a payload handler gets it */
    FLOW_DISCARDED,
    FLOW_PASSED,    /* nothing: PsPIN's handlers do all that is done */
    FLOW_HELD,      /* until the header handler has ended: then it is asked for again */
    FLOW_IS_HEADER, /* the header handler runs with it; then likewise */
};

struct flow {
    uint8_t phase;
    uint8_t handlers; /* that there are: a bit for each enum flow_handler */
    uint8_t payload;  /* enum flow_act: what becomes of it */
    uint8_t fail;     /* the first error: PTL_NI_OK, PTL_NI_SEGV, PTL_NI_HANDLER_FAIL, ... */
    bool no_codes;    /* PsPIN's handlers, which return none: after a fault the message is lost */
    bool pending;     /* a handler said so: the entry is not completed */
    bool whole;       /* nothing more of it is to come */
    bool cut_off;     /* the same, though not all of it has come: its sender was silent, or died */
    bool given_up;    /* it is lost: no handler is begun any more */
    uint32_t work;    /* the card's count of packets, handlers and moves that are not done */
    uint64_t dropped; /* bytes */
};

/* Handlers by their addresses, 0: none. */
static inline uint8_t flow_handlers(uint32_t header, uint32_t payload, uint32_t completion,
                                    uint32_t cleanup) {
    return (uint8_t)((header != 0) << FLOW_HEADER_HANDLER | (payload != 0) << FLOW_PAYLOAD_HANDLER |
                     (completion != 0) << FLOW_COMPLETION_HANDLER |
                     (cleanup != 0) << FLOW_CLEANUP_HANDLER);
}
static inline bool flow_has(const struct flow *f, enum flow_handler handler) {
    return f->handlers >> handler & 1;
}

/* What a handler has ended with: its return value is no code if it has none, and a fault is one. */
static inline int32_t flow_code(bool fault, bool no_codes, int32_t value) {
    return fault ? FLOW_SEGV : no_codes ? FLOW_SUCCESS : value;
}

/* As a completion handler is told. */
static inline uint32_t flow_dropped(const struct flow *f) {
    return f->dropped < INT32_MAX ? (uint32_t)f->dropped : INT32_MAX;
}

/* A message begins. */
void flow_begin(struct flow *f, uint8_t handlers, bool no_codes);
/* A packet has come, or the header handler has ended and it was held. `bytes` of it are accepted;
 * what is discarded is counted. */
enum flow_act flow_packet(struct flow *f, uint64_t bytes);
/* A handler has ended with a flow_code. What it means for the packet that it had, of `bytes`
 * bytes: PTL_NI_OK, PTL_NI_DROPPED (a payload handler said so), or an error. After the header
 * handler, unless the message is given up, the held packets and the first are asked for again. */
uint8_t flow_ended(struct flow *f, enum flow_handler handler, int32_t code, uint64_t bytes);
/* An error from outside; only the first of a message is told. */
void flow_failed(struct flow *f, uint8_t fail);
/* The header handler cannot run: the message is refused whole, and has no handlers. */
void flow_refuse(struct flow *f, uint8_t fail);
/* The message is lost: held packets are dropped by the card, others as they come. */
void flow_give_up(struct flow *f);

/* Nothing more of it will come, and some is missing. */
static inline void flow_cut_off(struct flow *f) {
    f->whole = f->cut_off = true;
}

/* All has come and is done, but for the completion handler. */
static inline bool flow_is_done(const struct flow *f) {
    return f->whole && !f->work && (f->phase == FLOW_BODY || (f->given_up && f->phase));
}

enum flow_next { FLOW_WAITS, FLOW_COMPLETES, FLOW_CLEANS_UP, FLOW_IS_OVER };
/* What comes next, asked when something may have been the last: the completion or the cleanup
 * handler is to run; or the message is over, and told once. */
enum flow_next flow_next(struct flow *f);

/* An error that a handler returned, or a code that it may not return. */
bool flow_is_error(enum flow_handler handler, int32_t code);

#endif
