/* What the parts of the lifter share: jit_lift.c goes through blocks and instructions, jit_access.c
 * does loads, stores and atomics, jit_loop.c loops of one block, jit_leave.c the exits. */
#ifndef SPIN_HPU_JIT_LIFT_H
#define SPIN_HPU_JIT_LIFT_H

#include <stddef.h>

#include "hpu/interp.h"
#include "hpu/jit_llvm.h"

#define NONE              UINT32_MAX
#define MOST_BLOCKS       500u
#define MOST_INSTRUCTIONS 400u /* of a region; the rest is another's */
#define MOST_UNSEEN       32u  /* of one of which nothing is known */
#define MOST_KEPT         16u  /* blocks of a region that writes registers back on its exits */
/* What makes compiling take long: instructions, and as many more for each that is a call and for
 * each loop that LLVM makes more of. Of a region that is compiled well, or hurriedly; instructions
 * of one that is compiled well, or fairly; and how many such loops there may be. */
#define MOST_WELL       116u
#define MOST_HURRIED    260u
#define MOST_WELL_INSNS 56u
#define MOST_FAIR       110u
#define CALL_WEIGHT     2u
#define LOOP_WEIGHT     60u
#define MOST_SHORT      2u
#define MOST_JOINED     64u /* cycles of blocks that are looked at as one */
#define MOST_GROUPS     64u
#define MOST_BOUNDS     64u

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

extern const uint8_t lift_shape[HPU_INSN_COUNT];

/* One of the interpreter's blocks, or several, one behind the other, of which each is left at its
 * end only in a way that was never seen. */
struct jit_block {
    uint32_t start;                /* halfword */
    uint32_t count;                /* instructions, of which the last may be one to leave at */
    uint32_t ways_in;              /* how many jumps and blocks lead here */
    uint32_t cycles, counted;      /* static; instructions, as the slots say */
    bool is_joined;                /* several */
    bool is_part;                  /* of another; not lifted by itself */
    uint32_t dirty, writes;        /* registers: that may have changed before it; that it changes */
    bool is_looped;                /* a jump backwards leads here */
    LLVMBasicBlockRef enter, body; /* with and without a look at the limit */
    LLVMBasicBlockRef put_back;    /* writes `dirty` back and leaves by the row that is set */
    uint32_t parent;               /* the block that led here first, or NONE */
};

/* What a register holds in a block: what another one held when the block had written it so often,
 * plus a constant. */
struct jit_origin {
    uint8_t reg;
    uint32_t version;
    int32_t more;
};

/* Accesses at constant distances from each other, checked together. */
struct jit_group {
    struct jit_origin from; /* distances are from what `reg` held then; `more` is not used */
    struct jit_origin low;  /* reg + least has the lowest bits of this */
    uint8_t window;
    uint8_t reg;    /* when it is checked this register holds that, */
    int32_t more;   /* plus so much */
    uint32_t first; /* instruction of the block at which it is checked */
    int32_t least, end;
    uint32_t aligned; /* mask that must be 0 in the address of `least` */
    bool write;
    bool guarded;   /* page protection does the check */
    bool has_value; /* `from` is `value`, or the function is left: words of a command */
    uint32_t value;
    bool is_held; /* until then they stay values: `held` of jit_lift */
    uint8_t members;
    LLVMValueRef pointer; /* to reg + least */
};

/* Where a window's access of `span` bytes may begin: below this. */
struct jit_bound {
    uint8_t window;
    bool write;
    uint32_t span;
    LLVMValueRef value;
};

struct jit_window {
    bool used;
    LLVMValueRef base, host, extra[3]; /* cycles of a load, a store, an atomic */
    LLVMValueRef view;                 /* or NULL: not used */
};

