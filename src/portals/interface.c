/* Interfaces, the portal table, identity, memory descriptors, handles. */
#include <stdio.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "portals/portals_call.h"

static const char *look_up(const char *name) {
    return getenv(name);
}

/* Mostly not: then nobody has to look for sixteen variables. */
static bool are_limits_set(void) {
    char **variable = environ;
    while (variable && *variable && strncmp(*variable, "PTL_LIM_", 8) != 0)
        variable++;
    return variable && *variable;
}

static int ni_init(struct portals *p, ptl_interface_t iface, unsigned options, ptl_pid_t pid,
                   const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual, ptl_handle_ni_t *ni) {
    ptl_ni_limits_t usual;
    struct spin_error err = {0};
    portals_limits_default(&usual, are_limits_set() ? look_up : NULL, &err);
    if (err.code)
        fprintf(stderr, "PtlNIInit: %s\n", err.text);
    return portals_ni_init(p, iface, options, pid, desired, &usual, actual, ni);
}

int PtlNIInit(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
              const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual, ptl_handle_ni_t *ni_handle) {
    PORTALS_CALL(PtlNIInit, 0, ni_init(p, iface, options, pid, desired, actual, ni_handle));
}

/* What programs call that were compiled with the limits of Portals 4.1, which end after `features`.
 */
int portals_41_ni_init(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
                       const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                       ptl_handle_ni_t *ni_handle) __asm__("PtlNIInit");
int portals_41_ni_init(ptl_interface_t iface, unsigned int options, ptl_pid_t pid,
                       const ptl_ni_limits_t *desired, ptl_ni_limits_t *actual,
                       ptl_handle_ni_t *ni_handle) {
    enum { BYTES_41 = offsetof(ptl_ni_limits_t, max_user_hdr_size) };
    ptl_ni_limits_t asked = {0}, given;
    if (desired)
        memcpy(&asked, desired, BYTES_41);
    int code = PtlNIInit(iface, options, pid, desired ? &asked : NULL, &given, ni_handle);
    if (code == PTL_OK && actual)
        memcpy(actual, &given, BYTES_41);
    return code;
}

/* Returns when the card has done with the program's memory. */
static int ni_fini(struct portals *p, ptl_handle_ni_t ni_handle) {
    const struct portals_process *process = portals_current();
    int code;
    while ((code = portals_ni_fini(p, ni_handle)) == PTL_IN_USE && process->host->wait)
        process->host->wait(process->context, UINT64_MAX);
    return code;
}

int PtlNIFini(ptl_handle_ni_t ni_handle) {
    PORTALS_CALL(PtlNIFini, 0, ni_fini(p, ni_handle));
}

int PtlNIStatus(ptl_handle_ni_t ni_handle, ptl_sr_index_t status_register, ptl_sr_value_t *status) {
    PORTALS_CALL(PtlNIStatus, 0, portals_ni_status(p, ni_handle, status_register, status));
}

int PtlNIHandle(ptl_handle_any_t handle, ptl_handle_ni_t *ni_handle) {
    PORTALS_CALL(PtlNIHandle, 0, portals_ni_handle(p, handle, ni_handle));
}

int PtlSetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, const ptl_process_t *mapping) {
    PORTALS_CALL(PtlSetMap, map_size * sizeof *mapping,
                 portals_set_map(p, ni_handle, map_size, mapping));
}

int PtlGetMap(ptl_handle_ni_t ni_handle, ptl_size_t map_size, ptl_process_t *mapping,
              ptl_size_t *actual_map_size) {
    PORTALS_CALL(PtlGetMap, map_size * sizeof *mapping,
                 portals_get_map(p, ni_handle, map_size, mapping, actual_map_size));
}

int PtlGetUid(ptl_handle_ni_t ni_handle, ptl_uid_t *uid) {
    PORTALS_CALL(PtlGetUid, 0, portals_get_uid(p, ni_handle, uid));
}

int PtlGetId(ptl_handle_ni_t ni_handle, ptl_process_t *id) {
    PORTALS_CALL(PtlGetId, 0, portals_get_id(p, ni_handle, id));
}

int PtlGetPhysId(ptl_handle_ni_t ni_handle, ptl_process_t *id) {
    PORTALS_CALL(PtlGetPhysId, 0, portals_get_phys_id(p, ni_handle, id));
}

int PtlPTAlloc(ptl_handle_ni_t ni_handle, unsigned int options, ptl_handle_eq_t eq_handle,
               ptl_pt_index_t pt_index_req, ptl_pt_index_t *pt_index) {
    PORTALS_CALL(PtlPTAlloc, 0,
                 portals_pt_alloc(p, ni_handle, options, eq_handle, pt_index_req, pt_index));
}

int PtlPTFree(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    PORTALS_CALL(PtlPTFree, 0, portals_pt_free(p, ni_handle, pt_index));
}

/* Returns when no message is being delivered there any more. */
static int pt_disable(struct portals *p, ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    const struct portals_process *process = portals_current();
    int code;
    while ((code = portals_pt_disable(p, ni_handle, pt_index)) == PTL_IN_USE && process->host->wait)
        process->host->wait(process->context, UINT64_MAX);
    return code;
}

int PtlPTDisable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    PORTALS_CALL(PtlPTDisable, 0, pt_disable(p, ni_handle, pt_index));
}

int PtlPTEnable(ptl_handle_ni_t ni_handle, ptl_pt_index_t pt_index) {
    PORTALS_CALL(PtlPTEnable, 0, portals_pt_enable(p, ni_handle, pt_index));
}

int PtlMDBind(ptl_handle_ni_t ni_handle, const ptl_md_t *md, ptl_handle_md_t *md_handle) {
    PORTALS_CALL(PtlMDBind, 0, portals_md_bind(p, ni_handle, md, md_handle));
}

int PtlMDRelease(ptl_handle_md_t md_handle) {
    return portals_call_back(PORTALS_CALL_PtlMDRelease, portals_md_release, md_handle,
                             PORTALS_CALLER);
}

int PtlStartBundle(ptl_handle_ni_t ni_handle) {
    PORTALS_CALL(PtlStartBundle, 0, portals_bundle(p, ni_handle, true));
}

int PtlEndBundle(ptl_handle_ni_t ni_handle) {
    PORTALS_CALL(PtlEndBundle, 0, portals_bundle(p, ni_handle, false));
}

/* A truth value, at any time: programs compare handles before PtlInit, and without a card. */
int PtlHandleIsEqual(ptl_handle_any_t handle1, ptl_handle_any_t handle2) {
    struct portals_process *process =
        portals_call_begin(PORTALS_CALL_PtlHandleIsEqual, 0, PORTALS_CALLER);
    if (process)
        portals_call_end(process, PTL_OK);
    return handle1 == handle2;
}
