/* From RISC-V to LLVM's IR: one region becomes one function.
 *
 * Design notes. Registers are stack variables, which LLVM's first pass turns into values. Memory is
 * reached through windows, as in the interpreter: each load and store is compiled for the window
 * that it hit when it was interpreted. Accesses of a block that go through the same value of the
 * same register are checked as one, before the first of them; LLVM then sees plain loads and stores
 * side by side. Where such a check fails, the function is left, and the interpreter finds out what
 * there is to be found: another window, the device, a fault. Accesses that were seen to go to the
 * device, or now to this window and now to that, are calls.
 *
 * Leaving writes back the registers that may have changed, and takes back what was counted for the
 * part of the block that was not executed. Most ways out are where a block begins, and share one
 * place: nothing has been counted yet there. */
#include "hpu/jit_llvm.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "hpu/interp.h"

#define NONE              UINT32_MAX
#define MOST_BLOCKS       500u
#define MOST_INSTRUCTIONS 4000u /* of a region; the rest is another's */
#define MOST_GROUPS       64u
#define MOST_BOUNDS       64u

enum shape {
    SHAPE_NONE,
    SHAPE_RR,
    SHAPE_RI,
    SHAPE_DIV,
    SHAPE_CONST,
    SHAPE_LOAD,
    SHAPE_STORE,
    SHAPE_FLOAD,
    SHAPE_FSTORE,
    SHAPE_BRANCH,
    SHAPE_JAL,
    SHAPE_JALR,
    SHAPE_FENCE,
    SHAPE_TRAP,
    SHAPE_CSR,
    SHAPE_LR,
    SHAPE_SC,
    SHAPE_AMO,
    SHAPE_FP,
};

static const uint8_t shape_of[HPU_INSN_COUNT] = {
#define INSN(id, name, operands, match, mask, ext, timing, shape, body) [HPU_##id] = SHAPE_##shape,
#include "hpu/isa.def"
#undef INSN
};

struct block {
    uint32_t start;                /* halfword */
    uint32_t count;                /* instructions, of which the last may be one to leave at */
    uint32_t dirty, writes;        /* registers: that may have changed before it; that it changes */
    bool is_looped;                /* a jump backwards leads here */
    LLVMBasicBlockRef enter, body; /* with and without a look at the limit */
    LLVMBasicBlockRef away;        /* leaves before it, with the status that was set */
};

/* Accesses through one value of a register, checked together. */
struct group {
    uint8_t reg, window;
    uint32_t version; /* how often the block has written the register before */
    uint32_t first;   /* instruction of the block at which it is checked */
    int32_t least, end;
    uint32_t aligned; /* mask that must be 0 in reg + least */
    bool write, alone;
    LLVMValueRef pointer; /* to reg + least */
};

/* Where a window's access of `span` bytes may begin: below this. */
struct bound {
    uint8_t window;
    bool write;
    uint32_t span;
    LLVMValueRef value;
};

struct window {
    bool used;
    LLVMValueRef base, host, extra[3]; /* load, store, amo */
    LLVMValueRef counts;               /* loads, and stores in the high half */
};

struct lift {
    const struct llvm *llvm;
    LLVMContextRef context;
    LLVMModuleRef module;
    LLVMBuilderRef b, at_entry;
    struct jit_region *region;
    const struct hpu_code *code;
    bool timed;
    LLVMTypeRef i1, i8, i16, i32, i64, pointer;
    LLVMValueRef function, h, left_at_start, seen, generation;
    LLVMValueRef x[32];                              /* of x0: none */
    LLVMValueRef left, count, pc, status, mid_block; /* variables */
    LLVMBasicBlockRef entry, out;
    LLVMValueRef likely;
    unsigned prof;
    struct window window[HPU_WINDOWS];
    struct bound bound[MOST_BOUNDS];
    uint32_t bounds;

    struct block *block;
    uint32_t blocks, instructions;
    uint32_t *block_at; /* [halfword] */
    uint32_t *site;     /* places that calls return to: halfwords */
    uint32_t sites;

    /* of the block that is being lifted */
    struct group group[MOST_GROUPS];
    uint32_t groups;
    uint8_t *group_of; /* [instruction]: + 1 */
    uint32_t dirty;    /* registers that may have changed until now */
};

/* ---- the program ---- */

static uint32_t halfwords(const struct lift *l) {
    return l->code->bytes / 2;
}
static const struct hpu_insn *insn_at(const struct lift *l, uint32_t h) {
    return &l->code->insn[l->code->slot_at[h]];
}
static const struct hpu_slot *slot_at(const struct lift *l, uint32_t h) {
    return &l->code->slot[l->code->slot_at[h]];
}
static uint32_t pc_of(const struct lift *l, uint32_t h) {
    return l->code->base + 2 * h;
}

/* Where a branch or jump leads, or NONE when that is outside. */
static uint32_t target_of(const struct lift *l, uint32_t h) {
    int64_t to = (int64_t)h + insn_at(l, h)->imm / 2;
    return to >= 0 && to < halfwords(l) ? (uint32_t)to : NONE;
}

static bool is_jump(const struct hpu_insn *in) {
    unsigned shape = shape_of[in->id];
    return shape == SHAPE_BRANCH || shape == SHAPE_JAL;
}

/* Where the jump through a register at h leads when the instruction before it made the address
 * (auipc or lui, then jalr: a call), NONE when it did not. `before`: that instruction, or NONE. */
static uint32_t far_target_of(const struct lift *l, uint32_t h, uint32_t before) {
    const struct hpu_insn *in = insn_at(l, h);
    if (before == NONE || shape_of[in->id] != SHAPE_JALR)
        return NONE;
    const struct hpu_insn *made = insn_at(l, before);
    if (shape_of[made->id] != SHAPE_CONST || made->rd != in->rs1 || !in->rs1)
        return NONE;
    uint32_t pc = ((uint32_t)slot_at(l, before)->a.imm + (uint32_t)in->imm) & ~1u;
    uint32_t offset = pc - l->code->base;
    return offset < l->code->bytes ? offset / 2 : NONE;
}

