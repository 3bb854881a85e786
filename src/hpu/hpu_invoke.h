/* How a handler is called, once for all that runs handlers: from the description of its execution
 * context come the windows of memory that it may touch; from that of a call come the registers of
 * the task and the arguments of both handler interfaces. Rig, PsPIN card and worlds fill these in.
 */
#ifndef SPIN_HPU_HPU_INVOKE_H
#define SPIN_HPU_HPU_INVOKE_H

#include "hpu/call.h"
#include "hpu/image.h"
#include "hpu/port.h"

/* Of no bytes: the handler has none. */
struct invoke_memory {
    uint32_t address, bytes;
    uint8_t *host, *view; /* guard.h */
};

/* An execution context: what its handlers have on every HPU. */
struct invoke_context {
    const struct spin_image *image;
    struct invoke_memory constants, data, handler_data; /* the image's */
    struct invoke_memory memory; /* PsPIN's handler memory, or P4sPIN's state if that is its own */
    enum hpu_region memory_region;
    struct invoke_memory scratchpad[MAP_CLUSTERS]; /* in the L1 of each cluster */
    uint64_t host_address, host_bytes;             /* PsPIN's host memory */
};

/* The HPU that runs them. */
struct invoke_core {
    uint32_t cluster, core;    /* core: within the cluster */
    uint8_t *stack;            /* of MAP_STACK_SIZE bytes */
    struct invoke_memory heap; /* of P4sPIN's handlers; PsPIN's have none */
    bool check;                /* heap.h */
};

/* Whether the host's alignment of all its memory is the handler's, as hpu_add_window asks for. */
bool hpu_invoke_fits(const struct invoke_context *x);
#define INVOKE_UNALIGNED                                                                           \
    "%s: the memory of its handlers is not aligned to 8 bytes where its address is, as atomics "   \
    "need it to be" /* the image */

/* Gives the HPU its windows, always in the same order, so that the guesses in the code hold. After
 * port_open. False: the context does not fit, or the core's memory is not aligned; nothing is to be
 * run. */
bool hpu_invoke_open(struct port *p, const struct invoke_context *x,
                     const struct invoke_core *core);

/* The same context, whose `memory` (not of no bytes, now and then) is another now; false:
 * likewise. */
bool hpu_invoke_memory(struct port *p, const struct invoke_context *x);

/* The windows that change with each packet. */
enum { INVOKE_PACKET, INVOKE_L2_PACKET, INVOKE_STACK, INVOKE_OTHERS };

/* One call. */
struct invoke_call {
    uint32_t entry;
    enum spin_handler_kind kind; /* SPIN_PSPIN_HANDLER for all three of PsPIN's */
    uint64_t budget_cycles;
    /* The packet: the first `bytes` of its `length` stand in L1 at `address`, behind `headroom`
     * bytes that the handler may use too; all of it in L2, or nowhere else (NULL). */
    uint8_t *packet;
    uint32_t address, headroom, bytes, length;
    bool reads_only;    /* a store to the packet is SEGV */
    uint8_t *arguments; /* what stands before the packet is to be laid before this, in a window that
                           the caller gives; NULL: before the packet, in the headroom */
    uint8_t *l2_packet;
    uint32_t l2_address;
    uint32_t memory_address, memory_bytes; /* as the task's registers tell; P4sPIN: the state */
    struct call_header header;             /* of length 0: that of the packet */
    uint32_t offset, user_hdr_bytes;       /* of the payload in the message; before it */
    uint32_t dropped_bytes;
    bool flow_control;
    uint32_t home_cluster, flow;
    uint32_t argument[8]; /* of SPIN_OTHER_FUNCTION */
};

/* Readies the call, which hpu_run then makes; cycles and instructions are the caller's to set
 * before. */
void hpu_invoke_begin(struct port *p, const struct invoke_context *x,
                      const struct invoke_core *core, const struct invoke_call *c);

/* How a call has ended, and what it has returned if it has. */
struct invoke_end {
    enum hpu_stop stop;
    uint32_t code;
};

/* Of hpu_invoke_next: where something has to be made ready first; and the rest of one that did not
 * end in generated code. */
struct invoke_end hpu_invoke_anew(struct hpu *h, uint8_t *packet, uint32_t bytes, uint32_t offset);
struct invoke_end hpu_invoke_rest(struct hpu *h, uint64_t returned);

/* Runs the call before once more, of a P4sPIN payload handler without a user header that has
 * returned, on another packet: with as much headroom, in L1 alone, and where the first of that call
 * was for the handler. What such calls have in common stays as it is. The same HPU and context; its
 * heap has no `check`. Its clock begins at 0, as that of the first did.
 *
 * A small handler takes as long as its start, which takes as long as what it stores: so nothing is
 * written that only rare cases need, and nothing called that would save registers. */
static inline struct invoke_end hpu_invoke_next(struct hpu *h, uint8_t *packet, uint32_t bytes,
                                                uint32_t offset) {
    const struct hpu_window *w = &h->window[INVOKE_PACKET];
    uint32_t address = h->task.packet_address, headroom = address - w->base;
    jit_function *run =
        h->generated ? atomic_load_explicit(h->generated, memory_order_acquire) : NULL;
    if (__builtin_expect(!run || h->unready.any || w->read_room[0] != headroom + bytes, 0))
        return hpu_invoke_anew(h, packet, bytes, offset);
    if (h->handles)
        h->result = h->handles = 0;
    call_put_payload(packet, bytes, offset);
    /* From 0 on; the HPU's cycles are those of the last command. */
    uint64_t returned =
        run(h, (int64_t)h->horizon, packet - headroom, address - CALL_PAYLOAD_BYTES, NULL, 0);
    if (__builtin_expect(!(returned & HPU_KEPT), 0))
        return hpu_invoke_rest(h, returned);
    return (struct invoke_end){HPU_DONE, (uint32_t)(returned >> HPU_KEPT_VALUE)};
}

#endif
