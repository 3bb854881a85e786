#include "hpu/isa.h"

#include <string.h>

static const struct hpu_insn_info infos[HPU_INSN_COUNT] = {
    [HPU_ILLEGAL] = {"illegal", OPERANDS_N, HPU_EXT_I, HPU_TIME_ALU},
#define INSN(id, name, operands, match, mask, ext, timing, shape, body)                            \
    [HPU_##id] = {name, OPERANDS_##operands, HPU_EXT_##ext, HPU_TIME_##timing},
#include "hpu/isa.def"
#undef INSN
};

static const struct pattern {
    uint32_t match, mask;
    uint8_t id;
} patterns[] = {
#define INSN(id, name, operands, match, mask, ext, timing, shape, body) {match, mask, HPU_##id},
#include "hpu/isa.def"
#undef INSN
};

enum fields {
    FIELDS_NONE,
    FIELDS_ADDI4SPN,
    FIELDS_LW,
    FIELDS_SW,
    FIELDS_ADDI,
    FIELDS_J_RA,
    FIELDS_J_ZERO,
    FIELDS_LI,
    FIELDS_ADDI16SP,
    FIELDS_LUI,
    FIELDS_SHIFT,
    FIELDS_ANDI,
    FIELDS_ARITH,
    FIELDS_BZ,
    FIELDS_SLLI,
    FIELDS_LWSP,
    FIELDS_JR_ZERO,
    FIELDS_MV,
    FIELDS_JR_RA,
    FIELDS_ADD,
    FIELDS_SWSP,
};

static const struct compressed {
    uint16_t match, mask;
    uint8_t id, fields;
} compressed[] = {
#define COMP(name, match, mask, id, fields) {match, mask, HPU_##id, FIELDS_##fields},
#include "hpu/compressed.def"
#undef COMP
};

const struct hpu_insn_info *hpu_insn_info(unsigned id) {
    return &infos[id];
}

/* Bits [high:low] of w, placed with their lowest at `to`. */
static uint32_t bits(uint32_t w, int high, int low, int to) {
    return (w >> low & ((1u << (high - low + 1)) - 1)) << to;
}

static int32_t sign_extend(uint32_t value, int width) {
    return (int32_t)(value << (32 - width)) >> (32 - width);
}

static int32_t imm_b(uint32_t w) {
    return sign_extend(
        bits(w, 31, 31, 12) | bits(w, 7, 7, 11) | bits(w, 30, 25, 5) | bits(w, 11, 8, 1), 13);
}

static int32_t imm_j(uint32_t w) {
    return sign_extend(
        bits(w, 31, 31, 20) | bits(w, 19, 12, 12) | bits(w, 20, 20, 11) | bits(w, 30, 21, 1), 21);
}

static int32_t immediate(uint32_t w, unsigned operands) {
    switch (operands) {
    case OPERANDS_I:
    case OPERANDS_LD:
    case OPERANDS_FLD:
    case OPERANDS_JR:
        return (int32_t)w >> 20;
    case OPERANDS_SH:
        return (int32_t)bits(w, 24, 20, 0);
    case OPERANDS_ST:
    case OPERANDS_FST:
        return sign_extend(bits(w, 31, 25, 5) | bits(w, 11, 7, 0), 12);
    case OPERANDS_B:
        return imm_b(w);
    case OPERANDS_U:
        return (int32_t)(w & 0xfffff000);
    case OPERANDS_J:
        return imm_j(w);
    case OPERANDS_CSR:
    case OPERANDS_CSRI:
        return (int32_t)(w >> 20);
    }
    return 0;
}

static bool has_rounding_mode(unsigned operands) {
    return operands == OPERANDS_FR4 || operands == OPERANDS_FRM || operands == OPERANDS_F1M ||
           operands == OPERANDS_XFM || operands == OPERANDS_FXM;
}

static struct hpu_insn decode_32(uint32_t w) {
    struct hpu_insn in = {.id = HPU_ILLEGAL, .length = 4};
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++)
        if ((w & patterns[i].mask) == patterns[i].match) {
            in.id = patterns[i].id;
            break;
        }
    unsigned operands = infos[in.id].operands;
    if (in.id == HPU_ILLEGAL || operands == OPERANDS_N)
        return in;
    in.rd = (uint8_t)bits(w, 11, 7, 0);
    in.rs1 = (uint8_t)bits(w, 19, 15, 0);
    in.rs2 = (uint8_t)bits(w, 24, 20, 0);
    in.rs3 = (uint8_t)bits(w, 31, 27, 0);
    in.imm = immediate(w, operands);
    if (has_rounding_mode(operands)) {
        in.rm = (uint8_t)bits(w, 14, 12, 0);
        if (in.rm == 5 || in.rm == 6)
            in.id = HPU_ILLEGAL;
    }
    return in;
}

