/* What jit.c, which decides and runs, and jit_compile.c share: what a program has beside its code.
 */
#ifndef SPIN_HPU_JIT_STATE_H
#define SPIN_HPU_JIT_STATE_H

#include <pthread.h>
#include <stdatomic.h>

#include "hpu/jit_private.h"

#define MOST_FUNCTIONS 4096u
#define MOST_ATTEMPTS  6u /* functions at a root, one after the other */
/* A function that was compiled before anything was seen is a draft: good for so many calls. */
#define DRAFT_CALLS 16u

/* A place of the program where functions begin. */
struct jit_root {
    _Atomic(jit_function *) run;
    _Atomic uint32_t heat;    /* interpreted instructions */
    _Atomic uint8_t misses;   /* of the function */
    _Atomic uint8_t attempts; /* functions until now */
    _Atomic uint8_t lessons;
    _Atomic uint8_t calls; /* that are left to a draft */
};

/* What is to be compiled, and what is known of the HPU that asked for it. */
struct jit_request {
    uint32_t halfword;
    uint32_t views, fixed, trait[JIT_TRAITS]; /* as in jit_region */
};

struct hpu_jit {
    enum spin_jit mode;
    struct jit_root *root;  /* [halfword] */
    uint8_t *wrong;         /* [slot]: how often the guess was wrong; relaxed atomics */
    uint8_t *by_call;       /* [slot]: what the lifter is told about the access */
    uint8_t *seen;          /* [halfword]: whether a block begins there that ran; relaxed atomics */
    uint32_t *nothing_seen; /* [slot], zeroes: for an HPU without an instruction cache */
    pthread_mutex_t compiling; /* also of the next four, and of `stats` */
    struct jit_linker *linker;
    bool gave_up;
    bool is_wanted; /* `wanted` waits for `aside` */
    struct jit_request wanted;
    struct jit_aside *aside; /* who compiles; NULL: who finds it hot */
    _Atomic bool has_code;
    enum jit_sandbox sandbox;
    bool has_effort;
    enum jit_effort effort;
    _Atomic uint32_t viewless; /* bits: windows that some HPU has without a view */
    /* Bits: traits that are known, and were written before; those that HPUs differ in. */
    _Atomic uint32_t known, mixed;
    uint32_t trait[JIT_TRAITS];
    _Atomic uint64_t guard_faults;
    struct hpu_jit_stats stats;
};

static inline bool jit_is_seen(const struct hpu_jit *jit, uint32_t halfword) {
    return __atomic_load_n(&jit->seen[halfword], __ATOMIC_RELAXED);
}

/* Notes in what the HPU is not like the others. */
void jit_compare_traits(const struct hpu *h, struct hpu_jit *jit);

/* The function at a root that has none, compiled now; or NULL, and it is compiled in a while by
 * another thread, or there is none to be had. */
jit_function *jit_compile_for(const struct hpu *h, uint32_t halfword);

#endif
