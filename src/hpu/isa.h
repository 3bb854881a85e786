/* Instructions: what the table isa.def says, decoded and printed. */
#ifndef SPIN_HPU_ISA_H
#define SPIN_HPU_ISA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum hpu_insn_id {
    HPU_ILLEGAL = 0,
#define INSN(id, name, operands, match, mask, ext, timing, shape, body) HPU_##id,
#include "hpu/isa.def"
#undef INSN
    HPU_INSN_COUNT
};

enum hpu_extension { HPU_EXT_I, HPU_EXT_M, HPU_EXT_A, HPU_EXT_F, HPU_EXT_Zicsr, HPU_EXT_Zifencei };

/* Classes that share a cost; the costs are in timing.c. */
enum hpu_timing_class {
    HPU_TIME_ALU,
    HPU_TIME_MUL,
    HPU_TIME_MULH,
    HPU_TIME_DIV,
    HPU_TIME_DIVU,
    HPU_TIME_LOAD,
    HPU_TIME_STORE,
    HPU_TIME_BRANCH,
    HPU_TIME_JUMP,
    HPU_TIME_AMO,
    HPU_TIME_CSR,
    HPU_TIME_FADD,
    HPU_TIME_FMA,
    HPU_TIME_FDIV,
    HPU_TIME_FMOVE,
    HPU_TIME_CLASSES
};

/* Which fields an instruction has. F and X name the register file, M a rounding mode. */
enum hpu_operands {
    OPERANDS_N,    /* none */
    OPERANDS_R,    /* rd, rs1, rs2 */
    OPERANDS_I,    /* rd, rs1, imm */
    OPERANDS_SH,   /* rd, rs1, shamt */
    OPERANDS_LD,   /* rd, imm(rs1) */
    OPERANDS_ST,   /* rs2, imm(rs1) */
    OPERANDS_B,    /* rs1, rs2, target */
    OPERANDS_U,    /* rd, imm */
    OPERANDS_J,    /* rd, target */
    OPERANDS_JR,   /* rd, imm(rs1) */
    OPERANDS_CSR,  /* rd, csr, rs1 */
    OPERANDS_CSRI, /* rd, csr, uimm */
    OPERANDS_AMO,  /* rd, rs2, (rs1) */
    OPERANDS_LR,   /* rd, (rs1) */
    OPERANDS_FLD,  /* fd, imm(rs1) */
    OPERANDS_FST,  /* fs2, imm(rs1) */
    OPERANDS_FR4,  /* fd, fs1, fs2, fs3, rm */
    OPERANDS_FRM,  /* fd, fs1, fs2, rm */
    OPERANDS_FR,   /* fd, fs1, fs2 */
    OPERANDS_F1M,  /* fd, fs1, rm */
    OPERANDS_XFM,  /* rd, fs1, rm */
    OPERANDS_XF,   /* rd, fs1 */
    OPERANDS_XFF,  /* rd, fs1, fs2 */
    OPERANDS_FXM,  /* fd, rs1, rm */
    OPERANDS_FX,   /* fd, rs1 */
};

/* One decoded instruction. For a CSR instruction `imm` is the register's number and rs1 the
 * register or the 5-bit constant; for a branch or jump it is the distance in bytes. */
struct hpu_insn {
    uint8_t id;
    uint8_t length; /* 2 or 4 bytes; also for ILLEGAL */
    uint8_t rd, rs1, rs2, rs3;
    uint8_t rm;
    int32_t imm;
};

struct hpu_insn_info {
    const char *name;
    uint8_t operands, extension, timing;
};

const struct hpu_insn_info *hpu_insn_info(unsigned id);

/* Decodes the instruction that starts with the low half of `word`; only the low 16 bits are looked
 * at when it is a compressed one. `with_float`: whether the card has F. */
struct hpu_insn hpu_decode(uint32_t word, bool with_float);

/* True when execution does not simply go on with the next instruction. */
bool hpu_insn_ends_block(const struct hpu_insn *insn);
/* The integer register that the instruction writes (0: none), and whether it reads one. */
unsigned hpu_insn_writes(const struct hpu_insn *insn);
bool hpu_insn_reads(const struct hpu_insn *insn, unsigned reg);

/* How many bytes a load, store or atomic moves; 0 for any other. */
uint32_t hpu_access_bytes(unsigned id);

/* "addi a0, a0, 4" into `text`; branches print their absolute target. Returns text. */
char *hpu_disassemble(const struct hpu_insn *insn, uint32_t pc, char *text, size_t room);
const char *hpu_register_name(unsigned reg);
const char *hpu_csr_name(unsigned csr); /* NULL when the card has no such register */

/* Control and status registers that a handler can reach. */
#define HPU_CSRS(X)                                                                                \
    X(0x001, "fflags")                                                                             \
    X(0x002, "frm")                                                                                \
    X(0x003, "fcsr")                                                                               \
    X(0xc00, "cycle")                                                                              \
    X(0xc02, "instret")                                                                            \
    X(0xc80, "cycleh")                                                                             \
    X(0xc82, "instreth")                                                                           \
    X(0xf14, "mhartid")

#endif
