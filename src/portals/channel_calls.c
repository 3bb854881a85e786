/* The calls of Portals and of openspin.h, of a rank whose card is in a world: each posts its
 * arguments as words, pointers as they are (sim/world_serve.c takes them in the same order). */
#include <string.h>

#include "openspin.h"
#include "portals/channel_client.h"
#include "portals/own_pages.h"

#define CALL(name, ...) CHANNEL_CALL(PORTALS_CALL_##name, __VA_ARGS__)
#define AT(pointer)     (uintptr_t)(pointer)
#define COUNT(event)    (event).success, (event).failure

static uint64_t name_of(ptl_process_t process) {
    uint64_t word = 0;
    _Static_assert(sizeof process <= sizeof word, "a process is one word");
    memcpy(&word, &process, sizeof process);
    return word;
}

int PtlInit(void) {
    return channel_post(PORTALS_CALL_PtlInit, NULL, 0, NULL);
}

void PtlFini(void) {
    channel_post(PORTALS_CALL_PtlFini, NULL, 0, NULL);
}

/* ---- interfaces, the portal table, identity, memory descriptors, handles ---- */

int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
              const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual, ptl_handle_ni_t *ni_handle) {
    return CALL(PtlNIInit, iface, options, pid, AT(desired), AT(actual), AT(ni_handle));
}

/* As in interface.c: what programs call that were compiled with the limits of Portals 4.1. */
int channel_41_ni_init(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
                       const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                       ptl_handle_ni_t *ni_handle) __asm__("PtlNIInit");
int channel_41_ni_init(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
                       const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                       ptl_handle_ni_t *ni_handle) {
    return CHANNEL_CALL(CHANNEL_NI_INIT_41, iface, options, pid, AT(desired), AT(actual),
                        AT(ni_handle));
}

int PtlNIFini(ptl_handle_ni_t ni_handle) {
    return CALL(PtlNIFini, ni_handle);
}

int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status) {
    return CALL(PtlNIStatus, ni_handle, status_register, AT(status));
}

int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle) {
    return CALL(PtlNIHandle, handle, AT(ni_handle));
}

int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping) {
    return CALL(PtlSetMap, ni_handle, map_size, AT(mapping));
}

int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping,
              ptl_size_t *actual_map_size) {
    return CALL(PtlGetMap, ni_handle, map_size, AT(mapping), AT(actual_map_size));
}

int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid) {
    return CALL(PtlGetUid, ni_handle, AT(uid));
}

int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id) {
    return CALL(PtlGetId, ni_handle, AT(id));
}

int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id) {
    return CALL(PtlGetPhysId, ni_handle, AT(id));
}

int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle,
               ptl_pt_index_t pt_index_req, ptl_pt_index_t *pt_index) {
    return CALL(PtlPTAlloc, ni_handle, options, eq_handle, pt_index_req, AT(pt_index));
}

int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    return CALL(PtlPTFree, ni_handle, pt_index);
}

int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    return CALL(PtlPTDisable, ni_handle, pt_index);
}

int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    return CALL(PtlPTEnable, ni_handle, pt_index);
}

int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle) {
    return CALL(PtlMDBind, ni_handle, AT(md), AT(md_handle));
}

int PtlMDRelease(ptl_handle_md_t md_handle) {
    return CALL(PtlMDRelease, md_handle);
}

int PtlStartBundle(ptl_handle_ni_t ni_handle) {
    return CALL(PtlStartBundle, ni_handle);
}

int PtlEndBundle(ptl_handle_ni_t ni_handle) {
    return CALL(PtlEndBundle, ni_handle);
}

int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2) {
    CALL(PtlHandleIsEqual, handle1, handle2);
    return handle1 == handle2;
}

/* ---- lists, and handlers ---- */

int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_le_t *le_handle) {
    return CALL(PtlLEAppend, ni_handle, pt_index, AT(le), ptl_list, AT(user_ptr), AT(le_handle));
}

