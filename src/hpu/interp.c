/* The interpreter: threaded code over the slots of code.h, in three modes of one body (interp.inc).
 *
 * Design notes. Each instruction is a label; a slot holds its label's address, and every label ends
 * by jumping through the next slot, so the host's branch predictor sees one indirect jump for each
 * instruction and learns the handler's paths. Loads and stores try the one window that hit last at
 * this place of the program, which is nearly always right: the instruction that reads the packet
 * reads the packet the next time. Everything rare leaves through a function. */
#include "hpu/interp.h"

#include <string.h>

/* What the table says, as functions: the compiler puts them where they are used. */
#define VALUE(id, body)                                                                            \
    static inline __attribute__((always_inline)) uint32_t value_##id(uint32_t a, uint32_t b) {     \
        (void)a, (void)b;                                                                          \
        return (uint32_t)(body);                                                                   \
    }
#define GIVE_RR(id, body)  VALUE(id, body)
#define GIVE_RI(id, body)  VALUE(id, body)
#define GIVE_DIV(id, body) VALUE(id, body)
#define GIVE_BRANCH(id, body)                                                                      \
    static inline __attribute__((always_inline)) bool taken_##id(uint32_t a, uint32_t b) {         \
        return body;                                                                               \
    }
#define GIVE_AMO(id, body)                                                                         \
    static inline __attribute__((always_inline)) uint32_t stored_##id(uint32_t old, uint32_t b) {  \
        (void)old;                                                                                 \
        return body;                                                                               \
    }
#define GIVE_LOAD(id, body)  typedef body type_##id;
#define GIVE_STORE(id, body) typedef body type_##id;
#define GIVE_CONST(id, body)
#define GIVE_JAL(id, body)
#define GIVE_JALR(id, body)
#define GIVE_FENCE(id, body)
#define GIVE_TRAP(id, body) enum { fault_##id = body };
#define GIVE_CSR(id, body)
#define GIVE_LR(id, body)
#define GIVE_SC(id, body)
#define GIVE_FLOAD(id, body)
#define GIVE_FSTORE(id, body)
#define GIVE_FP(id, body)
#define INSN(id, name, operands, match, mask, ext, timing, shape, body) GIVE_##shape(id, body)
#include "hpu/isa.def"
#undef INSN

/* For the branch whose target is outside the program: it may still not be taken. */
static bool branch_taken(unsigned id, uint32_t a, uint32_t b) {
    switch (id) {
#define TAKEN_BRANCH(id)                                                                           \
    case HPU_##id:                                                                                 \
        return taken_##id(a, b);
#define TAKEN(id) TAKEN_BRANCH(id)
        TAKEN(BEQ) TAKEN(BNE) TAKEN(BLT) TAKEN(BGE) TAKEN(BLTU) TAKEN(BGEU)
    }
    return false;
}

static _Atomic uint8_t *window_guess(const struct hpu_operand *o) {
    return (_Atomic uint8_t *)&((struct hpu_operand *)(uintptr_t)o)->window;
}

static enum hpu_access refused(struct hpu *h, const struct hpu_slow_access *s,
                               enum hpu_access how) {
    if (how == HPU_ACCESS_FAULT) {
        if (h->fault == HPU_FAULT_NONE) {
            h->fault = HPU_FAULT_SEGV;
            h->fault_address = s->address;
        }
    }
    return how;
}

/* Looked at before the windows, of which none is there: commands are a dozen accesses each. */
static bool is_device(const struct hpu_slow_access *s) {
    return s->address - MAP_DRIVER < MAP_DRIVER_SIZE || s->address - MAP_STDOUT < MAP_STDOUT_SIZE;
}

static enum hpu_access at_stdout(struct hpu *h, struct hpu_slow_access *s, bool write) {
    if (!write || !h->device || !h->device->print)
        return HPU_ACCESS_FAULT;
    h->cycles = s->now;
    h->pc = s->pc;
    s->extra = 0;
    enum hpu_access done = h->device->print(h, (uint8_t)s->value);
    h->device_stores += done == HPU_ACCESS_OK;
    return done;
}