static int32_t imm_cj(uint32_t w) {
    return sign_extend(bits(w, 12, 12, 11) | bits(w, 11, 11, 4) | bits(w, 10, 9, 8) |
                           bits(w, 8, 8, 10) | bits(w, 7, 7, 6) | bits(w, 6, 6, 7) |
                           bits(w, 5, 3, 1) | bits(w, 2, 2, 5),
                       12);
}

/* The registers x8 to x15 have 3-bit names. */
static uint8_t short_register(uint32_t w, int low) {
    return (uint8_t)(8 + (w >> low & 7));
}

static void expand(struct hpu_insn *in, uint32_t w, enum fields fields) {
    uint8_t full = (uint8_t)bits(w, 11, 7, 0), second = (uint8_t)bits(w, 6, 2, 0);
    int32_t imm6 = sign_extend(bits(w, 12, 12, 5) | bits(w, 6, 2, 0), 6);
    int32_t word_offset =
        (int32_t)(bits(w, 5, 5, 6) | bits(w, 12, 10, 3) | bits(w, 6, 6, 2)); /* c.lw, c.sw */
    switch (fields) {
    case FIELDS_NONE:
        break;
    case FIELDS_ADDI4SPN:
        in->rd = short_register(w, 2);
        in->rs1 = 2;
        in->imm =
            (int32_t)(bits(w, 10, 7, 6) | bits(w, 12, 11, 4) | bits(w, 5, 5, 3) | bits(w, 6, 6, 2));
        break;
    case FIELDS_LW:
        in->rd = short_register(w, 2);
        in->rs1 = short_register(w, 7);
        in->imm = word_offset;
        break;
    case FIELDS_SW:
        in->rs2 = short_register(w, 2);
        in->rs1 = short_register(w, 7);
        in->imm = word_offset;
        break;
    case FIELDS_ADDI:
        in->rd = in->rs1 = full;
        in->imm = imm6;
        break;
    case FIELDS_J_RA:
    case FIELDS_J_ZERO:
        in->rd = fields == FIELDS_J_RA;
        in->imm = imm_cj(w);
        break;
    case FIELDS_LI:
        in->rd = full;
        in->imm = imm6;
        break;
    case FIELDS_ADDI16SP:
        in->rd = in->rs1 = 2;
        in->imm = sign_extend(bits(w, 12, 12, 9) | bits(w, 4, 3, 7) | bits(w, 5, 5, 6) |
                                  bits(w, 2, 2, 5) | bits(w, 6, 6, 4),
                              10);
        break;
    case FIELDS_LUI:
        in->rd = full;
        in->imm = (int32_t)((uint32_t)imm6 << 12);
        break;
    case FIELDS_SHIFT:
        in->rd = in->rs1 = short_register(w, 7);
        in->imm = second;
        break;
    case FIELDS_ANDI:
        in->rd = in->rs1 = short_register(w, 7);
        in->imm = imm6;
        break;
    case FIELDS_ARITH:
        in->rd = in->rs1 = short_register(w, 7);
        in->rs2 = short_register(w, 2);
        break;
    case FIELDS_BZ:
        in->rs1 = short_register(w, 7);
        in->imm = sign_extend(bits(w, 12, 12, 8) | bits(w, 6, 5, 6) | bits(w, 2, 2, 5) |
                                  bits(w, 11, 10, 3) | bits(w, 4, 3, 1),
                              9);
        break;
    case FIELDS_SLLI:
        in->rd = in->rs1 = full;
        in->imm = second;
        break;
    case FIELDS_LWSP:
        in->rd = full;
        in->rs1 = 2;
        in->imm = (int32_t)(bits(w, 3, 2, 6) | bits(w, 12, 12, 5) | bits(w, 6, 4, 2));
        break;
    case FIELDS_JR_ZERO:
    case FIELDS_JR_RA:
        in->rd = fields == FIELDS_JR_RA;
        in->rs1 = full;
        break;
    case FIELDS_MV:
        in->rd = full;
        in->rs2 = second;
        break;
    case FIELDS_ADD:
        in->rd = in->rs1 = full;
        in->rs2 = second;
        break;
    case FIELDS_SWSP:
        in->rs2 = second;
        in->rs1 = 2;
        in->imm = (int32_t)(bits(w, 8, 7, 6) | bits(w, 12, 9, 2));
        break;
    }
}

