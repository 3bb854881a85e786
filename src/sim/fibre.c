#include "sim/fibre.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/error.h"

/* Sanitizers must be told of every switch. */
#if defined(__SANITIZE_ADDRESS__)
#define FIBRE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FIBRE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define FIBRE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define FIBRE_TSAN 1
#endif
#endif
#ifdef FIBRE_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FIBRE_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if !defined(FIBRE_UCONTEXT) && !defined(__x86_64__) && !defined(__aarch64__)
#define FIBRE_UCONTEXT 1
#endif
#ifdef FIBRE_UCONTEXT
#include <ucontext.h>
#endif

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102 /* Linux 6.13; older kernels refuse it */
#endif

/* ---- the switch -------------------------------------------------------------------------------
 */

/* What is not on the stack of someone who does not run. */
struct side {
#ifdef FIBRE_UCONTEXT
    ucontext_t context;
#else
    void *stack;
#endif
#ifdef FIBRE_ASAN
    void *fake_stack;
    const void *bottom;
    size_t bytes;
#endif
#ifdef FIBRE_TSAN
    void *tsan;
#endif
};

struct fibre {
    struct side side;
    void (*run)(void *);
    void *argument;
    bool ended;
};

struct fibres {
    uint32_t count, running;
    size_t stack_bytes, guard_bytes, stride;
    uint8_t *memory;
    bool guarded; /* else there are marks */
    struct side outside;
    struct fibre *fibre;
};

#ifndef FIBRE_UCONTEXT
/* Global but hidden: of what it does not see the compiler takes the address from the global offset
 * table, and for a local label AArch64's linker puts the section's beginning there. */
#define IN_ASSEMBLY __attribute__((visibility("hidden")))
/* Pushes what a call must preserve, stores the stack pointer to *from, takes `to`, pops. */
IN_ASSEMBLY void sim_fibre_switch(void **from, void *to);
/* Where a new fibre begins: calls the function in one preserved register with another. */
IN_ASSEMBLY void sim_fibre_begin(void);

#if defined(__x86_64__)
__asm__(".text\n"
        ".p2align 4\n"
        ".globl sim_fibre_switch\n"
        ".hidden sim_fibre_switch\n"
        ".type sim_fibre_switch, @function\n"
        "sim_fibre_switch:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    subq $8, %rsp\n"
        "    stmxcsr (%rsp)\n"
        "    fnstcw 4(%rsp)\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    ldmxcsr (%rsp)\n"
        "    fldcw 4(%rsp)\n"
        "    addq $8, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size sim_fibre_switch, .-sim_fibre_switch\n"
        ".globl sim_fibre_begin\n"
        ".hidden sim_fibre_begin\n"
        ".type sim_fibre_begin, @function\n"
        "sim_fibre_begin:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined rip\n" /* debuggers stop here */
        "    movq %r12, %rdi\n"
        "    callq *%r13\n"
        "    ud2\n"
        "    .cfi_endproc\n"
        ".size sim_fibre_begin, .-sim_fibre_begin\n");

static void lay_first_frame(struct side *side, uint8_t *top, void (*run)(void *), void *argument) {
    uint64_t *frame = (uint64_t *)(void *)top - 10;
    uint32_t control[2] = {0, 0};
    __asm__("stmxcsr %0\n\tfnstcw %1" : "=m"(control[0]), "=m"(control[1]));
    memset(frame, 0, 80);
    memcpy(&frame[0], control, 8);
    frame[3] = (uint64_t)(uintptr_t)run;      /* r13 */
    frame[4] = (uint64_t)(uintptr_t)argument; /* r12 */
    frame[7] = (uint64_t)(uintptr_t)sim_fibre_begin;
    side->stack = frame; /* after its ret the stack pointer is top - 16: aligned for a call */
}
#else
__asm__(".text\n"
        ".p2align 4\n"
        ".globl sim_fibre_switch\n"
        ".hidden sim_fibre_switch\n"
        ".type sim_fibre_switch, %function\n"
        "sim_fibre_switch:\n"
        "    sub sp, sp, #176\n"
        "    stp x19, x20, [sp]\n"
        "    stp x21, x22, [sp, #16]\n"
        "    stp x23, x24, [sp, #32]\n"
        "    stp x25, x26, [sp, #48]\n"
        "    stp x27, x28, [sp, #64]\n"
        "    stp x29, x30, [sp, #80]\n"
        "    stp d8, d9, [sp, #96]\n"
        "    stp d10, d11, [sp, #112]\n"
        "    stp d12, d13, [sp, #128]\n"
        "    stp d14, d15, [sp, #144]\n"
        "    mrs x10, fpcr\n"
        "    str x10, [sp, #160]\n"
        "    mov x9, sp\n"
        "    str x9, [x0]\n"
        "    mov sp, x1\n"
        "    ldr x11, [sp, #160]\n"
        "    ldp x19, x20, [sp]\n"
        "    ldp x21, x22, [sp, #16]\n"
        "    ldp x23, x24, [sp, #32]\n"
        "    ldp x25, x26, [sp, #48]\n"
        "    ldp x27, x28, [sp, #64]\n"
        "    ldp x29, x30, [sp, #80]\n"
        "    ldp d8, d9, [sp, #96]\n"
        "    ldp d10, d11, [sp, #112]\n"
        "    ldp d12, d13, [sp, #128]\n"
        "    ldp d14, d15, [sp, #144]\n"
        "    add sp, sp, #176\n"
        "    cmp x10, x11\n" /* writing it empties the pipeline */
        "    b.eq 1f\n"
        "    msr fpcr, x11\n"
        "1:  ret\n"
        ".size sim_fibre_switch, .-sim_fibre_switch\n"
        ".globl sim_fibre_begin\n"
        ".hidden sim_fibre_begin\n"
        ".type sim_fibre_begin, %function\n"
        "sim_fibre_begin:\n"
        "    .cfi_startproc\n"
        "    .cfi_undefined x30\n"
        "    mov x0, x19\n"
        "    blr x20\n"
        "    brk #0\n"
        "    .cfi_endproc\n"
        ".size sim_fibre_begin, .-sim_fibre_begin\n");