uint8_t *hpu_own_register(struct hpu *h, uint32_t address, uint32_t size, bool write) {
    uint32_t offset = address - MAP_DRIVER, word = (offset - SPIN_REG_WORD) / 4;
    if (!h->device || offset & (size - 1))
        return NULL;
    if (offset < SPIN_TASK_REGISTERS)
        return write ? (uint8_t *)&h->task_word : (uint8_t *)&h->task + offset;
    if (size != 4)
        return NULL;
    if (write && offset == SPIN_REG_INFO)
        return (uint8_t *)&h->info;
    if (write)
        return word < SPIN_WORDS ? (uint8_t *)&h->word[word] : NULL;
    bool is_result = offset == SPIN_REG_RESULT || offset == SPIN_REG_ALLOCATE;
    return is_result || offset == SPIN_REG_TEST ? (uint8_t *)&h->result : NULL;
}

uint32_t *hpu_task_register(struct hpu *h, uint32_t address) {
    uint32_t offset = address - MAP_DRIVER;
    if (!h->device || offset >= SPIN_TASK_REGISTERS)
        return NULL;
    memcpy(&h->task_word, (const uint8_t *)&h->task + offset, 4);
    h->device_loads++;
    h->device_stores++;
    return &h->task_word;
}

/* The device sees the exact local time and may let some pass, which counts in the timed mode. */
static enum hpu_access at_device(struct hpu *h, struct hpu_slow_access *s, bool write) {
    const struct hpu_device *device = h->device;
    uint32_t offset = s->address - MAP_DRIVER;
    if (s->address - MAP_STDOUT < MAP_STDOUT_SIZE)
        return at_stdout(h, s, write);
    if (!device || offset >= MAP_DRIVER_SIZE)
        return HPU_ACCESS_FAULT;
    uint8_t *own = hpu_own_register(h, s->address, s->size, write);
    enum hpu_access done = HPU_ACCESS_OK;
    s->extra = 0;
    if (own) {
        memcpy(write ? (void *)own : &s->value, write ? (void *)&s->value : own, s->size);
        h->unready.words |= write;
    } else {
        if (s->size != 4 || offset & 3 || (!write && !device->load))
            return HPU_ACCESS_FAULT;
        h->cycles = s->now;
        h->pc = s->pc;
        done = write ? device->store(h, offset, s->value) : device->load(h, offset, &s->value);
        s->extra = h->code->mode == HPU_TIMED ? (uint32_t)(h->cycles - s->now) : 0;
    }
    *(write ? &h->device_stores : &h->device_loads) += done == HPU_ACCESS_OK;
    return done;
}

__attribute__((noinline, cold)) enum hpu_access hpu_slow_load(struct hpu *h,
                                                              struct hpu_slow_access *s) {
    int index = is_device(s) ? -1 : hpu_find_window(h, s->address, s->size, false);
    if (index < 0)
        return refused(h, s, at_device(h, s, false));
    struct hpu_window *w = &h->window[index];
    atomic_store_explicit(s->guess, (uint8_t)((size_t)index * HPU_WINDOW_STEP),
                          memory_order_relaxed);
    memcpy(&s->value, w->host + (s->address - w->base), s->size); /* little-endian hosts only */
    s->extra = w->load_extra;
    w->loads += s->timed;
    return HPU_ACCESS_OK;
}

/* Words of commands are most of what is stored at the device: a dozen for each, and they do nothing
 * by themselves. False: the store is another. */
static __attribute__((noinline)) bool store_word(struct hpu *h, uint32_t address, uint32_t value) {
    uint32_t offset = address - (MAP_DRIVER + SPIN_REG_WORD);
    if (offset >= 4 * SPIN_WORDS || (offset & 3) || !h->device)
        return false;
    h->word[offset / 4] = value;
    h->unready.words = 1;
    h->device_stores++;
    return true;
}

