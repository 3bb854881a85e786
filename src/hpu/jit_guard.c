/* Accesses without a check: one instruction that may fault.
 *
 * Design notes. Such an access is an inline assembler text of one instruction that has a second way
 * out, a label of the function (what C has as asm goto, and the IR as callbr). The text notes the
 * addresses of the instruction and of the label in a section of their own, from which the signal
 * handler takes them (guard.h). To LLVM the access is a branch that goes there or on, so the
 * registers are right in both places, and nothing else is left of the check.
 *
 * LLVM's C interface cannot make a callbr. One of each kind is parsed from text, and copied. */
#include <stdio.h>
#include <string.h>

#include "hpu/guard.h"
#include "hpu/jit_lift.h"

/* The instruction of each kind of access: x86-64, which adds the offset by itself, and AArch64.
 * Operands of loads are the result, view, address, offset; of stores view, address, value, offset.
 */
static const struct {
    const char *name, *x86, *aarch64;
    bool store;
} kinds[] = {
    {"lb", "movsbl ${3:c}($1,$2), $0", "ldrsb ${0:w}, [$1, $2]", false},
    {"lbu", "movzbl ${3:c}($1,$2), $0", "ldrb ${0:w}, [$1, $2]", false},
    {"lh", "movswl ${3:c}($1,$2), $0", "ldrsh ${0:w}, [$1, $2]", false},
    {"lhu", "movzwl ${3:c}($1,$2), $0", "ldrh ${0:w}, [$1, $2]", false},
    {"lw", "movl ${3:c}($1,$2), $0", "ldr ${0:w}, [$1, $2]", false},
    {"sb", "movb ${2:b}, ${3:c}($0,$1)", "strb ${2:w}, [$0, $1]", true},
    {"sh", "movw ${2:w}, ${3:c}($0,$1)", "strh ${2:w}, [$0, $1]", true},
    {"sw", "movl $2, ${3:c}($0,$1)", "str ${2:w}, [$0, $1]", true},
};
#define KINDS (sizeof kinds / sizeof kinds[0])

static const char *kind_of(const struct jit_access *a) {
    if (a->store)
        return a->bytes == 1 ? "sb" : a->bytes == 2 ? "sh" : "sw";
    if (a->bytes == 4)
        return "lw";
    bool is_signed = a->in->id == HPU_LB || a->in->id == HPU_LH;
    return a->bytes == 1 ? is_signed ? "lb" : "lbu" : is_signed ? "lh" : "lhu";
}

/* A function for each kind, whose first instruction is what is copied. */
static int template_text(char *text, size_t room, unsigned kind, bool x86) {
    bool store = kinds[kind].store;
    return snprintf(text, room,
                    "define void @%s(i8* %%view, i64 %%address, i32 %%value) {\n"
                    "%scallbr %s asm sideeffect \"1: %s\\0A"
                    ".pushsection spin_guards,\\22a\\22\\0A"
                    ".long 1b - ., ${4:l} - .\\0A.popsection\", \"%s,i,X,~{memory}\""
                    "(i8* %%view, i64 %%address, %si32 0, i8* blockaddress(@%s, %%bad))\n"
                    "to label %%good [label %%bad]\n"
                    "good: ret void\nbad: ret void\n}\n",
                    kinds[kind].name, store ? "" : "%r = ", store ? "void" : "i32",
                    x86 ? kinds[kind].x86 : kinds[kind].aarch64, store ? "r,r,r" : "=r,r,r",
                    store ? "i32 %value, " : "", kinds[kind].name);
}

bool lift_open_guards(struct jit_lift *l, const char *triple) {
    const struct jit_llvm *v = l->llvm;
    char text[KINDS * 512], *message = NULL;
    size_t length = 0;
    if (!l->x86 && strncmp(triple, "aarch64", 7) != 0)
        return false;
    for (unsigned i = 0; i < KINDS; i++)
        length += (size_t)template_text(text + length, sizeof text - length, i, l->x86);
    LLVMMemoryBufferRef buffer = v->CreateMemoryBufferWithMemoryRangeCopy(text, length, "guards");
    if (v->ParseIRInContext(l->context, buffer, &l->templates, &message)) {
        v->DisposeMessage(message);
        l->templates = NULL;
    }
    return l->templates != NULL;
}

void lift_close_guards(struct jit_lift *l) {
    if (l->templates)
        l->llvm->DisposeModule(l->templates);
}

/* Leaves before the instruction. The block is marked as cold: of a callbr LLVM would otherwise
 * think that it goes both ways as often. */
static void leave_after_fault(struct jit_lift *l, const struct jit_access *a) {
    const struct jit_llvm *v = l->llvm;
    LLVMTypeRef type = v->FunctionType(v->VoidTypeInContext(l->context), NULL, 0, 0);
    LLVMValueRef nothing =
        v->GetInlineAsm(type, (char *)"", 0, (char *)"", 0, 1, 0, LLVMInlineAsmDialectATT, 0);
    LLVMValueRef call = v->BuildCall2(l->b, type, nothing, NULL, 0, "");
    unsigned kind = v->GetEnumAttributeKindForName("cold", 4);
    v->AddCallSiteAttribute(call, LLVMAttributeFunctionIndex,
                            v->CreateEnumAttribute(l->context, kind, 0));
    lift_leave_at(l, a->h, JIT_FAULT, true);
}

/* On x86 the offset is the instruction's, and is added in 64 bits: where 32 bits would have wrapped
 * around, that is outside the view. */
void lift_guarded_move(struct jit_lift *l, const struct jit_access *a, unsigned window) {
    const struct jit_llvm *v = l->llvm;
    int32_t offset = a->in->imm;
    LLVMValueRef address = read_x(l, a->in->rs1);
    if (!l->x86) {
        address = add(l, address, c32(l, (uint32_t)offset));
        offset = 0;
    }
    LLVMValueRef operand[4] = {l->window[window].view, widen(l, address)};
    unsigned operands = 2;
    if (a->store)
        operand[operands++] = lift_stored_value(l, a);
    operand[operands++] = c32(l, (uint32_t)offset);

    lift_settle(l);
    LLVMBasicBlockRef on = new_block(l), off = new_block(l);
    LLVMValueRef template = v->GetNamedFunction(l->templates, kind_of(a));
    LLVMValueRef made =
        v->InstructionClone(v->GetFirstInstruction(v->GetFirstBasicBlock(template)));
    v->InsertIntoBuilder(l->b, made);
    for (unsigned i = 0; i < operands; i++)
        v->SetOperand(made, i, operand[i]);
    v->SetSuccessor(made, 0, on);
    v->SetSuccessor(made, 1, off); /* and the address of the label among the operands */
    at(l, off);
    leave_after_fault(l, a);
    at(l, on);
    if (!a->store)
        lift_set_loaded(l, a, made);
    l->region->guarded++;
}
