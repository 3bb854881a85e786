/* Programs that end by construction and stay inside their memory, whatever their values: loops
 * count down a register of their own, jumps go forward, and addresses are masked.
 *
 * Reserved registers: x2 and x8 point into the data, x9 counts loops, x3 is the way back. */
#include "diff/generate.h"

#include "base/rng.h"
#include "lib/index.h"

enum { RA = 1, SP = 2, WAY_BACK = 3, BASE = 8, COUNT = 9 };
#define BASE_OFFSET 512 /* of x8 in the data */
#define SP_OFFSET   256

struct generator {
    struct rng rng;
    struct program *p;
    bool with_float, in_loop;
};

static uint32_t below(struct generator *g, uint32_t bound) {
    return rng_below(&g->rng, bound);
}

/* A register that programs may write; x0 now and then. */
static uint32_t to(struct generator *g) {
    static const uint8_t free_registers[] = {0,  1,  4,  5,  6,  7,  10, 11, 12, 13,
                                             14, 15, 16, 17, 18, 19, 20, 21, 22, 23,
                                             24, 25, 26, 27, 28, 29, 30, 31};
    return free_registers[below(g, sizeof free_registers)];
}
/* Any that both machines know the same value of. Few of them, so that values meet. */
static uint32_t from(struct generator *g) {
    uint32_t reg = below(g, 3) ? 10 + below(g, 6) : below(g, 32);
    return reg == WAY_BACK ? 0 : reg;
}
static uint32_t to8(struct generator *g) {
    return 10 + below(g, 6);
}
static uint32_t from8(struct generator *g) {
    return 8 + below(g, 8);
}

static uint32_t some_value(struct generator *g) {
    static const uint32_t corners[] = {0,          1,          2,          0xffffffff, 0xfffffffe,
                                       0x80000000, 0x7fffffff, 0x80000001, 0x55555555, 31,
                                       32,         0xffff,     0x8000,     0x7fff,     0xff};
    switch (below(g, 3)) {
    case 0:
        return corners[below(g, sizeof corners / sizeof corners[0])];
    case 1:
        return (uint32_t)((int32_t)below(g, 512) - 256);
    }
    return rng_u32(&g->rng);
}

/* Floats: corners, halves of the last place, neighbours in exponent, anything. */
static uint32_t some_float(struct generator *g) {
    static const uint32_t corners[] = {
        0x00000000, 0x00000001, 0x007fffff, 0x00800000, 0x00800001, 0x3f800000, 0x3f800001,
        0x3f7fffff, 0x3f000000, 0x40000000, 0x40400000, 0x4b000000, 0x4b000001, 0x4b800000,
        0x4effffff, 0x4f000000, 0x4f7fffff, 0x4f800000, 0x7f7fffff, 0x7f000000, 0x7f800000,
        0x7fc00000, 0x7f800001, 0x7fffffff, 0x33800000, 0x34000000, 0x3fc00000, 0x40200000};
    uint32_t sign = below(g, 2) << 31;
    switch (below(g, 6)) {
    case 0:
    case 1:
        return corners[below(g, sizeof corners / sizeof corners[0])] | sign;
    case 2:
        return (120 + below(g, 20)) << 23 | (rng_u32(&g->rng) & 0x7fffff) | sign;
    case 3: /* few mantissa bits: exact results and ties */
        return (115 + below(g, 30)) << 23 | (rng_u32(&g->rng) & 0x700003) | sign;
    case 4: /* products at the lower end of the normal numbers */
        return (62 + below(g, 4)) << 23 | (0x7fffff & ~(rng_u32(&g->rng) & 0x400003)) | sign;
    }
    return rng_u32(&g->rng);
}

static void emit(struct generator *g, uint32_t insn) {
    put(g->p, insn);
}

static void register_operation(struct generator *g) {
    static uint32_t (*const ops[])(uint32_t, uint32_t, uint32_t) = {
        rv_add, rv_sub, rv_sll, rv_slt,  rv_sltu,   rv_xor,   rv_srl, rv_sra,  rv_or,
        rv_and, rv_mul, rv_div, rv_mulh, rv_mulhsu, rv_mulhu, rv_rem, rv_divu, rv_remu};
    emit(g, ops[below(g, sizeof ops / sizeof ops[0])](to(g), from(g), from(g)));
}

