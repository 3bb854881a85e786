/* spin/handler.h: what a handler includes. Types, return codes and calls of the P4sPIN interface
 * (Hoefler et al., SC'17, appendix B), for handlers compiled by `openspin cc`.
 *
 *   int my_header_handler(const ptl_header_t h, void *state);
 *   int my_payload_handler(const ptl_payload_t p, void *state);
 *   int my_completion_handler(int dropped_bytes, bool flow_control_triggered, void *state);
 *
 * On the card ptl_size_t has 32 bits: 64-bit counters would double the instructions of every hot
 * loop, and no message is longer than 4 GiB. */
#ifndef SPIN_HANDLER_H
#define SPIN_HANDLER_H

#include "spin/target.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Marks a handler, as in the paper; every function with external linkage can be one. */
#define __handler SPIN_EXTERN __attribute__((used))

typedef uint32_t ptl_size_t;
typedef uint32_t ptl_process_t; /* a rank; physical: nid << 16 | pid */
typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;
typedef uint32_t ptl_dma_h;
typedef uint32_t ptl_req_ct_t;
typedef uint32_t ptl_ack_req_t;
typedef uint8_t ptl_op_t;
typedef uint8_t ptl_datatype_t;
typedef ptl_datatype_t ptl_type_t; /* as the paper has it */

typedef enum { PTL_REQUEST_PUT, PTL_REQUEST_GET, PTL_REQUEST_ATOMIC } ptl_request_type_t;

typedef struct {
    ptl_size_t success;
    ptl_size_t failure;
} ptl_ct_event_t;

/* Argument of a header handler: the fields of appendix B.3 in their order. Read-only: it may be in
 * registers. user_hdr is the first bytes of the payload as a struct of the user's. */
#define SPIN_HEADER_FIELDS                                                                         \
    ptl_request_type_t type;                                                                       \
    ptl_size_t length; /* of the payload */                                                        \
    ptl_process_t target_id;                                                                       \
    ptl_process_t source_id;                                                                       \
    ptl_match_bits_t match_bits;                                                                   \
    ptl_size_t offset; /* in the ME */                                                             \
    uint32_t reserved; /* hdr_data has 8 bytes and stands at a multiple of 8 */                    \
    ptl_hdr_data_t hdr_data;

/* A handler file that has a user header defines ptl_user_header_t as the listings of the paper do:
 *
 *     #include <spin/handler.h>
 *     typedef struct { int length; } ptl_user_header_t;
 *
 * Where that name is first used it is a macro, which adds the definition of the header that has
 * this field and takes itself away; from there on ptl_header_t is that header. It may be defined
 * before this include as well: spin/user_header.h, which `openspin cc` includes before all else,
 * defines PTL_USER_HEADER then. Other compilers are told to. */
#ifdef PTL_USER_HEADER
typedef struct {
    SPIN_HEADER_FIELDS
    ptl_user_header_t user_hdr;
} ptl_header_t;
#else
#undef ptl_user_header_t /* of spin/user_header.h */
#ifndef __cplusplus
/* `int (name)` is a function of that type if it is one, and an int otherwise. */
void spin_user_header_is_defined(int(ptl_user_header_t));
_Static_assert(__builtin_types_compatible_p(__typeof__(spin_user_header_is_defined), void(int)),
               "ptl_user_header_t is defined before spin/handler.h: define PTL_USER_HEADER too, or "
               "the type after the include");
#endif
struct spin_plain_header {
    SPIN_HEADER_FIELDS
    struct {
        uint8_t bytes[0];
    } user_hdr;
};
#define ptl_header_t struct spin_user_header
#pragma push_macro("ptl_header_t")
#undef ptl_header_t
#define ptl_header_t struct spin_plain_header
#pragma push_macro("ptl_user_header_t")
#define ptl_user_header_t                                                                          \
    ptl_user_header_t;                                                                             \
    struct spin_user_header {                                                                      \
        SPIN_HEADER_FIELDS                                                                         \
        ptl_user_header_t user_hdr;                                                                \
    };                                                                                             \
    _Pragma("pop_macro(\"ptl_header_t\")")                                                         \
        _Pragma("pop_macro(\"ptl_user_header_t\")") struct spin_user_header
#endif

/* Argument of a payload handler. It stands directly before the packet's data, so p.base is the
 * packet itself. */
typedef struct {
    ptl_size_t length; /* of the data */
    ptl_size_t offset; /* of the data in the message */
    uint32_t reserved[2];
    uint8_t base[0];
} ptl_payload_t;

