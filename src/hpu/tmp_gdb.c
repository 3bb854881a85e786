#include "hpu/rig.h"
#include "base/error.h"
int spin_rig_debug(struct spin_rig *rig, const struct spin_call *call, uint16_t port,
                   void (*listening)(void *context, uint16_t port), void *context,
                   struct spin_outcome *outcome, struct spin_error *err) {
    (void)port;
    (void)listening;
    (void)context;
    return spin_rig_call(rig, call, outcome, err);
}