static void immediate_operation(struct generator *g) {
    static uint32_t (*const ops[])(uint32_t, uint32_t, int32_t) = {
        rv_addi, rv_slti, rv_sltiu, rv_xori, rv_ori, rv_andi, rv_slli, rv_srli, rv_srai};
    uint32_t op = below(g, sizeof ops / sizeof ops[0]);
    int32_t imm = op >= 6 ? (int32_t)below(g, 32) : (int32_t)below(g, 4096) - 2048;
    emit(g, ops[op](to(g), from(g), imm));
}

static void upper_immediate(struct generator *g) {
    uint32_t value = rng_u32(&g->rng);
    emit(g, below(g, 2) ? rv_lui(to(g), value) : rv_auipc(to(g), value));
}

/* Leaves x5 pointing into the middle half of the data, by a value that the program computed. */
static void computed_address(struct generator *g, int32_t mask) {
    emit(g, rv_andi(5, from(g), mask));
    emit(g, rv_add(5, 5, BASE));
}

static void load_or_store(struct generator *g) {
    static uint32_t (*const loads[])(uint32_t, uint32_t, int32_t) = {rv_lb, rv_lh, rv_lw, rv_lbu,
                                                                     rv_lhu};
    static uint32_t (*const stores[])(uint32_t, uint32_t, int32_t) = {rv_sb, rv_sh, rv_sw};
    uint32_t base = BASE;
    int32_t offset = (int32_t)below(g, DIFF_DATA_BYTES - 3) - BASE_OFFSET;
    if (below(g, 2)) {
        computed_address(g, 255);
        base = 5;
        offset = (int32_t)below(g, 508) - 256;
    }
    if (below(g, 2))
        emit(g, loads[below(g, 5)](to(g), base, offset));
    else
        emit(g, stores[below(g, 3)](from(g), base, offset));
}

static void atomic(struct generator *g) {
    static uint32_t (*const ops[])(uint32_t, uint32_t, uint32_t) = {
        rv_amoswap_w, rv_amoadd_w, rv_amoxor_w,  rv_amoand_w, rv_amoor_w,
        rv_amomin_w,  rv_amomax_w, rv_amominu_w, rv_amomaxu_w};
    computed_address(g, 0xfc);
    emit(g, ops[below(g, 9)](to(g), from(g), 5) | (below(g, 2) ? RV_AQRL : 0));
}

/* A reservation, perhaps a store of the same or another word, and one or two attempts to use it. */
static void reservation(struct generator *g) {
    computed_address(g, 0x1c);
    emit(g, rv_addi(6, 5, 4 * (int32_t)below(g, 2)));
    if (below(g, 4))
        emit(g, rv_lr_w(7, 5));
    if (below(g, 3) == 0)
        emit(g, rv_sw(from(g), below(g, 2) ? 5 : 6, 0));
    for (uint32_t i = 1 + below(g, 2); i > 0; i--)
        emit(g, rv_sc_w(10 + below(g, 4), from(g), below(g, 3) ? 5 : 6));
}