int PtlLEUnlink(ptl_handle_le_t le_handle) {
    return CALL(PtlLEUnlink, le_handle);
}

int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_search_op_t ptl_search_op, void *user_ptr) {
    return CALL(PtlLESearch, ni_handle, pt_index, AT(le), ptl_search_op, AT(user_ptr));
}

int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle) {
    return CALL(PtlMEAppend, ni_handle, pt_index, AT(me), ptl_list, AT(user_ptr), AT(me_handle));
}

int PtlMEUnlink(ptl_handle_me_t me_handle) {
    return CALL(PtlMEUnlink, me_handle);
}

int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_search_op_t ptl_search_op, void *user_ptr) {
    return CALL(PtlMESearch, ni_handle, pt_index, AT(me), ptl_search_op, AT(user_ptr));
}

int PtlHPULimits(ptl_handle_ni_t ni_handle, ptl_hpu_limits_t *limits) {
    return CALL(PtlHPULimits, ni_handle, AT(limits));
}

int PtlHPUAllocMem(ptl_size_t length, ptl_handle_ni_t ni, ptl_hpu_md_h *hpu_mem) {
    return CALL(PtlHPUAllocMem, length, ni, AT(hpu_mem));
}

int PtlHPUFreeMem(ptl_hpu_md_h *hpu_mem) {
    return CALL(PtlHPUFreeMem, AT(hpu_mem));
}

int PtlImageLoad(ptl_handle_ni_t ni_handle, const char *path, ptl_image_h *image) {
    return CALL(PtlImageLoad, ni_handle, AT(path), AT(image));
}

int PtlImageParse(ptl_handle_ni_t ni_handle, const char *name, const void *bytes, ptl_size_t length,
                  ptl_image_h *image) {
    return CALL(PtlImageParse, ni_handle, AT(name), AT(bytes), length, AT(image));
}

int PtlImageFind(ptl_image_h image, const char *function, ptl_handler_t *handler) {
    return CALL(PtlImageFind, AT(image), AT(function), AT(handler));
}

int PtlImageUnload(ptl_image_h image) {
    return CALL(PtlImageUnload, AT(image));
}

const char *PtlImageError(void) {
    if (!channel_is_rank(NULL))
        return "there is no process of Portals here";
    channel_post(PORTALS_CALL_PtlImageError, NULL, 0, NULL);
    return channel_text();
}

/* ---- events and counters ---- */

int PtlEQAlloc(ptl_handle_ni_t ni_handle, ptl_size_t count, ptl_handle_eq_t *eq_handle) {
    return CALL(PtlEQAlloc, ni_handle, count, AT(eq_handle));
}

int PtlEQFree(ptl_handle_eq_t eq_handle) {
    return CALL(PtlEQFree, eq_handle);
}

int PtlEQGet(ptl_handle_eq_t eq_handle, ptl_event_t *event) {
    uint64_t none[2];
    if (event && channel_finds_same(PORTALS_CALL_PtlEQGet, eq_handle, none))
        return PTL_EQ_EMPTY;
    return CALL(PtlEQGet, eq_handle, AT(event));
}

int PtlEQWait(ptl_handle_eq_t eq_handle, ptl_event_t *event) {
    return CALL(PtlEQWait, eq_handle, AT(event));
}

int PtlEQPoll(const ptl_handle_eq_t *eq_handles, unsigned int size, ptl_time_t timeout,
              ptl_event_t *event, unsigned int *which) {
    return CALL(PtlEQPoll, AT(eq_handles), size, timeout, AT(event), AT(which));
}

int PtlCTAlloc(ptl_handle_ni_t ni_handle, ptl_handle_ct_t *ct_handle) {
    return CALL(PtlCTAlloc, ni_handle, AT(ct_handle));
}

int PtlCTFree(ptl_handle_ct_t ct_handle) {
    return CALL(PtlCTFree, ct_handle);
}

int PtlCTCancelTriggered(ptl_handle_ct_t ct_handle) {
    return CALL(PtlCTCancelTriggered, ct_handle);
}

