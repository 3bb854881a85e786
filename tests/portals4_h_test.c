/* portals4.h: every size, offset and value that programs are compiled with, and every call's type.
 * What does not hold does not compile. */
#include "lib/test.h"

#include <stddef.h>

#include "portals4.h"

#define VALUE(name, value)      _Static_assert((name) == (value), #name)
#define SIZE(type, bytes)       _Static_assert(sizeof(type) == (bytes), #type)
#define AT(type, field, offset) _Static_assert(offsetof(type, field) == (offset), #field)

VALUE(PTL_OK, 0);
VALUE(PTL_ARG_INVALID, 1);
VALUE(PTL_CT_NONE_REACHED, 2);
VALUE(PTL_EQ_DROPPED, 3);
VALUE(PTL_EQ_EMPTY, 4);
VALUE(PTL_FAIL, 5);
VALUE(PTL_IGNORED, 6);
VALUE(PTL_IN_USE, 7);
VALUE(PTL_INTERRUPTED, 8);
VALUE(PTL_LIST_TOO_LONG, 9);
VALUE(PTL_NO_INIT, 10);
VALUE(PTL_NO_SPACE, 11);
VALUE(PTL_PID_IN_USE, 12);
VALUE(PTL_PT_FULL, 13);
VALUE(PTL_PT_EQ_NEEDED, 14);
VALUE(PTL_PT_IN_USE, 15);
VALUE(PTL_STATUS_LAST, 0x10);

VALUE(PTL_SR_DROP_COUNT, 0);
VALUE(PTL_SR_PERMISSION_VIOLATIONS, 1);
VALUE(PTL_SR_OPERATION_VIOLATIONS, 2);
VALUE(PTL_SR_LAST, 3);

VALUE(PTL_EQ_NONE, 0x3fffffff);
VALUE(PTL_CT_NONE, 0x5fffffff);
VALUE(PTL_INVALID_HANDLE, 0xffffffffu);
VALUE(PTL_IFACE_DEFAULT, 0xffffffffu);
VALUE(PTL_PID_ANY, 0xffff);
VALUE(PTL_PID_MAX, 0x400);
VALUE(PTL_NID_ANY, 0xffff);
VALUE(PTL_UID_ANY, 0xffffffffu);
VALUE(PTL_PT_ANY, 0xffffffffu);
VALUE(PTL_RANK_ANY, 0xffffffffu);
VALUE(PTL_TIME_FOREVER, 0xffffffffu);
VALUE(PTL_SIZE_MAX, 0xffffffffffffffffull);

VALUE(PTL_NI_MATCHING, 0x1);
VALUE(PTL_NI_NO_MATCHING, 0x2);
VALUE(PTL_NI_LOGICAL, 0x4);
VALUE(PTL_NI_PHYSICAL, 0x8);
VALUE(PTL_NI_INIT_OPTIONS_MASK, 0xf);

VALUE(PTL_NI_OK, 0);
VALUE(PTL_NI_UNDELIVERABLE, 0x1);
VALUE(PTL_NI_DROPPED, 0x2);
VALUE(PTL_NI_PT_DISABLED, 0x3);
VALUE(PTL_NI_PERM_VIOLATION, 0x4);
VALUE(PTL_NI_OP_VIOLATION, 0x5);
VALUE(PTL_NI_NO_MATCH, 0x6);
VALUE(PTL_NI_SEGV, 0x7);

VALUE(PTL_TARGET_BIND_INACCESSIBLE, 0x1);
VALUE(PTL_TOTAL_DATA_ORDERING, 0x2);
VALUE(PTL_COHERENT_ATOMICS, 0x4);

VALUE(PTL_PT_ONLY_USE_ONCE, 0x1);
VALUE(PTL_PT_FLOWCTRL, 0x2);
VALUE(PTL_PT_ONLY_TRUNCATE, 0x4);
VALUE(PTL_PT_MATCH_UNORDERED, 0x8);
VALUE(PTL_PT_ALLOC_OPTIONS_MASK, 0xf);