struct jit_lift {
    const struct jit_llvm *llvm;
    LLVMContextRef context;
    LLVMModuleRef module, loops;
    const char *name;        /* of the function */
    LLVMModuleRef templates; /* jit_guard.c; NULL: all accesses are checked */
    bool x86;
    LLVMBuilderRef b, at_entry;
    struct jit_region *region;
    const struct hpu_code *code;
    bool timed;
    LLVMTypeRef i1, i8, i16, i32, i64, pointer;
    LLVMValueRef function, h, left_at_start, seen, generation;
    LLVMValueRef host;       /* of the first window, whatever the HPU says; NULL: what that says */
    LLVMValueRef x[32];      /* of x0: none */
    LLVMValueRef left, done; /* variables: cycles; instructions, in the timed mode */
    LLVMValueRef row, taken; /* variables of those who leave */
    LLVMBasicBlockRef entry, out, end; /* out: by row; end: by exit */
    LLVMValueRef likely, nothing;      /* metadata, and two kinds of it */
    unsigned prof, fixed;
    struct jit_window window[JIT_WINDOWS];
    struct jit_bound bound[MOST_BOUNDS];
    uint32_t bounds;
    bool uses_device;

    struct jit_block *block;
    uint32_t blocks, instructions;
    uint32_t scanned;   /* the block whose end is looked for */
    uint32_t *block_at; /* [halfword] */
    uint32_t *site;     /* places that calls return to: halfwords */
    uint32_t sites;
    bool settles;      /* registers are written back before an exit, not at it */
    bool changes_more; /* of the HPU's than x, words of commands and counters */
    uint32_t written;  /* registers that some block changes */
    struct jit_exit *exits;
    uint32_t exit_count, exit_room;
    bool is_short_of_memory;
    struct jit_lift *loop; /* memory for what lifts a loop as a function of its own */

    /* of the block that is being lifted */
    const struct jit_block *lifted;
    uint32_t ahead[HPU_WINDOWS][3];     /* accesses that were counted when it was entered */
    uint32_t words[2];                  /* and those of the HPU's own registers */
    uint32_t later_cycles, later_count; /* of the interpreter's blocks after the present one */
    bool has_lost_time;                 /* cycles that no one could know in advance */
    struct jit_group group[MOST_GROUPS];
    uint32_t groups;
    struct member {
        uint8_t group; /* + 1 */
        int32_t distance;
    } * member; /* [instruction] */
    struct aligned {
        struct jit_origin low;
        uint32_t mask;
    } aligned[MOST_GROUPS]; /* what was checked until now */
    uint32_t aligneds;
    uint32_t dirty; /* registers that may have changed until now */
    /* Words of the DMA that is being put together, or NULL: nobody looks at them if it is done
     * here. */
    LLVMValueRef held[SPIN_WORDS];
    bool has_noted; /* that others are there */
};

static inline uint32_t halfwords(const struct jit_lift *l) {
    return l->code->bytes / 2;
}
static inline const struct hpu_insn *insn_at(const struct jit_lift *l, uint32_t h) {
    return &l->code->insn[l->code->slot_at[h]];
}
static inline const struct hpu_slot *slot_at(const struct jit_lift *l, uint32_t h) {
    return &l->code->slot[l->code->slot_at[h]];
}
static inline uint32_t pc_of(const struct jit_lift *l, uint32_t h) {
    return l->code->base + 2 * h;
}

/* JIT_BY_WINDOW and so on. Registers of the HPU's own are only taken for some if it has them for
 * certain, and in accesses that the window of registers can do. */
static inline unsigned lift_how(const struct jit_lift *l, uint32_t h) {
    unsigned how = l->region->by_call[l->code->slot_at[h]], shape = lift_shape[insn_at(l, h)->id];
    bool has_device = l->region->fixed >> JIT_DEVICE & l->region->trait[JIT_DEVICE] & 1;
    bool fits = how == JIT_BY_TASK   ? shape == SHAPE_LOAD
                : how == JIT_BY_WORD ? shape == SHAPE_LOAD || shape == SHAPE_STORE
                                     : shape == SHAPE_STORE;
    return how > JIT_BY_GUESS && !(has_device && fits) ? JIT_BY_CALL : how;
}

/* ---- short forms ---- */

