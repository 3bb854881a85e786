/* Loops of one block, the commonest hot code in handlers: a sum, a copy, a checksum.
 *
 * Design notes. Such a block becomes code that takes many iterations without any check. How many is
 * found out before the first: as many as begin before time is up, and as stay in the windows with
 * all that they touch; what that is follows from the instructions: registers that the block does
 * not write, or only by adding a constant, plus a value in known limits (a masked index, a byte).
 * Where the branch compares such a register with a fixed one, the iterations it allows are known
 * too, and LLVM sees a loop without exits that it may make vectors of. Cycles, instructions and
 * accesses are counted after the iterations, times their number, and so are the registers that each
 * iteration adds to. Where not even one iteration is sure to be good the function is left, and the
 * interpreter finds out why; a loop where that happens more than once takes its iterations one by
 * one from then on.
 *
 * In a region that is not compiled well the iterations are a function of their own, which is. */
#include "hpu/jit_lift.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TURNS         256 /* where it is not known how many there will be */
#define MOST_INSNS    48
#define SHORT         16 /* worth unrolling, which a compiler has done to longer ones */
#define FEW_RANGES    3  /* of memory: vectors need checks of each against each */
#define MOST_RANGE    (1 << 16)
#define MOST_ACCESSES 24
#define ANY_ALIGNMENT (1u << 16)

/* What is known of a register: the sum of up to two registers as they were when the iteration
 * began, plus something from least to most in steps of `step`, a power of two. */
struct value {
    bool is_known;
    uint8_t bases, base[2];
    int64_t least, most;
    uint32_t step;
};

struct touch {
    uint32_t h;
    uint8_t window;  /* read once: other threads change guesses */
    struct value at; /* the address */
    int32_t stride;  /* from iteration to iteration */
    /* code: the first byte of its range in the first iteration, and where that is in the range */
    LLVMValueRef pointer, first_address;
    int64_t first;
};

struct loop {
    struct value x[32];
    int32_t stride[32]; /* what an iteration adds to a register */
    struct touch touch[MOST_ACCESSES];
    uint32_t touches;
    /* When the iterations are known: the branch compares `counter`, which has a stride, with `end`.
     */
    bool is_counted, is_signed;
    enum { UNTIL_EQUAL, UNTIL_THERE, UNTIL_BEYOND } until;
    struct value counter, end;
    LLVMValueRef
        start[32]; /* code: registers with a stride, as they were before the first iteration */
};

static struct value number(int64_t least, int64_t most, uint32_t step) {
    bool fits = least >= -MOST_RANGE && most <= MOST_RANGE;
    return (struct value){.is_known = fits, .least = least, .most = most, .step = step};
}

static struct value sum(struct value a, struct value b) {
    if (!a.is_known || !b.is_known || a.bases + b.bases > 2)
        return (struct value){0};
    struct value r = number(a.least + b.least, a.most + b.most, a.step < b.step ? a.step : b.step);
    struct value more = a.bases >= b.bases ? a : b, less = a.bases >= b.bases ? b : a;
    r.bases = a.bases + b.bases;
    r.base[0] = more.base[0];
    r.base[1] = less.bases ? less.base[0] : more.base[1];
    if (r.bases == 2 && r.base[0] > r.base[1]) { /* in order, so that equal sums look the same */
        uint8_t swap = r.base[0];
        r.base[0] = r.base[1];
        r.base[1] = swap;
    }
    return r;
}

static int32_t stride_of(const struct loop *loop, const struct value *v) {
    int32_t stride = 0;
    for (unsigned i = 0; i < v->bases; i++)
        stride += loop->stride[v->base[i]];
    return stride;
}

/* Of two numbers that are not negative: no bit above the highest of both. The bits below the step
 * of both are those of the smallest numbers, and so what they become is fixed too. */
static struct value joined_bits(struct value a, struct value b, bool exclusive) {
    if (!a.is_known || !b.is_known || a.bases || b.bases || a.least < 0 || b.least < 0)
        return (struct value){0};
    uint32_t step = a.step < b.step ? a.step : b.step;
    int64_t joined = exclusive ? a.least ^ b.least : a.least | b.least;
    uint64_t both = (uint64_t)(a.most | b.most), most = 0;
    while (most < both)
        most = most * 2 + 1;
    return number(joined & (step - 1), (int64_t)most, step);
}