/* What the interpreter has to do: traps, what is no instruction, and what leads out of the program.
 */
static bool is_left(const struct lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    unsigned shape = shape_of[in->id];
    if (shape == SHAPE_NONE || shape == SHAPE_TRAP)
        return true;
    if (is_jump(in) && target_of(l, h) == NONE)
        return true;
    bool goes_on = shape != SHAPE_JAL && shape != SHAPE_JALR;
    return goes_on && h + in->length / 2 >= halfwords(l);
}

static void want_block(struct lift *l, uint32_t h, uint32_t from) {
    uint32_t i = l->block_at[h];
    if (i == NONE && l->blocks < MOST_BLOCKS && l->instructions < MOST_INSTRUCTIONS) {
        i = l->block_at[h] = l->blocks++;
        l->block[i] = (struct block){.start = h};
    }
    if (i != NONE && h <= from)
        l->block[i].is_looped = true;
}

static void want_site(struct lift *l, uint32_t h) {
    for (uint32_t i = 0; i < l->sites; i++)
        if (l->site[i] == h)
            return;
    if (h < halfwords(l) && l->sites < MOST_BLOCKS) {
        l->site[l->sites++] = h;
        want_block(l, h, h); /* a return may lead backwards */
    }
}

/* Finds the block's end and where it leads. */
static void scan_block(struct lift *l, struct block *block) {
    uint32_t h = block->start, before = NONE;
    for (;; before = h, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        block->count++;
        l->instructions++;
        if (is_left(l, h))
            return;
        block->writes |= 1u << hpu_insn_writes(in);
        if (hpu_insn_ends_block(in))
            break;
    }
    const struct hpu_insn *last = insn_at(l, h);
    uint32_t after = h + last->length / 2, target;
    bool is_call = shape_of[last->id] == SHAPE_JAL || shape_of[last->id] == SHAPE_JALR;
    if (is_jump(last) && (target = target_of(l, h)) != NONE)
        want_block(l, target, h);
    if ((target = far_target_of(l, h, before)) != NONE)
        want_block(l, target, h);
    if (is_call && last->rd)
        want_site(l, after);
    else if (!is_call)
        want_block(l, after, h);
}

static bool add_dirty(struct lift *l, uint32_t h, uint32_t dirty) {
    uint32_t i = h == NONE ? NONE : l->block_at[h];
    if (i == NONE || (l->block[i].dirty & dirty) == dirty)
        return false;
    l->block[i].dirty |= dirty;
    return true;
}

/* Which registers may have changed where a block begins. */
static void spread_dirty(struct lift *l) {
    bool changed = true;
    while (changed) {
        changed = false;
        for (uint32_t i = 0; i < l->blocks; i++) {
            const struct block *block = &l->block[i];
            uint32_t dirty = (block->dirty | block->writes) & ~1u, h = block->start;
            uint32_t before = NONE;
            for (uint32_t n = 1; n < block->count; n++) {
                before = h;
                h += insn_at(l, h)->length / 2;
            }
            const struct hpu_insn *last = insn_at(l, h);
            if (is_left(l, h))
                continue;
            if (is_jump(last))
                changed |= add_dirty(l, target_of(l, h), dirty);
            changed |= add_dirty(l, far_target_of(l, h, before), dirty);
            if (shape_of[last->id] == SHAPE_JALR)
                for (uint32_t k = 0; k < l->sites; k++)
                    changed |= add_dirty(l, l->site[k], dirty);
            else if (shape_of[last->id] != SHAPE_JAL)
                changed |= add_dirty(l, h + last->length / 2, dirty);
        }
    }
}

/* ---- short forms ---- */

static LLVMValueRef c32(struct lift *l, uint32_t value) {
    return l->llvm->ConstInt(l->i32, value, 0);
}
static LLVMValueRef c64(struct lift *l, uint64_t value) {
    return l->llvm->ConstInt(l->i64, value, 0);
}
static LLVMValueRef add(struct lift *l, LLVMValueRef a, LLVMValueRef b) {
    return l->llvm->BuildAdd(l->b, a, b, "");
}
static LLVMValueRef sub(struct lift *l, LLVMValueRef a, LLVMValueRef b) {
    return l->llvm->BuildSub(l->b, a, b, "");
}
static LLVMValueRef widen(struct lift *l, LLVMValueRef v) {
    return l->llvm->BuildZExt(l->b, v, l->i64, "");
}
static LLVMValueRef narrow(struct lift *l, LLVMValueRef v, LLVMTypeRef type) {
    return l->llvm->BuildTrunc(l->b, v, type, "");
}
static LLVMValueRef compare(struct lift *l, LLVMIntPredicate how, LLVMValueRef a, LLVMValueRef b) {
    return l->llvm->BuildICmp(l->b, how, a, b, "");
}
static LLVMValueRef get(struct lift *l, LLVMTypeRef type, LLVMValueRef variable) {
    return l->llvm->BuildLoad2(l->b, type, variable, "");
}
static void set(struct lift *l, LLVMValueRef variable, LLVMValueRef value) {
    l->llvm->BuildStore(l->b, value, variable);
}
static LLVMBasicBlockRef new_block(struct lift *l) {
    return l->llvm->AppendBasicBlockInContext(l->context, l->function, "");
}
static void at(struct lift *l, LLVMBasicBlockRef block) {
    l->llvm->PositionBuilderAtEnd(l->b, block);
}

/* The address of a byte at a distance, as a pointer to `type`. */
static LLVMValueRef place_in(struct lift *l, LLVMBuilderRef b, LLVMValueRef from,
                             LLVMValueRef distance, LLVMTypeRef type) {
    LLVMValueRef p = l->llvm->BuildGEP2(b, l->i8, from, &distance, 1, "");
    return type == l->i8 ? p : l->llvm->BuildBitCast(b, p, l->llvm->PointerType(type, 0), "");
}
static LLVMValueRef field(struct lift *l, size_t offset, LLVMTypeRef type) {
    return place_in(l, l->b, l->h, c64(l, offset), type);
}

