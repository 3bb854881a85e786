/* An assembler of functions: rv_add(rd, rs1, rs2) gives the instruction's word, c_addi(rd, imm) the
 * halfword of a compressed one. Written from the ISA manual's tables and nothing else, so that what
 * it encodes can check the decoder. Immediates out of range are the caller's mistake. */
#ifndef TESTS_ASM_H
#define TESTS_ASM_H

#include <stdint.h>
#include <string.h>

#define ASM __attribute__((unused)) static

/* The base formats (manual, chapter "RV32I", figure "Base instruction formats"). */
ASM uint32_t asm_r(uint32_t opcode, uint32_t funct3, uint32_t funct7, uint32_t rd, uint32_t rs1,
                   uint32_t rs2) {
    return funct7 << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
ASM uint32_t asm_i(uint32_t opcode, uint32_t funct3, uint32_t rd, uint32_t rs1, int32_t imm) {
    return (uint32_t)imm << 20 | rs1 << 15 | funct3 << 12 | rd << 7 | opcode;
}
ASM uint32_t asm_s(uint32_t opcode, uint32_t funct3, uint32_t rs2, uint32_t rs1, int32_t imm) {
    uint32_t u = (uint32_t)imm & 0xfff;
    return (u >> 5) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 | (u & 31) << 7 | opcode;
}
ASM uint32_t asm_b(uint32_t funct3, uint32_t rs1, uint32_t rs2, int32_t distance) {
    uint32_t u = (uint32_t)distance;
    return (u >> 12 & 1) << 31 | (u >> 5 & 63) << 25 | rs2 << 20 | rs1 << 15 | funct3 << 12 |
           (u >> 1 & 15) << 8 | (u >> 11 & 1) << 7 | 0x63;
}

#define ASM_RR(name, funct3, funct7)                                                               \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, uint32_t rs2) {                              \
        return asm_r(0x33, funct3, funct7, rd, rs1, rs2);                                          \
    }
ASM_RR(add, 0, 0)
ASM_RR(sub, 0, 32)
ASM_RR(sll, 1, 0)
ASM_RR(slt, 2, 0)
ASM_RR(sltu, 3, 0)
ASM_RR(xor, 4, 0)
ASM_RR(srl, 5, 0)
ASM_RR(sra, 5, 32)
ASM_RR(or, 6, 0)
ASM_RR(and, 7, 0)
ASM_RR(mul, 0, 1)
ASM_RR(mulh, 1, 1)
ASM_RR(mulhsu, 2, 1)
ASM_RR(mulhu, 3, 1)
ASM_RR(div, 4, 1)
ASM_RR(divu, 5, 1)
ASM_RR(rem, 6, 1)
ASM_RR(remu, 7, 1)

#define ASM_RI(name, opcode, funct3)                                                               \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, int32_t imm) {                               \
        return asm_i(opcode, funct3, rd, rs1, imm);                                                \
    }
ASM_RI(addi, 0x13, 0)
ASM_RI(slti, 0x13, 2)
ASM_RI(sltiu, 0x13, 3)
ASM_RI(xori, 0x13, 4)
ASM_RI(ori, 0x13, 6)
ASM_RI(andi, 0x13, 7)
ASM_RI(jalr, 0x67, 0)
/* Loads: rd, base, offset. */
ASM_RI(lb, 0x03, 0)
ASM_RI(lh, 0x03, 1)
ASM_RI(lw, 0x03, 2)
ASM_RI(lbu, 0x03, 4)
ASM_RI(lhu, 0x03, 5)
ASM_RI(flw, 0x07, 2)

ASM uint32_t rv_slli(uint32_t rd, uint32_t rs1, int32_t amount) {
    return asm_r(0x13, 1, 0, rd, rs1, (uint32_t)amount);
}
ASM uint32_t rv_srli(uint32_t rd, uint32_t rs1, int32_t amount) {
    return asm_r(0x13, 5, 0, rd, rs1, (uint32_t)amount);
}
ASM uint32_t rv_srai(uint32_t rd, uint32_t rs1, int32_t amount) {
    return asm_r(0x13, 5, 32, rd, rs1, (uint32_t)amount);
}

/* Stores: value, base, offset. */
ASM uint32_t rv_sb(uint32_t rs2, uint32_t rs1, int32_t imm) {
    return asm_s(0x23, 0, rs2, rs1, imm);
}
ASM uint32_t rv_sh(uint32_t rs2, uint32_t rs1, int32_t imm) {
    return asm_s(0x23, 1, rs2, rs1, imm);
}
ASM uint32_t rv_sw(uint32_t rs2, uint32_t rs1, int32_t imm) {
    return asm_s(0x23, 2, rs2, rs1, imm);
}
ASM uint32_t rv_fsw(uint32_t rs2, uint32_t rs1, int32_t imm) {
    return asm_s(0x27, 2, rs2, rs1, imm);
}

