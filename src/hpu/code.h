/* A program made ready for the interpreter.
 *
 * Design notes. Every instruction becomes a slot: the address of the interpreter's code for it,
 * register numbers, immediate. Slots of consecutive instructions are neighbours, so going on costs
 * no look-up. Where an instruction and the one or two after it are a frequent group, the slot's
 * code does them all ("fused"), each with the operands of its own slot, which stays for jumps that
 * enter there.
 *
 * Every halfword of the program has a slot that starts there, so any jump lands on a decoded
 * instruction, also one into the middle of another: such a chain of slots is followed until it
 * meets a halfword that has its slot already, and a LINK slot leads over to it.
 *
 * A block is what runs from a slot to the next branch, jump, CSR access or trap. Each slot knows
 * how many instructions and cycles that is, so the interpreter adds them once, when it enters a
 * block, and takes the rest back in the rare case that an instruction faults on the way.
 *
 * The slots are read-only once made, but for `window`, the guess which window a load or store will
 * hit, which any HPU may overwrite (relaxed atomics: a wrong guess costs a search, no more). */
#ifndef SPIN_HPU_CODE_H
#define SPIN_HPU_CODE_H

#include <stdatomic.h>
#include <stdint.h>

#include "hpu/isa.h"
#include "hpu/timing.h"

/* The fields of one instruction in a slot. */
struct hpu_operand {
    int32_t imm; /* branches and jal: distance to the target's slot in bytes */
    uint8_t rd;  /* 32 where the instruction names x0: a register nobody reads */
    uint8_t rs1, rs2;
    _Atomic uint8_t window;
};

struct hpu_slot {
    const void *run; /* where the interpreter continues */
    struct hpu_operand a;
    uint32_t link;   /* of a jump: the address after it */
    uint32_t count;  /* instructions from here to the end of the block */
    uint32_t cycles; /* static cycles from here to the end of the block */
};

enum hpu_mode {
    HPU_FUNCTIONAL, /* every instruction is one cycle */
    HPU_TIMED,      /* by the core's timing table */
};

struct hpu_code {
    enum hpu_mode mode;
    const struct hpu_timing *timing; /* the copy: the owner's need not live as long */
    struct hpu_timing timing_copy;
    bool with_float;      /* the card has F, */
    bool has_float;       /* and the program uses it */
    uint32_t base, bytes; /* of the program in program memory; an even number of bytes */
    uint32_t slots;
    uint64_t longest_cycles; /* more than any block takes */
    struct hpu_slot *slot;
    uint32_t *slot_at;     /* [halfword]: its slot */
    uint32_t *halfword_of; /* [slot] */
    struct hpu_insn *insn; /* [slot]: for traces, the debugger and the rare instructions */
    /* No two threads run it on the same memory at a time: generated code may do an atomic like
     * any other access. */
    bool is_alone;
    struct hpu_jit *jit; /* jit.h; NULL: the interpreter runs everything */
};

/* Returns NULL when out of memory. */
struct hpu_code *hpu_code_new(const uint8_t *program, uint32_t base, uint32_t bytes,
                              enum hpu_mode mode, const struct hpu_timing *timing, bool with_float);
void hpu_code_free(struct hpu_code *code);

/* The slot at an address, NULL if that is not an address of the program. */
static inline struct hpu_slot *hpu_code_find(const struct hpu_code *code, uint32_t pc) {
    uint32_t offset = pc - code->base;
    return offset < code->bytes && !(pc & 1) ? &code->slot[code->slot_at[offset / 2]] : NULL;
}

static inline uint32_t hpu_slot_pc(const struct hpu_code *code, const struct hpu_slot *slot) {
    return code->base + 2 * code->halfword_of[slot - code->slot];
}

#endif