static LLVMValueRef call(struct lift *l, const void *function, LLVMTypeRef result,
                         LLVMValueRef *arguments, unsigned n) {
    LLVMTypeRef types[5];
    for (unsigned i = 0; i < n; i++)
        types[i] = l->llvm->TypeOf(arguments[i]);
    LLVMTypeRef type = l->llvm->FunctionType(result, types, n, 0);
    LLVMTypeRef pointer = l->llvm->PointerType(type, 0);
    LLVMValueRef to = l->llvm->ConstIntToPtr(c64(l, (uintptr_t)function), pointer);
    return l->llvm->BuildCall2(l->b, type, to, arguments, n, "");
}

/* `otherwise` is rare. */
static void branch_rarely(struct lift *l, LLVMValueRef usual, LLVMBasicBlockRef then,
                          LLVMBasicBlockRef otherwise) {
    LLVMValueRef branch = l->llvm->BuildCondBr(l->b, usual, then, otherwise);
    l->llvm->SetMetadata(branch, l->prof, l->likely);
}

static LLVMValueRef read_x(struct lift *l, unsigned reg) {
    return reg ? get(l, l->i32, l->x[reg]) : c32(l, 0);
}
static void write_x(struct lift *l, unsigned reg, LLVMValueRef value) {
    if (!reg)
        return;
    set(l, l->x[reg], value);
    l->dirty |= 1u << reg;
}

static void charge(struct lift *l, LLVMValueRef cycles) {
    set(l, l->left, sub(l, get(l, l->i64, l->left), cycles));
}

/* ---- leaving ---- */

/* Ends the function, with the status unless that has been set. `halfway`: inside a block, at an
 * instruction that was counted. */
static void leave(struct lift *l, LLVMValueRef pc, LLVMValueRef status,
                  const struct hpu_slot *halfway) {
    if (halfway) {
        charge(l, c64(l, 0 - (uint64_t)halfway->cycles));
        if (l->timed)
            set(l, l->count, sub(l, get(l, l->i64, l->count), c64(l, halfway->count)));
    }
    for (unsigned r = 1; r < 32; r++)
        if (l->dirty >> r & 1)
            l->llvm->BuildStore(l->b, read_x(l, r),
                                field(l, offsetof(struct hpu, x) + 4 * r, l->i32));
    set(l, l->pc, pc);
    if (status)
        set(l, l->status, status);
    set(l, l->mid_block, l->llvm->ConstInt(l->i8, halfway != NULL, 0));
    l->llvm->BuildBr(l->b, l->out);
}

static void leave_at(struct lift *l, uint32_t h, uint32_t status, bool halfway) {
    leave(l, c32(l, pc_of(l, h)), c32(l, status), halfway ? slot_at(l, h) : NULL);
}

static void add_to(struct lift *l, size_t offset, LLVMTypeRef type, LLVMValueRef more) {
    LLVMValueRef place = field(l, offset, type);
    l->llvm->BuildStore(l->b, add(l, get(l, type, place), more), place);
}

/* What all ways out share. */
static void emit_out(struct lift *l) {
    at(l, l->out);
    LLVMValueRef spent = sub(l, l->left_at_start, get(l, l->i64, l->left));
    add_to(l, offsetof(struct hpu, cycles), l->i64, spent);
    add_to(l, offsetof(struct hpu, instret), l->i64, l->timed ? get(l, l->i64, l->count) : spent);
    l->llvm->BuildStore(l->b, get(l, l->i32, l->pc), field(l, offsetof(struct hpu, pc), l->i32));
    l->llvm->BuildStore(l->b, get(l, l->i8, l->mid_block),
                        field(l, offsetof(struct hpu, mid_block), l->i8));
    for (size_t i = 0; i < HPU_WINDOWS && l->timed; i++) {
        if (!l->window[i].used)
            continue;
        size_t offset = offsetof(struct hpu, window) + i * sizeof(struct hpu_window);
        LLVMValueRef counts = get(l, l->i64, l->window[i].counts);
        add_to(l, offset + offsetof(struct hpu_window, loads), l->i32, narrow(l, counts, l->i32));
        LLVMValueRef high = l->llvm->BuildLShr(l->b, counts, c64(l, 32), "");
        add_to(l, offset + offsetof(struct hpu_window, stores), l->i32, narrow(l, high, l->i32));
    }
    l->llvm->BuildRet(l->b, get(l, l->i32, l->status));
}

/* The exact local time at the instruction in a slot, whose block has been charged. */
static LLVMValueRef now_at(struct lift *l, const struct hpu_slot *slot) {
    LLVMValueRef start = get(l, l->i64, field(l, offsetof(struct hpu, cycles), l->i64));
    LLVMValueRef spent = sub(l, l->left_at_start, get(l, l->i64, l->left));
    return sub(l, add(l, start, spent), c64(l, slot->cycles));
}

static LLVMValueRef instret_at(struct lift *l, const struct hpu_slot *slot) {
    LLVMValueRef start = get(l, l->i64, field(l, offsetof(struct hpu, instret), l->i64));
    LLVMValueRef done =
        l->timed ? get(l, l->i64, l->count) : sub(l, l->left_at_start, get(l, l->i64, l->left));
    return sub(l, add(l, start, done), c64(l, slot->count));
}

/* ---- windows ---- */

static LLVMValueRef window_field(struct lift *l, unsigned window, size_t offset, LLVMTypeRef type) {
    size_t at_byte = offsetof(struct hpu, window) + window * sizeof(struct hpu_window) + offset;
    LLVMValueRef p = place_in(l, l->at_entry, l->h, c64(l, at_byte), type);
    return l->llvm->BuildLoad2(l->at_entry, type, p, "");
}