static inline LLVMValueRef c32(struct jit_lift *l, uint32_t value) {
    return l->llvm->ConstInt(l->i32, value, 0);
}
static inline LLVMValueRef c64(struct jit_lift *l, uint64_t value) {
    return l->llvm->ConstInt(l->i64, value, 0);
}
static inline LLVMValueRef add(struct jit_lift *l, LLVMValueRef a, LLVMValueRef b) {
    return l->llvm->BuildAdd(l->b, a, b, "");
}
static inline LLVMValueRef sub(struct jit_lift *l, LLVMValueRef a, LLVMValueRef b) {
    return l->llvm->BuildSub(l->b, a, b, "");
}
static inline LLVMValueRef widen(struct jit_lift *l, LLVMValueRef v) {
    return l->llvm->BuildZExt(l->b, v, l->i64, "");
}
static inline LLVMValueRef narrow(struct jit_lift *l, LLVMValueRef v, LLVMTypeRef type) {
    return l->llvm->BuildTrunc(l->b, v, type, "");
}
static inline LLVMValueRef compare(struct jit_lift *l, LLVMIntPredicate how, LLVMValueRef a,
                                   LLVMValueRef b) {
    return l->llvm->BuildICmp(l->b, how, a, b, "");
}
static inline LLVMValueRef get(struct jit_lift *l, LLVMTypeRef type, LLVMValueRef variable) {
    return l->llvm->BuildLoad2(l->b, type, variable, "");
}
/* What stays as long as the function runs. LLVM loads it where it is needed, not where it is said:
 * so it takes no register from what comes before. */
static inline LLVMValueRef get_fixed(struct jit_lift *l, LLVMBuilderRef b, LLVMTypeRef type,
                                     LLVMValueRef place) {
    LLVMValueRef value = l->llvm->BuildLoad2(b, type, place, "");
    l->llvm->SetMetadata(value, l->fixed, l->nothing);
    return value;
}
static inline void set(struct jit_lift *l, LLVMValueRef variable, LLVMValueRef value) {
    l->llvm->BuildStore(l->b, value, variable);
}
/* In front of all that is rare. */
static inline LLVMBasicBlockRef new_block(struct jit_lift *l) {
    return l->out ? l->llvm->InsertBasicBlockInContext(l->context, l->out, "")
                  : l->llvm->AppendBasicBlockInContext(l->context, l->function, "");
}
static inline LLVMBasicBlockRef new_rare_block(struct jit_lift *l) {
    return l->llvm->AppendBasicBlockInContext(l->context, l->function, "");
}
static inline void at(struct jit_lift *l, LLVMBasicBlockRef block) {
    l->llvm->PositionBuilderAtEnd(l->b, block);
}

/* The address of a byte at a distance, as a pointer to `type`. */
static inline LLVMValueRef place_in(struct jit_lift *l, LLVMBuilderRef b, LLVMValueRef from,
                                    LLVMValueRef distance, LLVMTypeRef type) {
    LLVMValueRef p = l->llvm->BuildGEP2(b, l->i8, from, &distance, 1, "");
    return type == l->i8 ? p : l->llvm->BuildBitCast(b, p, l->llvm->PointerType(type, 0), "");
}
static inline LLVMValueRef field(struct jit_lift *l, size_t offset, LLVMTypeRef type) {
    return place_in(l, l->b, l->h, c64(l, offset), type);
}

