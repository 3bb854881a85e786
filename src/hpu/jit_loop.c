/* Loops of one block, the commonest hot code in handlers: a sum, a copy, a checksum.
 *
 * Design notes. In front of the block's usual code stands a copy that takes many turns without any
 * check. It is entered when the budget lasts for them, and when all that the turns may touch lies
 * in the windows; what that is follows from the instructions: registers that the block does not
 * write, or only by adding a constant, plus a value in known limits (a masked index, a byte). Where
 * the branch compares such a register with a fixed one, the turns are known in advance, and LLVM
 * sees a loop without ways out that it may make vectors of; otherwise they are TURNS at most. Where
 * the copy cannot be entered the usual code runs, and the next turn tries again. Cycles,
 * instructions and accesses are counted when the copy is left, times the turns it took. */
#include "hpu/jit_lift.h"

#include <string.h>

#define TURNS         16   /* where it is not known how many there will be */
#define MOST_TURNS    4096 /* at once */
#define MOST_INSNS    48
#define SHORT         16 /* worth unrolling, which a compiler has done to longer ones */
#define MOST_RANGE    (1 << 16)
#define MOST_ACCESSES 24
#define ANY_ALIGNMENT (1u << 16)

/* What is known of a register: the sum of up to two registers as they were when the turn began,
 * plus something from least to most in steps of `step`, a power of two. */
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
    int32_t stride;  /* from turn to turn */
    /* code: the first byte of its range in the first turn, and where that is in the range */
    LLVMValueRef pointer, first_address;
    int64_t first;
};