VALUE(PTL_IOVEC, 0x1);

VALUE(PTL_MD_EVENT_SUCCESS_DISABLE, 0x20);
VALUE(PTL_MD_EVENT_SEND_DISABLE, 0x80);
VALUE(PTL_MD_EVENT_CT_SEND, 0x2);
VALUE(PTL_MD_EVENT_CT_REPLY, 0x4);
VALUE(PTL_MD_EVENT_CT_ACK, 0x8);
VALUE(PTL_MD_EVENT_CT_BYTES, 0x8000);
VALUE(PTL_MD_UNORDERED, 0x10);
VALUE(PTL_MD_VOLATILE, 0x40);
VALUE(PTL_MD_OPTIONS_MASK, 0x80ff);

VALUE(PTL_LE_OP_PUT, 0x2);
VALUE(PTL_LE_OP_GET, 0x4);
VALUE(PTL_LE_USE_ONCE, 0x8);
VALUE(PTL_LE_ACK_DISABLE, 0x10);
VALUE(PTL_LE_UNEXPECTED_HDR_DISABLE, 0x20);
VALUE(PTL_LE_IS_ACCESSIBLE, 0x40);
VALUE(PTL_LE_EVENT_LINK_DISABLE, 0x80);
VALUE(PTL_LE_EVENT_COMM_DISABLE, 0x100);
VALUE(PTL_LE_EVENT_FLOWCTRL_DISABLE, 0x200);
VALUE(PTL_LE_EVENT_SUCCESS_DISABLE, 0x400);
VALUE(PTL_LE_EVENT_OVER_DISABLE, 0x800);
VALUE(PTL_LE_EVENT_UNLINK_DISABLE, 0x1000);
VALUE(PTL_LE_EVENT_CT_COMM, 0x2000);
VALUE(PTL_LE_EVENT_CT_OVERFLOW, 0x4000);
VALUE(PTL_LE_EVENT_CT_BYTES, 0x8000);
VALUE(PTL_LE_APPEND_OPTIONS_MASK, 0xffff);

VALUE(PTL_ME_OP_PUT, 0x2);
VALUE(PTL_ME_OP_GET, 0x4);
VALUE(PTL_ME_USE_ONCE, 0x8);
VALUE(PTL_ME_ACK_DISABLE, 0x10);
VALUE(PTL_ME_UNEXPECTED_HDR_DISABLE, 0x20);
VALUE(PTL_ME_IS_ACCESSIBLE, 0x40);
VALUE(PTL_ME_EVENT_LINK_DISABLE, 0x80);
VALUE(PTL_ME_EVENT_COMM_DISABLE, 0x100);
VALUE(PTL_ME_EVENT_FLOWCTRL_DISABLE, 0x200);
VALUE(PTL_ME_EVENT_SUCCESS_DISABLE, 0x400);
VALUE(PTL_ME_EVENT_OVER_DISABLE, 0x800);
VALUE(PTL_ME_EVENT_UNLINK_DISABLE, 0x1000);
VALUE(PTL_ME_EVENT_CT_COMM, 0x2000);
VALUE(PTL_ME_EVENT_CT_OVERFLOW, 0x4000);
VALUE(PTL_ME_EVENT_CT_BYTES, 0x8000);
VALUE(PTL_ME_MANAGE_LOCAL, 0x10000);
VALUE(PTL_ME_NO_TRUNCATE, 0x20000);
VALUE(PTL_ME_MAY_ALIGN, 0x40000);
VALUE(PTL_ME_APPEND_OPTIONS_MASK, 0x7ffff);

VALUE(PTL_PRIORITY_LIST, 0);
VALUE(PTL_OVERFLOW_LIST, 0x1);

VALUE(PTL_SEARCH_ONLY, 0);
VALUE(PTL_SEARCH_DELETE, 0x1);

VALUE(PTL_NO_ACK_REQ, 0);
VALUE(PTL_ACK_REQ, 0x1);
VALUE(PTL_CT_ACK_REQ, 0x2);
VALUE(PTL_OC_ACK_REQ, 0x3);

