/* portals4.h: Portals 4.1, and P4sPIN (Hoefler et al., SC'17, appendix B) on the host's side.
 *
 * Names, types, values and layouts are those that programs for Portals 4 compile against. What this
 * library adds stands at the end, and is never read unless a program asks for it. docs/portals.md
 * says what each call does where the specification leaves it open. */
#ifndef PORTALS4_H
#define PORTALS4_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Returned by every call. */
enum ptl_retvals {
    PTL_OK = 0,
    PTL_ARG_INVALID = 1,
    PTL_CT_NONE_REACHED = 2,
    PTL_EQ_DROPPED = 3,
    PTL_EQ_EMPTY = 4,
    PTL_FAIL = 5,
    PTL_IGNORED = 6,
    PTL_IN_USE = 7,
    PTL_INTERRUPTED = 8,
    PTL_LIST_TOO_LONG = 9,
    PTL_NO_INIT = 10,
    PTL_NO_SPACE = 11,
    PTL_PID_IN_USE = 12,
    PTL_PT_FULL = 13,
    PTL_PT_EQ_NEEDED = 14,
    PTL_PT_IN_USE = 15,
    PTL_STATUS_LAST = 0x10,
};

typedef uint64_t ptl_size_t;
typedef uint32_t ptl_pt_index_t;
typedef uint64_t ptl_match_bits_t;
typedef uint64_t ptl_hdr_data_t;
typedef unsigned int ptl_time_t;
typedef unsigned int ptl_interface_t;
typedef uint32_t ptl_nid_t;
typedef uint32_t ptl_pid_t;
typedef uint32_t ptl_rank_t;
typedef uint32_t ptl_uid_t;
typedef int ptl_sr_value_t;
typedef uint32_t ptl_handle_any_t;
typedef ptl_handle_any_t ptl_handle_ni_t;
typedef ptl_handle_any_t ptl_handle_eq_t;
typedef ptl_handle_any_t ptl_handle_ct_t;
typedef ptl_handle_any_t ptl_handle_md_t;
typedef ptl_handle_any_t ptl_handle_le_t;
typedef ptl_handle_any_t ptl_handle_me_t;
typedef unsigned char ptl_ni_fail_t;
typedef unsigned char ptl_list_t;
typedef unsigned char ptl_search_op_t;
typedef unsigned char ptl_ack_req_t;
typedef unsigned char ptl_op_t;
typedef unsigned char ptl_datatype_t;
typedef unsigned char ptl_event_kind_t;

/* Wildcards and handles of nothing. */
#define PTL_EQ_NONE        0x3fffffffu
#define PTL_CT_NONE        0x5fffffffu
#define PTL_INVALID_HANDLE 0xffffffffu
#define PTL_IFACE_DEFAULT  0xffffffffu
#define PTL_PID_ANY        0xffffu
#define PTL_PID_MAX        0x400u
#define PTL_NID_ANY        0xffffu
#define PTL_UID_ANY        0xffffffffu
#define PTL_PT_ANY         0xffffffffu
#define PTL_RANK_ANY       0xffffffffu
#define PTL_TIME_FOREVER   0xffffffffu
#define PTL_SIZE_MAX       0xffffffffffffffffull

/* Status registers. */
typedef enum {
    PTL_SR_DROP_COUNT = 0,
    PTL_SR_PERMISSION_VIOLATIONS = 1,
    PTL_SR_OPERATION_VIOLATIONS = 2,
    PTL_SR_LAST = 3,
    /* Not of Portals 4: packets without the key, forged, truncated, corrupted or seen before. */
    PTL_SR_REFUSED_PACKETS = 64,
    /* Likewise: messages that failed at an entry, by a handler for instance, told by events or
     * counters or not. */
    PTL_SR_FAILED_MESSAGES = 65,
} ptl_sr_index_t;

