/* From RISC-V to LLVM's IR: one region becomes one function.
 *
 * Design notes. Registers are stack variables, which LLVM's first pass turns into values. Memory is
 * reached through windows, as in the interpreter: each load and store is compiled for the window
 * that it hit when it was interpreted. Accesses of a block at constant distances from the same
 * value are checked as one, before the first of them; LLVM then sees plain loads and stores side by
 * side. Where such a check fails, the function is left, and the interpreter finds out what
 * there is to be found: another window, the device, a fault. Accesses that were seen to go to the
 * device are calls; those that go now to this window and now to that look at the slot's guess.
 * Where a window has a view, page protection does the check of a single access (jit_guard.c).
 *
 * What was counted when a block was entered is taken back where it is left inside (jit_leave.c). */
#include "hpu/jit_lift.h"

#include <stdlib.h>
#include <string.h>

const uint8_t lift_shape[HPU_INSN_COUNT] = {
#define INSN(id, name, operands, match, mask, ext, timing, shape, body) [HPU_##id] = SHAPE_##shape,
#include "hpu/isa.def"
#undef INSN
};

/* ---- the program ---- */

/* Where a branch or jump leads, or NONE when that is outside. */
uint32_t lift_target_of(const struct jit_lift *l, uint32_t h) {
    int64_t to = (int64_t)h + insn_at(l, h)->imm / 2;
    return to >= 0 && to < halfwords(l) ? (uint32_t)to : NONE;
}

static bool is_jump(const struct hpu_insn *in) {
    unsigned shape = lift_shape[in->id];
    return shape == SHAPE_BRANCH || shape == SHAPE_JAL;
}

/* Where the jump through a register at h leads when the instruction before it made the address
 * (auipc or lui, then jalr: a call), NONE when it did not. `before`: that instruction, or NONE. */
static uint32_t far_target_of(const struct jit_lift *l, uint32_t h, uint32_t before) {
    const struct hpu_insn *in = insn_at(l, h);
    if (before == NONE || lift_shape[in->id] != SHAPE_JALR)
        return NONE;
    const struct hpu_insn *made = insn_at(l, before);
    if (lift_shape[made->id] != SHAPE_CONST || made->rd != in->rs1 || !in->rs1)
        return NONE;
    uint32_t pc = ((uint32_t)slot_at(l, before)->a.imm + (uint32_t)in->imm) & ~1u;
    uint32_t offset = pc - l->code->base;
    return offset < l->code->bytes ? offset / 2 : NONE;
}

/* What the interpreter has to do: traps, what is no instruction, and what leads out of the program.
 */
bool lift_is_left(const struct jit_lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    unsigned shape = lift_shape[in->id];
    if (shape == SHAPE_NONE || shape == SHAPE_TRAP)
        return true;
    if (is_jump(in) && lift_target_of(l, h) == NONE)
        return true;
    bool goes_on = shape != SHAPE_JAL && shape != SHAPE_JALR;
    return goes_on && h + in->length / 2 >= halfwords(l);
}

/* Blocks that never ran are left out: going there leaves the function. */
static bool has_room_for(const struct jit_lift *l, uint32_t h) {
    const uint8_t *seen = l->region->seen;
    return l->blocks < MOST_BLOCKS && l->instructions < (seen ? MOST_INSTRUCTIONS : MOST_UNSEEN) &&
           (!seen || h == l->region->root || __atomic_load_n(&seen[h], __ATOMIC_RELAXED));
}

/* `from`: where the jump stands, in the block that is being scanned. */
static void want_block(struct jit_lift *l, uint32_t h, uint32_t from) {
    uint32_t i = l->block_at[h];
    if (i == NONE && has_room_for(l, h)) {
        i = l->block_at[h] = l->blocks++;
        l->block[i] = (struct jit_block){.start = h, .parent = l->scanned};
    }
    if (i == NONE)
        return;
    l->block[i].ways_in++;
    if (h <= from)
        l->block[i].is_looped = true;
}

static void want_site(struct jit_lift *l, uint32_t h) {
    for (uint32_t i = 0; i < l->sites; i++)
        if (l->site[i] == h)
            return;
    if (h < halfwords(l) && l->sites < MOST_BLOCKS) {
        l->site[l->sites++] = h;
        want_block(l, h, h); /* a return may lead backwards */
    }
}

/* Floats with their flags, and what an LR reserves. */
static bool changes_more(const struct hpu_insn *in) {
    unsigned shape = lift_shape[in->id];
    return shape == SHAPE_FP || shape == SHAPE_FLOAD || shape == SHAPE_CSR || shape == SHAPE_LR ||
           shape == SHAPE_SC;
}