VALUE(PTL_MIN, 0);
VALUE(PTL_MAX, 0x1);
VALUE(PTL_SUM, 0x2);
VALUE(PTL_PROD, 0x3);
VALUE(PTL_LOR, 0x4);
VALUE(PTL_LAND, 0x5);
VALUE(PTL_BOR, 0x6);
VALUE(PTL_BAND, 0x7);
VALUE(PTL_LXOR, 0x8);
VALUE(PTL_BXOR, 0x9);
VALUE(PTL_SWAP, 0xa);
VALUE(PTL_CSWAP, 0xb);
VALUE(PTL_CSWAP_NE, 0xc);
VALUE(PTL_CSWAP_LE, 0xd);
VALUE(PTL_CSWAP_LT, 0xe);
VALUE(PTL_CSWAP_GE, 0xf);
VALUE(PTL_CSWAP_GT, 0x10);
VALUE(PTL_MSWAP, 0x11);
VALUE(PTL_OP_LAST, 0x12);

VALUE(PTL_INT8_T, 0);
VALUE(PTL_UINT8_T, 0x1);
VALUE(PTL_INT16_T, 0x2);
VALUE(PTL_UINT16_T, 0x3);
VALUE(PTL_INT32_T, 0x4);
VALUE(PTL_UINT32_T, 0x5);
VALUE(PTL_FLOAT, 0x6);
VALUE(PTL_INT64_T, 0x7);
VALUE(PTL_UINT64_T, 0x8);
VALUE(PTL_DOUBLE, 0x9);
VALUE(PTL_FLOAT_COMPLEX, 0xa);
VALUE(PTL_DOUBLE_COMPLEX, 0xb);
VALUE(PTL_LONG_DOUBLE, 0xc);
VALUE(PTL_LONG_DOUBLE_COMPLEX, 0xd);
VALUE(PTL_DATATYPE_LAST, 0xe);

VALUE(PTL_EVENT_GET, 0);
VALUE(PTL_EVENT_GET_OVERFLOW, 0x1);
VALUE(PTL_EVENT_PUT, 0x2);
VALUE(PTL_EVENT_PUT_OVERFLOW, 0x3);
VALUE(PTL_EVENT_ATOMIC, 0x4);
VALUE(PTL_EVENT_ATOMIC_OVERFLOW, 0x5);
VALUE(PTL_EVENT_FETCH_ATOMIC, 0x6);
VALUE(PTL_EVENT_FETCH_ATOMIC_OVERFLOW, 0x7);
VALUE(PTL_EVENT_REPLY, 0x8);
VALUE(PTL_EVENT_SEND, 0x9);
VALUE(PTL_EVENT_ACK, 0xa);
VALUE(PTL_EVENT_PT_DISABLED, 0xb);
VALUE(PTL_EVENT_LINK, 0xc);
VALUE(PTL_EVENT_AUTO_UNLINK, 0xd);
VALUE(PTL_EVENT_AUTO_FREE, 0xe);
VALUE(PTL_EVENT_SEARCH, 0xf);

VALUE(PTL_CT_OPERATION, 0);
VALUE(PTL_CT_BYTE, 1);

SIZE(ptl_process_t, 8);

SIZE(ptl_md_t, 32);
AT(ptl_md_t, start, 0);
AT(ptl_md_t, length, 8);
AT(ptl_md_t, options, 16);
AT(ptl_md_t, eq_handle, 20);
AT(ptl_md_t, ct_handle, 24);

SIZE(ptl_iovec_t, 16);

SIZE(ptl_le_t, 32);
AT(ptl_le_t, start, 0);
AT(ptl_le_t, length, 8);
AT(ptl_le_t, ct_handle, 16);
AT(ptl_le_t, uid, 20);
AT(ptl_le_t, options, 24);

