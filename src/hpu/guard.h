/* The host's page protection as part of the sandbox.
 *
 * Design notes. A view is a reservation of 4 GiB of the host's addresses in which nothing is
 * readable but the pages that lie wholly inside one window of a handler, each at the handler's
 * address of it, with the window's rights. Generated code that expects an access in that window
 * adds the handler's address to the view and needs no check: whatever is not in the window faults,
 * and the handler of the signal has the code go on where a failed check would have led, which is
 * before the access. The interpreter then says what it was. So a view is exact though pages are
 * coarse: the ends of a window that fill no page are in no view, and are left to checks.
 *
 * One view for each window, and not one for all of a handler's memory, because code that is
 * compiled for one window must not reach another: latency and statistics belong to the window.
 *
 * The signal is taken only when the process asked for it (spin_guard_pages): until then there are
 * no views, memory is the process's own, and generated code has checks. All of this is for the
 * process as a whole, as signals are. */
#ifndef SPIN_HPU_GUARD_H
#define SPIN_HPU_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Zeroes at a page's beginning, for regions of the card; views can show them. With guard pages on
 * it is shared memory, which a child of fork() shares with its parent. NULL when there is none. */
uint8_t *guard_memory_new(size_t bytes);
void guard_memory_free(uint8_t *memory, size_t bytes);

/* Handler address `a` of the window is at view + a. NULL: guard pages are off, the window has no
 * whole page, its host memory is not from guard_memory_new at the same place in a page, or there is
 * no room for more views. */
uint8_t *guard_view_new(const uint8_t *host, uint32_t base, uint32_t size, bool writable);
void guard_view_free(uint8_t *view);

/* The part of a window that a view shows: its whole pages. None when from >= to. */
#define GUARD_PAGE 4096u
static inline uint64_t guard_from(uint32_t base) {
    return ((uint64_t)base + GUARD_PAGE - 1) / GUARD_PAGE * GUARD_PAGE;
}
static inline uint64_t guard_to(uint32_t base, uint32_t size) {
    return ((uint64_t)base + size) / GUARD_PAGE * GUARD_PAGE;
}

/* How far from a view + handler address an instruction may reach. */
#define GUARD_REACH 4096

/* ---- guard_signal.c ---- */

/* Whether guard pages are on: views are worth making. */
bool guard_is_wanted(void);
/* Whether a fault of generated code would come to us, as far as this thread can tell. Installs the
 * handler when that has not been done. */
bool guard_is_ready(void);

/* An instruction that may fault, and where to go on then. Each is the distance from where it
 * stands, as the assembler writes it. */
struct guard_site {
    int32_t instruction, landing;
};
struct guard_sites;
/* The sites of a piece of generated code, until it is freed: they fault in views, or, where they
 * are copies, in the program's memory (base/guarded_copy.h). NULL when out of memory. */
struct guard_sites *guard_sites_add(const struct guard_site *site, size_t count, bool are_copies);
/* No thread may be in the code. NULL is fine. */
void guard_sites_remove(struct guard_sites *sites);

/* guard.c: does a host address lie in a view? For signal handlers too. */
bool guard_has(uintptr_t address);

#endif
