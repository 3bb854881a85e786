/* DMA that is part of the code: copying a packet to host memory costs less than calling something
 * that does.
 *
 * Design notes. That memory is the program's, which may take it away at any moment. So the stores
 * of a copy are noted, as guarded accesses are (jit_guard.c), in a section of their own: where one
 * faults, the copy goes on at its end, which says that it was not done, and the device is told the
 * command after all. */
#include <string.h>

#include "base/guarded_copy.h"
#include "hpu/jit_lift.h"

#define LEAST 128u /* four vectors of 32 bytes, or two of 64 */

/* So much from $1 to $0; stores may fault. */
#define LOAD(at, v) "vmovups " #at "($1), %" #v "\n"
#define STORE(at, v)                                                                               \
    "1: vmovups %" #v ", " #at "($0)\n"                                                            \
    ".pushsection spin_copies,\"a\"\n.long 1b - ., 4f - .\n.popsection\n"
#define FOUR                                                                                       \
    LOAD(0, ymm0)                                                                                  \
    LOAD(32, ymm1)                                                                                 \
    LOAD(64, ymm2)                                                                                 \
    LOAD(96, ymm3)                                                                                 \
    STORE(0, ymm0)                                                                                 \
    STORE(32, ymm1)                                                                                \
    STORE(64, ymm2)                                                                                \
    STORE(96, ymm3)
#define TWO                                                                                        \
    LOAD(0, zmm0)                                                                                  \
    LOAD(64, zmm1)                                                                                 \
    STORE(0, zmm0)                                                                                 \
    STORE(64, zmm1)

/* So much at a time, and the last once more where it overlaps. $2 is what is left after that; in
 * the end it is whether all was copied. */
#define COPY(part)                                                                                 \
    "subq $$128, $2\n"                                                                             \
    "jz 3f\n"                                                                                      \
    "2:\n" part "addq $$128, $0\n"                                                                 \
    "addq $$128, $1\n"                                                                             \
    "subq $$128, $2\n"                                                                             \
    "jg 2b\n"                                                                                      \
    "3: addq $2, $0\n"                                                                             \
    "addq $2, $1\n" part "movl $$1, ${2:k}\n"                                                      \
    "jmp 5f\n"                                                                                     \
    "4: xorl ${2:k}, ${2:k}\n"                                                                     \
    "5:"
static const char by_fours[] = COPY(FOUR), by_twos[] = COPY(TWO);
static const char operands[] = "=&r,=&r,=&r,0,1,2,~{ymm0},~{ymm1},~{ymm2},~{ymm3},~{memory},"
                               "~{dirflag},~{fpsr},~{flags}";

static bool has_vectors(const struct jit_lift *l) {
    return l->x86 && guarded_has_vectors();
}

/* A handler that copies waits for its stores: one per cycle, however wide. */
static bool has_wide_vectors(void) {
#ifdef __x86_64__
    return __builtin_cpu_supports("avx512f");
#else
    return false;
#endif
}