/* Fields of ours stand behind the 64 bytes that programs know. */
AT(ptl_me_t, header_handler, 64);
AT(ptl_me_t, start, 0);
AT(ptl_me_t, length, 8);
AT(ptl_me_t, ct_handle, 16);
AT(ptl_me_t, uid, 20);
AT(ptl_me_t, options, 24);
AT(ptl_me_t, match_id, 28);
AT(ptl_me_t, match_bits, 40);
AT(ptl_me_t, ignore_bits, 48);
AT(ptl_me_t, min_free, 56);

SIZE(ptl_ct_event_t, 16);

SIZE(ptl_event_t, 80);
AT(ptl_event_t, start, 0);
AT(ptl_event_t, user_ptr, 8);
AT(ptl_event_t, hdr_data, 16);
AT(ptl_event_t, match_bits, 24);
AT(ptl_event_t, rlength, 32);
AT(ptl_event_t, mlength, 40);
AT(ptl_event_t, remote_offset, 48);
AT(ptl_event_t, initiator, 56);
AT(ptl_event_t, uid, 64);
AT(ptl_event_t, pt_index, 68);
AT(ptl_event_t, type, 72);
AT(ptl_event_t, ptl_list, 73);
AT(ptl_event_t, ni_fail_type, 74);
AT(ptl_event_t, atomic_operation, 75);
AT(ptl_event_t, atomic_type, 76);

SIZE(ptl_ni_limits_t, 96 + 48); /* P4sPIN, behind what Portals 4.1 has */
AT(ptl_ni_limits_t, max_user_hdr_size, 96);
AT(ptl_ni_limits_t, max_entries, 0);
AT(ptl_ni_limits_t, max_unexpected_headers, 4);
AT(ptl_ni_limits_t, max_mds, 8);
AT(ptl_ni_limits_t, max_cts, 12);
AT(ptl_ni_limits_t, max_eqs, 16);
AT(ptl_ni_limits_t, max_pt_index, 20);
AT(ptl_ni_limits_t, max_iovecs, 24);
AT(ptl_ni_limits_t, max_list_size, 28);
AT(ptl_ni_limits_t, max_triggered_ops, 32);
AT(ptl_ni_limits_t, max_msg_size, 40);
AT(ptl_ni_limits_t, max_atomic_size, 48);
AT(ptl_ni_limits_t, max_fetch_atomic_size, 56);
AT(ptl_ni_limits_t, max_waw_ordered_size, 64);
AT(ptl_ni_limits_t, max_war_ordered_size, 72);
AT(ptl_ni_limits_t, max_volatile_size, 80);
AT(ptl_ni_limits_t, features, 88);

SIZE(ptl_size_t, 8);
SIZE(ptl_pt_index_t, 4);
SIZE(ptl_match_bits_t, 8);
SIZE(ptl_hdr_data_t, 8);
SIZE(ptl_time_t, 4);
SIZE(ptl_interface_t, 4);
SIZE(ptl_nid_t, 4);
SIZE(ptl_pid_t, 4);
SIZE(ptl_rank_t, 4);
SIZE(ptl_uid_t, 4);
SIZE(ptl_sr_value_t, 4);
SIZE(ptl_handle_any_t, 4);
SIZE(ptl_handle_ni_t, 4);
SIZE(ptl_handle_eq_t, 4);
SIZE(ptl_handle_ct_t, 4);
SIZE(ptl_handle_md_t, 4);
SIZE(ptl_handle_le_t, 4);
SIZE(ptl_handle_me_t, 4);
SIZE(ptl_ni_fail_t, 1);
SIZE(ptl_list_t, 1);
SIZE(ptl_search_op_t, 1);
SIZE(ptl_ack_req_t, 1);
SIZE(ptl_op_t, 1);
SIZE(ptl_datatype_t, 1);
SIZE(ptl_event_kind_t, 1);

/* Our option bits and fail types are outside of the standard's. */
_Static_assert(!((PTL_ME_HANDLERS | PTL_ME_HANDLER_IOVEC) & PTL_ME_APPEND_OPTIONS_MASK), "options");
_Static_assert(PTL_NI_HANDLER_FAIL > PTL_NI_SEGV, "fail types");
_Static_assert(PTL_ME_HANDLERS != PTL_ME_HANDLER_IOVEC, "options");