static void compressed(struct generator *g) {
    int32_t imm = (int32_t)below(g, 64) - 32, sp = 16 * ((int32_t)below(g, 64) - 32);
    uint32_t shift = 1 + below(g, 31), rd = to(g), rs = from(g);
    rd = rd ? rd : 11;
    rs = rs ? rs : 12;
    switch (below(g, 20)) {
    case 0:
        emit(g, c_addi4spn(to8(g), 4 + 4 * below(g, 255)));
        break;
    case 1:
        emit(g, c_lw(to8(g), BASE, 4 * below(g, 32)));
        break;
    case 2:
        emit(g, c_sw(from8(g), BASE, 4 * below(g, 32)));
        break;
    case 3:
        emit(g, c_addi(rd, imm));
        break;
    case 4:
        emit(g, c_li(rd, imm));
        break;
    case 5:
        emit(g, c_addi16sp(sp ? sp : 16));
        emit(g, c_mv(rd, SP));
        emit(g, rv_addi(SP, BASE, SP_OFFSET - BASE_OFFSET)); /* as it was */
        break;
    case 6:
        emit(g, c_lui(rd, imm ? imm : 5));
        break;
    case 7:
        emit(g, c_srli(to8(g), shift));
        break;
    case 8:
        emit(g, c_srai(to8(g), shift));
        break;
    case 9:
        emit(g, c_andi(to8(g), imm));
        break;
    case 10:
        emit(g, c_sub(to8(g), from8(g)));
        break;
    case 11:
        emit(g, c_xor(to8(g), from8(g)));
        break;
    case 12:
        emit(g, c_or(to8(g), from8(g)));
        break;
    case 13:
        emit(g, c_and(to8(g), from8(g)));
        break;
    case 14:
        emit(g, c_slli(rd, shift));
        break;
    case 15:
        emit(g, c_lwsp(rd, 4 * below(g, 64)));
        break;
    case 16:
        emit(g, c_swsp(from(g), 4 * below(g, 64)));
        break;
    case 17:
        emit(g, c_mv(rd, rs));
        break;
    case 18:
        emit(g, c_add(rd, rs));
        break;
    case 19:
        emit(g, C_NOP);
        break;
    }
}

/* f0 to f15 hold operands, the others results, which would soon be NaNs all. */
static uint32_t operand(struct generator *g) {
    return below(g, 6) ? below(g, 16) : below(g, 32);
}

static void float_operation(struct generator *g) {
    static const uint8_t modes[] = {RNE, RTZ, RDN, RUP, RMM, DYN, DYN, RNE};
    uint32_t rm = modes[below(g, sizeof modes)];
    uint32_t fd = 16 + below(g, 16), a = operand(g), b = operand(g), c = operand(g), rd = to(g);
    b = below(g, 8) ? b : a; /* x - x and the like */
    int32_t offset = 4 * (int32_t)below(g, 256) - BASE_OFFSET;
    switch (below(g, 32)) {
    case 0:
    case 1:
        emit(g, rv_fadd_s(fd, a, b, rm));
        break;
    case 2:
    case 3:
        emit(g, rv_fsub_s(fd, a, b, rm));
        break;
    case 4:
    case 5:
        emit(g, rv_fmul_s(fd, a, b, rm));
        break;
    case 6:
    case 7:
        emit(g, rv_fdiv_s(fd, a, b, rm));
        break;
    case 8:
        emit(g, rv_fsqrt_s(fd, a, rm));
        break;
    case 9:
        emit(g, rv_fmadd_s(fd, a, b, c, rm));
        break;
    case 10:
        emit(g, rv_fmsub_s(fd, a, b, c, rm));
        break;
    case 11:
        emit(g, rv_fnmsub_s(fd, a, b, c, rm));
        break;
    case 12:
        emit(g, rv_fnmadd_s(fd, a, b, c, rm));
        break;
    case 13:
        emit(g, rv_fsgnj_s(fd, a, b));
        break;
    case 14:
        emit(g, rv_fsgnjn_s(fd, a, b));
        break;
    case 15:
        emit(g, rv_fsgnjx_s(fd, a, b));
        break;
    case 16:
        emit(g, rv_fmin_s(fd, a, b));
        break;
    case 17:
        emit(g, rv_fmax_s(fd, a, b));
        break;
    case 18:
        emit(g, rv_fcvt_w_s(rd, a, rm));
        break;
    case 19:
        emit(g, rv_fcvt_wu_s(rd, a, rm));
        break;
    case 20:
        emit(g, rv_fmv_x_w(rd, a));
        break;
    case 21:
        emit(g, rv_feq_s(rd, a, b));
        break;
    case 22:
        emit(g, rv_flt_s(rd, a, b));
        break;
    case 23:
        emit(g, rv_fle_s(rd, a, b));
        break;
    case 24:
        emit(g, rv_fclass_s(rd, a));
        break;
    case 25:
        emit(g, rv_fcvt_s_w(fd, from(g), rm));
        break;
    case 26:
        emit(g, rv_fcvt_s_wu(fd, from(g), rm));
        break;
    case 27:
        emit(g, rv_fmv_w_x(fd, from(g)));
        break;
    case 28:
        emit(g, below(g, 2) ? rv_flw(a, BASE, offset) : c_flw(8 + a % 8, BASE, 64));
        break;
    case 29:
        emit(g, below(g, 2) ? rv_fsw(a, BASE, offset) : c_fsw(8 + a % 8, BASE, 64));
        break;
    case 30:
        emit(g, below(g, 2) ? c_flwsp(a, 4 * below(g, 64)) : c_fswsp(a, 4 * below(g, 64)));
        break;
    case 31:
        switch (below(g, 4)) {
        case 0: /* the flags so far; clears some */
            emit(g, rv_csrrci(rd, 1, below(g, 32)));
            break;
        case 1:
            emit(g, rv_csrrs(rd, 3, 0));
            break;
        case 2:
            emit(g, rv_csrrwi(rd, 2, below(g, 5)));
            break;
        case 3:
            emit(g, rv_csrrsi(rd, 1, below(g, 32)));
            break;
        }
        break;
    }
}

