/* Loads, stores and atomics: through a window that is expected, through the one that the slot
 * names, or by a call. */
#include "hpu/jit_lift.h"

#include <string.h>

/* So many accesses through one value of a register are left to page protection, and more are better
 * off with the check that they share: LLVM can join them. When timed, the check of their alignment
 * is needed anyway, and one is the most that pays (bench-jit). */
#define MOST_GUARDED 2

/* ---- windows ---- */

static LLVMValueRef window_field(struct jit_lift *l, unsigned window, size_t offset,
                                 LLVMTypeRef type) {
    size_t at_byte = offsetof(struct hpu, window) + window * sizeof(struct hpu_window) + offset;
    LLVMValueRef p = place_in(l, l->at_entry, l->h, c64(l, at_byte), type);
    return get_fixed(l, l->at_entry, type, p);
}

/* Cycles that a load, a store or an atomic loses. */
static LLVMValueRef extra_of(struct jit_lift *l, unsigned window, unsigned kind) {
    static const size_t extras[3] = {[JIT_LOAD] = offsetof(struct hpu_window, load_extra),
                                     [JIT_STORE] = offsetof(struct hpu_window, store_extra),
                                     [JIT_ATOMIC] = offsetof(struct hpu_window, amo_extra)};
    const struct jit_region *region = l->region;
    const uint8_t *latency = (const uint8_t *)&region->trait[window];
    if (region->fixed >> window & 1)
        return c64(l, latency[extras[kind] - offsetof(struct hpu_window, region)]);
    return l->llvm->BuildZExt(l->at_entry, window_field(l, window, extras[kind], l->i8), l->i64,
                              "");
}

/* The HPU's own registers, as windows: where they are is known when the code is generated. */
static const struct {
    uint32_t base, bytes;
    size_t in_hpu;
} registers[JIT_WINDOWS - HPU_WINDOWS] = {
    [JIT_TASK - HPU_WINDOWS] = {MAP_DRIVER, SPIN_TASK_REGISTERS, offsetof(struct hpu, task)},
    [JIT_COMMAND -
        HPU_WINDOWS] = {MAP_DRIVER + SPIN_REG_WORD, 4 * SPIN_WORDS, offsetof(struct hpu, word)},
    [JIT_RESULT - HPU_WINDOWS] = {MAP_DRIVER + SPIN_REG_RESULT, 4, offsetof(struct hpu, result)},
};

/* Where address 0 would be. */
static size_t in_hpu(unsigned window) {
    return registers[window - HPU_WINDOWS].in_hpu - registers[window - HPU_WINDOWS].base;
}

/* Read once, when the function begins: nothing changes windows while a handler runs. */
struct jit_window *lift_use_window(struct jit_lift *l, unsigned number) {
    struct jit_window *w = &l->window[number];
    if (w->used)
        return w;
    w->used = true;
    if (number >= HPU_WINDOWS) {
        l->uses_device = true;
        w->base = c32(l, registers[number - HPU_WINDOWS].base);
        w->host =
            place_in(l, l->at_entry, l->h, c64(l, registers[number - HPU_WINDOWS].in_hpu), l->i8);
        return w;
    }
    w->base = window_field(l, number, offsetof(struct hpu_window, base), l->i32);
    w->host = number == 0 && l->host
                  ? l->host
                  : window_field(l, number, offsetof(struct hpu_window, host), l->pointer);
    for (unsigned kind = 0; kind < 3 && l->timed; kind++)
        w->extra[kind] = extra_of(l, number, kind);
    return w;
}