/* A call with another type does not fit. */
static int (*const as_PtlInit)(void) = PtlInit;
static void (*const as_PtlFini)(void) = PtlFini;
static int (*const as_PtlNIInit)(ptl_interface_t, unsigned int, ptl_pid_t, const ptl_ni_limits_t *,
                                 ptl_ni_limits_t *, ptl_handle_ni_t *) = PtlNIInit;
static int (*const as_PtlNIFini)(ptl_handle_ni_t) = PtlNIFini;
static int (*const as_PtlNIStatus)(ptl_handle_ni_t, ptl_sr_index_t, ptl_sr_value_t *) = PtlNIStatus;
static int (*const as_PtlNIHandle)(ptl_handle_any_t, ptl_handle_ni_t *) = PtlNIHandle;
static int (*const as_PtlSetMap)(ptl_handle_ni_t, ptl_size_t, const ptl_process_t *) = PtlSetMap;
static int (*const as_PtlGetMap)(ptl_handle_ni_t, ptl_size_t, ptl_process_t *,
                                 ptl_size_t *) = PtlGetMap;
static int (*const as_PtlPTAlloc)(ptl_handle_ni_t, unsigned int, ptl_handle_eq_t, ptl_pt_index_t,
                                  ptl_pt_index_t *) = PtlPTAlloc;
static int (*const as_PtlPTFree)(ptl_handle_ni_t, ptl_pt_index_t) = PtlPTFree;
static int (*const as_PtlPTDisable)(ptl_handle_ni_t, ptl_pt_index_t) = PtlPTDisable;
static int (*const as_PtlPTEnable)(ptl_handle_ni_t, ptl_pt_index_t) = PtlPTEnable;
static int (*const as_PtlGetUid)(ptl_handle_ni_t, ptl_uid_t *) = PtlGetUid;
static int (*const as_PtlGetId)(ptl_handle_ni_t, ptl_process_t *) = PtlGetId;
static int (*const as_PtlGetPhysId)(ptl_handle_ni_t, ptl_process_t *) = PtlGetPhysId;
static int (*const as_PtlMDBind)(ptl_handle_ni_t, const ptl_md_t *, ptl_handle_md_t *) = PtlMDBind;
static int (*const as_PtlMDRelease)(ptl_handle_md_t) = PtlMDRelease;
static int (*const as_PtlLEAppend)(ptl_handle_ni_t, ptl_pt_index_t, const ptl_le_t *, ptl_list_t,
                                   void *, ptl_handle_le_t *) = PtlLEAppend;
static int (*const as_PtlLEUnlink)(ptl_handle_le_t) = PtlLEUnlink;
static int (*const as_PtlLESearch)(ptl_handle_ni_t, ptl_pt_index_t, const ptl_le_t *,
                                   ptl_search_op_t, void *) = PtlLESearch;
static int (*const as_PtlMEAppend)(ptl_handle_ni_t, ptl_pt_index_t, const ptl_me_t *, ptl_list_t,
                                   void *, ptl_handle_me_t *) = PtlMEAppend;
static int (*const as_PtlMEUnlink)(ptl_handle_me_t) = PtlMEUnlink;
static int (*const as_PtlMESearch)(ptl_handle_ni_t, ptl_pt_index_t, const ptl_me_t *,
                                   ptl_search_op_t, void *) = PtlMESearch;
static int (*const as_PtlEQAlloc)(ptl_handle_ni_t, ptl_size_t, ptl_handle_eq_t *) = PtlEQAlloc;
static int (*const as_PtlEQFree)(ptl_handle_eq_t) = PtlEQFree;
static int (*const as_PtlEQGet)(ptl_handle_eq_t, ptl_event_t *) = PtlEQGet;
static int (*const as_PtlEQWait)(ptl_handle_eq_t, ptl_event_t *) = PtlEQWait;
static int (*const as_PtlEQPoll)(const ptl_handle_eq_t *, unsigned int, ptl_time_t, ptl_event_t *,
                                 unsigned int *) = PtlEQPoll;