static struct value result_of(const struct loop *loop, const struct hpu_insn *in) {
    struct value a = loop->x[in->rs1], b = loop->x[in->rs2];
    bool plain = a.is_known && !a.bases && a.least >= 0;
    switch (in->id) {
    case HPU_ADDI:
        return sum(a, number(in->imm, in->imm, ANY_ALIGNMENT));
    case HPU_ADD:
        return sum(a, b);
    case HPU_XOR:
    case HPU_OR:
        return joined_bits(a, b, in->id == HPU_XOR);
    case HPU_ANDI:
        return in->imm >= 0 ? number(0, in->imm, 1) : (struct value){0};
    case HPU_SLLI:
        if (!plain || a.most << in->imm > MOST_RANGE)
            return (struct value){0};
        return number(a.least << in->imm, a.most << in->imm,
                      a.step >= ANY_ALIGNMENT ? ANY_ALIGNMENT : a.step << in->imm);
    case HPU_SRLI:
        return plain ? number(a.least >> in->imm, a.most >> in->imm, 1)
                     : number(0, UINT32_MAX >> in->imm, 1);
    case HPU_LBU:
        return number(0, 255, 1);
    case HPU_LHU:
        return number(0, 65535, 1);
    case HPU_SLT:
    case HPU_SLTU:
    case HPU_SLTI:
    case HPU_SLTIU:
        return number(0, 1, 1);
    }
    return (struct value){0};
}

/* What an iteration does to each register: nothing, one addition of a constant, or anything. */
static void find_strides(const struct jit_lift *l, const struct jit_block *block,
                         struct loop *loop) {
    uint32_t written = 0, h = block->start;
    for (unsigned r = 0; r < 32; r++)
        loop->x[r] = (struct value){
            .is_known = true, .bases = r != 0, .base = {(uint8_t)r}, .step = ANY_ALIGNMENT};
    for (uint32_t i = 0; i < block->count; i++, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        unsigned r = hpu_insn_writes(in);
        bool adds = in->id == HPU_ADDI && in->rs1 == r && !(written >> r & 1);
        if (r)
            loop->stride[r] = adds ? in->imm : 0;
        if (r && !adds)
            loop->x[r].is_known = false;
        written |= 1u << r;
    }
}

/* Adds the access. False: it could be anywhere. */
static bool add_touch(const struct jit_lift *l, struct loop *loop, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    struct value at = sum(loop->x[in->rs1], number(in->imm, in->imm, ANY_ALIGNMENT));
    if (!at.is_known || !at.bases || loop->touches == MOST_ACCESSES)
        return false;
    int32_t stride = stride_of(loop, &at);
    uint32_t bytes = hpu_access_bytes(in->id);
    if (l->timed && (at.step < bytes || stride % (int32_t)bytes != 0))
        return false; /* some may cross words, and take longer */
    loop->touch[loop->touches++] =
        (struct touch){.h = h, .window = (uint8_t)lift_guess_at(l, h), .at = at, .stride = stride};
    return true;
}

static bool is_exact(const struct value *v) {
    return v->is_known && v->least == v->most;
}

/* Whether the branch says how many iterations there will be: it compares a register with a stride
 * with one that stays, and the stride leads to where it is not taken. */
static void study_branch(const struct hpu_insn *in, struct loop *loop) {
    struct value a = loop->x[in->rs1], b = loop->x[in->rs2];
    if (!is_exact(&a) || !is_exact(&b))
        return;
    bool first = stride_of(loop, &a) != 0;
    loop->counter = first ? a : b;
    loop->end = first ? b : a;
    int32_t stride = stride_of(loop, &loop->counter);
    if (stride == 0 || stride_of(loop, &loop->end) != 0)
        return;
    bool less = in->id == HPU_BLT || in->id == HPU_BLTU;
    bool not_less = in->id == HPU_BGE || in->id == HPU_BGEU;
    loop->is_signed = in->id == HPU_BLT || in->id == HPU_BGE;
    loop->until = in->id == HPU_BNE ? UNTIL_EQUAL : less ? UNTIL_THERE : UNTIL_BEYOND;
    loop->is_counted = in->id == HPU_BNE || ((less || not_less) && (less == first) == (stride > 0));
}