static struct hpu_insn decode_16(uint32_t w) {
    struct hpu_insn in = {.id = HPU_ILLEGAL, .length = 2};
    for (size_t i = 0; i < sizeof compressed / sizeof compressed[0]; i++)
        if ((w & compressed[i].mask) == compressed[i].match) {
            in.id = compressed[i].id;
            expand(&in, w, compressed[i].fields);
            break;
        }
    return in;
}

struct hpu_insn hpu_decode(uint32_t word, bool with_float) {
    struct hpu_insn in = (word & 3) == 3 ? decode_32(word) : decode_16(word & 0xffff);
    if (!with_float && infos[in.id].extension == HPU_EXT_F)
        in.id = HPU_ILLEGAL;
    return in;
}

bool hpu_insn_ends_block(const struct hpu_insn *in) {
    switch (in->id) {
    case HPU_ILLEGAL:
    case HPU_ECALL:
    case HPU_EBREAK:
        return true;
    }
    unsigned timing = infos[in->id].timing;
    return timing == HPU_TIME_BRANCH || timing == HPU_TIME_JUMP || timing == HPU_TIME_CSR;
}

unsigned hpu_insn_writes(const struct hpu_insn *in) {
    switch (infos[in->id].operands) {
    case OPERANDS_R:
    case OPERANDS_I:
    case OPERANDS_SH:
    case OPERANDS_LD:
    case OPERANDS_U:
    case OPERANDS_J:
    case OPERANDS_JR:
    case OPERANDS_CSR:
    case OPERANDS_CSRI:
    case OPERANDS_AMO:
    case OPERANDS_LR:
    case OPERANDS_XFM:
    case OPERANDS_XF:
    case OPERANDS_XFF:
        return in->rd;
    }
    return 0;
}

bool hpu_insn_reads(const struct hpu_insn *in, unsigned reg) {
    if (reg == 0)
        return false;
    switch (infos[in->id].operands) {
    case OPERANDS_R:
    case OPERANDS_ST:
    case OPERANDS_B:
    case OPERANDS_AMO:
        return in->rs1 == reg || in->rs2 == reg;
    case OPERANDS_I:
    case OPERANDS_SH:
    case OPERANDS_LD:
    case OPERANDS_JR:
    case OPERANDS_CSR:
    case OPERANDS_LR:
    case OPERANDS_FLD:
    case OPERANDS_FST:
    case OPERANDS_FXM:
    case OPERANDS_FX:
        return in->rs1 == reg;
    }
    return false;
}

uint32_t hpu_access_bytes(unsigned id) {
    switch (id) {
    case HPU_LB:
    case HPU_LBU:
    case HPU_SB:
        return 1;
    case HPU_LH:
    case HPU_LHU:
    case HPU_SH:
        return 2;
    }
    unsigned timing = infos[id].timing;
    return timing == HPU_TIME_LOAD || timing == HPU_TIME_STORE || timing == HPU_TIME_AMO ? 4 : 0;
}
