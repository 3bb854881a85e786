/* Data movement, now or when a counter is reached: each call fills in a request. */
#include <string.h>

#include "portals/portals_call.h"

/* Who sends more than a peer takes waits here. What counters trigger, and what handlers send, does
 * not. */
static int end_start(struct portals_process *process, int code) {
    if (process->flooded)
        process->host->calm(process->context);
    return portals_call_end(process, code);
}

#define START_CALL(name, work)                                                                     \
    do {                                                                                           \
        struct portals_process *process_ =                                                         \
            portals_call_begin(PORTALS_CALL_##name, 0, PORTALS_CALLER);                            \
        struct portals *p = process_ ? process_->portals : NULL;                                   \
        return p ? end_start(process_, work) : PTL_NO_INIT;                                        \
    } while (0)

/* Starts it, or with a counter prepares it. */
static int start(struct portals *p, const struct portals_request *request,
                 const ptl_handle_ct_t *ct, ptl_size_t threshold) {
    return ct ? portals_trigger(p, request, *ct, threshold) : portals_start(p, request);
}

static int put(struct portals *p, ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
               ptl_ack_req_t ack_req, ptl_process_t target, ptl_pt_index_t pt_index,
               ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
               ptl_hdr_data_t hdr_data, const ptl_handle_ct_t *ct, ptl_size_t threshold) {
    struct portals_request r; /* what a put has: all of it is as long as the rest of the call */
    r.kind = PORTALS_PUT;
    r.md = md;
    r.local_offset = local_offset;
    r.get_offset = 0;
    r.length = length;
    r.ack_req = ack_req;
    r.target = target;
    r.pt_index = pt_index;
    r.match_bits = match_bits;
    r.remote_offset = remote_offset;
    r.user_ptr = user_ptr;
    r.hdr_data = hdr_data;
    return start(p, &r, ct, threshold);
}

static int get(struct portals *p, ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
               ptl_process_t target, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
               ptl_size_t remote_offset, void *user_ptr, const ptl_handle_ct_t *ct,
               ptl_size_t threshold) {
    struct portals_request r = {.kind = PORTALS_GET,
                                .get_md = md,
                                .get_offset = local_offset,
                                .length = length,
                                .target = target,
                                .pt_index = pt_index,
                                .match_bits = match_bits,
                                .remote_offset = remote_offset,
                                .user_ptr = user_ptr};
    return start(p, &r, ct, threshold);
}

static int atomic(struct portals *p, ptl_handle_md_t md, ptl_size_t local_offset, ptl_size_t length,
                  ptl_ack_req_t ack_req, ptl_process_t target, ptl_pt_index_t pt_index,
                  ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                  ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                  const ptl_handle_ct_t *ct, ptl_size_t threshold) {
    struct portals_request r = {.kind = PORTALS_ATOMIC,
                                .md = md,
                                .local_offset = local_offset,
                                .length = length,
                                .ack_req = ack_req,
                                .target = target,
                                .pt_index = pt_index,
                                .match_bits = match_bits,
                                .remote_offset = remote_offset,
                                .user_ptr = user_ptr,
                                .hdr_data = hdr_data,
                                .operation = operation,
                                .datatype = datatype};
    return start(p, &r, ct, threshold);
}

/* `operand` is as long as one item, and read only where a swap uses it. */
static int fetch(struct portals *p, enum portals_request_kind kind, ptl_handle_md_t get_md,
                 ptl_size_t get_offset, ptl_handle_md_t put_md, ptl_size_t put_offset,
                 ptl_size_t length, ptl_process_t target, ptl_pt_index_t pt_index,
                 ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                 ptl_hdr_data_t hdr_data, const void *operand, ptl_op_t operation,
                 ptl_datatype_t datatype, const ptl_handle_ct_t *ct, ptl_size_t threshold) {
    struct portals_request r = {.kind = kind,
                                .get_md = get_md,
                                .get_offset = get_offset,
                                .md = put_md,
                                .local_offset = put_offset,
                                .length = length,
                                .target = target,
                                .pt_index = pt_index,
                                .match_bits = match_bits,
                                .remote_offset = remote_offset,
                                .user_ptr = user_ptr,
                                .hdr_data = hdr_data,
                                .operation = operation,
                                .datatype = datatype};
    if (kind == PORTALS_SWAP && operation > PTL_SWAP) {
        if (!operand)
            return PTL_ARG_INVALID;
        memcpy(r.operand, operand, portals_item_bytes(datatype));
    }
    return start(p, &r, ct, threshold);
}

int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
           ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
           ptl_hdr_data_t hdr_data) {
    START_CALL(PtlPut, put(p, md_handle, local_offset, length, ack_req, target_id, pt_index,
                           match_bits, remote_offset, user_ptr, hdr_data, NULL, 0));
}