__attribute__((noinline, cold)) enum hpu_access hpu_slow_store(struct hpu *h,
                                                               struct hpu_slow_access *s) {
    int index = is_device(s) ? -1 : hpu_find_window(h, s->address, s->size, true);
    if (index < 0)
        return refused(h, s, at_device(h, s, true));
    struct hpu_window *w = &h->window[index];
    atomic_store_explicit(s->guess, (uint8_t)((size_t)index * HPU_WINDOW_STEP),
                          memory_order_relaxed);
    memcpy(w->host + (s->address - w->base), &s->value, s->size);
    s->extra = w->store_extra;
    w->stores += s->timed;
    return HPU_ACCESS_OK;
}

static uint32_t load_reserved(struct hpu *h, const uint32_t *word, uint32_t address) {
    h->reserved = true;
    h->reserved_address = address;
    h->reserved_value = __atomic_load_n(word, __ATOMIC_SEQ_CST);
    return h->reserved_value;
}

/* 0 when it has stored. */
static uint32_t store_conditional(struct hpu *h, uint32_t *word, uint32_t address, uint32_t value) {
    uint32_t expected = h->reserved_value;
    bool stored = h->reserved && h->reserved_address == address &&
                  __atomic_compare_exchange_n(word, &expected, value, false, __ATOMIC_SEQ_CST,
                                              __ATOMIC_RELAXED);
    h->reserved = false;
    return !stored;
}

#define EXCHANGE(id, p, b)                                                                         \
    ({                                                                                             \
        uint32_t old_ = __atomic_load_n(p, __ATOMIC_RELAXED);                                      \
        while (!__atomic_compare_exchange_n(p, &old_, stored_##id(old_, b), true,                  \
                                            __ATOMIC_SEQ_CST, __ATOMIC_RELAXED))                   \
            ;                                                                                      \
        old_;                                                                                      \
    })

uint32_t hpu_atomic(struct hpu *h, unsigned id, uint32_t *word, uint32_t address, uint32_t value) {
    switch (id) {
    case HPU_LR_W:
        return load_reserved(h, word, address);
    case HPU_SC_W:
        return store_conditional(h, word, address, value);
#define EXCHANGE_AMO(id)                                                                           \
    case HPU_##id:                                                                                 \
        return EXCHANGE(id, word, value);
        EXCHANGE_AMO(AMOSWAP_W)
        EXCHANGE_AMO(AMOADD_W)
        EXCHANGE_AMO(AMOXOR_W)
        EXCHANGE_AMO(AMOAND_W)
        EXCHANGE_AMO(AMOOR_W)
        EXCHANGE_AMO(AMOMIN_W)
        EXCHANGE_AMO(AMOMAX_W)
        EXCHANGE_AMO(AMOMINU_W)
        EXCHANGE_AMO(AMOMAXU_W)
    }
    return 0;
}

/* Stepping does not follow `run`, which may do two at once, but must heed what it says of a slot
 * that leads outside the program. */
static unsigned plain_label(const struct hpu_code *code, const struct hpu_slot *op) {
    static const unsigned outside[] = {HPU_LABEL_OFF_END, HPU_LABEL_JAL_OUT, HPU_LABEL_BRANCH_OUT};
    const struct hpu_insn *in = &code->insn[op - code->slot];
    if (hpu_insn_ends_block(in))
        for (size_t i = 0; i < sizeof outside / sizeof outside[0]; i++)
            if (op->run == hpu_label(code->mode, outside[i]))
                return outside[i];
    return in->id;
}

#define DISPATCH()                                                                                 \
    do {                                                                                           \
        if (STEP)                                                                                  \
            goto *labels[plain_label(code, op)];                                                   \
        goto * op->run;                                                                            \
    } while (0)