static bool is_simple(const struct jit_lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    switch ((enum shape)lift_shape[in->id]) {
    case SHAPE_RR:
    case SHAPE_RI:
    case SHAPE_CONST:
        return true;
    case SHAPE_DIV:
        return !l->timed; /* its cycles depend on the divisor */
    case SHAPE_LOAD:
    case SHAPE_STORE:
        return lift_how(l, h) <= JIT_BY_CHECK;
    default:
        return false;
    }
}

/* Whether the block is such a loop; if so, what it touches. */
static bool study(const struct jit_lift *l, const struct jit_block *block, struct loop *loop) {
    uint32_t h = block->start;
    memset(loop, 0, sizeof *loop);
    if (block->count > MOST_INSNS)
        return false;
    find_strides(l, block, loop);
    for (uint32_t i = 0; i + 1 < block->count; i++, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        if (!is_simple(l, h) || (lift_is_access(in) && !add_touch(l, loop, h)))
            return false;
        unsigned r = hpu_insn_writes(in);
        if (r)
            loop->x[r] = result_of(loop, in);
    }
    if (lift_shape[insn_at(l, h)->id] != SHAPE_BRANCH || lift_is_left(l, h) ||
        lift_target_of(l, h) != block->start || lift_how(l, h) != JIT_BY_WINDOW)
        return false;
    study_branch(insn_at(l, h), loop);
    return true;
}

/* ---- code ---- */

/* What an iteration costs: the block, the branch taken, and what its accesses lose. */
static LLVMValueRef turn_cycles(struct jit_lift *l, const struct jit_block *block,
                                const struct loop *loop) {
    uint64_t fixed = slot_at(l, block->start)->cycles;
    LLVMValueRef cycles = c64(l, fixed + (l->timed ? l->code->timing->taken : 0));
    for (uint32_t i = 0; i < loop->touches && l->timed; i++) {
        uint32_t h = loop->touch[i].h;
        bool store = lift_shape[insn_at(l, h)->id] == SHAPE_STORE;
        cycles = add(l, cycles, lift_use_window(l, loop->touch[i].window)->extra[store]);
    }
    return cycles;
}

/* The sum of a value's bases, and more, as it is now. */
static LLVMValueRef bases_of(struct jit_lift *l, const struct value *v, int64_t more) {
    LLVMValueRef r = c32(l, (uint32_t)more);
    for (unsigned i = 0; i < v->bases; i++)
        r = add(l, r, read_x(l, v->base[i]));
    return r;
}

/* How many iterations the branch will allow, in 64 bits; to `otherwise` when that is not easy to
 * say. */
static LLVMValueRef count_down(struct jit_lift *l, const struct loop *loop,
                               LLVMBasicBlockRef otherwise) {
    const struct jit_llvm *v = l->llvm;
    int32_t stride = stride_of(loop, &loop->counter);
    uint32_t step = stride > 0 ? (uint32_t)stride : -(uint32_t)stride;
    LLVMValueRef counter = bases_of(l, &loop->counter, loop->counter.least);
    LLVMValueRef end = bases_of(l, &loop->end, loop->end.least);
    LLVMValueRef way = stride > 0 ? sub(l, end, counter) : sub(l, counter, end);
    LLVMValueRef by = c32(l, step);
    if (loop->until == UNTIL_EQUAL) {
        LLVMValueRef iterations = v->BuildUDiv(l->b, way, by, "");
        go_on_if(l, compare(l, LLVMIntEQ, v->BuildMul(l->b, iterations, by, ""), way), otherwise);
        return add(l, widen(l, iterations), c64(l, 1));
    }
    /* Where the last step may lead past the largest or smallest number, it would go on. */
    bool beyond = loop->until == UNTIL_BEYOND;
    uint32_t room = step - !beyond, most = loop->is_signed ? INT32_MAX : UINT32_MAX;
    LLVMValueRef limit = c32(l, stride > 0 ? most - room : most + 1 + room);
    static const LLVMIntPredicate below[2][2] = {{LLVMIntULT, LLVMIntULE},
                                                 {LLVMIntSLT, LLVMIntSLE}};
    LLVMIntPredicate not_above = below[loop->is_signed][1];
    LLVMValueRef small = stride > 0 ? end : limit, large = stride > 0 ? limit : end;
    go_on_if(l, compare(l, not_above, small, large), otherwise);
    small = stride > 0 ? counter : end;
    large = stride > 0 ? end : counter;
    LLVMValueRef again = compare(l, below[loop->is_signed][beyond], small, large);
    LLVMValueRef full = v->BuildUDiv(l->b, beyond ? way : sub(l, way, c32(l, 1)), by, "");
    LLVMValueRef more = add(l, widen(l, full), c64(l, 1));
    return add(l, v->BuildSelect(l->b, again, more, c64(l, 0), ""), c64(l, 1));
}

