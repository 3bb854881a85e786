/* Counters, for threads that look while another has the lock. */
#include "nic/portals_private.h"

static struct portals_cell *cell_of(struct portals_cells *cells, ptl_handle_ct_t handle) {
    return &cells->counter[handle % PORTALS_CELLS];
}

struct portals_cell *p4_cell_take(struct portals *p, ptl_handle_ct_t handle) {
    struct portals_cell *cell = p->config.cells ? cell_of(p->config.cells, handle) : NULL;
    if (!cell || atomic_load_explicit(&cell->handle, memory_order_relaxed))
        return NULL;
    p4_cell_tell(cell, 0, 0);
    atomic_store_explicit(&cell->handle, handle, memory_order_release);
    return cell;
}

void p4_cell_give(struct portals_cell *cell) {
    if (cell)
        atomic_store_explicit(&cell->handle, 0, memory_order_release);
}

void p4_cell_store(struct portals_cell *cell, uint64_t success, uint64_t failure) {
    if (atomic_load_explicit(&cell->failure, memory_order_relaxed) == failure) {
        atomic_store_explicit(&cell->success, success, memory_order_release);
        return;
    }
    uint32_t changes = atomic_load_explicit(&cell->changes, memory_order_relaxed);
    atomic_store_explicit(&cell->changes, changes + 1, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    atomic_store_explicit(&cell->success, success, memory_order_release);
    atomic_store_explicit(&cell->failure, failure, memory_order_release);
    atomic_store_explicit(&cell->changes, changes + 2, memory_order_release);
}

/* The handle is looked at again behind the values: they are then of no later owner. */
bool portals_ct_peek(struct portals_cells *cells, ptl_handle_ct_t ct, ptl_ct_event_t *value) {
    struct portals_cell *cell = cell_of(cells, ct);
    uint32_t changes = atomic_load_explicit(&cell->changes, memory_order_acquire);
    if (atomic_load_explicit(&cell->handle, memory_order_acquire) != ct || !ct || !value)
        return false; /* 0 is no counter's, and stands where there is none */
    ptl_ct_event_t seen = {atomic_load_explicit(&cell->success, memory_order_acquire),
                           atomic_load_explicit(&cell->failure, memory_order_acquire)};
    if (atomic_load_explicit(&cell->handle, memory_order_relaxed) != ct || changes & 1 ||
        atomic_load_explicit(&cell->changes, memory_order_relaxed) != changes)
        return false;
    *value = seen;
    return true;
}

int portals_ct_peek_any(struct portals_cells *cells, const ptl_handle_ct_t *cts,
                        const ptl_size_t *tests, unsigned count, ptl_ct_event_t *event,
                        unsigned *which) {
    uint32_t turn = atomic_load_explicit(&cells->turn, memory_order_relaxed);
    if (!cts || !tests || !count || !event || !which)
        return PORTALS_ASK;
    atomic_store_explicit(&cells->turn, turn + 1, memory_order_relaxed);
    int code = PTL_CT_NONE_REACHED;
    for (unsigned i = 0, at = turn % count; i < count; i++, at = at + 1 < count ? at + 1 : 0) {
        ptl_ct_event_t value;
        if ((cts[at] ^ cts[0]) >> HANDLE_CODE_BITS || !portals_ct_peek(cells, cts[at], &value))
            return PORTALS_ASK;
        if (code == PTL_OK || (value.success < tests[at] && !value.failure))
            continue; /* all handles have to be right */
        *event = value;
        *which = at;
        code = PTL_OK;
    }
    return code;
}
