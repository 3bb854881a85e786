/* Names of what calls return and events say. */
#include <stddef.h>

#include "portals4.h"

#define NAME(constant) [constant] = #constant

static const char *const errors[] = {
    NAME(PTL_OK),          NAME(PTL_ARG_INVALID),   NAME(PTL_CT_NONE_REACHED), NAME(PTL_EQ_DROPPED),
    NAME(PTL_EQ_EMPTY),    NAME(PTL_FAIL),          NAME(PTL_IGNORED),         NAME(PTL_IN_USE),
    NAME(PTL_INTERRUPTED), NAME(PTL_LIST_TOO_LONG), NAME(PTL_NO_INIT),         NAME(PTL_NO_SPACE),
    NAME(PTL_PID_IN_USE),  NAME(PTL_PT_FULL),       NAME(PTL_PT_EQ_NEEDED),    NAME(PTL_PT_IN_USE),
};

static const char *const events[] = {
    NAME(PTL_EVENT_GET),          NAME(PTL_EVENT_GET_OVERFLOW),
    NAME(PTL_EVENT_PUT),          NAME(PTL_EVENT_PUT_OVERFLOW),
    NAME(PTL_EVENT_ATOMIC),       NAME(PTL_EVENT_ATOMIC_OVERFLOW),
    NAME(PTL_EVENT_FETCH_ATOMIC), NAME(PTL_EVENT_FETCH_ATOMIC_OVERFLOW),
    NAME(PTL_EVENT_REPLY),        NAME(PTL_EVENT_SEND),
    NAME(PTL_EVENT_ACK),          NAME(PTL_EVENT_PT_DISABLED),
    NAME(PTL_EVENT_LINK),         NAME(PTL_EVENT_AUTO_UNLINK),
    NAME(PTL_EVENT_AUTO_FREE),    NAME(PTL_EVENT_SEARCH),
};

static const char *const failures[] = {
    NAME(PTL_NI_OK),          NAME(PTL_NI_UNDELIVERABLE),  NAME(PTL_NI_DROPPED),
    NAME(PTL_NI_PT_DISABLED), NAME(PTL_NI_PERM_VIOLATION), NAME(PTL_NI_OP_VIOLATION),
    NAME(PTL_NI_NO_MATCH),    NAME(PTL_NI_SEGV),           NAME(PTL_NI_HANDLER_FAIL),
};

static const struct {
    const char *const *name;
    size_t names;
} tables[] = {
#define TABLE(names)                                                                               \
    { names, sizeof names / sizeof *names }
    [PTL_STR_ERROR] = TABLE(errors),
    [PTL_STR_EVENT] = TABLE(events),
    [PTL_STR_FAIL_TYPE] = TABLE(failures),
};

const char *PtlToStr(int value, ptl_str_type_t type) {
    if ((unsigned)type >= sizeof tables / sizeof *tables || value < 0 ||
        (size_t)value >= tables[type].names || !tables[type].name[value])
        return "unknown";
    return tables[type].name[value];
}
