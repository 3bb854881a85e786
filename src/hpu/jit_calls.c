/* What generated code calls for all that is rare. */
#include "hpu/interp.h"
#include "hpu/jit_private.h"

void jit_set_guess(const struct hpu_code *code, uint32_t slot, int window) {
    atomic_store_explicit(&code->slot[slot].a.window, (uint8_t)((size_t)window * HPU_WINDOW_STEP),
                          memory_order_relaxed);
}

static uint64_t result(enum hpu_access done, uint32_t value) {
    return (uint64_t)done << 32 | value;
}

static uint64_t slow(struct hpu *h, uint32_t slot, struct hpu_slow_access *s, bool write) {
    const struct hpu_code *code = h->code;
    bool timed = code->mode == HPU_TIMED;
    s->guess = (_Atomic uint8_t *)&code->slot[slot].a.window;
    s->size = hpu_access_bytes(code->insn[slot].id);
    s->pc = hpu_slot_pc(code, &code->slot[slot]);
    s->timed = timed;
    enum hpu_access done = write ? hpu_slow_store(h, s) : hpu_slow_load(h, s);
    h->lapse = s->extra;
    if (timed && s->size > 1 && (s->address & 3) + s->size > 4)
        h->lapse += code->timing->misaligned;
    return result(done, s->value);
}

/* The exact local time when so many cycles are left. */
static uint64_t now_at(const struct hpu *h, int64_t left) {
    return h->horizon - (uint64_t)left;
}

uint64_t jit_load(struct hpu *h, uint32_t slot, uint32_t address, int64_t left) {
    struct hpu_slow_access s = {.address = address, .now = now_at(h, left)};
    unsigned id = h->code->insn[slot].id;
    uint64_t r = slow(h, slot, &s, false);
    if (id == HPU_LB || id == HPU_LH) {
        uint32_t value =
            id == HPU_LB ? (uint32_t)(int32_t)(int8_t)s.value : (uint32_t)(int32_t)(int16_t)s.value;
        return (r & ~(uint64_t)UINT32_MAX) | value;
    }
    if (id == HPU_LBU || id == HPU_LHU)
        r &= ~(uint64_t)UINT32_MAX | (id == HPU_LBU ? 0xff : 0xffff);
    return r;
}

uint64_t jit_store(struct hpu *h, uint32_t slot, uint32_t address, int64_t left, uint32_t value) {
    unsigned id = h->code->insn[slot].id;
    value &= id == HPU_SB ? 0xff : id == HPU_SH ? 0xffff : UINT32_MAX;
    struct hpu_slow_access s = {.address = address, .now = now_at(h, left), .value = value};
    return slow(h, slot, &s, true);
}

static uint64_t atomic_fault(struct hpu *h, enum hpu_fault fault, uint32_t address) {
    h->fault = (uint8_t)fault;
    h->fault_address = address;
    return result(HPU_ACCESS_FAULT, 0);
}

uint64_t jit_atomic(struct hpu *h, uint32_t slot, uint32_t address, uint32_t value) {
    const struct hpu_code *code = h->code;
    unsigned id = code->insn[slot].id;
    bool write = id != HPU_LR_W;
    if (address & 3)
        return atomic_fault(h, HPU_FAULT_MISALIGNED, address);
    int index = hpu_find_window(h, address, 4, write);
    if (index < 0) {
        uint32_t *copy = hpu_task_register(h, address);
        h->lapse = 0;
        return copy ? result(HPU_ACCESS_OK, hpu_atomic(h, id, copy, address, value))
                    : atomic_fault(h, HPU_FAULT_SEGV, address);
    }
    struct hpu_window *w = &h->window[index];
    h->lapse = w->amo_extra;
    if (code->mode == HPU_TIMED) {
        w->loads++;
        w->stores += write;
    }
    jit_set_guess(code, slot, index);
    uint32_t *word = (uint32_t *)(void *)(w->host + (address - w->base));
    return result(HPU_ACCESS_OK, hpu_atomic(h, id, word, address, value));
}

bool jit_csr(struct hpu *h, uint32_t slot, int64_t left, uint64_t instret) {
    uint64_t count = h->instret;
    h->cycles = now_at(h, left);
    h->instret = instret;
    bool good = hpu_csr(h, &h->code->insn[slot]);
    h->instret = count;
    return good;
}

bool jit_float(struct hpu *h, uint32_t slot) {
    return hpu_float(h, &h->code->insn[slot]);
}