static inline LLVMValueRef call(struct jit_lift *l, const void *function, LLVMTypeRef result,
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
static inline void branch_rarely(struct jit_lift *l, LLVMValueRef usual, LLVMBasicBlockRef then,
                                 LLVMBasicBlockRef otherwise) {
    LLVMValueRef branch = l->llvm->BuildCondBr(l->b, usual, then, otherwise);
    l->llvm->SetMetadata(branch, l->prof, l->likely);
}

/* Goes on in a new block when `good`, as usual. */
static inline void go_on_if(struct jit_lift *l, LLVMValueRef good, LLVMBasicBlockRef otherwise) {
    LLVMBasicBlockRef on = new_block(l);
    branch_rarely(l, good, on, otherwise);
    at(l, on);
}

/* A field of something else than the HPU. */
static inline LLVMValueRef in_window(struct jit_lift *l, LLVMValueRef window, size_t offset,
                                     LLVMTypeRef type) {
    return get(l, type, place_in(l, l->b, window, c64(l, offset), type));
}

static inline LLVMValueRef read_x(struct jit_lift *l, unsigned reg) {
    return reg ? get(l, l->i32, l->x[reg]) : c32(l, 0);
}
static inline void write_x(struct jit_lift *l, unsigned reg, LLVMValueRef value) {
    if (!reg)
        return;
    set(l, l->x[reg], value);
    l->dirty |= 1u << reg;
}

/* Adds to one of the HPU's numbers. */
static inline void add_to(struct jit_lift *l, size_t offset, LLVMTypeRef type, LLVMValueRef more) {
    LLVMValueRef place = field(l, offset, type);
    set(l, place, add(l, get(l, type, place), more));
}

/* Whether nothing of the kind, a byte of `unready`, is left behind. */
static inline LLVMValueRef is_ready(struct jit_lift *l, size_t kind) {
    LLVMValueRef unready = get(l, l->i8, field(l, kind, l->i8));
    return compare(l, LLVMIntEQ, unready, l->llvm->ConstInt(l->i8, 0, 0));
}

/* Some words of a command are not 0. */
static inline void note_words(struct jit_lift *l) {
    set(l, field(l, offsetof(struct hpu, unready.words), l->i8), l->llvm->ConstInt(l->i8, 1, 0));
}

static inline void charge(struct jit_lift *l, LLVMValueRef cycles) {
    set(l, l->left, sub(l, get(l, l->i64, l->left), cycles));
}
/* ---- jit_lift.c ---- */

/* Where a branch or jump leads, or NONE when that is outside. */
uint32_t lift_target_of(const struct jit_lift *l, uint32_t h);
/* Where the block's last instruction stands. */
uint32_t lift_last_of(const struct jit_lift *l, const struct jit_block *block);
/* Whether the interpreter has to do it. */
bool lift_is_left(const struct jit_lift *l, uint32_t h);
/* How many cycles are left at the instruction in a slot, whose block has been charged. */
LLVMValueRef lift_left_at(struct jit_lift *l, const struct hpu_slot *slot);
void lift_go_to(struct jit_lift *l, uint32_t h);
/* A function of an HPU and more, which returns an i64 and begins with the HPU's registers. */
void lift_begin_function(struct jit_lift *l, const char *name, LLVMTypeRef *types, unsigned n);
/* Whether a branch is taken, or not. */
LLVMValueRef lift_branches(struct jit_lift *l, const struct hpu_insn *in, bool taken);
/* True when it has ended the block. `before`: the instruction before it in the block, or NONE; `m`:
 * an access's, or NULL. */
bool lift_insn(struct jit_lift *l, uint32_t h, uint32_t before, const struct member *m);

/* ---- jit_leave.c ---- */

/* Writes back what the block has changed, if that is this function's way. */
void lift_settle(struct jit_lift *l);
/* Writes back where the packet is, before something looks at the first window. */
void lift_show_packet(struct jit_lift *l);
/* Writes back the words that are held, before something that looks at them. */
void lift_tell_words(struct jit_lift *l);
/* Makes the block's put_back. */
void lift_put_back(struct jit_lift *l, const struct jit_block *block);
/* A block that ends the function before the instruction at h, with what holds here. `counted`: the
 * lifted block has been. */
LLVMBasicBlockRef lift_exit_at(struct jit_lift *l, uint32_t h, uint32_t status, bool counted);
/* Goes there. */
void lift_leave_at(struct jit_lift *l, uint32_t h, uint32_t status, bool counted);
/* The same unless `good`, where one of the interpreter's blocks has ended and the next has not
 * begun; `lost`: cycles that going there takes. */
void lift_demand_between(struct jit_lift *l, LLVMValueRef good, uint32_t status, uint32_t h,
                         uint32_t lost);
/* The same unless `good`; the code goes on in a new block. */
void lift_demand(struct jit_lift *l, LLVMValueRef good, uint32_t status, uint32_t h, bool counted);
/* The same when `stop`, an hpu_stop, is not 0. */
void lift_demand_none(struct jit_lift *l, LLVMValueRef stop, uint32_t h);
/* Ends the function where a jump leads; what it returns. */
void lift_leave_to(struct jit_lift *l, LLVMValueRef pc, const struct jit_exit *taken);
/* Ends the function where the handler has returned, if its registers are kept. */
void lift_return_kept(struct jit_lift *l);
/* What all exits share, when all else has been lifted. */
void lift_exits(struct jit_lift *l);

/* ---- jit_access.c ---- */

/* One load or store, taken apart. */
struct jit_access {
    const struct hpu_insn *in;
    uint32_t h, bytes;
    unsigned shape;
    bool store, atomic;
    LLVMTypeRef type;
    LLVMValueRef f; /* the float register that it moves, or NULL */
};

struct jit_access lift_access_at(struct jit_lift *l, uint32_t h);
bool lift_is_access(const struct hpu_insn *in);
/* The window that an access is expected to hit. */
unsigned lift_guess_at(const struct jit_lift *l, uint32_t h);
/* Read once, when the function begins: nothing changes windows while a handler runs. */
struct jit_window *lift_use_window(struct jit_lift *l, unsigned number);
/* At the end of the entry: goes to `body` when the HPU is as the function expects. */
void lift_enter(struct jit_lift *l, LLVMBasicBlockRef body);
/* Below which offset an access of `span` bytes may begin. */
LLVMValueRef lift_bound(struct jit_lift *l, unsigned window, uint32_t span, bool write);
/* Sorts the block's accesses into groups; checks those that are due before an instruction. */
void lift_group_accesses(struct jit_lift *l, const struct jit_block *block);
void lift_check_groups(struct jit_lift *l, uint32_t index, uint32_t h);
/* Counts the block, with all accesses that are in groups: cycles, instructions, loads, stores. */
void lift_count_block(struct jit_lift *l, const struct jit_block *block);
/* What the timed mode counts beside cycles, so many times, or once if that is NULL: instructions,
 * and loads, stores and atomics of each window. These stay in memory: as values they would go along
 * every exit. */
void lift_count_timed(struct jit_lift *l, uint32_t instructions, uint32_t (*accesses)[3],
                      LLVMValueRef times);
/* The cycles of those that are still ahead. */
LLVMValueRef lift_cycles_ahead(struct jit_lift *l);
/* The load or store itself, of memory that was checked. */
void lift_move(struct jit_lift *l, const struct jit_access *a, LLVMValueRef place);
void lift_access(struct jit_lift *l, uint32_t h, const struct member *m);
/* A load has this value: its register is set. */
void lift_set_loaded(struct jit_lift *l, const struct jit_access *a, LLVMValueRef value);
LLVMValueRef lift_stored_value(struct jit_lift *l, const struct jit_access *a);
LLVMValueRef lift_address_of(struct jit_lift *l, const struct jit_access *a);
/* A command, or what goes to another register of the device: it is called from here. */
void lift_tell_device(struct jit_lift *l, const struct jit_access *a);

/* ---- jit_copy.c ---- */

/* The same of a command that mostly is DMA of the packet, or of a part of it, to memory which is
 * there: done here, as the device would do it at once. */
void lift_copy(struct jit_lift *l, const struct jit_access *a);

/* ---- jit_guard.c ---- */

/* Makes ready what guarded accesses are made from. False: this machine has none. */
bool lift_open_guards(struct jit_lift *l, const char *triple);
void lift_close_guards(struct jit_lift *l);
/* The load or store itself, through the window's view; leaves before it when that faults. */
void lift_guarded_move(struct jit_lift *l, const struct jit_access *a, unsigned window);

/* ---- jit_loop.c ---- */

/* Whether the block jumps to itself, and its iterations can be taken at once. */
bool lift_is_tight(const struct jit_lift *l, const struct jit_block *block);
/* And it is one that LLVM should unroll or make vectors of. */
bool lift_is_short(const struct jit_lift *l, const struct jit_block *block);
/* Of such a block: code for many iterations at once, if it is one. True: that is all it
 * needs. */
bool lift_tight_loop(struct jit_lift *l, const struct jit_block *block);

#endif