/* Return codes. PENDING: as the code before it, but the ME is not completed. Without a name before
 * it (appendix B.2) it is what each handler returns when all is well, pending. */
enum {
    SUCCESS = 0,
    SUCCESS_PENDING = 1,
    PENDING = SUCCESS_PENDING,
    PROCESS_DATA = 2,
    PROCESS_DATA_PENDING = 3,
    PROCEED = 4,
    PROCEED_PENDING = 5,
    DROP = 6,
    DROP_PENDING = 7,
    FAIL = 8,
    SEGV = 9,
};

/* What calls return, and what Portals calls acknowledgements, operations and types: the values are
 * those of portals4.h, which has no PTL_SEGV. A call that the card refuses does not return: it ends
 * the handler. */
enum { PTL_OK = 0, PTL_ARG_INVALID = 1, PTL_FAIL = 5, PTL_SEGV = 16 };

/* Acknowledgements. */
#define PTL_NO_ACK_REQ 0
#define PTL_ACK_REQ    0x1
#define PTL_CT_ACK_REQ 0x2
#define PTL_OC_ACK_REQ 0x3

/* Atomic operations. */
#define PTL_MIN      0
#define PTL_MAX      0x1
#define PTL_SUM      0x2
#define PTL_PROD     0x3
#define PTL_LOR      0x4
#define PTL_LAND     0x5
#define PTL_BOR      0x6
#define PTL_BAND     0x7
#define PTL_LXOR     0x8
#define PTL_BXOR     0x9
#define PTL_SWAP     0xa
#define PTL_CSWAP    0xb
#define PTL_CSWAP_NE 0xc
#define PTL_CSWAP_LE 0xd
#define PTL_CSWAP_LT 0xe
#define PTL_CSWAP_GE 0xf
#define PTL_CSWAP_GT 0x10
#define PTL_MSWAP    0x11
#define PTL_OP_LAST  0x12

/* Types of their operands. */
#define PTL_INT8_T              0
#define PTL_UINT8_T             0x1
#define PTL_INT16_T             0x2
#define PTL_UINT16_T            0x3
#define PTL_INT32_T             0x4
#define PTL_UINT32_T            0x5
#define PTL_FLOAT               0x6
#define PTL_INT64_T             0x7
#define PTL_UINT64_T            0x8
#define PTL_DOUBLE              0x9
#define PTL_FLOAT_COMPLEX       0xa
#define PTL_DOUBLE_COMPLEX      0xb
#define PTL_LONG_DOUBLE         0xc
#define PTL_LONG_DOUBLE_COMPLEX 0xd
#define PTL_DATATYPE_LAST       0xe

/* Which host memory a DMA means. */
#define PTL_ME_HOST_MEM      0u
#define PTL_HANDLER_HOST_MEM 1u

/* Which counter a put counts on. */
#define PTL_NO_CT       0u
#define PTL_LOCAL_ME_CT 1u

/* Most HPUs that any card this image is loaded on may have; `openspin cc -DPTL_NUM_HPUS=n` for
 * another number. The image carries it, and a larger card refuses the image. */
#ifndef PTL_NUM_HPUS
#define PTL_NUM_HPUS 64
#endif

#define PTL_MY_HPU spin_my_hpu()

SPIN_IMAGE_NOTE(SPIN_NOTE_P4SPIN, PTL_NUM_HPUS);

/* DMA to and from host memory. NB: returns at once with a handle; B: blocks until done. */

SPIN_CALL int PtlHandlerDMAToHostNB(const void *local, ptl_size_t offset, ptl_size_t len,
                                    unsigned int options, ptl_dma_h *h) {
    SPIN_WORD(0) = SPIN_POINTER(local);
    SPIN_WORD(1) = offset;
    SPIN_WORD(2) = len;
    SPIN_WORD(3) = options;
    *h = spin_issue(SPIN_COMMAND_DMA_TO_HOST);
    return PTL_OK;
}

SPIN_CALL int PtlHandlerDMAFromHostNB(ptl_size_t offset, void *local, ptl_size_t len,
                                      unsigned int options, ptl_dma_h *h) {
    SPIN_WORD(0) = offset;
    SPIN_WORD(1) = SPIN_POINTER(local);
    SPIN_WORD(2) = len;
    SPIN_WORD(3) = options;
    *h = spin_issue(SPIN_COMMAND_DMA_FROM_HOST);
    return PTL_OK;
}