LLVMValueRef lift_bound(struct jit_lift *l, unsigned window, uint32_t span, bool write) {
    for (uint32_t i = 0; i < l->bounds; i++)
        if (l->bound[i].window == window && l->bound[i].span == span && l->bound[i].write == write)
            return l->bound[i].value;
    if (window >= HPU_WINDOWS) {
        uint32_t bytes = registers[window - HPU_WINDOWS].bytes;
        return c32(l, span <= bytes ? bytes - span + 1 : 0);
    }
    size_t room =
        write ? offsetof(struct hpu_window, write_room) : offsetof(struct hpu_window, read_room);
    bool is_there = span == 1 || span == 2 || span == 4; /* and of others that of single bytes */
    LLVMValueRef value = window_field(l, window, room + (is_there ? 4 * (span - 1) : 0), l->i32);
    if (!is_there) {
        LLVMValueRef less = l->llvm->BuildSub(l->at_entry, value, c32(l, span - 1), "");
        LLVMValueRef fits = l->llvm->BuildICmp(l->at_entry, LLVMIntUGE, value, c32(l, span), "");
        value = l->llvm->BuildSelect(l->at_entry, fits, less, c32(l, 0), "");
    }
    if (l->bounds < MOST_BOUNDS)
        l->bound[l->bounds++] = (struct jit_bound){(uint8_t)window, write, span, value};
    return value;
}

static void expect_trait(struct jit_lift *l, unsigned i, size_t offset, LLVMTypeRef type,
                         LLVMBasicBlockRef otherwise) {
    LLVMValueRef expected = l->llvm->ConstInt(type, l->region->trait[i], 0);
    if (l->region->fixed >> i & 1)
        go_on_if(l, compare(l, LLVMIntEQ, get(l, type, field(l, offset, type)), expected),
                 otherwise);
}

void lift_enter(struct jit_lift *l, LLVMBasicBlockRef body) {
    const struct jit_llvm *v = l->llvm;
    LLVMBasicBlockRef bad = new_block(l);
    at(l, bad);
    lift_show_packet(l);
    set(l, field(l, offsetof(struct hpu, x) + 4 * 10, l->i32), v->GetParam(l->function, 3));
    v->BuildRet(l->b, c64(l, (uintptr_t)&jit_other));
    at(l, l->entry);
    for (unsigned i = 0; i < HPU_WINDOWS; i++) {
        const struct jit_window *w = &l->window[i];
        size_t place = offsetof(struct hpu, window) + i * sizeof(struct hpu_window);
        if (w->view)
            go_on_if(l, v->BuildIsNotNull(l->b, w->view, ""), bad);
        if (w->used && l->timed)
            expect_trait(l, i, place + offsetof(struct hpu_window, region), l->i32, bad);
    }
    if (l->uses_device)
        go_on_if(
            l,
            v->BuildIsNotNull(
                l->b, get(l, l->pointer, field(l, offsetof(struct hpu, device), l->pointer)), ""),
            bad);
    v->BuildBr(l->b, body);
}

bool lift_is_access(const struct hpu_insn *in) {
    unsigned shape = lift_shape[in->id];
    return shape == SHAPE_LOAD || shape == SHAPE_STORE || shape == SHAPE_FLOAD ||
           shape == SHAPE_FSTORE || shape == SHAPE_AMO;
}

unsigned lift_guess_at(const struct jit_lift *l, uint32_t h) {
    unsigned how = lift_how(l, h);
    if (how == JIT_BY_TASK)
        return JIT_TASK;
    if (how == JIT_BY_WORD)
        return lift_shape[insn_at(l, h)->id] == SHAPE_STORE ? JIT_COMMAND : JIT_RESULT;
    unsigned guess = atomic_load_explicit(&slot_at(l, h)->a.window, memory_order_relaxed);
    return guess / HPU_WINDOW_STEP;
}

/* ---- groups ---- */

/* Values in a block. `at`: where each register's is from; `low`: whose lowest bits it has, which it
 * shares with more: a pointer plus a multiple of four, say. */
struct values {
    uint32_t version[32];
    struct jit_origin at[32], low[32];
};

static void begin_values(struct values *v) {
    memset(v, 0, sizeof *v);
    for (unsigned r = 1; r < 32; r++)
        v->at[r].reg = v->low[r].reg = (uint8_t)r;
}

static bool is_near(int64_t distance) {
    return distance > -(1 << 30) && distance < 1 << 30;
}

static struct jit_origin moved(struct jit_origin from, int32_t distance) {
    from.more = (int32_t)((uint32_t)from.more + (uint32_t)distance);
    return from;
}

/* A constant: what x0 holds, plus that. */
static bool is_constant(const struct jit_origin *o) {
    return o->reg == 0;
}

