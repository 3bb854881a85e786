/* Generated code behind the interpreter.
 *
 * Design notes. What runs is always what hpu_run of interp.h would have done: registers, memory,
 * cycles, faults and counters are the same, to the last one. Generated code knows the frequent
 * things and leaves everything else to the interpreter, at an instruction or where a block begins;
 * hpu_run goes back and forth between the two.
 *
 * The unit is a region: all blocks that can be reached from one place of the program, its root, by
 * branches, jumps and calls. Any place can be a root: the entry of a handler, the loop in which a
 * long run is found, the block after a command for which a handler waits. What is generated hangs
 * on the code (code.h), so all HPUs and contexts with the same program share it; threads may run
 * and compile at the same time.
 *
 * A block is the interpreter's: it begins where a jump leads and ends with the next one. Its static
 * cycles and instructions are counted at once when it is entered, which is also the only place
 * where limits are looked at. */
#ifndef SPIN_HPU_JIT_H
#define SPIN_HPU_JIT_H

#include "hpu/hpu.h"
#include "openspin.h"

/* Makes `code` run that way. SPIN_JIT_FORCE fails where there is no LLVM, SPIN_JIT_ON and ASIDE
 * then leave everything to the interpreter. Before any HPU runs the code. */
int hpu_jit_enable(struct hpu_code *code, enum spin_jit mode, struct spin_error *err);

/* Loads LLVM, which takes some 20 ms, so that nothing has to wait for that later. */
void hpu_jit_load(void);

struct hpu_jit;
/* Waits for a compilation that runs. While no HPU runs the code. */
void hpu_jit_free(struct hpu_jit *jit);

/* Generates code for the region at a root now. False: there is no such place, or no room. */
bool hpu_jit_compile(const struct hpu_code *code, uint32_t pc);

struct hpu_jit_stats {
    uint32_t functions, instructions; /* generated; RISC-V instructions in them */
    uint64_t compile_ns, most_ns;     /* all; for one function */
    uint64_t code_bytes;
    uint32_t guarded;      /* accesses in them that page protection checks (guard.h) */
    uint64_t guard_faults; /* how often it did */
};
/* Waits for a compilation that runs. */
struct hpu_jit_stats hpu_jit_stats(const struct hpu_code *code);
/* Whether something was generated; does not wait. */
bool hpu_jit_has_code(const struct hpu_code *code);

#endif