static int (*const as_PtlCTAlloc)(ptl_handle_ni_t, ptl_handle_ct_t *) = PtlCTAlloc;
static int (*const as_PtlCTFree)(ptl_handle_ct_t) = PtlCTFree;
static int (*const as_PtlCTCancelTriggered)(ptl_handle_ct_t) = PtlCTCancelTriggered;
static int (*const as_PtlCTGet)(ptl_handle_ct_t, ptl_ct_event_t *) = PtlCTGet;
static int (*const as_PtlCTWait)(ptl_handle_ct_t, ptl_size_t, ptl_ct_event_t *) = PtlCTWait;
static int (*const as_PtlCTPoll)(const ptl_handle_ct_t *, const ptl_size_t *, unsigned int,
                                 ptl_time_t, ptl_ct_event_t *, unsigned int *) = PtlCTPoll;
static int (*const as_PtlCTSet)(ptl_handle_ct_t, ptl_ct_event_t) = PtlCTSet;
static int (*const as_PtlCTInc)(ptl_handle_ct_t, ptl_ct_event_t) = PtlCTInc;
static int (*const as_PtlPut)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t, ptl_process_t,
                              ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *,
                              ptl_hdr_data_t) = PtlPut;
static int (*const as_PtlGet)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t,
                              ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *) = PtlGet;
static int (*const as_PtlAtomic)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t,
                                 ptl_process_t, ptl_pt_index_t, ptl_match_bits_t, ptl_size_t,
                                 void *, ptl_hdr_data_t, ptl_op_t, ptl_datatype_t) = PtlAtomic;
static int (*const as_PtlFetchAtomic)(ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t,
                                      ptl_size_t, ptl_process_t, ptl_pt_index_t, ptl_match_bits_t,
                                      ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t,
                                      ptl_datatype_t) = PtlFetchAtomic;
static int (*const as_PtlSwap)(ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t, ptl_size_t,
                               ptl_process_t, ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *,
                               ptl_hdr_data_t, const void *, ptl_op_t, ptl_datatype_t) = PtlSwap;
static int (*const as_PtlAtomicSync)(void) = PtlAtomicSync;
static int (*const as_PtlTriggeredPut)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t,
                                       ptl_process_t, ptl_pt_index_t, ptl_match_bits_t, ptl_size_t,
                                       void *, ptl_hdr_data_t, ptl_handle_ct_t,
                                       ptl_size_t) = PtlTriggeredPut;
static int (*const as_PtlTriggeredGet)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_process_t,
                                       ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *,
                                       ptl_handle_ct_t, ptl_size_t) = PtlTriggeredGet;
static int (*const as_PtlTriggeredAtomic)(ptl_handle_md_t, ptl_size_t, ptl_size_t, ptl_ack_req_t,
                                          ptl_process_t, ptl_pt_index_t, ptl_match_bits_t,
                                          ptl_size_t, void *, ptl_hdr_data_t, ptl_op_t,
                                          ptl_datatype_t, ptl_handle_ct_t,
                                          ptl_size_t) = PtlTriggeredAtomic;
static int (*const as_PtlTriggeredFetchAtomic)(ptl_handle_md_t, ptl_size_t, ptl_handle_md_t,
                                               ptl_size_t, ptl_size_t, ptl_process_t,
                                               ptl_pt_index_t, ptl_match_bits_t, ptl_size_t, void *,
                                               ptl_hdr_data_t, ptl_op_t, ptl_datatype_t,
                                               ptl_handle_ct_t,
                                               ptl_size_t) = PtlTriggeredFetchAtomic;
static int (*const as_PtlTriggeredSwap)(ptl_handle_md_t, ptl_size_t, ptl_handle_md_t, ptl_size_t,
                                        ptl_size_t, ptl_process_t, ptl_pt_index_t, ptl_match_bits_t,
                                        ptl_size_t, void *, ptl_hdr_data_t, const void *, ptl_op_t,
                                        ptl_datatype_t, ptl_handle_ct_t,
                                        ptl_size_t) = PtlTriggeredSwap;