#define ADD_CYCLES(n)                                                                              \
    do {                                                                                           \
        if (TIMED)                                                                                 \
            cycles += (n);                                                                         \
    } while (0)
/* In the functional mode cycles are instructions, and one counter serves for both. */
#define SYNC_INSTRET(minus) (h->instret = (TIMED ? instret : instret_offset + cycles) - (minus))

/* Begins a block at op: the only place where the limits are looked at. */
#define CHARGE()                                                                                   \
    do {                                                                                           \
        cycles += op->cycles;                                                                      \
        if (TIMED)                                                                                 \
            instret += op->count;                                                                  \
        if (STEP && icache)                                                                        \
            cycles +=                                                                              \
                hpu_icache_fetch(icache, code, (uint32_t)(op - code->slot), cycles - op->cycles);  \
        else if (TIMED && icache && icache->seen[op - code->slot] != generation)                   \
            goto unseen;                                                                           \
        DISPATCH();                                                                                \
    } while (0)
#define BEGIN()                                                                                    \
    do {                                                                                           \
        if (__builtin_expect(cycles >= limit, 0))                                                  \
            goto at_limit;                                                                         \
        CHARGE();                                                                                  \
    } while (0)

/* Goes on at op, which begins a block; or n slots further within the block. */
#define ENTER()                                                                                    \
    do {                                                                                           \
        if (STEP)                                                                                  \
            goto stepped_to_block;                                                                 \
        BEGIN();                                                                                   \
    } while (0)
#define NEXT(n)                                                                                    \
    do {                                                                                           \
        op += (n);                                                                                 \
        if (STEP)                                                                                  \
            goto stepped_within_block;                                                             \
        DISPATCH();                                                                                \
    } while (0)

/* Ends the run at the instruction in slot `self`, which has not been executed. */
#define STOP_AT(self, why)                                                                         \
    do {                                                                                           \
        op = (self);                                                                               \
        stop = (why);                                                                              \
        goto stopped;                                                                              \
    } while (0)
#define FAULT_AT(self, kind, where)                                                                \
    do {                                                                                           \
        h->fault = (kind);                                                                         \
        h->fault_address = (where);                                                                \
        STOP_AT(self, HPU_FAULTED);                                                                \
    } while (0)
#define PC_OF(self) hpu_slot_pc(code, (self))

/* The shapes. `o` is the operand, `self` the instruction's slot, `left` the value of rs1. What an
 * instruction writes is `carried` too: where the second of a pair takes it from the first, it need
 * not wait for the register file in memory. */
#define LEFT(o)                     x[(o)->rs1]
#define DO_RR(id, o, self, left)    x[(o)->rd] = carried = value_##id(left, x[(o)->rs2])
#define DO_RI(id, o, self, left)    x[(o)->rd] = carried = value_##id(left, (uint32_t)(o)->imm)
#define DO_CONST(id, o, self, left) x[(o)->rd] = carried = (uint32_t)(o)->imm

#define WINDOW(o)                                                                                  \
    ((struct hpu_window *)(void *)((char *)windows + 8 * (size_t)atomic_load_explicit(             \
                                                             &(o)->window, memory_order_relaxed)))
#define CROSSES_WORD(type, address) (sizeof(type) > 1 && ((address)&3) + sizeof(type) > 4)