/* Finds the block's end and where it leads. */
static void scan_block(struct jit_lift *l, struct jit_block *block) {
    uint32_t h = block->start, before = NONE;
    block->cycles = slot_at(l, h)->cycles;
    block->counted = slot_at(l, h)->count;
    for (;; before = h, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        block->count++;
        l->instructions++;
        if (lift_is_left(l, h))
            return;
        block->writes |= 1u << hpu_insn_writes(in);
        l->written |= 1u << hpu_insn_writes(in);
        l->changes_more |= changes_more(in);
        if (hpu_insn_ends_block(in))
            break;
    }
    const struct hpu_insn *last = insn_at(l, h);
    uint32_t after = h + last->length / 2, target;
    bool is_call = lift_shape[last->id] == SHAPE_JAL || lift_shape[last->id] == SHAPE_JALR;
    if (is_jump(last) && (target = lift_target_of(l, h)) != NONE)
        want_block(l, target, h);
    if ((target = far_target_of(l, h, before)) != NONE)
        want_block(l, target, h);
    if (is_call && last->rd)
        want_site(l, after);
    else if (!is_call)
        want_block(l, after, h);
}

uint32_t lift_last_of(const struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start;
    for (uint32_t n = 1; n < block->count; n++)
        h += insn_at(l, h)->length / 2;
    return h;
}

/* The block that follows if this one is only left in ways that the region does not have, and that
 * nothing else leads to; or NULL. */
static struct jit_block *only_next(const struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = lift_last_of(l, block), next = h + insn_at(l, h)->length / 2;
    if (lift_shape[insn_at(l, h)->id] != SHAPE_BRANCH || lift_is_left(l, h) ||
        l->block_at[lift_target_of(l, h)] != NONE || l->block_at[next] == NONE)
        return NULL;
    struct jit_block *follows = &l->block[l->block_at[next]];
    return follows->ways_in == 1 && !follows->is_looped ? follows : NULL;
}

/* Looks at such blocks as one: limits, the instruction cache and counters once for all of them. */
static void join_blocks(struct jit_lift *l) {
    for (uint32_t i = 0; i < l->blocks; i++) {
        struct jit_block *block = &l->block[i], *next;
        while (!block->is_part && (next = only_next(l, block)) &&
               block->cycles + next->cycles <= MOST_JOINED) {
            l->block_at[next->start] = NONE;
            for (uint32_t k = 0; k < l->blocks; k++)
                if (l->block[k].parent == (uint32_t)(next - l->block))
                    l->block[k].parent = i;
            next->is_part = true;
            block->is_joined = true;
            block->count += next->count;
            block->cycles += next->cycles;
            block->counted += next->counted;
            block->writes |= next->writes;
        }
    }
}

/* Of floats: what only moves bits. */
static bool is_float_move(unsigned id) {
    return id == HPU_FSGNJ_S || id == HPU_FSGNJN_S || id == HPU_FSGNJX_S || id == HPU_FMV_X_W ||
           id == HPU_FMV_W_X;
}

/* Instructions that are calls: of the device, and of what does floats. */
static uint32_t count_calls(const struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start, calls = 0;
    for (uint32_t n = 0; n < block->count; n++, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        calls += lift_is_access(in) ? lift_how(l, h) >= JIT_BY_ISSUE
                                    : lift_shape[in->id] == SHAPE_FP && !is_float_move(in->id);
    }
    return calls;
}

/* How long it takes to compile matters more than single cycles in a draft, and where there is much
 * of it. Where commands are given beside loops, the passes that make something of loops find
 * little. Where loops of one block are functions of their own, the rest runs less often. */
static enum jit_effort effort_for(const struct jit_lift *l, uint32_t short_loops) {
    bool large = l->blocks > MOST_KEPT, loops = false, tight = false;
    uint32_t weight = l->instructions + LOOP_WEIGHT * short_loops, calls = 0;
    for (uint32_t i = 0; i < l->blocks; i++) {
        const struct jit_block *block = &l->block[i];
        calls += block->is_part ? 0 : count_calls(l, block);
        loops |= !block->is_part && block->is_looped;
        tight |= !block->is_part && lift_is_tight(l, block);
    }
    weight += CALL_WEIGHT * calls;
    weight += l->timed ? weight / 8 : 0;
    if (!l->region->seen || weight > MOST_HURRIED)
        return JIT_QUICKLY;
    large |= weight > MOST_WELL || l->instructions > MOST_WELL_INSNS || (calls && loops);
    if (!large)
        return JIT_WELL;
    return tight || l->instructions > MOST_FAIR ? JIT_HURRIEDLY : JIT_FAIRLY;
}