#define ASM_BRANCH(name, funct3)                                                                   \
    ASM uint32_t rv_##name(uint32_t rs1, uint32_t rs2, int32_t distance) {                         \
        return asm_b(funct3, rs1, rs2, distance);                                                  \
    }
ASM_BRANCH(beq, 0)
ASM_BRANCH(bne, 1)
ASM_BRANCH(blt, 4)
ASM_BRANCH(bge, 5)
ASM_BRANCH(bltu, 6)
ASM_BRANCH(bgeu, 7)

/* The upper 20 bits as they stand in the register. */
ASM uint32_t rv_lui(uint32_t rd, uint32_t upper) {
    return (upper & 0xfffff000) | rd << 7 | 0x37;
}
ASM uint32_t rv_auipc(uint32_t rd, uint32_t upper) {
    return (upper & 0xfffff000) | rd << 7 | 0x17;
}
ASM uint32_t rv_jal(uint32_t rd, int32_t distance) {
    uint32_t u = (uint32_t)distance;
    return (u >> 20 & 1) << 31 | (u >> 1 & 0x3ff) << 21 | (u >> 11 & 1) << 20 |
           (u >> 12 & 0xff) << 12 | rd << 7 | 0x6f;
}
#define RV_FENCE   0x0ff0000fu
#define RV_FENCE_I 0x0000100fu
#define RV_ECALL   0x00000073u
#define RV_EBREAK  0x00100073u
#define RV_RET     0x00008067u
#define RV_NOP     0x00000013u

#define ASM_CSR(name, funct3)                                                                      \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t csr, uint32_t source) {                           \
        return asm_i(0x73, funct3, rd, source, (int32_t)csr);                                      \
    }
ASM_CSR(csrrw, 1)
ASM_CSR(csrrs, 2)
ASM_CSR(csrrc, 3)
ASM_CSR(csrrwi, 5)
ASM_CSR(csrrsi, 6)
ASM_CSR(csrrci, 7)

/* Atomics: rd, value, address; funct7 is funct5, aq, rl. */
#define ASM_AMO(name, funct5)                                                                      \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs2, uint32_t rs1) {                              \
        return asm_r(0x2f, 2, (funct5) << 2, rd, rs1, rs2);                                        \
    }
ASM_AMO(sc_w, 3u)
ASM_AMO(amoswap_w, 1u)
ASM_AMO(amoadd_w, 0u)
ASM_AMO(amoxor_w, 4u)
ASM_AMO(amoand_w, 12u)
ASM_AMO(amoor_w, 8u)
ASM_AMO(amomin_w, 16u)
ASM_AMO(amomax_w, 20u)
ASM_AMO(amominu_w, 24u)
ASM_AMO(amomaxu_w, 28u)
ASM uint32_t rv_lr_w(uint32_t rd, uint32_t rs1) {
    return asm_r(0x2f, 2, 2 << 2, rd, rs1, 0);
}
#define RV_AQRL (3u << 25)

/* F. Those with a rounding mode take it last. */
enum { RNE, RTZ, RDN, RUP, RMM, DYN = 7 };
#define ASM_F(name, funct7)                                                                        \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, uint32_t rs2, uint32_t rm) {                 \
        return asm_r(0x53, rm, funct7, rd, rs1, rs2);                                              \
    }
ASM_F(fadd_s, 0)
ASM_F(fsub_s, 4)
ASM_F(fmul_s, 8)
ASM_F(fdiv_s, 12)
#define ASM_F3(name, funct7, funct3)                                                               \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, uint32_t rs2) {                              \
        return asm_r(0x53, funct3, funct7, rd, rs1, rs2);                                          \
    }
ASM_F3(fsgnj_s, 16, 0)
ASM_F3(fsgnjn_s, 16, 1)
ASM_F3(fsgnjx_s, 16, 2)
ASM_F3(fmin_s, 20, 0)
ASM_F3(fmax_s, 20, 1)
ASM_F3(fle_s, 80, 0)
ASM_F3(flt_s, 80, 1)
ASM_F3(feq_s, 80, 2)
#define ASM_F1(name, funct7, rs2)                                                                  \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, uint32_t rm) {                               \
        return asm_r(0x53, rm, funct7, rd, rs1, rs2);                                              \
    }