#define DO_LOAD(id, o, self, left) LOAD_VALUE(type_##id, o, self, left, x[(o)->rd])
#define LOAD_VALUE(type, o, self, left, into)                                                      \
    do {                                                                                           \
        const uint32_t address_ = (left) + (uint32_t)(o)->imm;                                     \
        struct hpu_window *w_ = WINDOW(o);                                                         \
        const uint32_t offset_ = address_ - w_->base;                                              \
        type loaded_;                                                                              \
        if (__builtin_expect(offset_ < w_->read_room[sizeof loaded_ - 1], 1)) {                    \
            memcpy(&loaded_, w_->host + offset_, sizeof loaded_);                                  \
            if (TIMED) {                                                                           \
                w_->loads++;                                                                       \
                ADD_CYCLES(w_->load_extra);                                                        \
            }                                                                                      \
        } else {                                                                                   \
            struct hpu_slow_access s_ = {.guess = window_guess(o),                                 \
                                         .address = address_,                                      \
                                         .size = sizeof loaded_,                                   \
                                         .value = 0, /* each, or all are cleared */                \
                                         .extra = 0,                                               \
                                         .now = cycles - (self)->cycles,                           \
                                         .pc = PC_OF(self),                                        \
                                         .timed = TIMED};                                          \
            enum hpu_access done_ = hpu_slow_load(h, &s_);                                         \
            if (__builtin_expect(done_ != HPU_ACCESS_OK, 0))                                       \
                STOP_AT(self, done_ == HPU_ACCESS_WAIT ? HPU_WAITING : HPU_FAULTED);               \
            loaded_ = (type)s_.value;                                                              \
            ADD_CYCLES(s_.extra);                                                                  \
        }                                                                                          \
        if (TIMED && CROSSES_WORD(type, address_))                                                 \
            ADD_CYCLES(timing->misaligned);                                                        \
        (into) = carried = (uint32_t)(int32_t)loaded_;                                             \
    } while (0)

#define DO_STORE(id, o, self, left) STORE_VALUE(type_##id, o, self, left, (type_##id)x[(o)->rs2])
#define STORE_VALUE(type, o, self, left, what)                                                     \
    do {                                                                                           \
        const uint32_t address_ = (left) + (uint32_t)(o)->imm;                                     \
        const type stored_ = (what);                                                               \
        struct hpu_window *w_ = WINDOW(o);                                                         \
        const uint32_t offset_ = address_ - w_->base;                                              \
        if (__builtin_expect(offset_ < w_->write_room[sizeof stored_ - 1], 1)) {                   \
            memcpy(w_->host + offset_, &stored_, sizeof stored_);                                  \
            if (TIMED) {                                                                           \
                w_->stores++;                                                                      \
                ADD_CYCLES(w_->store_extra);                                                       \
            }                                                                                      \
        } else if (sizeof stored_ != 4 || !store_word(h, address_, (uint32_t)stored_)) {           \
            struct hpu_slow_access s_ = {.guess = window_guess(o),                                 \
                                         .address = address_,                                      \
                                         .size = sizeof stored_,                                   \
                                         .value = stored_,                                         \
                                         .extra = 0,                                               \
                                         .now = cycles - (self)->cycles,                           \
                                         .pc = PC_OF(self),                                        \
                                         .timed = TIMED};                                          \
            enum hpu_access done_ = hpu_slow_store(h, &s_);                                        \
            if (__builtin_expect(done_ != HPU_ACCESS_OK, 0))                                       \
                STOP_AT(self, done_ == HPU_ACCESS_WAIT ? HPU_WAITING : HPU_FAULTED);               \
            ADD_CYCLES(s_.extra);                                                                  \
        }                                                                                          \
        if (TIMED && CROSSES_WORD(type, address_))                                                 \
            ADD_CYCLES(timing->misaligned);                                                        \
    } while (0)

#define JUMP_BY(bytes)                                                                             \
    do {                                                                                           \
        op = (const struct hpu_slot *)((const char *)op + (bytes));                                \
        ENTER();                                                                                   \
    } while (0)