static uint32_t count_short_loops(const struct jit_lift *l) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < l->blocks; i++)
        n += !l->block[i].is_part && lift_is_short(l, &l->block[i]);
    return n;
}

static bool add_dirty(struct jit_lift *l, uint32_t h, uint32_t dirty) {
    uint32_t i = h == NONE ? NONE : l->block_at[h];
    if (i == NONE || (l->block[i].dirty & dirty) == dirty)
        return false;
    l->block[i].dirty |= dirty;
    return true;
}

/* Which registers may have changed where a block begins. */
static void spread_dirty(struct jit_lift *l) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < l->blocks; i++) {
            const struct jit_block *block = &l->block[i];
            if (block->is_part)
                continue;
            uint32_t dirty = (block->dirty | block->writes) & ~1u, h = block->start;
            uint32_t before = NONE;
            for (uint32_t n = 1; n < block->count; n++) {
                before = h;
                h += insn_at(l, h)->length / 2;
            }
            const struct hpu_insn *last = insn_at(l, h);
            if (lift_is_left(l, h))
                continue;
            if (is_jump(last))
                changed |= add_dirty(l, lift_target_of(l, h), dirty);
            changed |= add_dirty(l, far_target_of(l, h, before), dirty);
            if (lift_shape[last->id] == SHAPE_JALR)
                for (uint32_t k = 0; k < l->sites; k++)
                    changed |= add_dirty(l, l->site[k], dirty);
            else if (lift_shape[last->id] != SHAPE_JAL)
                changed |= add_dirty(l, h + last->length / 2, dirty);
        }
    }
}

/* ---- time ---- */

LLVMValueRef lift_left_at(struct jit_lift *l, const struct hpu_slot *slot) {
    LLVMValueRef ahead = add(l, lift_cycles_ahead(l), c64(l, slot->cycles + l->later_cycles));
    return add(l, get(l, l->i64, l->left), ahead);
}

static LLVMValueRef instret_at(struct jit_lift *l, const struct hpu_slot *slot) {
    LLVMValueRef before = get(l, l->i64, field(l, offsetof(struct hpu, instret), l->i64));
    LLVMValueRef done =
        l->timed ? get(l, l->i64, l->done) : sub(l, l->left_at_start, get(l, l->i64, l->left));
    return sub(l, add(l, before, done), c64(l, slot->count + l->later_count));
}

/* ---- instructions ---- */

/* A value by what the instruction computes from a and b. The same as the bodies in isa.def. */
static LLVMValueRef shifted(struct jit_lift *l, LLVMValueRef a, LLVMValueRef b, unsigned id) {
    LLVMValueRef by = l->llvm->BuildAnd(l->b, b, c32(l, 31), "");
    return id == HPU_SLL || id == HPU_SLLI   ? l->llvm->BuildShl(l->b, a, by, "")
           : id == HPU_SRL || id == HPU_SRLI ? l->llvm->BuildLShr(l->b, a, by, "")
                                             : l->llvm->BuildAShr(l->b, a, by, "");
}

static LLVMValueRef high_product(struct jit_lift *l, LLVMValueRef a, LLVMValueRef b, bool a_signed,
                                 bool b_signed) {
    a = a_signed ? l->llvm->BuildSExt(l->b, a, l->i64, "") : widen(l, a);
    b = b_signed ? l->llvm->BuildSExt(l->b, b, l->i64, "") : widen(l, b);
    LLVMValueRef product = l->llvm->BuildMul(l->b, a, b, "");
    return narrow(l, l->llvm->BuildLShr(l->b, product, c64(l, 32), ""), l->i32);
}

/* Division by zero and the overflow are set aside; the host divides by 1 there. */
static LLVMValueRef quotient(struct jit_lift *l, unsigned id, LLVMValueRef a, LLVMValueRef b) {
    const struct jit_llvm *v = l->llvm;
    bool is_signed = id == HPU_DIV || id == HPU_REM, wants_rest = id == HPU_REM || id == HPU_REMU;
    LLVMValueRef by_zero = compare(l, LLVMIntEQ, b, c32(l, 0)), aside = by_zero, r;
    LLVMValueRef by_minus = compare(l, LLVMIntEQ, b, c32(l, UINT32_MAX));
    if (is_signed)
        aside = v->BuildOr(l->b, by_zero, by_minus, "");
    LLVMValueRef safe = v->BuildSelect(l->b, aside, c32(l, 1), b, "");
    if (is_signed)
        r = wants_rest ? v->BuildSRem(l->b, a, safe, "") : v->BuildSDiv(l->b, a, safe, "");
    else
        r = wants_rest ? v->BuildURem(l->b, a, safe, "") : v->BuildUDiv(l->b, a, safe, "");
    if (is_signed)
        r = v->BuildSelect(l->b, by_minus, wants_rest ? c32(l, 0) : sub(l, c32(l, 0), a), r, "");
    return v->BuildSelect(l->b, by_zero, wants_rest ? a : c32(l, UINT32_MAX), r, "");
}

