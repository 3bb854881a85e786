#include "hpu/isa.h"

#include <stdio.h>
#include <string.h>

static const char *const x_names[32] = {"zero", "ra", "sp",  "gp",  "tp", "t0", "t1", "t2",
                                        "s0",   "s1", "a0",  "a1",  "a2", "a3", "a4", "a5",
                                        "a6",   "a7", "s2",  "s3",  "s4", "s5", "s6", "s7",
                                        "s8",   "s9", "s10", "s11", "t3", "t4", "t5", "t6"};
static const char *const f_names[32] = {"ft0", "ft1", "ft2",  "ft3",  "ft4", "ft5", "ft6",  "ft7",
                                        "fs0", "fs1", "fa0",  "fa1",  "fa2", "fa3", "fa4",  "fa5",
                                        "fa6", "fa7", "fs2",  "fs3",  "fs4", "fs5", "fs6",  "fs7",
                                        "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11"};
static const char *const rounding[8] = {", rne", ", rtz", ", rdn", ", rup", ", rmm", "", "", ""};

const char *hpu_register_name(unsigned reg) {
    return x_names[reg & 31];
}

const char *hpu_csr_name(unsigned csr) {
    switch (csr) {
#define ROW(number, name)                                                                          \
    case number:                                                                                   \
        return name;
        HPU_CSRS(ROW)
#undef ROW
    }
    return NULL;
}

char *hpu_disassemble(const struct hpu_insn *in, uint32_t pc, char *text, size_t room) {
    const struct hpu_insn_info *info = hpu_insn_info(in->id);
    const char *rd = x_names[in->rd], *rs1 = x_names[in->rs1], *rs2 = x_names[in->rs2];
    const char *fd = f_names[in->rd], *fs1 = f_names[in->rs1], *fs2 = f_names[in->rs2];
    const char *rm = rounding[in->rm & 7];
    uint32_t target = pc + (uint32_t)in->imm;
    char csr[16];
    int used = snprintf(text, room, info->operands == OPERANDS_N ? "%s" : "%-9s ", info->name);
    if (used < 0 || (size_t)used >= room)
        return text;
    char *rest = text + used;
    room -= (size_t)used;
    switch (info->operands) {
    case OPERANDS_R:
        snprintf(rest, room, "%s, %s, %s", rd, rs1, rs2);
        break;
    case OPERANDS_I:
    case OPERANDS_SH:
        snprintf(rest, room, "%s, %s, %d", rd, rs1, in->imm);
        break;
    case OPERANDS_LD:
    case OPERANDS_JR:
        snprintf(rest, room, "%s, %d(%s)", rd, in->imm, rs1);
        break;
    case OPERANDS_ST:
        snprintf(rest, room, "%s, %d(%s)", rs2, in->imm, rs1);
        break;
    case OPERANDS_B:
        snprintf(rest, room, "%s, %s, 0x%x", rs1, rs2, target);
        break;
    case OPERANDS_U:
        snprintf(rest, room, "%s, 0x%x", rd, (uint32_t)in->imm >> 12);
        break;
    case OPERANDS_J:
        snprintf(rest, room, "%s, 0x%x", rd, target);
        break;
    case OPERANDS_CSR:
    case OPERANDS_CSRI:
        snprintf(csr, sizeof csr, "0x%x", (unsigned)in->imm);
        if (hpu_csr_name((unsigned)in->imm))
            snprintf(csr, sizeof csr, "%s", hpu_csr_name((unsigned)in->imm));
        if (info->operands == OPERANDS_CSR)
            snprintf(rest, room, "%s, %s, %s", rd, csr, rs1);
        else
            snprintf(rest, room, "%s, %s, %u", rd, csr, in->rs1);
        break;
    case OPERANDS_AMO:
        snprintf(rest, room, "%s, %s, (%s)", rd, rs2, rs1);
        break;
    case OPERANDS_LR:
        snprintf(rest, room, "%s, (%s)", rd, rs1);
        break;
    case OPERANDS_FLD:
        snprintf(rest, room, "%s, %d(%s)", fd, in->imm, rs1);
        break;
    case OPERANDS_FST:
        snprintf(rest, room, "%s, %d(%s)", fs2, in->imm, rs1);
        break;
    case OPERANDS_FR4:
        snprintf(rest, room, "%s, %s, %s, %s%s", fd, fs1, fs2, f_names[in->rs3], rm);
        break;
    case OPERANDS_FRM:
    case OPERANDS_FR:
        snprintf(rest, room, "%s, %s, %s%s", fd, fs1, fs2,
                 info->operands == OPERANDS_FRM ? rm : "");
        break;
    case OPERANDS_F1M:
        snprintf(rest, room, "%s, %s%s", fd, fs1, rm);
        break;
    case OPERANDS_XFM:
    case OPERANDS_XF:
        snprintf(rest, room, "%s, %s%s", rd, fs1, info->operands == OPERANDS_XFM ? rm : "");
        break;
    case OPERANDS_XFF:
        snprintf(rest, room, "%s, %s, %s", rd, fs1, fs2);
        break;
    case OPERANDS_FXM:
    case OPERANDS_FX:
        snprintf(rest, room, "%s, %s%s", fd, rs1, info->operands == OPERANDS_FXM ? rm : "");
        break;
    }
    return text;
}