/* Read once, when the function begins: nothing changes windows while a handler runs. */
static struct window *use_window(struct lift *l, unsigned number) {
    static const size_t extras[3] = {offsetof(struct hpu_window, load_extra),
                                     offsetof(struct hpu_window, store_extra),
                                     offsetof(struct hpu_window, amo_extra)};
    struct window *w = &l->window[number];
    if (w->used)
        return w;
    w->used = true;
    w->base = window_field(l, number, offsetof(struct hpu_window, base), l->i32);
    w->host = window_field(l, number, offsetof(struct hpu_window, host), l->pointer);
    for (int i = 0; i < 3 && l->timed; i++)
        w->extra[i] =
            l->llvm->BuildZExt(l->at_entry, window_field(l, number, extras[i], l->i8), l->i64, "");
    w->counts = l->llvm->BuildAlloca(l->at_entry, l->i64, "");
    l->llvm->BuildStore(l->at_entry, c64(l, 0), w->counts);
    return w;
}

static LLVMValueRef find_bound(struct lift *l, unsigned window, uint32_t span, bool write) {
    for (uint32_t i = 0; i < l->bounds; i++)
        if (l->bound[i].window == window && l->bound[i].span == span && l->bound[i].write == write)
            return l->bound[i].value;
    size_t room =
        write ? offsetof(struct hpu_window, write_room) : offsetof(struct hpu_window, read_room);
    LLVMValueRef size = window_field(l, window, room, l->i32); /* of single bytes */
    LLVMValueRef less = l->llvm->BuildSub(l->at_entry, size, c32(l, span - 1), "");
    LLVMValueRef fits = l->llvm->BuildICmp(l->at_entry, LLVMIntUGE, size, c32(l, span), "");
    LLVMValueRef value = l->llvm->BuildSelect(l->at_entry, fits, less, c32(l, 0), "");
    if (l->bounds < MOST_BOUNDS)
        l->bound[l->bounds++] = (struct bound){(uint8_t)window, write, span, value};
    return value;
}

static bool is_access(const struct hpu_insn *in) {
    unsigned shape = shape_of[in->id];
    return shape == SHAPE_LOAD || shape == SHAPE_STORE || shape == SHAPE_FLOAD ||
           shape == SHAPE_FSTORE || shape == SHAPE_AMO;
}

static unsigned guess_at(const struct lift *l, uint32_t h) {
    unsigned guess = atomic_load_explicit(&slot_at(l, h)->a.window, memory_order_relaxed);
    return guess / HPU_WINDOW_STEP;
}

static bool joins(const struct lift *l, const struct group *g, const struct group *to) {
    return !g->alone && !to->alone && g->reg == to->reg && g->version == to->version &&
           g->window == to->window && g->aligned == to->aligned &&
           (!g->aligned || !((g->least - to->least) & (int32_t)g->aligned)) && l->groups;
}

static void add_access(struct lift *l, uint32_t index, const struct group *g) {
    for (uint32_t i = 0; i < l->groups; i++) {
        struct group *to = &l->group[i];
        if (!joins(l, g, to))
            continue;
        to->least = g->least < to->least ? g->least : to->least;
        to->end = g->end > to->end ? g->end : to->end;
        to->write |= g->write;
        l->group_of[index] = (uint8_t)(i + 1);
        return;
    }
    if (l->groups == MOST_GROUPS)
        return; /* in none: a call */
    l->group[l->groups++] = *g;
    l->group_of[index] = (uint8_t)l->groups;
}

/* Sorts the block's accesses into groups. In the timed mode one group is one alignment, because an
 * access that crosses a word takes longer; that is not expected. */
static void group_accesses(struct lift *l, const struct block *block) {
    uint32_t version[32] = {0}, h = block->start;
    l->groups = 0;
    for (uint32_t i = 0; i < block->count; i++, h += insn_at(l, h)->length / 2) {
        const struct hpu_insn *in = insn_at(l, h);
        l->group_of[i] = 0;
        bool atomic = shape_of[in->id] == SHAPE_AMO;
        if (is_access(in) && !is_left(l, h) && !l->region->by_call[l->code->slot_at[h]]) {
            uint32_t bytes = hpu_access_bytes(in->id);
            int32_t offset = atomic ? 0 : in->imm;
            add_access(l, i,
                       &(struct group){.reg = in->rs1,
                                       .window = (uint8_t)guess_at(l, h),
                                       .version = version[in->rs1],
                                       .first = version[in->rs1] ? i : 0,
                                       .least = offset,
                                       .end = offset + (int32_t)bytes,
                                       .aligned = atomic || l->timed ? bytes - 1 : 0,
                                       .write = shape_of[in->id] != SHAPE_LOAD &&
                                                shape_of[in->id] != SHAPE_FLOAD,
                                       .alone = atomic});
        }
        version[hpu_insn_writes(in)]++;
    }
}

/* Goes on in a new block when `good`; else the function is left before the instruction at h, or
 * before its block when nothing of that has been counted. */
static void demand(struct lift *l, LLVMValueRef good, uint32_t status, const struct block *block,
                   uint32_t h) {
    LLVMBasicBlockRef on = new_block(l), off = new_block(l);
    branch_rarely(l, good, on, off);
    at(l, off);
    if (h == block->start) {
        set(l, l->status, c32(l, status));
        l->llvm->BuildBr(l->b, block->away);
    } else {
        leave_at(l, h, status, true);
    }
    at(l, on);
}

static void check_group(struct lift *l, struct group *g, const struct block *block, uint32_t h) {
    struct window *w = use_window(l, g->window);
    LLVMValueRef address = add(l, read_x(l, g->reg), c32(l, (uint32_t)g->least));
    LLVMValueRef offset = sub(l, address, w->base);
    if (!l->region->unchecked) {
        LLVMValueRef bound = find_bound(l, g->window, (uint32_t)(g->end - g->least), g->write);
        demand(l, compare(l, LLVMIntULT, offset, bound), JIT_MISS, block, h);
    }
    if (g->aligned) {
        LLVMValueRef low = l->llvm->BuildAnd(l->b, address, c32(l, g->aligned), "");
        demand(l, compare(l, LLVMIntEQ, low, c32(l, 0)), JIT_MISS, block, h);
    }
    g->pointer = place_in(l, l->b, w->host, widen(l, offset), l->i8);
}