static LLVMValueRef value_of(struct jit_lift *l, unsigned id, LLVMValueRef a, LLVMValueRef b) {
    const struct jit_llvm *v = l->llvm;
    switch (id) {
    case HPU_ADDI:
    case HPU_ADD:
        return add(l, a, b);
    case HPU_SUB:
        return sub(l, a, b);
    case HPU_XORI:
    case HPU_XOR:
        return v->BuildXor(l->b, a, b, "");
    case HPU_ORI:
    case HPU_OR:
        return v->BuildOr(l->b, a, b, "");
    case HPU_ANDI:
    case HPU_AND:
        return v->BuildAnd(l->b, a, b, "");
    case HPU_SLTI:
    case HPU_SLT:
        return v->BuildZExt(l->b, compare(l, LLVMIntSLT, a, b), l->i32, "");
    case HPU_SLTIU:
    case HPU_SLTU:
        return v->BuildZExt(l->b, compare(l, LLVMIntULT, a, b), l->i32, "");
    case HPU_MUL:
        return v->BuildMul(l->b, a, b, "");
    case HPU_MULH:
        return high_product(l, a, b, true, true);
    case HPU_MULHSU:
        return high_product(l, a, b, true, false);
    case HPU_MULHU:
        return high_product(l, a, b, false, false);
    case HPU_DIV:
    case HPU_DIVU:
    case HPU_REM:
    case HPU_REMU:
        return quotient(l, id, a, b);
    }
    return shifted(l, a, b, id);
}

LLVMValueRef lift_branches(struct jit_lift *l, const struct hpu_insn *in, bool taken) {
    LLVMIntPredicate how = in->id == HPU_BEQ || in->id == HPU_BNE   ? LLVMIntEQ
                           : in->id == HPU_BLT || in->id == HPU_BGE ? LLVMIntSLT
                                                                    : LLVMIntULT;
    bool is_negated = in->id == HPU_BNE || in->id == HPU_BGE || in->id == HPU_BGEU;
    if (is_negated == taken)
        how = how == LLVMIntEQ ? LLVMIntNE : how == LLVMIntSLT ? LLVMIntSGE : LLVMIntUGE;
    return compare(l, how, read_x(l, in->rs1), read_x(l, in->rs2));
}

static void charge_division(struct jit_lift *l, const struct hpu_insn *in) {
    const struct jit_llvm *v = l->llvm;
    if (!l->timed || !l->code->timing->division_by_bits)
        return;
    LLVMValueRef b = read_x(l, in->rs2);
    if (in->id == HPU_DIV || in->id == HPU_REM) {
        LLVMValueRef sign = v->BuildAShr(l->b, b, c32(l, 31), "");
        b = v->BuildXor(l->b, b, sign, "");
    }
    unsigned ctlz = v->LookupIntrinsicID("llvm.ctlz", 9);
    LLVMValueRef function = v->GetIntrinsicDeclaration(l->module, ctlz, &l->i32, 1);
    LLVMValueRef arguments[] = {b, v->ConstInt(l->i1, 0, 0)};
    LLVMTypeRef type = v->IntrinsicGetType(l->context, ctlz, &l->i32, 1);
    charge(l, widen(l, v->BuildCall2(l->b, type, function, arguments, 2, "")));
    l->has_lost_time = true;
}
static void move_float(struct jit_lift *l, const struct hpu_insn *in) {
    const struct jit_llvm *v = l->llvm;
    LLVMValueRef f[3];
    const unsigned number[3] = {in->rs1, in->rs2, in->rd}, sign = 1u << 31;
    for (int i = 0; i < 3; i++)
        f[i] = field(l, offsetof(struct hpu, f) + 4 * number[i], l->i32);
    if (in->id == HPU_FMV_X_W) {
        write_x(l, in->rd, get(l, l->i32, f[0]));
        return;
    }
    if (in->id == HPU_FMV_W_X) {
        set(l, f[2], read_x(l, in->rs1));
        return;
    }
    LLVMValueRef a = get(l, l->i32, f[0]), b = get(l, l->i32, f[1]);
    if (in->id == HPU_FSGNJN_S)
        b = v->BuildNot(l->b, b, "");
    b = v->BuildAnd(l->b, b, c32(l, sign), "");
    if (in->id != HPU_FSGNJX_S)
        a = v->BuildAnd(l->b, a, c32(l, ~sign), "");
    set(l, f[2], v->BuildXor(l->b, a, b, ""));
}