/* Follows what an instruction does to the register that it writes. */
static void follow(struct jit_lift *l, struct values *v, uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    unsigned rd = hpu_insn_writes(in);
    if (!rd)
        return;
    struct jit_origin at = {(uint8_t)rd, ++v->version[rd], 0}, low = at;
    struct jit_origin a = v->low[in->rs1], b = v->low[in->rs2];
    int32_t value = slot_at(l, h)->a.imm;
    if (in->id == HPU_ADDI && is_near((int64_t)v->at[in->rs1].more + in->imm)) {
        at = moved(v->at[in->rs1], in->imm);
        low = moved(a, in->imm);
    } else if (lift_shape[in->id] == SHAPE_CONST && is_near(value)) {
        at = low = (struct jit_origin){0, 0, value};
    } else if (in->id == HPU_ADD && (is_constant(&a) || is_constant(&b))) {
        low = is_constant(&a) ? moved(b, a.more) : moved(a, b.more);
    } else if ((in->id == HPU_SLLI && in->imm >= 2) || (in->id == HPU_ANDI && !(in->imm & 3))) {
        low = (struct jit_origin){0};
    }
    v->at[rd] = at;
    v->low[rd] = low;
}

static bool is_same_origin(const struct jit_origin *a, const struct jit_origin *b) {
    return a->reg == b->reg && a->version == b->version;
}

static bool joins(const struct jit_group *g, const struct jit_group *to) {
    uint32_t aligned = g->aligned > to->aligned ? g->aligned : to->aligned;
    return is_same_origin(&g->from, &to->from) && g->window == to->window &&
           !((uint32_t)(g->least - to->least) & aligned);
}

/* Returns the group that the access is in now, + 1; 0: in none, which makes it a call. */
static uint8_t add_access(struct jit_lift *l, const struct jit_group *g) {
    for (uint32_t i = 0; i < l->groups; i++) {
        struct jit_group *to = &l->group[i];
        if (!joins(g, to))
            continue;
        if (g->least < to->least) {
            to->least = g->least;
            to->low = g->low;
        }
        to->end = g->end > to->end ? g->end : to->end;
        to->aligned = g->aligned > to->aligned ? g->aligned : to->aligned;
        to->write |= g->write;
        to->members++;
        to->guarded &= g->guarded && to->members <= (l->timed ? 1 : MOST_GUARDED);
        return (uint8_t)(i + 1);
    }
    if (l->groups == MOST_GROUPS)
        return 0;
    l->group[l->groups++] = *g;
    return (uint8_t)l->groups;
}

static struct jit_group group_of(const struct jit_lift *l, const struct values *v, uint32_t i,
                                 uint32_t h) {
    const struct hpu_insn *in = insn_at(l, h);
    bool atomic = lift_shape[in->id] == SHAPE_AMO;
    unsigned window = lift_guess_at(l, h);
    uint32_t bytes = hpu_access_bytes(in->id);
    struct jit_origin at = v->at[in->rs1];
    int32_t offset = atomic ? 0 : in->imm, least = at.more + offset;
    bool is_old = at.version == 0; /* the register holds it when the block is entered */
    return (struct jit_group){
        .from = at,
        .low = moved(v->low[in->rs1], offset),
        .window = (uint8_t)window,
        .reg = is_old ? at.reg : in->rs1,
        .more = is_old ? 0 : at.more,
        .first = is_old ? 0 : i,
        .least = least,
        .end = least + (int32_t)bytes,
        .aligned = atomic || l->timed || window >= HPU_WINDOWS ? bytes - 1 : 0,
        .write = lift_shape[in->id] != SHAPE_LOAD && lift_shape[in->id] != SHAPE_FLOAD,
        .members = 1,
        .guarded = lift_how(l, h) == JIT_BY_WINDOW && !atomic && l->region->views >> window & 1};
}

static bool goes_to_issue(const struct jit_lift *l, uint32_t h) {
    return lift_how(l, h) == JIT_BY_COPY || lift_how(l, h) == JIT_BY_ISSUE;
}