static void check_groups(struct lift *l, uint32_t index, const struct block *block, uint32_t h) {
    for (uint32_t i = 0; i < l->groups; i++)
        if (l->group[i].first == index)
            check_group(l, &l->group[i], block, h);
}

/* ---- instructions ---- */

/* A value by what the instruction computes from a and b. The same as the bodies in isa.def. */
static LLVMValueRef shifted(struct lift *l, LLVMValueRef a, LLVMValueRef b, unsigned id) {
    LLVMValueRef by = l->llvm->BuildAnd(l->b, b, c32(l, 31), "");
    return id == HPU_SLL || id == HPU_SLLI   ? l->llvm->BuildShl(l->b, a, by, "")
           : id == HPU_SRL || id == HPU_SRLI ? l->llvm->BuildLShr(l->b, a, by, "")
                                             : l->llvm->BuildAShr(l->b, a, by, "");
}

static LLVMValueRef high_product(struct lift *l, LLVMValueRef a, LLVMValueRef b, bool a_signed,
                                 bool b_signed) {
    a = a_signed ? l->llvm->BuildSExt(l->b, a, l->i64, "") : widen(l, a);
    b = b_signed ? l->llvm->BuildSExt(l->b, b, l->i64, "") : widen(l, b);
    LLVMValueRef product = l->llvm->BuildMul(l->b, a, b, "");
    return narrow(l, l->llvm->BuildLShr(l->b, product, c64(l, 32), ""), l->i32);
}