/* CSRs and F work on the HPU's own registers: what they read is put there and what they write
 * taken from there. */
static void through_hpu(struct jit_lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    const struct hpu_slot *slot = slot_at(l, h);
    bool csr = lift_shape[in->id] == SHAPE_CSR;
    LLVMValueRef a[4] = {l->h, c32(l, l->code->slot_at[h]), NULL, NULL};
    lift_settle(l); /* before the HPU's own are changed */
    if (hpu_insn_reads(in, in->rs1))
        l->llvm->BuildStore(l->b, read_x(l, in->rs1),
                            field(l, offsetof(struct hpu, x) + 4u * in->rs1, l->i32));
    if (csr) {
        a[2] = lift_left_at(l, slot);
        a[3] = instret_at(l, slot);
    }
    LLVMValueRef good = csr ? call(l, (const void *)jit_csr, l->i8, a, 4)
                            : call(l, (const void *)jit_float, l->i8, a, 2);
    lift_demand(l, narrow(l, good, l->i1), JIT_INTERPRET, h, true); /* a bool */
    unsigned rd = hpu_insn_writes(in);
    if (rd)
        write_x(l, rd, get(l, l->i32, field(l, offsetof(struct hpu, x) + 4 * rd, l->i32)));
}

/* ---- where blocks lead ---- */

/* Where the function goes on at h, or leaves. */
static LLVMBasicBlockRef block_or_exit(struct jit_lift *l, uint32_t h) {
    return l->block_at[h] != NONE ? l->block[l->block_at[h]].enter
                                  : lift_exit_at(l, h, JIT_BRANCH, false);
}

void lift_go_to(struct jit_lift *l, uint32_t h) {
    lift_settle(l);
    l->llvm->BuildBr(l->b, block_or_exit(l, h));
}

static void lift_branch(struct jit_lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    uint32_t target = lift_target_of(l, h);
    lift_settle(l);
    LLVMBasicBlockRef yes = !l->timed                     ? block_or_exit(l, target)
                            : l->block_at[target] != NONE ? new_block(l)
                                                          : new_rare_block(l);
    LLVMBasicBlockRef no = block_or_exit(l, h + in->length / 2);
    l->llvm->BuildCondBr(l->b, lift_branches(l, in, true), yes, no);
    if (!l->timed)
        return;
    at(l, yes);
    charge(l, c64(l, l->code->timing->taken));
    lift_go_to(l, target);
}

/* A branch between two blocks that were joined: it is not taken. */
static void lift_between(struct jit_lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    uint32_t next = h + in->length / 2;
    lift_settle(l);
    lift_demand_between(l, lift_branches(l, in, false), JIT_BRANCH, lift_target_of(l, h),
                        l->timed ? l->code->timing->taken : 0);
    if (l->has_lost_time) { /* then what was looked at when the first was entered may not last */
        LLVMValueRef ahead = add(l, lift_cycles_ahead(l), c64(l, l->later_cycles));
        LLVMValueRef left = add(l, get(l, l->i64, l->left), ahead);
        lift_demand_between(l, compare(l, LLVMIntSGT, left, c64(l, 0)), HPU_PAUSED, next, 0);
    }
    l->later_cycles -= slot_at(l, next)->cycles;
    l->later_count -= slot_at(l, next)->count;
}

/* Returns lead to a call of the region, or end the handler. Of other jumps nothing is known. */
static void lift_jump_register(struct jit_lift *l, uint32_t h, uint32_t before) {
    const struct hpu_insn *in = insn_at(l, h);
    uint32_t target = far_target_of(l, h, before);
    if (target != NONE) {
        write_x(l, in->rd, c32(l, slot_at(l, h)->link));
        lift_go_to(l, target);
        return;
    }
    LLVMValueRef to = add(l, read_x(l, in->rs1), c32(l, (uint32_t)in->imm));
    to = l->llvm->BuildAnd(l->b, to, c32(l, ~1u), "");
    write_x(l, in->rd, c32(l, slot_at(l, h)->link));
    lift_settle(l);
    bool is_return = in->rd == 0 && (in->rs1 == 1 || in->rs1 == 5);
    /* Where registers are kept, x1 was MAP_RETURN when the handler began. */
    bool stays = is_return && in->rs1 == 1 && in->imm == 0 && !(l->written >> 1 & 1);
    if (stays)
        lift_return_kept(l);
    LLVMBasicBlockRef elsewhere = new_block(l), end = new_block(l);
    LLVMValueRef choice = l->llvm->BuildSwitch(l->b, to, elsewhere, is_return ? l->sites + 1 : 1);
    l->llvm->AddCase(choice, c32(l, MAP_RETURN), end);
    for (uint32_t i = 0; i < l->sites && is_return; i++)
        if (l->block_at[l->site[i]] != NONE && pc_of(l, l->site[i]) != MAP_RETURN)
            l->llvm->AddCase(choice, c32(l, pc_of(l, l->site[i])),
                             l->block[l->block_at[l->site[i]]].enter);
    at(l, end);
    if (!stays)
        lift_return_kept(l);
    lift_leave_to(l, c32(l, MAP_RETURN), NULL);
    at(l, elsewhere);
    lift_leave_to(l, to, &jit_jumps);
}