/* The words of a command stand where the registers do to which it goes. */
static void expect_value(struct jit_lift *l, const struct jit_origin *at, uint32_t value,
                         bool is_held) {
    for (uint32_t i = 0; i < l->groups; i++) {
        struct jit_group *g = &l->group[i];
        uint32_t offset = value + (uint32_t)g->least - (MAP_DRIVER + SPIN_REG_WORD);
        uint32_t bytes = (uint32_t)(g->end - g->least);
        if (g->window != JIT_COMMAND || !is_same_origin(&g->from, at) || offset & 3 ||
            offset >= 4 * SPIN_WORDS || bytes > 4 * SPIN_WORDS - offset)
            continue;
        g->has_value = true;
        g->value = value;
        g->is_held = is_held;
    }
}

/* Sorts the block's accesses into groups. In the timed mode one group is one alignment, because an
 * access that crosses a word takes longer; that is not expected. */
void lift_group_accesses(struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start;
    struct values v;
    begin_values(&v);
    l->groups = l->aligneds = 0;
    for (uint32_t i = 0; i < block->count; i++, h += insn_at(l, h)->length / 2) {
        struct jit_group g;
        l->member[i] = (struct member){0};
        bool by_window = lift_how(l, h) <= JIT_BY_CHECK || lift_guess_at(l, h) >= HPU_WINDOWS;
        if (lift_is_access(insn_at(l, h)) && !lift_is_left(l, h) && by_window) {
            g = group_of(l, &v, i, h);
            l->member[i] = (struct member){add_access(l, &g), g.least};
        } else if (lift_is_access(insn_at(l, h)) && goes_to_issue(l, h)) {
            const struct jit_origin *at = &v.at[insn_at(l, h)->rs1];
            uint32_t distance = (uint32_t)at->more + (uint32_t)insn_at(l, h)->imm;
            expect_value(l, at, MAP_DRIVER + SPIN_REG_ISSUE - distance,
                         lift_how(l, h) == JIT_BY_COPY && !l->timed);
        }
        follow(l, &v, h);
    }
}

/* Whether the address is known to be as the group wants it; from here on it is. */
static bool is_aligned(struct jit_lift *l, const struct jit_group *g) {
    if (is_constant(&g->low) && !((uint32_t)g->low.more & g->aligned))
        return true;
    for (uint32_t i = 0; i < l->aligneds; i++)
        if (is_same_origin(&l->aligned[i].low, &g->low) && l->aligned[i].mask >= g->aligned &&
            !((uint32_t)(l->aligned[i].low.more - g->low.more) & g->aligned))
            return true;
    l->aligned[l->aligneds++] = (struct aligned){g->low, g->aligned};
    return false;
}

/* Where little is moved out of loops, what is compared with is not worth computing beforehand. */
static LLVMValueRef is_inside(struct jit_lift *l, const struct jit_group *g, LLVMValueRef offset) {
    uint32_t span = (uint32_t)(g->end - g->least);
    if (!l->settles || span <= 2 || span == 4 || g->window >= HPU_WINDOWS)
        return compare(l, LLVMIntULT, offset, lift_bound(l, g->window, span, g->write));
    LLVMValueRef room = widen(l, lift_bound(l, g->window, 1, g->write));
    return compare(l, LLVMIntULT, add(l, widen(l, offset), c64(l, span - 1)), room);
}

static void check_group(struct jit_lift *l, struct jit_group *g, uint32_t h) {
    if (g->has_value) {
        LLVMValueRef value = c32(l, g->value + (uint32_t)g->more);
        lift_use_window(l, g->window);
        lift_demand(l, compare(l, LLVMIntEQ, read_x(l, g->reg), value), JIT_MISS, h, g->first > 0);
        return;
    }
    struct jit_window *w = lift_use_window(l, g->window);
    if (g->guarded && !w->view)
        w->view = window_field(l, g->window, offsetof(struct hpu_window, view), l->pointer);
    LLVMValueRef address = add(l, read_x(l, g->reg), c32(l, (uint32_t)(g->least - g->more)));
    LLVMValueRef offset = sub(l, address, w->base);
    bool is_checked = !g->guarded && !l->region->unprotected;
    bool may_cross = g->aligned && !is_aligned(l, g);
    LLVMBasicBlockRef off =
        is_checked || may_cross ? lift_exit_at(l, h, JIT_MISS, g->first > 0) : NULL;
    if (is_checked)
        go_on_if(l, is_inside(l, g, offset), off);
    if (may_cross) {
        LLVMValueRef low = l->llvm->BuildAnd(l->b, address, c32(l, g->aligned), "");
        go_on_if(l, compare(l, LLVMIntEQ, low, c32(l, 0)), off);
    }
    g->pointer = place_in(l, l->b, w->host, widen(l, offset), l->i8);
}