/* Interfaces: one of each pair. */
#define PTL_NI_MATCHING          0x1
#define PTL_NI_NO_MATCHING       0x2
#define PTL_NI_LOGICAL           0x4
#define PTL_NI_PHYSICAL          0x8
#define PTL_NI_INIT_OPTIONS_MASK 0xf

/* Why an operation failed. */
#define PTL_NI_OK             0
#define PTL_NI_UNDELIVERABLE  0x1
#define PTL_NI_DROPPED        0x2
#define PTL_NI_PT_DISABLED    0x3
#define PTL_NI_PERM_VIOLATION 0x4
#define PTL_NI_OP_VIOLATION   0x5
#define PTL_NI_NO_MATCH       0x6
#define PTL_NI_SEGV           0x7

/* Features of an interface. */
#define PTL_TARGET_BIND_INACCESSIBLE 0x1
#define PTL_TOTAL_DATA_ORDERING      0x2
#define PTL_COHERENT_ATOMICS         0x4

/* Portal table entries. */
#define PTL_PT_ONLY_USE_ONCE      0x1
#define PTL_PT_FLOWCTRL           0x2
#define PTL_PT_ONLY_TRUNCATE      0x4
#define PTL_PT_MATCH_UNORDERED    0x8
#define PTL_PT_ALLOC_OPTIONS_MASK 0xf

/* The start of a descriptor or an entry is an array of ptl_iovec_t, its length their number. */
#define PTL_IOVEC 0x1

/* Memory descriptors. */
#define PTL_MD_EVENT_SUCCESS_DISABLE 0x20
#define PTL_MD_EVENT_SEND_DISABLE    0x80
#define PTL_MD_EVENT_CT_SEND         0x2
#define PTL_MD_EVENT_CT_REPLY        0x4
#define PTL_MD_EVENT_CT_ACK          0x8
#define PTL_MD_EVENT_CT_BYTES        0x8000
#define PTL_MD_UNORDERED             0x10
#define PTL_MD_VOLATILE              0x40
#define PTL_MD_OPTIONS_MASK          0x80ff

/* List entries. */
#define PTL_LE_OP_PUT                 0x2
#define PTL_LE_OP_GET                 0x4
#define PTL_LE_USE_ONCE               0x8
#define PTL_LE_ACK_DISABLE            0x10
#define PTL_LE_UNEXPECTED_HDR_DISABLE 0x20
#define PTL_LE_IS_ACCESSIBLE          0x40
#define PTL_LE_EVENT_LINK_DISABLE     0x80
#define PTL_LE_EVENT_COMM_DISABLE     0x100
#define PTL_LE_EVENT_FLOWCTRL_DISABLE 0x200
#define PTL_LE_EVENT_SUCCESS_DISABLE  0x400
#define PTL_LE_EVENT_OVER_DISABLE     0x800
#define PTL_LE_EVENT_UNLINK_DISABLE   0x1000
#define PTL_LE_EVENT_CT_COMM          0x2000
#define PTL_LE_EVENT_CT_OVERFLOW      0x4000
#define PTL_LE_EVENT_CT_BYTES         0x8000
#define PTL_LE_APPEND_OPTIONS_MASK    0xffff

/* Matching list entries. */
#define PTL_ME_OP_PUT                 0x2
#define PTL_ME_OP_GET                 0x4
#define PTL_ME_USE_ONCE               0x8
#define PTL_ME_ACK_DISABLE            0x10
#define PTL_ME_UNEXPECTED_HDR_DISABLE 0x20
#define PTL_ME_IS_ACCESSIBLE          0x40
#define PTL_ME_EVENT_LINK_DISABLE     0x80
#define PTL_ME_EVENT_COMM_DISABLE     0x100
#define PTL_ME_EVENT_FLOWCTRL_DISABLE 0x200
#define PTL_ME_EVENT_SUCCESS_DISABLE  0x400
#define PTL_ME_EVENT_OVER_DISABLE     0x800
#define PTL_ME_EVENT_UNLINK_DISABLE   0x1000
#define PTL_ME_EVENT_CT_COMM          0x2000
#define PTL_ME_EVENT_CT_OVERFLOW      0x4000
#define PTL_ME_EVENT_CT_BYTES         0x8000
#define PTL_ME_MANAGE_LOCAL           0x10000
#define PTL_ME_NO_TRUNCATE            0x20000
#define PTL_ME_MAY_ALIGN              0x40000
#define PTL_ME_APPEND_OPTIONS_MASK    0x7ffff