/* Copies LEAST bytes or more; whether all is there. */
static LLVMValueRef copy_here(struct jit_lift *l, LLVMValueRef *arguments) {
    const struct jit_llvm *v = l->llvm;
    LLVMTypeRef in[] = {l->pointer, l->pointer, l->i64};
    LLVMTypeRef out = v->StructTypeInContext(l->context, in, 3, 0);
    LLVMTypeRef type = v->FunctionType(out, in, 3, 0);
    const char *text = has_wide_vectors() ? by_twos : by_fours;
    LLVMValueRef assembly =
        v->GetInlineAsm(type, (char *)(uintptr_t)text, strlen(text), (char *)(uintptr_t)operands,
                        sizeof operands - 1, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef all = v->BuildCall2(l->b, type, assembly, arguments, 3, "");
    l->region->copies++;
    return narrow(l, v->BuildExtractValue(l->b, all, 2, ""), l->i1);
}

/* Copies, or goes to `told`. */
static void copy_or(struct jit_lift *l, LLVMValueRef *arguments, LLVMBasicBlockRef told) {
    LLVMBasicBlockRef done = new_block(l);
    if (has_vectors(l)) {
        LLVMBasicBlockRef called = new_block(l), here = new_block(l);
        LLVMValueRef more = sub(l, arguments[2], c64(l, LEAST));
        LLVMValueRef most = c64(l, GUARDED_VECTORS_MOST - LEAST);
        branch_rarely(l, compare(l, LLVMIntULE, more, most), here, called);
        at(l, here);
        branch_rarely(l, copy_here(l, arguments), done, told);
        at(l, called);
    }
    LLVMValueRef good = call(l, (const void *)guarded_write_packet, l->i8, arguments, 3);
    branch_rarely(l, narrow(l, good, l->i1), done, told); /* a bool */
    at(l, done);
}

/* Whether the command that is held is one of so many words. */
static bool holds_words(const struct jit_lift *l, unsigned words) {
    for (unsigned i = 0; i < SPIN_WORDS; i++)
        if ((l->held[i] != NULL) != (i < words))
            return false;
    return true;
}

void lift_copy(struct jit_lift *l, const struct jit_access *a) {
    const struct jit_llvm *v = l->llvm;
    if (!holds_words(l, 4)) {
        lift_tell_device(l, a);
        return;
    }
    LLVMBasicBlockRef copied = new_block(l), told = new_block(l), on = new_block(l);
    LLVMValueRef word[4];
    lift_settle(l); /* for both ways */
    memcpy(word, l->held, sizeof word);
    LLVMValueRef bytes = widen(l, word[2]), host_at = widen(l, word[1]);
    LLVMValueRef local_at = widen(l, sub(l, word[0], lift_use_window(l, 0)->base));
    LLVMValueRef offset = sub(l, lift_address_of(l, a), c32(l, MAP_DRIVER + SPIN_REG_ISSUE));
    LLVMValueRef command = sub(l, lift_stored_value(l, a), c32(l, SPIN_COMMAND_DMA_TO_HOST));
    go_on_if(l, compare(l, LLVMIntEQ, v->BuildOr(l->b, offset, command, ""), c32(l, 0)), told);
    LLVMValueRef alone = is_ready(l, offsetof(struct hpu, unready.words));
    go_on_if(l, alone, told);                                      /* no others are to be cleared */
    go_on_if(l, compare(l, LLVMIntULE, word[3], c32(l, 1)), told); /* of which memory */
    LLVMValueRef which =
        v->BuildMul(l->b, widen(l, word[3]), c64(l, sizeof(struct hpu_direct)), "");
    LLVMValueRef direct =
        place_in(l, l->b, field(l, offsetof(struct hpu, direct), l->i8), which, l->i8);
    LLVMValueRef room = in_window(l, direct, offsetof(struct hpu_direct, bytes), l->i64);
    go_on_if(l, compare(l, LLVMIntULE, add(l, host_at, bytes), room), told);
    room = widen(l, lift_bound(l, 0, 1, false));
    branch_rarely(l, compare(l, LLVMIntULE, add(l, local_at, bytes), room), copied, told);
    at(l, told);
    lift_tell_device(l, a);
    v->BuildBr(l->b, on);
    at(l, copied);
    LLVMValueRef memory = in_window(l, direct, offsetof(struct hpu_direct, memory), l->pointer);
    LLVMValueRef arguments[] = {place_in(l, l->b, memory, host_at, l->i8),
                                place_in(l, l->b, lift_use_window(l, 0)->host, local_at, l->i8),
                                bytes};
    copy_or(l, arguments, told);
    LLVMValueRef handles = field(l, offsetof(struct hpu, handles), l->i32);
    LLVMValueRef handle = widen(l, add(l, get(l, l->i32, handles), c32(l, 1)));
    LLVMValueRef twice = v->BuildOr(l->b, handle, v->BuildShl(l->b, handle, c64(l, 32), ""), "");
    set(l, field(l, offsetof(struct hpu, result), l->i64), twice); /* and handles */
    v->BuildBr(l->b, on);
    at(l, on);
}