void lift_check_groups(struct jit_lift *l, uint32_t index, uint32_t h) {
    for (uint32_t i = 0; i < l->groups; i++)
        if (l->group[i].first == index)
            check_group(l, &l->group[i], h);
}

/* ---- counting ---- */

static unsigned kind_of(unsigned shape) {
    return shape == SHAPE_AMO                              ? JIT_ATOMIC
           : shape == SHAPE_STORE || shape == SHAPE_FSTORE ? JIT_STORE
                                                           : JIT_LOAD;
}

LLVMValueRef lift_cycles_ahead(struct jit_lift *l) {
    LLVMValueRef cycles = c64(l, 0);
    for (unsigned w = 0; w < HPU_WINDOWS && l->timed; w++)
        for (unsigned kind = 0; kind < 3; kind++)
            if (l->ahead[w][kind]) {
                LLVMValueRef extra = lift_use_window(l, w)->extra[kind],
                             n = c64(l, l->ahead[w][kind]);
                cycles = add(l, cycles, l->llvm->BuildMul(l->b, extra, n, ""));
            }
    return cycles;
}

static void add_times(struct jit_lift *l, size_t offset, LLVMTypeRef type, uint32_t n,
                      LLVMValueRef times) {
    LLVMValueRef more = l->llvm->ConstInt(type, n, 0);
    if (times && type == l->i32)
        times = narrow(l, times, type);
    if (n)
        add_to(l, offset, type, times ? l->llvm->BuildMul(l->b, times, more, "") : more);
}

void lift_count_timed(struct jit_lift *l, uint32_t instructions, uint32_t (*accesses)[3],
                      LLVMValueRef times) {
    if (!l->timed)
        return;
    LLVMValueRef more = c64(l, instructions);
    more = times ? l->llvm->BuildMul(l->b, times, more, "") : more;
    set(l, l->done, add(l, get(l, l->i64, l->done), more));
    for (unsigned w = 0; w < HPU_WINDOWS; w++) {
        const uint32_t *n = accesses[w];
        size_t window = offsetof(struct hpu, window) + w * sizeof(struct hpu_window);
        add_times(l, window + offsetof(struct hpu_window, loads), l->i32,
                  n[JIT_LOAD] + n[JIT_ATOMIC], times);
        add_times(l, window + offsetof(struct hpu_window, stores), l->i32,
                  n[JIT_STORE] + n[JIT_ATOMIC], times);
    }
}

/* Of an access: whether the device is told. */
static bool is_command(const struct jit_lift *l, uint32_t h) {
    return goes_to_issue(l, h) || lift_how(l, h) == JIT_BY_PORT;
}

void lift_count_block(struct jit_lift *l, const struct jit_block *block) {
    uint32_t h = block->start;
    for (uint32_t i = 0; i < block->count; i++, h += insn_at(l, h)->length / 2) {
        unsigned kind = kind_of(lift_shape[insn_at(l, h)->id]);
        unsigned window = l->member[i].group ? l->group[l->member[i].group - 1].window : NONE;
        if (window < HPU_WINDOWS && l->timed)
            l->ahead[window][kind]++;
        else if (window != NONE && window >= HPU_WINDOWS)
            l->words[kind]++;
        else if (lift_is_access(insn_at(l, h)) && is_command(l, h))
            l->words[JIT_STORE]++;
    }
    LLVMValueRef cycles = add(l, lift_cycles_ahead(l), c64(l, block->cycles));
    if (block->is_joined) { /* limits are looked at where each of its parts begins */
        LLVMValueRef lasts = compare(l, LLVMIntSGT, get(l, l->i64, l->left), cycles);
        lift_demand(l, lasts, JIT_SHORT, block->start, false);
    }
    charge(l, cycles);
    if (l->timed && l->words[JIT_LOAD])
        add_to(l, offsetof(struct hpu, device_loads), l->i64, c64(l, l->words[JIT_LOAD]));
    if (l->timed && l->words[JIT_STORE])
        add_to(l, offsetof(struct hpu, device_stores), l->i64, c64(l, l->words[JIT_STORE]));
    lift_count_timed(l, block->counted, l->ahead, NULL);
}