/* On operands fresh from memory, and then a look at the flags. */
static void fresh_float_operation(struct generator *g) {
    for (uint32_t i = below(g, 4); i > 0; i--)
        emit(g, rv_flw(below(g, 16), BASE, 4 * (int32_t)below(g, 256) - BASE_OFFSET));
    float_operation(g);
    if (below(g, 2))
        emit(g, rv_csrrwi(to(g), 1, 0));
}

/* One of those that go on with the next. */
static void straight(struct generator *g) {
    uint32_t kind = below(g, g->with_float ? 40 : 24);
    if (kind >= 24)
        fresh_float_operation(g);
    else if (kind < 6)
        register_operation(g);
    else if (kind < 10)
        immediate_operation(g);
    else if (kind < 11)
        upper_immediate(g);
    else if (kind < 16)
        load_or_store(g);
    else if (kind < 17)
        atomic(g);
    else if (kind < 18)
        reservation(g);
    else
        compressed(g);
}

static void patch(struct generator *g, uint32_t at, uint32_t insn) {
    uint32_t end = g->p->bytes;
    g->p->bytes = at;
    put(g->p, insn);
    g->p->bytes = end;
}

/* Jumps over one to five others, in every form there is. */
static void forward(struct generator *g) {
    static uint32_t (*const branches[])(uint32_t, uint32_t, int32_t) = {rv_beq, rv_bne,  rv_blt,
                                                                        rv_bge, rv_bltu, rv_bgeu};
    uint32_t form = below(g, 8), at = g->p->bytes, a = from(g), b = from(g), r8 = from8(g);
    uint32_t rd = to(g), branch = below(g, 6);
    bool equal = below(g, 2);
    switch (form) { /* room for it */
    case 0:
    case 1:
    case 2:
    case 3:
        put32(g->p, RV_NOP);
        break;
    case 4:
    case 5:
        put16(g->p, C_NOP);
        break;
    case 6:
        emit(g, rv_auipc(7, 0));
        put32(g->p, RV_NOP);
        break;
    case 7:
        emit(g, rv_auipc(7, 0));
        put32(g->p, RV_NOP);
        put16(g->p, C_NOP);
        break;
    }
    for (uint32_t i = 1 + below(g, 5); i > 0; i--)
        straight(g);
    int32_t distance = (int32_t)(g->p->bytes - at);
    if (form == 4 && distance > 254) /* too far for the short branch: straight on */
        return;
    switch (form) {
    case 0:
    case 1:
    case 2:
        patch(g, at, branches[branch](a, b, distance));
        break;
    case 3:
        patch(g, at, rv_jal(rd, distance));
        break;
    case 4:
        patch(g, at, equal ? c_beqz(r8, distance) : c_bnez(r8, distance));
        break;
    case 5:
        patch(g, at, equal ? c_j(distance) : c_jal(distance));
        break;
    case 6:
        patch(g, at + 4, rv_jalr(rd, 7, distance + (int32_t)equal)); /* bit 0 is cleared */
        break;
    case 7:
        patch(g, at + 4, rv_addi(7, 7, distance));
        patch(g, at + 8, equal ? c_jr(7) : c_jalr(7));
        break;
    }
}

