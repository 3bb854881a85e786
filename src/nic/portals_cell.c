/* Counters and the lengths of queues, for threads that look while another has the lock. */
#include "nic/portals_private.h"

static struct portals_cell *cell_of(const struct portals_cell *cells, ptl_handle_any_t handle) {
    uint32_t kind = handle >> 29 == HANDLE_EQ;
    return (struct portals_cell *)(uintptr_t)&cells[kind * PORTALS_CELLS + handle % PORTALS_CELLS];
}

struct portals_cell *p4_cell_take(struct portals *p, enum handle_kind kind,
                                  ptl_handle_any_t handle) {
    struct portals_cell *cell = p->config.cells ? cell_of(p->config.cells, handle) : NULL;
    if (!cell || !handle || handle >> 29 != (uint32_t)kind ||
        atomic_load_explicit(&cell->handle, memory_order_relaxed))
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
static bool read_cell(const struct portals_cell *cells, ptl_handle_any_t handle,
                      ptl_ct_event_t *value) {
    const struct portals_cell *cell = cell_of(cells, handle);
    uint32_t changes = atomic_load_explicit(&cell->changes, memory_order_acquire);
    if (atomic_load_explicit(&cell->handle, memory_order_acquire) != handle)
        return false;
    value->success = atomic_load_explicit(&cell->success, memory_order_acquire);
    value->failure = atomic_load_explicit(&cell->failure, memory_order_acquire);
    return atomic_load_explicit(&cell->handle, memory_order_relaxed) == handle && !(changes & 1) &&
           atomic_load_explicit(&cell->changes, memory_order_relaxed) == changes;
}

bool portals_ct_peek(const struct portals_cell *cells, ptl_handle_ct_t ct, ptl_ct_event_t *event) {
    return ct >> 29 == HANDLE_CT && event && read_cell(cells, ct, event);
}

bool portals_eq_is_empty(const struct portals_cell *cells, ptl_handle_eq_t eq) {
    ptl_ct_event_t held;
    return eq >> 29 == HANDLE_EQ && read_cell(cells, eq, &held) && !held.success;
}