int PtlCTGet(ptl_handle_ct_t ct_handle, ptl_ct_event_t *event) {
    uint64_t counts[2];
    if (event && channel_finds_same(PORTALS_CALL_PtlCTGet, ct_handle, counts)) {
        *event = (ptl_ct_event_t){counts[0], counts[1]};
        return PTL_OK;
    }
    return CALL(PtlCTGet, ct_handle, AT(event));
}

int PtlCTWait(ptl_handle_ct_t ct_handle, ptl_size_t test, ptl_ct_event_t *event) {
    return CALL(PtlCTWait, ct_handle, test, AT(event));
}

int PtlCTPoll(const ptl_handle_ct_t *ct_handles, const ptl_size_t *tests, unsigned int size,
              ptl_time_t timeout, ptl_ct_event_t *event, unsigned int *which) {
    return CALL(PtlCTPoll, AT(ct_handles), AT(tests), size, timeout, AT(event), AT(which));
}

int PtlCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct) {
    return CALL(PtlCTSet, ct_handle, COUNT(new_ct));
}

int PtlCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment) {
    return CALL(PtlCTInc, ct_handle, COUNT(increment));
}

/* ---- data movement, now or when a counter is reached ---- */

int PtlPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
           ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
           ptl_hdr_data_t hdr_data) {
    return CALL(PtlPut, md_handle, local_offset, length, ack_req, name_of(target_id), pt_index,
                match_bits, remote_offset, AT(user_ptr), hdr_data);
}

int PtlGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
           ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
           ptl_size_t remote_offset, void *user_ptr) {
    return CALL(PtlGet, md_handle, local_offset, length, name_of(target_id), pt_index, match_bits,
                remote_offset, AT(user_ptr));
}

int PtlAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
              ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
              ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
              ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype) {
    return CALL(PtlAtomic, md_handle, local_offset, length, ack_req, name_of(target_id), pt_index,
                match_bits, remote_offset, AT(user_ptr), hdr_data, operation, datatype);
}

int PtlFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                   ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                   ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                   ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                   ptl_op_t operation, ptl_datatype_t datatype) {
    return CALL(PtlFetchAtomic, get_md_handle, local_get_offset, put_md_handle, local_put_offset,
                length, name_of(target_id), pt_index, match_bits, remote_offset, AT(user_ptr),
                hdr_data, operation, datatype);
}

int PtlSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
            ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
            ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data, const void *operand,
            ptl_op_t operation, ptl_datatype_t datatype) {
    return CALL(PtlSwap, get_md_handle, local_get_offset, put_md_handle, local_put_offset, length,
                name_of(target_id), pt_index, match_bits, remote_offset, AT(user_ptr), hdr_data,
                AT(operand), operation, datatype);
}

int PtlAtomicSync(void) {
    return channel_post(PORTALS_CALL_PtlAtomicSync, NULL, 0, NULL);
}

int PtlTriggeredPut(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                    ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                    ptl_hdr_data_t hdr_data, ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredPut, md_handle, local_offset, length, ack_req, name_of(target_id),
                pt_index, match_bits, remote_offset, AT(user_ptr), hdr_data, trig_ct_handle,
                threshold);
}

int PtlTriggeredGet(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                    ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                    ptl_size_t remote_offset, void *user_ptr, ptl_handle_ct_t trig_ct_handle,
                    ptl_size_t threshold) {
    return CALL(PtlTriggeredGet, md_handle, local_offset, length, name_of(target_id), pt_index,
                match_bits, remote_offset, AT(user_ptr), trig_ct_handle, threshold);
}

int PtlTriggeredAtomic(ptl_handle_md_t md_handle, ptl_size_t local_offset, ptl_size_t length,
                       ptl_ack_req_t ack_req, ptl_process_t target_id, ptl_pt_index_t pt_index,
                       ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                       ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                       ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredAtomic, md_handle, local_offset, length, ack_req, name_of(target_id),
                pt_index, match_bits, remote_offset, AT(user_ptr), hdr_data, operation, datatype,
                trig_ct_handle, threshold);
}