static void lay_first_frame(struct side *side, uint8_t *top, void (*run)(void *), void *argument) {
    uint64_t *frame = (uint64_t *)(void *)(top - 16 - 176);
    memset(frame, 0, 176);
    frame[0] = (uint64_t)(uintptr_t)argument;         /* x19 */
    frame[1] = (uint64_t)(uintptr_t)run;              /* x20 */
    frame[11] = (uint64_t)(uintptr_t)sim_fibre_begin; /* x30 */
    __asm__("mrs %0, fpcr" : "=r"(frame[20]));
    side->stack = frame;
}
#endif
#endif

static void switch_sides(struct side *from, struct side *to, bool for_good) {
#ifdef FIBRE_ASAN
    __sanitizer_start_switch_fiber(for_good ? NULL : &from->fake_stack, to->bottom, to->bytes);
#endif
#ifdef FIBRE_TSAN
    __tsan_switch_to_fiber(to->tsan, 0);
#endif
#ifdef FIBRE_UCONTEXT
    swapcontext(&from->context, &to->context);
#else
    sim_fibre_switch(&from->stack, to->stack);
#endif
    (void)for_good;
}

/* On the side that was switched to. `from` learns its own stack the first time. */
static void switched(struct side *to, struct side *from) {
#ifdef FIBRE_ASAN
    __sanitizer_finish_switch_fiber(to->fake_stack, &from->bottom, &from->bytes);
#endif
    (void)to, (void)from;
}

/* ---- stacks -----------------------------------------------------------------------------------
 */

#define MARK 0x6b636174735f6f6eull

static uint8_t *stack_of(const struct fibres *f, uint32_t fibre) {
    return f->memory + fibre * f->stride + f->guard_bytes;
}

static uint64_t *mark_of(const struct fibres *f, uint32_t fibre) {
    return (uint64_t *)(void *)stack_of(f, fibre);
}

/* Emulators may take any advice and do nothing: the kernel is asked whether the page can be read.
 */
static bool guard_lightly(uint8_t *guard, size_t bytes) {
    return madvise(guard, bytes, MADV_GUARD_INSTALL) == 0 && access((char *)guard, F_OK) != 0 &&
           errno == EFAULT;
}

static bool guard_all(struct fibres *f) {
    bool light = guard_lightly(f->memory, f->guard_bytes);
    for (uint32_t i = 0; i < f->count; i++) {
        uint8_t *guard = f->memory + i * f->stride;
        light = light && madvise(guard, f->guard_bytes, MADV_GUARD_INSTALL) == 0;
        if (!light && mprotect(guard, f->guard_bytes, PROT_NONE) != 0)
            return false;
    }
    return true;
}

int fibres_new(struct fibres **out, uint32_t count, size_t stack_bytes, struct spin_error *err) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    *out = NULL;
    if (!count || stack_bytes < FIBRE_LEAST_STACK)
        return spin_fail(err, SPIN_EARG, "%u fibres with stacks of %zu bytes; at least 1 and %u",
                         count, stack_bytes, FIBRE_LEAST_STACK);
    struct fibres *f = calloc(1, sizeof *f);
    if (f) {
        f->count = count;
        f->stack_bytes = (stack_bytes + page - 1) / page * page;
        f->guard_bytes = page;
        f->stride = f->stack_bytes + page;
        f->fibre = calloc(count, sizeof *f->fibre);
        f->memory = mmap(NULL, f->stride * count, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    }
    if (!f || !f->fibre || f->memory == MAP_FAILED) {
        if (f && f->memory == MAP_FAILED)
            f->memory = NULL;
        fibres_free(f);
        return spin_fail(err, SPIN_ENOMEM,
                         "no address space for %u stacks of %zu bytes; a smaller stack may do",
                         count, stack_bytes);
    }
    /* A huge page would make every stack resident to its last byte. */
    madvise(f->memory, f->stride * count, MADV_NOHUGEPAGE);
    f->guarded = guard_all(f);
    for (uint32_t i = 0; i < count && !f->guarded; i++) {
        mprotect(f->memory + i * f->stride, f->guard_bytes, PROT_READ | PROT_WRITE);
        *mark_of(f, i) = MARK;
    }
    *out = f;
    return SPIN_OK;
}