/* ---- accesses ---- */

/* The value of a call of jit_private.h; leaves at h when it did not go well. */
static LLVMValueRef outcome(struct jit_lift *l, LLVMValueRef result, uint32_t h) {
    LLVMValueRef stop = l->llvm->BuildLShr(l->b, result, c64(l, 32), "");
    lift_demand_none(l, narrow(l, stop, l->i32), h);
    if (l->timed) {
        LLVMValueRef lapse = get(l, l->i32, field(l, offsetof(struct hpu, lapse), l->i32));
        charge(l, widen(l, lapse));
        l->has_lost_time = true;
    }
    return narrow(l, result, l->i32);
}
struct jit_access lift_access_at(struct jit_lift *l, uint32_t h) {
    struct jit_access a = {.in = insn_at(l, h), .h = h};
    a.shape = lift_shape[a.in->id];
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

LLVMValueRef lift_address_of(struct jit_lift *l, const struct jit_access *a) {
    LLVMValueRef base = read_x(l, a->in->rs1);
    return a->atomic ? base : add(l, base, c32(l, (uint32_t)a->in->imm));
}

LLVMValueRef lift_stored_value(struct jit_lift *l, const struct jit_access *a) {
    return a->f ? get(l, l->i32, a->f) : read_x(l, a->in->rs2);
}

void lift_set_loaded(struct jit_lift *l, const struct jit_access *a, LLVMValueRef value) {
    if (a->f)
        l->llvm->BuildStore(l->b, value, a->f);
    else
        write_x(l, a->in->rd, value);
}

void lift_move(struct jit_lift *l, const struct jit_access *a, LLVMValueRef place) {
    const struct jit_llvm *v = l->llvm;
    LLVMValueRef made;
    if (a->store) {
        LLVMValueRef value = lift_stored_value(l, a);
        made = v->BuildStore(l->b, a->bytes == 4 ? value : narrow(l, value, a->type), place);
    } else {
        LLVMValueRef value = made = v->BuildLoad2(l->b, a->type, place, "");
        if (a->in->id == HPU_LB || a->in->id == HPU_LH)
            value = v->BuildSExt(l->b, made, l->i32, "");
        else if (a->bytes < 4)
            value = v->BuildZExt(l->b, made, l->i32, "");
        lift_set_loaded(l, a, value);
    }
    v->SetAlignment(made, 1);
}

static void called_access(struct jit_lift *l, const struct jit_access *a) {
    lift_tell_words(l);
    lift_show_packet(l);
    LLVMValueRef arguments[5] = {l->h, c32(l, l->code->slot_at[a->h]), lift_address_of(l, a)},
                 result;
    if (a->atomic) {
        arguments[3] = read_x(l, a->in->rs2);
        result = call(l, (const void *)jit_atomic, l->i64, arguments, 4);
    } else {
        arguments[3] = lift_left_at(l, slot_at(l, a->h));
        arguments[4] = a->store ? lift_stored_value(l, a) : NULL;
        result = call(l, a->store ? (const void *)jit_store : (const void *)jit_load, l->i64,
                      arguments, a->store ? 5 : 4);
    }
    LLVMValueRef value = outcome(l, result, a->h);
    if (!a->store)
        lift_set_loaded(l, a, value);
}

/* A command: the device is called from here, and what it does is done. In the registers that are
 * neither its own nor the HPU's, and in halves of them, it is another's to find that. */
void lift_tell_device(struct jit_lift *l, const struct jit_access *a) {
    const struct jit_llvm *v = l->llvm;
    LLVMValueRef offset = sub(l, lift_address_of(l, a), c32(l, MAP_DRIVER));
    LLVMValueRef command = compare(l, LLVMIntULT, sub(l, offset, c32(l, SPIN_REG_ISSUE)),
                                   c32(l, SPIN_REG_RESULT - SPIN_REG_ISSUE));
    LLVMValueRef good =
        v->BuildOr(l->b, command, compare(l, LLVMIntEQ, offset, c32(l, SPIN_REG_ALLOCATE)), "");
    LLVMValueRef low = v->BuildAnd(l->b, offset, c32(l, 3), "");
    good = v->BuildAnd(l->b, good, compare(l, LLVMIntEQ, low, c32(l, 0)), "");
    l->uses_device = true;
    lift_demand(l, good, JIT_MISS, a->h, true);
    lift_tell_words(l);
    lift_show_packet(l);
    LLVMValueRef cycles = field(l, offsetof(struct hpu, cycles), l->i64);
    LLVMValueRef horizon = get(l, l->i64, field(l, offsetof(struct hpu, horizon), l->i64));
    LLVMValueRef now = sub(l, horizon, lift_left_at(l, slot_at(l, a->h)));
    set(l, cycles, now);
    LLVMTypeRef types[] = {l->pointer, l->i32, l->i32};
    LLVMTypeRef type = v->FunctionType(l->i32, types, 3, 0);
    LLVMValueRef device = get(l, l->pointer, field(l, offsetof(struct hpu, device), l->pointer));
    LLVMTypeRef pointer = v->PointerType(type, 0);
    LLVMValueRef store = get(
        l, pointer, place_in(l, l->b, device, c64(l, offsetof(struct hpu_device, store)), pointer));
    LLVMValueRef arguments[] = {l->h, offset, lift_stored_value(l, a)};
    LLVMValueRef done = v->BuildCall2(l->b, type, store, arguments, 3, "");
    LLVMValueRef after = l->timed ? get(l, l->i64, cycles) : now;
    lift_demand_none(l, done, a->h);
    l->words[JIT_STORE]--;
    if (l->timed) {
        charge(l, sub(l, after, now));
        l->has_lost_time = true;
    }
}

/* What an atomic stores. */
static LLVMValueRef changed(struct jit_lift *l, LLVMAtomicRMWBinOp how, LLVMValueRef old,
                            LLVMValueRef operand) {
    const struct jit_llvm *v = l->llvm;
    LLVMIntPredicate keeps = LLVMIntEQ;
    switch (how) {
    case LLVMAtomicRMWBinOpXchg:
        return operand;
    case LLVMAtomicRMWBinOpAdd:
        return add(l, old, operand);
    case LLVMAtomicRMWBinOpXor:
        return v->BuildXor(l->b, old, operand, "");
    case LLVMAtomicRMWBinOpAnd:
        return v->BuildAnd(l->b, old, operand, "");
    case LLVMAtomicRMWBinOpOr:
        return v->BuildOr(l->b, old, operand, "");
    case LLVMAtomicRMWBinOpMin:
        keeps = LLVMIntSLT;
        break;
    case LLVMAtomicRMWBinOpMax:
        keeps = LLVMIntSGT;
        break;
    case LLVMAtomicRMWBinOpUMin:
        keeps = LLVMIntULT;
        break;
    default:
        keeps = LLVMIntUGT;
    }
    return v->BuildSelect(l->b, compare(l, keeps, old, operand), old, operand, "");
}

static void plain_atomic(struct jit_lift *l, const struct hpu_insn *in, LLVMValueRef place) {
    LLVMAtomicRMWBinOp how = in->id == HPU_AMOSWAP_W   ? LLVMAtomicRMWBinOpXchg
                             : in->id == HPU_AMOADD_W  ? LLVMAtomicRMWBinOpAdd
                             : in->id == HPU_AMOXOR_W  ? LLVMAtomicRMWBinOpXor
                             : in->id == HPU_AMOAND_W  ? LLVMAtomicRMWBinOpAnd
                             : in->id == HPU_AMOOR_W   ? LLVMAtomicRMWBinOpOr
                             : in->id == HPU_AMOMIN_W  ? LLVMAtomicRMWBinOpMin
                             : in->id == HPU_AMOMAX_W  ? LLVMAtomicRMWBinOpMax
                             : in->id == HPU_AMOMINU_W ? LLVMAtomicRMWBinOpUMin
                                                       : LLVMAtomicRMWBinOpUMax;
    if (l->code->is_alone) {
        LLVMValueRef before = get(l, l->i32, place);
        set(l, place, changed(l, how, before, read_x(l, in->rs2)));
        write_x(l, in->rd, before);
        return;
    }
    write_x(l, in->rd,
            l->llvm->BuildAtomicRMW(l->b, how, place, read_x(l, in->rs2),
                                    LLVMAtomicOrderingSequentiallyConsistent, 0));
}

static void count_in_window(struct jit_lift *l, const struct jit_access *a, LLVMValueRef window) {
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
    l->has_lost_time = true;
}

/* Through the window that the slot names now, as the interpreter does it; else a call, which will
 * change what the slot names. */
static void guessed_access(struct jit_lift *l, const struct jit_access *a) {
    const struct jit_llvm *v = l->llvm;
    const void *where = &slot_at(l, a->h)->a.window;
    lift_settle(l); /* for both ways */
    lift_tell_words(l);
    lift_show_packet(l);
    LLVMValueRef byte = v->ConstIntToPtr(c64(l, (uintptr_t)where), v->PointerType(l->i8, 0));
    LLVMValueRef guess = v->BuildLoad2(l->b, l->i8, byte, "");
    v->SetOrdering(guess, LLVMAtomicOrderingMonotonic); /* read once: others may write it */
    v->SetAlignment(guess, 1);
    LLVMValueRef distance = v->BuildShl(l->b, widen(l, guess), c64(l, 3), "");
    LLVMValueRef first = place_in(l, l->b, l->h, c64(l, offsetof(struct hpu, window)), l->i8);
    LLVMValueRef window = place_in(l, l->b, first, distance, l->i8);
    LLVMValueRef address = lift_address_of(l, a);
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
        lift_move(l, a, place);
    v->BuildBr(l->b, on);
    at(l, on);
}

/* Once until they may be taken. */
static void note_other_words(struct jit_lift *l) {
    if (!l->has_noted)
        note_words(l);
    l->has_noted = true;
}

static void plain_access(struct jit_lift *l, const struct jit_access *a, const struct member *m) {
    const struct jit_group *g = &l->group[m->group - 1];
    if (g->has_value) {
        uint32_t word = (g->value + (uint32_t)m->distance - (MAP_DRIVER + SPIN_REG_WORD)) / 4;
        l->words[JIT_STORE]--;
        if (g->is_held) {
            l->held[word] = lift_stored_value(l, a);
        } else {
            note_other_words(l);
            set(l, field(l, offsetof(struct hpu, word) + 4 * word, l->i32),
                lift_stored_value(l, a));
        }
        return;
    }
    uint64_t distance = (uint64_t)(int64_t)(m->distance - g->least);
    LLVMValueRef place = g->window >= HPU_WINDOWS && is_constant(&g->from)
                             ? field(l, in_hpu(g->window) + (uint32_t)m->distance, a->type)
                             : place_in(l, l->b, g->pointer, c64(l, distance), a->type);
    if (g->guarded)
        lift_guarded_move(l, a, g->window);
    if (g->window >= HPU_WINDOWS)
        l->words[kind_of(a->shape)]--;
    else if (l->timed)
        l->ahead[g->window][kind_of(a->shape)]--;
    if (g->window == JIT_COMMAND) { /* which word is not known */
        lift_tell_words(l);
        note_other_words(l);
    }
    if (a->atomic)
        plain_atomic(l, a->in, place);
    else if (!g->guarded)
        lift_move(l, a, place);
}

void lift_access(struct jit_lift *l, uint32_t h, const struct member *m) {
    struct jit_access a = lift_access_at(l, h);
    if (m && m->group)
        plain_access(l, &a, m);
    else if (a.shape == SHAPE_LR || a.shape == SHAPE_SC)
        called_access(l, &a);
    else if (lift_how(l, h) == JIT_BY_COPY && !l->timed)
        lift_copy(l, &a);
    else if (is_command(l, h))
        lift_tell_device(l, &a);
    else if (lift_how(l, h) > JIT_BY_GUESS)
        called_access(l, &a);
    else
        guessed_access(l, &a);
}