int PtlTriggeredFetchAtomic(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                            ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset,
                            ptl_size_t length, ptl_process_t target_id, ptl_pt_index_t pt_index,
                            ptl_match_bits_t match_bits, ptl_size_t remote_offset, void *user_ptr,
                            ptl_hdr_data_t hdr_data, ptl_op_t operation, ptl_datatype_t datatype,
                            ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredFetchAtomic, get_md_handle, local_get_offset, put_md_handle,
                local_put_offset, length, name_of(target_id), pt_index, match_bits, remote_offset,
                AT(user_ptr), hdr_data, operation, datatype, trig_ct_handle, threshold);
}

int PtlTriggeredSwap(ptl_handle_md_t get_md_handle, ptl_size_t local_get_offset,
                     ptl_handle_md_t put_md_handle, ptl_size_t local_put_offset, ptl_size_t length,
                     ptl_process_t target_id, ptl_pt_index_t pt_index, ptl_match_bits_t match_bits,
                     ptl_size_t remote_offset, void *user_ptr, ptl_hdr_data_t hdr_data,
                     const void *operand, ptl_op_t operation, ptl_datatype_t datatype,
                     ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredSwap, get_md_handle, local_get_offset, put_md_handle, local_put_offset,
                length, name_of(target_id), pt_index, match_bits, remote_offset, AT(user_ptr),
                hdr_data, AT(operand), operation, datatype, trig_ct_handle, threshold);
}

int PtlTriggeredCTInc(ptl_handle_ct_t ct_handle, ptl_ct_event_t increment,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredCTInc, ct_handle, COUNT(increment), trig_ct_handle, threshold);
}

int PtlTriggeredCTSet(ptl_handle_ct_t ct_handle, ptl_ct_event_t new_ct,
                      ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredCTSet, ct_handle, COUNT(new_ct), trig_ct_handle, threshold);
}

int PtlTriggeredMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, ptl_me_t *me_init,
                         ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle_p,
                         ptl_handle_ct_t trig_ct_handle, ptl_size_t threshold) {
    return CALL(PtlTriggeredMEAppend, ni_handle, pt_index, AT(me_init), ptl_list, AT(user_ptr),
                AT(me_handle_p), trig_ct_handle, threshold);
}

int PtlTriggeredMEUnlink(ptl_handle_me_t me_handle, ptl_handle_ct_t trig_ct_handle,
                         ptl_size_t threshold) {
    return CALL(PtlTriggeredMEUnlink, me_handle, trig_ct_handle, threshold);
}

/* ---- openspin.h ---- */

uint32_t spin_rank(void) {
    struct channel_place place;
    return channel_is_rank(&place) ? place.rank : 0;
}

uint32_t spin_ranks(void) {
    struct channel_place place;
    return channel_is_rank(&place) ? place.ranks : 1;
}

uint64_t spin_now_ps(void) {
    uint64_t back[2] = {0};
    channel_post(CHANNEL_NOW, NULL, 0, back);
    return back[0];
}

void spin_compute_ps(uint64_t time_ps) {
    CHANNEL_CALL(CHANNEL_COMPUTE, time_ps);
}

void spin_work(uint64_t cycles, uint64_t memory_bytes) {
    CHANNEL_CALL(CHANNEL_WORK, cycles, memory_bytes);
}

void spin_copy(void *to, const void *from, size_t bytes) {
    memcpy(to, from, bytes);
    spin_work(0, 2 * bytes); /* read and written */
}

void spin_barrier(void) {
    channel_post(CHANNEL_BARRIER, NULL, 0, NULL);
}

int spin_map_ranks(uint32_t ni_handle) {
    return CHANNEL_CALL(CHANNEL_MAP, ni_handle);
}

int own_pages_call(enum portals_memory how, const void *at, uint64_t bytes) {
    int code = how == PORTALS_PIN ? SPIN_OK : own_pages_use(how, at, bytes);
    return code ? code : CHANNEL_CALL(CHANNEL_MEMORY, how, AT(at), bytes);
}