static int (*const as_PtlTriggeredCTInc)(ptl_handle_ct_t, ptl_ct_event_t, ptl_handle_ct_t,
                                         ptl_size_t) = PtlTriggeredCTInc;
static int (*const as_PtlTriggeredCTSet)(ptl_handle_ct_t, ptl_ct_event_t, ptl_handle_ct_t,
                                         ptl_size_t) = PtlTriggeredCTSet;
static int (*const as_PtlTriggeredMEAppend)(ptl_handle_ni_t, ptl_pt_index_t, ptl_me_t *, ptl_list_t,
                                            void *, ptl_handle_me_t *, ptl_handle_ct_t,
                                            ptl_size_t) = PtlTriggeredMEAppend;
static int (*const as_PtlTriggeredMEUnlink)(ptl_handle_me_t, ptl_handle_ct_t,
                                            ptl_size_t) = PtlTriggeredMEUnlink;
static int (*const as_PtlStartBundle)(ptl_handle_ni_t) = PtlStartBundle;
static int (*const as_PtlEndBundle)(ptl_handle_ni_t) = PtlEndBundle;
static int (*const as_PtlHandleIsEqual)(ptl_handle_any_t, ptl_handle_any_t) = PtlHandleIsEqual;

TEST(every_call_is_there) {
    const void *const calls[] = {
        (const void *)as_PtlInit,
        (const void *)as_PtlFini,
        (const void *)as_PtlNIInit,
        (const void *)as_PtlNIFini,
        (const void *)as_PtlNIStatus,
        (const void *)as_PtlNIHandle,
        (const void *)as_PtlSetMap,
        (const void *)as_PtlGetMap,
        (const void *)as_PtlPTAlloc,
        (const void *)as_PtlPTFree,
        (const void *)as_PtlPTDisable,
        (const void *)as_PtlPTEnable,
        (const void *)as_PtlGetUid,
        (const void *)as_PtlGetId,
        (const void *)as_PtlGetPhysId,
        (const void *)as_PtlMDBind,
        (const void *)as_PtlMDRelease,
        (const void *)as_PtlLEAppend,
        (const void *)as_PtlLEUnlink,
        (const void *)as_PtlLESearch,
        (const void *)as_PtlMEAppend,
        (const void *)as_PtlMEUnlink,
        (const void *)as_PtlMESearch,
        (const void *)as_PtlEQAlloc,
        (const void *)as_PtlEQFree,
        (const void *)as_PtlEQGet,
        (const void *)as_PtlEQWait,
        (const void *)as_PtlEQPoll,
        (const void *)as_PtlCTAlloc,
        (const void *)as_PtlCTFree,
        (const void *)as_PtlCTCancelTriggered,
        (const void *)as_PtlCTGet,
        (const void *)as_PtlCTWait,
        (const void *)as_PtlCTPoll,
        (const void *)as_PtlCTSet,
        (const void *)as_PtlCTInc,
        (const void *)as_PtlPut,
        (const void *)as_PtlGet,
        (const void *)as_PtlAtomic,
        (const void *)as_PtlFetchAtomic,
        (const void *)as_PtlSwap,
        (const void *)as_PtlAtomicSync,
        (const void *)as_PtlTriggeredPut,
        (const void *)as_PtlTriggeredGet,
        (const void *)as_PtlTriggeredAtomic,
        (const void *)as_PtlTriggeredFetchAtomic,
        (const void *)as_PtlTriggeredSwap,
        (const void *)as_PtlTriggeredCTInc,
        (const void *)as_PtlTriggeredCTSet,
        (const void *)as_PtlTriggeredMEAppend,
        (const void *)as_PtlTriggeredMEUnlink,
        (const void *)as_PtlStartBundle,
        (const void *)as_PtlEndBundle,
        (const void *)as_PtlHandleIsEqual,
    };
    int count = 0;
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        CHECK(calls[i]);
        for (size_t j = 0; j < i; j++)
            CHECK(calls[i] != calls[j]);
        count++;
    }
    CHECK_EQ(count, 54);
}

TEST_MAIN