void fibres_free(struct fibres *f) {
    if (!f)
        return;
#ifdef FIBRE_TSAN
    for (uint32_t i = 0; f->fibre && i < f->count; i++)
        if (f->fibre[i].side.tsan)
            __tsan_destroy_fiber(f->fibre[i].side.tsan);
#endif
    if (f->memory) {
#ifdef FIBRE_ASAN
        __asan_unpoison_memory_region(f->memory, f->stride * f->count);
#endif
        munmap(f->memory, f->stride * f->count);
    }
    free(f->fibre);
    free(f);
}

bool fibre_in_guard(const struct fibres *f, uint32_t fibre, const void *address) {
    const uint8_t *guard = f->memory + fibre * f->stride, *at = address;
    return f->guarded && at >= guard && at < guard + f->guard_bytes;
}

void fibre_stack(const struct fibres *f, uint32_t fibre, uintptr_t *bottom, uintptr_t *top) {
    *bottom = (uintptr_t)stack_of(f, fibre);
    *top = *bottom + f->stack_bytes;
}

/* ---- running ----------------------------------------------------------------------------------
 */

static void body(void *argument) {
    struct fibres *f = argument;
    struct fibre *own = &f->fibre[f->running];
    switched(&own->side, &f->outside);
    own->run(own->argument);
    fibre_end(f);
}

void fibre_end(struct fibres *f) {
    struct fibre *own = &f->fibre[f->running];
    own->ended = true;
    switch_sides(&own->side, &f->outside, true);
    abort(); /* nobody enters a fibre that has ended */
}

#ifdef FIBRE_UCONTEXT
static void body_in_halves(unsigned high, unsigned low) {
    body((void *)((uintptr_t)high << 16 << 16 | (uintptr_t)low));
}
#endif

void fibre_start(struct fibres *f, uint32_t fibre, void (*run)(void *), void *argument) {
    struct fibre *own = &f->fibre[fibre];
    uint8_t *stack = stack_of(f, fibre);
    own->run = run;
    own->argument = argument;
    own->ended = false;
#ifdef FIBRE_ASAN
    __asan_unpoison_memory_region(stack, f->stack_bytes);
    own->side.fake_stack = NULL;
    own->side.bottom = stack;
    own->side.bytes = f->stack_bytes;
#endif
#ifdef FIBRE_TSAN
    if (!own->side.tsan)
        own->side.tsan = __tsan_create_fiber(0);
#endif
#ifdef FIBRE_UCONTEXT
    getcontext(&own->side.context);
    own->side.context.uc_stack.ss_sp = stack;
    own->side.context.uc_stack.ss_size = f->stack_bytes;
    own->side.context.uc_link = NULL;
    uintptr_t set = (uintptr_t)f;
    makecontext(&own->side.context, (void (*)(void))(void *)body_in_halves, 2,
                (unsigned)(set >> 16 >> 16), (unsigned)set);
#else
    lay_first_frame(&own->side, stack + f->stack_bytes, body, f);
#endif
}

void fibre_ahead(const struct fibres *f, uint32_t fibre) {
    __builtin_prefetch(&f->fibre[fibre]);
}

void fibre_closer(const struct fibres *f, uint32_t fibre) {
#ifndef FIBRE_UCONTEXT
    const char *stack = f->fibre[fibre].side.stack;
    for (uint32_t i = 0; i < 512; i += 64)
        __builtin_prefetch(stack + i);
#else
    (void)f, (void)fibre;
#endif
}

enum fibre_return fibre_enter(struct fibres *f, uint32_t fibre) {
    struct fibre *own = &f->fibre[fibre];
    f->running = fibre;
#ifdef FIBRE_TSAN
    f->outside.tsan = __tsan_get_current_fiber();
#endif
    switch_sides(&f->outside, &own->side, false);
    switched(&f->outside, &own->side);
    if (!f->guarded && *mark_of(f, fibre) != MARK)
        return FIBRE_OVERFLOWED;
    return own->ended ? FIBRE_ENDED : FIBRE_LEFT;
}

void fibre_leave(struct fibres *f) {
    struct fibre *own = &f->fibre[f->running];
    switch_sides(&own->side, &f->outside, false);
    switched(&own->side, &f->outside);
}