SPIN_CALL int PtlHandlerDMACASNB(ptl_size_t offset, uint64_t *cmpval, uint64_t swapval,
                                 unsigned int options, ptl_dma_h *h) {
    SPIN_WORD(0) = offset;
    SPIN_WORD(1) = SPIN_POINTER(cmpval);
    SPIN_WORD(2) = SPIN_LOW(swapval);
    SPIN_WORD(3) = SPIN_HIGH(swapval);
    SPIN_WORD(4) = options;
    *h = spin_issue(SPIN_COMMAND_DMA_CAS);
    return PTL_OK;
}

/* `inc` and the value before have 64 bits; *res takes as many of them as it has: a ptl_size_t 32, a
 * uint64_t all. Values of signed types are extended by their sign. The size of *res goes with the
 * call, which is therefore also a macro. */
SPIN_CALL int PtlHandlerDMAFetchAddNB(ptl_size_t offset, uint64_t inc, void *res,
                                      uint32_t res_bytes, ptl_type_t t, unsigned int options,
                                      ptl_dma_h *h) {
    SPIN_WORD(0) = offset;
    SPIN_WORD(1) = SPIN_LOW(inc);
    SPIN_WORD(2) = SPIN_HIGH(inc);
    SPIN_WORD(3) = SPIN_POINTER(res);
    SPIN_WORD(4) = res_bytes;
    SPIN_WORD(5) = t;
    SPIN_WORD(6) = options;
    *h = spin_issue(SPIN_COMMAND_DMA_FETCH_ADD);
    return PTL_OK;
}
#define PtlHandlerDMAFetchAddNB(offset, inc, res, t, options, h)                                   \
    PtlHandlerDMAFetchAddNB(offset, (uint64_t)(inc), res, sizeof *(res), t, options, h)

/* True when the transfer is finished. */
SPIN_CALL int PtlHandlerDMATest(ptl_dma_h handle) {
    SPIN_REGISTER(SPIN_REG_TEST) = handle;
    return (int)SPIN_REGISTER(SPIN_REG_RESULT);
}

SPIN_CALL int PtlHandlerDMAWait(ptl_dma_h handle) {
    SPIN_REGISTER(SPIN_REG_WAIT) = handle;
    __asm__ volatile("" ::: "memory"); /* the card may have written HPU memory */
    return PTL_OK;
}

SPIN_CALL int PtlHandlerDMAToHostB(const void *local, ptl_size_t offset, ptl_size_t len,
                                   unsigned int options) {
    ptl_dma_h h;
    PtlHandlerDMAToHostNB(local, offset, len, options, &h);
    return PtlHandlerDMAWait(h);
}

SPIN_CALL int PtlHandlerDMAFromHostB(ptl_size_t offset, void *local, ptl_size_t len,
                                     unsigned int options) {
    ptl_dma_h h;
    PtlHandlerDMAFromHostNB(offset, local, len, options, &h);
    return PtlHandlerDMAWait(h);
}

SPIN_CALL int PtlHandlerDMACASB(ptl_size_t offset, uint64_t *cmpval, uint64_t swapval,
                                unsigned int options) {
    ptl_dma_h h;
    PtlHandlerDMACASNB(offset, cmpval, swapval, options, &h);
    return PtlHandlerDMAWait(h);
}

SPIN_CALL int PtlHandlerDMAFetchAddB(ptl_size_t offset, uint64_t inc, void *res, uint32_t res_bytes,
                                     ptl_type_t t, unsigned int options) {
    ptl_dma_h h;
    (PtlHandlerDMAFetchAddNB)(offset, inc, res, res_bytes, t, options, &h);
    return PtlHandlerDMAWait(h);
}
#define PtlHandlerDMAFetchAddB(offset, inc, res, t, options)                                       \
    PtlHandlerDMAFetchAddB(offset, (uint64_t)(inc), res, sizeof *(res), t, options)

/* Atomics on 64-bit values in HPU memory, naturally aligned. */

SPIN_CALL int PtlHandlerCAS(uint64_t *value, uint64_t cmpval, uint64_t swapval) {
    __asm__ volatile("" ::: "memory");
    SPIN_WORD(0) = SPIN_POINTER(value);
    SPIN_WORD(1) = SPIN_LOW(cmpval);
    SPIN_WORD(2) = SPIN_HIGH(cmpval);
    SPIN_WORD(3) = SPIN_LOW(swapval);
    SPIN_WORD(4) = SPIN_HIGH(swapval);
    int swapped = (int)spin_issue(SPIN_COMMAND_CAS);
    __asm__ volatile("" ::: "memory");
    return swapped;
}

