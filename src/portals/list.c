/* List entries, matching list entries, and what P4sPIN adds to them. */
#include "portals/portals_call.h"

int PtlLEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_le_t *le_handle) {
    PORTALS_CALL(PtlLEAppend, 0,
                 portals_le_append(p, ni_handle, pt_index, le, ptl_list, user_ptr, le_handle));
}

int PtlLEUnlink(ptl_handle_le_t le_handle) {
    return portals_call_back(PORTALS_CALL_PtlLEUnlink, portals_le_unlink, le_handle,
                             PORTALS_CALLER);
}

int PtlLESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_le_t *le,
                ptl_search_op_t ptl_search_op, void *user_ptr) {
    PORTALS_CALL(PtlLESearch, 0,
                 portals_le_search(p, ni_handle, pt_index, le, ptl_search_op, user_ptr));
}

int PtlMEAppend(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_list_t ptl_list, void *user_ptr, ptl_handle_me_t *me_handle) {
    PORTALS_CALL(PtlMEAppend, 0,
                 portals_me_append(p, ni_handle, pt_index, me, ptl_list, user_ptr, me_handle));
}

int PtlMEUnlink(ptl_handle_me_t me_handle) {
    return portals_call_back(PORTALS_CALL_PtlMEUnlink, portals_me_unlink, me_handle,
                             PORTALS_CALLER);
}

int PtlMESearch(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index, const ptl_me_t *me,
                ptl_search_op_t ptl_search_op, void *user_ptr) {
    PORTALS_CALL(PtlMESearch, 0,
                 portals_me_search(p, ni_handle, pt_index, me, ptl_search_op, user_ptr));
}

int PtlHPULimits(ptl_handle_ni_t ni_handle, ptl_hpu_limits_t *limits) {
    PORTALS_CALL(PtlHPULimits, 0, portals_hpu_limits(p, ni_handle, limits));
}

int PtlHPUAllocMem(ptl_size_t length, ptl_handle_ni_t ni, ptl_hpu_md_h *hpu_mem) {
    PORTALS_CALL(PtlHPUAllocMem, 0, portals_hpu_alloc(p, ni, length, hpu_mem));
}

static int hpu_free(struct portals *p, ptl_hpu_md_h *hpu_mem) {
    int code = hpu_mem ? portals_hpu_free(p, *hpu_mem) : PTL_ARG_INVALID;
    if (!code)
        *hpu_mem = PTL_INVALID_HANDLE;
    return code;
}

int PtlHPUFreeMem(ptl_hpu_md_h *hpu_mem) {
    PORTALS_CALL(PtlHPUFreeMem, 0, hpu_free(p, hpu_mem));
}

/* The host may have something to prepare, which the lock is not for. */
static void announce_image(void) {
    const struct portals_process *process = portals_current();
    if (process && process->host->image)
        process->host->image(process->context);
}

int PtlImageLoad(ptl_handle_ni_t ni_handle, const char *path, ptl_image_h *image) {
    announce_image();
    PORTALS_CALL(PtlImageLoad, 0, portals_image_load(p, ni_handle, path, NULL, 0, image));
}

int PtlImageParse(ptl_handle_ni_t ni_handle, const char *name, const void *bytes, ptl_size_t length,
                  ptl_image_h *image) {
    announce_image();
    PORTALS_CALL(PtlImageParse, length,
                 bytes ? portals_image_load(p, ni_handle, name, bytes, length, image)
                       : PTL_ARG_INVALID);
}

int PtlImageFind(ptl_image_h image, const char *function, ptl_handler_t *handler) {
    PORTALS_CALL(PtlImageFind, 0, portals_image_find(p, image, function, handler));
}

int PtlImageUnload(ptl_image_h image) {
    PORTALS_CALL(PtlImageUnload, 0, portals_image_unload(p, image));
}

const char *PtlImageError(void) {
    const struct portals_process *process = portals_current();
    return process ? portals_image_error(process->portals) : "there is no process of Portals here";
}