/* What is touched of a window: addresses from the bases on. */
struct range {
    int64_t first, end;
    bool write;
};

static bool is_same_range(const struct touch *a, const struct touch *b) {
    return a->at.bases == b->at.bases && memcmp(a->at.base, b->at.base, a->at.bases) == 0 &&
           a->window == b->window;
}

/* Goes on when the access is aligned in the first iteration, and so in all. */
static void check_alignment(struct jit_lift *l, const struct touch *t,
                            LLVMBasicBlockRef otherwise) {
    uint32_t bytes = hpu_access_bytes(insn_at(l, t->h)->id);
    LLVMValueRef address = bases_of(l, &t->at, t->at.least);
    LLVMValueRef low = l->llvm->BuildAnd(l->b, address, c32(l, bytes - 1), "");
    if (l->timed && bytes > 1)
        go_on_if(l, compare(l, LLVMIntEQ, low, c32(l, 0)), otherwise);
}

static bool is_first_of_range(const struct loop *loop, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (is_same_range(&loop->touch[k], &loop->touch[i]))
            return false;
    return true;
}

static uint32_t ranges_of(const struct loop *loop) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < loop->touches; i++)
        n += is_first_of_range(loop, i);
    return n;
}

/* All accesses of touch i's base and window in the first iteration, as one range. */
static struct range range_of(const struct jit_lift *l, const struct loop *loop, uint32_t i) {
    const struct touch *t = &loop->touch[i];
    struct range r = {.first = t->at.least, .end = t->at.most + 1};
    for (uint32_t k = i; k < loop->touches; k++) {
        const struct touch *other = &loop->touch[k];
        const struct hpu_insn *in = insn_at(l, other->h);
        if (!is_same_range(t, other))
            continue;
        int64_t end = other->at.most + hpu_access_bytes(in->id);
        r.first = other->at.least < r.first ? other->at.least : r.first;
        r.end = end > r.end ? end : r.end;
        r.write |= lift_shape[in->id] == SHAPE_STORE;
    }
    return r;
}

/* Where touch i's range begins in the first iteration. Returns how far from the window's base. */
static LLVMValueRef locate(struct jit_lift *l, struct loop *loop, uint32_t i) {
    const struct touch *t = &loop->touch[i];
    struct range r = range_of(l, loop, i);
    struct jit_window *w = lift_use_window(l, t->window);
    LLVMValueRef address = bases_of(l, &t->at, r.first);
    LLVMValueRef offset = widen(l, sub(l, address, w->base));
    LLVMValueRef pointer = place_in(l, l->b, w->host, offset, l->i8);
    for (uint32_t k = i; k < loop->touches; k++)
        if (is_same_range(t, &loop->touch[k])) {
            loop->touch[k].pointer = pointer;
            loop->touch[k].first_address = address;
            loop->touch[k].first = r.first;
        }
    return offset;
}

/* How many iterations touch i's range stays in its window, `most` at most; to `otherwise` where not
 * even the first does, or where `most` are known to come and some do not. */