ASM_F1(fsqrt_s, 44, 0)
ASM_F1(fcvt_w_s, 96, 0)
ASM_F1(fcvt_wu_s, 96, 1)
ASM_F1(fcvt_s_w, 104, 0)
ASM_F1(fcvt_s_wu, 104, 1)
ASM uint32_t rv_fmv_x_w(uint32_t rd, uint32_t rs1) {
    return asm_r(0x53, 0, 112, rd, rs1, 0);
}
ASM uint32_t rv_fclass_s(uint32_t rd, uint32_t rs1) {
    return asm_r(0x53, 1, 112, rd, rs1, 0);
}
ASM uint32_t rv_fmv_w_x(uint32_t rd, uint32_t rs1) {
    return asm_r(0x53, 0, 120, rd, rs1, 0);
}
#define ASM_R4(name, opcode)                                                                       \
    ASM uint32_t rv_##name(uint32_t rd, uint32_t rs1, uint32_t rs2, uint32_t rs3, uint32_t rm) {   \
        return asm_r(opcode, rm, rs3 << 2, rd, rs1, rs2);                                          \
    }
ASM_R4(fmadd_s, 0x43)
ASM_R4(fmsub_s, 0x47)
ASM_R4(fnmsub_s, 0x4b)
ASM_R4(fnmadd_s, 0x4f)

/* Compressed (manual, chapter "C", tables of the quadrants). `r8`: a register of x8 to x15.
 * Scattered immediates are written bit by bit: ASM_BIT(value, bit of the value, bit of the
 * instruction). */
#define ASM_BIT(value, from, to) (((uint32_t)(value) >> (from)&1u) << (to))
#define ASM_R8(reg)              (((reg)-8u) & 7u)

ASM uint32_t asm_imm6(int32_t imm) {
    return ASM_BIT(imm, 5, 12) | ((uint32_t)imm & 31) << 2;
}
ASM uint32_t asm_word_offset(uint32_t offset) { /* of c.lw, c.sw, c.flw, c.fsw */
    return ASM_BIT(offset, 2, 6) | (offset >> 3 & 7) << 10 | ASM_BIT(offset, 6, 5);
}
ASM uint32_t c_addi4spn(uint32_t r8, uint32_t imm) {
    return (imm >> 4 & 3) << 11 | (imm >> 6 & 15) << 7 | ASM_BIT(imm, 2, 6) | ASM_BIT(imm, 3, 5) |
           ASM_R8(r8) << 2;
}
ASM uint32_t c_lw(uint32_t r8, uint32_t base8, uint32_t offset) {
    return 2u << 13 | asm_word_offset(offset) | ASM_R8(base8) << 7 | ASM_R8(r8) << 2;
}
ASM uint32_t c_flw(uint32_t f8, uint32_t base8, uint32_t offset) {
    return 3u << 13 | asm_word_offset(offset) | ASM_R8(base8) << 7 | ASM_R8(f8) << 2;
}
ASM uint32_t c_sw(uint32_t r8, uint32_t base8, uint32_t offset) {
    return 6u << 13 | asm_word_offset(offset) | ASM_R8(base8) << 7 | ASM_R8(r8) << 2;
}
ASM uint32_t c_fsw(uint32_t f8, uint32_t base8, uint32_t offset) {
    return 7u << 13 | asm_word_offset(offset) | ASM_R8(base8) << 7 | ASM_R8(f8) << 2;
}
ASM uint32_t c_addi(uint32_t rd, int32_t imm) {
    return asm_imm6(imm) | rd << 7 | 1;
}
ASM uint32_t asm_cj(int32_t d) {
    return ASM_BIT(d, 11, 12) | ASM_BIT(d, 4, 11) | ASM_BIT(d, 9, 10) | ASM_BIT(d, 8, 9) |
           ASM_BIT(d, 10, 8) | ASM_BIT(d, 6, 7) | ASM_BIT(d, 7, 6) | ASM_BIT(d, 3, 5) |
           ASM_BIT(d, 2, 4) | ASM_BIT(d, 1, 3) | ASM_BIT(d, 5, 2);
}
ASM uint32_t c_jal(int32_t distance) {
    return 1u << 13 | asm_cj(distance) | 1;
}
ASM uint32_t c_j(int32_t distance) {
    return 5u << 13 | asm_cj(distance) | 1;
}
ASM uint32_t c_li(uint32_t rd, int32_t imm) {
    return 2u << 13 | asm_imm6(imm) | rd << 7 | 1;
}
ASM uint32_t c_addi16sp(int32_t imm) {
    return 3u << 13 | ASM_BIT(imm, 9, 12) | 2u << 7 | ASM_BIT(imm, 4, 6) | ASM_BIT(imm, 6, 5) |
           ASM_BIT(imm, 8, 4) | ASM_BIT(imm, 7, 3) | ASM_BIT(imm, 5, 2) | 1;
}
ASM uint32_t c_lui(uint32_t rd, int32_t imm) { /* bits 17 to 12 of the constant, as -32 to 31 */
    return 3u << 13 | asm_imm6(imm) | rd << 7 | 1;
}
ASM uint32_t c_srli(uint32_t r8, uint32_t amount) {
    return 4u << 13 | ASM_R8(r8) << 7 | amount << 2 | 1;
}
ASM uint32_t c_srai(uint32_t r8, uint32_t amount) {
    return 4u << 13 | 1u << 10 | ASM_R8(r8) << 7 | amount << 2 | 1;
}
ASM uint32_t c_andi(uint32_t r8, int32_t imm) {
    return 4u << 13 | asm_imm6(imm) | 2u << 10 | ASM_R8(r8) << 7 | 1;
}
#define ASM_CA(name, funct2)                                                                       \
    ASM uint32_t c_##name(uint32_t r8, uint32_t other8) {                                          \
        return 4u << 13 | 3u << 10 | ASM_R8(r8) << 7 | (funct2) << 5 | ASM_R8(other8) << 2 | 1;    \
    }