/* A jump into the upper half of an instruction, which is one itself. */
static void into_the_middle(struct generator *g) {
    emit(g, rv_jal(0, 6));
    emit(g, (rv_lui(to(g), 0) & 0xffff) | c_addi(10 + below(g, 6), (int32_t)below(g, 31)) << 16);
}

static void loop(struct generator *g) {
    emit(g, below(g, 2) ? rv_addi(COUNT, 0, 1 + (int32_t)below(g, 8))
                        : c_li(COUNT, 1 + (int32_t)below(g, 8)));
    uint32_t top = g->p->bytes;
    for (uint32_t i = 2 + below(g, 8); i > 0; i--) {
        straight(g);
        if (below(g, 5) == 0)
            forward(g);
    }
    emit(g, rv_addi(COUNT, COUNT, -1));
    int32_t distance = (int32_t)top - (int32_t)g->p->bytes;
    if (distance >= -256 && below(g, 2))
        emit(g, c_bnez(COUNT, distance));
    else
        emit(g, below(g, 2) ? rv_bne(COUNT, 0, distance) : rv_blt(0, COUNT, distance));
}

/* One block that jumps to itself and goes through memory by an index of parts, from a pointer that
 * moves by any stride and need not be aligned: x4 to x7 and the values of x10 to x15. */
static void indexed_loop(struct generator *g) {
    static const int32_t strides[] = {0, 4, 4, 1, 2, -4, 8};
    uint32_t turns = 2 + below(g, 30), value = 10 + below(g, 6);
    int32_t stride = strides[below(g, 7)];
    emit(g, rv_addi(COUNT, 0, (int32_t)turns));
    emit(g, rv_andi(4, below(g, 2) ? 0 : from(g), 3));
    emit(g, rv_add(4, 4, BASE));
    emit(g, rv_addi(4, 4, -256));
    emit(g, rv_jal(0, 4)); /* so that a block begins here */
    uint32_t top = g->p->bytes;
    for (uint32_t i = 1 + below(g, 2); i > 0; i--) {
        put_index(&g->rng, g->p, 5, value, below(g, 2) ? 63 : 255);
        emit(g, rv_add(5, 5, 4));
        put_indexed_access(&g->rng, g->p, 5, 10 + below(g, 6));
        emit(g, rv_add(10 + below(g, 6), value, 10 + below(g, 6)));
    }
    emit(g, rv_addi(4, 4, stride));
    emit(g, rv_addi(COUNT, COUNT, -1));
    emit(g, rv_bne(COUNT, 0, (int32_t)top - (int32_t)g->p->bytes));
}

void diff_generate(struct diff_program *p, uint64_t seed) {
    struct generator g = {.rng = rng_seeded(seed), .p = &p->code};
    memset(p, 0, sizeof *p);
    p->seed = seed;
    p->with_float = g.with_float = below(&g, 3) == 0;
    for (uint32_t i = 4; i < 32; i++)
        p->x[i] = some_value(&g);
    p->x[SP] = DIFF_DATA + SP_OFFSET;
    p->x[BASE] = DIFF_DATA + BASE_OFFSET;
    for (uint32_t i = 0; i < 32; i++)
        p->f[i] = some_float(&g);
    p->fcsr = below(&g, 5) << 5;
    for (uint32_t i = 0; i < DIFF_DATA_BYTES; i += 4) {
        uint32_t value = g.with_float && below(&g, 2) ? some_float(&g) : some_value(&g);
        memcpy(&p->data[i], &value, 4);
    }
    emit(&g, rv_addi(WAY_BACK, RA, 0));
    put_li(g.p, RA, some_value(&g));
    if (below(&g, 3) == 0) /* where generated code has it before anything is known */
        indexed_loop(&g);
    for (uint32_t i = 10 + below(&g, 60); i > 0; i--)
        switch (below(&g, 12)) {
        case 0:
            loop(&g);
            break;
        case 1:
        case 2:
            forward(&g);
            break;
        case 3:
            if (below(&g, 4) == 0)
                into_the_middle(&g);
            else
                emit(&g, below(&g, 2) ? RV_FENCE : RV_NOP);
            break;
        case 4:
            indexed_loop(&g);
            break;
        default:
            straight(&g);
        }
    emit(&g, rv_jalr(0, WAY_BACK, 0));
}