struct loop {
    struct value x[32];
    int32_t stride[32]; /* what a turn adds to a register */
    struct touch touch[MOST_ACCESSES];
    uint32_t touches;
    /* When the turns are known: the branch compares `counter`, which moves by `step`, with `end`.
     */
    bool is_counted;
    struct value counter, end;
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

/* Of two numbers that are not negative: no bit above the highest of both. */
static struct value joined_bits(struct value a, struct value b) {
    if (!a.is_known || !b.is_known || a.bases || b.bases || a.least < 0 || b.least < 0)
        return (struct value){0};
    uint64_t both = (uint64_t)(a.most | b.most), most = 0;
    while (most < both)
        most = most * 2 + 1;
    return number(0, (int64_t)most, a.step < b.step ? a.step : b.step);
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
        return joined_bits(a, b);
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

/* What a turn does to each register: nothing, one addition of a constant, or anything. */
static void find_strides(const struct lift *l, const struct block *block, struct loop *loop) {
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
static bool add_touch(const struct lift *l, struct loop *loop, uint32_t h) {
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

/* Whether the branch says how many turns there will be. */
static void study_branch(const struct hpu_insn *in, struct loop *loop) {
    struct value a = loop->x[in->rs1], b = loop->x[in->rs2];
    if (in->id != HPU_BNE || !is_exact(&a) || !is_exact(&b))
        return;
    bool first = stride_of(loop, &a) != 0;
    loop->counter = first ? a : b;
    loop->end = first ? b : a;
    loop->is_counted = stride_of(loop, &loop->counter) != 0 && stride_of(loop, &loop->end) == 0;
}

static bool is_simple(const struct lift *l, uint32_t h) {
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
static bool study(const struct lift *l, const struct block *block, struct loop *loop) {
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
        lift_target_of(l, h) != block->start)
        return false;
    study_branch(insn_at(l, h), loop);
    return true;
}

/* ---- code ---- */

/* What a turn costs: the block, the branch taken, and what its accesses lose. */
static LLVMValueRef turn_cycles(struct lift *l, const struct block *block,
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

static void go_on_if(struct lift *l, LLVMValueRef good, LLVMBasicBlockRef otherwise) {
    LLVMBasicBlockRef on = new_block(l);
    l->llvm->BuildCondBr(l->b, good, on, otherwise);
    at(l, on);
}

/* The sum of a value's bases, and more, as it is now. */
static LLVMValueRef bases_of(struct lift *l, const struct value *v, int64_t more) {
    LLVMValueRef r = c32(l, (uint32_t)more);
    for (unsigned i = 0; i < v->bases; i++)
        r = add(l, r, read_x(l, v->base[i]));
    return r;
}

/* How many turns the branch will allow, in 64 bits; to `usual` when it will not end by itself. */
static LLVMValueRef count_down(struct lift *l, const struct loop *loop, LLVMBasicBlockRef usual) {
    const struct llvm *v = l->llvm;
    int32_t stride = stride_of(loop, &loop->counter);
    LLVMValueRef counter = bases_of(l, &loop->counter, loop->counter.least);
    LLVMValueRef end = bases_of(l, &loop->end, loop->end.least);
    LLVMValueRef way = stride > 0 ? sub(l, end, counter) : sub(l, counter, end);
    LLVMValueRef by = c32(l, (uint32_t)(stride > 0 ? stride : -stride));
    LLVMValueRef turns = v->BuildUDiv(l->b, way, by, "");
    go_on_if(l, compare(l, LLVMIntEQ, v->BuildMul(l->b, turns, by, ""), way), usual);
    return add(l, widen(l, turns), c64(l, 1));
}

static bool is_same_range(const struct touch *a, const struct touch *b) {
    return a->at.bases == b->at.bases && memcmp(a->at.base, b->at.base, a->at.bases) == 0 &&
           a->window == b->window;
}

/* Goes on when the access is aligned in the first turn, and so in all. */
static void check_alignment(struct lift *l, const struct touch *t, LLVMBasicBlockRef usual) {
    uint32_t bytes = hpu_access_bytes(insn_at(l, t->h)->id);
    LLVMValueRef address = bases_of(l, &t->at, t->at.least);
    LLVMValueRef low = l->llvm->BuildAnd(l->b, address, c32(l, bytes - 1), "");
    if (l->timed && bytes > 1)
        go_on_if(l, compare(l, LLVMIntEQ, low, c32(l, 0)), usual);
}

/* All accesses of touch i's base and window as one range; to `usual` where it is not inside. */
static void check_range(struct lift *l, struct loop *loop, uint32_t i, LLVMValueRef turns,
                        LLVMBasicBlockRef usual) {
    const struct llvm *v = l->llvm;
    const struct touch *t = &loop->touch[i];
    unsigned window = t->window;
    int64_t first = t->at.least, end = t->at.most + 1;
    bool write = false;
    for (uint32_t k = i; k < loop->touches; k++) {
        const struct touch *other = &loop->touch[k];
        const struct hpu_insn *in = insn_at(l, other->h);
        if (!is_same_range(t, other))
            continue;
        int64_t ends = other->at.most + hpu_access_bytes(in->id);
        first = other->at.least < first ? other->at.least : first;
        end = ends > end ? ends : end;
        write |= lift_shape[in->id] == SHAPE_STORE;
        check_alignment(l, other, usual);
    }
    struct window *w = lift_use_window(l, window);
    int64_t length = t->stride < 0 ? -(int64_t)t->stride : t->stride;
    LLVMValueRef way = v->BuildMul(l->b, sub(l, turns, c64(l, 1)), c64(l, (uint64_t)length), "");
    LLVMValueRef address = bases_of(l, &t->at, first);
    LLVMValueRef offset = sub(l, address, w->base);
    if (t->stride < 0) /* the range begins where it ends */
        offset = sub(l, offset, narrow(l, way, l->i32));
    LLVMValueRef last = add(l, add(l, widen(l, offset), way), c64(l, (uint64_t)(end - first)));
    LLVMValueRef size = widen(l, lift_bound(l, window, 1, write));
    if (!l->region->unprotected)
        go_on_if(l, compare(l, LLVMIntULE, last, size), usual);
    LLVMValueRef pointer = place_in(l, l->b, w->host, widen(l, offset), l->i8);
    if (t->stride < 0)
        pointer = place_in(l, l->b, pointer, way, l->i8);
    for (uint32_t k = i; k < loop->touches; k++)
        if (is_same_range(&loop->touch[i], &loop->touch[k])) {
            loop->touch[k].pointer = pointer;
            loop->touch[k].first_address = address;
            loop->touch[k].first = first;
        }
}

/* The place of an access in a turn, in 64 bits where it is known how far the turn has led. */
static LLVMValueRef place_of(struct lift *l, const struct touch *t, LLVMValueRef turn,
                             const struct access *a) {
    LLVMValueRef far = l->llvm->BuildMul(l->b, turn, c64(l, (uint64_t)(int64_t)t->stride), "");
    if (is_exact(&t->at)) {
        far = add(l, far, c64(l, (uint64_t)(t->at.least - t->first)));
        return place_in(l, l->b, t->pointer, far, a->type);
    }
    LLVMValueRef address = add(l, read_x(l, a->in->rs1), c32(l, (uint32_t)a->in->imm));
    LLVMValueRef start = add(l, t->first_address, narrow(l, far, l->i32));
    far = add(l, far, widen(l, sub(l, address, start)));
    return place_in(l, l->b, t->pointer, far, a->type);
}

/* After so many turns, the last of which took the branch or not. */
static void count_turns(struct lift *l, const struct block *block, const struct loop *loop,
                        LLVMValueRef turns, LLVMValueRef cycles, bool last_taken) {
    LLVMValueRef spent = l->llvm->BuildMul(l->b, turns, cycles, "");
    if (!last_taken && l->timed)
        spent = sub(l, spent, c64(l, l->code->timing->taken));
    charge(l, spent);
    if (!l->timed)
        return;
    LLVMValueRef instructions =
        l->llvm->BuildMul(l->b, turns, c64(l, slot_at(l, block->start)->count), "");
    set(l, l->count, add(l, get(l, l->i64, l->count), instructions));
    for (uint32_t i = 0; i < loop->touches; i++) {
        uint32_t h = loop->touch[i].h;
        bool store = lift_shape[insn_at(l, h)->id] == SHAPE_STORE;
        struct window *w = lift_use_window(l, loop->touch[i].window);
        LLVMValueRef more = store ? l->llvm->BuildShl(l->b, turns, c64(l, 32), "") : turns;
        set(l, w->counts, add(l, get(l, l->i64, w->counts), more));
    }
}

/* One turn; the branch is left to the caller. Returns how many turns are done. */
static LLVMValueRef lift_turn(struct lift *l, const struct block *block, const struct loop *loop,
                              LLVMValueRef counter) {
    LLVMValueRef turn = get(l, l->i64, counter);
    uint32_t h = block->start, t = 0;
    for (uint32_t i = 0; i + 1 < block->count; i++, h += insn_at(l, h)->length / 2) {
        if (!lift_is_access(insn_at(l, h))) {
            lift_insn(l, h, NONE, NULL);
            continue;
        }
        struct access a = lift_access_at(l, h);
        lift_move(l, &a, place_of(l, &loop->touch[t++], turn, &a));
    }
    LLVMValueRef done = add(l, turn, c64(l, 1));
    set(l, counter, done);
    return done;
}

static uint32_t last_of(const struct lift *l, const struct block *block) {
    uint32_t h = block->start;
    for (uint32_t i = 1; i < block->count; i++)
        h += insn_at(l, h)->length / 2;
    return h;
}

void lift_tight_loop(struct lift *l, const struct block *block) {
    struct loop loop;
    if (!study(l, block, &loop))
        return;
    const struct llvm *v = l->llvm;
    l->has_tight_loop = true;
    l->region->has_short_loop |= block->count <= SHORT && !l->settles;
    LLVMBasicBlockRef usual = new_block(l), turn = new_block(l);
    LLVMBasicBlockRef over = new_block(l), ended = new_block(l), many = new_block(l);
    LLVMValueRef cycles = turn_cycles(l, block, &loop), turns = c64(l, TURNS), allowed = NULL;
    uint32_t last = last_of(l, block);
    if (loop.is_counted) {
        allowed = count_down(l, &loop, usual);
        LLVMValueRef less = compare(l, LLVMIntULT, allowed, c64(l, MOST_TURNS));
        turns = v->BuildSelect(l->b, less, allowed, c64(l, MOST_TURNS), "");
    }
    LLVMValueRef all = v->BuildMul(l->b, cycles, turns, "");
    go_on_if(l, compare(l, LLVMIntSGT, get(l, l->i64, l->left), all), usual);
    for (uint32_t i = 0; i < loop.touches; i++)
        if (!loop.touch[i].pointer)
            check_range(l, &loop, i, turns, usual);
    LLVMValueRef counter = v->BuildAlloca(l->at_entry, l->i64, "");
    set(l, counter, c64(l, 0));
    v->BuildBr(l->b, turn);

    at(l, turn);
    LLVMValueRef done = lift_turn(l, block, &loop, counter);
    if (loop.is_counted) {
        v->BuildCondBr(l->b, compare(l, LLVMIntEQ, done, turns), ended, turn);
        at(l, ended);
        v->BuildCondBr(l->b, compare(l, LLVMIntEQ, turns, allowed), over, many);
        done = turns;
    } else {
        v->BuildCondBr(l->b, lift_taken(l, insn_at(l, last)), ended, over);
        at(l, ended);
        v->BuildCondBr(l->b, compare(l, LLVMIntEQ, done, turns), many, turn);
    }
    at(l, many);
    count_turns(l, block, &loop, turns, cycles, true);
    uint32_t written = l->dirty; /* on both ways */
    lift_settle(l);
    v->BuildBr(l->b, block->enter);
    at(l, over);
    count_turns(l, block, &loop, done, cycles, false);
    l->dirty = written;
    lift_go_to(l, last + insn_at(l, last)->length / 2);
    l->dirty = block->dirty;
    at(l, usual);
}