/* Division by zero and the overflow are set aside; the host divides by 1 there. */
static LLVMValueRef quotient(struct lift *l, unsigned id, LLVMValueRef a, LLVMValueRef b) {
    const struct llvm *v = l->llvm;
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

static LLVMValueRef value_of(struct lift *l, unsigned id, LLVMValueRef a, LLVMValueRef b) {
    const struct llvm *v = l->llvm;
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

static LLVMValueRef taken(struct lift *l, const struct hpu_insn *in) {
    LLVMIntPredicate how = in->id == HPU_BEQ    ? LLVMIntEQ
                           : in->id == HPU_BNE  ? LLVMIntNE
                           : in->id == HPU_BLT  ? LLVMIntSLT
                           : in->id == HPU_BGE  ? LLVMIntSGE
                           : in->id == HPU_BLTU ? LLVMIntULT
                                                : LLVMIntUGE;
    return compare(l, how, read_x(l, in->rs1), read_x(l, in->rs2));
}

static void charge_division(struct lift *l, const struct hpu_insn *in) {
    const struct llvm *v = l->llvm;
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
}

/* The value of a call of jit_private.h; leaves at h when it did not go well. */
static LLVMValueRef outcome(struct lift *l, LLVMValueRef result, uint32_t h) {
    LLVMValueRef status = l->llvm->BuildLShr(l->b, result, c64(l, 32), "");
    LLVMBasicBlockRef good = new_block(l), bad = new_block(l);
    branch_rarely(l, compare(l, LLVMIntEQ, status, c64(l, 0)), good, bad);
    at(l, bad);
    leave(l, c32(l, pc_of(l, h)), narrow(l, status, l->i32), slot_at(l, h));
    at(l, good);
    if (l->timed) {
        LLVMValueRef lapse = get(l, l->i32, field(l, offsetof(struct hpu, lapse), l->i32));
        charge(l, widen(l, lapse));
    }
    return narrow(l, result, l->i32);
}

/* ---- accesses ---- */

/* One load or store, taken apart. */
struct access {
    const struct hpu_insn *in;
    uint32_t h, bytes;
    unsigned shape;
    bool store, atomic;
    LLVMTypeRef type;
    LLVMValueRef f; /* the float register that it moves, or NULL */
};

static struct access access_at(struct lift *l, uint32_t h) {
    struct access a = {.in = insn_at(l, h), .h = h};
    a.shape = shape_of[a.in->id];
    a.bytes = hpu_access_bytes(a.in->id);
    a.store = a.shape == SHAPE_STORE || a.shape == SHAPE_FSTORE;
    a.atomic = a.shape == SHAPE_AMO || a.shape == SHAPE_LR || a.shape == SHAPE_SC;
    a.type = a.bytes == 1 ? l->i8 : a.bytes == 2 ? l->i16 : l->i32;
    if (a.shape == SHAPE_FLOAD || a.shape == SHAPE_FSTORE) {
        unsigned reg = a.shape == SHAPE_FLOAD ? a.in->rd : a.in->rs2;
        a.f = field(l, offsetof(struct hpu, f) + 4 * reg, l->i32);
    }
    return a;
}

static LLVMValueRef address_of(struct lift *l, const struct access *a) {
    LLVMValueRef base = read_x(l, a->in->rs1);
    return a->atomic ? base : add(l, base, c32(l, (uint32_t)a->in->imm));
}

static LLVMValueRef stored_value(struct lift *l, const struct access *a) {
    return a->f ? get(l, l->i32, a->f) : read_x(l, a->in->rs2);
}

static void set_loaded(struct lift *l, const struct access *a, LLVMValueRef value) {
    if (a->f)
        l->llvm->BuildStore(l->b, value, a->f);
    else
        write_x(l, a->in->rd, value);
}

static void move(struct lift *l, const struct access *a, LLVMValueRef place) {
    const struct llvm *v = l->llvm;
    LLVMValueRef made;
    if (a->store) {
        LLVMValueRef value = stored_value(l, a);
        made = v->BuildStore(l->b, a->bytes == 4 ? value : narrow(l, value, a->type), place);
    } else {
        LLVMValueRef value = made = v->BuildLoad2(l->b, a->type, place, "");
        if (a->in->id == HPU_LB || a->in->id == HPU_LH)
            value = v->BuildSExt(l->b, made, l->i32, "");
        else if (a->bytes < 4)
            value = v->BuildZExt(l->b, made, l->i32, "");
        set_loaded(l, a, value);
    }
    v->SetAlignment(made, 1);
}

static void called_access(struct lift *l, const struct access *a) {
    LLVMValueRef arguments[5] = {l->h, c32(l, l->code->slot_at[a->h]), address_of(l, a)}, result;
    if (a->atomic) {
        arguments[3] = read_x(l, a->in->rs2);
        result = call(l, (const void *)jit_atomic, l->i64, arguments, 4);
    } else {
        arguments[3] = now_at(l, slot_at(l, a->h));
        arguments[4] = a->store ? stored_value(l, a) : NULL;
        result = call(l, a->store ? (const void *)jit_store : (const void *)jit_load, l->i64,
                      arguments, a->store ? 5 : 4);
    }
    LLVMValueRef value = outcome(l, result, a->h);
    if (!a->store)
        set_loaded(l, a, value);
}

static void plain_atomic(struct lift *l, const struct hpu_insn *in, LLVMValueRef place) {
    LLVMAtomicRMWBinOp how = in->id == HPU_AMOSWAP_W   ? LLVMAtomicRMWBinOpXchg
                             : in->id == HPU_AMOADD_W  ? LLVMAtomicRMWBinOpAdd
                             : in->id == HPU_AMOXOR_W  ? LLVMAtomicRMWBinOpXor
                             : in->id == HPU_AMOAND_W  ? LLVMAtomicRMWBinOpAnd
                             : in->id == HPU_AMOOR_W   ? LLVMAtomicRMWBinOpOr
                             : in->id == HPU_AMOMIN_W  ? LLVMAtomicRMWBinOpMin
                             : in->id == HPU_AMOMAX_W  ? LLVMAtomicRMWBinOpMax
                             : in->id == HPU_AMOMINU_W ? LLVMAtomicRMWBinOpUMin
                                                       : LLVMAtomicRMWBinOpUMax;
    write_x(l, in->rd,
            l->llvm->BuildAtomicRMW(l->b, how, place, read_x(l, in->rs2),
                                    LLVMAtomicOrderingSequentiallyConsistent, 0));
}

static LLVMValueRef in_window(struct lift *l, LLVMValueRef window, size_t offset,
                              LLVMTypeRef type) {
    return get(l, type, place_in(l, l->b, window, c64(l, offset), type));
}

static void count_in_window(struct lift *l, const struct access *a, LLVMValueRef window) {
    static const size_t counter[2] = {offsetof(struct hpu_window, loads),
                                      offsetof(struct hpu_window, stores)};
    size_t extra = a->atomic  ? offsetof(struct hpu_window, amo_extra)
                   : a->store ? offsetof(struct hpu_window, store_extra)
                              : offsetof(struct hpu_window, load_extra);
    bool counts[2] = {!a->store, a->store || a->atomic};
    for (int i = 0; i < 2; i++)
        if (counts[i]) {
            LLVMValueRef place = place_in(l, l->b, window, c64(l, counter[i]), l->i32);
            set(l, place, add(l, get(l, l->i32, place), c32(l, 1)));
        }
    charge(l, widen(l, in_window(l, window, extra, l->i8)));
}

/* Through the window that the slot names now, as the interpreter does it; else a call, which will
 * change what the slot names. */
static void guessed_access(struct lift *l, const struct access *a) {
    const struct llvm *v = l->llvm;
    const void *where = &slot_at(l, a->h)->a.window;
    LLVMValueRef byte = v->ConstIntToPtr(c64(l, (uintptr_t)where), v->PointerType(l->i8, 0));
    LLVMValueRef guess = v->BuildLoad2(l->b, l->i8, byte, "");
    v->SetOrdering(guess, LLVMAtomicOrderingMonotonic); /* read once: others may write it */
    v->SetAlignment(guess, 1);
    LLVMValueRef distance = v->BuildShl(l->b, widen(l, guess), c64(l, 3), "");
    LLVMValueRef first = place_in(l, l->b, l->h, c64(l, offsetof(struct hpu, window)), l->i8);
    LLVMValueRef window = place_in(l, l->b, first, distance, l->i8);
    LLVMValueRef address = address_of(l, a);
    LLVMValueRef base = in_window(l, window, offsetof(struct hpu_window, base), l->i32);
    LLVMValueRef offset = sub(l, address, base);
    size_t rooms = a->store || a->atomic ? offsetof(struct hpu_window, write_room)
                                         : offsetof(struct hpu_window, read_room);
    LLVMValueRef room = in_window(l, window, rooms + 4 * (a->bytes - 1), l->i32);
    LLVMValueRef good = compare(l, LLVMIntULT, offset, room);
    if ((l->timed || a->atomic) && a->bytes > 1) {
        LLVMValueRef low = v->BuildAnd(l->b, address, c32(l, a->bytes - 1), "");
        good = v->BuildAnd(l->b, good, compare(l, LLVMIntEQ, low, c32(l, 0)), "");
    }
    LLVMBasicBlockRef plain = new_block(l), called = new_block(l), on = new_block(l);
    branch_rarely(l, good, plain, called);
    at(l, called);
    called_access(l, a);
    v->BuildBr(l->b, on);
    at(l, plain);
    LLVMValueRef host = in_window(l, window, offsetof(struct hpu_window, host), l->pointer);
    if (l->timed)
        count_in_window(l, a, window);
    LLVMValueRef place = place_in(l, l->b, host, widen(l, offset), a->type);
    if (a->atomic)
        plain_atomic(l, a->in, place);
    else
        move(l, a, place);
    v->BuildBr(l->b, on);
    at(l, on);
}

/* The access was checked: it is in its window, and in the timed mode within a word. */
static void count_access(struct lift *l, unsigned window, unsigned shape) {
    struct window *w = use_window(l, window);
    if (!l->timed)
        return;
    bool load = shape == SHAPE_LOAD || shape == SHAPE_FLOAD, atomic = shape == SHAPE_AMO;
    uint64_t one = (load || atomic ? 1 : 0) | (load ? 0 : 1ull << 32);
    set(l, w->counts, add(l, get(l, l->i64, w->counts), c64(l, one)));
    charge(l, w->extra[load ? 0 : atomic ? 2 : 1]);
}

static void plain_access(struct lift *l, const struct access *a, const struct group *g) {
    int32_t offset = a->atomic ? 0 : a->in->imm;
    LLVMValueRef place =
        place_in(l, l->b, g->pointer, c64(l, (uint64_t)(int64_t)(offset - g->least)), a->type);
    count_access(l, g->window, a->shape);
    if (a->atomic)
        plain_atomic(l, a->in, place);
    else
        move(l, a, place);
}

static void lift_access(struct lift *l, uint32_t h, const struct group *g) {
    struct access a = access_at(l, h);
    if (g)
        plain_access(l, &a, g);
    else if (a.shape == SHAPE_LR || a.shape == SHAPE_SC ||
             l->region->by_call[l->code->slot_at[h]] == JIT_BY_CALL)
        called_access(l, &a);
    else
        guessed_access(l, &a);
}

/* CSRs and F work on the HPU's own registers: what they read is put there and what they write
 * taken from there. */
static void through_hpu(struct lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    const struct hpu_slot *slot = slot_at(l, h);
    bool csr = shape_of[in->id] == SHAPE_CSR;
    LLVMValueRef a[4] = {l->h, c32(l, l->code->slot_at[h]), NULL, NULL};
    if (hpu_insn_reads(in, in->rs1))
        l->llvm->BuildStore(l->b, read_x(l, in->rs1),
                            field(l, offsetof(struct hpu, x) + 4u * in->rs1, l->i32));
    if (csr) {
        a[2] = now_at(l, slot);
        a[3] = instret_at(l, slot);
    }
    LLVMValueRef good = csr ? call(l, (const void *)jit_csr, l->i8, a, 4)
                            : call(l, (const void *)jit_float, l->i8, a, 2);
    LLVMBasicBlockRef on = new_block(l), bad = new_block(l);
    LLVMValueRef low = narrow(l, good, l->i1); /* a bool */
    branch_rarely(l, low, on, bad);
    at(l, bad);
    leave_at(l, h, JIT_INTERPRET, true);
    at(l, on);
    unsigned rd = hpu_insn_writes(in);
    if (rd)
        write_x(l, rd, get(l, l->i32, field(l, offsetof(struct hpu, x) + 4 * rd, l->i32)));
}

/* ---- where blocks lead ---- */

static void go_to(struct lift *l, uint32_t h) {
    if (l->block_at[h] != NONE) {
        l->llvm->BuildBr(l->b, l->block[l->block_at[h]].enter);
        return;
    }
    leave_at(l, h, JIT_JUMP, false);
}

static void lift_branch(struct lift *l, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    LLVMBasicBlockRef yes = new_block(l), no = new_block(l);
    l->llvm->BuildCondBr(l->b, taken(l, in), yes, no);
    at(l, yes);
    if (l->timed)
        charge(l, c64(l, l->code->timing->taken));
    go_to(l, target_of(l, h));
    at(l, no);
    go_to(l, h + in->length / 2);
}

/* Returns lead to a call of the region, or end the handler. Of other jumps nothing is known. */
static void lift_jump_register(struct lift *l, uint32_t h, uint32_t before) {
    const struct hpu_insn *in = insn_at(l, h);
    uint32_t target = far_target_of(l, h, before);
    if (target != NONE) {
        write_x(l, in->rd, c32(l, slot_at(l, h)->link));
        go_to(l, target);
        return;
    }
    LLVMValueRef to = add(l, read_x(l, in->rs1), c32(l, (uint32_t)in->imm));
    to = l->llvm->BuildAnd(l->b, to, c32(l, ~1u), "");
    write_x(l, in->rd, c32(l, slot_at(l, h)->link));
    bool is_return = in->rd == 0 && (in->rs1 == 1 || in->rs1 == 5);
    LLVMBasicBlockRef elsewhere = new_block(l), end = new_block(l);
    LLVMValueRef choice = l->llvm->BuildSwitch(l->b, to, elsewhere, is_return ? l->sites + 1 : 1);
    l->llvm->AddCase(choice, c32(l, MAP_RETURN), end);
    for (uint32_t i = 0; i < l->sites && is_return; i++)
        if (l->block_at[l->site[i]] != NONE && pc_of(l, l->site[i]) != MAP_RETURN)
            l->llvm->AddCase(choice, c32(l, pc_of(l, l->site[i])),
                             l->block[l->block_at[l->site[i]]].enter);
    at(l, end);
    leave(l, c32(l, MAP_RETURN), c32(l, HPU_DONE), NULL);
    at(l, elsewhere);
    leave(l, to, c32(l, JIT_JUMP), NULL);
}

/* True when it has ended the block. */
static bool lift_insn(struct lift *l, uint32_t h, uint32_t before, const struct group *g) {
    const struct llvm *v = l->llvm;
    const struct hpu_insn *in = insn_at(l, h);
    switch ((enum shape)shape_of[in->id]) {
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
        v->BuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 0, "");
        return false;
    case SHAPE_LOAD:
    case SHAPE_STORE:
    case SHAPE_FLOAD:
    case SHAPE_FSTORE:
    case SHAPE_AMO:
    case SHAPE_LR:
    case SHAPE_SC:
        lift_access(l, h, g);
        return false;
    case SHAPE_FP:
        through_hpu(l, h);
        return false;
    case SHAPE_CSR:
        through_hpu(l, h);
        go_to(l, h + in->length / 2);
        return true;
    case SHAPE_BRANCH:
        lift_branch(l, h);
        return true;
    case SHAPE_JAL:
        write_x(l, in->rd, c32(l, slot_at(l, h)->link));
        go_to(l, target_of(l, h));
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

static void lift_block(struct lift *l, const struct block *block) {
    uint32_t h = block->start;
    const struct hpu_slot *slot = slot_at(l, h);
    l->dirty = block->dirty;
    at(l, block->away);
    leave(l, c32(l, pc_of(l, h)), NULL, NULL);
    at(l, block->enter);
    if (block->is_looped) /* what others write is seen in the next turn: not hoisted for good */
        l->llvm->BuildFence(l->b, LLVMAtomicOrderingSequentiallyConsistent, 1, "");
    demand(l, compare(l, LLVMIntSGT, get(l, l->i64, l->left), c64(l, 0)), HPU_PAUSED, block, h);
    l->llvm->BuildBr(l->b, block->body);
    at(l, block->body);
    if (is_left(l, h)) {
        leave_at(l, h, JIT_INTERPRET, false);
        return;
    }
    if (l->timed) {
        LLVMValueRef place = place_in(l, l->b, l->seen, c64(l, 4ull * l->code->slot_at[h]), l->i32);
        LLVMValueRef is_seen = compare(l, LLVMIntEQ, get(l, l->i32, place), l->generation);
        demand(l, is_seen, JIT_INTERPRET, block, h);
    }
    group_accesses(l, block);
    check_groups(l, 0, block, h);
    charge(l, c64(l, slot->cycles));
    if (l->timed)
        set(l, l->count, add(l, get(l, l->i64, l->count), c64(l, slot->count)));
    uint32_t before = NONE;
    for (uint32_t i = 0; i < block->count; i++, before = h, h += insn_at(l, h)->length / 2) {
        if (i > 0)
            check_groups(l, i, block, h);
        if (is_left(l, h)) {
            leave_at(l, h, JIT_INTERPRET, true);
            return;
        }
        unsigned g = l->group_of[i];
        if (lift_insn(l, h, before, g ? &l->group[g - 1] : NULL))
            return;
    }
}

/* ---- the function ---- */

static void begin_function(struct lift *l, const char *name) {
    const struct llvm *v = l->llvm;
    LLVMTypeRef types[] = {l->pointer, l->i64, l->pointer, l->i32};
    l->function = v->AddFunction(l->module, name, v->FunctionType(l->i32, types, 4, 0));
    unsigned kind = v->GetEnumAttributeKindForName("nounwind", 8);
    v->AddAttributeAtIndex(l->function, LLVMAttributeFunctionIndex,
                           v->CreateEnumAttribute(l->context, kind, 0));
    l->h = v->GetParam(l->function, 0);
    l->left_at_start = v->GetParam(l->function, 1);
    l->seen = v->GetParam(l->function, 2);
    l->generation = v->GetParam(l->function, 3);
    l->entry = new_block(l);
    l->out = new_block(l);
    v->PositionBuilderAtEnd(l->at_entry, l->entry);
    at(l, l->entry);
    for (unsigned r = 1; r < 32; r++) {
        l->x[r] = v->BuildAlloca(l->b, l->i32, "");
        set(l, l->x[r], get(l, l->i32, field(l, offsetof(struct hpu, x) + 4 * r, l->i32)));
    }
    l->left = v->BuildAlloca(l->b, l->i64, "");
    l->count = v->BuildAlloca(l->b, l->i64, "");
    l->pc = v->BuildAlloca(l->b, l->i32, "");
    l->status = v->BuildAlloca(l->b, l->i32, "");
    l->mid_block = v->BuildAlloca(l->b, l->i8, "");
    set(l, l->left, l->left_at_start);
    set(l, l->count, c64(l, 0));
}

static void lift_function(struct lift *l, const char *name) {
    begin_function(l, name);
    for (uint32_t i = 0; i < l->blocks; i++) {
        l->block[i].enter = new_block(l);
        l->block[i].body = new_block(l);
        l->block[i].away = new_block(l);
    }
    for (uint32_t i = 0; i < l->blocks; i++)
        lift_block(l, &l->block[i]);
    emit_out(l);
    l->llvm->BuildBr(l->at_entry, l->block[0].body);
}

static void make_types(struct lift *l) {
    const struct llvm *v = l->llvm;
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
}

bool jit_lift(const struct llvm *llvm, LLVMContextRef context, LLVMModuleRef module,
              const char *name, struct jit_region *region) {
    struct lift *l = calloc(1, sizeof *l);
    if (!l)
        return false;
    l->llvm = llvm;
    l->context = context;
    l->module = module;
    l->region = region;
    l->code = region->code;
    l->timed = region->code->mode == HPU_TIMED;
    l->block = calloc(MOST_BLOCKS, sizeof *l->block);
    l->site = calloc(MOST_BLOCKS, sizeof *l->site);
    l->block_at = malloc(halfwords(l) * sizeof *l->block_at);
    l->group_of = calloc(halfwords(l) + 1, sizeof *l->group_of);
    bool good = l->block && l->site && l->block_at && l->group_of;
    if (good) {
        memset(l->block_at, 0xff, halfwords(l) * sizeof *l->block_at);
        want_block(l, region->root, 0);
        for (uint32_t i = 0; i < l->blocks; i++)
            scan_block(l, &l->block[i]);
        spread_dirty(l);
        l->b = llvm->CreateBuilderInContext(context);
        l->at_entry = llvm->CreateBuilderInContext(context);
        make_types(l);
        lift_function(l, name);
        llvm->DisposeBuilder(l->b);
        llvm->DisposeBuilder(l->at_entry);
        region->instructions = l->instructions;
    }
    free(l->block);
    free(l->site);
    free(l->block_at);
    free(l->group_of);
    free(l);
    return good;
}