/* True when it has ended the block. */
bool lift_insn(struct jit_lift *l, uint32_t h, uint32_t before, const struct member *m) {
    const struct jit_llvm *v = l->llvm;
    const struct hpu_insn *in = insn_at(l, h);
    switch ((enum shape)lift_shape[in->id]) {
    case SHAPE_DIV:
        charge_division(l, in);
        /* fall through */
    case SHAPE_RR:
        write_x(l, in->rd, value_of(l, in->id, read_x(l, in->rs1), read_x(l, in->rs2)));
        return false;
    case SHAPE_RI:
        write_x(l, in->rd, value_of(l, in->id, read_x(l, in->rs1), c32(l, (uint32_t)in->imm)));
        return false;
    case SHAPE_CONST:
        write_x(l, in->rd, c32(l, (uint32_t)slot_at(l, h)->a.imm));
        return false;
    case SHAPE_FENCE:
        v->BuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, l->code->is_alone, "");
        return false;
    case SHAPE_LOAD:
    case SHAPE_STORE:
    case SHAPE_FLOAD:
    case SHAPE_FSTORE:
    case SHAPE_AMO:
    case SHAPE_LR:
    case SHAPE_SC:
        lift_access(l, h, m);
        return false;
    case SHAPE_FP:
        if (is_float_move(in->id))
            move_float(l, in);
        else
            through_hpu(l, h);
        return false;
    case SHAPE_CSR:
        through_hpu(l, h);
        lift_go_to(l, h + in->length / 2);
        return true;
    case SHAPE_BRANCH:
        lift_branch(l, h);
        return true;
    case SHAPE_JAL:
        write_x(l, in->rd, c32(l, slot_at(l, h)->link));
        lift_go_to(l, lift_target_of(l, h));
        return true;
    case SHAPE_JALR:
        lift_jump_register(l, h, before);
        return true;
    case SHAPE_TRAP:
    case SHAPE_NONE:
        break;
    }
    return true; /* is_left was true */
}

/* Where a loop begins. What others write is seen in the next iteration: loads are not hoisted for
 * good. And LLVM is not to see how the time moves: each exit of a loop uses it, and what it
 * could make of that takes it as long as all else. */
static void begin_turn(struct jit_lift *l) {
    l->llvm->BuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 1, "");
    set(l, l->left, l->llvm->BuildFreeze(l->b, get(l, l->i64, l->left), ""));
    if (l->timed)
        set(l, l->done, l->llvm->BuildFreeze(l->b, get(l, l->i64, l->done), ""));
}

/* Leaves unless all of the block is in the instruction cache. */
static void demand_cached(struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start;
    LLVMBasicBlockRef off = lift_exit_at(l, h, JIT_INTERPRET, false);
    bool begins = true;
    for (uint32_t i = 0; i < block->count; i++, h += insn_at(l, h)->length / 2) {
        if (begins) {
            uint64_t offset = 4ull * l->code->slot_at[h];
            LLVMValueRef place = place_in(l, l->b, l->seen, c64(l, offset), l->i32);
            go_on_if(l, compare(l, LLVMIntEQ, get(l, l->i32, place), l->generation), off);
        }
        begins = lift_shape[insn_at(l, h)->id] == SHAPE_BRANCH;
    }
}

/* Where the block falls into a loop of one block: its first iteration, which is the rest of this
 * block, is one of many, so that vectors take all of them. If time is up by then it is done alone,
 * as the interpreter looks at limits where it jumps only. Timed, its accesses are counted already.
 */