int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
           ptl_size_t remote_offset, void *user_ptr) {
    START_CALL(PtlGet, get(p, md_handle, local_offset, length, target_id, pt_index, match_bits,
                           remote_offset, user_ptr, NULL, 0));
}

int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
              ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
              ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
              ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype) {
    START_CALL(PtlAtomic,
               atomic(p, md_handle, local_offset, length, ack_req, target_id, pt_index, match_bits,
                      remote_offset, user_ptr, hdr_data, operation, datatype, NULL, 0));
}

int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                   ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                   ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                   ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype) {
    START_CALL(PtlFetchAtomic,
               fetch(p, PORTALS_FETCH_ATOMIC, get_md_handle, local_get_offset, put_md_handle,
                     local_put_offset, length, target_id, pt_index, match_bits, remote_offset,
                     user_ptr, hdr_data, NULL, operation, datatype, NULL, 0));
}

int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
            ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
            ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, const void *operand,
            ptl_op_t operation, ptl_datatype_t datatype) {
    START_CALL(PtlSwap,
               fetch(p, PORTALS_SWAP, get_md_handle, local_get_offset, put_md_handle,
                     local_put_offset, length, target_id, pt_index, match_bits, remote_offset,
                     user_ptr, hdr_data, operand, operation, datatype, NULL, 0));
}

/* Atomics of the card work on host memory itself: nothing is left to write back. */
int PtlAtomicSync(void) {
    PORTALS_CALL(PtlAtomicSync, 0, ((void)p, PTL_OK));
}

int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                    ptl_hdr_data_t hdr_data, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredPut, 0,
                 put(p, md_handle, local_offset, length, ack_req, target_id, pt_index, match_bits,
                     remote_offset, user_ptr, hdr_data, &trig_ct_handle, threshold));
}

int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr, ptl_handle_ct_t trig_ct_handle,
                    ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredGet, 0,
                 get(p, md_handle, local_offset, length, target_id, pt_index, match_bits,
                     remote_offset, user_ptr, &trig_ct_handle, threshold));
}

int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                       ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                       ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                       ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                       ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredAtomic, 0,
                 atomic(p, md_handle, local_offset, length, ack_req, target_id, pt_index,
                        match_bits, remote_offset, user_ptr, hdr_data, operation, datatype,
                        &trig_ct_handle, threshold));
}

int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset,
                            ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                            ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                            ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredFetchAtomic, 0,
                 fetch(p, PORTALS_FETCH_ATOMIC, get_md_handle, local_get_offset, put_md_handle,
                       local_put_offset, length, target_id, pt_index, match_bits, remote_offset,
                       user_ptr, hdr_data, NULL, operation, datatype, &trig_ct_handle, threshold));
}

int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                     ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                     ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                     ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                     const void *operand, ptl_op_t operation, ptl_datatype_t datatype,
                     ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredSwap, 0,
                 fetch(p, PORTALS_SWAP, get_md_handle, local_get_offset, put_md_handle,
                       local_put_offset, length, target_id, pt_index, match_bits, remote_offset,
                       user_ptr, hdr_data, operand, operation, datatype, &trig_ct_handle,
                       threshold));
}

static int trigger_count(struct portals *p, enum portals_request_kind kind, ptl_handle_ct_t ct,
                         ptl_ct_event_t value, ptl_handle_ct_t trigger, ptl_size_t threshold) {
    struct portals_request r = {.kind = kind, .ct = ct, .ct_value = value};
    return portals_trigger(p, &r, trigger, threshold);
}

int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredCTInc, 0,
                 trigger_count(p, PORTALS_CT_INC, ct_handle, increment, trig_ct_handle, threshold));
}

int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredCTSet, 0,
                 trigger_count(p, PORTALS_CT_SET, ct_handle, new_ct, trig_ct_handle, threshold));
}

int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, ptl_me_t *me_init,
                         ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle_p,
                         ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    PORTALS_CALL(PtlTriggeredMEAppend, 0,
                 portals_trigger_me_append(p, ni_handle, pt_index, me_init, ptl_list, user_ptr,
                                           me_handle_p, trig_ct_handle, threshold));
}

int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle,
                         ptl_size_t threshold) {
    struct portals_request r = {.kind = PORTALS_ME_UNLINK, .me = me_handle};
    PORTALS_CALL(PtlTriggeredMEUnlink, 0, portals_trigger(p, &r, trig_ct_handle, threshold));
}
