/* The exits of a function.
 *
 * Design notes. There are many more exits than instructions, and hardly any is ever taken, so they
 * must cost nothing to compile. An exit is a row of a table (struct jit_exit): where the
 * interpreter goes on, what it is told, and what was counted for the rest of the block and is to be
 * taken back. A check that fails jumps to a block behind all other code, which sets the row's
 * number and goes on to the one place that returns the row; all else that comes with it is the
 * counters as they are.
 *
 * Registers are written back where they can be without much harm. In a small region, which may be
 * the loop that everything waits for, that is at the exits; blocks share the places that do it.
 * In a larger one that would be most of its code: there, a register goes back as soon as something
 * follows that might leave, so that the exits find all of them in place. */
#include <stdlib.h>
#include <string.h>

#include "base/grow.h"
#include "hpu/jit_lift.h"

/* ---- rows ---- */

/* The number of a row; the function is not made when there is no memory for it. */
static uint32_t add_row(struct jit_lift *l, const struct jit_exit *row) {
    uint32_t last = l->exit_count - 1;
    if (l->exit_count && memcmp(&l->exits[last], row, sizeof *row) == 0)
        return last;
    if (!ROOM_FOR_ONE(l->exits, l->exit_count, l->exit_room, 64)) {
        l->is_short_of_memory = true;
        return 0;
    }
    l->exits[l->exit_count] = *row;
    return l->exit_count++;
}

static void note_ahead(const struct jit_lift *l, struct jit_exit *row) {
    memcpy(row->ahead, l->ahead, sizeof row->ahead);
    memcpy(row->words, l->words, sizeof row->words);
}

static uint32_t add_exit(struct jit_lift *l, uint32_t h, uint32_t status, bool counted) {
    struct jit_exit row;
    memset(&row, 0, sizeof row); /* all of it: it is compared */
    row.pc = pc_of(l, h);
    row.status = status;
    row.mid_block = counted;
    if (counted) {
        row.cycles = (int32_t)(slot_at(l, h)->cycles + l->later_cycles);
        row.count = slot_at(l, h)->count + l->later_count;
        note_ahead(l, &row);
    }
    return add_row(l, &row);
}

/* ---- registers ---- */

static void put_back(struct jit_lift *l, uint32_t registers) {
    for (unsigned r = 1; r < 32; r++)
        if (registers >> r & 1)
            l->llvm->BuildStore(l->b, read_x(l, r),
                                field(l, offsetof(struct hpu, x) + 4 * r, l->i32));
}

static void put_words(struct jit_lift *l) {
    bool any = false;
    for (unsigned i = 0; i < SPIN_WORDS; i++) {
        if (l->held[i])
            set(l, field(l, offsetof(struct hpu, word) + 4 * i, l->i32), l->held[i]);
        any |= l->held[i] != NULL;
    }
    if (any)
        note_words(l);
}

void lift_tell_words(struct jit_lift *l) {
    put_words(l);
    memset(l->held, 0, sizeof l->held);
    l->has_noted = false;
}

void lift_settle(struct jit_lift *l) {
    if (!l->settles)
        return;
    put_back(l, l->dirty);
    l->dirty = 0;
}

/* Where a block's registers are written back. Most were changed before its parent already: that
 * one's place writes them, with the values that came with the jump, where those are few. */
void lift_put_back(struct jit_lift *l, const struct jit_block *block) {
    const struct jit_block *parent = block->parent == NONE ? NULL : &l->block[block->parent];
    at(l, block->put_back);
    if (parent && __builtin_popcount(block->dirty & parent->dirty) >
                      __builtin_popcount(parent->writes & parent->dirty)) {
        put_back(l, block->dirty & ~parent->dirty);
        l->llvm->BuildBr(l->b, parent->put_back);
    } else {
        put_back(l, block->dirty);
        l->llvm->BuildBr(l->b, l->out);
    }
}

/* A block to jump to in order to leave from here by a row, or if there is `more` by one so much
 * behind it. It stands apart, so that what is rare is not in the way. */
static LLVMBasicBlockRef exit_by(struct jit_lift *l, uint32_t row, LLVMValueRef more) {
    lift_settle(l);
    LLVMBasicBlockRef here = l->llvm->GetInsertBlock(l->b), off = new_rare_block(l);
    at(l, off);
    put_back(l, l->dirty & ~l->lifted->dirty);
    put_words(l);
    set(l, l->row, more ? add(l, more, c32(l, row)) : c32(l, row));
    l->llvm->BuildBr(l->b, l->lifted->put_back);
    at(l, here);
    return off;
}

