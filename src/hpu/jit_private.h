/* Between the parts of the JIT: jit.c decides and runs, jit_compile.c compiles when it is asked to,
 * here or by the thread of jit_aside.c, jit_lift.c makes IR of a region, jit_llvm.c optimises,
 * emits and links, jit_calls.c is what the code calls. */
#ifndef SPIN_HPU_JIT_PRIVATE_H
#define SPIN_HPU_JIT_PRIVATE_H

#include "hpu/jit.h"

/* How generated code ends: an hpu_stop, or one of these. HPU_PAUSED: `left` is used up. */
enum {
    JIT_INTERPRET = 8, /* the interpreter is to go on at pc */
    JIT_MISS,          /* the same, because an access of this block is not where it used to be */
    JIT_JUMP,          /* pc is where a jump through a register led, which may be anywhere */
    JIT_BRANCH,        /* pc is where a branch or jump led, and the function has nothing there */
    JIT_FAULT,         /* as JIT_MISS, but it took a fault of the host to see it */
    JIT_OTHER,         /* nothing was done: it was compiled for another kind of HPU */
    JIT_TURNS,         /* as JIT_MISS, and in some later iteration of the loop that pc begins */
    JIT_SHORT,         /* there may not be time enough to get through what comes */
};

enum { JIT_LOAD, JIT_STORE, JIT_ATOMIC };

/* A place where a function is left, and what it had counted in advance by then. */
struct jit_exit {
    uint32_t status;
    uint32_t pc; /* where the interpreter goes on; 0: h->pc is right */
    bool mid_block;
    int32_t cycles;
    uint32_t count;
    uint32_t ahead[HPU_WINDOWS][3]; /* loads, stores, atomics, in the timed mode */
    uint32_t words[2];              /* loads and stores of the HPU's own registers */
};

/* Of a jump through a register: h->pc may be anywhere. */
extern const struct jit_exit jit_jumps;
/* Where a function begins: nothing was done. */
extern const struct jit_exit jit_other;

/* What a function (hpu.h) returns that the handler did not return in: its counts are still to be
 * taken back. */
static inline const struct jit_exit *jit_exit_of(uint64_t returned) {
    return (const struct jit_exit *)(uintptr_t)returned;
}

/* What generated code calls for all that is rare. Each returns a value in the low half and an
 * hpu_stop in the high half: 0 when all went well. What an access lost is in h->lapse. */
uint64_t jit_load(struct hpu *h, uint32_t slot, uint32_t address, int64_t left);
uint64_t jit_store(struct hpu *h, uint32_t slot, uint32_t address, int64_t left, uint32_t value);
uint64_t jit_atomic(struct hpu *h, uint32_t slot, uint32_t address, uint32_t value);
/* False: the interpreter has to say what is wrong. */
bool jit_csr(struct hpu *h, uint32_t slot, int64_t left, uint64_t instret);
bool jit_float(struct hpu *h, uint32_t slot);
/* Which window the slot's access is expected to hit from now on. */
void jit_set_guess(const struct hpu_code *code, uint32_t slot, int window);

/* What is known of an access. Unless it says otherwise, each can do what those before it can. */
enum {
    JIT_BY_WINDOW, /* it goes to the window that the slot names */
    JIT_BY_CHECK,  /* and not only where a view shows that; of the branch that ends a loop: one
                      iteration  after the other */
    JIT_BY_GUESS,  /* now to this window and now to that */
    JIT_BY_TASK,   /* to the registers of the task; and none of those before */
    JIT_BY_WORD,   /* to the words of a command, or RESULT; likewise */
    JIT_BY_COPY,   /* a word to the device: the command of a DMA that goes at once; likewise */
    JIT_BY_ISSUE,  /* any command; of those before only that */
    JIT_BY_PORT,   /* a word to a register of the device; of those before only the two */
    JIT_BY_CALL,   /* anywhere */
};

/* Registers of the driver that the HPU has itself: generated code takes them for windows, behind
 * those of memory. */
enum { JIT_TASK = HPU_WINDOWS, JIT_COMMAND, JIT_RESULT, JIT_WINDOWS };

/* What HPUs that run the same program have mostly in common: the latencies of a window (four bytes
 * of hpu_window, from `region` on), and that they have a device, and with it such registers. */
enum { JIT_DEVICE = HPU_WINDOWS, JIT_TRAITS };

/* How a region is compiled: without any optimisation; with few passes, and instructions chosen one
 * by one; the same with instructions chosen by LLVM's usual means, registers being written back
 * before something that might leave; with passes for loops, registers being written back on the way
 * out. Loops of one block are functions of their own but in the last, and always compiled well. */
enum jit_effort { JIT_QUICKLY, JIT_HURRIEDLY, JIT_FAIRLY, JIT_WELL };

/* What the lifter is asked for, and what it says about it. */
struct jit_region {
    const struct hpu_code *code;
    uint32_t root;          /* halfword */
    const uint8_t *by_call; /* [slot]: what is known of the access, JIT_BY_... */
    const uint8_t *seen;    /* [halfword]: blocks that ran, which are all it takes; NULL: any */
    uint32_t views;         /* bits: windows whose views may be used */
    uint32_t fixed;         /* bits: traits that are compiled in, and what they are */
    uint32_t trait[JIT_TRAITS];
    bool unprotected;       /* no checks at all: to know what they cost */
    uint32_t instructions;  /* out */
    uint32_t guarded;       /* out: accesses without a check */
    uint32_t copies;        /* out: DMA that is part of the code */
    uint32_t loops;         /* out: that take many iterations at once */
    bool has_short_loop;    /* out: some that LLVM should unroll or make vectors of */
    bool has_effort;        /* as asked for */
    enum jit_effort effort; /* out, or as asked for */
    /* out: belongs to the caller and must live as long as the function */
    struct jit_exit *exits;
};

/* jit_llvm.c. LLVM is loaded when it is first needed, or by this. */
bool jit_find_llvm(char *why, size_t room);
/* One for each program; calls must not overlap. */
struct jit_linker;
struct jit_linker *jit_linker_new(char *why, size_t room);
void jit_linker_free(struct jit_linker *linker);
jit_function *jit_link(struct jit_linker *linker, struct jit_region *region, uint64_t *bytes);

/* jit_aside.c. A thread, made when LLVM is there, that calls compile(context) after each
 * jit_aside_ask, which any thread may call and which does not wait. jit_aside_free waits until it
 * has ended. NULL: there is no memory or no thread. */
struct jit_aside;
struct jit_aside *jit_aside_new(void (*compile)(void *context), void *context);
void jit_aside_ask(struct jit_aside *aside);
void jit_aside_free(struct jit_aside *aside);

/* How loads and stores are kept in their windows: by views where there are some, which is what
 * there is without this call; by checks; or, to know what these cost, not at all. That is for
 * handlers which are known to be good and have run for a while: their accesses go where they went.
 * What was compiled is compiled again. While no HPU runs the code. */
enum jit_sandbox { JIT_VIEWS, JIT_CHECKS, JIT_UNPROTECTED };
void jit_set_sandbox(const struct hpu_code *code, enum jit_sandbox sandbox);

/* For tests: from now on everything is compiled with this effort, also drafts. */
void jit_set_effort(const struct hpu_code *code, enum jit_effort effort);

/* For tests: as if the place had run often enough to be compiled. */
void jit_make_hot(const struct hpu_code *code, uint32_t pc);

/* Object code for another machine, for tests: "aarch64-linux-gnu". False: this LLVM cannot. The
 * bytes are freed by the caller. */
bool jit_object(const char *triple, struct jit_region *region, uint8_t **bytes, size_t *length);

#endif