/* The memory of an atomic, or a fault. */
#define ATOMIC_WORD(p, o, self, write)                                                             \
    uint32_t *p;                                                                                   \
    do {                                                                                           \
        const uint32_t address_ = x[(o)->rs1];                                                     \
        if (address_ & 3)                                                                          \
            FAULT_AT(self, HPU_FAULT_MISALIGNED, address_);                                        \
        int index_ = hpu_find_window(h, address_, 4, write);                                       \
        if (index_ < 0) {                                                                          \
            if (!(p = hpu_task_register(h, address_)))                                             \
                FAULT_AT(self, HPU_FAULT_SEGV, address_);                                          \
            break;                                                                                 \
        }                                                                                          \
        struct hpu_window *w_ = &windows[index_];                                                  \
        p = (uint32_t *)(void *)(w_->host + (address_ - w_->base));                                \
        if (TIMED) {                                                                               \
            w_->loads++;                                                                           \
            w_->stores += write;                                                                   \
            ADD_CYCLES(w_->amo_extra);                                                             \
        }                                                                                          \
    } while (0)

/* One label per instruction, by shape. */
#define LABEL_RR(id)                                                                               \
    do_##id : DO_RR(id, &op->a, op, LEFT(&op->a));                                                 \
    NEXT(1);
#define LABEL_RI(id)                                                                               \
    do_##id : DO_RI(id, &op->a, op, LEFT(&op->a));                                                 \
    NEXT(1);
#define LABEL_CONST(id)                                                                            \
    do_##id : DO_CONST(id, &op->a, op, LEFT(&op->a));                                              \
    NEXT(1);
#define LABEL_LOAD(id)                                                                             \
    do_##id : DO_LOAD(id, &op->a, op, LEFT(&op->a));                                               \
    NEXT(1);
#define LABEL_STORE(id)                                                                            \
    do_##id : DO_STORE(id, &op->a, op, LEFT(&op->a));                                              \
    NEXT(1);
#define LABEL_BRANCH(id) do_##id : LAST_BRANCH(id, 0, LEFT(&op->a));
#define LABEL_DIV(id)                                                                              \
    do_##id : ADD_CYCLES(hpu_division_extra(timing, x[op->a.rs2],                                  \
                                            HPU_##id == HPU_DIV || HPU_##id == HPU_REM));          \
    DO_RR(id, &op->a, op, LEFT(&op->a));                                                           \
    NEXT(1);
#define LABEL_FENCE(id)                                                                            \
    do_##id : atomic_thread_fence(memory_order_seq_cst);                                           \
    NEXT(1);
#define LABEL_TRAP(id) do_##id : FAULT_AT(op, fault_##id, PC_OF(op));
#define LABEL_AMO(id)                                                                              \
    do_##id : {                                                                                    \
        ATOMIC_WORD(p, &op->a, op, true);                                                          \
        x[op->a.rd] = EXCHANGE(id, p, x[op->a.rs2]);                                               \
        NEXT(1);                                                                                   \
    }
#define LABEL_LR(id)                                                                               \
    do_##id : {                                                                                    \
        ATOMIC_WORD(p, &op->a, op, false);                                                         \
        x[op->a.rd] = load_reserved(h, p, x[op->a.rs1]);                                           \
        NEXT(1);                                                                                   \
    }
#define LABEL_SC(id)                                                                               \
    do_##id : {                                                                                    \
        ATOMIC_WORD(p, &op->a, op, true);                                                          \
        x[op->a.rd] = store_conditional(h, p, x[op->a.rs1], x[op->a.rs2]);                         \
        NEXT(1);                                                                                   \
    }
#define LABEL_JAL(id)                                                                              \
    do_##id : x[op->a.rd] = h->return_pc = op->link;                                               \
    h->return_slot = op + 1;                                                                       \
    JUMP_BY(op->a.imm);
#define LABEL_JALR(id)                                                                             \
    do_##id : jump_to = (x[op->a.rs1] + (uint32_t)op->a.imm) & ~1u;                                \
    x[op->a.rd] = op->link;                                                                        \
    {                                                                                              \
        if (__builtin_expect(jump_to == h->return_pc, 1)) { /* back to the last call */            \
            op = h->return_slot;                                                                   \
            ENTER();                                                                               \
        }                                                                                          \
        const uint32_t offset_ = jump_to - code->base;                                             \
        if (__builtin_expect(offset_ >= code->bytes, 0))                                           \
            goto jumped_out;                                                                       \
        op = &code->slot[code->slot_at[offset_ / 2]];                                              \
        ENTER();                                                                                   \
    }