static LLVMValueRef turns_in_window(struct jit_lift *l, struct loop *loop, uint32_t i,
                                    LLVMValueRef most, LLVMBasicBlockRef otherwise) {
    const struct jit_llvm *v = l->llvm;
    const struct touch *t = &loop->touch[i];
    struct range r = range_of(l, loop, i);
    LLVMValueRef offset = locate(l, loop, i);
    LLVMValueRef end = add(l, offset, c64(l, (uint64_t)(r.end - r.first)));
    LLVMValueRef size = widen(l, lift_bound(l, t->window, 1, r.write));
    for (uint32_t k = i; k < loop->touches; k++)
        if (is_same_range(t, &loop->touch[k]))
            check_alignment(l, &loop->touch[k], otherwise);
    if (l->region->unprotected)
        return most;
    go_on_if(l, compare(l, LLVMIntULE, end, size), otherwise);
    if (t->stride == 0)
        return most;
    LLVMValueRef way = t->stride < 0 ? offset : sub(l, size, end);
    LLVMValueRef by = c64(l, (uint64_t)(t->stride < 0 ? -(int64_t)t->stride : t->stride));
    if (loop->is_counted) {
        LLVMValueRef needed = v->BuildMul(l->b, sub(l, most, c64(l, 1)), by, "");
        go_on_if(l, compare(l, LLVMIntULE, needed, way), otherwise);
        return most;
    }
    LLVMValueRef iterations = add(l, v->BuildUDiv(l->b, way, by, ""), c64(l, 1));
    return v->BuildSelect(l->b, compare(l, LLVMIntULT, iterations, most), iterations, most, "");
}

/* The place of an access in an iteration, in 64 bits where it is known how far the iteration has
 * led. */
static LLVMValueRef place_of(struct jit_lift *l, const struct touch *t, LLVMValueRef iteration,
                             const struct jit_access *a) {
    LLVMValueRef far = l->llvm->BuildMul(l->b, iteration, c64(l, (uint64_t)(int64_t)t->stride), "");
    if (is_exact(&t->at)) {
        far = add(l, far, c64(l, (uint64_t)(t->at.least - t->first)));
        return place_in(l, l->b, t->pointer, far, a->type);
    }
    LLVMValueRef address = add(l, read_x(l, a->in->rs1), c32(l, (uint32_t)a->in->imm));
    LLVMValueRef start = add(l, t->first_address, narrow(l, far, l->i32));
    far = add(l, far, widen(l, sub(l, address, start)));
    return place_in(l, l->b, t->pointer, far, a->type);
}

/* After so many iterations, all of which took the branch. */
static void count_turns(struct jit_lift *l, const struct jit_block *block, const struct loop *loop,
                        LLVMValueRef iterations, LLVMValueRef cycles) {
    uint32_t accesses[HPU_WINDOWS][3] = {0};
    for (uint32_t i = 0; i < loop->touches; i++) {
        bool store = lift_shape[insn_at(l, loop->touch[i].h)->id] == SHAPE_STORE;
        accesses[loop->touch[i].window][store ? JIT_STORE : JIT_LOAD]++;
    }
    charge(l, l->llvm->BuildMul(l->b, iterations, cycles, ""));
    lift_count_timed(l, slot_at(l, block->start)->count, accesses, iterations);
}

static void last_not_taken(struct jit_lift *l) {
    if (l->timed)
        charge(l, c64(l, 0 - (uint64_t)l->code->timing->taken));
}

/* What the registers hold that every iteration adds to, after so many. */
static void set_strided(struct jit_lift *l, const struct loop *loop, LLVMValueRef iterations) {
    for (unsigned r = 1; r < 32; r++)
        if (loop->stride[r]) {
            LLVMValueRef by = c32(l, (uint32_t)loop->stride[r]);
            LLVMValueRef way = l->llvm->BuildMul(l->b, narrow(l, iterations, l->i32), by, "");
            write_x(l, r, add(l, loop->start[r], way));
        }
}

/* One iteration; the branch is left to the caller. Returns how many iterations are done. */
static LLVMValueRef lift_turn(struct jit_lift *l, const struct jit_block *block,
                              const struct loop *loop, LLVMValueRef counter) {
    LLVMValueRef iteration = get(l, l->i64, counter);
    uint32_t h = block->start, t = 0;
    set_strided(l, loop, iteration);
    for (uint32_t i = 0; i + 1 < block->count; i++, h += insn_at(l, h)->length / 2) {
        if (!lift_is_access(insn_at(l, h))) {
            lift_insn(l, h, NONE, NULL);
            continue;
        }
        struct jit_access a = lift_access_at(l, h);
        lift_move(l, &a, place_of(l, &loop->touch[t++], iteration, &a));
    }
    LLVMValueRef done = add(l, iteration, c64(l, 1));
    set(l, counter, done);
    return done;
}

static void note_start(struct jit_lift *l, struct loop *loop) {
    for (unsigned r = 1; r < 32; r++)
        loop->start[r] = loop->stride[r] ? read_x(l, r) : NULL;
}