/* Lists. */
#define PTL_PRIORITY_LIST 0
#define PTL_OVERFLOW_LIST 0x1

/* What a search does with what it finds. */
#define PTL_SEARCH_ONLY   0
#define PTL_SEARCH_DELETE 0x1

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

/* Events. */
#define PTL_EVENT_GET                   0
#define PTL_EVENT_GET_OVERFLOW          0x1
#define PTL_EVENT_PUT                   0x2
#define PTL_EVENT_PUT_OVERFLOW          0x3
#define PTL_EVENT_ATOMIC                0x4
#define PTL_EVENT_ATOMIC_OVERFLOW       0x5
#define PTL_EVENT_FETCH_ATOMIC          0x6
#define PTL_EVENT_FETCH_ATOMIC_OVERFLOW 0x7
#define PTL_EVENT_REPLY                 0x8
#define PTL_EVENT_SEND                  0x9
#define PTL_EVENT_ACK                   0xa
#define PTL_EVENT_PT_DISABLED           0xb
#define PTL_EVENT_LINK                  0xc
#define PTL_EVENT_AUTO_UNLINK           0xd
#define PTL_EVENT_AUTO_FREE             0xe
#define PTL_EVENT_SEARCH                0xf

/* Used by no call; programs name it. */
typedef enum { PTL_CT_OPERATION = 0, PTL_CT_BYTE = 1 } ptl_ct_type_t;

/* A process: by rank on logical interfaces, by node and number on physical ones. */
typedef union {
    ptl_rank_t rank;
    struct {
        ptl_nid_t nid;
        ptl_pid_t pid;
    } phys;
} ptl_process_t;

/* Memory of an initiator. */
typedef struct {
    void *start;
    ptl_size_t length;
    unsigned int options;
    ptl_handle_eq_t eq_handle;
    ptl_handle_ct_t ct_handle;
} ptl_md_t;

typedef struct {
    void *iov_base;
    ptl_size_t iov_len;
} ptl_iovec_t;

/* Memory of a target: on non-matching interfaces, */
typedef struct {
    void *start;
    ptl_size_t length;
    ptl_handle_ct_t ct_handle;
    ptl_uid_t uid;
    unsigned int options;
} ptl_le_t;

/* Handlers on the card (P4sPIN). A handler is a function of a handler image (PtlImageFind); NULL is
 * none. HPU memory is on the card; PTL_INVALID_HANDLE is none. */
typedef const struct ptl_handler *ptl_handler_t;
typedef struct ptl_image *ptl_image_h;
typedef ptl_handle_any_t ptl_hpu_md_h;

/* and on matching ones. What follows min_free is read only with PTL_ME_HANDLERS in `options`. */
typedef struct {
    void *start;
    ptl_size_t length;
    ptl_handle_ct_t ct_handle;
    ptl_uid_t uid;
    unsigned int options;
    ptl_process_t match_id;
    ptl_match_bits_t match_bits;
    ptl_match_bits_t ignore_bits;
    ptl_size_t min_free;

    ptl_handler_t header_handler;
    ptl_handler_t payload_handler;
    ptl_handler_t completion_handler;
    ptl_hpu_md_h hpu_memory;
    void *hpu_initial_state; /* copied to hpu_memory when the entry is appended, or NULL */
    ptl_size_t hpu_initial_state_length;
    void *handler_host_mem_start; /* a second piece of host memory, for the handlers */
    ptl_size_t handler_host_mem_length;
    ptl_size_t user_hdr_length; /* the first bytes of a message, for the header handler alone */
    /* Read only with PTL_ME_CLEANUP: when a message has begun and nothing of it has come for
     * cleanup_time nanoseconds, or its sender is known to be gone, this handler runs in place of
     * the completion handler. */
    ptl_handler_t cleanup_handler;
    ptl_size_t cleanup_time;
} ptl_me_t;

