/* Fibres: functions on stacks of their own, switched to and from by hand. A host program of a
 * simulated world runs on one, so that a blocking call can wait in virtual time.
 *
 * A set has fibres of one stack size, all in one reservation of address space: only pages that were
 * touched are resident, so a set of 65,536 costs what they use. Below each stack is a guard page
 * where the kernel can give that many (a lightweight guard on Linux 6.13 and later, else a mapping
 * of its own, of which there are about 65,530 in a process); where it cannot, a mark at the stack's
 * end is looked at whenever the fibre leaves, so an overflow is found, but late.
 *
 * A set belongs to one thread. Fibres are entered from outside and leave to where they were entered
 * from; they do not enter each other. */
#ifndef SPIN_SIM_FIBRE_H
#define SPIN_SIM_FIBRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "openspin.h"

#define FIBRE_LEAST_STACK (16u << 10)

struct fibres;

/* stack_bytes is rounded up to whole pages; at least FIBRE_LEAST_STACK. */
int fibres_new(struct fibres **out, uint32_t count, size_t stack_bytes, struct spin_error *err);
/* Fibres that have not ended are forgotten where they stand. */
void fibres_free(struct fibres *fibres);

/* Readies a fibre that does not run: its first fibre_enter calls run(argument). */
void fibre_start(struct fibres *fibres, uint32_t fibre, void (*run)(void *), void *argument);

enum fibre_return {
    FIBRE_LEFT,       /* by fibre_leave; can be entered again */
    FIBRE_ENDED,      /* its function has returned */
    FIBRE_OVERFLOWED, /* found by the mark: its memory is spoilt, and its neighbour's may be */
};
/* Runs a fibre until it leaves or ends. */
enum fibre_return fibre_enter(struct fibres *fibres, uint32_t fibre);
/* From inside the running fibre: back to fibre_enter. Returns when it is entered again. */
void fibre_leave(struct fibres *fibres);

/* From inside the running fibre: ends it, as if its function had returned. */
_Noreturn void fibre_end(struct fibres *fibres);

/* Does an address lie in the guard below this fibre's stack? For whoever handles SIGSEGV. */
bool fibre_in_guard(const struct fibres *fibres, uint32_t fibre, const void *address);
/* Where its stack lies: [bottom, top). */
void fibre_stack(const struct fibres *fibres, uint32_t fibre, uintptr_t *bottom, uintptr_t *top);

/* It will be entered soon: into the cache, in two steps. */
void fibre_ahead(const struct fibres *f, uint32_t fibre);
void fibre_closer(const struct fibres *f, uint32_t fibre);

#endif