SPIN_CALL int PtlHandlerFAdd(uint64_t *val, uint64_t *before, uint64_t inc) {
    __asm__ volatile("" ::: "memory");
    SPIN_WORD(0) = SPIN_POINTER(val);
    SPIN_WORD(1) = SPIN_POINTER(before);
    SPIN_WORD(2) = SPIN_LOW(inc);
    SPIN_WORD(3) = SPIN_HIGH(inc);
    spin_issue(SPIN_COMMAND_FETCH_ADD);
    __asm__ volatile("" ::: "memory");
    return PTL_OK;
}

/* A hint that another handler may run now. */
SPIN_CALL void PtlHandlerYield(void) {
    __asm__ volatile("nop");
}

/* Messages. The words that all of them share. */
SPIN_CALL void spin_message(uint32_t from, ptl_size_t len, ptl_req_ct_t ct, ptl_ack_req_t ack_req,
                            ptl_process_t target_id, ptl_match_bits_t match_bits,
                            ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data) {
    __asm__ volatile("" ::: "memory");
    SPIN_WORD(0) = from;
    SPIN_WORD(1) = len;
    SPIN_WORD(2) = ct;
    SPIN_WORD(3) = ack_req;
    SPIN_WORD(4) = target_id;
    SPIN_WORD(5) = SPIN_LOW(match_bits);
    SPIN_WORD(6) = SPIN_HIGH(match_bits);
    SPIN_WORD(7) = remote_offset;
    SPIN_WORD(8) = SPIN_POINTER(user_ptr);
    SPIN_WORD(9) = SPIN_LOW(hdr_data);
    SPIN_WORD(10) = SPIN_HIGH(hdr_data);
}

/* From the ME's host memory: enqueues and returns. */
SPIN_CALL int PtlHandlerPutFromHost(ptl_size_t offset, ptl_size_t len, ptl_req_ct_t ct,
                                    ptl_ack_req_t ack_req, ptl_process_t target_id,
                                    ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                                    void *user_ptr, ptl_hdr_data_t hdr_data) {
    spin_message(offset, len, ct, ack_req, target_id, match_bits, remote_offset, user_ptr,
                 hdr_data);
    spin_issue(SPIN_COMMAND_PUT_FROM_HOST);
    return PTL_OK;
}

/* From HPU memory or the packet, at most one packet. */
SPIN_CALL int PtlHandlerPutFromDevice(const void *local, ptl_size_t len, ptl_req_ct_t ct,
                                      ptl_ack_req_t ack_req, ptl_process_t target_id,
                                      ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                                      void *user_ptr, ptl_hdr_data_t hdr_data) {
    spin_message(SPIN_POINTER(local), len, ct, ack_req, target_id, match_bits, remote_offset,
                 user_ptr, hdr_data);
    spin_issue(SPIN_COMMAND_PUT_FROM_DEVICE);
    return PTL_OK;
}

/* A message of `total` bytes whose packets handlers send one by one, and which is one message to
 * whoever gets it (ours: P4sPIN has single packets only). This sends its first `len` bytes, and
 * returns the stream for the others; 0: it cannot be sent. Any handler of the message that is being
 * processed may send them, in any order. What handlers have not sent when that message ends never
 * comes: see cleanup handlers. */
typedef uint32_t ptl_stream_t;
SPIN_CALL ptl_stream_t PtlHandlerStreamStart(const void *local, ptl_size_t len, ptl_size_t total,
                                             ptl_process_t target_id, ptl_match_bits_t match_bits,
                                             ptl_size_t remote_offset, ptl_hdr_data_t hdr_data) {
    spin_message(SPIN_POINTER(local), len, 0, PTL_NO_ACK_REQ, target_id, match_bits, remote_offset,
                 NULL, hdr_data);
    SPIN_WORD(11) = total;
    return spin_issue(SPIN_COMMAND_STREAM_START);
}

/* At most one packet, at `offset` in the message. PTL_FAIL: its target is gone. */
SPIN_CALL int PtlHandlerStreamPut(ptl_stream_t stream, const void *local, ptl_size_t len,
                                  ptl_size_t offset) {
    __asm__ volatile("" ::: "memory");
    SPIN_WORD(0) = SPIN_POINTER(local);
    SPIN_WORD(1) = len;
    SPIN_WORD(2) = SPIN_WORD(3) = 0;
    SPIN_WORD(4) = stream;
    SPIN_WORD(5) = offset;
    return (int)spin_issue(SPIN_COMMAND_STREAM_PUT);
}

/* The number of the message that this handler runs for, the same for all its handlers; messages
 * that are processed at the same time have different ones, and small ones are used again. */
SPIN_CALL uint32_t PtlHandlerMessage(void) {
    return SPIN_REGISTER(SPIN_REG_FLOW);
}