/* A counting event. */
typedef struct {
    ptl_size_t success;
    ptl_size_t failure;
} ptl_ct_event_t;

/* A full event. */
typedef struct {
    void *start;
    void *user_ptr;
    ptl_hdr_data_t hdr_data;
    ptl_match_bits_t match_bits;
    ptl_size_t rlength;
    ptl_size_t mlength;
    ptl_size_t remote_offset;
    ptl_process_t initiator;
    ptl_uid_t uid;
    ptl_pt_index_t pt_index;
    ptl_event_kind_t type;
    ptl_list_t ptl_list;
    ptl_ni_fail_t ni_fail_type;
    ptl_op_t atomic_operation;
    ptl_datatype_t atomic_type;
} ptl_event_t;

typedef struct {
    int max_entries;
    int max_unexpected_headers;
    int max_mds;
    int max_cts;
    int max_eqs;
    int max_pt_index;
    int max_iovecs;
    int max_list_size;
    int max_triggered_ops;
    ptl_size_t max_msg_size;
    ptl_size_t max_atomic_size;
    ptl_size_t max_fetch_atomic_size;
    ptl_size_t max_waw_ordered_size;
    ptl_size_t max_war_ordered_size;
    ptl_size_t max_volatile_size;
    unsigned int features;

    /* P4sPIN (appendix B.2.1): what the card has for handlers. Nothing to ask for: PtlNIInit fills
     * them in. */
    ptl_size_t max_user_hdr_size;       /* bytes of a user header */
    ptl_size_t max_payload_size;        /* bytes of data in a packet */
    ptl_size_t max_handler_mem;         /* bytes of HPU memory in one allocation */
    ptl_size_t max_initial_state;       /* bytes that an entry may copy there */
    ptl_size_t min_fragmentation_limit; /* payload handlers see multiples of it, aligned to it */
    ptl_size_t max_cycles_per_byte;     /* that a handler may take; 0: no limit */
} ptl_ni_limits_t;

/* Start and end. */
int PtlInit(void);
void PtlFini(void);

/* Interfaces. */
/* A symbol of its own, because these limits are longer than those of Portals 4.1: programs that
 * were compiled with another portals4.h find PtlNIInit, which knows theirs. */
int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
              const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
              ptl_handle_ni_t *ni_handle) __asm__("PtlNIInitP4sPIN");
int PtlNIFini(ptl_handle_ni_t ni_handle);
int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status);
int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle);
int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping);
int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping,
              ptl_size_t *actual_map_size);

/* Portal table. */
int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle,
               ptl_pt_index_t pt_index_req, ptl_pt_index_t *pt_index);
int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);
int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index);

/* Identity. */
int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid);
int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id);
int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id);

/* Memory descriptors. */
int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle);
int PtlMDRelease(ptl_handle_md_t md_handle);

/* List entries: non-matching interfaces. */
int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_le_t *le_handle);
int PtlLEUnlink(ptl_handle_le_t le_handle);
int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_search_op_t ptl_search_op, void *user_ptr);

/* Matching list entries: matching interfaces. */
int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle);
int PtlMEUnlink(ptl_handle_me_t me_handle);
int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_search_op_t ptl_search_op, void *user_ptr);

/* Full events. */
int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle);
int PtlEQFree(ptl_handle_eq_t eq_handle);
int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event);
int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout,
              ptl_event_t *event, unsigned int *which);

/* Counting events. */
int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle);
int PtlCTFree(ptl_handle_ct_t ct_handle);
int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle);
int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event);
int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event);
int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size,
              ptl_time_t timeout, ptl_ct_event_t *event, unsigned int *which);
int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct);
int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment);