static void fall_into_loop(struct jit_lift *l, const struct jit_block *block, uint32_t h) {
    uint32_t i = l->block_at[h];
    if (l->timed || i == NONE || h == block->start || l->later_count ||
        !lift_is_tight(l, &l->block[i]))
        return;
    lift_settle(l);
    lift_tell_words(l);
    LLVMBasicBlockRef iterations = new_block(l), alone = new_block(l);
    LLVMValueRef left = lift_left_at(l, slot_at(l, h));
    branch_rarely(l, compare(l, LLVMIntSGT, left, c64(l, 0)), iterations, alone);
    at(l, iterations);
    set(l, l->left, left);
    l->llvm->BuildBr(l->b, l->block[i].enter);
    at(l, alone);
}

static void lift_block(struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start;
    l->lifted = block;
    l->dirty = block->dirty;
    memset(l->ahead, 0, sizeof l->ahead);
    memset(l->words, 0, sizeof l->words);
    memset(l->held, 0, sizeof l->held);
    l->has_noted = false;
    if (block->dirty)
        lift_put_back(l, block);
    l->llvm->MoveBasicBlockBefore(block->enter, l->out);
    l->llvm->MoveBasicBlockBefore(block->body, l->out);
    at(l, block->enter);
    if (block->is_looped)
        begin_turn(l);
    if (!block->is_joined) {
        LLVMValueRef has_time = compare(l, LLVMIntSGT, get(l, l->i64, l->left), c64(l, 0));
        lift_demand(l, has_time, HPU_PAUSED, h, false);
    }
    l->llvm->BuildBr(l->b, block->body);
    at(l, block->body);
    l->dirty = block->dirty; /* the function begins here, with what came otherwise */
    if (lift_is_left(l, h)) {
        lift_leave_at(l, h, JIT_INTERPRET, false);
        return;
    }
    if (l->timed)
        demand_cached(l, block);
    if (lift_tight_loop(l, block))
        return;
    lift_group_accesses(l, block);
    lift_check_groups(l, 0, h);
    lift_count_block(l, block);
    l->later_cycles = block->cycles - slot_at(l, h)->cycles;
    l->later_count = block->counted - slot_at(l, h)->count;
    l->has_lost_time = false;
    uint32_t before = NONE;
    for (uint32_t i = 0; i < block->count; i++, before = h, h += insn_at(l, h)->length / 2) {
        if (i > 0)
            lift_check_groups(l, i, h);
        if (lift_is_left(l, h)) {
            lift_leave_at(l, h, JIT_INTERPRET, true);
            return;
        }
        fall_into_loop(l, block, h);
        if (i + 1 == block->count)
            lift_tell_words(l);
        if (i + 1 < block->count && lift_shape[insn_at(l, h)->id] == SHAPE_BRANCH)
            lift_between(l, h);
        else if (lift_insn(l, h, before, &l->member[i]))
            return;
    }
}

/* ---- the function ---- */

void lift_begin_function(struct jit_lift *l, const char *name, LLVMTypeRef *types, unsigned n) {
    const struct jit_llvm *v = l->llvm;
    l->function = v->AddFunction(l->module, name, v->FunctionType(l->i64, types, n, 0));
    unsigned kind = v->GetEnumAttributeKindForName("nounwind", 8);
    v->AddAttributeAtIndex(l->function, LLVMAttributeFunctionIndex,
                           v->CreateEnumAttribute(l->context, kind, 0));
    kind = v->GetEnumAttributeKindForName("noalias", 7); /* no handler reaches its HPU */
    v->AddAttributeAtIndex(l->function, 1, v->CreateEnumAttribute(l->context, kind, 0));
    kind = v->GetEnumAttributeKindForName("dereferenceable", 15); /* wherever LLVM likes to look */
    v->AddAttributeAtIndex(l->function, 1,
                           v->CreateEnumAttribute(l->context, kind, sizeof(struct hpu)));
    l->h = v->GetParam(l->function, 0);
    l->entry = new_block(l);
    v->PositionBuilderAtEnd(l->at_entry, l->entry);
    at(l, l->entry);
    for (unsigned r = 1; r < 32; r++) {
        l->x[r] = v->BuildAlloca(l->b, l->i32, "");
        LLVMValueRef place = field(l, offsetof(struct hpu, x) + 4 * r, l->i32);
        bool stays = !(l->written >> r & 1);
        set(l, l->x[r], stays ? get_fixed(l, l->b, l->i32, place) : get(l, l->i32, place));
    }
}