/* Makes ready for the first iteration, which begins here. Returns the variable that counts them. */
static LLVMValueRef begin_iterations(struct jit_lift *l, struct loop *loop,
                                     LLVMBasicBlockRef iteration) {
    LLVMValueRef counter = l->llvm->BuildAlloca(l->at_entry, l->i64, "");
    note_start(l, loop);
    set(l, counter, c64(l, 0));
    l->llvm->BuildBr(l->b, iteration);
    at(l, iteration);
    return counter;
}

/* Up to `most` iterations: as many as begin before time is up, which is where the interpreter would
 * stop, but the first, which may be the rest of a block that has begun; and as stay in the windows.
 * To `otherwise` when there is none. */
static LLVMValueRef good_iterations(struct jit_lift *l, struct loop *loop, LLVMValueRef most,
                                    LLVMValueRef cycles, LLVMBasicBlockRef otherwise) {
    const struct jit_llvm *v = l->llvm;
    LLVMBasicBlockRef fewer = new_block(l), on = new_block(l);
    LLVMValueRef iterations = v->BuildAlloca(l->at_entry, l->i64, ""),
                 left = get(l, l->i64, l->left);
    for (uint32_t i = 0; i < loop->touches; i++)
        if (is_first_of_range(loop, i))
            most = turns_in_window(l, loop, i, most, otherwise);
    LLVMValueRef before_last = v->BuildMul(l->b, sub(l, most, c64(l, 1)), cycles, "");
    set(l, iterations, most);
    branch_rarely(l, compare(l, LLVMIntSGT, left, before_last), on, fewer);
    at(l, fewer);
    LLVMValueRef some = compare(l, LLVMIntSGT, left, c64(l, 0));
    LLVMValueRef before = v->BuildSelect(l->b, some, sub(l, left, c64(l, 1)), c64(l, 0), "");
    LLVMValueRef full = v->BuildUDiv(l->b, before, cycles, "");
    set(l, iterations, add(l, full, c64(l, 1)));
    v->BuildBr(l->b, on);
    at(l, on);
    return widen(l, narrow(l, get(l, l->i64, iterations), l->i32)); /* as there is no more time */
}

/* Whether the iterations leave something in the register that their number does not say. */
static bool is_result(const struct jit_block *block, const struct loop *loop, unsigned r) {
    return block->writes >> r & 1 && !loop->stride[r];
}

/* The iterations themselves. Returns how many were done; `over`: whether the branch ended them. */
static LLVMValueRef lift_iterations(struct jit_lift *l, const struct jit_block *block,
                                    struct loop *loop, LLVMValueRef iterations,
                                    LLVMValueRef *over) {
    const struct jit_llvm *v = l->llvm;
    LLVMBasicBlockRef iteration = new_block(l), ended = new_block(l);
    LLVMValueRef counter = begin_iterations(l, loop, iteration);
    LLVMValueRef done = lift_turn(l, block, loop, counter);
    LLVMValueRef all = compare(l, LLVMIntEQ, done, iterations);
    if (loop->is_counted) {
        v->BuildCondBr(l->b, all, ended, iteration);
        at(l, ended);
        return iterations;
    }
    *over = lift_branches(l, insn_at(l, lift_last_of(l, block)), false);
    v->BuildCondBr(l->b, v->BuildOr(l->b, *over, all, ""), ended, iteration);
    at(l, ended);
    return v->BuildFreeze(l->b, done, ""); /* what comes after the loop is not the loop's matter */
}

/* The same as a function of its own, which finds the registers where they were written back, and
 * leaves them there. It returns the iterations, and above them `over`. */
