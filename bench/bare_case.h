/* Calls of handlers taken from a rig (bare.h), and the ways to make each: on an HPU whose device is
 * memory like that of the others, as a program of the host, as a program in qemu-riscv32. What is
 * left in memory must be the same. */
#ifndef BENCH_BARE_CASE_H
#define BENCH_BARE_CASE_H

#include "bare.h"
#include "hpu/hpu.h"
#include "openspin.h"

/* The call that the rig would make now, with all memory that the handler is given. malloc'ed. Where
 * the work depends on what an earlier call left, the bytes that a call changes are put back before
 * each. */
struct bare_case *bare_take(struct spin_rig *rig, const struct spin_call *call);

/* Every handler of handlers/ and examples/ that runs by itself: calls number 1, 2, 4, 8, ... of the
 * workloads, one of each other handler. `build`: the build folder. The case is the visitor's to
 * free. */
void bare_visit(const char *build, void (*visit)(void *context, struct bare_case *c),
                void *context);

/* ---- On an HPU ---- */

struct bare_machine {
    struct hpu hpu; /* first: the device finds its memory through it */
    const struct bare_case *of;
    struct hpu_code *code;
    struct bare_case *memory; /* a copy of the case, whose contents the handler works on */
    uint8_t *driver;          /* in it: what stands for the driver's registers */
};

/* NULL: there is no LLVM. */
struct bare_machine *bare_machine_new(const struct bare_case *c, bool functional,
                                      enum spin_jit jit);
void bare_machine_free(struct bare_machine *m);
/* Puts back what must be; then what a card does for a packet: its window, registers and watchdog,
 * run. */
void bare_put_back(struct bare_machine *m);
void bare_call(struct bare_machine *m);
/* All memory as it was first; one call. Its result and what it left are in m->memory. */
void bare_call_first(struct bare_machine *m);

/* ---- As a program ---- */

enum bare_program { BARE_NATIVE, BARE_QEMU };

/* False: the handler is RISC-V assembly. */
bool bare_has_native(const struct bare_case *c);

/* One call after `calls` that are timed; the result is malloc'ed. NULL: `why` says what is not
 * here. */
struct bare_case *bare_apart(const struct bare_case *c, enum bare_program program,
                             const char *build, uint32_t calls, const char **why);

/* False: two ways left the same. `exact`, for two HPUs: also on the stack, and in a register that
 * nobody reads. */
bool bare_differs(const struct bare_case *a, const struct bare_case *b, bool exact, char *where,
                  size_t room);

#endif