ASM_CA(sub, 0u)
ASM_CA(xor, 1u)
ASM_CA(or, 2u)
ASM_CA(and, 3u)
ASM uint32_t asm_cb(uint32_t funct3, uint32_t r8, int32_t d) {
    return funct3 << 13 | ASM_BIT(d, 8, 12) | ASM_BIT(d, 4, 11) | ASM_BIT(d, 3, 10) |
           ASM_R8(r8) << 7 | ASM_BIT(d, 7, 6) | ASM_BIT(d, 6, 5) | ASM_BIT(d, 2, 4) |
           ASM_BIT(d, 1, 3) | ASM_BIT(d, 5, 2) | 1;
}
ASM uint32_t c_beqz(uint32_t r8, int32_t distance) {
    return asm_cb(6, r8, distance);
}
ASM uint32_t c_bnez(uint32_t r8, int32_t distance) {
    return asm_cb(7, r8, distance);
}
ASM uint32_t c_slli(uint32_t rd, uint32_t amount) {
    return rd << 7 | amount << 2 | 2;
}
ASM uint32_t asm_lwsp(uint32_t funct3, uint32_t rd, uint32_t offset) {
    return funct3 << 13 | ASM_BIT(offset, 5, 12) | rd << 7 | (offset >> 2 & 7) << 4 |
           (offset >> 6 & 3) << 2 | 2;
}
ASM uint32_t c_lwsp(uint32_t rd, uint32_t offset) {
    return asm_lwsp(2, rd, offset);
}
ASM uint32_t c_flwsp(uint32_t fd, uint32_t offset) {
    return asm_lwsp(3, fd, offset);
}
ASM uint32_t asm_swsp(uint32_t funct3, uint32_t rs2, uint32_t offset) {
    return funct3 << 13 | (offset >> 2 & 15) << 9 | (offset >> 6 & 3) << 7 | rs2 << 2 | 2;
}
ASM uint32_t c_swsp(uint32_t rs2, uint32_t offset) {
    return asm_swsp(6, rs2, offset);
}
ASM uint32_t c_fswsp(uint32_t fs2, uint32_t offset) {
    return asm_swsp(7, fs2, offset);
}
ASM uint32_t c_jr(uint32_t rs1) {
    return 4u << 13 | rs1 << 7 | 2;
}
ASM uint32_t c_mv(uint32_t rd, uint32_t rs2) {
    return 4u << 13 | rd << 7 | rs2 << 2 | 2;
}
ASM uint32_t c_jalr(uint32_t rs1) {
    return 4u << 13 | 1u << 12 | rs1 << 7 | 2;
}
ASM uint32_t c_add(uint32_t rd, uint32_t rs2) {
    return 4u << 13 | 1u << 12 | rd << 7 | rs2 << 2 | 2;
}
#define C_EBREAK 0x9002u
#define C_NOP    0x0001u

/* A program under construction. */
struct program {
    uint32_t bytes;
    uint8_t byte[32768 + 16];
};

ASM void put16(struct program *p, uint32_t halfword) {
    p->byte[p->bytes++] = (uint8_t)halfword;
    p->byte[p->bytes++] = (uint8_t)(halfword >> 8);
}
ASM void put32(struct program *p, uint32_t word) {
    put16(p, word & 0xffff);
    put16(p, word >> 16);
}
/* Either, by its two lowest bits. */
ASM void put(struct program *p, uint32_t insn) {
    if ((insn & 3) == 3)
        put32(p, insn);
    else
        put16(p, insn);
}
/* rd = value, in one or two instructions. */
ASM void put_li(struct program *p, uint32_t rd, uint32_t value) {
    uint32_t upper = (value + 0x800) & 0xfffff000;
    int32_t lower = (int32_t)(value - upper);
    if (upper)
        put32(p, rv_lui(rd, upper));
    if (lower || !upper)
        put32(p, rv_addi(rd, upper ? rd : 0, lower));
}

#endif