static void begin_region(struct jit_lift *l, const char *name) {
    const struct jit_llvm *v = l->llvm;
    LLVMTypeRef types[] = {l->pointer, l->i64, l->pointer, l->i32, l->pointer, l->i32};
    lift_begin_function(l, name, types, 6);
    l->left_at_start = v->GetParam(l->function, 1);
    l->host = v->GetParam(l->function, 2);
    set(l, l->x[10], v->GetParam(l->function, 3));
    l->seen = v->GetParam(l->function, 4);
    l->generation = v->GetParam(l->function, 5);
    l->out = new_rare_block(l);
    l->end = new_rare_block(l);
    l->left = v->BuildAlloca(l->b, l->i64, "");
    l->row = v->BuildAlloca(l->b, l->i32, "");
    l->taken = v->BuildAlloca(l->b, l->i64, "");
    l->done = v->BuildAlloca(l->b, l->i64, "");
    set(l, l->left, l->left_at_start);
    set(l, l->done, c64(l, 0));
}

static void lift_function(struct jit_lift *l, const char *name) {
    begin_region(l, name);
    for (uint32_t i = 0; i < l->blocks; i++) {
        if (l->block[i].is_part)
            continue;
        l->block[i].enter = new_block(l);
        l->block[i].body = new_block(l);
        l->block[i].put_back = l->block[i].dirty ? new_rare_block(l) : l->out;
    }
    for (uint32_t h = 0; h < halfwords(l); h++) /* so most go on where the next begins */
        if (l->block_at[h] != NONE)
            lift_block(l, &l->block[l->block_at[h]]);
    lift_exits(l);
    lift_enter(l, l->block[0].body);
}

static void make_types(struct jit_lift *l) {
    const struct jit_llvm *v = l->llvm;
    l->i1 = v->IntTypeInContext(l->context, 1);
    l->i8 = v->IntTypeInContext(l->context, 8);
    l->i16 = v->IntTypeInContext(l->context, 16);
    l->i32 = v->IntTypeInContext(l->context, 32);
    l->i64 = v->IntTypeInContext(l->context, 64);
    l->pointer = v->PointerType(l->i8, 0);
    LLVMValueRef weights[] = {v->MDStringInContext(l->context, "branch_weights", 14),
                              c32(l, 1000000), c32(l, 1)};
    l->likely = v->MDNodeInContext(l->context, weights, 3);
    l->prof = v->GetMDKindIDInContext(l->context, "prof", 4);
    l->fixed = v->GetMDKindIDInContext(l->context, "invariant.load", 14);
    l->nothing = v->MDNodeInContext(l->context, NULL, 0);
}

bool jit_lift(const struct jit_llvm *llvm, LLVMContextRef context, LLVMModuleRef module,
              LLVMModuleRef loops, const char *triple, const char *name,
              struct jit_region *region) {
    struct jit_lift *l = calloc(1, sizeof *l);
    if (!l)
        return false;
    l->llvm = llvm;
    l->context = context;
    l->module = module;
    l->loops = loops;
    l->name = name;
    l->region = region;
    l->code = region->code;
    l->timed = region->code->mode == HPU_TIMED;
    l->x86 = strncmp(triple, "x86_64", 6) == 0;
    l->block = calloc(MOST_BLOCKS, sizeof *l->block);
    l->site = calloc(MOST_BLOCKS, sizeof *l->site);
    l->block_at = malloc(halfwords(l) * sizeof *l->block_at);
    l->member = calloc(halfwords(l) + 1, sizeof *l->member);
    l->loop = malloc(sizeof *l);
    bool good = l->block && l->site && l->block_at && l->member && l->loop;
    if (good) {
        memset(l->block_at, 0xff, halfwords(l) * sizeof *l->block_at);
        l->scanned = NONE;
        want_block(l, region->root, 0);
        for (uint32_t i = 0; i < l->blocks; i++) {
            l->scanned = i;
            scan_block(l, &l->block[i]);
        }
        join_blocks(l);
        uint32_t short_loops = count_short_loops(l);
        if (!region->has_effort)
            region->effort = effort_for(l, short_loops);
        region->has_short_loop =
            short_loops && short_loops <= MOST_SHORT && (region->seen || region->has_effort);
        l->settles = region->effort != JIT_WELL;
        l->block[0].dirty = 1u << 10; /* it comes by another way than memory */
        if (!l->settles)
            spread_dirty(l);
        l->b = llvm->CreateBuilderInContext(context);
        l->at_entry = llvm->CreateBuilderInContext(context);
        make_types(l);
        if (region->views && !lift_open_guards(l, triple))
            region->views = 0;
        lift_function(l, name);
        lift_close_guards(l);
        llvm->DisposeBuilder(l->b);
        llvm->DisposeBuilder(l->at_entry);
        region->instructions = l->instructions;
        region->exits = l->exits;
        good = !l->is_short_of_memory;
    }
    free(l->block);
    free(l->site);
    free(l->block_at);
    free(l->member);
    free(l->loop);
    free(l);
    return good;
}