static void demand(struct jit_lift *l, LLVMValueRef good, uint32_t row) {
    LLVMBasicBlockRef off = exit_by(l, row, NULL), on = new_block(l);
    branch_rarely(l, good, on, off);
    at(l, on);
}

/* ---- leaving ---- */

LLVMBasicBlockRef lift_exit_at(struct jit_lift *l, uint32_t h, uint32_t status, bool counted) {
    return exit_by(l, add_exit(l, h, status, counted), NULL);
}

void lift_leave_at(struct jit_lift *l, uint32_t h, uint32_t status, bool counted) {
    l->llvm->BuildBr(l->b, lift_exit_at(l, h, status, counted));
}

void lift_demand(struct jit_lift *l, LLVMValueRef good, uint32_t status, uint32_t h, bool counted) {
    demand(l, good, add_exit(l, h, status, counted));
}

void lift_demand_between(struct jit_lift *l, LLVMValueRef good, uint32_t status, uint32_t h,
                         uint32_t lost) {
    struct jit_exit row;
    memset(&row, 0, sizeof row);
    row.pc = pc_of(l, h);
    row.status = status;
    row.cycles = (int32_t)(l->later_cycles - lost);
    row.count = l->later_count;
    note_ahead(l, &row);
    demand(l, good, add_row(l, &row));
}

void lift_demand_none(struct jit_lift *l, LLVMValueRef stop, uint32_t h) {
    uint32_t first = add_exit(l, h, HPU_FAULTED, true);
    for (uint32_t other = HPU_FAULTED + 1; other <= HPU_WAITING; other++)
        add_exit(l, h, other, true);
    LLVMBasicBlockRef off = exit_by(l, first - HPU_FAULTED, stop), on = new_block(l);
    branch_rarely(l, compare(l, LLVMIntEQ, stop, c32(l, 0)), on, off);
    at(l, on);
}

void lift_show_packet(struct jit_lift *l) {
    size_t host = offsetof(struct hpu, window) + offsetof(struct hpu_window, host);
    set(l, field(l, host, l->pointer), l->host);
}

void lift_leave_to(struct jit_lift *l, LLVMValueRef pc, const struct jit_exit *taken) {
    put_back(l, l->dirty);
    if (taken) /* else nobody looks any more */
        lift_show_packet(l);
    l->llvm->BuildStore(l->b, pc, field(l, offsetof(struct hpu, pc), l->i32));
    set(l, l->taken, c64(l, (uintptr_t)taken));
    l->llvm->BuildBr(l->b, l->end);
}

/* Registers in which nobody looks any more stay as they were, for the next call like this one. */
void lift_return_kept(struct jit_lift *l) {
    if (l->timed || l->settles || l->changes_more)
        return;
    LLVMBasicBlockRef kept = new_block(l), not = new_block(l);
    branch_rarely(l, is_ready(l, offsetof(struct hpu, unready.registers)), kept, not );
    at(l, kept);
    LLVMValueRef value = widen(l, read_x(l, 10));
    value = l->llvm->BuildShl(l->b, value, c64(l, HPU_KEPT_VALUE), "");
    l->llvm->BuildRet(l->b, l->llvm->BuildOr(l->b, value, c64(l, HPU_KEPT), ""));
    at(l, not );
}

/* ---- what they share ---- */

void lift_exits(struct jit_lift *l) {
    at(l, l->out);
    lift_show_packet(l);
    LLVMValueRef distance = l->llvm->BuildMul(l->b, widen(l, get(l, l->i32, l->row)),
                                              c64(l, sizeof(struct jit_exit)), "");
    set(l, l->taken, add(l, c64(l, (uintptr_t)l->exits), distance));
    l->llvm->BuildBr(l->b, l->end);

    at(l, l->end);
    LLVMValueRef left = get(l, l->i64, l->left), spent = sub(l, l->left_at_start, left);
    LLVMValueRef horizon = get(l, l->i64, field(l, offsetof(struct hpu, horizon), l->i64));
    set(l, field(l, offsetof(struct hpu, cycles), l->i64), sub(l, horizon, left));
    LLVMValueRef done = l->timed ? get(l, l->i64, l->done) : spent; /* an instruction is a cycle */
    add_to(l, offsetof(struct hpu, instret), l->i64, done);
    l->llvm->BuildRet(l->b, get(l, l->i64, l->taken));
}
