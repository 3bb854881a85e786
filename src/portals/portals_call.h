/* What every call does around its work: find the process, charge, lock. */
#ifndef SPIN_PORTALS_PORTALS_CALL_H
#define SPIN_PORTALS_PORTALS_CALL_H

#include "portals/process.h"

/* The current process, locked; NULL: there is none, or PtlInit is missing. `caller` is where in the
 * program the call stands. */
struct portals_process *portals_call_begin(enum portals_call call, uint64_t bytes,
                                           const void *caller);
#define PORTALS_CALLER __builtin_return_address(0)
/* Unlocks; returns the code. */
int portals_call_end(struct portals_process *process, int code);
/* A call that takes something back. If it is in use, the end of that may have come without anybody
 * having looked, or be on its way, like the acknowledgement of a put that has arrived: a live call
 * looks before it returns, so it is tried again for a millisecond. */
int portals_call_back(enum portals_call call, int (*work)(struct portals *, ptl_handle_any_t),
                      ptl_handle_any_t handle, const void *caller);

#define PORTALS_CALL(name, bytes, work)                                                            \
    do {                                                                                           \
        struct portals_process *process_ =                                                         \
            portals_call_begin(PORTALS_CALL_##name, bytes, PORTALS_CALLER);                        \
        struct portals *p = process_ ? process_->portals : NULL;                                   \
        return p ? portals_call_end(process_, work) : PTL_NO_INIT;                                 \
    } while (0)

#endif