/* Data movement. */
int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
           ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
           ptl_hdr_data_t hdr_data);
int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
           ptl_size_t remote_offset, void *user_ptr);
int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
              ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
              ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
              ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype);
int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                   ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                   ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                   ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype);
int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
            ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
            ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, const void *operand,
            ptl_op_t operation, ptl_datatype_t datatype);
int PtlAtomicSync(void);

/* Triggered operations. */
int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                    ptl_hdr_data_t hdr_data, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr, ptl_handle_ct_t trig_ct_handle,
                    ptl_size_t threshold);
int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                       ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                       ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                       ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                       ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset,
                            ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                            ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                            ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                     ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                     ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                     ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                     const void *operand, ptl_op_t operation, ptl_datatype_t datatype,
                     ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);

/* Triggered changes of a list: an extension that Open MPI and others use. */
int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, ptl_me_t *me_init,
                         ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle_p,
                         ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold);
int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle,
                         ptl_size_t threshold);

/* Deferred communication. */
int PtlStartBundle(ptl_handle_ni_t ni_handle);
int PtlEndBundle(ptl_handle_ni_t ni_handle);

/* Handles. */
int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2);

/* Names of values, "PTL_NO_SPACE": an extension that programs use. "unknown" for what is none. */
typedef enum {
    PTL_STR_ERROR,     /* what calls return */
    PTL_STR_EVENT,     /* ptl_event_t.type */
    PTL_STR_FAIL_TYPE, /* ptl_event_t.ni_fail_type */
} ptl_str_type_t;
const char *PtlToStr(int value, ptl_str_type_t type);

/* ---- P4sPIN ---- */

/* Further options of matching list entries, outside of PTL_ME_APPEND_OPTIONS_MASK. */
#define PTL_ME_HANDLERS      0x100000 /* the fields for handlers are set */
#define PTL_ME_HANDLER_IOVEC 0x200000 /* handler_host_mem_start is an array of ptl_iovec_t */
#define PTL_ME_CLEANUP       0x400000 /* with PTL_ME_HANDLERS: there is a cleanup handler */

/* In the event of a message whose handler returned FAIL. A fault of a handler is PTL_NI_SEGV. Only
 * the first error of a message is told. */
#define PTL_NI_HANDLER_FAIL 0x20

/* The limits for handlers by themselves, at any time: those of ptl_ni_limits_t. */
typedef struct {
    ptl_size_t max_user_hdr_size;       /* bytes of a user header */
    ptl_size_t max_payload_size;        /* bytes of data in a packet */
    ptl_size_t max_handler_mem;         /* bytes of HPU memory in one allocation */
    ptl_size_t max_initial_state;       /* bytes that an entry may copy there */
    ptl_size_t min_fragmentation_limit; /* payload handlers see multiples of it, aligned to it */
    ptl_size_t max_cycles_per_byte;     /* that a handler may take; 0: no limit */
} ptl_hpu_limits_t;

int PtlHPULimits(ptl_handle_ni_t ni_handle, ptl_hpu_limits_t *limits);
int PtlHPUAllocMem(ptl_size_t length, ptl_handle_ni_t ni, ptl_hpu_md_h *hpu_mem);
int PtlHPUFreeMem(ptl_hpu_md_h *hpu_mem);

/* A handler image: what `openspin cc` makes, from a file or from memory. PTL_ARG_INVALID: it is not
 * one that the card can run; PtlImageError says why, in one line, until the next call here. */
int PtlImageLoad(ptl_handle_ni_t ni_handle, const char *path, ptl_image_h *image);
int PtlImageParse(ptl_handle_ni_t ni_handle, const char *name, const void *bytes, ptl_size_t length,
                  ptl_image_h *image);
int PtlImageFind(ptl_image_h image, const char *function, ptl_handler_t *handler);
/* PTL_IN_USE while an entry names a handler of it. */
int PtlImageUnload(ptl_image_h image);
const char *PtlImageError(void);

#ifdef __cplusplus
}
#endif

#endif