#define LABEL_CSR(id)                                                                              \
    do_##id : h->cycles = cycles - op->cycles;                                                     \
    SYNC_INSTRET(op->count);                                                                       \
    if (!hpu_csr(h, &code->insn[op - code->slot]))                                                 \
        FAULT_AT(op, HPU_FAULT_ILLEGAL, PC_OF(op));                                                \
    op++;                                                                                          \
    ENTER();
#define LABEL_FP(id)                                                                               \
    do_##id : if (!hpu_float(h, &code->insn[op - code->slot]))                                     \
                  FAULT_AT(op, HPU_FAULT_ILLEGAL, PC_OF(op));                                      \
    NEXT(1);
#define LABEL_FLOAD(id)                                                                            \
    do_##id : LOAD_VALUE(uint32_t, &op->a, op, LEFT(&op->a), h->f[op->a.rd]);                      \
    NEXT(1);
#define LABEL_FSTORE(id)                                                                           \
    do_##id : STORE_VALUE(uint32_t, &op->a, op, LEFT(&op->a), h->f[op->a.rs2]);                    \
    NEXT(1);

/* The last of a fused group, n slots on, and how it goes on. */
#define LAST_RR(id, n, left)                                                                       \
    DO_RR(id, &op[n].a, op + n, left);                                                             \
    NEXT(n + 1)
#define LAST_RI(id, n, left)                                                                       \
    DO_RI(id, &op[n].a, op + n, left);                                                             \
    NEXT(n + 1)
#define LAST_LOAD(id, n, left)                                                                     \
    DO_LOAD(id, &op[n].a, op + n, left);                                                           \
    NEXT(n + 1)
#define LAST_STORE(id, n, left)                                                                    \
    DO_STORE(id, &op[n].a, op + n, left);                                                          \
    NEXT(n + 1)
#define LAST_BRANCH(id, n, left)                                                                   \
    do {                                                                                           \
        if (taken_##id(left, x[op[n].a.rs2])) {                                                    \
            ADD_CYCLES(timing->taken);                                                             \
            op += n;                                                                               \
            JUMP_BY(op->a.imm);                                                                    \
        }                                                                                          \
        op += n + 1;                                                                               \
        ENTER();                                                                                   \
    } while (0)
#define LAST_JAL(id, n, left)                                                                      \
    op += n;                                                                                       \
    JUMP_BY(op->a.imm)
#define CARRIED(o) carried

static enum hpu_stop run_step(struct hpu *h, uint64_t until, const void *const **labels_out);

#define RUN   run_functional
#define TIMED 0
#define STEP  0
#include "hpu/interp.inc"

#define RUN   run_timed
#define TIMED 1
#define STEP  0
#include "hpu/interp.inc"

/* Serves both modes: functional code has a timing table of ones. */
#define RUN   run_step
#define TIMED 1
#define STEP  1
#include "hpu/interp.inc"

const void *hpu_label(enum hpu_mode mode, unsigned label) {
    const void *const *labels;
    (mode == HPU_TIMED ? run_timed : run_functional)(NULL, 0, &labels);
    return labels[label];
}

enum hpu_stop hpu_interpret(struct hpu *h, uint64_t until) {
    return h->code->mode == HPU_TIMED ? run_timed(h, until, NULL) : run_functional(h, until, NULL);
}

enum hpu_stop hpu_step(struct hpu *h) {
    if (h->cycles >= h->budget_end) {
        h->fault = HPU_FAULT_BUDGET;
        h->fault_address = h->pc;
        return HPU_FAULTED;
    }
    return run_step(h, UINT64_MAX, NULL);
}