static LLVMValueRef turns_function(const struct jit_lift *l, const struct jit_block *block,
                                   const struct loop *studied) {
    const struct jit_llvm *v = l->llvm;
    LLVMTypeRef types[] = {l->pointer, l->i64};
    struct loop loop = *studied;
    struct jit_lift *in = l->loop;
    LLVMValueRef over = NULL;
    char name[60];
    snprintf(name, sizeof name, "%s_turns_%x", l->name, block->start);
    *in = *l;
    in->module = l->loops;
    in->out = NULL;
    in->host = NULL;
    memset(in->window, 0, sizeof in->window);
    in->b = v->CreateBuilderInContext(l->context);
    in->at_entry = v->CreateBuilderInContext(l->context);
    lift_begin_function(in, name, types, 2);
    LLVMBasicBlockRef begin = new_block(in);
    at(in, begin);
    for (uint32_t i = 0; i < loop.touches; i++)
        if (is_first_of_range(&loop, i))
            locate(in, &loop, i);
    LLVMValueRef done = lift_iterations(in, block, &loop, v->GetParam(in->function, 1), &over);
    for (unsigned r = 1; r < 32; r++)
        if (is_result(block, &loop, r))
            set(in, field(in, offsetof(struct hpu, x) + 4 * r, l->i32), read_x(in, r));
    if (over)
        done = v->BuildOr(in->b, done, v->BuildShl(in->b, widen(in, over), c64(in, 32), ""), "");
    v->BuildRet(in->b, done);
    v->BuildBr(in->at_entry, begin);
    v->DisposeBuilder(in->b);
    v->DisposeBuilder(in->at_entry);
    return v->AddFunction(l->module, name, v->FunctionType(l->i64, types, 2, 0));
}

/* In a function that writes registers back at once, the iterations are another function: that one
 * is worth the time it takes to compile it well. */
static LLVMValueRef call_iterations(struct jit_lift *l, const struct jit_block *block,
                                    struct loop *loop, LLVMValueRef iterations,
                                    LLVMValueRef *over) {
    const struct jit_llvm *v = l->llvm;
    LLVMTypeRef types[] = {l->pointer, l->i64};
    LLVMValueRef arguments[] = {l->h, iterations};
    LLVMValueRef function = turns_function(l, block, loop);
    lift_settle(l);
    lift_show_packet(l);
    note_start(l, loop);
    LLVMValueRef r =
        v->BuildCall2(l->b, v->FunctionType(l->i64, types, 2, 0), function, arguments, 2, "");
    *over = narrow(l, v->BuildLShr(l->b, r, c64(l, 32), ""), l->i1);
    for (unsigned i = 1; i < 32; i++)
        if (is_result(block, loop, i))
            set(l, l->x[i], get(l, l->i32, field(l, offsetof(struct hpu, x) + 4 * i, l->i32)));
    return widen(l, narrow(l, r, l->i32));
}

/* Whether a function of its own makes more of the loop: there are checks to leave out, or
 * iterations to do at once. */
static bool gains(const struct loop *loop) {
    return loop->touches || loop->is_counted;
}

bool lift_is_tight(const struct jit_lift *l, const struct jit_block *block) {
    struct loop loop;
    return study(l, block, &loop) && gains(&loop);
}

bool lift_is_short(const struct jit_lift *l, const struct jit_block *block) {
    struct loop loop;
    return study(l, block, &loop) && gains(&loop) && block->count <= SHORT &&
           ranges_of(&loop) <= FEW_RANGES;
}

bool lift_tight_loop(struct jit_lift *l, const struct jit_block *block) {
    struct loop loop;
    if (!study(l, block, &loop) || (l->settles && !gains(&loop)))
        return false;
    LLVMBasicBlockRef over = new_block(l), early = new_block(l), bad = new_block(l);
    LLVMValueRef cycles = turn_cycles(l, block, &loop), is_over = NULL;
    LLVMValueRef allowed = loop.is_counted ? count_down(l, &loop, bad) : c64(l, TURNS);
    LLVMValueRef iterations = good_iterations(l, &loop, allowed, cycles, bad);
    uint32_t last = lift_last_of(l, block);
    l->region->loops++;
    LLVMValueRef done = l->settles ? call_iterations(l, block, &loop, iterations, &is_over)
                                   : lift_iterations(l, block, &loop, iterations, &is_over);
    set_strided(l, &loop, done);
    count_turns(l, block, &loop, done, cycles);
    lift_settle(l);
    if (loop.is_counted)
        is_over = compare(l, LLVMIntEQ, done, allowed);
    branch_rarely(l, is_over, over, early);
    at(l, early);
    if (loop.is_counted)
        lift_leave_at(l, block->start, HPU_PAUSED, false);
    else
        l->llvm->BuildBr(l->b, block->enter);
    at(l, over);
    last_not_taken(l);
    lift_go_to(l, last + insn_at(l, last)->length / 2);
    at(l, bad);
    l->dirty = block->dirty;
    lift_leave_at(l, block->start, JIT_TURNS, false);
    return true;
}