SPIN_CALL int PtlHandlerGetToHost(ptl_size_t offset, ptl_size_t len, ptl_req_ct_t ct,
                                  ptl_process_t target_id, ptl_match_bits_t match_bits,
                                  ptl_size_t remote_offset, void *user_ptr) {
    spin_message(offset, len, ct, 0, target_id, match_bits, remote_offset, user_ptr, 0);
    spin_issue(SPIN_COMMAND_GET_TO_HOST);
    return PTL_OK;
}

/* Returns when the data is there. PTL_FAIL: it will not come, as its target is gone or refuses. */
SPIN_CALL int PtlHandlerGetToDevice(void *local, ptl_size_t len, ptl_req_ct_t ct,
                                    ptl_process_t target_id, ptl_match_bits_t match_bits,
                                    ptl_size_t remote_offset, void *user_ptr) {
    spin_message(SPIN_POINTER(local), len, ct, 0, target_id, match_bits, remote_offset, user_ptr,
                 0);
    return (int)spin_issue(SPIN_COMMAND_GET_TO_DEVICE);
}

SPIN_CALL int PtlHandlerAtomicFromHost(ptl_size_t offset, ptl_size_t len, ptl_req_ct_t ct,
                                       ptl_ack_req_t ack_req, ptl_process_t target_id,
                                       ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                                       void *user_ptr, ptl_hdr_data_t hdr_data, ptl_op_t operation,
                                       ptl_datatype_t datatype) {
    spin_message(offset, len, ct, ack_req, target_id, match_bits, remote_offset, user_ptr,
                 hdr_data);
    SPIN_WORD(11) = operation | (uint32_t)datatype << 8;
    spin_issue(SPIN_COMMAND_ATOMIC_FROM_HOST);
    return PTL_OK;
}

SPIN_CALL int PtlHandlerAtomicFromDevice(const void *local, ptl_size_t len, ptl_req_ct_t ct,
                                         ptl_ack_req_t ack_req, ptl_process_t target_id,
                                         ptl_match_bits_t match_bits, ptl_size_t remote_offset,
                                         void *user_ptr, ptl_hdr_data_t hdr_data,
                                         ptl_op_t operation, ptl_datatype_t datatype) {
    spin_message(SPIN_POINTER(local), len, ct, ack_req, target_id, match_bits, remote_offset,
                 user_ptr, hdr_data);
    SPIN_WORD(11) = operation | (uint32_t)datatype << 8;
    spin_issue(SPIN_COMMAND_ATOMIC_FROM_DEVICE);
    return PTL_OK;
}

/* The ME's counter. */
SPIN_CALL int PtlHandlerCTInc(ptl_ct_event_t increment) {
    SPIN_WORD(0) = increment.success;
    SPIN_WORD(1) = increment.failure;
    spin_issue(SPIN_COMMAND_CT_INC);
    return PTL_OK;
}

SPIN_CALL int PtlHandlerCTGet(ptl_ct_event_t *event) {
    SPIN_WORD(0) = SPIN_POINTER(event);
    spin_issue(SPIN_COMMAND_CT_GET);
    __asm__ volatile("" ::: "memory");
    return PTL_OK;
}

SPIN_CALL int PtlHandlerCTSet(ptl_ct_event_t new_ct) {
    SPIN_WORD(0) = new_ct.success;
    SPIN_WORD(1) = new_ct.failure;
    spin_issue(SPIN_COMMAND_CT_SET);
    return PTL_OK;
}

/* Scratch memory that lasts as long as the handler runs; NULL when the card has no more. */
SPIN_CALL void *malloc(size_t size) {
    SPIN_REGISTER(SPIN_REG_ALLOCATE) = size;
    return (void *)(uintptr_t)SPIN_REGISTER(SPIN_REG_RESULT);
}
SPIN_CALL void free(void *memory) {
    (void)memory;
}

/* -DSPIN_STAMP=NAME: an image has a function of this name, which a host program looks for to know
 * that the image is of its own build. A name for code that is there anyhow, so that handlers stay
 * where they are; nobody calls it. */
#ifdef SPIN_STAMP
#define SPIN_STAMP_TEXT(name)  #name
#define SPIN_STAMP_LABEL(name) SPIN_STAMP_TEXT(name)
__asm__(".text\n"
        ".weak " SPIN_STAMP_LABEL(
            SPIN_STAMP) "\n"
                        ".type " SPIN_STAMP_LABEL(SPIN_STAMP) ", @function\n" SPIN_STAMP_LABEL(
                            SPIN_STAMP) ":\n");
#endif

#ifdef __cplusplus
}
#endif

#endif
